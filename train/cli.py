"""The command `sanitize-train`: trains by a recipe into a run folder. An error is printed as one
line and sets the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .command_line import DefaultRunGroup, run_app

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="print one JSON object in one line on stdout; all else on stderr"),
]


app = typer.Typer(
    name="sanitize-train",
    cls=DefaultRunGroup,
    help=(
        "Train a language model on sanitized shards: sanitize-train RECIPE|NAME --out RUN. The same"
        " command again resumes."
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("run")
def run(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|NAME", help="a TOML file, or a shipped recipe (sanitize-train list)"
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="the run folder")],
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="change the recipe, such as run.epochs=8",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="short for --set data.path=DATA", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model by a recipe (the word `run` may be left out)."""
    from .recipe import Recipe
    from .training_run import fit

    all_changes = [
        *(changes or ()),
        *([f"data.path={json.dumps(data)}"] if data is not None else []),
    ]
    was_finished = (out / "train.json").is_file()
    result = fit(
        Recipe.load(recipe, all_changes), out, progress=lambda line: typer.echo(line, err=True)
    )
    if as_json:
        typer.echo(
            json.dumps(
                {**result.to_dict(), "out": str(out), "changed": not was_finished}, sort_keys=True
            )
        )
    else:
        typer.echo(
            f"{'already trained' if was_finished else 'trained'}: {result.steps} steps,"
            f" {result.documents} documents seen"
        )
        typer.echo(
            f"{len(result.checkpoints)} checkpoints in {out / 'checkpoints'}, the last one"
            f" {result.final}"
        )


@app.command("unlearn")
def unlearn(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="RUN",
            help="the run folder; for dp2unlearning that of all stages",
        ),
    ],
    data: Annotated[Path, typer.Option(metavar="DATA", help="what the model was trained on")],
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD", help="an unlearning objective, such as ga, gd or kl, or dp2unlearning"
        ),
    ] = "gd",
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="the trained model that unlearns; for dp2unlearning a base model",
            show_default=False,
        ),
    ] = None,
    forget: Annotated[
        Path | None,
        typer.Option(
            metavar="IDS",
            help="file of document ids to forget, one a line (from sanitize subject --documents)",
            show_default=False,
        ),
    ] = None,
    rewritten: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA", help="dp2unlearning: the same documents, rewritten", show_default=False
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(metavar="RECIPE", help="dp2unlearning: a recipe with a table [base]")
    ] = "dp2unlearning",
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="change the recipe, such as run.epochs=8",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a model forget documents: from its checkpoint (ga, gd, kl, ...), or in stages from a
    base model (dp2unlearning)."""
    from sanitize.errors import UsageError

    from . import unlearning
    from .recipe import Recipe

    def print_progress(line: str) -> None:
        typer.echo(line, err=True)

    if method == unlearning.DP2UNLEARNING:
        stages = unlearning.Dp2Unlearning(
            recipe=Recipe.load(recipe, changes or ()),
            data=data,
            out_folder=out,
            rewritten=rewritten,
            model=model,
            progress=print_progress,
        )
        facts = stages.run(forget)
        lines = [
            f"{facts['newest']}: {facts['forgotten']} documents forgotten",
            facts["guarantee"]["statement"],
        ]
    else:
        if model is None or forget is None:
            raise UsageError(f"--method {method} needs --model CHECKPOINT and --forget IDS")
        result = unlearning.unlearn_documents(
            method,
            model=model,
            id_list=forget,
            data=data,
            out=out,
            changes=changes or (),
            progress=print_progress,
        )
        lines = [
            f"{method}: {result.steps} steps, the last checkpoint is"
            f" {out / 'checkpoints' / result.final}"
        ]
        lines.append(
            "this method proves nothing: measure what the model still knows (sanitize-eval)"
        )
        facts = result.to_dict()
    if as_json:
        typer.echo(json.dumps({**facts, "out": str(out)}, sort_keys=True))
    else:
        typer.echo("\n".join(lines))


@app.command("merge")
def merge(
    adapter: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="a checkpoint of a recipe with a table [lora]"),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="MODEL", help="the folder of the merged model")
    ],
    as_json: JsonOption = False,
) -> None:
    """Write a LoRA adapter and its base as one model, for programs that read no adapters."""
    from .checkpoint import write_merged_model
    from .model import require_torch

    require_torch()
    path = write_merged_model(adapter, out)
    typer.echo(json.dumps({"out": str(path)}) if as_json else f"merged model: {path}")


@app.command("list")
def list_command(as_json: JsonOption = False) -> None:
    """List the shipped recipes and the objectives."""

    from . import objectives
    from .recipe import Recipe, list_recipes

    recipes = {name: Recipe.load(name).about for name in list_recipes()}
    losses = {
        name: (objectives.load_objective_class(name, "objective").__doc__ or "").partition("\n")[0]
        for name in objectives.list_objectives()
    }
    if as_json:
        typer.echo(json.dumps({"recipes": recipes, "objectives": losses}, sort_keys=True))
        return
    for title, found in (("recipes", recipes), ("objectives", losses)):
        typer.echo(title)
        for name, about in found.items():
            typer.echo(f"  {name:<16}{about}")


def main() -> None:
    """Entry point of the console script."""
    run_app(app, "stopped; run the same command again to resume from the last saved state")


if __name__ == "__main__":
    main()
