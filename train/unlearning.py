"""Makes a model forget documents: approximately from a trained checkpoint, or by DP2Unlearning from
a base model that is kept for it.

    unlearn_documents(...)       trains a checkpoint with `ga`, `gd`, `kl`, `idk`, `dpo` or `npo` on
                                 the documents to forget: quick, no guarantee
    Dp2Unlearning(...).run(ids)  base model BM on rewritten texts or by DP-SGD (stage A), full model
    FM = BM trained on all texts (B), and
                                 for each request UM = BM trained on all texts but those forgotten
                                 so far (C), at the cost of (B)

If the recipe's `[base]` names a function in `until` (`sanitize.eval.early_stop.has_learned_texts`:
ROUGE-L of .99), a pilot comes first: a plain training on all texts. The first epoch at whose end
the function returns true is E, the number of epochs of (A); (B) and (C) have half of them (section
5.4).

The folder of the stages: pilot/ base/ full/ unlearned-001/ ... (run folders), requests/001.txt ...
(all ids forgotten up to each request) and unlearn.json. Requests accumulate and cannot be undone.
The same call resumes, or returns the result of a finished one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.core.exponential_mechanism import format_bound
from sanitize.errors import InputRefused, UsageError, suggest_names
from sanitize.storage.files import read_json, write_json

from . import accountant
from .adapters import is_adapter
from .checkpoint import CheckpointHook
from .corpus_reader import DocumentTable, read_documents
from .objectives import list_objectives, load_objective_class
from .recipe import Recipe
from .training_run import TrainingResult, fit
from .unlearning_losses import UnlearningObjective, read_lines, select_listed_documents

DP2UNLEARNING = "dp2unlearning"
MessageCallback = Callable[[str], None]


def list_unlearning_objectives() -> list[str]:
    """The names of the objectives that forget documents: those whose class is an
    `UnlearningObjective`."""
    classes = {name: load_objective_class(name, "objective") for name in list_objectives()}
    return [name for name, found in classes.items() if issubclass(found, UnlearningObjective)]


def unlearn_documents(
    method: str,
    *,
    model: str | Path,
    id_list: str | Path,
    data: str | Path,
    out: str | Path,
    changes: Sequence[str] = (),
    progress: MessageCallback | None = None,
) -> TrainingResult:
    """Make a trained model forget some documents, in the run folder `out`; return what `fit`
    returns for it.

    `model` is a checkpoint, `id_list` a file of document ids, `data` the model's training data. If
    the checkpoint is inside a run folder, columns and prompts are read as in that run. Five epochs
    with lr 1e-4 and batches of 8, unless `changes` (run.epochs=3) set others. Raises UsageError for
    an unknown method or id, if no document is left to keep, and for a model of other documents.
    """
    methods = list_unlearning_objectives()
    if method not in methods:
        raise UsageError(
            f"--method {method}: there is no such method;"
            f" {suggest_names(method, [*methods, DP2UNLEARNING])}"
        )
    base = read_run_recipe(model)
    table: dict[str, Any] = {
        "name": f"unlearn-{method}",
        "data": {**_get_data_settings(base), "path": str(data), "layout": "document"},
        "model": {"path": str(model)},
        "objective": {"use": method, "forget": str(id_list)},
        "run": {"epochs": 5, "batch": 8, "lr": 1e-4, "schedule": "linear", "checkpoint_every": 1.0},
    }
    recipe = Recipe.load(table, changes)
    documents = read_documents(
        data, text_column=recipe.data.text_column, id_column=recipe.data.id_column
    )
    select_listed_documents(documents.doc_ids, id_list)  # fail before anything is written
    if base is not None:
        check_same_documents(base, documents)
    elif progress is not None:
        progress(
            f"{model}: is not inside a run folder, so that its training documents cannot be checked"
        )
    return fit(recipe, out, progress=progress)


@dataclass(frozen=True, kw_only=True, repr=False)
class Dp2Unlearning:
    """DP2Unlearning (its section 3): the fine-tuning recipe with a table `[base]` for stage A, the
    data, and the folder of all stages.

    `rewritten` are the shards that the base model is trained on, with the same document ids
    (DP-MLM); without them it is trained on `data` by the recipe's `[base.privacy]`. `model` is an
    existing base model to use instead. `hook` is called at the checkpoints of stage B.
    """

    recipe: Recipe
    data: Path
    out_folder: Path
    rewritten: Path | None = None
    model: Path | None = None
    hook: CheckpointHook | None = None
    progress: MessageCallback = lambda line: None

    def run(self, id_list: str | Path | None = None) -> dict[str, Any]:
        """Train what is missing of base model, full model and requests; return the contents of
        unlearn.json.

        `id_list` is a file of document ids to forget; ids that are already forgotten change
        nothing. Raises UsageError for an unknown id, if no document is left to train on, for a base
        model of other documents, and if no way to train a base model is given.
        """
        self._check_recipe()
        forgotten_ids = self._read_forgotten_ids() | (
            _read_ids(id_list) if id_list is not None else set()
        )
        self._check_documents(id_list, forgotten_ids)
        epochs = self._run_pilot()
        base, checkpoint = self._get_base_model(epochs)
        epochs_change = {} if epochs is None else {"epochs": -(-epochs["base"] // 2)}
        tuning_recipe = _with_changes(
            self.recipe,
            base=None,
            run=epochs_change,
            model={"path": str(checkpoint), "arch": None},
            data={"path": str(self.data)},
        )
        stages = {"full": self._train_stage("full", tuning_recipe, hook=self.hook)}
        if forgotten_ids != self._read_forgotten_ids():
            self._write_request(forgotten_ids)
        for number, listed in enumerate(self._list_request_files(), 1):
            name = f"unlearned-{number:03d}"
            stages[name] = self._train_stage(
                name, _with_changes(tuning_recipe, data={"leave_out": str(listed)})
            )
        result = {
            "base_model": str(checkpoint),
            "stages": stages,
            "forgotten": len(forgotten_ids),
            "newest": list(stages)[-1],
            "guarantee": describe_guarantee(
                base, len(forgotten_ids), epochs_from_pilot=epochs is not None
            ),
        }
        if epochs is not None:
            result["epochs"] = epochs
        write_json(self.out_folder / "unlearn.json", result)
        return result

    def _check_recipe(self) -> None:
        """Raise UsageError, before anything is trained, if the recipe restricts documents or gives
        no way to train a base model."""
        settings, data = self.recipe.base, self.recipe.data
        if settings is None:
            raise UsageError(
                f"recipe {self.recipe.name} has no table [base], the settings of the base model;"
                " the recipe dp2unlearning has one"
            )
        for name, setting in (("limit", data.limit), ("leave_out", data.leave_out)):
            if setting:
                raise UsageError(
                    f"recipe {self.recipe.name}: data.{name} is set, but the stages use all"
                    f" documents of {self.data}; give a smaller folder instead"
                )
        base_summary = read_json(self.out_folder / "base" / "train.json")
        if (
            self.model is None
            and self.rewritten is None
            and settings.privacy is None
            and base_summary is None
        ):
            raise UsageError(
                "stage A needs rewritten texts (--rewritten), DP-SGD (a table [base.privacy] in the"
                " recipe), or a base model (--model)"
            )

    def _check_documents(self, id_list: str | Path | None, forgotten_ids: set[str]) -> None:
        """Raise UsageError if the request, the base model or the rewritten texts have other
        documents than the data, or if none is left.

        Runs before anything is trained; the texts are freed on return.
        """
        documents = self._read_documents(self.data)
        if (
            id_list is not None
            and select_listed_documents(documents.doc_ids, id_list).all()
            or forgotten_ids >= set(documents.doc_ids.to_pylist())
        ):
            raise UsageError(
                f"{self.out_folder}: after this request no document is left to train on; the base"
                " model is what remains"
            )
        base_run = (
            read_run_recipe(self.model)
            if self.model is not None
            else read_json(self.out_folder / "base" / "recipe.json")
        )
        if base_run is not None:
            check_same_documents(base_run, documents)
        elif self.rewritten is not None and self.model is None:
            rewritten_documents = self._read_documents(self.rewritten)
            if rewritten_documents.ids_sha256 != documents.ids_sha256:
                raise UsageError(
                    f"{self.rewritten}: holds other documents ({len(rewritten_documents)}) than"
                    f" {self.data} ({len(documents)}); rewritten texts must have exactly the"
                    " doc_ids of the originals"
                )

    def _read_documents(self, path: Path) -> DocumentTable:
        return read_documents(
            path, text_column=self.recipe.data.text_column, id_column=self.recipe.data.id_column
        )

    def _run_pilot(self) -> dict[str, Any] | None:
        """Train the pilot and return the epochs of stage A and their half; None if the recipe sets
        the number of epochs.

        `learned` is false if the pilot reached its last epoch before the function returned true.
        """
        settings = self.recipe.base
        assert settings is not None, "checked by _check_recipe"
        if not settings.until:
            return None
        max_epochs = settings.epochs or self.recipe.run.epochs
        run = {
            "epochs": max_epochs,
            "max_steps": None,
            "checkpoint_every": 1.0,
            "early_stop": settings.until,
        }
        self.progress("pilot")
        recipe = _with_changes(
            self.recipe,
            name=f"{self.recipe.name}-pilot",
            base=None,
            privacy=None,
            run=run,
            data={"path": str(self.data)},
        )
        pilot_summary = fit(recipe, self.out_folder / "pilot", progress=self.progress)
        last_checkpoint = (
            read_json(
                self.out_folder
                / "pilot"
                / "checkpoints"
                / str(pilot_summary.final)
                / "checkpoint.json"
            )
            or {}
        )
        epochs = math.ceil(last_checkpoint["epoch"])
        if not pilot_summary.stopped_early:
            self.progress(
                f"{settings.until}: never returned true; E is {max_epochs}, the most that"
                " base.epochs allows"
            )
        return {
            "base": epochs,
            "tuning": -(-epochs // 2),
            "by": settings.until,
            "learned": pilot_summary.stopped_early,
        }

    def _get_base_model(
        self, epochs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any] | None, Path]:
        """Return the recipe.json of the base model's run (None if unknown) and its last checkpoint;
        trains it if it is missing."""
        settings = self.recipe.base
        assert settings is not None, "checked by _check_recipe"
        if self.model is not None:
            return read_run_recipe(self.model), self.model
        base_folder = self.out_folder / "base"
        summary = read_json(base_folder / "train.json")
        if self.rewritten is not None or settings.privacy is not None:
            privacy = (
                settings.privacy.model_dump()
                if settings.privacy is not None and self.rewritten is None
                else None
            )
            run = {
                key: value
                for key, value in settings.model_dump(exclude={"privacy", "until"}).items()
                if value is not None
            }
            if epochs is not None:
                run["epochs"] = epochs["base"]
            data = {"path": str(self.rewritten or self.data)}
            self.progress("base")
            recipe = _with_changes(
                self.recipe,
                name=f"{self.recipe.name}-base",
                base=None,
                privacy=privacy,
                run=run,
                data=data,
            )
            summary = fit(recipe, base_folder, progress=self.progress).to_dict()
        assert summary is not None, "trained now or before"
        return read_json(base_folder / "recipe.json"), base_folder / "checkpoints" / str(
            summary["final"]
        )

    def _train_stage(
        self, name: str, recipe: Recipe, *, hook: CheckpointHook | None = None
    ) -> dict[str, Any]:
        self.progress(name)
        summary = fit(recipe, self.out_folder / name, hook=hook, progress=self.progress)
        return {key: getattr(summary, key) for key in ("steps", "final", "seconds", "documents")}

    def _list_request_files(self) -> list[Path]:
        """Return the id files of all requests, in order; each includes the ids of the earlier
        ones."""
        return sorted((self.out_folder / "requests").glob("*.txt"))

    def _read_forgotten_ids(self) -> set[str]:
        """Return all ids that were forgotten so far."""
        listed = self._list_request_files()
        return _read_ids(listed[-1]) if listed else set()

    def _write_request(self, ids: set[str]) -> None:
        """Write the id file of a new request: all ids to forget from now on."""
        folder = self.out_folder / "requests"
        folder.mkdir(exist_ok=True)
        temp_path = folder / "request.tmp"
        temp_path.write_text("".join(f"{doc_id}\n" for doc_id in sorted(ids)), "utf-8")
        temp_path.rename(folder / f"{len(self._list_request_files()) + 1:03d}.txt")


def describe_guarantee(
    base_recipe: Mapping[str, Any] | None, forgotten_count: int, *, epochs_from_pilot: bool = False
) -> dict[str, Any]:
    """Describe the guarantee of the newest model for the forgotten documents: it can know them only
    through the base model.

    `epochs_from_pilot`: the number of epochs was chosen by a training on all texts, which the
    guarantee does not cover.
    """
    privacy = None if base_recipe is None else base_recipe.get("privacy")
    caveat = (
        "; the number of epochs was chosen by a training on all texts, and is not covered"
        if epochs_from_pilot
        else ""
    )
    if privacy is None:
        ledger = read_rewriting_ledger(base_recipe)
        words = "the guarantee of the rewriting of the base model's texts: "
        words += (
            " ".join(ledger).rstrip(".")
            if ledger
            else "see the privacy ledger in the manifest of those shards"
        )
        return {"statement": words + caveat}
    epsilon, delta = privacy["epsilon"], privacy["delta"]
    group_epsilon, group_delta = accountant.group_privacy(epsilon, delta, max(forgotten_count, 1))
    words = f"{privacy['claim']}, for each {privacy['unit']} that was forgotten"
    if privacy["unit"] == "record" and forgotten_count > 1:
        if group_epsilon is not None and group_delta is not None:
            bound = f"epsilon {format_bound(group_epsilon)}, delta {format_bound(group_delta)}"
        else:
            bound = "no statement: the bound is empty"
        words += f"; for all {forgotten_count} documents together {bound}"
    group = {"documents": forgotten_count, "epsilon": group_epsilon, "delta": group_delta}
    return {
        "unit": privacy["unit"],
        "epsilon": epsilon,
        "delta": delta,
        "group": group,
        "statement": words + caveat,
    }


def read_rewriting_ledger(base_recipe: Mapping[str, Any] | None) -> list[str]:
    """Return the privacy ledger of the base model's training shards in words; empty if their
    manifest is missing or has none."""
    data_path = None if base_recipe is None else base_recipe.get("data", {}).get("path")
    manifest = None if data_path is None else read_json(Path(data_path) / "manifest.json")
    accounts = (manifest or {}).get("summary", {}).get("ledger", ())
    # manifests of format 1 have the statements as `words`
    return [
        line
        for account in accounts
        for line in (f"{account['part']}:", *account.get("statements", account.get("words", ())))
    ]


def read_run_recipe(checkpoint: str | Path) -> dict[str, Any] | None:
    """Return the recipe.json of the run folder that contains a checkpoint, None if none does;
    InputRefused if it is no checkpoint."""
    checkpoint_folder = Path(checkpoint).resolve()
    if not (checkpoint_folder / "config.json").is_file() and not is_adapter(checkpoint_folder):
        raise InputRefused(
            f"{checkpoint}: no config.json; expected a checkpoint, such as"
            " RUN/checkpoints/step-000120"
        )
    return (
        read_json(checkpoint_folder.parent.parent / "recipe.json")
        if checkpoint_folder.parent.name == "checkpoints"
        else None
    )


def check_same_documents(base_recipe: Mapping[str, Any], documents: DocumentTable) -> None:
    """Raise UsageError if a run was trained on other documents than these; texts may differ, ids
    must not."""
    if base_recipe["data"].get("ids_sha256") != documents.ids_sha256:
        raise UsageError(
            f"{documents.path}: holds other documents ({len(documents)}) than those the model was"
            f" trained on ({base_recipe['data']['documents']}); use a model of this corpus, or the"
            " corpus of this model"
        )


def _get_data_settings(base_recipe: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the data settings with which the run of a checkpoint read its documents; empty without
    a run."""
    if base_recipe is None:
        return {}
    names = ("text_column", "id_column", "prompt_columns", "prompts", "answers_only", "overlong")
    return {name: json.loads(json.dumps(base_recipe["recipe"]["data"][name])) for name in names}


def _with_changes(recipe: Recipe, **changes: Any) -> Recipe:
    """Return the recipe with some keys of its sections, or whole sections, changed."""
    table = recipe.to_dict()
    for key, value in changes.items():
        table[key] = (
            {**table[key], **value} if isinstance(value, dict) and table[key] is not None else value
        )
    return Recipe.load(table)


def _read_ids(path: str | Path) -> set[str]:
    return {line for line in read_lines(path) if line}
