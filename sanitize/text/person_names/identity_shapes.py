"""Which strings of a column of people or ids identify somebody by their shape: names of two words
or more, user names, numbers, and addresses that no kind accepts.

A value that is found here is searched in all texts, so that its shape must be rare among ordinary
words:

- a *name*: two to five words of letters (`Hans Schmidt`, `Schmidt, Hans`), of which one is a name
  of the lexicon and no ordinary word; or all begin with a capital, and the first is a given name,
  or all are unknown. None is a word of organizations or a stop word. Full names in Chinese
  characters or kana.
- a *number* of `MIN_DIGITS` digits or more that is no date. A text with 1,000 numbers of seven
  digits holds a given one by chance with a probability of 1e-4.
- a *user name* of `MIN_USER_NAME_BYTES` bytes or more with a digit, or a sign between letters; six
  letters and digits drawn at random are in a text of a million words with a probability of 5e-4.
  Not `page-12` or `follow_up`: ordinary words with fewer than four digits. Where the sign is a
  hyphen or a dot, one word must be a name (`allen-p`, not `night-owl` or `sci.med`). Without any
  digit or sign: `MIN_LETTERS` letters that are an initial or a given name before a surname
  (`hschmidt`, `annaroeder`), as 0.3 % of the words of eight small letters or more in mails and
  articles are; or with capitals inside, where they are the whole cell (`QuietOtter`): beside an
  address they are the name of a company as often.
- an *address*: `name@host` without a top-level domain.
"""

from __future__ import annotations

import functools

import numpy as np
import polars as pl

from sanitize.array_types import I32, Mask
from sanitize.core.arrow_buffers import to_large_string
from sanitize.kinds.east_asian_names import is_full_name
from sanitize.kinds.person import is_distinctive
from sanitize.kinds.user_name import SHARED_NAMES
from sanitize.text.address_lists import strip_titles
from sanitize.text.name_lexicon import (
    CHINESE_SURNAME,
    COMMON_WORD,
    FORM_FIELD,
    GIVEN_NAME,
    LIST_WORD,
    ORGANIZATION,
    PARTICLE,
    PLACE,
    ROLE,
    STOP_WORD,
    SURNAME,
    lookup_words,
)

MIN_DIGITS, MIN_USER_NAME_BYTES, MIN_LETTERS = 7, 6, 8
_MAX_BYTES = 80  # of a value
_MIN_DIGITS_AFTER_WORD = 4  # `page-12` is no user name, `anna1987` is one
_NAMES = GIVEN_NAME | SURNAME | CHINESE_SURNAME
_ORDINARY = COMMON_WORD | STOP_WORD | ORGANIZATION | PLACE | LIST_WORD | FORM_FIELD | ROLE
# words in user names that are numbered or stand for nobody, beside those that programs share
_LABEL_WORDS = (
    *SHARED_NAMES,
    *"page part section chapter table figure room level group item file image img video doc"
    " document".split(),
    *(
        "row line version ver test sample class type category topic thread post comment message msg"
    ).split(),
    *(
        "reply question answer player member customer client patient person people speaker agent"
    ).split(),
    *(
        "assistant human bot auto automatic deleted removed unknown anon anonymous hidden missing "
        "not"
    ).split(),
    *"available private shared temp tmp new old other misc various multiple several".split(),
)
_WORD = r"\p{L}[\p{L}\p{M}'’.-]*"
_NAME = rf"\A{_WORD}(?: {_WORD}){{1,4}}\z"
_PARTICLES = "(?:van|von|de|der|den|del|della|di|da|dos|du|la|le|al|el|bin|ter|ten|zu) "
_REVERSED_NAME = rf"\A((?:(?i:{_PARTICLES}))*{_WORD}), ?({_WORD}(?: {_WORD}){{0,2}})\z"
_CAPITALIZED = r"\A[\p{Lu}\p{Lo}]\S*(?: (?:[\p{Lu}\p{Lo}]\S*|de|da|van|von|der|del|la|bin|al))*\z"
_NUMBER = r"\A[+]?[0-9(][0-9 ()./-]*[0-9]\z"
_DATE = (
    r"\A(?:[0-9]{4}[-./ ][0-9]{1,2}[-./ ][0-9]{1,2}|[0-9]{1,2}[-./ ][0-9]{1,2}[-./ ][0-9]{2,4}"
    r"|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))(?:[T ][0-9:.+Z-]+)?\z"
)
# digits that stand for no number
_FILLER = r"\A(?:0+|1+|2+|3+|4+|5+|6+|7+|8+|9+|0?1234567(?:8(?:90?)?)?)\z"
_YEAR = r"\A[^0-9]*(?:19|20)[0-9]{2}[^0-9]*\z"  # no other digits: `October2001`
_USER_NAME = r"\A[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}._+-]*[\p{L}\p{N}\p{M}])\z"
_JOINED_WORDS = r"\A(?:\p{Lu}?\p{Ll}{2,})(?:\p{Lu}\p{Ll}{2,})+\z"
_NOUN = r"(?i)(?:ments?|[ts]ions?|ings?|ity|ities|ness|ences?|ances?|ests?)\z"
_ADDRESS = r"\A[\p{L}\p{N}][\p{L}\p{N}._%+-]{1,63}@[\p{L}\p{N}][\p{L}\p{N}.-]*\z"
_SEPARATORS = r"[<>()\[\]{}\"“”„;|\t\r\n]+"
_EDGES = " \t,.:;'*&/@"
_PIECES = {"value": pl.String, "cell_no": pl.Int64}  # parts of cells


def find_identities(texts: pl.Series) -> pl.DataFrame:
    """The values in some cells of people or ids: columns `kind` and `value`, each pair once, and
    `cell_no`, the first cell that has it. A cell may list several (`Ann Roe; Bo Lee`).

    >>> cells = pl.Series(["Lindqvist, Anna", "hschmidt69", "page-12", "Sales Team"])
    >>> find_identities(cells).select("value", "cell_no").rows()
    [('Lindqvist, Anna', 0), ('Anna Lindqvist', 0), ('hschmidt69', 1)]
    """
    cells = pl.DataFrame({"value": texts, "cell_no": np.arange(len(texts))}, _PIECES)
    pieces = _split_cells(cells)
    names = _find_names(pieces)
    tokens = pieces.filter(~pl.col("value").str.contains(r"\s"))
    numbers = pieces.filter(_are_numbers(pieces["value"]))
    cells = cells.with_columns(pl.col("value").str.strip_chars(" \t@"))
    joined_words = cells.filter(
        pl.col("value").str.contains(_JOINED_WORDS)
        & (pl.col("value").str.len_chars() >= MIN_LETTERS)
    )
    user_names = tokens.filter(pl.Series(_are_user_names(tokens["value"]), dtype=pl.Boolean))
    addresses = tokens.filter(pl.col("value").str.contains(_ADDRESS))
    found = (
        ("PERSON", names),
        ("USER_NAME", numbers),
        ("USER_NAME", user_names),
        ("USER_NAME", joined_words),
        ("USER_AT_HOST", addresses),
    )
    frames = [rows.select(pl.lit(kind).alias("kind"), "value", "cell_no") for kind, rows in found]
    return (
        pl.concat(frames)
        .group_by("kind", "value", maintain_order=True)
        .agg(pl.col("cell_no").min())
    )


def _split_cells(cells: pl.DataFrame) -> pl.DataFrame:
    """The distinct parts of cells between brackets, quotes and semicolons, each with the first cell
    that has it; a comma separates them too, unless it is inside of one name.
    """
    value = pl.col("value")
    split = (
        cells.with_columns(value.str.replace_all(_SEPARATORS, ";").str.split(";"))
        .explode("value")
        .drop_nulls()
    )
    parts = split.with_columns(value.str.replace_all(r"\s+", " ").str.strip_chars(_EDGES)).unique(
        "value", keep="first", maintain_order=True
    )
    is_list = value.str.contains(",", literal=True) & ~value.str.contains(_REVERSED_NAME)
    others = (
        parts.filter(is_list)
        .with_columns(value.str.split(","))
        .explode("value")
        .with_columns(value.str.strip_chars(_EDGES))
    )
    parts = (
        pl.concat([parts.filter(~is_list), others])
        .group_by("value", maintain_order=True)
        .agg(pl.col("cell_no").min())
    )
    return parts.filter(value.str.len_bytes().is_between(MIN_USER_NAME_BYTES, _MAX_BYTES))


def _find_names(pieces: pl.DataFrame) -> pl.DataFrame:
    """The pieces that are a name; one with the surname first also in the other order."""
    names = pieces.with_columns(strip_titles(pieces["value"]).str.strip_chars(_EDGES))
    reversed_names = names.filter(pl.col("value").str.contains(_REVERSED_NAME))
    in_order = reversed_names.with_columns(pl.col("value").str.replace(_REVERSED_NAME, "$2 $1"))
    is_name = pl.Series(_are_names(in_order["value"]), dtype=pl.Boolean)
    plain = names.filter(
        names["value"].str.contains(_NAME)
        | pl.Series(is_full_name(names["value"]), dtype=pl.Boolean)
    )
    plain = plain.filter(pl.Series(_are_names(plain["value"]), dtype=pl.Boolean))
    return pl.concat([reversed_names.filter(is_name), in_order.filter(is_name), plain])


def _are_names(texts: pl.Series) -> Mask:
    """True for texts of two words or more that name a person, and for full names in a script
    without blanks between words.
    """
    frame = _list_words(texts)
    text_no, flags, words = frame["text_no"].to_numpy(), frame["flags"].to_numpy(), frame["word"]
    is_initial = (words.str.len_chars() < 2).to_numpy()
    is_name = (flags & _NAMES) > 0
    is_ordinary = ((flags & _ORDINARY) > 0) & ((flags & PARTICLE) == 0) & ~is_initial
    is_ordinary |= (flags == 0) & (
        words.str.contains(_NOUN).to_numpy() | _are_everyday_words(words)
    )
    is_blocked = (
        ((flags & (ORGANIZATION | STOP_WORD | LIST_WORD)) > 0)
        & ((flags & PARTICLE) == 0)
        & ~is_name
        & ~is_initial
    )
    is_first = np.diff(text_no, prepend=-1) != 0

    def has_word(selected: Mask) -> Mask:
        found: Mask = np.bincount(text_no[selected], minlength=len(texts)) > 0
        return found

    begins_with_given_name = has_word(is_first & ((flags & GIVEN_NAME) > 0)) & ~has_word(
        ~is_first & is_ordinary & ~is_name
    )
    is_capitalized = texts.str.contains(_CAPITALIZED).to_numpy()
    found = has_word(is_name & ~is_ordinary) | (
        is_capitalized & (begins_with_given_name | ~has_word(is_ordinary))
    )
    found &= ~has_word(is_blocked)
    found &= is_distinctive(
        pl.DataFrame({"value": texts, "normalised": texts.str.to_lowercase()})
    ).to_numpy()
    return np.asarray(found | is_full_name(texts), np.bool_)


def _are_numbers(pieces: pl.Series) -> pl.Series:
    """True for numbers of `MIN_DIGITS` digits or more that are no date."""
    digits = pieces.str.replace_all("[^0-9]", "")
    is_number = pieces.str.contains(_NUMBER) & (digits.str.len_bytes() >= MIN_DIGITS)
    return is_number & ~pieces.str.contains(_DATE) & ~digits.str.contains(_FILLER)


def _are_user_names(tokens: pl.Series) -> Mask:
    """True for user names by the rules of this module."""
    is_token = (
        tokens.str.contains(_USER_NAME)
        & tokens.str.contains(r"\p{L}")
        & ~tokens.str.contains(_DATE)
    )
    if not is_token.any():
        return np.zeros(len(tokens), np.bool_)
    frame = _list_words(tokens)
    text_no, flags, words = frame["text_no"].to_numpy(), frame["flags"].to_numpy(), frame["word"]
    is_ordinary = ((flags & _ORDINARY) > 0) | (words.str.len_chars() < 2).to_numpy()
    is_ordinary |= _are_everyday_words(words)
    is_name = ((flags & _NAMES) > 0) & ~is_ordinary & (words.str.len_chars() > 2).to_numpy()

    def has_word(selected: Mask) -> Mask:
        found: Mask = np.bincount(text_no[selected], minlength=len(tokens)) > 0
        return found

    digit_count = tokens.str.count_matches("[0-9]").to_numpy()
    has_underscore = tokens.str.contains("_", literal=True).to_numpy()
    has_sign = tokens.str.contains("[._+-]").to_numpy()
    has_own_word = has_word(~is_ordinary)
    found = (digit_count >= _MIN_DIGITS_AFTER_WORD) & ~tokens.str.contains(_YEAR).to_numpy()
    found |= (digit_count > 0) & has_own_word
    found |= has_underscore & has_own_word
    found |= has_sign & has_word(is_name)
    found |= (digit_count == 0) & ~has_sign & _are_joined_names(tokens)
    return np.asarray(found & is_token.to_numpy(), np.bool_)


def _are_everyday_words(words: pl.Series) -> Mask:
    """True for everyday words, also in the plural."""
    lowercase, known = words.str.to_lowercase(), _list_everyday_words()
    is_plural = (lowercase.str.len_chars() > 5) & lowercase.str.strip_suffix("s").is_in(known)
    return (lowercase.is_in(known) | is_plural).to_numpy()


@functools.cache
def _list_everyday_words() -> list[str]:
    """Words that name nobody, beside the ordinary words of the lexicon."""
    from faker.providers.lorem.en_US import Provider

    return sorted({*_LABEL_WORDS, *Provider.word_list})


def _list_words(texts: pl.Series) -> pl.DataFrame:
    """The runs of letters in texts: `text_no`, `word` (the letters) and its `flags`."""
    runs = texts.str.extract_all(r"[\p{L}\p{M}]+")
    frame = (
        pl.DataFrame({"text_no": np.arange(len(texts)), "word": runs}).explode("word").drop_nulls()
    )
    return frame.with_columns(flags=_flag_words(frame["word"]))


def _flag_words(words: pl.Series) -> I32:
    """The flags of words of letters."""
    flags = np.zeros(len(words), np.int32)
    word_no, found = lookup_words(to_large_string(words))
    flags[word_no] = found
    return flags


def _are_joined_names(tokens: pl.Series) -> Mask:
    """True for `MIN_LETTERS` letters or more that are an initial, or a given name, before a
    surname: `hschmidt`, `annaroeder`.
    """
    letters = (
        tokens.str.contains(r"\A[A-Za-z]+\z")
        & (tokens.str.len_bytes() >= MIN_LETTERS)
        & (tokens.str.len_bytes() <= 24)
    )
    rows = letters.arg_true().to_numpy()
    result = np.zeros(len(tokens), np.bool_)
    if not len(rows):
        return result
    words = tokens.gather(rows).str.to_lowercase()
    # each cut before the last three letters: hschmidt -> h + schmidt, hs + chmidt, ...
    sizes = words.str.len_bytes().to_numpy().astype(np.int64) - 3
    row = np.repeat(np.arange(len(rows)), sizes)
    cut = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    cuts = pl.DataFrame({"word": words.gather(row), "cut": cut})
    first, last = (
        cuts.select(part).to_series()
        for part in (pl.col("word").str.slice(0, "cut"), pl.col("word").str.slice("cut"))
    )
    is_given = ((_flag_words(first) & GIVEN_NAME) > 0) & (cut >= 4)
    last_flags, last_size = _flag_words(last), last.str.len_bytes().to_numpy()
    is_surname = ((last_flags & SURNAME) > 0) & ((last_flags & _ORDINARY) == 0)
    result[rows[np.unique(row[is_surname & ((is_given & (last_size >= 4)) | (cut == 1))])]] = True
    whole = _flag_words(words)
    result[rows[whole > 0]] = False  # `jackson` is a word of its own
    return result
