"""The papers' scripts at size `ci`, two at a time (`make papers`).

A script runs again when its code, that of the packages, Python or an installed library has changed
since its last run that passed; otherwise the output of that run is printed. A record is a file in
build/papers/; without the folder every script runs.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE_FOLDERS = ("benchmarks", "eval", "sanitize", "sql", "train")
BUILT_SUFFIXES = (".c", ".pyc", ".so")  # made from other files
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
# one seed is enough to see that a criterion still holds; rmft's difference to header_dedup holds
# only over both, and the other scripts have one
OPTIONS = {"early_detection": ("--seeds", "1"), "recollect_rank": ("--seeds", "1")}


def list_code_files(root: Path, script: Path) -> Iterator[Path]:
    """The files that a script may read: all packages without the other scripts and results."""
    for folder in CODE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            is_other = path.parent == script.parent and path != script
            is_result = root / "benchmarks" / "results" in path.parents
            is_built = path.suffix in BUILT_SUFFIXES or path.name == "compiled.json"
            if path.is_file() and not (is_other or is_result or is_built):
                yield path


def compute_fingerprint(root: Path, script: Path) -> str:
    """A hash of all that decides the output of a script."""
    libraries = sorted(
        f"{one.metadata['Name']} {one.version}" for one in importlib.metadata.distributions()
    )
    system = [platform.python_version(), platform.machine(), *libraries]
    digest = hashlib.sha256(json.dumps([system, ENVIRONMENT]).encode())
    for path in list_code_files(root, script):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def run_or_reuse(root: Path, script: Path) -> tuple[int, str]:
    """Exit code and output of a script, or of its last run where nothing has changed since."""
    record_path = root / "build" / "papers" / f"{script.stem}.json"
    fingerprint = compute_fingerprint(root, script)
    if record_path.is_file():
        record = json.loads(record_path.read_text("utf-8"))
        if record["fingerprint"] == fingerprint:
            return 0, f"unchanged since it passed at {record['time']}\n{record['output']}"
    result = subprocess.run(
        [sys.executable, str(script), *OPTIONS.get(script.stem, ())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | ENVIRONMENT,
    )
    if result.returncode == 0:
        record = {
            "fingerprint": fingerprint,
            "time": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="minutes"),
            "output": result.stdout,
        }
        record_path.parent.mkdir(parents=True, exist_ok=True)
        record_path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return result.returncode, result.stdout


def main(root: Path = ROOT) -> int:
    """Runs all scripts and prints their outputs; 1 if one has failed."""
    scripts = sorted((root / "benchmarks" / "papers").glob("*.py"))
    failed = False
    with ThreadPoolExecutor(2) as pool:
        for script, (code, output) in zip(
            scripts, pool.map(lambda script: run_or_reuse(root, script), scripts), strict=True
        ):
            print(f"{script.name}: {output}", flush=True)
            failed = failed or code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
