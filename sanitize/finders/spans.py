"""Finder `spans`: reads spans that another tool found from a file, and assigns them to the
documents of the corpus.

Three layouts, detected from the content of the file (or set by `layout`):

- **own**: Parquet, CSV or JSON lines (also .gz) with `doc_id` or `doc_no` (the position in corpus
  order, from 0), `start`, `end` (or `stop`), `kind`, and optionally `cell` (0: the main text, the
  default) and `score` (default 1).
- **dolma**: attribute files, JSON lines of `id` and `attributes`:
  `{"TAGGER__TAGGER__EMAIL_ADDRESS": [[start, end, score], ...]}`. The text after the last `__` is
  the label; measures such as `doc_count` and `doc_frac` are not spans.
- **presidio**: the results of `AnalyzerEngine` as JSON. An array with one array of results per
  document, or one line per document: an array, or an object with `doc_id` (or `id`) and `results`.
  Documents without an id are identified by their order.

`unit` is the unit of the offsets: `code_points`, as in Python and Presidio, or UTF-8 `bytes`.
Labels are mapped to kinds by sanitize/text/label_aliases.py.

No span is skipped silently: offsets beyond a text, or inside a character, stop the run with the
position of the first and their number; so do spans of documents or cells that are not in the
corpus, unless `subset = true` declares that the file belongs to a larger corpus. The file's hash is
part of the fingerprint of the index. Memory is that of the file's spans, in every worker.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, PrivateAttr

from sanitize.array_types import I64
from sanitize.core import part_protocols
from sanitize.core.arrow_buffers import TextBuffers, bytes_to_code_points, code_points_to_bytes
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, TextColumn
from sanitize.errors import InputRefused, PlanError
from sanitize.storage.files import file_sha256, parse_json, require_shallow_lines
from sanitize.text.label_aliases import map_labels_to_kinds, trim_spans

_SCHEMA = pl.Schema(
    {
        "doc_id": pl.String,
        "doc_no": pl.Int64,
        "cell": pl.Int32,
        "start": pl.Int64,
        "end": pl.Int64,
        "kind": pl.String,
        "score": pl.Float32,
    }
)
# dolma's taggers report these as one number per document, not as spans
_DOLMA_MEASURES = (
    "doc_count",
    "doc_frac",
    "doc_length",
    "doc_score",
)
_EXPECTED_LAYOUT = "expected one of the layouts own, dolma and presidio of docs/how_to/finders.md"


class Spans(Finder):
    """Settings: `path`, `layout` (auto), `unit` (of the offsets), `labels` (label = our kind, ""
    for a label that is not personal data), `subset` (the file may name documents that are not in
    the corpus)."""

    path: str = ""
    sha256: str = ""
    layout: Literal["auto", "own", "dolma", "presidio"] = "auto"
    unit: Literal["code_points", "bytes"] = "code_points"
    labels: dict[str, str] = Field(default_factory=dict)
    subset: bool = False
    _table: pl.DataFrame | None = PrivateAttr(default=None)

    def resolve_settings(self) -> Self:
        """Returns these settings with the file's hash. PlanError if the plan has a different
        hash."""
        if not self.path or not Path(self.path).is_file():
            return self
        known = file_sha256(Path(self.path))
        if self.sha256 not in ("", known):
            raise PlanError(
                f"spans: path = {self.path!r} is not the file that the plan was made with (sha256)"
            )
        return self.model_copy(update={"sha256": known})

    def validate_settings(self) -> None:
        """Checks that the file exists and can be read, and that all its labels are mapped; raises
        PlanError or InputRefused."""
        if not self.path:
            raise PlanError('spans has no path; name the file: {use = "spans", path = "FILE"}')
        if not Path(self.path).is_file():
            raise PlanError(
                f"spans: path = {self.path!r}: there is no such file, relative to the folder in"
                " which the command runs"
            )
        self._load_table()

    def _load_table(self) -> pl.DataFrame:
        labels = tuple(sorted(self.labels.items()))
        return _load_spans_cached(
            self.path, self.sha256 or file_sha256(Path(self.path)), self.layout, labels
        )

    def open(self, key: Key, first_round: object) -> None:
        """Reads the file, once per process."""
        self._table = self._load_table()

    def find_spans(self, column: TextColumn) -> part_protocols.FoundSpans:
        """Returns the spans of these texts; InputRefused for one that does not fit its text."""
        assert self._table is not None and column.doc_no is not None and column.cell is not None
        id_column = "doc_no" if self._table["doc_id"].null_count() else "doc_id"
        keys = pl.Series(id_column, column.doc_id if id_column == "doc_id" else column.doc_no)
        texts = pl.DataFrame(
            {id_column: keys, "cell": pl.Series(column.cell, dtype=pl.Int32)}
        ).with_row_index("text_no")
        spans = self._table.join(texts, on=[id_column, "cell"], how="inner", maintain_order="left")
        if not spans.height:
            return part_protocols.FoundSpans.empty()
        text_no, start, stop = (
            spans[name].to_numpy().astype(np.int64) for name in ("text_no", "start", "end")
        )
        buffers = TextBuffers.from_array(column.texts)
        start, stop = self._to_byte_spans(buffers, spans, column.doc_no, text_no, start, stop)
        kinds = tuple(spans["kind"].unique(maintain_order=True))
        kind = (
            spans["kind"]
            .replace_strict(
                {name: number for number, name in enumerate(kinds)}, return_dtype=pl.Int32
            )
            .to_numpy()
        )
        # if a document id occurs twice in the corpus, both documents get its spans; each span
        # counts as matched once
        matched_count = spans["row"].n_unique()
        return trim_spans(
            buffers,
            text_no,
            start,
            stop,
            kind,
            kinds,
            spans["score"].to_numpy(),
            matched_count=matched_count,
        )

    def _to_byte_spans(
        self,
        buffers: TextBuffers,
        spans: pl.DataFrame,
        doc_no: I64,
        text_no: I64,
        start: I64,
        end: I64,
    ) -> tuple[I64, I64]:
        """Converts the spans to byte offsets in their texts; InputRefused for offsets beyond a text
        or inside a character."""
        base, size = buffers.offsets[text_no], buffers.lengths[text_no]
        if self.unit == "code_points":
            size = bytes_to_code_points(buffers, text_no, base + size)[0]
        self._raise_if_any(end > size, "end beyond their text", spans, doc_no[text_no])
        if self.unit == "code_points":
            start, end = code_points_to_bytes(buffers, text_no, start, end)
        else:
            inside = np.isin(base + start, buffers.continuation_bytes) | np.isin(
                base + end, buffers.continuation_bytes
            )
            self._raise_if_any(
                inside,
                "begin or end inside a character, so that unit = bytes cannot be right",
                spans,
                doc_no[text_no],
            )
        return start, end

    def _raise_if_any(self, is_bad: Any, problem: str, spans: pl.DataFrame, doc_no: I64) -> None:
        if is_bad.any():
            first = int(np.flatnonzero(is_bad)[0])
            raise InputRefused(
                f"spans: {self.path}: {int(is_bad.sum()):,} of {len(is_bad):,} spans in one batch"
                f" of documents {problem}; the first is span {spans['row'][first]:,} of the file,"
                f" for document {int(doc_no[first])}, cell {spans['cell'][first]}, at"
                f" {spans['start'][first]}..{spans['end'][first]} {self.unit}. The file belongs to"
                " other texts, or unit is wrong"
            )

    def check_matched(self, matched_count: int, quarantined_count: int) -> Sequence[str]:
        """Returns a note if the file has spans of documents that are not in the corpus;
        InputRefused unless `subset` allows it."""
        total = self._load_table().height
        if matched_count >= total:
            return ()
        note = (
            f"spans: {self.path}: {total - matched_count:,} of {total:,} spans name documents or"
            " cells that are not in the corpus"
        )
        if self.subset:
            return (note,)
        quarantine_note = (
            f", or that were quarantined ({quarantined_count:,} were)" if quarantined_count else ""
        )
        raise InputRefused(
            f"{note}{quarantine_note}; nothing was published. Use the file of this corpus, or set"
            " subset = true if it is of a larger one"
        )


@cached_for_run(2)
def _load_spans_cached(
    path: str, expected_sha256: str, layout: str, labels: tuple[tuple[str, str], ...]
) -> pl.DataFrame:
    """Returns the spans of a file: `row` (its number in the file, from 0) and the columns of
    `_SCHEMA`; one of doc_id and doc_no is null.

    Raises PlanError if the file has another hash, InputRefused if it cannot be read or has invalid
    spans."""
    if file_sha256(Path(path)) != expected_sha256:
        raise PlanError(
            f"spans: {path}: is not the file that the plan was made with (sha256); use a file that"
            " no other program writes to"
        )
    layout = _detect_layout(Path(path)) if layout == "auto" else layout
    try:
        table = _READERS[layout](Path(path))
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        pl.exceptions.PolarsError,
    ) as error:
        raise InputRefused(
            f"spans: {path}: cannot be read as {layout} ({type(error).__name__});"
            f" {_EXPECTED_LAYOUT}"
        ) from None
    table = table.with_row_index("row")
    wrong = table.filter(
        (pl.col("start") < 0)
        | (pl.col("end") <= pl.col("start"))
        | pl.any_horizontal(pl.col("start", "end", "kind", "cell").is_null())
        | ~pl.col("score").is_between(0, 1)
        | (pl.col("doc_id").is_null() & pl.col("doc_no").is_null())
    )
    if wrong.height:
        raise InputRefused(
            f"spans: {path}: {wrong.height:,} of {table.height:,} spans are invalid; the first is"
            f" span {wrong['row'][0]:,}: expected a document, 0 <= start < end, a kind, and a score"
            " from 0 to 1"
        )
    if 0 < table["doc_id"].null_count() < table.height:
        raise InputRefused(
            f"spans: {path}: some spans name their document by doc_id and some do not; expected the"
            " same for all spans"
        )
    names = [str(name) for name in table["kind"].unique(maintain_order=True)]
    kinds = map_labels_to_kinds(names, dict(labels), f"spans: {path}: labels", labels_are_data=True)
    table = table.with_columns(
        pl.col("kind").replace_strict(kinds, return_dtype=pl.String) if names else pl.col("kind")
    )
    return table.filter(pl.col("kind") != "")


def _detect_layout(path: Path) -> str:
    if _format_suffix(path) in (".parquet", ".csv", ".tsv"):
        return "own"
    first = next(iter(_iter_lines(path)), "")
    try:
        parsed = parse_json(first)
    except ValueError:
        return "presidio"  # at best one array over many lines
    if isinstance(parsed, dict):
        return "dolma" if "attributes" in parsed else "presidio" if "results" in parsed else "own"
    return "presidio"


def _format_suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix


def _iter_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text file (also .gz) that are not empty."""
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8")
    ) as file:
        yield from (line for line in file if line.strip())


def _read_own(path: Path) -> pl.DataFrame:
    """Reads the layout `own`: a table with the columns of `_SCHEMA`; a column `stop` is read as
    `end`."""
    if _format_suffix(path) == ".parquet":
        table = pl.read_parquet(path, glob=False, hive_partitioning=False)
    elif _format_suffix(path) in (".csv", ".tsv"):
        table = pl.read_csv(
            path,
            separator="\t" if _format_suffix(path) == ".tsv" else ",",
            infer_schema=False,
            glob=False,
        )
    else:
        table = pl.read_ndjson(require_shallow_lines(path.read_bytes()), infer_schema_length=None)
    if "end" not in table.columns and "stop" in table.columns:
        table = table.rename({"stop": "end"})
    missing = [name for name in ("start", "end", "kind") if name not in table.columns]
    if missing or not {"doc_id", "doc_no"} & set(table.columns):
        raise InputRefused(
            f"spans: {path}: lacks the column {missing[0] if missing else 'doc_id (or doc_no)'};"
            f" {_EXPECTED_LAYOUT}"
        )
    if {"doc_id", "doc_no"} <= set(table.columns):
        raise InputRefused(
            f"spans: {path}: has both doc_id and doc_no, which may contradict each other; leave one"
            " of them out"
        )
    broken = [
        name
        for name in ("start", "end")
        if table[name].dtype.is_float() and not (table[name].drop_nulls() % 1 == 0).all()
    ]
    if broken:
        raise InputRefused(
            f"spans: {path}: the column {broken[0]} has numbers that are not integers;"
            f" {_EXPECTED_LAYOUT}"
        )
    for name, value in {"doc_id": None, "doc_no": None, "cell": 0, "score": 1.0}.items():
        if name not in table.columns:
            table = table.with_columns(pl.lit(value).alias(name))
    return table.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items())


def _read_dolma(path: Path) -> pl.DataFrame:
    """Reads the layout `dolma`: attribute files with one document per line. A loop over lines, as
    their keys are not a fixed schema."""
    rows = []
    for line in _iter_lines(path):
        document = parse_json(line)
        for name, spans in document["attributes"].items():
            label = str(name).rsplit("__", 1)[-1]
            if label not in _DOLMA_MEASURES:
                rows += [
                    (str(document["id"]), None, 0, start, end, label, min(float(score), 1.0))
                    for start, end, score in spans
                ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _read_presidio(path: Path) -> pl.DataFrame:
    """Reads the layout `presidio`: results of an analyzer. A loop over lines, which may be arrays
    or objects."""
    documents = (
        [parse_json(line) for line in _iter_lines(path)]
        if _has_one_document_per_line(path)
        else parse_json("".join(_iter_lines(path)))
    )
    rows: list[tuple[Any, ...]] = []
    for number, document in enumerate(documents):
        has_id = isinstance(document, dict)
        doc_id = (
            str(document["doc_id"] if "doc_id" in document else document["id"]) if has_id else None
        )
        doc_key = (doc_id, None) if has_id else (None, number)
        rows += [
            (
                *doc_key,
                0,
                result["start"],
                result["end"],
                str(result["entity_type"]),
                float(result["score"]),
            )
            for result in (document["results"] if has_id else document)
        ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _has_one_document_per_line(path: Path) -> bool:
    """True if each line is a document: the first line is valid JSON, and is not a single array of
    arrays."""
    lines = _iter_lines(path)
    try:
        first = parse_json(next(lines, "[]"))
    except ValueError:
        return False
    return (
        isinstance(first, dict)
        or next(lines, None) is not None
        or not (first and isinstance(first[0], list))
    )


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    "own": _read_own,
    "dolma": _read_dolma,
    "presidio": _read_presidio,
}
