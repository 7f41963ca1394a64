"""The base class of the results of commands, their JSON data, and the counts that several of them
have; `RunSummary` is also the `summary` of a manifest.

A result is a frozen dataclass with counts, fixed words and names that the user gave; never a value
or a text. It is declared beside its command. `to_dict` gives what `--json` prints; at a prompt and
in a notebook a result shows its summary table.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from sanitize.core.table_rendering import SummaryTable

T = TypeVar("T")

# annotations of fields that the JSON data leaves out where they are None, and where they are
# empty
IF_SET = Field(exclude_if=lambda value: value is None)
IF_NOT_EMPTY = Field(exclude_if=operator.not_)
_adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)


def to_json(value: Any) -> Any:
    """A dataclass as JSON data."""
    return _adapter(type(value)).dump_python(value, mode="json", by_alias=True, warnings="none")


def from_json(result_type: type[T], data: object) -> T:
    """The dataclass that `to_json` gave as `data`. Raises ValueError with the name of the first
    field that does not fit."""
    try:
        result: T = _adapter(result_type).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        # without the data, which the message of pydantic quotes
        raise ValueError(
            f"{result_type.__name__}.{'.'.join(map(str, first['loc']))}: {first['type']}"
        ) from None
    return result


@with_config(ConfigDict(extra="forbid", ser_json_inf_nan="constants"))
@dataclass(frozen=True, repr=False)
class CommandResult:
    """Base class of the results of commands."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data, with the keys that `--json` prints."""
        return dict(to_json(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The result that `to_dict` gave as `data`."""
        return from_json(cls, data)

    def __repr__(self) -> str:
        return self.summary_table().to_text()

    def _repr_html_(self) -> str:
        return self.summary_table().to_html()

    def summary_table(self) -> SummaryTable:
        """The table that is shown at a prompt and in a notebook."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class KindOutcomes:
    """Occurrences of one kind: `kept`, `replaced` and `left_by_plan` add up to `occurrences`."""

    occurrences: int = 0
    kept: int = 0
    replaced: int = 0
    left_by_plan: int = 0


@dataclass(frozen=True, kw_only=True)
class KindCounts(KindOutcomes):
    """Counts of one kind in a corpus. Of the occurrences the finders missed `swept`, which the leak
    check added; the others are the rows of the table `occurrences`. `values` are distinct,
    `skipped` counts the candidates that were refused, by reason."""

    values: int = 0
    documents: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    swept: int = 0


@dataclass(frozen=True, kw_only=True)
class ColumnPolicy:
    """What is done with a column: `sanitize`, `keep`, `pseudonymize` or `drop`; what it is taken
    for (`text`, `people`, `id`, a kind ...), and why."""

    name: str
    policy: str
    taken_for: str = ""
    why: str = ""

    @property
    def becomes(self) -> str:
        """The policy in words."""
        words = {
            "sanitize": "searched",
            "keep": "kept",
            "pseudonymize": "keyed codes",
            "drop": "left out",
        }
        return words.get(self.policy, self.policy)


@dataclass(frozen=True, kw_only=True)
class DroppedDocuments:
    """How many documents a part of the plan dropped, and why."""

    part: str
    reason: str
    documents: int


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
    masked_words: int = 0


@dataclass(frozen=True, kw_only=True)
class LeakCheckCounts:
    """The leak check of a run: `values_checked` values were searched for in `forms`. Of them
    `values_removed` were removed somewhere; of the others every occurrence is a kept original (None
    in outputs of earlier versions, which did not tell them apart). `swept` occurrences that the
    finders had missed were removed. `ambiguous_values` further values, such as names of one word,
    may mean something else, and are not searched for. `kinds` are those that are searched for,
    `unchecked_kinds` those that the plan edits and the check does not search for. `not_searched`
    are the forms that only a full check searches. `inconclusive` counts matches that may be a
    removed value or chance, by kind: short ones, and those inside longer words and numbers."""

    forms: Sequence[str]
    mode: str
    values_checked: int = 0
    values_removed: Annotated[int | None, IF_SET] = None
    swept: int = 0
    files: int
    ambiguous_values: int = 0
    kinds: Annotated[Sequence[str] | None, IF_SET] = None
    unchecked_kinds: Sequence[str] = ()
    not_searched: Sequence[str] = ()
    inconclusive: Annotated[Mapping[str, int] | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class PlantedCounts:
    """How many planted values of invented people there were, and how many the plan removed."""

    planted: int = 0
    removed: int = 0


@dataclass(frozen=True, kw_only=True)
class CanarySample:
    """A line with an invented value, before and after the plan edited it, in clear text."""

    kind: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class CanaryCounts(PlantedCounts):
    """The canary check of a run, in total, by form, and for forms that a finder need not decode
    (`encoded`); `samples` has a line with an invented value of each kind."""

    documents: int = 0
    encoded: PlantedCounts = PlantedCounts()
    by_form: Mapping[str, PlantedCounts] = field(default_factory=dict)
    untested_kinds: Sequence[str]
    samples: Sequence[CanarySample] = ()


@dataclass(frozen=True, kw_only=True)
class KeptValues:
    """Values of a kind that stay in a column that is kept, each as often as it occurs, and why: the
    column is named after them (`name`), or numbers look like them by `chance`."""

    column: str
    kind: str
    values: int
    kept_for: str


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


@dataclass(frozen=True, kw_only=True)
class MeasuredRecall:
    """What a labelled sample of the corpus says about the finders, by kind: scored on `date`, from
    `labelled_rows` rows."""

    date: str
    labelled_rows: int
    kinds: Mapping[str, KindScores]


@dataclass(frozen=True, kw_only=True)
class OutcomeCounts:
    """Documents that are not in the output, and occurrences by outcome."""

    documents_dropped: int
    quarantined: int
    occurrences: int
    kept_originals: int
    replaced: int


@dataclass(frozen=True, kw_only=True)
class CorpusCounts(OutcomeCounts):
    """The counts of a corpus, or of a sample of it, by kind and by part of the plan."""

    by_kind: Mapping[str, KindCounts]
    dropped: Sequence[DroppedDocuments]
    blacklist: Annotated[BlacklistCounts | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class PlanOutcome(OutcomeCounts):
    """What a plan did with the documents that it read: documents_in = documents_out +
    documents_dropped + quarantined.

    `plan_hash` is that of the plan, whatever the input. In words, names of people first:
    `looked_for` and `not_looked_for` say what the plan looks for and what not, `stays_by_plan` what
    it finds and does not remove completely. `models` are the models that finders used, with what
    their licences ask to be named.
    """

    documents_in: int
    documents_out: int
    quarantine: Mapping[str, int]
    plan_hash: str
    looked_for: Sequence[str] = ()
    not_looked_for: Sequence[str] = ()
    stays_by_plan: Sequence[str] = ()
    models: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RunSummary(CommandResult, CorpusCounts, PlanOutcome):
    """Documents and occurrences by outcome, the leak check, and the columns of a run.

    `leaks` is None if nothing was checked (`verify="off"`). Of what stays by plan `staying_kinds`
    were found. `kept_values` are the values that stay in kept columns, `shape` is that of chat or
    instruction data, `splits` has the documents of each split in OUT. `run_hash` is that of plan,
    input and options, and names the run in WORK. `measured` is None as long as no labelled sample
    was scored.
    """

    erased: int
    editor_reports: Sequence[Mapping[str, Any]]
    leaks: int | None
    verify: LeakCheckCounts
    canaries: CanaryCounts
    publishable: bool
    plan_name: str
    key: str
    columns: Sequence[ColumnPolicy]
    run_hash: str = ""
    measured: Annotated[MeasuredRecall | None, IF_SET] = None
    ledger: Annotated[Sequence[Mapping[str, Any]], IF_NOT_EMPTY] = field(default_factory=list)
    staying_kinds: Sequence[str] = ()
    kept_values: Sequence[KeptValues] = ()
    shape: Annotated[str, IF_NOT_EMPTY] = ""
    splits: Annotated[Mapping[str, int], IF_NOT_EMPTY] = field(default_factory=dict)


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
