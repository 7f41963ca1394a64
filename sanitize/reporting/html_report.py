"""Renders the report of a run, one self-contained HTML page (`render_report`), and the dataset card
in Markdown (`render_card`).

Both are built from the manifest and the summary in it, and begin with the verdict in the words
of `core/verdict.py`. The page also shows small tables from WORK (`report_data.py` collects them):
frequencies of values, outcomes of occurrences, the privacy ledger, and samples. Samples of the
corpus are masked by shape here, but for labels and surrogates; those of invented people are in
clear text. Neither page contains a value; names of files and columns are escaped. The leak check
reads both pages before they are published. Charts are drawn by `charts.py`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sanitize.core.command_results import KindCounts, RunSummary
from sanitize.core.part_protocols import list_part_names, load_part
from sanitize.core.verdict import count_unchanged, describe_verdict
from sanitize.errors import PlanError
from sanitize.reporting.charts import (
    SEGMENTS,
    Chart,
    RankCurves,
    ShareBars,
    render_narrow_svg,
    render_svg,
)
from sanitize.reporting.page_templates import (
    VerbatimText,
    format_number,
    format_size,
    render_template,
)
from sanitize.storage.records.dataset_features import to_yaml_list
from sanitize.storage.views.masks import mask_texts
from sanitize.text.mail_headers import WELL_KNOWN_FIELDS

if TYPE_CHECKING:
    from markupsafe import Markup

Manifest = Mapping[str, Any]  # manifest.json
LinePiece = tuple[str, bool]  # a text of the output, and whether it replaced another one

_CONTEXT_CHARACTERS = 48  # characters of masked text shown on either side of a sample
_MAX_LISTED_FILES = 200  # files listed one by one; a corpus may have a million
# columns and rows of the location table; further kinds and header fields are summed up
_MAX_KIND_COLUMNS, _MAX_HEADER_FIELDS = (8, 12)
_REPORTED_OUTCOMES = (
    "kept",
    "left",
    "surrogate",
    "label",
    "other_text",
    "removed",
    "other_edit",
    "dropped",
)
_EDITED_OUTCOMES = ("surrogate", "label", "other_text", "removed", "other_edit")
_DESCRIPTION = ("date", "dataset_name", "purpose", "responsible", "license")
_LABEL_PATTERN = re.compile(r"\[[A-Z][A-Z0-9_]+(-[0-9]+)?\]")


@dataclass(frozen=True, kw_only=True, repr=False)
class EditSample:
    """One edit with its context in the line: `text_before` + `original` + `text_after` before the
    run. After it, `lead` + `replacement` + `tail`: pieces, each a text and whether it replaced
    another one; the others are as they were.

    `line_before` and `line_after` have the line before and after all of its edits.
    """

    kind: str
    original: str
    replacement: str
    text_before: str = ""
    text_after: str = ""
    lead: Sequence[LinePiece] = ()
    tail: Sequence[LinePiece] = ()
    line_before: str = ""
    line_after: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportTables:
    """What the page shows beyond the summary: the rows of three named queries, and a few
    samples."""

    # of `frequency_histogram`: kind, occurrences, distinct_values
    frequency_histogram: Sequence[tuple[str, int, int]] = ()
    # of `outcomes`: kind, outcome, section, occurrences, distinct_values
    outcomes: Sequence[tuple[str, str, str | None, int, int]] = ()
    ledger: Sequence[Mapping[str, Any]] = ()  # of `ledger_summary`
    samples: Sequence[EditSample] = ()
    hides_surrogates: bool = False  # a surrogate in them looks like a value


def render_report(manifest: Manifest, tables: ReportTables | None = None) -> str:
    """The whole page as HTML, without scripts, external resources and values."""
    tables, summary = tables or ReportTables(), RunSummary.from_dict(manifest["summary"])
    kinds = _kind_rows(summary, manifest["plan"], tables)
    outcome_chart, location_bars = outcome_bars(kinds), _location_bars(kinds, tables)
    location_columns, location_rows = _location_table(kinds, tables)
    hides_surrogates = tables.hides_surrogates or has_parts_of_values(manifest["plan"])
    return _render(
        "report.html.j2",
        manifest,
        summary,
        kinds,
        outcome_chart=_svg_markup(outcome_chart) if outcome_chart else None,
        outcome_columns=[
            outcome
            for outcome in (*_REPORTED_OUTCOMES, "replaced")
            if any(kind.outcomes.get(outcome) for kind in kinds)
        ],
        segment_names={segment: names for segment, (*names, _) in SEGMENTS.items()},
        charts=[
            {
                "name": curves.name,
                "svg": _svg_markup(curves),
                "rows": curves.table_rows(),
                "note": "" if curves.after else "No curve after: no value is left in the texts.",
            }
            for curves in rank_curves(kinds, tables)
        ],
        location_columns=location_columns,
        location_rows=location_rows,
        location_chart=_svg_markup(location_bars) if location_bars else None,
        location_parts=location_bars.used_segments if location_bars else (),
        spent=tables.ledger,
        samples=_mask_samples(tables.samples, hides_surrogates),
        hides_surrogates=hides_surrogates,
        plan_rows=_describe_plan(manifest["plan"]),
    )


def build_charts(manifest: Manifest, tables: ReportTables) -> list[Chart]:
    """The charts of the page, to be written to files."""
    summary = RunSummary.from_dict(manifest["summary"])
    kinds = _kind_rows(summary, manifest["plan"], tables)
    bars = [chart for chart in (outcome_bars(kinds), _location_bars(kinds, tables)) if chart]
    return [*bars, *rank_curves(kinds, tables)]


def render_card(manifest: Manifest, tables: ReportTables | None = None) -> str:
    """The dataset card (README.md) in Markdown, with the `configs` that tell `load_dataset` where
    the shards are, and the license."""
    tables, summary = tables or ReportTables(), RunSummary.from_dict(manifest["summary"])
    kinds = _kind_rows(summary, manifest["plan"], tables)
    return _render(
        "card.md.j2",
        manifest,
        summary,
        kinds,
        spent=tables.ledger,
        size=VerbatimText(_size_category(summary.documents_out)),
    )


# ---------------------------------------------------------------------------------------- facts


def _render(
    template: str, manifest: Manifest, summary: RunSummary, kind_rows: list[KindRow], **own: Any
) -> str:
    """A template with its `own` variables and those of both: an undefined one is an error."""
    verdict, plan, shards = describe_verdict(summary), manifest["plan"], manifest["shards"]
    variables = {
        **vars(summary),
        "unchanged_occurrences": count_unchanged(summary),
        "kinds": kind_rows,
        "editor_reports": [
            {**report, "by_field": _header_field_counts(report)}
            for report in summary.editor_reports
        ],
        "verdict": verdict[0],
        "verdict_lines": verdict[1:],
        "description": dict.fromkeys(_DESCRIPTION, "") | manifest.get("description", {}),
        "seeded": summary.key == "seed",
        "unclaimed": any(str(one["claim"]).startswith("none") for one in summary.ledger),
        "format": manifest["settings"].get("format", "parquet"),
        "about": plan.get("about", ""),
        "split_rows": _count_splits(shards),
        "features": [
            VerbatimText(json.dumps(one, ensure_ascii=False))
            for one in to_yaml_list(dict(manifest.get("features", {})))
        ],
        "quarantine": sorted(summary.quarantine.items(), key=lambda item: (-item[1], item[0])),
        "versions": sorted(
            (name, version)
            for name, version in manifest["tool"].items()
            if name not in ("name", "formats")
        ),
        "settings": _describe_settings(manifest["settings"]),
        # numbered, not named: the names of input files may be private
        "inputs": manifest["inputs"][:_MAX_LISTED_FILES],
        "more_inputs": max(0, len(manifest["inputs"]) - _MAX_LISTED_FILES),
        "shard_count": len(shards),
        "shards": shards[:_MAX_LISTED_FILES],
        "more_shards": max(0, len(shards) - _MAX_LISTED_FILES),
    }
    return render_template(template, **variables, **own)


def _count_splits(shards: Sequence[Mapping[str, Any]]) -> dict[VerbatimText, Counter[str]]:
    """The `rows` and `bytes` of each split, in corpus order; all shards are `train` where the
    corpus has no splits."""
    counts: dict[VerbatimText, Counter[str]] = {}
    for shard in shards:
        split = counts.setdefault(VerbatimText(shard.get("split", "train")), Counter())
        split.update({name: shard[name] or 0 for name in ("rows", "bytes")})
    return counts


@dataclass(frozen=True, kw_only=True)
class KindRow(KindCounts):
    """One kind in the report: its counts, the outcomes of its occurrences, and what the plan does
    with it in words."""

    name: str
    action: str
    outcomes: Mapping[str, int]


def _kind_rows(summary: RunSummary, plan: Mapping[str, Any], tables: ReportTables) -> list[KindRow]:
    """One row per kind, most occurrences first."""
    outcomes_by_kind: dict[str, Counter[str]] = {}
    for kind, outcome, section, occurrences, distinct in tables.outcomes:
        if section is None:
            outcomes_by_kind.setdefault(kind, Counter())[outcome] += occurrences * distinct
    rows: list[KindRow] = []
    for name, counts in summary.by_kind.items():
        editor = next(
            (dict(part) for part in plan.get("edit", ()) if name in part.get("kinds", ())), None
        )
        outcomes: dict[str, int] = {
            "kept": counts.kept,
            "left": counts.left_by_plan,
            "replaced": counts.replaced,
        }
        if name in outcomes_by_kind:
            outcomes = {
                "kept" if editor else "left": outcomes_by_kind[name].pop("original", 0),
                **outcomes_by_kind[name],
            }
        rows.append(
            KindRow(**vars(counts), name=name, action=_describe_action(editor), outcomes=outcomes)
        )
    return sorted(rows, key=lambda row: (-row.occurrences, row.name))


def _describe_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings of a run in words: (name, value)."""
    roles = dict(settings.get("roles") or {})
    documents = {
        "file": "one document for each text file",
        "paragraphs": "one document for each paragraph of a text file",
    }
    known = {
        "text columns": ", ".join(roles.get("text") or ()),
        "author column": roles.get("user") or "user_id, or a mail's From",
        "id column": roles.get("id") or "doc_id",
        "text files": documents.get(
            str(roles.get("documents")), "one document for each line of a text file"
        ),
        "sample": (
            f"{settings.get('sample', 1.0):.4g} of the documents"
            if settings.get("sample", 1.0) != 1.0
            else "all documents"
        ),
        "documents per shard": format_number(settings.get("rows_per_shard")),
        "largest document": format_size(settings.get("max_doc_bytes")),
        "matches in a document": format_number(settings.get("max_doc_matches")),
        "list of known values": "given" if settings.get("known") else "none",
        "format of the shards": str(settings.get("format", "parquet")),
        "erasure requests": format_number(dict(settings.get("erased") or {}).get("erasures", 0)),
    }
    named = {
        "roles",
        "policies",
        "sample",
        "rows_per_shard",
        "max_doc_bytes",
        "max_doc_matches",
        "known",
        "format",
        "erased",
        "verify",
    }
    others = [
        (name.replace("_", " "), _format_words(value))
        for name, value in sorted(settings.items())
        if name not in named
    ]
    return [*known.items(), *others] if settings else []


def _describe_plan(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A plan with every setting in words: (part, settings)."""

    def describe_part(part: object) -> str:
        if not isinstance(part, Mapping):
            return _format_words(part)
        settings = [
            f"{name.replace('_', ' ')}: {_format_words(value)}"
            for name, value in sorted(part.items())
            if name != "use"
        ]
        return "; ".join([*([str(part["use"])] if "use" in part else []), *settings])

    rows = []
    order = ("find", "drop", "edit", "leave")
    for name, value in sorted(
        plan.items(),
        key=lambda item: (order.index(item[0]) if item[0] in order else len(order), item[0]),
    ):
        if name in ("name", "about"):
            continue
        if isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
            rows += [
                (f"{name} {number}", describe_part(part)) for number, part in enumerate(value, 1)
            ]
        elif isinstance(value, Mapping):
            for key, entry in sorted(value.items()):
                parts = (
                    "; ".join(map(describe_part, entry))
                    if isinstance(entry, list) and key == "finders"
                    else _format_words(entry)
                )
                rows.append((f"{name}: {key.replace('_', ' ')}", parts))
        else:
            rows.append((name, _format_words(value)))
    return rows


def _format_words(value: object) -> str:
    """A setting in words: lists with commas, yes and no, `none` for what is empty."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return (
            ", ".join(f"{name} {_format_words(entry)}" for name, entry in sorted(value.items()))
            or "none"
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_words, value)) or "none"
    return (
        "none"
        if value is None or value == ""
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _header_field_counts(part_report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, int]]]:
    """Header fields with their counts, most occurrences first."""
    return sorted(
        dict(part_report.get("by_field") or {}).items(),
        key=lambda item: (-item[1]["occurrences"], item[0]),
    )


def _describe_action(editor: Mapping[str, Any] | None) -> str:
    """What the plan does with a kind, in words; `editor` is the part of the plan that edits it, if
    any."""
    if editor is None:
        return "found and counted, left unchanged by plan"
    use = str(editor.get("use", ""))
    if use in list_part_names("edit"):  # a module that only the report's data names is not imported
        with contextlib.suppress(PlanError):  # settings of another version
            return str(load_part("edit", editor, "").action)
    return f"edited by {use}"


def has_parts_of_values(plan: Mapping[str, Any]) -> bool:
    """True if the replacements of a plan (of a manifest) may hold a part of a value, or a word of a
    text: a report does not show them then."""
    for editor in plan.get("edit", ()):
        if editor.get("use") not in list_part_names("edit"):
            return True
        try:
            if not load_part("edit", editor, "").draws_anew:
                return True
        except PlanError:  # settings of another version
            return True
    return False


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


# -------------------------------------------------------------------------------------- figures


def outcome_bars(kind_rows: Sequence[KindRow]) -> ShareBars | None:
    """Outcomes of the occurrences of each kind, as shares; None if nothing was found."""
    outcomes = tuple(
        outcome
        for outcome in (*_REPORTED_OUTCOMES, "replaced")
        if any(kind.outcomes.get(outcome) for kind in kind_rows)
    )
    rows = tuple(
        (kind.name, tuple(kind.outcomes.get(outcome, 0) for outcome in outcomes))
        for kind in kind_rows
    )
    if not outcomes:
        return None
    return ShareBars(
        name="Outcomes by kind", segments=outcomes, rows=tuple(row for row in rows if sum(row[1]))
    )


def rank_curves(kind_rows: Sequence[KindRow], tables: ReportTables) -> list[RankCurves]:
    """The rank-frequency curves of every kind that has values, in the order of the page."""
    before: dict[str, list[tuple[int, int]]] = {}
    after: dict[str, Counter[int]] = {}
    for kind, count, values in tables.frequency_histogram:
        if count > 0:
            before.setdefault(kind, []).append((count, values))
    for kind, outcome, section, count, values in tables.outcomes:
        if section is None and outcome in ("original", "surrogate"):
            after.setdefault(kind, Counter())[count] += values
    names = [kind.name for kind in kind_rows if kind.name in before]
    return [
        RankCurves(
            name=name,
            before=sorted(before[name], reverse=True),
            after=sorted(after.get(name, {}).items(), reverse=True),
        )
        for name in names
    ]


def _location_table(
    kind_rows: Sequence[KindRow], tables: ReportTables
) -> tuple[list[str], list[tuple[str, list[list[int] | None]]]]:
    """Where the occurrences of each kind are, in the documents that are not dropped: the kinds, and
    for each location (header fields, body, no mail) its cells, each (occurrences, of them edited).
    Without rows if no occurrence has a location."""
    shown_kinds = [kind.name for kind in kind_rows[:_MAX_KIND_COLUMNS]]
    cells: dict[str, dict[str, list[int]]] = {}
    fields: Counter[str] = Counter()
    for _, outcome, section, occurrences, _ in tables.outcomes:
        if section in WELL_KNOWN_FIELDS and outcome != "dropped":
            fields[section] += occurrences
    # only well-known header fields are named: a field that few mails have can identify their author
    named_sections = {
        "body",
        *sorted(fields, key=lambda field: (-fields[field], field))[:_MAX_HEADER_FIELDS],
    }
    for kind, outcome, section, occurrences, _ in tables.outcomes:
        if section is not None and outcome != "dropped":
            location = (
                section
                if section in named_sections
                else "other header fields"
                if section
                else "no mail"
            )
            for column in (kind if kind in shown_kinds else "other kinds", "all"):
                cell = cells.setdefault(location, {}).setdefault(column, [0, 0])
                cell[0] += occurrences
                cell[1] += occurrences if outcome in _EDITED_OUTCOMES else 0
    columns = [
        name
        for name in (*shown_kinds, "other kinds", "all")
        if any(name in row for row in cells.values())
    ]
    rows = sorted(cells.items(), key=lambda item: (-item[1]["all"][0], item[0]))
    return columns, [(location, [row.get(name) for name in columns]) for location, row in rows]


def _location_bars(kind_rows: Sequence[KindRow], tables: ReportTables) -> ShareBars | None:
    """Shares of the occurrences of each kind in mail headers, mail bodies and other texts; None if
    no text is a mail."""
    counts: dict[str, Counter[str]] = {}
    for kind, outcome, section, occurrences, _ in tables.outcomes:
        if section is not None and outcome != "dropped":
            counts.setdefault(kind, Counter())[
                "body" if section == "body" else "header" if section else "text"
            ] += occurrences
    segments = ("header", "body", "text")
    rows = tuple(
        (kind.name, tuple(counts[kind.name][segment] for segment in segments))
        for kind in kind_rows
        if kind.name in counts
    )
    if not any(header or body for _, (header, body, _) in rows):
        return None
    return ShareBars(name="Mail headers and bodies by kind", segments=segments, rows=rows)


def _svg_markup(chart: Chart) -> Markup:
    """A figure as markup that the page takes as it is (`charts` escapes every text in it); bars in
    both forms, broad and narrow."""
    from markupsafe import Markup

    forms = [
        render_svg(chart),
        *([render_narrow_svg(chart)] if isinstance(chart, ShareBars) else []),
    ]
    return Markup("\n".join(forms))  # noqa: S704 - the only place where markup is generated outside the template


# -------------------------------------------------------------------------------------- samples


@dataclass(frozen=True, kw_only=True)
class _MaskedSample:
    """A sample as pieces. `before`, between `lead` and `tail`, is masked; `after` has the pieces of
    the published line, each with whether it is shown as published and not masked."""

    kind: str
    lead: str
    before: str
    tail: str
    after: Sequence[LinePiece]


def _mask_samples(samples: Sequence[EditSample], hides_surrogates: bool) -> list[_MaskedSample]:
    """The samples for the template, each cut to one line. What replaced a value is shown as it is
    published, unless it is a surrogate and these are hidden; all else is masked to its shape."""
    return [
        _MaskedSample(
            kind=sample.kind,
            lead=_mask_line(sample.text_before)[-_CONTEXT_CHARACTERS:],
            before=_mask_line(sample.original),
            tail=_mask_line(sample.text_after)[:_CONTEXT_CHARACTERS],
            after=[
                (_to_line(text), True)
                if is_edit and (_LABEL_PATTERN.fullmatch(text) or not hides_surrogates)
                else (_mask_line(text), False)
                for text, is_edit in (*sample.lead, (sample.replacement, True), *sample.tail)
            ],
        )
        for sample in samples
    ]


def _to_line(text: str) -> str:
    return re.sub(r"\s", " ", text)


def _mask_line(text: str) -> str:
    import polars as pl

    return str(mask_texts(pl.Series([_to_line(text)], dtype=pl.String))[0])
