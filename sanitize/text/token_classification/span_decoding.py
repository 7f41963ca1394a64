"""From the label probabilities of tokens to spans.

A token's probability of a kind is the sum over all labels of that kind (`B-PER` and `I-PER`, given
name and surname); a word has the average over its tokens. What a label says about the begin and the
end of a span decides where words of one kind are divided:

- **BIO and plain labels.** A word has the kind with the highest average; consecutive words of one
  kind are one span, unless a label begins a span between them.
- **BIOES (BILOU).** The most probable sequence of labels among those that are valid (Viterbi 1967):
  a span is S, or B, any number of I, and E, of one kind. A label that contradicts the sequence is
  not impossible, only improbable (`_ADDED_BOUNDARY`, `_IGNORED_BOUNDARY`): a lone `E-PER` is still
  a name. The first of two sequences that are equally probable is taken, in the order of the labels.

**Parts.** Labels such as given name and surname, or street, building and city, are parts of one
value. Parts that follow each other become one span: names with a blank between them, or a comma
after a surname; parts of an address also with a comma or a line end. A part that the span has
already begins a new one (`Ann Roe Ben Poe`, `Riverton, Mill Hill`).

The score of a span is the mean, or the minimum (`least`), of the scores of its words, rounded to a
thousandth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sanitize.array_types import F32, F64, I64, Mask
from sanitize.core.span_table import ArrayTable
from sanitize.text.label_aliases import get_part_by_label
from sanitize.text.token_classification.tagger import TaggedTokens

# prefixes of labels that begin a span, and that end one
_BEGIN_PREFIXES, _END_PREFIXES = ("BUS", "LEUS")
# the probability of a sequence with a boundary that the label beside it does not have, and without
# one that it has
_ADDED_BOUNDARY, _IGNORED_BOUNDARY = 0.05, 0.005
_SMALLEST = 1e-30
_NAME_GAP, _SURNAME_GAP = (
    re.compile(r"[.]?[ \t\u00a0]{0,2}|-"),
    re.compile(r"[.]?[ \t\u00a0]{0,2}|-|, ?"),
)
_ADDRESS_GAP = re.compile(r"[ \t\u00a0]*[,;.·-]?[ \t\u00a0]*(?:\r?\n[>| \t]{0,12})?")
_NAME_ORDER = ("prefix", "given", "middle", "surname")


@dataclass(frozen=True, repr=False)
class LabelScheme:
    """What the labels of a model mean: of each its prefix, its kind (from 1; 0 for none) and its
    part (an index of `parts`, 0 for none)."""

    prefixes: Sequence[str]
    kind: I64
    part: I64
    parts: tuple[str, ...]  # "", then KIND:part
    kinds: tuple[str, ...]

    @classmethod
    def build(
        cls, prefixes: Sequence[str], names: Sequence[str], kind_by_label: dict[str, str]
    ) -> LabelScheme:
        """The scheme of a model's labels, given their prefixes, their names without prefix, and the
        kind of each name ("" for none)."""
        kinds = tuple(dict.fromkeys(kind for kind in kind_by_label.values() if kind))
        label_kinds = [kind_by_label.get(name, "") for name in names]
        part_by_label = get_part_by_label()
        label_parts = [
            f"{kind}:{part}"
            if kind
            and part_by_label.get(name.upper(), ("", ""))[0] == kind
            and (part := part_by_label[name.upper()][1])
            else ""
            for name, kind in zip(names, label_kinds, strict=True)
        ]
        parts = ("", *dict.fromkeys(part for part in label_parts if part))
        return cls(
            tuple(prefixes),
            np.array([kinds.index(kind) + 1 if kind else 0 for kind in label_kinds], np.int64),
            np.array([parts.index(part) for part in label_parts], np.int64),
            parts,
            kinds,
        )

    @property
    def has_ends(self) -> bool:
        """True if labels say where a span ends (BIOES)."""
        return any(prefix in "LE" for prefix in self.prefixes if prefix)


@dataclass(frozen=True, repr=False)
class LabelledSpans(ArrayTable):
    """Spans in some texts: number of the text, start and end (code points), kind (from 1) and
    score."""

    text_no: I64
    start: I64
    end: I64
    kind: I64
    score: F64


@dataclass(frozen=True, repr=False)
class _Words:
    """Words: first and last token, kind, part, whether it begins a span after a word of its kind,
    and its score."""

    first: I64
    last: I64
    kind: I64
    part: I64
    begins: Mask
    score: F64


def decode_spans(
    tokens: TaggedTokens, texts: Sequence[str], scheme: LabelScheme, score_mode: str
) -> LabelledSpans:
    """Returns the spans of the tokens of some texts, sorted; `texts` are the texts that
    `tokens.text_no` counts."""
    words = _label_words(tokens, scheme, score_mode)
    text_no = tokens.text_no[words.first]
    is_span_start = np.append(
        True,
        (np.diff(words.kind) != 0)
        | (np.diff(text_no) != 0)
        | words.begins[1:]
        | (np.diff(words.part) != 0),
    )
    is_span_start[_find_line_ends(tokens, words, texts)] = True
    first_word = np.flatnonzero(is_span_start)
    last_word = np.append(first_word[1:], len(is_span_start)) - 1
    has_kind = np.flatnonzero(words.kind[first_word] > 0)
    counts = (last_word - first_word + 1)[has_kind]
    if score_mode == "least":
        scores = np.asarray(np.minimum.reduceat(words.score, first_word)[has_kind], np.float64)
    else:
        scores = np.asarray(np.add.reduceat(words.score, first_word)[has_kind] / counts, np.float64)
    first_word, last_word = first_word[has_kind], last_word[has_kind]
    spans = LabelledSpans(
        text_no[first_word],
        tokens.start[words.first[first_word]],
        tokens.end[words.last[last_word]],
        words.kind[first_word],
        scores,
    )
    if len(scheme.parts) > 1:
        spans = _join_parts(spans, words.part[first_word], counts, texts, scheme, score_mode)
    return replace(spans, score=np.asarray(np.round(np.clip(spans.score, 0, 1), 3), np.float64))


def _find_line_ends(tokens: TaggedTokens, words: _Words, texts: Sequence[str]) -> I64:
    """The words that are a part of a value, of the kind of the word before them, with a line end
    between the two: tokenizers drop it."""
    is_pair = (words.part[1:] > 0) & (words.kind[1:] == words.kind[:-1])
    rows = np.flatnonzero(is_pair) + 1
    columns = (
        tokens.text_no[words.first[rows]],
        tokens.end[words.last[rows - 1]],
        tokens.start[words.first[rows]],
    )
    gaps = zip(*(column.tolist() for column in columns), strict=True)
    return (
        rows[[start > end and "\n" in texts[text_no][end:start] for text_no, end, start in gaps]]
        if len(rows)
        else rows
    )


def _label_words(tokens: TaggedTokens, scheme: LabelScheme, score_mode: str) -> _Words:
    """The words of the tokens with kind, part, boundary and score. A token without a word number is
    a word of its own."""
    kind_count = len(scheme.kinds)
    # the probability of each token for each kind, and for a span of that kind that begins or ends
    # there
    mass = np.zeros((len(tokens.text_no), kind_count + 1), np.float64)
    begins, ends = np.zeros_like(mass), np.zeros_like(mass)
    for label, (kind, prefix) in enumerate(zip(scheme.kind.tolist(), scheme.prefixes, strict=True)):
        mass[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _BEGIN_PREFIXES:
            begins[:, kind] += tokens.probabilities[:, label]
        if prefix and prefix in _END_PREFIXES:
            ends[:, kind] += tokens.probabilities[:, label]
    is_word_start = np.append(
        True, (np.diff(tokens.text_no) != 0) | (np.diff(tokens.word) != 0) | (tokens.word[1:] < 0)
    )
    first = np.flatnonzero(is_word_start)
    last = np.append(first[1:], len(is_word_start)) - 1
    mean_mass = np.add.reduceat(mass, first, axis=0) / (last - first + 1)[:, None]
    if scheme.has_ends:
        kind, is_begin = _find_best_sequences(
            mean_mass, begins[first], ends[last], mass[first], mass[last], tokens.text_no[first]
        )
    else:
        kind = mean_mass.argmax(axis=1)
        is_begin = begins[first, kind] * 2 > mass[first, kind]
    score = np.take_along_axis(mean_mass, kind[:, None], 1)[:, 0]
    if score_mode == "least":
        score = np.take_along_axis(np.minimum.reduceat(mass, first, axis=0), kind[:, None], 1)[:, 0]
    return _Words(
        first,
        last,
        kind,
        _choose_parts(tokens.probabilities, first, last, kind, scheme),
        is_begin,
        score,
    )


def _choose_parts(probabilities: F32, first: I64, last: I64, kind: I64, scheme: LabelScheme) -> I64:
    """The part of each word: the most probable one of its kind; 0 where the kind has none."""
    part = np.zeros(len(first), np.int64)
    for number in range(1, len(scheme.kinds) + 1):
        labels = np.flatnonzero((scheme.kind == number) & (scheme.part > 0))
        words = np.flatnonzero(kind == number)
        if len(labels) and len(words):
            candidates = np.unique(scheme.part[labels])
            mass = np.stack(
                [
                    probabilities[:, labels[scheme.part[labels] == one]].sum(axis=1)
                    for one in candidates
                ],
                axis=1,
            )
            sums = np.add.reduceat(mass, first, axis=0)[words] / (last - first + 1)[words, None]
            part[words] = candidates[sums.argmax(axis=1)]
    return part


def _find_best_sequences(
    mean_mass: F64, begins: F64, ends: F64, first_mass: F64, last_mass: F64, text_no: I64
) -> tuple[I64, Mask]:
    """The kind of each word, and whether a span begins there, in the most probable valid sequence
    of each text.

    `begins` and `ends` are those of the first and the last token of each word, `first_mass` and
    `last_mass` their probabilities of the kinds. State 0 is outside, then (kind, begins, ends) for
    each kind. Costs a fixed number of array operations per word."""
    with np.errstate(invalid="ignore", divide="ignore"):
        begin = np.where(first_mass > 0, begins / first_mass, 0.5)[:, 1:]
        end = np.where(last_mass > 0, ends / last_mass, 0.5)[:, 1:]
    log_mass = np.log(np.maximum(mean_mass, _SMALLEST))
    log_begin = {
        True: np.log(np.maximum(begin, _ADDED_BOUNDARY)),
        False: np.log(np.maximum(1 - begin, _IGNORED_BOUNDARY)),
    }
    log_end = {
        True: np.log(np.maximum(end, _ADDED_BOUNDARY)),
        False: np.log(np.maximum(1 - end, _IGNORED_BOUNDARY)),
    }
    word_count, kind_count = log_mass.shape[0], log_mass.shape[1] - 1
    outside = log_mass[:, 0]
    # of each word and kind: the sequence so far ends outside or after a span (closed), or inside a
    # span of the kind (open)
    emitted = {
        (is_begin, is_end): log_mass[:, 1:] + log_begin[is_begin] + log_end[is_end]
        for is_begin in (True, False)
        for is_end in (True, False)
    }
    # best closed state of a word: 0 outside, else kind * 2 (+ 1: its span began there)
    came_closed = np.zeros(word_count, np.int64)
    open_began = np.zeros((word_count, kind_count), np.bool_)
    closed, opened = 0.0, np.full(kind_count, -np.inf)
    is_first = np.append(True, np.diff(text_no) != 0)
    # a loop over words, as each one depends on the word before it
    for word in range(word_count):
        if is_first[word]:
            closed, opened = 0.0, np.full(kind_count, -np.inf)
        single, last = closed + emitted[True, True][word], opened + emitted[False, True][word]
        new_open, inner = closed + emitted[True, False][word], opened + emitted[False, False][word]
        open_began[word] = new_open >= inner
        candidates = np.concatenate(
            [[closed + outside[word]], np.stack([last, single], axis=1).ravel()]
        )
        best = int(candidates.argmax())
        came_closed[word] = 0 if best == 0 else best + 1
        closed, opened = float(candidates[best]), np.where(open_began[word], new_open, inner)
    kind, is_begin = np.zeros(word_count, np.int64), np.zeros(word_count, np.bool_)
    inside = -1  # the kind of the span that is open after the word, -1 for none
    for word in range(word_count - 1, -1, -1):
        if word == word_count - 1 or is_first[word + 1]:
            inside = -1  # a text ends outside of a span
        if inside < 0:
            state = int(came_closed[word])
            if state:
                kind[word] = state // 2
                is_begin[word] = state % 2 == 1
                inside = -1 if is_begin[word] else state // 2 - 1
        else:
            kind[word] = inside + 1
            is_begin[word] = open_began[word, inside]
            if is_begin[word]:
                inside = -1
    return kind, is_begin


def _join_parts(
    spans: LabelledSpans,
    part: I64,
    word_counts: I64,
    texts: Sequence[str],
    scheme: LabelScheme,
    score_mode: str,
) -> LabelledSpans:
    """The spans with the parts of one value joined. A loop over spans, which are few beside the
    tokens."""
    rows: list[list[float]] = []  # text, start, end, kind, score, words
    seen: list[str] = []  # the parts of the last row, in order
    columns = (spans.text_no, spans.start, spans.end, spans.kind, spans.score, word_counts, part)
    for text_no, start, end, kind, score, words, part_no in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        name = scheme.parts[part_no].partition(":")[2]
        before = rows[-1] if rows else None
        if (
            name
            and seen
            and before is not None
            and before[0] == text_no
            and before[3] == kind
            and _continues(name, seen, texts[text_no][int(before[2]) : start])
        ):
            total = before[5] + words
            before[4] = (
                min(before[4], score)
                if score_mode == "least"
                else (before[4] * before[5] + score * words) / total
            )
            before[2], before[5] = end, total
            seen.append(name)
        else:
            rows.append([text_no, start, end, kind, score, words])
            seen = [name] if name else []
    table = np.array(rows, np.float64).reshape(-1, 6)
    text_nos, starts, ends, kinds = (table[:, number].astype(np.int64) for number in range(4))
    return LabelledSpans(text_nos, starts, ends, kinds, table[:, 4])


def _continues(part: str, seen: Sequence[str], gap: str) -> bool:
    """True if a part goes on a value that has the parts `seen`, with the text `gap` between
    them."""
    if part not in _NAME_ORDER:
        return part not in seen and len(gap) <= 24 and _ADDRESS_GAP.fullmatch(gap) is not None
    if seen == ["surname"] and part == "given":
        return _SURNAME_GAP.fullmatch(gap) is not None
    in_order = _NAME_ORDER.index(part) >= _NAME_ORDER.index(seen[-1])
    return in_order and _NAME_GAP.fullmatch(gap) is not None
