"""The tables of the house: every column explained, versioned by `VERSION`, written with one pair of settings.

Tables lie as folders of Parquet files, one file a task. Those under WORK hold originals or point at them and never leave it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

VERSION = 1
SWEEP = "sweep"  # the finder of what the leak check found


@dataclass(frozen=True)
class Table:
    """A table by its name: what a row is, its Arrow schema, and one line about each column."""

    name: str
    row: str
    schema: pa.Schema
    columns: dict[str, str]


def _table(name: str, row: str, *columns: tuple[str, pa.DataType, str]) -> Table:
    fields = [pa.field(column, kind) for column, kind, _ in columns]
    return Table(name, row, pa.schema(fields), {column: about for column, _, about in columns})


_I64, _I32, _TEXT = pa.int64(), pa.int32(), pa.large_string()
_DOC = ("doc_no", _I64, "position of the document in corpus order, from 0")
_CELL = ("cell", _I32, "which text of the document; 0 is the main text")
_KIND = ("kind", pa.dictionary(pa.int32(), pa.string()), "what it is, by Presidio's name, such as EMAIL_ADDRESS")
_VALUE = ("value_id", _I64, "keyed 63-bit identity of (kind, normalised value); no raw value")

OCCURRENCES = _table(
    "occurrences",
    "one place where personal data stands, sorted by (doc_no, cell, start)",
    _DOC,
    _CELL,
    ("start", _I64, "first code point of the span"),
    ("stop", _I64, "code point after the span"),
    ("start_byte", _I64, "first UTF-8 byte of the span"),
    ("stop_byte", _I64, "UTF-8 byte after the span"),
    _KIND,
    _VALUE,
    (
        "finder",
        pa.dictionary(pa.int32(), pa.string()),
        "which finder of the plan found it; `sweep` in the table `swept`",
    ),
    ("score", pa.float32(), "the finder's confidence, 0 to 1"),
    ("section", pa.dictionary(pa.int32(), pa.string()), "mail header field in lower case, `body`, or null outside mail"),
    ("entity_id", _I64, "values of one person share it; null where unknown"),
)

VALUE_COUNTS = _table(
    "value_counts",
    "one distinct value with its counts over the corpus; additive over tasks",
    _VALUE,
    _KIND,
    ("occurrences", _I64, "how often it stands in the corpus"),
    ("documents", _I64, "in how many documents"),
    ("first_doc_no", _I64, "document of its first occurrence"),
    ("first_cell", _I32, "cell of its first occurrence"),
    ("first_start", _I64, "first code point of its first occurrence"),
)

VALUES = _table(
    "values",
    "one spelling of a value (vault: raw)",
    _VALUE,
    _KIND,
    ("value", _TEXT, "the value as it is written in the corpus"),
    ("normalised", _TEXT, "its identity form; null where equal to `value`"),
)

SWEPT = Table(
    "swept",
    "one more place of a value, which the finders had missed and the leak check of a run took out; columns as in `occurrences`",
    OCCURRENCES.schema,
    OCCURRENCES.columns,
)

EDITS = _table(
    "edits",
    "one byte span that is replaced, sorted by (doc_no, cell, start_byte)",
    _DOC,
    _CELL,
    ("start_byte", _I64, "first UTF-8 byte that goes"),
    ("stop_byte", _I64, "UTF-8 byte after the span"),
    ("replacement", _TEXT, "what stands there instead"),
    ("part", pa.dictionary(pa.int32(), pa.string()), "which part of the plan did it, such as rmft"),
    _KIND,
)

DROPS = _table(
    "drops",
    "one document that goes",
    _DOC,
    ("part", pa.dictionary(pa.int32(), pa.string()), "which part of the plan dropped it"),
    ("reason", pa.string(), "why"),
    ("kept_doc_no", _I64, "the document that stays in its place; null where there is none"),
)

QUARANTINE = _table(
    "quarantine",
    "one record that could not be read, or was too large",
    _DOC,
    ("source", pa.string(), "the input file"),
    ("place", pa.string(), "where in the file, such as `row 17` or `line 4`"),
    ("reason", pa.string(), "why, in one word of a fixed list"),
)

SKIPPED = _table(
    "skipped",
    "how many candidates of a kind were not taken, by reason",
    _KIND,
    ("reason", pa.string(), "why: what the kind's check said, such as luhn, or overlap where another span stayed"),
    ("candidates", _I64, "how many"),
)

IDS = _table("ids", "one document", ("id", _I64, "keyed hash of its doc_id"))

LABELS = _table(
    "labels",
    "what a numbered label or a pseudonym of a document stands for (vault)",
    _DOC,
    ("label", pa.string(), "the label, such as [EMAIL_ADDRESS-1], or the pseudonym as it is written there"),
    _VALUE,
)

VALUE_USERS = _table(
    "value_users",
    "one distinct pair of a value and a user in whose documents it stands",
    _VALUE,
    ("user_no", _I64, "number of the user, as in `users`"),
)

USERS = _table(
    "users",
    "one document with its user; those without a user_id are left out",
    _DOC,
    ("user_no", _I64, "number of the user, from 0, in the order of their first documents"),
)

_NGRAM = ("ngram", _TEXT, "its words in lower case, one blank between two; a word is a run of letters, marks and digits")
_SIZE = ("n", _I32, "how many words it has")
_REASON = ("reason", pa.string(), "why: direct (part of a found value) or indirect (too few users)")

NGRAMS = _table(
    "ngrams",
    "one distinct n-gram of one to three words of the texts as they were indexed",
    _SIZE,
    _NGRAM,
    ("users", _I64, "by how many users; 0 where none of its documents has a user_id"),
    ("occurrences", _I64, "how often it stands in the texts"),
    ("reason", pa.string(), "why it is on the blacklist of the shown run; null where it is not"),
)

BLACKLIST = _table(
    "blacklist",
    "one n-gram that a model must not learn to say, and why, sorted by (n, reason, ngram) (vault)",
    _NGRAM,
    _SIZE,
    ("users", _I64, "by how many users; null for direct ones, which are listed however many there are"),
    _REASON,
)

LEDGER = _table(
    "ledger",
    "what a mechanism with a privacy claim spent in one document",
    ("part", pa.dictionary(pa.int32(), pa.string()), "which part of the plan spent it"),
    ("unit", pa.string(), "what one application protects, such as word"),
    _DOC,
    ("units", _I64, "how many applications in this document"),
    ("epsilon_per_unit", pa.float64(), "the privacy loss of one application"),
)

PARTS = _table(
    "parts",
    "one part of the plan of the shown run",
    ("part_no", _I32, "its place in the plan, from 0; droppers come before editors"),
    ("room", pa.string(), "drop or edit"),
    ("part", pa.string(), "its name in the plan, such as rmft"),
)

_EVERY = (OCCURRENCES, VALUE_COUNTS, VALUES, VALUE_USERS, USERS, NGRAMS, SWEPT, EDITS, DROPS, BLACKLIST, LABELS, LEDGER, PARTS)
ALL = {table.name: table for table in (*_EVERY, QUARANTINE, SKIPPED, IDS)}
