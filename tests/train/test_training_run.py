"""The contents of a run folder, and that a run killed at any point resumes to the same bytes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from sanitize import train
from sanitize.errors import InputRefused, Locked, OutputBroken, ResourceError, UsageError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.train import checkpoint
from sanitize.train.checkpoint import CheckpointEvent
from sanitize.train.objectives.causal import Causal
from sanitize.train.recipe import Recipe
from tests.support import SimulatedKill

ROOT = Path(__file__).resolve().parents[2]


def hash_weights(run: Path, name: str | None = None) -> str:
    name = name or read_result(run)["final"]
    return hashlib.sha256(
        (run / "checkpoints" / name / "model.safetensors").read_bytes()
    ).hexdigest()


def read_result(run: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((run / "train.json").read_text())
    return result


def read_log(run: Path) -> list[dict[str, Any]]:
    """The entries of a run's log, without its speed."""
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in entry.items() if key not in ("tokens_per_s", "memory_gb")}
        for entry in entries
    ]


def assert_equal_runs(actual: Path, expected: Path) -> None:
    """Asserts that two runs have the same weights, numbers and log at every checkpoint."""
    assert read_result(actual)["checkpoints"] == read_result(expected)["checkpoints"]
    assert read_log(actual) == read_log(expected)
    for name in read_result(actual)["checkpoints"]:
        folder, expected_folder = (run / "checkpoints" / name for run in (actual, expected))
        assert (folder / "checkpoint.json").read_text() == (
            expected_folder / "checkpoint.json"
        ).read_text()
        assert hash_weights(actual, name) == hash_weights(expected, name), name


@pytest.fixture(scope="module")
def undisturbed_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for runs that several tests compare with; the first test trains them."""
    return tmp_path_factory.mktemp("undisturbed")


def kill_in_forward(patch: pytest.MonkeyPatch, call: int) -> None:
    """Raises SimulatedKill at the n-th forward pass of the objective."""
    calls = {"n": 0}
    loss_sums = Causal.loss_sums

    def loss_sums_or_kill(self: Causal, model: Any, collated: Any, *, training: bool) -> Any:
        calls["n"] += 1
        if calls["n"] == call:
            raise SimulatedKill
        return loss_sums(self, model, collated, training=training)

    patch.setattr(Causal, "loss_sums", loss_sums_or_kill)


def kill_in_commit(patch: pytest.MonkeyPatch, call: int) -> None:
    """The n-th checkpoint or state is written under its temporary name and never renamed."""
    calls = {"n": 0}
    commit_folder = checkpoint._commit_folder

    def commit_or_kill(temporary: Path, path: Path) -> None:
        calls["n"] += 1
        if calls["n"] == call:
            raise SimulatedKill
        commit_folder(temporary, path)

    patch.setattr(checkpoint, "_commit_folder", commit_or_kill)


def test_contents_of_a_run_folder(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    data, run = corpus(), tmp_path / "run"
    result = train.fit(recipe(data, data={"validation": str(data)}), run)
    assert read_result(run) == result.to_dict()
    assert result.checkpoints[0] == "step-000000" and result.checkpoints[-1] == result.final
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == result.checkpoints
    run_info = json.loads((run / "recipe.json").read_text())
    assert run_info["data"]["documents"] == 30 and run_info["base_model"] is None
    assert run_info["data"]["shards"][0]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    files = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "checkpoint.json",
    }
    infos = []
    for name in result.checkpoints:
        folder = run / "checkpoints" / name
        assert files <= {path.name for path in folder.iterdir()}
        infos.append(json.loads((folder / "checkpoint.json").read_text()))
        assert infos[-1]["recipe_hash"] == result.recipe_hash
    assert [checkpoint.format_checkpoint_name(info["step"]) for info in infos] == result.checkpoints
    assert infos[0]["documents_seen"] == 0 and infos[-1]["documents_seen"] == result.documents == 30
    assert (
        infos[0]["train_loss"] is None
        and infos[-1]["validation_loss"] < infos[0]["validation_loss"] - 0.5
    )
    assert infos[-1]["epoch"] == 2.0 and infos[-1]["tokens"] == result.tokens
    first_steps = pq.read_table(run / "seen.parquet")
    assert sorted(first_steps.column("doc_id").to_pylist()) == sorted(
        f"m{number}" for number in range(30)
    )
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == list(range(1, result.steps + 1))
    assert {"step", "epoch", "loss", "lr", "tokens"} <= log[0].keys()
    assert not list(run.rglob("*.bin")) and not list(run.rglob("*.pt")), (
        "weights are safetensors only"
    )


def test_checkpoints_load_in_transformers(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    result = train.fit(recipe(corpus()), tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints" / result.final
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight, (
        "tied weights are still tied"
    )
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.mask_token) == (
        "<|endoftext|>",
        "<|pad|>",
        "<|mask|>",
    )
    text = "Dear eve, plan 3 is ready — \u00e9\u4e2d."
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_second_call_trains_nothing(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recipe(corpus())
    first = train.fit(settings, tmp_path / "run")
    kill_in_forward(monkeypatch, 1)
    assert train.fit(settings, tmp_path / "run") == first


@pytest.mark.parametrize(
    "call", [1, 7, 23, *(pytest.param(call, marks=pytest.mark.soak) for call in (4, 14, 22))]
)
def test_resume_after_kill_gives_identical_bytes(
    corpus: Any, recipe: Any, tmp_path: Path, undisturbed_runs: Path, call: int
) -> None:
    """Three micro-batches a step: most of these calls are in the middle of an accumulation. Dropout
    and noise are on."""
    settings = recipe(
        corpus(), run={"accumulate": 3, "state_every": 2, "noise_alpha": 5.0, "log_every": 3}
    )
    train.fit(settings, undisturbed_runs / "accumulated")  # trains only once
    with pytest.MonkeyPatch.context() as patch:
        kill_in_forward(patch, call)
        with pytest.raises(SimulatedKill):
            train.fit(settings, tmp_path / "run")
    train.fit(settings, tmp_path / "run")
    assert_equal_runs(tmp_path / "run", undisturbed_runs / "accumulated")


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5])
def test_resume_after_kill_while_writing(
    corpus: Any, recipe: Any, tmp_path: Path, undisturbed_runs: Path, call: int
) -> None:
    """The first checkpoint, a state, and a checkpoint whose state is missing."""
    settings = recipe(corpus())
    train.fit(settings, undisturbed_runs / "plain")  # trains only once
    with pytest.MonkeyPatch.context() as patch:
        kill_in_commit(patch, call)
        with pytest.raises(SimulatedKill):
            train.fit(settings, tmp_path / "run")
    train.fit(settings, tmp_path / "run")
    assert_equal_runs(tmp_path / "run", undisturbed_runs / "plain")


TRAINING_SCRIPT = """
import json, sys, torch
from sanitize import train
torch.set_num_threads(1)
print("begun", flush=True)
train.fit(json.loads(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_resume_after_kills_at_random_moments(
    corpus: Any,
    recipe: Any,
    tmp_path: Path,
    undisturbed_runs: Path,
    record_property: Any,
    part: int,
) -> None:
    """25 SIGKILLs (SOAK_KILLS / 12) to a training process, up to three in a row, at moments between
    its first step and its end."""
    settings = recipe(corpus(), run={"state_every": 2})
    arguments = [sys.executable, "-c", TRAINING_SCRIPT, json.dumps(settings)]
    environment, run = {**os.environ, "PYTHONPATH": str(ROOT)}, tmp_path / "run"
    start_time = time.monotonic()
    train.fit(settings, undisturbed_runs / f"killed-{part}")
    duration, rng, kills = time.monotonic() - start_time, random.Random(part), 0
    while kills < int(os.environ.get("SOAK_KILLS", "300")) // 12:
        shutil.rmtree(run, ignore_errors=True)
        for _ in range(rng.randint(1, 3)):
            process = subprocess.Popen(
                [*arguments, str(run)],
                env=environment,
                stdout=subprocess.PIPE,
                start_new_session=True,
                text=True,
            )
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            time.sleep(rng.uniform(0, duration * 1.1))
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        train.fit(settings, run)
        assert_equal_runs(run, undisturbed_runs / f"killed-{part}")
    record_property("kills", kills)


@pytest.mark.parametrize("use", ["goldfish", "ngram_penalty", "masked"])
def test_resume_with_other_objectives(corpus: Any, recipe: Any, tmp_path: Path, use: str) -> None:
    arch = "bert" if use == "masked" else "gpt2"
    settings = recipe(
        corpus(), objective={"use": use}, model={"arch": arch}, data={"layout": "document"}
    )
    train.fit(settings, tmp_path / "expected")
    calls = {"n": 0}

    def stop(event: CheckpointEvent) -> bool:
        calls["n"] += 1
        if calls["n"] == 2:
            raise SimulatedKill
        return False

    with pytest.raises(SimulatedKill):
        train.fit(settings, tmp_path / "run", hook=stop)
    train.fit(settings, tmp_path / "run")
    assert_equal_runs(tmp_path / "run", tmp_path / "expected")


def test_micro_batches_do_not_change_the_weights(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """Without dropout, one micro-batch or five give the same step, though they differ in their
    numbers of targets."""
    import torch
    from safetensors.torch import load_file

    data, weights = corpus(), []
    for pieces in (1, 5):
        settings = recipe(
            data,
            model={"dropout": 0.0},
            data={"layout": "document"},
            run={"accumulate": pieces, "epochs": 1},
        )
        run = tmp_path / str(pieces)
        final = train.fit(settings, run).final
        weights.append(load_file(run / "checkpoints" / final / "model.safetensors"))
    assert all(torch.allclose(weights[0][name], weights[1][name], atol=2e-5) for name in weights[0])


def test_training_keeps_the_random_state_of_torch(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train.fit(recipe(corpus(), run={"epochs": 1}), tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_a_hook_stops_a_run(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    steps = []

    def stop(event: CheckpointEvent) -> bool:
        assert not event.model.training and event.path.is_dir()
        steps.append(event.metadata["step"])
        return len(steps) == 2

    settings = recipe(corpus())
    result = train.fit(settings, tmp_path / "run", hook=stop)
    assert result.stopped_early and result.steps == steps[1] and len(result.checkpoints) == 3
    assert train.fit(settings, tmp_path / "run") == result


def test_only_the_top_layers_are_trained(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    data = corpus()
    base = train.fit(recipe(data, model={"layers": 3}, run={"epochs": 1}), tmp_path / "base")
    path = tmp_path / "base" / "checkpoints" / base.final
    settings = {**recipe(data), "model": {"path": str(path), "top_layers": 1, "context": 32}}
    result = train.fit(settings, tmp_path / "run")
    before, after = (
        load_file(path / "model.safetensors"),
        load_file(tmp_path / "run" / "checkpoints" / result.final / "model.safetensors"),
    )
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.startswith("transformer.h.2.")}


def test_bf16_is_an_autocast(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    result = train.fit(recipe(corpus(), run={"precision": "bf16", "epochs": 1}), tmp_path / "run")
    saved = load_file(tmp_path / "run" / "checkpoints" / result.final / "model.safetensors")
    assert {str(value.dtype) for value in saved.values()} == {"torch.float32"}
    full = train.fit(recipe(tmp_path / "mails.jsonl", run={"epochs": 1}), tmp_path / "full")
    assert (
        hash_weights(tmp_path / "run") != hash_weights(tmp_path / "full")
        and full.steps == result.steps
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": {"lr": 1e-3}}, "another recipe"),
        ({"objective": {"use": "goldfish"}}, "another recipe"),
        ({}, "another data"),
    ],
)
def test_a_folder_of_another_run_is_refused(
    corpus: Any, recipe: Any, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    data = corpus()
    train.fit(recipe(data, run={"epochs": 1}), tmp_path / "run")
    if not change:
        corpus(count=31)
    with pytest.raises(UsageError, match=message) as caught:
        train.fit(
            recipe(
                data,
                **{
                    "run": {"epochs": 1},
                    **{
                        name: {"epochs": 1, **value} if name == "run" else value
                        for name, value in change.items()
                    },
                },
            ),
            tmp_path / "run",
        )
    assert caught.value.exit_code == 2


def test_data_may_move(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    data = corpus()
    first = train.fit(recipe(data, run={"epochs": 1}), tmp_path / "run")
    moved = shutil.move(data, tmp_path / "elsewhere.jsonl")
    assert train.fit(recipe(moved, run={"epochs": 1, "log_every": 7}), tmp_path / "run") == first


def test_missing_files_are_reported(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    data = corpus()
    with pytest.raises(UsageError, match="data.path is not set"):
        train.fit({**recipe(data), "data": {}}, tmp_path / "run")
    with pytest.raises(InputRefused, match="no such folder"):
        train.fit(recipe(tmp_path / "missing"), tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputRefused, match="expected a folder of shards"):
        train.fit(recipe(tmp_path / "empty"), tmp_path / "run")
    (tmp_path / "empty" / "manifest.json").write_text("{}")
    with pytest.raises(OutputBroken, match="manifest"):
        train.fit(recipe(tmp_path / "empty"), tmp_path / "run")
    with pytest.raises(InputRefused, match="nothing is downloaded"):
        train.fit(
            {**recipe(data), "model": {"path": "gpt2"}, "tokenizer": {"corpus": str(data)}},
            tmp_path / "run",
        )
    with pytest.raises(InputRefused, match="config.json"):
        train.fit(
            {**recipe(data), "model": {"path": str(tmp_path)}, "tokenizer": {"corpus": str(data)}},
            tmp_path / "run",
        )
    with pytest.raises(InputRefused, match="tokenizer.json"):
        train.fit(recipe(data, tokenizer={"path": str(tmp_path)}), tmp_path / "other")


@pytest.mark.parametrize("key", ["leave_out", "chat_template", "path"])
def test_a_device_in_the_place_of_a_file_is_refused(
    corpus: Any, recipe: Any, tmp_path: Path, key: str
) -> None:
    """Reading it would never end."""
    data = {"path": str(corpus()), key: "/dev/zero"}
    with pytest.raises((InputRefused, UsageError), match="/dev/zero.*(cannot be read|no such)"):
        train.fit({**recipe(corpus()), "data": data}, tmp_path / "run")


def test_a_locked_run_folder_is_refused(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / "run.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Locked):
            train.fit(recipe(corpus()), tmp_path / "run")


def test_a_damaged_state_is_reported(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    settings = recipe(corpus())
    train.fit(settings, tmp_path / "run")
    (tmp_path / "run" / "train.json").unlink()
    (state,) = (tmp_path / "run" / "state").iterdir()
    (state / "state.safetensors").write_bytes(b"nothing")
    with pytest.raises(OutputBroken, match="start again"):
        train.fit(settings, tmp_path / "run")
    (tmp_path / "run" / "recipe.json").unlink()
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(UsageError, match="without a readable recipe.json"):
        # whatever is left of another run
        train.fit(settings, tmp_path / "run")


def test_a_nan_loss_stops_training(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a finite number"):
        train.fit(recipe(corpus(), run={"lr": 1e30, "clip": 0.0, "epochs": 3}), tmp_path / "run")


def test_nan_weights_are_not_saved(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of a step is computed before its update, and only every tenth step is logged."""
    import torch

    from sanitize.train.trainer import Trainer

    update = Trainer._optimizer_step

    def update_and_damage(self: Trainer, step: int) -> None:
        update(self, step)
        if step == 3:
            with torch.no_grad():
                next(iter(self.model.parameters()))[0, 0] = torch.nan

    monkeypatch.setattr(Trainer, "_optimizer_step", update_and_damage)
    data = corpus()
    with pytest.raises(UsageError, match="not a finite number any more at step 4"):
        train.fit(
            recipe(
                data, run={"epochs": 3, "max_steps": 4, "log_every": 100, "checkpoint_every": 0}
            ),
            tmp_path / "run",
        )
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-000000"]


def test_texts_shorter_than_every_ngram_are_learned(
    corpus: Any, recipe: Any, tmp_path: Path
) -> None:
    objective = {"use": "ngram_penalty", "sizes": [900]}
    result = train.fit(
        recipe(corpus(), objective=objective, run={"epochs": 1, "log_every": 1}), tmp_path / "run"
    )
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert result.steps == len(log) and all(line["parts"]["penalty"] == 0.0 for line in log)
    with pytest.raises(UsageError, match="sizes"):
        train.fit(
            recipe(corpus(), objective={"use": "ngram_penalty", "sizes": [0]}), tmp_path / "other"
        )


def test_training_on_published_shards(corpus: Any, recipe: Any, tmp_path: Path) -> None:

    run_with_settings([corpus()], tmp_path / "clean", settings=Settings(seed=1, workers=1))
    result = train.fit(recipe(tmp_path / "clean", run={"epochs": 1}), tmp_path / "run")
    assert result.documents == 30
    shard = next((tmp_path / "clean" / "data").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes() + b"x")
    with pytest.raises(OutputBroken, match="sha256"):
        train.fit(recipe(tmp_path / "clean", run={"epochs": 1}), tmp_path / "other")


def test_a_missing_extra_is_named(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from sanitize.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"corpus-sanitize\[learn\]"):
        train.fit(recipe(corpus()), tmp_path / "run")


def test_early_stop_by_import_path(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_stops.py").write_text(
        "def low(moment):\n    return moment.metadata['step'] >= 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    result = train.fit(recipe(corpus(), run={"early_stop": "my_stops.low"}), tmp_path / "run")
    assert result.stopped_early and result.steps == 5
    for function_path in ("my_stops.no", "no_such.low", "low"):
        with pytest.raises(UsageError, match="run.early_stop"):
            train.fit(recipe(corpus(), run={"early_stop": function_path}), tmp_path / "other")


BROKEN_STOP = (
    "def look(texts):\n    return texts['Ann Example']\n\n\ndef stop(moment):\n    return"
    " look({})\n"
)
BROKEN_OBJECTIVE = """from sanitize.train.objectives.causal import Causal

class Broken(Causal):
    def loss_counts(self, inputs):
        return 1 / 0
"""


@pytest.mark.parametrize(
    ("content", "change", "message"),
    [
        (
            BROKEN_STOP,
            "run.early_stop=own.broken.stop",
            "run.early_stop = 'own.broken.stop' failed: KeyError at broken.py:6 stop > broken.py:2 look",  # noqa: E501
        ),
        (
            BROKEN_OBJECTIVE,
            "objective.use=own.broken",
            "objective.use = 'own.broken' failed: ZeroDivisionError at broken.py:5 loss_counts",
        ),
        (  # these have no frame of their own
            "def stop():\n    return False\n",
            "run.early_stop=own.broken.stop",
            "run.early_stop = 'own.broken.stop' failed: TypeError at .* call_hook",
        ),
        (
            "from os import system as stop",
            "run.early_stop=own.broken.stop",
            "run.early_stop = 'own.broken.stop' failed: TypeError at .* call_hook",
        ),
        (
            "1 / 0",
            "objective.use=own.broken",
            r"objective.use = 'own.broken' cannot be imported \(ZeroDivisionError at .*broken.py:1",
        ),
        (
            "1 / 0",
            "run.early_stop=own.broken.stop",
            r"run.early_stop = 'own.broken.stop' cannot be imported \(ZeroDivisionError",
        ),
    ],
)
def test_errors_of_the_users_own_code_are_named(
    corpus: Any,
    recipe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    change: str,
    message: str,
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "broken.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(UsageError, match=message) as raised:
            train.fit(Recipe.load(recipe(corpus()), [change]), tmp_path / "run")
    finally:
        for name in ("own", "own.broken"):
            sys.modules.pop(name, None)
    assert "Ann Example" not in str(raised.value)


@pytest.mark.parametrize("prompts", ["include", "remove"])
def test_instruction_tuning_and_domain_adaptation(
    corpus: Any, recipe: Any, tmp_path: Path, prompts: str
) -> None:
    """The same data with and without its prompts; the prompt is in the rows, and with answers_only
    in no label."""
    data = corpus(instruction=["Say who is meant."] * 30)
    settings = recipe(
        data,
        data={"prompt_columns": ["instruction"], "prompts": prompts, "layout": "document"},
        model={"context": 256},
    )
    rows = train.stream_batches(settings).rows
    with_prompts = prompts == "include"
    assert (
        train.fit({**settings, "run": {**settings["run"], "epochs": 1}}, tmp_path / "run").documents
        == 30
    )
    if with_prompts:
        settings["data"]["answers_only"] = True
        answers = train.stream_batches(settings).rows
        assert (
            len(answers.token_ids) == len(rows.token_ids)
            and rows.loss_mask.all()
            and not answers.loss_mask[answers.row_starts[:-1]].any()
        )
        settings["data"] |= {"prompts": "remove", "answers_only": False}
        assert len(train.stream_batches(settings).rows.token_ids) < len(rows.token_ids)


def test_the_stream_equals_the_batches_of_a_run(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    """No model is made for it, and the documents seen by a step are those of seen.parquet."""
    from sanitize.train.batches import compute_first_steps

    settings = recipe(corpus(), data={"limit": 20})
    stream = train.stream_batches(settings)
    train.fit(settings, tmp_path / "run")
    first_steps = pq.read_table(tmp_path / "run" / "seen.parquet")
    assert (
        compute_first_steps(stream.rows, stream.batch_plan).equals(first_steps)
        and first_steps.num_rows == 20
    )
    streamed: set[str] = set()
    for batch in stream:
        streamed.update(doc_id for ids in stream.get_doc_ids(batch.row_numbers) for doc_id in ids)
        step = stream.position
        assert streamed == {
            name
            for name, first in zip(*first_steps.to_pydict().values(), strict=True)
            if first <= step
        }


def test_a_full_disk_is_one_error(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    import errno

    from sanitize.errors import ResourceError

    settings = recipe(corpus())
    commit_folder, calls = checkpoint._commit_folder, {"n": 0}

    def fail_on_fourth_call(temporary: Path, path: Path) -> None:
        calls["n"] += 1
        if calls["n"] == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        commit_folder(temporary, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "_commit_folder", fail_on_fourth_call)
        with pytest.raises(ResourceError, match="ENOSPC") as caught:
            train.fit(settings, tmp_path / "run")
    assert caught.value.exit_code == 7
    train.fit(settings, tmp_path / "run")
    train.fit(settings, tmp_path / "expected")
    assert_equal_runs(tmp_path / "run", tmp_path / "expected")


def test_a_rising_loss_is_reported(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    base = train.fit(recipe(corpus(), run={"epochs": 4}), tmp_path / "base", progress=lines.append)
    assert not [line for line in lines if line.startswith("warning")]
    model = {"path": str(tmp_path / "base" / "checkpoints" / base.final)}
    ruined = recipe(corpus(), run={"lr": 1.0, "epochs": 4, "schedule": "constant"}) | {
        "model": model,
        "tokenizer": {},
    }
    train.fit(ruined, tmp_path / "ruined", progress=lines.append)
    assert [
        line for line in lines if line.startswith("warning")
    ] and "run.lr = 1 is probably too high" in "".join(lines)


def load_final_weights(run: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    found: dict[str, Any] = load_file(
        run / "checkpoints" / read_result(run)["final"] / "model.safetensors"
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("option", ["gradient_checkpointing", "compile"])
def test_options_of_speed_and_memory_do_not_change_the_result(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """Dropout is on. The backend "eager" traces the layers, and compiles nothing: that takes a
    minute."""
    import torch
    from transformers import GPT2LMHeadModel

    used: list[str] = []
    enable = GPT2LMHeadModel.activation_checkpointing_enable
    monkeypatch.setattr(
        GPT2LMHeadModel,
        "activation_checkpointing_enable",
        lambda *args: (used.append("gradient_checkpointing"), enable(*args))[1],
    )
    compile_module = torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module,
        "compile",
        lambda *args, **options: (used.append("compile"), compile_module(*args, **options))[1],
    )
    monkeypatch.setattr("sanitize.train.training_run.COMPILE_BACKEND", "eager")
    data = corpus()
    train.fit(recipe(data, run={"epochs": 1}), tmp_path / "expected")
    train.fit(recipe(data, run={"epochs": 1, option: True}), tmp_path / "run")
    assert (
        set(used) == {option}
        and read_result(tmp_path / "run")["recipe_hash"]
        == read_result(tmp_path / "expected")["recipe_hash"]
    )
    weights, expected = (
        load_final_weights(tmp_path / "run"),
        load_final_weights(tmp_path / "expected"),
    )
    assert all(torch.allclose(weights[name], expected[name], atol=1e-5) for name in expected)


def test_a_checkpoint_has_the_dtype_of_its_base(corpus: Any, recipe: Any, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    data = corpus()
    base = train.fit(
        recipe(data, run={"epochs": 1, "max_steps": 1, "checkpoint_dtype": "bfloat16"}),
        tmp_path / "base",
    )
    path = tmp_path / "base" / "checkpoints" / base.final
    assert {value.dtype for value in load_final_weights(tmp_path / "base").values()} == {
        torch.bfloat16
    }
    model = AutoModelForCausalLM.from_pretrained(path, dtype="auto", local_files_only=True)
    assert (
        model.dtype == torch.bfloat16
        and model.get_input_embeddings().weight is model.get_output_embeddings().weight
    )
    settings = recipe(data, run={"epochs": 1, "state_every": 1}) | {
        "model": {"path": str(path), "context": 32},
        "tokenizer": {},
    }
    train.fit(settings, tmp_path / "run")
    assert {value.dtype for value in load_final_weights(tmp_path / "run").values()} == {
        torch.bfloat16
    }
    from safetensors.torch import load_file

    (state,) = (tmp_path / "run" / "state").iterdir()
    assert {value.dtype for value in load_file(state / "state.safetensors").values()} == {
        torch.float32
    }, "a run resumes in float32"


@pytest.mark.parametrize("part", [{"lora": {"rank": 2}}, {"model": {"top_layers": 1}}])
def test_frozen_weights_in_bfloat16(
    corpus: Any, recipe: Any, tmp_path: Path, part: dict[str, Any]
) -> None:
    """The trained weights stay float32, and the loss is about that of frozen weights in float32."""
    import torch

    pytest.importorskip("peft")
    base = train.fit(recipe(corpus(), run={"epochs": 1, "checkpoint_every": 0}), tmp_path / "base")
    model = {
        "path": str(tmp_path / "base" / "checkpoints" / base.final),
        "context": 32,
        "dropout": 0.0,
        **part.get("model", {}),
    }
    losses, dtypes = [], []

    def see(event: CheckpointEvent) -> bool:
        dtypes.append(
            {(parameter.requires_grad, parameter.dtype) for parameter in event.model.parameters()}
        )
        losses.append(event.metadata["train_loss"])
        return False

    for dtype in ("float32", "bfloat16"):
        run = {"epochs": 1, "precision": "bf16", "checkpoint_every": 0}
        settings = recipe(tmp_path / "mails.jsonl", run=run) | {
            "model": {**model, "frozen_dtype": dtype},
            "tokenizer": {},
        }
        train.fit(
            settings | {key: value for key, value in part.items() if key == "lora"},
            tmp_path / dtype,
            hook=see,
        )
    assert dtypes[1] == {(True, torch.float32), (False, torch.bfloat16)} and dtypes[0] == {
        (True, torch.float32),
        (False, torch.float32),
    }
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_rows_are_made_once(
    corpus: Any, recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run maps the rows of the first one; a finished run keeps none."""
    import sanitize.train.training_run as module

    data = corpus()
    settings = recipe(
        data,
        run={"state_every": 1, "epochs": 1},
        data={"validation": str(data), "layout": "document"},
    )
    with pytest.MonkeyPatch.context() as patch:
        kill_in_forward(patch, 12)
        with pytest.raises(SimulatedKill):
            train.fit(settings, tmp_path / "run")
    assert (tmp_path / "run" / "tokens").stat().st_mode & 0o777 == 0o700
    names = {
        path.relative_to(tmp_path / "run" / "tokens").as_posix()
        for path in (tmp_path / "run" / "tokens").rglob("*.npy")
    }
    arrays = ("token_ids", "row_starts", "doc_numbers", "loss_mask")
    assert names == {f"{part}/{array}.npy" for part in ("train", "validation") for array in arrays}
    made: list[str] = []
    make_rows = module.make_rows
    monkeypatch.setattr(
        module, "make_rows", lambda *arguments: (made.append("rows"), make_rows(*arguments))[1]
    )
    train.fit(settings, tmp_path / "run")
    assert not made and not (tmp_path / "run" / "tokens").exists()
    train.fit(settings, tmp_path / "expected")
    assert made and read_log(tmp_path / "run") == read_log(tmp_path / "expected")
    damaged = tmp_path / "damaged"
    with pytest.MonkeyPatch.context() as patch:
        kill_in_forward(patch, 12)
        with pytest.raises(SimulatedKill):
            train.fit(settings, damaged)
    (damaged / "tokens" / "train" / "token_ids.npy").write_bytes(b"nothing")
    with pytest.raises(
        OutputBroken, match="tokens: cannot be read .*; remove it, then run the same command again"
    ):
        train.fit(settings, damaged)
    shutil.rmtree(damaged / "tokens")
    train.fit(settings, damaged)
    assert_equal_runs(damaged, tmp_path / "expected")


NO_MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8796093022208 bytes."


@pytest.mark.parametrize(
    ("error", "changes", "advice"),
    [
        (
            torch.OutOfMemoryError(NO_MEMORY),
            [],
            "of 8 rows at once. In this order: raise run.accumulate (1, at most 8)",
        ),
        (
            MemoryError(),
            ["run.accumulate=8", "run.gradient_checkpointing=true"],
            "of 1 rows at once. In this order: lower model.context",
        ),
        (
            RuntimeError(NO_MEMORY),
            ["run.precision=float32"],
            'the result; set run.precision = "bf16"; set run.gradient_checkpointing = true',
        ),
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer"),
            [],
            "another process of this run has ended",
        ),
    ],
)
def test_a_step_that_cannot_be_made_says_what_to_do(
    corpus: Any,
    recipe: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    changes: list[str],
    advice: str,
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(Causal, "loss_sums", fail)
    with pytest.raises(ResourceError) as caught:
        train.fit(Recipe.load(recipe(corpus()), changes), tmp_path / "run")
    assert advice in str(caught.value) and "8796093022208" not in str(caught.value)
