"""Names of people. No pattern finds them: finders do (find/names.py, find/known.py, models, a user's list).

Identity: letter case, blanks, quotes, Unicode compatibility forms and what cannot be seen do not count, and `Roe, Ann` is `ann roe`.
Two people of one name are one value.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import Buffers, arrow, cut, matches, splice
from sanitize.core.keys import Draws, pick
from sanitize.kinds.kind import I64, WORD, Kind

UNSEEN = "[\u200b-\u200d\u2060\u00ad\ufeff]"
LETTERS = WORD.replace(b"_", b"")  # `_Ann Roe_` holds a name
_WORD = r"[\p{L}\p{M}]+"
# words inside a name that are no name of their own, and stay
_STAY = "mr|mrs|ms|miss|dr|prof|sir|van|von|der|den|de|del|della|di|da|dos|du|la|le|al|el|bin|ibn|ben|ter|ten|zu|und|y|jr|sr|ii|iii|iv"
_COMMA = r"\A([\s\"',]*[^\s\"',][^,]*),"  # what stands before the first comma
# letters that Unicode takes for no accented ones, and how they are written in ASCII; and where a custom writes two letters
_UNLIKE = dict(zip("ßøłđðæœþıħ", "ss o l d d ae oe th i h".split(), strict=True))
_LONG = dict(zip("äöüøå", "ae oe ue oe aa".split(), strict=True))
Mask = npt.NDArray[np.bool_]


def normalised(names: pl.Series) -> pl.Series:
    """The identity of names: each character in its Unicode compatibility form, lower case, single blanks, nothing that cannot be seen, and
    `Roe, Ann` as `ann roe`."""
    plain = (
        names.str.replace_all(UNSEEN, "").str.normalize("NFKC").str.replace_all(r"[\s\"']+", " ").str.strip_chars(" ,").str.to_lowercase()
    )
    return plain.str.replace(r"\A([^,]+?) ?, ?([^,]+)\z", "$2 $1")


def telling(names: pl.Series) -> pl.Series:
    """True for names, as `normalised` gives them, that are more than one word of letters, and six bytes or more: `will`, `may` and `li wu`
    say little. The full check draws the same line."""
    return (names.str.len_bytes() >= 6) & ~names.str.contains(r"\A\p{L}+\z")


def plain(names: pl.Series, *, long: bool = False) -> pl.Series:
    """Names in small letters without accents, as addresses have them (`jose` for `José`, `gross` for `Groß`); with `long` two letters where
    that is a custom (`juergen` for `Jürgen`)."""
    small = names.str.to_lowercase()
    if not small.str.contains(r"[^\x00-\x7f]").any():
        return small
    small = small.str.normalize("NFC").str.replace_many(_LONG) if long else small
    return small.str.normalize("NFKD").str.to_lowercase().str.replace_all(r"\p{M}", "").str.replace_many(_UNLIKE)


def _fake(names: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """A name of the same shape: an initial for an initial, given names, a surname at its place, letter case and all else as it was."""
    words = Words.of(names)
    return words.said(words.drawn(draws, *stores()), words.stays)


def worded(values: pl.Series, draws: Draws, firsts: npt.NDArray[np.object_], lasts: npt.NDArray[np.object_], stay: str) -> pl.Series:
    """The values with every word drawn anew: the last one from `lasts`, the others from `firsts`; single letters become other letters,
    words of the alternation `stay` are left, and letter case is as it was."""
    words = Words.of(values, stay, turned=False)
    return words.said(words.drawn(draws, firsts, lasts), words.stays)


def _keeping(names: pl.Series, draws: Draws, part: I64) -> pl.Series:
    """The fake of each name with its given name (part 0) or its surname (part 1) left as it is, or neither (-1). What stands between is
    drawn in any case, and a name of one word, or of one with hyphens, keeps nothing."""
    words = Words.of(names)
    own = np.where(words.first, 0, np.where(words.final, 1, -1))
    count = len(names)
    several = (np.bincount(words.row[words.first], minlength=count) > 0) & (np.bincount(words.row[words.final], minlength=count) > 0)
    anchored = (own >= 0) & several[words.row] & (own == part[words.row])
    return words.said(words.drawn(draws, *stores()), words.stays | anchored)


@dataclass(frozen=True, repr=False)
class Words:
    """The words of some names: the row of each, its first byte and the byte after it among the bytes of all names, the text; whether it
    `stays` (a title, a particle), is a single letter, is (part of) the surname (`final`) or the given name (`first`); and its `place` in
    the name as its identity has it, which is another for `Roe, Ann`."""

    names: pl.Series
    buffers: Buffers
    row: I64
    start: I64
    stop: I64
    text: pl.Series
    stays: Mask
    letter: Mask
    final: Mask
    first: Mask
    place: I64
    group: I64  # the number of its run of words between hyphens

    @classmethod
    def of(cls, names: pl.Series, stay: str = _STAY, *, turned: bool = True) -> Words:
        """The words of a column of names. The surname is the last word that does not stay and is no letter, or the last one before a comma;
        the given name is the first of the others. What hyphens join to one of the two (`Jean-Paul`) is part of it. With `turned` what
        stands behind a single comma comes first, as in the identity of a name."""
        buffers = Buffers.of(arrow(names))
        starts, stops = matches(buffers, _WORD)
        count = len(starts)
        row = np.searchsorted(buffers.offsets, starts, side="right") - 1
        words = pl.Series(cut(buffers, starts, stops), dtype=pl.String)
        initial = (words.str.len_chars() == 1).to_numpy()
        kept = words.str.to_lowercase().str.contains(rf"\A(?:{stay})\z").to_numpy()
        # a value of nothing but words that stay has its words drawn all the same
        stays = kept & (np.bincount(row[~kept & ~initial], minlength=len(names)) > 0)[row]
        order = np.arange(count)
        if turned:
            comma = names.str.extract(_COMMA).str.len_bytes().fill_null(len(buffers.data)).to_numpy().astype(np.int64)
            order = np.lexsort((starts, starts - buffers.offsets[row] < comma[row], row))
        new = _opens(row)
        place = np.empty(count, np.int64)
        place[order] = np.arange(count) - np.maximum.accumulate(np.where(new, np.arange(count), 0))
        free = order[(~kept & ~initial)[order]]
        group = hyphened(buffers, row, starts, stops)
        final = np.isin(group, group[free[_opens(row[free][::-1])[::-1]]]) & ~stays
        others = order[(~stays & ~final)[order]]
        first = np.isin(group, group[others[_opens(row[others])]]) & ~stays & ~final
        return cls(names, buffers, row, starts, stops, words, stays, initial, final, first, place, group)

    def drawn(self, draws: Draws, firsts: npt.NDArray[np.object_], lasts: npt.NDArray[np.object_]) -> pl.Series:
        """A word for each, in small letters: a surname, a given name, or a letter."""
        bits = draws.rows(self.row).u64(self.place.astype(np.uint64)) >> np.uint64(32)
        name = np.where(self.final, lasts[pick(bits, len(lasts))], firsts[pick(bits, len(firsts))])
        letter = np.array(list("abcdefghijklmnopqrstuvwxyz"), object)[pick(bits, 26)]
        return pl.Series(np.where(self.letter, letter, name), dtype=pl.String)

    def said(self, new: pl.Series, stays: Mask) -> pl.Series:
        """The names with other words, each in the letter case of the one before it, but for those that stay."""
        if not len(self.row):
            return self.names
        shown = pl.select(pl.when(pl.Series(stays)).then(self.text).otherwise(cased(new, self.text))).to_series()
        return pl.Series(self.names.name, splice(self.buffers, self.start, self.stop, arrow(shown)))


def hyphened(buffers: Buffers, row: I64, start: I64, stop: I64) -> I64:
    """The number of the run that each word is in, of ascending words in some rows: hyphens join `Jean-Paul` and `J.-P.`."""
    data = np.append(buffers.data, np.zeros(3, np.uint8))
    gap, end = np.append(start[1:] - stop[:-1], 0)[: len(row)], stop
    bare = (gap == 1) & (data[end] == 45)
    dotted = (gap == 2) & (data[end] == 46) & (data[end + 1] == 45)
    wide = (gap == 3) & (data[end] == 0xE2) & (data[end + 1] == 0x80) & ((data[end + 2] == 0x90) | (data[end + 2] == 0x91))
    ends = ~(bare | dotted | wide) | np.append(row[1:] != row[:-1], True)[: len(row)]
    return np.append(0, np.cumsum(ends))[: len(row)]


def _opens(row: I64) -> Mask:
    """True for the first of each run of equal numbers."""
    return np.append(True, row[1:] != row[:-1])[: len(row)]


def cased(new: pl.Series, old: pl.Series) -> pl.Series:
    """Words in small letters, in the letter case of others: UPPER, Title, or as they are; a single capital makes a Title."""
    made = pl.DataFrame({"new": new, "old": old})
    title = pl.col("new").str.slice(0, 1).str.to_uppercase() + pl.col("new").str.slice(1)
    upper = (pl.col("old") == pl.col("old").str.to_uppercase()) & (pl.col("old") != pl.col("old").str.to_lowercase())
    return made.select(
        pl.when(upper & (pl.col("old").str.len_chars() > 1))
        .then(pl.col("new").str.to_uppercase())
        .when(pl.col("old").str.contains(r"\A\p{Lu}"))
        .then(title)
        .otherwise(pl.col("new"))
    ).to_series()


@functools.cache
def stores() -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Given names and surnames in plain ASCII, sorted, so that a draw means the same on every machine."""
    found = []
    for names in listed():
        words = pl.Series(sorted(names), dtype=pl.String)
        found.append(words.filter(words.str.contains(r"\A[a-z]{3,12}\z")).to_numpy().astype(object))
    return found[0], found[1]


@functools.cache
def listed() -> tuple[frozenset[str], frozenset[str]]:
    """Given names and surnames of all of Faker's locales, as single words of two letters or more in lower case: some 29,000 and 33,000, in
    a quarter of a second."""
    import faker.providers.person as locales

    found: tuple[list[str], list[str]] = ([], [])
    for module in pkgutil.iter_modules(locales.__path__):
        provider = importlib.import_module(f"{locales.__name__}.{module.name}").Provider
        for name, value in vars(provider).items():
            if isinstance(value, tuple | list | dict) and "name" in name:
                for number, part in enumerate(("first", "last")):
                    if part in name:
                        found[number].extend(map(str, value))
    firsts, lasts = (pl.Series(names, dtype=pl.String).str.to_lowercase().str.extract_all(r"[\p{L}\p{M}]{2,}") for names in found)
    return frozenset(firsts.explode().drop_nulls()), frozenset(lasts.explode().drop_nulls())


KIND = Kind(
    name="PERSON",
    about="a person's name",
    pattern="",
    normalise=normalised,
    fake=_fake,
    parts=("first", "last"),
    keeping=_keeping,
    telling=telling,
    not_before=LETTERS,
    not_after=LETTERS,
    rank=90,
)
