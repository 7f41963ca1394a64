"""Models and tokenizers, from a local folder or made from sizes; only ever local files, safetensors, and no code of others.

Every call on transformers stands here or in `checkpoint.py`, so that a new major version is read in two files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sanitize.errors import InputRefused, MissingExtra, UsageError

if TYPE_CHECKING:
    from .recipe import Model

END, PAD, MASK = "<|endoftext|>", "<|pad|>", "<|mask|>"  # the same in causal and masked models
DEFAULT_CONTEXT, MOST_CONTEXT = 128, 1024
HEADS = {"causal": "CausalLM", "masked": "MaskedLM", "classify": "SequenceClassification"}


def learning() -> None:
    """Raise MissingExtra unless torch and transformers are there; keep transformers from drawing bars and reaching for the network."""
    for package in ("torch", "transformers"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra(package, "learn") from None
    from transformers.utils import logging as spoken

    logging: Any = spoken

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def trained_tokenizer(texts: Iterable[str], *, vocab: int, context: int) -> Any:
    """A byte-level BPE of at most `vocab` entries, learned from the texts; the same texts in the same order give the same tokenizer."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[END, PAD, MASK], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    kind: Any = transformers.PreTrainedTokenizerFast
    return kind(tokenizer_object=backend, bos_token=END, eos_token=END, pad_token=PAD, mask_token=MASK, model_max_length=context)


def local_tokenizer(path: str | Path) -> Any:
    """The tokenizer of a local folder. Where it has no padding token, its end of text pads. InputRefused where there is none."""
    from transformers import AutoTokenizer

    folder = Path(path)
    if not (folder / "tokenizer.json").is_file():
        raise InputRefused(f"{folder}: no tokenizer.json; expected a local folder with a tokenizer in Hugging Face layout")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # other people's code, any of its errors
        raise InputRefused(f"{folder}: not a tokenizer that transformers can read ({type(error).__name__})") from None
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token_id is None:
            raise InputRefused(f"{folder}: the tokenizer has neither a padding token nor an end of text; add one of them")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def tokenizer_sha256(tokenizer: Any) -> str:
    """The SHA-256 of what the tokenizer does (its tokenizer.json, without layout)."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


def specials(tokenizer: Any, head: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens before and after a text: what the tokenizer itself adds, and the end of text for a causal model."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a")["input_ids"]
    at = next((at for at in range(len(full)) if full[at : at + len(bare)] == bare), 0)
    prefix, suffix = tuple(full[:at]), tuple(full[at + len(bare) :])
    end = tokenizer.eos_token_id
    if head == "causal" and end is not None and suffix[-1:] != (end,):
        suffix = (*suffix, end)
    return prefix, suffix


def made(settings: Model, *, head: str, tokenizer: Any, seed: int, labels: tuple[str, ...] = ()) -> tuple[Any, int]:
    """The model before its first step, on the CPU in float32, and the tokens of a row that it takes.

    Raises InputRefused where a folder holds no model, UsageError where tokenizer, context or layers do not fit it.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if settings.path:
            _same_tokenizer(Path(settings.path), tokenizer)
            model = loaded(settings.path, head, dropout=settings.dropout, labels=labels, pad_id=tokenizer.pad_token_id)
        else:
            model = _new(settings, head, tokenizer, labels)
    reach = positions(model)
    context = settings.context or (min(reach or MOST_CONTEXT, MOST_CONTEXT) if settings.path else DEFAULT_CONTEXT)
    if reach is not None and context > reach:
        raise UsageError(f"model.context = {context}: the model has positions for {reach} tokens; use at most that")
    vocab, known = model.get_input_embeddings().weight.shape[0], len(tokenizer)
    if known > vocab:
        raise UsageError(f"the tokenizer has {known} entries, the model embeds {vocab}; give the tokenizer the model was made with")
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    frozen(model, settings.top_layers, head=head == "classify")
    return model, context


def loaded(path: str | Path, head: str, *, dropout: float | None = None, labels: tuple[str, ...] = (), pad_id: int | None = None) -> Any:
    """The model of a local folder, in float32; InputRefused where there is none that can be read without running code."""
    import torch
    import transformers

    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise InputRefused(f"{folder}: no config.json; expected a local model in Hugging Face layout (models are never downloaded)")
    if not any(folder.glob("*.safetensors")):
        raise InputRefused(f"{folder}: no *.safetensors; weights are read as safetensors only, since other formats can run code")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        for name in dropouts(config) if dropout is not None else ():
            setattr(config, name, dropout)
        if head == "classify":
            config.id2label, config.label2id = dict(enumerate(labels)), {label: number for number, label in enumerate(labels)}
            config.pad_token_id = pad_id if config.pad_token_id is None else config.pad_token_id
        kind = getattr(transformers, f"AutoModelFor{HEADS[head]}")
        model, told = kind.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # other people's code, any of its errors
        raise InputRefused(f"{folder}: no {HEADS[head]} that transformers can read ({type(error).__name__})") from None
    if head != "classify" and told["missing_keys"]:
        raise InputRefused(
            f"{folder}: lacks {len(told['missing_keys'])} weights of a {type(model).__name__}; its files are of another model"
        )
    if head == "causal" and config.model_type in _masked_types() and not getattr(config, "is_decoder", False):
        raise InputRefused(f"{folder}: sees both sides ({config.model_type}); a causal objective would ask it for what it sees")
    return model


def _masked_types() -> frozenset[str]:
    from transformers.models.auto import modeling_auto

    return frozenset(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)


def _same_tokenizer(folder: Path, tokenizer: Any) -> None:
    own = local_tokenizer(folder) if (folder / "tokenizer.json").is_file() else None
    if own is not None and own.get_vocab() != tokenizer.get_vocab():
        raise UsageError(
            f"{folder}: its own tokenizer has another vocabulary than the one in use; leave tokenizer.path and tokenizer.corpus out"
        )


def _new(settings: Model, head: str, tokenizer: Any, labels: tuple[str, ...]) -> Any:
    import transformers

    t: Any = transformers  # its configurations are typed more narrowly than tables of settings can be
    context, layers, width, heads = settings.context or DEFAULT_CONTEXT, settings.layers, settings.width, settings.heads
    shared: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if head == "classify":
        shared["id2label"], shared["label2id"] = dict(enumerate(labels)), {label: number for number, label in enumerate(labels)}
    encoder: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    if settings.arch == "gpt2":
        config = t.GPT2Config(n_positions=context, n_embd=width, n_layer=layers, n_head=heads, **shared)
    elif settings.arch == "gpt_neo":
        # global and local attention in turn, as EleutherAI's models have it
        kinds = [[["global", "local"], layers // 2]] * (layers > 1) + [[["global"], 1]] * (layers % 2)
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
        # positions of RoBERTa begin after the padding's number
        config = t.RobertaConfig(max_position_embeddings=context + tokenizer.pad_token_id + 1, type_vocab_size=1, **encoder, **shared)
    for name in dropouts(config):
        if settings.dropout is not None:
            setattr(config, name, settings.dropout)
    return getattr(t, f"AutoModelFor{HEADS[head]}").from_config(config, trust_remote_code=False)


def dropouts(config: Any) -> list[str]:
    """The names of a configuration's dropout rates that are set, those of a summary or a classifier's head left out."""
    names = [name for name in config.to_dict() if "drop" in name and not name.startswith(("summary", "classifier"))]
    return [name for name in names if isinstance(getattr(config, name), float | int)]


def positions(model: Any) -> int | None:
    """How many tokens a row may have; None where the model has no limit of its own."""
    most = getattr(model.config, "max_position_embeddings", None)
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from the padding's number on
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None and most is not None:
            return int(most) - int(module.padding_idx) - 1
    return None if most is None else int(most)


def blocks(model: Any) -> Any:
    """The model's layers, from the input to the output."""
    import torch

    count = model.config.num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count and "Layer" + "Norm" not in type(module[0]).__name__:
            return module
    raise UsageError(f"model.top_layers: no list of {count} layers in this model ({type(model).__name__}); leave top_layers out")


def frozen(model: Any, top_layers: int | None, *, head: bool = False) -> None:
    """Freeze all but the top layers (paper 002, section 3.4: only these are updated, embeddings, norms and head are not).

    With `head` the head learns too, and the pooler below it (paper 003, section 5.1).
    """
    if top_layers is None:
        return
    layers = blocks(model)
    if top_layers > len(layers):
        raise UsageError(f"model.top_layers = {top_layers}: the model has {len(layers)} layers")
    model.requires_grad_(False)
    for layer in list(layers)[len(layers) - top_layers :]:
        layer.requires_grad_(True)
    for name, one in model.named_parameters() if head else ():
        if not name.startswith(model.base_model_prefix + ".") or ".pooler." in name:
            one.requires_grad_(True)


def noisy(model: Any, alpha: float) -> Any:
    """NEFTune on this model's input embeddings while it trains; gives a handle whose `remove()` ends it.

    Jain et al. 2023: e + U(-1, 1) * alpha / sqrt(L * d), with L the row length including padding and d the width.
    """
    import torch

    def noise(module: Any, _given: Any, embedded: Any) -> Any:
        if not module.training or not torch.is_grad_enabled():
            return embedded
        scale = alpha / (embedded.shape[1] * embedded.shape[2]) ** 0.5
        return embedded + torch.empty_like(embedded).uniform_(-1, 1) * scale

    return model.get_input_embeddings().register_forward_hook(noise)


def learned(model: Any) -> Iterator[tuple[str, Any]]:
    """The parameters that learn, by name; tied ones once."""
    return ((name, one) for name, one in model.named_parameters() if one.requires_grad)
