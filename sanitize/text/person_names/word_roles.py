"""The roles that words can have in names, and the runs of words that may be names.

A run is a longest sequence of words that are joined by blanks, hyphens or apostrophes and may all
belong to a name: they begin with a capital, or are particles between such words (`van der Berg`).
Titles, function words and words of organizations end a run.
"""

from __future__ import annotations

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
from sanitize.text.person_names.word_table import DOT, WordTable, at_next_word, at_previous_word

_COMMON = COMMON_WORD | STOP_WORD
MAX_NAME_WORDS = 5  # longest name, in words


class WordRoles:
    """The roles of the words of a column, and the runs of words that may be names.

    Masks have one entry per word; `run_first` and `run_last` are the first and the last word of
    each run, ascending."""

    def __init__(self, words: WordTable) -> None:
        self.words = words
        self.is_name_word = words.is_capitalized & ~words.has_digit
        capitalized = np.flatnonzero(self.is_name_word)
        self.is_name_word[capitalized[self._end_runs(capitalized)]] = False
        self.is_particle = np.zeros(len(words.start), np.bool_)
        self._add_particles()
        # this word and the next belong to one run
        self.is_linked = words.is_joined & self.is_name_word & at_next_word(self.is_name_word)
        self.is_run_start = self.is_name_word & ~at_previous_word(self.is_linked)
        self.run_first, self.run_last = (
            np.flatnonzero(self.is_run_start),
            np.flatnonzero(self.is_name_word & ~self.is_linked),
        )

    def find_runs(self, rows: I64) -> I64:
        """Returns the number of the run that each of the words `rows`, which are name words, is
        in."""
        return np.searchsorted(self.run_last, rows)

    def is_common_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are common words."""
        return self.words.has_flag_at(rows, _COMMON)

    def is_given_name_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are listed given names."""
        return self.words.has_flag_at(rows, GIVEN_NAME)

    def is_surname_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are listed surnames."""
        return self.words.has_flag_at(rows, SURNAME)

    def is_clear_given_name_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are a given name, and rarely anything else."""
        found: Mask = (self.words.flags[rows] & (GIVEN_NAME | _COMMON)) == GIVEN_NAME
        return found

    def find_clear_given_names(self) -> I64:
        """Returns all words that are a given name, and rarely anything else."""
        return np.flatnonzero((self.words.flags & (GIVEN_NAME | _COMMON)) == GIVEN_NAME)

    def is_listed_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are a listed name and not a common word."""
        flags = self.words.flags[rows]
        found: Mask = ((flags & (GIVEN_NAME | SURNAME)) > 0) & ((flags & _COMMON) == 0)
        return found

    def is_title_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are a title. One that is also a name (`Dean`)
        counts as a name."""
        w = self.words
        found: Mask = (
            w.has_flag_at(rows, TITLE)
            & (w.is_capitalized[rows] | ~w.is_joined[rows])
            & ~self.is_clear_given_name_at(rows)
        )
        return found

    def _end_runs(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are no part of a name, although they begin with a
        capital."""
        w = self.words
        found = w.has_flag_at(rows, STOP_WORD | GREETING | CLOSING)
        found |= w.has_flag_at(rows, ORGANIZATION) & ~self.is_listed_at(rows)
        found |= w.has_flag_at(rows, TITLE | ROLE) & ~self.is_clear_given_name_at(rows)
        # `John A. Roe`, where `A` is not an article
        found &= ~(w.is_initial[rows] & (w.next_byte[rows] == DOT))
        return found

    def _add_particles(self) -> None:
        """Adds particles inside names and after titles to the words of names; `is_particle` are
        those inside names."""
        w = self.words
        particles = np.flatnonzero((w.flags & PARTICLE) > 0)
        particles = particles[w.is_lowercase[particles]]
        may_be_inside = w.is_capitalized.copy()
        may_be_inside[particles] = True
        # both neighbours exist: a word that is joined has a next one, and nothing is joined to the
        # first word
        joined = particles[w.is_joined[particles] & w.is_joined[particles - 1]]
        inside = joined[may_be_inside[joined - 1] & may_be_inside[joined + 1]]
        for _ in range(2):  # `van der Berg`
            self.is_name_word[inside] |= self.is_name_word[inside - 1]
        # `Mr. van der Berg`
        after_title = joined[self.is_title_at(joined - 1)]
        is_in_chain, is_complete = np.zeros((2, len(w.start)), np.bool_)
        is_in_chain[after_title] = True
        for _ in range(2):
            is_in_chain[joined] |= is_in_chain[joined - 1]
        chain = joined[is_in_chain[joined]]
        is_complete[chain] = self.is_name_word[chain + 1]
        for _ in range(2):
            is_complete[chain] |= is_complete[chain + 1]
        self.is_name_word |= is_complete
        self.is_particle[particles] = self.is_name_word[particles]
        self.is_particle[after_title[is_complete[after_title]]] = False

    def leads_to_listed_at(self, rows: I64) -> Mask:
        """True for those of the words `rows` that are a listed name, or up to three particles and
        initials before one: `O'Brien`, `van der Berg`, `A. Roe`."""
        w = self.words
        found = self.is_listed_at(rows)
        open_rows = np.flatnonzero(~found)
        for distance in range(3):
            place = rows[open_rows] + distance
            open_rows = open_rows[
                (self.is_particle[place] | w.is_initial[place]) & w.is_joined[place]
            ]
            found[open_rows] = self.is_listed_at(rows[open_rows] + distance + 1)
            open_rows = open_rows[~found[open_rows]]
        return found

    def count_listed(self, start: I64, end: I64, max_words: int, *, without: int = 0) -> I64:
        """Returns the number of listed names among the words `start` to `end`, at most `max_words`,
        without those with a flag of `without`."""
        counts = np.zeros(len(start), np.int64)
        for distance in range(max_words):
            rows = np.flatnonzero(start + distance <= end)
            place = start[rows] + distance
            counts[rows] += self.is_listed_at(place) & ~self.words.has_flag_at(place, without)
        return counts

    def are_unknown(self, rows: I64) -> Mask:
        """True for those of the words `rows` that have a capital and three letters or more, that no
        list has, that have no ending of English words, and that the same text does not have in
        lower case as well."""
        w = self.words
        found: Mask = (
            (w.flags[rows] == 0)
            & w.is_capitalized[rows]
            & ~w.has_digit[rows]
            & ~w.is_uppercase[rows]
            & (w.size[rows] > 2)
        )
        selected = np.flatnonzero(found)
        found[selected] = ~self._match_words(
            rows[selected], _ORDINARY_WORD_PATTERN
        ) & ~w.is_also_lowercase(rows[selected])
        return found

    def have_surname_ending(self, rows: I64) -> Mask:
        """True for those of the words `rows` with an ending of surnames: `Kucharski`,
        `Forsberg`."""
        return self._match_words(rows, _SURNAME_ENDING_PATTERN)

    def have_headline_ending(self, rows: I64) -> Mask:
        """True for those of the words `rows` that no list has, with an ending of words of
        headlines: `Announced`."""
        found: Mask = self.words.flags[rows] == 0
        unlisted = np.flatnonzero(found)
        found[unlisted] = self._match_words(rows[unlisted], _HEADLINE_ENDING_PATTERN)
        return found

    def _match_words(self, rows: I64, pattern: str) -> Mask:
        """True for those of the words `rows` that contain `pattern`."""
        if not len(rows):
            return np.zeros(0, np.bool_)
        w = self.words
        found: Mask = (
            pl.Series(slice_spans(w.buffers, w.start[rows], w.end[rows]))
            .str.contains(pattern)
            .to_numpy()
        )
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
