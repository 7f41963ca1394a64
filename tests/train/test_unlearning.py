"""Unlearning end to end on tiny models: the loss of forgotten documents grows, requests accumulate,
mistakes are reported."""

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


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder that `base_checkpoint` copies; the first test that needs it trains it."""
    return tmp_path_factory.mktemp("trained") / "base"


@pytest.fixture
def base_checkpoint(data: Path, recipe: Any, tmp_path: Path, trained_once: Path) -> Path:
    """A checkpoint that was trained on the mails."""
    if not trained_once.exists():
        run = {"epochs": 15, "checkpoint_every": 0.0, "lr": 1e-2}
        train.fit(
            recipe(
                data, data={"layout": "document"}, model={"dropout": 0.0, "context": 64}, run=run
            ),
            trained_once,
        )
    shutil.copytree(trained_once, tmp_path / "base")
    return (
        tmp_path
        / "base"
        / "checkpoints"
        / str(json.loads((trained_once / "train.json").read_text())["final"])
    )


def write_ids(path: Path, *names: str) -> Path:
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def mean_loss(checkpoint: Path, data: Path, doc_ids: set[str]) -> float:
    """The mean loss of a model over some of the mails."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(checkpoint),
        AutoTokenizer.from_pretrained(checkpoint),
    )
    losses = []
    for line in data.read_text().splitlines():
        mail = json.loads(line)
        if mail["doc_id"] in doc_ids:
            token_ids = torch.tensor([tokenizer(mail["text"])["input_ids"][:64]])
            with torch.no_grad():
                losses.append(float(model(input_ids=token_ids, labels=token_ids).loss))
    return sum(losses) / len(losses)


FORGOTTEN = {"m3", "m4"}
KEPT = {f"m{number}" for number in range(30)} - FORGOTTEN


@pytest.mark.parametrize("method", ["ga", "gd", "kl"])
def test_the_loss_of_forgotten_documents_grows(
    data: Path, base_checkpoint: Path, tmp_path: Path, method: str
) -> None:
    out = tmp_path / method
    result = unlearn_documents(
        method,
        model=base_checkpoint,
        id_list=write_ids(tmp_path / "ids.txt", *FORGOTTEN),
        data=data,
        out=out,
        changes=["run.lr=3e-3", "run.epochs=4"],
    )
    after = out / "checkpoints" / result.final
    assert result.steps == 4, "an epoch is a pass over the documents to forget"
    increase = mean_loss(after, data, FORGOTTEN) - mean_loss(base_checkpoint, data, FORGOTTEN)
    assert increase > 0.2 and increase > mean_loss(after, data, KEPT) - mean_loss(
        base_checkpoint, data, KEPT
    )
    seen_doc_ids = set(pq.read_table(out / "seen.parquet").column("doc_id").to_pylist())
    assert seen_doc_ids >= FORGOTTEN and (seen_doc_ids == FORGOTTEN) == (method == "ga"), (
        "retained documents were used, too"
    )
    assert json.loads((out / "recipe.json").read_text())["base_model"] == str(base_checkpoint)
    assert (
        unlearn_documents(
            method,
            model=base_checkpoint,
            id_list=tmp_path / "ids.txt",
            data=data,
            out=out,
            changes=["run.lr=3e-3", "run.epochs=4"],
        )
        == result
    )


@pytest.mark.parametrize("method", ["idk", "dpo"])
def test_refusals_are_learned(
    data: Path, base_checkpoint: Path, tmp_path: Path, method: str
) -> None:
    (tmp_path / "refusals.txt").write_text("No word of it.\n")
    changes = ["run.lr=3e-3", "run.epochs=12", f"objective.refusals={tmp_path / 'refusals.txt'}"]
    result = unlearn_documents(
        method,
        model=base_checkpoint,
        id_list=write_ids(tmp_path / "ids.txt", *FORGOTTEN),
        data=data,
        out=tmp_path / "out",
        changes=changes,
    )
    refusal = tmp_path / "refusal.jsonl"
    refusal.write_text(json.dumps({"doc_id": "r", "text": "No word of it."}))
    after = tmp_path / "out" / "checkpoints" / result.final
    assert mean_loss(after, refusal, {"r"}) < mean_loss(base_checkpoint, refusal, {"r"}) - 0.5


def test_a_model_of_another_corpus_is_refused(
    corpus: Any, base_checkpoint: Path, tmp_path: Path
) -> None:
    other_data = corpus("other.jsonl", count=29)
    with pytest.raises(
        UsageError, match=r"holds other documents \(29\) than those the model was trained on \(30\)"
    ):
        unlearn_documents(
            "ga",
            model=base_checkpoint,
            id_list=write_ids(tmp_path / "ids.txt", "m3"),
            data=other_data,
            out=tmp_path / "out",
        )
    with pytest.raises(UsageError, match="names a document that the data does not have"):
        unlearn_documents(
            "ga",
            model=base_checkpoint,
            id_list=write_ids(tmp_path / "ids.txt", "m30"),
            data=tmp_path / "mails.jsonl",
            out=tmp_path / "out",
        )
    with pytest.raises(UsageError, match="did you mean ga"):
        unlearn_documents(
            "gaa",
            model=base_checkpoint,
            id_list=tmp_path / "ids.txt",
            data=tmp_path / "mails.jsonl",
            out=tmp_path / "out",
        )
    with pytest.raises(InputRefused, match="expected a checkpoint"):
        unlearn_documents(
            "ga",
            model=tmp_path,
            id_list=tmp_path / "ids.txt",
            data=tmp_path / "mails.jsonl",
            out=tmp_path / "out",
        )
    assert not (tmp_path / "out").exists(), "nothing is left behind"
    assert not (tmp_path / "out" / "recipe.json").exists()


def test_a_checkpoint_outside_a_run_folder_is_accepted(
    data: Path, base_checkpoint: Path, tmp_path: Path
) -> None:
    copied_checkpoint, messages = tmp_path / "alone", list[str]()
    shutil.copytree(base_checkpoint, copied_checkpoint)
    id_list = write_ids(tmp_path / "ids.txt", "m3")
    unlearn_documents(
        "ga",
        model=copied_checkpoint,
        id_list=id_list,
        data=data,
        out=tmp_path / "out",
        changes=["run.epochs=1"],
        progress=messages.append,
    )
    assert "not inside a run folder" in messages[0]


def make_stages(
    recipe: Any, data: Path, out: Path, *, base: dict[str, Any] | None = None, **options: Any
) -> Dp2Unlearning:
    table = {
        **recipe(data, data={"layout": "document"}, run={"epochs": 2, "checkpoint_every": 0.0}),
        "base": base or {"epochs": 3},
    }
    return Dp2Unlearning(recipe=Recipe.load(table), data=data, out_folder=out, **options)


@pytest.fixture
def rewritten(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "rewritten.jsonl"
    path.write_text(data.read_text().replace("ada", "someone").replace("bob", "someone"))
    return path


@pytest.mark.slow
def test_stages_of_dp2unlearning(data: Path, rewritten: Path, recipe: Any, tmp_path: Path) -> None:
    """Base on rewritten texts, full model, two requests that accumulate; each stage starts from the
    base model and is trained once."""
    out = tmp_path / "out"
    stages = make_stages(recipe, data, out, rewritten=rewritten)
    first = stages.run()
    assert (
        list(first["stages"]) == ["full"]
        and first["forgotten"] == 0
        and "rewriting" in first["guarantee"]["statement"]
    )
    second = stages.run(write_ids(tmp_path / "one.txt", "m3"))
    times = {path: path.stat().st_mtime_ns for path in out.glob("*/train.json")}
    assert stages.run(tmp_path / "one.txt") == second, "forgotten already"
    third = stages.run(write_ids(tmp_path / "two.txt", "m3", "m9"))
    assert third["newest"] == "unlearned-002" and third["forgotten"] == 2
    assert [path.read_text() for path in sorted((out / "requests").iterdir())] == [
        "m3\n",
        "m3\nm9\n",
    ]
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    base = json.loads((out / "base" / "recipe.json").read_text())
    assert base["data"]["path"] == str(rewritten) and base["recipe"]["run"]["epochs"] == 3
    all_ids = {f"m{number}" for number in range(30)}
    for name, removed in (
        ("full", set()),
        ("unlearned-001", {"m3"}),
        ("unlearned-002", {"m3", "m9"}),
    ):
        run_info = json.loads((out / name / "recipe.json").read_text())
        assert (
            run_info["base_model"] == third["base_model"]
            and run_info["recipe"]["run"]["epochs"] == 2
        )
        assert (
            set(pq.read_table(out / name / "seen.parquet").column("doc_id").to_pylist())
            == all_ids - removed
        )
        start, end = (out / name / "checkpoints" / "step-000000", Path(third["base_model"]))
        assert (start / "model.safetensors").read_bytes() == (
            end / "model.safetensors"
        ).read_bytes(), "from the base, not from another stage"
    assert json.loads((out / "unlearn.json").read_text()) == third
    # the stored base model is enough to continue
    assert make_stages(recipe, data, out).run() == third


def test_stages_with_a_private_base(data: Path, recipe: Any, tmp_path: Path) -> None:
    base = {"epochs": 1, "privacy": {"sigma": 4.0, "delta": 1e-3}}
    result = make_stages(recipe, data, tmp_path / "out", base=base).run(
        write_ids(tmp_path / "one.txt", "m3", "m4")
    )
    spent = json.loads((tmp_path / "out" / "base" / "train.json").read_text())["privacy"]
    assert result["guarantee"]["epsilon"] == spent["epsilon"] > 0
    assert (
        result["guarantee"]["group"]["epsilon"] == 2 * spent["epsilon"]
        and result["guarantee"]["group"]["documents"] == 2
    )
    assert "for all 2 documents together" in result["guarantee"]["statement"]
    assert "privacy" not in json.loads((tmp_path / "out" / "full" / "train.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook_results", "chosen"),
    [
        pytest.param([False, True], (2, 1), marks=pytest.mark.soak),
        ([False, False, True], (3, 2)),
        ([False] * 4, (4, 2)),
    ],
)
def test_epochs_are_chosen_by_a_pilot(
    data: Path,
    rewritten: Path,
    recipe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook_results: list[bool],
    chosen: tuple[int, int],
) -> None:
    """The first epoch at whose end the function returns true is E; the stages have E and half of
    it; the guarantee names the pilot."""
    epochs_seen = list[float]()

    def stop(event: Any) -> bool:
        epochs_seen.append(event.metadata["epoch"])
        return hook_results[len(epochs_seen) - 1]

    monkeypatch.setitem(sys.modules, "pilot_hook", types.SimpleNamespace(stop=stop))
    out, messages = tmp_path / "out", list[str]()
    stages = make_stages(
        recipe,
        data,
        out,
        base={"epochs": 4, "until": "pilot_hook.stop"},
        rewritten=rewritten,
        progress=messages.append,
    )
    result = stages.run(write_ids(tmp_path / "one.txt", "m3"))
    assert epochs_seen == [float(epoch) for epoch in range(1, chosen[0] + 1)]
    assert result["epochs"] == {
        "base": chosen[0],
        "tuning": chosen[1],
        "by": "pilot_hook.stop",
        "learned": True in hook_results,
    }
    runs = {
        name: json.loads((out / name / "recipe.json").read_text())
        for name in ("pilot", "base", "full", "unlearned-001")
    }
    assert [run_info["recipe"]["run"]["epochs"] for run_info in runs.values()] == [
        4,
        chosen[0],
        chosen[1],
        chosen[1],
    ]
    assert runs["pilot"]["data"]["path"] == str(data) and runs["base"]["data"]["path"] == str(
        rewritten
    )
    assert "not covered" in result["guarantee"]["statement"]
    assert any("never returned true" in line for line in messages) == (True not in hook_results)
    assert stages.run() == result and len(epochs_seen) == chosen[0], "the pilot is trained once"


def test_invalid_stages_are_refused_before_the_pilot(
    data: Path, recipe: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="stage A needs rewritten texts"):
        make_stages(
            recipe,
            data,
            tmp_path / "out",
            base={"epochs": 2, "until": "sanitize.eval.early_stop.has_learned_texts"},
        ).run()
    assert not (tmp_path / "out").exists()


def test_a_killed_request_is_resumed(
    data: Path, rewritten: Path, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, request = tmp_path / "out", write_ids(tmp_path / "one.txt", "m3")
    stages = make_stages(recipe, data, out, rewritten=rewritten)
    fit = unlearning.fit

    def interrupt(recipe_: Any, out_folder: Path, **options: Any) -> Any:
        if out_folder.name.startswith("unlearned"):
            raise KeyboardInterrupt
        return fit(recipe_, out_folder, **options)

    monkeypatch.setattr(unlearning, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        stages.run(request)
    monkeypatch.setattr(unlearning, "fit", fit)
    result = stages.run()
    assert result["newest"] == "unlearned-001" and result["forgotten"] == 1


def test_invalid_stages_are_refused(
    data: Path, rewritten: Path, corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="stage A needs rewritten texts"):
        make_stages(recipe, data, tmp_path / "out").run()
    with pytest.raises(UsageError, match=r"no table \[base\]"):
        Dp2Unlearning(
            recipe=Recipe.load(recipe(data)), data=data, out_folder=tmp_path / "out"
        ).run()
    with pytest.raises(UsageError, match="has stages"):
        train.fit(make_stages(recipe, data, tmp_path).recipe, tmp_path / "run")
    stages = make_stages(recipe, data, tmp_path / "out", rewritten=rewritten)
    with pytest.raises(UsageError, match="names a document that the data does not have"):
        stages.run(write_ids(tmp_path / "one.txt", "m31"))
    assert not (tmp_path / "out").exists(), "wrong ids are reported before a base is trained"
    with pytest.raises(
        UsageError, match=r"rewritten.*holds other documents \(30\) than .*other.jsonl \(20\)"
    ):
        make_stages(
            recipe, corpus("other.jsonl", count=20), tmp_path / "out", rewritten=rewritten
        ).run()
    assert not (tmp_path / "out").exists(), "texts of another corpus, too"
    for name, value in (("limit", 20), ("leave_out", str(tmp_path / "one.txt"))):
        restricted = Recipe.load(
            {**stages.recipe.to_dict(), "data": {**stages.recipe.to_dict()["data"], name: value}}
        )
        with pytest.raises(
            UsageError, match=rf"data\.{name} is set, but the stages use all documents of"
        ):
            Dp2Unlearning(
                recipe=restricted, data=data, out_folder=tmp_path / "out", rewritten=rewritten
            ).run()
    assert not (tmp_path / "out").exists(), "no base model is trained on a part of the documents"
    stages.run()
    with pytest.raises(
        UsageError,
        match=(
            r"other.jsonl: holds other documents \(20\) than those the model was trained on \(30\)"
        ),
    ):
        make_stages(recipe, corpus("other.jsonl", count=20), tmp_path / "out").run()
    with pytest.raises(UsageError, match="no document is left"):
        stages.run(write_ids(tmp_path / "all.txt", *(f"m{number}" for number in range(30))))
    assert not (tmp_path / "out" / "requests").exists()
    base = Path(json.loads((tmp_path / "out" / "unlearn.json").read_text())["base_model"])
    with pytest.raises(UsageError, match="holds other documents"):
        make_stages(recipe, corpus("other.jsonl", count=20), tmp_path / "next", model=base).run()
    result = make_stages(recipe, data, tmp_path / "next", model=base).run()
    assert result["base_model"] == str(base)


def test_statements_of_a_guarantee() -> None:
    privacy = {
        "claim": "(8, 1e-05)-differential privacy",
        "unit": "record",
        "epsilon": 8.0,
        "delta": 1e-5,
    }
    assert "no statement" in describe_guarantee({"privacy": privacy}, 20)["statement"]
    assert (
        "together"
        not in describe_guarantee({"privacy": {**privacy, "unit": "user"}}, 20)["statement"]
    )


@pytest.mark.parametrize(
    "key", ["statements", "words"], ids=["manifest format 2", "manifest format 1"]
)
def test_the_guarantee_repeats_the_ledger_of_the_rewritten_texts(tmp_path: Path, key: str) -> None:
    """The guarantee repeats the ledger of the base model's shards; without a ledger it names the
    place where to read it."""
    base = {"privacy": None, "data": {"path": str(tmp_path)}}
    assert (
        "see the privacy ledger" in describe_guarantee(base, 2)["statement"]
        and "see the privacy ledger" in describe_guarantee(None, 2)["statement"]
    )
    ledger = [{"part": "dp_mlm", key: ["epsilon 10 per token.", "In practice no protection."]}]
    (tmp_path / "manifest.json").write_text(json.dumps({"summary": {"ledger": ledger}}))
    statement = describe_guarantee(base, 2, epochs_from_pilot=True)["statement"]
    assert (
        "texts: dp_mlm: epsilon 10 per token. In practice no protection; the number of epochs"
        in statement
    )


def test_the_unlearn_command(
    data: Path, rewritten: Path, base_checkpoint: Path, recipe: Any, tmp_path: Path
) -> None:
    """Exit codes, one line per error, one object with --json."""
    from typer.testing import CliRunner

    from sanitize.train.cli import app

    def run_unlearn(*arguments: object) -> Any:
        return CliRunner().invoke(app, ["unlearn", *map(str, arguments)])

    id_list = write_ids(tmp_path / "ids.txt", "m3")
    common = ("--data", data, "--forget", id_list, "--json", "--set", "run.epochs=1")
    result = run_unlearn(
        "--method", "ga", "--model", base_checkpoint, "--out", tmp_path / "ga", *common
    )
    assert result.exit_code == 0 and json.loads(result.stdout)["final"] == "step-000001"
    options = (
        "--set",
        "model.width=16",
        "--set",
        "model.layers=1",
        "--set",
        "base.epochs=1",
        "--set",
        "tokenizer.vocab=300",
    )
    result = run_unlearn(
        "--method",
        "dp2unlearning",
        "--rewritten",
        rewritten,
        "--out",
        tmp_path / "stages",
        *common,
        *options,
    )
    assert result.exit_code == 0 and json.loads(result.stdout)["newest"] == "unlearned-001"
    missing = run_unlearn("--method", "ga", "--out", tmp_path / "no", *common)
    assert (
        isinstance(missing.exception, UsageError)
        and missing.exception.exit_code == 2
        and "needs --model" in str(missing.exception)
    )
