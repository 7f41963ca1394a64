"""Append: the same index as one run over all files, new shards beside unchanged old ones, and a clear error where an append is
impossible. All people are invented."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sanitize import plans
from sanitize.core import failpoints
from sanitize.core.keys import Key
from sanitize.editors.pseudonymize import Pseudonymize
from sanitize.errors import InputRefused, LeakFound, PlanError, QuarantineExceeded, SanitizeError, UsageError
from sanitize.inspection import sql_api
from sanitize.pipeline.append import check_pseudonyms_consistent, remove_replacement_values
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.index_increments import IndexIncrement, hash_path, select_new_files, starts_with_earlier_file
from sanitize.pipeline.run import run
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import shard_name, shard_names
from sanitize.verification.leak_check import verify

PER_SHARD = 4
CURATED = "edit.0.stores=curated"
PEOPLE = [f"{first}.{last}@example.com" for first in ("ann", "bob", "cy", "dee") for last in ("roe", "lee", "day")]


def document(number: int, text: str = "") -> dict[str, Any]:
    one, other = PEOPLE[number * 5 % len(PEOPLE)], PEOPLE[number * 7 % 11]
    return {"doc_id": f"d{number}", "text": text or f"{one} wrote to {other}, call 212-555-01{number % 30:02d}\nor 10.1.2.{number % 9}"}


class Place:
    """A folder with input files and the outputs made from them."""

    def __init__(self, here: Path) -> None:
        self.here, self.out, self.work = here, here / "out", here / "out.private"
        (here / "in").mkdir(parents=True)

    def put(self, name: str, rows: Sequence[dict[str, Any]]) -> Path:
        path = self.here / "in" / name
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def go(self, *inputs: Path, plan: str | Plan = "rmft", changes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
        chosen = load_plan(plan, changes) if isinstance(plan, str) else plan
        settings = Settings(**{"seed": 1, "workers": 1, "rows_per_shard": PER_SHARD, **more})
        return run(list(inputs) or [self.here / "in"], self.out, chosen, self.work, settings)

    def append(self, *inputs: Path, **more: Any) -> dict[str, Any]:
        return self.go(*inputs, append=True, **more)

    def texts(self) -> list[str]:
        return [str(text) for text in Corpus.open(self.out).table(["text"]).column(0).to_pylist()]

    def shards(self) -> dict[str, tuple[int, str]]:
        """Inode and content of each shard."""
        return {path.name: (path.stat().st_ino, file_sha256(path)) for path in sorted((self.out / "data").iterdir())}

    def table(self, *place: str) -> pl.DataFrame:
        paths = sorted(self.work.joinpath(*place).glob("*.parquet"))
        frame = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None)) for path in paths])
        return frame.with_columns(pl.selectors.categorical().cast(pl.String), pl.selectors.enum().cast(pl.String))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def elsewhere(place: Place, name: str) -> Place:
    return Place(place.here / name)


def test_a_run_over_more_files_says_that_they_can_be_added(place: Place) -> None:
    put(place, "a.jsonl")
    place.go()
    put(place, "b.parquet")
    with pytest.raises(UsageError, match="1 new.*use --append to add the new files, or use --replace"):
        place.go()
    with pytest.raises(UsageError, match="^((?!--append).)*$"):
        place.go(plan="redact")
    changed = elsewhere(place, "changed")
    put(changed, "a.jsonl")
    changed.go()
    changed.put("a.jsonl", [document(99)])
    with pytest.raises(UsageError, match="^((?!--append).)*$"):
        changed.go()
    assert place.append()["appended"]["documents"] == 5


# ------------------------------------------------------------------------------------------------------- the same as one run

SAME = ("documents_in", "documents_out", "occurrences", "kept_originals", "replaced", "by_kind", "leaks", "quarantined")
FILES = {"a.jsonl": range(8), "b.parquet": range(8, 13), "c.jsonl": range(13, 20)}


def put(place: Place, *names: str) -> list[Path]:
    return [place.put(name, [document(number) for number in FILES[name]]) for name in names]


def in_one(place: Place, *names: str, **more: Any) -> Place:
    """The same files in one run."""
    one = elsewhere(place, "one")
    one.go(*put(one, *(names or FILES)), **more)
    return one


def test_an_append_is_the_index_of_one_run(place: Place) -> None:
    # 8 documents are two ranges; the 5 behind them are one of 4 and one of 1, as they end with their batch
    place.go(*put(place, "a.jsonl"), changes=[CURATED])
    put(place, "b.parquet")
    place.append(changes=[CURATED])  # the whole folder
    found = place.append(*put(place, "c.jsonl"), changes=[CURATED])  # the new files alone
    one = in_one(place, changes=[CURATED])
    for table in (("tables", "occurrences"), ("tables", "document_ids"), ("tables", "skipped"), ("quarantine", "detect")):
        mine, theirs = place.table(*table), one.table(*table)
        if table[1] == "skipped":
            mine, theirs = (
                frame.group_by("kind", "reason").agg(pl.col("candidates").sum()).sort("kind", "reason") for frame in (mine, theirs)
            )
        assert mine.equals(theirs), table
    assert place.table("tables", "value_counts").sort("value_id").equals(one.table("tables", "value_counts").sort("value_id"))
    values = [each.table("vault", "values").unique().sort("value_id", "value") for each in (place, one)]
    assert values[0].equals(values[1])
    # all counts are of the whole, except that a variant of an earlier part could not know the values to come
    summary = Corpus.open(one.out).manifest["summary"]
    assert {name: found[name] for name in SAME} == {name: summary[name] for name in SAME}
    # the new part is that of one run over everything, to the byte, whose variants avoid all values too
    assert place.texts()[13:] == one.texts()[13:]
    assert sql_api.sql(place.work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [20]
    assert sql_api.status(place.work)["increments"] == 3
    assert sql_api.top(place.work).equals(sql_api.top(one.work))


def test_an_earlier_part_is_what_it_was(place: Place) -> None:
    first = put(place, "a.jsonl")
    place.go(*first)
    shards, texts = place.shards(), place.texts()
    put(place, "b.parquet")
    told = place.append()
    assert told["changed"] and told["documents_in"] == 13
    assert {name: place.shards()[name] for name in shards} == shards
    assert place.texts()[:8] == texts
    assert list(place.shards()) == [*(shard_name(no, 2) for no in range(2)), *(shard_name(no, 2, 2) for no in range(2))]
    manifest = Corpus.open(place.out).manifest
    assert manifest["increments"] == [
        {"number": 1, "input_count": 1, "shard_count": 2},
        {"number": 2, "input_count": 1, "shard_count": 2},
    ]
    assert [one["rows"] for one in manifest["shards"]] == [4, 4, 4, 1]
    assert [Path(one["path"]).name for one in manifest["shards"]] == list(place.shards()) == sorted(place.shards())
    Corpus.open(place.out).check()
    for mode in ("fast", "full"):
        assert verify(place.out, mode=mode)["leaks"] == 0
    before = place.shards()
    for inputs in ([], first, [place.here / "in" / "b.parquet"]):
        assert place.append(*inputs)["changed"] is False
    assert place.shards() == before


@pytest.mark.parametrize("plan", ["erase", "pseudonymize"])
def test_every_plan_that_looks_at_no_whole_corpus(place: Place, plan: str) -> None:
    place.go(*put(place, "a.jsonl"), plan=plan)
    place.append(*put(place, "b.parquet"), plan=plan)
    texts, one = place.texts(), in_one(place, "a.jsonl", "b.parquet", plan=plan).texts()
    assert len(texts) == 13 and texts[8:] == one[8:]
    if plan != "erase":  # what stands for a value hangs on no other document
        assert texts == one
    assert verify(place.out)["leaks"] == 0


WORDS = [
    *PEOPLE[:5],
    "ANN.ROE@example.com",
    "<1.2@host.example>",
    "713-555-0123",
    "10.20.30.40",
    "http://example.com/?u=bob.lee@example.com",
]
TEXTS = st.lists(st.sampled_from([*WORDS, "From: ", "x", "é", "\n\n", "", "(", "🙂"]), max_size=8).map(" ".join)


@hypothesis.settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.lists(TEXTS, min_size=1, max_size=5), min_size=2, max_size=3), size=st.integers(1, 6), keep=st.integers(1, 2))
def test_however_the_files_come(batches: list[list[str]], size: int, keep: int) -> None:
    """For any documents, increments and shards: the index equals that of one run, and, where earlier documents decide everything, so do
    the texts."""
    with tempfile.TemporaryDirectory() as folder:
        here, one = Place(Path(folder) / "here"), Place(Path(folder) / "one")
        changes = [CURATED, "edit.0.avoid=seen", f"edit.0.keep={keep}"]
        files = []
        for no, texts in enumerate(batches):
            rows = [{"doc_id": f"{no}-{number}", "text": text} for number, text in enumerate(texts)]
            files.append(here.put(f"{no}.jsonl", rows))
            here.go(files[-1], changes=changes, rows_per_shard=size, append=no > 0)
        one.go(*files, changes=changes, rows_per_shard=size)
        assert here.texts() == one.texts()
        for table in ("occurrences", "document_ids"):
            assert here.table("tables", table).equals(one.table("tables", table))
        counted = [each.table("tables", "value_counts").sort("value_id") for each in (here, one)]
        assert counted[0].equals(counted[1])
        told, wanted = (Corpus.open(each.out).manifest["summary"] for each in (here, one))
        assert {name: told[name] for name in SAME} == {name: wanted[name] for name in SAME}
        assert verify(here.out, mode="fast")["leaks"] == 0


@pytest.mark.parametrize("keep", [2])
def test_the_first_occurrences_stay_where_they_are(place: Place, keep: int) -> None:
    ann = "ann.roe@example.com"
    place.go(place.put("a.jsonl", [document(0, f"{ann} here")]), changes=[f"edit.0.keep={keep}"])
    place.append(
        place.put("b.jsonl", [document(1, f"{ann} and new.one@example.com"), document(2, f"{ann}, new.one@example.com")]),
        changes=[f"edit.0.keep={keep}"],
    )
    texts = place.texts()
    assert [ann in text for text in texts] == ([True, False, False] if keep == 1 else [True, True, False])
    assert ["new.one@example.com" in text for text in texts] == [False, True, keep == 2]


# ------------------------------------------------------------------------------------------------- what was said, and missed


def test_a_new_value_that_a_variant_said_is_never_kept(place: Place) -> None:
    place.go(*put(place, "a.jsonl"))
    edits = place.table("runs", next((place.work / "runs").iterdir()).name, "edits").filter(pl.col("kind") == "EMAIL_ADDRESS")
    said = str(edits["replacement"][0])
    assert said not in PEOPLE and "@" in said
    place.append(place.put("b.jsonl", [document(100, f"I am {said.upper()}, really"), document(101, f"{said} is me. a.new@example.com")]))
    new = place.texts()[8:]
    assert len(new) == 2 and not any(said in text.lower() for text in new)
    assert "a.new@example.com" in new[1]
    for mode in ("fast", "full"):  # the old shard says it by chance, and had no way to know
        assert verify(place.out, mode=mode)["leaks"] == 0
    # and later ones know it still
    place.append(place.put("c.jsonl", [document(102, f"{said} again")]), verify="full")
    assert said not in place.texts()[10]


HIDDEN = {"in the text": {"text": "ask ｂｏｂ@example.com"}, "in a kept column": {"text": "nothing", "note": "bob@example.com"}}


@pytest.mark.parametrize("where", HIDDEN)
def test_what_was_missed_before_and_is_known_now_stops(place: Place, where: str) -> None:
    told = {"columns": Columns(policies={"note": "keep"} if "note" in HIDDEN[where] else {})}
    rows = [{"doc_id": "x", **HIDDEN[where]}, {**document(1), **({"note": "a"} if "note" in HIDDEN[where] else {})}]
    files = [place.put("a.jsonl", rows)]
    place.go(*files, plan="erase", **told)
    before = place.shards(), (place.out / "manifest.json").read_bytes()
    files.append(place.put("b.jsonl", [{**document(2, "bob@example.com is here"), **({"note": "b"} if "note" in rows[1] else {})}]))
    with pytest.raises(LeakFound, match="1 places in 1 of the 1 earlier shards hold .*--replace, without --append"):
        place.append(plan="erase", **told)
    assert (place.shards(), (place.out / "manifest.json").read_bytes()) == before
    assert "bob" not in str(place.append(files[0], plan="erase", replace=True, **told))
    if where == "in the text":
        place.go(*files, plan="erase", replace=True, **told)  # the way out
        assert not any("bob@" in text or "ｂｏｂ" in text for text in place.texts())


def test_swept_shards_stand_as_well(place: Place) -> None:
    """A shard that was rewritten after a sweep is not rewritten without it."""
    place.go(place.put("a.jsonl", [document(0, "bob@example.com"), document(1, "ask ｂｏｂ@example.com")]), plan="erase")
    shards = place.shards()
    sweep = place.table("runs", next((place.work / "runs").iterdir()).name, "sweep")
    assert sweep.height == 1
    told = place.append(place.put("b.jsonl", [document(2, "ask ｂｏｂ@example.com as well")]), plan="erase")
    assert told["verify"]["swept"] == 1 and "ｂｏｂ" not in place.texts()[2]
    assert place.shards().items() >= shards.items()
    assert place.table("runs", next((place.work / "runs").iterdir()).name, "sweep")["doc_no"].to_list() == [1, 2]


def test_who_is_forgotten_stays_forgotten(place: Place) -> None:
    ann = "ann.roe@example.com"
    place.go(place.put("a.jsonl", [document(0, f"{ann} one"), document(1, "cy.lee@example.com")]))
    place.append(place.put("b.jsonl", [document(2, f"{ann} two"), document(3, "dee.day@example.com")]))
    assert ann in place.texts()[0]
    found = subject(place.work, [ann], erase=True, workers=1)
    assert found["erased"]["outputs"][0]["shards_rewritten"] >= 1
    assert found["runs"][0]["shards"] == [shard_name(0, 1), shard_name(0, 1, 2)]
    assert not any(ann in text for text in place.texts())
    shards = place.shards()
    place.append(place.put("c.jsonl", [document(4, f"{ann} three"), document(5, "cy.lee@example.com")]))
    assert place.texts()[4] == "[EMAIL_ADDRESS] three" and not any("ann.roe" in text for text in place.texts())
    assert place.shards().items() >= shards.items()
    assert place.append()["changed"] is False


# --------------------------------------------------------------------------------------------------------------- what is refused


def test_names_known_from_lists_are_looked_for(place: Place) -> None:
    """A finder with two rounds searches the new documents with the values of all documents, and does not search the old ones again."""
    listed = place.here / "known.csv"
    listed.write_text("kind,value\nPERSON,Zoe Quill\n")
    place.go(place.put("a.jsonl", [document(0, "Zoe Quill was here")]), plan="names", known=listed)
    place.append(place.put("b.jsonl", [document(1, "and Zoe Quill again")]), plan="names", known=listed)
    assert ["Zoe Quill" in text for text in place.texts()] == [True, False]
    assert place.table("tables", "occurrences").filter(pl.col("kind") == "PERSON")["doc_no"].to_list() == [0, 1]
    with pytest.raises(UsageError, match="another list of known values"):
        listed.write_text("kind,value\nPERSON,Yan Quill\n")
        place.append(plan="names", known=listed)


def changed(place: Place) -> None:
    place.put("a.jsonl", [document(number) for number in range(9)])


def gone(place: Place) -> None:
    (place.here / "in" / "a.jsonl").unlink()


REFUSED: dict[str, tuple[Callable[[Place], object] | None, dict[str, Any], type[SanitizeError], str]] = {
    "no OUT": (lambda place: shutil.rmtree(place.out), {}, UsageError, "does not exist, so nothing can be appended"),
    "no WORK": (lambda place: shutil.rmtree(place.work), {}, UsageError, "no index to append to"),
    "an index only begun": (
        lambda place: (place.work / "index.json").write_text(
            json.dumps({**json.loads((place.work / "index.json").read_text()), "complete": False})
        ),
        {},
        UsageError,
        "not complete; run the command that builds it",
    ),
    "another plan": (None, {"plan": "redact"}, UsageError, "made with another plan"),
    "other settings of the plan": (None, {"changes": ["edit.0.keep=2"]}, UsageError, "made with another plan"),
    "another seed": (None, {"seed": 2}, UsageError, "built with another key"),
    "other shards": (None, {"rows_per_shard": 5}, UsageError, "other columns or settings"),
    "another sample": (None, {"sample": 0.5}, UsageError, "another --sample"),
    "other roles": (None, {"columns": Columns(roles=Roles(id="id"))}, UsageError, "other columns or settings"),
    "another policy": (None, {"columns": Columns(policies={"user_id": "keep"})}, UsageError, "made with another key, other settings"),
    "a file that changed": (changed, {}, UsageError, "file 1 of the input: was read by an earlier run and has changed"),
    "a file that is gone": (gone, {}, UsageError, "1 files that an earlier run read are missing"),
    "a new column": (
        lambda place: place.put("c.jsonl", [{**document(50), "more": "x"}]),
        {},
        InputRefused,
        r"have 1 columns \(more\)",
    ),
    "a column of another type": (
        lambda place: place.put("c.parquet", [{**document(50), "n": "x"}]),
        {},
        QuarantineExceeded,
        "1 of 5 records were quarantined .1 wrong_schema",
    ),
    "a bad night": (
        lambda place: (place.here / "in" / "c.jsonl").write_text('{"text": 1\n' * 3 + json.dumps(document(50))),
        {},
        QuarantineExceeded,
        "3 of 8 records",
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = Place(tmp_path_factory.mktemp("made") / "here")
    place.put("a.jsonl", [{**document(number), "n": number} for number in range(8)])
    place.go()
    place.put("b.jsonl", [{**document(number), "n": number} for number in range(8, 12)])
    return place.here


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(made: Path, tmp_path: Path, case: str) -> None:
    shutil.copytree(made, tmp_path / "here", copy_function=shutil.copy2)
    place = object.__new__(Place)
    place.here, place.out, place.work = tmp_path / "here", tmp_path / "here" / "out", tmp_path / "here" / "out.private"
    # an index knows its files by their places
    described, key = (place.work / "index.json").read_text().replace(str(made), str(place.here)), Key.from_seed(1)
    for file in filter(Path.is_file, made.rglob("*")):
        lies, lay = (hash_path(str(at / file.relative_to(made)), key) for at in (place.here, made))
        described = described.replace(f'"{lay}"', f'"{lies}"')
    (place.work / "index.json").write_text(described)
    before, more, error, said = REFUSED[case]
    if before:
        before(place)
    shards = place.shards() if place.out.exists() else {}
    with pytest.raises(error, match=said) as caught:
        place.append(**more)
    assert not any(one in str(caught.value) for one in ("example.com", "ann", "212-555"))
    assert (place.shards() if place.out.exists() else {}) == shards
    assert not [path.name for path in place.here.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("plan", ["blacklist", "header_dedup"])
def test_plans_that_see_the_whole_corpus(place: Place, plan: str) -> None:
    place.put("a.jsonl", [{**document(number), "user_id": f"u{number}"} for number in range(4)])
    place.go(plan=plan)
    with pytest.raises(PlanError, match="has to know .*--replace, without --append"):
        place.append(plan=plan)


def test_droppers(place: Place) -> None:
    plan = place.here / "mine.toml"
    source = (Path(str(plans.__file__)).parent / "rmft.toml").read_text()
    plan.write_text(source.replace("[[edit]]", '[[drop]]\nuse = "exact_dup"\n\n[[edit]]', 1))
    place.go(*put(place, "a.jsonl"), plan=str(plan))
    with pytest.raises(PlanError, match=r"drop\[0\].use = 'exact_dup' has to know which documents of the whole corpus remain"):
        place.append(*put(place, "b.parquet"), plan=str(plan))


# ------------------------------------------------------------------------------------------- files, and what was begun


def test_files_are_known_by_their_bytes(place: Place) -> None:
    one, two = put(place, "a.jsonl", "b.parquet")
    place.go()
    one.rename(place.here / "in" / "0-moved.jsonl")
    told = place.append()
    assert told["changed"] is False and "1 of the given files are byte-identical" in told["notes"][0]
    # a second copy beside the first is new: one might have meant it
    shutil.copy(two, place.here / "in" / "z-copy.parquet")
    assert place.append()["documents_in"] == 18
    # a log that was moved on while another took its name
    log = place.put("log.jsonl", [document(200)])
    place.append(log)
    log.rename(place.here / "in" / "log.1.jsonl")
    place.put("log.jsonl", [document(201)])
    assert place.append()["documents_in"] == 20


@pytest.mark.parametrize("how", [Path.rename, shutil.copytree])
def test_a_private_folder_at_another_place(place: Place, monkeypatch: pytest.MonkeyPatch, how: Callable[[Path, Path], object]) -> None:
    """WORK can be used at another path; the folder it was copied from is not read."""
    put(place, "a.jsonl")
    monkeypatch.chdir(place.here)
    settings = Settings(seed=1, workers=1, rows_per_shard=PER_SHARD)
    run([Path("in")], Path("out"), load_plan("rmft"), Path("out.private"), settings)
    how(place.work, place.here / "elsewhere")
    if place.work.exists():
        shutil.rmtree(place.work / "documents")
    place.work = place.here / "elsewhere"
    assert len(sql_api.find_document_sources(place.work) or ()) == 1
    assert place.append()["changed"] is False
    assert place.append(*put(place, "b.parquet"))["documents_in"] == 13
    place.out.rename(place.here / "moved")
    place.out = place.here / "moved"
    assert verify(place.out, place.work, mode="fast")["leaks"] == 0
    assert place.append(*put(place, "c.jsonl"))["documents_in"] == 20


def elsewhere_changed(here: Path) -> None:
    (here / "a.jsonl").write_text("\n".join((here / "a.jsonl").read_text().splitlines()[1:]) + "\n")


def elsewhere_renamed(here: Path) -> None:
    elsewhere_changed(here)
    (here / "a.jsonl").rename(here / "y.jsonl")


def elsewhere_grown(here: Path) -> None:
    (here / "a.jsonl").rename(here / "y.jsonl")
    with (here / "y.jsonl").open("a") as file:
        file.write(json.dumps(document(77)) + "\n")


ELSEWHERE: dict[str, tuple[Callable[[Path], object], bool, str]] = {
    # what was done in the copy, whether it is given as a folder, and what is said
    "changed": (
        elsewhere_changed,
        True,
        "file 1 of the input: 1 files beside it were read by an earlier run in a folder at another",
    ),
    "changed, files by name": (elsewhere_changed, False, "file 1 of the input: 1 files beside it were read"),
    "changed, another name": (elsewhere_renamed, True, "1 files that an earlier run read at another path are missing"),
    "grown, another name": (elsewhere_grown, False, "file 3 of the input: begins with all bytes of a file"),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_folder_at_another_place_is_the_same(tmp_path: Path, case: str) -> None:
    """Otherwise its documents would be in the corpus twice."""
    place = Place(tmp_path)
    put(place, "a.jsonl", "b.parquet")
    place.go()
    change, as_folder, said = ELSEWHERE[case]
    there = tmp_path / "there"
    (tmp_path / "in").rename(there)
    (there / "new.jsonl").write_text(json.dumps(document(99)) + "\n")
    new = place.append(there)
    assert new["documents_in"] == 14 and "2 of the given files are byte-identical" in new["notes"][0]
    change(there)
    with pytest.raises(UsageError, match=said):
        place.append(*([there] if as_folder else sorted(there.iterdir())))
    assert len(place.texts()) == 14


def test_a_name_that_comes_every_night_is_no_change(place: Place) -> None:
    """Separate folders that contain files with the same names."""
    for night in range(3):
        folder = place.here / f"night-{night}"
        folder.mkdir()
        (folder / "part-0.jsonl").write_text("".join(json.dumps(document(night * 4 + no)) + "\n" for no in range(4)))
        told = place.append(folder) if night else place.go(folder)
        assert told["documents_in"] == 4 * (night + 1)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_page_that_comes_every_month_is_no_folder_that_was_moved(place: Place, by_name: bool) -> None:
    """Beside data with the same name, and beside data with another; short pages and long ones."""
    for month in range(3):
        folder = place.here / f"month-{month}"
        folder.mkdir()
        (folder / "readme.txt").write_text("What this is.\n" * 40)
        (folder / "licence.txt").write_text("Free.\n")
        (folder / "data.jsonl").write_text("".join(json.dumps(document(month * 20 + no)) + "\n" for no in range(12)))
        (folder / f"more-{month}.jsonl").write_text(json.dumps(document(month * 20 + 15)) + "\n")
        inputs = sorted(folder.iterdir()) if by_name else [folder]
        told = place.append(*inputs) if month else place.go(*inputs)
        # the pages are documents too, once
        assert told["documents_in"] - 13 * (month + 1) == 2


def test_a_folder_that_was_moved_is_known_by_a_file_of_the_same_sort(place: Place) -> None:
    """Even by a small one of many."""
    for no in range(4):
        place.put(f"part-{no}.jsonl", [document(no * 9 + one) for one in range(3 + no)])
    place.go()
    there = place.here / "there"
    there.mkdir()
    shutil.copy(place.here / "in" / "part-0.jsonl", there)
    (there / "part-3.jsonl").write_text(json.dumps(document(90)) + "\n")
    with pytest.raises(UsageError, match="file 2 of the input: 1 files beside it"):
        place.append(*sorted(there.iterdir()))


@pytest.mark.parametrize("folders", [["/new"], [f"/new/{no}" for no in range(10_000)], []])
def test_many_files_that_are_alike_take_no_more_time_for_it(folders: list[str]) -> None:
    """Ten thousand folders of an earlier run with the same page in each, and as many now."""
    key, many = Key(b"k" * 32), 10_000
    page = (300, "page")
    paths = [f"/in/{no}/{name}" for no in range(many) for name in ("page.txt", "data.jsonl")]
    files = [file for no in range(many) for file in (page, (900, f"old {no}"))]
    before = IndexIncrement(files=tuple(files), path_hashes=tuple(hash_path(path, key) for path in paths), published=True)
    given = [(f"/new/{no}/{name}", *file) for no in range(many) for name, file in (("page.txt", page), ("data.jsonl", (900, f"new {no}")))]
    began = time.process_time()
    new, moved = select_new_files(given, folders, [before], key)
    assert (len(new), moved) == (many, many) and time.process_time() - began < 5


def test_which_files_begin_with_an_earlier_one(tmp_path: Path) -> None:
    def grown(name: str, before: bytes, now: bytes) -> bool:
        (tmp_path / name).write_bytes(now)
        return starts_with_earlier_file(str(tmp_path / name), len(now), {len(before): {hashlib.sha256(before).hexdigest()}})

    line, other = b'{"text": "%s"}\n' % (b"x" * 300), b'{"text": "y"}\n'
    assert grown("a.jsonl", line, line + other) and grown("a.csv", line + other, line + other + line)
    assert not grown("a.csv", line, line + other)  # the head of a table
    assert not grown("a.jsonl", other, other + line)  # too short to tell
    assert not grown("a.jsonl", line, line[:-1] + b" " + other) and not grown("a.jsonl", line, line)


def test_old_files_need_not_be_there(place: Place) -> None:
    put(place, "b.parquet", "c.jsonl")
    place.go()
    shards = place.shards()
    shutil.rmtree(place.here / "in")
    (place.here / "in").mkdir()
    told = place.append(place.put("d.jsonl", [document(300), document(301)]))
    assert told["documents_in"] == 14 and place.shards().items() >= shards.items()


class Stop(BaseException):
    pass


def stopped(monkeypatch: pytest.MonkeyPatch, place: Place, point: str, **more: Any) -> bool:
    """Run an append that is stopped at a failpoint; False if it does not reach the failpoint."""

    def at(name: str) -> None:
        if name == point:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", at)
        try:
            place.append(**more)
        except Stop:
            return True
    return False


def test_an_append_that_was_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.go(*put(place, "a.jsonl"))
    (two,) = put(place, "b.parquet")
    for point in ("detect:index_json_written", "run:leak_checked"):  # before and after the index is complete
        assert stopped(monkeypatch, place, point)
        assert not json.loads((place.work / "index.json").read_text())["increments"][-1]["published"]
    three = place.here / "c.jsonl"
    three.write_text("".join(json.dumps(document(number)) + "\n" for number in FILES["c.jsonl"]))
    with pytest.raises(UsageError, match="an append of 1 files was started and is not published; 1 of them"):
        place.append(three)
    # given with more it grows
    told = place.append(two, three)
    assert told["documents_in"] == 20 and len(Corpus.open(place.out).manifest["increments"]) == 2
    assert len(Corpus.open(place.out).manifest["inputs"]) == 3


def test_an_erasure_takes_back_what_was_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.go(*put(place, "a.jsonl"))
    (two,) = put(place, "b.parquet")
    assert stopped(monkeypatch, place, "run:leak_checked")
    assert subject(place.work, [PEOPLE[0]], erase=True, workers=1)["erased"]["outputs"][0]["shards"] == 2
    assert not any(PEOPLE[0] in text for text in place.texts())
    assert sql_api.status(place.work)["documents"] == 8
    assert place.append(two)["documents_in"] == 13
    assert not any(PEOPLE[0] in text for text in place.texts())


def test_an_append_that_was_begun_is_taken_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.go(*put(place, "a.jsonl"))
    (two,) = put(place, "b.parquet")
    assert stopped(monkeypatch, place, "run:leak_checked")
    two.unlink()
    (three,) = put(place, "c.jsonl")
    with pytest.raises(UsageError, match="use --replace to discard that append"):
        place.append()
    shards = place.shards()
    assert place.append(replace=True)["documents_in"] == 15
    assert place.shards().items() >= shards.items()
    undisturbed = elsewhere(place, "undisturbed")
    undisturbed.go(*put(undisturbed, "a.jsonl"))
    undisturbed.append(*put(undisturbed, "c.jsonl"))
    assert place.texts() == undisturbed.texts()
    for table in ("occurrences", "value_counts", "partial_counts", "document_ids"):
        assert place.table("tables", table).equals(undisturbed.table("tables", table))


def test_a_file_that_changes_under_the_reader(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.go(*put(place, "a.jsonl"))
    (two,) = put(place, "b.parquet")
    shards = place.shards()

    def at(name: str) -> None:
        if name == "run:leak_checked":
            two.write_bytes(two.read_bytes() + b"x")

    with monkeypatch.context() as patch, pytest.raises(InputRefused, match="changed while it was being read"):
        patch.setattr(failpoints, "hit", at)
        place.append()
    assert place.shards() == shards
    put(place, "b.parquet")
    assert place.append()["documents_in"] == 13 and place.shards().items() >= shards.items()


def test_two_plans_on_one_index(place: Place) -> None:
    """Each OUT is extended to the current index by an append of its own."""
    place.go(*put(place, "a.jsonl"))
    other = object.__new__(Place)
    other.here, other.out, other.work = place.here, place.here / "redacted", place.work
    other.go(plan="redact")
    put(place, "b.parquet")
    assert place.append()["documents_in"] == 13
    assert verify(other.out, other.work)["shards"] == 2  # of what it was made of
    put(place, "c.jsonl")
    assert other.append(plan="redact")["documents_in"] == 20
    assert [part["input_count"] for part in Corpus.open(other.out).manifest["increments"]] == [1, 2]
    assert place.append()["documents_in"] == 20
    assert [part["input_count"] for part in Corpus.open(place.out).manifest["increments"]] == [1, 1, 1]
    with pytest.raises(UsageError, match=r"in 3 increments .--append"):
        place.go()
    # an OUT that is gone is made again of all that the index holds
    shutil.rmtree(place.out)
    assert place.append(replace=True)["documents_in"] == 20
    assert "increments" not in Corpus.open(place.out).manifest


# ------------------------------------------------------------------------------------------------------------------ stops


def test_stopped_anywhere(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every failpoint OUT is the old or the new version, and the same command then ends with the bytes of an uninterrupted one."""
    place.go(*put(place, "a.jsonl"))
    undisturbed = elsewhere(place, "undisturbed")
    undisturbed.go(*put(undisturbed, "a.jsonl"))
    put(undisturbed, "b.parquet")
    undisturbed.append()
    wanted = {path.relative_to(undisturbed.out): file_sha256(path) for path in undisturbed.out.rglob("*") if path.is_file()}
    put(place, "b.parquet")
    old = place.shards()
    points = [
        point
        for point in failpoints.FAILPOINTS
        if not point.startswith(("stream:", "key:", "lines:", "swap:old_moved", "detect:second_round_input_written"))
    ]
    for point in points:
        assert stopped(monkeypatch, place, point), point
        if point == "swap:complete":
            break
        assert place.shards() == old, point
        Corpus.open(place.out).check()
    assert points[-1] == "swap:complete"
    place.append()
    for path in place.work.rglob("*"):
        assert path.is_dir() or "/shards/" in str(path) or stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert {path.relative_to(place.out): file_sha256(path) for path in place.out.rglob("*") if path.is_file()} == wanted
    assert place.shards().items() >= old.items()
    assert place.append()["changed"] is False


# ------------------------------------------------------------------------------------------------------------- small things


def test_names_of_shards() -> None:
    names = shard_names([2, 1, 3])
    assert names[1:4] == ["train-00001-of-00002.parquet", "train-b0002-00000-of-00001.parquet", "train-b0003-00000-of-00003.parquet"]
    assert names == sorted(names)


def test_firsts_without_what_was_said(tmp_path: Path) -> None:
    firsts, said = tmp_path / "firsts.parquet", tmp_path / "said.parquet"
    pq.write_table(pa.table({"value_id": [5, 6, 7], "doc_no": [1, 2, 3]}), firsts)
    pq.write_table(pa.table({"value_id": [1, 6, 9]}), said)
    remove_replacement_values(firsts, [said])
    assert pq.read_table(firsts).column("doc_no").to_pylist() == [1, 3]
    remove_replacement_values(firsts, [])
    assert pq.read_table(firsts).num_rows == 2


@pytest.mark.parametrize(
    ("new", "bad"),
    [
        ([("bob@x.example", 1)], 0),
        ([("BOB@x.example", 1), ("cy@x.example", 3)], 0),
        ([("other@x.example", 1)], 1),
        ([("bob@x.example", 3)], 1),
    ],
)
@pytest.mark.parametrize("scope", ["corpus", "document"])
def test_one_pseudonym_for_a_value(tmp_path: Path, new: list[tuple[str, int]], bad: int, scope: Any) -> None:
    def labels(name: str, rows: list[tuple[str, int]]) -> Path:
        said, ids = zip(*rows, strict=True)
        pq.write_table(pa.table({"doc_no": [0] * len(rows), "label": said, "value_id": pa.array(ids, pa.int64())}), tmp_path / name)
        return tmp_path / name

    values = tmp_path / "values.parquet"
    pq.write_table(pa.table({"value_id": pa.array([1, 2, 3], pa.int64()), "kind": ["EMAIL_ADDRESS"] * 3}), values)
    editors = [Pseudonymize(use="pseudonymize", kinds=("EMAIL_ADDRESS",), scope=scope)]
    old = labels("old.parquet", [("bob@x.example", 1), ("dee@x.example", 2)])
    if bad and scope == "corpus":
        with pytest.raises(UsageError, match=f"pseudonyms of {bad} values"):
            check_pseudonyms_consistent(editors, [old], [labels("new.parquet", new)], [values])
    else:
        check_pseudonyms_consistent(editors, [old], [labels("new.parquet", new)], [values])


def test_without_hard_links(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another file system shards are copied; their contents are the same."""
    place.go(*put(place, "a.jsonl"))
    hashes = {name: known for name, (_, known) in place.shards().items()}
    put(place, "b.parquet")

    def no_link(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", no_link)
    place.append()
    assert {name: known for name, (_, known) in place.shards().items()}.items() >= hashes.items()
