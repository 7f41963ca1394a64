"""The finder `ner`, with a model of random weights and a classifier fitted to them; all people in
it are invented."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import PlanError
from sanitize.finders.ner import Ner, _load_tagger
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.text.token_classification.model_files import ModelFiles, split_field_name
from sanitize.text.token_classification.tagger import Tagger

pytest.importorskip("transformers")

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-MISC"]  # labels of the model
PLAIN_WORDS = (
    "the a lamp and of in near to went said saw with old new was is has but so for from on under"
    " over . , ! ?".split()
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


def open_finder(model: Path, **settings: Any) -> Ner:
    ner = Ner(
        use="ner", model=str(model), **{"overlap": 8, "lines": "all", **settings}
    ).resolve_settings()
    ner.validate_settings()
    ner.open(KEY, None)
    return ner


def find_scored_values(ner: Ner, texts: list[str]) -> list[list[tuple[str, str, float]]]:
    spans = ner.find_spans(TextColumn(pa.array(texts, pa.large_string()), NO_SPANS))
    out: list[list[tuple[str, str, float]]] = [[] for _ in texts]
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
    return out


def find_values(ner: Ner, text: str) -> list[tuple[str, str]]:
    return [found[:2] for found in find_scored_values(ner, [text])[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the lamp was old.", []),
        ("", []),
        ("Ann Roe saw the lamp", [("Ann Roe", "PERSON")]),
        # B- begins a span after a word of the same kind
        ("saw Ann Ben Roe", [("Ann", "PERSON"), ("Ben Roe", "PERSON")]),
        # one word of two tokens
        ("in Riverton, said Ben", [("Riverton", "LOCATION"), ("Ben", "PERSON")]),
        # code points become bytes
        ("so Zoë Roe went to Riverton", [("Zoë Roe", "PERSON"), ("Riverton", "LOCATION")]),
        ("\u00a0\u2014 Ann\n", [("Ann", "PERSON")]),
        ("the lunar lamp", []),  # MISC is not a kind
    ],
)
def test_tagged_values(model: Path, text: str, expected: list[tuple[str, str]]) -> None:
    assert find_values(open_finder(model), text) == expected


def _build_text(rng: random.Random, word_count: int) -> str:
    vocabulary = [*PLAIN_WORDS, "Ann Roe", "Ben", "Zoë Poe", "Riverton", "Ann"]
    return " ".join(rng.choice(vocabulary) for _ in range(word_count))


def test_result_does_not_depend_on_other_texts_of_the_batch(model: Path) -> None:
    rng = random.Random(2)
    texts = [_build_text(rng, rng.choice([1, 3, 9, 30, 70, 200])) for _ in range(60)]
    ner = open_finder(model)
    expected = [find_scored_values(ner, [text])[0] for text in texts]
    assert sum(map(len, expected)) > 200
    assert find_scored_values(ner, texts) == expected
    order = list(range(len(texts)))
    rng.shuffle(order)
    assert find_scored_values(ner, [texts[number] for number in order]) == [
        expected[number] for number in order
    ]


def test_probabilities_are_the_same_to_the_bit(model: Path) -> None:
    rng = random.Random(3)
    texts = [_build_text(rng, 5) for _ in range(40)]
    tagger = open_finder(model)._tagger
    assert tagger is not None
    batched = next(iter(tagger.tag_texts(texts)))
    for number, text in enumerate(texts):
        single = next(iter(tagger.tag_texts([text])))
        assert (batched.probabilities[batched.text_no == number] == single.probabilities).all()


def test_batch_shape_depends_only_on_the_window_length(model: Path) -> None:
    """The last bits of a larger model's results depend on that shape; this small model does not
    show it."""
    tagger = Tagger(ModelFiles(model, None), "cpu", 0, 8, 64)
    shapes: list[tuple[int, ...]] = []
    classifier: Any = tagger.classifier
    original_model = classifier.model

    def record_shape(**inputs: Any) -> Any:
        shapes.append(tuple(inputs["input_ids"].shape))
        return original_model(**inputs)

    classifier.model = record_shape
    shapes_by_length: dict[int, set[tuple[int, ...]]] = {}
    for texts in (["so"], ["so"] * 7, ["lamp " * 20], ["so", "lamp " * 20, "lamp " * 40, "so"]):
        shapes.clear()
        list(tagger.tag_texts(texts))
        for shape in shapes:
            shapes_by_length.setdefault(shape[1], set()).add(shape)
    assert shapes_by_length == {16: {(4, 16)}, 32: {(2, 32)}, 48: {(1, 48)}}


def test_windows_label_every_token_once_and_away_from_their_edges(model: Path) -> None:
    tagger = open_finder(model)._tagger
    assert tagger is not None
    for size in range(400):
        windows = tagger.split_into_windows(size)
        assert [token_no for _, _, low, high in windows for token_no in range(low, high)] == list(
            range(size)
        )
        for low, high, begin, end in windows:
            assert high - low == min(size, tagger.window_tokens)
            assert begin == 0 or begin - low >= tagger.overlap // 2
            assert end == size or high - end >= tagger.overlap // 2


def test_a_name_across_a_window_boundary_is_one_span(model: Path) -> None:
    ner = open_finder(model)
    assert ner._tagger is not None
    for before in range(40, 60):
        # the first window boundary, and the edges of both windows, pass through the name
        text = "lamp " * before + "Ann Roe Roe Roe" + " lamp" * 40
        assert find_values(ner, text) == [("Ann Roe Roe Roe", "PERSON")]


def test_scores(model: Path) -> None:
    mean, least = (
        find_scored_values(open_finder(model, score=score), ["so Ann Roe went"])[0][0][2]
        for score in ("mean", "least")
    )
    assert 0.5 < least <= mean <= 1
    assert mean == round(mean, 3)


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("O", ("", "")),
        ("B-PER", ("B", "PER")),
        ("I_LOC", ("I", "LOC")),
        ("U-ORG", ("U", "ORG")),
        ("PER", ("", "PER")),
        ("E_MAIL", ("", "E_MAIL")),
        ("S-DATE-1", ("S", "DATE-1")),
    ],
)
def test_labels_are_split(label: str, parts: tuple[str, str]) -> None:
    assert split_field_name(label) == parts


def copy_with_labels(model: Path, folder: Path, labels: list[str]) -> Path:
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("labels", "text", "expected"),
    [
        # plain labels: words of one kind in a row are one span
        (["O", "PER", "PERSON", "LOC", "GPE", "MISC"], "saw Ann Ben Roe", ["Ann Ben Roe"]),
        # BILOU: a unit is a span of one word, a last word ends a span
        (
            ["O", "U-PER", "L-PER", "B-LOC", "L-LOC", "O"],
            "Roe Ann Ben Roe",
            ["Roe", "Ann", "Ben", "Roe"],
        ),
        (
            ["O", "B-PER", "E-PER", "B-LOC", "E-LOC", "O"],
            "Ann Roe Roe Ben",
            ["Ann Roe", "Roe", "Ben"],
        ),
    ],
)
def test_label_schemes(
    model: Path, tmp_path: Path, labels: list[str], text: str, expected: list[str]
) -> None:
    assert [
        value
        for value, _ in find_values(open_finder(copy_with_labels(model, tmp_path, labels)), text)
    ] == expected


def test_label_map_of_the_user_takes_precedence(model: Path) -> None:
    ner = open_finder(model, labels={"MISC": "ORGANIZATION", "LOC": ""})
    assert find_values(ner, "the lunar lamp in Riverton") == [("lunar", "ORGANIZATION")]
    assert ner.kinds == ("PERSON", "ORGANIZATION")


def test_invalid_settings_are_refused(model: Path, tmp_path: Path) -> None:
    unknown_labels = copy_with_labels(
        model, tmp_path, ["O", "B-PER", "I-PER", "B-QUUX", "I-QUUX", "O"]
    )
    table: list[tuple[dict[str, Any], str]] = [
        ({"model": ""}, 'model = "PATH"'),
        ({"model": str(tmp_path / "nowhere")}, "nothing is downloaded"),
        ({"model": "no-such-package-anywhere"}, "nor an installed package"),
        ({"model": str(unknown_labels)}, 'no kind is given for QUUX; write { QUUX = "KIND" }'),
        ({"model": str(model), "labels": {"PER": "PERSN"}}, "did you mean PERSON"),
        (
            {"model": str(model), "labels": {"ORGA": "PERSON"}},
            "ORGA, which the model does not have",
        ),
        ({"model": str(tmp_path.parent)}, "has no config.json"),
    ]
    for settings, message in table:
        with pytest.raises(PlanError, match="ner") as caught:
            Ner(use="ner", **settings).resolve_settings().validate_settings()
        assert message in str(caught.value)
    with pytest.raises(PlanError, match="overlap = 40 does not fit"):
        Tagger(ModelFiles(model, None), "cpu", 0, 40, 0)
    with pytest.raises(PlanError, match="the model accepts at most 64 tokens"):
        Tagger(ModelFiles(model, None), "cpu", 65, 8, 0)


def test_another_model_under_the_same_name_is_refused(model: Path, tmp_path: Path) -> None:
    model_copy = copy_with_labels(model, tmp_path, LABELS)
    ner = open_finder(model_copy)
    assert ner.model_sha256 and "transformers" in ner.versions
    (model_copy / "config.json").write_text((model_copy / "config.json").read_text() + "\n")
    _load_tagger.cache_clear()
    with pytest.raises(PlanError, match="not the one that the plan was made with"):
        ner.open(KEY, None)
    assert Ner(use="ner", model=str(model_copy)).resolve_settings().model_sha256 != ner.model_sha256


@pytest.mark.slow
def test_a_plan_with_a_model(model: Path, tmp_path: Path) -> None:
    """From the plan to the published text, with documents divided into other tasks."""
    rng = random.Random(7)
    texts = [
        _build_text(rng, 40) + f" Ann Roe of Riverton, a{number}@example.com"
        for number in range(30)
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    (tmp_path / "plan.toml").write_text(f"""
[find]
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
finders = ["patterns", {{ use = "ner", model = "{model}", overlap = 8, lines = "all" }}]
[[edit]]
use = "redact"
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
""")
    outputs = []
    for rows in (7, 30):
        out = tmp_path / f"out{rows}"
        result = run_with_settings(
            [tmp_path / "in.parquet"],
            out,
            str(tmp_path / "plan.toml"),
            settings=Settings(seed=1, rows_per_shard=rows, workers=1),
        )
        assert result.by_kind["PERSON"].replaced >= 30
        outputs.append(
            [
                text
                for path in sorted((out / "data").iterdir())
                for text in pq.read_table(path)["text"].to_pylist()
            ]
        )
    assert outputs[0] == outputs[1]
    assert all(
        "[PERSON" in text and "Roe" not in text and "Riverton" not in text for text in outputs[0]
    )
