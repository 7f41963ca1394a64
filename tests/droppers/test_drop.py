"""Droppers compared with slow reference implementations, and their effect in a run: order, counts, tables, resume."""

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
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import corpus_pass
from sanitize.storage import queries
from sanitize.verification.leak_check import verify

HEAD = '[find]\nkinds = ["EMAIL_ADDRESS"]\n'
TAIL = '[[edit]]\nuse = "rmft"\nkinds = ["EMAIL_ADDRESS"]\n'
# a run costs the same for fourteen documents as for thirty: few examples, each a large one
calm = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def plan(folder: Path, *drops: str, tail: str = TAIL, leave: str = "") -> Any:
    (folder / "mine.toml").write_text(leave + HEAD + "".join(f"[[drop]]\n{part}\n" for part in drops) + tail)
    return load_plan(str(folder / "mine.toml"))


def ran(folder: Path, texts: Sequence[str | None], *drops: str, **more: Any) -> dict[str, Any]:
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), folder / "in.parquet", row_group_size=4)
    told = Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 4, **more})
    return run([folder / "in.parquet"], folder / "out", plan(folder, *drops), folder / "work", told)


def dropped(folder: Path) -> list[tuple[int, str, int | None]]:
    """The rows of the table `drops`, part after part."""
    files = sorted(folder.glob("work/runs/*/drops/*.parquet"))
    return [(row["doc_no"], row["part"], row["kept_doc_no"]) for file in files for row in pq.read_table(file).to_pylist()]


def came_out(folder: Path) -> list[str | None]:
    files = sorted((folder / "out" / "data").iterdir())
    return [text for file in files for text in pq.read_table(file)["text"].to_pylist()]


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A new folder for every example of a property."""
    return lambda: tmp_path_factory.mktemp("run")


# ---- exact copies ----------------------------------------------------------------------------------------------------------------

COPIES = st.lists(
    st.one_of(st.none(), st.lists(st.sampled_from(["a", "A", " ", "  ", "\t\n", ".", "b", "é", "É", "\u00a0"]), max_size=5).map("".join)),
    min_size=1,
    max_size=30,
)


def same(text: str, how: str) -> str:
    if how == "bytes":
        return text
    ascii_low = re.sub("[A-Z]", lambda match: match[0].lower(), text)
    return (
        " ".join(re.split(r"[ \t\n\v\f\r]+", text)).strip(" ")
        if how == "spaces"
        else " ".join(re.findall(r"[a-z0-9\u0080-\U0010ffff]+", ascii_low))
    )


@calm
@given(texts=COPIES, how=st.sampled_from(["bytes", "spaces", "words"]))
def test_exact_copies(fresh: Any, texts: list[str | None], how: str) -> None:
    folder = fresh()
    summary = ran(folder, texts, f'use = "exact_dup"\nsame = "{how}"')
    first: dict[str, int] = {}
    expected = []
    for number, text in enumerate(texts):
        form = same(text or "", how)
        if form and first.setdefault(form, number) < number:
            expected.append((number, "exact_dup", first[form]))
    assert dropped(folder) == expected
    gone = {row[0] for row in expected}
    assert came_out(folder) == [text for number, text in enumerate(texts) if number not in gone]
    assert summary["documents_in"] == summary["documents_out"] + summary["documents_dropped"] + summary["quarantined"] == len(texts)


def test_the_body_alone(tmp_path: Path) -> None:
    texts = ["From: ann\n\nhello\n", "From: bob\r\n\r\nhello", "hello", "From: cy\n\n", "From: dee\n\n"]
    ran(tmp_path, texts, 'use = "exact_dup"\nbody_only = true')
    assert dropped(tmp_path) == [(1, "exact_dup", 0), (2, "exact_dup", 0)]


# ---- runs of words ---------------------------------------------------------------------------------------------------------------


def slow_sequences(texts: Sequence[str], size: int) -> list[tuple[int, str, int]]:
    owner: dict[tuple[str, ...], int] = {}
    gone = []
    for number, text in enumerate(texts):
        row = re.findall(r"[a-z0-9]+", text.lower())
        runs = {tuple(row[at : at + size]) for at in range(len(row) - size + 1)}
        holders = {owner[run] for run in runs if run in owner}
        if holders:
            gone.append((number, "sequence_dup", min(holders)))
        else:
            owner |= dict.fromkeys(runs, number)
    return gone


@calm
@given(
    size=st.integers(2, 9),
    texts=st.lists(st.lists(st.sampled_from("a b c a. B".split()), max_size=24).map(" ".join), min_size=1, max_size=16),
)
def test_runs_of_words(fresh: Any, size: int, texts: list[str]) -> None:
    folder = fresh()
    ran(folder, texts, f'use = "sequence_dup"\nmin_tokens = {size}')
    assert dropped(folder) == slow_sequences(texts, size)


def test_runs_of_exactly_so_many(tmp_path: Path) -> None:
    """400 words in common are enough, 399 are not; their position does not matter."""
    shared = [f"s{number}" for number in range(400)]

    def text(low: int, high: int, name: str, before: int) -> str:
        return " ".join([*(f"{name}{at}" for at in range(before)), *shared[low:high], *(f"{name}x{at}" for at in range(500 - before))])

    texts = [text(0, 400, "a", 3), text(0, 399, "b", 211), text(1, 400, "c", 0), text(0, 400, "d", 457)]
    assert SequenceDup(use="sequence_dup").min_tokens == 400
    ran(tmp_path, texts, 'use = "sequence_dup"')
    assert dropped(tmp_path) == [(3, "sequence_dup", 0)] == slow_sequences(texts, 400)


# ---- repeated values -------------------------------------------------------------------------------------------------------------


@calm
@given(mails=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4), min_size=1, max_size=24))
def test_repeated_values(fresh: Any, mails: list[list[str]]) -> None:
    """A value with two spellings, and more than once in one document."""
    folder = fresh()
    texts = [" and ".join(f"{'X' if at % 2 else 'x'}{one}@example.com" for at, one in enumerate(mail)) for mail in mails]
    ran(folder, texts, 'use = "repeated_pii"')
    owner: dict[str, int] = {}
    expected = []
    for number, mail in enumerate(mails):
        holders = {owner[one] for one in mail if one in owner}
        if holders:
            expected.append((number, "repeated_pii", min(holders)))
        else:
            owner |= dict.fromkeys(mail, number)
    assert dropped(folder) == expected
    stay = [set(mail) for number, mail in enumerate(mails) if number not in {row[0] for row in expected}]
    assert sum(map(len, stay)) == len(set().union(*stay))
    gone = {row[0] for row in expected}
    # in a document that stays, rmft keeps the first of each value and changes those that repeat within it
    assert [str(text).split(" and ")[0] for text in came_out(folder)] == [t.split(" and ")[0] for n, t in enumerate(texts) if n not in gone]


def test_kinds_of_repeated_values_must_be_found(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=re.escape("drop[0].kinds names US_SSN, which is not in find.kinds")):
        plan(tmp_path, 'use = "repeated_pii"\nkinds = ["US_SSN"]')
    with pytest.raises(PlanError, match=r"drop\[0\].kinds: there is no kind"):
        plan(tmp_path, 'use = "repeated_pii"\nkinds = ["EMAIL"]')


# ---- one after the other, and what a run says ------------------------------------------------------------------------------------

TEXTS = [
    "ann@example.com first",
    "ann@example.com  first",  # a copy of 0
    "ann@example.com second",  # repeats 0's address
    "bob@example.com third",
    "bob@example.com third ",  # a copy of 3
    "cy@example.org fourth",
]


def test_each_dropper_sees_what_the_earlier_left(tmp_path: Path) -> None:
    summary = ran(tmp_path, TEXTS, 'use = "exact_dup"', 'use = "repeated_pii"')
    assert dropped(tmp_path) == [(1, "exact_dup", 0), (4, "exact_dup", 3), (2, "repeated_pii", 0)]
    assert summary["dropped"] == [
        {"part": "exact_dup", "reason": "same text", "documents": 2},
        {"part": "repeated_pii", "reason": "same value", "documents": 1},
    ]
    assert (summary["documents_dropped"], summary["documents_out"], summary["leaks"]) == (3, 3, 0)
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "work")
    ran(tmp_path, TEXTS, 'use = "repeated_pii"', 'use = "exact_dup"')
    assert dropped(tmp_path) == [(1, "repeated_pii", 0), (2, "repeated_pii", 0), (4, "repeated_pii", 3)]


def test_counts_are_taken_over_what_is_left(tmp_path: Path) -> None:
    """The kept first occurrence is the first one in the kept documents; pools and counts ignore dropped documents."""
    texts = [
        "x ann.poe@example.com",
        "x  ann.poe@example.com",
        "ann.poe@example.com again",
        "unique.person@gone.example q",
        "unique.person@gone.example  q",
    ]
    texts += [f"a.b{number}@example.org, a.b{number}@example.org" for number in range(3)]
    drop_twins = 'use = "exact_dup"'
    summary = ran(tmp_path, texts, drop_twins)
    kind = summary["by_kind"]["EMAIL_ADDRESS"]
    assert (kind["occurrences"], kind["values"], kind["documents"], kind["kept"], kind["replaced"]) == (9, 5, 6, 5, 4)
    assert came_out(tmp_path)[0] == texts[0]
    # the plan leaves the kind: counted over the rest, too
    left = plan(tmp_path, drop_twins, tail="", leave='leave = ["EMAIL_ADDRESS"]\n')
    other = run([tmp_path / "in.parquet"], tmp_path / "left", left, tmp_path / "work", Settings(seed=1, workers=1, rows_per_shard=4))
    assert (other["by_kind"]["EMAIL_ADDRESS"]["left_by_plan"], other["occurrences"]) == (9, 9)


def test_stores_hold_no_part_of_a_dropped_document(tmp_path: Path) -> None:
    """A name that occurs in dropped documents only is never drawn."""
    texts = ["same text", *(f"same text{' ' * at}" for at in range(1, 3))]
    texts += [
        "common.one@example.com",
        "zebulon.quirk@rare.example common.one@example.com",
        "other.two@example.net",
        "third.three@example.org",
    ]
    texts += ["common.one@example.com other.two@example.net third.three@example.org"] * 6
    texts = [f"{text} {number}" if number > 4 else text for number, text in enumerate(texts)]
    ran(tmp_path, texts, 'use = "repeated_pii"')
    (stores,) = (tmp_path / "work").glob("runs/*/counts/0-component_pools.parquet")
    parts = set(pq.read_table(stores)["text"].to_pylist())
    assert {"common", "one", "example.com"} & parts and not {"zebulon", "quirk", "rare.example"} & parts


def test_what_is_dropped_is_told(tmp_path: Path) -> None:
    summary = ran(tmp_path, TEXTS, 'use = "exact_dup"')
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["plan"]["drop"] == [{"use": "exact_dup", "same": "spaces", "body_only": False}]
    assert manifest["summary"]["dropped"] == summary["dropped"] == [{"part": "exact_dup", "reason": "same text", "documents": 2}]
    for page in ("README.md", "report.html"):
        assert "same text" in (tmp_path / "out" / page).read_text()
    with queries.open_connection(tmp_path / "work") as database:
        rows = queries.run_query(database, queries.get_query("drops_by_part")).to_pylist()
    assert rows == [{"part": "exact_dup", "reason": "same text", "documents": 2}]
    assert verify(tmp_path / "out", tmp_path / "work")["rows"] == 4


def test_all_documents_of_a_shard_can_go(tmp_path: Path) -> None:
    summary = ran(tmp_path, ["one ann@example.com"] * 9 + ["two"], 'use = "exact_dup"', rows_per_shard=3)
    assert came_out(tmp_path) == ["one ann@example.com", "two"] and summary["documents_dropped"] == 8
    assert ran(tmp_path, ["one ann@example.com"] * 9 + ["two"], 'use = "exact_dup"', rows_per_shard=3)["changed"] is False


def test_looks_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop in the corpus passes, the same command does only the remaining work, with identical output bytes."""
    whole = tmp_path / "whole"
    whole.mkdir()
    ran(whole, TEXTS * 2, 'use = "exact_dup"')
    done: list[int] = []
    look = ExactDup.run_pass

    def counting(self: ExactDup, name: str, sight: Any) -> pa.Table:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(int(sight.doc_no[0]))
        return look(self, name, sight)

    monkeypatch.setattr(ExactDup, "run_pass", counting)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, TEXTS * 2, 'use = "exact_dup"')
    assert done == [0, 4] or done == [0, 5]
    monkeypatch.setattr(ExactDup, "run_pass", lambda self, name, sight: [done.append(int(sight.doc_no[0])), look(self, name, sight)][1])
    ran(tmp_path, TEXTS * 2, 'use = "exact_dup"')
    assert len(done) == len(set(done))
    assert (tmp_path / "out" / "manifest.json").read_bytes() == (whole / "out" / "manifest.json").read_bytes()


def test_quarantined_documents_are_not_looked_at(tmp_path: Path) -> None:
    """A record that is too large to read is quarantined, not dropped: its duplicate is not dropped because of it."""
    big = "ann@example.com " + "word " * 4_000_000
    summary = ran(tmp_path, [big, "small", big, "small"], 'use = "exact_dup"', max_doc_bytes=16 << 20, max_quarantine=1.0)
    assert (summary["quarantined"], summary["documents_dropped"]) == (2, 1) and dropped(tmp_path) == [(3, "exact_dup", 1)]


def test_other_columns_and_nested_main_texts(tmp_path: Path) -> None:
    """Only the main text is compared."""
    pq.write_table(pa.table({"text": ["a b", "a b", "c"], "note": ["x", "y", "y"]}), tmp_path / "in.parquet")
    run([tmp_path / "in.parquet"], tmp_path / "out", plan(tmp_path, 'use = "exact_dup"'), tmp_path / "work", Settings(seed=1, workers=1))
    assert dropped(tmp_path) == [(1, "exact_dup", 0)]


def test_looks_of_one_plan_do_not_answer_for_another(tmp_path: Path) -> None:
    ran(tmp_path, ["a b c", "A b C", "a  b c"], 'use = "exact_dup"')
    assert dropped(tmp_path) == [(2, "exact_dup", 0)]
    told = Settings(seed=1, workers=1, rows_per_shard=4, replace=True)
    run([tmp_path / "in.parquet"], tmp_path / "out", plan(tmp_path, 'use = "exact_dup"\nsame = "words"'), tmp_path / "work", told)
    assert came_out(tmp_path) == ["a b c"]


def test_a_part_that_cannot_look_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Dropper does not implement select_drops"):
        corpus_pass.Dropper(use="x").select_drops(None)  # type: ignore[arg-type]


def test_another_version_of_a_dropper_is_another_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of a dropper are stored under the plan's hash, so those of another version are not reused."""
    mine = plan(tmp_path, 'use = "exact_dup"')
    before, alone = mine.hash(), plan(tmp_path).hash()
    monkeypatch.setattr(ExactDup, "VERSION", ExactDup.VERSION + 1)
    assert mine.hash() != before and plan(tmp_path).hash() == alone
