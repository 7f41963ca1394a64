"""Find's second round: every further place of what is known, once the whole corpus was looked at.

Known are the names of people that stand beside their addresses or in header lines (find/names.py), the values of numbers and addresses in
their spellings, and a user's list (`--known FILE`: CSV, TSV or JSON lines with `kind` and `value`, of any kind). A name is found in any
ASCII letter case, across any run of white space, as `Ann Roe` and as `Roe, Ann`; a value in full-width letters, too.

A single word is taken only where a user's list has it, and then as it is spelled there or in capitals: `Will`, `May` and `Mark` are words
first. Memory is that of the distinct values, as in the leak check; a pass costs about as much as that check.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr

from sanitize.core.arrow_buffers import I64, Buffers, among, arrow, ascii_lower, cut_nested, table_of
from sanitize.core.keys import Key, value_ids
from sanitize.core.parts import Column, Finder, Spans
from sanitize.errors import UsageError, nearest
from sanitize.kinds.kind import every_kind
from sanitize.text.literal_search import Flagged, Matches, respelled

NAME = "known"
SURE = 0.9  # names of this score or more were told by a header line, and are looked for everywhere
_LISTED, _MINED = 1.0, 0.95
_TURNED = 0.65  # `Roe, Ann`: less sure than the names beside each other in `Bob Roe, Ann Lee`, surer than two words alone
# kinds whose values say by themselves what they are, wherever they stand
_SPELLED = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN")
_PERSON = "PERSON"
_SCHEMA = pa.schema(
    [
        pa.field("form", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("score", pa.float32()),
        pa.field("spelled", pa.large_string()),  # of a single word: how it must be written; else null
    ]
)
_TOLD = (pl.lit(_MINED, pl.Float32).alias("score"), pl.lit(None, pl.String).alias("spelled"))
_WHITE = table_of(b" \t\n\v\f\r")


class Known(Finder):
    """Settings: none. What it looks for was gathered by `gather`."""

    VERSION: ClassVar[int] = 2
    second: ClassVar[bool] = True
    _forms: _Forms | None = PrivateAttr(default=None)

    def open(self, key: Key, gathered: Path | None) -> None:
        """Load what was gathered; the next task of this process finds it loaded."""
        assert gathered is not None
        stat = gathered.stat()
        self._forms = _read(gathered, stat.st_mtime_ns, stat.st_ino)

    def run(self, column: Column) -> Spans:
        """Every place of a known form that no span of its kind holds already."""
        assert self._forms is not None
        forms, folded = self._forms, Folded(Buffers.of(column.texts))
        both = [forms.flagged.find(folded.texts), forms.flagged.find_compatible(folded.texts)]
        joined = Matches(*(np.concatenate([getattr(one, name) for one in both]) for name in ("text_no", "start", "stop", "form")))
        text_no, start, stop = folded.original(joined)
        form = joined.form
        places = pl.DataFrame({"text_no": text_no, "start": start, "stop": stop, "kind": forms.flagged.kind[form]})
        once = places.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()  # two forms may match at one place
        text_no, start, stop, form = text_no[once], start[once], stop[once], form[once]
        good = forms.spelled_so(column.texts, text_no, start, stop, form) & ~_held(column.found, text_no, start, stop, forms.kind_of(form))
        text_no, start, stop, form = text_no[good], start[good], stop[good], form[good]
        return Spans(
            text_no=text_no,
            start_byte=start,
            stop_byte=stop,
            kind=forms.flagged.kind[form],
            kinds=tuple(forms.flagged.names),
            score=forms.score[form],
            value_id=forms.flagged.value_id[form],
        )


class _Forms:
    """What is looked for: the matcher over all forms, and for each the score and, of a single word, its spelling."""

    def __init__(self, table: pa.Table) -> None:
        forms = table.column("form").chunk(0) if table.num_rows else pa.array([], pa.large_string())
        self.flagged = Flagged(forms, np.asarray(table.column("kind"), np.int32), np.asarray(table.column("value_id"), np.int64))
        self.score = np.asarray(table.column("score"), np.float32)
        self.spelled = pl.Series(table.column("spelled"), dtype=pl.String)
        self.names = np.array(self.flagged.names, object)

    def kind_of(self, form: I64) -> npt.NDArray[np.object_]:
        """The kind of each form, by name."""
        found: npt.NDArray[np.object_] = self.names[self.flagged.kind[form]]
        return found

    def spelled_so(self, texts: pa.LargeStringArray, text_no: I64, start: I64, stop: I64, form: I64) -> npt.NDArray[np.bool_]:
        """False for a single word that is written in another letter case than in the list, and not in capitals."""
        good = np.ones(len(form), np.bool_)
        single = np.flatnonzero(self.spelled.is_not_null().to_numpy()[form]) if len(form) else np.empty(0, np.int64)
        if len(single):
            buffers = Buffers.of(texts)
            base = buffers.offsets[text_no[single]]
            low, high = base + start[single], base + stop[single]
            order = np.lexsort((-high, low))
            there = np.empty(len(single), object)
            there[order] = cut_nested(buffers, low[order], high[order]).to_numpy(zero_copy_only=False)
            wanted = self.spelled.gather(form[single]).str.normalize("NFC")
            written = pl.Series(there, dtype=pl.String).str.replace_all(r"\s+", " ").str.normalize("NFC")
            good[single] = ((written == wanted) | ((written == wanted.str.to_uppercase()) & (wanted.str.len_chars() > 1))).to_numpy()
        return good


@functools.lru_cache(maxsize=2)
def _read(path: Path, _time: int, _inode: int) -> _Forms:
    return _Forms(pq.read_table(path, partitioning=None).combine_chunks())


class Folded:
    """A column of texts in which every run of white space is one blank, and the way back."""

    def __init__(self, buffers: Buffers) -> None:
        white = among(buffers.data, _WHITE)
        stays = ~white
        if len(white):
            stays[1:] |= ~white[:-1]
            stays[0] = True
            begins = buffers.offsets[:-1][buffers.lengths > 0]
            stays[begins] = True
        self.base = buffers.offsets
        if stays.all() and not (white & (buffers.data != 32)).any():
            self.place, self.offsets, self.texts = None, buffers.offsets, buffers.column()
            return
        self.place = np.flatnonzero(stays)
        data = np.where(white, np.uint8(32), buffers.data)[self.place]
        self.offsets = np.searchsorted(self.place, buffers.offsets)
        self.texts = Buffers(data, self.offsets).column()

    def original(self, found: Matches) -> tuple[I64, I64, I64]:
        """Text, first byte and byte after each match, in the texts as they are."""
        if self.place is None or not len(found.form):
            return found.text_no, found.start, found.stop
        shift, base = self.offsets[found.text_no], self.base[found.text_no]
        return found.text_no, self.place[found.start + shift] - base, self.place[found.stop + shift - 1] + 1 - base


def _held(found: pl.DataFrame, text_no: I64, start: I64, stop: I64, kind: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
    """True for spans inside one of their kind that was found before."""
    inside = np.zeros(len(text_no), np.bool_)
    unit = np.int64(1) << 31
    begin, end = text_no * unit + start, text_no * unit + stop
    for name in set(kind.tolist()):
        there = found.filter(pl.col("kind") == name)
        if not there.height:
            continue
        low = there["text_no"].to_numpy() * unit + there["start_byte"].to_numpy()
        high = np.maximum.accumulate(there["text_no"].to_numpy() * unit + there["stop_byte"].to_numpy())
        rows = np.flatnonzero(kind == name)
        at = np.searchsorted(low, begin[rows], side="right") - 1
        inside[rows] = (at >= 0) & (high[np.maximum(at, 0)] >= end[rows])
    return inside


def gather(values: Sequence[Path], occurrences: Sequence[Path], listed: pl.DataFrame | None, key: Key, out: Path) -> int:
    """Write the forms that the second round looks for, from what the first one found and a user's list; returns how many."""
    numbers = {name: number for number, name in enumerate(every_kind())}
    frames = [_of_list(listed, key)] if listed is not None else []
    sure = _sure(occurrences)
    # loops over the tasks' files of distinct values, not over documents
    for path in values:
        frame = pl.DataFrame(pq.read_table(path, partitioning=None)).with_columns(pl.col("kind").cast(pl.String))
        frame = frame.with_columns(pl.coalesce("normalised", "value").alias("normalised"))
        frames.append(_names(frame.filter((pl.col("kind") == _PERSON) & pl.col("value_id").is_in(sure.implode()))))
        frames.append(_plain(frame.filter(pl.col("kind").is_in(list(_SPELLED)))))
    empty = pl.DataFrame(schema={"form": pl.String, "kind": pl.String, "value_id": pl.Int64, "score": pl.Float32, "spelled": pl.String})
    every = pl.concat([empty, *(frame.select(empty.columns) for frame in frames)])
    every = pl.concat([every.with_columns(ascii_lower(every["form"])), respelled(every)])
    every = every.with_columns(pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
    every = every.filter(pl.col("form").str.len_bytes() > 1).sort("form", "kind", -pl.col("score"), "value_id", "spelled", nulls_last=True)
    every = every.unique(["form", "kind"], keep="first", maintain_order=True)
    pq.write_table(every.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_SCHEMA), out, compression="lz4")
    return every.height


def _sure(occurrences: Sequence[Path]) -> pl.Series:
    """The names that header lines told."""
    found = [pl.Series("value_id", [], pl.Int64)]
    for path in occurrences:
        table = pq.read_table(path, columns=["kind", "value_id", "score", "finder"], partitioning=None)
        frame = pl.DataFrame(table).with_columns(pl.col("kind").cast(pl.String), pl.col("finder").cast(pl.String))
        found.append(
            frame.filter((pl.col("kind") == _PERSON) & (pl.col("score") >= SURE) & (pl.col("finder") == "names"))["value_id"].unique()
        )
    return pl.concat(found).unique().sort()


def _names(frame: pl.DataFrame) -> pl.DataFrame:
    """The forms of people's names: as spelled, as `ann roe` and as `roe, ann`; only names that are two words of two letters or more."""
    normal = pl.col("normalised")
    frame = frame.filter(
        normal.str.contains(" ", literal=True)
        & (normal.str.count_matches(r"[\p{L}\p{M}]{2,}") >= 2)
        & (normal.str.count_matches(r"\p{L}") >= 5)
    )
    spelled = pl.col("value").str.replace_all(r"\s+", " ")
    turned = normal.str.replace(r"\A(.+) (\S+)\z", "$2, $1")
    # a letter beyond ASCII is looked for as it is spelled: each case is a form
    forms = [
        spelled,
        normal,
        normal.str.to_uppercase(),
        normal.str.to_titlecase(),
        turned,
        turned.str.to_uppercase(),
        turned.str.to_titlecase(),
    ]
    turn = [_MINED] * 4 + [_TURNED] * 3
    rest: list[Any] = [pl.lit(_PERSON).alias("kind"), "value_id", pl.lit(None, pl.String).alias("spelled")]
    return pl.concat(
        [frame.select(form.alias("form"), *rest, pl.lit(score, pl.Float32).alias("score")) for form, score in zip(forms, turn, strict=True)]
    )


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The spellings of values."""
    return frame.select(pl.col("value").alias("form"), "kind", "value_id", *_TOLD)


def _of_list(listed: pl.DataFrame, key: Key) -> pl.DataFrame:
    """The forms of a user's list. A single word keeps its spelling."""
    frames = [pl.DataFrame(schema={"form": pl.String, "kind": pl.String, "value_id": pl.Int64, "score": pl.Float32, "spelled": pl.String})]
    for (name,), rows in listed.group_by("kind", maintain_order=True):
        value = rows["value"].str.replace_all(r"\s+", " ").str.strip_chars()
        form = every_kind()[str(name)].normalise(value)
        told = pl.DataFrame({"value": value, "normalised": form, "value_id": value_ids(arrow(form), str(name), key)})
        single = told["value"].str.contains(r"\A[\p{L}\p{M}]+\z")
        alone = told.filter(single).select(
            pl.col("value").alias("form"),
            pl.lit(name).alias("kind"),
            "value_id",
            pl.lit(_LISTED, pl.Float32).alias("score"),
            spelled="value",
        )
        several = told.filter(~single)
        rest: list[Any] = [
            pl.lit(name).alias("kind"),
            "value_id",
            pl.lit(_LISTED, pl.Float32).alias("score"),
            pl.lit(None, pl.String).alias("spelled"),
        ]
        forms = _names(several)["form"] if name == _PERSON else None
        if forms is not None:
            mined = pl.col("score") == pl.lit(_MINED, pl.Float32)
            made = _names(several).with_columns(pl.when(mined).then(pl.lit(_LISTED, pl.Float32)).otherwise("score").alias("score"))
            frames.append(made.select(frames[0].columns))
        cases = [pl.col("value"), pl.col("value").str.to_uppercase(), pl.col("value").str.to_lowercase(), pl.col("normalised")]
        frames += [several.select(case.alias("form"), *rest) for case in cases]
        frames.append(alone.select(frames[0].columns))
    return pl.concat(frames)


def read_list(path: Path) -> pl.DataFrame:
    """A user's list of known values: columns `kind` and `value`, each row once, in order.

    UsageError for a file that cannot be read, lacks one of the columns, or names a kind that there is not; it quotes no value.
    """
    expected = "expected CSV, TSV or JSON lines in UTF-8 with the columns kind and value"
    if path.is_dir():
        raise UsageError(f"--known {path}: is a folder; {expected}")
    json_lines = path.suffix in (".jsonl", ".ndjson", ".json")
    try:
        if json_lines:
            table = pl.read_ndjson(path.read_bytes(), infer_schema_length=None)
        else:
            table = pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",", infer_schema=False, glob=False)
    except (OSError, pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise UsageError(f"--known {path}: {_unread(path, json_lines, error)}; {expected}") from None
    for name in ("kind", "value"):
        if name not in table.columns:
            other = "; its columns are parted by something else than a comma" if len(table.columns) == 1 and not json_lines else ""
            raise UsageError(f"--known {path}: lacks the column {name}{other}; {expected}")
        if table.schema[name].is_nested():
            raise UsageError(f"--known {path}: column {name} holds lists or objects; expected one text in each record")
    table = table.select(pl.col("kind").cast(pl.String).str.strip_chars(), pl.col("value").cast(pl.String).str.strip_chars())
    empty = table.select((pl.col("value").fill_null("") == "") | pl.col("kind").is_null()).to_series().arg_true()
    if len(empty):
        raise UsageError(f"--known {path}: record {empty[0] + 1} has no kind or no value; {expected}")
    if not table.height:
        raise UsageError(f"--known {path}: lists nothing; write a record for each value, or leave the option out")
    for name in table["kind"].unique(maintain_order=True):
        if name not in every_kind():
            row = (table["kind"] == name).arg_true()[0]
            raise UsageError(f"--known {path}: record {row + 1}: there is no kind of this name; {nearest(name, every_kind())}")
    return table.unique(maintain_order=True)


def _unread(path: Path, json_lines: bool, error: Exception) -> str:
    """Why a list could not be read."""
    if isinstance(error, OSError):
        return f"cannot be read ({type(error).__name__})"
    if not path.stat().st_size:
        return "is empty"
    try:
        with path.open(encoding="utf-8") as file:
            for _ in file:  # the decoder is asked, and nobody looks at the lines
                pass
    except UnicodeDecodeError:
        return "is not UTF-8"
    return "has a line that is no JSON object" if json_lines else "has a line with more fields than the first one, or an open quote"


def listed_for(path: Path, taken: Sequence[str], plan: str) -> None:
    """UsageError where a user's list has values of a kind that a plan says nothing of."""
    for name in read_list(path)["kind"].unique(maintain_order=True):
        if name not in taken:
            raise UsageError(
                f"--known {path}: lists values of {name}, and plan {plan} says nothing of that kind; "
                "add it to find.kinds, and to an [[edit]] or to leave"
            )
