"""A suite is read strictly, measures what it names, and its report contains numbers only."""

from __future__ import annotations

import collections
import csv
import json
import math
import re
import stat
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from sanitize.errors import MissingExtra, OutputBroken, UsageError
from sanitize.eval.charts import draw_charts
from sanitize.eval.cli import app
from sanitize.eval.evaluation_progress import EvaluationProgress
from sanitize.eval.leak_list import LEAK_COLUMNS, write_leak_list
from sanitize.eval.measurement_records import remove_records
from sanitize.eval.metric import list_metrics, load_metric
from sanitize.eval.report import render_model_card, render_page, render_svg
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.suite import Suite, describe_training, evaluate
from tests.support import collect_numbers

ANN, BO = "ann.lee@example.com", "bo.ray@example.org"
RUN = "raw <b>&"  # a name that would be markup
# perplexity, extraction and frontier at two checkpoints of two runs with the same weights
MEASURED = 2 + 3 + 4


@pytest.fixture
def suite(write_run: Any, tmp_path: Path) -> Path:
    write_run("raw", {"d1": f"From: {ANN}", "d2": f"To: {BO}"})
    write_run("rmft", {"d1": f"From: {ANN}", "d2": "To: made.up@example.org"})
    pl.DataFrame({"text": [f"From: {ANN}\n\nDear Bo", f"From: {BO}\n\nDear Ann"]}).write_parquet(
        tmp_path / "test.parquet"
    )
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


def test_evaluate_reports_numbers_only(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sanitize.eval.language_model import LanguageModel

    # a model that generates both addresses, which the report must not contain
    generated = f" write to {ANN} or {BO} "
    monkeypatch.setattr(
        LanguageModel,
        "generate",
        lambda self, prompts, **_: [self.encode([generated])[0]] * len(prompts),
    )
    report = evaluate(suite)
    json.dumps(report, allow_nan=False)
    assert all(math.isfinite(number) for number in collect_numbers(report))
    assert [row["step"] for row in report["runs"][RUN]["rows"]] == [0, 4]
    last_rows = {name: run["rows"][-1] for name, run in report["runs"].items()}
    assert (
        last_rows[RUN]["extraction"]["web"]["ter"]
        == 100
        == last_rows["rmft"]["extraction"]["web"]["ter"]
    )
    assert (
        last_rows[RUN]["extraction"]["web"]["seen"] == 2
        and last_rows["rmft"]["extraction"]["web"]["seen"] == 1
    )
    assert set(last_rows["rmft"]["perplexity"]) == {"mail", "body"}
    assert report["aggregates"]["extraction"]["rmft"]["web"]["ter"]["final"] == 0
    assert report["aggregates"]["frontier"]["rmft"]["aurc"] == 0
    assert {figure["metric"] for figure in report["figures"]} == {
        "extraction",
        "perplexity",
        "frontier",
    }
    html, markdown = render_page([report, report]), render_model_card(report, "rmft")
    for text in (json.dumps(report), html, markdown):
        for value in (ANN, BO, "ann.lee", "made.up", "Dear", str(tmp_path)):
            assert value not in text
    assert (
        "<b>&" not in html
        and "raw &lt;b&gt;&amp;" in html
        and "<script" not in html
        and "http" not in html.replace("http-equiv", "")
    )
    assert "not anonymous" in markdown and "2 documents, 99 tokens" in markdown


def test_the_command_writes_report_page_and_cards(suite: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(suite), "--out", str(tmp_path / "report"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["baseline"] == RUN
    assert json.loads((tmp_path / "report" / "report.json").read_text())["runs"].keys() == {
        RUN,
        "rmft",
    }
    assert (tmp_path / "report" / "report.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / "report" / "cards").rglob("*.md"))) == 2
    listed = CliRunner().invoke(app, ["list", "--json"])
    assert {"extraction", "perplexity", "frontier"} <= json.loads(listed.stdout)["metrics"].keys()


@pytest.mark.parametrize(("suffix", "reveal"), [(".csv", False), (".parquet", True)])
def test_the_list_of_leaked_values_is_private_and_masked(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, reveal: bool
) -> None:
    from sanitize.eval.language_model import LanguageModel

    monkeypatch.setattr(
        LanguageModel,
        "generate",
        lambda self, prompts, **_: [self.encode([f" write to {ANN} "])[0]] * len(prompts),
    )
    file, out = tmp_path / "mine" / f"leaked{suffix}", tmp_path / "report"
    result = CliRunner().invoke(
        app,
        [str(suite), "--out", str(out), "--leaked", str(file), *(["--reveal"] if reveal else [])],
    )
    assert result.exit_code == 0, result.output
    leaked = pl.read_csv(file) if suffix == ".csv" else pl.read_parquet(file)
    # two runs, two checkpoints, two kinds of prompts
    assert (
        leaked.height == 8
        and set(leaked["run"]) == {RUN, "rmft"}
        and set(leaked["how"]) == {"web", "cue"}
        and set(leaked["step"]) == {0, 4}
    )
    assert set(leaked["value"]) == {ANN if reveal else "a***@e***.com"} and set(
        leaked["occurrences"]
    ) == {1}
    assert (
        stat.S_IMODE(file.stat().st_mode) == 0o600
        and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    )
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert ANN not in result.output and all(
        ANN.encode() not in path.read_bytes() for path in out.rglob("*") if path.is_file()
    )


def test_leaked_values_are_no_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    formulas = ['=HYPERLINK("https://x.example")', "+1 555 0100", "-2+3", "@sum", "\t=1", "\r=1"]
    values = [*formulas, "ann.lee@example.com", "'=1", ""]
    rows = [
        {**dict.fromkeys(LEAK_COLUMNS, None), "run": "=1", "step": -1, "value": value}
        for value in values
    ]
    for suffix in (".csv", ".parquet"):
        assert write_leak_list(rows, tmp_path / f"list{suffix}", reveal=True) == len(rows)
    assert set(pl.read_parquet(tmp_path / "list.parquet")["value"]) == set(values)
    with (tmp_path / "list.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert {row["value"] for row in cells} == {f"'{one}" for one in formulas} | {*values[6:]}
    assert {row["run"] for row in cells} == {"'=1"} and {row["step"] for row in cells} == {"-1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--reveal"], "--leaked FILE.csv"),
        (["--leaked", "report/list.csv"], "may be shared"),
        (["--leaked", "list.txt"], ".csv or .parquet"),
        (["--figures", "drawn", "--format", "pdf"], "known: png, svg"),
    ],
)
def test_invalid_options_are_refused_before_measuring(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sanitize.eval.suite.evaluate", lambda *_, **__: pytest.fail("measured"))
    result = CliRunner().invoke(app, [str(suite), "--out", "report", *options])
    assert (
        isinstance(result.exception, UsageError)
        and message in str(result.exception)
        and not (tmp_path / "report").exists()
    )


FIGURES = [
    {
        "metric": "extraction",
        "title": "Rate, $x$ & <b>",
        "x": "epoch",
        "y": "%",
        "kind": "line",
        "series": [["raw", [[0, 1], [2, 9]]]],
    },
    {
        "metric": "frontier",
        "title": "Stairs",
        "x": "MDP %",
        "y": "%",
        "kind": "steps",
        "series": [["a\x07", [[0, 1], [2, 9]]], ["raw", []]],
    },
    {
        "metric": "frontier",
        "title": "Stairs",
        "x": "MDP %",
        "y": "%",
        "kind": "dots",
        "series": [["raw", [[1, 2]]]],
    },
    {
        "metric": "frontier",
        "title": "Nothing",
        "x": "x",
        "y": "y",
        "kind": "line",
        "series": [["raw", [[0.0, math.nan]]]],
    },
]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["png", "svg"])
def test_figures_are_drawn_as_files(tmp_path: Path, format: str) -> None:
    report = {"name": "../my suite", "runs": {"raw": {}}, "figures": FIGURES}
    paths = draw_charts([report], tmp_path / "new", format)
    names = [
        "my-suite-extraction-rate-x-b",
        "my-suite-frontier-stairs",
        "my-suite-frontier-stairs-2",
    ]
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        f"new/{name}.{format}" for name in names
    ]
    assert [path.read_bytes() for path in paths] == [
        path.read_bytes() for path in draw_charts([report], tmp_path / "again", format)
    ]
    for path in paths:
        if format == "png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 5_000
        else:
            tags = {element.tag.rpartition("}")[2] for element in Xml.parse(path).getroot().iter()}
            assert {"svg", "path"} <= tags and not tags & {"script", "b"}


def test_figures_need_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="plots"):
        draw_charts([{"name": "a", "runs": {}, "figures": FIGURES}], tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runz": {}}, "runz: unknown key; did you mean runs. Known: "),
        ({"runs": {}}, "runs: "),
        (
            {"baseline": "rwa"},
            "baseline = 'rwa' is not one of the runs; did you mean raw. Known: raw",
        ),
        ({"checkpoints": 0}, "checkpoints = 0"),
        ({"original": {}}, "takes either documents or work"),
        ({"texts": {"mail": {"path": "x", "part": "head"}}}, "texts.mail.part"),
        ({"seed": -1}, "seed: expected 0 or more"),
        ({"name": "../other"}, "is no file name"),
        ({"runs": {"a/raw": "r", "b/raw": "r"}}, "is no file name"),
    ],
)
def test_a_suite_is_read_strictly(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Suite.from_table({"runs": {"raw": "r"}, "metric": [{"use": "extraction"}], **change})


def test_metrics_are_read_strictly() -> None:
    assert {"extraction", "perplexity", "frontier"} <= set(list_metrics())
    with pytest.raises(UsageError, match="did you mean extraction"):
        load_metric({"use": "extracton"})
    with pytest.raises(UsageError, match="webb: unknown key; did you mean web. Known: "):
        load_metric({"use": "extraction", "webb": 3})
    twice = Suite.from_table(
        {"runs": {"raw": "r"}, "metric": [{"use": "perplexity"}, {"use": "perplexity"}]}
    )
    with pytest.raises(UsageError, match="perplexity is named twice"):
        twice.build_metrics()


def test_a_card_reports_the_privacy_claim_of_a_training(write_run: Any) -> None:
    folder = write_run("private", {"d1": "Dear Ann"})
    recipe, training = (
        json.loads((folder / name).read_text()) for name in ("recipe.json", "train.json")
    )
    recipe["recipe"] = {"objective": {"use": "ppmlm", "blacklist": "/home/someone/vault/blacklist"}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    for claim in (None, "(8, 1e-05)-differential privacy of the weights"):
        (folder / "train.json").write_text(
            json.dumps(training | ({"privacy": {"claim": claim, "epsilon": 8.0}} if claim else {}))
        )
        trained = describe_training(RunFolder.open(folder))
        assert trained["objective"] == {"use": "ppmlm", "blacklist": "blacklist"} and trained[
            "privacy"
        ] == {"claim": claim}
        row = {"step": 4, "epoch": 1.0}
        text = render_model_card(
            {
                "name": "suite",
                "runs": {"private": {"trained": trained, "rows": [row]}},
                "aggregates": {},
            },
            "private",
        )
        assert (
            ("no claim of differential privacy" in text) == (claim is None)
            and (claim or "") in text
            and "not anonymous" in text
        )


def test_metric_paths_are_relative_to_the_suite_and_not_in_the_report(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "prompts.txt").write_text("What is new?\n")
    text = (
        suite.read_text()
        .replace("web = 4", 'prompts = "asked/prompts.txt"')
        .replace("cues = 2", "cues = 0")
    )
    suite.write_text(text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    report = evaluate(suite)
    assert report["runs"]["rmft"]["rows"][-1]["extraction"]["web"]["prompts"] == 1
    assert report["metrics"][0]["prompts"] == "prompts.txt" and str(tmp_path) not in json.dumps(
        report
    )
    nested = Suite.from_table(
        {
            "runs": {"raw": "r"},
            "metric": [
                {
                    "use": "reconstruction",
                    "masked": "m",
                    "work": "/w",
                    "shadow": {"run": "s", "masked": "m", "work": "w"},
                }
            ],
        },
        tmp_path,
    ).build_metrics()[0]
    assert (
        nested.masked == tmp_path / "m"
        and nested.work == Path("/w")
        and nested.shadow.run == tmp_path / "s"
    )  # type: ignore[attr-defined]


def test_a_figure_is_drawn_to_scale() -> None:
    figure = {
        "title": "T",
        "x": "x",
        "y": "y",
        "kind": "steps",
        "series": [("a", [(0.0, 0.0), (10.0, 50.0)]), ("b", [])],
    }
    svg = render_svg(figure, ["a", "b"])
    assert 'd="M52.0 210.0H388.0V12.0"' in svg and ">50<" in svg and ">10<" in svg


def count_measured(
    monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None
) -> list[tuple[str, str]]:
    """Record the calls of metrics at checkpoints; the call number `stop_after` ends the process, as
    a signal would."""
    calls: list[tuple[str, str]] = []
    for name in list_metrics():
        metric_class = (
            type(load_metric({"use": name}))
            if name in ("extraction", "perplexity", "frontier", "ngram")
            else None
        )
        if metric_class is None:
            continue
        measure = metric_class.on_checkpoint

        def on_checkpoint(
            self: Any, run: Any, checkpoint: Any, model: Any, measure: Any = measure
        ) -> Any:
            if len(calls) == stop_after:
                raise SystemExit(143)
            calls.append((self.use, str(checkpoint.path)))
            return measure(self, run, checkpoint, model)

        monkeypatch.setattr(metric_class, "on_checkpoint", on_checkpoint)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [1, 4, 9])
def test_an_evaluation_that_was_stopped_continues_with_the_next_metric(
    suite: Path, tmp_path: Path, stop_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write_text(suite.read_text() + '[[metric]]\nuse = "ngram"\nk = 4\nsuffix = 2\n')
    expected = evaluate(suite)
    arguments = [
        str(suite),
        "--out",
        str(tmp_path / "out"),
        "--leaked",
        str(tmp_path / "private" / "leaked.csv"),
    ]
    (tmp_path / "private").mkdir()
    with monkeypatch.context() as patch:
        first_calls = count_measured(patch, stop_after)
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 143 and len(first_calls) == stop_after
    assert not (tmp_path / "out" / "report.json").exists()
    records = tmp_path / "private" / "leaked.csv.measured"
    assert (
        len(list(records.iterdir())) == stop_after and stat.S_IMODE(records.stat().st_mode) == 0o700
    )
    with monkeypatch.context() as patch:
        later_calls = count_measured(patch)
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (
        not set(first_calls) & set(later_calls)
        and len(first_calls) + len(later_calls) == MEASURED + 4
    )
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == json.loads(
        json.dumps(expected)
    )
    assert not records.exists() and sorted(path.name for path in tmp_path.glob("private/*")) == [
        "leaked.csv"
    ]


def test_files_of_others_beside_the_records_stay(tmp_path: Path) -> None:
    for name in (
        "0123456789abcdef.json",
        "0123456789abcdef.json.tmp",
        "mine.json",
        "notes/0123456789abcdef.json",
    ):
        (tmp_path / "measured" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "measured" / name).write_text("{}")
    remove_records(tmp_path / "measured")
    assert sorted(path.name for path in (tmp_path / "measured").iterdir()) == ["mine.json", "notes"]


@pytest.mark.slow
def test_another_checkpoint_setting_or_text_is_measured_again(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "measured"
    evaluate(suite, records=records)
    calls = count_measured(monkeypatch)
    evaluate(suite, records=records)
    assert calls == []
    suite.write_text(suite.read_text().replace("web = 4", "web = 5"))
    evaluate(suite, records=records)
    assert {name for name, _ in calls} == {"extraction"} and len(calls) == 3
    calls.clear()
    model = sorted((tmp_path / "raw" / "checkpoints").rglob("model.safetensors"))[-1]
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    model.write_bytes(data)
    evaluate(suite, records=records)
    assert {path for _, path in calls} == {str(model.parent)}
    calls.clear()
    pl.DataFrame({"text": ["other text"]}).write_parquet(tmp_path / "test.parquet")
    evaluate(suite, records=records)
    assert len(calls) == MEASURED + 1, "the changed weights are no longer those of the other run"
    calls.clear()
    evaluate(Suite.read(suite).model_copy(update={"dtype": "bfloat16"}), records=records)
    assert len(calls) == MEASURED + 1


def test_equal_weights_are_measured_once(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of the suite have the same weights at both steps: perplexity depends on them alone,
    extraction also on the data seen."""
    calls = count_measured(monkeypatch)
    rows = {name: run["rows"] for name, run in evaluate(suite)["runs"].items()}
    assert collections.Counter(name for name, _ in calls) == {
        "perplexity": 2,
        "extraction": 3,
        "frontier": 4,
    }
    assert sum(collections.Counter(name for name, _ in calls).values()) == MEASURED
    for name in ("perplexity", "extraction"):
        assert rows[RUN][0][name] == rows["rmft"][0][name]
    seen = [[row["extraction"]["web"]["seen"] for row in rows[run]] for run in (RUN, "rmft")]
    assert seen == [[0, 2], [0, 1]]


def round_numbers(report: Any) -> Any:
    """Losses of other batches differ by rounding."""
    return json.loads(json.dumps(report), parse_float=lambda number: float(f"{float(number):.4g}"))


@pytest.mark.slow
def test_two_devices_give_the_report_of_one(suite: Path, tmp_path: Path) -> None:
    suite.write_text(suite.read_text() + '[[metric]]\nuse = "ngram"\nk = 4\nsuffix = 2\n')
    reports, leaked = [], []
    for number, device in enumerate(("cpu", "cpu,cpu")):
        out, file = tmp_path / f"out-{number}", tmp_path / f"mine-{number}" / "leaked.parquet"
        options = ["--devices", device, "--dtype", "float32", "--leaked", str(file), "--reveal"]
        result = CliRunner().invoke(app, [str(suite), "--out", str(out), *options])
        assert result.exit_code == 0, (result.output, result.exception)
        reports.append((out / "report.json").read_text())
        leaked.append(pl.read_parquet(file))
    first, second = map(json.loads, reports)
    assert round_numbers(first) == round_numbers(second)
    assert leaked[0].equals(leaked[1])
    assert first["dtype"] == "float32" and first["device"] == "cpu"
    assert re.search(r"\(\d+ of 13 measurements, about \d+:\d\d left\)", result.output)


@pytest.mark.slow
def test_an_error_on_a_device_is_the_error_of_the_evaluation(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "rmft" / "checkpoints" / "step-000004" / "tokenizer.json").unlink()
    records = tmp_path / "measured"
    with pytest.raises(OutputBroken, match=r"step-000004: no tokenizer\.json"):
        evaluate(Suite.read(suite).model_copy(update={"device": "cpu,cpu"}), records=records)
    assert list(records.iterdir()), "what was measured before is kept"


def test_lines_say_what_is_done_and_the_time_left() -> None:
    now, lines = [0.0], list[str]()
    progress = EvaluationProgress(["slow", "fast"] * 3, lines.append, clock=lambda: now[0])
    assert progress.describe() == "0 of 6 measurements"
    for use, seconds in (("slow", 100.0), ("fast", 2.0)):
        progress.begin("raw, step-000000", use)
        progress.control.rows_done, progress.control.row_count = 64, 1000
        now[0] += seconds
        progress.beat()
        progress.end(use, seconds)
    assert lines == ["raw, step-000000: slow, 64 of 1,000 rows (0 of 6 measurements)"], (
        "fast has taken no 30 seconds"
    )
    assert progress.describe() == "2 of 6 measurements, about 3:24 left"
    assert progress.seconds_left() == 204.0
