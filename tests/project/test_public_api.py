"""The public API: it imports no heavy packages, has all listed names, and `--help` loads little."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.core.command_results import CommandResult
from sanitize.errors import SanitizeError, UsageError

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("polars", "duckdb", "pyarrow", "numpy", "pydantic", "typer", "torch")


def python(*arguments: str) -> str:
    """Runs a new interpreter; returns its output."""
    command = [sys.executable, *arguments]
    process = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    assert process.returncode == 0, process.stdout.decode()
    return process.stdout.decode()


def test_import_loads_no_heavy_packages() -> None:
    output = python(
        "-c",
        f"import json, sys, sanitize; print(json.dumps([name for name in {HEAVY} if name in"
        " sys.modules]))",
    )
    assert json.loads(output) == []


def test_the_command_line_loads_no_library_before_it_sets_their_environment() -> None:
    """Arrow reads ARROW_DEFAULT_MEMORY_POOL at its import; with another pool, a run takes a fifth
    more memory."""
    libraries = ("polars", "duckdb", "pyarrow", "numpy", "torch")
    code = (
        f"import json, sys, sanitize.cli.main; print(json.dumps([name for name in {libraries} if"
        " name in sys.modules]))"
    )
    assert json.loads(python("-c", code)) == []


def test_all_public_names_exist() -> None:
    code = (
        "import json, sanitize; missing = [name for name in sanitize.__all__ if not"
        " hasattr(sanitize, name)]; names = set(sanitize.__all__); hidden = sorted(names -"
        " set(dir(sanitize))); print(json.dumps([missing, hidden, len(sanitize.__all__),"
        " len(names)]))"
    )
    missing, hidden, size, distinct = json.loads(python("-c", code).strip().splitlines()[-1])
    assert missing == []
    assert hidden == []
    assert size == distinct <= 40  # the functions, their result types, and a few more


def test_a_wrong_name_is_an_attribute_error() -> None:
    import sanitize

    with pytest.raises(AttributeError):
        _ = sanitize.no_such_name


def test_help_is_fast() -> None:
    """0.2 s of CPU with 201 modules; counted are the modules, since a time depends on what else the
    machine does."""
    code = (
        "import sys; sys.argv = ['sanitize', '--help']; from sanitize.cli import main\n"
        "try: main.main()\nexcept SystemExit: pass\nprint(); print(len(sys.modules))"
    )
    count = int(python("-c", code).split()[-1])
    assert count < 240, f"sanitize --help loads {count} modules"


def test_help_lists_all_commands() -> None:
    output = python("-m", "sanitize", "--help")
    assert all(
        command_name in output
        for command_name in (
            "run",
            "index",
            "detect",
            "top",
            "sql",
            "explain",
            "verify",
            "report",
            "replay",
            "demo",
            "doctor",
            "list",
            "status",
        )
    )


# ---- functions, arguments, examples ----

PACKAGES = ("sanitize", "sanitize.train", "sanitize.eval")


def list_functions() -> dict[str, Callable[..., object]]:
    """The public functions of the packages, and the methods of the public classes."""
    found: dict[str, Callable[..., object]] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(value):
                found[f"{package}.{name}"] = value
            elif inspect.isclass(value) and value.__module__.startswith("sanitize."):
                methods = inspect.getmembers(value, inspect.isroutine)
                found |= {
                    f"{package}.{name}.{method_name}": method
                    for method_name, method in methods
                    if not method_name.startswith("_")
                    and getattr(method, "__module__", "").startswith("sanitize.")
                }
    return found


# JSON data is what these are for
JSON_METHODS = {"to_dict", "resolved_settings", "public_settings", "to_json"}


def test_no_public_function_returns_a_mapping() -> None:
    returned = {
        name: str(inspect.signature(function).return_annotation)
        for name, function in list_functions().items()
        if name.rpartition(".")[2] not in JSON_METHODS
    }
    assert {
        name: text for name, text in returned.items() if text.startswith(("dict[", "Mapping["))
    } - KIND_LIST.keys() == set()
    functions = [name for name in sanitize.__all__ if inspect.isfunction(getattr(sanitize, name))]
    assert len(functions) == 20


KIND_LIST = {
    "sanitize.list_kinds": "kinds by name, which a mapping says best",
    "sanitize.redact_batch": "columns by name, as `datasets` wants them",
}


def test_results_are_frozen_dataclasses() -> None:
    results = [
        value
        for name in sanitize.__all__
        if inspect.isclass(value := getattr(sanitize, name)) and issubclass(value, CommandResult)
    ]
    assert len(results) == 14
    for result in results:
        assert dataclasses.is_dataclass(result) and result.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert result.__doc__


@pytest.mark.parametrize(
    "name", [name for name in sanitize.__all__ if inspect.isfunction(getattr(sanitize, name))]
)
def test_functions_are_documented(name: str) -> None:
    function = getattr(sanitize, name)
    assert inspect.getdoc(function) and "Raises" in (inspect.getdoc(function) or "")
    positional = (
        "inputs out work manifest texts batch records match labels others query folder".split()
    )
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY and name not in (
            "list_kinds",
            "sql",
        ):
            assert (
                parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.name in positional
            )


@pytest.fixture(scope="module")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, which examples of other functions read; `run` and `index` write
    elsewhere or over it."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pl.DataFrame(
            {"text": ["Dear Ann Lee, is it ann.lee@example.com or ann.lee@example.com?"]}
        ).write_parquet("mails.parquet")
        sanitize.run("mails.parquet", "clean", plan="redact", seed=1, workers=1)
    return folder


@pytest.mark.parametrize(
    "name", [*(n for n in sanitize.__all__ if inspect.isfunction(getattr(sanitize, n))), "Plan"]
)
def test_examples_run(
    name: str, example_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples of docstrings, in an empty folder without a network."""
    value = getattr(sanitize, name)
    shutil.copytree(example_folder, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    globals_of_examples = {"sanitize": sanitize, "Plan": sanitize.Plan, "pl": pl}
    if name in ("run", "index", "explain"):  # these make what they read
        shutil.rmtree("clean")
        shutil.rmtree("clean.private")
    examples = doctest.DocTestFinder(recurse=inspect.isclass(value)).find(
        inspect.unwrap(value), name, globs=globals_of_examples
    )
    assert any(example.examples for example in examples) or name == "list_kinds"
    for example in examples:
        output: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
            example, out=output.append
        )
        assert not output, "".join(output)


FRAME = pl.DataFrame({"text": ["x"]})
WRONG_CALLS: dict[str, tuple[Callable[..., object], str]] = {
    "run: no out": (
        lambda: sanitize.run("in"),
        r"run: out is missing; write sanitize.run\(inputs, out, ...\)",
    ),
    "run: number": (
        lambda: sanitize.run(3, "out"),
        "run: inputs is an int; expected a path or a list of paths",
    ),
    "run: frame": (
        lambda: sanitize.run(FRAME.to_series(), "out"),
        r"run: inputs is a Series; .*sanitize.redact and sanitize.detect take texts",
    ),
    "run: dictionary": (
        lambda: sanitize.run({"text": "x"}, "out"),
        "run: inputs is a dict; .*sanitize.stream",
    ),
    "run: list with a number": (
        lambda: sanitize.run(["in", 3], "out"),
        "run: inputs is a list; expected a path or a list of paths",
    ),
    "run: plan by position": (
        lambda: sanitize.run("in", "out", "rmft"),
        "3 arguments are given by position; it takes 2; name the others",
    ),
    "run: inputs by name": (
        lambda: sanitize.run(inputs="in", out="out"),
        "inputs is given by its position, not by its name",
    ),
    "run: misspelt": (
        lambda: sanitize.run("in", "out", text_columns="a"),
        "no argument text_columns; did you mean text_column?",
    ),
    "run: old name": (
        lambda: sanitize.run("in", "out", key_file="k"),
        "run: there is no argument key_file",
    ),
    "run: plan": (
        lambda: sanitize.run("in", "out", plan=3),
        "run: plan is an int; expected the name of a plan, the path",
    ),
    "run: unknown plan": (
        lambda: sanitize.run("in", "out", plan="rmtf"),
        "rmtf: neither a shipped plan nor a file; did you mean rmft",
    ),
    "run: workers": (
        lambda: sanitize.run("in", "out", workers="2"),
        "workers='2': expected a whole number of at least 1",
    ),
    "run: sample": (
        lambda: sanitize.run("in", "out", sample=2),
        "^sample=2: expected a share of the documents above 0",
    ),
    "run: list for a text": (
        lambda: sanitize.run("in", "out", user_column=["a"]),
        r"user_column=\(list\): expected one text",
    ),
    "run: text for a flag": (
        lambda: sanitize.run("in", "out", strict="yes"),
        'strict="yes": expected True or False',
    ),
    "run: verify": (
        lambda: sanitize.run("in", "out", verify="fats"),
        'verify="fats": did you mean fast. Known: ',
    ),
    "run: two policies": (
        lambda: sanitize.run("in", "out", keep="a", drop="a"),
        "the same column is also given with keep",
    ),
    "run: batch": (
        lambda: sanitize.run("in", "out", batch=3),
        "run: batch does not apply to this function, only to stream",
    ),
    "run: no input": (lambda: sanitize.run("nowhere", "out"), "nowhere"),
    "index: no work": (lambda: sanitize.index("in"), "index: work is missing"),
    "index: verify": (
        lambda: sanitize.index("in", "work", verify="off"),
        "index: verify does not apply",
    ),
    "explain: workers": (
        lambda: sanitize.explain("in", workers=2),
        "explain: workers does not apply",
    ),
    "explain: url": (
        lambda: sanitize.explain("s3://bucket/in"),
        "explain reads local files only",
    ),
    "stream: path": (
        lambda: sanitize.stream("in.jsonl"),
        "stream: records is a str; expected an iterable of dictionaries",
    ),
    "stream: number": (
        lambda: sanitize.stream(3),
        "stream: records is an int; expected an iterable of dictionaries",
    ),
    "stream: whole corpus": (
        lambda: sanitize.stream([], plan="pseudonymize"),
        "needs the whole corpus",
    ),
    "stream: column": (
        lambda: list(sanitize.stream([{"body": 1}])),
        "Name the column with text_column=NAME",
    ),
    "stream: item": (lambda: list(sanitize.stream(["x"])), "the source yielded a str"),
    "verify: mode": (lambda: sanitize.verify("out", mode="off"), 'mode="off": known: fast, full'),
    "verify: workers": (
        lambda: sanitize.verify("out", workers=0),
        "workers=0: expected a whole number of at least 1",
    ),
    "verify: work by position": (
        lambda: sanitize.verify("out", "work"),
        "verify: 2 arguments are given by position",
    ),
    "replay: no inputs": (
        lambda: sanitize.replay("out"),
        "replay: inputs, out are missing|replay: inputs is missing",
    ),
    "report: list": (lambda: sanitize.report(["out"]), "report: out is a list; expected a path"),
    "diff: sample": (
        lambda: sanitize.diff("out", sample="3"),
        "diff: sample is a str; expected None or a whole number",
    ),
    "subject: erase": (
        lambda: sanitize.subject("work", ["x"], erase="yes"),
        "subject: erase is a str; expected True or False",
    ),
    "subject: match": (lambda: sanitize.subject("work", 3), "subject: match is an int"),
    "doctor: folder": (
        lambda: sanitize.doctor("nowhere"),
        "nowhere: there is no such folder; expected with folder the folder",
    ),
    "status: none": (lambda: sanitize.status(None), "status: work is None; expected a path"),
    "top: by": (lambda: sanitize.top("work", by=3), "top: by is an int; expected a text"),
    "sql: limit": (lambda: sanitize.sql("work", 3), "sql: query is an int; expected a text"),
    "sample: n": (
        lambda: sanitize.sample_for_labels("work", n="3"),
        "sample_for_labels: n is a str; expected a whole number",
    ),
    "score: missing": (lambda: sanitize.score_labels("work"), "score_labels: labels is missing"),
    "estimate: missing": (
        lambda: sanitize.estimate_missed("work"),
        "estimate_missed: others is missing",
    ),
    "with_: several": (
        lambda: sanitize.Plan.load("rmft").with_(kinds=[]),
        r"3 parts have a setting kinds; .*edit.0.kinds",
    ),
    "with_: none": (
        lambda: sanitize.Plan.load("rmft").with_(kep=2),
        "no part has a setting kep; did you mean keep",
    ),
    "with_: value": (lambda: sanitize.Plan.load("rmft").with_(keep=-1), "keep: expected 0 or more"),
    "with_: place": (
        lambda: sanitize.Plan.load("rmft").with_({"edit.9.keep": 1}),
        "there is no entry 9 in edit",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_calls_are_refused_in_words(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names the argument, what was expected and what to do, in terms of Python; nothing is
    written."""
    monkeypatch.chdir(tmp_path)
    call, message = WRONG_CALLS[case]
    with pytest.raises(SanitizeError, match=message) as caught:
        call()
    # a quoted command keeps its options
    assert not re.search(r"(^|\s)--[a-z]", re.sub("`[^`]*`", "", str(caught.value)))
    assert list(tmp_path.iterdir()) == []


def test_wrong_calls_cover_every_function() -> None:
    functions = {name for name in sanitize.__all__ if inspect.isfunction(getattr(sanitize, name))}
    sources = " ".join(inspect.getsource(call) for call, _ in WRONG_CALLS.values())
    # have tests of their own
    assert {name for name in functions if f"sanitize.{name}(" not in sources} == {
        "detect",
        "list_kinds",
        "redact",
        "redact_batch",
    }


def test_a_single_path_may_be_a_list_of_one(tmp_path: Path) -> None:
    pl.DataFrame({"body": ["ann@example.com"]}).write_parquet(tmp_path / "in.parquet")
    for number, text_column in enumerate(("body", ["body"])):
        result = sanitize.run(
            [tmp_path / "in.parquet"],
            tmp_path / f"out{number}",
            plan="redact",
            text_column=text_column,
            workers=1,
        )
        assert result.replaced == 1
    with pytest.raises(UsageError, match="was made with another plan; use replace=True"):
        sanitize.run(
            tmp_path / "in.parquet",
            tmp_path / "out0",
            plan="surrogates",
            text_column="body",
            workers=1,
        )
