"""The report and the card: escaped, honest, self-contained, and without a value. All people in it are invented."""

from __future__ import annotations

import copy
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from shutil import which
from typing import Any

import jinja2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from sanitize import queries, report, tables
from sanitize.report import ReportTables, Sample

SUMMARY: dict[str, Any] = {
    "documents_in": 2000,
    "documents_out": 1990,
    "documents_dropped": 7,
    "quarantined": 3,
    "occurrences": 1250,
    "kept_originals": 300,
    "replaced": 900,
    "leaks": 0,
    "by_kind": {
        "EMAIL_ADDRESS": {
            "occurrences": 1150,
            "values": 300,
            "documents": 900,
            "kept": 300,
            "replaced": 850,
            "left": 0,
            "skipped": {},
        },
        "CREDIT_CARD": {
            "occurrences": 50,
            "values": 50,
            "documents": 40,
            "kept": 0,
            "replaced": 50,
            "left": 0,
            "skipped": {"luhn": 4},
        },
        "URL": {"occurrences": 50, "values": 20, "documents": 45, "kept": 0, "replaced": 0, "left": 50, "skipped": {}},
    },
    "verify": {"mode": "fast", "values_checked": 350, "forms": ["exact", "case-folded", "NFKC"], "files": 4},
    "seconds": 3.25,
    "mb_per_s": 12.5,
    "peak_rss_mb": 310,
    "plan_name": "rmft",
    "plan_hash": "00ff00ff00ff00ff",
    "plan": {
        "about": "Keep the first.",
        "leave": ["URL"],
        "edit": [{"use": "rmft", "kinds": ["EMAIL_ADDRESS"], "keep": 1}, {"use": "redact", "kinds": ["CREDIT_CARD"]}],
    },
    "key": "secret",
    "publishable": True,
    "columns": [{"name": "text", "policy": "sanitize"}, {"name": "user_id", "policy": "pseudonymize"}],
    "quarantine": {"not_utf8": 2, "too_large": 1},
    "versions": {"polars": "2.1.0"},
    "inputs": [{"name": "mails.mbox", "bytes": 123456, "sha256": "ab" * 32}],
    "outputs": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
}
HISTOGRAM = [("EMAIL_ADDRESS", 1, 200), ("EMAIL_ADDRESS", 5, 90), ("EMAIL_ADDRESS", 50, 10), ("CREDIT_CARD", 1, 50), ("URL", 10, 5)]
SAMPLES = [
    Sample(
        kind="EMAIL_ADDRESS",
        lead="From: Ada Quill <",
        before="ada.quill@example.org",
        after="ada.moor@hill.example.net",
        tail=">\nHi",
    ),
    Sample(kind="CREDIT_CARD", before="4111 1111 1111 1111", after="[CREDIT_CARD]"),
]
TABLES = ReportTables(histogram=HISTOGRAM, sections=[("header", "from", "EMAIL_ADDRESS", 600, 590)], samples=SAMPLES)
HOSTILE = [
    "<script>alert(1)</script>",
    "</style></title><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "\u202egnp.exe",
    "\x1b]0;owned\x07",
    "a|b`c](http://x.example)\n# Title\n---",
    "{{ 7 * 7 }}{% raw %}",
]


class Page(HTMLParser):
    """Tags, attributes and text of a page; every tag that opens is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "line", "path", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def changed(**facts: Any) -> dict[str, Any]:
    return copy.deepcopy(SUMMARY) | facts


def test_the_page_stands_alone() -> None:
    html = report.report(SUMMARY, TABLES)
    page = Page(html)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("content", policy) in page.attributes and ("http-equiv", "Content-Security-Policy") in page.attributes
    assert html.index("Content-Security-Policy") < html.index("<style")
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src", "style", "xlink:href")]
    assert "url(" not in html and "@import" not in html and "prefers-color-scheme: dark" in html and "@media print" in html
    assert page.tags.count("svg") == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name: str) -> None:
    by_kind = {name: SUMMARY["by_kind"]["EMAIL_ADDRESS"] | {"skipped": {name: 1}}}
    plan = {"about": name, "edit": [{"use": name, "kinds": [name]}]}
    versions, inputs = {name: name}, [{"name": name, "bytes": 1, "sha256": name}]
    columns = [{"name": name, "policy": name}]
    verify = {"mode": name, "values_checked": 1, "forms": [name], "files": 1}
    facts = changed(by_kind=by_kind, plan=plan, plan_name=name, plan_hash=name, versions=versions, inputs=inputs, columns=columns)
    facts |= {"quarantine": {name: 3}, "verify": verify}
    sample = Sample(kind=name, before=name, after=name, lead=name, tail=name)
    given = ReportTables(histogram=[(name, 3, 4)], sections=[(name, name, name, 1, 1)], samples=[sample])
    plain = Page(report.report(SUMMARY, TABLES))
    page = Page(report.report(facts, given))
    assert set(page.tags) <= set(plain.tags) | {"figcaption"} and not [a for a, _ in page.attributes if a.startswith("on") or a == "src"]
    assert "49" not in page.text and not re.search("[\x00-\x09\x0b-\x1f\u202e]", page.text)
    markdown = report.card(facts)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", markdown) and "<" not in markdown.split("---\n", 2)[2]
    assert [line for line in markdown.splitlines() if line.startswith("#")] == [
        line for line in report.card(changed()).splitlines() if line.startswith("#")
    ]
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3, 7}
    assert not re.search(r"(?<!\\)[`\[]", markdown.replace("`sanitize`", "").replace("```python", "").replace("```", ""))


def test_no_raw_value_stands_on_it() -> None:
    text = report.report(SUMMARY, TABLES)
    assert not re.search("quill|moor|hill|4111|1111 1111|ada", text, re.IGNORECASE)
    assert "aaa.aaaa" in text and "9999 9999 9999 9999" in text


def test_tables_come_from_a_work_folder_without_values(tmp_path: Path) -> None:
    names = tables.VALUE_COUNTS.schema.names
    rows = [dict(zip(names, row, strict=True)) for row in ((1, "URL", 9, 4, 0, 0, 0), (2, "URL", 9, 4, 0, 0, 0), (3, "URL", 1, 1, 0, 0, 0))]
    (tmp_path / "tables/value_counts").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, tables.VALUE_COUNTS.schema), tmp_path / "tables/value_counts/0.parquet")
    with queries.connect(tmp_path) as connection:
        assert ReportTables.of(connection, SAMPLES) == ReportTables(histogram=[("URL", 1, 1), ("URL", 9, 2)], sections=[], samples=SAMPLES)


@pytest.mark.parametrize("template", ["report.html.j2", "card.md.j2"])
def test_a_name_that_is_not_given_is_an_error(template: str) -> None:
    with pytest.raises(jinja2.UndefinedError):
        report._render(template)


def test_a_bare_summary_is_enough() -> None:
    names = (
        "documents_in",
        "documents_out",
        "documents_dropped",
        "quarantined",
        "occurrences",
        "kept_originals",
        "replaced",
        "leaks",
    )
    bare = dict.fromkeys(names, 0)
    page = Page(report.report(bare))
    assert "not checked" in page.text and "keep private" in page.text and "No record was set aside." in page.text
    assert "was not checked" in report.card(bare)


@pytest.mark.parametrize(
    ("facts", "on_page", "on_card"),
    [
        (
            {},
            "0 of 350 flagged values found in these forms: exact, case-folded, NFKC",
            "0 of 350 flagged values found in these forms",
        ),
        (
            {"key": "seed"},
            "reproducible, replacements guessable, no privacy claim",
            "reproducible, replacements guessable, no privacy claim",
        ),
        ({"publishable": False}, "keep private", "**Not for publishing.**"),
        ({"verify": {"mode": "off"}}, "not checked", "The result was not checked"),
        (
            {"kept_originals": 300},
            "300 original values stand in the texts on purpose",
            "300 original values stand in the texts on purpose",
        ),
        ({"leaks": 1}, "1 leak", "1 of 350"),
    ],
)
def test_the_words_stay_honest(facts: dict[str, Any], on_page: str, on_card: str) -> None:
    html, markdown = report.report(changed(**facts), TABLES), report.card(changed(**facts))
    assert on_page in Page(html).text and on_card in markdown
    for text in (html, markdown):
        assert not re.search(r"\bno pii\b|anonym|complian|guarantee|\bsafe\b", text, re.IGNORECASE)
        assert "not counted" in text and "differential privacy" in text.lower() or "privacy claim" in text


def test_curves_flatten_as_the_plan_says() -> None:
    before = [(50, 10), (5, 90), (1, 200)]
    rmft = {"use": "rmft", "keep": 1}
    assert report._after(before, rmft) == [(1, 300 + 10 * 49 + 90 * 4)]
    assert report._after(before, rmft | {"keep": 3}) == [(3, 100), (1, 200 + 10 * 47 + 90 * 2)]
    assert report._after(before, rmft | {"keep": 0}) == [(1, 10 * 50 + 90 * 5 + 200)]
    assert report._after(before, None) == before
    assert report._after(before, {"use": "redact"}) is None
    for keep in range(60):  # no occurrence is lost
        assert sum(count * values for count, values in report._after(before, rmft | {"keep": keep}) or ()) == 1150


def test_a_chart_stays_in_its_frame_and_small() -> None:
    histogram = [("K", count, 1 + 10**6 // count**2) for count in range(1, 5000)]
    chart = report._chart({"name": "K", "editor": {"use": "rmft", "keep": 1}}, histogram)
    assert chart is not None
    points = [tuple(map(float, point.split(","))) for line in (chart["before"], chart["after"]) for point in line.split()]
    assert all(chart["left"] <= x <= chart["right"] and chart["top"] <= y <= chart["bottom"] for x, y in points)
    assert chart["rows"][0] == (1, 4999, 1) and len(chart["before"]) < 60_000
    assert report._chart({"name": "NONE", "editor": None}, histogram) is None
    one = report._chart({"name": "K", "editor": None}, [("K", 1, 1)])
    assert one is not None and one["rows"] == [(1, 1, 1)]


def test_a_large_summary_stays_under_two_megabytes() -> None:
    inputs = [{"name": f"part-{number}.parquet", "bytes": 10**9, "sha256": "cd" * 32} for number in range(100_000)]
    kinds = {f"KIND_{number}": SUMMARY["by_kind"]["URL"] for number in range(40)}
    histogram = [(kind, count, 1 + 10**6 // count**2) for kind in kinds for count in range(1, 3000)]
    html = report.report(changed(inputs=inputs, by_kind=kinds), ReportTables(histogram=histogram))
    assert len(html.encode()) < 2_000_000 and "99,800 more" in html


def test_the_card_tells_load_dataset_where_the_shards_are() -> None:
    head = yaml.safe_load(report.card(SUMMARY).split("---\n")[1])
    assert head["configs"] == [{"config_name": "default", "data_files": [{"split": "train", "path": "data/train-*.parquet"}]}]
    assert head["size_categories"] == ["1K<n<10K"]
    assert [report._size_category(count) for count in (0, 999, 1000, 10**9)] == ["n<1K", "n<1K", "1K<n<10K", "n>100M"]


CHROMIUM = which("chromium") or which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_a_browser_renders_it(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(report.report(SUMMARY, TABLES), "utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--enable-logging=stderr",
        "--dump-dom",
    ]
    done = subprocess.run(
        [str(CHROMIUM), *flags, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.count("<polyline") == 5 and "CONSOLE" not in done.stderr
