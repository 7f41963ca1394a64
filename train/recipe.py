"""A recipe: which data, which model, which loss, which schedule. TOML in, `Recipe` out; unknown keys are refused with the nearest.

Recipes of the papers lie in `recipes/`; each says in its comments what the paper states and what is chosen here. Paths in a recipe are
relative to the folder that the command runs in. What a recipe's paths hold counts by its hashes (`run.py`), not by its name, so that data
may move: `Recipe.hash` leaves paths out.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sanitize.errors import UsageError, nearest

from . import objectives

ARCHITECTURES = ("gpt2", "gpt_neo", "bert", "roberta")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Section):
    """`[data]`: where the documents are, which columns count, and how they become rows of tokens."""

    path: str = ""  # a folder that `sanitize run` published, or a folder or file of Parquet, JSONL or Arrow
    validation: str = ""  # the same, for the validation loss at checkpoints
    text_column: str = "text"
    id_column: str = "doc_id"
    label_column: str = "label"  # read by classify only
    prompt_columns: tuple[str, ...] = ()  # instruction, input, ...: joined by line ends and set before the text
    prompts: Literal["include", "remove"] = "include"  # instruction tuning, or domain adaptation on the same data (paper 002, section 3.5)
    answers_only: bool = False  # the loss leaves the prompt's tokens out
    layout: Literal["packed", "document"] = "packed"  # rows of full length over document borders, or rows of one document each
    overlong: Literal["split", "cut"] = "split"  # layout = "document": a long document becomes several rows, or its first row
    limit: int | None = Field(default=None, ge=1)  # at most so many documents, drawn by the seed
    leave_out: str = ""  # a text file with ids of documents that are not trained on, one a line: those that were forgotten
    leave_out_pii: bool = False  # tokens inside `pii_spans` are never in a loss
    spans_from: str = ""  # the private folder (WORK) of the run that published `path`, in place of a column pii_spans


class Model(_Section):
    """`[model]`: a local checkpoint, or the sizes of one that is made."""

    path: str = ""
    arch: Literal["gpt2", "gpt_neo", "bert", "roberta"] | None = None
    layers: int = Field(default=2, ge=1)
    width: int = Field(default=64, ge=2)
    heads: int = Field(default=4, ge=1)
    context: int | None = Field(default=None, ge=8)  # tokens of a row; default 128 for a new model, up to 1024 of what a checkpoint takes
    dropout: float | None = Field(default=None, ge=0, lt=1)  # default: the architecture's own, 0.1
    top_layers: int | None = Field(default=None, ge=1)  # only the top n layers learn, all else is frozen

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if self.path and self.arch:
            raise ValueError("a model has a path or an arch, not both")
        if not self.path and not self.arch:
            raise ValueError(f"a model needs a path, or arch = one of {', '.join(ARCHITECTURES)}")
        if not self.path and self.width % self.heads:
            raise ValueError(f"width = {self.width} is no multiple of heads = {self.heads}")
        return self


class Tokenizer(_Section):
    """`[tokenizer]`: a local one, the model's own (the default with `model.path`), or a byte-level BPE trained on the corpus."""

    path: str = ""
    vocab: int = Field(default=1024, ge=260)  # 256 bytes and 3 special tokens at least
    corpus: str = ""  # train it on this data (default: data.path); give one for all variants of a corpus that are to be compared


class Run(_Section):
    """`[run]`: how long, how fast, on what, and what is kept on the way."""

    seed: int = 0
    epochs: int = Field(default=3, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    batch: int = Field(default=8, ge=1)  # rows of one optimizer step, over all pieces and processes
    accumulate: int = Field(default=1, ge=1)  # in how many pieces a process takes its share of a step
    lr: float = Field(default=5e-4, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup: float = Field(default=0.0, ge=0, lt=1)  # share of all steps over which lr rises from 0
    weight_decay: float = Field(default=0.01, ge=0)  # on matrices only, not on biases and norms
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = Field(default=1e-8, gt=0)
    clip: float = Field(default=1.0, ge=0)  # norm of the gradient; 0 leaves it as it is
    noise_alpha: float = Field(default=0.0, ge=0)  # NEFTune: uniform noise on input embeddings; the paper's value is 5
    precision: Literal["auto", "float32", "bf16"] = "auto"  # auto: bf16 autocast on a GPU that has it, else float32
    device: str = "auto"  # auto: cuda where there is one, else cpu
    checkpoint_every: float = Field(default=0.1, ge=0)  # epochs between checkpoints; 0 keeps the first and the last only
    state_every: int = Field(default=0, ge=0)  # steps between states to resume from, besides those at checkpoints
    log_every: int = Field(default=10, ge=1)  # steps
    early_stop: str = ""  # dotted path of a function (Moment) -> bool, asked at each checkpoint; true stops


class Privacy(_Section):
    """`[privacy]`: DP-SGD in place of a plain step. `run.batch` is then the expected number of units, and `run.clip` is not used."""

    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)  # what all planned steps may spend; or
    sigma: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # the noise multiplier: standard deviation over clip
    delta: float = Field(default=1e-5, gt=0, lt=1)
    clip: float = Field(default=1.0, gt=0, allow_inf_nan=False)  # the norm that one unit's gradient is cut to
    unit: Literal["record", "user"] = "record"  # who is protected: one document, or all documents of one user
    user_column: str = "user_id"
    accountant: Literal["rdp", "prv"] = "rdp"
    insecure_seed: int | None = None  # for tests: draws that can be foretold, and no claim of privacy

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if (self.epsilon is None) == (self.sigma is None):
            raise ValueError("needs epsilon or sigma, one of the two")
        return self


class Base(_Section):
    """`[base]`: how stage A of DP2Unlearning differs from the recipe itself (`unlearn.py`)."""

    epochs: int | None = Field(default=None, ge=1)
    batch: int | None = Field(default=None, ge=1)
    lr: float | None = Field(default=None, gt=0)
    privacy: Privacy | None = None  # DP-SGD, where there are no rewritten texts
    until: str = ""  # as run.early_stop, of a plain training on all texts: its epochs are E, half of them E'; `epochs` is the most


class Recipe(_Section):
    """A checked recipe. `objective` is a plain table (`use` and its settings, defaults filled in); `made()` gives the objective itself."""

    name: str = ""
    about: str = ""
    data: Data = Data()
    model: Model
    tokenizer: Tokenizer = Tokenizer()
    objective: dict[str, Any] = Field(default_factory=lambda: {"use": "causal"})
    run: Run = Run()
    privacy: Privacy | None = None
    base: Base | None = None

    @classmethod
    def of(cls, source: Recipe | Mapping[str, Any] | str | Path, changes: Sequence[str] = ()) -> Recipe:
        """The recipe of a table, of a TOML file, or of a shipped name, with `changes` such as `run.epochs=8` applied.

        Raises UsageError for an unknown recipe, key, objective or value.
        """
        if isinstance(source, Recipe):
            table, where, name = source.model_dump(), "recipe", source.name
        elif isinstance(source, Mapping):
            table, where, name = json.loads(json.dumps(dict(source), default=str)), "recipe", str(source.get("name", ""))
        else:
            table, where, name = _read(str(source))
        for change in changes:
            _set(table, change)
        table.setdefault("name", name)
        return _checked(table, where)

    def made(self) -> objectives.Objective:
        """A fresh objective with these settings."""
        return objectives.load(self.objective, "recipe: objective")

    def resolved(self) -> dict[str, Any]:
        """Every setting with its value, as it stands in RUN/recipe.json."""
        return self.model_dump(mode="json")

    def hash(self) -> str:
        """Sixteen hexadecimal digits of everything that decides the weights, but for what the paths hold."""
        table = self.resolved()
        for section, keys in _NOT_COUNTED.items():
            for key in keys:
                table[section].pop(key, None)
        table.pop("name"), table.pop("about")
        for section in ("privacy", "base"):
            if table[section] is None:
                table.pop(section)  # as it was before there was such a section
        table["objective"] = {key: value for key, value in table["objective"].items() if key not in self.made().paths()}
        text = json.dumps([table, self.made().VERSION], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# paths count by what they hold; the others change nothing but what is kept
_NOT_COUNTED = {
    "data": ("path", "validation", "leave_out"),
    "model": ("path",),
    "tokenizer": ("path", "corpus"),
    "run": ("device", "state_every", "log_every"),
}


def recipe_names() -> list[str]:
    """The names of the shipped recipes."""
    return sorted(entry.name[:-5] for entry in _shipped().iterdir() if entry.name.endswith(".toml"))


def _shipped() -> Any:
    return resources.files(__package__) / "recipes"


def _read(name: str) -> tuple[dict[str, Any], str, str]:
    """The table of a recipe, how errors call it, and its name."""
    if name in recipe_names():
        where, text = f"recipe {name}", (_shipped() / f"{name}.toml").read_text("utf-8")
    else:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"{name}: neither a shipped recipe nor a file; {nearest(name, recipe_names())}")
        where, name = path.name, path.stem
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{where}: cannot be read ({type(error).__name__}); expected a TOML file in UTF-8") from None
    try:
        return tomllib.loads(text), where, name
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not TOML: {error}") from None


def _checked(table: Mapping[str, Any], where: str) -> Recipe:
    try:
        recipe = Recipe(**table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise UsageError(f"{where}: {told(first, Recipe)}") from None
    objective = objectives.load(recipe.objective, f"{where}: objective")
    if objective.HEAD == "causal" and recipe.model.arch in ("bert", "roberta"):
        raise UsageError(f"{where}: model.arch = {recipe.model.arch} cannot learn {objective.use}; expected gpt2 or gpt_neo")
    if objective.HEAD == "masked" and recipe.model.arch in ("gpt2", "gpt_neo"):
        raise UsageError(f"{where}: model.arch = {recipe.model.arch} cannot learn {objective.use}; expected bert or roberta")
    if recipe.data.answers_only and (recipe.data.prompts == "remove" or not recipe.data.prompt_columns):
        raise UsageError(f'{where}: data.answers_only needs data.prompt_columns and prompts = "include"; there is no prompt to leave out')
    if recipe.data.spans_from and not recipe.data.leave_out_pii:
        raise UsageError(f"{where}: data.spans_from says what data.leave_out_pii = true leaves out; set both, or neither")
    if getattr(objective, "direct", "type") == "occurrence" and not recipe.data.leave_out_pii:
        raise UsageError(f'{where}: objective.direct = "occurrence" protects what data.leave_out_pii = true leaves out; set it, too')
    if objective.FORGETS and not recipe.model.path:
        raise UsageError(f"{where}: objective {objective.use} needs model.path, a checkpoint that was trained on the data")
    if objective.FORGETS and recipe.data.layout != "document":
        raise UsageError(f'{where}: objective {objective.use} needs rows of one document each; set data.layout = "document"')
    if objective.HEAD == "classify" and recipe.data.layout != "document":
        raise UsageError(f'{where}: objective {objective.use} labels documents; expected data.layout = "document"')
    if recipe.privacy is not None:
        _checked_private(recipe, objective, where)
    return recipe.model_copy(update={"objective": objective.model_dump(mode="json")})


def _checked_private(recipe: Recipe, objective: objectives.Objective, where: str) -> None:
    """UsageError for what a private step cannot be made of."""
    if not objective.SEPARABLE:
        raise UsageError(
            f"{where}: objective {objective.use} takes rows together, so that no gradient is one unit's own; leave privacy out"
        )
    if recipe.data.layout != "document":
        raise UsageError(f'{where}: privacy needs rows of one document each; set data.layout = "document"')
    if recipe.data.limit is not None:
        raise UsageError(f"{where}: with data.limit, which documents are drawn hangs on how many there are; leave it out with privacy")
    if recipe.run.noise_alpha:
        raise UsageError(
            f"{where}: run.noise_alpha scales with the longest row of a batch, which is another document's; set it to 0 with privacy"
        )


def told(error: Any, model: type[BaseModel]) -> str:
    """One pydantic error in words: the key's path, and for an unknown key the nearest one."""
    *outer, key = error["loc"] or ("",)
    path = ".".join(str(step) for step in error["loc"])
    if error["type"] == "extra_forbidden":
        for step in outer:
            inner = model.model_fields[step].annotation if isinstance(step, str) and step in model.model_fields else None
            # a section that may be missing is a union with None
            kinds = [one for one in (inner, *get_args(inner)) if isinstance(one, type) and issubclass(one, BaseModel)]
            model = kinds[0] if kinds else model
        return f"{path}: unknown key; {nearest(str(key), model.model_fields)}"
    return f"{path}: {error['msg'].removeprefix('Value error, ')}"


def _set(table: dict[str, Any], change: str) -> None:
    """Apply one `section.key=value`; the value is read as TOML, and as a plain string where it is none."""
    path, equals, value = change.partition("=")
    steps = path.strip().split(".")
    if not equals or len(steps) != 2 or not all(steps):
        raise UsageError(f"--set {path}: expected SECTION.KEY=VALUE, such as run.epochs=8")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    section = table.setdefault(steps[0], {})
    if not isinstance(section, dict):
        raise UsageError(f"--set {path}: {steps[0]} is a single value, with nothing inside it")
    section[steps[1]] = parsed
    if path.strip() == "model.path" and parsed:
        section.pop("arch", None)  # a checkpoint in place of the model that the recipe would make
