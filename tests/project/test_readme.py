"""README and documentation agree with the program: commands and Python blocks run, outputs and
numbers are its own, names and links exist.

Blocks of code in a page mean:

    bash       commands that are run, in order, in one folder a page; lines of other programs than
               sanitize are not
    console    the same, with `$ ` before each command and its output below; `...` in a line of its
               own stands for any lines
    python     run in order, with one namespace a page
    title="F"  the content of a file F of that folder
    sh         commands that cannot be run here (storages, clusters, data of your own); their
               options are checked all the same

The folder of a page begins with mails.mbox, tonight.mbox, and the output of `sanitize run
mails.mbox -o clean`. `make generate` writes what is generated: blocks, pages and JSON schemas.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sanitize.cli.main
from docs.generate import blocks, committed_parts, reference, schemas
from sanitize.cli.generated_mails import generate_mails, write_mbox
from sanitize.plans.plan import load_plan
from sanitize.plans.shipped_plans import plan_names
from sanitize.storage import table_schemas

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
# what is written by hand: without the generated pages and blocks
DOCS = {
    f"docs/{name}": re.sub(
        r"(?ms)(^<!-- generated: [\w-]+ -->\n).*?(^<!-- /generated -->$)",
        r"\1\2",
        path.read_text("utf-8"),
    )
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if (name := path.relative_to(ROOT / "docs").as_posix()) not in reference.PAGES
}
PAGES = {"README.md": README, **DOCS}
ALL_PAGES = {
    **PAGES,
    **{name: (ROOT / name).read_text("utf-8") for name in ("CHANGELOG.md", "CONTRIBUTING.md")},
}
LEARN = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
MODULES = {
    "sanitize": "sanitize.cli.main",
    "sanitize-train": "sanitize.train.cli",
    "sanitize-eval": "sanitize.eval.cli",
}
UPDATE = "run `make generate`"


# ---- blocks of code ----


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: its language, the file that it shows (or none), and its lines."""

    language: str
    title: str
    text: str


def read_code_blocks(page: str) -> list[CodeBlock]:
    """The fenced blocks of a page, also those inside of lists."""
    fences = re.findall(
        r"^( *)```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", page, re.MULTILINE | re.DOTALL
    )
    return [
        CodeBlock(language, title, re.sub(rf"(?m)^{indent}", "", text))
        for indent, language, title, text in fences
    ]


def is_run(block: CodeBlock) -> bool:
    return block.language in ("bash", "console", "python")


def split_console(text: str) -> list[tuple[str, str]]:
    """The commands of a block of commands and outputs, each with the output that is shown."""
    pieces = re.split(r"(?m)^\$ ", text)[1:]
    return [(piece.partition("\n")[0], piece.partition("\n")[2]) for piece in pieces]


def is_output_shown(shown: str, output: str) -> bool:
    """Whether the output has the lines that are shown, in order and without gaps, but for those
    that `...` stands for."""
    lines = [line.rstrip() for line in output.strip().splitlines()]
    pattern = "\n".join(
        r"(?:.*\n)*?.*" if line.strip() == "..." else re.escape(line.rstrip())
        for line in shown.strip().splitlines()
    )
    return re.fullmatch(pattern, "\n".join(lines)) is not None


def read_commands(block: CodeBlock) -> list[tuple[str, str | None]]:
    """The commands of a block, each with the output that is shown, if one is."""
    if block.language == "console":
        return [
            (command, shown if shown.strip() else None)
            for command, shown in split_console(block.text)
        ]
    return (
        [(line, None) for line in block.text.replace("\\\n", " ").splitlines()]
        if block.language in ("bash", "sh")
        else []
    )


def is_own_command(line: str) -> bool:
    return re.match(r"sanitize(-train|-eval)? ", line) is not None


# ---- running pages ----


@dataclass(frozen=True)
class CommandOutput:
    returncode: int
    stdout: str
    stderr: str


def run_command(
    arguments: list[str], folder: Path, module: str = "sanitize.cli.main"
) -> CommandOutput:
    """Runs a console script in this process, with its streams in files as with a shell's `>`. That
    it also works from a shell is tested in tests/cli/test_commands.py and
    tests/train/test_train_cli.py, and the wheel's scripts in tests/project/test_wheel.py."""
    script: Any = importlib.import_module(module)
    variables = {
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "120",
        "OMP_NUM_THREADS": "1",
    }
    with contextlib.ExitStack() as stack:
        out, err = (
            stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(2)
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setattr(sys, "argv", [script.__name__, *arguments])
        patch.setattr(sys, "stdin", stack.enter_context(open(os.devnull, encoding="utf-8")))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            script.main()
            exit_code: object = 0
        except SystemExit as end:
            exit_code = end.code
        for stream in (out, err):
            stream.seek(0)
        return CommandOutput(int(str(exit_code or 0)), out.read(), err.read())


@pytest.fixture(scope="module")
def starting_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the folder of each page begins with."""
    folder = tmp_path_factory.mktemp("start")
    write_mbox(generate_mails(60, 7), folder / "mails.mbox")
    write_mbox(generate_mails(20, 8), folder / "tonight.mbox")
    with (folder / "mails.mbox").open("a") as file:
        file.write(
            "From x Thu Jan  1 00:00:00 1970\nFrom: Ann Roe <ann.roe@example.com>\nTo:"
            " bo@example.org\nSubject: Lunch\n\nAt one? Ann Roe\n"
        )
    assert (
        run_command(
            ["run", "mails.mbox", "-o", "clean", "--plan", "rmft", "--quiet"], folder
        ).returncode
        == 0
    )
    return folder


def run_page(page: str, folder: Path) -> int:
    """Runs the blocks of a page in order; returns the number of commands and Python blocks that
    ran."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in read_code_blocks(page):
        if block.title:
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.language == "python":
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block.text, "<page>", "exec"), names)
            count += 1
        elif block.language in ("bash", "console"):
            for line, shown in read_commands(block):
                if not is_own_command(line):
                    continue
                program, *arguments = shlex.split(line, comments=True)
                if program != "sanitize" and not LEARN:
                    continue  # the extra `learn` is not installed
                arguments, target = split_redirection(arguments)
                result = run_command(arguments, folder, MODULES[program])
                assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
                if target:
                    (folder / target).write_text(result.stdout, "utf-8")
                if shown is not None:
                    assert is_output_shown(shown, result.stdout), (
                        f"{line} prints\n{result.stdout}\nbut the page shows\n{shown}"
                    )
                count += 1
    return count


def split_redirection(arguments: list[str]) -> tuple[list[str], str]:
    """The arguments before `> FILE`, and FILE."""
    return (
        (arguments[:-2], arguments[-1])
        if len(arguments) > 2 and arguments[-2] == ">"
        else (arguments, "")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, page in PAGES.items()
        if any(is_run(block) for block in read_code_blocks(page))
    ],
)
def test_commands_and_python_blocks_run(name: str, starting_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    # the page makes it itself
    ignored = shutil.ignore_patterns("clean*") if " -o clean " in PAGES[name] else None
    shutil.copytree(starting_folder, folder, ignore=ignored)
    assert run_page(PAGES[name], folder) > 0


@pytest.mark.slow
def test_the_step_for_datatrove_runs(tmp_path: Path) -> None:
    pytest.importorskip("datatrove", reason="comes with the extra `peers`")
    page = DOCS["docs/results/comparison.md"]
    (block,) = (one for one in read_code_blocks(page) if one.title == "datatrove_redact.py")
    (tmp_path / block.title).write_text(block.text, "utf-8")
    (tmp_path / "pages").mkdir()
    lines = [f'{{"id": "{no}", "text": "to ann.roe@example.org"}}\n' for no in range(1_001)]
    (tmp_path / "pages" / "a.jsonl").write_text("".join(lines))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, block.title]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (out,) = (tmp_path / "redacted").iterdir()
    texts = [json.loads(line)["text"] for line in out.read_text("utf-8").splitlines()]
    assert texts == ["to [EMAIL_ADDRESS]"] * 1_001


def test_an_output_is_compared_line_by_line() -> None:
    assert (
        is_output_shown("a\n...\nd\n", "a\nb\nc\nd\n")
        and is_output_shown("...\nd", "a\nd")
        and is_output_shown("a", "a\n")
    )
    assert not is_output_shown("a\nd", "a\nb\nd") and not is_output_shown("a\n...\ne", "a\nb\nd")


def test_the_shown_plans_are_valid(tmp_path: Path) -> None:
    pytest.importorskip("datasketch", reason="comes with the extra `dedup`")
    texts = [
        block.text
        for page in PAGES.values()
        for block in read_code_blocks(page)
        if block.language == "toml"
    ]
    shown_plans = [
        text for text in texts if "[find]" in text and "[[edit]]" in text and "model =" not in text
    ]
    assert len(shown_plans) >= 3
    for text in shown_plans:
        (tmp_path / "mine.toml").write_text(text, "utf-8")
        assert load_plan(str(tmp_path / "mine.toml")).editors


# ---- what is generated ----


@pytest.mark.slow
@pytest.mark.parametrize("name", committed_parts.README_BLOCKS)
def test_generated_blocks_are_current(name: str) -> None:
    assert committed_parts.read_block(README, name) == committed_parts.README_BLOCKS[name](), UPDATE


def test_an_outdated_block_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_parts, "README_BLOCKS", {"table": lambda: ["| 2 |"]})
    assert (
        committed_parts.fill_readme("# A\n<!-- table -->\n| 1 |\n<!-- /table -->\nend\n")
        == "# A\n<!-- table -->\n| 2 |\n<!-- /table -->\nend\n"
    )


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_json_schemas_are_current(name: str) -> None:
    assert (schemas.FOLDER / name).read_text("utf-8") == schemas.render_schema(name), UPDATE


def test_generated_pages_and_blocks_of_docs_are_current() -> None:
    pages = committed_parts.render_pages()
    paths = {ROOT / "docs" / name: page for name, page in pages.items()}
    outdated = [
        str(path)
        for path, page in paths.items()
        if not path.exists() or path.read_text("utf-8") != page
    ]
    assert not outdated, UPDATE
    assert pages.keys() >= {*reference.PAGES, "results/detection.md", "results/speed.md"}


def test_an_outdated_block_of_a_page_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCKS", {"table": lambda: ["| 2 |"]})
    page = "# A\n<!-- generated: table -->\n\n| {} |\n\n<!-- /generated -->\nend\n"
    assert blocks.fill_blocks(page.format(1)) == page.format(2)


def test_every_block_is_in_a_page() -> None:
    named = {
        name for page in DOCS.values() for name in re.findall(r"<!-- generated: ([\w-]+) -->", page)
    }
    ends = sum(page.count("\n<!-- /generated -->\n") for page in DOCS.values())
    assert named == blocks.BLOCKS.keys() and ends == len(named)
    assert all(blocks.BLOCKS[name]() for name in named)


@pytest.mark.parametrize("path", reference.PAGES)
def test_reference_pages_are_built(path: str) -> None:
    page = reference.PAGES[path]()
    assert page.startswith("# ") and not re.search(r"^\| .*\| $", page, re.MULTILINE)


def test_the_plan_schema_knows_the_keys_of_every_shipped_plan() -> None:
    schema = schemas.build_plan_schema()
    for name in plan_names():
        settings = load_plan(name).resolved_settings()
        assert set(settings) - {"name"} <= set(schema["properties"]), name
        for table in ("drop", "edit"):
            for part in settings[table]:
                definition = schema["$defs"][f"{schemas.PART_TABLES[table]}_{part['use']}"]  # type: ignore[index]
                unknown = set(part) - set(definition["properties"]) - schemas.RESOLVED_SETTINGS
                assert not unknown and definition["additionalProperties"] is False


def test_numbers_are_rendered_from_the_results() -> None:
    figures = {
        "corpus": {"text_mb": 500.2},
        "occurrences_per_kb": 4.46,
        "mb_per_cpu_s": {"run_without_verify": 31.6},
        "run_without_verify_of_floor": 0.1534,
    }
    figures |= {"aim": 0.15, "verify_of_find": 0.871, "peak_rss_mb": 512.4}
    machine = {"cpu": "Some CPU", "cores": 2, "python": "3.11.7"}
    small = {"text_mb": 18.6, "wall_s": 3.04}
    lines = blocks.bench_block(
        {
            "date": "2026-11-20",
            "repeat": 3,
            "machine": machine,
            "corpora": {"dense": figures},
            "ten_thousand": small,
        }
    )
    assert "| ... / rate of a plain copy | 0.153 (aim 0.15) |" in lines
    assert lines[-1].startswith("10,000 mails (19 MB) through the whole run: 3.0 s.")


@pytest.mark.slow
def test_tables_are_in_the_documented_folders(tmp_path: Path) -> None:
    """A run with a dropper, a blacklist and pseudonyms writes every table but the ledger, in the
    folder that the reference names."""
    write_mbox(generate_mails(60, 7), tmp_path / "mails.mbox")
    plan = ["--plan", "pseudonymize", "--set", 'drop=[{use="exact_dup"}]', "--set", "blacklist.k=2"]
    result = run_command(
        ["run", "mails.mbox", "-o", "out", "--work", "work", "--quiet", *plan], tmp_path
    )
    assert result.returncode == 0, result.stderr
    folders = reference.TABLE_FOLDERS
    assert folders.keys() | reference.COMPUTED_VIEWS.keys() == table_schemas.ALL_TABLES.keys()
    for name, folder in folders.items():
        files = list((tmp_path / "work").glob(f"{folder}/*.parquet"))
        assert bool(files) == (name != "ledger"), name
        for file in files:
            assert pq.read_schema(file).names == table_schemas.ALL_TABLES[name].schema.names


# ---- names, options, links ----


def read_code(page: str) -> str:
    """The code blocks and inline code of a page."""
    return "\n".join(re.findall(r"^ *```.*?^ *```|`[^`\n]+`", page, re.MULTILINE | re.DOTALL))


def read_help(program: str, command_name: str) -> str:
    result = run_command([command_name, "--help"], ROOT, MODULES[program])
    assert result.returncode == 0
    return result.stdout


def test_every_command_is_named() -> None:
    command_names = sanitize.cli.main.COMMANDS
    assert sorted(command_names) == sorted(
        path.stem for path in (ROOT / "sanitize" / "cli" / "commands").glob("[a-z]*.py")
    )
    listed = README.rpartition("Commands: ")[2].partition("; each has")[0]
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(command_names)


def test_every_plan_is_named() -> None:
    table = README.partition("## Which plan")[2].partition("## ")[0]
    assert set(plan_names()) <= set(re.findall(r"`(\w+)`", table))
    first_screen = README.partition("## Install")[0]
    for plan in ("redact", "surrogates", "strict", "pseudonymize", "rmft"):
        assert f"`{plan}`" in first_screen or f"--plan {plan}`" in first_screen
    assert "**people's names stay**" in first_screen


def test_what_plans_look_for_and_what_stays_is_named_completely() -> None:
    table = README.partition("## Which plan")[2].partition("## ")[0]
    looked_for = " ".join(table.partition("\n| ")[0].split())
    for words in ("mail addresses", "directory entries", "IBANs", "people's names", "message ids"):
        assert words in looked_for
    help_text = " ".join(read_help("sanitize", "run").partition("Which plan, and")[2].split())
    row_pairs = [(help_text.partition("redact")[2].partition("surrogates")[0], help_text)]
    for page in (table, ALL_PAGES["docs/how_to/choose_a_plan.md"]):
        rows = [line for line in page.splitlines() if line.startswith("| ")]
        row_pairs.append(
            (
                next(row for row in rows if "`redact` (the default" in row),
                next(row for row in rows if "| `strict` |" in row),
            )
        )
    for of_redact, of_strict in row_pairs:
        for words in ("ages", "street addresses", "other places", "organizations", "passports"):
            assert words in of_redact, words
        assert "identifiers of other countries" in of_redact
        assert "numbers that no word beside them labels" in of_strict


def test_help_of_run_says_which_plan_for_which_purpose() -> None:
    help_text = read_help("sanitize", "run")
    listed = help_text.partition("Which plan, and what stays")[2]
    named = set(re.findall(r"^ {4}(\w+)", listed, re.MULTILINE))
    assert {name for name in plan_names() if load_plan(name).publishable} - {
        "mask_words"
    } == named - {"others"}
    assert "share (default)" in listed.partition("redact")[2].partition("surrogates")[0]
    assert "people's names" in listed.partition("rmft")[2]


# options of other programs that pages show: pip, make, spark-submit, accelerate, benchmarks
OTHER_OPTIONS = {
    "--archives",
    "--conf",
    "--data",
    "--deploy-mode",
    "--epochs",
    "--extra",
    "--finders",
    "--lr",
    "--no-deps",
    "--nproc-per-node",
    "--peers-python",
    "--upgrade",
    "--version",
}
PAPER_SCRIPTS = [
    *(ROOT / "benchmarks" / "papers").glob("*.py"),
    *(ROOT / "benchmarks" / name for name in ("criteria.py", "pretrained_runs.py")),
]
PAPER_OPTIONS = {
    option
    for file in PAPER_SCRIPTS
    for option in re.findall(
        r'^\s+(?:parser\.add_argument\()?"(--[a-z-]+)"', file.read_text(), re.M
    )
}


@pytest.fixture(scope="module")
def known_options() -> dict[str, set[str]]:
    """The options of every command, as `--help` lists them."""
    commands = [(program, name) for program in MODULES for name in reference.list_commands(program)]
    return {
        f"{program} {name}": set(re.findall(r"--[a-z][a-z-]*", read_help(program, name)))
        for program, name in commands
    }


def test_every_option_exists(known_options: dict[str, set[str]]) -> None:
    every_option = set().union(*known_options.values())
    for name, page in PAGES.items():
        unknown = (
            set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", read_code(page)))
            - every_option
            - OTHER_OPTIONS
            - PAPER_OPTIONS
        )
        assert not unknown, f"{name}: {unknown}"
        for block in read_code_blocks(page):
            for line, _ in read_commands(block):
                words = line.split()
                options = known_options.get(" ".join(words[:2])) if is_own_command(line) else None
                if options is not None:
                    assert set(re.findall(r"(?<=\s)--[a-z][a-z-]+", line)) <= options, (
                        f"{name}: {line}"
                    )


def test_every_exit_code_is_explained() -> None:
    from sanitize import errors

    codes = {
        error.exit_code
        for name in errors.__all__
        if isinstance(error := getattr(errors, name), type)
    }
    assert codes | {0} <= {
        int(code) for code in re.findall(r"^\| (\d+)", reference.error_page(), re.MULTILINE)
    }


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {
        target
        for page in ALL_PAGES.values()
        for target in re.findall(r"\bmake (\w+)", read_code(page))
    }
    assert {"demo", "test", "bench", "docs", "help"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), (
            f"make {target} is no target with a line of help"
        )


@pytest.mark.parametrize(
    ("target", "installs_tools"),
    [("demo", False), ("wheels", False), ("test", True), ("check", True)],
)
def test_make_installs_development_tools_only_for_tests(
    target: str, installs_tools: bool, tmp_path: Path
) -> None:
    """What make would do in a checkout without `.venv`."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    listed = subprocess.run(
        ["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert "-m venv .venv" in listed and ("[dev]" in listed) == installs_tools


def test_the_first_screen_installs_and_runs_everything() -> None:
    install = README.partition("## Install")[2].partition("## ")[0]
    lines = read_code_blocks(install)[0].text.splitlines()
    commands = [line.partition("#")[0].strip() for line in lines]
    assert commands[:3] == ["pip install .", "make demo", "make test"]
    assert README[: README.index("make test")].count("\n") < 40


@pytest.mark.parametrize("name", ALL_PAGES)
def test_links_have_a_target(name: str) -> None:
    for target in re.findall(
        r"\]\(([^)#]+)(?:#[^)]*)?\)", re.sub(r"(?ms)^ *```.*?^ *```", "", ALL_PAGES[name])
    ):
        path = os.path.normpath((ROOT / name).parent / target)
        generated = os.path.relpath(path, ROOT / "docs") in reference.PAGES
        assert target.startswith("https://") or generated or os.path.exists(path), target


@pytest.mark.parametrize("name", ALL_PAGES)
def test_no_claims_of_anonymity_or_compliance(name: str) -> None:
    text = re.sub(r"`tests/[^`]*`", "", ALL_PAGES[name])
    assert not re.search(
        r"\bno PII\b|\bPII[- ]free|anonym|complian|guarantees? privacy|100 ?%", text, re.IGNORECASE
    )


# ---- sizes and forms ----


def test_readme_and_contributing_are_short() -> None:
    assert len(README.splitlines()) < 250
    assert len(ALL_PAGES["CONTRIBUTING.md"].splitlines()) < 130


def test_a_release_has_every_heading_once() -> None:
    releases = re.split(r"(?m)^## ", ALL_PAGES["CHANGELOG.md"])[1:]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(release.startswith(f"[{project['version']}]") for release in releases)
    for release in releases:
        headings = re.findall(r"(?m)^### (.+?) *$", release)
        doubled = sorted({heading for heading in headings if headings.count(heading) > 1})
        assert not doubled, (
            f"CHANGELOG.md: {release.splitlines()[0]} has more than one section"
            f" {', '.join(doubled)}; join them"
        )


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    pages = {
        name.removeprefix("docs/") for name in DOCS if not name.startswith("docs/adr/")
    } | reference.PAGES.keys()
    assert set(re.findall(r"[\w/]+\.md", navigation)) == pages


def test_decisions_have_one_form() -> None:
    decisions = {name: page for name, page in DOCS.items() if re.match(r"docs/adr/\d{3}-", name)}
    assert len({name[9:12] for name in decisions}) == len(decisions) >= 20
    for name, page in decisions.items():
        assert re.match(rf"# {name[9:12]}: \S", page), name
        parts = re.findall(
            r"^\*\*(Context|Decision|Alternatives|Consequences)\b", page, re.MULTILINE
        )
        assert [part for part in parts if part != "Alternatives"] == [
            "Context",
            "Decision",
            "Consequences",
        ], name


def test_the_glossary_is_short() -> None:
    rows = re.findall(r"^\| (.+?) \| (.*?) ?\| (.+) \|$", DOCS["docs/glossary.md"], re.MULTILINE)[
        2:
    ]
    words = [row[0] for row in rows]
    assert 40 <= len(words) <= 60 and words == sorted(words, key=str.casefold)
    assert all(synonym for _, synonym, _ in rows)


# ---- guarantees ----

GUARANTEES = DOCS["docs/guarantees.md"]


def read_guarantees() -> Iterator[tuple[str, str]]:
    """Promise and tests of each row of docs/guarantees.md."""
    for line in GUARANTEES.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and "`tests/" in cells[-1]:
            yield cells[0], cells[-1]


def test_every_guarantee_names_tests_that_exist() -> None:
    rows = list(read_guarantees())
    assert len(rows) >= 60
    for promise, tests in rows:
        for path, test_name in re.findall(r"`(tests/[\w/]+(?:\.py)?/?)(?:::(\w+))?`", tests):
            file = ROOT / path
            assert file.exists(), f"{promise}: {path}"
            assert not test_name or re.search(
                rf"^(async )?def {test_name}\b", file.read_text("utf-8"), re.MULTILINE
            ), f"{path}::{test_name}"


def test_every_feature_of_the_comparison_names_tests_that_exist() -> None:
    rows = [
        line
        for line in DOCS["docs/results/comparison.md"].splitlines()
        if line.startswith("| ") and line.count("|") == 8
    ][1:]
    without_test = [row.split("|")[1].strip() for row in rows if "`tests/" not in row.split("|")[7]]
    # what sanitize has not
    assert without_test == ["quality filters, languages, text from HTML", "a service over HTTP"]
    named = [name for row in rows for name in re.findall(r"`(tests/[\w/]+\.py)`", row)]
    assert len(named) > 20 and [name for name in named if not (ROOT / name).is_file()] == []


def test_every_threat_names_tests_that_exist() -> None:
    table = DOCS["docs/security.md"].partition("## Threats")[2].partition("\n## ")[0]
    rows = [
        line
        for line in table.splitlines()
        if line.startswith("| ") and not line.startswith("| threat")
    ]
    assert len(rows) >= 14
    for row in rows:
        paths = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert paths and all((ROOT / path).is_file() for path in paths), row


def test_every_invariant_is_guaranteed() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d) \|", GUARANTEES, re.MULTILINE)] == list(
        range(1, 9)
    )


def test_named_long_forms_exist() -> None:
    table = GUARANTEES.partition("## Short and long tests")[2]
    rows = [
        line.split("|") for line in table.splitlines() if line.startswith("|") and "`tests/" in line
    ]
    assert len(rows) >= 14 and {len(row) for row in rows} == {5}
    for _, promise, short, long, _ in rows:
        assert re.search(r"`tests/", short), promise
        for name in re.findall(r"`(tests/[\w/]+[.]py)`", long):
            text = (ROOT / name).read_text("utf-8")
            assert "mark.soak" in text or "@given" in text, f"{name} has no long form"
