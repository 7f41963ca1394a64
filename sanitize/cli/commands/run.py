"""`sanitize run`: sanitizes a corpus with a plan, and publishes the result as a folder."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

import sanitize
from sanitize.cli.console import (
    LABEL_WIDTH,
    format_blacklist,
    format_columns,
    format_facts,
    format_kind_counts,
    print_result,
)
from sanitize.cli.options import (
    FROM_OPTIONS,
    AsJson,
    FinderNames,
    Inputs,
    OptionalPlanName,
    PlanChanges,
    Quiet,
    with_settings,
)
from sanitize.plans.settings import Settings

# printed below the options; the table of README.md in short
EPILOG = """Which plan, and what stays in the texts besides what was not found (`sanitize plan show NAME` has all of it):

\b
  redact        to publish or share (default): nothing that was found stays.
                Labels such as [EMAIL_ADDRESS]. Stay: dates, ages, other
                places than street addresses, organizations, identifiers of
                other countries and numbers of accounts, passports, records
                and other things that no word beside them names
  surrogates    the same, with invented values of the same shape
  pseudonymize  who wrote to whom must remain visible. Stays as with redact;
                the vault links values and surrogates
  strict        the classes of the HIPAA Safe Harbor list. Stay: years, other
                places and organizations that you do not list, identifiers of
                other countries, numbers that no word beside them labels
  rmft          natural text, nothing learned by repetition. Stay: people's
                names, user names, the first occurrence of each mail address,
                telephone number and IP address, links, message ids, street
                addresses, labelled numbers, and what stays with redact
  names         as rmft, with people's names: of these the first stays, too
  others        for comparisons, word lists and training: most are not to be
                published (`sanitize list papers`)
"""  # noqa: E501


@with_settings("run")
def command(
    inputs: Inputs,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--out", metavar="OUT", help="the folder to publish, or a URL", show_default=False
        ),
    ],
    plan: OptionalPlanName = None,
    work: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="the private folder (default: OUT.private; required if OUT is a URL)",
            show_default=False,
        ),
    ] = None,
    set_: PlanChanges = None,
    finder: FinderNames = None,
    settings: Settings = FROM_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sanitize a corpus: index every occurrence, rewrite, verify, and publish OUT in one rename."""
    from sanitize.pipeline.run import run_with_settings
    from sanitize.plans.default_plan import choose_run_plan, choose_run_settings, describe_plan

    loaded_plan = choose_run_plan(plan, out, work, set_ or (), finder or ())
    settings, notes = choose_run_settings(settings, plan, out, work)
    print_result(
        run_with_settings(inputs, out, loaded_plan, work, settings, notes=notes),
        as_json,
        partial(_format_summary, plan_text=describe_plan(loaded_plan)),
        quiet,
    )


def _format_summary(summary: sanitize.RunResult, plan_text: str) -> str:
    from sanitize.storage.remote_storage import is_url

    out, work, check = summary.out, summary.work, summary.verify
    if not summary.changed:
        return f"{out} is already the result of this plan for this input; nothing to do."
    lines = [*(f"note: {note}" for note in summary.notes)]
    lines.append(
        f"Done in {_format_duration(summary.seconds)}: {summary.documents_in:,} documents in ="
        f" {summary.documents_out:,} out + {summary.documents_dropped:,} dropped +"
        f" {summary.quarantined:,} in quarantine"
    )
    facts = [("plan", plan_text)]
    appended = summary.appended
    if appended:
        facts.append(
            (
                "appended",
                (
                    f"{appended.documents:,} documents of new files ({appended.files:,}), in new"
                    f" shards ({appended.shards:,})"
                ),
            )
        )
    facts += [
        ("dropped", f"{drop.documents:,} by {drop.part}: {drop.reason} as in an earlier document")
        for drop in summary.dropped
    ]
    if summary.quarantine:
        facts.append(
            (
                "quarantine",
                ", ".join(f"{times} {reason}" for reason, times in summary.quarantine.items()),
            )
        )
    lines += [*format_facts(facts), "", format_kind_counts(summary.by_kind), ""]
    if len(summary.columns) > 1:
        lines += [format_columns(summary.columns), ""]
    facts = [(line.name, line.text) for line in summary.verdict]
    if not summary.publishable and check.mode != "full":
        facts.append(("publish", f"run again without --verify {check.mode}, with --replace"))
    if summary.shape:
        facts.append(("shape", summary.shape))
    if summary.splits:
        facts.append(
            ("splits", ", ".join(f"{name} {rows:,}" for name, rows in summary.splits.items()))
        )
    if summary.blacklist:
        facts.append(("blacklist", format_blacklist(summary.blacklist)))
    for part in summary.editor_reports:
        if "by_field" not in part:
            facts.append(("editor", ", ".join(f"{name} {value}" for name, value in part.items())))
            continue
        most_frequent = sorted(
            part["by_field"].items(), key=lambda entry: -entry[1]["occurrences"]
        )[:6]
        fields = (
            ", ".join(f"{field} {counts['occurrences']:,}" for field, counts in most_frequent)
            or "nothing"
        )
        facts.append(("headers", f"{fields} removed ({part['part']})"))
    if summary.key == "seed":
        facts.append(
            ("key", "from a seed: reproducible, replacements can be guessed, no privacy claim")
        )
    documents = appended.documents if appended else summary.documents_in
    speed = f"{documents / max(summary.seconds, 0.01):,.0f} documents/s, {summary.mb_per_s:,} MB/s"
    facts.append(("speed", f"{speed}, {summary.peak_rss_mb:,.0f} MB in the largest process"))
    lines += [*format_facts(facts), ""]
    # paths and commands are not wrapped: they are copied from here
    if is_url(out):
        paths = [("shards", f"listed in {out}/manifest.json, with report.html beside them")]
    else:
        paths = [("shards", f"{out}/data"), ("report", f"{out}/report.html")]
    verify_arguments = f"{out} --work {work}" if is_url(out) else out
    paths += [
        ("private", f"{work}   (raw values: do not share)"),
        (
            "next",
            (
                f"sanitize top {work}   |   sanitize sql {work} --list   |   sanitize verify"
                f" {verify_arguments}"
            ),
        ),
    ]
    lines += [f"{name:<{LABEL_WIDTH}}{text}" for name, text in paths]
    return "\n".join(lines)


def _format_duration(seconds: float) -> str:
    """A duration as text, such as `2 h 5 min`, `3 min 20 s` or `4.2 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{seconds:.1f} s"
    )
