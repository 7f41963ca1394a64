"""Mails, chat messages and forms in nine languages, with every personal value labelled, generated
from templates.

`languages/LANGUAGE.toml` has the templates and the forms of dates and telephone numbers; names,
postal addresses and account numbers are those of Faker's locale. Addresses use reserved domains.
Telephone numbers are from the ranges that a country keeps for fiction where there are such
(Germany, France), else invented. National identifiers have valid check digits; the checks are
computed here or by Faker, not by the kinds that are measured. Numbers of orders, invoices and
customers, and amounts, have no label.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import faker

from benchmarks.labelled_templates import LabelledText, fill_template

FOLDER = Path(__file__).with_name("languages")
LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "zh", "ja")
GROUPS = ("mail", "chat", "form")
NATIONAL_ID = "national id"  # the label of the identifiers of a country
_KINDS = {
    "name": "PERSON",
    "given": "PERSON",
    "family": "PERSON",
    "email": "EMAIL_ADDRESS",
    "phone": "PHONE_NUMBER",
    "iban": "IBAN_CODE",
    "id": NATIONAL_ID,
    "date": "DATE_TIME",
    "address": "LOCATION",
}
_DOMAINS = ("example.com", "example.org", "mail.example.net", "firma.example", "kontakt.test")


@dataclass(frozen=True)
class Language:
    """The templates of a language and the forms of its values, as its file has them."""

    settings: Mapping[str, Any]

    @classmethod
    def load(cls, language: str) -> Language:
        """The language of `languages/LANGUAGE.toml`."""
        return cls(tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")))

    @property
    def country(self) -> str:
        """The country whose identifiers occur in the texts."""
        return str(self.settings["country"])

    @property
    def templates(self) -> list[str]:
        """The templates of all groups."""
        return [template for group in GROUPS for template in self.settings[group]]

    def generate_texts(
        self, texts_per_template: int, seed: int = 1, *, unlisted_names: bool = False
    ) -> list[LabelledText]:
        """Each template as often as asked, filled from the seed. With `unlisted_names`, names are
        those that no list of Faker has."""
        source = ValueSource(self.settings, seed, unlisted_names)
        return [
            fill_template(template, source.draw)
            for template in self.templates
            for _ in range(texts_per_template)
        ]


class ValueSource:
    """Draws the values of one language."""

    def __init__(self, settings: Mapping[str, Any], seed: int, unlisted_names: bool) -> None:
        self.settings, self.random, self.unlisted_names = (
            settings,
            Random(seed),  # noqa: S311
            unlisted_names,
        )
        self.faker = faker.Faker(settings["locale"])
        self.accounts = faker.Faker(settings.get("iban_locale", settings["locale"]))
        self.faker.seed_instance(seed)
        self.accounts.seed_instance(seed)

    def draw(self, field: str) -> tuple[str | None, str, str]:
        """The kind of a value, if it has a label, the value, and text that follows it in this form
        but does not belong to it."""
        value: str = getattr(self, f"draw_{field}")()
        labelled, _, rest = value.partition("|")
        return _KINDS.get(field), labelled, rest

    def draw_given(self) -> str:
        return (
            self.random.choice(self.settings["unlisted_given"])
            if self.unlisted_names
            else self.faker.first_name()
        )

    def draw_family(self) -> str:
        return (
            self.random.choice(self.settings["unlisted_family"])
            if self.unlisted_names
            else self.faker.last_name()
        )

    def draw_name(self) -> str:
        given, family = self.draw_given(), self.draw_family()
        if self.settings["country"] == "CN":
            return family + given
        if self.settings["country"] == "JP":
            return family + self.random.choice(["", " ", "\u3000"]) + given
        return f"{given} {family}"

    def draw_email(self) -> str:
        return f"{self.faker.user_name()}@{self.random.choice(_DOMAINS)}"

    def draw_phone(self) -> str:
        return self.draw_digits(self.random.choice(self.settings["phones"]))

    def draw_iban(self) -> str:
        number = self.accounts.iban()
        return (
            number
            if self.random.random() < 0.4
            else " ".join(number[at : at + 4] for at in range(0, len(number), 4))
        )

    def draw_id(self) -> str:
        return _ID_SOURCES[self.settings["country"]](self)

    def draw_date(self) -> str:
        year, month, day = (
            self.random.randint(1940, 2025),
            self.random.randint(1, 12),
            self.random.randint(1, 28),
        )
        names = self.settings["months"]
        numbers = {
            "Y": year,
            "m": month,
            "d": day,
            "mm": f"{month:02d}",
            "dd": f"{day:02d}",
            "month": names[month - 1] if names else "",
        }
        return str(self.random.choice(self.settings["dates"]).format(**numbers))

    def draw_address(self) -> str:
        return self.faker.address().replace("\n", ", ")

    def draw_number(self) -> str:
        return self.draw_digits(
            self.random.choice(["######", "########", "####-####", "RE-20##-####", "##########"])
        )

    def draw_amount(self) -> str:
        return str(
            self.random.choice(
                [
                    self.random.randint(5, 999),
                    f"{self.random.randint(10, 99)},{self.random.randint(10, 99)}",
                ]
            )
        )

    def draw_hour(self) -> str:
        return str(self.random.randint(9, 21))

    def draw_digits(self, shape: str) -> str:
        return re.sub("#", lambda _: self.random.choice("0123456789"), shape)

    def format_groups(self, number: str, *shapes: tuple[str, tuple[int, ...]]) -> str:
        """The number unbroken, or in one of the forms: a separator and the sizes of the groups."""
        separator, sizes = self.random.choice([("", (len(number),)), *shapes])
        ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
        return separator.join(
            number[end - size : end] for end, size in zip(ends, sizes, strict=True)
        )


def compute_mod_11_10(digits: str) -> int:
    """The check digit of ISO 7064 MOD 11,10 (German tax identification number: Section 139b of the
    Fiscal Code, and the specification of the Federal Central Tax Office)."""
    product = 10
    for digit in digits:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10


def compute_mod_11(digits: str, weights: tuple[int, ...]) -> int:
    """11 minus the weighted sum modulo 11; 0 where that is 10 or 11 (Portuguese NIF, weights 9 to
    2; Japanese individual number: order 85 of 2014, weights 6 to 2 and 7 to 2)."""
    rest = sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True)) % 11
    return 0 if rest < 2 else 11 - rest


def _draw_german_id(source: ValueSource) -> str:
    # nine different digits, one of them twice, none thrice; no leading zero
    digits = source.random.sample("0123456789", 9)
    digits.insert(source.random.randint(1, 9), source.random.choice(digits))
    first = next(at for at, digit in enumerate(digits) if digit != "0")
    digits[0], digits[first] = digits[first], digits[0]
    number = "".join(digits)
    return source.format_groups(f"{number}{compute_mod_11_10(number)}", (" ", (2, 3, 3, 3)))


def _draw_french_id(source: ValueSource) -> str:
    return source.format_groups(source.faker.ssn().replace(" ", ""), (" ", (1, 2, 2, 2, 3, 3, 2)))


def _draw_spanish_id(source: ValueSource) -> str:
    """A number of a resident or a foreigner (X, Y, Z count as 0, 1, 2) with the letter of its
    remainder modulo 23 (Royal Decree 1553/2005; Faker draws its own from the clock)."""
    foreigner = source.random.choice("XYZ") if source.random.random() < 0.3 else ""
    digits = source.draw_digits("#######" if foreigner else "########")
    value = int("XYZ".index(foreigner) * 10**7 + int(digits) if foreigner else digits)
    number = f"{foreigner}{digits}{'TRWAGMYFPDXBNJZSQVHLCKE'[value % 23]}"
    return (
        source.format_groups(number, ("-", (1, 7, 1)))
        if foreigner
        else source.format_groups(number, ("-", (8, 1)), (" ", (8, 1)))
    )


def _draw_portuguese_id(source: ValueSource) -> str:
    number = source.random.choice("123") + source.draw_digits("#######")
    return source.format_groups(
        f"{number}{compute_mod_11(number, (9, 8, 7, 6, 5, 4, 3, 2))}", (" ", (3, 3, 3))
    )


def _draw_dutch_id(source: ValueSource) -> str:
    return source.format_groups(source.faker.ssn(), (".", (4, 2, 3)), (" ", (3, 3, 3)))


def _draw_japanese_id(source: ValueSource) -> str:
    number = source.draw_digits("###########")
    return source.format_groups(
        f"{number}{compute_mod_11(number, (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))}",
        (" ", (4, 4, 4)),
        ("-", (4, 4, 4)),
    )


_ID_SOURCES: dict[str, Callable[[ValueSource], str]] = {
    "DE": _draw_german_id,
    "FR": _draw_french_id,
    "ES": _draw_spanish_id,
    "IT": lambda source: source.faker.ssn(),
    "PT": _draw_portuguese_id,
    "NL": _draw_dutch_id,
    "PL": lambda source: source.faker.pesel(),
    "CN": lambda source: source.faker.ssn(),
    "JP": _draw_japanese_id,
}
