"""A checkpoint as the metrics use it: continuations, per-token losses and filled masks, in batches that do not change the result.

Models and tokenizers come from local folders in Hugging Face layout, weights as safetensors only, and no code of theirs is run. What is
given for a prompt hangs on that prompt, the settings and the seed: not on the batch it came in, nor on its place in it. Rows are sorted by
length, padded on the left with a mask and positions of their own, and leave the batch when they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.errors import MissingExtra, OutputBroken, UsageError, nearest

F32 = npt.NDArray[np.float32]
Tokens = Sequence[int]
MODES = ("greedy", "sample", "beam")
ROOMY = 0.75  # rows that have ended leave the batch when no more than this share of it goes on: to leave costs a copy of all that is kept
_LOGITS = 1 << 26  # logits that one forward may make for `token_losses` and `fill`: 256 MB of float32


def usable(device: str | None) -> str:
    """The device by its name, None: a GPU where there is one; UsageError for one that this machine does not have."""
    torch, _ = learn()
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda") and not device.startswith("cuda:"):
        raise UsageError(f"device {device}: {nearest(device, ('cpu', 'cuda'))}")
    if device != "cpu" and not torch.cuda.is_available():
        raise UsageError(f"device {device}: this machine has no GPU that torch can use; take cpu")
    return device


@dataclass(frozen=True, repr=False)
class Model:
    """A language model and its tokenizer, ready to be asked. `causal` is False for masked models (BERT and its kin)."""

    model: Any
    tokenizer: Any
    causal: bool
    device: str = "cpu"

    @classmethod
    def load(cls, checkpoint: str | Path, device: str | None = "cpu") -> Model:
        """The model of a checkpoint folder, in float32; `device` None takes a GPU where there is one.

        UsageError where there is no such folder or device, OutputBroken where its files are missing or do not fit each other.
        """
        torch, transformers = learn()
        path = Path(checkpoint)
        if not path.is_dir():
            raise UsageError(f"{path}: no such folder; expected a checkpoint in Hugging Face layout (config.json, model.safetensors)")
        device = usable(device)
        if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
            raise OutputBroken(f"{path}: no config.json with *.safetensors; weights of other kinds are not read. Save the model anew")
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = transformers.AutoConfig.from_pretrained(path, **local)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, **local)
            causal = not any("MaskedLM" in name for name in config.architectures or ())
            kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM
            model = kind.from_pretrained(path, config=config, use_safetensors=True, dtype=torch.float32, **local)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise OutputBroken(f"{path}: cannot be loaded as a model and its tokenizer ({type(error).__name__})") from None
        return cls.of(model, tokenizer, device, where=str(path))

    @classmethod
    def of(cls, model: Any, tokenizer: Any, device: str = "cpu", where: str = "model") -> Model:
        """A model that is in memory already, in evaluation mode; OutputBroken where its tokenizer knows tokens that it does not."""
        words = model.get_input_embeddings().num_embeddings
        if len(tokenizer) > words:
            raise OutputBroken(f"{where}: the tokenizer has {len(tokenizer)} tokens and the model {words}; they are not of one training")
        causal = not type(model).__name__.endswith("MaskedLM")
        return cls(model.eval().requires_grad_(False).to(device), tokenizer, causal, device)

    @property
    def context(self) -> int:
        """The most tokens that the model can take at once."""
        config = self.model.config
        longest = getattr(config, "max_position_embeddings", None)
        if longest is None:
            return 1 << 30
        # RoBERTa counts positions from the padding token's id on
        return int(longest) - (config.pad_token_id + 1 if config.model_type in ("roberta", "camembert", "xlm-roberta") else 0)

    @property
    def eos(self) -> int | None:
        """The token that ends a text; None where the tokenizer has none."""
        token = self.tokenizer.eos_token_id
        return None if token is None else int(token)

    @property
    def lead(self) -> list[int]:
        """The tokens that the tokenizer puts before every text of its own accord, as training does; mostly none."""
        bare, full = self.encode(["a"])[0], list(self.tokenizer("a", verbose=False)["input_ids"])
        return next((full[:at] for at in range(len(full)) if full[at : at + len(bare)] == bare), [])

    @property
    def pad(self) -> int:
        """The token that fills rows up. It is masked wherever it stands."""
        for token in (self.tokenizer.pad_token_id, self.eos):
            if token is not None:
                return int(token)
        return 0

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts, without special ones."""
        if not texts:
            return []
        return [list(row) for row in self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]]

    def decode(self, rows: Sequence[Tokens]) -> list[str]:
        """The texts of tokens, as they are written: nothing is tidied up, special tokens are left out."""
        if not rows:
            return []
        told = self.tokenizer.batch_decode([list(row) for row in rows], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return [str(text) for text in told]

    def generate(
        self,
        prompts: Sequence[Tokens],
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
        """The continuation of each prompt, without the prompt: at most `new_tokens`, without the token that ends it.

        `sample` draws from the softmax at `temperature`, among the `top_k` most likely tokens and the smallest set that reaches `top_p`;
        the draws of the n-th prompt follow from (`seed`, n). `beam` gives the best of `beams`, by the mean log-probability of
        transformers' own search. An empty prompt stands for the end-of-text token.
        """
        self._asked(prompts, new_tokens, batch, mode, temperature, top_k, top_p)
        start = [self.eos if self.eos is not None else self.pad]
        rows = [list(prompt) or start for prompt in prompts]
        eos = self.eos if stop_at_eos else None
        found: list[list[int]] = [[] for _ in rows]
        if not new_tokens:
            return found
        for numbers in _by_length(rows, batch):
            some = [rows[number] for number in numbers]
            if mode == "beam":
                made = self._beam(some, new_tokens, beams, eos)
            else:
                pick = _most_likely if mode == "greedy" else _sampler(numbers, new_tokens, temperature, top_k, top_p, seed)
                made = self._continue(some, new_tokens, eos, pick)
            for number, row in zip(numbers, made, strict=True):
                found[number] = row
        return found

    def _asked(
        self,
        prompts: Sequence[Tokens],
        new_tokens: int,
        batch: int,
        mode: str,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
    ) -> None:
        """Refuse what cannot be generated."""
        if not self.causal:
            raise UsageError("a masked model continues no prompts; take a causal one, or fill its masks")
        if mode not in MODES:
            raise UsageError(f"mode {mode}: {nearest(mode, MODES)}")
        if new_tokens < 0 or batch < 1 or not temperature > 0 or (top_k is not None and top_k < 1) or not 0 < (top_p or 1.0) <= 1:
            raise UsageError("generation takes new_tokens >= 0, batch >= 1, temperature > 0, top_k >= 1 and 0 < top_p <= 1")
        longest = max(map(len, prompts), default=0)
        if max(longest, 1) + new_tokens > self.context:
            raise UsageError(
                f"a prompt of {longest} tokens and {new_tokens} new ones are more than the model's {self.context}; cut one of them"
            )

    def _continue(self, rows: list[list[int]], new_tokens: int, eos: int | None, pick: Callable[..., Any]) -> list[list[int]]:
        """Continuations of one batch, token by token; `pick(logits, rows, step)` chooses among the logits [rows, vocabulary]."""
        import torch

        ids, mask = self._left(rows, new_tokens)
        width = ids.shape[1]
        cache = _cache(self.model.config, width + new_tokens)
        positions = (mask[:, :width].cumsum(1) - 1).clamp(min=0)
        there = torch.arange(len(rows), device=self.device)  # the rows that are still in the batch
        alive = torch.ones_like(there, dtype=torch.bool)  # of these, the ones that have not ended
        kept = torch.full((len(rows), new_tokens), -1, dtype=torch.long, device=self.device)
        with torch.inference_mode():
            for step in range(new_tokens):
                told = self.model(
                    input_ids=ids,
                    attention_mask=mask[:, : width + step],
                    position_ids=positions,
                    past_key_values=cache,
                    use_cache=True,
                    logits_to_keep=1,
                )
                chosen = pick(told.logits[:, -1].float(), there, step)
                if eos is None:
                    kept[there, step] = chosen
                else:
                    alive &= chosen != eos
                    kept[there[alive], step] = chosen[alive]
                    going = int(alive.sum())
                    if not going:
                        break
                    if going <= ROOMY * len(there):
                        left = alive.nonzero().squeeze(1)
                        cache.batch_select_indices(left)
                        mask, there, alive, chosen, positions = mask[left], there[left], alive[left], chosen[left], positions[left]
                ids, positions = chosen[:, None], positions[:, -1:] + 1
        return [[token for token in row if token >= 0] for row in kept.tolist()]

    def _left(self, rows: list[list[int]], more: int = 0) -> tuple[Any, Any]:
        """Rows padded on the left, and their mask with ones for `more` tokens to come."""
        import torch

        width = max(map(len, rows))
        ids = torch.tensor([[self.pad] * (width - len(row)) + row for row in rows], device=self.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * (len(row) + more) for row in rows], device=self.device)
        return ids, mask

    def _beam(self, rows: list[list[int]], new_tokens: int, beams: int, eos: int | None) -> list[list[int]]:
        """Continuations of one batch by the beam search of transformers."""
        import torch

        ids, mask = self._left(rows)
        with torch.inference_mode():
            told = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=new_tokens,
                min_new_tokens=None if eos is not None else new_tokens,
                num_beams=beams,
                do_sample=False,
                eos_token_id=eos,
                pad_token_id=self.pad,
            )
        made = told[:, ids.shape[1] :].tolist()
        return [row[: row.index(eos)] if eos in row else row for row in made]

    def token_losses(self, sequences: Sequence[Tokens], *, batch: int = 64) -> list[F32]:
        """The negative log-likelihood, in nats, of every token but the first of each sequence (one shorter; empty below two tokens).

        A sequence longer than the context is read in windows that overlap by half, so that every token is scored once and has at least
        half a context before it.
        """
        import torch

        if not self.causal:
            raise UsageError("a masked model gives no loss token by token; take a causal one")
        found = [np.zeros(max(len(row) - 1, 0), np.float32) for row in sequences]
        windows = list(_windows(sequences, self.context))
        rows = [list(sequences[number][first:stop]) for number, first, stop, _ in windows]
        words = int(self.model.get_input_embeddings().num_embeddings)
        for numbers in _by_length(rows, batch, _LOGITS // words):
            some = [rows[number] for number in numbers]
            ids, mask = self._right(some)
            with torch.inference_mode():
                logits = self.model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
                picked = logits.gather(2, ids[:, 1:, None]).squeeze(2)
                losses = (logits.logsumexp(2) - picked).cpu().numpy()
            for number, row, loss in zip(numbers, some, losses, strict=True):
                which, first, _, fresh = windows[number]
                found[which][first + fresh - 1 : first + len(row) - 1] = loss[fresh - 1 : len(row) - 1]
        return found

    def fill(self, sequences: Sequence[Tokens], masked: Sequence[Sequence[int]], *, batch: int = 64) -> list[list[int]]:
        """The most likely token at each of the `masked` places of each sequence, all of a sequence's places masked at once.

        The sequences hold their special tokens and the original ones at the masked places; what stands there is not seen. The head
        is computed at these places only.
        """
        import torch

        if self.causal:
            raise UsageError("a causal model fills no masks; take a masked one")
        if self.tokenizer.mask_token_id is None:
            raise OutputBroken("the tokenizer of a masked model has no mask token; it is not of this model's training")
        assert len(sequences) == len(masked), "one list of places a sequence"
        rows = [list(row) for row in sequences]
        if max(map(len, rows), default=0) > self.context:
            raise UsageError(f"a sequence is longer than the model's {self.context} tokens; cut it before it is filled")
        for row, places in zip(rows, masked, strict=True):
            for place in places:
                row[place] = self.tokenizer.mask_token_id
        found: list[list[int]] = [[] for _ in rows]
        asked = [number for number, places in enumerate(masked) if places]
        head = getattr(self.model, "cls", None) or getattr(self.model, "lm_head", None)
        for some in _by_length([rows[number] for number in asked], batch, _LOGITS // 1024):
            numbers = [asked[one] for one in some]
            ids, mask = self._right([rows[number] for number in numbers])
            line = torch.tensor([at for at, number in enumerate(numbers) for _ in masked[number]], device=self.device)
            column = torch.tensor([place for number in numbers for place in masked[number]], device=self.device)
            with torch.inference_mode():
                if head is None:
                    chosen = self.model(input_ids=ids, attention_mask=mask).logits[line, column].argmax(1)
                else:
                    chosen = head(self.model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state[line, column]).argmax(1)
            told = iter(chosen.tolist())
            for number in numbers:
                found[number] = [next(told) for _ in masked[number]]
        return found

    def _right(self, rows: list[list[int]]) -> tuple[Any, Any]:
        """Rows padded on the right, and their mask."""
        import torch

        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.device)
        return ids, mask


def learn() -> tuple[Any, Any]:
    """torch and transformers, quiet; MissingExtra where they are not installed."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra(error.name or "torch", "learn") from None
    voice: Any = transformers.utils.logging
    voice.disable_progress_bar()
    voice.set_verbosity_error()
    return torch, transformers


def _cache(config: Any, tokens: int) -> Any:
    """An empty cache of keys and values with room for so many tokens: they are written in place, where transformers' own cache copies all
    of them for each new token. Layers of other kinds (sliding windows) stay theirs."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class Room(DynamicLayer):  # type: ignore[no-untyped-call]
        """A layer whose `keys` and `values` are the filled parts of two larger arrays."""

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            first = self.get_seq_length()
            stop = first + key_states.shape[-2]
            if not first:
                self.lazy_initialization(key_states, value_states)
                self.rooms = [told.new_empty((*told.shape[:-2], max(tokens, stop), told.shape[-1])) for told in (key_states, value_states)]
            for room, told in zip(self.rooms, (key_states, value_states), strict=True):
                room[..., first:stop, :] = told
            self.keys, self.values = (room[..., :stop, :] for room in self.rooms)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            if stop := self.get_seq_length():
                self.rooms = [room[indices] for room in self.rooms]
                self.keys, self.values = (room[..., :stop, :] for room in self.rooms)

    cache = DynamicCache(config=config)
    cache.layers = [Room() if type(layer) is DynamicLayer else layer for layer in cache.layers]  # type: ignore[no-untyped-call]
    return cache


def _by_length(rows: Sequence[Tokens], batch: int, tokens: int | None = None) -> Iterator[list[int]]:
    """The numbers of rows, longest first, in batches of at most `batch` rows and (with padding) `tokens` tokens."""
    order = sorted(range(len(rows)), key=lambda number: (-len(rows[number]), number))
    while order:
        size = batch if tokens is None else max(1, min(batch, tokens // max(len(rows[order[0]]), 1)))
        yield order[:size]
        order = order[size:]


def _windows(sequences: Sequence[Tokens], context: int) -> Iterator[tuple[int, int, int, int]]:
    """Windows over sequences: the sequence, first and last token, and the place in the window from which tokens are scored."""
    for number, row in enumerate(sequences):
        if len(row) < 2:
            continue
        first, scored = 0, 1
        while True:
            stop = min(first + context, len(row))
            yield number, first, stop, scored - first
            if stop == len(row):
                break
            scored, first = stop, stop - max(context // 2, 1)


def _most_likely(logits: Any, rows: Any, step: int) -> Any:
    return logits.argmax(1)


def _sampler(
    numbers: Sequence[int], new_tokens: int, temperature: float, top_k: int | None, top_p: float | None, seed: int
) -> Callable[..., Any]:
    """Draws by inverting the cumulative distribution: one uniform number for each prompt and step, whatever the batch."""
    import torch

    uniform = np.stack([np.random.Generator(np.random.Philox(key=[seed, number])).random(new_tokens) for number in numbers])
    draws = torch.from_numpy(uniform)

    def pick(logits: Any, rows: Any, step: int) -> Any:
        likely, order = torch.sort((logits.double() / temperature).softmax(1), dim=1, descending=True, stable=True)
        if top_k is not None:
            likely[:, top_k:] = 0
        if top_p is not None:
            before = likely.cumsum(1) - likely
            likely[before >= top_p * likely.sum(1, keepdim=True)] = 0
        reached = likely.cumsum(1)
        at = draws.to(rows.device)[rows, step][:, None] * reached[:, -1:]
        place = torch.searchsorted(reached, at, right=True).clamp(max=logits.shape[1] - 1)
        return order.gather(1, torch.minimum(place, (likely > 0).sum(1, keepdim=True) - 1)).squeeze(1)

    return pick
