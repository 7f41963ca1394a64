"""pytest plugin of `make soak`: records what passed in benchmarks/results/soak.json, and leaves it
out when the command is repeated.

`-p tests.soak_record`, with these options:

    --soak-minutes N   starts no further test after N minutes; the same command goes on with the
                       rest
    --soak-restart     forgets what passed before, of the tests that are selected
    --soak-record FILE another file than benchmarks/results/soak.json

The record has one entry for each test: how many cases (parameters) it has, which of them passed and
failed, their counts (kills, failing calls, crashes, inputs, as tests report them by
`record_property`), seconds, and the commits at which they passed.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "results" / "soak.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption(
        "--soak-minutes", type=float, default=0, help="start no further test after so many minutes"
    )
    group.addoption(
        "--soak-restart",
        action="store_true",
        help="forget what passed before, of the selected tests",
    )
    group.addoption("--soak-record", type=Path, default=RECORD, help="the file of the record")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SoakRecord(config), "soak-record-writer")


ABOUT = (
    "the long tests (`make soak`): cases that passed, with their counts and wall seconds, on a"
    " machine that others may work on"
)


def describe_machine() -> dict[str, Any]:
    """Processor, cores and Python of this machine."""
    cpu_info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpu_info.read_text() if cpu_info.exists() else "")
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def split_node_id(node_id: str) -> tuple[str, str]:
    """(test, case): the test without its parameters, and the parameters; no parameters are the case
    `-`."""
    test, _, parameters = node_id.partition("[")
    return test, parameters.removesuffix("]") or "-"


def format_record(record: dict[str, Any]) -> str:
    """The record as JSON with one line for each test."""
    tests = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(entry)}"
        for name, entry in sorted(record["tests"].items())
    )
    head = {name: value for name, value in record.items() if name != "tests"}
    return json.dumps(head, indent=1).removesuffix("\n}") + ',\n "tests": {\n' + tests + "\n }\n}\n"


class SoakRecord:
    """Deselects the cases that the record has as passed, and writes each result into it at once."""

    def __init__(self, config: pytest.Config) -> None:
        self.path: Path = config.getoption("--soak-record")
        self.restart: bool = config.getoption("--soak-restart")
        self.minutes: float = config.getoption("--soak-minutes")
        self.start_time = time.monotonic()
        self.record: dict[str, Any] = (
            json.loads(self.path.read_text("utf-8")) if self.path.exists() else {}
        )
        self.record = {
            "about": ABOUT,
            "machine": describe_machine(),
            "tests": self.record.get("tests", {}),
        }
        self.commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        self.properties: dict[str, list[tuple[str, object]]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        cases: dict[str, list[str]] = {}
        for item in items:
            test, case = split_node_id(item.nodeid)
            cases.setdefault(test, []).append(case)
        tests = self.record["tests"]
        for test, names in cases.items():
            entry = {} if self.restart else tests.get(test, {})
            passed = [
                case
                for case in entry.get("passed", [])
                if case in names or len(names) < entry["cases"]
            ]
            all_names = (
                {*names, *passed, *entry.get("failed", [])}
                if len(names) < entry.get("cases", 0)
                else {*names}
            )
            tests[test] = {
                "cases": max(len(all_names), len(names)),
                **{key: entry[key] for key in entry if key != "cases"},
                "passed": passed,
            }
        remaining = [
            item
            for item in items
            if split_node_id(item.nodeid)[1] not in tests[split_node_id(item.nodeid)[0]]["passed"]
        ]
        kept = {*map(id, remaining)}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = remaining

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if self.minutes and time.monotonic() - self.start_time > self.minutes * 60:
            pytest.exit(
                f"{self.minutes:g} minutes are over; the same command goes on with the rest",
                returncode=0,
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        test, case = split_node_id(report.nodeid)
        entry = self.record["tests"].setdefault(test, {"cases": 1, "passed": []})
        for outcome in ("passed", "failed", "skipped"):
            names = [name for name in entry.get(outcome, []) if name != case] + (
                [case] if report.outcome == outcome else []
            )
            entry.pop(outcome, None)
            if names or outcome == "passed":
                entry[outcome] = names
        counts = entry.setdefault("counts", {})
        for name, value in report.user_properties:
            counts[name] = counts.get(name, 0) + int(str(value))
        entry["seconds"] = round(entry.get("seconds", 0) + report.duration)
        entry["commits"] = [
            *(commit for commit in entry.get("commits", []) if commit != self.commit),
            self.commit,
        ]
        entry["date"] = datetime.date.today().isoformat()
        self.write()

    def write(self) -> None:
        """Writes the record in one step, so that a kill leaves the old or the new one."""
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(format_record(self.record), "utf-8")
        os.replace(temporary, self.path)
