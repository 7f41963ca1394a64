"""Records on their way through a stream, as they came (dictionaries, or Arrow tables), and their texts as columns of cells.

A lot is some records in order. `sheaf` takes its texts out, `rewritten` puts others in their place; everything else stays as it came.
The cells of a record are numbered so that it does not matter what comes later: its fields in the order in which they were first met in
the stream, the main text first, and texts that turn up in a field that had none before behind all others. Of a list only what is there
counts. For records that are all alike that is the order of a run over the same files.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.keys import Key, pseudonyms
from sanitize.core.text_cells import Leaf, flatten, is_text, leaves, plain
from sanitize.errors import InputRefused, UsageError, nearest
from sanitize.readers.standard_form import faults, is_binary, leaf_of
from sanitize.readers.survey import Roles

I64 = npt.NDArray[np.int64]
TEXT = pa.large_string()
Row = dict[str, Any]
Steps = tuple[str, ...]
_BEHIND = 1 << 40


@dataclass(frozen=True)
class Fault:
    """Why a record is set aside: one of the words of `read.REASONS`, or `leak`; where it stood, and what it was (`raw`)."""

    reason: str
    place: str = ""
    raw: str = ""


_NAME = re.compile(r"[^\W\d][\w.-]{0,39}((\[\])?\.[^\W\d][\w.-]{0,39})?")  # no space and no @


@dataclass
class Layout:
    """Which column is what: roles, the policies that differ from the defaults, and all places where texts were met, in the order of cells,
    each with a number that says how it came there (`rank`)."""

    roles: Roles
    policies: Mapping[str, str]
    found: list[tuple[str, Steps]] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        main = self.roles.text[0]
        self.main, *steps = main.replace("[]", ".[]").split(".")
        self.steps = tuple(steps)
        if not self.found:
            self.found.append((self.main, self.steps))
            self.ranks.append(-1)
        if self.policies.get(self.main, "sanitize") != "sanitize":
            raise UsageError(f"--{self.policies[self.main]} {self.main}: it is the main text, which is always sanitized")
        self._known = set(self.found)
        self._places = {column: number for number, column in enumerate(self.columns)}

    @property
    def id(self) -> str:
        """The column that draws hang on."""
        return self.roles.id or "doc_id"

    @property
    def user(self) -> str:
        """The column that says who wrote a record."""
        return self.roles.user or "user_id"

    def policy(self, column: str) -> str:
        """What is done with the texts of a column."""
        if column == self.main:  # also where it is the id or the user
            return "sanitize"
        return self.policies.get(column, {self.id: "keep", self.user: "pseudonymize"}.get(column, "sanitize"))

    def new(self, column: str) -> bool:
        """Take note of a column; whether it was never met before."""
        if column in self._places:
            return False
        self._places[column] = len(self.columns)
        self.columns.append(column)
        return True

    def meet(self, column: str, steps: Steps, fresh: bool) -> None:
        """Take note of a place where texts stand; `fresh`: in a column that was met just now."""
        if (column, steps) not in self._known:
            self._known.add((column, steps))
            # what counts only where it is there can come between others, and a column that nobody has; anything else goes behind
            rank = self._places[column] if fresh or "[]" in steps else _BEHIND
            at = bisect.bisect_right(self.ranks, rank)
            self.found.insert(at, (column, steps))
            self.ranks.insert(at, rank)


@dataclass(frozen=True, repr=False)
class Sheaf:
    """The texts of a lot: a table with `doc_no`, `doc_id` and columns that hold the cells at `leaves`; which row of the lot each of its
    rows is; the place in the records of each leaf; texts that are kept and only checked, with their rows; and the names of columns and
    fields."""

    table: pa.Table
    rows: I64
    leaves: tuple[Leaf, ...]
    found: tuple[tuple[str, Steps], ...]
    kept: list[tuple[pa.LargeStringArray, I64]]
    names: list[str]


class Lot(Protocol):
    """Some records of a stream."""

    bad: dict[int, Fault]

    def __len__(self) -> int:
        """How many records, those that could not be read included."""

    def sheaf(self, layout: Layout, first: int, limit: int) -> Sheaf:
        """The texts of the records that are not `bad`, with `first` as the number of the lot's first; records that do not fit become bad,
        those with more than `limit` bytes of text too."""

    def rewritten(self, sheaf: Sheaf, table: pa.Table, edited: I64, layout: Layout, key: Key) -> Lot:
        """The records of a sheaf with the texts of `table`, which differ in the rows `edited`; pseudonyms made, dropped columns gone."""

    def holds(self, row: int, names: set[str]) -> bool:
        """True where one of the names is that of a field of the record."""

    def has(self, name: str) -> bool:
        """True where some record has a column of that name."""

    def named(self, main: str) -> Iterator[str]:
        """Columns, and the fields of the main one and of lists of objects, for an error that lists them: what looks like a name, each
        once. Keys of other objects may be people."""

    def raw(self, row: int) -> str:
        """A record as JSON."""


class Records:
    """Records as dictionaries."""

    def __init__(self, rows: list[Row | None], bad: dict[int, Fault] | None = None) -> None:
        self.rows, self.bad = rows, bad or {}

    def __len__(self) -> int:
        return len(self.rows)

    def sheaf(self, layout: Layout, first: int, limit: int) -> Sheaf:
        """See `Lot`."""
        names: set[str] = set()
        flat = {column for column, steps in layout.found if not steps} & set(layout.columns)
        # a loop over records: JSON objects have no columnar form
        for row, record in enumerate(self.rows):
            if record is None:
                continue
            if layout.main not in record:
                self._set_aside(row, "no_text")
                continue
            if not layout.steps and not isinstance(record[layout.main], str | None):
                self._set_aside(row, "wrong_type")
                continue
            names.update(record)
            for column, value in record.items():
                if column not in flat and layout.policy(column) == "sanitize":
                    fresh = layout.new(column)
                    if isinstance(value, str) or (fresh and value is None):
                        flat.add(column)
                        layout.meet(column, (), fresh)
                    elif isinstance(value, dict | list):
                        for steps in _met(value, (), names):
                            layout.meet(column, steps, fresh)
                elif isinstance(value, dict | list) and layout.policy(column) == "sanitize":
                    for steps in _met(value, (), names):
                        layout.meet(column, steps, False)
        good = [row for row in range(len(self.rows)) if row not in self.bad]
        while True:
            try:
                sheaf = self._columns(layout, first, good, sorted(names))
                break
            except UnicodeEncodeError:  # half a surrogate pair, which no text can hold
                good = [row for row in good if self._encodes(row)]
        table = sheaf.table.drop_columns(["doc_no"])
        wrong = faults(table.combine_chunks().to_batches()[0], limit) if good else {}
        for row, reason in wrong.items():
            self._set_aside(good[row], reason)
        return self._columns(layout, first, [row for row in good if row not in self.bad], sorted(names)) if wrong else sheaf

    def _encodes(self, row: int) -> bool:
        try:
            json.dumps(self.rows[row], ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            self._set_aside(row, "not_utf8")
            return False
        return True

    def _set_aside(self, row: int, reason: str) -> None:
        self.bad[row] = Fault(reason, raw=self.raw(row))

    def raw(self, row: int) -> str:
        """See `Lot`."""
        return json.dumps(self.rows[row], ensure_ascii=True, default=str)

    def _columns(self, layout: Layout, first: int, good: list[int], names: list[str]) -> Sheaf:
        records = [record for row in good if (record := self.rows[row]) is not None]
        rows = np.array(good, np.int64)
        columns: dict[str, pa.Array] = {"doc_no": pa.array(first + rows)}
        columns["doc_id"] = pa.array([_id(record.get(layout.id), first + row) for record, row in zip(records, good, strict=True)], TEXT)
        places = []
        for number, (column, steps) in enumerate(layout.found):
            name = f"c{number}"
            if "[]" in steps:
                lists = [[text for text in _at(record.get(column), steps) if text is None or isinstance(text, str)] for record in records]
                columns[name] = pa.array(lists, pa.large_list(TEXT))
                places.append(Leaf(name, ("[]",)))
            else:
                texts = [next(_at(record.get(column), steps), None) if steps else record.get(column) for record in records]
                columns[name] = pa.array([text if isinstance(text, str) else None for text in texts], TEXT)
                places.append(Leaf(name))
        kept: list[tuple[pa.LargeStringArray, I64]] = []
        for column in names:
            if layout.policy(column) == "keep":
                found = [(row, text) for row, record in enumerate(records) for text in _texts(record.get(column))]
                if found:
                    kept.append((pa.array([text for _, text in found], TEXT), rows[[row for row, _ in found]]))
        return Sheaf(pa.table(columns), rows, tuple(places), tuple(layout.found), kept, names)

    def rewritten(self, sheaf: Sheaf, table: pa.Table, edited: I64, layout: Layout, key: Key) -> Records:
        """See `Lot`."""
        rows: list[Row | None] = [self.rows[row] for row in sheaf.rows.tolist()]
        dropped = [name for name in sheaf.names if layout.policy(name) == "drop"]
        coded = [name for name in sheaf.names if layout.policy(name) == "pseudonymize"]
        changed: dict[int, Row] = {}

        def own(row: int) -> Row:
            if row not in changed:
                changed[row] = dict(rows[row] or {})
            return changed[row]

        for number, (column, steps) in enumerate(sheaf.found):
            texts = table.column(f"c{number}").combine_chunks().take(pa.array(edited)).to_pylist()
            for row, text in zip(edited.tolist(), texts, strict=True):
                mine = own(row)
                if not steps:
                    if isinstance(mine.get(column), str):
                        mine[column] = text
                elif column in mine:
                    mine[column] = _put(mine[column], steps, iter(text if isinstance(text, list) else [text]))
        for name in coded:
            # a pseudonym is of a text, as in a run: a number is one by its digits, and what is nested has none
            said = [(row, value) for row, record in enumerate(rows) if record is not None and (value := record.get(name)) is not None]
            column = "user_id" if name == layout.user else name
            made = pseudonyms(pa.array([_plain(value) for _, value in said], TEXT), column, key).to_pylist()
            for (row, _), code in zip(said, made, strict=True):
                own(row)[name] = code
        for name in dropped:
            for row, record in enumerate(rows):
                if record is not None and name in record:
                    own(row).pop(name)
        return Records([changed.get(row, record) for row, record in enumerate(rows)])

    def holds(self, row: int, names: set[str]) -> bool:
        """See `Lot`."""
        found: set[str] = set()
        for _ in _met(self.rows[row], (), found):
            pass
        return bool(found & names)

    def has(self, name: str) -> bool:
        """See `Lot`."""
        return any(record is not None and name in record for record in self.rows)

    def named(self, main: str) -> Iterator[str]:
        """See `Lot`."""
        found: set[str] = set()
        for record in self.rows:
            for column, value in (record or {}).items():
                of_list = isinstance(value, list) and value and isinstance(value[0], dict)
                inner = value[0] if of_list else value if column == main and isinstance(value, dict) else {}
                fields = (f"{column}{'[]' if of_list else ''}.{name}" for name in inner)
                new = [one for one in (str(column), *fields) if one not in found and _NAME.fullmatch(one)]
                found.update(new)
                yield from new


class Columns:
    """Records as an Arrow table."""

    def __init__(self, table: pa.Table, bad: dict[int, Fault] | None = None) -> None:
        self.table, self.bad = table, bad or {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _policy(self, layout: Layout, column: str) -> str:
        """As for records; bytes that are not asked for go, as in a run."""
        policy = layout.policy(column)
        bytes_alone = is_binary(self.table.schema.field(column).type)
        return "drop" if bytes_alone and column not in layout.policies else policy

    def sheaf(self, layout: Layout, first: int, limit: int) -> Sheaf:
        """See `Lot`."""
        whole = pa.table({name: plain(_whole(self.table.column(name))) for name in self.table.column_names})
        main = leaf_of(layout.roles.text[0], whole.schema)
        for option, name in (("text-column", layout.main), ("id-column", layout.roles.id), ("user-column", layout.roles.user)):
            if name is not None and name not in whole.column_names:
                said = f"there is no column {name}; name the column with --{option} NAME. Columns {nearest(name, whole.column_names)}"
                raise InputRefused(f"the stream: {said}")
        if main is None or main not in leaves(whole.schema):
            takes = "--text-column takes a column of strings, and `sanitize run` reads mails in bytes"
            raise InputRefused(f"the stream: column {layout.main} holds no text; {takes}")
        fresh: set[str] = set()
        for leaf in leaves(whole.schema):
            if self._policy(layout, leaf.column) == "sanitize":
                fresh |= {leaf.column} if layout.new(leaf.column) else set()
                layout.meet(leaf.column, leaf.steps, leaf.column in fresh)
        known = layout.id in whole.column_names and not pa.types.is_nested(whole.schema.field(layout.id).type)
        numbers = pa.array(np.arange(first, first + len(self)))
        ids = numbers.cast(TEXT)
        columns = {"doc_no": numbers, "doc_id": pc.coalesce(_whole(whole.column(layout.id)).cast(TEXT), ids) if known else ids}
        places = []
        for number, (column, steps) in enumerate(layout.found):
            if column in whole.column_names and Leaf(column, steps) in leaves(whole.schema):
                columns[f"k{column}"] = _whole(whole.column(column))
                places.append(Leaf(f"k{column}", steps))
            else:
                nothing = pa.large_list(TEXT) if "[]" in steps else TEXT
                columns[f"c{number}"] = pa.nulls(len(self), nothing)
                places.append(Leaf(f"c{number}", ("[]",) if "[]" in steps else ()))
        table = pa.table(columns)
        for row, reason in faults(table.drop_columns(["doc_no"]).to_batches()[0], limit).items() if len(self) else ():
            self.bad.setdefault(row, Fault(reason, raw=self.raw(row)))
        rows = np.setdiff1d(np.arange(len(self)), np.array(list(self.bad), np.int64))
        if len(rows) < len(self):
            table, whole = (one.take(pa.array(rows)).combine_chunks() for one in (table, whole))
        kept = []
        for name in whole.column_names:
            if self._policy(layout, name) == "keep":
                for place in leaves(pa.schema([whole.schema.field(name)])):
                    found = flatten(_whole(whole.column(name)), place)
                    kept.append((found.texts.fill_null(""), rows[found.rows]))
                if is_binary(whole.schema.field(name).type):
                    raw = _whole(whole.column(name)).cast(pa.large_binary()).fill_null(b"")
                    _, offsets, data = raw.buffers()  # the matcher compares bytes, whatever they spell
                    kept.append((pa.LargeStringArray.from_buffers(len(raw), offsets, data, None, 0, raw.offset), rows))
        names = [*whole.column_names, *(step for leaf in leaves(whole.schema) for step in leaf.steps if step != "[]")]
        return Sheaf(table, rows, tuple(places), tuple(layout.found), kept, names)

    def rewritten(self, sheaf: Sheaf, table: pa.Table, edited: I64, layout: Layout, key: Key) -> Columns:
        """See `Lot`."""
        out = self.table if len(sheaf.rows) == len(self) else self.table.take(pa.array(sheaf.rows))
        for name in self.table.column_names:
            place, policy = out.column_names.index(name), self._policy(layout, name)
            if policy == "drop":
                out = out.remove_column(place)
            elif policy == "pseudonymize":
                if not is_text(out.schema.field(name).type):
                    raise InputRefused(f"--pseudonymize {name}: it is not a plain string column; use --sanitize, --keep or --drop")
                column = "user_id" if name == layout.user else name
                out = out.set_column(place, name, pseudonyms(plain(_whole(out.column(name))), column, key))
            elif f"k{name}" in table.column_names:
                out = out.set_column(place, name, table.column(f"k{name}"))
            elif name not in (layout.id,):
                out = out.set_column(place, name, plain(_whole(out.column(name))))
        return Columns(out.replace_schema_metadata(None))

    def raw(self, row: int) -> str:
        """See `Lot`."""
        try:
            return json.dumps(self.table.slice(row, 1).to_pylist()[0], default=repr)
        except UnicodeDecodeError:
            return json.dumps({name: repr(self.table.column(name).slice(row, 1).cast(pa.large_binary())) for name in self._strings()})

    def _strings(self) -> list[str]:
        return [name for name in self.table.column_names if is_text(self.table.schema.field(name).type)]

    def holds(self, row: int, names: set[str]) -> bool:
        """See `Lot`."""
        return True

    def has(self, name: str) -> bool:
        """See `Lot`."""
        return name in self.table.column_names

    def named(self, main: str) -> Iterator[str]:
        """See `Lot`."""
        return filter(_NAME.fullmatch, self.table.column_names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _id(value: Any, doc_no: int) -> str:
    """What the draws of a record hang on."""
    return str(doc_no) if value is None or isinstance(value, dict | list) else _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _met(value: Any, steps: Steps, names: set[str]) -> Iterator[Steps]:
    """The steps to every string inside a value, and to what may be one; the names of fields on the way go to `names`."""
    if value is None or isinstance(value, str):
        yield steps
    elif isinstance(value, list):
        for inner in value:
            yield from _met(inner, (*steps, "[]"), names)
    elif isinstance(value, dict):
        names.update(value)
        for name, inner in value.items():
            yield from _met(inner, (*steps, name), names)


def _at(value: Any, steps: Steps) -> Iterator[Any]:
    """What stands at the end of some steps, wherever they lead: one thing, or one for every element of the lists on the way."""
    if not steps:
        yield value
    elif steps[0] == "[]":
        for inner in value if isinstance(value, list) else ():
            yield from _at(inner, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:])


def _put(value: Any, steps: Steps, texts: Iterator[str | None]) -> Any:
    """The value with the strings at the end of some steps replaced, in the order in which `_at` gives them."""
    if not steps:
        return next(texts) if value is None or isinstance(value, str) else value
    if steps[0] == "[]":
        return [_put(inner, steps[1:], texts) for inner in value] if isinstance(value, list) else value
    if isinstance(value, dict) and steps[0] in value:
        return {**value, steps[0]: _put(value[steps[0]], steps[1:], texts)}
    return value


def _texts(value: Any) -> Iterator[str]:
    """Every string inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
