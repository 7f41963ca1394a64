"""Renders the JSON of `suite.evaluate` for people: one self-contained HTML page, and a draft of a
model card in Markdown.

The JSON holds numbers only. The page has no scripts and makes no requests; names are escaped.
Several reports are shown side by side.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

ReportJson = Mapping[str, Any]

# of a figure and its margins, in pixels
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = (
    400,
    250,
    52,
    12,
    12,
    40,
)
COLOURS = ("#9a6a2f", "#0b6e6e", "#7a3fa0", "#1d6b3a", "#a3201d", "#2f5d9a", "#666666")
_STROKE_DASHES = ("", "6 4", "2 3", "9 3 2 3", "1 2", "12 4", "4 1")


def render_page(reports: Sequence[ReportJson]) -> str:
    """Render the page as HTML, with one column of tables and figures per report."""
    return _render_template(
        "report.html.j2", reports=[_build_template_data(report) for report in reports]
    )


def render_model_card(report: ReportJson, run_name: str) -> str:
    """Render a model card in Markdown for one run of a report: training data, measurements, and
    their limits.

    It is a draft, to be completed by whoever publishes the model.
    """
    run_report = report["runs"][run_name]
    return _render_template(
        "card.md.j2",
        run=run_name,
        trained=run_report["trained"],
        report=report,
        last=run_report["rows"][-1],
        rows=_flatten_row(run_report["rows"][-1]),
    )


def _build_template_data(report: ReportJson) -> dict[str, Any]:
    """Return the variables of the template for one report."""
    runs = list(report["runs"])
    finals = [(name, _flatten_row(report["runs"][name]["rows"][-1])) for name in runs]
    labels = list(dict.fromkeys(label for _, measured in finals for label in measured))
    return {
        "name": report["name"],
        "baseline": report.get("baseline"),
        "seed": report.get("seed"),
        "runs": [
            {
                "name": name,
                **report["runs"][name]["trained"],
                "checkpoints": len(report["runs"][name]["rows"]),
            }
            for name in runs
        ],
        "labels": [(label, [measured.get(label) for _, measured in finals]) for label in labels],
        "aggregates": [
            (
                use,
                [
                    (name, list(_flatten(found).items()))
                    for name, found in aggregates.items()
                    if isinstance(found, Mapping)
                ],
            )
            for use, aggregates in report.get("aggregates", {}).items()
        ],
        "bands": _list_bands(report),
        "verdicts": report.get("verdicts", ()),
        "comparisons": report.get("comparisons", ()),
        "tables": report.get("tables", ()),
        "figures": [
            {**figure, "svg": render_svg(figure, runs)}
            for figure in report.get("figures", ())
            if any(_all_points(figure))
        ],
    }


def _flatten_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of one checkpoint by flat names, without lists."""
    return {
        "step": row["step"],
        "epoch": row["epoch"],
        **_flatten({key: value for key, value in row.items() if isinstance(value, Mapping)}),
    }


def _flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in nested.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            found |= _flatten(value, name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found


def _list_bands(report: ReportJson) -> list[dict[str, Any]]:
    """Return leaks by frequency at the last checkpoint, by kind of prompt."""
    found = []
    for name, run in report["runs"].items():
        for family, rates in run["rows"][-1].get("extraction", {}).items():
            found += [{"run": name, "prompts": family, **band} for band in rates["bands"]]
    return found


# ---- figures ----


def finite_points(figure: Mapping[str, Any]) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return the name and the finite points of each series of a figure; figures from JSON and from
    Python are both accepted."""
    found = (_name_and_points(one) for one in figure["series"])
    return [
        (name, [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)])
        for name, points in found
    ]


def _all_points(figure: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [point for _, points in finite_points(figure) for point in points]


def _name_and_points(series: Any) -> tuple[str, Sequence[tuple[float, float]]]:
    """Return name and points of a series, a mapping or (from JSON) a list."""
    name, points = (series["name"], series["points"]) if isinstance(series, Mapping) else series
    return str(name), points


def render_svg(figure: Mapping[str, Any], run_names: Sequence[str]) -> str:
    """Render a figure as inline SVG: axes with round ticks, one curve per run with its colour and
    dash, a legend below."""
    points_shown = _all_points(figure)
    xs, ys = (
        _round_ticks([x for x, _ in points_shown]),
        _round_ticks([0.0, *(y for _, y in points_shown)]),
    )

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        x_share, y_share = (x - xs[0]) / (xs[-1] - xs[0]), (y - ys[0]) / (ys[-1] - ys[0])
        return round(_LEFT + plot_width * x_share, 1), round(
            _HEIGHT - _BOTTOM - plot_height * y_share, 1
        )

    box, label = (
        f"0 0 {_WIDTH} {_HEIGHT + 16 * len(figure['series'])}",
        html.escape(str(figure["title"]), quote=True),
    )
    lines = [f'<svg viewBox="{box}" role="img" aria-label="{label}">']
    for x in xs:
        left, _ = to_pixels(x, ys[0])
        lines.append(
            f'<line class="grid" x1="{left}" x2="{left}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        )
        lines.append(
            f'<text x="{left}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{x:g}</text>'
        )
    for y in ys:
        _, top = to_pixels(xs[0], y)
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{top}" y2="{top}"/>'
        )
        lines.append(f'<text x="{_LEFT - 5}" y="{top + 4}" text-anchor="end">{y:g}</text>')
    lines.append(
        f'<text x="{(_WIDTH + _LEFT) / 2}" y="{_HEIGHT - 8}"'
        f' text-anchor="middle">{html.escape(str(figure["x"]))}</text>'
    )
    lines.append(
        f'<text transform="translate(11 {_HEIGHT / 2 - 10}) rotate(-90)"'
        f' text-anchor="middle">{html.escape(str(figure["y"]))}</text>'
    )
    for series_no, series in enumerate(figure["series"]):
        name, points = _name_and_points(series)
        number = list(run_names).index(name) if name in run_names else series_no
        colour, dash = COLOURS[number % len(COLOURS)], _STROKE_DASHES[number % len(_STROKE_DASHES)]
        pixels = [to_pixels(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        if figure["kind"] == "dots":
            lines += [f'<circle cx="{x}" cy="{y}" r="3.2" fill="{colour}"/>' for x, y in pixels]
        elif pixels:
            path_data = f"M{pixels[0][0]} {pixels[0][1]}"
            for x, y in pixels[1:]:
                path_data += f"H{x}V{y}" if figure["kind"] == "steps" else f"L{x} {y}"
            lines.append(
                f'<path d="{path_data}" fill="none" stroke="{colour}" stroke-width="2"'
                f' stroke-dasharray="{dash}"/>'
            )
        legend_y, stroke = (
            _HEIGHT + 16 * series_no + 8,
            f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"',
        )
        lines.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + 26}" y1="{legend_y - 4}" y2="{legend_y - 4}"'
            f" {stroke}/>"
        )
        lines.append(f'<text x="{_LEFT + 32}" y="{legend_y}">{html.escape(name)}</text>')
    return "".join([*lines, "</svg>"])


def _round_ticks(values: Sequence[float]) -> list[float]:
    """Return about five round numbers that span the values."""
    low, high = min(values), max(values)
    if high - low < 1e-12:
        high = low + 1.0
    step = 10 ** math.floor(math.log10((high - low) / 5))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _render_template(name: str, **variables: Any) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.BaseLoader(),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["n"] = _format_number
    return environment.from_string(
        (resources.files(__package__) / "templates" / name).read_text("utf-8")
    ).render(**variables)


def _format_number(value: Any) -> str:
    """Format a number for people; a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
