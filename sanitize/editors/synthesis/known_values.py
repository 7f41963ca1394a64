"""Forms of values as hashes, in which a surrogate is compared with the values of every kind that a
run knows.

The forms of a value are its spelling and its normalised form, with ASCII letters in lower case, and
where these are a number of at least `MIN_DIGITS` digits without separators, its digits, with and
without the country code 1. A surrogate has the digits between separators too. Forms are hashes
under one subkey for all kinds: a user name `rickard` and the surrogate `Rickard` of a name have one
in common, and so have the telephone number +1 432-555-0185 and the surrogate 143.255.50.185 of an
IP address. A surrogate that shares a form with a known value is drawn again.

The text of a kind with `ambiguous_text` often means something else, and such a kind may have few
possible texts. Its values keep surrogates of other kinds from having their text, and its surrogates
differ from values of other kinds; among themselves these kinds are not compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, to_large_string
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import IdSet, Key, siphash_state
from sanitize.kernels import span_hashes, value_sets
from sanitize.kinds.kind import Kind
from sanitize.storage.parquet_files import read_table

MIN_DIGITS = 7  # a shorter row of digits does not identify a person
NORMALISED = 0  # the column of the normalised form; every value has one
# of the normalised form and of the spelling: the text, its digits, these without the country code
FORM_COUNT = 6
# inverts some bits of the forms of ambiguous kinds, which so equal no others
_AMBIGUOUS = np.int64(0x5A827999_6ED9EBA1)
KNOWN_FORMS_SCHEMA = pa.schema([pa.field("form", pa.int64()), pa.field("first_doc_no", pa.int64())])


def hash_surrogate_forms(kind: Kind, texts: pa.LargeStringArray, key: Key) -> I64:
    """The forms of surrogates of one kind, one row each, with a column for each form; 0: no such
    form."""
    return _hash_forms(
        kind,
        texts,
        to_large_string(kind.normalise(pl.Series(texts, dtype=pl.String))),
        key,
        separated=True,
    )


def hash_value_forms(
    kind: Kind, texts: pa.LargeStringArray, normalised: pa.LargeStringArray, key: Key
) -> I64:
    """The forms of values of one kind, one row each, with a column for each form; 0: no such
    form."""
    return _hash_forms(kind, texts, normalised, key, separated=False)


def _hash_forms(
    kind: Kind,
    texts: pa.LargeStringArray,
    normalised: pa.LargeStringArray,
    key: Key,
    *,
    separated: bool,
) -> I64:
    halves = np.empty((2, len(texts), FORM_COUNT // 2), np.int64)
    state = siphash_state(key.subkey("known_values"))
    for half, column in zip(halves, (normalised, texts), strict=True):
        buffers = TextBuffers.from_array(column)
        span_hashes.hash_forms(buffers.data, buffers.offsets, MIN_DIGITS, separated, state, half)
    forms = np.hstack(list(halves))
    return np.where(forms != 0, forms ^ _AMBIGUOUS, 0) if kind.ambiguous_text else forms


def list_conflicting_forms(kind: Kind, forms: I64) -> I64:
    """The forms that nothing else may have, for surrogates or values of a kind with the given
    `forms`; 0 in columns without one."""
    other_class = np.where(forms != 0, forms ^ _AMBIGUOUS, 0)
    return other_class if kind.ambiguous_text else np.hstack([forms, other_class])


def contains_any(known: IdSet, forms: I64) -> Mask:
    """True for rows with a form that is in the set."""
    found = np.empty(len(forms), np.bool_)
    value_sets.contains_any(np.ascontiguousarray(forms), known.table, found.view(np.uint8))
    return found


@dataclass(frozen=True, repr=False)
class FirstForms:
    """The forms of all values of a corpus, ascending, and the document from which on each is known:
    16 bytes for each form."""

    forms: I64
    first_doc_nos: I64

    @classmethod
    def collect(cls, forms: I64, first_doc_nos: I64) -> FirstForms:
        """The distinct forms in an array of some columns, with the first document of each;
        `first_doc_nos` has one for each row."""
        flat, doc_nos = (
            forms.ravel(),
            np.repeat(first_doc_nos, forms.shape[1] if forms.ndim > 1 else 1),
        )
        rows = np.flatnonzero(flat)
        rows = rows[np.lexsort((doc_nos[rows], flat[rows]))]
        rows = rows[np.diff(flat[rows], prepend=0) != 0]
        return cls(flat[rows], doc_nos[rows])

    @classmethod
    def merge(cls, parts: Sequence[FirstForms]) -> FirstForms:
        """The forms of several parts."""
        return cls.collect(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("forms", "first_doc_nos")
            )
        )

    @classmethod
    def read(cls, path: Path) -> FirstForms:
        """The aggregate `known_forms` in a file; cached for later tasks of this process."""
        return _load_first_forms(path, path.stat().st_mtime_ns)

    def is_known(self, forms: I64, doc_nos: I64) -> Mask:
        """True for rows with a form that is known in document `doc_nos` (one for each row)."""
        if not len(self.forms) or not len(forms):
            return np.zeros(len(forms), np.bool_)
        place = np.minimum(np.searchsorted(self.forms, forms), len(self.forms) - 1)
        is_known = (self.forms[place] == forms) & (self.first_doc_nos[place] <= doc_nos[:, None])
        return np.asarray(is_known.any(axis=1))


@cached_for_run(2)
def _load_first_forms(path: Path, _mtime_ns: int) -> FirstForms:
    table = read_table(path)
    return FirstForms(
        *(np.asarray(table.column(name), np.int64) for name in KNOWN_FORMS_SCHEMA.names)
    )


@cached_for_run(2)
def load_known_forms(path: Path, _mtime_ns: int) -> IdSet:
    """The aggregate `known_forms` in a file, as a set: 16 to 32 bytes for each form. Cached for
    later tasks of this process."""
    return IdSet.of(np.asarray(read_table(path, columns=["form"]).column("form"), np.int64))
