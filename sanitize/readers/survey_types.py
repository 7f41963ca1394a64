"""Data types of the readers: column roles, input units, survey results, and the reasons why a
record is quarantined."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sanitize.core.text_cells import JSON_STEP, LeafPath
from sanitize.errors import UsageError, suggest_names
from sanitize.storage.records.record_shapes import RecordShape

# see `standard_form.has_unknown_type`
UNKNOWN_TYPES = "a union, an interval, a list view or a run-end-encoded type"

# The reasons for a quarantine, with their explanation. The quarantine table holds the keys and no
# other text.
REASONS = {
    "bad_arguments": "the arguments of a tool call are not valid JSON",
    "bomb": "it claims far more than a file of its size can hold",
    "crashed": "the process that read it crashed",
    "empty_file": "it has no bytes",
    "encrypted": "it is encrypted",
    "memory": "reading it takes more memory than one file is given",
    "new_column": "it has a key that no sampled record of its file has",
    "no_header": (
        "its first line does not name each of its columns once, including the main text's column"
        " (set by --text-column) or others that tables often have"
    ),
    "no_text": "it has no main text",
    "no_turns": "its conversation has no turns",
    "not_a_file": "it is a pipe, a socket or a device",
    "not_analysed": "a finder ran out of time on it, or failed",
    "not_an_object": "it is JSON, but not an object",
    "not_csv": (
        "its quotes are not balanced: one is never closed, or something other than a separator"
        " follows a closing quote"
    ),
    "not_json": "it is not valid JSON",
    "not_utf8": "it has bytes or escapes that are not valid Unicode text",
    "repeated_key": "a key of one of its JSON objects occurs twice, with different values",
    "symlink": "it is a symbolic link that leads out of its folder, to a folder, or to nothing",
    "timed_out": "reading it takes far longer than its size explains",
    "too_deep": "its brackets are nested more than 200 deep, or its lists more than 30",
    "too_large": "it is larger than --max-doc-bytes",
    "too_many_matches": "the finders match more in it than --max-doc-matches",
    "truncated": "it ends too early, or its compressed data is damaged",
    "unknown_column_type": f"it has a column that Parquet cannot store: of {UNKNOWN_TYPES}",
    "unknown_encoding": "it is not UTF-8, and too short or too mixed to tell its encoding",
    "unknown_format": "its format is not supported, or its content does not match its name",
    "unknown_role": (
        "a turn of its conversation has no role, or an unknown one; --text-column with the path of"
        " the texts accepts any role"
    ),
    "unreadable": "the system or the format's library cannot read it",
    "wrong_cells": "it has more or fewer cells than its file has columns",
    "wrong_schema": "its columns are not those of the corpus",
    "wrong_type": "it has a value that does not fit the type of its column",
}


TEXT_DOCUMENTS = ("file", "paragraphs", "lines")
FORMAT_NAMES = ("text", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "mbox", "mail")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """How the input is read: which columns have which role, which files of folders count, and in
    which format.

    text       The texts, the main text first: leaf paths, such as `text` or `messages[].content`.
    user       The column with the user of each document; None: `user_id`, if there is one.
    id         The column with the document id; None: `doc_id`, if there is one.
    documents  What a document is in plain text files: the `file`, or each of its `paragraphs` or
               `lines`.
    read_as    The format of all files, one of FORMAT_NAMES; None: by name and content.
    lineage    Two more columns (lineage.py) say where each document comes from.
    include    Of the files in folders, only those whose paths or names match one of these patterns.
    shape      The recognised shape of the records (record_shapes.py), set by the survey; None where
               the user names the texts.
    """

    text: tuple[str, ...] = ("text",)
    user: str | None = None
    id: str | None = None
    documents: str = "file"
    read_as: str | None = None
    lineage: bool = False
    # the files say what was read: no part of the description that is hashed
    include: tuple[str, ...] = field(default=(), repr=False)
    shape: RecordShape | None = None
    # the survey chose the main text, because the user named none: not every record has to have it
    is_chosen: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--documents", self.documents, TEXT_DOCUMENTS),
            ("--as", self.read_as or "text", FORMAT_NAMES),
        ):
            if value not in known:
                raise UsageError(f"{option} {value}: {suggest_names(value, known)}")


@dataclass(frozen=True, kw_only=True)
class InputUnit:
    """A piece of the input that one worker reads as one task.

    rows               How many documents it has; None where that is known only after staging.
    files              The files it consists of: `(path,)`, or up to 1,000 of a folder with one mail
                       or text a file; `path` is the folder.
    row_groups         Parquet: the numbers of its row groups.
    in_place           True for Parquet that is read in place; every other unit is staged.
    column_mapping     (column in the file, column in standard form), in the file's order.
    start, end         The bytes in which its records begin, where a large file is cut; None: to its
                       end. Parquet: start is its first row.
    file_formats       How each of several files is read: `mail`, `mbox`, `text`, or the reason why
                       it cannot be read.
    quarantine_reason  The reason why all of its records are quarantined; "" where they are read.
    split              The split that it belongs to (splits.py); "" where the corpus has none.
    input_path         The input that the user named, to which its files belong.
    """

    no: int
    path: str
    format: str
    rows: int | None = None
    files: tuple[str, ...] = ()
    row_groups: tuple[int, ...] = ()
    in_place: bool = False
    column_mapping: tuple[tuple[str, str], ...] = ()
    start: int = 0
    end: int | None = None
    file_formats: tuple[str, ...] = ()
    quarantine_reason: str = ""
    split: str = ""
    input_path: str = ""


@dataclass(frozen=True)
class DocumentSample:
    """A sample of about this share of the documents. They are drawn by their ids (by their
    positions where they have none) under a key of 16 bytes, so a document of a smaller share is
    also in every larger one.
    """

    share: float
    key: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class StagingLayout:
    """The standard form of a corpus: the schema that staging writes, the column roles, the columns
    whose texts or whose elements are JSON, and the sample if only a sample is written."""

    schema: pa.Schema
    roles: Roles
    json_columns: tuple[str, ...] = ()
    sample: DocumentSample | None = None

    def cell_leaf(self, leaf: LeafPath) -> LeafPath:
        """The path of the text cells at a leaf: the strings inside, where it is JSON."""
        is_json = (
            leaf.column in self.json_columns
            and leaf.steps in ((), ("[]",))
            and str(leaf) != self.main_path
        )
        return LeafPath(leaf.column, (*leaf.steps, JSON_STEP)) if is_json else leaf

    @property
    def main_column(self) -> str:
        """The name of the column with the main text."""
        return str(self.schema.field(2).name)

    @property
    def main_path(self) -> str:
        """The path of the main text in standard form."""
        is_plain = self.main_column == "text" and not pa.types.is_nested(self.schema.field(2).type)
        return "text" if is_plain else self.roles.text[0]


@dataclass(frozen=True, kw_only=True)
class IndexedInput:
    """What an existing index already covers when files are added to it: its schema in standard
    form, the paths to skip, and its main text."""

    schema: pa.Schema
    known_paths: frozenset[str]
    features: Mapping[str, Any] = field(default_factory=dict)
    main_text: str = ""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The result of a survey of the inputs. `units` and `files` are in corpus order; files in
    `unreadable` are also in `units`, with one record each. `features`: those of `datasets`
    (dataset_features.py) by column, empty where a file has none. `files_without_split`: how many
    files are in train although their paths name no split, where others name one.
    """

    units: list[InputUnit]
    files: list[tuple[str, int]]
    unreadable: list[tuple[str, str]]
    ignored: list[str]
    layout: StagingLayout
    features: Mapping[str, Any] = field(default_factory=dict)
    files_without_split: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The schema of the corpus in standard form."""
        return self.layout.schema

    def with_json_columns(self, names: Collection[str]) -> Survey:
        """The same with further columns whose texts are JSON."""
        columns = dict.fromkeys([*self.layout.json_columns, *names])
        return replace(self, layout=replace(self.layout, json_columns=tuple(columns)))

    @property
    def roles(self) -> Roles:
        """The column roles."""
        return self.layout.roles


@dataclass(frozen=True, kw_only=True)
class StagingResult:
    """The result of staging one unit: rows written (including quarantined ones), rows quarantined,
    and the guessed encoding of each file that is not UTF-8."""

    rows: int
    quarantined: int
    guessed_encodings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FileSurvey:
    """What a reader learns about one file without reading all of it.

    schema          Its columns, in the canonical types of core/text_cells.py.
    is_inferred     True where columns and types are provisional (JSON: from a sample; CSV: from the
                    header); types may be widened.
    units           The units that the file is cut into; the survey of all files sets their `no` and
                    `column_mapping`.
    column_mapping  (column in the file, column in standard form), where the format defines it; else
    the user's column roles do.
    features        The features of `datasets` in its metadata, as JSON; "" where it has none.
    """

    schema: pa.Schema
    is_inferred: bool
    units: tuple[InputUnit, ...]
    column_mapping: tuple[tuple[str, str], ...] = ()
    features: str = ""


class UnreadableFile(Exception):
    """This file cannot be read, for one of `REASONS`. A file that the user named is refused; a file
    in a folder becomes a quarantined record.
    """

    def __init__(self, reason: str) -> None:
        assert reason in REASONS
        super().__init__(reason)
        self.reason = reason
