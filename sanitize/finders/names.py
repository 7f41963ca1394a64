r"""Finder `names`: names of people without a model, from mail header lines, and in prose by name
lists, titles, context words and a linear tagger.

Header lines: the display name beside an address in a list (`Ann Roe <ann@example.com>`,
`ann@example.com (Ann Roe)`), in the header block of a mail or in a forwarded or quoted block. Such
a name is certain, is linked to its address if the two share a word, and is searched everywhere by
the finder `known` (as is every name with a score of 0.9 or more).

Prose (sanitize/text/person_names): runs of capitalised words that a lexicon of given names and
surnames has, or beside which something says that they are a name: titles, greetings, relations,
authorship, forms of Lotus Notes. Companies, streets, places and user names are excluded. Parts of a
longer name of the same text count, as do the sender's own names in signatures and the owner of a
mailbox in fields of folders and files. Names of header fields, and fields that programs write, are
not searched.

Names of people whom no list has (sanitize/text/person_names/name_tagger.py): a linear tagger,
learned from invented texts, reads spelling and context; what the rules found is one of its
features. A name of several words that it finds takes the place of a part that the rules found.

Scores give the kind of evidence, not a probability: 1.0 beside an address, 0.9 after a title, 0.8
two listed names, or one after a greeting, in a signature or a field of a mailbox, 0.7 a part of a
longer name, a name of which one word is listed, words beside which something says that they are a
name, or a name of the tagger, 0.6 a given name alone, 0.5 in lower case.

All rules work on columns of words; each text is evaluated on its own. Escapes that a text writes
out, such as `\n`, separate words as what they stand for does
(sanitize/text/decodings/written_escapes.py).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl
from pydantic import PrivateAttr

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, slice_spans, to_large_string
from sanitize.core.intervals import (
    ScoredSpans,
    begins_group,
    contained_in_larger,
    overlaps_any,
    sort_spans,
)
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.kinds.east_asian_names import EAST_ASIAN_CLASS
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import fold_accents
from sanitize.text.address_lists import find_display_name_spans
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.mail_headers import HeaderLines, find_header_lines
from sanitize.text.name_lexicon import (
    CLOSING,
    COMMON_WORD,
    GIVEN_NAME,
    LIST_WORD,
    ORGANIZATION,
    PLACE,
    STOP_WORD,
    SURNAME,
    load_name_lexicon,
)
from sanitize.text.person_names.east_asian_names import (
    find_east_asian_names,
    is_east_asian_full_name,
)
from sanitize.text.person_names.header_places import (
    find_mailbox_owners,
    is_in_opaque_header,
    is_list_address,
)
from sanitize.text.person_names.name_tagger import load_weights, tag_names
from sanitize.text.person_names.prose_names import ProseNames
from sanitize.text.person_names.word_roles import MAX_NAME_WORDS
from sanitize.text.person_names.word_table import WordTable
from sanitize.text.tokenizer import tokenize_unicode

FINDER_NAME = "names"
_PERSON = "PERSON"
BESIDE_ADDRESS_SCORE, OWNER_SCORE, TAGGED_SCORE = 1.0, 0.8, 0.7
# of names of several words and of one, in units of the score of "no name" (Viterbi margins, see
# text/person_names/name_tagger.py); measured in benchmarks/person_tagger/README.md
MIN_MARGIN, MIN_WORD_MARGIN = 2, 5
_CONTACT_KINDS = ("EMAIL_ADDRESS", "PHONE_NUMBER")
_NAME_BEFORE_SENTENCE = r"(?s)\A(.*?\p{Ll}{2})\. "
_EAST_ASIAN_NAME = rf"[{EAST_ASIAN_CLASS}]"
_NO_LINKS = pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64})


class Names(Finder):
    """Settings: `prose` (false: only header lines are searched)."""

    VERSION: ClassVar[int] = 8
    supports_stream: ClassVar[bool] = True
    prose: bool = True
    _key: Key = PrivateAttr()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Only names of people."""
        return (_PERSON,)

    def open(self, key: Key, first_round: object) -> None:
        """Builds the lexicon, once per process."""
        self._key = key
        load_name_lexicon()

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the names in a column of texts."""
        buffers = separate_escapes(TextBuffers.from_array(column.texts))
        found = column.known_spans.filter(pl.col("kind") != _PERSON)
        addresses = found.filter(pl.col("kind") == "EMAIL_ADDRESS")
        (start, stop, score), links = _find_names_beside_addresses(buffers, addresses, self._key)
        if self.prose:
            owner_start, owner_end = find_mailbox_owners(buffers)
            owners = (owner_start, owner_end, np.full(len(owner_start), OWNER_SCORE))
            covered_start, covered_end = _find_covered_bytes(buffers, found)
            east_asian = find_east_asian_names(buffers, *_find_contacts(buffers, found))
            prose = _find_prose_names(buffers, start, stop)
            tagged = _find_tagged_names(
                buffers,
                np.concatenate((start, owner_start, prose.start)),
                np.concatenate((stop, owner_end, prose.end)),
            )
            prose = _drop_parts(
                prose,
                tagged,
                np.concatenate((covered_start, start, owner_start, east_asian.start)),
                np.concatenate((covered_end, stop, owner_end, east_asian.end)),
            )
            for more_start, more_end, more_score in (owners, prose, east_asian, tagged):
                taken_start, taken_end = (
                    np.append(covered_start, start),
                    np.append(covered_end, stop),
                )
                is_free = ~overlaps_any(more_start, more_end, taken_start, taken_end)
                start, stop = (
                    np.append(start, more_start[is_free]),
                    np.append(stop, more_end[is_free]),
                )
                score = np.append(score, more_score[is_free])
        text_no = np.searchsorted(buffers.offsets, start, side="right") - 1
        base = buffers.offsets[text_no]
        return FoundSpans(
            text_no=text_no,
            start_byte=start - base,
            end_byte=stop - base,
            kind_no=np.zeros(len(start), np.int32),
            kind_names=(_PERSON,),
            score=score.astype(np.float32),
            person_links=links,
        )


# --------------------------------------------------------------------------------- header lines


def _find_names_beside_addresses(
    buffers: TextBuffers, addresses: pl.DataFrame, key: Key
) -> tuple[ScoredSpans, pl.DataFrame]:
    """Returns the bytes of the names beside addresses in lists, and the links between names and
    addresses."""
    text_no = addresses["text_no"].to_numpy()
    starts, stops = (
        buffers.offsets[text_no] + addresses[name].to_numpy() for name in ("start_byte", "end_byte")
    )
    # an address inside another address has no name of its own
    outermost = np.flatnonzero(begins_group(starts, stops))
    text_no, starts, stops = text_no[outermost], starts[outermost], stops[outermost]
    lines: HeaderLines = (
        find_header_lines(buffers, text_no, starts) if len(starts) else HeaderLines.empty(0)
    )
    names, begin, end = find_display_name_spans(buffers, lines, starts, stops)
    rows = np.flatnonzero(begin >= 0)
    local = (
        pl.Series(slice_spans(buffers, starts[rows], stops[rows]))
        .str.to_lowercase()
        .str.extract(r"\A([^@]*)@")
        .fill_null("")
    )
    normalised = get_kind(_PERSON).normalise(names.gather(rows))
    shares_word = (
        is_name_in_local_part(normalised, local).to_numpy() if len(rows) else np.empty(0, np.bool_)
    )
    is_personal = _is_personal_name(names.gather(rows)) if len(rows) else np.empty(0, np.bool_)
    is_personal &= ~is_list_address(
        buffers, text_no[rows], pl.Series(slice_spans(buffers, starts[rows], stops[rows]))
    )
    personal = np.flatnonzero(is_personal)
    if not len(personal):
        empty = np.empty(0, np.int64)
        return ScoredSpans(empty, empty, np.empty(0)), _NO_LINKS
    linked = personal[shares_word[personal]]
    pairs = pl.DataFrame(
        {
            "name": normalised.gather(linked),
            "value_id": addresses["value_id"].gather(outermost).gather(rows[linked]),
        }
    )
    pairs = pairs.unique(maintain_order=True)
    links = pl.DataFrame(
        {
            "value_id": pairs["value_id"],
            "other": compute_value_ids(to_large_string(pairs["name"]), _PERSON, key),
        },
        schema=_NO_LINKS.schema,
    )
    rows = rows[personal]
    score = np.full(len(rows), BESIDE_ADDRESS_SCORE)
    return ScoredSpans(begin[rows], end[rows], score), links


def _is_personal_name(names: pl.Series) -> Mask:
    """True for display names of a person: a word is a listed name that is not a common word, or it
    is a given name and one more word, or no word is a common word; and no word is that of a
    company, an organization, a mailing list, a team or a program."""
    column = to_large_string(names)
    tokens = tokenize_unicode(TextBuffers.from_array(column))
    flags = load_name_lexicon().lookup_flags(tokens.hashes)
    count = len(column)

    def count_words(selected: Mask) -> I64:
        return np.bincount(tokens.text_no[selected], minlength=count)

    is_name = (flags & (GIVEN_NAME | SURNAME)) > 0
    is_ordinary = (flags & (COMMON_WORD | STOP_WORD | CLOSING | PLACE)) > 0
    word_count, listed_count = (
        count_words(np.ones(len(flags), np.bool_)),
        count_words(is_name & ~is_ordinary),
    )
    organization_words = count_words(
        ((flags & (ORGANIZATION | LIST_WORD)) > 0) & (~is_name | ((flags & LIST_WORD) > 0))
    )
    given_names = count_words((flags & GIVEN_NAME) > 0)
    # `ann.roe` beside its address repeats the address
    has_blank = names.str.contains(" ", literal=True).to_numpy()
    is_personal: Mask = (
        has_blank
        & (word_count >= 2)
        & (word_count <= MAX_NAME_WORDS)
        & (organization_words == 0)
        & (
            (listed_count > 0)
            | ((given_names > 0) & (word_count == 2))
            | (count_words(is_ordinary) == 0)
        )
    )
    east_asian = np.flatnonzero(names.str.contains(_EAST_ASIAN_NAME).to_numpy())
    if len(east_asian):  # these scripts separate no words, and have no word lists of organizations
        is_personal[east_asian] = is_east_asian_full_name(names.gather(east_asian))
    return is_personal


def is_name_in_local_part(names: pl.Series, local_parts: pl.Series) -> pl.Series:
    """True where a word of the name with three letters or more occurs in the local part; accents
    are ignored (`Jürgen`: `jurgen` and `juergen`)."""
    words = names.str.split(" ")
    frame = pl.DataFrame(
        {"row": np.arange(len(names)), "word": words, "local": fold_accents(local_parts)}
    ).explode("word")
    frame = frame.with_columns(
        word=fold_accents(frame["word"]), long=fold_accents(frame["word"], digraphs=True)
    )
    occurs = pl.any_horizontal(
        pl.col("local").str.contains(pl.col(word), literal=True) for word in ("word", "long")
    )
    hits = frame.select("row", hit=(pl.col("word").str.len_chars() > 2) & occurs)
    return (
        hits.group_by("row", maintain_order=True)
        .agg(pl.col("hit").any())
        .sort("row")["hit"]
        .fill_null(False)
    )


# ---------------------------------------------------------------------------------------- prose


def _find_prose_names(buffers: TextBuffers, certain_start: I64, certain_end: I64) -> ScoredSpans:
    """Returns the bytes of the names in prose, ascending, without those in header fields that
    programs write; `certain_start` and `certain_end` are the names beside addresses."""
    start, end, score = ProseNames(WordTable(buffers), certain_start, certain_end).find()
    order = np.argsort(start, kind="stable")
    start, end, score = start[order], end[order], score[order]
    is_searched = ~is_in_opaque_header(buffers, start)
    return ScoredSpans(start[is_searched], end[is_searched], score[is_searched])


def _find_tagged_names(buffers: TextBuffers, known_start: I64, known_end: I64) -> ScoredSpans:
    """Returns the bytes of the names that the tagger finds, without those in header fields that
    programs write; the rules found those from `known_start` to `known_end`, in any order."""
    order = sort_spans(known_start, known_end)
    first = order[begins_group(known_start[order], known_end[order])]  # of names that overlap
    found = tag_names(buffers, known_start[first], known_end[first])
    texts = pl.Series(slice_spans(buffers, found.start, found.end))
    # `Ann Roe. My`: a full stop behind a word that is no initial ends a sentence
    names = texts.str.extract(_NAME_BEFORE_SENTENCE).fill_null(texts)
    found_end = found.start + names.str.len_bytes().to_numpy().astype(np.int64)
    has_blank = texts.str.contains(" ", literal=True).to_numpy()
    margin = np.where(has_blank, MIN_MARGIN, MIN_WORD_MARGIN) * load_weights().outside_bonus
    # `IO-APIC`, `VISA`: a word in capitals is an abbreviation more often than a name
    is_searched: Mask = has_blank | (texts.str.to_uppercase() != texts).to_numpy()
    is_searched &= found.margin >= margin
    is_searched &= ~is_in_opaque_header(buffers, found.start)
    start, end = found.start[is_searched], found_end[is_searched]
    return ScoredSpans(start, end, np.full(len(start), TAGGED_SCORE))


def _drop_parts(
    names: ScoredSpans, longer: ScoredSpans, taken_start: I64, taken_end: I64
) -> ScoredSpans:
    """Returns the names without those that lie in a longer one of `longer` that is reported: one
    that overlaps nothing taken, and no other name than its parts."""
    is_free = ~overlaps_any(longer.start, longer.end, taken_start, taken_end)
    free = _select(longer, is_free)
    is_part = contained_in_larger(names.start, names.end, free.start, free.end)
    others = _select(names, ~is_part)
    reported = _select(free, ~overlaps_any(free.start, free.end, others.start, others.end))
    is_part = contained_in_larger(names.start, names.end, reported.start, reported.end)
    return _select(names, ~is_part)


def _select(spans: ScoredSpans, rows: Mask) -> ScoredSpans:
    return ScoredSpans(spans.start[rows], spans.end[rows], spans.score[rows])


def _find_contacts(buffers: TextBuffers, found: pl.DataFrame) -> tuple[I64, I64]:
    """Returns the bytes of addresses and telephone numbers, ascending."""
    start, end = _find_covered_bytes(buffers, found.filter(pl.col("kind").is_in(_CONTACT_KINDS)))
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _find_covered_bytes(buffers: TextBuffers, found: pl.DataFrame) -> tuple[I64, I64]:
    """Returns the bytes of the column that values of other kinds cover, as spans."""
    base = buffers.offsets[found["text_no"].to_numpy()]
    return base + found["start_byte"].to_numpy(), base + found["end_byte"].to_numpy()
