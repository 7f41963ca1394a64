"""Finds a list of names in a column of texts: in any letter case and Unicode form, across any white
space, also as `Surname, First name`.

Encoded text is searched too (sanitize/text/decodings): `Ann=20Roe`, or a base64 part, where the
span of a match is the whole run of base64.

All names form one alternation, run by the linear-time regex engine of Polars; a name is bounded by
Unicode's word boundaries. Meant for few names (those of one person, or of a list); for many values
use `sanitize/text/literal_search.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import I32, I64
from sanitize.core.arrow_buffers import (
    TextBuffers,
    bytes_to_code_points,
    fill_null_texts,
    find_matches,
    slice_spans,
)
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.span_table import ArrayTable
from sanitize.kinds.east_asian_names import is_full_name
from sanitize.kinds.person import INVISIBLE
from sanitize.kinds.person import normalise_name as normalise_name
from sanitize.text.decodings import ENCODED_FORMS, iter_decodings

PERSON = "PERSON"
FINDER_NAME = "mentions"
_GAP_PATTERN = rf"(?:\s|{INVISIBLE})+"
# `_GAP_PATTERN` has line ends
_SEARCHED_FORMS = tuple(form for form in ENCODED_FORMS if form not in ("digits", "line breaks"))
_UNSPACED_NAME = "[\u3040-\u30ff\u3400-\u9fff々]{2,}"
_LETTER_PATTERN = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, repr=False)
class NameMatches(ArrayTable):
    """Occurrences of names in a column, ascending: number of the text, start and end byte in the
    column, and `value_id`."""

    text_no: I64
    start: I64
    end: I64
    value_id: I64


def is_too_common(name: str) -> bool:
    """True for a name that would match many people: fewer than two words (initials do not count),
    or fewer than five letters in all; in scripts that separate no words, fewer than three
    characters, or no family name and given name."""
    if is_full_name(pl.Series([normalise_name(pl.Series([name]))[0]], dtype=pl.String))[0]:
        return False
    words = [word for word in name.split() if len(_LETTER_PATTERN.findall(word)) > 1]
    return len(words) < 2 or len(_LETTER_PATTERN.findall(name)) < 5


def compute_name_ids(names: Sequence[str], key: Key) -> I64:
    """Returns the `value_id` of each name; names are normalised by `normalise_name`."""
    return compute_value_ids(pa.array(list(names), pa.large_string()), PERSON, key)


def find_names(texts: pa.LargeStringArray, names: Sequence[str], key: Key) -> NameMatches:
    """Returns all occurrences of `names` (normalised by `normalise_name`) in a column of texts
    without nulls."""
    buffers = TextBuffers.from_array(texts)
    if not names or not len(buffers.data):
        empty = np.empty(0, np.int64)
        return NameMatches(empty, empty, empty, empty)
    start, stop = find_matches(buffers, _names_pattern(names))
    normalised = normalise_name(pl.Series(slice_spans(buffers, start, stop)))
    known = pl.DataFrame(
        {"name": list(names), "value_id": compute_name_ids(names, key)},
        schema={"name": pl.String, "value_id": pl.Int64},
    )
    ids = pl.DataFrame({"name": normalised}).join(
        known, on="name", how="left", maintain_order="left"
    )["value_id"]
    # The pattern ignores letter case more widely than `normalise_name` (a dotless i matches i), so
    # the normalised match may equal no name. It counts as an occurrence of the first one.
    ids = ids.fill_null(known["value_id"][0])
    return NameMatches(
        np.searchsorted(buffers.offsets, start, side="right") - 1, start, stop, ids.to_numpy()
    )


def find_encoded_names(texts: pa.LargeStringArray, names: Sequence[str], key: Key) -> NameMatches:
    """Returns the occurrences of names in encoded text of a column without nulls, with the spans of
    the encoded text."""
    buffers, empty = TextBuffers.from_array(texts), np.empty(0, np.int64)
    found = [(empty, empty, empty, empty)]
    for decoding in iter_decodings(texts, max_match_bytes(names), _SEARCHED_FORMS) if names else ():
        pieces = to_valid_utf8(decoding.pieces)
        matches = find_names(pieces, names, key)
        base = TextBuffers.from_array(pieces).offsets[matches.text_no]
        encoded = decoding.find_encoded_spans(
            matches.text_no, matches.start - base, matches.end - base
        )
        first, rows = buffers.offsets[encoded.text_no], np.flatnonzero(encoded.is_encoded)
        found.append(
            (
                encoded.text_no[rows],
                (first + encoded.start)[rows],
                (first + encoded.end)[rows],
                matches.value_id[rows],
            )
        )
    text_no, start, stop, ids = (np.concatenate(column) for column in zip(*found, strict=True))
    # one span may match in two forms
    _, distinct = np.unique(np.column_stack([start, stop]), axis=0, return_index=True)
    return NameMatches(text_no[distinct], start[distinct], stop[distinct], ids[distinct])


def count_encoded_names(
    texts: pa.LargeStringArray, names: Sequence[str], forms: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Yields each of the given encoded forms that occurs, with the number of occurrences of names
    in it."""
    for decoding in (
        iter_decodings(
            texts, max_match_bytes(names), tuple(form for form in forms if form in _SEARCHED_FORMS)
        )
        if names
        else ()
    ):
        yield decoding.form, count_names(to_valid_utf8(decoding.pieces), names)


def max_match_bytes(names: Sequence[str]) -> int:
    """Returns how many bytes around an escape are searched for a name, which may contain invisible
    characters."""
    return 16 * max(len(name.encode()) for name in names)


def to_valid_utf8(pieces: pa.LargeStringArray) -> pa.LargeStringArray:
    """Returns decoded bytes as texts of the same length in bytes: a byte that is not valid UTF-8
    becomes a control character."""
    raw = pieces.cast(pa.large_binary())
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        # a loop over decoded pieces, which are few: Arrow cannot replace invalid bytes
        texts = (piece.decode("utf-8", "surrogateescape") for piece in raw.to_pylist())
        return pa.array(
            [re.sub("[\udc80-\udcff]", "\x7f", text) for text in texts], pa.large_string()
        )


def count_names(texts: pa.LargeStringArray, names: Sequence[str]) -> int:
    """Counts the occurrences of `names` in a column of texts."""
    return (
        int(pl.Series(texts.fill_null("")).str.count_matches(_names_pattern(names)).sum())
        if names
        else 0
    )


def _names_pattern(names: Sequence[str]) -> str:
    forms, unspaced = set(), set()
    for name in names:
        if re.fullmatch(_UNSPACED_NAME, name):
            # has no word boundaries beside it, and may have a blank inside
            unspaced.add(rf"(?:{_GAP_PATTERN})?".join(_word_pattern(letter) for letter in name))
            continue
        words = [_word_pattern(word) for word in name.split()]
        forms.add(_GAP_PATTERN.join(words))
        if len(words) > 1:
            forms.add(words[-1] + r"\s*,\s*" + _GAP_PATTERN.join(words[:-1]))
    # the longest first: `ann marie roe` before `ann marie`
    bounded, free = (
        "|".join(sorted(group, key=lambda form: (-len(form), form))) for group in (forms, unspaced)
    )
    return "(?i)" + "|".join(
        rf"\b(?:{bounded})\b" if group is bounded else group for group in (bounded, free) if group
    )


def _word_pattern(word: str) -> str:
    """Returns a pattern of a word, letter by letter in every Unicode form, with or without
    invisible characters in between."""
    return (INVISIBLE + "*").join(
        "(?:" + "|".join(dict.fromkeys(map(re.escape, _letter_spellings(letter)))) + ")"
        for letter in word
    )


def _letter_spellings(letter: str) -> list[str]:
    wide = chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter
    return [letter, unicodedata.normalize("NFD", letter), wide]


def build_occurrence_rows(
    texts: pa.LargeStringArray, doc_no: I64, cell: I32, names: Sequence[str], key: Key
) -> pl.DataFrame:
    """Returns the occurrences of names in a column as rows of the table `occurrences`; `doc_no` and
    `cell` are the document and text cell of each text."""
    texts = fill_null_texts(texts)
    plain_and_encoded = (find_names(texts, names, key), find_encoded_names(texts, names, key))
    found = NameMatches.concat(plain_and_encoded)
    buffers = TextBuffers.from_array(texts)
    start, stop = bytes_to_code_points(buffers, found.text_no, found.start, found.end)
    text_start = buffers.offsets[found.text_no]
    return pl.DataFrame(
        {
            "doc_no": doc_no[found.text_no],
            "cell": cell[found.text_no].astype(np.int32),
            "start": start,
            "end": stop,
            "start_byte": found.start - text_start,
            "end_byte": found.end - text_start,
        }
    ).with_columns(
        pl.lit(PERSON).alias("kind"),
        pl.Series("value_id", found.value_id, pl.Int64),
        pl.lit(FINDER_NAME).alias("finder"),
        pl.lit(1.0, pl.Float32).alias("score"),
        pl.lit(None, pl.String).alias("section"),
        pl.lit(None, pl.Int64).alias("entity_id"),
    )
