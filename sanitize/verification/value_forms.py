"""What is looked for in a full check: the forms of every value that had to go, in passes that each fit in memory.

A value's forms here are its spellings, its kind's identity form (an IBAN without blanks), its compatibility form, and, for numbers, its
digits alone; what a text may do to them besides is undone by sanitize/text/decodings.py. Values are parted into passes by `value_id`, so
that a
pass holds all forms of its values, and memory is that of one pass however many values there are.

A form is `short` where it says little: fewer than six bytes, a single word of letters, fewer than nine digits. Such a form is looked
for as it is spelled, letter case and all, and reported apart.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import ascii_lower, within
from sanitize.kinds.kind import every_kind, parted
from sanitize.storage.row_partitions import spread
from sanitize.text.decodings import VIEWS
from sanitize.text.literal_search import FEW, RANGE, Flagged, batches_of, respelled

I64 = npt.NDArray[np.int64]
FULL = ("exact", "case-folded", "identity", "NFKC", *VIEWS, "digest")
EACH = 600  # bytes that a form takes while a pass is made: measured for addresses of 35 bytes
_BATCH, _FEWER = 100_000, 10_000  # forms that are looked through at a time
_DIGESTS = (hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.sha512)
_MASKS = ("identity", "short", "common", "short_digits")
_SHORT, _SHORT_DIGITS = 6, 9
_WORD = r"\A[\p{L}\p{M}]+\z"
_Forms = TypeVar("_Forms", pl.Series, pl.Expr)
SURE = 8  # bytes that do not come about by chance in arbitrary ones
_BY_CHANCE = ("base64", "UTF-16")  # views of bytes that need not be text
_ROWS = pa.schema(
    [
        pa.field("form", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("what", pa.int8()),
        pa.field("spelled", pa.large_string()),
    ]
)
FURTHER = pa.schema([field for field in _ROWS if field.name in ("form", "kind", "value_id")])
_NONE = pl.DataFrame(schema=pl.Schema(_ROWS))
_PLAIN, _IDENTITY, _DIGITS, _REAL = 0, 1, 2, 3  # _REAL: a value that need not go, that no replacement may be all the same


def write_passes(
    values: Sequence[Path],
    edited: Sequence[str],
    folder: Path,
    memory: int = 1 << 30,
    also: Sequence[int] = (),
    alone: Sequence[int] = (),
) -> tuple[list[Path], int]:
    """The passes over the values in the vault, as folders in `folder` that `Needles.read` takes, each for about so many bytes of memory,
    and how many distinct values have to go: those of the edited kinds without those whose `value_id` is in `alone`, and those in `also`.

    The forms are spread over files by their value, and gathered file by file.
    """
    most = max(FEW, memory // EACH)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made: list[Path] = []
    distinct, mine, size = 0, [_NONE], 0

    def write() -> None:
        made.append(folder / f"pass-{len(made):04d}")
        _write_pass(pl.concat(mine), made[-1])

    with spread(folder / "parts", _ROWS, _files(values, min(RANGE, -(-most // 4)))) as parts:
        for frame in batches_of(values):
            rows = _forms_of(frame, edited, also, alone)
            parts.add(rows, rows["value_id"].to_numpy() % parts.count)
        for rows in parts.take():
            rows = rows.unique(["form", "kind", "what"], keep="first", maintain_order=True)
            distinct += int(rows.filter(pl.col("what") == _PLAIN)["value_id"].n_unique())
            if size and size + rows.height > most:
                write()
                mine, size = [_NONE], 0
            mine.append(rows)
            size += rows.height
        if size or not made:
            write()
    return made, distinct


def _files(values: Sequence[Path], size: int) -> int:
    """Over how many files the values are spread, if one is to have so many."""
    rows: int = sum(pq.read_metadata(path).num_rows for path in values)
    return -(-rows // max(1, size))


def _write_pass(rows: pl.DataFrame, folder: Path) -> None:
    """The forms of one pass, and what looks for them where they are many: made ready once, for all processes to share."""
    folder.mkdir()
    rows = rows.unique(["form", "kind", "what"], keep="first", maintain_order=True).sort("form", "kind", "what")
    for name, what in (("plain", [_PLAIN, _IDENTITY]), ("digits", [_DIGITS]), ("real", [_REAL])):
        some = rows.filter(pl.col("what").is_in(what)).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_ROWS).combine_chunks()
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, _ROWS) as out:
            out.write_table(some)
    del some
    if rows.height > FEW:
        del rows
        Needles.made(folder).save()


def write_further(
    values: Sequence[Path], edited: Sequence[str], folder: Path, also: Sequence[int] = (), alone: Sequence[int] = ()
) -> tuple[Path, Path]:
    """The forms of a full check that a sweep can take out of a text, in two files that `ready` and `Flagged.read` take: identity forms that
    no spelling is, and the digits of numbers. Short ones are left out: they say little."""
    telling = {
        "identity": (pl.col("what") == _IDENTITY) & ~_short(pl.col("form")),
        "digits": (pl.col("what") == _DIGITS) & (pl.col("form").str.len_bytes() >= _SHORT_DIGITS),
    }
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{name}.parquet" for name in telling]
    with contextlib.ExitStack() as files:
        writers = [files.enter_context(pq.ParquetWriter(path, FURTHER, compression="lz4")) for path in made]
        parts = files.enter_context(spread(folder / "parts", _ROWS, _files(values, RANGE)))
        for frame in batches_of(values):
            rows = _forms_of(frame, edited, also, alone, only=(_IDENTITY, _DIGITS))
            parts.add(rows, rows["form"].hash().to_numpy() % np.uint64(parts.count))
        for rows in parts.take():
            rows = rows.unique(["form", "kind", "what"], keep="first", maintain_order=True).sort("form", "kind")
            for writer, tells in zip(writers, telling.values(), strict=True):
                some = rows.filter(tells).select(FURTHER.names)
                # one row group a part, so that all rows of a form are in one
                writer.write_table(some.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(FURTHER), row_group_size=max(1, some.height))
    return made[0], made[1]


def _forms_of(
    frame: pl.DataFrame, edited: Sequence[str], also: Sequence[int], alone: Sequence[int], only: Sequence[int] = (0, 1, 2, 3)
) -> pl.DataFrame:
    """The rows of a pass for a table of values, of some sorts `only`."""
    numbers = {name: number for number, name in enumerate(every_kind())}
    frame = frame.with_columns(normal=pl.coalesce("normalised", "value"), lower=ascii_lower(frame["value"]))
    frame = frame.with_columns(
        number=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32),
        goes=(pl.col("kind").is_in(list(edited)) & ~pl.col("value_id").is_in(pl.Series(alone, dtype=pl.Int64).implode()))
        | pl.col("value_id").is_in(pl.Series(also, dtype=pl.Int64).implode()),
    )
    going = frame.filter("goes")

    def rows(frame: pl.DataFrame, form: str, what: int) -> pl.DataFrame:
        return frame.select(
            pl.col(form).alias("form"),
            pl.col("number").alias("kind"),
            "value_id",
            pl.lit(what, pl.Int8).alias("what"),
            (pl.col("value") if what != _REAL else pl.lit("")).alias("spelled"),  # asked of what had to go alone
        )

    wide = respelled(going.with_columns(form="value"))
    normal = frame.with_columns(form=ascii_lower(frame["normal"]))
    # what an identity form must be to stand for its value: not `@example.com`, which is that of `..@example.com`
    telling = ~pl.col("normal").str.contains(r"\A[+]?[0-9]+(?:x[0-9]+)?\z") & pl.col("normal").str.contains(
        r"\A[\p{L}\p{N}].*[\p{L}\p{N}]\z"
    )
    # a number's identity form is digits, with a plus before and an extension behind it where it has them
    number = going.with_columns(digits=pl.col("normal").str.extract(r"\A[+]?([0-9]{7,})(?:x[0-9]+)?\z")).filter(
        pl.col("digits").is_not_null()
    )
    home = number.filter(pl.col("normal").str.contains(r"\A[+]1[0-9]{10}(?:x|\z)")).with_columns(digits=pl.col("digits").str.slice(1))
    found = (
        (going, "lower", _PLAIN),
        (wide, "form", _PLAIN),
        (normal.filter("goes", telling, pl.col("form") != pl.col("lower")), "form", _IDENTITY),
        (number, "digits", _DIGITS),
        (home, "digits", _DIGITS),
        (frame.filter(~pl.col("goes")), "lower", _REAL),
        (normal.filter(pl.col("form") != pl.col("lower")), "form", _REAL),
    )
    return pl.concat([rows(*one) for one in found if one[2] in only]).filter(pl.col("form") != "")


@dataclass(frozen=True, repr=False)
class Needles:
    """One pass: `plain` and `digits` to be looked for, which forms of each are short, and how short ones are spelled."""

    plain: Flagged
    digits: Flagged
    identity: npt.NDArray[np.bool_]  # of the plain forms: the kind's identity form, spelled otherwise in the corpus
    short: npt.NDArray[np.bool_]
    common: npt.NDArray[np.bool_]  # of the plain forms: words first, by their kind's rule; wherever they stand they say little
    short_digits: npt.NDArray[np.bool_]
    path: Path

    @classmethod
    def read(cls, path: Path) -> Needles:
        """The needles of a pass; kept in this process for the next task."""
        stat = path.stat()
        return _needles(path, stat.st_mtime_ns, stat.st_ino)

    @classmethod
    def made(cls, path: Path) -> Needles:
        """The same, made ready from the forms of the pass."""
        tables = [_mapped(path, name) for name in ("plain", "digits")]
        columns = ([table.column(name).chunk(0) for name in FURTHER.names] for table in tables)
        plain, digits = (Flagged(form, np.asarray(kind, np.int32), np.asarray(value_id, np.int64)) for form, kind, value_id in columns)
        forms = pl.Series(tables[0].column("form"))
        short = _short(forms).to_numpy()
        common = np.zeros(len(short), np.bool_)
        for number, one in enumerate(every_kind().values()):
            mine = np.flatnonzero(plain.kind == number)
            if one.telling is not None and len(mine):
                common[mine] = ~one.telling(forms.gather(mine)).to_numpy()
        identity = np.asarray(tables[0].column("what")) == _IDENTITY
        return cls(plain, digits, identity, short, common, digits.lengths < _SHORT_DIGITS, path)

    def save(self) -> None:
        """Write what was made ready beside the forms, where `read` finds it."""
        self.plain.save(self.path / "plain")
        self.digits.save(self.path / "digits")
        for name in _MASKS:
            np.save(self.path / name, getattr(self, name))

    @property
    def wide(self) -> int:
        """The longest form, in bytes."""
        return int(max(self.plain.lengths.max(initial=0), self.digits.lengths.max(initial=0)))

    def spelled(self, rows: I64) -> list[bytes]:
        """How some of the plain forms are written in the corpus: read from the file, for the few that matter."""
        column = _mapped(self.path, "plain").column("spelled").chunk(0)
        return [str(text).encode() for text in column.take(pa.array(rows)).to_pylist()]

    def digests(self, known: npt.NDArray[np.uint64]) -> dict[str, tuple[int, int]]:
        """The digests of values of this pass whose first eight bytes are in `known` (sorted): number of the kind and `value_id`."""
        found: dict[str, tuple[int, int]] = {}
        for batch in (batch for name in ("plain", "digits") for batch in _mapped(self.path, name).to_batches(max_chunksize=_FEWER)):
            words: list[str] = []
            whose: list[tuple[int, int]] = []
            # a loop over values: hash functions have no columnar implementation, and it is run only where something looks like a digest
            for form, kind, value_id, what, spelled in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for text in {form, spelled} if what != _DIGITS else {form, f"+{form}"}:
                    raw = text.encode()
                    words += [make(raw, usedforsecurity=False).hexdigest() for make in _DIGESTS]
                    whose += [(kind, value_id)] * len(_DIGESTS)
            some = np.flatnonzero(np.isin(heads_of(pl.Series(words, dtype=pl.String)), known)).tolist()
            found.update((words[place], whose[place]) for place in some)
        return found

    def collisions(self, replacements: pl.DataFrame) -> pl.DataFrame:
        """Those rows of (kind, doc_no, form, normal) whose replacement is a value of this pass, as it is or as its kind reads it; with the
        `value_id` of each such value."""
        numbers = {name: number for number, name in enumerate(every_kind())}
        asked = replacements.with_columns(number=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
        wanted = pl.concat([asked["form"], asked["normal"]]).unique().implode()
        batches = (batch for name in ("plain", "real") for batch in _mapped(self.path, name).to_batches(max_chunksize=_BATCH))
        some = (pl.DataFrame(batch.select(FURTHER.names)).filter(pl.col("form").is_in(wanted)) for batch in batches)
        real = pl.concat([pl.DataFrame(schema=pl.Schema(FURTHER)), *some])
        same = asked.join(real.select("form", "value_id").unique(), on="form")
        alike = asked.join(real.select("value_id", normal="form", number="kind").unique(), on=["normal", "number"])
        return pl.concat([same, alike]).unique(["kind", "form", "value_id"])


def tells(flagged: Flagged, rows: I64, view: str) -> npt.NDArray[np.bool_]:
    """True for plain forms that say enough to be theirs wherever a view shows them: neither short nor there by chance."""
    lengths = flagged.lengths[rows]
    data = flagged.data[within(flagged.offsets[rows], flagged.offsets[rows] + lengths)]
    forms = parted(data, np.concatenate([[0], np.cumsum(lengths)]))
    good: npt.NDArray[np.bool_] = no_chance(lengths, view) & ~_short(forms).to_numpy()
    return good


def no_chance(lengths: I64, view: str) -> npt.NDArray[np.bool_]:
    """True for forms too long to come about by chance in what a view shows."""
    return lengths >= (SURE if view in _BY_CHANCE else 0)


def _short(forms: _Forms) -> _Forms:
    """True for plain forms that say little."""
    return (forms.str.len_bytes() < _SHORT) | forms.str.contains(_WORD)


def heads_of(words: pl.Series) -> npt.NDArray[np.uint64]:
    """The first eight bytes of digests, each as a number."""
    return np.asarray(words.str.head(16).str.to_integer(base=16, dtype=pl.UInt64).to_numpy(), np.uint64)


def _mapped(path: Path, name: str) -> pa.Table:
    """The forms of one sort in a pass, in one piece: pages of a file, read when they are looked at."""
    table = pa.ipc.open_file(pa.memory_map(str(path / f"{name}.arrow"))).read_all()
    return table if table.num_rows else pa.table([pa.array([], field.type) for field in _ROWS], schema=_ROWS)


@functools.lru_cache(maxsize=1)
def _needles(path: Path, _time: int, _inode: int) -> Needles:
    if not (path / "plain").is_dir():
        return Needles.made(path)
    plain, digits = (Flagged.opened(path / name) for name in ("plain", "digits"))
    return Needles(plain, digits, **{name: np.load(path / f"{name}.npy", mmap_mode="r") for name in _MASKS}, path=path)
