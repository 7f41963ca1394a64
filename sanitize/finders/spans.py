"""Spans that somebody else found: read from a file, and matched to the documents here.

Three layouts, told apart by what stands in the file (`layout` names one):

- **own**: Parquet, CSV or JSON lines (also .gz) with `doc_id` or `doc_no` (the position in corpus order, from 0), `start`, `stop` (or
  `end`), `kind`, and if you like `cell` (0: the main text) and `score` (else 1).
- **dolma**: attribute files, JSON lines of `id` and `attributes`: `{"TAGGER__TAGGER__EMAIL_ADDRESS": [[start, end, score], ...]}`. What
  stands behind the last `__` is the label; `doc_count`, `doc_frac` and their like are no spans.
- **presidio**: what `AnalyzerEngine` gives as JSON. An array with one array of results for each document, or one line for each: an array,
  or an object with `doc_id` (or `id`) and `results`. Documents without an id are known by their order.

`unit` says what is counted: `code_points`, as Python and Presidio do, or UTF-8 `bytes`. Labels become kinds as
sanitize/text/label_aliases.py says.

Nothing is passed over: offsets beyond a text, or inside a character, stop the run with the place of the first and how many there are; so
do spans of documents or cells that are not here, unless `subset = true` says that the file is of a larger corpus.
The file's hash is part of what the index is known by. Memory is that of the file's spans, in every worker.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.core import parts
from sanitize.core.arrow_buffers import I64, Buffers, bytes_at, code_points
from sanitize.core.keys import Key
from sanitize.core.parts import Column, Finder
from sanitize.errors import InputRefused, PlanError
from sanitize.storage.corpus import sha256
from sanitize.text.label_aliases import kinds_of, trimmed

_SCHEMA = pl.Schema(
    {
        "doc_id": pl.String,
        "doc_no": pl.Int64,
        "cell": pl.Int32,
        "start": pl.Int64,
        "stop": pl.Int64,
        "kind": pl.String,
        "score": pl.Float32,
    }
)
_MEASURES = ("doc_count", "doc_frac", "doc_length", "doc_score")  # of dolma's taggers: a number for a document, and no span
_EXPECTED = "expected one of the layouts own, dolma and presidio of docs/finders.md"


class Spans(Finder):
    """Settings: `path`, `layout` (auto), `unit` (of the offsets), `labels` (label = our kind, "" for what is no personal data), `subset`
    (the file may name documents that are not here)."""

    path: str = ""
    sha256: str = ""
    layout: Literal["auto", "own", "dolma", "presidio"] = "auto"
    unit: Literal["code_points", "bytes"] = "code_points"
    labels: dict[str, str] = Field(default_factory=dict)
    subset: bool = False
    _table: pl.DataFrame | None = PrivateAttr(default=None)

    def settled(self) -> Self:
        """The same with the file's hash."""
        if not self.path or not Path(self.path).is_file():
            return self
        known = sha256(Path(self.path))
        if self.sha256 not in ("", known):
            raise PlanError(f"spans: path = {self.path!r} is not the file that the plan was made with (sha256)")
        return self.model_copy(update={"sha256": known})

    def fits(self) -> None:
        """The file is there and can be read, and its labels are decided about."""
        if not self.path:
            raise PlanError('spans has no path; name the file: {use = "spans", path = "FILE"}')
        if not Path(self.path).is_file():
            raise PlanError(f"spans: path = {self.path!r}: there is no such file, seen from the folder in which the command runs")
        self._read()

    def _read(self) -> pl.DataFrame:
        labels = tuple(sorted(self.labels.items()))
        return _loaded(self.path, self.sha256 or sha256(Path(self.path)), self.layout, labels)

    def open(self, key: Key, gathered: Path | None) -> None:
        """Read the file, once a process."""
        self._table = self._read()

    def run(self, column: Column) -> parts.Spans:
        """The spans of these texts; InputRefused for one that does not fit its text."""
        assert self._table is not None and column.doc_no is not None and column.cell is not None
        by = "doc_no" if self._table["doc_id"].null_count() else "doc_id"
        keys = pl.Series(by, column.doc_id if by == "doc_id" else column.doc_no)
        texts = pl.DataFrame({by: keys, "cell": pl.Series(column.cell, dtype=pl.Int32)}).with_row_index("text_no")
        mine = self._table.join(texts, on=[by, "cell"], how="inner", maintain_order="left")
        if not mine.height:
            return parts.Spans.none()
        text_no, start, stop = (mine[name].to_numpy().astype(np.int64) for name in ("text_no", "start", "stop"))
        buffers = Buffers.of(column.texts)
        start, stop = self._bytes(buffers, mine, column.doc_no, text_no, start, stop)
        kinds = tuple(mine["kind"].unique(maintain_order=True))
        kind = mine["kind"].replace_strict({name: number for number, name in enumerate(kinds)}, return_dtype=pl.Int32).to_numpy()
        # a document id that stands here twice takes its spans twice; each span was placed once
        placed = mine["row"].n_unique()
        return trimmed(buffers, text_no, start, stop, kind, kinds, mine["score"].to_numpy(), placed=placed)

    def _bytes(self, buffers: Buffers, mine: pl.DataFrame, doc_no: I64, text_no: I64, start: I64, stop: I64) -> tuple[I64, I64]:
        """The spans in bytes of their texts, checked."""
        base, size = buffers.offsets[text_no], buffers.lengths[text_no]
        if self.unit == "code_points":
            size = code_points(buffers, text_no, base + size)[0]
        self._refuse(stop > size, "end beyond their text", mine, doc_no[text_no])
        if self.unit == "code_points":
            start, stop = bytes_at(buffers, text_no, start, stop)
        else:
            inside = np.isin(base + start, buffers.continuing) | np.isin(base + stop, buffers.continuing)
            self._refuse(inside, "begin or end inside a character, so that unit = bytes cannot be right", mine, doc_no[text_no])
        return start, stop

    def _refuse(self, bad: Any, why: str, mine: pl.DataFrame, doc_no: I64) -> None:
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            raise InputRefused(
                f"spans: {self.path}: {int(bad.sum()):,} of {len(bad):,} spans of some documents {why}; the first is span "
                f"{mine['row'][first]:,} of the file, for document {int(doc_no[first])}, cell {mine['cell'][first]}, at "
                f"{mine['start'][first]}..{mine['stop'][first]} {self.unit}. The file is of other texts, or unit is wrong"
            )

    def check(self, placed: int, set_aside: int) -> Sequence[str]:
        """A note where the file is of more documents than these; InputRefused where that was not said."""
        total = self._read().height
        if placed >= total:
            return ()
        told = f"spans: {self.path}: {total - placed:,} of {total:,} spans name documents or cells that are not here"
        if self.subset:
            return (told,)
        aside = f", or that were set aside ({set_aside:,} were)" if set_aside else ""
        raise InputRefused(
            f"{told}{aside}; nothing was published. Take the file of this corpus, or say that it is of a larger one: subset = true"
        )


@functools.lru_cache(maxsize=2)
def _loaded(path: str, known: str, layout: str, labels: tuple[tuple[str, str], ...]) -> pl.DataFrame:
    """The spans of a file: `row` (its number in the file, from 0) and the columns of `_SCHEMA`, of one of doc_id and doc_no."""
    if sha256(Path(path)) != known:
        raise PlanError(f"spans: {path}: is not the file that the plan was made with; use a file that nobody writes to")
    layout = _layout_of(Path(path)) if layout == "auto" else layout
    try:
        table = _READERS[layout](Path(path))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, pl.exceptions.PolarsError) as error:
        raise InputRefused(f"spans: {path}: cannot be read as {layout} ({type(error).__name__}); {_EXPECTED}") from None
    table = table.with_row_index("row")
    wrong = table.filter(
        (pl.col("start") < 0)
        | (pl.col("stop") <= pl.col("start"))
        | pl.any_horizontal(pl.col("start", "stop", "kind", "cell").is_null())
        | ~pl.col("score").is_between(0, 1)
        | (pl.col("doc_id").is_null() & pl.col("doc_no").is_null())
    )
    if wrong.height:
        raise InputRefused(
            f"spans: {path}: {wrong.height:,} of {table.height:,} spans are none; the first is span {wrong['row'][0]:,}: expected a "
            "document, 0 <= start < stop, a kind, and a score from 0 to 1"
        )
    if 0 < table["doc_id"].null_count() < table.height:
        raise InputRefused(f"spans: {path}: some spans name their document by doc_id and some do not; expected one way for all of them")
    names = [str(name) for name in table["kind"].unique(maintain_order=True)]
    kinds = kinds_of(names, dict(labels), f"spans: {path}: labels", data=True)
    table = table.with_columns(pl.col("kind").replace_strict(kinds, return_dtype=pl.String) if names else pl.col("kind"))
    return table.filter(pl.col("kind") != "")


def _layout_of(path: Path) -> str:
    if _suffix(path) in (".parquet", ".csv", ".tsv"):
        return "own"
    first = next(iter(_lines(path)), "")
    try:
        said = json.loads(first)
    except ValueError:
        return "presidio"  # one array over many lines, if anything
    if isinstance(said, dict):
        return "dolma" if "attributes" in said else "presidio" if "results" in said else "own"
    return "presidio"


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file that are not empty."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from (line for line in file if line.strip())


def _own(path: Path) -> pl.DataFrame:
    """A table with the columns of `_SCHEMA`; `end` is `stop`."""
    if _suffix(path) == ".parquet":
        table = pl.read_parquet(path, glob=False, hive_partitioning=False)
    elif _suffix(path) in (".csv", ".tsv"):
        table = pl.read_csv(path, separator="\t" if _suffix(path) == ".tsv" else ",", infer_schema=False, glob=False)
    else:
        table = pl.read_ndjson(path.read_bytes(), infer_schema_length=None)
    if "stop" not in table.columns and "end" in table.columns:
        table = table.rename({"end": "stop"})
    missing = [name for name in ("start", "stop", "kind") if name not in table.columns]
    if missing or not {"doc_id", "doc_no"} & set(table.columns):
        raise InputRefused(f"spans: {path}: lacks the column {missing[0] if missing else 'doc_id (or doc_no)'}; {_EXPECTED}")
    if {"doc_id", "doc_no"} <= set(table.columns):
        raise InputRefused(f"spans: {path}: has doc_id and doc_no, which may not agree; leave one of them out")
    broken = [name for name in ("start", "stop") if table[name].dtype.is_float() and not (table[name].drop_nulls() % 1 == 0).all()]
    if broken:
        raise InputRefused(f"spans: {path}: the column {broken[0]} holds numbers that are not whole; {_EXPECTED}")
    for name, value in {"doc_id": None, "doc_no": None, "cell": 0, "score": 1.0}.items():
        if name not in table.columns:
            table = table.with_columns(pl.lit(value).alias(name))
    return table.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def _dolma(path: Path) -> pl.DataFrame:
    """Attribute files, a line a document; a loop over lines, whose keys are free."""
    rows = []
    for line in _lines(path):
        said = json.loads(line)
        for name, spans in said["attributes"].items():
            label = str(name).rsplit("__", 1)[-1]
            if label not in _MEASURES:
                rows += [(str(said["id"]), None, 0, start, stop, label, min(float(score), 1.0)) for start, stop, score in spans]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _presidio(path: Path) -> pl.DataFrame:
    """Results of an analyzer; a loop over lines, which may be arrays or objects."""
    documents = [json.loads(line) for line in _lines(path)] if _lined(path) else json.loads("".join(_lines(path)))
    rows: list[tuple[Any, ...]] = []
    for number, said in enumerate(documents):
        named = isinstance(said, dict)
        doc_id = str(said["doc_id"] if "doc_id" in said else said["id"]) if named else None
        where = (doc_id, None) if named else (None, number)
        rows += [
            (*where, 0, one["start"], one["end"], str(one["entity_type"]), float(one["score"]))
            for one in (said["results"] if named else said)
        ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _lined(path: Path) -> bool:
    """True where each line is a document: a line that is JSON by itself, and no array of arrays that stands alone."""
    lines = _lines(path)
    try:
        first = json.loads(next(lines, "[]"))
    except ValueError:
        return False
    return isinstance(first, dict) or next(lines, None) is not None or not (first and isinstance(first[0], list))


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {"own": _own, "dolma": _dolma, "presidio": _presidio}
