"""Invariants over small invented corpora: the same bytes for any division of the work, no change
outside the edits, no remaining removed value, and every document and every occurrence accounted
for. The expected result is computed in slow, simple Python."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import itertools
import random
import re
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import sanitize
from sanitize.kinds.kind import ASCII_WORD_CHARS, list_kinds
from sanitize.pipeline import shard_checking
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.stages import detection, rewriting
from sanitize.storage import corpus
from tests.support import read_files, read_rows, temporary_folder

Row = dict[str, Any]
RMFT_KINDS = ["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS"]

# --- invented corpora -----------------------------------------------------------------------------

VALUES = [
    "bob@example.com",
    "Bob@Example.com",
    "bob.mann@example.com",
    "BOB.MANN@EXAMPLE.COM",
    "ann_lee@mail.example.org",
    "Cleo.Day7@example.net",
    "o'neil@example.com",
    "d.e.f@example.co.uk",
    "zoe@corp-2.example.org",
    "kim-j@example.io",
    "<bob@corp>",
    "<x.y@example.com>",
    "713-555-0123",
    "+1 (713) 555-0123",
    "713.555.0188",
    "+49 30 5550 1234",
    "93.184.216.34",
    "10.20.30.40",
    "2001:db8::8a2e:370:7334",
    "4111 1111 1111 1111",
    "5555-5555-5555-4444",
    "GB82 WEST 1234 5698 7654 32",
    "123-45-6789",
    "http://www.example.com/?u=bob@example.com&x=1",
    "https://93.184.216.34/a",
    "www.example.org/713-555-0123",
    "http://example.com/plain",
    "<200102031234.A1234$ab@host>",
    "mailto:ann_lee@mail.example.org",
]
# values in lookalike characters, which no pattern finds, and the values that they are equal to
LOOKALIKE_VALUES = {
    "ｂｏｂ@example.com": "bob@example.com",
    "bob＠example.com": "bob@example.com",
    "７１３-555-0123": "713-555-0123",
    "９３.184.216.34": "93.184.216.34",
    "123-45-678９": "123-45-6789",
    "4111 1111 1111 １１11": "4111 1111 1111 1111",
    "GB82 WEST 1234 5698 7654 ３2": "GB82 WEST 1234 5698 7654 32",
}
FILLER = [
    " ",
    "\n",
    "\n\n",
    ", ",
    "; ",
    ": ",
    "(",
    ")",
    "'",
    "é",
    "中文",
    "🙂",
    "e\u0301",
    "\u202eאב\u202c",
    "call me",
    "x",
    "7",
    ".",
    "\x01",
    "\x02",
    "\x00",
    "",
    "From: ",
    "\nTo: ",
    "Subject: hi\nReferences: ",
    "\nMessage-ID: ",
    "From: Bob <bob@example.com>\nTo: ann_lee@mail.example.org\n\n",
]
TEXTS = st.lists(st.one_of(st.sampled_from(VALUES), st.sampled_from(FILLER)), max_size=10).map(
    " ".join
)
UNSEPARATED_TEXTS = st.lists(st.sampled_from(VALUES + FILLER), max_size=10).map("".join)
OPTIONAL_TEXTS = st.one_of(st.none(), st.just(""), TEXTS)


@st.composite
def corpora(
    draw: st.DrawFn,
    *,
    nested: bool = False,
    ids: bool = True,
    unseparated: bool = False,
    min_documents: int = 1,
) -> list[Row]:
    """Documents with repeated values in several columns, including nulls and empty texts."""
    texts = st.one_of(
        st.none(), st.just(""), UNSEPARATED_TEXTS if unseparated else TEXTS, TEXTS, TEXTS
    )
    # a few documents are drawn and repeated: frequent addresses then cost few choices
    drawn_documents = draw(
        st.lists(
            st.tuples(texts, OPTIONAL_TEXTS, st.integers(1, 3)), min_size=min_documents, max_size=12
        )
    )
    rows: list[Row] = []
    for text, subject, repetitions in drawn_documents:
        for _ in range(repetitions):
            no = len(rows)
            row: Row = {
                "text": text,
                "n": no * 3,
                "subject": subject,
                "user_id": None if no % 5 == 2 else f"user{no % 3}",
            }
            row["day"] = (
                None if no % 4 == 1 else datetime.datetime(2001, 1, 1 + no % 28, 12, no % 60)
            )
            if ids:
                row["doc_id"] = f"doc-{no}"
            if nested:
                turns = [
                    {"role": "user", "content": text},
                    {"role": None, "content": subject},
                    {"role": "x", "content": "bob@example.com"},
                ]
                row["messages"] = [None, [], turns[:1], [None, *turns[1:]], turns][no % 5]
            rows.append(row)
    return rows


def to_table(rows: Sequence[Row]) -> pa.Table:
    types = {
        "doc_id": pa.string(),
        "n": pa.int32(),
        "day": pa.timestamp("us"),
        "user_id": pa.string(),
        "text": pa.string(),
        "messages": pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())])),
        "subject": pa.large_string(),
    }
    names = [name for name in types if name in rows[0]]
    return pa.table({name: pa.array([row[name] for row in rows], types[name]) for name in names})


def write_parquet_files(
    folder: Path, rows: Sequence[Row], files: int = 1, row_group_size: int = 1000
) -> list[Path]:
    """Writes the documents as a number of Parquet files, in order."""
    folder.mkdir()
    table, paths = to_table(rows), []
    for no in range(files):
        low, high = len(rows) * no // files, len(rows) * (no + 1) // files
        if low < high:
            paths.append(folder / f"{no}.parquet")
            pq.write_table(table.slice(low, high - low), paths[-1], row_group_size=row_group_size)
    return paths


@contextlib.contextmanager
def small_batches(rows: int, size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "BATCH_ROWS", rows)
        patch.setattr(corpus, "BATCH_BYTES", size)
        yield


def make_settings(**changes: Any) -> Settings:
    """One shard, unless the test is about shards:
    `test_same_bytes_for_any_division_into_files_and_batches` covers the others."""
    return Settings(
        **{"seed": 5, "workers": 1, "rows_per_shard": 1000, "max_quarantine": 1.0, **changes}
    )


def read_data_files(out: Path) -> dict[str, bytes]:
    return {name: raw for name, raw in read_files(out).items() if name.startswith("data/")}


# --- one run and its results ----------------------------------------------------------------------


@dataclass(frozen=True)
class SanitizedRows:
    """Documents before and after a run, and the tables of the run; removed documents are empty in
    `output_rows`."""

    input_rows: list[Row]
    output_rows: list[Row]
    schema: pa.Schema
    summary: RunResult
    edits: list[Row]
    kept: list[Row]
    occurrences: list[Row]
    values: list[Row]
    edited_kinds: list[str]
    main_column: str

    def cells(self, row: Row) -> list[str | None]:
        """The texts of a document by cell number: the main text first, then all other texts, in
        schema order."""
        texts: list[str | None] = [] if self.main_column != "text" else [row["text"]]
        texts_by_field = [
            [turn and turn[field] for turn in row.get("messages") or []]
            for field in ("role", "content")
        ]
        if self.main_column != "text":
            texts += texts_by_field.pop()
        for name in self.schema.names:
            if name in ("text", "subject") and name != self.main_column:
                texts.append(row[name])
            elif name == "messages":
                texts += itertools.chain(*texts_by_field)
        return texts

    @functools.cached_property
    def edits_by_cell(self) -> dict[tuple[int, int], list[Row]]:
        out: dict[tuple[int, int], list[Row]] = {}
        for edit in self.edits:
            out.setdefault((edit["doc_no"], edit["cell"]), []).append(edit)
        return out

    def find_replacement_spans(self, doc_no: int, cell: int) -> list[tuple[int, int]]:
        """The spans of replacements in a cell of the output, in bytes."""
        shift, spans = 0, []
        for edit in self.edits_by_cell.get((doc_no, cell), []):
            size = len(edit["replacement"].encode())
            spans.append((edit["start_byte"] + shift, edit["start_byte"] + shift + size))
            shift += size - (edit["end_byte"] - edit["start_byte"])
        return spans

    def find_message_id_spans(self, doc_no: int, cell: int) -> list[tuple[int, int]]:
        """The spans of Message-IDs that the plan leaves in a cell of the output, in bytes; text
        inside them is part of the Message-ID."""
        edits = self.edits_by_cell.get((doc_no, cell), [])
        spans = []
        for occurrence in self.occurrences if "MESSAGE_ID" not in self.edited_kinds else ():
            if (occurrence["doc_no"], occurrence["cell"], occurrence["kind"]) == (
                doc_no,
                cell,
                "MESSAGE_ID",
            ):
                earlier_edits = [
                    edit for edit in edits if edit["end_byte"] <= occurrence["start_byte"]
                ]
                shift = sum(
                    len(edit["replacement"].encode()) - edit["end_byte"] + edit["start_byte"]
                    for edit in earlier_edits
                )
                spans.append((occurrence["start_byte"] + shift, occurrence["end_byte"] + shift))
        return spans


def run_and_read(
    base: Path,
    rows: list[Row],
    plan: str,
    changes: Sequence[str] = (),
    main_column: str = "text",
    **changed_settings: Any,
) -> SanitizedRows:
    """Runs a plan over documents in a new folder; reads all files that it wrote."""
    inputs = write_parquet_files(base / "in", rows)
    loaded_plan = load_plan(plan, changes=changes)
    run_settings = make_settings(**changed_settings)
    summary = run_with_settings(inputs, base / "out", loaded_plan, settings=run_settings)
    work = base / "out.private"
    run_folder = work / "runs" / summary.run_hash
    table = pa.concat_tables(
        [pq.read_table(path) for path in sorted((base / "out" / "data").iterdir())]
    )
    output_rows = iter(table.to_pylist())
    quarantined_doc_nos = {
        row["doc_no"]
        for stage in ("detect", "read")
        for row in read_rows(work / "quarantine" / stage)
    }
    swept_occurrences = read_rows(run_folder / "sweep")
    return SanitizedRows(
        input_rows=rows,
        output_rows=[
            {} if no in quarantined_doc_nos else next(output_rows) for no in range(len(rows))
        ],
        schema=table.schema,
        summary=summary,
        edits=read_rows(run_folder / "edits"),
        kept=read_rows(run_folder / "kept"),
        occurrences=[
            row
            for row in read_rows(work / "tables" / "occurrences") + swept_occurrences
            if row["doc_no"] not in quarantined_doc_nos
        ],
        values=read_rows(work / "vault" / "values"),
        edited_kinds=list(loaded_plan.editor_no_by_kind),
        main_column=main_column,
    )


# --- invariants, in slow Python -------------------------------------------------------------------


def check_only_edits_change_bytes(result: SanitizedRows) -> None:
    """Every byte outside the edits equals the input's, and so do order, nulls, kept columns and
    their types."""
    assert next(iter(result.schema.names)) == "doc_id"
    pseudonyms: dict[str, str] = {}
    for no, (input_row, output_row) in enumerate(
        zip(result.input_rows, result.output_rows, strict=True)
    ):
        if not output_row:
            continue
        assert output_row["doc_id"] == input_row.get("doc_id", str(no))
        assert (output_row["n"], output_row["day"]) == (input_row["n"], input_row["day"])
        assert (output_row["user_id"] is None) == (input_row["user_id"] is None)
        if output_row["user_id"] is not None:
            assert (
                pseudonyms.setdefault(input_row["user_id"], output_row["user_id"])
                == output_row["user_id"]
                != input_row["user_id"]
            )
        if "messages" in input_row:
            shapes = [
                [
                    turns
                    and [turn and {part: turn[part] is None for part in turn} for turn in turns]
                    for turns in (row["messages"],)
                ]
                for row in (input_row, output_row)
            ]
            assert shapes[0] == shapes[1]
        input_texts, output_texts = result.cells(input_row), result.cells(output_row)
        assert len(input_texts) == len(output_texts)
        for cell, (text, output_text) in enumerate(zip(input_texts, output_texts, strict=True)):
            if text is None:
                assert output_text is None and (no, cell) not in result.edits_by_cell
                continue
            raw, position, pieces = text.encode(), 0, []
            for edit in result.edits_by_cell.get((no, cell), []):
                assert position <= edit["start_byte"] < edit["end_byte"] <= len(raw), (
                    "edits ascend and do not overlap"
                )
                pieces += [raw[position : edit["start_byte"]], edit["replacement"].encode()]
                position = edit["end_byte"]
            assert output_text == b"".join([*pieces, raw[position:]]).decode()
    assert result.schema.field("n").type == pa.int32() and result.schema.field(
        "day"
    ).type == pa.timestamp("us")


@functools.cache
def to_compatibility_form(letter: str) -> str:
    return unicodedata.normalize("NFKC", letter).casefold()


def is_accented(letter: str) -> bool:
    """True for a Latin letter beyond ASCII, which continues a word."""
    return not letter.isascii() and unicodedata.name(letter, "").startswith("LATIN ")


def ends_with_accented(text: str) -> bool:
    """True if a text ends with such a letter, composed or followed by combining marks."""
    base = text.rstrip("".join(letter for letter in set(text) if unicodedata.combining(letter)))
    return is_accented(unicodedata.normalize("NFC", text[len(base) - 1 :])[0]) if base else False


def find_values(text: str, kind_by_form: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """Yields the occurrences of values by the boundary rule of their kind: start, end, kind.
    `kind_by_form`: value in lower case -> kind.

    Searches the compatibility form of the text letter by letter, which covers the exact and the
    case-folded form.
    """
    letters = [to_compatibility_form(letter).encode() for letter in text]
    letter_nos = [no for no, letter in enumerate(letters) for _ in letter]
    ends = list(itertools.accumulate(len(letter.encode()) for letter in text))
    joined, kinds = b"".join(letters), list_kinds()
    for form, kind in kind_by_form.items():
        form_bytes, boundary_rule = form.encode(), kinds[kind]
        position = joined.find(form_bytes)
        while position >= 0:
            end = position + len(form_bytes)
            continues_left = (
                position > 0
                and joined[position] in ASCII_WORD_CHARS
                and joined[position - 1] in boundary_rule.not_preceded_by
            )
            continues_right = (
                end < len(joined)
                and joined[end - 1] in ASCII_WORD_CHARS
                and joined[end] in boundary_rule.not_followed_by
            )
            first_letter, last_letter = letter_nos[position], letter_nos[end - 1]
            if (
                chr(joined[position]).isalpha()
                and ord("a") in boundary_rule.not_preceded_by
                and first_letter
            ):
                continues_left |= ends_with_accented(text[:first_letter])
            if (
                chr(joined[end - 1]).isalpha()
                and ord("a") in boundary_rule.not_followed_by
                and last_letter + 1 < len(text)
            ):
                continues_right |= is_accented(text[last_letter + 1])
            if not continues_left and not continues_right:
                yield ends[first_letter - 1] if first_letter else 0, ends[last_letter], kind
            position = joined.find(form_bytes, position + 1)


def check_no_removed_value_remains(result: SanitizedRows) -> None:
    """No removed value occurs in any output text except the kept occurrences, and those are
    complete and at their recorded positions. A name of one word is removed only where it was found
    (`Bob`, `Will`)."""
    assert result.summary.leaks == 0
    kind_by_form = {
        "".join(map(to_compatibility_form, row["value"])): row["kind"]
        for row in result.values
        if row["kind"] in result.edited_kinds
        and not (row["kind"] == "PERSON" and row["value"].isalpha())
    }
    spellings_by_value = {row["value_id"]: set() for row in result.values}
    for row in result.values:
        spellings_by_value[row["value_id"]].add(row["value"])
    kept: dict[tuple[int, int], list[Row]] = {}
    for row in result.kept:
        kept.setdefault((row["doc_no"], row["cell"]), []).append(row)
    for no, output_row in enumerate(result.output_rows):
        for cell, text in enumerate(result.cells(output_row)) if output_row else ():
            kept_rows = kept.get((no, cell), [])
            for row in kept_rows:
                assert (text or "").encode()[
                    row["start_byte"] : row["end_byte"]
                ].decode() in spellings_by_value[row["value_id"]]
            replacement_spans = result.find_replacement_spans(no, cell)
            for start, end, kind in find_values(text or "", kind_by_form):
                is_explained = any(
                    low <= start and end <= high and (low, high) != (start, end)
                    for low, high in replacement_spans
                )
                is_explained |= any(
                    row["start_byte"] <= start and end <= row["end_byte"] for row in kept_rows
                )
                is_explained |= any(
                    low <= start and end <= high and (low, high) != (start, end)
                    for low, high in result.find_message_id_spans(no, cell)
                )
                assert is_explained, f"doc_no {no}, cell {cell}: {kind} at {start}..{end}"


def get_occurrence_key(occurrence: Row) -> tuple[Any, ...]:
    return tuple(occurrence[name] for name in ("doc_no", "cell", "start_byte", "end_byte", "kind"))


def check_occurrences_are_accounted_for(
    result: SanitizedRows, keep: int, kinds_kept: Sequence[str]
) -> None:
    """Every occurrence of an edited kind is replaced or kept; the first `keep` of every value are
    kept, and the summary adds up."""
    kept = {(row["doc_no"], row["cell"], row["value_id"]): 0 for row in result.kept}
    assert len({(row["doc_no"], row["cell"], row["start_byte"]) for row in result.kept}) == len(
        result.kept
    )
    for row in result.kept:
        kept[row["doc_no"], row["cell"], row["value_id"]] += 1
    positions_by_value: dict[int, list[tuple[int, int, int]]] = {}
    uncovered: Counter[tuple[int, int, int]] = Counter()
    for occurrence in result.occurrences:
        if occurrence["kind"] not in result.edited_kinds:
            continue
        if occurrence["kind"] in kinds_kept and occurrence["finder"] != "sweep":
            positions_by_value.setdefault(occurrence["value_id"], []).append(
                (occurrence["doc_no"], occurrence["cell"], occurrence["start"])
            )
        spans = [
            (edit["start_byte"], edit["end_byte"])
            for edit in result.edits_by_cell.get((occurrence["doc_no"], occurrence["cell"]), [])
        ]
        edited_bytes = set(itertools.chain(*(range(low, high) for low, high in spans)))
        touched_bytes = edited_bytes.intersection(
            range(occurrence["start_byte"], occurrence["end_byte"])
        )
        assert (
            not touched_bytes
            or len(touched_bytes) == occurrence["end_byte"] - occurrence["start_byte"]
        ), "an occurrence is replaced completely"
        if not touched_bytes:
            uncovered[occurrence["doc_no"], occurrence["cell"], occurrence["value_id"]] += 1
    assert uncovered == Counter(kept), "exactly the kept occurrences are not replaced"
    swept_occurrences = [
        occurrence for occurrence in result.occurrences if occurrence["finder"] == "sweep"
    ]
    detected_occurrences = [
        occurrence for occurrence in result.occurrences if occurrence["finder"] != "sweep"
    ]
    assert not set(map(get_occurrence_key, swept_occurrences)) & set(
        map(get_occurrence_key, detected_occurrences)
    ), "only undetected occurrences are swept"
    positions_crossed_by_sweep = {
        (occurrence["doc_no"], occurrence["cell"], occurrence["start"])
        for occurrence in result.occurrences
        for swept_occurrence in swept_occurrences
        if get_occurrence_key(occurrence)[:2] == get_occurrence_key(swept_occurrence)[:2]
        and occurrence["start"] < swept_occurrence["end"]
        and swept_occurrence["start"] < occurrence["end"]
    }
    first_positions = [
        (value, position)
        for value, positions in positions_by_value.items()
        for position in sorted(positions)[:keep]
        if position not in positions_crossed_by_sweep
    ]
    expected_kept = Counter((*position[:2], value) for value, position in first_positions)
    assert expected_kept == Counter(kept), "the first occurrences in corpus order are kept"
    kept_per_value = Counter(row["value_id"] for row in result.kept)
    assert all(kept_count <= keep for kept_count in kept_per_value.values())
    assert result.summary.kept_originals == len(result.kept) == sum(kept_per_value.values())
    for kind, entry in result.summary.by_kind.items():
        assert entry.occurrences == sum(
            occurrence["kind"] == kind for occurrence in result.occurrences
        )
        assert entry.occurrences == entry.kept + entry.replaced + entry.left_by_plan, kind
    assert result.summary.occurrences == result.summary.kept_originals + sum(
        entry.replaced + entry.left_by_plan for entry in result.summary.by_kind.values()
    )


def check_documents_are_accounted_for(result: SanitizedRows) -> None:
    """Every document is accounted for."""
    summary = result.summary
    assert summary.documents_in == len(result.input_rows)
    assert (
        summary.documents_in
        == summary.documents_out + summary.documents_dropped + summary.quarantined
    )
    assert summary.documents_out == sum(bool(output_row) for output_row in result.output_rows)
    assert summary.quarantined == sum(summary.quarantine.values())


def check_replacements_are_new(result: SanitizedRows) -> None:
    """No replacement of rmft is a real value of the corpus, and none repeats within a document."""
    normalised_values = {
        (row["kind"], (row["normalised"] or row["value"])) for row in result.values
    }
    lowercase_spellings = {row["value"].lower() for row in result.values}
    seen_replacements: set[tuple[int, str, str]] = set()
    for edit in result.edits:
        if edit["part"] == "rmft" and set(edit["replacement"]) != {"*"}:
            form = list_kinds()[edit["kind"]].normalise(pl.Series([edit["replacement"]]))[0]
            assert (edit["kind"], form) not in normalised_values and edit[
                "replacement"
            ].lower() not in lowercase_spellings
            assert (edit["doc_no"], edit["kind"], form) not in seen_replacements
            seen_replacements.add((edit["doc_no"], edit["kind"], form))


def get_letter_case(word: str) -> str:
    # mixed counts as lower
    return "upper" if word.isupper() else "title" if word.istitle() else "lower"


def check_variants_keep_an_anchor(
    result: SanitizedRows, anchors: Sequence[str], exactly: bool
) -> None:
    """A variant of an address keeps one component of it, and its separators and letter case."""
    split = list_kinds()["EMAIL_ADDRESS"].split_components
    assert split is not None
    for edit in result.edits:
        if edit["kind"] != "EMAIL_ADDRESS" or edit["part"] != "rmft":
            continue
        text = result.cells(result.input_rows[edit["doc_no"]])[edit["cell"]] or ""
        value = text.encode()[edit["start_byte"] : edit["end_byte"]].decode()
        if not value.isascii() or set(edit["replacement"]) == {"*"}:
            # a swept value in other characters, or the masked rest of one that another edit covers
            # in part
            continue
        old, new = (
            split(pl.Series([address])).row(0, named=True)
            for address in (value, edit["replacement"])
        )
        if "tld" not in anchors:
            for components in (old, new):
                components["domain"] += components["dot"] + components["tld"]
        has_one_name_part = old["last"] == ""
        names = [name for name in anchors if not (has_one_name_part and name == "last")]
        kept_anchors = [name for name in names if old[name] == new[name]]
        assert kept_anchors, "an anchor is kept"
        assert (old["lead"], old["sep"]) == (new["lead"], new["sep"])
        if exactly:
            assert len(kept_anchors) == 1
            for name in ("first", "last", "domain"):
                word = old[name]
                if word.isalpha() and len(word) > 1 and name not in kept_anchors:
                    assert get_letter_case(new[name]) == get_letter_case(word)


CHECKS = (
    check_only_edits_change_bytes,
    check_no_removed_value_remains,
    check_documents_are_accounted_for,
)
CHECKS_WITH_NEW_REPLACEMENTS = (*CHECKS, check_replacements_are_new)

# without the shrink phase: drawn corpora are small, and shrinking a failing one would take minutes.
# Each example is one or more whole runs, so there are few of them; `make soak` runs ten times as
# many.
PROPERTY_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],
}


# --- same bytes -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    corpora(ids=False, unseparated=True),
    st.sampled_from(["rmft", "surrogates", "redact"]),
    st.integers(6, 20),
)
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_same_bytes_for_any_division_into_files_and_batches(
    rows: list[Row], plan: str, size: int
) -> None:
    with temporary_folder() as base:
        loaded_plan = load_plan(plan, changes=["edit.0.label=numbered"] if plan == "redact" else [])
        run_with_settings(
            write_parquet_files(base / "in", rows),
            base / "one",
            loaded_plan,
            settings=make_settings(rows_per_shard=size),
        )
        with small_batches(3, 64):
            run_with_settings(
                write_parquet_files(base / "in3", rows, files=3, row_group_size=2),
                base / "three",
                loaded_plan,
                settings=make_settings(rows_per_shard=size),
            )
        assert read_data_files(base / "one") == read_data_files(base / "three")
        # the tables in WORK are the same too: labels, edits, kept occurrences
        tables = [
            {
                table_folder: read_rows(work / "runs" / name / table_folder)
                for table_folder in ("edits", "kept", "vault/labels")
            }
            for work in (base / "one.private", base / "three.private")
            for name in [next((work / "runs").iterdir()).name]
        ]
        assert tables[0] == tables[1]
        # the same texts in one shard
        run_with_settings(
            [base / "in"], base / "whole", loaded_plan, settings=make_settings(rows_per_shard=1000)
        )
        assert read_rows(base / "whole" / "data") == read_rows(base / "one" / "data")


def build_forty_documents() -> list[Row]:
    """Forty documents in which every value occurs several times."""
    rows = []
    for no in range(40):
        words = [VALUES[(no * 7 + step * step) % len(VALUES)] for step in range(6)]
        head = f"From: {words[0]}\nTo: {words[1]},\n {words[2]}\n\n" if no % 3 else ""
        rows.append(
            {
                "doc_id": f"doc-{no}",
                "n": no,
                "day": None,
                "user_id": f"u{no % 4}",
                "text": head + " é ".join(words),
                "messages": [{"role": "user", "content": words[3]}] * (no % 3),
                "subject": None if no % 6 == 0 else words[4] + " 🙂",
            }
        )
    return rows


TWO_SHARDS = make_settings(rows_per_shard=10)


@pytest.fixture(scope="module")
def uninterrupted_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[list[Path], dict[str, bytes]]:
    """Files with twenty documents, and the output files of an uninterrupted run over them."""
    base = tmp_path_factory.mktemp("twenty")
    inputs = write_parquet_files(base / "in", build_forty_documents()[:20])
    run_with_settings(inputs, base / "whole", load_plan("rmft"), settings=TWO_SHARDS)
    return inputs, read_files(base / "whole")


def get_task_number(task: Any) -> int:
    return int(task.shard_no if hasattr(task, "shard_no") else task.first_doc_no)


TASKS = [(detection, "find_task"), (rewriting, "rewrite_task"), (shard_checking, "verify_task")]
# each task once, before or after its work; `make soak` runs both for each
INTERRUPTIONS = [
    pytest.param(
        *task,
        after,
        marks=[] if after == bool(no % 2) else pytest.mark.soak,
        id=f"{task[1]}-{'after' if after else 'before'}",
    )
    for no, task in enumerate(TASKS)
    for after in (False, True)
]


@pytest.mark.parametrize(("module", "task", "after"), INTERRUPTIONS)
def test_interrupted_run_resumes_to_the_same_bytes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uninterrupted_run: tuple[list[Path], dict[str, bytes]],
    module: Any,
    task: str,
    after: bool,
) -> None:
    (inputs, expected_files), plan = uninterrupted_run, load_plan("rmft")
    real_task, task_numbers = getattr(module, task), []

    def interrupt_second_task(task_input: Any) -> Any:
        task_numbers.append(get_task_number(task_input))
        if len(task_numbers) == 2:
            if after:
                real_task(task_input)
            raise KeyboardInterrupt
        return real_task(task_input)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(module, task, interrupt_second_task)
        with pytest.raises(KeyboardInterrupt):
            run_with_settings(inputs, out, plan, settings=TWO_SHARDS)
    assert not out.exists()
    resumed_task_numbers: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            module,
            task,
            lambda task_input: (
                resumed_task_numbers.append(get_task_number(task_input)) or real_task(task_input)
            ),
        )
        summary = run_with_settings(inputs, out, plan, settings=TWO_SHARDS)
    assert summary.changed and read_files(out) == expected_files
    if module is not shard_checking:
        assert (
            task_numbers[0] not in resumed_task_numbers[: len(set(resumed_task_numbers))]
            or task == "rewrite_task"
        ), "finished tasks are not repeated"
    assert not run_with_settings(inputs, out, plan, settings=TWO_SHARDS).changed


@pytest.mark.slow
def test_lost_files_are_rebuilt_with_the_same_bytes(
    tmp_path: Path, uninterrupted_run: tuple[list[Path], dict[str, bytes]]
) -> None:
    (inputs, expected_files), plan, out = uninterrupted_run, load_plan("rmft"), tmp_path / "out"
    summary = run_with_settings(inputs, out, plan, settings=TWO_SHARDS)
    work = tmp_path / "out.private"
    run_folder = work / "runs" / summary.run_hash
    lost_files = [
        [work / "tables" / "occurrences" / "00001.parquet"],
        [work / "vault" / "values" / "00000.parquet", run_folder / "tasks" / "rewrite-00000.json"],
        [run_folder / "shards" / "00001.parquet", run_folder / "edits" / "00000.parquet"],
        [
            work / "tasks" / "detect" / "00000.json",
            work / "tables" / "value_counts" / "all.parquet",
        ],
        [run_folder / "kept" / "00001.parquet", work / "index.json"],
    ]
    for paths in lost_files:
        shutil.rmtree(out)
        for path in paths:
            path.unlink()
        run_with_settings(inputs, out, plan, settings=TWO_SHARDS)
        assert read_files(out) == expected_files, [path.name for path in paths]


@pytest.mark.slow
def test_a_second_plan_on_the_same_index_gives_the_same_bytes(
    tmp_path: Path, uninterrupted_run: tuple[list[Path], dict[str, bytes]]
) -> None:
    inputs, expected_files = uninterrupted_run
    for name in ("redact", "rmft"):
        run_with_settings(
            inputs, tmp_path / name, load_plan(name), work=tmp_path / "shared", settings=TWO_SHARDS
        )
    assert read_files(tmp_path / "rmft") == expected_files


# --- all other invariants, one run each -----------------------------------------------------------


@pytest.mark.slow
@given(corpora(unseparated=True, nested=True))
@settings(max_examples=5, **PROPERTY_SETTINGS)
def test_invariants_of_surrogates(rows: list[Row]) -> None:
    with temporary_folder() as base:
        result = run_and_read(base, rows, "surrogates")
    for check in CHECKS_WITH_NEW_REPLACEMENTS:
        check(result)
    check_occurrences_are_accounted_for(result, 0, [])
    assert result.summary.kept_originals == 0 and not result.kept


@pytest.mark.slow
@given(
    corpora(unseparated=True, nested=True),
    st.sampled_from([0, 1, 1, 2]),
    st.sampled_from(["corpus", "mixed", "curated"]),
)
@settings(max_examples=7, **PROPERTY_SETTINGS)
def test_invariants_of_rmft(rows: list[Row], keep: int, stores: str) -> None:
    with temporary_folder() as base:
        result = run_and_read(
            base, rows, "rmft", [f"edit.0.keep={keep}", f"edit.0.stores={stores}"]
        )
    for check in CHECKS_WITH_NEW_REPLACEMENTS:
        check(result)
    check_occurrences_are_accounted_for(result, keep, RMFT_KINDS)
    check_variants_keep_an_anchor(result, ("first", "last", "domain"), exactly=stores != "corpus")
    if not result.summary.verify.swept:
        occurrence_counts = Counter(
            occurrence["value_id"]
            for occurrence in result.occurrences
            if occurrence["kind"] in RMFT_KINDS
        )
        assert result.summary.kept_originals == sum(
            min(keep, count) for count in occurrence_counts.values()
        )


@pytest.mark.slow
@pytest.mark.parametrize("anchors", [["first", "last", "domain"], ["domain"], ["first", "tld"], []])
def test_variants_are_new_values_with_small_component_pools(
    tmp_path: Path, anchors: list[str]
) -> None:
    addresses = ["bob.mann@example.com", "ann@example.org", "Ann.Lee@example.com"]
    texts = [" ".join(addresses[no % 3 :] * 12) for no in range(6)]
    rows = [
        {"text": text, "n": no, "subject": None, "user_id": None, "day": None}
        for no, text in enumerate(texts)
    ]
    result = run_and_read(tmp_path, rows, "rmft", [f"edit.0.anchors={anchors}"])
    for check in CHECKS_WITH_NEW_REPLACEMENTS:
        check(result)
    check_occurrences_are_accounted_for(result, 1, RMFT_KINDS)
    if anchors:
        check_variants_keep_an_anchor(result, anchors, exactly=False)
    assert result.summary.kept_originals == 3


@pytest.mark.slow
@given(corpora(ids=False), st.sampled_from(["curated", "mixed"]))
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_invariants_of_rmft_with_four_anchors(rows: list[Row], stores: str) -> None:
    anchors = ["first", "last", "domain", "tld"]
    with temporary_folder() as base:
        result = run_and_read(
            base, rows, "rmft", [f"edit.0.anchors={anchors}", f"edit.0.stores={stores}"]
        )
    for check in CHECKS_WITH_NEW_REPLACEMENTS:
        check(result)
    check_occurrences_are_accounted_for(result, 1, RMFT_KINDS)
    check_variants_keep_an_anchor(result, anchors, exactly=False)


@pytest.mark.slow
@given(corpora(unseparated=True))
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_invariants_of_redact_with_numbered_labels(rows: list[Row]) -> None:
    with temporary_folder() as base:
        result = run_and_read(base, rows, "redact", ["edit.0.label=numbered"])
    for check in CHECKS:
        check(result)
    check_occurrences_are_accounted_for(result, 0, [])


@pytest.mark.slow
@given(corpora(nested=True, unseparated=True))
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_invariants_with_a_nested_main_text(rows: list[Row]) -> None:
    roles = {"text_column": ("messages[].content",)}
    with temporary_folder() as base:
        result = run_and_read(base, rows, "rmft", main_column="messages", **roles)
    for check in CHECKS_WITH_NEW_REPLACEMENTS:
        check(result)
    check_occurrences_are_accounted_for(result, 1, RMFT_KINDS)


@pytest.mark.slow
@given(corpora(nested=True, unseparated=True))
@settings(max_examples=3, **PROPERTY_SETTINGS)
def test_baseline_changes_nothing(rows: list[Row]) -> None:
    with temporary_folder() as base:
        result = run_and_read(base, rows, "baseline")
    check_only_edits_change_bytes(result)
    check_documents_are_accounted_for(result)
    assert not result.edits and not result.kept and result.summary.publishable is False


@pytest.mark.parametrize("plan", ["rmft", "surrogates", "redact"])
@pytest.mark.parametrize(
    "lookalikes",
    [
        list(LOOKALIKE_VALUES),
        *(pytest.param([lookalike], marks=pytest.mark.soak) for lookalike in LOOKALIKE_VALUES),
    ],
    ids=str,
)
def test_values_in_lookalike_characters_are_swept(
    tmp_path: Path, lookalikes: list[str], plan: str
) -> None:
    texts = [
        text
        for lookalike in lookalikes
        for text in (
            LOOKALIKE_VALUES[lookalike],
            f"a {lookalike} b",
            f"{LOOKALIKE_VALUES[lookalike]}, {lookalike}",
        )
    ]
    rows = [
        {"text": text, "n": no, "subject": None, "user_id": None, "day": None}
        for no, text in enumerate(texts * 4)
    ]
    result = run_and_read(tmp_path, rows, plan)
    for check in CHECKS:
        check(result)
    check_occurrences_are_accounted_for(
        result, int(plan == "rmft"), RMFT_KINDS if plan == "rmft" else []
    )


# regression test: all cells above the last edited one were taken for one cell, and a Message-ID in
# another cell hid a leak
def test_a_message_id_hides_no_leak_in_another_cell(tmp_path: Path) -> None:
    row: Row = {
        "n": 0,
        "day": None,
        "user_id": None,
        "text": "bob@example.com",
        "subject": None,
        "messages": None,
    }
    message_id = "<200102031234.A1234$abcdefghijklmnop@host.example>"
    row_with_message_id = {
        **row,
        "subject": "a ｂｏｂ@example.com",
        "messages": [{"role": None, "content": message_id}],
    }
    result = run_and_read(tmp_path, [row, row_with_message_id], "rmft")
    check_only_edits_change_bytes(result)
    check_no_removed_value_remains(result)


@pytest.mark.parametrize("plan", ["rmft", "surrogates"])
def test_detection_and_leak_check_use_one_boundary_rule(tmp_path: Path, plan: str) -> None:
    """Letters, combining accents, joiners and variation selectors before and after each value:
    detection and leak check use the same boundary rule, so every detected value is either kept or
    removed."""
    marks = [
        "\u00e9",
        "e\u0301",
        "\u0301",
        "\u0308\u0301",
        "\u20dd",
        "\u200d",
        "\ufe0f",
        "\u4e2d",
        "\u0e33",
        "\U0001f642",
        "\u064b",
        "\u2019s",
    ]
    values = [*VALUES, "bob@example.ge"]
    texts = [f"{mark}{value}{mark}" for value in values for mark in marks] + [
        f"{value}{mark} {value}" for value in values for mark in marks
    ]
    rows = [
        {"text": text, "n": no, "subject": None, "user_id": None, "day": None}
        for no, text in enumerate(texts)
    ]
    result = run_and_read(tmp_path, rows, plan)
    for check in CHECKS:
        check(result)
    check_occurrences_are_accounted_for(
        result, int(plan == "rmft"), RMFT_KINDS if plan == "rmft" else []
    )
    if plan == "rmft":
        assert len(result.kept) > 10


@pytest.mark.parametrize("seed", range(2))
def test_a_swept_value_may_overlap_a_kept_one(tmp_path: Path, seed: int) -> None:
    texts = ["zoe@corp.example.org.bob@example.com", "bob@example.com", "ann@example.net"]
    rows = [
        {"text": text, "n": no, "subject": None, "user_id": None, "day": None}
        for no, text in enumerate(texts)
    ]
    result = run_and_read(tmp_path, rows, "rmft", seed=seed)
    for check in CHECKS:
        check(result)
    check_occurrences_are_accounted_for(result, 1, RMFT_KINDS)


# --- bad records ----------------------------------------------------------------------------------


@pytest.mark.slow
@given(corpora(min_documents=2), st.data())
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_bad_records_are_quarantined_and_counted(rows: list[Row], data: st.DataObject) -> None:
    row_numbers = st.integers(0, len(rows) - 1)
    invalid_rows, large_rows = (
        data.draw(st.sets(row_numbers, max_size=3)),
        data.draw(st.sets(row_numbers, max_size=3)),
    )
    rows = [dict(row) for row in rows]
    for no in large_rows:
        rows[no]["subject"] = "bob@example.com " * 200
    with temporary_folder() as base:
        (path,) = write_parquet_files(base / "in", rows)
        table = pq.read_table(path)
        raw_texts = [
            b"ann@example.org \xff\xfe" if no in invalid_rows else (text or "").encode()
            for no, text in enumerate(table.column("text").to_pylist())
        ]
        offsets = list(itertools.accumulate(map(len, raw_texts), initial=0))
        texts = pa.StringArray.from_buffers(
            len(raw_texts),
            pa.py_buffer(pa.array(offsets, pa.int32()).buffers()[1]),
            pa.py_buffer(b"".join(raw_texts)),
        )
        pq.write_table(
            table.set_column(table.schema.get_field_index("text"), "text", texts),
            path,
            row_group_size=4,
        )
        if len(invalid_rows | large_rows) == len(rows):
            return
        summary = run_with_settings(
            [path],
            base / "out",
            load_plan("surrogates"),
            settings=make_settings(max_doc_bytes=3000),
        )
        output_table = pa.concat_tables(
            pq.read_table(shard) for shard in sorted((base / "out" / "data").iterdir())
        )
        quarantined_rows = {
            row["doc_no"]: row
            for stage in ("read", "detect")
            for row in read_rows(base / "out.private" / "quarantine" / stage)
        }
        assert summary.documents_in == len(rows) == summary.documents_out + summary.quarantined
        assert set(quarantined_rows) == invalid_rows | large_rows
        assert summary.quarantine == {
            reason: count
            for reason, count in (
                ("not_utf8", len(invalid_rows - large_rows)),
                ("too_large", len(large_rows)),
            )
            if count
        }
        assert all(row["location"] == f"row {no}" for no, row in quarantined_rows.items())
        assert output_table.column("doc_id").to_pylist() == [
            row["doc_id"] for no, row in enumerate(rows) if no not in quarantined_rows
        ]
        assert output_table.column("n").to_pylist() == [
            row["n"] for no, row in enumerate(rows) if no not in quarantined_rows
        ]


# --- kept columns ---------------------------------------------------------------------------------

COLUMNS_OF_ALL_TYPES = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "uint64": pa.array([1, None, 2**64 - 1], pa.uint64()),
    "float32": pa.array([0.5, None, float("inf")], pa.float32()),
    "float64": pa.array([0.1, None, -0.0]),
    "bool": pa.array([True, None, False]),
    "date32": pa.array([1, None, -1], pa.date32()),
    "time64": pa.array([1, None, 2], pa.time64("us")),
    "timestamp_ms": pa.array([1, None, 2], pa.timestamp("ms")),
    "timestamp_utc": pa.array([1, None, 2], pa.timestamp("us", "UTC")),
    "decimal128": pa.array(
        [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")], pa.decimal128(9, 2)
    ),
    "list_int64": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "struct": pa.array(
        [{"a": 1, "b": None}, None, {"a": None, "b": 2.5}],
        pa.struct([("a", pa.int64()), ("b", pa.float64())]),
    ),
    "timestamp_zone": pa.array([1, None, 2], pa.timestamp("us", "Europe/Berlin")),
    "timestamp_s": pa.array([1, None, 2], pa.timestamp("s")),
    "duration": pa.array([1, None, 2], pa.duration("us")),
    "float16": pa.array([0.5, None, 2.0], pa.float16()),
    "date64": pa.array([86_400_000, None, 0], pa.date64()),
    "null": pa.nulls(3),
}


def test_kept_columns_keep_values_and_types(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["a bob@example.com", None, "bob@example.com"], **COLUMNS_OF_ALL_TYPES}),
        tmp_path / "in.parquet",
    )
    before = pq.read_table(tmp_path / "in.parquet")
    run_with_settings(
        [tmp_path / "in.parquet"],
        tmp_path / "out",
        load_plan("surrogates"),
        settings=make_settings(),
    )
    after = pa.concat_tables(
        pq.read_table(path) for path in sorted((tmp_path / "out" / "data").iterdir())
    )
    for name in COLUMNS_OF_ALL_TYPES:
        assert after.column(name).to_pylist() == before.column(name).to_pylist(), name
        assert str(after.schema.field(name).type).replace("large_list", "list") == str(
            before.schema.field(name).type
        ), name


# --- dependence of one document's output on others ------------------------------------------------


@pytest.mark.slow
@given(corpora(), st.data(), st.sampled_from(["surrogates", "redact"]))
@settings(max_examples=4, **PROPERTY_SETTINGS)
def test_output_of_a_document_is_independent_of_other_documents(
    rows: list[Row], data: st.DataObject, plan: str
) -> None:
    kept_row_numbers = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    with temporary_folder() as base:
        loaded_plan = load_plan(plan, ["edit.0.label=numbered"] if plan == "redact" else [])
        run_with_settings(
            write_parquet_files(base / "all", rows),
            base / "a",
            loaded_plan,
            settings=make_settings(),
        )
        run_with_settings(
            write_parquet_files(base / "some", [rows[no] for no in kept_row_numbers]),
            base / "b",
            loaded_plan,
            settings=make_settings(),
        )
        full_output, partial_output = (
            pa.concat_tables(
                pq.read_table(path) for path in sorted((base / name / "data").iterdir())
            )
            for name in "ab"
        )
    assert full_output.take(kept_row_numbers).to_pylist() == partial_output.to_pylist()


# with separated values: a value joined to another one may be found only after the other was removed
@pytest.mark.slow
@given(corpora(nested=True), st.sampled_from(["fixed", "numbered"]))
@settings(max_examples=3, **PROPERTY_SETTINGS)
def test_redacting_a_redacted_corpus_changes_nothing(rows: list[Row], label: str) -> None:
    plan = load_plan("redact", [f"edit.0.label={label}"])
    with temporary_folder() as base:
        run_with_settings(
            write_parquet_files(base / "in", rows), base / "once", plan, settings=make_settings()
        )
        summary = run_with_settings(
            base / "once" / "data", base / "twice", plan, settings=make_settings(keep=["user_id"])
        )
        assert summary.replaced == 0 and read_data_files(base / "once") == read_data_files(
            base / "twice"
        )


# --- hosts of surrogates --------------------------------------------------------------------------

PLACES = (
    ("mail {}@{} now", "ann.lee"),
    ("<{}@{}>", "b.k"),
    ("({} at {})", "cy"),
    ("see http://{}.{}/a?b=c#d", "x"),
    ("see ftp://u:pw@{}.{}:21/", "files"),
    ("Message-ID: <{}.1075863688222.JavaMail@{}>", "13505866"),
)
HOST_OF_SURROGATE = re.compile(r"(?:@|%40|\bat |://)(?:[a-z]*:[a-z]*@)?([A-Za-z0-9.-]+)")


@pytest.mark.parametrize(
    ("plan", "changes"),
    [
        *((name, ()) for name in ("redact", "strict", "surrogates", "pseudonymize")),
        *(("pseudonymize", (f'edit.0.scope="{scope}"',)) for scope in ("document", "none")),
        *((name, ("edit.0.linked=true",)) for name in ("surrogates", "pseudonymize")),
        *((name, ("edit.0.reserved=true",)) for name in ("surrogates", "pseudonymize")),
    ],
)
def test_hosts_of_surrogates_are_reserved(plan: str, changes: Sequence[str]) -> None:
    """Also where the surrogates of one shape are exhausted (URLs of one letter)."""
    drawn = random.Random(7)
    labels = ["mx", "corp-2", "Uni", "north7", "LISTS", "w3"]
    hosts = [
        ".".join([*drawn.choices(labels, k=drawn.randrange(5)), "example", tld])
        for tld in ("org", "com", "co.uk", "de", "museum", "ORG") * 5
    ]
    short = [f"http://{letter}.example.org" for letter in "abcdefghijklmnopqrstuvwxyz"]
    texts = [place.format(local, host) for host in hosts for place, local in PLACES] + short
    for text, clean in zip(
        texts, sanitize.redact(texts, plan=load_plan(plan, list(changes)), seed=1), strict=True
    ):
        assert clean != text
        for host in HOST_OF_SURROGATE.findall(clean):
            assert re.search(r"(?i)(?:\A|[.])example(?:[.](?:com|net|org))?\Z", host), clean
