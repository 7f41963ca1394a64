"""Custom kinds of a plan: what they accept and refuse, and that every stage treats them like
built-in kinds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.cli import main
from sanitize.core.keys import Draws, Key
from sanitize.engines.local import LocalEngine
from sanitize.errors import PlanError, UsageError
from sanitize.inspection import sql_api
from sanitize.inspection.plan_tests import check_kind_examples
from sanitize.inspection.reproduction import replay
from sanitize.kinds.custom_kind import CHECKS, CustomKind
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.kinds.pattern_check import find_pattern_error
from sanitize.pipeline.erasure.subject_request import subject
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import run_stream, stream
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages.scanner import Scanner
from sanitize.verification.published.output_check import verify
from tests.support import read_texts

KEY = Key.from_seed(5)
STAFF = {"name": "STAFF_ID", "pattern": r"EMP-[0-9]{6}"}


def find_matches(texts: list[str], *customs: dict[str, Any], skipped: bool = False) -> Any:
    """(kind, value, score) of the occurrences of custom kinds, by text."""
    kinds = tuple(CustomKind(**custom) for custom in customs)
    with custom_kinds(kinds):
        scanner = Scanner(KEY, DetectionSpec(custom_kinds=kinds))
        column = pa.array(texts, pa.large_string())
        detections = scanner.run(column)
        starts, ends = detections.find_code_points(column)
        names = list(all_kinds())
    if skipped:
        return {
            (names[kind], reason): count for (kind, reason), count in detections.skipped.items()
        }
    assert detections.score is not None
    spans: list[list[tuple[str, str, float]]] = [[] for _ in texts]
    for no, start, stop, low, high, value_no, score in zip(
        detections.text_no,
        starts,
        ends,
        detections.start_byte,
        detections.end_byte,
        detections.value_no,
        detections.score,
        strict=True,
    ):
        value = detections.values.value[value_no].as_py()
        assert texts[no][start:stop] == value == texts[no].encode()[low:high].decode()
        name = names[detections.values.kind[value_no]]
        if name in [custom.name for custom in kinds]:
            spans[no].append((name, value, round(float(score), 2)))
    return spans


def find_values(text: str, **custom: Any) -> list[str]:
    return [value for _, value, _ in find_matches([text], {"name": "OWN", **custom})[0]]


# ---- matches ----

MATCH_CASES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    (
        "a pattern",
        {"pattern": "EMP-[0-9]{6}"},
        "EMP-123456, (EMP-654321)",
        ["EMP-123456", "EMP-654321"],
    ),
    ("not inside a word", {"pattern": "EMP-[0-9]{6}"}, "EMP-1234567 TEMP-123456 EMP-123456_", []),
    (
        "inside words where it may",
        {"pattern": "EMP-[0-9]{6}", "inside_words": True},
        "TEMP-1234567",
        ["EMP-123456"],
    ),
    (
        "beside other letters",
        {"pattern": "EMP-[0-9]{6}"},
        "工号EMP-123456已 éEMP-123456",
        ["EMP-123456", "EMP-123456"],
    ),
    (
        "flags and groups",
        {"pattern": "(?i)(emp|staff)-([0-9]+)"},
        "Emp-1 STAFF-22",
        ["Emp-1", "STAFF-22"],
    ),
    (
        "in the text as it is",
        {"pattern": "[0-9]{8}"},
        "call 212-555-0187 or 12345678",
        ["12345678"],
    ),
    (
        "words",
        {"words": ["Blue Heron", "Falcon"]},
        "blue heron, FALCON; Falcons, Falcon's",
        ["blue heron", "FALCON", "Falcon"],
    ),
    ("words over lines", {"words": ["Blue Heron"]}, "Blue\n  Heron", ["Blue\n  Heron"]),
    ("words in full width", {"words": ["Falcon"]}, "ＦＡＬＣＯＮ", ["ＦＡＬＣＯＮ"]),
    (
        "words beyond ASCII",
        {"words": ["Müller Straße"]},
        "MÜLLER STRASSE müller straße",
        ["MÜLLER STRASSE", "müller straße"],
    ),
    (
        "words in composed letters",
        {"words": ["Re\u0301ne\u0301 O\u0308st"]},
        "R\u00e9n\u00e9 \u00d6st",
        ["R\u00e9n\u00e9 \u00d6st"],
    ),
    (
        "words with accents of their own",
        {"words": ["R\u00e9n\u00e9"], "case": "exact"},
        "Re\u0301ne\u0301 re\u0301ne\u0301",
        ["Re\u0301ne\u0301"],
    ),
    ("words without blanks around", {"words": ["蓝鹭"]}, "项目蓝鹭已完成", ["蓝鹭"]),
    (
        "words as spelled",
        {"words": ["Falcon"], "case": "exact"},
        "Falcon falcon FALCON Falcon",
        ["Falcon", "Falcon"],
    ),
    ("words inside words", {"words": ["falcon"], "inside_words": True}, "Falcons", ["Falcon"]),
    ("the longer word", {"words": ["York", "New York"]}, "New York, York", ["New York", "York"]),
    ("both", {"pattern": "P-[0-9]+", "words": ["Falcon"]}, "P-7 falcon", ["P-7", "falcon"]),
    (
        "luhn",
        {"pattern": "[0-9]{4} ?[0-9]{4}", "check": "luhn"},
        "1234 5674 1234 5675",
        ["1234 5674"],
    ),
    ("verhoeff", {"pattern": "[0-9]{4}", "check": "verhoeff"}, "2363 2364", ["2363"]),
    (
        "mod11_10",
        {"pattern": "[0-9]{11}", "check": "mod11_10"},
        "86095742719 86095742718",
        ["86095742719"],
    ),
    (
        "mod97",
        {"pattern": "[A-Z]{2}[0-9]{4}", "check": "mod97"},
        "AB1200 AB1281 AB1213",
        ["AB1281"],
    ),
    (
        "context before",
        {"pattern": "[0-9]{4}", "context": ["pin code"]},
        "the PIN  code is 2001. " + "x " * 60 + "in 2001",
        ["2001"],
    ),
    (
        "context behind",
        {"pattern": "[0-9]{4}", "context": ["工号"]},
        "2001 是工号 " + "x " * 60 + "2001",
        ["2001"],
    ),
    ("context is whole words", {"pattern": "[0-9]{4}", "context": ["pin"]}, "spinning 2001", []),
    ("no empty match", {"pattern": "(?:a+|b)"}, "aa b c", ["aa", "b"]),
]


@pytest.mark.parametrize(
    ("_case", "custom", "text", "expected"), MATCH_CASES, ids=[case[0] for case in MATCH_CASES]
)
def test_expected_matches(
    _case: str, custom: dict[str, Any], text: str, expected: list[str]
) -> None:
    assert find_values(text, **custom) == expected
    # at the edges of a text, and after one that is null or empty
    settings = {"name": "OWN", **custom}
    assert [
        [value for _, value, _ in spans] for spans in find_matches(["", text, text], settings)
    ] == [[], expected, expected]


def test_a_context_ends_with_its_text() -> None:
    assert find_matches(
        ["the pin", "2001", "pin"], {"name": "OWN", "pattern": "[0-9]{4}", "context": ["pin"]}
    ) == [[], [], []]


def test_score_of_a_match() -> None:
    custom = {"name": "OWN", "pattern": "[0-9]{4}"}
    far = " x" * 60
    assert find_matches([f"pin 2001{far} 2002"], {**custom, "score": 0.4}) == [
        [("OWN", "2001", 0.4), ("OWN", "2002", 0.4)]
    ]
    assert find_matches([f"pin 2001{far} 2002"], {**custom, "context": ["pin"], "score": 0.4}) == [
        [("OWN", "2001", 1.0), ("OWN", "2002", 0.4)]
    ]


def test_rejected_candidates_are_counted() -> None:
    custom = {"name": "OWN", "pattern": "[0-9]{4} [0-9]{4}", "check": "luhn", "context": ["member"]}
    texts = ["member 1234 5674", "1234 5674", "member 1234 5675 or 1234 56741"]
    skipped = find_matches(texts, custom, skipped=True)
    assert {key: count for key, count in skipped.items() if key[0] == "OWN"} == {
        (custom["name"], key): 1 for key in ("luhn", "context", "boundary")
    }


def test_overlaps_of_several_kinds() -> None:
    """With equal score and length the custom kind wins; of two custom kinds the longer match, then
    the first; nested matches count too."""
    card = {"name": "LOYALTY", "pattern": "4[0-9]{3}(?: [0-9]{4}){3}"}
    assert find_matches(["4111 1111 1111 1111"], card) == [
        [("LOYALTY", "4111 1111 1111 1111", 1.0)]
    ]
    assert find_matches(["4111 1111 1111 1111"], card, skipped=True) == {
        ("CREDIT_CARD", "overlap"): 1
    }
    assert find_matches(["4111 1111 1111 1111"], {**card, "score": 0.5}) == [[]]
    assert find_matches(["write EMP-123456@example.com"], STAFF) == [
        [("STAFF_ID", "EMP-123456", 1.0)]
    ]
    short, long = (
        {"name": "ONE", "pattern": "A-[0-9]+"},
        {"name": "TWO", "pattern": "A-[0-9]+(?:-[0-9]+)?"},
    )
    assert find_matches(["A-1 A-1-2"], short, long) == [
        [("ONE", "A-1", 1.0), ("TWO", "A-1-2", 1.0), ("ONE", "A-1", 1.0)]
    ]


def test_custom_kinds_exist_only_inside_their_context() -> None:
    with custom_kinds((CustomKind(**STAFF),)):
        assert list(all_kinds())[-1] == "STAFF_ID" and all_kinds()["STAFF_ID"].name == "STAFF_ID"
        with custom_kinds((CustomKind(name="OTHER", words=("Falcon",)),)):
            assert "STAFF_ID" not in all_kinds() and "OTHER" in all_kinds()
        assert "OTHER" not in all_kinds()
    assert "STAFF_ID" not in all_kinds()


def pid_and_last_kind(_: int) -> tuple[int, str]:
    return os.getpid(), list(all_kinds())[-1]


@pytest.mark.slow
def test_workers_have_only_the_custom_kinds_of_their_task(tmp_path: Path) -> None:
    engine = LocalEngine(workers=2, spill=tmp_path)
    try:
        with custom_kinds((CustomKind(**STAFF),)):
            with_kind = [done.result for done in engine.map_shards(pid_and_last_kind, [0, 1])]
        without_kind = [done.result for done in engine.map_shards(pid_and_last_kind, [0, 1])]
    finally:
        engine.close()
    assert {name for _, name in with_kind} == {"STAFF_ID"} and os.getpid() not in dict(with_kind)
    assert {name for _, name in without_kind} == {list(all_kinds())[-1]}


# ---- normalised forms and surrogates ----


@pytest.mark.parametrize(
    ("normal", "same", "different"),
    [
        ("exact", ["Ab-12"], ["AB-12", "ab12"]),
        ("casefold", ["Ab-12", "AB-12", "ａb-12"], ["ab12", "ab- 12"]),
        ("casefold", ["Blue Heron", "blue\n heron"], ["blueheron"]),
        ("digits", ["12-34", "1 2 3 4"], ["124"]),
        ("digits", ["Ab", "AB"], ["b"]),
        ("compact", ["Ab-12", "AB 12"], ["a12"]),
    ],
)
def test_spellings_with_equal_normalised_values(
    normal: Any, same: list[str], different: list[str]
) -> None:
    forms = (
        CustomKind(name="OWN", pattern="x", normal=normal)
        .build_kind()
        .normalise(pl.Series(same + different))
        .to_list()
    )
    assert len(set(forms[: len(same)])) == 1 and not set(forms[: len(same)]) & set(
        forms[len(same) :]
    )


def make_surrogates(custom: CustomKind, value: str, count: int = 40) -> list[str]:
    ids = pa.array([f"d{no}" for no in range(count)]).dictionary_encode()
    draws = Draws.for_occurrences(
        KEY,
        "test",
        ids,
        pl.Series([0] * count).to_numpy().astype("int32"),
        pl.Series([0] * count).to_numpy(),
    )
    return (
        custom.build_kind().make_surrogates(pl.Series("v", [value] * count), draws, False).to_list()
    )


@pytest.mark.parametrize(
    ("custom", "value", "shape"),
    [
        ({"pattern": "EMP-[0-9]{6}"}, "EMP-123456", r"EMP-\d{6}"),
        ({"pattern": "[A-Z]{2}[0-9]{3}[a-z]"}, "QX123a", r"[A-Z]{2}\d{3}[a-z]"),
        ({"pattern": "[0-9a-f]{12}"}, "deadbeef0123", "[0-9a-f]{12}"),
        # redrawn words never match `ID_`; the shape is used instead
        ({"pattern": "ID_[a-z]{6}"}, "ID_abcdef", "[A-Z]{2}_[a-z]{6}"),
        ({"pattern": "[0-9]{4} ?[0-9]{4}", "check": "luhn"}, "1234 5674", r"\d{4} \d{4}"),
        ({"pattern": "[A-Z]{3}[0-9]{6}", "check": "mod97"}, "ABC123429", r"[A-Z]{3}\d{6}"),
        ({"words": ["Blue Heron"]}, "Blue Heron", "[A-Z][a-z]{3} [A-Z][a-z]{4}"),
        ({"words": ["蓝鹭"]}, "蓝鹭", "[a-z]{2}"),
        ({"words": ["№ ★"]}, "№ ★", "[a-z]{6}"),
        (
            {"pattern": "E[0-9]", "replacement": "EMP-{digits:6}/{hex:2}{capitals:1}{letters:1}"},
            "E1",
            r"EMP-\d{6}/[0-9a-f]{2}[A-Z][a-z]",
        ),
    ],
)
def test_surrogate_has_the_shape_of_the_value_and_differs(
    custom: dict[str, Any], value: str, shape: str
) -> None:
    kind = CustomKind(name="OWN", **custom)
    surrogates = make_surrogates(kind, value)
    assert len(set(surrogates)) > 20 and value not in surrogates
    assert not [surrogate for surrogate in surrogates if not re.fullmatch(shape, surrogate)]
    if kind.check:
        assert kind.is_valid_value(pl.Series(surrogates)).all()


@pytest.mark.parametrize("name", CHECKS)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_check_accepts_computed_characters_and_rejects_one_wrong_digit(
    name: str, data: st.DataObject
) -> None:
    kind = CustomKind(name="OWN", words=("x7",), check=name)
    digits = data.draw(st.text("0123456789", min_size=4, max_size=18))
    valid = kind._fit_check_characters(pl.Series([digits]))[0]
    assert kind.is_valid_value(pl.Series([valid])).all()
    position = data.draw(st.integers(0, len(valid) - 1))
    wrong = (
        valid[:position]
        + str((int(valid[position]) + data.draw(st.integers(1, 9))) % 10)
        + valid[position + 1 :]
    )
    # each of these checks detects every single wrong digit
    assert not kind.is_valid_value(pl.Series([wrong])).any()


# ---- what a pattern and a plan may contain ----


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bEMP-[0-9]{6}\b",
        "(?i)emp-[0-9]+?",
        r"[(?=)]\(\?=",
        r"[[:alpha:]\]]{2,}\p{Greek}",
        "a{1,1000}",
        "(?P<part>a)(?<other>b)",
        "(?:[0-9]{1,4} ?){1,6}x",
        "(?s)BEGIN.+?END",
        "[A-Z][a-z]+",
    ],
)
def test_valid_patterns_are_accepted(pattern: str) -> None:
    assert find_pattern_error(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(?=b)", "character 2 is a look-around, which takes more than linear time; remove it"),
        ("(?<!b)a", "character 1 is a look-around"),
        (r"(a)\1", "character 4 is a backreference to a group"),
        ("(?P<x>a)(?P=x)", "character 9 is a backreference to a group"),
        ("(?>a)b", "character 1 is an atomic group"),
        ("a++", "character 3 makes a repetition possessive"),
        ("a{2}+", "character 5 makes a repetition possessive"),
        ("(a)?(?(1)b|c)", "character 5 is a condition on a group"),
        ("(?x) a # b", "character 1 is the verbose flag"),
        (r"a\Z", r"character 2 is the end of the text in another regex dialect; write \z"),
        ("(a{1,1000}){1,1000}", "expand to 1,000,000 steps, more than 1,000"),
        ("(?s).{1,5000}z9", "steps, more than 1,000"),
        ("(?:x|(?:ab{1,300}c){2}){1,300}", "steps, more than 1,000"),
        (r"\w{1,900}", "larger than 10 MB"),
        ("[0-9", "character 1: unclosed character class"),
        ("a{3,2}", "character 2: invalid repetition count range"),
        (r"\p{Foo}", "character 1: Unicode property not found"),
        ("a*", "matches the empty text"),
        ("a|", "matches the empty text"),
        (r"\b", "matches the empty text"),
        (r"(?m)^|x", "matches the empty text"),
        (r"\B", "matches the empty text"),
        ("(?s).+", "matches all of a text of words"),
        (r"[\s\S]{1,9}", "matches all of a text of words"),
        ("[^0-9]+", "matches all of a text of words"),
        (r"\A(?s:.+)\z", "matches all of a text of words"),
        (r"\s+|\w+", "matches all of a text of words"),
    ],
)
def test_invalid_patterns_are_refused(pattern: str, message: str) -> None:
    assert message in (find_pattern_error(pattern) or "")


@given(pattern=st.text("ab()[]{}|*+?^$\\\\.,-123=:<>!PQ\n", max_size=12))
@settings(max_examples=300, deadline=None)
def test_random_pattern_is_refused_or_never_matches_the_empty_string(pattern: str) -> None:
    if pattern and find_pattern_error(pattern) is None:
        matches = (
            pl.Series(["", "a", "ab 12", "\n", "aab\n1-2"])
            .str.extract_all(pattern)
            .explode()
            .drop_nulls()
        )
        assert not matches.eq("").any()


def write_plan(
    folder: Path,
    *customs: dict[str, Any],
    edit: str = "redact",
    options: str = "",
    leave: list[str] | None = None,
) -> str:
    names = [custom["name"] for custom in customs]
    tables = "".join(
        "[[kind]]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in custom.items())
        for custom in customs
    )
    text = (
        f"leave = {json.dumps(leave or [])}\n[find]\nkinds ="
        f" {json.dumps(['EMAIL_ADDRESS', *names])}\n{options}\n{tables}"
        f'[[edit]]\nuse = "{edit}"\nkinds ='
        f" {json.dumps(['EMAIL_ADDRESS', *(name for name in names if name not in (leave or []))])}\n"  # noqa: E501
    )
    (folder / "own.toml").write_text(text, "utf-8")
    return str(folder / "own.toml")


@pytest.mark.parametrize(
    ("customs", "message"),
    [
        ([{"name": "staff", "words": ["Zyq"]}], "kind[0].name: expected up to 40 capital letters"),
        (
            [{"name": "US_SSN", "words": ["Zyq"]}],
            "kind[0].name = US_SSN: is the name of a built-in kind",
        ),
        (
            [{"name": "DE_TAX_ID", "words": ["Zyq"]}],
            "kind[0].name = DE_TAX_ID: is the name of a built-in kind",
        ),
        ([STAFF, STAFF], "kind[1].name = STAFF_ID: is defined twice"),
        ([{"name": "OWN"}], "kind[0]: OWN has neither pattern nor words"),
        ([{"name": "OWN", "pattern": "(?=Zyq)a"}], "kind[0].pattern: character 1 is a look-around"),
        ([{"name": "OWN", "words": ["Zyq", " "]}], "kind[0].words: entry 2 is empty"),
        ([{**STAFF, "context": ["x"]}], "kind[0].context: entry 1 is empty or a single letter"),
        (
            [{**STAFF, "check": "luhm"}],
            (
                "kind[0].check = 'luhm': unknown check; did you mean luhn? Known: luhn, mod11_10,"
                " mod97, verhoeff."
            ),
        ),
        (
            [{**STAFF, "normal": "upper"}],
            "kind[0].normal: expected 'exact', 'casefold', 'digits' or 'compact'",
        ),
        ([{**STAFF, "score": 2}], "kind[0].score: expected 1.0 or less"),
        (
            [{**STAFF, "replacement": "EMP-{digits:3}"}],
            "kind[0].replacement: allows 1000 surrogates",
        ),
        (
            [{**STAFF, "replacement": "EMP-{digit:6}"}],
            "kind[0].replacement: contains an invalid field",
        ),
        (
            [{**STAFF, "replacement": "EMP-{digits:6"}],
            "kind[0].replacement: contains an unmatched brace",
        ),
        (
            [{**STAFF, "words_file": "gone.txt"}],
            "kind[0].words_file: cannot be read (FileNotFoundError)",
        ),
        ([{**STAFF, "patern": "x"}], "kind[0].patern: unknown key"),
        ([{**STAFF, "words": "Zyq"}], "kind[0].words: expected a list in brackets"),
    ],
)
def test_invalid_custom_kinds_are_refused(
    tmp_path: Path, customs: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(PlanError, match="^own.toml: " + re.escape(message)) as caught:
        load_plan(write_plan(tmp_path, *customs))
    assert "Zyq" not in str(caught.value)


def test_a_plan_must_assign_its_custom_kinds(tmp_path: Path) -> None:
    path = write_plan(tmp_path, STAFF)
    for change, message in (
        ('edit.0.kinds=["EMAIL_ADDRESS"]', "STAFF_ID is found, but no editor names it"),
        ('find.kinds=["EMAIL_ADDRESS"]', r"kind\[0\] is STAFF_ID, which is not in find.kinds"),
        ('find.finders=["names"]', 'find.finders lacks "patterns"'),
        ("kind=[]", "find.kinds: there is no kind 'STAFF_ID'"),
        ('find.allow={STAF_ID = ["x"]}', "a key is not the name of a kind.*did you mean STAFF_ID"),
    ):
        with pytest.raises(PlanError, match=message):
            load_plan(path, [change])
    plan = load_plan(path)
    assert plan.leak_checked_kinds == ["EMAIL_ADDRESS", "STAFF_ID"] and [
        kind.name for kind in plan.detection_spec.custom_kinds
    ] == ["STAFF_ID"]


def test_settings_that_change_output_are_hashed_and_values_are_not_published(
    tmp_path: Path,
) -> None:
    (tmp_path / "list.txt").write_text("Blue Heron\n\n Falcon \nBlue Heron\n", "utf-8")
    custom = {**STAFF, "words": ["Kestrel"], "words_file": "list.txt", "examples": ["EMP-123456"]}
    plan = load_plan(write_plan(tmp_path, custom))
    assert (
        plan.custom_kinds[0].words == ("Kestrel", "Blue Heron", "Falcon")
        and not plan.custom_kinds[0].words_file
    )
    public_text = json.dumps(plan.public_settings())
    assert plan.public_settings()["kind"][0]["words"] == 3 and not [
        word for word in ("Kestrel", "Heron", "Falcon", "123456") if word in public_text
    ]
    assert load_plan(write_plan(tmp_path, {**custom, "examples": []})).hash() == plan.hash()
    for change in (
        {"words": []},
        {"check": "luhn"},
        {"replacement": "{digits:6}"},
        {"score": 0.5},
        {"case": "exact"},
    ):
        assert load_plan(write_plan(tmp_path, {**custom, **change})).hash() != plan.hash()
    (tmp_path / "list.txt").write_text("Osprey\n", "utf-8")
    assert load_plan(write_plan(tmp_path, custom)).hash() != plan.hash()


# ---- custom kinds in runs ----

TEXTS = [
    "EMP-123456 wrote to ann@example.com about blue  heron; EMP-654321@example.org too.",
    "Again EMP-123456, ＥＭＰ-123456 and emp-654321: BLUE HERON.",
    "EMP-654321, EMP-777777 and EMP-123456 of Blue Heron",
]
PROJECT = {"name": "PROJECT", "words": ["Blue Heron"]}
SETTINGS = Settings(seed=1, workers=1)


def write_corpus(folder: Path, texts: list[str] = TEXTS) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "in.jsonl").write_text(
        "".join(
            json.dumps({"doc_id": f"d{no}", "text": text}) + "\n" for no, text in enumerate(texts)
        ),
        "utf-8",
    )
    return folder / "in.jsonl"


@pytest.mark.slow
def test_run_with_custom_kinds_and_queries_on_its_output(tmp_path: Path) -> None:
    """Through find, vault, rmft, redact and verify, with worker processes; then every command that
    reads the output."""
    source = write_corpus(tmp_path)
    plan = load_plan(write_plan(tmp_path, STAFF, PROJECT, edit="rmft"))
    plan = load_plan(
        str(tmp_path / "own.toml"),
        ["edit.0.kinds=['EMAIL_ADDRESS', 'STAFF_ID']", "leave=['PROJECT']"],
    )
    settings = Settings(seed=1, workers=2, rows_per_shard=1)
    result = run_with_settings([source], tmp_path / "out", plan, settings=settings)
    assert (result.leaks, result.kept_originals, result.by_kind["PROJECT"].left_by_plan) == (
        0,
        5,
        3,
    )
    counts = result.by_kind["STAFF_ID"]
    # full-width and lower-case spellings are found by the leak check, which sweeps them
    assert (counts.occurrences, counts.values, counts.kept, result.verify.swept) == (8, 3, 3, 2)
    texts = read_texts(tmp_path / "out")
    assert (
        [text.count("EMP-123456") for text in texts] == [1, 0, 0]
        and "EMP-654321" in texts[0]
        and "EMP-777777" in texts[2]
    )
    surrogates = re.findall(r"EMP-[0-9]{6}", " ".join(texts))
    assert len(surrogates) == len(set(surrogates)) == 7 and not re.search(
        "[Ee]mp-654321|ＥＭＰ", " ".join(texts)
    )
    assert texts == (
        run_with_settings([source], tmp_path / "again", plan, settings=SETTINGS)
        and read_texts(tmp_path / "again")
    )
    assert verify(tmp_path / "out").leaks == 0
    work = tmp_path / "out.private"
    # the index has no swept occurrences
    assert sql_api.top(work, kind="STAFF_ID")["occurrences"].to_list() == [3, 2, 1]
    with pytest.raises(UsageError, match="did you mean STAFF_ID"):
        sql_api.top(work, kind="STAF_ID")
    assert subject(work, ["EMP-123456"]).occurrences == 3
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert "Blue Heron" not in manifest and '"words": 1' in manifest


@pytest.mark.parametrize("edit", ["redact", "pseudonymize", "rmft"])
def test_every_editor_edits_custom_kinds(tmp_path: Path, edit: str) -> None:
    source = write_corpus(tmp_path)
    plan = load_plan(
        write_plan(tmp_path, STAFF, PROJECT, edit=edit), ["edit.0.keep=0"] if edit == "rmft" else []
    )
    result = run_with_settings([source], tmp_path / "out", plan, settings=SETTINGS)
    texts = " ".join(read_texts(tmp_path / "out"))
    assert result.leaks == 0 and result.kept_originals == 0
    assert not re.search(r"123456|654321|777777|[Bb](?i:lue\s+heron)", texts)
    if edit == "redact":
        assert texts.count("[STAFF_ID]") == 7 and texts.count("[PROJECT]") == 3
    if edit == "pseudonymize":
        first, second = re.findall(r"EMP-[0-9]{6}", texts)[0], re.findall(r"EMP-[0-9]{6}", texts)[2]
        assert first == second  # the same value, the same pseudonym


@pytest.mark.slow
def test_index_is_rebuilt_after_a_changed_pattern_but_not_after_a_changed_replacement(
    tmp_path: Path,
) -> None:
    source, work = write_corpus(tmp_path), tmp_path / "work"

    def notes(**change: Any) -> str:
        plan = load_plan(write_plan(tmp_path, {**STAFF, **change}))
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        return " ".join(run_with_settings([source], out, plan, work, SETTINGS).notes)

    assert notes() == ""
    assert "was built with" not in notes(replacement="S-{digits:6}", examples=["EMP-123456"])
    assert "built with other custom kinds; it is rebuilt" in notes(pattern="EMP-[0-9]{5,6}")
    assert "other custom kinds" in notes(pattern="EMP-[0-9]{5,6}", words=["Falcon"])


def test_allow_lists_and_minimum_scores_of_custom_kinds(tmp_path: Path) -> None:
    custom = {"name": "PIN", "pattern": "[0-9]{4}", "context": ["pin"], "score": 0.3}
    source = write_corpus(tmp_path, ["my pin is 2001" + " x" * 60 + " in 2002", "pin 2003"])
    options = '[find.allow]\nPIN = ["2003"]\n[find.min_score]\nPIN = 0.5\n'
    run_with_settings(
        [source],
        tmp_path / "out",
        load_plan(write_plan(tmp_path, custom, options=options)),
        settings=SETTINGS,
    )
    assert read_texts(tmp_path / "out") == ["my pin is [PIN]" + " x" * 60 + " in 2002", "pin 2003"]


@pytest.mark.slow
def test_stream_gives_the_texts_of_a_run(tmp_path: Path) -> None:
    source = write_corpus(tmp_path)
    plan = load_plan(
        write_plan(tmp_path, STAFF, PROJECT, {"name": "MAY", "words": ["May"], "case": "exact"})
    )
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    rows[2]["text"] += " May may"
    expected = [
        "[STAFF_ID] wrote to [EMAIL_ADDRESS] about [PROJECT]; [EMAIL_ADDRESS] too.",
        "Again [STAFF_ID], [STAFF_ID] and [STAFF_ID]: [PROJECT].",
        "[STAFF_ID], [STAFF_ID] and [STAFF_ID] of [PROJECT] [MAY] may",
    ]
    streamed = []
    for row in stream(iter(rows), plan=plan, seed=1, batch=2):
        streamed.append(row["text"])
        assert "STAFF_ID" not in all_kinds()  # the caller's kinds are unchanged
    record = next(iter(stream(iter(rows), plan="redact", seed=1)))
    assert "EMP-123456" in record["text"]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    run_with_settings([source], tmp_path / "out", plan, settings=SETTINGS)
    run_stream([source], tmp_path / "out.jsonl", plan, None, Settings(seed=1, workers=2, batch=2))
    piped = [
        json.loads(line)["text"]
        for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    ]
    assert (streamed, read_texts(tmp_path / "out"), piped) == (expected,) * 3


@pytest.mark.slow
def test_replay_reproduces_the_output_unless_words_are_missing(tmp_path: Path) -> None:
    source = write_corpus(tmp_path)
    run_with_settings(
        [source],
        tmp_path / "out",
        load_plan(
            write_plan(tmp_path, {**STAFF, "examples": ["EMP-123456"], "inside_words": True})
        ),
        settings=SETTINGS,
    )
    result = replay(tmp_path / "out", source, tmp_path / "again", workers=1)
    assert result.same and result.published and not result.notes
    run_with_settings(
        [source], tmp_path / "listed", load_plan(write_plan(tmp_path, PROJECT)), settings=SETTINGS
    )
    with pytest.raises(UsageError, match=r"a \[\[kind\]\] lists words, which no manifest holds"):
        replay(tmp_path / "listed", source, tmp_path / "third")


IDS = st.integers(0, 40).map(lambda no: f"EMP-{no * 24_391:06}")
TEXTS_WITH_VALUES = st.lists(
    st.one_of(
        IDS,
        IDS,
        st.sampled_from(
            ["blue heron", "Blue\nHeron", "é", "x", "EMP-12", "ann@example.com", "工号"]
        ),
    ),
    max_size=8,
)


@pytest.mark.slow
@given(
    texts=st.lists(TEXTS_WITH_VALUES.map(" ".join), min_size=1, max_size=5), keep=st.integers(0, 1)
)
@settings(max_examples=5, deadline=None)
def test_values_occur_only_as_often_as_kept(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], keep: int
) -> None:
    """After a run every value occurs as often as the plan keeps it, and no surrogate is a value of
    the corpus."""
    folder = tmp_path_factory.mktemp("law")
    plan = load_plan(write_plan(folder, STAFF, PROJECT, edit="rmft"), [f"edit.0.keep={keep}"])
    run_with_settings(
        [write_corpus(folder, texts)], folder / "out", plan, settings=Settings(seed=1, workers=1)
    )
    before, after = "\n".join(texts), "\n".join(read_texts(folder / "out"))
    for value in set(re.findall("EMP-[0-9]{6}", before)):
        assert len(re.findall(value, after)) == keep
    heron = re.compile(r"(?i)blue\s+heron")
    assert len(heron.findall(after)) == min(keep, len(heron.findall(before)))


# ---- sanitize plan test ----


def test_plan_test_checks_the_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    valid = {
        **STAFF,
        "examples": ["EMP-123456", "EMP-000000"],
        "counter_examples": ["EMP-12", "TEMP-1234567"],
    }
    pin = {
        "name": "PIN",
        "pattern": "[0-9]{4}",
        "context": ["pin"],
        "examples": ["pin: 2001"],
        "counter_examples": ["2001"],
    }
    assert check_kind_examples(load_plan(write_plan(tmp_path, valid, pin))).failed == []
    invalid = {
        "name": "CODE",
        "pattern": "[0-9]{4} ?[0-9]{4}",
        "check": "luhn",
        "examples": ["1234 5674", "1234 5675", "nothing", "12345674x", "1234 5674 and"],
        "counter_examples": ["a 1234 5674", "1234"],
    }
    overlapped = {
        "name": "LOSES",
        "pattern": "4111[0-9 ]+",
        "score": 0.1,
        "examples": ["4111 1111 1111 1111"],
    }
    path = write_plan(tmp_path, invalid, pin, overlapped)
    result = check_kind_examples(path)
    assert result.example_count == 10
    assert [
        (failure.kind, failure.list, failure.index, failure.reason) for failure in result.failed
    ] == [
        ("CODE", "examples", 1, "its check (luhn) rejects it"),
        ("CODE", "examples", 2, "nothing in it matches"),
        (
            "CODE",
            "examples",
            3,
            (
                "a letter or digit adjoins it; give the kind inside_words = true if it may occur"
                " inside words"
            ),
        ),
        ("CODE", "examples", 4, "only characters 1 to 9 of 13 match"),
        ("CODE", "counter_examples", 0, "characters 3 to 11 of 11 match"),
        ("LOSES", "examples", 0, "it overlaps a value of another kind, which is preferred"),
    ]
    for arguments, code in (
        (["plan", "test", path, "--json"], 2),
        (["plan", "test", "rmft"], 0),
        (["plan", "tset", path], 2),
    ):
        monkeypatch.setattr("sys.argv", ["sanitize", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert (ended.value.code or 0) == code
        out, err = capsys.readouterr()
        assert "1234 567" not in out + err and "4111" not in out + err
        if "--json" in arguments:
            assert json.loads(out) == result.to_dict() and "6 of 10 examples failed" in err
