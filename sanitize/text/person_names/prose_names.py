"""Finds names in the words of a column."""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import slice_spans
from sanitize.core.intervals import ScoredSpans, begins_group, enumerate_ranges, overlaps_any
from sanitize.core.keys import IdSet
from sanitize.text.name_lexicon import (
    CHINESE_SURNAME,
    CLOSING,
    COMMON_WORD,
    GIVEN_NAME,
    GREETING,
    LIST_WORD,
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
from sanitize.text.person_names.word_roles import MAX_NAME_WORDS, WordRoles
from sanitize.text.person_names.word_table import (
    COLON,
    COMMA,
    DOT,
    ENTRY_END_BYTES,
    ENTRY_START_BYTES,
    ENTRY_SUFFIX_BYTES,
    PUNCTUATION_BYTES,
    WordTable,
    narrow,
)

_SPACE, _LINE_FEED = b" \n"
_MAX_ACRONYM_BYTES = 4
# first two letters of abbreviations that are not initials: `U.S. Attorney`, `P.S. Zyqwert`,
# `C.O.D.`
_ABBREVIATION_PAIRS = [
    first << 8 | second
    for first, second in (
        b"US UK UN UA EU PS DC NY NJ LA AM PM QA NB BC AD PO CO SA CE IE EG RI VP".split()
    )
]


class ProseNames:
    """Finds names in the words of a column."""

    def __init__(self, words: WordTable, display_start: I64, display_end: I64) -> None:
        """`display_start`, `display_end` are the bytes of names that are certain, those beside
        addresses."""
        self.words, self.roles = words, WordRoles(words)
        self.certain_start = np.searchsorted(words.start, display_start)
        self.certain_end = np.searchsorted(words.start, display_end) - 1

    def find(self) -> ScoredSpans:
        """Returns start byte, end byte and score of every name."""
        w, roles = self.words, self.roles
        if not len(w.start):
            return ScoredSpans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        chinese, starts_initials = np.zeros((2, len(w.start)), np.bool_)
        chinese[self._find_chinese_names()] = True
        initials = self._find_initials()
        starts_initials[initials] = True
        context_score = score_evidence(roles)
        context_score[initials] = np.maximum(context_score[initials], ONE_LISTED_SCORE)
        start, end = self._choose_candidates(chinese, starts_initials, context_score)
        score = self._score(start, end, chinese, context_score)
        for rule, weaker_than in EXCLUSIONS:
            score[rule(roles, start, end) & (context_score[start] < weaker_than)] = 0
        has_score = score > 0
        start, end, score = start[has_score], end[has_score], score[has_score]
        reversed_names = self._find_reversed_names()
        if len(reversed_names[0]):
            start, end, score = _add_disjoint(*reversed_names, start, end, score)
        start, end, score = _add_disjoint(*find_signatures(roles), start, end, score)
        start, end, score = _add_disjoint(
            start, end, score, *self._find_parts_of_names(start, end, score)
        )
        start, end, score = _add_disjoint(start, end, score, *self._find_lowercase_names())
        return ScoredSpans(w.start[start], w.end[end], score)

    def _choose_candidates(
        self, chinese: Mask, starts_initials: Mask, context_score: F64
    ) -> tuple[I64, I64]:
        """Returns the first and the last word of at most one candidate in each run: from the first
        word where a name may begin."""
        w, roles = self.words, self.roles
        rows = np.flatnonzero(roles.is_name_word & ~roles.is_particle)
        begins = (
            roles.is_clear_given_name_at(rows)
            | chinese[rows]
            | starts_initials[rows]
            | (context_score[rows] > 0)
        )
        # words that may begin a name together with the next one
        others = np.flatnonzero(~begins & roles.is_linked[rows])
        word, is_common = rows[others], roles.is_common_at(rows[others])
        leads = (roles.is_given_name_at(word) & is_common) | w.is_initial[word]
        narrow(leads, roles.leads_to_listed_at(word[leads] + 1))
        begins[others] = leads | (
            roles.is_surname_at(word) & ~is_common & roles.is_clear_given_name_at(word + 1)
        )
        start = rows[begins]
        run = roles.find_runs(start)
        is_first = np.append(True, np.diff(run) != 0)[: len(run)]
        start, run = start[is_first], run[is_first]
        end = np.minimum(roles.run_last[run], start + MAX_NAME_WORDS - 1)
        # a Chinese surname and one word
        is_chinese = chinese[start] & ~roles.is_clear_given_name_at(start)
        return self._trim_trailing_words(
            start, np.where(is_chinese, np.minimum(end, start + 1), end), is_chinese
        )

    def _score(self, start: I64, end: I64, chinese: Mask, context_score: F64) -> F64:
        """Returns the score of each candidate; 0 where nothing shows that it is a name."""
        roles, is_long = self.roles, end > start
        score = np.where(is_long, ONE_LISTED_SCORE, 0.0)
        score[is_long & (roles.count_listed(start, end, MAX_NAME_WORDS) > 1)] = TWO_LISTED_SCORE
        score[~is_long & roles.is_clear_given_name_at(start)] = GIVEN_NAME_SCORE
        score[chinese[start] & is_long] = TWO_LISTED_SCORE
        return np.maximum(score, context_score[start])

    def _find_initials(self) -> I64:
        """Returns the first of two or more initials with dots, `J. R. R. Zyqwert`, if the word
        after them is not a common word; not for `U.S. Attorney`."""
        w, roles = self.words, self.roles
        # linked to the next word
        dotted = np.flatnonzero(w.is_initial & roles.is_linked & (w.next_byte == DOT))
        leads_to_surname = np.zeros(len(w.start), np.bool_)
        leads_to_surname[dotted] = self._is_surname_like_at(dotted + 1)
        for _ in range(2):
            leads_to_surname[dotted] |= leads_to_surname[dotted + 1]
        found = dotted[leads_to_surname[dotted + 1]]
        before = found - 1
        found = found[
            ~(
                w.is_initial[before]
                & w.has_next[before]
                & (w.next_byte[before] == DOT)
                & (w.gap_bytes[before] <= 2)
            )
        ]
        letter_pair = (
            w.buffers.data[w.start[found]].astype(np.int64) << 8
            | w.buffers.data[w.start[found + 1]]
        )
        initials: I64 = found[~np.isin(letter_pair, _ABBREVIATION_PAIRS)]
        return initials

    def _is_surname_like_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that may be a surname after initials."""
        w = self.words
        found: Mask = (
            w.is_capitalized[rows]
            & ~w.is_uppercase[rows]
            & ~w.is_initial[rows]
            & (w.size[rows] > 2)
        )
        found &= ~self.roles.is_common_at(rows) & ~w.has_flag_at(rows, PLACE | ORGANIZATION)
        return found

    def _find_chinese_names(self) -> I64:
        """Returns Chinese surnames in Latin letters before a given name of one to three
        syllables."""
        w = self.words
        rows = np.flatnonzero(self.roles.is_linked)
        rows = rows[w.has_flag_at(rows, CHINESE_SURNAME) & w.is_capitalized[rows]]
        given_name = rows + 1
        rows = rows[
            w.is_capitalized[given_name] & ~w.is_uppercase[given_name] & ~w.is_initial[given_name]
        ]
        if not len(rows):
            return rows
        given_names = pl.Series(
            slice_spans(w.buffers, w.start[rows + 1], w.end[rows + 1])
        ).str.to_lowercase()
        found: I64 = rows[given_names.str.contains(PINYIN_NAME_PATTERN).to_numpy()]
        return found

    def _find_reversed_names(self) -> ScoredSpans:
        """Finds `Roe, Ann` and `Roe, Ann B.`: a surname, after its comma a given name, and the end
        of an entry. A surname that is also a given name must be at the start of an entry (`Anna,
        Peter` in a sentence are two people)."""
        w, roles = self.words, self.roles
        # a run of one word, directly before another run
        run = np.flatnonzero(np.diff(roles.run_first) == 1)
        run = run[
            self._is_before_comma(roles.run_first[run])
            & roles.is_clear_given_name_at(roles.run_first[run + 1])
        ]
        rows, end = roles.run_first[run], roles.run_last[run + 1]
        is_valid = (
            ~roles.is_common_at(rows)
            & ~w.is_initial[rows]
            & ~(self._is_before_comma(rows - 1) & w.is_capitalized[rows - 1])
        )
        is_valid &= self._starts_entry(rows) | (
            roles.is_surname_at(rows) & ~roles.is_given_name_at(rows)
        )
        is_valid &= (end <= rows + 3) & (w.is_initial[end] | roles.is_given_name_at(end))
        after_dot = (w.is_initial[end] & (w.next_byte[end] == DOT)).astype(np.int64)
        byte_1_after, byte_2_after = w.look_ahead(end, after_dot), w.look_ahead(end, after_dot + 1)
        has_blank = byte_1_after == _SPACE  # a blank, which a bracket must follow
        # an unlisted surname: only before an address
        is_valid &= roles.is_surname_at(rows) | (has_blank & (byte_2_after == ord("<")))
        is_at_text_end = w.end[end] + after_dot >= w.buffers.offsets[w.text_no[rows] + 1]
        is_valid &= np.where(
            has_blank,
            ENTRY_SUFFIX_BYTES[byte_2_after],
            ENTRY_END_BYTES[byte_1_after] | is_at_text_end,
        )
        return ScoredSpans(
            rows[is_valid], end[is_valid], np.full(int(is_valid.sum()), TWO_LISTED_SCORE)
        )

    def _is_before_comma(self, rows: I64) -> Mask:
        """True for those of the words `rows` that a comma and a blank separate from the next
        word."""
        w = self.words
        found = w.has_comma_after(rows)
        narrow(found, w.look_ahead(rows[found], 1) == _SPACE)
        return found

    def _starts_entry(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are at the start of an entry in a list of
        people."""
        w = self.words
        byte_1_before, byte_2_before, byte_3_before = (
            w.look_back(rows, distance) for distance in (1, 2, 3)
        )
        bytes_before = w.start[rows] - w.buffers.offsets[w.text_no[rows]]
        # after the address of the previous entry
        is_listed = (byte_2_before == COMMA) & (byte_3_before == ord(">"))
        after_blank = ENTRY_START_BYTES[byte_2_before] | is_listed | (bytes_before == 1)
        found: Mask = (
            (bytes_before == 0)
            | ENTRY_START_BYTES[byte_1_before]
            | ((byte_1_before == _SPACE) & after_blank)
        )
        return found

    def _are_in_people_field(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are in lines that begin with the name of a field
        of people (`From:`, `X-To:`)."""
        w = self.words
        first = w.line_starts[np.searchsorted(w.line_starts, rows, side="right") - 1]
        second = np.minimum(first + 1, len(w.start) - 1)
        found: Mask = self._is_people_field_at(first) | (
            w.is_tightly_joined[first] & self._is_people_field_at(second)
        )
        return found

    def _is_people_field_at(self, rows: I64) -> Mask:
        w = self.words
        found: Mask = w.is_word_at(rows, "from", "to", "cc", "bcc", "sender") & (
            w.next_byte[rows] == COLON
        )
        return found

    def _trim_trailing_words(self, start: I64, end: I64, is_fixed: Mask) -> tuple[I64, I64]:
        """Removes words at the end of names that do not belong to them: common words, a trailing
        initial or particle; not from names that are `is_fixed`."""
        for _ in range(MAX_NAME_WORDS):
            may_end_earlier = np.flatnonzero((end > start) & ~is_fixed)
            is_removed = self._is_weak_at(end[may_end_earlier])
            others = np.flatnonzero(~is_removed & (end - start > 1)[may_end_earlier])
            is_removed[others] = self.roles.have_headline_ending(end[may_end_earlier[others]])
            if not is_removed.any():
                break
            end[may_end_earlier[is_removed]] -= 1
        return start, end

    def _is_weak_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that rarely end a name."""
        w, roles = self.words, self.roles
        is_surname = roles.is_surname_at(rows)
        found: Mask = roles.is_common_at(rows) & ~roles.is_given_name_at(rows) & ~is_surname
        found |= (
            w.is_initial[rows]
            | roles.is_particle[rows]
            | (w.has_flag_at(rows, COMMON_WORD) & ~is_surname)
        )
        return found

    def _find_parts_of_names(self, start: I64, end: I64, score: F64) -> ScoredSpans:
        """Finds single capitalised words that are part of a longer name of the same text. A word
        that is also a word of the language or a place must be written as people are: before a verb,
        with `'s`, spoken to."""
        w, roles = self.words, self.roles
        is_long = end > start
        name_no, words = enumerate_ranges(
            np.append(start[is_long], self.certain_start),
            np.append(end[is_long], self.certain_end) + 1,
        )
        is_sure = (
            np.append(score[is_long], np.ones(len(self.certain_start)))[name_no] >= TWO_LISTED_SCORE
        )
        is_known = is_sure | w.has_flag_at(words, GIVEN_NAME | SURNAME)
        is_known[~is_known] = roles.are_unknown(words[~is_known])
        words = words[is_known]
        words = words[
            w.is_capitalized[words]
            & ~w.is_initial[words]
            & ~w.has_flag_at(words, STOP_WORD | TITLE | LIST_WORD)
        ]
        if not len(words):
            return ScoredSpans(words, words, np.empty(0))
        rows = np.flatnonzero(roles.is_name_word)
        rows = rows[IdSet.of(w.text_keys_at(words)).contains(w.text_keys_at(rows))]
        before, after = rows - 1, np.minimum(rows + 1, len(w.start) - 1)
        is_lone = ~(w.is_joined[before] & self._is_other_name_word(before)) & ~(
            w.is_joined[rows] & self._is_other_name_word(after)
        )
        is_acronym = (
            w.is_uppercase[rows] & ~roles.is_listed_at(rows) & (w.size[rows] <= _MAX_ACRONYM_BYTES)
        )
        rows = rows[is_lone & ~is_acronym]
        is_ambiguous = roles.is_common_at(rows) | w.has_flag_at(rows, PLACE | ORGANIZATION)
        rows = rows[~is_ambiguous | is_addressed(roles, rows)]
        rows = rows[~is_after_place_prefix(roles, rows, rows)]
        return ScoredSpans(rows, rows, np.full(len(rows), PART_OF_NAME_SCORE))

    def _is_other_name_word(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are a word of a name and no common word."""
        found: Mask = self.roles.is_name_word[rows] & ~self.roles.is_common_at(rows)
        return found

    def _find_lowercase_names(self) -> ScoredSpans:
        """Finds names in lower case: two adjacent listed names, the first of them a given name;
        `roe, ann` in a header line; and a given name after a greeting, or at the end of a line
        after a closing such as `thanks`."""
        w, roles = self.words, self.roles
        given = roles.find_clear_given_names()
        given = given[w.is_lowercase[given]]
        before, after = given - 1, np.minimum(given + 1, len(w.start) - 1)
        pair = given[
            w.has_blank_after[given]
            & self._is_lowercase_name_at(given)
            & self._is_lowercase_name_at(after)
        ]
        after_greeting = given[
            w.has_blank_after[before]
            & w.has_flag_at(before, GREETING)
            & PUNCTUATION_BYTES[w.next_byte[given]]
        ]
        is_long = w.size[given] > 2
        closing = w.has_next[before] & w.has_flag_at(before, CLOSING) & (w.gap_bytes[before] <= 3)
        ends_line = w.is_line_end[given] | (w.next_byte[given] == _LINE_FEED)
        after_closing = given[is_long & closing & ends_line]
        reversed_names = before[
            is_long & w.has_comma_after(before) & self._may_be_lowercase_surname_at(before)
        ]
        # `doe, jane smith` is two entries, or prose
        is_last = ~(
            w.is_joined[reversed_names + 1]
            & w.is_lowercase[np.minimum(reversed_names + 2, len(w.start) - 1)]
        )
        is_first = ~(w.is_joined[reversed_names - 1] & w.is_lowercase[reversed_names - 1])
        reversed_names = reversed_names[is_first & is_last]
        reversed_names = reversed_names[self._are_in_people_field(reversed_names)]
        rows = np.concatenate([pair, after_greeting, after_closing, reversed_names])
        ends = np.concatenate([pair + 1, after_greeting, after_closing, reversed_names + 1])
        return ScoredSpans(rows, ends, np.full(len(rows), LOWERCASE_SCORE))

    def _is_lowercase_name_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are listed names in lower case, and hardly
        anything else."""
        w = self.words
        found: Mask = self.roles.is_listed_at(rows) & w.is_lowercase[rows] & (w.size[rows] > 2)
        found &= ~w.has_flag_at(
            rows,
            PLACE
            | ORGANIZATION
            | TITLE
            | GREETING
            | CLOSING
            | PARTICLE
            | NAME_CUE
            | VERB_AFTER_NAME
            | PLACE_PREPOSITION,
        )
        return found

    def _may_be_lowercase_surname_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are in lower case, and may be a surname."""
        w, roles = self.words, self.roles
        found: Mask = w.is_lowercase[rows] & ~roles.is_common_at(rows) & (w.size[rows] > 2)
        found &= roles.is_surname_at(rows) | ~roles.is_given_name_at(rows)
        return found


def _add_disjoint(
    start: I64, end: I64, score: F64, more_start: I64, more_end: I64, more_score: F64
) -> ScoredSpans:
    """Adds to the names, given by their first and their last word, those of the further ones that
    share no word with them."""
    is_free = ~overlaps_any(more_start, more_end + 1, start, end + 1)
    more_start, more_end, more_score = more_start[is_free], more_end[is_free], more_score[is_free]
    # of overlapping further names the first is kept
    order = np.argsort(more_start, kind="stable")
    more_start, more_end, more_score = more_start[order], more_end[order], more_score[order]
    is_first = begins_group(more_start, more_end + 1)
    return ScoredSpans(
        np.append(start, more_start[is_first]),
        np.append(end, more_end[is_first]),
        np.append(score, more_score[is_first]),
    )
