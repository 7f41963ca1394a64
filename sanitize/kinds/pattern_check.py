"""Whether a user's regular expression may be run on a corpus: in linear time, in bounded memory, and finding something where it matches.

The engine is Rust's `regex` crate, which cannot backtrack, so that no pattern takes more than linear time; what that rules out of other
dialects is refused with the place and what to do instead. Three things are left that the engine allows and that do harm: counted
repetitions that multiply, patterns that match nothing at all at every place, and patterns that match everything.
"""

from __future__ import annotations

import re

import polars as pl

MOST = 10_000  # single steps that the counted repetitions of a pattern may come to
_COUNTED = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_CARET = re.compile(r"\n {4}( *)\^")
# every neighbourhood that an assertion can ask for: ends, letters, digits, blanks, line ends, letters beyond ASCII
_PROBES = ["", "a", "7", " ", "\n", "_", "é", "aa", "a7", "a b", "  ", "\n\n", "a\n", "\na", "é é", "éa", ".", "a.b", "..", "\r\n"]
_PROSE = "Dear Ann\n\nthe minutes of our talk are below and the next one will be on the second floor\nso long\n" * 3
_LOOK = re.compile(r"\(\?(?:<?[=!])")
_PYTHON = (  # constructs of Python's `re` and others, and what to do without them
    (
        _LOOK,
        "looks around, which takes more than linear time",
        "take it out: letters and digits beside a value are asked for anyway, and `context` asks for words near it",
    ),
    (
        re.compile(r"\\[1-9]|\(\?P=|\\k[<{'g]|\\g[<{0-9]"),
        "refers back to a group, which takes more than linear time",
        "write out what is to stand there",
    ),
    (re.compile(r"\(\?>"), "is an atomic group", "use a plain group, (?:...); nothing backtracks here"),
    (re.compile(r"\(\?\("), "is a condition on a group", "write both cases as alternatives, A|B"),
    (re.compile(r"\(\?#"), "is a comment", "take it out"),
    (re.compile(r"\(\?[a-zA-Z]*x"), "is the verbose flag", "write the pattern without blanks and comments"),
    (re.compile(r"\\Z"), "is the end of the text in another dialect", r"write \z"),
)


def fault(pattern: str) -> str | None:
    """Why a pattern may not be run, and what to do about it; None where it may."""
    tokens, steps, wrong = _walked(pattern)
    if wrong is not None:
        return wrong
    for at in tokens:
        for construct, what, instead in _PYTHON:
            if construct.match(pattern, at):
                return f"character {at + 1} {what}; {instead}"
    if steps > MOST:
        return f"its counted repetitions come to {steps:,} steps, more than {MOST:,}; repeat less often, or use * and +"
    try:
        for form in (pattern, rf"\A(?:{pattern})\z"):
            found = pl.Series(_PROBES).str.extract_all(form)
    except pl.exceptions.PolarsError as error:
        return _told(str(error))
    found = pl.Series(_PROBES).str.extract_all(pattern)
    if found.explode().drop_nulls().eq("").any():
        return "matches where nothing stands; make one part of it necessary, with + for * and without a last empty alternative"
    if sum(map(len, pl.Series([_PROSE]).str.extract_all(pattern)[0])) == len(_PROSE):
        return (
            "matches all of a text of words, blanks and line ends, and would take every text whole; say what the value has that other "
            "text has not, such as EMP-[0-9]{6}"
        )
    return None


def _walked(pattern: str) -> tuple[list[int], int, str | None]:
    """Where each part of a pattern begins that is not in a character class; how many single steps its counted repetitions come to; and
    what is wrong with it. A pattern that is no regular expression may be walked through anyhow: the engine refuses it later."""
    tokens: list[int] = []
    # of each open group: steps of its longest alternative so far, of this alternative, and of its last part
    groups = [[0, 0, 0]]
    at, repeated = 0, False
    while at < len(pattern):
        letter = pattern[at]
        top = groups[-1]
        if letter in "*+?" or (letter == "{" and _COUNTED.match(pattern, at)):
            counted = _COUNTED.match(pattern, at) if letter == "{" else None
            if repeated and letter == "+":
                return (
                    tokens,
                    0,
                    f"character {at + 1} makes a repetition possessive; take the + out: nothing backtracks here",
                )
            if counted:
                low, comma, high = counted.groups()
                times = max(int(low), int(high or low), 1) if comma else max(int(low), 1)
                top[1] += top[2] * (times - 1)
                top[2] *= times
            repeated = not (repeated and letter == "?")
            at = counted.end() if counted else at + 1
            continue
        repeated = False
        tokens.append(at)
        if letter == "(":
            groups.append([0, 0, 0])
            inside = re.compile(r"\(\?(?:P?<\w+>|[a-zA-Z-]*:)").match(pattern, at)
            at = inside.end() if inside else at + 1
            if not inside and pattern.startswith("?", at):
                at += 1  # a flag, or what _PYTHON refuses
            continue
        if letter == ")" and len(groups) > 1:
            best, here, _ = groups.pop()
            size = max(best, here)
            groups[-1][1] += size
            groups[-1][2] = size
            at += 1
            continue
        if letter == "|":
            top[0], top[1], top[2] = max(top[0], top[1]), 0, 0
            at += 1
            continue
        at = _after(pattern, at)
        top[1] += 1
        top[2] = 1
    best, here, _ = groups[0]
    return tokens, max(best, here), None


def _after(pattern: str, at: int) -> int:
    """The place behind one escape, character class or character."""
    if pattern[at] == "\\":
        braced = re.compile(r"\\(?:[pPxuU]|b)\{[^}]*\}").match(pattern, at)
        return braced.end() if braced else at + 2
    if pattern[at] != "[":
        return at + 1
    depth, at = 1, at + 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):
        at += 1
    while at < len(pattern) and depth:
        depth += {"[": 1, "]": -1}.get(pattern[at], 0)
        at += 2 if pattern[at] == "\\" else 1
    return at


def _told(error: str) -> str:
    """An error of the engine in one line: of a pattern on one line with the place."""
    if "exceeds size limit" in error:
        return "becomes larger than 10 MB when it is made ready; repeat less often, or use * and +, and [0-9A-Za-z] for \\w"
    said = re.search(r"\nerror: ([^\n]+)", error)
    caret = _CARET.search(error)
    place = f"character {len(caret[1]) + 1}: " if caret else ""
    return f"{place}{said[1] if said else 'is no regular expression'}; expected the syntax of Rust's regex crate (docs/kinds.md)"
