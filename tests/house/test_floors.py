"""Imports run down the floors of the house, and other rules that a look at the source can hold."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sanitize", "train", "eval")

# from the ground up; a folder stands for all its files. DESIGN's floors, with the rooms that grew since set between them.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "tables", "invented", "crash", "spread"),
    ("keyed", "cells", "spans", "render", "rowgroups", "repeats", "disk", "progress", "degrees", "exponential", "condition", "recapture"),
    ("views", "decoded", "figures", "notebook", "forecast", "masked", "formats", "regions", "compiled"),
    ("kinds", "plans", "part", "headers", "words", "shards", "queries", "vault", "pages"),
    ("named",),
    ("ledger", "past", "seen", "recipients", "matcher", "overlaps", "lexicon", "packed", "remote", "sought", "persons", "aliases", "drawn"),
    ("read", "find", "drop", "edit", "apply", "engines", "lock", "mentions", "tombstones"),
    ("seek",),
    ("corpus", "index", "gathered", "report", "publish", "forms", "places", "forget"),
    ("plan", "samples", "fates", "looks", "full", "published", "settings", "lots", "fetched", "remote_out", "batches"),
    ("manifest", "chosen", "reading", "counts", "blacklist", "verify", "digested", "feeds", "append"),
    ("described", "whose"),
    ("indexing", "drill", "reporting", "stores"),
    ("batchwise", "taken"),
    ("target",),
    ("run", "stream"),
    ("explain", "trial", "replay", "ask", "demo"),
    ("doctor", "subject", "label"),
    ("__init__",),
    ("options", "shown"),
    ("verbs",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = {"torch", "transformers", "presidio_analyzer", "spacy", "faker", "datasketch", "matplotlib", "pyspark", "sqlglot"}
CHECKERS = ("verify", "full", "digested", "places", "forms", "views", "pages", "matcher")
SPEAKERS = {"sanitize/cli.py", "sanitize/demo.py", "sanitize/doctor.py"}

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LIBRARY = [path for path in SOURCES if path.is_relative_to(ROOT / "sanitize")]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every imported module of a file, absolute, wherever in the file it stands; relative imports resolved."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if exists(inner) else base), node.lineno


def exists(module: str) -> bool:
    place = ROOT.joinpath(*module.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


def room_of(module: str) -> str:
    """The room a module of `sanitize` stands in: the file or folder right below the package, or the face."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and exists(f"sanitize.{parts[1]}") else "__init__"


@pytest.mark.parametrize("path", LIBRARY, ids=name)
def test_imports_run_down(path: Path) -> None:
    room = room_of(module_of(path))
    assert room in FLOOR, f"{name(path)}: no floor; give {room} one in FLOORS, and say why in CONTRIBUTING.md"
    for module, line in imports(path):
        top = module.split(".")[0]
        assert top not in ("train", "eval"), f"{name(path)}:{line} imports {module}; sanitize never does"
        if top != "sanitize":
            continue
        other = room_of(module)
        assert other in FLOOR, f"{name(path)}:{line} imports {module}, which has no floor"
        inside = other == room and path.parent != ROOT / "sanitize"  # files of one folder may share its own ground
        assert inside or FLOOR[other] < FLOOR[room], f"{name(path)}:{line} imports {module}, which is not on a floor below {room}"


def test_no_circles() -> None:
    below = {module_of(path): {module for module, _ in imports(path) if module.startswith("sanitize")} for path in LIBRARY}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"imports in a circle: {' > '.join((*way, module))}"
        if module not in done:
            for other in below.get(module, ()):
                if other != module:
                    visit(other, (*way, module))
            done.add(module)

    for module in below:
        visit(module, ())


@pytest.mark.parametrize("path", [path for path in LIBRARY if path.stem in CHECKERS], ids=name)
def test_verify_stands_alone(path: Path) -> None:
    """What decides that nothing is left must share no code with what found and replaced it."""
    rooms = {room_of(module) for module, _ in imports(path) if module.split(".")[0] == "sanitize"}
    assert not rooms & {"find", "drop", "edit", "index", "apply"}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_heavy_guests_are_invited_late(path: Path) -> None:
    def at_import(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            for field in ("body", "orelse", "finalbody", "handlers"):
                yield from at_import(getattr(node, field, []))

    for node in at_import(tree(path).body):
        found = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        heavy = {module.split(".")[0] for module in found} & HEAVY
        assert not heavy, f"{name(path)}:{node.lineno} imports {heavy} for everyone; import it inside the function that needs it"


@pytest.mark.parametrize("path", [path for path in SOURCES if path not in LIBRARY], ids=name)
def test_learning_knocks_at_the_door(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    both = ("sanitize.shards", "sanitize.errors")
    # finding needs a key for its value ids, which eval throws away, and `part` to load a finder by its name; `views` has the masks
    doors = {"train": both, "eval": (*both, "sanitize.find", "sanitize.part", "sanitize.keyed", "sanitize.vault", "sanitize.views")}[own]
    driver = name(path) == "eval/frontier.py"
    for module, line in imports(path):
        top = module.split(".")[0]
        if top == "sanitize" and not (driver and module == "sanitize"):
            assert module in doors or module.startswith(tuple(door + "." for door in doors)), (
                f"{name(path)}:{line} imports {module}; it may use {doors}"
            )
        assert driver or top not in {"train", "eval"} - {own}, f"{name(path)}:{line} imports {module}"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
            said = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            assert own not in {module.split(".")[0] for module in said}, f"{name(path)}:{node.lineno}: own imports are relative here"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_is_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 600, f"{name(path)} has {lines} lines; split it where a second thought begins"
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}, f"{name(path)}: name the file after what comes out of it"


@pytest.mark.parametrize("path", [path for path in SOURCES if path.read_bytes().strip()], ids=name)
def test_every_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path)), f"{name(path)} has no docstring"


@pytest.mark.parametrize("path", [path for path in SOURCES if name(path) not in SPEAKERS], ids=name)
def test_the_library_is_silent(path: Path) -> None:
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    loud = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not loud, f"{name(path)} prints at lines {loud}; only {', '.join(sorted(SPEAKERS))} speak"


def test_tests_shadow_no_package() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
