"""Pseudonyms: one for each value, reversible with the vault, never a real value, and independent of
sharding."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import to_large_string
from sanitize.core.keys import Key, compute_value_ids
from sanitize.editors import pseudonymize
from sanitize.editors.pseudonymize import (
    _corpus_draws,
    _fit_characters,
    _KnownValues,
    _spell_pseudonyms,
)
from sanitize.editors.synthesis.known_values import FirstForms, hash_value_forms
from sanitize.errors import PlanError, ResourceError, UsageError
from sanitize.inspection.sql_api import sql
from sanitize.kinds.kind import BOUNDARY, get_kind
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import read_texts, temporary_folder

KEY = Key.from_seed(1)
SCOPES = ("corpus", "document", "none")
# values of invented people, several of them in several spellings
VALUES = {
    "EMAIL_ADDRESS": [
        "ann.lee@example.com",
        "Ann.Lee@Example.com",
        "ANN.LEE@EXAMPLE.COM",
        "bob@example.org",
        "zoe-7@mail.example.net",
    ],
    "PHONE_NUMBER": [
        "212-555-0123",
        "(212) 555-0123",
        "+1 212.555.0123",
        "212-555-0199 x12",
        "+49 30 5550 1234",
    ],
    "IP_ADDRESS": [
        "93.184.216.34",
        "10.20.30.40",
        "2001:db8::8a2e:370:7334",
        "2001:DB8::8A2E:370:7334",
    ],
    "CREDIT_CARD": [
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111111111111111",
        "5555-5555-5555-4444",
    ],
    "IBAN_CODE": ["GB82 WEST 1234 5698 7654 32", "GB82WEST12345698765432"],
    "US_SSN": ["123-45-6789", "123 45 6789", "321-45-6789"],
    "MESSAGE_ID": [
        "<200102031234.A1234$ab@host.example>",
        "<77.88.1234567890.99@mail.example.com>",
    ],
    "URL": [
        "http://www.example.com/a?b=1",
        "HTTP://WWW.example.com/a?b=1",
        "https://example.org/x",
    ],
}
ALL = [value for values in VALUES.values() for value in values]
SLOW_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
}


def make_settings(**options: Any) -> Settings:
    return Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 7, **options})


def make_plan(scope: str, *changes: str) -> Any:
    return load_plan("pseudonymize", [f'edit.0.scope="{scope}"', *changes])


def write_corpus(path: Path, texts: Sequence[str], files: int = 1) -> list[Path]:
    path.mkdir()
    file_size = -(-len(texts) // files)
    for no in range(files):
        part = texts[no * file_size : (no + 1) * file_size]
        rows = {
            "doc_id": [f"d{no * file_size + row_no}" for row_no in range(len(part))],
            "text": list(part),
        }
        pq.write_table(
            pa.table(rows, schema=pa.schema([("doc_id", pa.string()), ("text", pa.string())])),
            path / f"{no}.parquet",
            row_group_size=3,
        )
    return [path]


def read_table(work: Path, *folders: str) -> list[dict[str, Any]]:
    files = sorted(work.glob("/".join(folders) + "/*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def read_edits(work: Path) -> list[dict[str, Any]]:
    """Every edit with the value behind it: doc_no, kind, replacement, value_id."""
    values = {
        (row["doc_no"], row["cell"], row["start_byte"]): row["value_id"]
        for row in read_table(work, "tables", "occurrences")
    }
    edits = read_table(work, "runs", "*", "edits")
    return [
        {**row, "value_id": values[row["doc_no"], row["cell"], row["start_byte"]]} for row in edits
    ]


def normalise_value(name: str, text: str) -> str:
    return str(get_kind(name).normalise(pl.Series("value", [text], dtype=pl.String))[0])


TEXTS = st.lists(
    st.lists(st.sampled_from([*ALL, "é", "call"]), max_size=7).map(" , ".join),
    min_size=1,
    max_size=14,
)


@pytest.mark.slow
@given(TEXTS, st.sampled_from(SCOPES))
@settings(max_examples=4, **SLOW_SETTINGS)
def test_each_value_has_one_reversible_pseudonym(texts: list[str], scope: str) -> None:
    with temporary_folder() as base:
        summary = run_with_settings(
            write_corpus(base / "in", texts),
            base / "out",
            make_plan(scope),
            settings=make_settings(),
        )
        work, output_texts = base / "out.private", read_texts(base / "out")
        edits, labels = read_edits(work), read_table(work, "runs", "*", "vault", "labels")
        values = read_table(work, "vault", "values")
        published = b"".join(
            path.read_bytes()
            for path in (base / "out").iterdir()
            if path.is_file() and path.name != "report.html"  # which shows lines of the output
        )
    assert summary.leaks == 0 and summary.kept_originals == 0 and len(edits) == summary.replaced
    real = {(row["kind"], row["normalised"] or row["value"]) for row in values}
    forms_by_value: dict[Any, set[str]] = defaultdict(set)
    values_by_form: dict[Any, set[int]] = defaultdict(set)
    for row in edits:
        name, form = row["kind"], normalise_value(row["kind"], row["replacement"])
        assert (name, form) not in real
        pattern = re.compile(
            get_kind(name).pattern.replace(BOUNDARY, r"\b").replace(r"\z", r"\Z"), re.ASCII
        )
        assert pattern.fullmatch(row["replacement"]) or pattern.fullmatch(
            f"<{row['replacement']}>"
        ), name
        document_key = () if scope == "corpus" else (row["doc_no"],)
        forms_by_value[name, row["value_id"], document_key].add(form)
        values_by_form[name, form, document_key].add(row["value_id"])
        assert row["replacement"] in output_texts[row["doc_no"]]
    if scope != "none":
        assert {len(forms) for forms in forms_by_value.values()} <= {1}
    assert {len(ids) for ids in values_by_form.values()} <= {1}
    # the vault maps every pseudonym back; manifest and card contain none
    value_by_label = {(row["doc_no"], row["label"]): row["value_id"] for row in labels}
    assert [value_by_label[row["doc_no"], row["replacement"]] for row in edits] == [
        row["value_id"] for row in edits
    ]
    assert len(value_by_label) == len(
        {(row["doc_no"], row["label"], row["value_id"]) for row in labels}
    )
    assert not [label for _, label in value_by_label if label.encode() in published]


def pseudonymize_texts(texts: list[str], scope: str, files: int = 1, **options: Any) -> list[str]:
    with temporary_folder() as base:
        run_with_settings(
            write_corpus(base / "in", texts, files),
            base / "out",
            make_plan(scope),
            settings=make_settings(**options),
        )
        return read_texts(base / "out")


@pytest.mark.slow
def test_pseudonyms_do_not_depend_on_order() -> None:
    texts = [
        " , ".join(ALL[(no * 7 + step * step) % len(ALL)] for step in range(6)) for no in range(20)
    ]
    assert pseudonymize_texts(texts, "corpus") == pseudonymize_texts(texts[::-1], "corpus")[::-1]


@pytest.mark.slow
def test_scope_of_a_pseudonym() -> None:
    pseudonyms = {
        scope: [
            text.split(" and ")
            for text in pseudonymize_texts(
                ["ann.lee@example.com and ann.lee@example.com"] * 3, scope
            )
        ]
        for scope in SCOPES
    }
    assert len({word for words in pseudonyms["corpus"] for word in words}) == 1
    assert len({words[0] for words in pseudonyms["document"]}) == 3 and all(
        first == second for first, second in pseudonyms["document"]
    )
    assert len({word for words in pseudonyms["none"] for word in words}) == 6


def test_spellings_are_kept(tmp_path: Path) -> None:
    """Letter case, separators and grouping are those of the occurrence, and all spellings are still
    one value."""
    run_with_settings(
        write_corpus(tmp_path / "in", [" , ".join(ALL)]),
        tmp_path / "out",
        make_plan("corpus"),
        settings=make_settings(),
    )
    pseudonyms = read_texts(tmp_path / "out")[0].split(" , ")
    shape = [
        re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", re.sub("[0-9]", "9", text)))
        for text in (" ".join(ALL), " ".join(pseudonyms))
    ]
    pseudonym_by_value = dict(zip(ALL, pseudonyms, strict=True))
    for name in ("PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN"):
        for value in VALUES[name]:
            assert re.sub("[A-Za-z0-9]", "x", pseudonym_by_value[value]) == re.sub(
                "[A-Za-z0-9]", "x", value
            ), name
    assert (
        pseudonym_by_value["ANN.LEE@EXAMPLE.COM"]
        == pseudonym_by_value["ann.lee@example.com"].upper()
        and pseudonym_by_value["Ann.Lee@Example.com"][0].isupper()
    )
    for spellings in (
        VALUES["EMAIL_ADDRESS"][:3],
        VALUES["PHONE_NUMBER"][:3],
        VALUES["CREDIT_CARD"][:3],
        VALUES["IBAN_CODE"],
        VALUES["US_SSN"][:2],
    ):
        name = next(name for name, values in VALUES.items() if spellings[0] in values)
        assert (
            len({normalise_value(name, pseudonym_by_value[value]) for value in spellings}) == 1
        ), name
    assert shape[0].count("@") == shape[1].count("@")


@pytest.mark.slow
def test_the_key_decides_the_pseudonyms(tmp_path: Path) -> None:
    """Another key gives other pseudonyms; the same key gives the same ones in another corpus."""
    first_texts, second_texts = (
        ["ann.lee@example.com"],
        ["bob@example.org", "", "Ann.Lee@example.com"],
    )
    run_with_settings(
        write_corpus(tmp_path / "a", first_texts),
        tmp_path / "A",
        make_plan("corpus"),
        settings=make_settings(),
    )
    run_with_settings(
        write_corpus(tmp_path / "b", second_texts),
        tmp_path / "B",
        make_plan("corpus"),
        settings=make_settings(),
    )
    run_with_settings(
        write_corpus(tmp_path / "c", first_texts),
        tmp_path / "C",
        make_plan("corpus"),
        settings=make_settings(seed=2),
    )
    assert (
        read_texts(tmp_path / "A")[0]
        == read_texts(tmp_path / "B")[2].lower()
        != read_texts(tmp_path / "C")[0]
    )


@pytest.mark.slow
def test_swept_values_have_the_pseudonym_of_their_value(tmp_path: Path) -> None:
    hidden = r"\u0062ob\u0040example.org and \u0061nn.lee\u0040example.org"
    texts = ["bob@example.org", hidden, "ann.lee@example.org"]
    # `known` would find what is swept here
    plan = make_plan("corpus", 'find.finders=["patterns"]', 'find.kinds=["default"]')
    summary = run_with_settings(
        write_corpus(tmp_path / "in", texts), tmp_path / "out", plan, settings=make_settings()
    )
    output_texts = read_texts(tmp_path / "out")
    assert summary.verify.swept == 2 and summary.leaks == 0
    assert output_texts[1] == f"{output_texts[0]} and {output_texts[2]}"


def test_the_pseudonyms_query_reveals_the_mapping(tmp_path: Path) -> None:
    run_with_settings(
        write_corpus(tmp_path / "in", ["call 212-555-0123", "or (212) 555-0123"]),
        tmp_path / "out",
        make_plan("corpus"),
        settings=make_settings(),
    )
    rows = sql(tmp_path / "out.private", name="pseudonyms", reveal=True).to_dicts()
    pseudonyms = [text.split(" ", 1)[1] for text in read_texts(tmp_path / "out")]
    assert sorted((row["pseudonym"], row["value"], row["documents"]) for row in rows) == sorted(
        (text, "(212) 555-0123", 1) for text in pseudonyms
    )
    masked = sql(tmp_path / "out.private", name="pseudonyms").to_dicts()
    assert not [row for row in masked if "0123" in row["value"] or row["pseudonym"] in pseudonyms]


# --- draws that collide ---------------------------------------------------------------------------


def draw_pseudonyms(
    name: str,
    values: list[str],
    real: Mapping[str, list[str]] | None = None,
    reserved: bool = False,
    increments: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """The pseudonyms of values of one kind, beside `real` values by kind; `increments` has the
    number of the increment of each value."""
    kind, increments = get_kind(name), increments or {}
    ids = compute_value_ids(to_large_string(kind.normalise(pl.Series(values))), name, KEY)
    order = np.argsort(ids)
    parts = []
    for other, texts in ((name, values), *(real or {}).items()):
        normalised = to_large_string(get_kind(other).normalise(pl.Series(texts)))
        forms = hash_value_forms(
            get_kind(other), pa.array(texts, pa.large_string()), normalised, KEY
        )
        parts.append(
            FirstForms.collect(
                forms, np.array([increments.get(text, 0) for text in texts], np.int64)
            )
        )
    known_values = _KnownValues(
        FirstForms.merge(parts), np.arange(max(increments.values(), default=0) + 1)
    )
    ordered = [values[row] for row in order]
    texts, _ = known_values.draw_distinct(
        kind,
        pl.Series("value", ordered),
        np.zeros(len(values), np.uint64),
        _corpus_draws(KEY, kind, ids[order]),
        KEY,
        reserved,
        np.array([increments.get(value, 0) for value in ordered], np.int64),
    )
    return dict(zip(ordered, texts.to_pylist(), strict=True))


def test_pseudonyms_are_distinct_and_no_real_values() -> None:
    """4,000 addresses of a network of 2^16, half of which are real values."""
    values = [f"192.168.{no // 256}.{1 + no % 254}" for no in range(4_000)]
    real = [f"192.168.{100 + no // 254}.{1 + no % 254}" for no in range(30_000) if no // 254 < 155]
    pseudonyms = draw_pseudonyms("IP_ADDRESS", values, {"IP_ADDRESS": real})
    assert len(set(pseudonyms.values())) == len(set(values)) and not {*pseudonyms.values()} & {
        *values,
        *real,
    }
    assert all(text.startswith("192.168.") for text in pseudonyms.values())
    # with fewer values, most remaining values keep their pseudonym
    fewer = draw_pseudonyms("IP_ADDRESS", values[::2], {"IP_ADDRESS": real})
    assert sum(pseudonyms[value] != text for value, text in fewer.items()) < 0.1 * len(fewer)


def test_values_of_a_later_increment_change_no_pseudonym() -> None:
    """Also where they equal one, as values of the same kind or of another, or draw the same one."""
    values = [f"192.168.{no // 254}.{1 + no % 254}" for no in range(2_000)]
    published = draw_pseudonyms("IP_ADDRESS", values)
    equal = list(published.values())[:300]
    later = [f"192.168.{100 + no // 254}.{1 + no % 254}" for no in range(3_000)]
    new = [value for value in dict.fromkeys([*equal, *later]) if value not in values]
    user_names = list(published.values())[300:600]
    increments = dict.fromkeys([*new, *user_names], 1)
    drawn = draw_pseudonyms(
        "IP_ADDRESS", [*values, *new], {"USER_NAME": user_names}, increments=increments
    )
    assert {value: drawn[value] for value in values} == published
    assert len({*drawn.values()}) == len(drawn)
    assert not {drawn[value] for value in new} & {*values, *new, *user_names}
    # drawn at once, the values of the first increment would be drawn again
    together = draw_pseudonyms("IP_ADDRESS", [*values, *new], {"USER_NAME": user_names})
    assert sum(together[value] != published[value] for value in values) >= 500


def test_values_beyond_exhausted_reserved_ranges_get_other_addresses() -> None:
    """768 addresses are reserved by RFC 5737; the first of 900 values get them."""
    pseudonyms = draw_pseudonyms(
        "IP_ADDRESS", [f"9.9.{no // 200}.{10 + no % 200}" for no in range(900)], reserved=True
    )
    inside = sum(
        text.startswith(("192.0.2.", "198.51.100.", "203.0.113.")) for text in pseudonyms.values()
    )
    assert 600 < inside <= 768 and len(set(pseudonyms.values())) == 900


def test_short_values_are_made_longer_when_no_other_is_free() -> None:
    values = [f"{digit}@{letter}" for digit in range(10) for letter in "abcdefghijklmnopqrstuvwxyz"]
    pseudonyms = draw_pseudonyms("MESSAGE_ID", values)
    assert len(set(pseudonyms.values())) == len(values) and not set(pseudonyms.values()) & set(
        values
    )


def test_more_names_of_one_word_than_the_list_has() -> None:
    """PERSON has no pattern: any text is valid, and `Ann` may become `Iris7` when all names are
    used."""
    values = [
        a + b + c
        for a in "bcdfglmnprst"
        for b in "aeiou"
        for c in ("nn", "lla", "rk", "ven", "sto", "mir", "dro", "xi", "qu", "po")
    ]
    pseudonyms = draw_pseudonyms(
        "PERSON", [f"{value}{tail}" for value in values for tail in ("", "a", "o", "is")]
    )
    assert (
        len(pseudonyms) == 2_400
        and len(set(pseudonyms.values())) == len(pseudonyms)
        and not set(pseudonyms.values()) & set(pseudonyms)
    )


def test_a_surname_before_the_given_name_keeps_its_position() -> None:
    kind, names = (
        get_kind("PERSON"),
        [
            "Anna Roe",
            "Roe, Anna",
            "ROE, ANNA",
            "Garcia Lopez, Anna-Lena",
            "anna-lena garcia lopez",
            "Day, Anna, Lena",
        ],
    )
    forms = kind.normalise(pl.Series(names))
    ids = compute_value_ids(to_large_string(forms), "PERSON", KEY)
    plain = draw_pseudonyms("PERSON", forms.unique().to_list())
    spellings = pl.DataFrame({"value": names, "swept": False})
    texts = pa.array([plain[form] for form in forms], pa.large_string())
    pseudonyms = _spell_pseudonyms(
        kind, spellings, texts, np.zeros(len(names), np.int64), _corpus_draws(KEY, kind, ids), False
    ).to_pylist()
    shapes = [
        [re.sub("[a-z]+", "a", re.sub("[A-Z]+", "A", text)) for text in spelled]
        for spelled in (names, pseudonyms)
    ]
    assert shapes[0] == shapes[1]
    given_name, surname = pseudonyms[0].split()
    assert pseudonyms[1:3] == [f"{surname}, {given_name}", f"{surname}, {given_name}".upper()]
    assert pseudonyms[4] == "{1} {0}".format(*pseudonyms[3].split(", ")).lower()


def test_an_exhausted_pool_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pseudonymize, "_MAX_ATTEMPTS", 5)
    with pytest.raises(
        ResourceError,
        match=(
            "US_SSN: no unused pseudonym was found for .* values; set reserved = false, or use"
            " redact"
        ),
    ):
        draw_pseudonyms("US_SSN", [f"123-45-{no:04d}" for no in range(1, 60)], reserved=True)


@pytest.mark.parametrize(
    ("plain", "spelled", "only_digits", "expected"),
    [
        ("+12125550123", "(713) 555-9999", True, "(212) 555-0123"),
        ("+12125550123x45", "713.555.9999 ext. 12", True, "212.555.0123 ext. 45"),
        (
            "GB82WEST12345698765432",
            "DE00 AAAA 0000 0000 0000 00",
            False,
            "GB82 WEST 1234 5698 7654 32",
        ),
        ("12", "no digits", True, "no digits"),
        ("1", "123-45", True, "123-45"),  # too few digits: unchanged
    ],
)
def test_characters_are_fitted_into_a_spelling(
    plain: str, spelled: str, only_digits: bool, expected: str
) -> None:
    assert _fit_characters(
        pl.Series([plain, "7"]), pl.Series([spelled, "-9"]), only_digits
    ).to_list() == [expected, "-7"]


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(PlanError, match="edit\\[0\\].scope"):
        make_plan("user")
    with pytest.raises(PlanError, match="edit\\[0\\].keep"):
        load_plan("pseudonymize", ["edit.0.keep=1"])
    assert load_plan("pseudonymize").editors[0].removal_policy == "erase"
    assert set(load_plan("pseudonymize").editor_no_by_kind) == set(
        load_plan("surrogates").editor_no_by_kind
    )


@pytest.mark.slow
def test_another_plan_does_not_delete_the_mapping(tmp_path: Path) -> None:
    (tmp_path / "mails.jsonl").write_text(
        json.dumps({"text": "ann.lee@example.com and Bob Roe <bob.roe@example.com>"}) + "\n"
    )
    work = tmp_path / "work"

    def run_plan(out: str, plan_name: str, replace: bool = False) -> None:
        run_with_settings(
            [tmp_path / "mails.jsonl"],
            tmp_path / out,
            plan_name,
            work,
            Settings(seed=1, workers=1, replace=replace),
        )

    run_plan("one", "pseudonymize")
    run_plan("two", "redact")  # a plan with the same finders
    with pytest.raises(
        UsageError, match="delete the mapping from the labels of .*one back to their values"
    ):
        run_plan("three", "names")
    assert list(work.glob("runs/*/vault/labels/*.parquet")) and not (tmp_path / "three").exists()
    run_plan("three", "names", replace=True)
