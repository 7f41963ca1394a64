"""Droppers compared with reference implementations, and their effect in a run: order, counts,
tables, resume."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize.droppers.exact_dup import ExactDup
from sanitize.droppers.sequence_dup import SequenceDup
from sanitize.errors import PlanError
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import corpus_pass
from sanitize.storage import queries
from sanitize.verification.published.output_check import verify
from tests.support import read_texts

FIND_SECTION = '[find]\nkinds = ["EMAIL_ADDRESS"]\n'
EDIT_SECTION = '[[edit]]\nuse = "rmft"\nkinds = ["EMAIL_ADDRESS"]\n'
# a run costs the same for fourteen documents as for thirty: few examples, each a large one
few_examples = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def write_plan(folder: Path, *drops: str, edit_section: str = EDIT_SECTION, leave: str = "") -> Any:
    (folder / "mine.toml").write_text(
        leave + FIND_SECTION + "".join(f"[[drop]]\n{part}\n" for part in drops) + edit_section
    )
    return load_plan(str(folder / "mine.toml"))


def run_plan(folder: Path, texts: Sequence[str | None], *drops: str, **options: Any) -> RunResult:
    pq.write_table(
        pa.table({"text": pa.array(texts, pa.string())}), folder / "in.parquet", row_group_size=4
    )
    settings = Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 4, **options})
    return run_with_settings(
        [folder / "in.parquet"],
        folder / "out",
        write_plan(folder, *drops),
        folder / "work",
        settings,
    )


def read_drops(folder: Path) -> list[tuple[int, str, int | None]]:
    """The rows of the table `drops`, part after part."""
    files = sorted(folder.glob("work/runs/*/drops/*.parquet"))
    return [
        (row["doc_no"], row["part"], row["kept_doc_no"])
        for file in files
        for row in pq.read_table(file).to_pylist()
    ]


@pytest.fixture
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A new folder for every example of a property."""
    return lambda: tmp_path_factory.mktemp("run")


# ---- exact copies --------------------------------------------------------------------------------

TEXTS_WITH_COPIES = st.lists(
    st.one_of(
        st.none(),
        st.lists(
            st.sampled_from(["a", "A", " ", "  ", "\t\n", ".", "b", "é", "É", "\u00a0"]), max_size=5
        ).map("".join),
    ),
    min_size=1,
    max_size=30,
)


def normalise_text(text: str, comparison: str) -> str:
    if comparison == "bytes":
        return text
    lower_case = re.sub("[A-Z]", lambda match: match[0].lower(), text)
    return (
        " ".join(re.split(r"[ \t\n\v\f\r]+", text)).strip(" ")
        if comparison == "spaces"
        else " ".join(re.findall(r"[a-z0-9\u0080-\U0010ffff]+", lower_case))
    )


@pytest.mark.slow
@few_examples
@given(texts=TEXTS_WITH_COPIES, comparison=st.sampled_from(["bytes", "spaces", "words"]))
def test_exact_copies(new_folder: Any, texts: list[str | None], comparison: str) -> None:
    folder = new_folder()
    summary = run_plan(
        folder, texts, f'use = "exact_dup"\nsame = "{comparison}"', rows_per_shard=12
    )
    first: dict[str, int] = {}
    expected = []
    for number, text in enumerate(texts):
        form = normalise_text(text or "", comparison)
        if form and first.setdefault(form, number) < number:
            expected.append((number, "exact_dup", first[form]))
    assert read_drops(folder) == expected
    dropped_numbers = {row[0] for row in expected}
    assert read_texts(folder / "out") == [
        text for number, text in enumerate(texts) if number not in dropped_numbers
    ]
    assert (
        summary.documents_in
        == summary.documents_out + summary.documents_dropped + summary.quarantined
        == len(texts)
    )


def test_body_only_ignores_header_blocks(tmp_path: Path) -> None:
    texts = [
        "From: ann\n\nhello\n",
        "From: bob\r\n\r\nhello",
        "hello",
        "From: cy\n\n",
        "From: dee\n\n",
    ]
    run_plan(tmp_path, texts, 'use = "exact_dup"\nbody_only = true')
    assert read_drops(tmp_path) == [(1, "exact_dup", 0), (2, "exact_dup", 0)]


# ---- runs of words -------------------------------------------------------------------------------


def brute_force_sequences(texts: Sequence[str], size: int) -> list[tuple[int, str, int]]:
    first_document: dict[tuple[str, ...], int] = {}
    drops = []
    for number, text in enumerate(texts):
        words = re.findall(r"[a-z0-9]+", text.lower())
        runs = {tuple(words[index : index + size]) for index in range(len(words) - size + 1)}
        earlier_documents = {first_document[run] for run in runs if run in first_document}
        if earlier_documents:
            drops.append((number, "sequence_dup", min(earlier_documents)))
        else:
            first_document |= dict.fromkeys(runs, number)
    return drops


@pytest.mark.slow
@few_examples
@given(
    size=st.integers(2, 9),
    texts=st.lists(
        st.lists(st.sampled_from("a b c a. B".split()), max_size=24).map(" ".join),
        min_size=1,
        max_size=16,
    ),
)
def test_shared_word_sequences_equal_brute_force(
    new_folder: Any, size: int, texts: list[str]
) -> None:
    folder = new_folder()
    run_plan(folder, texts, f'use = "sequence_dup"\nmin_tokens = {size}', rows_per_shard=12)
    assert read_drops(folder) == brute_force_sequences(texts, size)


def test_shared_sequence_length_threshold(tmp_path: Path) -> None:
    """400 words in common are enough, 399 are not; their position does not matter."""
    shared = [f"s{number}" for number in range(400)]

    def text(low: int, high: int, name: str, before: int) -> str:
        return " ".join(
            [
                *(f"{name}{index}" for index in range(before)),
                *shared[low:high],
                *(f"{name}x{index}" for index in range(500 - before)),
            ]
        )

    texts = [
        text(0, 400, "a", 3),
        text(0, 399, "b", 211),
        text(1, 400, "c", 0),
        text(0, 400, "d", 457),
    ]
    assert SequenceDup(use="sequence_dup").min_tokens == 400
    run_plan(tmp_path, texts, 'use = "sequence_dup"')
    assert read_drops(tmp_path) == [(3, "sequence_dup", 0)] == brute_force_sequences(texts, 400)


# ---- repeated values -----------------------------------------------------------------------------


@pytest.mark.slow
@few_examples
@given(mails=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), min_size=1, max_size=24))
def test_repeated_values(new_folder: Any, mails: list[list[str]]) -> None:
    """A value with two spellings, and more than once in one document."""
    folder = new_folder()
    texts = [
        " and ".join(
            f"{'X' if index % 2 else 'x'}{name}@example.com" for index, name in enumerate(mail)
        )
        for mail in mails
    ]
    run_plan(folder, texts, 'use = "repeated_pii"')
    first_document: dict[str, int] = {}
    expected = []
    for number, mail in enumerate(mails):
        earlier_documents = {first_document[name] for name in mail if name in first_document}
        if earlier_documents:
            expected.append((number, "repeated_pii", min(earlier_documents)))
        else:
            first_document |= dict.fromkeys(mail, number)
    assert read_drops(folder) == expected
    kept_mails = [
        set(mail) for number, mail in enumerate(mails) if number not in {row[0] for row in expected}
    ]
    assert sum(map(len, kept_mails)) == len(set().union(*kept_mails))
    dropped_numbers = {row[0] for row in expected}
    # in a kept document, rmft keeps the first occurrence of each value and replaces its repetitions
    assert [str(text).split(" and ")[0] for text in read_texts(folder / "out")] == [
        t.split(" and ")[0] for n, t in enumerate(texts) if n not in dropped_numbers
    ]


def test_kinds_of_repeated_values_must_be_in_find_kinds(tmp_path: Path) -> None:
    with pytest.raises(
        PlanError, match=re.escape("drop[0].kinds names US_SSN, which is not in find.kinds")
    ):
        write_plan(tmp_path, 'use = "repeated_pii"\nkinds = ["US_SSN"]')
    with pytest.raises(PlanError, match=r"drop\[0\].kinds: there is no kind"):
        write_plan(tmp_path, 'use = "repeated_pii"\nkinds = ["EMAIL"]')


# ---- several droppers, and the summary of a run --------------------------------------------------

TEXTS = [
    "ann@example.com first",
    "ann@example.com  first",  # a copy of 0
    "ann@example.com second",  # repeats 0's address
    "bob@example.com third",
    "bob@example.com third ",  # a copy of 3
    "cy@example.org fourth",
]


@pytest.mark.slow
def test_droppers_run_one_after_the_other(tmp_path: Path) -> None:
    summary = run_plan(tmp_path, TEXTS, 'use = "exact_dup"', 'use = "repeated_pii"')
    assert read_drops(tmp_path) == [
        (1, "exact_dup", 0),
        (4, "exact_dup", 3),
        (2, "repeated_pii", 0),
    ]
    assert summary.to_dict()["dropped"] == [
        {"part": "exact_dup", "reason": "same text", "documents": 2},
        {"part": "repeated_pii", "reason": "same value", "documents": 1},
    ]
    assert (summary.documents_dropped, summary.documents_out, summary.leaks) == (3, 3, 0)
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "work")
    run_plan(tmp_path, TEXTS, 'use = "repeated_pii"', 'use = "exact_dup"')
    assert read_drops(tmp_path) == [
        (1, "repeated_pii", 0),
        (2, "repeated_pii", 0),
        (4, "repeated_pii", 3),
    ]


def test_counts_ignore_dropped_documents(tmp_path: Path) -> None:
    """The kept first occurrence is the first one in the kept documents; pools and counts ignore
    dropped documents."""
    texts = [
        "x ann.poe@example.com",
        "x  ann.poe@example.com",
        "ann.poe@example.com again",
        "unique.person@gone.example q",
        "unique.person@gone.example  q",
    ]
    texts += [f"a.b{number}@example.org, a.b{number}@example.org" for number in range(3)]
    drop_twins = 'use = "exact_dup"'
    summary = run_plan(tmp_path, texts, drop_twins)
    kind = summary.by_kind["EMAIL_ADDRESS"]
    assert (kind.occurrences, kind.values, kind.documents, kind.kept, kind.replaced) == (
        9,
        5,
        6,
        5,
        4,
    )
    assert read_texts(tmp_path / "out")[0] == texts[0]
    # the plan leaves the kind: its counts ignore dropped documents too
    leaving_plan = write_plan(
        tmp_path, drop_twins, edit_section="", leave='leave = ["EMAIL_ADDRESS"]\n'
    )
    second_summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "left",
        leaving_plan,
        tmp_path / "work",
        Settings(seed=1, workers=1, rows_per_shard=4),
    )
    assert (second_summary.by_kind["EMAIL_ADDRESS"].left_by_plan, second_summary.occurrences) == (
        9,
        9,
    )


def test_component_pools_exclude_dropped_documents(tmp_path: Path) -> None:
    """A name that occurs in dropped documents only is never drawn."""
    texts = ["same text", *(f"same text{' ' * count}" for count in range(1, 3))]
    texts += [
        "common.one@example.com",
        "zebulon.quirk@rare.example common.one@example.com",
        "other.two@example.net",
        "third.three@example.org",
    ]
    texts += ["common.one@example.com other.two@example.net third.three@example.org"] * 6
    texts = [f"{text} {number}" if number > 4 else text for number, text in enumerate(texts)]
    run_plan(tmp_path, texts, 'use = "repeated_pii"')
    (pools,) = (tmp_path / "work").glob("runs/*/counts/0-component_pools.parquet")
    components = set(pq.read_table(pools)["text"].to_pylist())
    assert {"common", "one", "example.com"} & components and not {
        "zebulon",
        "quirk",
        "rare.example",
    } & components


def test_drops_are_reported(tmp_path: Path) -> None:
    summary = run_plan(tmp_path, TEXTS, 'use = "exact_dup"')
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["plan"]["drop"] == [{"use": "exact_dup", "same": "spaces", "body_only": False}]
    assert (
        manifest["summary"]["dropped"]
        == summary.to_dict()["dropped"]
        == [{"part": "exact_dup", "reason": "same text", "documents": 2}]
    )
    for page in ("README.md", "report.html"):
        assert "same text" in (tmp_path / "out" / page).read_text()
    with queries.open_connection(tmp_path / "work") as database:
        rows = queries.run_query(database, queries.get_query("drops_by_part")).to_pylist()
    assert rows == [{"part": "exact_dup", "reason": "same text", "documents": 2}]
    assert verify(tmp_path / "out", work=tmp_path / "work").rows == 4


def test_all_documents_of_a_shard_can_be_dropped(tmp_path: Path) -> None:
    summary = run_plan(
        tmp_path, ["one ann@example.com"] * 9 + ["two"], 'use = "exact_dup"', rows_per_shard=3
    )
    assert (
        read_texts(tmp_path / "out") == ["one ann@example.com", "two"]
        and summary.documents_dropped == 8
    )
    assert (
        run_plan(
            tmp_path, ["one ann@example.com"] * 9 + ["two"], 'use = "exact_dup"', rows_per_shard=3
        ).changed
        is False
    )


@pytest.mark.slow
def test_corpus_passes_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop in the corpus passes, the same command does only the remaining work, with
    identical output bytes."""
    complete = tmp_path / "whole"
    complete.mkdir()
    run_plan(complete, TEXTS * 2, 'use = "exact_dup"')
    first_doc_nos: list[int] = []
    original_pass = ExactDup.run_pass

    def run_until_third(self: ExactDup, name: str, batch: Any) -> pa.Table:
        if len(first_doc_nos) == 2:
            raise KeyboardInterrupt
        first_doc_nos.append(int(batch.doc_no[0]))
        return original_pass(self, name, batch)

    monkeypatch.setattr(ExactDup, "run_pass", run_until_third)
    with pytest.raises(KeyboardInterrupt):
        run_plan(tmp_path, TEXTS * 2, 'use = "exact_dup"')
    assert first_doc_nos == [0, 4] or first_doc_nos == [0, 5]
    monkeypatch.setattr(
        ExactDup,
        "run_pass",
        lambda self, name, batch: [
            first_doc_nos.append(int(batch.doc_no[0])),
            original_pass(self, name, batch),
        ][1],
    )
    run_plan(tmp_path, TEXTS * 2, 'use = "exact_dup"')
    assert len(first_doc_nos) == len(set(first_doc_nos))
    assert (tmp_path / "out" / "manifest.json").read_bytes() == (
        complete / "out" / "manifest.json"
    ).read_bytes()


def test_quarantined_documents_are_not_compared(tmp_path: Path) -> None:
    """A record that is too large to read is quarantined, not dropped: its duplicate is not dropped
    because of it."""
    big = "ann@example.com " + "word " * 4_000_000
    summary = run_plan(
        tmp_path,
        [big, "small", big, "small"],
        'use = "exact_dup"',
        max_doc_bytes=16 << 20,
        max_quarantine=1.0,
    )
    assert (summary.quarantined, summary.documents_dropped) == (2, 1) and read_drops(tmp_path) == [
        (3, "exact_dup", 1)
    ]


def test_other_columns_and_nested_main_texts(tmp_path: Path) -> None:
    """Only the main text is compared."""
    pq.write_table(
        pa.table({"text": ["a b", "a b", "c"], "note": ["x", "y", "y"]}), tmp_path / "in.parquet"
    )
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        write_plan(tmp_path, 'use = "exact_dup"'),
        tmp_path / "work",
        Settings(seed=1, workers=1),
    )
    assert read_drops(tmp_path) == [(1, "exact_dup", 0)]


def test_corpus_pass_tables_are_not_reused_by_another_plan(tmp_path: Path) -> None:
    run_plan(tmp_path, ["a b c", "A b C", "a  b c"], 'use = "exact_dup"')
    assert read_drops(tmp_path) == [(2, "exact_dup", 0)]
    settings = Settings(seed=1, workers=1, rows_per_shard=4, replace=True)
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        write_plan(tmp_path, 'use = "exact_dup"\nsame = "words"'),
        tmp_path / "work",
        settings,
    )
    assert read_texts(tmp_path / "out") == ["a b c"]


def test_dropper_without_select_drops_raises() -> None:
    with pytest.raises(NotImplementedError, match="Dropper does not implement select_drops"):
        corpus_pass.Dropper(use="x").select_drops(None)  # type: ignore[arg-type]


def test_dropper_version_changes_the_run_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of a dropper are stored under the plan's hash, so those of another version are not
    reused."""
    with_dropper = write_plan(tmp_path, 'use = "exact_dup"')
    before, without_dropper = with_dropper.hash(), write_plan(tmp_path).hash()
    monkeypatch.setattr(ExactDup, "VERSION", ExactDup.VERSION + 1)
    assert with_dropper.hash() != before and write_plan(tmp_path).hash() == without_dropper
