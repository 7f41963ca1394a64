"""Ages of people: the number in `64 years old`, `64-year-old`, `64 y/o`, `aged 64`, `turned 64`, `at the age of 64`, `64 Jahre alt`,
`âgé de 64 ans`, `64 años de edad`; in words too, `sixty-four years old`.

The words around it make a number an age; they are not part of the value. Some of them do so only in company: `I'm 64`, `she was 64` at the
end of a clause (not `I'm 64 miles away`), `when he was 12` (not `when I was 13 weeks along`), `64yrs` of somebody (`64yrs, male`,
`he is 64yrs`; not `64yrs ago`), `a man, 32,`. Ages of groups (`aged 18-24`, `17-year-olds`) are nobody's.
Identity: the number in digits, without leading zeros.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, Kind, all_doubtful, drawn

_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


# the numbers below a hundred in small letters, with a blank between two words
_WORDS = {word: str(number) for number, word in enumerate((*_UNITS, *_TEENS), 1)} | {
    word: str(10 * tens + number)
    for tens, begin in enumerate(_TENS, 2)
    for number, word in enumerate((begin, *(f"{begin} {unit}" for unit in _UNITS)))
}


def _either(words: tuple[str, ...]) -> str:
    return "|".join(f"[{word[0].upper()}{word[0]}]{word[1:]}" for word in words)


_SPELLED = rf"(?:(?:{_either(_TENS)})(?:[ -](?:{_either(_UNITS)}))?|{_either(_TEENS)}|{_either(_UNITS)})"
_FIGURE = f"(?:[0-9]{{1,3}}|{_SPELLED})"
_NUMBER = rf"{BOUND}{_FIGURE}{BOUND}"
_OLD = (
    r"(?:[ -](?:[Yy]ears?|[Mm]onths?|[Ww]eeks?|[Dd]ays?)[ -](?:[Oo]ld|[Oo]f [Aa]ge)|[ -]?(?:y/o|Y/O|yo|y[.]o[.]?|YO)|"
    r"[ -]?(?:yrs?|YRS?)[.]?[ -](?:old|OLD)| Jahre alt|[- ]?jährige?[mnrs]?| años de edad)"
)
_BEHIND = rf"(?:{_OLD}|[ -]?(?:yrs?|YRS?)[.]?)"
_AHEAD = (
    r"(?:(?:[Aa]ged|AGED|[Aa]ge(?:[ ]is|[ ]was)?(?: of)?|AGE|[Aa]ges|(?:[Jj]ust |[Ii]'ll |will |[Ss]he |[Hh]e |[Ii] )[Tt]urn(?:s|ed|ing)?|"
    r"[Tt]urned|[Tt]urning|[Ii]m Alter von|Alter|[Ee]dad(?: de)?)(?:: ?|=| = | )|[Ââ]gée?s? de |"
    r"(?:[Ii]['\u2019]m|[Ii] am|[Ii] was|[Hh]e(?:['\u2019]s| is| was)|[Ss]he(?:['\u2019]s| is| was)) |"
    r"(?:[Mm]an|[Bb]oy|[Gg]irl|son|daughter|teen), )"
)
_AM = r"(?:\A|[^a-z0-9_])(?:i(?:'| +)m|i am|i was|s?he(?:'| +)s|s?he is|s?he was) \z"  # as a context has it: `’` is three blanks there
_WHEN = r"(?:\A|[^a-z0-9_])(?:when|since|until|till|before) (?:i|s?he) was \z"
_COUNTED = (  # what is no number of years
    r"\A(?:[%a-z0-9/]|[.,:-][0-9]|[\s>-]{1,6}(?:weeks?|months?|days?|hours?|minutes?|"
    r"miles|km|feet|ft|inches|pounds|lbs|kg|cm|percent|per ?cent|"
    r"points?|times)(?:[^a-z]|\z))"
)
_SOMEONE = r"(?:man|boy|girl|son|daughter|teen), \z"
# where a clause ends, or goes on as one about an age does
_ENDS = (
    r"\A(?:[;!?)\n]|[.,](?:[^0-9]|\z)|\z|"
    r" (?:and|now|today|but|so|this|next|years?|yrs?|yo|y/o|when|at the time)(?:[^a-z0-9]|\z)| {3}| :-?[)(])"
)
_SEX = r"(?:fe)?male|man|woman|boy|girl|lady|gentleman|[mf]|white|black|caucasian|hispanic|asian"
_SOMEBODY = rf"\A[ -]?yrs?[.]?[ ,/-]{{1,2}}(?:{_SEX})(?:[^a-z0-9]|\z)"
_IS = r"(?:\A|[^a-z0-9_])(?:patient|pt|i(?:'|  +)m|i am|s?he(?:'|  +)s|s?he is|who is|who was)[ ,:]{1,2}\z"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """An age with or without its words: without them, somebody else has said that it is one."""
    return candidates["value"].str.contains(rf"\A(?:{_FIGURE}{_BEHIND}|(?:{_AHEAD})?{_NUMBER})\z")


def _check(values: pl.Series) -> pl.Series:
    """`range` for what nobody lives to be."""
    number = _normalise(values).cast(pl.Int64, strict=False)
    return pl.select(pl.when((pl.lit(number) > 120) | pl.lit(values).str.starts_with("0")).then(pl.lit("range"))).to_series()


def _context(seen: pl.DataFrame) -> pl.Series:
    """True but for `I'm 64` that goes on, for `when I was 13` of weeks, for `64yrs` of nobody, and for `girl, 1 guy`."""
    before, after = pl.col("before").str.to_lowercase(), pl.col("after").str.to_lowercase()
    old = pl.col("after").str.contains(rf"\A{_OLD.replace('ä', ' {2}').replace('ñ', ' {2}')}")  # letters beyond ASCII are blanks here
    ahead = (
        pl.col("spelled").str.contains(rf"(?:{_AHEAD})\z")
        & ~before.str.contains(rf"{_AM}|{_SOMEONE}")
        & ~after.str.contains(r"\A[/-][0-9]")
    )
    am = ((before.str.contains(_AM) & after.str.contains(_ENDS)) | before.str.contains(_WHEN)) & ~after.str.contains(_COUNTED)
    am |= before.str.contains(rf"{BOUND}{_SOMEONE}") & after.str.contains(r"\A(?:[,;.)](?:[^0-9]|\z)|\z)")
    bare = after.str.contains(_SOMEBODY) | (before.str.contains(_IS) & after.str.contains(r"\A[ -]?yrs?[.]?(?:[,;.)\n]|\z)"))
    return seen.select(old | ahead | am | bare).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    spelled = values.str.contains("[a-z]")
    if spelled.any():
        plain = values.filter(spelled).str.to_lowercase().str.replace("-", " ", literal=True)
        values = values.clone().scatter(spelled.arg_true(), plain.replace(_WORDS))
    return values.str.replace(r"\A0+([0-9])", "${1}")


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Another age with as many digits: 1 to 9, 10 to 99, 100 to 109; in words another of the same sort (`sixty-four`, `sixty`, `twelve`,
    `six`), with the same sign and letter case."""
    own = _normalise(values).cast(pl.Int64, strict=False).fill_null(0).to_numpy()
    wide = np.floor(np.log10(np.maximum(own, 1))).astype(np.int64)
    low, size = np.select([wide == 0, wide == 1], [1, 10], 100), np.select([wide == 0, wide == 1], [9, 90], 10)
    made = low + drawn(draws, 0, size)
    figures = pl.Series(values.name, np.where(made == own, low + (made - low + 1) % size, made)).cast(pl.String)
    spelled = values.str.contains("[a-z]")
    if not spelled.any():
        return figures
    rows = spelled.arg_true().to_numpy()
    plain = values.gather(rows).str.to_lowercase().str.replace("-", " ", literal=True)
    for words in (_UNITS, _TEENS, _TENS, tuple(word for word in _WORDS if " " in word)):
        which = rows[plain.is_in(words).to_numpy()]
        at = plain.filter(plain.is_in(words)).replace_strict({word: number for number, word in enumerate(words)}, return_dtype=pl.Int64)
        other = (at.to_numpy() + 1 + drawn(draws.rows(which), 0, len(words) - 1)) % len(words)
        figures = figures.scatter(which, pl.Series(np.array(words, object)[other], dtype=pl.String))
    first, sign = values.str.slice(0, 1), values.str.extract(r"\A[A-Za-z]+([ -])").fill_null(" ")
    frame = pl.DataFrame(
        {"made": figures, "sign": sign, "capital": first.str.contains("[A-Z]"), "second": values.str.contains("[ -][A-Z]")}
    )
    tail = pl.col("made").str.extract(" (.*)").fill_null("")
    return frame.select(
        pl.concat_str(
            _capital(pl.col("made").str.extract("\\A([^ ]*)"), pl.col("capital")),
            pl.when(tail == "").then(pl.lit("")).otherwise("sign"),
            _capital(tail, pl.col("second")),
        ).alias(values.name)
    ).to_series()


def _capital(word: pl.Expr, where: pl.Expr) -> pl.Expr:
    return pl.when(where).then(word.str.slice(0, 1).str.to_uppercase() + word.str.slice(1)).otherwise(word)


KIND = Kind(
    name="AGE",
    about="the age of a person",
    pattern=rf"{BOUND}{_FIGURE}{_BEHIND}{BOUND}|{BOUND}{_AHEAD}{_NUMBER}|[Ââ]gée?s? de {_NUMBER}",
    lead=_AHEAD,
    trail=rf"{_BEHIND}{BOUND}",
    accepts=_accepts,
    common=True,
    turn=3,
    check=_check,
    doubtful=all_doubtful,
    context=_context,
    normalise=_normalise,
    fake=_fake,
    asked=True,
    rank=56,
)
