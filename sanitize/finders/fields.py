r"""Finder `fields`: values that the name of their field says to be of a kind.

    column or field    phone: `3125550178`            the whole cell
    key inside JSON    `{"ssn": 456789012}`           the whole string, or the number
    key in a text      `contactPhone=3125550178`, `<mobileNo>3125550178</mobileNo>`

Which names say which kind: sanitize/kinds/field_names.py. A field inside another one is named with
it, since `phone.number` and `user.name` say more than `number` and `name`. Values decide before
names: a value that its kind does not accept (`Kind.is_field_value`) is not found, such as
`iPhone 12` in a column `phone`. A field of people holds names or, where it is no name, a user name.
`name` alone is the name of as many things as people: two to four words with capitals count there,
none of which is an ordinary word, a place or an organization. `token`, `authorization`, `cookie`
and `session` hold secrets where letters and digits are mixed as in no word.

In texts, a key is up to three words before `:`, `=` or `=>`, or a tag; its value ends at a
delimiter, or at the first blank where only that much is of the kind. Places and organizations are
found in fields only, since in texts too many keys mean something else; secrets in texts are found
by the finder `patterns`.

Each text is searched by itself. Costs one regular expression over the texts, a lookup for each
distinct key, and little for each value.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_matches,
    numbers_to_arrow,
    numbers_to_numpy,
    slice_spans,
    to_large_string,
)
from sanitize.core.intervals import overlaps_any
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.kinds.field_names import (
    find_kind_of_field,
    is_ambiguous_people_name,
    is_name_of_names,
    is_name_of_users,
    names_people,
    split_field_name,
)
from sanitize.kinds.kind import Kind, all_kinds
from sanitize.kinds.labelled_secrets import is_token
from sanitize.kinds.person import NO_PERSON_WORDS
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.name_lexicon import count_ordinary_words, find_name_like, load_name_lexicon

FINDER_NAME = "fields"
SCORE = 0.85  # below 0.9, from which the finder `known` searches names everywhere
_MAX_FIELD_BYTES, _MAX_BYTES_AFTER_KEY = 512, 160
_DATE_OF_BIRTH, _DATE_TIME = "DATE_OF_BIRTH", "DATE_TIME"
_PERSON, _USER_NAME, _PHONE_NUMBER = "PERSON", "USER_NAME", "PHONE_NUMBER"
_SECRET = "SECRET"
# names of fields that are as often no people: `name` of a product, `user` of a chat; and no
# secrets: `token` of a text
_ANY_NAME, _ANY_USER, _ANY_TOKEN = "name", "user", "token"
_TOKEN_NAMES = [(one,) for one in "token authorization cookie session signature auth".split()]
_FIELDS_ONLY = ("place", "organization", "credential")  # categories
_PARTS_OF_NAMES = ("first", "last", "middle", "given", "family", "full")
_WORD = r"[\p{L}_][\p{L}\p{N}\p{M}_.$-]*"
_QUOTE = r"(?:\\*[\"'“”«»`])?"
_SEPARATOR = r"[ \t]*(?::=|=>|[:=：＝])(?:\*{1,2}|</[a-z]{1,6}>)?[ \t]*"
_KEY = (
    rf"{_WORD}(?: {_WORD}){{0,2}}{_QUOTE}{_SEPARATOR}{_QUOTE}"
    rf"|<(?:{_WORD}:)?{_WORD}(?: [^<>]{{0,80}})?>"
)
# the name in what `_KEY` matches: of a tag without its attributes
_NAME_OF_KEY = rf"\A(?:<((?:{_WORD}:)?{_WORD})|({_WORD}(?: {_WORD}){{0,2}}))"
_AFTER_VALUE = r"[,;\r\n\t|&<>{}\[\]\"“”«»`]|  |' |'\z| [/–—] "
_MIN_PHONE_DIGITS = 7  # of a number in a text
_SPANS = {"text_no": pl.Int64, "start_byte": pl.Int64, "end_byte": pl.Int64, "kind": pl.String}


class Fields(Finder):
    """Settings: `texts` (false: only fields and keys inside JSON, no keys in texts)."""

    VERSION: ClassVar[int] = 4
    supports_stream: ClassVar[bool] = True
    texts: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that have names of fields, and those whose name is one."""
        return tuple(kind.name for kind in all_kinds().values() if _has_field_names(kind))

    def open(self, key: Key, first_round: object) -> None:
        """Builds the lexicon, once per process."""
        load_name_lexicon()

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the values in a column of texts."""
        buffers = TextBuffers.from_array(column.texts)
        found = _find_fields(column, buffers)
        if self.texts:
            in_texts = _find_in_texts(separate_escapes(buffers), frozenset(column.opt_in_kinds))
            found = pl.concat([found, in_texts])
        found = _drop_known(found, buffers, column.known_spans)
        names = tuple(found["kind"].unique(maintain_order=True))
        numbers = {name: number for number, name in enumerate(names)}
        return FoundSpans(
            text_no=found["text_no"].to_numpy(),
            start_byte=found["start_byte"].to_numpy(),
            end_byte=found["end_byte"].to_numpy(),
            kind_no=found["kind"].replace_strict(numbers, return_dtype=pl.Int32).to_numpy(),
            kind_names=names,
            score=np.full(found.height, SCORE, np.float32),
        )


def _find_fields(column: TextColumn, buffers: TextBuffers) -> pl.DataFrame:
    """The texts that are a value as a whole, by the name of their field."""
    if column.fields is None or not len(buffers.lengths):
        return pl.DataFrame(schema=_SPANS)
    opt_in = frozenset(column.opt_in_kinds)
    kinds = pl.Series([_find_kind(name, opt_in) for name in column.fields.names], dtype=pl.String)
    is_named = kinds.is_not_null().to_numpy()[column.fields.name_no]
    rows = np.flatnonzero(is_named & (buffers.lengths <= _MAX_FIELD_BYTES))
    texts = pl.Series(column.texts.take(numbers_to_arrow(rows)), dtype=pl.String)
    start = texts.str.len_bytes() - texts.str.strip_chars_start().str.len_bytes()
    values = texts.str.strip_chars()
    found = pl.DataFrame(
        {
            "text_no": rows,
            "start_byte": start.cast(pl.Int64),
            "end_byte": (start + values.str.len_bytes()).cast(pl.Int64),
            "kind": _decide(values, kinds.gather(column.fields.name_no[rows]), opt_in),
        },
        _SPANS,
    )
    return found.filter(pl.col("kind").is_not_null())


def _find_in_texts(buffers: TextBuffers, opt_in: frozenset[str]) -> pl.DataFrame:
    """The values behind keys in texts."""
    low, high = find_matches(buffers, _KEY)
    keys = slice_spans(buffers, low, high).dictionary_encode()
    groups = pl.Series(keys.dictionary, dtype=pl.String).str.extract_groups(_NAME_OF_KEY)
    names = groups.struct.unnest().select(pl.coalesce(pl.all())).to_series()
    kinds = pl.Series([_find_kind(name, opt_in, in_text=True) for name in names], dtype=pl.String)
    key_no = numbers_to_numpy(keys.indices)
    rows = np.flatnonzero(kinds.is_not_null().to_numpy()[key_no])
    # a key at the end of a text ends where the next one begins
    text_no = np.searchsorted(buffers.offsets, low[rows], side="right") - 1
    start = high[rows]
    stop = np.minimum(start + _MAX_BYTES_AFTER_KEY, buffers.offsets[text_no + 1])
    for _ in range(3):  # no part of a character
        is_cut = stop < buffers.offsets[text_no + 1]
        stop -= is_cut & ((buffers.data[np.where(is_cut, stop, 0)] & 0xC0) == 0x80)
    after = pl.Series(slice_spans(buffers, start, stop), dtype=pl.String)
    kind = kinds.gather(key_no[rows])
    whole = after.str.extract(rf"(?s)\A(.*?)(?:{_AFTER_VALUE}|\z)").str.strip_chars_end(" .'\\")
    whole = whole.str.replace(r"\A([^(]*)\)\z", "$1")  # `(fax: 312-555-0178)`
    first = after.str.extract(r"\A([^\s,;|&<>\"]*)").str.strip_chars_end(".'\\")
    whole_kind = _decide(whole, kind, opt_in, in_text=True)
    # `login: IRD 49-091-850`: a word in capitals before a number is the label of the number
    is_label = after.str.contains(r"\A[A-Z]{2,}:? [0-9]")
    open_kind = kind.zip_with(whole_kind.is_null() & ~is_label, pl.Series([None], dtype=pl.String))
    first_kind = _decide(first, open_kind, opt_in, in_text=True)
    value = pl.select(pl.when(whole_kind.is_not_null()).then(whole).otherwise(first)).to_series()
    start_byte = start - buffers.offsets[text_no]
    found = pl.DataFrame(
        {
            "text_no": text_no,
            "start_byte": start_byte,
            "end_byte": start_byte + value.str.len_bytes().cast(pl.Int64),
            "kind": pl.select(pl.coalesce(whole_kind, first_kind)).to_series(),
        },
        _SPANS,
    )
    return found.filter(pl.col("kind").is_not_null())


def _drop_known(
    found: pl.DataFrame, buffers: TextBuffers, known_spans: pl.DataFrame
) -> pl.DataFrame:
    """The spans without those that share bytes with a known one of their kind, each once."""
    found = found.unique(maintain_order=True)
    is_new = np.ones(found.height, np.bool_)
    for (kind,), spans in known_spans.group_by("kind"):
        rows = (found["kind"] == kind).arg_true().to_numpy()
        edges = [
            (buffers.offsets[table["text_no"].to_numpy()] + table[name].to_numpy())
            for table in (found[rows], spans)
            for name in ("start_byte", "end_byte")
        ]
        is_new[rows] = ~overlaps_any(*edges)
    return found.filter(pl.Series(is_new, dtype=pl.Boolean))


def _find_kind(name: str | None, opt_in: frozenset[str], *, in_text: bool = False) -> str | None:
    """The kind that a name says, `_ANY_NAME` or `_ANY_USER`; None where it says none, or one that
    is not searched (there)."""
    kind = _read_name(name or "")
    if kind == _DATE_OF_BIRTH and kind not in opt_in:
        kind = _DATE_TIME
    if kind is None or kind == _ANY_NAME or (kind == _ANY_USER and not in_text):
        return kind
    if kind == _ANY_TOKEN:
        return None if in_text else kind
    if kind == _ANY_USER or not _has_field_names(all_kinds()[kind]):
        return None
    if all_kinds()[kind].opt_in and kind not in opt_in:
        return None
    searched = all_kinds()[kind]
    # addresses and links are found by their form wherever they are
    is_found_anyway = bool(searched.pattern) and searched.phase == 1
    return None if in_text and (searched.category in _FIELDS_ONLY or is_found_anyway) else kind


def _has_field_names(kind: Kind) -> bool:
    """Whether names of fields can say this kind; that of a kind without a pattern is too general,
    such as `id_number`."""
    return kind.country is None and bool(kind.field_names or kind.pattern)


def _read_name(name: str) -> str | None:
    """The kind that a name says, `_ANY_NAME` or `_ANY_USER`; that of a field inside another one has
    the name of that before a dot (`phone.number`)."""
    outer, _, own = name.rpartition(".")
    is_name = is_name_of_names(own) and is_ambiguous_people_name(own)
    if is_name and (names_people(outer) or is_name_of_users(outer)):
        return _PERSON  # `user.name`
    if own in _PARTS_OF_NAMES and is_name_of_names(outer):
        return _PERSON  # `name.first`
    kind = find_kind_of_field(name)
    if kind is None and is_ambiguous_people_name(own):
        return _ANY_NAME if is_name_of_names(own) else _ANY_USER
    return _ANY_TOKEN if kind is None and split_field_name(own)[-1:] in _TOKEN_NAMES else kind


def _decide(
    values: pl.Series, field_kinds: pl.Series, opt_in: frozenset[str], *, in_text: bool = False
) -> pl.Series:
    """The kind of each value whose field says `field_kinds`; null where it is none of that kind."""
    decided = pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    for name in field_kinds.unique(maintain_order=True).drop_nulls():
        rows = (field_kinds == name).arg_true()
        own = values.gather(rows)
        if name in (_PERSON, _ANY_NAME, _ANY_USER):
            is_name = all_kinds()[_PERSON].is_field_value(own)
            is_name &= _has_name_word(own) if name == _PERSON else _is_name_like(own)
            is_user = own.str.contains("[0-9._-]") if name == _ANY_USER else own.is_not_null()
            is_user &= all_kinds()[_USER_NAME].is_field_value(own)
            is_user &= ~own.str.to_lowercase().is_in(NO_PERSON_WORDS)
            if in_text or name == _ANY_NAME or _USER_NAME not in opt_in:
                is_user &= False
            user = pl.when(is_user).then(pl.lit(_USER_NAME))
            kind = pl.when(is_name).then(pl.lit(_PERSON)).otherwise(user)
        elif name == _ANY_TOKEN:
            last = own.str.extract(r"(\S+)\z").fill_null("")
            is_value = all_kinds()[_SECRET].is_field_value(own) & is_token(last)
            kind = pl.when(is_value).then(pl.lit(_SECRET)).otherwise(None)
        else:
            is_value = all_kinds()[name].is_field_value(own)
            if in_text and name == _PHONE_NUMBER:
                is_value &= own.str.count_matches("[0-9]") >= _MIN_PHONE_DIGITS
            if in_text and name == _USER_NAME:
                is_value &= _has_name_word(own)
            kind = pl.when(is_value).then(pl.lit(name)).otherwise(None)
        decided = decided.scatter(rows, pl.select(kind).to_series())
    return decided


def _has_name_word(values: pl.Series) -> pl.Series:
    """True where one of the words of a value is no ordinary word."""
    ordinary, all_words = count_ordinary_words(to_large_string(values.fill_null("")))
    return pl.Series(ordinary < all_words, dtype=pl.Boolean)


def _is_name_like(values: pl.Series) -> pl.Series:
    return pl.Series(find_name_like(to_large_string(values.fill_null(""))), dtype=pl.Boolean)
