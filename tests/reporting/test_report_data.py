"""The report of real runs: counts recomputed in another way, the same page each time it is rendered, nothing written into OUT."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from sanitize.cli.demo import generate_mails
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, MissingExtra, OutputBroken, UsageError
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting import report_data
from sanitize.reporting.report_data import collect_report_tables, report
from sanitize.storage.corpus import Corpus

DEDUP = ['drop=[{use="exact_dup", body_only=true}]']
PLANS = {
    "rmft": ("rmft", []),
    "erase": ("erase", []),
    "redact": ("redact", ["edit.0.label=numbered"]),
    "header_dedup": ("header_dedup", []),
    "deduplicated": ("rmft", DEDUP),
    "baseline": ("baseline", []),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented mails; some occur twice, one has an address inside a link."""
    folder = tmp_path_factory.mktemp("reported")
    made = pl.DataFrame(generate_mails(150, 5)).select("text")
    more = pl.DataFrame({"text": ["See https://example.com/?to=ada.quill@example.org&n=1 and ask ada.quill@example.org."] * 2})
    pl.concat([made, made.head(20), more]).write_parquet(folder / "in.parquet")
    return folder


@pytest.fixture(scope="module", params=PLANS)
def made(corpus: Path, request: pytest.FixtureRequest) -> Path:
    """A published output of these mails, for each plan."""
    name, changes = PLANS[request.param]
    out = corpus / request.param
    run(corpus / "in.parquet", out, load_plan(name, changes), settings=Settings(seed=1, workers=1, rows_per_shard=60))
    return out


@pytest.fixture(scope="module")
def published(corpus: Path) -> Path:
    out = corpus / "published"
    run(corpus / "in.parquet", out, "rmft", settings=Settings(seed=1, workers=1, rows_per_shard=60))
    return out


@pytest.fixture()
def sanitize(console: Any) -> Any:
    return console


def folders(out: Path) -> tuple[Path, Path]:
    work = Path(f"{out}.private")
    return work, work / "runs" / Corpus.open(out).manifest["plan_hash"]


def rows(folder: Path, pattern: str = "*.parquet") -> list[dict[str, Any]]:
    return [row for path in sorted(folder.glob(pattern)) for row in pq.read_table(path, partitioning=None).to_pylist()]


def slowly(out: Path) -> Counter[tuple[Any, ...]]:
    """(kind, outcome, section, occurrences) -> count, computed from the tables one occurrence after the other."""
    work, folder = folders(out)
    dropped = {row["doc_no"] for row in rows(folder / "drops")}
    edits: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for edit in rows(folder / "edits"):
        edits.setdefault((edit["doc_no"], edit["cell"]), []).append(edit)
    values: Counter[tuple[Any, ...]] = Counter()
    places: Counter[tuple[Any, ...]] = Counter()
    for one in [*rows(work / "tables" / "occurrences"), *rows(folder / "sweep", "[0-9]*.parquet")]:
        near = edits.get((one["doc_no"], one["cell"]), [])
        over = [edit for edit in near if edit["start_byte"] < one["end_byte"] and edit["end_byte"] > one["start_byte"]]
        own = [edit["replacement"] for edit in over if edit["kind"] == one["kind"]]
        stands: object = None
        if one["doc_no"] in dropped:
            outcome = "dropped"
        elif own:
            (text,) = own
            outcome = "removed" if not text else "label" if re.fullmatch(r"\[[A-Z_]+(-\d+)?\]", text) else "stand_in"
            stands = text if outcome == "stand_in" else None
        elif over:
            outcome = "with_another"
        else:
            outcome, stands = "original", one["value_id"]
        values[one["kind"], outcome, stands] += 1
        places[one["kind"], outcome, one["section"] or "", None] += 1
    found: Counter[tuple[Any, ...]] = Counter()
    for (kind, outcome, _), times in values.items():
        found[kind, outcome, None, times] += 1
    for (kind, outcome, section, _), times in places.items():
        found[kind, outcome, section, times] += 1
    return found


def asked(out: Path, tmp_path: Path) -> report_data.ReportTables:
    work, folder = folders(out)
    engine = LocalEngine(workers=1, spill=tmp_path / "spill")
    try:
        return collect_report_tables(engine, work, folder, (), tmp_path / "asked", swept=True)
    finally:
        engine.close()


def test_fates_are_those_of_a_slow_reading(made: Path, tmp_path: Path) -> None:
    found = asked(made, tmp_path).outcomes
    assert {(kind, outcome, section, times): values for kind, outcome, section, times, values in found} == dict(slowly(made))
    summary = Corpus.open(made).manifest["summary"]
    total: Counter[str] = Counter()
    for kind, outcome, section, times, values in found:
        if section is None and outcome != "dropped":
            total[kind] += times * values
    assert total == Counter({kind: counts["occurrences"] for kind, counts in summary["by_kind"].items()})
    originals = sum(times * values for _, outcome, section, times, values in found if section is None and outcome == "original")
    assert originals <= summary["kept_originals"] + sum(counts["left_by_plan"] for counts in summary["by_kind"].values())
    if made.name in ("rmft", "deduplicated"):
        kept = sum(t * v for kind, outcome, s, t, v in found if s is None and outcome == "original" and summary["by_kind"][kind]["kept"])
        assert kept == summary["kept_originals"] > 0
    seen = {outcome for _, outcome, *_ in found}
    assert (
        seen
        >= {
            "rmft": {"original", "stand_in", "label", "with_another"},
            "erase": {"stand_in"},
            "redact": {"label"},
            "header_dedup": {"original", "removed"},
            "deduplicated": {"original", "stand_in", "dropped"},
            "baseline": {"original"},
        }[made.name]
    )


def test_the_curve_after_is_what_stands_in_the_shards(published: Path, tmp_path: Path) -> None:
    """Addresses are counted again with a plain search of the published texts."""
    after: Counter[int] = Counter()
    for kind, outcome, section, times, values in asked(published, tmp_path).outcomes:
        if kind == "EMAIL_ADDRESS" and section is None and outcome in ("original", "stand_in"):
            after[times] += values
    edits = Counter(row["replacement"] for row in rows(folders(published)[1] / "edits") if row["kind"] == "EMAIL_ADDRESS")
    text = "\n".join(Corpus.open(published).table(["text"]).column("text").to_pylist())
    for replacement, times in edits.most_common(20):
        assert len(re.findall(rf"(?<![\w.+-]){re.escape(replacement)}(?![\w-])", text)) == times
    assert after.total() == len(edits) + Corpus.open(published).manifest["summary"]["by_kind"]["EMAIL_ADDRESS"]["kept"]


def test_the_page_is_the_same_when_it_is_made_again(made: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    result = report(made, to=tmp_path / "deep" / "again.html")
    assert Path(result["page"]).read_bytes() == (made / "report.html").read_bytes()
    assert (result["figures"], result["out"], result["work"]) == ([], str(made), f"{made}.private")
    assert before == {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    assert not (Path(f"{made}.private") / "spill").exists()


def test_the_verb(published: Path, tmp_path: Path, sanitize: Any) -> None:
    code, out, err = sanitize("report", published)
    beside = published.with_name("published.report.html")
    assert (code, err) == (0, "") and str(beside) in out and beside.read_bytes() == (published / "report.html").read_bytes()
    beside.unlink()
    code, out, err = sanitize("report", published, "--figures", tmp_path / "figures", "--format", "svg", "--json")
    told = json.loads(out)
    assert (code, err, told["page"]) == (0, "", None) and not beside.exists()
    assert sorted(Path(path).name for path in told["figures"]) == sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert {"what-became-of-what-was-found.svg", "mail-headers-against-bodies.svg", "rank-frequency-EMAIL_ADDRESS.svg"} <= {
        Path(path).name for path in told["figures"]
    }
    code, out, err = sanitize("report", published, "-o", tmp_path / "x.html", "--figures", tmp_path / "figures")
    assert code == 0 and (tmp_path / "x.html").is_file() and (tmp_path / "figures" / "rank-frequency-URL.png").is_file()


def test_places_that_are_refused(published: Path, tmp_path: Path, sanitize: Any) -> None:
    work = f"{published}.private"
    (tmp_path / "link").symlink_to(published)
    (tmp_path / "folder").mkdir()
    for place in (published / "report.html", published, published / "data" / "x.html", tmp_path / "link" / "x.html", Path(work) / "x.html"):
        with pytest.raises(UsageError, match="lies inside"):
            report(published, to=place)
        with pytest.raises(UsageError, match="lies inside"):
            report(published, figures_to=place)
    for wrong in ({"to": tmp_path / "folder"}, {"work": tmp_path}, {"figures_to": tmp_path / "new", "format": "pdf"}):
        with pytest.raises(UsageError):
            report(published, **wrong)
    with pytest.raises(UsageError, match="is the private folder"):
        report(work)
    with pytest.raises(OutputBroken):
        report(tmp_path)
    code, out, err = sanitize("report", published, "--format", "jpeg", "--figures", tmp_path / "new")
    assert (code, out) == (2, "") and "known: png, svg" in err
    assert list((tmp_path / "folder").iterdir()) == [] and not (tmp_path / "new").exists()


def test_without_matplotlib(published: Path, tmp_path: Path, sanitize: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra):
        report(published, figures_to=tmp_path / "new")
    code, out, err = sanitize("report", published, "--figures", tmp_path / "new")
    assert (code, out) == (8, "") and "corpus-sanitize[plots]" in err and not (tmp_path / "new").exists()


def test_an_unchecked_run_has_a_report_too(corpus: Path, tmp_path: Path) -> None:
    run(corpus / "in.parquet", tmp_path / "out", "rmft", settings=Settings(seed=1, workers=1, verify="off"))
    told = report(tmp_path / "out")
    page = Path(told["page"]).read_text("utf-8")
    assert page == (tmp_path / "out" / "report.html").read_text("utf-8") and "not checked" in page and "keep private" in page


def test_samples_go_with_the_input(published: Path, tmp_path: Path) -> None:
    shutil.copytree(published, tmp_path / "published")
    shutil.copytree(f"{published}.private", tmp_path / "published.private")
    assert report(tmp_path / "published")["samples"] == 12
    source = published.parent / "in.parquet"
    source.rename(tmp_path / "moved.parquet")
    try:
        assert report(tmp_path / "published")["samples"] == 0
    finally:
        (tmp_path / "moved.parquet").rename(source)
    assert "Before and after" not in (tmp_path / "published.report.html").read_text("utf-8")


def test_a_page_that_would_hold_a_value_is_not_written(published: Path, tmp_path: Path) -> None:
    """A value in a name that the page shows, such as that of a column or a plan."""
    value = next(row["value"] for row in rows(folders(published)[0] / "vault" / "values") if row["kind"] == "US_SSN")
    shutil.copytree(published, tmp_path / "published")
    manifest = json.loads((published / "manifest.json").read_text("utf-8"))
    manifest["summary"]["columns"].append({"name": f"of {value}", "policy": "keep"})
    (tmp_path / "published" / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(LeakFound, match="would hold a US_SSN") as caught:
        report(tmp_path / "published", to=tmp_path / "page.html", work=f"{published}.private")
    assert value not in str(caught.value) and not (tmp_path / "page.html").exists()


def test_no_value_stands_on_page_or_figures(made: Path, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    report(made, to=tmp_path / "page.html")
    if made.name in ("rmft", "redact"):  # figures are drawn from what the page is made of
        report(made, figures_to=tmp_path / "figures", format="svg")
        assert list((tmp_path / "figures").iterdir())
    values = {row["value"] for row in rows(folders(made)[0] / "vault" / "values")}
    edits = {row["replacement"] for row in rows(folders(made)[1] / "edits") if not row["replacement"].startswith("[")} - {""}
    said = "".join(path.read_text("utf-8") for path in (tmp_path / "page.html", *(tmp_path / "figures").iterdir()))
    assert len(values) > 300 and [one for one in values | edits if len(one) > 5 and one in said] == []
