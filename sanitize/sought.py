"""What a plan looks for, as one value: it travels from the plan to the index, to a stream, and to every worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sanitize.kinds.kind import Kind, kinds
from sanitize.part import Finder


@dataclass(frozen=True, kw_only=True)
class Sought:
    """Finders (settled); countries whose own kinds are looked for; and kinds `named` that are looked for on request alone.

    Both lists sorted, so that two plans which look for the same share an index.
    """

    finders: tuple[Finder, ...] = (Finder(use="patterns"),)
    countries: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds that are looked for, by name, in the order in which they are asked."""
        return kinds(self.countries, self.named)

    def told(self) -> dict[str, Any]:
        """The same in plain data: what an index is known by."""
        finders = [[finder.model_dump(mode="json"), type(finder).VERSION] for finder in self.finders]
        return {"finders": finders, "countries": list(self.countries), "named": list(self.named)}
