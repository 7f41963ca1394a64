"""The command `sanitize-train`: a recipe in, a run folder out; errors become one line and an exit code."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

AsJson = Annotated[bool, typer.Option("--json", help="one line, one object, on stdout; all else on stderr")]


class _Recipes(TyperGroup):
    """The first word is a verb, or else the recipe of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["run", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="sanitize-train",
    cls=_Recipes,
    help="Train a language model on sanitized shards: sanitize-train RECIPE|NAME --out RUN. The same command again resumes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command("run")
def run(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|NAME", help="a TOML file, or a shipped recipe (sanitize-train list)")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="the run folder")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the recipe, such as run.epochs=8", show_default=False)
    ] = None,
    data: Annotated[str | None, typer.Option(metavar="DATA", help="short for --set data.path=DATA", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Train by a recipe (the word `run` may be left out)."""
    from .recipe import Recipe
    from .training_run import fit

    asked = [*(changes or ()), *([f"data.path={json.dumps(data)}"] if data is not None else [])]
    finished = (out / "train.json").is_file()
    result = fit(Recipe.of(recipe, asked), out, progress=lambda line: typer.echo(line, err=True))
    result = {**result, "out": str(out), "changed": not finished}
    if as_json:
        typer.echo(json.dumps(result, sort_keys=True))
    else:
        typer.echo(f"{'trained' if result['changed'] else 'was trained'}: {result['steps']} steps, {result['documents']} documents seen")
        typer.echo(f"{len(result['checkpoints'])} checkpoints in {out / 'checkpoints'}, the last one {result['final']}")


@app.command("unlearn")
def unlearn(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="the run folder; for dp2unlearning that of all stages")],
    data: Annotated[Path, typer.Option(metavar="DATA", help="what the model was trained on")],
    method: Annotated[str, typer.Option(metavar="METHOD", help="ga, gd, kl, idk, dpo, or dp2unlearning")] = "gd",
    model: Annotated[
        Path | None, typer.Option(metavar="CHECKPOINT", help="the model that forgets; for dp2unlearning a base model", show_default=False)
    ] = None,
    forget: Annotated[
        Path | None, typer.Option(metavar="IDS", help="ids of documents, one a line (sanitize subject --documents)", show_default=False)
    ] = None,
    rewritten: Annotated[
        Path | None, typer.Option(metavar="DATA", help="dp2unlearning: the same documents, rewritten", show_default=False)
    ] = None,
    recipe: Annotated[str, typer.Option(metavar="RECIPE", help="dp2unlearning: a recipe with a table [base]")] = "dp2unlearning",
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change the recipe, such as run.epochs=8", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a model forget documents: from its checkpoint (ga, gd, kl, idk, dpo), or by stages from a base model (dp2unlearning)."""
    from sanitize.errors import UsageError

    from . import unlearning as room
    from .recipe import Recipe

    def say(line: str) -> None:
        typer.echo(line, err=True)

    if method == "dp2unlearning":
        stages = room.Stages(recipe=Recipe.of(recipe, changes or ()), data=data, out=out, rewritten=rewritten, model=model, progress=say)
        result = stages.go(forget)
        lines = [f"{result['newest']}: {result['forgotten']} documents forgotten", result["guarantee"]["words"]]
    else:
        if model is None or forget is None:
            raise UsageError(f"--method {method} needs --model CHECKPOINT and --forget IDS")
        result = room.forget(method, model=model, forget=forget, data=data, out=out, changes=changes or (), progress=say)
        lines = [f"{method}: {result['steps']} steps, the last checkpoint is {out / 'checkpoints' / result['final']}"]
        lines.append("nothing is proven by this: measure what the model still knows")
    if as_json:
        typer.echo(json.dumps({**result, "out": str(out)}, sort_keys=True))
    else:
        typer.echo("\n".join(lines))


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The shipped recipes and the objectives."""
    import importlib

    from . import objectives
    from .recipe import Recipe, recipe_names

    recipes = {name: Recipe.of(name).about for name in recipe_names()}
    losses = {
        name: (importlib.import_module(f".objectives.{name}", __package__).__doc__ or "").partition("\n")[0] for name in objectives.names()
    }
    if as_json:
        typer.echo(json.dumps({"recipes": recipes, "objectives": losses}, sort_keys=True))
        return
    for title, found in (("recipes", recipes), ("objectives", losses)):
        typer.echo(title)
        for name, about in found.items():
            typer.echo(f"  {name:<16}{about}")


def main() -> None:
    """The console script: every error is one clear line and its exit code, without values."""
    from sanitize.errors import SanitizeError, unforeseen

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    before = {one: signal.signal(one, _stopped) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        app()
    except SystemExit:
        raise
    except SanitizeError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except BaseException as error:
        typer.echo(f"error: {unforeseen(error)}", err=True)
        sys.exit(1)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _stopped(number: int, _frame: object) -> None:
    """The first signal ends the command; what the last state does not have is made again."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    typer.echo("stopped; the same command goes on from the last state", err=True)
    raise SystemExit(128 + number)


if __name__ == "__main__":
    main()
