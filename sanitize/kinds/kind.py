"""The dataclass `Kind` (one entity type), the registry of kinds, and column helpers that the kinds
share.

A kind is an instance of `Kind`, not a subclass: `KIND` of a file of sanitize/kinds/, where it is
found; the modules that kinds share (`_SUPPORT_MODULES`) have none. The national identifiers of a
country share one file in countries/. They are searched only where a plan names the country, since
many are bare numbers with one check digit, which a tenth of all numbers pass. All functions here
work on whole columns of distinct values; none reads a document.
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
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, U8, Mask
from sanitize.core.keys import Draws, draw_index
from sanitize.errors import PlanError, suggest_names
from sanitize.kinds.plain_forms import PlainForm

ASCII_WORD_CHARS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
DIGITS, CAPITALS = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LETTERS = CAPITALS + CAPITALS.lower()
ANY_BYTES = bytes(range(256))
BEYOND_ASCII = bytes(range(0xC2, 0xF5))  # bytes that begin a character beyond ASCII in UTF-8
CATEGORIES = {  # groups of kinds that a plan can decide about together, and what they contain
    "contact": "addresses and numbers at which a person is reached",
    "network": "addresses of machines and network interfaces",
    "financial": "payment cards, bank accounts and wallets",
    "identifier": "numbers that an authority or organisation assigns to a person or thing",
    "credential": "keys, tokens and passwords",
    "account": "names of users and directory entries",
    "resource": "what identifies a message, document or page",
    "person": "names of people",
    "demographic": "attributes of a person, such as the age",
    "place": "names of places, and postal addresses",
    "organization": "names of companies and institutions",
    "time": "dates and times",
}
DEFAULT_CATEGORY = "identifier"  # of a custom kind that states none
# which phase and ranks a kind has: (phases, lowest and highest rank, content); a kind takes a rank
# next to the kind most like it
RANK_RANGES: tuple[tuple[tuple[int, ...], int, int, str], ...] = (
    (
        (1,),
        10,
        69,
        "addresses, and values that contain addresses; the narrower pattern comes first",
    ),
    (
        (2,),
        35,
        55,
        (
            "numbers with a check, or with a shape that few other numbers have; the narrower"
            " pattern comes first"
        ),
    ),
    ((3,), 56, 79, "numbers and words that often need context"),
    (
        (2, 3),
        80,
        80,
        (
            "national identifiers, unless their check is strong: after all kinds that every plan"
            " searches"
        ),
    ),
    ((4,), 85, 85, "postal addresses: what all other kinds left"),
    ((1,), 90, 99, "kinds without a pattern, which other finders report"),
    ((4,), 60, 84, "numbers that a label beside them names"),
)
# common names of a country -> its ISO 3166 code
_COUNTRY_ALIASES = {
    "UK": "GB",
    "EN": "GB",
    "ENG": "GB",
    "GBR": "GB",
}
# modules of this folder that define no kind
_SUPPORT_MODULES = (
    "byte_automaton",
    "kind",
    "field_names",
    "custom_kind",
    "east_asian_names",
    "issuer_formats",
    "labelled_secrets",
    "labelled_forms",
    "pattern_check",
    "phone_labels",
    "plain_forms",
)
# the ASCII word boundary: three times faster than the Unicode one, and the same in finders and leak
# check
BOUNDARY = r"(?-u:\b)"
# a word up to an underscore, before a value: `scan_`, `my_card_`, `_`
WORD_BEFORE = rf"{BOUNDARY}(?:[A-Za-z_][A-Za-z0-9_]*)?_"
# separators between the groups of a number, as people, typesetters and web pages write them, for
# use in a character class; no line ends
# space; no-break, figure, thin, narrow and ideographic spaces
BLANKS = " \u00a0\u2000-\u200a\u202f\u205f\u3000"
# hyphens, dashes, minus sign; the ASCII hyphen is last, so that it forms no range
HYPHENS = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d-"
# typeset ones, for use in a character class beside " and '
QUOTATION_MARKS = "\u00ab\u00bb\u2018-\u201f\u2039\u203a\uff02"
# the components of a value in their order; the others than first, last, domain and tld are
# separators
COMPONENT_COLUMNS = ("lead", "first", "sep", "last", "at", "domain", "dot", "tld")
WIDE_GAP = f"[{BLANKS}{HYPHENS}]{{2,3}}"  # two or three separators in a row
_PATTERN_TOKEN = re.compile(r"(\(\?-u:\\b\)|\\.|\{[^}]*\}|\[[^\]]*\]|.)(\?|\{)?", re.DOTALL)


@dataclass(frozen=True)
class Alternative:
    """An alternative of a pattern. It is searched only in texts that contain one of `literals` and
    match all `conditions` (regular expressions, tested in order); each of these is met by every
    text in which the alternative matches.

    For alternatives that few texts contain and that could begin at many letters: they would make
    the automaton several times as slow.
    """

    pattern: str
    literals: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def is_conditional(self) -> bool:
        """Whether the alternative is searched in some texts only."""
        return bool(self.literals or self.conditions)


@dataclass(frozen=True, kw_only=True)
class LabelledForm:
    """A form of values that a label before them names (see sanitize/kinds/labelled_forms.py).

    labels     Words in lower case that name the value, alone or with a word for number behind them.
    number_labels   Words that name it only with a word for number behind them: `case`.
    pattern    What is a value, from end to end, in any letter case; without capturing groups.
    check      True for each of the values that is valid.
    """

    labels: tuple[str, ...] = ()
    number_labels: tuple[str, ...] = ()
    pattern: str
    check: Callable[[pl.Series], pl.Series] | None = None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of personal data (entity type): how its values are found, checked, compared and
    replaced.

    Required (tests/kinds/test_examples.py says which one is missing; a kind without a pattern has
    no `first_bytes`):

    name       The name in plans, tables and labels, such as `EMAIL_ADDRESS`.
    about      What the kind is, in a few words, for users (`sanitize list`).
    category   One of `CATEGORIES`: a plan that does not name the kind decides about it by its
               category.
    pattern    A Rust regular expression without capturing groups, look-around or `(?i)`. The only
               zero-width items are `BOUNDARY` and, where `digit_lines_only` is False, `\\z`, the
               end of a text. It means the same in Python's `re` once these are `\\b` and `\\Z`
               under `re.ASCII`. It may match `<` and `>` around a value: they are cut off, and the
               candidate is marked `bracketed`. Empty: only other finders report this kind.
    first_bytes   Every byte (of UTF-8) that can begin what `pattern` matches, for prefilters; empty
                  if there is no pattern.
    normalise  Values -> their normalised forms (the identity of a value): equal for two spellings
    of one value.
    make_surrogates   (values, draws, reserved) -> a surrogate of the same shape for each value that
                      the kind's own pattern and check
               accept, drawn from `draws`. With `reserved`, it is drawn from ranges that are
               assigned to no one (RFC 5737, 3849; 555-01xx; test cards) where the kind has such
               ranges. Names of hosts are always drawn in reserved names (RFC 2606).
    hits       Examples: a text, and the values of this kind that are found in it, in order. The
               first value of the first hit is the one that canaries are generated from. All people
               in examples are invented.
    near_misses   Examples: texts in which nothing of this kind is found.

    Often needed:

    accepts    Which candidates are of this kind: a boolean column, from a frame with `value`
               (brackets cut off), `bracketed`, `id_field` (in a Message-ID, In-Reply-To or
               References header) and `address_field` (in From, To and similar headers). Default:
               the candidates that the pattern matches from end to end. Values that begin with none
               of `first_bytes` may only be accepted between brackets or in an id field.
    check      Null for a valid value, else one word that says why it is refused (`luhn`, `range`
               ...). A refused candidate is counted and not offered to other kinds; a candidate that
               a national identifier refuses is offered to those of other countries.
    not_preceded_by, not_followed_by   Bytes that may not adjoin the value in a text. Finders and
                                       leak check apply the same rule.
    certain_length   The bytes from which the leak check takes a spelling for the value where
                     another part of a word adjoins it (see
               sanitize/verification/boundaries.py); a shorter one may be there by chance. Of a
               million values of nine digits, one equals a random row of nine digits with a chance
               of one in a thousand; words are found inside other words more often.
    phase      1 for addresses and values that contain them, 2 for numbers with a check, 3 for
               numbers that need context, 4 for postal addresses. A kind is searched in the text
               that kinds of earlier phases left; within a phase, `rank` decides. One automaton for
               all kinds would be too large for the regex engine to cache, and several times
               slower.
    rank       Precedence within a phase, where several kinds match at one place: the lowest rank is
               tried first. `RANK_RANGES` has the ranks by content; the reference page of kinds
               lists every kind in this order.
    digit_lines_only   Every match lies on one line and contains a digit, or a mark of numbers
                       without digits (see
               sanitize/text/text_pieces.py). Where all kinds of a phase are like that, other lines
               are not searched.
    aliases    Further names of the kind in the output of models and other tools, in capitals
               (`IBAN` for `IBAN_CODE`).
    field_names   Names of fields and columns that hold values of this kind, in words in lower case
                  and without accents (`mobile no`); see sanitize/kinds/field_names.py. The name of
                  the kind is one by itself.
    accepts_in_field   Which values the name of a field makes one of this kind: a boolean column,
                       from a column of values. Default: those that `accepts` and `check` accept.

    Rarely needed:

    prefix_pattern, suffix_pattern   Regular expressions for text that the pattern may match before
                                     and after the value but that is no
               part of it, such as `=3D` or `NHS number: `. The finder cuts it off, and checks no
               boundary on that side. Where the regular expression has groups, only what they match
               is cut off.
    components The components that a variant can keep as its anchor, by name. Empty: values have no
    components.
    locate_components   For kinds whose values consist of `COMPONENT_COLUMNS`, each of which may be
                        empty: an array with a row for each
               value, where in the bytes of all values (see `flatten_strings`) its components begin,
               and where it ends.
    make_variants   For kinds whose components have no fixed order: (values, draws, anchor) ->
                    surrogates in which one component of each
               value is kept. `anchor` is its index in `components`, or -1 for none. A value with a
               single component keeps nothing.
    embedded_pattern   A regular expression for a value inside a longer word, such as the name of a
                       file, with all of the word up to
               the value; for kinds whose check leaves hardly any false value. It is searched in the
               text that the kinds of the phase left. A match has only ASCII letters, digits, `_`
               and `-`, and nine digits, or a `_` and 27 bytes. `prefix_pattern` and
               `suffix_pattern` cut the rest of the word off.
    tokens     Further values of this kind that are one run of bytes (see `anchors`) with one of the
               alternative's literals. They are searched in the text that `pattern` left, in such
               runs only, so that a hundred forms do not slow the search of `pattern` down.
    labelled_text   Values without a form of their own, with the words that show them
               (`password: ...`), as an alternative with literals. They are searched in the text
               that the kinds of the phase left, in lines with a literal and the line after each,
               so that such words hide no value of another kind. `prefix_pattern` and
               `suffix_pattern` cut the words off.
    accepts_labelled   Which matches of `labelled_text` are values of this kind: a boolean column,
                       from a column of matches.
    plain_forms   The forms of most values, about which a compiled loop decides instead of
                  `accepts`, `check`, `needs_context` and
               `normalise`, with the same result (see sanitize/kinds/plain_forms.py).
    alternatives   The alternatives of the pattern in order, where some of them have conditions (see
                   `Alternative`).
    anchors    Literals, one of which is in every match of the alternatives without conditions. Such
               a match contains no control byte, no line end except behind `=`, and no blank except
               beside a bracket. Where all kinds of a phase state anchors, only the runs of bytes
               around them are searched (see sanitize/text/text_pieces.py).
    landmarks  For a long pattern whose matches lie on several lines: a regular expression for the
               words and marks, one of which is in every match, on a line with a digit; each begins
               with an anchor. Only the text around landmarks is searched (see
               sanitize/text/text_pieces.py). All kinds of a phase state landmarks, or none does.
    needs_context   True for values that are of this kind only where `context_rule` says so: ten
                    bare digits are a telephone number
               after `call`.
    context_rule   Whether each occurrence that needs context is of this kind, from a frame with
                   `value`, `before` (up to 48 bytes) and
               `after` (up to 16 bytes) of the same text. Every byte beyond ASCII is a blank in
               both; `spelled` is `before` with its own characters. The rule reads nothing else, so
               the result does not depend on how a corpus is split.
    ambiguous_text   Texts of this kind often mean something else (2001, 64, 10:30), and the kind
                     has few distinct values. Each occurrence
               that is found is edited; the leak check does not search for its text elsewhere, and
               its surrogate may be a value of the corpus.
    is_distinctive   Whether each value may be searched anywhere, from a frame with `value` (a
                     spelling) and `normalised`. Not a value that
               is a common word, and not one that only its context identifies (`7028915` after
               `call`): such a value is edited where it is found, and neither the finder `known` nor
               the leak check searches for it in other places. Default: all values.
    atomic     A value is one token even if it seems to contain a value of another kind: a
               Message-ID such as `<20.1-9-bob@example.com>` that a plan leaves is left whole.
    find_opaque_parts   Parts of values that are searched for no other kind, as (row, start, end) in
                        bytes: a Message-ID in a URL. For kinds
               that are searched for values of other kinds.
    country    Two letters (ISO 3166) for a national identifier, which is searched only where a plan
               names its country; else None.
    labelled_forms   Forms of values that are found behind their labels, whatever `pattern` finds.
    opt_in     Searched only where a plan names the kind: it is frequent, reveals little about a
               person by itself, and would slow down every plan.
    """

    name: str
    about: str
    category: str = ""
    pattern: str
    first_bytes: bytes = b""
    normalise: Callable[[pl.Series], pl.Series]
    make_surrogates: Callable[[pl.Series, Draws, bool], pl.Series]
    hits: tuple[tuple[str, ...], ...] = ()
    near_misses: tuple[str, ...] = ()

    accepts: Callable[[pl.DataFrame], pl.Series] | None = None
    check: Callable[[pl.Series], pl.Series] | None = None
    not_preceded_by: bytes = ASCII_WORD_CHARS
    not_followed_by: bytes = ASCII_WORD_CHARS
    certain_length: int = 9
    phase: int = 1
    rank: int = 50
    digit_lines_only: bool = False
    aliases: tuple[str, ...] = ()
    field_names: tuple[str, ...] = ()
    accepts_in_field: Callable[[pl.Series], pl.Series] | None = None

    prefix_pattern: str | None = None
    suffix_pattern: str | None = None
    components: tuple[str, ...] = ()
    locate_components: Callable[[pl.Series], I64] | None = None
    make_variants: Callable[[pl.Series, Draws, I64], pl.Series] | None = None
    embedded_pattern: str | None = None
    tokens: Alternative | None = None
    labelled_text: Alternative | None = None
    accepts_labelled: Callable[[pl.Series], pl.Series] | None = None
    plain_forms: tuple[PlainForm, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    anchors: tuple[str, ...] = ()
    landmarks: str = ""
    needs_context: Callable[[pl.Series], pl.Series] | None = None
    context_rule: Callable[[pl.DataFrame], pl.Series] | None = None
    ambiguous_text: bool = False
    is_distinctive: Callable[[pl.DataFrame], pl.Series] | None = None
    atomic: bool = False
    find_opaque_parts: Callable[[pl.Series], Iterable[tuple[int, int, int]]] | None = None
    country: str | None = None
    labelled_forms: tuple[LabelledForm, ...] = ()
    opt_in: bool = False

    def __repr__(self) -> str:
        return f"Kind({self.name}: {self.about})"

    @property
    def has_pattern(self) -> bool:
        """Whether the finder `patterns` finds values of this kind."""
        return bool(self.pattern or (self.labelled_forms and self.country is None))

    @property
    def searched_when(self) -> str:
        """When this kind is searched, in a few words for the user."""
        if self.country is not None:
            return f"where find.countries names {self.country}"
        if not self.has_pattern:
            return "by other finders than patterns"
        return "where find.kinds names it" if self.opt_in else "always"

    @property
    def split_components(self) -> Callable[[pl.Series], pl.DataFrame] | None:
        """A function that gives a frame with `COMPONENT_COLUMNS`, which give the value back when
        joined in order; None for kinds without components in a fixed order."""
        return (
            None
            if self.locate_components is None
            else functools.partial(_split_components, self.locate_components)
        )

    def list_alternatives(self) -> tuple[Alternative, ...]:
        """The alternatives of the pattern; the pattern itself where none has a condition."""
        return self.alternatives or (Alternative(self.pattern),)

    def is_value(self, candidates: pl.DataFrame) -> pl.Series:
        """True where a candidate is of this kind, before its check; `candidates` is the frame
        described at `accepts`."""
        if self.accepts is not None:
            return self.accepts(candidates)
        tokens = self.tokens.pattern if self.tokens else ""
        patterns = "|".join(filter(None, (self.pattern, tokens, self.embedded_pattern)))
        return candidates["value"].str.contains(
            rf"\A(?:{patterns})\z" if patterns else r"[\p{L}\p{N}]"
        )

    def is_field_value(self, values: pl.Series) -> pl.Series:
        """True where a value is of this kind if the name of its field or column, or a key before
        it, says so."""
        if self.accepts_in_field is not None:
            return self.accepts_in_field(values)
        marks = ("bracketed", "id_field", "address_field")
        candidates = values.alias("value").to_frame()
        is_value = self.is_value(
            candidates.with_columns(pl.lit(True).alias(name) for name in marks)
        )
        if self.check is not None:  # which is defined for values that are accepted
            rows = is_value.arg_true()
            is_value = is_value.scatter(rows, self.check(values.gather(rows)).is_null())
        return is_value


def list_kinds(countries: Iterable[str] = (), named: Iterable[str] = ()) -> dict[str, Kind]:
    """The built-in kinds that a plan searches, by name, in the order in which they are tried.

    These are the kinds that belong to no country, except `opt_in` kinds that are not `named`, and
    the national identifiers of `countries`. Raises PlanError for a country without known
    identifiers.
    """
    country_codes, named_kinds = {country.upper() for country in countries}, set(named)
    for country in sorted(country_codes):
        if country not in known_countries():
            if country in _COUNTRY_ALIASES:
                raise PlanError(
                    f"find.countries: {country!r} is not a country code of ISO 3166; did you mean"
                    f" {_COUNTRY_ALIASES[country]}?"
                )
            raise PlanError(
                f"find.countries: no identifiers of {country!r} are known;"
                f" {suggest_names(country, known_countries())}"
            )
    return {
        name: kind
        for name, kind in builtin_kinds().items()
        if (
            kind.country in country_codes
            if kind.country is not None
            else not kind.opt_in or name in named_kinds
        )
    }


def all_kinds() -> dict[str, Kind]:
    """Every active kind, by name: the built-in kinds, then the custom kinds of the plan that is
    being run (see `custom_kinds`)."""
    return _active_kinds.get().kinds or builtin_kinds()


@functools.cache
def builtin_kinds() -> dict[str, Kind]:
    """Every built-in kind, by name, in the order in which they are tried; includes the national
    identifiers."""
    package = importlib.import_module("sanitize.kinds")
    names = [
        module.name
        for module in pkgutil.iter_modules(package.__path__)
        if module.name not in _SUPPORT_MODULES and not module.ispkg
    ]
    found: list[Kind] = []
    for name in names:
        module = importlib.import_module(f"sanitize.kinds.{name}")
        found += module.KINDS if hasattr(module, "KINDS") else [module.KIND]
    found += national_kinds()
    return {kind.name: kind for kind in sorted(found, key=lambda kind: (kind.rank, kind.name))}


@functools.cache
def national_kinds() -> tuple[Kind, ...]:
    """The identifiers of all countries."""
    package = importlib.import_module("sanitize.kinds.countries")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = [importlib.import_module(f"sanitize.kinds.countries.{name}") for name in names]
    return tuple(kind for module in modules for kind in getattr(module, "KINDS", ()))


@functools.cache
def known_countries() -> tuple[str, ...]:
    """The countries whose identifiers are known, as two-letter codes (ISO 3166)."""
    return tuple(sorted({kind.country for kind in builtin_kinds().values() if kind.country}))


def get_kind(name: str) -> Kind:
    """The kind of this name: any built-in kind, of any country, or a custom kind of the plan that
    is being run (see `all_kinds`). Raises PlanError for an unknown name."""
    try:
        return all_kinds()[name]
    except KeyError:
        raise PlanError(f"there is no kind {name}; {suggest_names(name, all_kinds())}") from None


class KindDefinition(Protocol):
    """A kind as plain data, which can be sent to another process."""

    @property
    def name(self) -> str: ...
    def build_kind(self) -> Kind: ...


@dataclass(frozen=True, eq=False)
class _ActiveKinds:
    definitions: tuple[KindDefinition, ...] = ()
    # all active kinds; empty if only the built-in kinds are active
    kinds: dict[str, Kind] = field(default_factory=dict)


_active_kinds: ContextVar[_ActiveKinds] = ContextVar("active_kinds", default=_ActiveKinds())  # noqa: B039 - never mutated


@contextlib.contextmanager
def custom_kinds(definitions: Sequence[KindDefinition]) -> Iterator[None]:
    """Context manager: makes the built-in kinds and those of `definitions` the active kinds, here
    and in workers that receive tasks."""
    active = tuple(definitions)
    kinds = builtin_kinds() | {one.name: one.build_kind() for one in active} if active else {}
    token = _active_kinds.set(_ActiveKinds(active, kinds))
    try:
        yield
    finally:
        _active_kinds.reset(token)


@dataclass(frozen=True)
class CustomKindsTask:
    """A function for another process, called with the custom kinds that are active in this one."""

    function: Callable[[Any], Any]
    definitions: tuple[KindDefinition, ...]

    def __call__(self, task: Any) -> Any:
        with custom_kinds(self.definitions):
            return self.function(task)


def with_custom_kinds(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What an engine sends to a worker instead of `function`: the same call, with the active custom
    kinds."""
    definitions = _active_kinds.get().definitions
    return CustomKindsTask(function, definitions) if definitions else function


def widen_separators(pattern: str, *, allow_repeated: bool = True) -> str:
    """`pattern`, a regular expression for numbers in groups, with its separators widened: each
    blank, each hyphen, and each class of only these, `.` and `/`, also matches all of `BLANKS` or
    `HYPHENS`.

    With `allow_repeated`, a blank or a class that contains one matches one to three characters in a
    row (`713 - 555`), and a single hyphen may have a blank on either side.
    """
    out = []
    for token, quantifier in _PATTERN_TOKEN.findall(pattern):
        if token == " " or re.fullmatch(r"\[[ ./-]+\]", token):
            inside = token.strip("[]")
            dashes = HYPHENS if "-" in inside else ""
            widened = (
                "["
                + inside.replace(" ", "").replace("-", "")
                + (BLANKS if " " in inside else "")
                + dashes
                + "]"
            )
            times = (
                {"": "{1,3}", "?": "{0,3}"}.get(quantifier, quantifier)
                if allow_repeated
                else quantifier
            )
            out.append(widened + times if " " in inside else widened + quantifier)
        elif token == "-":
            widened = f"[{BLANKS}]?[{HYPHENS}][{BLANKS}]?" if allow_repeated else f"[{HYPHENS}]"
            out.append(
                f"(?:{widened}){quantifier}"
                if quantifier and allow_repeated
                else widened + quantifier
            )
        else:
            out.append(token + quantifier)
    return "".join(out)


_ROW_NUMBER = "[+-]?[0-9]+(?:[.,][0-9]+)?"
_ROW_START = r"(?:\A|[\s\[(|,;:])"
# of the words beside a value between \x01 and \x02 on its line, at least two are numbers
NUMBER_ROW = (
    rf"{_ROW_START}{_ROW_NUMBER}[ \t]+(?:{_ROW_NUMBER}[ \t]+\x01|"
    rf"\x01[^\x02]*\x02[ \t]+{_ROW_NUMBER}(?:[\s\])|,;]|\z))|"
    rf"\x02[ \t]+{_ROW_NUMBER}[ \t]+[+-]?[0-9]"
)


def is_in_number_row() -> pl.Expr:
    """Whether a number in groups with blanks is part of a row of numbers, in the frame of
    `Kind.context_rule`."""
    return mark_value().str.contains(NUMBER_ROW)


def mark_value() -> pl.Expr:
    """`before`, the value between \\x01 and \\x02, and `after`, in the frame of
    `Kind.context_rule`."""
    return pl.concat_str("before", pl.lit("\x01"), "value", pl.lit("\x02"), "after")


def always_needs_context(values: pl.Series) -> pl.Series:
    """True for all values: for kinds that only their context identifies."""
    return pl.Series([True], dtype=pl.Boolean).new_from_index(0, len(values))


def _split_components(
    locate_components: Callable[[pl.Series], I64], values: pl.Series
) -> pl.DataFrame:
    """The components of values as columns, one for each of `COMPONENT_COLUMNS`."""
    flat, offsets = flatten_strings(values)
    edges, width = locate_components(values), len(COMPONENT_COLUMNS)
    # the end of a value is the start of the next
    bounds = np.append(edges[:, :width].ravel(), offsets[-1])
    pieces = pa.LargeStringArray.from_buffers(
        len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(flat)
    )
    return pl.DataFrame(
        {
            name: pieces.take(pa.array(np.arange(no, len(pieces), width)))
            for no, name in enumerate(COMPONENT_COLUMNS)
        }
    )


def redraw_characters(
    values: pl.Series, draws: Draws, keep: Mask | None = None, first_lane: int = 0
) -> pl.Series:
    """The values with every ASCII letter and digit redrawn within its class (upper, lower, digit);
    all other bytes stay.

    `keep` marks bytes of the concatenated values (see `flatten_strings`) that stay as well. Four
    characters share a lane, sixteen bits each (uniform up to 26 / 2^16); the lanes from
    `first_lane` on are used, one for every four bytes of the longest value.
    """
    flat, offsets = flatten_strings(values)
    base, size = _CLASS_START[flat], _CLASS_SIZE[flat]
    if keep is not None:
        size = np.where(keep, 0, size)
    # one draw for every four bytes of every value, all in one call
    lanes = (np.diff(offsets) + 3) >> 2
    first = np.concatenate([[0], np.cumsum(lanes)])
    row = np.repeat(np.arange(len(lanes)), lanes)
    bits = draws.take(row).u64((first_lane + np.arange(len(row)) - first[row]).astype(np.uint64))
    row = np.repeat(np.arange(len(lanes)), np.diff(offsets))
    place = np.arange(len(flat)) - offsets[row]
    noise = (
        (bits[first[row] + (place >> 2)] >> ((place & 3) << 4).astype(np.uint64))
        .astype(np.uint16)
        .astype(np.uint32)
    )
    drawn = base + ((noise * size) >> np.uint32(16)).astype(np.uint8)
    return unflatten_strings(np.where(size > 0, drawn, flat), offsets, values.name)


def reserve_hosts(column: str) -> pl.Expr:
    """The names of hosts in a column with `example` for their last label (RFC 2606), or behind it
    where it is the only one; addresses of hosts become `site.example`."""
    host = pl.col(column).str.strip_suffix(".")
    labels = host.str.extract(r"\A([\s\S]*)[.][^.]*\z")
    is_name = ~host.str.contains(r"[\[\]:]|\A[0-9.]*\z")
    return pl.when(is_name).then(labels.fill_null(host)).otherwise(pl.lit("site")) + ".example"


def draw_indices(draws: Draws, lane: int, limit: int | I64) -> I64:
    """One index below `limit` for every row, from the 32 upper bits of a lane."""
    return draw_index(
        draws.u32_pair(lane)[0], limit if isinstance(limit, int) else limit.astype(np.uint64)
    )


def flatten_strings(values: pl.Series) -> tuple[U8, I64]:
    """The concatenated UTF-8 bytes of all values, and the offset at which each begins (one offset
    more than values)."""
    array = values.cast(pl.Binary).to_arrow().cast(pa.large_binary())
    assert array.null_count == 0
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    data = array.buffers()[2]
    flat = (
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    )
    return flat[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0]


def unflatten_strings(flat: U8, offsets: I64, name: str = "") -> pl.Series:
    """The strings whose concatenated UTF-8 bytes are `flat`; `offsets` has the start of each and
    the end of the last. Reverse of `flatten_strings`."""
    buffers = [
        None,
        pa.py_buffer(np.ascontiguousarray(offsets, np.int64)),
        pa.py_buffer(np.ascontiguousarray(flat, np.uint8)),
    ]
    return pl.Series(name, pa.LargeStringArray.from_buffers(len(offsets) - 1, *buffers[1:])).cast(
        pl.String
    )


def first_marked(marked: Mask, starts: I64, ends: I64) -> I64:
    """The first marked position of each range, or the range's end; `marked` has one entry for each
    byte of `flatten_strings`."""
    places = np.append(np.flatnonzero(marked), len(marked))
    return np.asarray(np.minimum(places[np.searchsorted(places, starts)], ends), np.int64)


def to_byte_matrix(values: pl.Series, min_width: int = 4) -> U8:
    """A Polars text column as a matrix of bytes, one row per value: as wide as the longest value
    and at least `min_width`, padded with zeros on the right. Memory is rows times width, so only
    for columns of short values."""
    flat, offsets = flatten_strings(values)
    sizes = np.diff(offsets)
    rows = np.zeros((len(sizes), int(sizes.max(initial=min_width))), np.uint8)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = flat
    return rows


def from_byte_matrix(rows: U8, name: str = "") -> pl.Series:
    """The reverse of `to_byte_matrix`; zero bytes are left out at any position."""
    filled = rows != 0
    return unflatten_strings(
        rows[filled], np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int64), name
    )


def digit_mask(rows: U8) -> Mask:
    """True where the bytes of a matrix are ASCII digits."""
    return (rows >= 48) & (rows <= 57)


_CLASS_START, _CLASS_SIZE = np.zeros(256, np.uint8), np.zeros(256, np.uint32)
for _first, _count in ((b"0", 10), (b"A", 26), (b"a", 26)):
    _CLASS_START[_first[0] : _first[0] + _count], _CLASS_SIZE[_first[0] : _first[0] + _count] = (
        _first[0],
        _count,
    )


def boundary_tables(kinds: list[Kind]) -> tuple[Mask, Mask]:
    """Two tables [kind, byte]: True where that byte may not precede, or not follow, a value of that
    kind.

    The rule applies only at an edge of the value that is itself a letter, digit or underscore; `+1`
    or `(555)` may follow anything.
    """
    before, after = np.zeros((2, len(kinds), 256), np.bool_)
    for number, one in enumerate(kinds):
        before[number] = _cached_byte_table(one.not_preceded_by)
        after[number] = _cached_byte_table(one.not_followed_by)
    return before, after


def byte_table(members: bytes) -> Mask:
    """A table of 256 entries: True for the bytes in `members`."""
    table = np.zeros(256, np.bool_)
    table[list(members)] = True
    return table


# kinds share a few sets of bytes
_cached_byte_table = functools.lru_cache(64)(byte_table)
