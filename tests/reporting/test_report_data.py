"""The report of real runs: counts recomputed in another way, the same page each time it is
rendered, nothing written into OUT."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sanitize.cli.generated_mails import generate_mails
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, Locked, MissingExtra, OutputBroken, UsageError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting import report_data
from sanitize.reporting.report_data import collect_report_tables, report
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import read_mac_key, write_checksums
from tests.support import read_rows

DEDUP = ['drop=[{use="exact_dup", body_only=true}]']
PLANS = {
    "rmft": ("rmft", []),
    "surrogates": ("surrogates", []),
    "redact": ("redact", ["edit.0.label=numbered"]),
    "header_dedup": ("header_dedup", []),
    "deduplicated": ("rmft", DEDUP),
    "baseline": ("baseline", []),
    "mask_words": ("mask_words", []),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented mails; some occur twice, one has an address inside a link."""
    folder = tmp_path_factory.mktemp("reported")
    mails = pl.DataFrame(generate_mails(150, 5)).select("text")
    mails_with_links = pl.DataFrame(
        {
            "text": (
                [
                    "See https://example.com/?to=ada.quill@example.org&n=1 and ask"
                    " ada.quill@example.org."
                ]
                * 2
            )
        }
    )
    pl.concat([mails, mails.head(20), mails_with_links]).write_parquet(folder / "in.parquet")
    return folder


@pytest.fixture(scope="module", params=PLANS)
def output(corpus: Path, request: pytest.FixtureRequest) -> Path:
    """A published output of these mails, for each plan."""
    name, changes = PLANS[request.param]
    out = corpus / request.param
    run_with_settings(
        corpus / "in.parquet",
        out,
        load_plan(name, changes),
        settings=Settings(seed=1, workers=1, rows_per_shard=90),
    )
    return out


@pytest.fixture(scope="module")
def published(corpus: Path) -> Path:
    out = corpus / "published"
    run_with_settings(
        corpus / "in.parquet", out, "rmft", settings=Settings(seed=1, workers=1, rows_per_shard=90)
    )
    return out


@pytest.fixture()
def sanitize(console: Any) -> Any:
    return console


def work_folders(out: Path) -> tuple[Path, Path]:
    work = Path(f"{out}.private")
    return work, work / "runs" / Corpus.open(out).manifest["run_hash"]


def reference_outcomes(out: Path) -> Counter[tuple[Any, ...]]:
    """(kind, outcome, section, occurrences) -> count, computed from the tables one occurrence after
    the other."""
    work, folder = work_folders(out)
    dropped = {row["doc_no"] for row in read_rows(folder / "drops")}
    edits: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for edit in read_rows(folder / "edits"):
        edits.setdefault((edit["doc_no"], edit["cell"]), []).append(edit)
    value_counts: Counter[tuple[Any, ...]] = Counter()
    section_counts: Counter[tuple[Any, ...]] = Counter()
    for occurrence in [
        *read_rows(work / "tables" / "occurrences"),
        *read_rows(folder / "sweep", "[0-9]*.parquet"),
    ]:
        cell_edits = edits.get((occurrence["doc_no"], occurrence["cell"]), [])
        overlapping = [
            edit
            for edit in cell_edits
            if edit["start_byte"] < occurrence["end_byte"]
            and edit["end_byte"] > occurrence["start_byte"]
        ]
        own = [edit for edit in overlapping if edit["kind"] == occurrence["kind"]]
        final_value: object = None
        if occurrence["doc_no"] in dropped:
            outcome = "dropped"
        elif own:
            text, part = own[0]["replacement"], own[0]["part"]
            assert len(own) == 1
            outcome = (
                "removed"
                if not text
                else "label"
                if re.fullmatch(r"\[[A-Z_]+(-\d+)?\]", text)
                else "other_text"
                if part == "mask_words"
                else "surrogate"
            )
            final_value = text if outcome == "surrogate" else None
        elif overlapping:
            outcome = "other_edit"
        else:
            outcome, final_value = "original", occurrence["value_id"]
        value_counts[occurrence["kind"], outcome, final_value] += 1
        section_counts[occurrence["kind"], outcome, occurrence["section"] or "", None] += 1
    outcomes: Counter[tuple[Any, ...]] = Counter()
    for (kind, outcome, _), count in value_counts.items():
        outcomes[kind, outcome, None, count] += 1
    for (kind, outcome, section, _), count in section_counts.items():
        outcomes[kind, outcome, section, count] += 1
    return outcomes


def collect_tables(out: Path, tmp_path: Path) -> report_data.ReportTables:
    work, folder = work_folders(out)
    engine = LocalEngine(workers=1, spill=tmp_path / "spill")
    try:
        return collect_report_tables(engine, work, folder, (), tmp_path / "asked", swept=True)
    finally:
        engine.close()


def test_outcomes_equal_the_reference(output: Path, tmp_path: Path) -> None:
    outcomes = collect_tables(output, tmp_path).outcomes
    assert {
        (kind, outcome, section, count): values
        for kind, outcome, section, count, values in outcomes
    } == dict(reference_outcomes(output))
    summary = Corpus.open(output).manifest["summary"]
    total: Counter[str] = Counter()
    for kind, outcome, section, count, values in outcomes:
        if section is None and outcome != "dropped":
            total[kind] += count * values
    assert total == Counter(
        {kind: counts["occurrences"] for kind, counts in summary["by_kind"].items()}
    )
    originals = sum(
        count * values
        for _, outcome, section, count, values in outcomes
        if section is None and outcome == "original"
    )
    assert originals <= summary["kept_originals"] + sum(
        counts["left_by_plan"] for counts in summary["by_kind"].values()
    )
    if output.name in ("rmft", "deduplicated"):
        kept = sum(
            t * v
            for kind, outcome, s, t, v in outcomes
            if s is None and outcome == "original" and summary["by_kind"][kind]["kept"]
        )
        assert kept == summary["kept_originals"] > 0
    outcome_names = {outcome for _, outcome, *_ in outcomes}
    assert (
        outcome_names
        >= {
            "rmft": {"original", "surrogate", "label", "other_edit"},
            "surrogates": {"surrogate"},
            "redact": {"label"},
            "header_dedup": {"original", "removed"},
            "deduplicated": {"original", "surrogate", "dropped"},
            "baseline": {"original"},
            "mask_words": {"other_text"},
        }[output.name]
    )


def test_curve_after_equals_the_published_texts(published: Path, tmp_path: Path) -> None:
    """Addresses are counted again with a plain search of the published texts."""
    after: Counter[int] = Counter()
    for kind, outcome, section, count, values in collect_tables(published, tmp_path).outcomes:
        if kind == "EMAIL_ADDRESS" and section is None and outcome in ("original", "surrogate"):
            after[count] += values
    edits = Counter(
        row["replacement"]
        for row in read_rows(work_folders(published)[1] / "edits")
        if row["kind"] == "EMAIL_ADDRESS"
    )
    text = "\n".join(Corpus.open(published).table(["text"]).column("text").to_pylist())
    for replacement, count in edits.most_common(20):
        assert len(re.findall(rf"(?<![\w.+-]){re.escape(replacement)}(?![\w-])", text)) == count
    assert (
        after.total()
        == len(edits)
        + Corpus.open(published).manifest["summary"]["by_kind"]["EMAIL_ADDRESS"]["kept"]
    )


def test_rendering_again_gives_the_same_page(output: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    result = report(output, to=tmp_path / "deep" / "again.html")
    assert Path(result.page).read_bytes() == (output / "report.html").read_bytes()
    assert (result.figures, result.out, result.work) == ([], str(output), f"{output}.private")
    assert before == {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert not (Path(f"{output}.private") / "spill").exists()


@pytest.mark.slow
def test_command(published: Path, tmp_path: Path, sanitize: Any) -> None:
    code, out, err = sanitize("report", published)
    default_page = published.with_name("published.report.html")
    assert (
        (code, err) == (0, "")
        and str(default_page) in out
        and default_page.read_bytes() == (published / "report.html").read_bytes()
    )
    default_page.unlink()
    code, out, err = sanitize(
        "report", published, "--figures", tmp_path / "figures", "--format", "svg", "--json"
    )
    result = json.loads(out)
    assert (code, err, result["page"]) == (0, "", None) and not default_page.exists()
    assert sorted(Path(path).name for path in result["figures"]) == sorted(
        path.name for path in (tmp_path / "figures").iterdir()
    )
    assert {
        "outcomes-by-kind.svg",
        "mail-headers-and-bodies-by-kind.svg",
        "rank-frequency-EMAIL_ADDRESS.svg",
    } <= {Path(path).name for path in result["figures"]}
    code, out, err = sanitize(
        "report", published, "-o", tmp_path / "x.html", "--figures", tmp_path / "figures"
    )
    assert (
        code == 0
        and (tmp_path / "x.html").is_file()
        and (tmp_path / "figures" / "rank-frequency-URL.png").is_file()
    )


def test_invalid_report_paths_are_refused(published: Path, tmp_path: Path, sanitize: Any) -> None:
    work = f"{published}.private"
    (tmp_path / "link").symlink_to(published)
    (tmp_path / "folder").mkdir()
    for path in (
        published / "report.html",
        published,
        published / "data" / "x.html",
        tmp_path / "link" / "x.html",
        Path(work) / "x.html",
    ):
        with pytest.raises(UsageError, match="lies inside"):
            report(published, to=path)
        with pytest.raises(UsageError, match="lies inside"):
            report(published, figures=path)
    for options in (
        {"to": tmp_path / "folder"},
        {"work": tmp_path},
        {"figures_to": tmp_path / "new", "format": "pdf"},
    ):
        with pytest.raises(UsageError):
            report(published, **options)
    (tmp_path / "mine.txt").write_text("a text")
    with pytest.raises(UsageError, match="is no HTML page"):
        report(published, to=tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "a text"
    with pytest.raises(UsageError, match="is the private folder"):
        report(work)
    with pytest.raises(OutputBroken):
        report(tmp_path)
    code, out, err = sanitize(
        "report", published, "--format", "jpeg", "--figures", tmp_path / "new"
    )
    assert (code, out) == (2, "") and "Known: png, svg" in err
    assert list((tmp_path / "folder").iterdir()) == [] and not (tmp_path / "new").exists()


def test_without_matplotlib(
    published: Path, tmp_path: Path, sanitize: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra):
        report(published, figures=tmp_path / "new")
    code, out, err = sanitize("report", published, "--figures", tmp_path / "new")
    assert (
        (code, out) == (8, "")
        and "corpus-sanitize[plots]" in err
        and not (tmp_path / "new").exists()
    )


def test_unchecked_run_has_a_report(corpus: Path, tmp_path: Path) -> None:
    run_with_settings(
        corpus / "in.parquet",
        tmp_path / "out",
        "rmft",
        settings=Settings(seed=1, workers=1, verify="off"),
    )
    result = report(tmp_path / "out")
    page = Path(result.page).read_text("utf-8")
    assert (
        page == (tmp_path / "out" / "report.html").read_text("utf-8")
        and "not checked" in page
        and "keep private" in page
    )


def test_samples_need_the_input_files(published: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "published")
    shutil.copytree(f"{published}.private", tmp_path / "published.private")
    assert report(tmp_path / "published").samples == 12
    source = published.parent / "in.parquet"
    source.rename(tmp_path / "moved.parquet")
    try:
        assert report(tmp_path / "published").samples == 0
    finally:
        (tmp_path / "moved.parquet").rename(source)
    assert "Before and after: the corpus" not in (tmp_path / "published.report.html").read_text(
        "utf-8"
    )


@pytest.mark.parametrize(
    "table",
    [
        "{work}/tables/occurrences/00001.parquet",
        "{work}/tables/value_counts/all.parquet",
        "{run}/edits/00000.parquet",
    ],
)
def test_a_missing_or_changed_table_is_an_error(
    published: Path, tmp_path: Path, table: str
) -> None:
    """A table that is gone was counted as an empty one."""
    shutil.copytree(published, tmp_path / "published")
    shutil.copytree(f"{published}.private", tmp_path / "published.private")
    work, run_folder = work_folders(tmp_path / "published")
    path = Path(table.format(work=work, run=run_folder))
    before = path.read_bytes()
    path.unlink()
    name = path.relative_to(work)
    with pytest.raises(OutputBroken, match=rf"{name} is missing, which the run wrote"):
        report(tmp_path / "published")
    path.write_bytes(before[:-1])
    with pytest.raises(OutputBroken, match=rf"{name} is not the file that the run wrote"):
        report(tmp_path / "published")
    assert not (tmp_path / "published.report.html").exists() and not (work / "spill").exists()
    path.write_bytes(before)
    report(tmp_path / "published")


def test_no_report_while_a_run_is_at_work(published: Path, tmp_path: Path) -> None:
    """A run would delete the temporary files of the report, and replace its tables; a second reader
    does no harm."""
    work = work_folders(published)[0]
    handle = os.open(work / "run.lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(Locked, match="locked by process"):
            report(published, to=tmp_path / "page.html")
        fcntl.flock(handle, fcntl.LOCK_SH)
        report(published, to=tmp_path / "page.html")
        with pytest.raises(Locked, match="another command reads it"):
            run_with_settings(
                published.parent / "in.parquet",
                tmp_path / "out",
                "rmft",
                work,
                Settings(seed=1, workers=1),
            )
    finally:
        os.close(handle)


def test_page_with_a_value_is_not_written(published: Path, tmp_path: Path) -> None:
    """A value in a name that the page shows, such as that of a column or a plan."""
    value = next(
        row["value"]
        for row in read_rows(work_folders(published)[0] / "vault" / "values")
        if row["kind"] == "US_SSN"
    )
    shutil.copytree(published, tmp_path / "published")
    manifest = json.loads((published / "manifest.json").read_text("utf-8"))
    manifest["summary"]["columns"].append({"name": f"of {value}", "policy": "keep"})
    (tmp_path / "published" / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    mac_key = read_mac_key(work_folders(published)[1])
    assert mac_key
    write_checksums(
        tmp_path / "published",
        {"manifest.json": file_sha256(tmp_path / "published" / "manifest.json")},
        mac_key,
    )
    with pytest.raises(LeakFound, match="would hold a US_SSN") as caught:
        report(tmp_path / "published", to=tmp_path / "page.html", work=f"{published}.private")
    assert value not in str(caught.value) and not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_page_and_figures_have_no_values(output: Path, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    report(output, to=tmp_path / "page.html")
    if output.name in ("rmft", "redact"):  # figures are drawn from the data of the page
        report(output, figures=tmp_path / "figures", format="svg")
        assert list((tmp_path / "figures").iterdir())
    values = {row["value"] for row in read_rows(work_folders(output)[0] / "vault" / "values")}
    edits = {
        row["replacement"]
        for row in read_rows(work_folders(output)[1] / "edits")
        if not row["replacement"].startswith("[")
        and re.search(r"[^\WX_]", row["replacement"])  # else a mask, which the page shows
    } - {""}
    text = "".join(
        path.read_text("utf-8")
        for path in (tmp_path / "page.html", *(tmp_path / "figures").iterdir())
    )
    assert (
        len(values) > 300
        and [value for value in values | edits if len(value) > 5 and value in text] == []
    )
