"""Postal addresses: whole spans by country, near misses, coverage of generated addresses, and time
that is linear. All people and addresses are invented."""

from __future__ import annotations

import random
import re
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.core.arrow_buffers import TextBuffers, find_matches
from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import builtin_kinds
from tests.support import make_draws

KIND = builtin_kinds()["STREET_ADDRESS"]
FINDER = PatternFinder(Key.from_seed(3), (), ["STREET_ADDRESS"])


def find(texts: list[str]) -> list[list[str]]:
    """The addresses in each text."""
    found = FINDER.run(pa.array(texts, pa.large_string()))
    values: list[list[str]] = [[] for _ in texts]
    for text_no, value_no in zip(found.text_no.tolist(), found.value_no.tolist(), strict=True):
        if FINDER.kinds[found.values.kind[value_no]].name == KIND.name:
            values[text_no].append(found.values.value[value_no].as_py())
    return values


ADDRESSES = {
    "US": [
        "12 Larkspur Lane, Springfield, IL 62704",
        "4500 N. Quillfeather St., Suite 210, Austin, TX 78701-1234",
        "77 W. Brindle Ave. #5\nSpringfield, IL 62704",
        "301 East 42nd Street, 3rd Floor\n  New York, NY 10017\n  USA",
        "P.O. Box 1234, Reno, NV 89501",
        "1600 larkspur avenue nw, washington dc 20500",
        "PSC 1234, Box 5678\nAPO AE 09123",
        "1812 Quill\nHouston, TX 77002",
        "12 Larkspur Lane;Springfield;IL;62704;USA",
    ],
    "GB": [
        "Flat 3, 12 Larkspur Road, London NW1 6XE",
        "24, Brindle Close, Banbury, Oxon, OX16 4QJ",
        "7 High Street\nLarkham\nKent\nTN1 1AA\nUnited Kingdom",
    ],
    "CA": [
        "1300 Brindle Road Suite 211\nToronto, Ontario M3B 2W6",
        "88 Larkspur Cres, Apt 4, Ottawa, ON K1A 0B1".replace("Cres", "Crescent"),
    ],
    "DE": [
        "Larkspurstraße 12a, 10115 Berlin",
        "Quittenweg 5\n80331 München\nDeutschland",
        "Karl-Quitte-Straße 12, D-52074 Aachen",
        "Berliner Str. 7, 50667 Köln",
        "Postfach 1234, 10115 Berlin",
        "D-10115 Berlin",
    ],
    "FR": [
        "12 rue de la Larche, 75011 Paris",
        "5 bis avenue des Tilleuls, 69003 Lyon",
        "18, boulevard Quillon\n13001 Marseille\nFrance",
    ],
    "ES": ["Calle de Larchena 12, 28013 Madrid", "Avda. Quillón, 45, 41001 Sevilla"],
    "IT": ["Via Larchetti 12, 00184 Roma (RM)", "Piazza Quilli, 3\n20121 Milano"],
    "NL": ["Larkstraat 12, 1012 AB Amsterdam", "Quillgracht 5a\n3511 LX Utrecht"],
    "PL": [
        "ul. Larkowa 5/7, 00-950 Warszawa",
        "al. Quillowa 12, 31-000 Kraków".replace("al.", "aleja"),
    ],
    "PT": ["Rua da Larcha, 12, 1200-109 Lisboa", "Avenida Quilha 45, 01310-100 São Paulo"],
    "JP": [
        "〒100-0005 青葉県緑川市桜台1-2-3",
        "青葉県緑川市若松町2丁目3番4号",
        "1-2-3 Larkdai, Midori-ku, Tokyo 100-0005",
    ],
}
FRAMES = ("I live at {}.", "Ann Roe\n{}\n", "> Ann Roe\n> {}\n> hello", "({})")


@pytest.mark.parametrize("country", ADDRESSES)
def test_an_address_is_one_value(country: str) -> None:
    addresses = [
        re.sub("\n", "\n> ", one) if frame.startswith(">") else one
        for one in ADDRESSES[country]
        for frame in FRAMES
    ]
    texts = [frame.format(one) for one, frame in zip(addresses, FRAMES * 99, strict=False)]
    assert find(texts) == [[one] for one in addresses]


def test_labels_show_what_nothing_else_does() -> None:
    cases = {
        "Address: 7 Quillfeather": "7 Quillfeather",
        "Adresse : Quillholm 12, 2300 Larkby": "Quillholm 12, 2300 Larkby",
        "Dirección: Quillena 12": "Quillena 12",
        "ship to 88 Quillfeather, Larkham": "88 Quillfeather, Larkham",
        "PLZ 10115": "10115",
        "postal code K1A 0B1": "K1A 0B1",
        "my zip code is 02139.": "02139",
    }
    assert find(list(cases)) == [[value] for value in cases.values()]


NEAR_MISSES = (
    "12 monkeys drive a car",
    "in 2001 Main events",
    "5 Way",
    "On Oct. 19, The Wall Street Journal wrote",
    "since 1999 Wall Street fell",
    "3 Supreme Court",
    "Plaza Club 11-2pm",
    "Arbeitsplatz 5 ist frei",
    "et al. 12, 3 Days, 4 Roads",
    "the DJIA 10153 and PID 23168",
    "10115 Berlin",
    "12 Ask Dr. Roe about it",
    "C/Mslqc0R4LEJS5v+7WC9 x",
    "place = 12; street = 5; x[3] = Road(7)",
    "from 10:00 PM CT to 11 AM PT",
    "1 2 3 4 5 6 7 8",
    "$12 Park fees and 1,200 Hill tickets",
    "address: 0x7ffe12 or 10.0.0.1",
    "version 2.10 Park of 2001-02-03",
)


def test_near_misses() -> None:
    assert dict(zip(NEAR_MISSES, find(list(NEAR_MISSES)), strict=True)) == dict.fromkeys(
        NEAR_MISSES, []
    )


# country -> templates: {n} number, {N} name, {C} city, {z} five digits, and letters and digits of
# other codes; `|` is a line break
TEMPLATES = {
    "US": (
        "{n} {N} Street, {C}, TX {z}",
        "{n} {N} {N} Ave., Apt {n}|{C}, CA {z}",
        "{n} {N} Dr|{C} NY {z}",
    ),
    "GB": ("{n} {N} Road, {C} SW1A 1AA", "{n} {N} Gardens|{C}|LS1 4DY"),
    "CA": ("{n} {N} Avenue, {C}, ON K1A 0B1", "{n} {N} Blvd|{C} QC H3Z 2Y7|Canada"),
    "DE": ("{N}straße {n}, {z} {C}", "{N}weg {n}|{z} {C}", "{N}-{N}-Str. {n}, {z} {C}"),
    "FR": ("{n} rue {N}, {z} {C}", "{n}, avenue de {N}|{z} {C}"),
    "ES": ("Calle {N} {n}, {z} {C}", "Avenida de {N}, {n}|{z} {C}"),
    "IT": ("Via {N} {n}, {z} {C}", "Corso {N} {N}, {n}|{z} {C}"),
    "NL": ("{N}straat {n}, 1012 AB {C}", "{N}laan {n}|3511 LX {C}"),
    "PL": ("ul. {N} {n}, 00-950 {C}", "ul. {N} {n}/{n}|31-000 {C}"),
    "PT": ("Rua {N}, {n}, 1200-109 {C}", "Travessa de {N} {n}|4000-123 {C}"),
    "JP": ("青葉県緑川市桜台{n}-2-3", "{n}-5-6 {N}, {C}-ku, Tokyo 100-0005"),
}
SYLLABLES = "lar quil bri mon tes vel dor han kel fos rin mar".split()


def generate_addresses(count: int) -> list[tuple[str, str]]:
    """Texts, and the address in each."""
    drawn = random.Random(7)

    def name() -> str:
        return "".join(drawn.choices(SYLLABLES, k=drawn.randint(2, 3))).capitalize()

    cases = []
    for _ in range(count):
        template = drawn.choice(TEMPLATES[drawn.choice(sorted(TEMPLATES))])
        address = re.sub(
            r"\{(.)\}",
            lambda field: {
                "n": str(drawn.randint(1, 999)),
                "z": f"{drawn.randint(10000, 99999)}",
            }.get(field[1], name()),
            template,
        ).replace("|", "\n")
        before, after = drawn.choice(
            [("We moved to ", "."), (f"{name()} {name()}\n", "\nthanks"), ("see (", ")"), ("", "")]
        )
        cases.append((before + address + after, address))
    return cases


def test_generated_addresses_are_covered() -> None:
    cases = generate_addresses(2_000)
    found = find([text for text, _ in cases])
    whole = np.mean([address in values for (_, address), values in zip(cases, found, strict=True)])
    touched = np.mean([bool(values) for values in found])
    assert whole > 0.97 and touched > 0.99


def test_what_the_pattern_matches_is_found_around_landmarks() -> None:
    """The search of the pattern in whole texts finds no more than that around landmarks."""
    texts = [
        *(text for text, _ in generate_addresses(300)),
        *(frame.format(one) for listed in ADDRESSES.values() for one in listed for frame in FRAMES),
    ]
    texts = ["x" * (number % 400) + " " + text for number, text in enumerate(texts)]
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    starts, _ = find_matches(buffers, KIND.pattern)
    rows = np.searchsorted(buffers.offsets, starts, side="right") - 1
    found = find(texts)
    assert [row for row in set(rows.tolist()) if not found[row]] == []


def test_surrogates_are_invented_and_keep_the_shape() -> None:
    values = pl.Series("value", [one for listed in ADDRESSES.values() for one in listed])
    surrogates = KIND.make_surrogates(values, make_draws(len(values)), False)
    assert find(surrogates.to_list()) == [[one] for one in surrogates]
    assert (surrogates != values).all()
    names = re.compile("lark|quill|brindle|quitte|larche", re.IGNORECASE)
    assert not [one for one in surrogates if names.search(one)]


def test_columns_of_addresses_are_values() -> None:
    values = pl.Series(
        [
            *("12 Larkspur", "Larkspur Lane", "Larkspurstraße", "77002", "NW1 6XE", "1012 AB"),
            *("", "unknown", "0x7ffe12", "10.0.0.1", "ann@example.com", "http://a.test/1 b"),
        ]
    )
    assert KIND.is_field_value(values).to_list() == [True] * 6 + [False] * 6


def test_plans_that_publish_remove_addresses() -> None:
    text = "Ann Roe, 12 Larkspur Lane, Springfield, IL 62704"
    for plan in ("redact", "strict"):
        assert "[STREET_ADDRESS]" in sanitize.redact(text, plan=plan, seed=1)
    for plan in ("surrogates", "pseudonymize"):
        edited = sanitize.redact(text, plan=plan, seed=1)
        assert "Larkspur" not in edited and "62704" not in edited and " Lane, " in edited
    assert "Larkspur" in sanitize.redact(text, plan="rmft", seed=1)


@pytest.mark.parametrize(
    "piece", ["12 Main St ", "A ", "1 A, ", "Suite 1, A ", "Apt ", "12 Ab Road, Cd ", "区1", "1-"]
)
def test_time_is_linear(piece: str) -> None:
    def measure(size: int) -> float:
        text = pa.array([piece * (size // len(piece.encode()))], pa.large_string())
        FINDER.run(text)
        start = time.process_time()
        FINDER.run(text)
        return time.process_time() - start

    assert measure(400_000) < 8 * measure(100_000) + 0.2
