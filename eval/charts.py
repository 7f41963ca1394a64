"""Draws the figures of reports as files with matplotlib (extra `plots`); the HTML page draws its
own inline (`report.render_svg`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import MissingExtra, UsageError, suggest_names

from .report import COLOURS, finite_points

IMAGE_FORMATS = ("png", "svg")
_LINE_STYLES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (1, 1)), (0, (8, 3)), (0, (3, 1)))


def check_image_format(format: str) -> str:
    """Return the format if it can be drawn; UsageError for an unknown one, MissingExtra without
    matplotlib."""
    if format not in IMAGE_FORMATS:
        raise UsageError(f"--format {format}: {suggest_names(format, IMAGE_FORMATS)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    return format


def draw_charts(
    reports: Sequence[Mapping[str, Any]], folder: Path, format: str = "png"
) -> list[Path]:
    """Draw every figure of reports as a file in `folder`, such as
    `suite-extraction-total-extraction-rate-web-prompts.png`; return paths.

    The same reports give the same bytes. A figure without a point is left out. Raises the errors of
    `check_image_format`.
    """
    check_image_format(format)
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    paths: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    # names are drawn as plain text, never parsed as TeX or math
    with matplotlib.rc_context(
        {"svg.hashsalt": "sanitize", "text.usetex": False, "text.parse_math": False}
    ):
        for report in reports:
            runs = list(report["runs"])
            for figure in report.get("figures", ()):
                if not any(points for _, points in finite_points(figure)):
                    continue
                canvas = Canvas(figsize=(5.6, 4.0), layout="constrained")
                _plot(canvas.subplots(), figure, runs)
                path = (
                    folder
                    / f"{_unique_file_stem((report['name'], figure['metric'], figure['title']), paths)}.{format}"  # noqa: E501
                )
                canvas.savefig(
                    path,
                    format=format,
                    dpi=160,
                    metadata={"Date": None} if format == "svg" else {"Software": None},
                )
                paths.append(path)
    return paths


def _plot(axes: Any, figure: Mapping[str, Any], runs: Sequence[str]) -> None:
    for series_no, (name, points) in enumerate(finite_points(figure)):
        number = runs.index(name) if name in runs else series_no
        style = {"color": COLOURS[number % len(COLOURS)], "label": _remove_control_characters(name)}
        xs, ys = [x for x, _ in points], [y for _, y in points]
        if figure["kind"] == "dots":
            axes.plot(xs, ys, "o", **style)
        else:
            steps = "steps-post" if figure["kind"] == "steps" else "default"
            axes.plot(
                xs,
                ys,
                linestyle=_LINE_STYLES[number % len(_LINE_STYLES)],
                linewidth=2,
                drawstyle=steps,
                **style,
            )
    axes.set(xlabel=figure["x"], ylabel=figure["y"], title=figure["title"])
    axes.set_ylim(bottom=min(0.0, *(y for _, points in finite_points(figure) for _, y in points)))
    axes.grid(True, color="#e4e4e4")
    axes.legend(frameon=False)


def _remove_control_characters(name: str) -> str:
    """Return a run's name without characters that are not allowed in XML."""
    return re.sub("[\x00-\x1f\x7f-\x9f\ufffe\uffff]", "", name)


def _unique_file_stem(name_parts: Sequence[str], taken_paths: Sequence[Path]) -> str:
    """Return a file name of letters, digits, `_` and `-` that is not used yet."""
    name = (
        re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(map(str, name_parts))).strip("-").lower()[:100]
        or "figure"
    )
    taken = {path.stem for path in taken_paths}
    return next(
        one
        for one in (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
        if one not in taken
    )
