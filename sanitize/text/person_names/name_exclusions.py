"""Runs of words that look like names and are none: companies, streets, places, user names. One rule a function.

Every rule returns a mask over candidates, given by their first and last words (`start`, `end`). `EXCLUSIONS` lists the rules, each with a
score: it applies to candidates whose evidence (name_evidence.py) is weaker than that.
"""

from __future__ import annotations

import numpy as np

from sanitize.array_types import I64, Mask
from sanitize.text.name_lexicon import CHINESE_SURNAME, EPONYMS, ORGANIZATION, PLACE, PLACE_PREFIX, PLACE_PREPOSITION, VERB_AFTER_NAME
from sanitize.text.person_names.name_evidence import (
    AFTER_GREETING_SCORE,
    AFTER_TITLE_SCORE,
    GIVEN_NAME_SCORE,
    ONE_LISTED_SCORE,
    TWO_LISTED_SCORE,
)
from sanitize.text.person_names.word_roles import WordRoles
from sanitize.text.person_names.word_table import COMMA, DIGIT_BYTES, at_next_word, at_previous_word, hash_single_words

_AMPERSAND, _UNDERSCORE, _HYPHEN = b"&_-"
_SIGN_BYTES, _INNER_SIGN_BYTES = frozenset(b"@#_$+"), frozenset(b"_:+")
_MAX_WORDS_TO_ORGANIZATION = 3


def is_before_organization(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Wells Fargo Bank`, `Johnson Insurance Group`: capitalised words after it lead to a word of organizations or streets."""
    w = roles.words
    organization = w.has_flag(ORGANIZATION) & w.is_capitalized & ~w.is_initial
    leads = w.is_joined & at_next_word(organization)
    for _ in range(_MAX_WORDS_TO_ORGANIZATION - 1):
        leads = leads | (w.is_joined & at_next_word(w.is_capitalized & ~roles.is_listed & ~w.has_digit & leads))
    found: Mask = leads[end]
    return found


def is_beside_ampersand(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Johnson & Sons`."""
    w = roles.words
    ampersand = w.has_next & (w.gap_bytes == 3) & (w.padded_data[w.end + 1] == _AMPERSAND)
    found: Mask = ampersand[end] | at_previous_word(ampersand)[start]
    return found


def is_list_of_surnames(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for the words of `Morris, Jones and Newton`, as firms are called: single surnames, none of which is mainly a given name, two of
    them separated by a comma, and before or after `and`."""
    w = roles.words
    comma = w.has_next & (w.gap_bytes == 2) & (w.next_byte == COMMA)
    single = roles.is_surname & w.is_capitalized & (roles.run_end == np.arange(len(w.start))) & roles.is_run_start
    and_word = w.is_word("and") & w.has_blank_after
    # first, second `and` third
    is_second = single & at_previous_word(comma & single) & w.has_blank_after & at_next_word(and_word & at_next_word(single))
    is_first = at_next_word(is_second)
    is_third = at_previous_word(at_previous_word(is_second))
    found: Mask = (is_first | is_second | is_third)[start] & (start == end)
    return found


def is_hyphenated_surname_pair(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Butler-Patel`, as firms are called: two surnames of which the second is no given name."""
    w = roles.words
    pair = w.is_tightly_joined & (w.next_byte == _HYPHEN) & roles.is_surname & at_next_word(roles.is_surname & ~roles.is_given_name)
    found: Mask = pair[start] & (end == start + 1)
    return found


def is_eponym(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for companies and things of the list that are called after a person: `Dow Jones`."""
    w = roles.words
    first, second = (hash_single_words(tuple(pair.split()[place] for pair in EPONYMS)) for place in (0, 1))
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    found = np.zeros(len(start), np.bool_)
    # the candidate may begin with the second word of the pair
    for first_word in (start, start - 1):
        rows = np.flatnonzero((first_word >= 0) & (first_word + 1 < len(w.start)))
        rows = rows[np.isin(w.hashes[first_word[rows]], first)]
        is_pair = [(int(w.hashes[word]), int(w.hashes[word + 1])) in pairs for word in first_word[rows]]
        found[rows] |= np.array(is_pair, np.bool_)
    return found


def is_after_place_prefix(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `San Andres`, `Port Anna`, `Rue Victor Hugo`."""
    w = roles.words
    prefix = w.has_flag(PLACE_PREFIX) & w.is_capitalized & w.is_joined
    found: Mask = at_previous_word(prefix)[start]
    return found


def begins_with_place_prefix(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `Santa Clara`: several words, of which the first is listed as a name and stands before names of places, too."""
    w = roles.words
    found: Mask = (end > start) & w.has_flag(PLACE_PREFIX)[start]
    return found


def is_street_number(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `806 Petra Meadow, Springfield`: a number before it, which is no year, and a comma or another number after it."""
    w = roles.words
    first_two = w.padded_data[w.start].astype(np.int64) << 8 | w.padded_data[w.start + 1]
    is_year = (w.end - w.start == 4) & np.isin(first_two, [int.from_bytes(b"19", "big"), int.from_bytes(b"20", "big")])
    number = w.has_digit & DIGIT_BYTES[w.padded_data[w.end - 1]] & w.has_blank_after & ~is_year & (w.byte_before != ord("+"))
    number_after = (w.has_blank_after & at_next_word(w.has_digit))[end]
    found: Mask = at_previous_word(number)[start] & ((w.next_byte[end] == COMMA) | number_after)
    return found


def is_part_of_identifier(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `@Petra_84`, `#Petra`, `Ah-2335`, `Petra_Haas`: a word that signs of identifiers join to other signs."""
    w = roles.words
    before = np.isin(w.byte_before[start], list(_SIGN_BYTES))
    after = w.next_byte[end]
    # `_Petra Haas_` is emphasis
    is_emphasis = (w.byte_before[start] == _UNDERSCORE) & (after == _UNDERSCORE)
    digits = (w.is_tightly_joined & at_next_word(w.has_digit))[end] & (after == _HYPHEN)
    inside = np.isin(after, list(_INNER_SIGN_BYTES)) & (w.has_next & (w.gap_bytes == 1))[end]
    found: Mask = ((before & ~is_emphasis) | inside | digits) & ~(is_emphasis & ~inside) & (start == end)
    return found


def is_single_after_article(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `the Jonas brothers`, `a Kelly bag`: one word after an article."""
    w = roles.words
    article = w.is_word("the", "a", "an", "this") & w.has_blank_after
    found: Mask = at_previous_word(article)[start] & (start == end)
    return found


def is_place(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for one word of the list of places, unless a verb that people do follows it."""
    w = roles.words
    is_place_context = w.has_flag(PLACE_PREPOSITION) | w.has_flag(ORGANIZATION)
    before_verb = (w.has_blank_after & at_next_word(w.has_flag(VERB_AFTER_NAME)))[end]
    near_place = at_previous_word(is_place_context & w.has_blank_after)[start] | (w.next_byte == COMMA)[end] | ~before_verb
    found: Mask = (start == end) & w.has_flag(PLACE)[start] & near_place
    return found


def has_no_person_word(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `New York`: several words, all of them places or common words."""
    w = roles.words
    people_before = np.append(0, np.cumsum(roles.is_listed & ~w.has_flag(PLACE)))
    has_people = people_before[end + 1] > people_before[start]
    found: Mask = (end > start) & ~has_people & ~w.has_flag(CHINESE_SURNAME)[start]
    return found


def is_short_uppercase(roles: WordRoles, start: I64, end: I64) -> Mask:
    """True for `ENE`: one word of three letters at most in capitals."""
    w = roles.words
    found: Mask = (start == end) & w.is_uppercase[start] & ((w.end - w.start)[start] <= 3)
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
