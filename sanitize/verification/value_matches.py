"""Finds removed values in a column of texts, in every form, and says how certain each match is.

    text                                    term           form         certainty
    write to Ann@corp.example today         ann@corp...    exact        certain
    id312-555-0178x                         312-555-0178   exact        certain (a letter beside a
                                            digit)
    Joanna                                  ann            -            none (shorter than the
                                            certain length, inside a word)
    QW5uQGNvcnAuZXhhbXBsZQ==                ann@corp...    base64       certain
    55 312 555 0178 20                      3125550178     digits       inconclusive (digits of a
                                            longer row)

What follows from a match is decided by who asks: a text that can be rewritten is swept, elsewhere a
certain match is a leak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I32, I64, U8, Mask
from sanitize.core.arrow_buffers import TextBuffers, numbers_to_arrow, numbers_to_numpy, slice_spans
from sanitize.core.intervals import contained_in_any, flatten_spans
from sanitize.core.span_table import ArrayTable
from sanitize.text.decodings import ENCODED_FORMS, iter_decodings
from sanitize.text.decodings.coded_runs import CodedRuns, find_coded_runs, find_digests
from sanitize.text.decodings.decoded_pieces import MIN_BYTES, Decoding
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification.boundaries import ADJOINED, INSIDE, SEPARATE, find_boundaries, is_in_code
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms

NONE, INCONCLUSIVE, CERTAIN = range(3)
_EXACT, _IDENTITY, _CASE_FOLDED = (
    ALL_FORMS.index(form) for form in ("exact", "identity", "case-folded")
)
_AS_WRITTEN = np.isin(ALL_FORMS, ("exact", "case-folded", "identity", "NFKC"))
_CERTAIN_DIGITS = 9  # of a number without its separators; see `Kind.certain_length`


@dataclass(frozen=True, repr=False)
class ValueMatches(ArrayTable):
    """Matches of removed values in a column, one row each: number of the text, start and end byte
    in it, form (an index of `ALL_FORMS`), row of the term (see `SearchTerms.locate`), kind, value,
    and certainty. `is_short`: the term is short, so that the match is certain only in a text, as it
    is written there."""

    text_no: I64
    start: I64
    end: I64
    form: U8
    term: I64
    kind: I32
    value_id: I64
    certainty: U8
    is_short: Mask

    def are_certain(self, *, is_cell: bool) -> Mask:
        """True for certain matches. A short value is certain only in a cell of a table, as it is
        written there; where it is encoded, and in other texts, it may be there by chance."""
        certain: Mask = (self.certainty == CERTAIN) & (
            ~self.is_short | (is_cell & _AS_WRITTEN[self.form])
        )
        return certain


@dataclass(frozen=True, repr=False)
class _Places:
    """Number of the text, start and end byte in it."""

    text_no: I64
    start: I64
    end: I64


def find_value_matches(
    terms: SearchTerms,
    texts: pa.LargeStringArray,
    forms: Sequence[str] = ALL_FORMS,
    runs: CodedRuns | None = None,
    other_digests: Set[str] = frozenset(),
) -> Iterator[ValueMatches]:
    """Yields the matches of the terms of one pass in a column, form by form, also those of no
    certainty.

    A match by its digits is left out where one in another form contains it. `runs` are those of the
    column, if they are known; `other_digests` are words that are the digest of no value."""
    if "digest" in forms:
        runs = runs or find_coded_runs(texts)
        yield _find_digests(terms, texts, runs, other_digests)
    plain, others = terms.plain, list[ValueMatches]()
    if "exact" in forms:
        found = plain.find(texts, check_boundaries=False)
        others.append(_describe(terms, texts, found, "exact", None))
        yield others[-1]
    if "NFKC" in forms and (folded := plain.decode_nfkc(texts)) is not None:
        others.append(_find_decoded(terms, texts, folded))
        yield others[-1]
    encoded_forms = tuple(form for form in ENCODED_FORMS if form in forms)
    if not encoded_forms:
        return
    for view in iter_decodings(texts, terms.max_length + 4, encoded_forms, runs, plain.blank_pairs):
        matches = _find_decoded(terms, texts, view)
        if view.form != "digits":
            others.append(matches)
            yield matches
        elif len(matches):
            yield matches.take(~_are_contained(matches, others))


def find_texts_with_values(
    passes: Sequence[SearchTerms], texts: pa.LargeStringArray, forms: Sequence[str]
) -> list[int]:
    """The numbers of the texts of a column in which a match is certain."""
    found: set[int] = set()
    for terms in passes:
        for matches in find_value_matches(terms, texts, forms):
            found.update(matches.text_no[matches.are_certain(is_cell=True)].tolist())
    return sorted(found)


def describe_forms(terms: SearchTerms, matches: ValueMatches, texts: pa.LargeStringArray) -> U8:
    """The form of each match as it is reported, an index of `ALL_FORMS`: `exact` is split into
    `exact`, `identity` and `case-folded`."""
    forms = matches.form.copy()
    rows = np.flatnonzero(forms == _EXACT)
    if len(rows):
        buffers = TextBuffers.from_array(texts)
        base, term = buffers.offsets[matches.text_no[rows]], matches.term[rows]
        written = slice_spans(buffers, base + matches.start[rows], base + matches.end[rows])
        spelled = terms.tables["plain"].column("spelled").chunk(0).take(numbers_to_arrow(term))
        is_other = numbers_to_numpy(pc.not_equal(written, spelled))
        forms[rows[is_other]] = np.where(terms.is_identity[term[is_other]], _IDENTITY, _CASE_FOLDED)
    return forms


def _find_digests(
    terms: SearchTerms, texts: pa.LargeStringArray, runs: CodedRuns, other_digests: Set[str]
) -> ValueMatches:
    """The words that are digests of values; see `SearchTerms.match_digests`."""
    words, spans = find_digests(texts, runs)
    words = ["" if word in other_digests else word for word in words]
    found = np.array(terms.match_digests(words), np.int64).reshape(-1, 2)
    number, row = found[:, 0], found[:, 1]
    form = np.full(len(row), ALL_FORMS.index("digest"), np.uint8)
    certainty, is_short = np.full(len(row), CERTAIN, np.uint8), np.zeros(len(row), np.bool_)
    kind, value_id = terms.find_owners(row)
    text_no, start, end = spans.text_no[number], spans.start[number], spans.end[number]
    return ValueMatches(text_no, start, end, form, row, kind, value_id, certainty, is_short)


def _find_decoded(terms: SearchTerms, texts: pa.LargeStringArray, view: Decoding) -> ValueMatches:
    """The matches in a decoding that contain something that was decoded; of numbers, all."""
    matcher = terms.digits if view.form == "digits" else terms.plain
    found = matcher.find(view.pieces, check_boundaries=False)
    return _describe(terms, texts, found, view.form, view)


def _describe(
    terms: SearchTerms,
    texts: pa.LargeStringArray,
    found: LiteralMatches,
    form: str,
    view: Decoding | None,
) -> ValueMatches:
    """Matches in the texts, or in the pieces of a decoding, with their certainty, at their bytes of
    the texts."""
    is_digits = form == "digits"
    matcher = terms.digits if is_digits else terms.plain
    kind, length = matcher.kind[found.term], matcher.lengths[found.term]
    is_found = is_term = np.ones(len(found.term), np.bool_)
    buffers = TextBuffers.from_array(texts)
    places = rated = _Places(found.text_no, found.start, found.end)
    if view is not None:
        spans = view.find_encoded_spans(found.text_no, found.start, found.end)
        edges = _widen_to_characters(buffers, spans.text_no, spans.start, spans.end)
        places = _Places(spans.text_no, *edges)
        if is_digits:
            # all of a row of digits, or without separators inside: else it may be digits of several
            # numbers
            is_term = (length >= _CERTAIN_DIGITS) & (
                spans.is_encoded | (places.end - places.start == length)
            )
        else:
            is_found, is_term = spans.is_encoded, length >= MIN_BYTES.get(form, 0)
    # what adjoins a decoded value is in the decoding; of digits without separators, in the text
    rated_buffers = buffers
    if is_digits:
        rated = places
    elif view is not None:
        rated_buffers = TextBuffers.from_array(view.pieces)
    is_long = length >= (_CERTAIN_DIGITS if is_digits else matcher.certain_lengths[kind])
    matches = ValueMatches(
        places.text_no,
        places.start,
        places.end,
        np.full(len(found.term), ALL_FORMS.index(form), np.uint8),
        found.term + (len(terms.plain) if is_digits else 0),
        kind,
        matcher.value_id[found.term],
        _rate(matcher, rated_buffers, rated, kind, is_term, is_long),
        np.zeros(len(found.term), np.bool_) if is_digits else terms.is_short[found.term],
    )
    return matches if view is None else _take_distinct(matches.take(np.flatnonzero(is_found)))


def _rate(
    matcher: LiteralMatcher,
    buffers: TextBuffers,
    places: _Places,
    kind: I32,
    is_term: Mask,
    is_long: Mask,
) -> U8:
    """How certain matches are, by what adjoins them. `is_term`: the whole of the match is one
    value; `is_long`: it has the certain length."""
    base = buffers.offsets[places.text_no]
    start, end = base + places.start, base + places.end
    forbidden = (matcher.not_before, matcher.not_after)
    boundary = find_boundaries(buffers, places.text_no, start, end, kind, forbidden)
    certainty = np.full(len(start), INCONCLUSIVE, np.uint8)
    certainty[(boundary == INSIDE) & ~is_long] = NONE
    certainty[(boundary == SEPARATE) & is_term] = CERTAIN
    for row in np.flatnonzero((boundary == ADJOINED) & is_long & is_term).tolist():
        low, high = (int(buffers.offsets[places.text_no[row] + step]) for step in (0, 1))
        if not is_in_code(buffers.data, low, high, int(start[row]), int(end[row])):
            certainty[row] = CERTAIN
    return certainty


def _take_distinct(matches: ValueMatches) -> ValueMatches:
    """Each place of a term once, the most certain match of it: a line of base64 is decoded alone
    and with its neighbours, and at several alignments."""
    order = np.lexsort(
        (-matches.certainty.astype(np.int64), matches.start, matches.term, matches.text_no)
    )
    columns = [column[order] for column in (matches.text_no, matches.term, matches.start)]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    return matches.take(np.sort(order[is_new]))


def _are_contained(matches: ValueMatches, others: Sequence[ValueMatches]) -> Mask:
    """True for matches inside one of the others that is as certain, and for those that are not
    certain inside a certain one of their own form: a number without its country is inside the
    number."""
    is_inside = np.zeros(len(matches), np.bool_)
    certain = matches.take(matches.certainty == CERTAIN)
    for certainty, same_form in (
        (INCONCLUSIVE, certain),
        (CERTAIN, certain.take(np.empty(0, np.int64))),
    ):
        rows = np.flatnonzero(matches.certainty <= certainty)
        as_certain = [same_form, *(one.take(one.certainty >= certainty) for one in others)]
        text_no, start, end = (
            np.concatenate([getattr(one, name) for one in as_certain])
            for name in ("text_no", "start", "end")
        )
        own, other = flatten_spans(
            (matches.text_no[rows], matches.start[rows], matches.end[rows]), (text_no, start, end)
        )
        is_inside[rows] |= contained_in_any(*own, *other)
    return is_inside


def _widen_to_characters(
    buffers: TextBuffers, text_no: I64, start: I64, end: I64
) -> tuple[I64, I64]:
    """Start and end of spans, widened to whole characters: decoded bytes may begin inside one."""
    base = buffers.offsets[text_no]
    edges = []
    last = len(buffers.data) - 1
    for edge, step in ((base + start, -1), (base + end, 1)):
        while (
            inside := (edge <= last) & ((buffers.data[np.minimum(edge, last)] & 0xC0) == 0x80)
        ).any():
            edge = edge + step * inside
        edges.append(edge - base)
    return edges[0], edges[1]
