"""The same result everywhere: for any division of the input, any number of workers, killed or not;
and what the result of one document depends on."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sanitize.cli.generated_mails import generate_mails, write_mbox
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import read_rows

ROOT = Path(__file__).resolve().parents[2]
MAILS, ROWS_PER_SHARD = 96, 32
RMFT = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS")  # kinds whose first occurrence stays
Row = dict[str, Any]


@pytest.fixture(scope="module")
def corpus() -> pa.Table:
    return generate_mails(MAILS, 5)


def make_settings(**more: Any) -> Settings:
    return Settings(**{"seed": 7, "workers": 1, "rows_per_shard": ROWS_PER_SHARD, **more})


def write_files(
    table: pa.Table,
    folder: Path,
    files: int,
    group: int,
    write_file: Callable[[pa.Table, Path, int], None] | None = None,
) -> Path:
    """Write the documents as a number of files in one folder, in order."""
    folder.mkdir(parents=True)
    for no in range(files):
        start, end = len(table) * no // files, len(table) * (no + 1) // files
        part = table.slice(start, end - start)
        if write_file is None:
            pq.write_table(part, folder / f"{no:02d}.parquet", row_group_size=group)
        else:
            write_file(part, folder / f"{no:02d}", group)
    return folder


def write_mbox_file(table: pa.Table, path: Path, _group: int) -> None:
    write_mbox(table, path.with_suffix(".mbox"))


def write_mail_files(table: pa.Table, path: Path, _group: int) -> None:
    """Write one mail per file, in folders like those of a maildir."""
    path.mkdir()
    for no, text in enumerate(table["text"].to_pylist()):
        (path / f"{no:05d}.eml").write_text(text, "utf-8")


def read_output_files(out: Path, subfolder: str = "") -> dict[str, bytes]:
    """Every file of OUT, or of one folder of it."""
    files = sorted(path for path in (out / subfolder).rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def get_data_files(output_files: dict[str, bytes]) -> dict[str, bytes]:
    """Of the files of OUT, the shards."""
    return {name: raw for name, raw in output_files.items() if name.startswith("data/")}


def read_output_table(out: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted((out / "data").iterdir())])


# ---- input in different divisions and formats ----


# all of them in the soak test
DIVISIONS = [(files, group) for files in (1, 3, 7) for group in (20, 100_000)]


@pytest.mark.slow
def test_mails_in_one_or_three_mboxes_or_in_single_files_give_the_same_output(
    tmp_path: Path, corpus: pa.Table
) -> None:
    mails = corpus.slice(0, 50)
    output_files = []
    for name, files, write in (
        ("one", 1, write_mbox_file),
        ("three", 3, write_mbox_file),
        ("each", 3, write_mail_files),
    ):
        run_with_settings(
            write_files(mails, tmp_path / name, files, 0, write),
            tmp_path / f"out-{name}",
            "rmft",
            settings=make_settings(),
        )
        output_files.append(read_output_files(tmp_path / f"out-{name}", "data"))
    assert len(output_files[0]) == 2 and output_files[0] == output_files[1] == output_files[2]


# ---- workers, threads and kills ----


SCRIPT = """
import os, signal, sys
from sanitize.plans.settings import Settings
from sanitize.pipeline.run import run_with_settings

def main():
    source, out, workers, rows, stage, tasks = sys.argv[1:7]
    def progress(step):
        if step.total_tasks and step.stage == stage and step.tasks_done == int(tasks):
            os.killpg(0, signal.SIGKILL)
    run_with_settings(source, out, "rmft", settings=Settings(seed=7, workers=int(workers), rows_per_shard=int(rows), progress=progress))

if __name__ == "__main__":
    main()
"""  # noqa: E501


def run_in_process_group(
    folder: Path,
    source: Path,
    out: Path,
    *,
    workers: int,
    threads: int,
    rows: int = ROWS_PER_SHARD,
    kill: tuple[str, int] = ("", 0),
) -> int:
    """Run in a process group of its own, where `kill` (stage, tasks done) ends all of it with
    SIGKILL; returns the exit code."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    thread_settings = {
        name: str(threads)
        for name in (
            "POLARS_MAX_THREADS",
            "OMP_NUM_THREADS",
            "ARROW_IO_THREADS",
            "RAYON_NUM_THREADS",
        )
    }
    arguments = [
        sys.executable,
        str(script),
        str(source),
        str(out),
        str(workers),
        str(rows),
        kill[0],
        str(kill[1]),
    ]
    process = subprocess.run(
        arguments,
        env={**os.environ, "PYTHONPATH": str(ROOT), **thread_settings},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # for the soak test on a busy machine; pytest's own limit ends a run that hangs
        timeout=3600,
    )
    assert process.returncode in (0, -signal.SIGKILL), process.stderr.decode()[-2000:]
    return process.returncode


SOAK_MAILS = int(os.environ.get("SOAK_MAILS", "30000"))


@pytest.fixture(scope="module")
def large_undisturbed_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[pa.Table, dict[str, bytes]]:
    """SOAK_MAILS mails (30,000), and the shards of an undisturbed run over them in one file."""
    corpus, folder = generate_mails(SOAK_MAILS, 11), tmp_path_factory.mktemp("large")
    source = write_files(corpus, folder / "in", 1, 100_000)
    assert (
        run_in_process_group(
            folder, source, folder / "out", workers=1, threads=1, rows=SOAK_MAILS // 10
        )
        == 0
    )
    return corpus, read_output_files(folder / "out", "data")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(("files", "group"), DIVISIONS)
def test_output_of_a_large_corpus_does_not_depend_on_division_workers_and_kills(
    tmp_path: Path,
    large_undisturbed_run: tuple[pa.Table, dict[str, bytes]],
    files: int,
    group: int,
    workers: int,
) -> None:
    """Divided in every way, with 1, 2 and 4 workers of 1 to 8 threads, each killed at another point
    and resumed."""
    corpus, expected_files = large_undisturbed_run
    rng, out = random.Random(f"{files} {group} {workers}"), tmp_path / "out"
    source = write_files(corpus, tmp_path / "in", files, group)
    threads, kill = (
        rng.choice([1, 2, 8]),
        (rng.choice(["detect", "rewrite", "verify"]), rng.randint(1, 9)),
    )
    code = run_in_process_group(
        tmp_path, source, out, workers=workers, threads=threads, rows=SOAK_MAILS // 10, kill=kill
    )
    assert code == -signal.SIGKILL and not out.exists()
    assert (
        run_in_process_group(
            tmp_path,
            source,
            out,
            workers=rng.choice([1, 2, 4]),
            threads=threads,
            rows=SOAK_MAILS // 10,
        )
        == 0
    )
    output_files = read_output_files(out, "data")
    assert len(output_files) == 10 and output_files == expected_files, (threads, kill)


# ---- what the result of one document depends on ----


def take_half(corpus: pa.Table) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.int64]]]:
    """A random half of the documents, and the position of each in the whole corpus."""
    positions = np.sort(
        np.random.default_rng(4).choice(len(corpus), len(corpus) // 2, replace=False)
    )
    return corpus.take(pa.array(positions)), positions


def sanitize_corpus(
    folder: Path, name: str, corpus: pa.Table, plan: str, changes: Sequence[str] = ()
) -> tuple[pa.Table, Path]:
    """The documents after a plan, and the folder of the run."""
    source = write_files(corpus, folder / f"in-{name}", 1, 1000)
    settings = make_settings(rows_per_shard=64)  # two shards for the whole corpus, one for its half
    summary = run_with_settings(source, folder / name, load_plan(plan, changes), settings=settings)
    return read_output_table(folder / name), folder / f"{name}.private" / "runs" / summary.run_hash


SanitizeWhole = Callable[..., tuple[pa.Table, Path, Path]]


@pytest.fixture(scope="module")
def sanitize_whole(tmp_path_factory: pytest.TempPathFactory, corpus: pa.Table) -> SanitizeWhole:
    """The whole corpus after a plan with changes: the documents, the folder of the run, and OUT.
    Each is run once."""

    @functools.cache
    def sanitize_once(plan: str, *changes: str) -> tuple[pa.Table, Path, Path]:
        folder = tmp_path_factory.mktemp("once")
        return *sanitize_corpus(folder, "whole", corpus, plan, changes), folder / "whole"

    return sanitize_once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "changes"),
    [("surrogates", []), ("redact", ["edit.0.label=numbered"])],
    ids=["surrogates", "redact"],
)
def test_result_of_a_document_does_not_depend_on_other_documents_and_order(
    tmp_path: Path, corpus: pa.Table, sanitize_whole: SanitizeWhole, plan: str, changes: list[str]
) -> None:
    full_table, _, _ = sanitize_whole(plan, *changes)
    half_corpus, positions = take_half(corpus)
    half_table, _ = sanitize_corpus(tmp_path, "half", half_corpus, plan, changes)
    assert half_table.equals(full_table.take(pa.array(positions)))
    order = np.random.default_rng(9).permutation(len(corpus))
    shuffled_table, _ = sanitize_corpus(
        tmp_path, "mixed", corpus.take(pa.array(order)), plan, changes
    )
    assert shuffled_table.equals(full_table.take(pa.array(order)))


@pytest.mark.slow
def test_without_an_id_column_draws_depend_on_the_position(
    tmp_path: Path, corpus: pa.Table
) -> None:
    corpus_without_ids = corpus.slice(0, 20).drop_columns(["doc_id"])
    full_table, _ = sanitize_corpus(tmp_path, "whole", corpus_without_ids, "surrogates")
    half_table, _ = sanitize_corpus(tmp_path, "half", corpus_without_ids.slice(1), "surrogates")
    assert full_table.num_rows == half_table.num_rows + 1
    assert half_table["text"].to_pylist() != full_table["text"].to_pylist()[1:]
    labelled_table, _ = sanitize_corpus(tmp_path, "label", corpus_without_ids, "redact")
    labelled_rest, _ = sanitize_corpus(tmp_path, "less", corpus_without_ids.slice(1), "redact")
    assert labelled_rest["text"].to_pylist() == labelled_table["text"].to_pylist()[1:], (
        "labels are not drawn"
    )


@pytest.mark.parametrize("stores", ["curated", "corpus"])
def test_rmft_depends_on_the_corpus_only_through_first_occurrences_and_stores(
    tmp_path: Path, corpus: pa.Table, sanitize_whole: SanitizeWhole, stores: str
) -> None:
    """Half of the documents are removed. In the others, a value whose first occurrence was removed
    has a new one, the first of those left; with pools of the corpus, variants are drawn from
    another list. Nothing else changes."""
    half_corpus, positions = take_half(corpus)
    runs = {}
    changes = [f"edit.0.stores={stores}"] if stores != "corpus" else []  # the default
    whole_table, whole_run, _ = sanitize_whole("rmft", *changes)
    half = sanitize_corpus(tmp_path, "half", half_corpus, "rmft", changes)
    for name, (table, run_folder), document_positions in (
        ("whole", (whole_table, whole_run), np.arange(len(corpus))),
        ("half", half, positions),
    ):
        edits = {
            (int(document_positions[row["doc_no"]]), row["cell"], row["start_byte"]): row
            for row in read_rows(run_folder / "edits")
        }
        occurrences = [
            row
            for row in read_rows(run_folder.parents[1] / "tables" / "occurrences")
            if row["kind"] in RMFT
        ]
        kept = {
            key: row["value_id"]
            for row in occurrences
            if (key := (int(document_positions[row["doc_no"]]), row["cell"], row["start_byte"]))
            not in edits
        }
        assert len(kept) == sum(1 for _ in read_rows(run_folder / "kept"))
        runs[name] = table, edits, kept
    remaining_documents = {int(no) for no in positions}
    edits, kept = (
        {key: row for key, row in runs["whole"][index].items() if key[0] in remaining_documents}
        for index in (1, 2)
    )
    first_occurrences = {value: key for key, value in runs["whole"][2].items()}
    new_kept = {key: value for key, value in runs["half"][2].items() if key not in kept}
    # kept occurrences stay kept; the new ones replace first occurrences in removed documents
    assert kept.items() <= runs["half"][2].items() and len(new_kept) > 10
    assert all(
        first_occurrences[value][0] not in remaining_documents for value in new_kept.values()
    )
    # the same spans are edited, except the new first occurrences
    assert (
        edits.keys() - new_kept.keys() == runs["half"][1].keys() and new_kept.keys() <= edits.keys()
    )
    redrawn_kinds = {"EMAIL_ADDRESS"} if stores == "corpus" else set()
    changed_count = 0
    for key, row in runs["half"][1].items():
        edit_before = edits[key]
        assert (row["end_byte"], row["kind"], row["part"]) == (
            edit_before["end_byte"],
            edit_before["kind"],
            edit_before["part"],
        )
        if row["kind"] in redrawn_kinds:
            changed_count += row["replacement"] != edit_before["replacement"]
        else:
            assert row["replacement"] == edit_before["replacement"], (key, row["kind"])
    assert (changed_count > 100) == bool(redrawn_kinds)
    # a document without a new first occurrence and without a variant from the corpus has the same
    # bytes
    changed_documents = {key[0] for key in new_kept} | {
        key[0] for key, row in edits.items() if row["kind"] in redrawn_kinds
    }
    unchanged_rows = [
        no for no, position in enumerate(positions) if int(position) not in changed_documents
    ]
    assert unchanged_rows
    assert (
        runs["half"][0]
        .take(pa.array(unchanged_rows))
        .equals(runs["whole"][0].take(pa.array(positions[unchanged_rows])))
    )


def test_sweep_depends_on_values_found_in_other_documents(tmp_path: Path) -> None:
    """A value in look-alike characters is recognized only if its plain form was found somewhere:
    corpus-wide knowledge, in every plan."""
    lookalike_text = "write to ｂｏｂ@example.com"
    both_documents = pa.table({"doc_id": ["a", "b"], "text": ["bob@example.com", lookalike_text]})
    both_table, _ = sanitize_corpus(tmp_path, "whole", both_documents, "redact")
    single_table, _ = sanitize_corpus(tmp_path, "alone", both_documents.slice(1), "redact")
    assert both_table["text"][1].as_py() == "write to [EMAIL_ADDRESS]"
    assert single_table["text"][0].as_py() == lookalike_text


# ---- an output as input of a second run ----


def sanitize_again(
    folder: Path, out: Path, plan: str, changes: Sequence[str] = ()
) -> tuple[pa.Table, Path, RunResult]:
    """Sanitize a published folder again, with its pseudonyms kept."""
    settings = make_settings(keep=["user_id"], rows_per_shard=64)
    summary = run_with_settings(
        out / "data", folder / "again", load_plan(plan, changes), settings=settings
    )
    return (
        read_output_table(folder / "again"),
        folder / "again.private" / "runs" / summary.run_hash,
        summary,
    )


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fixed", "numbered"])
def test_redacting_twice_gives_the_same_output_as_once(
    tmp_path: Path, sanitize_whole: SanitizeWhole, label: str
) -> None:
    first_table, _, out = sanitize_whole("redact", f"edit.0.label={label}")
    second_table, _, summary = sanitize_again(tmp_path, out, "redact", [f"edit.0.label={label}"])
    assert summary.occurrences == 0 == summary.verify.swept
    assert second_table.equals(first_table)
    # so the second corpus has identical files
    assert read_output_files(tmp_path / "again", "data") == read_output_files(out, "data")


@pytest.mark.slow
def test_erasing_twice_edits_only_earlier_replacements(
    tmp_path: Path, sanitize_whole: SanitizeWhole
) -> None:
    """A surrogate is a value like any other, so a second run replaces it with another; every edit
    covers a replacement of the first run."""
    first_table, first_run, out = sanitize_whole("surrogates")
    second_table, second_run, summary = sanitize_again(tmp_path, out, "surrogates")
    replacement_spans = compute_replacement_spans(read_rows(first_run / "edits"))
    for edit in read_rows(second_run / "edits"):
        assert any(
            start <= edit["start_byte"] and edit["end_byte"] <= end
            for start, end in replacement_spans[edit["doc_no"], edit["cell"]]
        ), edit["kind"]
    assert summary.kept_originals == 0
    original_values = {row["value"] for row in read_rows(first_run.parents[1] / "vault" / "values")}
    surrogates = {
        row["value"] for row in read_rows(tmp_path / "again.private" / "vault" / "values")
    }
    assert not original_values & surrogates, "no original was found again"
    assert not pc.any(pc.equal(first_table["text"], second_table["text"])).as_py()


def test_rmft_twice_keeps_the_same_originals(tmp_path: Path, sanitize_whole: SanitizeWhole) -> None:
    """A variant is never a real value, so the first occurrences of the first run are the only
    originals of the second, and first occurrences again."""
    first_table, first_run, out = sanitize_whole("rmft")
    _, second_run, _ = sanitize_again(tmp_path, out, "rmft")
    kept = [
        {(row["doc_no"], row["value_id"]) for row in read_rows(run_folder / "kept")}
        for run_folder in (first_run, second_run)
    ]
    assert kept[0] <= kept[1], "every original that stayed stays, in its document"
    original_values, second_values = (
        {
            row["value_id"]
            for row in read_rows(run_folder.parents[1] / "vault" / "values")
            if row["kind"] in RMFT
        }
        for run_folder in (first_run, second_run)
    )
    assert original_values & second_values == {value for _, value in kept[0]}, (
        "and no other original occurs"
    )
    assert first_table.num_rows == MAILS


def compute_replacement_spans(edits: Iterator[Row]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans of replacements in each cell of the output, in bytes."""
    byte_shift: dict[tuple[int, int], int] = {}
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for edit in edits:
        text_cell, size = (edit["doc_no"], edit["cell"]), len(edit["replacement"].encode())
        start = edit["start_byte"] + byte_shift.get(text_cell, 0)
        spans.setdefault(text_cell, []).append((start, start + size))
        byte_shift[text_cell] = (
            byte_shift.get(text_cell, 0) + size - (edit["end_byte"] - edit["start_byte"])
        )
    return spans
