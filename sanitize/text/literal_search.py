"""Finds given values in a column of texts, for finders and the leak check, in the forms `exact`,
`case-folded` (ASCII letter case ignored) and `NFKC` (each character in its Unicode compatibility
form).

A search term is a spelling of a value. Terms are found in one pass over the bytes of a text
(sanitize/kernels/term_search.py). The search is exact, and as fast for many values as for few. It
does not use the pattern of a kind, only its boundary rule.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, U8, U32, U64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    ascii_lower,
    fill_columns,
    make_byte_table,
    to_large_string,
)
from sanitize.core.intervals import TextSpans, sort_spans
from sanitize.core.span_table import ArrayTable
from sanitize.kernels.term_search import (
    find_terms,
    hash_terms,
    set_bits,
    set_next_bits,
    set_start_bits,
)
from sanitize.kinds.kind import ASCII_WORD_CHARS, all_kinds, boundary_tables
from sanitize.text.decodings.character_classes import FOLDS, FOLDS_TO_ASCII, find_character_places
from sanitize.text.decodings.decoded_pieces import Decoding
from sanitize.text.decodings.escapes import decode_escapes, decode_places
from sanitize.text.decodings.plain_readings import to_plain_spelling

_VALUES_PER_BATCH = 100_000  # values that are read at a time
_MATCHER_ARRAYS = (
    "kind",
    "value_id",
    "data",
    "offsets",
    "lengths",
    "inside_lengths",
    "is_forbidden_before",
    "term_stats",
    "blank_pairs",
)
_START_FILTER_BYTES = 1 << 14  # half of the first-level cache
_BLANK = ord(" ")
_UPPER, _LOWER = slice(ord("A"), ord("Z") + 1), slice(ord("a"), ord("z") + 1)
_LETTERS_AND_DIGITS = np.zeros(256, np.uint8)  # bits of `find_terms`
(
    _LETTERS_AND_DIGITS[_UPPER],
    _LETTERS_AND_DIGITS[_LOWER],
    _LETTERS_AND_DIGITS[ord("0") : ord("9") + 1],
) = 8, 8, 16


@dataclass(frozen=True, repr=False)
class LiteralMatches(ArrayTable):
    """Matches of search terms in a column, one row each: number of the text, start and end byte in
    it, and the row of the term."""

    text_no: I64
    start: I64
    end: I64
    term: I64


class LiteralMatcher:
    """Finds many literal terms at once in a column of texts, in any ASCII letter case.

    A term is a spelling of a value, with its kind, whose boundary rule applies, and its `value_id`.
    """

    def __init__(
        self, terms: pa.LargeStringArray, kind: I32, value_id: I64, *, inside_words: bool = False
    ) -> None:
        self.kind, self.value_id = kind, value_id
        self._load_kind_rules()
        buffers = TextBuffers.from_array(terms)
        self.data, self.offsets, self.lengths = buffers.data, buffers.offsets, buffers.lengths
        # the bytes from which a term is found between letters, or between digits (see `find`)
        self.inside_lengths = np.zeros(len(kind), np.uint8)
        if inside_words:
            self.inside_lengths = self.certain_lengths[kind].astype(np.uint8)
        kinds_present = np.unique(kind)
        # bytes that no kind of these terms may follow
        self.is_forbidden_before: Mask = (
            np.all(self.not_before[kinds_present], axis=0)
            if len(kinds_present)
            else np.zeros(256, np.bool_)
        )
        # whether any term has a character beyond ASCII, the length of the longest term, and the
        # least of `inside_lengths`
        is_non_ascii, max_length = (buffers.data >= 128).any(), self.lengths.max(initial=0)
        self.term_stats = np.array(
            [is_non_ascii, max_length, self.inside_lengths.min(initial=255)], np.int64
        )
        self.blank_pairs = _find_blank_pairs(buffers)
        self._index = TermIndex.build(buffers, self.inside_lengths)

    def _load_kind_rules(self) -> None:
        self.kind_names = list(all_kinds())
        self.not_before, self.not_after = boundary_tables(list(all_kinds().values()))
        # an accent after a word makes it another word; a pattern has byte boundaries, which ignore
        # an accent just as they ignore `é`
        self.checks_accents = np.array([not kind.pattern for kind in all_kinds().values()])
        self.is_word_byte = make_byte_table(ASCII_WORD_CHARS)
        self.certain_lengths = np.array([kind.certain_length for kind in all_kinds().values()])

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def from_values(cls, values: pl.DataFrame) -> LiteralMatcher | None:
        """A matcher for all spellings of a few values: columns value_id, kind (a number in
        `all_kinds`), value, normalised. None if all are too common to be searched."""
        searched = values.filter(~find_common_values(values)).rename({"value": "term"})
        if not searched.height:
            return None
        spellings = pl.concat(
            [
                searched.with_columns(ascii_lower(searched["term"])),
                spell_beyond_ascii(searched, "term"),
            ]
        )
        terms = spellings.filter(pl.col("term") != "").unique(
            ["term", "kind"], keep="first", maintain_order=True
        )
        return cls(
            to_large_string(terms["term"]), terms["kind"].to_numpy(), terms["value_id"].to_numpy()
        )

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name in _MATCHER_ARRAYS:
            np.save(folder / name, getattr(self, name))
        self._index.save(folder / "index")

    @classmethod
    def load(cls, folder: Path) -> LiteralMatcher:
        """Loads what `save` wrote, memory-mapped: pages are read on first use and shared with other
        processes."""
        matcher = cls.__new__(cls)
        vars(matcher).update({name: _load_array(folder / name) for name in _MATCHER_ARRAYS})
        matcher._load_kind_rules()
        matcher._index = TermIndex.load(folder / "index")
        return matcher

    def find(self, texts: pa.LargeStringArray, check_boundaries: bool = True) -> LiteralMatches:
        """Returns all matches of all terms in a column of texts, in any ASCII letter case; with
        `check_boundaries` only those that the boundary rule of their kind allows. With
        `inside_words` a term that begins or ends between two letters, or between two digits, is
        found only from the `certain_length` of its kind on."""
        buffers = TextBuffers.from_array(texts)
        if not len(self) or not len(buffers.data):
            return LiteralMatches.empty()
        byte_rules = self.is_word_byte.astype(np.uint8)
        if check_boundaries:
            byte_rules |= self.is_forbidden_before.astype(np.uint8) << 1
        byte_rules |= _LETTERS_AND_DIGITS
        inside = self.inside_lengths, int(self.term_stats[2])
        (text_no, start, end), term = self._index.find(
            buffers, byte_rules, self.data, self.offsets, *inside
        )
        if check_boundaries:
            is_valid = self._has_valid_boundaries(buffers, start, end, text_no, term)
            start, term, end, text_no = (
                start[is_valid],
                term[is_valid],
                end[is_valid],
                text_no[is_valid],
            )
        order = sort_spans(start, end)
        base = buffers.offsets[text_no]
        return LiteralMatches(
            text_no[order], (start - base)[order], (end - base)[order], term[order]
        )

    def _has_valid_boundaries(
        self, buffers: TextBuffers, start: I64, end: I64, text_no: I64, term: I64
    ) -> Mask:
        data, kind, last = buffers.data, self.kind[term], max(len(buffers.data) - 1, 0)
        bad_before = (
            (start > buffers.offsets[text_no])
            & self.is_word_byte[data[start]]
            & self.not_before[kind, data[np.maximum(start - 1, 0)]]
        )
        bad_after = (end < buffers.offsets[text_no + 1]) & self.is_word_byte[data[end - 1]]
        bad_after &= self.not_after[kind, data[np.minimum(end, last)]] | self.checks_accents[
            kind
        ] & _is_accent(data, end)
        is_valid: Mask = ~(bad_before | bad_after)
        return is_valid

    def find_nfkc(self, texts: pa.LargeStringArray) -> LiteralMatches:
        """Returns matches that appear only once characters are in their compatibility form (NFKC);
        byte offsets are those of the original text. With boundaries, as `find`."""
        folded = self.decode_nfkc(texts)
        if folded is None:
            return LiteralMatches.empty()
        found = self.find(folded.pieces)
        spans = folded.find_encoded_spans(found.text_no, found.start, found.end)
        rows = spans.is_encoded  # other matches are found by `find` anyway
        return LiteralMatches(
            spans.text_no[rows], spans.start[rows], spans.end[rows], found.term[rows]
        )

    def decode_nfkc(self, texts: pa.LargeStringArray) -> Decoding | None:
        """Texts around characters whose compatibility form (NFKC, case-folded) is another one, in
        that form: as wide as the longest term on either side. None if there is none, or if no term
        can match in one."""
        # terms of ASCII are not changed by a character whose compatibility form has none
        classes = FOLDS if self.term_stats[0] else FOLDS_TO_ASCII
        buffers = TextBuffers.from_array(texts)
        folded = (
            decode_places(buffers, find_character_places(buffers, classes), _fold_bytes)
            if len(self)
            else None
        )
        return (
            None
            if folded is None
            else decode_escapes("NFKC", buffers, folded, int(self.term_stats[1]) + 4)
        )


def iter_value_batches(value_files: Sequence[Path]) -> Iterator[pl.DataFrame]:
    """Yields the values of a vault, `_VALUES_PER_BATCH` rows at a time."""
    for path in value_files:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(
                _VALUES_PER_BATCH,
                columns=["value_id", "kind", "value", "normalised"],
                use_threads=False,
            ):
                yield pl.DataFrame(pa.Table.from_batches([batch])).with_columns(
                    pl.col("kind").cast(pl.String)
                )


def _load_array(path: Path) -> npt.NDArray[Any]:
    return np.asarray(np.load(path.with_name(f"{path.name}.npy"), mmap_mode="r"))


def find_common_values(frame: pl.DataFrame) -> pl.Series:
    """Which values their kind reports as too common to be searched for (`is_distinctive`), as a
    mask: columns `value`, `normalised` and `kind` (a number)."""
    predicates = {
        number: kind.is_distinctive
        for number, kind in enumerate(all_kinds().values())
        if kind.is_distinctive is not None
    }
    is_common = pl.Series(np.zeros(frame.height, np.bool_))
    for number in frame["kind"].unique():
        is_distinctive = predicates.get(number)
        if is_distinctive is not None:
            rows = (frame["kind"] == number).arg_true()
            values = frame.select("value", normalised=pl.coalesce("normalised", "value"))[rows]
            plain = pl.Series(to_plain_spelling(to_large_string(values["value"])))
            values = values.with_columns(value=plain)
            is_common = is_common.scatter(rows, ~is_distinctive(values))
    return is_common


@dataclass(frozen=True, repr=False)
class TermIndex:
    """The tables and filters by which `find_terms` finds terms (sanitize/kernels/term_search.py);
    about 60 bytes per term."""

    first_bytes: U8
    key: U64
    widths: U8
    start_filter: U64
    head_filter: U64
    head_directory: U32
    head_hashes: U64
    length_ranges: U32
    head_lengths: U32
    tail_filter: U64
    term_directory: U32
    term_hashes: U64
    term_rows: U32

    @classmethod
    def build(cls, terms: TextBuffers, inside_lengths: U8) -> TermIndex:
        """The index of terms; `inside_lengths` has for each the bytes from which it may begin or
        end inside a word or number."""
        head_hashes, edge_hashes, hashes = np.zeros((3, len(terms.lengths)), np.uint64)
        key = np.frombuffer(secrets.token_bytes(16), np.uint64) | np.uint64(1)
        hash_terms(terms.data, terms.offsets, key, head_hashes, edge_hashes, hashes)
        start_filter = np.zeros((3, _START_FILTER_BYTES // 8), np.uint64)
        set_start_bits(
            terms.data, terms.offsets, np.zeros(len(inside_lengths), np.uint8), start_filter[0]
        )
        set_start_bits(terms.data, terms.offsets, inside_lengths, start_filter[1])
        set_next_bits(terms.data, terms.offsets, inside_lengths, start_filter[2])
        # the distinct (hash of the head, length), and where those of each hash begin
        order = np.lexsort((terms.lengths, head_hashes))
        heads, lengths = head_hashes[order], terms.lengths[order]
        is_new_head = np.append(True, heads[1:] != heads[:-1])[: len(heads)]
        is_new_pair = is_new_head | np.append(True, lengths[1:] != lengths[:-1])[: len(heads)]
        heads, lengths, is_new_head = (
            heads[is_new_pair],
            lengths[is_new_pair],
            is_new_head[is_new_pair],
        )
        order = np.argsort(hashes, kind="stable")
        return cls(
            _find_first_bytes(terms),
            key,
            np.unique(np.minimum(terms.lengths, 8)).astype(np.uint8),
            start_filter,
            _make_filter(heads[is_new_head]),
            _make_directory(heads[is_new_head]),
            heads[is_new_head],
            np.append(np.flatnonzero(is_new_head), len(heads)).astype(np.uint32),
            lengths.astype(np.uint32),
            _make_filter(edge_hashes),
            _make_directory(hashes[order]),
            hashes[order],
            order.astype(np.uint32),
        )

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for column in fields(self):
            np.save(folder / column.name, getattr(self, column.name))

    @classmethod
    def load(cls, folder: Path) -> TermIndex:
        """Loads what `save` wrote, memory-mapped."""
        return cls(*(_load_array(folder / column.name) for column in fields(cls)))

    def find(
        self,
        buffers: TextBuffers,
        byte_rules: U8,
        term_data: U8,
        term_offsets: I64,
        inside_lengths: U8,
        min_inside_length: int,
    ) -> tuple[TextSpans, I64]:
        """Returns all matches, in order of their starts, and the row of the term of each."""
        tables = (getattr(self, column.name) for column in fields(self)[1:])
        rules: U8 = byte_rules | (self.first_bytes << np.uint8(2))
        text_no, start, row = fill_columns(
            partial(
                find_terms,
                buffers.data,
                buffers.offsets,
                rules,
                *tables,
                term_data,
                term_offsets,
                inside_lengths,
                min_inside_length,
            ),
            column_count=3,
        )
        return TextSpans(text_no, start, start + term_offsets[row + 1] - term_offsets[row]), row


def _find_first_bytes(terms: TextBuffers) -> U8:
    """1 for each byte, in either letter case, with which a term begins."""
    table = np.zeros(256, np.uint8)
    table[terms.data[terms.offsets[:-1][terms.lengths > 0]]] = 1
    table[_UPPER] = table[_LOWER]
    return table


def _find_blank_pairs(terms: TextBuffers) -> Mask:
    """True at [a, b] where a blank in a term is between the bytes a and b, in either letter case;
    any byte is beside one at its end."""
    table = np.zeros((256, 256), np.bool_)
    blanks = np.flatnonzero(terms.data == _BLANK)
    term = np.searchsorted(terms.offsets, blanks, side="right") - 1
    is_first, is_last = blanks == terms.offsets[term], blanks + 1 == terms.offsets[term + 1]
    before, after = (
        terms.data[np.maximum(blanks - 1, 0)],
        terms.data[np.minimum(blanks + 1, len(terms.data) - 1)],
    )
    table[before[~is_first & ~is_last], after[~is_first & ~is_last]] = True
    table[:, after[is_first & ~is_last]] = True
    table[before[~is_first & is_last]] = True
    table |= bool((is_first & is_last).any())
    table[_UPPER] |= table[_LOWER]
    table[:, _UPPER] |= table[:, _LOWER]
    return table


def _make_filter(hashes: U64) -> U64:
    """A filter of 16 to 32 bits per hash."""
    bits = np.zeros(max(2, (1 << (16 * len(hashes)).bit_length()) // 64), np.uint64)
    set_bits(hashes, bits)
    return bits


def _make_directory(hashes: U64) -> U32:
    """The directory of hashes in ascending order, with an entry for each one or two of them."""
    bits = max(1, len(hashes).bit_length() - 1)
    return np.searchsorted(
        hashes >> np.uint64(64 - bits), np.arange((1 << bits) + 1, dtype=np.uint64)
    ).astype(np.uint32)


def _is_accent(data: U8, byte_offsets: I64) -> Mask:
    """True where a combining mark (U+0300 to 036F) is, which forms one letter with the character
    before it."""
    last = max(len(data) - 1, 0)
    lead, trail = data[np.minimum(byte_offsets, last)], data[np.minimum(byte_offsets + 1, last)]
    mark: Mask = (byte_offsets < last) & ((lead == 0xCC) | ((lead == 0xCD) & (trail < 0xB0)))
    return mark


class _NfkcFolding(dict[int, str]):
    """Maps each character to its Unicode compatibility form (NFKC), case-folded; filled on first
    use."""

    def __missing__(self, code: int) -> str:
        self[code] = form = unicodedata.normalize("NFKC", chr(code)).casefold()
        return form


_NFKC_FOLDING = _NfkcFolding()


def fold_nfkc(text: str) -> str:
    """Returns a text with each character in its Unicode compatibility form, case-folded; characters
    are not composed with their neighbours."""
    return text.translate(_NFKC_FOLDING)


def _fold_bytes(character: bytes) -> bytes:
    return fold_nfkc(character.decode()).encode()


def list_spellings(value: str) -> list[str]:
    """Returns how a value beyond ASCII may be written in a text, or in a text's compatibility form:
    each composed and decomposed (NFC, NFD)."""
    folded = fold_nfkc(value)
    return list(
        dict.fromkeys(
            [
                folded,
                *(
                    unicodedata.normalize(normal_form, text)
                    for text in (value, folded)
                    for normal_form in ("NFC", "NFD")
                ),
            ]
        )
    )


def spell_beyond_ascii(values: pl.DataFrame, column: str) -> pl.DataFrame:
    """Returns the rows whose text in a column is beyond ASCII, one row per spelling, ASCII letters
    in lower case."""
    non_ascii = values.filter(pl.col(column).str.contains(r"[^\x00-\x7f]"))
    # a loop over distinct values beyond ASCII: Unicode's compatibility forms have no columnar
    # implementation
    spellings = [list_spellings(text) for text in non_ascii[column]]
    non_ascii = non_ascii.with_columns(
        pl.Series(column, spellings, dtype=pl.List(pl.String))
    ).explode(column)
    return non_ascii.with_columns(ascii_lower(non_ascii[column]))
