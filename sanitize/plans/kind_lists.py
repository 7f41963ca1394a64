"""Resolves the lists of kinds in a plan: a list may name kinds, categories of kinds (`contact`), or
all other kinds (`*`).

The most specific entry decides about a kind: its name before its category, and its category before
`*`, in whichever editor or in `leave` it is. Of equally specific entries each lists the kind, and
the first editor handles it. A list of names only is left as it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sanitize.kinds.kind import CATEGORIES, Kind

ALL_KINDS = "*"
DEFAULT_KINDS = (
    "default"  # in find.kinds: the kinds that are searched always, and those that the plan defines
)
# The order of kinds in a resolved list, which enters `plan.hash` and must not change; other kinds
# follow by name.
_RESOLVED_ORDER = (
    *(
        "EMAIL_ADDRESS",
        "PHONE_NUMBER",
        "IP_ADDRESS",
        "PERSON",
        "CREDIT_CARD",
        "IBAN_CODE",
        "US_SSN",
        "SECRET",
        "CRYPTO",
    ),
    *("MAC_ADDRESS", "X500_NAME", "MESSAGE_ID", "URL"),
)


# entries of find.kinds that stand for several kinds
FOUND_GROUPS = frozenset({*CATEGORIES, ALL_KINDS, DEFAULT_KINDS})
DECISION_GROUPS = FOUND_GROUPS - {DEFAULT_KINDS}  # the same of the other lists


def resolve_found_kinds(
    entries: Sequence[str],
    available: Mapping[str, Kind],
    without_finder: Iterable[str],
    not_in_categories: Iterable[str],
    custom_kinds: Iterable[str],
) -> tuple[str, ...]:
    """The kinds that `find.kinds` lists. `available` has the kinds that a plan with its countries
    and `custom_kinds` may name.

    `*` means all available kinds but those `without_finder`, and a category its kinds but those
    `not_in_categories`; a category without any other kind means its kinds nevertheless, so that the
    error names what finds them.
    """
    own_kinds, unfound = set(custom_kinds), set(not_in_categories)
    kinds_by_group = {
        category: {name for name, kind in available.items() if kind.category == category}
        for category in CATEGORIES
    }
    kinds_by_group = {
        category: kinds - unfound or kinds for category, kinds in kinds_by_group.items()
    }
    kinds_by_group[ALL_KINDS] = set(available) - set(without_finder)
    kinds_by_group[DEFAULT_KINDS] = {
        name
        for name, kind in available.items()
        if name in own_kinds or (kind.pattern and kind.country is None and not kind.opt_in)
    }
    return _replace_groups(
        entries, FOUND_GROUPS, set().union(*(kinds_by_group.get(entry, ()) for entry in entries))
    )


def resolve_decisions(
    lists: Sequence[Sequence[str]], found_kinds: Sequence[str], available: Mapping[str, Kind]
) -> list[tuple[str, ...]]:
    """The kinds that each of `lists` decides about: those of the editors, and `leave`."""
    categories = {name: available[name].category for name in found_kinds if name in available}
    entries = {entry for one in lists for entry in one}
    deciding_entries = {
        name: name if name in entries else category if category in entries else ALL_KINDS
        for name, category in categories.items()
    }
    return [
        _replace_groups(
            one, DECISION_GROUPS, [name for name, entry in deciding_entries.items() if entry in one]
        )
        for one in lists
    ]


def resolve_read_kinds(
    entries: Sequence[str], found_kinds: Sequence[str], available: Mapping[str, Kind]
) -> tuple[str, ...]:
    """The kinds of a list that decides nothing, such as those whose occurrences a dropper reads."""
    categories = {name: available[name].category for name in found_kinds if name in available}
    group_kinds = [
        name for name, category in categories.items() if category in entries or ALL_KINDS in entries
    ]
    return _replace_groups(entries, DECISION_GROUPS, group_kinds)


def _replace_groups(
    entries: Sequence[str], groups: frozenset[str], group_kinds: Iterable[str]
) -> tuple[str, ...]:
    """The entries unchanged if none is a group; else the named kinds and `group_kinds`, in resolved
    order."""
    if groups.isdisjoint(entries):
        return tuple(entries)
    rank = {name: number for number, name in enumerate(_RESOLVED_ORDER)}
    return tuple(
        sorted(
            {*entries, *group_kinds} - groups, key=lambda name: (rank.get(name, len(rank)), name)
        )
    )
