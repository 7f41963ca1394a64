"""State and fingerprints of an index: files, key, settings, finders and columns, increment by increment; how they are stored in index.json
of WORK, and whether an existing index is reused, extended or discarded.

`IndexBuilder` (index_build.py) extends `IndexState` with the work itself.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from sanitize.core.engine import Engine
from sanitize.core.keys import Key
from sanitize.core.text_cells import LeafPath
from sanitize.errors import UsageError
from sanitize.finders.known import read_known_list
from sanitize.pipeline import index_increments, publish_history
from sanitize.pipeline.index_increments import IndexIncrement
from sanitize.pipeline.manifest import get_library_versions
from sanitize.plans.detection_spec import DetectionSpec, describe_difference
from sanitize.plans.settings import Settings, StageCosts
from sanitize.readers import staging
from sanitize.readers.remote_input import InputSet
from sanitize.readers.sandbox import survey_in_sandbox
from sanitize.readers.staging import main_leaf_at, resolve_column_policies
from sanitize.readers.survey import IndexedInput, StagingLayout, Survey
from sanitize.stages import detection
from sanitize.storage import table_schemas, vault
from sanitize.storage.corpus import Documents, cell_leaves, file_sha256, read_json, write_json
from sanitize.storage.publication import hash_json


class IndexState:
    """What the index of one WORK folder is built from: input files, key, settings, finders and columns."""

    key: Key
    engine: Engine
    input_paths: Sequence[Path]  # local files and folders
    input_set: InputSet  # the inputs as given, with those fetched from URLs
    survey: Survey  # of the files that this command reads
    policies: dict[str, str]
    documents: Documents
    task_ranges: list[tuple[int, int]]

    def __init__(self, inputs: Sequence[Path | str], workspace: Path, settings: Settings, detection_spec: DetectionSpec) -> None:
        self.given_inputs, self.workspace, self.settings, self.detection_spec = tuple(inputs), workspace, settings, detection_spec
        self.stage_costs = StageCosts(progress=settings.progress)
        self.notes: list[str] = []
        # what an append adds to: closed increments with their documents and tasks; and whether an open increment starts again
        self.closed_increments: tuple[IndexIncrement, ...] = ()
        self.earlier_documents: Documents
        self.earlier_task_ranges: list[tuple[int, int]] = []
        self.restart_open_increment = False
        self.file_hashes: dict[str, tuple[tuple[int, int] | None, str]] = {}  # for each input file: (size, mtime), sha256

    @functools.cached_property
    def leaves(self) -> tuple[LeafPath, ...]:
        """The paths of the text cells of a document, the main text first."""
        excluded = frozenset(name for name, policy in self.policies.items() if policy != "sanitize")
        main = main_leaf_at(self.survey.layout.main_path, self.survey.schema)
        return tuple(cell_leaves(self.survey.schema, main, excluded))

    @property
    def has_second_round(self) -> bool:
        """True if a finder needs the occurrences of the whole corpus."""
        return any(finder.second_round for finder in self.detection_spec.finders)

    @functools.cached_property
    def known_list_hash(self) -> str | None:
        """A hash of the user's list of known values, which is read and checked here; None without a list."""
        return hash_json(read_known_list(self.settings.known).rows()) if self.settings.known else None

    @functools.cached_property
    def detection_settings(self) -> dict[str, Any]:
        """What decides what is found, besides input and key: finders and their settings, countries, custom kinds, the user's list."""
        # a keyed hash of the list: index.json reveals nothing about its values
        known_list = hash_json(self.known_list_hash, self.key.subkey("known").hex()) if self.known_list_hash else None
        return {**self.detection_spec.fingerprint_data(), "known": known_list}

    @functools.cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """One fingerprint for each increment: a hash of everything that decides what the index holds up to its end."""
        return self._compute_fingerprints(self.increments)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole index."""
        return self.fingerprints[-1]

    @functools.cached_property
    def increments(self) -> tuple[IndexIncrement, ...]:
        """The increments of the index: the closed ones, then that of this command's files, if there are any."""
        if self.closed_increments and not self.survey.files:
            return self.closed_increments
        new_increment = IndexIncrement(
            files=tuple((size, sha256) for size, sha256 in self._new_files),
            path_hashes=tuple(index_increments.hash_path(self.input_set.location_of(path), self.key) for path, _ in self.survey.files),
            unit_count=len(self.survey.units),
        )
        return (*self.closed_increments, new_increment)

    def _compute_fingerprints(self, increments: Sequence[IndexIncrement]) -> tuple[str, ...]:
        first, *rest = (increment.hash_inputs(self.survey.roles) for increment in increments)
        fingerprints = [self._compute_base_fingerprint(first)]
        for inputs in rest:
            fingerprints.append(hash_json("append", fingerprints[-1], inputs))
        return tuple(fingerprints)

    def _compute_base_fingerprint(self, inputs_hash: str) -> str:
        """The fingerprint of the first increment: inputs, key, settings and versions of the stages."""
        settings = self.settings
        return hash_json(
            "find",
            inputs_hash,
            self.key.id,
            (table_schemas.VERSION, staging.VERSION, detection.VERSION),
            detection.hash_kind_sources(),
            (settings.rows_per_shard, settings.max_doc_bytes),
            [str(leaf) for leaf in self.leaves],
            self.detection_settings,
            *self.sample_fingerprint,
        )

    @property
    def sample_fingerprint(self) -> list[object]:
        """What a sample depends on; empty if this is not a sample."""
        return [self.settings.sample, self.key.id] if self.settings.sample < 1 else []

    def record_fingerprint(self, stage: str, *depends_on: object, increment_index: int = -1) -> str:
        """The fingerprint of a stage's task records, up to an increment: what the stage depends on, and the libraries it uses."""
        versions = get_library_versions()
        if stage in ("read", "find", "known"):  # only these two decide what is read and found; the other libraries decide how it is written
            versions = {name: versions[name] for name in ("corpus-sanitize", "phonenumbers") if name in versions}
        if stage == "read":
            return hash_json(stage, versions, self.hash_inputs(), staging.VERSION, self.settings.max_doc_bytes, *depends_on)
        return hash_json(stage, versions, self.fingerprints[increment_index], *depends_on)

    def find_increment_index(self, task_no: int) -> int:
        """The index of the increment that a task belongs to."""
        return sum(task_no >= end_task for end_task in accumulate(increment.task_count for increment in self.closed_increments))

    def prepare_append(self) -> None:
        """Determine which of the given files are new to the index, and set up their increment behind the closed ones.

        Raises UsageError if the index is incomplete, was built with other settings, or if earlier files changed or are missing."""
        index_json = read_json(self.workspace / "index.json") or {}
        increments = index_increments.parse_increments(index_json)
        if not index_json.get("complete") and len(increments) == 1:
            raise UsageError(
                f"{self.workspace}: its index is not complete; run the command that builds it, without --append, to its end first"
            )
        self.closed_increments = index_increments.parse_closed_increments(index_json)
        open_increment = increments[-1] if len(self.closed_increments) < len(increments) else None
        documents, roles = Documents.from_json(index_json["documents"], self.workspace), self.settings.columns.roles
        empty_survey = Survey(units=[], files=[], unreadable=[], ignored=[], layout=StagingLayout(schema=documents.schema, roles=roles))
        self.set_survey(empty_survey)
        self._check_same_index(index_json, increments)
        closed_unit_count = sum(increment.unit_count for increment in self.closed_increments)
        self.earlier_documents = replace(documents, files=documents.files[:closed_unit_count])
        self.earlier_task_ranges = [
            (low, high) for low, high in index_json["ranges"][: sum(increment.task_count for increment in self.closed_increments)]
        ]
        if self.given_inputs:
            with self.stage_costs.measure("read"), self.input_set.errors_with_urls():
                files = (
                    survey_in_sandbox(self.engine, self.input_paths, roles, self.settings.reading_memory_bytes).files
                    if self.input_paths
                    else []
                )
                given = [(path, size, self.hash_file(path)) for path, size in files]
                located = [(self.input_set.location_of(path), size, sha256) for path, size, sha256 in given]
                unchanged = [(location, size, sha256) for location, (size, sha256) in self.input_set.unchanged.items()]
                new, moved = index_increments.select_new_files(
                    [*located, *unchanged], self.input_set.folder_locations, self.closed_increments, self.key
                )
                self._refuse_grown_files([*given, *unchanged], new)
                if new:
                    known_paths = frozenset(path for no, (path, _, _) in enumerate(given) if no not in set(new))
                    earlier = IndexedInput(schema=documents.schema, known_paths=known_paths)
                    found = survey_in_sandbox(self.engine, self.input_paths, roles, self.settings.reading_memory_bytes, earlier)
                    index_increments.check_same_columns(documents.schema, found.schema)
                    self.set_survey(replace(found, units=[replace(unit, no=unit.no + closed_unit_count) for unit in found.units]))
            if moved:
                self.notes.append(
                    f"{moved:,} of the given files are byte-identical to files that were read before; they were not added again"
                )
        self.restart_open_increment = index_increments.needs_restart(
            [(size, sha256) for size, sha256 in self._new_files], open_increment, replace=self.settings.replace
        )

    def _refuse_grown_files(self, given_files: Sequence[tuple[str, int, str]], new_positions: Sequence[int]) -> None:
        """Raise UsageError if a new file begins with all bytes of an earlier file that is not given itself."""
        given_sha256 = {sha256 for _, _, sha256 in given_files}
        earlier: dict[int, set[str]] = {}
        for size, sha256 in (file for increment in self.closed_increments for file in increment.files):
            if sha256 not in given_sha256:
                earlier.setdefault(size, set()).add(sha256)
        for no in new_positions if earlier else ():
            path, size, _ = given_files[no]
            if index_increments.starts_with_earlier_file(path, size, earlier):
                raise UsageError(
                    f"file {no + 1} of the input: begins with all bytes of a file that an earlier run read, whose documents would be "
                    "in the output twice; --append only takes new files. Put the new data into a separate file; if the documents should "
                    "occur again, give the earlier file as well; or run over all files with --replace, without --append"
                )

    def _check_same_index(self, index_json: Mapping[str, Any], increments: Sequence[IndexIncrement]) -> None:
        """Raise UsageError if the index was built with another key, other settings, columns or finders, or by another version."""
        if index_json.get("fingerprint") == self._compute_fingerprints(increments)[-1]:
            return
        difference = (
            "another key"
            if index_json.get("key_id") != self.key.id
            else "another --sample"
            if index_json.get("sample", 1.0) != self.settings.sample
            else describe_difference(index_json["looked_for"], self.detection_settings)
            if index_json.get("looked_for", self.detection_settings) != self.detection_settings
            else "other columns or settings (--text-column, --rows-per-shard, --max-doc-bytes and the like), or by another version"
        )
        raise UsageError(
            f"{self.workspace}: its index was built with {difference}; an append needs the same. Use the options of the first run; "
            "or run over all files with --replace, without --append, to rebuild everything"
        )

    def load_or_discard_index(self) -> dict[str, Any]:
        """index.json of WORK if its index can be used; otherwise the index is deleted, with a note, and the result is empty.

        An index of another key or setting is deleted, unless an output needs it to map its labels back. An index of another input is
        deleted only with `--replace`: it may have taken hours, and the input may be a mistake.
        """
        index_json = read_json(self.workspace / "index.json") or {}
        if self.closed_increments:
            if self.restart_open_increment:
                self.discard_open_increment()
            return index_json
        is_outdated = vault.is_outdated(index_json)
        if not index_json or (index_json.get("fingerprint") == self.fingerprint and not is_outdated):
            return index_json
        is_same_input = index_json.get("inputs") == self.hash_inputs()
        are_same_documents = is_same_input and index_json.get("sample", 1.0) == self.settings.sample
        increment_count = len(index_json.get("batches") or ())
        are_same_files = Counter(map(tuple, index_json.get("files") or [])) == Counter(map(tuple, self.input_files))
        if not is_same_input and are_same_files and increment_count > 1 and not self.settings.replace:
            raise UsageError(
                f"{self.workspace}: holds an index of these files that was built in {increment_count} increments (--append); nothing was "
                "changed. Use --append to continue with it; or --replace to rebuild the index and its outputs in one increment; "
                "or use another --work to keep both"
            )
        if not is_same_input and not self.settings.replace:
            raise UsageError(
                f"{self.workspace}: holds the index of another input ({self.describe_input_difference(index_json.get('files') or [])}); "
                "nothing was changed. Restore the input to continue with that index; or use --replace to rebuild the index and its "
                "outputs; or use another --work to keep both"
                f"{'; or --append to add the new files to it' if self._extends_index(index_json) else ''}"
            )
        difference = (
            f"another input ({self.describe_input_difference(index_json.get('files') or [])})"
            if not is_same_input
            else "another key"
            if index_json.get("key_id") != self.key.id
            else describe_difference(index_json["looked_for"], self.detection_settings)
            if index_json.get("looked_for", self.detection_settings) != self.detection_settings
            else f"version {index_json.get('schema_version', 1)} of the tables"
            if is_outdated
            else "other settings, or by another version"
        )
        if not (self.settings.replace or is_outdated) and (outputs := publish_history.find_reversible_outputs(self.workspace)):
            raise UsageError(
                f"{self.workspace}: its index was built with {difference}; a rebuild would delete the mapping from the labels of "
                f"{outputs[0]}{f' and {len(outputs) - 1} more' if outputs[1:] else ''} back to their values; nothing was changed. Use "
                "another --work to keep both; or --replace to rebuild the index anyway"
            )
        self.notes.append(
            f"the index in {self.workspace} was built with {difference}; it is rebuilt, and the results based on it are deleted"
        )
        (self.workspace / "index.json").unlink()
        run_files = [
            path for run in (self.workspace / "runs").glob("*") for path in run.iterdir() if path.is_dir() and path.name != "vault"
        ]
        for name in (
            "tables",
            # the labels in the vault of a run map its output back: a new version of the tables does not take them away
            *(run_files if is_outdated else ("runs",)),
            "tasks/detect",
            "tasks/second_round",
            "first_round",
            "vault/values",
            "vault/first_round",
            *(vault.VERSION_1_PATHS if is_outdated else ()),
            "quarantine",
            *(() if are_same_documents else ("documents", "tasks")),
        ):
            shutil.rmtree(self.workspace / name, ignore_errors=True)
        return {}

    def discard_open_increment(self) -> None:
        """Delete the open increment (started and not published) from index.json and from WORK."""
        unit_count, task_count = (
            sum(getattr(increment, name) for increment in self.closed_increments) for name in ("unit_count", "task_count")
        )
        self.documents, self.task_ranges = self.earlier_documents, self.earlier_task_ranges
        self.write_index_json(is_complete=True, increments=self.closed_increments)
        index_increments.discard_increment_files(self.workspace, task_count, unit_count, len(self.closed_increments))

    def write_index_json(self, *, is_complete: bool, increments: Sequence[IndexIncrement] = ()) -> None:
        """Write index.json. `is_complete` is False while tasks are still to be resumed; `increments`: the increments, files and fingerprint
        to write, where those are not all (empty: all); documents and ranges are the current ones."""
        if not increments:
            *_, last = self.increments
            document_count = self.documents.count - (self.earlier_documents.count if self.closed_increments else 0)
            last = replace(
                last,
                document_count=document_count,
                task_count=len(self.task_ranges) - (len(self.earlier_task_ranges) if self.closed_increments else 0),
            )
            increments = self.closed_increments if len(self.increments) == len(self.closed_increments) else (*self.closed_increments, last)
        write_json(
            self.workspace / "index.json",
            {
                "schema_version": table_schemas.VERSION,
                "fingerprint": self._compute_fingerprints(increments)[-1],
                "complete": is_complete,
                "key_id": self.key.id,
                "looked_for": self.detection_settings,
                "inputs": hash_json([increment.hash_inputs(self.survey.roles) for increment in increments])
                if self.closed_increments
                else self.hash_inputs(),
                "sample": self.settings.sample,
                "files": [[size, sha256] for increment in increments for size, sha256 in increment.files],
                "batches": [increment.to_json() for increment in increments],
                "documents": self.documents.to_json(self.workspace),
                "leaves": [[leaf.column, *leaf.steps] for leaf in self.leaves],
                "policies": self.policies,
                "ranges": self.task_ranges,
            },
        )

    def close_increments(self) -> None:
        """Mark all increments as published, so that none is discarded any more."""
        if self.closed_increments:
            index_json = read_json(self.workspace / "index.json") or {}
            published = [{**increment, "published": True} for increment in index_json["batches"]]
            with vault.set_umask(0o077):  # OUT is written under the user's own mask, this is not for others
                write_json(self.workspace / "index.json", {**index_json, "batches": published})

    @property
    def input_files(self) -> list[list[Any]]:
        """Size and sha256 of every input file, in corpus order."""
        return [*([size, sha256] for increment in self.closed_increments for size, sha256 in increment.files), *self._new_files]

    @property
    def _new_files(self) -> list[list[Any]]:
        return [[size, known] for (_, size), known in zip(self.survey.files, self.input_hashes, strict=True)]

    def describe_input_difference(self, earlier_files: list[list[Any]]) -> str:
        """How the input differs from an earlier one (its `input_files`), in counts and sizes; file names may be personal data."""
        now = self.input_files
        if not earlier_files:
            return "its files are not recorded"
        common, earlier, new = (Counter(sha256 for _, sha256 in files) for files in (earlier_files, earlier_files, now))
        common &= new
        if not (earlier - common) and not (new - common):
            return "the same files" + (", in another order" if earlier_files != now else ", with other column roles")
        differences = [f"{len(earlier_files):,} files, now {len(now):,}"]
        if len(earlier_files) == len(now):
            changed = [no for no, (earlier_file, file) in enumerate(zip(earlier_files, now, strict=True)) if earlier_file[1] != file[1]]
            descriptions = [f"file {no + 1}, {earlier_files[no][0]:,} bytes, now {now[no][0]:,}" for no in changed[:3]]
            differences = [
                f"{len(changed):,} of {len(earlier_files):,} files changed: {'; '.join(descriptions)}{'; ...' if len(changed) > 3 else ''}"
            ]
        else:
            differences.append(f"{(earlier - common).total():,} of them missing or changed, {(new - common).total():,} new")
        return ", ".join(differences)

    def _extends_index(self, index_json: Mapping[str, Any]) -> bool:
        """True if the index has several increments, or if the input has all files of the index and more."""
        earlier = Counter(sha256 for _, sha256 in index_json.get("files") or [])
        return len(index_json.get("batches") or ()) > 1 or bool(earlier) and not earlier - Counter(self.input_hashes)

    @functools.cached_property
    def input_hashes(self) -> list[str]:
        """The sha256 of every file that this command reads, in corpus order."""
        return [self.hash_file(path) for path, _ in self.survey.files]

    def hash_file(self, path: str) -> str:
        """The sha256 of a file; each file is hashed once and the result is cached."""
        if path not in self.file_hashes:
            state = stat_file(path)
            self.file_hashes[path] = state, file_sha256(Path(path))
        return self.file_hashes[path][1]

    def hash_inputs(self) -> str:
        """A hash of the bytes of the files to read, their order and the column roles; independent of their paths."""
        return hash_json(self.input_hashes, str(self.survey.roles))

    def set_survey(self, survey: Survey) -> None:
        """Set the survey of the input to read, and resolve its column policies."""
        self.survey = survey
        self.policies = resolve_column_policies(survey.schema, survey.layout.main_column, self.settings.columns)

    def task_files(self, *folder_names: str) -> list[Path]:
        """The files of a table of WORK, one per task."""
        return [self.workspace.joinpath(*folder_names, f"{no:05d}.parquet") for no in range(len(self.task_ranges))]


def stat_file(path: str) -> tuple[int, int] | None:
    """(size, mtime in ns) of a file, which change when it is written; None if the file does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
