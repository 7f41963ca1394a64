"""Names, places and what else a model tags: token classification (BERT, RoBERTa and their kin) from a folder on this machine.

Every text goes through the model whole: in one piece where it fits the window, else in pieces that overlap. **The seam rule**: each token
is judged in the piece in which it stands farthest from an edge, so the seam lies in the middle of an overlap, and spans are read from the
tokens of the whole text as if there were no pieces. A span may be longer than an overlap.

From tokens to spans: what a token says of a kind is what it says of all labels of that kind (`B-PER` and `I-PER`); a word is the kind that
its tokens give the most on average; words of one kind in a row are one span, unless a label begins or ends one between them. BIO, BILOU
(BIOES) and plain labels are read alike. A span's score is the mean, or the least, of its words', rounded to a thousandth.

**One text, one answer.** Pieces are padded to a length that hangs on their own length alone, and go through the model in batches of a
shape that hangs on that length alone, so that which texts stand beside each other changes nothing: neither order, nor batches, nor the
number of workers (on a CPU with one thread to the bit, held by a test; another processor or library may differ in the last bits, which
the rounding mostly hides).

Costs: a forward pass over all texts, and the folder's hash once a process. No code of the folder is run, only safetensors are read, and
nothing is fetched.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.core.arrow_buffers import I64, Buffers, bytes_at
from sanitize.core.keys import Key
from sanitize.core.parts import Column, Finder, Spans
from sanitize.errors import MissingExtra, PlanError, nearest
from sanitize.text.label_aliases import kinds_of, trimmed
from sanitize.text.masked_lm import one_thread, sha256_of

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
_LIBRARIES = ("torch", "transformers", "tokenizers")
_WANTED = "expected a folder of Hugging Face layout with a token-classification model in safetensors and its fast tokenizer"
_CPU_TOKENS, _GPU_TOKENS = 128, 16_384  # in one batch: more makes a GPU faster, and a CPU no more
_STEP = 16  # pieces are padded to a multiple of this
_TEXTS = 256  # that are split into tokens at once: bounds the memory of their offsets
_LONGEST = 512  # tokens of a piece, where the model says no less
_BEGIN, _END = "BUS", "LEUS"  # of a label: what begins a span, and what ends one


class Ner(Finder):
    """Settings: `model` (a folder), `labels` (the model's label = our kind, "" for one that is no personal data), `score` (mean or least of
    the words of a span), `window` (tokens of a piece, special ones included; 0: what the model takes, 512 at most), `overlap` (tokens that
    two pieces share), `batch_tokens` (through the model at once; 0: by device), `device`."""

    model: str = ""
    model_sha256: str = ""
    versions: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    score: Literal["mean", "least"] = "mean"
    window: int = Field(default=0, ge=0, le=1 << 20)
    overlap: int = Field(default=64, ge=0, le=1 << 16)
    batch_tokens: int = Field(default=0, ge=0, le=1 << 24)
    device: Literal["cpu", "cuda"] = "cpu"
    _tagger: Tagger | None = PrivateAttr(default=None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the labels stand for, as far as the folder's config can be read; all kinds may be meant where it cannot."""
        names = label_names(Path(self.model) / "config.json")
        try:
            return tuple(dict.fromkeys(kind for kind in kinds_of(names, self.labels, "labels").values() if kind)) if names else ()
        except PlanError:
            return ()  # `fits` says it

    def settled(self) -> Self:
        """The same with the model's hash and the libraries' versions, so that another model is another index."""
        if not self.model or not Path(self.model).is_dir():
            return self
        known = sha256_of(Path(self.model))
        if self.model_sha256 not in ("", known):
            raise PlanError(f"ner: model = {self.model!r} is not the model that the plan was made with (model_sha256)")
        return self.model_copy(update={"model_sha256": known, "versions": versions(_LIBRARIES)})

    def fits(self) -> None:
        """A model is named and there, its labels are decided about, and the libraries are installed."""
        if not self.model:
            raise PlanError(
                'ner has no model; name the folder of one on this machine: {use = "ner", model = "PATH"}. Nothing is downloaded'
            )
        folder = Path(self.model)
        if not folder.is_dir():
            raise PlanError(f"ner: model = {self.model!r}: there is no such folder on this machine, and nothing is downloaded; {_WANTED}")
        names = label_names(folder / "config.json")
        if not names:
            raise PlanError(f"ner: model = {self.model!r}: its config.json names no labels (id2label); {_WANTED}")
        kinds_of(names, self.labels, f"ner: model = {self.model!r}: labels")
        unknown = set(self.labels) - set(names)
        if unknown:
            raise PlanError(f"ner: labels names {sorted(unknown)[0]}, which the model does not have; {nearest(sorted(unknown)[0], names)}")
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtra(package, "learn")

    def open(self, key: Key, gathered: Path | None) -> None:
        """Load the model, once a process."""
        self._tagger = _opened(self.model, self.model_sha256, self.device, self.window, self.overlap, self.batch_tokens)

    def run(self, column: Column) -> Spans:
        """The spans that the model tags in a column of texts."""
        assert self._tagger is not None
        tagger = self._tagger
        kind_of = kinds_of(tagger.names, self.labels, "labels")
        kinds = tuple(dict.fromkeys(kind for kind in kind_of.values() if kind))
        group = np.array([kinds.index(kind) + 1 if (kind := kind_of.get(name, "")) else 0 for name in tagger.names], np.int64)
        found = [_spans(tokens, tagger, group, len(kinds), self.score) for tokens in tagger.judged(column.texts)]
        if not found:
            return Spans.none()
        text_no, start, stop, number = (np.concatenate([one[place] for one in found]) for place in range(4))
        sure = np.concatenate([one[4] for one in found])
        buffers = Buffers.of(column.texts)
        start, stop = bytes_at(buffers, text_no, start, stop)
        return trimmed(buffers, text_no, start, stop, (number - 1).astype(np.int32), kinds, sure.astype(np.float32))


def versions(packages: Sequence[str]) -> str:
    """The versions of some packages, as part of an index's fingerprint; those that are not installed are left out."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def label_names(config: Path) -> list[str]:
    """The labels of a model without their prefixes, each once, those of "outside" left out; none where the config cannot be read."""
    from sanitize.storage.corpus import read_json

    try:
        told = (read_json(config) or {}).get("id2label")
    except (OSError, ValueError):
        return []
    labels = told.values() if isinstance(told, Mapping) else ()
    return [name for name in dict.fromkeys(_parted(str(label))[1] for label in labels) if name]


def _parted(label: str) -> tuple[str, str]:
    """A label's prefix (one letter, or none) and its name: `B-PER` is (B, PER), `PER` is ("", PER), `O` is ("", "")."""
    if label.upper() in ("O", "OUTSIDE", "OTHER"):
        return "", ""
    if len(label) > 2 and (label[0] in "BILUES" and label[1] == "-" or label[:2] in ("B_", "I_")):
        return label[0], label[2:]
    return "", label


class Tokens:
    """The tokens of some texts: the text and the word of each, its code points, and its probabilities by label."""

    def __init__(self, text_no: I64, word: I64, start: I64, stop: I64, probabilities: F32) -> None:
        self.text_no, self.word, self.start, self.stop, self.probabilities = text_no, word, start, stop, probabilities


class Tagger:
    """A token classifier with its tokenizer. `names` has the name of every label, `prefix` its prefix."""

    def __init__(self, folder: Path, device: str, window: int, overlap: int, batch_tokens: int) -> None:
        """Raises MissingExtra without torch or transformers, PlanError for a folder that holds no token classifier."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(str(error.name), "learn") from None
        if device != "cpu" and not torch.cuda.is_available():
            raise PlanError(f"ner: device = {device!r}: there is no such device here; use cpu")
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, **here)
            model: Any = transformers.AutoModelForTokenClassification.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, **here
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise PlanError(f"ner: model = {str(folder)!r}: cannot be opened ({type(error).__name__}); {_WANTED}") from None
        if not self.tokenizer.is_fast:
            raise PlanError(f"ner: model = {str(folder)!r}: its tokenizer is no fast one, and gives no offsets; {_WANTED}")
        self.torch, self.device = torch, device
        self.model = model.to(device).eval()
        labels = [_parted(str(model.config.id2label[number])) for number in range(int(model.config.num_labels))]
        self.prefix, self.names = [one for one, _ in labels], [name for _, name in labels]
        self.opening, self.closing = self._template(folder)
        self.pad = int(self.tokenizer.pad_token_id or 0)
        longest = self._longest(model.config)
        self.window = (window or min(longest, _LONGEST)) - len(self.opening) - len(self.closing)
        self.overlap = overlap
        if window > longest:
            raise PlanError(f"ner: window = {window}: the model takes {longest} tokens")
        if self.window <= 2 * overlap:
            raise PlanError(
                f"ner: overlap = {overlap} does not fit into pieces of {self.window} tokens; expected less than half of that. "
                "Make overlap smaller"
            )
        self.batch_tokens = batch_tokens or (_CPU_TOKENS if device == "cpu" else _GPU_TOKENS)

    def _template(self, folder: Path) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        made = self.tokenizer("a", return_special_tokens_mask=True)
        plain = np.flatnonzero(np.array(made["special_tokens_mask"]) == 0)
        if not len(plain):
            raise PlanError(f"ner: model = {str(folder)!r}: its tokenizer makes no token of a letter; {_WANTED}")
        return list(made["input_ids"][: plain[0]]), list(made["input_ids"][plain[-1] + 1 :])

    def _longest(self, config: Any) -> int:
        """How many tokens the model takes at once."""
        learned = int(getattr(config, "max_position_embeddings", 0) or _LONGEST)
        if config.model_type in ("roberta", "xlm-roberta", "camembert"):  # positions begin behind that of the padding
            learned -= int(config.pad_token_id or 0) + 1
        return min(learned, int(self.tokenizer.model_max_length))

    def judged(self, texts: pa.LargeStringArray) -> Iterator[Tokens]:
        """The tokens of all texts with their probabilities, some texts at a time. A loop over texts: a model runs."""
        for at in range(0, len(texts), _TEXTS):
            some = texts.slice(at, _TEXTS).to_pylist()
            made = self.tokenizer(some, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            sizes = np.array([len(ids) for ids in made["input_ids"]], np.int64)
            if not sizes.sum():
                continue
            places = np.array([place for one in made["offset_mapping"] for place in one], np.int64).reshape(-1, 2)
            words = [made.word_ids(no) for no in range(len(some))]
            word = np.array([-1 if one is None else one for mine in words for one in mine], np.int64)
            ids = np.array([one for mine in made["input_ids"] for one in mine], np.int64)
            text_no = np.repeat(np.arange(len(some)), sizes)
            probabilities = self._probabilities(ids, sizes)
            yield Tokens(text_no + at, word, places[:, 0], places[:, 1], probabilities)

    def _probabilities(self, ids: I64, sizes: I64) -> F32:
        """The probabilities of every token, each from the piece in which it stands farthest from an edge."""
        out = np.empty((len(ids), len(self.names)), np.float32)
        first = np.cumsum(sizes) - sizes
        cuts: list[tuple[int, int, int, int]] = []  # of each piece: its tokens, and those of them that are judged in it
        for base, size in zip(first.tolist(), sizes.tolist(), strict=True):
            cuts += [(base + low, base + high, base + begin, base + end) for low, high, begin, end in self.pieces(size)]
        lengths = np.array([high - low for low, high, _, _ in cuts], np.int64)
        padded = -(-(lengths + len(self.opening) + len(self.closing)) // _STEP) * _STEP
        torch, head = self.torch, len(self.opening)
        with torch.inference_mode(), one_thread(torch):
            for shape in np.unique(padded).tolist():
                mine = np.flatnonzero(padded == shape)
                rows = max(1, self.batch_tokens // shape)
                for at in range(0, len(mine), rows):
                    some = mine[at : at + rows]
                    given = np.full((rows, shape), self.pad, np.int64)
                    there = np.zeros((rows, shape), np.int64)
                    for line in range(rows):  # a batch that is not full repeats its first piece: the shape stays
                        low, high, _, _ = cuts[int(some[line if line < len(some) else 0])]
                        whole = [*self.opening, *ids[low:high].tolist(), *self.closing]
                        given[line, : len(whole)], there[line, : len(whole)] = whole, 1
                    inputs = {name: torch.as_tensor(value, device=self.device) for name, value in _named(given, there).items()}
                    found = self.model(**inputs).logits.float().softmax(-1).cpu().numpy()
                    for line, piece in enumerate(some.tolist()):
                        low, _, begin, end = cuts[piece]
                        out[begin:end] = found[line, head + begin - low : head + end - low]
        return out

    def pieces(self, size: int) -> list[tuple[int, int, int, int]]:
        """Where a text of so many tokens is cut: first token of each piece and the one after it, and those that are judged in it."""
        if size <= self.window:
            return [(0, size, 0, size)] if size else []
        lows = [*range(0, size - self.window, self.window - self.overlap), size - self.window]
        highs = [low + self.window for low in lows]
        seams = [0, *((low + high) // 2 for low, high in zip(lows[1:], highs[:-1], strict=True)), size]
        return list(zip(lows, highs, seams[:-1], seams[1:], strict=True))


def _named(ids: I64, there: I64) -> dict[str, I64]:
    return {"input_ids": ids, "attention_mask": there}


@functools.lru_cache(maxsize=2)
def _opened(folder: str, sha256: str, device: str, window: int, overlap: int, batch_tokens: int) -> Tagger:
    if sha256_of(Path(folder)) != sha256:
        raise PlanError(f"ner: {folder}: the model is not the one that the plan was made with; use a folder that nobody writes to")
    return Tagger(Path(folder), device, window, overlap, batch_tokens)


def _spans(tokens: Tokens, tagger: Tagger, group: I64, kinds: int, score: str) -> tuple[I64, I64, I64, I64, npt.NDArray[np.float64]]:
    """Text, first code point, code point after, kind (from 1) and score of every span; `group` has the kind of each label, 0: none."""
    # what each token says of each kind, and of a span that begins or ends there
    mass = np.zeros((len(tokens.text_no), kinds + 1), np.float64)
    begins, ends = np.zeros_like(mass), np.zeros_like(mass)
    for label, (kind, prefix) in enumerate(zip(group.tolist(), tagger.prefix, strict=True)):
        mass[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _BEGIN:
            begins[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _END:
            ends[:, kind] += tokens.probabilities[:, label]
    # words: a token without one is a word of its own
    new = np.append(True, (np.diff(tokens.text_no) != 0) | (np.diff(tokens.word) != 0) | (tokens.word[1:] < 0))
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(new)) - 1
    mean = np.add.reduceat(mass, first, axis=0) / (last - first + 1)[:, None]
    kind = mean.argmax(axis=1)
    sure = np.take_along_axis(mean, kind[:, None], 1)[:, 0]
    if score == "least":
        sure = np.take_along_axis(np.minimum.reduceat(mass, first, axis=0), kind[:, None], 1)[:, 0]
    # spans: words of one kind in a row, unless the first token of the next begins one, or the last one ended one
    text_no = tokens.text_no[first]
    opens = begins[first, kind] * 2 > mass[first, kind]
    closes = ends[last, kind] * 2 > mass[last, kind]
    apart = np.append(True, (np.diff(kind) != 0) | (np.diff(text_no) != 0) | opens[1:] | closes[:-1])
    head = np.flatnonzero(apart)
    tail = np.append(head[1:], len(apart)) - 1
    scores = np.minimum.reduceat(sure, head) if score == "least" else np.add.reduceat(sure, head) / (tail - head + 1)
    some = np.flatnonzero(kind[head] > 0)
    head, tail = head[some], tail[some]
    rounded = np.round(np.clip(scores[some], 0, 1), 3)
    return text_no[head], tokens.start[first[head]], tokens.stop[last[tail]], kind[head], rounded


__all__ = ["Ner", "Tagger", "label_names", "versions"]
