"""Where given names stand in a column of texts: in any letter case and Unicode form, across any white space, also as `Surname, First name`.

Also in what the column says in other writing (sanitize/text/decodings.py): `Ann=20Roe`, a part in base64; of a run of base64 all is its
place.

One alternation of all names, run by the linear-time engine of Polars; a name is bounded by Unicode's word boundaries. Names are few (those
of one person, or of a list); for many values there is the matcher.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import I64, Buffers, code_points, cut, filled, matches
from sanitize.core.keys import Key, value_ids
from sanitize.kinds.person import UNSEEN as _UNSEEN
from sanitize.kinds.person import normalised as normalised
from sanitize.text.decodings import VIEWS, views

KIND = "PERSON"
FINDER = "mentions"
_GAP = rf"(?:\s|{_UNSEEN})+"
_WRITING = tuple(form for form in VIEWS if form != "digits")
_LETTERS = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, repr=False)
class Mentions:
    """Mentions in a column, ascending: the text each stands in, its first byte and the byte after it in the column, and its `value_id`."""

    text_no: I64
    start: I64
    stop: I64
    value_id: I64


def too_common(name: str) -> bool:
    """True for a name that would match many people: fewer than two words, or fewer than five letters in all."""
    words = [word for word in name.split() if len(_LETTERS.findall(word)) > 1]
    return len(words) < 2 or len(_LETTERS.findall(name)) < 5


def ids_of(names: Sequence[str], key: Key) -> I64:
    """The `value_id` of each name, given as `normalised` gives it."""
    return value_ids(pa.array(list(names), pa.large_string()), KIND, key)


def mentions(texts: pa.LargeStringArray, names: Sequence[str], key: Key) -> Mentions:
    """All mentions of `names` (as `normalised` gives them) in a column of texts without nulls."""
    buffers = Buffers.of(texts)
    if not names or not len(buffers.data):
        nothing = np.empty(0, np.int64)
        return Mentions(nothing, nothing, nothing, nothing)
    start, stop = matches(buffers, _pattern(names))
    found = normalised(pl.Series(cut(buffers, start, stop)))
    known = pl.DataFrame({"name": list(names), "value_id": ids_of(names, key)}, schema={"name": pl.String, "value_id": pl.Int64})
    ids = pl.DataFrame({"name": found}).join(known, on="name", how="left", maintain_order="left")["value_id"]
    # what a letter's other case spells differently (a dotless i) is a mention all the same, of the first name
    ids = ids.fill_null(known["value_id"][0])
    return Mentions(np.searchsorted(buffers.offsets, start, side="right") - 1, start, stop, ids.to_numpy())


def hidden(texts: pa.LargeStringArray, names: Sequence[str], key: Key) -> Mentions:
    """The mentions that a column of texts without nulls holds in other writing, with the places of what is written so."""
    buffers, nothing = Buffers.of(texts), np.empty(0, np.int64)
    found = [(nothing, nothing, nothing, nothing)]
    for view in views(texts, wide(names), _WRITING) if names else ():
        pieces = valid(view.pieces)
        seen = mentions(pieces, names, key)
        base = Buffers.of(pieces).offsets[seen.text_no]
        at = view.original(seen.text_no, seen.start - base, seen.stop - base)
        first, some = buffers.offsets[at.text_no], np.flatnonzero(at.touched)
        found.append((at.text_no[some], (first + at.start)[some], (first + at.stop)[some], seen.value_id[some]))
    text_no, start, stop, ids = (np.concatenate(column) for column in zip(*found, strict=True))
    _, once = np.unique(np.column_stack([start, stop]), axis=0, return_index=True)  # a place may say it in two views
    return Mentions(text_no[once], start[once], stop[once], ids[once])


def count_hidden(texts: pa.LargeStringArray, names: Sequence[str], only: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The same counted, by the form of the writing; `only` some forms."""
    for view in views(texts, wide(names), tuple(form for form in only if form in _WRITING)) if names else ():
        yield view.form, count(valid(view.pieces), names)


def wide(names: Sequence[str]) -> int:
    """The bytes around an escape in which a name may stand, with characters that cannot be seen in between."""
    return 16 * max(len(name.encode()) for name in names)


def valid(pieces: pa.LargeStringArray) -> pa.LargeStringArray:
    """Decoded bytes as texts of the same length: a byte that is no UTF-8 becomes a control character."""
    raw = pieces.cast(pa.large_binary())
    try:
        return raw.cast(pa.large_string())
    except pa.ArrowInvalid:
        # a loop over what was decoded, which is little: Arrow replaces no bytes
        texts = (one.decode("utf-8", "surrogateescape") for one in raw.to_pylist())
        return pa.array([re.sub("[\udc80-\udcff]", "\x7f", text) for text in texts], pa.large_string())


def count(texts: pa.LargeStringArray, names: Sequence[str]) -> int:
    """How many mentions of `names` there are in a column of texts."""
    return int(pl.Series(texts.fill_null("")).str.count_matches(_pattern(names)).sum()) if names else 0


def _pattern(names: Sequence[str]) -> str:
    forms = set()
    for name in names:
        words = [_word(word) for word in name.split()]
        forms.add(_GAP.join(words))
        if len(words) > 1:
            forms.add(words[-1] + r"\s*,\s*" + _GAP.join(words[:-1]))
    # the longest first: `ann marie roe` before `ann marie`
    return r"(?i)\b(?:" + "|".join(sorted(forms, key=lambda form: (-len(form), form))) + r")\b"


def _word(word: str) -> str:
    """A word letter by letter, in whichever Unicode form, with or without what cannot be seen in between."""
    return (_UNSEEN + "*").join("(?:" + "|".join(dict.fromkeys(map(re.escape, _forms(letter)))) + ")" for letter in word)


def _forms(letter: str) -> list[str]:
    wide = chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter
    return [letter, unicodedata.normalize("NFD", letter), wide]


def rows(texts: pa.LargeStringArray, doc_no: I64, cells: npt.NDArray[np.int32], names: Sequence[str], key: Key) -> pl.DataFrame:
    """The mentions in a column as rows of the table `occurrences`; `doc_no` and `cells` say whose each text is."""
    texts = filled(texts)
    both = (mentions(texts, names, key), hidden(texts, names, key))
    found = Mentions(*(np.concatenate([getattr(one, name) for one in both]) for name in ("text_no", "start", "stop", "value_id")))
    buffers = Buffers.of(texts)
    start, stop = code_points(buffers, found.text_no, found.start, found.stop)
    first = buffers.offsets[found.text_no]
    return pl.DataFrame(
        {
            "doc_no": doc_no[found.text_no],
            "cell": cells[found.text_no].astype(np.int32),
            "start": start,
            "stop": stop,
            "start_byte": found.start - first,
            "stop_byte": found.stop - first,
        }
    ).with_columns(
        pl.lit(KIND).alias("kind"),
        pl.Series("value_id", found.value_id, pl.Int64),
        pl.lit(FINDER).alias("finder"),
        pl.lit(1.0, pl.Float32).alias("score"),
        pl.lit(None, pl.String).alias("section"),
        pl.lit(None, pl.Int64).alias("entity_id"),
    )
