"""Data subject requests (`sanitize subject`): finds one person in the index, the documents, the
published shards and the checkpoints that were trained on them, and erases the person.

The person is given by values, names and user ids; values under the same display name, or that
differ by a plus tag, are linked to the person (subject_match.py). `erase` stores a tombstone: every
OUT of this WORK is published again without the person (only the shards that contain the person are
rewritten), and every later run honours the tombstone. Reports and receipts contain counts, never a
value or a name.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import fill_null_texts
from sanitize.core.command_results import IF_SET, CommandResult
from sanitize.core.keys import Key
from sanitize.core.progress import ProgressCallback, ignore_progress
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.text_cells import LeafPath
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, OutputBroken, SanitizeError, UsageError, running_command_line
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import all_kinds, custom_kinds
from sanitize.pipeline.erasure import published_outputs
from sanitize.pipeline.erasure.erasure_scan import ErasureScanTask, erasure_scan_task
from sanitize.pipeline.erasure.mailboxes import (
    find_erased_values,
    find_inner_ids,
    read_address_parts,
)
from sanitize.pipeline.erasure.published_outputs import (
    OutputSearch,
    PublishedOutput,
    UnreachedOutput,
)
from sanitize.pipeline.erasure.subject_match import LinkTask, SubjectMatch, expand_match, link_task
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.detection_spec import read_custom_kinds
from sanitize.plans.plan import Plan
from sanitize.plans.python_api import public_function
from sanitize.plans.settings import Settings, settings_of
from sanitize.storage import private_folder, queries, tombstones
from sanitize.storage.corpus import Corpus, Documents, flatten_cells
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import file_sha256, read_json, write_json, write_private_lines
from sanitize.storage.locks import lock_output, lock_workspace
from sanitize.storage.parquet_files import read_table
from sanitize.storage.private_folder import (
    OCCURRENCES_FOLDER,
    RUNS_FOLDER,
    SPILL_FOLDER,
    TABLES_FOLDER,
    VALUES_FOLDER,
    SavedIndex,
)
from sanitize.storage.remote_storage import is_url, require_local_path
from sanitize.storage.runs import publish_history
from sanitize.storage.task_records import hash_json
from sanitize.text import name_search
from sanitize.text.literal_search import LiteralMatcher
from sanitize.verification.published.output_check import verify


@dataclass(frozen=True, kw_only=True)
class GivenIdentifiers:
    """How many values, names and users a match gives."""

    values: int
    names: int
    users: int


@dataclass(frozen=True, kw_only=True)
class LinkedIdentifiers:
    """How many values and names are linked to those given, and how many display names were not
    followed."""

    values: int
    names: int
    names_not_followed: int


@dataclass(frozen=True, kw_only=True)
class SectionCounts:
    """Occurrences of one kind in one section of the documents (None: in the text), and the
    documents that have them."""

    kind: str
    section: str | None
    occurrences: int
    documents: int


@dataclass(frozen=True, kw_only=True)
class SubjectInOutput:
    """What one published OUT holds of a person: documents, shards, occurrences replaced and
    `remaining`. Counts are None if OUT was published from an earlier index."""

    plan: str
    run_hash: str
    out: str
    documents: int | None
    shards: Sequence[str]
    remaining: int | None
    replaced: int | None
    erasures_honoured: Annotated[int | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class SubjectInTraining:
    """What one training run saw of the person's documents: how many, first at which step, and how
    many checkpoints came after it."""

    run: str
    documents_seen: int
    first_step: int | None
    checkpoints: int
    checkpoints_after: int


@dataclass(frozen=True, kw_only=True)
class ErasedOutput:
    """One OUT after an erasure. `erased` is False if it could not be published without the person,
    and then nothing else is known; or if it has `occurrences_left`: those of values that the
    finders of its plan do not find."""

    out: str
    run_hash: str
    erased: bool
    shards: Annotated[int | None, IF_SET] = None
    shards_rewritten: Annotated[int | None, IF_SET] = None
    changed: Annotated[bool | None, IF_SET] = None
    occurrences_erased: Annotated[int | None, IF_SET] = None
    occurrences_left: Annotated[int | None, IF_SET] = None
    leaks: Annotated[int | None, IF_SET] = None
    encoded_leaks: Mapping[str, int] | None = None
    manifest_sha256: Annotated[str | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Erasure(CommandResult):
    """The outputs that were published again without the person, and the file of the receipt."""

    outputs: Sequence[ErasedOutput]
    receipt: str

    def summary_table(self) -> SummaryTable:
        rows = [(output.out, output.occurrences_erased) for output in self.outputs]
        return SummaryTable(
            title=f"erased; receipt {self.receipt}", header=("output", "occurrences"), rows=rows
        )


_LISTED_DOCUMENTS = 20  # documents whose places a result has


@dataclass(frozen=True, kw_only=True)
class DocumentPlace:
    """The input file of a document, and its position in it."""

    doc_no: int
    source: str
    location: str


@dataclass(frozen=True, kw_only=True, repr=False)
class SubjectResult(CommandResult):
    """The result of `subject`: what was given and linked, where it occurs, and what was erased.
    `places` has the input files of the first documents, `unmatched_lines` the lines of the match
    that occur nowhere."""

    given: GivenIdentifiers
    linked: LinkedIdentifiers
    values_found: int
    unmatched_lines: Sequence[int]
    documents: int
    documents_authored: int
    occurrences: int
    occurrences_by_section: Sequence[SectionCounts]
    places: Sequence[DocumentPlace]
    runs: Sequence[SubjectInOutput]
    checkpoints: Sequence[SubjectInTraining]
    unreached_outputs: Sequence[UnreachedOutput]
    work: str
    erased: Annotated[Erasure | None, IF_SET] = None

    def summary_table(self) -> SummaryTable:
        given, linked = self.given, self.linked
        facts = [
            ("given", f"{given.values:,} values, {given.names:,} names, {given.users:,} users"),
            ("linked", f"{linked.values:,} values, {linked.names:,} names"),
            ("found", f"{self.occurrences:,} occurrences in {self.documents:,} documents"),
            *(
                (
                    "published",
                    (
                        f"{run.out}: {run.remaining:,} left, {run.replaced:,} replaced"
                        if run.remaining is not None
                        else run.out
                    ),
                )
                for run in self.runs
            ),
            *(
                ("erased", f"{output.out}: {output.occurrences_erased or 0:,} occurrences")
                for output in (self.erased.outputs if self.erased else ())
            ),
        ]
        rows = [
            (place.kind, place.section or "the text", place.occurrences)
            for place in self.occurrences_by_section
        ]
        return SummaryTable(
            title=f"sanitize subject: {self.work}",
            facts=facts,
            header=("kind", "where", "occurrences"),
            rows=rows,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Workspace:
    """A WORK folder opened for a data subject request: its index, key, engine and published
    outputs."""

    folder: Path
    documents: Documents
    leaves: tuple[LeafPath, ...]
    task_ranges: Sequence[tuple[int, int]]
    has_increments: bool  # the index has several
    key: Key
    engine: LocalEngine
    spill: Path
    outputs: OutputSearch
    customs: tuple[CustomKind, ...]  # of its index and of all plans that published from it

    def task_files(self, *folder_names: str) -> list[Path]:
        return [
            self.folder.joinpath(*folder_names, f"{no:05d}.parquet")
            for no in range(len(self.task_ranges))
        ]

    def run_folder(self, output: PublishedOutput) -> Path:
        """The folder in WORK of the run that published an output."""
        return self.folder / RUNS_FOLDER / str(output.command["run_hash"])

    def run_tasks(self, function: Any, tasks: Sequence[Any]) -> None:
        for _ in self.engine.map_shards(function, tasks):
            pass

    def run_query(self, name: str, **tables: Sequence[Path]) -> pl.DataFrame:
        """The result of a named query over some tables."""
        out = self.spill / f"{name}.parquet"
        self.engine.sql(queries.get_query(name).sql, tables, out)
        return pl.DataFrame(read_table(out))


@public_function()
def subject(
    work: Path | str,
    match: Path | str | Sequence[str],
    /,
    *,
    erase: bool = False,
    linked: bool = True,
    checkpoint: Sequence[Path | str] | Path | str = (),
    documents: Path | str | None = None,
    receipt: Path | str | None = None,
    deleted: Sequence[Path | str] | Path | str = (),
    key: Path | str | None = None,
    seed: int | None = None,
    workers: int | None = None,
    progress: ProgressCallback = ignore_progress,
) -> SubjectResult:
    """Find one person; returns counts: `given`, `linked`, `values_found`, `documents`,
    `occurrences_by_section` (by kind and section), `runs` (what each published OUT holds of the
    person, and in which shards), `unreached_outputs` (those that were not found, and copies) and
    `checkpoints` (run folders of `sanitize-train` that saw the documents).

    `match` is a file, or its lines: values, names, `user:ID`. `documents` names a file for the ids
    of the person's documents, one per line (the input of unlearning). With `linked=False` only the
    given values and names count, and longer addresses that contain one of these values. `erase`
    removes the person from every OUT of this WORK and writes a `receipt` without values. An OUT is
    looked for at its path and beside WORK, and recognised by its manifest; `deleted` names those
    that no longer exist.

    Raises UsageError for a match that is too common or has no occurrence, and for a WORK whose
    input has moved; with `erase` OutputBroken for an OUT that is not found, after the others are
    rewritten.

    >>> import sanitize
    >>> sanitize.subject("clean.private", ["ann.lee@example.com"], seed=1, workers=1).occurrences
    2
    """
    work = require_local_path(work)
    private_folder.require_run_workspace(work)
    for path in (documents, receipt):
        if path is not None and not Path(path).resolve().parent.is_dir():
            raise UsageError(
                f"{path}: its folder does not exist; create it first, or use another path"
            )
        if path is not None and Path(path).is_dir():
            raise UsageError(f"{path}: is a folder; expected the name of a file")
        if path is not None and not os.access(Path(path).resolve().parent, os.W_OK):
            raise UsageError(f"{path}: no permission to write in its folder; use another path")
    checkpoints = [checkpoint] if isinstance(checkpoint, str | Path) else checkpoint
    deleted_outputs = [deleted] if isinstance(deleted, str | Path) else deleted
    settings = _load_settings(
        work, settings_of("subject", {"key": key, "seed": seed, "workers": workers})
    )
    with contextlib.ExitStack() as locks:
        # until the last output is rewritten, so that no other run comes between
        with (
            private_folder.set_umask(0o077),
            translate_disk_errors(work),
            contextlib.ExitStack() as stack,
        ):
            locks.enter_context(lock_workspace(work))
            private_folder.remove_leftovers(work)
            customs = _read_all_custom_kinds(work)
            stack.enter_context(custom_kinds(customs))
            spill = private_folder.make_private_folder(work / SPILL_FOLDER) / "subject"
            spill.mkdir()
            try:
                opened_workspace = _open_workspace(work, settings, workers, spill, customs)
                try:
                    subject_match = SubjectMatch.read(match, opened_workspace.key, customs)
                    found, tombstone, values = _search_subject(
                        opened_workspace,
                        subject_match,
                        checkpoints,
                        Path(documents) if documents else None,
                        linked,
                    )
                finally:
                    opened_workspace.engine.close()
                if erase:
                    held_locks = {
                        os.path.realpath(work),
                        *_lock_outputs(locks, opened_workspace.outputs),
                    }
                    # no second tombstone for the same person, after an interrupted first try or a
                    # repeated request
                    if not tombstones.read(work, opened_workspace.key).covers(tombstone):
                        tombstones.write(work, opened_workspace.key, tombstone, _format_utc_now())
                    outputs = published_outputs.relocate_found(work, opened_workspace.outputs)
                    opened_workspace = replace(
                        opened_workspace,
                        outputs=published_outputs.forget_deleted(work, outputs, deleted_outputs),
                    )
                    found = replace(found, unreached_outputs=opened_workspace.outputs.unreached)
            finally:
                shutil.rmtree(spill, ignore_errors=True)
        if erase:
            key_settings = (
                {} if key is None and seed is None else {"key": settings.key, "seed": settings.seed}
            )
            more = {**key_settings, "workers": workers, "progress": progress}
            erased = _erase_subject(
                opened_workspace,
                found,
                values,
                Path(receipt) if receipt else None,
                held_locks,
                **more,
            )
            found = replace(found, erased=erased)
    return found


def _read_all_custom_kinds(workspace: Path) -> tuple[CustomKind, ...]:
    """The custom kinds of the index, and those of other plans that published from WORK, whose
    outputs an erasure has to reach, too."""
    found = {custom.name: custom for custom in read_custom_kinds(workspace)}
    for command in publish_history.list_commands(workspace):
        with contextlib.suppress(SanitizeError):
            # the output of such a plan is reported when it is rewritten
            for custom in Plan.from_resolved(
                command["plan"], f"{workspace}/published"
            ).custom_kinds:
                found.setdefault(custom.name, custom)
    return tuple(found.values())


def _lock_outputs(locks: contextlib.ExitStack, outputs: OutputSearch) -> list[str]:
    """Lock the outputs that an erasure will rewrite; returns the real paths of those that are
    locked. Raises Locked if another run has one. An output beside which no lock file can be written
    is left to its run, which reports it."""
    locked = []
    for output in outputs.found:
        with contextlib.suppress(OSError):
            locks.enter_context(lock_output(output.corpus.path))
            locked.append(os.path.realpath(output.corpus.path))
    return locked


def _format_utc_now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")


def _load_settings(workspace: Path, given: Settings) -> Settings:
    """The settings of the latest run in WORK, with the key given now, if any."""
    commands = publish_history.list_commands(workspace)
    before = Settings.from_json(commands[-1]["settings"]) if commands else Settings()
    if given.key is not None or given.seed is not None:
        roles = asdict(before.columns.roles)
        return Settings.of_columns(roles, before.policies, key=given.key, seed=given.seed)
    return before


def _open_workspace(
    workspace: Path,
    settings: Settings,
    workers: int | None,
    spill: Path,
    customs: tuple[CustomKind, ...],
) -> _Workspace:
    """Open WORK. Raises UsageError if its index is incomplete, has another key, or if input files
    have moved or changed."""
    index = SavedIndex.read_complete(workspace)
    key = private_folder.load_key(workspace, key_file=settings.key, seed=settings.seed)
    if key.id != index.key_id:
        raise UsageError(
            f"{workspace}: was indexed with another key; give that key with --key FILE or --seed N"
        )
    documents = index.documents
    if not all(source.is_available() for source in documents.files):
        raise UsageError(
            f"{workspace}: its input has moved or changed since it was indexed; restore it, or"
            " index it again"
        )
    is_small = documents.count < 20_000
    return _Workspace(
        folder=workspace,
        documents=documents,
        leaves=index.leaves,
        task_ranges=index.task_ranges,
        has_increments=len(index.increments) > 1,
        key=key,
        engine=LocalEngine(
            workers=workers or (1 if is_small else os.cpu_count() or 1), spill=spill
        ),
        spill=spill,
        outputs=published_outputs.find_outputs(workspace),
        customs=customs,
    )


class _FoundSubject(NamedTuple):
    """All counts of the report, the person's values, names and users as tombstones, and the values
    as a table: value_id, kind, value."""

    counts: SubjectResult
    tombstones: tombstones.Tombstones
    values: pl.DataFrame


def _search_subject(
    workspace: _Workspace,
    match: SubjectMatch,
    checkpoints: Sequence[Path | str],
    documents: Path | None,
    follow_links: bool,
) -> _FoundSubject:
    """Search the corpus for a person."""
    tasks = [
        LinkTask(
            first_doc_no=low,
            end_doc_no=high,
            documents=workspace.documents,
            leaves=workspace.leaves,
            occurrences=occurrences,
            folder=workspace.spill / f"links-{no:05d}",
        )
        for no, ((low, high), occurrences) in enumerate(
            zip(workspace.task_ranges, workspace.task_files(OCCURRENCES_FOLDER), strict=True)
        )
    ]
    workspace.run_tasks(link_task, tasks)
    links = pl.concat(
        [pl.read_parquet(task.folder / "links.parquet", glob=False) for task in tasks]
    ).unique()
    vault_files = workspace.task_files(VALUES_FOLDER)
    values, names, names_not_followed = list(match.value_ids), list(match.names), 0
    mailboxes: set[str] = set()
    if follow_links:
        address_parts = read_address_parts(vault_files)
        values, names, names_not_followed = expand_match(links, match, address_parts)
        own_parts = address_parts.filter(
            pl.col("value_id").is_in(pl.Series(values, dtype=pl.Int64).implode())
        )
        mailboxes = {*match.mailboxes, *own_parts["mailbox"]}
    users = (
        tombstones.hash_user_ids(
            pa.array(match.user_ids, pa.large_string()), workspace.key
        ).tolist()
        if match.user_ids
        else []
    )
    mailbox_hashes = tombstones.hash_mailboxes(
        pa.array(sorted(mailboxes), pa.large_string()), workspace.key
    ).tolist()
    subject_tombstones = tombstones.Tombstones(
        tuple(values),
        tuple(names),
        tuple(sorted(users)),
        mailbox_hashes=tuple(sorted(mailbox_hashes)),
    )
    # with longer addresses that contain one
    values = list(find_erased_values(vault_files, subject_tombstones, workspace.key))
    subject_tombstones = replace(subject_tombstones, value_ids=tuple(values))
    tables, written_docs = _collect_occurrences(workspace, subject_tombstones)
    places, per_document = (
        workspace.run_query("subject_sections", **tables),
        workspace.run_query("subject_documents", **tables),
    )
    docs = pl.concat([per_document["doc_no"], written_docs]).unique().sort()
    if not len(docs):
        raise UsageError(
            "the match: nothing of it occurs in this corpus (no occurrence, no name, no user);"
            " check its spelling, and the WORK folder"
        )
    found_value_ids = set(workspace.run_query("subject_values", **tables)["value_id"])
    found_value_ids |= find_inner_ids(vault_files, found_value_ids, workspace.key)
    name_ids = (
        dict(
            zip(
                match.names,
                name_search.compute_name_ids(match.names, workspace.key).tolist(),
                strict=True,
            )
        )
        if match.names
        else {}
    )
    unmatched_lines = sorted(
        {
            line
            for value_or_name, line in match.line_numbers.items()
            if (name_ids[value_or_name] if isinstance(value_or_name, str) else value_or_name)
            not in found_value_ids
        }
    )
    ids = _read_doc_ids(workspace, docs.to_numpy())
    if documents is not None:
        # a document that every plan dropped is in no shard, so no model was trained on it
        published = _list_published_documents(workspace)
        published_ids = (
            ids
            if published is None
            else [
                doc_id
                for doc_id, number in zip(ids, docs.to_list(), strict=True)
                if number in published
            ]
        )
        write_private_lines(documents, (f"{doc_id}\n" for doc_id in published_ids), overwrite=True)
    found = SubjectResult(
        given=GivenIdentifiers(
            values=len(match.value_ids), names=len(match.names), users=len(match.user_ids)
        ),
        linked=LinkedIdentifiers(
            values=len(set(values) - set(match.value_ids)),
            names=len(set(names) - set(match.names)),
            names_not_followed=names_not_followed,
        ),
        values_found=len(found_value_ids.intersection(values)),
        unmatched_lines=unmatched_lines,
        documents=len(docs),
        documents_authored=written_docs.n_unique(),
        occurrences=int(places["occurrences"].sum()),
        occurrences_by_section=[SectionCounts(**place) for place in places.to_dicts()],
        places=[
            DocumentPlace(doc_no=doc_no, source=place.source, location=place.location)
            for doc_no, place in sorted(
                workspace.documents.find_places(docs[:_LISTED_DOCUMENTS].to_list()).items()
            )
        ],
        runs=[
            _summarize_run(workspace, output, tables, docs.to_numpy())
            for output in workspace.outputs.found
        ],
        checkpoints=[_summarize_checkpoints(Path(path), ids) for path in checkpoints],
        unreached_outputs=workspace.outputs.unreached,
        work=str(workspace.folder),
    )
    indexed = _read_values(vault_files, pl.Series(values, dtype=pl.Int64))
    # an index of other finders may not have them
    given = pl.DataFrame(
        [(value_id, *match.values[value_id]) for value_id in match.value_ids],
        schema=indexed.schema,
        orient="row",
    )
    found_values = pl.concat([given, indexed])
    # names are searched for by their words, whatever the plan
    kinds = sorted({*found_values["kind"]} - {name_search.PERSON})
    return _FoundSubject(
        found,
        replace(subject_tombstones, kinds=tuple(kinds)),
        found_values.unique(maintain_order=True),
    )


def _read_values(vault_files: Iterable[Path], value_ids: pl.Series) -> pl.DataFrame:
    """Those of the values that are in files of the vault: value_id, kind, value. File by file,
    since all values of a corpus may not fit into memory."""
    found = [pl.DataFrame(schema={"value_id": pl.Int64, "kind": pl.String, "value": pl.String})]
    for path in vault_files:
        table = pl.DataFrame(read_table(path, columns=["value_id", "kind", "value"]))
        found.append(
            table.filter(pl.col("value_id").is_in(value_ids.implode())).with_columns(
                pl.col("kind", "value").cast(pl.String)
            )
        )
    return pl.concat(found)


def _collect_occurrences(
    workspace: _Workspace, erased: tombstones.Tombstones
) -> tuple[dict[str, Sequence[Path]], pl.Series]:
    """The tables `occurrences` (including mentions of the person's names) and `subject` (ids of the
    person's values); and the numbers of the documents that the person wrote."""
    subject_file = workspace.spill / "subject.parquet"
    occurrences = workspace.task_files(OCCURRENCES_FOLDER)
    ids = [
        *erased.value_ids,
        *(
            name_search.compute_name_ids(erased.names, workspace.key).tolist()
            if erased.names
            else ()
        ),
    ]
    pq.write_table(pa.table({"value_id": pa.array(ids, pa.int64())}), subject_file)
    written_docs = pl.Series("doc_no", [], pl.Int64)
    if erased.names or erased.user_hashes:
        tasks = []
        for no, (low, high) in enumerate(workspace.task_ranges):
            folder = workspace.spill / f"find_erased-{no:05d}"
            folder.mkdir()
            scan_task = ErasureScanTask(
                first_doc_no=low,
                end_doc_no=high,
                documents=workspace.documents,
                leaves=workspace.leaves,
                erased=erased,
                key=workspace.key,
                folder=folder,
            )
            tasks.append(scan_task)
        workspace.run_tasks(erasure_scan_task, tasks)
        occurrences = [*occurrences, *(task.folder / "mentions.parquet" for task in tasks)]
        written_docs = pl.concat(
            [pl.read_parquet(task.folder / "documents.parquet", glob=False) for task in tasks]
        )["doc_no"]
    return {"occurrences": occurrences, "subject": [subject_file]}, written_docs


def _list_published_documents(workspace: _Workspace) -> set[int] | None:
    """The documents that some published OUT contains; None if nothing was published, or if this is
    no longer recorded."""
    files = [
        workspace.run_folder(output) / "rows" / path.name
        for output in workspace.outputs.found
        for path in workspace.task_files(TABLES_FOLDER)[: len(output.corpus.shards)]
    ]
    if not files or not all(path.is_file() for path in files):
        return None
    return {
        int(number) for path in files for number in np.asarray(read_table(path).column("doc_no"))
    }


def _read_doc_ids(workspace: _Workspace, doc_numbers: I64) -> list[str]:
    """The ids of documents, in the order of `doc_numbers`, which ascend."""
    ids: list[str] = []
    for low, high in workspace.task_ranges:
        task_doc_nos = doc_numbers[(doc_numbers >= low) & (doc_numbers < high)]
        if len(task_doc_nos):
            for table in workspace.documents.read(
                int(task_doc_nos[0]), int(task_doc_nos[-1]) + 1, ["doc_id"]
            ):
                is_wanted = pc.is_in(table.column("doc_no"), value_set=pa.array(task_doc_nos))
                ids += table.filter(is_wanted).column("doc_id").to_pylist()
    return ids


def _summarize_run(
    workspace: _Workspace,
    output: PublishedOutput,
    tables: Mapping[str, Sequence[Path]],
    doc_numbers: I64,
) -> SubjectInOutput:
    """What one published OUT holds of the person: documents, shards, replaced occurrences, and
    `remaining`, those its plan left or kept."""
    folder, corpus = workspace.run_folder(output), output.corpus
    corpus.require_all_fields()
    names = [path.name for path in workspace.task_files(TABLES_FOLDER)][: len(corpus.shards)]
    identification = {
        "plan": corpus.manifest["plan"]["name"],
        "run_hash": folder.name,
        "out": output.display_name,
    }
    if not all((folder / place / name).is_file() for place in ("rows", "edits") for name in names):
        # from an earlier index
        return SubjectInOutput(
            **identification, documents=None, shards=[], remaining=None, replaced=None
        )
    rows = [np.asarray(read_table(folder / "rows" / name).column("doc_no")) for name in names]
    published_masks = [np.isin(doc_numbers, doc_nos) for doc_nos in rows]
    found = workspace.run_query(
        "subject_edits",
        **tables,
        edits=[folder / "edits" / name for name in names],
        published_documents=[folder / "rows" / name for name in names],
    )
    erased_counts = corpus.manifest["settings"].get("erased") or {}
    return SubjectInOutput(
        **identification,
        documents=int(sum(doc_nos.sum() for doc_nos in published_masks)),
        shards=[
            shard.path.name
            for shard, doc_nos in zip(corpus.shards, published_masks, strict=True)
            if doc_nos.any()
        ],
        remaining=sum(found["occurrences"]) - sum(found["replaced"]),
        replaced=sum(found["replaced"]),
        erasures_honoured=int(erased_counts.get("erasures", 0)),
    )


def _summarize_checkpoints(folder: Path, ids: Sequence[str]) -> SubjectInTraining:
    """What one training run saw of the person's documents, from `seen.parquet` and `train.json` of
    its run folder."""
    try:
        seen = pl.read_parquet(
            folder / "seen.parquet", columns=["doc_id", "first_step"], glob=False
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"{folder}: no readable seen.parquet ({type(error).__name__}); expected the folder of a"
            " `sanitize-train` run"
        ) from None
    seen_documents = seen.filter(
        pl.col("doc_id").cast(pl.String).is_in(pl.Series(list(ids), dtype=pl.String).implode())
    )
    steps = [
        int(name.rpartition("-")[2])
        for name in (read_json(folder / "train.json") or {}).get("checkpoints", [])
    ]
    first_step = int(seen_documents["first_step"].min()) if seen_documents.height else None  # type: ignore[arg-type]
    return SubjectInTraining(
        run=str(folder),
        documents_seen=seen_documents.height,
        first_step=first_step,
        checkpoints=len(steps),
        checkpoints_after=(
            sum(step >= first_step for step in steps) if first_step is not None else 0
        ),
    )


def _count_encoded_leaks(
    workspace: Path, output: str, workers: int | None
) -> dict[str, int] | None:
    """Counts by form of removed values, of any person, that the full check still finds in an OUT;
    None if there is nothing to check it against. They are not removed, as that would mean to
    rewrite the text that encodes them."""
    try:
        verify(output, work=workspace, mode="full", workers=workers)
    except LeakFound as error:
        counts: Counter[str] = Counter()
        for finding in error.findings:
            counts[str(finding["form"])] += int(str(finding["count"]))
        return dict(counts)
    except UsageError:
        return None
    return {}


def _count_values_left(workspace: _Workspace, corpus: Corpus, values: pl.DataFrame) -> Counter[str]:
    """Occurrences by kind, in a folder that was just published, of those of the person's values
    that its run did not find at all: they have been found by the finders of another run in this
    WORK, and so neither its edits nor its leak check know them."""
    kinds = list(all_kinds())
    vault_files = filter(Path.is_file, workspace.task_files(VALUES_FOLDER))
    unknown = values.join(
        _read_values(vault_files, values["value_id"]), on="value_id", how="anti"
    ).filter(pl.col("kind").is_in(kinds))
    numbers = pl.Series("kind", [kinds.index(kind) for kind in unknown["kind"]], pl.Int32)
    matcher = (
        LiteralMatcher.from_values(
            unknown.with_columns(numbers, normalised=pl.lit(None, pl.String))
        )
        if unknown.height
        else None
    )
    counts: Counter[str] = Counter()
    if matcher is None:
        return counts
    for shard in corpus.list_shards():
        table = shard.read().combine_chunks()
        for column in flatten_cells(
            table, [leaf for leaf in workspace.leaves if leaf.column in table.column_names]
        ):
            matches = matcher.find(fill_null_texts(column.flat.texts.cast(pa.large_string())))
            counts.update(kinds[number] for number in matcher.kind[matches.term])
    return counts


def _erase_subject(
    workspace: _Workspace,
    found: SubjectResult,
    values: pl.DataFrame,
    receipt: Path | None,
    held_locks: Collection[str],
    **more: Any,
) -> Erasure:
    """Publish every OUT of this WORK again without the person, and write the receipt. Then raises
    the first error of those that could not be published, such as LeakFound, LeakFound for one that
    still has some of `values`, and OutputBroken if one is not there."""
    outputs: list[ErasedOutput] = []
    failed: list[SanitizeError] = []
    left: Counter[str] = Counter()  # by kind
    unreached = list(workspace.outputs.unreached)
    # no command's inputs match an index of several increments; its outputs are rebuilt from the
    # index itself
    has_increments = workspace.has_increments
    for output in workspace.outputs.found:
        command, run_hash = output.command, output.command["run_hash"]
        if not output.is_unchanged():  # replaced since it was found
            unreached.append(
                UnreachedOutput(out=output.display_name, run_hash=run_hash, reason="other content")
            )
            continue
        earlier_sha256 = {shard.path.name: shard.sha256 for shard in output.corpus.shards}
        # for an OUT at a URL, earlier versions are deleted too
        overrides = {"replace": True, "keep_versions": False, **more}
        settings = Settings.from_json(
            {**command["settings"], "append": has_increments}, **overrides
        )
        inputs = (
            [] if has_increments else published_outputs.locate_inputs(workspace.folder, command)
        )
        try:
            plan = Plan.from_resolved(command["plan"], f"{workspace.folder}/published")
            summary = run_with_settings(
                inputs,
                command["out"],
                plan,
                workspace.folder,
                settings,
                keep_input=True,
                held_locks=held_locks,
            )
        except SanitizeError as error:
            failed.append(error)
            outputs.append(ErasedOutput(out=output.display_name, run_hash=run_hash, erased=False))
            continue
        current = Corpus.open(output.corpus.path)
        with custom_kinds(workspace.customs):
            left_in_output = _count_values_left(workspace, current, values)
        left += left_in_output
        encoded_leaks = _count_encoded_leaks(workspace.folder, command["out"], settings.workers)
        outputs.append(
            ErasedOutput(
                out=output.display_name,
                run_hash=summary.run_hash,
                erased=not left_in_output,
                occurrences_left=left_in_output.total() or None,
                shards=len(current.shards),
                shards_rewritten=sum(
                    earlier_sha256.get(shard.path.name) != shard.sha256 for shard in current.shards
                ),
                changed=summary.changed,
                occurrences_erased=summary.erased,
                leaks=summary.leaks,
                encoded_leaks=encoded_leaks,
                manifest_sha256=file_sha256(current.path / "manifest.json"),
            )
        )
    path, not_found = (
        _write_receipt(workspace, found, outputs, unreached, receipt),
        [one for one in unreached if one.reason != "copy"],
    )
    missing = (
        f"{len(not_found)} folders that were published from {workspace.folder} were not found and"
        " may still hold the person:"
        f" {'; '.join(f'{one.out} ({_REASONS[one.reason]})' for one in not_found)}. Move each back"
        " and repeat the request, or, if it no longer exists, repeat the request with"
        f" {'--deleted FOLDER' if running_command_line.get() else 'deleted=[FOLDER]'}"
    )
    if left and not failed:
        failed_count = sum(output.occurrences_left is not None for output in outputs)
        raise LeakFound(
            f"{failed_count} of {len(outputs)} published folders still hold {left.total():,}"
            " occurrences of the person, of kinds that the finders of their plans do not find:"
            f" {', '.join(sorted(left))} (the receipt {path} lists the folders). Publish each with"
            " a plan that finds them (`sanitize run ... --replace`), then repeat the"
            f" request.{f' Also: {missing}' if not_found else ''}"
        )
    reached = (
        f"{sum(output.erased for output in outputs)} of {len(outputs) + len(not_found)} were"
        f" rewritten; the receipt {path} lists all."
    )
    if failed:
        first_error = failed[0]
        remedy = (
            "Publish each again with `sanitize run ... --replace`; later runs leave the person out"
            if isinstance(first_error, LeakFound)
            else "Remove the cause and repeat the request"
        )
        first_error.args = (
            (
                f"{len(failed)} of {len(outputs)} published folders could not be rewritten without"
                f" the person, and are unchanged (the receipt {path} lists them). {remedy}. The"
                f" first error: {first_error}{f' Also: {missing}' if not_found else ''}"
            ),
        )
        raise first_error
    if not_found:
        raise OutputBroken(f"{missing}. {reached}")
    return Erasure(outputs=outputs, receipt=str(path))


_REASONS = {
    "missing": "not there, nor beside the private folder",
    "other content": "another folder is there now",
    "other workspace": "it belongs to the private folder beside it",
    "copy": "a copy beside the published folder, left as it was",
}


def _write_receipt(
    workspace: _Workspace,
    found: SubjectResult,
    outputs: Sequence[ErasedOutput],
    unreached: Sequence[UnreachedOutput],
    receipt: Path | None,
) -> Path:
    """Write the receipt of an erasure; returns its path. It names outputs by their path from WORK,
    and holds no value."""
    not_erased = [
        "the input files, and the private folder made from them, still hold the originals",
        "copies of earlier versions of the published folders, wherever they are",
        "names with a further name or initial in between, or misspelt",
        "text that identifies the person without any of the given or linked values and names",
    ]
    if encoded := sum(
        sum(output.encoded_leaks.values()) for output in outputs if output.encoded_leaks
    ):
        not_erased.append(
            f"{encoded} places in forms that only the full check reads hold removed values, of this"
            " person or others: `sanitize verify OUT` reports in which files"
        )
    if any(output.erased and output.encoded_leaks is None for output in outputs):
        not_erased.append(
            "forms that only a full check reads, in folders published with --verify off"
        )
    if left_count := sum(output.occurrences_left or 0 for output in outputs):
        not_erased.append(
            f"{left_count} occurrences of kinds that the finders of a folder's plan do not find:"
            " see `occurrences_left`"
        )
    if unreached:
        not_erased.append(
            f"{len(unreached)} published folders that were not found, or are copies: see"
            " `not_reached`"
        )
    if failed_count := sum(
        not output.erased and output.occurrences_left is None for output in outputs
    ):
        not_erased.append(
            f"{failed_count} published folders that could not be rewritten, such as those in which"
            " a kept column contains the person"
        )
    if any(checkpoint.documents_seen for checkpoint in found.checkpoints):
        not_erased.append("checkpoints that had seen the documents: unlearn or retrain them")
    folder = private_folder.make_private_folder(workspace.folder / private_folder.RECEIPTS_FOLDER)
    number = len(list(folder.glob("*.json")))
    path, found_json = receipt or folder / f"{number:05d}.json", found.to_dict()

    def name_output(out: str) -> str:
        return (
            out if is_url(out) else publish_history.path_from_workspace(workspace.folder, Path(out))
        )

    erased_json = Erasure(outputs=outputs, receipt=str(path)).to_dict()["outputs"]
    receipt_json = {
        "description": "a person's values and names were removed from published corpora",
        "date": _format_utc_now(),
        "subject": hash_json(workspace.key.id, number),
        **{
            name: found_json[name]
            for name in ("given", "linked", "unmatched_lines", "documents", "occurrences")
        },
        "outputs": [{**output, "out": name_output(output["out"])} for output in erased_json],
        "not_reached": [
            {**asdict(output), "out": name_output(output.out), "reason": _REASONS[output.reason]}
            for output in unreached
        ],
        "not_erased": not_erased,
    }
    with translate_disk_errors(path.parent):
        write_json(path, receipt_json)
    return path
