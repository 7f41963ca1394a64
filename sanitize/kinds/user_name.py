"""User names and handles, where a text says that they are: `@ann_lee`, `user: alee`, `login=alee`, and the name in `/home/alee/` or
`C:\\Users\\alee`; `AIM: alee` and the like at the end of a line or of an entry, and `~alee/` in a path.

Looked for only where a plan names it: `@word` is as often code as it is somebody. A handle stands behind a blank, a bracket or a quote,
and is none where code or an address goes on (`@override(`, `@example.com`), behind an address (`<bob@example.com>@CORP`), in capitals
alone (`@ARGV`) and in the comments of code (` * @arg: ...`); names that many programs and languages share (`root`, `param`) are refused
(`word`), and so is a path inside a web address. What is not found: a name alone in prose, and in `example.com/alee`; a list can be given
as known values. Identity: small letters, without the `@`. Its texts are words elsewhere: each place found is edited, and the leak check
does not look for others.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import BOUND, WORD, Kind, all_doubtful, reshaped

_NAME = "[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_HANDLE = "[A-Za-z_][A-Za-z0-9_]+"
_LABEL = (
    rf"{BOUND}(?:[Uu]ser ?[Nn]ame|USERNAME|[Uu]ser[ _-]?(?:[Ii][Dd]|ID)|[Uu]ser|USER|[Ll]ogin(?: ?[Nn]ame)?|LOGIN|[Hh]andle|"
    r"[Nn]ick(?:[Nn]ame)?|[Ss]creen ?[Nn]ame)[\"']? ?[:=] {0,2}[\"']?@?"
)
_SERVICE = rf"{BOUND}(?:AIM|aim|ICQ|icq|YIM|yim|[Ss]kype|[Tt]elegram|[Tt]witter|[Ii]nstagram): ?@?"
_ENTRY = r"\A(?:\s*\z|[ \t]*[\r\n|/,;)]|\t|  )"  # how one ends among others: `aim: alee / icq: 123456`
_HOME = r"(?:~|/home/|/Users/|[A-Z]:\\{1,2}(?:Users|Documents and Settings)\\{1,2})"
_SHARED = (  # accounts of machines, places of folders, and words behind `user:` and `@` in programs
    "root admin administrator user users username guest nobody anonymous system daemon www public shared default test null none nil true "
    "false name password required invalid unknown string yes no the is you your not error app home linuxbrew ubuntu runner all here "
    "channel everyone override param params return returns throws throw exception deprecated see since author version link code inherit "
    "inheritdoc property setter getter staticmethod classmethod abstractmethod pytest fixture dataclass media import charset include "
    "font keyframes supports page layer namespace interface implementation end class protocol selector synthesize optional autowired "
    "component oldroot newroot "
    "entity table column id test before after suppresswarnings nullable nonnull notnull type typedef file brief details todo example since"
).split()
_CODE = r"(?:\A|[\s(\[{\"'`,;:>*=])@\z"  # what may stand before a handle, and the sign itself
# no handle: behind a letter of any script, behind an address (`<x@example.com>@CORP`), and what a comment of code documents (`* @arg: ...`)
_GLUED = r"[^\x00-\x7f]@\z|@[^\s<>@]*>@\z"
_DOCUMENTED = r"[*][ \t]*@\z"
_URL = r"(?i:(?:https?|ftp)://|www[.])\S*\z"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """A name with or without what tells that it is one: without it, somebody else has said so."""
    return candidates["value"].str.contains(rf"\A(?:@{_HANDLE}|(?:{_LABEL}|{_SERVICE}|{_HOME})?{_NAME})\z")


def _check(values: pl.Series) -> pl.Series:
    """`length` for one letter and for more than 32, `word` for what is nobody's."""
    plain = _normalise(values)
    size = plain.str.len_bytes()
    return pl.select(pl.when((size < 2) | (size > 32)).then(pl.lit("length")).when(plain.is_in(_SHARED)).then(pl.lit("word"))).to_series()


def _context(seen: pl.DataFrame) -> pl.Series:
    before, after = pl.col("before"), pl.col("after")
    handle = before.str.contains(_CODE) & ~pl.col("spelled").str.contains(_GLUED) & ~pl.col("value").str.contains(r"\A[A-Z]+\z")
    handle &= ~(before.str.contains(_DOCUMENTED) & after.str.contains(r"\A *:"))
    handle &= ~after.str.contains(r"\A(?:[@({/\\-]|[.:][A-Za-z0-9])")
    label = before.str.contains(rf"(?:{_LABEL})\z") & ~after.str.contains(r"\A(?:[@(/\\]| ?[:=])")
    service = before.str.contains(rf"(?:{_SERVICE})\z") & after.str.contains(_ENTRY)
    path = before.str.contains(rf"(?:{_HOME})\z") & ~before.str.contains(_URL)
    home = before.str.contains(r"(?:\A|[\s\"'`=:(])~\z") & pl.col("value").str.contains(r"\A[A-Za-z]") & after.str.starts_with("/")
    path &= ~before.str.ends_with("~") | home
    return seen.select((handle & (pl.col("value").str.contains(rf"\A{_HANDLE}\z"))) | label | service | path).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.strip_chars_start("@").str.to_lowercase()


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Letters and digits drawn anew within their class; signs stay. No range is reserved."""
    return reshaped(values, draws)


KIND = Kind(
    name="USER_NAME",
    about="a user's name on a machine or a site, where the text says that it is one",
    pattern=rf"@{_HANDLE}|(?:{_LABEL}|{_SERVICE}|{_HOME}){_NAME}",
    lead=rf"@|{_LABEL}|{_SERVICE}|{_HOME}",
    accepts=_accepts,
    check=_check,
    doubtful=all_doubtful,
    context=_context,
    normalise=_normalise,
    fake=_fake,
    not_after=WORD,
    common=True,
    turn=3,
    asked=True,
    rank=66,
)
