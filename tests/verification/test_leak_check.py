"""The leak check: it finds every planted leak and nothing else, sweeps leaks where it can, and
otherwise prevents publication."""

from __future__ import annotations

import ast
import base64
import dataclasses
import inspect
import json
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.span_table import SpanTable
from sanitize.core.text_cells import LeafPath, Policies
from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.kind import ASCII_WORD_CHARS, all_kinds
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting import report_data
from sanitize.stages import batch_rewriting
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile, Documents, cell_leaves
from sanitize.storage.files import file_sha256
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification import search_terms
from sanitize.verification.leak_check import find_values_in_texts
from sanitize.verification.published.output_check import VerifyResult, verify
from sanitize.verification.search_terms import write_terms
from sanitize.verification.shard_check import ShardFindings, verify_task
from sanitize.verification.shard_reading import VerifyTask
from tests.support import full_width, read_files, read_texts

BOB, LEE, PHONE, CARD, IP = (
    "bob.lee@example.com",
    "lee@example.com",
    "212-555-0123",
    "4111 1111 1111 1111",
    "192.0.2.7",
)
KINDS = list(all_kinds())
Value = tuple[str, str]
Edit = tuple[int, int, int, int, str]  # doc_no, cell, start, stop (bytes of the input), replacement


# ---- the matcher, against a reference implementation ----


def lower(form: str) -> bytes:
    return form.encode().lower()


def has_boundaries(text: bytes, start: int, stop: int, kind: str) -> bool:
    """The boundary rule of a kind; it applies to an edge that is a letter, digit or underscore."""
    rule = all_kinds()[kind]
    if start > 0 and text[start] in ASCII_WORD_CHARS and text[start - 1] in rule.not_preceded_by:
        return False
    return not (
        stop < len(text)
        and text[stop - 1] in ASCII_WORD_CHARS
        and text[stop] in rule.not_followed_by
    )


def reference_find(text: bytes, forms: Sequence[tuple[bytes, str]]) -> set[tuple[int, int, bytes]]:
    lower_text = text.lower()
    found = set()
    for form, kind in forms:
        offset = lower_text.find(form)
        while offset >= 0:
            if has_boundaries(lower_text, offset, offset + len(form), kind):
                found.add((offset, offset + len(form), form))
            offset = lower_text.find(form, offset + 1)
    return found


def compatibility_form(letter: str) -> str:
    return unicodedata.normalize("NFKC", letter).casefold()


def reference_find_compatible(
    text: str, forms: Sequence[tuple[bytes, str]]
) -> set[tuple[int, int, bytes]]:
    """As `reference_find` in the text's compatibility form; a match is widened to whole
    characters."""
    raw_offsets, form_offsets = [0], [0]
    for letter in text:
        raw_offsets.append(raw_offsets[-1] + len(letter.encode()))
        form_offsets.append(form_offsets[-1] + len(compatibility_form(letter).encode()))
    found = set()
    for start, stop, form in reference_find("".join(map(compatibility_form, text)).encode(), forms):
        first = max(index for index, offset in enumerate(form_offsets) if offset <= start)
        last = min(index for index, offset in enumerate(form_offsets) if offset >= stop)
        found.add((raw_offsets[first], raw_offsets[last], form))
    return found


def build_matcher(values: Sequence[Value]) -> tuple[LiteralMatcher, list[tuple[bytes, str]]]:
    """The values as `write_terms` would write them, and as the reference expects them: one kind per
    form."""
    forms: dict[bytes, str] = {}
    for kind, value in values:
        forms.setdefault(lower(value), kind)
        if not value.isascii():
            forms.setdefault("".join(map(compatibility_form, value)).encode(), kind)
    sorted_forms = sorted(forms.items())
    column = pa.array([form.decode() for form, _ in sorted_forms], pa.large_string())
    numbers = np.array([KINDS.index(kind) for _, kind in sorted_forms], np.int32)
    return LiteralMatcher(column, numbers, np.arange(len(sorted_forms))), sorted_forms


def match_spans(
    found: LiteralMatches, text_no: int, forms: Sequence[tuple[bytes, str]]
) -> set[tuple[int, int, bytes]]:
    rows = np.flatnonzero(found.text_no == text_no)
    assert len({(found.start[row], found.end[row], found.term[row]) for row in rows}) == len(rows)
    return {(int(found.start[row]), int(found.end[row]), forms[found.term[row]][0]) for row in rows}


COMMON_LETTERS = "ab12.@-_ B"
UNUSUAL_LETTERS = (
    "\u00e9\u00c9\u2126\u212a\uff11\uff22\uff20\uff0e\u00a0\ufb01\u00bd\u6f22\u017f\U0001f600\n"
)
SAMPLE_VALUES = [
    BOB,
    LEE,
    "Bob.Lee@Example.com",
    "a@b",
    "a@b.co",
    "::1",
    "1.2.3.4",
    "1.2.3.40",
    "abcdefgh",
    "abcdefgh1",
    "abcdefgh-abcdefgh-abcdefgh",
]
SAMPLE_VALUES += [
    "abcdefgh-abcdxfgh-abcdefgh",
    "aaaaaaaa",
    "aaaaaaaaaaaaaaaaa",
    "@example.com",
    "x@y.example.org",
    PHONE,
    "fi@k.example",
]
text = st.lists(
    st.sampled_from([*COMMON_LETTERS, *UNUSUAL_LETTERS, *SAMPLE_VALUES]), max_size=14
).map("".join)
value = st.tuples(
    st.sampled_from(KINDS),
    st.one_of(
        st.sampled_from(SAMPLE_VALUES),
        st.text("ab12.@-", min_size=1, max_size=20),
        st.text("ab.@\u00e9\u6f22", min_size=1, max_size=12),
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(text, min_size=1, max_size=5), values=st.lists(value, min_size=1, max_size=10)
)
def test_matches_equal_the_reference(texts: list[str], values: list[Value]) -> None:
    matcher, forms = build_matcher(values)
    found = matcher.find(pa.array(texts, pa.large_string()))
    for number, searched in enumerate(texts):
        assert match_spans(found, number, forms) == reference_find(searched.encode(), forms)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(text, min_size=1, max_size=5), values=st.lists(value, min_size=1, max_size=6))
def test_matches_in_compatibility_form_equal_the_reference(
    texts: list[str], values: list[Value]
) -> None:
    matcher, forms = build_matcher(values)
    column = pa.array(texts, pa.large_string())
    exact, compatible = matcher.find(column), matcher.find_nfkc(column)
    for number, searched in enumerate(texts):
        expected = reference_find(searched.encode(), forms) | reference_find_compatible(
            searched, forms
        )
        assert (
            match_spans(exact, number, forms) | match_spans(compatible, number, forms) == expected
        )


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(0, 3),
    texts=st.lists(text, min_size=4, max_size=6),
    values=st.lists(value, min_size=1, max_size=6),
)
def test_slice_of_a_column_is_searched(first: int, texts: list[str], values: list[Value]) -> None:
    matcher, forms = build_matcher(values)
    sliced = pa.array(texts, pa.large_string()).slice(first)
    for number, searched in enumerate(texts[first:]):
        assert match_spans(matcher.find(sliced), number, forms) == reference_find(
            searched.encode(), forms
        )


def test_empty_matcher_and_empty_texts() -> None:
    matcher, _ = build_matcher([("EMAIL_ADDRESS", BOB)])
    for texts in ([], [""], ["", ""], [BOB[:-1]]):
        assert not len(matcher.find(pa.array(texts, pa.large_string())).term)
        assert not len(matcher.find_nfkc(pa.array(texts, pa.large_string())).term)
    empty = LiteralMatcher(
        pa.array([], pa.large_string()), np.empty(0, np.int32), np.empty(0, np.int64)
    )
    assert not len(empty.find(pa.array([BOB], pa.large_string())).term)
    assert not len(empty.find_nfkc(pa.array([BOB + "\uff11"], pa.large_string())).term)


def test_many_values_with_equal_prefix_and_suffix() -> None:
    values = [
        ("EMAIL_ADDRESS", f"longhead{number:05d}@mail.example.com")
        for number in range(0, 20_000, 2)
    ]
    matcher, forms = build_matcher(values)
    texts = [f"<longhead{number:05d}@mail.example.com>" for number in range(1_000)]
    found = matcher.find(pa.array(texts, pa.large_string()))
    assert found.text_no.tolist() == list(range(0, 1_000, 2))
    assert [forms[form][0].decode() for form in found.term] == [
        texts[number][1:-1] for number in range(0, 1_000, 2)
    ]


# ---- one hand-written shard ----


def write_vault(path: Path, values: Sequence[Value]) -> Path:
    columns = [
        pa.array(range(1, len(values) + 1), pa.int64()),
        pa.array([kind for kind, _ in values]).dictionary_encode(),
        pa.array([spelling for _, spelling in values], pa.large_string()),
        pa.nulls(len(values), pa.large_string()),
    ]
    pq.write_table(
        pa.table(
            [
                column.cast(field.type)
                for column, field in zip(columns, table_schemas.VALUE_SPELLINGS.schema, strict=True)
            ],
            schema=table_schemas.VALUE_SPELLINGS.schema,
        ),
        path,
    )
    return path


def apply_edits(source: str, edits: Sequence[Edit]) -> str:
    raw, out, offset = source.encode(), b"", 0
    for _, _, start, stop, replacement in sorted(edits, key=lambda edit: edit[2]):
        out += raw[offset:start] + replacement.encode()
        offset = stop
    return (out + raw[offset:]).decode()


class HandWrittenShard:
    """A hand-written shard from documents, edits, and the spans of kept originals (in output
    bytes)."""

    def __init__(
        self,
        folder: Path,
        documents: pa.Table,
        values: Sequence[Value],
        *,
        edits: Sequence[Edit] = (),
        kept: Sequence[tuple[int, int, int, int]] = (),
        no_cells: Sequence[str] = (),
        occurrences: Sequence[tuple[int, int, int, int, str]] = (),
        atomic_kinds: Sequence[str] = (),
        check_mode: str = "fast",
    ) -> None:
        self.folder = folder
        pq.write_table(documents, folder / "documents.parquet")
        source = DocumentFile(
            path=str(folder / "documents.parquet"),
            rows=documents.num_rows,
            first_doc_no=0,
            columns={name: name for name in documents.schema.names},
        )
        main = LeafPath("text")
        self.documents = Documents(files=(source,), schema=documents.schema, main_leaf=main)
        shard = documents
        for cell, name in ((0, "text"), (1, "note")):
            column_no = documents.schema.get_field_index(name)
            if column_no >= 0 and pa.types.is_large_string(documents.schema.field(column_no).type):
                texts = [
                    (
                        apply_edits(row, [edit for edit in edits if edit[:2] == (number, cell)])
                        if row is not None
                        else None
                    )
                    for number, row in enumerate(documents.column(column_no).to_pylist())
                ]
                shard = shard.set_column(column_no, name, pa.array(texts, pa.large_string()))
        pq.write_table(shard, folder / "shard.parquet")
        pq.write_table(
            pa.table({"doc_no": pa.array(range(documents.num_rows), pa.int64())}),
            folder / "rows.parquet",
        )
        arrays = (
            list(zip(*((*edit, "redact", MAIL) for edit in sorted(edits)), strict=True))
            if edits
            else [[] for _ in range(7)]
        )
        names = table_schemas.EDITS.schema.names
        types = [table_schemas.EDITS.schema.field(name).type for name in names]
        pq.write_table(
            pa.table([pa.array(list(a), t) for a, t in zip(arrays, types, strict=True)], names),
            folder / "edits.parquet",
        )
        ids = {value.encode(): number for number, (_, value) in enumerate(values, 1)}
        texts = shard.column("text").to_pylist()
        kept_rows = [
            (*row, ids.get((texts[row[0]] or "").encode()[row[2] : row[3]], 1)) for row in kept
        ]
        columns = list(zip(*kept_rows, strict=True)) if kept else [[] for _ in range(5)]
        pq.write_table(
            pa.table(
                [
                    pa.array(list(a), f.type)
                    for a, f in zip(columns, batch_rewriting.KEPT_SCHEMA, strict=True)
                ],
                schema=batch_rewriting.KEPT_SCHEMA,
            ),
            folder / "kept.parquet",
        )
        names = ["doc_no", "cell", "start_byte", "end_byte", "kind", "value_id"]
        columns = (
            list(zip(*((*row, 0) for row in occurrences), strict=True))
            if occurrences
            else [[] for _ in names]
        )
        types = [pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int64()]
        occurrence_table = pa.table(
            [pa.array(list(a), t) for a, t in zip(columns, types, strict=True)], names
        )
        pq.write_table(
            occurrence_table.set_column(
                4, "kind", occurrence_table.column("kind").dictionary_encode()
            ),
            folder / "occurrences.parquet",
        )
        policies = {
            name: "keep" if name in no_cells else "sanitize" for name in documents.schema.names
        }
        vault = write_vault(folder / "values.parquet", values)
        write_terms([vault], KINDS, folder / "terms", check_mode=check_mode)
        self.task = VerifyTask(
            shard_no=0,
            first_doc_no=0,
            end_doc_no=documents.num_rows,
            shard_path=folder / "shard.parquet",
            terms=(folder / "terms",),
            check_mode=check_mode,
            values=vault,
            kept_originals=folder / "kept.parquet",
            edits=folder / "edits.parquet",
            occurrences=folder / "occurrences.parquet",
            atomic_kinds=tuple(atomic_kinds),
            row_doc_nos=folder / "rows.parquet",
            documents=self.documents,
            leaves=tuple(cell_leaves(documents.schema, main, Policies(policies))),
            sweep_path=folder / "sweep.parquet",
        )

    def run_check(self) -> ShardFindings:
        """The result of the check; asserts that it is the same with search terms in several passes,
        which all workers share."""
        result = verify_task(self.task)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search_terms, "MAX_UNSHARED_TERMS", 0)
            patch.setattr(search_terms, "TERMS_PER_PARTITION", 1)
            limit = 4 * search_terms.BYTES_PER_TERM
            write_terms(
                [self.task.values],
                KINDS,
                self.folder / "shared",
                limit,
                check_mode=self.task.check_mode,
            )
        shared_task = dataclasses.replace(
            self.task,
            terms=(self.folder / "shared",),
            sweep_path=self.folder / "sweep-shared.parquet",
        )
        assert verify_task(shared_task) == result
        assert pq.read_table(shared_task.sweep_path).equals(pq.read_table(self.task.sweep_path))
        return result

    def read_sweep(self) -> list[tuple[int, int, str, str]]:
        """The rows of the sweep: doc_no, cell, kind, and the input's text by code points; asserts
        that the byte span agrees."""
        texts = self.read_cell_texts()
        rows = []
        for row in pq.read_table(self.task.sweep_path).to_pylist():
            text = texts[row["doc_no"], row["cell"]]
            assert (
                text.encode()[row["start_byte"] : row["end_byte"]].decode()
                == text[row["start"] : row["end"]]
            )
            assert row["finder"] == "sweep"
            rows.append((row["doc_no"], row["cell"], row["kind"], text[row["start"] : row["end"]]))
        return rows

    def read_cell_texts(self) -> dict[tuple[int, int], str]:
        rows = pq.read_table(self.folder / "documents.parquet").to_pylist()
        cell_texts = {}
        for number, row in enumerate(rows):
            cells = [row["text"]]
            for name, value in row.items():
                if name == "messages":
                    cells += [message["content"] for message in value or ()]
                elif name != "text":
                    cells.append(value)
            cell_texts.update(
                {(number, cell): value for cell, value in enumerate(cells) if value is not None}
            )
        return cell_texts


def build_table(*texts: str | None, **columns: Any) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.large_string()), **columns})


MAIL, TEL = "EMAIL_ADDRESS", "PHONE_NUMBER"
LEAKS = {
    "exact": ([(MAIL, BOB)], "mail bob.lee@example.com now", [BOB]),
    "upper": ([(MAIL, BOB)], "mail BOB.LEE@EXAMPLE.COM now", [BOB.upper()]),
    "mixed": ([(MAIL, BOB)], "mail Bob.Lee@Example.Com now", ["Bob.Lee@Example.Com"]),
    "flagged in upper": ([(MAIL, BOB.upper())], "mail bob.lee@example.com now", [BOB]),
    "full width": ([(MAIL, BOB)], f"mail {full_width(BOB)} now", [full_width(BOB)]),
    "full width digits": (
        [(TEL, PHONE)],
        "call \uff12\uff11\uff12-555-0123.",
        ["\uff12\uff11\uff12-555-0123"],
    ),
    "one wide letter in the middle": (
        [(MAIL, BOB)],
        "mail bob.lee@exampl\uff25.com now",
        ["bob.lee@exampl\uff25.com"],
    ),
    "a no-break space in a phone": (
        [(TEL, "212 555 0123")],
        "call 212\u00a0555\u00a00123 now",
        ["212\u00a0555\u00a00123"],
    ),
    "the whole text": ([(MAIL, BOB)], BOB, [BOB]),
    "at the start": ([(MAIL, BOB)], f"{BOB} wrote", [BOB]),
    "at the end": ([(MAIL, BOB)], f"write to {BOB}", [BOB]),
    "in punctuation": ([(MAIL, BOB)], f"(<{BOB}>, '{BOB}';{BOB})", [BOB, BOB, BOB]),
    "beside letters beyond ASCII": (
        [(MAIL, BOB), (TEL, PHONE)],
        f"\u6f22{BOB}\u5b57 \u00e9{PHONE}\u00fc",
        [BOB, PHONE],
    ),
    "before a combining accent": ([(TEL, PHONE)], f"e\u0301{PHONE}\u0308", [PHONE]),
    "a name with combining accents": (
        [("PERSON", "Rene\u0301")],
        "dear Rene\u0301!",
        ["Rene\u0301"],
    ),
    "beside an emoji": ([(TEL, PHONE)], f"\U0001f4de{PHONE}\U0001f600", [PHONE]),
    "shorter than eight bytes": (
        [("IP_ADDRESS", "f0::1"), ("IP_ADDRESS", "::1"), (MAIL, "a@b")],
        "at ::1, f0::1 <a@b>",
        ["::1", "f0::1", "a@b"],
    ),
    "one shared head": (
        [(MAIL, f"longhead{tail}@example.com") for tail in ("", "1", "12", ".x")],
        "longhead12@example.com",
        ["longhead12@example.com"],
    ),
    "only the middle differs": (
        [(MAIL, "abcdefgh.one.xyz@example.com"), (MAIL, "abcdefgh.two.xyz@example.com")],
        "abcdefgh.two.xyz@example.com",
        ["abcdefgh.two.xyz@example.com"],
    ),
    "one inside the other": ([(MAIL, BOB), (MAIL, LEE)], f"{BOB} {LEE}", [BOB, LEE]),
    "with a letter beyond ASCII": (
        [(MAIL, "j\u00f6rg@example.com")],
        "J\u00d6RG@EXAMPLE.COM",
        ["J\u00d6RG@EXAMPLE.COM"],
    ),
    "a mail before digits": ([(MAIL, BOB)], f"{BOB}2nd", [BOB]),
    "in a control character": ([(TEL, PHONE)], f"\x01{PHONE}\x02", [PHONE]),
}
ADJOINED = {
    # text, what is swept in it, and how many matches are inconclusive
    "in a longer number": (
        [(TEL, PHONE)],
        f"9{PHONE} {PHONE}4 x{PHONE} {PHONE}x",
        [PHONE, PHONE],
        2,
    ),
    "a mail beside accented letters": (
        [(MAIL, BOB)],
        f"{BOB}\u0301 {BOB}\u00e9 {BOB}\u0435 \u00e9{BOB} {BOB}\u00d7",
        [BOB, BOB],
        3,
    ),
    "a name inside one with an accented end": (
        [("PERSON", "Marie-Claire Ren\u00e9")],
        "Marie-Claire Ren\u00e9e, \u00e9Marie-Claire Ren\u00e9",
        [],
        2,
    ),
    "a name followed by a combining accent": ([("PERSON", "Rene")], "dear Rene\u0301!", [], 0),
    "a long name in a longer one": (
        [("PERSON", "Rosalind Franke")],
        "Rosalind Frankel, xRosalind Franke",
        [],
        2,
    ),
    "in a longer word": ([(MAIL, BOB)], f"x{BOB} {BOB}x _{BOB} 7{BOB}", [BOB, BOB], 2),
    "a short value": ([("IP_ADDRESS", "10.0.0.7")], "10.0.0.71 ip10.0.0.7 _10.0.0.7", [], 2),
    "in a longer IP": ([("IP_ADDRESS", IP)], f"1.{IP} {IP}1 {IP}-1 -{IP}", [IP], 3),
    "another middle": (
        [(MAIL, "abcdefgh.one.xyz@example.com")],
        "abcdefgh.two.xyz@example.com",
        [],
        0,
    ),
    "a beginning": ([(MAIL, BOB)], BOB[:-1], [], 0),
    "across two texts": ([(MAIL, BOB)], None, [], 0),
    "wide letters on both sides": (
        [(TEL, PHONE)],
        f"\uff11{PHONE.replace('5', chr(0xFF15))}\uff11",
        [],
        1,
    ),
    "escapes": (
        [(MAIL, BOB), (TEL, PHONE)],
        f"\\n{BOB} %0A{BOB} =0A{PHONE} \x1b[31m{PHONE}",
        [BOB, BOB, PHONE, PHONE],
        0,
    ),
}


@pytest.mark.parametrize("case", LEAKS)
def test_planted_value_is_swept(tmp_path: Path, case: str) -> None:
    values, text, expected = LEAKS[case]
    shard = HandWrittenShard(tmp_path, build_table("nothing here", text), values)
    result = shard.run_check()
    assert result.leaks == {} and result.swept == len(expected)
    assert [(doc_no, cell, found) for doc_no, cell, _, found in shard.read_sweep()] == [
        (1, 0, found) for found in expected
    ]
    assert {kind for _, _, kind, _ in shard.read_sweep()} <= {kind for kind, _ in values}


@pytest.mark.parametrize("case", ADJOINED)
def test_what_adjoins_a_match_decides_what_becomes_of_it(tmp_path: Path, case: str) -> None:
    values, text, swept, inconclusive_count = ADJOINED[case]
    texts = [text] if text is not None else [BOB[:9], BOB[9:], "", BOB[:4], None, BOB[4:]]
    shard = HandWrittenShard(tmp_path, build_table(*texts), values)
    result = shard.run_check()
    assert (result.leaks, result.swept) == ({}, len(swept)) and [
        found for *_, found in shard.read_sweep()
    ] == swept
    assert sum(result.inconclusive.values()) == inconclusive_count


def test_rows_and_bytes_are_counted(tmp_path: Path) -> None:
    result = HandWrittenShard(
        tmp_path, build_table("abc", None, "\u00e9"), [(MAIL, BOB)]
    ).run_check()
    assert (result.rows, result.text_bytes, result.kept_found, result.kept_expected) == (3, 5, 0, 0)


@pytest.mark.parametrize(
    "order", [["EMAIL_ADDRESS", "MESSAGE_ID"], ["MESSAGE_ID", "EMAIL_ADDRESS"]]
)
def test_spelling_of_two_kinds_matches_by_either_boundary_rule(
    tmp_path: Path, order: list[str]
) -> None:
    """An EMAIL_ADDRESS may be followed by a digit or an underscore, a MESSAGE_ID may not; a match
    as either kind is a leak."""
    shard = HandWrittenShard(
        tmp_path, build_table("see x1@example.com_b"), [(kind, "x1@example.com") for kind in order]
    )
    assert shard.run_check().swept == 1  # regression: only the first kind of a form was kept


@pytest.mark.slow
def test_run_with_shared_search_terms_gives_the_same_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in BOB)
    texts = [
        f"mail {escaped if no == 3 else BOB}, a{no}@example.com or 212-555-01{no:02d}; {LEE}"
        for no in range(12)
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    monkeypatch.setattr(search_terms, "TERMS_PER_PARTITION", 3)
    outputs, pass_counts = [], []
    write_pass = search_terms._write_pass

    def count_pass(terms: pl.DataFrame, folder: Path) -> None:
        pass_counts.append(folder)
        write_pass(terms, folder)

    monkeypatch.setattr(search_terms, "_write_pass", count_pass)
    for max_unshared, term_bytes in (
        (search_terms.MAX_UNSHARED_TERMS, search_terms.BYTES_PER_TERM),
        (0, 100 << 20),
    ):
        monkeypatch.setattr(search_terms, "MAX_UNSHARED_TERMS", max_unshared)
        # each partition becomes a pass
        monkeypatch.setattr(search_terms, "BYTES_PER_TERM", term_bytes)
        out = tmp_path / f"out{max_unshared}"
        pass_counts.clear()
        summary = run_with_settings(
            [tmp_path / "in.parquet"],
            out,
            load_plan("surrogates", PATTERNS_ONLY),
            settings=Settings(seed=1, workers=1),
        )
        assert (
            len(
                [
                    path
                    for path in pass_counts
                    if "out" in str(path) and path.parent.parent.name == "spill"
                ]
            )
            > 2
        ) == (not max_unshared)
        assert summary.verify.swept == 1 and summary.leaks == 0
        assert verify(out, mode="fast", workers=1).values_checked == summary.verify.values_checked
        assert not (tmp_path / f"out{max_unshared}.private" / "spill").exists()
        outputs.append([path.read_bytes() for path in sorted((out / "data").iterdir())])
    assert outputs[0] == outputs[1]


COLUMNS = {
    "a further string": (pa.array(["ok", BOB], pa.large_string()), "note", (1, 1, MAIL, BOB)),
    "nested": (
        pa.array(
            [[{"content": "hi"}], [{"content": "x"}, {"content": f"<{BOB}>"}]],
            pa.large_list(pa.struct([("content", pa.large_string())])),
        ),
        "messages",
        (1, 2, MAIL, BOB),
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_value_in_a_further_cell_is_swept(tmp_path: Path, case: str) -> None:
    column, name, expected = COLUMNS[case]
    shard = HandWrittenShard(tmp_path, build_table("one", "two", **{name: column}), [(MAIL, BOB)])
    assert shard.run_check().leaks == {}
    assert shard.read_sweep() == [expected]


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("form", [str, str.upper, full_width])
def test_a_value_in_a_kept_column_is_a_leak(tmp_path: Path, case: str, form: Any) -> None:
    column, name, _ = COLUMNS[case]
    cells = json.loads(json.dumps(column.to_pylist()).replace(BOB, form(BOB)))
    shard = HandWrittenShard(
        tmp_path,
        build_table("one", "two", **{name: pa.array(cells, column.type)}),
        [(MAIL, BOB)],
        no_cells=[name],
    )
    result = shard.run_check()
    assert result.swept == 0
    assert [(location.split("[")[0], kind) for location, kind, _ in result.leaks] == [
        (f"column {name}", MAIL)
    ]
    assert BOB not in repr(result).lower()


def build_edit(source: str, word: str, replacement: str, doc_no: int = 0) -> Edit:
    start = source.encode().index(word.encode())
    return doc_no, 0, start, start + len(word.encode()), replacement


def test_a_replacement_that_is_a_value_is_a_leak(tmp_path: Path) -> None:
    source = f"to {PHONE} and"
    shard = HandWrittenShard(
        tmp_path, build_table(source), [(MAIL, BOB)], edits=[build_edit(source, PHONE, BOB.upper())]
    )
    result = shard.run_check()
    assert (
        result.leaks == {("column text (a replacement)", MAIL, "case-folded"): 1}
        and result.swept == 0
    )


@pytest.mark.parametrize(
    "replacement",
    [f"ann.{LEE}", f"http://example.com/?m={LEE}", f"<{LEE}>", full_width(f"x.{LEE}")],
)
def test_value_strictly_inside_a_replacement_is_not_a_leak(
    tmp_path: Path, replacement: str
) -> None:
    source = f"to {PHONE} and {LEE} \u00e9 \uff11"
    shard = HandWrittenShard(
        tmp_path,
        build_table(source),
        [(MAIL, LEE), (TEL, PHONE)],
        edits=[build_edit(source, PHONE, replacement)],
    )
    result = shard.run_check()
    # the occurrence after the edit, mapped back to the input
    assert result.leaks == {} and shard.read_sweep() == [(0, 0, MAIL, LEE)]


ACROSS_EDITS = {
    # text, edits (word -> replacement), resulting value, swept span of the input
    "begins before": ("call 212-KEY9 now", {"KEY9": "555-0123"}, (TEL, PHONE), "212-KEY9"),
    "ends behind": ("call KEY9-0123 now", {"KEY9": "212-555"}, (TEL, PHONE), "KEY9-0123"),
    "around": ("call 212-KEY9-0123 now", {"KEY9": "555"}, (TEL, PHONE), "212-KEY9-0123"),
    "two edits": (
        "call KEY9-KEY8 now",
        {"KEY9": "x 212", "KEY8": "555-0123 x"},
        (TEL, PHONE),
        "KEY9-KEY8",
    ),
    "two edits that touch": (
        "call KEY9KEY8 now",
        {"KEY9": "212-5", "KEY8": "55-0123"},
        (TEL, PHONE),
        "KEY9KEY8",
    ),
    "an edit that vanishes": (
        "call 212-5KEY955-0123 now",
        {"KEY9": ""},
        (TEL, PHONE),
        "212-5KEY955-0123",
    ),
    "after a longer edit": (
        "\u00e9 KEY9 then 212-KEY8",
        {"KEY9": "a much longer one", "KEY8": "555-0123"},
        (TEL, PHONE),
        "212-KEY8",
    ),
    "before another edit": (
        "212-KEY8 \u00e9 KEY9",
        {"KEY8": "555-0123", "KEY9": "longer than before"},
        (TEL, PHONE),
        "212-KEY8",
    ),
    "behind edits": (
        "KEY8 KEY9 212-555-0123",
        {"KEY8": "a", "KEY9": "longer than it was"},
        (TEL, PHONE),
        PHONE,
    ),
    "right behind an edit": (
        "KEY8 KEY9<212-555-0123>",
        {"KEY8": "a", "KEY9": ""},
        (TEL, PHONE),
        PHONE,
    ),
    "right before an edit": (
        "KEY8 (212-555-0123)KEY9",
        {"KEY8": "a", "KEY9": "longer"},
        (TEL, PHONE),
        PHONE,
    ),
    "wide letters across": (
        "call 212\uff0dKEY9 now",
        {"KEY9": "555-0123"},
        (TEL, PHONE),
        "212\uff0dKEY9",
    ),
}


@pytest.mark.parametrize("case", ACROSS_EDITS)
def test_value_across_an_edit_is_swept_with_the_whole_edit(tmp_path: Path, case: str) -> None:
    source, replacements, removed_value, expected = ACROSS_EDITS[case]
    shard = HandWrittenShard(
        tmp_path,
        build_table("x", source),
        [removed_value],
        edits=[
            build_edit(source, word, replacement, 1) for word, replacement in replacements.items()
        ],
    )
    result = shard.run_check()
    assert result.leaks == {} and shard.read_sweep() == [(1, 0, TEL, expected)]


def test_value_inside_a_left_atomic_value_is_not_a_leak(tmp_path: Path) -> None:
    """Matches inside a MESSAGE_ID that the plan leaves are not leaks; a match that equals one is
    swept."""
    source = f"KEY9 id=<x.{LEE}> {LEE}"
    values = [(MAIL, LEE), (TEL, PHONE)]
    edits = [build_edit(source, "KEY9", "something longer")]
    offset = source.index("x.")
    message = (0, 0, offset, offset + len(LEE) + 2, "MESSAGE_ID")
    whole_address = (0, 0, len(source) - len(LEE), len(source), "MESSAGE_ID")
    for number, (occurrences, atomic_kinds, expected) in enumerate(
        [
            ((message,), ("MESSAGE_ID",), 1),
            ((message,), (), 2),
            ((message, whole_address), ("MESSAGE_ID",), 1),
            ((), ("MESSAGE_ID",), 2),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        shard = HandWrittenShard(
            tmp_path / str(number),
            build_table(source),
            values,
            edits=edits,
            occurrences=occurrences,
            atomic_kinds=atomic_kinds,
        )
        assert (shard.run_check().swept, shard.read_sweep()) == (
            expected,
            [(0, 0, MAIL, LEE)] * expected,
        )


EditedPiece = tuple[str, str | None]  # original text, and its replacement


def map_to_input(pieces: Sequence[EditedPiece], start: int, stop: int) -> tuple[int, int] | str:
    """Reference: the input span of an output span, or that it is all or a part of one
    replacement."""
    source = out = 0
    first = last = None
    for before, replacement in pieces:
        old_size, new_size = (
            len(before.encode()),
            len((before if replacement is None else replacement).encode()),
        )
        low, high = out, out + new_size
        if replacement is not None and (low, high) == (start, stop):
            return "leak"
        if replacement is not None and low <= start and stop <= high:
            return "inside"
        if low <= start < high:
            first = source if replacement is not None else source + start - low
        if low < stop <= high:
            last = source + old_size if replacement is not None else source + stop - low
        source, out = source + old_size, out + new_size
    assert first is not None and last is not None
    return first, last


pieces = st.lists(
    st.tuples(
        st.sampled_from(["", "1", "1.2", ".", "3.4", " ", "\u00e9", "1.2.3.4", "ab"]),
        st.sampled_from([None, None, "", "1.2", ".3.4", "1.2.3.4", "\u6f22", "long 1.2"]),
    ).filter(lambda piece: piece[0] != "" or piece[1] is None),
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(documents=st.lists(st.tuples(pieces, pieces), min_size=1, max_size=4))
def test_swept_spans_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[tuple[list[EditedPiece], list[EditedPiece]]],
) -> None:
    values = [("PHONE_NUMBER", "1.2.3.4"), ("PHONE_NUMBER", "1.2")]
    edits: list[Edit] = []
    expected: set[tuple[int, int, int, int]] = set()
    leaks = 0
    for doc_no, cells in enumerate(documents):
        for cell, cell_pieces in enumerate(cells):
            offset = 0
            for before, replacement in cell_pieces:
                if replacement is not None:
                    edits.append((doc_no, cell, offset, offset + len(before.encode()), replacement))
                offset += len(before.encode())
            out = "".join(
                before if replacement is None else replacement
                for before, replacement in cell_pieces
            ).encode()
            found = {
                map_to_input(cell_pieces, start, stop)
                for start, stop, _ in reference_find(
                    out, [(value.encode(), kind) for kind, value in values]
                )
            }
            leaks += sum(
                map_to_input(cell_pieces, start, stop) == "leak"
                for start, stop, _ in reference_find(out, [(v.encode(), k) for k, v in values])
            )
            spans = [span for span in found if not isinstance(span, str)]
            # of spans with one start, and of nested spans, the longest is kept
            last_end = -1
            for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
                if last > last_end:
                    expected.add((doc_no, cell, first, last))
                    last_end = last
    texts, notes = (
        ["".join(before for before, _ in cells[cell_no]) for cells in documents]
        for cell_no in (0, 1)
    )
    shard = HandWrittenShard(
        tmp_path_factory.mktemp("hand"),
        build_table(*texts, note=pa.array(notes, pa.large_string())),
        values,
        edits=edits,
    )
    result = shard.run_check()
    assert sum(result.leaks.values()) == leaks
    shard.read_sweep()
    rows = pq.read_table(
        shard.task.sweep_path, columns=["doc_no", "cell", "start_byte", "end_byte"]
    ).to_pylist()
    assert {tuple(row.values()) for row in rows} == expected and len(rows) == len(expected)


def test_the_longest_of_nested_values_is_swept(tmp_path: Path) -> None:
    values = [
        ("URL", f"http://example.com/{BOB}"),
        (MAIL, BOB),
        (MAIL, LEE),
        ("URL", "http://example.com"),
    ]
    shard = HandWrittenShard(tmp_path, build_table(f"see http://example.com/{BOB} now"), values)
    assert shard.run_check().swept == 1
    assert shard.read_sweep() == [(0, 0, "URL", f"http://example.com/{BOB}")]


def kept_span(source: str, word: str, doc_no: int = 0) -> tuple[int, int, int, int]:
    start = source.encode().index(word.encode())
    return doc_no, 0, start, start + len(word.encode())


def test_values_inside_a_kept_original_are_not_leaks(tmp_path: Path) -> None:
    source = f"\u00e9 {BOB}, {PHONE}"
    shard = HandWrittenShard(
        tmp_path,
        build_table(source, BOB),
        [(MAIL, BOB), (MAIL, LEE), (TEL, PHONE)],
        kept=[kept_span(source, BOB), kept_span(source, PHONE)],
    )
    result = shard.run_check()
    assert (result.kept_found, result.kept_expected, result.leaks) == (2, 2, {})
    assert shard.read_sweep() == [(1, 0, MAIL, BOB)]


def test_a_kept_original_beside_a_wide_letter_counts_once(tmp_path: Path) -> None:
    """Both searches find it, the exact one and the one in compatibility form."""
    source = f"\uff08{BOB}\uff09 \uff1a{PHONE}\uff01"
    shard = HandWrittenShard(
        tmp_path, build_table(source), [(MAIL, BOB), (TEL, PHONE)], kept=[kept_span(source, BOB)]
    )
    result = shard.run_check()
    assert (result.kept_found, result.kept_expected) == (1, 1)
    assert shard.read_sweep() == [(0, 0, TEL, PHONE)]


def test_a_kept_original_without_a_word_boundary_is_counted(tmp_path: Path) -> None:
    """A finder cuts off the escape of quoted-printable that stands before a value."""
    table = pa.table({"text": [f"write to:\n\n=09{BOB}", f"or {BOB} and {BOB}"]})
    pq.write_table(table, tmp_path / "in.parquet")
    result = run_with_settings(
        tmp_path / "in.parquet", tmp_path / "out", "rmft", settings=Settings(seed=1, workers=1)
    )
    assert result.kept_originals == 1 and pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")[
        "text"
    ][0].endswith(f"=09{BOB}")
    assert verify(tmp_path / "out").leaks == 0


def test_missing_kept_originals_are_counted(tmp_path: Path) -> None:
    shard = HandWrittenShard(
        tmp_path,
        build_table(f"{BOB} and more"),
        [(MAIL, BOB)],
        kept=[(0, 0, 0, 18), (0, 0, 20, 23)],
    )
    result = shard.run_check()
    assert (result.kept_found, result.kept_expected) == (0, 2)


def test_value_that_extends_beyond_a_kept_original_is_swept(tmp_path: Path) -> None:
    source = f"x {BOB} x"
    for kept in (kept_span(source, BOB[4:]), kept_span(source, BOB[:-4])):
        shard = HandWrittenShard(tmp_path, build_table(source), [(MAIL, BOB)], kept=[kept])
        shard.run_check()
        assert shard.read_sweep() == [(0, 0, MAIL, BOB)]


def test_value_in_an_outer_kept_original_after_an_inner_one_is_not_a_leak(tmp_path: Path) -> None:
    outer, inner = f"http://example.com/?m=ann@example.com&c={PHONE}", "ann@example.com"
    source = f"see {outer} there"
    values = [("URL", outer), (MAIL, inner), (TEL, PHONE)]
    shard = HandWrittenShard(
        tmp_path,
        build_table(source),
        values,
        kept=[kept_span(source, outer), kept_span(source, inner)],
    )
    result = shard.run_check()
    # regression: only the last kept original before a match was looked up, here the inner one
    assert (result.kept_found, result.swept, result.leaks) == (2, 0, {})


def test_kept_originals_are_looked_up_by_document(tmp_path: Path) -> None:
    """Kept originals are looked up by (document, cell, byte); those of another document do not
    count."""
    texts = [f"{BOB} {number}" for number in range(300)]
    kept = [(number, 0, 0, len(BOB)) for number in range(0, 300, 3)]
    shard = HandWrittenShard(tmp_path, build_table(*texts), [(MAIL, BOB)], kept=kept)
    result = shard.run_check()
    assert result.kept_found == 100
    assert [row[0] for row in shard.read_sweep()] == [number for number in range(300) if number % 3]


def test_pages_are_searched_for_removed_values(tmp_path: Path) -> None:
    vault = write_vault(tmp_path / "values.parquet", [(MAIL, BOB), (TEL, PHONE)])
    write_terms([vault], [MAIL], tmp_path / "terms")
    pages = {
        "a": f"x {BOB.upper()} {BOB}",
        "b": PHONE,
        "c": full_width(BOB),
        "d": "",
        "e": f"x{BOB}",
        "f": f"_{BOB}",
    }
    assert find_values_in_texts([tmp_path / "terms"], pages) == [
        ("a", MAIL),
        ("c", MAIL),
        ("f", MAIL),
    ]


# ---- end to end ----

LINES = [
    f"First {BOB} and {PHONE}.",
    f"Then {BOB}, card {CARD}.",
    f"Again {BOB} or {PHONE}; ann.roe@example.org too.",
    f"Last ann.roe@example.org, {BOB}, {PHONE}, IP {IP}.",
]


def write_corpus(folder: Path, lines: Sequence[str] = LINES, **columns: Sequence[Any]) -> Path:
    path = folder / "in.parquet"
    pq.write_table(
        pa.table({"text": list(lines), **{name: list(column) for name, column in columns.items()}}),
        path,
    )
    return path


# without the finder `known`, which finds what a sweep would
PATTERNS_ONLY = ('find.kinds=["default"]', 'find.finders=["patterns"]')


def run_plan(
    folder: Path,
    source: Path,
    plan: str = "rmft",
    out: str = "out",
    changes: Sequence[str] = (),
    **overrides: Any,
) -> RunResult:
    options = {"seed": 1, "workers": 1, "rows_per_shard": 2, **overrides}
    return run_with_settings(
        [source], folder / out, load_plan(plan, changes), None, Settings(**options)
    )


def skip_every_nth_occurrence(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The finder misses every n-th occurrence, in the user's documents only: the canary check would
    stop such a run."""
    original_run = PatternFinder.run

    def run_and_skip(self: PatternFinder, texts: Any) -> SpanTable:
        found = original_run(self, texts)
        if any("Reach " in text for text in texts.slice(0, 3).to_pylist()):
            return found
        rows = np.arange(len(found.value_no)) % number != number - 1
        return found.take(rows)

    monkeypatch.setattr(PatternFinder, "run", run_and_skip)


@pytest.mark.parametrize("plan", ["rmft", "surrogates", "redact"])
def test_values_that_the_finder_missed_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    skip_every_nth_occurrence(monkeypatch, 3)
    summary = run_plan(tmp_path, write_corpus(tmp_path), plan, changes=PATTERNS_ONLY)
    assert summary.leaks == 0 and summary.verify.swept == 3
    texts = "\n".join(read_texts(tmp_path / "out"))
    assert CARD not in texts
    assert [texts.count(value) for value in (BOB, PHONE, "ann.roe@example.org", IP)] == [
        int(plan == "rmft")
    ] * 4
    work = tmp_path / "out.private"
    swept = pa.concat_tables([pq.read_table(file) for file in work.glob("runs/*/sweep/0*.parquet")])
    assert swept.num_rows == 3 and set(swept.column("finder").to_pylist()) == {"sweep"}
    assert summary.occurrences == 11 == summary.kept_originals + summary.replaced
    assert verify(tmp_path / "out", work=work).leaks == 0
    assert run_plan(tmp_path, write_corpus(tmp_path), plan, changes=PATTERNS_ONLY).changed is False


def test_sweeping_gives_the_same_texts_as_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_plan(tmp_path, write_corpus(tmp_path), "redact", "whole", PATTERNS_ONLY)
    skip_every_nth_occurrence(monkeypatch, 3)
    run_plan(tmp_path, write_corpus(tmp_path), "redact", "swept", PATTERNS_ONLY)
    assert read_texts(tmp_path / "whole") == read_texts(tmp_path / "swept")


def skip_last_edit(monkeypatch: pytest.MonkeyPatch, editor: type[Any]) -> None:
    """The editor leaves the last occurrence of a batch unchanged, whatever its settings and
    whichever finder found it."""
    original_edit = editor.edit_occurrences

    def edit_and_skip(self: Any, batch: Any) -> Any:
        edits = original_edit(self, batch)
        rows = edits.rows
        positions = batch.occurrences.select("doc_no", "start").rows()
        edited = np.array([positions[row] != positions[rows[-1]] for row in rows], np.bool_)
        return replace(
            edits, rows=rows[edited], replacement=edits.replacement.filter(pa.array(edited))
        )

    monkeypatch.setattr(editor, "edit_occurrences", edit_and_skip)


@pytest.mark.parametrize(
    ("plan", "editor"), [("rmft", Rmft), ("redact", Redact), ("surrogates", Rmft)]
)
def test_a_leak_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, editor: type[Any]
) -> None:
    skip_last_edit(monkeypatch, editor)
    with pytest.raises(LeakFound) as caught:
        run_plan(tmp_path, write_corpus(tmp_path), plan)
    assert caught.value.exit_code == 4 and "nothing was published" in str(caught.value)
    assert not [value for value in (BOB, PHONE, IP, "ann.roe") if value in str(caught.value)]
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.private"}


@pytest.mark.slow
def test_leak_leaves_the_previous_output_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_corpus(tmp_path)
    run_plan(tmp_path, source, "rmft")
    before = read_files(tmp_path / "out")
    skip_last_edit(monkeypatch, Redact)
    with pytest.raises(LeakFound):
        run_plan(tmp_path, source, "redact", replace=True)
    assert read_files(tmp_path / "out") == before
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out", "out.private"}


@pytest.mark.slow
def test_run_after_a_leak_repeats_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        skip_last_edit(patch, Redact)
        with pytest.raises(LeakFound):
            run_plan(tmp_path, write_corpus(tmp_path), "redact")
    assert run_plan(tmp_path, write_corpus(tmp_path), "redact").leaks == 0
    assert run_plan(tmp_path, write_corpus(tmp_path), "redact", "other").leaks == 0
    assert read_texts(tmp_path / "out") == read_texts(tmp_path / "other")


def test_run_after_a_sweep_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_every_nth_occurrence(monkeypatch, 3)
    run_plan(tmp_path, write_corpus(tmp_path))
    before = read_files(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    assert run_plan(tmp_path, write_corpus(tmp_path)).verify.swept == 3
    assert {
        name: raw for name, raw in read_files(tmp_path / "out").items() if name.startswith("data/")
    } == {name: raw for name, raw in before.items() if name.startswith("data/")}


def test_a_value_in_a_kept_column_is_refused(tmp_path: Path) -> None:
    source = write_corpus(tmp_path, note=["", "", "", BOB.title()], n=[1, 2, 3, 4])
    with pytest.raises(LeakFound, match=r"column note: 1 EMAIL_ADDRESS"):
        run_plan(tmp_path, source, **_keep_columns("note"))
    assert not (tmp_path / "out").exists()
    assert run_plan(tmp_path, source).leaks == 0  # by default every string is sanitized


def test_a_value_as_doc_id_that_is_to_be_kept_is_refused(tmp_path: Path) -> None:
    source = write_corpus(tmp_path, doc_id=["a", "b", BOB, "d"])
    with pytest.raises(LeakFound, match=r"column doc_id: 1 EMAIL_ADDRESS"):
        run_plan(tmp_path, source, keep=["doc_id"])


def test_a_leak_names_the_column_of_the_input(tmp_path: Path) -> None:
    source = write_corpus(tmp_path, url=["a", "b", BOB, "d"])
    with pytest.raises(LeakFound, match=r"column doc_id \(url in the input\): 1 EMAIL_ADDRESS"):
        run_plan(tmp_path, source, id_column="url", keep=["doc_id"])
    with pytest.raises(
        UsageError,
        match="--drop url: this column is doc_id in the output; name it so: --drop doc_id",
    ):
        run_plan(tmp_path, source, id_column="url", drop=["url"])
    assert run_plan(tmp_path, source, id_column="url", drop=["doc_id"]).leaks == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "full"])
def test_verify_names_the_column_of_the_input(tmp_path: Path, mode: str) -> None:
    run_plan(tmp_path, write_corpus(tmp_path, url=["a", "b", "c", "d"]), id_column="url")
    ids = pa.array(["a", BOB], pa.large_string())
    replace_first_shard(
        tmp_path / "out",
        lambda table: table.set_column(table.schema.get_field_index("doc_id"), "doc_id", ids),
    )
    with pytest.raises(LeakFound, match=r"column doc_id \(url in the input\): 1 EMAIL_ADDRESS"):
        verify(tmp_path / "out", work=tmp_path / "out.private", mode=mode)


def _keep_columns(*names: str) -> Any:

    return {"keep": list(names)}


@pytest.mark.parametrize("page", ["card", "report"])
def test_a_page_with_a_value_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setattr(
        report_data,
        {"card": "render_card", "report": "render_report"}[page],
        lambda *_: f"<p>{BOB}</p>",
    )
    with pytest.raises(LeakFound) as caught:
        run_plan(tmp_path, write_corpus(tmp_path))
    assert BOB not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.private"}


def test_a_column_name_with_a_value_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(LeakFound, match="column names.*Rename the column"):
        run_plan(tmp_path, write_corpus(tmp_path, **{BOB: ["1", "2", "3", "4"]}))
    assert not (tmp_path / "out").exists()


def test_spelling_of_two_kinds_is_checked_by_both_boundary_rules(tmp_path: Path) -> None:
    """`x1@example.com` as MESSAGE_ID and as EMAIL_ADDRESS: the kinds differ in which characters may
    follow."""
    (tmp_path / "mails").mkdir()
    for number, (head, body) in enumerate(
        [("Message-ID: <x1@example.com>", "Hi."), ("Subject: hello", "See x1@example.com_b.")]
    ):
        (tmp_path / "mails" / f"{number}.eml").write_text(
            f"From: Ann <ann@example.com>\n{head}\n\n{body}\n"
        )
    plan = tmp_path / "both.toml"
    kinds_line = 'kinds = ["EMAIL_ADDRESS", "MESSAGE_ID"]'
    plan.write_text(f'[find]\n{kinds_line}\n[[edit]]\nuse = "rmft"\n{kinds_line}\nkeep = 1\n')
    settings = Settings(seed=1, workers=1, rows_per_shard=1)
    # regression: the kept EMAIL_ADDRESS was searched by MESSAGE_ID's boundary rule and missed
    # (OutputBroken, "internal error")
    summary = run_with_settings(
        [tmp_path / "mails"], tmp_path / "out", load_plan(str(plan)), None, settings
    )
    assert (summary.leaks, summary.by_kind["EMAIL_ADDRESS"].kept) == (0, 2)


# ---- verifying a published output ----


@pytest.fixture()
def output(tmp_path: Path) -> Path:
    run_plan(tmp_path, write_corpus(tmp_path))
    return tmp_path / "out"


def verify_output(out: Path) -> VerifyResult:
    return verify(out, work=Path(f"{out}.private"))


def test_unchanged_output_verifies(output: Path) -> None:
    before = read_files(output), read_files(Path(f"{output}.private"))
    result = verify_output(output)
    assert (result.leaks, result.shards, result.rows) == (0, 2, 4)
    assert (read_files(output), read_files(Path(f"{output}.private"))) == before


def test_flipped_byte_is_detected(output: Path) -> None:
    shard = output / "data" / "train-00001-of-00002.parquet"
    raw = bytearray(shard.read_bytes())
    raw[len(raw) // 2] ^= 1
    shard.unlink()  # it is a hard link to the shard in the workspace
    shard.write_bytes(raw)
    with pytest.raises(OutputBroken, match="train-00001-of-00002.parquet"):
        verify_output(output)


def test_foreign_shard_is_detected(output: Path) -> None:
    (output / "data" / "extra.parquet").write_bytes(
        (output / "data" / "train-00000-of-00002.parquet").read_bytes()
    )
    with pytest.raises(OutputBroken, match="data: holds 1 file that is not in the manifest"):
        verify_output(output)


def test_missing_shard_is_detected(output: Path) -> None:
    (output / "data" / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(OutputBroken, match="is missing"):
        verify_output(output)


def test_swapped_shards_are_detected(output: Path) -> None:
    first, second = sorted((output / "data").iterdir())
    first.rename(output / "aside")
    second.rename(first)
    (output / "aside").rename(second)
    with pytest.raises(OutputBroken):
        verify_output(output)


def test_output_without_manifest_is_refused(output: Path) -> None:
    (output / "manifest.json").unlink()
    with pytest.raises(OutputBroken, match="manifest"):
        verify_output(output)


def test_missing_workspace_is_refused(output: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give that one with work "):
        verify(output, work=tmp_path / "elsewhere")


def replace_first_shard(output: Path, change: Any) -> None:
    """Replace the first shard by one with other rows, with a matching manifest."""
    shard = output / "data" / "train-00000-of-00002.parquet"
    table = change(pq.read_table(shard))
    shard.unlink()
    pq.write_table(table, shard)
    manifest = json.loads((output / "manifest.json").read_text())
    manifest["shards"][0] |= {
        "sha256": file_sha256(shard),
        "bytes": shard.stat().st_size,
        "rows": table.num_rows,
    }
    (output / "manifest.json").write_text(json.dumps(manifest))


def replace_text(table: pa.Table, row: int, text: str) -> pa.Table:
    texts = table.column("text").to_pylist()
    texts[row] = text
    return table.set_column(
        table.schema.get_field_index("text"), "text", pa.array(texts, pa.large_string())
    )


@pytest.mark.parametrize("form", [str, str.upper, full_width])
def test_planted_value_is_detected_with_a_matching_manifest(output: Path, form: Any) -> None:
    replace_first_shard(
        output, lambda table: replace_text(table, 1, f"{form(BOB)} and nothing else")
    )
    with pytest.raises(LeakFound) as caught:
        verify_output(output)
    assert BOB not in str(caught.value).lower()


def test_removed_kept_original_is_detected(output: Path) -> None:
    replace_first_shard(output, lambda table: replace_text(table, 0, "nothing at all"))
    with pytest.raises(LeakFound, match="2 kept originals are missing or were moved"):
        verify_output(output)


def test_value_in_an_added_column_is_detected(output: Path) -> None:
    replace_first_shard(
        output, lambda table: table.append_column("more", pa.array(["x", f"({PHONE})"]))
    )
    with pytest.raises(LeakFound):
        verify_output(output)


@pytest.mark.parametrize("page", ["README.md", "report.html", "manifest.json"])
def test_value_on_a_page_is_detected(output: Path, page: str) -> None:
    text = (output / page).read_text()
    if page == "manifest.json":
        text = json.dumps({**json.loads(text), "note": BOB})
    else:
        text += f"\n{BOB}\n"
    (output / page).write_text(text)
    with pytest.raises(LeakFound):
        verify_output(output)


def test_removed_rows_are_detected(output: Path) -> None:
    replace_first_shard(output, lambda table: table.slice(0, 1))
    with pytest.raises(OutputBroken):
        # regression: an AssertionError, exit code 1; the manifest matches the shard, the workspace
        # does not
        verify_output(output)


@pytest.mark.parametrize("page", ["README.md", "report.html"])
def test_missing_page_is_detected(output: Path, page: str) -> None:
    (output / page).unlink()
    with pytest.raises(OutputBroken):  # regression: a bare FileNotFoundError, exit code 1
        verify_output(output)


# ---- independence ----


def list_imports() -> Iterator[str]:
    for path in Path(inspect.getfile(verify_task)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_verify_is_independent_of_what_it_checks() -> None:
    packages = (
        "sanitize.finders",
        "sanitize.droppers",
        "sanitize.editors",
        "sanitize.stages",
        "sanitize.core.part_protocols",
    )
    imports = [*list_imports()]
    assert "sanitize.verification.value_matches.find_value_matches" in imports
    assert not [name for name in imports if name.startswith((*packages, "importlib"))]


@pytest.mark.parametrize("plan", ["redact", "surrogates", "rmft", "pseudonymize", "mask_words"])
def test_what_takes_the_place_of_an_encoded_value(tmp_path: Path, plan: str) -> None:
    encoded = base64.b64encode(BOB.encode()).decode()
    assert encoded.endswith("=")
    pl.DataFrame({"text": [f"Write to {BOB}", f"id={encoded} end"]}).write_parquet(
        tmp_path / "in.parquet"
    )
    run_with_settings(
        tmp_path / "in.parquet", tmp_path / "out", plan, settings=Settings(seed=1, workers=1)
    )
    plain, swept = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"]
    replacement = {"pseudonymize": plain.removeprefix("Write to "), "mask_words": "X"}.get(
        plan, "[EMAIL_ADDRESS]"
    )
    assert swept == f"id={replacement}{encoded[len(encoded.rstrip('=')) :]} end"
