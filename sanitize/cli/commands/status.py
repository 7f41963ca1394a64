"""`sanitize status`: shows the settings that variables and `sanitize.toml` give, and what a private
folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import format_table, print_json, print_text, report_lost_output
from sanitize.cli.options import AsJson, local_path
from sanitize.cli.settings_sources import (
    FILE_NAME,
    VARIABLE_SETTINGS,
    GivenSetting,
    find_settings,
    format_value,
    list_unknown_variables,
    read_settings_file,
    read_variables,
    variable_of,
)
from sanitize.errors import suggest_names


def command(
    work: Annotated[
        Path | None,
        typer.Argument(
            parser=local_path,
            metavar="[WORK]",
            help="the private folder of a run, such as clean.private",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which settings come from variables and sanitize.toml, and what WORK holds: index, runs,
    the process that works in it."""
    from sanitize.inspection.sql_api import status

    state = None if work is None else status(work)
    given = [*read_variables(VARIABLE_SETTINGS), *read_settings_file(Path.cwd())]
    used = find_settings(VARIABLE_SETTINGS, {})
    unknown = list_unknown_variables()
    with report_lost_output():
        if as_json:
            is_used = {(one.name, one.source) for one in used}
            settings = [{**vars(one), "used": (one.name, one.source) in is_used} for one in given]
            found = state.to_dict() if state else {}
            print_json({**found, "settings": settings, "unknown_variables": unknown})
        else:
            lines = [
                *(_format_status(state) if state else []),
                *_format_settings(given, used),
                *map(_describe_unknown_variable, unknown),
            ]
            print_text("\n".join(lines))


def _format_settings(given: list[GivenSetting], used: list[GivenSetting]) -> list[str]:
    if not given:
        return [
            f"settings  the defaults: no SANITIZE_* variable and no {FILE_NAME} in this folder"
            " gives one"
        ]
    values = {(one.name, one.source): format_value(one.value) for one in used}
    rows = [
        (
            one.name,
            values.get((one.name, one.source), "(not used: another source wins)"),
            one.source,
        )
        for one in sorted(given, key=lambda one: VARIABLE_SETTINGS.index(one.name))
    ]
    return [
        "settings, where no option gives another value:",
        "",
        format_table(("setting", "value", "from"), rows),
    ]


def _describe_unknown_variable(variable: str) -> str:
    return (
        f"note: {variable} gives no setting;"
        f" {suggest_names(variable, map(variable_of, VARIABLE_SETTINGS))}"
    )


def _format_status(state: sanitize.StatusResult) -> list[str]:
    if not state.indexed:
        return [f"no index yet ({state.detect_tasks_done} detection tasks done)"]
    increments = f" in {state.increments} increments" if (state.increments or 1) > 1 else ""
    lines = [
        f"index     {state.documents:,} documents{increments}, {state.tasks} tasks, key"
        f" {state.key_id}"
    ]
    lines += [
        f"run       {run.run_hash}  plan {run.plan}, {run.tasks_done} of {state.tasks} tasks done"
        for run in state.runs
    ]
    if state.lock_holder:
        lines.append(f"held by   process {state.lock_holder.pid} on {state.lock_holder.host}")
    return lines
