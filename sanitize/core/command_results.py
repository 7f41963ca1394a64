"""The results of the commands: frozen dataclasses with counts, fixed words and names that the user
gave; never a value or a text.

`to_dict` gives what `--json` prints. At a prompt and in a notebook a result shows its summary
table.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import (
    VerdictLine,
    describe_coverage,
    describe_inconclusive,
    describe_search,
    describe_verdict,
)

# metadata of fields that `to_dict` leaves out while they have their default
IF_SET: Mapping[str, bool] = {"if_set": True}
_NOT_IN_JSON: Mapping[str, bool] = {"hidden": True}


@dataclass(frozen=True, repr=False)
class CommandResult:
    """Base class of the results of commands."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data, with the keys that `--json` prints."""
        data = _to_json(self)
        assert isinstance(data, dict)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The result that `to_dict` gave as `data`."""
        result = _from_json(cls, data)
        assert isinstance(result, cls)
        return result

    def __repr__(self) -> str:
        return self.summary_table().to_text()

    def _repr_html_(self) -> str:
        return self.summary_table().to_html()

    def summary_table(self) -> SummaryTable:
        """The table that is shown at a prompt and in a notebook."""
        raise NotImplementedError


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name.rstrip("_"): _to_json(getattr(value, one.name))
            for one in dataclasses.fields(value)
            if "hidden" not in one.metadata
            and not ("if_set" in one.metadata and _is_unset(getattr(value, one.name), one))
        }
    if isinstance(value, Mapping):
        return {name: _to_json(entry) for name, entry in value.items()}
    return [_to_json(entry) for entry in value] if isinstance(value, list | tuple) else value


def _is_unset(value: object, of_field: dataclasses.Field[Any]) -> bool:
    return value is None or (of_field.default_factory is list and not value)


def _from_json(annotation: Any, value: Any) -> Any:
    """`value`, JSON data, as the type `annotation`: mappings become dataclasses where it names
    one."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        dataclass_types = [argument for argument in arguments if dataclasses.is_dataclass(argument)]
        if not (dataclass_types and isinstance(value, Mapping)):
            containers = [
                argument
                for argument in arguments
                if typing.get_origin(argument) in (Mapping, Sequence)
            ]
            return _from_json(containers[0], value) if containers and value is not None else value
        return _from_json(
            next(
                one
                for one in dataclass_types
                if _json_names(typing.cast(type, one)).keys() >= value.keys()
            ),
            value,
        )
    if origin is Mapping:
        return {name: _from_json(arguments[1], entry) for name, entry in value.items()}
    if origin is Sequence:
        return [_from_json(arguments[0], entry) for entry in value]
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        fields = _json_names(annotation)
        return annotation(
            **{fields[name][0]: _from_json(fields[name][1], entry) for name, entry in value.items()}
        )
    return value


@functools.cache
def _json_names(dataclass_type: type[Any]) -> dict[str, tuple[str, Any]]:
    """For each key of the JSON data of a dataclass, the field's name and type."""
    hints = typing.get_type_hints(dataclass_type)
    return {
        one.name.rstrip("_"): (one.name, hints[one.name])
        for one in dataclasses.fields(dataclass_type)
    }


# --------------------------------------------------------------------- parts of several results


@dataclass(frozen=True, kw_only=True)
class KindCounts:
    """Counts of one kind: `kept`, `replaced` and `left_by_plan` add up to `occurrences`. Of these
    the finders missed `swept`, which the leak check added; the others are the rows of the table
    `occurrences`. `values` are distinct, `skipped` counts the candidates that were refused, by
    reason."""

    occurrences: int
    values: int
    documents: int
    kept: int
    replaced: int
    left_by_plan: int
    skipped: Mapping[str, int]
    swept: int = 0


@dataclass(frozen=True, kw_only=True)
class ColumnPolicy:
    """What is done with a column: `sanitize`, `keep`, `pseudonymize` or `drop`."""

    name: str
    policy: str


@dataclass(frozen=True, kw_only=True)
class DroppedDocuments:
    """How many documents a part of the plan dropped, and why."""

    part: str
    reason: str
    documents: int


@dataclass(frozen=True, kw_only=True)
class StageCost:
    """CPU-seconds, seconds and the memory of the largest process (MB) of one stage."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float


@dataclass(frozen=True, kw_only=True)
class ListedNgrams:
    """How many n-grams of `n` words a blacklist lists, as `direct` or `indirect` identifiers."""

    n: int
    reason: str
    ngrams: int


@dataclass(frozen=True, kw_only=True)
class BlacklistCounts:
    """The settings and counts of a word blacklist."""

    k: int
    n: int
    direct: bool
    columns: Sequence[str]
    documents: int
    documents_without_user: int
    words: int
    listed: Sequence[ListedNgrams]
    masked_words: int


# -------------------------------------------------------------------------------- run and index


@dataclass(frozen=True, kw_only=True)
class LeakCheckCounts:
    """The leak check of a run: `values_checked` removed values were searched for in `forms`;
    `swept` occurrences that the finders had missed were removed. `ambiguous_values` further values,
    such as names of one word, may mean something else, and are not searched for. `kinds` are those
    that are searched for, `unchecked_kinds` those that the plan edits and the check does not search
    for. `not_searched` are the forms that only a full check searches. `inconclusive` counts matches
    that may be a removed value or chance, by kind: short ones, and those inside longer words and
    numbers."""

    forms: Sequence[str]
    mode: str
    values_checked: int
    swept: int
    files: int
    ambiguous_values: int = 0
    kinds: Sequence[str] | None = field(default=None, metadata=IF_SET)
    unchecked_kinds: Sequence[str] = ()
    not_searched: Sequence[str] = ()
    inconclusive: Mapping[str, int] | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class PlantedCounts:
    """How many planted values of invented people there were, and how many the plan removed."""

    planted: int
    removed: int


@dataclass(frozen=True, kw_only=True)
class CanarySample:
    """A line with an invented value, before and after the plan edited it, in clear text."""

    kind: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class CanaryCounts:
    """The canary check of a run, in total, by form, and for forms that a finder need not decode
    (`encoded`); `samples` has a line with an invented value of each kind."""

    documents: int
    planted: int
    removed: int
    encoded: PlantedCounts
    by_form: Mapping[str, PlantedCounts]
    untested_kinds: Sequence[str]
    samples: Sequence[CanarySample] = ()


@dataclass(frozen=True, kw_only=True)
class KeptValues:
    """Values of a kind that stay in a column that is kept, and why: the column is named after them
    (`name`), or numbers look like them by `chance`."""

    column: str
    kind: str
    values: int
    kept_for: str


@dataclass(frozen=True, kw_only=True)
class AppendedFiles:
    """What an append added to OUT: files, documents and shards."""

    files: int
    documents: int
    shards: int


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult(CommandResult):
    """The result of `run`: documents and occurrences by outcome, the leak check, columns, costs,
    and where the files are.

    documents_in = documents_out + documents_dropped + quarantined. `leaks` is None if nothing was
    checked (`verify="off"`). `changed` is False if OUT was up to date already. `looked_for` and
    `not_looked_for` say what the plan looks for and what not, names of people first,
    `stays_by_plan` what it finds and does not remove completely, in words; of these `staying_kinds`
    were found. `kept_values` are the values that stay in kept columns, `models` the models that
    finders used, with what their licences ask to be named, `shape` that of chat or instruction
    data, `splits` the documents of each split in OUT. `verdict` has all of this as lines. Sizes are
    in bytes or MB (1e6 bytes), times in seconds.
    """

    documents_in: int
    documents_out: int
    documents_dropped: int
    dropped: Sequence[DroppedDocuments]
    quarantined: int
    quarantine: Mapping[str, int]
    occurrences: int
    kept_originals: int
    replaced: int
    by_kind: Mapping[str, KindCounts]
    erased: int
    editor_reports: Sequence[Mapping[str, Any]]
    leaks: int | None
    verify: LeakCheckCounts
    canaries: CanaryCounts
    publishable: bool
    plan_name: str
    plan_hash: str
    key: str
    columns: Sequence[ColumnPolicy]
    changed: bool
    notes: Sequence[str]
    text_bytes: int
    stages: Mapping[str, StageCost]
    seconds: float
    mb_per_s: float
    peak_rss_mb: float
    out: str
    work: str
    blacklist: BlacklistCounts | None = field(default=None, metadata=IF_SET)
    ledger: Sequence[Mapping[str, Any]] = field(default_factory=list, metadata=IF_SET)
    appended: AppendedFiles | None = field(default=None, metadata=IF_SET)
    looked_for: Sequence[str] = ()
    not_looked_for: Sequence[str] = ()
    stays_by_plan: Sequence[str] = ()
    staying_kinds: Sequence[str] = ()
    kept_values: Sequence[KeptValues] = ()
    models: Sequence[str] | None = None
    shape: str = field(default="", metadata=IF_SET)
    splits: Mapping[str, int] = field(default_factory=dict, metadata=IF_SET)

    @property
    def verdict(self) -> list[VerdictLine]:
        """The verdict on the result: what is left, what was looked for and what not, what stays and
        why, which check was run."""
        return describe_verdict(self.to_dict())

    def summary_table(self) -> SummaryTable:
        facts = [
            (
                "documents",
                (
                    f"{self.documents_in:,} in = {self.documents_out:,} out +"
                    f" {self.documents_dropped:,} dropped + {self.quarantined:,} in quarantine"
                ),
            ),
            *((line.name, line.text) for line in self.verdict),
            (
                "key",
                (
                    "from a seed: replacements can be guessed, no privacy claim"
                    if self.key == "seed"
                    else "secret"
                ),
            ),
            ("report", f"{self.out}/report.html"),
        ]
        done = "" if self.changed else " (was complete already; nothing changed)"
        header, rows = tabulate_kinds(self.by_kind)
        return SummaryTable(
            title=f"sanitize run: {self.out}, plan {self.plan_name}{done}",
            facts=facts,
            header=header,
            rows=rows,
        )


def tabulate_kinds(
    by_kind: Mapping[str, KindCounts],
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Header and rows of the counts of every kind, most occurrences first; with a column `swept` if
    there are such."""
    columns = {
        "occurrences": "occurrences",
        "values": "values",
        "kept": "kept",
        "replaced": "replaced",
        "left_by_plan": "left by plan",
        "swept": "swept",
    }
    if not any(counts.swept for counts in by_kind.values()):
        del columns["swept"]
    rows = [
        (kind, *(getattr(counts, name) for name in columns)) for kind, counts in by_kind.items()
    ]
    return ("kind", *columns.values()), sorted(rows, key=lambda row: (-row[1], row[0]))


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexResult(CommandResult):
    """The result of `index`: documents and occurrences, by kind. `changed` is False if the index
    was up to date already."""

    documents_in: int
    quarantined: int
    occurrences: int
    by_kind: Mapping[str, int]
    documents_by_kind: Mapping[str, int]
    text_bytes: int
    changed: bool
    work: str
    key: str
    notes: Sequence[str]
    stages: Mapping[str, StageCost]

    def summary_table(self) -> SummaryTable:
        facts = [
            ("documents", f"{self.documents_in:,}, {self.quarantined:,} in quarantine"),
            ("occurrences", f"{self.occurrences:,}"),
        ]
        rows = sorted(self.by_kind.items(), key=lambda item: (-item[1], item[0]))
        return SummaryTable(
            title=f"sanitize index: {self.work}",
            facts=facts,
            header=("kind", "occurrences"),
            rows=rows,
        )


# --------------------------------------------------------------------------------------- stream


@dataclass(frozen=True, kw_only=True)
class StreamKindCounts:
    """Counts of one kind in a stream."""

    occurrences: int
    kept: int
    left_by_plan: int
    replaced: int


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamResult(CommandResult):
    """What one command did in a stream: counts of its records, and `position`, the records of the
    stream that are acknowledged.

    `verify` is the leak check of each batch (full, fast or off), `not_searched` the forms of values
    that it does not search; `shape` is that of chat or instruction data.
    """

    documents_in: int
    documents_out: int
    documents_dropped: int
    quarantined: int
    quarantine: Mapping[str, int]
    occurrences: int
    kept_originals: int
    replaced: int
    by_kind: Mapping[str, StreamKindCounts]
    notes: Sequence[str]
    swept: int
    leaks: int
    position: int
    changed: bool
    seconds: float
    plan_hash: str
    state: str | None
    shape: str = field(default="", metadata=IF_SET)
    verify: str = "full"
    inconclusive: Mapping[str, int] = field(default_factory=dict)
    not_searched: Sequence[str] = ()
    looked_for: Sequence[str] = ()
    not_looked_for: Sequence[str] = ()
    stays_by_plan: Sequence[str] = ()
    models: Sequence[str] | None = None

    @property
    def verdict(self) -> list[VerdictLine]:
        """What was looked for and what not, which models found some of it, what stays and why, and
        which check was run."""
        check = (
            f"{self.verify} check of each batch; {self.swept:,} occurrences that the finders had"
            " missed were swept"
        )
        if self.inconclusive:
            check += f"; {describe_inconclusive(self.inconclusive)}"
        if self.not_searched:
            check += f"; not searched in the forms {', '.join(self.not_searched)}"
        stays = [*self.stays_by_plan]
        if kept := self.kept_originals + sum(
            counts.left_by_plan for counts in self.by_kind.values()
        ):
            stays.append(f"in all {kept:,} found occurrences stay as they are, by plan")
        return [
            *describe_coverage(self.looked_for, self.not_looked_for, self.models),
            VerdictLine(
                "stays", "; ".join(stays) or "nothing that was found", "care" if stays else "good"
            ),
            VerdictLine(
                "check", check, "care" if self.not_searched or self.inconclusive else "good"
            ),
            VerdictLine("recall", "not measured: how much the finders missed is unknown", "care"),
        ]

    def summary_table(self) -> SummaryTable:
        facts = [
            (
                "records",
                (
                    f"{self.documents_in:,} in = {self.documents_out:,} out + {self.quarantined:,}"
                    " in quarantine"
                ),
            ),
            ("acknowledged", f"{self.position:,}"),
            *([("shape", self.shape)] if self.shape else []),
            *((line.name, line.text) for line in self.verdict),
            *(("note", note) for note in self.notes),
        ]
        rows = [
            (kind, counts.occurrences, counts.kept, counts.replaced, counts.left_by_plan)
            for kind, counts in sorted(
                self.by_kind.items(), key=lambda item: (-item[1].occurrences, item[0])
            )
        ]
        header = ("kind", "occurrences", "kept", "replaced", "left by plan")
        return SummaryTable(title="sanitize stream", facts=facts, header=header, rows=rows)


# -------------------------------------------------------------------------------------- explain


@dataclass(frozen=True, kw_only=True)
class SampleCounts:
    """Counts of the sampled documents, as in `RunResult`."""

    occurrences: int
    kept_originals: int
    replaced: int
    by_kind: Mapping[str, KindCounts]
    quarantined: int
    documents_dropped: int
    dropped: Sequence[DroppedDocuments]
    blacklist: BlacklistCounts | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class ExampleEdit:
    """A value before and after it was edited, both masked by shape. With `reveal`, in clear text,
    with the line around it."""

    kind: str
    before: str
    after: str
    line_before: str | None = field(default=None, metadata=IF_SET)
    line_after: str | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """What a run over the whole input will take: CPU-seconds, and MB (1e6 bytes) in WORK and
    OUT."""

    cpu_seconds: float
    workspace_mb: float
    output_mb: float


@dataclass(frozen=True, kw_only=True)
class BandForecast:
    """Addresses that occur `from_` to `to` times (None: or more), and how many of them models may
    leak, with an interval."""

    from_: int
    to: int | None
    addresses: int
    measured_on: int
    expected: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class PlanForecast:
    """How many addresses models trained on the output of a plan may leak, in total and by band of
    frequency. The intervals include the differences between trainings where `between_trainings` is
    true."""

    plan: str
    between_trainings: bool
    addresses: int
    expected: float
    low: float
    high: float
    bands: Sequence[BandForecast]


@dataclass(frozen=True, kw_only=True)
class LeakForecast:
    """Forecasts by plan, from the curves that `sanitize-eval frontier` measured in `runs` runs with
    these prompts."""

    prompts: str
    runs: int
    plans: Sequence[PlanForecast]


@dataclass(frozen=True, kw_only=True, repr=False)
class ExplainResult(CommandResult):
    """The result of `explain`: what a run would do, from the first `sampled_documents` documents.
    `documents` is None if they were not counted; `missing_requirements` says why the plan cannot
    run here. `unreadable` has the first files that cannot be read, each with the reason;
    `quarantine` counts the files and the records of the sample that a run would quarantine, by
    reason, and `refusal` says why a run would stop because of them."""

    plan: Mapping[str, Any]
    files: int
    bytes: int
    documents: int | None
    unreadable_files: int
    columns: Sequence[ColumnPolicy]
    sampled_documents: int
    sample: SampleCounts
    examples: Sequence[ExampleEdit]
    estimate: CostEstimate
    forecast: LeakForecast | None = field(default=None, metadata=IF_SET)
    missing_requirements: Sequence[str] = field(default_factory=list, metadata=IF_SET)
    notes: Sequence[str] = field(default_factory=list, metadata=IF_SET)
    unreadable: Sequence[str] = ()
    quarantine: Mapping[str, int] = field(default_factory=dict)
    refusal: str | None = field(default=None, metadata=IF_SET)
    shape: str = field(default="", metadata=IF_SET)

    def summary_table(self) -> SummaryTable:
        estimate = self.estimate
        facts = [
            ("plan", f"{self.plan['name']}: {self.plan['about']}"),
            (
                "input",
                (
                    f"{self.files:,} files, {self.bytes / 1e6:,.1f} MB, {self.unreadable_files:,}"
                    " files cannot be read"
                ),
            ),
            *([("refused", self.refusal)] if self.refusal else []),
            ("columns", ", ".join(f"{column.name}: {column.policy}" for column in self.columns)),
            (
                "estimate",
                (
                    f"{estimate.cpu_seconds:,} CPU-seconds, {estimate.output_mb:,} MB out,"
                    f" {estimate.workspace_mb:,} MB private"
                ),
            ),
            (
                "sampled",
                (
                    f"the first {self.sampled_documents:,} documents, sanitized in a temporary"
                    " folder; nothing was written"
                ),
            ),
            *(("missing", message) for message in self.missing_requirements),
            *(("note", message) for message in self.notes),
            *(
                (
                    pair.kind,
                    (
                        f"{pair.before} →"
                        f" {pair.after}{' (by shape)' if pair.line_before is None else ''}"
                    ),
                )
                for pair in self.examples
            ),
        ]
        header, rows = tabulate_kinds(self.sample.by_kind)
        return SummaryTable(title="sanitize explain", facts=facts, header=header, rows=rows)


# ------------------------------------------------------- verify, replay, report, status, doctor


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyResult(CommandResult):
    """The result of `verify`: OUT matches its manifest, and none of `values_checked` values was
    found in `forms` outside of `kept_originals`, which are where they were kept.

    `ambiguous_values` further values, such as names of one word, may mean something else: a match
    of one is no leak. `inconclusive` counts matches that may be a removed value or chance, by kind:
    short ones, and those inside longer words and numbers. A full check also gives `passes`,
    `inconclusive_forms` and `bytes_searched`, by location. `foreign_files`: files that no run
    published, which were searched too; a name that may hold a value is a number.
    """

    leaks: int
    mode: str
    shards: int
    values_checked: int
    forms: Sequence[str]
    inconclusive: Mapping[str, int]
    ambiguous_values: int = 0
    kept_originals: int
    rows: int
    out: str
    work: str
    passes: int | None = field(default=None, metadata=IF_SET)
    inconclusive_forms: Mapping[str, int] | None = field(default=None, metadata=IF_SET)
    bytes_searched: Mapping[str, int] | None = field(default=None, metadata=IF_SET)
    foreign_files: Sequence[str] = ()

    def summary_table(self) -> SummaryTable:
        facts = [
            ("shards", f"{self.shards:,}, all match the manifest"),
            (
                "leaks",
                describe_search(
                    self.leaks, self.values_checked, len(self.forms), self.kept_originals
                ),
            ),
            ("forms", ", ".join(self.forms)),
            *(
                [("foreign files", f"{', '.join(self.foreign_files)}; searched too")]
                if self.foreign_files
                else []
            ),
        ]
        rows = sorted(self.inconclusive.items())
        return SummaryTable(
            title=f"sanitize verify: {self.out} ({self.mode})",
            facts=facts,
            header=("kind", "inconclusive places"),
            rows=rows,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayResult(CommandResult):
    """The result of `replay`: whether the shards are the manifest's, and the numbers of those that
    differ (from 0)."""

    same: bool
    shards: int
    different_shards: Sequence[int]
    different_counts: Sequence[str]
    same_manifest: bool
    notes: Sequence[str]
    published: bool
    changed: bool
    out: str
    work: str

    def summary_table(self) -> SummaryTable:
        facts = [
            ("shards", f"{self.shards:,}, {len(self.different_shards):,} different"),
            ("published", self.out if self.published else "nothing"),
            *(("note", note) for note in self.notes),
        ]
        return SummaryTable(
            title=f"sanitize replay: {'the same' if self.same else 'different'}", facts=facts
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class ReportResult(CommandResult):
    """The result of `report`: the paths of the page (None if only figures were written) and of the
    figures, and how many samples of edits the page shows."""

    out: str
    work: str
    page: str | None
    figures: Sequence[str]
    samples: int

    def summary_table(self) -> SummaryTable:
        facts = [
            *([("page", self.page)] if self.page else []),
            *(("figure", path) for path in self.figures),
        ]
        return SummaryTable(title=f"sanitize report: {self.out}", facts=facts)


@dataclass(frozen=True, kw_only=True)
class DiffPiece:
    """A piece of a text before and after the run; `mark` says what became of it.

    `text` is unchanged and no occurrence; `kept` (a kept original) and `left` (a kind that the plan
    leaves) are occurrences and unchanged; `replaced` and `swept` (found by the leak check) have
    `after` in place of `before`; `dropped` is the text of a dropped document. `omitted` is
    unchanged or other text of `characters` that is not shown. `part` is the part of the plan that
    decided, `kind` may be empty for edits that are no occurrence.
    """

    mark: Literal["text", "kept", "left", "replaced", "swept", "dropped", "omitted"]
    before: str = ""
    after: str = ""
    kind: str = ""
    part: str = ""
    characters: int | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class CellDiff:
    """A text of a document that has marks: its number, the leaf it comes from, and its pieces in
    order."""

    cell: int
    leaf: str
    pieces: Sequence[DiffPiece]


@dataclass(frozen=True, kw_only=True)
class DocumentDiff:
    """A document before and after the run. `outcome` is `changed`, `unchanged`, `dropped` (by
    `part` of the plan, for `reason`, because of document `kept_doc_no` where there is one),
    `quarantined` (for `reason`) or `absent` (erased, or not in the sample of the run). `marks`
    has the number of pieces of each mark in the whole document, also of pieces that `cells` leaves
    out."""

    doc_no: int
    doc_id: str
    outcome: Literal["changed", "unchanged", "dropped", "quarantined", "absent"]
    marks: Mapping[str, int]
    cells: Sequence[CellDiff]
    split: str = ""
    part: str = ""
    reason: str = ""
    kept_doc_no: int | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffResult(CommandResult):
    """The result of `diff`: the documents that are shown, of `matching` ones, before and after the
    run.

    `shown` says which texts are in clear: `shapes` (none: all are masked by shape), `output` (what
    OUT holds) or `all`. `columns` are those that a policy changes as a whole. `page` is the HTML
    page that was written, if one was.
    """

    out: str
    work: str
    plan: str
    shown: Literal["shapes", "output", "all"]
    matching: int
    documents: Sequence[DocumentDiff]
    columns: Sequence[ColumnPolicy]
    page: str | None = None

    def summary_table(self) -> SummaryTable:
        facts = [
            ("plan", self.plan),
            ("documents", f"{len(self.documents):,} of {self.matching:,} that match"),
            ("texts", DIFF_TEXTS[self.shown]),
            *([("page", self.page)] if self.page else []),
        ]
        rows = [
            (
                one.doc_no,
                one.outcome,
                *(one.marks.get(mark, 0) for mark in ("replaced", "swept", "kept", "left")),
            )
            for one in self.documents
        ]
        header = ("document", "outcome", "replaced", "swept", "kept", "left")
        return SummaryTable(
            title=f"sanitize diff: {self.out}", facts=facts, header=header, rows=rows
        )


DIFF_TEXTS = {
    "shapes": "masked by shape",
    "output": "as in the output; what was removed is masked by shape",
    "all": "in clear, with what was removed: do not share this",
}


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """A run made from a private folder, and how many of its tasks are done."""

    plan_hash: str
    plan: str | None
    tasks_done: int


@dataclass(frozen=True, kw_only=True, repr=False)
class StatusResult(CommandResult):
    """The state of a private folder: its index (`documents`, `increments` and `key_id` are None
    without one), the runs made from it, and the process that holds its lock (`pid`, `host`,
    `since`), None if it is free."""

    indexed: bool
    documents: int | None
    tasks: int
    increments: int | None
    key_id: str | None
    detect_tasks_done: int
    runs: Sequence[RunProgress]
    lock_holder: Mapping[str, Any] | None

    def summary_table(self) -> SummaryTable:
        index = (
            f"{self.documents:,} documents, {self.tasks:,} tasks"
            if self.indexed
            else f"none yet ({self.detect_tasks_done:,} tasks done)"
        )
        holder = self.lock_holder
        facts = [
            ("index", index),
            *(
                [("held by", f"process {holder.get('pid')} on {holder.get('host')}")]
                if holder
                else []
            ),
        ]
        rows = [(run.plan_hash, run.plan, run.tasks_done) for run in self.runs]
        return SummaryTable(
            title="sanitize status", facts=facts, header=("run", "plan", "tasks done"), rows=rows
        )


CheckStatus = Literal["ok", "warn", "fail", "absent"]


@dataclass(frozen=True)
class EnvironmentCheck:
    """Result of one check of `doctor`. `absent` is an optional package that is not installed;
    `action` is the remedy, or how to install it. `exit_code` is the exit code of the command if
    this check fails."""

    name: str
    status: CheckStatus
    detail: str
    action: str = ""
    exit_code: int = field(default=0, metadata=_NOT_IN_JSON)


@dataclass(frozen=True, kw_only=True, repr=False)
class DoctorResult(CommandResult):
    """The result of `doctor`: `ok` if no check failed; `exit_code` of the first failure (7 the
    machine, 2 the installation, 1 an internal error)."""

    ok: bool
    exit_code: int
    checks: Sequence[EnvironmentCheck]
    folder: str
    seconds: float

    def summary_table(self) -> SummaryTable:
        rows = [(check.status, check.name, check.detail, check.action) for check in self.checks]
        head = ("status", "check", "detail", "action")
        return SummaryTable(
            title=f"sanitize doctor: {'nothing fails' if self.ok else 'something fails'}",
            header=head,
            rows=rows,
        )


# -------------------------------------------------------------------------------------- subject


@dataclass(frozen=True, kw_only=True)
class GivenIdentifiers:
    """How many values, names and users a match gives."""

    values: int
    names: int
    users: int


@dataclass(frozen=True, kw_only=True)
class LinkedIdentifiers:
    """How many values and names are linked to those given, and how many display names were not
    followed."""

    values: int
    names: int
    names_not_followed: int


@dataclass(frozen=True, kw_only=True)
class SectionCounts:
    """Occurrences of one kind in one section of the documents (None: in the text), and the
    documents that have them."""

    kind: str
    section: str | None
    occurrences: int
    documents: int


@dataclass(frozen=True, kw_only=True)
class SubjectInOutput:
    """What one published OUT holds of a person: documents, shards, occurrences replaced and
    `remaining`. Counts are None if OUT was published from an earlier index."""

    plan: str
    plan_hash: str
    out: str
    documents: int | None
    shards: Sequence[str]
    remaining: int | None
    replaced: int | None
    erasures_honoured: int | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True)
class SubjectInTraining:
    """What one training run saw of the person's documents: how many, first at which step, and how
    many checkpoints came after it."""

    run: str
    documents_seen: int
    first_step: int | None
    checkpoints: int
    checkpoints_after: int


@dataclass(frozen=True, kw_only=True)
class UnreachedOutput:
    """A folder that was published and that an erasure does not reach. `reason`: `missing` (it is
    nowhere beside WORK or its path), `other content` (the folder at its path is not the one that
    was published), `other workspace` (the private folder beside it is another one), or `copy` (a
    further folder with the same content, besides the output itself)."""

    out: str
    plan_hash: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ErasedOutput:
    """One OUT after an erasure. `erased` is False if it could not be published without the person,
    and then nothing else is known; or if it has `occurrences_left`: those of values that the
    finders of its plan do not find."""

    out: str
    plan_hash: str
    erased: bool
    shards: int | None = field(default=None, metadata=IF_SET)
    shards_rewritten: int | None = field(default=None, metadata=IF_SET)
    changed: bool | None = field(default=None, metadata=IF_SET)
    occurrences_erased: int | None = field(default=None, metadata=IF_SET)
    occurrences_left: int | None = field(default=None, metadata=IF_SET)
    leaks: int | None = field(default=None, metadata=IF_SET)
    encoded_leaks: Mapping[str, int] | None = None
    manifest_sha256: str | None = field(default=None, metadata=IF_SET)


@dataclass(frozen=True, kw_only=True, repr=False)
class Erasure(CommandResult):
    """The outputs that were published again without the person, and the file of the receipt."""

    outputs: Sequence[ErasedOutput]
    receipt: str

    def summary_table(self) -> SummaryTable:
        rows = [(output.out, output.occurrences_erased) for output in self.outputs]
        return SummaryTable(
            title=f"erased; receipt {self.receipt}", header=("output", "occurrences"), rows=rows
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class SubjectResult(CommandResult):
    """The result of `subject`: what was given and linked, where it occurs, and what was erased.
    `unmatched_lines` are the lines of the match that occur nowhere."""

    given: GivenIdentifiers
    linked: LinkedIdentifiers
    values_found: int
    unmatched_lines: Sequence[int]
    documents: int
    documents_authored: int
    occurrences: int
    occurrences_by_section: Sequence[SectionCounts]
    runs: Sequence[SubjectInOutput]
    checkpoints: Sequence[SubjectInTraining]
    unreached_outputs: Sequence[UnreachedOutput]
    work: str
    erased: Erasure | None = field(default=None, metadata=IF_SET)

    def summary_table(self) -> SummaryTable:
        given, linked = self.given, self.linked
        facts = [
            ("given", f"{given.values:,} values, {given.names:,} names, {given.users:,} users"),
            ("linked", f"{linked.values:,} values, {linked.names:,} names"),
            ("found", f"{self.occurrences:,} occurrences in {self.documents:,} documents"),
            *(
                (
                    "published",
                    (
                        f"{run.out}: {run.remaining:,} left, {run.replaced:,} replaced"
                        if run.remaining is not None
                        else run.out
                    ),
                )
                for run in self.runs
            ),
            *(
                ("erased", f"{output.out}: {output.occurrences_erased or 0:,} occurrences")
                for output in (self.erased.outputs if self.erased else ())
            ),
        ]
        rows = [
            (place.kind, place.section or "the text", place.occurrences)
            for place in self.occurrences_by_section
        ]
        return SummaryTable(
            title=f"sanitize subject: {self.work}",
            facts=facts,
            header=("kind", "where", "occurrences"),
            rows=rows,
        )


# -------------------------------------------------------------------------------- labels, rules


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelSample(CommandResult):
    """The result of `sample_for_labels`: the file to label, its rows by stratum, and the strata
    without a row."""

    file: str
    rows: int
    strata: Mapping[str, int]
    empty_strata: Sequence[str]
    work: str

    def summary_table(self) -> SummaryTable:
        return SummaryTable(
            title=f"sanitize label: {self.file}",
            header=("stratum", "rows"),
            rows=sorted(self.strata.items()),
        )


@dataclass(frozen=True, kw_only=True)
class KindScores:
    """Precision and recall of one kind (shares from 0 to 1; None if not measured), each with its 95
    % interval. `wrong_spans` of the judged finds are wrong in their boundaries alone; precision
    counts them as wrong."""

    judged: int
    right: int
    wrong_spans: int
    precision: float | None
    precision_interval: Sequence[float] | None
    found: int
    missed: int
    recall: float | None
    recall_interval: Sequence[float] | None


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelScores(CommandResult):
    """The result of `score_labels`: precision and recall by kind."""

    file: str
    rows: int
    unlabelled_rows: int
    kinds: Mapping[str, KindScores]

    def summary_table(self) -> SummaryTable:
        facts = [("labelled", f"{self.rows - self.unlabelled_rows:,} of {self.rows:,} rows")]
        rows = [
            (
                kind,
                scores.judged,
                _format_interval(scores.precision, scores.precision_interval),
                _format_interval(scores.recall, scores.recall_interval),
            )
            for kind, scores in self.kinds.items()
        ]
        return SummaryTable(
            title="sanitize label: scores",
            facts=facts,
            header=("kind", "judged", "precision", "recall"),
            rows=rows,
        )


def _format_interval(value: float | None, interval: Sequence[float] | None) -> str:
    return (
        "not measured"
        if value is None or interval is None
        else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"
    )


@dataclass(frozen=True, kw_only=True)
class TwoIndexEstimate:
    """Chapman's estimate of one kind from two indexes, with its 95 % interval; None if only one of
    them has any."""

    first: int
    second: int
    both: int
    estimate: float | None
    interval: Sequence[float] | None
    missed_by_both: float | None


@dataclass(frozen=True, kw_only=True)
class SeveralIndexEstimate:
    """Estimates of one kind from three indexes or more: Chao's lower bound and a log-linear one,
    with 95 % intervals; None where the counts do not suffice. `dependent_pairs` are pairs of
    indexes, counted from 1."""

    found_by_list: Sequence[int]
    found: int
    found_once: int
    found_twice: int
    lower_bound: float | None
    lower_bound_interval: Sequence[float] | None
    missed_at_least: float | None
    loglinear: float | None
    loglinear_interval: Sequence[float] | None
    dependent_pairs: Sequence[Sequence[int]] | None


@dataclass(frozen=True, kw_only=True, repr=False)
class MissedEstimate(CommandResult):
    """The result of `estimate_missed`: estimates by kind, what they assume, the finders of each
    index, and the kinds that only one index has, for which no estimate is possible."""

    finders: Mapping[str, Sequence[str]]
    assumption: str
    estimates: Mapping[str, TwoIndexEstimate | SeveralIndexEstimate]
    one_finder_only: Sequence[str]

    def summary_table(self) -> SummaryTable:
        facts = [("assumes", self.assumption)]
        if len(self.finders) > 2:
            header = (
                "kind",
                *(f"index {number}" for number in range(1, len(self.finders) + 1)),
                "by any",
            )
            rows: list[tuple[Any, ...]] = [
                (kind, *counts.found_by_list, counts.found)
                for kind, counts in self.estimates.items()
                if isinstance(counts, SeveralIndexEstimate)
            ]
        else:
            header = ("kind", "first", "second", "both")
            rows = [
                (kind, counts.first, counts.second, counts.both)
                for kind, counts in self.estimates.items()
                if isinstance(counts, TwoIndexEstimate)
            ]
        return SummaryTable(
            title="sanitize label: estimates", facts=facts, header=header, rows=rows
        )


@dataclass(frozen=True, kw_only=True)
class ExampleCounts:
    """How many examples, counter-examples and words a custom kind has."""

    kind: str
    examples: int
    counter_examples: int
    words: int


@dataclass(frozen=True, kw_only=True)
class FailedExample:
    """An example that is not found, or a counter-example that is: its kind, its list, its index
    there (from 0), and the reason."""

    kind: str
    list: str
    index: int
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ExampleTestResult(CommandResult):
    """The result of `plan test` without a text: the custom kinds of a plan, and the examples that
    failed."""

    plan: str
    kinds: Sequence[ExampleCounts]
    example_count: int
    failed: Sequence[FailedExample]

    def summary_table(self) -> SummaryTable:
        rows = [(counts.kind, counts.examples, counts.counter_examples) for counts in self.kinds]
        facts = [("failed", f"{len(self.failed):,} of {self.example_count:,} examples")]
        header = ("kind", "examples", "counter-examples")
        return SummaryTable(
            title=f"sanitize plan test: {self.plan}", facts=facts, header=header, rows=rows
        )


# ---------------------------------------------------------------------------------------- plans


@dataclass(frozen=True, kw_only=True)
class KindTreatment:
    """What a plan does with some kinds: the editor and what it does, in words. `editor` is None for
    kinds that are left.

    `stays` says which occurrences are in the output unchanged, in words; "" if none of those that
    are found."""

    kinds: Sequence[str]
    editor: str | None
    action: str
    stays: str


@dataclass(frozen=True, kw_only=True)
class CategoryCoverage:
    """What a plan does about one category of kinds: the kinds that it looks for, by treatment, and
    those that it does not look for."""

    category: str
    about: str
    looked_for: Sequence[KindTreatment]
    not_looked_for: Sequence[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanDescription(CommandResult):
    """The result of `plan show`: what the plan is for (`about`), its finders, droppers and editors,
    what becomes of each category of kinds, and in words what stays by plan and what is not looked
    for."""

    name: str
    about: str
    publishable: bool
    finders: Sequence[str]
    droppers: Sequence[str]
    categories: Sequence[CategoryCoverage]
    stays: Sequence[str]
    not_looked_for: Sequence[str]
    notes: Sequence[str]

    def summary_table(self) -> SummaryTable:
        facts = [
            ("about", self.about),
            ("stays", "; ".join(self.stays) or "nothing that is found"),
            ("not looked for", "; ".join(self.not_looked_for)),
            ("publish", "publishable" if self.publishable else "not publishable"),
        ]
        return SummaryTable(
            title=f"Plan {self.name}", facts=facts, header=COVERAGE_HEADER, rows=self.table_rows()
        )

    def table_rows(self) -> list[tuple[str, str, str, str, str]]:
        """The rows of the table of `COVERAGE_HEADER`: category, kinds, what becomes of them, by
        which editor, what stays."""
        rows = []
        for row in self.categories:
            for treatment in row.looked_for:
                kinds = ", ".join(treatment.kinds)
                rows.append(
                    (
                        row.category,
                        kinds,
                        treatment.action,
                        treatment.editor or "-",
                        treatment.stays or "nothing",
                    )
                )
            if not row.looked_for:
                rows.append((row.category, "not looked for", "-", "-", "everything"))
        return rows


COVERAGE_HEADER = ("category", "looked for", "what becomes of it", "editor", "stays")
