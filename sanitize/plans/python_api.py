"""Checks the arguments of the functions of the public API, and words their errors with the names of
Python arguments.

`public_function` decorates each of them. Their settings are keyword arguments of the model in
`settings.py`: typed dictionaries describe them to type checkers and editors, the signature shows
them in `help()`, and a test holds both to the model.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from sanitize.core.progress import ProgressCallback
from sanitize.errors import SanitizeError, UsageError, running_command_line, suggest_names
from sanitize.plans.settings import COMMAND_SETTINGS, Settings

Function = TypeVar("Function", bound=Callable[..., Any])
_DATA_OBJECTS = {
    "datasets": ("Dataset", "DatasetDict"),
    "polars": ("DataFrame", "LazyFrame"),
    "pyarrow": ("Table",),
    "pandas": ("DataFrame",),
}
RECORDS = "records"  # a list of dictionaries
Names = str | Sequence[str]
PathLike = str | Path


class FrameOptions(TypedDict, total=False):
    """The columns of records or of a frame: roles, and policies that differ from the defaults."""

    text_column: Names
    user_column: str | None
    id_column: str | None
    sanitize: Names
    keep: Names
    pseudonymize: Names
    drop: Names


class RedactOptions(FrameOptions, total=False):
    """The keyword arguments of `redact`."""

    seed: int | None
    key: PathLike | None


class CorpusOptions(RedactOptions, total=False):
    """The keyword arguments that `run`, `index` and `stream` share."""

    workers: int | None
    rows_per_shard: int
    max_quarantine: float | str
    max_doc_bytes: int | str
    max_doc_matches: int
    progress: ProgressCallback


class StreamOptions(CorpusOptions, total=False):
    """The keyword arguments of `stream`."""

    batch: int
    verify: str


class ExplainOptions(FrameOptions, total=False):
    """The keyword arguments of `explain`."""

    documents: str
    read_as: str | None
    include: Names
    lineage: bool
    progress: ProgressCallback


class IndexOptions(CorpusOptions, total=False):
    """The keyword arguments of `index`."""

    documents: str
    read_as: str | None
    include: Names
    lineage: bool
    known: PathLike | None
    engine: str
    master: str | None
    remote: str | None
    memory_limit: str
    strict: bool
    replace: bool


class RunOptions(IndexOptions, total=False):
    """The keyword arguments of `run`."""

    sample: float | str
    per_split: bool
    verify: str
    format: str
    keep_versions: bool
    append: bool
    dataset_name: str
    purpose: str
    responsible: str
    license: str


def public_function(command: str = "") -> Callable[[Function], Function]:
    """Decorates a function of the public API: its arguments are checked, and errors name Python
    arguments.

    With `command`, the keyword arguments are those of the settings of that command.
    """

    def decorate(function: Function) -> Function:
        signature = _full_signature(function, command)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            with python_names():
                bound = _bind(function.__name__, signature, arguments, keywords)
                hints = _parameter_types(function)
                for name, value in bound.arguments.items():
                    if (
                        name in hints
                        and signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD
                    ):
                        check_argument(function.__name__, name, value, hints[name])
                return function(*arguments, **keywords)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return typing.cast(Function, call)

    return decorate


@contextmanager
def python_names() -> Iterator[None]:
    """Words the errors of the block with Python arguments (`sample=2`, not `--sample 2`), except
    while the command line runs."""
    try:
        yield
    except SanitizeError as error:
        if not running_command_line.get():
            error.args = (to_python_names(str(error)), *error.args[1:])
        raise


# ------------------------------------------------------------------------------------ arguments


def _full_signature(function: Callable[..., Any], command: str) -> inspect.Signature:
    """The signature with the settings of a command in place of `**options`."""
    signature = inspect.signature(function)
    if not command:
        return signature
    parameters = [
        one
        for one in signature.parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    for name in COMMAND_SETTINGS[command]:
        default = Settings.__dataclass_fields__[name].default
        if name not in signature.parameters:
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
    return signature.replace(parameters=parameters)


def _bind(
    name: str, signature: inspect.Signature, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments by the names of their parameters. Raises UsageError for missing, unknown and
    superfluous ones."""
    parameters = signature.parameters
    positional = [
        one.name for one in parameters.values() if one.kind is not inspect.Parameter.KEYWORD_ONLY
    ]
    required = [one.name for one in parameters.values() if one.default is inspect.Parameter.empty]
    usage = f"sanitize.{name}({', '.join(required)}, ...)"
    has_free_keywords = any(
        one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()
    )
    for keyword in keywords:
        if (
            keyword in positional[: len(required)]
            and parameters[keyword].kind is inspect.Parameter.POSITIONAL_ONLY
        ):
            raise UsageError(
                f"{name}: {keyword} is given by its position, not by its name; write {usage}"
            )
        if (
            keyword not in parameters
            and keyword in Settings.__dataclass_fields__
            and not has_free_keywords
            and keyword != "progress"
        ):
            users = [other for other, settings in COMMAND_SETTINGS.items() if keyword in settings]
            raise UsageError(
                f"{name}: {keyword} does not apply to this function, only to {', '.join(users)};"
                " leave it out"
            )
        if keyword not in parameters and not has_free_keywords and keyword != "progress":
            names = [
                one.name
                for one in parameters.values()
                if one.kind is not inspect.Parameter.POSITIONAL_ONLY
            ]
            raise UsageError(
                f"{name}: there is no argument {keyword}; {suggest_names(keyword, names)}"
            )
    positional = [
        one for one in positional if parameters[one].kind is not inspect.Parameter.VAR_KEYWORD
    ]
    if len(arguments) > len(positional):
        raise UsageError(
            f"{name}: {len(arguments)} arguments are given by position; it takes {len(positional)};"
            f" name the others: {usage}"
        )
    for missing in required[len(arguments) :]:
        if (
            missing not in keywords
            and parameters[missing].kind is not inspect.Parameter.VAR_KEYWORD
        ):
            raise UsageError(f"{name}: {missing} is missing; write {usage}")
    known = {
        keyword: value
        for keyword, value in keywords.items()
        if keyword in parameters or has_free_keywords
    }
    try:
        return signature.bind(*arguments, **known)
    except TypeError as error:
        raise UsageError(f"{name}: {error}; write {usage}") from None


@functools.cache
def _parameter_types(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The types of the parameters; those that cannot be evaluated at run time are left out."""
    found = {}
    for name, annotation in function.__annotations__.items():
        if name not in ("return", "options"):
            shim = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                found[name] = typing.get_type_hints(shim, function.__globals__)[name]
            except NameError:
                continue
    return found


def name_data_object(value: object) -> str:
    """The name of the type of data in memory: Dataset, DatasetDict, DataFrame, LazyFrame, Table,
    pandas or records; "" for anything else. Nothing is imported: a value of such a type exists only
    if its package is."""
    for base in type(value).__mro__:
        package = base.__module__.partition(".")[0]
        if base.__name__ in _DATA_OBJECTS.get(package, ()):
            return package if package == "pandas" else base.__name__
    is_list = isinstance(value, list | tuple) and len(value) > 0
    return RECORDS if is_list and isinstance(value[0], Mapping) else ""  # type: ignore[index]


def check_argument(function: str, name: str, value: object, expected: Any) -> None:
    """Raise UsageError unless the value has the expected type."""
    if _has_type(value, expected):
        return
    advice = ""
    taker = function if function in ("explain", "diff") else "run"
    if name in ("inputs", "out") and not isinstance(value, int | float | bool | None):
        advice = (
            f". {taker} also takes a Dataset, a DatasetDict, a frame of Polars or pandas, an"
            " Arrow table or a list of records; sanitize.redact and sanitize.detect take texts,"
            " too, sanitize.stream(records) records one by one, such as an IterableDataset"
        )
    words = (
        "the name of a plan, the path of a TOML file, or a Plan"
        if name == "plan"
        else _describe_type(expected)
    )
    raise UsageError(f"{function}: {name} is {name_type(value)}; expected {words}{advice}")


def name_type(value: object) -> str:
    """The type of a value with its article, such as `an int`."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _has_type(value: object, expected: Any) -> bool:
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if expected is Any or expected is object or isinstance(expected, TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_has_type(value, argument) for argument in arguments)
    if origin is collections.abc.Sequence:
        return isinstance(value, list | tuple) and all(
            _has_type(entry, arguments[0]) for entry in value
        )
    if origin is collections.abc.Callable:
        return callable(value)
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if expected is None:
        return value is None
    return isinstance(value, origin or expected)


def _describe_type(expected: Any) -> str:
    """A type in words, such as `a path or a list of paths`."""
    arguments = typing.get_args(expected)
    union = (
        set(arguments)
        if typing.get_origin(expected) in (typing.Union, types.UnionType)
        else {expected}
    )
    words = (
        ["a path" if str in union else "a Path"]
        if Path in union
        else ["a text"]
        if str in union
        else []
    )
    union -= {str, Path}
    for one in sorted(union, key=str):
        if typing.get_origin(one) is collections.abc.Sequence:
            inner = (
                _describe_type(typing.get_args(one)[0])
                .removeprefix("a ")
                .replace(" or a ", "s or ")
            )
            words.append(f"a list of {inner}s")
        elif typing.get_origin(one) is collections.abc.Callable:
            words.append("a function")
        elif one is type(None):
            words.append("None")
        elif one is not Any:
            words.append(
                {int: "a whole number", float: "a number", bool: "True or False"}.get(one)
                or f"a {getattr(one, '__name__', str(one))}"
            )
    return " or ".join(words)


# ---------------------------------------------------------------------------------- error texts

_FLAGS = {one.name for one in Settings.__dataclass_fields__.values() if one.default is False} | {
    "erase",
    "anyway",
    "reveal",
}
_RENAMED = {"as": "read_as", "dir": "folder", "set": "Plan.with_"}
# an option, and its value: a placeholder, a quoted name, a number, a fixed word, or what stands
# before a colon
_OPTION = re.compile(
    r"(?<![\w-])--([a-z][a-z-]*[a-z]|n\b)"
    r"(?: ('[^']*'|[A-Z][A-Z.]*[A-Z]|N|[0-9][\w.]*%?|off|fast|full|spark|text|[^\s:;,()]+(?=:)|\(\w+\)(?=:)))?(?![\w-])"  # noqa: E501
)


# commands that a message quotes stay as they are
_COMMAND = re.compile(
    r"(`[^`]*`|(?<!-)sanitize(?:-\w+)? [a-z]+(?: (?:[A-Z][A-Z.]*|--?[a-z-]+|\S*[/.]\S*))*)"
)


def to_python_names(message: str) -> str:
    """An error message with Python arguments in place of options: `--sample 2: ...` becomes
    `sample=2: ...`."""
    parts = _COMMAND.split(message)
    return "".join(
        part if number % 2 else _translate_options(part) for number, part in enumerate(parts)
    )


def _translate_options(message: str) -> str:

    def replace_option(match: re.Match[str]) -> str:
        name, value = match[1].replace("-", "_"), match[2]
        name = _RENAMED.get(name, name)
        if value is not None and name in _FLAGS and message[match.end() : match.end() + 1] != ":":
            return f"{name}=True {value}"
        if value is None:
            return f"{name}=True" if name in _FLAGS else name
        if value[0] == "'":
            return f"{name}={value}"
        is_name = value.isupper() or re.fullmatch(r"[0-9.]+|\(\w+\)|True|False|None", value)
        return f"{name}={value}" if is_name else f'{name}="{value}"'

    message = re.sub(r"--set ([a-z]+(?:\.\w+)+)=([^\s,;)]+)", r'Plan.with_({"\1": \2})', message)
    message = re.sub(r"--set (\w+=[^\s,;)]+)", r"\1", message)
    message = re.sub(
        r"(?<![\w-])-o (OUT|FOLDER|FILE[.\w]*)", r"out=\1", _OPTION.sub(replace_option, message)
    )
    return re.sub(r"(?<![\w-])-o(?![\w-])", "out", message)
