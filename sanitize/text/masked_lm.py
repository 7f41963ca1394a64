"""Computes logits of a masked language model at masked words, for many texts at once; the model is
a local folder.

The input of a row is a pair: the tokens around a word, and the same tokens with the word replaced
by one mask. Every row uses the original text, so rows depend only on their own text and can be
computed in any order. Rows of one length are batched together, in one fixed shape without padding:
the result of a row then does not depend on its neighbours (on a CPU; a test checks it). The output
head of the model, which costs as much as all layers where the vocabulary is large, is computed at
the mask only.

torch and transformers are imported when a model is opened; no code of the model folder is run, and
weights are read from safetensors only.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sanitize.array_types import F32, I64
from sanitize.core.exponential_mechanism import BOUNDS_FILE, ClipBounds
from sanitize.errors import MissingExtra, PlanError
from sanitize.storage.model_folders import describe_impossible_layers

_HEAD_ATTRIBUTES = ("cls", "lm_head")  # models of the BERT family; of the RoBERTa family
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, repr=False)
class MaskedInput:
    """One word to mask: the token ids before it, its own, and those after it."""

    before: Sequence[int]
    word: Sequence[int]
    after: Sequence[int]

    def __len__(self) -> int:
        return 2 * (len(self.before) + len(self.after)) + len(self.word) + 1


class EncodedPair(NamedTuple):
    """Token ids and token types of a text and of the same text with a mask, and the position of the
    mask."""

    ids: list[int]
    types: list[int]
    mask_position: int


def hash_model_folder(folder: Path) -> str:
    """Returns the sha256 over names and bytes of all files of a model folder that affect its
    results (json, safetensors, txt, model)."""
    if not folder.is_dir():
        raise PlanError(
            f"model = {str(folder)!r}: there is no such folder on this machine; expected the local"
            " path of a masked language model"
        )
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".txt", ".model"):
            with path.open("rb") as file:
                total.update(
                    f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
                )
    return total.hexdigest()


@functools.lru_cache(maxsize=2)
def load_masked_model(folder: str, sha256: str, device: str) -> MaskedModel:
    """Returns the model of a folder whose files have this sha256; opened once per process.
    PlanError if the sha256 differs."""
    if hash_model_folder(Path(folder)) != sha256:
        raise PlanError(
            f"{folder}: the model is not the one that the plan was made with (sha256); use a folder"
            " that no other program writes to"
        )
    return MaskedModel(Path(folder), device)


class MaskedModel:
    """A masked language model with its tokenizer. `candidate_ids` are the token ids that may be
    drawn in place of a word, and `candidate_words` their texts; both depend on the vocabulary only.
    A WordPiece vocabulary (BERT) gives whole words; a byte-level one (RoBERTa) also pieces of
    words."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        """Opens a model folder. Raises MissingExtra without torch or transformers, PlanError if it
        has no masked language model."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(str(error.name), "learn") from None
        if device != "cpu" and not torch.cuda.is_available():
            raise PlanError(
                f"device = {device!r}: there is no such device on this machine; use cpu"
            )
        self.torch, self.folder, self.device = torch, folder, device
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        if problem := describe_impossible_layers(folder):
            raise PlanError(f"{folder}: {problem}")
        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            config: Any = transformers.AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError) as error:
            raise PlanError(
                f"{folder}: model or tokenizer cannot be opened ({type(error).__name__});"
                f" {_EXPECTED_MODEL}"
            ) from None
        if self.tokenizer.mask_token_id is None or not self.tokenizer.is_fast:
            raise PlanError(
                f"{folder}: the tokenizer has no mask token, or is not a fast tokenizer;"
                f" {_EXPECTED_MODEL}"
            )
        try:
            model: Any = transformers.AutoModelForMaskedLM.from_pretrained(
                folder,
                config=config,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
            )
        except (OSError, ValueError, KeyError) as error:
            raise PlanError(
                f"{folder}: cannot be opened as a masked language model ({type(error).__name__});"
                f" {_EXPECTED_MODEL}"
            ) from None
        self.model = model.to(device).eval()
        heads = [name for name in _HEAD_ATTRIBUTES if hasattr(model, name)]
        if not heads:
            raise PlanError(
                f"{folder}: the model type {config.model_type} is not supported; expected BERT or"
                " RoBERTa (head at one position)"
            )
        self.output_head = getattr(self.model, heads[0])
        self.mask_token_id = int(self.tokenizer.mask_token_id)
        self.special_tokens, self.token_types = self._read_pair_template()
        # special tokens of a pair
        self.special_token_count = sum(len(ids) for ids, _ in self.special_tokens)
        learned = int(config.max_position_embeddings) - (
            int(config.pad_token_id or 0) + 1 if heads[0] == "lm_head" else 0
        )
        self.max_tokens = min(learned, int(self.tokenizer.model_max_length))
        self.candidate_ids, self.candidate_words = self._select_candidates(int(config.vocab_size))

    def _read_pair_template(self) -> tuple[list[tuple[list[int], list[int]]], tuple[int, int]]:
        """Returns the special tokens before, between and after a pair with their token types, and
        the token types of the two texts."""
        single_ids = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        pair = self.tokenizer("a", "a", return_special_tokens_mask=True, return_token_type_ids=True)
        ids, types = pair["input_ids"], pair["token_type_ids"]
        text_positions = np.flatnonzero(np.array(pair["special_tokens_mask"]) == 0).tolist()
        if not single_ids or len(text_positions) != 2 * len(single_ids):
            raise PlanError(
                f"{self.folder}: the tokenizer does not encode pairs of texts; {_EXPECTED_MODEL}"
            )
        edges = (
            (0, text_positions[0]),
            (text_positions[len(single_ids) - 1] + 1, text_positions[len(single_ids)]),
            (text_positions[-1] + 1, len(ids)),
        )
        return [(list(ids[low:high]), list(types[low:high])) for low, high in edges], (
            types[text_positions[0]],
            types[text_positions[-1]],
        )

    def _select_candidates(self, vocabulary_size: int) -> tuple[I64, list[str]]:
        special = set(self.tokenizer.all_special_ids)
        ids, words = [], []
        for token_id in range(min(vocabulary_size, len(self.tokenizer))):
            if token_id not in special:
                word = self.tokenizer.decode([token_id]).strip()
                if _WORD.fullmatch(word):
                    ids.append(token_id)
                    words.append(word)
        if len(ids) < 2:
            raise PlanError(
                f"{self.folder}: fewer than two tokens of its vocabulary are words;"
                f" {_EXPECTED_MODEL}"
            )
        return np.array(ids, np.int64), words

    def check_window(self, window_tokens: int) -> None:
        """Raises PlanError if a pair of windows of `window_tokens` tokens is longer than the
        model's maximum input."""
        needed = 2 * window_tokens + 1 + self.special_token_count
        if needed > self.max_tokens:
            raise PlanError(
                f"window = {window_tokens} needs {needed} tokens, and the model accepts at most"
                f" {self.max_tokens}; use a smaller window"
            )

    def build_inputs(
        self, texts: Sequence[str], spans: Iterable[tuple[int, int, int]], window: int
    ) -> list[MaskedInput]:
        """Returns one input for every span (text_no, start, end in code points), with at most
        `window` tokens of its text."""
        tokens = (
            self.tokenizer(
                list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            if texts
            else {}
        )
        tokens_by_text: dict[int, tuple[list[int], I64, I64]] = {}
        rows = []
        for text_no, start, stop in spans:
            if text_no not in tokens_by_text:
                offsets = np.array(tokens["offset_mapping"][text_no], np.int64).reshape(-1, 2)
                tokens_by_text[text_no] = (
                    tokens["input_ids"][text_no],
                    offsets[:, 0].copy(),
                    offsets[:, 1].copy(),
                )
            ids, token_starts, token_ends = tokens_by_text[text_no]
            first_token = int(np.searchsorted(token_ends, start, side="right"))
            end_token = max(first_token, int(np.searchsorted(token_starts, stop, side="left")))
            word = ids[first_token:end_token][:window]
            context_tokens = window - len(word)
            tokens_before = min(
                first_token, max(context_tokens // 2, context_tokens - (len(ids) - end_token))
            )
            rows.append(
                MaskedInput(
                    ids[first_token - tokens_before : first_token],
                    word,
                    ids[end_token : end_token + context_tokens - tokens_before],
                )
            )
        return rows

    def compute_logits(
        self, masked_inputs: Sequence[MaskedInput], batch_size: int
    ) -> Iterator[tuple[I64, F32]]:
        """Yields batches of row numbers and their logits at the mask, of shape (rows, candidates);
        shortest rows first."""
        torch = self.torch
        candidate_ids = torch.as_tensor(self.candidate_ids, device=self.device)
        with torch.inference_mode(), use_one_torch_thread(torch):
            for row_numbers, batch in _iter_batches(
                masked_inputs,
                [len(row) + self.special_token_count for row in masked_inputs],
                batch_size,
            ):
                ids, types, mask_positions = (
                    np.array(column, np.int64)
                    for column in zip(*map(self._encode_pair, batch), strict=True)
                )
                arrays = {
                    "input_ids": ids,
                    **({"token_type_ids": types} if self.has_token_types else {}),
                }
                inputs = {
                    name: torch.as_tensor(value, device=self.device)
                    for name, value in arrays.items()
                }
                hidden = self.model.base_model(**inputs).last_hidden_state
                at_mask = hidden[
                    torch.arange(batch_size, device=self.device),
                    torch.as_tensor(mask_positions, device=self.device),
                ]
                logits = self.output_head(at_mask)[:, candidate_ids]
                yield row_numbers, logits[: len(row_numbers)].float().cpu().numpy()

    def rank_candidates(
        self, masked_inputs: Sequence[MaskedInput], batch_size: int, top_count: int
    ) -> Iterator[tuple[I64, I64, F32]]:
        """Yields batches of row numbers, their `top_count` most likely candidates at the mask, and
        the similarity of each candidate to the mask; both of shape (rows, top_count), narrower
        where there are fewer candidates.

        The input is the masked text alone. Similarity is the cosine between the concatenated states
        of the last four layers at the mask, and at the candidate in its place.
        """
        torch = self.torch
        # a single text is enclosed by the opening and closing tokens of a pair
        (opening, _), _, (closing, _) = self.special_tokens
        candidate_ids = torch.as_tensor(self.candidate_ids, device=self.device)
        top_count = min(top_count, len(self.candidate_ids))

        def states_at(ids: Any, mask_positions: Any) -> tuple[Any, Any]:
            output = self.model.base_model(input_ids=ids, output_hidden_states=True)
            row_index = torch.arange(len(ids), device=self.device)
            return (
                torch.cat(
                    [layer[row_index, mask_positions] for layer in output.hidden_states[-4:]], 1
                ),
                output.last_hidden_state[row_index, mask_positions],
            )

        with torch.inference_mode(), use_one_torch_thread(torch):
            for row_numbers, batch in _iter_batches(
                masked_inputs,
                [len(row.before) + len(row.after) for row in masked_inputs],
                batch_size,
            ):
                masked = [
                    [*opening, *row.before, self.mask_token_id, *row.after, *closing]
                    for row in batch
                ]
                mask_positions = torch.as_tensor(
                    [len(opening) + len(row.before) for row in batch], device=self.device
                )
                ids = torch.as_tensor(masked, device=self.device)
                at_mask, last_state = states_at(ids, mask_positions)
                likely = torch.sort(
                    self.output_head(last_state)[:, candidate_ids],
                    dim=1,
                    descending=True,
                    stable=True,
                ).indices[:, :top_count]
                cosines = []
                for candidate in likely.T:
                    filled = ids.clone()
                    filled[torch.arange(batch_size, device=self.device), mask_positions] = (
                        candidate_ids[candidate]
                    )
                    cosines.append(
                        torch.nn.functional.cosine_similarity(
                            at_mask, states_at(filled, mask_positions)[0], dim=1
                        )
                    )
                similarities = torch.stack(cosines, 1).float().cpu().numpy()
                yield (
                    row_numbers,
                    likely[: len(row_numbers)].cpu().numpy(),
                    similarities[: len(row_numbers)],
                )

    @property
    def has_token_types(self) -> bool:
        """True if the model distinguishes the two texts of a pair by token types."""
        return int(getattr(self.model.config, "type_vocab_size", 0)) > 1

    def _encode_pair(self, masked_input: MaskedInput) -> EncodedPair:
        """Returns the pair of the text and the text with a mask."""
        (
            ((opening, opening_types), (between, between_types), (closing, closing_types)),
            (type_a, type_b),
        ) = (
            self.special_tokens,
            self.token_types,
        )
        original = [*masked_input.before, *masked_input.word, *masked_input.after]
        masked = [*masked_input.before, self.mask_token_id, *masked_input.after]
        ids = [*opening, *original, *between, *masked, *closing]
        types = [
            *opening_types,
            *[type_a] * len(original),
            *between_types,
            *[type_b] * len(masked),
            *closing_types,
        ]
        mask_position = len(opening) + len(original) + len(between) + len(masked_input.before)
        return EncodedPair(ids, types, mask_position)


_EXPECTED_MODEL = (
    "expected a folder of Hugging Face layout with a masked language model (BERT, RoBERTa) in"
    " safetensors and its fast tokenizer"
)


@contextmanager
def use_one_torch_thread(torch: Any) -> Iterator[None]:
    """Limits torch to one thread, so that sums are always computed in the same order; restores the
    previous setting afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_bounds(
    folder: Path | str,
    texts: Sequence[str],
    *,
    source: str,
    trained_on: str = "public",
    window: int = 64,
) -> ClipBounds:
    """Measures the smallest and the largest logit of a model for the words of some texts, and
    writes them into its folder, `dp_mlm.json`.

    The texts must be public, and not from the corpus that is to be rewritten: bounds measured on
    that corpus would invalidate the privacy guarantee. `source` describes in words which texts they
    are.
    """
    folder = Path(folder)
    model = MaskedModel(folder)
    spans = [
        (no, found.start(), found.end())
        for no, text in enumerate(texts)
        for found in _WORD.finditer(text)
    ]
    if not spans or not source.strip():
        raise PlanError(
            "bounds need public texts that contain words, and a source that describes which texts"
            " they are"
        )
    low, high = np.inf, -np.inf
    for _, logits in model.compute_logits(model.build_inputs(texts, spans, window), 64):
        low, high = min(low, float(logits.min())), max(high, float(logits.max()))
    bounds = ClipBounds(low, high, source, trained_on)
    bounds.write(folder)
    return bounds


__all__ = [
    "BOUNDS_FILE",
    "MaskedModel",
    "MaskedInput",
    "measure_bounds",
    "load_masked_model",
    "hash_model_folder",
]


def _iter_batches(
    masked_inputs: Sequence[MaskedInput], token_counts: Sequence[int], batch_size: int
) -> Iterator[tuple[I64, list[MaskedInput]]]:
    """Yields batches of rows with one token count, the smallest first: the row numbers, and always
    `batch_size` inputs, so that every batch of one length has the same shape. A short batch is
    filled with its first row."""
    lengths = np.array(token_counts, np.int64)
    order = np.argsort(lengths, kind="stable")
    edges = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for at in range(low, high, batch_size):
            row_numbers = order[at : min(at + batch_size, high)]
            yield (
                row_numbers,
                [
                    masked_inputs[
                        int(
                            row_numbers[position] if position < len(row_numbers) else row_numbers[0]
                        )
                    ]
                    for position in range(batch_size)
                ],
            )
