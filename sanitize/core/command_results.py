"""The base class of the results of commands, and their JSON data.

A result is a frozen dataclass with counts, fixed words and names that the user gave; never a value
or a text. It is declared beside its command. `to_dict` gives what `--json` prints; at a prompt and
in a notebook a result shows its summary table.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from sanitize.core.table_rendering import SummaryTable

T = TypeVar("T")

# annotations of fields that the JSON data leaves out where they are None, and where they are
# empty
IF_SET = Field(exclude_if=lambda value: value is None)
IF_NOT_EMPTY = Field(exclude_if=operator.not_)
_adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)


def to_json(value: Any) -> Any:
    """A dataclass as JSON data."""
    return _adapter(type(value)).dump_python(value, mode="json", by_alias=True, warnings="none")


def from_json(result_type: type[T], data: object) -> T:
    """The dataclass that `to_json` gave as `data`. Raises ValueError with the name of the first
    field that does not fit."""
    try:
        result: T = _adapter(result_type).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        # without the data, which the message of pydantic quotes
        raise ValueError(
            f"{result_type.__name__}.{'.'.join(map(str, first['loc']))}: {first['type']}"
        ) from None
    return result


@with_config(ConfigDict(extra="forbid", ser_json_inf_nan="constants"))
@dataclass(frozen=True, repr=False)
class CommandResult:
    """Base class of the results of commands."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data, with the keys that `--json` prints."""
        return dict(to_json(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The result that `to_dict` gave as `data`."""
        return from_json(cls, data)

    def __repr__(self) -> str:
        return self.summary_table().to_text()

    def _repr_html_(self) -> str:
        return self.summary_table().to_html()

    def summary_table(self) -> SummaryTable:
        """The table that is shown at a prompt and in a notebook."""
        raise NotImplementedError
