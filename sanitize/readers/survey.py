"""Surveys the inputs (`survey_inputs`) and converts pieces of them to documents in standard form
(`stage_unit`).

A reader is one module of this folder. It has `FORMATS` (format -> suffixes), `detect_format`,
`confirm_format`, `survey_file`, and `stage_unit` (or `add_documents`, for files of texts without
columns, of which many make one unit). Readers are found by their file.

Costs: a survey opens every file and reads its beginning (0.1 ms a file), and a sample of JSON.
Staging holds one batch of 5,000 records or 16 MiB, and one record; it stages 50 to 110 MB of mail a
second and core. Numbering documents is left to the caller: the rows of a unit follow those of the
unit before it.

Which files count in a folder, in bytewise order of their relative paths:

- With `Roles.include`, files whose path below the folder, or whose name, matches one of its
  patterns; with `Roles.read_as`, all of them are read in that format.
- The format follows from the file name where a reader knows the suffix, else from the first bytes;
  a file that the user named, also by `include`, and that is neither is text if its first bytes
  are.
- Texts in languages of markup and code, and logs, are read in a folder that holds texts only, and
  where `include` names them: beside tables and mails they describe the data.
  One mail a file needs no suffix. CSV and plain text are recognised by their names alone; a `.txt`
  that begins like a mail or like JSON is read as that.
- Names that begin with a dot, and all below them, count only where they hold mail (maildir++ has
  `.Sent/cur`). `_SUCCESS`, `_metadata` and `_common_metadata` do not count, nor does the `tmp` of a
  maildir, nor files beside `cur` and `new` that are not mail.
- Symbolic links are followed to files inside the folder only.
- Files that describe the data of a `datasets` or hub folder do not count: `dataset_info.json`,
  `state.json` and `dataset_dict.json` beside the data they describe, and a `README.md` that begins
  with the fields of a data card.
- Every other file is a document that is quarantined with a reason. A file that the user named is
  refused instead.

A leaf path that is a column's exact name means that column. Locations: `row` counts from 0 in the
file, like DuckDB's file_row_number; `line` and `mail` count from 1. A compressed file that is
truncated gives all records before the break and one more with the reason `truncated`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import json
import os
import pkgutil
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from sanitize.core.text_cells import is_list_type, is_text_type, list_text_leaves
from sanitize.errors import InputRefused, SanitizeError, UsageError, printable_path
from sanitize.readers import mail, parquet, text
from sanitize.readers.byte_streams import read_head
from sanitize.readers.mail import parse_mail
from sanitize.readers.parquet import is_readable_in_place
from sanitize.readers.staging_writer import (
    RecordBatcher,
    StagingWriter,
    TextDocument,
    build_text_batch,
)
from sanitize.readers.standard_form import (
    TEXT_TYPE,
    ColumnMapping,
    CorpusSchema,
    find_faults,
    find_leaf,
    main_text_column,
    map_columns,
    null_out_rows,
    standard_fields,
    standardize_batch,
    with_shape,
)
from sanitize.readers.survey_types import (
    REASONS,
    DocumentSample,
    FileSurvey,
    IndexedInput,
    InputUnit,
    Roles,
    StagingLayout,
    StagingResult,
    Survey,
    UnreadableFile,
)
from sanitize.storage.records.dataset_features import merge_features
from sanitize.storage.records.lineage import LINEAGE_COLUMNS, Place
from sanitize.storage.records.record_shapes import list_json_columns, mark_json_columns
from sanitize.storage.records.splits import TRAIN, find_named_splits, split_rank

__all__ = [
    "REASONS",
    "IndexedInput",
    "InputFile",
    "StagingLayout",
    "Roles",
    "DocumentSample",
    "StagingResult",
    "Survey",
    "InputUnit",
    "find_faults",
    "survey_files",
    "quarantine_unit",
    "parse_mail",
    "is_readable_in_place",
    "format_refusal",
    "with_sample",
    "stage_unit",
    "standardize_batch",
    "survey_inputs",
    "null_out_rows",
]

DEFAULT_MAX_DOC_BYTES = 32 << 20
MAX_UNIT_FILES, MAX_UNIT_BYTES = 1_000, 64 << 20  # of small files that are read as one unit
# an mbox up to this size shares a unit with its neighbours: some folders of mails hold one small
# mbox a mail
SMALL_MBOX_BYTES = 1 << 20
_KERNEL_FOLDERS = ("/proc", "/sys")  # Linux shows its own state as files there
# written by Spark: a success marker and copies of the footers
_SPARK_METADATA_FILES = frozenset(("_SUCCESS", "_metadata", "_common_metadata"))
_COMPRESSION_SUFFIXES = (".gz", ".zst", ".zstd")
_DATA_CARD_PREFIX, _DATASET_METADATA_FILES = (
    b"---",
    frozenset(("dataset_info.json", "state.json", "dataset_dict.json")),
)
_SUPPORTED_FORMATS_HINT = (
    "Parquet, Arrow, CSV, TSV, JSON lines and arrays of objects, texts, mbox (all also .gz and"
    " .zst), maildir, folders of mails and of `datasets` can be read; --as text reads any text"
)

# what to do, for reasons with a more specific remedy than to repair or leave out the file
_REMEDIES = {
    "too_large": "Raise --max-doc-bytes to read it, or leave the file out",
    "no_header": (
        "Name the main text's column with --text-column NAME, or put a line of names first; lines"
        " end with LF or CRLF"
    ),
}
_TEXT_SUFFIXES = (
    *(".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json"),
    *text.FORMATS["text"],
)


def _load_readers() -> dict[str, ModuleType]:
    """The reader module of each format: every module of this package that has `FORMATS`."""
    package = importlib.import_module("sanitize.readers")
    modules = [
        importlib.import_module(f"sanitize.readers.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return {format: module for module in modules for format in getattr(module, "FORMATS", ())}


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file that was found under an input, with its detected format and survey.

    input_path         The input it belongs to; the file itself where the user named it.
    mail_only          It counts only if it is mail: a dot name, or a file beside `cur` and `new` of
                       a maildir.
    format             How it is read; "" where it is not read: for `reason`, or without a reason
                       because it does not count.
    is_format_certain  Its name gives its format, not only its first bytes.
    split              The split that it belongs to; "" where the corpus has none.
    """

    path: str
    input_path: str
    size: int
    mail_only: bool = False
    format: str = ""
    reason: str = ""
    is_format_certain: bool = False
    split: str = ""
    survey: FileSurvey | None = None

    @property
    def is_named_input(self) -> bool:
        return self.path == self.input_path


def survey_inputs(
    inputs: Sequence[Path],
    roles: Roles,
    surveyor: Callable[[list[InputFile], Roles, int], list[InputFile]] | None = None,
    indexed: IndexedInput | None = None,
    max_doc_bytes: int = DEFAULT_MAX_DOC_BYTES,
) -> Survey:
    """Lists and surveys all files of the inputs: units in corpus order, the schema of the corpus,
    and the files that cannot be read.

    The schema is in standard form. `surveyor` opens the files; the default is `survey_files`, which
    opens them in this process. With `indexed`, only files that the index does not cover are
    surveyed. Records up to `max_doc_bytes` are sampled. Raises InputRefused and UsageError for
    inputs that cannot be read or whose columns conflict.
    """
    files: list[InputFile] = []
    for path in map(str, inputs):
        _refuse_kernel_files(path)
        listed_files = (
            _list_files(path, roles.include) if os.path.isdir(path) else [_stat_named_input(path)]
        )
        if indexed and all(file.path in indexed.known_paths for file in listed_files):
            continue
        listed_files = [
            file for file in listed_files if not indexed or file.path not in indexed.known_paths
        ]
        surveyed_files = (surveyor or survey_files)(listed_files, roles, max_doc_bytes)
        if not roles.include and roles.read_as is None:
            surveyed_files = _leave_out_companions(surveyed_files)
        for file in surveyed_files:
            if file.is_named_input and file.reason:
                raise InputRefused(
                    format_refusal(file.path, file.reason, is_format_certain=file.is_format_certain)
                )
        if not any(file.format for file in surveyed_files):
            if not os.access(path, os.R_OK | os.X_OK):
                raise InputRefused(
                    f"{printable_path(path)}: this folder cannot be read. Check its permissions."
                )
            if not surveyed_files and roles.include:
                raise InputRefused(
                    f"{printable_path(path)}: --include {' '.join(roles.include)}: matches no file"
                )
            raise InputRefused(
                f"{printable_path(path)}: nothing in this folder can be read ({len(surveyed_files)}"
                f" files). {_SUPPORTED_FORMATS_HINT}."
            )
        files += surveyed_files
    files, files_without_split = _order_by_split(files)
    files = _unify_turns(files, indexed)
    roles = _find_shape(files, roles, indexed)
    schemas = [
        file.survey.schema
        for file in files
        if file.survey is not None and not file.survey.column_mapping
    ]
    main_name = next(
        (main_text_column(roles, schema) for schema in schemas if find_leaf(roles.text[0], schema)),
        "text",
    )
    corpus_schema = CorpusSchema()
    if indexed:
        corpus_schema.add_file("the earlier input", list(indexed.schema), is_inferred=False)
    mapping_by_path: dict[str, ColumnMapping] = {}
    reason_by_path: dict[str, str] = {}
    first_error: SanitizeError | None = None
    known_mappings: dict[tuple[pa.Schema, bool, ColumnMapping], ColumnMapping] = {}
    for number, file in enumerate(files):
        if file.survey is None:
            continue
        schema, is_inferred = file.survey.schema, file.survey.is_inferred
        # most files have the columns of an earlier one
        if (
            mapping := known_mappings.get((schema, is_inferred, file.survey.column_mapping))
        ) is not None:
            mapping_by_path[file.path] = mapping
            continue
        if (
            is_inferred
            and not file.is_format_certain
            and not file.is_named_input
            and find_leaf(roles.text[0], schema) is None
        ):
            files[number] = dataclasses.replace(file, format="", reason="no_text", survey=None)
            continue
        try:
            mapping = _name_main_text(file.survey.column_mapping, main_name) or map_columns(
                schema, roles, file.path
            )
            if is_inferred:  # the column of a role may first occur after the sample
                mapped = {standard for _, standard in mapping}
                mapping += tuple(
                    (name, name) for name in ("doc_id", "user_id") if name not in mapped
                )
            corpus_schema.add_file(file.path, standard_fields(schema, mapping, roles), is_inferred)
        except (InputRefused, UsageError) as error:
            if file.is_named_input:
                raise
            first_error = first_error or error
            reason_by_path[file.path] = (
                "wrong_schema" if find_leaf(roles.text[0], schema) else "no_text"
            )
        else:
            mapping_by_path[file.path] = known_mappings[
                schema, is_inferred, file.survey.column_mapping
            ] = mapping
    if first_error is not None and not mapping_by_path:
        raise first_error
    json_columns = _list_json_columns(files, mapping_by_path, corpus_schema.schema, indexed)
    schema = corpus_schema.schema
    if roles.lineage:
        schema = _add_lineage(schema, schemas, indexed)
    layout = StagingLayout(schema=schema, roles=roles, json_columns=json_columns)
    if layout.main_column != "text" and layout.main_path not in map(
        str, list_text_leaves(layout.schema)
    ):
        raise UsageError(
            f"column {layout.main_path} holds no string in any input; give --text-column a column"
            " with texts."
        )
    # the features that all files have; files that cannot be read do not count
    features = [(file.path, file.survey.features) for file in files if file.survey is not None]
    earlier_features = (
        [("the earlier input", json.dumps(indexed.features) if indexed.features else "")]
        if indexed
        else []
    )
    return Survey(
        units=[
            dataclasses.replace(unit, in_place=unit.in_place and not roles.lineage)
            for unit in _group_into_units(files, mapping_by_path, reason_by_path, roles.documents)
        ],
        files=[
            (file.path, file.size)
            for file in files
            if file.format or file.reason not in ("", "symlink", "not_a_file")
        ],
        unreadable=[
            (file.path, file.reason or reason_by_path[file.path])
            for file in files
            if file.reason or file.path in reason_by_path
        ],
        ignored=[file.path for file in files if not file.format and not file.reason],
        layout=layout,
        features=merge_features([*earlier_features, *features]),
        files_without_split=files_without_split,
    )


def _add_lineage(
    schema: pa.Schema, file_schemas: Sequence[pa.Schema], indexed: IndexedInput | None
) -> pa.Schema:
    """The schema with the columns of `--lineage`. Raises UsageError where the input has one."""
    names = ", ".join(LINEAGE_COLUMNS)
    if any(name in one.names for one in file_schemas for name in LINEAGE_COLUMNS):
        raise UsageError(f"--lineage: adds the columns {names}, and the input has one; rename it")
    missing = [name for name in LINEAGE_COLUMNS if name not in schema.names]
    if indexed and missing:
        raise UsageError(
            f"--lineage: adds the columns {names}, which the earlier input lacks; leave it out, or"
            " write to a new -o"
        )
    return pa.schema([*schema, *(pa.field(name, TEXT_TYPE) for name in missing)])


def _leave_out_companions(files: list[InputFile]) -> list[InputFile]:
    """The files, those of markup, code and logs without a format where others of the folder are
    tables or mails."""
    if all(file.format in ("", "text") for file in files):
        return files
    return [
        dataclasses.replace(file, format="", reason="unknown_format", survey=None)
        if file.format == "text" and has_suffix(file.path, text.COMPANION_SUFFIXES)
        else file
        for file in files
    ]


def has_suffix(name: str, suffixes: tuple[str, ...]) -> bool:
    """Whether a file has one of these suffixes, in letters of any case, also compressed."""
    name = name.lower()
    for suffix in _COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(suffixes)


def is_included(place: str, patterns: Sequence[str]) -> bool:
    """Whether the path of a file below its folder, or its name, matches one of some patterns, such
    as `*.log`; without patterns every file does."""
    names = (place, os.path.basename(place))
    return not patterns or any(
        fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns
    )


def _order_by_split(files: list[InputFile]) -> tuple[list[InputFile], int]:
    """The files with their splits, split after split, within one in the order of the inputs; and
    how many that are read are in train although their paths name no split."""
    named = find_named_splits([(file.path, file.input_path, file.format) for file in files])
    if not any(named):
        return files, 0
    found = [
        dataclasses.replace(file, split=split or TRAIN)
        for file, split in zip(files, named, strict=True)
    ]
    unnamed_count = sum(
        not split and bool(file.format) for file, split in zip(files, named, strict=True)
    )
    return sorted(found, key=lambda file: split_rank(file.split)), unnamed_count


def _unify_turns(files: list[InputFile], indexed: IndexedInput | None) -> list[InputFile]:
    """The files, with turns as JSON in all of them whose types are inferred, where one of them or
    the earlier input has them."""
    schemas = [
        *([indexed.schema] if indexed else []),
        *(file.survey.schema for file in files if file.survey),
    ]
    columns = dict.fromkeys(
        name
        for schema in schemas
        for name in list_json_columns(schema)
        if is_list_type(schema.field(name).type)
    )
    if not columns:
        return files
    unified = []
    for file in files:
        if file.survey is not None and file.survey.is_inferred:
            lists = [
                name
                for name in columns
                if name in file.survey.schema.names
                and _may_be_turns(file.survey.schema.field(name).type)
            ]
            survey = dataclasses.replace(
                file.survey, schema=mark_json_columns(file.survey.schema, lists)
            )
            file = dataclasses.replace(file, survey=survey)
        unified.append(file)
    return unified


def _list_json_columns(
    files: Sequence[InputFile],
    mapping_by_path: Mapping[str, ColumnMapping],
    schema: pa.Schema,
    indexed: IndexedInput | None,
) -> tuple[str, ...]:
    """The columns of the corpus with texts, or lists of texts, that are JSON in one of its files;
    objects and lists become JSON, where a column of several types is a text."""
    found = set(list_json_columns(indexed.schema) if indexed else ())
    for file in files:
        if file.survey is not None and file.path in mapping_by_path:
            standard_names = dict(mapping_by_path[file.path])
            nested = {
                field.name
                for field in file.survey.schema
                if pa.types.is_nested(field.type) and file.survey.is_inferred
            }
            json_texts = {
                name
                for name in nested
                if (to := standard_names.get(name)) in schema.names
                and is_text_type(schema.field(to).type)
            }
            found |= {
                standard_names[name]
                for name in {*list_json_columns(file.survey.schema), *json_texts}
                if name in standard_names
            }
    return tuple(
        name for name in schema.names if name in found and _holds_texts(schema.field(name).type)
    )


def _holds_texts(data_type: pa.DataType) -> bool:
    return is_text_type(data_type) or (
        is_list_type(data_type) and is_text_type(data_type.value_type)
    )


def _may_be_turns(data_type: pa.DataType) -> bool:
    return pa.types.is_null(data_type) or is_list_type(data_type)


def _find_shape(files: Sequence[InputFile], roles: Roles, indexed: IndexedInput | None) -> Roles:
    """The roles with the shape of the earlier input, else of the first file with columns that it
    does not define itself; where no file has a shape or a column `text`, with the main text that
    the first one shows."""
    if indexed:
        found = with_shape(roles, indexed.schema)
        return dataclasses.replace(found, text=(indexed.main_text,)) if found.is_chosen else found
    surveys = [file.survey for file in files if file.survey is not None]
    schemas = [survey.schema for survey in surveys if not survey.column_mapping]
    if not schemas:
        return roles
    found = with_shape(roles, schemas[0])
    has_texts = any(survey.column_mapping or "text" in survey.schema.names for survey in surveys)
    return roles if found.is_chosen and has_texts else found


def _name_main_text(mapping: ColumnMapping, main_name: str) -> ColumnMapping:
    """The columns that a format defines, with the main text under the name that it has in files
    with columns."""
    return tuple(
        (source, main_name if standard == "text" else standard) for source, standard in mapping
    )


def with_sample(survey: Survey, sample: DocumentSample) -> Survey:
    """The survey, changed so that staging writes only a sample. No file is then read in place."""
    units = [dataclasses.replace(unit, in_place=False) for unit in survey.units]
    return dataclasses.replace(
        survey, units=units, layout=dataclasses.replace(survey.layout, sample=sample)
    )


def survey_files(files: list[InputFile], roles: Roles, max_doc_bytes: int) -> list[InputFile]:
    """The files with their formats and their readers' surveys, or with the reason why they cannot
    be read."""
    readers = _load_readers()
    return [
        _survey_file(_detect_file_format(file, readers, roles), readers, roles, max_doc_bytes)
        for file in files
    ]


def stage_unit(
    unit: InputUnit,
    survey: Survey | StagingLayout,
    out_path: Path,
    quarantine_path: Path,
    max_doc_bytes: int,
) -> StagingResult:
    """Writes one unit in standard form, a row for every record, and the list of the records that
    could not be read.

    `survey` may be only its `layout`, which is smaller to send to workers.
    """
    layout = survey.layout if isinstance(survey, Survey) else survey
    with StagingWriter(out_path, quarantine_path, layout, unit) as writer:
        reader = _load_readers().get(unit.format)
        if reader is None or hasattr(reader, "add_documents"):
            _stage_files(unit, layout, writer, max_doc_bytes)
        else:
            reader.stage_unit(unit, layout, writer, max_doc_bytes)
    assert writer.result is not None
    return writer.result


def _stage_files(
    unit: InputUnit, layout: StagingLayout, writer: StagingWriter, max_doc_bytes: int
) -> None:
    """Stages all documents of files without columns; a file that cannot be read becomes one
    fault."""
    readers = _load_readers()
    records: RecordBatcher[TextDocument] = RecordBatcher(
        writer, lambda rows: (build_text_batch(rows, layout.schema), {})
    )
    for path, file_format in zip(
        unit.files, unit.file_formats or (unit.format,) * len(unit.files), strict=True
    ):
        if file_format in readers:
            readers[file_format].add_documents(
                path, file_format, unit, layout, records, max_doc_bytes
            )
        else:
            records.add(None, path, "file", file_format)
    records.flush()


def quarantine_unit(
    unit: InputUnit, layout: StagingLayout, out_path: Path, quarantine_path: Path
) -> StagingResult:
    """Writes the files of `stage_unit` for a unit that cannot be read at all: one row for each
    known record, else one row a file.

    All rows are quarantined for the unit's `quarantine_reason`. No input file is opened.
    """
    with StagingWriter(out_path, quarantine_path, layout, unit) as writer:
        if unit.format == "parquet":
            parquet.quarantine_unit_rows(unit, writer, unit.quarantine_reason)
        else:
            location = f"from byte {unit.start}" if unit.start else "file"
            writer.quarantine_rows(
                len(unit.files),
                lambda row: Place(unit.files[row], location),
                unit.quarantine_reason,
            )
    assert writer.result is not None
    return writer.result


# --- listing files --------------------------------------------------------------------------------


def _refuse_kernel_files(path: str) -> None:
    """Raises InputRefused for files that the kernel makes up as they are read: some of them never
    end."""
    for folder in _KERNEL_FOLDERS:
        if os.path.isdir(path) and Path(os.path.realpath(path)).is_relative_to(folder):
            raise InputRefused(
                f"{printable_path(path)}: {folder} holds no corpus: the system writes these files"
                " while they are read"
            )


def _stat_named_input(path: str) -> InputFile:
    """The entry of a file that the user named; a symbolic link is followed."""
    try:
        info = os.stat(path)
    except PermissionError:
        raise InputRefused(
            f"{printable_path(path)}: cannot be reached: a folder above it does not permit it."
            " Check its permissions."
        ) from None
    except OSError:
        raise InputRefused(
            f"{printable_path(path)}: there is no such file or folder. {_suggest_download(path)}"
        ) from None
    return InputFile(
        path=path,
        input_path=path,
        size=info.st_size,
        reason="" if stat.S_ISREG(info.st_mode) else "not_a_file",
    )


def _suggest_download(path: str) -> str:
    """What to do about a path that does not exist: one like `squad` or `owner/name` may be the name
    of a dataset of the hub."""
    if re.fullmatch(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w-]*", path) is None:
        return "Check the path."
    return (
        "Check the path. If it is the name of a dataset of the hub: nothing is downloaded here."
        f" Bring its files with `hf download --repo-type dataset {path} --local-dir FOLDER` and"
        " give FOLDER, or pass the object that `datasets.load_dataset` returns to sanitize.run in"
        " Python"
    )


def _list_files(root: str, include: Sequence[str]) -> list[InputFile]:
    """All files of a folder, or those that match the patterns `include`, bytewise by relative
    path."""
    real, found = os.path.realpath(root), []
    folders = [(root, False)]
    while folders:
        folder, hidden = folders.pop()
        try:
            with os.scandir(folder) as scan:
                entries = list(scan)
        except OSError:
            found.append(
                InputFile(
                    path=os.path.join(folder, "."),
                    input_path=root,
                    size=0,
                    mail_only=hidden,
                    reason="unreadable",
                )
            )
            continue
        names = {entry.name for entry in entries}
        maildir = {"cur", "new"} <= names
        metadata_files = _find_metadata_files(folder, names)
        for entry in entries:
            is_hidden = hidden or entry.name.startswith(".")
            if entry.is_dir(follow_symlinks=False):
                if not (maildir and entry.name == "tmp"):
                    folders.append((entry.path, is_hidden))
                continue
            is_mail_only = (
                maildir or entry.name in _SPARK_METADATA_FILES or entry.name in metadata_files
            )
            found.append(_inspect_entry(entry, root, real, is_hidden or is_mail_only))
    prefix = len(os.path.join(root, ""))
    return sorted(
        (file for file in found if is_included(file.path[prefix:], include)),
        key=lambda file: os.fsencode(file.path[prefix:]),
    )


def _find_metadata_files(folder: str, names: set[str]) -> frozenset[str]:
    """The files of a folder that only describe its data set."""
    metadata_files = _DATASET_METADATA_FILES & names
    if "dataset_dict.json" in metadata_files:  # its splits are subfolders
        metadata_files = (
            metadata_files
            if any(
                os.path.isfile(os.path.join(folder, name, "dataset_info.json")) for name in names
            )
            else frozenset()
        )
    elif metadata_files and not any(name.endswith(".arrow") for name in names):
        metadata_files = frozenset()
    readme_path = os.path.join(folder, "README.md")
    try:
        if "README.md" in names and os.path.isfile(readme_path):
            with open(readme_path, "rb") as file:
                return (
                    metadata_files | {"README.md"}
                    if file.read(len(_DATA_CARD_PREFIX)) == _DATA_CARD_PREFIX
                    else metadata_files
                )
    except OSError:
        pass
    return metadata_files


def _inspect_entry(
    entry: os.DirEntry[str], input_path: str, real_root: str, mail_only: bool
) -> InputFile:
    """The entry of a directory entry that is not a folder."""
    file = InputFile(path=entry.path, input_path=input_path, size=0, mail_only=mail_only)
    try:
        if entry.is_symlink():
            inside = (
                os.path.commonpath([real_root, os.path.realpath(entry.path, strict=True)])
                == real_root
            )
            if not inside or entry.is_dir():
                return dataclasses.replace(file, reason="symlink")
        info = entry.stat()
    except OSError:
        return dataclasses.replace(file, reason="symlink" if entry.is_symlink() else "unreadable")
    return dataclasses.replace(
        file, size=info.st_size, reason="" if stat.S_ISREG(info.st_mode) else "not_a_file"
    )


# --- detecting formats ----------------------------------------------------------------------------


def _list_formats(
    name: str, head: bytes, readers: Mapping[str, ModuleType]
) -> tuple[list[str], str]:
    """The formats that a file's name says, and the one that its first bytes show, or ""."""
    by_suffix = [one for one, reader in readers.items() if has_suffix(name, reader.FORMATS[one])]
    if has_suffix(name, text.MARKUP_SUFFIXES):
        return by_suffix, ""
    detected = (reader.detect_format(head) for reader in dict.fromkeys(readers.values()))
    return by_suffix, next(filter(None, detected), "")


def detect_format(name: str, head: bytes) -> str:
    """The format of a file, by its name, else by its first bytes (decompressed); "" if neither is
    known. A text that begins like mails or JSON lines is read as these."""
    by_suffix, detected = _list_formats(name, head, _load_readers())
    return detected if by_suffix[:1] in ([], ["text"]) and detected else next(iter(by_suffix), "")


def _detect_file_format(file: InputFile, readers: dict[str, ModuleType], roles: Roles) -> InputFile:
    """The file with its format, that of `roles` or by its name or its first bytes; with a reason if
    it cannot be read; with neither if it does not count."""
    format, reason, is_certain = "", file.reason, False
    if not reason:
        try:
            head = read_head(file.path)
        except UnreadableFile as error:
            head, reason = b"", error.reason
        if not reason:
            formats_by_suffix, detected = _list_formats(os.path.basename(file.path), head, readers)
            if not head:
                reason = "empty_file"
            elif roles.read_as is not None:
                format = readers[roles.read_as].confirm_format(head, roles.read_as)
            elif formats_by_suffix and not (formats_by_suffix[0] == "text" and detected):
                format = readers[formats_by_suffix[0]].confirm_format(head, formats_by_suffix[0])
                # many files called .json are not data
                is_certain = not format or formats_by_suffix[0] != "json"
            elif (
                os.path.basename(os.path.dirname(file.path)) in ("cur", "new")
                and not file.is_named_input
            ):
                format = "mail"
            else:
                is_chosen = file.is_named_input or bool(roles.include)
                is_text = is_chosen and text.is_plain_text(head)
                format = detected or ("text" if is_text else "")
            reason = reason or ("" if format else "unknown_format")
    if file.mail_only and readers.get(format) is not mail:
        format = reason = ""
    return dataclasses.replace(file, format=format, reason=reason, is_format_certain=is_certain)


def _survey_file(
    file: InputFile, readers: dict[str, ModuleType], roles: Roles, max_doc_bytes: int
) -> InputFile:
    """The file with its reader's survey, or with the reason why it cannot be read."""
    if not file.format:
        return file
    try:
        return dataclasses.replace(
            file,
            survey=readers[file.format].survey_file(file.path, file.format, roles, max_doc_bytes),
        )
    except UnreadableFile as error:
        reason = error.reason
    except OSError:
        reason = "unreadable"
    return dataclasses.replace(file, format="", reason=reason)


def format_refusal(path: str, reason: str, *, is_format_certain: bool = False) -> str:
    """The message for a named file that cannot be read: why, and what to do. `is_format_certain`:
    its name gives a format."""
    name, raw_path, path = os.path.basename(path), path, printable_path(path)
    if reason == "unknown_format":
        suffix = (
            "".join(Path(name).suffixes[-2:])
            if name.endswith(_COMPRESSION_SUFFIXES)
            else Path(name).suffix
        )
        detail = _explain_non_text(raw_path, suffix)
        problem = (
            f"its content does not match its suffix {printable_path(suffix)}"
            if is_format_certain
            else "its format is not known"
        )
        return (
            f"{path}: {problem}{detail}. {_SUPPORTED_FORMATS_HINT}; convert the file or name"
            " another."
        )
    return (
        f"{path}: {REASONS[reason]}."
        f" {_REMEDIES.get(reason) or f'{_SUPPORTED_FORMATS_HINT}; repair the file or leave it out'}."  # noqa: E501
    )


def _explain_non_text(path: str, suffix: str) -> str:
    """Why a file is not text, where its first bytes show it; else an empty string."""
    try:
        head = read_head(path)
    except UnreadableFile:
        return ""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return " (it is in UTF-16; expected UTF-8)"
    return (
        " (it holds NUL bytes, which do not occur in text)"
        if b"\0" in head and suffix in _TEXT_SUFFIXES
        else ""
    )


# --- grouping into units --------------------------------------------------------------------------


def _group_into_units(
    files: list[InputFile],
    mappings: dict[str, ColumnMapping],
    quarantine_reasons: dict[str, str],
    documents: str,
) -> list[InputUnit]:
    """The units in corpus order: neighbouring mails, texts, small mboxes and unreadable files share
    units; every other file keeps the units that its reader made.
    """
    units: list[InputUnit] = []
    pending: list[InputFile] = []
    size = 0
    # formats of which a file is one document, and of which it may be several
    single_document_formats, multi_document_formats = {"mail"}, {"mbox"}
    (single_document_formats if documents == "file" else multi_document_formats).add("text")

    def flush() -> None:
        if pending:
            file_formats = tuple(file.format or file.reason for file in pending)
            format = next(
                (format for format in ("mail", "mbox", "text") if format in file_formats), "bad"
            )
            rows = None if multi_document_formats & set(file_formats) else len(pending)
            units.append(
                InputUnit(
                    no=0,
                    path=pending[0].input_path,
                    format=format,
                    rows=rows,
                    files=tuple(file.path for file in pending),
                    file_formats=file_formats,
                    split=pending[0].split,
                    input_path=pending[0].input_path,
                )
            )
            pending.clear()

    for file in files:
        if pending and pending[-1].split != file.split:
            flush()
            size = 0
        if (
            file.format in single_document_formats
            or (file.format in multi_document_formats and file.size <= SMALL_MBOX_BYTES)
            or file.reason
        ):
            size += file.size
            if pending and (
                len(pending) == MAX_UNIT_FILES
                or size > MAX_UNIT_BYTES
                or pending[0].input_path != file.input_path
            ):
                flush()
                size = file.size
            pending.append(file)
        elif file.survey is not None:
            flush()
            size = 0
            mapping, reason = mappings.get(file.path, ()), quarantine_reasons.get(file.path, "")
            units += [
                dataclasses.replace(
                    p,
                    column_mapping=mapping,
                    quarantine_reason=reason,
                    in_place=p.in_place and not reason,
                    split=file.split,
                    input_path=file.input_path,
                )
                for p in file.survey.units
            ]
    flush()
    return [dataclasses.replace(unit, no=no) for no, unit in enumerate(units)]
