"""Runs a recipe in a run folder: reads data, builds tokenizer, rows and model, trains, and writes
checkpoints. The same call resumes.

RUN/recipe.json  seen.parquet  tokens/  log.jsonl  checkpoints/step-000000/ ...  state/  train.json
(written last)
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.command_results import IF_SET, CommandResult
from sanitize.core.table_rendering import SummaryTable
from sanitize.errors import UsageError, describe_exception
from sanitize.storage.files import read_json, write_json
from sanitize.storage.locks import hold_lock

from . import checkpoint, dp_sgd
from .batches import (
    BatchPlan,
    TokenRows,
    aggregate_first_steps,
    compute_first_steps,
    merge_first_steps,
)
from .checkpoint import CheckpointEvent, CheckpointHook
from .corpus_reader import DocumentTable
from .keyed_random import load_or_create_random, make_insecure_random
from .model import (
    build_model,
    get_layers,
    load_tokenizer,
    read_stored_dtype,
    require_torch,
    tokenizer_sha256,
)
from .objectives import Objective
from .objectives.objective import TrainContext
from .objectives.unlearning import UnlearningObjective
from .processes import SingleProcess, detect_processes
from .recipe import Recipe
from .recipe_data import (
    compute_run_identity,
    find_chat_template,
    find_labels,
    get_tokenizer,
    make_batch_plan,
    make_rows,
    read_recipe_documents,
)
from .run_errors import call_hook, resource_errors, user_code_errors
from .token_files import TokenFiles, load_token_files, write_token_files
from .trainer import Trainer, autocast_context, build_adamw

TOKENS_FOLDER = "tokens"  # in the folder of a run until it is finished
COMPILE_BACKEND = "inductor"
NOISE_KEY_FILE = "noise.key"  # in the folder of a private run until it is finished


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingResult(CommandResult):
    """The result of `fit`, as in train.json: steps, checkpoints by name, tokens, seconds, and the
    documents that were in a batch.

    `privacy` is the account of a private run, None for others.
    """

    steps: int
    checkpoints: Sequence[str]
    final: str
    tokens: int
    seconds: float
    documents: int
    stopped_early: bool
    recipe_hash: str
    privacy: Annotated[Mapping[str, Any] | None, IF_SET] = None

    def summary_table(self) -> SummaryTable:
        facts = [
            ("steps", f"{self.steps:,}{' (stopped early)' if self.stopped_early else ''}"),
            ("documents", f"{self.documents:,} seen, {self.tokens:,} tokens"),
            ("checkpoints", f"{len(self.checkpoints):,}, the last one {self.final}"),
        ]
        return SummaryTable(title=f"sanitize-train: recipe {self.recipe_hash}", facts=facts)


def fit(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    hook: CheckpointHook | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainingResult:
    """Train by a recipe into the folder `out`; return what its train.json holds. The same call
    resumes; a finished run stays.

    `hook` is called with the live model at every checkpoint but the one before the first step; true
    stops the run there. `progress` receives lines for people. Raises UsageError for a wrong recipe,
    one that does not match its data, and a folder of another recipe or other data; InputRefused,
    OutputBroken and Locked for the folders themselves; ResourceError for disk and memory;
    MissingExtra without torch.
    """
    recipe, folder = Recipe.load(recipe), Path(out)
    if recipe.base is not None:
        raise UsageError(
            f"recipe {recipe.name} has stages (a table [base]); use sanitize-train unlearn --method"
            " dp2unlearning"
        )
    if not recipe.data.path:
        raise UsageError(
            "data.path is not set; expected a folder of shards, such as one that `sanitize run`"
            " published"
        )
    hook = _load_early_stop(recipe) if hook is None else hook
    require_torch()
    with _run_folder_lock(folder), user_code_errors(recipe), resource_errors(folder, recipe):
        processes = detect_processes(recipe.run.device)
        report = progress if progress is not None and processes.is_main else lambda line: None
        run = _TrainingRun(recipe, folder, processes, hook or _never_stop, report)
        return TrainingResult.from_dict(run.execute())


def _never_stop(event: CheckpointEvent) -> bool:
    return False


@dataclass(frozen=True, repr=False)
class _TrainingRun:
    recipe: Recipe
    folder: Path
    processes: SingleProcess
    hook: CheckpointHook
    progress: Callable[[str], None]

    def execute(self) -> dict[str, Any]:
        """Train what is left of the run, and return the contents of train.json."""
        recipe, started = self.recipe, time.perf_counter()
        objective = recipe.build_objective()
        if self.processes.world_size > 1 and (
            recipe.privacy is not None or objective.IS_UNLEARNING
        ):
            raise UsageError(
                "private training and unlearning run in one process only; start this recipe without"
                " a launcher"
            )
        prepared = self._prepare(objective) if self.processes.is_main else None
        # the others wait until rank 0 has read, checked and tokenized the data
        self.processes.barrier()
        finished_summary = read_json(self.folder / "train.json")
        if finished_summary is not None:
            (self.folder / NOISE_KEY_FILE).unlink(missing_ok=True)
            return finished_summary
        if prepared is None:
            prepared = _PreparedRun(tokens=load_token_files(self.folder / TOKENS_FOLDER))
        tokenizer, labels = prepared.tokens.tokenizer, prepared.tokens.labels
        rows, retain_rows = prepared.tokens.rows["train"], prepared.tokens.rows.get("retain")
        model, context = prepared.model or self._build_model(objective, tokenizer, labels)
        if recipe.privacy is not None:
            dp_sgd.check_rows_independent(model)
        plan, sigma, seed = self._make_batch_plan(rows, prepared)
        wrapped_model = self.processes.wrap_model(model)
        objective.setup(
            TrainContext(
                rows=rows,
                tokenizer=tokenizer,
                model=model,
                device=self.processes.device,
                seed=seed,
                batch_size=recipe.run.batch,
                context_length=context,
                retain_rows=retain_rows,
                labels=labels,
                autocast=lambda: autocast_context(recipe.run, self.processes.device),
            )
        )
        if self.processes.is_main and prepared.existing is None:
            self._write_run_files(
                prepared,
                tokenizer,
                self._compute_first_steps(objective, rows, retain_rows, plan),
                plan,
                sigma,
            )
        self.processes.barrier()
        if recipe.run.gradient_checkpointing:
            # the second is its name in older versions of transformers
            enable = (
                getattr(model, "activation_checkpointing_enable", None)
                or model.gradient_checkpointing_enable
            )
            enable({"use_reentrant": False})
        if recipe.run.compile:
            for layer in get_layers(model):
                # layer by layer: they are alike, so that one compilation serves all
                layer.compile(backend=COMPILE_BACKEND)
        optimizer = build_adamw(model, recipe.run)
        writer = _RunWriter(
            self,
            model=model,
            tokenizer=tokenizer,
            optimizer=optimizer,
            batch_plan=plan,
            noise_multiplier=sigma,
        )
        state = checkpoint.find_latest_state(self.folder / "state")
        if state is not None:
            checkpoint.load_state(
                state["path"],
                model=model,
                optimizer=optimizer,
            )
            state = {
                key: state[key]
                for key in ("step", "tokens", "seconds", "logged", "since", "stopped")
            }
            self.progress(f"resumed after step {state['step']} of {plan.step_count}")
        trainer = Trainer(
            model=model,
            wrapped_model=wrapped_model,
            optimizer=optimizer,
            objective=objective,
            rows=rows,
            batch_plan=plan,
            settings=recipe.run,
            processes=self.processes,
            validation_rows=prepared.tokens.rows.get("validation"),
            privacy=recipe.privacy,
            noise_multiplier=sigma,
            on_log=writer.append_log,
            on_checkpoint=writer.on_checkpoint,
            on_state=writer.write_state,
            on_progress=self.progress,
        )
        if self.processes.is_main:
            checkpoint.truncate_log(self.folder / "log.jsonl", state["step"] if state else 0)
        if state is None:
            writer.write_checkpoint(trainer.build_checkpoint_metadata(0, 0, None))
        final_state = trainer.train(state)
        summary = writer.build_summary(
            final_state,
            max(final_state["seconds"], time.perf_counter() - started if state is None else 0.0),
        )
        if self.processes.is_main:
            write_json(self.folder / "train.json", summary)
            shutil.rmtree(self.folder / TOKENS_FOLDER, ignore_errors=True)
        self.processes.barrier()
        (self.folder / NOISE_KEY_FILE).unlink(missing_ok=True)
        return summary

    def _prepare(self, objective: Objective) -> _PreparedRun | None:
        """Read and check the data, and tokenize it into RUN/tokens unless that was done before;
        None if the run is finished."""
        recipe = self.recipe
        data = read_recipe_documents(recipe, recipe.data.path)
        validation = (
            read_recipe_documents(recipe, recipe.data.validation, is_validation=True)
            if recipe.data.validation
            else None
        )
        identity = compute_run_identity(recipe, data, validation)
        existing = self._read_existing_run(identity)
        if existing is not None and read_json(self.folder / "train.json") is not None:
            return None
        self.progress(f"{len(data)} documents, recipe {recipe.hash()}")
        folder = self.folder / TOKENS_FOLDER
        tokenizer = self._get_tokenizer(data, existing)
        model = None
        if existing is None or not folder.is_dir():
            labels = find_labels(data) if objective.HEAD == "classify" else ()
            model = self._build_model(objective, tokenizer, labels)
            trained_mask = objective.select_trained_documents(data.doc_ids)
            documents = (
                {"train": data}
                if trained_mask is None
                else {
                    "train": data.filter_rows(trained_mask),
                    "retain": data.filter_rows(~trained_mask),
                }
            )
            if validation is not None:
                documents["validation"] = validation
            rows = {
                name: make_rows(found, recipe, objective, tokenizer, model[1], labels)
                for name, found in documents.items()
            }
            write_token_files(folder, rows, tokenizer, labels)
        elif data.has_turns:
            find_chat_template(recipe, tokenizer)
        is_by_user = recipe.privacy is not None and recipe.privacy.unit == "user"
        return _PreparedRun(
            tokens=replace(load_token_files(folder), tokenizer=tokenizer),
            model=model,
            users=data.table.column("user") if is_by_user else None,
            identity=identity,
            descriptions={
                "data": data.describe(),
                "validation": None if validation is None else validation.describe(),
                **(
                    {"chat_template": asdict(find_chat_template(recipe, tokenizer))}
                    if data.has_turns
                    else {}
                ),
            },
            existing=existing,
        )

    def _build_model(
        self, objective: Objective, tokenizer: Any, labels: tuple[str, ...]
    ) -> tuple[Any, int]:
        settings = self.recipe
        return build_model(
            settings.model,
            head=objective.HEAD,
            tokenizer=tokenizer,
            seed=settings.run.seed,
            labels=labels,
            lora=settings.lora,
        )

    def _compute_first_steps(
        self, objective: Objective, rows: TokenRows, retain_rows: TokenRows | None, plan: BatchPlan
    ) -> pa.Table:
        """Return the step in which each document is used for the first time, of documents to forget
        and of others."""
        first_steps = compute_first_steps(rows, plan)
        if not isinstance(objective, UnlearningObjective) or retain_rows is None:
            return first_steps
        retained = aggregate_first_steps(
            retain_rows, objective.compute_retain_first_steps(plan), plan.step_count
        )
        return merge_first_steps(first_steps, retained)

    def _make_batch_plan(
        self, rows: TokenRows, prepared: _PreparedRun
    ) -> tuple[BatchPlan, float, int]:
        """Return the batch plan, the noise multiplier (0 without privacy) and the seed of the
        objective's draws.

        In a private run plan and seed are derived from the run's secret key.
        """
        recipe, settings, existing = self.recipe, self.recipe.privacy, prepared.existing
        if settings is None:
            return make_batch_plan(recipe, rows), 0.0, recipe.run.seed
        seed = settings.insecure_seed
        draws = (
            load_or_create_random(self.folder / NOISE_KEY_FILE, has_started=existing is not None)
            if seed is None
            else make_insecure_random(seed)
        )
        plan = dp_sgd.PoissonBatchPlan(
            row_count=len(rows),
            batch_size=recipe.run.batch,
            seed=recipe.run.seed,
            epochs=recipe.run.epochs,
            max_steps=recipe.run.max_steps,
            unit_of_row=dp_sgd.assign_units(rows, prepared.users),
            random=draws,
        )
        if plan.batch_size > plan.unit_count:
            raise UsageError(
                f"run.batch = {plan.batch_size} is the expected number of units of a step, but the"
                f" data has {plan.unit_count}; lower it"
            )
        if settings.delta * plan.unit_count >= 1:
            raise UsageError(
                f"privacy.delta = {settings.delta:g} is not below 1 / {plan.unit_count} units and"
                " protects none; lower it"
            )
        sigma = (
            existing["privacy"]["sigma"]
            if existing is not None
            else dp_sgd.resolve_noise_multiplier(settings, plan)
        )
        self.progress(
            f"private: noise multiplier {sigma:.4g}, {plan.step_count} steps, each {settings.unit}"
            f" of {plan.unit_count} in a step with probability {plan.sample_rate:.4g}"
        )
        return plan, sigma, draws.derive_seed("objective")

    def describe_privacy(
        self,
        batch_plan: dp_sgd.PoissonBatchPlan,
        noise_multiplier: float,
        *,
        steps: int,
        stopped_early: bool = False,
    ) -> dict[str, Any]:
        """Return the privacy of this run after `steps` steps."""
        assert self.recipe.privacy is not None, "a private run"
        return dp_sgd.describe_privacy(
            self.recipe, batch_plan, noise_multiplier, steps=steps, stopped_early=stopped_early
        )

    def _read_existing_run(self, identity: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the folder's recipe.json, None if it has none; UsageError if it is of another
        recipe or other data."""
        existing = read_json(self.folder / "recipe.json")
        if existing is None:
            # a state would continue with the moments, and in a private run with the noise, of
            # gradients of other texts
            if any(
                (self.folder / name).exists() for name in ("checkpoints", "state", "train.json")
            ):
                raise UsageError(
                    f"{self.folder}: holds a run without a readable recipe.json; choose another"
                    " folder, or remove this one"
                )
            return None
        wrong = sorted(
            key for key, value in identity.items() if existing.get("identity", {}).get(key) != value
        )
        if wrong:
            raise UsageError(
                f"{self.folder}: holds a run of another {' and another '.join(wrong)}; a run is"
                " only resumed with the recipe and the data that it was started with. Choose"
                " another folder, or remove this one"
            )
        return existing

    def _get_tokenizer(self, data: DocumentTable, existing: Mapping[str, Any] | None) -> Any:
        recipe = self.recipe
        first_checkpoint = self.folder / "checkpoints" / checkpoint.format_checkpoint_name(0)
        if existing is not None and first_checkpoint.is_dir():
            tokenizer = load_tokenizer(first_checkpoint)
            if tokenizer_sha256(tokenizer) != existing["tokenizer_sha256"]:
                raise UsageError(
                    f"{first_checkpoint}: the tokenizer is not the one the run began with; choose"
                    " another folder, or remove this one"
                )
            return tokenizer
        return get_tokenizer(recipe, data)

    def _write_run_files(
        self,
        prepared: _PreparedRun,
        tokenizer: Any,
        first_steps: pa.Table,
        batch_plan: BatchPlan,
        noise_multiplier: float,
    ) -> None:
        recipe = self.recipe
        pq.write_table(first_steps, self.folder / "seen.parquet.tmp")
        (self.folder / "seen.parquet.tmp").rename(self.folder / "seen.parquet")
        write_json(
            self.folder / "recipe.json",
            {
                "recipe": recipe.to_dict(),
                "recipe_hash": recipe.hash(),
                "identity": dict(prepared.identity),
                **prepared.descriptions,
                "tokenizer_sha256": tokenizer_sha256(tokenizer),
                "base_model": str(Path(recipe.model.path).resolve()) if recipe.model.path else None,
                "processes": self.processes.world_size,
                **(
                    {"privacy": self.describe_privacy(batch_plan, noise_multiplier, steps=0)}
                    if isinstance(batch_plan, dp_sgd.PoissonBatchPlan)
                    else {}
                ),
                "versions": {
                    "python": platform.python_version(),
                    **{
                        name: version(name)
                        for name in (
                            "torch",
                            "transformers",
                            "tokenizers",
                            "safetensors",
                            "numpy",
                            "pyarrow",
                        )
                    },
                },
            },
        )


@dataclass(frozen=True, repr=False)
class _PreparedRun:
    """What a run needs of its data: the rows on disk, and in rank 0 also what is written about
    them.

    `model` is the model with its row length, if it was built; `users` are of private training by
    user, one for each document; `existing` is the recipe.json of a run that is resumed.
    """

    tokens: TokenFiles
    model: tuple[Any, int] | None = None
    users: pa.Array | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    descriptions: Mapping[str, Any] = field(default_factory=dict)
    existing: Mapping[str, Any] | None = None


class _RunWriter:
    """Writes the log, checkpoints and states of a run while it trains; only the main process
    writes."""

    def __init__(
        self,
        run: _TrainingRun,
        *,
        model: Any,
        tokenizer: Any,
        optimizer: Any,
        batch_plan: BatchPlan,
        noise_multiplier: float,
    ) -> None:
        self._run, self._model, self._tokenizer, self._optimizer = run, model, tokenizer, optimizer
        self._batch_plan, self._noise_multiplier = batch_plan, noise_multiplier
        # of each document, ascending
        self._first_steps = (
            pq.read_table(run.folder / "seen.parquet", columns=["first_step"], partitioning=None)
            .column(0)
            .to_numpy()
        )
        path, dtype = run.recipe.model.path, run.recipe.run.checkpoint_dtype
        self._dtype = dtype if dtype != "model" else read_stored_dtype(path) if path else "float32"

    def append_log(self, entry: dict[str, Any]) -> None:
        """Append one line to log.jsonl."""
        if self._run.processes.is_main:
            checkpoint.append_log_entry(self._run.folder / "log.jsonl", entry)

    def write_state(self, metadata: dict[str, Any]) -> None:
        """Write the state that the run can be resumed from."""
        if self._run.processes.is_main:
            checkpoint.write_state(
                self._run.folder / "state",
                model=self._model,
                optimizer=self._optimizer,
                metadata=metadata,
            )

    def write_checkpoint(self, metadata: dict[str, Any]) -> Path | None:
        """Write a checkpoint, with the number of documents seen and the privacy spent; return its
        folder, None in all processes but rank 0."""
        if not self._run.processes.is_main:
            return None
        recipe, privacy_entry = self._run.recipe, {}
        if recipe.privacy is not None and isinstance(self._batch_plan, dp_sgd.PoissonBatchPlan):
            description = self._run.describe_privacy(
                self._batch_plan, self._noise_multiplier, steps=metadata["step"]
            )
            privacy_entry = {
                "privacy": {
                    key: description[key] for key in ("claim", "unit", "epsilon", "delta", "steps")
                }
            }
        folder = self._run.folder / "checkpoints"
        complete_metadata = {
            **metadata,
            "documents_seen": self._count_documents_seen(metadata["step"]),
            "recipe_hash": recipe.hash(),
            **privacy_entry,
        }
        return checkpoint.write_checkpoint(
            folder,
            model=self._model,
            dtype=self._dtype,
            tokenizer=self._tokenizer,
            metadata=complete_metadata,
        )

    def on_checkpoint(self, metadata: dict[str, Any]) -> bool:
        """Write a checkpoint and call the hook; return whether the run is to stop there."""
        import torch

        path = self.write_checkpoint(metadata)
        if path is None:
            return False
        self._run.progress(
            f"step {metadata['step']} of {self._batch_plan.step_count}, epoch"
            f" {metadata['epoch']:.2f}: loss {metadata['train_loss']:.4f}"
            + (
                ""
                if metadata["validation_loss"] is None
                else f", validation {metadata['validation_loss']:.4f}"
            )
        )
        if self._run.hook is _never_stop:
            return False
        self._model.eval()
        with torch.no_grad():
            return call_hook(
                self._run.hook,
                CheckpointEvent(
                    path,
                    read_json(path / "checkpoint.json") or {},
                    self._model,
                    self._tokenizer,
                ),
            )

    def build_summary(self, final_state: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return the contents of train.json; a private run also writes the privacy it spent into
        recipe.json."""
        recipe, plan = self._run.recipe, self._batch_plan
        checkpoint_steps = [
            0,
            *(
                step
                for step in plan.checkpoint_steps(recipe.run.checkpoint_every)
                if step <= final_state["step"]
            ),
        ]
        summary = {
            "steps": final_state["step"],
            "checkpoints": [checkpoint.format_checkpoint_name(step) for step in checkpoint_steps],
            "final": checkpoint.format_checkpoint_name(checkpoint_steps[-1]),
            "tokens": final_state["tokens"],
            "seconds": round(seconds, 3),
            "documents": self._count_documents_seen(final_state["step"]),
            "stopped_early": final_state["stopped"],
            "recipe_hash": recipe.hash(),
        }
        if isinstance(plan, dp_sgd.PoissonBatchPlan):
            summary["privacy"] = self._run.describe_privacy(
                plan,
                self._noise_multiplier,
                steps=final_state["step"],
                stopped_early=final_state["stopped"],
            )
            path = self._run.folder / "recipe.json"
            write_json(path, {**(read_json(path) or {}), "privacy": summary["privacy"]})
        return summary

    def _count_documents_seen(self, steps: int) -> int:
        """Return how many distinct documents were in a batch within the first `steps` steps."""
        return int(np.searchsorted(self._first_steps, steps, side="right"))


def _load_early_stop(recipe: Recipe) -> CheckpointHook | None:
    path = recipe.run.early_stop
    if not path:
        return None
    module, _, name = path.rpartition(".")
    try:
        if not all(word.isidentifier() for word in path.split(".")):
            raise ImportError(path)
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module of the user's own runs when it is imported
        raise UsageError(
            f"run.early_stop = {path!r} cannot be imported ({describe_exception(error)}); expected"
            " module.function"
        ) from None
    if not callable(found):
        raise UsageError(
            f"run.early_stop = {path!r} is not a function; expected a function (CheckpointEvent) ->"
            " bool"
        )
    hook: CheckpointHook = found
    return hook


@contextmanager
def _run_folder_lock(folder: Path) -> Iterator[None]:
    """Lock the run folder for this process (rank 0 only); raises Locked if another process holds
    it."""
    if int(os.environ.get("RANK", "0")):
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; expected a folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "run.lock", folder):
        yield
