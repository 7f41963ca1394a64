"""The roles that words can have in names, and the runs of words that may be names.

A run is a longest sequence of words that are joined by blanks, hyphens or apostrophes and may all belong to a name: they begin with a
capital, or are particles between such words (`van der Berg`). Titles, function words and words of organizations end a run.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import slice_spans
from sanitize.text.name_lexicon import (
    CLOSING,
    COMMON_WORD,
    GIVEN_NAME,
    GREETING,
    ORGANIZATION,
    PARTICLE,
    ROLE,
    STOP_WORD,
    SURNAME,
    TITLE,
)
from sanitize.text.person_names.word_table import DOT, WordTable, at_next_word, at_previous_word, find_run_ends


class WordRoles:
    """The roles of the words of a column, one entry per word, and the runs of words that may be names."""

    def __init__(self, words: WordTable) -> None:
        self.words = words
        has = words.has_flag
        self.is_common = has(COMMON_WORD) | has(STOP_WORD)
        self.is_given_name, self.is_surname = has(GIVEN_NAME), has(SURNAME)
        self.is_clear_given_name = self.is_given_name & ~self.is_common  # a given name, and rarely anything else
        self.is_listed = (self.is_given_name | self.is_surname) & ~self.is_common
        title = has(TITLE) & (words.is_capitalized | ~words.is_joined)
        # a title that is also a name (`Dean`) counts as a name
        ends_run = (
            (has(ORGANIZATION) & ~self.is_listed)
            | has(STOP_WORD)
            | has(GREETING)
            | has(CLOSING)
            | (has(TITLE | ROLE) & ~self.is_clear_given_name)
        )
        ends_run &= ~(words.is_initial & (words.next_byte == DOT))  # `John A. Roe`, where `A` is not an article
        self.is_title = title & ~self.is_clear_given_name
        self.is_name_word = words.is_capitalized & ~words.has_digit & ~ends_run
        self.is_particle = self._add_particles()
        # this word and the next belong to one run
        self.is_linked = words.is_joined & self.is_name_word & at_next_word(self.is_name_word)
        self.is_run_start = self.is_name_word & ~at_previous_word(self.is_linked)
        self.run_end = find_run_ends(self.is_linked)  # the last word of the run that each word is in

    def _add_particles(self) -> Mask:
        """Adds particles inside names and after titles to the words of names, and returns those inside names."""
        words = self.words
        particle = words.has_flag(PARTICLE) & words.is_lowercase
        for _ in range(2):  # `van der Berg`
            self.is_name_word |= (
                particle
                & at_previous_word(self.is_name_word & words.is_joined & (words.is_capitalized | particle))
                & words.is_joined
                & at_next_word(words.is_capitalized | particle)
            )
        # `Mr. van der Berg`
        after_title = particle & words.is_joined & at_previous_word(self.is_title & words.is_joined)
        particle_chain = after_title
        for _ in range(2):
            particle_chain = particle_chain | (particle & words.is_joined & at_previous_word(particle_chain))
        complete = particle_chain & at_next_word(self.is_name_word)
        for _ in range(2):
            complete = complete | (particle_chain & at_next_word(complete))
        self.is_name_word |= complete
        found: Mask = particle & self.is_name_word & ~(after_title & complete)
        return found

    @cached_property
    def leads_to_listed(self) -> Mask:
        """True for a listed name, or particles and initials before one: `O'Brien`, `van der Berg`, `A. Roe`."""
        leads = self.is_listed
        for _ in range(3):
            leads = leads | ((self.is_particle | self.words.is_initial) & self.words.is_joined & at_next_word(leads))
        return leads

    def are_unknown(self, rows: I64) -> Mask:
        """True for those of the words `rows` that have a capital and three letters or more, that no list has, that have no ending of
        English words, and that the same text does not have in lower case as well."""
        w = self.words
        found: Mask = (w.flags[rows] == 0) & w.is_capitalized[rows] & ~w.has_digit[rows] & ~w.is_uppercase[rows]
        found &= (w.end - w.start)[rows] > 2
        selected = np.flatnonzero(found)
        found[selected] = ~self._match_words(rows[selected], _ORDINARY_WORD_PATTERN) & ~w.is_also_lowercase(rows[selected])
        return found

    def have_surname_ending(self, rows: I64) -> Mask:
        """True for those of the words `rows` with an ending of surnames: `Kucharski`, `Forsberg`."""
        return self._match_words(rows, _SURNAME_ENDING_PATTERN)

    def have_headline_ending(self, rows: I64) -> Mask:
        """True for those of the words `rows` that no list has, with an ending of words of headlines: `Announced`."""
        found: Mask = (self.words.flags[rows] == 0) & self._match_words(rows, _HEADLINE_ENDING_PATTERN)
        return found

    def _match_words(self, rows: I64, pattern: str) -> Mask:
        """True for those of the words `rows` that contain `pattern`."""
        if not len(rows):
            return np.zeros(0, np.bool_)
        w = self.words
        found: Mask = pl.Series(slice_spans(w.buffers, w.start[rows], w.end[rows])).str.contains(pattern).to_numpy()
        return found


# endings of English nouns, adjectives and verbs; surnames have some of them too
_SURE_ENDINGS = (
    "ly|ing|ings|tion|tions|sion|sions|ment|ments|ness|ity|ities|ical|able|ible|ology|ful|less|ance|ence|ances|ences|ounces|ed|ous|ives|izes|"
    "isms|ism"
)
# the first alternative: `EuroParts`, not `McZyqwert` and `DeZyqwert`
_ORDINARY_WORD_PATTERN = (
    rf"\A\p{{Lu}}\p{{Ll}}{{3,}}\p{{Lu}}|(?:{_SURE_ENDINGS}|ware|ship|ists|ors|ers|ies|ages|ures|graphy|board|book|word|line|phone|mail|time|day|way|work|land|town|ville|burg|"
    r"ford|shire|port|ton)\z"
)
# endings of the words after a name in a headline: `Ann Roe Announced Retirement`
_HEADLINE_ENDING_PATTERN = r"(?:tion|tions|sion|sions|ment|ments|ness|ity|ities|ed|ounces)\z"
# endings of surnames of many languages
_SURNAME_ENDING_PATTERN = (
    r"(?i:ski|ska|sky|skaya|ský|ská|sson|ssen|[^aeiou]sen|ová|kova|nova|ov|eva|ić|vić|vich|wicz|czyk|czak|enko|chuk|idze|shvili|iyan|ikian|"
    r"escu|poulos|akis|elli|etti|ucci|berg|stein|mann|dottir|dóttir|mura|moto|yama|saki|hara|guez|ndez|nchez|quist|qvist|str[oö]m|feld|"
    r"wala|oğlu|oglu)\z"
)


def first_of(found: I64, run: I64) -> I64:
    """Returns the first of the ascending words `found` in each run; `run` is the number of the run of each word."""
    return found[np.append(True, np.diff(run[found]) != 0)] if len(found) else found
