"""Kinds that a plan defines: its `[[kind]]` tables, each a name with a pattern, a list of words, or
both.

Every stage treats a custom kind like a built-in one. Its definition is plain data and is sent to
workers with their tasks, so that no process has a kind that its plan does not define.
kinds/pattern_check.py decides which patterns are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from sanitize.array_types import U8, Mask
from sanitize.core.keys import Draws
from sanitize.errors import PlanError, suggest_names
from sanitize.kinds.countries.national_id import (
    passes_luhn,
    passes_mod11_10,
    passes_mod97,
    passes_verhoeff,
)
from sanitize.kinds.kind import (
    ANY_BYTES,
    ASCII_WORD_CHARS,
    CATEGORIES,
    DEFAULT_CATEGORY,
    Kind,
    builtin_kinds,
    draw_indices,
    flatten_strings,
    from_byte_matrix,
    redraw_characters,
    to_byte_matrix,
    unflatten_strings,
)
from sanitize.kinds.pattern_check import find_pattern_error
from sanitize.storage.files import describe_read_error, read_regular_file

# name -> (pattern of the characters that the check ignores, the check, number of check characters
# at the end)
CHECKS: dict[str, tuple[str, Callable[[U8], Mask], int]] = {
    "luhn": ("[^0-9]", passes_luhn, 1),
    "verhoeff": ("[^0-9]", passes_verhoeff, 1),
    "mod11_10": ("[^0-9]", passes_mod11_10, 1),
    "mod97": ("[^0-9A-Z]", passes_mod97, 2),
}
_TEMPLATE_ALPHABETS = {
    "digits": "0123456789",
    "letters": "abcdefghijklmnopqrstuvwxyz",
    "capitals": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "hex": "0123456789abcdef",
}
_TEMPLATE_FIELD = re.compile(r"\{(?:(\w+):([0-9]{1,2}))?[^{}]*\}")
_MIN_SURROGATES = (
    10_000  # distinct surrogates that a replacement must allow, or they would soon repeat
)
_MAX_NAME_LENGTH = 40  # characters of a name
_MIN_DISTINCTIVE_BYTES = (
    6  # a shorter value of a kind with `context` is not distinctive without its context words
)
_TEST_FIELDS = ("examples", "counter_examples")  # have no influence on the output
_PLAN_FIELDS = ("words_file", "category")  # have none either, once a plan is resolved
LENGTH_ONLY_FIELDS = ("words", *_TEST_FIELDS)  # fields of which only the length is published


class CustomKind(BaseModel):
    """The definition of one kind: a `[[kind]]` table of a plan.

    name       A capital letter, then capitals, digits and `_`, at most 40 characters; not the name
               of a built-in kind.
    about      What the kind is, in a few words, for users.
    category   One of `CATEGORIES` (kinds/kind.py), by which a plan that does not name the kind
               decides about it.
    pattern    A regular expression in the syntax of Rust's `regex` crate, which runs in linear
               time.
    words      Values, searched as whole words; `words_file` is the path of a file with more, one on
               each line. `case`: whether letter case counts (`exact`) or not (`any`).
    inside_words   True: a value may be part of a longer word. False: it is not found beside an
                   ASCII letter, digit or `_`.
    check      The name of a check in `CHECKS`, run on the value's digits (and letters).
    context    Words of which one must occur within 64 bytes before or 32 bytes after a value, in
               any letter case.
    score      The confidence of a match by itself; default 1. With `context` and a score, a match
               without a context word is reported with this score.
    normal     The normalised form, which decides when two spellings are one value: `exact`;
               `casefold` (ignores letter case and Unicode forms; white space counts as one blank);
               `digits`; `compact` (letters and digits, ignores letter case).
    replacement   A template for surrogates, such as `EMP-{digits:6}`; without it, a surrogate has
                  the shape of the value.
    examples, counter_examples   Texts that must be values from end to end, and texts that must
                                 contain none: for `sanitize plan test`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    about: str = "a kind of this plan"
    category: str = DEFAULT_CATEGORY
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

    def resolved_settings(self) -> dict[str, Any]:
        """All fields as plain data, with the words of `words_file` in `words`; without a `category`
        that is the default."""
        return self.model_dump(
            mode="json",
            exclude={"words_file", *(("category",) if self.category == DEFAULT_CATEGORY else ())},
        )

    def output_settings(self) -> dict[str, Any]:
        """The fields that determine the output, as plain data."""
        return self.model_dump(mode="json", exclude={*_TEST_FIELDS, *_PLAN_FIELDS})

    def detection_settings(self) -> dict[str, Any]:
        """The fields that determine which occurrences are found, as plain data."""
        return self.model_dump(
            mode="json", exclude={*_TEST_FIELDS, *_PLAN_FIELDS, "replacement", "about"}
        )

    def public_settings(self) -> dict[str, Any]:
        """The definition as it may be published: lists of values are replaced by their lengths."""
        return {
            **self.output_settings(),
            **{name: len(getattr(self, name)) for name in LENGTH_ONLY_FIELDS},
        }

    @classmethod
    def from_public_settings(cls, settings: Mapping[str, Any]) -> CustomKind:
        """The definition that `public_settings` published, without its lists of values."""
        return cls(
            **{name: value for name, value in settings.items() if name not in LENGTH_ONLY_FIELDS}
        )

    @property
    def value_check(self) -> Callable[[pl.Series], pl.Series] | None:
        """A function that gives null for values that pass the check, else the check's name; None
        without a check."""
        if not self.check:
            return None

        def check(values: pl.Series) -> pl.Series:
            bad = pl.Series(~_passes_check(self.check, values), dtype=pl.Boolean)
            return pl.select(pl.when(bad).then(pl.lit(self.check))).to_series()

        return check

    def build_kind(self) -> Kind:
        """The `Kind` of this definition."""
        return Kind(
            name=self.name,
            about=self.about,
            category=self.category,
            pattern=self.pattern,
            accepts=lambda candidates: pl.repeat(True, candidates.height, eager=True),
            check=self.value_check,
            normalise=lambda values: _normalise(self.normal, values),
            make_surrogates=self._make_surrogates,
            is_distinctive=self._is_distinctive,
            first_bytes=ANY_BYTES,
            not_preceded_by=b"" if self.inside_words else ASCII_WORD_CHARS,
            not_followed_by=b"" if self.inside_words else ASCII_WORD_CHARS,
        )

    def _is_distinctive(self, values: pl.DataFrame) -> pl.Series:
        """True for values that the leak check may search for anywhere.

        Not for a single word of letters, which may mean different things, unless `words` lists it
        in any letter case; nor for a short value of a kind with `context`.
        """
        normalised = values["normalised"]
        distinctive = ~normalised.str.contains(r"\A\p{L}+\z")
        if self.context:
            distinctive &= normalised.str.len_bytes() >= _MIN_DISTINCTIVE_BYTES
        elif self.words and self.case == "any":
            distinctive |= normalised.is_in(
                _normalise(self.normal, pl.Series(self.words, dtype=pl.String)).implode()
            )
        return distinctive

    def _make_surrogates(self, values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
        """Surrogates from the `replacement` template; without one, other values that pattern and
        check accept.

        Letters and digits are redrawn, and check characters set to valid ones. Where the result is
        not accepted, letters become hexadecimal digits, then only digits are redrawn, then only
        letters.
        """
        if self.replacement:
            return _fill_template(self.replacement, draws).alias(values.name)
        plain = values.str.replace_all(r"[\p{Lu}&&[^\x00-\x7f]]", "X").str.replace_all(
            r"[\p{L}&&[^\x00-\x7f]]", "x"
        )
        plain = pl.select(
            pl.when(plain.str.contains("[0-9A-Za-z]")).then(plain).otherwise(pl.lit("xxxxxx"))
        ).to_series()
        surrogates: pl.Series | None = None
        pending = np.arange(len(values))
        for character_set in ("all", "hex", "digits", "letters"):
            pending_values = plain.gather(pending)
            candidates = self._fit_check_characters(
                _redraw(pending_values, draws.take(pending), character_set)
            )
            good = (self.is_valid_value(candidates) & (candidates != pending_values)).to_numpy()
            surrogates = (
                candidates
                if surrogates is None
                else surrogates.scatter(pending[good], candidates.filter(pl.Series(good)))
            )
            pending = pending[~good]
            if not len(pending):
                break
        assert surrogates is not None
        return surrogates.alias(values.name)

    def is_valid_value(self, values: pl.Series) -> pl.Series:
        """True where pattern and check accept a text from end to end; without a pattern, where the
        check does."""
        good = (
            values.str.contains(rf"\A(?:{self.pattern})\z")
            if self.pattern
            else pl.repeat(True, len(values), eager=True)
        )
        return (
            good & pl.Series(_passes_check(self.check, values), dtype=pl.Boolean)
            if self.check
            else good
        )

    def _fit_check_characters(self, values: pl.Series) -> pl.Series:
        """The values with valid check characters, as far as these are digits; tries all endings."""
        if not self.check:
            return values
        tail = CHECKS[self.check][2]
        rows = to_byte_matrix(values)
        is_digit = (rows >= 48) & (rows <= 57)
        # number of each digit, counted from the end
        nth = is_digit[:, ::-1].cumsum(axis=1)[:, ::-1]
        pending = np.arange(len(rows))
        for ending in range(10**tail):
            for back in range(tail):
                tried = rows[pending]
                tried[is_digit[pending] & (nth[pending] == back + 1)] = 48 + ending // 10**back % 10
                rows[pending] = tried
            pending = pending[~_passes_check(self.check, from_byte_matrix(rows[pending]))]
            if not len(pending):
                break
        return from_byte_matrix(rows, values.name)


def published_custom_kinds(plan: Mapping[str, Any]) -> tuple[CustomKind, ...]:
    """The definitions in a published plan, without their lists of values."""
    return tuple(CustomKind.from_public_settings(one) for one in plan.get("kind", ()))


def resolve_custom_kinds(
    definitions: Sequence[CustomKind], where: str, folder: Path | None
) -> tuple[CustomKind, ...]:
    """The definitions of a plan, validated, each with the words of its `words_file`.

    `where` is the name of the plan, for messages. A `words_file` is relative to `folder`; None: no
    file can be read. Raises PlanError for an invalid definition; the message has its place and the
    reason, and quotes no value.
    """
    names: list[str] = []
    resolved = []
    for number, one in enumerate(definitions):
        place = f"{where}: kind[{number}]"
        if not re.fullmatch(rf"[A-Z][A-Z0-9_]{{0,{_MAX_NAME_LENGTH - 1}}}", one.name):
            raise PlanError(
                f"{place}.name: expected up to {_MAX_NAME_LENGTH} capital letters, digits and"
                " underscores, such as STAFF_ID"
            )
        if one.name in builtin_kinds():
            raise PlanError(
                f"{place}.name = {one.name}: is the name of a built-in kind; choose another name"
            )
        if one.name in names:
            raise PlanError(
                f"{place}.name = {one.name}: is defined twice; give one of the two kinds another"
                " name"
            )
        names.append(one.name)
        if one.category not in CATEGORIES:
            raise PlanError(
                f"{place}.category = {one.category!r}: there is no such category;"
                f" {suggest_names(one.category, CATEGORIES)}"
            )
        if one.words_file:
            listed = _read_words_file(one.words_file, f"{place}.words_file", folder)
            one = one.model_copy(
                update={"words": tuple(dict.fromkeys((*one.words, *listed))), "words_file": ""}
            )
        if not one.pattern and not one.words:
            raise PlanError(
                f"{place}: {one.name} has neither pattern nor words; add one of them, or both"
            )
        if one.pattern and (reason := find_pattern_error(one.pattern)):
            raise PlanError(f"{place}.pattern: {reason}")
        for name in ("words", "context"):
            for row, word in enumerate(getattr(one, name)):
                if len(word.strip().encode()) < 2:
                    raise PlanError(
                        f"{place}.{name}: entry {row + 1} is empty or a single letter; remove it"
                    )
        if one.check and one.check not in CHECKS:
            raise PlanError(
                f"{place}.check = {one.check!r}: unknown check; {suggest_names(one.check, CHECKS)}"
            )
        if one.replacement and (reason := _replacement_error(one.replacement)):
            raise PlanError(f"{place}.replacement: {reason}")
        resolved.append(one)
    return tuple(resolved)


def _read_words_file(file_name: str, where: str, folder: Path | None) -> list[str]:
    """The values in a file, one on each line; raises PlanError if it cannot be read."""
    if folder is None:
        raise PlanError(
            f"{where}: only a plan that was read from a file can refer to another file; write the"
            " words into `words`"
        )
    try:
        lines = read_regular_file(folder / file_name).decode("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise PlanError(
            f"{where}: {describe_read_error(error)}; expected a text file in UTF-8, a value on each"
            " line"
        ) from None
    return [line.strip() for line in lines if line.strip()]


def _replacement_error(replacement: str) -> str | None:
    """Why a replacement template cannot be used; None where it can."""
    surrogate_count = 1
    rest = _TEMPLATE_FIELD.sub("", replacement)
    for name, times in _TEMPLATE_FIELD.findall(replacement):
        if name not in _TEMPLATE_ALPHABETS or not int(times):
            return (
                "contains an invalid field; expected a field such as {digits:6}, with one of"
                f" {', '.join(_TEMPLATE_ALPHABETS)}"
            )
        surrogate_count *= len(_TEMPLATE_ALPHABETS[name]) ** int(times)
    if "{" in rest or "}" in rest:
        return (
            "contains an unmatched brace; expected fields such as {digits:6}, with one of"
            f" {', '.join(_TEMPLATE_ALPHABETS)}"
        )
    if surrogate_count < _MIN_SURROGATES:
        return (
            f"allows {surrogate_count} surrogates, but at least {_MIN_SURROGATES:,} are needed; add"
            " digits or letters, such as {digits:6}"
        )
    return None


def _fill_template(template: str, draws: Draws) -> pl.Series:
    """The template for each row, with every field drawn."""
    pieces: list[pl.Series] = []
    lane = position = 0
    for field in _TEMPLATE_FIELD.finditer(template):
        pieces.append(pl.Series([template[position : field.start()]]).new_from_index(0, len(draws)))
        alphabet = np.frombuffer(_TEMPLATE_ALPHABETS[field[1]].encode(), np.uint8)
        width = int(field[2])
        places = np.empty((len(draws), width), np.uint8)
        for column in range(width):
            places[:, column] = alphabet[draw_indices(draws, lane, len(alphabet))]
            lane += 1
        pieces.append(from_byte_matrix(places))
        position = field.end()
    pieces.append(pl.Series([template[position:]]).new_from_index(0, len(draws)))
    return pl.select(pl.concat_str(pieces)).to_series()


def _passes_check(check: str, values: pl.Series) -> Mask:
    """True where the characters that the check reads pass it; values with fewer than two such
    characters fail."""
    leaves_out, passes, _ = CHECKS[check]
    plain = values.str.to_uppercase().str.replace_all(leaves_out, "")
    sizes = plain.str.len_bytes().to_numpy()
    good = np.zeros(len(values), np.bool_)
    for size in np.unique(sizes[sizes > 1]).tolist():
        # a loop over lengths: a check needs rows of equal length
        rows = np.flatnonzero(sizes == size)
        good[rows] = passes(to_byte_matrix(plain.gather(rows), size)[:, :size])
    return good


def _normalise(rule: str, values: pl.Series) -> pl.Series:
    """The normalised forms of values, by the rule that `CustomKind.normal` names."""
    if rule == "exact":
        return values
    folded = values.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ")
    if rule == "casefold":
        return folded
    short = folded.str.replace_all("[^0-9]" if rule == "digits" else r"[^\p{L}\p{N}]", "")
    return pl.select(pl.when(short == "").then(folded).otherwise(short)).to_series()


def _redraw(values: pl.Series, draws: Draws, character_set: str) -> pl.Series:
    """The values with characters redrawn within their classes.

    `character_set`: `all` letters and digits; `hex`, the same with letters as hexadecimal digits;
    `digits` only; `letters` only.
    """
    if character_set in ("digits", "letters"):
        flat, _ = flatten_strings(values)
        is_digit = (flat >= 48) & (flat <= 57)
        return redraw_characters(
            values, draws, ~is_digit if character_set == "digits" else is_digit
        )
    redrawn = redraw_characters(values, draws)
    if character_set == "hex":
        flat, offsets = flatten_strings(redrawn)
        letter = ((flat | 32) >= 97) & ((flat | 32) <= 122)
        base = np.where(flat >= 97, 97, 65).astype(np.uint8)
        redrawn = unflatten_strings(
            np.where(letter, base + (flat - base) % 6, flat).astype(np.uint8), offsets
        )
    return redrawn
