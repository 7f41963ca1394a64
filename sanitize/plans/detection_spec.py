"""What a plan looks for, as one value: it travels from the plan to the index, to a stream, and to every worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.core.parts import Finder
from sanitize.kinds.custom_kind import Custom
from sanitize.storage.corpus import read_json


@dataclass(frozen=True, kw_only=True)
class Sought:
    """Finders (settled); countries whose own kinds are looked for; kinds `named` that are looked for on request alone; and the plan's
    own kinds.

    Countries and names are sorted, so that two plans which look for the same share an index.
    """

    finders: tuple[Finder, ...] = (Finder(use="patterns"),)
    countries: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    customs: tuple[Custom, ...] = ()

    def told(self) -> dict[str, Any]:
        """The same in plain data: what an index is known by."""
        finders = [[finder.model_dump(mode="json"), type(finder).VERSION] for finder in self.finders]
        told = {"finders": finders, "countries": list(self.countries), "named": list(self.named)}
        customs = [one.finds() for one in self.customs]
        return {**told, "customs": customs} if customs else told


def customs_in(work: Path) -> tuple[Custom, ...]:
    """The kinds of its own that a WORK folder was indexed with."""
    described = read_json(work / "index.json") or {}
    return tuple(Custom(**one) for one in described.get("looked_for", {}).get("customs", ()))


def otherwise(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How an index was looked for otherwise than now, of two `Indexing.looked_for`."""
    uses, uses_now = ([one[0]["use"] for one in told["finders"]] for told in (was, now))
    if uses != uses_now:
        return f"other finders ({', '.join(uses)})"
    said = {
        "finders": "other settings of its finders",
        "countries": "other countries",
        "named": "other kinds on request",
        "customs": "other kinds of the plan's own",
        "known": "another list of known values",
    }
    return next((why for what, why in said.items() if was.get(what) != now.get(what)), "other settings")
