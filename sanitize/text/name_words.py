"""What names and addresses say of a person: their words, each with its place and what it is, and what may stand for a name in an address.

    texts of values -> words (given name, surname, between, alone)          names -> forms (`asmith`, `jpmartin`, `juergengross`)

Words are compared in small letters without accents, since addresses have none. Costs a pass over distinct values.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import I64, Buffers, arrow, cut, matches
from sanitize.kinds.kind import kind as kind_named
from sanitize.kinds.person import Words, hyphened, listed, plain

PERSON, ADDRESS = "PERSON", "EMAIL_ADDRESS"
FIRST, LAST, MIDDLE, ALONE = 0, 1, 2, 3  # what a word is in its name: the first two are the numbers of the anchors as well
NAME = ("given", "between", "surname", "long_given", "long_surname")
_LETTERS = r"[\p{L}\p{M}]+"


def words_of(texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The words of some texts (columns text, kind, value): text, start, stop (in the value), old as it is written, word in small letters
    without accents, letter, role, name (of a person's name, not of an address); and the texts that have both a given name and a surname:
    text, and the words of each part with blanks between (`NAME`)."""
    frames = [_of_names(texts.filter(pl.col("kind") == PERSON)), _of_addresses(texts.filter(pl.col("kind") == ADDRESS))]
    words = pl.concat(frames)
    told = words.with_columns(long=plain(words["old"], long=True)).filter(pl.col("role") != ALONE)
    parts = {"given": ("word", FIRST), "between": ("word", MIDDLE), "surname": ("word", LAST)}
    parts |= {"long_given": ("long", FIRST), "long_surname": ("long", LAST)}
    names = told.group_by("text", maintain_order=True).agg(
        pl.col(of).filter(pl.col("role") == role).str.join(" ").alias(name) for name, (of, role) in parts.items()
    )
    return words, names.filter(pl.col("given") != "", pl.col("surname") != "").select("text", *NAME)


def _of_names(texts: pl.DataFrame) -> pl.DataFrame:
    found = Words.of(texts["value"])
    role = np.where(found.first, FIRST, np.where(found.final, LAST, MIDDLE))
    role = np.where(_one_run(found.row, found.group, texts.height, ~found.stays)[found.row], ALONE, role)
    base = found.buffers.offsets[found.row]
    frame = _frame(texts, found.row, found.start - base, found.stop - base, found.text, role, name=True)
    return frame.filter(pl.Series(~found.stays))


def _of_addresses(texts: pl.DataFrame) -> pl.DataFrame:
    """Of the local part: its first run of letters is a given name and its last a surname, where it has several. A hyphen joins two of them
    where a third stands beside (`jean-paul.martin`)."""
    split = kind_named(ADDRESS).split
    assert split is not None
    parts = split(texts["value"])
    rows, starts, stops, words = [], [], [], []
    before = parts["lead"].str.len_bytes().to_numpy().astype(np.int64)
    for name, gap in (("first", "sep"), ("last", "at")):
        buffers = Buffers.of(arrow(parts[name]))
        start, stop = matches(buffers, _LETTERS)
        row = np.searchsorted(buffers.offsets, start, side="right") - 1
        shift = before[row] - buffers.offsets[row]
        rows.append(row)
        starts.append(start + shift)
        stops.append(stop + shift)
        words.append(pl.Series(cut(buffers, start, stop), dtype=pl.String))
        before = before + (parts[name].str.len_bytes() + parts[gap].str.len_bytes()).to_numpy().astype(np.int64)
    row, start, stop = (np.concatenate(some) for some in (rows, starts, stops))
    order = np.lexsort((start, row))
    row, start, stop = row[order], start[order], stop[order]
    local = Buffers.of(arrow(parts.select(pl.concat_str("lead", "first", "sep", "last")).to_series()))
    run = hyphened(local, row, local.offsets[row] + start, local.offsets[row] + stop)
    run = np.where(_one_run(row, run, texts.height)[row], len(row) + np.arange(len(row)), run)
    new, final = np.append(True, np.diff(row) != 0)[: len(row)], np.append(np.diff(row) != 0, True)[: len(row)]
    new, final = np.isin(run, run[new]), np.isin(run, run[final])
    role = np.where(new & final, ALONE, np.where(new, FIRST, np.where(final, LAST, MIDDLE)))
    return _frame(texts, row, start, stop, pl.concat(words).gather(order), role, name=False)


def _one_run(row: I64, run: I64, count: int, where: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
    """True for rows whose words, of those `where` it says so, are all of one run."""
    some = np.unique(np.column_stack([row, run])[slice(None) if where is None else where], axis=0)
    found: npt.NDArray[np.bool_] = np.bincount(some[:, 0], minlength=count) == 1
    return found


def _frame(texts: pl.DataFrame, row: I64, start: I64, stop: I64, words: pl.Series, role: I64, *, name: bool) -> pl.DataFrame:
    columns = {
        "text": texts["text"].gather(row),
        "start": start,
        "stop": stop,
        "old": words,
        "word": plain(words),
        "role": role.astype(np.int64),
    }
    # of what is nothing but accents they are the word
    word_or_old = pl.when(pl.col("word") == "").then("old").otherwise("word")
    return pl.DataFrame(columns).with_columns(word=word_or_old, letter=pl.col("old").str.len_chars() == 1, name=pl.lit(name))


def ranked(words: pl.DataFrame, *of: str) -> pl.DataFrame:
    """What each word of two letters or more is: the place in a name says it before that in an address, and that before a word alone. In
    `code`, four times the rank and the role."""
    rank = pl.when(pl.col("role") == ALONE).then(2).when("name").then(0).otherwise(1)
    codes = words.filter(~pl.col("letter")).select(*of, "word", code=rank * 4 + pl.col("role"))
    return codes.group_by(*of, "word").agg(pl.col("code").min())


def forms_of(names: pl.DataFrame) -> pl.DataFrame:
    """What may stand for names in an address (`asmith`, `smitha`, `annas`, `jpmartin`, `juergengross`), from scope, person, `NAME`: scope,
    person, form, how, part (it is one side of the name alone). `how` says the pieces, with blanks between: for each its role, `s` for
    its letter or `w` for all of it, and the word."""
    names = names.with_row_index("name_no")

    def pieces(column: str, role: int, size: str) -> pl.Expr:
        return pl.col(column).str.replace_all(r"([^ ]+)", f"{role}{size}${{1}}")

    def letters(*columns: str) -> pl.Expr:
        return pl.concat_str(*(pl.col(column).str.replace_all(r"([^ ])[^ ]* ?", "${1}") for column in columns))

    def whole(column: str) -> pl.Expr:
        return pl.col(column).str.replace_all(" ", "", literal=True)

    def one(column: str, pattern: str) -> pl.Expr:
        return pl.col(column).str.extract(pattern)

    ends = {"head": one("given", "^([^ ]+)"), "front": one("surname", "^([^ ]+)"), "back": one("surname", "([^ ]+)$")}
    names = names.with_columns(**ends)
    both = pl.concat_str([pieces("given", FIRST, "s"), pieces("between", MIDDLE, "s")], separator=" ").str.strip_chars(" ")
    # form, pieces, whether it is all words, and whether it is told alone
    given = [
        (whole("given"), pieces("given", FIRST, "w"), True, True),
        (whole("long_given"), pieces("given", FIRST, "w"), True, True),
        (whole("head"), pieces("head", FIRST, "w"), True, False),
        (letters("head"), pieces("head", FIRST, "s"), False, False),
        (letters("given"), pieces("given", FIRST, "s"), False, True),
        (letters("given", "between"), both, False, True),
    ]
    surname = [
        (whole("surname"), pieces("surname", LAST, "w"), True, True),
        (whole("long_surname"), pieces("surname", LAST, "w"), True, True),
        (whole("front"), pieces("front", LAST, "w"), True, False),
        (whole("back"), pieces("back", LAST, "w"), True, False),
        (letters("front"), pieces("front", LAST, "s"), False, False),
        (letters("surname"), pieces("surname", LAST, "s"), False, False),
    ]
    sides = []
    for side in (given, surname):
        made = [
            names.select("name_no", form=form, how=how, words=pl.lit(words), part=pl.lit(part), no=pl.lit(no))
            for no, (form, how, words, part) in enumerate(side)
        ]
        # a letter is no word
        sides.append(pl.concat(made).filter(~pl.col("words") | ~pl.col("how").str.contains(r"w[^ ](?: |$)")))
    first, last = (side.sort("name_no", "form", "no").unique(["name_no", "form"], keep="first", maintain_order=True) for side in sides)
    pairs = first.join(last, on="name_no", suffix="_last")
    turns = [
        pairs.select(
            "name_no", form=pl.col("form") + pl.col("form_last"), how=pl.col("how") + " " + pl.col("how_last"), part=pl.lit(False)
        ),
        pairs.filter(pl.col("words") | pl.col("words_last")).select(
            "name_no", form=pl.col("form_last") + pl.col("form"), how=pl.col("how_last") + " " + pl.col("how"), part=pl.lit(False)
        ),
    ]
    parts = [
        side.filter("part", pl.col("form").str.len_chars() > 1, pl.col("how").str.slice(2) != pl.col("form")).select(
            "name_no", "form", "how", "part"
        )
        for side in (first, last)
    ]
    every = pl.concat([*turns, *parts]).join(names.select("name_no", "scope", "person"), on="name_no")
    # the most pieces: those of `Jean-Paul Martin`, not of `jeanpaul.martin@`; of as many any, but always the same
    every = every.with_columns(size=pl.col("how").str.count_matches(" ")).sort(
        "scope", "person", "form", "part", "size", "how", descending=[False, False, False, False, True, True]
    )
    return every.unique(["scope", "person", "form"], keep="first", maintain_order=True).select("scope", "person", "form", "how", "part")


@functools.cache
def given_names() -> pl.Series:
    """The listed given names without accents, sorted."""
    return plain(pl.Series(sorted(listed()[0]), dtype=pl.String)).unique().sort()
