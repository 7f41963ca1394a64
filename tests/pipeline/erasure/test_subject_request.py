"""Data subject requests: counts, erasure, and later runs, which honour the erasure. All people are
invented."""

from __future__ import annotations

import base64
import importlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Key
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.finders.patterns import PatternFinder
from sanitize.pipeline.erasure import erasure_scan
from sanitize.pipeline.erasure.subject_match import SubjectMatch
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.pipeline.shard_rewriting import ShardRewriter
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import tombstones
from sanitize.storage.tombstones import Tombstones
from sanitize.text import name_search
from sanitize.text.address_lists import find_display_names
from sanitize.text.mail_headers import find_header_lines
from sanitize.verification.published.output_check import verify

KEY = Key.from_seed(5)
ANN, ANN2 = "ann.roe@example.com", "aroe77@example.org"
MAILS = [
    (
        "m0",
        "u-bob",
        (
            "From: Bob Day <bob.day@example.net>\nTo: Ann Roe <ann.roe@example.com>\n\nHello ann,"
            " call 555-010-0199.\n"
        ),
    ),
    (
        "m1",
        "u-ann",
        (
            'From: "Roe, Ann" <aroe77@example.org>\nTo: bob.day@example.net\n\nI am ANN  ROE. Write'
            " to Ann.Roe@example.com\n"
        ),
    ),
    ("m2", "u-cy", "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nNothing here.\n"),
    (
        "m3",
        "u-cy",
        (
            "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nSee"
            " http://example.com/?u=ann.roe@example.com now.\n"
        ),
    ),
    (
        "m4",
        "u-ann",
        (
            "From: Annroe <list@example.com>\nTo: bob.day@example.net\n\nAnn, Roe and Annroe are no"
            " mention.\n"
        ),
    ),
    ("m5", None, "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nThe end.\n"),
]


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parent of the folder that all tests use in turn: an index belongs to the paths of its
    files."""
    return tmp_path_factory.mktemp("subject")


def write_corpus(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    columns = list(zip(*MAILS, strict=True))
    pq.write_table(
        pa.table({"doc_id": columns[0], "user_id": columns[1], "text": columns[2]}),
        folder / "in.parquet",
    )
    return folder


@pytest.fixture
def corpus_folder(module_folder: Path) -> Path:
    return write_corpus(module_folder / "corpus")


@pytest.fixture(scope="module")
def snapshot(module_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder after a run with the default plan."""
    folder = write_corpus(module_folder / "corpus")
    run_plan(folder)
    return Path(shutil.copytree(folder, tmp_path_factory.mktemp("snapshot") / "corpus"))


@pytest.fixture
def sanitized_folder(snapshot: Path, module_folder: Path) -> Path:
    """The folder after a run with the default plan."""
    shutil.rmtree(module_folder / "corpus")
    return Path(shutil.copytree(snapshot, module_folder / "corpus"))


# the finders of rmft
PATTERNS_ONLY = load_plan("redact", ['find.kinds=["default"]', 'find.finders=["patterns"]'])


def run_plan(
    corpus_folder: Path, out: str = "clean", plan: str | Plan = "rmft", **changed_settings: Any
) -> RunResult:
    run_settings = Settings(**{"rows_per_shard": 3, "workers": 1, "seed": 5, **changed_settings})
    return run_with_settings(
        corpus_folder / "in.parquet",
        corpus_folder / out,
        plan,
        corpus_folder / "clean.private",
        run_settings,
    )


def read_texts_by_shard(corpus_folder: Path, out: str = "clean") -> list[str]:
    return [
        pl.read_parquet(path)["text"].to_list()
        for path in sorted((corpus_folder / out / "data").iterdir())
    ]


def get_shard_hashes(corpus_folder: Path) -> list[str]:
    return [shard.sha256 for shard in sanitize.Corpus.open(corpus_folder / "clean").shards]


# ----------------------------------------------------------------------- parsing of match lines


def test_match_lines_are_values_names_or_users() -> None:
    found = SubjectMatch.parse(
        ["# who", ANN.upper(), "", "Roe,  Ann", "user: u-ann", "+1 (202) 555-0143"], "who.txt", KEY
    )
    assert (
        len(found.value_ids) == 2 and found.names == ("ann roe",) and found.user_ids == ("u-ann",)
    )
    assert found.value_ids == SubjectMatch.parse([ANN, "202-555-0143"], "who.txt", KEY).value_ids


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["Al"], "line 1"),
        ([ANN, "Ann"], "line 2"),
        (["Al B"], "too common"),
        (["J. R. E."], "too common"),
        (["# nobody"], "contains no match lines"),
        (["user:"], "without an id"),
        (["User:"], "without an id"),
        (["ann.roe@example.com, bo@example.org"], "line 1 contains a value and other text"),
        (["Ann Roe", "write to bo@example.org"], "line 2 contains a value and other text"),
    ],
)
def test_ambiguous_or_invalid_match_lines_are_refused(lines: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        SubjectMatch.parse(lines, "who.txt", KEY)
    assert not any(
        line in str(caught.value)
        for line in lines
        if line not in ("user:", "# nobody") and len(line) > 2
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("From: Ann Roe <a@example.com>", "ann roe"),
        ('From: "Roe, Ann" <a@example.com>', "ann roe"),
        ("From: Roe, Ann <a@example.com>", "ann roe"),
        ("From: a@example.com (Ann Roe)", "ann roe"),
        ("To: b@example.com, Zoë\n  Ångström <a@example.com>", "zoë ångström"),
        ("To: Jean-Luc d'Arc <a@example.com>", "jean-luc d arc"),
        ("From: a@example.com", None),
        ('From: "a@example.com" <a@example.com>', None),
        ("From: 12345 <a@example.com>", None),
        ("Subject: Ann Roe <a@example.com>", None),
    ],
)
def test_display_names_of_header_lines(line: str, name: str | None) -> None:
    column = pa.array([line + "\nSubject: x\n\nbody\n"], pa.large_string())
    found, buffers = PatternFinder(KEY).run(column), TextBuffers.from_array(column)
    starts, ends = found.start_byte, found.end_byte
    names = name_search.normalise_name(
        find_display_names(buffers, find_header_lines(buffers, found.text_no, starts), starts, ends)
    )
    assert names[-1] == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ANN ROE", ["ANN ROE"]),
        ("x Ann\n  Roe, y", ["Ann\n  Roe"]),
        ("Roe, Ann and roe,ann", ["Roe, Ann", "roe,ann"]),
        ("Annroe, Joann Roe; Ann Roes, Ann_Roe", []),
        ("äAnn Roe ßAnn Roe", []),
        ("(Ann Roe)'s \U0001f600Ann Roe", ["Ann Roe", "Ann Roe"]),
        ("", []),
    ],
)
def test_names_are_found_in_texts(text: str, expected: list[str]) -> None:
    column = pa.array(["é", text], pa.large_string())
    found, buffers = (
        name_search.find_names(column, ["ann roe", "zed roe"], KEY),
        TextBuffers.from_array(column),
    )
    pieces = [
        bytes(buffers.data[start:end]).decode()
        for start, end in zip(found.start, found.end, strict=True)
    ]
    assert pieces == expected and set(found.text_no) <= {1}
    assert set(found.value_id) == (
        {*name_search.compute_name_ids(["ann roe"], KEY)} if expected else set()
    )
    assert name_search.count_names(column, ["ann roe", "zed roe"]) == len(expected)
    rows = name_search.build_occurrence_rows(
        column, np.array([7, 9]), np.array([0, 1], np.int32), ["ann roe"], KEY
    )
    assert [text[row["start"] : row["end"]] for row in rows.to_dicts()] == expected
    assert [
        text.encode()[row["start_byte"] : row["end_byte"]].decode() for row in rows.to_dicts()
    ] == expected
    assert all((row["doc_no"], row["cell"]) == (9, 1) for row in rows.to_dicts())


@pytest.mark.parametrize(
    "text",
    [
        "Zo\u00eb M\u00fcller",
        "Zoe\u0308 Mu\u0308ller",
        "\uff3a\uff4f\u00eb M\u00fcller",
        "Z\u200bo\u00eb M\u00fc\u00adller",
    ],
)
def test_a_name_is_found_in_any_unicode_form(text: str) -> None:
    (name,) = name_search.normalise_name(pl.Series(["Zo\u00eb M\u00fcller"]))
    found = name_search.find_names(pa.array([f"to {text}."], pa.large_string()), [name], KEY)
    assert (found.start.tolist(), found.end.tolist()) == ([3], [3 + len(text.encode())])
    assert name_search.count_names(pa.array([text]), [name]) == 1


# --------------------------------------------------------------------------------------- counts


def test_a_mailbox_matches_its_name_and_its_value(corpus_folder: Path) -> None:
    assert SubjectMatch.parse(
        ["Ann Roe <ann.roe@example.com>"], "who.txt", KEY
    ) == SubjectMatch.parse(["ann roe", ANN], "who.txt", KEY)
    run_plan(corpus_folder)
    (corpus_folder / "who.txt").write_text("\ufeffann.roe@example.com\nNobody Atall\n", "utf-8")
    found = subject(corpus_folder / "clean.private", corpus_folder / "who.txt")
    assert found.to_dict()["given"] == {
        "values": 1,
        "names": 1,
        "users": 0,
    } and found.unmatched_lines == [2]


def test_links_follow_plus_tags_but_not_role_names(tmp_path: Path) -> None:
    mails = [
        "From: Customer Service <ann.roe@example.com>\nTo: x@example.org\n\n.\n",
        "From: Customer Service <help@example.net>\nTo: x@example.org\n\nYour customer service\n",
        "From: x@example.org\nTo: ann.roe+news@example.com\n\n.\n",
    ]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    run_plan(tmp_path)
    found = subject(tmp_path / "clean.private", [ANN])
    assert (
        found.to_dict()["linked"] == {"values": 1, "names": 0, "names_not_followed": 1}
        and found.documents == 2
    )
    unlinked = subject(tmp_path / "clean.private", [ANN], linked=False)
    assert unlinked.linked.values == 0 and unlinked.documents == 1


def test_counts_of_one_person(corpus_folder: Path) -> None:
    run_plan(corpus_folder, rows_per_shard=1)
    (corpus_folder / "run").mkdir()
    pl.DataFrame({"doc_id": ["m1", "m5", "m3"], "first_step": [4, 1, 7]}).write_parquet(
        corpus_folder / "run" / "seen.parquet"
    )
    (corpus_folder / "run" / "train.json").write_text(
        json.dumps({"checkpoints": ["step-000000", "step-000004", "step-000008"]})
    )
    found = subject(
        corpus_folder / "clean.private",
        [ANN],
        checkpoint=[corpus_folder / "run"],
        documents=corpus_folder / "ids.txt",
    )
    assert found.to_dict()["given"] == {"values": 1, "names": 0, "users": 0}
    # a second address, linked by the display name
    assert found.to_dict()["linked"] == {"values": 1, "names": 1, "names_not_followed": 0}
    occurrence_counts = {
        (row.kind, row.section): row.occurrences for row in found.occurrences_by_section
    }
    assert occurrence_counts == {
        ("EMAIL_ADDRESS", "to"): 1,
        ("EMAIL_ADDRESS", "from"): 1,
        ("EMAIL_ADDRESS", "body"): 2,
        ("PERSON", None): 3,  # To, From, and the body of m1
    }
    assert found.documents == 3 and (corpus_folder / "ids.txt").read_text() == "m0\nm1\nm3\n"
    (run,) = found.runs
    assert (run.documents, run.remaining, run.replaced) == (3, 5, 2)
    assert [name[6:11] for name in run.shards] == ["00000", "00001", "00003"]
    (training_run,) = found.checkpoints
    assert (
        training_run.documents_seen,
        training_run.first_step,
        training_run.checkpoints_after,
    ) == (2, 4, 2)
    result_text = json.dumps(found.to_dict()).lower().replace(str(corpus_folder).lower(), "")
    assert "ann" not in result_text and "roe" not in result_text


def test_documents_of_a_user_are_counted(sanitized_folder: Path) -> None:
    found = subject(sanitized_folder / "clean.private", ["user:u-ann"])
    assert (found.documents, found.documents_authored, found.occurrences) == (2, 2, 0)


def test_a_display_name_of_many_addresses_is_not_followed(tmp_path: Path) -> None:
    mails = [
        f"From: Help Desk <h{number}@example.com>\nTo: x@example.org\n\n.\n" for number in range(30)
    ]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    run_plan(tmp_path, rows_per_shard=100)
    found = subject(tmp_path / "clean.private", ["h3@example.com"])
    assert (
        found.to_dict()["linked"] == {"values": 0, "names": 0, "names_not_followed": 1}
        and found.documents == 1
    )


def test_unknown_values_and_wrong_folders_are_refused(sanitized_folder: Path) -> None:
    with pytest.raises(UsageError, match="nothing of it occurs in this corpus"):
        subject(sanitized_folder / "clean.private", ["nobody@example.com"])
    with pytest.raises(UsageError, match="another key"):
        subject(sanitized_folder / "clean.private", [ANN], seed=6)
    with pytest.raises(UsageError, match="not the private folder"):
        subject(sanitized_folder, [ANN])
    with pytest.raises(UsageError, match=r"no readable seen\.parquet"):
        subject(sanitized_folder / "clean.private", [ANN], checkpoint=[sanitized_folder])
    (sanitized_folder / "in.parquet").rename(sanitized_folder / "moved.parquet")
    with pytest.raises(UsageError, match="has moved or changed"):
        subject(sanitized_folder / "clean.private", [ANN])


# -------------------------------------------------------------------------------------- erasure


@pytest.mark.slow
def test_erasure_rewrites_published_outputs_and_applies_to_later_runs(corpus_folder: Path) -> None:
    run_plan(corpus_folder, rows_per_shard=1)
    before = get_shard_hashes(corpus_folder)
    found = subject(corpus_folder / "clean.private", [ANN], erase=True)
    (output,) = found.erased.outputs
    assert (output.shards_rewritten, output.occurrences_erased, output.leaks) == (4, 7, 0)
    changed_shards = [
        no
        for no, (old, new) in enumerate(zip(before, get_shard_hashes(corpus_folder), strict=True))
        if old != new
    ]
    assert changed_shards == [0, 1, 3, 4]  # in the last shard, a variant equals the erased address
    for out, plan in (("clean", "rmft"), ("other", "baseline"), ("third", PATTERNS_ONLY)):
        summary = run_plan(corpus_folder, out, plan, rows_per_shard=1)
        assert summary.erased == 7 and summary.changed is (out != "clean")
        output_text = "\n".join(
            text for shard in read_texts_by_shard(corpus_folder, out) for text in shard
        )
        assert (
            "ann.roe@" not in output_text.lower()
            and "aroe77" not in output_text
            and not name_search.count_names(pa.array([output_text]), ["ann roe"])
        )
        # other uses of the first name stay, and so does a longer word
        assert "Hello ann" in output_text and "Annroe" in output_text
        assert sanitize.verify(corpus_folder / out, work=corpus_folder / "clean.private").leaks == 0
        kinds = summary.by_kind.values()
        assert all(
            entry.occurrences == entry.kept + entry.replaced + entry.left_by_plan for entry in kinds
        )
    assert read_texts_by_shard(corpus_folder, "other")[1] == [
        'From: "[PERSON]" <[EMAIL_ADDRESS]>\nTo: bob.day@example.net\n\nI am [PERSON]. Write to'
        " [EMAIL_ADDRESS]\n"
    ]
    assert read_texts_by_shard(corpus_folder, "other")[2] == [MAILS[2][2]]
    manifest = sanitize.Corpus.open(corpus_folder / "other").manifest
    assert manifest["settings"]["erased"] == {"erasures": 1, "values": 2, "names": 1, "users": 0}
    receipt = Path(found.erased.receipt).read_text()
    assert (
        "roe" not in receipt.lower() and json.loads(receipt)["outputs"][0]["shards_rewritten"] == 4
    )
    tombstone = (
        corpus_folder / "clean.private" / "vault" / "tombstones" / "00000.json"
    ).read_text()
    assert "@" not in tombstone and "ann roe" in tombstone


def test_erasing_a_user_drops_their_documents(sanitized_folder: Path) -> None:
    subject(sanitized_folder / "clean.private", ["user:u-ann"], erase=True)
    summary = run_plan(sanitized_folder)
    assert not summary.changed and summary.to_dict()["dropped"] == [
        {"part": "subject", "reason": "erased", "documents": 2}
    ]
    assert (
        summary.documents_in == 6 and summary.documents_out == 4 and summary.documents_dropped == 2
    )
    assert [len(shard_texts) for shard_texts in read_texts_by_shard(sanitized_folder)] == [2, 2]
    assert (
        "u-ann"
        not in (
            sanitized_folder / "clean.private" / "vault" / "tombstones" / "00000.json"
        ).read_text()
    )


def test_an_interrupted_erasure_resumes_and_a_repeated_one_changes_nothing(
    sanitized_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = get_shard_hashes(sanitized_folder)

    def interrupt(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            importlib.import_module("sanitize.pipeline.erasure.subject_request"),
            "run_with_settings",
            interrupt,
        )
        with pytest.raises(KeyboardInterrupt):
            subject(sanitized_folder / "clean.private", [ANN], erase=True)
    assert get_shard_hashes(sanitized_folder) == before
    with pytest.raises(
        UsageError, match="before an erasure was requested .*; repeat that request first"
    ):
        run_plan(sanitized_folder)
    first = subject(sanitized_folder / "clean.private", [ANN], erase=True).erased.outputs[0]
    assert first.changed and first.shards_rewritten == 2
    second = subject(sanitized_folder / "clean.private", [ANN], erase=True).erased.outputs[0]
    assert not second.changed and second.shards_rewritten == 0
    assert len(list((sanitized_folder / "clean.private" / "vault" / "tombstones").iterdir())) == 1


def test_variants_that_equal_an_erased_value_are_replaced(tmp_path: Path) -> None:
    """Component pools hold the components of all addresses, so a variant may combine those of the
    erased address."""
    people = ["ann.roe@example.com", "ben.day@example.org", "cyd.lee@example.net"]
    mails = [f"{address} and again {address}" for _ in range(60) for address in people]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    run_plan(tmp_path, rows_per_shard=500)
    recombined_count = sum(
        text.count("ann.roe@")
        for shard in read_texts_by_shard(tmp_path)
        for text in shard
        if "ann.roe@example.com" not in text
    )
    found = subject(tmp_path / "clean.private", people[:1], erase=True)
    assert recombined_count > 3  # in variants of other addresses
    assert not any("ann.roe@" in text for shard in read_texts_by_shard(tmp_path) for text in shard)
    assert found.erased.outputs[0].leaks == 0


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("plan", ["rmft", "baseline"])
def test_addresses_that_contain_an_erased_one_are_erased(
    tmp_path: Path, plan: str, linked: bool
) -> None:
    """The finders read `owner+ann@...` as one address; the erased one is nowhere alone. Neither
    originals nor variants may have it."""
    people = [
        "owner+ann@example.com",
        "owner+ben@example.org",
        "team-cyd@example.com",
        "team-ann@example.net",
        "joann@example.com",
    ]
    people += [
        "ann@example.com.au",
        "team-ben@example.com.au",
        "team%2Bann%40example.com",
        "cyd%40example.com",
    ]
    mails = [f"{address} and again {address}" for _ in range(40) for address in people]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    run_plan(tmp_path, plan=plan, rows_per_shard=500)
    pattern = re.compile(r"\bann(?:@|%40)example\.com", re.IGNORECASE)
    before = sum(
        len(pattern.findall(text)) for shard in read_texts_by_shard(tmp_path) for text in shard
    )
    found = subject(tmp_path / "clean.private", ["ann@example.com"], erase=True, linked=linked)
    assert before > 0 and found.unmatched_lines == []
    assert not any(
        pattern.search(text) for shard in read_texts_by_shard(tmp_path) for text in shard
    )
    assert any(
        "joann@example.com" in text for shard in read_texts_by_shard(tmp_path) for text in shard
    )
    assert found.erased.outputs[0].erased and found.erased.outputs[0].leaks == 0
    assert verify(tmp_path / "clean", workers=1).leaks == 0


def test_an_erasure_of_an_earlier_version_is_checked_by_its_tombstones(tmp_path: Path) -> None:
    """Its run has no table of the values of erased persons, unless the erasure has mailboxes."""
    folder = write_corpus(tmp_path / "corpus")
    run_plan(folder)
    subject(folder / "clean.private", [ANN], erase=True, linked=False)
    (values_file,) = folder.glob("clean.private/runs/*/erasure/values.parquet")
    values_file.unlink()
    for mode in ("fast", "full"):
        with pytest.raises(OutputBroken, match=r"erasure/values\.parquet is missing"):
            verify(folder / "clean", mode=mode, workers=1)
    (values_file.parent.parent / "tasks" / "erased_values.json").unlink()
    for mode in ("fast", "full"):
        assert verify(folder / "clean", mode=mode, workers=1).leaks == 0


@pytest.mark.slow
def test_erasure_rewrites_every_published_output(corpus_folder: Path) -> None:
    """One plan is published to two folders, and the index is rebuilt before others are published;
    one is renamed later."""
    run_plan(corpus_folder, "one")
    run_plan(corpus_folder, "two")
    run_plan(corpus_folder, "three", "redact", rows_per_shard=2)
    run_plan(corpus_folder, "moved", "baseline", rows_per_shard=2)
    (corpus_folder / "moved").rename(corpus_folder / "away")
    found = subject(corpus_folder / "clean.private", [ANN], erase=True)
    assert sorted(Path(output.out).name for output in found.erased.outputs) == [
        "away",
        "one",
        "three",
        "two",
    ]
    for out in ("one", "two", "three", "away"):
        output_text = "\n".join(
            text for shard in read_texts_by_shard(corpus_folder, out) for text in shard
        )
        assert "ann.roe@" not in output_text.lower() and not name_search.count_names(
            pa.array([output_text]), ["ann roe"]
        )
    assert found.unreached_outputs == []


def test_an_output_that_cannot_be_rewritten_is_reported(corpus_folder: Path) -> None:
    columns = {"keep": ["user_id"]}
    table = pq.read_table(corpus_folder / "in.parquet").to_pydict()
    table["user_id"][1] = ANN
    pq.write_table(pa.table(table), corpus_folder / "in.parquet")
    run_plan(corpus_folder, "kept", "baseline", **columns)
    with pytest.raises(LeakFound, match="1 of 1 published folders could not be rewritten without"):
        subject(corpus_folder / "clean.private", [ANN], erase=True)
    (receipt,) = (corpus_folder / "clean.private" / "receipts").iterdir()
    assert json.loads(receipt.read_text())["outputs"][0]["erased"] is False


@pytest.mark.slow
def test_each_erasure_has_its_own_receipt(sanitized_folder: Path) -> None:
    first = subject(sanitized_folder / "clean.private", [ANN], erase=True).erased.receipt
    second = subject(
        sanitized_folder / "clean.private", ["cy.lee@example.com"], erase=True
    ).erased.receipt
    third = subject(sanitized_folder / "clean.private", [ANN], erase=True).erased.receipt
    assert len({first, second, third}) == 3


def test_documents_of_an_erased_user_are_no_originals_of_duplicates(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    rows = {
        "doc_id": ["a", "b", "c"],
        "user_id": ["bob", "ann", "bob"],
        "text": ["The same words here.", "The same words here.", "Others."],
    }
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    (tmp_path / "plan.toml").write_text(
        'about = "x"\nleave = ["URL"]\n[find]\nkinds = ["URL"]\n[[drop]]\nuse = "exact_dup"\n'
    )
    assert run_plan(tmp_path, plan=str(tmp_path / "plan.toml")).documents_out == 2
    subject(tmp_path / "clean.private", ["user:bob"], erase=True)
    assert read_texts_by_shard(tmp_path) == [["The same words here."]]
    assert run_plan(tmp_path, plan=str(tmp_path / "plan.toml")).to_dict()["dropped"] == [
        {"part": "subject", "reason": "erased", "documents": 2},
        {"part": "exact_dup", "reason": "same text", "documents": 0},
    ]


def test_a_missing_folder_is_reported_before_the_erasure(sanitized_folder: Path) -> None:
    for option in ("documents", "receipt"):
        with pytest.raises(UsageError, match="its folder does not exist"):
            subject(
                sanitized_folder / "clean.private",
                [ANN],
                erase=True,
                **{option: sanitized_folder / "nowhere" / "x"},
            )
    assert not (sanitized_folder / "clean.private" / "vault" / "tombstones").exists()


def test_erasure_before_the_first_run(corpus_folder: Path) -> None:
    index_with_settings(
        [corpus_folder / "in.parquet"],
        corpus_folder / "clean.private",
        Settings(seed=5, workers=1),
        plan="rmft",
    )
    found = subject(corpus_folder / "clean.private", [ANN], erase=True, seed=5)
    assert found.erased.outputs == []
    assert run_plan(corpus_folder).erased == 7


def test_a_remaining_name_is_a_leak(
    sanitized_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject(sanitized_folder / "clean.private", [ANN], erase=True)
    no_rows = pl.DataFrame(
        schema=pl.Schema({"doc_no": pl.Int64, "cell": pl.Int32, "start": pl.Int64})
    )
    monkeypatch.setattr(name_search, "build_occurrence_rows", lambda *arguments: no_rows)
    with pytest.raises(LeakFound, match="PERSON"):
        run_plan(sanitized_folder, "other", "baseline")
    assert not (sanitized_folder / "other").exists()


ENCODED_NAMES = {
    "quoted-printable": "see=20Ann=20Roe=20there, and A=6En=\nRoe",
    "URL": "?q=Ann%20Roe&x=1",
    "HTML": "&#65;nn&nbsp;R&#111;e",
    "JSON": r'{"who": "\u0041nn\tRoe"}',
    "base64": base64.b64encode("Ein Gruß von Ann Roe, und mehr".encode()).decode(),
    "base64 of other bytes": base64.b64encode(b"\xff\xfe Ann Roe \x80\x81 and so on").decode(),
}


def test_encoded_names_are_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded spellings are erased; where they are not, the full check reports them."""
    lines = [
        "From: Ann Roe <ann.roe@example.com>\n\nx",
        "Begin Anna Roen end",
        *(f"Begin {encoded_name} end" for encoded_name in ENCODED_NAMES.values()),
    ]
    pq.write_table(
        pa.table({"doc_id": list(map(str, range(len(lines)))), "text": lines}),
        tmp_path / "in.parquet",
    )
    run_plan(tmp_path, plan="baseline", rows_per_shard=20)
    found = subject(tmp_path / "clean.private", ["Ann Roe"], erase=True)
    (shard,) = read_texts_by_shard(tmp_path)
    assert found.documents == 1 + len(ENCODED_NAMES) and shard[1] == lines[1]
    for text in shard[2:]:
        assert re.search(r"\ABegin .*\[PERSON\].* end\Z", text, re.DOTALL)
    assert sanitize.verify(tmp_path / "clean", work=tmp_path / "clean.private").leaks == 0
    monkeypatch.setattr(
        name_search,
        "find_encoded_names",
        lambda texts, names, key: name_search.find_names(texts, [], key),
    )
    with pytest.raises(LeakFound) as error:
        run_plan(tmp_path, "other", PATTERNS_ONLY, verify="full", rows_per_shard=20)
    reported_forms = {
        finding["form"] for finding in error.value.findings if finding["location"] == "column text"
    }
    assert reported_forms == {
        "quoted-printable",
        "URL",
        "HTML",
        "JSON",
        "base64",
    } and "Roe" not in str(error.value)
    assert not (tmp_path / "other").exists()


def test_a_remaining_value_is_swept_under_a_plan_without_an_editor(
    sanitized_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a plan that leaves all kinds, the leak check only searches for the erased values, and
    what it finds becomes a label.
    """
    subject(sanitized_folder / "clean.private", [ANN], erase=True)
    find_erased = ShardRewriter.find_erased_in_task
    monkeypatch.setattr(
        ShardRewriter,
        "find_erased_in_task",
        lambda self, no: (find_erased(self, no)[0], find_erased(self, no)[1][-1:], []),
    )
    assert run_plan(sanitized_folder, "other", "baseline").verify.swept > 0
    assert ANN not in str(read_texts_by_shard(sanitized_folder, "other"))


def test_runs_with_another_key_are_refused_after_an_erasure(sanitized_folder: Path) -> None:
    subject(sanitized_folder / "clean.private", [ANN], erase=True)
    with pytest.raises(UsageError, match="erasures that were made with another key"):
        run_plan(sanitized_folder, seed=6, replace=True)
    with pytest.raises(UsageError, match="people were erased"):
        sanitize.replay(
            sanitized_folder / "clean", sanitized_folder / "in.parquet", sanitized_folder / "again"
        )


@pytest.mark.slow
def test_erasure_is_independent_of_workers_and_shards(sanitized_folder: Path) -> None:
    subject(sanitized_folder / "clean.private", ["Ann Roe", ANN2], erase=True)
    expected = [text for shard in read_texts_by_shard(sanitized_folder) for text in shard]
    run_plan(sanitized_folder, "other", workers=2, rows_per_shard=2, replace=True)
    assert [
        text for shard in read_texts_by_shard(sanitized_folder, "other") for text in shard
    ] == expected


def test_erasure_uses_the_given_number_of_workers(
    sanitized_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `sanitize.subject` is the function with the same name
    module = importlib.import_module("sanitize.pipeline.erasure.subject_request")
    worker_counts, real_run = [], module.run_with_settings

    def count_workers(*arguments: Any, **options: Any) -> RunResult:
        worker_counts.append(arguments[-1].workers)
        return real_run(*arguments, **options)

    monkeypatch.setattr(module, "run_with_settings", count_workers)
    subject(sanitized_folder / "clean.private", [ANN2], erase=True, workers=1)
    assert worker_counts == [1]


def test_tombstones_add_up(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    tombstones.write(tmp_path, KEY, Tombstones((1, 3), ("ann roe",), ()), "now")
    tombstones.write(tmp_path, KEY, Tombstones((2, 3), (), (9,), mailbox_hashes=(7,)), "now")
    found = tombstones.read(tmp_path, KEY)
    assert found == Tombstones((1, 2, 3), ("ann roe",), (9,), 2, (7,))
    assert tombstones.read(tmp_path, erasures=1) == Tombstones((1, 3), ("ann roe",), (), 1)
    assert found.covers(Tombstones((2,), (), (9,))) and not any(
        map(found.covers, (Tombstones((4,)), Tombstones(mailbox_hashes=(8,))))
    )
    (tmp_path / "vault" / "tombstones" / "00001.json").write_text("{")
    with pytest.raises(sanitize.SanitizeError, match="stored erasure requests"):
        tombstones.read(tmp_path, KEY)


@pytest.mark.slow
def test_plus_tags_that_a_later_run_finds_are_erased(
    sanitized_folder: Path, tmp_path: Path
) -> None:
    """An address that differs from an erased or linked one by a plus tag, in any spelling, is
    erased where a later run finds it first."""
    work, out = sanitized_folder / "clean.private", sanitized_folder / "clean"
    with pytest.raises(UsageError, match="nothing of it occurs"):
        subject(work, ["ann.roe+given@example.com"], linked=False)
    assert subject(work, ["ann.roe+given@example.com"], erase=True).linked.values == 2
    new_texts = [
        "Ann.Roe+Work@EXAMPLE.com",
        "aroe77+x at example dot org",
        "aroe77+y+z@example.org",
        "zroe+x@example.org",
        "annroe@example.com",
    ]
    pq.write_table(
        pa.table({"text": [f"Write to {text} now." for text in new_texts]}),
        tmp_path / "new.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "doc_id": ["n"] * 5,
                "user_id": ["u"] * 5,
                "text": pq.read_table(tmp_path / "new.parquet")["text"],
            }
        ),
        tmp_path / "append.parquet",
    )
    settings = Settings(rows_per_shard=3, workers=1, seed=5)
    run_with_settings(
        tmp_path / "append.parquet", out, "rmft", work, replace(settings, append=True)
    )
    run_with_settings(
        tmp_path / "new.parquet", tmp_path / "other", "rmft", work, replace(settings, replace=True)
    )
    appended = [text for shard in read_texts_by_shard(sanitized_folder) for text in shard][-5:]
    for texts in (
        appended,
        pl.read_parquet(tmp_path / "other" / "data" / "*.parquet")["text"].to_list(),
    ):
        assert texts[:3] == ["Write to [EMAIL_ADDRESS] now."] * 3
        assert texts[3:] == [f"Write to {text} now." for text in new_texts[3:]]
    assert all(
        verify(tmp_path / "other", work=work, mode=mode).leaks == 0 for mode in ("fast", "full")
    )
    (erased_values,) = work.glob("runs/*/erasure/values.parquet")
    erased_values.unlink()
    with pytest.raises(OutputBroken, match=r"erasure/values\.parquet is missing"):
        verify(tmp_path / "other", work=work)


def test_runs_without_erasures_skip_the_erasure_scan(
    corpus_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        erasure_scan,
        "erasure_scan_task",
        lambda task: pytest.fail("erasure scan without an erasure"),
    )
    assert run_plan(corpus_folder).erased == 0


STAFF = (
    '[[kind]]\nname = "STAFF_ID"\npattern = "STAFF-[0-9]{5}"\nexamples ='
    ' ["STAFF-12345"]\ncounter_examples = ["STAFF-1"]\n'
)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("mails", "staff"), ("staff", "mails")])
def test_values_that_the_finders_of_an_output_miss_are_reported(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    """Two plans publish from one WORK; only one of them finds staff ids, whichever ran last."""
    texts = [
        "From: Ann Roe <ann.roe@example.com>\n\nI have STAFF-10177.",
        "STAFF-10177 is Ann's.",
        "STAFF-101778, XSTAFF-10177",
    ]
    pq.write_table(pa.table({"doc_id": ["1", "2", "3"], "text": texts}), tmp_path / "in.parquet")
    kinds = {"mails": '["EMAIL_ADDRESS"]', "staff": '["EMAIL_ADDRESS", "STAFF_ID"]'}
    for name in order:
        edit = f'[find]\nkinds = {kinds[name]}\n[[edit]]\nuse = "redact"\nkinds = {kinds[name]}\n'
        (tmp_path / f"{name}.toml").write_text(edit + (STAFF if name == "staff" else ""))
        run_plan(tmp_path, name, load_plan(str(tmp_path / f"{name}.toml")))
    with pytest.raises(
        LeakFound, match="1 of 2 published folders still hold 2 occurrences .*: STAFF_ID"
    ) as raised:
        subject(tmp_path / "clean.private", [ANN, "STAFF-10177"], erase=True)
    assert "10177" not in str(raised.value)
    receipt = json.loads(next((tmp_path / "clean.private" / "receipts").iterdir()).read_text())
    outputs = {
        Path(output["out"]).name: (output["erased"], output.get("occurrences_left"))
        for output in receipt["outputs"]
    }
    assert outputs == {"mails": (False, 2), "staff": (True, None)}
    assert any("2 occurrences of kinds" in line for line in receipt["not_erased"])
    for name in order:  # later runs
        notes = run_plan(tmp_path, f"{name}-later", load_plan(str(tmp_path / f"{name}.toml"))).notes
        assert [note.endswith(": STAFF_ID") for note in notes if "erased persons" in note] == (
            [True] if name == "mails" else []
        )
