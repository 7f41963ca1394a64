"""What a run did, for people: `report`, one self-contained HTML page, and `card`, the dataset card beside the shards.

Both are made from the summary (what `run --json` prints). The page also takes small tables from WORK: value counts as a histogram,
so that memory does not grow with the values, and samples, which are masked by shape here whatever they were before. No value stands
on either; names of files and columns do, escaped. Whether they may be published is said by verify, which reads them afterwards.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.queries import ask, query
from sanitize.render import visible
from sanitize.views import masked

if TYPE_CHECKING:
    import duckdb

Summary = Mapping[str, Any]
Steps = list[tuple[int, int]]  # (occurrences, how many values occur so often), most frequent first

_AROUND = 48  # characters of masked text shown on either side of a sample
_INPUTS = 200  # input files listed one by one; a corpus may have a million


@dataclass(frozen=True, kw_only=True, repr=False)
class Sample:
    """One edit with the text around it: `lead` + `before` + `tail` became `lead` + `after` + `tail`."""

    kind: str
    before: str
    after: str
    lead: str = ""
    tail: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportTables:
    """What the page shows beyond the summary: the rows of `count_histogram` and `by_section`, and a few samples."""

    histogram: Sequence[tuple[str, int, int]] = ()  # kind, occurrences, distinct_values
    sections: Sequence[tuple[str, str, str, int, int]] = ()  # place, section, kind, occurrences, documents
    samples: Sequence[Sample] = ()

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, samples: Sequence[Sample] = ()) -> ReportTables:
        """The tables of a WORK folder, from `queries.connect`."""
        histogram, sections = (
            [tuple(row.values()) for row in ask(connection, query(name)).to_pylist()] for name in ("count_histogram", "by_section")
        )
        return cls(histogram=histogram, sections=sections, samples=samples)


def report(summary: Summary, tables: ReportTables | None = None) -> str:
    """The whole page as HTML: no script, no request, no value."""
    tables = tables or ReportTables()
    kinds = _kinds(summary)
    return _render(
        "report.html.j2",
        **_facts(summary, kinds),
        charts=[chart for kind in kinds if (chart := _chart(kind, tables.histogram))],
        sections=tables.sections[:12],
        samples=_shapes(tables.samples),
        plan_text=json.dumps(summary.get("plan", {}), indent=2, ensure_ascii=False, default=str).splitlines(),
    )


def card(summary: Summary) -> str:
    """The dataset card (README.md) in Markdown, with the `configs` that tell `load_dataset` where the shards are."""
    return _render("card.md.j2", **_facts(summary, _kinds(summary)), size=_Fixed(_size_category(int(summary["documents_out"]))))


# ---------------------------------------------------------------------------------------------------------------------------- facts


def _facts(summary: Summary, kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything both templates may name, with nothing left undefined."""
    verify = {"mode": "off", "values_checked": 0, "forms": [], "files": 0} | dict(summary.get("verify") or {})
    inputs = [{"name": f"input {no}", "bytes": None, "sha256": ""} | dict(one) for no, one in enumerate(summary.get("inputs", ()), 1)]
    outputs = summary.get("outputs", ())
    return {
        "documents_in": summary["documents_in"],
        "documents_out": summary["documents_out"],
        "documents_dropped": summary["documents_dropped"],
        "dropped": [dict(one) for one in summary.get("dropped", ())],
        "parts": [dict(one) for one in summary.get("parts", ())],
        "quarantined": summary["quarantined"],
        "occurrences": summary["occurrences"],
        "kept_originals": summary["kept_originals"],
        "replaced": summary["replaced"],
        "leaks": summary["leaks"],
        "kinds": kinds,
        "verify": verify | {"off": verify["mode"] == "off"},
        "drill": {"documents": 0, "planted": 0, "gone": 0, "hidden": {"planted": 0, "gone": 0}, "not_drilled": []}
        | dict(summary.get("drill") or {}),
        "publishable": bool(summary.get("publishable", False)),
        "seeded": summary.get("key") == "seed",
        "plan_name": summary.get("plan_name") or "unnamed",
        "plan_hash": summary.get("plan_hash", ""),
        "about": dict(summary.get("plan", {})).get("about", ""),
        "columns": [{"name": "", "policy": ""} | dict(column) for column in summary.get("columns", ())],
        "quarantine": sorted(dict(summary.get("quarantine", {})).items(), key=lambda item: (-item[1], item[0])),
        "versions": sorted(dict(summary.get("versions", {})).items()),
        "inputs": inputs[:_INPUTS],
        "more_inputs": max(0, len(inputs) - _INPUTS),
        "outputs": outputs if isinstance(outputs, int) else len(outputs),
        "seconds": summary.get("seconds"),
        "mb_per_s": summary.get("mb_per_s"),
        "peak_rss_mb": summary.get("peak_rss_mb"),
    }


def _kinds(summary: Summary) -> list[dict[str, Any]]:
    """One row per kind, most occurrences first: its counts, and in words what the plan did about it."""
    plan = dict(summary.get("plan", {}))
    zeros = dict.fromkeys(("occurrences", "values", "documents", "kept", "replaced", "left"), 0)
    rows: list[dict[str, Any]] = []
    for name, counts in dict(summary.get("by_kind", {})).items():
        editor = next((dict(part) for part in plan.get("edit", ()) if name in part.get("kinds", ())), None)
        skipped = sorted(dict(counts.get("skipped") or {}).items())
        rows.append({"name": name, "editor": editor, "action": _action(editor)} | zeros | dict(counts) | {"skipped": skipped})
    return sorted(rows, key=lambda row: (-row["occurrences"], row["name"]))


def _action(editor: Mapping[str, Any] | None) -> str:
    if editor is None:
        return "found and counted, left as it is by plan"
    use, keep = str(editor.get("use", "")), int(editor.get("keep") or 0)
    if use == "rmft" and keep:
        first = "first occurrence" if keep == 1 else f"first {keep} occurrences"
        return f"{first} of every value kept, each later one a fresh variant"
    known = {
        "rmft": "every occurrence a fresh stand-in of the same shape",
        "redact": "every occurrence a label",
        "header_dedup": "repeats leave the mail headers, all else stays",
    }
    return known.get(use, f"edited by {use}")


def _size_category(documents: int) -> str:
    bounds = (
        (10**3, "n<1K"),
        (10**4, "1K<n<10K"),
        (10**5, "10K<n<100K"),
        (10**6, "100K<n<1M"),
        (10**7, "1M<n<10M"),
        (10**8, "10M<n<100M"),
    )
    return next((name for bound, name in bounds if documents < bound), "n>100M")


# -------------------------------------------------------------------------------------------------------------------------- samples


def _shapes(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """The samples, every piece of them as its shape only, cut to one line."""
    import polars as pl

    def shapes(texts: Iterable[str]) -> list[str]:
        return list(masked(pl.Series([re.sub(r"\s", " ", text) for text in texts], dtype=pl.String)).to_list())

    columns = (
        shapes(sample.lead[-4 * _AROUND :] for sample in samples),
        shapes(sample.before for sample in samples),
        shapes(sample.after for sample in samples),
        shapes(sample.tail[: 4 * _AROUND] for sample in samples),
    )
    return [
        {
            "kind": sample.kind,
            "lead": lead[-_AROUND:],
            "before": _marked(before, after),
            "after": _marked(after, before),
            "tail": tail[:_AROUND],
        }
        for sample, lead, before, after, tail in zip(samples, *columns, strict=True)
    ]


def _marked(shape: str, other: str) -> list[tuple[bool, str]]:
    """The pieces of a shape, each with whether the other side has it in another form."""
    words, others = (re.findall(r"[A-Za-z9]+|.", text) for text in (shape, other))
    blocks = difflib.SequenceMatcher(a=words, b=others, autojunk=False).get_opcodes()
    return [(tag != "equal", "".join(words[first:last])) for tag, first, last, _, _ in blocks if last > first]


# --------------------------------------------------------------------------------------------------------------- rank and frequency

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 340, 230, 46, 12, 12, 38  # of a chart, and its margins, in pixels


def _chart(kind: Mapping[str, Any], histogram: Sequence[tuple[str, int, int]]) -> dict[str, Any] | None:
    """Both curves of one kind on log-log axes, in pixels; None where the kind has no values."""
    before = sorted(((count, values) for name, count, values in histogram if name == kind["name"] and count > 0), reverse=True)
    if not before:
        return None
    after = _after(before, kind["editor"])
    ranks = max(sum(values for _, values in steps) for steps in (before, after or before))
    across, up = max(1, math.ceil(math.log10(ranks))), max(1, math.ceil(math.log10(before[0][0])))

    def x(rank: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(rank) / across

    def y(count: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log10(count) / up

    def line(steps: Steps) -> str:
        points, rank = [], 0
        for count, values in steps:
            points += [(x(rank + 1), y(count)), (x(rank + values), y(count))]
            rank += values
        return " ".join(dict.fromkeys(f"{left:.1f},{top:.1f}" for left, top in points))

    shown = sorted({1, *(10**power for power in range(1, across + 1)), ranks})
    return {
        "name": kind["name"],
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _WIDTH - _RIGHT,
        "top": _TOP,
        "bottom": _HEIGHT - _BOTTOM,
        "x_ticks": [(round(x(10**power), 1), _power(power)) for power in range(0, across + 1, 1 + across // 6)],
        "y_ticks": [(round(y(10**power), 1), _power(power)) for power in range(0, up + 1, 1 + up // 6)],
        "before": line(before),
        "after": line(after) if after else "",
        "note": "" if after else _no_curve(kind["editor"]),
        "rows": [(rank, _at(before, rank), _at(after, rank) if after else 0) for rank in shown if rank <= ranks],
    }


def _after(before: Steps, editor: Mapping[str, Any] | None) -> Steps | None:
    """The curve that the plan makes of `before`: firsts flatten to `keep`, every replaced occurrence is a value of its own."""
    if editor is None:
        return before
    if editor.get("use") != "rmft":
        return None
    keep = int(editor.get("keep") or 0)
    flat: dict[int, int] = {}
    for count, values in before:
        if kept := min(count, keep):
            flat[kept] = flat.get(kept, 0) + values
        if count > keep:
            flat[1] = flat.get(1, 0) + (count - keep) * values
    return sorted(flat.items(), reverse=True)


def _no_curve(editor: Mapping[str, Any] | None) -> str:
    use = str((editor or {}).get("use", ""))
    return "No curve after: labels stand in place of the values." if use == "redact" else f"No curve after: edited by {use}."


def _at(steps: Steps, rank: int) -> int:
    """How often the value of that rank occurs; 0 beyond the last."""
    for count, values in steps:
        rank -= values
        if rank <= 0:
            return count
    return 0


def _power(power: int) -> str:
    return ("1", "10", "100", "1K", "10K", "100K", "1M", "10M", "100M", "1G", "10G", "100G")[power] if power < 12 else f"1e{power}"


# ------------------------------------------------------------------------------------------------------------------------ rendering


def _render(template: str, /, **facts: Any) -> str:
    """A template with every text in it made visible and escaped for its format; a name that is not given is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",)),  # Markdown is escaped by `finalize`
        undefined=jinja2.StrictUndefined,
        finalize=_seen if template.endswith(".html.j2") else _markdown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"n": _number, "size": _bytes}
    return environment.get_template(template).render(**facts)


class _Fixed(str):
    """A text of our own that is written as it stands."""


def _seen(value: object) -> object:
    return visible(value) if type(value) is str else value


def _markdown(value: object) -> object:
    """A text that Markdown, and HTML inside it, take for nothing but text."""
    if type(value) is not str:
        return value
    text = visible(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|!#~$])", r"\\\1", text)


def _number(value: float | None) -> str:
    """1234567 as 1,234,567; what was not measured as a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _bytes(value: int | None) -> str:
    """A file size as a person says it."""
    if value is None:
        return "–"
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
