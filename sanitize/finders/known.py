r"""Finder `known`: the second round of find. Finds further occurrences of known values, after the
first round has read the whole corpus.

Known values are the names of people beside their addresses in header lines or after a title
(finders/names.py), numbers and addresses in the spellings found (without those that only their
context identifies, see `Kind.is_distinctive`), and a user's list (`--known FILE`: CSV, TSV or JSON
lines with `kind` and `value`, of any kind). A name is found in any ASCII letter case, across any
run of white space, as `Ann Roe` and as `Roe, Ann`; a value is also found in full-width letters.

A single word is searched only if a user's list has it, and only as spelled there or in capitals:
`Will`, `May` and `Mark` are usually ordinary words. Where a text writes out escapes
(sanitize/text/decodings/written_escapes.py), they count as white space, and values that contain
something like one are found as well (`CORP\tom`); a value that begins inside an escape is found
behind the name of a domain only (`CORP\nina`). Memory is that of the distinct values, as in the
leak check; a pass costs about as much as that check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PrivateAttr

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    ascii_lower,
    fill_columns,
    make_byte_table,
    numbers_to_numpy,
    slice_spans,
    to_large_string,
)
from sanitize.core.engine import cached_for_run
from sanitize.core.intervals import contained_in_any, flatten_spans
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.errors import UsageError, suggest_names
from sanitize.kernels.white_space import collapse
from sanitize.kinds.east_asian_names import count_family_characters, is_full_name
from sanitize.kinds.kind import all_kinds
from sanitize.storage.files import describe_read_error, open_regular_file, require_shallow_lines
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL, read_table
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.literal_search import (
    LiteralMatcher,
    LiteralMatches,
    find_common_values,
    spell_beyond_ascii,
)

FINDER_NAME = "known"
# names with at least this score (beside an address, or after a title) are searched everywhere
MIN_CERTAIN_SCORE = 0.9
_LISTED_SCORE, _MINED_SCORE = 1.0, 0.95
# `Roe, Ann`: less sure than the names beside each other in `Bob Roe, Ann Lee`, surer than two words
# alone
_REVERSED_SCORE = 0.65
# kinds with values that are recognisable without context
_DISTINCTIVE_KINDS = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
)
_PERSON = "PERSON"
_TERM_SCHEMA = pa.schema(
    [
        pa.field("form", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("score", pa.float32()),
        # for a single word the required spelling, otherwise null
        pa.field("spelled", pa.large_string()),
    ]
)
_MINED_COLUMNS = (
    pl.lit(_MINED_SCORE, pl.Float32).alias("score"),
    pl.lit(None, pl.String).alias("spelled"),
)
_BACKSLASH = ord("\\")
# NetBIOS: at most 15 characters
_DOMAIN = re.compile(rb"(?:\A|[^A-Za-z0-9_.-])[A-Z][A-Z0-9-]{1,14}\\{1,2}\Z")
_MAX_DOMAIN_BYTES = 18  # of what the pattern matches
_WHITESPACE_BYTES = make_byte_table(b" \t\n\v\f\r")


class Known(Finder):
    """Settings: none. Its search terms are those of `build_known_terms`."""

    VERSION: ClassVar[int] = 4
    needs: ClassVar[str] = "--known FILE"
    second_round: ClassVar[bool] = True
    _terms: _KnownTerms | None = PrivateAttr(default=None)

    def open(self, key: Key, first_round: Path | pa.Table | None) -> None:
        """Loads the terms of `build_known_terms`; those of a file are cached for the next task of
        this process."""
        if isinstance(first_round, pa.Table):
            self._terms = _KnownTerms(first_round.combine_chunks())
        else:
            assert first_round is not None
            stat = first_round.stat()
            self._terms = _read_cached_terms(first_round, stat.st_mtime_ns, stat.st_ino)

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns every match of a known term that is not inside a span of its kind that was found
        before."""
        assert self._terms is not None
        terms, buffers = self._terms, TextBuffers.from_array(column.texts)
        found = terms.find_matches(buffers)
        view = separate_escapes(buffers)
        if view is not buffers:
            is_valid = ~_begins_inside_escape(buffers, view, found.text_no, found.start)
            found = LiteralMatches.concat([found.take(is_valid), terms.find_matches(view)])
        spans = pl.DataFrame(
            {
                "text_no": found.text_no,
                "start": found.start,
                "end": found.end,
                "kind": terms.matcher.kind[found.term],
            }
        )
        # two terms may match the same span
        is_first = spans.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
        found = found.take(is_first)
        is_new = terms.has_required_spelling(column.texts, found) & ~_is_already_found(
            column.known_spans, found, terms.lookup_kind_names(found.term)
        )
        found = found.take(is_new)
        return FoundSpans(
            text_no=found.text_no,
            start_byte=found.start,
            end_byte=found.end,
            kind_no=terms.matcher.kind[found.term],
            kind_names=tuple(terms.matcher.kind_names),
            score=terms.score[found.term],
            value_id=terms.matcher.value_id[found.term],
        )


class _KnownTerms:
    """The search terms: a matcher over all terms, and for each its score and, for a single word,
    its required spelling."""

    def __init__(self, table: pa.Table) -> None:
        forms = table.column("form").chunk(0) if table.num_rows else pa.nulls(0, pa.large_string())
        self.matcher = LiteralMatcher(
            forms,
            numbers_to_numpy(table.column("kind")),
            numbers_to_numpy(table.column("value_id")),
        )
        self.score = numbers_to_numpy(table.column("score"))
        self.required_spelling = pl.Series(table.column("spelled"), dtype=pl.String)
        self.kind_names = np.array(self.matcher.kind_names, object)

    def find_matches(self, buffers: TextBuffers) -> LiteralMatches:
        """Returns the matches of all terms, across any run of white space and in full-width
        letters."""
        collapsed = CollapsedTexts(buffers)
        plain_and_nfkc = [
            self.matcher.find(collapsed.texts),
            self.matcher.find_nfkc(collapsed.texts),
        ]
        return collapsed.to_original(LiteralMatches.concat(plain_and_nfkc))

    def lookup_kind_names(self, term: I64) -> npt.NDArray[np.object_]:
        """Returns the name of the kind of each term."""
        found: npt.NDArray[np.object_] = self.kind_names[self.matcher.kind[term]]
        return found

    def has_required_spelling(self, texts: pa.LargeStringArray, matches: LiteralMatches) -> Mask:
        """False for a single word that is neither spelled as in the user's list nor in capitals."""
        is_valid = np.ones(len(matches), np.bool_)
        single = (
            np.flatnonzero(self.required_spelling.is_not_null().to_numpy()[matches.term])
            if len(matches)
            else np.empty(0, np.int64)
        )
        if len(single):
            buffers, words = TextBuffers.from_array(texts), matches.take(single)
            base = buffers.offsets[words.text_no]
            low, high = base + words.start, base + words.end
            required = self.required_spelling.gather(words.term).str.normalize("NFC")
            written = (
                pl.Series(slice_spans(buffers, low, high), dtype=pl.String)
                .str.replace_all(r"\s+", " ")
                .str.normalize("NFC")
            )
            is_valid[single] = (
                (written == required)
                | ((written == required.str.to_uppercase()) & (required.str.len_chars() > 1))
            ).to_numpy()
        return is_valid


@cached_for_run(2)
def _read_cached_terms(path: Path, _mtime_ns: int, _inode: int) -> _KnownTerms:
    return _KnownTerms(read_table(path).combine_chunks())


class CollapsedTexts:
    """A column of texts in which every run of white space is one blank, with a mapping back to the
    original bytes."""

    def __init__(self, buffers: TextBuffers) -> None:
        data, self.offsets = (
            np.empty(len(buffers.data), np.uint8),
            np.empty(len(buffers.offsets), np.int64),
        )
        self.original_offsets = buffers.offsets
        self.breaks, self.shifts = fill_columns(
            partial(
                collapse,
                buffers.data,
                buffers.offsets,
                _WHITESPACE_BYTES.view(np.uint8),
                data,
                self.offsets,
            ),
            column_count=2,
        )
        self.texts = TextBuffers(data[: self.offsets[-1]], self.offsets).to_array()

    def to_original(self, matches: LiteralMatches) -> LiteralMatches:
        """Returns the matches with their bytes in the original texts."""
        first, base = self.offsets[matches.text_no], self.original_offsets[matches.text_no]
        start, last = (
            self._find_original_byte(position + first) - base
            for position in (matches.start, matches.end - 1)
        )
        return replace(matches, start=start, end=last + 1)

    def _find_original_byte(self, position: I64) -> I64:
        break_no = np.searchsorted(self.breaks, position, side="right")
        found: I64 = position + np.append(0, self.shifts)[break_no]
        return found


def _begins_inside_escape(
    buffers: TextBuffers, view: TextBuffers, text_no: I64, start: I64
) -> Mask:
    r"""True for matches in the texts that begin inside an escape, unless the name of a domain in
    capitals is before it: `CORP\nina`."""
    low = buffers.offsets[text_no] + start
    is_inside: Mask = (view.data[low] != buffers.data[low]) & (buffers.data[low] != _BACKSLASH)
    rows = np.flatnonzero(is_inside)
    first = np.maximum(low[rows] - _MAX_DOMAIN_BYTES, buffers.offsets[text_no[rows]])
    before = slice_spans(buffers, first, low[rows]).cast(pa.large_binary()).to_pylist()
    # a loop over the few matches of this sort
    is_inside[rows] = [_DOMAIN.search(piece) is None for piece in before]
    return is_inside


def _is_already_found(
    found: pl.DataFrame, matches: LiteralMatches, kind: npt.NDArray[np.object_]
) -> Mask:
    """True for matches inside a span of their kind that was found before."""
    inside = np.zeros(len(matches), np.bool_)
    found_text, found_start, found_end = (
        found[name].to_numpy() for name in ("text_no", "start_byte", "end_byte")
    )
    axis, found_axis = flatten_spans(
        (matches.text_no, matches.start, matches.end), (found_text, found_start, found_end)
    )
    found_kind = found["kind"].to_numpy()
    for name in set(kind.tolist()):
        rows, found_rows = kind == name, found_kind == name
        inside[rows] = contained_in_any(
            axis[0][rows], axis[1][rows], found_axis[0][found_rows], found_axis[1][found_rows]
        )
    return inside


def write_known_terms(
    value_files: Sequence[Path],
    occurrence_files: Sequence[Path],
    listed_values: pl.DataFrame | None,
    key: Key,
    out: Path,
) -> int:
    """Writes the search terms of the second round to `out`, from the tables `values` and
    `occurrences` of the first round and a user's list; returns their number."""
    columns = ["kind", "value_id", "score", "finder"]
    table = build_known_terms(
        (pl.DataFrame(read_table(path)) for path in value_files),
        (pl.DataFrame(read_table(path, columns=columns)) for path in occurrence_files),
        listed_values,
        key,
    )
    pq.write_table(table, out, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL)
    return int(table.num_rows)


def build_known_terms(
    values: Iterable[pl.DataFrame],
    occurrences: Iterable[pl.DataFrame],
    listed_values: pl.DataFrame | None,
    key: Key,
) -> pa.Table:
    """Returns the search terms of the second round, from the first round's values (`value_id`,
    `kind`, `value`, `normalised`) and occurrences (`kind`, `value_id`, `score`, `finder`), both
    part by part, and from a user's list."""
    numbers = {name: number for number, name in enumerate(all_kinds())}
    frames = [_build_listed_terms(listed_values, key)] if listed_values is not None else []
    certain_name_ids = _find_certain_name_ids(occurrences)
    # loops over the tasks' distinct values, not over documents
    for frame in values:
        frame = frame.with_columns(
            pl.col("kind").cast(pl.String), pl.coalesce("normalised", "value").alias("normalised")
        )
        frames.append(
            _build_name_terms(
                frame.filter(
                    (pl.col("kind") == _PERSON)
                    & pl.col("value_id").is_in(certain_name_ids.implode())
                )
            )
        )
        distinctive = frame.filter(pl.col("kind").is_in(list(_DISTINCTIVE_KINDS)))
        is_common = find_common_values(
            distinctive.with_columns(pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
        )
        frames.append(_build_value_terms(distinctive.filter(~is_common)))
    empty = pl.DataFrame(
        schema={
            "form": pl.String,
            "kind": pl.String,
            "value_id": pl.Int64,
            "score": pl.Float32,
            "spelled": pl.String,
        }
    )
    terms = pl.concat([empty, *(frame.select(empty.columns) for frame in frames)])
    terms = pl.concat(
        [terms.with_columns(ascii_lower(terms["form"])), spell_beyond_ascii(terms, "form")]
    )
    terms = terms.with_columns(pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
    terms = terms.filter(pl.col("form").str.len_bytes() > 1).sort(
        "form", "kind", -pl.col("score"), "value_id", "spelled", nulls_last=True
    )
    terms = terms.unique(["form", "kind"], keep="first", maintain_order=True)
    return terms.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_TERM_SCHEMA)


def _find_certain_name_ids(occurrences: Iterable[pl.DataFrame]) -> pl.Series:
    """Returns the `value_id`s of names that the finder `names` reported with a score of at least
    `MIN_CERTAIN_SCORE`."""
    found = [pl.Series("value_id", [], pl.Int64)]
    for frame in occurrences:
        frame = frame.with_columns(pl.col("kind").cast(pl.String), pl.col("finder").cast(pl.String))
        found.append(
            frame.filter(
                (pl.col("kind") == _PERSON)
                & (pl.col("score") >= MIN_CERTAIN_SCORE)
                & (pl.col("finder") == "names")
            )["value_id"].unique()
        )
    return pl.concat(found).unique().sort()


def _build_name_terms(values: pl.DataFrame) -> pl.DataFrame:
    """Returns the terms of people's names: as spelled, as `ann roe` and as `roe, ann`; only names
    with two words of two letters or more, and full names of three characters or more in scripts
    that separate no words, with and without a blank (`田中太郎`, `田中 太郎`)."""
    normal = pl.col("normalised")
    unspaced = values.filter(pl.Series(is_full_name(values["normalised"])))
    family = pl.Series("family", count_family_characters(unspaced["normalised"]), pl.Int64)
    unspaced = unspaced.with_columns(
        spaced=pl.concat_str(
            normal.str.slice(0, pl.lit(family)), pl.lit(" "), normal.str.slice(pl.lit(family))
        )
    )
    values = values.filter(
        normal.str.contains(" ", literal=True)
        & (normal.str.count_matches(r"[\p{L}\p{M}]{2,}") >= 2)
        & (normal.str.count_matches(r"\p{L}") >= 5)
    )
    spelled = pl.col("value").str.replace_all(r"\s+", " ")
    reversed_name = normal.str.replace(r"\A(.+) (\S+)\z", "$2, $1")
    # letters beyond ASCII are matched case-sensitively: each case is a term of its own
    forms = [
        spelled,
        normal,
        normal.str.to_uppercase(),
        normal.str.to_titlecase(),
        reversed_name,
        reversed_name.str.to_uppercase(),
        reversed_name.str.to_titlecase(),
    ]
    scores = [_MINED_SCORE] * 4 + [_REVERSED_SCORE] * 3
    rest: list[Any] = [
        pl.lit(_PERSON).alias("kind"),
        "value_id",
        pl.lit(None, pl.String).alias("spelled"),
    ]
    selected = [
        values.select(form.alias("form"), *rest, pl.lit(score, pl.Float32).alias("score"))
        for form, score in zip(forms, scores, strict=True)
    ]
    selected += [
        unspaced.select(
            pl.col(name).alias("form"), *rest, pl.lit(_MINED_SCORE, pl.Float32).alias("score")
        )
        for name in ("value", "normalised", "spaced")
    ]
    return pl.concat(selected)


def _build_value_terms(values: pl.DataFrame) -> pl.DataFrame:
    """Returns the spellings of values as terms."""
    return values.select(pl.col("value").alias("form"), "kind", "value_id", *_MINED_COLUMNS)


def _build_listed_terms(listed_values: pl.DataFrame, key: Key) -> pl.DataFrame:
    """Returns the terms of a user's list. A single word has a required spelling."""
    frames = [
        pl.DataFrame(
            schema={
                "form": pl.String,
                "kind": pl.String,
                "value_id": pl.Int64,
                "score": pl.Float32,
                "spelled": pl.String,
            }
        )
    ]
    for (name,), rows in listed_values.group_by("kind", maintain_order=True):
        value = rows["value"].str.replace_all(r"\s+", " ").str.strip_chars()
        normalised = all_kinds()[str(name)].normalise(value)
        values = pl.DataFrame(
            {
                "value": value,
                "normalised": normalised,
                "value_id": compute_value_ids(to_large_string(normalised), str(name), key),
            }
        )
        is_single_word = values["value"].str.contains(r"\A[\p{L}\p{M}]+\z")
        single_words = values.filter(is_single_word).select(
            pl.col("value").alias("form"),
            pl.lit(name).alias("kind"),
            "value_id",
            pl.lit(_LISTED_SCORE, pl.Float32).alias("score"),
            spelled="value",
        )
        multi_word = values.filter(~is_single_word)
        rest: list[Any] = [
            pl.lit(name).alias("kind"),
            "value_id",
            pl.lit(_LISTED_SCORE, pl.Float32).alias("score"),
            pl.lit(None, pl.String).alias("spelled"),
        ]
        name_forms = _build_name_terms(multi_word)["form"] if name == _PERSON else None
        if name_forms is not None:
            is_mined_score = pl.col("score") == pl.lit(_MINED_SCORE, pl.Float32)
            name_terms = _build_name_terms(multi_word).with_columns(
                pl.when(is_mined_score)
                .then(pl.lit(_LISTED_SCORE, pl.Float32))
                .otherwise("score")
                .alias("score")
            )
            frames.append(name_terms.select(frames[0].columns))
        cases = [
            pl.col("value"),
            pl.col("value").str.to_uppercase(),
            pl.col("value").str.to_lowercase(),
            pl.col("normalised"),
        ]
        frames += [multi_word.select(case.alias("form"), *rest) for case in cases]
        frames.append(single_words.select(frames[0].columns))
    return pl.concat(frames)


def read_known_list(path: Path) -> pl.DataFrame:
    """Reads a user's list of known values: columns `kind` and `value`, each row once, in order.

    UsageError for a file that cannot be read, lacks one of the columns, or names a kind that does
    not exist; it quotes no value.
    """
    expected = "expected CSV, TSV or JSON lines in UTF-8 with the columns kind and value"
    if path.is_dir():
        raise UsageError(f"--known {path}: is a folder; {expected}")
    json_lines = path.suffix in (".jsonl", ".ndjson", ".json")
    try:
        with open_regular_file(path) as file:
            # Polars itself waits for the writer of a pipe, and ignores signals meanwhile
            if json_lines:
                table = pl.read_ndjson(require_shallow_lines(file.read()), infer_schema_length=None)
            else:
                table = pl.read_csv(
                    path,
                    separator="\t" if path.suffix == ".tsv" else ",",
                    infer_schema=False,
                    glob=False,
                )
    except (OSError, pl.exceptions.PolarsError, ValueError) as error:
        raise UsageError(
            f"--known {path}: {_explain_read_error(path, json_lines, error)}; {expected}"
        ) from None
    for name in ("kind", "value"):
        if name not in table.columns:
            other = (
                "; its columns are separated by something else than a comma"
                if len(table.columns) == 1 and not json_lines
                else ""
            )
            raise UsageError(f"--known {path}: lacks the column {name}{other}; {expected}")
        if table.schema[name].is_nested():
            raise UsageError(
                f"--known {path}: column {name} has lists or objects; expected one text in each"
                " record"
            )
    table = table.select(
        pl.col("kind").cast(pl.String).str.strip_chars(),
        pl.col("value").cast(pl.String).str.strip_chars(),
    )
    empty = (
        table.select((pl.col("value").fill_null("") == "") | pl.col("kind").is_null())
        .to_series()
        .arg_true()
    )
    if len(empty):
        raise UsageError(
            f"--known {path}: record {empty[0] + 1} has no kind or no value; {expected}"
        )
    if not table.height:
        raise UsageError(
            f"--known {path}: has no records; write a record for each value, or leave the"
            " option out"
        )
    for name in table["kind"].unique(maintain_order=True):
        if name not in all_kinds():
            row = (table["kind"] == name).arg_true()[0]
            raise UsageError(
                f"--known {path}: record {row + 1}: there is no kind of this name;"
                f" {suggest_names(name, all_kinds())}"
            )
    return table.unique(maintain_order=True)


def _explain_read_error(path: Path, json_lines: bool, error: Exception) -> str:
    """Returns why a list could not be read."""
    if isinstance(error, OSError):
        return describe_read_error(error)
    if not path.stat().st_size:
        return "is empty"
    try:
        with path.open(encoding="utf-8") as file:
            for _ in file:  # only to check that all lines can be decoded
                pass
    except UnicodeDecodeError:
        return "is not UTF-8"
    return (
        "has a line that is not a JSON object"
        if json_lines
        else "has a line with more fields than the first one, or an open quote"
    )


def check_listed_kinds(path: Path, plan_kinds: Sequence[str], plan_name: str) -> None:
    """Raises UsageError if a user's list has values of a kind that the plan does not name."""
    for name in read_known_list(path)["kind"].unique(maintain_order=True):
        if name not in plan_kinds:
            raise UsageError(
                f"--known {path}: lists values of {name}, and plan {plan_name} does not name that"
                " kind; add it to find.kinds, and to an [[edit]] or to leave"
            )
