"""What a suite measured, for people: `page`, one self-contained HTML page, and `card`, a model card to begin with.

Both are made from the JSON of `suite.evaluate`, which holds numbers only. No script, no request; names are escaped. Several reports stand
side by side on one page.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

Report = Mapping[str, Any]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 400, 250, 52, 12, 12, 40  # of a figure and its margins, in pixels
COLOURS = ("#9a6a2f", "#0b6e6e", "#7a3fa0", "#1d6b3a", "#a3201d", "#2f5d9a", "#666666")
_DASHES = ("", "6 4", "2 3", "9 3 2 3", "1 2", "12 4", "4 1")


def page(reports: Sequence[Report]) -> str:
    """The whole page as HTML, one column of tables and figures for each report."""
    return _render("report.html.j2", reports=[_told(report) for report in reports])


def card(report: Report, run: str) -> str:
    """A model card in Markdown for one run of a report: what it was trained on, what was measured, and what that does not say.

    It is a stub: whoever publishes a model completes it.
    """
    told = report["runs"][run]
    return _render("card.md.j2", run=run, trained=told["trained"], report=report, last=told["rows"][-1], rows=_measured(told["rows"][-1]))


def _told(report: Report) -> dict[str, Any]:
    """Everything the template names of one report."""
    runs = list(report["runs"])
    finals = [(name, _measured(report["runs"][name]["rows"][-1])) for name in runs]
    labels = list(dict.fromkeys(label for _, measured in finals for label in measured))
    return {
        "name": report["name"],
        "baseline": report.get("baseline"),
        "seed": report.get("seed"),
        "runs": [{"name": name, **report["runs"][name]["trained"], "checkpoints": len(report["runs"][name]["rows"])} for name in runs],
        "labels": [(label, [measured.get(label) for _, measured in finals]) for label in labels],
        "over": [
            (use, [(name, list(_flat(found).items())) for name, found in over.items() if isinstance(found, Mapping)])
            for use, over in report.get("over", {}).items()
        ],
        "bands": _bands(report),
        "figures": [{**figure, "svg": svg(figure, runs)} for figure in report.get("figures", ()) if any(_points(figure))],
    }


def _measured(row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of one checkpoint by a flat name, without lists."""
    return {"step": row["step"], "epoch": row["epoch"], **_flat({key: value for key, value in row.items() if isinstance(value, Mapping)})}


def _flat(told: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in told.items():
        name = f"{before} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            found |= _flat(value, name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
    return found


def _bands(report: Report) -> list[dict[str, Any]]:
    """Leaks by frequency at the last checkpoint, by kind of prompt."""
    found = []
    for name, run in report["runs"].items():
        for family, told in run["rows"][-1].get("extraction", {}).items():
            found += [{"run": name, "prompts": family, **band} for band in told["bands"]]
    return found


# ---- figures ----


def points_of(figure: Mapping[str, Any]) -> list[tuple[str, list[tuple[float, float]]]]:
    """The name and the finite points of each series of a figure, as JSON or Python has it."""
    found = (_pair(one) for one in figure["series"])
    return [(name, [(float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y)]) for name, points in found]


def _points(figure: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [point for _, points in points_of(figure) for point in points]


def _pair(series: Any) -> tuple[str, Sequence[tuple[float, float]]]:
    """Name and points of a series, which JSON gives as a list."""
    name, points = (series["name"], series["points"]) if isinstance(series, Mapping) else series
    return str(name), points


def svg(figure: Mapping[str, Any], runs: Sequence[str]) -> str:
    """A figure as inline SVG: axes with round ticks, one curve a run in its colour and dash, a legend below."""
    there = _points(figure)
    xs, ys = _ticks([x for x, _ in there]), _ticks([0.0, *(y for _, y in there)])

    def at(x: float, y: float) -> tuple[float, float]:
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        across, up = (x - xs[0]) / (xs[-1] - xs[0]), (y - ys[0]) / (ys[-1] - ys[0])
        return round(_LEFT + wide * across, 1), round(_HEIGHT - _BOTTOM - high * up, 1)

    box, label = f"0 0 {_WIDTH} {_HEIGHT + 16 * len(figure['series'])}", html.escape(str(figure["title"]), quote=True)
    lines = [f'<svg viewBox="{box}" role="img" aria-label="{label}">']
    for x in xs:
        left, _ = at(x, ys[0])
        lines.append(f'<line class="grid" x1="{left}" x2="{left}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        lines.append(f'<text x="{left}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{x:g}</text>')
    for y in ys:
        _, top = at(xs[0], y)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{top}" y2="{top}"/>')
        lines.append(f'<text x="{_LEFT - 5}" y="{top + 4}" text-anchor="end">{y:g}</text>')
    lines.append(f'<text x="{(_WIDTH + _LEFT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{html.escape(str(figure["x"]))}</text>')
    lines.append(
        f'<text transform="translate(11 {_HEIGHT / 2 - 10}) rotate(-90)" text-anchor="middle">{html.escape(str(figure["y"]))}</text>'
    )
    for place, series in enumerate(figure["series"]):
        name, points = _pair(series)
        number = list(runs).index(name) if name in runs else place
        colour, dash = COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]
        good = [at(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
        if figure["kind"] == "dots":
            lines += [f'<circle cx="{x}" cy="{y}" r="3.2" fill="{colour}"/>' for x, y in good]
        elif good:
            way = f"M{good[0][0]} {good[0][1]}"
            for x, y in good[1:]:
                way += f"H{x}V{y}" if figure["kind"] == "steps" else f"L{x} {y}"
            lines.append(f'<path d="{way}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        below, line = _HEIGHT + 16 * place + 8, f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        lines.append(f'<line x1="{_LEFT}" x2="{_LEFT + 26}" y1="{below - 4}" y2="{below - 4}" {line}/>')
        lines.append(f'<text x="{_LEFT + 32}" y="{below}">{html.escape(name)}</text>')
    return "".join([*lines, "</svg>"])


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers that span the values, about five of them."""
    low, high = min(values), max(values)
    if high - low < 1e-12:
        high = low + 1.0
    step = 10 ** math.floor(math.log10((high - low) / 5))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _render(name: str, **facts: Any) -> str:
    import jinja2

    room = jinja2.Environment(
        loader=jinja2.BaseLoader(),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    room.filters["n"] = _number
    return room.from_string((resources.files(__package__) / "templates" / name).read_text("utf-8")).render(**facts)


def _number(value: Any) -> str:
    """A number as people read it; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
