"""Find in two rounds: the same result for any division, worker count, kill and resume; an index
that serves all plans with its finders; the effect of a user's list. All people in it are
invented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from sanitize.cli.generated_mails import generate_mails
from sanitize.errors import PlanError, UsageError
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "in.parquet"
    pq.write_table(generate_mails(70, 5), path)
    return path


def make_settings(**more: Any) -> Settings:
    return Settings(**{"seed": 7, "workers": 1, "rows_per_shard": 25, **more})


@pytest.fixture(scope="module")
def undisturbed_run(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, RunResult]:
    """The folder and the summary of an undisturbed run."""
    folder = tmp_path_factory.mktemp("wanted")
    return folder, run_with_settings(corpus, folder / "out", "names", settings=make_settings())


def read_occurrences(work: Path) -> pl.DataFrame:
    files = sorted((work / "tables" / "occurrences").glob("*.parquet"))
    texts = [pl.col(name).cast(pl.String) for name in ("kind", "finder", "section")]
    return pl.concat(
        pl.DataFrame(pq.read_table(file, partitioning=None)).with_columns(texts) for file in files
    )


def test_two_rounds_find_people_and_link_their_values(
    undisturbed_run: tuple[Path, RunResult],
) -> None:
    folder, summary = undisturbed_run
    assert summary.leaks == 0
    found = read_occurrences(folder / "out.private")
    people = found.filter(pl.col("kind") == "PERSON")
    assert (
        people.height > 100
        and set(people["finder"]) <= {"names", "known"}
        and "patterns" in set(found["finder"])
    )
    # an address and the name next to it belong to one entity in the whole corpus
    linked_values = found.drop_nulls("entity_id").group_by("entity_id").agg(pl.col("kind").unique())
    assert linked_values.height > 20 and all(
        {"PERSON", "EMAIL_ADDRESS"} <= set(kinds) for kinds in linked_values["kind"]
    )
    assert found.group_by("value_id").agg(pl.col("entity_id").n_unique())["entity_id"].max() == 1
    assert found.equals(found.sort("doc_no", "cell", "start", -pl.col("end"), maintain_order=True))


CRASHES = (
    "task:file_renamed:9",
    "detect:second_round_input_written:1",
    "task:record_written:1",
    "task:files_written:1",
    "detect:index_complete:1",
)


@pytest.mark.slow
def test_crashes_in_both_rounds_are_resumed_to_identical_bytes(
    corpus: Path,
    undisturbed_run: tuple[Path, RunResult],
    tmp_path: Path,
    hash_tree: Callable[[Path], str],
    work_paths: re.Pattern[str],
    command_starter: Callable[..., Any] | None,
) -> None:
    """Consecutive crashes, each while the run before is resumed: within a round, between the two,
    and after them."""
    arguments = [
        sys.executable,
        "-m",
        "sanitize",
        "run",
        corpus,
        "-o",
        tmp_path / "out",
        "--plan",
        "names",
        "--seed",
        7,
    ]
    arguments += ["--rows-per-shard", 25, "--workers", 1]
    for point in CRASHES:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "SANITIZE_CRASH_AT": point}
        if command_starter is not None:
            process = command_starter(list(map(str, arguments[3:])), tmp_path, env)
        else:
            process = subprocess.Popen(
                list(map(str, arguments)),
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        output, _ = process.communicate(timeout=120)
        assert (process.returncode, output) == (137, ""), point
        assert not (tmp_path / "out").exists()
    run_with_settings(corpus, tmp_path / "out", "names", settings=make_settings())
    assert hash_tree(tmp_path / "out") == hash_tree(undisturbed_run[0] / "out")
    work = tmp_path / "out.private"
    for path in work.rglob("*"):
        relative_path = path.relative_to(work).as_posix()
        assert path.stat().st_mode & 0o077 == 0 or "/shards/" in relative_path, relative_path
        assert path.is_dir() or work_paths.fullmatch(relative_path), (
            f"{relative_path} is not a known file of WORK"
        )


@pytest.mark.slow
def test_an_index_serves_all_plans_of_its_finders(corpus: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    first = index_with_settings([corpus], work, make_settings(), "names")
    assert first.changed and first.by_kind["PERSON"] > 100
    assert not index_with_settings([corpus], work, make_settings(), "names").changed
    # a plan with the same finders and another editor setting
    changed_plan = load_plan("names", ["edit.0.keep=0"])
    summary = run_with_settings(corpus, tmp_path / "out", changed_plan, work, make_settings())
    assert summary.notes == [] and summary.by_kind["PERSON"].kept == 0
    # a plan with other finders rebuilds the index and reports it
    summary = run_with_settings(corpus, tmp_path / "plain", "rmft", work, make_settings())
    (note,) = summary.notes
    assert "built with other finders (patterns, fields, names, known); it is rebuilt" in note
    assert (
        "PERSON" not in summary.by_kind
        and not (work / "first_round").exists()
        and not (work / "vault" / "first_round").exists()
    )


def test_known_values_from_a_list_are_found(tmp_path: Path) -> None:
    texts = [
        "Zyqtown is a town. In ZYQTOWN we met",
        "zyqtown bicycles and the Blorb Works",
        "the blorb works of Petra Haas",
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "list.csv").write_text("kind,value\nLOCATION,Zyqtown\nORGANIZATION,Blorb Works\n")
    source = tmp_path / "in.jsonl"
    settings = make_settings(known=tmp_path / "list.csv", verify="full")
    with pytest.raises(
        UsageError, match="lists values of LOCATION, and plan rmft does not name that kind"
    ) as caught:
        run_with_settings(source, tmp_path / "out", "rmft", settings=settings)
    assert "Zyq" not in str(caught.value) and not (tmp_path / "out.private").exists()
    kinds = '["LOCATION", "ORGANIZATION"]'
    plan = load_plan(
        "redact",
        [f"find.kinds={kinds}", f"edit.0.kinds={kinds}", 'find.finders=["patterns", "known"]'],
    )
    summary = run_with_settings(source, tmp_path / "out", plan, settings=settings)
    assert summary.leaks == 0
    output_texts = [
        row["text"]
        for path in sorted((tmp_path / "out" / "data").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]
    assert output_texts == [
        "[LOCATION] is a town. In [LOCATION] we met",
        "zyqtown bicycles and the [ORGANIZATION]",
        "the [ORGANIZATION] of Petra Haas",
    ]
    (tmp_path / "list.csv").write_text("kind,value\nLOCATION,Zyqtown\n")
    summary = run_with_settings(
        source,
        tmp_path / "out",
        plan,
        settings=make_settings(known=tmp_path / "list.csv", replace=True),
    )
    assert any("another list of known values" in note for note in summary.notes)
    assert "ORGANIZATION" not in {
        kind for kind, entry in summary.by_kind.items() if entry.occurrences
    }


@pytest.mark.parametrize("command", [run_with_settings, index_with_settings])
def test_known_without_a_list_is_refused_where_nothing_else_finds_the_kind(
    tmp_path: Path, command: Callable[..., object]
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "Ann Roe of Zyqtown"}) + "\n")
    (tmp_path / "list.csv").write_text("kind,value\nPERSON,Ann Roe\n")
    plan = load_plan(
        "redact",
        ['find.kinds=["PERSON"]', 'edit.0.kinds=["PERSON"]', 'find.finders=["patterns", "known"]'],
    )
    second_argument = (
        {"out": tmp_path / "out"} if command is run_with_settings else {"work": tmp_path / "work"}
    )
    with pytest.raises(
        PlanError,
        match=(
            "plan redact: PERSON: find.finders has only `known` for this kind, .*--known FILE, or"
            " add one of .*names"
        ),
    ):
        command([tmp_path / "in.jsonl"], plan=plan, settings=make_settings(), **second_argument)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "list.csv"]
    command(
        [tmp_path / "in.jsonl"],
        plan=plan,
        settings=make_settings(known=tmp_path / "list.csv"),
        **second_argument,
    )


def test_a_kind_that_no_finder_finds_is_refused() -> None:
    with pytest.raises(
        PlanError,
        match=(
            "PERSON has no pattern, and none of find.finders finds it; add one of fields, known"
            " .with --known"
        ),
    ):
        load_plan("names", ['find.finders=["patterns"]'])
    with pytest.raises(
        PlanError, match="LOCATION has no pattern, and none of find.finders .* FILE., ner"
    ):
        load_plan(
            "redact",
            [
                'find.kinds=["LOCATION"]',
                'edit.0.kinds=["LOCATION"]',
                'find.finders=["patterns", "names"]',
            ],
        )
    with pytest.raises(PlanError, match="there is no such part"):
        load_plan("names", ['find.finders=["patterns", "name"]'])
    with pytest.raises(PlanError, match="is listed twice"):
        load_plan("names", ['find.finders=["patterns", "names", {use = "names", prose = false}]'])
    with pytest.raises(PlanError, match="find.finders.1.*prose"):
        load_plan("names", ['find.finders=["patterns", {use = "names", prose = "maybe"}]'])
    assert (
        load_plan("names", ['find.finders=["patterns", {use = "names", prose = false}]'])
        .finders[1]
        .prose
        is False
    )
