"""A checkpoint as the metrics use it: continuations, per-token losses and filled masks, independent
of how inputs are batched.

Models and tokenizers come from local folders in Hugging Face layout, weights as safetensors only;
no code from them is run. The result for a prompt depends on that prompt, the settings and the seed,
not on its batch or its position in it (up to rounding: in bfloat16, and on a GPU, equally likely
tokens may change places). Rows are sorted by length and padded on the left with an attention mask.
A batch for which there is too little memory is halved. A model on several devices has a copy on
each, and the copies share the batches.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sanitize.array_types import F32, Mask
from sanitize.errors import MissingExtra, OutputBroken, ResourceError, UsageError, suggest_names
from sanitize.storage.model_folders import describe_impossible_layers
from sanitize.train import adapters
from sanitize.train.device_memory import is_out_of_memory
from sanitize.train.model_folders import describe_unreadable_model, has_finite_weights

TokenIds = Sequence[int]
DECODING_MODES = ("greedy", "sample", "beam")
DTYPES = ("float32", "bfloat16")
_NUCLEUS_CANDIDATES = 1024  # tokens that are sorted at first for `top_p`
# logits of one forward pass in `token_losses` and `fill_masks`: 256 MB of float32
_MAX_LOGITS = 1 << 26


def check_dtype(dtype: str) -> None:
    """Raise UsageError for a dtype that models are not measured in."""
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype}: {suggest_names(dtype, DTYPES)}")


def resolve_device(device: str | None) -> str:
    """Return the name of the device; None: a GPU if available. UsageError for a device that this
    machine does not have."""
    torch, _ = import_torch()
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda") and not (
        device.startswith("cuda:") and device.removeprefix("cuda:").isdecimal()
    ):
        raise UsageError(f"device {device}: {suggest_names(device, ('cpu', 'cuda', 'cuda:0'))}")
    if device != "cpu" and not torch.cuda.is_available():
        raise UsageError(f"device {device}: this machine has no GPU that torch can use; use cpu")
    if (
        device.startswith("cuda:")
        and int(device.removeprefix("cuda:")) >= torch.cuda.device_count()
    ):
        raise UsageError(
            f"device {device}: this machine has {torch.cuda.device_count()} GPUs, numbered from 0"
        )
    return device


def resolve_devices(devices: str | None) -> list[str]:
    """Return the names of devices that are joined by commas, such as `cuda:0,cuda:1`; None: one, as
    in `resolve_device`."""
    found = [
        resolve_device(device)
        for device in ([None] if devices is None else [name.strip() for name in devices.split(",")])
    ]
    if len({device.partition(":")[0] for device in found}) > 1:
        raise UsageError(
            f"devices {devices}: expected devices of one type, since results of a CPU and of a GPU"
            " differ by rounding"
        )
    return found


@dataclass
class BatchControl:
    """What the models of an evaluation share: how many tokens of a batch fit into memory, and how
    far the current call is."""

    on_note: Callable[[str], None] = lambda line: None
    # by use, such as "generate"; set when memory was too small
    token_limits: dict[str, int] = field(default_factory=dict)
    rows_done: int = 0  # of the current call
    row_count: int = 0

    def halve(self, use: str, row_count: int, row_tokens: int, device: str) -> None:
        """Limit batches of this use to half of one that did not fit, with one note for all;
        ResourceError if it was a single row."""
        if row_count == 1:
            raise ResourceError(
                f"{device}: too little memory for a single row of {row_tokens:,} tokens; use dtype"
                " bfloat16, shorter texts, or a device with more memory"
            )
        if not self.token_limits:
            self.on_note(
                f"{device}: too little memory for a batch of {row_count} rows; batches are halved,"
                " which does not change results"
            )
        self.token_limits[use] = min(
            row_count // 2 * row_tokens, self.token_limits.get(use, row_count * row_tokens)
        )


class _BatchQueue:
    """The batches of one call, which a model and its replicas take in turn, each from a thread of
    its own: rows, longest first."""

    def __init__(
        self,
        use: str,
        rows: Sequence[TokenIds],
        batch: int,
        new_tokens: int,
        max_tokens: int | None,
        control: BatchControl,
    ) -> None:
        self._use, self._rows, self._batch, self._new_tokens, self._max_tokens = (
            use,
            rows,
            batch,
            new_tokens,
            max_tokens,
        )
        self._order, self._is_closed = self._sort(range(len(rows))), False
        self._control, self._lock = control, threading.Lock()
        control.rows_done, control.row_count = 0, len(rows)

    def _count_tokens(self, number: int) -> int:
        return max(len(self._rows[number]), 1) + self._new_tokens

    def take(self) -> list[int]:
        """The numbers of the rows of the next batch; empty if none is left."""
        with self._lock:
            if not self._order:
                return []
            row_tokens = self._count_tokens(self._order[0])
            limits = [
                limit
                for limit in (self._max_tokens, self._control.token_limits.get(self._use))
                if limit is not None
            ]
            numbers = self._order[
                : min([self._batch, *(max(1, limit // row_tokens) for limit in limits)])
            ]
            del self._order[: len(numbers)]
            return numbers

    def end(self, numbers: list[int]) -> None:
        """Count the rows of a batch that was computed."""
        with self._lock:
            self._control.rows_done += len(numbers)

    def put_back(self, numbers: list[int], device: str) -> None:
        """Take a batch back that did not fit into memory, and make later ones smaller;
        ResourceError if it was a single row."""
        with self._lock:
            self._control.halve(self._use, len(numbers), self._count_tokens(numbers[0]), device)
            if not self._is_closed:
                self._order = self._sort([*numbers, *self._order])

    def _sort(self, numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=lambda number: (-len(self._rows[number]), number))

    def close(self) -> None:
        """Forget the rows that are left, and those that are put back later."""
        with self._lock:
            self._is_closed = True
            self._order.clear()


@dataclass(frozen=True, repr=False)
class LanguageModel:
    """A language model and its tokenizer, in evaluation mode. `is_causal` is False for masked
    models (such as BERT). `replicas` is the same model on further devices."""

    model: Any
    tokenizer: Any
    is_causal: bool
    device: str = "cpu"
    control: BatchControl = field(default_factory=BatchControl)
    replicas: tuple[LanguageModel, ...] = ()

    @classmethod
    def load(
        cls,
        checkpoint: str | Path,
        device: str | None = None,
        dtype: str = "float32",
        *,
        control: BatchControl | None = None,
    ) -> LanguageModel:
        """Load the model of a checkpoint folder, its weights in `dtype`. `device` None uses a GPU
        if available; of several, joined by commas (`cuda:0,cuda:1`), each has a copy.

        A LoRA adapter is merged into its base in float32. Raises UsageError if the folder, device
        or dtype does not exist, OutputBroken if files are missing or do not match each other,
        InputRefused if the base model of an adapter is not there.
        """
        torch, transformers = import_torch()
        path = Path(checkpoint)
        if not path.is_dir():
            raise UsageError(
                f"{path}: no such folder; expected a checkpoint in Hugging Face layout"
                " (config.json, model.safetensors)"
            )
        device = ",".join(resolve_devices(device))
        check_dtype(dtype)
        if adapters.is_adapter(path):
            base = cls.load(adapters.find_base_folder(path), "cpu")
            tokenizer = (
                _load_tokenizer(path) if (path / "tokenizer.json").is_file() else base.tokenizer
            )
            merged = adapters.merge_adapter(base.model, path).to(getattr(torch, dtype))
            return cls.from_loaded(merged, tokenizer, device, where=str(path), control=control)
        if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
            raise OutputBroken(
                f"{path}: no config.json with *.safetensors; weights in other formats are not read."
                " Save the model again"
            )
        if problem := describe_impossible_layers(path):
            raise OutputBroken(f"{path}: {problem}")
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(path, **local)
            causal = not any("MaskedLM" in name for name in config.architectures or ())
            model_class = (
                transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
            )
            model, loading_info = model_class.from_pretrained(
                path,
                config=config,
                use_safetensors=True,
                dtype=getattr(torch, dtype),
                output_loading_info=True,
                **local,
            )
        except Exception as error:  # transformers and safetensors raise many types
            raise OutputBroken(f"{path}: {describe_unreadable_model(path, error)}") from None
        if loading_info["missing_keys"]:
            raise OutputBroken(
                f"{path}: lacks {len(loading_info['missing_keys'])} weights of a"
                f" {type(model).__name__}; its files are of another class"
            )
        if not has_finite_weights(model):
            raise OutputBroken(
                f"{path}: has weights that are not finite numbers; the training diverged, or the"
                " file is damaged"
            )
        return cls.from_loaded(
            model, _load_tokenizer(path), device, where=str(path), control=control
        )

    @classmethod
    def from_loaded(
        cls,
        model: Any,
        tokenizer: Any,
        device: str = "cpu",
        where: str = "model",
        control: BatchControl | None = None,
    ) -> LanguageModel:
        """Wrap a loaded model, frozen and in evaluation mode; OutputBroken if its tokenizer has
        tokens that the model does not embed. `device` as in `load`."""
        embedding_count = model.get_input_embeddings().num_embeddings
        if len(tokenizer) > embedding_count:
            raise OutputBroken(
                f"{where}: the tokenizer has {len(tokenizer)} tokens and the model"
                f" {embedding_count}; they do not belong together"
            )
        causal = not type(model).__name__.endswith("MaskedLM")
        control = control or BatchControl()
        device, *more_devices = device.split(",")
        model = model.eval().requires_grad_(False)
        # without settings of the checkpoint, such as a temperature or a repetition penalty
        if causal:
            model.generation_config = type(model.generation_config)()
        replicas = tuple(
            cls(copy.deepcopy(model).to(other), tokenizer, causal, other, control)
            for other in more_devices
        )
        return cls(model.to(device), tokenizer, causal, device, control, replicas)

    def load_another(self, checkpoint: str | Path) -> LanguageModel:
        """Load another checkpoint on the same devices, in the same dtype."""
        devices = ",".join(model.device for model in (self, *self.replicas))
        return type(self).load(
            checkpoint, devices, str(self.model.dtype).removeprefix("torch."), control=self.control
        )

    @property
    def context_length(self) -> int:
        """Maximum number of tokens of an input."""
        config = self.model.config
        longest = getattr(config, "max_position_embeddings", None)
        if longest is None:
            return 1 << 30
        # RoBERTa counts positions from pad_token_id + 1
        return int(longest) - (
            config.pad_token_id + 1
            if config.model_type in ("roberta", "camembert", "xlm-roberta")
            else 0
        )

    @property
    def eos_id(self) -> int | None:
        """Id of the end-of-text token; None if the tokenizer has none."""
        token = self.tokenizer.eos_token_id
        return None if token is None else int(token)

    @property
    def leading_ids(self) -> list[int]:
        """Ids of the tokens that the tokenizer itself adds before every text, as in training;
        usually none."""
        text_ids, full_ids = (
            self.encode(["a"])[0],
            list(self.tokenizer("a", verbose=False)["input_ids"]),
        )
        return next(
            (
                full_ids[:at]
                for at in range(len(full_ids))
                if full_ids[at : at + len(text_ids)] == text_ids
            ),
            [],
        )

    @property
    def begin_ids(self) -> list[int]:
        """Ids of the tokens before the first one of a text, so that it has a loss, too:
        `leading_ids`, or where there are none the end-of-text token, which ends the text before it
        in training. Empty for a model without either."""
        return self.leading_ids or ([] if self.eos_id is None else [self.eos_id])

    @property
    def pad_id(self) -> int:
        """Id of the padding token; always masked."""
        for token in (self.tokenizer.pad_token_id, self.eos_id):
            if token is not None:
                return int(token)
        return 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts, without special tokens."""
        if not texts:
            return []
        return [
            list(row)
            for row in self.tokenizer(list(texts), add_special_tokens=False, verbose=False)[
                "input_ids"
            ]
        ]

    def with_leading_ids(self, rows: Sequence[TokenIds]) -> list[list[int]]:
        """Return the rows with the tokens that the tokenizer adds before every text, as in
        training."""
        leading_ids = self.leading_ids
        return [[*leading_ids, *row] for row in rows]

    def decode(self, rows: Sequence[TokenIds]) -> list[str]:
        """Return the texts of token ids, without special tokens and without cleaning up spaces."""
        if not rows:
            return []
        texts = self.tokenizer.batch_decode(
            [list(row) for row in rows],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        return [str(text) for text in texts]

    def generate(
        self,
        prompts: Sequence[TokenIds],
        *,
        new_tokens: int,
        batch: int = 64,
        mode: str = "greedy",
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        beams: int = 5,
        seed: int = 0,
        stop_at_eos: bool = True,
    ) -> list[list[int]]:
        """Return the continuation of each prompt, without the prompt: at most `new_tokens` tokens,
        without the end-of-text token.

        A prompt is read as it is: the tokens that the tokenizer adds before a text
        (`with_leading_ids`) have to be in it.

        `sample` draws from the softmax at `temperature`, among the `top_k` most likely tokens and
        the smallest set that reaches `top_p`; the draws of the n-th prompt follow from (`seed`, n).
        `beam` returns the best of `beams`, by mean log-probability, with the search of
        transformers. An empty prompt is replaced by the end-of-text token.
        """
        self._check_generation(prompts, new_tokens, batch, mode, temperature, top_k, top_p)
        empty_prompt = [self.eos_id if self.eos_id is not None else self.pad_id]
        rows = [list(prompt) or empty_prompt for prompt in prompts]
        eos = self.eos_id if stop_at_eos else None
        found: list[list[int]] = [[] for _ in rows]
        if not new_tokens:
            return found

        def continue_batch(model: LanguageModel, numbers: list[int]) -> None:
            sampler = (
                _make_sampler(numbers, new_tokens, temperature, top_k, top_p, seed)
                if mode == "sample"
                else None
            )
            batch_rows = [rows[number] for number in numbers]
            continuations = model._generate_batch(
                batch_rows, new_tokens, eos, beams if mode == "beam" else 1, sampler
            )
            for number, row in zip(numbers, continuations, strict=True):
                found[number] = row

        self._compute_in_batches(
            "beam" if mode == "beam" else "generate",
            rows,
            batch,
            continue_batch,
            new_tokens=new_tokens,
        )
        return found

    def _compute_in_batches(
        self,
        use: str,
        rows: Sequence[TokenIds],
        batch: int,
        compute: Callable[[LanguageModel, list[int]], None],
        *,
        new_tokens: int = 0,
        max_tokens: int | None = None,
    ) -> None:
        """Call `compute` with the model or a replica and the numbers of rows, longest first, in
        batches of at most `batch` rows and (padded) `max_tokens` tokens.

        A batch that does not fit into memory is computed again in halves, and later ones of this
        `use` are smaller from the start.
        """
        models = (self, *self.replicas)
        queue = _BatchQueue(
            use,
            rows,
            min(batch, -(-len(rows) // len(models))),
            new_tokens,
            max_tokens,
            self.control,
        )

        def compute_batches(model: LanguageModel) -> None:
            try:
                while numbers := queue.take():
                    if model._has_memory_for(compute, numbers):
                        queue.end(numbers)
                    else:
                        queue.put_back(numbers, model.device)
            except BaseException:
                queue.close()  # the others begin no further batch
                raise

        if not self.replicas:
            compute_batches(self)
            return
        with ThreadPoolExecutor(len(models)) as pool:
            try:
                for future in [pool.submit(compute_batches, model) for model in models]:
                    future.result()
            finally:
                queue.close()  # a signal arrives in this thread

    def _has_memory_for(
        self, compute: Callable[[LanguageModel, list[int]], None], numbers: list[int]
    ) -> bool:
        """Compute one batch; False if there was too little memory for it."""
        try:
            compute(self, numbers)
            return True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # only here, where nothing refers to the tensors of the batch any more
        if self.device != "cpu":
            import torch

            with torch.cuda.device(self.device):
                torch.cuda.empty_cache()
        return False

    def _check_generation(
        self,
        prompts: Sequence[TokenIds],
        new_tokens: int,
        batch: int,
        mode: str,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
    ) -> None:
        """Raise UsageError for settings or prompts that cannot be used for generation."""
        if not self.is_causal:
            raise UsageError("a masked model cannot continue prompts; use a causal one")
        if mode not in DECODING_MODES:
            raise UsageError(f"mode {mode}: {suggest_names(mode, DECODING_MODES)}")
        if (
            new_tokens < 0
            or batch < 1
            or not temperature > 0
            or (top_k is not None and top_k < 1)
            or not 0 < (top_p or 1.0) <= 1
        ):
            raise UsageError(
                "generation needs new_tokens >= 0, batch >= 1, temperature > 0, top_k >= 1 and 0 <"
                " top_p <= 1"
            )
        longest = max(map(len, prompts), default=0)
        if max(longest, 1) + new_tokens > self.context_length:
            raise UsageError(
                f"a prompt of {longest} tokens and {new_tokens} new ones exceed the model's context"
                f" of {self.context_length}; shorten one"
            )

    def _generate_batch(
        self,
        rows: list[list[int]],
        new_tokens: int,
        eos: int | None,
        beams: int,
        choose_token: Callable[..., Any] | None,
    ) -> list[list[int]]:
        """Continue one batch by `generate` of transformers; `choose_token(logits, rows, step)`
        chooses from the logits [rows, vocabulary], None: the most likely token, or a beam search. A
        prompt that several rows share is read once, but for its last token."""
        import torch

        ids, mask = self._pad_left(rows)
        width, settings = ids.shape[1], dict[str, Any]()

        def keep_chosen(sequences: Any, logits: Any) -> Any:
            assert choose_token is not None
            chosen = choose_token(
                logits, torch.arange(len(logits), device=logits.device), sequences.shape[1] - width
            )
            return torch.full_like(logits, -torch.inf).scatter(1, chosen[:, None], 0.0)

        if choose_token is not None:
            settings["logits_processor"] = [keep_chosen]
        row_by_prompt: dict[tuple[int, ...], int] = {}
        first_rows = [
            row_by_prompt.setdefault(tuple(row), number) for number, row in enumerate(rows)
        ]
        with torch.inference_mode():
            if len(row_by_prompt) < len(rows) and width > 1 and beams == 1:
                distinct = sorted(row_by_prompt.values())
                shown = mask[distinct, :-1]
                cache = self.model(
                    input_ids=ids[distinct, :-1],
                    attention_mask=shown,
                    position_ids=(shown.cumsum(1) - 1).clamp(min=0),
                    use_cache=True,
                    logits_to_keep=1,
                ).past_key_values
                cache.batch_select_indices(
                    torch.tensor([distinct.index(row) for row in first_rows], device=self.device)
                )
                settings["past_key_values"] = cache
            output = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=new_tokens,
                num_beams=beams,
                do_sample=False,
                eos_token_id=eos,
                pad_token_id=self.pad_id,
                **settings,
            )
        return [row[: row.index(eos)] if eos in row else row for row in output[:, width:].tolist()]

    def _pad_left(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return rows padded on the left, and their attention mask."""
        import torch

        width = max(map(len, rows))
        ids = torch.tensor(
            [[self.pad_id] * (width - len(row)) + row for row in rows], device=self.device
        )
        mask = torch.tensor(
            [[0] * (width - len(row)) + [1] * len(row) for row in rows], device=self.device
        )
        return ids, mask

    def token_losses(self, sequences: Sequence[TokenIds], *, batch: int = 64) -> list[F32]:
        """Return the negative log-likelihood, in nats, of every token but the first of each
        sequence (empty below two tokens).

        A sequence longer than the context is read in windows that overlap by half: every token is
        scored once, with at least half a context before it.
        """
        return self.score_tokens(sequences, batch=batch)[0]

    def score_tokens(
        self, sequences: Sequence[TokenIds], *, batch: int = 64
    ) -> tuple[list[F32], list[Mask]]:
        """Return `token_losses`, and of the same tokens whether each is the most likely one, which
        greedy decoding gives after the true tokens before it."""
        import torch

        if not self.is_causal:
            raise UsageError("a masked model has no loss per token; use a causal one")
        found = [np.zeros(max(len(row) - 1, 0), np.float32) for row in sequences]
        likeliest = [np.zeros(len(row), bool) for row in found]
        windows = list(_overlapping_windows(sequences, self.context_length))
        rows = [list(sequences[number][first:end]) for number, first, end, _ in windows]
        vocab_size = int(self.model.get_input_embeddings().num_embeddings)

        def score_batch(model: LanguageModel, numbers: list[int]) -> None:
            batch_rows = [rows[number] for number in numbers]
            ids, mask = model._pad_right(batch_rows)
            with torch.inference_mode():
                logits = model.model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
                picked = logits.gather(2, ids[:, 1:, None]).squeeze(2)
                losses = (logits.logsumexp(2) - picked).cpu().numpy()
                is_top = (logits.argmax(2) == ids[:, 1:]).cpu().numpy()
            for number, row, loss, top in zip(numbers, batch_rows, losses, is_top, strict=True):
                sequence_no, first, _, first_scored = windows[number]
                written = slice(first + first_scored - 1, first + len(row) - 1)
                read = slice(first_scored - 1, len(row) - 1)
                found[sequence_no][written], likeliest[sequence_no][written] = loss[read], top[read]

        self._compute_in_batches(
            "score", rows, batch, score_batch, max_tokens=_MAX_LOGITS // vocab_size
        )
        return found, likeliest

    def fill_masks(
        self,
        sequences: Sequence[TokenIds],
        masked_positions: Sequence[Sequence[int]],
        *,
        batch: int = 64,
    ) -> list[list[int]]:
        """Return the most likely token at each of `masked_positions` of each sequence, all
        positions of a sequence masked together.

        The sequences include special tokens, and the original tokens at the masked positions, which
        the model does not see. The head is computed at these positions only.
        """
        import torch

        if self.is_causal:
            raise UsageError("a causal model cannot fill masks; use a masked one")
        if self.tokenizer.mask_token_id is None:
            raise OutputBroken(
                "the tokenizer of a masked model has no mask token; it does not belong to this"
                " model"
            )
        assert len(sequences) == len(masked_positions), "one list of positions per sequence"
        rows = [list(row) for row in sequences]
        if max(map(len, rows), default=0) > self.context_length:
            raise UsageError(
                f"a sequence is longer than the model's {self.context_length} tokens; shorten it"
                " first"
            )
        for row, positions in zip(rows, masked_positions, strict=True):
            for position in positions:
                row[position] = self.tokenizer.mask_token_id
        found: list[list[int]] = [[] for _ in rows]
        to_fill = [number for number, positions in enumerate(masked_positions) if positions]

        def fill_batch(model: LanguageModel, batch_numbers: list[int]) -> None:
            head = getattr(model.model, "cls", None) or getattr(model.model, "lm_head", None)
            numbers = [to_fill[one] for one in batch_numbers]
            ids, mask = model._pad_right([rows[number] for number in numbers])
            batch_row = torch.tensor(
                [at for at, number in enumerate(numbers) for _ in masked_positions[number]],
                device=model.device,
            )
            column = torch.tensor(
                [position for number in numbers for position in masked_positions[number]],
                device=model.device,
            )
            with torch.inference_mode():
                if head is None:
                    chosen = (
                        model.model(input_ids=ids, attention_mask=mask)
                        .logits[batch_row, column]
                        .argmax(1)
                    )
                else:
                    chosen = head(
                        model.model.base_model(
                            input_ids=ids, attention_mask=mask
                        ).last_hidden_state[batch_row, column]
                    ).argmax(1)
            chosen_ids = iter(chosen.tolist())
            for number in numbers:
                found[number] = [next(chosen_ids) for _ in masked_positions[number]]

        self._compute_in_batches(
            "fill",
            [rows[number] for number in to_fill],
            batch,
            fill_batch,
            max_tokens=_MAX_LOGITS // 1024,
        )
        return found

    def _pad_right(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Return rows padded on the right, and their attention mask."""
        import torch

        width = max(map(len, rows))
        ids = torch.tensor(
            [row + [self.pad_id] * (width - len(row)) for row in rows], device=self.device
        )
        mask = torch.tensor(
            [[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.device
        )
        return ids, mask


def import_torch() -> tuple[Any, Any]:
    """Import torch and transformers, with progress bars and warnings off; MissingExtra if they are
    not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "learn") from None
    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    return torch, transformers


def _load_tokenizer(path: Path) -> Any:
    import transformers

    if not (path / "tokenizer.json").is_file():
        raise OutputBroken(
            f"{path}: no tokenizer.json; expected a checkpoint with its tokenizer in Hugging Face"
            " layout"
        )
    try:
        return transformers.AutoTokenizer.from_pretrained(
            path, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # transformers and tokenizers raise many types
        raise OutputBroken(
            f"{path}: cannot be loaded as a tokenizer ({type(error).__name__})"
        ) from None


def _overlapping_windows(
    sequences: Sequence[TokenIds], context_length: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield windows over sequences: sequence number, start, end (half-open), and the position in
    the window where scoring starts."""
    for number, row in enumerate(sequences):
        if len(row) < 2:
            continue
        first, scored = 0, 1
        while True:
            end = min(first + context_length, len(row))
            yield number, first, end, scored - first
            if end == len(row):
                break
            scored, first = end, end - max(context_length // 2, 1)


def _make_sampler(
    prompt_numbers: Sequence[int],
    new_tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
) -> Callable[..., Any]:
    """Return a sampler that inverts the cumulative distribution: one uniform number per prompt and
    step, independent of the batch."""
    import torch

    uniform = np.stack(
        [
            np.random.Generator(np.random.Philox(key=[seed, number])).random(new_tokens)
            for number in prompt_numbers
        ]
    )
    draws = torch.from_numpy(uniform)

    def choose_token(logits: Any, rows: Any, step: int) -> Any:
        drawn = draws.to(rows.device)[rows, step][:, None]
        if top_k is None and top_p is None:
            return _invert_distribution((logits.double() / temperature).softmax(1).cumsum(1), drawn)
        # only the most likely tokens are sorted: the top k, or so many that they certainly reach
        # top p
        log_total = (
            (logits.double() / temperature).logsumexp(1, keepdim=True) if top_k is None else 0.0
        )
        count = min(top_k or _NUCLEUS_CANDIDATES, logits.shape[1])
        while True:
            likeliest, tokens = logits.topk(count)
            scaled = likeliest.double() / temperature
            probabilities = scaled.softmax(1) if top_k is not None else (scaled - log_total).exp()
            if (
                top_k is not None
                or count == logits.shape[1]
                or bool((probabilities.sum(1) >= (top_p or 1.0)).all())
            ):
                break
            count = min(8 * count, logits.shape[1])
        if top_p is not None:
            before = probabilities.cumsum(1) - probabilities
            probabilities[before >= top_p] = 0  # the first token stays
        return tokens.gather(
            1, _invert_distribution(probabilities.cumsum(1), drawn)[:, None]
        ).squeeze(1)

    return choose_token


def _invert_distribution(cumulative: Any, uniform: Any) -> Any:
    """Return for each row the first column whose cumulative weight exceeds `uniform` [rows, 1], a
    share of the row's total weight."""
    import torch

    columns = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    # the first column with the whole weight: those behind it weigh nothing
    reached = (cumulative < cumulative[:, -1:]).sum(1, keepdim=True)
    return torch.minimum(columns, reached).squeeze(1)
