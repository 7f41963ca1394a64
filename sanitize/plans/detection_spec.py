"""The detection spec of a plan: what it searches for, in one value that is passed to the index, to
streams and to every worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.core.part_protocols import Finder
from sanitize.kinds.custom_kind import CustomKind
from sanitize.storage.private_folder import SavedIndex


@dataclass(frozen=True, kw_only=True)
class DetectionSpec:
    """What a plan searches for, which is what an index depends on: finders with resolved settings,
    countries whose national kinds are searched, opt-in kinds (found only if a plan names them), and
    the kinds that the plan itself defines.

    Two plans with equal specs can share an index. `Plan.detection_spec` sorts countries and opt-in
    kinds; finders and custom kinds keep the plan's order.
    """

    finders: tuple[Finder, ...] = (Finder(use="patterns"),)
    countries: tuple[str, ...] = ()
    opt_in_kinds: tuple[str, ...] = ()
    custom_kinds: tuple[CustomKind, ...] = ()

    def fingerprint_data(self) -> dict[str, Any]:
        """The spec as plain data, which enters the fingerprint of an index."""
        finders = [
            [finder.model_dump(mode="json"), type(finder).VERSION] for finder in self.finders
        ]
        data = {
            "finders": finders,
            "countries": list(self.countries),
            "named": list(self.opt_in_kinds),
        }
        customs = [custom_kind.detection_settings() for custom_kind in self.custom_kinds]
        return {**data, "customs": customs} if customs else data


def read_custom_kinds(workspace: Path) -> tuple[CustomKind, ...]:
    """The custom kinds that the index of a WORK folder was built with."""
    index = SavedIndex.read(workspace)
    return list_custom_kinds(index) if index else ()


def list_custom_kinds(index: SavedIndex) -> tuple[CustomKind, ...]:
    """The custom kinds that an index was built with."""
    customs = index.detection_settings.get("customs", ())
    return tuple(CustomKind(**settings) for settings in customs)


def describe_difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In which setting two specs differ, in words, given their `fingerprint_data`: the one of the
    index and the current one."""
    finder_names_before, finder_names_now = (
        [finder[0]["use"] for finder in data["finders"]] for data in (before, now)
    )
    if finder_names_before != finder_names_now:
        return f"other finders ({', '.join(finder_names_before)})"
    reasons = {
        "finders": "other settings of its finders",
        "countries": "other countries",
        "named": "other opt-in kinds",
        "customs": "other custom kinds",
        "known": "another list of known values",
    }
    return next(
        (reason for key, reason in reasons.items() if before.get(key) != now.get(key)),
        "other settings",
    )
