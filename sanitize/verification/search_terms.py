"""The term table of the leak check: the search terms of every removed value, in passes that each
fit in memory.

    term               kind  value_id  term_type
    ann@corp.example   0     71        spelling    a spelling, in lower case
    de89370400440532…  9     72        identity    the normalised form of the kind, if it is no
                             spelling
    3125550178         4     73        digits      a number without its separators
    info@corp.example  0     74        not removed  explains a match of a longer or shorter value

Encodings in texts (base64, escapes) are decoded by sanitize/text/decodings. The digests of the
values are computed where a text has a word of the length of one. Values are split into passes by
`value_id`: a pass has all terms of its values, and memory is that of one pass, however many values
there are. Values that are too common to be searched (`Kind.is_distinctive`), and those that the
plan keeps, are `not removed`; the common ones are counted.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I32, I64, Mask
from sanitize.core.arrow_buffers import ascii_lower
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import IdSet, siphash
from sanitize.kinds.kind import all_kinds
from sanitize.text.decodings import ENCODED_FORMS
from sanitize.text.literal_search import (
    LiteralMatcher,
    find_common_values,
    iter_value_batches,
    spell_beyond_ascii,
)
from sanitize.verification.partition_files import open_partitions

ALL_FORMS = ("exact", "case-folded", "identity", "NFKC", *ENCODED_FORMS, "digest")
LITERAL_FORMS = ("exact", "case-folded", "NFKC")
# may occur by chance inside a replacement
CHANCE_FORMS = (
    "exact",
    "case-folded",
    "identity",
    "NFKC",
    "digits",
)
_FORMS_BY_MODE: Mapping[str, Sequence[str]] = {"full": ALL_FORMS, "fast": LITERAL_FORMS, "off": ()}
SPELLING, IDENTITY, DIGITS, NOT_REMOVED = range(4)  # the last: no replacement may equal it
TERMS_PER_PARTITION = (
    100_000  # terms that are sorted at a time while passes are written: about 30 MB
)
MAX_UNSHARED_TERMS = 100_000  # up to this many terms, each process builds its own index, in .1 s
BYTES_PER_TERM = 640  # while a pass is built: 600 measured for addresses of 35 bytes, and a hash
_TERMS_PER_BATCH, _TERMS_PER_DIGEST_BATCH = 100_000, 10_000
_HEAD_CHARS = 16  # of a digest, which are compared first
_HashFunction = Callable[..., Any]
_HASH_FUNCTIONS: list[_HashFunction] = [
    partial(one, usedforsecurity=False)
    for one in (hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.sha512)
]
_FLAG_ARRAYS = ("is_identity", "is_short")
_HASH_KEY, _FORBIDDEN_HASHES = "hash_key", "forbidden_hashes.npy"
_SHORT_TERM_BYTES = 6
_SINGLE_WORD = r"\A[\p{L}\p{M}]+\z"
_APOSTROPHES = ("'", "\u2019")
_SCHEMA = pa.schema(
    [
        pa.field("term", pa.large_string()),
        pa.field("kind", pa.int32()),
        pa.field("value_id", pa.int64()),
        pa.field("term_type", pa.int8()),
        pa.field("spelled", pa.large_string()),
    ]
)
_NO_TERMS = pl.DataFrame(schema=pl.Schema(_SCHEMA))
_TABLES = {
    "plain": (SPELLING, IDENTITY),
    "digits": (DIGITS,),
    "not_removed": (NOT_REMOVED,),
}


def list_searched_forms(check_mode: str) -> list[str]:
    """The forms of a value that a leak check searches: `full`, `fast` or `off`."""
    return list(_FORMS_BY_MODE[check_mode])


def list_unsearched_forms(check_mode: str) -> list[str]:
    """The forms of a value that a leak check does not search, and a full one does."""
    return [form for form in ALL_FORMS if form not in _FORMS_BY_MODE[check_mode]]


@dataclass(frozen=True)
class ValueCounts:
    """Distinct removed values: those that are searched for, and those that are too common."""

    searched: int
    common: int


def write_terms(
    values: Sequence[Path],
    edited_kinds: Sequence[str],
    folder: Path,
    memory_bytes: int = 1 << 30,
    *,
    include_ids: Sequence[int] = (),
    exclude_ids: Sequence[int] = (),
    check_mode: str = "full",
) -> ValueCounts:
    """Write the terms of values in the vault to `folder`, in passes for about `memory_bytes` each.

    The removed values are those of `edited_kinds` without `exclude_ids`, and those in
    `include_ids`. A fast check has spellings only. Forms are partitioned into files by `value_id`
    and collected file by file. `SearchTerms.open` reads the folder.
    """
    max_rows = max(MAX_UNSHARED_TERMS, memory_bytes // BYTES_PER_TERM)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    term_types = (SPELLING,) if check_mode == "fast" else (SPELLING, IDENTITY, DIGITS, NOT_REMOVED)
    searched_count, pass_count, frames, row_count = 0, 0, [_NO_TERMS], 0
    common_ids: list[I64] = [np.empty(0, np.int64)]
    value_count = sum(pq.read_metadata(path).num_rows for path in values)
    partition_count = -(-value_count // min(TERMS_PER_PARTITION, -(-max_rows // 4)))
    with open_partitions(folder / "parts", _SCHEMA, partition_count) as partitions:
        for batch in iter_value_batches(values):
            frame = _mark_removed(batch, edited_kinds, include_ids, exclude_ids)
            common = frame.filter("is_removed", "is_common")
            common_ids.append(common["value_id"].unique().to_numpy())
            rows = _build_terms(frame, term_types)
            partitions.add(rows, rows["value_id"].to_numpy() % partitions.partition_count)
        for rows in partitions.drain():
            searched = rows.filter(pl.col("term_type") == SPELLING)
            searched_count += searched["value_id"].n_unique()
            rows = _take_distinct(rows)
            if row_count and row_count + rows.height > max_rows:
                _write_pass(pl.concat(frames), folder / f"pass-{pass_count:04d}")
                pass_count, frames, row_count = pass_count + 1, [_NO_TERMS], 0
            frames.append(rows)
            row_count += rows.height
        if row_count or not pass_count:
            _write_pass(pl.concat(frames), folder / f"pass-{pass_count:04d}")
    return ValueCounts(searched_count, len(np.unique(np.concatenate(common_ids))))


def count_searched(values: Sequence[Path], kinds: Sequence[str], value_ids: I64) -> int:
    """How many of some values, of these kinds, are searched for: those that are not too common."""
    wanted, found = pl.Series(value_ids, dtype=pl.Int64).implode(), [np.empty(0, np.int64)]
    for batch in iter_value_batches(values):
        marked = _mark_removed(batch.filter(pl.col("value_id").is_in(wanted)), kinds)
        searched = marked.filter("is_removed", ~pl.col("is_common"))
        found.append(searched["value_id"].unique().to_numpy())
    return len(np.unique(np.concatenate(found)))


def _write_pass(terms: pl.DataFrame, folder: Path) -> None:
    """Write the terms of one pass and, where they are many, the matchers for them, which all
    processes share."""
    folder.mkdir()
    terms = _take_distinct(terms)
    for name, term_types in _TABLES.items():
        table = _to_table(terms.filter(pl.col("term_type").is_in(term_types)))
        with (
            pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file,
            pa.ipc.new_file(file, _SCHEMA) as out,
        ):
            out.write_table(table)
    searched_count = terms.filter(pl.col("term_type") != NOT_REMOVED).height
    if searched_count > MAX_UNSHARED_TERMS:
        del terms
        SearchTerms.read(folder).save(folder)


def _take_distinct(terms: pl.DataFrame) -> pl.DataFrame:
    """The terms in order, each once: of several values that of the first `value_id`, so that it
    depends neither on partitions nor on the order of files."""
    by = ["term", "kind", "term_type"]
    return terms.sort([*by, "value_id", "spelled"]).unique(by, keep="first", maintain_order=True)


def _to_table(terms: pl.DataFrame) -> pa.Table:
    """Terms as one chunk of the schema of a pass."""
    table = terms.select(_SCHEMA.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_SCHEMA)
    return _as_one_chunk(table)


def _as_one_chunk(table: pa.Table) -> pa.Table:
    if not table.num_rows:
        return pa.table([pa.array([], one.type) for one in _SCHEMA], schema=_SCHEMA)
    return table.combine_chunks()


def _mark_removed(
    values: pl.DataFrame,
    edited_kinds: Sequence[str],
    include_ids: Sequence[int] = (),
    exclude_ids: Sequence[int] = (),
) -> pl.DataFrame:
    """A table of values with columns `normal`, `lower`, `number` (of the kind), `is_common` and
    `is_removed`."""
    numbers = {name: number for number, name in enumerate(all_kinds())}
    excluded, included = (
        pl.Series(ids, dtype=pl.Int64).implode() for ids in (exclude_ids, include_ids)
    )
    is_edited = pl.col("kind").is_in(list(edited_kinds)) & ~pl.col("value_id").is_in(excluded)
    values = values.with_columns(
        normal=pl.coalesce("normalised", "value"),
        lower=ascii_lower(values["value"]),
        number=pl.col("kind").replace_strict(numbers, return_dtype=pl.Int32),
        is_removed=is_edited | pl.col("value_id").is_in(included),
    )
    is_common = find_common_values(values.select("value", "normalised", kind="number"))
    return values.with_columns(is_common=is_common)


def _build_terms(values: pl.DataFrame, term_types: Sequence[int]) -> pl.DataFrame:
    """The terms of a table of `_mark_removed`, of the given types."""
    removed = values.filter("is_removed", ~pl.col("is_common"))

    def rows(frame: pl.DataFrame, column: str, term_type: int) -> pl.DataFrame:
        return frame.select(
            pl.col(column).alias("term"),
            pl.col("number").alias("kind"),
            "value_id",
            pl.lit(term_type, pl.Int8).alias("term_type"),
            # needed for removed values only
            (pl.col("value") if term_type != NOT_REMOVED else pl.lit("")).alias("spelled"),
        )

    spellings = _list_spellings(removed)
    non_ascii_spellings = spell_beyond_ascii(spellings, "term")
    normal = values.with_columns(term=ascii_lower(values["normal"]))
    # identity forms that identify their value: not `@example.com`, that of `..@example.com`
    is_number = pl.col("normal").str.contains(r"\A[+]?[0-9]+(?:x[0-9]+)?\z")
    is_distinctive = ~is_number & pl.col("normal").str.contains(r"\A[\p{L}\p{N}].*[\p{L}\p{N}]\z")
    is_other = pl.col("term") != pl.col("lower")
    identities = normal.filter("is_removed", ~pl.col("is_common"), is_distinctive, is_other)
    # the identity form of a number is digits, with an optional leading plus and trailing extension
    digits = pl.col("normal").str.extract(r"\A[+]?([0-9]{7,})(?:x[0-9]+)?\z")
    numbers = removed.with_columns(digits=digits).filter(pl.col("digits").is_not_null())
    is_american = pl.col("normal").str.contains(r"\A[+]1[0-9]{10}(?:x|\z)")
    national = numbers.filter(is_american).with_columns(pl.col("digits").str.slice(1))
    not_removed = values.filter(~pl.col("is_removed") | pl.col("is_common"))
    sources = (
        (spellings.with_columns(term=ascii_lower(spellings["term"])), "term", SPELLING),
        (non_ascii_spellings, "term", SPELLING),
        (identities, "term", IDENTITY),
        (numbers, "digits", DIGITS),
        (national, "digits", DIGITS),
        (not_removed, "lower", NOT_REMOVED),
        (normal.filter(is_other), "term", NOT_REMOVED),
    )
    terms = [rows(*source) for source in sources if source[2] in term_types]
    return pl.concat(terms).filter(pl.col("term") != "")


def _list_spellings(values: pl.DataFrame) -> pl.DataFrame:
    """The values as column `term`, and those of several words or with an apostrophe once more for
    each other way to write it: `_` for blanks, and the other apostrophe. A decoding reads runs of
    blanks as one."""
    values = values.with_columns(term="value")
    is_spelled = pl.col("value").str.contains("\\p{L}['\u2019 ]+\\p{L}")
    others = values.filter(is_spelled).with_columns(pl.col("term").str.replace_all(" +", " "))
    for blank in " _":
        for apostrophe in _APOSTROPHES:
            term = (
                pl.col("term")
                .str.replace_all(" ", blank, literal=True)
                .str.replace_all("['\u2019]", apostrophe)
            )
            values = values.vstack(others.with_columns(term))
    return values


@dataclass(frozen=True, repr=False)
class SearchTerms:
    """The search terms of one pass: matchers for plain terms and for digits, and flags of terms."""

    plain: LiteralMatcher
    digits: LiteralMatcher
    is_identity: Mask  # of the plain terms: an identity form that is no spelling in the corpus
    is_short: Mask  # of the plain terms: conclusive only where a text has it as it is written
    tables: Mapping[str, pa.Table]  # the terms; kept for their spellings and digests
    folder: Path | None = None
    hash_key: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    digests: dict[str, I64] = field(default_factory=dict)  # by hash function; see `_digests_of`

    @classmethod
    def open(cls, folders: Sequence[Path]) -> tuple[SearchTerms, ...]:
        """The passes that `write_terms` wrote to folders; cached in this process for the next
        task."""
        passes = [path for folder in folders for path in sorted(folder.glob("pass-*"))]
        return _load_passes(
            tuple((path, path.stat().st_mtime_ns, path.stat().st_ino) for path in passes)
        )

    @classmethod
    def from_values(cls, values: pl.DataFrame, check_mode: str = "full") -> SearchTerms | None:
        """The terms of a few values that are all removed: columns value_id, kind (a name), value,
        normalised. None if there are none, or all are too common to be searched for."""
        if values.is_empty():
            return None
        term_types = (SPELLING,) if check_mode == "fast" else (SPELLING, IDENTITY, DIGITS)
        terms = _build_terms(_mark_removed(values, values["kind"].unique().to_list()), term_types)
        return cls.from_terms(terms) if terms.height else None

    @classmethod
    def from_terms(cls, terms: pl.DataFrame) -> SearchTerms:
        """The terms of a table with the columns of a pass."""
        terms = _take_distinct(terms)
        types = pl.col("term_type")
        return cls._build(
            {name: _to_table(terms.filter(types.is_in(of))) for name, of in _TABLES.items()}
        )

    @classmethod
    def read(cls, folder: Path) -> SearchTerms:
        """The terms of a pass, with matchers built from its tables."""
        return cls._build({name: _map_table(folder, name) for name in _TABLES}, folder)

    @classmethod
    def _build(cls, tables: Mapping[str, pa.Table], folder: Path | None = None) -> SearchTerms:
        plain, digits = (
            LiteralMatcher(
                table.column("term").chunk(0),
                np.asarray(table.column("kind"), np.int32),
                np.asarray(table.column("value_id"), np.int64),
                inside_words=name == "plain",  # digits are searched in rows of digits
            )
            for name, table in tables.items()
            if name != "not_removed"
        )
        terms = pl.Series(tables["plain"].column("term"))
        is_identity = np.asarray(tables["plain"].column("term_type")) == IDENTITY
        is_short = (terms.str.len_bytes() < _SHORT_TERM_BYTES) | terms.str.contains(_SINGLE_WORD)
        return cls(plain, digits, is_identity, is_short.to_numpy(), tables, folder)

    def save(self, folder: Path) -> None:
        """Write matchers and flags beside the terms, where `open` finds them."""
        self.plain.save(folder / "plain")
        self.digits.save(folder / "digits")
        for name in _FLAG_ARRAYS:
            np.save(folder / name, getattr(self, name))
        np.save(folder / _FORBIDDEN_HASHES, self.forbidden_hashes.table)
        (folder / _HASH_KEY).write_bytes(self.hash_key)

    @cached_property
    def forbidden_hashes(self) -> IdSet:
        """Of all terms and of values that are not removed, by `hash_key`: no replacement may be
        one. The key is random, so that values cannot be chosen to collide."""
        if self.folder is not None and (self.folder / _FORBIDDEN_HASHES).is_file():
            return IdSet(np.load(self.folder / _FORBIDDEN_HASHES, mmap_mode="r"))
        columns = (self.tables[name].column("term").chunk(0) for name in ("plain", "not_removed"))
        return IdSet.of(np.concatenate([siphash(column, self.hash_key) for column in columns]))

    @cached_property
    def max_length(self) -> int:
        """Length of the longest term, in bytes."""
        return int(max(self.plain.lengths.max(initial=0), self.digits.lengths.max(initial=0)))

    def read_spellings(self, rows: I64) -> list[bytes]:
        """The spellings in the corpus of some plain forms."""
        column = self.tables["plain"].column("spelled").chunk(0)
        return [str(text).encode() for text in column.take(pa.array(rows)).to_pylist()]

    def match_digests(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """The words (hexadecimal digits in lower case) that are digests of values: number of the
        word, and row of the value (see `locate`)."""
        found = []
        for hash_function in _HASH_FUNCTIONS:
            size = 2 * hash_function().digest_size
            numbers = [number for number, word in enumerate(words) if len(word) == size]
            if not numbers:
                continue
            heads, rows = self._digests_of(hash_function)
            wanted = np.array(
                [int(words[number][:_HEAD_CHARS], 16) for number in numbers], np.uint64
            ).view(np.int64)
            place = np.minimum(np.searchsorted(heads, wanted), len(heads) - 1)
            for at in np.flatnonzero(heads[place] == wanted).tolist() if len(heads) else ():
                row = int(rows[place[at]])
                texts = _list_hashed_texts(self._term_row(row))[0]
                if words[numbers[at]] in [hash_function(text).hexdigest() for text in texts]:
                    found.append((numbers[at], row))
        return sorted(found)

    def locate(self, row: int) -> tuple[LiteralMatcher, int]:
        """The matcher of a term, and its row there: those of `digits` are below those of
        `plain`."""
        count = len(self.plain)
        return (self.plain, row) if row < count else (self.digits, row - count)

    def find_owners(self, rows: I64) -> tuple[I32, I64]:
        """Kind and value of some terms."""
        owners = [
            (matcher.kind[own], matcher.value_id[own])
            for matcher, own in map(self.locate, rows.tolist())
        ]
        kind, value_id = np.array(owners, np.int64).reshape(-1, 2).T
        return kind.astype(np.int32), value_id

    def _term_row(self, row: int) -> pa.RecordBatch:
        matcher, own = self.locate(row)
        table = self.tables["plain" if matcher is self.plain else "digits"]
        return table.slice(own, 1).combine_chunks().to_batches()[0]

    def _digests_of(self, hash_function: _HashFunction) -> I64:
        """The first bytes of the digests of all values, ascending, and the row of each. Computed
        where they are first needed, and stored in the folder for the other processes."""
        name = hash_function().name
        if name not in self.digests:
            path = self.folder and self.folder.with_name(f"digests-{self.folder.name}-{name}.npy")
            if path is None or not path.exists():
                computed = self._compute_digests(hash_function)
                if path is None:
                    self.digests[name] = computed
                    return computed
                with tempfile.NamedTemporaryFile(
                    dir=path.parent, suffix=".npy", delete=False
                ) as file:
                    np.save(file, computed)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(file.name, path)  # several processes may write it at once
            self.digests[name] = np.load(path, mmap_mode="r")
        return self.digests[name]

    def _compute_digests(self, hash_function: _HashFunction) -> I64:
        heads, rows, first = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for name in ("plain", "digits"):
            for batch in self.tables[name].to_batches(max_chunksize=_TERMS_PER_DIGEST_BATCH):
                texts, row = _list_hashed_texts(batch)
                # a loop over values: hash functions have no columnar implementation
                digests = b"".join(
                    [hash_function(text).digest()[: _HEAD_CHARS // 2] for text in texts]
                )
                heads.append(np.frombuffer(digests, ">i8").astype(np.int64))
                rows.append(row + first)
                first += batch.num_rows
        columns = np.stack([np.concatenate(heads), np.concatenate(rows)])
        found: I64 = np.ascontiguousarray(columns[:, np.argsort(columns[0], kind="stable")])
        return found

    def find_collisions(self, kind: str, replacements: pl.Series) -> pl.DataFrame:
        """The replacements of a kind that equal a value, literally one of any kind or in
        normalised form one of this kind: columns `replacement`, `term` (in lower case), and
        `value_id` of each value."""
        normal = ascii_lower(all_kinds()[kind].normalise(replacements))
        texts = pl.DataFrame(
            {"replacement": replacements, "term": ascii_lower(replacements), "normal": normal}
        )
        is_value = self._may_be_values(texts["term"]) | self._may_be_values(texts["normal"])
        texts = texts.filter(pl.Series(is_value))
        wanted = pl.concat([texts["term"], texts["normal"]]).unique().implode()
        tables = [self.tables[name] for name in ("plain", "not_removed")] if texts.height else []
        parts = (
            pl.DataFrame(part)
            for table in tables
            for part in table.to_batches(max_chunksize=_TERMS_PER_BATCH)
        )
        terms = pl.concat(
            [_NO_TERMS, *(part.filter(pl.col("term").is_in(wanted)) for part in parts)]
        )
        of_kind = terms.filter(pl.col("kind") == list(all_kinds()).index(kind)).select(
            "value_id", normal="term"
        )
        found = [
            texts.join(terms.select("term", "value_id"), on="term"),
            texts.join(of_kind, on="normal"),
        ]
        return pl.concat([one.select("replacement", "term", "value_id") for one in found]).unique()

    def _may_be_values(self, texts: pl.Series) -> Mask:
        """True for texts with the hash of a forbidden term. No such text is missed; others are
        rarely taken for one (hashes of 64 bits)."""
        return self.forbidden_hashes.contains(
            siphash(texts.to_arrow(compat_level=pl.CompatLevel.oldest()), self.hash_key)
        )


def _list_hashed_texts(terms: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.intp]]:
    """The texts of which a digest may be published, with the row of each: the term and the spelling
    in the corpus; of digits, the term with and without a plus."""
    term, spelled = (terms.column(name).cast(pa.large_binary()) for name in ("term", "spelled"))
    plus, nothing = (pa.scalar(text, pa.large_binary()) for text in (b"+", b""))
    with_plus = pc.binary_join_element_wise(plus, term, nothing)
    other = pc.if_else(pc.equal(terms.column("term_type"), DIGITS), with_plus, spelled)
    differs = pc.not_equal(term, other)
    rows = np.concatenate([np.arange(terms.num_rows), np.flatnonzero(differs)])
    order = np.argsort(rows, kind="stable")
    return (
        pa.concat_arrays([term, other.filter(differs)]).take(pa.array(order)).to_pylist(),
        rows[order],
    )


def _map_table(folder: Path, name: str) -> pa.Table:
    """The terms of a pass from one of its files, memory-mapped, as one chunk."""
    return _as_one_chunk(pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all())


@cached_for_run(2)  # terms, and terms with digests
def _load_passes(passes: tuple[tuple[Path, int, int], ...]) -> tuple[SearchTerms, ...]:
    return tuple(_load_pass(path) for path, _, _ in passes)


def _load_pass(folder: Path) -> SearchTerms:
    if not (folder / "plain").is_dir():
        return SearchTerms.read(folder)
    plain, digits = (LiteralMatcher.load(folder / name) for name in ("plain", "digits"))
    flags = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _FLAG_ARRAYS}
    tables = {name: _map_table(folder, name) for name in _TABLES}
    return SearchTerms(
        plain,
        digits,
        **flags,
        tables=tables,
        folder=folder,
        hash_key=(folder / _HASH_KEY).read_bytes(),
    )
