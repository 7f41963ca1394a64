"""Charts of the report: SVG is well-formed, escaped, small and within its frame; chart files."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.errors import MissingExtra, UsageError
from sanitize.reporting import charts
from sanitize.reporting.charts import (
    Chart,
    RankCurves,
    ShareBars,
    render_narrow_svg,
    render_svg,
    write_charts,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "]]></svg><!--",
    "\u202egnp.exe",
    "\x1b]0;owned\x07\x00\ufffe\uffff",
    "$\\frac{1}{0}$ $x",
    "$\\nothing{$",
    "../../etc/passwd",
    "&lt;b&gt; 'quoted'",
    "",
]
CURVES = RankCurves(
    name="EMAIL_ADDRESS", before=[(50, 10), (5, 90), (1, 200)], after=[(2, 25), (1, 1100)]
)
BARS = ShareBars(
    name="What became of it",
    segments=("kept", "label"),
    rows=(("EMAIL_ADDRESS", (30, 10)), ("US_SSN", (0, 7))),
)
FREQUENCY_STEPS = st.dictionaries(
    st.integers(1, 10**7), st.integers(1, 10**7), min_size=1, max_size=40
).map(lambda counts: sorted(counts.items(), reverse=True))


def parse_svg(figure: Chart) -> Xml.Element:
    return Xml.fromstring(render_svg(figure))


def curve_points(element: Xml.Element, name: str) -> list[tuple[float, float]]:
    line = next(
        child for child in element.iter("polyline") if child.get("class") == f"curve {name}"
    )
    return [
        (float(x), float(y))
        for x, y in (point.split(",") for point in str(line.get("points")).split())
    ]


@given(FREQUENCY_STEPS, st.one_of(st.just([]), FREQUENCY_STEPS))
def test_curve_stays_in_its_frame_and_decreases(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    element = parse_svg(RankCurves(name="K", before=before, after=after))
    for name, steps in (("before", before), ("after", after)):
        if steps:
            drawn = curve_points(element, name)
            assert all(46 <= x <= 328 and 12 <= y <= 192 for x, y in drawn)
            assert drawn == sorted(drawn, key=lambda point: point[0]) and [
                y for _, y in drawn
            ] == sorted(y for _, y in drawn)
            assert len(drawn) <= 2 * len(steps)
    assert len(list(element.iter("polyline"))) == 1 + bool(after)


def test_one_value_is_a_point() -> None:
    points = list(parse_svg(RankCurves(name="K", before=[(60, 1)], after=[(2, 5)])).iter("circle"))
    assert [point.get("class") for point in points] == ["curve before"] and 46 <= float(
        str(points[0].get("cx"))
    ) <= 328
    assert 12 <= float(str(points[0].get("cy"))) <= 192


def test_coordinates_of_points() -> None:
    element = parse_svg(RankCurves(name="K", before=[(100, 1), (10, 9), (1, 990)], after=[]))
    # two decades up in 180 pixels, three across in 282
    drawn = curve_points(element, "before")
    assert (
        drawn[0] == (46.0, 12.0)
        and drawn[1] == (round(46 + 282 * 0.30103 / 3, 1), 102.0)
        and drawn[2] == (140.0, 102.0)
        and drawn[-1] == (328.0, 192.0)
    )
    assert CURVES.table_rows() == [(1, 50, 2), (10, 50, 2), (100, 5, 1), (1000, 0, 1), (1125, 0, 1)]
    assert RankCurves(name="K", before=[(1, 1)], after=[(1, 1)]).table_rows() == [(1, 1, 1)]


def test_many_steps_make_a_small_figure() -> None:
    steps = [(count, 1 + 10**6 // count**2) for count in range(50_000, 0, -1)]
    assert len(render_svg(RankCurves(name="K", before=steps, after=steps))) < 40_000


@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)).filter(any), min_size=1, max_size=12
    )
)
def test_bars_fill_the_row_width(rows: list[tuple[int, int]]) -> None:
    element = parse_svg(
        ShareBars(
            name="B",
            segments=("kept", "label"),
            rows=tuple((f"K{no}", row) for no, row in enumerate(rows)),
        )
    )
    by_row: dict[str, list[Xml.Element]] = {}
    for rect in element.iter("rect"):
        by_row.setdefault(str(rect.get("y")), []).append(rect)
    assert len(by_row) == len(rows)
    for rects, row in zip(by_row.values(), rows, strict=True):
        widths = [float(str(rect.get("width"))) for rect in rects]
        assert sum(widths) == pytest.approx(538, abs=0.2)
        assert [str(rect.get("class")) for rect in rects] == [
            f"part {part}" for part, n in zip(("kept", "label"), row, strict=True) if n
        ]
        assert widths[0] == pytest.approx(538 * next(n for n in row if n) / sum(row), abs=0.1)


def test_narrow_bars_have_their_names_above_them() -> None:
    element = Xml.fromstring(render_narrow_svg(BARS))
    assert (element.get("class"), element.get("viewBox")) == ("narrow", "0 0 340 96")
    rows = [
        (node.get("x"), node.get("y"), node.get("text-anchor"), node.text)
        for node in element.iter("text")
    ]
    assert rows[:2] == [("0", "16", "start", "EMAIL_ADDRESS"), ("340", "16", "end", "40")]
    assert [text for *_, text in rows[2:]] == ["US_SSN", "7"]
    bars = [(rect.get("x"), rect.get("y"), rect.get("width")) for rect in element.iter("rect")]
    assert bars == [("0.0", "21", "255.0"), ("255.0", "21", "85.0"), ("0.0", "67", "340.0")]
    assert element.get("aria-label") == parse_svg(BARS).get("aria-label")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name: str) -> None:
    for figure in (
        RankCurves(name=name, before=[(2, 1)], after=[]),
        ShareBars(name=name, segments=("kept",), rows=((name, (3,)),)),
    ):
        element, text = parse_svg(figure), render_svg(figure)
        assert {node.tag for node in element.iter()} <= {
            "svg",
            "line",
            "text",
            "path",
            "polyline",
            "circle",
            "rect",
        }
        assert not [
            key
            for node in element.iter()
            for key in node.attrib
            if key.startswith("on") or key in ("href", "style", "src")
        ]
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\ufffe\uffff]", text)
        assert str(element.get("aria-label")).startswith(charts.escape_controls(name))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["png", "svg"])
def test_chart_files_are_written(tmp_path: Path, format: str) -> None:
    paths = write_charts([BARS, CURVES, CURVES], tmp_path / "new" / "figures", format)
    assert [path.name for path in paths] == [
        f"{name}.{format}"
        for name in (
            "what-became-of-it",
            "rank-frequency-EMAIL_ADDRESS",
            "rank-frequency-EMAIL_ADDRESS-2",
        )
    ]
    second_paths = write_charts([BARS, CURVES, CURVES], tmp_path / "again", format)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in second_paths]
    for path in paths:
        if format == "png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n") and path.stat().st_size > 5_000
        else:
            assert Xml.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("name", HOSTILE)
def test_files_of_hostile_names(tmp_path: Path, name: str) -> None:
    figures = [
        RankCurves(name=name, before=[(2, 1)], after=[(1, 2)]),
        ShareBars(name=name, segments=("kept",), rows=((name, (3,)),)),
    ]
    for path in write_charts(figures, tmp_path, "svg"):
        assert path.parent == tmp_path and re.fullmatch(r"[A-Za-z0-9_-]+\.svg", path.name)
        tags = {element.tag.rpartition("}")[2] for element in Xml.parse(path).getroot().iter()}
        assert "script" not in tags
    assert len(list(tmp_path.iterdir())) == 2


def test_unknown_format_and_missing_matplotlib_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="png, svg"):
        write_charts([BARS], tmp_path, "jpeg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"corpus-sanitize\[plots\]"):
        write_charts([BARS], tmp_path / "none", "png")
    assert not (tmp_path / "none").exists()
