"""Runs one plan over one corpus: the stages in order, and the functions `run` and `index`.

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command resumes
where it was stopped. The results of a stage are reused as long as everything they depend on is the
same: another plan on the same WORK only repeats what follows the index.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from sanitize.core import failpoints
from sanitize.core.command_results import CanaryCounts, RunSummary
from sanitize.core.text_cells import is_list_type
from sanitize.errors import LeakFound, UsageError
from sanitize.finders.known import check_listed_kinds
from sanitize.kinds.kind import custom_kinds
from sanitize.pipeline import append, canaries
from sanitize.pipeline.column_values import collect_column_values
from sanitize.pipeline.indexing import index_reuse
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.input_objects import refuse_lineage
from sanitize.pipeline.manifest import (
    build_manifest,
    build_summary,
    describe_dataset,
    find_date,
    get_library_versions,
    summarize_kinds,
)
from sanitize.pipeline.occurrence_selection import count_remaining_kinds, select_occurrences
from sanitize.pipeline.run_results import AppendedFiles, IndexResult, RunCosts, RunResult
from sanitize.pipeline.run_state import PlannedRun, RunState, plan_run
from sanitize.pipeline.shard_checking import CheckedShards, check_shards
from sanitize.pipeline.shard_rewriting import rewrite_shards, summarize_editors
from sanitize.pipeline.whole_corpus_stages import (
    RewriteInputs,
    build_word_blacklist,
    count_dropped,
    drop_documents,
    find_erased_mentions,
)
from sanitize.plans.coverage import list_looked_for
from sanitize.plans.default_plan import choose_run_plan, choose_run_settings
from sanitize.plans.plan import DEFAULT_PLAN, Plan
from sanitize.plans.python_api import (
    IndexOptions,
    RunOptions,
    check_argument,
    name_data_object,
    public_function,
)
from sanitize.plans.settings import Settings, flag_of, settings_of
from sanitize.reporting.edit_samples import select_edit_samples
from sanitize.reporting.report_data import SAMPLE_COUNT, collect_report_tables, render_pages
from sanitize.stages import privacy_ledger
from sanitize.stages.word_blacklist import NO_USER_MESSAGE
from sanitize.storage import formats, private_folder, publication, remote_output
from sanitize.storage.corpus import Corpus
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.formats import shard_path
from sanitize.storage.publication import publish_corpus, shard_names
from sanitize.storage.records.dataset_features import infer_features, published_features
from sanitize.storage.remote_storage import is_url, require_local_path
from sanitize.storage.runs.run_folders import write_plan
from sanitize.verification.shard_reading import find_renamed_columns

Data = TypeVar("Data")  # a Dataset, a DatasetDict, a Polars frame or an Arrow table


def run_plan(builder: IndexBuilder, planned: PlannedRun) -> RunResult:
    """Run all stages over the corpus of `builder` and publish OUT, unless OUT is up to date; the
    summary. Each result is a table in the run's folder, or a small object."""
    started_at = time.monotonic()
    planned = _prepare(builder, planned)
    if planned.is_output_current():
        published = RunSummary.from_dict(Corpus.open(planned.output).manifest["summary"])
        return _build_result(published, planned.summarize_costs(started_at, 0), changed=False)
    state = planned.start(builder.build(planned.plan))
    _write_plan(state)
    erased_mentions = find_erased_mentions(state)
    column_values = collect_column_values(state)
    selected = select_occurrences(state, erased_mentions.value_ids)
    drop_files = drop_documents(state, erased_mentions, selected.occurrence_files)
    blacklist = build_word_blacklist(state, erased_mentions, selected.occurrence_files, drop_files)
    inputs = RewriteInputs(
        erased_mentions=erased_mentions,
        selected=selected,
        drop_files=drop_files,
        blacklist=blacklist,
        column_values=column_values,
    )
    checked_shards = check_shards(state, inputs, rewrite_shards(state, inputs))
    canary_counts = check_canaries(state)
    ledger = account_privacy(state)
    summary = summarize(state, inputs, checked_shards, canary_counts, ledger)
    publish_output(state, checked_shards, summary)
    costs = state.summarize_costs(started_at, state.index.counts.text_bytes)
    appended = state.summarize_append(checked_shards.shards.results)
    return _build_result(summary, costs, changed=True, appended=appended)


def _build_result(
    summary: RunSummary, costs: RunCosts, *, changed: bool, appended: AppendedFiles | None = None
) -> RunResult:
    return RunResult(**vars(summary), **vars(costs), changed=changed, appended=appended)


def _prepare(builder: IndexBuilder, planned: PlannedRun) -> PlannedRun:
    """Raise an error for settings that cannot work with this corpus, before anything is read;
    lock OUT and find the increments to append to."""
    plan = planned.plan
    for editor in plan.editors:
        editor.validate_settings(None)
    planned.check_format()
    find_date()  # or no date can be written at the end
    builder.lock_output(planned.output)
    planned.inputs.notes.extend(plan.ineffective_settings)
    if unsearched := sorted({*planned.erased.kinds} - {*list_looked_for(plan.coverage())}):
        planned.inputs.notes.append(
            "erased persons have values of kinds that this plan does not look for, which stay:"
            f" {', '.join(unsearched)}"
        )
    if planned.inputs.settings.append:
        planned = planned.prepare_append()
    if planned.inputs.settings.per_split:
        for number, editor in enumerate(plan.editors):
            if editor.pass_schemas:
                raise UsageError(
                    f"--per-split: edit[{number}].use = {editor.use!r} of plan {plan.name}"
                    " reads all documents before it edits one; run each split on its own, or"
                    " leave --per-split out"
                )
    if plan.blacklist is not None and plan.blacklist.k > 1:
        # files that are used in place show now whether they name users; for the others this is
        # known after reading
        units = planned.inputs.survey.units
        if all(
            unit.in_place and "user_id" not in dict(unit.column_mapping).values() for unit in units
        ):
            raise UsageError(NO_USER_MESSAGE)
    return planned


def _write_plan(state: RunState) -> None:
    """Write the plan of the run to its folder, once its editors accept the columns."""
    for editor in state.plan.editors:
        editor.validate_settings(state.index.documents.schema)
    with translate_disk_errors(state.index.workspace):
        state.folder.mkdir(parents=True, exist_ok=True)
        write_plan(state.folder, state.plan.resolved_settings())
    failpoints.hit("run:plan_written")


def check_canaries(state: RunState) -> CanaryCounts:
    """Plant invented persons in invented documents with the shapes of some of the user's, run the
    plan over them, and count by kind what comes out."""
    with state.tasks.measure("canaries"):
        folder = (
            private_folder.make_private_folder(state.index.workspace / private_folder.SPILL_FOLDER)
            / "canaries"
        )
        documents, mode = state.select_readable_documents(), state.index.settings.verify
        return canaries.check_canaries(state.tasks.engine, state.plan, documents, folder, mode)


def account_privacy(state: RunState) -> Sequence[Mapping[str, Any]]:
    """What mechanisms with a privacy claim spent, one entry each; adds a note for those with the
    user's own model."""
    if not state.has_privacy_ledger:
        return []
    documents = state.index.documents
    with state.tasks.measure("ledger"):
        accounts = privacy_ledger.build_accounts(
            state.plan.editors,
            state.task_files("ledger"),
            state.task_files("draws"),
            is_only_editor=len(state.plan.editors) == 1,
            public_key=state.index.key.is_public,
            prior=privacy_ledger.find_prior_runs(state.folder.parent, state.run_hash),
            versions=get_library_versions(),
            users=(
                documents.read(0, documents.count, ["user_id"])
                if "user_id" in documents.schema.names
                else None
            ),
        )
    state.index.notes.extend(
        privacy_ledger.OWN_MODEL_WARNING for account in accounts if account["own_model"]
    )
    return accounts


def summarize(
    state: RunState,
    inputs: RewriteInputs,
    checked_shards: CheckedShards,
    canary_counts: CanaryCounts,
    ledger: Sequence[Mapping[str, Any]],
) -> RunSummary:
    """The summary of the run, as far as it follows from input, plan and key; the manifest contains
    it."""
    shards, blacklist = checked_shards.shards, inputs.blacklist
    # the aggregates of an increment cover the earlier ones too: of each split, the latest
    latest_increments = {split: increment for increment, split in shards.aggregates}
    remaining_files = [
        state.counts_folder(increment, split) / "remaining_occurrences.parquet"
        for split, increment in latest_increments.items()
    ]
    has_dropped = bool(inputs.drop_files or inputs.erased_mentions.document_count)
    remaining = count_remaining_kinds(
        state, inputs.selected, remaining_files if has_dropped else ()
    )
    return build_summary(
        state.plan,
        state.run_hash,
        documents=state.index.documents.count,
        quarantine=state.index.quarantine,
        kinds=summarize_kinds(
            state.plan,
            state.index.value_counts_file,
            inputs.selected.skipped_files,
            state.index.counts.documents_by_kind,
            remaining,
        ),
        shards=shards.results,
        dropped=count_dropped(state, inputs.erased_mentions, inputs.drop_files),
        blacklist=blacklist.counts if blacklist else None,
        editor_reports=summarize_editors(state, shards.aggregates),
        verify=checked_shards.report,
        canaries=replace(
            canary_counts, samples=checked_shards.select_publishable_samples(canary_counts.samples)
        ),
        columns=state.index.describe_columns(state.plan),
        public_key=state.index.key.is_public,
        ledger=ledger,
        kept_values=state.index.kept_values,
        measured=state.measured,
        shape=state.index.survey.roles.shape.describe() if state.index.survey.roles.shape else "",
        splits=state.index.task_splits,
    )


def publish_output(state: RunState, checked_shards: CheckedShards, summary: RunSummary) -> None:
    """Write manifest, card and report, and swap OUT in with one rename."""
    source, shards = state.index, checked_shards.shards
    increments = append.describe_increments(state.output_increments, source.increments)
    shard_counts = [increment["shard_count"] for increment in increments]
    paths = [shard_path(state.folder, state.format, no) for no in state.task_nos]
    with state.tasks.costs.measure("publish"):
        sidecar_files: dict[str, str] = {}
        if state.format != formats.PARQUET:
            names_and_paths = list(
                zip(shard_names(shard_counts, state.suffix, source.task_splits), paths, strict=True)
            )
            sidecar_files = formats.get_format(state.format).sidecar_files(names_and_paths)
        manifest = build_manifest(
            summary,
            state.plan,
            [(size, sha256) for size, sha256 in source.input_files],
            shards.results,
            seed=source.settings.seed,
            settings=state.describe_settings(),
            description=_describe_dataset(state, checked_shards),
            increments=increments,
            sidecar_files=sidecar_files,
            splits=source.task_splits,
            features=_describe_features(state),
        )
        state.check_manifest(manifest)
        # samples come from the last increment: the input files of earlier ones may be missing now
        edits = state.task_files("edits")[state.output_increments[-1].first_task :]
        can_read = bool(edits and state.select_readable_documents().files)
        samples = (
            select_edit_samples(source.documents, source.leaves, edits[0], SAMPLE_COUNT)
            if can_read
            else []
        )
        with translate_disk_errors(source.workspace):
            report_tables = collect_report_tables(
                state.tasks.engine,
                source.workspace,
                state.folder,
                samples,
                private_folder.make_private_folder(source.workspace / private_folder.SPILL_FOLDER)
                / "report",
                swept=source.settings.verify != "off",
            )
            pages = render_pages(manifest, report_tables)
            if checked_shards.find_page_leaks(pages):
                # a surrogate may hold what looks like a value of another kind
                pages = render_pages(manifest, replace(report_tables, hides_surrogates=True))
        mac_key = publication.write_mac_key(state.folder, source.key)
        with private_folder.set_umask(source.user_umask):
            # published files get the permissions of the user's other files
            publish_corpus(
                state.output,
                shards=[
                    (path, shard.sha256) for path, shard in zip(paths, shards.results, strict=True)
                ],
                shards_per_increment=shard_counts,
                splits=source.task_splits,
                text_files={**pages, **sidecar_files},
                manifest=manifest,
                before_swap=state.confirm_before_swap,
                find_leaks=checked_shards.find_page_leaks,
                mac_key=mac_key,
            )


def _describe_features(state: RunState) -> dict[str, Any]:
    """The features of the columns of OUT, where the input has features, or lists of JSON that only
    features tell from texts."""
    source, schema = state.index, state.index.survey.schema
    features = source.survey.features
    json_lists = [
        name for name in source.survey.layout.json_columns if is_list_type(schema.field(name).type)
    ]
    if not features and json_lists:
        features = infer_features(schema, json_lists)
        return published_features(features, list(source.published_policies.items()), {})
    renamed_columns = find_renamed_columns(asdict(source.settings.columns.roles))
    return published_features(features, list(source.published_policies.items()), renamed_columns)


def _describe_dataset(state: RunState, checked_shards: CheckedShards) -> dict[str, str]:
    """What the user said about the dataset, with the date. Raises LeakFound if it has a value that
    the plan removes."""
    texts = {flag_of(name): text for name, text in state.description_settings.items() if text}
    for flag, kind in checked_shards.find_page_leaks(texts) if texts else ():
        raise LeakFound(
            f"{flag}: contains a {kind} value that the plan removes from the texts, and would be"
            " published in the card; nothing was published. Give a text without it, such as the"
            " name of an office"
        )
    return describe_dataset(
        state.description_settings, state.earlier_manifest.get("description", {})
    )


@overload
def run(
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    /,
    *,
    plan: Plan | Path | str | None = None,
    work: Path | str | None = None,
    **options: Unpack[RunOptions],
) -> RunResult: ...
@overload
def run(
    inputs: Data,
    out: Path | str | None = None,
    /,
    *,
    plan: Plan | Path | str | None = None,
    work: Path | str | None = None,
    **options: Unpack[RunOptions],
) -> Data: ...
@public_function("run")
def run(
    inputs: Any,
    out: Path | str | None = None,
    /,
    *,
    plan: Plan | Path | str | None = None,
    work: Path | str | None = None,
    **options: Unpack[RunOptions],
) -> Any:
    """Sanitize a corpus: index, rewrite, verify, and publish OUT with one rename.

    inputs   Files, folders and URLs: Parquet, Arrow, JSON, CSV, text, mbox, maildir, mails. Or data
             in memory: a Dataset or DatasetDict of `datasets`, a frame of Polars (also lazy) or
             pandas, an Arrow table, a list of records (dictionaries); the same type is returned in
             place of the summary.
    out      The folder to publish, or a URL. For data in memory it may be left out: then nothing is
             published.
    plan     The name of a shipped plan, the path of a TOML file, or a `Plan`; by default that of
             the OUT which is there, else `redact`.
    work     The private folder with the index and the vault; by default OUT.private, required if
             OUT is a URL.
    options  The settings of `sanitize run --help`, such as `text_column="messages[].content"`,
    `workers=2`, `seed=7`; `progress` is called
             with each `ProgressUpdate`.

    Raises a `SanitizeError` whose `exit_code` is that of the command; OUT is then unchanged.

    >>> import polars, sanitize
    >>> mail = "Write to ann.lee@example.com, or to ann.lee@example.com."
    >>> polars.DataFrame({"text": [mail]}).write_parquet("mails.parquet")
    >>> result = sanitize.run("mails.parquet", "clean", plan="redact", workers=1)
    >>> result.documents_out, result.by_kind["EMAIL_ADDRESS"].replaced, result.leaks
    (1, 2, 0)
    >>> polars.read_parquet("clean/data/*.parquet")["text"][0]
    'Write to [EMAIL_ADDRESS], or to [EMAIL_ADDRESS].'
    """
    chosen = choose_run_plan(plan, out, work)
    settings, notes = choose_run_settings(settings_of("run", options), plan, out, work)
    if name_data_object(inputs):
        from sanitize.pipeline.data_objects import run_on_object

        refuse_lineage("run", settings.lineage)
        if out is not None and is_url(out):
            raise UsageError(
                "run: out is a URL, and inputs is data in memory, which is read back from OUT; give"
                " a folder on this machine"
            )

        def run_on_files(folder: Path, target: Path | str) -> RunResult:
            return run_with_settings(folder, target, chosen, work, settings, notes=notes)

        return run_on_object(inputs, out, run_on_files, settings.columns.policies)
    check_argument("run", "inputs", inputs, Sequence[Path | str] | Path | str)
    if out is None:
        raise UsageError("run: out is missing; write sanitize.run(inputs, out, ...)")
    return run_with_settings(inputs, out, chosen, work, settings, notes=notes)


def run_with_settings(
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    plan: Plan | str = DEFAULT_PLAN,
    work: Path | str | None = None,
    settings: Settings | None = None,
    *,
    keep_input: bool = False,
    held_locks: Collection[str] = (),
    notes: Sequence[str] = (),
) -> RunResult:
    """`run` with its settings as one object; `notes` are part of the result. With `keep_input` an
    input that has changed since it was indexed is refused, even with `--replace`. `held_locks`: the
    real paths of the folders, WORK or OUT, whose locks the caller holds."""
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    plan, settings = Plan.load(plan), settings or Settings()
    remote = remote_output.RemoteOutput(str(out)) if is_url(out) else None
    work = (
        remote_output.require_workspace(work, str(out))
        if remote
        else remote_output.workspace_path(work, out)
    )
    out = remote_output.mirror_path(work, str(out)) if remote else require_local_path(out)
    # a link is followed, not replaced
    out = Path(os.path.realpath(out)) if out.is_symlink() else out
    if remote is not None:
        remote_output.check_urls_disjoint(inputs, remote.redacted_url)
    private_folder.check_paths_disjoint(inputs, None if remote else out, work)
    if settings.known:
        with custom_kinds(plan.custom_kinds):
            check_listed_kinds(settings.known, plan.find.kinds, plan.name)
    plan = plan.with_known_values(settings.known)
    with (
        _explain_options(notes),
        IndexBuilder(
            inputs,
            work,
            settings,
            plan.detection_spec,
            keep_input=keep_input,
            held_locks=held_locks,
            # the folder in WORK stays private; the uploaded copy is the published one
            keeps_output_private=remote is not None,
        ) as builder,
    ):
        builder.inputs.notes.extend(notes)
        if remote is not None:
            return _run_to_url(builder, plan, out, remote)
        result = run_plan(builder, plan_run(builder, plan, out))
        builder.delete_fetched_inputs()
        return result


@contextlib.contextmanager
def _explain_options(notes: Sequence[str]) -> Iterator[None]:
    """Within it, the notes are part of a UsageError: it may be about an option that an earlier
    command gave."""
    try:
        yield
    except UsageError as error:
        if not notes or type(error) is not UsageError:
            raise
        raise UsageError(f"{error} (note: {'; '.join(notes)})") from error


def _run_to_url(
    builder: IndexBuilder, plan: Plan, output: Path, prefix: remote_output.RemoteOutput
) -> RunResult:
    """A run that publishes OUT to a folder in WORK (`output`) and then uploads it."""
    planned = plan_run(builder, plan, output, display_name=prefix.redacted_url)
    with prefix.hold_lock(builder.inputs.workspace):
        # the run hash of an output that is appended to is that of its first increment
        run_hash = planned.run_hash
        if builder.inputs.settings.append and output.is_dir():
            run_hash = Corpus.open(output).manifest.get("run_hash", "")
        prefix.check_replaceable(run_hash, builder.inputs.settings.replace)
        result = run_plan(builder, planned)
        with builder.tasks.costs.measure("upload"):
            changed = prefix.publish(
                output,
                keep_versions=builder.inputs.settings.keep_versions,
                before_switch=lambda: index_reuse.check_inputs_unchanged(builder.inputs),
            )
    builder.delete_fetched_inputs()
    return replace(result, changed=changed)


@public_function("index")
def index(
    inputs: Sequence[Path | str] | Path | str,
    work: Path | str,
    /,
    *,
    plan: Plan | Path | str = DEFAULT_PLAN,
    **options: Unpack[IndexOptions],
) -> IndexResult:
    """Build only the index of a corpus in the folder `work`; a later `run` with any plan that has
    the same finders reuses it.

    `inputs`, `plan` and `options` are those of `run`, as far as they concern the index. Nothing is
    published. Raises what `run` raises.

    >>> import polars, sanitize
    >>> polars.DataFrame({"text": ["Write to ann.lee@example.com"]}).write_parquet("mails.parquet")
    >>> sanitize.index("mails.parquet", "index.private", workers=1).by_kind
    {'EMAIL_ADDRESS': 1}
    """
    return index_with_settings(inputs, work, settings_of("index", options), Plan.load(plan))


def index_with_settings(
    inputs: Sequence[Path | str] | Path | str,
    work: Path | str,
    settings: Settings | None = None,
    plan: Plan | str = DEFAULT_PLAN,
) -> IndexResult:
    """`index` with its settings as one object."""
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    work = remote_output.workspace_path(work)
    private_folder.check_paths_disjoint(inputs, None, work)
    settings = settings or Settings()
    plan = Plan.load(plan).with_known_values(settings.known)
    with IndexBuilder(inputs, work, settings, plan.detection_spec) as builder:
        return builder.build().counts
