"""What the benchmarks share: rounds and their rates, processes and their costs, result files and
tables."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import runner


def test_methods_take_turns_and_rates_are_of_medians() -> None:
    calls: list[str] = []
    # what each call takes, by a clock that is read before and after it
    ticks = iter([0, 1, 1, 11, 20, 23, 30, 40, 50, 52, 60, 70])
    rates, outputs = runner.measure_in_turn(
        {
            "fast": (lambda: calls.append("fast") or len(calls), 100),
            "slow": (lambda: calls.append("slow") or len(calls), 50),
        },
        3,
        clock=lambda: next(ticks),
    )
    assert calls == ["fast", "slow"] * 3
    assert rates == {"fast": 50, "slow": 5} and outputs == {"fast": 5, "slow": 6}


def test_medians_replace_the_figures_of_the_last_round() -> None:
    rounds = [{"cpu_s": cpu_s, "found": cpu_s} for cpu_s in (9, 1, 4)]
    assert runner.take_medians(rounds, "cpu_s") == {"cpu_s": 4, "found": 4}
    assert runner.take_medians(rounds[:2], "cpu_s") == {"cpu_s": 5, "found": 1}


def use_processor() -> int:
    return sum(range(3_000_000))


def read_variable(name: str) -> str | None:
    return os.environ.get(name)


def test_costs_are_those_of_the_call() -> None:
    cost, result = runner.measure_call(use_processor)
    assert result == 4_499_998_500_000 and 0.01 < cost.cpu_s < 10 and cost.wall_s > 0.01
    assert runner.measure_call(lambda: None)[0].cpu_s < cost.cpu_s / 2


def test_a_subprocess_has_one_thread_and_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert runner.run_in_subprocess(read_variable, "OMP_NUM_THREADS") == "1"
    assert runner.run_in_subprocess(read_variable, "OF_BENCH", OF_BENCH="set") == "set"
    assert "OMP_NUM_THREADS" not in os.environ and "OF_BENCH" not in os.environ


def test_a_command_is_measured_from_outside() -> None:
    code = "import json; sum(range(5_000_000)); print('log'); print(json.dumps({'found': 3}))"
    printed, cost = runner.measure_command([sys.executable, "-c", code])
    assert printed == {"found": 3} and cost.cpu_s > 0.02 and cost.peak_rss_mb > 5
    with pytest.raises(SystemExit, match="exit code 3"):
        runner.measure_command([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_tool", "not installed (no_such_tool)"),
        ("raise ValueError('ann@example.com')", "failed (ValueError)"),
    ],
)
def test_the_reason_of_a_failure_quotes_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    (tmp_path / "worker_of_test.py").write_text(code)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    assert runner.run_worker(sys.executable, "worker_of_test") == reason


def test_a_result_has_date_machine_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = runner.start_result("pytest", repeat=2)
    runner.save_result(tmp_path / "results", "one", result, "# Page\n")
    saved = json.loads((tmp_path / "results" / "one.json").read_text())
    assert list(saved) == ["date", "machine", "repeat"]
    assert saved["machine"]["versions"]["pytest"] == pytest.__version__
    assert (tmp_path / "results" / "one.md").read_text() == "# Page\n" in capsys.readouterr().out
    assert runner.describe_setting(saved).endswith("Medians of 2")
    runner.save_result(tmp_path, "two", result)
    assert not (tmp_path / "two.md").exists()


def test_options_have_the_types_of_their_defaults(tmp_path: Path) -> None:
    parser = runner.build_parser("About.\n\nMore.", mb=5, dir=tmp_path)
    assert parser.description == "About."
    options = parser.parse_args(["--mb", "7", "--results", "/there"])
    assert (options.mb, options.dir, options.results) == (7, tmp_path, Path("/there"))
    with pytest.raises(SystemExit):
        parser.parse_args(["--repeat", "3"])


def test_tables_align_numbers_and_keep_empty_cells() -> None:
    assert runner.format_table(
        ["tool", "kinds", "MB"], [["a", "", "1"], ["b", "", ""]], left=2
    ) == [
        "| tool | kinds | MB |",
        "|---|---|--:|",
        "| a | | 1 |",
        "| b | | |",
    ]
    assert runner.format_table(["a", "b"], [])[1] == "|---|---|"
    columns = {"dense": {"rate": {"find": 2.5}}, "sparse": {"rate": {"find": 10}}}
    assert runner.format_columns(columns, [("MB", "{rate[find]:.1f}")]) == [
        "| | dense | sparse |",
        "|---|--:|--:|",
        "| MB | 2.5 | 10.0 |",
    ]
