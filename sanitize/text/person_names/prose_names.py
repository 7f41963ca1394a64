"""Finds names in the words of a column."""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import slice_spans
from sanitize.core.intervals import begins_group, enumerate_ranges, overlaps_any
from sanitize.text.name_lexicon import (
    CHINESE_SURNAME,
    CLOSING,
    COMMON_WORD,
    GREETING,
    LIST_WORD,
    NAME_CUE,
    ORGANIZATION,
    PARTICLE,
    PINYIN_NAME_PATTERN,
    PLACE,
    PLACE_PREPOSITION,
    STOP_WORD,
    TITLE,
    VERB_AFTER_NAME,
)
from sanitize.text.person_names.name_evidence import (
    GIVEN_NAME_SCORE,
    LOWERCASE_SCORE,
    ONE_LISTED_SCORE,
    PART_OF_NAME_SCORE,
    TWO_LISTED_SCORE,
    is_addressed,
    score_evidence,
)
from sanitize.text.person_names.name_exclusions import EXCLUSIONS, is_after_place_prefix
from sanitize.text.person_names.signatures import find_signatures
from sanitize.text.person_names.word_roles import WordRoles, first_of
from sanitize.text.person_names.word_table import (
    COLON,
    COMMA,
    DOT,
    ENTRY_END_BYTES,
    ENTRY_START_BYTES,
    ENTRY_SUFFIX_BYTES,
    PUNCTUATION_BYTES,
    WordTable,
    at_next_word,
    at_previous_word,
)

_MAX_ACRONYM_BYTES = 4
MAX_NAME_WORDS = 5  # longest name, in words
# first two letters of abbreviations that are not initials: `U.S. Attorney`, `P.S. Zyqwert`, `C.O.D.`
_ABBREVIATION_PAIRS = [
    first << 8 | second for first, second in b"US UK UN UA EU PS DC NY NJ LA AM PM QA NB BC AD PO CO SA CE IE EG RI VP".split()
]


class ProseNames:
    """Finds names in the words of a column."""

    def __init__(self, words: WordTable, display_start: I64, display_end: I64) -> None:
        """`display_start`, `display_end` are the bytes of names that are certain, those beside addresses."""
        self.words, self.roles = words, WordRoles(words)
        self.certain_start = np.searchsorted(words.start, display_start)
        self.certain_end = np.searchsorted(words.start, display_end) - 1

    def find(self) -> tuple[I64, I64, F64]:
        """Returns start byte, end byte and score of every name."""
        w, roles = self.words, self.roles
        if not len(w.start):
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        chinese, starts_initials = self._find_chinese_names(), self._find_initials()
        context_score = score_evidence(roles)
        context_score[starts_initials] = np.maximum(context_score[starts_initials], ONE_LISTED_SCORE)
        start, end = self._choose_candidates(chinese, starts_initials, context_score > 0)
        score = self._score(start, end, chinese, context_score)
        for rule, weaker_than in EXCLUSIONS:
            score[rule(roles, start, end) & (context_score[start] < weaker_than)] = 0
        has_score = score > 0
        start, end, score = start[has_score], end[has_score], score[has_score]
        reversed_names = self._find_reversed_names()
        if len(reversed_names[0]):
            start, end, score = _add_disjoint(*reversed_names, start, end, score)
        start, end, score = _add_disjoint(*find_signatures(roles), start, end, score)
        start, end, score = _add_disjoint(start, end, score, *self._find_parts_of_names(start, end, score))
        start, end, score = _add_disjoint(start, end, score, *self._find_lowercase_names())
        return w.start[start], w.end[end], score

    def _choose_candidates(self, chinese: Mask, starts_initials: Mask, has_evidence: Mask) -> tuple[I64, I64]:
        """Returns the first and the last word of at most one candidate in each run: from the first word where a name may begin."""
        w, roles = self.words, self.roles
        follows = roles.is_linked & at_next_word(roles.leads_to_listed)
        surname_first = roles.is_surname & ~roles.is_common & roles.is_linked & at_next_word(roles.is_clear_given_name)
        initials = (w.is_initial & roles.is_linked & at_next_word(roles.leads_to_listed)) | starts_initials
        begins = (
            roles.is_name_word
            & ~roles.is_particle
            & (
                roles.is_clear_given_name
                | (roles.is_given_name & roles.is_common & follows)
                | surname_first
                | chinese
                | initials
                | has_evidence
            )
        )
        start = first_of(np.flatnonzero(begins), np.cumsum(roles.is_run_start) - 1)
        end = np.minimum(roles.run_end[start], start + MAX_NAME_WORDS - 1)
        is_chinese = chinese[start] & ~roles.is_clear_given_name[start]  # a Chinese surname and one word
        return self._trim_trailing_words(start, np.where(is_chinese, np.minimum(end, start + 1), end), is_chinese)

    def _score(self, start: I64, end: I64, chinese: Mask, context_score: F64) -> F64:
        """Returns the score of each candidate; 0 where nothing shows that it is a name."""
        roles, word_count = self.roles, end - start + 1
        score = np.where(word_count > 1, ONE_LISTED_SCORE, 0.0)
        listed_before = np.append(0, np.cumsum(roles.is_listed))
        score = np.where((word_count > 1) & (listed_before[end + 1] - listed_before[start] > 1), TWO_LISTED_SCORE, score)
        score = np.where((word_count == 1) & roles.is_clear_given_name[start], GIVEN_NAME_SCORE, score)
        score = np.where(chinese[start] & (word_count > 1), TWO_LISTED_SCORE, score)
        return np.maximum(score, context_score[start])

    def _find_initials(self) -> Mask:
        """True for the first of two or more initials with dots, `J. R. R. Zyqwert`, if the word after them is not a common word; not for
        `U.S. Attorney`."""
        w = self.words
        dotted = w.is_initial & (w.next_byte == DOT) & self.roles.is_linked
        is_surname_like = (
            w.is_capitalized
            & ~w.is_uppercase
            & ~w.is_initial
            & ~self.roles.is_common
            & ~w.has_flag(PLACE | ORGANIZATION)
            & (w.end - w.start > 2)
        )
        leads_to_surname = dotted & at_next_word(is_surname_like)
        for _ in range(2):
            leads_to_surname |= dotted & at_next_word(leads_to_surname)
        is_first_initial = dotted & ~at_previous_word(w.is_initial & w.has_next & (w.next_byte == DOT) & (w.gap_bytes <= 2))
        letter_pair = w.padded_data[w.start].astype(np.int64) << 8 | np.append(w.padded_data[w.start[1:]], 0)
        found: Mask = is_first_initial & at_next_word(dotted & leads_to_surname) & ~np.isin(letter_pair, _ABBREVIATION_PAIRS)
        return found

    def _find_chinese_names(self) -> Mask:
        """True for Chinese surnames in Latin letters before a given name of one to three syllables."""
        w = self.words
        found: Mask = (
            w.has_flag(CHINESE_SURNAME)
            & w.is_capitalized
            & self.roles.is_linked
            & at_next_word(w.is_capitalized & ~w.is_uppercase & ~w.is_initial)
        )
        rows = np.flatnonzero(found)
        if len(rows):
            given_names = pl.Series(slice_spans(w.buffers, w.start[rows + 1], w.end[rows + 1])).str.to_lowercase()
            found[rows] = given_names.str.contains(PINYIN_NAME_PATTERN).to_numpy()
        return found

    def _find_reversed_names(self) -> tuple[I64, I64, F64]:
        """Finds `Roe, Ann` and `Roe, Ann B.`: a surname, after its comma a given name, and the end of an entry. A surname that is also a
        given name must be at the start of an entry (`Anna, Peter` in a sentence are two people)."""
        w = self.words
        comma = w.has_next & (w.gap_bytes == 2) & (w.next_byte == COMMA) & (w.padded_data[w.end + 1] == 32)
        byte_1_before, byte_2_before, byte_3_before = (w.look_back(np.arange(len(w.start)), distance) for distance in (1, 2, 3))
        at_text_start = w.start == w.buffers.offsets[w.text_no]
        listed = (byte_2_before == COMMA) & (byte_3_before == ord(">"))  # after the address of the previous entry
        starts_entry = (
            at_text_start
            | ENTRY_START_BYTES[byte_1_before]
            | ((byte_1_before == 32) & (ENTRY_START_BYTES[byte_2_before] | listed | (w.start - 1 == w.buffers.offsets[w.text_no])))
        )
        is_single_word = (
            self.roles.is_run_start & ~self.roles.is_common & ~w.is_initial & comma & ~at_previous_word(comma & w.is_capitalized)
        )
        surname = is_single_word & (starts_entry | (self.roles.is_surname & ~self.roles.is_given_name))
        rows = np.flatnonzero(surname & at_next_word(self.roles.is_run_start & self.roles.is_clear_given_name))
        end = self.roles.run_end[np.minimum(rows + 1, len(self.roles.run_end) - 1)]
        is_valid = (end <= rows + 3) & (w.is_initial | self.roles.is_given_name)[end]
        after_dot = (w.is_initial[end] & (w.next_byte[end] == DOT)).astype(np.int64)
        last = w.end[end] + after_dot
        byte_1_after, byte_2_after = w.look_ahead(end, after_dot), w.look_ahead(end, after_dot + 1)
        has_blank = byte_1_after == 32  # a blank, which a bracket must follow
        suffix_byte = np.where(has_blank, byte_2_after, byte_1_after)
        is_valid &= self.roles.is_surname[rows] | (has_blank & (suffix_byte == ord("<")))  # an unlisted surname: only before an address
        is_valid &= np.where(
            has_blank, ENTRY_SUFFIX_BYTES[suffix_byte], ENTRY_END_BYTES[suffix_byte] | (last >= w.buffers.offsets[w.text_no[rows] + 1])
        )
        return rows[is_valid], end[is_valid], np.full(int(is_valid.sum()), TWO_LISTED_SCORE)

    def _are_in_people_field(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are in lines that begin with the name of a field of people (`From:`, `X-To:`)."""
        w = self.words
        if not len(rows):
            return np.zeros(0, np.bool_)
        line = np.cumsum(w.is_line_start)
        fields = np.flatnonzero(w.is_word("from", "to", "cc", "bcc", "sender"))
        fields = fields[w.next_byte[fields] == COLON]
        before = fields - 1
        fields = fields[w.is_line_start[fields] | (w.is_line_start[before] & w.is_tightly_joined[before])]
        found: Mask = np.isin(line[rows], line[fields])
        return found

    def _trim_trailing_words(self, start: I64, end: I64, is_fixed: Mask) -> tuple[I64, I64]:
        """Removes words at the end of names that do not belong to them: common words, a trailing initial or particle; not from names that
        are `is_fixed`."""
        w = self.words
        weak = (
            (self.roles.is_common & ~self.roles.is_given_name & ~self.roles.is_surname)
            | w.is_initial
            | self.roles.is_particle
            | (w.has_flag(COMMON_WORD) & ~self.roles.is_surname)
        )
        for _ in range(MAX_NAME_WORDS):
            is_removed = (end > start) & weak[end] & ~is_fixed
            long = np.flatnonzero((end > start + 1) & ~is_removed & ~is_fixed)
            is_removed[long] = self.roles.have_headline_ending(end[long])
            if not is_removed.any():
                break
            end = end - is_removed
        return start, end

    def _find_parts_of_names(self, start: I64, end: I64, score: F64) -> tuple[I64, I64, F64]:
        """Finds single capitalised words that are part of a longer name of the same text. A word that is also a word of the language or a
        place must be written as people are: before a verb, with `'s`, spoken to."""
        w, roles = self.words, self.roles
        is_long = end > start
        name_no, words = enumerate_ranges(np.append(start[is_long], self.certain_start), np.append(end[is_long], self.certain_end) + 1)
        is_sure = np.append(score[is_long], np.ones(len(self.certain_start)))[name_no] >= TWO_LISTED_SCORE
        is_known = is_sure | roles.is_given_name[words] | roles.is_surname[words]
        is_known[~is_known] = roles.are_unknown(words[~is_known])
        words = words[is_known]
        words = words[w.is_capitalized[words] & ~w.is_initial[words] & ~w.has_flag(STOP_WORD | TITLE | LIST_WORD)[words]]
        if not len(words):
            return words, words, np.empty(0)
        other = roles.is_name_word & ~roles.is_common
        is_lone = roles.is_name_word & ~at_previous_word(w.is_joined & other) & ~(w.is_joined & at_next_word(other))
        is_ambiguous = roles.is_common | w.has_flag(PLACE | ORGANIZATION)
        is_acronym = w.is_uppercase & ~roles.is_listed & (w.end - w.start <= _MAX_ACRONYM_BYTES)
        rows = np.flatnonzero(is_lone & ~is_acronym)
        rows = rows[np.isin(w.text_keys[rows], w.text_keys[words])]
        rows = rows[~is_ambiguous[rows] | is_addressed(roles, rows)]
        rows = rows[~is_after_place_prefix(roles, rows, rows)]
        return rows, rows, np.full(len(rows), PART_OF_NAME_SCORE)

    def _find_lowercase_names(self) -> tuple[I64, I64, F64]:
        """Finds names in lower case: two adjacent listed names, the first of them a given name; `roe, ann` in a header line; and a given
        name after a greeting, or at the end of a line after a closing such as `thanks`."""
        w = self.words
        is_listed_name = (
            self.roles.is_listed
            & w.is_lowercase
            & ~w.has_flag(PLACE | ORGANIZATION | TITLE | GREETING | CLOSING | PARTICLE | NAME_CUE | VERB_AFTER_NAME | PLACE_PREPOSITION)
            & (w.end - w.start > 2)
        )
        pair = np.flatnonzero(is_listed_name & self.roles.is_clear_given_name & w.has_blank_after & at_next_word(is_listed_name))
        after_greeting = np.flatnonzero(
            self.roles.is_given_name
            & w.is_lowercase
            & at_previous_word(w.has_flag(GREETING) & w.has_blank_after)
            & PUNCTUATION_BYTES[w.next_byte]
            & ~self.roles.is_common
        )
        is_line_start = w.is_line_start
        is_lowercase_word = w.is_lowercase & ~self.roles.is_common & (w.end - w.start > 2)
        after_closing = np.flatnonzero(
            self.roles.is_given_name
            & is_lowercase_word
            & at_previous_word(w.has_flag(CLOSING) & w.has_next & (w.gap_bytes <= 3))
            & (~w.has_next | at_next_word(is_line_start) | (w.next_byte == 10))
        )
        is_reversed = (
            w.has_next
            & (w.gap_bytes == 2)
            & (w.next_byte == COMMA)
            & (self.roles.is_surname | ~self.roles.is_given_name)
            & is_lowercase_word
            & at_next_word(self.roles.is_given_name & is_lowercase_word)
        )
        reversed_names = np.flatnonzero(is_reversed & ~at_previous_word(w.is_joined & w.is_lowercase))
        reversed_names = reversed_names[
            ~at_next_word(w.is_joined & at_next_word(w.is_lowercase))[reversed_names]
        ]  # `doe, jane smith` is two entries, or prose
        reversed_names = reversed_names[self._are_in_people_field(reversed_names)]
        rows = np.concatenate([pair, after_greeting, after_closing, reversed_names])
        ends = np.concatenate([pair + 1, after_greeting, after_closing, reversed_names + 1])
        return rows, ends, np.full(len(rows), LOWERCASE_SCORE)


def _add_disjoint(start: I64, end: I64, score: F64, more_start: I64, more_end: I64, more_score: F64) -> tuple[I64, I64, F64]:
    """Adds to the names, given by their first and their last word, those of the further ones that share no word with them."""
    is_free = ~overlaps_any(more_start, more_end + 1, start, end + 1)
    more_start, more_end, more_score = more_start[is_free], more_end[is_free], more_score[is_free]
    # of overlapping further names the first is kept
    order = np.argsort(more_start, kind="stable")
    more_start, more_end, more_score = more_start[order], more_end[order], more_score[order]
    is_first = begins_group(more_start, more_end + 1)
    return np.append(start, more_start[is_first]), np.append(end, more_end[is_first]), np.append(score, more_score[is_first])
