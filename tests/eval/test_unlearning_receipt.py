"""The unlearning receipt: from a person's address to the results of attacks afterwards. All people are invented."""

from __future__ import annotations

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
from sanitize.eval.training_texts import TrainingTexts, read_training_texts  # noqa: E402
from sanitize.eval.unlearning_receipt import (  # noqa: E402
    FINDS_NOTHING,
    PROVES_NOTHING,
    _find_forgotten_addresses,
    _summarize_findings,
    format_sentences,
    make_receipt,
    write_receipt,
)
from sanitize.train.recipe import Recipe  # noqa: E402
from sanitize.train.unlearning import Dp2Unlearning, unlearn_documents  # noqa: E402

torch.set_num_threads(1)
PEOPLE = "ada bob cleo dan uwe finn gus ivo".split()
THINGS = "pump valve router printer scanner boiler sensor cable ladder monitor freezer drill".split()
PLACES = "Lyme Harwick Dunmore Tarn Velden Osby Kirkby Marl".split()
SIZES = {"arch": "gpt2", "layers": 2, "width": 64, "heads": 2, "context": 48, "dropout": 0.0}


def mails(path: Path, people: list[str], each: int = 4, first: int = 0) -> Path:
    """Mails of some people as JSON lines, each with values that cannot be guessed."""
    lines = []
    for at, name in enumerate(people):
        for number in range(each):
            draw = (at * each + number + first) * 7
            about = f"the {THINGS[draw % 12]} in {PLACES[(draw // 3) % 8]} needs {draw % 90} {THINGS[(draw // 5) % 12]}s."
            text = f"Number {at * each + number + first}: {about} Write to {name}.{name[::-1]}@example.com."  # no two begin alike
            lines.append(json.dumps({"doc_id": f"{name}-{number}", "user_id": name, "text": text}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Mails, published shards of them, one person's ids by `sanitize subject`, and a model that has memorised them."""
    import sanitize
    from sanitize.readers.survey import Roles

    folder = tmp_path_factory.mktemp("chain")
    source, control = mails(folder / "mails.jsonl", PEOPLE), mails(folder / "control.jsonl", ["ivy", "jon"], first=40)
    columns = sanitize.Columns(roles=Roles(text=("text",), user="user_id", id="doc_id"))
    told = sanitize.run([source], folder / "clean", plan="baseline", settings=sanitize.Settings(columns=columns, workers=1))
    sanitize.subject(told["work"], ["dan.nad@example.com"], documents=folder / "ids.txt")
    table = {
        "data": {"path": str(folder / "clean"), "layout": "document"},
        "model": SIZES,
        "tokenizer": {"vocab": 420},
        "run": {"epochs": 70, "batch": 8, "lr": 5e-3, "schedule": "linear", "checkpoint_every": 0.0, "device": "cpu"},
    }
    train.fit(table, folder / "full")
    made = {name: folder / name for name in ("clean", "full")}
    return {"folder": folder, "source": source, "control": control, "ids": folder / "ids.txt", **made}


def last(run: Path) -> Path:
    return run / "checkpoints" / str(json.loads((run / "train.json").read_text())["final"])


@pytest.fixture(scope="module")
def forgotten(made: dict[str, Path]) -> Path:
    """The run of a gradient difference that is strong enough."""
    changes = ["run.lr=5e-3", "run.epochs=8"]
    unlearn_documents("gd", model=last(made["full"]), id_list=made["ids"], data=made["clean"], out=made["folder"] / "gd", changes=changes)
    return made["folder"] / "gd"


def test_from_an_address_to_a_receipt(made: dict[str, Path], forgotten: Path, tmp_path: Path) -> None:
    """The whole chain: subject, ids, unlearn, receipt; it contains nothing of the texts, and no promise."""
    assert made["ids"].read_text().split() == [f"dan-{number}" for number in range(4)]
    told = make_receipt(forgotten, control=made["control"])
    assert (told["method"], told["forgotten"], told["kept"]) == ("gd", 4, 28)
    before, after = (told["attacks"][name] for name in ("before", "after"))
    assert before["forgotten"]["complete"] == 4 and before["forgotten"]["rouge_l"] == 1.0, "it was known by heart"
    assert after["forgotten"]["complete"] == 0 and after["forgotten"]["rouge_l"] < 0.7
    assert after["forgotten"]["loss"] > before["forgotten"]["loss"] + 1
    assert before["kept"]["complete"] > 20 and after["kept"]["rouge_l"] > after["forgotten"]["rouge_l"]
    assert before["membership"]["forgotten_against_control"]["auc"] == 1.0
    # forgotten by far too much, or not enough: either gives them away, and the receipt says so
    assert after["membership"]["forgotten_against_control"]["auc"] in (0.0, 1.0)
    assert before["addresses"]["forgotten_addresses"] == 1
    assert told["found"] == {"documents": 0, "addresses": 0, "membership": True, "chance_from": "control", "above_chance": True}
    assert any(line.startswith("NOT LIKE UNSEEN") for line in told["statements"])
    assert told["models"]["before"]["weights_sha256"] != told["models"]["after"]["weights_sha256"]
    assert PROVES_NOTHING in told["statements"] and FINDS_NOTHING in told["statements"]
    place = write_receipt(told, tmp_path / "receipt")
    text = place.read_text() + (tmp_path / "receipt" / "receipt.json").read_text()
    assert "proves nothing" in text and "Not covered" in text and "| forgotten: generated completely | 4 of 4 | 0 of 4 |" in text
    secrets = [*PEOPLE[:5], "@", *THINGS, *PLACES, "dan-", str(made["folder"])]
    text = re.sub(r"\b[0-9a-f]{16,}\b", "", text.replace(str(tmp_path), ""))  # in hexadecimal, ada is a number
    assert not [one for one in secrets if one in text]


def test_a_model_that_still_knows_is_said_to(made: dict[str, Path], tmp_path: Path) -> None:
    """One weak step changes nothing, and the exit code shows it; the receipt is written all the same."""
    weak = tmp_path / "weak"
    unlearn_documents(
        "ga", model=last(made["full"]), id_list=made["ids"], data=made["clean"], out=weak, changes=["run.lr=1e-6", "run.epochs=1"]
    )
    ran = CliRunner().invoke(app, ["receipt", str(weak), "--out", str(tmp_path / "out"), "--control", str(made["control"]), "--json"])
    assert isinstance(ran.exception, LeakFound) and ran.exception.exit_code == 4
    told = json.loads(ran.stdout)
    assert told["found"]["documents"] == 4 and told["found"]["above_chance"]
    assert any(line.startswith("NOT FORGOTTEN: 4 of the documents") for line in told["statements"])
    assert json.loads((tmp_path / "out" / "receipt.json").read_text()) == told
    assert "NOT FORGOTTEN" in (tmp_path / "out" / "receipt.md").read_text()


def test_stages_tell_their_guarantee(made: dict[str, Path], tmp_path: Path) -> None:
    """A folder of dp2unlearning: the full model before, the newest after, the list of the last request; its guarantee and no other."""
    rewritten = tmp_path / "rewritten.jsonl"
    rewritten.write_text(made["source"].read_text().replace("dan.nad", "someone.enoemos").replace("Lyme", "Ely"))
    table = {
        "name": "stages",
        "data": {"layout": "document"},
        "model": SIZES,
        "tokenizer": {"vocab": 420},
        "run": {"epochs": 2, "batch": 8, "lr": 1e-2, "checkpoint_every": 0.0, "device": "cpu"},
        "base": {"epochs": 2},
    }
    stages = Dp2Unlearning(recipe=Recipe.load(table), data=made["source"], out_folder=tmp_path / "stages", rewritten=rewritten)
    stages.run()
    with pytest.raises(UsageError, match="nothing was forgotten here yet"):
        make_receipt(tmp_path / "stages")
    stages.run(made["ids"])
    told = make_receipt(tmp_path / "stages", retrained=tmp_path / "stages" / "unlearned-001", max_documents=10)
    assert told["method"] == "dp2unlearning" and told["forgotten"] == 4 and set(told["attacks"]) == {"before", "after", "retrained"}
    assert told["attacks"]["after"] == told["attacks"]["retrained"], "the same model"
    assert (
        told["attacked_documents"] == {"forgotten": 4, "kept": 10}
        and told["found"]["chance_from"] == "retrained"
        and not told["found"]["above_chance"]
    )
    assert told["guarantee"]["statement"] in told["statements"][-2] and PROVES_NOTHING not in told["statements"]


def test_what_does_not_fit_is_refused(made: dict[str, Path], forgotten: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_text("dan-0\nnobody-1\n")
    with pytest.raises(UsageError, match="1 of 2 ids are not in the data") as caught:
        make_receipt(forgotten, forget=tmp_path / "wrong.txt")
    assert "nobody" not in str(caught.value)
    (tmp_path / "all.txt").write_text("".join(f"{name}-{number}\n" for name in PEOPLE for number in range(4)))
    with pytest.raises(UsageError, match="no kept document"):
        make_receipt(forgotten, forget=tmp_path / "all.txt")
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(UsageError, match="0 of 0 ids"):
        make_receipt(forgotten, forget=tmp_path / "none.txt")
    with pytest.raises(InputRefused, match="one a line"):
        make_receipt(forgotten, forget=tmp_path / "missing.txt")
    with pytest.raises(UsageError, match="not a folder of sanitize-train unlearn"):
        make_receipt(made["full"])
    with pytest.raises(UsageError, match="no such folder"):
        make_receipt(tmp_path / "nowhere")
    shutil.copytree(forgotten, tmp_path / "half")
    (tmp_path / "half" / "train.json").unlink()
    with pytest.raises(OutputBroken, match="training is not finished"):
        make_receipt(tmp_path / "half")


def test_own_addresses_are_those_of_forgotten_documents_alone() -> None:
    texts = (
        "Ask ann@example.com or bob@example.org.",
        "Bob@example.org again, and cy@example.net twice: cy@example.net",
        "Ask bob@example.org.",
    )
    them = TrainingTexts(("a", "b", "c"), ("", "from dan@example.com\n", ""), texts)
    assert _find_forgotten_addresses(them, [0, 1], [2]) == {"ann@example.com": 1, "cy@example.net": 2, "dan@example.com": 1}
    assert _find_forgotten_addresses(them, [2], [0, 1]) == {}


def attack(whole: int, of: int, low: float, high: float, said: int = 0, made_up: int = 0) -> dict[str, Any]:
    one = {"complete": whole, "documents": of, "complete_low": low, "complete_high": high, "rouge_l": 0.5}
    return {"forgotten": one, "kept": one, "addresses": {"forgotten_addresses": 3, "web": {"generated": said, "recombined": made_up}}}


def half_said(said: int, control_said: int, control: int) -> dict[str, Any]:
    one = attack(0, 10, 0.0, 0.31)
    return one | {
        "addresses": {
            "forgotten_addresses": 3,
            "first_half": {"generated": said, "recombined": 0, "control_generated": control_said, "control_addresses": control},
        }
    }


@pytest.mark.parametrize(
    ("after", "retrained", "control", "found"),
    [
        (attack(3, 10, 0.07, 0.65), None, None, (3, 0, None, True)),  # chance is not known: everything counts
        (attack(0, 10, 0.0, 0.31), None, None, (0, 0, None, False)),
        (attack(3, 10, 0.07, 0.65), attack(1, 10, 0.0, 0.45), None, (0, 0, "retrained", False)),
        (attack(10, 10, 0.69, 1.0), attack(1, 10, 0.0, 0.45), None, (10, 0, "retrained", True)),
        (attack(10, 10, 0.69, 1.0), None, attack(9, 10, 0.55, 0.99), (0, 0, "control", False)),
        (attack(0, 10, 0.0, 0.31, said=2, made_up=2), None, None, (0, 0, None, False)),
        (attack(0, 10, 0.0, 0.31, said=2), attack(0, 10, 0.0, 0.31), None, (0, 2, "retrained", True)),
        (attack(0, 10, 0.0, 0.31, said=2), attack(0, 10, 0.0, 0.31, said=2), None, (0, 0, "retrained", False)),
        (half_said(3, 1, 2), None, attack(9, 10, 0.55, 0.99), (0, 2, "control", True)),  # 3 of 3, and by chance half of 3
        (half_said(1, 2, 2), None, attack(9, 10, 0.55, 0.99), (0, 0, "control", False)),
    ],
)
def test_what_counts_as_found(after: dict[str, Any], retrained: Any, control: Any, found: tuple[Any, ...]) -> None:
    attacks = {"after": after | ({"control": control["forgotten"]} if control else {})}
    attacks |= {"retrained": retrained} if retrained else {}
    told = _summarize_findings(attacks)
    assert (told["documents"], told["addresses"], told["chance_from"], told["above_chance"]) == found and not told["membership"]


@pytest.mark.parametrize(
    ("after", "retrained", "found"),
    [
        ((0.45, 0.7), None, False),
        ((0.55, 0.7), None, True),
        ((0.1, 0.4), None, True),  # too much forgotten
        ((0.55, 0.7), (0.3, 0.6), False),
        ((0.65, 0.9), (0.3, 0.6), True),
        ((0.1, 0.25), (0.3, 0.6), True),
    ],
)
def test_membership_counts_on_both_sides(after: tuple[float, float], retrained: tuple[float, float] | None, found: bool) -> None:
    nothing = attack(0, 10, 0.0, 0.31)

    def area(low: float, high: float) -> dict[str, Any]:
        return {"membership": {"forgotten_against_control": {"auc": (low + high) / 2, "auc_low": low, "auc_high": high}}}

    attacks = {"after": nothing | area(*after) | {"control": nothing["forgotten"]}}
    attacks |= {} if retrained is None else {"retrained": nothing | area(*retrained)}
    told = _summarize_findings(attacks)
    assert told["membership"] == told["above_chance"] == found


def test_words_name_a_loss_of_utility() -> None:
    told = {
        "method": "ga", "forgotten": 1, "kept": 1,
        "found": {"documents": 0, "addresses": 2, "membership": False, "chance_from": None, "above_chance": True},
        "attacks": {"before": attack(1, 1, 0.0, 1.0), "after": attack(0, 1, 0.0, 1.0)},
    }  # fmt: skip
    told["attacks"]["after"]["kept"] = {**told["attacks"]["after"]["kept"], "rouge_l": 0.1}
    said = " ".join(format_sentences(told))
    assert "loss of utility" in said and "2 mail addresses" in said and "proves nothing" in said


def test_prompts_and_texts_of_a_run(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "ask": "Who?", "more": "", "answer": "Ann."},
        {"id": 2, "ask": "What?", "more": "Now.", "answer": ""},
        {"id": 3, "answer": "Bob."},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"ask": None, "more": None} | row) + "\n" for row in rows))
    data = {"path": str(tmp_path / "rows.jsonl"), "text_column": "answer", "id_column": "id", "prompt_columns": ["ask", "more"]}
    (tmp_path / "recipe.json").write_text(json.dumps({"recipe": {"data": {**data, "prompts": "include"}}}))
    assert read_training_texts(tmp_path / "recipe.json") == TrainingTexts(("1", "3"), ("Who?\n", ""), ("Ann.", "Bob."))
    (tmp_path / "recipe.json").write_text(json.dumps({"recipe": {"data": {**data, "prompts": "remove"}}}))
    assert read_training_texts(tmp_path / "recipe.json").prompts == ("", "")
    assert len(read_training_texts(tmp_path / "recipe.json").subsample(1)) == 1
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(OutputBroken, match="does not say what"):
        read_training_texts(tmp_path / "recipe.json")
