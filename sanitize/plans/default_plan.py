"""What a command goes on with that names no plan, or no options for columns: what the output or
the stream was made with that it continues. A new one has the plan `redact`, which keeps nothing
that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken, PlanError, UsageError, shell_quote
from sanitize.plans.plan import DEFAULT_PLAN, Plan, load_plan, without_description
from sanitize.plans.settings import (
    INPUT_SETTINGS,
    POLICIES,
    Settings,
    flag_of,
    list_given_roles,
)
from sanitize.plans.shipped_plans import EARLIER_NAMES, plan_names
from sanitize.storage import remote_output
from sanitize.storage.corpus import with_run_hash
from sanitize.storage.files import read_json
from sanitize.storage.private_folder import RUNS_FOLDER
from sanitize.storage.remote_storage import is_url
from sanitize.storage.runs.publish_history import hash_manifest, list_commands
from sanitize.storage.runs.run_folders import is_run_hash, read_plan

# what a command without a plan meant before states had theirs
_EARLIER_DEFAULT = "rmft"

_ROLE_SETTINGS = tuple(name for name in INPUT_SETTINGS if name not in POLICIES)
# further options that say what an output holds, in groups: a command that gives one of a group
# gives all of it
_OTHER_SETTINGS = (
    ("seed", "key"),
    ("known",),
    ("rows_per_shard",),
    ("max_doc_bytes",),
    ("max_doc_matches",),
    ("sample",),
    ("per_split",),
    ("format",),
)


def choose_run_plan(
    plan: Plan | Path | str | None,
    out: Path | str | None,
    work: Path | str | None,
    changes: Sequence[str] = (),
    finders: Sequence[str] = (),
) -> Plan:
    """The plan of a run that publishes OUT: `plan`, or without one that of the output which is
    there on this machine, with the `changes` and `finders` of `load_plan`.

    Raises PlanError as `load_plan`, UsageError for an output whose plan is not known here, and
    OutputBroken for a damaged plan.json.
    """
    if plan is not None:
        return Plan.load(plan, changes, finders)
    # what lies at a URL may have been published from another WORK since
    manifest = None if out is None or is_url(out) else read_json(Path(out) / "manifest.json")
    run_hash = with_run_hash(manifest or {}).get("run_hash")
    if out is None or manifest is None or not is_run_hash(run_hash):
        return load_plan(DEFAULT_PLAN, changes, finders)
    folder = remote_output.workspace_path(work, out)
    saved = read_plan(folder / RUNS_FOLDER / str(run_hash))
    if saved is not None:
        return _continue_plan(saved, f"the plan of {out}", changes, finders)
    public = manifest.get("plan")
    name = _find_shipped_plan(public) if isinstance(public, dict) else None
    if name is not None:
        return load_plan(name, changes, finders)
    raise UsageError(
        f"{out}: was written with a plan that is neither a shipped one nor known in {folder}; name"
        " it with --plan"
    )


def choose_run_settings(
    settings: Settings,
    plan: Plan | Path | str | None,
    out: Path | str | None,
    work: Path | str | None,
) -> tuple[Settings, list[str]]:
    """The settings of a run that publishes OUT, and a note on the options that are taken over.

    A run over an output on this machine goes on with its options for columns, which its manifest
    has; without a `plan`, and with every append, also with the other options, which WORK has."""
    if out is None or is_url(out):
        return settings, []
    manifest = read_json(Path(out) / "manifest.json") or {}
    earlier = _read_column_options(manifest.get("settings"))
    if earlier is None:
        return settings, []
    if plan is None or settings.append:
        manifest_hash = hash_manifest(Path(out))
        for command in list_commands(remote_output.workspace_path(work, out)):
            if manifest_hash in command.get("manifest_sha256", ()):
                earlier = Settings.from_json(command["settings"])
        # a sample is often a trial before the whole
        earlier = earlier if settings.append else replace(earlier, sample=1.0)
    return continue_settings(settings, earlier)


def _read_column_options(recorded: object) -> Settings | None:
    """The options for columns in the settings of a manifest; None where it has none."""
    match recorded:
        case {"roles": {"text": [*_], "user": _, "id": _} as roles, "policies": dict(policies)}:
            return Settings.of_columns(list_given_roles(roles), policies)
    return None


def continue_settings(settings: Settings, earlier: Settings) -> tuple[Settings, list[str]]:
    """The settings, with those of an `earlier` command where they have none, and a note on these if
    there are any. A column, or a part of one, has the policy of the later command."""
    default, taken = Settings(), dict[str, Any]()
    for group in (*((name,) for name in _ROLE_SETTINGS), *_OTHER_SETTINGS):
        if all(getattr(settings, name) == getattr(default, name) for name in group):
            values = {name: getattr(earlier, name) for name in group}
            taken |= {name: one for name, one in values.items() if one != getattr(default, name)}
    # a column that is named now decides about its parts, too
    given = tuple(mark for name in settings.policies for mark in (f"{name}.", f"{name}["))
    kept = {
        name: policy
        for name, policy in earlier.policies.items()
        if name not in settings.policies and not name.startswith(given)
    }
    options = [
        flag_of(name) if one is True else f"{flag_of(name)} {_write_value(one)}"
        for name, value in taken.items()
        for one in (value if isinstance(value, tuple) else [value])
    ] + [f"--{policy} {_write_value(name)}" for name, policy in kept.items()]
    if not options:
        return settings, []
    for policy in {*kept.values()}:
        names = (name for name, given in kept.items() if given == policy)
        taken[policy] = (*getattr(settings, policy), *names)
    words = (
        f"used again from the last run: {', '.join(options)}; give other options for these columns"
        " to change them, or write to a new -o"
    )
    return replace(settings, **taken), [words]


def _write_value(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else shell_quote(str(value))


def choose_stream_plan(
    plan: Plan | Path | str | None,
    saved: Mapping[str, Any] | None,
    changes: Sequence[str] = (),
    finders: Sequence[str] = (),
) -> Plan:
    """The plan of a stream: `plan`, or without one that of its state (`saved`; None for a stream
    that begins), with the `changes` and `finders` of `load_plan`."""
    if plan is not None:
        return Plan.load(plan, changes, finders)
    if saved is None:
        return load_plan(DEFAULT_PLAN, changes, finders)
    if not saved:
        return load_plan(_EARLIER_DEFAULT, changes, finders)
    return _continue_plan(saved, "the plan of the state", changes, finders)


def _find_shipped_plan(saved: Mapping[str, Any]) -> str | None:
    """The name of the shipped plan that has these settings, resolved or public, and had this name
    in this release or the one before; None for any other plan."""
    saved_name = str(saved.get("name"))
    name = EARLIER_NAMES.get(saved_name, saved_name)
    if name not in plan_names():
        return None
    plan, settings = load_plan(name), without_description(saved)
    is_same = settings in (
        without_description(plan.resolved_settings()),
        without_description(plan.public_settings()),
    )
    return name if is_same else None


def _continue_plan(
    saved: Mapping[str, Any], location: str, changes: Sequence[str], finders: Sequence[str]
) -> Plan:
    """A saved plan with the changes of this command. Raises UsageError for a finder that it does
    not have, unless it is a shipped plan as it is: its lists of kinds are resolved, so that nothing
    says what would become of the kinds of another finder."""
    name = _find_shipped_plan(saved)
    if name is not None:
        return load_plan(name, changes, finders)
    try:
        plan = Plan.from_resolved(saved, location)
    except (PlanError, AttributeError, KeyError, TypeError, ValueError):
        raise OutputBroken(
            f"{location} is damaged, or one of another version; name the plan with --plan"
        ) from None
    present = {finder.use for finder in plan.finders}
    if added := [entry for entry in finders if entry.partition("=")[0] not in present]:
        raise UsageError(
            f"--finder {added[0]}: {location} has settings of its own, which do not say what"
            " becomes of the kinds of another finder; name the plan, too (--plan)"
        )
    return Plan.from_resolved(saved, location, changes)


def describe_plan(plan: Plan) -> str:
    """The name of a plan; that of a shipped one with other settings is marked."""
    is_changed = plan.name in plan_names() and load_plan(plan.name).hash() != plan.hash()
    return f"{plan.name}, with changes" if is_changed else plan.name
