"""Kinds that a plan brings: what they take and refuse, and that they are kinds like any other in every room."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sanitize import ask
from sanitize.engines.local import Local
from sanitize.errors import PlanError, UsageError
from sanitize.indexing import Settings
from sanitize.keyed import Draws, Key
from sanitize.kinds.custom import CHECKS, Custom
from sanitize.kinds.kind import bringing, every_kind
from sanitize.kinds.regex import fault
from sanitize.plan import Plan, load_plan
from sanitize.replay import replay
from sanitize.run import find, run
from sanitize.seek import Seeker
from sanitize.sought import Sought
from sanitize.stream import Options, pipe, stream
from sanitize.subject import subject
from sanitize.trial import rules
from sanitize.verify import check

KEY = Key.from_seed(5)
STAFF = {"name": "STAFF_ID", "pattern": r"EMP-[0-9]{6}"}


def found(texts: list[str], *customs: dict[str, Any], skipped: bool = False) -> Any:
    """(kind, value, score) of what is found in some texts, by text, as far as it is of the plan's own kinds."""
    own = tuple(Custom(**one) for one in customs)
    with bringing(own):
        seeker = Seeker(KEY, Sought(customs=own))
        told = seeker.run(pa.array(texts, pa.large_string()))
    names = [kind.name for kind in seeker.kinds]
    if skipped:
        return {(names[kind], reason): times for (kind, reason), times in told.skipped.items()}
    assert told.score is not None
    spans: list[list[tuple[str, str, float]]] = [[] for _ in texts]
    for no, start, stop, low, high, which, score in zip(
        told.text_no, told.start, told.stop, told.start_byte, told.stop_byte, told.which, told.score, strict=True
    ):
        value = told.distinct.value[which].as_py()
        assert texts[no][start:stop] == value == texts[no].encode()[low:high].decode()
        name = names[told.distinct.kind[which]]
        if name in [one.name for one in own]:
            spans[no].append((name, value, round(float(score), 2)))
    return spans


def values(text: str, **custom: Any) -> list[str]:
    return [value for _, value, _ in found([text], {"name": "OWN", **custom})[0]]


# ---- what is found ----

TAKES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("a pattern", {"pattern": "EMP-[0-9]{6}"}, "EMP-123456, (EMP-654321)", ["EMP-123456", "EMP-654321"]),
    ("not inside a word", {"pattern": "EMP-[0-9]{6}"}, "EMP-1234567 TEMP-123456 EMP-123456_", []),
    ("inside words where it may", {"pattern": "EMP-[0-9]{6}", "inside_words": True}, "TEMP-1234567", ["EMP-123456"]),
    ("beside other letters", {"pattern": "EMP-[0-9]{6}"}, "工号EMP-123456已 éEMP-123456", ["EMP-123456", "EMP-123456"]),
    ("flags and groups", {"pattern": "(?i)(emp|staff)-([0-9]+)"}, "Emp-1 STAFF-22", ["Emp-1", "STAFF-22"]),
    ("in the text as it is", {"pattern": "[0-9]{8}"}, "call 212-555-0187 or 12345678", ["12345678"]),
    ("words", {"words": ["Blue Heron", "Falcon"]}, "blue heron, FALCON; Falcons, Falcon's", ["blue heron", "FALCON", "Falcon"]),
    ("words over lines", {"words": ["Blue Heron"]}, "Blue\n  Heron", ["Blue\n  Heron"]),
    ("words in full width", {"words": ["Falcon"]}, "ＦＡＬＣＯＮ", ["ＦＡＬＣＯＮ"]),
    ("words beyond ASCII", {"words": ["Müller Straße"]}, "MÜLLER STRASSE müller straße", ["MÜLLER STRASSE", "müller straße"]),
    ("words without blanks around", {"words": ["蓝鹭"]}, "项目蓝鹭已完成", ["蓝鹭"]),
    ("words as spelled", {"words": ["Falcon"], "case": "exact"}, "Falcon falcon FALCON Falcon", ["Falcon", "Falcon"]),
    ("words inside words", {"words": ["falcon"], "inside_words": True}, "Falcons", ["Falcon"]),
    ("the longer word", {"words": ["York", "New York"]}, "New York, York", ["New York", "York"]),
    ("both", {"pattern": "P-[0-9]+", "words": ["Falcon"]}, "P-7 falcon", ["P-7", "falcon"]),
    ("luhn", {"pattern": "[0-9]{4} ?[0-9]{4}", "check": "luhn"}, "1234 5674 1234 5675", ["1234 5674"]),
    ("verhoeff", {"pattern": "[0-9]{4}", "check": "verhoeff"}, "2363 2364", ["2363"]),
    ("mod11_10", {"pattern": "[0-9]{11}", "check": "mod11_10"}, "86095742719 86095742718", ["86095742719"]),
    ("mod97", {"pattern": "[A-Z]{2}[0-9]{4}", "check": "mod97"}, "AB1251 AB1252 AB1250", []),
    ("context before", {"pattern": "[0-9]{4}", "context": ["pin code"]}, "the PIN  code is 2001. " + "x " * 60 + "in 2001", ["2001"]),
    ("context behind", {"pattern": "[0-9]{4}", "context": ["工号"]}, "2001 是工号 " + "x " * 60 + "2001", ["2001"]),
    ("context is whole words", {"pattern": "[0-9]{4}", "context": ["pin"]}, "spinning 2001", []),
    ("no empty match", {"pattern": "(?:a+|b)"}, "aa b c", ["aa", "b"]),
]


@pytest.mark.parametrize(("_case", "custom", "text", "wanted"), TAKES, ids=[case[0] for case in TAKES])
def test_what_is_found(_case: str, custom: dict[str, Any], text: str, wanted: list[str]) -> None:
    assert values(text, **custom) == wanted
    # at the edges of a text, and after one that is null or empty
    own = {"name": "OWN", **custom}
    assert [[value for _, value, _ in spans] for spans in found(["", text, text], own)] == [[], wanted, wanted]


def test_a_context_ends_with_its_text() -> None:
    assert found(["the pin", "2001", "pin"], {"name": "OWN", "pattern": "[0-9]{4}", "context": ["pin"]}) == [[], [], []]


def test_how_sure_a_match_is() -> None:
    custom = {"name": "OWN", "pattern": "[0-9]{4}"}
    far = " x" * 60
    assert found([f"pin 2001{far} 2002"], {**custom, "score": 0.4}) == [[("OWN", "2001", 0.4), ("OWN", "2002", 0.4)]]
    assert found([f"pin 2001{far} 2002"], {**custom, "context": ["pin"], "score": 0.4}) == [[("OWN", "2001", 1.0), ("OWN", "2002", 0.4)]]


def test_what_is_refused_is_counted() -> None:
    custom = {"name": "OWN", "pattern": "[0-9]{4} [0-9]{4}", "check": "luhn", "context": ["member"]}
    texts = ["member 1234 5674", "1234 5674", "member 1234 5675 or 1234 56741"]
    assert found(texts, custom, skipped=True) == {("OWN", "luhn"): 1, ("OWN", "context"): 1, ("OWN", "boundary"): 1}


def test_who_has_what_several_claim() -> None:
    """Of equally sure and long ones the plan's own; of two of the plan's the longer, then the first; one inside another is both."""
    card = {"name": "LOYALTY", "pattern": "4[0-9]{3}(?: [0-9]{4}){3}"}
    assert found(["4111 1111 1111 1111"], card) == [[("LOYALTY", "4111 1111 1111 1111", 1.0)]]
    assert found(["4111 1111 1111 1111"], card, skipped=True) == {("CREDIT_CARD", "overlap"): 1}
    assert found(["4111 1111 1111 1111"], {**card, "score": 0.5}) == [[]]
    assert found(["write EMP-123456@example.com"], STAFF) == [[("STAFF_ID", "EMP-123456", 1.0)]]
    one, two = {"name": "ONE", "pattern": "A-[0-9]+"}, {"name": "TWO", "pattern": "A-[0-9]+(?:-[0-9]+)?"}
    assert found(["A-1 A-1-2"], one, two) == [[("ONE", "A-1", 1.0), ("TWO", "A-1-2", 1.0), ("ONE", "A-1", 1.0)]]


def test_a_kind_is_there_as_long_as_its_plan_works() -> None:
    with bringing((Custom(**STAFF),)):
        assert list(every_kind())[-1] == "STAFF_ID" and every_kind()["STAFF_ID"].name == "STAFF_ID"
        with bringing((Custom(name="OTHER", words=("Falcon",)),)):
            assert "STAFF_ID" not in every_kind() and "OTHER" in every_kind()
        assert "OTHER" not in every_kind()
    assert "STAFF_ID" not in every_kind()


def kinds_there(_: int) -> tuple[int, str]:
    return os.getpid(), list(every_kind())[-1]


def test_a_worker_knows_the_kinds_of_its_task_and_no_others(tmp_path: Path) -> None:
    engine = Local(workers=2, spill=tmp_path)
    try:
        with bringing((Custom(**STAFF),)):
            first = [done.result for done in engine.map_shards(kinds_there, [0, 1])]
        second = [done.result for done in engine.map_shards(kinds_there, [0, 1])]
    finally:
        engine.close()
    assert {name for _, name in first} == {"STAFF_ID"} and os.getpid() not in dict(first)
    assert {name for _, name in second} == {list(every_kind())[-1]}


# ---- identity and stand-ins ----


@pytest.mark.parametrize(
    ("normal", "same", "others"),
    [
        ("exact", ["Ab-12"], ["AB-12", "ab12"]),
        ("casefold", ["Ab-12", "AB-12", "ａb-12"], ["ab12", "ab- 12"]),
        ("casefold", ["Blue Heron", "blue\n heron"], ["blueheron"]),
        ("digits", ["12-34", "1 2 3 4"], ["124"]),
        ("digits", ["Ab", "AB"], ["b"]),
        ("compact", ["Ab-12", "AB 12"], ["a12"]),
    ],
)
def test_what_makes_two_spellings_one_value(normal: Any, same: list[str], others: list[str]) -> None:
    forms = Custom(name="OWN", pattern="x", normal=normal).kind().normalise(pl.Series(same + others)).to_list()
    assert len(set(forms[: len(same)])) == 1 and not set(forms[: len(same)]) & set(forms[len(same) :])


def stand_ins(custom: Custom, value: str, times: int = 40) -> list[str]:
    ids = pa.array([f"d{no}" for no in range(times)]).dictionary_encode()
    draws = Draws.of(KEY, "test", ids, pl.Series([0] * times).to_numpy().astype("int32"), pl.Series([0] * times).to_numpy())
    return custom.kind().fake(pl.Series("v", [value] * times), draws, False).to_list()


@pytest.mark.parametrize(
    ("custom", "value", "shape"),
    [
        ({"pattern": "EMP-[0-9]{6}"}, "EMP-123456", r"EMP-\d{6}"),
        ({"pattern": "[A-Z]{2}[0-9]{3}[a-z]"}, "QX123a", r"[A-Z]{2}\d{3}[a-z]"),
        ({"pattern": "[0-9a-f]{12}"}, "deadbeef0123", "[0-9a-f]{12}"),
        ({"pattern": "ID_[a-z]{6}"}, "ID_abcdef", "[A-Z]{2}_[a-z]{6}"),  # no redrawing of the whole is an ID_: its shape then
        ({"pattern": "[0-9]{4} ?[0-9]{4}", "check": "luhn"}, "1234 5674", r"\d{4} \d{4}"),
        ({"pattern": "[A-Z]{3}[0-9]{6}", "check": "mod97"}, "ABC123429", r"[A-Z]{3}\d{6}"),
        ({"words": ["Blue Heron"]}, "Blue Heron", "[A-Z][a-z]{3} [A-Z][a-z]{4}"),
        ({"words": ["蓝鹭"]}, "蓝鹭", "[a-z]{2}"),
        ({"words": ["№ ★"]}, "№ ★", "[a-z]{6}"),
        ({"pattern": "E[0-9]", "replacement": "EMP-{digits:6}/{hex:2}{capitals:1}{letters:1}"}, "E1", r"EMP-\d{6}/[0-9a-f]{2}[A-Z][a-z]"),
    ],
)
def test_a_stand_in_has_the_shape_and_not_the_value(custom: dict[str, Any], value: str, shape: str) -> None:
    own = Custom(name="OWN", **custom)
    made = stand_ins(own, value)
    assert len(set(made)) > 20 and value not in made
    assert not [one for one in made if not re.fullmatch(shape, one)]
    if own.check:
        assert own.takes(pl.Series(made)).all()


@pytest.mark.parametrize("name", CHECKS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_check_holds_for_what_it_fitted_and_sees_a_wrong_digit(name: str, data: st.DataObject) -> None:
    own = Custom(name="OWN", words=("x7",), check=name)
    digits = data.draw(st.text("0123456789", min_size=4, max_size=18))
    fitted = own._fitted(pl.Series([digits]))[0]
    assert own.takes(pl.Series([fitted])).all()
    place = data.draw(st.integers(0, len(fitted) - 1))
    wrong = fitted[:place] + str((int(fitted[place]) + data.draw(st.integers(1, 9))) % 10) + fitted[place + 1 :]
    assert not own.takes(pl.Series([wrong])).any()  # each of these checks sees every single wrong digit
