"""The finder `ner` with ONNX files: small models written here, and the model of an installed
package where there is one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import PlanError
from sanitize.finders.ner import DEFAULT_MODEL, Ner
from sanitize.plans.plan import Plan
from sanitize.text.label_aliases import map_labels_to_kinds
from sanitize.text.token_classification.model_files import is_available
from tests.onnx_models import write_onnx_tagger

pytest.importorskip("onnxruntime", reason="onnxruntime (extra `ner`) is not installed")
pytest.importorskip("tokenizers", reason="tokenizers (extra `ner`) is not installed")

KEY = Key.from_seed(5)
BIOES = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "S-LOC"]
BIOES_WORDS = {
    "ann": "B-PER",
    "mid": "I-PER",
    "roe": "E-PER",
    "ben": "S-PER",
    "riverton": "S-LOC",
    "lamp": "O",
}
PARTS = [
    "O",
    *(
        f"{prefix}-{name}"
        for name in "GIVEN_NAME SURNAME BUILDING_NUMBER STREET_NAME CITY ZIP_CODE".split()
        for prefix in "BI"
    ),
]
PART_WORDS = {
    "ann": "B-GIVEN_NAME",
    "mary": "I-GIVEN_NAME",
    "ben": "B-GIVEN_NAME",
    "roe": "B-SURNAME",
    "poe": "B-SURNAME",
    "smythe": "I-SURNAME",
    "12": "B-BUILDING_NUMBER",
    "mill": "B-STREET_NAME",
    "lane": "I-STREET_NAME",
    "riverton": "B-CITY",
    "oakdale": "B-CITY",
    "77002": "B-ZIP_CODE",
    "lamp": "O",
}
with_rampart = pytest.mark.skipif(
    not is_available(DEFAULT_MODEL), reason=f"the package {DEFAULT_MODEL} is not installed"
)


def open_finder(model: Path | str, **settings: Any) -> Ner:
    ner = Ner(
        use="ner", model=str(model), **{"overlap": 8, "lines": "all", **settings}
    ).resolve_settings()
    ner.validate_settings()
    ner.open(KEY, None)
    return ner


def find_scored(ner: Ner, texts: list[str]) -> list[list[tuple[str, str, float]]]:
    spans = ner.find_spans(TextColumn(pa.array(texts, pa.large_string()), None))  # type: ignore[arg-type]
    out: list[list[tuple[str, str, float]]] = [[] for _ in texts]
    for text_no, start, end, kind, score in zip(
        spans.text_no, spans.start_byte, spans.end_byte, spans.kind_no, spans.score, strict=True
    ):
        out[text_no].append(
            (
                texts[text_no].encode()[start:end].decode(),
                spans.kind_names[kind],
                round(float(score), 3),
            )
        )
    return out


def find_values(ner: Ner, text: str) -> list[str]:
    return [value for value, _, _ in find_scored(ner, [text])[0]]


@pytest.fixture(scope="module")
def bioes_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx_tagger(tmp_path_factory.mktemp("bioes"), BIOES, BIOES_WORDS)


@pytest.fixture(scope="module")
def parts_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx_tagger(tmp_path_factory.mktemp("parts"), PARTS, PART_WORDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the Ann Roe and Ben", ["Ann Roe", "Ben"]),
        ("Ann mid mid Roe lamp", ["Ann mid mid Roe"]),
        ("Ben Ben Ann Roe", ["Ben", "Ben", "Ann Roe"]),
        # a label that contradicts the sequence is a span of its own
        ("Ann Roe Roe Ben", ["Ann Roe", "Roe", "Ben"]),
        ("Ann", ["Ann"]),
        ("Roe lamp Roe", ["Roe", "Roe"]),
        ("Ann Riverton Roe", ["Ann", "Riverton", "Roe"]),
        ("", []),
        ("lamp lamp", []),
    ],
)
def test_bioes_labels(bioes_model: Path, text: str, expected: list[str]) -> None:
    assert find_values(open_finder(bioes_model), text) == expected


def test_a_bioes_sequence_outweighs_one_uncertain_word(tmp_path: Path) -> None:
    """`mid` is more probably outside than inside, but then both words beside it would be wrong."""
    model = write_onnx_tagger(tmp_path, BIOES, {**BIOES_WORDS, "mid": "O"}, certainty=1.0)
    assert find_values(open_finder(model), "Ann mid Roe") == ["Ann mid Roe"]
    assert find_values(open_finder(model), "lamp mid lamp") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann Roe lamp", ["Ann Roe"]),
        ("Ann Mary Roe Smythe", ["Ann Mary Roe Smythe"]),
        ("Ann Roe Ben Poe", ["Ann Roe", "Ben Poe"]),
        ("Roe, Ann lamp", ["Roe, Ann"]),
        ("Ann, Ben lamp", ["Ann", "Ben"]),
        ("Ann\nRoe\nBen Poe", ["Ann", "Roe", "Ben Poe"]),  # one name a line
        ("12 Mill Lane, Riverton 77002 lamp", ["12 Mill Lane, Riverton 77002"]),
        ("> 12 Mill Lane,\n> Riverton\n> 77002", ["12 Mill Lane,\n> Riverton\n> 77002"]),
        ("Riverton, Oakdale", ["Riverton", "Oakdale"]),
        ("Riverton lamp 77002", ["Riverton", "77002"]),
        ("Ann Roe 12 Mill Lane", ["Ann Roe", "12 Mill Lane"]),
    ],
)
def test_parts_of_a_value_are_joined(parts_model: Path, text: str, expected: list[str]) -> None:
    assert find_values(open_finder(parts_model), text) == expected


@pytest.mark.parametrize("quantised", [False, True])
def test_a_text_has_the_same_spans_in_every_batch(tmp_path: Path, quantised: bool) -> None:
    """Dynamic quantisation takes its steps from the whole batch: such a model gets one window at a
    time."""
    words = {f"w{number}": BIOES[number % 6] for number in range(40)}
    ner = open_finder(write_onnx_tagger(tmp_path, BIOES, words, quantised=quantised, certainty=0.8))
    rng = random.Random(4)
    texts = [
        " ".join(rng.choice([*words, "lamp"]) for _ in range(rng.choice([1, 4, 9, 40, 150])))
        for _ in range(60)
    ]
    single = [find_scored(ner, [text])[0] for text in texts]
    assert sum(map(len, single)) > 100
    assert find_scored(ner, texts) == single
    order = rng.sample(range(60), 60)
    assert find_scored(ner, [texts[number] for number in order]) == [
        single[number] for number in order
    ]
    assert ner._tagger is not None and (ner._tagger.classifier.count_rows(16) == 1) == quantised


def test_inputs_of_a_fixed_shape_are_padded_to_it(tmp_path: Path) -> None:
    ner = open_finder(write_onnx_tagger(tmp_path, BIOES, BIOES_WORDS, shape=(2, 32)))
    assert find_values(ner, "Ann Roe " + "lamp " * 90 + "Ben") == ["Ann Roe", "Ben"]


@pytest.mark.parametrize(
    "text",
    [
        "Ann Roe " + "lamp " * 60_000 + "Ben",
        "x" * 200_000,
        "Ann",
        "\n" * 100_000 + "Ann Roe",
        "é" * 20_000,
    ],
    ids=["long", "no blank", "one word", "empty lines", "two bytes a letter"],
)
@pytest.mark.parametrize("lines", ["all", "names"])
def test_long_texts_and_texts_without_blanks(bioes_model: Path, text: str, lines: str) -> None:
    found = find_values(open_finder(bioes_model, lines=lines), text)
    assert found == [
        value
        for value in ("Ann Roe", "Ben", "Ann")
        if value in text and not (value == "Ann" and "Ann Roe" in text)
    ]


def damage(folder: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)


def test_a_damaged_model_is_one_error_that_names_the_file(
    bioes_model: Path, tmp_path: Path
) -> None:
    onnx = (bioes_model / "model.onnx").read_bytes()
    table: list[tuple[str, bytes | None, str, str]] = [
        (
            "model.onnx",
            onnx[: len(onnx) // 2],
            "model.onnx",
            "truncated, or not an ONNX file; copy the file of the model again",
        ),
        ("model.onnx", b"", "model.onnx", "truncated"),
        ("model.onnx", None, "", "has neither safetensors nor an ONNX file"),
        ("config.json", None, "", "has no config.json"),
        (
            "config.json",
            b'{"id2label": {"0": "O", "1": "B-PER"}}',
            "model.onnx",
            "computes 6 labels",
        ),
        (
            "config.json",
            b'{"id2label": {"0": "O", "1": "B-QUUX"}}',
            "labels",
            'write { QUUX = "KIND" }',
        ),
        ("config.json", b"{", "config.json", "names no labels"),
        ("tokenizer.json", None, "tokenizer.json", "there is no such file"),
        ("tokenizer.json", b"{}", "tokenizer.json", "cannot be read as a tokenizer"),
    ]
    for number, (name, content, where, message) in enumerate(table):
        folder = tmp_path / str(number)
        shutil.copytree(bioes_model, folder)
        damage(folder, name, content)
        with pytest.raises(PlanError, match="ner") as caught:
            open_finder(folder)
        assert (
            where in str(caught.value)
            and message in str(caught.value)
            and str(folder) in str(caught.value)
        )


def test_an_opset_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PlanError,
        match="does not have; install a newer onnxruntime, or export the model for an older opset",
    ):
        open_finder(write_onnx_tagger(tmp_path, BIOES, BIOES_WORDS, opset=9_999))


def test_a_folder_with_several_onnx_files_needs_a_name(bioes_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(bioes_model, folder)
    (folder / "onnx").mkdir()
    shutil.copy(folder / "model.onnx", folder / "onnx" / "small.onnx")
    with pytest.raises(
        PlanError, match='has 2 ONNX files; name one of them, such as file = "model.onnx"'
    ):
        open_finder(folder)
    assert find_values(open_finder(folder, file="onnx/small.onnx"), "Ann Roe") == ["Ann Roe"]
    with pytest.raises(PlanError, match="has no such file"):
        open_finder(folder, file="other.onnx")


def test_labels_of_models_that_people_bring_are_known() -> None:
    """openai/privacy-filter, ai4privacy, i2b2, CoNLL, OntoNotes and WNUT: every label has a kind or
    is no personal data."""
    kind_by_label = {
        "private_person": "PERSON",
        "private_address": "LOCATION",
        "private_email": "EMAIL_ADDRESS",
        "private_phone": "PHONE_NUMBER",
        "private_url": "URL",
        "private_date": "DATE_TIME",
        "account_number": "BANK_ACCOUNT",
        "secret": "SECRET",
        "GIVENNAME": "PERSON",
        "BUILDINGNUM": "LOCATION",
        "ZIPCODE": "LOCATION",
        "DRIVERLICENSENUM": "ID_NUMBER",
        "TAXNUM": "ID_NUMBER",
        "SOCIALNUM": "US_SSN",
        "IDCARDNUM": "ID_NUMBER",
        "PASSPORTNUM": "ID_NUMBER",
        "ROUTING_NUMBER": "BANK_ACCOUNT",
        "HCW": "PERSON",
        "PATIENT": "PERSON",
        "HOSP": "ORGANIZATION",
        "PER": "PERSON",
        "GPE": "LOCATION",
        "corporation": "ORGANIZATION",
        "MISC": "",
    }
    assert map_labels_to_kinds(kind_by_label, {}, "labels") == kind_by_label


def test_a_package_is_named_with_its_licence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package that carries a model: found by its metadata, with its files, its licence
    and its damages."""
    site = tmp_path / "site"
    folder = write_onnx_tagger(site / "invented_tagger" / "model", BIOES, BIOES_WORDS)
    info = site / "invented_tagger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: invented-tagger\nVersion: 1.0\nLicense-Expression:"
        " CC-BY-4.0\n"
    )
    (info / "RECORD").write_text(
        "".join(f"{path.relative_to(site)},,\n" for path in sorted(folder.iterdir()))
    )
    monkeypatch.syspath_prepend(str(site))
    ner = open_finder("invented-tagger")
    assert find_values(ner, "Ann Roe") == ["Ann Roe"]
    assert (
        ner.kinds == ("PERSON", "LOCATION")
        and len(ner.model_sha256) == 64
        and "onnxruntime" in ner.versions
    )
    assert ner.attribution == "the model of the package invented-tagger 1.0 (CC-BY-4.0)"
    (folder / "model.onnx").write_bytes((folder / "model.onnx").read_bytes() + b" ")
    with pytest.raises(PlanError, match="is not the model that the plan was made with"):
        ner.resolve_settings()
    (folder / "config.json").unlink()
    with pytest.raises(
        PlanError, match=r"the package invented-tagger 1.0 has no model.*reinstall it"
    ):
        open_finder("invented-tagger")


@with_rampart
def test_the_model_of_the_package_finds_names_addresses_and_numbers() -> None:
    text = (
        "My name is ann roe and I live at 12 Larkspur Lane, Apt 4B, Riverton, TX 77002. Passport"
        " X12345678."
    )
    found = find_scored(open_finder(DEFAULT_MODEL, overlap=64, lines="names"), [text])[0]
    assert [(value, kind) for value, kind, _ in found] == [
        ("ann roe", "PERSON"),
        ("12 Larkspur Lane, Apt 4B, Riverton, TX 77002", "LOCATION"),
        ("X12345678", "ID_NUMBER"),
    ]


@pytest.mark.slow
@with_rampart
def test_spans_of_the_package_do_not_depend_on_the_batch() -> None:
    rng = random.Random(6)
    words = (
        "Ann Roe Ben Poe said that she lives in Riverton at 12 Mill Lane and works for the county"
        " since Monday".split()
    )
    texts = [
        " ".join(rng.choice(words) for _ in range(rng.choice([2, 5, 12, 30, 90])))
        for _ in range(24)
    ]
    ner = open_finder(DEFAULT_MODEL, overlap=64)
    assert find_scored(ner, texts) == [find_scored(ner, [text])[0] for text in texts]


@with_rampart
def test_a_finder_option_adds_the_kinds_that_only_it_finds() -> None:
    plan = Plan.load("redact", finders=["ner"])
    assert {"LOCATION", "ID_NUMBER", "PERSON"} <= set(plan.find.kinds)
    assert [finder.use for finder in plan.finders] == [
        "patterns",
        "fields",
        "names",
        "known",
        "ner",
    ]
    assert "LOCATION" not in Plan.load("redact").find.kinds and not any(
        finder.uses_model for finder in Plan.load("redact").finders
    )
    with pytest.raises(PlanError, match="--finder names: plan redact has this finder already"):
        Plan.load("redact", finders=["names"])
