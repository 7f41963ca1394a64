"""Logits of a masked language model at one masked word each, from a folder on this machine; many texts at once.

The input of a row is a pair: the tokens around a word as they are, and the same with the word behind one mask. Every row sees the
original text, so that rows hang on nothing but their own text and can be taken in any order. Rows of one length go together, in batches
of one fixed shape without padding: what a row gives does then not hang on its neighbours (on a CPU; held by a test). The head of the
model, which costs as much as all layers where the vocabulary is large, is asked at the mask only.

torch and transformers are invited when a model is opened; no code of the model folder is run, and weights are read from safetensors only.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sanitize.core.exponential_mechanism import CARD, Bounds
from sanitize.errors import MissingExtra, PlanError

I64 = npt.NDArray[np.int64]
_HEADS = ("cls", "lm_head")  # BERT and its kin; RoBERTa and its kin
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, repr=False)
class Row:
    """The tokens around one word, those of the word, and those after it."""

    before: Sequence[int]
    word: Sequence[int]
    after: Sequence[int]

    def __len__(self) -> int:
        return 2 * (len(self.before) + len(self.after)) + len(self.word) + 1


def sha256_of(folder: Path) -> str:
    """The sha256 over all files of a model folder, names and bytes, that decide what it says."""
    if not folder.is_dir():
        raise PlanError(f"model = {str(folder)!r}: no folder on this machine; expected the local path of a masked language model")
    total = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".txt", ".model"):
            with path.open("rb") as file:
                total.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


@functools.lru_cache(maxsize=2)
def opened(folder: str, sha256: str, device: str) -> MaskedModel:
    """The model of a folder whose files have this sha256, opened once a process."""
    if sha256_of(Path(folder)) != sha256:
        raise PlanError(f"{folder}: the model is not the one that the plan was made with; use a folder that nobody writes to")
    return MaskedModel(Path(folder), device)


class MaskedModel:
    """A masked language model with its tokenizer. `candidates` are the token ids that may be drawn, and `words` what each of them says:
    one whole word, known from the vocabulary alone."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        """Raises MissingExtra without torch or transformers, PlanError for a folder that holds no masked language model."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(str(error.name), "learn") from None
        if device != "cpu" and not torch.cuda.is_available():
            raise PlanError(f"device = {device!r}: there is no such device here; use cpu")
        self.torch, self.folder, self.device = torch, folder, device
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            config: Any = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError, KeyError) as error:
            raise PlanError(f"{folder}: no model and tokenizer that can be opened ({type(error).__name__}); {_WANTED}") from None
        if self.tokenizer.mask_token_id is None or not self.tokenizer.is_fast:
            raise PlanError(f"{folder}: the tokenizer has no mask token, or is no fast one; {_WANTED}")
        try:
            model: Any = transformers.AutoModelForMaskedLM.from_pretrained(
                folder, config=config, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
            )
        except (OSError, ValueError, KeyError) as error:
            raise PlanError(f"{folder}: no masked language model ({type(error).__name__}); {_WANTED}") from None
        self.model = model.to(device).eval()
        heads = [name for name in _HEADS if hasattr(model, name)]
        if not heads:
            raise PlanError(f"{folder}: a model of the type {config.model_type}; those with a head at one position are BERT and RoBERTa")
        self.head = getattr(self.model, heads[0])
        self.mask = int(self.tokenizer.mask_token_id)
        self.special, self.kinds = self._template()
        self.around = sum(len(ids) for ids, _ in self.special)  # special tokens of a pair
        learned = int(config.max_position_embeddings) - (int(config.pad_token_id or 0) + 1 if heads[0] == "lm_head" else 0)
        self.longest = min(learned, int(self.tokenizer.model_max_length))
        self.candidates, self.words = self._vocabulary(int(config.vocab_size))

    def _template(self) -> tuple[list[tuple[list[int], list[int]]], tuple[int, int]]:
        """The special tokens before, between and after a pair with their types, and the types of the two texts."""
        one = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        both = self.tokenizer("a", "a", return_special_tokens_mask=True, return_token_type_ids=True)
        ids, types = both["input_ids"], both["token_type_ids"]
        plain = np.flatnonzero(np.array(both["special_tokens_mask"]) == 0).tolist()
        if not one or len(plain) != 2 * len(one):
            raise PlanError(f"{self.folder}: the tokenizer does not make pairs of texts; {_WANTED}")
        edges = ((0, plain[0]), (plain[len(one) - 1] + 1, plain[len(one)]), (plain[-1] + 1, len(ids)))
        return [(list(ids[low:high]), list(types[low:high])) for low, high in edges], (types[plain[0]], types[plain[-1]])

    def _vocabulary(self, size: int) -> tuple[I64, list[str]]:
        special = set(self.tokenizer.all_special_ids)
        ids, words = [], []
        for number in range(min(size, len(self.tokenizer))):
            if number not in special:
                said = self.tokenizer.decode([number]).strip()
                if _WORD.fullmatch(said):
                    ids.append(number)
                    words.append(said)
        if len(ids) < 2:
            raise PlanError(f"{self.folder}: fewer than two tokens of its vocabulary are words; {_WANTED}")
        return np.array(ids, np.int64), words

    def window(self, size: int) -> None:
        """Raises PlanError where a pair of windows of so many tokens is longer than the model can take."""
        needed = 2 * size + 1 + self.around
        if needed > self.longest:
            raise PlanError(f"window = {size} takes {needed} tokens, and the model takes {self.longest}; make the window smaller")

    def rows(self, texts: Sequence[str], spans: Iterable[tuple[int, int, int]], window: int) -> list[Row]:
        """A row for every (text, first code point, code point after) of `spans`; at most `window` tokens of a text stand in it."""
        tokens = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False) if texts else {}
        known: dict[int, tuple[list[int], I64, I64]] = {}
        rows = []
        for text_no, start, stop in spans:
            if text_no not in known:
                places = np.array(tokens["offset_mapping"][text_no], np.int64).reshape(-1, 2)
                known[text_no] = (tokens["input_ids"][text_no], places[:, 0].copy(), places[:, 1].copy())
            ids, first, last = known[text_no]
            low = int(np.searchsorted(last, start, side="right"))
            high = max(low, int(np.searchsorted(first, stop, side="left")))
            word = ids[low:high][:window]
            room = window - len(word)
            before = min(low, max(room // 2, room - (len(ids) - high)))
            rows.append(Row(ids[low - before : low], word, ids[high : high + room - before]))
        return rows

    def logits(self, rows: Sequence[Row], batch: int) -> Iterator[tuple[I64, npt.NDArray[np.float32]]]:
        """The logits of all candidates at the mask: which rows, and (rows, candidates) of them; shortest first."""
        torch = self.torch
        wanted = torch.as_tensor(self.candidates, device=self.device)
        with torch.inference_mode(), one_thread(torch):
            for mine, some in _batches(rows, [len(row) + self.around for row in rows], batch):
                ids, types, places = (np.array(column, np.int64) for column in zip(*map(self._pair, some), strict=True))
                given = {"input_ids": ids, **({"token_type_ids": types} if self.typed else {})}
                inputs = {name: torch.as_tensor(value, device=self.device) for name, value in given.items()}
                hidden = self.model.base_model(**inputs).last_hidden_state
                at_mask = hidden[torch.arange(batch, device=self.device), torch.as_tensor(places, device=self.device)]
                found = self.head(at_mask)[:, wanted]
                yield mine, found[: len(mine)].float().cpu().numpy()

    def alike(self, rows: Sequence[Row], batch: int, top: int) -> Iterator[tuple[I64, I64, npt.NDArray[np.float32]]]:
        """The `top` most likely candidates at the mask, and how alike each is to the mask: which rows, and (rows, top) of both.

        The model sees the masked text alone. Alike is the cosine of the last four layers' states, side by side, at the mask and at the
        candidate in its place. Fewer where there are fewer candidates.
        """
        torch = self.torch
        (opening, _), _, (closing, _) = self.special  # one text stands between what opens a pair and what closes it
        wanted = torch.as_tensor(self.candidates, device=self.device)
        top = min(top, len(self.candidates))

        def seen(ids: Any, places: Any) -> tuple[Any, Any]:
            told = self.model.base_model(input_ids=ids, output_hidden_states=True)
            lines = torch.arange(len(ids), device=self.device)
            return torch.cat([layer[lines, places] for layer in told.hidden_states[-4:]], 1), told.last_hidden_state[lines, places]

        with torch.inference_mode(), one_thread(torch):
            for mine, some in _batches(rows, [len(row.before) + len(row.after) for row in rows], batch):
                masked = [[*opening, *row.before, self.mask, *row.after, *closing] for row in some]
                places = torch.as_tensor([len(opening) + len(row.before) for row in some], device=self.device)
                ids = torch.as_tensor(masked, device=self.device)
                at_mask, last = seen(ids, places)
                likely = torch.sort(self.head(last)[:, wanted], dim=1, descending=True, stable=True).indices[:, :top]
                cosines = []
                for column in likely.T:
                    there = ids.clone()
                    there[torch.arange(batch, device=self.device), places] = wanted[column]
                    cosines.append(torch.nn.functional.cosine_similarity(at_mask, seen(there, places)[0], dim=1))
                found = torch.stack(cosines, 1).float().cpu().numpy()
                yield mine, likely[: len(mine)].cpu().numpy(), found[: len(mine)]

    @property
    def typed(self) -> bool:
        """Whether the model tells the two texts of a pair apart by token types."""
        return int(getattr(self.model.config, "type_vocab_size", 0)) > 1

    def _pair(self, row: Row) -> tuple[list[int], list[int], int]:
        """Token ids and types of the pair, and where the mask stands."""
        ((opening, first), (between, middle), (closing, end)), (kind_a, kind_b) = self.special, self.kinds
        whole = [*row.before, *row.word, *row.after]
        hidden = [*row.before, self.mask, *row.after]
        ids = [*opening, *whole, *between, *hidden, *closing]
        types = [*first, *[kind_a] * len(whole), *middle, *[kind_b] * len(hidden), *end]
        return ids, types, len(opening) + len(whole) + len(between) + len(row.before)


_WANTED = "expected a folder of Hugging Face layout with a masked language model (BERT, RoBERTa) in safetensors and its fast tokenizer"


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """One thread of torch on this machine, so that sums are always made in the same order; what was set is set again after."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measure_bounds(folder: Path | str, texts: Sequence[str], *, source: str, trained_on: str = "public", window: int = 64) -> Bounds:
    """The smallest and the largest logit that a model gives for the words of some texts, written into its card, `dp_mlm.json`.

    The texts must be public ones, and none of the corpus that is to be rewritten: bounds that come from it would break the claim. `source`
    says in words which texts they are.
    """
    folder = Path(folder)
    model = MaskedModel(folder)
    spans = [(no, found.start(), found.end()) for no, text in enumerate(texts) for found in _WORD.finditer(text)]
    if not spans or not source.strip():
        raise PlanError("bounds need public texts with words in them, and a source that says which texts they are")
    low, high = np.inf, -np.inf
    for _, logits in model.logits(model.rows(texts, spans, window), 64):
        low, high = min(low, float(logits.min())), max(high, float(logits.max()))
    bounds = Bounds(low, high, source, trained_on)
    bounds.write(folder)
    return bounds


__all__ = ["CARD", "MaskedModel", "Row", "measure_bounds", "opened", "sha256_of"]


def _batches(rows: Sequence[Row], sizes: Sequence[int], batch: int) -> Iterator[tuple[I64, list[Row]]]:
    """Rows of one size together, the smallest first: which they are, and always `batch` of them, as one shape is run. A short batch repeats
    its first row."""
    lengths = np.array(sizes, np.int64)
    order = np.argsort(lengths, kind="stable")
    edges = np.flatnonzero(np.diff(lengths[order], prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        for at in range(low, high, batch):
            mine = order[at : min(at + batch, high)]
            yield mine, [rows[int(mine[line] if line < len(mine) else mine[0])] for line in range(batch)]
