"""Options that two or more commands share; the options of the settings model are generated from it
(`with_settings`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sanitize.cli.completion import complete_plan, complete_words
from sanitize.core.progress import create_progress_display
from sanitize.plans.settings import (
    Option,
    Settings,
    flag_of,
    option_of,
    options_of,
    settings_of,
)


def local_path(path: str | Path) -> Path:
    """Parses an option or argument that must be a path on this machine; UsageError for a URL. For
    `parser=` of typer."""
    from sanitize.storage.remote_storage import require_local_path

    return require_local_path(path)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="files, folders and URLs: Parquet, Arrow, JSON, CSV, text, mbox, maildir, mails",
        show_default=False,
    ),
]
WorkspacePath = Annotated[
    Path,
    typer.Argument(
        parser=local_path,
        metavar="WORK",
        help="the private folder of a run, such as clean.private",
        show_default=False,
    ),
]
WorkspaceOfOutput = Annotated[
    Path | None,
    typer.Option(
        parser=local_path,
        metavar="DIR",
        help="the private folder of the run that published OUT (default: OUT.private)",
        show_default=False,
    ),
]


def _describe_setting(name: str) -> Any:
    """The option of a setting, for commands that read files without the settings of a corpus."""
    option = option_of(name)
    return typer.Option(flag_of(name), metavar=option.metavar, help=option.help, show_default=False)


Include = Annotated[list[str] | None, _describe_setting("include")]
ReadAs = Annotated[str | None, _describe_setting("read_as")]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="print the result as one line of JSON on stdout, all other output on stderr"
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        help="no progress and no summary; errors and the --json result are still printed",
    ),
]
Reveal = Annotated[bool, typer.Option(help="show raw values")]
RunName = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help="the run whose edits and drops are read: a plan's hash or name (default: the latest)",
        show_default=False,
    ),
]
# the default of a command's parameter `settings`, which `with_settings` fills
FROM_OPTIONS = cast(Settings, None)
PlanName = Annotated[
    str,
    typer.Option(
        "--plan",
        autocompletion=complete_plan,
        help="a shipped plan (sanitize list plans) or a TOML file",
    ),
]
OptionalPlanName = Annotated[
    str | None,
    typer.Option(
        "--plan",
        autocompletion=complete_plan,
        help=(
            "a shipped plan (sanitize list plans) or a TOML file (default: that of the output or"
            " state to continue, else redact)"
        ),
        show_default=False,
    ),
]
PlanChanges = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="change the plan, such as edit.0.keep=2",
        show_default=False,
    ),
]
FinderNames = Annotated[
    list[str] | None,
    typer.Option(
        "--finder",
        metavar="NAME[=MODEL]",
        help=(
            "add a finder to the plan, and the kinds that it finds: --finder ner, or ner=FOLDER for"
            " a model of your own"
        ),
        show_default=False,
    ),
]


def with_settings(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorates the function of a command: its parameter `settings` is replaced by the options that
    the settings model has for `command`.

    The function gets the `Settings` made from them, with a progress display unless `--quiet`.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        options = options_of(command)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            if parameter.name == "settings":
                parameters += [_make_parameter(name, option) for name, option in options.items()]
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(function)
        def run_command(**arguments: Any) -> None:
            from sanitize.storage.disk_errors import require_address_space

            require_address_space()
            given = {name: value for name in options if (value := arguments.pop(name)) is not None}
            if "quiet" in arguments:
                given["progress"] = create_progress_display(arguments["quiet"])
            function(settings=settings_of(command, given), **arguments)

        del run_command.__wrapped__
        run_command.__annotations__ = {one.name: one.annotation for one in parameters}
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_command

    return decorate


def _make_parameter(name: str, option: Option) -> inspect.Parameter:
    """The parameter of a command from which typer makes an option."""
    default = Settings.__dataclass_fields__[name].default
    is_shown = option.shown_default is not None
    extra: dict[str, Any] = {
        "metavar": option.metavar or None,
        "help": option.help,
        "show_default": is_shown,
    }
    if option.choices is not None:
        extra["autocompletion"] = complete_words(option.choices)
    value_type: Any
    if isinstance(default, bool):
        value_type, extra["show_default"] = bool, True
    elif isinstance(default, tuple):
        value_type = list[str] | None
    elif name == "key" or name == "known":
        value_type, extra["parser"] = Path | None, local_path
    elif option.minimum is not None:
        value_type = int | None
        extra |= {"min": option.minimum, "max": option.maximum}
    elif name == "seed":
        value_type = int | None
    else:
        value_type = str | None
    annotation = Annotated[value_type, typer.Option(flag_of(name), **extra)]
    shown = option.shown_default if is_shown else False if isinstance(default, bool) else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=annotation
    )


def require_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns `value` if it is one of `choices`; else raises UsageError that names `option`, lists
    the choices and suggests the nearest."""
    from sanitize.errors import UsageError, suggest_names

    if value not in choices:
        raise UsageError(f"{option} {value}: {suggest_names(value, choices)}")
    return value


def document_sources_or_note(work: Path) -> Any:
    """The input files behind the table `documents`; none, and a note on stderr, if the input has
    moved or changed."""
    from sanitize.inspection import sql_api

    sources = sql_api.find_document_sources(work)
    if sources is None:
        typer.echo(
            "note: the input has moved or changed since it was indexed; the table `documents` is"
            " empty, all other tables are complete",
            err=True,
        )
    return sources or ()
