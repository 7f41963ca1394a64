"""Forecasts computed by hand from measured shares and another corpus's frequencies; invalid curve
files are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from sanitize.cli.main import app
from sanitize.errors import UsageError
from sanitize.eval.frontier import estimate_dispersion
from sanitize.reporting.confidence_intervals import wilson_interval
from sanitize.reporting.leak_forecast import forecast_leaks, read_curves


def band(
    low: int, high: int | None, share: float, low_share: float, high_share: float
) -> dict[str, Any]:
    return {
        "from": low,
        "to": high,
        "leaked": round(10 * share),
        "addresses": 10,
        "share": share,
        "low": low_share,
        "high": high_share,
    }


CURVES = {
    "version": 2,
    "family": "web",
    "runs": 2,
    "dispersion": {"baseline": 2.0, "rmft": None},
    "plans": {"baseline": [band(1, 1, 0.1, 0.0, 0.4), band(2, None, 0.5, 0.2, 0.8)], "rmft": []},
}


def test_forecast_equals_a_manual_calculation() -> None:
    forecast = forecast_leaks(CURVES, [(1, 40), (2, 6), (9, 4)])
    baseline, rmft = forecast.plans
    assert (baseline.plan, baseline.addresses, baseline.expected, baseline.between_trainings) == (
        "baseline",
        50,
        9.0,
        True,
    )
    assert [band.expected for band in baseline.bands] == [4.0, 5.0]
    # both bands were measured on 10 addresses and apply to 40 and 10: the variances of both shares,
    # doubled, are those of 4 and 2.5 trials
    for one, trials in zip(baseline.bands, (4, 2.5), strict=True):
        low, high = wilson_interval(one.expected / one.addresses, trials) or (0.0, 1.0)
        assert (one.low, one.high) == (
            round(one.addresses * low, 1),
            round(one.addresses * high, 1),
        )
    sums = [sum(one.low for one in baseline.bands), sum(one.high for one in baseline.bands)]
    assert [baseline.low, baseline.high] == pytest.approx(sums)
    assert (rmft.addresses, rmft.expected, rmft.between_trainings) == (0, 0, False)


def test_an_interval_covers_new_trainings() -> None:
    """Trainings whose shares differ by more than chance: 19 of 20 counts of a new one are in the
    interval."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(300):
        measured = [[(int(rng.binomial(60, share)), 60) for share in rng.beta(3, 9, 5)]]
        leaked, addresses = (sum(counts) for counts in zip(*measured[0], strict=True))
        bands = [
            {
                "from": 1,
                "to": None,
                "leaked": leaked,
                "addresses": addresses,
                "share": leaked / addresses,
                "low": 0,
                "high": 1,
            }
        ]
        curves = {"plans": {"rmft": bands}, "dispersion": {"rmft": estimate_dispersion(measured)}}
        forecast = forecast_leaks(curves, [(1, 60)]).plans[0]
        covered += forecast.low <= rng.binomial(60, rng.beta(3, 9)) <= forecast.high
    assert 0.88 <= covered / 300 <= 0.99


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
    assert (
        "baseline       0.6 of 2 (0.0 to " in text_output.stdout
        and "ann.lee" not in text_output.stdout
    )
    assert text_output.stdout.count("measured in one training") == 1  # of rmft


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({**CURVES, "version": 1}),
        json.dumps({**CURVES, "plans": {"a": [{"from": 1}]}}),
    ],
)
def test_invalid_curve_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "curves.json")
    with pytest.raises(UsageError, match="expected curves.json"):
        read_curves(tmp_path / "none.json")
