"""Runs a recipe in a run folder: reads data, builds tokenizer, rows and model, trains, and writes checkpoints. The same call resumes.

RUN/recipe.json  seen.parquet  tokens/  log.jsonl  checkpoints/step-000000/ ...  state/  train.json (written last)
"""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.command_results import IF_SET, CommandResult
from sanitize.core.table_rendering import SummaryTable
from sanitize.errors import InputRefused, ResourceError, SanitizeError, UsageError, describe_exception
from sanitize.storage.files import file_sha256, read_json, write_json
from sanitize.storage.locks import hold_lock
from sanitize.storage.records.conversations import PLAIN_TEMPLATE, ChatTemplate

from . import checkpoint, dp_sgd
from .adapters import find_base_folder, is_adapter
from .background_work import BackgroundWriter
from .batches import (
    LANE_LIMIT,
    BatchPlan,
    BatchStream,
    TokenRows,
    aggregate_first_steps,
    compute_first_steps,
    draw_permutation,
    merge_first_steps,
    pack_rows,
)
from .checkpoint import CheckpointEvent
from .corpus_reader import DocumentTable, read_documents
from .device_memory import is_out_of_memory
from .keyed_random import load_or_create_random, make_insecure_random
from .model import (
    DEFAULT_CONTEXT,
    build_model,
    get_layers,
    get_special_tokens,
    load_tokenizer,
    read_stored_dtype,
    require_torch,
    tokenizer_sha256,
    train_tokenizer,
    trainable_parameters,
)
from .noise import NOISE_VERSION
from .objectives import Objective
from .objectives.objective import TrainContext
from .processes import SingleProcess, detect_processes
from .recipe import Recipe
from .token_files import TokenFiles, load_token_files, write_token_files
from .tokenization import tokenize_documents
from .trainer import Trainer, autocast_context, build_adamw
from .unlearning_losses import UnlearningObjective, select_listed_documents

_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
CheckpointHook = Callable[[CheckpointEvent], bool]
TOKENS_FOLDER = "tokens"  # in the folder of a run until it is finished
COMPILE_BACKEND = "inductor"
NOISE_KEY_FILE = "noise.key"  # in the folder of a private run until it is finished


@dataclass(frozen=True, kw_only=True, repr=False)
class TrainingResult(CommandResult):
    """The result of `fit`, as in train.json: steps, checkpoints by name, tokens, seconds, and the documents that were in a batch.

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
    privacy: Mapping[str, Any] | None = field(default=None, metadata=IF_SET)

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
    """Train by a recipe into the folder `out`; return what its train.json holds. The same call resumes; a finished run stays.

    `hook` is called with the live model at every checkpoint but the one before the first step; true stops the run there. `progress`
    receives lines for people. Raises UsageError for a wrong recipe, one that does not match its data, and a folder of another recipe or
    other data; InputRefused, OutputBroken and Locked for the folders themselves; ResourceError for disk and memory; MissingExtra without
    torch.
    """
    recipe, folder = Recipe.load(recipe), Path(out)
    if recipe.base is not None:
        raise UsageError(f"recipe {recipe.name} has stages (a table [base]); use sanitize-train unlearn --method dp2unlearning")
    if not recipe.data.path:
        raise UsageError("data.path is not set; expected a folder of shards, such as one that `sanitize run` published")
    hook = _load_early_stop(recipe) if hook is None else hook
    require_torch()
    with _run_folder_lock(folder), _user_code_errors(recipe), _resource_errors(folder, recipe):
        processes = detect_processes(recipe.run.device, parallel=recipe.run.parallel, precision=recipe.run.precision)
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
        if self.processes.world_size > 1 and (recipe.privacy is not None or objective.IS_UNLEARNING):
            raise UsageError("private training and unlearning run in one process only; start this recipe without a launcher")
        if self.processes.is_sharded and self.hook is not _never_stop:
            raise UsageError('run.parallel = "fsdp": a hook (run.early_stop) needs a whole model, but each process has a part; use ddp')
        prepared = self._prepare(objective) if self.processes.is_main else None
        self.processes.barrier()  # the others wait until rank 0 has read, checked and tokenized the data
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
            self._write_run_files(prepared, tokenizer, self._compute_first_steps(objective, rows, retain_rows, plan), plan, sigma)
        self.processes.barrier()
        if recipe.run.gradient_checkpointing:
            # the second is its name in older versions of transformers
            enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        if recipe.run.compile:
            for layer in get_layers(model):  # layer by layer: they are alike, so that one compilation serves all
                layer.compile(backend=COMPILE_BACKEND)
        optimizer = build_adamw(model, recipe.run)
        writer = _RunWriter(self, model=model, tokenizer=tokenizer, optimizer=optimizer, batch_plan=plan, noise_multiplier=sigma)
        state = checkpoint.find_latest_state(self.folder / "state")
        if state is not None:
            checkpoint.load_state(
                state["path"], model=model, optimizer=optimizer, parameter_names=writer.parameter_names, processes=self.processes
            )
            state = {key: state[key] for key in ("step", "tokens", "seconds", "logged", "since", "stopped")}
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
        with writer.background:
            if state is None:
                writer.write_checkpoint(trainer.build_checkpoint_metadata(0, 0, None))
            final_state = trainer.train(state)
        summary = writer.build_summary(final_state, max(final_state["seconds"], time.perf_counter() - started if state is None else 0.0))
        if self.processes.is_main:
            write_json(self.folder / "train.json", summary)
            shutil.rmtree(self.folder / TOKENS_FOLDER, ignore_errors=True)
        self.processes.barrier()
        (self.folder / NOISE_KEY_FILE).unlink(missing_ok=True)
        return summary

    def _prepare(self, objective: Objective) -> _PreparedRun | None:
        """Read and check the data, and tokenize it into RUN/tokens unless that was done before; None if the run is finished."""
        recipe = self.recipe
        data = read_recipe_documents(recipe, recipe.data.path)
        validation = read_recipe_documents(recipe, recipe.data.validation, is_validation=True) if recipe.data.validation else None
        identity = compute_run_identity(recipe, data, validation)
        existing = self._read_existing_run(identity)
        if existing is not None and read_json(self.folder / "train.json") is not None:
            return None
        self.progress(f"{len(data)} documents, recipe {recipe.hash()}")
        folder = self.folder / TOKENS_FOLDER
        tokenizer = self._get_tokenizer(data, existing)
        model = None
        if existing is None or not folder.is_dir():
            labels = _distinct_labels(data) if objective.HEAD == "classify" else ()
            model = self._build_model(objective, tokenizer, labels)
            trained_mask = objective.select_trained_documents(data.doc_ids)
            documents = (
                {"train": data}
                if trained_mask is None
                else {"train": data.filter_rows(trained_mask), "retain": data.filter_rows(~trained_mask)}
            )
            if validation is not None:
                documents["validation"] = validation
            rows = {name: make_rows(found, recipe, objective, tokenizer, model[1], labels) for name, found in documents.items()}
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
                **({"chat_template": asdict(find_chat_template(recipe, tokenizer))} if data.has_turns else {}),
            },
            existing=existing,
        )

    def _build_model(self, objective: Objective, tokenizer: Any, labels: tuple[str, ...]) -> tuple[Any, int]:
        settings = self.recipe
        return build_model(
            settings.model, head=objective.HEAD, tokenizer=tokenizer, seed=settings.run.seed, labels=labels, lora=settings.lora
        )

    def _compute_first_steps(self, objective: Objective, rows: TokenRows, retain_rows: TokenRows | None, plan: BatchPlan) -> pa.Table:
        """Return the step in which each document is used for the first time, of documents to forget and of others."""
        first_steps = compute_first_steps(rows, plan)
        if not isinstance(objective, UnlearningObjective) or retain_rows is None:
            return first_steps
        retained = aggregate_first_steps(retain_rows, objective.compute_retain_first_steps(plan), plan.step_count)
        return merge_first_steps(first_steps, retained)

    def _make_batch_plan(self, rows: TokenRows, prepared: _PreparedRun) -> tuple[BatchPlan, float, int]:
        """Return the batch plan, the noise multiplier (0 without privacy) and the seed of the objective's draws.

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
                f"run.batch = {plan.batch_size} is the expected number of units of a step, but the data has {plan.unit_count}; lower it"
            )
        if settings.delta * plan.unit_count >= 1:
            raise UsageError(f"privacy.delta = {settings.delta:g} is not below 1 / {plan.unit_count} units and protects none; lower it")
        sigma = existing["privacy"]["sigma"] if existing is not None else dp_sgd.resolve_noise_multiplier(settings, plan)
        self.progress(
            f"private: noise multiplier {sigma:.4g}, {plan.step_count} steps, each {settings.unit} of {plan.unit_count} "
            f"in a step with probability {plan.sample_rate:.4g}"
        )
        return plan, sigma, draws.derive_seed("objective")

    def describe_privacy(
        self, batch_plan: dp_sgd.PoissonBatchPlan, noise_multiplier: float, *, steps: int, stopped_early: bool = False
    ) -> dict[str, Any]:
        """Return the privacy of this run after `steps` steps."""
        assert self.recipe.privacy is not None, "a private run"
        return dp_sgd.describe_privacy(self.recipe, batch_plan, noise_multiplier, steps=steps, stopped_early=stopped_early)

    def _read_existing_run(self, identity: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the folder's recipe.json, None if it has none; UsageError if it is of another recipe or other data."""
        existing = read_json(self.folder / "recipe.json")
        if existing is None:
            # a state would continue with the moments, and in a private run with the noise, of gradients of other texts
            if any((self.folder / name).exists() for name in ("checkpoints", "state", "train.json")):
                raise UsageError(f"{self.folder}: holds a run without a readable recipe.json; choose another folder, or remove this one")
            return None
        wrong = sorted(key for key, value in identity.items() if existing.get("identity", {}).get(key) != value)
        if wrong:
            raise UsageError(
                f"{self.folder}: holds a run of another {' and another '.join(wrong)}; a run is only resumed with the recipe and the "
                "data that it was started with. Choose another folder, or remove this one"
            )
        return existing

    def _get_tokenizer(self, data: DocumentTable, existing: Mapping[str, Any] | None) -> Any:
        recipe = self.recipe
        first_checkpoint = self.folder / "checkpoints" / checkpoint.format_checkpoint_name(0)
        if existing is not None and first_checkpoint.is_dir():
            tokenizer = load_tokenizer(first_checkpoint)
            if tokenizer_sha256(tokenizer) != existing["tokenizer_sha256"]:
                raise UsageError(
                    f"{first_checkpoint}: the tokenizer is not the one the run began with; choose another folder, or remove this one"
                )
            return tokenizer
        return get_tokenizer(recipe, data)

    def _write_run_files(
        self, prepared: _PreparedRun, tokenizer: Any, first_steps: pa.Table, batch_plan: BatchPlan, noise_multiplier: float
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
                    **{name: version(name) for name in ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow")},
                },
            },
        )


@dataclass(frozen=True, repr=False)
class _PreparedRun:
    """What a run needs of its data: the rows on disk, and in rank 0 also what is written about them.

    `model` is the model with its row length, if it was built; `users` are of private training by user, one for each document; `existing` is
    the recipe.json of a run that is resumed.
    """

    tokens: TokenFiles
    model: tuple[Any, int] | None = None
    users: pa.Array | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    descriptions: Mapping[str, Any] = field(default_factory=dict)
    existing: Mapping[str, Any] | None = None


class _RunWriter:
    """Writes the log, checkpoints and states of a run while it trains; only the main process writes.

    With `run.background_save`, checkpoints and states are copied to the memory of the host and written by a thread, in order.
    """

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
        self.background = BackgroundWriter()
        self._in_background = run.recipe.run.background_save
        # of each document, ascending
        self._first_steps = pq.read_table(run.folder / "seen.parquet", columns=["first_step"], partitioning=None).column(0).to_numpy()
        path, dtype = run.recipe.model.path, run.recipe.run.checkpoint_dtype
        self._dtype = dtype if dtype != "model" else read_stored_dtype(path) if path else "float32"
        self.parameter_names = {parameter: name for name, parameter in trainable_parameters(model)}

    def append_log(self, entry: dict[str, Any]) -> None:
        """Append one line to log.jsonl."""
        self.background.raise_error()  # rather than at the next checkpoint
        if self._run.processes.is_main:
            checkpoint.append_log_entry(self._run.folder / "log.jsonl", entry)

    def write_state(self, metadata: dict[str, Any]) -> None:
        """Write the state that the run can be resumed from. To be called by all processes."""
        processes = self._run.processes
        weights, moments = checkpoint.gather_state(
            self._model, self._optimizer, self.parameter_names, processes, copies=self._in_background
        )
        if processes.is_main:
            folder = self._run.folder / "state"
            self._write(lambda: checkpoint.write_state(folder, weights=weights, moments=moments, metadata=metadata))

    def _write(self, write: Callable[[], object]) -> None:
        self.background.submit(write)
        if not self._in_background:
            self.background.wait()

    def write_checkpoint(self, metadata: dict[str, Any]) -> Path | None:
        """Write a checkpoint, with the number of documents seen and the privacy spent; return its folder, None in all processes but rank 0.

        To be called by all processes.
        """
        weights = checkpoint.gather_checkpoint_weights(self._model, self._run.processes, copies=self._in_background)
        if not self._run.processes.is_main:
            return None
        recipe, privacy_entry = self._run.recipe, {}
        if recipe.privacy is not None and isinstance(self._batch_plan, dp_sgd.PoissonBatchPlan):
            description = self._run.describe_privacy(self._batch_plan, self._noise_multiplier, steps=metadata["step"])
            privacy_entry = {"privacy": {key: description[key] for key in ("claim", "unit", "epsilon", "delta", "steps")}}
        folder = self._run.folder / "checkpoints"
        complete_metadata = {
            **metadata,
            "documents_seen": self._count_documents_seen(metadata["step"]),
            "recipe_hash": recipe.hash(),
            **privacy_entry,
        }
        self._write(
            lambda: checkpoint.write_checkpoint(
                folder, model=self._model, weights=weights, dtype=self._dtype, tokenizer=self._tokenizer, metadata=complete_metadata
            )
        )
        return folder / checkpoint.format_checkpoint_name(metadata["step"])

    def on_checkpoint(self, metadata: dict[str, Any]) -> bool:
        """Write a checkpoint and call the hook; return whether the run is to stop there."""
        import torch

        path = self.write_checkpoint(metadata)
        if path is None:
            return False
        self._run.progress(
            f"step {metadata['step']} of {self._batch_plan.step_count}, epoch {metadata['epoch']:.2f}: loss {metadata['train_loss']:.4f}"
            + ("" if metadata["validation_loss"] is None else f", validation {metadata['validation_loss']:.4f}")
        )
        if self._run.hook is _never_stop:
            return False
        self.background.wait()  # a hook reads the checkpoint
        self._model.eval()
        with torch.no_grad():
            return bool(self._run.hook(CheckpointEvent(path, read_json(path / "checkpoint.json") or {}, self._model, self._tokenizer)))

    def build_summary(self, final_state: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Return the contents of train.json; a private run also writes the privacy it spent into recipe.json."""
        recipe, plan = self._run.recipe, self._batch_plan
        checkpoint_steps = [0, *(step for step in plan.checkpoint_steps(recipe.run.checkpoint_every) if step <= final_state["step"])]
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
                plan, self._noise_multiplier, steps=final_state["step"], stopped_early=final_state["stopped"]
            )
            path = self._run.folder / "recipe.json"
            write_json(path, {**(read_json(path) or {}), "privacy": summary["privacy"]})
        return summary

    def _count_documents_seen(self, steps: int) -> int:
        """Return how many distinct documents were in a batch within the first `steps` steps."""
        return int(np.searchsorted(self._first_steps, steps, side="right"))


def get_tokenizer(recipe: Recipe, documents: DocumentTable) -> Any:
    """Load the tokenizer that a recipe names, or train one on the recipe's tokenizer corpus (default: these documents)."""
    settings = recipe.tokenizer
    source = settings.path or ("" if settings.corpus else recipe.model.path)
    if source:
        return load_tokenizer(source)
    corpus = read_documents(settings.corpus, text_column=recipe.data.text_column) if settings.corpus else documents
    return train_tokenizer(corpus.texts(), vocab_size=settings.vocab, context_length=recipe.model.context or DEFAULT_CONTEXT)


def find_chat_template(recipe: Recipe, tokenizer: Any) -> ChatTemplate:
    """Return the template that writes conversations: the recipe's, else the tokenizer's own, else one line for each turn. It becomes the
    tokenizer's, and so is saved with each checkpoint.
    """
    path = recipe.data.chat_template
    name, source = path, tokenizer.chat_template
    if path:
        try:
            source = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"data.chat_template = {path!r}: cannot be read ({type(error).__name__}); expected a Jinja file") from None
    elif not isinstance(source, str):  # none, or several by name
        source = (source or {}).get("default", PLAIN_TEMPLATE)
    tokenizer.chat_template = source
    tokens = {key: str(token) for key, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    return ChatTemplate(source, tuple(tokens.items()), name or "the tokenizer's chat template")


def stream_batches(recipe: Recipe | Mapping[str, Any] | str | Path, *, rank: int = 0, world_size: int = 1) -> BatchStream:
    """Return the batches of a recipe as a resumable stream, for a training loop of your own; no model is built.

    `stream.to_torch_dataset()` gives it to torch's loaders; `batches.compute_first_steps(stream.rows, stream.batch_plan)` says which
    documents each step has seen. Raises the errors of `fit`.
    """
    recipe = Recipe.load(recipe)
    require_torch()
    objective = recipe.build_objective()
    if recipe.privacy is not None or objective.IS_UNLEARNING:
        raise UsageError("recipes with privacy or an unlearning objective cannot be streamed, they need their own loop; use sanitize-train")
    data = read_recipe_documents(recipe, recipe.data.path)
    labels = _distinct_labels(data) if objective.HEAD == "classify" else ()
    rows = make_rows(data, recipe, objective, get_tokenizer(recipe, data), recipe.model.context or DEFAULT_CONTEXT, labels)
    return BatchStream(rows, make_batch_plan(recipe, rows), rank=rank, world_size=world_size)


def make_batch_plan(recipe: Recipe, rows: TokenRows) -> BatchPlan:
    """Return the batch plan of a recipe without privacy over these rows."""
    return BatchPlan(
        row_count=len(rows), batch_size=recipe.run.batch, seed=recipe.run.seed, epochs=recipe.run.epochs, max_steps=recipe.run.max_steps
    )


def read_recipe_documents(recipe: Recipe, path: str, *, is_validation: bool = False) -> DocumentTable:
    """Read the documents of a path with the columns that a recipe needs.

    `leave_out`, `limit` and `spans_from` apply to the training data only, not to validation data.
    """
    settings, objective = recipe.data, recipe.build_objective()
    documents = read_documents(
        path,
        text_column=settings.text_column,
        id_column=settings.id_column,
        label_column=settings.label_column if objective.HEAD == "classify" else None,
        user_column=recipe.privacy.user_column
        if recipe.privacy is not None and recipe.privacy.unit == "user" and not is_validation
        else None,
        prompt_columns=settings.prompt_columns if settings.prompts == "include" else (),
        with_pii_spans=settings.leave_out_pii and not settings.spans_from,
        split=settings.validation_split if is_validation else settings.split,
    )
    if is_validation:
        return documents
    if path == settings.path and settings.spans_from:
        documents = documents.with_pii_spans(settings.spans_from)
    if path == settings.path and settings.leave_out:
        kept = ~select_listed_documents(documents.doc_ids, settings.leave_out)
        if not kept.any():
            raise UsageError(f"{settings.leave_out}: names every document, so that none is left to train on")
        documents = documents.filter_rows(kept)
    if path == settings.path and settings.limit is not None and settings.limit < len(documents):
        drawn_numbers = np.sort(draw_permutation(len(documents), seed=recipe.run.seed, epoch=0, lane=LANE_LIMIT)[: settings.limit])
        documents = replace(documents, table=documents.table.take(pa.array(drawn_numbers)))
    return documents


def make_rows(
    documents: DocumentTable, recipe: Recipe, objective: Objective, tokenizer: Any, context_length: int, labels: tuple[str, ...] = ()
) -> TokenRows:
    """Tokenize the documents and pack them into rows by the recipe's layout."""
    settings = recipe.data
    if documents.has_turns:
        documents = documents.with_template(find_chat_template(recipe, tokenizer), with_spans=settings.answers_only)
    elif settings.answers_only and not settings.prompt_columns:
        raise UsageError("data.answers_only needs data.prompt_columns or conversations; there is no prompt to leave out")
    rewrites = type(objective).rewrite_texts is not Objective.rewrite_texts
    if rewrites and settings.leave_out_pii:
        raise UsageError(
            f"data.leave_out_pii: objective {objective.use} changes the texts, so that their spans would be wrong; use one of the two"
        )
    tokens = tokenize_documents(
        documents,
        tokenizer,
        answers_only=settings.answers_only,
        leave_out_pii=settings.leave_out_pii,
        select_maskable_words=objective.select_maskable_words if objective.NEEDS_WORDS else None,
        rewrite_texts=objective.rewrite_texts if rewrites else None,
    )
    if labels:
        numbers = pc.index_in(documents.table.column("label"), pa.array(labels, pa.large_string()))
        if numbers.null_count:
            raise InputRefused(f"{documents.path}: {numbers.null_count} documents have a label that the training data does not have")
        tokens = tokens.with_labels(numbers.to_numpy().astype(np.int64))
    prefix, suffix = get_special_tokens(tokenizer, objective.HEAD)
    return pack_rows(
        tokens,
        layout=settings.layout,
        context_length=context_length,
        seed=recipe.run.seed,
        pad_id=tokenizer.pad_token_id,
        prefix=prefix,
        suffix=suffix,
        specials_per_piece=objective.HEAD != "causal",
        overlong=settings.overlong,
        isolates_documents=settings.attention == "document",
    )


def compute_run_identity(recipe: Recipe, data: DocumentTable, validation: DocumentTable | None) -> dict[str, Any]:
    """Return what must be equal for a run folder to be resumed: the recipe's hash, the hashes of the contents of all its paths, and the
    generator of the noise."""
    paths = {"tokenizer": recipe.tokenizer.path, "base model": recipe.model.path, **recipe.build_objective().input_paths()}
    if recipe.data.chat_template:
        paths["chat template"] = recipe.data.chat_template
    if recipe.data.leave_out:
        paths["list of documents left out"] = recipe.data.leave_out
    return {
        "recipe": recipe.hash(),
        "data": data.shards_sha256,
        "validation data": None if validation is None else validation.shards_sha256,
        "tokenizer corpus": read_documents(recipe.tokenizer.corpus, text_column=recipe.data.text_column).shards_sha256
        if recipe.tokenizer.corpus
        else None,
        "noise generator": None if recipe.privacy is None else NOISE_VERSION,
        **{name: folder_sha256(path) if path else None for name, path in paths.items()},
    }


def folder_sha256(path: str | Path) -> str:
    """Return one hash of the files directly inside a folder, or of one file; InputRefused if the path does not exist.

    That of an adapter has the files of its base model in it, too.
    """
    source = Path(path)
    if not source.exists():
        raise InputRefused(f"{source}: there is no such folder or file; paths in a recipe are local, nothing is downloaded")
    files = [source] if source.is_file() else sorted(file for file in source.iterdir() if file.is_file())
    lines = [f"{file.name} {file_sha256(file)}\n" for file in files]
    if is_adapter(source):
        lines.append(f"base {folder_sha256(find_base_folder(source))}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _distinct_labels(data: DocumentTable) -> tuple[str, ...]:
    found = tuple(sorted(pc.unique(data.table.column("label")).to_pylist()))
    if len(found) < 2:
        raise InputRefused(f"{data.path}: the label column has {len(found)} distinct value; expected two or more")
    return found


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
        raise UsageError(f"run.early_stop = {path!r} cannot be imported ({describe_exception(error)}); expected module.function") from None
    if not callable(found):
        raise UsageError(f"run.early_stop = {path!r} is not a function; expected a function (CheckpointEvent) -> bool")
    hook: CheckpointHook = found
    return hook


@contextmanager
def _user_code_errors(recipe: Recipe) -> Iterator[None]:
    """Turn an exception in code of the user's own that the recipe names into UsageError: which, the type of the exception, and where.

    Only code outside this package is the user's: an exception elsewhere is an internal error.
    """
    try:
        yield
    except SanitizeError:
        raise
    except Exception as error:
        named = {"run.early_stop": recipe.run.early_stop.rpartition(".")[0], "objective.use": str(recipe.objective["use"])}
        files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
        for key, module_name in named.items():
            file = getattr(sys.modules.get(module_name), "__file__", None)
            if not module_name.startswith("sanitize.") and file in files:
                name = recipe.run.early_stop if key == "run.early_stop" else module_name
                raise UsageError(
                    f"{key} = {name!r} failed: {describe_exception(error, inside=file)}. This code is not part of sanitize; correct it, "
                    "then run the same command again, which resumes from the last saved state"
                ) from error
        raise


@contextmanager
def _resource_errors(folder: Path, recipe: Recipe) -> Iterator[None]:
    """Turn errors of a full or broken disk, of a full device and of a process that ended into ResourceError.

    The run can be resumed from its last state.
    """
    import torch

    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRNOS:
            raise
        raise ResourceError(
            f"{folder}: could not be written ({errno.errorcode[error.errno]}); free some space, then run the same command again"
        ) from None
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise ResourceError(_describe_too_little_memory(recipe)) from None
        if isinstance(error, torch.distributed.DistError) or "gloo" in str(error):
            raise ResourceError(
                "another process of this run has ended, or cannot be reached; its own message says why. The same command goes on from the "
                "last saved state"
            ) from None
        if recipe.run.compile and type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise UsageError(
                f"run.compile: torch cannot compile this model here ({type(error).__name__}); leave it out, or install a C++ compiler"
            ) from None
        raise


def _describe_too_little_memory(recipe: Recipe) -> str:
    """Say what a step needed, and what lowers it, in the order of what it costs."""
    rows = -(-recipe.run.batch // recipe.run.accumulate)
    advice = []
    if rows > 1:
        advice.append(f"raise run.accumulate ({recipe.run.accumulate}, at most {recipe.run.batch}), which does not change the result")
    if recipe.run.precision == "float32":
        advice.append('set run.precision = "bf16"')
    if not recipe.run.gradient_checkpointing and recipe.privacy is None:
        advice.append("set run.gradient_checkpointing = true")
    advice.append("lower model.context")
    if recipe.model.path and recipe.lora is None:
        advice.append("train an adapter (lora.rank = 16) or the top layers only (model.top_layers)")
    return f"the device has too little memory for a step of {rows} rows at once. In this order: " + "; ".join(advice)


@contextmanager
def _run_folder_lock(folder: Path) -> Iterator[None]:
    """Lock the run folder for this process (rank 0 only); raises Locked if another process holds it."""
    if int(os.environ.get("RANK", "0")):
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; expected a folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "run.lock", folder):
        yield
