"""`sanitize redact`: files in, files of the same formats out, with their texts rewritten by a plan.
All lies in memory, and nothing private is left behind; `sanitize run` is for corpora.

    file -> records -> the batch processor of a stream, with its leak check -> records -> file

Texts and mails of all files are one corpus, in which each is edited by what was seen before it; a
table is a corpus of its own. All have one key.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.keys import Key
from sanitize.errors import printable_path
from sanitize.inspection.text_files import (
    decode_text,
    find_byte_order_mark,
    list_text_files,
    read_bytes,
    refuse_file,
)
from sanitize.inspection.text_functions import Records, restore_types, rewrite_records
from sanitize.pipeline.run_results import RunResult
from sanitize.pipeline.streaming.record_batches import DictBatch, Row
from sanitize.pipeline.streaming.sources_and_sinks import encode_json_lines, parse_json_line
from sanitize.pipeline.streaming.stream_result import StreamResult
from sanitize.plans.plan import Plan
from sanitize.plans.settings import Settings
from sanitize.readers.byte_streams import HEAD_BYTES
from sanitize.readers.mail import iter_mails, parse_mail
from sanitize.readers.survey import REASONS, Roles, detect_format

_SEPARATORS = ",;\t|"
# fields of a mail that say how its body was encoded; the rewritten one is UTF-8
_BODY_FIELD = re.compile(
    r"(?im)^(?:content-(?:type|transfer-encoding|length)|mime-version|lines)[ \t]*:.*\n"
    r"(?:[ \t].*\n)*"
)
_PLAIN_BODY = (
    "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
)
_ENVELOPE = "From MAILER-DAEMON Thu Jan  1 00:00:00 1970\n"  # the given one may have an address


@dataclass(frozen=True, repr=False)
class RedactedFile:
    """A rewritten file: its name, its path below the folder that was named, its bytes, and whether
    these are a table of Parquet or Arrow or a text."""

    name: str
    place: str
    content: bytes
    is_binary: bool = False

    @property
    def data(self) -> str | bytes:
        """The contents: a text, without its byte order mark, or bytes of Parquet or Arrow."""
        mark, encoding = find_byte_order_mark(self.content)
        return self.content if self.is_binary else self.content[len(mark) :].decode(encoding)


@dataclass(frozen=True, repr=False)
class Redaction:
    """Rewritten files in the order in which they were named, the results of the corpora that they
    formed, and notes on what could not be kept as it was."""

    files: list[RedactedFile]
    results: list[StreamResult | RunResult]
    notes: list[str]

    @property
    def replaced(self) -> dict[str, int]:
        """The number of replaced occurrences, by kind, the most frequent first."""
        counts = Counter[str]()
        for result in self.results:
            counts.update({kind: one.replaced for kind, one in result.by_kind.items()})
        return {kind: count for kind, count in counts.most_common() if count}


@dataclass(frozen=True, repr=False)
class _File:
    """A file as records, how these become a file again, and what cannot be kept. Files of texts are
    one corpus."""

    name: str
    place: str
    records: Records
    write: Callable[[Any], bytes]
    holds_texts: bool = False
    is_binary: bool = False
    note: str = ""


def redact_files(
    paths: Sequence[str],
    plan: Plan,
    settings: Settings,
    *,
    read_as: str | None = None,
    include: Sequence[str] = (),
) -> Redaction:
    """The files with their texts rewritten, each in its format.

    `paths` are files, folders, and `-` for standard input; of folders only the files whose names or
    paths match one of the patterns `include` are read. `read_as`, one of FORMAT_NAMES, is the
    format of all files (default: by name and content). Raises InputRefused for a file that cannot
    be read, UsageError for an unknown format, LeakFound if a value that the plan removes cannot be
    removed everywhere, and PlanError for a plan that drops documents.
    """
    read_as = Roles(read_as=read_as).read_as
    files = [
        _read_file(name, place, read_as) for name, place in list_text_files(paths, include).items()
    ]
    texts = [number for number, one in enumerate(files) if one.holds_texts]
    tables = [[number] for number, one in enumerate(files) if not one.holds_texts]
    rewritten: dict[int, Records] = {}
    results: list[StreamResult | RunResult] = []
    with tempfile.TemporaryDirectory(prefix="sanitize-redact-") as folder:
        if settings.key is None and settings.seed is None:
            settings = replace(settings, key=Path(folder) / "key")
            Key.generate().write(Path(folder) / "key")
        for group in ([texts] if texts else []) + tables:
            names = [files[number].name for number in group for _ in range(_count(files[number]))]
            if not names:
                continue
            records = (
                files[group[0]].records
                if group is not texts
                else [row for number in group for row in files[number].records]
            )
            first_rows = {name: row for row, name in reversed([*enumerate(names)])}

            def describe(
                row: int, names: list[str] = names, first_rows: dict[str, int] = first_rows
            ) -> str:
                name = names[row]
                return f"{printable_path(name)}: record {row - first_rows[name] + 1}"

            clean, result = rewrite_records(records, plan, settings, describe)
            results.append(result)
            if isinstance(clean, pa.Table):
                rewritten[group[0]] = clean
            else:
                rows = iter(clean)
                for number in group:
                    rewritten[number] = [*itertools.islice(rows, _count(files[number]))]
    return Redaction(
        [
            RedactedFile(
                one.name,
                one.place,
                one.write(rewritten.get(number, one.records)),
                one.is_binary,
            )
            for number, one in enumerate(files)
        ],
        results,
        [f"{printable_path(one.name)}: {one.note}" for one in files if one.note],
    )


def redact_text(text: str, plan: Plan, settings: Settings) -> tuple[str, Redaction]:
    """A text rewritten, and what was done. Raises what `redact_files` raises."""
    rows, result = rewrite_records([{"text": text}], plan, settings, lambda row: "redact: the text")
    return rows[0]["text"], Redaction([], [result], [])


def _count(file: _File) -> int:
    return file.records.num_rows if isinstance(file.records, pa.Table) else len(file.records)


def _read_file(name: str, place: str, read_as: str | None) -> _File:
    """A file as records. Raises InputRefused if it cannot be read in its format."""
    raw = read_bytes(name)
    head = raw[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
    found = read_as or detect_format(os.path.basename(name).lower(), head) or "text"
    if found == "json" and read_as is None and not raw.lstrip().startswith(b"["):
        found = "text"  # one object: its keys are read in its text
    records, write, note = _READERS[found](name, raw)
    holds_texts, is_binary = found in ("text", "mbox", "mail"), found in ("parquet", "arrow")
    return _File(name, place, records, write, holds_texts, is_binary, note)


_Read: TypeAlias = tuple[Records, Callable[[Any], bytes], str]


def _read_text(name: str, raw: bytes) -> _Read:
    found = decode_text(name, raw)
    guess = "is not UTF-8; its encoding was guessed, and it is written as UTF-8"

    def write(rows: list[Row]) -> bytes:
        return found.mark + str(rows[0]["text"]).encode(found.encoding) if rows else raw

    return [{"text": found.text}] if found.text else [], write, guess if found.is_guessed else ""


def _read_mails(name: str, raw: bytes) -> _Read:
    mails = [
        mail
        for _, mail in iter_mails(io.BufferedReader(io.BytesIO(raw)), limit=len(raw))
        if mail is not None
    ]

    def write(rows: list[Row]) -> bytes:
        quoted = (re.sub(r"(?m)^(>*From )", r">\1", _write_mail(row["text"])) for row in rows)
        return "\n".join(f"{_ENVELOPE}{text.rstrip(chr(10))}\n" for text in quoted).encode()

    return [{"text": parse_mail(mail)[0]} for mail in mails], write, _ATTACHMENTS


def _read_mail(name: str, raw: bytes) -> _Read:
    return (
        [{"text": parse_mail(raw)[0]}],
        lambda rows: _write_mail(rows[0]["text"]).encode(),
        _ATTACHMENTS,
    )


_ATTACHMENTS = "of each mail the header and the text are kept, without attachments"


def _write_mail(text: str) -> str:
    """A mail whose body is plain text in UTF-8, whatever its header said before."""
    head, blank, body = text.partition("\n\n")
    if not blank:
        return text
    kept = _BODY_FIELD.sub("", head + "\n")
    return kept + (_PLAIN_BODY if kept != head + "\n" or not text.isascii() else "") + "\n" + body


def _read_json_lines(name: str, raw: bytes) -> _Read:
    records: list[Row] = []
    for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n")):
        if line.strip():
            record, reason = parse_json_line(line)
            if record is None:
                raise refuse_file(name, f"line {number + 1} cannot be read: {REASONS[reason]}")
            records.append(record)
    return records, lambda rows: encode_json_lines(DictBatch(rows)), ""


def _read_json(name: str, raw: bytes) -> _Read:
    try:
        records = json.loads(raw.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError):
        raise refuse_file(name, REASONS["not_json"]) from None
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise refuse_file(name, "expected a JSON array of objects")

    def write(rows: list[Row]) -> bytes:
        return (json.dumps(rows, ensure_ascii=False, indent=2) + "\n").encode()

    return records, write, ""


def _read_csv(name: str, raw: bytes) -> _Read:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refuse_file(name, REASONS["not_utf8"]) from None
    first_line = text.partition("\n")[0]
    separator = "\t" if name.endswith((".tsv", ".tab")) else max(_SEPARATORS, key=first_line.count)
    end = "\r\n" if first_line.endswith("\r") else "\n"
    try:
        rows = [
            row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row
        ]
    except csv.Error:
        raise refuse_file(name, REASONS["not_csv"]) from None
    header = rows[0] if rows else []
    if len({*header}) < len(header) or any(len(row) != len(header) for row in rows):
        raise refuse_file(
            name, "its lines have different numbers of cells, or two columns have the same name"
        )

    def write(records: list[Row]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=separator, lineterminator=end)
        names = [one for one in header if not records or one in records[0]]
        writer.writerows([names, *([record[one] for one in names] for record in records)])
        return (
            codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
        ) + out.getvalue().encode()

    return [dict(zip(header, row, strict=True)) for row in rows[1:]], write, ""


def _read_table(name: str, raw: bytes) -> _Read:
    is_parquet, buffer = raw.startswith(b"PAR1"), pa.py_buffer(raw)
    try:
        if is_parquet:
            given = pq.read_table(pa.BufferReader(buffer), partitioning=None)
        elif raw.startswith(b"ARROW1"):
            given = pa.ipc.open_file(buffer).read_all()
        else:
            given = pa.ipc.open_stream(buffer).read_all()
    except (pa.ArrowException, OSError, ValueError):
        raise refuse_file(name, REASONS["unreadable"]) from None

    def write(table: pa.Table) -> bytes:
        sink, table = io.BytesIO(), restore_types(table, given)
        if is_parquet:
            pq.write_table(table, sink, compression="zstd")
        else:
            kind = pa.ipc.new_file if raw.startswith(b"ARROW1") else pa.ipc.new_stream
            with kind(sink, table.schema) as writer:
                writer.write_table(table)
        return sink.getvalue()

    has_metadata = bool(given.schema.metadata)
    note = "metadata of its schema is left out, since it is not searched" if has_metadata else ""
    return given, write, note


_READERS: dict[str, Callable[[str, bytes], _Read]] = {
    "text": _read_text,
    "mbox": _read_mails,
    "mail": _read_mail,
    "jsonl": _read_json_lines,
    "json": _read_json,
    "csv": _read_csv,
    "tsv": _read_csv,
    "parquet": _read_table,
    "arrow": _read_table,
}
