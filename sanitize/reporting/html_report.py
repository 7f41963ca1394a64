"""What a run did, for people: `report`, one self-contained HTML page, and `card`, the dataset card beside the shards.

Both are made from the summary (what `run --json` prints). The page also takes small tables from WORK (`reporting.py` asks for them): how
many values occur so often, what became of the occurrences, what mechanisms claim, and samples, which are masked by shape here whatever
they were before. No value stands on either; names of files and columns do, escaped. Whether they may be published is said by verify,
which reads them afterwards. The figures are drawn by `figures.py`.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.core.rendering import visible
from sanitize.reporting.charts import PARTS, Bars, Curves, Figure, svg
from sanitize.storage.views import masked
from sanitize.text.mail_headers import WELL_KNOWN

Summary = Mapping[str, Any]

_AROUND = 48  # characters of masked text shown on either side of a sample
_LISTED = 200  # files listed one by one; a corpus may have a million
_COLUMNS, _FIELDS = 8, 12  # kinds side by side in a table, and header fields below each other; the others are added up
_FATES = ("kept", "left", "stand_in", "label", "removed", "with_another", "dropped")
_TOUCHED = ("stand_in", "label", "removed", "with_another")
_LABEL = re.compile(r"\[[A-Z_]+(-[0-9]+)?\]")


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
    """What the page shows beyond the summary: the rows of three named queries, and a few samples."""

    histogram: Sequence[tuple[str, int, int]] = ()  # of `count_histogram`: kind, occurrences, distinct_values
    fates: Sequence[tuple[str, str, str | None, int, int]] = ()  # of `fates`: kind, fate, section, occurrences, distinct_values
    ledger: Sequence[Mapping[str, Any]] = ()  # of `ledger_summary`
    samples: Sequence[Sample] = ()


def report(summary: Summary, tables: ReportTables | None = None) -> str:
    """The whole page as HTML: no script, no request, no value."""
    tables = tables or ReportTables()
    kinds = _kinds(summary, tables)
    fates, places = fates_of(kinds), _places(kinds, tables)
    return _render(
        "report.html.j2",
        **_facts(summary, kinds),
        fates=_drawn(fates) if fates else None,
        columns_of_kinds=[part for part in (*_FATES, "replaced") if any(kind["fates"].get(part) for kind in kinds)],
        words={part: told for part, (*told, _) in PARTS.items()},
        charts=[{"name": one.name, "svg": _drawn(one), "rows": one.rows(), "note": _no_curve(one)} for one in curves_of(kinds, tables)],
        places=places,
        ledger=tables.ledger,
        samples=_shapes(tables.samples),
        plan_text=json.dumps(summary.get("plan", {}), indent=2, ensure_ascii=False, sort_keys=True, default=str).splitlines(),
    )


def figures(summary: Summary, tables: ReportTables) -> list[Figure]:
    """The figures of the page, for files."""
    kinds = _kinds(summary, tables)
    bars = [one for one in (fates_of(kinds), _place_bars(kinds, tables)) if one]
    return [*bars, *curves_of(kinds, tables)]


def card(summary: Summary, tables: ReportTables | None = None) -> str:
    """The dataset card (README.md) in Markdown, with the `configs` that tell `load_dataset` where the shards are."""
    tables = tables or ReportTables()
    facts = _facts(summary, _kinds(summary, tables))
    return _render("card.md.j2", **facts, ledger=tables.ledger, size=_Fixed(_size_category(int(summary["documents_out"]))))


# ---------------------------------------------------------------------------------------------------------------------------- facts


def _facts(summary: Summary, kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Everything both templates may name, with nothing left undefined."""
    verify = {"mode": "off", "values_checked": 0, "forms": [], "files": 0} | dict(summary.get("verify") or {})
    inputs = [{"name": f"input {no}", "bytes": None, "sha256": ""} | dict(one) for no, one in enumerate(summary.get("inputs", ()), 1)]
    outputs = summary.get("outputs", ())
    shards = [] if isinstance(outputs, int) else [dict(one) for one in outputs if isinstance(one, Mapping)]
    return {
        "documents_in": summary["documents_in"],
        "documents_out": summary["documents_out"],
        "documents_dropped": summary["documents_dropped"],
        "dropped": [dict(one) for one in summary.get("dropped", ())],
        "parts": [dict(one) | {"by_field": _by_field(one)} for one in summary.get("parts", ())],
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
        "accounts": [dict(one) for one in summary.get("ledger", ())],
        "unclaimed": any(str(one["claim"]).startswith("none") for one in summary.get("ledger", ())),
        "format": str(dict(summary.get("settings", {})).get("format", "parquet")),
        "plan_name": summary.get("plan_name") or "unnamed",
        "plan_hash": summary.get("plan_hash", ""),
        "about": dict(summary.get("plan", {})).get("about", ""),
        "columns": [{"name": "", "policy": ""} | dict(column) for column in summary.get("columns", ())],
        "quarantine": sorted(dict(summary.get("quarantine", {})).items(), key=lambda item: (-item[1], item[0])),
        "versions": sorted(dict(summary.get("versions", {})).items()),
        "settings": sorted((name, _said(value)) for name, value in dict(summary.get("settings", {})).items()),
        "blacklist": {"masked": 0} | dict(summary["blacklist"]) if summary.get("blacklist") else None,
        "inputs": inputs[:_LISTED],
        "more_inputs": max(0, len(inputs) - _LISTED),
        "outputs": outputs if isinstance(outputs, int) else len(outputs),
        "shards": shards[:_LISTED],
        "more_shards": max(0, len(shards) - _LISTED),
        "seconds": summary.get("seconds"),
        "mb_per_s": summary.get("mb_per_s"),
        "peak_rss_mb": summary.get("peak_rss_mb"),
    }


def _kinds(summary: Summary, tables: ReportTables) -> list[dict[str, Any]]:
    """One row per kind, most occurrences first: its counts, what became of it, and in words what the plan did about it."""
    plan = dict(summary.get("plan", {}))
    zeros = dict.fromkeys(("occurrences", "values", "documents", "kept", "replaced", "left"), 0)
    became: dict[str, Counter[str]] = {}
    for kind, fate, section, occurrences, distinct in tables.fates:
        if section is None:
            became.setdefault(kind, Counter())[fate] += occurrences * distinct
    rows: list[dict[str, Any]] = []
    for name, counts in dict(summary.get("by_kind", {})).items():
        editor = next((dict(part) for part in plan.get("edit", ()) if name in part.get("kinds", ())), None)
        row = {"name": name, "editor": editor, "action": _action(editor)} | zeros | dict(counts)
        row["skipped"] = sorted(dict(counts.get("skipped") or {}).items())
        row["fates"] = {part: row[part] for part in ("kept", "left", "replaced")}
        if name in became:
            row["fates"] = {"kept" if editor else "left": became[name].pop("original", 0), **became[name]}
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["occurrences"], row["name"]))


def _by_field(part: Mapping[str, Any]) -> list[tuple[str, Mapping[str, int]]]:
    """Header fields with their counts, most occurrences first."""
    return sorted(dict(part.get("by_field") or {}).items(), key=lambda item: (-item[1]["occurrences"], item[0]))


def _action(editor: Mapping[str, Any] | None) -> str:
    if editor is None:
        return "found and counted, left as it is by plan"
    use, keep = str(editor.get("use", "")), int(editor.get("keep") or 0)
    if use == "rmft" and keep:
        first = "first occurrence" if keep == 1 else f"first {keep} occurrences"
        return f"{first} of every value kept, each later one a fresh variant"
    if use == "pseudonymize":
        far = {"document": "the same for a value within its document", "none": "a fresh one each time"}
        return f"every occurrence a pseudonym of the same shape, {far.get(str(editor.get('scope')), 'the same wherever its value stands')}"
    known = {
        "rmft": "every occurrence a fresh stand-in of the same shape",
        "redact": "every occurrence a label",
        "header_dedup": "repeats leave the mail headers, all else stays",
        "dp_mlm": "words drawn by a masked language model, at the epsilon of the ledger",
        "mask_words": "every word of every occurrence a mask, and wherever else all of them are said",
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


# -------------------------------------------------------------------------------------------------------------------------- figures


def fates_of(kinds: Sequence[Mapping[str, Any]]) -> Bars | None:
    """What became of each kind, as shares of all that was found; None where nothing was."""
    parts = tuple(part for part in (*_FATES, "replaced") if any(kind["fates"].get(part) for kind in kinds))
    rows = tuple((kind["name"], tuple(kind["fates"].get(part, 0) for part in parts)) for kind in kinds)
    return Bars(name="What became of what was found", parts=parts, rows=tuple(row for row in rows if sum(row[1]))) if parts else None


def curves_of(kinds: Sequence[Mapping[str, Any]], tables: ReportTables) -> list[Curves]:
    """The rank-frequency curves of every kind that has values, in the order of the page."""
    before: dict[str, list[tuple[int, int]]] = {}
    after: dict[str, Counter[int]] = {}
    for kind, count, values in tables.histogram:
        if count > 0:
            before.setdefault(kind, []).append((count, values))
    for kind, fate, section, count, values in tables.fates:
        if section is None and fate in ("original", "stand_in"):
            after.setdefault(kind, Counter())[count] += values
    names = [kind["name"] for kind in kinds if kind["name"] in before]
    return [
        Curves(name=name, before=sorted(before[name], reverse=True), after=sorted(after.get(name, {}).items(), reverse=True))
        for name in names
    ]


def _no_curve(curves: Curves) -> str:
    return "" if curves.after else "No curve after: no value is left in the texts."


def _places(kinds: Sequence[Mapping[str, Any]], tables: ReportTables) -> dict[str, Any] | None:
    """Where each kind stood in the documents that stay: a table of places by kinds, (occurrences, touched) in each cell; None without."""
    shown = [kind["name"] for kind in kinds[:_COLUMNS]]
    cells: dict[str, dict[str, list[int]]] = {}
    fields: Counter[str] = Counter()
    for _, fate, section, occurrences, _ in tables.fates:
        if section in WELL_KNOWN and fate != "dropped":
            fields[section] += occurrences
    named = {"body", *sorted(fields, key=lambda field: (-fields[field], field))[:_FIELDS]}
    for kind, fate, section, occurrences, _ in tables.fates:
        if section is not None and fate != "dropped":
            place = section if section in named else "other header fields" if section else "no mail"
            for column in (kind if kind in shown else "other kinds", "all"):
                cell = cells.setdefault(place, {}).setdefault(column, [0, 0])
                cell[0] += occurrences
                cell[1] += occurrences if fate in _TOUCHED else 0
    if not cells:
        return None
    columns = [name for name in (*shown, "other kinds", "all") if any(name in row for row in cells.values())]
    rows = sorted(cells.items(), key=lambda item: (-item[1]["all"][0], item[0]))
    bars = _place_bars(kinds, tables)
    return {
        "columns": columns,
        "rows": [(place, [row.get(column) for column in columns]) for place, row in rows],
        "svg": _drawn(bars) if bars else None,
        "parts": [part for number, part in enumerate(bars.parts) if any(row[1][number] for row in bars.rows)] if bars else [],
    }


def _place_bars(kinds: Sequence[Mapping[str, Any]], tables: ReportTables) -> Bars | None:
    """Header, body and other texts as shares of each kind; None where no text is a mail."""
    counts: dict[str, Counter[str]] = {}
    for kind, fate, section, occurrences, _ in tables.fates:
        if section is not None and fate != "dropped":
            counts.setdefault(kind, Counter())["body" if section == "body" else "header" if section else "text"] += occurrences
    parts = ("header", "body", "text")
    rows = tuple((kind["name"], tuple(counts[kind["name"]][part] for part in parts)) for kind in kinds if kind["name"] in counts)
    return Bars(name="Mail headers against bodies", parts=parts, rows=rows) if any(row[1][0] or row[1][1] for row in rows) else None


def _drawn(figure: Figure) -> Any:
    """A figure as markup that the page takes as it is: `svg` escapes every text in it."""
    from markupsafe import Markup

    return Markup(svg(figure))  # noqa: S704 - the one place where markup is made outside the template


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
            "after": [(False, sample.after)] if _LABEL.fullmatch(sample.after) else _marked(after, before),
            "tail": tail[:_AROUND],
        }
        for sample, lead, before, after, tail in zip(samples, *columns, strict=True)
    ]


def _marked(shape: str, other: str) -> list[tuple[bool, str]]:
    """The pieces of a shape, each with whether the other side has it in another form."""
    words, others = (re.findall(r"[A-Za-z9]+|.", text) for text in (shape, other))
    blocks = difflib.SequenceMatcher(a=words, b=others, autojunk=False).get_opcodes()
    return [(tag != "equal", "".join(words[first:last])) for tag, first, last, _, _ in blocks if last > first]


# ------------------------------------------------------------------------------------------------------------------------ rendering


def _render(template: str, /, **facts: Any) -> str:
    """A template with every text in it made visible and escaped for its format; a name that is not given is an error."""
    return str(_template(template).render(**facts))


@functools.cache  # compiling one takes longer than rendering it
def _template(template: str) -> Any:
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
    environment.filters |= {"n": _number, "size": _bytes, "share": _share}
    return environment.get_template(template)


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


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _number(value: float | None) -> str:
    """1234567 as 1,234,567; what was not measured as a dash."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _share(pair: Sequence[int]) -> str:
    """(all, of them) in percent."""
    share = 100 * pair[1] / pair[0] if pair[0] else 0.0
    return f"{share:.0f}%" if share in (0, 100) or 1 <= share <= 99 else "<1%" if share < 1 else ">99%"


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
