"""Charts of the report: `render_svg` draws one inline for the page, `write_charts` writes files
with matplotlib (extra `plots`).

A chart is data only: `RankCurves` (occurrences of the value of each rank, before and after) or
`ShareBars` (shares of a whole). Inline charts take their colours from the page's CSS classes, light
and dark; every text in them is escaped. Points of a curve that fall on the same pixel are left out,
so that a chart stays small for any number of values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from sanitize.core.table_rendering import escape_controls
from sanitize.errors import MissingExtra, UsageError, suggest_names

# (occurrences, number of values with so many), most frequent first
FrequencySteps = Sequence[tuple[int, int]]

CHART_FORMATS = ("png", "svg")
# segments of a bar: name, short name for the head of a column, colour in files; the keys are also
# the page's CSS classes
SEGMENTS = {
    "kept": ("kept by plan", "kept", "#0b6e6e"),
    "left": ("left by plan", "left", "#8d99a6"),
    "surrogate": ("replaced by a surrogate", "surrogate", "#d9a566"),
    "label": ("replaced by a label", "label", "#9a6a2f"),
    "other_text": ("replaced by another text", "other text", "#c9b99a"),
    "replaced": ("replaced", "replaced", "#d9a566"),
    "removed": ("deleted", "deleted", "#7a5aa6"),
    "other_edit": ("changed by an edit of another kind", "by another", "#b3739e"),
    "dropped": ("in dropped documents", "dropped", "#4a5561"),
    "header": ("mail headers", "headers", "#2f6f9a"),
    "body": ("mail bodies", "bodies", "#8fb8d6"),
    "text": ("texts that are not mails", "no mail", "#8d99a6"),
}
_BEFORE_COLOR, _AFTER_COLOR = "#9a6a2f", "#0b6e6e"


@dataclass(frozen=True, kw_only=True)
class RankCurves:
    """Occurrences of the value of each rank, before and after the run; `after` is empty if no value
    is left."""

    name: str
    before: FrequencySteps
    after: FrequencySteps

    @property
    def last_rank(self) -> int:
        """The last rank of the longer curve."""
        return max(sum(values for _, values in steps) for steps in (self.before, self.after))

    def table_rows(self) -> list[tuple[int, int, int]]:
        """(rank, occurrences before, after) at 1, 10, 100, ... and the last rank; 0 beyond a
        curve's end."""
        last = self.last_rank
        shown = sorted({last, *(10**power for power in range(len(str(last))))})
        return [
            (rank, _occurrences_at_rank(self.before, rank), _occurrences_at_rank(self.after, rank))
            for rank in shown
            if rank <= last
        ]


@dataclass(frozen=True, kw_only=True)
class ShareBars:
    """Shares of a whole: one bar per row of (label, counts); `segments` are the keys of `SEGMENTS`
    that the counts belong to."""

    name: str
    segments: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def used_segments(self) -> list[str]:
        """The segments that a row has."""
        return [
            segment
            for number, segment in enumerate(self.segments)
            if any(counts[number] for _, counts in self.rows)
        ]


Chart = RankCurves | ShareBars


def render_svg(chart: Chart) -> str:
    """A chart as one `svg` element to embed in a page: well-formed XML without references."""
    return (
        _render_curves(chart) if isinstance(chart, RankCurves) else _render_bars(chart, _BROAD_BARS)
    )


def render_narrow_svg(bars: ShareBars) -> str:
    """Bars for a screen of a telephone's width, with each name above its bar: an `svg` element of
    class `narrow`."""
    return _render_bars(bars, _NARROW_BARS)


def _occurrences_at_rank(steps: FrequencySteps, rank: int) -> int:
    """How often the value of that rank occurs; 0 beyond the last."""
    for count, values in steps:
        rank -= values
        if rank <= 0:
            return count
    return 0


# --------------------------------------------------------------------------------------- inline

# of curves and their margins, in pixels
_WIDTH, _HEIGHT, _MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = (
    340,
    230,
    46,
    12,
    12,
    38,
)
_MIN_POINT_DISTANCE = 0.4  # pixels; two points nearer than that are one


def _render_curves(curves: RankCurves) -> str:
    across, up = (
        max(1, math.ceil(math.log10(most)))
        for most in (curves.last_rank, max(steps[0][0] for steps in _nonempty_curves(curves)))
    )
    right, bottom = _WIDTH - _MARGIN_RIGHT, _HEIGHT - _MARGIN_BOTTOM

    def x(rank: float) -> float:
        return _MARGIN_LEFT + (right - _MARGIN_LEFT) * math.log10(rank) / across

    def y(count: float) -> float:
        return bottom - (bottom - _MARGIN_TOP) * math.log10(count) / up

    description = (
        f"{curves.name}: occurrences by rank, before and after; the numbers are in the table below"
    )
    parts = [_svg_start_tag(_WIDTH, _HEIGHT, description, "curves")]
    for power in range(0, across + 1, 1 + across // 6):
        position = f"{x(10**power):.1f}"
        parts.append(
            f'<line class="grid" x1="{position}" x2="{position}" y1="{_MARGIN_TOP}" y2="{bottom}"/>'
        )
        parts.append(_svg_text(_format_power(power), position, bottom + 15, "middle"))
    for power in range(0, up + 1, 1 + up // 6):
        position = f"{y(10**power):.1f}"
        parts.append(
            f'<line class="grid" x1="{_MARGIN_LEFT}" x2="{right}" y1="{position}" y2="{position}"/>'
        )
        parts.append(
            _svg_text(_format_power(power), _MARGIN_LEFT - 6, f"{y(10**power) + 4:.1f}", "end")
        )
    parts.append(
        f'<path class="axis" fill="none" d="M{_MARGIN_LEFT} {_MARGIN_TOP}V{bottom}H{right}"/>'
    )
    parts.append(_svg_text("rank of the value", (_MARGIN_LEFT + right) // 2, _HEIGHT - 5, "middle"))
    parts.append(
        f'<text transform="translate(11 {(_MARGIN_TOP + bottom) // 2}) rotate(-90)"'
        ' text-anchor="middle">occurrences</text>'
    )
    for name, steps in (("before", curves.before), ("after", curves.after)):
        if steps:
            points, rank = [], 0
            for count, values in steps:
                points += [(x(rank + 1), y(count)), (x(rank + values), y(count))]
                rank += values
            line = _format_points(points)
            parts.append(f'<polyline class="curve {name}" points="{line}"/>')
            if " " not in line:  # a polyline of one point is not drawn
                parts.append(
                    f'<circle class="curve {name}" cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}"'
                    ' r="2"/>'
                )
    return "".join([*parts, "</svg>"])


def _nonempty_curves(curves: RankCurves) -> list[FrequencySteps]:
    return [steps for steps in (curves.before, curves.after) if steps]


def _format_points(points: Sequence[tuple[float, float]]) -> str:
    """The points of a polyline, without those too near to the point before; the last one is always
    kept."""
    kept = [points[0]]
    for point in points[1:]:
        if max(abs(point[0] - kept[-1][0]), abs(point[1] - kept[-1][1])) >= _MIN_POINT_DISTANCE:
            kept.append(point)
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return " ".join(f"{left:.1f},{top:.1f}" for left, top in kept)


@dataclass(frozen=True, kw_only=True)
class _BarLayout:
    """Where the parts of a row of bars are, in pixels from its left and its top; names and totals
    are (x, text anchor)."""

    css_class: str
    width: int
    row_height: int
    bar_left: int
    bar_width: int
    bar_top: int
    name: tuple[int, str]
    total: tuple[int, str]
    baseline: int


_BAR_HEIGHT = 20
_BROAD_BARS = _BarLayout(
    css_class="broad",
    width=760,
    row_height=26,
    bar_left=150,
    bar_width=538,
    bar_top=0,
    name=(142, "end"),
    total=(696, "start"),
    baseline=15,
)
_NARROW_BARS = _BarLayout(
    css_class="narrow",
    width=340,
    row_height=46,
    bar_left=0,
    bar_width=340,
    bar_top=17,
    name=(0, "start"),
    total=(340, "end"),
    baseline=12,
)


def _render_bars(bars: ShareBars, layout: _BarLayout) -> str:
    descriptions = [
        f"{name}: "
        + ", ".join(
            f"{count:,} {SEGMENTS[segment][0]}"
            for segment, count in _nonzero_segments(bars, counts)
        )
        for name, counts in bars.rows
    ]
    height = layout.row_height * len(bars.rows) + 4
    elements = [
        _svg_start_tag(
            layout.width, height, f"{bars.name}. {'; '.join(descriptions)}", layout.css_class
        )
    ]
    for number, (name, counts) in enumerate(bars.rows):
        top, total, left = number * layout.row_height + 4, sum(counts), float(layout.bar_left)
        elements.append(
            _svg_text(_truncate_name(name), layout.name[0], top + layout.baseline, layout.name[1])
        )
        for segment, count in _nonzero_segments(bars, counts):
            width = layout.bar_width * count / total
            place = (
                f'x="{left:.1f}" y="{top + layout.bar_top}" width="{width:.1f}"'
                f' height="{_BAR_HEIGHT}"'
            )
            elements.append(f'<rect class="part {segment}" {place}/>')
            left += width
        elements.append(
            _svg_text(f"{total:,}", layout.total[0], top + layout.baseline, layout.total[1])
        )
    return "".join([*elements, "</svg>"])


def _nonzero_segments(bars: ShareBars, counts: Sequence[int]) -> list[tuple[str, int]]:
    return [(segment, count) for segment, count in zip(bars.segments, counts, strict=True) if count]


def _svg_start_tag(width: int, height: int, description: str, css_class: str) -> str:
    return (
        f'<svg class="{css_class}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(escape_controls(description))}">'
    )


def _svg_text(text: str, x: float | str, y: float | str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(escape_controls(text))}</text>'


def _truncate_name(name: str) -> str:
    """A name of at most 22 characters, which fits beside its bar."""
    name = escape_controls(name)
    return name if len(name) <= 22 else name[:21] + "…"


def _format_power(power: int) -> str:
    return (
        ("1", "10", "100", "1K", "10K", "100K", "1M", "10M", "100M", "1G", "10G", "100G")[power]
        if power < 12
        else f"1e{power}"
    )


# ---------------------------------------------------------------------------------------- files


def write_charts(charts: Sequence[Chart], folder: Path, format: str = "png") -> list[Path]:
    """Write every chart to a file in `folder`, such as `rank-frequency-EMAIL_ADDRESS.png`; returns
    their paths.

    Raises MissingExtra without matplotlib, UsageError for another format than png and svg.
    """
    if format not in CHART_FORMATS:
        raise UsageError(f"--format {format}: {suggest_names(format, CHART_FORMATS)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    # names are plain text, never markup; the same charts give the same bytes
    with matplotlib.rc_context(
        {"svg.hashsalt": "sanitize", "text.usetex": False, "text.parse_math": False}
    ):
        for chart in charts:
            figure = Figure(
                figsize=(
                    (5.2, 3.8)
                    if isinstance(chart, RankCurves)
                    else (8.4, 1.4 + 0.34 * len(chart.rows))
                ),
                layout="constrained",
            )
            axes = figure.subplots()
            _plot_curves(axes, chart) if isinstance(chart, RankCurves) else _plot_bars(axes, chart)
            path = folder / f"{_file_stem(chart, written)}.{format}"
            figure.savefig(
                path,
                format=format,
                dpi=160,
                metadata={"Date": None} if format == "svg" else {"Software": None},
            )
            written.append(path)
    return written


def _file_stem(chart: Chart, written: Sequence[Path]) -> str:
    """A file name for a chart: letters, digits, `_` and `-` only, and with a number if the name is
    already used."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", escape_controls(chart.name)).strip("-")[:80] or "figure"
    name = f"rank-frequency-{name}" if isinstance(chart, RankCurves) else name.lower()
    used = {path.stem for path in written}
    return next(
        stem
        for stem in (name, *(f"{name}-{number}" for number in range(2, len(used) + 3)))
        if stem not in used
    )


def _plot_curves(axes: Any, curves: RankCurves) -> None:
    for name, steps, style in (
        ("before", curves.before, (_BEFORE_COLOR, "-")),
        ("after", curves.after, (_AFTER_COLOR, "--")),
    ):
        ranks, counts, rank = [], [], 0
        for count, values in steps:
            ranks += [rank + 1, rank + values]
            counts += [count, count]
            rank += values
        if ranks:
            marker = "o" if rank == 1 else ""  # a line of one point is not drawn
            axes.plot(
                ranks,
                counts,
                color=style[0],
                linestyle=style[1],
                linewidth=2,
                label=name,
                marker=marker,
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="rank of the value",
        ylabel="occurrences",
        title=escape_controls(curves.name),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda count, _: _format_power(round(math.log10(count))))
        axis.set_minor_formatter(lambda count, _: "")
    axes.grid(True, which="major", color="#e4e4e4")
    axes.legend(frameon=False)


def _plot_bars(axes: Any, bars: ShareBars) -> None:
    names = [_truncate_name(name) for name, _ in bars.rows]
    rows, left = range(len(names)), [0.0] * len(names)
    for number, segment in enumerate(bars.segments):
        shares = [100 * counts[number] / max(sum(counts), 1) for _, counts in bars.rows]
        if any(shares):
            axes.barh(
                rows,
                shares,
                left=left,
                color=SEGMENTS[segment][2],
                label=SEGMENTS[segment][0],
                height=0.72,
            )
            left = [start + share for start, share in zip(left, shares, strict=True)]
    for row, (_, counts) in enumerate(bars.rows):
        axes.annotate(f"{sum(counts):,}", (101, row), va="center", annotation_clip=False)
    axes.set(xlim=(0, 100), xlabel="percent", title=escape_controls(bars.name))
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.figure.legend(frameon=False, ncols=3, loc="outside lower center")
