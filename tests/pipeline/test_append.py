"""Append: gives the index of one run over all files, adds shards, leaves earlier shards unchanged,
and fails with a clear error where an append is impossible. All people are invented."""

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
from sanitize.errors import (
    InputRefused,
    LeakFound,
    PlanError,
    QuarantineExceeded,
    SanitizeError,
    UsageError,
)
from sanitize.inspection import sql_api
from sanitize.pipeline.append import (
    ReplacementFormsTask,
    check_pseudonyms_consistent,
    remove_replacement_values,
    replacement_forms_task,
)
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.indexing.index_increments import (
    hash_path,
    select_new_files,
    starts_with_earlier_file,
)
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256
from sanitize.storage.private_folder import IndexIncrement
from sanitize.storage.publication import shard_name, shard_names
from sanitize.storage.table_schemas import VALUE_SPELLINGS
from sanitize.verification.published.output_check import verify

PER_SHARD = 8
CURATED = "edit.0.stores=curated"
PEOPLE = [
    f"{first}.{last}@example.com"
    for first in ("ann", "bob", "cy", "dee")
    for last in ("roe", "lee", "day")
]


def document(number: int, text: str = "") -> dict[str, Any]:
    sender, recipient = PEOPLE[number * 5 % len(PEOPLE)], PEOPLE[number * 7 % 11]
    return {
        "doc_id": f"d{number}",
        "text": (
            text
            or f"{sender} wrote to {recipient}, call 212-555-01{number % 30:02d}\nor 10.1.2.{number % 9}"  # noqa: E501
        ),
    }


# the finders of rmft; with `known` there would be nothing to sweep
PATTERNS_ONLY = ['find.kinds=["default"]', 'find.finders=["patterns"]']


class CorpusFolder:
    """A folder with input files, and the OUT and WORK of the runs over them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out, self.work = folder, folder / "out", folder / "out.private"
        (folder / "in").mkdir(parents=True)

    def write_file(self, name: str, rows: Sequence[dict[str, Any]]) -> Path:
        path = self.folder / "in" / name
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def run_plan(
        self,
        *inputs: Path,
        plan: str | Plan = "rmft",
        changes: Sequence[str] = (),
        **changed_settings: Any,
    ) -> RunResult:
        loaded_plan = load_plan(plan, changes) if isinstance(plan, str) else plan
        run_settings = Settings(
            **{"seed": 1, "workers": 1, "rows_per_shard": PER_SHARD, **changed_settings}
        )
        return run_with_settings(
            list(inputs) or [self.folder / "in"], self.out, loaded_plan, self.work, run_settings
        )

    def append(self, *inputs: Path, **options: Any) -> RunResult:
        return self.run_plan(*inputs, append=True, **options)

    def texts(self) -> list[str]:
        return [str(text) for text in Corpus.open(self.out).table(["text"]).column(0).to_pylist()]

    def shards(self) -> dict[str, tuple[int, str]]:
        """Inode and content of each shard."""
        return {
            path.name: (path.stat().st_ino, file_sha256(path))
            for path in sorted((self.out / "data").iterdir())
        }

    def table(self, *folder_names: str) -> pl.DataFrame:
        paths = sorted(self.work.joinpath(*folder_names).glob("*.parquet"))
        frame = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None)) for path in paths])
        return frame.with_columns(
            pl.selectors.categorical().cast(pl.String), pl.selectors.enum().cast(pl.String)
        )


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusFolder:
    return CorpusFolder(tmp_path)


def make_neighbour_folder(corpus: CorpusFolder, name: str) -> CorpusFolder:
    return CorpusFolder(corpus.folder / name)


@pytest.mark.slow
def test_run_over_more_files_suggests_append_where_it_is_possible(corpus: CorpusFolder) -> None:
    write_files(corpus, "a.jsonl")
    corpus.run_plan()
    write_files(corpus, "b.parquet")
    with pytest.raises(
        UsageError, match="1 new.*use --append to add the new files, or use --replace"
    ):
        corpus.run_plan()
    with pytest.raises(UsageError, match="^((?!--append).)*$"):
        corpus.run_plan(plan="redact")
    changed_corpus = make_neighbour_folder(corpus, "changed")
    write_files(changed_corpus, "a.jsonl")
    changed_corpus.run_plan()
    changed_corpus.write_file("a.jsonl", [document(99)])
    with pytest.raises(UsageError, match="^((?!--append).)*$"):
        changed_corpus.run_plan()
    assert corpus.append().appended.documents == 5


# --------------------------------------------------------------- the index and texts of one run

SUMMARY_KEYS = (
    "documents_in",
    "documents_out",
    "occurrences",
    "kept_originals",
    "replaced",
    "by_kind",
    "leaks",
    "quarantined",
)
DOCUMENT_NUMBERS = {"a.jsonl": range(8), "b.parquet": range(8, 13), "c.jsonl": range(13, 20)}


def write_files(corpus: CorpusFolder, *names: str) -> list[Path]:
    return [
        corpus.write_file(name, [document(number) for number in DOCUMENT_NUMBERS[name]])
        for name in names
    ]


def run_once_over_files(corpus: CorpusFolder, *names: str, **options: Any) -> CorpusFolder:
    """Runs once over the same files, in another folder."""
    single_run = make_neighbour_folder(corpus, "single_run")
    single_run.run_plan(*write_files(single_run, *(names or DOCUMENT_NUMBERS)), **options)
    return single_run


@pytest.mark.slow
def test_append_gives_the_index_of_one_run(corpus: CorpusFolder) -> None:
    # 8 documents are two task ranges; the next 5 are a range of 4 and one of 1, because a range
    # ends with its increment
    options: dict[str, Any] = {"changes": [CURATED], "rows_per_shard": 4}
    corpus.run_plan(*write_files(corpus, "a.jsonl"), **options)
    write_files(corpus, "b.parquet")
    corpus.append(**options)  # the whole folder
    # the new files alone
    append_summary = corpus.append(*write_files(corpus, "c.jsonl"), **options)
    single_run = run_once_over_files(corpus, **options)
    for table in (
        ("tables", "occurrences"),
        ("tables", "document_ids"),
        ("tables", "skipped"),
        ("quarantine", "detect"),
    ):
        appended_table, single_run_table = corpus.table(*table), single_run.table(*table)
        if table[1] == "skipped":
            appended_table, single_run_table = (
                frame.group_by("kind", "reason")
                .agg(pl.col("candidates").sum())
                .sort("kind", "reason")
                for frame in (appended_table, single_run_table)
            )
        assert appended_table.equals(single_run_table), table
    assert (
        corpus.table("tables", "value_counts")
        .sort("value_id")
        .equals(single_run.table("tables", "value_counts").sort("value_id"))
    )
    values = [
        output.table("vault", "values").unique().sort("value_id", "value")
        for output in (corpus, single_run)
    ]
    assert values[0].equals(values[1])
    # all counts are of the whole corpus; only the variants of the first increment may equal values
    # of later ones
    single_run_summary = Corpus.open(single_run.out).manifest["summary"]
    assert {name: append_summary.to_dict()[name] for name in SUMMARY_KEYS} == {
        name: single_run_summary[name] for name in SUMMARY_KEYS
    }
    # the new texts equal those of one run over all files, whose variants avoid all values too
    assert corpus.texts()[13:] == single_run.texts()[13:]
    assert sql_api.sql(corpus.work, "SELECT count(*) AS n FROM documents")["n"].to_list() == [20]
    assert sql_api.status(corpus.work).increments == 3
    assert sql_api.top(corpus.work).equals(sql_api.top(single_run.work))


@pytest.mark.slow
def test_append_leaves_earlier_shards_unchanged(corpus: CorpusFolder) -> None:
    first = write_files(corpus, "a.jsonl")
    corpus.run_plan(*first, rows_per_shard=4)
    shards, texts = corpus.shards(), corpus.texts()
    write_files(corpus, "b.parquet")
    summary = corpus.append(rows_per_shard=4)
    assert summary.changed and summary.documents_in == 13
    assert {name: corpus.shards()[name] for name in shards} == shards
    assert corpus.texts()[:8] == texts
    assert list(corpus.shards()) == [
        *(shard_name(no, 2) for no in range(2)),
        *(shard_name(no, 2, 2) for no in range(2)),
    ]
    manifest = Corpus.open(corpus.out).manifest
    assert manifest["increments"] == [
        {"number": 1, "input_count": 1, "shard_count": 2},
        {"number": 2, "input_count": 1, "shard_count": 2},
    ]
    assert [shard["rows"] for shard in manifest["shards"]] == [4, 4, 4, 1]
    assert (
        [Path(shard["path"]).name for shard in manifest["shards"]]
        == list(corpus.shards())
        == sorted(corpus.shards())
    )
    Corpus.open(corpus.out).check()
    for mode in ("fast", "full"):
        assert verify(corpus.out, mode=mode).leaks == 0
    before = corpus.shards()
    for inputs in ([], first, [corpus.folder / "in" / "b.parquet"]):
        assert corpus.append(*inputs, rows_per_shard=4).changed is False
    assert corpus.shards() == before


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["surrogates", "pseudonymize"])
def test_append_with_plans_that_need_no_corpus_pass(corpus: CorpusFolder, plan: str) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"), plan=plan)
    corpus.append(*write_files(corpus, "b.parquet"), plan=plan)
    texts, texts_of_single_run = (
        corpus.texts(),
        run_once_over_files(corpus, "a.jsonl", "b.parquet", plan=plan).texts(),
    )
    assert len(texts) == 13 and texts[8:] == texts_of_single_run[8:]
    if plan != "surrogates":  # the replacement of a value depends on no other document
        assert texts == texts_of_single_run
    assert verify(corpus.out).leaks == 0


WORDS = [
    *PEOPLE[:5],
    "ANN.ROE@example.com",
    "<1.2@host.example>",
    "713-555-0123",
    "10.20.30.40",
    "http://example.com/?u=bob.lee@example.com",
]
TEXTS = st.lists(
    st.sampled_from([*WORDS, "From: ", "x", "é", "\n\n", "", "(", "🙂"]), max_size=8
).map(" ".join)


@pytest.mark.slow
@hypothesis.settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(
    batches=st.lists(st.lists(TEXTS, min_size=1, max_size=5), min_size=2, max_size=3),
    size=st.integers(1, 6),
    keep=st.integers(1, 2),
)
def test_any_split_into_increments_gives_the_index_and_texts_of_one_run(
    batches: list[list[str]], size: int, keep: int
) -> None:
    """For any documents, increments and shard sizes: the index equals that of one run, and so do
    the texts, because with `avoid=seen` they depend only on earlier documents."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, single_run = (
            CorpusFolder(Path(folder) / "increments"),
            CorpusFolder(Path(folder) / "single_run"),
        )
        changes = [CURATED, "edit.0.avoid=seen", f"edit.0.keep={keep}"]
        files = []
        for no, texts in enumerate(batches):
            rows = [{"doc_id": f"{no}-{number}", "text": text} for number, text in enumerate(texts)]
            files.append(corpus.write_file(f"{no}.jsonl", rows))
            corpus.run_plan(files[-1], changes=changes, rows_per_shard=size, append=no > 0)
        single_run.run_plan(*files, changes=changes, rows_per_shard=size)
        assert corpus.texts() == single_run.texts()
        for table in ("occurrences", "document_ids"):
            assert corpus.table("tables", table).equals(single_run.table("tables", table))
        counted = [
            output.table("tables", "value_counts").sort("value_id")
            for output in (corpus, single_run)
        ]
        assert counted[0].equals(counted[1])
        append_summary, single_run_summary = (
            Corpus.open(output.out).manifest["summary"] for output in (corpus, single_run)
        )
        assert {name: append_summary[name] for name in SUMMARY_KEYS} == {
            name: single_run_summary[name] for name in SUMMARY_KEYS
        }
        assert verify(corpus.out, mode="fast").leaks == 0


@pytest.mark.slow
@pytest.mark.parametrize("keep", [1, 2])
def test_kept_first_occurrences_stay_the_same_after_append(corpus: CorpusFolder, keep: int) -> None:
    ann = "ann.roe@example.com"
    corpus.run_plan(
        corpus.write_file("a.jsonl", [document(0, f"{ann} here")]), changes=[f"edit.0.keep={keep}"]
    )
    corpus.append(
        corpus.write_file(
            "b.jsonl",
            [
                document(1, f"{ann} and new.one@example.com"),
                document(2, f"{ann}, new.one@example.com"),
            ],
        ),
        changes=[f"edit.0.keep={keep}"],
    )
    texts = corpus.texts()
    assert [ann in text for text in texts] == (
        [True, False, False] if keep == 1 else [True, True, False]
    )
    assert ["new.one@example.com" in text for text in texts] == [False, True, keep == 2]


# ---------------------------------------------- values equal to replacements, and missed values


@pytest.mark.slow
def test_a_new_value_that_equals_a_replacement_is_never_kept(corpus: CorpusFolder) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    edits = corpus.table("runs", next((corpus.work / "runs").iterdir()).name, "edits").filter(
        pl.col("kind") == "EMAIL_ADDRESS"
    )
    replacement = str(edits["replacement"][0])
    assert replacement not in PEOPLE and "@" in replacement
    corpus.append(
        corpus.write_file(
            "b.jsonl",
            [
                document(100, f"I am {replacement.upper()}, really"),
                document(101, f"{replacement} is me. a.new@example.com"),
            ],
        )
    )
    new = corpus.texts()[8:]
    assert len(new) == 2 and not any(replacement in text.lower() for text in new)
    assert "a.new@example.com" in new[1]
    for mode in ("fast", "full"):  # the old shard contains the value only as a replacement
        assert verify(corpus.out, mode=mode).leaks == 0
    # a later append still removes the value
    corpus.append(
        corpus.write_file("c.jsonl", [document(102, f"{replacement} again")]), verify="full"
    )
    assert replacement not in corpus.texts()[10]


@pytest.mark.slow
@pytest.mark.parametrize("value", ["ann.roe@example.com", "713-555-0123"])
def test_a_new_value_that_equals_a_published_pseudonym_leaves_it_as_it_is(
    corpus: CorpusFolder, value: str
) -> None:
    """The pseudonym was drawn before the new value was known; it remains that of its own value."""
    plan = "pseudonymize"
    corpus.run_plan(corpus.write_file("a.jsonl", [document(0, f"{value} here")]), plan=plan)
    pseudonym = corpus.texts()[0].removesuffix(" here")
    assert value != pseudonym
    for no, rows in enumerate(
        [[f"{pseudonym} is new", f"{value} here"], [f"{value} here", pseudonym], [f"{value} here"]],
        1,
    ):
        documents = [document(10 * no + row, text) for row, text in enumerate(rows)]
        corpus.append(corpus.write_file(f"{no}.jsonl", documents), plan=plan)
        for mode in ("fast", "full"):
            assert verify(corpus.out, mode=mode).leaks == 0
    texts = corpus.texts()
    assert [text == f"{pseudonym} here" for text in texts] == [True, False, True, True, False, True]
    other = texts[1].removesuffix(" is new")
    assert texts[4] == other and other not in (value, pseudonym)


@pytest.mark.slow
def test_a_new_value_of_a_column_that_equals_a_published_pseudonym_is_no_leak(
    corpus: CorpusFolder,
) -> None:
    options: dict[str, Any] = {"plan": "pseudonymize", "pseudonymize": ("owner",)}
    corpus.run_plan(
        corpus.write_file(
            "a.jsonl", [{**document(0, "713-555-0123 here"), "owner": "713-555-0199"}]
        ),
        **options,
    )
    pseudonym = corpus.texts()[0].removesuffix(" here")
    rows = [
        {**document(1, "713-555-0123 here"), "owner": pseudonym},
        {**document(2, f"call {pseudonym}"), "owner": "713-555-0199"},
    ]
    corpus.append(corpus.write_file("b.jsonl", rows), **options)
    texts = corpus.texts()
    assert (
        texts[:2] == [f"{pseudonym} here"] * 2
        and texts[2].startswith("call ")
        and pseudonym not in texts[2]
    )
    assert verify(corpus.out).leaks == 0


UNDETECTED_VALUES = {
    "in the text": {"text": "ask ｂｏｂ@example.com"},
    "in a kept column": {"text": "nothing", "note": "ｂｏｂ@example.com"},
}


@pytest.mark.slow
@pytest.mark.parametrize("location", UNDETECTED_VALUES)
def test_a_new_value_that_occurs_undetected_in_an_earlier_shard_stops_the_append(
    corpus: CorpusFolder, location: str
) -> None:
    settings = {"keep": ["note"]} if "note" in UNDETECTED_VALUES[location] else {}
    rows = [
        {"doc_id": "x", **UNDETECTED_VALUES[location]},
        {**document(1), **({"note": "a"} if "note" in UNDETECTED_VALUES[location] else {})},
    ]
    files = [corpus.write_file("a.jsonl", rows)]
    corpus.run_plan(*files, plan="surrogates", **settings)
    before = corpus.shards(), (corpus.out / "manifest.json").read_bytes()
    files.append(
        corpus.write_file(
            "b.jsonl",
            [
                {
                    **document(2, "bob@example.com is here"),
                    **({"note": "b"} if "note" in rows[1] else {}),
                }
            ],
        )
    )
    with pytest.raises(
        LeakFound, match="1 places in 1 of the 1 earlier shards hold .*--replace, without --append"
    ):
        corpus.append(plan="surrogates", **settings)
    assert (corpus.shards(), (corpus.out / "manifest.json").read_bytes()) == before
    assert "bob" not in str(corpus.append(files[0], plan="surrogates", replace=True, **settings))
    if location == "in the text":
        corpus.run_plan(
            *files, plan="surrogates", replace=True, **settings
        )  # as the message suggests
        assert not any("bob@" in text or "ｂｏｂ" in text for text in corpus.texts())


def test_append_leaves_swept_shards_unchanged(corpus: CorpusFolder) -> None:
    """An append keeps the sweep of an earlier shard."""
    plan = load_plan("surrogates", PATTERNS_ONLY)
    corpus.run_plan(
        corpus.write_file(
            "a.jsonl", [document(0, "bob@example.com"), document(1, "ask ｂｏｂ@example.com")]
        ),
        plan=plan,
    )
    shards = corpus.shards()
    sweep = corpus.table("runs", next((corpus.work / "runs").iterdir()).name, "sweep")
    assert sweep.height == 1
    summary = corpus.append(
        corpus.write_file("b.jsonl", [document(2, "ask ｂｏｂ@example.com as well")]), plan=plan
    )
    assert summary.verify.swept == 1 and "ｂｏｂ" not in corpus.texts()[2]
    assert corpus.shards().items() >= shards.items()
    assert corpus.table("runs", next((corpus.work / "runs").iterdir()).name, "sweep")[
        "doc_no"
    ].to_list() == [1, 2]


@pytest.mark.slow
def test_an_erased_person_stays_erased_after_append(corpus: CorpusFolder) -> None:
    ann = "ann.roe@example.com"
    corpus.run_plan(
        corpus.write_file("a.jsonl", [document(0, f"{ann} one"), document(1, "cy.lee@example.com")])
    )
    corpus.append(
        corpus.write_file(
            "b.jsonl", [document(2, f"{ann} two"), document(3, "dee.day@example.com")]
        )
    )
    assert ann in corpus.texts()[0]
    found = subject(corpus.work, [ann], erase=True, workers=1)
    assert found.erased.outputs[0].shards_rewritten >= 1
    assert found.runs[0].shards == [shard_name(0, 1), shard_name(0, 1, 2)]
    assert not any(ann in text for text in corpus.texts())
    shards = corpus.shards()
    corpus.append(
        corpus.write_file(
            "c.jsonl", [document(4, f"{ann} three"), document(5, "cy.lee@example.com")]
        )
    )
    assert corpus.texts()[4] == "[EMAIL_ADDRESS] three" and not any(
        "ann.roe" in text for text in corpus.texts()
    )
    assert corpus.shards().items() >= shards.items()
    assert corpus.append().changed is False


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.slow
def test_names_of_a_known_list_are_found_in_new_documents(corpus: CorpusFolder) -> None:
    """A finder with two rounds searches the new documents for the values of all documents, and does
    not search the old documents again."""
    listed = corpus.folder / "known.csv"
    listed.write_text("kind,value\nPERSON,Zoe Quill\n")
    corpus.run_plan(
        corpus.write_file("a.jsonl", [document(0, "Zoe Quill was here")]),
        plan="names",
        known=listed,
    )
    corpus.append(
        corpus.write_file("b.jsonl", [document(1, "and Zoe Quill again")]),
        plan="names",
        known=listed,
    )
    assert ["Zoe Quill" in text for text in corpus.texts()] == [True, False]
    assert corpus.table("tables", "occurrences").filter(pl.col("kind") == "PERSON")[
        "doc_no"
    ].to_list() == [0, 1]
    with pytest.raises(UsageError, match="another list of known values"):
        listed.write_text("kind,value\nPERSON,Yan Quill\n")
        corpus.append(plan="names", known=listed)


def change_input_file(corpus: CorpusFolder) -> None:
    corpus.write_file("a.jsonl", [document(number) for number in range(9)])


def delete_input_file(corpus: CorpusFolder) -> None:
    (corpus.folder / "in" / "a.jsonl").unlink()


REFUSED: dict[
    str, tuple[Callable[[CorpusFolder], object] | None, dict[str, Any], type[SanitizeError], str]
] = {
    "no OUT": (
        lambda corpus: shutil.rmtree(corpus.out),
        {},
        UsageError,
        "does not exist, so nothing can be appended",
    ),
    "no WORK": (lambda corpus: shutil.rmtree(corpus.work), {}, UsageError, "no index to append to"),
    "an incomplete index": (
        lambda corpus: (corpus.work / "index.json").write_text(
            json.dumps({**json.loads((corpus.work / "index.json").read_text()), "complete": False})
        ),
        {},
        UsageError,
        "not complete; run the command that builds it",
    ),
    "another plan": (
        None,
        {"plan": "redact", "changes": PATTERNS_ONLY},
        UsageError,
        "made with another plan",
    ),
    "other finders": (None, {"plan": "redact"}, UsageError, "built with other finders"),
    "other settings of the plan": (
        None,
        {"changes": ["edit.0.keep=2"]},
        UsageError,
        "made with another plan",
    ),
    "another seed": (None, {"seed": 2}, UsageError, "built with another key"),
    "other shards": (None, {"rows_per_shard": 5}, UsageError, "other columns or settings"),
    "another sample": (None, {"sample": 0.5}, UsageError, "another --sample"),
    "other roles": (None, {"id_column": "id"}, UsageError, "other columns or settings"),
    "another policy": (
        None,
        {"keep": ["user_id"]},
        UsageError,
        "made with another key, other settings",
    ),
    "a file that changed": (
        change_input_file,
        {},
        UsageError,
        "file 1 of the input: was read by an earlier run and has changed",
    ),
    "a missing file": (
        delete_input_file,
        {},
        UsageError,
        "1 files that an earlier run read are missing",
    ),
    "a new column": (
        lambda corpus: corpus.write_file("c.jsonl", [{**document(50), "more": "x"}]),
        {},
        InputRefused,
        r"have 1 columns \(more\)",
    ),
    "a column of another type": (
        lambda corpus: corpus.write_file("c.parquet", [{**document(50), "n": "x"}]),
        {},
        QuarantineExceeded,
        "1 of 5 records were quarantined .1 wrong_schema",
    ),
    "a file with many bad records": (
        lambda corpus: (corpus.folder / "in" / "c.jsonl").write_text(
            '{"text": 1\n' * 3 + json.dumps(document(50))
        ),
        {},
        QuarantineExceeded,
        "3 of 8 records",
    ),
}


@pytest.fixture(scope="module")
def appendable_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = CorpusFolder(tmp_path_factory.mktemp("appendable") / "corpus")
    corpus.write_file("a.jsonl", [{**document(number), "n": number} for number in range(8)])
    corpus.run_plan()
    corpus.write_file("b.jsonl", [{**document(number), "n": number} for number in range(8, 12)])
    return corpus.folder


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_appends_are_refused_and_change_nothing(
    appendable_corpus: Path, tmp_path: Path, case: str
) -> None:
    shutil.copytree(appendable_corpus, tmp_path / "corpus", copy_function=shutil.copy2)
    corpus = object.__new__(CorpusFolder)
    corpus.folder, corpus.out, corpus.work = (
        tmp_path / "corpus",
        tmp_path / "corpus" / "out",
        tmp_path / "corpus" / "out.private",
    )
    # an index identifies its files by hashes of their paths
    index_json, key = (
        (corpus.work / "index.json")
        .read_text()
        .replace(str(appendable_corpus), str(corpus.folder)),
        Key.from_seed(1),
    )
    for file in filter(Path.is_file, appendable_corpus.rglob("*")):
        new_hash, old_hash = (
            hash_path(str(base / file.relative_to(appendable_corpus)), key)
            for base in (corpus.folder, appendable_corpus)
        )
        index_json = index_json.replace(f'"{old_hash}"', f'"{new_hash}"')
    (corpus.work / "index.json").write_text(index_json)
    prepare, options, error_type, message = REFUSED[case]
    if prepare:
        prepare(corpus)
    shards = corpus.shards() if corpus.out.exists() else {}
    with pytest.raises(error_type, match=message) as caught:
        corpus.append(**options)
    assert not any(text in str(caught.value) for text in ("example.com", "ann", "212-555"))
    assert (corpus.shards() if corpus.out.exists() else {}) == shards
    assert not [path.name for path in corpus.folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("plan", ["blacklist", "header_dedup"])
def test_plans_with_a_corpus_pass_are_refused(corpus: CorpusFolder, plan: str) -> None:
    corpus.write_file(
        "a.jsonl", [{**document(number), "user_id": f"u{number}"} for number in range(4)]
    )
    corpus.run_plan(plan=plan)
    with pytest.raises(PlanError, match="has to know .*--replace, without --append"):
        corpus.append(plan=plan)


def test_plans_with_droppers_are_refused(corpus: CorpusFolder) -> None:
    plan = corpus.folder / "mine.toml"
    source = (Path(str(plans.__file__)).parent / "rmft.toml").read_text()
    plan.write_text(source.replace("[[edit]]", '[[drop]]\nuse = "exact_dup"\n\n[[edit]]', 1))
    corpus.run_plan(*write_files(corpus, "a.jsonl"), plan=str(plan))
    with pytest.raises(
        PlanError,
        match=r"drop\[0\].use = 'exact_dup' has to know which documents of the whole corpus remain",
    ):
        corpus.append(*write_files(corpus, "b.parquet"), plan=str(plan))


# ---------------------------------------------------------- moved files, and unfinished appends


@pytest.mark.slow
def test_renamed_files_are_recognised_by_their_content(corpus: CorpusFolder) -> None:
    first_file, second_file = write_files(corpus, "a.jsonl", "b.parquet")
    corpus.run_plan()
    first_file.rename(corpus.folder / "in" / "0-moved.jsonl")
    summary = corpus.append()
    assert (
        summary.changed is False and "1 of the given files are byte-identical" in summary.notes[0]
    )
    # a second copy beside the first counts as a new file, because it may be intended
    shutil.copy(second_file, corpus.folder / "in" / "z-copy.parquet")
    assert corpus.append().documents_in == 18
    # a rotated log: the earlier file was renamed, and a new one has its name
    log = corpus.write_file("log.jsonl", [document(200)])
    corpus.append(log)
    log.rename(corpus.folder / "in" / "log.1.jsonl")
    corpus.write_file("log.jsonl", [document(201)])
    assert corpus.append().documents_in == 20


@pytest.mark.slow
@pytest.mark.parametrize("relocate", [Path.rename, shutil.copytree])
def test_a_moved_or_copied_work_folder_can_be_used(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch, relocate: Callable[[Path, Path], object]
) -> None:
    """WORK can be used at another path; the folder that it was copied from is not read."""
    write_files(corpus, "a.jsonl")
    monkeypatch.chdir(corpus.folder)
    settings = Settings(seed=1, workers=1, rows_per_shard=PER_SHARD)
    run_with_settings([Path("in")], Path("out"), load_plan("rmft"), Path("out.private"), settings)
    relocate(corpus.work, corpus.folder / "elsewhere")
    if corpus.work.exists():
        shutil.rmtree(corpus.work / "documents")
    corpus.work = corpus.folder / "elsewhere"
    assert len(sql_api.find_document_sources(corpus.work) or ()) == 1
    assert corpus.append().changed is False
    assert corpus.append(*write_files(corpus, "b.parquet")).documents_in == 13
    corpus.out.rename(corpus.folder / "moved")
    corpus.out = corpus.folder / "moved"
    assert verify(corpus.out, work=corpus.work, mode="fast").leaks == 0
    assert corpus.append(*write_files(corpus, "c.jsonl")).documents_in == 20


def change_file(folder: Path) -> None:
    (folder / "a.jsonl").write_text(
        "\n".join((folder / "a.jsonl").read_text().splitlines()[1:]) + "\n"
    )


def change_and_rename_file(folder: Path) -> None:
    change_file(folder)
    (folder / "a.jsonl").rename(folder / "y.jsonl")


def extend_and_rename_file(folder: Path) -> None:
    (folder / "a.jsonl").rename(folder / "y.jsonl")
    with (folder / "y.jsonl").open("a") as file:
        file.write(json.dumps(document(77)) + "\n")


CHANGES_IN_MOVED_FOLDER: list[tuple[Callable[[Path], object], bool, str]] = [
    # change of the moved folder, whether the folder is given (else its files), and the error
    # message
    (
        change_file,
        True,
        "file 1 of the input: 1 files beside it were read by an earlier run in a folder at another",
    ),
    (
        change_file,
        False,
        "file 1 of the input: 1 files beside it were read",
    ),
    (
        change_and_rename_file,
        True,
        "1 files that an earlier run read at another path are missing",
    ),
    (
        extend_and_rename_file,
        False,
        "file 3 of the input: begins with all bytes of a file",
    ),
]


def test_changed_files_in_a_moved_input_folder_are_refused(tmp_path: Path) -> None:
    """A moved input folder is recognised, so that its documents are not added to the corpus
    twice."""
    corpus = CorpusFolder(tmp_path)
    write_files(corpus, "a.jsonl", "b.parquet")
    corpus.run_plan()
    moved_folder = tmp_path / "moved_folder"
    (tmp_path / "in").rename(moved_folder)
    (moved_folder / "new.jsonl").write_text(json.dumps(document(99)) + "\n")
    summary = corpus.append(moved_folder)
    assert (
        summary.documents_in == 14 and "2 of the given files are byte-identical" in summary.notes[0]
    )
    shutil.copytree(moved_folder, tmp_path / "unchanged")
    for change, as_folder, message in CHANGES_IN_MOVED_FOLDER:
        shutil.rmtree(moved_folder)
        shutil.copytree(tmp_path / "unchanged", moved_folder)
        change(moved_folder)
        with pytest.raises(UsageError, match=message):
            corpus.append(*([moved_folder] if as_folder else sorted(moved_folder.iterdir())))
        assert len(corpus.texts()) == 14


@pytest.mark.slow
def test_equal_file_names_in_new_folders_are_new_files(corpus: CorpusFolder) -> None:
    """Separate folders that contain files with the same names."""
    for night in range(3):
        folder = corpus.folder / f"night-{night}"
        folder.mkdir()
        (folder / "part-0.jsonl").write_text(
            "".join(json.dumps(document(night * 4 + no)) + "\n" for no in range(4))
        )
        summary = corpus.append(folder) if night else corpus.run_plan(folder)
        assert summary.documents_in == 4 * (night + 1)


@pytest.mark.slow
@pytest.mark.parametrize("by_name", [False, True])
def test_repeated_text_files_do_not_mark_a_new_folder_as_moved(
    corpus: CorpusFolder, by_name: bool
) -> None:
    """Each monthly folder repeats a short and a long text file, beside a data file with the same
    name and one with another name."""
    for month in range(3):
        folder = corpus.folder / f"month-{month}"
        folder.mkdir()
        (folder / "readme.txt").write_text("What this is.\n" * 40)
        (folder / "licence.txt").write_text("Free.\n")
        (folder / "data.jsonl").write_text(
            "".join(json.dumps(document(month * 20 + no)) + "\n" for no in range(12))
        )
        (folder / f"more-{month}.jsonl").write_text(json.dumps(document(month * 20 + 15)) + "\n")
        inputs = sorted(folder.iterdir()) if by_name else [folder]
        summary = corpus.append(*inputs) if month else corpus.run_plan(*inputs)
        # the two text files are documents too, once each
        assert summary.documents_in - 13 * (month + 1) == 2


def test_a_moved_folder_is_recognised_by_one_identical_data_file(corpus: CorpusFolder) -> None:
    """Also if the identical file is a small one of many."""
    for no in range(4):
        corpus.write_file(
            f"part-{no}.jsonl", [document(no * 9 + offset) for offset in range(3 + no)]
        )
    corpus.run_plan()
    other_folder = corpus.folder / "other_folder"
    other_folder.mkdir()
    shutil.copy(corpus.folder / "in" / "part-0.jsonl", other_folder)
    (other_folder / "part-3.jsonl").write_text(json.dumps(document(90)) + "\n")
    with pytest.raises(UsageError, match="file 2 of the input: 1 files beside it"):
        corpus.append(*sorted(other_folder.iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("folders", [["/new"], [f"/new/{no}" for no in range(10_000)], []])
def test_selecting_among_many_identical_files_takes_linear_time(folders: list[str]) -> None:
    """Ten thousand folders of an earlier run with an identical file in each, and as many new
    ones."""
    key, folder_count = Key(b"k" * 32), 10_000
    page = (300, "page")
    paths = [
        f"/in/{no}/{name}" for no in range(folder_count) for name in ("page.txt", "data.jsonl")
    ]
    files = [file for no in range(folder_count) for file in (page, (900, f"old {no}"))]
    increment = IndexIncrement(
        files=tuple(files),
        path_hashes=tuple(hash_path(path, key) for path in paths),
        published=True,
    )
    given_files = [
        (f"/new/{no}/{name}", *file)
        for no in range(folder_count)
        for name, file in (("page.txt", page), ("data.jsonl", (900, f"new {no}")))
    ]
    start_time = time.process_time()
    new_files, moved = select_new_files(given_files, folders, [increment], key)
    assert (len(new_files), moved) == (
        folder_count,
        folder_count,
    ) and time.process_time() - start_time < 5


def test_starts_with_earlier_file(tmp_path: Path) -> None:
    def starts_with_earlier(name: str, earlier_bytes: bytes, current_bytes: bytes) -> bool:
        (tmp_path / name).write_bytes(current_bytes)
        return starts_with_earlier_file(
            str(tmp_path / name),
            len(current_bytes),
            {len(earlier_bytes): {hashlib.sha256(earlier_bytes).hexdigest()}},
        )

    long_line, short_line = b'{"text": "%s"}\n' % (b"x" * 300), b'{"text": "y"}\n'
    assert starts_with_earlier(
        "a.jsonl", long_line, long_line + short_line
    ) and starts_with_earlier("a.csv", long_line + short_line, long_line + short_line + long_line)
    # the head of a table
    assert not starts_with_earlier("a.csv", long_line, long_line + short_line)
    # too short to be compared
    assert not starts_with_earlier("a.jsonl", short_line, short_line + long_line)
    assert not starts_with_earlier(
        "a.jsonl", long_line, long_line[:-1] + b" " + short_line
    ) and not starts_with_earlier("a.jsonl", long_line, long_line)


@pytest.mark.slow
def test_append_works_after_the_old_input_files_were_deleted(corpus: CorpusFolder) -> None:
    write_files(corpus, "b.parquet", "c.jsonl")
    corpus.run_plan()
    shards = corpus.shards()
    shutil.rmtree(corpus.folder / "in")
    (corpus.folder / "in").mkdir()
    summary = corpus.append(corpus.write_file("d.jsonl", [document(300), document(301)]))
    assert summary.documents_in == 14 and corpus.shards().items() >= shards.items()


class StopAtFailpoint(BaseException):
    pass


def stops_at_failpoint(
    monkeypatch: pytest.MonkeyPatch, corpus: CorpusFolder, point: str, **options: Any
) -> bool:
    """Runs an append that stops at a failpoint; False if it does not reach the failpoint."""

    def stop_at_point(name: str) -> None:
        if name == point:
            raise StopAtFailpoint

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit", stop_at_point)
        try:
            corpus.append(**options)
        except StopAtFailpoint:
            return True
    return False


@pytest.mark.slow
def test_an_unfinished_append_must_be_finished_with_its_files(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    (second_file,) = write_files(corpus, "b.parquet")
    for point in (
        "detect:index_json_written",
        "run:leak_checked",
    ):
        # before and after the index is complete
        assert stops_at_failpoint(monkeypatch, corpus, point)
        assert not json.loads((corpus.work / "index.json").read_text())["increments"][-1][
            "published"
        ]
    third_file = corpus.folder / "c.jsonl"
    third_file.write_text(
        "".join(json.dumps(document(number)) + "\n" for number in DOCUMENT_NUMBERS["c.jsonl"])
    )
    with pytest.raises(
        UsageError, match="an append of 1 files was started and is not published; 1 of them"
    ):
        corpus.append(third_file)
    # the unfinished append may be given together with more files
    summary = corpus.append(second_file, third_file)
    assert summary.documents_in == 20 and len(Corpus.open(corpus.out).manifest["increments"]) == 2
    assert len(Corpus.open(corpus.out).manifest["inputs"]) == 3


@pytest.mark.slow
def test_an_erasure_discards_an_unfinished_append(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    (second_file,) = write_files(corpus, "b.parquet")
    assert stops_at_failpoint(monkeypatch, corpus, "run:leak_checked")
    assert subject(corpus.work, [PEOPLE[0]], erase=True, workers=1).erased.outputs[0].shards == 1
    assert not any(PEOPLE[0] in text for text in corpus.texts())
    assert sql_api.status(corpus.work).documents == 8
    assert corpus.append(second_file).documents_in == 13
    assert not any(PEOPLE[0] in text for text in corpus.texts())


@pytest.mark.slow
def test_replace_discards_an_unfinished_append(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    (second_file,) = write_files(corpus, "b.parquet")
    assert stops_at_failpoint(monkeypatch, corpus, "run:leak_checked")
    second_file.unlink()
    (third_file,) = write_files(corpus, "c.jsonl")
    with pytest.raises(UsageError, match="use --replace to discard that append"):
        corpus.append()
    shards = corpus.shards()
    assert corpus.append(replace=True).documents_in == 15
    assert corpus.shards().items() >= shards.items()
    uninterrupted = make_neighbour_folder(corpus, "uninterrupted")
    uninterrupted.run_plan(*write_files(uninterrupted, "a.jsonl"))
    uninterrupted.append(*write_files(uninterrupted, "c.jsonl"))
    assert corpus.texts() == uninterrupted.texts()
    for table in ("occurrences", "value_counts", "partial_counts", "document_ids"):
        assert corpus.table("tables", table).equals(uninterrupted.table("tables", table))


@pytest.mark.slow
def test_a_file_that_changes_while_it_is_read_stops_the_append(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    (second_file,) = write_files(corpus, "b.parquet")
    shards = corpus.shards()

    def change_file_at_point(name: str) -> None:
        if name == "run:leak_checked":
            second_file.write_bytes(second_file.read_bytes() + b"x")

    with (
        monkeypatch.context() as patch,
        pytest.raises(InputRefused, match="changed while it was being read"),
    ):
        patch.setattr(failpoints, "hit", change_file_at_point)
        corpus.append()
    assert corpus.shards() == shards
    write_files(corpus, "b.parquet")
    assert corpus.append().documents_in == 13 and corpus.shards().items() >= shards.items()


@pytest.mark.slow
def test_two_outputs_of_one_index_are_appended_separately(corpus: CorpusFolder) -> None:
    """Each OUT needs its own append to reach the current index."""
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    redacted = object.__new__(CorpusFolder)
    redacted.folder, redacted.out, redacted.work = (
        corpus.folder,
        corpus.folder / "redacted",
        corpus.work,
    )
    redacted.run_plan(plan="redact", changes=PATTERNS_ONLY)
    write_files(corpus, "b.parquet")
    assert corpus.append().documents_in == 13
    assert verify(redacted.out, work=redacted.work).shards == 1  # its own shards only
    write_files(corpus, "c.jsonl")
    assert redacted.append(plan="redact", changes=PATTERNS_ONLY).documents_in == 20
    assert [
        increment["input_count"] for increment in Corpus.open(redacted.out).manifest["increments"]
    ] == [1, 2]
    assert corpus.append().documents_in == 20
    assert [
        increment["input_count"] for increment in Corpus.open(corpus.out).manifest["increments"]
    ] == [1, 1, 1]
    with pytest.raises(UsageError, match=r"in 3 increments .--append"):
        corpus.run_plan()
    # a deleted OUT is rebuilt from everything in the index
    shutil.rmtree(corpus.out)
    assert corpus.append(replace=True).documents_in == 20
    assert "increments" not in Corpus.open(corpus.out).manifest


# -------------------------------------------------------------------------- stops at failpoints


@pytest.mark.slow
def test_append_stopped_at_any_failpoint_resumes_to_identical_bytes(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every failpoint OUT is the old or the new version, and the same command then ends with the
    bytes of an uninterrupted append."""
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    uninterrupted = make_neighbour_folder(corpus, "uninterrupted")
    uninterrupted.run_plan(*write_files(uninterrupted, "a.jsonl"))
    write_files(uninterrupted, "b.parquet")
    uninterrupted.append()
    expected_hashes = {
        path.relative_to(uninterrupted.out): file_sha256(path)
        for path in uninterrupted.out.rglob("*")
        if path.is_file()
    }
    write_files(corpus, "b.parquet")
    old_shards = corpus.shards()
    points = [
        point
        for point in failpoints.FAILPOINTS
        if not point.startswith(
            ("stream:", "key:", "lines:", "swap:old_moved", "detect:second_round_input_written")
        )
    ]
    for point in points:
        assert stops_at_failpoint(monkeypatch, corpus, point), point
        if point == "swap:complete":
            break
        assert corpus.shards() == old_shards, point
        Corpus.open(corpus.out).check()
    assert points[-1] == "swap:complete"
    corpus.append()
    for path in corpus.work.rglob("*"):
        assert (
            path.is_dir()
            or "/shards/" in str(path)
            or stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        ), path
    assert {
        path.relative_to(corpus.out): file_sha256(path)
        for path in corpus.out.rglob("*")
        if path.is_file()
    } == expected_hashes
    assert corpus.shards().items() >= old_shards.items()
    assert corpus.append().changed is False


# ---------------------------------------------------------------------------------------- units


def test_names_of_shards() -> None:
    names = shard_names([2, 1, 3])
    assert names[1:4] == [
        "train-00001-of-00002.parquet",
        "train-b0002-00000-of-00001.parquet",
        "train-b0003-00000-of-00003.parquet",
    ]
    assert names == sorted(names)


def test_remove_replacement_values(tmp_path: Path) -> None:
    """A value is not kept where a replacement of its kind or of another equals it, in one of its
    forms."""
    first_occurrences, edits, values = (
        tmp_path / f"{name}.parquet" for name in ("first_occurrences", "edits", "values")
    )
    pq.write_table(
        pa.table({"value_id": [5, 6, 7, 8, 9], "doc_no": [1, 2, 3, 4, 5]}), first_occurrences
    )
    replacements = [
        ("PERSON", "Rickard"),
        ("IP_ADDRESS", "143.255.50.185"),
        ("EMAIL_ADDRESS", "nela@example.com"),
        ("WORD", "X"),
    ]
    pq.write_table(
        pa.table(dict(zip(("kind", "replacement"), zip(*replacements, strict=True), strict=True))),
        edits,
    )
    rows = [
        (5, "USER_NAME", "@Rickard", "rickard"),
        (6, "USER_NAME", "rickards", None),
        (7, "PHONE_NUMBER", "432-555-0185", "+14325550185"),
        (8, "EMAIL_ADDRESS", "Nela@Example.com", "nela@example.com"),
        (9, "PHONE_NUMBER", "432-555-0186", "+14325550186"),
    ]
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), VALUE_SPELLINGS.schema, strict=True)
    ]
    pq.write_table(pa.table(columns, schema=VALUE_SPELLINGS.schema), values)
    key = Key.from_seed(1)
    replacement_forms_task(ReplacementFormsTask(edits=edits, key=key, folder=tmp_path))
    remove_replacement_values(
        first_occurrences, [tmp_path / "replacement_forms.parquet"], [values], key
    )
    assert pq.read_table(first_occurrences).column("doc_no").to_pylist() == [2, 5]
    remove_replacement_values(first_occurrences, [], [values], key)
    assert pq.read_table(first_occurrences).num_rows == 2


@pytest.mark.parametrize(
    ("new_labels", "conflict_count"),
    [
        ([("bob@x.example", 1)], 0),
        ([("BOB@x.example", 1), ("cy@x.example", 3)], 0),
        ([("other@x.example", 1)], 1),
        ([("bob@x.example", 3)], 1),
    ],
)
@pytest.mark.parametrize("scope", ["corpus", "document"])
def test_check_pseudonyms_consistent(
    tmp_path: Path, new_labels: list[tuple[str, int]], conflict_count: int, scope: Any
) -> None:
    def write_labels(name: str, rows: list[tuple[str, int]]) -> Path:
        labels, ids = zip(*rows, strict=True)
        pq.write_table(
            pa.table(
                {"doc_no": [0] * len(rows), "label": labels, "value_id": pa.array(ids, pa.int64())}
            ),
            tmp_path / name,
        )
        return tmp_path / name

    values = tmp_path / "values.parquet"
    pq.write_table(
        pa.table({"value_id": pa.array([1, 2, 3], pa.int64()), "kind": ["EMAIL_ADDRESS"] * 3}),
        values,
    )
    editors = [Pseudonymize(use="pseudonymize", kinds=("EMAIL_ADDRESS",), scope=scope)]
    old_labels = write_labels("old.parquet", [("bob@x.example", 1), ("dee@x.example", 2)])
    if conflict_count and scope == "corpus":
        with pytest.raises(UsageError, match=f"pseudonyms of {conflict_count} values"):
            check_pseudonyms_consistent(
                editors, [old_labels], [write_labels("new.parquet", new_labels)], [values]
            )
    else:
        check_pseudonyms_consistent(
            editors, [old_labels], [write_labels("new.parquet", new_labels)], [values]
        )


def test_append_without_hard_links_copies_shards(
    corpus: CorpusFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where hard links are impossible, shards are copied; their contents are the same."""
    corpus.run_plan(*write_files(corpus, "a.jsonl"))
    hashes = {name: sha256 for name, (_, sha256) in corpus.shards().items()}
    write_files(corpus, "b.parquet")

    def fail_to_link(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", fail_to_link)
    corpus.append()
    assert {name: sha256 for name, (_, sha256) in corpus.shards().items()}.items() >= hashes.items()
