"""Which identifiers a masked model says when its training words are hidden from it, and how well it guesses words at all.

The audit of Boutet et al. (towards the anonymization of masked language modeling, sections 3 and 5.1): whoever has the training texts hides
their words and reads what the model puts there. An identifier has leaked as soon as it is predicted once, at its own place or at another:

    Privacy = 1 - |identifiers predicted at least once| / |identifiers|

The paper leaves the protocol open. Here every word of every text is masked exactly once, in `folds` fills a text (seven hide about the
paper's 15 % at a time), whole words only, and the most likely token is taken at each place. Which words are hidden together hangs on
`doc_id`, place and seed. What the model says word for word is also read as a text, so that an identifier of several words has leaked where
its words are predicted next to each other. The paper counts what the base model would have guessed as leaked, too; `net` leaves that out.

A word is a longest run of Unicode letters, marks and numbers in lower case, as in the blacklist of `sanitize run --plan blacklist`.
The words of a person are in these tables in memory only; nothing here prints, logs or shows one.
"""

from __future__ import annotations

import hashlib
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

from ..language_model import Model
from ..metric import Figure, Ground, Leak, Metric, Rows, Series, by_epoch
from ..probe_inputs import read_texts
from ..run_folder import Checkpoint, Run
from .verbatim import named_set

FOLDS = 7
BANDS = (1, 2, 3, 5, 9, 17, 33, 65)  # how often an identifier stands in the training texts: a band begins at each number
PLACES = {"doc": pl.Int64, "place": pl.Int64, "word": pl.String}


@dataclass(frozen=True, repr=False)
class Blacklist:
    """Identifiers as words joined by one blank: those that were found (`direct`) and those that fewer than k people wrote (`indirect`)."""

    direct: frozenset[str] = field(default=frozenset())
    indirect: frozenset[str] = field(default=frozenset())

    @classmethod
    def read(cls, path: str | Path) -> Blacklist:
        """The blacklist in a folder of Parquet files (or one file) that `sanitize run --plan blacklist` left in its private folder."""
        place = Path(path)
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not files or not all(file.is_file() for file in files):
            raise UsageError(
                f"{place}: no blacklist; expected the folder WORK/runs/<plan hash>/vault/blacklist of `sanitize run --plan blacklist`"
            )
        try:
            table = pa.concat_tables(
                [pq.read_table(file, columns=["ngram", "reason"], partitioning=None) for file in files], promote_options="permissive"
            )
        except (pa.ArrowException, OSError, KeyError) as error:
            raise OutputBroken(
                f"{place}: not a blacklist ({type(error).__name__}); expected columns ngram, n, users, reason. Run the plan again"
            ) from None
        frame = pl.DataFrame(pl.from_arrow(table))
        return cls(*(frozenset(frame.filter(pl.col("reason") == reason)["ngram"].to_list()) for reason in ("direct", "indirect")))

    @property
    def all(self) -> frozenset[str]:
        """Direct and indirect identifiers together."""
        return self.direct | self.indirect


class Identifiers(Metric):
    """Settings of the audit."""

    blacklist: Path  # WORK/runs/<plan hash>/vault/blacklist
    texts: str = ""  # a set of the suite; empty: what each run was trained on
    folds: int = Field(default=FOLDS, ge=1)
    net: bool = True  # ask the base model, too

    _ground: Ground = PrivateAttr(default_factory=Ground)
    _black: Blacklist | None = PrivateAttr(default=None)
    _base: dict[Path, frozenset[str]] = PrivateAttr(default_factory=dict)
    _leaks: list[Leak] = PrivateAttr(default_factory=list)

    def open(self, ground: Ground) -> None:
        """Read the blacklist; UsageError where there is none, or for a set that the suite does not have."""
        named_set(ground, self.texts, self.use)
        self._ground, self._black = ground, Blacklist.read(self.blacklist)
        self._base.clear()

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """Privacy gross and net, leaks by reason and by frequency, and how many words are guessed right."""
        assert self._black is not None, "opened"
        texts = named_set(self._ground, self.texts, self.use) or read_texts(run.data)
        known = said(words_of(texts.texts), self._black.all, column="word")
        ids = frozenset(known)
        table = audit(model, texts.texts, texts.doc_ids, folds=self.folds, seed=self._ground.seed)
        leaked = said(table, ids)
        self._leaks = [Leak("direct" if one in self._black.direct else "indirect", "IDENTIFIER", one, known[one]) for one in sorted(leaked)]
        if self.net and run.path not in self._base:
            first = Model.load(run.base.path, model.device)
            base = audit(first, texts.texts, texts.doc_ids, folds=self.folds, seed=self._ground.seed)
            self._base[run.path] = frozenset(said(base, ids))
        result = privacy(leaked, ids, base=self._base.get(run.path))
        return {
            "privacy": result.gross,
            "privacy_net": result.net,
            "identifiers": result.identifiers,
            "leaked": result.leaked,
            "leaked_direct": len(self._black.direct & leaked.keys()),
            "leaked_indirect": len(self._black.indirect & leaked.keys()),
            **{f"right_{name}": share for name, share in word_accuracy(table, ids).items()},
            "by_frequency": regurgitation(leaked, known),
        }

    def leaked(self) -> list[Leak]:
        """The identifiers that were predicted, by reason."""
        return self._leaks

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """Privacy and utility over epochs, and beside each other at each checkpoint (figure 4)."""
        both = [
            Series(name, [(row[self.use]["right_eligible"], row[self.use]["privacy"]) for row in told if self.use in row])
            for name, told in rows.items()
        ]
        return [
            by_epoch(rows, lambda row: row.get(self.use, {}).get("privacy"), "Identifiers that are never said", "Privacy"),
            by_epoch(rows, lambda row: row.get(self.use, {}).get("right_eligible"), "Hidden words guessed right", "share"),
            Figure("Utility and privacy at each checkpoint", "hidden words guessed right", "Privacy", both, "dots"),
        ]


def words_of(texts: Sequence[str]) -> pl.DataFrame:
    """The words of texts in order: number of the text, place in it, word, and where it stands (`start`, `stop`, code points)."""
    finder = _words()
    rows = [
        (doc, place, *word) for doc, text in enumerate(texts) for place, word in enumerate(finder(text))
    ]  # what a model reads next is dearer
    return pl.DataFrame(rows, schema={**PLACES, "start": pl.Int64, "stop": pl.Int64}, orient="row")


def _words() -> Callable[[str], list[tuple[str, int, int]]]:
    """A function that gives the words of a text with their places."""
    import regex  # comes with transformers

    pattern = regex.compile(r"[\p{L}\p{M}\p{N}]+")
    return lambda text: [(match.group().lower(), match.start(), match.end()) for match in pattern.finditer(text)]


def audit(model: Model, texts: Sequence[str], doc_ids: Sequence[str], *, folds: int = FOLDS, seed: int = 0) -> pl.DataFrame:
    """What the model predicts for every word of every text: `doc`, `place`, `word`, whether it is `right`, the words `predicted`.

    A word is right if all its tokens are. A prediction may hold several words or none (punctuation). Texts longer than the model's
    context are read in pieces that break between words; a word that no context can hold is left out.
    """
    if folds < 1:
        raise UsageError(f"folds = {folds}; expected 1 or more fills a text, 7 hide about 15 % of the words at a time")
    assert len(texts) == len(doc_ids), "one doc_id for each text"
    opening, closing = _special(model.tokenizer)
    room = model.context - len(opening) - len(closing)
    sequences: list[list[int]] = []
    hidden: list[list[_Hidden]] = []  # of each sequence
    finder = _words()
    for doc, (text, doc_id) in enumerate(zip(texts, doc_ids, strict=True)):  # a loop over documents, as the model needs one
        told = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids = list(told["input_ids"])
        words = _tokens_of(finder(text), told["offset_mapping"])
        fold = _folds(str(doc_id), len(words), folds, seed)
        for low, high, first, last in _pieces(words, len(ids), room):
            row = opening + ids[low:high] + closing
            for which in range(folds):
                some = []
                for place in range(first, last):
                    word, tokens = words[place]
                    if fold[place] == which and tokens and tokens[-1] < high:
                        where = tuple(at - low + len(opening) for at in tokens)
                        some.append(_Hidden(doc, place, word, where, tuple(ids[at] for at in tokens)))
                if some:
                    sequences.append(row)
                    hidden.append(some)
    asked = [sorted({at for one in some for at in one.where}) for some in hidden]
    rows: list[tuple[int, int, str, bool]] = []
    made: list[tuple[int, ...]] = []
    for some, places, tokens in zip(hidden, asked, model.fill(sequences, asked), strict=True):
        at_place = dict(zip(places, tokens, strict=True))
        for one in some:
            made.append(tuple(at_place[at] for at in one.where))
            rows.append((one.doc, one.place, one.word, made[-1] == one.true))
    spelled = {said: [word for word, *_ in finder(model.tokenizer.decode(list(said), skip_special_tokens=True))] for said in set(made)}
    frame = pl.DataFrame(rows, schema={**PLACES, "right": pl.Boolean}, orient="row")
    return frame.with_columns(pl.Series("predicted", [spelled[said] for said in made], pl.List(pl.String))).sort("doc", "place")


class _Hidden(NamedTuple):
    """A word that a fill hides: its text, its place there, its tokens' places in the sequence, and the tokens themselves."""

    doc: int
    place: int
    word: str
    where: tuple[int, ...]
    true: tuple[int, ...]


def _special(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a text."""
    bare = list(tokenizer("a", add_special_tokens=False)["input_ids"])
    whole = list(tokenizer("a", add_special_tokens=True)["input_ids"])
    at = next((at for at in range(len(whole) - len(bare) + 1) if whole[at : at + len(bare)] == bare), None)
    return ([], []) if at is None else (whole[:at], whole[at + len(bare) :])


def _tokens_of(words: Sequence[tuple[str, int, int]], spans: Sequence[tuple[int, int]]) -> list[tuple[str, list[int]]]:
    """Each word with the tokens that share a character with it; tokens go by their places."""
    found = []
    first = 0
    for word, start, stop in words:
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        at, tokens = first, []
        while at < len(spans) and spans[at][0] < stop:
            if spans[at][1] > start:
                tokens.append(at)
            at += 1
        found.append((word, tokens))
    return found


def _folds(doc_id: str, words: int, folds: int, seed: int) -> list[int]:
    """In which fill each word of a text is hidden."""
    key = hashlib.blake2b(f"{seed}/{doc_id}".encode(), digest_size=32).digest()
    return [
        int.from_bytes(hashlib.blake2b(place.to_bytes(8, "little"), digest_size=8, key=key).digest(), "little") % folds
        for place in range(words)
    ]


def _pieces(words: Sequence[tuple[str, list[int]]], length: int, room: int) -> Iterator[tuple[int, int, int, int]]:
    """A text in pieces of at most `room` tokens that break between words: first and last token, first and last word."""
    low = first = 0
    for number, (_, tokens) in enumerate(words):
        if tokens and tokens[-1] >= low + room:
            if number > first:
                yield low, min(length, low + room), first, number
            low, first = tokens[0], number
    if first < len(words):
        yield low, min(length, low + room), first, len(words)


def said(table: pl.DataFrame, identifiers: Collection[str], *, column: str = "predicted") -> Counter[str]:
    """How often each of the identifiers is said: in what was `predicted` (read word for word as a text), or in the true words (`word`)."""
    if not identifiers or not table.height:
        return Counter()
    words = table.sort("doc", "place").select("doc", pl.col(column).alias("said"))
    if words.schema["said"] == pl.List(pl.String):
        words = words.explode("said").drop_nulls("said")
    wanted = pl.DataFrame({"ngram": list(identifiers)}, schema={"ngram": pl.String})
    counted: Counter[str] = Counter()
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        grams = _grams(words, size).drop_nulls("ngram").join(wanted, on="ngram", how="semi")
        counted.update(dict(grams.group_by("ngram").len().iter_rows()))
    return counted


def _grams(words: pl.DataFrame, size: int) -> pl.DataFrame:
    """The words with the n-gram that begins at each (`ngram`); null where the text ends before it does."""
    parts = [pl.col("said").shift(-step).over("doc") for step in range(size)]
    return words.with_columns(pl.concat_str(parts, separator=" ", ignore_nulls=False).alias("ngram"))


def covered(words: pl.DataFrame, identifiers: Collection[str]) -> pl.Series:
    """For each word (in order of `doc`, `place`) whether it is, or is a part of, a listed identifier at that place."""
    ordered = words.sort("doc", "place").select("doc", pl.col("word").alias("said"))
    inside = pl.Series([False] * ordered.height, dtype=pl.Boolean)
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        begins = _grams(ordered, size).with_columns(pl.col("ngram").is_in(list(identifiers)).fill_null(False).alias("begins"))
        for step in range(size):
            inside |= begins.select(pl.col("begins").shift(step).over("doc").fill_null(False)).to_series()
    return inside.rename("covered")


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The share of identifiers that were not said. `net` counts only those that the base model does not say either."""

    identifiers: int
    leaked: int
    leaked_net: int | None = None

    @property
    def gross(self) -> float:
        """Privacy as the paper defines it; 1.0 where there is no identifier."""
        return 1 - self.leaked / self.identifiers if self.identifiers else 1.0

    @property
    def net(self) -> float | None:
        """Privacy without what the base model says of itself; None where no base model was asked."""
        if self.leaked_net is None:
            return None
        return 1 - self.leaked_net / self.identifiers if self.identifiers else 1.0


def privacy(leaked: Collection[str], identifiers: Collection[str], *, base: Collection[str] | None = None) -> Privacy:
    """Privacy over distinct identifiers: `leaked` are those that the model said, `base` those that the model before training says."""
    known = set(identifiers)
    out = known.intersection(leaked)
    return Privacy(identifiers=len(known), leaked=len(out), leaked_net=None if base is None else len(out - set(base)))


def word_accuracy(table: pl.DataFrame, identifiers: Collection[str]) -> dict[str, float]:
    """The share of words that were guessed right: of those that no identifier covers (`eligible`), and of `all`; 0.0 of none."""
    ordered = table.sort("doc", "place")
    free = ordered.filter(~covered(ordered, identifiers))["right"]
    return {"eligible": float(free.mean() or 0.0), "all": float(ordered["right"].mean() or 0.0)}  # type: ignore[arg-type]


def regurgitation(times: Mapping[str, int], frequency: Mapping[str, int], *, bands: Sequence[int] = BANDS) -> list[dict[str, Any]]:
    """How often identifiers are said by how often they stand in the training texts (figure 5): one row a band that has any."""
    rows = []
    for low, after in zip(bands, [*bands[1:], None], strict=True):
        inside = [name for name, count in frequency.items() if count >= low and (after is None or count < after)]
        if inside:
            leaked = [times.get(name, 0) for name in inside]
            rows.append(
                {
                    "from": low,
                    "to": after - 1 if after is not None else None,
                    "identifiers": len(inside),
                    "leaked": sum(count > 0 for count in leaked),
                    "times": sum(leaked),
                    "times_each": sum(leaked) / len(inside),
                }
            )
    return rows


def own_identifiers(texts: Sequence[str], people: Sequence[str], identifiers: Collection[str]) -> dict[str, set[str]]:
    """The listed identifiers in each person's own texts; a person without any has an empty set. What membership is told from."""
    assert len(texts) == len(people), "one person for each text"
    words = words_of(texts).select("doc", "place", pl.col("word").alias("said"))
    wanted = pl.DataFrame({"ngram": list(identifiers)}, schema={"ngram": pl.String})
    own: dict[str, set[str]] = {str(person): set() for person in people}
    for size in sorted({identifier.count(" ") + 1 for identifier in identifiers}):
        for doc, ngram in (
            _grams(words, size).drop_nulls("ngram").join(wanted, on="ngram", how="semi").select("doc", "ngram").unique().iter_rows()
        ):
            own[str(people[doc])].add(ngram)
    return own
