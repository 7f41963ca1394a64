"""Base classes of plan parts (Finder, Dropper, Editor), the tables that they receive and return,
and loading a part by its file name.

A part is a frozen pydantic model: its fields are its settings in the plan, and unknown settings are
refused. A part is found by its file name: `use = "rmft"` means `sanitize/editors/rmft.py`, class
`Rmft`. A dotted path (`use = "mypackage.mine"`) names a module of the user.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from sanitize.array_types import F32, I32, I64, Mask
from sanitize.core.keys import Key
from sanitize.errors import PlanError, describe_validation_error, suggest_names

RemovalPolicy = Literal["erase", "keep", "ledger"]
PartType = Literal["find", "drop", "edit"]
PACKAGES: Mapping[PartType, str] = {"find": "finders", "drop": "droppers", "edit": "editors"}


@dataclass(frozen=True, repr=False)
class TextBatch:
    """Texts of one text column of some documents, for a part that reads texts (`run_pass`, or
    `edit_texts` of a `TextEditor`). One entry per text.

    `texts` (large_string, no nulls), `doc_no`, and `cell`, the number of the text in its document.
    `occurrences` has the occurrences of the part's kinds in these texts, in corpus order: doc_no,
    cell, start, start_byte, end_byte, value_id, and `text_no`, the index in `texts`. Only for
    `edit_texts`: `doc_ids`, which seed the draws, and `document_columns`, the columns that
    `required_columns` names.
    """

    doc_no: I64
    cell: I32
    texts: pa.LargeStringArray
    occurrences: pl.DataFrame
    doc_ids: pa.DictionaryArray | None = None
    document_columns: pa.Table | None = None


class CorpusView(Protocol):
    """Gives a part access to the whole corpus before editing: corpus passes and queries, over what
    earlier parts left."""

    def run_corpus_pass(self, pass_name: str, only_documents: Path | None = None) -> Sequence[Path]:
        """The table `pass_name` of the part's `pass_schemas`, one Parquet file per task, as its
        `run_pass` computes it.

        Covers every document, or those whose `doc_no` is in the Parquet file `only_documents`.
        """

    def run_query(
        self, query_name: str, tables: Mapping[str, Sequence[Path]], **parameters: object
    ) -> Path:
        """The result of a query of sanitize (sql/), as a Parquet file.

        The query may also read `remaining_occurrences` and `chosen_kinds`.
        """

    def write_table(self, table_name: str, table: pa.Table) -> Path:
        """Writes a small table that the part computed to a file, as an input of a later query."""


class PriorValues(Protocol):
    """Values and generated surrogates that precede a batch in corpus order, for an editor that
    decides in that order."""

    def is_known(self, forms: I64, doc_no: I64) -> Mask:
        """True for rows of forms, one of which is that of a value in document `doc_no` or an
        earlier one. Forms are hashes, in several columns; 0: none."""

    def was_drawn(self, normalised: I64) -> Mask:
        """True for the hashes of normalised forms of surrogates generated before this batch."""

    def was_generated(self, forms: I64) -> Mask:
        """True for rows of forms, one of which is that of a surrogate generated before this
        batch."""

    def record_generated(self, forms: I64) -> None:
        """Stores the forms of the surrogates of this batch, once the batch is final; the first
        column is the normalised form."""

    def components(self, kind: str, component: str) -> tuple[pa.LargeStringArray, I64] | None:
        """The distinct components of the values seen so far, in order of appearance, with the
        document in which each first appeared.

        None where components are counted over the whole corpus instead.
        """


class Part(BaseModel):
    """The settings of one part of a plan. Frozen; the order of the parts in the plan is their
    precedence.

    `required_aggregates` names the aggregate tables that are computed for it. A part that reads
    texts before anything is edited declares the tables that its corpus passes return in
    `pass_schemas`; `cell_scope` states whether they see the main text only, or all cells.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    VERSION: ClassVar[int] = (
        # increase it when the output changes for the same settings, key and input: stored results
        # are then computed again
        1
    )
    use: str
    required_aggregates: ClassVar[tuple[str, ...]] = ()
    pass_schemas: ClassVar[Mapping[str, pa.Schema]] = {}
    cell_scope: ClassVar[Literal["main", "all"]] = "main"

    def run_pass(self, pass_name: str, text_batch: TextBatch) -> pa.Table:
        """The rows of the table `pass_name` for some documents: a pure function of `text_batch`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement run_pass()")


@dataclass(frozen=True)
class Aggregates:
    """The aggregate tables of the whole corpus for one part: a Parquet file or folder for each name
    in `required_aggregates`."""

    tables: Mapping[str, Path]


@dataclass(frozen=True, kw_only=True)
class PrivacyCost:
    """What one draw of an editor costs, as the privacy ledger states it."""

    mechanism: str
    epsilon: float  # infinite: no number bounds a draw
    shared: bool  # one draw is used for all documents
    own_model: bool  # the model is the user's: it may have seen the corpus
    casing: str
    # among which documents the sum over a document is claimed as a bound; empty: it is not
    by_document: str = ""
    # further words and numbers of the mechanism
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class EditBatch:
    """Input of an editor: the occurrences of its kinds in some whole documents, in corpus order,
    without those that earlier parts claimed.

    `occurrences` has doc_no, cell, start, end, kind, value_id (a keyed hash of kind and normalised
    value: equal for all spellings of a value), `kept`, `value` (the text of the span), and `swept`:
    true for spans that the leak check added; their text may not be a value of the kind as a finder
    would report it. `doc_ids` is aligned with `occurrences`, dictionary-encoded.
    """

    occurrences: pl.DataFrame
    doc_ids: pa.DictionaryArray


@dataclass(frozen=True, repr=False)
class OccurrenceEdits:
    """Replacements that an editor returns for a batch of occurrences: the rows that are replaced,
    the replacement of each (large_string), and rows for the vault's `labels`.

    `byte_spans` (start, end) are the bytes that the edits replace in their cells, one span per row;
    None if each edit replaces exactly its occurrence.
    """

    rows: npt.NDArray[np.intp]
    replacement: pa.Array
    labels: pa.Table | None = None
    byte_spans: tuple[I64, I64] | None = None


@dataclass(frozen=True, repr=False)
class TextEdits:
    """Replacements that an editor returns for a batch of texts, one entry per span.

    The row of its text, its byte span [start_byte, end_byte) in that text, the replacement
    (large_string), and the row of the occurrence that it replaces, -1 for none. An editor with a
    `privacy_unit` also returns `draw_no`: spans of one document with the same number show one draw,
    whose privacy cost is spent once.
    """

    text_no: I64
    start_byte: I64
    end_byte: I64
    replacement: pa.LargeStringArray
    occurrence_no: I64
    draw_no: I64 | None = None


@dataclass(frozen=True, repr=False)
class FieldNames:
    """For each text of a column the name of the table column, field or JSON key that it fills, as
    an index into `names`."""

    names: tuple[str, ...]
    name_no: I32

    @classmethod
    def from_columns(
        cls, columns: Sequence[str | Sequence[str]], text_counts: Sequence[int]
    ) -> FieldNames:
        """The names of the texts of several columns, one behind the other: a name for all texts of
        a column, or one for each."""
        numbers: dict[str, int] = {}
        name_no = [
            np.full(count, numbers.setdefault(names, len(numbers)), np.int32)
            if isinstance(names, str)
            else np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int32)
            for names, count in zip(columns, text_counts, strict=True)
        ]
        return cls(tuple(numbers), np.concatenate([np.empty(0, np.int32), *name_no]))


@dataclass(frozen=True, repr=False)
class TextColumn:
    """Input of a finder: a column of texts and the spans that are already known in them.

    `texts` is large_string without nulls. `known_spans` has text_no, start_byte, end_byte (counted
    from the first byte of the text), kind (string) and value_id, sorted by position: in the first
    round the spans of `patterns`, in the second round all spans of the first. In the first round
    `doc_no`, `doc_id` and `cell` give the document and cell of every text, `fields` the field that
    it fills, and `opt_in_kinds` the kinds that are searched because the plan names them.
    """

    texts: pa.LargeStringArray
    known_spans: pl.DataFrame
    doc_no: I64 | None = None
    doc_id: pa.LargeStringArray | None = None
    cell: I32 | None = None
    fields: FieldNames | None = None
    opt_in_kinds: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class FoundSpans:
    """Spans that a finder reports for a column of texts. Spans need not be sorted, and may overlap.

    For each span: the row of its text, its byte span [start_byte, end_byte) counted from the first
    byte of the text, its kind as an index into `kind_names`, and a score (0 to 1).

    The value of a span is its text; where that is another spelling of a known value, `value_id` is
    the id of that value (-1: none). `person_links` are pairs of values of one person: columns
    `value_id` and `other` (such as an address and the name beside it).

    `unreadable_texts` are texts that the finder could not read; in the first round their documents
    are quarantined, whatever else was found in them. `skipped_counts` counts rejected candidates by
    (kind, reason). `matched_count` is the number of spans from an external source (such as the
    finder `spans`) for which a text was found.
    """

    text_no: I64
    start_byte: I64
    end_byte: I64
    kind_no: I32
    kind_names: tuple[str, ...]
    score: F32
    value_id: I64 | None = None
    person_links: pl.DataFrame | None = None
    unreadable_texts: I64 | None = None
    skipped_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    matched_count: int = 0

    @classmethod
    def empty(
        cls,
        *,
        unreadable_texts: I64 | None = None,
        skipped_counts: Mapping[tuple[str, str], int] | None = None,
    ) -> FoundSpans:
        """A result without spans."""
        no_spans = np.empty(0, np.int64)
        kind, score = np.empty(0, np.int32), np.empty(0, np.float32)
        return cls(
            no_spans,
            no_spans,
            no_spans,
            kind,
            (),
            score,
            unreadable_texts=unreadable_texts,
            skipped_counts=skipped_counts or {},
        )


class Finder(Part):
    """A part that reports where personal data occurs. Its name and settings are part of the index
    fingerprint.

    A finder of the first round sees one batch at a time and nothing else. A finder with
    `second_round` runs after the first round is complete for the whole corpus, and receives the
    values collected from it. Where spans of several finders overlap,
    sanitize/stages/span_conflicts.py decides which one stays.
    """

    second_round: ClassVar[bool] = False
    supports_stream: ClassVar[bool] = (
        # True: each text is searched by itself, so that a stream can search one record after the
        # other
        False
    )
    needs: ClassVar[str] = (
        ""  # what it needs besides its name in a plan, in a few words, such as `a model`
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that this finder may report; empty if it may report any kind."""
        return ()

    @property
    def uses_model(self) -> bool:
        """True if it finds values by a trained model, and not by patterns and lists: a verdict says
        whether a model was used."""
        return False

    @property
    def attribution(self) -> str:
        """What a licence asks to be named where its results are published, such as the author of
        its model; "" for nothing."""
        return ""

    def can_find(self, kind: str) -> bool:
        """True if the finder, with its present settings, may report `kind`. A plan that names a
        kind which no finder reports is refused."""
        return not self.kinds or kind in self.kinds

    def resolve_settings(self) -> Self:
        """A copy in which every setting that the plan leaves open has its effective value, so that
        the index fingerprint covers it."""
        return self

    def validate_settings(self) -> None:
        """Raises PlanError for settings that cannot work on this machine, MissingExtra for a
        library that is not installed.

        Called before any text is read. Must not load a model.
        """

    def open(self, key: Key, first_round: Path | pa.Table | None) -> None:
        """Called in a worker before the first batch of each task. What is expensive to load should
        be kept for the next task.

        `first_round` is, in the second round, the values that detection collected in the first
        round: the file of an index, or the table where texts in memory are searched.
        """

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """The spans that it finds in a column of texts: a pure function of each text, so that
        batches may be cut anywhere."""
        raise NotImplementedError(f"{type(self).__name__} does not implement find_spans()")

    def close(self) -> None:
        """Called in a worker after the last batch of a task."""

    def check_matched(self, matched_count: int, quarantined_count: int) -> Sequence[str]:
        """Called when all tasks are done; returns notes for the summary.

        `matched_count` is the sum over all results of the finder, `quarantined_count` the number of
        quarantined documents. Raises InputRefused if the external spans that the finder was given
        do not belong to these documents.
        """
        return ()


class Editor(Part):
    """A part that replaces spans. `removal_policy` states what the leak check may expect of it.

    The simple case implements `edit_occurrences` and `action`; every other member has a default. An
    editor that gives a value the same surrogate everywhere, and whose surrogates an append must be
    able to compare, also states `consistent_kinds` and returns `labels`.

    The first `keep` occurrences of every value, among those that earlier parts left, arrive marked
    `kept` and must stay. An editor that selects the occurrences to remove by itself returns a table
    `removed_occurrences` from `build_tables`; all others are then `kept`.
    """

    kinds: tuple[str, ...]
    keep: int = 0
    gives_surrogates: ClassVar[bool] = False  # its replacements are invented values
    privacy_unit: ClassVar[str] = (
        # the unit that one draw of a mechanism with a privacy claim protects; its cost is then
        # recorded in the ledger
        ""
    )

    @property
    def removal_policy(self) -> RemovalPolicy:
        """`erase`: no occurrence of its kinds stays; `keep`: exactly the kept ones stay; `ledger`:
        a privacy mechanism's claim holds."""
        return "keep" if self.keep else "erase"

    @property
    def action(self) -> str:
        """What happens to the occurrences of its kinds, in words, for the report of a run."""
        return f"edited by {self.use}"

    def describe_staying(self, kind: str) -> str:
        """What is in the output unchanged of the found occurrences of one of its kinds, in words;
        "" if nothing."""
        if self.keep:
            return (
                "the first occurrence of every value"
                if self.keep == 1
                else f"the first {self.keep} occurrences of every value"
            )
        return "" if self.removal_policy == "erase" else "occurrences that the editor leaves"

    @property
    def pooled_kinds(self) -> tuple[str, ...]:
        """The kinds whose surrogates are drawn from components of the corpus' own values, which a
        stream then collects."""
        return ()

    @property
    def consistent_kinds(self) -> tuple[str, ...]:
        """The kinds whose values have one surrogate each over the whole corpus, recorded in the
        table `labels`; an append checks them."""
        return ()

    @property
    def blacklist_reasons(self) -> tuple[str, ...]:
        """The entries of the blacklist that it uses, by their reasons: `direct` (found values),
        `indirect` (words of few users)."""
        return ()

    def resolve_settings(self) -> Self:
        """A copy in which every setting that the plan leaves open has its effective value, so that
        the run hash covers it."""
        return self

    @property
    def is_sequential(self) -> bool:
        """True if its output depends on its earlier output: it then receives `PriorValues`, and
        batches are edited in corpus order."""
        return False

    @property
    def draws_anew(self) -> bool:
        """True if its replacements hold no part of a value, so that a report may show them."""
        return False

    @property
    def supports_append(self) -> bool:
        """True if documents can be appended to those that it has edited.

        That is so if its edits in a document depend on later documents only through the aggregates
        that are computed for every editor.
        """
        return not (self.privacy_unit or self.pass_schemas) and set(self.required_aggregates) <= {
            "first_occurrences",
            "value_ids",
            "known_forms",
            "increments",
            "distinct_values_of_kinds",
            "component_pools",
        }

    def for_streaming(self, location: str) -> Self:
        """The editor as a stream runs it, where only earlier documents are known.

        Raises PlanError, prefixed with `location`, for an editor that needs the whole corpus.
        """
        if (
            self.privacy_unit
            or self.pass_schemas
            or not set(self.required_aggregates) <= {"first_occurrences"}
        ):
            raise PlanError(
                f"{location}.use = {self.use!r} needs the whole corpus, but a stream has read only"
                " earlier records; use `sanitize run`"
            )
        return self

    def set_prior_values(self, prior_values: PriorValues) -> None:
        """Called after `open` if the editor `is_sequential`."""

    def validate_settings(self, schema: pa.Schema | None) -> None:
        """Raises PlanError for a missing setting, or one that does not fit documents of this schema
        (None where it is not known yet)."""

    def describe_privacy_cost(self) -> PrivacyCost:
        """The ledger's entry for one draw."""
        raise NotImplementedError(
            f"{type(self).__name__} does not implement describe_privacy_cost()"
        )

    def build_tables(self, corpus: CorpusView) -> Mapping[str, Path]:
        """Tables that the editor computes itself, added to its `Aggregates` before the first batch.

        A table named `removed_occurrences` (doc_no, cell, start, value_id, start_byte, end_byte)
        lists the occurrences to remove, each with the bytes of its cell that are removed with it.
        """
        return {}

    def summarize(self, aggregates: Aggregates) -> Mapping[str, Any]:
        """What the run summary contains about this editor beyond the counts of its kinds: numbers
        and field names, never a value."""
        return {}

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Called once in every worker, before the first batch."""

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """The replacements in `batch.occurrences`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement edit_occurrences()")


class TextEditor(Editor):
    """An editor whose spans come from `edit_texts`, which also sees what is no occurrence; every
    occurrence of its kinds must be replaced by one of these spans. `edit_occurrences` is not
    called."""

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Columns of the documents on which `edit_texts` depends."""
        return ()

    def edit_texts(self, text_batch: TextBatch) -> TextEdits:
        """Replacements in some texts; `text_batch` has the occurrences of its kinds that no earlier
        part claims."""
        raise NotImplementedError(f"{type(self).__name__} does not implement edit_texts()")


class LinkingEditor(Editor):
    """An editor with the setting `linked`: whether values of one person are replaced consistently.
    It then gets `entity_values` (value_id, entity_id, kind, value)."""

    gives_surrogates: ClassVar[bool] = True
    linked: bool = False

    @property
    def supports_append(self) -> bool:
        """False if `linked` is set: a later document may show that two values are of one person."""
        return super().supports_append and not self.linked

    def validate_settings(self, schema: pa.Schema | None) -> None:
        if self.linked and "PERSON" not in self.kinds:
            raise PlanError(
                f"edit.use = {self.use!r}: linked = true is about people; add PERSON to its kinds"
                " and to find.kinds, or remove linked"
            )


class Dropper(Part):
    """A part that drops whole documents. `reason` is written to the table `drops`."""

    reason: ClassVar[str]

    @property
    def occurrence_kinds(self) -> tuple[str, ...]:
        """The kinds of the occurrences that it reads."""
        return ()

    def resolve_settings(self) -> Self:
        """A copy in which every setting that the plan leaves open has its effective value, so that
        the run hash covers it."""
        return self

    def select_drops(self, corpus: CorpusView) -> tuple[I64, I64]:
        """The `doc_no` of the documents to drop, ascending, and for each the document that is kept
        instead of it."""
        raise NotImplementedError(f"{type(self).__name__} does not implement select_drops()")


@functools.cache
def list_part_names(part_type: PartType) -> tuple[str, ...]:
    """The names of all built-in parts of a type, as a plan uses them: the modules of its
    package."""
    package = importlib.import_module(f"sanitize.{PACKAGES[part_type]}")
    modules = pkgutil.iter_modules(package.__path__)
    return tuple(sorted(module.name for module in modules if not module.ispkg))


def load_part(part_type: PartType, settings: Mapping[str, Any], location: str) -> Any:
    """The part that `settings["use"]` names, built from its settings.

    Raises PlanError, prefixed with `location` (such as `plan.toml: edit[1]`), for an unknown part
    or a wrong setting.
    """
    use = settings.get("use")
    if not isinstance(use, str):
        raise PlanError(
            f'{location} has no `use`; expected use = "NAME" with a name of'
            f" sanitize/{PACKAGES[part_type]}/; "
            f"{suggest_names('', list_part_names(part_type))}"
        )
    # only a dotted name is looked for outside of the package: `../../evil`, `..` and a path are no
    # names
    is_dotted = "." in use and all(word.isidentifier() for word in use.split("."))
    if not is_dotted and use not in list_part_names(part_type):
        raise PlanError(
            f"{location}.use = {use!r}: there is no such part;"
            f" {suggest_names(use, list_part_names(part_type))}"
        )
    return parse_settings(load_part_class(part_type, use, location), settings, location)


def load_part_class(part_type: PartType, use: str, location: str) -> Any:
    """The class of a part by its name, which is built in or dotted. Raises PlanError for a module
    that cannot be imported, or has no such class."""
    if part_type == "find" and use == "patterns":
        # it has no settings of its own and no class `Patterns`: it runs in every index
        return Finder
    module_name = use if "." in use else f"sanitize.{PACKAGES[part_type]}.{use}"
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise PlanError(
            f"{location}.use = {use!r} cannot be imported ({type(error).__name__})"
        ) from None
    title = "".join(word.title() for word in module_name.rsplit(".", 1)[-1].split("_"))
    if not hasattr(module, title):
        raise PlanError(f"{location}.use = {use!r}: the module holds no class {title}")
    part_class = getattr(module, title)
    for name in getattr(part_class, "model_fields", ()):
        # the property would be read in place of the setting
        if isinstance(inspect.getattr_static(part_class, name, None), property):
            raise PlanError(
                f"{location}.use = {use!r}: {title} has a setting with the name of a property,"
                f" {name}; rename the setting"
            )
    return part_class


def parse_settings(model: type[BaseModel], settings: Mapping[str, Any], location: str) -> Any:
    """A pydantic model built from plan settings. Raises PlanError with the path of the first wrong
    or unknown key."""
    try:
        return model(**settings)
    except ValidationError as error:
        raise PlanError(describe_validation_error(error, model, location)) from None
