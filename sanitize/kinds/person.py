"""Names of people: normalisation, splitting into words, and surrogates. There is no pattern;
finders report names (finders/names.py, finders/known.py, models, a user's list).

Normalised form: letter case, blanks, quotes, Unicode compatibility forms and invisible characters
do not count, `Roe, Ann` is `ann roe`, and a blank between Chinese characters or kana does not count
(`田中 太郎`). Two people with the same name are one value.

Names in Chinese, Japanese and Korean script are split into family name and given name
(kinds/east_asian_names.py).
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_matches,
    slice_spans,
    splice,
    to_large_string,
)
from sanitize.core.keys import Draws, draw_index
from sanitize.kinds.east_asian_names import (
    count_family_characters,
    draw_east_asian_names,
    find_languages,
    is_east_asian,
    is_east_asian_given_name,
    is_full_name,
    unify_languages,
)
from sanitize.kinds.kind import ASCII_WORD_CHARS, Kind

INVISIBLE = "[\u200b-\u200d\u2060\u00ad\ufeff]"
ASCII_ALPHANUMERICS = ASCII_WORD_CHARS.replace(b"_", b"")  # `_Ann Roe_` contains a name
_WORD = r"[\p{L}\p{M}]+"
# titles, particles and suffixes: words inside a name that are kept in surrogates
_FIXED_WORDS = "mr|mrs|ms|miss|dr|prof|sir|van|von|der|den|de|del|della|di|da|dos|du|la|le|al|el|bin|ibn|ben|ter|ten|zu|und|y|jr|sr|ii|iii|iv"  # noqa: E501
_TRANSLITERATED_NAME = "[・·•‧]"  # `ジョン・スミス`, `约翰·史密斯`: given name first
_FIRST_EAST_ASIAN_BYTE = 0xE1  # of Hangul, kana and Chinese characters in UTF-8, and of some more
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}ー]"  # scripts that separate no words
_BEFORE_COMMA = r"\A([\s\"',]*[^\s\"',][^,]*),"  # the text before the first comma
# letters that Unicode does not decompose into a base letter and an accent, and their ASCII
# spellings; letters with a two-letter spelling
_ASCII_SPELLINGS = dict(zip("ßøłđðæœþıħ", "ss o l d d ae oe th i h".split(), strict=True))
_DIGRAPHS = dict(zip("äöüøå", "ae oe ue oe aa".split(), strict=True))


def normalise_name(names: pl.Series) -> pl.Series:
    """Normalised names: each character in its Unicode compatibility form, lower case, single
    blanks, no invisible characters, `Roe, Ann` as `ann roe`, and no blanks between Chinese
    characters or kana."""
    plain = (
        names.str.replace_all(INVISIBLE, "")
        .str.normalize("NFKC")
        .str.replace_all(r"[\s\"']+", " ")
        .str.strip_chars(" ,")
        .str.to_lowercase()
    )
    return join_unspaced(plain.str.replace(r"\A([^,]+?) ?, ?([^,]+)\z", "$2 $1"))


def join_unspaced(names: pl.Series) -> pl.Series:
    """Names without the blanks between Chinese characters or kana: `田中 太郎` is `田中太郎`."""
    if not names.str.contains(_UNSPACED).any():
        return names
    blank = rf"({_UNSPACED}) ({_UNSPACED})"
    return names.str.replace_all(blank, "$1$2").str.replace_all(blank, "$1$2")


def is_distinctive(values: pl.DataFrame) -> pl.Series:
    """True for names whose normalised forms are more than one word of letters and have six bytes or
    more: `will`, `may` and `li wu` are too ambiguous. A name in Chinese characters or kana is one
    word: it counts if it is a family name and a given name of three characters or more; two
    characters (`王伟`) occur inside other words. The full leak check uses the same rule."""
    names = join_unspaced(values["normalised"])
    return ((names.str.len_bytes() >= 6) & ~names.str.contains(r"\A\p{L}+\z")) | pl.Series(
        is_full_name(names)
    )


def fold_accents(names: pl.Series, *, digraphs: bool = False) -> pl.Series:
    """Names in lower case without accents, as in addresses (`jose` for `José`, `gross` for `Groß`);
    with `digraphs`, two letters where that is customary (`juergen` for `Jürgen`)."""
    small = names.str.to_lowercase()
    if not small.str.contains(r"[^\x00-\x7f]").any():
        return small
    small = small.str.normalize("NFC").str.replace_many(_DIGRAPHS) if digraphs else small
    return (
        small.str.normalize("NFKD")
        .str.to_lowercase()
        .str.replace_all(r"\p{M}", "")
        .str.replace_many(_ASCII_SPELLINGS)
    )


def _make_surrogates(names: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Names of the same shape: an initial for an initial, given names (of the same gender where the
    lists tell it), a surname at its place, of the same script; letter case and all else unchanged.
    A name of one word is a given name if the lists have it as one."""
    words = NameWords.parse(names)
    return words.replace_words(words.draw_names(draws), words.is_fixed)


def redraw_words(
    values: pl.Series,
    draws: Draws,
    given_names: npt.NDArray[np.object_],
    surnames: npt.NDArray[np.object_],
    fixed_words: str,
) -> pl.Series:
    """The values with every word redrawn: the last one from `surnames`, the others from
    `given_names`. Single letters become other letters, words that match the alternation
    `fixed_words` are kept, and letter case is unchanged."""
    words = NameWords.parse(values, fixed_words, reorder_at_comma=False, split_east_asian=False)
    return words.replace_words(words.draw_words(draws, given_names, surnames), words.is_fixed)


def _make_variants(names: pl.Series, draws: Draws, anchor: I64) -> pl.Series:
    """Surrogates of names that keep the given name (`anchor` 0), the surname (1) or neither (-1).

    Words between the two are always redrawn. A name of one word, hyphenated or not, keeps nothing.
    """
    words = NameWords.parse(names)
    component = np.where(words.is_given, 0, np.where(words.is_surname, 1, -1))
    count = len(names)
    has_both = (np.bincount(words.row[words.is_given], minlength=count) > 0) & (
        np.bincount(words.row[words.is_surname], minlength=count) > 0
    )
    anchored = (component >= 0) & has_both[words.row] & (component == anchor[words.row])
    return words.replace_words(words.draw_names(draws), words.is_fixed | anchored)


@dataclass(frozen=True, repr=False)
class NameWords:
    """The words of a column of names, one entry per word, in text order.

    `row` is the row of the name; `start` and `end` are byte positions in `buffers`, the
    concatenated names; `text` is the word. A word is `is_fixed` (a title or particle, which
    surrogates keep), `is_initial` (a single letter), or (part of) the surname (`is_surname`) or the
    given name (`is_given`). `position` is its index in the normalised name, which differs from the
    text order for `Roe, Ann`.
    """

    names: pl.Series
    buffers: TextBuffers
    row: I64
    start: I64
    end: I64
    text: pl.Series
    is_fixed: Mask
    is_initial: Mask
    is_surname: Mask
    is_given: Mask
    position: I64
    hyphen_group: I64  # the number of the run of hyphenated words that it is in

    @classmethod
    def parse(
        cls,
        names: pl.Series,
        fixed_words: str = _FIXED_WORDS,
        *,
        reorder_at_comma: bool = True,
        split_east_asian: bool = True,
    ) -> NameWords:
        """The words of a column of names.

        The surname is the last word that is neither fixed nor an initial, or the last such word
        before a comma; the given name is the first of the others. Words joined to one of the two by
        hyphens (`Jean-Paul`) are part of it. With `reorder_at_comma`, the text after a single comma
        comes first, as in the normalised form of a name. With `split_east_asian`, a name in
        Chinese, Japanese or Korean script is split into family name and given name, and its family
        name is the first word (not in `ジョン・スミス`).
        """
        buffers = TextBuffers.from_array(to_large_string(names))
        starts, ends = find_matches(buffers, _WORD)
        if split_east_asian:
            starts, ends = _split_family_names(buffers, starts, ends)
        count = len(starts)
        row = np.searchsorted(buffers.offsets, starts, side="right") - 1
        words = pl.Series(slice_spans(buffers, starts, ends), dtype=pl.String)
        is_unspaced = is_east_asian(words) if split_east_asian else np.zeros(count, np.bool_)
        is_initial = (words.str.len_chars() == 1).to_numpy() & ~is_unspaced
        kept = words.str.to_lowercase().str.contains(rf"\A(?:{fixed_words})\z").to_numpy()
        # a value of fixed words only has its words redrawn nevertheless
        is_fixed = kept & (np.bincount(row[~kept & ~is_initial], minlength=len(names)) > 0)[row]
        order = np.arange(count)
        if reorder_at_comma:
            comma = (
                names.str.extract(_BEFORE_COMMA)
                .str.len_bytes()
                .fill_null(len(buffers.data))
                .to_numpy()
                .astype(np.int64)
            )
            order = np.lexsort((starts, starts - buffers.offsets[row] < comma[row], row))
        new = _is_run_start(row)
        position = np.empty(count, np.int64)
        position[order] = np.arange(count) - np.maximum.accumulate(
            np.where(new, np.arange(count), 0)
        )
        free = order[(~kept & ~is_initial)[order]]
        group = group_hyphenated(buffers, row, starts, ends)
        is_last_free = _is_run_start(row[free][::-1])[::-1]
        if is_unspaced.any():
            has_family_first = np.ones(len(names), np.bool_)
            has_family_first[row[~is_unspaced & ~is_fixed]] = False
            has_family_first &= (
                ~names.str.contains(_TRANSLITERATED_NAME).fill_null(False).to_numpy()
            )
            is_last_free = np.where(
                has_family_first[row[free]], _is_run_start(row[free]), is_last_free
            )
        is_surname = np.isin(group, group[free[is_last_free]]) & ~is_fixed
        others = order[(~is_fixed & ~is_surname)[order]]
        is_given = (
            np.isin(group, group[others[_is_run_start(row[others])]]) & ~is_fixed & ~is_surname
        )
        return cls(
            names,
            buffers,
            row,
            starts,
            ends,
            words,
            is_fixed,
            is_initial,
            is_surname,
            is_given,
            position,
            group,
        )

    def draw_words(
        self, draws: Draws, given_names: npt.NDArray[np.object_], surnames: npt.NDArray[np.object_]
    ) -> pl.Series:
        """A drawn word for each word, in lower case: a surname, a given name, or a letter."""
        bits = self._take_bits(draws)
        name = np.where(
            self.is_surname,
            surnames[draw_index(bits, len(surnames))],
            given_names[draw_index(bits, len(given_names))],
        )
        return pl.Series(
            np.where(self.is_initial, _LETTERS[draw_index(bits, 26)], name), dtype=pl.String
        )

    def draw_names(self, draws: Draws) -> pl.Series:
        """A drawn word for each word of people's names, in lower case: see `draw_names`. A name of
        one word without a title is a given name if the lists have it as one."""
        bits = self._take_bits(draws)
        count = len(self.names)
        is_alone = (np.bincount(self.row[self.is_given | self.is_fixed], minlength=count) == 0)[
            self.row
        ]
        is_given_alone = is_alone & (
            is_listed_given_name(self.text) | is_east_asian_given_name(self.text)
        )
        names = draw_names(self.text, self.is_surname & ~is_given_alone, bits, self.row)
        return pl.Series(
            np.where(self.is_initial, _LETTERS[draw_index(bits, 26)], names), dtype=pl.String
        )

    def _take_bits(self, draws: Draws) -> npt.NDArray[np.uint64]:
        """32 random bits for each word, which depend on its position in the normalised name."""
        return draws.take(self.row).u64(self.position.astype(np.uint64)) >> np.uint64(32)

    def replace_words(self, replacements: pl.Series, fixed: Mask) -> pl.Series:
        """The names with their words replaced, each in the letter case of the word it replaces;
        words where `fixed` is true are kept."""
        if not len(self.row):
            return self.names
        shown = pl.select(
            pl.when(pl.Series(fixed)).then(self.text).otherwise(match_case(replacements, self.text))
        ).to_series()
        return pl.Series(
            self.names.name, splice(self.buffers, self.start, self.end, to_large_string(shown))
        )


def _split_family_names(buffers: TextBuffers, starts: I64, ends: I64) -> tuple[I64, I64]:
    """Splits the words that are a family name and a given name without a blank, of values that are
    one word: `王小明`, `田中太郎`."""
    if not len(starts) or not (buffers.data >= _FIRST_EAST_ASIAN_BYTE).any():
        return starts, ends
    row = np.searchsorted(buffers.offsets, starts, side="right") - 1
    is_alone = np.flatnonzero(np.bincount(row, minlength=len(buffers.offsets) - 1)[row] == 1)
    words = pl.Series(slice_spans(buffers, starts[is_alone], ends[is_alone]), dtype=pl.String)
    chosen = np.flatnonzero(is_east_asian(words))
    size = count_family_characters(words.gather(chosen)) if len(chosen) else np.empty(0, np.int64)
    chosen, size = chosen[size > 0], size[size > 0]
    middle = (
        starts[is_alone[chosen]]
        + pl.select(pl.Series(words.gather(chosen)).str.slice(0, pl.Series(size)))
        .to_series()
        .str.len_bytes()
    )
    return np.sort(np.append(starts, middle)), np.sort(np.append(ends, middle))


def group_hyphenated(buffers: TextBuffers, row: I64, start: I64, end: I64) -> I64:
    """The number of the run of hyphenated words that each word is in, such as `Jean-Paul` and
    `J.-P.`; words are sorted by position."""
    data = np.append(buffers.data, np.zeros(3, np.uint8))
    gap, end = np.append(start[1:] - end[:-1], 0)[: len(row)], end
    bare = (gap == 1) & (data[end] == 45)
    dotted = (gap == 2) & (data[end] == 46) & (data[end + 1] == 45)
    wide = (
        (gap == 3)
        & (data[end] == 0xE2)
        & (data[end + 1] == 0x80)
        & ((data[end + 2] == 0x90) | (data[end + 2] == 0x91))
    )
    ends = ~(bare | dotted | wide) | np.append(row[1:] != row[:-1], True)[: len(row)]
    return np.append(0, np.cumsum(ends))[: len(row)]


def _is_run_start(row: I64) -> Mask:
    """True for the first entry of each run of equal numbers."""
    return np.append(True, row[1:] != row[:-1])[: len(row)]


def match_case(words: pl.Series, like: pl.Series) -> pl.Series:
    """Lower-case words in the letter case of the words in `like`: UPPER, Title, or unchanged; a
    single upper-case letter means Title."""
    frame = pl.DataFrame({"new": words, "old": like})
    title = pl.col("new").str.slice(0, 1).str.to_uppercase() + pl.col("new").str.slice(1)
    upper = (pl.col("old") == pl.col("old").str.to_uppercase()) & (
        pl.col("old") != pl.col("old").str.to_lowercase()
    )
    return frame.select(
        pl.when(upper & (pl.col("old").str.len_chars() > 1))
        .then(pl.col("new").str.to_uppercase())
        .when(pl.col("old").str.contains(r"\A\p{Lu}"))
        .then(title)
        .otherwise(pl.col("new"))
    ).to_series()


@functools.cache
def name_pools() -> tuple[npt.NDArray[np.object_], npt.NDArray[np.object_]]:
    """Given names and surnames in plain ASCII, sorted, so that a draw gives the same name on every
    machine."""
    found = []
    for names in faker_names():
        words = pl.Series(sorted(names), dtype=pl.String)
        found.append(words.filter(words.str.contains(r"\A[a-z]{3,12}\z")).to_numpy().astype(object))
    return found[0], found[1]


# scripts of names, each by a pattern of its words; the first is that of names in Latin letters, and
# of all other scripts; those of Chinese, Japanese and Korean names are in east_asian_names.py
_SCRIPT_PATTERNS = {
    "latin": r"\A[a-z]{3,12}\z",
    **{
        script: rf"\A\p{{{script}}}{{2,12}}\z"
        for script in (
            "Cyrillic Greek Armenian Georgian Hebrew Arabic Devanagari Bengali Tamil Thai".split()
        )
    },
}
_MIN_SCRIPT_NAMES = 20  # a script with fewer names gets names in Latin letters
_ANY_GENDER, _FEMALE, _MALE = range(3)
_LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"), object)


def draw_names(
    words: pl.Series, is_surname: Mask, bits: npt.NDArray[np.uint64], row: I64 | None = None
) -> npt.NDArray[np.object_]:
    """A drawn name in lower case for each word: a surname or a given name, of the script of the
    word, and a given name of the gender of the word where the lists have that as a name of one
    gender only. `bits` are 32 random bits for each word; words of one `row` are of one language,
    where Chinese and Japanese names are written with the same characters."""
    scripts = list(_SCRIPT_PATTERNS)
    folded = fold_accents(words)
    script = np.zeros(len(words), np.int64)
    other = np.flatnonzero(folded.str.contains(r"[^\x00-\x7f]").fill_null(False).to_numpy())
    for number, name in enumerate(scripts[1:], 1):
        script[other[words.gather(other).str.contains(rf"\A[\p{{{name}}}\p{{M}}]").to_numpy()]] = (
            number
        )
    female, male = _given_names_by_gender()
    gender = np.where(
        is_in_sorted(folded, female),
        _FEMALE,
        np.where(is_in_sorted(folded, male), _MALE, _ANY_GENDER),
    )
    gender = np.where(is_surname, _ANY_GENDER, gender)
    found = np.empty(len(words), object)
    pool_no = (script * 2 + is_surname) * 3 + gender
    for number in np.unique(pool_no).tolist():  # a few pools
        rows = np.flatnonzero(pool_no == number)
        pool = _list_names_of_script(scripts[number // 6])[bool(number // 3 % 2), number % 3]
        found[rows] = pool[draw_index(bits[rows], len(pool))]
    rows = other[is_east_asian(words.gather(other))]
    if len(rows):
        languages = find_languages(words.gather(rows))
        if row is not None:
            languages = unify_languages(languages, row[rows])
        found[rows] = draw_east_asian_names(
            words.gather(rows), is_surname[rows], bits[rows], languages
        )
    return found


def is_listed_given_name(words: pl.Series) -> Mask:
    """True for words that Faker's lists have as given names; letter case and accents are
    ignored."""
    return is_in_sorted(fold_accents(words), list_given_names())


def is_in_sorted(words: pl.Series, listed: pl.Series) -> Mask:
    """True for words that occur in `listed`, which is sorted."""
    found: Mask = words.is_in(listed.implode()).fill_null(False).to_numpy()
    return found


@functools.cache
def list_given_names() -> pl.Series:
    """The given names of Faker's lists without accents, sorted."""
    return fold_accents(pl.Series(sorted(faker_names()[0]), dtype=pl.String)).unique().sort()


@functools.cache
def _given_names_by_gender() -> tuple[pl.Series, pl.Series]:
    """Given names that only women have and those that only men have in Faker's lists, without
    accents, sorted."""
    female, male = (
        fold_accents(pl.Series(sorted(names), dtype=pl.String)).unique()
        for names in faker_given_names_by_gender()
    )
    return (
        female.filter(~female.is_in(male.implode())).sort(),
        male.filter(~male.is_in(female.implode())).sort(),
    )


@functools.cache
def _list_names_of_script(script: str) -> dict[tuple[bool, int], npt.NDArray[np.object_]]:
    """The names of a script to draw from, sorted, by whether they are surnames, and by gender.
    Where a script has too few surnames, its given names; where it has too few of both, names in
    Latin letters."""
    pattern = _SCRIPT_PATTERNS[script]
    given, surnames = (pl.Series(sorted(names), dtype=pl.String) for names in faker_names())
    given, surnames = (
        given.filter(given.str.contains(pattern)),
        surnames.filter(surnames.str.contains(pattern)),
    )
    if len(given) < _MIN_SCRIPT_NAMES:
        return _list_names_of_script("latin")
    found = {
        (False, _ANY_GENDER): given,
        (True, _ANY_GENDER): surnames if len(surnames) >= _MIN_SCRIPT_NAMES else given,
    }
    folded = fold_accents(given)
    for gender, listed in zip((_FEMALE, _MALE), _given_names_by_gender(), strict=True):
        of_gender = given.filter(folded.is_in(listed.implode()))
        found[False, gender] = of_gender if len(of_gender) >= _MIN_SCRIPT_NAMES else given
    return {key: names.to_numpy().astype(object) for key, names in found.items()}


@functools.cache
def faker_given_names_by_gender() -> tuple[frozenset[str], frozenset[str]]:
    """Given names of women and of men of all of Faker's locales, as single words of two letters or
    more in lower case."""
    female, male = list[str](), list[str]()
    for name, values in _list_faker_names():
        if "first" in name and "female" in name:
            female.extend(values)
        elif "first" in name and "male" in name:
            male.extend(values)
    return _split_lowercase_words(female), _split_lowercase_words(male)


@functools.cache
def faker_names() -> tuple[frozenset[str], frozenset[str]]:
    """Given names and surnames of all of Faker's locales, as single words of two letters or more in
    lower case: about 29,000 and 33,000, loaded in a quarter of a second."""
    found: tuple[list[str], list[str]] = ([], [])
    for name, values in _list_faker_names():
        for number, part in enumerate(("first", "last")):
            if part in name:
                found[number].extend(values)
    return _split_lowercase_words(found[0]), _split_lowercase_words(found[1])


def _list_faker_names() -> list[tuple[str, list[str]]]:
    """The lists of names of all of Faker's locales, each with the name of its variable:
    `first_names_female`."""
    import faker.providers.person as locales

    found = []
    for module in pkgutil.iter_modules(locales.__path__):
        provider = importlib.import_module(f"{locales.__name__}.{module.name}").Provider
        for name, value in vars(provider).items():
            if isinstance(value, tuple | list | dict) and "name" in name:
                found.append((name, [str(entry) for entry in value]))
    return found


def _split_lowercase_words(names: list[str]) -> frozenset[str]:
    words = (
        pl.Series(names, dtype=pl.String).str.to_lowercase().str.extract_all(r"[\p{L}\p{M}]{2,}")
    )
    return frozenset(words.explode().drop_nulls())


# a name of one to six words; and what a field of people holds where it names no person
_LABELLED_NAME = r"\A\p{L}[\p{L}\p{M}'’.-]*(?:,? [(\"“]?\p{L}[\p{L}\p{M}'’.-]*[)\"”]?){0,5}\z"
NO_PERSON_WORDS = (
    "unknown anonymous nobody none null nil na test user users admin administrator root system"
    " human gpt assistant bot agent tool function model server client guest staff team everyone"
    " various other others deleted removed redacted hidden true false yes no male female"
).split()
_MAX_LABELLED_BYTES = 80


def _accepts_in_field(values: pl.Series) -> pl.Series:
    """True for one to six words of letters, of which one has a capital or there are several; not
    for words that say that no person is named."""
    return pl.select(
        (values.str.len_bytes() <= _MAX_LABELLED_BYTES)
        & values.str.contains(_LABELLED_NAME)
        & values.str.contains(r"[\p{Lu}\p{Lt}\p{Lo} ]")
        & ~values.str.to_lowercase().is_in(NO_PERSON_WORDS)
    ).to_series()


KIND = Kind(
    name="PERSON",
    about="a person's name",
    category="person",
    field_names=tuple(
        (
            "full name|fullname|first name|firstname|middle name|last name|lastname|surname|"
            "forename|given name|family name|maiden name|real name|realname|display name|"
            "displayname|person name|patient name|customer name|client name|employee name|"
            "contact name|author name|sender name|recipient name|from name|to name|owner name|"
            "member name|account holder|card holder|cardholder|next of kin|emergency contact|"
            "author|authors|sender|senders|recipient|recipients|patient|customer|employee|"
            "creator|poster|commenter|reviewer|speaker|writer|correspondent|addressee|owner|"
            "assignee|custodian|created by|posted by|written by|sent by|reported by|assigned to|"
            "vorname|nachname|familienname|geburtsname|ansprechpartner|prenom|nom de famille|"
            "nom complet|nombre completo|apellido|apellidos|nome completo|sobrenome|apelido|"
            "cognome|nome e cognome|voornaam|achternaam|imie|nazwisko|imie i nazwisko|姓名|"
            "氏名|お名前|名前|联系人|聯絡人|"
            "preferred name|legal name|your name|applicant name|student name|teacher name|"
            "doctor name|physician name|guest name|passenger name|spouse name|father name|"
            "mother name|parent name|guardian name|manager name|reporter name|beneficiary name|"
            "payee name|spouse|applicant|requester|requestor|requested by|"
            "reporter|submitter|submitted by|annotator|labeler|labeller|rater|interviewer|"
            "interviewee|commented by|asked by|answered by|edited by|modified by|updated by|"
            "opened by|closed by|resolved by|merged by|reviewed by|approved by|"
            "approver|signed by|uploaded by|uploader|added by|committer|maintainer|line manager|"
            "account manager|project manager|hiring manager|sales representative|physician|"
            "surgeon|attending doctor|referring doctor|treating doctor|family doctor|autor|"
            "verfasser|absender|empfanger|bearbeiter|sachbearbeiter|mitarbeiter|"
            "behandelnder arzt|kontoinhaber|begunstigter|auteur|expediteur|destinataire|"
            "titulaire du compte|beneficiaire|medecin traitant|remitente|destinatario|"
            "beneficiario|empleado|titular de la cuenta|remetente|funcionario|titular da conta|"
            "autore|mittente|dipendente|intestatario|medico curante|afzender|ontvanger|"
            "medewerker|rekeninghouder|nadawca|odbiorca|pracownik|lekarz|作者|发件人|收件人|"
            "收款人|患者|员工|医生|著者|差出人|受信者|受取人|従業員|担当者|担当医"
        ).split("|")
    ),
    accepts_in_field=_accepts_in_field,
    aliases=(
        "PER",
        "PERS",
        "NAME",
        "FIRSTNAME",
        "LASTNAME",
        "MIDDLENAME",
        "GIVENNAME",
        "SURNAME",
        "NAME_STUDENT",
        "PATIENT",
        "STAFF",
        "DOCTOR",
    ),
    pattern="",
    normalise=normalise_name,
    make_surrogates=_make_surrogates,
    components=("first", "last"),
    make_variants=_make_variants,
    is_distinctive=is_distinctive,
    certain_length=12,
    not_preceded_by=ASCII_ALPHANUMERICS,
    not_followed_by=ASCII_ALPHANUMERICS,
    rank=90,
    hits=(
        ("Dear Ann Roe, hello", "Ann Roe"),
        ("from ann roe.", "ann roe"),
        ("Roe, Ann wrote", "Roe, Ann"),
    ),
    near_misses=("Joann Roe; Ann Roehm; Ann",),
)
