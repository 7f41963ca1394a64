"""Which forms are too short or too common for a match to be conclusive, or to be swept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.storage import table_schemas
from sanitize.text.literal_search import LiteralMatcher
from sanitize.verification.value_forms import SearchTerms, is_conclusive, write_passes, write_sweep_terms

# form, says little, comes about by chance in bytes that need not be text
FORMS = {
    "a@b.c": (True, True),
    "a@bc.d": (False, True),
    "ab@cd.e": (False, True),
    "ab@cd.ef": (False, False),
    "ann": (True, True),
    "annabella": (True, False),
    "rene\u0301e\u0301lise": (True, False),  # letters and the marks on them
    "ann beck": (False, False),
    "annabell4": (False, False),
}


def vault(path: Path, rows: list[tuple[str, str, str | None]]) -> Path:
    columns = [range(1, len(rows) + 1), *zip(*rows, strict=True)]
    arrays = [pa.array(list(column)) for column in columns]
    pq.write_table(pa.table(arrays, names=["value_id", "kind", "value", "normalised"]).cast(table_schemas.VALUE_SPELLINGS.schema), path)
    return path


@pytest.mark.parametrize("view", ["HTML", "digits", "base64", "UTF-16"])
def test_what_a_view_shows_counts_if_it_says_enough(view: str) -> None:
    names = list(FORMS)
    flagged = LiteralMatcher(pa.array(names, pa.large_string()), np.zeros(len(names), np.int32), np.arange(len(names)))
    order = np.arange(len(names))[::-1]
    by_chance = view in ("base64", "UTF-16")
    said = dict(zip([names[at] for at in order], is_conclusive(flagged, order, view).tolist(), strict=True))
    assert said == {form: not (little or (by_chance and chance)) for form, (little, chance) in reversed(FORMS.items())}


def test_a_pass_knows_which_of_its_forms_are_short(tmp_path: Path) -> None:
    values = vault(tmp_path / "values.parquet", [("PERSON", form, None) for form in FORMS] + [("PHONE_NUMBER", "555 0100", "5550100")])
    made, _ = write_passes([values], ["PERSON", "PHONE_NUMBER"], tmp_path / "passes")
    needles = SearchTerms.read(made[0])
    spelled = [text.decode() for text in needles.read_spellings(np.arange(len(needles.is_short)))]
    short = dict(zip(spelled, needles.is_short.tolist(), strict=True))
    assert {form: short[form] for form in FORMS} == {form: little for form, (little, _) in FORMS.items()}
    assert needles.is_short_number.tolist() == [True]


def test_what_is_taken_out_further_says_enough(tmp_path: Path) -> None:
    """Sweep terms are identity forms that differ from every spelling, and numbers of nine or more digits."""
    rows: list[tuple[str, str, str | None]] = [("PERSON", f"<{form}>", form) for form in FORMS]
    rows += [("PHONE_NUMBER", "555-0100", "5550100"), ("PHONE_NUMBER", "+44 20 555 0100", "+44205550100")]
    values = vault(tmp_path / "values.parquet", rows)
    identity, digits = write_sweep_terms([values], ["PERSON", "PHONE_NUMBER"], tmp_path / "further")
    assert pq.read_table(identity)["form"].to_pylist() == sorted(form for form, (little, _) in FORMS.items() if not little)
    assert pq.read_table(digits)["form"].to_pylist() == ["44205550100"]
