"""What a part of a plan is: the protocols Finder, Dropper and Editor, what each declares, and how one is loaded by its file name.

A part is a frozen pydantic model: its fields are its settings in the plan, and unknown ones are refused. **The folder is the
registry**: `use = "rmft"` means `sanitize/editors/rmft.py`, class `Rmft`. A dotted path (`use = "mypackage.mine"`) names a user's own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from sanitize.core.keys import Key
from sanitize.errors import PlanError, nearest

I64 = npt.NDArray[np.int64]
Policy = Literal["erase", "keep", "ledger"]
Room = Literal["find", "drop", "edit"]
PACKAGES: Mapping[Room, str] = {"find": "finders", "drop": "droppers", "edit": "editors"}


@dataclass(frozen=True, repr=False)
class Sight:
    """What a part sees of some whole documents when it looks at texts, before anything is edited.

    `texts` (large_string, no nulls) with the document and the cell of each; `occurrences` has those of the part's kinds that earlier parts
    left, in order: doc_no, cell, start, start_byte, stop_byte, value_id. An editor that rewrites has more: `doc_ids`, what
    draws hang on, and `facts`, the `columns` that it asks for, both with one entry for each text.
    """

    doc_no: I64
    cell: npt.NDArray[np.int32]
    texts: pa.LargeStringArray
    occurrences: pl.DataFrame
    doc_ids: pa.DictionaryArray | None = None
    facts: pa.Table | None = None


class Whole(Protocol):
    """What a part may ask of the whole corpus, as far as earlier parts left it."""

    def look(self, name: str, of: Path | None = None) -> Sequence[Path]:
        """The table `name` of the part's `looks`, one file a task, made by its `look` on every document, or on those whose `doc_no` stand
        in the Parquet file `of`."""

    def ask(self, query: str, tables: Mapping[str, Sequence[Path]], **parameters: object) -> Path:
        """The result of one of the queries that the part `needs`, as a Parquet file. `occurrences_left` and `chosen_kinds` are there."""

    def write(self, name: str, table: pa.Table) -> Path:
        """A small table of the part's own as a file, for the next query."""


class Past(Protocol):
    """What stands before a batch, for an editor that decides in corpus order."""

    def taken(self, ids: I64, doc_no: I64) -> npt.NDArray[np.bool_]:
        """True for ids of values that stand in the document of that number or in one before it, and of variants made before this batch."""

    def made(self, ids: I64) -> npt.NDArray[np.bool_]:
        """True for ids of variants made before this batch."""

    def make(self, ids: I64) -> None:
        """Remember the variants of this batch, once it counts."""

    def parts(self, kind: str, part: str) -> tuple[pa.LargeStringArray, I64] | None:
        """The parts of the values seen so far, each once, in order of appearance, with the document that brought each; None where they
        are counted over a whole corpus."""


class Part(BaseModel):
    """The settings of one part of a plan. Frozen; its order in the plan is its precedence.

    `needs` names the queries that are counted for it. A part that reads texts before anything is edited names the tables it makes of them
    in `looks`; it sees the cells of the main text only, or `all`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    VERSION: ClassVar[int] = 1  # raise it when what comes out changes for the same settings, key and input: old work is then redone
    use: str
    needs: ClassVar[tuple[str, ...]] = ()
    looks: ClassVar[Mapping[str, pa.Schema]] = {}
    cells: ClassVar[Literal["main", "all"]] = "main"

    def look(self, name: str, sight: Sight) -> pa.Table:
        """The rows of the table `name` for some documents: a pure function of what it sees."""
        raise NotImplementedError(f"{type(self).__name__} lacks look()")


@dataclass(frozen=True)
class Counts:
    """What was counted over the whole corpus for one part: a Parquet file or folder for each of its `needs`, by name."""

    tables: Mapping[str, Path]


@dataclass(frozen=True, repr=False)
class Batch:
    """What an editor sees: the occurrences of its kinds in some whole documents, in order, and none that an earlier part claimed.

    `occurrences` has doc_no, cell, start, stop, kind, value_id, `kept`, `value` (the text of the span), and `swept`: true for what the
    leak check added, whose text may be no value of its kind as a finder would see one.
    `doc_ids` is aligned with it, dictionary-encoded.
    """

    occurrences: pl.DataFrame
    doc_ids: pa.DictionaryArray


@dataclass(frozen=True, repr=False)
class Rewrites:
    """What an editor that reads texts replaces in them: the text of each span, its first byte and the byte after, what stands there instead
    (large_string), and the row of the occurrence that goes with it, -1 where none does. An editor with a `unit` says the `draw` that each
    span shows: spans of one document with the same number show one draw, and spend once."""

    text_no: I64
    start: I64
    stop: I64
    replacement: pa.LargeStringArray
    occurrence: I64
    draw: I64 | None = None


@dataclass(frozen=True, repr=False)
class Column:
    """A column of texts as a finder sees it: `texts` (large_string, no nulls), and what is known of them already, in `found`: text_no,
    start_byte, stop_byte (from the text's first byte), kind (string) and value_id, sorted by place. To a finder of the first round
    that is what `patterns` found; to one of the second, all that the first round did. Where each text stands, in the first round:
    `doc_no`, `doc_id` and `cell`, one of each for every text."""

    texts: pa.LargeStringArray
    found: pl.DataFrame
    doc_no: I64 | None = None
    doc_id: pa.LargeStringArray | None = None
    cell: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True, repr=False)
class Spans:
    """What a finder found in a column: the text of each span, its first byte and the byte after it (from the text's first byte), its kind
    as a number in `kinds`, and how sure it is (0 to 1). Spans need not be sorted, and may overlap.

    A span's text is its value; where it is another spelling of a known one, `value_id` says of which (-1: none). `links` are pairs of
    values that are one person's: `value_id`, `other` (an address and the name beside it).

    `unread` are texts that it could not look at: in the first round their documents are set aside, whatever else was found in them.
    `refused` counts candidates that were not taken, by kind and reason. `placed` says for how many spans that the finder was given from
    outside there was a text.
    """

    text_no: I64
    start_byte: I64
    stop_byte: I64
    kind: npt.NDArray[np.int32]
    kinds: tuple[str, ...]
    score: npt.NDArray[np.float32]
    value_id: I64 | None = None
    links: pl.DataFrame | None = None
    unread: I64 | None = None
    refused: Mapping[tuple[str, str], int] = field(default_factory=dict)
    placed: int = 0

    @classmethod
    def none(cls, *, unread: I64 | None = None, refused: Mapping[tuple[str, str], int] | None = None) -> Spans:
        """No span at all."""
        nothing = np.empty(0, np.int64)
        kind, score = np.empty(0, np.int32), np.empty(0, np.float32)
        return cls(nothing, nothing, nothing, kind, (), score, unread=unread, refused=refused or {})


class Finder(Part):
    """A part that says where personal data stands. Its name and settings are part of what an index is known by.

    One of the first round looks at a batch alone. One of the `second` round looks once the first is over for the whole corpus, and is
    given what was gathered from it. Where spans of several finders overlap, sanitize/stages/span_conflicts.py says which one stays.
    """

    second: ClassVar[bool] = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that it may find; empty where that is any."""
        return ()

    def seeks(self, kind: str) -> bool:
        """Whether it may find a kind, as it is set. A plan that names a kind which nothing seeks is refused."""
        return not self.kinds or kind in self.kinds

    def settled(self) -> Self:
        """The same with every setting decided that the plan leaves open, so that the index's fingerprint is of all that matters."""
        return self

    def fits(self) -> None:
        """Raises PlanError for settings that cannot work here, MissingExtra for a library that is not there. Called before any text is
        read; a model is not loaded for it."""

    def open(self, key: Key, gathered: Path | None) -> None:
        """Called in a worker before the first batch of each of its tasks; what is dear to load is kept for the next one. `gathered` is,
        in the second round, the file that `find` made of the first."""

    def run(self, column: Column) -> Spans:
        """Its occurrences in a column of texts: a pure function of what it sees, text by text, so that batches may be cut anywhere."""
        raise NotImplementedError(f"{type(self).__name__} lacks run()")

    def close(self) -> None:
        """Called in a worker after the last batch of a task."""

    def check(self, placed: int, set_aside: int) -> Sequence[str]:
        """Called once all tasks are done, with the sum of its `placed` and the number of documents that were set aside: notes for the
        summary. Raises InputRefused where what it was given from outside is not of these documents."""
        return ()


class Editor(Part):
    """A part that replaces spans. `policy` says what the leak check may expect of it.

    One that `reads` texts gives its spans in `rewrite`, and `run` is not asked; an occurrence of its kinds has to go with one of them.

    The first `keep` occurrences of every value, among what earlier parts left, arrive marked `kept` and must stay. An editor that decides
    by itself which occurrences go makes a table `goes` in `gather`; all others are then `kept`.
    """

    kinds: tuple[str, ...]
    keep: int = 0
    reads: ClassVar[Literal["occurrences", "texts"]] = "occurrences"
    unit: ClassVar[str] = ""  # what one draw of a mechanism with a privacy claim is spent on; the ledger then has what it spent

    @property
    def policy(self) -> Policy:
        """`erase`: nothing of these kinds is left; `keep`: exactly the kept occurrences; `ledger`: a mechanism's claim."""
        return "keep" if self.keep else "erase"

    @property
    def links(self) -> bool:
        """Whether it replaces alike what is one person's: the table `entities` (value_id, entity_id, kind, value) is counted for it."""
        return False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the documents that `rewrite` decides by."""
        return ()

    def settled(self) -> Self:
        """The same with every setting decided that the plan leaves open, so that the plan's hash is of all that matters."""
        return self

    @property
    def ordered(self) -> bool:
        """Whether what it makes depends on what it made before: it is then told its `Past`, and batches follow each other in corpus
        order."""
        return False

    @property
    def appends(self) -> bool:
        """Whether documents can be added to those that it has edited: what it does in one hangs on no later one, beyond what is counted for
        every editor."""
        return not (self.unit or self.looks or self.links) and set(self.needs) <= {"firsts", "value_ids", "known_values", "part_stores"}

    def streamed(self, where: str) -> Self:
        """The same as a stream runs it, which knows only what came before; `where` opens the PlanError where that cannot be."""
        if self.unit or self.looks or not set(self.needs) <= {"firsts"}:
            raise PlanError(
                f"{where}.use = {self.use!r} needs the whole corpus, and a stream knows only what came before; use `sanitize run`"
            )
        return self

    def follow(self, past: Past) -> None:
        """Called after `open` where the editor is `ordered`."""

    def fits(self, schema: pa.Schema | None) -> None:
        """Raises PlanError for a setting that is missing, or does not fit documents of this schema, where it is known."""

    def spends(self) -> dict[str, Any]:
        """What the ledger says of one draw: `epsilon`, `by_document` (whether what a document spent is claimed to bound it, and among
        which documents), `shared` (whether a draw stands for all documents), and more in words and numbers."""
        raise NotImplementedError(f"{type(self).__name__} lacks spends()")

    def gather(self, whole: Whole) -> Mapping[str, Path]:
        """Tables of the editor's own for `Counts`, made before the first batch. One named `goes` (doc_no, cell, start, value_id,
        start_byte, stop_byte) holds the occurrences that go, and the bytes of their cell that go with them."""
        return {}

    def told(self, counts: Counts) -> dict[str, Any]:
        """What the summary says of this editor beyond the counts of its kinds: numbers and field names, never a value."""
        return {}

    def open(self, key: Key, counts: Counts) -> None:
        """Called once in every worker, before the first batch."""

    def run(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array, pa.Table | None]:
        """Rows of `batch.occurrences` that are replaced, the replacement of each (large_string), and rows for the vault's `labels`."""
        raise NotImplementedError(f"{type(self).__name__} lacks run()")

    def rewrite(self, sight: Sight) -> Rewrites:
        """What it replaces in some texts; `sight` has the occurrences of its kinds that no earlier part claims."""
        raise NotImplementedError(f"{type(self).__name__} lacks rewrite()")

    def reach(self, batch: Batch, rows: npt.NDArray[np.intp]) -> tuple[I64, I64] | None:
        """First byte and byte after what each of `run`'s edits replaces in its cell, where that is more than the occurrence itself."""
        return None


class LinkingEditor(Editor):
    """An editor with the setting `linked`: whether what is one person's is replaced alike."""

    linked: bool = False

    @property
    def links(self) -> bool:
        """With `linked`."""
        return self.linked

    def fits(self, schema: pa.Schema | None) -> None:
        if self.linked and "PERSON" not in self.kinds:
            raise PlanError(
                f"edit.use = {self.use!r}: linked = true is about people; add PERSON to its kinds and to find.kinds, or leave linked out"
            )


class Dropper(Part):
    """A part that drops whole documents. `reason` stands in the table `drops`."""

    reason: ClassVar[str]

    @property
    def counted(self) -> tuple[str, ...]:
        """The kinds whose occurrences it looks at."""
        return ()

    def settled(self) -> Self:
        """The same with every setting decided that the plan leaves open, so that the plan's hash is of all that matters."""
        return self

    def gather(self, whole: Whole) -> tuple[I64, I64]:
        """The documents that go, ascending, and for each the document that stays in its place."""
        raise NotImplementedError(f"{type(self).__name__} lacks gather()")


def names(room: Room) -> list[str]:
    """The names of all parts in a room, as a plan would use them."""
    package = importlib.import_module(f"sanitize.{PACKAGES[room]}")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg)


def load(room: Room, settings: Mapping[str, Any], where: str) -> Any:
    """The part that `settings["use"]` names, made from its settings; `where` opens the error, such as `plan.toml: edit[1]`."""
    use = settings.get("use")
    if not isinstance(use, str):
        raise PlanError(
            f'{where} has no `use`; expected use = "NAME" with a name of sanitize/{PACKAGES[room]}/; {nearest("", names(room))}'
        )
    if "." not in use and use not in names(room):
        raise PlanError(f"{where}.use = {use!r}: there is no such part; {nearest(use, names(room))}")
    if room == "find" and use == "patterns":  # the one finder that is no part of its own: it is at work in every index
        return checked(Finder, settings, where)
    module_name = use if "." in use else f"sanitize.{PACKAGES[room]}.{use}"
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PlanError(f"{where}.use = {use!r} cannot be imported ({type(error).__name__})") from None
    title = "".join(word.title() for word in module_name.rsplit(".", 1)[-1].split("_"))
    if not hasattr(module, title):
        raise PlanError(f"{where}.use = {use!r}: the module holds no class {title}")
    return checked(getattr(module, title), settings, where)


def checked(model: type[BaseModel], settings: Mapping[str, Any], where: str) -> Any:
    """A model made from plan settings; a wrong or unknown key becomes one clear `PlanError`."""
    try:
        return model(**settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = _path(where, first["loc"])
        if first["type"] == "extra_forbidden":
            *outer, key = first["loc"]
            for step in outer:
                inner = model.model_fields[step].annotation if isinstance(step, str) and step in model.model_fields else None
                among = [one for one in (inner, *get_args(inner)) if isinstance(one, type) and issubclass(one, BaseModel)]
                model = among[0] if among else model
            raise PlanError(f"{path}: unknown key; {nearest(str(key), model.model_fields)}") from None
        raise PlanError(f"{path}: {_wanted(first)}") from None


def _wanted(error: ErrorDetails) -> str:
    """What a setting should have been, in the words of a plan file."""
    limits, kind = error.get("ctx", {}), error["type"]
    for word, say in _EXPECTED.items():
        if kind.startswith(word):
            return say.format(**limits)
    return error["msg"]


# what pydantic calls a mistake begins with the first, and is said as the second; values of the mistake itself are never said again
_EXPECTED = {
    "missing": "is missing; write it",
    "int": "expected a whole number, such as 1",
    "float": "expected a number, such as 0.5",
    "bool": "expected true or false",
    "string_pattern": "expected text of the form {pattern}",
    "string_type": 'expected text in quotes, such as "name"',
    "tuple": 'expected a list in brackets, such as ["ONE", "TWO"]',
    "list": 'expected a list in brackets, such as ["ONE", "TWO"]',
    "dict": "expected a table, such as {{ NAME = ... }}",
    "model": "expected a table with its own keys",
    "literal_error": "expected {expected}",
    "greater_than_equal": "expected {ge} or more",
    "greater_than": "expected more than {gt}",
    "less_than_equal": "expected {le} or less",
    "less_than": "expected less than {lt}",
}


def _path(where: str, location: Sequence[str | int]) -> str:
    steps = [step for step in location if step not in ("str", "dict[str,any]")]  # which of two shapes was tried
    inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return where + (inside if not where.endswith(":") else " " + inside.lstrip("."))
