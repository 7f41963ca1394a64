"""The results of `run` and `index`, and of the shards of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from sanitize.core.command_results import (
    IF_SET,
    CommandResult,
    RunSummary,
    tabulate_kinds,
)
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import VerdictLine, describe_verdict
from sanitize.engines.task_runner import StageCost
from sanitize.stages.rewriting import ShardCounts


@dataclass(frozen=True, kw_only=True)
class ShardResult(ShardCounts):
    """One shard with its hash; size and hash are those of its file in the output format."""

    sha256: str


@dataclass(frozen=True, kw_only=True)
class AppendedFiles:
    """What an append added to OUT: files, documents and shards."""

    files: int
    documents: int
    shards: int


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """What one command took, by stage and in all, its notes, and the paths of its results. Sizes
    are in bytes or MB (1e6 bytes), times in seconds."""

    notes: Sequence[str]
    text_bytes: int
    stages: Mapping[str, StageCost]
    seconds: float
    mb_per_s: float
    peak_rss_mb: float
    out: str
    work: str


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult(RunSummary, RunCosts):
    """The result of `run`: documents and occurrences by outcome, the leak check, columns, costs,
    and where the files are.

    `changed` is False if OUT was up to date already. `verdict` has what was found, looked for and
    left as lines.
    """

    changed: bool
    appended: Annotated[AppendedFiles | None, IF_SET] = None
    # `--json` always has these two, the manifest only where they are set
    shape: str = ""
    splits: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> list[VerdictLine]:
        """The verdict on the result: what is left, what was looked for and what not, what stays and
        why, which check was run."""
        return describe_verdict(self)

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
