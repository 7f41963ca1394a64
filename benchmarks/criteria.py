"""Shared code of the papers' scripts: their options, the split of a corpus by document, and the
table of criteria with the paper's numbers.

A script computes every value in the run that prints it, with the shipped `sanitize`, `train` and
`eval`; a criterion that could not be computed is an error and never omitted. A criterion is
reproduced where its whole interval lies on the right side of the threshold, not reproduced where it
lies on the other side, and else not decided. The exit code is 1 if the value of a headline
criterion is on the wrong side, whatever its interval: at size `ci` that is a regression test.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.runner import describe_processor, used_cpu_seconds
from sanitize.errors import SanitizeError

RESULTS = Path(__file__).parent / "results" / "papers"
SIZES = ("ci", "cpu", "real", "gpu")
RESAMPLES = 1_000  # draws of a bootstrap
REPRODUCED, NOT_REPRODUCED, NOT_DECIDED = "reproduced", "not reproduced", "not decided"
HOLDS, FAILS = "holds, no interval", "fails, no interval"


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A 95 % interval of a value, with the events that it is made of."""

    low: float
    high: float
    events: int | None = (
        # how many observations of what is counted (leaks, memorized texts, right answers) the value
        # is made of
        None
    )
    method: str = ""  # what was drawn again, and which source of variance is left out


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One number of a paper, the value measured by this run, and the threshold that decides whether
    it was reproduced."""

    value: float
    paper: float | str  # the paper's value; a text if it prints no number
    threshold: float
    above: bool = True  # reproduced at the threshold or above it; else at or below it
    headline: bool = True
    note: str = ""  # how it was scaled down; why it was not reproduced
    interval: Interval | None = None

    @property
    def holds(self) -> bool:
        """True if the value is on the right side of the threshold."""
        return self._is_right(self.value)

    @property
    def verdict(self) -> str:
        """By the interval: reproduced, not reproduced, or not decided; without one whether the
        value holds."""
        if self.interval is None:
            return HOLDS if self.holds else FAILS
        sides = {self._is_right(self.interval.low), self._is_right(self.interval.high)}
        return NOT_DECIDED if len(sides) == 2 else REPRODUCED if True in sides else NOT_REPRODUCED

    @property
    def events_needed(self) -> int | None:
        """How many events would decide the criterion if the value stayed as it is, for half-widths
        that fall with the square root of their number; None where it is decided, where events are
        not counted, or where the value lies on the threshold."""
        if (
            self.interval is None
            or not self.interval.events
            or self.verdict != NOT_DECIDED
            or self.value == self.threshold
        ):
            return None
        toward_threshold = (
            self.value - self.interval.low
            if self.value > self.threshold
            else self.interval.high - self.value
        )
        return math.ceil(
            self.interval.events * (toward_threshold / (self.value - self.threshold)) ** 2
        )

    def _is_right(self, value: float) -> bool:
        return value >= self.threshold if self.above else value <= self.threshold

    def describe(self) -> dict[str, Any]:
        """The entry of a result file."""
        entry: dict[str, Any] = {
            "value": round(float(self.value), 6),
            "paper": self.paper,
            "threshold": self.threshold,
            "above": self.above,
            "headline": self.headline,
            "verdict": self.verdict,
            "note": self.note,
        }
        if self.interval is not None:
            entry |= {
                "low": round(self.interval.low, 6),
                "high": round(self.interval.high, 6),
                "events": self.interval.events,
                "events_needed": self.events_needed,
                "interval": self.interval.method,
            }
        return entry


def bootstrap_intervals(
    resample: Callable[[np.random.Generator], Mapping[str, float]],
    *,
    method: str,
    events: Mapping[str, int] | None = None,
    resamples: int = RESAMPLES,
) -> dict[str, Interval]:
    """Percentile intervals of every value that `resample` returns of a drawn sample (Efron 1979); a
    value that is not a number in a draw, such as a ratio to nothing, does not count there, and has
    no interval where that is so in more than a twentieth of the draws, or where no event was
    seen."""
    generator = np.random.default_rng(0)
    drawn: dict[str, list[float]] = {}
    for _ in range(resamples):
        for name, value in resample(generator).items():
            drawn.setdefault(name, []).append(value)
    found = {}
    for name, values in drawn.items():
        finite = np.array([value for value in values if math.isfinite(value)])
        if len(finite) >= 0.95 * resamples and (events or {}).get(name) != 0:
            # without events every draw is the same
            low, high = np.quantile(finite, [0.025, 0.975])
            found[name] = Interval(
                low=float(low), high=float(high), events=(events or {}).get(name), method=method
            )
    return found


def compute_ratio_bounds(numerator: int, denominator: int) -> tuple[float, float]:
    """Exact 95 % bounds of the ratio of two counts, by the share of their sum (Przyborowski and
    Wilenski 1940; Clopper and Pearson 1934); the upper one is infinite for a denominator of 0."""
    from sanitize.eval.metrics.membership import clopper_pearson_interval

    if not numerator + denominator:
        return 0.0, math.inf
    low, high = clopper_pearson_interval(numerator, numerator + denominator)
    return low / (1 - low), high / (1 - high) if high < 1 else math.inf


def widen_interval(
    interval: Interval | None, low: float, high: float, *, events: int, least: float, most: float
) -> Interval:
    """The interval, extended to exact bounds, since a bootstrap draws no event that was not seen:
    of 0 leaks it makes 0 with certainty. `least` and `most` are the smallest and largest possible
    values."""
    method = "" if interval is None else interval.method
    bounds = (low, high) if interval is None else (min(low, interval.low), max(high, interval.high))
    method = (
        f"{method}, extended to exact bounds of the counts"
        if method
        else "exact bounds of the counts"
    )
    return Interval(
        low=max(bounds[0], least), high=min(bounds[1], most), events=events, method=method
    )


# 97.5 % quantiles of Student's t by degrees of freedom
_STUDENT = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
}


def compute_seed_intervals(by_seed: Sequence[Mapping[str, Criterion]]) -> dict[str, Interval]:
    """Student's intervals of the mean over seeds, of criteria that each seed measured alone; none
    of values that are equal in all seeds, whose spread is unknown, and none for one seed."""
    freedom = len(by_seed) - 1
    if not freedom:
        return {}
    found = {}
    for name in by_seed[0]:
        values = np.array([seed[name].value for seed in by_seed])
        if np.ptp(values) == 0:
            continue
        half = _STUDENT.get(freedom, 2.262) * float(values.std(ddof=1)) / math.sqrt(len(values))
        method = f"Student's t over {len(values)} seeds"
        found[name] = Interval(
            low=float(values.mean()) - half, high=float(values.mean()) + half, method=method
        )
    return found


def run_script(main: Callable[[], int]) -> None:
    """Run a script's `main` and exit with its code, or with the message and code of an error that
    is the user's."""
    try:
        sys.exit(main())
    except SanitizeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def with_intervals(
    criteria: Mapping[str, Criterion], intervals: Mapping[str, Interval]
) -> dict[str, Criterion]:
    """The criteria with their intervals, by name; one that is not among the intervals stays
    without."""
    return {
        name: replace(one, interval=intervals.get(name, one.interval))
        for name, one in criteria.items()
    }


def make_parser(about: str | None, **more: Any) -> argparse.ArgumentParser:
    """The parser of a paper's script: size, seeds, data, work folder, JSON."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0], **more)
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="ci",
        help=(
            "ci: what every commit runs, minutes; cpu: three seeds, about ten minutes of two idle"
            " cores; real: a pretrained model (--model) in hours of a CPU, which can be stopped and"
            " continued; gpu: one GPU"
        ),
    )
    parser.add_argument(
        "--model",
        type=Path,
        help=(
            "sizes real and gpu: the folder of a pretrained model in Hugging Face layout (`make"
            " model` writes a causal one)"
        ),
    )
    parser.add_argument("--seeds", type=int, help="how many seeds are trained (default: by size)")
    parser.add_argument("--data", type=Path, help="your own corpus instead of the generated one")
    parser.add_argument(
        "--text-column",
        default="text",
        help="with --data: the text; a binary column is read as mail",
    )
    parser.add_argument(
        "--documents",
        type=int,
        help="with --data: maximum number of documents, drawn by their doc_id",
    )
    # absolute, so that the same call from another folder finds the existing files
    parser.add_argument(
        "--dir",
        type=lambda given: Path(given).resolve(),
        help="where shards and checkpoints are kept (default: a folder that is removed at the end)",
    )
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument(
        "--results",
        type=Path,
        default=None,
        help=f"write the JSON into this folder, too (the kept ones: {RESULTS.name}/)",
    )
    return parser


def read_own_corpus(arguments: argparse.Namespace, folder: Path) -> Path | None:
    """The corpus of `--data` as shards with `doc_id` and `text`, from any input format; None
    without `--data`.

    The plan `baseline` changes nothing. Scripts whose data has a form of its own (questions, users)
    read it themselves.
    """
    if arguments.data is None:
        return None
    import sanitize

    sanitize.run(
        [arguments.data],
        folder / "own",
        plan="baseline",
        text_column=arguments.text_column,
        seed=0,
        workers=1,
        replace=True,
    )
    corpus = sanitize.Corpus.open(folder / "own")
    names = [column["name"] for column in corpus.manifest["columns"]]
    # mails are always text
    text = arguments.text_column if arguments.text_column in names else "text"
    if arguments.documents is None and text == "text":
        return folder / "own" / "data"
    table = corpus.table(["doc_id", text]).rename_columns(["doc_id", "text"])
    (folder / "own-some").mkdir(exist_ok=True)
    table = table if arguments.documents is None else sample_documents(table, arguments.documents)
    pq.write_table(table, folder / "own-some" / "texts.parquet")
    return folder / "own-some"


def sample_documents(table: pa.Table, limit: int | None) -> pa.Table:
    """At most `limit` documents in their order, drawn by `doc_id`; None: all of them."""
    if limit is None:
        return table
    # other draws than those of `split_documents`, else the sample would lie in its first part
    return table.take(
        pa.array(
            np.sort(
                np.argsort(
                    draw_uniform(table["doc_id"].to_pylist(), 0, purpose=b"own"), kind="stable"
                )[:limit]
            )
        )
    )


def split_documents(table: pa.Table, seed: int, shares: Mapping[str, float]) -> dict[str, pa.Table]:
    """Split a corpus; the part of a document depends on its `doc_id` and the seed alone, not on the
    order."""
    assert math.isclose(sum(shares.values()), 1.0), "shares add up to 1"
    part = np.searchsorted(
        np.cumsum(list(shares.values()))[:-1],
        draw_uniform(table["doc_id"].to_pylist(), seed),
        side="right",
    )
    return {name: table.filter(pa.array(part == number)) for number, name in enumerate(shares)}


def draw_uniform(
    doc_ids: Sequence[str], seed: int, *, purpose: bytes = b""
) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each id, which depends on the id, the seed and `purpose` alone; for
    some thousand documents."""
    key = seed.to_bytes(8, "little")
    digests = [
        hashlib.blake2b(str(doc_id).encode(), digest_size=8, key=key, person=purpose).digest()
        for doc_id in doc_ids
    ]
    return np.array([int.from_bytes(digest, "little") / 2**64 for digest in digests])


def report_criteria(
    name: str,
    arguments: argparse.Namespace,
    criteria: Mapping[str, Criterion],
    *,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    scaled: str,
    seconds: float,
) -> int:
    """Print the criteria with the paper's numbers (or one JSON object), write them to `--results`,
    and return the exit code.

    `tables` are further rows that the script measured; `scaled` says in a sentence what is smaller
    than in the paper; `seconds` is wall time, reported together with CPU time, which depends less
    on other load.
    """
    unknown = [key for key, criterion in criteria.items() if not math.isfinite(criterion.value)]
    assert not unknown, f"no value for {unknown}: a criterion is measured or the run has failed"
    data = (
        None
        if arguments.data is None
        else re.sub(r"[^a-z0-9]+", "-", arguments.data.stem.lower()).strip("-") or "own"
    )
    report = {
        "paper": name,
        **({"data": data} if data else {}),
        **({"model": arguments.model.name} if arguments.model else {}),
        "size": arguments.size,
        "criteria": {key: criterion.describe() for key, criterion in criteria.items()},
        "tables": {key: list(rows) for key, rows in (tables or {}).items()},
        "scaled": scaled,
        "seconds": round(seconds, 1),
        "processor_seconds": round(used_cpu_seconds(), 1),
        "machine": describe_processor(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }
    if arguments.results is not None:
        arguments.results.mkdir(parents=True, exist_ok=True)
        # results on generated data have a separate file; those of a pretrained model are on real
        # data where that is needed
        file_stem = f"{name}_{arguments.size}" + (
            f"_data_{data}" if data and arguments.size != "real" else ""
        )
        (arguments.results / f"{file_stem}.json").write_text(
            json.dumps(report, indent=1, sort_keys=True) + "\n"
        )
    if arguments.json:
        print(json.dumps(report))
    else:
        print(
            f"{'criterion':<28}{'here':>10}  {'threshold':>10}  {'interval':>18}  {'paper':>10} "
            " verdict"
        )
        for key, criterion in criteria.items():
            comparison = ">=" if criterion.above else "<="
            verdict = criterion.verdict + ("" if criterion.headline else " (reported only)")
            bounds = (
                ""
                if criterion.interval is None
                else f"{criterion.interval.low:.3f} .. {criterion.interval.high:.3f}"
            )
            threshold = f"{comparison} {criterion.threshold:g}"
            print(
                f"{key:<28}{criterion.value:>10.3f}  {threshold:>10}  {bounds:>18} "
                f" {criterion.paper!s:>10}  {verdict}"
            )
        print(f"\n{scaled} {seconds:.0f} s, {report['processor_seconds']:.0f} s of processors.")
    failed = [
        key for key, criterion in criteria.items() if criterion.headline and not criterion.holds
    ]
    if failed:
        print(f"{name}: on the wrong side of the threshold: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
