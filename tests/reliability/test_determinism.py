"""The same result everywhere: for any division of the input, any number of workers, killed or not; and what the result of one document
depends on."""

from __future__ import annotations

import csv
import json
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

from sanitize.cli.demo import generate_mails, write_mbox
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns

ROOT = Path(__file__).resolve().parents[2]
MAILS = 160
RMFT = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS")  # kinds whose first occurrence stays
Row = dict[str, Any]


@pytest.fixture(scope="module")
def corpus() -> pa.Table:
    return generate_mails(MAILS, 5)


def told(**more: Any) -> Settings:
    return Settings(**{"seed": 7, "workers": 1, "rows_per_shard": 40, **more})


def cut(table: pa.Table, folder: Path, files: int, group: int, write: Callable[[pa.Table, Path, int], None] | None = None) -> Path:
    """Write the documents as a number of files in one folder, in order."""
    folder.mkdir(parents=True)
    for no in range(files):
        low, high = len(table) * no // files, len(table) * (no + 1) // files
        part = table.slice(low, high - low)
        if write is None:
            pq.write_table(part, folder / f"{no:02d}.parquet", row_group_size=group)
        else:
            write(part, folder / f"{no:02d}", group)
    return folder


def as_jsonl(table: pa.Table, path: Path, _group: int) -> None:
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")


def as_json(table: pa.Table, path: Path, _group: int) -> None:
    path.with_suffix(".json").write_text(json.dumps(table.to_pylist(), indent=1), "utf-8")


def as_csv(table: pa.Table, path: Path, _group: int) -> None:
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, table.schema.names)
        writer.writeheader()
        writer.writerows(table.to_pylist())


def as_arrow(table: pa.Table, path: Path, _group: int) -> None:
    with pa.ipc.new_stream(path.with_suffix(".arrow"), table.schema) as stream:
        stream.write_table(table, max_chunksize=30)


def as_mbox(table: pa.Table, path: Path, _group: int) -> None:
    write_mbox(table, path.with_suffix(".mbox"))


def as_mails(table: pa.Table, path: Path, _group: int) -> None:
    """Write one mail per file, in folders like those of a maildir."""
    path.mkdir()
    for no, text in enumerate(table["text"].to_pylist()):
        (path / f"{no:05d}.eml").write_text(text, "utf-8")


def published(out: Path, below: str = "") -> dict[str, bytes]:
    """Every file of OUT, or of one folder of it."""
    files = sorted(path for path in (out / below).rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def table_of(out: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted((out / "data").iterdir())])


# ---- the input, cut and written in every way ----


WAYS = [(files, group) for files in (1, 3, 7) for group in (100, 100_000)]  # all of them in the long form


# `tests/pipeline/test_invariants.py` has all plans, over small corpora of every oddity
@pytest.mark.parametrize(("plan", "ways"), [("rmft", [WAYS[0], WAYS[3], WAYS[4]]), ("redact", [WAYS[1], WAYS[4]])], ids=["rmft", "redact"])
def test_files_and_row_groups_make_no_difference(tmp_path: Path, corpus: pa.Table, plan: str, ways: list[tuple[int, int]]) -> None:
    chosen, first = load_plan(plan, ["edit.0.label=numbered"] if plan == "redact" else []), None
    for files, group in ways:
        name = f"{files}-{group}"
        run(cut(corpus, tmp_path / "in" / name, files, group), tmp_path / name, chosen, settings=told())
        found = published(tmp_path / name, "data")
        first = first or found
        assert len(found) == 4 and found == first, name


def test_every_container_gives_the_files_that_parquet_gives(tmp_path: Path, corpus: pa.Table, whole: tuple[Path, dict[str, bytes]]) -> None:
    assert set(corpus.schema.types) <= {pa.string(), pa.large_string()}  # all that CSV has
    parquet = {name: raw for name, raw in whole[1].items() if name.startswith("data/")}
    assert len(parquet) == 4
    for write, files in ((as_jsonl, 3), (as_json, 2), (as_csv, 2), (as_arrow, 3)):
        name = f"{write.__name__}-{files}"
        run(cut(corpus, tmp_path / name, files, 0, write), tmp_path / f"out-{name}", "rmft", settings=told())
        assert published(tmp_path / f"out-{name}", "data") == parquet, name


def test_mails_in_one_mbox_in_three_or_one_a_file(tmp_path: Path, corpus: pa.Table) -> None:
    some = corpus.slice(0, 120)
    found = []
    for name, files, write in (("one", 1, as_mbox), ("three", 3, as_mbox), ("each", 3, as_mails)):
        run(cut(some, tmp_path / name, files, 0, write), tmp_path / f"out-{name}", "rmft", settings=told())
        found.append(published(tmp_path / f"out-{name}", "data"))
    assert len(found[0]) == 3 and found[0] == found[1] == found[2]


# ---- who does the work ----


SCRIPT = """
import os, signal, sys
from sanitize.plans.settings import Settings
from sanitize.pipeline.run import run

def main():
    source, out, workers, rows, stage, tasks = sys.argv[1:7]
    def progress(step):
        if step.total_tasks and step.stage == stage and step.tasks_done == int(tasks):
            os.killpg(0, signal.SIGKILL)
    run(source, out, "rmft", settings=Settings(seed=7, workers=int(workers), rows_per_shard=int(rows), progress=progress))

if __name__ == "__main__":
    main()
"""


def worked(base: Path, source: Path, out: Path, *, workers: int, threads: int, rows: int = 40, kill: tuple[str, int] = ("", 0)) -> int:
    """Run in a process group of its own, where `kill` (stage, tasks done) ends all of it with SIGKILL; returns the exit code."""
    script = base / "script.py"
    script.write_text(SCRIPT)
    numbers = {name: str(threads) for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS", "RAYON_NUM_THREADS")}
    words = [sys.executable, str(script), str(source), str(out), str(workers), str(rows), kill[0], str(kill[1])]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT), **numbers},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        timeout=3600,  # of the long form, on a machine that others work on; a run that hangs ends by pytest's own limit
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-2000:]
    return done.returncode


@pytest.fixture(scope="module")
def whole(corpus: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A corpus in three files, and the output of one uninterrupted run with one worker."""
    base = tmp_path_factory.mktemp("whole")
    source = cut(corpus, base / "in", 3, 40)
    run(source, base / "out", "rmft", settings=told())
    return source, published(base / "out")


@pytest.mark.parametrize(
    ("workers", "threads", "kill"),
    [(1, 8, ("detect", 2)), (2, 4, ("", 0)), (4, 2, ("rewrite", 3))],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else str(value),
)
def test_workers_threads_and_kills_make_no_difference(
    tmp_path: Path, whole: tuple[Path, dict[str, bytes]], workers: int, threads: int, kill: tuple[str, int]
) -> None:
    source, made = whole
    out = tmp_path / "out"
    if kill[0]:
        assert worked(tmp_path, source, out, workers=workers, threads=threads, kill=kill) == -signal.SIGKILL
        assert not out.exists()
    if kill[0] == "rewrite":
        run(source, out, "rmft", settings=told())  # another number of workers goes on with it
    else:
        assert worked(tmp_path, source, out, workers=workers, threads=threads) == 0
    # card, report and manifest too
    assert published(out) == made


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_a_large_corpus_is_the_same_anywhere(tmp_path: Path) -> None:
    """30,000 mails, divided in every way, with 1, 2 and 4 workers of 1 to 8 threads, each killed at another point and resumed.
    SOAK_MAILS=n sets the number of mails."""
    many = int(os.environ.get("SOAK_MAILS", "30000"))
    corpus, rng, first = generate_mails(many, 11), random.Random(3), None
    ways = [(files, group, workers) for files, group in WAYS for workers in (1, 2, 4)]
    for number, (files, group, workers) in enumerate(ways):
        source, out = tmp_path / "in" / f"{files}-{group}", tmp_path / f"out-{number}"
        if not source.exists():
            cut(corpus, source, files, group)
        threads, kill = rng.choice([1, 2, 8]), (rng.choice(["detect", "rewrite", "verify"]), rng.randint(1, 9))
        code = worked(tmp_path, source, out, workers=workers, threads=threads, rows=many // 10, kill=kill)
        assert code == -signal.SIGKILL and not out.exists()
        assert worked(tmp_path, source, out, workers=rng.choice([1, 2, 4]), threads=threads, rows=many // 10) == 0
        found = published(out, "data")
        first = first or found
        assert len(found) == 10 and found == first, (files, group, workers, threads, kill)


# ---- what a document's result hangs on ----


def halved(corpus: pa.Table) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.int64]]]:
    """A random half of the documents, and the position of each in the whole corpus."""
    stay = np.sort(np.random.default_rng(4).choice(len(corpus), len(corpus) // 2, replace=False))
    return corpus.take(pa.array(stay)), stay


def sanitized(base: Path, name: str, corpus: pa.Table, plan: str, changes: Sequence[str] = ()) -> tuple[pa.Table, Path]:
    """The documents after a plan, and the folder of the run."""
    source = cut(corpus, base / f"in-{name}", 1, 1000)
    summary = run(source, base / name, load_plan(plan, changes), settings=told())
    return table_of(base / name), base / f"{name}.private" / "runs" / summary["plan_hash"]


def read(folder: Path) -> Iterator[Row]:
    for file in sorted(folder.glob("*.parquet")):
        yield from pq.read_table(file, partitioning=None).to_pylist()


@pytest.mark.parametrize(("plan", "changes"), [("erase", []), ("redact", ["edit.0.label=numbered"])], ids=["erase", "redact"])
def test_other_documents_and_their_order_leave_a_document_alone(tmp_path: Path, corpus: pa.Table, plan: str, changes: list[str]) -> None:
    whole, _ = sanitized(tmp_path, "whole", corpus, plan, changes)
    some, stay = halved(corpus)
    half, _ = sanitized(tmp_path, "half", some, plan, changes)
    assert half.equals(whole.take(pa.array(stay)))
    order = np.random.default_rng(9).permutation(len(corpus))
    mixed, _ = sanitized(tmp_path, "mixed", corpus.take(pa.array(order)), plan, changes)
    assert mixed.equals(whole.take(pa.array(order)))


def test_without_an_id_column_draws_hang_on_the_position(tmp_path: Path, corpus: pa.Table) -> None:
    nameless = corpus.drop_columns(["doc_id"])
    whole, _ = sanitized(tmp_path, "whole", nameless, "erase")
    half, _ = sanitized(tmp_path, "half", nameless.slice(1), "erase")
    assert whole.num_rows == half.num_rows + 1
    assert half["text"].to_pylist() != whole["text"].to_pylist()[1:]
    label, _ = sanitized(tmp_path, "label", nameless, "redact")
    less, _ = sanitized(tmp_path, "less", nameless.slice(1), "redact")
    assert less["text"].to_pylist() == label["text"].to_pylist()[1:], "labels are not drawn"


@pytest.mark.parametrize("stores", ["curated", "corpus"])
def test_rmft_hangs_on_the_corpus_by_its_firsts_and_stores_alone(tmp_path: Path, corpus: pa.Table, stores: str) -> None:
    """Half of the documents are removed. In the others, a value whose first occurrence was removed has a new one, the first of those
    left; with pools of the corpus, variants are drawn from another list. Nothing else changes."""
    some, stay = halved(corpus)
    runs = {}
    for name, documents, places in (("whole", corpus, np.arange(len(corpus))), ("half", some, stay)):
        table, folder = sanitized(tmp_path, name, documents, "rmft", [f"edit.0.stores={stores}"])
        edits = {(int(places[row["doc_no"]]), row["cell"], row["start_byte"]): row for row in read(folder / "edits")}
        found = [row for row in read(folder.parents[1] / "tables" / "occurrences") if row["kind"] in RMFT]
        kept = {
            place: row["value_id"] for row in found if (place := (int(places[row["doc_no"]]), row["cell"], row["start_byte"])) not in edits
        }
        assert len(kept) == sum(1 for _ in read(folder / "kept"))
        runs[name] = table, edits, kept
    left = {int(no) for no in stay}
    edits, kept = ({place: row for place, row in runs["whole"][which].items() if place[0] in left} for which in (1, 2))
    firsts = {value: place for place, value in runs["whole"][2].items()}
    new = {place: value for place, value in runs["half"][2].items() if place not in kept}
    # the kept ones stay kept, and the new ones stand for firsts that went
    assert kept.items() <= runs["half"][2].items() and len(new) > 10
    assert all(firsts[value][0] not in left for value in new.values())
    # the same places are edited, but for the new firsts
    assert edits.keys() - new.keys() == runs["half"][1].keys() and new.keys() <= edits.keys()
    drawn = {"EMAIL_ADDRESS"} if stores == "corpus" else set()
    changed = 0
    for place, row in runs["half"][1].items():
        before = edits[place]
        assert (row["end_byte"], row["kind"], row["part"]) == (before["end_byte"], before["kind"], before["part"])
        if row["kind"] in drawn:
            changed += row["replacement"] != before["replacement"]
        else:
            assert row["replacement"] == before["replacement"], (place, row["kind"])
    assert (changed > 100) == bool(drawn)
    # so a document without a new first, or a variant from the corpus, is byte for byte what it was
    touched = {place[0] for place in new} | {place[0] for place, row in edits.items() if row["kind"] in drawn}
    same = [no for no, place in enumerate(stay) if int(place) not in touched]
    assert same
    assert runs["half"][0].take(pa.array(same)).equals(runs["whole"][0].take(pa.array(stay[same])))


def test_what_is_swept_hangs_on_what_was_found_elsewhere(tmp_path: Path) -> None:
    """A value in look-alike characters is recognized only if its plain form was found somewhere: corpus-wide knowledge, in every plan."""
    hidden = "write to ｂｏｂ@example.com"
    both = pa.table({"doc_id": ["a", "b"], "text": ["bob@example.com", hidden]})
    whole, _ = sanitized(tmp_path, "whole", both, "redact")
    alone, _ = sanitized(tmp_path, "alone", both.slice(1), "redact")
    assert whole["text"][1].as_py() == "write to [EMAIL_ADDRESS]"
    assert alone["text"][0].as_py() == hidden


# ---- twice ----


def again(base: Path, out: Path, plan: str, changes: Sequence[str] = ()) -> tuple[pa.Table, Path, Row]:
    """A published folder sanitized once more, with its pseudonyms kept."""
    settings = told(columns=Columns(policies={"user_id": "keep"}))
    summary = run(out / "data", base / "again", load_plan(plan, changes), settings=settings)
    return table_of(base / "again"), base / "again.private" / "runs" / summary["plan_hash"], summary


@pytest.mark.parametrize("label", ["fixed", "numbered"])
def test_redacting_twice_is_redacting_once(tmp_path: Path, corpus: pa.Table, label: str) -> None:
    once, _ = sanitized(tmp_path, "once", corpus, "redact", [f"edit.0.label={label}"])
    twice, _, summary = again(tmp_path, tmp_path / "once", "redact", [f"edit.0.label={label}"])
    assert summary["occurrences"] == 0 == summary["verify"]["swept"]
    assert twice.equals(once)
    # so the second corpus has the first one's very files
    assert published(tmp_path / "again", "data") == published(tmp_path / "once", "data")


def test_erasing_twice_touches_what_was_erased_and_nothing_else(tmp_path: Path, corpus: pa.Table) -> None:
    """A surrogate is a value like any other, so a second run replaces it with another; every edit covers a replacement of the first run."""
    once, folder = sanitized(tmp_path, "once", corpus, "erase")
    twice, second, summary = again(tmp_path, tmp_path / "once", "erase")
    made = spans_of(read(folder / "edits"))
    for edit in read(second / "edits"):
        assert any(low <= edit["start_byte"] and edit["end_byte"] <= high for low, high in made[edit["doc_no"], edit["cell"]]), edit["kind"]
    assert summary["kept_originals"] == 0
    originals = {row["value"] for row in read(tmp_path / "once.private" / "vault" / "values")}
    fakes = {row["value"] for row in read(tmp_path / "again.private" / "vault" / "values")}
    assert not originals & fakes, "no original was found again"
    assert not pc.any(pc.equal(once["text"], twice["text"])).as_py()


def test_rmft_twice_keeps_the_same_originals(tmp_path: Path, corpus: pa.Table) -> None:
    """A variant is never a real value, so the first occurrences of the first run are the only originals of the second, and first
    occurrences again."""
    once, folder = sanitized(tmp_path, "once", corpus, "rmft")
    _, second, _ = again(tmp_path, tmp_path / "once", "rmft")
    kept = [{(row["doc_no"], row["value_id"]) for row in read(place / "kept")} for place in (folder, second)]
    assert kept[0] <= kept[1], "every original that stayed stays, in its document"
    originals, found = (
        {row["value_id"] for row in read(tmp_path / f"{name}.private" / "vault" / "values") if row["kind"] in RMFT}
        for name in ("once", "again")
    )
    assert originals & found == {value for _, value in kept[0]}, "and no other original is there"
    assert once.num_rows == MAILS


def spans_of(edits: Iterator[Row]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans of replacements in each cell of the output, in bytes."""
    shift: dict[tuple[int, int], int] = {}
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for edit in edits:
        place, size = (edit["doc_no"], edit["cell"]), len(edit["replacement"].encode())
        start = edit["start_byte"] + shift.get(place, 0)
        spans.setdefault(place, []).append((start, start + size))
        shift[place] = shift.get(place, 0) + size - (edit["end_byte"] - edit["start_byte"])
    return spans
