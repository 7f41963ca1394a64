"""What an index is built from (files, key, settings, finders, columns), increment by increment, and
the fingerprints of that, stored in index.json of WORK; then its documents, and what is built.

Frozen: `IndexBuilder` (index_build.py) makes `IndexInputs` when it opens WORK, and of these an
`Index`; a run (run_state.py) reads them.
"""

from __future__ import annotations

import bisect
import functools
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from sanitize.core.command_results import ColumnPolicy, KeptValues
from sanitize.core.keys import Key
from sanitize.core.text_cells import LeafPath, Policies, list_number_leaves
from sanitize.errors import InputRefused
from sanitize.kinds.field_names import is_searched
from sanitize.pipeline.indexing import column_roles, index_increments
from sanitize.pipeline.manifest import get_library_versions
from sanitize.pipeline.run_results import IndexResult
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.plan import Plan
from sanitize.plans.settings import Settings
from sanitize.readers import staging
from sanitize.readers.column_policies import (
    Columns,
    list_added_columns,
    resolve_column_policies,
)
from sanitize.readers.remote_input import InputSet
from sanitize.readers.staging import main_leaf_at
from sanitize.readers.survey import Survey
from sanitize.stages import detection
from sanitize.storage import private_folder, table_schemas
from sanitize.storage.corpus import Documents, cell_leaves
from sanitize.storage.files import FileState, input_sha256, stat_file
from sanitize.storage.private_folder import IndexIncrement, SavedIndex
from sanitize.storage.records.splits import TRAIN
from sanitize.storage.task_records import hash_json

_CHANGED = (
    "changed while it was being read; nothing was published. Run the same command again when no"
    " program writes to it"
)


@dataclass(frozen=True, kw_only=True)
class EarlierIndex:
    """What an append adds to: the closed increments with their documents and tasks. Empty without
    --append."""

    increments: tuple[IndexIncrement, ...] = ()
    documents: Documents | None = None
    task_ranges: tuple[tuple[int, int], ...] = ()
    restart_open_increment: bool = False  # an increment that was not published starts again
    decided_columns: tuple[ColumnPolicy, ...] = ()

    @property
    def document_count(self) -> int:
        """The number of these documents."""
        return self.documents.count if self.documents else 0


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexInputs:
    """What the index of one WORK folder is built from: known when the inputs are surveyed."""

    workspace: Path
    settings: Settings
    detection_spec: DetectionSpec
    key: Key
    # a hash of the user's list of known values; None without a list
    known_list_hash: str | None
    given_inputs: tuple[Path | str, ...]
    input_set: InputSet  # the inputs as given, with those fetched from URLs
    survey: Survey  # of the files that this command reads
    policies: Policies  # by options, types and names
    leaves: tuple[LeafPath, ...]  # the text cells of a document, the main text first
    earlier: EarlierIndex
    keep_input: bool  # the index of another input is refused, even with `replace`
    user_umask: int  # the user's own, for published files
    notes: list[str]  # for the user; grows while the command runs
    decided_columns: tuple[ColumnPolicy, ...] = ()  # what counts over the rows decided
    # for each input file: its state when it was hashed, sha256; grows as files are hashed
    file_hashes: dict[str, tuple[FileState | None, str]] = field(default_factory=dict)

    @property
    def closed_increments(self) -> tuple[IndexIncrement, ...]:
        """The increments that an append adds to."""
        return self.earlier.increments

    @property
    def has_second_round(self) -> bool:
        """True if a finder needs the occurrences of the whole corpus."""
        return any(finder.second_round for finder in self.detection_spec.finders)

    @functools.cached_property
    def detection_settings(self) -> dict[str, Any]:
        """What decides what is found, besides input and key: finders and their settings, countries,
        custom kinds, the user's list."""
        # a keyed hash of the list: index.json reveals nothing about its values
        known_list = (
            hash_json(self.known_list_hash, self.key.subkey("known").hex())
            if self.known_list_hash
            else None
        )
        return {**self.detection_spec.fingerprint_data(), "known": known_list}

    @functools.cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """One fingerprint for each increment: a hash of everything that decides what the index
        holds up to its end."""
        return self.compute_fingerprints(self.increments)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole index."""
        return self.fingerprints[-1]

    @functools.cached_property
    def increments(self) -> tuple[IndexIncrement, ...]:
        """The increments of the index: the closed ones, then that of this command's files, if there
        are any."""
        if self.closed_increments and not self.survey.files:
            return self.closed_increments
        new_increment = IndexIncrement(
            files=tuple((size, sha256) for size, sha256 in self.new_files),
            path_hashes=tuple(
                index_increments.hash_path(self.input_set.location_of(path), self.key)
                for path, _ in self.survey.files
            ),
            unit_count=len(self.survey.units),
            splits=self._unit_splits,
        )
        return (*self.closed_increments, new_increment)

    def compute_fingerprints(self, increments: Sequence[IndexIncrement]) -> tuple[str, ...]:
        """The fingerprint at the end of each of these increments."""
        first, *rest = (increment.hash_inputs(self.survey.roles) for increment in increments)
        fingerprints = [self._compute_base_fingerprint(first)]
        for inputs in rest:
            fingerprints.append(hash_json("append", fingerprints[-1], inputs))
        return tuple(fingerprints)

    def _compute_base_fingerprint(self, inputs_hash: str) -> str:
        """The fingerprint of the first increment: inputs, key, settings and versions of the
        stages."""
        settings = self.settings
        return hash_json(
            "find",
            inputs_hash,
            self.key.id,
            (table_schemas.VERSION, staging.VERSION, detection.VERSION),
            detection.hash_kind_sources(),
            (settings.rows_per_shard, settings.max_doc_bytes, settings.max_doc_matches),
            # what counts decide follows from these and the input
            [str(leaf) for leaf in self._find_leaves(self.survey, self.policies_by_name)],
            [
                column_roles.VERSION,
                *(
                    (name, policy)
                    for name, policy in sorted(settings.columns.policies.items())
                    if policy in column_roles.COUNTED_POLICIES
                ),
            ],
            self.detection_settings,
            *self.sample_fingerprint,
            *([self.survey.features] if self.survey.features else []),
        )

    @functools.cached_property
    def policies_by_name(self) -> Policies:
        """The policies by options, types and names."""
        return self._resolve_policies(self.survey)

    def _resolve_policies(self, survey: Survey) -> Policies:
        return resolve_policies(survey, self.settings, self.detection_spec.opt_in_kinds)

    def _find_leaves(self, survey: Survey, policies: Policies) -> tuple[LeafPath, ...]:
        return find_leaves(survey, policies, self.detection_spec.opt_in_kinds)

    @property
    def published_policies(self) -> dict[str, str]:
        """The policies of the columns that the files have."""
        added = list_added_columns(self.survey.roles, self.survey.features)
        return {
            name: policy for name, policy in self.policies.by_column.items() if name not in added
        }

    @property
    def sample_fingerprint(self) -> list[object]:
        """What a sample depends on; empty if this is not a sample."""
        return [self.settings.sample, self.key.id] if self.settings.sample < 1 else []

    def record_fingerprint(self, stage: str, *depends_on: object, increment_index: int = -1) -> str:
        """The fingerprint of a stage's task records, up to an increment: what the stage depends on,
        and the libraries it uses."""
        versions = get_library_versions()
        if stage in (
            "read",
            "find",
            "known",
        ):
            # only these two decide what is read and found; the other libraries decide how it is
            # written
            versions = {
                name: versions[name]
                for name in ("corpus-sanitize", "phonenumbers")
                if name in versions
            }
        if stage == "read":
            return hash_json(
                stage,
                versions,
                self.hash_inputs(),
                staging.VERSION,
                self.settings.max_doc_bytes,
                *depends_on,
            )
        return hash_json(stage, versions, self.fingerprints[increment_index], *depends_on)

    def find_increment_index(self, task_no: int) -> int:
        """The index of the increment that a task belongs to."""
        return sum(
            task_no >= end_task
            for end_task in accumulate(increment.task_count for increment in self.closed_increments)
        )

    def write_index_json(
        self,
        documents: Documents,
        task_ranges: Sequence[tuple[int, int]],
        *,
        is_complete: bool,
        increments: Sequence[IndexIncrement] = (),
    ) -> None:
        """Write index.json. `is_complete` is False while tasks are still to be resumed;
        `increments`: the increments, files and fingerprint to write, where those are not all
        (empty: all)."""
        if not increments:
            *_, last = self.increments
            last = replace(
                last,
                document_count=documents.count - self.earlier.document_count,
                task_count=len(task_ranges) - len(self.earlier.task_ranges),
            )
            increments = (
                self.closed_increments
                if len(self.increments) == len(self.closed_increments)
                else (*self.closed_increments, last)
            )
        SavedIndex(
            fingerprint=self.compute_fingerprints(increments)[-1],
            complete=is_complete,
            key_id=self.key.id,
            detection_settings=self.detection_settings,
            inputs_hash=(
                hash_json([increment.hash_inputs(self.survey.roles) for increment in increments])
                if self.closed_increments
                else self.hash_inputs()
            ),
            sample=self.settings.sample,
            input_files=[file for increment in increments for file in increment.files],
            increments=tuple(increments),
            documents=documents,
            leaves=self.leaves,
            decided_columns=self.decided_columns,
            features=self.survey.features,
            task_ranges=tuple(task_ranges),
        ).write(self.workspace)

    def close_increments(self) -> None:
        """Mark all increments as published, so that none is discarded any more."""
        if self.closed_increments:
            index = SavedIndex.read_complete(self.workspace)
            published = tuple(replace(increment, published=True) for increment in index.increments)
            with private_folder.set_umask(0o077):
                # OUT is written under the user's own mask, this is not for others
                replace(index, increments=published).write(self.workspace)

    @property
    def input_files(self) -> list[list[Any]]:
        """Size and sha256 of every input file, in corpus order."""
        return [
            *(
                [size, sha256]
                for increment in self.closed_increments
                for size, sha256 in increment.files
            ),
            *self.new_files,
        ]

    @property
    def new_files(self) -> list[list[Any]]:
        """Size and sha256 of every file that this command reads, in corpus order."""
        return [
            [size, known]
            for (_, size), known in zip(self.survey.files, self.input_hashes, strict=True)
        ]

    def describe_input_difference(self, earlier_files: Sequence[Sequence[Any]]) -> str:
        """How the input differs from an earlier one (its `input_files`), in counts and sizes; file
        names may be personal data."""
        now = self.input_files
        if not earlier_files:
            return "its files are not recorded"
        common, earlier, new = (
            Counter(sha256 for _, sha256 in files) for files in (earlier_files, earlier_files, now)
        )
        common &= new
        if not (earlier - common) and not (new - common):
            return "the same files" + (
                ", in another order" if earlier_files != now else ", with other column roles"
            )
        differences = [f"{len(earlier_files):,} files, now {len(now):,}"]
        if len(earlier_files) == len(now):
            changed = [
                no
                for no, (earlier_file, file) in enumerate(zip(earlier_files, now, strict=True))
                if earlier_file[1] != file[1]
            ]
            descriptions = [
                f"file {no + 1}, {earlier_files[no][0]:,} bytes, now {now[no][0]:,}"
                for no in changed[:3]
            ]
            differences = [
                f"{len(changed):,} of {len(earlier_files):,} files changed:"
                f" {'; '.join(descriptions)}{'; ...' if len(changed) > 3 else ''}"
            ]
        else:
            differences.append(
                f"{(earlier - common).total():,} of them missing or changed,"
                f" {(new - common).total():,} new"
            )
        return ", ".join(differences)

    @functools.cached_property
    def input_hashes(self) -> list[str]:
        """The sha256 of every file that this command reads, in corpus order."""
        hashes = [self.hash_file(path) for path, _ in self.survey.files]
        for number, (path, surveyed_size) in enumerate(self.survey.files, 1):
            state = self.file_hashes[path][0]
            is_followed = os.path.isfile(path) and not (surveyed_size == 0 and os.path.islink(path))
            if state is not None and is_followed and state.size != surveyed_size:
                # else only what the survey saw would be read
                raise InputRefused(f"file {number} of the input {_CHANGED}")
        return hashes

    def hash_file(self, path: str) -> str:
        """The sha256 of a file; each file is hashed once and the result is cached."""
        if path not in self.file_hashes:
            state = stat_file(path)
            try:
                self.file_hashes[path] = state, input_sha256(path)
            except FileNotFoundError:
                raise InputRefused(f"a file of the input {_CHANGED}") from None
        return self.file_hashes[path][1]

    def hash_inputs(self) -> str:
        """A hash of the bytes of the files to read, their order, splits and the column roles;
        independent of their paths."""
        return hash_json(
            self.input_hashes,
            str(self.survey.roles),
            *([self._unit_splits] if self._unit_splits else []),
        )

    @property
    def _unit_splits(self) -> tuple[str, ...]:
        """The split of each unit of this command's files; empty where they have none."""
        splits = tuple(unit.split for unit in self.survey.units)
        return splits if any(splits) else ()

    def with_survey(self, survey: Survey) -> IndexInputs:
        """The same with other files to read, whose columns are those of the earlier ones."""
        return replace(self, survey=survey, policies=self._resolve_policies(survey))


def resolve_policies(survey: Survey, settings: Settings, opt_in_kinds: Collection[str]) -> Policies:
    """The policies of the columns of the surveyed files under a plan that looks for these opt-in
    kinds."""
    return resolve_column_policies(
        survey.schema,
        survey.layout.main_path,
        Columns(roles=survey.roles, policies=settings.policies),
        survey.features,
        column_roles.find_policies_by_name(survey.schema, opt_in_kinds),
    )


def find_leaves(
    survey: Survey, policies: Policies, opt_in_kinds: Collection[str]
) -> tuple[LeafPath, ...]:
    """The paths of the text cells of a document, the main text first."""
    main = main_leaf_at(survey.layout.main_path, survey.schema)
    leaves, shape = cell_leaves(survey.schema, main, policies), survey.roles.shape
    texts = (
        survey.layout.cell_leaf(leaf) for leaf in (shape.select_cells(leaves) if shape else leaves)
    )
    # behind the texts, whose numbers do not depend on them
    numbers = list_number_leaves(survey.schema, partial(is_searched, opt_in_kinds=opt_in_kinds))
    return (*texts, *(leaf for leaf in numbers if policies.at(leaf) == "sanitize"))


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadCorpus(IndexInputs):
    """Inputs that are read: their documents, and the tasks that these are cut into. `policies` and
    `leaves` are those that counts over the rows decided."""

    documents: Documents
    task_ranges: tuple[tuple[int, int], ...]  # first doc_no and last + 1 of each task

    @property
    def task_splits(self) -> list[str]:
        """The split of each task, "" where the corpus has none: a task covers documents of one
        split. What was read before an append brought the first splits is in train."""
        files = [file for file in self.documents.files if file.rows]
        firsts = [file.first_doc_no for file in files]
        splits = [files[bisect.bisect_right(firsts, low) - 1].split for low, _ in self.task_ranges]
        return [split or TRAIN for split in splits] if any(splits) else splits

    def describe_columns(self, plan: Plan) -> list[ColumnPolicy]:
        """What becomes of each column that the files have under a plan, and why."""
        return column_roles.describe_columns(
            self.survey, self.policies, self.settings.policies, self.decided_columns, plan
        )

    def with_columns(self, decided: Sequence[ColumnPolicy]) -> Self:
        """The same with the policies that counts over the rows decided for some columns."""
        policies = self.policies.with_columns({one.name: one.policy for one in decided})
        by_name = {one.name: one for one in (*self.decided_columns, *decided)}
        # the fingerprint is that of the survey, before anything was counted
        survey = self.survey.with_json_columns(column_roles.list_json_columns(by_name.values()))
        return replace(
            self,
            policies=policies,
            leaves=self._find_leaves(survey, policies),
            decided_columns=tuple(by_name.values()),
        )

    def task_files(self, *folder_names: str) -> list[Path]:
        """The files of a table of WORK, one per task."""
        return [
            self.workspace.joinpath(*folder_names, f"{no:05d}.parquet")
            for no in range(len(self.task_ranges))
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class Index(ReadCorpus):
    """An index that is built."""

    value_counts_file: Path
    has_repeated_ids: bool  # two documents share an id, so draws depend on the document's position
    quarantine: pa.Table
    kept_values: list[KeptValues]  # decisions on values in kept columns (kept_columns.py)
    counts: IndexResult


def list_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass object, to create one of a class with more fields."""
    return {one.name: getattr(value, one.name) for one in fields(value)}
