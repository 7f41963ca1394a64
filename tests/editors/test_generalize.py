"""The editor `generalize`: years for dates, ten-year ranges for ages, labels for all others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.core.part_protocols import EditBatch
from sanitize.editors.generalize import Generalize
from sanitize.plans.plan import Plan, load_plan

CASES = [
    ("DATE_TIME", "12 March 2019", "2019"),
    ("DATE_TIME", "2020-01-05T10:00Z", "2020"),
    ("DATE_TIME", "05.01.1998", "1998"),
    ("DATE_TIME", "2001", "2001"),
    ("DATE_TIME", "3/4/21", "[DATE_TIME]"),
    ("DATE_TIME", "10:30", "[DATE_TIME]"),
    ("DATE_TIME", "12019", "[DATE_TIME]"),
    ("AGE", "64", "60 to 69"),
    ("AGE", "5", "0 to 9"),
    ("AGE", "89", "80 to 89"),
    ("AGE", "90", "90 or more"),
    ("AGE", "104", "90 or more"),
    ("AGE", "Sixty-four", "60 to 69"),
    ("PERSON", "Ann Quist 2019", "[PERSON]"),
]


def test_replacements() -> None:
    editor = Generalize(use="generalize", kinds=("DATE_TIME", "AGE", "PERSON"))
    frame = pl.DataFrame(
        {"kind": [kind for kind, _, _ in CASES], "value": [value for _, value, _ in CASES]}
    )
    batch = EditBatch(frame, pa.array(["d"] * len(CASES)).dictionary_encode())
    edits = editor.edit_occurrences(batch)
    rows, replacements, labels = edits.rows, edits.replacement, edits.labels
    assert rows.tolist() == np.arange(len(CASES)).tolist() and labels is None
    assert replacements.to_pylist() == [expected for _, _, expected in CASES]
    assert [editor.describe_staying(kind) for kind in ("DATE_TIME", "AGE")] == [
        "the year of a date",
        "",
    ]


def test_the_plan_strict() -> None:
    text = (
        "Ann Quist (MRN: 00412-8841), 94 years old, of 12 Larkspur Lane, IL 62704, seen on 12 March"
        " 2019 and 3/4/21."
    )
    expected = (
        "[PERSON] (MRN: [RECORD_NUMBER]), 90 or more years old, of [STREET_ADDRESS], seen"
        " on 2019 and [DATE_TIME]."
    )
    assert sanitize.redact(text, plan="strict", seed=1) == expected


SENTENCES = [  # a number and what shows its class; without it the number stays
    ("RECORD_NUMBER", "MRN {}", "00412-8841"),
    ("ACCOUNT_NUMBER", "account no. {}", "000123456789"),
    ("LICENSE_NUMBER", "driver's license {}", "D1234567"),
    ("VEHICLE_ID", "VIN: {}", "1HGCM82633A004352"),
    ("DEVICE_ID", "serial number {}", "C02XK1234"),
]


@pytest.mark.parametrize(("kind", "sentence", "number"), SENTENCES)
def test_numbers_of_strict_need_a_word_beside_them(kind: str, sentence: str, number: str) -> None:
    found = sanitize.detect(
        [sentence.format(number), f"order {number}"], plan="strict", values=True
    )
    assert (0, kind, number) in found.select("text_index", "kind", "value").rows()
    assert kind not in found.filter(pl.col("text_index") == 1)["kind"].to_list()


def test_every_class_of_strict_has_examples() -> None:
    plan: Plan = load_plan("strict")
    assert all(custom.examples and custom.counter_examples for custom in plan.custom_kinds)
