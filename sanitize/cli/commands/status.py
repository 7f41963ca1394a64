"""`sanitize status`: what lies in a private folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sanitize.cli.console import show
from sanitize.cli.options import AsJson, Work


def command(work: Work, as_json: AsJson = False) -> None:
    """What lies in WORK: the index, and the runs made from it."""
    from sanitize.inspection.sql_api import status

    show(status(work), as_json, _status)


def _status(found: Mapping[str, Any]) -> str:
    if not found["indexed"]:
        return f"no index yet ({found['find_tasks_done']} tasks of find done)"
    batches = f" in {found['batches']} batches" if (found["batches"] or 1) > 1 else ""
    lines = [f"index     {found['documents']:,} documents{batches}, {found['tasks']} tasks, key {found['key_id']}"]
    lines += [
        f"run       {run['plan_hash']}  plan {run['plan']}, {run['tasks_done']} of {found['tasks']} tasks done" for run in found["runs"]
    ]
    if found["held_by"]:
        lines.append(f"held by   process {found['held_by'].get('pid')} on {found['held_by'].get('host')}")
    return "\n".join(lines)
