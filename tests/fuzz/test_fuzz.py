"""Every target of `fuzz_targets.py` holds for its seeds and inputs made from them; `make soak`
fuzzes all for two hours by coverage."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.fuzz_targets import TARGETS

SECONDS = float(os.environ.get("SOAK_FUZZ_SECONDS", "7200")) / len(TARGETS)
MUTATIONS = 12  # of each target, in `make test`
DELIMITERS = [bytes([byte]) for byte in b'"\n,{}[]\\=%&;\x00']


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The bytes with up to four of them flipped, removed, repeated or replaced by a byte that
    formats use."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        position, width = rng.randrange(len(changed) + 1), rng.choice((1, 2, 4, 16))
        piece = rng.choice(
            (
                b"",
                changed[position : position + width] * 2,
                bytes([rng.randrange(256)]),
                rng.choice(DELIMITERS),
            )
        )
        changed[position : position + width] = piece
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TARGETS if not name.startswith("kernel ")])
def test_mutated_inputs_are_handled(name: str) -> None:
    target, rng = TARGETS[name], random.Random(name)
    for seed in target.seeds:
        target.check(seed)
    for _ in range(2 if name == "detection" else MUTATIONS):
        target.check(mutate(rng.choice(target.seeds), rng))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TARGETS)
def test_inputs_led_by_coverage_are_handled(
    name: str, tmp_path: Path, record_property: Any
) -> None:
    """SOAK_FUZZ_SECONDS=n is the time for all targets together."""
    pytest.importorskip("atheris", reason="atheris has no package for this system")
    script = Path(__file__).with_name("fuzz_target.py")
    process = subprocess.run(
        [sys.executable, str(script), name, str(round(SECONDS)), str(tmp_path / "corpus")],
        capture_output=True,
        text=True,
        errors="replace",
    )
    failing = [path.read_bytes().hex() for path in tmp_path.glob("*-*") if path.is_file()]
    assert process.returncode == 0 and not failing, (
        f"{process.stderr[-3000:]}\nthe failing input, in hexadecimal digits: {failing}"
    )
    executed = re.search(r"stat::number_of_executed_units: (\d+)", process.stderr)
    assert executed is not None and int(executed[1]) > 10
    record_property("inputs", int(executed[1]))
