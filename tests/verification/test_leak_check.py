"""The leak check: every planted leak is found and nothing else; what can be swept is swept; what cannot is never published."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.text_cells import LeafPath
from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.finders.patterns import Detections, PatternFinder
from sanitize.kinds.kind import ASCII_WORD_CHARS, all_kinds
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting import report_data
from sanitize.stages import rewriting
from sanitize.storage import table_schemas
from sanitize.storage.corpus import DocumentFile, Documents, cell_leaves
from sanitize.storage.files import file_sha256
from sanitize.text import literal_search
from sanitize.text.literal_search import LiteralMatcher, LiteralMatches
from sanitize.verification.leak_check import VerifyTask, find_forbidden_values, verify, verify_task

BOB, LEE, PHONE, CARD, IP = "bob.lee@example.com", "lee@example.com", "212-555-0123", "4111 1111 1111 1111", "192.0.2.7"
KINDS = list(all_kinds())
Value = tuple[str, str]
Edit = tuple[int, int, int, int, str]  # doc_no, cell, start, stop (bytes of the input), replacement


# ---- the matcher: a slow reference ----


def lower(form: str) -> bytes:
    return form.encode().lower()


def bounded(text: bytes, start: int, stop: int, kind: str) -> bool:
    """The boundary rule of a kind; it applies to an edge that is a letter, digit or underscore."""
    rule = all_kinds()[kind]
    if start > 0 and text[start] in ASCII_WORD_CHARS and text[start - 1] in rule.not_preceded_by:
        return False
    return not (stop < len(text) and text[stop - 1] in ASCII_WORD_CHARS and text[stop] in rule.not_followed_by)


def slow(text: bytes, forms: Sequence[tuple[bytes, str]]) -> set[tuple[int, int, bytes]]:
    low = text.lower()
    found = set()
    for form, kind in forms:
        at = low.find(form)
        while at >= 0:
            if bounded(low, at, at + len(form), kind):
                found.add((at, at + len(form), form))
            at = low.find(form, at + 1)
    return found


def compatible(letter: str) -> str:
    return unicodedata.normalize("NFKC", letter).casefold()


def slow_compatible(text: str, forms: Sequence[tuple[bytes, str]]) -> set[tuple[int, int, bytes]]:
    """As `slow` in the text's compatibility form; a match is widened to whole characters."""
    raw, form = [0], [0]
    for letter in text:
        raw.append(raw[-1] + len(letter.encode()))
        form.append(form[-1] + len(compatible(letter).encode()))
    found = set()
    for start, stop, which in slow("".join(map(compatible, text)).encode(), forms):
        first = max(place for place, at in enumerate(form) if at <= start)
        last = min(place for place, at in enumerate(form) if at >= stop)
        found.add((raw[first], raw[last], which))
    return found


def flagged(values: Sequence[Value]) -> tuple[LiteralMatcher, list[tuple[bytes, str]]]:
    """The values as `LiteralMatcher.write` would write them, and as the reference expects them: one kind per form."""
    forms: dict[bytes, str] = {}
    for kind, value in values:
        forms.setdefault(lower(value), kind)
        if not value.isascii():
            forms.setdefault("".join(map(compatible, value)).encode(), kind)
    listed = sorted(forms.items())
    column = pa.array([form.decode() for form, _ in listed], pa.large_string())
    numbers = np.array([KINDS.index(kind) for _, kind in listed], np.int32)
    return LiteralMatcher(column, numbers, np.arange(len(listed))), listed


def spans(found: LiteralMatches, text_no: int, forms: Sequence[tuple[bytes, str]]) -> set[tuple[int, int, bytes]]:
    mine = np.flatnonzero(found.text_no == text_no)
    assert len({(found.start[row], found.end[row], found.term[row]) for row in mine}) == len(mine)
    return {(int(found.start[row]), int(found.end[row]), forms[found.term[row]][0]) for row in mine}


LETTERS = "ab12.@-_ B"
ODD = "\u00e9\u00c9\u2126\u212a\uff11\uff22\uff20\uff0e\u00a0\ufb01\u00bd\u6f22\u017f\U0001f600\n"
WORDS = [
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
WORDS += ["abcdefgh-abcdxfgh-abcdefgh", "aaaaaaaa", "aaaaaaaaaaaaaaaaa", "@example.com", "x@y.example.org", PHONE, "fi@k.example"]
text = st.lists(st.sampled_from([*LETTERS, *ODD, *WORDS]), max_size=14).map("".join)
value = st.tuples(
    st.sampled_from(KINDS),
    st.one_of(st.sampled_from(WORDS), st.text("ab12.@-", min_size=1, max_size=20), st.text("ab.@\u00e9\u6f22", min_size=1, max_size=12)),
)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(text, min_size=1, max_size=5), values=st.lists(value, min_size=1, max_size=10))
def test_finds_what_a_slow_look_finds(texts: list[str], values: list[Value]) -> None:
    known, forms = flagged(values)
    found = known.find(pa.array(texts, pa.large_string()))
    for number, one in enumerate(texts):
        assert spans(found, number, forms) == slow(one.encode(), forms)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(text, min_size=1, max_size=5), values=st.lists(value, min_size=1, max_size=6))
def test_finds_what_a_slow_look_finds_in_compatible_forms(texts: list[str], values: list[Value]) -> None:
    known, forms = flagged(values)
    column = pa.array(texts, pa.large_string())
    exact, more = known.find(column), known.find_nfkc(column)
    for number, one in enumerate(texts):
        expected = slow(one.encode(), forms) | slow_compatible(one, forms)
        assert spans(exact, number, forms) | spans(more, number, forms) == expected


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 3), texts=st.lists(text, min_size=4, max_size=6), values=st.lists(value, min_size=1, max_size=6))
def test_a_slice_of_a_column_is_looked_at_as_itself(cut: int, texts: list[str], values: list[Value]) -> None:
    known, forms = flagged(values)
    sliced = pa.array(texts, pa.large_string()).slice(cut)
    for number, one in enumerate(texts[cut:]):
        assert spans(known.find(sliced), number, forms) == slow(one.encode(), forms)


def test_nothing_flagged_and_nothing_to_look_at() -> None:
    known, _ = flagged([("EMAIL_ADDRESS", BOB)])
    for texts in ([], [""], ["", ""], [BOB[:-1]]):
        assert not len(known.find(pa.array(texts, pa.large_string())).term)
        assert not len(known.find_nfkc(pa.array(texts, pa.large_string())).term)
    nothing = LiteralMatcher(pa.array([], pa.large_string()), np.empty(0, np.int32), np.empty(0, np.int64))
    assert not len(nothing.find(pa.array([BOB], pa.large_string())).term)
    assert not len(nothing.find_nfkc(pa.array([BOB + "\uff11"], pa.large_string())).term)


def test_many_values_that_share_head_and_tail() -> None:
    values = [("EMAIL_ADDRESS", f"longhead{number:05d}@mail.example.com") for number in range(0, 20_000, 2)]
    known, forms = flagged(values)
    texts = [f"<longhead{number:05d}@mail.example.com>" for number in range(1_000)]
    found = known.find(pa.array(texts, pa.large_string()))
    assert found.text_no.tolist() == list(range(0, 1_000, 2))
    assert [forms[form][0].decode() for form in found.term] == [texts[number][1:-1] for number in range(0, 1_000, 2)]


# ---- one shard, made by hand ----


def vault(path: Path, values: Sequence[Value]) -> Path:
    columns = [
        pa.array(range(1, len(values) + 1), pa.int64()),
        pa.array([kind for kind, _ in values]).dictionary_encode(),
        pa.array([one for _, one in values], pa.large_string()),
        pa.nulls(len(values), pa.large_string()),
    ]
    pq.write_table(
        pa.table(
            [column.cast(field.type) for column, field in zip(columns, table_schemas.VALUE_SPELLINGS.schema, strict=True)],
            schema=table_schemas.VALUE_SPELLINGS.schema,
        ),
        path,
    )
    return path


def spliced(source: str, edits: Sequence[Edit]) -> str:
    raw, out, at = source.encode(), b"", 0
    for _, _, start, stop, replacement in sorted(edits, key=lambda edit: edit[2]):
        out += raw[at:start] + replacement.encode()
        at = stop
    return (out + raw[at:]).decode()


class Hand:
    """A hand-written shard from documents, edits, and the spans of kept originals (in output bytes)."""

    def __init__(
        self,
        folder: Path,
        documents: pa.Table,
        values: Sequence[Value],
        *,
        edits: Sequence[Edit] = (),
        kept: Sequence[tuple[int, int, int, int]] = (),
        no_cells: Sequence[str] = (),
        left: Sequence[tuple[int, int, int, int, str]] = (),
        opaque: Sequence[str] = (),
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
            at = documents.schema.get_field_index(name)
            if at >= 0 and pa.types.is_large_string(documents.schema.field(at).type):
                texts = [
                    spliced(one, [edit for edit in edits if edit[:2] == (number, cell)]) if one is not None else None
                    for number, one in enumerate(documents.column(at).to_pylist())
                ]
                shard = shard.set_column(at, name, pa.array(texts, pa.large_string()))
        pq.write_table(shard, folder / "shard.parquet")
        pq.write_table(pa.table({"doc_no": pa.array(range(documents.num_rows), pa.int64())}), folder / "rows.parquet")
        arrays = list(zip(*sorted(edits), strict=True)) if edits else [[] for _ in range(5)]
        names = ["doc_no", "cell", "start_byte", "end_byte", "replacement"]
        types = [table_schemas.EDITS.schema.field(name).type for name in names]
        pq.write_table(pa.table([pa.array(list(a), t) for a, t in zip(arrays, types, strict=True)], names), folder / "edits.parquet")
        columns = list(zip(*((*one, 1) for one in kept), strict=True)) if kept else [[] for _ in range(5)]
        pq.write_table(
            pa.table(
                [pa.array(list(a), f.type) for a, f in zip(columns, rewriting.KEPT_SCHEMA, strict=True)], schema=rewriting.KEPT_SCHEMA
            ),
            folder / "kept.parquet",
        )
        names = ["doc_no", "cell", "start_byte", "end_byte", "kind"]
        columns = list(zip(*left, strict=True)) if left else [[] for _ in names]
        types = [pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.string()]
        found = pa.table([pa.array(list(a), t) for a, t in zip(columns, types, strict=True)], names)
        pq.write_table(found.set_column(4, "kind", found.column("kind").dictionary_encode()), folder / "occurrences.parquet")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(literal_search, "TERMS_PER_RANGE", 1)  # two ranges, and so two parts, where there are two values
            self.values = LiteralMatcher.write([vault(folder / "values.parquet", values)], KINDS, folder / "flagged.parquet")
        self.task = VerifyTask(
            shard_no=0,
            first_doc_no=0,
            end_doc_no=documents.num_rows,
            shard_path=folder / "shard.parquet",
            forbidden_values=folder / "flagged.parquet",
            kept_originals=folder / "kept.parquet",
            edits=folder / "edits.parquet",
            occurrences=folder / "occurrences.parquet",
            atomic_kinds=tuple(opaque),
            row_doc_nos=folder / "rows.parquet",
            documents=self.documents,
            leaves=tuple(cell_leaves(documents.schema, main, frozenset(no_cells))),
            sweep_path=folder / "sweep.parquet",
        )

    def look(self) -> dict[str, Any]:
        """The result of the check; asserts that it is the same with search terms that are split and shared by all workers."""
        found = verify_task(self.task)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(literal_search, "MAX_UNSHARED_TERMS", 0)
            shared = literal_search.prepare_terms(self.task.forbidden_values, self.folder / "sought", memory_bytes=1)
        aside = dataclasses.replace(self.task, forbidden_values=shared, sweep_path=self.folder / "sweep-shared.parquet")
        again = verify_task(aside)
        assert {**again, "leaks": sorted(again["leaks"])} == {**found, "leaks": sorted(found["leaks"])}
        assert pq.read_table(aside.sweep_path).equals(pq.read_table(self.task.sweep_path))
        return found

    def swept(self) -> list[tuple[int, int, str, str]]:
        """The rows of the sweep: doc_no, cell, kind, and the input's text by code points; asserts that the byte span agrees."""
        texts = self.documents_text()
        found = []
        for row in pq.read_table(self.task.sweep_path).to_pylist():
            one = texts[row["doc_no"], row["cell"]]
            assert one.encode()[row["start_byte"] : row["end_byte"]].decode() == one[row["start"] : row["end"]]
            assert row["finder"] == "sweep"
            found.append((row["doc_no"], row["cell"], row["kind"], one[row["start"] : row["end"]]))
        return found

    def documents_text(self) -> dict[tuple[int, int], str]:
        rows = pq.read_table(self.folder / "documents.parquet").to_pylist()
        found = {}
        for number, row in enumerate(rows):
            cells = [row["text"]]
            for name, one in row.items():
                if name == "messages":
                    cells += [message["content"] for message in one or ()]
                elif name != "text":
                    cells.append(one)
            found.update({(number, cell): one for cell, one in enumerate(cells) if one is not None})
        return found


def table(*texts: str | None, **more: Any) -> pa.Table:
    return pa.table({"text": pa.array(texts, pa.large_string()), **more})


def full_width(word: str) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in word)


MAIL, TEL = "EMAIL_ADDRESS", "PHONE_NUMBER"
SEEN = {
    "exact": ([(MAIL, BOB)], "mail bob.lee@example.com now", [BOB]),
    "upper": ([(MAIL, BOB)], "mail BOB.LEE@EXAMPLE.COM now", [BOB.upper()]),
    "mixed": ([(MAIL, BOB)], "mail Bob.Lee@Example.Com now", ["Bob.Lee@Example.Com"]),
    "flagged in upper": ([(MAIL, BOB.upper())], "mail bob.lee@example.com now", [BOB]),
    "full width": ([(MAIL, BOB)], f"mail {full_width(BOB)} now", [full_width(BOB)]),
    "full width digits": ([(TEL, PHONE)], "call \uff12\uff11\uff12-555-0123.", ["\uff12\uff11\uff12-555-0123"]),
    "one wide letter in the middle": ([(MAIL, BOB)], "mail bob.lee@exampl\uff25.com now", ["bob.lee@exampl\uff25.com"]),
    "a no-break space in a phone": ([(TEL, "212 555 0123")], "call 212\u00a0555\u00a00123 now", ["212\u00a0555\u00a00123"]),
    "the whole text": ([(MAIL, BOB)], BOB, [BOB]),
    "at the start": ([(MAIL, BOB)], f"{BOB} wrote", [BOB]),
    "at the end": ([(MAIL, BOB)], f"write to {BOB}", [BOB]),
    "in punctuation": ([(MAIL, BOB)], f"(<{BOB}>, '{BOB}';{BOB})", [BOB, BOB, BOB]),
    "beside letters beyond ASCII": ([(MAIL, BOB), (TEL, PHONE)], f"\u6f22{BOB}\u5b57 \u00e9{PHONE}\u00fc", [BOB, PHONE]),
    "before an accent of its own": ([(MAIL, BOB), (TEL, PHONE)], f"{BOB}\u0301 e\u0301{PHONE}\u0308", [BOB, PHONE]),
    "a name whose letters have accents behind them": ([("PERSON", "Rene\u0301")], "dear Rene\u0301!", ["Rene\u0301"]),
    "beside an emoji": ([(TEL, PHONE)], f"\U0001f4de{PHONE}\U0001f600", [PHONE]),
    "shorter than eight bytes": (
        [("IP_ADDRESS", "1.2.3.4"), ("IP_ADDRESS", "::1"), (MAIL, "a@b")],
        "at ::1, 1.2.3.4 <a@b>",
        ["::1", "1.2.3.4", "a@b"],
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
    "with a letter beyond ASCII": ([(MAIL, "j\u00f6rg@example.com")], "J\u00d6RG@EXAMPLE.COM", ["J\u00d6RG@EXAMPLE.COM"]),
    "a mail before digits": ([(MAIL, BOB)], f"{BOB}2nd", [BOB]),
    "in a control character": ([(TEL, PHONE)], f"\x01{PHONE}\x02", [PHONE]),
}
NOT_SEEN = {
    "in a longer number": ([(TEL, PHONE)], f"9{PHONE} {PHONE}4 x{PHONE}"),
    "a name in one with an accent behind it": ([("PERSON", "Rene")], "dear Rene\u0301!"),
    "in a longer word": ([(MAIL, BOB)], f"x{BOB} {BOB}x _{BOB}"),
    "in a longer IP": ([("IP_ADDRESS", IP)], f"1.{IP} {IP}1 {IP}-1 -{IP}"),
    "another middle": ([(MAIL, "abcdefgh.one.xyz@example.com")], "abcdefgh.two.xyz@example.com"),
    "a beginning": ([(MAIL, BOB)], BOB[:-1]),
    "across two texts": ([(MAIL, BOB)], None),
    "wide letters on both sides": ([(TEL, PHONE)], f"\uff11{PHONE.replace('5', chr(0xFF15))}\uff11"),
}


@pytest.mark.parametrize("case", SEEN)
def test_a_planted_value_is_seen(tmp_path: Path, case: str) -> None:
    values, one, expected = SEEN[case]
    hand = Hand(tmp_path, table("nothing here", one), values)
    result = hand.look()
    assert result["leaks"] == [] and result["swept"] == len(expected)
    assert [(doc_no, cell, found) for doc_no, cell, _, found in hand.swept()] == [(1, 0, found) for found in expected]
    assert {kind for _, _, kind, _ in hand.swept()} <= {kind for kind, _ in values}


@pytest.mark.parametrize("case", NOT_SEEN)
def test_what_the_boundary_rule_excludes_is_no_leak(tmp_path: Path, case: str) -> None:
    values, one = NOT_SEEN[case]
    texts = [one] if one is not None else [BOB[:9], BOB[9:], "", BOB[:4], None, BOB[4:]]
    hand = Hand(tmp_path, table(*texts), values)
    result = hand.look()
    assert (result["leaks"], result["swept"], hand.swept()) == ([], 0, [])


def test_rows_and_bytes_are_counted(tmp_path: Path) -> None:
    result = Hand(tmp_path, table("abc", None, "\u00e9"), [(MAIL, BOB)]).look()
    assert (result["rows"], result["text_bytes"], result["kept_found"], result["kept_expected"]) == (3, 5, 0, 0)


@pytest.mark.parametrize("order", [["EMAIL_ADDRESS", "MESSAGE_ID"], ["MESSAGE_ID", "EMAIL_ADDRESS"]])
def test_one_spelling_of_two_kinds_is_held_to_either_rule(tmp_path: Path, order: list[str]) -> None:
    """An EMAIL_ADDRESS may be followed by a digit or an underscore, a MESSAGE_ID may not; a match as either kind is a leak."""
    hand = Hand(tmp_path, table("see x1@example.com_b"), [(kind, "x1@example.com") for kind in order])
    assert hand.look()["swept"] == 1  # bug: of one form only the first kind is kept


def test_values_are_counted_once_however_they_are_spelled(tmp_path: Path) -> None:
    path = vault(tmp_path / "values.parquet", [(MAIL, BOB), (MAIL, BOB.upper()), (TEL, PHONE), ("URL", "http://example.com")])
    both = pa.concat_tables([pq.read_table(path)] * 2)
    pq.write_table(both, path)
    assert LiteralMatcher.write([path], [MAIL, TEL], tmp_path / "flagged.parquet") == 3  # value_id tells them apart
    assert pq.read_table(tmp_path / "flagged.parquet").column("form").to_pylist() == [PHONE, BOB]
    assert LiteralMatcher.write([], [MAIL], tmp_path / "none.parquet") == 0
    assert not len(LiteralMatcher.read(tmp_path / "none.parquet"))


def test_forms_that_are_shared_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many forms of every length and kind, split into parts of a few hundred: every match is found once."""
    values = [(MAIL, f"{'abcxyz'[no % 6]}{no * 37 % 1009}.lee@{'m' * (no % 9)}host{no % 5}.example.com") for no in range(1_500)]
    values += [(TEL, f"212-555-{no:04d}") for no in range(300)] + [("IP_ADDRESS", f"192.0.2.{no}") for no in range(200)]
    values += [("IP_ADDRESS", f"::{no:x}") for no in range(30)] + [(MAIL, f"{letter}@b") for letter in "abcd"]
    values += [("PERSON", "Rose Will"), ("PERSON", "Will")]
    monkeypatch.setattr(literal_search, "TERMS_PER_RANGE", 200)
    LiteralMatcher.write([vault(tmp_path / "values.parquet", values)], KINDS, tmp_path / "flagged.parquet")
    monkeypatch.setattr(literal_search, "MAX_UNSHARED_TERMS", 0)
    whole = LiteralMatcher.read(tmp_path / "flagged.parquet")
    words = [value for _, value in values]
    lines = [" ".join(words[no::97]) for no in range(97)] + [full_width(word) for word in words[::50]] + ["x" + words[0], ""]
    texts = pa.array(lines, pa.large_string())

    def rows(one: LiteralMatcher, found: LiteralMatches) -> list[tuple[int, ...]]:
        columns = (found.text_no, found.start, found.end, one.kind[found.term], one.value_id[found.term])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    for memory, least in ((1 << 30, 1), (200_000, 3), (1, 8)):
        shared = literal_search.prepare_terms(tmp_path / "flagged.parquet", tmp_path / f"sought-{memory}", memory)
        parts = LiteralMatcher.open_partitions(shared)
        assert (len(parts) == 1) if least == 1 else len(parts) >= least
        assert sum(map(len, parts)) == len(whole) and parts[0].unsearched_ids.tolist() == whole.unsearched_ids.tolist()
        for find in (LiteralMatcher.find, LiteralMatcher.find_nfkc):
            found = [row for one in parts for row in rows(one, find(one, texts))]
            assert len(found) > 30 and sorted(found) == sorted(rows(whole, find(whole, texts)))
    monkeypatch.setattr(literal_search, "MAX_UNSHARED_TERMS", 1 << 20)
    assert literal_search.prepare_terms(tmp_path / "flagged.parquet", tmp_path / "few") == tmp_path / "flagged.parquet"


def test_a_run_is_the_same_where_forms_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"mail {full_width(BOB) if no == 3 else BOB}, a{no}@example.com or 212-555-01{no:02d}; {LEE}" for no in range(12)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    monkeypatch.setattr(literal_search, "TERMS_PER_RANGE", 3)
    monkeypatch.setattr(literal_search, "BYTES_PER_TERM", 1 << 30)  # so that each range is a part
    made, real = [], literal_search.prepare_terms
    for few in (literal_search.MAX_UNSHARED_TERMS, 0):
        monkeypatch.setattr(literal_search, "MAX_UNSHARED_TERMS", few)
        out = tmp_path / f"out{few}"
        summary = run([tmp_path / "in.parquet"], out, load_plan("erase"), settings=Settings(seed=1, workers=1))
        assert summary["verify"]["swept"] == 1 and summary["leaks"] == 0
        assert verify(out, mode="fast", workers=1)["values_checked"] == summary["verify"]["values_checked"]
        assert not (tmp_path / f"out{few}.private" / "spill").exists()
        made.append([path.read_bytes() for path in sorted((out / "data").iterdir())])
    assert made[0] == made[1]
    shared = real(next(tmp_path.glob("out0.private/runs/*/counts/forbidden_values.parquet")), tmp_path / "sought", 1)
    assert len(LiteralMatcher.open_partitions(shared)) >= 2


COLUMNS = {
    "a further string": (pa.array(["ok", BOB], pa.large_string()), "note", (1, 1, MAIL, BOB)),
    "nested": (
        pa.array(
            [[{"content": "hi"}], [{"content": "x"}, {"content": f"<{BOB}>"}]], pa.large_list(pa.struct([("content", pa.large_string())]))
        ),
        "messages",
        (1, 2, MAIL, BOB),
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_value_in_a_further_cell_is_swept(tmp_path: Path, case: str) -> None:
    column, name, expected = COLUMNS[case]
    hand = Hand(tmp_path, table("one", "two", **{name: column}), [(MAIL, BOB)])
    assert hand.look()["leaks"] == []
    assert hand.swept() == [expected]


@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("form", [str, str.upper, full_width])
def test_a_value_in_a_kept_column_is_a_leak(tmp_path: Path, case: str, form: Any) -> None:
    column, name, _ = COLUMNS[case]
    said = json.loads(json.dumps(column.to_pylist()).replace(BOB, form(BOB)))
    hand = Hand(tmp_path, table("one", "two", **{name: pa.array(said, column.type)}), [(MAIL, BOB)], no_cells=[name])
    result = hand.look()
    assert result["swept"] == 0
    assert [(where.split("[")[0], kind) for where, kind, _ in result["leaks"]] == [(name, MAIL)]
    assert BOB not in repr(result).lower()


def edit(source: str, word: str, replacement: str, doc_no: int = 0) -> Edit:
    start = source.encode().index(word.encode())
    return doc_no, 0, start, start + len(word.encode()), replacement


def test_a_replacement_that_is_a_value_is_a_leak(tmp_path: Path) -> None:
    one = f"to {PHONE} and"
    hand = Hand(tmp_path, table(one), [(MAIL, BOB)], edits=[edit(one, PHONE, BOB.upper())])
    result = hand.look()
    assert result["leaks"] == [("text", MAIL, 0)] and result["swept"] == 0


@pytest.mark.parametrize("replacement", [f"ann.{LEE}", f"http://example.com/?m={LEE}", f"<{LEE}>", full_width(f"x.{LEE}")])
def test_a_value_strictly_inside_a_replacement_belongs_to_it(tmp_path: Path, replacement: str) -> None:
    one = f"to {PHONE} and {LEE}\u00e9 \uff11"
    hand = Hand(tmp_path, table(one), [(MAIL, LEE), (TEL, PHONE)], edits=[edit(one, PHONE, replacement)])
    result = hand.look()
    assert result["leaks"] == [] and hand.swept() == [(0, 0, MAIL, LEE)]  # the other one, mapped back across the edit


STRADDLE = {
    # text, edits (word -> replacement), value that comes about, the input's span that goes
    "begins before": ("call 212-KEY9 now", {"KEY9": "555-0123"}, (TEL, PHONE), "212-KEY9"),
    "ends behind": ("call KEY9-0123 now", {"KEY9": "212-555"}, (TEL, PHONE), "KEY9-0123"),
    "around": ("call 212-KEY9-0123 now", {"KEY9": "555"}, (TEL, PHONE), "212-KEY9-0123"),
    "two edits": ("call KEY9-KEY8 now", {"KEY9": "x 212", "KEY8": "555-0123 x"}, (TEL, PHONE), "KEY9-KEY8"),
    "two edits that touch": ("call KEY9KEY8 now", {"KEY9": "212-5", "KEY8": "55-0123"}, (TEL, PHONE), "KEY9KEY8"),
    "an edit that vanishes": ("call 212-5KEY955-0123 now", {"KEY9": ""}, (TEL, PHONE), "212-5KEY955-0123"),
    "after a longer edit": ("\u00e9 KEY9 then 212-KEY8", {"KEY9": "a much longer one", "KEY8": "555-0123"}, (TEL, PHONE), "212-KEY8"),
    "before another edit": ("212-KEY8 \u00e9 KEY9", {"KEY8": "555-0123", "KEY9": "longer than before"}, (TEL, PHONE), "212-KEY8"),
    "behind edits": ("KEY8 KEY9 212-555-0123", {"KEY8": "a", "KEY9": "longer than it was"}, (TEL, PHONE), PHONE),
    "right behind an edit": ("KEY8 KEY9<212-555-0123>", {"KEY8": "a", "KEY9": ""}, (TEL, PHONE), PHONE),
    "right before an edit": ("KEY8 (212-555-0123)KEY9", {"KEY8": "a", "KEY9": "longer"}, (TEL, PHONE), PHONE),
    "wide letters across": ("call 212\uff0dKEY9 now", {"KEY9": "555-0123"}, (TEL, PHONE), "212\uff0dKEY9"),
}


@pytest.mark.parametrize("case", STRADDLE)
def test_a_value_across_an_edit_takes_the_whole_edit_with_it(tmp_path: Path, case: str) -> None:
    one, replaced, flag, expected = STRADDLE[case]
    hand = Hand(tmp_path, table("x", one), [flag], edits=[edit(one, word, now, 1) for word, now in replaced.items()])
    result = hand.look()
    assert result["leaks"] == [] and hand.swept() == [(1, 0, TEL, expected)]


def test_a_value_inside_an_opaque_one_that_is_left_belongs_to_it(tmp_path: Path) -> None:
    """Matches inside a MESSAGE_ID that the plan leaves are no leaks; a match that is all of one is swept."""
    one = f"KEY9 id=<x.{LEE}> {LEE}"
    values = [(MAIL, LEE), (TEL, PHONE)]
    edits = [edit(one, "KEY9", "something longer")]
    at = one.index("x.")
    message = (0, 0, at, at + len(LEE) + 2, "MESSAGE_ID")
    whole = (0, 0, len(one) - len(LEE), len(one), "MESSAGE_ID")
    for number, (left, opaque, expected) in enumerate(
        [((message,), ("MESSAGE_ID",), 1), ((message,), (), 2), ((message, whole), ("MESSAGE_ID",), 1), ((), ("MESSAGE_ID",), 2)]
    ):
        (tmp_path / str(number)).mkdir()
        hand = Hand(tmp_path / str(number), table(one), values, edits=edits, left=left, opaque=opaque)
        assert (hand.look()["swept"], hand.swept()) == (expected, [(0, 0, MAIL, LEE)] * expected)


Piece = tuple[str, str | None]  # what stood there, and what replaced it


def mapped(pieces: Sequence[Piece], start: int, stop: int) -> tuple[int, int] | str:
    """Reference: the input span of an output span, or that it is all or a part of one replacement."""
    source = out = 0
    first = last = None
    for before, now in pieces:
        size, made = len(before.encode()), len((before if now is None else now).encode())
        low, high = out, out + made
        if now is not None and (low, high) == (start, stop):
            return "leak"
        if now is not None and low <= start and stop <= high:
            return "inside"
        if low <= start < high:
            first = source if now is not None else source + start - low
        if low < stop <= high:
            last = source + size if now is not None else source + stop - low
        source, out = source + size, out + made
    assert first is not None and last is not None
    return first, last


pieces = st.lists(
    st.tuples(
        st.sampled_from(["", "1", "1.2", ".", "3.4", " ", "\u00e9", "1.2.3.4", "ab"]),
        st.sampled_from([None, None, "", "1.2", ".3.4", "1.2.3.4", "\u6f22", "long 1.2"]),
    ).filter(lambda piece: piece[0] != "" or piece[1] is None),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(documents=st.lists(st.tuples(pieces, pieces), min_size=1, max_size=4))
def test_what_is_swept_is_where_a_slow_look_says(
    tmp_path_factory: pytest.TempPathFactory, documents: list[tuple[list[Piece], list[Piece]]]
) -> None:
    values = [("PHONE_NUMBER", "1.2.3.4"), ("PHONE_NUMBER", "1.2")]
    edits: list[Edit] = []
    expected: set[tuple[int, int, int, int]] = set()
    leaks = 0
    for doc_no, cells in enumerate(documents):
        for cell, parts in enumerate(cells):
            at = 0
            for before, now in parts:
                if now is not None:
                    edits.append((doc_no, cell, at, at + len(before.encode()), now))
                at += len(before.encode())
            out = "".join(before if now is None else now for before, now in parts).encode()
            found = {mapped(parts, start, stop) for start, stop, _ in slow(out, [(value.encode(), kind) for kind, value in values])}
            leaks += sum(mapped(parts, start, stop) == "leak" for start, stop, _ in slow(out, [(v.encode(), k) for k, v in values]))
            places = [place for place in found if not isinstance(place, str)]
            # of those that begin together or lie inside one that began before, the longest stays
            done = -1
            for first, last in sorted(places, key=lambda place: (place[0], -place[1])):
                if last > done:
                    expected.add((doc_no, cell, first, last))
                    done = last
    texts, notes = (["".join(before for before, _ in cells[at]) for cells in documents] for at in (0, 1))
    hand = Hand(tmp_path_factory.mktemp("hand"), table(*texts, note=pa.array(notes, pa.large_string())), values, edits=edits)
    result = hand.look()
    assert len(result["leaks"]) == leaks
    hand.swept()
    rows = pq.read_table(hand.task.sweep_path, columns=["doc_no", "cell", "start_byte", "end_byte"]).to_pylist()
    assert {tuple(row.values()) for row in rows} == expected and len(rows) == len(expected)


def test_the_longest_of_nested_values_is_swept(tmp_path: Path) -> None:
    values = [("URL", f"http://example.com/{BOB}"), (MAIL, BOB), (MAIL, LEE), ("URL", "http://example.com")]
    hand = Hand(tmp_path, table(f"see http://example.com/{BOB} now"), values)
    assert hand.look()["swept"] == 1
    assert hand.swept() == [(0, 0, "URL", f"http://example.com/{BOB}")]


def kept_at(one: str, word: str, doc_no: int = 0) -> tuple[int, int, int, int]:
    start = one.encode().index(word.encode())
    return doc_no, 0, start, start + len(word.encode())


def test_a_kept_original_is_seen_and_what_stands_inside_it_belongs_to_it(tmp_path: Path) -> None:
    one = f"\u00e9 {BOB}, {PHONE}"
    hand = Hand(tmp_path, table(one, BOB), [(MAIL, BOB), (MAIL, LEE), (TEL, PHONE)], kept=[kept_at(one, BOB), kept_at(one, PHONE)])
    result = hand.look()
    assert (result["kept_found"], result["kept_expected"], result["leaks"]) == (2, 2, [])
    assert hand.swept() == [(1, 0, MAIL, BOB)]


def test_a_kept_original_beside_a_wide_letter_counts_once(tmp_path: Path) -> None:
    """Both searches find it, the exact one and the one in compatibility form."""
    one = f"\uff08{BOB}\uff09 \uff1a{PHONE}\uff01"
    hand = Hand(tmp_path, table(one), [(MAIL, BOB), (TEL, PHONE)], kept=[kept_at(one, BOB)])
    result = hand.look()
    assert (result["kept_found"], result["kept_expected"]) == (1, 1)
    assert hand.swept() == [(0, 0, TEL, PHONE)]


def test_a_kept_original_that_is_gone_is_missed(tmp_path: Path) -> None:
    hand = Hand(tmp_path, table(f"{BOB} and more"), [(MAIL, BOB)], kept=[(0, 0, 0, 18), (0, 0, 20, 23)])
    result = hand.look()
    assert (result["kept_found"], result["kept_expected"]) == (0, 2)


def test_a_value_reaching_out_of_a_kept_original_is_no_part_of_it(tmp_path: Path) -> None:
    one = f"x {BOB} x"
    for kept in (kept_at(one, BOB[4:]), kept_at(one, BOB[:-4])):
        hand = Hand(tmp_path, table(one), [(MAIL, BOB)], kept=[kept])
        hand.look()
        assert hand.swept() == [(0, 0, MAIL, BOB)]


def test_what_stands_in_a_kept_original_behind_another_one_belongs_to_it(tmp_path: Path) -> None:
    outer, inner = f"http://example.com/?m=ann@example.com&c={PHONE}", "ann@example.com"
    one = f"see {outer} there"
    values = [("URL", outer), (MAIL, inner), (TEL, PHONE)]
    hand = Hand(tmp_path, table(one), values, kept=[kept_at(one, outer), kept_at(one, inner)])
    result = hand.look()
    # bug: only the kept original that begins last before a match is asked, and that is the inner one
    assert (result["kept_found"], result["swept"], result["leaks"]) == (2, 0, [])


def test_many_documents_at_high_numbers_keep_their_own(tmp_path: Path) -> None:
    """Kept originals are looked up by (document, cell, byte); one of another document does not count."""
    texts = [f"{BOB} {number}" for number in range(300)]
    kept = [(number, 0, 0, len(BOB)) for number in range(0, 300, 3)]
    hand = Hand(tmp_path, table(*texts), [(MAIL, BOB)], kept=kept)
    result = hand.look()
    assert result["kept_found"] == 100
    assert [row[0] for row in hand.swept()] == [number for number in range(300) if number % 3]


def test_scan_looks_at_pages(tmp_path: Path) -> None:
    LiteralMatcher.write([vault(tmp_path / "values.parquet", [(MAIL, BOB), (TEL, PHONE)])], [MAIL], tmp_path / "flagged.parquet")
    pages = {"a": f"x {BOB.upper()} {BOB}", "b": PHONE, "c": full_width(BOB), "d": ""}
    assert find_forbidden_values(tmp_path / "flagged.parquet", pages) == [("a", MAIL), ("c", MAIL)]


# ---- from end to end ----

LINES = [
    f"First {BOB} and {PHONE}.",
    f"Then {BOB}, card {CARD}.",
    f"Again {BOB} or {PHONE}; ann.roe@example.org too.",
    f"Last ann.roe@example.org, {BOB}, {PHONE}, IP {IP}.",
]


def corpus(folder: Path, lines: Sequence[str] = LINES, **more: Sequence[Any]) -> Path:
    path = folder / "in.parquet"
    pq.write_table(pa.table({"text": list(lines), **{name: list(column) for name, column in more.items()}}), path)
    return path


def go(folder: Path, source: Path, plan: str = "rmft", out: str = "out", **more: Any) -> dict[str, Any]:
    options = {"seed": 1, "workers": 1, "rows_per_shard": 2, **more}
    return run([source], folder / out, load_plan(plan), None, Settings(**options))


def published(out: Path) -> list[str]:
    return [one for shard in sorted((out / "data").iterdir()) for one in pq.read_table(shard).column("text").to_pylist()]


def contents(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def overlooked(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The finder misses every n-th occurrence, in the user's documents only: the canary check would stop such a run."""
    whole = PatternFinder.run

    def run_and_forget(self: PatternFinder, texts: Any) -> Detections:
        found = whole(self, texts)
        if any("Reach " in text for text in texts.slice(0, 3).to_pylist()):
            return found
        rows = np.arange(len(found.value_no)) % number != number - 1
        columns = ("text_no", "start_byte", "end_byte", "start", "end", "value_no", "section_no")
        return dataclasses.replace(found, **{name: getattr(found, name)[rows] for name in columns})

    monkeypatch.setattr(PatternFinder, "run", run_and_forget)


@pytest.mark.parametrize("plan", ["rmft", "erase", "redact"])
def test_what_the_finder_overlooked_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    overlooked(monkeypatch, 3)
    summary = go(tmp_path, corpus(tmp_path), plan)
    assert summary["leaks"] == 0 and summary["verify"]["swept"] == 3
    texts = "\n".join(published(tmp_path / "out"))
    assert CARD not in texts
    assert [texts.count(value) for value in (BOB, PHONE, "ann.roe@example.org", IP)] == [int(plan == "rmft")] * 4
    work = tmp_path / "out.private"
    swept = pa.concat_tables([pq.read_table(file) for file in work.glob("runs/*/sweep/0*.parquet")])
    assert swept.num_rows == 3 and set(swept.column("finder").to_pylist()) == {"sweep"}
    assert summary["occurrences"] == 11 == summary["kept_originals"] + summary["replaced"]
    assert verify(tmp_path / "out", work)["leaks"] == 0
    assert go(tmp_path, corpus(tmp_path), plan)["changed"] is False


def test_sweeping_gives_what_finding_would_have_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go(tmp_path, corpus(tmp_path), "redact", "whole")
    overlooked(monkeypatch, 3)
    go(tmp_path, corpus(tmp_path), "redact", "swept")
    assert published(tmp_path / "whole") == published(tmp_path / "swept")


def forgetful(monkeypatch: pytest.MonkeyPatch, editor: type[Any]) -> None:
    """The editor leaves the last occurrence of a batch unchanged, whatever its settings and whichever finder found it."""
    whole = editor.edit_occurrences

    def run_and_forget(self: Any, batch: Any) -> Any:
        rows, texts, labels = whole(self, batch)
        place = batch.occurrences.select("doc_no", "start").rows()
        stays = np.array([place[row] != place[rows[-1]] for row in rows], np.bool_)
        return rows[stays], texts.filter(pa.array(stays)), labels

    monkeypatch.setattr(editor, "edit_occurrences", run_and_forget)


@pytest.mark.parametrize(("plan", "editor"), [("rmft", Rmft), ("redact", Redact), ("erase", Rmft)])
def test_a_leak_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, editor: type[Any]) -> None:
    forgetful(monkeypatch, editor)
    with pytest.raises(LeakFound) as caught:
        go(tmp_path, corpus(tmp_path), plan)
    assert caught.value.exit_code == 4 and "nothing was published" in str(caught.value)
    assert not [value for value in (BOB, PHONE, IP, "ann.roe") if value in str(caught.value)]
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.private"}


def test_a_leak_leaves_the_old_out_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = corpus(tmp_path)
    go(tmp_path, source, "rmft")
    before = contents(tmp_path / "out")
    forgetful(monkeypatch, Redact)
    with pytest.raises(LeakFound):
        go(tmp_path, source, "redact", replace=True)
    assert contents(tmp_path / "out") == before
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out", "out.private"}


def test_after_a_leak_the_same_command_does_the_work_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        forgetful(patch, Redact)
        with pytest.raises(LeakFound):
            go(tmp_path, corpus(tmp_path), "redact")
    assert go(tmp_path, corpus(tmp_path), "redact")["leaks"] == 0
    assert go(tmp_path, corpus(tmp_path), "redact", "other")["leaks"] == 0
    assert published(tmp_path / "out") == published(tmp_path / "other")


def test_after_a_sweep_the_same_command_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overlooked(monkeypatch, 3)
    go(tmp_path, corpus(tmp_path))
    before = contents(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    assert go(tmp_path, corpus(tmp_path))["verify"]["swept"] == 3
    assert {name: raw for name, raw in contents(tmp_path / "out").items() if name.startswith("data/")} == {
        name: raw for name, raw in before.items() if name.startswith("data/")
    }


def test_a_value_in_a_kept_column_is_refused(tmp_path: Path) -> None:
    source = corpus(tmp_path, note=["", "", "", BOB.title()], n=[1, 2, 3, 4])
    with pytest.raises(LeakFound, match=r"column note: 1 EMAIL_ADDRESS"):
        go(tmp_path, source, columns=_kept("note"))
    assert not (tmp_path / "out").exists()
    assert go(tmp_path, source)["leaks"] == 0  # by default every string is sanitized


def test_a_value_as_doc_id_is_refused(tmp_path: Path) -> None:
    source = corpus(tmp_path, doc_id=["a", "b", BOB, "d"])
    with pytest.raises(LeakFound, match=r"column doc_id: 1 EMAIL_ADDRESS"):
        go(tmp_path, source)


def _kept(*names: str) -> Any:
    from sanitize.readers.staging import Columns

    return Columns(policies=dict.fromkeys(names, "keep"))


@pytest.mark.parametrize("page", ["card", "report"])
def test_a_page_with_a_value_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    monkeypatch.setattr(report_data, {"card": "render_card", "report": "render_report"}[page], lambda *_: f"<p>{BOB}</p>")
    with pytest.raises(LeakFound) as caught:
        go(tmp_path, corpus(tmp_path))
    assert BOB not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.private"}


def test_a_column_name_with_a_value_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(LeakFound, match="column names.*Rename the column"):
        go(tmp_path, corpus(tmp_path, **{BOB: ["1", "2", "3", "4"]}))
    assert not (tmp_path / "out").exists()


def test_one_spelling_under_two_kinds_is_held_to_both_rules(tmp_path: Path) -> None:
    """`x1@example.com` as MESSAGE_ID and as EMAIL_ADDRESS: the kinds differ in which characters may follow."""
    (tmp_path / "mails").mkdir()
    for number, (head, body) in enumerate([("Message-ID: <x1@example.com>", "Hi."), ("Subject: hello", "See x1@example.com_b.")]):
        (tmp_path / "mails" / f"{number}.eml").write_text(f"From: Ann <ann@example.com>\n{head}\n\n{body}\n")
    plan = tmp_path / "both.toml"
    decided = 'kinds = ["EMAIL_ADDRESS", "MESSAGE_ID"]'
    plan.write_text(f'[find]\n{decided}\n[[edit]]\nuse = "rmft"\n{decided}\nkeep = 1\n')
    told = Settings(seed=1, workers=1, rows_per_shard=1)
    # bug: the kept EMAIL_ADDRESS is looked for by MESSAGE_ID's boundary rule and missed: OutputBroken, "internal error"
    summary = run([tmp_path / "mails"], tmp_path / "out", load_plan(str(plan)), None, told)
    assert (summary["leaks"], summary["by_kind"]["EMAIL_ADDRESS"]["kept"]) == (0, 2)


# ---- looking again ----


@pytest.fixture()
def clean(tmp_path: Path) -> Path:
    go(tmp_path, corpus(tmp_path))
    return tmp_path / "out"


def looked(out: Path) -> dict[str, Any]:
    return verify(out, Path(f"{out}.private"))


def test_a_whole_out_is_fine(clean: Path) -> None:
    before = contents(clean), contents(Path(f"{clean}.private"))
    result = looked(clean)
    assert (result["leaks"], result["shards"], result["rows"]) == (0, 2, 4)
    assert (contents(clean), contents(Path(f"{clean}.private"))) == before


def test_a_flipped_byte_is_seen(clean: Path) -> None:
    shard = clean / "data" / "train-00001-of-00002.parquet"
    raw = bytearray(shard.read_bytes())
    raw[len(raw) // 2] ^= 1
    shard.unlink()  # it is a link to the one in WORK
    shard.write_bytes(raw)
    with pytest.raises(OutputBroken, match="train-00001-of-00002.parquet"):
        looked(clean)


def test_a_foreign_shard_is_seen(clean: Path) -> None:
    (clean / "data" / "extra.parquet").write_bytes((clean / "data" / "train-00000-of-00002.parquet").read_bytes())
    with pytest.raises(OutputBroken, match="extra.parquet is not in the manifest"):
        looked(clean)


def test_a_missing_shard_is_seen(clean: Path) -> None:
    (clean / "data" / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(OutputBroken, match="is missing"):
        looked(clean)


def test_a_swapped_shard_is_seen(clean: Path) -> None:
    one, other = sorted((clean / "data").iterdir())
    one.rename(clean / "aside")
    other.rename(one)
    (clean / "aside").rename(other)
    with pytest.raises(OutputBroken):
        looked(clean)


def test_no_manifest_is_no_out(clean: Path) -> None:
    (clean / "manifest.json").unlink()
    with pytest.raises(OutputBroken, match="manifest"):
        looked(clean)


def test_another_work_is_refused(clean: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--work"):
        verify(clean, tmp_path / "elsewhere")


def planted(clean: Path, change: Any) -> None:
    """Replace the first shard by one with other rows, with a matching manifest."""
    shard = clean / "data" / "train-00000-of-00002.parquet"
    found = change(pq.read_table(shard))
    shard.unlink()
    pq.write_table(found, shard)
    manifest = json.loads((clean / "manifest.json").read_text())
    manifest["shards"][0] |= {"sha256": file_sha256(shard), "bytes": shard.stat().st_size, "rows": found.num_rows}
    (clean / "manifest.json").write_text(json.dumps(manifest))


def with_text(found: pa.Table, row: int, one: str) -> pa.Table:
    texts = found.column("text").to_pylist()
    texts[row] = one
    return found.set_column(found.schema.get_field_index("text"), "text", pa.array(texts, pa.large_string()))


@pytest.mark.parametrize("form", [str, str.upper, full_width])
def test_a_planted_value_is_seen_although_the_manifest_agrees(clean: Path, form: Any) -> None:
    planted(clean, lambda found: with_text(found, 1, f"{form(BOB)} and nothing else"))
    with pytest.raises(LeakFound) as caught:
        looked(clean)
    assert BOB not in str(caught.value).lower()


def test_a_kept_original_that_was_taken_away_is_seen(clean: Path) -> None:
    planted(clean, lambda found: with_text(found, 0, "nothing at all"))
    with pytest.raises(LeakFound, match="2 kept originals are missing or were moved"):
        looked(clean)


def test_a_value_in_a_column_that_was_added_is_seen(clean: Path) -> None:
    planted(clean, lambda found: found.append_column("more", pa.array(["x", f"({PHONE})"])))
    with pytest.raises(LeakFound):
        looked(clean)


@pytest.mark.parametrize("page", ["README.md", "report.html", "manifest.json"])
def test_a_value_on_a_page_is_seen(clean: Path, page: str) -> None:
    text = (clean / page).read_text()
    if page == "manifest.json":
        text = json.dumps({**json.loads(text), "note": BOB})
    else:
        text += f"\n{BOB}\n"
    (clean / page).write_text(text)
    with pytest.raises(LeakFound):
        looked(clean)


def test_rows_that_were_added_or_taken_are_seen(clean: Path) -> None:
    planted(clean, lambda found: found.slice(0, 1))
    with pytest.raises(OutputBroken):  # bug: an AssertionError, exit 1: the manifest agrees with the shard, WORK does not
        looked(clean)


@pytest.mark.parametrize("page", ["README.md", "report.html"])
def test_a_missing_page_is_a_broken_out(clean: Path, page: str) -> None:
    (clean / page).unlink()
    with pytest.raises(OutputBroken):  # bug: a bare FileNotFoundError, exit 1
        looked(clean)


# ---- independence ----


def imported() -> Iterator[str]:
    tree = ast.parse(Path(inspect.getfile(verify_task)).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_verify_is_independent_of_what_it_checks() -> None:
    rooms = (
        "sanitize.finders",
        "sanitize.droppers",
        "sanitize.editors",
        "sanitize.stages.rewriting",
        "sanitize.stages.aggregates",
        "sanitize.stages.detection",
        "sanitize.core.part_protocols",
    )
    assert not [name for name in imported() if name.startswith(rooms)]
    assert not [name for name in imported() if name.startswith("importlib")]
