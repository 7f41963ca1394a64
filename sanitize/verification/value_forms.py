"""Search terms of the full check: the forms of every removed value, in passes that each fit in memory.

The forms of a value are its spellings, the identity form of its kind (an IBAN without spaces), its compatibility form (NFKC) and, for
numbers, the digits alone. Encodings in texts (base64, escapes) are decoded by sanitize/text/decodings. Values are split into passes by
`value_id`: a pass has all forms of its values, and memory is that of one pass, however many values there are.

A form is `short` where a match is not conclusive: fewer than six bytes, a single word of letters, fewer than nine digits. Short forms are
matched in their own letter case only, and reported separately.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import ascii_lower
from sanitize.core.engine import cached_for_run
from sanitize.core.intervals import expand_ranges
from sanitize.core.keys import IdSet, siphash
from sanitize.kinds.kind import all_kinds, unflatten_strings
from sanitize.storage.parquet_files import TABLE_CODEC, TABLE_CODEC_LEVEL
from sanitize.text.decodings import ENCODED_FORMS
from sanitize.text.decodings.decoded_pieces import MIN_BYTES
from sanitize.text.literal_search import (
    LITERAL_FORMS,
    MAX_UNSHARED_TERMS,
    TERMS_PER_RANGE,
    LiteralMatcher,
    expand_spellings,
    find_common_values,
    find_weak_values,
    iter_value_batches,
)
from sanitize.text.partition_files import PartitionFiles, open_partitions

ALL_FORMS = ("exact", "case-folded", "identity", "NFKC", *ENCODED_FORMS, "digest")
CHANCE_FORMS = ("exact", "NFKC", "digits")  # may occur by chance inside a longer replacement; identity forms are searched as "exact"
_FORMS_BY_MODE: Mapping[str, Sequence[str]] = {"full": ALL_FORMS, "fast": LITERAL_FORMS, "off": ()}
PASS_BYTES_PER_TERM = 640  # memory per form while a pass is built: 600 bytes measured for addresses of 35 bytes, and 40 for its hash
_TERMS_PER_BATCH, _TERMS_PER_DIGEST_BATCH = 100_000, 10_000  # forms per batch
_HASH_FUNCTIONS = (hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.sha512)
_HEAD_BYTES = 8  # of a digest, which are compared first
_FLAG_ARRAYS = ("is_identity", "is_short", "is_common", "is_weak", "is_short_number")
_HASH_KEY, _FORBIDDEN_HASHES = "hash_key", "forbidden_hashes.npy"
_SHORT_TERM_BYTES, _SHORT_NUMBER_DIGITS = 6, 9
_SINGLE_WORD = r"\A[\p{L}\p{M}]+\z"
_SeriesOrExpr = TypeVar("_SeriesOrExpr", pl.Series, pl.Expr)
MIN_CONCLUSIVE_BYTES = 8  # a match of so many bytes does not occur by chance in binary data
_PASS_SCHEMA = pa.schema(
    [
        pa.field("form", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("term_type", pa.int8()),
        pa.field("spelled", pa.large_string()),
    ]
)
SWEEP_FILES = ("identity.parquet", "digits.parquet")  # the forms that a sweep can remove
TERM_SCHEMA = pa.schema([field for field in _PASS_SCHEMA if field.name in ("form", "kind", "value_id")])
_NO_TERMS = pl.DataFrame(schema=pl.Schema(_PASS_SCHEMA))
_SPELLING, _IDENTITY, _DIGITS, _NOT_REMOVED = 0, 1, 2, 3  # _NOT_REMOVED: a value that the plan keeps; no replacement may equal it


def list_searched_forms(check_mode: str) -> list[str]:
    """The forms of a value that a leak check searches: `full`, `fast` or `off`."""
    return list(_FORMS_BY_MODE[check_mode])


def list_unsearched_forms(check_mode: str) -> list[str]:
    """The forms of a value that a leak check does not search, and a full one does."""
    return [form for form in ALL_FORMS if form not in _FORMS_BY_MODE[check_mode]]


def write_passes(
    values: Sequence[Path],
    edited_kinds: Sequence[str],
    folder: Path,
    memory_bytes: int = 1 << 30,
    include_ids: Sequence[int] = (),
    exclude_ids: Sequence[int] = (),
    sweep_folder: Path | None = None,
) -> tuple[list[Path], int]:
    """Write the passes over the values in the vault to `folder`, each for about `memory_bytes` of memory.

    Returns the folders of the passes, for `SearchTerms.read`, and the number of distinct removed values of which a match is conclusive:
    those of `edited_kinds` without `exclude_ids`, and those in `include_ids`, but none that is too common (`find_common_values`), as
    `LiteralMatcher.write` counts them. The forms are partitioned into files by `value_id` and then collected file by file.

    With `sweep_folder` also writes the forms that a sweep can remove from a text, as files there (`SWEEP_FILES`) for `prepare_terms`.
    """
    max_rows = max(MAX_UNSHARED_TERMS, memory_bytes // PASS_BYTES_PER_TERM)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pass_folders: list[Path] = []
    value_count, frames, row_count = 0, [_NO_TERMS], 0
    common_ids: list[I64] = []

    def write_pass() -> None:
        pass_folders.append(folder / f"pass-{len(pass_folders):04d}")
        _write_pass(pl.concat(frames), pass_folders[-1])

    with contextlib.ExitStack() as open_files:

        def open_parts(parts_folder: Path, rows_per_partition: int) -> PartitionFiles:
            partition_count = _partition_count(values, rows_per_partition)
            return open_files.enter_context(open_partitions(parts_folder / "parts", _PASS_SCHEMA, partition_count))

        partitions = open_parts(folder, min(TERMS_PER_RANGE, -(-max_rows // 4)))
        sweep_partitions = open_parts(sweep_folder, TERMS_PER_RANGE) if sweep_folder else None
        for frame in iter_value_batches(values):
            frame = _mark_removed(frame, edited_kinds, include_ids, exclude_ids)
            removed = frame.filter("is_removed").select("value", "normalised", "value_id", kind="number")
            common_ids.append(removed.filter(find_common_values(removed))["value_id"].to_numpy())
            rows = _build_terms(frame)
            partitions.add(rows, rows["value_id"].to_numpy() % partitions.partition_count)
            if sweep_partitions is not None:
                rows = rows.filter(pl.col("term_type").is_in([_IDENTITY, _DIGITS]))
                sweep_partitions.add(rows, rows["form"].hash().to_numpy() % np.uint64(sweep_partitions.partition_count))
        for rows in partitions.drain():
            value_count += int(rows.filter(pl.col("term_type") == _SPELLING)["value_id"].n_unique())
            rows = rows.unique(["form", "kind", "term_type"], keep="first", maintain_order=True)
            if row_count and row_count + rows.height > max_rows:
                write_pass()
                frames, row_count = [_NO_TERMS], 0
            frames.append(rows)
            row_count += rows.height
        if row_count or not pass_folders:
            write_pass()
        if sweep_partitions is not None and sweep_folder is not None:
            _write_sweep_terms(sweep_partitions, sweep_folder)
    return pass_folders, value_count - len(np.unique(np.concatenate([np.empty(0, np.int64), *common_ids])))


def _partition_count(values: Sequence[Path], rows_per_partition: int) -> int:
    """Number of partitions for the values, with about `rows_per_partition` values each."""
    rows: int = sum(pq.read_metadata(path).num_rows for path in values)
    return -(-rows // max(1, rows_per_partition))


def _write_pass(terms: pl.DataFrame, folder: Path) -> None:
    """Write the forms of one pass and, where they are many, the matchers for them, built once and shared by all processes."""
    folder.mkdir()
    terms = terms.unique(["form", "kind", "term_type"], keep="first", maintain_order=True).sort("form", "kind", "term_type")
    for name, term_types in (("plain", [_SPELLING, _IDENTITY]), ("digits", [_DIGITS]), ("not_removed", [_NOT_REMOVED])):
        table = (
            terms.filter(pl.col("term_type").is_in(term_types))
            .to_arrow(compat_level=pl.CompatLevel.oldest())
            .cast(_PASS_SCHEMA)
            .combine_chunks()
        )
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, _PASS_SCHEMA) as out:
            out.write_table(table)
    del table
    searched_count = terms.filter(pl.col("term_type") != _NOT_REMOVED).height
    if searched_count > MAX_UNSHARED_TERMS:
        del terms
        SearchTerms.build(folder).save()


def _write_sweep_terms(partitions: PartitionFiles, folder: Path) -> None:
    """Write the forms of a full check that a sweep can remove from a text: identity forms that differ from every spelling, without short
    ones, and digits of numbers (a match of a short one is counted, and not swept)."""
    with contextlib.ExitStack() as files:
        writers = [
            files.enter_context(pq.ParquetWriter(folder / name, TERM_SCHEMA, compression=TABLE_CODEC, compression_level=TABLE_CODEC_LEVEL))
            for name in SWEEP_FILES
        ]
        for rows in partitions.drain():
            for writer, terms in zip(writers, _select_sweep_terms(rows), strict=True):
                # one row group per partition, so that all rows of a form are in one row group
                writer.write_table(terms, row_group_size=max(1, terms.num_rows))


def build_sweep_terms(values: pl.DataFrame) -> tuple[pa.Table, pa.Table]:
    """What `write_passes` writes for a sweep, for a few values that are all removed: columns value_id, kind (a name), value, normalised."""
    return _select_sweep_terms(_build_terms(_mark_removed(values, values["kind"].unique().to_list()), (_IDENTITY, _DIGITS)))


def _select_sweep_terms(rows: pl.DataFrame) -> tuple[pa.Table, pa.Table]:
    """Of the rows of a pass: the identity forms and the digits that a sweep can remove, as tables of `TERM_SCHEMA`."""
    rows = rows.unique(["form", "kind", "term_type"], keep="first", maintain_order=True).sort("form", "kind")
    is_identity = (pl.col("term_type") == _IDENTITY) & ~_is_short(pl.col("form"))
    identity, digits = (
        rows.filter(is_wanted).select(TERM_SCHEMA.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(TERM_SCHEMA)
        for is_wanted in (is_identity, pl.col("term_type") == _DIGITS)
    )
    return identity, digits


def _mark_removed(
    values: pl.DataFrame, edited_kinds: Sequence[str], include_ids: Sequence[int] = (), exclude_ids: Sequence[int] = ()
) -> pl.DataFrame:
    """A table of values with columns `normal`, `lower`, `number` (of the kind), `is_weak` (see `find_weak_values`) and `is_removed`."""
    numbers = {name: number for number, name in enumerate(all_kinds())}
    values = values.with_columns(normal=pl.coalesce("normalised", "value"), lower=ascii_lower(values["value"]))
    values = values.with_columns(number=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32))
    return values.with_columns(
        is_weak=find_weak_values(values.select("value", "normalised", kind="number")),
        is_removed=(pl.col("kind").is_in(list(edited_kinds)) & ~pl.col("value_id").is_in(pl.Series(exclude_ids, dtype=pl.Int64).implode()))
        | pl.col("value_id").is_in(pl.Series(include_ids, dtype=pl.Int64).implode()),
    )


def _build_terms(values: pl.DataFrame, term_types: Sequence[int] = (0, 1, 2, 3)) -> pl.DataFrame:
    """The rows of a pass for a table of `_mark_removed`, of the given `term_types`."""
    removed = values.filter("is_removed")

    def rows(frame: pl.DataFrame, form: str, term_type: int) -> pl.DataFrame:
        return frame.select(
            pl.col(form).alias("form"),
            pl.col("number").alias("kind"),
            "value_id",
            pl.lit(term_type, pl.Int8).alias("term_type"),
            (pl.col("value") if term_type != _NOT_REMOVED else pl.lit("")).alias("spelled"),  # needed for removed values only
        )

    searched = removed.filter(~pl.col("is_weak"))  # in forms beyond their spellings
    non_ascii_spellings = expand_spellings(removed.with_columns(form="value"))
    normal = values.with_columns(form=ascii_lower(values["normal"]))
    # identity forms that identify their value: not `@example.com`, which is the identity form of `..@example.com`
    is_distinctive = ~pl.col("normal").str.contains(r"\A[+]?[0-9]+(?:x[0-9]+)?\z") & pl.col("normal").str.contains(
        r"\A[\p{L}\p{N}].*[\p{L}\p{N}]\z"
    )
    # the identity form of a number is digits, with an optional leading plus and trailing extension
    phone_numbers = searched.with_columns(digits=pl.col("normal").str.extract(r"\A[+]?([0-9]{7,})(?:x[0-9]+)?\z")).filter(
        pl.col("digits").is_not_null()
    )
    national = phone_numbers.filter(pl.col("normal").str.contains(r"\A[+]1[0-9]{10}(?:x|\z)")).with_columns(
        digits=pl.col("digits").str.slice(1)
    )
    sources = (
        (removed, "lower", _SPELLING),
        (non_ascii_spellings, "form", _SPELLING),
        (normal.filter("is_removed", ~pl.col("is_weak"), is_distinctive, pl.col("form") != pl.col("lower")), "form", _IDENTITY),
        (phone_numbers, "digits", _DIGITS),
        (national, "digits", _DIGITS),
        (values.filter(~pl.col("is_removed")), "lower", _NOT_REMOVED),
        (normal.filter(pl.col("form") != pl.col("lower")), "form", _NOT_REMOVED),
    )
    return pl.concat([rows(*source) for source in sources if source[2] in term_types]).filter(pl.col("form") != "")


@dataclass(frozen=True, repr=False)
class SearchTerms:
    """The search terms of one pass: matchers for plain forms and for digits, and flags for each term."""

    plain: LiteralMatcher
    digits: LiteralMatcher
    is_identity: Mask  # of the plain forms: an identity form that is no spelling in the corpus
    is_short: Mask
    is_common: Mask  # of the plain forms: ordinary words by the rule of their kind; a match is never conclusive
    is_weak: Mask  # of the plain forms: values that only their context identifies; searched because kept originals have to be found
    is_short_number: Mask
    forbidden_hashes: IdSet  # of the plain forms and of values that are not removed, by `hash_key`: no replacement may be one
    hash_key: bytes
    path: Path

    @classmethod
    def read(cls, path: Path) -> SearchTerms:
        """The search terms of a pass; cached in this process for the next task."""
        stat = path.stat()
        return _load_terms(path, stat.st_mtime_ns, stat.st_ino)

    @classmethod
    def build(cls, path: Path) -> SearchTerms:
        """Build the matchers and flags from the forms of the pass."""
        tables = [_map_terms(path, name) for name in ("plain", "digits")]
        columns = ([table.column(name).chunk(0) for name in TERM_SCHEMA.names] for table in tables)
        plain, digits = (
            LiteralMatcher(form, np.asarray(kind, np.int32), np.asarray(value_id, np.int64)) for form, kind, value_id in columns
        )
        forms = pl.Series(tables[0].column("form"))
        is_short = _is_short(forms).to_numpy()
        is_common, is_weak = np.zeros((2, len(is_short)), np.bool_)
        for number, kind_rules in enumerate(all_kinds().values()):
            kind_rows = np.flatnonzero(plain.kind == number)
            if kind_rules.is_distinctive is not None and len(kind_rows):
                texts = forms.gather(kind_rows)
                is_common[kind_rows] = ~kind_rules.is_distinctive(pl.DataFrame({"value": texts, "normalised": texts})).to_numpy()
                is_weak[kind_rows] = is_common[kind_rows] & (kind_rules.needs_context is not None)
        is_identity = np.asarray(tables[0].column("term_type")) == _IDENTITY
        is_short_number = digits.lengths < _SHORT_NUMBER_DIGITS
        hash_key = secrets.token_bytes(16)  # random, so that values cannot be chosen to collide; no result depends on it
        forbidden_forms = (tables[0].column("form").chunk(0), _map_terms(path, "not_removed").column("form").chunk(0))
        forbidden_hashes = IdSet.of(np.concatenate([siphash(forms, hash_key) for forms in forbidden_forms]))
        return cls(plain, digits, is_identity, is_short | is_weak, is_common, is_weak, is_short_number, forbidden_hashes, hash_key, path)

    def save(self) -> None:
        """Write matchers and flags beside the forms, where `read` finds them."""
        self.plain.save(self.path / "plain")
        self.digits.save(self.path / "digits")
        for name in _FLAG_ARRAYS:
            np.save(self.path / name, getattr(self, name))
        np.save(self.path / _FORBIDDEN_HASHES, self.forbidden_hashes.table)
        (self.path / _HASH_KEY).write_bytes(self.hash_key)

    @property
    def max_length(self) -> int:
        """Length of the longest form, in bytes."""
        return int(max(self.plain.lengths.max(initial=0), self.digits.lengths.max(initial=0)))

    def read_spellings(self, rows: I64) -> list[bytes]:
        """The spellings in the corpus of some plain forms, read from the file of the pass."""
        column = _map_terms(self.path, "plain").column("spelled").chunk(0)
        return [str(text).encode() for text in column.take(pa.array(rows)).to_pylist()]

    def match_digests(self, wanted: pl.Series) -> dict[str, tuple[int, int]]:
        """The digests of values of this pass that are in `wanted` (hexadecimal words), each with number of the kind and `value_id`."""
        tables = (_map_terms(self.path, name) for name in ("plain", "digits"))
        return _match_digests((batch for table in tables for batch in table.to_batches(max_chunksize=_TERMS_PER_DIGEST_BATCH)), wanted)

    def find_collisions(self, kind: str, replacements: pl.Series) -> pl.DataFrame:
        """The replacements of a kind that equal a value, literally one of any kind or in normalised form one of this kind: columns
        `replacement`, `form` (in lower case), and `value_id` of each value."""
        normal = ascii_lower(all_kinds()[kind].normalise(replacements))
        texts = pl.DataFrame({"replacement": replacements, "form": ascii_lower(replacements), "normal": normal})
        texts = texts.filter(pl.Series(self._may_be_values(texts["form"]) | self._may_be_values(texts["normal"])))
        wanted = pl.concat([texts["form"], texts["normal"]]).unique().implode()
        tables = [_map_terms(self.path, name) for name in ("plain", "not_removed")] if texts.height else []
        batches = (pl.DataFrame(batch) for table in tables for batch in table.to_batches(max_chunksize=_TERMS_PER_BATCH))
        terms = pl.concat([_NO_TERMS, *(batch.filter(pl.col("form").is_in(wanted)) for batch in batches)])
        of_kind = terms.filter(pl.col("kind") == list(all_kinds()).index(kind)).select("value_id", normal="form")
        found = [texts.join(terms.select("form", "value_id"), on="form"), texts.join(of_kind, on="normal")]
        return pl.concat([one.select("replacement", "form", "value_id") for one in found]).unique()

    def _may_be_values(self, texts: pl.Series) -> Mask:
        """True for texts with the hash of a plain form of this pass or of a value that is not removed. No such text is missed; others are
        rarely taken for one (hashes of 64 bits)."""
        return self.forbidden_hashes.contains(siphash(texts.to_arrow(compat_level=pl.CompatLevel.oldest()), self.hash_key))


def match_value_digests(values: pl.DataFrame, wanted: pl.Series) -> dict[str, tuple[int, int]]:
    """As `SearchTerms.match_digests`, for a few values that are all removed: columns value_id, kind (a name), value, normalised."""
    terms = _build_terms(_mark_removed(values, values["kind"].unique().to_list()), (_SPELLING, _IDENTITY, _DIGITS))
    return _match_digests(terms.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_PASS_SCHEMA).to_batches(), wanted)


def _match_digests(terms: Iterable[pa.RecordBatch], wanted: pl.Series) -> dict[str, tuple[int, int]]:
    """The digests of these terms (batches of `_PASS_SCHEMA`) that are in `wanted`, each with number of the kind and `value_id`."""
    found: dict[str, tuple[int, int]] = {}
    sizes = set(wanted.str.len_bytes().unique() // 2)
    hash_functions = [partial(one, usedforsecurity=False) for one in _HASH_FUNCTIONS if one(usedforsecurity=False).digest_size in sizes]
    wanted_heads = np.unique(np.frombuffer(bytes.fromhex("".join(wanted.str.head(2 * _HEAD_BYTES))), np.uint64))
    if not hash_functions:
        return found
    for batch in terms:
        texts, rows = _list_hashed_texts(batch)
        for hash_function in hash_functions:
            # a loop over values: hash functions have no columnar implementation; runs only where some word looks like a digest
            heads = np.frombuffer(b"".join([hash_function(text).digest()[:_HEAD_BYTES] for text in texts]), np.uint64)
            for number in np.flatnonzero(np.isin(heads, wanted_heads)).tolist():
                owner = batch.slice(int(rows[number]), 1)
                found[hash_function(texts[number]).hexdigest()] = owner.column("kind")[0].as_py(), owner.column("value_id")[0].as_py()
    present = set(wanted.filter(wanted.is_in(pl.Series(list(found), dtype=pl.String).implode())))
    return {word: owner for word, owner in found.items() if word in present}


def _list_hashed_texts(terms: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.intp]]:
    """The texts of which a digest may be published, with the row of each: the form and the spelling in the corpus; of digits, the form with
    and without a plus."""
    form, spelled = (terms.column(name).cast(pa.large_binary()) for name in ("form", "spelled"))
    plus, nothing = (pa.scalar(text, pa.large_binary()) for text in (b"+", b""))
    other = pc.if_else(pc.equal(terms.column("term_type"), _DIGITS), pc.binary_join_element_wise(plus, form, nothing), spelled)
    differs = pc.not_equal(form, other)
    rows = np.concatenate([np.arange(terms.num_rows), np.flatnonzero(differs)])
    order = np.argsort(rows, kind="stable")
    return pa.concat_arrays([form, other.filter(differs)]).take(pa.array(order)).to_pylist(), rows[order]


def is_conclusive(matcher: LiteralMatcher, terms: I64, form: str) -> Mask:
    """True for terms whose match in a decoding is conclusive: not short, and too long to occur by chance."""
    lengths = matcher.lengths[terms]
    if form == "digits":
        is_long: Mask = lengths >= _SHORT_NUMBER_DIGITS
        return is_long
    data = matcher.data[expand_ranges(matcher.offsets[terms], matcher.offsets[terms] + lengths)]
    forms = unflatten_strings(data, np.concatenate([[0], np.cumsum(lengths)]))
    result: Mask = is_conclusive_length(lengths, form) & ~_is_short(forms).to_numpy()
    return result


def is_conclusive_length(lengths: I64, form: str) -> Mask:
    """True for terms too long to occur by chance in a decoding of the given form."""
    return lengths >= MIN_BYTES.get(form, 0)


def _is_short(terms: _SeriesOrExpr) -> _SeriesOrExpr:
    """True for plain forms whose matches are not conclusive."""
    return (terms.str.len_bytes() < _SHORT_TERM_BYTES) | terms.str.contains(_SINGLE_WORD)


def _map_terms(path: Path, name: str) -> pa.Table:
    """The terms of a pass from one of its files, memory-mapped, as one chunk."""
    table = pa.ipc.open_file(pa.memory_map(str(path / f"{name}.arrow"))).read_all()
    return table if table.num_rows else pa.table([pa.array([], field.type) for field in _PASS_SCHEMA], schema=_PASS_SCHEMA)


@cached_for_run(1)
def _load_terms(path: Path, _time: int, _inode: int) -> SearchTerms:
    if not (path / "plain").is_dir():
        return SearchTerms.build(path)
    plain, digits = (LiteralMatcher.load(path / name) for name in ("plain", "digits"))
    flags = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in _FLAG_ARRAYS}
    forbidden_hashes = IdSet(np.load(path / _FORBIDDEN_HASHES, mmap_mode="r"))
    return SearchTerms(plain, digits, **flags, forbidden_hashes=forbidden_hashes, hash_key=(path / _HASH_KEY).read_bytes(), path=path)
