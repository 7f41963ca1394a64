"""Pseudonyms: one for each value, reversible with the vault, never a real value, and independent of sharding."""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key, compute_value_ids
from sanitize.editors import pseudonymize
from sanitize.editors.pseudonymize import _corpus_draws, _fit_characters, _KindValues, _spell_pseudonyms
from sanitize.errors import PlanError, ResourceError, UsageError
from sanitize.inspection.sql_api import sql
from sanitize.kinds.kind import BOUNDARY, get_kind
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

KEY = Key.from_seed(1)
SCOPES = ("corpus", "document", "none")
# values of invented people, several of them in several spellings
VALUES = {
    "EMAIL_ADDRESS": ["ann.lee@example.com", "Ann.Lee@Example.com", "ANN.LEE@EXAMPLE.COM", "bob@example.org", "zoe-7@mail.example.net"],
    "PHONE_NUMBER": ["212-555-0123", "(212) 555-0123", "+1 212.555.0123", "212-555-0199 x12", "+49 30 5550 1234"],
    "IP_ADDRESS": ["93.184.216.34", "10.20.30.40", "2001:db8::8a2e:370:7334", "2001:DB8::8A2E:370:7334"],
    "CREDIT_CARD": ["4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "5555-5555-5555-4444"],
    "IBAN_CODE": ["GB82 WEST 1234 5698 7654 32", "GB82WEST12345698765432"],
    "US_SSN": ["123-45-6789", "123 45 6789", "321-45-6789"],
    "MESSAGE_ID": ["<200102031234.A1234$ab@host.example>", "<77.88.1234567890.99@mail.example.com>"],
    "URL": ["http://www.example.com/a?b=1", "HTTP://WWW.example.com/a?b=1", "https://example.org/x"],
}
ALL = [value for values in VALUES.values() for value in values]
SLOW: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def told(**more: Any) -> Settings:
    return Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 7, **more})


def plan(scope: str, *more: str) -> Any:
    return load_plan("pseudonymize", [f'edit.0.scope="{scope}"', *more])


def write(path: Path, texts: Sequence[str], files: int = 1) -> list[Path]:
    path.mkdir()
    cut = -(-len(texts) // files)
    for no in range(files):
        part = texts[no * cut : (no + 1) * cut]
        rows = {"doc_id": [f"d{no * cut + at}" for at in range(len(part))], "text": list(part)}
        pq.write_table(
            pa.table(rows, schema=pa.schema([("doc_id", pa.string()), ("text", pa.string())])), path / f"{no}.parquet", row_group_size=3
        )
    return [path]


def texts_of(out: Path) -> list[str]:
    return [text for file in sorted((out / "data").iterdir()) for text in pq.read_table(file)["text"].to_pylist()]


def table(work: Path, *place: str) -> list[dict[str, Any]]:
    files = sorted(work.glob("/".join(place) + "/*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def pairs(work: Path) -> list[dict[str, Any]]:
    """Every edit with the value behind it: doc_no, kind, replacement, value_id."""
    values = {(row["doc_no"], row["cell"], row["start_byte"]): row["value_id"] for row in table(work, "tables", "occurrences")}
    edits = table(work, "runs", "*", "edits")
    return [{**row, "value_id": values[row["doc_no"], row["cell"], row["start_byte"]]} for row in edits]


def identity(name: str, text: str) -> str:
    return str(get_kind(name).normalise(pl.Series("value", [text], dtype=pl.String))[0])


TEXTS = st.lists(st.lists(st.sampled_from([*ALL, "é", "call"]), max_size=7).map(" , ".join), min_size=1, max_size=14)


@given(TEXTS, st.sampled_from(SCOPES))
@settings(max_examples=4, **SLOW)
def test_one_value_one_pseudonym_one_way_back(texts: list[str], scope: str) -> None:
    with folder() as base:
        summary = run(write(base / "in", texts), base / "out", plan(scope), settings=told())
        work, made = base / "out.private", texts_of(base / "out")
        found, labels = pairs(work), table(work, "runs", "*", "vault", "labels")
        values = table(work, "vault", "values")
        published = b"".join(path.read_bytes() for path in (base / "out").iterdir() if path.is_file())
    assert summary["leaks"] == 0 and summary["kept_originals"] == 0 and len(found) == summary["replaced"]
    real = {(row["kind"], row["normalised"] or row["value"]) for row in values}
    one: dict[Any, set[str]] = defaultdict(set)
    other: dict[Any, set[int]] = defaultdict(set)
    for row in found:
        name, form = row["kind"], identity(row["kind"], row["replacement"])
        assert (name, form) not in real
        pattern = re.compile(get_kind(name).pattern.replace(BOUNDARY, r"\b").replace(r"\z", r"\Z"), re.ASCII)
        assert pattern.fullmatch(row["replacement"]) or pattern.fullmatch(f"<{row['replacement']}>"), name
        where = () if scope == "corpus" else (row["doc_no"],)
        one[name, row["value_id"], where].add(form)
        other[name, form, where].add(row["value_id"])
        assert row["replacement"] in made[row["doc_no"]]
    if scope != "none":
        assert {len(forms) for forms in one.values()} <= {1}
    assert {len(ids) for ids in other.values()} <= {1}
    # the vault undoes every one of them, and nothing else says what it was
    known = {(row["doc_no"], row["label"]): row["value_id"] for row in labels}
    assert [known[row["doc_no"], row["replacement"]] for row in found] == [row["value_id"] for row in found]
    assert len(known) == len({(row["doc_no"], row["label"], row["value_id"]) for row in labels})
    assert not [label for _, label in known if label.encode() in published]


def made_of(texts: list[str], scope: str, files: int = 1, **more: Any) -> list[str]:
    with folder() as base:
        run(write(base / "in", texts, files), base / "out", plan(scope), settings=told(**more))
        return texts_of(base / "out")


@given(TEXTS, st.sampled_from(SCOPES), st.integers(1, 9))
@settings(max_examples=3, **SLOW)
def test_the_same_however_the_corpus_is_cut(texts: list[str], scope: str, size: int) -> None:
    assert made_of(texts, scope) == made_of(texts, scope, files=3, rows_per_shard=size)


def test_the_same_for_all_workers_and_in_every_order() -> None:
    texts = [" , ".join(ALL[(no * 7 + step * step) % len(ALL)] for step in range(6)) for no in range(20)]
    one = made_of(texts, "corpus")
    assert one == made_of(texts, "corpus", workers=2, rows_per_shard=5) == made_of(texts[::-1], "corpus")[::-1]


def test_how_far_a_pseudonym_reaches() -> None:
    made = {
        scope: [text.split(" and ") for text in made_of(["ann.lee@example.com and ann.lee@example.com"] * 3, scope)] for scope in SCOPES
    }
    assert len({word for words in made["corpus"] for word in words}) == 1
    assert len({words[0] for words in made["document"]}) == 3 and all(first == second for first, second in made["document"])
    assert len({word for words in made["none"] for word in words}) == 6


def test_spellings_stay(tmp_path: Path) -> None:
    """Letter case, separators and grouping are those of the occurrence, and all spellings are still one value."""
    run(write(tmp_path / "in", [" , ".join(ALL)]), tmp_path / "out", plan("corpus"), settings=told())
    made = texts_of(tmp_path / "out")[0].split(" , ")
    shape = [re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", re.sub("[0-9]", "9", text))) for text in (" ".join(ALL), " ".join(made))]
    of = dict(zip(ALL, made, strict=True))
    for name in ("PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN"):
        for value in VALUES[name]:
            assert re.sub("[A-Za-z0-9]", "x", of[value]) == re.sub("[A-Za-z0-9]", "x", value), name
    assert of["ANN.LEE@EXAMPLE.COM"] == of["ann.lee@example.com"].upper() and of["Ann.Lee@Example.com"][0].isupper()
    for same in (
        VALUES["EMAIL_ADDRESS"][:3],
        VALUES["PHONE_NUMBER"][:3],
        VALUES["CREDIT_CARD"][:3],
        VALUES["IBAN_CODE"],
        VALUES["US_SSN"][:2],
    ):
        name = next(name for name, values in VALUES.items() if same[0] in values)
        assert len({identity(name, of[value]) for value in same}) == 1, name
    assert shape[0].count("@") == shape[1].count("@")


def test_a_key_of_ones_own(tmp_path: Path) -> None:
    """Another key gives other pseudonyms; the same key gives the same ones in another corpus."""
    one, other = ["ann.lee@example.com"], ["bob@example.org", "", "Ann.Lee@example.com"]
    run(write(tmp_path / "a", one), tmp_path / "A", plan("corpus"), settings=told())
    run(write(tmp_path / "b", other), tmp_path / "B", plan("corpus"), settings=told())
    run(write(tmp_path / "c", one), tmp_path / "C", plan("corpus"), settings=told(seed=2))
    assert texts_of(tmp_path / "A")[0] == texts_of(tmp_path / "B")[2].lower() != texts_of(tmp_path / "C")[0]


def test_what_the_leak_check_finds_has_the_pseudonym_of_its_value(tmp_path: Path) -> None:
    texts = ["bob@example.org", "ｂｏｂ@example.org and ９３.184.216.34", "93.184.216.34"]
    summary = run(write(tmp_path / "in", texts), tmp_path / "out", plan("corpus"), settings=told())
    made = texts_of(tmp_path / "out")
    assert summary["verify"]["swept"] == 2 and summary["leaks"] == 0
    assert made[1] == f"{made[0]} and {made[2]}"


def test_the_way_back_in_sql(tmp_path: Path) -> None:
    run(write(tmp_path / "in", ["call 212-555-0123", "or (212) 555-0123"]), tmp_path / "out", plan("corpus"), settings=told())
    rows = sql(tmp_path / "out.private", name="pseudonyms", reveal=True).to_dicts()
    made = [text.split(" ", 1)[1] for text in texts_of(tmp_path / "out")]
    assert sorted((row["pseudonym"], row["value"], row["documents"]) for row in rows) == sorted(
        (text, "(212) 555-0123", 1) for text in made
    )
    masked = sql(tmp_path / "out.private", name="pseudonyms").to_dicts()
    assert not [row for row in masked if "0123" in row["value"] or row["pseudonym"] in made]


# --- draws that collide -----------------------------------------------------------------------------------------------------------


def known(name: str, values: list[str], real: list[str]) -> _KindValues:
    one = get_kind(name)
    ids = compute_value_ids(to_large_string(one.normalise(pl.Series(values))), name, KEY)
    order = np.argsort(ids)
    taken = np.unique(compute_value_ids(to_large_string(one.normalise(pl.Series([*values, *real]))), name, KEY))
    return _KindValues(
        taken, ids[order], pa.array([values[at] for at in order], pa.large_string()), pa.array([], pa.large_string()), np.empty(0)
    )


def drawn(some: _KindValues, name: str, reserved: bool = False) -> dict[str, str]:
    whole = np.zeros(len(some.ids), np.uint64)
    texts, _ = some.draw_distinct(
        get_kind(name), pl.Series("value", some.values), whole, _corpus_draws(KEY, get_kind(name), some.ids), KEY, reserved
    )
    return dict(zip(some.values.to_pylist(), texts.to_pylist(), strict=True))


def test_no_two_values_draw_the_same_and_none_a_real_one() -> None:
    """4,000 addresses of a network of 2^16, half of which are real values."""
    values = [f"192.168.{no // 256}.{1 + no % 254}" for no in range(4_000)]
    real = [f"192.168.{100 + no // 254}.{1 + no % 254}" for no in range(30_000) if no // 254 < 155]
    made = drawn(known("IP_ADDRESS", values, real), "IP_ADDRESS")
    assert len(set(made.values())) == len(set(values)) and not {*made.values()} & {*values, *real}
    assert all(text.startswith("192.168.") for text in made.values())
    # fewer values: those that stay keep theirs, unless they had to give way
    some = drawn(known("IP_ADDRESS", values[::2], real), "IP_ADDRESS")
    assert sum(made[value] != text for value, text in some.items()) < 0.1 * len(some)


def test_reserved_ranges_are_left_when_they_are_exhausted() -> None:
    """768 addresses are reserved by RFC 5737; the first of 900 values get them."""
    made = drawn(known("IP_ADDRESS", [f"9.9.{no // 200}.{10 + no % 200}" for no in range(900)], []), "IP_ADDRESS", reserved=True)
    inside = sum(text.startswith(("192.0.2.", "198.51.100.", "203.0.113.")) for text in made.values())
    assert 600 < inside <= 768 and len(set(made.values())) == 900


def test_short_values_are_made_longer_when_no_other_is_free() -> None:
    values = [f"{digit}@{letter}" for digit in range(10) for letter in "abcdefghijklmnopqrstuvwxyz"]
    made = drawn(known("MESSAGE_ID", values, []), "MESSAGE_ID")
    assert len(set(made.values())) == len(values) and not set(made.values()) & set(values)


def test_names_of_one_word_are_more_than_the_list_has() -> None:
    """PERSON has no pattern: any text is valid, and `Ann` may become `Iris7` when all names are used."""
    values = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in ("nn", "lla", "rk", "ven", "sto", "mir", "dro", "xi", "qu", "po")]
    made = drawn(known("PERSON", [f"{value}{tail}" for value in values for tail in ("", "a", "o", "is")], []), "PERSON")
    assert len(made) == 2_400 and len(set(made.values())) == len(made) and not set(made.values()) & set(made)


def test_a_surname_before_the_given_name_stays_there() -> None:
    one, names = (
        get_kind("PERSON"),
        ["Anna Roe", "Roe, Anna", "ROE, ANNA", "Garcia Lopez, Anna-Lena", "anna-lena garcia lopez", "Day, Anna, Lena"],
    )
    forms = one.normalise(pl.Series(names))
    some = known("PERSON", forms.unique().to_list(), [])
    ids = compute_value_ids(to_large_string(forms), "PERSON", KEY)
    plain = drawn(some, "PERSON")
    spellings = pl.DataFrame({"value": names, "swept": False})
    texts = pa.array([plain[form] for form in forms], pa.large_string())
    made = _spell_pseudonyms(one, spellings, texts, np.zeros(len(names), np.int64), _corpus_draws(KEY, one, ids), False).to_pylist()
    shapes = [[re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", text)) for text in some] for some in (names, made)]
    assert shapes[0] == shapes[1]
    given_name, surname = made[0].split()
    assert made[1:3] == [f"{surname}, {given_name}", f"{surname}, {given_name}".upper()]
    assert made[4] == "{1} {0}".format(*made[3].split(", ")).lower()


def test_what_cannot_be_drawn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pseudonymize, "_MAX_ATTEMPTS", 5)
    with pytest.raises(ResourceError, match="US_SSN: no unused pseudonym was found for .* values; set reserved = false, or use redact"):
        drawn(known("US_SSN", [f"123-45-{no:04d}" for no in range(1, 60)], []), "US_SSN", reserved=True)


@pytest.mark.parametrize(
    ("plain", "spelled", "only_digits", "expected"),
    [
        ("+12125550123", "(713) 555-9999", True, "(212) 555-0123"),
        ("+12125550123x45", "713.555.9999 ext. 12", True, "212.555.0123 ext. 45"),
        ("GB82WEST12345698765432", "DE00 AAAA 0000 0000 0000 00", False, "GB82 WEST 1234 5698 7654 32"),
        ("12", "no digits", True, "no digits"),
        ("1", "123-45", True, "123-45"),  # too few: as it was
    ],
)
def test_digits_and_letters_where_a_spelling_has_them(plain: str, spelled: str, only_digits: bool, expected: str) -> None:
    assert _fit_characters(pl.Series([plain, "7"]), pl.Series([spelled, "-9"]), only_digits).to_list() == [expected, "-7"]


def test_settings() -> None:
    with pytest.raises(PlanError, match="edit\\[0\\].scope"):
        plan("user")
    with pytest.raises(PlanError, match="edit\\[0\\].keep"):
        load_plan("pseudonymize", ["edit.0.keep=1"])
    assert load_plan("pseudonymize").editors[0].removal_policy == "erase"
    assert set(load_plan("pseudonymize").editor_no_by_kind) == set(load_plan("erase").editor_no_by_kind)


def test_the_way_back_is_not_lost_to_another_plan(tmp_path: Path) -> None:
    (tmp_path / "mails.jsonl").write_text(json.dumps({"text": "ann.lee@example.com and Bob Roe <bob.roe@example.com>"}) + "\n")
    work = tmp_path / "work"

    def go(out: str, plan: str, replace: bool = False) -> None:
        run([tmp_path / "mails.jsonl"], tmp_path / out, plan, work, Settings(seed=1, workers=1, replace=replace))

    go("one", "pseudonymize")
    go("two", "redact")  # of the same finders
    with pytest.raises(UsageError, match="delete the mapping from the labels of .*one back to their values"):
        go("three", "names")
    assert list(work.glob("runs/*/vault/labels/*.parquet")) and not (tmp_path / "three").exists()
    go("three", "names", replace=True)
