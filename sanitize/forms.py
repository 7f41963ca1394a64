"""What is looked for in a full check: the forms of every value that had to go, in passes that each fit in memory.

A value's forms here are its spellings, its kind's identity form (an IBAN without blanks), its compatibility form, and, for numbers, its
digits alone; what a text may do to them besides is undone by sanitize/decoded.py. Values are parted into passes by `value_id`, so that a
pass holds all forms of its values, and memory is that of one pass however many values there are.

A form is `short` where it says little: fewer than six bytes, a single word of letters, fewer than nine digits. Such a form is looked
for as it is spelled, letter case and all, and reported apart.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.decoded import VIEWS
from sanitize.kinds.kind import every_kind
from sanitize.matcher import Flagged, respelled
from sanitize.spans import ascii_lower

I64 = npt.NDArray[np.int64]
FULL = ("exact", "case-folded", "identity", "NFKC", *VIEWS, "digest")
PASS = 500_000  # spellings of one pass: some 250 MB in each process that looks for them
_SHORT, _SHORT_DIGITS = 6, 9
_ROWS = pa.schema(
    [
        pa.field("form", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("what", pa.int8()),
        pa.field("spelled", pa.large_string()),
    ]
)
_FURTHER = pa.schema([field for field in _ROWS if field.name in ("form", "kind", "value_id")])
_PLAIN, _IDENTITY, _DIGITS, _REAL = 0, 1, 2, 3  # _REAL: a value that need not go, that no replacement may be all the same


def write_passes(
    values: Sequence[Path], edited: Sequence[str], folder: Path, size: int = PASS, also: Sequence[int] = (), alone: Sequence[int] = ()
) -> tuple[list[Path], int]:
    """The passes over the values in the vault, as files in `folder`, and how many distinct values have to go: those of the edited kinds
    without those whose `value_id` is in `alone`, and those in `also`."""
    count = max(1, -(-sum(pq.read_metadata(path).num_rows for path in values) // size))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    parts = [folder / f"part-{number:04d}.arrow" for number in range(count)]
    writers = [pa.ipc.new_stream(part, _ROWS) for part in parts]
    try:
        for path in values:
            rows = _forms_of(pl.DataFrame(pq.read_table(path, partitioning=None)), edited, also, alone)
            of = rows["value_id"].to_numpy() % count
            for number, writer in enumerate(writers):
                mine = rows if count == 1 else rows.filter(pl.Series(of == number))
                writer.write_table(mine.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_ROWS))
    finally:
        for writer in writers:
            writer.close()
    made, distinct = [], 0
    for number, part in enumerate(parts):
        with pa.OSFile(str(part)) as file:
            rows = pl.DataFrame(pa.ipc.open_stream(file).read_all())
        distinct += int(rows.filter(pl.col("what") == _PLAIN)["value_id"].n_unique())
        rows = rows.unique(["form", "kind", "what"], keep="first", maintain_order=True).sort("form", "kind", "what")
        made.append(folder / f"pass-{number:04d}.parquet")
        pq.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_ROWS), made[-1], compression="lz4")
        part.unlink()
    return made, distinct


def write_further(
    values: Sequence[Path], edited: Sequence[str], folder: Path, also: Sequence[int] = (), alone: Sequence[int] = ()
) -> tuple[Path, Path]:
    """The forms of a full check that a sweep can take out of a text, in two files that `Flagged.read` takes: identity forms that no
    spelling is, and the digits of numbers. Short ones are left out: they say little."""
    rows = [
        _forms_of(pl.DataFrame(pq.read_table(path, partitioning=None)), edited, also, alone).filter(
            pl.col("what").is_in([_IDENTITY, _DIGITS])
        )
        for path in values
    ]
    every = pl.concat(rows).unique(["form", "kind", "what"], keep="first", maintain_order=True).sort("form", "kind")
    size = pl.col("form").str.len_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, what, telling in (
        ("identity", _IDENTITY, (size >= _SHORT) & ~pl.col("form").str.contains(r"\A\p{L}+\z")),
        ("digits", _DIGITS, size >= _SHORT_DIGITS),
    ):
        some = every.filter((pl.col("what") == what) & telling).select("form", "kind", "value_id")
        made.append(folder / f"{name}.parquet")
        pq.write_table(some.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_FURTHER), made[-1], compression="lz4")
    return made[0], made[1]


def _forms_of(frame: pl.DataFrame, edited: Sequence[str], also: Sequence[int], alone: Sequence[int]) -> pl.DataFrame:
    """The rows of a pass for a table of values."""
    numbers = {name: number for number, name in enumerate(every_kind())}
    frame = frame.with_columns(
        pl.col("kind").cast(pl.String), pl.col("value_id"), normal=pl.coalesce("normalised", "value"), lower=ascii_lower(frame["value"])
    )
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
            pl.col("value").alias("spelled"),
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
    found = [
        rows(going, "lower", _PLAIN),
        rows(wide, "form", _PLAIN),
        rows(normal.filter("goes", telling, pl.col("form") != pl.col("lower")), "form", _IDENTITY),
        rows(number, "digits", _DIGITS),
        rows(home, "digits", _DIGITS),
        rows(frame.filter(~pl.col("goes")), "lower", _REAL),
        rows(normal.filter(pl.col("form") != pl.col("lower")), "form", _REAL),
    ]
    return pl.concat(found).filter(pl.col("form") != "")


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
        return _needles(path, path.stat().st_mtime_ns)

    @property
    def wide(self) -> int:
        """The longest form, in bytes."""
        return int(max(self.plain.lengths.max(initial=0), self.digits.lengths.max(initial=0)))

    def spelled(self, rows: I64) -> list[bytes]:
        """How some of the plain forms are written in the corpus: read from the file again, for the few that matter."""
        column = pq.read_table(self.path, columns=["what", "spelled"], partitioning=None)
        column = column.filter(pc.less_equal(column.column("what"), _IDENTITY)).column("spelled")
        return [str(text).encode() for text in column.take(pa.array(rows)).to_pylist()]

    def digests(self, known: set[str]) -> list[tuple[str, str]]:
        """Which of the digests in `known` are of a value of this pass: (digest, kind)."""
        names = list(every_kind())
        table = pq.read_table(self.path, columns=["form", "kind", "what", "spelled"], partitioning=None)
        table = table.filter(pc.less(table.column("what"), _REAL))
        found: dict[str, str] = {}
        # a loop over values: hash functions have no columnar implementation, and it is run only where something looks like a digest
        for form, kind, what, spelled in zip(*(column.to_pylist() for column in table.columns), strict=True):
            for text in {form, spelled} if what != _DIGITS else {form, f"+{form}"}:
                raw = text.encode()
                for make in (hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.sha512):
                    word = make(raw, usedforsecurity=False).hexdigest()
                    if word in known:
                        found[word] = names[kind]
        return sorted(found.items())

    def collisions(self, replacements: pl.DataFrame) -> pl.DataFrame:
        """Those rows of (kind, doc_no, form, normal) whose replacement is a value of this pass, as it is or as its kind reads it; with the
        `value_id` of each such value."""
        numbers = {name: number for number, name in enumerate(every_kind())}
        real = pl.DataFrame(pq.read_table(self.path, columns=["form", "kind", "what", "value_id"], partitioning=None))
        real = real.filter(pl.col("what") != _DIGITS)
        asked = replacements.with_columns(number=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
        same = asked.join(real.select("form", "value_id").unique(), on="form")
        alike = asked.join(real.select("value_id", normal="form", number="kind").unique(), on=["normal", "number"])
        return pl.concat([same, alike]).unique(["kind", "form", "value_id"])


@functools.lru_cache(maxsize=1)
def _needles(path: Path, _time: int) -> Needles:
    table = pq.read_table(path, columns=["form", "kind", "value_id", "what"], partitioning=None).combine_chunks()
    what = np.asarray(table.column("what"))

    def some(which: npt.NDArray[np.bool_]) -> Flagged:
        rows = table.filter(pa.array(which)).combine_chunks()
        forms = rows.column("form").chunk(0) if rows.num_rows else pa.array([], pa.large_string())
        return Flagged(forms, np.asarray(rows.column("kind"), np.int32), np.asarray(rows.column("value_id"), np.int64))

    plain, digits = some(what <= _IDENTITY), some(what == _DIGITS)
    words = pl.Series(table.column("form").filter(pa.array(what <= _IDENTITY))).str.contains(r"\A[\p{L}\p{M}]+\z")
    short = (plain.lengths < _SHORT) | words.to_numpy()
    common = np.zeros(len(short), np.bool_)
    for number, one in enumerate(every_kind().values()):
        mine = np.flatnonzero(plain.kind == number)
        if one.telling is not None and len(mine):
            spelled = pl.Series(table.column("form").filter(pa.array(what <= _IDENTITY))).gather(mine)
            common[mine] = ~one.telling(spelled).to_numpy()
    return Needles(plain, digits, what[what <= _IDENTITY] == _IDENTITY, short, common, digits.lengths < _SHORT_DIGITS, path)
