"""Invented texts with labelled names: templates filled with names of many countries.

`templates/<language>.txt` has texts, separated by a line `%%`, whose first line is `# genre`;
placeholders are described in README.md. Names come from `names/<country>.txt` and from Faker's
locales. Everything is drawn from a seed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import random
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{\{(?:(lower|upper) )?(\w+?)(?::(\d))?\}\}")
_CHOICE = re.compile(r"\[\[([^\]]*)\]\]")
_LATIN_NAME = re.compile(r"[^\W\d_](?:[^\W\d_]|[ '’\-])+")
# how often a pool is drawn, by what its name begins with; others 1
_WEIGHTS = {
    "en_US": 8,
    "en_GB": 4,
    "in_": 3,
    "ng_": 2,
    "zh": 4,
    "cn": 4,
    "vi": 2,
    "vn": 3,
    "kr": 3,
    "jp": 3,
}
_PHRASES_SHARE = 0.25  # of the texts that begin with lines of capitalised common words
# of the given names and of the surnames: spelt from two names of a list, so that no name is worth
# learning by heart
_INVENTED_SHARE = 0.6
_NO_NAMES_WEIGHT = 2.0  # of the templates without names
_LANGUAGE_POOLS = {"cs": ("cs_CZ",), "uk": ("uk_UA", "ua_latin"), "el": ("el_GR",)}
_WORDS = (
    "Atlas Borealis Cobalt Delta Everest Falcon Granite Horizon Ion Jade Krypton Lumen Meridian"
    " Nimbus Orbit Pinnacle Quartz Ridge Summit Titan Umbra Vertex Willow Xenon Yield Zenith"
).split()
# what follows the name of a company, some after a blank and a second word
_SUFFIXES = (
    "Inc|Ltd|GmbH|LLC|Corp|Bank|Energy|Group|Partners|Labs|S.A.|Holdings|Foods|Controls|Medical"
    "|Health|Health Care|Medical Center|Hospital|Clinic|Investments|Capital|Technologies|Systems"
    "|Transit|Railways|Airlines|Orchestra|Quartet|Museum|University|College|High School|Prep"
    "|Institute|Foundation|Trust|Insurance|Supply|Motors|Steel|Logistics|Van Lines|Press|& Co."
    "|and Sons|& Sons|Brothers|Associates|Law Firm|Pharmacy|Hotel|Stadium|Sport Complex|Airport"
).split("|")
_STREETS = (
    "Street",
    "Road",
    "Avenue",
    "Lane",
    "St",
    "Drive",
    "Dr",
    "Ave",
    "Boulevard",
    "Terrace",
    "Way",
    "Court",
    "Square",
    "Park",
    "Extensions",
    "Parkway",
    "Gardens",
    "Mews",
)
# before and after the name of a street of further languages
_FURTHER_STREETS = (
    ("", " u."),
    ("", " utca"),
    ("", " tér"),
    ("ul. ", ""),
    ("Calle ", ""),
    ("Via ", ""),
    ("Vicolo ", ""),
    ("Rua ", ""),
    ("rue ", ""),
    ("avenue ", ""),
    ("Place ", ""),
    ("", "straße"),
    ("", "weg"),
    ("", "plein"),
    ("", "laan"),
    ("", "vej"),
    ("", "gatan"),
    ("", " Caddesi"),
    ("Jalan ", ""),
    ("Strada ", ""),
    ("Plaza ", ""),
    ("Praça ", ""),
    ("", "katu"),
)


@dataclass(frozen=True)
class NamePool:
    """Names of one country; `surname_first` says in which order full names are written."""

    given: tuple[str, ...]
    surnames: tuple[str, ...]
    surname_first: bool = False


@dataclass(frozen=True)
class TrainingText:
    """A text, and its names as spans of code points; `person` numbers the people of a text."""

    text: str
    spans: tuple[tuple[int, int, int], ...]


def read_templates(folder: Path = FOLDER / "templates") -> dict[str, list[tuple[str, str]]]:
    """By language: (genre, text) of every template."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(folder.glob("*.txt")):
        for block in re.split(r"(?m)^%%[ \t]*\n", path.read_text("utf-8")):
            head, _, body = block.strip("\n").partition("\n")
            if body.strip():
                found.setdefault(path.stem, []).append((head.lstrip("# ").strip(), body))
    return found


@functools.cache
def read_pools() -> Mapping[str, NamePool]:
    """The names of the lists of this folder and of Faker's locales, by country or locale."""
    pools: dict[str, NamePool] = {}
    for path in sorted((FOLDER / "names").glob("*.txt")):
        parts: dict[str, list[str]] = {"given": [], "surname": []}
        part, surname_first = None, False
        for line in map(str.strip, path.read_text("utf-8").splitlines()):
            if line.startswith("order:"):
                surname_first = line.removeprefix("order:").split()[0] == "surname"
            elif line.startswith("["):
                part = line.strip("[]")
            elif line and part and not line.startswith("#"):
                parts[part].append(line)
        pools[path.stem] = NamePool(tuple(parts["given"]), tuple(parts["surname"]), surname_first)
    pools.update(_read_faker_pools())
    return pools


def _read_faker_pools() -> dict[str, NamePool]:
    """Names of Faker's locales in scripts that have case; given names serve as surnames where a
    locale has none."""
    import faker.providers.person as locales

    pools = {}
    for module in sorted(one.name for one in pkgutil.iter_modules(locales.__path__)):
        provider = importlib.import_module(f"{locales.__name__}.{module}").Provider
        found: dict[str, set[str]] = {"first": set(), "last": set()}
        for attribute, values in sorted(vars(provider).items()):
            part = "first" if "first" in attribute else "last" if "last" in attribute else ""
            if part and "name" in attribute and isinstance(values, (tuple, list, dict)):
                found[part].update(str(value) for value in values)
        given, surnames = (
            tuple(sorted(one for one in found[part] if _has_case(one)))
            for part in ("first", "last")
        )
        if len(given) >= 15:
            pools[module] = NamePool(given, surnames if len(surnames) >= 8 else given)
    return pools


def _has_case(name: str) -> bool:
    return (
        2 <= len(name) <= 24
        and _LATIN_NAME.fullmatch(name) is not None
        and unicodedata.category(name[0]) == "Lu"
    )


@dataclass
class _Person:
    given: str
    surname: str
    second: str
    surname_first: bool

    @property
    def full(self) -> str:
        parts = [self.surname, self.given] if self.surname_first else [self.given, self.surname]
        return " ".join(parts)


class TextWriter:
    """Fills templates with names and other values, from a seed."""

    def __init__(self, seed: int, pools: Mapping[str, NamePool] | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.pools = dict(read_pools() if pools is None else pools)
        self.names = sorted(self.pools)
        self.weights = [
            next((w for start, w in _WEIGHTS.items() if name.startswith(start)), 1)
            for name in self.names
        ]
        self.templates = [
            (language, genre, text)
            for language, texts in read_templates().items()
            for genre, text in texts
        ]
        self.common_words = _list_common_words()
        # English has as many texts as all other languages together
        english = sum(language.startswith("en") for language, _, _ in self.templates)
        others = max(len(self.templates) - english, 1)
        self.template_weights = [
            (others / max(english, 1) if language.startswith("en") else 1.0)
            * (_NO_NAMES_WEIGHT if genre == "none" else 1.0)
            for language, genre, _ in self.templates
        ]

    def write(self, count: int) -> list[TrainingText]:
        """That many texts, each of one to three templates."""
        out = []
        for _ in range(count):
            chosen = self.random.choices(
                self.templates, self.template_weights, k=self.random.choice((1, 1, 2, 3))
            )
            text, spans = "", []
            if self.random.random() < _PHRASES_SHARE:
                text = self._write_phrases()
            for number, (language, _, template) in enumerate(chosen):
                if text:
                    text += self.random.choice(("\n", "\n\n"))
                filled, found = self._fill(template, language)
                spans += [
                    (start + len(text), end + len(text), 10 * number + person)
                    for start, end, person in found
                ]
                text += filled
            out.append(TrainingText(text, tuple(spans)))
        return out

    def _write_phrases(self) -> str:
        """Lines of common words of which some are capitalised, as in headings and defined terms of
        contracts, with places, companies and abbreviations: no names."""
        draw = self.random
        lines = []
        for _ in range(draw.randint(1, 5)):
            style = draw.random()
            words: list[str] = []
            for _ in range(draw.randint(2, 12)):
                run = draw.choices(self.common_words, k=draw.choice((1, 1, 2, 3)))
                chance = draw.random()
                if style < 0.25 or chance < 0.35:
                    run = [word.capitalize() for word in run]
                elif style < 0.35:
                    run = [word.upper() for word in run]
                if chance > 0.95:
                    run = [self._draw_company(self._draw_person(self._draw_pool("en")))]
                elif chance > 0.9:
                    run = [self._draw_place()]
                elif chance > 0.86:
                    run = ["".join(draw.choices("ABCDEFGHILMNOPRSTUVX", k=draw.randint(2, 5)))]
                words += run
                if draw.random() < 0.15:
                    words[-1] += draw.choice((",", ".", ":", ";", " -", " /"))
            lines.append(" ".join(words))
        return "\n".join(lines)

    def _draw_pool(self, language: str) -> NamePool:
        near = [
            name
            for name in self.names
            if name.startswith(f"{language}_") or name in _LANGUAGE_POOLS.get(language, ())
        ]
        if not language.startswith("en") and near and self.random.random() < 0.6:
            return self.pools[self.random.choice(near)]
        return self.pools[self.random.choices(self.names, self.weights)[0]]

    def _draw_person(self, pool: NamePool) -> _Person:
        draw = self.random
        given, surname = draw.choice(pool.given), draw.choice(pool.surnames)
        chance = draw.random()
        if chance < 0.05:
            given = f"{given}{draw.choice(' -')}{draw.choice(pool.given)}"
        elif chance < 0.09:
            surname = f"{surname}-{draw.choice(pool.surnames)}"
        elif chance < 0.11:
            surname = f"{surname} {draw.choice(pool.surnames)}"
        elif chance < 0.13:
            particle = draw.choice(("van", "de", "von", "da", "del", "van der", "bin", "el"))
            surname = f"{particle} {surname}"
        if draw.random() < _INVENTED_SHARE:
            given = self._invent(pool.given)
        if draw.random() < _INVENTED_SHARE:
            surname = self._invent(pool.surnames)
        return _Person(given, surname, draw.choice(pool.given), pool.surname_first)

    def _invent(self, names: Sequence[str]) -> str:
        """The beginning of one name and the end of another."""
        one, other = self.random.choice(names), self.random.choice(names)
        invented = one[: (len(one) + 1) // 2] + other[len(other) // 2 :].lower()
        return invented if _has_case(invented) else one

    def _fill(self, template: str, language: str) -> tuple[str, list[tuple[int, int, int]]]:
        people: dict[str, _Person] = {}
        spans = []
        out, last = "", 0
        template = _CHOICE.sub(lambda place: self.random.choice(place[1].split("|")), template)
        pool = self._draw_pool(language)
        for place in _PLACEHOLDER.finditer(template):
            out += template[last : place.start()]
            last = place.end()
            case, field, number = place.groups()
            key = number or f"at {place.start()}"
            if key not in people:
                if self.random.random() < 0.4:
                    pool = self._draw_pool(language)
                people[key] = self._draw_person(pool)
            value, is_name = self._write_value(field, people[key])
            value = (
                value.lower() if case == "lower" else value.upper() if case == "upper" else value
            )
            if is_name:
                spans.append((len(out), len(out) + len(value), list(people).index(key) % 10))
            out += value
        return out + template[last:], spans

    def _write_value(self, field: str, person: _Person) -> tuple[str, bool]:
        """The value of a placeholder, and whether it is a name."""
        names = {
            "full": person.full,
            "given": person.given,
            "one": person.given,
            "surname": person.surname,
            "surname_given": f"{person.surname}, {person.given}",
            "initial_surname": f"{person.given[0]}. {person.surname}",
            "given_initial_surname": f"{person.given} {person.second[0]}. {person.surname}",
        }
        if field in names:
            value = names[field]
            if field == "full" and self.random.random() < 0.06:
                value = f"{person.given[0]}.{person.second[0]}. {person.surname}"
            return value, True
        draw = self.random
        login = re.sub(r"[^a-z.]", "", f"{person.given}.{person.surname}".lower())
        numbers = "".join(draw.choice("0123456789") for _ in range(draw.randint(2, 8)))
        place = self._draw_place()
        values = {
            "email": f"{login or 'info'}@example.org",
            "login": login.replace(".", "")[:8] or "root",
            "place": place,
            "company": self._draw_company(person),
            "street": self._draw_street(person),
            "number": numbers,
            "date": f"{draw.randint(1, 28)} {draw.choice(_MONTHS)} {draw.randint(1980, 2024)}"
            if draw.random() < 0.5
            else f"{draw.randint(2000, 2024)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
            "time": f"{draw.randint(0, 23)}:{draw.randint(0, 59):02}",
            "word": draw.choice(("report", "meeting", "order", "table", "budget", "release")),
        }
        if field not in values:
            raise ValueError(f"{{{{{field}}}}}: there is no such placeholder; see README.md")
        return values[field], False

    def _draw_company(self, person: _Person) -> str:
        draw = self.random
        other = self._draw_person(
            draw.choice((self.pools["en_US"], self.pools["en_US"], self._draw_pool("en")))
        )
        chance = draw.random()
        if chance < 0.06:
            return f"{person.surname}-{other.surname}"
        if chance < 0.12:
            return f"{person.surname} {other.surname}"
        if chance < 0.18:
            return f"{person.surname}, {other.surname} and {other.second}"
        head = draw.choice(_WORDS)
        if chance < 0.55:
            head = other.surname
        elif chance < 0.65:
            head = self._draw_place()
        elif chance < 0.7:
            head = person.full
        if draw.random() < 0.15:
            head = f"{head} & {draw.choice(_WORDS)}"
        return f"{head} {draw.choice(_SUFFIXES)}"

    def _draw_street(self, person: _Person) -> str:
        draw = self.random
        name = draw.choice((person.surname, person.given, person.full, self._draw_place()))
        number = draw.randint(1, 9999 if draw.random() < 0.3 else 200)
        if draw.random() < 0.6:
            return f"{number} {name} {draw.choice(_STREETS)}"
        before, after = draw.choice(_FURTHER_STREETS)
        return f"{before}{name}{after} {number}{draw.choice(('', '.', ''))}"

    def _draw_place(self) -> str:
        return self.random.choice(_list_places())


@functools.cache
def _list_common_words() -> tuple[str, ...]:
    """English words in lower case: those of the templates, of `common_words.py` and of Faker's
    texts (MIT), without the names of the lists."""
    from faker.providers.lorem.en_US import Provider

    from sanitize.text.common_words import COMMON_WORDS

    plain = " ".join(_PLACEHOLDER.sub(" ", text) for _, text in read_templates().get("en", []))
    words = {*re.findall(r"\b[a-z]{3,}\b", plain), *Provider.word_list}
    return tuple(sorted({*words, *COMMON_WORDS} - {""}))


_MONTHS = (
    "January February March April May June July August September October November December"
    " Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec"
).split()


@functools.cache
def _list_places() -> tuple[str, ...]:
    """Cities and countries of Faker's locales in Latin script."""
    import faker.providers.address as locales

    found = set()
    for module in sorted(one.name for one in pkgutil.iter_modules(locales.__path__)):
        provider = importlib.import_module(f"{locales.__name__}.{module}").Provider
        for attribute in ("cities", "city_names", "countries", "states", "cities_name"):
            values = getattr(provider, attribute, ())
            if isinstance(values, (tuple, list)):
                found.update(one for one in values if isinstance(one, str) and _has_case(one))
    return tuple(sorted(found))
