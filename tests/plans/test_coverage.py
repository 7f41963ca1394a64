"""What a plan says of itself: its table of categories is what it really does, and names of people
come first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from sanitize.kinds.kind import CATEGORIES, builtin_kinds
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.coverage import CATEGORY_ORDER, list_looked_for
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.plans.shipped_plans import plan_names

# kind -> a line with one value of it, and the value
VALUES = {
    "PERSON": ("Dear {},", "Ann Quist"),
    "USER_NAME": ("login: {}", "aquist77"),
    "USER_AT_HOST": ("ssh {}", "aquist@node07"),
    "X500_NAME": ("cc: <{}>", "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=BZYQWERT"),
    "EMAIL_ADDRESS": ("write to {} soon", "larkspur@example.com"),
    "PHONE_NUMBER": ("call {} now", "+1 212 555 0123"),
    "US_SSN": ("his SSN is {}.", "219-09-9991"),
    "CREDIT_CARD": ("paid with {} again", "4111 1111 1111 1111"),
    "IBAN_CODE": ("to {} please", "DE89 3704 0044 0532 0130 00"),
    "CRYPTO": ("coins to {} please", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    "SECRET": ("key {} leaked", "AKIAIOSFODNN7EXAMPLE"),
    "IP_ADDRESS": ("from host {} here", "203.0.113.77"),
    "MAC_ADDRESS": ("card {} there", "00:1b:44:11:3a:b7"),
    "MESSAGE_ID": ("Message-ID: {}", "<20190401.77.1.zq@mail.example.org>"),
    "URL": ("see {} for it", "https://www.example.org/page/77"),
    "DATE_TIME": ("met on {} there", "12 March 2019"),
    "AGE": ("she {} old", "is 94 years"),
    "LOCATION": ("moved to {} then", "Upper Riverton"),
    "ORGANIZATION": ("works at {} there", "Quillfeather Widgets"),
}
PLANS = [name for name in plan_names() if name != "dp_mlm"]  # needs a model


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The text with every value twice, as each shipped plan rewrites it."""
    folder = tmp_path_factory.mktemp("coverage")
    header, message_id = VALUES["MESSAGE_ID"]  # in a body it is an address
    lines = [line.format(value) for line, value in VALUES.values() if line != header]
    text = "\n".join(
        [header.format(message_id), f"In-Reply-To: {message_id}", "", *lines, "", *lines]
    )
    pl.DataFrame({"text": [text], "user_id": ["u"]}).write_parquet(folder / "in.parquet")
    texts = {}
    for name in PLANS:
        run_with_settings(
            folder / "in.parquet", folder / name, name, settings=Settings(seed=1, workers=1)
        )
        texts[name] = pq.read_table(folder / name / "data").column("text")[0].as_py()
    texts["input"] = text
    yield texts


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_the_table_of_a_plan_is_what_it_does(name: str, outputs: dict[str, str]) -> None:
    rows = load_plan(name).coverage()
    checked = set()
    for row in rows:
        for kind in row.not_looked_for:
            if kind in VALUES:
                value = VALUES[kind][1]
                assert outputs[name].count(value) == outputs["input"].count(value), kind
                checked.add(kind)
        for treatment in row.looked_for:
            for kind in treatment.kinds:
                if kind not in VALUES:
                    continue
                checked.add(kind)
                value = VALUES[kind][1]
                times, given = outputs[name].count(value), outputs["input"].count(value)
                if treatment.stays == "every occurrence" or treatment.editor == "header_dedup":
                    assert times == given, kind
                elif treatment.stays.startswith("the first occurrence"):
                    assert times == 1, kind
                else:
                    assert times == 0, kind
    assert checked == VALUES.keys()


@pytest.mark.parametrize("name", plan_names())
def test_every_kind_is_in_one_row(name: str) -> None:
    plan = load_plan(name)
    rows = plan.coverage()
    assert [row.category for row in rows] == list(CATEGORY_ORDER) and set(CATEGORY_ORDER) == set(
        CATEGORIES
    )
    listed = [kind for row in rows for treatment in row.looked_for for kind in treatment.kinds]
    assert sorted(listed) == sorted(plan.find.kinds)
    others = [kind for row in rows for kind in row.not_looked_for]
    assert sorted(listed + others) == sorted(
        {*builtin_kinds(), *(custom.name for custom in plan.custom_kinds)}
    )


def test_what_is_not_looked_for_begins_with_names() -> None:
    assert load_plan("rmft").describe().not_looked_for[:3] == [
        "names of people (PERSON)",
        "account on a machine (USER_AT_HOST)",
        "user name on a machine or a web site (USER_NAME)",
    ]
    assert "PERSON" not in str(load_plan("redact").describe().not_looked_for)
    assert (
        load_plan("rmft")
        .describe()
        .stays[0]
        .startswith("EMAIL_ADDRESS, PHONE_NUMBER, IP_ADDRESS: the first occurrence")
    )
    assert load_plan("redact").describe().stays == [] == load_plan("surrogates").describe().stays


@pytest.mark.parametrize("name", plan_names())
def test_words_name_every_kind_and_what_no_kind_finds(name: str) -> None:
    plan = load_plan(name)
    described = plan.describe()
    found = [re.findall(r"^.+ \(([A-Z0-9_]+)\)$", entry) for entry in described.looked_for]
    assert found == [[kind] for kind in list_looked_for(plan.coverage())]
    not_found = "; ".join(described.not_looked_for)
    others = {kind for row in plan.coverage() for kind in row.not_looked_for}
    assert not [
        kind
        for kind in others
        if not builtin_kinds()[kind].country and not re.search(rf"[( ]{kind}[,)]", not_found)
    ]
    by_word = "NATIONAL_ID" in plan.find.kinds
    assert ("numbers that no word beside them labels" in not_found) == by_word


def test_a_model_finds_more_than_patterns() -> None:
    described = load_plan("redact", finders=["ner"]).describe()
    not_found = "; ".join(described.not_looked_for)
    assert "numbers that no word beside them labels" in not_found
    assert "street addresses" not in not_found and described.models


def test_rules_of_find_are_named_without_their_values() -> None:
    plan = Plan.load("redact").with_(
        {
            "find.allow": {"EMAIL_ADDRESS": ["larkspur@example.com"]},
            "find.min_score": {"PERSON": 0.7},
        }
    )
    notes = plan.describe().notes
    assert notes == [
        "find.allow: listed values of EMAIL_ADDRESS stay",
        "find.min_score: occurrences of PERSON with a lower score stay",
    ]
    assert "larkspur" not in str(plan.describe().to_dict())


# kind -> its words in `about`
PLAIN_WORDS = {
    "PERSON": "people's names",
    "USER_NAME": "user names",
    "USER_AT_HOST": "accounts on machines",
    "X500_NAME": "directory entries of mail systems",
    "EMAIL_ADDRESS": "mail addresses",
    "PHONE_NUMBER": "telephone numbers",
    "US_SSN": "US social security numbers",
    "ID_NUMBER": "numbers of passports",
    "CREDIT_CARD": "payment cards",
    "IBAN_CODE": "IBANs",
    "CRYPTO": "Bitcoin and Ethereum wallets",
    "BANK_ACCOUNT": "other bank accounts",
    "SECRET": "passwords, keys and tokens",
    "IP_ADDRESS": "IP and hardware addresses",
    "MAC_ADDRESS": "IP and hardware addresses",
    "DATE_TIME": "dates",
    "AGE": "ages",
    "STREET_ADDRESS": "street addresses",
    "PASSPORT_NUMBER": "passports",
    "LICENSE_NUMBER": "licences",
    "IDENTITY_CARD": "identity cards",
    "NATIONAL_ID": "identifiers of other countries",
    "TAX_NUMBER": "taxpayers",
    "INSURANCE_NUMBER": "insurances",
    "VEHICLE_ID": "vehicles",
    "DEVICE_ID": "devices",
    "RECORD_NUMBER": "records",
    "COORDINATES": "other places",
    "DATE_OF_BIRTH": "dates",
    "LOCATION": "other places",
    "ORGANIZATION": "organizations",
    "MESSAGE_ID": "message ids",
    "URL": "links",
    **{
        name: "identifiers of other countries"
        for name, kind in builtin_kinds().items()
        if kind.country
    },
}
UNLABELLED = "numbers that no word beside them labels"
LABELLED_WORDS = PLAIN_WORDS | {
    "ID_NUMBER": UNLABELLED,
    "NATIONAL_ID": "national identifiers",
    "COORDINATES": "coordinates",
    "DATE_OF_BIRTH": "birthdays",
    "STREET_ADDRESS": "street addresses",
}


@pytest.mark.parametrize("name", plan_names())
def test_about_names_all_that_is_looked_for_and_all_that_stays(name: str) -> None:
    plan = load_plan(name)
    words = LABELLED_WORDS if "NATIONAL_ID" in plan.find.kinds else PLAIN_WORDS
    if "BANK_ACCOUNT" in plan.find.kinds:
        words = words | {"BANK_ACCOUNT": "bank accounts beside their names"}
    purpose, looks_for, stays = re.split(r" Looks for |\. Stays: ", plan.about)
    assert ("Not to be published" in purpose) != plan.publishable
    coverage = plan.coverage()
    others = {kind for row in coverage for kind in row.not_looked_for}
    assert [kind for kind in list_looked_for(coverage) if words[kind] not in looks_for] == []
    assert [kind for kind in others if words[kind] in looks_for] == []
    if plan.leave == plan.find.kinds or name == "dp_mlm":
        assert stays in ("everything.", "any word that is drawn again.")
        return
    assert [kind for kind in others if words[kind] not in stays] == []
    treatments = [treatment for row in coverage for treatment in row.looked_for]
    for treatment in treatments:
        for kind in treatment.kinds:
            if "all else that it looks for" not in stays and treatment.stays == "every occurrence":
                assert words[kind] in stays
            elif not treatment.stays:
                assert words[kind] not in stays, kind
        if treatment.stays.startswith("the first occurrence"):
            assert "these first occurrences and parts" in stays
    missed_names = "names that no list and no word beside them shows" in stays
    assert missed_names == ("PERSON" in plan.find.kinds)


def test_a_plan_file_is_covered_like_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        '[find]\nkinds = ["STAFF_ID"]\n[[kind]]\nname = "STAFF_ID"\nwords = ["Zyq"]\ncategory ='
        ' "person"\n[[edit]]\nuse = "redact"\nkinds = ["person"]\n'
    )
    person, *others = load_plan(str(path)).coverage()
    assert [list(treatment.kinds) for treatment in person.looked_for] == [
        ["STAFF_ID"]
    ] and person.not_looked_for == ["PERSON"]
    assert not any(row.looked_for for row in others)
