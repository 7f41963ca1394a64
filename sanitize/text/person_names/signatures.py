"""Finds the sender's own name in signatures: a line that consists of words of the name or address
in a `From:` line of the same text."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import make_byte_table
from sanitize.core.intervals import ScoredSpans, enumerate_ranges
from sanitize.core.keys import IdSet
from sanitize.text.name_lexicon import (
    ASSENT,
    CLOSING,
    COMMON_WORD,
    LIST_WORD,
    ORGANIZATION,
    PARTICLE,
    STOP_WORD,
)
from sanitize.text.person_names.word_roles import WordRoles
from sanitize.text.person_names.word_table import (
    COLON,
    COMMA,
    WordTable,
    at_next_word,
    at_previous_word,
    narrow,
)

SIGNATURE_SCORE = 0.8
_MAX_SIGNATURE_WORDS = 4
_MAX_ADDRESS_WORDS = 8
_AT, _OPENING_BRACKET, _CLOSING_BRACKET = b"@[]"
_LOCAL_JOINER_BYTES, _DOMAIN_JOINER_BYTES = make_byte_table(b"._-+"), make_byte_table(b".-")


def find_signatures(roles: WordRoles) -> ScoredSpans:
    """Returns first word, last word and score of the sender's names in signatures, in any letter
    case: `petra` on a line of its own, or after `thanks,` at the end of a line, where a line
    `From:` has `Petra Zyqwert <petra.zyqwert@example.com>`."""
    w = roles.words
    nothing = ScoredSpans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    first = w.line_starts
    last = np.append(first[1:], len(w.start)) - 1
    is_sender_line = _is_sender_line(w, first)
    if not is_sender_line.any():
        return nothing
    sender_keys = IdSet.of(
        w.text_keys_at(_find_sender_words(roles, first[is_sender_line], last[is_sender_line]))
    )
    # words of other lines in texts that have a sender
    has_sender = np.zeros(len(w.buffers.offsets) - 1, np.bool_)
    has_sender[w.text_no[first[is_sender_line]]] = True
    is_searched = ~is_sender_line & has_sender[w.text_no[first]]
    first, last = first[is_searched], last[is_searched]
    # short lines of which all words are known, or initials and particles between known words
    is_short = last - first < _MAX_SIGNATURE_WORDS
    short_first, short_last = first[is_short], last[is_short]
    line_no, words = enumerate_ranges(short_first, short_last + 1)
    is_known = sender_keys.contains(w.text_keys_at(words))
    is_fitting = (
        is_known
        | (w.is_initial[words] & w.is_capitalized[words])
        | (w.has_flag_at(words, PARTICLE) & w.is_lowercase[words])
    )
    is_edge = (words == short_first[line_no]) | (words == short_last[line_no])
    is_signature = np.ones(len(short_first), np.bool_)
    is_signature[line_no[~is_fitting | (is_edge & ~is_known)]] = False
    # words at the end of a line after `thanks,`
    endings = last[last > first]
    before = endings - 1
    is_after_thanks = (
        w.has_next[before]
        & (w.gap_bytes[before] <= 3)
        & ((w.next_byte[before] == COMMA) | w.has_blank_after[before])
    )
    narrow(is_after_thanks, w.has_flag_at(before[is_after_thanks], CLOSING | ASSENT))
    endings = endings[is_after_thanks]
    endings = endings[sender_keys.contains(w.text_keys_at(endings))]
    start, end = (
        np.append(short_first[is_signature], endings),
        np.append(short_last[is_signature], endings),
    )
    return ScoredSpans(start, end, np.full(len(start), SIGNATURE_SCORE))


def _is_sender_line(words: WordTable, first: I64) -> Mask:
    """True for the lines that begin with `From:` or `X-From:`; `first` is the first word of each
    line."""
    found = _is_sender_field(words, first)
    after_x = np.flatnonzero(words.is_word_at(first, "x") & words.is_tightly_joined[first])
    found[after_x] |= _is_sender_field(words, first[after_x] + 1)
    return found


def _is_sender_field(words: WordTable, rows: I64) -> Mask:
    """True for those of the words `rows` that are `From:`."""
    found = words.is_word_at(rows, "from")
    field = rows[found]
    narrow(
        found,
        words.has_next[field] & (words.next_byte[field] == COLON) & (words.gap_bytes[field] <= 3),
    )
    return found


def _find_sender_words(roles: WordRoles, first: I64, last: I64) -> I64:
    """Returns the words of the sender, those of the display name and of the local part in the lines
    of senders, from the words `first` to `last`. A line with a word of organizations, lists or
    programs is not that of a person."""
    w = roles.words
    line_no, words = enumerate_ranges(first, last + 1)
    next_byte = w.next_byte[words]
    is_adjacent = np.append(np.diff(words) == 1, False)
    joined = (w.gap_bytes[words] == 1) & is_adjacent
    is_local = joined & (next_byte == _AT)
    is_domain = at_previous_word(is_local)
    for _ in range(_MAX_ADDRESS_WORDS):
        is_local = is_local | (joined & _LOCAL_JOINER_BYTES[next_byte] & at_next_word(is_local))
        is_domain = is_domain | at_previous_word(
            is_domain & joined & _DOMAIN_JOINER_BYTES[next_byte]
        )
    is_field = w.is_word_at(words, "from") & (next_byte == COLON)
    is_role = w.has_flag_at(words, LIST_WORD | ORGANIZATION | STOP_WORD) & ~roles.is_listed_at(
        words
    )
    size = w.size[words]
    # `[PERSON]`, as plans write them
    is_label = (w.look_back(words, 1) == _OPENING_BRACKET) & (next_byte == _CLOSING_BRACKET)
    is_plain = (size > 1) & ~w.has_digit[words] & ~is_domain & ~is_role & ~is_field & ~is_label
    # a word of the language in an address is the name of an office (`orders@`)
    is_person_like = ~is_local | (
        ~(w.has_flag_at(words, COMMON_WORD) & ~roles.is_given_name_at(words)) & (size > 2)
    )
    is_role_line = np.zeros(len(first), np.bool_)
    is_role_line[line_no[is_role & ~is_domain & ~is_field]] = True
    found: I64 = words[is_plain & is_person_like & ~is_role_line[line_no]]
    return found
