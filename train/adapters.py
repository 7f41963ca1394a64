"""LoRA adapters in peft's layout: adds one to a model that is trained, and merges the one of a
checkpoint into its base model.

An adapter is a folder with adapter_config.json, which names the folder of its base model, and
adapter_model.safetensors. A merged model is an ordinary one, so that only `model.load_model` and
`sanitize.eval` know that a folder holds an adapter. Hu et al. 2021: W + alpha / rank * B A, with A
random and B = 0 before the first step. peft is imported where it is used.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.errors import InputRefused, MissingExtra, UsageError
from sanitize.storage.files import read_json, write_json

if TYPE_CHECKING:
    from .recipe import LoraSettings

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
_TASK_TYPES = {"causal": "CAUSAL_LM", "masked": None}


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter, and no model of its own."""
    path = Path(folder)
    return (path / CONFIG_FILE).is_file() and not (path / "config.json").is_file()


def find_base_folder(folder: str | Path) -> Path:
    """Return the folder of the model that an adapter was trained on; InputRefused if it is not
    here, or the adapter is incomplete.

    The base of an adapter may be an adapter itself, whose own base is not the first one.
    """
    base, seen = _read_base_path(folder), {Path(folder).resolve()}
    following = base
    while following.resolve() not in seen and is_adapter(following):
        seen.add(following.resolve())
        following = _read_base_path(following)
    if following.resolve() in seen:
        raise InputRefused(
            f"{folder}: is a LoRA adapter whose base leads back to itself; write the path of its"
            f" model into {CONFIG_FILE}"
        )
    return base


def _read_base_path(folder: str | Path) -> Path:
    path = Path(folder)
    config = read_json(path / CONFIG_FILE)
    if config is None or config.get("peft_type") != "LORA":
        raise InputRefused(
            f"{path}: {CONFIG_FILE} describes no LoRA adapter; expected one that `sanitize-train`"
            " or peft wrote"
        )
    if not (path / WEIGHTS_FILE).is_file():
        raise InputRefused(
            f"{path}: no {WEIGHTS_FILE}; weights are read as safetensors only, since other formats"
            " can run code"
        )
    name = config.get("base_model_name_or_path")
    if not name or not any((Path(name) / file).is_file() for file in ("config.json", CONFIG_FILE)):
        raise InputRefused(
            f"{path}: is a LoRA adapter without its base: {name or 'nothing'}, which"
            f" base_model_name_or_path in {CONFIG_FILE} names, is no model folder on this machine."
            " Put the model there, or write the path of its folder into that file"
        )
    return Path(name)


def has_adapter(model: Any) -> bool:
    """Whether `add_adapter` added an adapter to this model."""
    return bool(getattr(model, "_hf_peft_config_loaded", False))


def add_adapter(model: Any, settings: LoraSettings, *, base_folder: str | Path, head: str) -> None:
    """Add a LoRA adapter to all linear layers of a model but its head, or to those that are named,
    and freeze all other weights.

    The adapter's matrices are float32. UsageError if no layer has one of the names; MissingExtra
    without peft.
    """
    import torch

    peft = _import_peft()
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=sorted(settings.target_modules) or "all-linear",
        # layers of GPT-2 have transposed weights
        fan_in_fan_out=any(map(_is_transposed, model.modules())),
        task_type=_TASK_TYPES[head],
    )
    linear = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) or _is_transposed(module)
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of calls between peft and transformers
            model.add_adapter(config)
    except ValueError as error:
        raise UsageError(
            f"lora.target_modules: cannot be adapted ({type(error).__name__}); linear layers of"
            f" this model are {', '.join(sorted(linear))}"
        ) from None
    model.peft_config["default"].base_model_name_or_path = str(Path(base_folder).resolve())
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()


def merge_adapter(model: Any, folder: str | Path) -> Any:
    """Return the base model with the adapter of a folder added to its weights; InputRefused if it
    does not fit this model."""
    peft = _import_peft()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of calls between peft and transformers
            return peft.PeftModel.from_pretrained(
                model, str(folder), local_files_only=True
            ).merge_and_unload(safe_merge=True)
    except Exception as error:  # peft and safetensors raise many types
        raise InputRefused(
            f"{folder}: the LoRA adapter does not fit its base model ({type(error).__name__});"
            " expected the model it was trained on"
        ) from None


def save_adapter(model: Any, folder: Path) -> None:
    """Write the adapter of a model into a folder.

    The names of layers in its adapter_config.json are in order: peft keeps them as a set, and so in
    another order in each process.
    """
    with warnings.catch_warnings():
        # peft expects config.json beside the base's weights, which an adapter as base does not have
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    config = read_json(folder / CONFIG_FILE)
    assert config is not None, "written before"
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    write_json(folder / CONFIG_FILE, config)


def _is_transposed(module: Any) -> bool:
    return type(module).__name__ == "Conv1D"


def _import_peft() -> Any:
    try:
        import peft
    except ImportError:
        raise MissingExtra("peft", "lora") from None
    return peft
