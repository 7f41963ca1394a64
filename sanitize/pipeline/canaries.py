"""Canary check: in every run, documents of invented people pass through find, edit, apply and
verify beside the user's documents.

The canary documents have the shapes of the user's first documents (header block or not, number and
length of lines) and none of their text. Each person's values occur in them in several written
forms. A form that the checks promise to detect must be removed, or the run stops; for forms that
hide a value (base64, HTML) the summary counts how many were removed, by form. The leak check is
that of the run (full, fast or off). All files lie in the spill folder and are deleted with it. The
tasks are those of a run, called one after the other: a whole run over these documents, with its
index, records and output, would take 0.5 CPU seconds more in every run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import shutil
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import CanaryCounts, CanarySample, PlantedCounts
from sanitize.core.engine import Engine
from sanitize.core.keys import Draws, Key
from sanitize.core.text_cells import LeafPath, Policies, flatten_leaf, to_canonical_type
from sanitize.errors import OutputBroken
from sanitize.finders.names import FINDER_NAME as NAMES_FINDER
from sanitize.kinds.kind import all_kinds, list_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import Plan
from sanitize.stages import aggregates, detection, rewriting
from sanitize.stages.corpus_pass import CorpusContext
from sanitize.storage.corpus import DocumentFile, Documents
from sanitize.storage.parquet_files import read_table
from sanitize.storage.task_records import run_job
from sanitize.verification.search_terms import write_terms
from sanitize.verification.shard_check import select_atomic_kinds, verify_task
from sanitize.verification.shard_reading import VerifyTask

CANARY_COUNT = 8
_FINDERS = ("patterns", NAMES_FINDER)  # those that need no model and no list of the user
_MAX_LINES, _MAX_LINE_BYTES = 24, 120  # of the largest canary document
_SEARCH_MEMORY_BYTES = 1 << 28  # for the search terms of a few hundred invented values
_TEXT_LEAF = LeafPath("text")
_SCHEMA = pa.schema([("doc_id", pa.large_string()), ("text", pa.large_string())])
_DIGIT_KINDS = ("CREDIT_CARD", "PHONE_NUMBER", "US_SSN")
_FILLER_WORDS = (
    "the a of to and in report table meeting paper window river garden market letter winter station"
    " bridge harbour music".split()
)


@dataclass(frozen=True)
class CanaryForm:
    """A written form of a value. `must_be_removed`: the finders or the fast check must detect it.
    `encode(kind, value)` returns the written text, or None if values of that kind are not written
    in this form."""

    name: str
    must_be_removed: bool
    encode: Callable[[str, str], str | None]


def _to_full_width(kind: str, value: str) -> str:
    return "".join(
        chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in value
    )


def _keep_digits(kind: str, value: str) -> str | None:
    return "".join(letter for letter in value if letter.isdigit()) if kind in _DIGIT_KINDS else None


_DocumentShape = tuple[bool, int, int]
# for an input without documents or texts
_DEFAULT_SHAPES: tuple[_DocumentShape, ...] = ((False, 4, 64),)
_RESULTS: dict[tuple[str, str, tuple[_DocumentShape, ...]], CanaryCounts] = {}
CANARY_FORMS = (
    CanaryForm("as written", True, lambda kind, value: value),
    CanaryForm("in brackets", True, lambda kind, value: f"<{value}>"),
    CanaryForm(
        "upper case", True, lambda kind, value: value.upper() if kind == "EMAIL_ADDRESS" else None
    ),
    CanaryForm("full-width", True, _to_full_width),
    CanaryForm(
        "zero-width",
        False,
        lambda kind, value: value[: len(value) // 2] + "\u200b" + value[len(value) // 2 :],
    ),
    CanaryForm("HTML", False, lambda kind, value: "".join(f"&#{ord(letter)};" for letter in value)),
    CanaryForm(
        "URL",
        False,
        lambda kind, value: (
            urllib.parse.quote(value, safe="")
            if urllib.parse.quote(value, safe="") != value
            else None
        ),
    ),
    CanaryForm("base64", False, lambda kind, value: base64.b64encode(value.encode()).decode()),
    CanaryForm("digits", False, _keep_digits),
    CanaryForm(
        "spelled out",
        False,
        lambda kind, value: (
            value.replace("@", " at ").replace(".", " dot ") if "@" in value else None
        ),
    ),
)


@dataclass(frozen=True)
class _PlantedValue:
    doc_no: int
    start_byte: int
    end_byte: int
    kind: str
    form: CanaryForm
    occurrence_index: int  # how many plain copies of this value come before it


def check_canaries(
    engine: Engine, plan: Plan, documents: Documents, folder: Path, mode: str = "full"
) -> CanaryCounts:
    """The counts of the canary check for a plan; `mode` is that of the leak check: full, fast or
    off.

    `planted` and `removed` count the forms that must be removed. The same plan, mode and document
    shapes give the same result, so a process computes it once. Raises OutputBroken if a form that
    must be removed stayed; with mode off it is only counted.
    """
    shapes = _get_document_shapes(documents)
    cache_key = (plan.hash(), mode, shapes)
    if cache_key not in _RESULTS:
        _RESULTS[cache_key] = _run_canaries(engine, plan, shapes, folder, mode)
    return _RESULTS[cache_key]


def _run_canaries(
    engine: Engine, plan: Plan, shapes: tuple[_DocumentShape, ...], folder: Path, mode: str
) -> CanaryCounts:
    # from the plan, not of the run: the counts are in the manifest, which has to follow from input,
    # plan and key
    key = Key(
        hashlib.blake2b(plan.hash().encode(), digest_size=32, person=b"sanitize-drill").digest(),
        is_public=True,
    )
    # editors with a privacy ledger make their own claim; they promise nothing about what is left in
    # the text
    checked_kinds = [kind for kind in sorted(plan.leak_checked_kinds) if kind in canary_examples()]
    untested_kinds = sorted(kind for kind in plan.editor_no_by_kind if kind not in checked_kinds)
    if not checked_kinds:
        return CanaryCounts(untested_kinds=untested_kinds)
    keeps = {kind: plan.editors[number].keep for kind, number in plan.editor_no_by_kind.items()}
    plain_copies = max(1, *keeps.values())
    texts, planted_values = _build_documents(key, checked_kinds, plain_copies, shapes)
    sample_kinds = _list_sample_kinds(plan)
    # the last copy shows what becomes of later occurrences
    sample_texts = [_build_sample_text(sample_kinds)] * (plain_copies + 1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    edits = _run_pipeline(engine, plan, key, [*texts, *sample_texts], folder, mode)
    shutil.rmtree(folder)
    planted, removed, stayed = Counter[str](), Counter[str](), Counter[str]()
    for planted_value in planted_values:
        if planted_value.occurrence_index >= keeps[planted_value.kind]:
            is_removed = _is_removed(planted_value, edits.get(planted_value.doc_no, ()))
            planted[planted_value.form.name] += 1
            removed[planted_value.form.name] += is_removed
            if planted_value.form.must_be_removed and not is_removed:
                stayed[f"{planted_value.kind} ({planted_value.form.name})"] += 1
    if stayed and mode != "off":
        survivors = ", ".join(
            f"{times} {description}" for description, times in sorted(stayed.items())
        )
        raise OutputBroken(
            f"canary check: {survivors} of invented people stayed in their documents; this is"
            " an internal error, please report it. Nothing was published"
        )

    def sum_forms(*, must_be_removed: bool) -> PlantedCounts:
        names = [form.name for form in CANARY_FORMS if form.must_be_removed == must_be_removed]
        return PlantedCounts(
            planted=sum(planted[name] for name in names),
            removed=sum(removed[name] for name in names),
        )

    required = sum_forms(must_be_removed=True)
    return CanaryCounts(
        documents=len(texts),
        planted=required.planted,
        removed=required.removed,
        encoded=sum_forms(must_be_removed=False),
        by_form={
            form.name: PlantedCounts(planted=planted[form.name], removed=removed[form.name])
            for form in CANARY_FORMS
            if planted[form.name]
        },
        untested_kinds=untested_kinds,
        samples=_read_samples(
            sample_kinds, sample_texts[-1], edits.get(len(texts) + plain_copies, ())
        ),
    )


def _list_sample_kinds(plan: Plan) -> list[str]:
    """The kinds that the report shows a sample of: those with a pattern, and names of people if the
    plan looks for them."""
    with_names = any(finder.use == NAMES_FINDER for finder in plan.finders)
    shown = {
        name
        for name, kind in list_kinds().items()
        if kind.pattern or (with_names and name in ("PERSON", "USER_NAME"))
    }
    return [kind for kind in plan.find.kinds if kind in shown and kind in plan.leak_checked_kinds]


def _build_sample_text(kinds: Sequence[str]) -> str:
    """A text with a line for each kind: its first example, with a reserved domain or number."""
    return "\n".join(all_kinds()[kind].hits[0][0] for kind in kinds) + "\n"


def _read_samples(
    kinds: Sequence[str], text: str, edits: Sequence[tuple[int, int, str]]
) -> list[CanarySample]:
    """The lines of a sample text before and after its edits."""
    samples = []
    raw, line_start = text.encode(), 0
    for kind in kinds:
        line_end = raw.index(b"\n", line_start)
        after, position = b"", line_start
        for start, end, replacement in sorted(edits):
            if line_start <= start and end <= line_end:
                after += raw[position:start] + replacement.encode()
                position = end
        after += raw[position:line_end]
        samples.append(
            CanarySample(kind=kind, before=raw[line_start:line_end].decode(), after=after.decode())
        )
        line_start = line_end + 1
    return samples


@functools.cache
def canary_examples() -> Mapping[str, str]:
    """One invented value of each kind that is checked, the pattern for the generated ones: the
    first hit of every kind that is searched always. `untested_kinds` of a run lists the others."""
    return {kind.name: kind.hits[0][1] for kind in list_kinds().values() if kind.pattern}


def _get_document_shapes(documents: Documents) -> tuple[_DocumentShape, ...]:
    """Shapes of the first 32 documents: has a header block, number of lines, bytes of a line (both
    rounded down to powers of two); no text."""
    column = documents.files[0].columns.get(documents.main_leaf.column) if documents.count else None
    if column is None:
        return _DEFAULT_SHAPES
    with pq.ParquetFile(documents.files[0].path, pre_buffer=False) as file:
        batch = next(file.iter_batches(32, columns=[column], use_threads=False), None)
    if batch is None:
        return _DEFAULT_SHAPES
    texts = pl.Series(
        flatten_leaf(to_canonical_type(batch.column(0)), documents.main_leaf)
        .texts.cast(pa.large_string())
        .fill_null("")
    )
    lines = texts.str.count_matches("\n", literal=True) + 1
    width = texts.str.len_bytes() // lines
    headed = texts.str.contains(r"\A(?:From |[A-Za-z-]+:)")
    rows = zip(headed, lines, width, strict=True)
    return (
        tuple(
            (
                bool(head),
                _round_down_to_power_of_two(int(count), _MAX_LINES),
                _round_down_to_power_of_two(int(size), _MAX_LINE_BYTES),
            )
            for head, count, size in rows
        )
        or _DEFAULT_SHAPES
    )


def _round_down_to_power_of_two(number: int, limit: int) -> int:
    return min(limit, 1 << max(number, 1).bit_length() - 1)


def _build_documents(
    key: Key, edited_kinds: Sequence[str], plain_copies: int, shapes: Sequence[_DocumentShape]
) -> tuple[list[str], list[_PlantedValue]]:
    """The canary documents and the position of each value in them: first each person's values as
    they are, in as many copies (`plain_copies`) as the plan may keep, then one document for each
    form."""
    persons = [
        dict(zip(edited_kinds, values, strict=True))
        for values in zip(*(_generate_values(key, kind) for kind in edited_kinds), strict=True)
    ]
    texts: list[str] = []
    planted_values: list[_PlantedValue] = []
    for number, (person, form) in enumerate(
        [(person, CANARY_FORMS[0]) for _ in range(plain_copies) for person in persons]
        + [(person, form) for form in CANARY_FORMS for person in persons]
    ):
        headed, lines, width = shapes[number % len(shapes)]
        header = (
            [f"Subject: {_build_filler_line(number, 24)}", "X-Note: invented", ""] if headed else []
        )
        filler = [_build_filler_line(number * 31 + line, width) for line in range(lines)]
        occurrence_index = min(number // len(persons), plain_copies)
        written_values = []
        for position, (kind, value) in enumerate(person.items()):
            written = form.encode(kind, value)
            if written is not None:
                if kind == "MESSAGE_ID" and not written.startswith("<"):
                    written = f"<{written}>"  # finders recognize a message id by its brackets
                filler.insert(
                    (position * 7 + number) % (len(filler) + 1),
                    f"Reach {kind.lower()} by {written} today.",
                )
                written_values.append((kind, written, value))
        text = "\n".join(header + filler) + "\n"
        for kind, written, _ in written_values:
            start = len(
                text[: text.index(f"Reach {kind.lower()} by {written} today.")].encode()
            ) + len(f"Reach {kind.lower()} by ")
            bracket_bytes = 1 if written.startswith("<") else 0
            planted_values.append(
                _PlantedValue(
                    number,
                    start + bracket_bytes,
                    start + len(written.encode()) - bracket_bytes,
                    kind,
                    form,
                    occurrence_index,
                )
            )
        texts.append(text)
    return texts, planted_values


def _generate_values(key: Key, kind: str) -> list[str]:
    """Values of one kind, one for each person, all different."""
    kind_definition, count = all_kinds()[kind], 4 * CANARY_COUNT
    examples = pl.Series([canary_examples()[kind]] * count)
    ids = pa.array([f"person {number}" for number in range(count)]).dictionary_encode()
    drawn = kind_definition.make_surrogates(
        examples,
        Draws.for_occurrences(
            key, f"drill/{kind}", ids, np.zeros(count, np.int32), np.zeros(count, np.int64)
        ),
        False,
    )
    # a spelled-out address (`at`, `dot`) is one only with a usual top-level domain
    drawn = drawn.str.replace(r"(@(?:.*[.])?)[a-z]+[.]example\z", "${1}example.com")
    frame = pl.DataFrame({"value": drawn, "normal": kind_definition.normalise(drawn)}).unique(
        "normal", maintain_order=True
    )
    valid = (
        frame["value"]
        if kind_definition.check is None
        else frame.filter(kind_definition.check(frame["value"]).is_null())["value"]
    )
    assert len(valid) >= CANARY_COUNT, kind
    return list(valid.head(CANARY_COUNT).to_list())


@functools.cache
def _build_filler_line(number: int, width: int) -> str:
    """A line of filler words of about `width` bytes."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < width:
        number += 1
        words.append(_FILLER_WORDS[number * 7919 % len(_FILLER_WORDS)])
    return " ".join(words)


def _run_pipeline(
    engine: Engine, plan: Plan, key: Key, texts: Sequence[str], folder: Path, mode: str
) -> dict[int, list[tuple[int, int, str]]]:
    """Run find, count, rewrite and verify on the canary documents as one task, and rewrite once
    more if the check swept; returns the edits (start_byte, end_byte, replacement) by document.
    Editors with a privacy ledger are left out: they promise nothing that could be checked."""
    editors = tuple(editor for editor in plan.editors if not editor.privacy_unit)
    table = pa.table(
        [[f"drill-{number:04d}" for number in range(len(texts))], list(texts)], schema=_SCHEMA
    )
    pq.write_table(table, folder / "documents.parquet")
    source = DocumentFile(
        path=str(folder / "documents.parquet"),
        rows=len(texts),
        first_doc_no=0,
        columns={"doc_id": "doc_id", "text": "text"},
    )
    documents = Documents(files=(source,), schema=_SCHEMA, main_leaf=_TEXT_LEAF)
    task_args: dict[str, Any] = {
        "first_doc_no": 0,
        "end_doc_no": len(texts),
        "documents": documents,
        "leaves": (_TEXT_LEAF,),
    }
    find_spec = detection.FindTask(
        **task_args,
        key=key,
        max_doc_bytes=1 << 20,
        max_doc_matches=1 << 20,
        output_columns=("doc_id", "text"),
        quarantined_docs=(),
        folder=folder,
        detection_spec=DetectionSpec(
            finders=tuple(
                finder for finder in plan.detection_spec.finders if finder.use in _FINDERS
            )
        ),
    )
    detection.find_task(find_spec)
    value_counts_file, terms = folder / "value_counts.parquet", folder / "terms"
    aggregates.write_value_counts(engine, [folder / "partial_counts.parquet"], value_counts_file)
    (folder / "counts").mkdir()
    (folder / "corpus_passes").mkdir()
    corpus_context = CorpusContext(
        engine=engine,
        run_jobs=lambda _, jobs: [run_job(job) for job in jobs],
        documents=documents,
        leaves=(_TEXT_LEAF,),
        ranges=[(0, len(texts))],
        occurrence_files=[folder / "occurrences.parquet"],
        folder=folder / "corpus_passes",
        spill=folder,
        fingerprint="drill",
        excluded_doc_files=(),
    )
    sources = aggregates.AggregateSources(
        engine=engine,
        occurrences=[folder / "occurrences.parquet"],
        value_counts_file=value_counts_file,
        value_files=[folder / "values.parquet"],
        folder=folder / "counts",
        key=key,
    )
    aggregates_by_editor = aggregates.aggregate_for_editors(sources, editors, corpus=corpus_context)
    if mode != "off":
        write_terms(
            [folder / "values.parquet"],
            plan.leak_checked_kinds,
            terms,
            _SEARCH_MEMORY_BYTES,
            check_mode=mode,
        )
    swept: tuple[Path, ...] = ()
    for attempt in range(2):
        rewrite_folder = folder / f"made-{attempt}"
        rewrite_folder.mkdir()
        task = rewriting.RewriteTask(
            task_no=0,
            **task_args,
            policies=Policies({"doc_id": "keep", "text": "sanitize"}),
            key=key,
            editors=editors,
            aggregates=aggregates_by_editor,
            by_position=False,
            occurrences=(folder / "occurrences.parquet", *swept),
            excluded_docs=(),
            folder=rewrite_folder,
        )
        rewriting.rewrite_task(task)
        verify_spec = VerifyTask(
            shard_no=0,
            **task_args,
            shard_path=rewrite_folder / "shard.parquet",
            terms=(terms,),
            check_mode=mode,
            values=folder / "values.parquet",
            kept_originals=rewrite_folder / "kept.parquet",
            edits=rewrite_folder / "edits.parquet",
            occurrences=folder / "occurrences.parquet",
            atomic_kinds=select_atomic_kinds(plan.leave),
            row_doc_nos=rewrite_folder / "rows.parquet",
            sweep_path=rewrite_folder / "sweep.parquet",
        )
        if mode == "off":
            break
        result = verify_task(verify_spec)
        if not result.swept:
            break
        swept = (rewrite_folder / "sweep.parquet",)
    edits: dict[int, list[tuple[int, int, str]]] = {}
    columns = read_table(
        rewrite_folder / "edits.parquet",
        columns=["doc_no", "start_byte", "end_byte", "replacement"],
    )
    for doc_no, start, end, text in zip(
        *(column.to_pylist() for column in columns.columns), strict=True
    ):
        edits.setdefault(doc_no, []).append((start, end, text))
    return edits


def _is_removed(planted: _PlantedValue, edits: Sequence[tuple[int, int, str]]) -> bool:
    """True if a form that must be removed is replaced from end to end, or if an edit overlaps a
    form that hides a value."""
    overlapping = sorted(
        (start, end)
        for start, end, _ in edits
        if start < planted.end_byte and end > planted.start_byte
    )
    if not planted.form.must_be_removed:
        return bool(overlapping)
    covered_to = planted.start_byte
    for start, end in overlapping:
        if start > covered_to:
            return False
        covered_to = max(covered_to, end)
    return covered_to >= planted.end_byte
