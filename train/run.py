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
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.errors import InputRefused, Locked, ResourceError, UsageError
from sanitize.shards import read_json, sha256, write_json

from . import checkpoint
from .batches import DRAW, Plan, Rows, Stream, first_steps, lay, order
from .checkpoint import Moment
from .crew import Crew, crew
from .documents import Documents, read
from .loop import Loop, adamw, precision
from .model import DEFAULT_CONTEXT, learned, learning, local_tokenizer, made, specials, tokenizer_sha256, trained_tokenizer
from .objectives import Objective
from .objectives.objective import Stage
from .recipe import Recipe
from .tokens import tokenise

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG)
Hook = Callable[[Moment], bool]


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
        import torch

        recipe, began = self.recipe, time.perf_counter()
        data = read_data(recipe, recipe.data.path)
        validation = read_data(recipe, recipe.data.validation) if recipe.data.validation else None
        identity = identified(recipe, data, validation)
        there = self._there(identity)
        done = read_json(self.folder / "train.json")
        if there is not None and done is not None:
            return done
        self.progress(f"{len(data)} documents, recipe {recipe.hash()}")
        objective = recipe.made()
        tokenizer = self._tokenizer(data, there)
        labels = _labels(data) if objective.HEAD == "classify" else ()
        model, context = made(recipe.model, head=objective.HEAD, tokenizer=tokenizer, seed=recipe.run.seed, labels=labels)
        rows = rows_of(data, recipe, objective, tokenizer, context, labels)
        held = rows_of(validation, recipe, objective, tokenizer, context, labels) if validation is not None else None
        plan = planned(recipe, rows)
        seen = first_steps(rows, plan)
        if there is None and self.crew.leads:
            self._open(identity, data, validation, tokenizer, seen)
        self.crew.wait()
        model.to(self.crew.device)
        objective.open(
            Stage(
                rows=rows,
                tokenizer=tokenizer,
                model=model,
                device=self.crew.device,
                seed=recipe.run.seed,
                batch=recipe.run.batch,
                labels=labels,
                precision=lambda: precision(recipe.run, self.crew.device),
            )
        )

        optimizer = adamw(model, recipe.run)
        names = {one: name for name, one in learned(model)}
        state = checkpoint.newest_state(self.folder / "state")
        if state is not None:
            checkpoint.load_state(state["path"], model=model, optimizer=optimizer, names=names)
            state = {key: state[key] for key in ("step", "tokens", "seconds", "logged", "since", "stopped")}
            self.progress(f"resumed after step {state['step']} of {plan.steps}")
        first = pc.sort_indices(seen.column("first_step"))
        first_seen = seen.column("first_step").take(first).to_numpy()

        def keep(info: dict[str, Any]) -> Path:
            known = int(np.searchsorted(first_seen, info["step"], side="right"))
            return checkpoint.write(
                self.folder / "checkpoints",
                model=model,
                tokenizer=tokenizer,
                info={**info, "documents_seen": known, "recipe_hash": recipe.hash()},
            )

        def at_mark(info: dict[str, Any]) -> bool:
            if not self.crew.leads:
                return False
            path = keep(info)
            self.progress(
                f"step {info['step']} of {plan.steps}, epoch {info['epoch']:.2f}: loss {info['train_loss']:.4f}"
                + ("" if info["validation_loss"] is None else f", validation {info['validation_loss']:.4f}")
            )
            model.eval()
            with torch.no_grad():
                return bool(self.hook(Moment(path, read_json(path / "checkpoint.json") or {}, model, tokenizer)))

        loop = Loop(
            model=model,
            optimizer=optimizer,
            objective=objective,
            rows=rows,
            plan=plan,
            run=recipe.run,
            crew=self.crew,
            validation=held,
            log=lambda entry: checkpoint.append_log(self.folder / "log.jsonl", entry) if self.crew.leads else None,
            checkpoint=at_mark,
            state=lambda info: (
                checkpoint.write_state(self.folder / "state", model=model, optimizer=optimizer, names=names, info=info)
                if self.crew.leads
                else None
            ),
        )
        if self.crew.leads:
            checkpoint.cut_log(self.folder / "log.jsonl", state["step"] if state else 0)
            if state is None:
                keep(loop.told(0, 0, None))
        last = loop.go(state)
        marks = [0, *(mark for mark in plan.marks(recipe.run.checkpoint_every) if mark <= last["step"])]
        summary = {
            "steps": last["step"],
            "checkpoints": [checkpoint.name_of(mark) for mark in marks],
            "final": checkpoint.name_of(marks[-1]),
            "tokens": last["tokens"],
            "seconds": round(max(last["seconds"], time.perf_counter() - began if state is None else 0.0), 3),
            "documents": int(pc.sum(pc.less_equal(seen.column("first_step"), last["step"])).as_py() or 0),
            "stopped_early": last["stopped"],
            "recipe_hash": recipe.hash(),
        }
        if self.crew.leads:
            write_json(self.folder / "train.json", summary)
        self.crew.wait()
        return summary

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

    def _open(self, identity: Mapping[str, Any], data: Documents, validation: Documents | None, tokenizer: Any, seen: pa.Table) -> None:
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
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in ("torch", "transformers", "tokenizers", "safetensors", "numpy", "pyarrow")},
                },
            },
        )


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
    objective, data = recipe.made(), read_data(recipe, recipe.data.path)
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
        prompts=settings.prompt_columns if settings.prompts == "include" else (),
        pii_spans=settings.leave_out_pii,
    )
    if path == settings.path and settings.limit is not None and settings.limit < len(documents):
        drawn = np.sort(order(len(documents), seed=recipe.run.seed, epoch=0, lane=DRAW)[: settings.limit])
        documents = Documents(documents.table.take(pa.array(drawn)), documents.path, documents.shards)
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
    named = {"tokenizer": recipe.tokenizer.path, "base model": recipe.model.path, **recipe.made().paths()}
    return {
        "recipe": recipe.hash(),
        "data": data.sha256,
        "validation data": None if validation is None else validation.sha256,
        "tokenizer corpus": read(recipe.tokenizer.corpus, text=recipe.data.text_column).sha256 if recipe.tokenizer.corpus else None,
        **{name: folder_sha256(path) if path else None for name, path in named.items()},
    }


def folder_sha256(path: str | Path) -> str:
    """One hash over the files right inside a folder, or of one file; InputRefused where there is none."""
    place = Path(path)
    if not place.exists():
        raise InputRefused(
            f"{place}: there is no such folder or file; models and tokenizers are read from local folders and never downloaded"
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
