"""Precision and recall of the finders on a user's own corpus: draws a sample to label by hand,
scores the labels, estimates misses.

The sample has two parts. Finds, equally many of every kind, measure precision: the annotator marks
each as right or wrong. Passages, from documents with and without finds, measure recall: the
annotator adds what was missed. Both are drawn by a seeded hash or generator, so that a sample can
be drawn again. They hold texts, so they are written into WORK, readable by its owner only.
Intervals are those of `wilson_interval` at 95 %.

Without labels, two or more indexes of one corpus, built by different finders, give an estimate of
what all of them missed (sanitize/inspection/capture_recapture.py).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64, Mask
from sanitize.core.command_results import CommandResult, KindScores, MeasuredRecall
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import format_share
from sanitize.errors import UsageError, suggest_names
from sanitize.inspection.capture_recapture import (
    SEVERAL_INDEX_ASSUMPTION,
    TWO_INDEX_ASSUMPTION,
    SeveralIndexEstimate,
    TwoIndexEstimate,
    capture_histories,
    chapman_estimate,
    count_overlapping,
    estimate_total,
)
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.pipeline.manifest import find_date
from sanitize.plans.detection_spec import read_custom_kinds
from sanitize.plans.python_api import public_function
from sanitize.reporting.confidence_intervals import wilson_interval
from sanitize.storage.disk_errors import refuse_unwritable_path, translate_disk_errors
from sanitize.storage.files import (
    describe_read_error,
    parse_json,
    read_regular_file,
    write_private_lines,
)
from sanitize.storage.private_folder import (
    LABEL_SAMPLE_FILE,
    OCCURRENCES_FOLDER,
    SavedIndex,
    read_frames,
    require_run_workspace,
)
from sanitize.storage.remote_storage import require_local_path
from sanitize.storage.runs.label_scores import store_scores

_CONTEXT_CHARACTERS = 80  # characters of context on either side of a find
_PASSAGE_CHARACTERS = 1_500  # characters of a passage
# passages that one represents, more than any corpus has; sums of squares of weights stay finite
_MAX_WEIGHT = 1e15
_SPAN_COLUMNS = ("doc_no", "cell", "start", "end", "kind")


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelSample(CommandResult):
    """The result of `sample_for_labels`: the file to label, its rows by stratum, and the strata
    without a row."""

    file: str
    rows: int
    strata: Mapping[str, int]
    empty_strata: Sequence[str]
    work: str

    def summary_table(self) -> SummaryTable:
        return SummaryTable(
            title=f"sanitize label: {self.file}",
            header=("stratum", "rows"),
            rows=sorted(self.strata.items()),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelScores(CommandResult):
    """The result of `score_labels`: precision and recall by kind."""

    file: str
    rows: int
    unlabelled_rows: int
    kinds: Mapping[str, KindScores]

    def summary_table(self) -> SummaryTable:
        facts = [("labelled", f"{self.rows - self.unlabelled_rows:,} of {self.rows:,} rows")]
        rows = [
            (
                kind,
                scores.judged,
                format_share(scores.precision, scores.precision_interval),
                format_share(scores.recall, scores.recall_interval),
            )
            for kind, scores in self.kinds.items()
        ]
        return SummaryTable(
            title="sanitize label: scores",
            facts=facts,
            header=("kind", "judged", "precision", "recall"),
            rows=rows,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MissedEstimate(CommandResult):
    """The result of `estimate_missed`: estimates by kind, or the reason why there is none, what
    they assume, and the finders of each index."""

    finders: Mapping[str, Sequence[str]]
    assumption: str
    estimates: Mapping[str, TwoIndexEstimate | SeveralIndexEstimate]

    def list_obstacles(self) -> list[tuple[str, str]]:
        """The kinds that have no estimate, and the reason: `("no estimate of URL", ...)`."""
        kinds: dict[str, list[str]] = {}
        for kind, counts in self.estimates.items():
            if counts.no_estimate:
                kinds.setdefault(counts.no_estimate, []).append(kind)
        return [(f"no estimate of {', '.join(names)}", reason) for reason, names in kinds.items()]

    def summary_table(self) -> SummaryTable:
        facts = [("assumes", self.assumption), *self.list_obstacles()]
        if len(self.finders) > 2:
            header = (
                "kind",
                *(f"index {number}" for number in range(1, len(self.finders) + 1)),
                "by any",
            )
            rows: list[tuple[Any, ...]] = [
                (kind, *counts.found_by_list, counts.found)
                for kind, counts in self.estimates.items()
                if isinstance(counts, SeveralIndexEstimate)
            ]
        else:
            header = ("kind", "first", "second", "both")
            rows = [
                (kind, counts.first, counts.second, counts.both)
                for kind, counts in self.estimates.items()
                if isinstance(counts, TwoIndexEstimate)
            ]
        return SummaryTable(
            title="sanitize label: estimates", facts=facts, header=header, rows=rows
        )


@public_function()
def sample_for_labels(
    work: Path | str, /, *, n: int = 300, out: Path | str | None = None, seed: int = 0
) -> LabelSample:
    """Draw `n` rows to label by hand, and write them as JSON lines to `out`, by default
    WORK/labels/sample.jsonl.

    Half of the rows are finds, half are passages; another `seed` draws others. If there are more
    strata than rows, some have no row. Raises UsageError for an existing file, which may hold
    labels, and for a WORK whose input has moved.

    >>> import sanitize
    >>> sanitize.sample_for_labels("clean.private", n=2, out="sample.jsonl").strata
    {'EMAIL_ADDRESS': 1, 'documents with finds': 1}
    """
    work = _require_work(work)
    target = get_sample_path(work, out)
    if target.exists():
        raise UsageError(
            f"{target}: exists already, and may hold labels; name another file with --out, or move"
            f" it away. At a terminal, `sanitize label {work}` goes on with it"
        )
    if n < 1:
        raise UsageError(f"--n {n}: expected at least 1 row")
    if out is not None and not target.parent.is_dir():
        raise UsageError(f"{target}: its folder does not exist; create it, or leave --out out")
    rows, all_strata = _draw_sample(work, n, seed)
    with translate_disk_errors(target.parent), refuse_unwritable_path(target):
        if out is None:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        write_private_lines(
            target, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows), overwrite=False
        )
    strata: dict[str, int] = {}
    for row in rows:
        strata[row["stratum"]] = strata.get(row["stratum"], 0) + 1
    empty_strata = [stratum for stratum in all_strata if stratum not in strata]
    return LabelSample(
        file=str(target), rows=len(rows), strata=strata, empty_strata=empty_strata, work=str(work)
    )


@public_function()
def score_labels(work: Path | str, labels: Path | str, /) -> LabelScores:
    """Precision and recall by kind, with 95 % intervals, from a labelled sample of
    `sample_for_labels`. They are stored in WORK: the next `run`, `report` and `verify` of an output
    of this index show them.

    Raises UsageError for a file that is no such sample; the message names the line, never its
    content.

    >>> import json, pathlib, sanitize
    >>> rows = [{"ask": "find", "kind": "EMAIL_ADDRESS", "right": True}]
    >>> _ = pathlib.Path("labelled.jsonl").write_text("".join(json.dumps(row) for row in rows))
    >>> sanitize.score_labels("clean.private", "labelled.jsonl").kinds["EMAIL_ADDRESS"].precision
    1.0
    """
    work = _require_work(work)
    with custom_kinds(read_custom_kinds(work)):
        scores = _score_labels(require_local_path(labels))
    index, labelled_rows = SavedIndex.read(work), scores.rows - scores.unlabelled_rows
    if index is not None and labelled_rows:
        measured = MeasuredRecall(date=find_date(), labelled_rows=labelled_rows, kinds=scores.kinds)
        with translate_disk_errors(work):
            store_scores(work, index.fingerprint, measured)
    return scores


@public_function()
def estimate_missed(
    work: Path | str, others: Sequence[Path | str] | Path | str, /
) -> MissedEstimate:
    """Estimates by kind of how many values all finders missed, without labels: from the index in
    WORK and one or more others of the same corpus, built by other finders.

    Raises UsageError for indexes of other documents, and for two indexes by the same finders.

    >>> import sanitize
    >>> _ = sanitize.index("mails.parquet", "patterns.private", plan="rmft", workers=1)
    >>> estimate = sanitize.estimate_missed("clean.private", "patterns.private")
    >>> estimate.estimates["EMAIL_ADDRESS"].both
    2
    """
    others = [others] if isinstance(others, str | Path) else others
    return _estimate_missed(_require_work(work), [require_local_path(one) for one in others])


def get_sample_path(work: Path | str, out: Path | str | None = None) -> Path:
    """The file of a sample of WORK: `out`, or WORK/labels/sample.jsonl. Raises UsageError for a
    folder that is no WORK."""
    return require_local_path(out) if out is not None else _require_work(work) / LABEL_SAMPLE_FILE


def _require_work(work: Path | str) -> Path:
    work = require_local_path(work)
    require_run_workspace(work)
    return work


# ----------------------------------------------------------------------------------- the sample


def _read_occurrences(work: Path) -> Iterator[pl.DataFrame]:
    """The occurrences, task by task."""
    return read_frames(work, work / OCCURRENCES_FOLDER, [*_SPAN_COLUMNS, "start_byte", "end_byte"])


def _draw_sample(work: Path, row_count: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Draw the rows of a sample; returns them and the names of all strata.

    Half of the rows are finds, equally many of each kind; half are passages, equally many from
    documents with and without finds. Where a stratum has too few, the others get its rows.
    """
    index = SavedIndex.read_complete(work)
    documents, leaves = index.documents, list(index.leaves)
    if not all(source.is_available() for source in documents.files):
        raise UsageError(
            f"{work}: the input that it indexes has moved or changed; run `sanitize index` again"
        )
    has_find = np.zeros(documents.count, np.bool_)
    smallest: list[pl.DataFrame] = []
    for occurrences in _read_occurrences(work):
        has_find[occurrences["doc_no"].to_numpy()] = True
        # of each kind those with the smallest hashes: a sample without replacement that needs one
        # task at a time
        ranked = occurrences.with_columns(
            draw=pl.struct("doc_no", "cell", "start", "kind").hash(seed)
        )
        smallest.append(ranked.sort("draw").group_by("kind", maintain_order=True).head(row_count))
    finds = (
        pl.concat(smallest)
        if smallest
        else pl.DataFrame(schema={"kind": pl.String, "draw": pl.UInt64, "doc_no": pl.Int64})
    )
    kinds = {
        str(kind): frame.sort("draw").head(row_count)
        for (kind,), frame in sorted(finds.group_by("kind"), key=lambda pair: str(pair[0][0]))
    }
    with_finds, without = "documents with finds", "documents without finds"
    doc_nos_by_stratum = {without: np.flatnonzero(~has_find), with_finds: np.flatnonzero(has_find)}
    find_count = sum(frame.height for frame in kinds.values())
    rng = np.random.default_rng(seed)
    passage_count = _allocate_evenly(row_count, [find_count, documents.count])[1]
    wanted = _allocate_evenly(
        passage_count, [len(doc_nos_by_stratum[with_finds]), len(doc_nos_by_stratum[without])]
    )[1]
    texts: dict[tuple[int, int], str] = {}
    # stratum -> (doc_nos, documents of the stratum per tried one)
    drawn: dict[str, tuple[np.typing.NDArray[np.int64], float]] = {}
    for stratum, doc_nos in doc_nos_by_stratum.items():
        order, with_text, tried = (
            rng.permutation(doc_nos).astype(np.int64),
            np.empty(0, np.int64),
            0,
        )
        while len(with_text) < wanted and tried < len(order):
            # a document without text gives no passage
            batch = np.sort(order[tried : tried + wanted - len(with_text)])
            batch_texts = documents.read_texts(leaves, batch)
            texts |= batch_texts
            with_text = np.append(
                with_text,
                batch[
                    np.isin(batch, [doc_no for (doc_no, _), text in batch_texts.items() if text])
                ],
            )
            tried += len(batch)
        drawn[stratum] = np.sort(with_text), len(doc_nos) / max(tried, 1)
        wanted = passage_count - len(with_text)
    passages = {stratum: drawn[stratum] for stratum in (with_finds, without)}
    finds_left = row_count - sum(len(doc_nos) for doc_nos, _ in passages.values())
    finds_per_kind = _allocate_evenly(finds_left, [frame.height for frame in kinds.values()])
    strata = {
        kind: frame.head(count)
        for (kind, frame), count in zip(kinds.items(), finds_per_kind, strict=True)
    }
    sampled = np.unique(
        np.concatenate(
            [
                *(frame["doc_no"].to_numpy() for frame in strata.values()),
                *(doc_nos for doc_nos, _ in drawn.values()),
            ]
        )
    )
    texts |= documents.read_texts(leaves, sampled.astype(np.int64))
    rows: list[dict[str, Any]] = []
    # a loop over the rows of a sample, which a person will read one by one
    for kind, frame in strata.items():
        for doc_no, cell, start, end in (
            frame.sort("doc_no", "cell", "start")
            .select("doc_no", "cell", "start", "end")
            .iter_rows()
        ):
            text = texts.get((doc_no, cell), "")
            span = {"doc_no": doc_no, "cell": cell, "start": start, "end": end, "kind": kind}
            context = {
                "before": text[max(0, start - _CONTEXT_CHARACTERS) : start],
                "value": text[start:end],
                "after": text[end : end + _CONTEXT_CHARACTERS],
            }
            rows.append(
                {"row": len(rows), "ask": "find", "stratum": kind, **span, **context, "right": None}
            )
    occurrences_by_cell = _occurrences_by_cell(work, sampled)
    for stratum, (doc_nos, weight) in passages.items():
        for doc_no in doc_nos.tolist():
            cells = [
                (cell, text) for (number, cell), text in texts.items() if number == doc_no and text
            ]
            lengths = np.array([len(text) for _, text in cells], np.float64)
            cell, text = cells[int(rng.choice(len(cells), p=lengths / lengths.sum()))]
            low = int(rng.integers(0, max(1, len(text) - _PASSAGE_CHARACTERS + 1)))
            high = min(low + _PASSAGE_CHARACTERS, len(text))
            found = [
                {"start": start - low, "end": end - low, "kind": kind, "value": text[start:end]}
                for start, end, kind in occurrences_by_cell.get((doc_no, cell), ())
                if low <= start and end <= high
            ]
            rows.append(
                {
                    "row": len(rows),
                    "ask": "passage",
                    "stratum": stratum,
                    # how much text of the corpus the passage represents, in passages
                    "weight": weight * lengths.sum() / (high - low),
                    "doc_no": doc_no,
                    "cell": cell,
                    "start": low,
                    "text": text[low:high],
                    "found": found,
                    "wrong": [],
                    "missed": None,
                }
            )
    return rows, [
        *kinds,
        *(stratum for stratum, doc_nos in doc_nos_by_stratum.items() if len(doc_nos)),
    ]


def _allocate_evenly(total: int, limits: Sequence[int]) -> list[int]:
    """Split `total` into parts as equal as possible, none above its limit; the limits themselves if
    their sum is less than `total`."""
    parts = [0] * len(limits)
    # smallest limit first, so that what one part cannot take is left for the others
    for rank, index in enumerate(sorted(range(len(limits)), key=lambda index: limits[index])):
        parts[index] = min(limits[index], (total - sum(parts)) // (len(limits) - rank))
    return parts


def _occurrences_by_cell(
    work: Path, doc_nos: np.typing.NDArray[Any]
) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """The occurrences (start, end, kind) of some documents, by (doc_no, cell)."""
    by_cell: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for occurrences in _read_occurrences(work):
        selected = occurrences.filter(pl.col("doc_no").is_in(pl.Series(doc_nos).implode())).sort(
            "doc_no", "cell", "start"
        )
        for doc_no, cell, start, end, kind in selected.select(_SPAN_COLUMNS).iter_rows():
            by_cell.setdefault((doc_no, cell), []).append((start, end, kind))
    return by_cell


# --------------------------------------------------------------------------- scores from labels


def _score_labels(path: Path) -> LabelScores:
    """Precision from the judged finds, recall from the passages, by kind.

    In passages every span, found or missed, counts with its passage's weight. What is missed is
    often missed several times in a document, so the interval of a recall is that of the effective
    number of spans of a sample in which documents were drawn (`effective_size`).
    """
    judged: dict[str, list[bool]] = {}  # kind -> whether each judged find is right
    wrong_spans: Counter[str] = Counter()  # finds that are wrong only in their boundaries
    # kind -> (document, weight, whether it was found)
    passage_spans: dict[str, list[tuple[int, float, bool]]] = {}
    unlabelled_rows = rows = 0
    for number, row in enumerate(_read_labelled_rows(path), 1):
        rows += 1
        if row["ask"] == "find":
            if row["right"] is None:
                unlabelled_rows += 1
            else:
                judged.setdefault(_require_kind(path, number, row["kind"]), []).append(
                    bool(row["right"])
                )
                wrong_spans[row["kind"]] += not row["right"] and bool(row.get("right_span"))
            continue
        if row["missed"] is None:
            unlabelled_rows += 1
            continue
        wrong, document = set(row.get("wrong") or ()), row.get("doc_no", -number)
        for index, span in enumerate(row["found"]):
            if index not in wrong:
                passage_spans.setdefault(_require_kind(path, number, span["kind"]), []).append(
                    (document, row["weight"], True)
                )
        for entry in row["missed"]:
            name = entry["kind"] if isinstance(entry, dict) else entry
            passage_spans.setdefault(_require_kind(path, number, name), []).append(
                (document, row["weight"], False)
            )
    kinds: dict[str, KindScores] = {}
    for kind in sorted(judged.keys() | passage_spans.keys()):
        right, spans = judged.get(kind, []), passage_spans.get(kind, [])
        documents = np.unique(
            np.array([document for document, _, _ in spans], np.int64), return_inverse=True
        )[1]
        weights = np.array([weight for _, weight, _ in spans], np.float64)
        hits = np.array([hit for _, _, hit in spans], np.bool_)
        precision = sum(right) / len(right) if right else None
        recall = float(weights[hits].sum() / weights.sum()) if len(spans) else None
        kinds[kind] = KindScores(
            judged=len(right),
            right=sum(right),
            wrong_spans=wrong_spans[kind],
            precision=precision,
            precision_interval=(
                wilson_interval(precision, len(right)) if precision is not None else None
            ),
            found=int(hits.sum()),
            missed=int((~hits).sum()),
            recall=recall,
            recall_interval=(
                wilson_interval(recall, effective_size(documents, weights, hits))
                if recall is not None
                else None
            ),
        )
    return LabelScores(file=str(path), rows=rows, unlabelled_rows=unlabelled_rows, kinds=kinds)


def effective_size(documents: I64, weights: F64, hits: Mask) -> float:
    """The number of independent spans that would give the weighted share of `hits` the same
    variance; spans of one document (numbered from
    0) are not independent.

    The variance of the share is that of a ratio estimate over documents by linearisation (Cochran,
    Sampling Techniques, 1977, section 6.3), and never less than that of independent spans of these
    weights (Kish, Survey Sampling, 1965: the square of the sum of the weights over the sum of their
    squares). A share of 0 or 1 shows no variance: the effective number of documents is taken then.
    """
    total = weights.sum()
    weight_by_document = np.bincount(documents, weights)
    share = weights[hits].sum() / total
    if share in (0, 1):
        return float(total**2 / (weight_by_document**2).sum())
    independent = float(total**2 / (weights**2).sum())
    residuals = np.bincount(documents, weights * (hits - share))
    document_count = len(weight_by_document)
    variance = document_count / max(1, document_count - 1) * (residuals**2).sum() / total**2
    return min(independent, float(share * (1 - share) / variance)) if variance else independent


def read_sample(path: Path) -> list[dict[str, Any]]:
    """The rows of a sample that `sample_for_labels` drew, labelled or not. UsageError names a row
    that lacks what a session shows."""
    rows = list(_read_labelled_rows(path))
    for number, row in enumerate(rows, 1):
        try:
            is_complete = _can_be_asked(row)
        except (KeyError, TypeError):
            is_complete = False
        if not is_complete:
            raise UsageError(
                f"{path}: row {number} lacks something that `sanitize label WORK` wrote; draw a"
                " sample into another file (--out)"
            )
    if not rows:
        raise UsageError(f"{path}: has no row; draw a sample into another file (--out)")
    return rows


def _can_be_asked(row: Mapping[str, Any]) -> bool:
    """Whether a row has the texts that a session shows, with spans inside of them; KeyError or
    TypeError is a no, too."""
    if row["ask"] == "find":
        before, value, after = row["before"], row["value"], row["after"]
        length, offset = len(before + value + after + ""), row["start"] - len(before)
        return all(
            _is_span(span, offset, offset + length) for span in (row, row.get("right_span") or row)
        )
    length = len(row["text"] + "")
    added = [
        one
        for one in (*(row.get("added") or ()), *(row["missed"] or ()))
        if isinstance(one, dict) and "start" in one
    ]
    return all(
        _is_span(span, 0, length) and isinstance(span["kind"], str)
        for span in (*row["found"], *added)
    )


def _is_span(span: Mapping[str, Any], first: int, end: int) -> bool:
    return (
        type(span["start"]) is int
        and type(span["end"]) is int
        and first <= span["start"] <= span["end"] <= end
    )


class SampleFile:
    """A sample that is being labelled: `save` writes its rows at once, and refuses to overwrite
    what another program wrote."""

    def __init__(self, path: Path) -> None:
        self._path, self._written = path, path.stat()

    def save(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write all rows atomically; UsageError if the file is not the one that was read or written
        last."""
        with translate_disk_errors(self._path.parent):
            if not self._path.exists() or not _is_same_version(self._path.stat(), self._written):
                raise UsageError(
                    f"{self._path}: another program changed it meanwhile, and its labels are kept;"
                    " run the same command again"
                )
            write_private_lines(
                self._path,
                (json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
                overwrite=True,
            )
            self._written = self._path.stat()


def _is_same_version(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_ino, one.st_mtime_ns, one.st_size) == (
        other.st_ino,
        other.st_mtime_ns,
        other.st_size,
    )


def _read_labelled_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a labelled sample, each checked; UsageError names the line of a bad one, never
    its content."""
    expected = (
        "expected the JSON Lines that `sanitize label WORK` wrote, with `right`, `missed` and"
        " `wrong` filled in"
    )
    try:
        # not splitlines: a text may hold other line separators
        raw = read_regular_file(path).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {describe_read_error(error)}; {expected}") from None
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            good = (
                _is_labelled_find(row)
                if row["ask"] == "find"
                else row["ask"] == "passage" and _is_labelled_passage(row)
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            good = False
        if not good:
            raise UsageError(f"{path}: line {number}: {expected}")
        yield row


def _is_labelled_find(row: Mapping[str, Any]) -> bool:
    return isinstance(row["kind"], str) and isinstance(row["right"], bool | None)


def _is_labelled_passage(row: Mapping[str, Any]) -> bool:
    """Whether a passage has what its score needs; KeyError or TypeError is a no, too."""
    found, missed, wrong, document = (
        row["found"],
        row["missed"],
        row.get("wrong"),
        row.get("doc_no", 0),
    )
    return (
        type(row["weight"]) in (int, float)
        and 0 < row["weight"] < _MAX_WEIGHT
        and type(document) is int
        and abs(document) < 1 << 63
        and isinstance(found, list)
        and all(isinstance(one["kind"], str) for one in found)
        and isinstance(missed, list | None)
        and all(
            isinstance(one if isinstance(one, str) else one["kind"], str) for one in missed or ()
        )
        and isinstance(wrong, list | None)
        and all(type(index) is int and 0 <= index < len(found) for index in wrong or ())
    )


def _require_kind(path: Path, line_number: int, name: object) -> str:
    if name not in all_kinds():
        # the field may hold a text of the corpus: the message repeats only what looks like the name
        # of a kind
        kind_like = (
            str(name)
            if str(name).isascii() and str(name).replace("_", "").isupper() and len(str(name)) < 40
            else ""
        )
        raise UsageError(
            f"{path}: line {line_number}: no such kind; {suggest_names(kind_like, all_kinds())}"
        )
    return str(name)


# --------------------------------------------------------------- estimates from several indexes


def _estimate_missed(work: Path, others: Sequence[Path]) -> MissedEstimate:
    """Estimates of each kind from several indexes: Chapman's from two, a log-linear one with its
    interval from three."""
    works, indexes = [work, *others], [SavedIndex.read_complete(work)]
    for other in others:
        require_run_workspace(other)
        indexes.append(SavedIndex.read_complete(other))
        if _corpus_identity(indexes[-1]) != _corpus_identity(indexes[0]):
            raise UsageError(
                f"{other}: indexes other documents than {work}; build both from the same input,"
                " with different finders"
            )
    spans = [
        pl.concat(
            [
                pl.DataFrame(schema=_SPAN_SCHEMA),
                *(frame.select(*_SPAN_SCHEMA) for frame in _read_occurrences(path)),
            ]
        )
        for path in works
    ]
    finders = [sorted(_finder_names(path)) for path in works]
    for number, (path, names) in enumerate(zip(works, finders, strict=True)):
        if names in finders[:number]:
            raise UsageError(
                f"{path}: the same finders ({', '.join(names) or 'none'}) built another of the"
                " indexes, so that the two cannot show what each of them misses; build one with"
                " finders of another type, such as a model"
            )
    estimates: dict[str, TwoIndexEstimate | SeveralIndexEstimate] = {}
    for kind in sorted(set().union(*(frame["kind"] for frame in spans))):
        lists = [frame.filter(pl.col("kind") == kind) for frame in spans]
        if len(lists) == 2:
            both = min(count_overlapping(*lists), count_overlapping(lists[1], lists[0]))
            estimates[kind] = chapman_estimate(lists[0].height, lists[1].height, both)
        else:
            estimates[kind] = estimate_total(capture_histories(lists), len(lists))
    return MissedEstimate(
        finders={str(path): names for path, names in zip(works, finders, strict=True)},
        assumption=TWO_INDEX_ASSUMPTION if len(works) == 2 else SEVERAL_INDEX_ASSUMPTION,
        estimates=estimates,
    )


_SPAN_SCHEMA = {
    "doc_no": pl.Int64,
    "cell": pl.Int32,
    "start": pl.Int64,
    "end": pl.Int64,
    "kind": pl.String,
}


def _corpus_identity(index: SavedIndex) -> tuple[Any, ...]:
    """What two indexes of the same documents have in common: the row counts of their sources, and
    the text leaves."""
    return [(file.rows, file.first_doc_no) for file in index.documents.files], index.leaves


def _finder_names(work: Path) -> set[str]:
    """The finders that reported occurrences in an index."""
    frames = read_frames(work, work / OCCURRENCES_FOLDER, ["finder"])
    return {name for frame in frames for name in frame["finder"].unique()}
