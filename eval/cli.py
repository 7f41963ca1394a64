"""The command `sanitize-eval`: measures a suite and writes a report, or runs the whole chain from a
corpus to the report.

An error is printed as one line and sets the exit code.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

JsonOption = Annotated[
    bool, typer.Option("--json", help="the whole report as one line on stdout; all else on stderr")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="change the recipe, such as run.epochs=8",
        show_default=False,
    ),
]
DtypeOption = Annotated[
    str | None,
    typer.Option(
        help="of weights and computation: float32 (the default) or bfloat16", show_default=False
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option(help="cpu or cuda (default: a GPU if available)", show_default=False)
]


class _DefaultRunGroup(TyperGroup):
    """Takes the first word as a command; if it is none, as the suite of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="sanitize-eval",
    cls=_DefaultRunGroup,
    help="Attack and measure trained models: sanitize-eval SUITE --out DIR.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("run")
def run(
    suites: Annotated[
        list[Path],
        typer.Argument(
            metavar="SUITE...", help="TOML files; several are shown side by side in one report"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="folder of report.json, report.html and the model cards",
        ),
    ],
    leaked: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="also write a private list (.csv, .parquet) of the leaked values, masked",
            show_default=False,
        ),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="do not mask the values of that list")
    ] = False,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="also write the figures as files (needs the extra plots)",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="of the figures: png or svg")] = "png",
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "--devices",
            metavar="NAME[,NAME...]",
            help="cpu, cuda or cuda:0,cuda:1, which share the work",
            show_default=False,
        ),
    ] = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the runs of suites (the word `run` may be left out)."""
    from sanitize.errors import UsageError

    from . import charts, leak_list
    from .language_model import check_dtype, resolve_devices
    from .measurement_records import remove_records
    from .suite import Suite, evaluate

    # check all options before hours of measuring
    if reveal and leaked is None:
        raise UsageError(
            "--reveal: reports hold no values; name a private file for the list of them, such as"
            " --leaked FILE.csv"
        )
    if leaked is not None:
        leak_list.check_leak_path(leaked, out)
    for option, folder in (("--out", out), ("--figures", figures)):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise UsageError(f"{option} {folder}: is a file; expected a folder")
    if figures is not None:
        charts.check_image_format(format)
    if dtype is not None:
        check_dtype(dtype)
    changes = {
        key: value for key, value in {"device": device, "dtype": dtype}.items() if value is not None
    }
    checked = [Suite.read(suite).model_copy(update=changes) for suite in suites]
    if len({suite.name for suite in checked}) < len(checked):
        raise UsageError(
            "two of the suites have one name, and so the same files; set name = ... in one of them"
        )
    for suite in checked:
        resolve_devices(suite.device)
    leaks: list[dict[str, Any]] | None = [] if leaked is not None else None
    # results of single metrics, with which a stopped evaluation continues; with leaked values they
    # lie beside the private list of these
    records = out / "measured" if leaked is None else leaked.with_name(leaked.name + ".measured")
    reports = [
        evaluate(suite, leaks=leaks, records=records, progress=_print_progress) for suite in checked
    ]
    _write_reports(reports, out)
    if leaked is not None and leaks is not None:
        _print_progress(
            f"leaked: {leak_list.write_leak_list(leaks, leaked, reveal=reveal):,} rows in {leaked},"
            f" {'not masked' if reveal else 'masked'}"
        )
    remove_records(records)
    if figures is not None:
        _print_progress(
            f"figures: {len(charts.draw_charts(reports, figures, format))} in {figures}"
        )
    _print_reports(reports, out, as_json)


# option of `sanitize run` -> is it a list, what it is
_COLUMN_OPTIONS = {
    "user_column": (False, "the author (default: user_id, or a mail's From)"),
    "id_column": (False, "the document's id (default: doc_id)"),
    "split": (False, "what becomes one document of a .txt: file, paragraphs or lines"),
    "sanitize": (True, "sanitize this column (default: all text columns)"),
    "keep": (True, "leave this column unchanged"),
    "pseudonymize": (True, "replace each text by a keyed code"),
    "drop": (True, "leave this column out"),
}


def with_columns(function: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: its parameter `columns` becomes the options of `sanitize run` about
    columns, and the function gets those that are given."""
    parameters = []
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.name != "columns":
            parameters.append(parameter)
            continue
        for name, (is_list, about) in _COLUMN_OPTIONS.items():
            option = typer.Option(
                "--" + name.replace("_", "-"), metavar="COLUMN", help=about, show_default=False
            )
            value_type: Any = list[str] | None if is_list else str | None
            annotation = Annotated[value_type, option]
            parameters.append(parameter.replace(name=name, default=None, annotation=annotation))

    @functools.wraps(function)
    def run_command(**arguments: Any) -> None:
        given = {name: arguments.pop(name) for name in _COLUMN_OPTIONS}
        function(columns={name: value for name, value in given.items() if value}, **arguments)

    del run_command.__wrapped__
    run_command.__annotations__ = {one.name: one.annotation for one in parameters}
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run_command


@app.command("leak")
@with_columns
def leak(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="a folder that `sanitize run` published, or anything that it reads",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="a private folder for the training and the report"
        ),
    ],
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="the private folder of a published CORPUS (default: CORPUS.private)",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            help="sanitize a CORPUS that is not published by this plan first (default: redact)",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="a pretrained model (default: a small one from scratch)",
            show_default=False,
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="the text (default: text); a binary column is read as mail",
            show_default=False,
        ),
    ] = None,
    columns: Any = None,
    recipe: Annotated[str, typer.Option(help="a recipe of sanitize-train")] = "rmft",
    changes: SetOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=(
                "train on at most this many documents; the others are controls (default: some"
                " minutes of training)"
            ),
            show_default=False,
        ),
    ] = None,
    values: Annotated[
        int, typer.Option(min=1, help="ask for this many rare values of each kind")
    ] = 80,
    canaries: Annotated[
        int, typer.Option(min=0, help="invented documents; about half are trained on")
    ] = 192,
    seed: Annotated[int, typer.Option(min=0, help="of the draws, the key and the training")] = 0,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Does a model that is trained on this corpus still leak it? Trains one, and asks it for every
    kind of value."""
    from .leak import LeakSettings, run_leak

    settings = LeakSettings(
        model=model,
        recipe=recipe,
        changes=tuple(changes or ()),
        documents=limit,
        values=values,
        canaries=canaries,
        seed=seed,
        device=device,
        dtype=dtype or "float32",
        columns={**columns, **({"text_column": text_column} if text_column else {})},
    )
    report = run_leak(corpus, out, settings, work=work, plan=plan, progress=_print_progress)
    _write_reports([report], out)
    _print_reports([report], out, as_json)


@app.command("frontier")
@with_columns
def frontier(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="anything that `sanitize run` reads")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="a private folder for shards, runs and the report"
        ),
    ],
    plans: Annotated[
        str, typer.Option(help="plans, joined by commas; the others are compared with the first")
    ] = "baseline,rmft,header_dedup",
    recipe: Annotated[str, typer.Option(help="a recipe of sanitize-train")] = "rmft",
    changes: SetOption = None,
    text_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="the text; a binary column is read as mail")
    ] = "text",
    columns: Any = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=2, help="use at most this many documents of the corpus", show_default=False
        ),
    ] = None,
    web: Annotated[int, typer.Option(min=1, help="number of generic prompts")] = 1_000,
    cues: Annotated[
        int, typer.Option(min=0, help="number of prompts that give a first name")
    ] = 200,
    values: Annotated[
        int,
        typer.Option(min=0, help="ask for this many rare values of each kind; 0: no leak test"),
    ] = 80,
    canaries: Annotated[
        int, typer.Option(min=0, help="invented documents; about half are trained on")
    ] = 192,
    seed: Annotated[
        int, typer.Option(min=0, help="of the split, the plans' keys, the training and the prompts")
    ] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="run everything with so many seeds, in folders of their own; curves sum over them",
        ),
    ] = 1,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sanitize a corpus by several plans, train a small model on each, attack them, and draw the
    curve."""
    from sanitize.errors import UsageError

    from .frontier import FrontierSettings, build_leak_curves, run_frontier
    from .leak import LeakSettings

    names = [name.strip() for name in plans.split(",") if name.strip()]
    if len({Path(name).stem for name in names}) < max(len(names), 1):
        raise UsageError(
            f"--plans {plans}: expected one or more plans, each of another name, such as"
            " baseline,rmft"
        )
    settings = FrontierSettings(
        plans={Path(name).stem: (name, ()) for name in names},
        recipe=recipe,
        changes=tuple(changes or ()),
        metrics=(
            {"use": "extraction", "web": web, "cues": cues},
            {"use": "perplexity"},
            {"use": "frontier", "texts": "mail"},
        ),
        baseline=Path(names[0]).stem,
        seed=seed,
        device=device,
        dtype=dtype or "float32",
        limit=limit,
        text_column=text_column,
        columns=columns,
    )
    reports = []
    for used_seed in range(seed, seed + seeds):
        folder = out / f"seed-{used_seed}" if seeds > 1 else out
        leak_settings = LeakSettings(
            documents=sys.maxsize,
            values=values,
            canaries=canaries,
            seed=used_seed,
            device=device,
            dtype=dtype or "float32",
        )
        seeded = dataclasses.replace(
            settings, seed=used_seed, leak=leak_settings if values else None
        )
        report = run_frontier(corpus, folder, seeded, progress=_print_progress)
        reports.append(
            {**report, "name": f"{report['name']}-seed-{used_seed}"} if seeds > 1 else report
        )
    _write_reports(reports, out)
    (out / "curves.json").write_text(
        json.dumps(build_leak_curves(reports), indent=1, sort_keys=True) + "\n", "utf-8"
    )
    _print_progress(f"curves: {out / 'curves.json'}, for sanitize explain --forecast")
    _print_reports(reports, out, as_json)


@app.command("receipt")
def receipt_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="a folder that `sanitize-train unlearn` wrote (any method)"
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="folder of receipt.json and receipt.md"),
    ],
    before: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|CHECKPOINT",
            help="the model before unlearning (default: read from RUN)",
            show_default=False,
        ),
    ] = None,
    forget: Annotated[
        Path | None,
        typer.Option(
            metavar="IDS",
            help="ids of the documents to forget (default: read from RUN)",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="the training documents, if they were moved", show_default=False
        ),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="similar documents that no model was trained on",
            show_default=False,
        ),
    ] = None,
    retrained: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="a run that was trained without the documents", show_default=False
        ),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, help="at most this many documents of each set are attacked")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="of the prompts")] = 0,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Attack a model before and after unlearning, and write what was found (exit 4 if more than
    chance is left)."""
    from sanitize.errors import LeakFound

    from .unlearning_receipt import make_receipt, write_receipt

    receipt = make_receipt(
        folder,
        before=before,
        forget=forget,
        data=data,
        control=control,
        retrained=retrained,
        max_documents=most,
        seed=seed,
        device=device,
        dtype=dtype or "float32",
        progress=_print_progress,
    )
    page = write_receipt(receipt, out)
    typer.echo(
        json.dumps(receipt, sort_keys=True)
        if as_json
        else "\n".join([*receipt["statements"], f"receipt: {page}"])
    )
    if receipt["found"]["above_chance"] or receipt["found"]["comes_back"]:
        raise LeakFound(
            f"{folder}: the attacks find more of the forgotten documents than chance would give,"
            f" in the model as it is or in a changed copy; see {page}"
        )


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the metrics that a suite can use."""
    import importlib

    from .metric import list_metrics

    found = {
        name: (
            (importlib.import_module(f".metrics.{name}", __package__).__doc__ or "").partition(
                "\n"
            )[0]
        )
        for name in list_metrics()
    }
    if as_json:
        typer.echo(json.dumps({"metrics": found}, sort_keys=True))
        return
    for name, about in found.items():
        typer.echo(f"{name:<14}{about}")


def _print_progress(line: str) -> None:
    typer.echo(line, err=True)


def _write_reports(reports: list[dict[str, Any]], out: Path) -> None:
    """Write report.json, report.html, and a model card for each run."""
    from .report import render_model_card, render_page

    out.mkdir(parents=True, exist_ok=True)
    report_json = reports[0] if len(reports) == 1 else {"suites": reports}
    (out / "report.json").write_text(
        json.dumps(report_json, indent=1, sort_keys=True) + "\n", "utf-8"
    )
    (out / "report.html").write_text(render_page(reports), "utf-8")
    for report in reports:
        for name in report["runs"]:
            card_path = out / "cards" / report["name"] / f"{Path(name).name}.md"
            card_path.parent.mkdir(parents=True, exist_ok=True)
            card_path.write_text(render_model_card(report, name), "utf-8")


def _print_reports(reports: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(
            json.dumps(reports[0] if len(reports) == 1 else {"suites": reports}, sort_keys=True)
        )
        return
    for report in reports:
        for name, run_report in report["runs"].items():
            last = run_report["rows"][-1]
            rates = [
                f"TER {family} {rates['ter']:.2f} %"
                for family, rates in last.get("extraction", {}).items()
            ]
            rates += [
                f"perplexity {which} {perplexity['mean']:.2f}"
                for which, perplexity in last.get("perplexity", {}).items()
                if perplexity["mean"] is not None
            ]
            typer.echo(
                f"{report['name']}: {name}, step {last['step']}: {', '.join(rates) or 'measured'}"
            )
        for verdict in report.get("verdicts", ()):
            typer.echo(f"{verdict['run']}: {verdict['word']}")
            typer.echo("\n".join(f"  {sentence}" for sentence in verdict["sentences"]))
        for sentence in report.get("comparisons", ()):
            typer.echo(sentence)
    typer.echo(f"report: {out / 'report.html'}")


def main() -> None:
    """Entry point of the console script: every error becomes one line without values of the data,
    and an exit code."""
    from sanitize.errors import SanitizeError, internal_error
    from sanitize.storage.files import open_closed_streams
    from sanitize.train.stop_signals import end_on_signals

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    open_closed_streams()
    try:
        with end_on_signals("stopped; run the same command again to continue with the next metric"):
            app()
    except SystemExit:
        raise
    except SanitizeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BaseException as error:
        typer.echo(f"error: {internal_error(error)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
