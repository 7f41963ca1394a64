"""Checks a user's regular expression before it runs on a corpus: supported syntax, bounded memory,
no empty matches.

The engine is Rust's `regex` crate, which does not backtrack, so every pattern runs in linear time.
Constructs of other dialects that this rules out are refused, with their position and what to write
instead. Three things that the engine allows are refused too, because they do harm: nested counted
repetitions that multiply, patterns that match the empty text, and patterns that match everything.
"""

from __future__ import annotations

import re

import polars as pl

# limit on the single steps of a pattern after its counted repetitions are expanded: `.{1,1000}z`
# reads 3 MB a second where it finds nothing, `.{1,5000}z` 0.01 MB, since its automaton does not fit
# into the memory of the engine
MAX_STEPS = 1_000
_COUNTED_REPETITION = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_ERROR_CARET = re.compile(r"\n {4}( *)\^")
# every context that an assertion can test: text ends, letters, digits, blanks, line ends, letters
# beyond ASCII
_PROBE_TEXTS = [
    "",
    "a",
    "7",
    " ",
    "\n",
    "_",
    "é",
    "aa",
    "a7",
    "a b",
    "  ",
    "\n\n",
    "a\n",
    "\na",
    "é é",
    "éa",
    ".",
    "a.b",
    "..",
    "\r\n",
]
_SAMPLE_TEXT = (
    "Dear Ann\n\nthe minutes of our talk are below and the next one will be on the second floor\nso"
    " long\n" * 3
)
_LOOK_AROUND = re.compile(r"\(\?(?:<?[=!])")
# constructs of Python's `re` and other dialects: (pattern, what it is, what to write instead)
_UNSUPPORTED_CONSTRUCTS = (
    (
        _LOOK_AROUND,
        "is a look-around, which takes more than linear time",
        (
            "remove it: letters and digits next to a value are checked anyway, and `context`"
            " requires words near it"
        ),
    ),
    (
        re.compile(r"\\[1-9]|\(\?P=|\\k[<{'g]|\\g[<{0-9]"),
        "is a backreference to a group, which takes more than linear time",
        "write out the text that it should match",
    ),
    (
        re.compile(r"\(\?>"),
        "is an atomic group",
        "use a plain group, (?:...); this engine never backtracks",
    ),
    (re.compile(r"\(\?\("), "is a condition on a group", "write both cases as alternatives, A|B"),
    (re.compile(r"\(\?#"), "is a comment", "remove it"),
    (
        re.compile(r"\(\?[a-zA-Z]*x"),
        "is the verbose flag",
        "write the pattern without blanks and comments",
    ),
    (re.compile(r"\\Z"), "is the end of the text in another regex dialect", r"write \z"),
)


def find_pattern_error(pattern: str) -> str | None:
    """Why a pattern is refused, and what to do about it; None where it is accepted."""
    try:
        tokens, steps = _parse_pattern(pattern)
    except _PossessiveRepetition as error:
        return str(error)
    for position in tokens:
        for construct, what, instead in _UNSUPPORTED_CONSTRUCTS:
            if construct.match(pattern, position):
                return f"character {position + 1} {what}; {instead}"
    if steps > MAX_STEPS:
        return (
            f"its counted repetitions expand to {steps:,} steps, more than {MAX_STEPS:,}; use"
            " smaller counts, or * and +"
        )
    try:
        for form in (pattern, rf"\A(?:{pattern})\z"):
            found = pl.Series(_PROBE_TEXTS).str.extract_all(form)
    except pl.exceptions.PolarsError as error:
        return _format_engine_error(str(error))
    found = pl.Series(_PROBE_TEXTS).str.extract_all(pattern)
    if found.explode().drop_nulls().eq("").any():
        return (
            "matches the empty text; make one part of it mandatory: use + instead of *, and no"
            " empty last alternative"
        )
    if sum(map(len, pl.Series([_SAMPLE_TEXT]).str.extract_all(pattern)[0])) == len(_SAMPLE_TEXT):
        return (
            "matches all of a text of words, blanks and line ends, so every text would become one"
            " value; add what distinguishes the value from other text, such as EMP-[0-9]{6}"
        )
    return None


class _PossessiveRepetition(Exception):
    """A pattern has a possessive repetition."""


def _parse_pattern(pattern: str) -> tuple[list[int], int]:
    """The positions of the tokens outside of character classes, and the number of single steps
    after counted repetitions are expanded. Raises `_PossessiveRepetition`.

    The result for an invalid regular expression is unspecified; the engine refuses it later.
    """
    tokens: list[int] = []
    # for each open group: steps of its longest alternative so far, of the current alternative, and
    # of its last token
    groups = [[0, 0, 0]]
    position, repeated = 0, False
    while position < len(pattern):
        letter = pattern[position]
        group = groups[-1]
        if letter in "*+?" or (letter == "{" and _COUNTED_REPETITION.match(pattern, position)):
            counted = _COUNTED_REPETITION.match(pattern, position) if letter == "{" else None
            if repeated and letter == "+":
                raise _PossessiveRepetition(
                    f"character {position + 1} makes a repetition possessive; remove the +:"
                    " this engine never backtracks"
                )
            if counted:
                low, comma, high = counted.groups()
                times = max(int(low), int(high or low), 1) if comma else max(int(low), 1)
                group[1] += group[2] * (times - 1)
                group[2] *= times
            repeated = not (repeated and letter == "?")
            position = counted.end() if counted else position + 1
            continue
        repeated = False
        tokens.append(position)
        if letter == "(":
            groups.append([0, 0, 0])
            inside = re.compile(r"\(\?(?:P?<\w+>|[a-zA-Z-]*:)").match(pattern, position)
            position = inside.end() if inside else position + 1
            if not inside and pattern.startswith("?", position):
                position += 1  # a flag, or a construct of _UNSUPPORTED_CONSTRUCTS
            continue
        if letter == ")" and len(groups) > 1:
            longest, current, _ = groups.pop()
            size = max(longest, current)
            groups[-1][1] += size
            groups[-1][2] = size
            position += 1
            continue
        if letter == "|":
            group[0], group[1], group[2] = max(group[0], group[1]), 0, 0
            position += 1
            continue
        position = _token_end(pattern, position)
        group[1] += 1
        group[2] = 1
    longest, current, _ = groups[0]
    return tokens, max(longest, current)


def _token_end(pattern: str, position: int) -> int:
    """The position after one escape, character class or character."""
    if pattern[position] == "\\":
        braced = re.compile(r"\\(?:[pPxuU]|b)\{[^}]*\}").match(pattern, position)
        return braced.end() if braced else position + 2
    if pattern[position] != "[":
        return position + 1
    depth, position = 1, position + 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while position < len(pattern) and depth:
        depth += {"[": 1, "]": -1}.get(pattern[position], 0)
        position += 2 if pattern[position] == "\\" else 1
    return position


def _format_engine_error(error: str) -> str:
    """An error of the regex engine as one line, with the position of the error for a pattern on one
    line."""
    if "exceeds size limit" in error:
        return (
            "becomes larger than 10 MB when it is compiled; use smaller counts, or * and +, and"
            " [0-9A-Za-z] instead of \\w"
        )
    message = re.search(r"\nerror: ([^\n]+)", error)
    caret = _ERROR_CARET.search(error)
    place = f"character {len(caret[1]) + 1}: " if caret else ""
    return (
        f"{place}{message[1] if message else 'is not a valid regular expression'}; "
        "expected the syntax of Rust's regex crate (docs/how_to/own_kinds.md)"
    )
