"""The forms in which most values of a kind are written, as data for a compiled loop: nearly all
candidates need none of the functions of their kind.

The functions decide what a kind is; a form only says the same for some values
(tests/kinds/test_plain_forms.py compares the two). What no form covers goes to the functions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sanitize.array_types import I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kernels import plain_forms as plain_forms_kernel
from sanitize.kinds.byte_automaton import build_automaton

BRACKETED, ID_FIELD, ADDRESS_FIELD = 4, 2, 1  # the marks of a candidate, added up
EVERYWHERE = frozenset(range(8))
IN_ID_FIELDS = frozenset({ID_FIELD, ID_FIELD | BRACKETED})
OUTSIDE_ID_FIELDS = EVERYWHERE - IN_ID_FIELDS
UNBRACKETED = frozenset(mark for mark in EVERYWHERE if not mark & BRACKETED)
# neither in an id field nor in brackets, or in an address field
UNMARKED = EVERYWHERE - IN_ID_FIELDS - {BRACKETED}
_UNLIMITED = 1 << 62

LOWER_CASE = bytes(range(256)).lower()
AS_WRITTEN = bytes(range(256))


def keep_only(characters: bytes) -> bytes:
    """The table that keeps these characters and leaves out all others."""
    return bytes(byte if byte in characters else 0 for byte in range(256))


@dataclass(frozen=True, kw_only=True)
class PlainForm:
    """Values that are of a kind and of no kind before it in its phase, have no prefix or suffix to
    cut off, and pass the kind's check.

    pattern     What the values match from end to end, in ASCII (see `build_automaton`).
    unless      Those of them to which this does not apply.
    marks       The marks of candidates that the form is for: sums of BRACKETED, ID_FIELD and
                ADDRESS_FIELD.
    max_bytes   The greatest length of a value of this form.
    normalised  The normalised form, byte by byte: a table of 256 bytes, in which 0 leaves a byte
    out.
    prefix      What the normalised form begins with, at most two bytes.
    needs_context   What `Kind.needs_context` says.
    """

    pattern: str
    unless: str = ""
    marks: frozenset[int] = EVERYWHERE
    max_bytes: int = _UNLIMITED
    normalised: bytes = AS_WRITTEN
    prefix: bytes = b""
    needs_context: bool = False


class FormTable:
    """Several forms as the tables of the compiled loops. An exception that is empty accepts the
    empty value, which no form does."""

    def __init__(self, forms: Sequence[PlainForm]) -> None:
        automata = [
            build_automaton(pattern) for form in forms for pattern in (form.pattern, form.unless)
        ]
        first_states = np.cumsum([0, *(len(one.is_final) for one in automata)])
        self._next_state = np.zeros((int(first_states[-1]), 256), np.int32)
        for first, one in zip(first_states, automata, strict=False):
            # every automaton's state 0 becomes that of the first
            self._next_state[first : first + len(one.is_final)] = np.where(
                one.next_state > 0, one.next_state + first, 0
            )
        self._is_final = np.concatenate(
            [np.zeros(0, np.uint8), *(one.is_final.view(np.uint8) for one in automata)]
        )
        self._initial, self._initial_unless = np.ascontiguousarray(
            (first_states[:-1] + 1).reshape(-1, 2).T
        )
        self._marks = np.array([sum(1 << mark for mark in form.marks) for form in forms], np.uint8)
        self._max_bytes = np.array([form.max_bytes for form in forms], np.int64)
        with_other = [*forms, PlainForm(pattern="")]  # the last entry serves form -1
        self._tables = np.frombuffer(b"".join(form.normalised for form in with_other), np.uint8)
        self._prefixes = np.frombuffer(
            b"".join(form.prefix.ljust(2, b"\0") for form in with_other), np.uint8
        ).reshape(-1, 2)
        self.needs_context: Mask = np.array([form.needs_context for form in with_other], np.bool_)

    def match(self, values: TextBuffers, marks: U8) -> I64:
        """The number of the first form that each value has, or -1."""
        forms = np.empty(len(marks), np.int64)
        automata = self._next_state.ravel(), self._is_final, self._initial, self._initial_unless
        plain_forms_kernel.match_forms(
            values.data, values.offsets, marks, *automata, self._marks, self._max_bytes, forms
        )
        return forms

    def normalise(self, values: TextBuffers, forms: I64) -> TextBuffers:
        """The normalised form of each value; as written for form -1."""
        forms = np.where(forms < 0, len(self._marks), forms)
        offsets = np.empty(len(forms) + 1, np.int64)
        normalised = np.empty(len(values.data) + self._prefixes.shape[1] * len(forms) + 1, np.uint8)
        plain_forms_kernel.translate_values(
            values.data, values.offsets, forms, self._prefixes, self._tables, offsets, normalised
        )
        return TextBuffers(normalised[: offsets[-1]], offsets)


# a run makes the same finder several times: for the canaries, for names of columns, for the texts
@functools.cache
def make_form_table(forms: tuple[PlainForm, ...]) -> FormTable:
    """The table of these forms."""
    return FormTable(forms)
