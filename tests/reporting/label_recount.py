"""Labels of a sample by a rule, and the scores of a labelled sample, counted again row by row:
shares from the labels, intervals by bisection of the inequality that defines them."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import sanitize

SCORED_AT = 1_700_000_000  # seconds since 1970: not the date of the run
NORMAL_QUANTILE = 1.959964  # two-sided, 95 %

Row = Mapping[str, Any]
Span = tuple[int, float, bool]  # document, weight, whether it was found


def label_sample(work: Path, labels: Path) -> None:
    """Draw a sample of an index, label it with some of each label, and score it."""
    rows = [
        json.loads(line)
        for line in Path(sanitize.sample_for_labels(work, n=30).file).read_text().splitlines()
    ]
    for number, row in enumerate(rows[:-1]):  # the last one stays without a label
        if row["ask"] == "find":
            row["right"] = number % 4 != 0
        else:
            row["missed"] = [{"kind": "PERSON"}, {"kind": "EMAIL_ADDRESS"}][: number % 3]
            row["wrong"] = [0] if row["found"] and number % 4 == 0 else []
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(SCORED_AT))
        sanitize.score_labels(work, labels)


def find_scoring_date() -> str:
    return datetime.datetime.fromtimestamp(SCORED_AT, datetime.UTC).date().isoformat()


def count_labels(labels: Path) -> dict[str, Any]:
    """What `verify` says of a labelled sample."""
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    judged = [row for row in rows if row["ask"] == "find" and row["right"] is not None]
    passages = [row for row in rows if row["ask"] == "passage" and row["missed"] is not None]
    spans: dict[str, list[Span]] = {row["kind"]: [] for row in judged}
    for row in passages:
        right = [one for no, one in enumerate(row["found"]) if no not in row["wrong"]]
        for one in [*right, *row["missed"]]:
            span = (row["doc_no"], row["weight"], one in right)
            spans.setdefault(one["kind"], []).append(span)
    return {
        "labelled_rows": len(judged) + len(passages),
        "kinds": {
            kind: {
                **_count_finds([row["right"] for row in judged if row["kind"] == kind]),
                **_count_spans(spans[kind]),
            }
            for kind in sorted(spans)
        },
    }


def _count_finds(labels: Sequence[bool]) -> dict[str, Any]:
    counts = {"judged": len(labels), "right": labels.count(True), "wrong_spans": 0}
    if not labels:
        return counts | {"precision": None, "precision_interval": None}
    share = labels.count(True) / len(labels)
    return counts | {
        "precision": share,
        "precision_interval": find_interval(share, len(labels)),
    }


def _count_spans(spans: Sequence[Span]) -> dict[str, Any]:
    counts = {
        "found": sum(found for _, _, found in spans),
        "missed": sum(not found for _, _, found in spans),
    }
    if not spans:
        return counts | {"recall": None, "recall_interval": None}
    total = sum(weight for _, weight, _ in spans)
    share = sum(weight for _, weight, found in spans if found) / total
    by_document: dict[int, float] = {}
    residuals: dict[int, float] = {}
    for document, weight, found in spans:
        by_document[document] = by_document.get(document, 0) + weight
        residuals[document] = residuals.get(document, 0) + weight * (found - share)
    if share in (0, 1):
        trials = total**2 / sum(weight**2 for weight in by_document.values())
    else:
        trials = total**2 / sum(weight**2 for _, weight, _ in spans)
        documents = len(by_document)
        squares = sum(residual**2 for residual in residuals.values())
        variance = documents / max(1, documents - 1) * squares / total**2
        if variance:
            trials = min(trials, share * (1 - share) / variance)
    return counts | {"recall": share, "recall_interval": find_interval(share, trials)}


def find_interval(share: float, trials: float) -> list[float]:
    """The smallest and the largest probability that a score test with continuity correction does
    not reject: |share - p| - 1 / 2n <= z sqrt(p (1 - p) / n)."""

    def is_rejected(probability: float) -> bool:
        error = math.sqrt(probability * (1 - probability) / trials)
        return abs(share - probability) - 1 / (2 * trials) > NORMAL_QUANTILE * error

    return [_bisect(is_rejected, 0.0, share), _bisect(is_rejected, 1.0, share)]


def _bisect(is_rejected: Callable[[float], bool], outer: float, inner: float) -> float:
    """The end of the interval between a rejected probability and one that is not; `outer` if it is
    not rejected, or if the share is there already."""
    if outer == inner or not is_rejected(outer):
        return outer
    for _ in range(60):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if is_rejected(middle) else (outer, middle)
    return inner


def show_share(share: float, interval: Sequence[float]) -> list[object]:
    """A share and the ends of its interval, which are rounded so that they include it."""
    low, high = (math.floor(100 * interval[0]), math.ceil(100 * interval[1]))
    return [f"{share:.2f}", f"{low / 100:.2f}", f"{high / 100:.2f}"]
