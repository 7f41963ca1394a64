"""What is counted over the whole corpus, in SQL: the only room that sees all of it at once.

A part declares what it `needs`: `firsts` (its kept occurrences), `value_ids` (which values are real), `known_values` (those of its
kinds, raw), `part_stores` (what variants are drawn from), or queries of its own, which it asks in `gather`; one that `links` has
`entities` besides (whose values are one person's). Counts are taken over what earlier parts left; only `value_ids`, `known_values` and
`entities` are of the whole corpus, since a variant must not be a value of a dropped document either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import arrow
from sanitize.core.engine import Engine
from sanitize.core.parts import Counts, Editor
from sanitize.kinds.kind import kind as kind_named
from sanitize.stages.corpus_pass import Ground, without
from sanitize.stages.prior_values import place
from sanitize.storage import queries
from sanitize.storage.table_schemas import BLACKLIST

I64 = npt.NDArray[np.int64]


def value_counts(engine: Engine, partial: Sequence[Path], out: Path) -> None:
    """The table `value_counts`, from the counts of the tasks."""
    engine.sql(queries.query("value_counts").text, {"partial_counts": partial}, out)


def kinds_left(engine: Engine, left: Sequence[Path], out: Path) -> dict[str, dict[str, int]]:
    """By kind, the occurrences, distinct values and documents among the occurrences that are left."""
    engine.sql(queries.query("kinds_left").text, {"occurrences_left": left}, out)
    rows = pq.read_table(out, partitioning=None).rename_columns({"distinct_values": "values"}).to_pylist()
    return {row.pop("kind"): row for row in rows}


def for_editors(
    engine: Engine,
    editors: Sequence[Editor],
    *,
    occurrences: Sequence[Path],
    counted: Path,
    values: Sequence[Path],
    drops: Sequence[Path],
    folder: Path,
    ground: Ground | None = None,
    blacklist: Path | None = None,
    fewer: bool = False,
    settle: Callable[[Path], object] = lambda firsts: None,
) -> tuple[Counts, ...]:
    """What each editor needs, as files in `folder`. `ground` is asked by editors that look at texts first; `blacklist` is the table of the
    plan, empty where none was counted. `counted` is of the whole corpus; `fewer` says that `occurrences` are fewer. `settle` may take rows
    out of a table of firsts."""
    found: list[Counts] = []
    left: Sequence[Path] = [without(engine, occurrences, drops, folder / "left.parquet")] if drops else occurrences
    taken: set[str] = set()
    for number, editor in enumerate(editors):
        tables: dict[str, Path] = {}
        chosen = folder / f"{number}-kinds.parquet"
        chosen_kinds = sorted(set(editor.kinds) - taken)
        pq.write_table(pa.table({"kind": pa.array(chosen_kinds, pa.string())}), chosen)
        taken |= set(editor.kinds)
        untouched = number == 0 and not drops and not fewer
        if editor.keep and "firsts" in editor.needs:
            tables["firsts"] = folder / f"{number}-firsts.parquet"
            if untouched and editor.keep == 1:
                engine.sql(
                    queries.query("firsts_from_counts").text,
                    {"value_counts": [counted], "chosen_kinds": [chosen]},
                    tables["firsts"],
                )
            else:
                engine.sql(
                    queries.query("firsts").text,
                    {"occurrences_left": left, "chosen_kinds": [chosen]},
                    tables["firsts"],
                    keep=editor.keep,
                )
            settle(tables["firsts"])
        if "value_ids" in editor.needs:
            tables["value_ids"] = counted
        if "part_stores" in editor.needs:
            tables["part_stores"] = folder / f"{number}-part_stores.parquet"
            only = _value_ids(engine, left, folder / f"{number}-ids.parquet") if drops else None
            part_stores(editor.kinds, values, tables["part_stores"], only)
        if "known_values" in editor.needs:
            tables["known_values"] = folder / f"{number}-known_values.parquet"
            engine.sql(queries.query("known_values").text, {"values": values, "chosen_kinds": [chosen]}, tables["known_values"])
        if editor.links:
            tables["entities"] = folder / f"{number}-entities.parquet"
            of = {"occurrences": occurrences, "values": values, "chosen_kinds": [chosen]}
            engine.sql(queries.query("entities").text, of, tables["entities"])
        if "blacklist" in editor.needs:
            tables["blacklist"] = blacklist or folder / "no-blacklist.parquet"
            if blacklist is None:
                pq.write_table(BLACKLIST.schema.empty_table(), tables["blacklist"])
        if editor.looks:
            assert ground is not None
            tables |= editor.gather(ground.for_part(editor, f"edit-{number}", chosen_kinds, left))
        if any(later.keep or later.looks for later in editors[number + 1 :]):
            left = _left(engine, left, chosen, tables, folder, number)
        found.append(Counts(tables))
    return tuple(found)


def _left(engine: Engine, left: Sequence[Path], chosen: Path, tables: Mapping[str, Path], folder: Path, number: int) -> list[Path]:
    """The occurrences that remain for later editors once this one has taken its spans."""
    claimed, nothing = tables.get("goes"), folder / f"{number}-nothing.parquet"
    if claimed is None:
        claimed, firsts = folder / f"{number}-claimed.parquet", tables.get("firsts", nothing)
        if firsts == nothing:
            schema = pa.schema([("doc_no", pa.int64()), ("cell", pa.int32()), ("start", pa.int64()), ("value_id", pa.int64())])
            pq.write_table(schema.empty_table(), nothing)
        engine.sql(queries.query("claimed").text, {"occurrences_left": left, "chosen_kinds": [chosen], "firsts": [firsts]}, claimed)
    drops, out = folder / f"{number}-drops.parquet", folder / f"{number}-left.parquet"
    pq.write_table(pa.table({"doc_no": pa.array([], pa.int64())}), drops)
    engine.sql(queries.query("left_after_claims").text, {"occurrences": left, "claimed": [claimed], "drops": [drops]}, out)
    return [out]


def _value_ids(engine: Engine, left: Sequence[Path], out: Path) -> I64:
    """The values that stand in what is left, ascending."""
    engine.sql(queries.query("values_left").text, {"occurrences_left": left}, out)
    return np.asarray(pq.read_table(out, partitioning=None).column("value_id"), np.int64)


def _once(pieces: Sequence[pa.LargeStringArray]) -> pa.LargeStringArray:
    return pc.unique(pa.concat_arrays(pieces))


def _in_pieces(values: Sequence[Path]) -> Iterator[pa.Table]:
    """The distinct values of each task, a piece at a time."""
    for path in values:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_PIECE, columns=["value_id", "kind", "value", "normalised"], use_threads=False):
                yield pa.Table.from_batches([batch])


# What may stand in a variant: parts that look like names. Anything longer or odder may itself hold an address or a number
# (bounce-7-bob=example.com, [192.0.2.1]), which a variant would then carry to new places.
NAMELIKE = {
    "first": r"\A[a-z]{2,20}[0-9]{0,4}\z",
    "local": r"\A[a-z]{2,24}[0-9]{0,4}\z",
    "last": r"\A[a-z]{1,20}(?:[._-][a-z]{1,20}){0,2}[0-9]{0,4}\z",
    "domain": r"\A(?:[a-z0-9-]{1,20}[.])*[a-z0-9-]*[a-z][a-z0-9-]*\z",
    "host": r"\A(?:[a-z0-9-]{1,20}[.])*[a-z0-9-]*[a-z][a-z0-9-]*[.][a-z]{2,24}\z",
    "tld": r"\A[a-z]{2,24}\z",
}
LONGEST = 32
_PIECE = 50_000


def part_stores(kinds: Sequence[str], values: Sequence[Path], out: Path, only: I64 | None = None) -> None:
    """The distinct parts of the values (or of `only` those of these ids) of each kind with parts: columns `kind`, `part`, `text`, sorted.

    A loop over the tasks' files of distinct values, not over documents: how a value splits is the kind's own rule, a columnar function.
    """
    found: dict[tuple[str, str], list[pa.LargeStringArray]] = {}
    for name in kinds:
        split = kind_named(name).split
        for table in _in_pieces(values) if split is not None else ():
            table = table.filter(pc.equal(table.column("kind").cast(pa.string()), name))
            ids, rows = np.unique(np.asarray(table.column("value_id")), return_index=True)
            table = table.take(pa.array(rows if only is None else rows[place(only, ids)[1]]))
            if not table.num_rows:
                continue
            parts = split(pl.Series(pc.coalesce(table.column("normalised"), table.column("value"))))  # type: ignore[misc]
            alone = parts["last"] == ""
            for part, texts in (
                ("first", parts["first"].filter(~alone)),
                ("local", parts["first"].filter(alone)),
                ("last", parts["last"]),
                ("domain", parts["domain"]),
                ("tld", parts["tld"]),
                ("host", parts.select(pl.concat_str("domain", "dot", "tld")).to_series()),
            ):
                lower = texts.unique().str.to_lowercase()
                fit = lower.filter(lower.str.contains(NAMELIKE[part]) & (lower.str.len_bytes() <= LONGEST))
                # as Arrow has it, which copies: what Polars gives are views, each of which would hold all the values of its piece
                one = found.setdefault((name, part), [])
                one.append(arrow(fit.unique()))
                if sum(len(fresh) for fresh in one[1:]) > len(one[0]):  # not with each piece, which would cost a look at all there are
                    one[:] = [_once(one)]
    frames = []
    for (name, part), pieces in sorted(found.items(), key=lambda one: one[0]):
        texts = pl.Series("text", _once(pieces)).sort()
        frames.append(pl.DataFrame({"kind": [name], "part": [part]}).join(texts.to_frame(), how="cross"))
    empty = pl.DataFrame(schema={"kind": pl.String, "part": pl.String, "text": pl.String})
    pl.concat([empty, *frames]).write_parquet(out, compression="lz4")
