"""Evidence that a run of words is a name: what is written before and after it. One rule a function.

Every rule returns a mask over the runs of a column that is true for those it supports; `EVIDENCE` and
`EVIDENCE_FOR_UNLISTED` list the rules with their scores, the strongest last.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import slice_spans
from sanitize.core.intervals import enumerate_ranges
from sanitize.text.name_lexicon import (
    ASSENT,
    AUTHORSHIP_VERB,
    CHINESE_SURNAME,
    CLOSING,
    COMMON_WORD,
    DISTINCTIVE_PINYIN_PATTERN,
    EVERYDAY_GIVEN_NAME,
    FORM_FIELD,
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
    at_next_word,
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
_MAX_NOTES_PART_WORDS = 8  # of the organization in `Petra Zyqwert/Example Works of Springfield@Example Works`


def score_evidence(roles: WordRoles) -> F64:
    """Returns for the first word of each run the score of the strongest evidence, 0 for none and for all other words."""
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
    """The runs of words of a column, one entry per run: its first and last word, the words before and after it, and what they are.

    `before` is the number of the word before the run and `before_2` that of the one before it; at the start of the column these are the
    number of the last word, which nothing follows, so that no rule holds for it. `after` is the word after the run."""

    def __init__(self, roles: WordRoles) -> None:
        self.roles, self.words = roles, roles.words
        self.first = np.flatnonzero(roles.is_run_start)
        self.last = roles.run_end[self.first]
        self.before, self.before_2 = self.first - 1, np.maximum(self.first - 2, -1)
        self.after = np.minimum(self.last + 1, max(len(roles.is_run_start) - 1, 0))
        self.size = self.last - self.first + 1

    def has_before(self, flags: int) -> Mask:
        """True where the word before a run has one of `flags`."""
        return self.words.has_flag_at(self.before, flags)

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
        """True where a colon, and blanks or signs of emphasis, separate a run from the word before it: `Name:** Petra`."""
        w, before = self.words, self.before
        found: Mask = w.has_next[before] & (w.next_byte[before] == COLON) & (w.gap_bytes[before] <= 5)
        return found

    @cached_property
    def starts_sentence(self) -> Mask:
        """True for runs at the start of a line or of a sentence."""
        w = self.words
        found: Mask = w.is_line_start[self.first] | ((w.byte_before[self.first] == _SPACE) & SENTENCE_END_BYTES[w.look_back(self.first, 2)])
        return found

    @cached_property
    def before_punctuation(self) -> Mask:
        """True where punctuation or the end of the text follows a run."""
        found: Mask = PUNCTUATION_BYTES[self.words.next_byte[self.last]] | ~self.words.has_next[self.last]
        return found

    def is_before_verb(self, flags: int) -> Mask:
        """True where a blank and a word in lower case with one of `flags` follow a run."""
        w = self.words
        found: Mask = w.has_blank_after[self.last] & w.has_flag_at(self.after, flags) & w.is_lowercase[self.after]
        return found

    @cached_property
    def has_no_common_word(self) -> Mask:
        """True where no word is a common word that no list of names has."""
        roles = self.roles
        return self._has_only(~(roles.is_common & ~roles.is_listed))

    def are_name_like(self, rows: I64) -> Mask:
        """True for those of the runs `rows` in which every word is a listed name, an initial, a particle or an unknown word, and that are
        not one initial."""
        w, roles = self.words, self.roles
        row_no, words = enumerate_ranges(self.first[rows], self.last[rows] + 1)
        name_like = roles.is_listed[words] | w.is_initial[words] | roles.is_particle[words]
        name_like &= ~w.has_flag_at(words, PLACE | ORGANIZATION) | roles.is_given_name[words]
        others = np.flatnonzero(~name_like)
        name_like[others] = roles.are_unknown(words[others])
        found: Mask = ~w.is_initial[self.first[rows]] | (self.size[rows] > 1)
        found[row_no[~name_like]] = False
        return found

    def _has_only(self, selected: Mask) -> Mask:
        """True for runs of which all words are `selected`."""
        others_before = np.append(0, np.cumsum(~selected))
        found: Mask = others_before[self.last + 1] == others_before[self.first]
        return found


def is_before_verb(runs: Runs) -> Mask:
    """True for `Petra said`: a listed name before a verb that people do."""
    found: Mask = runs.is_before_verb(VERB_AFTER_NAME) & runs.roles.is_listed[runs.first]
    return found


def is_after_cue(runs: Runs) -> Mask:
    """True for `I'm Petra`, `signed by Petra Haas`: a given name after a word that often precedes a name."""
    found: Mask = runs.has_before(NAME_CUE) & runs.blank_before & runs.roles.is_clear_given_name[runs.first]
    return found


def is_after_name_is(runs: Runs) -> Mask:
    """True for `my name is Zyqwert`, `your last name? Zyqwert`, `a man named Zyqwert`, for words that no list has as well."""
    w, before = runs.words, runs.before
    is_or_was = (
        w.is_word_at(before, "is", "was") & w.is_word_at(runs.before_2, "name", "surname", "nickname") & w.has_blank_after[runs.before_2]
    )
    named = w.is_word_at(before, "named", "nicknamed")
    is_asked = (
        w.is_word_at(before, "name", "surname") & (w.next_byte[before] == _QUESTION) & (w.gap_bytes[before] == 2) & w.has_next[before]
    )
    found: Mask = ((is_or_was | named) & runs.blank_before) | is_asked
    return found


def is_after_authorship(runs: Runs) -> Mask:
    """True for `written by Zyqwert`, `Directed by: Zyqwert Blorb`, `Reviewed-by: Zyqwert Blorb`."""
    w = runs.words
    by = w.is_word_at(runs.before, "by") & (runs.blank_before | runs.colon_before)
    verb = w.has_flag_at(runs.before_2, AUTHORSHIP_VERB) & (w.has_blank_after | w.is_tightly_joined)[runs.before_2]
    found: Mask = by & verb
    return found


def is_after_relation(runs: Runs) -> Mask:
    """True for `my son Zyqwert`, `our founder, Zyqwert Blorb`."""
    w = runs.words
    separated = runs.comma_before & w.is_word_at(runs.before, "founder", "cofounder", "wife", "husband")
    relation = runs.has_before(RELATION) & w.is_lowercase[runs.before] & (runs.blank_before | separated)
    found: Mask = relation
    return found


def is_before_personal_verb(runs: Runs) -> Mask:
    """True for `Zyqwert Blorb lives`: a verb that only people do."""
    found: Mask = runs.is_before_verb(PERSONAL_VERB)
    return found


def is_after_quotation(runs: Runs) -> Mask:
    """True for `it is," says Zyqwert.`: who says what is quoted before."""
    w = runs.words
    says = w.is_word_at(runs.before, "says", "said", "asks", "asked", "replied", "adds", "added") & w.is_lowercase[runs.before]
    quotation = (w.byte_before[runs.before] == _SPACE) & np.isin(w.look_back(runs.before, 2), list(b"\"'"))
    found: Mask = says & runs.blank_before & quotation
    return found


def has_surname_ending(runs: Runs) -> Mask:
    """True for `Zyqwert Kucharski`: two to four words, the last of which ends like a surname."""
    found: Mask = (runs.size > 1) & (runs.size <= _MAX_UNLISTED_WORDS) & ~runs.words.is_uppercase[runs.first]
    rows = np.flatnonzero(found)
    found[rows] = runs.roles.have_surname_ending(runs.last[rows])
    return found


def is_given_name_before_unknown(runs: Runs) -> Mask:
    """True for `Ed Zyqwert`: a given name that is a common word as well, before a word that no list has; not at the start of a sentence."""
    w = runs.words
    is_inside = runs.blank_before & (w.is_lowercase | w.has_digit)[runs.before]
    given = w.has_flag_at(runs.first, EVERYDAY_GIVEN_NAME) & ~w.is_uppercase[runs.first]
    found: Mask = is_inside & given & (runs.size == 2)
    rows = np.flatnonzero(found)
    found[rows] = runs.roles.are_unknown(runs.last[rows])
    return found


def is_spoken_to(runs: Runs) -> Mask:
    """True for a name that is spoken to: `Zyqwert, please come` at the start of a line or sentence, and `Thanks, Zyqwert.`"""
    w = runs.words
    before_request = runs.starts_sentence & w.has_comma_after(runs.last) & w.has_flag_at(runs.after, REQUEST) & w.is_lowercase[runs.after]
    ends_sentence = runs.before_punctuation | (w.next_byte[runs.last] == _QUESTION) | w.is_line_end[runs.last]
    after_assent = runs.has_before(ASSENT) & runs.comma_before & ends_sentence
    found: Mask = (runs.size <= 2) & (before_request | after_assent)
    return found


def is_declarant(runs: Runs) -> Mask:
    """True for `I, Petra Zyqwert, declare`."""
    w = runs.words
    ends = (w.next_byte[runs.last] == COMMA) | (w.next_byte[runs.last] == _APOSTROPHE)
    found: Mask = w.is_word_at(runs.before, "i") & w.is_capitalized[runs.before] & runs.comma_before & ends
    return found


def is_before_wrote(runs: Runs) -> Mask:
    """True for `On 1 May Zyqwert Blorb wrote:`, the line above a quotation."""
    w = runs.words
    wrote = w.is_word_at(runs.after, "wrote", "writes", "schrieb", "écrit", "escribió") & (w.next_byte[runs.after] == COLON)
    found: Mask = w.has_blank_after[runs.last] & wrote & w.is_lowercase[runs.after]
    return found


def is_pinyin_given_name(runs: Runs) -> Mask:
    """True for a Chinese given name of two syllables in Latin letters (`Xiaoming`) where the signs around it are those of a person."""
    w, roles = runs.words, runs.roles
    is_possible = (
        (runs.size == 1) & ~roles.is_common[runs.first] & ~w.is_uppercase[runs.first] & ~w.has_flag_at(runs.first, PLACE | ORGANIZATION)
    )
    rows = np.flatnonzero(is_possible & (w.end - w.start > 3)[runs.first])
    rows = rows[is_addressed(roles, runs.first[rows])]
    found = np.zeros(len(runs.first), np.bool_)
    if len(rows):
        words = runs.first[rows]
        texts = pl.Series(slice_spans(w.buffers, w.start[words], w.end[words])).str.to_lowercase()
        is_pinyin = texts.str.contains(PINYIN_GIVEN_NAME_PATTERN) & ~texts.str.contains(PINYIN_PLACE_PATTERN)
        is_doubled = texts.str.slice(0, texts.str.len_chars() // 2) == texts.str.slice(texts.str.len_chars() // 2)
        found[rows] = (is_pinyin & (is_doubled | texts.str.contains(DISTINCTIVE_PINYIN_PATTERN))).to_numpy()
    return found


def is_addressed(roles: WordRoles, rows: I64) -> Mask:
    """True for those of the words `rows` around which the signs are those of a person who is spoken to, or who has or does something:
    before a comma at the start of a line or of what somebody says, between a comma and punctuation, before `'s` or a verb that people do,
    after a word such as `with`, before a telephone number in parentheses."""
    w = roles.words
    next_byte, byte_2_before = w.next_byte[rows], w.look_back(rows, 2)
    after = np.minimum(rows + 1, max(len(w.start) - 1, 0))
    before_comma = (next_byte == COMMA) & (w.is_line_start[rows] | (byte_2_before == COLON))
    after_comma = (byte_2_before == COMMA) & PUNCTUATION_BYTES[next_byte]
    possessive = w.is_tightly_joined[rows] & w.is_word_at(after, "s") & (w.end[after] - w.start[after] == 1)
    before_verb = w.has_blank_after[rows] & w.has_flag_at(after, VERB_AFTER_NAME) & w.is_lowercase[after]
    after_cue = w.has_blank_after[rows - 1] & w.has_flag_at(rows - 1, NAME_CUE) & ~w.is_word_at(rows - 1, "by", "in")
    in_parentheses = w.look_ahead(rows, 1) == ord("(")
    before_number = (next_byte == _SPACE) & in_parentheses & DIGIT_OR_PLUS_BYTES[w.look_ahead(rows, 2)]
    found: Mask = before_comma | after_comma | possessive | before_verb | after_cue | before_number
    return found


def is_after_form_field(runs: Runs) -> Mask:
    """True for `Patient: Zyqwert Blorb`, `Name:** Petra`: a field of a form, if no word is a common word."""
    w = runs.words
    field = runs.has_before(FORM_FIELD) & w.is_capitalized[runs.before] & runs.colon_before
    found: Mask = field & runs.has_no_common_word & ~w.is_uppercase[runs.first]
    return found


def is_given_name_after_form_field(runs: Runs) -> Mask:
    """True for `Name: Petra`: a given name in a field of a form."""
    found: Mask = is_after_form_field(runs) & runs.roles.is_clear_given_name[runs.first]
    return found


def is_after_role(runs: Runs) -> Mask:
    """True for `Engineer Haas`, `Coach He`: one listed surname, or a Chinese one, after a role."""
    w, roles, first = runs.words, runs.roles, runs.first
    role = runs.has_before(ROLE) & runs.blank_before & w.is_capitalized[runs.before]
    listed = (roles.is_surname & ~roles.is_common)[first] | w.has_flag_at(first, CHINESE_SURNAME)
    found: Mask = role & listed & ~w.has_flag_at(first, PLACE | ORGANIZATION)
    return found


def is_after_closing(runs: Runs) -> Mask:
    """True for a line that is only a name, after `Regards,` or `Thanks,`."""
    w = runs.words
    closing = runs.has_before(CLOSING) & w.has_next[runs.before] & (w.gap_bytes[runs.before] <= 6)
    is_line = w.is_line_start[runs.first] & w.is_line_end[runs.last]
    found: Mask = closing & is_line & _is_no_common_word_only(runs) & runs.has_no_common_word
    return found


def is_after_greeting(runs: Runs) -> Mask:
    """True for `Dear Zyqwert,`."""
    w, before = runs.words, runs.before
    separated = runs.blank_before | (w.has_next[before] & (w.gap_bytes[before] == 2))
    greeting = runs.has_before(GREETING) & w.is_capitalized[before] & separated
    found: Mask = greeting & runs.before_punctuation & _is_no_common_word_only(runs) & runs.has_no_common_word
    return found


def is_after_title(runs: Runs) -> Mask:
    """True for `Mr. Zyqwert`; not for `President, Acorn`, `Attorney-Client`, `General Public`."""
    w, roles, before = runs.words, runs.roles, runs.before
    is_adjacent = w.is_joined[before] | (w.has_next[before] & (w.gap_bytes[before] == 2) & (w.next_byte[before] == _DOT))
    is_only_common = (roles.is_common & ~roles.is_given_name & ~roles.is_surname)[runs.first]
    found: Mask = roles.is_title[before] & is_adjacent & ~w.is_tightly_joined[before] & ~is_only_common
    return found


def is_notes_name(runs: Runs) -> Mask:
    """True for a person as Lotus Notes writes one: `Petra Zyqwert/HOU/EXAMPLE`, and with `@` and an organization at the end
    `Petra Zyqwert/Example Works@Example Works` and `Petra Zyqwert@EXAMPLE`."""
    w, roles = runs.words, runs.roles
    single = w.has_next & (w.gap_bytes == 1)
    before_capital = at_next_word(w.is_capitalized)
    slash = single & (w.next_byte == SLASH)
    at_sign = single & (w.next_byte == _AT) & before_capital
    found = np.zeros(len(runs.first), np.bool_)
    rows = np.flatnonzero((runs.size > 1) & (slash | at_sign)[runs.last])
    if not len(rows):
        return found
    leads_to_at_sign = at_sign
    for _ in range(_MAX_NOTES_PART_WORDS):
        leads_to_at_sign = leads_to_at_sign | ((slash | w.has_blank_after) & at_next_word(w.is_capitalized & leads_to_at_sign))
    last, part = runs.last[rows], runs.after[rows]
    part_2 = np.minimum(part + 1, len(w.start) - 1)
    two_parts = slash[last] & slash[part]
    in_capitals = two_parts & w.is_uppercase[part] & w.is_uppercase[part_2]
    capitalized = two_parts & w.is_capitalized[part] & w.is_capitalized[part_2]
    with_organization = at_sign[last] | (slash[last] & leads_to_at_sign[part])
    is_person = (roles.is_listed | roles.is_given_name)[runs.first[rows]]
    found[rows] = in_capitals | ((capitalized | with_organization) & is_person)
    return found


def is_common_name(runs: Runs) -> Mask:
    """True for `CN=Petra Zyqwert/OU=SALES/O=EXAMPLE`, as X.500 writes a person: two words or more."""
    w, before = runs.words, runs.before
    equals = w.is_word_at(before, "cn") & w.has_next[before] & (w.gap_bytes[before] == 1) & (w.next_byte[before] == ord("="))
    found: Mask = equals & (runs.size > 1)
    return found


def _is_no_common_word_only(runs: Runs) -> Mask:
    """True where the first word is no common word, or a given name as well."""
    found: Mask = ~(runs.words.has_flag_at(runs.first, COMMON_WORD) & ~runs.roles.is_given_name[runs.first])
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
