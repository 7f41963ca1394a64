"""How much of the input was quarantined, for `--max-quarantine`: records, and files that were
quarantined whole, by their bytes.

A file that cannot be read at all is one row of the quarantine, whatever it held. Where its number
of records is unknown, it counts by its bytes: the lost share is the share of the input's bytes in
such files, plus the share of the records of the other files that are quarantined. A mail or a text
of its own is one record.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

import pyarrow as pa

from sanitize.errors import printable_path
from sanitize.readers.survey import Survey

# of files that do not fit the main text's column
_COLUMN_REASONS = frozenset(("no_text", "no_header", "wrong_schema"))
_PIECE = "from byte "  # location of a piece of a large file
# suffixes that may be printed; another one may be a part of a name
_COMMON_SUFFIXES = frozenset(
    (
        *(
            ".txt",
            ".text",
            ".md",
            ".html",
            ".htm",
            ".xml",
            ".json",
            ".jsonl",
            ".ndjson",
            ".csv",
            ".tsv",
            ".parquet",
            ".arrow",
            ".feather",
        ),
        *(
            ".eml",
            ".mbox",
            ".msg",
            ".pst",
            ".pdf",
            ".doc",
            ".docx",
            ".xls",
            ".xlsx",
            ".ppt",
            ".pptx",
            ".rtf",
            ".odt",
            ".zip",
            ".tar",
            ".7z",
        ),
        *(
            ".gz",
            ".zst",
            ".bz2",
            ".xz",
            ".png",
            ".jpg",
            ".jpeg",
            ".gif",
            ".tif",
            ".mp3",
            ".mp4",
            ".exe",
            ".bin",
            ".db",
            ".sqlite",
            ".log",
        ),
    )
)


@dataclass(frozen=True)
class QuarantineLoss:
    """How much was quarantined. `records` counts quarantined records, of `total`; a file that was
    quarantined whole counts as one, since its number of records is unknown (`whole_files`,
    `lost_bytes`)."""

    records: int
    total: int
    reasons: Mapping[str, int]
    whole_files: int = 0
    lost_bytes: int = 0
    total_bytes: int = 0
    lost_suffixes: Mapping[str, int] = field(default_factory=dict)  # bytes by suffix
    read_suffixes: Mapping[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The lost share of the input, from 0 to 1."""
        lost = self.lost_bytes / self.total_bytes if self.total_bytes else 0.0
        others = max(self.total - self.whole_files, 1)
        return lost + (1 - lost) * (self.records - self.whole_files) / others

    def describe(self) -> str:
        """What was quarantined, and why, in counts."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items())
        words = f"{self.records} of {self.total} records were quarantined ({reasons})"
        if self.lost_bytes:
            suffixes = ", ".join(name for name, _ in Counter(self.lost_suffixes).most_common(3))
            files = f"{self.whole_files} {'file' if self.whole_files == 1 else 'files'}"
            words += (
                f", {files}{f' ({suffixes})' if suffixes else ''} as a whole:"
                f" {_percent(self.lost_bytes / self.total_bytes)} of the bytes"
            )
        return words

    def exceeds(self, limit: float) -> bool:
        """True if more is lost than `limit` allows, a share from 0 to 1."""
        return self.records > limit * self.total or self.share > limit

    def suggest_remedy(self, is_strict: bool, *, has_index: bool = True) -> str:
        """What ends the problem: other inputs, or another limit. `has_index`: the input is indexed,
        so that another one needs --replace."""
        suffixes = [
            name
            for name, _ in Counter(self.read_suffixes).most_common(1)
            if name not in self.lost_suffixes
        ]
        others = f", such as FOLDER/*{suffixes[0]}" if suffixes else ""
        limit = (
            "leave out --strict"
            if is_strict
            else (
                "allow it with --max-quarantine"
                f" {_percent(max(self.share, self.records / self.total))}"
            )
        )
        replace = ", with --replace" if has_index else ""
        if self.whole_files:
            remedy = f"Give only the files that can be read{others}{replace}"
        elif _COLUMN_REASONS & self.reasons.keys():
            remedy = (
                "Give only files that have the main text, or name its column (--text-column"
                f" COLUMN){replace}"
            )
        else:
            remedy = "Repair the records"
        return f"{remedy}, or {limit}."


def measure_loss(survey: Survey, quarantine: pa.Table, total: int) -> QuarantineLoss:
    """The loss among `total` records; `quarantine` has the rows of the table of that name, `survey`
    the files that this command reads."""
    sizes = {printable_path(path): size for path, size in survey.files}
    pieces: dict[tuple[str, int], int] = {}
    single_documents: set[str] = set()  # files of one record
    for unit in survey.units:
        formats = unit.file_formats or (unit.format,) * len(unit.files)
        single_formats = ("mail", "text") if survey.roles.documents == "file" else ("mail",)
        single_documents |= {
            printable_path(path)
            for path, format in zip(unit.files, formats, strict=True)
            if format in single_formats
        }
        if len(unit.files) == 1:
            path = printable_path(unit.files[0])
            pieces[path, unit.start] = (
                unit.end if unit.end is not None else sizes.get(path, 0)
            ) - unit.start
    whole_files = lost_bytes = 0
    lost_suffixes: Counter[str] = Counter()
    for source, location in zip(
        quarantine.column("source").to_pylist(),
        quarantine.column("location").to_pylist(),
        strict=True,
    ):
        path = printable_path(source)
        is_piece = location.startswith(_PIECE)
        if (location == "file" or is_piece) and path not in single_documents:
            size = (
                pieces.get((path, int(location.removeprefix(_PIECE))), 0)
                if is_piece
                else sizes.get(path, 0)
            )
            whole_files += 1
            lost_bytes += size
            if (suffix := PurePath(path).suffix.lower()) in _COMMON_SUFFIXES:
                lost_suffixes[suffix] += size
    lost_paths = {printable_path(source) for source in quarantine.column("source").to_pylist()}
    read_suffixes: Counter[str] = Counter()
    for path, size in sizes.items():
        if path not in lost_paths and (suffix := PurePath(path).suffix.lower()) in _COMMON_SUFFIXES:
            read_suffixes[suffix] += size
    return QuarantineLoss(
        records=quarantine.num_rows,
        total=total,
        reasons={
            entry["values"]: entry["counts"]
            for entry in quarantine.column("reason").value_counts().to_pylist()
        },
        whole_files=whole_files,
        lost_bytes=lost_bytes,
        total_bytes=sum(sizes.values()),
        lost_suffixes=lost_suffixes,
        read_suffixes=read_suffixes,
    )


def _percent(share: float) -> str:
    """A share in whole percent, rounded up: a limit of it is not exceeded."""
    return f"{min(math.ceil(share * 100), 100)}%"
