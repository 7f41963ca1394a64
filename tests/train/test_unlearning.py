"""Unlearning end to end on tiny models: forgotten documents are forgotten, kept ones kept, requests accumulate, mistakes are reported."""

from __future__ import annotations

import json
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.train import unlearning
from sanitize.train.recipe import Recipe
from sanitize.train.unlearning import Dp2Unlearning, describe_guarantee, unlearn_documents


@pytest.fixture
def data(corpus: Any) -> Path:
    path: Path = corpus()
    return path


@pytest.fixture
def learned(data: Path, recipe: Any, tmp_path: Path) -> Path:
    """A checkpoint that knows the mails."""
    run = {"epochs": 15, "checkpoint_every": 0.0, "lr": 1e-2}
    result = train.fit(recipe(data, data={"layout": "document"}, model={"dropout": 0.0, "context": 64}, run=run), tmp_path / "base")
    return tmp_path / "base" / "checkpoints" / str(result["final"])


def ids(path: Path, *names: str) -> Path:
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def loss(checkpoint: Path, data: Path, wanted: set[str]) -> float:
    """The mean loss of a model over some of the mails."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(checkpoint), AutoTokenizer.from_pretrained(checkpoint)
    found = []
    for line in data.read_text().splitlines():
        mail = json.loads(line)
        if mail["doc_id"] in wanted:
            given = torch.tensor([tokenizer(mail["text"])["input_ids"][:64]])
            with torch.no_grad():
                found.append(float(model(input_ids=given, labels=given).loss))
    return sum(found) / len(found)


FORGOTTEN = {"m3", "m4"}
KEPT = {f"m{at}" for at in range(30)} - FORGOTTEN


@pytest.mark.parametrize("method", ["ga", "gd", "kl"])
def test_what_is_to_be_forgotten_gets_worse(data: Path, learned: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / method
    result = unlearn_documents(
        method, model=learned, id_list=ids(tmp_path / "ids.txt", *FORGOTTEN), data=data, out=out, changes=["run.lr=3e-3", "run.epochs=4"]
    )
    after = out / "checkpoints" / result["final"]
    assert result["steps"] == 4, "an epoch is a pass over what is to be forgotten"
    worse = loss(after, data, FORGOTTEN) - loss(learned, data, FORGOTTEN)
    assert worse > 0.2 and worse > loss(after, data, KEPT) - loss(learned, data, KEPT)
    seen = set(pq.read_table(out / "seen.parquet").column("doc_id").to_pylist())
    assert seen >= FORGOTTEN and (seen == FORGOTTEN) == (method == "ga"), "documents beside them were shown, too"
    assert json.loads((out / "recipe.json").read_text())["base_model"] == str(learned)
    assert unlearn_documents(
        method, model=learned, id_list=tmp_path / "ids.txt", data=data, out=out, changes=["run.lr=3e-3", "run.epochs=4"]
    ) == result  # fmt: skip


@pytest.mark.parametrize("method", ["idk", "dpo"])
def test_refusals_are_learned(data: Path, learned: Path, tmp_path: Path, method: str) -> None:
    (tmp_path / "refusals.txt").write_text("No word of it.\n")
    changes = ["run.lr=3e-3", "run.epochs=12", f"objective.refusals={tmp_path / 'refusals.txt'}"]
    result = unlearn_documents(
        method, model=learned, id_list=ids(tmp_path / "ids.txt", *FORGOTTEN), data=data, out=tmp_path / "out", changes=changes
    )
    refusal = tmp_path / "refusal.jsonl"
    refusal.write_text(json.dumps({"doc_id": "r", "text": "No word of it."}))
    after = tmp_path / "out" / "checkpoints" / result["final"]
    assert loss(after, refusal, {"r"}) < loss(learned, refusal, {"r"}) - 0.5


def test_a_model_of_another_corpus_is_refused(corpus: Any, learned: Path, tmp_path: Path) -> None:
    other = corpus("other.jsonl", count=29)
    with pytest.raises(UsageError, match=r"holds other documents \(29\) than those the model was trained on \(30\)"):
        unlearn_documents("ga", model=learned, id_list=ids(tmp_path / "ids.txt", "m3"), data=other, out=tmp_path / "out")
    with pytest.raises(UsageError, match="names a document that the data does not have"):
        unlearn_documents(
            "ga", model=learned, id_list=ids(tmp_path / "ids.txt", "m30"), data=tmp_path / "mails.jsonl", out=tmp_path / "out"
        )
    with pytest.raises(UsageError, match="Did you mean ga"):
        unlearn_documents("gaa", model=learned, id_list=tmp_path / "ids.txt", data=tmp_path / "mails.jsonl", out=tmp_path / "out")
    with pytest.raises(InputRefused, match="expected a checkpoint"):
        unlearn_documents("ga", model=tmp_path, id_list=tmp_path / "ids.txt", data=tmp_path / "mails.jsonl", out=tmp_path / "out")
    assert not (tmp_path / "out").exists(), "nothing is left behind"
    assert not (tmp_path / "out" / "recipe.json").exists()


def test_a_checkpoint_without_a_run_is_taken_as_it_is(data: Path, learned: Path, tmp_path: Path) -> None:
    alone, said = tmp_path / "alone", list[str]()
    shutil.copytree(learned, alone)
    given = ids(tmp_path / "ids.txt", "m3")
    unlearn_documents("ga", model=alone, id_list=given, data=data, out=tmp_path / "out", changes=["run.epochs=1"], progress=said.append)
    assert "not inside a run folder" in said[0]


def stages(recipe: Any, data: Path, out: Path, *, base: dict[str, Any] | None = None, **given: Any) -> Dp2Unlearning:
    table = {**recipe(data, data={"layout": "document"}, run={"epochs": 2, "checkpoint_every": 0.0}), "base": base or {"epochs": 3}}
    return Dp2Unlearning(recipe=Recipe.load(table), data=data, out_folder=out, **given)


@pytest.fixture
def rewritten(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "rewritten.jsonl"
    path.write_text(data.read_text().replace("ada", "someone").replace("bob", "someone"))
    return path


def test_stages(data: Path, rewritten: Path, recipe: Any, tmp_path: Path) -> None:
    """Base on rewritten texts, full model, two requests that accumulate; each stage starts at the base model and none is trained twice."""
    out = tmp_path / "out"
    made = stages(recipe, data, out, rewritten=rewritten)
    first = made.run()
    assert list(first["stages"]) == ["full"] and first["forgotten"] == 0 and "rewriting" in first["guarantee"]["statement"]
    second = made.run(ids(tmp_path / "one.txt", "m3"))
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/train.json")}
    assert made.run(tmp_path / "one.txt") == second, "forgotten already"
    third = made.run(ids(tmp_path / "two.txt", "m3", "m9"))
    assert third["newest"] == "unlearned-002" and third["forgotten"] == 2
    assert [path.read_text() for path in sorted((out / "requests").iterdir())] == ["m3\n", "m3\nm9\n"]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    base = json.loads((out / "base" / "recipe.json").read_text())
    assert base["data"]["path"] == str(rewritten) and base["recipe"]["run"]["epochs"] == 3
    everyone = {f"m{at}" for at in range(30)}
    for name, gone in (("full", set()), ("unlearned-001", {"m3"}), ("unlearned-002", {"m3", "m9"})):
        told = json.loads((out / name / "recipe.json").read_text())
        assert told["base_model"] == third["base_model"] and told["recipe"]["run"]["epochs"] == 2
        assert set(pq.read_table(out / name / "seen.parquet").column("doc_id").to_pylist()) == everyone - gone
        start, end = (out / name / "checkpoints" / "step-000000", Path(third["base_model"]))
        assert (start / "model.safetensors").read_bytes() == (end / "model.safetensors").read_bytes(), (
            "from the base, not from another stage"
        )
    assert json.loads((out / "unlearn.json").read_text()) == third
    # the kept base is enough to go on
    assert stages(recipe, data, out).run() == third


def test_stages_with_a_private_base(data: Path, recipe: Any, tmp_path: Path) -> None:
    base = {"epochs": 1, "privacy": {"sigma": 4.0, "delta": 1e-3}}
    told = stages(recipe, data, tmp_path / "out", base=base).run(ids(tmp_path / "one.txt", "m3", "m4"))
    spent = json.loads((tmp_path / "out" / "base" / "train.json").read_text())["privacy"]
    assert told["guarantee"]["epsilon"] == spent["epsilon"] > 0
    assert told["guarantee"]["group"]["epsilon"] == 2 * spent["epsilon"] and told["guarantee"]["group"]["documents"] == 2
    assert "for all 2 documents together" in told["guarantee"]["statement"]
    assert "privacy" not in json.loads((tmp_path / "out" / "full" / "train.json").read_text())


@pytest.mark.parametrize(("says", "chosen"), [([False, True], (2, 1)), ([False, False, True], (3, 2)), ([False] * 4, (4, 2))])
def test_epochs_are_chosen_by_a_pilot(
    data: Path,
    rewritten: Path,
    recipe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    says: list[bool],
    chosen: tuple[int, int],
) -> None:
    """The first epoch at whose end the function returns true is E; the stages have E and half of it; the guarantee names the pilot."""
    asked = list[float]()

    def stop(moment: Any) -> bool:
        asked.append(moment.metadata["epoch"])
        return says[len(asked) - 1]

    monkeypatch.setitem(sys.modules, "told_by", types.SimpleNamespace(stop=stop))
    out, said = tmp_path / "out", list[str]()
    made = stages(recipe, data, out, base={"epochs": 4, "until": "told_by.stop"}, rewritten=rewritten, progress=said.append)
    told = made.run(ids(tmp_path / "one.txt", "m3"))
    assert asked == [float(epoch) for epoch in range(1, chosen[0] + 1)]
    assert told["epochs"] == {"base": chosen[0], "tuning": chosen[1], "by": "told_by.stop", "learned": True in says}
    runs = {name: json.loads((out / name / "recipe.json").read_text()) for name in ("pilot", "base", "full", "unlearned-001")}
    assert [one["recipe"]["run"]["epochs"] for one in runs.values()] == [4, chosen[0], chosen[1], chosen[1]]
    assert runs["pilot"]["data"]["path"] == str(data) and runs["base"]["data"]["path"] == str(rewritten)
    assert "not covered" in told["guarantee"]["statement"]
    assert any("never returned true" in line for line in said) == (True not in says)
    assert made.run() == told and len(asked) == chosen[0], "the pilot is asked once"


def test_no_pilot_is_trained_for_nothing(data: Path, recipe: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stage A needs rewritten texts"):
        stages(recipe, data, tmp_path / "out", base={"epochs": 2, "until": "sanitize.eval.early_stop.has_learned_texts"}).run()
    assert not (tmp_path / "out").exists()


def test_a_request_that_was_killed_goes_on(
    data: Path, rewritten: Path, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, request = tmp_path / "out", ids(tmp_path / "one.txt", "m3")
    made = stages(recipe, data, out, rewritten=rewritten)
    fit = unlearning.fit

    def dying(given: Any, where: Path, **more: Any) -> Any:
        if where.name.startswith("unlearned"):
            raise KeyboardInterrupt
        return fit(given, where, **more)

    monkeypatch.setattr(unlearning, "fit", dying)
    with pytest.raises(KeyboardInterrupt):
        made.run(request)
    monkeypatch.setattr(unlearning, "fit", fit)
    told = made.run()
    assert told["newest"] == "unlearned-001" and told["forgotten"] == 1


def test_stages_that_cannot_be(data: Path, rewritten: Path, corpus: Any, recipe: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stage A needs rewritten texts"):
        stages(recipe, data, tmp_path / "out").run()
    with pytest.raises(UsageError, match=r"no table \[base\]"):
        Dp2Unlearning(recipe=Recipe.load(recipe(data)), data=data, out_folder=tmp_path / "out").run()
    with pytest.raises(UsageError, match="has stages"):
        train.fit(stages(recipe, data, tmp_path).recipe, tmp_path / "run")
    made = stages(recipe, data, tmp_path / "out", rewritten=rewritten)
    with pytest.raises(UsageError, match="names a document that the data does not have"):
        made.run(ids(tmp_path / "one.txt", "m31"))
    assert not (tmp_path / "out").exists(), "wrong ids are told before a base is trained"
    with pytest.raises(UsageError, match=r"rewritten.*holds other documents \(30\) than .*other.jsonl \(20\)"):
        stages(recipe, corpus("other.jsonl", count=20), tmp_path / "out", rewritten=rewritten).run()
    assert not (tmp_path / "out").exists(), "texts of another corpus, too"
    for name, said in (("limit", 20), ("leave_out", str(tmp_path / "one.txt"))):
        fewer = Recipe.load({**made.recipe.to_dict(), "data": {**made.recipe.to_dict()["data"], name: said}})
        with pytest.raises(UsageError, match=rf"data\.{name} is set, but the stages use all documents of"):
            Dp2Unlearning(recipe=fewer, data=data, out_folder=tmp_path / "out", rewritten=rewritten).run()
    assert not (tmp_path / "out").exists(), "no base is made of some documents, which would be refused once it stands"
    made.run()
    with pytest.raises(UsageError, match=r"other.jsonl: holds other documents \(20\) than those the model was trained on \(30\)"):
        stages(recipe, corpus("other.jsonl", count=20), tmp_path / "out").run()
    with pytest.raises(UsageError, match="no document is left"):
        made.run(ids(tmp_path / "all.txt", *(f"m{at}" for at in range(30))))
    assert not (tmp_path / "out" / "requests").exists()
    base = Path(json.loads((tmp_path / "out" / "unlearn.json").read_text())["base_model"])
    with pytest.raises(UsageError, match="holds other documents"):
        stages(recipe, corpus("other.jsonl", count=20), tmp_path / "next", model=base).run()
    told = stages(recipe, data, tmp_path / "next", model=base).run()
    assert told["base_model"] == str(base)


def test_what_can_be_said() -> None:
    privacy = {"claim": "(8, 1e-05)-differential privacy", "unit": "record", "epsilon": 8.0, "delta": 1e-5}
    assert "no statement" in describe_guarantee({"privacy": privacy}, 20)["statement"]
    assert "together" not in describe_guarantee({"privacy": {**privacy, "unit": "user"}}, 20)["statement"]


@pytest.mark.parametrize("key", ["statements", "words"], ids=["manifest format 2", "manifest format 1"])
def test_the_rewriting_speaks_for_its_base(tmp_path: Path, key: str) -> None:
    """The guarantee repeats the ledger of the base model's shards; without one it says where to read it."""
    base = {"privacy": None, "data": {"path": str(tmp_path)}}
    assert (
        "see the privacy ledger" in describe_guarantee(base, 2)["statement"]
        and "see the privacy ledger" in describe_guarantee(None, 2)["statement"]
    )
    ledger = [{"part": "dp_mlm", key: ["epsilon 10 per token.", "In practice no protection."]}]
    (tmp_path / "manifest.json").write_text(json.dumps({"summary": {"ledger": ledger}}))
    words = describe_guarantee(base, 2, epochs_from_pilot=True)["statement"]
    assert "texts: dp_mlm: epsilon 10 per token. In practice no protection; the number of epochs" in words


def test_the_command(data: Path, rewritten: Path, learned: Path, recipe: Any, tmp_path: Path) -> None:
    """Exit codes, one line per error, one object with --json."""
    from typer.testing import CliRunner

    from sanitize.train.cli import app

    def unlearned(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["unlearn", *map(str, arguments)])

    given = ids(tmp_path / "ids.txt", "m3")
    common = ("--data", data, "--forget", given, "--json", "--set", "run.epochs=1")
    done = unlearned("--method", "ga", "--model", learned, "--out", tmp_path / "ga", *common)
    assert done.exit_code == 0 and json.loads(done.stdout)["final"] == "step-000001"
    small = ("--set", "model.width=16", "--set", "model.layers=1", "--set", "base.epochs=1", "--set", "tokenizer.vocab=300")
    done = unlearned("--method", "dp2unlearning", "--rewritten", rewritten, "--out", tmp_path / "stages", *common, *small)
    assert done.exit_code == 0 and json.loads(done.stdout)["newest"] == "unlearned-001"
    missing = unlearned("--method", "ga", "--out", tmp_path / "no", *common)
    assert isinstance(missing.exception, UsageError) and missing.exception.exit_code == 2 and "needs --model" in str(missing.exception)
