"""Names of people by a linear tagger: its weights, and the spans that it finds in a column.

The weights are learned from invented texts (benchmarks/person_tagger, ADR 076). They hold no list
of names: a feature is the spelling of a part of a word, how it is written, the words beside it, or
a word of a fixed vocabulary of common words. All arithmetic is on integers: the same spans on every
machine.
"""

from __future__ import annotations

import functools
import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sanitize.array_types import I32, I64, U8
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.errors import InstallationBroken
from sanitize.kernels import name_tags

WEIGHTS_FILE = Path(__file__).with_name("name_tagger.bin")
# of the features and of the file; a change of kernels/name_tags.py that changes a feature raises it
FEATURE_SET = 3
_MAGIC = b"sanitize-names\0\0"
# magic, feature set, rows of the weights, slots of the vocabulary, score of the label "outside"
_HEADER = struct.Struct("<16sIIIi")
WORD_BYTES = 40  # of the kernel's struct `Word`
_TWIN_SLOTS = 1 << 16
_CLASSIFIED = 0x2000
# ranges of characters whose properties are the same in every supported version of Unicode
_STABLE_RANGES = ((0x00, 0x250), (0x300, 0x378), (0x37A, 0x530), (0x531, 0x600), (0x1E00, 0x2000))


@dataclass(frozen=True, repr=False)
class TaggerWeights:
    """Weights (rows, 2) of the labels "first word of a name" and "further word", the vocabulary as
    a hash table (hashes, 0 for none, and classes), and the score of the label "outside"."""

    weights: npt.NDArray[np.int8]
    vocabulary: npt.NDArray[np.uint32]
    vocabulary_classes: U8
    outside_bonus: int

    def to_bytes(self) -> bytes:
        """The contents of a file."""
        header = _HEADER.pack(
            _MAGIC, FEATURE_SET, len(self.weights), len(self.vocabulary), self.outside_bonus
        )
        return b"".join(
            (
                header,
                self.vocabulary.astype("<u4").tobytes(),
                self.vocabulary_classes.tobytes(),
                self.weights.tobytes(),
            )
        )

    @classmethod
    def from_bytes(cls, contents: bytes, name: str) -> TaggerWeights:
        """Reads the contents of a file; `name` is for the error."""
        problem = f"{len(contents):,} bytes, which begin otherwise"
        if len(contents) >= _HEADER.size and contents.startswith(_MAGIC):
            _, features, rows, slots, bonus = _HEADER.unpack_from(contents)
            size = _HEADER.size + 5 * slots + 2 * rows
            if features != FEATURE_SET:
                problem = f"feature set {features}"
            elif (
                len(contents) != size
                or rows & (rows - 1)
                or slots & (slots - 1)
                or not slots * rows
            ):
                problem = f"{len(contents):,} bytes instead of {size:,}"
            else:
                at = _HEADER.size
                return cls(
                    np.frombuffer(contents, np.int8, 2 * rows, at + 5 * slots).reshape(rows, 2),
                    np.frombuffer(contents, "<u4", slots, at).astype(np.uint32),
                    np.frombuffer(contents, np.uint8, slots, at + 4 * slots),
                    bonus,
                )
        raise InstallationBroken(
            f"{name}: {problem}; expected a complete file of weights of feature set {FEATURE_SET}."
            " Install the package again, or train the weights with `python -m"
            " benchmarks.person_tagger.train`"
        )


@functools.cache
def load_weights() -> TaggerWeights:
    """The weights of the package, read once per process."""
    return TaggerWeights.from_bytes(WEIGHTS_FILE.read_bytes(), WEIGHTS_FILE.name)


@functools.cache
def classify_characters() -> tuple[U8, npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """For every character below U+2000: its class (separator 0, small letter 1, capital 2, other
    letter or mark 3, digit 4), its small letter, and that without accents."""
    classes = np.zeros(_CLASSIFIED, np.uint8)
    lowered = np.arange(_CLASSIFIED, dtype=np.uint16)
    folded = lowered.copy()
    classes[0x600:0x1E00] = 3  # scripts without case
    for low, high in _STABLE_RANGES:
        for code in range(low, high):
            category = unicodedata.category(chr(code))
            classes[code] = {"Ll": 1, "Lu": 2, "Lt": 2, "Nd": 4}.get(
                category, 3 if category[0] in "LM" else 0
            )
            small = chr(code).lower()[0]
            base = unicodedata.normalize("NFD", small)[0]
            if ord(small) < _CLASSIFIED:
                lowered[code] = ord(small)
            if ord(base) < _CLASSIFIED:
                folded[code] = ord(base)
    return classes, lowered, folded


@dataclass(frozen=True, repr=False)
class TaggerWords:
    """The words of a column as the kernel's structs, and the runs of words that may be names."""

    words: U8
    count: int
    run_starts: I64
    run_sizes: I32

    @classmethod
    def of(
        cls,
        buffers: TextBuffers,
        vocabulary: npt.NDArray[np.uint32],
        vocabulary_classes: U8,
        rule_start: I64,
        rule_end: I64,
    ) -> TaggerWords:
        """Splits texts; `rule_start`, `rule_end` are names that rules found, in bytes of the
        column, ascending and disjoint."""
        capacity = len(buffers.data) // 5 + 16
        while True:
            words = np.empty(capacity * WORD_BYTES, np.uint8)
            count = name_tags.split_words(
                buffers.data,
                buffers.offsets,
                *classify_characters(),
                vocabulary,
                vocabulary_classes,
                words,
            )
            if count <= capacity:
                break
            capacity = count
        run_starts, run_sizes = np.empty(count, np.int64), np.empty(count, np.int32)
        runs = name_tags.find_runs(
            words,
            count,
            rule_start,
            rule_end,
            np.zeros(_TWIN_SLOTS, np.uint32),
            run_starts,
            run_sizes,
        )
        return cls(words, count, run_starts[:runs], run_sizes[:runs])


@dataclass(frozen=True, repr=False)
class TaggedNames:
    """Names in a column: start and end byte, ascending, and the margin, the score of a name
    over that of no name."""

    start: I64
    end: I64
    margin: I32


def tag_names(
    buffers: TextBuffers, rule_start: I64, rule_end: I64, weights: TaggerWeights | None = None
) -> TaggedNames:
    """Returns the names that the tagger finds; `rule_start`, `rule_end` are names that rules found,
    in bytes of the column, ascending and disjoint."""
    model = weights or load_weights()
    found = TaggerWords.of(
        buffers, model.vocabulary, model.vocabulary_classes, rule_start, rule_end
    )
    size = int(found.run_sizes.sum())
    start, end, margin = (
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
    )
    count = 0
    if size:
        count = name_tags.tag_words(
            buffers.data,
            found.words,
            found.count,
            found.run_starts,
            found.run_sizes,
            *classify_characters(),
            model.weights,
            model.outside_bonus,
            True,
            start,
            end,
            margin,
        )
    return TaggedNames(start[:count], end[:count], margin[:count])
