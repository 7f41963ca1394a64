"""No surrogate equals a value of any kind that the run knows. All values are invented."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import IdSet, Key
from sanitize.editors.synthesis.known_values import (
    NORMALISED,
    FirstForms,
    contains_any,
    hash_surrogate_forms,
    hash_value_forms,
    list_conflicting_forms,
)
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import name_pools
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import read_texts

KEY = Key.from_seed(1)
CASES = [  # a value, a surrogate, and whether the surrogate is drawn again
    (("USER_NAME", "rickard"), ("PERSON", "Rickard"), True),
    (("USER_NAME", "@rickard"), ("PERSON", "Rickard"), True),
    (("PERSON", "Rickard"), ("USER_NAME", "rickard"), True),
    (("PERSON", "Berg, Rickard"), ("PERSON", "Rickard Berg"), True),
    (("PERSON", "Rickard Berg"), ("PERSON", "Rickard"), False),
    (("PHONE_NUMBER", "+1 432-555-0185"), ("IP_ADDRESS", "143.255.50.185"), True),
    (("PHONE_NUMBER", "+1 432-555-0185"), ("IP_ADDRESS", "43.255.50.185"), True),
    (("BANK_ACCOUNT", "4325550185"), ("PHONE_NUMBER", "+1 432 555 0185"), True),
    (("PHONE_NUMBER", "432-555-0185 x12"), ("BANK_ACCOUNT", "43-2555-0185"), True),
    (("US_SSN", "432-55-0185"), ("IP_ADDRESS", "43.255.0.185"), True),
    # its digits do not identify an address
    (("IP_ADDRESS", "192.0.21.11"), ("IP_ADDRESS", "192.0.211.1"), False),
    (("IP_ADDRESS", "2001:DB8::1"), ("IP_ADDRESS", "2001:db8::1"), True),
    (("MESSAGE_ID", "q.brindle@example.com"), ("EMAIL_ADDRESS", "Q.Brindle@example.com"), True),
    (("AGE", "47"), ("AGE", "47"), False),  # a text with other meanings, and few of them
    (("USER_NAME", "nbrindle"), ("USER_NAME", "nbrindle"), False),
]


@pytest.mark.parametrize(("value", "surrogate", "expected"), CASES)
def test_forms_in_which_a_surrogate_equals_a_value(
    value: tuple[str, str], surrogate: tuple[str, str], expected: bool
) -> None:
    known = IdSet.of(hash_values(*value).ravel())
    forms = hash_surrogate_forms(
        get_kind(surrogate[0]), pa.array([surrogate[1]], pa.large_string()), KEY
    )
    assert contains_any(known, list_conflicting_forms(get_kind(surrogate[0]), forms)).tolist() == [
        expected
    ]


def hash_values(kind: str, *values: str) -> Any:
    normalised = to_large_string(get_kind(kind).normalise(pl.Series(values)))
    return hash_value_forms(get_kind(kind), pa.array(values, pa.large_string()), normalised, KEY)


def reference_forms(text: str, normalised: str, is_surrogate: bool) -> set[str]:
    """The forms as texts; digits are put in brackets, so that they equal no other text here."""
    forms = {
        "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in side)
        for side in (text, normalised)
    }
    for side in (text, normalised):
        number = re.sub(r"(?<=[0-9])x[0-9]*\Z", "", side)
        pattern = r"[^A-Za-z]*" if is_surrogate else r"[+]?[0-9]+"
        digits = re.sub("[^0-9]", "", number)
        if re.fullmatch(pattern, number) and 7 <= len(digits) <= 64:
            forms |= {digits, digits[1:]} if len(digits) == 11 and digits[0] == "1" else {digits}
    return forms


TEXTS = (
    st.text("019+- .xX", max_size=14)
    | st.text("aA1é ", max_size=4)
    | st.from_regex(r"\A[+]?1?[0-9]{7,10}(x[0-9])?\Z")
    | st.just("1" * 65)
)


@given(TEXTS, TEXTS, TEXTS)
def test_forms_equal_the_reference(text: str, normalised: str, other: str) -> None:
    kind = get_kind("SECRET")
    columns = (pa.array([text], pa.large_string()), pa.array([normalised], pa.large_string()))
    others = hash_surrogate_forms(kind, pa.array([other], pa.large_string()), KEY)
    other_normalised = kind.normalise(pl.Series([other]))[0]
    forms = hash_value_forms(kind, *columns, KEY)
    expected = reference_forms(text, normalised, False)
    assert len(set(forms.ravel().tolist()) - {0}) == len(expected) and forms[0, NORMALISED] > 0
    shares = bool(set(forms.ravel().tolist()) & set(others.ravel().tolist()) - {0})
    assert shares == bool(expected & reference_forms(other, other_normalised, True))


def test_first_forms_are_known_from_their_first_document_on() -> None:
    forms = np.array([[5, 0, 7], [7, 9, 0], [5, 3, 0]])
    first = FirstForms.merge(
        [
            FirstForms.collect(forms[:2], np.array([4, 2])),
            FirstForms.collect(forms[2:], np.array([1])),
        ]
    )
    assert list(zip(first.forms.tolist(), first.first_doc_nos.tolist(), strict=True)) == [
        (3, 1),
        (5, 1),
        (7, 2),
        (9, 2),
    ]
    assert first.is_known(
        np.array([[0, 5], [0, 5], [9, 8], [0, 0]]), np.array([0, 1, 3, 9])
    ).tolist() == [False, True, True, False]


# ---- runs in which a collision is likely ----


def write_rows(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "fallback"), [("surrogates", r"\[PERSON\]"), ("pseudonymize", "[A-Z][a-z]+[0-9]+")]
)
def test_names_beside_user_names_that_are_given_names(
    tmp_path: Path, plan: str, fallback: str
) -> None:
    """Nearly every given name of the list is a user name: a name of one word becomes one of the
    others, or what no value can be."""
    listed = list(dict.fromkeys(name_pools()[0]))
    texts = ["\n".join(f"user: {name}" for name in listed[:-20])]
    texts += [
        f"Dear {name},\nthank you.\nBest regards,\n{name} Brindle"
        for name in ("Johanna", "Gustav", "Ottilie")
    ]
    source = write_rows(tmp_path / "in.jsonl", texts)
    for seed in range(3):
        result = run_with_settings(
            [source], tmp_path / f"{seed}", load_plan(plan), None, Settings(seed=seed, workers=1)
        )
        assert result.leaks == 0
        output = read_texts(tmp_path / f"{seed}")
        # a few are no values: `user: media`
        free = {*listed[-20:], *(line.removeprefix("user: ") for line in output[0].splitlines())}
        for text in output[1:]:
            greeting = text.split(",")[0].removeprefix("Dear ")
            assert re.fullmatch(fallback, greeting) or greeting.lower() in free


NUMBERS = """
[[kind]]
name = "DESK"
pattern = '[0-9]{5}'
context = ["desk"]
[[kind]]
name = "LOCKER"
pattern = '[0-9]{5}'
context = ["locker"]
[find]
kinds = ["DESK", "LOCKER"]
[[edit]]
kinds = ["*"]
"""
EDITORS = {
    "surrogates": 'use = "rmft"\nkeep = 0\nanchors = []',
    "pseudonymize": 'use = "pseudonymize"',
}


@pytest.mark.slow
@pytest.mark.parametrize("editor", EDITORS)
def test_bare_digits_of_two_kinds(tmp_path: Path, editor: str) -> None:
    """Of 100,000 numbers of five digits, 3,000 are values of one kind and 3,000 others of the
    other."""
    (tmp_path / "plan.toml").write_text(NUMBERS + EDITORS[editor])
    numbers = np.random.default_rng(5).permutation(100_000)[:6_000].reshape(2, 30, 100)
    values = {f"{number:05d}" for number in numbers.ravel().tolist()}
    texts = [
        "\n".join(
            f"{word} {number:05d} is free"
            for word, side in zip(("desk", "locker"), row, strict=True)
            for number in side.tolist()
        )
        for row in numbers.swapaxes(0, 1)
    ]
    source = write_rows(tmp_path / "in.jsonl", texts)
    outputs = []
    for rows_per_shard in (7, 100):
        settings = Settings(seed=1, workers=1, rows_per_shard=rows_per_shard)
        result = run_with_settings(
            [source],
            tmp_path / f"{rows_per_shard}",
            load_plan(tmp_path / "plan.toml"),
            None,
            settings,
        )
        assert result.leaks == 0
        outputs.append(read_texts(tmp_path / f"{rows_per_shard}"))
    assert outputs[0] == outputs[1]
    surrogates = re.findall("[0-9]+", "\n".join(outputs[0]))
    assert len(surrogates) == 6_000 and not values & set(surrogates)


# ---- streams ----


STREAM_PLAN = ["edit.0.keep=1", 'find.finders=["patterns"]', 'find.kinds=["default"]']
# a first record, the pattern of the variant in it, and a later record with a value of another kind
# that equals the variant
LATER_VALUES = {
    "spelling": (
        "write to q.brindle@example.com, q.brindle@example.com",
        r"[^ ]+\Z",
        "Message-ID: <{}>",
    ),
    "digits": (
        "from 93.184.216.34, 93.184.216.34",
        r"[^ ]+\Z",
        "SSN: {0:.3}-{0[3]}{0[4]}-{0[5]}{0[6]}{0[7]}{0[8]}.",
    ),
}


@pytest.mark.parametrize("case", LATER_VALUES)
def test_a_later_value_of_another_kind_that_equals_a_variant_is_replaced(case: str) -> None:
    first, pattern, later = LATER_VALUES[case]
    plan, replaced = load_plan("surrogates", STREAM_PLAN), 0
    for seed in range(40):
        (known,) = stream([{"text": first}], plan=plan, seed=seed)
        variant = re.search(pattern, known["text"])[0]  # type: ignore[index]
        if case == "digits":
            variant = variant.replace(".", "")
            if not re.fullmatch("(?!000|666|9)[0-9]{3}(?!00)[0-9]{2}(?!0000)[0-9]{4}", variant):
                continue
        text = later.format(variant)
        rows = [
            {"text": first},
            {"text": "nothing"},
            {"text": text},
            {"text": text},
            {"text": "again " + first},
        ]
        (alone, *_) = stream([{"text": text}], plan=plan, seed=seed)
        assert alone["text"] == text  # by itself it is a first occurrence, and kept
        outputs = [
            [row["text"] for row in stream(rows, plan=plan, seed=seed, batch=batch)]
            for batch in (1, 2, 100)
        ]
        assert outputs[0] == outputs[1] == outputs[2]
        assert (
            outputs[0][0] == known["text"] and text not in outputs[0][2:4] and len(outputs[0]) == 5
        )
        replaced += 1
        if replaced == 3:
            return
    raise AssertionError("no variant is a value of the other kind")
