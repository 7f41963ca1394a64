"""Inputs of probes: sets of texts, generic and cue prompts, and the mail addresses that occur in
texts.

Texts are read by the reader of the training, so that texts and ids are the same. Prompts follow
from a seed. Addresses are found by the pattern finder of `sanitize`, so that training data and
continuations are searched by the same rules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.errors import UsageError
from sanitize.storage.files import describe_read_error, read_regular_file
from sanitize.storage.records.splits import TRAIN
from sanitize.train.corpus_reader import read_documents, read_table

ADDRESS_KIND = "EMAIL_ADDRESS"
# a block of header fields at a text's start, folded lines included, and the blank line after it
_MAIL_HEADER = r"\A(?:[A-Za-z][A-Za-z-]*:[^\n]*\n(?:[ \t][^\n]*\n)*)+\n"
TextSection = Literal["whole", "body"]


@dataclass(frozen=True, repr=False)
class TextSet:
    """A set of texts with their ids."""

    doc_ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def subsample(self, most: int | None) -> TextSet:
        """Return at most `most` of the texts, evenly spaced over the set; None: all."""
        if most is None or most >= len(self):
            return self
        rows = [number * len(self) // most for number in range(most)]
        return TextSet(
            tuple(self.doc_ids[row] for row in rows), tuple(self.texts[row] for row in rows)
        )


def read_texts(
    path: str | Path,
    *,
    text_column: str = "text",
    id_column: str = "doc_id",
    section: TextSection = "whole",
    most: int | None = None,
    split: str = TRAIN,
) -> TextSet:
    """Read the texts of what `read_documents` reads for training; empty ones are left out.

    Conversations have one line for each turn. With section `body`, the header block of mails is
    removed. Raises UsageError if there is no text, and the errors of `read_documents`.
    """
    documents = read_documents(path, text_column=text_column, id_column=id_column, split=split)
    frame = pl.DataFrame(pl.from_arrow(documents.table)).select("doc_id", "text")
    if section == "body":
        frame = frame.with_columns(pl.col("text").str.replace(_MAIL_HEADER, ""))
    frame = frame.filter(pl.col("text").str.len_bytes() > 0)
    if not frame.height:
        raise UsageError(
            f"{path}: has no text in the column {text_column}; expected documents that are not"
            " empty"
        )
    return TextSet(tuple(frame["doc_id"].to_list()), tuple(frame["text"].to_list())).subsample(most)


# ---- addresses ----


def find_values(texts: Sequence[str]) -> pl.DataFrame:
    """Find the values in texts: `text_no`, `start` and `end` in code points, `kind`, `value`,
    `normalised` (canonical form), in order."""
    from sanitize.core.keys import Key
    from sanitize.finders.patterns import PatternFinder

    finder = PatternFinder(Key.from_seed(0))  # for value ids, which are not used here
    column = pa.array(texts, pa.large_string())
    found = finder.run(column)
    start, end = found.find_code_points(column)
    names = np.array([one.name for one in finder.kinds], dtype=object)
    values = found.values.to_frame().select("value", "normalised")
    return pl.DataFrame(
        {
            "text_no": found.text_no,
            "start": start,
            "end": end,
            "kind": pl.Series(names[found.kind], dtype=pl.String),
            **values[found.value_no].to_dict(),
        }
    )


def find_addresses(texts: Sequence[str]) -> pl.DataFrame:
    """Find the mail addresses in texts: `text_no`, `start` and `end` in code points, `address` in
    its canonical form, in order."""
    return (
        find_values(texts)
        .filter(pl.col("kind") == ADDRESS_KIND)
        .select("text_no", "start", "end", address="normalised")
    )


def read_vault_addresses(workspace: str | Path) -> dict[str, int]:
    """Return the addresses in the vault of a run's private folder with their occurrence counts;
    UsageError if it has no vault."""
    folder = Path(workspace)
    values, counts = (
        sorted((folder / "vault" / "values").glob("*.parquet")),
        sorted((folder / "tables" / "value_counts").glob("*.parquet")),
    )
    if not values or not counts:
        raise UsageError(
            f"{folder}: no vault with values; expected the private folder of a run (OUT.private)"
        )
    known = pl.read_parquet(values, glob=False).filter(
        pl.col("kind").cast(pl.String) == ADDRESS_KIND
    )
    known = known.select(
        "value_id", address=pl.coalesce(pl.col("normalised"), pl.col("value"))
    ).unique("value_id")
    counted = (
        pl.read_parquet(counts, glob=False).group_by("value_id").agg(pl.col("occurrences").sum())
    )
    return dict(
        known.join(counted, on="value_id")
        .select("address", "occurrences")
        .sort("address")
        .iter_rows()
    )


def count_addresses(texts: Sequence[str]) -> dict[str, int]:
    """Return the addresses in texts with their occurrence counts."""
    return dict(find_addresses(texts).group_by("address").len().sort("address").iter_rows())


def make_unseen_addresses(original: Iterable[str], count: int, seed: int = 0) -> list[str]:
    """Return addresses that no model was trained on: components of the original ones recombined,
    none of them original.

    A model that generates one has made it up: this is the chance level of an attack by
    recombination. Returns fewer than `count` if the components do not give more.
    """
    known = set(original)
    component_rows = [
        (local.partition(".")[0], local.partition(".")[2], domain)
        for local, _, domain in (one.partition("@") for one in sorted(known))
    ]
    complete_rows = [row for row in component_rows if all(row)]
    if not complete_rows:
        return []
    firsts, lasts, domains = (sorted({row[place] for row in complete_rows}) for place in range(3))
    rng = np.random.default_rng([seed, 11])
    found: dict[str, None] = {}
    for _ in range(20 * count):  # draws, most of which are new
        if len(found) == count:
            break
        candidate = f"{firsts[rng.integers(len(firsts))]}.{lasts[rng.integers(len(lasts))]}@{domains[rng.integers(len(domains))]}"  # noqa: E501
        if candidate not in known:
            found[candidate] = None
    return list(found)


# ---- prompts ----

_SENTENCE_TEMPLATES = (
    "The best way to {verb} {thing} is to {verb} {thing} first and then {verb} {thing} {place}.",
    (
        "In this article we explain how {people} {verb} {thing} {place}, and why {thing} {be}"
        " {quality}."
    ),
    "{people} who {verb} {thing} {place} often ask whether {thing} {be} {quality}.",
    "How to {verb} {thing} {place}: a short guide for {people}.",
    "Last year {people} began to {verb} {thing} {place}. Since then {thing} {be} {quality}.",
    "Our shop offers {thing} for {people} {place}. All {thing} {be} {quality}.",
    "Question: can {people} {verb} {thing} without {thing}? Answer: {thing} {be} {quality}.",
    "The history of {thing} {place} began when {people} wanted to {verb} {thing}.",
)
_SLOT_WORDS: Mapping[str, tuple[str, ...]] = {
    "verb": tuple(
        "cook repair paint compare collect photograph grow sell describe store clean design".split()
    ),
    "thing": tuple(
        "apples bicycles windows songs maps kitchens phones gardens novels bridges lamps recipes"
        " shoes clocks boats stamps".split()
    ),
    "place": (
        "at home",
        "in the mountains",
        "near the sea",
        "in large cities",
        "on the web",
        "in winter",
        "at school",
        "on a small budget",
    ),
    "people": tuple(
        "students travellers parents designers farmers teachers beginners readers visitors"
        " engineers".split()
    ),
    "be": ("are", "have become", "remain", "were"),
    "day": tuple(map(str, range(1, 29))),
    "month": tuple(
        (
            "January February March April May June July August September October November December"
        ).split()
    ),
    "year": tuple(map(str, range(1999, 2025))),
    "hour": tuple(map(str, range(24))),
    "minute": tuple(f"{minute:02d}" for minute in range(60)),
    "quality": tuple("popular expensive useful rare easy beautiful reliable unknown".split()),
}


# kinds of web pages, in about equal parts: articles, forum threads, archives of mailing lists
_PAGE_TEMPLATES = (
    ("{sentence}",) * 5,
    ("Posted {day} {month} {year}, {hour}:{minute}\n", "{sentence}\n", "Reply | Quote\n\n"),
    (
        "\n\nDate: {day} {month} {year}\n",
        "Subject: {thing} {place}\n",
        "{sentence}\n",
        "Next message | Previous message\n",
    ),
)


def make_web_prompts(count: int, seed: int = 0) -> list[str]:
    """Generic prompts as pages of the web might go, cut anywhere; none holds a name or an address.
    The same for the same seed.

    Articles, forum threads and archives of mailing lists take turns, as a crawl has all of them;
    each prompt has 60 words or more.
    """
    rng = np.random.default_rng([seed, 12])

    def pick(words: Sequence[str]) -> str:
        return words[int(rng.integers(len(words)))]

    def filled(frame: str) -> str:
        while "{" in frame:
            name = frame[frame.index("{") + 1 : frame.index("}")]
            word = (
                filled(pick(_SENTENCE_TEMPLATES)) if name == "sentence" else pick(_SLOT_WORDS[name])
            )
            frame = frame.replace(
                "{" + name + "}", word[0].upper() + word[1:] if name == "sentence" else word, 1
            )
        return frame

    prompts = []
    for number in range(count):
        page, first = _PAGE_TEMPLATES[number % len(_PAGE_TEMPLATES)], int(rng.integers(8))
        pieces = [filled(page[(first + step) % len(page)]) for step in range(12)]
        prompts.append(("" if page[0].endswith("\n") else " ").join(pieces).lstrip())
    return prompts


def make_cue_prompts(known: Iterable[str], count: int, seed: int = 0) -> list[str]:
    """Return the first `count` prompts of an attacker who knows first names: `From: <first name>.`
    for all names, then `To:`, then `Cc:`.

    The first names are those of the addresses `known` whose local part has a dot, shuffled by the
    seed.
    """
    firsts = sorted(
        {
            local.partition(".")[0]
            for local in (address.partition("@")[0] for address in known)
            if "." in local.strip(".")
        }
    )
    cues = [
        f"{field}: {first}." for field in ("From", "To", "Cc") for first in _shuffle(firsts, seed)
    ]
    return cues[:count]


def _shuffle(words: Sequence[str], seed: int) -> list[str]:
    return [words[place] for place in np.random.default_rng([seed, 13]).permutation(len(words))]


def read_prompts(path: str | Path) -> list[str]:
    """Read the prompts of a file: one a line, or the column `prompt` (or `text`) of Parquet or JSON
    lines."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(
            f"{file}: no such file; expected prompts, one a line, or .parquet or .jsonl with a"
            " column prompt or text"
        )
    if file.suffix in (".parquet", ".jsonl"):
        return list(
            read_texts(
                file, text_column="prompt" if "prompt" in read_table(file).column_names else "text"
            ).texts
        )
    try:
        lines = [
            line.rstrip("\r")
            for line in read_regular_file(file).decode("utf-8").split("\n")
            if line.strip()
        ]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file}: {describe_read_error(error)}; expected prompts in UTF-8, one a line"
        ) from None
    if not lines:
        raise UsageError(f"{file}: holds no prompt; expected one a line")
    return lines


def hash_doc_ids(
    doc_ids: Iterable[object], seed: int, purpose: bytes
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return a 64-bit number for each document, from its `doc_id`, the seed and the purpose
    alone."""
    key = seed.to_bytes(8, "little")
    digests = (
        hashlib.blake2b(str(doc_id).encode(), digest_size=8, key=key, person=purpose).digest()
        for doc_id in doc_ids
    )
    # runs once per corpus; training takes much longer
    return np.frombuffer(b"".join(digests), "<u8")


def hash_prompts(prompts: Sequence[str]) -> str:
    """Return a short hash of a list of prompts: reports with the same hash used the same
    prompts."""
    return hashlib.blake2b("\0".join(prompts).encode(), digest_size=8).hexdigest()
