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

from sanitize.keyed import Draws, pick
from sanitize.kinds.kind import I64, WORD, Kind
from sanitize.spans import Buffers, arrow, cut, matches, splice

UNSEEN = "[\u200b-\u200d\u2060\u00ad\ufeff]"
LETTERS = WORD.replace(b"_", b"")  # `_Ann Roe_` holds a name
_WORD = r"[\p{L}\p{M}]+"
# words inside a name that are no name of their own, and stay
_STAY = "mr|mrs|ms|miss|dr|prof|sir|van|von|der|den|de|del|della|di|da|dos|du|la|le|al|el|bin|ibn|ben|ter|ten|zu|und|y|jr|sr|ii|iii|iv"


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


def _fake(names: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """A name of the same shape: an initial for an initial, given names, a surname at its place, letter case and all else as it was."""
    firsts, lasts = stores()
    return worded(names, draws, firsts, lasts, _STAY)


def worded(values: pl.Series, draws: Draws, firsts: npt.NDArray[np.object_], lasts: npt.NDArray[np.object_], stay: str) -> pl.Series:
    """The values with every word drawn anew: the last one (or, before a comma, the first) from `lasts`, the others from `firsts`; single
    letters become other letters, words of the alternation `stay` are left, and letter case is as it was."""
    words = Words.of(values, stay)
    return words.said(words.drawn(draws, firsts, lasts), words.stays)


def _keeping(names: pl.Series, draws: Draws, part: I64) -> pl.Series:
    """The fake of each name with its given name (part 0) or its surname (part 1) left as it is, or neither (-1). What stands between is
    drawn in any case, and a name of one word keeps nothing."""
    words = Words.of(names, _STAY)
    own = np.where(words.first, 0, np.where(words.final, 1, -1))
    several = np.bincount(words.row[own >= 0], minlength=len(names)) > 1 if len(words.row) else np.zeros(len(names), np.bool_)
    anchored = (own >= 0) & several[words.row] & (own == part[words.row])
    return words.said(words.drawn(draws, *stores()), words.stays | anchored)


@dataclass(frozen=True, repr=False)
class Words:
    """The words of some names: the row of each, its first byte and the byte after it among the bytes of all names, the text; whether it
    `stays` (a title, a particle), is a single letter, is the surname (`final`) or the given name (`first`: the first of the others)."""

    names: pl.Series
    buffers: Buffers
    row: I64
    start: I64
    stop: I64
    text: pl.Series
    stays: npt.NDArray[np.bool_]
    letter: npt.NDArray[np.bool_]
    final: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, names: pl.Series, stay: str = _STAY) -> Words:
        """The words of a column of names. The surname is the last word that does not stay, or those before a comma."""
        buffers = Buffers.of(arrow(names))
        starts, stops = matches(buffers, _WORD)
        row = np.searchsorted(buffers.offsets, starts, side="right") - 1
        words = pl.Series(cut(buffers, starts, stops), dtype=pl.String)
        initial = (words.str.len_chars() == 1).to_numpy()
        kept = words.str.to_lowercase().str.contains(rf"\A(?:{stay})\z").to_numpy()
        commas = np.append(names.str.find(",", literal=True).fill_null(-1).to_numpy().astype(np.int64), -1)[row]
        free = np.flatnonzero(~kept & ~initial)
        final = np.zeros(len(row), np.bool_)
        final[free[np.append(np.diff(row[free]) != 0, True)] if len(free) else free] = True
        final = np.where(commas > 0, stops - buffers.offsets[row] <= commas, final)
        # a value of nothing but words that stay has its words drawn all the same
        none = np.bincount(row[free], minlength=len(names)) == 0 if len(free) else np.ones(len(names), np.bool_)
        return cls(names, buffers, row, starts, stops, words, kept & ~none[row], initial, final)

    @property
    def first(self) -> npt.NDArray[np.bool_]:
        """Where the given name of each name stands, or its letter."""
        others = np.flatnonzero(~self.stays & ~self.final)
        found = np.zeros(len(self.row), np.bool_)
        found[others[np.append(True, np.diff(self.row[others]) != 0)] if len(others) else others] = True
        return found

    def drawn(self, draws: Draws, firsts: npt.NDArray[np.object_], lasts: npt.NDArray[np.object_]) -> pl.Series:
        """A word for each, in small letters: a surname, a given name, or a letter."""
        new = np.append(True, np.diff(self.row) != 0)[: len(self.row)]
        place = np.arange(len(self.row)) - np.maximum.accumulate(np.where(new, np.arange(len(self.row)), 0))
        bits = draws.rows(self.row).u64(place.astype(np.uint64)) >> np.uint64(32)
        name = np.where(self.final, lasts[pick(bits, len(lasts))], firsts[pick(bits, len(firsts))])
        letter = np.array(list("abcdefghijklmnopqrstuvwxyz"), object)[pick(bits, 26)]
        return pl.Series(np.where(self.letter, letter, name), dtype=pl.String)

    def said(self, new: pl.Series, stays: npt.NDArray[np.bool_]) -> pl.Series:
        """The names with other words, each in the letter case of the one before it, but for those that stay."""
        if not len(self.row):
            return self.names
        shown = pl.select(pl.when(pl.Series(stays)).then(self.text).otherwise(cased(new, self.text))).to_series()
        return pl.Series(self.names.name, splice(self.buffers, self.start, self.stop, arrow(shown)))


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
