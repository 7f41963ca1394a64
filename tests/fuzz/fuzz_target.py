"""Fuzzes one target with atheris until the time is over or an input fails: `python
tests/fuzz/fuzz_target.py NAME SECONDS FOLDER`.

FOLDER keeps the corpus of inputs (those that reached new code), and an input that failed as
`crash-*`. Begins with the target's seeds and what FOLDER already has.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]


def main(name: str, seconds: str, folder: str) -> None:
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    with atheris.instrument_imports(include=["sanitize"]):
        from fuzz_targets import TARGETS

        target = TARGETS[name]
        for seed in target.seeds:
            target.check(seed)  # imports what is imported late
    corpus = Path(folder)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=4096",
        "-timeout=60",
        "-report_slow_units=60",
        "-rss_limit_mb=4096",
        f"-artifact_prefix={corpus.parent}/",
    ]
    atheris.Setup(
        [sys.argv[0], *options, "-print_final_stats=1", "-verbosity=0", str(corpus)], target.check
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
