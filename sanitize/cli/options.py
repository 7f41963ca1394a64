"""Options that two or more commands share, with their help texts, and the settings built from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sanitize.plans.settings import Settings
    from sanitize.readers.column_policies import Columns


def local_path(path: str | Path) -> Path:
    """Parses an option or argument that must be a path on this machine; UsageError for a URL. For `parser=` of typer."""
    from sanitize.storage.remote_storage import require_local_path

    return require_local_path(path)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...", help="files, folders and URLs: Parquet, Arrow, JSON, CSV, text, mbox, maildir, mails", show_default=False
    ),
]
WorkspacePath = Annotated[
    Path,
    typer.Argument(parser=local_path, metavar="WORK", help="the private folder of a run, such as clean.private", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="print the result as one line of JSON on stdout, all other output on stderr")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="no progress and no summary; errors and the --json result are still printed")]
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
PlanName = Annotated[str, typer.Option("--plan", help="a shipped plan (sanitize list plans) or a TOML file")]
PlanChanges = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the plan, such as edit.0.keep=2", show_default=False)
]
SanitizeColumns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="sanitize this column (default: all text columns)", show_default=False)
]
KeepColumns = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="leave this column unchanged; it is searched for leaks like the others", show_default=False),
]
PseudonymizeColumns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="replace each text by a keyed code (default: user_id)", show_default=False)
]
DropColumns = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="leave this column out", show_default=False)]
TextColumn = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="the main text, then further ones (default: text)", show_default=False)
]
UserColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="the author (default: user_id, or a mail's From)", show_default=False)
]
IdColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="the document's id (default: doc_id)", show_default=False)]
TextSplit = Annotated[str, typer.Option(metavar="WHAT", help="what becomes one document of a .txt: file, paragraphs or lines")]
Seed = Annotated[
    int | None,
    typer.Option(help="derive the key from this public number: reproducible, but replacements can be guessed", show_default=False),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", parser=local_path, metavar="FILE", help="the secret key (default: the vault's own)", show_default=False),
]
KnownValuesFile = Annotated[
    Path | None,
    typer.Option(
        parser=local_path, metavar="FILE", help="known values to find: CSV, TSV or JSON lines with kind and value", show_default=False
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="number of processes (default: one per core)", show_default=False)]
EngineName = Annotated[str, typer.Option("--engine", help="local (this machine) or spark; see docs/spark.md")]
SparkMaster = Annotated[
    str | None, typer.Option(metavar="URL", help="with --engine spark: local[2], spark://host:7077, yarn, k8s://...", show_default=False)
]
SparkConnectUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="with --engine spark: a Spark Connect server, sc://host:15002", show_default=False)
]
MemoryLimit = Annotated[str, typer.Option(help="memory for counting, for the leak check, and for one piece of an input; see docs/input.md")]
RowsPerShard = Annotated[int, typer.Option(min=1, max=1 << 19, help="documents per output shard")]
MaxQuarantine = Annotated[str, typer.Option(help="the largest share of records that may be quarantined; beyond it the run stops")]
SampleShare = Annotated[str, typer.Option("--sample", metavar="SHARE", help="only this share of the documents, drawn by their ids")]


def parse_document_size(text: str | int) -> int:
    """Parse `--max-doc-bytes`, such as `200000000` or `200MB`, into bytes; UsageError outside 1 byte to 512 MB."""
    from sanitize.core.sizes import parse_size
    from sanitize.errors import UsageError

    size = int(text) if str(text).isascii() and str(text).isdigit() else parse_size(str(text)) or 0
    if not 1 <= size <= 1 << 29:
        raise UsageError(f"--max-doc-bytes {text}: expected a size of 512 MB at most, such as 32MB or 100000000")
    return size


MaxDocBytes = Annotated[int, typer.Option(parser=parse_document_size, metavar="SIZE", help="larger documents are quarantined")]
Strict = Annotated[bool, typer.Option("--strict", help="quarantine nothing: stop at the first bad record")]


def columns_from_options(options: Mapping[str, Any]) -> Columns:
    """Column roles and policies, from the options of a command that has all of them."""
    from sanitize.errors import UsageError
    from sanitize.readers.column_policies import Columns
    from sanitize.readers.survey import Roles

    policies: dict[str, str] = {}
    for policy in ("sanitize", "keep", "pseudonymize", "drop"):
        for name in options[policy] or ():
            if policies.get(name, policy) != policy:
                raise UsageError(
                    f"--{policy} {name}: the same column is also given with --{policies[name]}; a column can have one policy only"
                )
            policies[name] = policy
    roles = Roles(
        text=tuple(options["text_column"] or ("text",)), user=options["user_column"], id=options["id_column"], split=options["split"]
    )
    return Columns(roles=roles, policies=policies)


def settings_from_options(options: Mapping[str, Any], **further_settings: Any) -> Settings:
    """Settings of a run, from the options of a command that has all of them; `further_settings` are passed on as they are."""
    from sanitize.core.progress import create_progress_display
    from sanitize.plans.settings import Settings

    return Settings(
        columns=columns_from_options(options),
        seed=options["seed"],
        key_file=options["key"],
        known=options["known"],
        workers=options["workers"],
        memory_limit=options["memory_limit"],
        rows_per_shard=options["rows_per_shard"],
        max_doc_bytes=options["max_doc_bytes"],
        max_quarantine=parse_share(options["max_quarantine"]),
        strict=options["strict"],
        sample=parse_share(options.get("sample", "100%"), "--sample"),
        engine=options.get("engine", "local"),
        master=options.get("master"),
        remote=options.get("remote"),
        progress=create_progress_display(options["quiet"]),
        **further_settings,
    )


def parse_share(text: str, option: str = "--max-quarantine") -> float:
    """Parse a share of the records, such as `10%` or `0.1`; UsageError outside 0 to 1."""
    from sanitize.errors import UsageError

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{option} {text}: expected a share of the records, such as 10% or 0.1")
    return share


def require_choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    """Returns `value` if it is one of `choices`; else raises UsageError that names `option`, lists the choices and suggests the nearest."""
    from sanitize.errors import UsageError, suggest_names

    if value not in choices:
        raise UsageError(f"{option} {value}: {suggest_names(value, choices)}")
    return value


def document_sources_or_note(work: Path) -> Any:
    """The input files behind the table `documents`; none, and a note on stderr, if the input has moved or changed."""
    from sanitize.inspection import sql_api

    sources = sql_api.find_document_sources(work)
    if sources is None:
        typer.echo(
            "note: the input has moved or changed since it was indexed; the table `documents` is empty, all other tables are complete",
            err=True,
        )
    return sources or ()
