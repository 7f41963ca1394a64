"""Summary tables of command results for notebooks and prompts: a title, a few facts and a small table, escaped, without values.

`CommandResult` is a plain dict with the keys that the command documents; its `repr` and HTML are a `SummaryTable`. A table contains only
counts, fixed words and names that the user gave (folders, columns, plans).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sanitize.core.table_rendering import escape_controls

_MAX_ROWS = 40  # rows of a table that are displayed


@dataclass(frozen=True, kw_only=True)
class SummaryTable:
    """A title, facts as (name, text), and a table of counts with a header."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()

    def to_text(self) -> str:
        """The table as aligned plain text lines, for a prompt."""
        name_width = max((len(name) for name, _ in self.facts), default=0)
        lines = [escape_controls(self.title), *(escape_controls(f"  {name:<{name_width}}  {text}") for name, text in self.facts)]
        if self.rows:
            cells = [
                [_format_cell(name) for name in self.header],
                *([_format_cell(value) for value in row] for row in self.rows[:_MAX_ROWS]),
            ]
            widths = [max(len(row[column]) for row in cells) for column in range(len(self.header))]
            is_number = [isinstance(value, int) for value in self.rows[0]]
            for row in cells:
                padded = (
                    cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, is_number, strict=True)
                )
                lines.append(("  " + "  ".join(padded)).rstrip())
        return "\n".join([*lines, *self._omitted_rows_note()])

    def to_html(self) -> str:
        """The table as HTML, for a notebook: no script, no style except alignment, every text escaped."""
        parts = [f"<div><p><b>{_escape_cell(self.title)}</b></p>"]
        if self.facts:
            rows = "".join(f'<tr><th style="text-align:left">{_escape_cell(name)}</th>{_html_cell(text)}</tr>' for name, text in self.facts)
            parts.append(f"<table>{rows}</table>")
        if self.rows:
            head = "".join(f'<th style="text-align:left">{_escape_cell(name)}</th>' for name in self.header)
            body = "".join(f"<tr>{''.join(_html_cell(value) for value in row)}</tr>" for row in self.rows[:_MAX_ROWS])
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join([*parts, *(f"<p>{_escape_cell(line.strip())}</p>" for line in self._omitted_rows_note()), "</div>"])

    def _omitted_rows_note(self) -> list[str]:
        return [f"  and {len(self.rows) - _MAX_ROWS:,} more"] if len(self.rows) > _MAX_ROWS else []


def _format_cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape_controls("" if value is None else str(value))


def _escape_cell(value: object) -> str:
    return escape(_format_cell(value))


def _html_cell(value: object) -> str:
    side = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align:{side}">{_escape_cell(value)}</td>'


class CommandResult(dict[str, Any]):
    """The result of a command: a dict whose `repr` and notebook HTML are the summary table of that command."""

    def __init__(self, command: str, result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.command = command

    def __reduce__(self) -> tuple[type[CommandResult], tuple[str, dict[str, Any]]]:
        return CommandResult, (self.command, dict(self))

    def __repr__(self) -> str:
        return self._summary_table().to_text()

    def _repr_html_(self) -> str:
        return self._summary_table().to_html()

    def _summary_table(self) -> SummaryTable:
        return _TABLE_BUILDERS[self.command](self)


_Result = Mapping[str, Any]
_KIND_HEADER = ("kind", "occurrences", "values", "kept", "replaced", "left by plan")


def _kind_rows(by_kind: _Result) -> list[tuple[Any, ...]]:
    rows = [
        (kind, *(int(counts[name]) for name in ("occurrences", "values", "kept", "replaced", "left_by_plan")))
        for kind, counts in by_kind.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _run_table(result: _Result) -> SummaryTable:
    check, canaries = result["verify"], result["canaries"]
    facts = [
        (
            "documents",
            f"{result['documents_in']:,} in = {result['documents_out']:,} out + {result['documents_dropped']:,} dropped"
            f" + {result['quarantined']:,} in quarantine",
        ),
        (
            "verify",
            "off: not checked"
            if check["mode"] == "off"
            else f"{result['leaks']:,} of {check['values_checked']:,} removed values found in {len(check['forms'])} forms",
        ),
        *([("canaries", f"{canaries['removed']:,} of {canaries['planted']:,} planted values were removed")] if canaries["planted"] else []),
        ("recall", "not measured"),
        ("kept", f"{result['kept_originals']:,} originals stay in the output as the plan says"),
        ("key", "from a seed: replacements can be guessed, no privacy claim" if result["key"] == "seed" else "secret"),
        ("publish", "publishable according to its plan" if result["publishable"] else "keep private"),
        ("report", f"{result['out']}/report.html"),
    ]
    done = "" if result["changed"] else " (was complete already; nothing changed)"
    return SummaryTable(
        title=f"sanitize run: {result['out']}, plan {result['plan_name']}{done}",
        facts=facts,
        header=_KIND_HEADER,
        rows=_kind_rows(result["by_kind"]),
    )


def _find_table(result: _Result) -> SummaryTable:
    facts = [
        ("documents", f"{result['documents_in']:,}, {result['quarantined']:,} in quarantine"),
        ("occurrences", f"{result['occurrences']:,}"),
    ]
    rows = sorted(result["by_kind"].items(), key=lambda item: (-item[1], item[0]))
    return SummaryTable(title=f"sanitize find: {result['work']}", facts=facts, header=("kind", "occurrences"), rows=rows)


def _explain_table(result: _Result) -> SummaryTable:
    estimate = result["estimate"]
    facts = [
        ("plan", f"{result['plan']['name']}: {result['plan']['about']}"),
        ("input", f"{result['files']:,} files, {result['bytes'] / 1e6:,.1f} MB"),
        ("columns", ", ".join(f"{column['name']}: {column['policy']}" for column in result["columns"])),
        ("estimate", f"{estimate['cpu_seconds']:,} CPU-seconds, {estimate['output_mb']:,} MB out, {estimate['workspace_mb']:,} MB private"),
        ("sampled", f"the first {result['sampled_documents']:,} documents, sanitized in a temporary folder; nothing was written"),
        *((name, message) for name, key in (("missing", "missing_requirements"), ("note", "notes")) for message in result.get(key, ())),
        *((pair["kind"], f"{pair['before']} → {pair['after']} (by shape)") for pair in result["examples"]),
    ]
    return SummaryTable(title="sanitize explain", facts=facts, header=_KIND_HEADER, rows=_kind_rows(result["sample"]["by_kind"]))


def _verify_table(result: _Result) -> SummaryTable:
    facts = [
        ("shards", f"{result['shards']:,}, all match the manifest"),
        ("leaks", f"{result['leaks']:,} of {result['values_checked']:,} removed values found in {len(result['forms'])} forms"),
        ("forms", ", ".join(result["forms"])),
    ]
    rows = sorted(result["ambiguous"].items())
    return SummaryTable(
        title=f"sanitize verify: {result['out']} ({result['mode']})", facts=facts, header=("kind", "ambiguous places"), rows=rows
    )


def _replay_table(result: _Result) -> SummaryTable:
    facts = [
        ("shards", f"{result['shards']:,}, {len(result['different_shards']):,} different"),
        ("published", f"{result['out']}" if result["published"] else "nothing"),
        *(("note", note) for note in result["notes"]),
    ]
    return SummaryTable(title=f"sanitize replay: {'the same' if result['same'] else 'different'}", facts=facts)


def _status_table(result: _Result) -> SummaryTable:
    index = (
        f"{result['documents']:,} documents, {result['tasks']:,} tasks"
        if result["indexed"]
        else f"none yet ({result['detect_tasks_done']:,} tasks done)"
    )
    holder = result["lock_holder"]
    facts = [("index", index), *([("held by", f"process {holder.get('pid')} on {holder.get('host')}")] if holder else [])]
    rows = [(run["plan_hash"], run["plan"], run["tasks_done"]) for run in result["runs"]]
    return SummaryTable(title="sanitize status", facts=facts, header=("run", "plan", "tasks done"), rows=rows)


def _doctor_table(result: _Result) -> SummaryTable:
    rows = [(check["status"], check["name"], check["detail"], check["action"]) for check in result["checks"]]
    head = ("status", "check", "detail", "action")
    return SummaryTable(title=f"sanitize doctor: {'nothing fails' if result['ok'] else 'something fails'}", header=head, rows=rows)


def _report_table(result: _Result) -> SummaryTable:
    facts = [*([("page", result["page"])] if result["page"] else []), *(("figure", path) for path in result["figures"])]
    return SummaryTable(title=f"sanitize report: {result['out']}", facts=facts)


def _subject_table(result: _Result) -> SummaryTable:
    given, linked = result["given"], result["linked"]
    facts = [
        ("given", ", ".join(f"{number:,} {name}" for name, number in given.items())),
        ("linked", f"{linked['values']:,} values, {linked['names']:,} names"),
        ("found", f"{result['occurrences']:,} occurrences in {result['documents']:,} documents"),
        *(("published", f"{run['out']}: {run['remaining']:,} left, {run['replaced']:,} replaced") for run in result["runs"]),
        *(("erased", f"{out['out']}: {out['occurrences_erased']:,} occurrences") for out in result.get("erased", {}).get("outputs", ())),
    ]
    rows = [(place["kind"], place["section"] or "the text", place["occurrences"]) for place in result["occurrences_by_section"]]
    return SummaryTable(title=f"sanitize subject: {result['work']}", facts=facts, header=("kind", "where", "occurrences"), rows=rows)


def _label_table(result: _Result) -> SummaryTable:
    if "kinds" in result:
        facts = [("labelled", f"{result['rows'] - result['unlabelled_rows']:,} of {result['rows']:,} rows")]
        rows = [
            (
                kind,
                scores["judged"],
                _format_interval(scores["precision"], scores["precision_interval"]),
                _format_interval(scores["recall"], scores["recall_interval"]),
            )
            for kind, scores in result["kinds"].items()
        ]
        return SummaryTable(title="sanitize label: scores", facts=facts, header=("kind", "judged", "precision", "recall"), rows=rows)
    if "estimates" in result:
        rows = [(kind, counts["first"], counts["second"], counts["both"]) for kind, counts in result["estimates"].items()]
        return SummaryTable(
            title="sanitize label: estimates",
            facts=[("assumes", result["assumption"])],
            header=("kind", "first", "second", "both"),
            rows=rows,
        )
    return SummaryTable(title=f"sanitize label: {result['file']}", header=("stratum", "rows"), rows=sorted(result["strata"].items()))


def _format_interval(value: float | None, interval: list[float] | None) -> str:
    return "not measured" if value is None or interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


_TABLE_BUILDERS: dict[str, Callable[[_Result], SummaryTable]] = {
    "run": _run_table,
    "find": _find_table,
    "explain": _explain_table,
    "verify": _verify_table,
    "replay": _replay_table,
    "status": _status_table,
    "doctor": _doctor_table,
    "report": _report_table,
    "subject": _subject_table,
    "label": _label_table,
}
