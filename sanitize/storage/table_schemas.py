"""Schemas of all tables in WORK, with one line about each column. `VERSION` changes whenever a
schema changes.

A table is a folder of Parquet files, one per task, written by `parquet_files.open_table_writer`.
Tables contain original values or refer to them, and must never leave WORK.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

VERSION = 3
SWEEP_FINDER = "sweep"  # name of the finder in the table `swept`: values that the leak check found


@dataclass(frozen=True)
class TableSchema:
    """A table: its name, what one row is, the Arrow schema, and one line about each column."""

    name: str
    row_description: str
    schema: pa.Schema
    column_descriptions: dict[str, str]


def _define_table(
    name: str, row_description: str, *columns: tuple[str, pa.DataType, str]
) -> TableSchema:
    fields = [pa.field(column, kind) for column, kind, _ in columns]
    return TableSchema(
        name,
        row_description,
        pa.schema(fields),
        {column: description for column, _, description in columns},
    )


_I64, _I32, _TEXT = pa.int64(), pa.int32(), pa.large_string()
_DOC = ("doc_no", _I64, "position of the document in corpus order, from 0")
_CELL = ("cell", _I32, "which text of the document; 0 is the main text")
_KIND = (
    "kind",
    pa.dictionary(pa.int32(), pa.string()),
    "entity type, named as in Presidio, such as EMAIL_ADDRESS",
)
_VALUE = ("value_id", _I64, "keyed 63-bit hash of (kind, normalised value); reveals no raw value")

OCCURRENCES = _define_table(
    "occurrences",
    "one occurrence of personal data in a text, sorted by (doc_no, cell, start)",
    _DOC,
    _CELL,
    ("start", _I64, "first code point of the span"),
    ("end", _I64, "code point after the span"),
    ("start_byte", _I64, "first UTF-8 byte of the span"),
    ("end_byte", _I64, "UTF-8 byte after the span"),
    _KIND,
    _VALUE,
    (
        "finder",
        pa.dictionary(pa.int32(), pa.string()),
        "name of the finder that reported it; `sweep` in the table `swept`",
    ),
    ("score", pa.float32(), "the finder's confidence, 0 to 1"),
    (
        "section",
        pa.dictionary(pa.int32(), pa.string()),
        "mail header field in lower case, `body`, or null outside mail",
    ),
    ("entity_id", _I64, "the same for all values of one person; null if unknown"),
)

VALUE_COUNTS = _define_table(
    "value_counts",
    "one distinct value with its counts over the corpus; additive over tasks",
    _VALUE,
    _KIND,
    ("occurrences", _I64, "number of occurrences in the corpus"),
    ("documents", _I64, "number of documents in which it occurs"),
    ("first_doc_no", _I64, "document of its first occurrence"),
    ("first_cell", _I32, "cell of its first occurrence"),
    ("first_start", _I64, "first code point of its first occurrence"),
)

VALUE_SPELLINGS = _define_table(
    "value_spellings",
    "one spelling of a value (vault: raw)",
    _VALUE,
    _KIND,
    ("value", _TEXT, "the value as it is written in the corpus"),
    ("normalised", _TEXT, "the normalised value; null if equal to `value`"),
)

COLUMN_VALUES = _define_table(
    "column_values",
    "one spelling of a value of a column that is pseudonymized or dropped (vault: raw)",
    _VALUE,
    _KIND,
    ("value", _TEXT, "the value as it is written in the corpus"),
    ("normalised", _TEXT, "the normalised value; null if equal to `value`"),
    ("first_doc_no", _I64, "the first document that has it in a column"),
)

SWEPT = TableSchema(
    "swept",
    "one occurrence that the finders missed and the leak check of a run found and removed; columns"
    " as in `occurrences`",
    OCCURRENCES.schema,
    OCCURRENCES.column_descriptions,
)

EDITS = _define_table(
    "edits",
    "one byte span that is replaced, sorted by (doc_no, cell, start_byte)",
    _DOC,
    _CELL,
    ("start_byte", _I64, "first UTF-8 byte of the span that is replaced"),
    ("end_byte", _I64, "UTF-8 byte after the span"),
    ("replacement", _TEXT, "the text that replaces the span"),
    (
        "part",
        pa.dictionary(pa.int32(), pa.string()),
        "part of the plan that replaced it, such as rmft",
    ),
    _KIND,
)

DROPS = _define_table(
    "drops",
    "one dropped document",
    _DOC,
    ("part", pa.dictionary(pa.int32(), pa.string()), "part of the plan that dropped it"),
    ("reason", pa.string(), "why it was dropped"),
    ("kept_doc_no", _I64, "the document that is kept instead of it; null if there is none"),
)

QUARANTINE = _define_table(
    "quarantine",
    "one quarantined record: it could not be read, or was too large",
    _DOC,
    ("source", pa.string(), "the input file"),
    ("location", pa.string(), "position in the file, such as `row 17` or `line 4`"),
    ("reason", pa.string(), "why it was quarantined: one word of a fixed list"),
)


class QuarantineRow(NamedTuple):
    """A row of the table `quarantine`."""

    doc_no: int
    source: str
    location: str
    reason: str


SOURCES = _define_table(
    "sources",
    "one document of the input: where it comes from; computed when a query reads it",
    _DOC,
    ("source", pa.string(), "the input file"),
    (
        "location",
        pa.string(),
        "position in the file, such as `row 17`, `line 4`, `mail 2`, `file`,"
        " `part at byte 67108864, line 4`, `after line 70412, record 5` (docs/reference/input.md)",
    ),
)

SKIPPED = _define_table(
    "skipped",
    "number of rejected candidates of one kind, by reason",
    _KIND,
    (
        "reason",
        pa.string(),
        (
            "why they were rejected: the check of the kind that failed, such as luhn, or overlap if"
            " another span was selected"
        ),
    ),
    ("candidates", _I64, "number of candidates"),
)

DOCUMENT_IDS = _define_table(
    "document_ids", "one document", ("doc_id_hash", _I64, "keyed hash of its doc_id")
)

LABELS = _define_table(
    "labels",
    "one numbered label or pseudonym of a document, and the value that it replaces (vault)",
    _DOC,
    (
        "label",
        pa.string(),
        "the label, such as [EMAIL_ADDRESS-1], or the pseudonym as it is written in the document",
    ),
    _VALUE,
)

VALUE_USERS = _define_table(
    "value_users",
    "one distinct pair of a value and a user who has a document in which it occurs",
    _VALUE,
    ("user_no", _I64, "number of the user, as in `users`"),
)

USERS = _define_table(
    "users",
    "one document and its user; documents without a user_id are not listed",
    _DOC,
    (
        "user_no",
        _I64,
        "number of the user, from 0, in the order of the first document of each user",
    ),
)

_NGRAM = (
    "ngram",
    _TEXT,
    (
        "its words in lower case, separated by single spaces; a word is a run of letters, marks and"
        " digits"
    ),
)
_NGRAM_SIZE = ("n", _I32, "number of words in it")
_REASON = (
    "reason",
    pa.string(),
    "why it is listed: direct (part of a found value) or indirect (too few users)",
)

NGRAMS = _define_table(
    "ngrams",
    "one distinct n-gram of one to three words in the texts as they were indexed",
    _NGRAM_SIZE,
    _NGRAM,
    ("users", _I64, "number of users who wrote it; 0 if none of its documents has a user_id"),
    ("occurrences", _I64, "number of occurrences in the texts"),
    ("reason", pa.string(), "why it is on the blacklist of the selected run; null if it is not"),
)

BLACKLIST = _define_table(
    "blacklist",
    "one n-gram that a model must not learn, sorted by (n, reason, ngram) (vault)",
    _NGRAM,
    _NGRAM_SIZE,
    (
        "users",
        _I64,
        (
            "number of users who wrote it; null for direct n-grams, which are listed for any number"
            " of users"
        ),
    ),
    _REASON,
)

LEDGER = _define_table(
    "ledger",
    "privacy loss that one mechanism with a privacy claim spent in one document",
    ("part", pa.dictionary(pa.int32(), pa.string()), "part of the plan that spent it"),
    (
        "privacy_unit",
        pa.string(),
        "the unit that one application of the mechanism protects, such as word",
    ),
    _DOC,
    ("unit_count", _I64, "number of applications in this document"),
    ("epsilon_per_unit", pa.float64(), "privacy loss (epsilon) of one application"),
)

PARTS = _define_table(
    "parts",
    "one part of the plan of the selected run",
    ("part_no", _I32, "its position in the plan, from 0; droppers come before editors"),
    ("stage", pa.string(), "drop or edit"),
    ("part", pa.string(), "its name in the plan, such as rmft"),
)

_MAIN_TABLES = (
    OCCURRENCES,
    VALUE_COUNTS,
    VALUE_SPELLINGS,
    COLUMN_VALUES,
    VALUE_USERS,
    USERS,
    NGRAMS,
    SWEPT,
    EDITS,
    DROPS,
    BLACKLIST,
    LABELS,
    LEDGER,
    PARTS,
)
_OTHER_TABLES = (SOURCES, QUARANTINE, SKIPPED, DOCUMENT_IDS)
ALL_TABLES = {table.name: table for table in (*_MAIN_TABLES, *_OTHER_TABLES)}
