"""Forgetting documents: approximately, from a trained checkpoint; or by DP2Unlearning, from a base model that is kept for it.

    forget(...)          one pass of `ga`, `gd`, `kl`, `idk` or `dpo` over what is to be forgotten: quick, and proves nothing
    Stages(...).go(ids)  base model BM on rewritten texts or by DP-SGD (A), FM = BM trained on all texts (B), and for each request
                         UM = BM trained on all texts but those forgotten so far (C), at the cost of (B)

Where the recipe's `[base]` names a function in `until` (`eval.early_stop.learned`: ROUGE-L of .99), a plain training on all texts goes
first, the
pilot: the first epoch at whose end the function says stop is E, the epochs of (A), and (B) and (C) have half of them (section 5.4).

The folder of the stages: pilot/ base/ full/ unlearned-001/ ... (run folders), requests/001.txt ... (all ids forgotten up to each request)
and unlearn.json. Requests add up and are never taken back; the same call again resumes, or says what was done.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import InputRefused, UsageError, nearest
from sanitize.storage.corpus import read_json, write_json

from . import accountant
from .documents import Documents, read
from .recipe import Recipe
from .training_run import Hook, fit
from .unlearning_losses import lines, named

METHODS = ("ga", "gd", "kl", "idk", "dpo", "dp2unlearning")
Progress = Callable[[str], None]


def forget(
    method: str,
    *,
    model: str | Path,
    forget: str | Path,
    data: str | Path,
    out: str | Path,
    changes: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Make a trained model forget some documents of its data, into the run folder `out`; what stands in its train.json.

    `model` is a checkpoint, `forget` a file of document ids, `data` what it was trained on. Where the checkpoint lies in a run folder,
    columns and prompts are read as that run did. Five epochs with lr 1e-4 and batches of 8, unless `changes` (run.epochs=3) say otherwise.
    Raises UsageError for an unknown method or id, for nothing to keep, and for a model of other documents.
    """
    if method not in METHODS[:-1]:
        raise UsageError(f"--method {method}: there is no such method; {nearest(method, METHODS)}")
    base = trained(model)
    table: dict[str, Any] = {
        "name": f"unlearn-{method}",
        "data": {**_columns(base), "path": str(data), "layout": "document"},
        "model": {"path": str(model)},
        "objective": {"use": method, "forget": str(forget)},
        "run": {"epochs": 5, "batch": 8, "lr": 1e-4, "schedule": "linear", "checkpoint_every": 1.0},
    }
    recipe = Recipe.of(table, changes)
    documents = read(data, text=recipe.data.text_column, doc_id=recipe.data.id_column)
    named(documents.doc_ids, forget)  # before anything is made
    if base is not None:
        same_documents(base, documents)
    elif progress is not None:
        progress(f"{model}: not in a run folder, so it is not known what it was trained on")
    return fit(recipe, out, progress=progress)


@dataclass(frozen=True, kw_only=True, repr=False)
class Stages:
    """DP2Unlearning (its section 3): a recipe of the fine-tuning with a table `[base]` for stage A, texts, and a folder to keep all in.

    `rewritten` are the shards that the base model is trained on, with the same document ids (DP-MLM); without them it is trained on `data`
    by the recipe's `[base.privacy]`. `model` is a base model that was kept elsewhere. `hook` is asked at the checkpoints of stage B.
    """

    recipe: Recipe
    data: Path
    out: Path
    rewritten: Path | None = None
    model: Path | None = None
    hook: Hook | None = None
    progress: Progress = lambda line: None

    def go(self, request: str | Path | None = None) -> dict[str, Any]:
        """Make what is missing of base, full model and requests; what stands in unlearn.json then.

        `request` is a file of document ids; ids that were forgotten already change nothing. Raises UsageError for an id that does not
        exist, for nothing left to train on, for a base model of other documents, and where nothing says how a base model is made.
        """
        self._askable()
        both = self._forgotten() | (_ids(request) if request is not None else set())
        self._fitting(request, both)
        epochs = self._epochs()
        base, checkpoint = self._base(epochs)
        half = {} if epochs is None else {"epochs": -(-epochs["base"] // 2)}
        tuned = _with(self.recipe, base=None, run=half, model={"path": str(checkpoint), "arch": None}, data={"path": str(self.data)})
        stages = {"full": self._fit("full", tuned, hook=self.hook)}
        if both != self._forgotten():
            self._keep(both)
        for number, listed in enumerate(self._requests(), 1):
            name = f"unlearned-{number:03d}"
            stages[name] = self._fit(name, _with(tuned, data={"leave_out": str(listed)}))
        told = {
            "base_model": str(checkpoint),
            "stages": stages,
            "forgotten": len(both),
            "newest": list(stages)[-1],
            "guarantee": guarantee(base, len(both), chosen=epochs is not None),
        }
        if epochs is not None:
            told["epochs"] = epochs
        write_json(self.out / "unlearn.json", told)
        return told

    def _askable(self) -> None:
        """UsageError where nothing says how a base model is made, or for what documents, before anything is trained."""
        settings, data = self.recipe.base, self.recipe.data
        if settings is None:
            raise UsageError(f"recipe {self.recipe.name} has no table [base], which says how a base model is made; dp2unlearning has one")
        for name, said in (("limit", data.limit), ("leave_out", data.leave_out)):
            if said:
                raise UsageError(
                    f"recipe {self.recipe.name}: data.{name}: stages are of all documents of {self.data}; give a smaller folder"
                )
        made = read_json(self.out / "base" / "train.json")
        if self.model is None and self.rewritten is None and settings.privacy is None and made is None:
            raise UsageError(
                "stage A needs rewritten texts (--rewritten), DP-SGD (a table [base.privacy] in the recipe), or a base model (--model)"
            )

    def _fitting(self, request: str | Path | None, both: set[str]) -> None:
        """UsageError where a request, the base model, or the texts that it is to be made of, are of other documents than the data, or none
        is left; before anything is trained, and without the texts in memory while it is."""
        documents = self._read(self.data)
        if request is not None and named(documents.doc_ids, request).all() or both >= set(documents.doc_ids.to_pylist()):
            raise UsageError(f"{self.out}: after this request no document is left to train on; the base model is what remains")
        kept = trained(self.model) if self.model is not None else read_json(self.out / "base" / "recipe.json")
        if kept is not None:
            same_documents(kept, documents)
        elif self.rewritten is not None and self.model is None:
            other = self._read(self.rewritten)
            if other.ids_sha256 != documents.ids_sha256:
                raise UsageError(
                    f"{self.rewritten}: holds other documents ({len(other)}) than {self.data} ({len(documents)}); "
                    "rewritten texts have the doc_ids of the raw ones, one for one"
                )

    def _read(self, path: Path) -> Documents:
        return read(path, text=self.recipe.data.text_column, doc_id=self.recipe.data.id_column)

    def _epochs(self) -> dict[str, Any] | None:
        """How many epochs stage A has, and its half, by the pilot; None where the recipe says how many. `learned` is false where the pilot
        came to its end before anybody said stop."""
        settings = self.recipe.base
        assert settings is not None, "looked at first"
        if not settings.until:
            return None
        most = settings.epochs or self.recipe.run.epochs
        run = {"epochs": most, "max_steps": None, "checkpoint_every": 1.0, "early_stop": settings.until}
        self.progress("pilot")
        recipe = _with(self.recipe, name=f"{self.recipe.name}-pilot", base=None, privacy=None, run=run, data={"path": str(self.data)})
        made = fit(recipe, self.out / "pilot", progress=self.progress)
        moment = read_json(self.out / "pilot" / "checkpoints" / str(made["final"]) / "checkpoint.json") or {}
        epochs = math.ceil(moment["epoch"])
        if not made["stopped_early"]:
            self.progress(f"{settings.until}: never said stop; E is {most}, the most that base.epochs allows")
        return {"base": epochs, "tuning": -(-epochs // 2), "by": settings.until, "learned": made["stopped_early"]}

    def _base(self, epochs: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, Path]:
        """What recipe.json says of the base model's run, and its last checkpoint; made where it is not there."""
        settings = self.recipe.base
        assert settings is not None, "looked at first"
        if self.model is not None:
            return trained(self.model), self.model
        where = self.out / "base"
        done = read_json(where / "train.json")
        if self.rewritten is not None or settings.privacy is not None:
            privacy = settings.privacy.model_dump() if settings.privacy is not None and self.rewritten is None else None
            run = {key: value for key, value in settings.model_dump(exclude={"privacy", "until"}).items() if value is not None}
            if epochs is not None:
                run["epochs"] = epochs["base"]
            data = {"path": str(self.rewritten or self.data)}
            self.progress("base")
            recipe = _with(self.recipe, name=f"{self.recipe.name}-base", base=None, privacy=privacy, run=run, data=data)
            done = fit(recipe, where, progress=self.progress)
        assert done is not None, "made, or there"
        return read_json(where / "recipe.json"), where / "checkpoints" / str(done["final"])

    def _fit(self, name: str, recipe: Recipe, *, hook: Hook | None = None) -> dict[str, Any]:
        self.progress(name)
        made = fit(recipe, self.out / name, hook=hook, progress=self.progress)
        return {key: made[key] for key in ("steps", "final", "seconds", "documents")}

    def _requests(self) -> list[Path]:
        """The lists of all requests; each holds the ids of those before it, too."""
        return sorted((self.out / "requests").glob("*.txt"))

    def _forgotten(self) -> set[str]:
        """All ids that were forgotten so far."""
        listed = self._requests()
        return _ids(listed[-1]) if listed else set()

    def _keep(self, ids: set[str]) -> None:
        """Write down a further request."""
        folder = self.out / "requests"
        folder.mkdir(exist_ok=True)
        aside = folder / "request.tmp"
        aside.write_text("".join(f"{one}\n" for one in sorted(ids)), "utf-8")
        aside.rename(folder / f"{len(self._requests()) + 1:03d}.txt")


def guarantee(base: Mapping[str, Any] | None, forgotten: int, *, chosen: bool = False) -> dict[str, Any]:
    """What can be said of the newest model and what it forgot: all it knows of it, it knows through the base model.

    `chosen`: the number of epochs was read off a training on all texts, which no noise covers.
    """
    privacy = None if base is None else base.get("privacy")
    beside = "; the number of epochs was chosen by a training on all texts, and is not covered" if chosen else ""
    if privacy is None:
        ledger = rewriting(base)
        words = "as good as the rewriting of the base model's texts: "
        words += " ".join(ledger).rstrip(".") if ledger else "read the privacy that the manifest of those shards states"
        return {"words": words + beside}
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    many, most = accountant.group(epsilon, delta, max(forgotten, 1))
    words = f"{privacy['claim']}, for each {privacy['unit']} that was forgotten"
    if privacy["unit"] == "record" and forgotten > 1:
        said = f"epsilon {many:.4g}, delta {most:.3g}" if many is not None and most is not None else "no statement: the bound is empty"
        words += f"; for all {forgotten} documents together {said}"
    together = {"documents": forgotten, "epsilon": many, "delta": most}
    return {"unit": privacy["unit"], "epsilon": epsilon, "delta": delta, "group": together, "words": words + beside}


def rewriting(base: Mapping[str, Any] | None) -> list[str]:
    """What the ledger of the shards that a base model was trained on says, in plain words; nothing where they have none any more."""
    place = None if base is None else base.get("data", {}).get("path")
    told = None if place is None else read_json(Path(place) / "manifest.json")
    return [line for account in (told or {}).get("summary", {}).get("ledger", ()) for line in (f"{account['part']}:", *account["words"])]


def trained(checkpoint: str | Path) -> dict[str, Any] | None:
    """The recipe.json of the run that a checkpoint lies in; None where it lies in none. InputRefused where there is no checkpoint."""
    place = Path(checkpoint).resolve()
    if not (place / "config.json").is_file():
        raise InputRefused(f"{checkpoint}: no config.json; expected a checkpoint, such as RUN/checkpoints/step-000120")
    return read_json(place.parent.parent / "recipe.json") if place.parent.name == "checkpoints" else None


def same_documents(base: Mapping[str, Any], documents: Documents) -> None:
    """UsageError where a run was trained on other documents than these; texts may differ, ids must not."""
    if base["data"].get("ids_sha256") != documents.ids_sha256:
        raise UsageError(
            f"{documents.path}: holds other documents ({len(documents)}) than those the model was trained on "
            f"({base['data']['documents']}); give a model of this corpus, or the corpus of this model"
        )


def _columns(base: Mapping[str, Any] | None) -> dict[str, Any]:
    """How the run of a checkpoint read its documents."""
    if base is None:
        return {}
    names = ("text_column", "id_column", "prompt_columns", "prompts", "answers_only", "overlong")
    return {name: json.loads(json.dumps(base["recipe"]["data"][name])) for name in names}


def _with(recipe: Recipe, **changes: Any) -> Recipe:
    """The recipe with some keys of its sections, or whole sections, changed."""
    table = recipe.resolved()
    for key, value in changes.items():
        table[key] = {**table[key], **value} if isinstance(value, dict) and table[key] is not None else value
    return Recipe.of(table)


def _ids(path: str | Path) -> set[str]:
    return {line for line in lines(path) if line}
