"""A suite is read strictly, measures what it names, and its report holds numbers only."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from eval.cli import app
from eval.metric import metric, names
from eval.report import card, page, svg
from eval.suite import Suite, evaluate
from sanitize.errors import UsageError

ANN, BO = "ann.lee@example.com", "bo.ray@example.org"
RUN = "raw <b>&"  # a name that would be markup


@pytest.fixture
def suite(run_of: Any, tmp_path: Path) -> Path:
    run_of("raw", {"d1": f"From: {ANN}", "d2": f"To: {BO}"})
    run_of("rmft", {"d1": f"From: {ANN}", "d2": "To: made.up@example.org"})
    pl.DataFrame({"text": [f"From: {ANN}\n\nDear Bo", f"From: {BO}\n\nDear Ann"]}).write_parquet(tmp_path / "test.parquet")
    (tmp_path / "suite.toml").write_text(
        f"""
baseline = '{RUN}'
[runs]
'{RUN}' = "raw"
rmft = "rmft"
[original]
documents = "raw-data"
[texts]
mail = {{ path = "test.parquet" }}
body = {{ path = "test.parquet", part = "body" }}
[[metric]]
use = "extraction"
web = 4
cues = 2
prompt_tokens = 8
length = 30
cue_tokens = 6
[[metric]]
use = "perplexity"
[[metric]]
use = "frontier"
"""
    )
    return tmp_path / "suite.toml"


def numbers(told: Any) -> list[float]:
    if isinstance(told, dict):
        return [one for value in told.values() for one in numbers(value)]
    if isinstance(told, list | tuple):
        return [one for value in told for one in numbers(value)]
    return [told] if isinstance(told, float | int) else []


def test_a_suite_is_measured_and_told(suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval.model import Model

    # a model that says both addresses, so that silence is put to the test
    said = f" write to {ANN} or {BO} "
    monkeypatch.setattr(Model, "generate", lambda self, prompts, **_: [self.encode([said])[0]] * len(prompts))
    report = evaluate(suite)
    json.dumps(report, allow_nan=False)
    assert all(math.isfinite(one) for one in numbers(report))
    assert [row["step"] for row in report["runs"][RUN]["rows"]] == [0, 4]
    last = {name: run["rows"][-1] for name, run in report["runs"].items()}
    assert last[RUN]["extraction"]["web"]["ter"] == 100 == last["rmft"]["extraction"]["web"]["ter"]
    assert last[RUN]["extraction"]["web"]["seen"] == 2 and last["rmft"]["extraction"]["web"]["seen"] == 1
    assert set(last["rmft"]["perplexity"]) == {"mail", "body"}
    assert report["over"]["extraction"]["rmft"]["web"]["ter"]["final"] == 0
    assert report["over"]["frontier"]["rmft"]["aurc"] == 0
    assert {figure["metric"] for figure in report["figures"]} == {"extraction", "perplexity", "frontier"}
    html, markdown = page([report, report]), card(report, "rmft")
    for told in (json.dumps(report), html, markdown):
        for secret in (ANN, BO, "ann.lee", "made.up", "Dear", str(tmp_path)):
            assert secret not in told
    assert "<b>&" not in html and "raw &lt;b&gt;&amp;" in html and "<script" not in html and "http" not in html.replace("http-equiv", "")
    assert "not anonymous" in markdown and "2 documents, 99 tokens" in markdown


def test_the_command_writes_report_page_and_cards(suite: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [str(suite), "--out", str(tmp_path / "told"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["baseline"] == RUN
    assert json.loads((tmp_path / "told" / "report.json").read_text())["runs"].keys() == {RUN, "rmft"}
    assert (tmp_path / "told" / "report.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / "told" / "cards").rglob("*.md"))) == 2
    listed = CliRunner().invoke(app, ["list", "--json"])
    assert {"extraction", "perplexity", "frontier"} <= json.loads(listed.stdout)["metrics"].keys()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"runz": {}}, "unknown key runz; known: .* Did you mean runs"),
        ({"runs": {}}, "runs: "),
        ({"baseline": "rwa"}, "baseline = 'rwa' is none of the runs; known: raw"),
        ({"checkpoints": 0}, "checkpoints = 0"),
        ({"original": {}}, "takes either documents or work"),
        ({"texts": {"mail": {"path": "x", "part": "head"}}}, "texts.mail.part"),
    ],
)
def test_a_suite_is_read_strictly(change: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Suite.of({"runs": {"raw": "r"}, "metric": [{"use": "extraction"}], **change})


def test_metrics_are_read_strictly() -> None:
    assert {"extraction", "perplexity", "frontier"} <= set(names())
    with pytest.raises(UsageError, match="Did you mean extraction"):
        metric({"use": "extracton"})
    with pytest.raises(UsageError, match="unknown key webb; known: .* Did you mean web"):
        metric({"use": "extraction", "webb": 3})
    twice = Suite.of({"runs": {"raw": "r"}, "metric": [{"use": "perplexity"}, {"use": "perplexity"}]})
    with pytest.raises(UsageError, match="perplexity stands there twice"):
        twice.metrics()


def test_a_figure_is_drawn_to_scale() -> None:
    figure = {"title": "T", "x": "x", "y": "y", "kind": "steps", "series": [("a", [(0.0, 0.0), (10.0, 50.0)]), ("b", [])]}
    drawn = svg(figure, ["a", "b"])
    assert 'd="M52.0 210.0H388.0V12.0"' in drawn and ">50<" in drawn and ">10<" in drawn
