"""Automata against Python's `re` on random expressions and texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kinds.byte_automaton import ByteAutomaton, build_automaton

ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", "[a-c]", ".", r"\.", "[.-]", "0", "[0-9]"])
QUANTIFIERS = st.sampled_from(["", "", "?", "*", "+", "{2}", "{0,2}", "{1,}", "{0}"])
EXPRESSIONS = st.recursive(
    st.tuples(ATOMS, QUANTIFIERS).map("".join),
    lambda inner: st.one_of(
        st.lists(inner, min_size=0, max_size=3).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, QUANTIFIERS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=8,
)


def accepts(automaton: ByteAutomaton, text: bytes) -> bool:
    state = 1
    for byte in text:
        state = automaton.next_state[state, byte]
    return bool(automaton.is_final[state])


@given(EXPRESSIONS, st.lists(st.text("abc.-0é\n", max_size=7), min_size=1, max_size=12))
def test_automata_accept_what_the_expression_matches_from_end_to_end(
    pattern: str, texts: list[str]
) -> None:
    automaton, expression = build_automaton(pattern), re.compile(pattern.encode(), re.DOTALL)
    for text in texts:
        assert accepts(automaton, text.encode()) == bool(expression.fullmatch(text.encode())), (
            pattern,
            text,
        )


@pytest.mark.parametrize(
    "pattern", ["a)", "(?:a", "(a)", "a**", "^a", "a$", "[a", "a{2", "é", "\\"]
)
def test_other_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="unexpected|expected|ends too early"):
        build_automaton(pattern)
