"""What a kind of personal data is: a value, not a class to inherit from. One kind a file; the folder is the registry.

The national identifiers of a country stand together in countries/, a file a country; they are looked for only where a plan names the
country, since many are bare numbers with one check digit, which a tenth of all numbers pass. Everything here works on whole columns of
distinct values; nothing sees a document.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.core.keys import Draws, pick
from sanitize.errors import PlanError, nearest

WORD = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
_MEANT = {"UK": "GB", "EN": "GB", "ENG": "GB", "GBR": "GB"}  # what people write for a country whose code is another (ISO 3166)
_GROUND = ("kind", "custom_kind", "pattern_check")  # files of the folder that hold no kind
BOUND = r"(?-u:\b)"  # the ASCII word boundary: three times faster than the Unicode one, and the same in finder and verify
# what people, typesetters and web pages put between the groups of a number, for use in a character class; none ends a line
BLANKS = " \u00a0\u2000-\u200a\u202f\u205f\u3000"  # no-break, figure, thin, narrow and ideographic ones
HYPHENS = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d-"  # hyphens, dashes and the minus sign; last the plain one, so that it is no range
APART = f"[{BLANKS}{HYPHENS}]{{2,3}}"  # a wide gap: two or three of them
_TOKEN = re.compile(r"(\(\?-u:\\b\)|\\.|\{[^}]*\}|\[[^\]]*\]|.)(\?|\{)?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of personal data.

    pattern    A Rust regular expression without groups that capture, look-around or `(?i)`; the only zero-width items are `BOUND` and,
               where the kind is not `numeric`, `\\z`, the end of a text. It means the same in Python's `re` once these are `\\b` and `\\Z`
               under `re.ASCII`. It may take `<` `>` around a value: they are cut off, and the candidate is marked `bracketed`. Empty:
               other finders look for this kind.
    lead, trail   Regular expressions of what the pattern may take along before and after the value and is no part of it, such as
               `=3D` or `NHS number: `. The finder cuts it off, and asks no boundary there.
    accepts    Which candidates are of this kind, from a frame with `value` (brackets cut off), `bracketed`, `id_field` (stands in a
               Message-ID, In-Reply-To or References header) and `address_field` (in From, To and their like).
               Default: those that the pattern matches from end to end.
    check      Null for a good value, else one word why not (`luhn`, `range` ...). A refused candidate is counted, and not
               offered to other kinds; what a national identifier refuses is offered to those of other countries.
    normalise  The identity form: equal for two spellings of one value.
    fake       A stand-in of the same shape for each value that the kind's own pattern and check accept, drawn from `draws`; with
               `reserved`, from ranges that belong to nobody (RFC 2606, 5737, 3849; 555-01xx; test cards) where the kind has such.
    split      For kinds with parts: columns that give the value back when joined. `parts` names those a variant can keep as its
               anchor; the other columns are separators.
    keeping    For kinds whose parts stand in no one order: the fake with one part of each value as it was, by its number in `parts` (-1:
               none). A value of one part keeps nothing.
    opaque     A value that another seems to stand in is one token all the same: a Message-ID such as `<20.1-9-bob@example.com>` that a plan
               leaves is left whole.
    gate       The pattern's alternatives in their order, each behind the regular expressions that one text must match, all of them, for
               it; it is looked for in these texts alone. For what few texts hold and many letters begin: a look for it is far cheaper,
               where it begins with one of three bytes or holds one literal, by which the engine then searches; so the first is one of
               these, and the next is asked of the texts that it leaves.
    telling    True for identity forms that are no common word, so that the leak check may look for them wherever they stand; it leaves the
               others alone. Default: all.
    not_before, not_after   Bytes that may not adjoin the value in a text: one rule, for finder and verify.
    doubtful   Which values are of this kind only where `context` says so: ten bare digits are a telephone number behind `call`.
    context    Whether each doubtful occurrence is one, from a frame with `value` and what stands `before` (up to 48 bytes) and `after`
               it (up to 16), in the same text; every byte beyond ASCII is a blank there, and `spelled` is `before` in its own letters.
               It looks at nothing else, so that a split of a corpus changes nothing.
    common     Texts of this kind stand for other things elsewhere (2001, 64, 10:30), and there are few of them. Each one found is
               edited; the leak check does not look for its text in other places, and its stand-in may be a value of the corpus.
    turn       1 for addresses and what holds them, 2 for numbers that a check knows, 3 for those that words around them tell. A kind is
               looked for in what those of the turns before it left: the rank decides within a turn. One automaton for all would be too
               large for the engine to keep, and several times slower.
    numeric    Every match stands on one line and holds a digit, or a mark of numbers without one (see sanitize/text/digit_lines.py):
    other lines are
               not looked at where all kinds of a turn are so.
    country    Two letters (ISO 3166) for a national identifier, which is looked for only where a plan names its country.
    asked      Looked for only where a plan names it: it is frequent, says little of anybody by itself, and would cost every plan.
    """

    name: str
    about: str
    pattern: str
    normalise: Callable[[pl.Series], pl.Series]
    fake: Callable[[pl.Series, Draws, bool], pl.Series]
    accepts: Callable[[pl.DataFrame], pl.Series] | None = None
    check: Callable[[pl.Series], pl.Series] | None = None
    parts: tuple[str, ...] = ()
    split: Callable[[pl.Series], pl.DataFrame] | None = None
    keeping: Callable[[pl.Series, Draws, I64], pl.Series] | None = None
    not_before: bytes = WORD
    not_after: bytes = WORD
    opaque: bool = False
    lead: str | None = None
    trail: str | None = None
    gate: tuple[tuple[tuple[str, ...], str], ...] = ()
    doubtful: Callable[[pl.Series], pl.Series] | None = None
    context: Callable[[pl.DataFrame], pl.Series] | None = None
    common: bool = False
    turn: int = 1
    numeric: bool = False
    country: str | None = None
    asked: bool = False
    telling: Callable[[pl.Series], pl.Series] | None = None
    rank: int = 50  # where several kinds match at one place, the lowest rank is asked first

    def __repr__(self) -> str:
        return f"Kind({self.name}: {self.about})"

    @property
    def looked_for(self) -> str:
        """When it is looked for, in a few words."""
        if self.country is not None:
            return f"where find.countries names {self.country}"
        if not self.pattern:
            return "by other finders than patterns"
        return "where find.kinds names it" if self.asked else "always"

    def takes(self, candidates: pl.DataFrame) -> pl.Series:
        """True where a candidate is of this kind."""
        if self.accepts is not None:
            return self.accepts(candidates)
        return candidates["value"].str.contains(rf"\A(?:{self.pattern})\z" if self.pattern else r"[\p{L}\p{N}]")


def kinds(countries: Iterable[str] = (), named: Iterable[str] = ()) -> dict[str, Kind]:
    """The kinds that are looked for, by name, in the order in which they are asked: those of every country alike that need not be asked
    for or are `named`, and the national identifiers of the `countries` given. Raises PlanError for a country that has none here."""
    chosen, also = {country.upper() for country in countries}, set(named)
    for country in sorted(chosen):
        if country not in known_countries():
            if country in _MEANT:
                raise PlanError(f"find.countries: {country!r} is no country's code in ISO 3166; did you mean {_MEANT[country]}?")
            raise PlanError(f"find.countries: no identifiers of {country!r} are known; {nearest(country, known_countries())}")
    return {
        name: one
        for name, one in house_kinds().items()
        if (one.country in chosen if one.country is not None else not one.asked or name in also)
    }


def every_kind() -> dict[str, Kind]:
    """Every kind there is, by name: those of the house, then those that the plan at work brings (see `bringing`)."""
    return _brought.get().kinds or house_kinds()


@functools.cache
def house_kinds() -> dict[str, Kind]:
    """Every kind of the house, by name, in the order in which they are asked; the national identifiers too."""
    package = importlib.import_module("sanitize.kinds")
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in _GROUND and not module.ispkg]
    found: list[Kind] = [importlib.import_module(f"sanitize.kinds.{name}").KIND for name in names]
    for country in known_countries():
        found += importlib.import_module(f"sanitize.kinds.countries.{country.lower()}").KINDS
    return {kind.name: kind for kind in sorted(found, key=lambda kind: (kind.rank, kind.name))}


@functools.cache
def known_countries() -> tuple[str, ...]:
    """The countries whose identifiers are known, as two letters."""
    package = importlib.import_module("sanitize.kinds.countries")
    return tuple(sorted(module.name.upper() for module in pkgutil.iter_modules(package.__path__) if len(module.name) == 2))


def kind(name: str) -> Kind:
    """The kind of this name, of whatever country."""
    try:
        return every_kind()[name]
    except KeyError:
        raise PlanError(f"there is no kind {name}; {nearest(name, every_kind())}") from None


class Definition(Protocol):
    """A kind as plain data, which can go to another process."""

    @property
    def name(self) -> str: ...
    def kind(self) -> Kind: ...


@dataclass(frozen=True, eq=False)
class _Brought:
    definitions: tuple[Definition, ...] = ()
    kinds: dict[str, Kind] = field(default_factory=dict)  # all there are; empty where there are those of the house alone


_brought: ContextVar[_Brought] = ContextVar("brought", default=_Brought())  # noqa: B039 - nobody writes into it


@contextlib.contextmanager
def bringing(definitions: Sequence[Definition]) -> Iterator[None]:
    """As long as it lasts, here and in the workers that are given tasks, these kinds are there as well."""
    there = tuple(definitions)
    every = house_kinds() | {one.name: one.kind() for one in there} if there else {}
    before = _brought.set(_Brought(there, every))
    try:
        yield
    finally:
        _brought.reset(before)


@dataclass(frozen=True)
class Carried:
    """Work for another process, with the kinds that are there in this one."""

    work: Callable[[Any], Any]
    definitions: tuple[Definition, ...]

    def __call__(self, task: Any) -> Any:
        with bringing(self.definitions):
            return self.work(task)


def carried(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What an engine sends to a worker instead of `work`."""
    there = _brought.get().definitions
    return Carried(work, there) if there else work


def loosened(pattern: str, *, twice: bool = True) -> str:
    """A pattern for numbers in groups in which every blank and every hyphen stands for all of its sort; `twice`: a separator may also be
    two or three of what it may be (`713 - 555`), and a hyphen may have a blank on either side."""
    out = []
    for token, behind in _TOKEN.findall(pattern):
        if token == " " or re.fullmatch(r"\[[ ./-]+\]", token):
            inside = token.strip("[]")
            dashes = HYPHENS if "-" in inside else ""
            made = "[" + inside.replace(" ", "").replace("-", "") + (BLANKS if " " in inside else "") + dashes + "]"
            times = {"": "{1,3}", "?": "{0,3}"}.get(behind, behind) if twice else behind
            out.append(made + times if " " in inside else made + behind)
        elif token == "-":
            made = f"[{BLANKS}]?[{HYPHENS}][{BLANKS}]?" if twice else f"[{HYPHENS}]"
            out.append(f"(?:{made}){behind}" if behind and twice else made + behind)
        else:
            out.append(token + behind)
    return "".join(out)


def all_doubtful(values: pl.Series) -> pl.Series:
    """All: of a kind that is one by what stands around it alone."""
    return pl.Series([True], dtype=pl.Boolean).new_from_index(0, len(values))


def reshaped(values: pl.Series, draws: Draws, keep: npt.NDArray[np.bool_] | None = None, first_lane: int = 0) -> pl.Series:
    """The values with every ASCII letter and digit drawn anew within its class (upper, lower, digit); all other bytes stay.

    `keep` marks bytes of the joined values that stay as well. Four characters share a lane, sixteen bits each (uniform up to
    26 / 2^16); the lanes from `first_lane` on are used, one for every four bytes of the longest value.
    """
    flat, offsets = joined(values)
    base, size = _BASE[flat], _SIZE[flat]
    if keep is not None:
        size = np.where(keep, 0, size)
    # one draw for every four bytes of every value, all in one sweep
    lanes = (np.diff(offsets) + 3) >> 2
    first = np.concatenate([[0], np.cumsum(lanes)])
    row = np.repeat(np.arange(len(lanes)), lanes)
    bits = draws.rows(row).u64((first_lane + np.arange(len(row)) - first[row]).astype(np.uint64))
    row = np.repeat(np.arange(len(lanes)), np.diff(offsets))
    place = np.arange(len(flat)) - offsets[row]
    noise = (bits[first[row] + (place >> 2)] >> ((place & 3) << 4).astype(np.uint64)).astype(np.uint16).astype(np.uint32)
    drawn = base + ((noise * size) >> np.uint32(16)).astype(np.uint8)
    return parted(np.where(size > 0, drawn, flat), offsets, values.name)


def drawn(draws: Draws, lane: int, size: int | npt.NDArray[np.int64]) -> I64:
    """One index below `size` for every row."""
    return pick(draws.pair(lane)[0], size if isinstance(size, int) else size.astype(np.uint64))


def joined(values: pl.Series) -> tuple[U8, I64]:
    """The bytes of all values one after the other, and where each begins (one offset more than values)."""
    array = values.cast(pl.Binary).to_arrow().cast(pa.large_binary())
    assert array.null_count == 0
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    data = array.buffers()[2]
    flat = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return flat[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0]


def parted(flat: U8, offsets: I64, name: str = "") -> pl.Series:
    """The reverse of `joined`."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(np.ascontiguousarray(flat, np.uint8))]
    return pl.Series(name, pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers[1:])).cast(pl.String)


def first_in(where: npt.NDArray[np.bool_], starts: I64, stops: I64) -> I64:
    """The first marked place of each range, or the range's end; `where` is over the bytes of `joined`."""
    places = np.append(np.flatnonzero(where), len(where))
    return np.asarray(np.minimum(places[np.searchsorted(places, starts)], stops), np.int64)


def last_in(where: npt.NDArray[np.bool_], starts: I64, stops: I64) -> I64:
    """The last marked place of each range, or the range's end."""
    places = np.flatnonzero(where)
    found = np.append(places, -1)[np.searchsorted(places, stops) - 1]
    return np.asarray(np.where(found >= starts, found, stops), np.int64)


def grid(values: pl.Series, width: int = 4) -> U8:
    """The bytes of every value as one row of at least `width`, padded with zeros on the right: for kinds whose values are short."""
    flat, offsets = joined(values)
    sizes = np.diff(offsets)
    rows = np.zeros((len(sizes), int(sizes.max(initial=width))), np.uint8)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = flat
    return rows


def ungrid(rows: U8, name: str = "") -> pl.Series:
    """The reverse of `grid`; zeros are left out wherever they stand."""
    filled = rows != 0
    return parted(rows[filled], np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int64), name)


def digits(rows: U8) -> npt.NDArray[np.bool_]:
    """Where the bytes of a grid are ASCII digits."""
    return (rows >= 48) & (rows <= 57)


_BASE, _SIZE = np.zeros(256, np.uint8), np.zeros(256, np.uint32)
for _first, _count in ((b"0", 10), (b"A", 26), (b"a", 26)):
    _BASE[_first[0] : _first[0] + _count], _SIZE[_first[0] : _first[0] + _count] = _first[0], _count


def boundaries(which: list[Kind]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Two tables [kind, byte]: True where that byte may not stand before, or after, a value of that kind.

    The rule binds a value only at an edge that is itself a letter, digit or underscore; `+1` or `(555)` may follow anything.
    """
    tables = np.zeros((2, len(which), 256), np.bool_)
    for number, one in enumerate(which):
        tables[0, number, list(one.not_before)] = True
        tables[1, number, list(one.not_after)] = True
    return tables[0], tables[1]


def table_of(some: bytes) -> npt.NDArray[np.bool_]:
    """A table of 256 bytes: True for some of them."""
    table = np.zeros(256, np.bool_)
    table[list(some)] = True
    return table
