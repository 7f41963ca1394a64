"""What the papers' scripts share: their options, the split of a corpus by document, and the table of criteria beside the paper's numbers.

A script computes every value in the run that prints it, with the shipped `sanitize`, `train` and `eval`; a criterion that could not be
computed is an error, never a gap. The exit code is 1 where a headline criterion is not reproduced.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import platform
import re
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent / "results" / "papers"
SIZES = ("ci", "cpu", "gpu")


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One number of a paper, what this run measured, and the threshold that says whether it was reproduced."""

    value: float
    paper: float | str  # what the paper prints; words where it prints no number
    threshold: float
    above: bool = True  # reproduced at the threshold or above it; else at or below it
    headline: bool = True
    note: str = ""  # scaled down how; why it did not reproduce

    @property
    def reproduced(self) -> bool:
        """True where the value lies on the right side of the threshold."""
        return self.value >= self.threshold if self.above else self.value <= self.threshold


def options(about: str | None, **more: Any) -> argparse.ArgumentParser:
    """The parser of a paper's script: size, seeds, data, work folder, JSON."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0], **more)
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="ci",
        help="ci: what every commit runs, minutes; cpu: three seeds, about ten minutes of two idle cores; gpu: one GPU",
    )
    parser.add_argument("--seeds", type=int, help="how many seeds are trained (default: by size)")
    parser.add_argument("--data", type=Path, help="your own corpus in place of the generated one")
    parser.add_argument("--text-column", default="text", help="with --data: the text; a binary column is read as mail")
    parser.add_argument("--documents", type=int, help="with --data: at most so many documents, drawn by their doc_id")
    # whole, so that the same call from another folder goes on with what lies there
    parser.add_argument(
        "--dir",
        type=lambda given: Path(given).resolve(),
        help="where shards and checkpoints are kept (default: a folder that is removed at the end)",
    )
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--results", type=Path, default=None, help=f"write the JSON into this folder, too (the kept ones: {RESULTS.name}/)")
    return parser


def own(asked: argparse.Namespace, folder: Path) -> Path | None:
    """What `--data` names, as shards with `doc_id` and `text`, whatever it is read from (mail folders, mbox, Parquet); None without.

    The plan `baseline` changes nothing. Scripts whose data has a form of its own (questions, users) read it themselves.
    """
    if asked.data is None:
        return None
    import sanitize
    from sanitize.readers.survey import Roles

    columns = sanitize.Columns(roles=Roles(text=(asked.text_column,)))
    sanitize.run([asked.data], folder / "own", plan="baseline", settings=sanitize.Settings(columns=columns, seed=0, workers=1))
    if asked.documents is None:
        return folder / "own" / "data"
    table = sanitize.Corpus.open(folder / "own").table(["doc_id", "text"])
    (folder / "own-some").mkdir()
    pq.write_table(some(table, asked.documents), folder / "own-some" / "texts.parquet")
    return folder / "own-some"


def some(table: pa.Table, most: int | None) -> pa.Table:
    """At most so many documents in their order, drawn by `doc_id`; None: all of them."""
    if most is None:
        return table
    # lots of their own: the first by the lots that `split` draws, too, would all fall into its first part
    return table.take(pa.array(np.sort(np.argsort(lots(table["doc_id"].to_pylist(), 0, what=b"own"), kind="stable")[:most])))


def split(table: pa.Table, seed: int, shares: Mapping[str, float]) -> dict[str, pa.Table]:
    """A corpus in parts, each document's part drawn from its `doc_id` alone: the same document falls into the same part in any order."""
    assert math.isclose(sum(shares.values()), 1.0), "shares add up to 1"
    part = np.searchsorted(np.cumsum(list(shares.values()))[:-1], lots(table["doc_id"].to_pylist(), seed), side="right")
    return {name: table.filter(pa.array(part == number)) for number, name in enumerate(shares)}


def lots(doc_ids: Sequence[str], seed: int, *, what: bytes = b"") -> npt.NDArray[np.float64]:
    """A number below 1 for each id, which hangs on it, the seed and `what` it is for alone; some thousand documents, once a script."""
    key = seed.to_bytes(8, "little")
    digests = [hashlib.blake2b(str(doc_id).encode(), digest_size=8, key=key, person=what).digest() for doc_id in doc_ids]
    return np.array([int.from_bytes(digest, "little") / 2**64 for digest in digests])


def spent() -> float:
    """The seconds that this process and its children (those that have ended) have had of processors so far."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def machine() -> dict[str, Any]:
    """What a reader must know of the machine: the processor's model, how many cores, the version of Python."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def finish(
    name: str,
    asked: argparse.Namespace,
    criteria: Mapping[str, Criterion],
    *,
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    scaled: str,
    seconds: float,
) -> int:
    """Print the criteria beside the paper's numbers (or one JSON object), keep them where asked, and return the exit code.

    `tables` are further rows that the script measured; `scaled` says in a sentence what is smaller than in the paper; `seconds` are those
    of the wall, beside which stand those of all processors, which other work moves less.
    """
    unknown = [key for key, criterion in criteria.items() if not math.isfinite(criterion.value)]
    assert not unknown, f"no value for {unknown}: a criterion is measured or the run has failed"
    data = None if asked.data is None else re.sub(r"[^a-z0-9]+", "-", asked.data.stem.lower()).strip("-") or "own"
    report = {
        "paper": name,
        **({"data": data} if data else {}),
        "size": asked.size,
        "criteria": {
            key: {
                "value": round(float(criterion.value), 6),
                "paper": criterion.paper,
                "threshold": criterion.threshold,
                "above": criterion.above,
                "headline": criterion.headline,
                "reproduced": bool(criterion.reproduced),
                "note": criterion.note,
            }
            for key, criterion in criteria.items()
        },
        "tables": {key: list(rows) for key, rows in (tables or {}).items()},
        "scaled": scaled,
        "seconds": round(seconds, 1),
        "processor_seconds": round(spent(), 1),
        "machine": machine(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    }
    if asked.results is not None:
        asked.results.mkdir(parents=True, exist_ok=True)
        kept = f"{name}_{asked.size}" + (f"_data_{data}" if data else "")  # what was generated keeps its own file
        (asked.results / f"{kept}.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    if asked.json:
        print(json.dumps(report))
    else:
        print(f"{'criterion':<28}{'here':>10}  {'threshold':>10}  {'paper':>10}  reproduced")
        for key, criterion in criteria.items():
            side = ">=" if criterion.above else "<="
            told = ("yes" if criterion.reproduced else "no") + ("" if criterion.headline else " (reported only)")
            print(f"{key:<28}{criterion.value:>10.3f}  {side + f' {criterion.threshold:g}':>10}  {criterion.paper!s:>10}  {told}")
        print(f"\n{scaled} {seconds:.0f} s, {report['processor_seconds']:.0f} s of processors.")
    failed = [key for key, criterion in criteria.items() if criterion.headline and not criterion.reproduced]
    if failed:
        print(f"{name}: not reproduced: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
