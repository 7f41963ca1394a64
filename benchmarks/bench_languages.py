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

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import detection, runner
from benchmarks.detection import MatchCounts, Span
from benchmarks.labelled_templates import LabelledText
from benchmarks.language_texts import LANGUAGES, NATIONAL_ID, Language
from sanitize.kinds.kind import builtin_kinds

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
    places = ["LOCATION"] if finder == "ner" else []
    kinds = ["default", "DATE_TIME", "PERSON", *identifiers, *places]
    found = detection.find_by_settings(f'"{finder}"', kinds, [country])(list(texts))
    return [
        [(start, end, NATIONAL_ID if kind in identifiers else kind) for start, end, kind in spans]
        for spans in found
    ]


def score_kinds(
    texts: Sequence[LabelledText], found: Sequence[Sequence[Span]], kinds: Sequence[str]
) -> dict[str, Any]:
    """By kind: its scores over all texts (see `detection.score`)."""
    counts: dict[str, list[MatchCounts]] = {kind: [] for kind in kinds}
    for text, spans in zip(texts, found, strict=True):
        for kind, one in detection.count_by_kind(text.text, text.spans, spans, kinds).items():
            counts[kind].append(one)
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

    def find_and_score(
        texts: Sequence[LabelledText], finder: str, *kinds: str
    ) -> tuple[list[list[Span]], dict[str, Any]]:
        found = find_spans([text.text for text in texts], language.country, finder)
        return found, score_kinds(texts, found, kinds)

    texts = language.generate_texts(texts_per_template, seed)
    found, scores = find_and_score(texts, "names", *KINDS)
    few = max(1, texts_per_template // 4)
    unlisted = language.generate_texts(few, seed + 1, unlisted_names=True)
    scores[UNLISTED] = find_and_score(unlisted, "names", "PERSON")[1]["PERSON"]
    if with_model:
        by_model = find_and_score(language.generate_texts(1, seed), "ner", "PERSON", "LOCATION")[1]
        scores |= {BY_MODEL: by_model["PERSON"], PLACES: by_model["LOCATION"]}
    return {
        "templates": len(language.templates),
        "texts": len(texts),
        "scores": scores,
        "other_kinds": count_other_kinds(found),
        "people_in_addresses": count_people_in_addresses(texts, found),
    }


def format_page(result: Mapping[str, Any]) -> str:
    """F2 by kind and language; then labels, precision, recall and F2 of each kind and language."""
    languages = result["languages"]
    names = [name for name in ROWS if any(name in one["scores"] for one in languages.values())]
    f2_rows = [
        [name, *(_format_f2(one["scores"].get(name)) for one in languages.values())]
        for name in names
    ]
    others = (sum(one["other_kinds"].values()) for one in languages.values())
    people = [(one["scores"]["PERSON"], one["people_in_addresses"]) for one in languages.values()]
    shares = (f"{inside / max(score['finds'] - score['hits'], 1):.2f}" for score, inside in people)
    f2_rows += [
        ["finds of other kinds", *map(str, others)],
        ["false finds of PERSON that are inside a postal address", *shares],
    ]
    rows = [
        [
            name,
            NAMES[language],
            f"{score['labels']:,}",
            detection.format_scores(score["precision"], score["precision_interval"]),
            detection.format_scores(score["recall"], score["recall_interval"]),
            _format_f2(score),
        ]
        for name in names
        for language, one in languages.items()
        if (score := one["scores"].get(name))
    ]
    texts, templates = (
        sum(one[key] for one in languages.values()) for key in ("texts", "templates")
    )
    head = ["kind", "language", "labels", "precision (95 %)", "recall (95 %)", "F2"]
    lines = [
        *runner.format_table(["F2", *(NAMES[name] for name in languages)], f2_rows, left=1),
        "",
        f"{texts:,} texts from {templates} templates. {result['date']}.",
        "",
        *runner.format_table(head, rows, left=2),
    ]
    return "\n".join(lines) + "\n"


def _format_f2(score: Mapping[str, Any] | None) -> str:
    return f"{score['f2']:.2f}" if score and score["labels"] else "–"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = runner.build_parser(__doc__, texts=25, seed=1)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--no-model", action="store_true", help="without the model finder")
    options = parser.parse_args(arguments)
    has_model = importlib.util.find_spec(detection.NER_PACKAGE) is not None
    with_model = has_model and not options.no_model
    languages = {
        name: measure_language(name, options.texts, options.seed, with_model=with_model)
        for name in options.languages.split(",")
    }
    result = runner.start_result(seed=options.seed, languages=languages)
    runner.save_result(options.results, "languages", result, format_page(result))


if __name__ == "__main__":
    main()
