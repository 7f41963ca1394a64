"""From a recipe to a run folder: data, tokenizer, rows, model, loop, checkpoints; resumed by the same call.

RUN/recipe.json  seen.parquet  log.jsonl  checkpoints/step-000000/ ...  state/  train.json (written last)
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.errors import InputRefused, Locked, ResourceError, UsageError
from sanitize.storage.corpus import read_json, sha256, write_json

from . import checkpoint, dp_sgd
from .batches import DRAW, Plan, Rows, Stream, first_steps, first_steps_of, lay, merged, order
from .checkpoint import Moment
from .documents import Documents, read
from .keyed_random import insecure, secret
from .model import DEFAULT_CONTEXT, learned, learning, local_tokenizer, made, specials, tokenizer_sha256, trained_tokenizer
from .objectives import Objective
from .objectives.objective import Stage
from .processes import Crew, crew
from .recipe import Recipe
from .tokenization import tokenise
from .trainer import Loop, adamw, precision
from .unlearning_losses import Forgetting, named

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
Hook = Callable[[Moment], bool]
KEY = "noise.key"  # of a private run, while it lasts


def fit(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    out: str | Path,
    *,
    hook: Hook | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train by a recipe into the folder `out`, and give what stands in its train.json then. The same call again resumes, or trains nothing.

    `hook` is asked at every checkpoint but the one before the first step, with the live model; true stops the run there. `progress` hears
    lines for people. Raises UsageError for a recipe that is wrong or does not fit its data, and for a folder of another recipe or other
    data; InputRefused, OutputBroken and Locked for the folders themselves; ResourceError for disk and memory; MissingExtra without torch.
    """
    recipe, folder = Recipe.of(recipe), Path(out)
    if recipe.base is not None:
        raise UsageError(f"recipe {recipe.name} has stages (a table [base]); use sanitize-train unlearn --method dp2unlearning")
    if not recipe.data.path:
        raise UsageError("data.path is not set; expected a folder of shards, such as one that `sanitize run` published")
    hook = _early_stop(recipe) if hook is None else hook
    learning()
    with _locked(folder), _resources(folder):
        return _Run(recipe, folder, crew(recipe.run.device), hook or (lambda moment: False), progress or (lambda line: None)).go()


@dataclass(frozen=True, repr=False)
class _Run:
    recipe: Recipe
    folder: Path
    crew: Crew
    hook: Hook
    progress: Callable[[str], None]

    def go(self) -> dict[str, Any]:
        recipe, began = self.recipe, time.perf_counter()
        data = read_data(recipe, recipe.data.path)
        validation = read_data(recipe, recipe.data.validation) if recipe.data.validation else None
        identity = identified(recipe, data, validation)
        there = self._there(identity)
        done = read_json(self.folder / "train.json")
        if there is not None and done is not None:
            (self.folder / KEY).unlink(missing_ok=True)
            return done
        self.progress(f"{len(data)} documents, recipe {recipe.hash()}")
        objective = recipe.made()
        tokenizer = self._tokenizer(data, there)
        if self.crew.ranks > 1 and (recipe.privacy is not None or objective.FORGETS):
            raise UsageError("a private training, or one that forgets, is made by one process; start it without a launcher")
        labels = _labels(data) if objective.HEAD == "classify" else ()
        chosen = objective.trained_on(data.doc_ids)
        model, context = made(recipe.model, head=objective.HEAD, tokenizer=tokenizer, seed=recipe.run.seed, labels=labels)
        mine, beside = (data, None) if chosen is None else (data.only(chosen), data.only(~chosen))
        rows = rows_of(mine, recipe, objective, tokenizer, context, labels)
        others = rows_of(beside, recipe, objective, tokenizer, context, labels) if beside is not None else None
        held = rows_of(validation, recipe, objective, tokenizer, context, labels) if validation is not None else None
        if recipe.privacy is not None:
            dp_sgd.refuse_mixing(model)
        plan, sigma, seed = self._plan(rows, data, there)
        model.to(self.crew.device)
        objective.open(
            Stage(
                rows=rows,
                tokenizer=tokenizer,
                model=model,
                device=self.crew.device,
                seed=seed,
                batch=recipe.run.batch,
                context=context,
                others=others,
                labels=labels,
                precision=lambda: precision(recipe.run, self.crew.device),
            )
        )
        seen = first_steps(rows, plan)
        if isinstance(objective, Forgetting) and others is not None:
            seen = merged(seen, first_steps_of(others, objective.beside_steps(plan), plan.steps))
        if there is None and self.crew.leads:
            self._open(identity, data, validation, tokenizer, seen, plan, sigma)
        self.crew.wait()
        del data, mine, beside, validation  # their texts are needed no more
        optimizer = adamw(model, recipe.run)
        told = _Told(self, model=model, tokenizer=tokenizer, optimizer=optimizer, plan=plan, sigma=sigma, seen=seen)
        state = checkpoint.newest_state(self.folder / "state")
        if state is not None:
            checkpoint.load_state(state["path"], model=model, optimizer=optimizer, names=told.names)
            state = {key: state[key] for key in ("step", "tokens", "seconds", "logged", "since", "stopped")}
            self.progress(f"resumed after step {state['step']} of {plan.steps}")
        loop = Loop(
            model=model,
            optimizer=optimizer,
            objective=objective,
            rows=rows,
            plan=plan,
            run=recipe.run,
            crew=self.crew,
            validation=held,
            privacy=recipe.privacy,
            sigma=sigma,
            log=told.log,
            checkpoint=told.at_mark,
            state=told.state,
        )
        if self.crew.leads:
            checkpoint.cut_log(self.folder / "log.jsonl", state["step"] if state else 0)
            if state is None:
                told.keep(loop.told(0, 0, None))
        last = loop.go(state)
        summary = told.summary(last, max(last["seconds"], time.perf_counter() - began if state is None else 0.0))
        if self.crew.leads:
            write_json(self.folder / "train.json", summary)
        self.crew.wait()
        (self.folder / KEY).unlink(missing_ok=True)
        return summary

    def _plan(self, rows: Rows, data: Documents, there: Mapping[str, Any] | None) -> tuple[Plan, float, int]:
        """The plan of the run, its noise multiplier, and the seed of what its objective draws; in a private run plan and seed are from the
        run's secret key."""
        recipe, settings = self.recipe, self.recipe.privacy
        if settings is None:
            return planned(recipe, rows), 0.0, recipe.run.seed
        seed = settings.insecure_seed
        draws = secret(self.folder / KEY, begun=there is not None) if seed is None else insecure(seed)
        users = data.table.column("user") if settings.unit == "user" else None
        plan = dp_sgd.Poisson(
            rows=len(rows),
            batch=recipe.run.batch,
            seed=recipe.run.seed,
            epochs=recipe.run.epochs,
            max_steps=recipe.run.max_steps,
            units=dp_sgd.units_of(rows, users),
            draws=draws,
        )
        if plan.batch > plan.count:
            raise UsageError(f"run.batch = {plan.batch}: the expected number of units of a step; the data has only {plan.count}")
        if settings.delta * plan.count >= 1:
            raise UsageError(f"privacy.delta = {settings.delta:g} is 1 of {plan.count} units or more, and protects none; use less")
        sigma = there["privacy"]["sigma"] if there is not None else dp_sgd.sigma_of(settings, plan)
        self.progress(f"private: noise multiplier {sigma:.4g}, {plan.steps} steps of {plan.q:.4g} of {plan.count} {settings.unit}s")
        return plan, sigma, draws.seed("objective")

    def _there(self, identity: Mapping[str, Any]) -> dict[str, Any] | None:
        """The recipe.json that lies in the folder, if it is of this recipe and data; UsageError if it is of another."""
        there = read_json(self.folder / "recipe.json")
        if there is None:
            if (self.folder / "checkpoints").exists() or (self.folder / "train.json").exists():
                raise UsageError(f"{self.folder}: holds a run without a readable recipe.json; choose another folder, or take it away")
            return None
        wrong = sorted(key for key, value in identity.items() if there.get("identity", {}).get(key) != value)
        if wrong:
            raise UsageError(
                f"{self.folder}: holds a run of another {' and another '.join(wrong)}; a checkpoint is only resumed by the recipe and the "
                "data that made it. Choose another folder, or take this one away"
            )
        return there

    def _tokenizer(self, data: Documents, there: Mapping[str, Any] | None) -> Any:
        recipe = self.recipe
        kept = self.folder / "checkpoints" / checkpoint.name_of(0)
        if there is not None and kept.is_dir():
            tokenizer = local_tokenizer(kept)
            if tokenizer_sha256(tokenizer) != there["tokenizer_sha256"]:
                raise UsageError(f"{kept}: the tokenizer is not the one the run began with; choose another folder, or take this one away")
            return tokenizer
        return tokenizer_of(recipe, data)

    def _open(
        self,
        identity: Mapping[str, Any],
        data: Documents,
        validation: Documents | None,
        tokenizer: Any,
        seen: pa.Table,
        plan: Plan,
        sigma: float,
    ) -> None:
        recipe = self.recipe
        pq.write_table(seen, self.folder / "seen.parquet.tmp")
        (self.folder / "seen.parquet.tmp").rename(self.folder / "seen.parquet")
        write_json(
            self.folder / "recipe.json",
            {
                "recipe": recipe.resolved(),
                "recipe_hash": recipe.hash(),
                "identity": dict(identity),
                "data": data.told(),
                "validation": None if validation is None else validation.told(),
                "tokenizer_sha256": tokenizer_sha256(tokenizer),
                "base_model": str(Path(recipe.model.path).resolve()) if recipe.model.path else None,
                "processes": self.crew.ranks,
                **({"privacy": dp_sgd.told(recipe, plan, sigma, steps=0)} if isinstance(plan, dp_sgd.Poisson) else {}),
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow")},
                },
            },
        )


class _Told:
    """What a run writes of itself while it goes: its log, checkpoints and states, by the first of its processes alone."""

    def __init__(self, run: _Run, *, model: Any, tokenizer: Any, optimizer: Any, plan: Plan, sigma: float, seen: pa.Table) -> None:
        self._run, self._model, self._tokenizer, self._optimizer = run, model, tokenizer, optimizer
        self._plan, self._sigma = plan, sigma
        self._first_seen = seen.column("first_step").to_numpy()  # of each document, ascending
        self.names = {one: name for name, one in learned(model)}

    def log(self, entry: dict[str, Any]) -> None:
        """One more line of log.jsonl."""
        if self._run.crew.leads:
            checkpoint.append_log(self._run.folder / "log.jsonl", entry)

    def state(self, info: dict[str, Any]) -> None:
        """What the run can be gone on with from here."""
        if self._run.crew.leads:
            checkpoint.write_state(self._run.folder / "state", model=self._model, optimizer=self._optimizer, names=self.names, info=info)

    def keep(self, info: dict[str, Any]) -> Path:
        """A checkpoint, with what it has seen and spent."""
        recipe, spent = self._run.recipe, {}
        if recipe.privacy is not None and isinstance(self._plan, dp_sgd.Poisson):
            told = dp_sgd.told(recipe, self._plan, self._sigma, steps=info["step"])
            spent = {"privacy": {key: told[key] for key in ("claim", "unit", "epsilon", "delta", "steps")}}
        return checkpoint.write(
            self._run.folder / "checkpoints",
            model=self._model,
            tokenizer=self._tokenizer,
            info={**info, "documents_seen": self._documents(info["step"]), "recipe_hash": recipe.hash(), **spent},
        )

    def at_mark(self, info: dict[str, Any]) -> bool:
        """A checkpoint, and whether the hook says stop there."""
        import torch

        if not self._run.crew.leads:
            return False
        path = self.keep(info)
        self._run.progress(
            f"step {info['step']} of {self._plan.steps}, epoch {info['epoch']:.2f}: loss {info['train_loss']:.4f}"
            + ("" if info["validation_loss"] is None else f", validation {info['validation_loss']:.4f}")
        )
        self._model.eval()
        with torch.no_grad():
            return bool(self._run.hook(Moment(path, read_json(path / "checkpoint.json") or {}, self._model, self._tokenizer)))

    def summary(self, last: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """What stands in train.json; in a private run recipe.json says what it spent, too."""
        recipe, plan = self._run.recipe, self._plan
        marks = [0, *(mark for mark in plan.marks(recipe.run.checkpoint_every) if mark <= last["step"])]
        summary = {
            "steps": last["step"],
            "checkpoints": [checkpoint.name_of(mark) for mark in marks],
            "final": checkpoint.name_of(marks[-1]),
            "tokens": last["tokens"],
            "seconds": round(seconds, 3),
            "documents": self._documents(last["step"]),
            "stopped_early": last["stopped"],
            "recipe_hash": recipe.hash(),
        }
        if isinstance(plan, dp_sgd.Poisson):
            summary["privacy"] = dp_sgd.told(recipe, plan, self._sigma, steps=last["step"], stopped=last["stopped"])
            path = self._run.folder / "recipe.json"
            write_json(path, {**(read_json(path) or {}), "privacy": summary["privacy"]})
        return summary

    def _documents(self, steps: int) -> int:
        """How many documents so many steps have shown."""
        return int(np.searchsorted(self._first_seen, steps, side="right"))


def tokenizer_of(recipe: Recipe, data: Documents) -> Any:
    """The tokenizer that a recipe names, or trains on its corpus."""
    settings = recipe.tokenizer
    source = settings.path or ("" if settings.corpus else recipe.model.path)
    if source:
        return local_tokenizer(source)
    corpus = read(settings.corpus, text=recipe.data.text_column) if settings.corpus else data
    return trained_tokenizer(corpus.texts(), vocab=settings.vocab, context=recipe.model.context or DEFAULT_CONTEXT)


def stream(recipe: Recipe | Mapping[str, Any] | str | Path, *, rank: int = 0, ranks: int = 1) -> Stream:
    """The batches of a recipe as a resumable stream, for a loop of your own (`stream.torch()` for torch's loaders); no model is made.

    `first_steps(stream.rows, stream.plan)` of `batches.py` says what each step has seen. Errors are those of `fit`.
    """
    recipe = Recipe.of(recipe)
    learning()
    objective = recipe.made()
    if recipe.privacy is not None or objective.FORGETS:
        raise UsageError("the stream of a recipe with privacy, or one that forgets, belongs to its own loop; use sanitize-train")
    data = read_data(recipe, recipe.data.path)
    labels = _labels(data) if objective.HEAD == "classify" else ()
    rows = rows_of(data, recipe, objective, tokenizer_of(recipe, data), recipe.model.context or DEFAULT_CONTEXT, labels)
    return Stream(rows, planned(recipe, rows), rank=rank, ranks=ranks)


def planned(recipe: Recipe, rows: Rows) -> Plan:
    """The plan of a recipe over these rows."""
    return Plan(rows=len(rows), batch=recipe.run.batch, seed=recipe.run.seed, epochs=recipe.run.epochs, max_steps=recipe.run.max_steps)


def read_data(recipe: Recipe, path: str) -> Documents:
    """The documents of a path with the columns that a recipe asks for, as many as its limit allows."""
    settings, objective = recipe.data, recipe.made()
    documents = read(
        path,
        text=settings.text_column,
        doc_id=settings.id_column,
        label=settings.label_column if objective.HEAD == "classify" else None,
        user=recipe.privacy.user_column if recipe.privacy is not None and recipe.privacy.unit == "user" and path == settings.path else None,
        prompts=settings.prompt_columns if settings.prompts == "include" else (),
        pii_spans=settings.leave_out_pii and not settings.spans_from,
    )
    if path == settings.path and settings.spans_from:
        documents = documents.spanned(settings.spans_from)
    if path == settings.path and settings.leave_out:
        left = ~named(documents.doc_ids, settings.leave_out)
        if not left.any():
            raise UsageError(f"{settings.leave_out}: names every document, so that none is left to train on")
        documents = documents.only(left)
    if path == settings.path and settings.limit is not None and settings.limit < len(documents):
        drawn = np.sort(order(len(documents), seed=recipe.run.seed, epoch=0, lane=DRAW)[: settings.limit])
        documents = replace(documents, table=documents.table.take(pa.array(drawn)))
    return documents


def rows_of(documents: Documents, recipe: Recipe, objective: Objective, tokenizer: Any, context: int, labels: tuple[str, ...] = ()) -> Rows:
    """The documents as rows of tokens, as a recipe lays them."""
    settings = recipe.data
    rewrites = type(objective).rewritten is not Objective.rewritten
    if rewrites and settings.leave_out_pii:
        raise UsageError(
            f"data.leave_out_pii: {objective.use} changes the texts, so that spans do not fit them any more; use one of the two"
        )
    tokens = tokenise(
        documents,
        tokenizer,
        answers_only=settings.answers_only,
        leave_out_pii=settings.leave_out_pii,
        words=objective.words if objective.WORDS else None,
        rewritten=objective.rewritten if rewrites else None,
    )
    if labels:
        numbers = pc.index_in(documents.table.column("label"), pa.array(labels, pa.large_string()))
        if numbers.null_count:
            raise InputRefused(f"{documents.path}: {numbers.null_count} documents have a label that the training data does not have")
        tokens = tokens.labelled(numbers.to_numpy().astype(np.int64))
    prefix, suffix = specials(tokenizer, objective.HEAD)
    return lay(
        tokens,
        layout=settings.layout,
        context=context,
        seed=recipe.run.seed,
        pad_id=tokenizer.pad_token_id,
        prefix=prefix,
        suffix=suffix,
        every_piece=objective.HEAD != "causal",
        overlong=settings.overlong,
    )


def identified(recipe: Recipe, data: Documents, validation: Documents | None) -> dict[str, Any]:
    """What a run folder must agree with to be gone on with: the recipe, and the hashes of all that its paths hold."""
    paths = {"tokenizer": recipe.tokenizer.path, "base model": recipe.model.path, **recipe.made().paths()}
    if recipe.data.leave_out:
        paths["list of documents left out"] = recipe.data.leave_out
    return {
        "recipe": recipe.hash(),
        "data": data.sha256,
        "validation data": None if validation is None else validation.sha256,
        "tokenizer corpus": read(recipe.tokenizer.corpus, text=recipe.data.text_column).sha256 if recipe.tokenizer.corpus else None,
        **{name: folder_sha256(path) if path else None for name, path in paths.items()},
    }


def folder_sha256(path: str | Path) -> str:
    """One hash over the files right inside a folder, or of one file; InputRefused where there is none."""
    place = Path(path)
    if not place.exists():
        raise InputRefused(
            f"{place}: there is no such folder or file; what a recipe names by a path is read from the disk and never downloaded"
        )
    files = [place] if place.is_file() else sorted(file for file in place.iterdir() if file.is_file())
    return hashlib.sha256("".join(f"{file.name} {sha256(file)}\n" for file in files).encode()).hexdigest()


def _labels(data: Documents) -> tuple[str, ...]:
    found = tuple(sorted(pc.unique(data.table.column("label")).to_pylist()))
    if len(found) < 2:
        raise InputRefused(f"{data.path}: the labels have {len(found)} value; expected two or more to tell apart")
    return found


def _early_stop(recipe: Recipe) -> Hook | None:
    path = recipe.run.early_stop
    if not path:
        return None
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"run.early_stop = {path!r} cannot be imported ({type(error).__name__}); expected module.function") from None
    if not callable(found):
        raise UsageError(f"run.early_stop = {path!r} is no function; expected one of (Moment) -> bool")
    hook: Hook = found
    return hook


@contextmanager
def _resources(folder: Path) -> Iterator[None]:
    """A full disk, or a device without memory, as one error; the same call goes on from the last state."""
    import torch

    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise ResourceError(
            f"{folder}: could not be written ({errno.errorcode[error.errno]}); make room, then run the same again"
        ) from None
    except torch.OutOfMemoryError:
        raise ResourceError("the device has too little memory for a piece of a step; raise run.accumulate, or lower run.batch") from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process (the first of a crew); Locked where another one has it."""
    if int(os.environ.get("RANK", "0")):
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: a file; expected a folder for the run")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Locked(f"{folder}: another run is at work there; wait for it, or choose another folder") from None
        yield
