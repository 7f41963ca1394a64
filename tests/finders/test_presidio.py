"""The finder `presidio`: offline, over windows, and with no text skipped. All people in it are
invented."""

from __future__ import annotations

import importlib.util
import random
import socket
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import PlanError
from sanitize.finders import presidio
from sanitize.finders.presidio import Presidio, PresidioAnalyzers, TimedPattern
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

# its import takes four seconds: it is left to the tests
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is None, reason="comes with the extra `presidio`"
)

KEY = Key.from_seed(5)
NO_SPANS = pl.DataFrame(
    schema={
        "text_no": pl.Int64,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "kind": pl.String,
        "value_id": pl.Int64,
    }
)
ScoredValues = list[list[tuple[str, str, float]]]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any network access fails the test."""

    def refused(*_: object, **__: object) -> Any:
        raise AssertionError("unexpected network access")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)


def open_finder(**settings: Any) -> Presidio:
    finder = Presidio(use="presidio", **settings).resolve_settings()
    finder.validate_settings()
    finder.open(KEY, None)
    return finder


def find_values(finder: Presidio, texts: list[str]) -> tuple[ScoredValues, list[int]]:
    spans = finder.find_spans(TextColumn(pa.array(texts, pa.large_string()), NO_SPANS))
    out: ScoredValues = [[] for _ in texts]
    for text_no, start, stop, kind, score in zip(
        spans.text_no, spans.start_byte, spans.end_byte, spans.kind_no, spans.score, strict=True
    ):
        out[text_no].append(
            (
                texts[text_no].encode()[start:stop].decode(),
                spans.kind_names[kind],
                round(float(score), 3),
            )
        )
    assert spans.unreadable_texts is not None
    return out, spans.unreadable_texts.tolist()


@pytest.fixture(scope="module")
def default_finder() -> Presidio:
    return open_finder()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("nobody here", []),
        (
            "Zoë: ann@example.com!",
            [("ann@example.com", "EMAIL_ADDRESS", 1.0), ("example.com", "URL", 0.5)],
        ),
        ("\U0001f600 4111 1111 1111 1111", [("4111 1111 1111 1111", "CREDIT_CARD", 1.0)]),
        ("see 202-555-0147", [("202-555-0147", "PHONE_NUMBER", 0.4)]),
        # a word of its context
        ("my phone is 202-555-0147", [("202-555-0147", "PHONE_NUMBER", 0.75)]),
        ("at 192.0.2.7", [("192.0.2.7", "IP_ADDRESS", 0.6)]),
    ],
)
def test_values_of_the_default_recognizers(
    default_finder: Presidio, text: str, expected: list[tuple[str, str, float]]
) -> None:
    assert find_values(default_finder, ["x", text, "y"]) == ([[], expected, []], [])


def test_domain_suffixes_are_not_downloaded(default_finder: Presidio) -> None:
    import tldextract

    assert tldextract.tldextract.TLD_EXTRACTOR.suffix_list_urls == ()
    # Presidio's rule matches a part of it
    assert [
        kind for _, kind, _ in find_values(default_finder, ["ann@nowhere.notasuffix"])[0][0]
    ] == ["URL"]


_FRAGMENTS = [
    "word ",
    "the ",
    "\n",
    "café ",
    "— ",
    "4111 1111 1111 1111 ",
    "202-555-0147 ",
    "(202) 555-0147,",
    "ann.roe@example.com ",
    "phone ",
    "call ",
]
_FRAGMENTS += [
    "DE89 3704 0044 0532 0130 00 ",
    "21/11/2026 ",
    "12-NOV-2026 ",
    "219-09-9999 ",
    "social security ",
    "1" * 9 + " ",
    "x" * 90 + " ",
    ". ",
]
_FRAGMENTS += [
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa ",
    "credit card ",
    "+49 30 123456 ",
    "@",
    "7",
    "٣٤٥ ",
    *["long " * 120] * 6,
    "a" * 700,
]


def test_windows_find_what_whole_texts_find(default_finder: Presidio) -> None:
    """Anchored recognisers find in windows what they find in whole texts. Scores may miss a context
    word that is far away."""
    import numpy as np

    analyzers = default_finder._analyzers
    assert analyzers is not None
    rng = random.Random(11)
    texts = ["".join(rng.choice(_FRAGMENTS) for _ in range(rng.randint(1, 60))) for _ in range(40)]
    buffers = TextBuffers.from_array(pa.array(texts, pa.large_string()))
    low, high = buffers.offsets[:-1], buffers.offsets[1:]
    windows = presidio._cut_digit_windows(buffers)
    assert len(windows[0]) > 80 and (windows[2] - windows[1]).sum() < 0.8 * len(buffers.data)
    spans_of_texts = presidio._run_analyzer(
        analyzers.analyze_by_group["anchored"],
        buffers,
        (np.arange(len(texts)), low, high, low, high),
        set(),
    )
    spans_of_windows = presidio._run_analyzer(
        analyzers.analyze_by_group["anchored"], buffers, windows, set()
    )
    sorted_spans = [
        sorted(spans.select("text_no", "start", "end", "entity").rows())
        for spans in (spans_of_texts, spans_of_windows)
    ]
    assert sorted_spans[0] == sorted_spans[1] and len(sorted_spans[0]) > 200


def write_rules(
    folder: Path, pattern: str, entity: str = "ORGANIZATION", name: str = "ours"
) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(f"""
recognizers:
  - name: {name}
    supported_language: en
    supported_entity: {entity}
    patterns:
      - {{name: one, regex: '{pattern}', score: 0.5}}
    context: [acme]
""")
    return str(path)


SLOW_PATTERN = r"EMP-\d{6}|(a|aa)+\$"


def test_a_timed_out_text_is_reported_as_unreadable(tmp_path: Path) -> None:
    finder = open_finder(rules=write_rules(tmp_path, SLOW_PATTERN), timeout=0.05)
    found, unreadable = find_values(
        finder, ["EMP-123456", "a" * 60 + " EMP-123456", "acme EMP-123456"]
    )
    assert unreadable == [1]
    assert found[0] == [("EMP-123456", "ORGANIZATION", 0.5)] and found[2] == [
        ("EMP-123456", "ORGANIZATION", 0.85)
    ]


@pytest.mark.slow
def test_a_document_that_cannot_be_analysed_is_quarantined(tmp_path: Path) -> None:
    texts = [f"EMP-12345{number} wrote to a{number}@example.com" for number in range(12)]
    texts[7] = "a" * 60 + " EMP-123456"
    pq.write_table(pa.table({"text": texts, "title": ["EMP-999999"] * 12}), tmp_path / "in.parquet")
    (tmp_path / "plan.toml").write_text(f"""
[find]
kinds = ["EMAIL_ADDRESS", "ORGANIZATION"]
finders = ["patterns", {{ use = "presidio", rules = "{write_rules(tmp_path, SLOW_PATTERN)}", timeout = 0.05 }}]
[[edit]]
use = "redact"
kinds = ["EMAIL_ADDRESS", "ORGANIZATION"]
""")  # noqa: E501
    settings = Settings(seed=1, rows_per_shard=5, workers=1)
    result = run_with_settings(
        tmp_path / "in.parquet", tmp_path / "out", str(tmp_path / "plan.toml"), settings=settings
    )
    assert result.quarantined == 1
    tables = [pq.read_table(path) for path in sorted((tmp_path / "out" / "data").iterdir())]
    assert sum(table.num_rows for table in tables) == 11
    assert "EMP" not in str([table.to_pydict() for table in tables])
    quarantine = pa.concat_tables(
        pq.read_table(path)
        for path in (tmp_path / "out.private" / "quarantine" / "detect").iterdir()
    )
    assert [(row["doc_no"], row["location"], row["reason"]) for row in quarantine.to_pylist()] == [
        (7, "row 7", "not_analysed")
    ]


def test_every_pattern_has_a_timeout(default_finder: Presidio) -> None:
    """Also after a first run: a recognizer that compiled its patterns again would lose the
    timeout."""
    finder_with_more = open_finder(
        recognizers=["CreditCardRecognizer", "IbanRecognizer", "UrlRecognizer", "UsItinRecognizer"],
        labels={"US_ITIN": "US_SSN"},
    )
    for finder in (default_finder, finder_with_more):
        find_values(finder, ["ann@example.com DE89 3704 0044 0532 0130 00 912-71-1234"])
        assert finder._analyzers is not None
        for analyze in finder._analyzers.analyze_by_group.values():
            for recognizer in analyze.func.__self__.registry.recognizers:
                assert all(
                    isinstance(pattern.compiled_regex, TimedPattern)
                    for pattern in getattr(recognizer, "patterns", ())
                )


RECOGNIZER_MODULE = '''
import re
from presidio_analyzer import EntityRecognizer, RecognizerResult

class Names(EntityRecognizer):
    """Finds Name and a number, as a model would; fails if it is configured to."""
    def __init__(self, supported_language="en"):
        super().__init__(supported_entities=["PERSON"], name="Names", supported_language=supported_language)
    def load(self):
        pass
    def analyze(self, text, entities, nlp_artifacts=None):
        if "fail" in text:
            raise RuntimeError(text)
        return [RecognizerResult("PERSON", found.start(), found.end(), 0.9) for found in re.finditer(r"Näme\\d+", text)]
'''  # noqa: E501


def test_a_custom_recognizer_gets_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours_here.py").write_text(RECOGNIZER_MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    finder = open_finder(recognizers=["ours_here.Names"], chunk=1000, overlap=100)
    long = "é " * 30 + " ".join(f"Näme{number}" for number in range(2000))
    found, unreadable = find_values(finder, ["Näme1", "so fail", "", long])
    assert unreadable == [1]
    assert found[0] == [("Näme1", "PERSON", 0.9)]
    assert [value for value, _, _ in found[3]] == [f"Näme{number}" for number in range(2000)]


def test_a_spacy_pipeline_by_its_path(tmp_path: Path) -> None:
    import spacy

    pipeline = spacy.blank("en")
    pipeline.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Ann Roe"}])  # type: ignore[attr-defined]
    pipeline.to_disk(tmp_path / "pipeline")
    finder = open_finder(
        nlp="spacy", model=str(tmp_path / "pipeline"), entities=["PERSON", "EMAIL_ADDRESS"]
    )
    assert finder.kinds == ("PERSON", "EMAIL_ADDRESS") and finder.model_sha256
    assert [found[:2] for found in find_values(finder, ["é Ann Roe, ann@example.com"])[0][0]] == [
        ("Ann Roe", "PERSON"),
        ("ann@example.com", "EMAIL_ADDRESS"),
    ]


def test_a_transformers_model_by_its_path(model: Path) -> None:
    finder = open_finder(
        nlp="transformers", model=str(model), labels={"MISC": ""}, entities=["PERSON", "LOCATION"]
    )
    found = find_values(finder, ["so Zoë Roe went to Riverton"])[0][0]
    assert {(value, kind) for value, kind, _ in found} >= {("Riverton", "LOCATION")} and any(
        "Roe" in value for value, _, _ in found
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"entities": ["PERSON"]}, "no recogniser finds PERSON"),
        ({"entities": ["EMAIL_ADDRES"]}, "no kind is given for EMAIL_ADDRES"),
        ({"entities": ["UUID"], "labels": {"UUID": "SECRT"}}, "did you mean SECRET"),
        ({"recognizers": ["EmialRecognizer"]}, "did you mean EmailRecognizer"),
        ({"recognizers": ["pathlib.Path"]}, "is not a presidio_analyzer.EntityRecognizer"),
        ({"recognizers": ["sanitize.finders.presidio.TimedPattern"]}, "cannot be created"),
        ({"recognizers": ["UuidRecognizer"]}, "map them to kinds in labels"),
        ({"model": "somewhere"}, "is required with nlp"),
        ({"nlp": "spacy"}, "is required with nlp"),
        ({"nlp": "spacy", "model": "en_core_web_sm"}, "python -m spacy download en_core_web_sm"),
        ({"nlp": "transformers", "model": "/nowhere"}, "nothing is downloaded"),
        ({"language": "qq"}, "spaCy cannot open it"),
        ({"rules": "/nowhere.yaml"}, "no such file"),
        ({"chunk": 1000, "overlap": 500}, "expected less than half"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match="presidio") as caught:
        Presidio(use="presidio", **settings).resolve_settings().validate_settings()
    assert message in str(caught.value)


def test_invalid_rules_are_refused(tmp_path: Path) -> None:
    for number, content in enumerate(
        [
            "- 1",
            "recognizers: [{name: x}]",
            "a: [",
            "recognizers:\n  - {name: a, supported_entity: URL}",
        ]
    ):
        (tmp_path / f"{number}.yaml").write_text(content)
        with pytest.raises(PlanError, match="expected a YAML file of pattern recognisers"):
            PresidioAnalyzers(Presidio(use="presidio", rules=str(tmp_path / f"{number}.yaml")))
    with pytest.raises(PlanError, match="expected a YAML file of pattern recognisers"):
        PresidioAnalyzers(Presidio(use="presidio", rules=write_rules(tmp_path, "(a")))


def test_changed_rules_change_the_fingerprint(tmp_path: Path) -> None:
    finder = Presidio(use="presidio", rules=write_rules(tmp_path, "a")).resolve_settings()
    assert "presidio-analyzer 2" in finder.versions
    changed = Presidio(use="presidio", rules=write_rules(tmp_path, "b")).resolve_settings()
    assert finder.rules_sha256 != changed.rules_sha256
    with pytest.raises(PlanError, match="rules is not the one that the plan was made with"):
        finder.resolve_settings()


def test_a_gliner_model_by_its_path(tmp_path: Path) -> None:
    """A model of random weights with arbitrary findings: tests that it opens offline, and that
    spans are inside the text."""
    pytest.importorskip("gliner")
    import torch
    from gliner import GLiNER
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [
        *special,
        "<<ENT>>",
        "<<SEP>>",
        "ann",
        "roe",
        "person",
        "organization",
        "location",
        "went",
        "to",
        "so",
    ]
    wordpiece = Tokenizer(
        models.WordPiece(
            {piece: number for number, piece in enumerate(vocabulary)}, unk_token="[UNK]"
        )
    )
    wordpiece.normalizer, wordpiece.pre_tokenizer = (
        normalizers.BertNormalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(),
    )
    wordpiece.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{piece.strip('[]').lower()}_token": piece for piece in special}
    PreTrainedTokenizerFast(tokenizer_object=wordpiece, **names).save_pretrained(tmp_path / "bert")
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 128,
    }
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(tmp_path / "bert")
    GLiNER.from_config(
        {"model_name": str(tmp_path / "bert"), "hidden_size": 32, "max_width": 4, "max_len": 64}
    ).save_pretrained(tmp_path / "gl")
    finder = open_finder(
        nlp="gliner", model=str(tmp_path / "gl"), entities=["PERSON", "EMAIL_ADDRESS"]
    )
    found = find_values(finder, ["é so Ann Roe went to ann@example.com"])[0][0]
    assert ("ann@example.com", "EMAIL_ADDRESS", 1.0) in found
    assert {"Ann", "Roe"} <= {
        word for value, kind, _ in found if kind == "PERSON" for word in value.split()
    }


def test_a_plan_with_person_needs_a_finder_of_names() -> None:
    settings = ['find.kinds=["PERSON"]', 'edit.0.kinds=["PERSON"]']
    for setting in ('"presidio"', '{use = "presidio", entities = ["US_SSN"]}'):
        with pytest.raises(
            PlanError,
            match=(
                r"PERSON has no pattern, and none of find.finders finds it; .*presidio .with a"
                r" model."
            ),
        ):
            load_plan("redact", [*settings, f'find.finders=["patterns", {setting}]'])
    assert (
        load_plan("redact", [*settings, 'find.finders=["patterns", "presidio", "names"]'])
        .finders[1]
        .use
        == "presidio"
    )


def test_custom_rules_extend_the_kinds_that_can_be_found(tmp_path: Path) -> None:
    assert not Presidio(use="presidio").can_find("LOCATION")
    (tmp_path / "rules.yml").write_text(
        "recognizers:\n  - name: Town\n    supported_entity: LOCATION\n    supported_language: en\n"
        "    patterns:\n      - {name: town, regex: Zyqtown, score: 0.9}\n"
    )
    assert Presidio(use="presidio", rules=str(tmp_path / "rules.yml")).can_find("LOCATION")
