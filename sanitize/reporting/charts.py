"""The figures of a report, from small tables: `svg` draws one inline for the page, `draw` writes files with matplotlib (extra `plots`).

A figure is data only: `Curves` (how often the value of each rank stands, before and after) or `Bars` (shares of a whole). The inline ones
take their colours from the page's classes, light and dark; every text in them is escaped. A curve is cut to what a pixel can show, so
that a figure stays small for any number of values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from sanitize.core.rendering import visible
from sanitize.errors import MissingExtra, UsageError, nearest

Steps = Sequence[tuple[int, int]]  # (occurrences, how many values occur so often), most frequent first

FORMATS = ("png", "svg")
# what the parts of a bar are called, in full and at the head of a column; the page's classes go by the same keys
PARTS = {
    "kept": ("kept by plan", "kept", "#0b6e6e"),
    "left": ("left by plan", "left", "#8d99a6"),
    "stand_in": ("replaced by a stand-in", "stand-in", "#d9a566"),
    "label": ("replaced by a label", "label", "#9a6a2f"),
    "replaced": ("replaced", "replaced", "#d9a566"),
    "removed": ("taken out", "taken out", "#7a5aa6"),
    "with_another": ("touched by an edit of another kind", "by another", "#b3739e"),
    "dropped": ("in dropped documents", "dropped", "#4a5561"),
    "header": ("mail headers", "headers", "#2f6f9a"),
    "body": ("mail bodies", "bodies", "#8fb8d6"),
    "text": ("texts that are no mail", "no mail", "#8d99a6"),
}
_BEFORE, _AFTER = "#9a6a2f", "#0b6e6e"


@dataclass(frozen=True, kw_only=True)
class Curves:
    """How often the value of each rank stands, before and after; `after` is empty where no value is left."""

    name: str
    before: Steps
    after: Steps

    @property
    def ranks(self) -> int:
        """The last rank of the longer curve."""
        return max(sum(values for _, values in steps) for steps in (self.before, self.after))

    def rows(self) -> list[tuple[int, int, int]]:
        """(rank, occurrences before, after) at 1, 10, 100, ... and the last rank; 0 beyond a curve's end."""
        last = self.ranks
        shown = sorted({last, *(10**power for power in range(len(str(last))))})
        return [(rank, _at(self.before, rank), _at(self.after, rank)) for rank in shown if rank <= last]


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Shares of a whole: one bar a row of (label, counts); `parts` are the keys of `PARTS` that the counts belong to."""

    name: str
    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]


Figure = Curves | Bars


def svg(figure: Figure) -> str:
    """A figure as one `svg` element, well-formed XML without references, to stand inside a page."""
    return _curves(figure) if isinstance(figure, Curves) else _bars(figure)


def _at(steps: Steps, rank: int) -> int:
    """How often the value of that rank occurs; 0 beyond the last."""
    for count, values in steps:
        rank -= values
        if rank <= 0:
            return count
    return 0


# --------------------------------------------------------------------------------------------------------------------------- inline

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 340, 230, 46, 12, 12, 38  # of curves and their margins, in pixels
_THIN = 0.4  # pixels; two points nearer than that are one


def _curves(figure: Curves) -> str:
    across, up = (max(1, math.ceil(math.log10(most))) for most in (figure.ranks, max(steps[0][0] for steps in _both(figure))))
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(rank: float) -> float:
        return _LEFT + (right - _LEFT) * math.log10(rank) / across

    def y(count: float) -> float:
        return bottom - (bottom - _TOP) * math.log10(count) / up

    said = f"{figure.name}: occurrences by rank, before and after; the numbers are in the table below"
    parts = [_opening(_WIDTH, _HEIGHT, said)]
    for power in range(0, across + 1, 1 + across // 6):
        place = f"{x(10**power):.1f}"
        parts.append(f'<line class="grid" x1="{place}" x2="{place}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(_text(_power(power), place, bottom + 15, "middle"))
    for power in range(0, up + 1, 1 + up // 6):
        place = f"{y(10**power):.1f}"
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{place}" y2="{place}"/>')
        parts.append(_text(_power(power), _LEFT - 6, f"{y(10**power) + 4:.1f}", "end"))
    parts.append(f'<path class="axis" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    parts.append(_text("rank of the value", (_LEFT + right) // 2, _HEIGHT - 5, "middle"))
    parts.append(f'<text transform="translate(11 {(_TOP + bottom) // 2}) rotate(-90)" text-anchor="middle">occurrences</text>')
    for name, steps in (("before", figure.before), ("after", figure.after)):
        if steps:
            points, rank = [], 0
            for count, values in steps:
                points += [(x(rank + 1), y(count)), (x(rank + values), y(count))]
                rank += values
            parts.append(f'<polyline class="curve {name}" points="{_thinned(points)}"/>')
    return "".join([*parts, "</svg>"])


def _both(figure: Curves) -> list[Steps]:
    return [steps for steps in (figure.before, figure.after) if steps]


def _thinned(points: Sequence[tuple[float, float]]) -> str:
    """The points of a line without those that are too near the one before them; the last one stays."""
    kept = [points[0]]
    for point in points[1:]:
        if max(abs(point[0] - kept[-1][0]), abs(point[1] - kept[-1][1])) >= _THIN:
            kept.append(point)
    if kept[-1] != points[-1]:
        kept.append(points[-1])
    return " ".join(f"{left:.1f},{top:.1f}" for left, top in kept)


_WIDE, _ROW, _NAMES, _NUMBERS = 760, 26, 150, 72  # of bars: the whole width, a row, the names on the left, the totals on the right


def _bars(figure: Bars) -> str:
    height = _ROW * len(figure.rows) + 4
    told = [
        f"{name}: " + ", ".join(f"{count:,} {PARTS[part][0]}" for part, count in _shown(figure, counts)) for name, counts in figure.rows
    ]
    parts = [_opening(_WIDE, height, f"{figure.name}. {'; '.join(told)}")]
    for number, (name, counts) in enumerate(figure.rows):
        top, total, left = number * _ROW + 4, sum(counts), float(_NAMES)
        parts.append(_text(_cut(name), _NAMES - 8, top + 15, "end"))
        for part, count in _shown(figure, counts):
            width = (_WIDE - _NAMES - _NUMBERS) * count / total
            parts.append(f'<rect class="part {part}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_ROW - 6}"/>')
            left += width
        parts.append(_text(f"{total:,}", _WIDE - _NUMBERS + 8, top + 15, "start"))
    return "".join([*parts, "</svg>"])


def _shown(figure: Bars, counts: Sequence[int]) -> list[tuple[str, int]]:
    return [(part, count) for part, count in zip(figure.parts, counts, strict=True) if count]


def _opening(width: int, height: int, said: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(visible(said))}">'


def _text(text: str, x: float | str, y: float | str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(visible(text))}</text>'


def _cut(name: str) -> str:
    """A name that has room beside its bar."""
    name = visible(name)
    return name if len(name) <= 22 else name[:21] + "…"


def _power(power: int) -> str:
    return ("1", "10", "100", "1K", "10K", "100K", "1M", "10M", "100M", "1G", "10G", "100G")[power] if power < 12 else f"1e{power}"


# ---------------------------------------------------------------------------------------------------------------------------- files


def draw(figures: Sequence[Figure], folder: Path, format: str = "png") -> list[Path]:
    """Every figure as a file in `folder`, such as `rank-frequency-EMAIL_ADDRESS.png`; returns their paths.

    Raises MissingExtra without matplotlib, UsageError for another format than png and svg.
    """
    if format not in FORMATS:
        raise UsageError(f"--format {format}: {nearest(format, FORMATS)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    # names go into texts, never into markup; the same figures give the same bytes
    with matplotlib.rc_context({"svg.hashsalt": "sanitize", "text.usetex": False, "text.parse_math": False}):
        for figure in figures:
            canvas = Canvas(
                figsize=(5.2, 3.8) if isinstance(figure, Curves) else (8.4, 1.4 + 0.34 * len(figure.rows)), layout="constrained"
            )
            axes = canvas.subplots()
            _plot_curves(axes, figure) if isinstance(figure, Curves) else _plot_bars(axes, figure)
            path = folder / f"{_file(figure, made)}.{format}"
            canvas.savefig(path, format=format, dpi=160, metadata={"Date": None} if format == "svg" else {"Software": None})
            made.append(path)
    return made


def _file(figure: Figure, made: Sequence[Path]) -> str:
    """A file name that no shell and no page takes for anything else, and that is not taken yet."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", visible(figure.name)).strip("-")[:80] or "figure"
    name = f"rank-frequency-{name}" if isinstance(figure, Curves) else name.lower()
    taken = {path.stem for path in made}
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))) if one not in taken)


def _plot_curves(axes: Any, figure: Curves) -> None:
    for name, steps, style in (("before", figure.before, (_BEFORE, "-")), ("after", figure.after, (_AFTER, "--"))):
        ranks, counts, rank = [], [], 0
        for count, values in steps:
            ranks += [rank + 1, rank + values]
            counts += [count, count]
            rank += values
        if ranks:
            axes.plot(ranks, counts, color=style[0], linestyle=style[1], linewidth=2, label=name)
    axes.set(xscale="log", yscale="log", xlabel="rank of the value", ylabel="occurrences", title=visible(figure.name))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda count, _: _power(round(math.log10(count))))
        axis.set_minor_formatter(lambda count, _: "")
    axes.grid(True, which="major", color="#e4e4e4")
    axes.legend(frameon=False)


def _plot_bars(axes: Any, figure: Bars) -> None:
    names = [_cut(name) for name, _ in figure.rows]
    rows, left = range(len(names)), [0.0] * len(names)
    for number, part in enumerate(figure.parts):
        shares = [100 * counts[number] / max(sum(counts), 1) for _, counts in figure.rows]
        if any(shares):
            axes.barh(rows, shares, left=left, color=PARTS[part][2], label=PARTS[part][0], height=0.72)
            left = [one + share for one, share in zip(left, shares, strict=True)]
    for row, (_, counts) in enumerate(figure.rows):
        axes.annotate(f"{sum(counts):,}", (101, row), va="center", annotation_clip=False)
    axes.set(xlim=(0, 100), xlabel="percent", title=visible(figure.name))
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.figure.legend(frameon=False, ncols=3, loc="outside lower center")
