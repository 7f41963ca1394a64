"""Plain forms say the same as the functions of their kind, and of all kinds before it; their loops
against Python."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder, _DistinctCandidates
from sanitize.kinds.byte_automaton import build_automaton
from sanitize.kinds.kind import Kind, builtin_kinds, known_countries
from sanitize.kinds.plain_forms import (
    AS_WRITTEN,
    EVERYWHERE,
    LOWER_CASE,
    FormTable,
    PlainForm,
    keep_only,
)
from tests.support import to_buffers

FINDER = PatternFinder(
    Key.from_seed(1), known_countries(), [kind.name for kind in builtin_kinds().values()]
)
KINDS_AND_FORMS = [(kind, form) for kind in FINDER.kinds for form in kind.plain_forms]


def draw_values(pattern: str, random: Random, count: int) -> list[str]:
    """Values that `pattern` matches: walks through its automaton, in which each next state is
    equally likely."""
    automaton = build_automaton(pattern)
    bytes_to = [
        {state: np.flatnonzero(row == state).tolist() for state in set(row.tolist()) - {0}}
        for row in automaton.next_state
    ]
    values = []
    while len(values) < count:
        state, value = 1, bytearray()
        while (
            bytes_to[state]
            and len(value) < 60
            and not (automaton.is_final[state] and random.random() < 0.3)
        ):
            after = random.choice(sorted(bytes_to[state]))
            value.append(random.choice(bytes_to[state][after]))
            state = after
        if automaton.is_final[state]:
            values.append(value.decode("ascii"))
    return values


@pytest.mark.parametrize(
    ("kind", "form"),
    KINDS_AND_FORMS,
    ids=[f"{kind.name}-{form.pattern[:30]}" for kind, form in KINDS_AND_FORMS],
)
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32))
def test_form_says_what_the_functions_of_the_kinds_say(
    kind: Kind, form: PlainForm, seed: int
) -> None:
    table, mark = FormTable([form]), min(form.marks)
    drawn = draw_values(form.pattern, Random(seed), 150)
    values = [
        value
        for value, no in zip(
            drawn, table.match(to_buffers(drawn), np.full(len(drawn), mark, np.uint8)), strict=True
        )
        if no == 0
    ]
    assert len(values) > 10
    expected_marks = [one for _ in values for one in sorted(form.marks)]
    texts = to_buffers([value for value in values for _ in form.marks])
    candidates = _DistinctCandidates(texts, np.array(expected_marks, np.uint8))
    kinds, cut_before, cut_after, refused = FINDER._assign_kinds_by_rules(
        candidates, kind.phase, False
    )
    assert {FINDER.kinds[number].name if number >= 0 else "none" for number in kinds} == {kind.name}
    assert not cut_before.any() and not cut_after.any() and not refused
    series = pl.Series("value", values)
    normalised = table.normalise(to_buffers(values), np.zeros(len(values), np.int64))
    assert normalised.to_array().to_pylist() == kind.normalise(series).to_list()
    needs_context = (
        kind.needs_context(series).to_list()
        if kind.needs_context is not None
        else [False] * len(values)
    )
    assert needs_context == [form.needs_context] * len(values)


@given(
    st.lists(st.tuples(st.text("aA@-1é\0", max_size=6), st.integers(0, 7)), max_size=12),
    st.lists(
        st.builds(
            PlainForm,
            pattern=st.sampled_from(["[a-z]+", "a*@?", "[^@]+", "1{1,3}"]),
            unless=st.sampled_from(["", "aa.*", ".*1"]),
            marks=st.frozensets(st.integers(0, 7)),
            max_bytes=st.integers(0, 6),
            normalised=st.sampled_from([LOWER_CASE, AS_WRITTEN, keep_only(b"a1")]),
            prefix=st.sampled_from([b"", b"+", b"+1"]),
        ),
        max_size=4,
    ),
)
def test_first_form_is_found_and_applied(
    values: list[tuple[str, int]], forms: list[PlainForm]
) -> None:
    texts, marks = [text for text, _ in values], [mark for _, mark in values]

    def reference_form(text: str, mark: int) -> int:
        encoded = text.encode()
        for number, form in enumerate(forms):
            matches = re.fullmatch(form.pattern.encode(), encoded) and not re.fullmatch(
                form.unless.encode(), encoded, re.DOTALL
            )
            if mark in form.marks and len(encoded) <= form.max_bytes and matches:
                return number
        return -1

    def reference_normalised(text: str, number: int) -> bytes:
        form = forms[number] if number >= 0 else PlainForm(pattern="")
        return form.prefix + bytes(
            form.normalised[byte] for byte in text.encode() if form.normalised[byte]
        )

    table = FormTable(forms)
    found = table.match(to_buffers(texts), np.array(marks, np.uint8))
    assert found.tolist() == [reference_form(text, mark) for text, mark in values]
    normalised = table.normalise(to_buffers(texts), found)
    data, offsets = normalised.data.tobytes(), normalised.offsets
    expected = [
        reference_normalised(text, number)
        for text, number in zip(texts, found.tolist(), strict=True)
    ]
    assert [
        data[start:end] for start, end in zip(offsets[:-1], offsets[1:], strict=True)
    ] == expected


def test_forms_apply_everywhere_unless_they_say_otherwise() -> None:
    assert PlainForm(pattern="a").marks == EVERYWHERE == frozenset(range(8))
