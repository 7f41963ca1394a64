"""The reference pages: commands, plans, parts, recipes, kinds, tables, queries, errors and the
Python API, as the code defines them."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import typing
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
import polars as pl
import typer.main
from pydantic import BaseModel

import sanitize
import sanitize.cli.main
import sanitize.eval.cli
import sanitize.train.cli
from docs.generate.blocks import describe_treatment, list_international_kinds
from docs.generate.markdown import format_settings, format_table
from docs.generate.schemas import PART_TABLES, load_part_model
from sanitize import errors
from sanitize.core import part_protocols
from sanitize.core.command_results import CommandResult
from sanitize.core.keys import Draws
from sanitize.inspection.plan_tests import ExampleTestResult
from sanitize.kinds import document_numbers, labelled_forms, national_id
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import (
    CATEGORIES,
    RANK_RANGES,
    Kind,
    all_kinds,
    builtin_kinds,
    redraw_characters,
)
from sanitize.plans import plan
from sanitize.plans.coverage import PlanDescription
from sanitize.plans.shipped_plans import list_plans
from sanitize.storage import queries, table_schemas
from sanitize.train import objectives, recipe

CHANCE_DRAWS = 100_000
DECISIONS = Path(__file__).resolve().parents[1] / "adr"


def read_docstring(documented: object) -> str:
    """The docstring of a module, class or function, without its indentation."""
    return inspect.cleandoc(getattr(documented, "__doc__", "") or "").strip()


def format_docstring(documented: object) -> list[str]:
    """The docstring of a class with settings; a paragraph that lists names and meanings in two
    columns stays as it is."""
    lines: list[str] = []
    for paragraph in read_docstring(documented).split("\n\n"):
        has_columns = any(re.match(r"\w+(, \w+)*   +\S", line) for line in paragraph.splitlines())
        lines += ["", *(["```text", paragraph, "```"] if has_columns else paragraph.splitlines())]
    return lines[1:]


# ---- commands ----

PROGRAMS = {
    "sanitize": sanitize.cli.main.app,
    "sanitize-train": sanitize.train.cli.app,
    "sanitize-eval": sanitize.eval.cli.app,
}


def list_commands(program: str) -> dict[str, click.Command]:
    """The commands of a program by name, in the order of `--help`."""
    group = typer.main.get_command(PROGRAMS[program])
    return dict(group.commands)  # type: ignore[attr-defined]


def command_page() -> str:
    lines = [
        "# Commands",
        "",
        (
            "Every command also has `-h` and `--help`. Long options may be written `--option VALUE`"
            " or `--option=VALUE`. Defaults come from"
        ),
        "variables and from `sanitize.toml` ([Set defaults](../how_to/settings.md)).",
        "",
        (
            "`sanitize --install-completion` lets the shell (bash, zsh, fish, PowerShell) complete"
            " commands, options, and the names of plans,"
        ),
        "kinds and queries; `--show-completion` prints the script instead.",
    ]
    for program in PROGRAMS:
        for name, command in list_commands(program).items():
            lines += [
                "",
                f"## {program} {name}",
                "",
                (command.help or "").replace("\n", " ").strip(),
                "",
            ]
            lines += format_command(program, name, command)
    return "\n".join([*lines, ""])


def format_command(program: str, name: str, command: click.Command) -> list[str]:
    """Usage and options of a command."""
    # a command keeps the help option of its first context: without these names it would lose -h
    context = click.Context(
        command, info_name=f"{program} {name}", help_option_names=["-h", "--help"]
    )
    lines = [
        "```text",
        " ".join([f"{program} {name}", *command.collect_usage_pieces(context)]),
        "```",
        "",
    ]
    rows = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None or "--help" in parameter.opts:
            continue
        usage, text = record
        rows.append(
            [
                f"`{usage}`".replace("|", "\\|"),
                re.sub(r"([|<\[\]*_])", r"\\\1", " ".join(text.split())),
            ]
        )
    return [*lines, *format_table(["argument or option", "meaning"], rows)] if rows else lines[:-1]


# ---- plans and recipes ----

PLAN_TABLES: dict[str, tuple[type[BaseModel], str]] = {
    "[find]": (plan.FindSettings, "What is searched for."),
    "[[kind]]": (CustomKind, "A kind of your own; see [Define a kind](../how_to/own_kinds.md)."),
    "[blacklist]": (
        plan.BlacklistSettings,
        "A word blacklist; see [List words](../how_to/word_blacklist.md).",
    ),
}


def plan_page() -> str:
    lines = [
        "# Plan keys",
        "",
        (
            "A plan is a TOML file, given as `--plan FILE`. An unknown key is refused, with the"
            " nearest known one. The tables of parts"
        ),
        (
            "(`[[drop]]`, `[[edit]]`, and entries of `find.finders`) are on the page"
            " [Parts](parts.md). `--set` changes one key, such as"
        ),
        (
            "`--set edit.0.keep=2`. [plan.schema.json](plan.schema.json) is a JSON schema of this"
            " format, for editors that check TOML: write"
        ),
        (
            "`#:schema PATH/plan.schema.json` in the first line of a plan; a file of `sanitize plan"
            " init` names the PATH of the installed one."
        ),
        "",
        "## Top level",
        "",
        *format_settings(plan._PlanFile, hidden=("find", "kind", "blacklist")),
    ]
    for table, (model, sentence) in PLAN_TABLES.items():
        lines += [
            "",
            f"## {table}",
            "",
            sentence,
            "",
            *format_docstring(model),
            "",
            *format_settings(model),
        ]
    return "\n".join([*lines, ""])


def part_page() -> str:
    lines = [
        "# Parts of a plan",
        "",
        (
            '`use = "NAME"` names a part; a dotted path (`use = "mypackage.mine"`) names a module'
            " of your own."
        ),
    ]
    titles: dict[part_protocols.PartType, str] = {
        "find": "Finders",
        "drop": "Droppers",
        "edit": "Editors",
    }
    for part_type, title in titles.items():
        lines += ["", f"## {title}"]
        for name in part_protocols.list_part_names(part_type):
            module = importlib.import_module(
                f"sanitize.{part_protocols.PACKAGES[part_type]}.{name}"
            )
            model = load_part_model(part_type, name)
            lines += ["", f"### {PART_TABLES[part_type]} {name}", "", read_docstring(module), ""]
            if model is not part_protocols.Finder:
                lines += [*format_docstring(model), "", *format_settings(model)]
    return "\n".join([*lines, ""])


def recipe_page() -> str:
    sections: dict[str, type[BaseModel]] = {
        "[data]": recipe.DataSettings,
        "[model]": recipe.ModelSettings,
        "[lora]": recipe.LoraSettings,
        "[tokenizer]": recipe.TokenizerSettings,
        "[run]": recipe.TrainingSettings,
        "[privacy]": recipe.PrivacySettings,
        "[base]": recipe.BaseStageSettings,
    }
    lines = [
        "# Recipe keys",
        "",
        (
            "A recipe of `sanitize-train` is a TOML file; see [Train a model](../how_to/train.md)."
            " [recipe.schema.json](recipe.schema.json)"
        ),
        "is a JSON schema of this format. Shipped recipes:",
        "",
        *(f"- `{name}`: {recipe.Recipe.load(name).about}" for name in recipe.list_recipes()),
    ]
    for table, model in sections.items():
        lines += ["", f"## {table}", "", *format_docstring(model), "", *format_settings(model)]
    lines += ["", "## [objective]", "", '`use = "NAME"` names the objective.']
    for name in objectives.list_objectives():
        model = type(objectives.load_objective({"use": name}, "recipe"))
        lines += ["", f"### {name}", "", *format_docstring(model), "", *format_settings(model)]
    return "\n".join([*lines, ""])


# ---- data ----


def kind_page() -> str:
    names = list_plans(of_papers=False)
    kinds = list_international_kinds().values()
    rows = [
        [
            f"`{kind.name}`",
            kind.about,
            kind.category,
            *(describe_treatment(name, kind.name) for name in names),
        ]
        for kind in kinds
    ]
    lines = [
        "# Kinds",
        "",
        (
            "A *variant* keeps one randomly chosen component of the value; a *surrogate* keeps only"
            " its shape. *Left* means: found, counted,"
        ),
        (
            "not edited. A kind is one file in `sanitize/kinds/`; its docstring, below, defines"
            " what is found."
        ),
        "",
        *format_table(["kind", "what it is", "category", *(f"`{name}`" for name in names)], rows),
        "",
        "## Categories",
        "",
        (
            "A plan may name a category in place of its kinds ([Choose a"
            " plan](../how_to/choose_a_plan.md#categories))."
        ),
        "",
        *format_table(
            ["category", "what it contains"],
            [[f"`{name}`", about] for name, about in CATEGORIES.items()],
        ),
    ]
    lines += [
        "",
        "## Order of search",
        "",
        (
            "A kind is searched in the text that the kinds of earlier phases left. Where two kinds"
            " of a phase match at one place, the one of"
        ),
        "the lower rank is tried first.",
        "",
        *format_table(["phase", "ranks", "content", "kinds, with ranks"], list_ranks()),
    ]
    lines += [
        "",
        "## Labels",
        "",
        read_docstring(labelled_forms),
        "",
        read_docstring(document_numbers),
    ]
    for kind in kinds:
        lines += [
            "",
            f"## {kind.name}",
            "",
            *([describe_labels(kind)] if kind.labelled_forms and not kind.pattern else []),
            *([read_docstring(module)] if (module := find_kind_module(kind)) else []),
            "",
        ]
        lines += format_examples(kind)
    national = [
        [
            f"`{kind.country}`",
            f"`{kind.name}`",
            kind.about,
            ", ".join(f"`{label}`" for form in kind.labelled_forms for label in form.labels),
            describe_chance(kind),
            "yes" if kind.name in national_id.STRONG_KINDS else "behind its label",
        ]
        for kind in all_kinds().values()
        if kind.country
    ]
    lines += [
        "",
        "## National identifiers",
        "",
        (
            "As NATIONAL_ID, a plan finds those of all countries behind their labels, and without a"
            " label those that fewer than one random number in 10,000 of the same form passes. A"
            ' plan that names a country (`countries = ["DE", "GB"]` in its'
            " `[find]`) searches for those of that country in all forms, each as its own kind; it"
        ),
        (
            "lists them in `kinds` too. The shipped plans decide about them by their category,"
            " `identifier`:"
        ),
        (
            '`--set \'find.countries=["DE"]\' --set \'find.kinds=["default", "DE_TAX_ID"]\'` is'
            " enough."
        ),
        "",
        "`chance`: of a random number of the same form to pass the check, from 100,000 draws.",
        "",
        *format_table(
            ["country", "kind", "what it is", "labels", "chance", "found as NATIONAL_ID"],
            sorted(national),
        ),
        "",
        read_docstring(importlib.import_module("sanitize.kinds.countries.national_id")),
        "",
        *(f"- {' '.join(read_docstring(module).split())}" for module in national_modules()),
        "",
        "## What is not a kind, and why",
        "",
        (
            "A user name alone in prose, and in `github.com/bob`: the first is a word, the second"
            " as often a project. USER_NAME covers user"
        ),
        (
            "names that the context identifies; a list of others can be given as known values. A"
            " password is found only by an issuer's prefix"
        ),
        (
            "or a setting's name. A `[[kind]]` table of a plan defines [a kind of your"
            " own](../how_to/own_kinds.md)."
        ),
    ]
    return "\n".join([*lines, ""])


def list_ranks() -> list[list[str]]:
    """The rows of `RANK_RANGES`, each with the kinds that have such a phase and rank, in the order
    in which they are tried."""
    rows = []
    for phases, low, high, content in RANK_RANGES:
        kinds = [
            kind
            for kind in builtin_kinds().values()
            if kind.phase in phases and low <= kind.rank <= high
        ]
        listed = ", ".join(f"`{kind.name}` {kind.rank}" for kind in kinds)
        rows.append(
            [
                " or ".join(map(str, phases)),
                f"{low}-{high}" if high > low else str(low),
                content,
                listed,
            ]
        )
    return rows


def find_kind_module(kind: Kind) -> ModuleType | None:
    """The module that defines a kind alone; None for a kind that is a row of a table."""
    name = f"sanitize.kinds.{kind.name.lower()}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def national_modules() -> list[ModuleType]:
    """The modules that define national identifiers."""
    folder = importlib.import_module("sanitize.kinds.countries").__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folder))
    modules = [importlib.import_module(f"sanitize.kinds.countries.{name}") for name in names]
    return [module for module in modules if hasattr(module, "KINDS")]


def describe_labels(kind: Kind) -> str:
    """The labels of a kind, as a sentence."""
    labels = dict.fromkeys(label for form in kind.labelled_forms for label in form.labels)
    numbers = dict.fromkeys(label for form in kind.labelled_forms for label in form.number_labels)
    alone = f"Labels: {', '.join(f'`{label}`' for label in labels)}."
    with_number = f" With a word for number behind it: {', '.join(f'`{one}`' for one in numbers)}."
    return alone + (with_number if numbers else "")


def measure_chance(kind: Kind) -> float:
    """The share of random numbers that pass a kind's check, of the form of its first example that
    is found without a label."""
    numbers = np.arange(CHANCE_DRAWS, dtype=np.uint64)
    draws = Draws.from_words(b"chances of forms", numbers)
    examples = pl.Series("value", [value for _, *values in kind.hits for value in values])
    example = examples.filter(_is_found_alone(kind, examples)).head(1)
    drawn = redraw_characters(example.new_from_index(0, CHANCE_DRAWS), draws)
    good = _is_found_alone(kind, drawn)
    assert kind.check is not None
    return float((good & kind.check(drawn).is_null()).sum()) / CHANCE_DRAWS


def _is_found_alone(kind: Kind, values: pl.Series) -> pl.Series:
    flags = (pl.lit(False).alias(name) for name in ("bracketed", "id_field", "address_field"))
    return kind.is_value(values.to_frame().with_columns(flags))


def describe_chance(kind: Kind) -> str:
    """The chance in words."""
    share = measure_chance(kind)
    return f"1 in {float(f'{1 / share:.2g}'):,.0f}" if share >= 1e-4 else "below 1 in 10,000"


def format_examples(kind: Kind) -> list[str]:
    """The first example of each sort, as two sentences."""
    text, *values = kind.hits[0]
    found, near_miss = (
        f"`{json.dumps(one, ensure_ascii=False)[1:-1]}`" for one in (text, kind.near_misses[0])
    )
    return [
        f"Example: {found} has {', '.join(f'`{value}`' for value in values)}; {near_miss} has none."
    ]


TABLE_FOLDERS = {
    "document_ids": "tables/document_ids",
    "occurrences": "tables/occurrences",
    "value_counts": "tables/value_counts",
    "skipped": "tables/skipped",
    "value_spellings": "vault/values",
    "quarantine": "quarantine/*",
    "swept": "runs/*/sweep",
    "edits": "runs/*/edits",
    "labels": "runs/*/vault/labels",
    "column_values": "runs/*/vault/column_values",
    "drops": "runs/*/drops",
    "blacklist": "runs/*/vault/blacklist",
    "ledger": "runs/*/ledger",
}
COMPUTED_VIEWS = {  # views that are computed when they are queried, and their sources
    "users": "the column `user_id` of `documents`",
    "value_users": "`occurrences` and `users`",
    "ngrams": "all texts of `documents`, which are read each time",
    "parts": "`runs/*/plan.json`",
    "sources": "the list of files in `index.json` and the metadata of those in `documents/`",
}


def table_page() -> str:
    lines = [
        "# Tables",
        "",
        (
            f"Version {table_schemas.VERSION}. Folders of Parquet files below the private folder,"
            " one file a task; `sanitize sql` shows each"
        ),
        (
            "as a view, with texts and raw values masked unless you add `--reveal`. Spans are"
            " half-open. `documents` is one more view: the"
        ),
        "input in standard form, by `doc_no`.",
    ]
    for table in table_schemas.ALL_TABLES.values():
        source = COMPUTED_VIEWS.get(table.name)
        location = (
            f"Computed when queried, from {source}"
            if source
            else f"In `{TABLE_FOLDERS[table.name]}/`"
        )
        lines += [
            "",
            f"## {table.name}",
            "",
            f"{table.row_description[0].upper()}{table.row_description[1:]}. {location}.",
            "",
        ]
        rows = [
            [
                f"`{field.name}`",
                "string" if "string" in str(field.type) else str(field.type),
                table.column_descriptions[field.name],
            ]
            for field in table.schema
        ]
        lines += format_table(["column", "type", "what it is"], rows)
    return "\n".join([*lines, ""])


def query_page() -> str:
    lines = [
        "# Queries",
        "",
        (
            "Every file of `sql/` is a query over the [tables](tables.md): `sanitize sql WORK"
            " --name NAME --set PARAMETER=VALUE`;"
        ),
        "[Explore an index](../how_to/explore.md) describes how.",
    ]
    ordered = sorted(
        queries.load_queries().values(), key=lambda query: (not query.is_user_query, query.name)
    )
    for title, is_user_query in (
        ("Queries for users", True),
        ("Queries of a run, over tables that exist only while a plan runs", False),
    ):
        lines += ["", f"## {title}"]
        for query in (query for query in ordered if query.is_user_query == is_user_query):
            parameters = (
                ", ".join(f"`{parameter.name}={parameter.usage}`" for parameter in query.parameters)
                or "none"
            )
            lines += ["", f"### {query.name}", "", query.description, ""]
            lines += [
                f"- tables: {', '.join(f'`{name}`' for name in query.tables)}",
                f"- parameters: {parameters}",
            ]
            lines += [f"- columns: {', '.join(f'`{name}`' for name in query.output_columns)}"]
    return "\n".join([*lines, ""])


def error_page() -> str:
    codes: dict[int, list[Any]] = {}
    for name in errors.__all__:
        error = getattr(errors, name)
        if isinstance(error, type) and issubclass(error, errors.SanitizeError):
            codes.setdefault(error.exit_code, []).append(error)
    rows = [["0", "", "done"]]
    for code, classes in sorted(codes.items()):
        rows += [
            [str(code), f"`{error.__name__}`", " ".join(read_docstring(error).split())]
            for error in classes
        ]
    rows.append(["130, 143", "", "stopped by you, or by the system; the same command resumes"])
    return "\n".join(
        [
            "# Errors and exit codes",
            "",
            (
                "Every error is one line: what happened, where, what was expected, what to do. It"
                " never contains a value or a text of the"
            ),
            (
                "data. In Python it is an exception, a subclass of `sanitize.SanitizeError`"
                " (`sanitize.errors`) whose"
            ),
            "`exit_code` is the command's.",
            "",
            *format_table(["exit code", "exception", "meaning"], rows),
            "",
        ]
    )


def python_page() -> str:
    """The public API by mkdocstrings: functions first, then classes, each under its public name."""
    names = [name for name in sanitize.__all__ if not name.startswith("_")]
    functions = [name for name in names if not isinstance(getattr(sanitize, name), type)]
    lines = [
        "# Python API",
        "",
        "`import sanitize` gives all names below, each imported when it is first used.",
        "",
    ]
    for title, group in (
        ("Functions", functions),
        ("Classes", [name for name in names if name not in functions]),
    ):
        lines += [f"## {title}", ""]
        for name in group:
            public = getattr(sanitize, name)
            lines += [
                f"::: {public.__module__}.{public.__qualname__}",
                "    options:",
                f"      heading: sanitize.{name}",
                "",
            ]
    lines += [
        "## Results",
        "",
        "What the functions return. `to_dict()` gives what `--json` prints.",
        "",
    ]
    found: dict[str, type] = {}
    public_classes = [getattr(sanitize, name) for name in names if name not in functions]
    for result in (PlanDescription, ExampleTestResult, *public_classes):
        if issubclass(result, CommandResult):
            _collect_dataclasses(result, found)
    for name, result in sorted(found.items()):
        if name not in names:
            lines += [
                f"::: {result.__module__}.{name}",
                "    options:",
                f"      heading: {name}",
                "",
            ]
    return "\n".join(lines)


def _collect_dataclasses(result: Any, found: dict[str, type]) -> None:
    """Adds a result type to `found` by its name, with its base classes and the types of its
    fields."""
    for argument in typing.get_args(result):
        _collect_dataclasses(argument, found)
    if dataclasses.is_dataclass(result) and isinstance(result, type):
        found[result.__name__] = result
        for other in (*result.__bases__, *typing.get_type_hints(result).values()):
            _collect_dataclasses(other, found)


def decision_page() -> str:
    """The list of decision records."""
    titles = {
        path.name: path.read_text("utf-8").partition("\n")[0].lstrip("# ")
        for path in sorted(DECISIONS.glob("[0-9]*.md"))
    }
    return "\n".join(
        [
            "# Decisions",
            "",
            "A decision that binds others, half a page each: context, decision, consequences. What",
            "only explains a line of code is a comment beside the line, and what explains a",
            "feature is in the page of the feature.",
            "",
            *(
                f"- [{title.partition(': ')[0]}]({name}): {title.partition(': ')[2]}"
                for name, title in titles.items()
            ),
            "",
        ]
    )


PAGES: dict[str, Callable[[], str]] = {
    "adr/index.md": decision_page,
    "reference/commands.md": command_page,
    "reference/plan.md": plan_page,
    "reference/parts.md": part_page,
    "reference/recipe.md": recipe_page,
    "reference/kinds.md": kind_page,
    "reference/tables.md": table_page,
    "reference/queries.md": query_page,
    "reference/errors.md": error_page,
    "reference/python.md": python_page,
}
