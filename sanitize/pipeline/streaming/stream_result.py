"""The result of `stream`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sanitize.core.command_results import CommandResult, KindOutcomes, PlanOutcome
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import VerdictLine, describe_coverage, describe_inconclusive


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamResult(CommandResult, PlanOutcome):
    """What one command did in a stream: counts of its records, and `position`, the records of the
    stream that are acknowledged.

    `verify` is the leak check of each batch (full, fast or off), `not_searched` the forms of values
    that it does not search; `shape` is that of chat or instruction data.
    """

    by_kind: Mapping[str, KindOutcomes]
    notes: Sequence[str]
    swept: int
    leaks: int
    position: int
    changed: bool
    seconds: float
    state: str | None
    shape: str = ""
    verify: str = "full"
    inconclusive: Mapping[str, int] = field(default_factory=dict)
    not_searched: Sequence[str] = ()

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
