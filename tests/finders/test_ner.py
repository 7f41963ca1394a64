"""The finder `ner`, with a model of random weights and a classifier fitted to them; all people in it are invented."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import PlanError
from sanitize.finders.ner import Ner, Tagger, _load_tagger, _split_label

pytest.importorskip("transformers")

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-MISC"]  # of the model
PLAIN = "the a lamp and of in near to went said saw with old new was is has but so for from on under over . , ! ?".split()
KEY = Key.from_seed(5)
NOTHING = pl.DataFrame(schema={"text_no": pl.Int64, "start_byte": pl.Int64, "end_byte": pl.Int64, "kind": pl.String, "value_id": pl.Int64})


def finder(model: Path, **settings: Any) -> Ner:
    made = Ner(use="ner", model=str(model), **{"overlap": 8, **settings}).resolve_settings()
    made.validate_settings()
    made.open(KEY, None)
    return made


def places(one: Ner, texts: list[str]) -> list[list[tuple[str, str, float]]]:
    spans = one.find_spans(TextColumn(pa.array(texts, pa.large_string()), NOTHING))
    out: list[list[tuple[str, str, float]]] = [[] for _ in texts]
    for text_no, start, stop, kind, score in zip(spans.text_no, spans.start_byte, spans.end_byte, spans.kind_no, spans.score, strict=True):
        out[text_no].append((texts[text_no].encode()[start:stop].decode(), spans.kind_names[kind], round(float(score), 3)))
    return out


def values(one: Ner, text: str) -> list[tuple[str, str]]:
    return [found[:2] for found in places(one, [text])[0]]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("the lamp was old.", []),
        ("", []),
        ("Ann Roe saw the lamp", [("Ann Roe", "PERSON")]),
        ("saw Ann Ben Roe", [("Ann", "PERSON"), ("Ben Roe", "PERSON")]),  # B- begins a span though the last word was of its kind
        ("in Riverton, said Ben", [("Riverton", "LOCATION"), ("Ben", "PERSON")]),  # one word of two tokens
        ("so Zoë Roe went to Riverton", [("Zoë Roe", "PERSON"), ("Riverton", "LOCATION")]),  # code points become bytes
        ("\u00a0\u2014 Ann\n", [("Ann", "PERSON")]),
        ("the lunar lamp", []),  # MISC is no personal data
    ],
)
def test_what_it_tags(model: Path, text: str, seen: list[tuple[str, str]]) -> None:
    assert values(finder(model), text) == seen


def _text(rng: random.Random, words: int) -> str:
    some = [*PLAIN, "Ann Roe", "Ben", "Zoë Poe", "Riverton", "Ann"]
    return " ".join(rng.choice(some) for _ in range(words))


def test_a_text_says_the_same_in_any_company(model: Path) -> None:
    rng = random.Random(2)
    texts = [_text(rng, rng.choice([1, 3, 9, 30, 70, 200])) for _ in range(60)]
    one = finder(model)
    alone = [places(one, [text])[0] for text in texts]
    assert sum(map(len, alone)) > 200
    assert places(one, texts) == alone
    order = list(range(len(texts)))
    rng.shuffle(order)
    assert places(one, [texts[number] for number in order]) == [alone[number] for number in order]


def test_probabilities_are_the_same_to_the_bit(model: Path) -> None:
    rng = random.Random(3)
    texts = [_text(rng, 5) for _ in range(40)]
    made = finder(model)._tagger
    assert made is not None
    together = next(iter(made.tag_texts(pa.array(texts, pa.large_string()))))
    for number, text in enumerate(texts):
        alone = next(iter(made.tag_texts(pa.array([text], pa.large_string()))))
        assert (together.probabilities[together.text_no == number] == alone.probabilities).all()


def test_the_shape_of_a_batch_hangs_on_the_length_of_its_pieces_alone(model: Path) -> None:
    """The last bits of a larger model's results depend on that shape; this small model does not show it."""
    made = Tagger(model, "cpu", 0, 8, 64)
    shapes: list[tuple[int, ...]] = []
    judge = made.model

    def watched(**given: Any) -> Any:
        shapes.append(tuple(given["input_ids"].shape))
        return judge(**given)

    made.model = watched
    of_size: dict[int, set[tuple[int, ...]]] = {}
    for texts in (["so"], ["so"] * 7, ["lamp " * 20], ["so", "lamp " * 20, "lamp " * 40, "so"]):
        shapes.clear()
        list(made.tag_texts(pa.array(texts, pa.large_string())))
        for shape in shapes:
            of_size.setdefault(shape[1], set()).add(shape)
    assert of_size == {16: {(4, 16)}, 32: {(2, 32)}, 48: {(1, 48)}}


def test_pieces_judge_every_token_once_and_far_from_their_edges(model: Path) -> None:
    made = finder(model)._tagger
    assert made is not None
    for size in range(400):
        cuts = made.split_into_windows(size)
        assert [place for _, _, low, high in cuts for place in range(low, high)] == list(range(size))
        for low, high, begin, end in cuts:
            assert high - low == min(size, made.window_tokens)
            assert begin == 0 or begin - low >= made.overlap // 2
            assert end == size or high - end >= made.overlap // 2


def test_a_name_across_a_seam_is_one_span(model: Path) -> None:
    one = finder(model)
    assert one._tagger is not None
    for before in range(40, 60):  # the first seam, and the edges of both pieces, pass through the name
        text = "lamp " * before + "Ann Roe Roe Roe" + " lamp" * 40
        assert values(one, text) == [("Ann Roe Roe Roe", "PERSON")]


def test_scores(model: Path) -> None:
    mean, least = (places(finder(model, score=score), ["so Ann Roe went"])[0][0][2] for score in ("mean", "least"))
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
def test_labels_are_parted(label: str, parts: tuple[str, str]) -> None:
    assert _split_label(label) == parts


def relabelled(model: Path, folder: Path, labels: list[str]) -> Path:
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": dict(enumerate(labels)), "label2id": {label: number for number, label in enumerate(labels)}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("labels", "text", "seen"),
    [
        # plain labels: words of one kind in a row are one span
        (["O", "PER", "PERSON", "LOC", "GPE", "MISC"], "saw Ann Ben Roe", ["Ann Ben Roe"]),
        # BILOU: a unit is a span of one word, a last word ends a span
        (["O", "U-PER", "L-PER", "B-LOC", "L-LOC", "O"], "Roe Ann Ben Roe", ["Roe", "Ann", "Ben", "Roe"]),
        (["O", "B-PER", "E-PER", "B-LOC", "E-LOC", "O"], "Ann Roe Roe Ben", ["Ann Roe", "Roe", "Ben"]),
    ],
)
def test_schemes_of_labels(model: Path, tmp_path: Path, labels: list[str], text: str, seen: list[str]) -> None:
    assert [value for value, _ in values(finder(relabelled(model, tmp_path, labels)), text)] == seen


def test_a_users_map_comes_first(model: Path) -> None:
    one = finder(model, labels={"MISC": "ORGANIZATION", "LOC": ""})
    assert values(one, "the lunar lamp in Riverton") == [("lunar", "ORGANIZATION")]
    assert one.kinds == ("PERSON", "ORGANIZATION")


def test_what_is_refused(model: Path, tmp_path: Path) -> None:
    strange = relabelled(model, tmp_path, ["O", "B-PER", "I-PER", "B-QUUX", "I-QUUX", "O"])
    table: list[tuple[dict[str, Any], str]] = [
        ({}, 'model = "PATH"'),
        ({"model": str(tmp_path / "nowhere")}, "nothing is downloaded"),
        ({"model": str(strange)}, 'no kind is given for QUUX; write { QUUX = "KIND" }'),
        ({"model": str(model), "labels": {"PER": "PERSN"}}, "Did you mean PERSON"),
        ({"model": str(model), "labels": {"ORGA": "PERSON"}}, "ORGA, which the model does not have"),
        ({"model": str(tmp_path.parent)}, "names no labels"),
    ]
    for settings, said in table:
        with pytest.raises(PlanError, match="ner") as caught:
            Ner(use="ner", **settings).resolve_settings().validate_settings()
        assert said in str(caught.value)
    with pytest.raises(PlanError, match="overlap = 40 does not fit"):
        Tagger(model, "cpu", 0, 40, 0)
    with pytest.raises(PlanError, match="the model accepts at most 64 tokens"):
        Tagger(model, "cpu", 65, 8, 0)


def test_another_model_under_the_same_name_is_refused(model: Path, tmp_path: Path) -> None:
    copied = relabelled(model, tmp_path, LABELS)
    one = finder(copied)
    assert one.model_sha256 and "transformers" in one.versions
    (copied / "config.json").write_text((copied / "config.json").read_text() + "\n")
    _load_tagger.cache_clear()
    with pytest.raises(PlanError, match="not the one that the plan was made with"):
        one.open(KEY, None)
    assert Ner(use="ner", model=str(copied)).resolve_settings().model_sha256 != one.model_sha256


def test_a_plan_with_a_model(model: Path, tmp_path: Path) -> None:
    """From the plan to the published text, with documents divided into other tasks."""
    rng = random.Random(7)
    texts = [_text(rng, 40) + f" Ann Roe of Riverton, a{number}@example.com" for number in range(30)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "in.parquet")
    (tmp_path / "plan.toml").write_text(f"""
[find]
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
finders = ["patterns", {{ use = "ner", model = "{model}", overlap = 8 }}]
[[edit]]
use = "redact"
kinds = ["EMAIL_ADDRESS", "PERSON", "LOCATION"]
""")
    made = []
    for rows in (7, 30):
        out = tmp_path / f"out{rows}"
        told = sanitize.run(
            [tmp_path / "in.parquet"], out, str(tmp_path / "plan.toml"), settings=sanitize.Settings(seed=1, rows_per_shard=rows, workers=1)
        )
        assert told["by_kind"]["PERSON"]["replaced"] >= 30
        made.append([text for path in sorted((out / "data").iterdir()) for text in pq.read_table(path)["text"].to_pylist()])
    assert made[0] == made[1]
    assert all("[PERSON" in text and "Roe" not in text and "Riverton" not in text for text in made[0])
