"""Forecasts computed by hand from measured shares and another corpus's frequencies; invalid curve files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from sanitize.cli.main import app
from sanitize.errors import UsageError
from sanitize.reporting.leak_forecast import forecast_leaks, read_curves


def band(low: int, high: int | None, share: float, low_share: float, high_share: float) -> dict[str, Any]:
    return {"from": low, "to": high, "leaked": 1, "addresses": 10, "share": share, "low": low_share, "high": high_share}


CURVES = {
    "version": 1,
    "family": "web",
    "runs": 2,
    "plans": {"baseline": [band(1, 1, 0.1, 0.0, 0.4), band(2, None, 0.5, 0.2, 0.8)], "rmft": []},
}


def test_forecast_equals_a_manual_calculation() -> None:
    forecast = forecast_leaks(CURVES, [(1, 40), (2, 6), (9, 4)])
    baseline, rmft = forecast.plans
    assert (baseline.plan, baseline.addresses, baseline.expected, baseline.low, baseline.high) == (
        "baseline",
        50,
        9.0,
        2.0,
        24.0,
    )
    assert [band.expected for band in baseline.bands] == [4.0, 5.0]
    assert rmft.addresses == 0 == rmft.expected


def test_the_command(tmp_path: Path) -> None:
    pl.DataFrame({"text": ["write to ann.lee@example.com or bo.ray@example.org", "ann.lee@example.com"]}).write_parquet(
        tmp_path / "a.parquet"
    )
    (tmp_path / "curves.json").write_text(json.dumps(CURVES))
    arguments = ["explain", str(tmp_path / "a.parquet"), "--forecast", str(tmp_path / "curves.json")]
    json_output = CliRunner().invoke(app, [*arguments, "--json"])
    assert json_output.exit_code == 0, json_output.output
    assert json.loads(json_output.stdout)["forecast"]["plans"][0]["expected"] == 0.6  # one address once, one twice
    text_output = CliRunner().invoke(app, arguments)
    assert "baseline       0.6 of 2 (0.2 to 1.2)" in text_output.stdout and "ann.lee" not in text_output.stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({**CURVES, "version": 2}), json.dumps({**CURVES, "plans": {"a": [{"from": 1}]}})]
)
def test_invalid_curve_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "curves.json")
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "none.json")
