"""Forecasts computed by hand from measured shares and another corpus's frequencies; invalid curve
files are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from sanitize.cli.main import app
from sanitize.errors import UsageError
from sanitize.reporting.leak_forecast import forecast_leaks, read_curves


def band(low: int, high: int | None, leaked: int, addresses: int = 10) -> dict[str, Any]:
    share = leaked / addresses if addresses else None
    return {"from": low, "to": high, "leaked": leaked, "addresses": addresses, "share": share}


CURVES = {
    "version": 2,
    "family": "web",
    "runs": 2,
    "plans": {
        "baseline": [band(1, 1, 1), band(2, None, 5)],
        "rmft": [],
        "redact": [band(1, 1, 0), band(2, None, 0, addresses=0)],
    },
}


def test_forecast_equals_a_manual_calculation() -> None:
    baseline, rmft, redact = forecast_leaks(CURVES, [(1, 40), (2, 6), (9, 4)]).plans
    assert (baseline.plan, baseline.addresses, baseline.expected) == ("baseline", 50, 9.0)
    assert [(one.expected, one.measured_leaked, one.measured_on) for one in baseline.bands] == [
        (4.0, 1, 10),
        (5.0, 5, 10),
    ]
    assert (rmft.addresses, rmft.expected) == (0, 0)
    assert [one.expected for one in redact.bands] == [0.0, None] and redact.expected is None
    # a band that was not measured is of no matter where no address belongs to it
    assert forecast_leaks(CURVES, [(1, 40)]).plans[2].expected == 0.0


def test_the_command(tmp_path: Path) -> None:
    pl.DataFrame(
        {"text": ["write to ann.lee@example.com or bo.ray@example.org", "ann.lee@example.com"]}
    ).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "curves.json").write_text(json.dumps(CURVES))
    arguments = [
        "explain",
        str(tmp_path / "a.parquet"),
        "--forecast",
        str(tmp_path / "curves.json"),
    ]
    json_output = CliRunner().invoke(app, [*arguments, "--json"])
    assert json_output.exit_code == 0, json_output.output
    # one address once, one twice
    assert json.loads(json_output.stdout)["forecast"]["plans"][0]["expected"] == 0.6
    text_output = CliRunner().invoke(app, arguments)
    lines = [" ".join(line.split()) for line in text_output.stdout.splitlines()]
    assert {
        "baseline 0.6 of 2",
        "2 or more times: 0.5 of 1 (5 of 10 leaked when measured)",
        "redact not measured of 2",
        "2 or more times: not measured of 1 (0 of 0 leaked when measured)",
    } <= set(lines)
    assert "ann.lee" not in text_output.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({**CURVES, "version": 1}),
        json.dumps({**CURVES, "plans": {"a": [{"from": 1}]}}),
        json.dumps({**CURVES, "plans": {"a": [band(1, 1, 11)]}}),
        json.dumps({**CURVES, "plans": {"a": [{**band(1, 1, 1), "leaked": math.nan}]}}),
    ],
)
def test_invalid_curve_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "curves.json")
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "none.json")
