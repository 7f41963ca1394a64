"""Labels in place of values. A template for the test of an editor: a table of cases for
`edit_occurrences`, then whole texts.

An editor is tested on `EditBatch`es that a test makes by hand; no corpus and no run is needed for
it. The last test goes through finders, editor and leak check.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import sanitize
from sanitize.core.part_protocols import EditBatch
from sanitize.editors.redact import Redact
from sanitize.errors import PlanError
from sanitize.plans.plan import Plan

# an occurrence: doc_no, kind, and the value; two spellings of one value are one value_id, here
# equal but for letter case
ANN_TWICE = [(0, "EMAIL_ADDRESS", "ann@example.com"), (0, "EMAIL_ADDRESS", "Ann@Example.com")]
ANN_BOB = [(0, "EMAIL_ADDRESS", "ann@example.com"), (0, "EMAIL_ADDRESS", "bob@example.com")]
TWO_KINDS = [
    (0, "EMAIL_ADDRESS", "ann@example.com"),
    (0, "US_SSN", "123-45-6789"),
    (0, "US_SSN", "321-45-6789"),
]
TWO_DOCUMENTS = [
    (0, "EMAIL_ADDRESS", "ann@example.com"),
    (1, "EMAIL_ADDRESS", "bob@example.com"),
    (1, "EMAIL_ADDRESS", "ann@example.com"),
]
BACK_TO_ANN = [*ANN_BOB, (0, "EMAIL_ADDRESS", "ann@example.com")]
CASES = [
    # name, setting `label`, occurrences, the label of each
    (
        "a fixed label names the kind",
        "fixed",
        TWO_KINDS,
        ["[EMAIL_ADDRESS]", "[US_SSN]", "[US_SSN]"],
    ),
    (
        "values are numbered in order of appearance",
        "numbered",
        ANN_BOB,
        ["[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-2]"],
    ),
    (
        "two spellings of a value share a number",
        "numbered",
        ANN_TWICE,
        ["[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-1]"],
    ),
    (
        "a value keeps its number",
        "numbered",
        BACK_TO_ANN,
        ["[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-2]", "[EMAIL_ADDRESS-1]"],
    ),
    (
        "every kind has numbers of its own",
        "numbered",
        TWO_KINDS,
        ["[EMAIL_ADDRESS-1]", "[US_SSN-1]", "[US_SSN-2]"],
    ),
    (
        "every document has numbers of its own",
        "numbered",
        TWO_DOCUMENTS,
        ["[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-1]", "[EMAIL_ADDRESS-2]"],
    ),
    ("no occurrences", "numbered", [], []),
]


def make_batch(occurrences: list[tuple[int, str, str]]) -> EditBatch:
    """The occurrences as an editor receives them, one after the other in cell 0 of their
    documents."""
    frame = pl.DataFrame(
        occurrences,
        schema={"doc_no": pl.Int64, "kind": pl.String, "value": pl.String},
        orient="row",
    )
    frame = frame.with_columns(
        kind=pl.col("kind").cast(pl.Categorical),
        value_id=pl.col("value").str.to_lowercase().rank("dense").cast(pl.Int64),
        cell=pl.lit(0, pl.Int32),
        start=pl.int_range(pl.len()).over("doc_no") * 40,
        kept=pl.lit(False),
        swept=pl.lit(False),
    ).with_columns(end=pl.col("start") + pl.col("value").str.len_chars().cast(pl.Int64))
    doc_ids = pa.array(
        [f"d{number}" for number in frame["doc_no"]], pa.string()
    ).dictionary_encode()
    return EditBatch(frame, doc_ids)


@pytest.mark.parametrize(
    ("label", "occurrences", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_every_occurrence_gets_its_label(
    label: str, occurrences: list[tuple[int, str, str]], expected: list[str]
) -> None:
    batch = make_batch(occurrences)
    editor = Redact(use="redact", kinds=("EMAIL_ADDRESS", "US_SSN"), label=label)  # type: ignore[arg-type]
    edits = editor.edit_occurrences(batch)
    rows, replacements, labels = edits.rows, edits.replacement, edits.labels
    assert rows.tolist() == list(range(len(occurrences)))  # nothing is left in the text
    assert replacements.to_pylist() == expected
    if label == "fixed":
        assert labels is None
    else:  # the vault gets the value of every label once
        assert labels is not None
        pairs = zip(
            batch.occurrences["doc_no"], expected, batch.occurrences["value_id"], strict=True
        )
        assert [tuple(row.values()) for row in labels.to_pylist()] == list(dict.fromkeys(pairs))


def test_the_leak_check_expects_that_no_value_stays() -> None:
    editor = Redact(use="redact", kinds=("EMAIL_ADDRESS",))
    assert (editor.removal_policy, editor.keep, editor.supports_append) == ("erase", 0, True)
    assert editor.action == "every occurrence replaced by a label"


def test_a_plan_cannot_keep_occurrences() -> None:
    with pytest.raises(PlanError, match=r"edit\[0\].keep"):
        Plan.load("redact").with_({"edit.0.keep": 1})


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("fixed", "[EMAIL_ADDRESS] wrote to [EMAIL_ADDRESS]; SSN [US_SSN]; [EMAIL_ADDRESS]"),
        (
            "numbered",
            "[EMAIL_ADDRESS-1] wrote to [EMAIL_ADDRESS-2]; SSN [US_SSN-1]; [EMAIL_ADDRESS-1]",
        ),
    ],
)
def test_a_text_has_labels_in_place_of_its_values(label: str, expected: str) -> None:
    text = "ann.lee@example.com wrote to bob@example.org; SSN 123-45-6789; Ann.Lee@Example.com"
    assert (
        sanitize.redact([text], plan=Plan.load("redact").with_({"edit.0.label": label}))[0]
        == expected
    )
