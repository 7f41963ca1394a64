"""The nouns of this room: what the user said, what a survey found, what one worker reads, and why a record is set aside."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pyarrow as pa

from sanitize.errors import UsageError, nearest

# A reason is one of these words; nothing else ever stands in a quarantine table.
REASONS = {
    "bomb": "it claims far more than a file of its size can hold",
    "crashed": "the process that read it ended without a word",
    "empty_file": "it has no bytes",
    "encrypted": "it is encrypted",
    "memory": "reading it takes more memory than one file is given",
    "new_column": "it has a key that no sampled record of its file has",
    "no_header": "its first line does not name its columns, each once and the main text's among them (--text-column says which that is)",
    "no_text": "it has no main text",
    "not_a_file": "it is a pipe, a socket or a device",
    "not_analysed": "a finder ran out of time on it, or failed",
    "not_an_object": "it is JSON, but no object",
    "not_csv": "its quotes do not fit: one is never closed, or more than a separator follows one",
    "not_json": "it is no JSON",
    "not_utf8": "it has bytes or escapes that are no Unicode text",
    "symlink": "it is a link out of its folder, to a folder, or to nothing",
    "timed_out": "reading it takes far longer than its size explains",
    "too_large": "it is larger than --max-doc-bytes",
    "truncated": "it breaks off before its end",
    "unknown_format": "nothing here reads its format, or it is not what its name says",
    "unreadable": "the system or the format's library cannot read it",
    "wrong_cells": "it has more or fewer cells than its file has columns",
    "wrong_schema": "its columns are not those of the corpus",
    "wrong_type": "it has a value that does not fit the type of its column",
}


SPLITS = ("file", "paragraphs", "lines")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the user said about columns. Names are leaf paths, such as `text` or `messages[].content`.

    split  What a document is in plain text files: the `file`, or each of its `paragraphs` or `lines`.
    """

    text: tuple[str, ...] = ("text",)
    user: str | None = None
    id: str | None = None
    split: str = "file"

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UsageError(f"--split {self.split}: {nearest(self.split, SPLITS)}")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A piece of the input that one worker reads in one go.

    rows       How many documents it has; None where that is known only after staging.
    files      The files it consists of: `(path,)`, or up to 1,000 of a tree with one mail or text a file; then `path` is the folder.
    groups     Parquet: the row groups.
    view       True for Parquet that is read in place; all else is staged.
    columns    (column in the file, column in standard form), in the file's order.
    start/stop The bytes in which its records begin, where a large file is cut; stop None is the end. Parquet: start is its first row.
    how        How each of several files is read: `mail`, `mbox`, `text`, or the reason why it is not.
    lost       The reason why none of its records is taken; "" where they are.
    """

    no: int
    path: str
    format: str
    rows: int | None = None
    files: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()
    view: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    start: int = 0
    stop: int | None = None
    how: tuple[str, ...] = ()
    lost: str = ""


@dataclass(frozen=True)
class Sample:
    """About this share of the documents, drawn by their ids (where they have none, by their places) under a key of 16 bytes: a document
    of a smaller share is in every larger one."""

    share: float
    key: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The standard form of a corpus: the schema of what staging writes, the roles behind it, and whether only a sample is written."""

    schema: pa.Schema
    roles: Roles
    sample: Sample | None = None

    @property
    def main(self) -> str:
        """The name of the column with the main text: `text`, or the column's own where it is nested."""
        return str(self.schema.field(2).name)

    @property
    def leaf(self) -> str:
        """The path of the main text in standard form."""
        return "text" if self.main == "text" else self.roles.text[0]


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What an index holds already, which other files are to be added to: its schema in standard form, and the paths that are left out."""

    schema: pa.Schema
    paths: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What lies in the inputs. `units` and `files` are in corpus order; `bad` is in `units` too, one record each."""

    units: list[Unit]
    files: list[tuple[str, int]]
    bad: list[tuple[str, str]]
    ignored: list[str]
    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The schema of the corpus in standard form."""
        return self.layout.schema

    @property
    def roles(self) -> Roles:
        """What plays which role."""
        return self.layout.roles


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What staging one unit gave: rows written (quarantined ones too), rows quarantined, bytes of the file written."""

    rows: int
    quarantined: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a reader sees in one file without reading it through.

    schema   Its columns in plain types.
    soft     True where the types were inferred from a sample, so that they may be widened.
    pieces   The units it makes, with `no` and `columns` still to be filled in.
    columns  Its (column, column in standard form), where the format says that and not the user.
    """

    schema: pa.Schema
    soft: bool
    pieces: tuple[Unit, ...]
    columns: tuple[tuple[str, str], ...] = ()


class Unreadable(Exception):
    """This file cannot be read, for one of `REASONS`: a refusal where the user named it, a quarantined record in a folder."""

    def __init__(self, reason: str) -> None:
        assert reason in REASONS
        super().__init__(reason)
        self.reason = reason


def shown(path: str) -> str:
    """A path that can be printed and stored whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
