"""The person of a data subject request: parses a match file, and links further values and names to
the person.

A match file has values, names and user ids. Linked to them are addresses that differ by a plus tag,
the display names beside these in header lines, and the addresses under those names if name and
address share a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts
from sanitize.core.keys import Key
from sanitize.core.text_cells import LeafPath
from sanitize.errors import UsageError
from sanitize.finders.names import is_name_in_local_part
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import all_kinds
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.stages.corpus_pass import load_occurrences, occurrences_in_cells
from sanitize.stages.scanner import Scanner
from sanitize.storage.corpus import Documents, flatten_cells
from sanitize.storage.files import describe_read_error, read_regular_file
from sanitize.storage.parquet_files import open_table_writer
from sanitize.text import name_search
from sanitize.text.address_lists import find_display_names, strip_titles
from sanitize.text.erased_addresses import remove_plus_tags
from sanitize.text.mail_headers import find_header_lines

USER_PREFIX = "user:"
_MAX_ADDRESSES_PER_NAME = (
    20  # a display name with more addresses is that of a list or a role, and is not followed
)
_LINKS_SCHEMA = pa.schema([pa.field("value_id", pa.int64()), pa.field("name", pa.large_string())])


@dataclass(frozen=True, repr=False)
class SubjectMatch:
    """The person as given: values by their `value_id`, names (from `name_search.normalise_name`),
    user ids; and `mailboxes` (from `remove_plus_tags`) of the values that are addresses."""

    value_ids: tuple[int, ...]
    names: tuple[str, ...]
    user_ids: tuple[str, ...]
    mailboxes: tuple[str, ...] = ()
    # the line of each value and name in the match file
    line_numbers: Mapping[int | str, int] = field(default_factory=dict, compare=False)
    # kind and text of each value, by its id
    values: Mapping[int, tuple[str, str]] = field(default_factory=dict, compare=False)

    @classmethod
    def read(
        cls, match: Path | str | Sequence[str], key: Key, customs: tuple[CustomKind, ...] = ()
    ) -> SubjectMatch:
        """Read a match file, or its lines. Raises UsageError as `parse` does, and for a file that
        cannot be read."""
        if not isinstance(match, str | Path):
            return cls.parse(match, "the match", key, customs)
        try:
            lines = read_regular_file(Path(match)).decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{match}: {describe_read_error(error)}; expected a text file in UTF-8, one value"
                " per line"
            ) from None
        return cls.parse(lines, str(match), key, customs)

    @classmethod
    def parse(
        cls, lines: Sequence[str], where: str, key: Key, customs: tuple[CustomKind, ...] = ()
    ) -> SubjectMatch:
        """Parse match lines. Each is a value of a kind (built-in or in `customs`), a name, or
        `user:` and a user id; `#` starts a comment.

        Raises UsageError for a line that would match many people, and if there are no lines.
        `where` opens the message."""
        numbered_lines = [
            (no, line.strip())
            for no, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not numbered_lines:
            raise UsageError(
                f"{where}: contains no match lines; expected a value (such as an e-mail address), a"
                " name or user:ID on each line"
            )
        users = [
            line[len(USER_PREFIX) :].strip()
            for _, line in numbered_lines
            if line.lower().startswith(USER_PREFIX)
        ]
        if not all(users):
            raise UsageError(
                f"{where}: a line is `{USER_PREFIX}` without an id after it; add one, or remove the"
                " line"
            )
        other_lines = []
        for no, line in numbered_lines:
            if not line.lower().startswith(USER_PREFIX):
                # `Ann Roe <ann.roe@example.com>` is a name and a value
                mailbox = re.fullmatch(r"(.*?)\s*<([^<>\s]+@[^<>\s]+)>", line)
                other_lines += [
                    (no, part)
                    for part in (mailbox.groups() if mailbox else (line,))
                    if part.strip()
                ]
        scanner = Scanner(key, DetectionSpec(custom_kinds=customs))
        texts = pa.array([line for _, line in other_lines], pa.large_string())
        found = scanner.run(texts)
        value_ids: dict[int, int] = {}
        value_numbers: list[int] = []
        for row, start, end, value_no in zip(
            found.text_no, *found.find_code_points(texts), found.value_no, strict=True
        ):
            if start == 0 and end == len(other_lines[row][1]):
                value_ids[int(row)] = int(found.values.value_id[value_no])
                value_numbers.append(int(value_no))
        used, kinds = found.values.take(np.array(value_numbers, np.int64)), list(all_kinds())
        values = {
            int(value_id): (kinds[kind], value.as_py())
            for value_id, kind, value in zip(used.value_id, used.kind, used.value, strict=True)
        }
        mailboxes = remove_plus_tags(pl.Series(used.normalised, dtype=pl.String)).drop_nulls()
        names: dict[str, int] = {}
        for row, (no, line) in enumerate(other_lines):
            if row in value_ids:
                continue
            if row in found.text_no or "@" in line:
                raise UsageError(
                    f"{where}: line {no} contains a value and other text; write one value, one name"
                    " or one user:ID on each line"
                )
            (name,) = name_search.normalise_name(strip_titles(pl.Series([line])))
            if name_search.is_too_common(name):
                raise UsageError(
                    f"{where}: line {no} is not a value of any kind, and too common as a name: it"
                    " would match many people. Give at least a first name and a surname, an"
                    " address, a number, or user:ID"
                )
            names[name] = no
        line_numbers: dict[int | str, int] = {
            value: other_lines[row][0] for row, value in value_ids.items()
        }
        line_numbers.update(names)
        return cls(
            tuple(sorted(set(value_ids.values()))),
            tuple(sorted(names)),
            tuple(sorted(set(users))),
            tuple(sorted(set(mailboxes))),
            line_numbers,
            values,
        )


@dataclass(frozen=True, kw_only=True)
class LinkTask:
    """Extracts the pairs of address and display name from one range of documents."""

    first_doc_no: int
    end_doc_no: int
    documents: Documents
    leaves: tuple[LeafPath, ...]
    occurrences: Path
    folder: Path


def link_task(task: LinkTask) -> None:
    """Write `links.parquet`: the distinct pairs of address and display name."""
    task.folder.mkdir(parents=True, exist_ok=True)
    addresses = load_occurrences(task.occurrences, ("EMAIL_ADDRESS",))
    links = [pl.DataFrame(schema={"value_id": pl.Int64, "name": pl.String})]
    for table in task.documents.read(
        task.first_doc_no, task.end_doc_no, [*dict.fromkeys(leaf.column for leaf in task.leaves)]
    ):
        table = table.combine_chunks()
        doc_no = np.asarray(table.column("doc_no"), np.int64)
        for column in flatten_cells(table, task.leaves):
            cell_addresses = occurrences_in_cells(addresses, doc_no[column.flat.rows], column.cell)
            if cell_addresses.height:
                links.append(
                    _extract_links(
                        TextBuffers.from_array(fill_null_texts(column.flat.texts)),
                        cell_addresses.sort("text_no", "start_byte"),
                    )
                )
    with open_table_writer(task.folder / "links.parquet", _LINKS_SCHEMA) as out:
        frame = pl.concat(links).unique().sort("value_id", "name")
        out.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(_LINKS_SCHEMA))


def _extract_links(buffers: TextBuffers, addresses: pl.DataFrame) -> pl.DataFrame:
    """The distinct pairs of address and display name in one column of cells."""
    text_no = addresses["text_no"].to_numpy().astype(np.int64)
    starts, ends = (
        buffers.offsets[text_no] + addresses[name].to_numpy() for name in ("start_byte", "end_byte")
    )
    lines = find_header_lines(buffers, text_no, starts)
    names = name_search.normalise_name(find_display_names(buffers, lines, starts, ends))
    return pl.DataFrame({"value_id": addresses["value_id"], "name": names}).drop_nulls().unique()


class ExpandedMatch(NamedTuple):
    """The ids of the values of a person, the names, and how many names were not followed."""

    value_ids: list[int]
    names: list[str]
    names_not_followed: int


def expand_match(
    links: pl.DataFrame, match: SubjectMatch, address_parts: pl.DataFrame
) -> ExpandedMatch:
    """Expand a match to all values and names of the person: addresses that differ by a plus tag,
    the display names of these, and the addresses under those names, with those that differ from
    these by a plus tag.

    A name that was not given is followed only if it and the address share a word (`Ann Roe` and
    aroe77@, not `Customer Service`); a display name with more than 20 addresses is that of a list
    or a role: neither is followed. `address_parts` comes from `read_address_parts`, `links` from
    `link_task`.
    """

    def is_in(column: str, items: Iterable[Any], dtype: Any) -> pl.Expr:
        return pl.col(column).is_in(pl.Series(sorted(items), dtype=dtype).implode())

    def add_plus_tags(values: set[int]) -> set[int]:
        mailboxes = {
            *match.mailboxes,
            *address_parts.filter(is_in("value_id", values, pl.Int64))["mailbox"],
        }
        return values | set(
            address_parts.filter(is_in("mailbox", mailboxes, pl.String))["value_id"]
        )

    values = add_plus_tags(set(match.value_ids))
    links_with_local = links.join(
        address_parts.select("value_id", "local").unique(), on="value_id", how="left"
    )
    links_with_local = links_with_local.with_columns(
        alike=is_name_in_local_part(links_with_local["name"], links_with_local["local"])
    )
    own_links = links_with_local.filter(is_in("value_id", values, pl.Int64))
    own_names = set(own_links["name"])
    names = {
        *match.names,
        *(
            name
            for name in own_links.filter("alike")["name"]
            if not name_search.is_too_common(name)
        ),
    }
    links_of_names = links_with_local.filter(is_in("name", names, pl.String))
    shared_names = set(
        links_of_names.group_by("name")
        .len()
        .filter(pl.col("len") > _MAX_ADDRESSES_PER_NAME)["name"]
    ) - set(match.names)
    names -= shared_names
    values |= set(
        links_of_names.filter(
            is_in("name", names, pl.String)
            & (pl.col("alike") | is_in("name", match.names, pl.String))
        )["value_id"]
    )
    return ExpandedMatch(
        sorted(add_plus_tags(values)), sorted(names), names_not_followed=len(own_names - names)
    )
