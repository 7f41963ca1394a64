"""The figures of reports as files, drawn with matplotlib (extra `plots`); the page has its own, drawn inline (`report.svg`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import MissingExtra, UsageError, nearest

from .report import COLOURS, points_of

FORMATS = ("png", "svg")
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (1, 1)), (0, (8, 3)), (0, (3, 1)))


def checked(format: str) -> str:
    """A format that can be drawn; UsageError for another one, MissingExtra without matplotlib."""
    if format not in FORMATS:
        raise UsageError(f"--format {format}: {nearest(format, FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return format


def draw(reports: Sequence[Mapping[str, Any]], folder: Path, format: str = "png") -> list[Path]:
    """Every figure of reports as a file in `folder`, such as `suite-extraction-total-extraction-rate-web-prompts.png`; their paths.

    The same reports give the same bytes. A figure without a point is left out. Errors as in `checked`.
    """
    checked(format)
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    made: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    # names go into texts, never into markup
    with matplotlib.rc_context({"svg.hashsalt": "sanitize", "text.usetex": False, "text.parse_math": False}):
        for report in reports:
            runs = list(report["runs"])
            for figure in report.get("figures", ()):
                if not any(points for _, points in points_of(figure)):
                    continue
                canvas = Canvas(figsize=(5.6, 4.0), layout="constrained")
                _plot(canvas.subplots(), figure, runs)
                path = folder / f"{_file((report['name'], figure['metric'], figure['title']), made)}.{format}"
                canvas.savefig(path, format=format, dpi=160, metadata={"Date": None} if format == "svg" else {"Software": None})
                made.append(path)
    return made


def _plot(axes: Any, figure: Mapping[str, Any], runs: Sequence[str]) -> None:
    for place, (name, points) in enumerate(points_of(figure)):
        number = runs.index(name) if name in runs else place
        look = {"color": COLOURS[number % len(COLOURS)], "label": _shown(name)}
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if figure["kind"] == "dots":
            axes.plot(xs, ys, "o", **look)
        else:
            steps = "steps-post" if figure["kind"] == "steps" else "default"
            axes.plot(xs, ys, linestyle=_DASHES[number % len(_DASHES)], linewidth=2, drawstyle=steps, **look)
    axes.set(xlabel=figure["x"], ylabel=figure["y"], title=figure["title"])
    axes.set_ylim(bottom=min(0.0, *(y for _, points in points_of(figure) for _, y in points)))
    axes.grid(True, color="#e4e4e4")
    axes.legend(frameon=False)


def _shown(name: str) -> str:
    """A run's name without what no file of XML may hold."""
    return re.sub("[\x00-\x1f\x7f-\x9f\ufffe\uffff]", "", name)


def _file(words: Sequence[str], made: Sequence[Path]) -> str:
    """A file name that no shell and no page takes for anything else, and that is not taken yet."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(map(str, words))).strip("-").lower()[:100] or "figure"
    taken = {path.stem for path in made}
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))) if one not in taken)
