"""The plan of a command that names none: that of the output or the stream that it continues, else
`redact`, which keeps nothing that it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sanitize.errors import UsageError
from sanitize.plans.plan import DEFAULT_PLAN, Plan, load_plan
from sanitize.plans.shipped_plans import plan_names
from sanitize.storage import remote_output
from sanitize.storage.files import read_json
from sanitize.storage.private_folder import RUNS_FOLDER
from sanitize.storage.remote_storage import is_url
from sanitize.storage.runs.run_folders import read_plan

# what a command without a plan meant before states had theirs
_EARLIER_DEFAULT = "rmft"


def choose_run_plan(
    plan: Plan | Path | str | None,
    out: Path | str | None,
    work: Path | str | None,
    changes: Sequence[str] = (),
    finders: Sequence[str] = (),
) -> Plan:
    """The plan of a run that publishes OUT: `plan`, or without one that of the output which is
    there, with the `changes` and `finders` of `load_plan`.

    Raises PlanError as `load_plan`, and UsageError for an output whose plan is not known here.
    """
    if plan is not None:
        return Plan.load(plan, changes, finders)
    if out is None or (is_url(out) and work is None):
        return load_plan(DEFAULT_PLAN, changes, finders)
    folder = remote_output.workspace_path(work, out) if work or not is_url(out) else Path(str(work))
    published = remote_output.mirror_path(folder, str(out)) if is_url(out) else Path(out)
    manifest = read_json(published / "manifest.json")
    if manifest is None:
        return load_plan(DEFAULT_PLAN, changes, finders)
    saved = read_plan(folder / RUNS_FOLDER / str(manifest.get("plan_hash")))
    if saved is not None:
        return _continue_plan(saved, f"the plan of {out}", changes, finders)
    public = manifest.get("plan")
    name = public.get("name") if isinstance(public, dict) else None
    if name in plan_names() and load_plan(str(name)).public_settings() == public:
        return load_plan(str(name), changes, finders)
    raise UsageError(
        f"{out}: was written with a plan that is neither a shipped one nor known in {folder}; name"
        " it with --plan"
    )


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


def _continue_plan(
    saved: Mapping[str, Any], location: str, changes: Sequence[str], finders: Sequence[str]
) -> Plan:
    """A saved plan with the changes of this command; finders that it has already are not added."""
    present = [
        one if isinstance(one, dict) else {"use": one}
        for one in saved.get("find", {}).get("finders", ())
    ]
    added = []
    for entry in finders:
        use, equals, model = entry.partition("=")
        if not any(
            one.get("use") == use and (not equals or str(one.get("model")) == model)
            for one in present
        ):
            added.append(entry)
    return Plan.from_resolved(saved, location, changes, added)
