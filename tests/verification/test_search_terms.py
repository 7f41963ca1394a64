"""Which forms are too short or too common for a match to be conclusive, or to be swept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.storage import table_schemas
from sanitize.text.literal_search import LiteralMatcher, count_common_values
from sanitize.verification.value_forms import SWEEP_FILES, SearchTerms, is_conclusive, write_passes

# form: is it too short; does it occur by chance in bytes that may not be text
FORMS = {
    "a@b.c": (True, True),
    "a@bc.d": (False, True),
    "ab@cd.e": (False, True),
    "ab@cd.ef": (False, False),
    "ann": (True, True),
    "annabella": (True, False),
    "rene\u0301e\u0301lise": (True, False),  # letters with combining marks
    "ann beck": (False, False),
    "annabell4": (False, False),
}


def write_vault(path: Path, rows: list[tuple[str, str, str | None]]) -> Path:
    columns = [range(1, len(rows) + 1), *zip(*rows, strict=True)]
    arrays = [pa.array(list(column)) for column in columns]
    pq.write_table(pa.table(arrays, names=["value_id", "kind", "value", "normalised"]).cast(table_schemas.VALUE_SPELLINGS.schema), path)
    return path


@pytest.mark.parametrize("decoding", ["HTML", "base64", "UTF-16"])
def test_decoded_matches_are_conclusive_if_distinctive(decoding: str) -> None:
    names = list(FORMS)
    matcher = LiteralMatcher(pa.array(names, pa.large_string()), np.zeros(len(names), np.int32), np.arange(len(names)))
    order = np.arange(len(names))[::-1]
    by_chance = decoding in ("base64", "UTF-16")
    conclusive = dict(zip([names[index] for index in order], is_conclusive(matcher, order, decoding).tolist(), strict=True))
    assert conclusive == {form: not (is_short or (by_chance and is_common)) for form, (is_short, is_common) in reversed(FORMS.items())}


def test_digits_are_conclusive_if_they_are_nine() -> None:
    matcher = LiteralMatcher(pa.array(["5550100", "44205550", "442055501"], pa.large_string()), np.zeros(3, np.int32), np.arange(3))
    assert is_conclusive(matcher, np.arange(3), "digits").tolist() == [False, False, True]


def test_passes_mark_short_forms(tmp_path: Path) -> None:
    values = write_vault(
        tmp_path / "values.parquet", [("PERSON", form, None) for form in FORMS] + [("PHONE_NUMBER", "555-0100", "5550100")]
    )
    passes, _ = write_passes([values], ["PERSON", "PHONE_NUMBER"], tmp_path / "passes")
    search_terms = SearchTerms.read(passes[0])
    spelled = [text.decode() for text in search_terms.read_spellings(np.arange(len(search_terms.is_short)))]
    short = dict(zip(spelled, search_terms.is_short.tolist(), strict=True))
    assert {form: short[form] for form in FORMS} == {form: is_short for form, (is_short, _) in FORMS.items()}
    assert search_terms.is_short_number.tolist() == [True]


def test_both_checks_count_the_same_values(tmp_path: Path) -> None:
    """A name of one word may mean something else: it is in neither count of the values that are searched for."""
    rows: list[tuple[str, str, str | None]] = [
        ("PERSON", "Will", "will"),
        ("PERSON", "Ann Roe", "ann roe"),
        ("PERSON", "ANN ROE", "ann roe"),
    ]
    values = write_vault(tmp_path / "values.parquet", [*rows, ("PHONE_NUMBER", "555-0100", "5550100"), ("US_SSN", "219-09-9999", None)])
    table = pq.read_table(values)
    pq.write_table(table.set_column(0, "value_id", pa.array([1, 2, 2, 3, 4], table.schema.field("value_id").type)), values)
    kinds = ["PERSON", "PHONE_NUMBER"]
    assert LiteralMatcher.write([values], kinds, tmp_path / "forbidden.parquet") == 2
    assert write_passes([values], kinds, tmp_path / "passes")[1] == 2
    assert count_common_values(tmp_path / "forbidden.parquet") == 1


def test_sweep_terms_are_distinctive(tmp_path: Path) -> None:
    """Sweep terms are identity forms that differ from every spelling, without short ones, and the digits of numbers."""
    rows: list[tuple[str, str, str | None]] = [("PERSON", f"<{form}>", form) for form in FORMS]
    rows += [("PHONE_NUMBER", "555-0100", "5550100"), ("PHONE_NUMBER", "+44 20 555 0100", "+44205550100")]
    values = write_vault(tmp_path / "values.parquet", rows)
    write_passes([values], ["PERSON", "PHONE_NUMBER"], tmp_path / "passes", sweep_folder=tmp_path / "sweep_terms")
    identity, digits = (tmp_path / "sweep_terms" / name for name in SWEEP_FILES)
    assert pq.read_table(identity)["form"].to_pylist() == sorted(form for form, (is_short, _) in FORMS.items() if not is_short)
    assert pq.read_table(digits)["form"].to_pylist() == ["44205550100", "5550100"]
