"""What the fuzzer calls: `TARGETS` maps a name to a function of bytes that raises AssertionError
(or anything unexpected) for a defect.

Readers get files of any content; the decoders of the leak check, the finders and the plan loader
any text; and every property of `tests/kernels` gets the bytes from which hypothesis draws its
arguments, so that a kernel is compared with its reference on inputs that coverage chooses.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.util
import inspect
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sanitize
from sanitize.core.engine import TaskResult
from sanitize.engines.local import LocalEngine
from sanitize.errors import PlanError, SanitizeError
from sanitize.plans.plan import load_plan
from sanitize.readers.sandbox import survey_in_sandbox
from sanitize.readers.staging import StagingTask, stage_task
from sanitize.readers.survey import REASONS, Roles, StagingResult, survey_inputs
from sanitize.text.decodings import iter_decodings

TESTS = Path(__file__).resolve().parents[1]
# some of their forms are found by words around them
CONTEXT_KINDS = {
    "EMAIL_ADDRESS",
    "IP_ADDRESS",
    "PERSON",
    "PHONE_NUMBER",
    "US_SSN",
}
LIMIT_BYTES = 2_000  # of a document: small, so that inputs of a few kilobytes reach it
RECORDS = [
    {"text": "mail ann@example.com", "n": 1},
    {"text": 'a "quoted" \u00fc, call 555-0100', "n": None},
]
MAILS = (
    b"From ann@example.com Thu Jan  1 00:00:00 2026\nFrom: =?utf-8?q?Ann_Lee?="
    b" <ann@example.com>\nSubject: =?iso-8859-1?b?aGk=?=\nMIME-Version: 1.0\nContent-Type:"
    b" multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain;"
    b" charset=latin1\nContent-Transfer-Encoding: quoted-printable\n\ncaf=E9 at"
    b" =\nnoon\n--b\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--b--\n\nFrom bo@example.com"
    b" Thu Jan  1 00:00:00 2026\nTo: x@example.org\n\n>From the start\n"
)
TEXTS = (
    (
        b"Write to Ann Lee <ann.lee@example.com> or call +1 212 555 0123 from 192.0.2.7, card 4111"
        b" 1111 1111 1111."
    ),
    (
        b"ann%40example.com &#97;nn@example.com \\u0061nn =40 YW5uQGV4YW1wbGUuY29t"
        b" 616e6e40\nann@exam\nple.com 2001:db8::1 078-05-1120"
    ),
    "\u200bann\u200b@example.com \uff41\uff4e\uff4e \u0661\u0662\u0663"
    " https://example.com/?q=ann%2540example.org DE89 3704 0044".encode(),
)


@dataclass(frozen=True)
class FuzzTarget:
    """A function of bytes, and inputs to begin with."""

    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


# ---- readers ----


@functools.cache
def temporary_folder() -> Path:
    shared_memory = Path("/dev/shm")
    return Path(
        tempfile.mkdtemp(prefix="fuzz-", dir=shared_memory if shared_memory.is_dir() else None)
    )


def check_reader(name: str, content: bytes) -> None:
    """A file is refused with one of our errors, or each of its records is a document or quarantined
    with a known reason."""
    path = temporary_folder() / name
    path.write_bytes(content)
    with contextlib.suppress(SanitizeError):
        survey = survey_inputs([path], Roles(), max_doc_bytes=LIMIT_BYTES)
        for unit in survey.units:
            task = StagingTask(
                unit=unit, layout=survey.layout, max_doc_bytes=LIMIT_BYTES, folder=path.parent
            )
            check_staged_unit(task, stage_task(task))
    path.unlink()


def check_sandboxed_reader(name: str, content: bytes) -> None:
    """The same where the reader runs in another process, as in a run: libraries for Parquet end
    their process for some files."""
    path = temporary_folder() / name
    path.write_bytes(content)
    engine = make_engine()
    with contextlib.suppress(SanitizeError):
        survey = survey_in_sandbox(engine, [path], Roles(), 1 << 30, LIMIT_BYTES)
        for unit in survey.units:
            task = StagingTask(
                unit=unit, layout=survey.layout, max_doc_bytes=LIMIT_BYTES, folder=path.parent
            )
            for _, outcome in engine.map_untrusted(
                stage_task, [task], time_limit=lambda _: 30, memory_bytes=1 << 30
            ):
                if isinstance(outcome, TaskResult):
                    check_staged_unit(task, outcome.result)
                else:
                    assert outcome.reason in REASONS
    path.unlink()


@functools.cache
def make_engine() -> LocalEngine:
    return LocalEngine(workers=1, spill=temporary_folder() / "spill")


def check_staged_unit(task: StagingTask, counts: StagingResult) -> None:
    documents, quarantine = (
        pq.read_table(task.folder / f"{name}.parquet") for name in ("documents", "quarantine")
    )
    documents.validate(full=True)
    assert (documents.num_rows, quarantine.num_rows) == (counts.rows, counts.quarantined)
    assert task.unit.rows in (None, counts.rows)
    assert {*quarantine["reason"].to_pylist()} <= {*REASONS}


def write_table(write: Callable[[pa.Table, io.BytesIO], None]) -> bytes:
    sink = io.BytesIO()
    write(pa.Table.from_pylist(RECORDS), sink)
    return sink.getvalue()


def write_arrow(table: pa.Table, sink: io.BytesIO) -> None:
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def list_reader_targets() -> Iterator[tuple[str, FuzzTarget]]:
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    csv = b'text,n\n"mail ann@example.com",1\n"a ""quoted"", call\n555-0100",\nplain "quote,2\n'
    seeds_by_name = {
        "mails.mbox": (MAILS,),
        "mail.eml": (MAILS.partition(b"\n")[2],),
        "a.csv": (csv,),
        "a.tsv": (csv.replace(b",", b"\t"),),
        "a.jsonl": (lines, b'{"messages": [{"role": "user", "content": "ann@example.com"}]}\n'),
        "a.json": (json.dumps(RECORDS).encode(), b' [ {"text": "[{\\"]"}, 1 ] x'),
        "a.jsonl.gz": (gzip.compress(lines),),
        "a.txt": (TEXTS[0],),
        "a.arrow": (write_table(write_arrow),),
        "a.parquet": (write_table(pq.write_table),),
    }
    for name, seeds in seeds_by_name.items():
        check = check_sandboxed_reader if name == "a.parquet" else check_reader
        yield f"reader {name}", FuzzTarget(functools.partial(check, name), seeds)


# ---- texts and plans ----


def check_decodings(data: bytes) -> None:
    """Every decoding has pieces in UTF-8 or bytes, and every span of a piece lies inside the text
    it came from."""
    texts = data.decode("utf-8", "replace").split("\x00")
    column = pa.array(texts, pa.large_string())
    sizes = np.array([len(text.encode()) for text in texts])
    for decoding in iter_decodings(column, 40):
        for number, piece in enumerate(decoding.pieces):
            size = len(piece.as_buffer().to_pybytes()) if piece.as_buffer() is not None else 0
            if not size:
                continue
            begin, end = np.arange(size), np.arange(1, size + 1)
            spans = decoding.find_encoded_spans(np.full(size, number), begin, end)
            assert (spans.text_no >= 0).all() and (spans.text_no < len(texts)).all(), decoding.form
            assert (
                (spans.start >= 0).all()
                and (spans.start <= spans.end).all()
                and (spans.end <= sizes[spans.text_no]).all()
            ), decoding.form


def check_detection(data: bytes) -> None:
    """Spans lie inside the text; of what was redacted a second run finds only kinds that need their
    context, which is another one then."""
    text = data.decode("utf-8", "replace")
    found = sanitize.detect([text], plan="redact").sort("start", "end")
    starts, ends = found["start"].to_numpy(), found["end"].to_numpy()
    assert (starts >= 0).all() and (starts < ends).all() and (ends <= len(text)).all()
    redacted = sanitize.redact([text], seed=1)
    assert {*sanitize.detect(redacted, plan="redact")["kind"]} <= CONTEXT_KINDS


def check_plan(data: bytes) -> None:
    """A plan file is loaded, or refused with a PlanError."""
    path = temporary_folder() / "plan.toml"
    path.write_bytes(data)
    with contextlib.suppress(PlanError):
        load_plan(str(path))


def read_shipped_plans() -> tuple[bytes, ...]:
    return tuple(
        path.read_bytes()
        for path in sorted((Path(sanitize.__file__).parent / "plans").glob("*.toml"))
    )


# ---- kernels ----


def list_kernel_targets() -> Iterator[tuple[str, FuzzTarget]]:
    """The properties of `tests/kernels` that need no fixture and no parameter."""
    for path in sorted((TESTS / "kernels").glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"fuzzed_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in vars(module).items():
            handle: Any = getattr(function, "hypothesis", None)
            if handle is None or not getattr(function, "is_hypothesis_test", False):
                continue
            if inspect.signature(function).parameters or getattr(function, "pytestmark", []):
                continue
            yield (
                f"kernel {path.stem.removeprefix('test_')} {name.removeprefix('test_')}",
                FuzzTarget(handle.fuzz_one_input, (bytes(64),)),
            )


def list_targets() -> dict[str, FuzzTarget]:
    """All targets by name."""
    return {
        **dict(list_reader_targets()),
        "decodings": FuzzTarget(check_decodings, TEXTS),
        "detection": FuzzTarget(check_detection, TEXTS),
        "plan": FuzzTarget(check_plan, read_shipped_plans()),
        **dict(list_kernel_targets()),
    }


TARGETS = list_targets()
