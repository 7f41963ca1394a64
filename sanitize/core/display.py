"""What a notebook or a prompt shows of a result: a title, a few facts and a small table, escaped, and never a value.

`Told` is a plain dict that shows itself so; the keys stay what the verb promises. `Sheet` is what is shown, whatever of. Only counts, words
of the house and names that the user gave (folders, columns, plans) go into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from sanitize.core.rendering import visible

_MOST = 40  # rows of a table that are shown


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A title, facts as (name, text), and a table of counts."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()

    def text(self) -> str:
        """As lines, for a prompt."""
        wide = max((len(name) for name, _ in self.facts), default=0)
        lines = [visible(self.title), *(visible(f"  {name:<{wide}}  {said}") for name, said in self.facts)]
        if self.rows:
            cells = [[_cell(name) for name in self.head], *([_cell(value) for value in row] for row in self.rows[:_MOST])]
            widths = [max(len(row[column]) for row in cells) for column in range(len(self.head))]
            right = [isinstance(value, int) for value in self.rows[0]]
            for row in cells:
                made = (cell.rjust(width) if side else cell.ljust(width) for cell, width, side in zip(row, widths, right, strict=True))
                lines.append(("  " + "  ".join(made)).rstrip())
        return "\n".join([*lines, *self._more()])

    def html(self) -> str:
        """As HTML, for a notebook: no script, no style of its own but alignment, every text escaped."""
        parts = [f"<div><p><b>{_escaped(self.title)}</b></p>"]
        if self.facts:
            rows = "".join(f'<tr><th style="text-align:left">{_escaped(name)}</th>{_data(said)}</tr>' for name, said in self.facts)
            parts.append(f"<table>{rows}</table>")
        if self.rows:
            head = "".join(f'<th style="text-align:left">{_escaped(name)}</th>' for name in self.head)
            body = "".join(f"<tr>{''.join(_data(value) for value in row)}</tr>" for row in self.rows[:_MOST])
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join([*parts, *(f"<p>{_escaped(line.strip())}</p>" for line in self._more()), "</div>"])

    def _more(self) -> list[str]:
        return [f"  and {len(self.rows) - _MOST:,} more"] if len(self.rows) > _MOST else []


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else visible("" if value is None else str(value))


def _escaped(value: object) -> str:
    return escape(_cell(value))


def _data(value: object) -> str:
    side = "right" if isinstance(value, int) else "left"
    return f'<td style="text-align:{side}">{_escaped(value)}</td>'


class Told(dict[str, Any]):
    """What a verb returns: a dict that shows itself as the sheet of that verb."""

    def __init__(self, verb: str, result: Mapping[str, Any]) -> None:
        super().__init__(result)
        self.verb = verb

    def __reduce__(self) -> tuple[type[Told], tuple[str, dict[str, Any]]]:
        return Told, (self.verb, dict(self))

    def __repr__(self) -> str:
        return self._sheet().text()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _sheet(self) -> Sheet:
        return _SHEETS[self.verb](self)


_Result = Mapping[str, Any]
_KINDS = ("kind", "occurrences", "values", "kept", "replaced", "left by plan")


def _kinds(by_kind: _Result) -> list[tuple[Any, ...]]:
    rows = [(kind, *(int(one[name]) for name in ("occurrences", "values", "kept", "replaced", "left"))) for kind, one in by_kind.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _run(one: _Result) -> Sheet:
    check, drill = one["verify"], one["drill"]
    facts = [
        (
            "documents",
            f"{one['documents_in']:,} in = {one['documents_out']:,} out + {one['documents_dropped']:,} dropped"
            f" + {one['quarantined']:,} in quarantine",
        ),
        (
            "verify",
            "off: not checked"
            if check["mode"] == "off"
            else f"{one['leaks']:,} of {check['values_checked']:,} values that had to go found in {len(check['forms'])} forms",
        ),
        *([("drill", f"{drill['gone']:,} of {drill['planted']:,} planted values came out gone")] if drill["planted"] else []),
        ("recall", "not measured"),
        ("kept", f"{one['kept_originals']:,} originals stay by plan"),
        ("key", "from a seed: replacements guessable, no privacy claim" if one["key"] == "seed" else "secret"),
        ("publish", "publishable by its plan" if one["publishable"] else "keep private"),
        ("report", f"{one['out']}/report.html"),
    ]
    done = "" if one["changed"] else " (was done before; nothing changed)"
    return Sheet(title=f"sanitize run: {one['out']}, plan {one['plan_name']}{done}", facts=facts, head=_KINDS, rows=_kinds(one["by_kind"]))


def _find(one: _Result) -> Sheet:
    facts = [("documents", f"{one['documents_in']:,}, {one['quarantined']:,} in quarantine"), ("occurrences", f"{one['occurrences']:,}")]
    rows = sorted(one["by_kind"].items(), key=lambda item: (-item[1], item[0]))
    return Sheet(title=f"sanitize find: {one['work']}", facts=facts, head=("kind", "occurrences"), rows=rows)


def _explain(one: _Result) -> Sheet:
    estimate = one["estimate"]
    facts = [
        ("plan", f"{one['plan']['name']}: {one['plan']['about']}"),
        ("input", f"{one['files']:,} files, {one['bytes'] / 1e6:,.1f} MB"),
        ("columns", ", ".join(f"{column['name']}: {column['policy']}" for column in one["columns"])),
        ("estimate", f"{estimate['cpu_seconds']:,} CPU-seconds, {estimate['out_mb']:,} MB out, {estimate['work_mb']:,} MB private"),
        ("sampled", f"the first {one['sampled']:,} documents, sanitized in a temporary folder; nothing was written"),
        *((name, said) for name, key in (("missing", "missing"), ("note", "notes")) for said in one.get(key, ())),
        *((pair["kind"], f"{pair['before']} → {pair['after']} (by shape)") for pair in one["pairs"]),
    ]
    return Sheet(title="sanitize explain", facts=facts, head=_KINDS, rows=_kinds(one["sample"]["by_kind"]))


def _verify(one: _Result) -> Sheet:
    facts = [
        ("shards", f"{one['shards']:,}, all as the manifest says"),
        ("leaks", f"{one['leaks']:,} of {one['values_checked']:,} values that had to go found in {len(one['forms'])} forms"),
        ("forms", ", ".join(one["forms"])),
    ]
    rows = sorted(one["ambiguous"].items())
    return Sheet(title=f"sanitize verify: {one['out']} ({one['mode']})", facts=facts, head=("kind", "ambiguous places"), rows=rows)


def _replay(one: _Result) -> Sheet:
    facts = [
        ("shards", f"{one['shards']:,}, {len(one['different']):,} different"),
        ("published", f"{one['out']}" if one["published"] else "nothing"),
        *(("note", note) for note in one["notes"]),
    ]
    return Sheet(title=f"sanitize replay: {'the same' if one['same'] else 'different'}", facts=facts)


def _status(one: _Result) -> Sheet:
    index = (
        f"{one['documents']:,} documents, {one['tasks']:,} tasks" if one["indexed"] else f"none yet ({one['find_tasks_done']:,} tasks done)"
    )
    holder = one["held_by"]
    facts = [("index", index), *([("held by", f"process {holder.get('pid')} on {holder.get('host')}")] if holder else [])]
    rows = [(run["plan_hash"], run["plan"], run["tasks_done"]) for run in one["runs"]]
    return Sheet(title="sanitize status", facts=facts, head=("run", "plan", "tasks done"), rows=rows)


def _doctor(one: _Result) -> Sheet:
    rows = [(check["status"], check["name"], check["found"], check["do"]) for check in one["checks"]]
    head = ("status", "check", "found", "do")
    return Sheet(title=f"sanitize doctor: {'nothing fails' if one['ok'] else 'something fails'}", head=head, rows=rows)


def _report(one: _Result) -> Sheet:
    facts = [*([("page", one["page"])] if one["page"] else []), *(("figure", path) for path in one["figures"])]
    return Sheet(title=f"sanitize report: {one['out']}", facts=facts)


def _subject(one: _Result) -> Sheet:
    given, linked = one["given"], one["linked"]
    facts = [
        ("given", ", ".join(f"{number:,} {name}" for name, number in given.items())),
        ("linked", f"{linked['values']:,} values, {linked['names']:,} names"),
        ("found", f"{one['occurrences']:,} occurrences in {one['documents']:,} documents"),
        *(("published", f"{run['out']}: {run['left']:,} left, {run['replaced']:,} replaced") for run in one["runs"]),
        *(("erased", f"{out['out']}: {out['places_erased']:,} places") for out in one.get("erased", {}).get("outs", ())),
    ]
    rows = [(place["kind"], place["section"] or "the text", place["occurrences"]) for place in one["places"]]
    return Sheet(title=f"sanitize subject: {one['work']}", facts=facts, head=("kind", "where", "occurrences"), rows=rows)


def _label(one: _Result) -> Sheet:
    if "kinds" in one:
        facts = [("labelled", f"{one['rows'] - one['not_labelled']:,} of {one['rows']:,} rows")]
        rows = [
            (kind, told["judged"], _share(told["precision"], told["precision_interval"]), _share(told["recall"], told["recall_interval"]))
            for kind, told in one["kinds"].items()
        ]
        return Sheet(title="sanitize label: scores", facts=facts, head=("kind", "judged", "precision", "recall"), rows=rows)
    if "estimates" in one:
        rows = [(kind, told["first"], told["second"], told["both"]) for kind, told in one["estimates"].items()]
        return Sheet(
            title="sanitize label: estimates", facts=[("assumes", one["assumes"])], head=("kind", "first", "second", "both"), rows=rows
        )
    return Sheet(title=f"sanitize label: {one['file']}", head=("stratum", "rows"), rows=sorted(one["strata"].items()))


def _share(value: float | None, interval: list[float] | None) -> str:
    return "not measured" if value is None or interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


_SHEETS: dict[str, Callable[[_Result], Sheet]] = {
    "run": _run,
    "find": _find,
    "explain": _explain,
    "verify": _verify,
    "replay": _replay,
    "status": _status,
    "doctor": _doctor,
    "report": _report,
    "subject": _subject,
    "label": _label,
}
