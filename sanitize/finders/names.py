"""Finder `names`: names of people without a model, from mail header lines, and in prose by name lists, titles and context words.

Header lines: the display name beside an address in a list (`Ann Roe <ann@example.com>`, `ann@example.com (Ann Roe)`), in the header block
of a mail or in a forwarded or quoted block. Such a name is certain, is linked to its address if the two share a word, and is searched
everywhere by the finder `known` (as is every name with a score of 0.9 or more).

Prose: runs of capitalised words, classified by a lexicon (sanitize/text/name_lexicon.py): given names and surnames, titles, initials, words
that are both ordinary words and names. A single word needs more evidence: it is a given name and not a common word, or follows a title, a
greeting, a closing or `my name is`, or is part of a longer name in the same text. Words for companies, places and days end a run. In lower
case two adjacent listed names count.

Scores give the kind of evidence, not a probability: 1.0 beside an address, 0.9 after a title, 0.8 two listed names, or
one after a greeting, 0.7 a part of a longer name, or a name of which one word is listed, 0.6 a given name alone, 0.5 in lower case.

All rules work on columns of words; each text is evaluated on its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl
from pydantic import PrivateAttr

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, is_in_byte_table, make_byte_table, slice_spans, to_large_string
from sanitize.core.intervals import begins_group, enumerate_ranges, overlaps_any
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import fold_accents
from sanitize.text.address_lists import find_display_name_spans
from sanitize.text.mail_headers import HeaderLines, find_header_lines
from sanitize.text.name_lexicon import (
    CHINESE_SURNAME,
    CLOSING,
    COMMON_WORD,
    FORM_FIELD,
    GIVEN_NAME,
    GREETING,
    NAME_CUE,
    ORGANIZATION,
    PARTICLE,
    PINYIN_NAME_PATTERN,
    PLACE,
    PLACE_PREPOSITION,
    STOP_WORD,
    SURNAME,
    TITLE,
    VERB_AFTER_NAME,
    load_name_lexicon,
)
from sanitize.text.tokenizer import UnicodeTokens, tokenize_unicode

FINDER_NAME = "names"
_PERSON = "PERSON"
_MAX_NAME_WORDS = 5  # longest name, in words
(
    BESIDE_ADDRESS_SCORE,
    AFTER_TITLE_SCORE,
    TWO_LISTED_SCORE,
    AFTER_GREETING_SCORE,
    PART_OF_NAME_SCORE,
    ONE_LISTED_SCORE,
    GIVEN_NAME_SCORE,
    LOWERCASE_SCORE,
) = 1.0, 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.5
_NO_LINKS = pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64})


class Names(Finder):
    """Settings: `prose` (false: only header lines are searched)."""

    VERSION: ClassVar[int] = 3
    supports_stream: ClassVar[bool] = True
    prose: bool = True
    _key: Key = PrivateAttr()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Only names of people."""
        return (_PERSON,)

    def open(self, key: Key, first_round_file: object) -> None:
        """Builds the lexicon, once per process."""
        self._key = key
        load_name_lexicon()

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the names in a column of texts."""
        buffers = TextBuffers.from_array(column.texts)
        found = column.known_spans.filter(pl.col("kind") != _PERSON)
        addresses = found.filter(pl.col("kind") == "EMAIL_ADDRESS")
        start, stop, score, links = _find_names_beside_addresses(buffers, addresses, self._key)
        if self.prose:
            words = _WordTable(buffers)
            prose_names = _ProseNames(words).find()
            prose_names = _drop_overlapping(*_drop_overlapping(*prose_names, *_find_covered_bytes(buffers, found)), start, stop)
            start, stop, score = (
                np.concatenate([values, more_values]) for values, more_values in zip((start, stop, score), prose_names, strict=True)
            )
        text_no = np.searchsorted(buffers.offsets, start, side="right") - 1
        base = buffers.offsets[text_no]
        return FoundSpans(
            text_no=text_no,
            start_byte=start - base,
            end_byte=stop - base,
            kind_no=np.zeros(len(start), np.int32),
            kind_names=(_PERSON,),
            score=score.astype(np.float32),
            person_links=links,
        )


# ---------------------------------------------------------------------------------------------------------------------- header lines


def _find_names_beside_addresses(buffers: TextBuffers, addresses: pl.DataFrame, key: Key) -> tuple[I64, I64, F64, pl.DataFrame]:
    """Returns start and end byte and score of the names beside addresses in lists, and the links between names and addresses."""
    text_no = addresses["text_no"].to_numpy()
    starts, stops = (buffers.offsets[text_no] + addresses[name].to_numpy() for name in ("start_byte", "end_byte"))
    # an address inside another address has no name of its own
    outermost = np.flatnonzero(begins_group(starts, stops))
    text_no, starts, stops = text_no[outermost], starts[outermost], stops[outermost]
    lines: HeaderLines = find_header_lines(buffers, text_no, starts) if len(starts) else HeaderLines.empty(0)
    names, begin, end = find_display_name_spans(buffers, lines, starts, stops)
    rows = np.flatnonzero(begin >= 0)
    local = pl.Series(slice_spans(buffers, starts[rows], stops[rows])).str.to_lowercase().str.extract(r"\A([^@]*)@").fill_null("")
    normalised = get_kind(_PERSON).normalise(names.gather(rows))
    shares_word = is_name_in_local_part(normalised, local).to_numpy() if len(rows) else np.empty(0, np.bool_)
    personal = np.flatnonzero(_is_personal_name(names.gather(rows))) if len(rows) else np.empty(0, np.int64)
    if not len(personal):
        empty = np.empty(0, np.int64)
        return empty, empty, np.empty(0), _NO_LINKS
    linked = personal[shares_word[personal]]
    pairs = pl.DataFrame({"name": normalised.gather(linked), "value_id": addresses["value_id"].gather(outermost).gather(rows[linked])})
    pairs = pairs.unique(maintain_order=True)
    links = pl.DataFrame(
        {"value_id": pairs["value_id"], "other": compute_value_ids(to_large_string(pairs["name"]), _PERSON, key)}, schema=_NO_LINKS.schema
    )
    rows = rows[personal]
    return begin[rows], end[rows], np.full(len(rows), BESIDE_ADDRESS_SCORE), links


def _is_personal_name(names: pl.Series) -> Mask:
    """True for display names of a person: a word is a listed name that is not a common word, or it is a given name and one more word, or no
    word is a common word; and no word is that of a company or an organization."""
    column = to_large_string(names)
    tokens = tokenize_unicode(TextBuffers.from_array(column))
    flags = load_name_lexicon().lookup_flags(tokens.hashes)
    count = len(column)

    def count_words(selected: Mask) -> I64:
        return np.bincount(tokens.text_no[selected], minlength=count)

    is_name = (flags & (GIVEN_NAME | SURNAME)) > 0
    is_ordinary = (flags & (COMMON_WORD | STOP_WORD | CLOSING | PLACE)) > 0
    word_count, listed_count = count_words(np.ones(len(flags), np.bool_)), count_words(is_name & ~is_ordinary)
    organization_words = count_words(((flags & ORGANIZATION) > 0) & ~is_name)
    given_names = count_words((flags & GIVEN_NAME) > 0)
    has_blank = names.str.contains(" ", literal=True).to_numpy()  # `ann.roe` beside its address repeats the address
    is_personal: Mask = (
        has_blank
        & (word_count >= 2)
        & (word_count <= _MAX_NAME_WORDS)
        & (organization_words == 0)
        & ((listed_count > 0) | ((given_names > 0) & (word_count == 2)) | (count_words(is_ordinary) == 0))
    )
    return is_personal


def is_name_in_local_part(names: pl.Series, local_parts: pl.Series) -> pl.Series:
    """True where a word of the name with three letters or more occurs in the local part; accents are ignored (`Jürgen`: `jurgen` and
    `juergen`)."""
    words = names.str.split(" ")
    frame = pl.DataFrame({"row": np.arange(len(names)), "word": words, "local": fold_accents(local_parts)}).explode("word")
    frame = frame.with_columns(word=fold_accents(frame["word"]), long=fold_accents(frame["word"], digraphs=True))
    occurs = pl.any_horizontal(pl.col("local").str.contains(pl.col(word), literal=True) for word in ("word", "long"))
    hits = frame.select("row", hit=(pl.col("word").str.len_chars() > 2) & occurs)
    return hits.group_by("row", maintain_order=True).agg(pl.col("hit").any()).sort("row")["hit"].fill_null(False)


# ----------------------------------------------------------------------------------------------------------------------------- prose


class _WordTable:
    """The words of a column and their properties: `flags` of the lexicon, how it is written, and how it is joined to the next."""

    def __init__(self, buffers: TextBuffers) -> None:
        tokens: UnicodeTokens = tokenize_unicode(buffers)
        self.buffers, self.start, self.end, self.hashes = buffers, tokens.start, tokens.end, tokens.hashes
        self.text_no = tokens.text_no
        count = len(self.start)
        data = np.concatenate([buffers.data, np.zeros(4, np.uint8)])
        self.flags = load_name_lexicon().lookup_flags(tokens.hashes)
        head, tail, second = data[self.start], data[self.end - 1], data[self.start + 1]
        length = self.end - self.start
        self.is_capitalized = _UPPERCASE_BYTES[head]
        non_ascii = np.flatnonzero(head >= 0xC3)
        if len(non_ascii):
            word_texts = pl.Series(slice_spans(buffers, self.start[non_ascii], self.end[non_ascii]))
            self.is_capitalized[non_ascii] = word_texts.str.contains(r"\A\p{Lu}").to_numpy()
        self.is_initial = self.is_capitalized & ((length == 1) | ((length == 2) & (head >= 0xC3)))
        self.is_uppercase = _UPPERCASE_BYTES[head] & (length > 1) & _UPPERCASE_BYTES[tail] & _UPPERCASE_BYTES[second]
        self.is_lowercase = _LOWERCASE_BYTES[head]
        has_digit = np.zeros(count, np.bool_)
        digit_offsets = np.flatnonzero(is_in_byte_table(buffers.data, _DIGIT_BYTES))
        if len(digit_offsets):
            has_digit[np.searchsorted(self.start, digit_offsets, side="right") - 1] = True
        self.has_digit = has_digit
        # the gap between each word and the next
        gap = np.append(self.start[1:] - self.end[:-1], 0)
        byte_1, byte_2 = data[self.end], data[self.end + 1]
        same_text = np.append(np.diff(self.text_no) == 0, False)
        blank = (gap == 1) & (byte_1 == 32)
        self.is_tightly_joined = same_text & (((gap == 1) & _WORD_JOINER_BYTES[byte_1]) | ((gap == 3) & (byte_1 == 0xE2)))
        may_have_dot = self.is_initial | ((self.flags & TITLE) > 0)
        self.is_joined = same_text & (
            blank
            | self.is_tightly_joined
            | ((gap == 2) & (byte_1 == 46) & (byte_2 == 32) & may_have_dot)
            | ((gap == 1) & (byte_1 == 46) & self.is_initial)
        )
        self.has_blank_after = same_text & blank
        self.has_next = same_text
        self.next_byte = byte_1  # the byte after each word
        self.gap_bytes = gap
        self.padded_data = data

    def has_flag(self, flags: int) -> Mask:
        """True where a word has at least one of `flags`."""
        found: Mask = (self.flags & flags) > 0
        return found


_UPPERCASE_BYTES, _LOWERCASE_BYTES = (make_byte_table(bytes(range(first, first + 26))) for first in b"Aa")
_DIGIT_BYTES = make_byte_table(b"0123456789")
_WORD_JOINER_BYTES = make_byte_table(b"-'")
_ENTRY_END_BYTES, _ENTRY_SUFFIX_BYTES = (make_byte_table(signs) for signs in (b";:\n\r\t)>]\"'/|<", b"<([-|/"))
_ENTRY_START_BYTES = make_byte_table(b";:\n\r\t(<[\"'|>")
_COMMA, _DOT, _COLON, _SLASH = ord(","), ord("."), ord(":"), ord("/")
_PUNCTUATION_BYTES = make_byte_table(b",!:;.\n\r-")


# first two letters of abbreviations that are not initials: `U.S. Attorney`, `P.S. Zyqwert`, `C.O.D.`
_ABBREVIATION_PAIRS = [
    first << 8 | second for first, second in b"US UK UN UA EU PS DC NY NJ LA AM PM QA NB BC AD PO CO SA CE IE EG RI VP".split()
]


def _at_next_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word after it; False for the last word."""
    return np.append(mask[1:], np.zeros(min(len(mask), 1), np.bool_))


def _at_previous_word(mask: Mask) -> Mask:
    """Returns for each word the value of `mask` for the word before it; False for the first word."""
    return np.append(np.zeros(min(len(mask), 1), np.bool_), mask[:-1])


class _ProseNames:
    """Finds names in the words of a column."""

    def __init__(self, words: _WordTable) -> None:
        self.words = words
        has = words.has_flag
        self.is_common = has(COMMON_WORD) | has(STOP_WORD)
        self.is_given_name, self.is_surname = has(GIVEN_NAME), has(SURNAME)
        self.is_clear_given_name = self.is_given_name & ~self.is_common & ~has(STOP_WORD)  # a given name, and rarely anything else
        self.is_listed = (self.is_given_name | self.is_surname) & ~self.is_common
        title = has(TITLE) & (words.is_capitalized | ~words.is_joined)
        # a title that is also a name (`Dean`) counts as a name
        ends_run = (
            (has(ORGANIZATION) & ~self.is_listed) | has(STOP_WORD) | has(GREETING) | has(CLOSING) | (has(TITLE) & ~self.is_clear_given_name)
        )
        ends_run &= ~(words.is_initial & (words.next_byte == _DOT))  # `John A. Roe`, where `A` is not an article
        self.is_title = title & ~self.is_clear_given_name
        self.is_name_word = words.is_capitalized & ~words.has_digit & ~ends_run
        particle = has(PARTICLE) & words.is_lowercase
        for _ in range(2):  # `van der Berg`
            self.is_name_word |= (
                particle
                & _at_previous_word(self.is_name_word & words.is_joined & (words.is_capitalized | particle))
                & words.is_joined
                & _at_next_word(words.is_capitalized | particle)
            )
        # `Mr. van der Berg`
        after_title = particle & words.is_joined & _at_previous_word(self.is_title & words.is_joined)
        particle_chain = after_title
        for _ in range(2):
            particle_chain = particle_chain | (particle & words.is_joined & _at_previous_word(particle_chain))
        complete = particle_chain & _at_next_word(self.is_name_word)
        for _ in range(2):
            complete = complete | (particle_chain & _at_next_word(complete))
        self.is_name_word |= complete
        self.is_particle = particle & self.is_name_word & ~(after_title & complete)
        # a listed name, or particles and initials before one: `O'Brien`, `van der Berg`, `A. Roe`
        self.leads_to_listed = self.is_listed
        for _ in range(3):
            self.leads_to_listed = self.leads_to_listed | (
                (self.is_particle | words.is_initial) & words.is_joined & _at_next_word(self.leads_to_listed)
            )

    def find(self) -> tuple[I64, I64, F64]:
        """Returns start byte, end byte and score of every name."""
        w, count = self.words, len(self.words.start)
        if not count:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        is_linked = w.is_joined & self.is_name_word & _at_next_word(self.is_name_word)  # this word and the next belong to one run
        is_run_start = self.is_name_word & ~_at_previous_word(is_linked)
        run_end = _find_run_ends(is_linked)  # the last word of the run that each word is in
        # where a name may begin inside a run
        follows = is_linked & _at_next_word(self.leads_to_listed)
        surname_first = self.is_surname & ~self.is_common & is_linked & _at_next_word(self.is_clear_given_name)
        chinese = self._find_chinese_names(is_linked)
        starts_initials = self._find_initials(is_linked)
        initials = (w.is_initial & is_linked & _at_next_word(self.leads_to_listed)) | starts_initials
        begins = (
            self.is_name_word
            & ~self.is_particle
            & (self.is_clear_given_name | ((self.is_given_name & self.is_common) & follows) | surname_first | chinese | initials)
        )
        has_context, context_score = self._score_contexts(is_run_start, run_end)
        context_score[starts_initials] = np.maximum(context_score[starts_initials], ONE_LISTED_SCORE)
        begins |= has_context & self.is_name_word & ~self.is_particle
        # the first such word of each run
        run = np.cumsum(is_run_start) - 1
        candidates = np.flatnonzero(begins)
        candidates = candidates[np.append(True, np.diff(run[candidates]) != 0)] if len(candidates) else candidates
        start = candidates
        end = np.minimum(run_end[start], start + _MAX_NAME_WORDS - 1)
        is_chinese = chinese[start] & ~self.is_clear_given_name[start]  # a Chinese surname and one word
        start, end = self._trim_trailing_words(start, np.where(is_chinese, np.minimum(end, start + 1), end), is_chinese)
        word_count = end - start + 1
        score = np.where(word_count > 1, ONE_LISTED_SCORE, 0.0)
        listed_before = np.append(0, np.cumsum(self.is_listed))
        score = np.where((word_count > 1) & (listed_before[end + 1] - listed_before[start] > 1), TWO_LISTED_SCORE, score)
        score = np.where((word_count == 1) & self.is_clear_given_name[start], GIVEN_NAME_SCORE, score)
        score = np.where(chinese[start] & (word_count > 1), TWO_LISTED_SCORE, score)
        score = np.maximum(score, context_score[start])
        # a single place word is a name only if the context indicates it
        is_place = (word_count == 1) & w.has_flag(PLACE)[start] & (context_score[start] == 0)
        is_place_context = w.has_flag(PLACE_PREPOSITION) | w.has_flag(ORGANIZATION)
        is_near_place = (
            np.append(False, is_place_context[:-1] & w.has_blank_after[:-1])[start]
            | (w.next_byte[end] == 44)
            | ~(w.has_blank_after[end] & _at_next_word(w.has_flag(VERB_AFTER_NAME))[end])
        )
        score[is_place & is_near_place] = 0
        # `Wells Fargo Bank`, `Johnson & Sons`: the words after it make it a company, a street or an organization
        continues = (w.is_joined & _at_next_word(w.has_flag(ORGANIZATION) & w.is_capitalized & ~w.is_initial))[end] | (
            w.has_next & (w.gap_bytes == 3) & (w.padded_data[w.end + 1] == 38)
        )[end]
        is_continuation = np.append(False, (w.has_next & (w.gap_bytes == 3) & (w.padded_data[w.end + 1] == 38))[:-1])[start]
        score[(continues | is_continuation) & (context_score[start] < AFTER_TITLE_SCORE)] = 0
        # `New York`: only place names and common words
        people_listed_before = np.append(0, np.cumsum(self.is_listed & ~w.has_flag(PLACE)))
        score[
            (word_count > 1)
            & (context_score[start] == 0)
            & (people_listed_before[end + 1] == people_listed_before[start])
            & ~chinese[start]
        ] = 0
        # `ENE`: a single short word in capitals
        score[(word_count == 1) & w.is_uppercase[start] & ((w.end - w.start)[start] <= 3) & (context_score[start] == 0)] = 0
        has_score = score > 0
        start, end, score = start[has_score], end[has_score], score[has_score]
        reversed_names = self._find_reversed_names(is_run_start, run_end)
        if len(reversed_names[0]):
            start, end, score = _add_disjoint(*reversed_names, start, end, score)
        start, end, score = _add_disjoint(start, end, score, *self._find_parts_of_names(start, end, score))
        start, end, score = _add_disjoint(start, end, score, *self._find_lowercase_names())
        return w.start[start], w.end[end], score

    def _find_initials(self, is_linked: Mask) -> Mask:
        """True for the first of two or more initials with dots, `J. R. R. Zyqwert`, if the word after them is not a common word; not for
        `U.S. Attorney`."""
        w = self.words
        dotted = w.is_initial & (w.next_byte == _DOT) & is_linked
        is_surname_like = (
            w.is_capitalized & ~w.is_uppercase & ~w.is_initial & ~self.is_common & ~w.has_flag(PLACE | ORGANIZATION) & (w.end - w.start > 2)
        )
        leads_to_surname = dotted & _at_next_word(is_surname_like)
        for _ in range(2):
            leads_to_surname |= dotted & _at_next_word(leads_to_surname)
        is_first_initial = dotted & ~_at_previous_word(w.is_initial & w.has_next & (w.next_byte == _DOT) & (w.gap_bytes <= 2))
        letter_pair = w.padded_data[w.start].astype(np.int64) << 8 | np.append(w.padded_data[w.start[1:]], 0)
        found: Mask = is_first_initial & _at_next_word(dotted & leads_to_surname) & ~np.isin(letter_pair, _ABBREVIATION_PAIRS)
        return found

    def _find_chinese_names(self, is_linked: Mask) -> Mask:
        """True for Chinese surnames in Latin letters before a given name of one to three syllables."""
        w = self.words
        found: Mask = (
            w.has_flag(CHINESE_SURNAME) & w.is_capitalized & is_linked & _at_next_word(w.is_capitalized & ~w.is_uppercase & ~w.is_initial)
        )
        rows = np.flatnonzero(found)
        if len(rows):
            given_names = pl.Series(slice_spans(w.buffers, w.start[rows + 1], w.end[rows + 1])).str.to_lowercase()
            found[rows] = given_names.str.contains(PINYIN_NAME_PATTERN).to_numpy()
        return found

    def _find_reversed_names(self, is_run_start: Mask, run_end: I64) -> tuple[I64, I64, F64]:
        """Finds `Roe, Ann` and `Roe, Ann B.`: a surname, after its comma a given name, and the end of an entry. A surname that is also a
        given name must be at the start of an entry (`Anna, Peter` in a sentence are two people)."""
        w = self.words
        comma = w.has_next & (w.gap_bytes == 2) & (w.next_byte == _COMMA) & (w.padded_data[w.end + 1] == 32)
        byte_1_before, byte_2_before, byte_3_before = (w.padded_data[w.start - distance] for distance in (1, 2, 3))
        at_text_start = w.start == w.buffers.offsets[w.text_no]
        listed = (byte_2_before == _COMMA) & (byte_3_before == ord(">"))  # after the address of the previous entry
        starts_entry = (
            at_text_start
            | _ENTRY_START_BYTES[byte_1_before]
            | ((byte_1_before == 32) & (_ENTRY_START_BYTES[byte_2_before] | listed | (w.start - 1 == w.buffers.offsets[w.text_no])))
        )
        is_single_word = is_run_start & ~self.is_common & ~w.is_initial & comma & ~_at_previous_word(comma & w.is_capitalized)
        surname = is_single_word & (starts_entry | (self.is_surname & ~self.is_given_name))
        rows = np.flatnonzero(surname & _at_next_word(is_run_start & self.is_clear_given_name))
        end = run_end[np.minimum(rows + 1, len(run_end) - 1)]
        is_valid = (end <= rows + 3) & (w.is_initial | self.is_given_name)[end]
        last = np.minimum(w.end[end] + (w.is_initial[end] & (w.next_byte[end] == _DOT)), len(w.padded_data) - 1)
        has_blank = w.padded_data[last] == 32  # a blank, which a bracket must follow
        suffix_byte = np.where(has_blank, w.padded_data[np.minimum(last + 1, len(w.padded_data) - 1)], w.padded_data[last])
        is_valid &= self.is_surname[rows] | (has_blank & (suffix_byte == ord("<")))  # an unlisted surname: only before an address
        is_valid &= np.where(
            has_blank, _ENTRY_SUFFIX_BYTES[suffix_byte], _ENTRY_END_BYTES[suffix_byte] | (last >= w.buffers.offsets[w.text_no[rows] + 1])
        )
        return rows[is_valid], end[is_valid], np.full(int(is_valid.sum()), TWO_LISTED_SCORE)

    def _score_contexts(self, is_run_start: Mask, run_end: I64) -> tuple[Mask, F64]:
        """Returns where the words before or after indicate that a name begins, and the score of that evidence."""
        w, count = self.words, len(self.words.start)
        scores = np.zeros(count)
        end = run_end
        is_adjacent = w.is_joined | (w.has_next & (w.gap_bytes == 2) & (w.next_byte == 46))  # `Mr. Roe`, not `President, Acorn`
        before_punctuation = (_PUNCTUATION_BYTES[w.next_byte] | ~w.has_next)[end]
        after_title = is_run_start & _at_previous_word(self.is_title & is_adjacent)
        # `Ann Zyqwert/HOU/EXAMPLE`, as Lotus Notes writes a person
        is_notes_name = is_run_start & (end > np.arange(count)) & self._has_notes_suffix(end)
        after_greeting = (
            is_run_start
            & _at_previous_word(w.has_flag(GREETING) & w.is_capitalized & (w.has_blank_after | (w.has_next & (w.gap_bytes == 2))))
            & before_punctuation
            & ~(w.has_flag(COMMON_WORD) & ~self.is_given_name)
        )
        # `Regards,` or `Thanks,` and a line with only a name
        is_line_start = self.is_line_start
        after_closing = (
            is_run_start
            & is_line_start
            & _at_previous_word(w.has_flag(CLOSING) & w.has_next & (w.gap_bytes <= 6))
            & (~w.has_next | _at_next_word(is_line_start))[end]
            & ~(w.has_flag(COMMON_WORD) & ~self.is_given_name)
        )
        # `my name is Ann`, `I'm Ann`, `signed by Ann Roe`: for a listed name
        after_cue = is_run_start & _at_previous_word(w.has_flag(NAME_CUE) & w.has_blank_after) & self.is_clear_given_name
        # `Patient: Ann Roe`, `Name:** Ann`: a field of a form, if no word is a common word
        field = w.has_next & (w.next_byte == 58) & (w.gap_bytes <= 5)
        common_before = np.append(0, np.cumsum(self.is_common & ~self.is_listed))
        has_no_common_word = (common_before[end + 1] - common_before[np.arange(count)]) == 0
        after_form_field = (
            is_run_start & _at_previous_word(w.has_flag(FORM_FIELD) & w.is_capitalized & field) & has_no_common_word & ~w.is_uppercase
        )
        before_verb = (
            is_run_start
            & (w.has_blank_after & _at_next_word(w.has_flag(VERB_AFTER_NAME) & w.is_lowercase))[end]
            & (self.is_listed | self.is_clear_given_name)
        )
        for selected, score in (
            (before_verb, GIVEN_NAME_SCORE),
            (after_cue, ONE_LISTED_SCORE),
            (after_form_field & ~self.is_clear_given_name, ONE_LISTED_SCORE),
            (after_form_field & self.is_clear_given_name, AFTER_GREETING_SCORE),
            (after_closing & has_no_common_word, AFTER_GREETING_SCORE),
            (after_greeting & has_no_common_word, AFTER_GREETING_SCORE),
            (after_title | is_notes_name, AFTER_TITLE_SCORE),
        ):
            scores[selected] = score
        return scores > 0, scores

    @cached_property
    def is_line_start(self) -> Mask:
        """True for the first word of each line."""
        w = self.words
        starts_line = np.zeros(len(w.start) + 1, np.bool_)
        starts_line[np.searchsorted(w.start, np.flatnonzero(w.buffers.data == 10))] = True
        starts_line[np.searchsorted(w.start, w.buffers.offsets)] = True
        return starts_line[:-1]

    def _has_notes_suffix(self, run_end: I64) -> Mask:
        """True where two parts in capitals follow the last word of a run, each after a slash."""
        w = self.words
        slash = w.has_next & (w.gap_bytes == 1) & (w.next_byte == _SLASH)
        parts = slash & _at_next_word(w.is_uppercase & slash & _at_next_word(w.is_uppercase))
        found: Mask = parts[run_end]
        return found

    def _is_in_people_field(self) -> Mask:
        """True for the words of lines that begin with the name of a field of people (`From:`, `X-To:`)."""
        w, is_line_start = self.words, self.is_line_start
        colon = np.flatnonzero(w.next_byte == _COLON)
        colon = colon[is_line_start[colon] | (is_line_start[np.maximum(colon - 1, 0)] & w.is_tightly_joined[np.maximum(colon - 1, 0)])]
        names = pl.Series(slice_spans(w.buffers, w.start[colon], w.end[colon])).str.to_lowercase()
        colon = colon[names.is_in(["from", "to", "cc", "bcc", "sender"]).to_numpy()]
        line = np.cumsum(is_line_start)
        found: Mask = np.isin(line, line[colon])
        return found

    def _trim_trailing_words(self, start: I64, end: I64, is_fixed: Mask) -> tuple[I64, I64]:
        """Removes words at the end of names that do not belong to them: common words, a trailing initial or particle; not from names that
        are `is_fixed`."""
        w = self.words
        weak = (
            (self.is_common & ~self.is_given_name & ~self.is_surname)
            | w.is_initial
            | self.is_particle
            | (w.has_flag(COMMON_WORD) & ~self.is_surname)
        )
        for _ in range(_MAX_NAME_WORDS):
            is_removed = (end > start) & weak[end] & ~is_fixed
            if not is_removed.any():
                break
            end = end - is_removed
        return start, end

    def _find_parts_of_names(self, start: I64, end: I64, score: F64) -> tuple[I64, I64, F64]:
        """Finds single capitalised words that are part of a longer name of the same text."""
        w = self.words
        long = end > start
        name_no, words = enumerate_ranges(start[long], end[long] + 1)
        is_sure = score[long][name_no] >= TWO_LISTED_SCORE
        words = words[is_sure | self.is_given_name[words] | self.is_surname[words]]
        words = words[w.is_capitalized[words] & ~w.is_initial[words] & ~self.is_common[words]]
        word_keys = w.hashes ^ (w.text_no.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        other = self.is_name_word & ~self.is_common
        lone = self.is_name_word & ~_at_previous_word(w.is_joined & other) & ~(w.is_joined & _at_next_word(other)) & ~w.has_flag(PLACE)
        rows = np.flatnonzero(lone)
        rows = rows[np.isin(word_keys[rows], word_keys[words])] if len(words) else rows[:0]
        return rows, rows, np.full(len(rows), PART_OF_NAME_SCORE)

    def _find_lowercase_names(self) -> tuple[I64, I64, F64]:
        """Finds names in lower case: two adjacent listed names, the first of them a given name; `roe, ann` in a header line; and a given
        name after a greeting, or at the end of a line after a closing such as `thanks`."""
        w = self.words
        is_listed_name = (
            self.is_listed
            & w.is_lowercase
            & ~w.has_flag(PLACE | ORGANIZATION | TITLE | GREETING | CLOSING | PARTICLE | NAME_CUE | VERB_AFTER_NAME | PLACE_PREPOSITION)
            & (w.end - w.start > 2)
        )
        pair = np.flatnonzero(is_listed_name & self.is_clear_given_name & w.has_blank_after & _at_next_word(is_listed_name))
        after_greeting = np.flatnonzero(
            self.is_given_name
            & w.is_lowercase
            & _at_previous_word(w.has_flag(GREETING) & w.has_blank_after)
            & _PUNCTUATION_BYTES[w.next_byte]
            & ~self.is_common
        )
        is_line_start = self.is_line_start
        is_lowercase_word = w.is_lowercase & ~self.is_common & (w.end - w.start > 2)
        after_closing = np.flatnonzero(
            self.is_given_name
            & is_lowercase_word
            & _at_previous_word(w.has_flag(CLOSING) & w.has_next & (w.gap_bytes <= 3))
            & (~w.has_next | _at_next_word(is_line_start) | (w.next_byte == 10))
        )
        is_reversed = (
            w.has_next
            & (w.gap_bytes == 2)
            & (w.next_byte == _COMMA)
            & (self.is_surname | ~self.is_given_name)
            & is_lowercase_word
            & self._is_in_people_field()
            & _at_next_word(self.is_given_name & is_lowercase_word)
        )
        reversed_names = np.flatnonzero(is_reversed & ~_at_previous_word(w.is_joined & w.is_lowercase))
        reversed_names = reversed_names[
            ~_at_next_word(w.is_joined & _at_next_word(w.is_lowercase))[reversed_names]
        ]  # `doe, jane smith` is two entries, or prose
        rows = np.concatenate([pair, after_greeting, after_closing, reversed_names])
        ends = np.concatenate([pair + 1, after_greeting, after_closing, reversed_names + 1])
        return rows, ends, np.full(len(rows), LOWERCASE_SCORE)


def _find_run_ends(is_linked: Mask) -> I64:
    """Returns for each word the last word of its run: `is_linked` is true for words that are linked to the next one."""
    stops = np.flatnonzero(~is_linked)
    return stops[np.searchsorted(stops, np.arange(len(is_linked)))]


def _add_disjoint(start: I64, end: I64, score: F64, more_start: I64, more_end: I64, more_score: F64) -> tuple[I64, I64, F64]:
    """Adds to the names, given by their first and their last word, those of the further ones that share no word with them."""
    is_free = ~overlaps_any(more_start, more_end + 1, start, end + 1)
    more_start, more_end, more_score = more_start[is_free], more_end[is_free], more_score[is_free]
    # of overlapping further names the first is kept
    order = np.argsort(more_start, kind="stable")
    more_start, more_end, more_score = more_start[order], more_end[order], more_score[order]
    is_first = begins_group(more_start, more_end + 1)
    return np.append(start, more_start[is_first]), np.append(end, more_end[is_first]), np.append(score, more_score[is_first])


def _find_covered_bytes(buffers: TextBuffers, found: pl.DataFrame) -> tuple[I64, I64]:
    """Returns the bytes of the column that values of other kinds cover, as spans."""
    base = buffers.offsets[found["text_no"].to_numpy()]
    return base + found["start_byte"].to_numpy(), base + found["end_byte"].to_numpy()


def _drop_overlapping(start: I64, end: I64, score: F64, taken_start: I64, taken_end: I64) -> tuple[I64, I64, F64]:
    """Returns the names that share no byte with the taken spans (`taken_start`, `taken_end`)."""
    is_free = ~overlaps_any(start, end, taken_start, taken_end)
    return start[is_free], end[is_free], score[is_free]
