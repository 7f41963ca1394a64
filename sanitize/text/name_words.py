"""Splits names and addresses into words with their roles (given name, surname ...), and lists how a
name may be written in an address.

    values -> words (given name, surname, middle, single word)          names -> address spellings (`asmith`, `jpmartin`, `juergengross`)

Words are compared in lower case without accents, since addresses have none. Costs one pass over
distinct values.
"""  # noqa: E501

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, find_matches, slice_spans, to_large_string
from sanitize.kinds.kind import get_kind
from sanitize.kinds.person import NameWords, fold_accents, group_hyphenated

PERSON, EMAIL_ADDRESS = "PERSON", "EMAIL_ADDRESS"
# the role of a word in its name; the first two are also the numbers of the anchors
GIVEN_ROLE, SURNAME_ROLE, MIDDLE_ROLE, SINGLE_WORD_ROLE = 0, 1, 2, 3
NAME_COLUMNS = ("given", "between", "surname", "long_given", "long_surname")
_LETTERS_PATTERN = r"[\p{L}\p{M}]+"


def split_into_words(texts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Splits values into words. `texts` has the columns text, kind, value. Returns two frames.

    Words: text, start, end (bytes in the value), old (as written), word (lower case without
    accents), letter (it is a single letter), role, name (it is from a person's name, not from an
    address). Names, for texts that have both a given name and a surname: text, and the words of
    each name component separated by blanks (`NAME_COLUMNS`)."""
    frames = [
        _split_names(texts.filter(pl.col("kind") == PERSON)),
        _split_addresses(texts.filter(pl.col("kind") == EMAIL_ADDRESS)),
    ]
    words = pl.concat(frames)
    role_words = words.with_columns(long=fold_accents(words["old"], digraphs=True)).filter(
        pl.col("role") != SINGLE_WORD_ROLE
    )
    name_components = {
        "given": ("word", GIVEN_ROLE),
        "between": ("word", MIDDLE_ROLE),
        "surname": ("word", SURNAME_ROLE),
    }
    name_components |= {"long_given": ("long", GIVEN_ROLE), "long_surname": ("long", SURNAME_ROLE)}
    names = role_words.group_by("text", maintain_order=True).agg(
        pl.col(source).filter(pl.col("role") == role).str.join(" ").alias(name)
        for name, (source, role) in name_components.items()
    )
    return words, names.filter(pl.col("given") != "", pl.col("surname") != "").select(
        "text", *NAME_COLUMNS
    )


def _split_names(texts: pl.DataFrame) -> pl.DataFrame:
    found = NameWords.parse(texts["value"])
    role = np.where(
        found.is_given, GIVEN_ROLE, np.where(found.is_surname, SURNAME_ROLE, MIDDLE_ROLE)
    )
    role = np.where(
        _is_single_run(found.row, found.hyphen_group, texts.height, ~found.is_fixed)[found.row],
        SINGLE_WORD_ROLE,
        role,
    )
    base = found.buffers.offsets[found.row]
    frame = _build_word_frame(
        texts, found.row, found.start - base, found.end - base, found.text, role, is_name=True
    )
    frame = frame.with_columns(letter=pl.Series(found.is_initial))
    return frame.filter(pl.Series(~found.is_fixed))


def _split_addresses(texts: pl.DataFrame) -> pl.DataFrame:
    """Splits local parts of addresses: of several runs of letters the first is a given name and the
    last a surname. A hyphen joins two runs to one word if there is a third one
    (`jean-paul.martin`)."""
    split = get_kind(EMAIL_ADDRESS).split_components
    assert split is not None
    parts = split(texts["value"])
    rows, starts, stops, words = [], [], [], []
    bytes_before = parts["lead"].str.len_bytes().to_numpy().astype(np.int64)
    for name, gap in (("first", "sep"), ("last", "at")):
        buffers = TextBuffers.from_array(to_large_string(parts[name]))
        start, stop = find_matches(buffers, _LETTERS_PATTERN)
        row = np.searchsorted(buffers.offsets, start, side="right") - 1
        shift = bytes_before[row] - buffers.offsets[row]
        rows.append(row)
        starts.append(start + shift)
        stops.append(stop + shift)
        words.append(pl.Series(slice_spans(buffers, start, stop), dtype=pl.String))
        bytes_before = bytes_before + (
            parts[name].str.len_bytes() + parts[gap].str.len_bytes()
        ).to_numpy().astype(np.int64)
    row, start, stop = (np.concatenate(arrays) for arrays in (rows, starts, stops))
    order = np.lexsort((start, row))
    row, start, stop = row[order], start[order], stop[order]
    local = TextBuffers.from_array(
        to_large_string(parts.select(pl.concat_str("lead", "first", "sep", "last")).to_series())
    )
    run = group_hyphenated(local, row, local.offsets[row] + start, local.offsets[row] + stop)
    run = np.where(_is_single_run(row, run, texts.height)[row], len(row) + np.arange(len(row)), run)
    is_first, is_last = (
        np.append(True, np.diff(row) != 0)[: len(row)],
        np.append(np.diff(row) != 0, True)[: len(row)],
    )
    is_first, is_last = np.isin(run, run[is_first]), np.isin(run, run[is_last])
    role = np.where(
        is_first & is_last,
        SINGLE_WORD_ROLE,
        np.where(is_first, GIVEN_ROLE, np.where(is_last, SURNAME_ROLE, MIDDLE_ROLE)),
    )
    return _build_word_frame(
        texts, row, start, stop, pl.concat(words).gather(order), role, is_name=False
    )


def _is_single_run(row: I64, run: I64, row_count: int, included: Mask | None = None) -> Mask:
    """True for rows whose words all belong to one run; counts only words for which `included` is
    true."""
    row_runs = np.unique(
        np.column_stack([row, run])[slice(None) if included is None else included], axis=0
    )
    found: Mask = np.bincount(row_runs[:, 0], minlength=row_count) == 1
    return found


def _build_word_frame(
    texts: pl.DataFrame,
    row: I64,
    start: I64,
    end: I64,
    words: pl.Series,
    role: I64,
    *,
    is_name: bool,
) -> pl.DataFrame:
    columns = {
        "text": texts["text"].gather(row),
        "start": start,
        "end": end,
        "old": words,
        "word": fold_accents(words),
        "role": role.astype(np.int64),
    }
    # a word of nothing but accents keeps them
    word_or_old = pl.when(pl.col("word") == "").then("old").otherwise("word")
    return pl.DataFrame(columns).with_columns(
        word=word_or_old, letter=pl.col("old").str.len_chars() == 1, name=pl.lit(is_name)
    )


def rank_word_roles(words: pl.DataFrame, *group_columns: str) -> pl.DataFrame:
    """Returns the role of each word of two letters or more in each group, as `code` = 4 * rank +
    role: `code // 4` is the rank, `code % 4` the role.

    A role in a person's name (rank 0) takes precedence over one in an address (1), and that over a
    single word (2): of the codes of a word, the least counts."""
    rank = pl.when(pl.col("role") == SINGLE_WORD_ROLE).then(2).when("name").then(0).otherwise(1)
    codes = words.filter(~pl.col("letter")).select(
        *group_columns, "word", code=rank * 4 + pl.col("role")
    )
    return codes.group_by(*group_columns, "word").agg(pl.col("code").min())


def list_address_spellings(names: pl.DataFrame) -> pl.DataFrame:
    """Lists how names may be written in an address (`asmith`, `smitha`, `annas`, `jpmartin`,
    `juergengross`).

    `names` has the columns scope, person and `NAME_COLUMNS`. Returns scope, person, form (the
    spelling), piece_codes, and part (it is the given name or the surname only). `piece_codes` lists
    the pieces, separated by blanks: each is its role, `s` for the initial or `w` for the whole
    word, and the word."""
    names = names.with_row_index("name_no")

    def pieces(column: str, role: int, size: str) -> pl.Expr:
        return pl.col(column).str.replace_all(r"([^ ]+)", f"{role}{size}${{1}}")

    def letters(*columns: str) -> pl.Expr:
        return pl.concat_str(
            *(pl.col(column).str.replace_all(r"([^ ])[^ ]* ?", "${1}") for column in columns)
        )

    def whole(column: str) -> pl.Expr:
        return pl.col(column).str.replace_all(" ", "", literal=True)

    def extract_word(column: str, pattern: str) -> pl.Expr:
        return pl.col(column).str.extract(pattern)

    outer_words = {
        "head": extract_word("given", "^([^ ]+)"),
        "front": extract_word("surname", "^([^ ]+)"),
        "back": extract_word("surname", "([^ ]+)$"),
    }
    names = names.with_columns(**outer_words)
    all_initials = pl.concat_str(
        [pieces("given", GIVEN_ROLE, "s"), pieces("between", MIDDLE_ROLE, "s")], separator=" "
    ).str.strip_chars(" ")
    # (form, piece codes, whether all pieces are whole words, whether it is listed on its own too)
    given = [
        (whole("given"), pieces("given", GIVEN_ROLE, "w"), True, True),
        (whole("long_given"), pieces("given", GIVEN_ROLE, "w"), True, True),
        (whole("head"), pieces("head", GIVEN_ROLE, "w"), True, False),
        (letters("head"), pieces("head", GIVEN_ROLE, "s"), False, False),
        (letters("given"), pieces("given", GIVEN_ROLE, "s"), False, True),
        (letters("given", "between"), all_initials, False, True),
    ]
    surname = [
        (whole("surname"), pieces("surname", SURNAME_ROLE, "w"), True, True),
        (whole("long_surname"), pieces("surname", SURNAME_ROLE, "w"), True, True),
        (whole("front"), pieces("front", SURNAME_ROLE, "w"), True, False),
        (whole("back"), pieces("back", SURNAME_ROLE, "w"), True, False),
        (letters("front"), pieces("front", SURNAME_ROLE, "s"), False, False),
        (letters("surname"), pieces("surname", SURNAME_ROLE, "s"), False, False),
    ]
    sides = []
    for side in (given, surname):
        side_forms = [
            names.select(
                "name_no",
                form=form,
                piece_codes=piece_codes,
                words=pl.lit(words),
                part=pl.lit(part),
                no=pl.lit(no),
            )
            for no, (form, piece_codes, words, part) in enumerate(side)
        ]
        # a single letter does not count as a whole word
        sides.append(
            pl.concat(side_forms).filter(
                ~pl.col("words") | ~pl.col("piece_codes").str.contains(r"w[^ ](?: |$)")
            )
        )
    first, last = (
        side.sort("name_no", "form", "no").unique(
            ["name_no", "form"], keep="first", maintain_order=True
        )
        for side in sides
    )
    pairs = first.join(last, on="name_no", suffix="_last")
    both_sides = [
        pairs.select(
            "name_no",
            form=pl.col("form") + pl.col("form_last"),
            piece_codes=pl.col("piece_codes") + " " + pl.col("piece_codes_last"),
            part=pl.lit(False),
        ),
        pairs.filter(pl.col("words") | pl.col("words_last")).select(
            "name_no",
            form=pl.col("form_last") + pl.col("form"),
            piece_codes=pl.col("piece_codes_last") + " " + pl.col("piece_codes"),
            part=pl.lit(False),
        ),
    ]
    parts = [
        side.filter(
            "part",
            pl.col("form").str.len_chars() > 1,
            pl.col("piece_codes").str.slice(2) != pl.col("form"),
        ).select("name_no", "form", "piece_codes", "part")
        for side in (first, last)
    ]
    all_forms = pl.concat([*both_sides, *parts]).join(
        names.select("name_no", "scope", "person"), on="name_no"
    )
    # prefer the form with the most pieces: those of `Jean-Paul Martin`, not of `jeanpaul.martin@`;
    # ties are broken deterministically
    all_forms = all_forms.with_columns(size=pl.col("piece_codes").str.count_matches(" ")).sort(
        "scope",
        "person",
        "form",
        "part",
        "size",
        "piece_codes",
        descending=[False, False, False, False, True, True],
    )
    return all_forms.unique(["scope", "person", "form"], keep="first", maintain_order=True).select(
        "scope", "person", "form", "piece_codes", "part"
    )
