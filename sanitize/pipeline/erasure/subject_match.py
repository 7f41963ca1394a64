"""Who is meant, and what is theirs: a person as a match file gives them, and what stands with them under one display name.

What a file gives are values, names and user ids. What is theirs, too: addresses that differ by a plus tag, the display names that stand
beside these in header lines, and the addresses under those names, as far as name and address share a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import Buffers, filled
from sanitize.core.keys import Key
from sanitize.core.text_cells import Leaf
from sanitize.errors import UsageError
from sanitize.finders.names import alike
from sanitize.kinds.custom_kind import Custom
from sanitize.plans.detection_spec import Sought
from sanitize.stages.corpus_pass import here as those_in
from sanitize.stages.corpus_pass import occurrences_of
from sanitize.stages.scanner import Seeker
from sanitize.storage.corpus import Documents, cells_of, table_writer
from sanitize.text import name_search
from sanitize.text.address_lists import display_names, untitled
from sanitize.text.mail_headers import header_lines

USER = "user:"
_MOST = 20  # addresses behind one display name: with more it is the name of a list or a role, and leads to nobody
_LINKS = pa.schema([pa.field("value_id", pa.int64()), pa.field("name", pa.large_string())])


@dataclass(frozen=True, repr=False)
class Subject:
    """A person as given: values by their `value_id`, names (as `mentions.normalised` gives them), user ids."""

    values: tuple[int, ...]
    names: tuple[str, ...]
    users: tuple[str, ...]
    lines: Mapping[int | str, int] = field(default_factory=dict, compare=False)  # where each value and name was given

    @classmethod
    def read(cls, match: Path | str | Sequence[str], key: Key, customs: tuple[Custom, ...] = ()) -> Subject:
        """The person of a match file, or of its lines; errors are those of `of`."""
        if not isinstance(match, str | Path):
            return cls.of(match, "the match", key, customs)
        try:
            lines = Path(match).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{match}: cannot be read ({type(error).__name__}); expected a text file in UTF-8, one value a line") from None
        return cls.of(lines, str(match), key, customs)

    @classmethod
    def of(cls, lines: Sequence[str], where: str, key: Key, customs: tuple[Custom, ...] = ()) -> Subject:
        """The person that some lines describe: a value of a kind (`customs` are there as well), a name, or `user:` and a user id on each;
        `#` begins a comment.

        UsageError (`where` opens it) for a line that would match many people, and where there is no line at all."""
        given = [(no, line.strip()) for no, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
        if not given:
            raise UsageError(f"{where}: names nobody; expected a value (such as an e-mail address), a name or user:ID on each line")
        users = [line[len(USER) :].strip() for _, line in given if line.lower().startswith(USER)]
        if not all(users):
            raise UsageError(f"{where}: a line is `{USER}` without an id behind it; write one, or take the line out")
        rest = []
        for no, line in given:
            if not line.lower().startswith(USER):
                # `Ann Roe <ann.roe@example.com>` is a name and a value
                mailbox = re.fullmatch(r"(.*?)\s*<([^<>\s]+@[^<>\s]+)>", line)
                rest += [(no, part) for part in (mailbox.groups() if mailbox else (line,)) if part.strip()]
        found = Seeker(key, Sought(customs=customs)).run(pa.array([line for _, line in rest], pa.large_string()))
        whole: dict[int, int] = {}
        for row, start, stop, which in zip(found.text_no, found.start, found.stop, found.which, strict=True):
            if start == 0 and stop == len(rest[row][1]):
                whole[int(row)] = int(found.distinct.value_id[which])
        names: dict[str, int] = {}
        for row, (no, line) in enumerate(rest):
            if row in whole:
                continue
            if row in found.text_no or "@" in line:
                raise UsageError(
                    f"{where}: line {no} holds a value and something else; write one value, one name or one user:ID on each line"
                )
            (name,) = name_search.normalised(untitled(pl.Series([line])))
            if name_search.too_common(name):
                raise UsageError(
                    f"{where}: line {no} is no value of a kind, and as a name too common: it would match many people. "
                    "Give at least a first name and a surname, an address, a number, or user:ID"
                )
            names[name] = no
        lines_of: dict[int | str, int] = {value: rest[row][0] for row, value in whole.items()}
        lines_of.update(names)
        return cls(tuple(sorted(set(whole.values()))), tuple(sorted(names)), tuple(sorted(set(users))), lines_of)


@dataclass(frozen=True, kw_only=True)
class LinkTask:
    """One range of documents: which display names stand beside which addresses."""

    first: int
    last: int
    documents: Documents
    leaves: tuple[Leaf, ...]
    occurrences: Path
    folder: Path


def link_task(task: LinkTask) -> dict[str, Any]:
    """Write `links.parquet`: the distinct pairs of address and display name."""
    task.folder.mkdir(parents=True, exist_ok=True)
    addresses = occurrences_of(task.occurrences, ("EMAIL_ADDRESS",))
    links = [pl.DataFrame(schema={"value_id": pl.Int64, "name": pl.String})]
    for table in task.documents.read(task.first, task.last, [*dict.fromkeys(leaf.column for leaf in task.leaves)]):
        table = table.combine_chunks()
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        for column in cells_of(table, list(task.leaves)):
            near = those_in(addresses, doc_no[column.flat.rows], column.cells)
            if near.height:
                links.append(_links(Buffers.of(filled(column.flat.texts)), near.sort("text_no", "start_byte")))
    with table_writer(task.folder / "links.parquet", _LINKS) as out:
        frame = pl.concat(links).unique().sort("value_id", "name")
        out.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_LINKS))
    return {}


def _links(buffers: Buffers, addresses: pl.DataFrame) -> pl.DataFrame:
    """The pairs of address and display name in one column."""
    text_no = addresses["text_no"].to_numpy().astype(np.int64)
    starts, stops = (buffers.offsets[text_no] + addresses[name].to_numpy() for name in ("start_byte", "stop_byte"))
    lines = header_lines(buffers, text_no, starts)
    names = name_search.normalised(display_names(buffers, lines, starts, stops))
    return pl.DataFrame({"value_id": addresses["value_id"], "name": names}).drop_nulls().unique()


def belonging(links: pl.DataFrame, given: Subject, locals_of: pl.DataFrame) -> tuple[list[int], list[str], int]:
    """The person's values and names: addresses that differ by a plus tag, the display names of these, and the addresses under the names.

    A name that was not given leads on only where it and the address share a word (`Ann Roe` and aroe77@, not `Customer Service`), and a
    display name with many addresses is that of a list or a role. Returns how many names were not followed for either reason.
    `locals_of` has `value_id`, `local` (what stands before the @, in lower case) and `mailbox` (the address without its plus tag).
    """

    def among(column: str, some: Iterable[Any], kind: Any) -> pl.Expr:
        return pl.col(column).is_in(pl.Series(sorted(some), dtype=kind).implode())

    boxes = locals_of.filter(among("value_id", given.values, pl.Int64))["mailbox"]
    values = {*given.values, *locals_of.filter(among("mailbox", set(boxes), pl.String))["value_id"]}
    told = links.join(locals_of.select("value_id", "local").unique(), on="value_id", how="left")
    told = told.with_columns(alike=alike(told["name"], told["local"]))
    theirs = told.filter(among("value_id", values, pl.Int64))
    used = set(theirs["name"])
    names = {*given.names, *(name for name in theirs.filter("alike")["name"] if not name_search.too_common(name))}
    under = told.filter(among("name", names, pl.String))
    many = set(under.group_by("name").len().filter(pl.col("len") > _MOST)["name"]) - set(given.names)
    names -= many
    values |= set(under.filter(among("name", names, pl.String) & (pl.col("alike") | among("name", given.names, pl.String)))["value_id"])
    return sorted(values), sorted(names), len(used - names)


def locals_in(values: Sequence[Path]) -> pl.DataFrame:
    """What stands before the @ of every address in files of the vault, and its mailbox: columns value_id, local, mailbox."""
    frames = []
    for path in values:  # one a task, of distinct values: not documents
        table = pl.DataFrame(pq.read_table(path, columns=["value_id", "value"], partitioning=None))
        lower = table["value"].str.to_lowercase()
        frames.append(
            table.select("value_id", lower.str.extract(r"\A([^@]+)@").alias("local"), lower.str.replace(r"[+][^@]*@", "@").alias("mailbox"))
        )
    return pl.concat(frames).drop_nulls().unique()
