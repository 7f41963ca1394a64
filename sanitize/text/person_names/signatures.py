"""Finds the sender's own name in signatures: a line that consists of words of the name or address in a `From:` line of the same text."""

from __future__ import annotations

import numpy as np

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import make_byte_table
from sanitize.core.intervals import enumerate_ranges
from sanitize.text.name_lexicon import ASSENT, CLOSING, COMMON_WORD, LIST_WORD, ORGANIZATION, PARTICLE, STOP_WORD
from sanitize.text.person_names.word_roles import WordRoles
from sanitize.text.person_names.word_table import COLON, COMMA, at_next_word, at_previous_word

SIGNATURE_SCORE = 0.8
_MAX_SIGNATURE_WORDS = 4
_MAX_ADDRESS_WORDS = 8
_AT, _OPENING_BRACKET, _CLOSING_BRACKET = b"@[]"
_LOCAL_JOINER_BYTES, _DOMAIN_JOINER_BYTES = make_byte_table(b"._-+"), make_byte_table(b".-")


def find_signatures(roles: WordRoles) -> tuple[I64, I64, F64]:
    """Returns first word, last word and score of the sender's names in signatures, in any letter case: `petra` on a line of its own, or
    after `thanks,` at the end of a line, where a line `From:` has `Petra Zyqwert <petra.zyqwert@example.com>`."""
    w = roles.words
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    line = np.cumsum(w.is_line_start) - 1
    first = np.flatnonzero(w.is_line_start)
    last = np.append(first[1:], len(line)) - 1
    is_sender_line = _find_sender_lines(roles, line, len(first))
    if not is_sender_line.any():
        return nothing
    sender_keys = w.text_keys[_find_sender_words(roles, line, is_sender_line)]
    # words of short lines, and at the end of a line after `thanks,`; in texts that have a sender
    has_sender = np.zeros(len(w.buffers.offsets) - 1, np.bool_)
    has_sender[w.text_no[first[is_sender_line]]] = True
    is_short = (last - first < _MAX_SIGNATURE_WORDS) & ~is_sender_line & has_sender[w.text_no[first]]
    first, last = first[is_short], last[is_short]
    line_no, words = enumerate_ranges(first, last + 1)
    is_known = np.isin(w.text_keys[words], sender_keys)
    # all words are known, or initials and particles between known words
    is_fitting = is_known | (w.is_initial & w.is_capitalized)[words] | (w.has_flag_at(words, PARTICLE) & w.is_lowercase[words])
    is_edge = (words == first[line_no]) | (words == last[line_no])
    is_signature = np.ones(len(first), np.bool_)
    is_signature[line_no[~is_fitting | (is_edge & ~is_known)]] = False
    comma = w.has_next & (w.gap_bytes <= 3) & ((w.next_byte == COMMA) | w.has_blank_after)
    endings = np.flatnonzero(w.is_line_end & ~w.is_line_start & at_previous_word(w.has_flag(CLOSING | ASSENT) & comma))
    endings = endings[np.isin(w.text_keys[endings], sender_keys) & ~is_sender_line[line[endings]]]
    start, end = np.append(first[is_signature], endings), np.append(last[is_signature], endings)
    return start, end, np.full(len(start), SIGNATURE_SCORE)


def _find_sender_lines(roles: WordRoles, line: I64, line_count: int) -> Mask:
    """True for the lines that begin with `From:` or `X-From:`; `line` is the number of the line of each word."""
    w = roles.words
    words = np.flatnonzero(w.is_word("from"))
    words = words[w.has_next[words] & (w.next_byte[words] == COLON) & (w.gap_bytes[words] <= 3)]
    before = words - 1
    after_x = w.is_line_start[before] & w.is_word_at(before, "x") & w.is_tightly_joined[before]
    found = np.zeros(line_count, np.bool_)
    found[line[words[w.is_line_start[words] | after_x]]] = True
    return found


def _find_sender_words(roles: WordRoles, line: I64, is_sender_line: Mask) -> I64:
    """Returns the words of the sender, those of the display name and of the local part in the lines of senders. A line with a word of
    organizations, lists or programs is not that of a person."""
    w = roles.words
    words = np.flatnonzero(is_sender_line[line])
    next_byte, single_gap = w.next_byte[words], (w.has_next & (w.gap_bytes == 1))[words]
    is_adjacent = np.append(np.diff(words) == 1, False)
    joined = single_gap & is_adjacent
    is_local = joined & (next_byte == _AT)
    is_domain = at_previous_word(is_local)
    for _ in range(_MAX_ADDRESS_WORDS):
        is_local = is_local | (joined & _LOCAL_JOINER_BYTES[next_byte] & at_next_word(is_local))
        is_domain = is_domain | at_previous_word(is_domain & joined & _DOMAIN_JOINER_BYTES[next_byte])
    is_field = w.is_word_at(words, "from") & (next_byte == COLON)
    is_role = w.has_flag_at(words, LIST_WORD | ORGANIZATION | STOP_WORD) & ~roles.is_listed[words]
    size = (w.end - w.start)[words]
    is_label = (w.byte_before[words] == _OPENING_BRACKET) & (next_byte == _CLOSING_BRACKET)  # `[PERSON]`, as plans write them
    is_plain = (size > 1) & ~w.has_digit[words] & ~is_domain & ~is_role & ~is_field & ~is_label
    # a word of the language in an address is the name of an office (`orders@`)
    is_person_like = ~is_local | (~(w.has_flag_at(words, COMMON_WORD) & ~roles.is_given_name[words]) & (size > 2))
    is_role_line = np.zeros(len(is_sender_line), np.bool_)
    is_role_line[line[words[is_role & ~is_domain & ~is_field]]] = True
    found: I64 = words[is_plain & is_person_like & ~is_role_line[line[words]]]
    return found
