"""The HTML report and the dataset card: escaping, wording, no external resources, no values. All
people are invented."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import jinja2
import pytest
import yaml

from sanitize.core.command_results import RunSummary
from sanitize.reporting import html_report
from sanitize.reporting.charts import RankCurves
from sanitize.reporting.html_report import (
    EditSample,
    ReportTables,
    _size_category,
    build_charts,
)
from sanitize.reporting.page_templates import render_template
from sanitize.text import mail_headers

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
            "left_by_plan": 0,
            "skipped": {},
        },
        "CREDIT_CARD": {
            "occurrences": 50,
            "values": 50,
            "documents": 40,
            "kept": 0,
            "replaced": 50,
            "left_by_plan": 0,
            "skipped": {"luhn": 4},
        },
        "URL": {
            "occurrences": 50,
            "values": 20,
            "documents": 45,
            "kept": 0,
            "replaced": 0,
            "left_by_plan": 50,
            "skipped": {},
        },
    },
    "verify": {
        "mode": "fast",
        "values_checked": 350,
        "forms": ["exact", "case-folded", "NFKC"],
        "files": 4,
    },
    "plan_name": "rmft",
    "plan_hash": "00ff00ff00ff00ff",
    "plan": {
        "about": "Keep the first.",
        "leave": ["URL"],
        "edit": [
            {"use": "rmft", "kinds": ["EMAIL_ADDRESS"], "keep": 1},
            {"use": "redact", "kinds": ["CREDIT_CARD"]},
        ],
    },
    "key": "secret",
    "publishable": True,
    "columns": [
        {"name": "text", "policy": "sanitize"},
        {"name": "user_id", "policy": "pseudonymize"},
    ],
    "quarantine": {"not_utf8": 2, "too_large": 1},
    "versions": {"polars": "2.1.0"},
    "inputs": [{"number": 0, "bytes": 123456, "sha256": "ab" * 32}],
    "shards": [
        {
            "path": f"data/train-0000{no}-of-00002.parquet",
            "rows": 995,
            "bytes": 1,
            "sha256": "ef" * 32,
        }
        for no in range(2)
    ],
}
KEPT_VALUES = {"column": "url", "kind": "URL", "values": 3, "kept_for": "name"}
FULL_CHECK = SUMMARY["verify"] | {"mode": "full"}
HISTOGRAM = [
    ("EMAIL_ADDRESS", 1, 200),
    ("EMAIL_ADDRESS", 5, 90),
    ("EMAIL_ADDRESS", 50, 10),
    ("CREDIT_CARD", 1, 50),
    ("URL", 10, 5),
]
SAMPLES = [
    EditSample(
        kind="EMAIL_ADDRESS",
        text_before="From: Ada Quill <",
        original="ada.quill@example.org",
        replacement="ada.moor@hill.example.net",
        text_after=">\nHi",
    ),
    EditSample(kind="CREDIT_CARD", original="4111 1111 1111 1111", replacement="[CREDIT_CARD]"),
]
OUTCOMES = [  # kind, outcome, section, occurrences, values
    ("EMAIL_ADDRESS", "original", None, 1, 300),
    ("EMAIL_ADDRESS", "original", "from", 300, 1),
    ("EMAIL_ADDRESS", "surrogate", None, 2, 25),
    ("EMAIL_ADDRESS", "surrogate", None, 1, 800),
    ("EMAIL_ADDRESS", "surrogate", "from", 500, 1),
    ("EMAIL_ADDRESS", "surrogate", "x-of-one-person", 50, 1),
    ("EMAIL_ADDRESS", "surrogate", "body", 300, 1),
    ("EMAIL_ADDRESS", "dropped", None, 7, 1),
    ("EMAIL_ADDRESS", "dropped", "cc", 7, 1),
    ("CREDIT_CARD", "label", None, 50, 1),
    ("CREDIT_CARD", "label", "body", 50, 1),
    ("URL", "original", None, 10, 5),
    ("URL", "original", "", 50, 1),
]
LEDGER = [
    {
        "part": "dp_mlm",
        "privacy_unit": "word",
        "documents": 12,
        "unit_count": 340,
        "epsilon_per_unit": 25.0,
        "epsilon_per_document": 708.3333,
        "max_epsilon_per_document": 2000.0,
    }
]
TABLES = ReportTables(frequency_histogram=HISTOGRAM, outcomes=OUTCOMES, samples=SAMPLES)
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
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


FULL_SUMMARY = SUMMARY | {
    "dropped": [{"part": "near_dup", "reason": "copy", "documents": 7}],
    "editor_reports": [
        {"part": "header_dedup", "by_field": {"to": {"occurrences": 5, "spans": 4, "lines": 1}}}
    ],
    "blacklist": {
        "k": 2,
        "n": 3,
        "listed": [
            {"n": 1, "reason": "direct", "ngrams": 5},
            {"n": 3, "reason": "indirect", "ngrams": 1234},
        ],
    },
    "settings": {"rows_per_shard": 50_000, "roles": {"text": ["text"], "user": None}},
    "outputs": [
        {
            "path": "data/train-00000-of-00001.parquet",
            "rows": 1990,
            "bytes": 5_000_000,
            "sha256": "cd" * 32,
        }
    ],
    "quarantine": {"not_utf8": 3},
}


SUMMARY_FIELDS = {one.name for one in dataclasses.fields(RunSummary)}


def changed_summary(**facts: Any) -> dict[str, Any]:
    return copy.deepcopy(SUMMARY) | facts


def as_manifest(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a run whose summary has these facts; what they lack is empty."""
    empty = {
        "dropped": [],
        "quarantine": {},
        "by_kind": {},
        "erased": 0,
        "editor_reports": [],
        "publishable": False,
        "plan_name": "unnamed",
        "plan_hash": "",
        "key": "secret",
        "columns": [],
    }
    summary = empty | {name: fact for name, fact in facts.items() if name in SUMMARY_FIELDS}
    check = {"mode": "off", "forms": [], "files": 0}
    summary["verify"] = check | facts.get("verify", {})
    summary["canaries"] = {"untested_kinds": []} | facts.get("canaries", {})
    if "blacklist" in facts:
        counts = dict.fromkeys(("documents", "documents_without_user", "words", "masked_words"), 0)
        summary["blacklist"] = {"direct": True, "columns": [], **counts, **facts["blacklist"]}
    others = {name: fact for name, fact in facts.items() if name not in SUMMARY_FIELDS}
    manifest = {"plan": {}, "settings": {}, "inputs": [], "shards": [], **others}
    return {**manifest, "summary": summary, "tool": facts.get("versions", {})}


def render_report(facts: Mapping[str, Any], tables: ReportTables | None = None) -> str:
    return html_report.render_report(as_manifest(facts), tables)


def render_card(facts: Mapping[str, Any], tables: ReportTables | None = None) -> str:
    return html_report.render_card(as_manifest(facts), tables)


def table_rows(html: str, head: str) -> list[list[str]]:
    """The cells of the first table that has a column with this heading."""
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        rows = [
            [
                " ".join(unescape(re.sub("<.*?>", "", cell)).split())
                for cell in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row, re.DOTALL)
            ]
            for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
        ]
        if rows and head in rows[0]:
            return rows
    raise AssertionError(f"no table with a column {head}")


def test_page_loads_no_external_resources() -> None:
    html = render_report(SUMMARY, TABLES)
    page = Page(html)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("content", policy) in page.attributes and (
        "http-equiv",
        "Content-Security-Policy",
    ) in page.attributes
    assert html.index("Content-Security-Policy") < html.index("<style")
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(page.tags)
    assert not [
        name
        for name, _ in page.attributes
        if name.startswith("on") or name in ("href", "src", "style", "xlink:href")
    ]
    assert (
        "url(" not in html
        and "@import" not in html
        and "prefers-color-scheme: dark" in html
        and "@media print" in html
    )
    assert page.tags.count("polyline") == 5 and page.tags.count("rect") == 26


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name: str) -> None:
    by_kind = {name: SUMMARY["by_kind"]["EMAIL_ADDRESS"] | {"skipped": {name: 1}}}
    plan = {"about": name, "edit": [{"use": name, "kinds": [name]}]}
    versions, inputs = {name: name}, [{"number": 0, "bytes": 1, "sha256": name}]
    columns = [{"name": name, "policy": name, "taken_for": name, "why": name}]
    verify = {"mode": name, "values_checked": 1, "forms": [name], "files": 1}
    facts = changed_summary(
        by_kind=by_kind,
        plan=plan,
        plan_name=name,
        plan_hash=name,
        versions=versions,
        inputs=inputs,
        columns=columns,
    )
    facts |= {
        "quarantine": {name: 3},
        "verify": verify,
        "settings": {name: [name]},
        "dropped": [{"part": name, "reason": name, "documents": 1}],
    }
    facts |= {"blacklist": {"k": 2, "n": 3, "listed": [{"n": 1, "reason": name, "ngrams": 5}]}}
    facts |= {
        "editor_reports": [
            {"part": name, "by_field": {name: {"occurrences": 1, "spans": 1, "lines": 1}}}
        ]
    }
    facts |= {"shards": [{"path": name, "rows": 1, "bytes": 1, "sha256": name}]}
    facts |= {
        "description": dict.fromkeys(
            ("date", "dataset_name", "purpose", "responsible", "license"), name
        )
    }
    facts |= {"looked_for": [name], "not_looked_for": [name], "stays_by_plan": [name]}
    facts |= {
        "canaries": {
            "by_form": {name: {"planted": 2, "removed": 1}},
            "samples": [{"kind": name, "before": name, "after": name}],
        }
    }
    sample = EditSample(
        kind=name, original=name, replacement=name, text_before=name, text_after=name
    )
    ledger = [LEDGER[0] | {"part": name, "privacy_unit": name}]
    outcomes = [(name, "original", None, 3, 4), (name, "surrogate", name, 3, 1)]
    tables = ReportTables(
        frequency_histogram=[(name, 3, 4)], outcomes=outcomes, ledger=ledger, samples=[sample]
    )
    plain_page = Page(render_report(FULL_SUMMARY, replace(TABLES, ledger=LEDGER)))
    page = Page(render_report(facts, tables))
    assert set(page.tags) <= set(plain_page.tags) and not [
        a for a, _ in page.attributes if a.startswith("on") or a == "src"
    ]
    assert "49" not in page.text and not re.search("[\x00-\x09\x0b-\x1f\u202e]", page.text)
    markdown = render_card(facts)
    assert (
        not re.search("[\x00-\x09\x0b-\x1f\u202e]", markdown)
        and "<" not in markdown.split("---\n", 2)[2]
    )
    headings, plain_headings = (
        [line for line in text.splitlines() if line.startswith("#")]
        for text in (markdown, render_card(changed_summary()))
    )
    # the first is the name of the dataset
    assert headings[1:] == plain_headings[1:] and len(headings) == len(plain_headings)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3, 5, 7}
    body = markdown.split("---\n", 2)[2]
    assert not re.search(
        r"(?<!\\)[`\[]", body.replace("`sanitize`", "").replace("```python", "").replace("```", "")
    )


def test_page_has_no_raw_value() -> None:
    text = render_report(SUMMARY, TABLES)
    assert not re.search("quill|moor|hill|4111|1111 1111|ada", text, re.IGNORECASE)
    assert "aaa.aaaa" in text and "9999 9999 9999 9999" in text


@pytest.mark.parametrize("template", ["report.html.j2", "card.md.j2"])
def test_undefined_template_variable_is_an_error(template: str) -> None:
    with pytest.raises(jinja2.UndefinedError):
        render_template(template)


def test_minimal_summary_is_enough() -> None:
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
    minimal = dict.fromkeys(names, 0)
    page = Page(render_report(minimal))
    assert (
        "not checked" in page.text
        and "keep private" in page.text
        and "No record was quarantined." in page.text
    )
    assert "was not checked" in render_card(minimal)


@pytest.mark.parametrize(
    ("facts", "on_page", "on_card"),
    [
        ({}, *["fast: 0 of 350 values found in 3 forms outside of 300 kept originals"] * 2),
        ({"kept_originals": 0}, *["fast: 0 of 350 removed values found in 3 forms"] * 2),
        (
            {"verify": {**SUMMARY["verify"], "values_removed": 349}},
            *["of 349 removed values found in 3 forms outside 300 kept originals; 1 are only kept"]
            * 2,
        ),
        (
            {},
            "keep private: the fast check does not search",
            "**Keep private: the fast check does not search",
        ),
        (
            {"verify": FULL_CHECK},
            "in the forms exact, case-folded, NFKC",
            "in these forms, and in no others: exact, case-folded, NFKC",
        ),
        (
            {"key": "seed"},
            "reproducible, replacements can be guessed, no privacy claim",
            "reproducible, replacements can be guessed, no privacy claim",
        ),
        (
            {"publishable": False, "verify": FULL_CHECK},
            "keep private: the plan is not meant for publication",
            "**Keep private: the plan is not meant for publication.**",
        ),
        (
            {"verify": {"mode": "off"}},
            "the result was not checked",
            "**Keep private: the result was not checked.**",
        ),
        (
            {"verify": FULL_CHECK, "kept_originals": 300},
            "no removed value is left; other values that were found stay by plan",
            "in all 350 found occurrences stay as they are, by plan",
        ),
        ({"leaks": 1}, "1 of 350", "1 of 350"),
        (
            {
                "verify": FULL_CHECK,
                "looked_for": ["EMAIL_ADDRESS"],
                "not_looked_for": ["names of people (PERSON)"],
            },
            "not looked fornames of people (PERSON)",
            "- **not looked for**: names of people (PERSON)",
        ),
        (
            {
                "canaries": {
                    "by_form": {
                        "base64": {"planted": 8, "removed": 5},
                        "HTML": {"planted": 4, "removed": 4},
                    }
                }
            },
            (
                "9 of 12 values of invented people were removed, in 2 written forms; stayed: base64"
                " 3 of 8"
            ),
            "stayed: base64 3 of 8",
        ),
    ],
)
def test_page_claims_only_what_was_checked(
    facts: dict[str, Any], on_page: str, on_card: str
) -> None:
    html, markdown = (
        render_report(changed_summary(**facts), TABLES),
        render_card(changed_summary(**facts)),
    )
    assert on_page in Page(html).text.replace("\n", "") and on_card in markdown
    for text in (html, markdown):
        assert not re.search(r"\bno pii\b|anonym|complian|guarantee|\bsafe\b", text, re.IGNORECASE)
        assert (
            "not counted" in text
            and "differential privacy" in text.lower()
            or "privacy claim" in text
        )


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        ({"kept_originals": 0, "by_kind": {}}, "good"),
        ({}, "care"),  # originals stay by plan
        ({"kept_originals": 0, "by_kind": {}, "staying_kinds": ["DATE_TIME"]}, "care"),  # in part
        # none was found
        ({"kept_originals": 0, "by_kind": {}, "stays_by_plan": ["URL: every occurrence"]}, "good"),
        ({"kept_originals": 0, "by_kind": {}, "kept_values": [KEPT_VALUES]}, "care"),
        ({"kept_originals": 0, "by_kind": {}, "occurrences": 0}, "care"),
        ({"kept_originals": 0, "by_kind": {}, "verify": SUMMARY["verify"]}, "bad"),
        ({"publishable": False}, "bad"),
    ],
)
def test_the_verdict_is_good_only_where_nothing_that_was_found_stays(
    facts: dict[str, Any], level: str
) -> None:
    html = render_report({**changed_summary(verify=FULL_CHECK), **facts})
    assert re.findall(r'class="verdict (\w+)"', html) == [level]


@pytest.mark.parametrize(
    ("kept", "left", "level"),
    [(300, 50, "care"), (0, 50, "care"), (0, 0, "good")],
)
def test_what_stays_is_counted_with_what_the_plan_leaves(kept: int, left: int, level: str) -> None:
    kinds = copy.deepcopy(SUMMARY["by_kind"])
    kinds["URL"]["left_by_plan"] = left
    html = render_report(changed_summary(kept_originals=kept, by_kind=kinds))
    tile = re.search(
        r'<li class="(\w+)"><b>([\d,]+)</b><span>of 1,250 occurrences found stay as they are, by'
        r" plan</span>",
        html,
    )
    assert tile and tile.groups() == (level, f"{kept + left}")
    sentence = f"{kept + left} found occurrences are in the texts unchanged, by plan"
    for page in (html, render_card(changed_summary(kept_originals=kept, by_kind=kinds))):
        assert (sentence in page) == bool(kept + left)


def test_what_was_not_given_is_named_on_both_pages() -> None:
    html, markdown = render_report(SUMMARY), render_card(SUMMARY)
    rows = dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", html))
    for name in ("name", "date", "purpose", "responsible", "license"):
        assert "not given" in rows[name] and f"| {name} | not given |" in markdown


def test_the_description_is_on_both_pages() -> None:
    given = {
        "date": "2031-05-14",
        "dataset_name": "Harbour mails",
        "purpose": "a test",
        "license": 'cc-by-4.0: "x"',
        "responsible": "",
    }
    html, markdown = (
        render_report(changed_summary(description=given)),
        render_card(changed_summary(description=given)),
    )
    rows = dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", html))
    assert (rows["name"], rows["purpose"], rows["date"]) == (
        "Harbour mails",
        "a test",
        "2031-05-14",
    )
    assert "not given" in rows["responsible"]
    head = yaml.safe_load(markdown.split("---\n")[1])
    assert (head["pretty_name"], head["license"]) == ("Harbour mails", given["license"])
    assert "# Harbour mails" in markdown and "| responsible | not given |" in markdown
    assert "license" not in yaml.safe_load(render_card(SUMMARY).split("---\n")[1])


def test_settings_and_plan_are_in_words() -> None:
    html = render_report(
        changed_summary(
            settings={"rows_per_shard": 50_000, "roles": {"text": ["text"], "user": None}}
        ),
        TABLES,
    )
    text = unescape(html.partition("<body>")[2])
    assert (
        "{" not in text
        and "null" not in text
        and "50,000" in text
        and "user_id, or a mail's From" in text
    )


_KIND_HEADING = "kind, and what the plan does"


def test_outcomes_of_each_kind() -> None:
    """Outcomes are counted from the tables if given, else from the summary."""
    html = render_report(SUMMARY, TABLES)
    cells = table_rows(html, _KIND_HEADING)
    assert cells[0][:9] == [
        _KIND_HEADING,
        "occurrences",
        "values",
        "documents",
        "kept",
        "left",
        "surrogate",
        "label",
        "dropped",
    ]
    assert cells[1][:9] == ["EMAIL_ADDRESS", "1,150", "300", "900", "300", "0", "850", "0", "7"]
    assert cells[2][:9] == ["CREDIT_CARD", "50", "50", "40", "0", "0", "0", "50", "0"]
    assert cells[3][:9] == ["URL", "50", "20", "45", "0", "50", "0", "0", "0"]
    # below each row: what the plan does with the kind, and what its check rejected
    notes = re.findall(r'<tr class="under"><td colspan="9">(.*?)</td></tr>', html)
    assert [note.partition("; skipped: ")[2] for note in notes] == ["", "luhn 4", ""] and all(notes)
    cells = table_rows(render_report(SUMMARY), _KIND_HEADING)
    assert [row[4:7] for row in cells] == [
        ["kept", "left", "replaced"],
        ["300", "0", "850"],
        ["0", "0", "50"],
        ["0", "50", "0"],
    ]


def test_locations_do_not_name_rare_fields() -> None:
    html = render_report(SUMMARY, TABLES)
    assert "one-person" not in html
    assert table_rows(html, "location") == [
        ["location", "EMAIL_ADDRESS", "CREDIT_CARD", "URL", "all"],
        ["from", "800 62%", "–", "–", "800 62%"],
        ["body", "300 100%", "50 100%", "–", "350 100%"],
        ["no mail", "–", "–", "50 0%", "50 0%"],
        ["other header fields", "50 100%", "–", "–", "50 100%"],
    ]
    well_known = sorted(mail_headers.WELL_KNOWN_FIELDS)
    outcomes = [
        ("URL", "original", field, 100 + number, 1) for number, field in enumerate(well_known)
    ] + [("URL", "original", "body", 1, 1)]
    rows = table_rows(render_report(SUMMARY, ReportTables(outcomes=outcomes)), "location")[1:]
    rest_count = sum(100 + number for number in range(len(well_known) - 12))
    assert (
        len(rows) == 14
        and rows[0] == ["other header fields", f"{rest_count:,} 0%", f"{rest_count:,} 0%"]
        and rows[1][0] == well_known[-1]
    )
    assert "Where the values occur" not in render_report(
        SUMMARY, ReportTables(frequency_histogram=HISTOGRAM)
    )
    outcomes = [(f"KIND_{number}", "original", "from", 1, 1) for number in range(20)]
    kinds = {kind: SUMMARY["by_kind"]["URL"] for kind, *_ in outcomes}
    assert table_rows(
        render_report(changed_summary(by_kind=kinds), ReportTables(outcomes=outcomes)), "location"
    )[1][-2:] == [
        "12 0%",
        "20 0%",
    ]


def test_curves_equal_the_tables() -> None:
    figures = {
        figure.name: figure
        for figure in build_charts(as_manifest(SUMMARY), TABLES)
        if isinstance(figure, RankCurves)
    }
    assert list(figures) == ["EMAIL_ADDRESS", "CREDIT_CARD", "URL"]
    mail = figures["EMAIL_ADDRESS"]
    assert (mail.before, mail.after) == ([(50, 10), (5, 90), (1, 200)], [(2, 25), (1, 1100)])
    assert mail.table_rows() == [(1, 50, 2), (10, 50, 2), (100, 5, 1), (1000, 0, 1), (1125, 0, 1)]
    assert figures["CREDIT_CARD"].after == [] and figures["URL"].after == [(10, 5)]
    assert table_rows(render_report(SUMMARY, TABLES), "rank")[2] == ["10", "50", "2"]


def test_deduplication_and_blacklist_are_reported() -> None:
    html = render_report(FULL_SUMMARY, TABLES)
    assert table_rows(html, "part")[1] == ["near_dup", "copy as in an earlier document", "7", "<1%"]
    assert table_rows(html, "field") == [
        ["field", "occurrences", "spans", "whole lines"],
        ["to", "5", "4", "1"],
    ]
    assert table_rows(html, "words in a row")[1:] == [
        ["1", "direct", "5"],
        ["3", "indirect", "1,234"],
    ]
    text = " ".join(Page(html).text.split())
    assert (
        "Words, and runs of up to 3 words, that fewer than 2 users wrote, and the words of found"
        in text
        and "never published" in text
    )
    for missing in ("Deduplication", "Blacklist", "Privacy ledger"):
        assert missing not in Page(render_report(SUMMARY, TABLES)).text


def test_a_ledger_changes_the_claim() -> None:
    text = Page(render_report(SUMMARY, replace(TABLES, ledger=LEDGER))).text
    assert (
        "epsilon 25.0" in text.partition("Kinds, and")[0]
        and "epsilon 25.0" not in Page(render_report(SUMMARY, TABLES)).text
    )
    assert (
        "claimed for the units of the ledger" in text
        and "No claim" not in text
        and "2,000.0" in text
    )
    assert "No claim of differential privacy is made" in Page(render_report(SUMMARY, TABLES)).text
    assert "No claim" in render_card(SUMMARY, TABLES) and "No claim" not in render_card(
        SUMMARY, replace(TABLES, ledger=LEDGER)
    )


def test_what_is_published_around_an_edit_is_shown() -> None:
    """Labels and surrogates as they are, also those beside the sample's own edit; originals masked,
    and marked as masked."""

    def after(replacement: str, use: str = "pseudonymize", **changes: Any) -> str:
        facts = changed_summary(plan={"edit": [{"use": use, "kinds": ["US_SSN"]}]})
        sample = EditSample(
            kind="US_SSN",
            original="123-45-6789",
            replacement=replacement,
            text_before="Canary lee@example.com ",
            lead=[("Canary ", False), ("[EMAIL_ADDRESS]", True), (" or kept@example.org ", False)],
        )
        page = render_report(facts, ReportTables(samples=[sample], **changes))
        return page.partition("Before and after: the corpus")[2].partition("Quarantine")[0]

    published = after("987-65-4321")
    assert (
        '<span class="masked">Aaaaa </span><ins>[EMAIL_ADDRESS]</ins>'
        '<span class="masked"> aa aaaa@aaaa.aaa </span><ins>987-65-4321</ins>'
    ) in published
    assert "Canary" not in published and "lee@" not in published and "kept@" not in published
    assert "Labels and surrogates are shown" in published
    # variants keep a part of a value, and what a part of one's own does is not known
    unknown = [after("987-65-4321", use) for use in ("rmft", "generalize", "mine.editor")]
    hidden = after("987-65-4321", hides_surrogates=True)
    assert unknown == [hidden] * 3
    assert "999-99-9999" in hidden and "987" not in hidden and "<ins>[EMAIL_ADDRESS]" in hidden
    assert "Labels and" not in hidden
    assert "[US_SSN-12]" in after("[US_SSN-12]", hides_surrogates=True)
    assert "SECRET" not in after("[SECRET] 9", hides_surrogates=True)


def test_a_large_summary_stays_under_two_megabytes() -> None:
    inputs = [{"number": number, "bytes": 10**9, "sha256": "cd" * 32} for number in range(100_000)]
    kinds = {f"KIND_{number}": SUMMARY["by_kind"]["URL"] for number in range(40)}
    histogram = [(kind, count, 1 + 10**6 // count**2) for kind in kinds for count in range(1, 3000)]
    outcomes = [(kind, "original", None, count, values) for kind, count, values in histogram]
    shards = [
        {"path": f"data/{number}", "rows": 1, "bytes": 1, "sha256": "ef" * 32}
        for number in range(50_000)
    ]
    html = render_report(
        changed_summary(inputs=inputs, by_kind=kinds, shards=shards),
        ReportTables(frequency_histogram=histogram, outcomes=outcomes),
    )
    assert len(html.encode()) < 2_000_000 and "99,800 more" in html and "49,800 more" in html


def test_card_has_the_shard_paths_for_load_dataset() -> None:
    head = yaml.safe_load(render_card(SUMMARY).split("---\n")[1])
    assert head["configs"] == [
        {
            "config_name": "default",
            "data_files": [{"split": "train", "path": "data/train-*.parquet"}],
        }
    ]
    assert head["size_categories"] == ["1K<n<10K"]
    assert [_size_category(count) for count in (0, 999, 1000, 10**9)] == [
        "n<1K",
        "n<1K",
        "1K<n<10K",
        "n>100M",
    ]
