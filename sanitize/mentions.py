"""Where given names stand in a column of texts: in any letter case and Unicode form, across any white space, also as `Surname, First name`.

One alternation of all names, run by the linear-time engine of Polars; a name is bounded by Unicode's word boundaries. Names are few (those
of one person, or of a list); for many values there is the matcher.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.keyed import Key, value_ids
from sanitize.kinds.person import UNSEEN as _UNSEEN
from sanitize.kinds.person import normalised as normalised
from sanitize.spans import I64, Buffers, code_points, cut, matches

KIND = "PERSON"
FINDER = "mentions"
_GAP = rf"(?:\s|{_UNSEEN})+"
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
    texts = texts.fill_null("") if texts.null_count else texts
    found = mentions(texts, names, key)
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
