"""What verbs take: every option that two of them share, with its help, and the settings made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sanitize.pipeline.index_build import Settings
    from sanitize.readers.staging import Columns


def local_path(place: str | Path) -> Path:
    """A path on this machine: the type of each option and argument that is one and no URL."""
    from sanitize.storage.remote_storage import local_path as checked

    return checked(place)


Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...", help="files, folders and URLs: Parquet, Arrow, JSON, CSV, text, mbox, maildir, mails", show_default=False
    ),
]
Work = Annotated[
    Path,
    typer.Argument(parser=local_path, metavar="WORK", help="the private folder of a run, such as clean.private", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="one line, one object, on stdout; all else on stderr")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="no progress and no summary; errors, and what --json says, all the same")]
Reveal = Annotated[bool, typer.Option(help="show raw values")]
RunName = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="whose edits and drops: a plan's hash or name (default: the latest)", show_default=False),
]
PlanName = Annotated[str, typer.Option("--plan", help="a shipped plan (sanitize list plans) or a TOML file")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the plan, such as edit.0.keep=2", show_default=False)
]
Sanitize = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="clean this column (all texts by default)", show_default=False)]
Keep = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="leave this column as it is; it is checked all the same", show_default=False)
]
Pseudonymize = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="a keyed code for each text (user_id by default)", show_default=False)
]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="leave this column out", show_default=False)]
TextColumn = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="the main text, then further ones (default: text)", show_default=False)
]
UserColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="who wrote it (default: user_id, or a mail's From)", show_default=False)
]
IdColumn = Annotated[str | None, typer.Option(metavar="COLUMN", help="the document's id (default: doc_id)", show_default=False)]
Split = Annotated[str, typer.Option(metavar="WHAT", help="what is a document in a .txt: file, paragraphs or lines")]
Seed = Annotated[int | None, typer.Option(help="a public key: repeatable anywhere, guessable by anyone", show_default=False)]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", parser=local_path, metavar="FILE", help="the secret key (default: the vault's own)", show_default=False),
]
Known = Annotated[
    Path | None,
    typer.Option(
        parser=local_path, metavar="FILE", help="values to look for: CSV, TSV or JSON lines with kind and value", show_default=False
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="processes at work (default: one a core)", show_default=False)]
EngineName = Annotated[str, typer.Option("--engine", help="local (this machine) or spark; see docs/spark.md")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="with --engine spark: local[2], spark://host:7077, yarn, k8s://...", show_default=False)
]
Remote = Annotated[
    str | None, typer.Option(metavar="URL", help="with --engine spark: a Spark Connect server, sc://host:15002", show_default=False)
]
MemoryLimit = Annotated[str, typer.Option(help="for counting, the leak check, and one piece of an input; see docs/input.md")]
RowsPerShard = Annotated[int, typer.Option(min=1, max=1 << 19, help="documents of one output shard")]
MaxQuarantine = Annotated[str, typer.Option(help="the share of records that may be set aside")]
SampleOf = Annotated[str, typer.Option("--sample", metavar="SHARE", help="only this share of the documents, drawn by their ids")]


def document_size(text: str | int) -> int:
    """The bytes of the largest document, as `200000000` or `200MB`."""
    from sanitize.core.engine import size_of
    from sanitize.errors import UsageError

    size = int(text) if str(text).isascii() and str(text).isdigit() else size_of(str(text)) or 0
    if not 1 <= size <= 1 << 29:
        raise UsageError(f"--max-doc-bytes {text}: expected a size of 512 MB at most, such as 32MB or 100000000")
    return size


MaxDocBytes = Annotated[int, typer.Option(parser=document_size, metavar="SIZE", help="larger documents are set aside")]
Strict = Annotated[bool, typer.Option("--strict", help="set nothing aside: stop at the first bad record")]


def columns_of(said: Mapping[str, Any]) -> Columns:
    """The roles and policies of columns, from the options of a verb that has them all."""
    from sanitize.errors import UsageError
    from sanitize.readers.staging import Columns
    from sanitize.readers.survey import Roles

    policies: dict[str, str] = {}
    for policy in ("sanitize", "keep", "pseudonymize", "drop"):
        for name in said[policy] or ():
            if policies.get(name, policy) != policy:
                raise UsageError(f"--{policy} {name}: the same column stands under --{policies[name]}; it can have one policy")
            policies[name] = policy
    roles = Roles(text=tuple(said["text_column"] or ("text",)), user=said["user_column"], id=said["id_column"], split=said["split"])
    return Columns(roles=roles, policies=policies)


def settings_of(said: Mapping[str, Any], **more: Any) -> Settings:
    """The settings, from the options of a verb that has them all."""
    from sanitize.core.progress import shower
    from sanitize.pipeline.index_build import Settings

    return Settings(
        columns=columns_of(said),
        seed=said["seed"],
        key_file=said["key"],
        known=said["known"],
        workers=said["workers"],
        memory_limit=said["memory_limit"],
        rows_per_shard=said["rows_per_shard"],
        max_doc_bytes=said["max_doc_bytes"],
        max_quarantine=share(said["max_quarantine"]),
        strict=said["strict"],
        sample=share(said.get("sample", "100%"), "--sample"),
        engine=said.get("engine", "local"),
        master=said.get("master"),
        remote=said.get("remote"),
        progress=shower(said["quiet"]),
        **more,
    )


def share(text: str, option: str = "--max-quarantine") -> float:
    """A share of the records, as `10%` or `0.1`."""
    from sanitize.errors import UsageError

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{option} {text}: expected a share of the records, such as 10% or 0.1")
    return share


def one_of(option: str, word: str, known: tuple[str, ...]) -> str:
    from sanitize.errors import UsageError, nearest

    if word not in known:
        raise UsageError(f"{option} {word}: {nearest(word, known)}")
    return word


def documents_of(work: Path) -> Any:
    """The files behind `documents`, and a note where there is none."""
    from sanitize.inspection import sql_api

    found = sql_api.documents_of(work)
    if found is None:
        typer.echo(
            "note: the input has moved or changed since it was indexed; `documents` is empty, all other tables are as they were", err=True
        )
    return found or ()
