"""The unlearning receipt: from a person's address to the results of attacks afterwards. All people
are invented."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="comes with the extra `learn`")
pytest.importorskip("transformers", reason="comes with the extra `learn`")

from typer.testing import CliRunner  # noqa: E402

from sanitize import train  # noqa: E402
from sanitize.errors import InputRefused, LeakFound, OutputBroken, UsageError  # noqa: E402
from sanitize.eval.cli import app  # noqa: E402
from sanitize.eval.language_model import LanguageModel  # noqa: E402
from sanitize.eval.recovery_attacks import round_to_four_bits  # noqa: E402
from sanitize.eval.trained_documents import TrainedDocuments, read_trained_documents  # noqa: E402
from sanitize.eval.unlearning_receipt import (  # noqa: E402
    FINDS_NOTHING,
    PROVES_NOTHING,
    _find_forgotten_addresses,
    _find_recovered,
    _knows_documents,
    _score_tails,
    _split_documents,
    _summarize_findings,
    format_sentences,
    make_receipt,
    write_receipt,
)
from sanitize.pipeline.run import run_with_settings  # noqa: E402
from sanitize.plans.settings import Settings  # noqa: E402
from sanitize.train.recipe import Recipe  # noqa: E402
from sanitize.train.unlearning import Dp2Unlearning, unlearn_documents  # noqa: E402

torch.set_num_threads(1)
PEOPLE = "ada bob cleo dan uwe finn gus ivo".split()
OBJECTS = (
    "pump valve router printer scanner boiler sensor cable ladder monitor freezer drill".split()
)
TOWNS = "Lyme Harwick Dunmore Tarn Velden Osby Kirkby Marl".split()
SIZES = {"arch": "gpt2", "layers": 2, "width": 64, "heads": 2, "context": 48, "dropout": 0.0}


def write_mails(path: Path, persons: list[str], per_person: int = 4, first: int = 0) -> Path:
    """Mails of some people as JSON lines, each with values that cannot be guessed."""
    lines = []
    for index, name in enumerate(persons):
        for number in range(per_person):
            draw = (index * per_person + number + first) * 7
            subject = (
                f"the {OBJECTS[draw % 12]} in {TOWNS[(draw // 3) % 8]} needs {draw % 90}"
                f" {OBJECTS[(draw // 5) % 12]}s."
            )
            # every mail begins differently
            text = (
                f"Number {index * per_person + number + first}: {subject} Write to"
                f" {name}.{name[::-1]}@example.com."
            )
            lines.append(json.dumps({"doc_id": f"{name}-{number}", "user_id": name, "text": text}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Mails, published shards of them, one person's ids by `sanitize subject`, and a model that has
    memorised them."""
    import sanitize

    folder = tmp_path_factory.mktemp("chain")
    source, control = (
        write_mails(folder / "mails.jsonl", PEOPLE),
        write_mails(folder / "control.jsonl", ["ivy", "jon"], first=40),
    )
    columns = {"text_column": ("text",), "user_column": "user_id", "id_column": "doc_id"}
    summary = run_with_settings(
        [source], folder / "clean", plan="baseline", settings=Settings(**columns, workers=1)
    )
    sanitize.subject(summary.work, ["dan.nad@example.com"], documents=folder / "ids.txt")
    table = {
        "data": {"path": str(folder / "clean"), "layout": "document"},
        "model": SIZES,
        "tokenizer": {"vocab": 420},
        "run": {
            "epochs": 70,
            "batch": 8,
            "lr": 5e-3,
            "schedule": "linear",
            "checkpoint_every": 0.0,
            "device": "cpu",
        },
    }
    train.fit(table, folder / "full")
    outputs = {name: folder / name for name in ("clean", "full")}
    return {
        "folder": folder,
        "source": source,
        "control": control,
        "ids": folder / "ids.txt",
        **outputs,
    }


def get_final_checkpoint(run: Path) -> Path:
    return run / "checkpoints" / str(json.loads((run / "train.json").read_text())["final"])


@pytest.fixture(scope="module")
def unlearned_run(trained: dict[str, Path]) -> Path:
    """The run of a gradient difference that is strong enough to forget."""
    changes = ["run.lr=5e-3", "run.epochs=8"]
    unlearn_documents(
        "gd",
        model=get_final_checkpoint(trained["full"]),
        id_list=trained["ids"],
        data=trained["clean"],
        out=trained["folder"] / "gd",
        changes=changes,
    )
    return trained["folder"] / "gd"


@pytest.mark.slow
def test_receipt_of_an_unlearned_run(
    trained: dict[str, Path], unlearned_run: Path, tmp_path: Path
) -> None:
    """The complete chain: subject, ids, unlearn, receipt. The receipt contains no text and claims
    no proof."""
    assert trained["ids"].read_text().split() == [f"dan-{number}" for number in range(4)]
    receipt = make_receipt(unlearned_run, control=trained["control"])
    assert (receipt["method"], receipt["forgotten"], receipt["kept"]) == ("gd", 4, 28)
    before, after = (receipt["attacks"][name] for name in ("before", "after"))
    assert before["forgotten"]["complete"] == 4 and before["forgotten"]["rouge_l"] == 1.0, (
        "the model must have memorised it"
    )
    assert after["forgotten"]["complete"] == 0 and after["forgotten"]["rouge_l"] < 0.7
    assert after["forgotten"]["loss"] > before["forgotten"]["loss"] + 1
    assert (
        before["kept"]["complete"] > 20 and after["kept"]["rouge_l"] > after["forgotten"]["rouge_l"]
    )
    assert before["membership"]["forgotten_against_control"]["auc"] == 1.0
    # too much forgotten or too little: both identify members, and the receipt reports it
    assert after["membership"]["forgotten_against_control"]["auc"] in (0.0, 1.0)
    assert before["addresses"]["forgotten_addresses"] == 1
    assert receipt["found"] == {
        "documents": 0,
        "addresses": 0,
        "membership": True,
        "chance_from": "control",
        "above_chance": True,
        "comes_back": {},
    }
    assert before["forgotten"]["extraction_strength"] > 0.9
    assert after["forgotten"]["extraction_strength"] < 0.5
    relearned, rounded = (
        receipt["attacks"][f"after_{name}"] for name in ("relearned", "four_bits")
    )
    assert relearned["forgotten"]["documents"] == 2 and rounded["forgotten"]["documents"] == 4
    assert 0.2 < rounded["rounded_share"] < 1
    assert relearned["relearning"] == {"documents": 2, "steps": 2, "learning_rate": 5e-3}
    # at the rate of the run before, two steps undo much
    assert relearned["forgotten"]["loss"] < 0.8 * after["forgotten"]["loss"]
    assert "addresses" not in relearned, "the only address was shown"
    assert not list(unlearned_run.glob(".receipt-*")), "the relearned model is deleted"
    assert any(line.startswith("NOT LIKE UNSEEN") for line in receipt["statements"])
    assert (
        receipt["models"]["before"]["weights_sha256"]
        != receipt["models"]["after"]["weights_sha256"]
    )
    assert PROVES_NOTHING in receipt["statements"] and FINDS_NOTHING in receipt["statements"]
    path = write_receipt(receipt, tmp_path / "receipt")
    text = path.read_text() + (tmp_path / "receipt" / "receipt.json").read_text()
    assert (
        "proves nothing" in text
        and "Not covered" in text
        and "| forgotten: generated completely | 4 of 4 | 0 of 4 | 0 of 4 |" in text
    )
    secrets = [*PEOPLE[:5], "@", *OBJECTS, *TOWNS, "dan-", str(trained["folder"])]
    # a hexadecimal number may contain ada
    text = re.sub(r"\b[0-9a-f]{16,}\b", "", text.replace(str(tmp_path), ""))
    assert not [secret for secret in secrets if secret in text]


@pytest.mark.slow
def test_a_receipt_in_bfloat16_names_it(unlearned_run: Path) -> None:
    exact, rounded = (
        make_receipt(unlearned_run, max_documents=4, **options)
        for options in ({}, {"dtype": "bfloat16"})
    )
    assert (exact["dtype"], rounded["dtype"]) == ("float32", "bfloat16")
    losses = [receipt["attacks"]["before"]["forgotten"]["loss"] for receipt in (exact, rounded)]
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], abs=0.1)
    with pytest.raises(UsageError, match="did you mean bfloat16"):
        make_receipt(unlearned_run, dtype="bfloat61")


@pytest.mark.slow
def test_documents_that_are_not_forgotten_are_reported(
    trained: dict[str, Path], tmp_path: Path
) -> None:
    """One weak step changes nothing, and the exit code shows it; the receipt is written anyway."""
    weak = tmp_path / "weak"
    unlearn_documents(
        "ga",
        model=get_final_checkpoint(trained["full"]),
        id_list=trained["ids"],
        data=trained["clean"],
        out=weak,
        changes=["run.lr=1e-6", "run.epochs=1"],
    )
    result = CliRunner().invoke(
        app,
        [
            "receipt",
            str(weak),
            "--out",
            str(tmp_path / "out"),
            "--control",
            str(trained["control"]),
            "--json",
        ],
    )
    assert isinstance(result.exception, LeakFound) and result.exception.exit_code == 4
    receipt = json.loads(result.stdout)
    assert receipt["found"]["documents"] == 4 and receipt["found"]["above_chance"]
    assert any(
        line.startswith("NOT FORGOTTEN: 4 of the documents") for line in receipt["statements"]
    )
    assert json.loads((tmp_path / "out" / "receipt.json").read_text()) == receipt
    assert "NOT FORGOTTEN" in (tmp_path / "out" / "receipt.md").read_text()


@pytest.mark.slow
def test_a_model_that_knew_nothing_has_no_receipt(trained: dict[str, Path], tmp_path: Path) -> None:
    """The command ends with 3, gives advice, and writes nothing; also against a control."""
    table = {
        "data": {"path": str(trained["clean"]), "layout": "document"},
        "model": SIZES,
        "tokenizer": {"vocab": 420},
        "run": {"max_steps": 1, "batch": 8, "lr": 1e-5, "checkpoint_every": 0.0, "device": "cpu"},
    }
    train.fit(table, tmp_path / "new")
    unlearn_documents(
        "npo",
        model=get_final_checkpoint(tmp_path / "new"),
        id_list=trained["ids"],
        data=trained["clean"],
        out=tmp_path / "forgot",
        changes=["run.epochs=1"],
    )
    result = CliRunner().invoke(
        app, ["receipt", str(tmp_path / "forgot"), "--out", str(tmp_path / "out")]
    )
    assert isinstance(result.exception, InputRefused) and result.exception.exit_code == 3
    assert "nothing of the 4 forgotten documents in the model before" in str(result.exception)
    assert "with --control" in str(result.exception) and not (tmp_path / "out").exists()
    with pytest.raises(InputRefused, match="was never learned$"):
        make_receipt(tmp_path / "forgot", control=trained["control"])


@pytest.mark.slow
def test_receipt_of_stages_has_their_guarantee(trained: dict[str, Path], tmp_path: Path) -> None:
    """A folder of dp2unlearning: the full model before, the newest after, the ids of the last
    request, and only its own guarantee."""
    rewritten = tmp_path / "rewritten.jsonl"
    rewritten.write_text(
        trained["source"].read_text().replace("dan.nad", "someone.enoemos").replace("Lyme", "Ely")
    )
    table = {
        "name": "stages",
        "data": {"layout": "document"},
        "model": SIZES,
        "tokenizer": {"vocab": 420},
        "run": {"epochs": 60, "batch": 8, "lr": 5e-3, "checkpoint_every": 0.0, "device": "cpu"},
        "base": {"epochs": 2},
    }
    stages = Dp2Unlearning(
        recipe=Recipe.load(table),
        data=trained["source"],
        out_folder=tmp_path / "stages",
        rewritten=rewritten,
    )
    stages.run()
    with pytest.raises(UsageError, match="nothing was forgotten here yet"):
        make_receipt(tmp_path / "stages")
    stages.run(trained["ids"])
    receipt = make_receipt(
        tmp_path / "stages", retrained=tmp_path / "stages" / "unlearned-001", max_documents=10
    )
    assert (
        receipt["method"] == "dp2unlearning"
        and receipt["forgotten"] == 4
        and {"before", "after", "retrained", "retrained_relearned"} < set(receipt["attacks"])
    )
    assert receipt["attacks"]["after"] == receipt["attacks"]["retrained"], "the same model"
    assert (
        receipt["attacked_documents"] == {"forgotten": 4, "kept": 10}
        and receipt["found"]["chance_from"] == "retrained"
        and not receipt["found"]["above_chance"]
    )
    assert (
        receipt["guarantee"]["statement"] in receipt["statements"][-2]
        and PROVES_NOTHING not in receipt["statements"]
    )


@pytest.mark.slow
def test_invalid_inputs_are_refused(
    trained: dict[str, Path], unlearned_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "wrong.txt").write_text("dan-0\nnobody-1\n")
    with pytest.raises(UsageError, match="1 of 2 ids are not in the data") as caught:
        make_receipt(unlearned_run, forget=tmp_path / "wrong.txt")
    assert "nobody" not in str(caught.value)
    (tmp_path / "all.txt").write_text(
        "".join(f"{name}-{number}\n" for name in PEOPLE for number in range(4))
    )
    with pytest.raises(UsageError, match="no kept document"):
        make_receipt(unlearned_run, forget=tmp_path / "all.txt")
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(UsageError, match="0 of 0 ids"):
        make_receipt(unlearned_run, forget=tmp_path / "none.txt")
    with pytest.raises(InputRefused, match="one a line"):
        make_receipt(unlearned_run, forget=tmp_path / "missing.txt")
    with pytest.raises(UsageError, match="not a folder of sanitize-train unlearn"):
        make_receipt(trained["full"])
    with pytest.raises(UsageError, match="no such folder"):
        make_receipt(tmp_path / "nowhere")
    shutil.copytree(unlearned_run, tmp_path / "half")
    (tmp_path / "half" / "train.json").unlink()
    with pytest.raises(OutputBroken, match="training is not finished"):
        make_receipt(tmp_path / "half")


def test_forgotten_addresses_occur_in_forgotten_documents_only() -> None:
    texts = (
        "Ask ann@example.com or bob@example.org.",
        "Bob@example.org again, and cy@example.net twice: cy@example.net",
        "Ask bob@example.org.",
    )
    texts_of_run = TrainedDocuments(("a", "b", "c"), ("", "from dan@example.com\n", ""), texts)
    assert _find_forgotten_addresses(texts_of_run, [0, 1], [2]) == {
        "ann@example.com": 1,
        "cy@example.net": 2,
        "dan@example.com": 1,
    }
    assert _find_forgotten_addresses(texts_of_run, [2], [0, 1]) == {}


def make_attack(
    complete: int, documents: int, low: float, high: float, generated: int = 0, recombined: int = 0
) -> dict[str, Any]:
    outcome = {
        "complete": complete,
        "documents": documents,
        "complete_low": low,
        "complete_high": high,
        "rouge_l": 0.5,
    }
    return {
        "forgotten": outcome,
        "kept": outcome,
        "addresses": {
            "forgotten_addresses": 3,
            "web": {"generated": generated, "recombined": recombined},
        },
    }


def make_half_prompt_attack(
    generated: int, control_generated: int, control_addresses: int
) -> dict[str, Any]:
    attack = make_attack(0, 10, 0.0, 0.31)
    return attack | {
        "addresses": {
            "forgotten_addresses": 3,
            "first_half": {
                "generated": generated,
                "recombined": 0,
                "control_generated": control_generated,
                "control_addresses": control_addresses,
            },
        }
    }


@pytest.mark.parametrize(
    ("after", "retrained", "control", "expected"),
    [
        (
            make_attack(3, 10, 0.07, 0.65),
            None,
            None,
            (3, 0, None, True),
        ),  # chance is not known: all findings count
        (make_attack(0, 10, 0.0, 0.31), None, None, (0, 0, None, False)),
        (
            make_attack(3, 10, 0.07, 0.65),
            make_attack(1, 10, 0.0, 0.45),
            None,
            (0, 0, "retrained", False),
        ),
        (
            make_attack(10, 10, 0.69, 1.0),
            make_attack(1, 10, 0.0, 0.45),
            None,
            (10, 0, "retrained", True),
        ),
        (
            make_attack(10, 10, 0.69, 1.0),
            None,
            make_attack(9, 10, 0.55, 0.99),
            (0, 0, "control", False),
        ),
        (make_attack(0, 10, 0.0, 0.31, generated=2, recombined=2), None, None, (0, 0, None, False)),
        (
            make_attack(0, 10, 0.0, 0.31, generated=2),
            make_attack(0, 10, 0.0, 0.31),
            None,
            (0, 2, "retrained", True),
        ),
        (
            make_attack(0, 10, 0.0, 0.31, generated=2),
            make_attack(0, 10, 0.0, 0.31, generated=2),
            None,
            (0, 0, "retrained", False),
        ),
        (
            make_half_prompt_attack(3, 1, 2),
            None,
            make_attack(9, 10, 0.55, 0.99),
            (0, 2, "control", True),
        ),  # 3 of 3, against half of them by chance
        (
            make_half_prompt_attack(1, 2, 2),
            None,
            make_attack(9, 10, 0.55, 0.99),
            (0, 0, "control", False),
        ),
    ],
)
def test_findings_against_chance(
    after: dict[str, Any], retrained: Any, control: Any, expected: tuple[Any, ...]
) -> None:
    attacks = {"after": after | ({"control": control["forgotten"]} if control else {})}
    attacks |= {"retrained": retrained} if retrained else {}
    findings = _summarize_findings(attacks)
    assert (
        findings["documents"],
        findings["addresses"],
        findings["chance_from"],
        findings["above_chance"],
    ) == expected and not findings["membership"]


@pytest.mark.parametrize(
    ("after", "retrained", "expected"),
    [
        ((0.45, 0.7), None, False),
        ((0.55, 0.7), None, True),
        ((0.1, 0.4), None, True),  # too much forgotten
        ((0.55, 0.7), (0.3, 0.6), False),
        ((0.65, 0.9), (0.3, 0.6), True),
        ((0.1, 0.25), (0.3, 0.6), True),
    ],
)
def test_membership_counts_on_both_sides(
    after: tuple[float, float], retrained: tuple[float, float] | None, expected: bool
) -> None:
    no_leak = make_attack(0, 10, 0.0, 0.31)

    def make_membership(low: float, high: float) -> dict[str, Any]:
        return {
            "membership": {
                "forgotten_against_control": {
                    "auc": (low + high) / 2,
                    "auc_low": low,
                    "auc_high": high,
                }
            }
        }

    attacks = {"after": no_leak | make_membership(*after) | {"control": no_leak["forgotten"]}}
    attacks |= {} if retrained is None else {"retrained": no_leak | make_membership(*retrained)}
    findings = _summarize_findings(attacks)
    assert findings["membership"] == findings["above_chance"] == expected


def test_sentences_report_a_loss_of_utility() -> None:
    receipt = {
        "method": "ga",
        "forgotten": 1,
        "kept": 1,
        "found": {
            "documents": 0,
            "addresses": 2,
            "membership": False,
            "chance_from": None,
            "above_chance": True,
            "comes_back": {"four_bits": {"documents": 1, "addresses": 0, "membership": True}},
        },
        "attacks": {"before": make_attack(1, 1, 0.0, 1.0), "after": make_attack(0, 1, 0.0, 1.0)},
    }
    receipt["attacks"]["after"]["kept"] = {**receipt["attacks"]["after"]["kept"], "rouge_l": 0.1}
    text = " ".join(format_sentences(receipt))
    assert "loss of utility" in text and "2 mail addresses" in text and "proves nothing" in text
    assert (
        "COMES BACK with weights rounded to four bits: complete documents generated: 1; the"
        " loss distinguishes the documents from unseen ones."
    ) in text


def test_prompts_and_texts_of_a_run(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "ask": "Who?", "more": "", "answer": "Ann."},
        {"id": 2, "ask": "What?", "more": "Now.", "answer": ""},
        {"id": 3, "answer": "Bob."},
    ]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"ask": None, "more": None} | row) + "\n" for row in rows)
    )
    data = {
        "path": str(tmp_path / "rows.jsonl"),
        "text_column": "answer",
        "id_column": "id",
        "prompt_columns": ["ask", "more"],
    }
    (tmp_path / "recipe.json").write_text(
        json.dumps({"recipe": {"data": {**data, "prompts": "include"}}})
    )
    assert read_trained_documents(tmp_path / "recipe.json") == TrainedDocuments(
        ("1", "3"), ("Who?\n", ""), ("Ann.", "Bob.")
    )
    (tmp_path / "recipe.json").write_text(
        json.dumps({"recipe": {"data": {**data, "prompts": "remove"}}})
    )
    assert read_trained_documents(tmp_path / "recipe.json").prompts == ("", "")
    assert len(read_trained_documents(tmp_path / "recipe.json").subsample(1)) == 1
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(OutputBroken, match="does not say what"):
        read_trained_documents(tmp_path / "recipe.json")


def test_documents_without_a_scored_token_are_left_out_of_the_loss(
    gpt2: Any, tokenizer: Any
) -> None:
    """A prompt that fills the context leaves no token of its text: its loss is unknown, not 0."""
    model = LanguageModel.from_loaded(gpt2, tokenizer)
    documents = TrainedDocuments(("1", "2"), ("x" * 80, ""), ("answer", "A text of its own."))
    heads, tails = _split_documents(model, documents)
    assert [len(tail) > 0 for tail in tails] == [False, True]
    scores = _score_tails(model, heads, tails)
    assert scores.losses.tolist() == [
        pytest.approx(
            float(model.token_losses([[*heads[1], *tails[1]]])[0][-len(tails[1]) :].mean())
        )
    ]


def test_extraction_strength_and_exact_memorization(gpt2: Any, tokenizer: Any) -> None:
    """Against greedy decoding from each place of a text: the first place from which the rest is
    generated, and the places whose next token is."""
    model = LanguageModel.from_loaded(gpt2, tokenizer)
    head = model.encode(["A text."])[0]
    [generated] = model.generate([head], new_tokens=12)
    tail = [*generated[:2], (generated[2] + 1) % gpt2.config.vocab_size]
    [rest] = model.generate([[*head, *tail]], new_tokens=5)
    tail += rest
    is_next = [
        model.generate([[*head, *tail[:place]]], new_tokens=1)[0] == [tail[place]]
        for place in range(len(tail))
    ]
    assert is_next[:2] == [True, True] and not is_next[2] and all(is_next[3:])
    scores = _score_tails(model, [head], [tail])
    assert scores.extraction_strength.tolist() == [5 / 8]
    assert scores.exact_memorization.tolist() == [7 / 8]
    none = _score_tails(model, [[]], [[]]).summarize()
    assert none["extraction_strength"] is None and none["scored_documents"] == 0


@pytest.mark.parametrize(
    ("complete", "generated", "auc", "expected"),
    [
        (0, 0, (0.4, 0.6), False),
        (1, 0, (0.4, 0.6), True),
        (0, 1, (0.4, 0.6), True),
        (0, 0, (0.6, 0.9), True),
    ],
)
def test_a_model_that_gives_one_document_knows_something(
    complete: int, generated: int, auc: tuple[float, float], expected: bool
) -> None:
    """Also where so few documents are forgotten that no interval shows it."""
    area = {"auc": sum(auc) / 2, "auc_low": auc[0], "auc_high": auc[1]}
    before = make_attack(complete, 1, 0.0, 1.0, generated=generated) | {
        "membership": {"forgotten_against_control": area},
        "control": make_attack(0, 28, 0.0, 0.123)["forgotten"],
    }
    assert _knows_documents({"before": before}) == expected


def make_found(documents: int, membership: bool = False) -> dict[str, Any]:
    return {"documents": documents, "addresses": 0, "membership": membership}


@pytest.mark.parametrize(
    ("found", "after", "retrained", "expected"),
    [
        (make_found(0), (0, 0.0, 0.31), None, {}),
        (make_found(0), (3, 0.07, 0.65), None, {"four_bits": make_found(3)}),
        (make_found(3), (3, 0.07, 0.65), None, {}),  # was not away
        (make_found(2), (5, 0.19, 0.81), None, {"four_bits": make_found(5)}),
        (make_found(0), (3, 0.07, 0.65), (2, 0.03, 0.56), {}),  # nor does the retrained one know
        (make_found(0), (10, 0.69, 1.0), (2, 0.03, 0.56), {"four_bits": make_found(10)}),
    ],
)
def test_what_comes_back(
    found: dict[str, Any], after: Any, retrained: Any, expected: dict[str, Any]
) -> None:
    def make_result(complete: int, low: float, high: float) -> dict[str, Any]:
        return make_attack(complete, 10, low, high)

    attacks = {"after_four_bits": make_result(*after), "after": make_result(0, 0.0, 0.31)}
    if retrained:
        attacks |= {
            "retrained": make_result(0, 0.0, 0.31),
            "retrained_four_bits": make_result(*retrained),
        }
    assert _find_recovered(attacks, found) == expected


def make_member_attack(auc: float, complete: int = 0) -> dict[str, Any]:
    low, high = max(auc - 0.1, 0.0), min(auc + 0.1, 1.0)
    area = {"auc": auc, "auc_low": low, "auc_high": high}
    return make_attack(complete, 10, 0.0, 0.31) | {
        "membership": {"forgotten_against_control": area}
    }


def test_losses_that_were_too_high_come_back_as_low_ones() -> None:
    attacks = {"after": make_member_attack(0.05), "after_four_bits": make_member_attack(0.95)}
    found = make_found(0, membership=True)
    assert _find_recovered(attacks, found) == {"four_bits": make_found(0, True)}
    attacks["after_four_bits"] = make_member_attack(0.1)
    assert _find_recovered(attacks, found) == {}


def test_after_relearning_documents_and_losses_need_a_retrained_model() -> None:
    """Half of the documents were shown, which makes the other half easy without any memory of
    it."""
    known = make_member_attack(0.9, complete=3)
    attacks = {"after": make_attack(0, 10, 0.0, 0.31), "after_relearned": known}
    assert _find_recovered(attacks, make_found(0)) == {}
    attacks |= {"after_four_bits": known}
    assert _find_recovered(attacks, make_found(0)) == {"four_bits": make_found(3, True)}
    attacks |= {
        "retrained": known,
        "retrained_relearned": make_member_attack(0.5),
        "retrained_four_bits": known,
    }
    assert _find_recovered(attacks, make_found(0)) == {"relearned": make_found(0, True)}


def test_rounding_to_four_bits(gpt2: Any) -> None:
    """Each group of 64 weights of an output has at most 16 values, none further from its weight
    than half a step; embeddings, norms, biases and the output layer stay."""
    rounded = copy.deepcopy(gpt2)
    share = round_to_four_bits(rounded)
    changed = 0
    for (name, before), after in zip(gpt2.named_parameters(), rounded.parameters(), strict=True):
        if before.ndim < 2 or "wte" in name or "wpe" in name:
            assert torch.equal(before, after), name
            continue
        changed += before.numel()
        # Conv1D: [inputs, outputs]
        for old, new in zip(before.T.split(64, dim=1), after.T.split(64, dim=1), strict=True):
            half_step = (old.amax(1) - old.amin(1)) / 15 / 2
            assert ((old - new).abs().amax(1) <= half_step * 1.001 + 1e-7).all()
            assert all(len(row.unique()) <= 16 for row in new)
            assert old.shape[1] <= 16 or not torch.equal(old, new)
    assert 0 < share == pytest.approx(changed / sum(one.numel() for one in gpt2.parameters()))
