"""Memory depends on the bytes of a batch, not on how many spans one document has; CPU time is
linear in a document.

Each corpus is processed twice by processes of their own: all of its bytes in one document, and cut
into documents of 2 KB. Where a stage copies a text, or a window of it that grows with it, for each
span, the first takes many times the memory of the second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="peak memory is reported in kilobytes only on Linux"
)

# bytes; a stage that copies a text for each span ends here instead of taking the machine's memory
ADDRESS_SPACE = 8 << 30
UNITS = {  # what is repeated; {} is the number of the repetition
    "one name": "John ",
    "one address": "Write to ann@example.com now.\n",
    "one card beside _": "id_4539578763621486_x 4539578763621486\n",
    "distinct addresses": "Write to user{}@host.example.com now.\n",
    "distinct addresses after escapes": r"\nann{}@example.com",
    "phones and names": "call 312-555-0178 or Ann{} Lee\n",
    "recipients of one header": "Ann Lee{} <ann{}@example.com>, ",
    "header blocks": (
        "From: Ann Lee <ann{}@example.com>\nTo: Bob Ray <bob@example.org>\n\nhi Ann\n\n"
    ),
    "an escape": r"\n",
    "half of a surrogate pair": r"\ud83d",
    "surrogate pairs": r"\ud83d\ude00",
    "paths": r"C:\users\tom\new\table" + "\\",
    "regular expressions": r"(?:\\d{{3}}\-\w+\.\\[a-z]+\n)",
    "percent escapes": "%41%6e",
    "encoded lines": "VGhpcyBpcyBhbm5AZXhhbXBsZS5jb20g\n",
    "beyond ASCII": "Grüße an ann@example.com über\n",
    "digits": "0123456789",
}
CHILD = r"""
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
import pyarrow as pa, pyarrow.parquet as pq
import sanitize

def measure():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime

if __name__ == "__main__":
    texts, plan = json.load(open(sys.argv[1])), sys.argv[2]
    options = dict(plan=plan, seed=1, workers=1)
    pq.write_table(pa.table({"text": texts[:1]}), "small.parquet")
    sanitize.run("small.parquet", "small", **options)
    steps = {"start": measure()}
    pq.write_table(pa.table({"text": texts}), "in.parquet")
    sanitize.redact(texts)
    steps["redact"] = measure()
    sanitize.run("in.parquet", "out", **options)
    steps["run"] = measure()
    for name in ("verify", "diff", "report"):
        getattr(sanitize, name)("out")
        steps[name] = measure()
    sanitize.detect(texts)
    steps["detect"] = measure()
    print(json.dumps(steps))
"""
# removes the values of the units, so that in the units they are found again by the sweep and the
# second round
FIRST_TEXT = (
    "From: John Lee <q@example.com>\n\nThe card 4539578763621486 and John.\nCall 312-555-0178.\n"
)


def repeat(unit: str, size: int) -> list[str]:
    """The unit as often as `size` bytes hold it."""
    count = size // len(unit.format("", "").encode())
    return [unit.format(number, number) for number in range(count)]


def measure(folder: Path, texts: list[str], plan: str = "redact") -> dict[str, tuple[float, float]]:
    """By step of the child: the peak resident memory so far in MB, and the CPU-seconds so far."""
    folder.mkdir()
    (folder / "texts.json").write_text(json.dumps([FIRST_TEXT, *texts]))
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-c", CHILD, "texts.json", plan, str(ADDRESS_SPACE)]
    process = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr[-2_000:]
    steps: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return {name: (peak, cpu) for name, (peak, cpu) in steps.items()}


def compare_layouts(folder: Path, unit: str, size: int, plan: str = "redact") -> None:
    pieces = repeat(UNITS[unit], size)
    per_document = max(1, len(pieces) * 2_000 // size)
    spread = ["".join(pieces[at : at + per_document]) for at in range(0, len(pieces), per_document)]
    one, many = (
        measure(folder / "one", ["".join(pieces)], plan),
        measure(folder / "many", spread, plan),
    )
    for step in one:
        grown_one, grown_many = (steps[step][0] - steps["start"][0] for steps in (one, many))
        assert grown_one <= 1.4 * max(grown_many, 0) + 60, (step, one, many)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("unit", ["one name", "distinct addresses after escapes"])
def test_memory_does_not_depend_on_the_spans_of_one_document(tmp_path: Path, unit: str) -> None:
    """100,000 spans of one name in 500 KB took 80 GB where the text was copied for each of them."""
    compare_layouts(tmp_path, unit, 300_000 if unit == "one name" else 500_000)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("unit", UNITS)
def test_memory_does_not_depend_on_the_spans_of_a_long_document(tmp_path: Path, unit: str) -> None:
    compare_layouts(tmp_path, unit, 4_000_000)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("plan", ["rmft", "surrogates", "pseudonymize", "strict"])
def test_memory_does_not_depend_on_the_spans_of_one_document_under_a_plan(
    tmp_path: Path, plan: str
) -> None:
    compare_layouts(tmp_path, "distinct addresses", 4_000_000, plan)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("unit", UNITS)
def test_cpu_time_is_linear_in_one_document(tmp_path: Path, unit: str) -> None:
    single, double = (
        measure(tmp_path / str(times), ["".join(repeat(UNITS[unit], times * 2_000_000))])
        for times in (1, 2)
    )
    spent, spent_double = (steps["detect"][1] - steps["start"][1] for steps in (single, double))
    assert spent_double <= 2.3 * spent + 0.5, (single, double)
