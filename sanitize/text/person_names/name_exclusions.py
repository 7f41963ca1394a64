"""Runs of words that look like names and are none: companies, streets, places, user names. One rule
a function.

Every rule returns a mask over candidates, given by the numbers of their first and last words
(`start`, `end`, both inclusive; equal for one word). For the first word of all, `start - 1` is -1,
which reads the last word. That one has no next word, so what is stored about the gap to the next
word (`has_blank_after`, `is_joined`, `gap_bytes`) is 0, and the rule does not apply.
`EXCLUSIONS` lists the rules, each with a score: it applies to candidates whose evidence
(name_evidence.py) is weaker than that.
"""

from __future__ import annotations

import numpy as np

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import make_byte_table
from sanitize.text.name_lexicon import (
    CHINESE_SURNAME,
    EPONYMS,
    ORGANIZATION,
    PLACE,
    PLACE_PREFIX,
    PLACE_PREPOSITION,
    VERB_AFTER_NAME,
)
from sanitize.text.person_names.name_evidence import (
    AFTER_GREETING_SCORE,
    AFTER_TITLE_SCORE,
    GIVEN_NAME_SCORE,
    ONE_LISTED_SCORE,
    TWO_LISTED_SCORE,
)
from sanitize.text.person_names.word_roles import MAX_NAME_WORDS, WordRoles
from sanitize.text.person_names.word_table import (
    COMMA,
    DIGIT_BYTES,
    WordTable,
    hash_single_words,
    narrow,
)

_AMPERSAND, _UNDERSCORE, _HYPHEN = b"&_-"
_ZERO, _ONE, _TWO, _NINE = b"0129"
_SIGN_BYTES, _INNER_SIGN_BYTES = make_byte_table(b"@#_$+"), make_byte_table(b"_:+")
_MAX_WORDS_TO_ORGANIZATION = 3  # from a name to a word of organizations, which is counted


def is_before_organization(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Wells Fargo Bank`, `Johnson Insurance Group`: capitalised words after it lead to a
    word of organizations or streets."""
    w = roles.words
    found = np.zeros(len(end), np.bool_)
    left = np.arange(len(end))
    for distance in range(_MAX_WORDS_TO_ORGANIZATION):
        left = left[w.is_joined[end[left] + distance]]
        word = end[left] + distance + 1
        is_organization = (
            w.has_flag_at(word, ORGANIZATION) & w.is_capitalized[word] & ~w.is_initial[word]
        )
        found[left[is_organization]] = True
        left = left[
            ~is_organization
            & w.is_capitalized[word]
            & ~roles.is_listed_at(word)
            & ~w.has_digit[word]
        ]
    return found


def is_beside_ampersand(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Johnson & Sons`."""
    return _is_before_ampersand(roles.words, end) | _is_before_ampersand(roles.words, start - 1)


def _is_before_ampersand(words: WordTable, rows: I64) -> Mask:
    """True for those of the words `rows` that `&` between two other bytes separates from the next
    word."""
    found: Mask = words.gap_bytes[rows] == 3
    narrow(found, words.look_ahead(rows[found], 1) == _AMPERSAND)
    return found


def is_list_of_surnames(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for the words of `Morris, Jones and Newton`, as firms are called: single surnames, none
    of which is mainly a given name, two of them separated by a comma, and before or after `and`."""
    found: Mask = start == end
    row = start[found]
    narrow(
        found,
        _is_second_surname(roles, row)
        | _is_second_surname(roles, row + 1)
        | _is_second_surname(roles, row - 2),
    )
    return found


def _is_second_surname(roles: WordRoles, rows: I64) -> Mask:
    """True for `Jones` in `Morris, Jones and Newton`; `rows` may be no words."""
    w = roles.words
    found = (rows > 0) & (rows < len(w.start))
    narrow(found, w.has_blank_after[rows[found]])
    narrow(found, w.is_word_at(rows[found] + 1, "and") & w.has_blank_after[rows[found] + 1])
    narrow(found, w.has_comma_after(rows[found] - 1))
    for distance in (-1, 0, 2):
        narrow(found, _is_single_surname(roles, rows[found] + distance))
    return found


def _is_single_surname(roles: WordRoles, rows: I64) -> Mask:
    found: Mask = (
        roles.is_surname_at(rows)
        & roles.words.is_capitalized[rows]
        & roles.is_run_start[rows]
        & ~roles.is_linked[rows]
    )
    return found


def is_hyphenated_surname_pair(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Butler-Patel`, as firms are called: two surnames of which the second is no given
    name."""
    w = roles.words
    found: Mask = (end == start + 1) & w.is_tightly_joined[start] & (w.next_byte[start] == _HYPHEN)
    first, second = start[found], end[found]
    narrow(
        found,
        roles.is_surname_at(first) & roles.is_surname_at(second) & ~roles.is_given_name_at(second),
    )
    return found


def is_eponym(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for companies and things of the list that are called after a person: `Dow Jones`."""
    w = roles.words
    first, second = (
        hash_single_words(tuple(pair.split()[place] for pair in EPONYMS)) for place in (0, 1)
    )
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    found = np.zeros(len(start), np.bool_)
    # the candidate may begin with the second word of the pair
    for first_word in (start, start - 1):
        rows = np.flatnonzero((first_word >= 0) & (first_word + 1 < len(w.start)))
        rows = rows[np.isin(w.hashes[first_word[rows]], first)]
        is_pair = [
            (int(w.hashes[word]), int(w.hashes[word + 1])) in pairs for word in first_word[rows]
        ]
        found[rows] |= np.array(is_pair, np.bool_)
    return found


def is_after_place_prefix(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `San Andres`, `Port Anna`, `Rue Victor Hugo`."""
    w, before = roles.words, start - 1
    found: Mask = (
        w.has_flag_at(before, PLACE_PREFIX) & w.is_capitalized[before] & w.is_joined[before]
    )
    return found


def begins_with_place_prefix(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Santa Clara`: several words, of which the first is listed as a name and stands
    before names of places, too."""
    found: Mask = (end > start) & roles.words.has_flag_at(start, PLACE_PREFIX)
    return found


def is_street_number(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `806 Petra Meadow, Springfield`: a number before it, which is no year, and a comma
    or another number after it."""
    w, data = roles.words, roles.words.buffers.data
    found: Mask = w.has_digit[start - 1] & w.has_blank_after[start - 1]
    number, last = start[found] - 1, end[found]
    first, second, ends_with_digit = (
        data[w.start[number]],
        data[w.start[number] + 1],
        DIGIT_BYTES[data[w.end[number] - 1]],
    )
    is_year = (w.size[number] == 4) & (
        ((first == _ONE) & (second == _NINE)) | ((first == _TWO) & (second == _ZERO))
    )
    number_after = w.has_blank_after[last] & w.has_digit[np.minimum(last + 1, len(w.start) - 1)]
    is_before = ends_with_digit & ~is_year & (w.look_back(number, 1) != ord("+"))
    narrow(found, is_before & ((w.next_byte[last] == COMMA) | number_after))
    return found


def is_part_of_identifier(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `@Petra_84`, `#Petra`, `Ah-2335`, `Petra_Haas`: a word that signs of identifiers
    join to other signs."""
    w = roles.words
    found: Mask = start == end
    rows = start[found]
    byte_before, after = w.look_back(rows, 1), w.next_byte[rows]
    # `_Petra Haas_` is emphasis
    is_emphasis = (byte_before == _UNDERSCORE) & (after == _UNDERSCORE)
    digits = (
        w.is_tightly_joined[rows]
        & (after == _HYPHEN)
        & w.has_digit[np.minimum(rows + 1, len(w.start) - 1)]
    )
    inside = _INNER_SIGN_BYTES[after] & (w.gap_bytes[rows] == 1)
    narrow(
        found,
        ((_SIGN_BYTES[byte_before] & ~is_emphasis) | inside | digits) & ~(is_emphasis & ~inside),
    )
    return found


def is_single_after_article(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `the Jonas brothers`, `a Kelly bag`: one word after an article."""
    w = roles.words
    found: Mask = (start == end) & w.has_blank_after[start - 1]
    narrow(found, w.is_word_at(start[found] - 1, "the", "a", "an", "this"))
    return found


def is_place(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for one word of the list of places, unless a verb that people do follows it."""
    w = roles.words
    found: Mask = (start == end) & w.has_flag_at(start, PLACE)
    rows = start[found]
    before, after = rows - 1, np.minimum(rows + 1, len(w.start) - 1)
    before_verb = w.has_blank_after[rows] & w.has_flag_at(after, VERB_AFTER_NAME)
    after_place = (
        w.has_flag_at(before, PLACE_PREPOSITION | ORGANIZATION) & w.has_blank_after[before]
    )
    narrow(found, after_place | (w.next_byte[rows] == COMMA) | ~before_verb)
    return found


def has_no_person_word(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `New York`: several words, all of them places or common words, of which the first is
    no Chinese surname."""
    found = end > start
    narrow(found, ~roles.words.has_flag_at(start[found], CHINESE_SURNAME))
    narrow(found, roles.count_listed(start[found], end[found], MAX_NAME_WORDS, without=PLACE) == 0)
    return found


def is_short_uppercase(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `ENE`: one word of three letters at most in capitals."""
    w = roles.words
    found: Mask = (start == end) & w.is_uppercase[start] & (w.size[start] <= 3)
    return found


EXCLUSIONS = (
    (is_before_organization, AFTER_TITLE_SCORE),
    (is_beside_ampersand, AFTER_TITLE_SCORE),
    (is_part_of_identifier, AFTER_TITLE_SCORE),
    (is_list_of_surnames, AFTER_GREETING_SCORE),
    (is_hyphenated_surname_pair, AFTER_GREETING_SCORE),
    (is_eponym, AFTER_GREETING_SCORE),
    (is_after_place_prefix, ONE_LISTED_SCORE),
    (begins_with_place_prefix, TWO_LISTED_SCORE),
    (is_place, GIVEN_NAME_SCORE),
    (has_no_person_word, GIVEN_NAME_SCORE),
    (is_short_uppercase, GIVEN_NAME_SCORE),
    (is_street_number, GIVEN_NAME_SCORE),
    (is_single_after_article, GIVEN_NAME_SCORE),
)
