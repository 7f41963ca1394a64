"""`linked = true`: one invented identity for each person, in every form of a name; and the anchors
that rmft keeps. All invented."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Draws, IdSet, Key, compute_value_ids
from sanitize.editors.synthesis.identities import (
    DOMAIN,
    EMAIL_ADDRESS,
    GIVEN_ROLE,
    PERSON,
    SURNAME_ROLE,
    Entities,
    PersonGroups,
)
from sanitize.editors.synthesis.known_values import contains_any, hash_value_forms
from sanitize.errors import PlanError
from sanitize.kinds.kind import get_kind
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

KEY = Key.from_seed(1)


def compute_ids(name: str, values: list[str]) -> Any:
    return compute_value_ids(
        to_large_string(get_kind(name).normalise(pl.Series(values, dtype=pl.String))), name, KEY
    )


def hash_forms(name: str, values: list[str]) -> Any:
    normalised = to_large_string(get_kind(name).normalise(pl.Series(values, dtype=pl.String)))
    return hash_value_forms(get_kind(name), pa.array(values, pa.large_string()), normalised, KEY)


def build_mentions(scopes: list[list[str]], kept: tuple[str, ...] = ()) -> pl.DataFrame:
    rows = [
        (no, value, EMAIL_ADDRESS if "@" in value else PERSON)
        for no, values in enumerate(scopes)
        for value in values
    ]
    frame = pl.DataFrame(
        rows, schema={"scope": pl.Int64, "value": pl.String, "kind": pl.String}, orient="row"
    )
    ids = [int(compute_ids(name, [value])[0]) for _, value, name in rows]
    return frame.with_columns(
        value_id=pl.Series(ids, dtype=pl.Int64),
        seed=pl.col("scope").cast(pl.UInt64) + 7,
        is_replaced=~pl.col("value").is_in(list(kept)),
    )


def build_entities(*persons: list[str]) -> Entities:
    """The entities of persons; each list has the values of one person."""
    table = build_mentions([list(values) for values in persons])
    return Entities.from_table(
        table.select(
            "value_id", "kind", "value", entity_id=pl.col("value_id").min().over("scope")
        ).unique()
    )


def draw_surrogates(
    scopes: list[list[str]],
    entities: Entities | None = None,
    kept: tuple[str, ...] = (),
    anchors: tuple[int, ...] = (),
    real: tuple[str, ...] = (),
    **options: Any,
) -> list[str]:
    """The surrogates of the mentions, in order."""
    groups = PersonGroups(
        build_mentions(scopes, kept), entities or build_entities([]), KEY, "test", **options
    )
    known_values = IdSet.of(
        np.concatenate(
            [
                hash_forms(EMAIL_ADDRESS if "@" in value else PERSON, [value]).ravel()
                for value in (*sum(scopes, []), *real)
            ]
        )
    )

    def draw_domains(rows: Any, draws: Draws, anchor: Any) -> pa.LargeStringArray:
        domains = groups.rows["value"].gather(rows).str.extract("(@.*)").to_list()
        return pa.array(
            [
                domain if anchor_no == DOMAIN else "@new.example"
                for domain, anchor_no in zip(domains, anchor, strict=True)
            ],
            pa.large_string(),
        )

    texts = groups.draw_texts(
        lambda _, forms: contains_any(known_values, forms), draw_domains, anchors
    )
    return [str(text) for text in texts.take(pa.array(groups.mention_rows)).to_pylist()]


N = r"([A-Z][a-z]+)"
# mentions of one document, and a pattern of their surrogates: \1 is the first new word, \2 the
# second ...
FORMS: dict[str, tuple[list[str], str]] = {
    "greeting, address": (
        ["Anna", "Anna Smith", "anna.smith@example.com"],
        rf"{N}|\1 {N}|(?i:\1\.\2)@new\.example",
    ),
    "order and letter case": (
        ["Anna Smith", "SMITH, ANNA", "anna smith", "Smith, A."],
        rf"{N} {N}|(?i:\2, \1)|(?i:\1 \2)|\2, [A-Z]\.",
    ),
    "titles are kept": (
        ["Dr. Anna Smith", "Mr. Anna Smith", "Ms. Smith"],
        rf"Dr\. {N} {N}|Mr\. \1 \2|Ms\. \2",
    ),
    "initials follow the name": (
        ["Anna Smith", "A. Smith", "A Smith"],
        rf"(([A-Z])[a-z]+) {N}|\2\. \3|\2 \3",
    ),
    "middle name": (
        ["Anna Maria Smith", "anna.m.smith@example.com", "Anna M. Smith"],
        rf"{N} (([A-Z])[a-z]+) {N}|(?i:\1\.\3\.\4)@new\.example|\1 \3\. \4",
    ),
    "short addresses": (
        ["Anna Smith", "asmith@example.com", "smitha@example.com"],
        rf"(([A-Z])[a-z]+) {N}|(?i:\2\3)@new\.example|(?i:\3\2)@new\.example",
    ),
    "logins and names of folders": (
        ["Anna Smith", "Anna_Smith", "Smith-A", "asmith", "ASMITH"],
        rf"(([A-Z])[a-z]+) {N}|\1_\3|\3-\2|(?i:\2\3)|[A-Z]+",
    ),
    "no separator": (
        ["Anna Smith", "annasmith7@example.com", "annas@example.com"],
        rf"{N} (([A-Z])[a-z]+)|(?i:\1\2)[0-9]@new\.example|(?i:\1\3)@new\.example",
    ),
    "an address alone": (
        ["Anna.Smith@example.com", "ANNA_SMITH@example.com"],
        rf"{N}\.{N}@new\.example|(?i:\1_\2)@new\.example",
    ),
    "van der Berg": (
        ["Cleo van der Berg", "cleo.berg@example.com"],
        rf"{N} van der {N}|(?i:\1\.\2)@new\.example",
    ),
    "accents": (
        ["José García", "jose.garcia@example.com", "jgarcia@example.com", "José", "GARCIA, JOSE"],
        rf"(([A-Z])[a-z]+) {N}|(?i:\1\.\3)@new\.example|(?i:\2\3)@new\.example|\1|(?i:\3, \1)",
    ),
    "letters without a plain form": (
        [
            "Søren Łukaß",
            "soren.lukass@example.com",
            "Æthelþryð Ødegård",
            "aethelthryd@example.com",
            "aodegard@example.com",
        ],
        (
            rf"{N} {N}|(?i:\1\.\2)@new\.example|(([A-Z])[a-z]+)"
            rf" {N}|(?i:\3)@new\.example|(?i:\4\5)@new\.example"
        ),
    ),
    "two letters for one": (
        [
            "Jürgen Größ",
            "juergen.groess@example.com",
            "juergengroess@example.com",
            "jgroess@example.com",
        ],
        (
            r"(([A-Z])[a-z]+)"
            rf" {N}|(?i:\1\.\3)@new\.example|(?i:\1\3)@new\.example|(?i:\2\3)@new\.example"
        ),
    ),
    "Jean-Paul": (
        [
            "Jean-Paul Martin",
            "Jean-Paul",
            "MARTIN, Jean-Paul",
            "Jean",
            "J.-P. Martin",
            "Mr. Martin",
        ],
        rf"(([A-Z])[a-z]+)-(([A-Z])[a-z]+) {N}|\1-\3|(?i:\5), \1-\3|\1|\2\.-\4\. \5|Mr\. \5",
    ),
    "addresses of Jean-Paul": (
        [
            "Jean-Paul Martin",
            "jpmartin@example.com",
            "jp.martin@example.com",
            "jeanpaul.martin@example.com",
            "jean-paul@example.com",
        ],
        rf"(([A-Z])[a-z]+)-(([A-Z])[a-z]+) {N}|(?i:\2\4\5)@new\.example|(?i:\2\4\.\5)@new\.example|"
        rf"(?i:\1\3\.\5)@new\.example|(?i:\1-\3)@new\.example",
    ),
    "initials": (
        ["Anna M. Smith", "amsmith@example.com", "ams@example.com", "smitham@example.com"],
        (
            r"(([A-Z])[a-z]+) ([A-Z])\."
            r" (([A-Z])[a-z]+)|(?i:\2\3\4)@new\.example|(?i:\2\3\5)@new\.example|(?i:\4\2\3)@new\.example"  # noqa: E501
        ),
    ),
    "middle initial": (
        ["Anna K. Smith", "k..smith@example.com"],
        rf"{N} [A-Z]\. {N}|[a-z]\.\.(?i:\2)@new\.example",
    ),
    "Smith-Jones": (
        [
            "Mary Smith-Jones",
            "msmithjones@example.com",
            "mary.smith-jones@example.com",
            "Smith-Jones",
            "Mary Smith",
        ],
        (
            r"(([A-Z])[a-z]+)"
            rf" {N}-{N}|(?i:\2\3\4)@new\.example|(?i:\1\.\3-\4)@new\.example|\3-\4|\1 \3"
        ),
    ),
    "two people": (
        ["Anna Smith", "Bob Jones", "Bob", "bjones@example.com"],
        rf"{N} {N}|(([A-Z])[a-z]+) {N}|\3|(?i:\4\5)@new\.example",
    ),
}


@pytest.mark.parametrize("case", FORMS)
@pytest.mark.parametrize("step", [1, -1])
def test_all_forms_of_a_name_show_one_identity(case: str, step: int) -> None:
    values, expected = FORMS[case]
    surrogates = "|".join(draw_surrogates([values[::step]])[::step])
    assert re.fullmatch(expected.replace("|", r"\|"), surrogates), surrogates
    assert not set(re.findall("[a-z]{3,}", surrogates.lower())) & {
        "anna",
        "smith",
        "maria",
        "cleo",
        "berg",
        "bob",
        "jones",
    }


def test_a_given_name_is_linked_only_if_its_document_has_one_such_person() -> None:
    """With two Annas the greeting is assigned to none. `B. Smith` is not Anna. In another document
    the same word may mean a person."""
    anna_smith, anna_jones, greeting, b_smith = draw_surrogates(
        [["Anna Smith", "Anna Jones", "Anna", "B. Smith"]]
    )
    assert (
        len({anna_smith.split()[0], anna_jones.split()[0], greeting}) == 3
        and anna_smith.split()[1] != b_smith.split()[1]
    )
    surrogates = draw_surrogates([["Anna Smith", "Anna"], ["Anna Jones", "Anna"], ["Anna"]])
    assert (
        surrogates[0].split()[0] == surrogates[1]
        and surrogates[2].split()[0] == surrogates[3]
        and len({surrogates[1], surrogates[3], surrogates[4]}) == 3
    )


def test_entities_of_the_index_link_values_of_a_document() -> None:
    """The address does not contain the name; the index has its person."""
    entities = build_entities(["Anna Smith", "bluebird@example.com"])
    address, greeting = draw_surrogates([["bluebird@example.com", "Anna"]], entities)
    assert draw_surrogates([["bluebird@example.com", "Anna"]])[1] != greeting  # unassigned
    name, *surrogates = draw_surrogates([["Anna Smith", "bluebird@example.com", "Anna"]], entities)
    # the other values of the document do not matter
    assert surrogates == [address, greeting] and name.split()[0] == greeting
    assert re.fullmatch(f"[a-z]{name.split()[1].lower()}@new.example", address)


def test_one_name_is_one_person_in_a_document() -> None:
    """The index may have two entities for a person with two addresses. John A. and John B. differ,
    and so do people of other documents."""
    entities = build_entities(
        ["Anna M. Smith", "anna@example.com"], ["Anna Smith", "bluebird@example.com"]
    )
    surrogates = draw_surrogates(
        [
            [
                "Anna M. Smith",
                "Anna Smith",
                "Anna",
                "anna.smith@example.org",
                "bluebird@example.com",
            ],
            ["Anna Smith"],
        ],
        entities,
    )
    expected = (
        rf"(([A-Z])[a-z]+) [A-Z]\. {N}\|\1"
        r" \3\|\1\|(?i:\1\.\3)@new\.example\|(?i:[a-z]\3)@new\.example"
    )
    assert re.fullmatch(expected, "|".join(surrogates[:5])), surrogates
    assert surrogates[5].split()[0] != surrogates[2]
    entities = build_entities(
        ["John A. Smith", "one@example.com"], ["John B. Smith", "other@example.com"]
    )
    first, second = (
        text.split() for text in draw_surrogates([["John A. Smith", "John B. Smith"]], entities)
    )
    assert first[0] != second[0] and first[2] != second[2]
    # A. is no given name
    entities = build_entities(
        ["A. Smith", "one@example.com"], ["A Smith", "Anna B Smith", "other@example.com"]
    )
    first, second, _ = (
        text.split()
        for text in draw_surrogates([["A. Smith", "A Smith", "Anna B Smith"]], entities)
    )
    assert first[1] != second[1]


def test_draws_depend_on_document_and_person_not_on_order() -> None:
    values = ["Anna Smith", "asmith@example.com", "Bob Jones", "Bob", "Cleo Berg"]
    forward, backward = (
        draw_surrogates([values, values[:2]]),
        draw_surrogates([values[::-1], values[1::-1]]),
    )
    assert forward[:5] == backward[4::-1] and forward[5:] == backward[:4:-1]
    assert forward[5] != forward[0]  # another document, another identity


def test_no_surrogate_equals_a_real_value() -> None:
    first = draw_surrogates([["Anna Smith", "asmith@example.com"]])
    for surrogate in first:
        surrogates = draw_surrogates([["Anna Smith", "asmith@example.com"]], real=(surrogate,))
        assert not set(surrogates) & set(first)  # all values of the person are drawn again


@given(
    st.lists(
        st.sampled_from(["anna", "bob", "cleo", "a.", "smith", "jones", "berg"]),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**32),
)
@settings(max_examples=6, deadline=None)
def test_equal_values_share_a_surrogate_and_different_values_do_not(
    words: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = [" ".join(rng.permutation(words)).title() for _ in range(3)]
    values += [
        f"{'.'.join(rng.permutation([word.strip('.') for word in words]))}@example.com"
        for _ in range(2)
    ]
    surrogates = draw_surrogates([values])
    value_ids = {
        value: int(compute_ids(EMAIL_ADDRESS if "@" in value else PERSON, [value])[0])
        for value in values
    }
    ids_by_value: dict[int, set[int]] = defaultdict(set)
    for value, text in zip(values, surrogates, strict=True):
        ids_by_value[value_ids[value]].add(
            int(compute_ids(EMAIL_ADDRESS if "@" in value else PERSON, [text])[0])
        )
    assert {len(surrogate_ids) for surrogate_ids in ids_by_value.values()} == {1} and len(
        set().union(*ids_by_value.values())
    ) == len(ids_by_value)


ANCHOR_CASES: list[tuple[list[str], tuple[str, ...], tuple[int, ...], str]] = [
    # mentions, kept mentions, anchors, pattern of the surrogates
    (
        ["Anna Smith", "anna.smith@example.com"],
        (),
        (GIVEN_ROLE,),
        r"Anna {N}|anna\.(?i:\1)@new\.example",
    ),
    (
        ["Anna McSmith", "anna.mcsmith@example.com"],
        (),
        (SURNAME_ROLE,),
        r"{N} McSmith|(?i:\1)\.mcsmith@new\.example",
    ),
    (["Anna Smith", "anna.smith@example.com"], (), (DOMAIN,), r"{N} {N}|(?i:\1\.\2)@example\.com"),
    # a kept anchor would leave the greeting unchanged
    (["Anna", "Anna Smith"], (), (GIVEN_ROLE,), r"{N}|\1 {N}"),
    (["Anna", "Anna Smith"], (), (GIVEN_ROLE, SURNAME_ROLE), r"{N}|\1 Smith"),
    # a component that a kept mention shows
    (
        ["Anna", "Anna Smith", "asmith@example.com"],
        ("Anna",),
        (GIVEN_ROLE, SURNAME_ROLE, DOMAIN),
        r"None|Anna {N}|a(?i:\1)@new\.example",
    ),
    (["bluebird77@example.com"], (), (GIVEN_ROLE,), r"bluebird77@new\.example"),
    (["Anna Maria Smith"], (), (GIVEN_ROLE,), r"Anna (?!Maria){N} {N}"),
]


@pytest.mark.parametrize(("values", "kept", "anchors", "expected"), ANCHOR_CASES)
def test_an_identity_keeps_its_anchor(
    values: list[str], kept: tuple[str, ...], anchors: tuple[int, ...], expected: str
) -> None:
    surrogates = "|".join(draw_surrogates([values], kept=kept, anchors=anchors))
    assert re.fullmatch(expected.replace("{N}", N).replace("|", r"\|"), surrogates), surrogates


# ---- names under rmft without linked ----


def test_a_variant_of_a_name_keeps_given_name_or_surname() -> None:
    names = [
        "Anna Smith",
        "SMITH, Anna",
        "Dr. Anna B. van der Smith",
        "Anna Maria Smith",
        "A. Smith",
        "anna",
        "Mr. Lee",
    ]
    values, draws = (
        pl.Series(names),
        Draws.for_occurrences(
            KEY, "x", pa.array(names), np.zeros(7, np.int32), np.zeros(7, np.int64)
        ),
    )
    make_variants = get_kind(PERSON).make_variants
    assert make_variants is not None
    first, last, none = (
        make_variants(values, draws, np.full(7, part)).to_list()
        for part in (GIVEN_ROLE, SURNAME_ROLE, -1)
    )
    assert none == get_kind(PERSON).make_surrogates(values, draws, False).to_list()
    for variants, word in ((first, "Anna"), (last, "Smith")):
        assert [bool(re.search(word, text, re.IGNORECASE)) for text in variants[:4]] == [True] * 4
    assert (
        re.fullmatch(r"Anna [A-Z][a-z]+ [A-Z][a-z]+", first[3])
        and "Maria" not in first[3] + last[3]
    )
    assert re.fullmatch(r"[A-Z]+, Anna", first[1]) and re.fullmatch(r"SMITH, [A-Z][a-z]+", last[1])
    assert re.fullmatch(r"Dr\. Anna [A-Z]\. van der [A-Z][a-z]+", first[2])
    assert first[4].startswith("A. ") and "Smith" not in first[4] and last[4].endswith(". Smith")
    # one word has no anchor
    assert first[5:] == last[5:] == none[5:] and not {"anna", "Mr. Lee"} & set(none)


# ---- complete runs ----

MAILS = [
    (
        "From: Anna Smith <anna.smith@example.com>\nTo: Bob Jones <bjones@example.org>\n\nDear"
        " Bob,\n\nI met Anna Smith.\n\nRegards,\nAnna\n"
    ),
    (
        "From: Bob Jones <bjones@example.org>\nTo: Anna Smith <anna.smith@example.com>\n\nDear"
        " Anna,\n\nSMITH, ANNA it is.\n\nThanks,\nBob\n"
    ),
    (
        "From: Anna Smith <anna.smith@example.com>\nTo: Anna Lee <anna.lee@example.com>\n\nDear"
        " Anna,\n\nso Anna Lee, Anna Smith.\n"
    ),
    (
        "From: Bob Jones <bjones@example.org>\nTo: Anna Smith <anna.smith@example.com>\n\nDear"
        " Anna,\n\nwrite to ANNA.SMITH@EXAMPLE.COM\n"
    ),
]
PLAN = """
leave = ["MESSAGE_ID"]
[find]
kinds = ["EMAIL_ADDRESS", "PERSON", "MESSAGE_ID"]
finders = ["patterns", "names", "known"]
[[edit]]
use = "{use}"
kinds = ["EMAIL_ADDRESS", "PERSON"]
linked = true
"""


def write_plan(folder: Path, use: str, *changes: str) -> Any:
    (folder / "p.toml").write_text(PLAN.format(use=use))
    return load_plan(str(folder / "p.toml"), changes)


def run_plan(
    folder: Path, out: str, use: str, *changes: str, texts: list[str] = MAILS, **options: Any
) -> list[str]:
    """The texts of a run, in the order of their ids."""
    folder.mkdir(exist_ok=True)
    pq.write_table(
        pa.table({"doc_id": [f"d{MAILS.index(text)}" for text in texts], "text": texts}),
        folder / f"{out}.parquet",
    )
    run_settings = Settings(**{"seed": 1, "workers": 1, **options})
    summary = run_with_settings(
        folder / f"{out}.parquet",
        folder / out,
        write_plan(folder, use, *changes),
        settings=run_settings,
    )
    assert summary.leaks == 0
    rows = [
        row
        for path in sorted((folder / out / "data").iterdir())
        for row in pq.read_table(path).to_pylist()
    ]
    return [row["text"] for row in sorted(rows, key=lambda row: str(row["doc_id"]))]


@pytest.mark.slow
def test_rmft_keeps_first_occurrences_and_links_the_others(tmp_path: Path) -> None:
    output_texts = run_plan(tmp_path, "out", "rmft")
    assert output_texts[0].startswith(
        "From: Anna Smith <anna.smith@example.com>\nTo: Bob Jones <bjones@example.org>\n\nDear Bob,"
    )
    assert "I met Anna Smith" not in output_texts[0] and output_texts[0].endswith(
        "Regards,\nAnna\n"
    )
    match = re.fullmatch(
        rf"From: {N} {N} <(\S+)@(\S+)>\nTo: {N} {N} <(?i:\5\.\6)@(\S+)>\n\nDear \5,\n\n(?i:\6, \5)"
        r" it is.\n\nThanks,\n\1\n",
        output_texts[1],
    )
    assert (
        match
        and match[3] == f"{match[1][0]}{match[2]}".lower()
        and (match[5], match[6]) != ("Anna", "Smith")
    )
    assert "Anna Lee <anna.lee@example.com>" in output_texts[2]
    assert re.search(
        rf"To: {N} {N} <(?i:\1\.\2)@\S+>\n\nDear \1,\n\nwrite to (?i:\1\.\2)@", output_texts[3]
    )
    # the same with other shard sizes and in another order, as keep = 0 makes the order irrelevant
    expected = run_plan(tmp_path, "none", "rmft", "edit.0.keep=0")
    assert (
        run_plan(tmp_path, "turned", "rmft", "edit.0.keep=0", texts=MAILS[::-1], rows_per_shard=1)
        == expected
    )


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["corpus", "document"])
def test_pseudonyms_of_one_person(tmp_path: Path, scope: str) -> None:
    output_texts = run_plan(tmp_path, "out", "pseudonymize", f'edit.0.scope="{scope}"')
    first = re.fullmatch(
        rf"From: {N} {N} <(?i:\1\.\2)@(\S+)>\nTo: {N} {N} <\S+@\S+>\n\nDear \4,\n\nI met \1"
        r" \2.\n\nRegards,\n\1\n",
        output_texts[0],
    )
    second = re.search(
        rf"To: {N} {N} <(?i:\1\.\2)@(\S+)>\n\nDear \1,\n\n(?i:\2, \1) it is", output_texts[1]
    )
    assert first and second and (first.groups()[:3] == second.groups()) == (scope == "corpus")
    third = re.fullmatch(
        rf"From: {N} {N} <.*>\nTo: {N} {N} <.*>\n\nDear {N},\n\nso \3 \4, \1 \2.\n", output_texts[2]
    )
    # the text does not say which Anna is meant
    assert third and third[5] not in (third[1], third[3])
    # a label of a document belongs to one value
    rows = [
        row
        for path in tmp_path.glob("out.private/runs/*/vault/labels/*")
        for row in pq.read_table(path).to_pylist()
    ]
    ids_by_label = defaultdict(set)
    for row in rows:
        ids_by_label[row["doc_no"], row["label"]].add(row["value_id"])
    assert rows and {len(ids) for ids in ids_by_label.values()} == {1}
    assert (
        run_plan(
            tmp_path,
            "turned",
            "pseudonymize",
            f'edit.0.scope="{scope}"',
            texts=MAILS[::-1],
            rows_per_shard=1,
        )
        == output_texts
    )


def test_swept_names_keep_their_letter_case(tmp_path: Path) -> None:
    """Without the finder `known`, only the leak check finds values written in other letters."""
    (tmp_path / "p.toml").write_text(
        PLAN.format(use="pseudonymize").replace(', "known"', "").replace("linked = true", "")
    )
    text = (
        "From: Wexler Farrow <wf@example.com>\n\nwexler farrow, WEXLER FARROW and Wexler Farrow.\n"
    )
    pq.write_table(pa.table({"text": [text]}), tmp_path / "in.parquet")
    summary = run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        str(tmp_path / "p.toml"),
        settings=Settings(seed=1, workers=1),
    )
    assert summary.verify.swept
    (shard,) = (tmp_path / "out" / "data").iterdir()
    match = re.fullmatch(
        rf"From: {N} {N} <.*>\n\n(?:(\w+ \w+)), (\w+ \w+) and \1 \2.\n",
        pq.read_table(shard)["text"][0].as_py(),
    )
    assert match and (match[3], match[4]) == (
        f"{match[1]} {match[2]}".lower(),
        f"{match[1]} {match[2]}".upper(),
    )


@pytest.mark.parametrize(
    ("use", "change", "message"),
    [
        ("rmft", 'edit.0.avoid="seen"', "linked = false"),
        ("rmft", 'edit.0.kinds=["EMAIL_ADDRESS"]', "add PERSON"),
        ("pseudonymize", 'edit.0.kinds=["EMAIL_ADDRESS"]', "add PERSON"),
        ("pseudonymize", 'edit.0.scope="none"', 'scope = "document"'),
    ],
)
def test_plans_that_cannot_be_linked_are_refused(
    tmp_path: Path, use: str, change: str, message: str
) -> None:
    pq.write_table(pa.table({"text": MAILS}), tmp_path / "in.parquet")
    changes = [change, *(['leave=["MESSAGE_ID", "PERSON"]'] if "kinds" in change else [])]
    with pytest.raises(PlanError, match=message):
        run_with_settings(
            tmp_path / "in.parquet",
            tmp_path / "out",
            write_plan(tmp_path, use, *changes),
            settings=Settings(seed=1, workers=1),
        )
    assert not (tmp_path / "out").exists()


def test_a_stream_refuses_linked(tmp_path: Path) -> None:
    editor = write_plan(tmp_path, "rmft").editors[0]
    assert not editor.supports_append  # new documents may say who is meant in earlier ones
    with pytest.raises(PlanError, match=r"edit\[0\]\.linked.*sanitize run"):
        editor.for_streaming("p.toml: edit[0]")
    with pytest.raises(PlanError, match="sanitize run"):
        stream([{"text": "x"}], plan=write_plan(tmp_path, "rmft"))
