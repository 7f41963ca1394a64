"""What a run found and did, as the lines of a verdict: the same words in the summary of a command,
the dataset card and the report.

A verdict is about what was looked for: its lines also name what was not looked for, what stays and
why, which check was run, and in which written forms values of invented people stayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sanitize.core.command_results import CanaryCounts, MeasuredRecall, RunSummary

Level = Literal["good", "care", "bad"]
# what the finders without a model miss most often
_STAYS_WITHOUT_MODEL = (
    "names in small letters, names that no list and no word beside them shows, and postal addresses"
)


@dataclass(frozen=True)
class VerdictLine:
    """One line: its name, its words, and whether it is good, asks for care, or forbids
    publication."""

    name: str
    text: str
    level: Level


def describe_verdict(summary: RunSummary) -> list[VerdictLine]:
    """The lines of the verdict on a run.

    The first line is the verdict itself: good only if the leak check was a full one and nothing
    that was found stays, care where something stays by plan or nothing was found, bad where the
    result is not to be published.
    """
    stays = describe_stays(summary)
    return [
        _describe_result(summary),
        *describe_coverage(summary.looked_for, summary.not_looked_for, summary.models),
        VerdictLine(
            "stays",
            "; ".join(stays) or "nothing that was found",
            "care" if stays_in_output(summary) else "good",
        ),
        _describe_check(summary),
        *_describe_canaries(summary.canaries),
        describe_recall(summary.measured),
    ]


def describe_recall(measured: MeasuredRecall | None, work: str = "WORK") -> VerdictLine:
    """What labels say about the share of each kind that was found; without labels, the command that
    measures it, for the private folder `work`."""
    by_kind = [
        f"{kind} {format_share(scores.recall, scores.recall_interval)}"
        for kind, scores in (measured.kinds.items() if measured else ())
        if scores.recall is not None
    ]
    if measured is None or not by_kind:
        return VerdictLine(
            "recall",
            f"not measured: what the finders missed is unknown; `{name_label_command(work)}`"
            " measures it",
            "care",
        )
    rows = f"{measured.labelled_rows:,} labelled row{'s' * (measured.labelled_rows != 1)}"
    return VerdictLine(
        "recall", f"{', '.join(by_kind)}; 95 %, {rows}, scored on {measured.date}", "care"
    )


def format_share(
    share: float | None, interval: Sequence[float] | None, *, none: str = "not measured"
) -> str:
    """A share with two decimals and its interval, of which the ends are rounded outwards."""
    if share is None or interval is None:
        return none
    low, high = math.floor(100 * interval[0]) / 100, math.ceil(100 * interval[1]) / 100
    return f"{share:.2f} ({low:.2f} to {high:.2f})"


def name_label_command(work: str) -> str:
    """The command that measures recall."""
    return f"sanitize label {work}"


def describe_coverage(
    looked_for: Sequence[str], not_looked_for: Sequence[str], models: Sequence[str] | None = None
) -> list[VerdictLine]:
    """What was looked for, and what was not; and where names of people were, which models found
    some, and what stays without one. Summaries of earlier versions have only the names of kinds in
    `looked_for`, and None as `models`."""
    lines = [
        VerdictLine(
            "looked for", "; ".join(looked_for) or "nothing", "good" if looked_for else "care"
        ),
        VerdictLine(
            "not looked for",
            "; ".join(not_looked_for) or "nothing",
            "care" if not_looked_for else "good",
        ),
    ]
    if models:
        lines.append(VerdictLine("model", "; ".join(models), "good"))
    elif models is not None and any(
        kind == "PERSON" or kind.endswith("(PERSON)") for kind in looked_for
    ):
        lines.append(
            VerdictLine(
                "model",
                f"none was used: {_STAYS_WITHOUT_MODEL} may stay (--finder ner adds one)",
                "care",
            )
        )
    return lines


def stays_in_output(summary: RunSummary) -> bool:
    """True if something that was found stays in the output, whole or in part."""
    return bool(count_unchanged(summary) or summary.staying_kinds or summary.kept_values)


def count_unchanged(summary: RunSummary) -> int:
    """How many found occurrences stay as they are."""
    left = sum(counts.left_by_plan for counts in summary.by_kind.values())
    return left + summary.kept_originals


def describe_stays(summary: RunSummary) -> list[str]:
    """What stays in the output, and why: by plan, with the number of occurrences, and in columns
    that are kept."""
    kept, stays = count_unchanged(summary), list(summary.stays_by_plan)
    if kept:
        stays.append(f"in all {kept:,} found occurrences stay as they are, by plan")
    elif stays and not summary.staying_kinds:
        stays.append("none of these was found")
    reasons = {"name": "its name says so", "chance": "numbers that look like it by chance"}
    stays += [
        f"{value.values:,} occurrences of {value.kind} in the kept column {value.column}"
        f" ({reasons.get(value.kept_for, value.kept_for)})"
        for value in summary.kept_values
    ]
    return stays


def _describe_result(summary: RunSummary) -> VerdictLine:
    check = summary.verify
    if check.mode == "off":
        return VerdictLine("verdict", "keep private: the result was not checked", "bad")
    if check.mode != "full":
        return VerdictLine(
            "verdict", "keep private: the fast check does not search in encoded forms", "bad"
        )
    if not summary.publishable:
        return VerdictLine("verdict", "keep private: the plan is not meant for publication", "bad")
    if stays_in_output(summary):
        text = (
            "no removed value is left; other values that were found stay by plan"
            if summary.replaced or summary.documents_dropped
            else "nothing was replaced: all values that were found stay by plan"
        )
        return VerdictLine("verdict", text, "care")
    if not summary.occurrences:
        return VerdictLine("verdict", "nothing was found, so nothing was removed", "care")
    if check.inconclusive:
        return VerdictLine(
            "verdict",
            "nothing that was found is left, save perhaps in the inconclusive places below",
            "care",
        )
    return VerdictLine("verdict", "nothing that was found is left", "good")


def _describe_check(summary: RunSummary) -> VerdictLine:
    check = summary.verify
    if check.mode == "off":
        return VerdictLine("check", "off: nothing was checked", "bad")
    # an editor may keep originals of a kind that the check does not search for
    kept_originals = summary.kept_originals
    if check.kinds is not None:
        kept_originals = sum(
            counts.kept for kind, counts in summary.by_kind.items() if kind in check.kinds
        )
    found = describe_search(
        summary.leaks or 0,
        check.values_checked,
        check.values_removed,
        len(check.forms),
        kept_originals,
    )
    texts = [f"{check.mode}: {found}"]
    if check.swept:
        texts.append(f"{check.swept:,} occurrences that the finders had missed were swept")
    if check.inconclusive:
        texts.append(describe_inconclusive(check.inconclusive))
    if check.not_searched:
        texts.append(f"not searched in the forms {', '.join(check.not_searched)}")
    if count := check.ambiguous_values:
        texts.append(
            f"not searched for {count:,} value{'s' * (count > 1)} that may mean something else,"
            " such as a name of one word"
        )
    if check.unchecked_kinds:
        texts.append(
            f"not searched for {', '.join(check.unchecked_kinds)} (their texts often mean"
            " something else)"
        )
    needs_care = check.not_searched or check.unchecked_kinds or check.inconclusive
    return VerdictLine("check", "; ".join(texts), "care" if needs_care else "good")


def describe_search(
    leaks: int, values: int, removed: int | None, forms: int, kept_originals: int
) -> str:
    """How many removed values the leak check found, and how many of the `values` that it searched
    for are only kept. Outputs of earlier versions do not say how many were removed."""
    if removed is None and kept_originals:
        return (
            f"{leaks:,} of {values:,} values found in {forms} forms outside of"
            f" {kept_originals:,} kept originals"
        )
    removed = values if removed is None else removed
    text = f"{leaks:,} of {removed:,} removed values found in {forms} forms"
    if kept_originals:
        text += f" outside {kept_originals:,} kept originals"
    if only_kept := values - removed:
        text += f"; {only_kept:,} are only kept"
    return text


def describe_inconclusive(counts: Mapping[str, int]) -> str:
    """How many matches of each kind may be a removed value or chance."""
    by_kind = ", ".join(f"{times:,} {kind}" for kind, times in sorted(counts.items()))
    return (
        f"{by_kind} inconclusive (inside a longer word or number, or too short to tell from chance)"
    )


def _describe_canaries(canaries: CanaryCounts) -> list[VerdictLine]:
    """How many values of invented people were removed, and in which written forms some stayed;
    empty if none were planted."""
    forms = canaries.by_form
    planted = sum(counts.planted for counts in forms.values())
    removed = sum(counts.removed for counts in forms.values())
    if not planted:
        return []
    text = (
        f"{removed:,} of {planted:,} values of invented people were removed, in {len(forms)}"
        " written forms"
    )
    survivors = [
        f"{name} {counts.planted - counts.removed:,} of {counts.planted:,}"
        for name, counts in sorted(forms.items())
        if counts.removed < counts.planted
    ]
    if survivors:
        text += f"; stayed: {', '.join(survivors)}"
    if canaries.untested_kinds:
        text += f"; not tested: {', '.join(canaries.untested_kinds)}"
    return [VerdictLine("canaries", text, "care" if survivors else "good")]
