"""Trains the weights of the tagger of people's names; the same bytes on every run.

    python -m benchmarks.person_tagger.train            writes
                                                        sanitize/text/person_names/name_tagger.bin
    python -m benchmarks.person_tagger.train --out FILE --texts 4000

The vocabulary, the only words that the tagger knows by themselves, has the words around the names
of the templates, the word lists of `name_lexicon.py` that hold no names, and the words of Faker's
texts (MIT). A word of the lists of names is in it only if it is written in lower case in a
template or in a list of common words.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import pkgutil
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.person_tagger.texts import (
    NamePool,
    TextWriter,
    TrainingText,
    read_pools,
    read_templates,
)
from sanitize.array_types import I64, U8
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kernels import name_tags
from sanitize.text import name_lexicon
from sanitize.text.common_words import COMMON_WORDS
from sanitize.text.person_names.name_tagger import (
    WEIGHTS_FILE,
    WORD_BYTES,
    TaggerWeights,
    TaggerWords,
    classify_characters,
)

TEXTS = 40_000
PASSES = 5
SEED = 1
ROWS = 1 << 17
SLOTS = 1 << 15
MAX_VOCABULARY = 25_000
RATE, DECAY, KEEP = 0.15, 1e-6, 0.6
# of the people of the texts, whose names the rules did not find
HIDDEN_FROM_RULES = 0.4
OUTSIDE = 0.5  # score of the label "outside", in units of the likelihood
_HASHED_WORD = re.compile(r"[^\W\d_]{2,}")
# class of a word of the vocabulary, by lists of the lexicon; the first that has it counts
CLASSES: tuple[tuple[str, int], ...] = (
    ("_PARTICLES", 1),
    ("_TITLE_WORDS", 2),
    ("_ROLES", 3),
    ("_RELATIONS", 4),
    ("_GREETINGS", 5),
    ("_CLOSINGS", 6),
    ("_ORGANIZATION_WORDS", 7),
    ("_CITIES", 8),
    ("_STOP_WORDS", 9),
    ("_FORM_FIELDS", 10),
    ("_AUTHORSHIP_VERBS", 11),
    ("_PERSONAL_VERBS", 12),
    ("_VERBS_AFTER_NAME", 13),
    ("_LIST_WORDS", 14),
)
_KNOWN = 128


def list_vocabulary() -> dict[str, int]:
    """The words of the vocabulary in lower case, with their classes."""
    words: dict[str, int] = {}
    for attribute, number in CLASSES:
        for word in getattr(name_lexicon, attribute).lower().split():
            words.setdefault(word, _KNOWN | number)
    common = {word.lower() for word in COMMON_WORDS if word.isalpha()}
    common |= set(name_lexicon._COMMON_WORDS.lower().split())
    in_templates: Counter[str] = Counter()
    for texts in read_templates().values():
        for _, text in texts:
            plain = re.sub(r"\{\{[^}]*\}\}", " ", text)
            in_templates.update(one for one in _HASHED_WORD.findall(plain))
    common |= {word for word in in_templates if word.islower()}
    names = {
        part.lower()
        for pool in read_pools().values()
        for name in (*pool.given, *pool.surnames)
        for part in re.findall(r"[^\W\d_]+", name)
    }
    further = {word.lower() for word in in_templates} | _list_faker_words()
    rest = sorted(further - names)
    random.Random(SEED).shuffle(rest)  # noqa: S311
    for word in sorted(common) + rest:
        if len(words) < MAX_VOCABULARY:
            words.setdefault(word, _KNOWN)
    return words


def _list_faker_words() -> set[str]:
    """The words of Faker's texts in scripts with case."""
    import faker.providers.lorem as locales

    found: set[str] = set()
    for module in sorted(one.name for one in pkgutil.iter_modules(locales.__path__)):
        if module != "la":
            provider = importlib.import_module(f"{locales.__name__}.{module}").Provider
            found.update(
                word.lower()
                for word in getattr(provider, "word_list", ())
                if _HASHED_WORD.fullmatch(word) and word.lower() != word.upper()
            )
    return found


def build_vocabulary(words: dict[str, int]) -> tuple[np.ndarray, U8]:
    """The hash table of the kernel: hashes and classes."""
    column = TextBuffers.from_array(pa.array(list(words), pa.large_string()))
    hashes = np.empty(len(words), np.uint32)
    name_tags.hash_vocabulary(column.data, column.offsets, *classify_characters(), hashes)
    slots, classes = np.zeros(SLOTS, np.uint32), np.zeros(SLOTS, np.uint8)
    for number, kind in zip(hashes.tolist(), words.values(), strict=True):
        slot = (number >> 8) & (SLOTS - 1)
        while slots[slot] not in (0, number):
            slot = (slot + 1) & (SLOTS - 1)
        if not slots[slot]:
            slots[slot], classes[slot] = number, kind
    return slots, classes


def to_byte_spans(texts: Sequence[TrainingText], buffers: TextBuffers) -> tuple[I64, I64, I64]:
    """Start and end byte of all names in the column, ascending, and a number of their person."""
    rows = []
    for number, text in enumerate(texts):
        base = int(buffers.offsets[number])
        for start, end, person in text.spans:
            first = base + len(text.text[:start].encode())
            rows.append((first, first + len(text.text[start:end].encode()), 100 * number + person))
    found = np.array(sorted(rows), np.int64).reshape(-1, 3)
    return tuple(np.ascontiguousarray(column) for column in found.T)  # type: ignore[return-value]


def find_by_rules(buffers: TextBuffers) -> tuple[I64, I64]:
    """The names that the rules for prose find: start and end byte, ascending and disjoint."""
    from sanitize.text.person_names.prose_names import ProseNames
    from sanitize.text.person_names.word_table import WordTable

    empty = np.empty(0, np.int64)
    start, end, _ = ProseNames(WordTable(buffers), empty, empty).find()
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def hide_people(
    start: I64, end: I64, gold: tuple[I64, I64, I64], share: float, seed: int
) -> tuple[I64, I64]:
    """The finds of the rules without those that overlap names of some of the people."""
    draw = random.Random(seed)  # noqa: S311
    people = {int(one): draw.random() < share for one in np.unique(gold[2])}
    hidden = np.array([people[int(one)] for one in gold[2]], np.bool_)
    low, high = gold[0][hidden], gold[1][hidden]
    row = np.searchsorted(high, start, side="right")
    overlaps = (row < len(low)) & (np.append(low, 1 << 60)[row] < end)
    return start[~overlaps], end[~overlaps]


def label_words(words: TaggerWords, start: I64, end: I64) -> np.ndarray:
    """The label of each word: 0, 1 for the first of a name, 2 for a further one."""
    fields = words.words.view(np.int64).reshape(-1, WORD_BYTES // 8)[: words.count]
    word_start, word_end = fields[:, 0], fields[:, 1]
    row = np.searchsorted(end, word_start, side="right")
    inside = (row < len(start)) & (np.append(start, 1 << 60)[row] < word_end)
    first = word_start <= np.append(start, 1 << 60)[row]
    return np.where(inside, np.where(first, 1, 2), 0).astype(np.int8)


def train(
    text_count: int = TEXTS,
    passes: int = PASSES,
    pools: Mapping[str, NamePool] | None = None,
    rules: Callable[[TextBuffers], tuple[I64, I64]] | None = find_by_rules,
) -> TaggerWeights:
    """Trains weights from that many invented texts, with the names of `pools` (all lists)."""
    vocabulary, classes = build_vocabulary(list_vocabulary())
    texts = TextWriter(SEED, pools).write(text_count)
    buffers = TextBuffers.from_array(pa.array([one.text for one in texts], pa.large_string()))
    gold = to_byte_spans(texts, buffers)
    empty = np.empty(0, np.int64)
    found = rules(buffers) if rules else (empty, empty)
    weights, squares = np.zeros((ROWS, 2)), np.ones((ROWS, 2))
    average = np.zeros((ROWS, 2))
    for number in range(passes):
        hidden = hide_people(*found, gold, HIDDEN_FROM_RULES, number)
        words = TaggerWords.of(buffers, vocabulary, classes, *hidden)
        order = list(range(len(words.run_starts)))
        random.Random(number).shuffle(order)  # noqa: S311
        name_tags.train_pass(
            buffers.data,
            words.words,
            words.count,
            words.run_starts,
            words.run_sizes,
            np.array(order, np.int64),
            label_words(words, *gold[:2]),
            *classify_characters(),
            weights,
            squares,
            RATE,
            DECAY,
            KEEP,
            True,
            number + 1,
        )
        if number >= passes - 2:
            average += weights
    average /= min(2, passes)
    size = np.sort(np.abs(average[average != 0]))
    unit = float(size[int(len(size) * 0.9995)]) / 127
    quantised = np.clip(np.round(average / unit), -127, 127).astype(np.int8)
    return TaggerWeights(quantised, vocabulary, classes, round(OUTSIDE / unit))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=WEIGHTS_FILE)
    parser.add_argument("--texts", type=int, default=TEXTS)
    options = parser.parse_args()
    contents = train(options.texts).to_bytes()
    options.out.write_bytes(contents)
    print(f"{options.out}: {len(contents):,} bytes, SHA-256 {hashlib.sha256(contents).hexdigest()}")


if __name__ == "__main__":
    main()
