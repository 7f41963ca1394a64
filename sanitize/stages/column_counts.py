"""Counts over the cells of columns that may name people, from which a run decides what they hold.

One pass over these columns, without finders; writes no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.arrow_buffers import fill_null_texts
from sanitize.core.keys import siphash
from sanitize.core.text_cells import CHAT_ROLES, is_valid_json
from sanitize.kinds.field_names import names_people
from sanitize.kinds.person import NO_PERSON_WORDS
from sanitize.stages.detection import FindTask, split_readable_rows
from sanitize.text.name_lexicon import count_name_cells, find_name_like

VERSION = 3  # raise it when other cells are counted
MAX_DISTINCT = 256  # distinct cells that are counted
_MIN_TEXT_BYTES, _TEXT_PATTERN = 120, r"^\s*(?:\S+\s+){6}\S"  # of a cell that is a text


@dataclass(frozen=True, kw_only=True)
class CellCounts:
    """What is in the cells of one column. Of a column that is not called like people only the first
    three are counted, which decide about it.

    filled        Cells that are neither null nor blank.
    json          Cells that are a JSON object or list.
    names         Cells that are a name by the lexicon.
    name_like     Cells of two to four words with capitals, none of which is an ordinary word.
    addresses     Cells with a mail address.
    texts         Cells of seven words or more, or of more than 120 bytes.
    roles         Cells that are what chat formats call the parties of a conversation, or a word
                  that names no person.
    distinct      Keyed hashes of the distinct cells, ascending; None for more than `MAX_DISTINCT`.
    """

    filled: int = 0
    json: int = 0
    names: int = 0
    name_like: int = 0
    addresses: int = 0
    texts: int = 0
    roles: int = 0
    distinct: tuple[int, ...] | None = ()

    def __add__(self, other: CellCounts) -> CellCounts:
        distinct = None
        if self.distinct is not None and other.distinct is not None:
            distinct = tuple(sorted({*self.distinct, *other.distinct}))
        return CellCounts(
            filled=self.filled + other.filled,
            json=self.json + other.json,
            names=self.names + other.names,
            name_like=self.name_like + other.name_like,
            addresses=self.addresses + other.addresses,
            texts=self.texts + other.texts,
            roles=self.roles + other.roles,
            distinct=None if distinct is None or len(distinct) > MAX_DISTINCT else distinct,
        )


@dataclass(frozen=True, kw_only=True)
class ColumnCounts:
    """The counts of each of `FindTask.person_columns` in the documents of one task."""

    columns: Sequence[CellCounts]


def count_columns_task(task: FindTask) -> ColumnCounts:
    """Count the cells of `task.person_columns`."""
    key = task.key.subkey("column cells")
    counts = [CellCounts() for _ in task.person_columns]
    columns = [*dict.fromkeys([*task.person_columns, "doc_id"])]
    for table in task.documents.read(task.first_doc_no, task.end_doc_no, columns):
        table, _ = split_readable_rows(table.combine_chunks(), task)
        if not table.num_rows:
            continue
        cells = [fill_null_texts(table.column(name).chunk(0)) for name in task.person_columns]
        counts = [
            count
            + CellCounts(filled=filled, names=name_count, json=_count_json(texts))
            + (_count_cells(texts, key) if names_people(name) else CellCounts())
            for name, count, texts, (name_count, filled) in zip(
                task.person_columns, counts, cells, count_name_cells(cells), strict=True
            )
        ]
    return ColumnCounts(columns=counts)


def _count_json(cells: pa.LargeStringArray) -> int:
    """How many cells are a JSON object or list."""
    has_bracket = pc.match_substring_regex(cells, r"^\s*[\[{]")
    return sum(map(is_valid_json, cells.filter(has_bracket).to_pylist()))


def _count_cells(cells: pa.LargeStringArray, key: bytes) -> CellCounts:
    cells = cells.filter(pc.match_substring_regex(cells, r"\S"))
    is_text = pc.or_(
        pc.greater(pc.binary_length(cells), _MIN_TEXT_BYTES),
        pc.match_substring_regex(cells, _TEXT_PATTERN),
    )
    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    roles = pa.array([*CHAT_ROLES, *NO_PERSON_WORDS], pa.large_string())
    distinct = np.unique(siphash(cells.unique(), key))
    return CellCounts(
        name_like=int(find_name_like(cells).sum()),
        addresses=pc.sum(pc.match_substring_regex(cells, r"\S@\S")).as_py() or 0,
        texts=pc.sum(is_text).as_py() or 0,
        roles=pc.sum(pc.is_in(words, value_set=roles)).as_py() or 0,
        distinct=tuple(distinct.tolist()) if len(distinct) <= MAX_DISTINCT else None,
    )
