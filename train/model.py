"""Loads models and tokenizers from a local folder, or builds new ones from sizes in a recipe.

Reads local files only, weights as safetensors only, and never runs code from a model folder. All
calls of transformers are here or in `checkpoint.py`, so that a new major version concerns two
files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.errors import InputRefused, MissingExtra, UsageError
from sanitize.storage.files import read_json
from sanitize.storage.model_folders import describe_impossible_layers

from .adapters import add_adapter, find_base_folder, is_adapter, merge_adapter
from .model_folders import describe_unreadable_model, has_finite_weights

if TYPE_CHECKING:
    from .recipe import LoraSettings, ModelSettings

# the same in causal and masked models
END_TOKEN, PAD_TOKEN, MASK_TOKEN = ("<|endoftext|>", "<|pad|>", "<|mask|>")
DEFAULT_CONTEXT, MAX_CONTEXT = 128, 1024
AUTO_MODEL_SUFFIXES = {
    "causal": "CausalLM",
    "masked": "MaskedLM",
    "classify": "SequenceClassification",
}


def require_torch() -> None:
    """Raise MissingExtra unless torch and transformers can be imported; turn off the progress bars
    and warnings of transformers."""
    for package in ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(package, "learn") from None
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging  # its functions have no types

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def train_tokenizer(texts: Iterable[str], *, vocab_size: int, context_length: int) -> Any:
    """Train a byte-level BPE tokenizer of at most `vocab_size` entries. The same texts in the same
    order give the same tokenizer."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_TOKEN, PAD_TOKEN, MASK_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer_class: Any = transformers.PreTrainedTokenizerFast
    return tokenizer_class(
        tokenizer_object=backend,
        bos_token=END_TOKEN,
        eos_token=END_TOKEN,
        pad_token=PAD_TOKEN,
        mask_token=MASK_TOKEN,
        model_max_length=context_length,
    )


def load_tokenizer(path: str | Path) -> Any:
    """Load the tokenizer of a local folder. If it has no padding token, its end-of-text token is
    used for padding.

    Raises InputRefused if the folder has no readable tokenizer, or one with neither of the two
    tokens.
    """
    from transformers import AutoTokenizer

    folder = Path(path)
    if not (folder / "tokenizer.json").is_file():
        raise InputRefused(
            f"{folder}: no tokenizer.json; expected a local folder with a tokenizer in Hugging Face"
            " layout"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers raises many types
        raise InputRefused(
            f"{folder}: not a tokenizer that transformers can read ({type(error).__name__})"
        ) from None
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token_id is None:
            raise InputRefused(
                f"{folder}: the tokenizer has neither a padding token nor an end-of-text token; add"
                " one of them"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def tokenizer_sha256(tokenizer: Any) -> str:
    """Return the SHA-256 of the tokenizer's definition (its tokenizer.json, whitespace left
    out)."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


def get_special_tokens(tokenizer: Any, head: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens (before, after) a text: those that the tokenizer adds, and
    end-of-text for a causal model."""
    text_ids = tokenizer("a", add_special_tokens=False)["input_ids"]
    full_ids = tokenizer("a")["input_ids"]
    # offset of the text's own tokens in the full sequence
    at = next(
        (at for at in range(len(full_ids)) if full_ids[at : at + len(text_ids)] == text_ids), 0
    )
    prefix, suffix = tuple(full_ids[:at]), tuple(full_ids[at + len(text_ids) :])
    end_id = tokenizer.eos_token_id
    if head == "causal" and end_id is not None and suffix[-1:] != (end_id,):
        suffix = (*suffix, end_id)
    return prefix, suffix


def build_model(
    settings: ModelSettings,
    *,
    head: str,
    tokenizer: Any,
    seed: int,
    labels: tuple[str, ...] = (),
    lora: LoraSettings | None = None,
) -> tuple[Any, int]:
    """Load or build the untrained model of a recipe, on the CPU in float32 (weights that stay
    frozen in `settings.frozen_dtype`), with the adapter that `lora` asks for; return it and its row
    length in tokens.

    Raises InputRefused if the folder holds no model, UsageError if tokenizer, context or number of
    layers do not match it.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if settings.path:
            _check_same_tokenizer(Path(settings.path), tokenizer)
            model = load_model(
                settings.path,
                head,
                dropout=settings.dropout,
                labels=labels,
                pad_id=tokenizer.pad_token_id,
            )
        else:
            model = _build_new_model(settings, head, tokenizer, labels)
    max_positions = get_max_positions(model)
    context = settings.context or (
        min(max_positions or MAX_CONTEXT, MAX_CONTEXT) if settings.path else DEFAULT_CONTEXT
    )
    if max_positions is not None and context > max_positions:
        raise UsageError(
            f"model.context = {context}: the model has positions for {max_positions} tokens; use"
            f" --set model.context={max_positions}"
        )
    embedding_rows, tokenizer_size = model.get_input_embeddings().weight.shape[0], len(tokenizer)
    if tokenizer_size > embedding_rows:
        raise UsageError(
            f"the tokenizer has {tokenizer_size} entries, the model embeds {embedding_rows}; use"
            " the tokenizer of that model"
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    freeze_layers(model, settings.top_layers, train_head=head == "classify")
    if lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            add_adapter(model, lora, base_folder=settings.path, head=head)
    if settings.frozen_dtype != "float32":
        for parameter in model.parameters():
            if not parameter.requires_grad:
                parameter.data = parameter.data.to(getattr(torch, settings.frozen_dtype))
    return model, context


def load_model(
    path: str | Path,
    head: str,
    *,
    dropout: float | None = None,
    labels: tuple[str, ...] = (),
    pad_id: int | None = None,
) -> Any:
    """Load the model of a local folder in float32, a LoRA adapter merged into its base.

    Raises InputRefused if none can be read without running foreign code, or an adapter has no base.
    """
    import torch
    import transformers

    folder = Path(path)
    if is_adapter(folder):
        base = load_model(
            find_base_folder(folder), head, dropout=dropout, labels=labels, pad_id=pad_id
        )
        return merge_adapter(base, folder)
    if not (folder / "config.json").is_file():
        raise InputRefused(
            f"{folder}: no config.json; expected a local model in Hugging Face layout (models are"
            " never downloaded)"
        )
    if not any(folder.glob("*.safetensors")):
        raise InputRefused(
            f"{folder}: no *.safetensors; weights are read as safetensors only, since other formats"
            " can run code"
        )
    if problem := describe_impossible_layers(folder):
        raise InputRefused(f"{folder}: {problem}")
    try:
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        for name in list_dropout_settings(config) if dropout is not None else ():
            setattr(config, name, dropout)
        if head == "classify":
            config.id2label, config.label2id = (
                dict(enumerate(labels)),
                {label: number for number, label in enumerate(labels)},
            )
            config.pad_token_id = pad_id if config.pad_token_id is None else config.pad_token_id
        model_class = getattr(transformers, f"AutoModelFor{AUTO_MODEL_SUFFIXES[head]}")
        model, loading_info = model_class.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises many types
        raise InputRefused(
            f"{folder}: no {AUTO_MODEL_SUFFIXES[head]}: {describe_unreadable_model(folder, error)}"
        ) from None
    if head != "classify" and loading_info["missing_keys"]:
        raise InputRefused(
            f"{folder}: lacks {len(loading_info['missing_keys'])} weights of a"
            f" {type(model).__name__}; its files are of another model class"
        )
    if not has_finite_weights(model):
        raise InputRefused(
            f"{folder}: has weights that are not finite numbers, so that it has no loss; use"
            " another copy of the model"
        )
    if (
        head == "causal"
        and config.model_type in _masked_model_types()
        and not getattr(config, "is_decoder", False)
    ):
        raise InputRefused(
            f"{folder}: is a bidirectional model ({config.model_type}), which sees the tokens that"
            " a causal objective predicts; expected a causal model"
        )
    return model


def read_architectures(path: str | Path) -> list[str]:
    """Return the class names of the model in a folder, such as GPT2LMHeadModel; of an adapter those
    of its base."""
    return [str(name) for name in _read_config(path).get("architectures") or ()]


def read_stored_dtype(path: str | Path) -> str:
    """Return the dtype in which a folder holds a model, float32 or bfloat16 (also for float16); of
    an adapter that of its base."""
    config = _read_config(path)
    return (
        "float32"
        if (config.get("dtype") or config.get("torch_dtype") or "float32") == "float32"
        else "bfloat16"
    )


def _read_config(path: str | Path) -> dict[str, Any]:
    folder = Path(path)
    while is_adapter(folder):
        folder = find_base_folder(folder)
    return read_json(folder / "config.json") or {}


def _masked_model_types() -> frozenset[str]:
    from transformers.models.auto import modeling_auto

    return frozenset(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)


def _check_same_tokenizer(folder: Path, tokenizer: Any) -> None:
    model_tokenizer = load_tokenizer(folder) if (folder / "tokenizer.json").is_file() else None
    if model_tokenizer is not None and model_tokenizer.get_vocab() != tokenizer.get_vocab():
        raise UsageError(
            f"{folder}: the model's own tokenizer has another vocabulary than the one in use; leave"
            " tokenizer.path and tokenizer.corpus out"
        )


def _require_memory(layers: int, width: int, context: int, vocab_size: int) -> None:
    """Raise UsageError if a new model's weights alone are more than the machine's memory: building
    it would fill the memory before anything fails."""
    weights = 12 * layers * width**2 + (context + vocab_size) * width
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 4 * weights > memory:
        raise UsageError(
            f"model.layers = {layers}, model.width = {width}: such a model has about {weights:.1e}"
            f" weights, {4 * weights / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f} GB of"
            " memory; use a smaller width or fewer layers"
        )


def _build_new_model(
    settings: ModelSettings, head: str, tokenizer: Any, labels: tuple[str, ...]
) -> Any:
    import transformers

    t: Any = transformers  # its types do not accept settings as **dict
    context, layers, width, heads = (
        settings.context or DEFAULT_CONTEXT,
        settings.layers,
        settings.width,
        settings.heads,
    )
    _require_memory(layers, width, context, len(tokenizer))
    shared: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if head == "classify":
        shared["id2label"], shared["label2id"] = (
            dict(enumerate(labels)),
            {label: number for number, label in enumerate(labels)},
        )
    encoder: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    if settings.arch == "gpt2":
        config = t.GPT2Config(
            n_positions=context, n_embd=width, n_layer=layers, n_head=heads, **shared
        )
    elif settings.arch == "gpt_neo":
        # global and local attention layers alternate, as in EleutherAI's models
        kinds = [[["global", "local"], layers // 2]] * (layers > 1) + [[["global"], 1]] * (
            layers % 2
        )
        config = t.GPTNeoConfig(
            max_position_embeddings=context,
            hidden_size=width,
            num_layers=layers,
            num_heads=heads,
            attention_types=kinds,
            window_size=min(256, context),
            **shared,
        )
    elif settings.arch == "bert":
        config = t.BertConfig(max_position_embeddings=context, **encoder, **shared)
    else:
        # positions of RoBERTa start at pad_token_id + 1
        config = t.RobertaConfig(
            max_position_embeddings=context + tokenizer.pad_token_id + 1,
            type_vocab_size=1,
            **encoder,
            **shared,
        )
    for name in list_dropout_settings(config):
        if settings.dropout is not None:
            setattr(config, name, settings.dropout)
    return getattr(t, f"AutoModelFor{AUTO_MODEL_SUFFIXES[head]}").from_config(
        config, trust_remote_code=False
    )


def list_dropout_settings(config: Any) -> list[str]:
    """Return the names of the dropout rates that a configuration sets, without those of summary and
    classifier heads."""
    names = [
        name
        for name in config.to_dict()
        if "drop" in name and not name.startswith(("summary", "classifier"))
    ]
    return [name for name in names if isinstance(getattr(config, name), float | int)]


def get_max_positions(model: Any) -> int | None:
    """Return the largest number of tokens of a row; None if the model has no limit of its own."""
    max_positions = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        # RoBERTa and similar models count positions from padding_idx + 1
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
            and max_positions is not None
        ):
            return int(max_positions) - int(module.padding_idx) - 1
    return None if max_positions is None else int(max_positions)


def get_layers(model: Any) -> Any:
    """Return the model's transformer layers, from input to output; raises UsageError if they cannot
    be found."""
    import torch

    count = model.config.num_hidden_layers
    for module in model.modules():
        if (
            isinstance(module, torch.nn.ModuleList)
            and len(module) == count
            and "Layer" + "Norm" not in type(module[0]).__name__
        ):
            return module
    raise UsageError(
        f"model.top_layers: no list of {count} layers in this model ({type(model).__name__}); leave"
        " top_layers out"
    )


def freeze_layers(model: Any, top_layers: int | None, *, train_head: bool = False) -> None:
    """Freeze all but the top layers (Early Detection and Reduction of Memorization, section 3.4:
    only these are updated; embeddings, final norm and head are not).

    With `train_head`, the head and the pooler below it are trained too (PPMLM, section 5.1).
    `top_layers` None freezes nothing.
    """
    if top_layers is None:
        return
    layers = get_layers(model)
    if top_layers > len(layers):
        raise UsageError(
            f"model.top_layers = {top_layers}: the model has only {len(layers)} layers; use at most"
            " that"
        )
    model.requires_grad_(False)
    for layer in list(layers)[len(layers) - top_layers :]:
        layer.requires_grad_(True)
    for name, parameter in model.named_parameters() if train_head else ():
        if not name.startswith(model.base_model_prefix + ".") or ".pooler." in name:
            parameter.requires_grad_(True)


def add_neftune_noise(model: Any, alpha: float) -> Any:
    """Add NEFTune noise to the model's input embeddings during training; returns a handle whose
    `remove()` ends it.

    Jain et al. 2023: e + U(-1, 1) * alpha / sqrt(L * d), with L the row length including padding
    and d the embedding width.
    """
    import torch

    def noise(module: Any, _inputs: Any, embeddings: Any) -> Any:
        if not module.training or not torch.is_grad_enabled():
            return embeddings
        scale = alpha / (embeddings.shape[1] * embeddings.shape[2]) ** 0.5
        return embeddings + torch.empty_like(embeddings).uniform_(-1, 1) * scale

    return model.get_input_embeddings().register_forward_hook(noise)


def trainable_parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, parameter) of all parameters that are trained; tied parameters once."""
    return (
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
    )
