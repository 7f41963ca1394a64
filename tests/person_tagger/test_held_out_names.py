"""Held-out names are in no list from which the tagger of people's names learns."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "person_tagger"
ORIGINS = sorted((FOLDER / "held_out").glob("*.txt"))
POOLS = sorted((FOLDER / "names").glob("*.txt"))


def people(path: Path) -> list[tuple[str, ...]]:
    """Return the given name and the surname of each line of a held-out file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("order:")]


@cache
def pool_names() -> frozenset[str]:
    """Return the names of all pools, and each word of those of several words, in lower case."""
    names: set[str] = set()
    for path in POOLS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("[", "order:")):
                names |= {line.casefold(), *line.casefold().split()}
    return frozenset(names)


@cache
def faker_names() -> frozenset[str]:
    """Return the given names and surnames of all locales of Faker in lower case."""
    person = pytest.importorskip("faker.providers.person")
    names: set[str] = set()
    for locale in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{locale.name}").Provider
        for attribute in dir(provider):
            values = getattr(provider, attribute)
            if "_name" in attribute and isinstance(values, (tuple, list, dict)):
                # Japanese lists hold (kanji, kana, romaji) for each name.
                for value in values:
                    spellings = (value,) if isinstance(value, str) else value
                    names |= {str(spelling).casefold() for spelling in spellings}
    return frozenset(names)


def test_twelve_origins_are_held_out():
    assert len(ORIGINS) == 12


@pytest.mark.parametrize("path", ORIGINS, ids=lambda path: path.stem)
def test_origin_has_300_distinct_people_of_two_parts(path):
    held_out = people(path)
    assert len(set(held_out)) == len(held_out) == 300
    assert {len(parts) for parts in held_out} == {2}
    assert all(part == part.strip() and part for parts in held_out for part in parts)


@pytest.mark.parametrize("path", ORIGINS, ids=lambda path: path.stem)
@pytest.mark.parametrize("known", [pool_names, faker_names])
def test_no_part_is_in_a_list_to_learn_from(path, known):
    parts = {part.casefold() for names in people(path) for part in names}
    assert len(known()) > 1000
    assert sorted(parts & known()) == []


@pytest.mark.parametrize("path", POOLS, ids=lambda path: path.stem)
def test_pool_has_both_sections_without_repetition(path):
    text = path.read_text(encoding="utf-8").removeprefix("order: surname given\n")
    given, surnames = text.removeprefix("[given]\n").split("[surname]\n")
    for section in (given.splitlines(), surnames.splitlines()):
        assert len(set(section)) == len(section) >= 50
        assert all(name and name == name.strip() for name in section)
