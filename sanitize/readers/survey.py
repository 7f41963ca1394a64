"""Files to documents: what lies in the inputs (`survey`), and one piece of it in standard form (`stage`).

A reader is one file of this folder with `FORMATS` (format -> suffixes), `recognise`, `accepts`, `look`, and `stage` (or `put`, for
files of texts without columns, many of which make one unit); nothing else knows it. A survey opens every file and reads its beginning
(0.1 ms a file), and of JSON a sample. Staging holds one batch of 5,000 records or 16 MiB, and one record; it makes 50 to 110 MB of mail
a second and core. Numbering documents is left to the caller: the rows of a unit follow those of the unit before it.

Which files count in a folder, in bytewise order of their relative paths:

- What a file is follows from its name where a reader knows the suffix, else from its first bytes. One mail a file needs no suffix.
  CSV and plain text are known by their names alone; a `.txt` that begins like a mail or like JSON is that.
- Names that begin with a dot, and all below them, count only where they hold mail (maildir++ has `.Sent/cur`). `_SUCCESS`,
  `_metadata` and `_common_metadata` do not count, nor a maildir's `tmp`, nor what stands beside `cur` and `new` without being mail.
- Links are followed to files inside the folder only.
- What describes the data in a folder of `datasets` or of the hub does not count: `dataset_info.json`, `state.json` and
  `dataset_dict.json` beside what they describe, and a `README.md` that begins with the fields of a data card.
- Every other file is a document that goes to quarantine with a reason. A file the user names is refused instead.

A leaf path that is a column's exact name means that column. Places: `row` counts from 0 in the file, as DuckDB's file_row_number;
`line` and `mail` count from 1. A compressed file that breaks off gives all records before the break and one more, `truncated`.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pkgutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from sanitize.core.text_cells import leaves
from sanitize.errors import InputRefused, SanitizeError, UsageError
from sanitize.readers import mail, parquet
from sanitize.readers.byte_streams import head
from sanitize.readers.mail import mail_text
from sanitize.readers.parquet import readable
from sanitize.readers.staging_writer import Records, Text, Writer, texts
from sanitize.readers.standard_form import Mapping, Union, faults, fields, leaf_of, mapping, standard, without
from sanitize.readers.survey_types import REASONS, Earlier, Layout, Look, Roles, Sample, Staged, Survey, Unit, Unreadable, shown

__all__ = [
    "REASONS",
    "Earlier",
    "File",
    "Layout",
    "Roles",
    "Sample",
    "Staged",
    "Survey",
    "Unit",
    "faults",
    "looked",
    "lose",
    "mail_text",
    "readable",
    "refusal",
    "sampled",
    "stage",
    "standard",
    "survey",
    "without",
]

FILES, BYTES = 1_000, 64 << 20  # of small files that one worker takes
SMALL = 1 << 20  # an mbox up to this size goes with its neighbours: there are trees of mails that begin with an envelope line
_NOT_DATA = frozenset(("_SUCCESS", "_metadata", "_common_metadata"))  # Spark's marks and footers, which repeat the data's
_COMPRESSED = (".gz", ".zst", ".zstd")
_CARD, _DESCRIBES = b"---", frozenset(("dataset_info.json", "state.json", "dataset_dict.json"))
_CAN = (
    "Parquet, Arrow, CSV, TSV, JSON lines and arrays of objects, .txt, mbox (all also .gz and .zst), maildir, folders of mails and "
    "of `datasets` can be read"
)

_MEND = {  # what to do, where the reason tells more than that the file should be another
    "no_header": "Name the main text's column with --text-column NAME, or put a line of names first; lines end with LF or CRLF",
}
_OF_TEXT = (".csv", ".tsv", ".tab", ".txt", ".text", ".jsonl", ".ndjson", ".json")


def _readers() -> dict[str, ModuleType]:
    """The reader of each format: the folder is the registry."""
    package = importlib.import_module("sanitize.readers")
    modules = [importlib.import_module(f"sanitize.readers.{module.name}") for module in pkgutil.iter_modules(package.__path__)]
    return {format: module for module in modules for format in getattr(module, "FORMATS", ())}


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as it was found under an input, and what it turned out to be.

    root     The input it belongs to; the file itself where the user named it.
    hidden   It counts only if it is mail: a dot name, or what stands beside `cur` and `new` of a maildir.
    format   How it is read; "" where it is not, for `reason`, or without one because it does not count.
    sure     Its name says its format, not only its first bytes.
    """

    path: str
    root: str
    size: int
    hidden: bool = False
    format: str = ""
    reason: str = ""
    sure: bool = False
    look: Look | None = None

    @property
    def named(self) -> bool:
        return self.path == self.root


def survey(
    inputs: Sequence[Path], roles: Roles, look: Callable[[list[File], Roles], list[File]] | None = None, after: Earlier | None = None
) -> Survey:
    """What lies in the inputs: units in corpus order, the schema of the corpus in standard form, and what cannot be read.

    `look` opens the files in place of `looked`, which does it in this process. `after`: only what is new to an index.
    """
    files: list[File] = []
    for path in map(str, inputs):
        there = _walk(path) if os.path.isdir(path) else [_named(path)]
        if after and all(file.path in after.paths for file in there):
            continue
        there = [file for file in there if not after or file.path not in after.paths]
        found = (look or looked)(there, roles)
        for file in found:
            if file.named and file.reason:
                raise InputRefused(refusal(file.path, file.reason, sure=file.sure))
        if not any(file.format for file in found):
            raise InputRefused(f"{shown(path)}: nothing in this folder can be read ({len(found)} files). {_CAN}.")
        files += found
    union = Union()
    if after:
        union.add("the earlier input", list(after.schema), soft=False)
    columns: dict[str, Mapping] = {}
    lost: dict[str, str] = {}
    refused: SanitizeError | None = None
    known: dict[tuple[pa.Schema, bool, Mapping], Mapping] = {}
    for number, file in enumerate(files):
        if file.look is None:
            continue
        schema, soft = file.look.schema, file.look.soft
        if (pairs := known.get((schema, soft, file.look.columns))) is not None:  # most files look like one before them
            columns[file.path] = pairs
            continue
        if soft and not file.sure and not file.named and leaf_of(roles.text[0], schema) is None:
            files[number] = dataclasses.replace(file, format="", reason="no_text", look=None)
            continue
        try:
            pairs = file.look.columns or mapping(schema, roles, file.path)
            if soft:  # a role's column may come later than the sample
                said = {standard for _, standard in pairs}
                pairs += tuple((name, name) for name in ("doc_id", "user_id") if name not in said)
            union.add(file.path, fields(schema, pairs, roles), soft)
        except (InputRefused, UsageError) as error:
            if file.named:
                raise
            refused = refused or error
            lost[file.path] = "wrong_schema" if leaf_of(roles.text[0], schema) else "no_text"
        else:
            columns[file.path] = known[schema, soft, file.look.columns] = pairs
    if refused is not None and not columns:
        raise refused
    layout = Layout(schema=union.schema, roles=roles)
    if layout.main != "text" and layout.leaf not in map(str, leaves(layout.schema)):
        raise UsageError(f"column {layout.leaf} holds no string in any input; --text-column takes a column with texts.")
    return Survey(
        units=_units(files, columns, lost, roles.split),
        files=[(file.path, file.size) for file in files if file.format or file.reason not in ("", "symlink", "not_a_file")],
        bad=[(file.path, file.reason or lost[file.path]) for file in files if file.reason or file.path in lost],
        ignored=[file.path for file in files if not file.format and not file.reason],
        layout=layout,
    )


def sampled(survey: Survey, sample: Sample) -> Survey:
    """The same survey of which only a sample will be written. Nothing is then used in place."""
    units = [dataclasses.replace(unit, view=False) for unit in survey.units]
    return dataclasses.replace(survey, units=units, layout=dataclasses.replace(survey.layout, sample=sample))


def looked(files: list[File], roles: Roles) -> list[File]:
    """The files with what they are and what their readers see in them, or with the reason why they see nothing."""
    readers = _readers()
    return [_looked(_known(file, readers), readers, roles) for file in files]


def stage(unit: Unit, survey: Survey | Layout, out: Path, quarantine: Path, max_doc_bytes: int) -> Staged:
    """Writes one unit in standard form, a row for every record, and the list of the records that could not be read.

    `survey.layout` says as much as the survey and is small: hand that to workers.
    """
    layout = survey.layout if isinstance(survey, Survey) else survey
    with Writer(out, quarantine, layout.schema, layout.sample, unit.no) as writer:
        reader = _readers().get(unit.format)
        if reader is None or hasattr(reader, "put"):
            _put(unit, layout, writer, max_doc_bytes)
        else:
            reader.stage(unit, layout, writer, max_doc_bytes)
    assert writer.staged is not None
    return writer.staged


def _put(unit: Unit, layout: Layout, writer: Writer, max_doc_bytes: int) -> None:
    """All documents of some files without columns, and a fault for every file that cannot be read."""
    readers = _readers()
    records: Records[Text] = Records(writer, lambda rows: (texts(rows, layout.schema), {}))
    for path, how in zip(unit.files, unit.how or (unit.format,) * len(unit.files), strict=True):
        if how in readers:
            readers[how].put(path, how, unit, layout, records, max_doc_bytes)
        else:
            records.put(None, path, "file", how)
    records.flush()


def lose(unit: Unit, layout: Layout, out: Path, quarantine: Path) -> Staged:
    """Writes what `stage` would if nothing of a unit could be read: a row for each record it is known to have, else one a file.

    All are set aside for the reason in `unit.lost`. No file is opened.
    """
    with Writer(out, quarantine, layout.schema, layout.sample, unit.no) as writer:
        if unit.format == "parquet":
            parquet.lost(unit, writer, unit.lost)
        else:
            place = f"from byte {unit.start}" if unit.start else "file"
            writer.lose(len(unit.files), lambda row: (unit.files[row], place, unit.lost))
    assert writer.staged is not None
    return writer.staged


# --- which files there are --------------------------------------------------------------------------------------------------------


def _named(path: str) -> File:
    """A file the user named; a link is what it points at."""
    try:
        info = os.stat(path)
    except OSError:
        raise InputRefused(f"{shown(path)}: there is no such file or folder. Check the path.") from None
    return File(path=path, root=path, size=info.st_size, reason="" if stat.S_ISREG(info.st_mode) else "not_a_file")


def _walk(root: str) -> list[File]:
    """All files of a folder, bytewise by relative path. Nothing is matched as a pattern: file names may hold any character."""
    real, found = os.path.realpath(root), []
    folders = [(root, False)]
    while folders:
        folder, hidden = folders.pop()
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except OSError:
            found.append(File(path=os.path.join(folder, "."), root=root, size=0, hidden=hidden, reason="unreadable"))
            continue
        names = {entry.name for entry in entries}
        maildir = {"cur", "new"} <= names
        describing = _describing(folder, names)
        for entry in entries:
            dot = hidden or entry.name.startswith(".")
            if entry.is_dir(follow_symlinks=False):
                if not (maildir and entry.name == "tmp"):
                    folders.append((entry.path, dot))
                continue
            beside = maildir or entry.name in _NOT_DATA or entry.name in describing
            found.append(_entry(entry, root, real, dot or beside))
    prefix = len(os.path.join(root, ""))
    return sorted(found, key=lambda file: os.fsencode(file.path[prefix:]))


def _describing(folder: str, names: set[str]) -> frozenset[str]:
    """The files of a folder that only say what its data are."""
    there = _DESCRIBES & names
    if "dataset_dict.json" in there:  # its splits are folders
        there = there if any(os.path.isfile(os.path.join(folder, name, "dataset_info.json")) for name in names) else frozenset()
    elif there and not any(name.endswith(".arrow") for name in names):
        there = frozenset()
    card = os.path.join(folder, "README.md")
    try:
        if "README.md" in names and os.path.isfile(card):
            with open(card, "rb") as file:
                return there | {"README.md"} if file.read(len(_CARD)) == _CARD else there
    except OSError:
        pass
    return there


def _entry(entry: os.DirEntry[str], root: str, real: str, hidden: bool) -> File:
    """A directory entry that is no folder."""
    file = File(path=entry.path, root=root, size=0, hidden=hidden)
    try:
        if entry.is_symlink():
            inside = os.path.commonpath([real, os.path.realpath(entry.path, strict=True)]) == real
            if not inside or entry.is_dir():
                return dataclasses.replace(file, reason="symlink")
        info = entry.stat()
    except OSError:
        return dataclasses.replace(file, reason="symlink" if entry.is_symlink() else "unreadable")
    return dataclasses.replace(file, size=info.st_size, reason="" if stat.S_ISREG(info.st_mode) else "not_a_file")


# --- what they are ----------------------------------------------------------------------------------------------------------------


def _known(file: File, readers: dict[str, ModuleType]) -> File:
    """The file with its format, by name or by its first bytes; with a reason instead; with neither where it does not count."""
    format, reason, sure = "", file.reason, False
    if not reason:
        try:
            begin = head(file.path)
        except Unreadable as error:
            begin, reason = b"", error.reason
        if not reason:
            name = os.path.basename(file.path).lower()
            for tail in _COMPRESSED:
                name = name.removesuffix(tail)
            said = [format for format, reader in readers.items() if name.endswith(reader.FORMATS[format])]
            found = next((one for one in (reader.recognise(begin) for reader in dict.fromkeys(readers.values())) if one), "")
            if not begin:
                reason = "empty_file"
            elif said and not (said[0] == "text" and found):
                format = readers[said[0]].accepts(begin, said[0])
                sure = not format or said[0] != "json"  # much that is called .json is no data
            elif os.path.basename(os.path.dirname(file.path)) in ("cur", "new") and not file.named:
                format = "mail"
            else:
                format = found
            reason = reason or ("" if format else "unknown_format")
    if file.hidden and readers.get(format) is not mail:
        format = reason = ""
    return dataclasses.replace(file, format=format, reason=reason, sure=sure)


def _looked(file: File, readers: dict[str, ModuleType], roles: Roles) -> File:
    """The file with what its reader sees in it, or with the reason why it sees nothing."""
    if not file.format:
        return file
    try:
        return dataclasses.replace(file, look=readers[file.format].look(file.path, file.format, roles))
    except Unreadable as error:
        reason = error.reason
    except OSError:
        reason = "unreadable"
    return dataclasses.replace(file, format="", reason=reason)


def refusal(path: str, reason: str, *, sure: bool = False) -> str:
    """Why a named file is not read, and what to do. `sure`: its name says a format."""
    name, real, path = os.path.basename(path), path, shown(path)
    if reason == "unknown_format":
        suffix = "".join(Path(name).suffixes[-2:]) if name.endswith(_COMPRESSED) else Path(name).suffix
        seen = _seen(real, suffix)
        said = f"its content is not what {shown(suffix)} says" if sure else "its format is not known"
        return f"{path}: {said}{seen}. {_CAN}; convert the file or name another."
    return f"{path}: {REASONS[reason]}. {_MEND.get(reason) or f'{_CAN}; repair the file or leave it out'}."


def _seen(path: str, suffix: str) -> str:
    """What stands in the way of text, where the first bytes of a file show it."""
    try:
        begin = head(path)
    except Unreadable:
        return ""
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return " (it is in UTF-16; expected UTF-8)"
    return " (it holds NUL bytes, as no text of people does)" if b"\0" in begin and suffix in _OF_TEXT else ""


# --- who reads what ---------------------------------------------------------------------------------------------------------------


def _units(files: list[File], columns: dict[str, Mapping], lost: dict[str, str], split: str) -> list[Unit]:
    """The units in corpus order: neighbours among mails, texts, small mboxes and bad files go together, all else as its reader cut it."""
    units: list[Unit] = []
    held: list[File] = []
    size = 0
    one, many = {"mail"}, {"mbox"}  # formats of which a file is one document, or several
    (one if split == "file" else many).add("text")

    def flush() -> None:
        if held:
            how = tuple(file.format or file.reason for file in held)
            format = next((format for format in ("mail", "mbox", "text") if format in how), "bad")
            rows = None if many & set(how) else len(held)
            units.append(Unit(no=0, path=held[0].root, format=format, rows=rows, files=tuple(file.path for file in held), how=how))
            held.clear()

    for file in files:
        if file.format in one or (file.format in many and file.size <= SMALL) or file.reason:
            size += file.size
            if held and (len(held) == FILES or size > BYTES or held[0].root != file.root):
                flush()
                size = file.size
            held.append(file)
        elif file.look is not None:
            flush()
            size = 0
            said, aside = columns.get(file.path, ()), lost.get(file.path, "")
            units += [dataclasses.replace(p, columns=said, lost=aside, view=p.view and not aside) for p in file.look.pieces]
    flush()
    return [dataclasses.replace(unit, no=no) for no, unit in enumerate(units)]
