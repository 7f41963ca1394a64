"""The canary check: every run also processes documents of invented people. A value that must be
removed is counted as removed or stops the run. The check uses no value of the user's documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.core.command_results import CanaryCounts
from sanitize.core.part_protocols import OccurrenceEdits
from sanitize.core.span_table import SpanTable
from sanitize.core.text_cells import LeafPath
from sanitize.editors.redact import Redact
from sanitize.engines.local import LocalEngine
from sanitize.errors import OutputBroken
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import get_kind, list_kinds
from sanitize.pipeline import canaries
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import DocumentFile, Documents

MAILS = [
    f"From: canary{number}@example.com\nSubject: canary\n\n" + "canary word\n" * number
    for number in range(1, 9)
]


@pytest.fixture(autouse=True)
def use_real_document_shapes(
    get_real_document_shapes: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canaries, "_get_document_shapes", get_real_document_shapes)
    canaries._RESULTS.clear()


def write_documents(folder: Path, texts: Sequence[str | None] = tuple(MAILS)) -> Documents:
    table = pa.table({"text": pa.array(texts, pa.large_string())})
    pq.write_table(table, folder / "in.parquet")
    source = DocumentFile(
        path=str(folder / "in.parquet"), rows=len(texts), first_doc_no=0, columns={"text": "text"}
    )
    return Documents(
        files=(source,) if texts else (), schema=table.schema, main_leaf=LeafPath("text")
    )


def check_plan(
    folder: Path,
    plan: str = "rmft",
    texts: Sequence[str | None] = tuple(MAILS),
    changes: Sequence[str] = (),
    mode: str = "full",
) -> CanaryCounts:
    engine = LocalEngine(workers=1, spill=folder)
    return canaries.check_canaries(
        engine, load_plan(plan, changes), write_documents(folder, texts), folder / "drill", mode
    )


@pytest.mark.parametrize(
    ("plan", "changes"),
    [("rmft", ()), ("rmft", ("edit.0.keep=2",)), ("surrogates", ()), ("redact", ())],
)
def test_every_form_that_must_be_removed_is_removed(
    tmp_path: Path, plan: str, changes: tuple[str, ...]
) -> None:
    result = check_plan(tmp_path, plan, changes=changes)
    # found by more than a pattern, or opt-in
    untested_kinds = [
        kind
        for kind in sorted(load_plan(plan).editor_no_by_kind)
        if get_kind(kind).opt_in or not get_kind(kind).has_pattern
    ]
    kind_count = len(load_plan(plan).editor_no_by_kind) - len(untested_kinds)
    assert result.removed == result.planted >= kind_count * canaries.CANARY_COUNT * 3
    assert result.encoded.planted > 0 and result.untested_kinds == untested_kinds
    for form in canaries.CANARY_FORMS:
        counts = result.by_form[form.name]
        assert not form.must_be_removed or counts.removed == counts.planted > 0
    assert (
        result.by_form["base64"].removed
        == result.by_form["base64"].planted
        == kind_count * canaries.CANARY_COUNT
    )
    assert not (tmp_path / "drill").exists()


def test_the_forms_that_are_removed_depend_on_the_check(tmp_path: Path) -> None:
    full, fast, off = (
        check_plan(tmp_path, "redact", mode=mode).by_form for mode in ("full", "fast", "off")
    )
    assert [form for form, counts in full.items() if counts.removed < counts.planted] == []
    assert {"HTML", "URL", "base64"} == {
        form for form, counts in fast.items() if counts.removed < counts.planted
    }
    assert fast["base64"].removed == off["base64"].removed == 0
    assert off["base64"].removed == 0 and off["as written"].removed == off["as written"].planted


def test_samples_show_a_line_of_each_kind_before_and_after(tmp_path: Path) -> None:
    samples = {
        sample.kind: (sample.before, sample.after)
        for sample in check_plan(tmp_path, "redact").samples
    }
    assert samples["EMAIL_ADDRESS"] == (
        "write to anna.kowal@mail.example.com",
        "write to [EMAIL_ADDRESS]",
    )
    assert samples["PERSON"] == ("Dear Ann Roe, hello", "Dear [PERSON], hello")
    # RMFT keeps the first occurrence: the sample shows a later one, which keeps one part at most
    rmft = {
        sample.kind: (sample.before, sample.after)
        for sample in check_plan(tmp_path, "rmft").samples
    }
    before, after = rmft["EMAIL_ADDRESS"]
    assert (
        before == samples["EMAIL_ADDRESS"][0]
        and after.startswith("write to ")
        and "@" in after
        and after != before
    )
    assert "PERSON" not in rmft and rmft["US_SSN"] == ("SSN 123-45-6789.", "SSN [US_SSN].")


@pytest.mark.slow
def test_a_sample_with_a_value_of_the_corpus_is_left_out(tmp_path: Path) -> None:
    texts = ["card 4111111111111111", "Dear Ann Roe, hello"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        load_plan("redact"),
        None,
        Settings(seed=1, workers=1),
    )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    kinds = [sample["kind"] for sample in manifest["summary"]["canaries"]["samples"]]
    assert "EMAIL_ADDRESS" in kinds and not {"CREDIT_CARD", "PERSON"} & set(kinds)
    page = (tmp_path / "out" / "report.html").read_text()
    assert (
        "write to anna.kowal@mail.example.com" in page
        and "4111" not in page
        and "Ann Roe" not in page
    )
    # a value that the plan keeps is not shown either
    pq.write_table(pa.table({"text": ["Anna.Kowal@mail.example.com"]}), tmp_path / "in.parquet")
    run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "kept",
        load_plan("rmft"),
        None,
        Settings(seed=1, workers=1),
    )
    kept = json.loads((tmp_path / "kept" / "manifest.json").read_text())["summary"]["canaries"][
        "samples"
    ]
    assert "EMAIL_ADDRESS" not in [sample["kind"] for sample in kept] and len(kept) > 5


def test_kinds_without_a_removal_guarantee_are_untested(tmp_path: Path) -> None:
    result = check_plan(tmp_path, "header_dedup")
    assert result.untested_kinds == ["EMAIL_ADDRESS"] and result.removed == result.planted > 0


def test_every_kind_has_a_valid_example() -> None:
    """A kind without an example is not checked; all shipped kinds have one."""
    key = canaries.Key(b"x" * 32, is_public=True)
    for name in canaries.canary_examples():
        values = canaries._generate_values(key, name)
        assert (
            len(set(values)) == canaries.CANARY_COUNT
            and canaries.canary_examples()[name] not in values
        )
    shipped_kinds = {
        kind
        for plan in ("rmft", "surrogates", "redact")
        for kind in load_plan(plan).editor_no_by_kind
    }
    always = {kind for kind in shipped_kinds if get_kind(kind).searched_when == "always"}
    assert len(always) > 10 and always <= set(canaries.canary_examples())
    assert set(canaries.canary_examples()) <= set(list_kinds())


@pytest.mark.slow
def test_the_same_plan_and_shapes_give_the_same_numbers(tmp_path: Path) -> None:
    first = check_plan(tmp_path)
    canaries._RESULTS.clear()
    assert check_plan(tmp_path) == first
    canaries._RESULTS.clear()
    assert check_plan(tmp_path, texts=[text.replace("canary", "secret") for text in MAILS]) == first


@pytest.mark.parametrize(
    "texts",
    [(), (None,), ("",), ("x" * 100_000, "\n" * 5_000, "\u6f22\u5b57", "caf\u00e9\r\nau lait")],
)
def test_shapes_of_unusual_documents(tmp_path: Path, texts: tuple[str | None, ...]) -> None:
    result = check_plan(tmp_path, "redact", texts)
    assert result.removed == result.planted > 0


def test_a_null_column_without_a_type_is_accepted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.nulls(3)}), tmp_path / "in.parquet")
    summary = run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        load_plan("surrogates"),
        settings=Settings(seed=1, workers=1),
    )
    assert (summary.documents_out, summary.leaks) == (3, 0)


def test_shapes_of_nested_and_missing_texts(tmp_path: Path) -> None:
    column_type = pa.list_(pa.struct([("content", pa.string())]))
    for turns, expected in (
        ([None], canaries._DEFAULT_SHAPES),
        ([[{"content": "From: x\n\nhello"}, {"content": "a"}]], ((True, 2, 4), (False, 1, 1))),
    ):
        table = pa.table({"turns": pa.array(turns, column_type)})
        pq.write_table(table, tmp_path / "in.parquet")
        source = DocumentFile(
            path=str(tmp_path / "in.parquet"), rows=1, first_doc_no=0, columns={"turns": "turns"}
        )
        documents = Documents(
            files=(source,), schema=table.schema, main_leaf=LeafPath("turns", ("[]", "content"))
        )
        assert canaries._get_document_shapes(documents) == expected


def test_canary_documents_contain_no_text_of_the_documents(tmp_path: Path) -> None:
    shapes = canaries._get_document_shapes(write_documents(tmp_path))
    key = canaries.Key(b"x" * 32, is_public=True)
    texts, plants = canaries._build_documents(key, ["EMAIL_ADDRESS", "PHONE_NUMBER"], 1, shapes)
    assert not [text for text in texts if re.search("canary", text, re.IGNORECASE)]
    assert {text.startswith("Subject: ") for text in texts} == {True}
    for plant in plants:
        written = texts[plant.doc_no].encode()[plant.start_byte : plant.end_byte].decode()
        assert written and not written[0].isspace() and not written[-1].isspace()
    # no upper case, at-sign or URL forms of numbers, and no digit form of addresses
    assert (
        len(plants)
        == 2 * canaries.CANARY_COUNT * (1 + len(canaries.CANARY_FORMS)) - 4 * canaries.CANARY_COUNT
    )


def make_finder_ignore_kind(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Makes the finder ignore one kind."""
    real_run = PatternFinder.run

    def run_and_drop_kind(self: PatternFinder, texts: Any) -> SpanTable:
        found = real_run(self, texts)
        kind_no = [kind_spec.name for kind_spec in self.kinds].index(kind)
        kept_rows = found.kind != kind_no
        return found.take(kept_rows)

    monkeypatch.setattr(PatternFinder, "run", run_and_drop_kind)


def test_a_finder_that_misses_a_kind_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_finder_ignore_kind(monkeypatch, "PHONE_NUMBER")
    pq.write_table(pa.table({"text": ["nothing to see"]}), tmp_path / "in.parquet")
    with pytest.raises(OutputBroken, match=r"canary check: .* PHONE_NUMBER \(as written\)"):
        run_with_settings(
            [tmp_path / "in.parquet"],
            tmp_path / "out",
            load_plan("redact"),
            None,
            Settings(seed=1, workers=1),
        )
    assert not (tmp_path / "out").exists()


def test_an_editor_that_skips_occurrences_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor is correct on the user's document; the canary check finds its error on other
    documents."""
    edit_occurrences = Redact.edit_occurrences

    def edit_some_occurrences(self: Redact, batch: Any) -> Any:
        edits = edit_occurrences(self, batch)
        is_edited = np.array(
            [not value.startswith("4") for value in batch.occurrences["value"].gather(edits.rows)],
            np.bool_,
        )
        return OccurrenceEdits(
            edits.rows[is_edited], edits.replacement.filter(pa.array(is_edited)), edits.labels
        )

    monkeypatch.setattr(Redact, "edit_occurrences", edit_some_occurrences)
    pq.write_table(pa.table({"text": ["mail bob.lee@example.com"]}), tmp_path / "in.parquet")
    with pytest.raises(OutputBroken, match="canary check"):
        run_with_settings(
            [tmp_path / "in.parquet"],
            tmp_path / "out",
            load_plan("redact"),
            None,
            Settings(seed=1, workers=1),
        )


@pytest.mark.slow
def test_every_run_reports_the_canary_counts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": MAILS}), tmp_path / "in.parquet")
    summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan("rmft"),
        None,
        Settings(seed=1, workers=1, verify="full"),
    )
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["summary"]["canaries"]
    assert counts == summary.to_dict()["canaries"] and counts["removed"] == counts["planted"] > 100
    assert (
        summary.verify.mode == "full"
        and len(summary.verify.forms) == 24
        and summary.verify.inconclusive == {}
    )
    planted, removed = (
        sum(form[name] for form in counts["by_form"].values()) for name in ("planted", "removed")
    )
    for page in ("report.html", "README.md"):
        assert (
            f"{removed} of {planted} values of invented people were removed"
            in (tmp_path / "out" / page).read_text()
        )
    second_summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan("rmft"),
        None,
        Settings(seed=1, workers=1, verify="full"),
    )
    assert second_summary.changed is False and second_summary.to_dict()["canaries"] == counts
    baseline_summary = run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "raw",
        load_plan("baseline"),
        None,
        Settings(seed=1, workers=1),
    )
    assert (
        baseline_summary.canaries.planted == 0
        and "invented people" not in (tmp_path / "raw" / "README.md").read_text().lower()
    )


@pytest.mark.slow
def test_samples_with_encoded_values_are_left_out_after_those_with_plain_ones(
    tmp_path: Path,
) -> None:
    """Names of erased persons are only searched in samples once no plain value is left."""
    texts = [
        "Yesterday Paid With Novak wrote to eva.jones@example.com about it.",
        "Then Paid With met Bob Miller, call (212) 555-0142 please.",
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    (tmp_path / "known.csv").write_text("kind,value\nPERSON,Paid With\n")
    (tmp_path / "who.txt").write_text("Ann Roe\neva.jones@example.com\n")
    sanitize.run(
        tmp_path / "in.parquet",
        tmp_path / "out",
        plan="strict",
        known=tmp_path / "known.csv",
        seed=1,
        workers=1,
    )
    sanitize.subject(tmp_path / "out.private", tmp_path / "who.txt", erase=True, seed=1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Ann Roe" not in page and "Paid With" not in page
