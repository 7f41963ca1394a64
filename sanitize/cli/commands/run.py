"""`sanitize run`: one plan over one corpus, to a published folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sanitize.cli.console import by_kind, listed, show
from sanitize.cli.options import (
    AsJson,
    Changes,
    Drop,
    EngineName,
    IdColumn,
    Inputs,
    Keep,
    KeyFile,
    Known,
    Master,
    MaxDocBytes,
    MaxQuarantine,
    MemoryLimit,
    PlanName,
    Pseudonymize,
    Quiet,
    Remote,
    RowsPerShard,
    SampleOf,
    Sanitize,
    Seed,
    Split,
    Strict,
    TextColumn,
    UserColumn,
    Workers,
    one_of,
    settings_of,
)


def command(
    inputs: Inputs,
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help="the folder to publish, or a URL", show_default=False)],
    plan: PlanName = "rmft",
    work: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="the private folder (default: OUT.private; none where OUT is a URL)", show_default=False),
    ] = None,
    set_: Changes = None,
    text_column: TextColumn = None,
    user_column: UserColumn = None,
    id_column: IdColumn = None,
    split: Split = "file",
    sanitize: Sanitize = None,
    keep: Keep = None,
    pseudonymize: Pseudonymize = None,
    drop: Drop = None,
    seed: Seed = None,
    key: KeyFile = None,
    known: Known = None,
    workers: Workers = None,
    engine: EngineName = "local",
    master: Master = None,
    remote: Remote = None,
    memory_limit: MemoryLimit = "1GB",
    rows_per_shard: RowsPerShard = 50_000,
    max_quarantine: MaxQuarantine = "10%",
    max_doc_bytes: MaxDocBytes = 32 << 20,
    strict: Strict = False,
    sample: SampleOf = "100%",
    verify: Annotated[str, typer.Option(help="fast, full (every byte, all forms), or off (then not publishable)")] = "fast",
    format: Annotated[str, typer.Option("--format", help="what the shards are: parquet, jsonl.zst or mds")] = "parquet",
    replace: Annotated[
        bool, typer.Option("--replace", help="swap an OUT of another plan or input for the new one, once that is whole")
    ] = False,
    keep_versions: Annotated[bool, typer.Option("--keep-versions", help="where OUT is a URL: leave what was published before")] = False,
    append: Annotated[
        bool, typer.Option("--append", help="add the files that are new to what OUT holds; give them alone, or the whole folder again")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only say what would be done (as `explain`)")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize a corpus: index every occurrence, rewrite, verify, and publish OUT in one rename."""
    from sanitize.pipeline.run import run as go
    from sanitize.plans.plan import load_plan

    chosen = load_plan(plan, set_ or ())
    settings = settings_of(
        locals(),
        verify=one_of("--verify", verify, ("fast", "full", "off")),
        format=format,
        keep_versions=keep_versions,
        replace=replace,
        append=append,
    )
    if dry_run:
        from sanitize.cli.commands.explain import explained
        from sanitize.inspection.preview import explain as describe

        show(describe(inputs, chosen, settings), as_json, explained)
        return
    show(go(inputs, out, chosen, work, settings), as_json, _ran, quiet)


def _ran(summary: Mapping[str, Any]) -> str:
    from sanitize.readers.staging import shown
    from sanitize.storage.remote_storage import is_url

    out, work, check = summary["out"], summary["work"], summary["verify"]
    if not summary["changed"]:
        return f"{out} is already what this plan makes of this input; nothing to do."
    lines = [*(f"note: {note}" for note in summary["notes"])]
    lines.append(
        f"Done in {_took(summary['seconds'])}: {summary['documents_in']:,} documents in = {summary['documents_out']:,} out"
        f" + {summary['documents_dropped']:,} dropped + {summary['quarantined']:,} in quarantine"
    )
    new = summary.get("appended")
    if new:
        lines.append(f"appended  {new['documents']:,} documents of new files ({new['files']:,}), in new shards ({new['shards']:,})")
    lines += [f"dropped   {one['documents']:,} by {one['part']}: {one['reason']} as in an earlier document" for one in summary["dropped"]]
    lines += ["", by_kind(summary["by_kind"]), ""]
    lines.append(f"columns   {shown(summary['columns'])}")
    if summary["quarantine"]:
        lines.append(f"set aside {', '.join(f'{times} {reason}' for reason, times in summary['quarantine'].items())}")
    if check["mode"] == "off":
        lines.append("verify    off: nothing was checked, not publishable")
    else:
        swept = f"; {check['swept']:,} that the finders had missed were swept" if check["swept"] else ""
        lines.append(
            f"verify    {summary['leaks']} of {check['values_checked']:,} values that had to go found in {len(check['forms'])} forms{swept}"
        )
    if drilled := summary["drill"]["planted"]:
        hidden = summary["drill"]["hidden"]
        lines.append(
            f"drill     {summary['drill']['gone']:,} of {drilled:,} values planted for invented people came out gone,"
            f" and {hidden['gone']:,} of {hidden['planted']:,} hidden ones (base64, HTML, ...)"
        )
    lines.append("recall    not measured: what the finders missed is not known")
    if summary["kept_originals"]:
        firsts = " (the first of each value)" if not summary["parts"] else ""
        lines.append(f"kept      {summary['kept_originals']:,} originals stay by plan{firsts}")
    if "blacklist" in summary:
        lines.append(f"blacklist {listed(summary['blacklist'])}")
    for told in summary["parts"]:
        most = sorted(told.get("by_field", {}).items(), key=lambda entry: -entry[1]["occurrences"])[:6]
        fields = ", ".join(f"{field} {counts['occurrences']:,}" for field, counts in most) or "nothing"
        lines.append(f"headers   {fields} gone ({told['part']})")
    if summary["key"] == "seed":
        lines.append("key       from a seed: reproducible, replacements guessable, no privacy claim")
    if not summary["publishable"]:
        lines.append("publish   not publishable (see the plan)")
    documents = new["documents"] if new else summary["documents_in"]
    speed = f"{documents / max(summary['seconds'], 0.01):,.0f} documents/s, {summary['mb_per_s']:,} MB/s"
    lines.append(f"speed     {speed}, {summary['peak_rss_mb']:,.0f} MB in the largest process")
    if is_url(out):
        lines += ["", f"shards    named in {out}/manifest.json, report.html beside them"]
    else:
        lines += ["", f"shards    {out}/data", f"report    {out}/report.html"]
    lines.append(f"private   {work}   (raw values: do not share)")
    again = f"{out} --work {work}" if is_url(out) else out
    lines.append(f"next      sanitize top {work}   |   sanitize sql {work} --list   |   sanitize verify {again}")
    return "\n".join(lines)


def _took(seconds: float) -> str:
    """A span as a person says it."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
