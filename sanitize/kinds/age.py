"""Ages of people: the number in `64 years old`, `64-year-old`, `64 y/o`, `aged 64`, `turned 64`,
`at the age of 64`, `64 Jahre alt`, `âgé de 64 ans`, `64 años de edad`; in words too, `sixty-four
years old`.

The words around a number make it an age; they are not part of the value. Some words do so only in a
certain context: `I'm 64`, `she was 64` at the end of a clause (not `I'm 64 miles away`), `when he
was 12` (not `when I was 13 weeks along`), `64yrs` of a person (`64yrs, male`, `he is 64yrs`; not
`64yrs ago`), `a man, 32,`. Ages of groups (`aged 18-24`, `17-year-olds`) are not reported.
Normalised form: the number in digits, without leading zeros.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BEYOND_ASCII,
    BOUNDARY,
    DIGITS,
    LETTERS,
    Kind,
    always_needs_context,
    draw_indices,
)

_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


# the numbers below a hundred in lower case, with a blank between two words -> their digits
_NUMBER_WORDS = {word: str(number) for number, word in enumerate((*_UNITS, *_TEENS), 1)} | {
    word: str(10 * tens + number)
    for tens, begin in enumerate(_TENS, 2)
    for number, word in enumerate((begin, *(f"{begin} {unit}" for unit in _UNITS)))
}


def _alternation(words: tuple[str, ...]) -> str:
    return "|".join(f"[{word[0].upper()}{word[0]}]{word[1:]}" for word in words)


_SPELLED_NUMBER = (
    rf"(?:(?:{_alternation(_TENS)})(?:["
    rf" -](?:{_alternation(_UNITS)}))?|{_alternation(_TEENS)}|{_alternation(_UNITS)})"
)
_NUMERAL = f"(?:[0-9]{{1,3}}|{_SPELLED_NUMBER})"
_BOUNDED_NUMERAL = rf"{BOUNDARY}{_NUMERAL}{BOUNDARY}"
_OLD_SUFFIX = (
    r"(?:[ -](?:[Yy]ears?|[Mm]onths?|[Ww]eeks?|[Dd]ays?)[ -](?:[Oo]ld|[Oo]f [Aa]ge)|["
    r" -]?(?:y/o|Y/O|yo|y[.]o[.]?|YO)|"
    r"[ -]?(?:yrs?|YRS?)[.]?[ -](?:old|OLD)| Jahre alt|[- ]?jährige?[mnrs]?| años de edad)"
)
_SUFFIX = rf"(?:{_OLD_SUFFIX}|[ -]?(?:yrs?|YRS?)[.]?)"
_PREFIX = (
    r"(?:(?:[Aa]ged|AGED|[Aa]ge(?:[ ]is|[ ]was)?(?: of)?|AGE|[Aa]ges|(?:[Jj]ust |[Ii]'ll |will"
    r" |[Ss]he |[Hh]e |[Ii] )[Tt]urn(?:s|ed|ing)?|"
    r"[Tt]urned|[Tt]urning|[Ii]m Alter von|Alter|[Ee]dad(?: de)?)(?:: ?|=| = | )|[Ââ]gée?s? de |"
    r"(?:[Ii]['\u2019]m|[Ii] am|[Ii] was|[Hh]e(?:['\u2019]s| is| was)|[Ss]he(?:['\u2019]s| is|"
    r" was)) |"
    r"(?:[Mm]an|[Bb]oy|[Gg]irl|son|daughter|teen), )"
)
# the three bytes of `’` are three blanks in `before` of a context rule
_I_AM = r"(?:\A|[^a-z0-9_])(?:i(?:'| +)m|i am|i was|s?he(?:'| +)s|s?he is|s?he was) \z"
_WHEN_I_WAS = r"(?:\A|[^a-z0-9_])(?:when|since|until|till|before) (?:i|s?he) was \z"
_OTHER_UNIT_AFTER = (  # what follows a number that is no number of years
    r"\A(?:[%a-z0-9/]|[.,:-][0-9]|[\s>-]{1,6}(?:weeks?|months?|days?|hours?|minutes?|"
    r"miles|km|feet|ft|inches|pounds|lbs|kg|cm|percent|per ?cent|"
    r"points?|times)(?:[^a-z]|\z))"
)
_PERSON_COMMA = r"(?:man|boy|girl|son|daughter|teen), \z"
# where a clause ends, or continues with a word that often follows an age
_CLAUSE_END = (
    r"\A(?:[;!?)\n]|[.,](?:[^0-9]|\z)|\z|"
    r" (?:and|now|today|but|so|this|next|years?|yrs?|yo|y/o|when|at the time)(?:[^a-z0-9]|\z)| {3}|"
    r" :-?[)(])"
)
_PERSON_WORDS = (
    r"(?:fe)?male|man|woman|boy|girl|lady|gentleman|[mf]|white|black|caucasian|hispanic|asian"
)
_YEARS_THEN_PERSON = rf"\A[ -]?yrs?[.]?[ ,/-]{{1,2}}(?:{_PERSON_WORDS})(?:[^a-z0-9]|\z)"
_PERSON_IS = (
    r"(?:\A|[^a-z0-9_])(?:patient|pt|i(?:'|  +)m|i am|s?he(?:'|  +)s|s?he is|who is|who was)["
    r" ,:]{1,2}\z"
)


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for an age with or without its words: without them, another finder has reported it as an
    age."""
    return candidates["value"].str.contains(
        rf"\A(?:{_NUMERAL}{_SUFFIX}|(?:{_PREFIX})?{_BOUNDED_NUMERAL})\z"
    )


def _check(values: pl.Series) -> pl.Series:
    """`range` for an age above 120 or with a leading zero, else null."""
    number = _normalise(values).cast(pl.Int64, strict=False)
    return pl.select(
        pl.when((pl.lit(number) > 120) | pl.lit(values).str.starts_with("0")).then(pl.lit("range"))
    ).to_series()


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True where the context makes the number an age.

    False for `I'm 64` where the clause continues, `when I was 13` followed by another unit, `64yrs`
    without a person, and `girl, 1 guy`.
    """
    before, after = pl.col("before").str.to_lowercase(), pl.col("after").str.to_lowercase()
    # bytes beyond ASCII are blanks in `after`, two for each letter
    old = pl.col("after").str.contains(
        rf"\A{_OLD_SUFFIX.replace('ä', ' {2}').replace('ñ', ' {2}')}"
    )
    ahead = (
        pl.col("spelled").str.contains(rf"(?:{_PREFIX})\z")
        & ~before.str.contains(rf"{_I_AM}|{_PERSON_COMMA}")
        & ~after.str.contains(r"\A[/-][0-9]")
    )
    am = (
        (before.str.contains(_I_AM) & after.str.contains(_CLAUSE_END))
        | before.str.contains(_WHEN_I_WAS)
    ) & ~after.str.contains(_OTHER_UNIT_AFTER)
    am |= before.str.contains(rf"{BOUNDARY}{_PERSON_COMMA}") & after.str.contains(
        r"\A(?:[,;.)](?:[^0-9]|\z)|\z)"
    )
    bare = after.str.contains(_YEARS_THEN_PERSON) | (
        before.str.contains(_PERSON_IS) & after.str.contains(r"\A[ -]?yrs?[.]?(?:[,;.)\n]|\z)")
    )
    return candidates.select(old | ahead | am | bare).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    spelled = values.str.contains("[a-z]")
    if spelled.any():
        plain = values.filter(spelled).str.to_lowercase().str.replace("-", " ", literal=True)
        values = values.clone().scatter(spelled.arg_true(), plain.replace(_NUMBER_WORDS))
    return values.str.replace(r"\A0+([0-9])", "${1}")


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another age with as many digits: 1 to 9, 10 to 99, 100 to 109. An age in words becomes
    another one of the same form (`sixty-four`, `sixty`, `twelve`, `six`), with the same separator
    and letter case."""
    ages = _normalise(values).cast(pl.Int64, strict=False).fill_null(0).to_numpy()
    exponent = np.floor(np.log10(np.maximum(ages, 1))).astype(np.int64)
    low, size = (
        np.select([exponent == 0, exponent == 1], [1, 10], 100),
        np.select([exponent == 0, exponent == 1], [9, 90], 10),
    )
    drawn = low + draw_indices(draws, 0, size)
    digits = pl.Series(
        values.name, np.where(drawn == ages, low + (drawn - low + 1) % size, drawn)
    ).cast(pl.String)
    spelled = values.str.contains("[a-z]")
    if not spelled.any():
        return digits
    rows = spelled.arg_true().to_numpy()
    plain = values.gather(rows).str.to_lowercase().str.replace("-", " ", literal=True)
    for words in (_UNITS, _TEENS, _TENS, tuple(word for word in _NUMBER_WORDS if " " in word)):
        matching = rows[plain.is_in(words).to_numpy()]
        word_index = plain.filter(plain.is_in(words)).replace_strict(
            {word: number for number, word in enumerate(words)}, return_dtype=pl.Int64
        )
        new_index = (
            word_index.to_numpy() + 1 + draw_indices(draws.take(matching), 0, len(words) - 1)
        ) % len(words)
        digits = digits.scatter(
            matching, pl.Series(np.array(words, object)[new_index], dtype=pl.String)
        )
    first, sign = values.str.slice(0, 1), values.str.extract(r"\A[A-Za-z]+([ -])").fill_null(" ")
    frame = pl.DataFrame(
        {
            "made": digits,
            "sign": sign,
            "capital": first.str.contains("[A-Z]"),
            "second": values.str.contains("[ -][A-Z]"),
        }
    )
    tail = pl.col("made").str.extract(" (.*)").fill_null("")
    return frame.select(
        pl.concat_str(
            _capitalise(pl.col("made").str.extract("\\A([^ ]*)"), pl.col("capital")),
            pl.when(tail == "").then(pl.lit("")).otherwise("sign"),
            _capitalise(tail, pl.col("second")),
        ).alias(values.name)
    ).to_series()


def _capitalise(word: pl.Expr, condition: pl.Expr) -> pl.Expr:
    return (
        pl.when(condition)
        .then(word.str.slice(0, 1).str.to_uppercase() + word.str.slice(1))
        .otherwise(word)
    )


KIND = Kind(
    name="AGE",
    about="the age of a person",
    category="demographic",
    field_names=tuple(
        ("age|ages|age years|alter|edad|idade|eta|leeftijd|wiek|年龄|年齡|年齢").split("|")
    ),
    pattern=(
        rf"{BOUNDARY}{_NUMERAL}{_SUFFIX}{BOUNDARY}|{BOUNDARY}{_PREFIX}{_BOUNDED_NUMERAL}|[Ââ]gée?s?"
        rf" de {_BOUNDED_NUMERAL}"
    ),
    prefix_pattern=_PREFIX,
    suffix_pattern=rf"{_SUFFIX}{BOUNDARY}",
    accepts=_accepts,
    ambiguous_text=True,
    phase=3,
    check=_check,
    needs_context=always_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    opt_in=True,
    rank=56,
    first_bytes=DIGITS + LETTERS + BEYOND_ASCII,
    hits=(
        ("a 64-year-old, 64 y/o", "64", "64"),
        ("he is sixty-four years old", "sixty-four"),
        ("aged 64, or at the age of 65", "64", "65"),
        ("I'm 64.", "64"),
        ("a man, 64, guilty", "64"),
        ("er ist 64 Jahre alt", "64"),
        ("âgé de 64 ans", "64"),
        ("64 años de edad", "64"),
    ),
    near_misses=(
        "64",
        "64 years ago",
        "page 64, turn 64 pages",
        "I'm 64 miles away",
        "aged 18-24, 17-year-olds",
        "64yrs ago, 164 years old",
    ),
)
