"""Forecasts computed by hand from measured shares and another corpus's frequencies; files that are no curves are refused."""

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


def band(low: int, high: int | None, share: float, least: float, most: float) -> dict[str, Any]:
    return {"from": low, "to": high, "leaked": 1, "addresses": 10, "share": share, "low": least, "high": most}


CURVES = {
    "version": 1,
    "family": "web",
    "runs": 2,
    "plans": {"baseline": [band(1, 1, 0.1, 0.0, 0.4), band(2, None, 0.5, 0.2, 0.8)], "rmft": []},
}


def test_by_hand() -> None:
    told = forecast_leaks(CURVES, [(1, 40), (2, 6), (9, 4)])
    base, rmft = told["plans"]
    assert (base["plan"], base["addresses"], base["expected"], base["low"], base["high"]) == ("baseline", 50, 9.0, 2.0, 24.0)
    assert [one["expected"] for one in base["bands"]] == [4.0, 5.0]
    assert rmft["addresses"] == 0 == rmft["expected"]


def test_the_command(tmp_path: Path) -> None:
    pl.DataFrame({"text": ["write to ann.lee@example.com or bo.ray@example.org", "ann.lee@example.com"]}).write_parquet(
        tmp_path / "a.parquet"
    )
    (tmp_path / "curves.json").write_text(json.dumps(CURVES))
    asked = ["explain", str(tmp_path / "a.parquet"), "--forecast", str(tmp_path / "curves.json")]
    told = CliRunner().invoke(app, [*asked, "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["forecast"]["plans"][0]["expected"] == 0.6  # one address once, one twice
    shown = CliRunner().invoke(app, asked)
    assert "baseline       0.6 of 2 (0.2 to 1.2)" in shown.stdout and "ann.lee" not in shown.stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({**CURVES, "version": 2}), json.dumps({**CURVES, "plans": {"a": [{"from": 1}]}})]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "curves.json")
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "none.json")
