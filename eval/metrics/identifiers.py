"""Identifiers that a masked model predicts when words of its training texts are masked, and its
accuracy on all words.

The audit of Boutet et al. (towards the anonymization of masked language modeling, sections 3 and
5.1): the auditor has the training texts, masks their words and reads the predictions. An identifier
has leaked if it is predicted at least once, at its own position or another:

    Privacy = 1 - |identifiers predicted at least once| / |identifiers|

The paper does not specify the protocol. Here every word of every text is masked exactly once, in
`folds` passes per text (seven mask about the paper's 15 % at a time), whole words only, and the
most likely token is chosen at each position. Which words are masked together depends on `doc_id`,
position and seed. The predicted words are also read as a text: an identifier of several words has
leaked if its words are predicted next to each other. The paper also counts what the base model
predicts as leaked; `net` excludes that.

A word is a longest run of Unicode letters, marks and numbers, in lower case and NFC (a letter and
an accent are one), as in the blacklist of `sanitize run --plan blacklist` and in training. The
words of people are in these tables in memory only; this module never prints, logs or shows one.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, PrivateAttr

from sanitize.errors import OutputBroken, UsageError
from sanitize.storage.private_folder import find_blacklist

from ..language_model import LanguageModel
from ..metric import (
    EvalContext,
    Figure,
    FigureSeries,
    LeakedValue,
    Metric,
    MetricRows,
    make_epoch_figure,
)
from ..run_folder import Checkpoint, RunFolder
from ..trained_documents import read_seen_texts
from .verbatim import get_text_set

DEFAULT_FOLDS = 7
BAND_STARTS = (1, 2, 3, 5, 9, 17, 33, 65)  # first occurrence count of each band
WORD_SCHEMA = {"doc": pl.Int64, "place": pl.Int64, "word": pl.String}


@dataclass(frozen=True, repr=False)
class IdentifierSets:
    """Identifiers as words joined by one blank: found values (`direct`) and words that fewer than k
    people wrote (`indirect`)."""

    direct: frozenset[str] = field(default=frozenset())
    indirect: frozenset[str] = field(default=frozenset())

    @classmethod
    def read(cls, path: str | Path) -> IdentifierSets:
        """Read the blacklist that `sanitize run --plan blacklist` wrote, from what `find_blacklist`
        takes."""
        source = find_blacklist(path)
        files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
        try:
            table = pa.concat_tables(
                [
                    pq.read_table(file, columns=["ngram", "reason"], partitioning=None)
                    for file in files
                ],
                promote_options="permissive",
            )
        except (pa.ArrowException, OSError, KeyError) as error:
            raise OutputBroken(
                f"{source}: not a blacklist ({type(error).__name__}); expected columns ngram, n,"
                " users, reason. Run the plan again"
            ) from None
        frame = pl.DataFrame(pl.from_arrow(table))
        frame = frame.with_columns(pl.col("ngram").map_elements(fold_word, pl.String))
        return cls(
            *(
                frozenset(frame.filter(pl.col("reason") == reason)["ngram"].to_list())
                for reason in ("direct", "indirect")
            )
        )

    @property
    def combined(self) -> frozenset[str]:
        """Direct and indirect identifiers."""
        return self.direct | self.indirect


class Identifiers(Metric):
    """Settings of the audit."""

    blacklist: (
        Path  # the private folder WORK of `sanitize run --plan blacklist`, or a blacklist in it
    )
    texts: str = ""  # a text set of the suite; empty: the training data of each run
    folds: int = Field(default=DEFAULT_FOLDS, ge=1)
    net: bool = True  # also audit the base model

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)
    _identifier_sets: IdentifierSets | None = PrivateAttr(default=None)
    _base_leaks: dict[Path, frozenset[str]] = PrivateAttr(default_factory=dict)
    _leaked_values: list[LeakedValue] = PrivateAttr(default_factory=list)

    def setup(self, context: EvalContext) -> None:
        """Read the blacklist; UsageError if there is none, or for a text set that the suite does
        not have."""
        get_text_set(context, self.texts, self.use)
        self._context, self._identifier_sets = context, IdentifierSets.read(self.blacklist)
        self._base_leaks.clear()

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return gross and net privacy, leaks by reason and by frequency, and the share of words
        that are predicted right."""
        assert self._identifier_sets is not None, "set up"
        texts = get_text_set(self._context, self.texts, self.use) or read_seen_texts(run)
        known = count_identifiers(
            tokenize_words(texts.texts), self._identifier_sets.combined, column="word"
        )
        ids = frozenset(known)
        table = predict_hidden_words(
            model, texts.texts, texts.doc_ids, folds=self.folds, seed=self._context.seed
        )
        leaked = count_identifiers(table, ids)
        self._leaked_values = [
            LeakedValue(
                "direct" if one in self._identifier_sets.direct else "indirect",
                "IDENTIFIER",
                one,
                known[one],
            )
            for one in sorted(leaked)
        ]
        if self.net and run.path not in self._base_leaks:
            first = model.load_another(run.base_checkpoint.path)
            base = predict_hidden_words(
                first, texts.texts, texts.doc_ids, folds=self.folds, seed=self._context.seed
            )
            self._base_leaks[run.path] = frozenset(count_identifiers(base, ids))
        result = compute_privacy(leaked, ids, base_leaked=self._base_leaks.get(run.path))
        return {
            "privacy": result.gross,
            "privacy_net": result.net,
            "identifiers": result.identifier_count,
            "leaked": result.leaked_count,
            "leaked_direct": len(self._identifier_sets.direct & leaked.keys()),
            "leaked_indirect": len(self._identifier_sets.indirect & leaked.keys()),
            **{f"right_{name}": share for name, share in compute_word_accuracy(table, ids).items()},
            "by_frequency": count_leaks_by_frequency(leaked, known),
        }

    def list_leaked_values(self) -> list[LeakedValue]:
        """Return the identifiers that were predicted, by reason."""
        return self._leaked_values

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return figures of privacy and utility over epochs, and of one against the other at each
        checkpoint (figure 4)."""
        both = [
            FigureSeries(
                name,
                [
                    (row[self.use]["right_eligible"], row[self.use]["privacy"])
                    for row in run_rows
                    if self.use in row
                ],
            )
            for name, run_rows in rows.items()
        ]
        return [
            make_epoch_figure(
                rows,
                lambda row: row.get(self.use, {}).get("privacy"),
                "Identifiers that are never predicted",
                "Privacy",
            ),
            make_epoch_figure(
                rows,
                lambda row: row.get(self.use, {}).get("right_eligible"),
                "Hidden words guessed right",
                "share",
            ),
            Figure(
                "Utility and privacy at each checkpoint",
                "hidden words guessed right",
                "Privacy",
                both,
                "dots",
            ),
        ]


def tokenize_words(texts: Sequence[str]) -> pl.DataFrame:
    """Return the words of texts in order: `doc` (text number), `place` (word number in it), `word`,
    `start` and `end` (code points)."""
    finder = _make_word_finder()
    # cheap compared with the model
    rows = [
        (doc, place, *word)
        for doc, text in enumerate(texts)
        for place, word in enumerate(finder(text))
    ]
    return pl.DataFrame(
        rows, schema={**WORD_SCHEMA, "start": pl.Int64, "end": pl.Int64}, orient="row"
    )


def fold_word(word: str) -> str:
    """Return a word or n-gram in the form in which words are compared: lower case, then NFC."""
    return unicodedata.normalize("NFC", word.lower())


def _make_word_finder() -> Callable[[str], list[tuple[str, int, int]]]:
    """Return a function that splits a text into words with their spans in code points."""
    import regex  # comes with transformers

    pattern = regex.compile(r"[\p{L}\p{M}\p{N}]+")
    return lambda text: [
        (fold_word(match.group()), match.start(), match.end()) for match in pattern.finditer(text)
    ]


def predict_hidden_words(
    model: LanguageModel,
    texts: Sequence[str],
    doc_ids: Sequence[str],
    *,
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
) -> pl.DataFrame:
    """Mask every word of every text once and let the model predict it; returns one row per word.

    Columns: `doc`, `place` (number of the word in its text), `word`, `right` (the prediction equals
    it), `predicted` (the predicted words). A word is right if all its tokens are. A prediction may
    have several words or none (punctuation). Texts longer than the model's context are split
    between words; a word that is longer than the context is left out.
    """
    if folds < 1:
        raise UsageError(
            f"folds = {folds}; expected 1 or more passes per text; 7 mask about 15 % of the words"
            " at a time"
        )
    assert len(texts) == len(doc_ids), "one doc_id for each text"
    opening, closing = model.special_ids
    max_tokens = model.context_length - len(opening) - len(closing)
    sequences: list[list[int]] = []
    hidden: list[list[_HiddenWord]] = []  # of each sequence
    finder = _make_word_finder()
    for doc, (text, doc_id) in enumerate(zip(texts, doc_ids, strict=True)):
        # a loop over documents, as the model needs one
        encoded = model.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids = list(encoded["input_ids"])
        words = _align_tokens(finder(text), encoded["offset_mapping"])
        fold = _assign_folds(str(doc_id), len(words), folds, seed)
        for low, high, first, last in _split_at_words(words, len(ids), max_tokens):
            row = opening + ids[low:high] + closing
            for current_fold in range(folds):
                hidden_words = []
                for place in range(first, last):
                    word, tokens = words[place]
                    if fold[place] == current_fold and tokens and tokens[-1] < high:
                        positions = tuple(at - low + len(opening) for at in tokens)
                        hidden_words.append(
                            _HiddenWord(
                                doc, place, word, positions, tuple(ids[at] for at in tokens)
                            )
                        )
                if hidden_words:
                    sequences.append(row)
                    hidden.append(hidden_words)
    masked_positions = [
        sorted({at for hidden_word in hidden_words for at in hidden_word.token_positions})
        for hidden_words in hidden
    ]
    rows: list[tuple[int, int, str, bool]] = []
    predictions: list[tuple[int, ...]] = []
    for hidden_words, sorted_positions, tokens in zip(
        hidden, masked_positions, model.fill_masks(sequences, masked_positions), strict=True
    ):
        token_at_position = dict(zip(sorted_positions, tokens, strict=True))
        for hidden_word in hidden_words:
            predictions.append(tuple(token_at_position[at] for at in hidden_word.token_positions))
            rows.append(
                (
                    hidden_word.text_number,
                    hidden_word.word_number,
                    hidden_word.word,
                    predictions[-1] == hidden_word.token_ids,
                )
            )
    words_of_prediction = {
        predicted_ids: [
            word
            for word, *_ in finder(
                model.tokenizer.decode(list(predicted_ids), skip_special_tokens=True)
            )
        ]
        for predicted_ids in set(predictions)
    }
    frame = pl.DataFrame(rows, schema={**WORD_SCHEMA, "right": pl.Boolean}, orient="row")
    return frame.with_columns(
        pl.Series(
            "predicted",
            [words_of_prediction[predicted_ids] for predicted_ids in predictions],
            pl.List(pl.String),
        )
    ).sort("doc", "place")


class _HiddenWord(NamedTuple):
    """A masked word: its text, its number there, the positions of its tokens in the sequence, and
    the tokens themselves."""

    text_number: int
    word_number: int
    word: str
    token_positions: tuple[int, ...]
    token_ids: tuple[int, ...]


def _align_tokens(
    words: Sequence[tuple[str, int, int]], token_spans: Sequence[tuple[int, int]]
) -> list[tuple[str, list[int]]]:
    """Return each word with the numbers of the tokens that share a character with it."""
    found = []
    first = 0
    for word, start, end in words:
        while first < len(token_spans) and token_spans[first][1] <= start:
            first += 1
        at, tokens = first, []
        while at < len(token_spans) and token_spans[at][0] < end:
            if token_spans[at][1] > start:
                tokens.append(at)
            at += 1
        found.append((word, tokens))
    return found


def _assign_folds(doc_id: str, word_count: int, folds: int, seed: int) -> list[int]:
    """Return the fold in which each word of a text is masked."""
    key = hashlib.blake2b(f"{seed}/{doc_id}".encode(), digest_size=32).digest()
    return [
        int.from_bytes(
            hashlib.blake2b(place.to_bytes(8, "little"), digest_size=8, key=key).digest(), "little"
        )
        % folds
        for place in range(word_count)
    ]


def _split_at_words(
    words: Sequence[tuple[str, list[int]]], token_count: int, max_tokens: int
) -> Iterator[tuple[int, int, int, int]]:
    """Split a text between words into pieces of at most `max_tokens` tokens: yield token start,
    end, word start, end (half-open)."""
    low = first = 0
    for number, (_, tokens) in enumerate(words):
        if tokens and tokens[-1] >= low + max_tokens:
            if number > first:
                yield low, min(token_count, low + max_tokens), first, number
            low, first = tokens[0], number
    if first < len(words):
        yield low, min(token_count, low + max_tokens), first, len(words)


def count_identifiers(
    word_table: pl.DataFrame, identifiers: Collection[str], *, column: str = "predicted"
) -> Counter[str]:
    """Count how often each identifier occurs in the words of a column: `predicted` (read as a text)
    or the true words (`word`)."""
    if not identifiers or not word_table.height:
        return Counter()
    words = word_table.sort("doc", "place").select("doc", pl.col(column).alias("token"))
    if words.schema["token"] == pl.List(pl.String):
        words = words.explode("token").drop_nulls("token")
    identifier_table = pl.DataFrame({"ngram": list(identifiers)}, schema={"ngram": pl.String})
    counted: Counter[str] = Counter()
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        grams = (
            _ngrams(words, size).drop_nulls("ngram").join(identifier_table, on="ngram", how="semi")
        )
        counted.update(dict(grams.group_by("ngram").len().iter_rows()))
    return counted


def _ngrams(words: pl.DataFrame, size: int) -> pl.DataFrame:
    """Return the words with the n-gram that begins at each (`ngram`); null if it would exceed the
    text."""
    parts = [pl.col("token").shift(-step).over("doc") for step in range(size)]
    return words.with_columns(
        pl.concat_str(parts, separator=" ", ignore_nulls=False).alias("ngram")
    )


def mark_covered_words(words: pl.DataFrame, identifiers: Collection[str]) -> pl.Series:
    """Return for each word (in order of `doc`, `place`) whether it is part of an occurrence of an
    identifier."""
    ordered = words.sort("doc", "place").select("doc", pl.col("word").alias("token"))
    is_covered = pl.Series([False] * ordered.height, dtype=pl.Boolean)
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        ngram_starts = _ngrams(ordered, size).with_columns(
            pl.col("ngram").is_in(list(identifiers)).fill_null(False).alias("begins")
        )
        for step in range(size):
            is_covered |= ngram_starts.select(
                pl.col("begins").shift(step).over("doc").fill_null(False)
            ).to_series()
    return is_covered.rename("covered")


@dataclass(frozen=True, kw_only=True)
class IdentifierPrivacy:
    """The share of identifiers that were not predicted. `net` does not count leaks that the base
    model predicts as well."""

    identifier_count: int
    leaked_count: int
    leaked_net_count: int | None = None

    @property
    def gross(self) -> float:
        """Privacy as the paper defines it; 1.0 if there are no identifiers."""
        return 1 - self.leaked_count / self.identifier_count if self.identifier_count else 1.0

    @property
    def net(self) -> float | None:
        """Privacy without the leaks that the base model predicts as well; None if the base model
        was not audited."""
        if self.leaked_net_count is None:
            return None
        return 1 - self.leaked_net_count / self.identifier_count if self.identifier_count else 1.0


def compute_privacy(
    leaked: Collection[str],
    identifiers: Collection[str],
    *,
    base_leaked: Collection[str] | None = None,
) -> IdentifierPrivacy:
    """Compute privacy over distinct identifiers: `leaked` were predicted by the model,
    `base_leaked` by the model before training."""
    known = set(identifiers)
    leaked_identifiers = known.intersection(leaked)
    return IdentifierPrivacy(
        identifier_count=len(known),
        leaked_count=len(leaked_identifiers),
        leaked_net_count=(
            None if base_leaked is None else len(leaked_identifiers - set(base_leaked))
        ),
    )


def compute_word_accuracy(
    predictions: pl.DataFrame, identifiers: Collection[str]
) -> dict[str, float]:
    """Return the share of words that were predicted right: of words outside identifiers
    (`eligible`), and of `all`; 0.0 if none."""
    ordered = predictions.sort("doc", "place")
    eligible = ordered.filter(~mark_covered_words(ordered, identifiers))["right"]
    return {"eligible": float(eligible.mean() or 0.0), "all": float(ordered["right"].mean() or 0.0)}  # type: ignore[arg-type]


def count_leaks_by_frequency(
    leak_counts: Mapping[str, int],
    occurrences: Mapping[str, int],
    *,
    bands: Sequence[int] = BAND_STARTS,
) -> list[dict[str, Any]]:
    """Return how often identifiers are predicted, by their occurrences in the training texts
    (figure 5): one row per non-empty band."""
    rows = []
    for low, after in zip(bands, [*bands[1:], None], strict=True):
        inside = [
            name
            for name, count in occurrences.items()
            if count >= low and (after is None or count < after)
        ]
        if inside:
            leaked = [leak_counts.get(name, 0) for name in inside]
            rows.append(
                {
                    "from": low,
                    "to": after - 1 if after is not None else None,
                    "identifiers": len(inside),
                    "leaked": sum(count > 0 for count in leaked),
                    "predictions": sum(leaked),
                    "predictions_per_identifier": sum(leaked) / len(inside),
                }
            )
    return rows


def find_own_identifiers(
    texts: Sequence[str], user_ids: Sequence[str], identifiers: Collection[str]
) -> dict[str, set[str]]:
    """Return the identifiers that occur in each person's own texts, an empty set without any; used
    by `membership`."""
    assert len(texts) == len(user_ids), "one person for each text"
    words = tokenize_words(texts).select("doc", "place", pl.col("word").alias("token"))
    identifier_table = pl.DataFrame({"ngram": list(identifiers)}, schema={"ngram": pl.String})
    identifiers_by_user: dict[str, set[str]] = {str(person): set() for person in user_ids}
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        for doc, ngram in (
            _ngrams(words, size)
            .drop_nulls("ngram")
            .join(identifier_table, on="ngram", how="semi")
            .select("doc", "ngram")
            .unique()
            .iter_rows()
        ):
            identifiers_by_user[str(user_ids[doc])].add(ngram)
    return identifiers_by_user
