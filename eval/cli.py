"""The command `sanitize-eval`: a suite in, a report out; or the whole chain on a corpus; errors become one line and an exit code."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

AsJson = Annotated[bool, typer.Option("--json", help="the whole report as one line on stdout; all else on stderr")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the recipe, such as run.epochs=8", show_default=False)
]


class _Suites(TyperGroup):
    """The first word is a verb, or else the suite of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="sanitize-eval",
    cls=_Suites,
    help="Attack and measure trained models: sanitize-eval SUITE --out DIR.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("run")
def run(
    suites: Annotated[list[Path], typer.Argument(metavar="SUITE...", help="TOML files; several stand side by side in one report")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="where report.json, report.html and the model cards go")],
    leaked: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="also a private list (.csv, .parquet) of the values that came out, masked", show_default=False),
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="the values of that list as they are")] = False,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="also the figures, as files (needs the extra plots)", show_default=False)
    ] = None,
    format: Annotated[str, typer.Option(help="of the figures: png or svg")] = "png",
    as_json: AsJson = False,
) -> None:
    """Measure what suites name (the word `run` may be left out)."""
    from sanitize.errors import UsageError

    from . import charts as drawing
    from . import leak_list as listing
    from .suite import evaluate

    # what is asked wrongly is told before hours of measuring
    if reveal and leaked is None:
        raise UsageError("--reveal: reports hold no values; name a private file for the list of them, such as --leaked FILE.csv")
    if leaked is not None:
        listing.place(leaked, out)
    if figures is not None:
        drawing.checked(format)
    leaks: list[dict[str, Any]] | None = [] if leaked is not None else None
    reports = [evaluate(suite, leaks=leaks, say=_say) for suite in suites]
    _kept(reports, out)
    if leaked is not None and leaks is not None:
        _say(f"leaked: {listing.write(leaks, leaked, reveal=reveal):,} rows in {leaked}, {'as they are' if reveal else 'masked'}")
    if figures is not None:
        _say(f"figures: {len(drawing.draw(reports, figures, format))} in {figures}")
    _show(reports, out, as_json)


@app.command("frontier")
def frontier(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="anything that `sanitize run` reads")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="a private folder for shards, runs and the report")],
    plans: Annotated[
        str, typer.Option(help="plans, joined by commas; the first is what the others are compared with")
    ] = "baseline,rmft,header_dedup",
    recipe: Annotated[str, typer.Option(help="a recipe of sanitize-train")] = "rmft",
    changes: Changes = None,
    text_column: Annotated[str, typer.Option(metavar="COLUMN", help="the text; a binary column is read as mail")] = "text",
    limit: Annotated[int | None, typer.Option(min=2, help="at most so many documents of the corpus", show_default=False)] = None,
    web: Annotated[int, typer.Option(min=1, help="generic prompts")] = 1_000,
    cues: Annotated[int, typer.Option(min=0, help="prompts that give a first name")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="of the split, the plans' keys, the training and the prompts")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Sanitize a corpus by several plans, train a small model on each, attack them, and draw the curve."""
    from sanitize.errors import UsageError

    from .frontier import Chain, chain, curves

    names = [name.strip() for name in plans.split(",") if name.strip()]
    if len({Path(name).stem for name in names}) < max(len(names), 1):
        raise UsageError(f"--plans {plans}: expected one or more plans, each of another name, such as baseline,rmft")
    settings = Chain(
        plans={Path(name).stem: (name, ()) for name in names},
        recipe=recipe,
        changes=tuple(changes or ()),
        metrics=({"use": "extraction", "web": web, "cues": cues}, {"use": "perplexity"}, {"use": "frontier", "texts": "mail"}),
        baseline=Path(names[0]).stem,
        seed=seed,
        device=device,
        limit=limit,
        text_column=text_column,
    )
    report = chain(corpus, out, settings, say=_say)
    _kept([report], out)
    (out / "curves.json").write_text(json.dumps(curves([report]), indent=1, sort_keys=True) + "\n", "utf-8")
    _say(f"curves: {out / 'curves.json'}, for sanitize explain --forecast")
    _show([report], out, as_json)


@app.command("receipt")
def receipt_(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="a folder that `sanitize-train unlearn` left (of any method)")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="where receipt.json and receipt.md go")],
    before: Annotated[
        Path | None, typer.Option(metavar="RUN|CHECKPOINT", help="the model before (default: what RUN says)", show_default=False)
    ] = None,
    forget: Annotated[
        Path | None, typer.Option(metavar="IDS", help="what was to be forgotten (default: what RUN says)", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="the documents, where they lie elsewhere by now", show_default=False)
    ] = None,
    control: Annotated[
        Path | None, typer.Option(metavar="DATA", help="documents of the same kind that nobody trained on", show_default=False)
    ] = None,
    retrained: Annotated[
        Path | None, typer.Option(metavar="RUN", help="a run that was trained without the documents", show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="documents of each set that are asked for")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="of the prompts")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Attack a model before and after it was to forget documents, and write what was found (exit 4 where more than chance is left)."""
    from sanitize.errors import LeakFound

    from .unlearning_receipt import receipt, write

    told = receipt(
        folder, before=before, forget=forget, data=data, control=control, retrained=retrained, most=most, seed=seed, device=device, say=_say
    )
    page = write(told, out)
    typer.echo(json.dumps(told, sort_keys=True) if as_json else "\n".join([*told["words"], f"receipt: {page}"]))
    if told["found"]["anything"]:
        raise LeakFound(f"{folder}: more of the forgotten documents is left than chance gives; see {page}")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The metrics that a suite can use."""
    import importlib

    from .metric import names

    found = {name: (importlib.import_module(f".metrics.{name}", __package__).__doc__ or "").partition("\n")[0] for name in names()}
    if as_json:
        typer.echo(json.dumps({"metrics": found}, sort_keys=True))
        return
    for name, about in found.items():
        typer.echo(f"{name:<14}{about}")


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _kept(reports: list[dict[str, Any]], out: Path) -> None:
    """The report as JSON and as a page, and a card for each run."""
    from .report import card, page

    out.mkdir(parents=True, exist_ok=True)
    told = reports[0] if len(reports) == 1 else {"suites": reports}
    (out / "report.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n", "utf-8")
    (out / "report.html").write_text(page(reports), "utf-8")
    for report in reports:
        for name in report["runs"]:
            place = out / "cards" / report["name"] / f"{Path(name).name}.md"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(card(report, name), "utf-8")


def _show(reports: list[dict[str, Any]], out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(reports[0] if len(reports) == 1 else {"suites": reports}, sort_keys=True))
        return
    for report in reports:
        for name, told in report["runs"].items():
            last = told["rows"][-1]
            rates = [f"TER {family} {rates['ter']:.2f} %" for family, rates in last.get("extraction", {}).items()]
            rates += [
                f"perplexity {which} {one['mean']:.2f}" for which, one in last.get("perplexity", {}).items() if one["mean"] is not None
            ]
            typer.echo(f"{report['name']}: {name}, step {last['step']}: {', '.join(rates) or 'measured'}")
    typer.echo(f"report: {out / 'report.html'}")


def main() -> None:
    """The console script: every error is one clear line and its exit code, without values."""
    from sanitize.errors import SanitizeError, unforeseen

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        app()
    except SystemExit:
        raise
    except KeyboardInterrupt:
        typer.echo("stopped; the same command begins again, and finds what was trained", err=True)
        sys.exit(130)
    except SanitizeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BaseException as error:
        typer.echo(f"error: {unforeseen(error)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
