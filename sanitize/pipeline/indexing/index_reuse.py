"""Decides what becomes of an existing index: it is used as it is, extended by an append, or
discarded and built again."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from sanitize.core.text_cells import JSON_STEP, Policies
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline.indexing import column_roles, index_increments
from sanitize.pipeline.indexing.index_state import (
    EarlierIndex,
    IndexInputs,
    resolve_policies,
)
from sanitize.plans.detection_spec import describe_difference
from sanitize.plans.settings import Settings
from sanitize.readers.standard_form import with_shape
from sanitize.readers.survey import IndexedInput, StagingLayout, Survey
from sanitize.stages.privacy_ledger import keep_prior_runs
from sanitize.storage import private_folder
from sanitize.storage.files import input_sha256, stat_file
from sanitize.storage.private_folder import (
    INDEX_FILE,
    RUNS_FOLDER,
    TASKS_FOLDER,
    VAULT_FOLDER,
    IndexOrigin,
    SavedIndex,
)
from sanitize.storage.records.record_shapes import mark_json_columns
from sanitize.storage.runs import publish_history


def prepare_append(
    workspace: Path,
    settings: Settings,
    opt_in_kinds: Collection[str],
    create_inputs: Callable[[Survey, Policies, EarlierIndex], IndexInputs],
    survey_inputs: Callable[[IndexedInput | None], Survey],
) -> IndexInputs:
    """The inputs of an increment behind the closed ones: those of the given files that are new to
    the index.

    `survey_inputs` surveys the given files; with an `IndexedInput`, only those that it does not
    name. Raises UsageError if the index is incomplete, was built with other settings, or if earlier
    files changed or are missing."""
    index = SavedIndex.read(workspace)
    assert index is not None
    increments, closed_increments = index.increments, index.closed_increments
    if not index.complete and len(increments) == 1:
        raise UsageError(
            f"{workspace}: its index is not complete; run the command that builds it, without"
            " --append, to its end first"
        )
    open_increment = increments[-1] if len(closed_increments) < len(increments) else None
    documents, features = index.documents, index.features
    # a leaf such as `messages[]{}` is JSON; what counts decided is decided again below
    decided_names = column_roles.list_json_columns(index.decided_columns)
    json_columns = [
        leaf.column
        for leaf in index.leaves
        if leaf.steps in ((JSON_STEP,), ("[]", JSON_STEP)) and leaf.column not in decided_names
    ]
    schema = mark_json_columns(documents.schema, json_columns)
    roles = with_shape(settings.columns.roles, schema)
    main_text = str(index.leaves[0])
    if roles.is_chosen:  # by the columns of the first file
        roles = replace(roles, text=(main_text,))
    empty_survey = Survey(
        units=[],
        files=[],
        unreadable=[],
        ignored=[],
        layout=StagingLayout(
            schema=documents.schema, roles=roles, json_columns=tuple(json_columns)
        ),
        features=features,
    )
    closed_unit_count = sum(increment.unit_count for increment in closed_increments)
    closed_task_count = sum(increment.task_count for increment in closed_increments)
    earlier = EarlierIndex(
        increments=closed_increments,
        documents=replace(documents, files=documents.files[:closed_unit_count]),
        task_ranges=index.task_ranges[:closed_task_count],
        decided_columns=index.decided_columns,
    )
    inputs = create_inputs(
        empty_survey, resolve_policies(empty_survey, settings, opt_in_kinds), earlier
    )
    _check_same_index(inputs, index)
    if inputs.given_inputs:
        files = survey_inputs(None).files if inputs.input_set.paths_to_read else []
        given = [(path, size, inputs.hash_file(path)) for path, size in files]
        located = [
            (inputs.input_set.location_of(path), size, sha256) for path, size, sha256 in given
        ]
        unchanged = [
            (location, size, sha256)
            for location, (size, sha256) in inputs.input_set.unchanged.items()
        ]
        new, moved = index_increments.select_new_files(
            [*located, *unchanged],
            inputs.input_set.folder_locations,
            inputs.closed_increments,
            inputs.key,
        )
        _refuse_grown_files(inputs, [*given, *unchanged], new)
        if new:
            known_paths = frozenset(
                path for no, (path, _, _) in enumerate(given) if no not in set(new)
            )
            found = survey_inputs(
                IndexedInput(
                    schema=schema,
                    known_paths=known_paths,
                    features=features,
                    main_text=main_text,
                )
            )
            index_increments.check_same_columns(documents.schema, found.schema)
            inputs = inputs.with_survey(
                replace(
                    found,
                    units=[replace(unit, no=unit.no + closed_unit_count) for unit in found.units],
                )
            )
        if moved:
            inputs.notes.append(
                f"{moved:,} of the given files are byte-identical to files that were read before;"
                " they were not added again"
            )
    restart = index_increments.needs_restart(
        [(size, sha256) for size, sha256 in inputs.new_files],
        open_increment,
        replace=settings.replace,
    )
    return replace(inputs, earlier=replace(earlier, restart_open_increment=restart))


def keep_or_discard_index(inputs: IndexInputs) -> IndexOrigin | None:
    """The origin of the index of WORK if it can be used; otherwise the index is deleted, with a
    note, and the result is None.

    An index of another key or setting is deleted, unless an output needs it to map its labels back.
    An index of another input is deleted only with `--replace`: it may have taken hours, and the
    input may be a mistake.
    """
    index = IndexOrigin.read(inputs.workspace)
    if inputs.closed_increments:
        if inputs.earlier.restart_open_increment:
            discard_open_increment(inputs)
        return index
    # an index of an earlier version may have been discarded by half, and its files hold raw values
    if index is None:
        _delete_paths(inputs.workspace, private_folder.OBSOLETE_PATHS)
        return None
    if index.fingerprint == inputs.fingerprint and not index.is_outdated:
        return index
    is_same_input = index.inputs_hash == inputs.hash_inputs()
    are_same_documents = is_same_input and index.sample == inputs.settings.sample
    increment_count = len(index.increments)
    are_same_files = Counter(map(tuple, index.input_files)) == Counter(
        map(tuple, inputs.input_files)
    )
    input_difference = inputs.describe_input_difference(index.input_files)
    if not is_same_input and inputs.keep_input:
        raise UsageError(
            f"{inputs.workspace}: its input changed since it was indexed"
            f" ({input_difference}); nothing"
            " was changed. Restore the input and repeat the request; or run over the new input"
            " with --replace, which honours the stored erasure"
        )
    if not is_same_input and are_same_files and increment_count > 1 and not inputs.settings.replace:
        raise UsageError(
            f"{inputs.workspace}: holds an index of these files that was built in {increment_count}"
            " increments (--append); nothing was changed. Use --append to continue with it; or"
            " --replace to rebuild the index and its outputs in one increment; or use another"
            " --work to keep both"
        )
    if not is_same_input and not inputs.settings.replace:
        raise UsageError(
            f"{inputs.workspace}: holds the index of another input "
            f"({input_difference}); "
            "nothing was changed. Restore the input to continue with that index; or use --replace"
            " to rebuild the index and its "
            "outputs; or use another --work to keep both"
            f"{'; or --append to add the new files to it' if _extends_index(inputs, index) else ''}"
        )
    difference = (
        _describe_index_difference(inputs, index)
        if is_same_input
        else f"another input ({input_difference})"
    ) or (
        f"version {index.schema_version} of the tables"
        if index.is_outdated
        else "other settings, or by another version"
    )
    if not (inputs.settings.replace or index.is_outdated) and (
        outputs := publish_history.find_reversible_outputs(inputs.workspace)
    ):
        raise UsageError(
            f"{inputs.workspace}: its index was built with {difference}; a rebuild would delete the"
            " mapping from the labels of"
            f" {outputs[0]}{f' and {len(outputs) - 1} more' if outputs[1:] else ''} back to their"
            " values; nothing was changed. Use another --work to keep both; or --replace to"
            " rebuild the index anyway"
        )
    inputs.notes.append(
        f"the index in {inputs.workspace} was built with {difference}; it is rebuilt, and the"
        " results based on it are deleted"
    )
    keep_prior_runs(inputs.workspace / RUNS_FOLDER)
    (inputs.workspace / INDEX_FILE).unlink()
    run_folders = [
        path
        for run in (inputs.workspace / RUNS_FOLDER).glob("*")
        for path in run.iterdir()
        if path.is_dir() and path.name != VAULT_FOLDER
    ]
    obsolete = (
        private_folder.TABLES_FOLDER,
        # the labels in the vault of a run map its output back: a new version of the tables does not
        # take them away
        *(run_folders if index.is_outdated else (RUNS_FOLDER,)),
        f"{TASKS_FOLDER}/detect",
        f"{TASKS_FOLDER}/second_round",
        private_folder.FIRST_ROUND_FOLDER,
        private_folder.VALUES_FOLDER,
        f"{VAULT_FOLDER}/first_round",
        *(private_folder.OBSOLETE_PATHS if index.is_outdated else ()),
        private_folder.QUARANTINE_FOLDER,
        *(() if are_same_documents else (private_folder.DOCUMENTS_FOLDER, TASKS_FOLDER)),
    )
    _delete_paths(inputs.workspace, obsolete)
    return None


def discard_open_increment(inputs: IndexInputs) -> None:
    """Delete the open increment (started and not published) from index.json and from WORK."""
    unit_count = sum(increment.unit_count for increment in inputs.closed_increments)
    task_count = sum(increment.task_count for increment in inputs.closed_increments)
    assert inputs.earlier.documents is not None
    inputs.write_index_json(
        inputs.earlier.documents,
        inputs.earlier.task_ranges,
        is_complete=True,
        increments=inputs.closed_increments,
    )
    index_increments.discard_increment_files(
        inputs.workspace, task_count, unit_count, len(inputs.closed_increments)
    )


def check_inputs_unchanged(inputs: IndexInputs) -> None:
    """Raise InputRefused if an input file changed while it was being read; deletes what was read of
    the inputs."""
    for no, (path, _) in enumerate(inputs.survey.files):
        file_state = stat_file(path)
        if file_state == inputs.file_hashes[path][0]:
            continue
        try:
            is_changed = input_sha256(path) != inputs.input_hashes[no]
        except FileNotFoundError:
            is_changed = True
        # only touched: not hashed again by the next check
        inputs.file_hashes[path] = (file_state, inputs.input_hashes[no])
        if is_changed:
            if inputs.closed_increments:
                discard_open_increment(inputs)
            else:
                (inputs.workspace / INDEX_FILE).unlink(missing_ok=True)
                _delete_paths(inputs.workspace, (TASKS_FOLDER, RUNS_FOLDER))
            raise InputRefused(
                f"file {no + 1} of the input changed while it was being read; nothing was"
                " published. Run the same command again when no program writes to it"
            )
    inputs.input_set.check_unchanged()


def _check_same_index(inputs: IndexInputs, index: SavedIndex) -> None:
    """Raise UsageError if the index was built with another key, other settings, columns or finders,
    or by another version."""
    if index.fingerprint == inputs.compute_fingerprints(index.increments)[-1]:
        return
    difference = _describe_index_difference(inputs, index) or (
        "other columns or settings (--text-column, --rows-per-shard, --max-doc-bytes and the like),"
        " or by another version"
    )
    raise UsageError(
        f"{inputs.workspace}: its index was built with {difference}; an append needs the same. Use"
        " the options of the first run; or run over all files with --replace, without --append, to"
        " rebuild everything"
    )


def _describe_index_difference(inputs: IndexInputs, index: SavedIndex | IndexOrigin) -> str:
    """What differs from the present command: the key, the sample or what was searched for; empty
    for anything else."""
    if index.key_id != inputs.key.id:
        return "another key"
    if index.sample != inputs.settings.sample:
        return "another --sample"
    if index.detection_settings not in (None, inputs.detection_settings):
        return describe_difference(index.detection_settings, inputs.detection_settings)
    return ""


def _delete_paths(workspace: Path, names: Iterable[str | Path]) -> None:
    """Delete these folders of WORK, as far as they exist."""
    for name in names:
        shutil.rmtree(workspace / name, ignore_errors=True)


def _refuse_grown_files(
    inputs: IndexInputs, given_files: Sequence[tuple[str, int, str]], new_positions: Sequence[int]
) -> None:
    """Raise UsageError if a new file begins with all bytes of an earlier file that is not given
    itself."""
    given_sha256 = {sha256 for _, _, sha256 in given_files}
    earlier: dict[int, set[str]] = {}
    for size, sha256 in (
        file for increment in inputs.closed_increments for file in increment.files
    ):
        if sha256 not in given_sha256:
            earlier.setdefault(size, set()).add(sha256)
    for no in new_positions if earlier else ():
        path, size, _ = given_files[no]
        if index_increments.starts_with_earlier_file(path, size, earlier):
            raise UsageError(
                f"file {no + 1} of the input: begins with all bytes of a file that an earlier run"
                " read, whose documents would be in the output twice; --append only takes new"
                " files. Put the new data into a separate file; if the documents should occur"
                " again, give the earlier file as well; or run over all files with --replace,"
                " without --append"
            )


def _extends_index(inputs: IndexInputs, index: IndexOrigin) -> bool:
    """True if the index has several increments, or if the input has all files of the index and
    more."""
    earlier = Counter(sha256 for _, sha256 in index.input_files)
    return len(index.increments) > 1 or bool(earlier) and not earlier - Counter(inputs.input_hashes)
