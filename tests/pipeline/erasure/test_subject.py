"""Data subject requests: what is counted, what is erased, and that every later run honours the erasure. All people are invented."""

from __future__ import annotations

import base64
import importlib
import json
import re
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
from sanitize.errors import LeakFound, UsageError
from sanitize.finders.patterns import PatternFinder
from sanitize.pipeline.erasure.subject import subject
from sanitize.pipeline.erasure.subject_match import SubjectMatch
from sanitize.pipeline.shard_rewriting import RewrittenShards
from sanitize.stages import erasure_scan
from sanitize.storage import tombstones
from sanitize.storage.tombstones import Tombstones
from sanitize.text import name_search
from sanitize.text.address_lists import find_display_names
from sanitize.text.mail_headers import find_header_lines

KEY = Key.from_seed(5)
ANN, ANN2 = "ann.roe@example.com", "aroe77@example.org"
MAILS = [
    ("m0", "u-bob", "From: Bob Day <bob.day@example.net>\nTo: Ann Roe <ann.roe@example.com>\n\nHello ann, call 555-010-0199.\n"),
    ("m1", "u-ann", 'From: "Roe, Ann" <aroe77@example.org>\nTo: bob.day@example.net\n\nI am ANN  ROE. Write to Ann.Roe@example.com\n'),
    ("m2", "u-cy", "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nNothing here.\n"),
    ("m3", "u-cy", "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nSee http://example.com/?u=ann.roe@example.com now.\n"),
    ("m4", "u-ann", "From: Annroe <list@example.com>\nTo: bob.day@example.net\n\nAnn, Roe and Annroe are no mention.\n"),
    ("m5", None, "From: Cy Lee <cy.lee@example.com>\nTo: bob.day@example.net\n\nThe end.\n"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    columns = list(zip(*MAILS, strict=True))
    pq.write_table(pa.table({"doc_id": columns[0], "user_id": columns[1], "text": columns[2]}), tmp_path / "in.parquet")
    return tmp_path


def go(place: Path, out: str = "clean", plan: str = "rmft", **settings: Any) -> dict[str, Any]:
    chosen = sanitize.Settings(**{"rows_per_shard": 3, "workers": 1, "seed": 5, **settings})
    return sanitize.run(place / "in.parquet", place / out, plan, place / "clean.private", chosen)


def texts(place: Path, out: str = "clean") -> list[str]:
    return [pl.read_parquet(path)["text"].to_list() for path in sorted((place / out / "data").iterdir())]


def hashes(place: Path) -> list[str]:
    return [shard.sha256 for shard in sanitize.Corpus.open(place / "clean").shards]


# ---------------------------------------------------------------------------------------------------------------- who is meant


def test_a_line_is_a_value_a_name_or_a_user() -> None:
    found = SubjectMatch.parse(["# who", ANN.upper(), "", "Roe,  Ann", "user: u-ann", "+1 (202) 555-0143"], "who.txt", KEY)
    assert len(found.value_ids) == 2 and found.names == ("ann roe",) and found.user_ids == ("u-ann",)
    assert found.value_ids == SubjectMatch.parse([ANN, "202-555-0143"], "who.txt", KEY).value_ids


@pytest.mark.parametrize(
    ("lines", "told"),
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
def test_who_would_be_many_people_is_refused(lines: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        SubjectMatch.parse(lines, "who.txt", KEY)
    assert not any(line in str(caught.value) for line in lines if line not in ("user:", "# nobody") and len(line) > 2)


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
def test_display_names(line: str, name: str | None) -> None:
    column = pa.array([line + "\nSubject: x\n\nbody\n"], pa.large_string())
    found, buffers = PatternFinder(KEY).run(column), TextBuffers.from_array(column)
    starts, stops = found.start_byte, found.end_byte
    names = name_search.normalise_name(find_display_names(buffers, find_header_lines(buffers, found.text_no, starts), starts, stops))
    assert names[-1] == name


@pytest.mark.parametrize(
    ("text", "seen"),
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
def test_mentions(text: str, seen: list[str]) -> None:
    column = pa.array(["é", text], pa.large_string())
    found, buffers = name_search.find_names(column, ["ann roe", "zed roe"], KEY), TextBuffers.from_array(column)
    pieces = [bytes(buffers.data[low:high]).decode() for low, high in zip(found.start, found.end, strict=True)]
    assert pieces == seen and set(found.text_no) <= {1}
    assert set(found.value_id) == ({*name_search.compute_name_ids(["ann roe"], KEY)} if seen else set())
    assert name_search.count_names(column, ["ann roe", "zed roe"]) == len(seen)
    rows = name_search.build_occurrence_rows(column, np.array([7, 9]), np.array([0, 1], np.int32), ["ann roe"], KEY)
    assert [text[one["start"] : one["end"]] for one in rows.to_dicts()] == seen
    assert [text.encode()[one["start_byte"] : one["end_byte"]].decode() for one in rows.to_dicts()] == seen
    assert all((one["doc_no"], one["cell"]) == (9, 1) for one in rows.to_dicts())


@pytest.mark.parametrize(
    "text", ["Zo\u00eb M\u00fcller", "Zoe\u0308 Mu\u0308ller", "\uff3a\uff4f\u00eb M\u00fcller", "Z\u200bo\u00eb M\u00fc\u00adller"]
)
def test_a_name_is_known_in_any_unicode_form(text: str) -> None:
    (name,) = name_search.normalise_name(pl.Series(["Zo\u00eb M\u00fcller"]))
    found = name_search.find_names(pa.array([f"to {text}."], pa.large_string()), [name], KEY)
    assert (found.start.tolist(), found.end.tolist()) == ([3], [3 + len(text.encode())])
    assert name_search.count_names(pa.array([text]), [name]) == 1


# --------------------------------------------------------------------------------------------------------------- what is counted


def test_a_mailbox_is_a_name_and_a_value(place: Path) -> None:
    assert SubjectMatch.parse(["Ann Roe <ann.roe@example.com>"], "who.txt", KEY) == SubjectMatch.parse(["ann roe", ANN], "who.txt", KEY)
    go(place)
    (place / "who.txt").write_text("\ufeffann.roe@example.com\nNobody Atall\n", "utf-8")
    found = subject(place / "clean.private", place / "who.txt")
    assert found["given"] == {"values": 1, "names": 1, "users": 0} and found["unmatched_lines"] == [2]


def test_a_role_leads_to_nobody_else_and_a_plus_tag_does(tmp_path: Path) -> None:
    mails = [
        "From: Customer Service <ann.roe@example.com>\nTo: x@example.org\n\n.\n",
        "From: Customer Service <help@example.net>\nTo: x@example.org\n\nYour customer service\n",
        "From: x@example.org\nTo: ann.roe+news@example.com\n\n.\n",
    ]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    go(tmp_path)
    found = subject(tmp_path / "clean.private", [ANN])
    assert found["linked"] == {"values": 1, "names": 0, "names_not_followed": 1} and found["documents"] == 2
    alone = subject(tmp_path / "clean.private", [ANN], linked=False)
    assert alone["linked"]["values"] == 0 and alone["documents"] == 1


def test_what_is_known_of_one_person(place: Path) -> None:
    go(place, rows_per_shard=1)
    (place / "run").mkdir()
    pl.DataFrame({"doc_id": ["m1", "m5", "m3"], "first_step": [4, 1, 7]}).write_parquet(place / "run" / "seen.parquet")
    (place / "run" / "train.json").write_text(json.dumps({"checkpoints": ["step-000000", "step-000004", "step-000008"]}))
    found = subject(place / "clean.private", [ANN], checkpoints=[place / "run"], documents=place / "ids.txt")
    assert found["given"] == {"values": 1, "names": 0, "users": 0}
    assert found["linked"] == {"values": 1, "names": 1, "names_not_followed": 0}  # her other address, through her display name
    where = {(one["kind"], one["section"]): one["occurrences"] for one in found["occurrences_by_section"]}
    assert where == {
        ("EMAIL_ADDRESS", "to"): 1,
        ("EMAIL_ADDRESS", "from"): 1,
        ("EMAIL_ADDRESS", "body"): 2,
        ("PERSON", None): 3,  # To, From, and the body of m1
    }
    assert found["documents"] == 3 and (place / "ids.txt").read_text() == "m0\nm1\nm3\n"
    (run,) = found["runs"]
    assert (run["documents"], run["remaining"], run["replaced"]) == (3, 5, 2)
    assert [name[6:11] for name in run["shards"]] == ["00000", "00001", "00003"]
    (trained,) = found["checkpoints"]
    assert (trained["documents_seen"], trained["first_step"], trained["checkpoints_after"]) == (2, 4, 2)
    said = json.dumps(found, default=str).lower().replace(str(place).lower(), "")
    assert "ann" not in said and "roe" not in said


def test_a_user_is_known_by_what_they_wrote(place: Path) -> None:
    go(place)
    found = subject(place / "clean.private", ["user:u-ann"])
    assert (found["documents"], found["documents_authored"], found["occurrences"]) == (2, 2, 0)


def test_a_display_name_of_many_leads_nowhere(tmp_path: Path) -> None:
    mails = [f"From: Help Desk <h{number}@example.com>\nTo: x@example.org\n\n.\n" for number in range(30)]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    go(tmp_path)
    found = subject(tmp_path / "clean.private", ["h3@example.com"])
    assert found["linked"] == {"values": 0, "names": 0, "names_not_followed": 1} and found["documents"] == 1


def test_who_is_not_there_or_not_the_right_folder(place: Path) -> None:
    go(place)
    with pytest.raises(UsageError, match="nothing of it occurs in this corpus"):
        subject(place / "clean.private", ["nobody@example.com"])
    with pytest.raises(UsageError, match="another key"):
        subject(place / "clean.private", [ANN], seed=6)
    with pytest.raises(UsageError, match="not the private folder"):
        subject(place, [ANN])
    with pytest.raises(UsageError, match=r"no readable seen\.parquet"):
        subject(place / "clean.private", [ANN], checkpoints=[place])
    (place / "in.parquet").rename(place / "moved.parquet")
    with pytest.raises(UsageError, match="has moved or changed"):
        subject(place / "clean.private", [ANN])


# ----------------------------------------------------------------------------------------------------------------- out with them


def test_erased_from_what_is_published_and_from_every_later_run(place: Path) -> None:
    go(place, rows_per_shard=1)
    before = hashes(place)
    found = subject(place / "clean.private", [ANN], erase=True)
    (made,) = found["erased"]["outputs"]
    assert (made["shards_rewritten"], made["occurrences_erased"], made["leaks"]) == (4, 7, 0)
    changed = [no for no, (old, new) in enumerate(zip(before, hashes(place), strict=True)) if old != new]
    assert changed == [0, 1, 3, 4]  # a variant in the last had put her name together again
    for out, plan in (("clean", "rmft"), ("other", "baseline"), ("third", "redact")):
        summary = go(place, out, plan, rows_per_shard=1)
        assert summary["erased"] == 7 and summary["changed"] is (out != "clean")
        whole = "\n".join(text for shard in texts(place, out) for text in shard)
        assert "ann.roe@" not in whole.lower() and "aroe77" not in whole and not name_search.count_names(pa.array([whole]), ["ann roe"])
        assert "Hello ann" in whole and "Annroe" in whole  # what is somebody else's, or nobody's, stays
        assert sanitize.verify(place / out, place / "clean.private")["leaks"] == 0
        kinds = summary["by_kind"].values()
        assert all(one["occurrences"] == one["kept"] + one["replaced"] + one["left_by_plan"] for one in kinds)
    assert texts(place, "other")[1] == [
        'From: "[PERSON]" <[EMAIL_ADDRESS]>\nTo: bob.day@example.net\n\nI am [PERSON]. Write to [EMAIL_ADDRESS]\n'
    ]
    assert texts(place, "other")[2] == [MAILS[2][2]]
    manifest = sanitize.Corpus.open(place / "other").manifest
    assert manifest["settings"]["erased"] == {"erasures": 1, "values": 2, "names": 1, "users": 0}
    receipt = Path(found["erased"]["receipt"]).read_text()
    assert "roe" not in receipt.lower() and json.loads(receipt)["outputs"][0]["shards_rewritten"] == 4
    held = (place / "clean.private" / "vault" / "tombstones" / "00000.json").read_text()
    assert "@" not in held and "ann roe" in held


def test_a_user_is_erased_with_all_they_wrote(place: Path) -> None:
    go(place)
    subject(place / "clean.private", ["user:u-ann"], erase=True)
    summary = go(place)
    assert not summary["changed"] and summary["dropped"] == [{"part": "subject", "reason": "erased", "documents": 2}]
    assert summary["documents_in"] == 6 and summary["documents_out"] == 4 and summary["documents_dropped"] == 2
    assert [len(one) for one in texts(place)] == [2, 2]
    assert "u-ann" not in (place / "clean.private" / "vault" / "tombstones" / "00000.json").read_text()


def test_asked_twice_or_stopped_halfway(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(place)
    before = hashes(place)

    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(importlib.import_module("sanitize.pipeline.erasure.subject"), "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            subject(place / "clean.private", [ANN], erase=True)
    assert hashes(place) == before
    with pytest.raises(UsageError, match="before an erasure was requested"):
        go(place)
    first = subject(place / "clean.private", [ANN], erase=True)["erased"]["outputs"][0]
    assert first["changed"] and first["shards_rewritten"] == 2
    again = subject(place / "clean.private", [ANN], erase=True)["erased"]["outputs"][0]
    assert not again["changed"] and again["shards_rewritten"] == 0
    assert len(list((place / "clean.private" / "vault" / "tombstones").iterdir())) == 1


def test_a_variant_does_not_bring_the_name_back(tmp_path: Path) -> None:
    """Pools hold the components of everybody's addresses; a draw could combine the two that form the erased address."""
    people = ["ann.roe@example.com", "ben.day@example.org", "cyd.lee@example.net"]
    mails = [f"{one} and again {one}" for _ in range(60) for one in people]
    pq.write_table(pa.table({"text": mails}), tmp_path / "in.parquet")
    go(tmp_path, rows_per_shard=500)
    again = sum(text.count("ann.roe@") for shard in texts(tmp_path) for text in shard if "ann.roe@example.com" not in text)
    found = subject(tmp_path / "clean.private", people[:1], erase=True)
    assert again > 3  # in variants of others
    assert not any("ann.roe@" in text for shard in texts(tmp_path) for text in shard)
    assert found["erased"]["outputs"][0]["leaks"] == 0


def test_every_folder_that_was_published_is_made_again(place: Path) -> None:
    """One plan published to two folders, with the index rebuilt in between; an output that has moved is reported."""
    go(place, "one")
    go(place, "two")
    go(place, "three", "redact", rows_per_shard=2)
    go(place, "moved", "baseline", rows_per_shard=2)
    (place / "moved").rename(place / "away")
    found = subject(place / "clean.private", [ANN], erase=True)
    assert sorted(Path(one["out"]).name for one in found["erased"]["outputs"]) == ["one", "three", "two"]
    for out in ("one", "two", "three"):
        whole = "\n".join(text for shard in texts(place, out) for text in shard)
        assert "ann.roe@" not in whole.lower() and not name_search.count_names(pa.array([whole]), ["ann roe"])
    assert (
        found["missing_outputs"] == [str(place / "moved")]
        and "1 folders that were published" in Path(found["erased"]["receipt"]).read_text()
    )


def test_one_that_cannot_be_made_without_them_is_told(place: Path) -> None:
    columns = sanitize.Columns(policies={"user_id": "keep"})
    table = pq.read_table(place / "in.parquet").to_pydict()
    table["user_id"][1] = ANN
    pq.write_table(pa.table(table), place / "in.parquet")
    go(place, "kept", "baseline", columns=columns)
    with pytest.raises(LeakFound, match="1 of 1 published folders could not be rewritten without"):
        subject(place / "clean.private", [ANN], erase=True)
    (receipt,) = (place / "clean.private" / "receipts").iterdir()
    assert json.loads(receipt.read_text())["outputs"][0]["erased"] is False


def test_receipts_are_kept_one_by_one(place: Path) -> None:
    go(place)
    first = subject(place / "clean.private", [ANN], erase=True)["erased"]["receipt"]
    other = subject(place / "clean.private", ["cy.lee@example.com"], erase=True)["erased"]["receipt"]
    again = subject(place / "clean.private", [ANN], erase=True)["erased"]["receipt"]
    assert len({first, other, again}) == 3


def test_a_users_documents_are_no_originals_of_duplicates(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    rows = {
        "doc_id": ["a", "b", "c"],
        "user_id": ["bob", "ann", "bob"],
        "text": ["The same words here.", "The same words here.", "Others."],
    }
    pq.write_table(pa.table(rows), tmp_path / "in.parquet")
    (tmp_path / "plan.toml").write_text('about = "x"\nleave = ["URL"]\n[find]\nkinds = ["URL"]\n[[drop]]\nuse = "exact_dup"\n')
    assert go(tmp_path, plan=str(tmp_path / "plan.toml"))["documents_out"] == 2
    subject(tmp_path / "clean.private", ["user:bob"], erase=True)
    assert texts(tmp_path) == [["The same words here."]]
    assert go(tmp_path, plan=str(tmp_path / "plan.toml"))["dropped"] == [
        {"part": "subject", "reason": "erased", "documents": 2},
        {"part": "exact_dup", "reason": "same text", "documents": 0},
    ]


def test_a_folder_that_is_not_there_is_said_before_anything(place: Path) -> None:
    go(place)
    for option in ("documents", "receipt"):
        with pytest.raises(UsageError, match="its folder does not exist"):
            subject(place / "clean.private", [ANN], erase=True, **{option: place / "nowhere" / "x"})
    assert not (place / "clean.private" / "vault" / "tombstones").exists()


def test_before_anything_is_published(place: Path) -> None:
    sanitize.find([place / "in.parquet"], place / "clean.private", sanitize.Settings(seed=5, workers=1))
    found = subject(place / "clean.private", [ANN], erase=True, seed=5)
    assert found["erased"]["outputs"] == []
    assert go(place)["erased"] == 7


def test_a_name_that_is_left_is_a_leak(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(place)
    subject(place / "clean.private", [ANN], erase=True)
    nothing = pl.DataFrame(schema=pl.Schema({"doc_no": pl.Int64, "cell": pl.Int32, "start": pl.Int64}))
    monkeypatch.setattr(name_search, "build_occurrence_rows", lambda *given: nothing)
    with pytest.raises(LeakFound, match="PERSON"):
        go(place, "other", "baseline")
    assert not (place / "other").exists()


HIDDEN = {
    "quoted-printable": "see=20Ann=20Roe=20there, and A=6En=\nRoe",
    "URL": "?q=Ann%20Roe&x=1",
    "HTML": "&#65;nn&nbsp;R&#111;e",
    "JSON": r'{"who": "\u0041nn\tRoe"}',
    "base64": base64.b64encode("Ein Gruß von Ann Roe, und mehr".encode()).decode(),
    "base64 of other bytes": base64.b64encode(b"\xff\xfe Ann Roe \x80\x81 and so on").decode(),
}


def test_a_name_goes_in_other_writing_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded spellings are erased; where they are not, the full check reports them."""
    lines = ["From: Ann Roe <ann.roe@example.com>\n\nx", "Begin Anna Roen end", *(f"Begin {one} end" for one in HIDDEN.values())]
    pq.write_table(pa.table({"doc_id": list(map(str, range(len(lines)))), "text": lines}), tmp_path / "in.parquet")
    go(tmp_path, plan="baseline", rows_per_shard=20)
    found = subject(tmp_path / "clean.private", ["Ann Roe"], erase=True)
    (shard,) = texts(tmp_path)
    assert found["documents"] == 1 + len(HIDDEN) and shard[1] == lines[1]
    for text in shard[2:]:
        assert re.search(r"\ABegin .*\[PERSON\].* end\Z", text, re.DOTALL)
    assert sanitize.verify(tmp_path / "clean", tmp_path / "clean.private")["leaks"] == 0
    monkeypatch.setattr(name_search, "find_encoded_names", lambda texts, names, key: name_search.find_names(texts, [], key))
    with pytest.raises(LeakFound) as error:
        go(tmp_path, "other", "redact", verify="full", rows_per_shard=20)
    told = {one["form"] for one in error.value.findings if one["location"] == "column text"}
    assert told == {"quoted-printable", "URL", "HTML", "JSON", "base64"} and "Roe" not in str(error.value)
    assert not (tmp_path / "other").exists()


def test_a_value_that_is_left_is_a_leak(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a plan that leaves all kinds, the leak check only searches for the erased values."""
    go(place)
    subject(place / "clean.private", [ANN], erase=True)
    find_erased = RewrittenShards.find_erased_in_task
    monkeypatch.setattr(
        RewrittenShards, "find_erased_in_task", lambda self, no: (find_erased(self, no)[0], find_erased(self, no)[1][-1:], [])
    )
    with pytest.raises(LeakFound):
        go(place, "other", "baseline")


def test_another_key_could_not_honour_it(place: Path) -> None:
    go(place)
    subject(place / "clean.private", [ANN], erase=True)
    with pytest.raises(UsageError, match="erasures that were made with another key"):
        go(place, seed=6, replace=True)
    with pytest.raises(UsageError, match="people were erased"):
        sanitize.replay(place / "clean", place / "in.parquet", place / "again")


def test_workers_and_shards_erase_the_same(place: Path) -> None:
    go(place)
    subject(place / "clean.private", ["Ann Roe", ANN2], erase=True)
    expected = [text for shard in texts(place) for text in shard]
    go(place, "other", workers=2, rows_per_shard=1, replace=True)
    assert [text for shard in texts(place, "other") for text in shard] == expected


def test_so_many_workers_make_the_folders_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(place)
    module = importlib.import_module("sanitize.pipeline.erasure.subject")  # `sanitize.subject` is also the name of what it does
    told, whole = [], module.run
    monkeypatch.setattr(module, "run", lambda *said: told.append(said[-1].workers) or whole(*said))
    subject(place / "clean.private", [ANN2], erase=True, workers=1)
    assert told == [1]


def test_tombstones_add_up(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    tombstones.write(tmp_path, KEY, Tombstones((1, 3), ("ann roe",), ()), "now")
    tombstones.write(tmp_path, KEY, Tombstones((2, 3), (), (9,)), "now")
    found = tombstones.read(tmp_path, KEY)
    assert found == Tombstones((1, 2, 3), ("ann roe",), (9,), 2)
    assert tombstones.read(tmp_path, erasures=1) == Tombstones((1, 3), ("ann roe",), (), 1)
    assert found.covers(Tombstones((2,), (), (9,))) and not found.covers(Tombstones((4,)))
    (tmp_path / "vault" / "tombstones" / "00001.json").write_text("{")
    with pytest.raises(sanitize.SanitizeError, match="stored erasure requests"):
        tombstones.read(tmp_path, KEY)


def test_nobody_to_forget_costs_no_pass(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure_scan, "erasure_scan_task", lambda task: pytest.fail("looked for nobody"))
    assert go(place)["erased"] == 0
