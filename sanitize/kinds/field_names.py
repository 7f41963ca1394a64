"""Names of fields, keys and columns that say which kind a value beside them has, such as
`phoneNumber`, `mobile_no`, `<ssn>` or `E-Mail-Adresse`.

Each kind lists such names once, in words (`Kind.field_names`); `find_kind_of_field` leads from a
name in any spelling to a kind. English and nine languages: German, French, Spanish, Portuguese,
Italian, Dutch, Polish, Chinese and Japanese.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Collection, Mapping

import pyarrow as pa

from sanitize.kinds.kind import all_kinds

_MAX_NAME_LENGTH = 80  # in characters; a longer text is no name of a field
# a name of this form counts, dates or flags a value, and does not hold one: `phone_count`, `has_ip`
_OTHER_LAST_WORDS = frozenset(
    "count counts total length len size type types status valid verified flag score hash"
    " confirmed enabled required missing format mask pattern regex label model provider".split()
)
_OTHER_FIRST_WORDS = frozenset("is has num n count total valid hashed masked encrypted".split())
_WORD_BOUNDARY = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[^\W\d_])(?=[0-9])|[^\w]+|_+"
)
_NUMBER_CATEGORIES = ("contact", "identifier", "financial", "credential", "time", "demographic")
_DATES = "DATE_TIME"
_NAME_WORDS = frozenset("name names nom nombre nome naam".split())
_USER_WORDS = frozenset("user users".split())
_SENDER_WORDS = frozenset("from to cc bcc replyto changedby".split())
# names that things and the parties of a chat have as often as people
_AMBIGUOUS_WORDS = (
    _NAME_WORDS
    | _SENDER_WORDS
    | frozenset(
        "manager supervisor contact moderator student teacher doctor"
        " participants attendees payee beneficiary kunde cliente klant klient"
        " 客户 顧客".split()
    )
)
_IN_BRACKETS = re.compile(r"\s*[(\[（][^()\[\]（）]*[)\]）]\s*\Z")
_TAG = re.compile(r"\A<?/?([^<>/]+)/?>?\Z")


def split_field_name(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without accents: snake, camel and kebab case, capitals,
    XML tags, quoted keys, names with blanks.

    >>> split_field_name("mobileNo"), split_field_name("<E-Mail>"), split_field_name("TELÉFONO_2")
    (('mobile', 'no'), ('e', 'mail'), ('telefono', '2'))
    """
    if len(name) > _MAX_NAME_LENGTH:
        return ()
    plain = unicodedata.normalize("NFKC", name).strip().strip("\"'`“”:")
    if tag := _TAG.match(plain):
        plain = tag[1].rpartition(":")[2]  # without the prefix of an XML namespace
    # accents are removed from Latin letters only: elsewhere marks make other letters
    letters = unicodedata.normalize("NFD", plain)
    plain = (
        unicodedata.normalize(
            "NFC",
            "".join(
                letter
                for number, letter in enumerate(letters)
                if not (
                    "\u0300" <= letter <= "\u036f"
                    and letters[:number].rstrip(letter)[-1:].isascii()
                )
            ),
        )
        .replace("ł", "l")
        .replace("Ł", "L")
    )
    return tuple(word.casefold() for word in _WORD_BOUNDARY.split(plain) if word)


def find_kind_of_field(name: str) -> str | None:
    """The kind that a field with this name holds, by its last words (`home_phone_number`), or by
    those before a bracket (`Phone (home)`); None for names that say none, or that count, date or
    flag a value (`phone_count`, `is_email`).

    >>> [find_kind_of_field(name) for name in ("customerEmail", "SSN", "電話番号", "email_count")]
    ['EMAIL_ADDRESS', 'US_SSN', 'PHONE_NUMBER', None]
    """
    if len(name) > _MAX_NAME_LENGTH:
        name = name.rpartition(".")[2]
    return _find_kind(name, tuple(all_kinds())) if len(name) <= _MAX_NAME_LENGTH else None


@functools.lru_cache(maxsize=1 << 16)
def _find_kind(name: str, kind_names: tuple[str, ...]) -> str | None:
    """The kind among the active ones; `kind_names` are their names."""
    kinds = _index_names(kind_names)
    # `phone.number`; the name of a field alone where what it is in says nothing: `n.ssn`
    for one in dict.fromkeys([name, name.rpartition(".")[2]]):
        for plain in dict.fromkeys([one, _IN_BRACKETS.sub("", one)]):
            if kind := _find_kind_of_words(split_field_name(plain), kinds):
                return kind
    return None


def _find_kind_of_words(words: tuple[str, ...], kinds: Mapping[str, str]) -> str | None:
    if kind := kinds.get("".join(words)):  # `ipv4`
        return kind
    while words and words[-1].isdigit():  # `phone_2`
        words = words[:-1]
    if not words or words[-1] in _OTHER_LAST_WORDS or words[0] in _OTHER_FIRST_WORDS:
        return None
    # the longest name decides: an `ip address` is no `address`
    found = (kinds.get("".join(words[first:])) for first in range(len(words)))
    return next(filter(None, found), None)


def says_number(name: str) -> bool:
    """Whether a field of numbers with this name holds values of a kind, by its name: `ssn`,
    `phone`, `date_of_birth`.

    >>> [name for name in ("ssn", "mobileNo", "phone_count", "id", "price") if says_number(name)]
    ['ssn', 'mobileNo']
    """
    kind = find_kind_of_field(name)
    return kind is not None and all_kinds()[kind].category in _NUMBER_CATEGORIES


def is_searched(name: str, data_type: pa.DataType, opt_in_kinds: Collection[str]) -> bool:
    """Whether a field of numbers or dates is searched: numbers by their name, dates by their type
    where a plan looks for them (DATE_TIME among its `opt_in_kinds`)."""
    return _DATES in opt_in_kinds if pa.types.is_temporal(data_type) else says_number(name)


def names_people(name: str, *, surely: bool = False) -> bool:
    """Whether a field names people, by its name: `author`, `from`, `post_author`, `firstName`; not
    `file_name` or `user_agent`. `surely`: not by a name that things have, too.

    >>> names = ("Sender", "firstName", "file_name", "to", "user_agent")
    >>> [name for name in names if names_people(name)]
    ['Sender', 'firstName', 'to']
    """
    return find_kind_of_field(name) in ("PERSON", "USER_NAME") or (
        not surely and is_ambiguous_people_name(name)
    )


def is_ambiguous_people_name(name: str) -> bool:
    """Whether things and the parties of a chat have this name as often as people: `name`, `from`,
    `manager`, `quoted_user`."""
    words = split_field_name(name)
    while words and words[-1].isdigit():
        words = words[:-1]
    if not words or words[0] in _OTHER_FIRST_WORDS:
        return False
    return words[-1] in _USER_WORDS or "".join(words) in _AMBIGUOUS_WORDS


def is_name_of_users(name: str) -> bool:
    """Whether an ambiguous name is that of accounts and addresses: `user`, `from`, `changed_by`."""
    words = split_field_name(name)
    return bool(words) and (words[-1] in _USER_WORDS or "".join(words) in _SENDER_WORDS)


def is_name_of_names(name: str) -> bool:
    """Whether an ambiguous name says that its values are names, not user names or addresses."""
    return not _NAME_WORDS.isdisjoint(split_field_name(name))


@functools.lru_cache(maxsize=4)
def _index_names(kind_names: tuple[str, ...]) -> Mapping[str, str]:
    """The kind of each name of a field, written as one word."""
    found: dict[str, str] = {}
    for name in kind_names:
        for field_name in (name.lower().replace("_", ""), *all_kinds()[name].field_names):
            found.setdefault(field_name.replace(" ", ""), name)
    return found
