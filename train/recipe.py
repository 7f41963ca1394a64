"""The training recipe: data, model, tokenizer, objective and schedule, parsed from TOML into a
checked `Recipe`.

An unknown key is an error that suggests the nearest known one. Recipes of the papers are in
`recipes/`; the comments of each say what the paper states and what was chosen here. Paths in a
recipe are relative to the working directory. `Recipe.hash` leaves paths out, so that data may be
moved; the contents of the paths are compared by their hashes instead
(`recipe_data.compute_run_identity`).
"""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sanitize.errors import UsageError, describe_validation_error, suggest_names
from sanitize.storage.files import parse_toml

from . import objectives

# default learning rates; one for a new model ruins a pretrained one within a few steps
NEW_MODEL_LR, PRETRAINED_LR, LORA_LR = 5e-4, 5e-5, 2e-4
ARCHITECTURES = ("gpt2", "gpt_neo", "bert", "roberta")


_Beta = Annotated[float, Field(ge=0, lt=1)]
_Rate = Annotated[float, Field(gt=0, le=1e30)]  # far below what float32 can hold
MIN_CHECKPOINT_EPOCHS = (
    1e-4  # between two checkpoints, if not 0: their steps are listed before the first one
)


class _RecipeSection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataSettings(_RecipeSection):
    """`[data]`: where the documents are, which columns are read, and how they become rows of
    tokens."""

    path: str = (
        ""  # a folder that `sanitize run` published, or a folder or file of Parquet, JSONL or Arrow
    )
    validation: str = ""  # the same, for the validation loss at checkpoints
    text_column: str = "text"
    id_column: str = "doc_id"
    label_column: str = "label"  # read by classify only
    # instruction, input, ...: joined by line ends, before the text
    prompt_columns: tuple[str, ...] = ()
    prompts: Literal["include", "remove"] = (
        # instruction tuning, or domain adaptation on the same data (early detection, section 3.5)
        "include"
    )
    answers_only: bool = (
        False  # prompt tokens are in no loss; of conversations only what the assistant says is
    )
    # a Jinja file that writes conversations (default: the tokenizer's own, else one line a turn)
    chat_template: str = ""
    split: str = "train"  # of data that has splits
    validation_split: str = "validation"  # of validation data that has splits
    layout: Literal["packed", "document"] = (
        "packed"  # full rows across document borders, or one document per row
    )
    attention: Literal["row", "document"] = (
        "row"  # layout = "packed": tokens attend to their row, or to their own document only
    )
    overlong: Literal["split", "cut"] = (
        "split"  # layout = "document": a long document becomes several rows, or is cut to one
    )
    # train on at most this many documents, drawn by the seed
    limit: int | None = Field(default=None, ge=1)
    leave_out: str = (
        ""  # a text file with ids of documents that are not trained on (forgotten ones), one a line
    )
    leave_out_pii: bool = False  # tokens inside `pii_spans` are never in a loss
    # the private folder (WORK) of the run that published `path`, in place of a column pii_spans
    spans_from: str = ""


class ModelSettings(_RecipeSection):
    """`[model]`: a local checkpoint, or the sizes of a new model."""

    path: str = ""
    arch: Literal["gpt2", "gpt_neo", "bert", "roberta"] | None = None
    # the sizes are limited, or a recipe could fill the memory before anything fails
    layers: int = Field(default=2, ge=1, le=1_000)
    width: int = Field(default=64, ge=2, le=1 << 17)
    heads: int = Field(default=4, ge=1, le=1 << 10)
    # tokens of a row; default: 128 for a new model, the maximum of a checkpoint up to 1024
    context: int | None = Field(default=None, ge=8, le=1 << 20)
    dropout: float | None = Field(default=None, ge=0, lt=1)  # default: the architecture's own, 0.1
    # train only the top n layers, freeze all else
    top_layers: int | None = Field(default=None, ge=1)
    frozen_dtype: Literal["float32", "bfloat16"] = (
        "float32"  # of weights that are not trained ([lora], top_layers)
    )

    @model_validator(mode="after")
    def _check_path_or_arch(self) -> Self:
        if self.path and self.arch:
            raise ValueError("a model has a path or an arch, not both")
        if not self.path and not self.arch:
            raise ValueError(f"a model needs a path, or arch = one of {', '.join(ARCHITECTURES)}")
        if not self.path and self.width % self.heads:
            raise ValueError(f"width = {self.width} is not a multiple of heads = {self.heads}")
        return self


class LoraSettings(_RecipeSection):
    """`[lora]`: train a low-rank adapter of a pretrained model instead of its weights (extra
    `lora`); checkpoints hold the adapter only."""

    rank: int = Field(default=16, ge=1, le=1 << 16)  # of the two matrices of each adapted layer
    alpha: float = Field(default=32.0, gt=0)  # the adapter's output is multiplied by alpha / rank
    dropout: float = Field(default=0.05, ge=0, lt=1)  # of the adapter's input
    # last part of the names of adapted layers, such as q_proj; default: all linear ones but the
    # head
    target_modules: tuple[str, ...] = ()


class TokenizerSettings(_RecipeSection):
    """`[tokenizer]`: a local one, the model's own (the default with `model.path`), or a byte-level
    BPE trained on the corpus."""

    path: str = ""
    # 256 bytes and 3 special tokens at least
    vocab: int = Field(default=1024, ge=260, le=2_000_000)
    # train it on this data (default: data.path); set the same one for all variants of a corpus that
    # are compared
    corpus: str = ""


class TrainingSettings(_RecipeSection):
    """`[run]`: steps, optimizer, device, checkpoints and log."""

    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    epochs: int = Field(default=3, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    # rows of one optimizer step, over all micro-batches and processes
    batch: int = Field(default=8, ge=1)
    # micro-batches into which a process splits its share of a step
    accumulate: int = Field(default=1, ge=1)
    # default with model.path: 5e-5, with an adapter 2e-4
    lr: _Rate = NEW_MODEL_LR
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup: float = Field(default=0.0, ge=0, lt=1)  # share of all steps over which lr rises from 0
    weight_decay: float = Field(default=0.01, ge=0)  # on matrices only, not on biases and norms
    betas: tuple[_Beta, _Beta] = (0.9, 0.999)
    epsilon: float = Field(default=1e-8, gt=0)
    clip: float = Field(default=1.0, ge=0)  # maximum norm of the gradient; 0: no clipping
    # NEFTune: uniform noise on input embeddings; the paper's value is 5
    noise_alpha: float = Field(default=0.0, ge=0)
    precision: Literal["auto", "float32", "bf16"] = (
        "auto"  # auto: bf16 autocast on a GPU that supports it, else float32
    )
    # compute activations again in the backward pass: less memory, about a third more time
    gradient_checkpointing: bool = False
    compile: bool = False  # compile each layer by torch.compile: faster after the first steps
    device: str = "auto"  # auto: cuda if available, else cpu
    # epochs between checkpoints; 0 keeps the first and the last only
    checkpoint_every: float = Field(default=0.1, ge=0)
    checkpoint_dtype: Literal["model", "float32", "bfloat16"] = (
        "model"  # model: that of the model at model.path; float32 of a new one
    )
    # steps between saved states to resume from, besides those at checkpoints
    state_every: int = Field(default=0, ge=0)
    log_every: int = Field(default=10, ge=1)  # steps
    # dotted path of a function (CheckpointEvent) -> bool, called at each checkpoint; true stops the
    # run
    early_stop: str = ""

    @field_validator("checkpoint_every")
    @classmethod
    def _check_distance(cls, epochs: float) -> float:
        if 0 < epochs < MIN_CHECKPOINT_EPOCHS:
            raise ValueError(f"expected 0, or {MIN_CHECKPOINT_EPOCHS:g} or more")
        return epochs


class PretrainedSettings(_RecipeSection):
    """`[pretrained]`: what replaces settings of `[run]` with `model.path`, since a model from
    scratch needs other ones."""

    epochs: int | None = Field(default=None, ge=1)
    batch: int | None = Field(default=None, ge=1)
    lr: _Rate | None = None
    schedule: Literal["constant", "linear", "cosine"] | None = None
    warmup: float | None = Field(default=None, ge=0, lt=1)
    checkpoint_every: float | None = Field(default=None, ge=0)


class PrivacySettings(_RecipeSection):
    """`[privacy]`: DP-SGD instead of plain steps. `run.batch` is then the expected number of units
    of a step; `run.clip` is not used."""

    epsilon: float | None = Field(default=None, gt=0)  # budget of all planned steps; or give sigma
    # the noise multiplier: standard deviation over clip
    sigma: float | None = Field(default=None, ge=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    # maximum norm of one unit's gradient; beyond these, float32 has no exact noise
    clip: float = Field(default=1.0, ge=1e-9, le=1e9)
    unit: Literal["record", "user"] = (
        "record"  # what is protected: one document, or all documents of one user
    )
    user_column: str = "user_id"
    accountant: Literal["rdp", "prv"] = "prv"
    insecure_seed: int | None = None  # for tests: predictable draws, and no claim of privacy

    @model_validator(mode="after")
    def _check_epsilon_or_sigma(self) -> Self:
        if (self.epsilon is None) == (self.sigma is None):
            raise ValueError("needs epsilon or sigma, one of the two")
        return self


class BaseStageSettings(_RecipeSection):
    """`[base]`: settings of stage A of DP2Unlearning that differ from the recipe itself
    (`unlearning.py`)."""

    epochs: int | None = Field(default=None, ge=1)
    batch: int | None = Field(default=None, ge=1)
    lr: _Rate | None = None
    privacy: PrivacySettings | None = None  # DP-SGD, if there are no rewritten texts
    # like run.early_stop, for a pilot training on all texts: its epochs are E, half of them E'; at
    # most `epochs`
    until: str = ""


class Recipe(_RecipeSection):
    """A checked recipe. `objective` is a plain table (`use` and its settings, defaults filled in);
    `build_objective()` builds it."""

    name: str = ""
    about: str = ""
    data: DataSettings = DataSettings()
    model: ModelSettings
    lora: LoraSettings | None = None
    tokenizer: TokenizerSettings = TokenizerSettings()
    objective: dict[str, Any] = Field(default_factory=lambda: {"use": "causal"})
    run: TrainingSettings = TrainingSettings()
    pretrained: PretrainedSettings | None = None  # part of `run` once a recipe is loaded
    privacy: PrivacySettings | None = None
    base: BaseStageSettings | None = None

    @classmethod
    def load(
        cls, source: Recipe | Mapping[str, Any] | str | Path, changes: Sequence[str] = ()
    ) -> Recipe:
        """Build a recipe from a table, a TOML file or the name of a shipped recipe, with `changes`
        such as `run.epochs=8` applied.

        Raises UsageError for an unknown recipe, key, objective or value.
        """
        if isinstance(source, Recipe):
            table, where, name = source.model_dump(), "recipe", source.name
        elif isinstance(source, Mapping):
            table, where, name = (
                json.loads(json.dumps(dict(source), default=str)),
                "recipe",
                str(source.get("name", "")),
            )
        else:
            table, where, name = _read_toml(str(source))
        changed_table = copy.deepcopy(table)
        for change in changes:
            _apply_change(changed_table, change)
        if _has_model_path(changed_table):
            _adapt_to_pretrained(
                table,
                where,
                default_lr=LORA_LR if changed_table.get("lora") is not None else PRETRAINED_LR,
            )
            for change in changes:
                _apply_change(table, change)
        else:
            table = changed_table
        table.pop("pretrained", None)
        table.setdefault("name", name)
        return _validate_recipe(table, where)

    def build_objective(self) -> objectives.Objective:
        """Return a new objective with these settings."""
        return objectives.load_objective(self.objective, "recipe: objective")

    def to_dict(self) -> dict[str, Any]:
        """Return every setting with its value, as written to RUN/recipe.json."""
        return self.model_dump(mode="json")

    def hash(self) -> str:
        """Return 16 hexadecimal digits: a hash of every setting that the weights depend on, paths
        left out."""
        table = self.to_dict()
        for section, keys in _KEYS_NOT_HASHED.items():
            for key in keys:
                table[section].pop(key, None)
        table.pop("name"), table.pop("about")
        objective = self.build_objective()
        for key in objective.PATH_SETTINGS:
            table["objective"].pop(key, None)
        text = json.dumps([table, objective.VERSION], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# the contents of paths are hashed separately; the other keys do not change the weights
_KEYS_NOT_HASHED = {
    "data": ("path", "validation", "leave_out", "chat_template"),
    "model": ("path",),
    "tokenizer": ("path", "corpus"),
    "run": ("device", "state_every", "log_every", "compile", "gradient_checkpointing"),
}


def _has_model_path(table: Mapping[str, Any]) -> bool:
    model = table.get("model")
    return isinstance(model, Mapping) and bool(model.get("path"))


def _adapt_to_pretrained(table: dict[str, Any], where: str, *, default_lr: float) -> None:
    """Replace the settings of `[run]` that are for a new model by those of the recipe's table
    `[pretrained]`, in place."""
    run = table.setdefault("run", {})
    if not isinstance(run, dict):
        return  # refused later
    try:
        pretrained = PretrainedSettings(**(table.get("pretrained") or {}))
    except (ValidationError, TypeError) as error:
        if isinstance(error, ValidationError):
            raise UsageError(
                describe_validation_error(error, PretrainedSettings, f"{where}: pretrained")
            ) from None
        raise UsageError(f"{where}: pretrained: expected a table") from None
    run |= pretrained.model_dump(exclude_none=True)
    run.setdefault("lr", default_lr)


def list_recipes() -> list[str]:
    """Return the names of the shipped recipes, sorted."""
    return sorted(
        entry.name[:-5] for entry in _recipes_folder().iterdir() if entry.name.endswith(".toml")
    )


def _recipes_folder() -> Any:
    return resources.files(__package__) / "recipes"


def _read_toml(name: str) -> tuple[dict[str, Any], str, str]:
    """Return the table of a recipe, its name in error messages, and its own name."""
    if name in list_recipes():
        where, text = f"recipe {name}", (_recipes_folder() / f"{name}.toml").read_text("utf-8")
    else:
        path = Path(name)
        if not path.is_file():
            raise UsageError(
                f"{name}: neither a shipped recipe nor a file;"
                f" {suggest_names(name, list_recipes())}"
            )
        where, name = path.name, path.stem
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{where}: cannot be read ({type(error).__name__}); expected a TOML file in UTF-8"
            ) from None
    try:
        return parse_toml(text), where, name
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}") from None


def _validate_recipe(table: Mapping[str, Any], where: str) -> Recipe:
    try:
        recipe = Recipe(**table)
    except ValidationError as error:
        raise UsageError(describe_validation_error(error, Recipe, f"{where}:")) from None
    objective = objectives.load_objective(recipe.objective, f"{where}: objective")
    if objective.HEAD == "causal" and recipe.model.arch in ("bert", "roberta"):
        raise UsageError(
            f"{where}: model.arch = {recipe.model.arch} cannot learn {objective.use}; expected gpt2"
            " or gpt_neo"
        )
    if objective.HEAD == "masked" and recipe.model.arch in ("gpt2", "gpt_neo"):
        raise UsageError(
            f"{where}: model.arch = {recipe.model.arch} cannot learn {objective.use}; expected bert"
            " or roberta"
        )
    if recipe.data.answers_only and recipe.data.prompts == "remove":
        raise UsageError(
            f'{where}: data.answers_only needs prompts = "include"; there is no prompt to leave out'
        )
    if (
        recipe.data.attention == "document"
        and recipe.data.layout == "packed"
        and not objective.SUPPORTS_DOCUMENT_ATTENTION
    ):
        raise UsageError(
            f'{where}: data.attention = "document" cannot be combined with objective'
            f' {objective.use}; set data.layout = "document"'
        )
    if recipe.data.spans_from and not recipe.data.leave_out_pii:
        raise UsageError(
            f"{where}: data.spans_from gives the spans that data.leave_out_pii = true leaves out;"
            " set both, or neither"
        )
    if getattr(objective, "direct", "type") == "occurrence" and not recipe.data.leave_out_pii:
        raise UsageError(
            f'{where}: objective.direct = "occurrence" needs the spans that data.leave_out_pii ='
            " true leaves out; set it, too"
        )
    if recipe.lora is not None:
        _validate_lora(recipe, objective, where)
    if recipe.model.frozen_dtype == "bfloat16":
        if recipe.lora is None and recipe.model.top_layers is None:
            raise UsageError(
                f"{where}: model.frozen_dtype is that of weights that are not trained, but all are."
                " Trained weights stay float32, since bfloat16 would lose most updates;"
                ' run.precision = "bf16" computes in bfloat16'
            )
        if recipe.run.precision != "bf16":
            raise UsageError(
                f'{where}: model.frozen_dtype = "bfloat16" needs run.precision = "bf16"'
            )
    if objective.IS_UNLEARNING and not recipe.model.path:
        raise UsageError(
            f"{where}: objective {objective.use} needs model.path, a checkpoint that was trained on"
            " the data"
        )
    if objective.IS_UNLEARNING and recipe.data.layout != "document":
        raise UsageError(
            f"{where}: objective {objective.use} needs rows of one document each; set data.layout ="
            ' "document"'
        )
    if objective.HEAD == "classify" and recipe.data.layout != "document":
        raise UsageError(
            f"{where}: objective {objective.use} labels documents; expected data.layout ="
            ' "document"'
        )
    if recipe.privacy is not None:
        _validate_privacy(recipe, objective, where)
    return recipe.model_copy(update={"objective": objective.model_dump(mode="json")})


def _validate_lora(recipe: Recipe, objective: objectives.Objective, where: str) -> None:
    """Raise UsageError for settings that an adapter cannot be combined with."""
    if not recipe.model.path:
        raise UsageError(
            f"{where}: lora needs model.path; an adapter changes a pretrained model, and a new"
            " model has nothing to keep"
        )
    if recipe.model.top_layers is not None:
        raise UsageError(
            f"{where}: lora freezes all weights of the model, and model.top_layers all but some;"
            " use one of the two"
        )
    if objective.HEAD == "classify":
        raise UsageError(
            f"{where}: objective {objective.use} trains a new head, which an adapter does not hold;"
            " use model.top_layers instead of lora"
        )


def _validate_privacy(recipe: Recipe, objective: objectives.Objective, where: str) -> None:
    """Raise UsageError for settings that DP-SGD cannot be combined with."""
    if not objective.ROWS_INDEPENDENT:
        raise UsageError(
            f"{where}: the loss of objective {objective.use} combines rows, so that no gradient"
            " belongs to one unit; leave privacy out"
        )
    if recipe.data.layout != "document":
        raise UsageError(
            f'{where}: privacy needs rows of one document each; set data.layout = "document"'
        )
    if recipe.data.limit is not None:
        raise UsageError(
            f"{where}: with data.limit, which documents are drawn depends on how many there are;"
            " leave data.limit out with privacy"
        )
    for key in ("compile", "gradient_checkpointing"):
        if getattr(recipe.run, key):
            raise UsageError(
                f"{where}: run.{key} cannot be combined with privacy, whose gradients of single"
                " rows torch.func computes; leave it out"
            )
    if recipe.run.noise_alpha:
        raise UsageError(
            f"{where}: run.noise_alpha scales with the longest row of a batch, which may be of"
            " another document; set it to 0 with privacy"
        )


def _apply_change(table: dict[str, Any], change: str) -> None:
    """Apply one `section.key=value` to the table; the value is read as TOML, or as a plain string
    if it is not TOML."""
    path, equals, value = change.partition("=")
    steps = path.strip().split(".")
    if not equals or len(steps) != 2 or not all(steps):
        raise UsageError(f"--set {path}: expected SECTION.KEY=VALUE, such as run.epochs=8")
    try:
        parsed = parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    section = table.setdefault(steps[0], {})
    if not isinstance(section, dict):
        raise UsageError(f"--set {path}: {steps[0]} is a single value, with nothing inside it")
    section[steps[1]] = parsed
    if path.strip() == "model.path" and parsed:
        section.pop("arch", None)  # a checkpoint replaces the new model of the recipe
