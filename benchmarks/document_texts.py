"""Judgments, contracts, medical notes and support mails with every personal value labelled,
generated from templates.

`documents/TYPE.txt` has the templates of a type, each below a line `== LOCALE`; `fields.toml` has
the values that are drawn by their form. A field with a number (`{name1}`, `{mail1}`, `{address1}`)
is of one person of the text. Names, postal addresses and most national identifiers are those of
Faker's locale; in English texts every third name is of another language. Addresses use reserved
domains, telephone numbers the ranges that a country keeps for fiction where there are such.
Companies, courts, amounts, and numbers of orders and invoices have no label. Templates at odd
positions of a file are `held out`: rules are changed after errors in the others alone.
"""

from __future__ import annotations

import re
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import faker

from benchmarks.labelled_templates import LabelledText, Spans, fill_template
from benchmarks.language_texts import LANGUAGES, Language, ValueSource

FOLDER = Path(__file__).with_name("documents")
TYPES = ("judgments", "contracts", "medical_notes", "support_mails")
FIELDS: Mapping[str, Mapping[str, Any]] = tomllib.loads((FOLDER / "fields.toml").read_text("utf-8"))
_DOMAINS = ("example.com", "example.org", "mail.example.net", "post.example", "inbox.test")
_FOREIGN_LOCALES = ("pl_PL", "de_DE", "es_MX", "en_IN", "tr_TR", "hr_HR", "id_ID", "fr_FR", "it_IT")
# of the locales that no file of `languages/` has; numbers kept for fiction
_PHONES = {
    "US": ["(21%) 555-01##", "61%-555-01##", "40%.555.01##", "+1 31% 555 01##", "1-71%-555-01##"],
    "CA": ["(41%) 555-01##", "60%-555-01##", "51% 555-01##"],
    "GB": ["020 7946 0###", "0114 496 0###", "+44 161 496 0###", "(0191) 498 0###"],
    "AU": ["(02) 5550 ####", "03 7010 ####", "+61 8 5550 ####"],
    "IE": ["020 91# ####", "+353 20 91# ####"],
    "NZ": ["09 555 01##", "+64 4 555 01##"],
    "IN": ["+91 9#### #####", "9#########", "0%# 2### ####"],
    "AT": ["01 317 06##", "+43 1 317 06##", "0664 17#####"],
    "MX": ["55 5### ####", "+52 55 5### ####"],
    "BR": ["(11) 95555-####", "+55 11 95555-####", "11 5555-####"],
}
_MOBILES = {"GB": ["07700 900###", "+44 7700 900###"], "AU": ["0491 57# ###"]}
_LOCAL_NUMBERS = {  # field: the method of Faker's locale
    "ssn": "ssn",
    "sin": "ssn",
    "svnr": "ssn",
    "codice_fiscale": "ssn",
    "bsn": "ssn",
    "nir": "ssn",
    "pesel": "pesel",
    "cpf": "cpf",
    "rvnr": "rvnr",
    "kvnr": "kvnr",
}
_PERSON = "PERSON"
_KINDS = {
    **dict.fromkeys(("name", "given", "surname", "short", "upname", "upsurname"), _PERSON),
    **dict.fromkeys(("upgiven", "last_first"), _PERSON),
    "mail": "EMAIL_ADDRESS",
    "upi": "EMAIL_ADDRESS",
    "user": "USER_NAME",
    "profile": "URL",
    "office": "EMAIL_ADDRESS",
    "site": "WEB_SITE",
    "phone": "PHONE_NUMBER",
    "mobile": "PHONE_NUMBER",
    "inphone": "PHONE_NUMBER",
    "brphone": "PHONE_NUMBER",
    "address": "STREET_ADDRESS",
    "street": "STREET_ADDRESS",
    "postcity": "STREET_ADDRESS",
    "dob": "DATE_OF_BIRTH",
    "iban": "IBAN_CODE",
    "card": "CREDIT_CARD",
    "plate": "VEHICLE_ID",
    "ssn": "US_SSN",
    **dict.fromkeys(("nino", "sin", "codice_fiscale", "bsn", "nir", "pesel"), "NATIONAL_ID"),
    **dict.fromkeys(("dni", "nie", "cpf", "steuer_id", "nif", "aadhaar"), "NATIONAL_ID"),
    **dict.fromkeys(("ppsn", "svnr", "rvnr"), "NATIONAL_ID"),
    "kvnr": "INSURANCE_NUMBER",
    "initials": None,
    **{name: field.get("kind") for name, field in FIELDS.items()},
}
# labels that do not identify a person alone, or which `redact` does not look for
INDIRECT = {
    "DATE_OF_BIRTH",
    "WEB_SITE",
    *(one["kind"] for one in FIELDS.values() if not one.get("direct", True)),
}
_PLATES = {
    "US": ["@@@ %###", "%@@@###", "@@@-%##"],
    "GB": ["@@%# @@@", "@@6% @@@"],
    "IE": ["12-@-%###"],
    "AU": ["@@@-%##", "1@@-%@@"],
    "FR": ["@@-%##-@@"],
    "NL": ["%#-@@-%#", "@@-%##-@"],
}


@dataclass(frozen=True)
class Template:
    """A text with fields, its type, and the locale of its values."""

    document_type: str
    locale: str
    text: str
    held_out: bool


@dataclass(frozen=True)
class Document:
    """A labelled text and the template that it was made from."""

    template: Template
    text: str
    spans: Spans


def read_templates(document_type: str) -> list[Template]:
    """The templates of a type, in the order of its file."""
    parts = re.split(r"(?m)^== (\w+)\n", (FOLDER / f"{document_type}.txt").read_text("utf-8"))
    return [
        Template(document_type, locale, text, held_out=number % 2 == 1)
        for number, (locale, text) in enumerate(zip(parts[1::2], parts[2::2], strict=True))
    ]


def generate_documents(texts_per_template: int, seed: int = 1) -> list[Document]:
    """Each template of each type as often as asked, filled from the seed."""
    drawn = []
    sources: dict[str, _LocaleSource] = {}
    foreign = [_seeded_faker(locale, seed) for locale in _FOREIGN_LOCALES]
    for document_type in TYPES:
        for template in read_templates(document_type):
            if template.locale not in sources:
                sources[template.locale] = _LocaleSource(template.locale, seed, foreign)
            source = sources[template.locale]
            for _ in range(texts_per_template):
                filled = fill_template(template.text, _PeopleOfText(source).draw)
                spans = _join_neighbours(filled)
                drawn.append(Document(template, filled.text, spans))
    return drawn


def _join_neighbours(filled: LabelledText) -> Spans:
    """The labels, with the parts of a name and the lines of an address as one."""
    joined: list[tuple[int, int, str]] = []
    for start, end, kind in filled.spans:
        between = filled.text[joined[-1][1] : start] if joined else "."
        gap = {_PERSON: r" ", "STREET_ADDRESS": r"\n *"}.get(kind)
        if gap and joined[-1:] and joined[-1][2] == kind and re.fullmatch(gap, between):
            joined[-1] = (joined[-1][0], end, kind)
        else:
            joined.append((start, end, kind))
    return tuple(joined)


def _seeded_faker(locale: str, seed: int) -> faker.Faker:
    source = faker.Faker(locale)
    source.seed_instance(seed)
    return source


class _LocaleSource:
    """Draws values in the forms of a locale."""

    def __init__(self, locale: str, seed: int, foreign: Sequence[faker.Faker]) -> None:
        self.random = Random(f"{locale} {seed}")  # noqa: S311
        language, self.country = locale.split("_")
        settings: Mapping[str, Any]
        if language in LANGUAGES and Language.load(language).settings["locale"] == locale:
            settings = Language.load(language).settings
        else:
            phones = _PHONES[self.country]
            settings = {"locale": locale, "country": self.country, "phones": phones}
        self.settings = settings
        iban = {"iban_locale": "en_GB"} if self.country in ("US", "CA", "IN", "BR") else {}
        self.values = ValueSource({**settings, **iban}, seed, unlisted_names=False)
        self.faker = _seeded_faker(locale, seed)
        self.foreign = foreign if language == "en" else ()

    def draw_full_name(self) -> tuple[str, str]:
        """A given name and a surname."""
        is_foreign = self.foreign and self.random.random() < 1 / 3
        source = self.random.choice(self.foreign) if is_foreign else self.faker
        return source.first_name(), source.last_name()

    def draw_address(self) -> tuple[str, str]:
        """Street and number; city, region and postal code."""
        if self.country == "US":
            state = self.faker.state_abbr(False, False)  # no territories, no associated states
            city = f"{self.faker.city()}, {state} {self.faker.postcode()}"
            return self.faker.street_address().replace("\n", ", "), city
        first, *rest = self.faker.address().split("\n")
        return first.strip(" ,"), ", ".join(filter(None, rest))

    def draw_value(self, field: str) -> str:
        """A value that belongs to no person of the text."""
        if field in FIELDS:
            return self._draw_checked(FIELDS[field])
        if field in _LOCAL_NUMBERS:
            return str(getattr(self.faker, _LOCAL_NUMBERS[field])())
        own: dict[str, Callable[[], str]] = {
            "phone": lambda: self.fill_shape(self.random.choice(self.settings["phones"])),
            "mobile": lambda: self.fill_shape(
                self.random.choice(_MOBILES.get(self.country, self.settings["phones"]))
            ),
            "inphone": lambda: self.fill_shape(self.random.choice(_PHONES["IN"])),
            "brphone": lambda: self.fill_shape(self.random.choice(_PHONES["BR"])),
            "iban": self.values.draw_iban,
            **dict.fromkeys(("dni", "nie", "steuer_id", "nif"), self.values.draw_id),
            "ppsn": self._draw_ppsn,
            "aadhaar": self._draw_aadhaar,
            "office": lambda: f"help.desk@{self.random.choice(_DOMAINS)}",
            "site": lambda: self.fill_shape("https://www.example.net/&&&&/##"),
            "card": self._draw_card,
            "plate": lambda: self.fill_shape(
                self.random.choice(_PLATES.get(self.country, _PLATES["US"]))
            ),
        }
        return own[field]()

    def draw_birthday(self) -> str:
        """A date in a form of the country."""
        day = date(self.random.randint(1938, 2012), self.random.randint(1, 12), 1)
        day = day.replace(day=self.random.randint(1, 28))
        if self.settings.get("months"):
            names = {"month": self.settings["months"][day.month - 1]}
            form = self.random.choice(self.settings["dates"])
        else:
            names = {"month": day.strftime("%B")}
            form = self.random.choice(
                ["{mm}/{dd}/{Y}", "{month} {d}, {Y}", "{m}/{d}/{yy}"]
                if self.country in ("US", "CA")
                else ["{dd}/{mm}/{Y}", "{d} {month} {Y}", "{dd}.{mm}.{Y}"]
            )
        parts = {"Y": day.year, "m": day.month, "d": day.day, "yy": f"{day.year % 100:02d}"}
        return str(form.format(**parts, **names, mm=f"{day.month:02d}", dd=f"{day.day:02d}"))

    def fill_shape(self, shape: str) -> str:
        """A shape of `fields.toml` with its digits and letters drawn."""
        drawn = {
            "#": string.digits,
            "%": "123456789",
            "@": "ABCDEFGHJKLMNPRSTUVWXYZ",
            "&": "abcdefghijkmnopqrstuvwxyz",
            "~": string.digits + string.ascii_letters,
        }
        return re.sub("[#%@&~]", lambda mark: self.random.choice(drawn[mark[0]]), shape)

    def _draw_checked(self, field: Mapping[str, Any]) -> str:
        while True:
            value = self.fill_shape(self.random.choice(field["shapes"]))
            digits = [int(one) for one in value if one.isdigit()]
            if check := field.get("check"):
                pairs = zip(digits, check["weights"], strict=True)
                if sum(digit * weight for digit, weight in pairs) % check["modulus"]:
                    continue
            if "luhn" in field and _sum_luhn(field["luhn"] + "".join(map(str, digits))) % 10:
                continue
            return value

    def _draw_card(self) -> str:
        number = self.faker.credit_card_number("visa16")
        groups = [number[at : at + 4] for at in range(0, 16, 4)]
        return self.random.choice(["", " ", "-"]).join(groups)

    def _draw_aadhaar(self) -> str:
        """An Indian number: twelve digits, the last one Verhoeff's check digit."""
        first = self.fill_shape("5%#########")
        number = next(first + last for last in string.digits if not _sum_verhoeff(first + last))
        return self.random.choice([number, f"{number[:4]} {number[4:8]} {number[8:]}"])

    def _draw_ppsn(self) -> str:
        """An Irish number: weights 8 to 2, the remainder modulo 23 as a letter."""
        digits = self.fill_shape("%######")
        total = sum(int(one) * weight for one, weight in zip(digits, range(8, 1, -1), strict=True))
        return digits + "WABCDEFGHIJKLMNOPQRSTUV"[total % 23]


def _multiply_dihedral(left: int, right: int) -> int:
    """The product in the dihedral group of order ten."""
    turn = right if left < 5 else -right
    return (left + turn) % 5 + 5 * ((left < 5) != (right < 5))


def _sum_verhoeff(digits: str) -> int:
    """0 if the last digit is Verhoeff's check digit (Error Detecting Decimal Codes, 1969)."""
    total, permuted = 0, list(range(10))
    for digit in reversed(digits):
        total = _multiply_dihedral(total, permuted[int(digit)])
        permuted = [permuted[one] for one in (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)]
    return total


def _sum_luhn(digits: str) -> int:
    """The Luhn sum (ISO/IEC 7812-1, annex B)."""
    doubled = (int(one) * (1 + at % 2) for at, one in enumerate(reversed(digits)))
    return sum(value // 10 + value % 10 for value in doubled)


class _PeopleOfText:
    """The people of one text: the same number is the same person in all fields."""

    def __init__(self, source: _LocaleSource) -> None:
        self.source = source
        self.values: dict[tuple[str, str], str] = {}

    def draw(self, field: str) -> tuple[str | None, str, str]:
        """The kind of a field, if it has a label, its value, and no text behind it."""
        name = field.rstrip(string.digits)
        number = field[len(name) :] or f"of value {len(self.values)}"
        return _KINDS[name], self._draw_of_person(name, number), ""

    def _draw_of_person(self, field: str, number: str) -> str:
        if (field, number) not in self.values:
            self.values[field, number] = self._derive(field, number)
        return self.values[field, number]

    def _derive(self, field: str, number: str) -> str:
        if field == "first_last":
            return "\t".join(self.source.draw_full_name())
        if field == "street_city":
            return "\t".join(self.source.draw_address())
        if field == "dob":
            return self.source.draw_birthday()
        if field in ("address", "street", "postcity"):
            street, city = self._draw_of_person("street_city", number).split("\t")
            return {"address": f"{street}, {city}", "street": street, "postcity": city}[field]
        given, surname = self._draw_of_person("first_last", number).split("\t")
        random = self.source.random
        plain = [re.sub("[^a-z]", "", one.lower()) or "post" for one in (given, surname)]
        login = random.choice([f"{plain[0][0]}{plain[1]}", ".".join(plain), plain[0] + "%#"])
        derived = {
            "name": f"{given} {surname}",
            "given": given,
            "surname": surname,
            "short": f"{given[0]}. {surname}",
            "upname": f"{given} {surname}".upper(),
            "upgiven": given.upper(),
            "upsurname": surname.upper(),
            "last_first": f"{surname}, {given}",
            "initials": given[0] + surname[0],
            "mail": f"{self.source.fill_shape(login)}@{random.choice(_DOMAINS)}",
            "upi": f"{self.source.fill_shape(login)}@okbank",
            "user": self.source.fill_shape(random.choice([login, f"{plain[1][:6]}_%#"])),
            "profile": f"https://forum.example.org/u/{plain[0]}-{plain[1]}",
        }
        return derived[field] if field in derived else self.source.draw_value(field)
