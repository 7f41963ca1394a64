"""Evidence that a run of words is a name: what is written before and after it. One rule a function.

Every rule returns a mask over the runs of a column that is true for those it supports; `EVIDENCE`
and `EVIDENCE_FOR_UNLISTED` list the rules with their scores, the strongest last.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from sanitize.array_types import F64, I32, I64, U8, Mask
from sanitize.core.arrow_buffers import slice_spans
from sanitize.core.intervals import enumerate_ranges
from sanitize.text.name_lexicon import (
    ASSENT,
    AUTHORSHIP_VERB,
    CHINESE_SURNAME,
    CLOSING,
    DISTINCTIVE_PINYIN_PATTERN,
    EVERYDAY_GIVEN_NAME,
    FORM_FIELD,
    GIVEN_NAME,
    GREETING,
    NAME_CUE,
    ORGANIZATION,
    PERSONAL_VERB,
    PINYIN_GIVEN_NAME_PATTERN,
    PINYIN_PLACE_PATTERN,
    PLACE,
    RELATION,
    REQUEST,
    ROLE,
    SURNAME,
    TITLE,
    VERB_AFTER_NAME,
)
from sanitize.text.person_names.word_roles import WordRoles
from sanitize.text.person_names.word_table import (
    COLON,
    COMMA,
    DIGIT_OR_PLUS_BYTES,
    PUNCTUATION_BYTES,
    SENTENCE_END_BYTES,
    SLASH,
    WordTable,
    hash_single_words,
    narrow,
)

(
    AFTER_TITLE_SCORE,
    TWO_LISTED_SCORE,
    AFTER_GREETING_SCORE,
    PART_OF_NAME_SCORE,
    ONE_LISTED_SCORE,
    GIVEN_NAME_SCORE,
    LOWERCASE_SCORE,
) = 0.9, 0.8, 0.8, 0.7, 0.7, 0.6, 0.5
_SPACE, _DOT, _QUESTION, _AT, _APOSTROPHE = b" .?@'"
_MAX_UNLISTED_WORDS = 4  # of a name of which only the ending is known
_MAX_NOTES_PART_WORDS = (
    8  # of the organization in `Petra Zyqwert/Example Works of Springfield@Example Works`
)


def score_evidence(roles: WordRoles) -> F64:
    """Returns for the first word of each run the score of the strongest evidence, 0 for none and
    for all other words."""
    runs = Runs(roles)
    run_scores = np.zeros(len(runs.first))
    for rule, score in EVIDENCE:
        run_scores[rule(runs)] = score
    unlisted_scores = np.zeros(len(runs.first))
    for rule, score in EVIDENCE_FOR_UNLISTED:
        unlisted_scores[rule(runs)] = score
    rows = np.flatnonzero(unlisted_scores > run_scores)
    rows = rows[runs.are_name_like(rows)]
    run_scores[rows] = unlisted_scores[rows]
    scores = np.zeros(len(roles.words.start))
    scores[runs.first] = run_scores
    return scores


class Runs:
    """The runs of words of a column, one entry per run: its first and last word, the words before
    and after it, and what they are.

    `before` is the number of the word before the run and `before_2` that of the one before it; at
    the start of the column these are the number of the last word, which nothing follows, so that no
    rule holds for it. `after` is the word after the run."""

    def __init__(self, roles: WordRoles) -> None:
        self.roles, self.words = roles, roles.words
        self.first, self.last = roles.run_first, roles.run_last
        self.before, self.before_2 = self.first - 1, np.maximum(self.first - 2, -1)
        self.after = np.minimum(self.last + 1, max(len(roles.is_run_start) - 1, 0))
        self.size = self.last - self.first + 1
        self._flags_before, self._hashes_before = (
            roles.words.flags[self.before],
            roles.words.hashes[self.before],
        )

    def has_before(self, flags: int) -> Mask:
        """True where the word before a run has one of `flags`."""
        found: Mask = (self._flags_before & flags) > 0
        return found

    def is_word_before(self, *texts: str) -> Mask:
        """True where the word before a run is one of some words, in any letter case."""
        found = np.zeros(len(self.first), np.bool_)
        for word_hash in hash_single_words(texts):
            found |= self._hashes_before == word_hash
        return found

    @cached_property
    def blank_before(self) -> Mask:
        """True where one blank separates a run from the word before it."""
        found: Mask = self.words.has_blank_after[self.before]
        return found

    @cached_property
    def comma_before(self) -> Mask:
        """True where a comma and a blank separate a run from the word before it."""
        return self.words.has_comma_after(self.before)

    @cached_property
    def colon_before(self) -> Mask:
        """True where a colon, and blanks or signs of emphasis, separate a run from the word before
        it: `Name:** Petra`."""
        w, before = self.words, self.before
        found: Mask = (
            w.has_next[before] & (w.next_byte[before] == COLON) & (w.gap_bytes[before] <= 5)
        )
        return found

    @cached_property
    def next_byte(self) -> U8:
        """The byte after each run; 0 at the end of its text."""
        found: U8 = self.words.next_byte[self.last]
        return found

    @cached_property
    def before_punctuation(self) -> Mask:
        """True where punctuation or the end of the text follows a run."""
        found: Mask = PUNCTUATION_BYTES[self.next_byte] | ~self.words.has_next[self.last]
        return found

    @cached_property
    def _flags_of_lowercase_after(self) -> I32:
        """The flags of the word after each run, where it is in lower case and a blank separates it;
        else 0."""
        w = self.words
        return np.where(
            w.has_blank_after[self.last] & w.is_lowercase[self.after],
            w.flags[self.after],
            np.int32(0),
        )

    def is_before_verb(self, flags: int) -> Mask:
        """True where a blank and a word in lower case with one of `flags` follow a run."""
        found: Mask = (self._flags_of_lowercase_after & flags) > 0
        return found

    def starts_sentence_at(self, rows: I64) -> Mask:
        """True for those of the runs `rows` that are at the start of a line or of a sentence."""
        w, first = self.words, self.first[rows]
        found: Mask = w.is_line_start[first] | (
            (w.look_back(first, 1) == _SPACE) & SENTENCE_END_BYTES[w.look_back(first, 2)]
        )
        return found

    def has_no_common_word_at(self, rows: I64) -> Mask:
        """True for those of the runs `rows` in which no word is a common word."""
        row_no, words = enumerate_ranges(self.first[rows], self.last[rows] + 1)
        found = np.ones(len(rows), np.bool_)
        found[row_no[self.roles.is_common_at(words)]] = False
        return found

    def are_name_like(self, rows: I64) -> Mask:
        """True for those of the runs `rows` in which every word is a listed name, an initial, a
        particle or an unknown word, and that are not one initial."""
        w, roles = self.words, self.roles
        row_no, words = enumerate_ranges(self.first[rows], self.last[rows] + 1)
        name_like = roles.is_listed_at(words) | w.is_initial[words] | roles.is_particle[words]
        name_like &= ~w.has_flag_at(words, PLACE | ORGANIZATION) | roles.is_given_name_at(words)
        others = np.flatnonzero(~name_like)
        name_like[others] = roles.are_unknown(words[others])
        found: Mask = ~w.is_initial[self.first[rows]] | (self.size[rows] > 1)
        found[row_no[~name_like]] = False
        return found


def is_before_verb(runs: Runs) -> Mask:
    """True for `Petra said`: a listed name before a verb that people do."""
    found = runs.is_before_verb(VERB_AFTER_NAME)
    narrow(found, runs.roles.is_listed_at(runs.first[found]))
    return found


def is_after_cue(runs: Runs) -> Mask:
    """True for `I'm Petra`, `signed by Petra Haas`: a given name after a word that often precedes a
    name."""
    found = runs.has_before(NAME_CUE) & runs.blank_before
    narrow(found, runs.roles.is_clear_given_name_at(runs.first[found]))
    return found


def is_after_name_is(runs: Runs) -> Mask:
    """True for `my name is Zyqwert`, `your last name? Zyqwert`, `a man named Zyqwert`, for words
    that no list has as well."""
    w = runs.words
    is_or_was = runs.is_word_before("is", "was")
    before_2 = runs.before_2[is_or_was]
    narrow(
        is_or_was,
        w.is_word_at(before_2, "name", "surname", "nickname") & w.has_blank_after[before_2],
    )
    is_asked = runs.is_word_before("name", "surname")
    before = runs.before[is_asked]
    narrow(is_asked, (w.next_byte[before] == _QUESTION) & (w.gap_bytes[before] == 2))
    found: Mask = (
        (is_or_was | runs.is_word_before("named", "nicknamed")) & runs.blank_before
    ) | is_asked
    return found


def is_after_authorship(runs: Runs) -> Mask:
    """True for `written by Zyqwert`, `Directed by: Zyqwert Blorb`, `Reviewed-by: Zyqwert Blorb`."""
    w = runs.words
    found = runs.is_word_before("by") & (runs.blank_before | runs.colon_before)
    before_2 = runs.before_2[found]
    narrow(
        found,
        w.has_flag_at(before_2, AUTHORSHIP_VERB)
        & (w.has_blank_after[before_2] | w.is_tightly_joined[before_2]),
    )
    return found


def is_after_relation(runs: Runs) -> Mask:
    """True for `my son Zyqwert`, `our founder, Zyqwert Blorb`."""
    separated = runs.comma_before & runs.is_word_before("founder", "cofounder", "wife", "husband")
    found: Mask = runs.has_before(RELATION) & (runs.blank_before | separated)
    narrow(found, runs.words.is_lowercase[runs.before[found]])
    return found


def is_before_personal_verb(runs: Runs) -> Mask:
    """True for `Zyqwert Blorb lives`: a verb that only people do."""
    return runs.is_before_verb(PERSONAL_VERB)


def is_after_quotation(runs: Runs) -> Mask:
    """True for `it is," says Zyqwert.`: who says what is quoted before."""
    w = runs.words
    found = runs.blank_before & runs.is_word_before(
        "says", "said", "asks", "asked", "replied", "adds", "added"
    )
    before = runs.before[found]
    narrow(
        found,
        w.is_lowercase[before]
        & (w.look_back(before, 1) == _SPACE)
        & np.isin(w.look_back(before, 2), list(b"\"'")),
    )
    return found


def has_surname_ending(runs: Runs) -> Mask:
    """True for `Zyqwert Kucharski`: two to four words, the last of which ends like a surname."""
    found: Mask = (runs.size > 1) & (runs.size <= _MAX_UNLISTED_WORDS)
    narrow(found, ~runs.words.is_uppercase[runs.first[found]])
    narrow(found, runs.roles.have_surname_ending(runs.last[found]))
    return found


def is_given_name_before_unknown(runs: Runs) -> Mask:
    """True for `Ed Zyqwert`: a given name that is a common word as well, before a word that no list
    has; not at the start of a sentence."""
    w = runs.words
    found: Mask = runs.blank_before & (runs.size == 2)
    first, before = runs.first[found], runs.before[found]
    narrow(
        found,
        w.has_flag_at(first, EVERYDAY_GIVEN_NAME)
        & ~w.is_uppercase[first]
        & (w.is_lowercase[before] | w.has_digit[before]),
    )
    narrow(found, runs.roles.are_unknown(runs.last[found]))
    return found


def is_spoken_to(runs: Runs) -> Mask:
    """True for a name that is spoken to: `Zyqwert, please come` at the start of a line or sentence,
    and `Thanks, Zyqwert.`"""
    w = runs.words
    before_request = runs.next_byte == COMMA
    last, after = runs.last[before_request], runs.after[before_request]
    narrow(
        before_request,
        w.has_comma_after(last) & w.has_flag_at(after, REQUEST) & w.is_lowercase[after],
    )
    narrow(before_request, runs.starts_sentence_at(np.flatnonzero(before_request)))
    after_assent = runs.has_before(ASSENT) & runs.comma_before
    after_assent &= (
        runs.before_punctuation | (runs.next_byte == _QUESTION) | w.is_line_end[runs.last]
    )
    found: Mask = (runs.size <= 2) & (before_request | after_assent)
    return found


def is_declarant(runs: Runs) -> Mask:
    """True for `I, Petra Zyqwert, declare`."""
    found: Mask = (
        runs.comma_before
        & runs.is_word_before("i")
        & ((runs.next_byte == COMMA) | (runs.next_byte == _APOSTROPHE))
    )
    narrow(found, runs.words.is_capitalized[runs.before[found]])
    return found


def is_before_wrote(runs: Runs) -> Mask:
    """True for `On 1 May Zyqwert Blorb wrote:`, the line above a quotation."""
    w = runs.words
    found: Mask = w.has_blank_after[runs.last] & (w.next_byte[runs.after] == COLON)
    after = runs.after[found]
    narrow(
        found,
        w.is_word_at(after, "wrote", "writes", "schrieb", "écrit", "escribió")
        & w.is_lowercase[after],
    )
    return found


def is_pinyin_given_name(runs: Runs) -> Mask:
    """True for a Chinese given name of two syllables in Latin letters (`Xiaoming`) where the signs
    around it are those of a person."""
    w, roles = runs.words, runs.roles
    found: Mask = runs.size == 1
    words = runs.first[found]
    is_ordinary = (
        roles.is_common_at(words)
        | w.is_uppercase[words]
        | w.has_flag_at(words, PLACE | ORGANIZATION)
    )
    narrow(found, ~is_ordinary & (w.size[words] > 3))
    narrow(found, is_addressed(roles, runs.first[found]))
    words = runs.first[found]
    if len(words):
        texts = pl.Series(slice_spans(w.buffers, w.start[words], w.end[words])).str.to_lowercase()
        is_pinyin = texts.str.contains(PINYIN_GIVEN_NAME_PATTERN) & ~texts.str.contains(
            PINYIN_PLACE_PATTERN
        )
        is_doubled = texts.str.slice(0, texts.str.len_chars() // 2) == texts.str.slice(
            texts.str.len_chars() // 2
        )
        narrow(
            found,
            (is_pinyin & (is_doubled | texts.str.contains(DISTINCTIVE_PINYIN_PATTERN))).to_numpy(),
        )
    return found


def is_addressed(roles: WordRoles, rows: I64) -> Mask:
    """True for those of the words `rows` around which the signs are those of a person who is spoken
    to, or who has or does something: before a comma at the start of a line or of what somebody
    says, between a comma and punctuation, before `'s` or a verb that people do, after a word such
    as `with`, before a telephone number in parentheses."""
    w = roles.words
    next_byte, byte_2_before = w.next_byte[rows], w.look_back(rows, 2)
    before, after = rows - 1, np.minimum(rows + 1, max(len(w.start) - 1, 0))
    before_comma = (next_byte == COMMA) & (w.is_line_start[rows] | (byte_2_before == COLON))
    after_comma = (byte_2_before == COMMA) & PUNCTUATION_BYTES[next_byte]
    possessive = w.is_tightly_joined[rows] & w.is_word_at(after, "s") & (w.size[after] == 1)
    before_verb = (
        w.has_blank_after[rows] & w.has_flag_at(after, VERB_AFTER_NAME) & w.is_lowercase[after]
    )
    after_cue = (
        w.has_blank_after[before]
        & w.has_flag_at(before, NAME_CUE)
        & ~w.is_word_at(before, "by", "in")
    )
    before_number = next_byte == _SPACE
    narrow(before_number, w.look_ahead(rows[before_number], 1) == ord("("))
    narrow(before_number, DIGIT_OR_PLUS_BYTES[w.look_ahead(rows[before_number], 2)])
    found: Mask = before_comma | after_comma | possessive | before_verb | after_cue | before_number
    return found


def is_after_form_field(runs: Runs) -> Mask:
    """True for `Patient: Zyqwert Blorb`, `Name:** Petra`: a field of a form, if no word is a common
    word."""
    w = runs.words
    found = runs.has_before(FORM_FIELD) & runs.colon_before
    narrow(found, w.is_capitalized[runs.before[found]] & ~w.is_uppercase[runs.first[found]])
    narrow(found, runs.has_no_common_word_at(np.flatnonzero(found)))
    return found


def is_given_name_after_form_field(runs: Runs) -> Mask:
    """True for `Name: Petra`: a given name in a field of a form."""
    found = is_after_form_field(runs)
    narrow(found, runs.roles.is_clear_given_name_at(runs.first[found]))
    return found


def is_after_role(runs: Runs) -> Mask:
    """True for `Engineer Haas`, `Coach He`: one listed surname, or a Chinese one, after a role."""
    w, roles = runs.words, runs.roles
    found = runs.has_before(ROLE) & runs.blank_before
    first = runs.first[found]
    is_listed = (roles.is_surname_at(first) & ~roles.is_common_at(first)) | w.has_flag_at(
        first, CHINESE_SURNAME
    )
    narrow(
        found,
        w.is_capitalized[runs.before[found]]
        & is_listed
        & ~w.has_flag_at(first, PLACE | ORGANIZATION),
    )
    return found


def is_after_closing(runs: Runs) -> Mask:
    """True for a line that is only a name, without a common word, at most 6 bytes after `Regards,`
    or `Thanks,`."""
    w = runs.words
    found = runs.has_before(CLOSING)
    before = runs.before[found]
    is_line = w.is_line_start[runs.first[found]] & w.is_line_end[runs.last[found]]
    narrow(found, w.has_next[before] & (w.gap_bytes[before] <= 6) & is_line)
    narrow(found, runs.has_no_common_word_at(np.flatnonzero(found)))
    return found


def is_after_greeting(runs: Runs) -> Mask:
    """True for `Dear Zyqwert,`."""
    w = runs.words
    found = runs.has_before(GREETING) & runs.before_punctuation
    before = runs.before[found]
    narrow(
        found, w.is_capitalized[before] & (w.has_blank_after[before] | (w.gap_bytes[before] == 2))
    )
    narrow(found, runs.has_no_common_word_at(np.flatnonzero(found)))
    return found


def is_after_title(runs: Runs) -> Mask:
    """True for `Mr. Zyqwert`; not for `President, Acorn`, `Attorney-Client`, `General Public`."""
    w, roles = runs.words, runs.roles
    found = runs.has_before(TITLE)
    before, first = runs.before[found], runs.first[found]
    is_adjacent = w.is_joined[before] | ((w.gap_bytes[before] == 2) & (w.next_byte[before] == _DOT))
    is_only_common = roles.is_common_at(first) & ~w.has_flag_at(first, GIVEN_NAME | SURNAME)
    narrow(
        found,
        roles.is_title_at(before) & is_adjacent & ~w.is_tightly_joined[before] & ~is_only_common,
    )
    return found


def is_notes_name(runs: Runs) -> Mask:
    """True for a person as Lotus Notes writes one: `Petra Zyqwert/HOU/EXAMPLE`, and with `@` and an
    organization at the end `Petra Zyqwert/Example Works@Example Works` and `Petra
    Zyqwert@EXAMPLE`."""
    w, roles = runs.words, runs.roles
    found: Mask = (runs.size > 1) & ((runs.next_byte == SLASH) | (runs.next_byte == _AT))
    first, last, part = runs.first[found], runs.last[found], runs.after[found]
    part_2 = np.minimum(part + 1, len(w.start) - 1)
    slash, at_sign = (
        _is_before_sign(w, last, SLASH),
        _is_before_sign(w, last, _AT) & w.is_capitalized[part],
    )
    two_parts = slash & _is_before_sign(w, part, SLASH)
    in_capitals = two_parts & w.is_uppercase[part] & w.is_uppercase[part_2]
    capitalized = two_parts & w.is_capitalized[part] & w.is_capitalized[part_2]
    with_organization = at_sign | (slash & _leads_to_at_sign(w, part))
    is_person = w.has_flag_at(first, GIVEN_NAME) | roles.is_listed_at(first)
    narrow(found, in_capitals | ((capitalized | with_organization) & is_person))
    return found


def _is_before_sign(words: WordTable, rows: I64, sign: int) -> Mask:
    """True for those of the words `rows` that only this byte separates from the next word."""
    found: Mask = (words.gap_bytes[rows] == 1) & (words.next_byte[rows] == sign)
    return found


def _leads_to_at_sign(words: WordTable, rows: I64) -> Mask:
    """True for those of the words `rows` from which capitalised words, separated by blanks and
    slashes, lead to `@` before another one."""
    found = np.zeros(len(rows), np.bool_)
    left = np.arange(len(rows))
    for distance in range(_MAX_NOTES_PART_WORDS + 1):
        word = rows[left] + distance
        is_before_at_sign = _is_before_sign(words, word, _AT)
        is_joined = (
            is_before_at_sign | _is_before_sign(words, word, SLASH) | words.has_blank_after[word]
        )
        narrow(is_joined, words.is_capitalized[word[is_joined] + 1])
        found[left[is_joined & is_before_at_sign]] = True
        left = left[is_joined & ~is_before_at_sign]
    return found


def is_common_name(runs: Runs) -> Mask:
    """True for `CN=Petra Zyqwert/OU=SALES/O=EXAMPLE`, as X.500 writes a person: two words or
    more."""
    found: Mask = runs.is_word_before("cn") & (runs.size > 1)
    narrow(found, _is_before_sign(runs.words, runs.before[found], ord("=")))
    return found


EVIDENCE = (
    (is_before_verb, GIVEN_NAME_SCORE),
    (is_pinyin_given_name, GIVEN_NAME_SCORE),
    (is_after_cue, ONE_LISTED_SCORE),
    (is_given_name_before_unknown, ONE_LISTED_SCORE),
    (is_after_role, ONE_LISTED_SCORE),
    (is_after_form_field, ONE_LISTED_SCORE),
    (is_given_name_after_form_field, AFTER_GREETING_SCORE),
    (is_after_closing, AFTER_GREETING_SCORE),
    (is_after_greeting, AFTER_GREETING_SCORE),
    (is_after_title, AFTER_TITLE_SCORE),
    (is_notes_name, AFTER_TITLE_SCORE),
)
# for runs of listed names, initials, particles and words that no list has
EVIDENCE_FOR_UNLISTED = (
    (is_after_relation, ONE_LISTED_SCORE),
    (is_before_personal_verb, ONE_LISTED_SCORE),
    (is_after_quotation, ONE_LISTED_SCORE),
    (has_surname_ending, ONE_LISTED_SCORE),
    (is_spoken_to, ONE_LISTED_SCORE),
    (is_declarant, ONE_LISTED_SCORE),
    (is_after_name_is, ONE_LISTED_SCORE),
    (is_after_authorship, ONE_LISTED_SCORE),
    (is_before_wrote, ONE_LISTED_SCORE),
    (is_common_name, AFTER_TITLE_SCORE),
)
