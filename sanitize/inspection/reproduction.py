"""Reproduces an output from its manifest (`sanitize replay`): checks the inputs by hash, reruns the
plan, compares every shard.

With the manifest and the inputs anyone can generate the same shards; so a manifest can be shared in
place of a corpus that must not be passed on. A replay is a run (`plan_run`, `run_plan`) whose
manifest is compared before it is published. This works for runs with a seed only: a manifest never
holds a secret key. A replay costs as much as the run. It uses a new WORK, so that no result of an
earlier run is reused. A manifest is untrusted input: it is validated like a plan, and cannot name
code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from sanitize.core.command_results import CommandResult
from sanitize.core.progress import ProgressCallback, ignore_progress
from sanitize.core.table_rendering import SummaryTable
from sanitize.errors import InputRefused, OutputBroken, UsageError, describe_validation_error
from sanitize.kinds.custom_kind import LENGTH_ONLY_FIELDS
from sanitize.pipeline.indexing.index_build import IndexBuilder
from sanitize.pipeline.manifest import get_format_versions, get_library_versions
from sanitize.pipeline.run import run_plan
from sanitize.pipeline.run_state import plan_run
from sanitize.plans.plan import Plan
from sanitize.plans.python_api import public_function
from sanitize.plans.settings import DESCRIPTION_SETTINGS, Settings, list_given_roles
from sanitize.storage import private_folder, remote_output
from sanitize.storage.corpus import Corpus, with_run_hash
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import read_json, write_json
from sanitize.storage.private_folder import INDEX_FILE
from sanitize.storage.remote_storage import is_url, redact_url, require_local_path

# in WORK: marks it as the workspace of a replay, with the run_hash of its manifest
_MARKER_FILE = "replay.json"
_COMPARED_COUNTS = (
    "documents_in",
    "documents_out",
    "documents_dropped",
    "quarantined",
    "quarantine",
    "occurrences",
    "kept_originals",
    "replaced",
    "by_kind",
    "leaks",
)
_Sha256 = Field(pattern="^[0-9a-f]{64}$")


@dataclass(frozen=True, kw_only=True)
class ManifestComparison:
    """How the shards and counts of a replay compare with those of the manifest; shards that differ
    by their numbers (from 0)."""

    same: bool
    shards: int
    different_shards: Sequence[int]
    different_counts: Sequence[str]
    same_manifest: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class ReplayResult(CommandResult, ManifestComparison):
    """The result of `replay`: whether the shards are the manifest's, and what was published."""

    notes: Sequence[str]
    published: bool
    changed: bool
    out: str
    work: str

    def summary_table(self) -> SummaryTable:
        facts = [
            ("shards", f"{self.shards:,}, {len(self.different_shards):,} different"),
            ("published", self.out if self.published else "nothing"),
            *(("note", note) for note in self.notes),
        ]
        return SummaryTable(
            title=f"sanitize replay: {'the same' if self.same else 'different'}", facts=facts
        )


class _ManifestInput(BaseModel):
    bytes: int
    sha256: str = _Sha256


class _ManifestShard(BaseModel):
    rows: int
    sha256: str = _Sha256


class _ManifestKey(BaseModel):
    kind: Literal["seed", "secret"]
    seed: int | None = None


class _ManifestColumn(BaseModel):
    name: str
    policy: str


class _ManifestRoles(BaseModel):
    text: tuple[str, ...] = Field(min_length=1)
    user: str | None
    id: str | None
    documents: str = "file"
    read_as: str | None = None
    lineage: bool = False
    is_chosen: bool = False


class _ManifestSettings(BaseModel):
    rows_per_shard: int = Field(ge=1, le=1 << 19)
    max_doc_bytes: int = Field(ge=1, le=1 << 29)
    max_doc_matches: int = Field(default=1_000_000, ge=1)
    verify: str
    sample: float = Field(default=1.0, gt=0, le=1)
    per_split: bool = False
    format: str = "parquet"
    roles: _ManifestRoles
    policies: dict[str, str] | None = None  # None: before they were recorded
    erased: dict[str, int] = Field(default_factory=dict)
    known: bool = False


class _Manifest(BaseModel):
    """The fields of a manifest that a replay needs, validated."""

    tool: dict[str, Any]
    plan: dict[str, Any]
    run_hash: str
    key: _ManifestKey
    inputs: tuple[_ManifestInput, ...]
    shards: tuple[_ManifestShard, ...]
    columns: tuple[_ManifestColumn, ...]
    settings: _ManifestSettings
    summary: dict[str, Any]
    description: dict[str, str] = Field(default_factory=dict)


class _OutputDiffers(Exception):
    """Stops the run before publication: a shard or a count differs."""


@public_function()
def replay(
    manifest: Path | str,
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    /,
    *,
    work: Path | str | None = None,
    workers: int | None = None,
    memory_limit: str = "1GB",
    anyway: bool = False,
    known: Path | str | None = None,
    progress: ProgressCallback = ignore_progress,
) -> ReplayResult:
    """Reproduce the output of a manifest (its path, or that of its folder), and compare; OUT is
    published if it is the same.

    `known` is the list of a run with `--known`, which no manifest holds.

    The result has `same`, `shards`, `different_shards` (their numbers, from 0), `different_counts`
    (fields of the summary), `notes`, `published`, `changed` (False if an earlier replay had done
    everything), and the paths. With `anyway` a different output is published.

    Raises UsageError for a manifest of a run with a secret key or of other formats, InputRefused
    for inputs that are not the manifest's, OutputBroken for a manifest that cannot be read or is
    inconsistent.

    >>> import sanitize
    >>> sanitize.replay("clean/manifest.json", "mails.parquet", "again", workers=1).same
    True
    """
    path = Path(manifest) / "manifest.json" if Path(manifest).is_dir() else Path(manifest)
    original, raw = _read_manifest(path)
    plan = _load_manifest_plan(path, original)
    if original.settings.known and known is None:
        raise UsageError(
            f"{path}: was made with a list of known values, which no manifest holds; give the same"
            " list again with --known FILE"
        )
    if known is not None and not original.settings.known:
        raise UsageError(f"{path}: was made without a list of known values; leave --known out")
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    if is_url(out):
        raise UsageError(
            f"{redact_url(str(out))}: a replay compares on this machine; give a local folder with"
            " -o, and copy it if it is the same"
        )
    out, work = require_local_path(out), remote_output.workspace_path(work, out)
    private_folder.check_paths_disjoint(inputs, out, work)
    if out.resolve() == path.resolve().parent:
        raise UsageError(
            f"{out}: is the folder of the manifest itself, and a replay would compare it with"
            " itself; use another -o"
        )
    if (work / INDEX_FILE).exists() and not (work / _MARKER_FILE).exists():
        raise UsageError(
            f"{work}: holds another run, and a replay needs a new workspace; use another --work, or"
            " another -o"
        )
    notes = _version_notes(original.tool)
    given_texts = original.description
    descriptions: dict[str, Any] = {
        name: given_texts[name] for name in DESCRIPTION_SETTINGS if given_texts.get(name)
    }
    settings = Settings.of_columns(
        list_given_roles(original.settings.roles.model_dump()),
        (
            {column.name: column.policy for column in original.columns}
            if original.settings.policies is None
            else original.settings.policies
        ),
        seed=original.key.seed,
        workers=workers,
        memory_limit=memory_limit,
        rows_per_shard=original.settings.rows_per_shard,
        max_doc_bytes=original.settings.max_doc_bytes,
        max_doc_matches=original.settings.max_doc_matches,
        max_quarantine=1.0,  # the original run already accepted the share of quarantined records
        verify=original.settings.verify,
        sample=original.settings.sample,
        per_split=original.settings.per_split,
        format=original.settings.format,
        known=Path(known) if known is not None else None,
        progress=progress,
        **descriptions,
    )
    comparisons: list[ManifestComparison] = []

    def accept(new_manifest: Mapping[str, Any]) -> None:
        comparisons.append(_compare_manifests(original, raw, new_manifest))
        if not (comparisons[-1].same or anyway):
            raise _OutputDiffers

    with IndexBuilder(inputs, work, settings, plan.detection_spec) as index:
        _require_same_inputs(
            path,
            original,
            [
                (size, sha256)
                for (_, size), sha256 in zip(
                    index.inputs.survey.files, index.inputs.input_hashes, strict=True
                )
            ],
        )
        state = plan_run(index, plan, out, check_manifest=accept)
        if state.run_hash != original.run_hash:
            if not notes and known is not None:
                raise UsageError(
                    f"--known {known}: not the list that {path} was made with, or its plan or"
                    " settings were changed; give that list"
                )
            if not notes:
                raise OutputBroken(
                    f"{path}: its run_hash does not follow from its plan, settings and inputs; it"
                    " was changed after it was written, or made by another build of the same"
                    " version"
                )
            notes.append(
                "the run has another hash here: in another version the same plan may give another"
                " result"
            )
        present = read_json(out / "manifest.json")
        if out.exists() and with_run_hash(present or {}).get("run_hash") != state.run_hash:
            raise UsageError(
                f"{out}: exists already, and is not the output of an earlier replay; use another"
                " -o, or move it away"
            )
        with translate_disk_errors(work):
            write_json(work / _MARKER_FILE, {"run_hash": original.run_hash})
        changed = published = False
        try:
            changed = published = run_plan(index, state).changed
        except _OutputDiffers:
            changed = True
    if not changed:
        comparisons.append(_compare_manifests(original, raw, Corpus.open(out).manifest))
        published = True
    found = comparisons[-1]
    return ReplayResult(
        **vars(found),
        notes=notes,
        published=published,
        changed=changed,
        out=str(out),
        work=str(work),
    )


def _read_manifest(path: Path) -> tuple[_Manifest, dict[str, Any]]:
    """Read a manifest, validated and raw. Raises OutputBroken or UsageError if it cannot be
    replayed."""
    raw = read_json(path)
    if raw is None:
        raise OutputBroken(
            f"{path}: no readable manifest; expected the manifest.json of a folder that `sanitize"
            " run` published"
        )
    key, tool = (
        found if isinstance(found := raw.get(name), Mapping) else {} for name in ("key", "tool")
    )
    if key.get("kind") == "secret":
        raise UsageError(
            f"{path}: was made with a secret key, which no manifest holds, so its random draws"
            " cannot be repeated. Only runs with --seed can be replayed. With this run's key, run"
            " it again with --key FILE and compare the sha256 of the shards"
        )
    if tool.get("formats") != get_format_versions():
        formats = (
            _format_versions(tool["formats"])
            if isinstance(tool.get("formats"), Mapping)
            else "that it does not name"
        )
        raise UsageError(
            f"{path}: was made with formats {formats}; here they are"
            f" {_format_versions(get_format_versions())}, so the same plan gives other bytes."
            " Replay it with the version that made it: corpus-sanitize"
            f" {tool.get('corpus-sanitize', '(unknown)')}"
        )
    try:
        manifest = _Manifest.model_validate(with_run_hash(raw))
    except ValidationError as error:
        raise OutputBroken(
            f"{describe_validation_error(error, _Manifest, f'{path}:')}; this manifest cannot be"
            " replayed. Expected the manifest.json of a folder that `sanitize run` published"
        ) from None
    if raw.get("increments"):
        raise UsageError(
            f"{path}: was made in {len(raw['increments'])} increments (sanitize run --append), and"
            " a replay runs in a single one; run the first increment's inputs and append the"
            " others, with the same seed and plan, and compare the sha256 of the shards"
        )
    if manifest.settings.erased.get("erasures"):
        raise UsageError(
            f"{path}: people were erased from it (sanitize subject --erase), and no manifest holds"
            " their values; replay a manifest from before the erasure, then erase them again there"
        )
    if manifest.key.seed is None:
        raise OutputBroken(f"{path}: key.seed is missing; this manifest cannot be replayed")
    return manifest, raw


def _format_versions(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items()))


def _load_manifest_plan(path: Path, manifest: _Manifest) -> Plan:
    """The plan of a manifest. User-defined parts are refused: a manifest has no code, and an
    untrusted file must not choose what runs."""
    where = f"{path}: plan"
    find = manifest.plan.get("find")
    parts_by_key = {key: manifest.plan.get(key) for key in ("drop", "edit")}
    if isinstance(find, Mapping) and (find.get("allow") or find.get("deny")):
        raise UsageError(
            f"{where}: find.allow and find.deny name values, which no manifest holds; "
            "run its plan with `sanitize run --plan` and compare the sha256 of the shards"
        )
    custom_kinds = manifest.plan.get("kind")
    if isinstance(custom_kinds, list) and any(
        isinstance(kind, Mapping) and kind.get("words") for kind in custom_kinds
    ):
        raise UsageError(
            f"{where}: a [[kind]] lists words, which no manifest holds; run its plan with `sanitize"
            " run --plan` and compare the sha256 of the shards"
        )
    parts_by_key["find.finders"] = find.get("finders") if isinstance(find, Mapping) else None
    for key, parts in parts_by_key.items():
        for number, settings in enumerate(parts if isinstance(parts, list) else ()):
            if "." in str(settings.get("use") if isinstance(settings, Mapping) else settings):
                raise UsageError(
                    f"{where}: {key}[{number}] uses a part from outside of sanitize, and no"
                    " manifest holds its code; run its plan with `sanitize run --plan` and compare"
                    " the sha256 of the shards"
                )
    if isinstance(custom_kinds, list):  # of some lists a manifest holds only the length
        custom_kinds = [
            (
                {name: value for name, value in kind.items() if name not in LENGTH_ONLY_FIELDS}
                if isinstance(kind, Mapping)
                else kind
            )
            for kind in custom_kinds
        ]
        return Plan.from_resolved({**manifest.plan, "kind": custom_kinds}, where)
    return Plan.from_resolved(manifest.plan, where)


def _version_notes(tool: Mapping[str, Any]) -> list[str]:
    """A note on the libraries whose versions here differ from those in the manifest (`tool`); empty
    if none do."""
    installed = get_library_versions()
    names = [name for name in installed | dict(tool) if name not in ("name", "formats")]
    differences = [
        f"{name} {tool.get(name, 'none')} there, {installed.get(name, 'none')} here"
        for name in names
        if tool.get(name) != installed.get(name)
    ]
    return (
        [f"versions differ, so bytes may differ: {'; '.join(differences)}"] if differences else []
    )


def _require_same_inputs(
    path: Path, manifest: _Manifest, given_inputs: Sequence[tuple[int, str]]
) -> None:
    """Raise InputRefused unless the given (size, SHA-256) are the manifest's, in its order. Names
    and folders of files do not matter."""
    wanted = [(file.bytes, file.sha256) for file in manifest.inputs]
    if wanted == list(given_inputs):
        return
    if sorted(wanted) == sorted(given_inputs):
        order = [list(given_inputs).index(file) for file in wanted]
        raise InputRefused(
            f"{path}: these are its inputs, in another order than in the manifest; "
            f"give them in the order {_format_numbers(order)}, counted from 0"
        )
    if len(wanted) != len(given_inputs):
        raise InputRefused(
            f"{path}: names {len(wanted)} input files, and {len(given_inputs)} were given; give the"
            " same files in the same order"
        )
    different = [
        no
        for no, (expected, given) in enumerate(zip(wanted, given_inputs, strict=True))
        if expected != given
    ]
    raise InputRefused(
        f"{path}: {len(different)} of its {len(wanted)} inputs are not the files given here (sha256"
        f" or size differ): number {_format_numbers(different)}, counted from 0; give the unchanged"
        " files of that run, in the same order"
    )


def _format_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (
        f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    )


def _compare_manifests(
    manifest: _Manifest, raw_manifest: Mapping[str, Any], new_manifest: Mapping[str, Any]
) -> ManifestComparison:
    """Which shards and counts of two manifests differ (`different_shards`, `different_counts`), and
    whether the manifests are equal."""
    old_hashes, new_hashes = (
        [shard.sha256 for shard in manifest.shards],
        [str(shard["sha256"]) for shard in new_manifest["shards"]],
    )
    shard_count = max(len(old_hashes), len(new_hashes))
    different = [
        no for no in range(shard_count) if old_hashes[no : no + 1] != new_hashes[no : no + 1]
    ]
    new_manifest = json.loads(json.dumps(new_manifest, default=str))
    counts = [
        name
        for name in _COMPARED_COUNTS
        if manifest.summary.get(name) != new_manifest["summary"].get(name)
    ]
    return ManifestComparison(
        same=not different and not counts,
        shards=len(new_hashes),
        different_shards=different,
        different_counts=counts,
        same_manifest=_are_same_but_date(new_manifest, raw_manifest),
    )


def _are_same_but_date(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two manifests are equal save for the dates of their runs."""
    undated_one, undated_other = (
        {**manifest, "description": {**manifest.get("description", {}), "date": ""}}
        for manifest in (one, other)
    )
    return undated_one == undated_other
