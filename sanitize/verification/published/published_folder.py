"""What `verify` checks about a published folder and its workspace besides values: files, links and
archives of OUT, and whether WORK still has the tables of the run.

Files that the run did not publish ("foreign files", such as .gitattributes) are no error: they are
named, and searched as the others are. A name that may hold a value is replaced by a number.
"""

from __future__ import annotations

import os
import re
import stat
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sanitize.array_types import U8
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.core.table_rendering import escape_controls
from sanitize.errors import OutputBroken
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256, parse_json
from sanitize.storage.private_folder import OCCURRENCES_FOLDER, TASKS_FOLDER, VALUES_FOLDER
from sanitize.storage.publication import CHECKSUMS_NAME
from sanitize.text import name_search
from sanitize.text.decodings.wide_characters import find_wide_stretches
from sanitize.verification.parquet_pages import as_single_text, find_readable_spans, read_pieces
from sanitize.verification.search_terms import SearchTerms

PAGE_NAMES = ("README.md", "report.html", "manifest.json", CHECKSUMS_NAME)
_SHOWN_CHANGES = 5
# beginnings of files whose content is compressed or packed; a file that is only gzip, zstd or bz2
# is decompressed and searched
_PACKED_MAGIC = (
    *(
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"PK\x07\x08",
        b"7z\xbc\xaf\x27\x1c",
        b"Rar!",
        b"!<arch>\n",
        b"MSCF",
        b"xar!",
    ),  # archives
    *(
        b"\xfd7zXZ\x00",
        b"\x5d\x00\x00",
        b"LZIP",
        b"\x89LZO",
        b"\x04\x22\x4d\x18",
        b"\x02\x21\x4c\x18",
        b"\x1f\x8b",
        b"\x1f\x9d",
    ),
    *(
        b"\x28\xb5\x2f\xfd",
        b"BZh",
        b"\xff\x06\x00\x00sNaPpY",
        b"\x78\x01",
        b"\x78\x5e",
        b"\x78\x9c",
        b"\x78\xda",
        b"PACK",
    ),  # zlib, git
    *(b"%PDF-", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),  # documents
    *(
        b"PAR1",
        b"ARROW1",
        b"ORC",
        b"Obj\x01",
        b"\x89HDF",
        b"SQLite format 3\x00",
        b"CDF\x01",
        b"CDF\x02",
    ),  # tables and arrays
    *(
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"GIF8",
        b"II*\x00",
        b"MM\x00*",
        b"OggS",
        b"ID3",
        b"fLaC",
    ),  # pictures and sound
)
_PACKED_SUFFIXES = (
    ".br",
    ".lzma",
    ".deflate",
    ".lz4",
    ".snappy",
    ".sz",
    ".npz",
    ".zlib",
)  # of formats that may have no such beginning
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")  # of UTF-16 and UTF-32
_ARRAY_MAGIC = b"\x93NUMPY"
# of texts in bytes or UTF-32
_TEXT_ARRAY = re.compile(rb"\x93NUMPY[^{]{4,6}\{'descr': '[|<>=]?[SU]\d+'")
# of a file that is no UTF-8, this part of the bytes in each block must be texts that the check
# reads: of English text compressed by LZ4,
# which copies the most, .31 to .75 of a block are, of other compressed data at most .07, of Latin-1
# more than .75
_BLOCK_BYTES, _MIN_READABLE = 4096, 0.75
_TAR_MAGIC, _TAR_MAGIC_OFFSET = b"ustar", 257
# may be an encoded value or a digest
_LONG_CODE = re.compile(r"(?=[A-Za-z+/=_-]*[0-9])[A-Za-z0-9+/=_-]{16,}")


@dataclass(frozen=True)
class PublishedFolder:
    """What is in OUT and was not published by the run: regular files, others (links, pipes,
    devices), and empty folders; names relative to OUT."""

    path: Path
    foreign: tuple[str, ...]
    irregular: tuple[str, ...]
    empty_folders: tuple[str, ...]

    @classmethod
    def read(cls, corpus: Corpus) -> PublishedFolder:
        """Lists OUT without opening a file in it. Raises OutputBroken where a published file is now
        a link or not a file."""
        own = {shard.path.relative_to(corpus.path).as_posix() for shard in corpus.shards} | {
            *corpus.sidecar_files,
            *PAGE_NAMES,
        }
        foreign: list[str] = []
        irregular: list[str] = []
        empty_folders: list[str] = []
        for folder, folder_names, file_names in os.walk(corpus.path):
            if (
                not folder_names
                and not file_names
                and Path(folder) not in (corpus.path, corpus.path / "data")
            ):
                empty_folders.append(Path(folder).relative_to(corpus.path).as_posix())
            links = [name for name in folder_names if os.path.islink(os.path.join(folder, name))]
            for path in (Path(folder, name) for name in (*links, *file_names)):
                name = path.relative_to(corpus.path).as_posix()
                is_regular = stat.S_ISREG(path.lstat().st_mode)
                if name in own and not is_regular:
                    raise OutputBroken(
                        f"{corpus.path}: {name} is not a regular file, but a link or a device; run"
                        " again with --replace"
                    )
                if name not in own:
                    (foreign if is_regular else irregular).append(name)
        return cls(
            corpus.path,
            *(tuple(sorted(names, key=Path)) for names in (foreign, irregular, empty_folders)),
        )

    def require_no_links(self, names: ForeignNames) -> None:
        """Raises OutputBroken for a link, a pipe or a device."""
        if self.irregular:
            raise OutputBroken(
                f"{self.path}: {_join([names.show(name) for name in self.irregular])}: a link or no"
                " regular file, which a published folder must not hold; remove it"
            )

    def require_searchable(self, names: ForeignNames) -> None:
        """Raises OutputBroken for foreign files whose content the check cannot read: archives,
        compressed data, tables, objects of git, pictures, arrays of numbers, text in encodings that
        it does not decode."""
        packed = [name for name in self.foreign if not _is_searchable(self.path / name)]
        if packed:
            raise OutputBroken(
                f"{self.path}: {_join(names.summarize(packed))}: packed or compressed content,"
                " which was not checked, because the check cannot read into it; move it out of the"
                " folder, or unpack it there"
            )


class ForeignNames:
    """Names of foreign files and folders as they may be shown: one that may hold a removed value,
    in clear or encoded, becomes a number."""

    def __init__(
        self, folder: PublishedFolder, terms: Sequence[Path], erased_names: Sequence[str]
    ) -> None:
        all_names = [*folder.foreign, *folder.irregular, *folder.empty_folders]
        self._shown = {
            name: f"foreign file {number}" for number, name in enumerate(folder.foreign, 1)
        }
        self._shown |= {
            name: f"foreign entry {number}" for number, name in enumerate(folder.irregular, 1)
        }
        self._shown |= {
            name: f"foreign folder {number}" for number, name in enumerate(folder.empty_folders, 1)
        }
        self._is_hidden: dict[str, bool] = {}
        texts = [os.fsencode(name).decode("utf-8", "replace") for name in all_names]
        spellings = [
            (text, re.sub(r"[\W_]+", " ", text), urllib.parse.unquote(text)) for text in texts
        ]
        column = pa.array(
            [spelling for of_name in spellings for spelling in of_name], pa.large_string()
        )
        passes = SearchTerms.open(terms) if all_names else ()
        with_value = {
            int(no) // 3
            for one in passes
            for no in one.plain.find(column, check_boundaries=False).text_no
        }
        for no, (name, text) in enumerate(zip(all_names, texts, strict=True)):
            has_person = (
                bool(erased_names)
                and name_search.count_names(column.slice(3 * no, 3), tuple(erased_names)) > 0
            )
            is_git_object = name.startswith(".git/")  # shown as .git only
            self._is_hidden[name] = (
                no in with_value
                or has_person
                or (bool(_LONG_CODE.search(text)) and not is_git_object)
            )

    def show(self, name: str) -> str:
        """The name, or a number in its place."""
        return self._shown[name] if self._is_hidden[name] else escape_controls(name)

    def describe(self, reported_name: str) -> str:
        """A name of a finding, with the file name added to the number of a foreign file if it may
        be shown."""
        name = next((name for name, number in self._shown.items() if number == reported_name), None)
        return (
            reported_name
            if name is None or self._is_hidden[name]
            else f"{reported_name} ({escape_controls(name)})"
        )

    def hide(self, reported_name: str) -> None:
        """Hides the name of a foreign file, by its number, in which the search found a value."""
        for name, number in self._shown.items():
            if number == reported_name:
                self._is_hidden[name] = True

    def summarize(self, names: Sequence[str]) -> list[str]:
        """The names as shown; those below .git as one entry with their number."""
        git_count = sum(name.startswith(".git/") and not self._is_hidden[name] for name in names)
        others = [
            self.show(name)
            for name in names
            if self._is_hidden[name] or not name.startswith(".git/")
        ]
        return [*([f".git ({git_count:,} files)"] if git_count else []), *others]


def require_run_tables(
    work: Path, run_folder: Path, shard_count: int, more_tables: Sequence[Path] = ()
) -> None:
    """Raises OutputBroken if a table of WORK that describes the output is missing, or is not the
    one that the run wrote.

    Compares them with the hashes in the records of the run's tasks: an emptied vault would
    otherwise be searched for nothing. `more_tables` are checked too.
    """
    stages = ("detect", "second_round", "count")
    record_paths = [path for name in stages for path in work.glob(f"tasks/{name}/*.json")] + [
        *(run_folder / TASKS_FOLDER).glob("*.json")
    ]
    recorded: dict[str, set[str]] = {}
    for record_path in record_paths:
        try:
            files = parse_json(record_path.read_text("utf-8"))["files"]
            for name, sha256 in files.items():
                recorded.setdefault(os.path.normpath(record_path.parent / name), set()).add(sha256)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # its files count as changed
    folders = [
        work / VALUES_FOLDER,
        work / OCCURRENCES_FOLDER,
        *(run_folder / name for name in ("kept", "edits", "rows")),
    ]
    tables = [folder / f"{no:05d}.parquet" for folder in folders for no in range(shard_count)]
    for table in (*more_tables, *tables):
        hashes = recorded.get(os.path.normpath(table))
        try:
            problem = "" if file_sha256(table) in (hashes or ()) else "is not the file that the run"
        except FileNotFoundError:
            problem = "is missing, which the run"
        except OSError:
            problem = "cannot be read, which the run"
        if problem:
            name = table.relative_to(work).as_posix()
            # a record that is missing or damaged has no hash
            fact = f"{name} {problem} wrote" if hashes else f"the record of {name} is missing"
            raise OutputBroken(
                f"{work}: {fact}, so it says nothing about the output. Restore the private folder,"
                " or move it and the output away and run the same command again"
            )


def describe_changes(changes: Sequence[str]) -> str:
    """The first changes in one line."""
    return _join(changes, "; ")


def _join(words: Sequence[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(words) - _SHOWN_CHANGES:,} more" if words[_SHOWN_CHANGES:] else ""
    return separator.join(words[:_SHOWN_CHANGES]) + more


def _is_searchable(path: Path) -> bool:
    """False for content that the check cannot read into: of a packed format (also inside gzip), or
    mostly bytes that are no text."""
    if path.name.lower().endswith(_PACKED_SUFFIXES):
        return False
    is_first, is_wide = True, False
    try:
        for piece in read_pieces(path, 0):
            head = piece.data[: _TAR_MAGIC_OFFSET + len(_TAR_MAGIC)].tobytes() if is_first else b""
            is_wide = is_wide or head.startswith(_WIDE_MARKS)
            if head.startswith(_PACKED_MAGIC) or head[_TAR_MAGIC_OFFSET:].startswith(_TAR_MAGIC):
                return False
            if head.startswith(_ARRAY_MAGIC) and not _TEXT_ARRAY.match(head):
                return False
            if not _is_readable(piece.data, is_wide):
                return False
            is_first = False
    except OutputBroken:
        return False
    return True


def _is_readable(data: U8, is_wide: bool) -> bool:
    """True for UTF-8, and where in each block most bytes but the zeros are in texts that the check
    reads: stretches of UTF-16 and UTF-32 as they are decoded, and of UTF-8 unless the file is
    marked as one of these."""
    try:
        data.tobytes().decode("utf-8")
        return True
    except UnicodeDecodeError:
        pass
    starts, ends = find_readable_spans(data[: 0 if is_wide else None])
    stretches = find_wide_stretches(TextBuffers.from_array(as_single_text(data)))
    wide = [(first - width, last + width) for width, first, last in stretches]
    wide_starts, wide_ends = np.array(wide, np.int64).reshape(-1, 2).T
    depth_changes = np.zeros(len(data) + 1, np.int64)
    np.add.at(depth_changes, np.concatenate([starts, wide_starts.clip(0)]), 1)
    np.add.at(depth_changes, np.concatenate([ends, wide_ends.clip(max=len(data))]), -1)
    is_text = np.cumsum(depth_changes[:-1]) > 0
    blocks = np.arange(0, len(data), _BLOCK_BYTES)
    byte_count = np.add.reduceat(data != 0, blocks, dtype=np.int64)
    text_count = np.add.reduceat((data != 0) & is_text, blocks, dtype=np.int64)
    return bool((text_count >= _MIN_READABLE * byte_count).all())
