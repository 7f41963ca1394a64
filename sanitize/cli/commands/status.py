"""`sanitize status`: shows the index and the runs of a private folder, and who holds its lock."""

from __future__ import annotations

from sanitize.cli.console import print_result
from sanitize.cli.options import AsJson, WorkspacePath
from sanitize.core.command_results import StatusResult


def command(work: WorkspacePath, as_json: AsJson = False) -> None:
    """Show what WORK holds: the index, the runs made from it, and the process that works in it."""
    from sanitize.inspection.sql_api import status

    print_result(status(work), as_json, _format_status)


def _format_status(state: StatusResult) -> str:
    if not state.indexed:
        return f"no index yet ({state.detect_tasks_done} detection tasks done)"
    increments = f" in {state.increments} increments" if (state.increments or 1) > 1 else ""
    lines = [f"index     {state.documents:,} documents{increments}, {state.tasks} tasks, key {state.key_id}"]
    lines += [f"run       {run.plan_hash}  plan {run.plan}, {run.tasks_done} of {state.tasks} tasks done" for run in state.runs]
    if state.lock_holder:
        lines.append(f"held by   process {state.lock_holder.get('pid')} on {state.lock_holder.get('host')}")
    return "\n".join(lines)
