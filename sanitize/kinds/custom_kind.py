"""Kinds that a plan brings itself: `[[kind]]` tables, each a name with a pattern, a list of words, or both.

One of these is a kind like any other for every room. Its definition is plain data and goes to workers with their tasks, so that no
process knows a kind which its plan does not have. What may stand in a pattern is decided in kinds/regex.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from sanitize.core.keys import Draws
from sanitize.errors import PlanError, nearest
from sanitize.kinds.countries.national_id import Bools, luhn, mod11_10, mod97, verhoeff
from sanitize.kinds.kind import U8, WORD, Kind, drawn, grid, house_kinds, joined, parted, reshaped, ungrid
from sanitize.kinds.pattern_check import fault

# what a check reads of a value, the check itself, and how many check characters stand at the end
CHECKS: dict[str, tuple[str, Callable[[U8], Bools], int]] = {
    "luhn": ("[^0-9]", luhn, 1),
    "verhoeff": ("[^0-9]", verhoeff, 1),
    "mod11_10": ("[^0-9]", mod11_10, 1),
    "mod97": ("[^0-9A-Z]", mod97, 2),
}
_FIELDS = {
    "digits": "0123456789",
    "letters": "abcdefghijklmnopqrstuvwxyz",
    "capitals": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "hex": "0123456789abcdef",
}
_FIELD = re.compile(r"\{(?:(\w+):([0-9]{1,2}))?[^{}]*\}")
_ENOUGH = 10_000  # stand-ins that a replacement has to give, or they would soon repeat
_LONGEST = 40  # characters of a name
_SURE = 6  # bytes of a value that says by itself what it is, where a rule asks for words near it
_WITHOUT = ("examples", "counter_examples")  # decide nothing about what comes out
LISTS = ("words", *_WITHOUT)  # of these only the length is published


class Custom(BaseModel):
    """One `[[kind]]` of a plan.

    name       Capital letters, digits and `_`; no kind of the house has it.
    pattern    A regular expression in the syntax of Rust's `regex` crate, which needs no more than linear time.
    words      Values, looked for as whole words; `words_file` names a file of more, one on each line. `case`: whether letter case counts
               (`exact`) or not (`any`).
    inside_words   Whether a value may stand between letters and digits; of those beyond ASCII it always may.
    check      A check of `CHECKS`, over the value's digits (and letters).
    context    Words of which one must stand within 64 bytes before or 32 behind a value, in any letter case.
    score      How sure a match is by itself, 1 unless said; with `context`, it is taken without such a word, and is this sure.
    normal     What makes two spellings one value: `exact`; `casefold` (letter case, blanks and Unicode forms do not count); `digits`;
               `compact` (letters and digits, letter case aside).
    replacement   What a stand-in looks like, such as `EMP-{digits:6}`; without, it has the shape of the value.
    examples, counter_examples   Texts that are to be, and not to be, values from end to end: for `sanitize rules test`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    about: str = "a kind of this plan"
    pattern: str = ""
    words: tuple[str, ...] = ()
    words_file: str = ""
    case: Literal["any", "exact"] = "any"
    inside_words: bool = False
    check: str = ""
    context: tuple[str, ...] = ()
    score: float | None = Field(default=None, ge=0, le=1)
    normal: Literal["exact", "casefold", "digits", "compact"] = "casefold"
    replacement: str = ""
    examples: tuple[str, ...] = ()
    counter_examples: tuple[str, ...] = ()

    def decides(self) -> dict[str, Any]:
        """What decides what comes out, in plain data."""
        return self.model_dump(mode="json", exclude={*_WITHOUT, "words_file"})

    def finds(self) -> dict[str, Any]:
        """What decides what is found."""
        return self.model_dump(mode="json", exclude={*_WITHOUT, "words_file", "replacement", "about"})

    def shown(self) -> dict[str, Any]:
        """The definition for what is published: of values only how many."""
        return {**self.decides(), **{name: len(getattr(self, name)) for name in LISTS}}

    @classmethod
    def of_shown(cls, shown: Mapping[str, Any]) -> Custom:
        """The definition as far as `shown` told it: all but its lists."""
        return cls(**{name: told for name, told in shown.items() if name not in LISTS})

    @property
    def checked(self) -> Callable[[pl.Series], pl.Series] | None:
        """Null for values that pass the check, else its name."""
        if not self.check:
            return None

        def check(values: pl.Series) -> pl.Series:
            bad = pl.Series(~_sound(self.check, values), dtype=pl.Boolean)
            return pl.select(pl.when(bad).then(pl.lit(self.check))).to_series()

        return check

    def kind(self) -> Kind:
        """The kind that is defined."""
        return Kind(
            name=self.name,
            about=self.about,
            pattern=self.pattern,
            accepts=lambda candidates: pl.repeat(True, candidates.height, eager=True),
            check=self.checked,
            normalise=lambda values: _normal(self.normal, values),
            fake=self._fake,
            telling=self._telling,
            not_before=b"" if self.inside_words else WORD,
            not_after=b"" if self.inside_words else WORD,
        )

    def _telling(self, forms: pl.Series) -> pl.Series:
        """True where the leak check may look for a value wherever it stands: not for a single word of letters, which is one thing here
        and another there, unless the list has it in any letter case; nor for a short value that only the words around it told."""
        plain = ~forms.str.contains(r"\A\p{L}+\z")
        if self.context:
            plain &= forms.str.len_bytes() >= _SURE
        elif self.words and self.case == "any":
            plain |= forms.is_in(_normal(self.normal, pl.Series(self.words, dtype=pl.String)).implode())
        return plain

    def _fake(self, values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
        """By the `replacement`; else another value that pattern and check take: letters and digits drawn anew, or, where such a text is
        none, hexadecimal digits, digits alone, letters alone; check characters that fit."""
        if self.replacement:
            return _laid_out(self.replacement, draws).alias(values.name)
        plain = values.str.replace_all(r"[\p{Lu}&&[^\x00-\x7f]]", "X").str.replace_all(r"[\p{L}&&[^\x00-\x7f]]", "x")
        plain = pl.select(pl.when(plain.str.contains("[0-9A-Za-z]")).then(plain).otherwise(pl.lit("xxxxxx"))).to_series()
        made: pl.Series | None = None
        pending = np.arange(len(values))
        for way in ("all", "hex", "digits", "letters"):
            some = plain.gather(pending)
            tried = self._fitted(_redrawn(some, draws.rows(pending), way))
            good = (self.takes(tried) & (tried != some)).to_numpy()
            made = tried if made is None else made.scatter(pending[good], tried.filter(pl.Series(good)))
            pending = pending[~good]
            if not len(pending):
                break
        assert made is not None
        return made.alias(values.name)

    def takes(self, values: pl.Series) -> pl.Series:
        """True where a text, from end to end, is what the pattern and the check take; without a pattern, what the check takes."""
        good = values.str.contains(rf"\A(?:{self.pattern})\z") if self.pattern else pl.repeat(True, len(values), eager=True)
        return good & pl.Series(_sound(self.check, values), dtype=pl.Boolean) if self.check else good

    def _fitted(self, values: pl.Series) -> pl.Series:
        """The values with check characters that fit, where they end in digits."""
        if not self.check:
            return values
        tail = CHECKS[self.check][2]
        rows = grid(values)
        is_digit = (rows >= 48) & (rows <= 57)
        nth = is_digit[:, ::-1].cumsum(axis=1)[:, ::-1]  # counted from the end
        pending = np.arange(len(rows))
        for ending in range(10**tail):
            for back in range(tail):
                tried = rows[pending]
                tried[is_digit[pending] & (nth[pending] == back + 1)] = 48 + ending // 10**back % 10
                rows[pending] = tried
            pending = pending[~_sound(self.check, ungrid(rows[pending]))]
            if not len(pending):
                break
        return ungrid(rows, values.name)


def customs_of(shown: Mapping[str, Any]) -> tuple[Custom, ...]:
    """The definitions of a published plan, as far as it told them."""
    return tuple(Custom.of_shown(one) for one in shown.get("kind", ()))


def settled(customs: Sequence[Custom], where: str, folder: Path | None) -> tuple[Custom, ...]:
    """The definitions of a plan, checked, each with all its words; `folder` is where a `words_file` is looked for, None where there is
    none to be read. PlanError for one that cannot be a kind; it says which and why, and quotes no value."""
    names: list[str] = []
    done = []
    for number, one in enumerate(customs):
        place = f"{where}: kind[{number}]"
        if not re.fullmatch(rf"[A-Z][A-Z0-9_]{{0,{_LONGEST - 1}}}", one.name):
            raise PlanError(f"{place}.name: expected up to {_LONGEST} capital letters, digits and underscores, such as STAFF_ID")
        if one.name in house_kinds():
            raise PlanError(f"{place}.name = {one.name}: is a kind of the house already; give yours another name")
        if one.name in names:
            raise PlanError(f"{place}.name = {one.name}: stands there twice; give one of them another name")
        names.append(one.name)
        if one.words_file:
            listed = _read(one.words_file, f"{place}.words_file", folder)
            one = one.model_copy(update={"words": tuple(dict.fromkeys((*one.words, *listed))), "words_file": ""})
        if not one.pattern and not one.words:
            raise PlanError(f"{place}: {one.name} has neither pattern nor words; give it one of them, or both")
        if one.pattern and (wrong := fault(one.pattern)):
            raise PlanError(f"{place}.pattern: {wrong}")
        for name in ("words", "context"):
            for row, word in enumerate(getattr(one, name)):
                if len(word.strip().encode()) < 2:
                    raise PlanError(f"{place}.{name}: entry {row + 1} is empty, or a single letter; take it out")
        if one.check and one.check not in CHECKS:
            raise PlanError(f"{place}.check = {one.check!r}: there is no such check; {nearest(one.check, CHECKS)}")
        if one.replacement and (wrong := _unusable(one.replacement)):
            raise PlanError(f"{place}.replacement: {wrong}")
        done.append(one)
    return tuple(done)


def _read(name: str, place: str, folder: Path | None) -> list[str]:
    """The values of a file, one on each line."""
    if folder is None:
        raise PlanError(f"{place}: only a plan that is a file itself can name another one; write the words into `words`")
    try:
        lines = (folder / name).read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise PlanError(f"{place}: cannot be read ({type(error).__name__}); expected a text file in UTF-8, a value on each line") from None
    return [line.strip() for line in lines if line.strip()]


def _unusable(replacement: str) -> str | None:
    """Why a replacement cannot be used; None where it can."""
    many = 1
    rest = _FIELD.sub("", replacement)
    for name, times in _FIELD.findall(replacement):
        if name not in _FIELDS or not int(times):
            return f"holds a field that is none; expected such as {{digits:6}}, with one of {', '.join(_FIELDS)}"
        many *= len(_FIELDS[name]) ** int(times)
    if "{" in rest or "}" in rest:
        return f"holds a brace without its other half; expected fields such as {{digits:6}}, with one of {', '.join(_FIELDS)}"
    if many < _ENOUGH:
        return f"gives {many} stand-ins, and {_ENOUGH:,} are needed that none repeats; add digits or letters such as {{digits:6}}"
    return None


def _laid_out(replacement: str, draws: Draws) -> pl.Series:
    """A replacement for each row, every field drawn."""
    pieces: list[pl.Series] = []
    lane = at = 0
    for field in _FIELD.finditer(replacement):
        pieces.append(pl.Series([replacement[at : field.start()]]).new_from_index(0, len(draws)))
        alphabet = np.frombuffer(_FIELDS[field[1]].encode(), np.uint8)
        width = int(field[2])
        places = np.empty((len(draws), width), np.uint8)
        for column in range(width):
            places[:, column] = alphabet[drawn(draws, lane, len(alphabet))]
            lane += 1
        pieces.append(ungrid(places))
        at = field.end()
    pieces.append(pl.Series([replacement[at:]]).new_from_index(0, len(draws)))
    return pl.select(pl.concat_str(pieces)).to_series()


def _sound(check: str, values: pl.Series) -> Bools:
    """True where the characters that a check reads pass it; two at least."""
    leaves_out, passes, _ = CHECKS[check]
    plain = values.str.to_uppercase().str.replace_all(leaves_out, "")
    sizes = plain.str.len_bytes().to_numpy()
    good = np.zeros(len(values), np.bool_)
    for size in np.unique(sizes[sizes > 1]).tolist():  # a loop over lengths: a check reads columns of one
        mine = np.flatnonzero(sizes == size)
        good[mine] = passes(grid(plain.gather(mine), size)[:, :size])
    return good


def _normal(rule: str, values: pl.Series) -> pl.Series:
    """The identity forms of values."""
    if rule == "exact":
        return values
    folded = values.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ")
    if rule == "casefold":
        return folded
    short = folded.str.replace_all("[^0-9]" if rule == "digits" else r"[^\p{L}\p{N}]", "")
    return pl.select(pl.when(short == "").then(folded).otherwise(short)).to_series()


def _redrawn(values: pl.Series, draws: Draws, way: str) -> pl.Series:
    """The values with letters and digits drawn anew within their classes: all; letters as hexadecimal digits; digits alone; letters
    alone."""
    if way in ("digits", "letters"):
        flat, _ = joined(values)
        is_digit = (flat >= 48) & (flat <= 57)
        return reshaped(values, draws, ~is_digit if way == "digits" else is_digit)
    made = reshaped(values, draws)
    if way == "hex":
        flat, offsets = joined(made)
        letter = ((flat | 32) >= 97) & ((flat | 32) <= 122)
        base = np.where(flat >= 97, 97, 65).astype(np.uint8)
        made = parted(np.where(letter, base + (flat - base) % 6, flat).astype(np.uint8), offsets)
    return made
