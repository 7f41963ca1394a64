"""What a plan looks for, what becomes of it, and what it does not look for: one row for each
category of kinds.

A pure function of a plan, from which `sanitize plan show`, the docs and the summary of a run take
their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sanitize.core.command_results import CommandResult
from sanitize.core.table_rendering import SummaryTable
from sanitize.core.verdict import describe_coverage
from sanitize.kinds.kind import CATEGORIES, Kind, builtin_kinds

if TYPE_CHECKING:
    from sanitize.plans.plan import Plan

# the order in which categories are listed: names of people first
CATEGORY_ORDER = (
    *(
        "person",
        "account",
        "contact",
        "identifier",
        "financial",
        "credential",
        "network",
        "time",
        "demographic",
        "place",
        "organization",
    ),
    "resource",
)


# category -> what people expect of it and no pattern finds, where a plan looks in this category
# for kinds with patterns alone, and where it also has kinds of its own, a list or a model
_WITHOUT_PATTERN = {
    "identifier": ("", "numbers that no word beside them labels"),
}

# kinds of one category in one entry, from so many on
_LABELLED, _MIN_LABELLED = "numbers beside the words for them", 3
_MAX_COUNTRIES = 6  # that are listed one by one

COVERAGE_HEADER = ("category", "looked for", "what becomes of it", "editor", "stays")


@dataclass(frozen=True, kw_only=True)
class KindTreatment:
    """What a plan does with some kinds: the editor and what it does, in words. `editor` is None for
    kinds that are left.

    `stays` says which occurrences are in the output unchanged, in words; "" if none of those that
    are found."""

    kinds: Sequence[str]
    editor: str | None
    action: str
    stays: str


@dataclass(frozen=True, kw_only=True)
class CategoryCoverage:
    """What a plan does about one category of kinds: the kinds that it looks for, by treatment, and
    those that it does not look for."""

    category: str
    about: str
    looked_for: Sequence[KindTreatment]
    not_looked_for: Sequence[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanDescription(CommandResult):
    """The result of `plan show`: what the plan is for (`about`), its finders, droppers and editors,
    what becomes of each category of kinds, and in words what is looked for, what is not, and what
    stays by plan. `models` are the models that finders use."""

    name: str
    about: str
    publishable: bool
    finders: Sequence[str]
    droppers: Sequence[str]
    categories: Sequence[CategoryCoverage]
    looked_for: Sequence[str]
    stays: Sequence[str]
    not_looked_for: Sequence[str]
    models: Sequence[str]
    notes: Sequence[str]

    def summary_table(self) -> SummaryTable:
        return SummaryTable(
            title=f"Plan {self.name}",
            facts=[("about", self.about), *self.list_facts()],
            header=COVERAGE_HEADER,
            rows=self.table_rows(),
        )

    def list_facts(self) -> list[tuple[str, str]]:
        """What follows the table of categories: names and texts."""
        coverage = describe_coverage(self.looked_for, self.not_looked_for, self.models)
        return [
            *((line.name, line.text) for line in coverage),
            ("stays", "; ".join(self.stays) or "nothing that is found"),
            ("finders", ", ".join(self.finders)),
            *([("droppers", ", ".join(self.droppers))] if self.droppers else []),
            *(("note", note) for note in self.notes),
            ("publish", "publishable" if self.publishable else "not publishable"),
        ]

    def table_rows(self) -> list[tuple[str, str, str, str, str]]:
        """The rows of the table of `COVERAGE_HEADER`: category, kinds, what becomes of them, by
        which editor, what stays."""
        rows = []
        for row in self.categories:
            for treatment in row.looked_for:
                kinds = ", ".join(treatment.kinds)
                rows.append(
                    (
                        row.category,
                        kinds,
                        treatment.action,
                        treatment.editor or "-",
                        treatment.stays or "nothing",
                    )
                )
            if not row.looked_for:
                rows.append((row.category, "not looked for", "-", "-", "everything"))
        return rows


def compute_coverage(plan: Plan) -> tuple[CategoryCoverage, ...]:
    """A row for each category of kinds, names of people first: the kinds that the plan looks for
    with what becomes of them, and the others.

    Kinds that the plan defines are in the rows of their categories. Loads no model and reads no
    file.
    """
    kinds: dict[str, Kind] = {
        **builtin_kinds(),
        **{custom.name: custom.build_kind() for custom in plan.custom_kinds},
    }
    return tuple(_cover_category(plan, category, kinds) for category in CATEGORY_ORDER)


def _cover_category(plan: Plan, category: str, kinds: Mapping[str, Kind]) -> CategoryCoverage:
    found = [name for name in plan.find.kinds if kinds[name].category == category]
    editor_no_by_kind = plan.editor_no_by_kind
    kinds_by_treatment: dict[tuple[str | None, str, str], list[str]] = {}
    for name in found:
        editor = plan.editors[editor_no_by_kind[name]] if name in editor_no_by_kind else None
        outcome = (None, "left as it is", "every occurrence")
        if editor is not None:
            outcome = (editor.use, editor.action, editor.describe_staying(name))
        kinds_by_treatment.setdefault(outcome, []).append(name)
    treatments = [
        KindTreatment(kinds=names, editor=editor_name, action=action, stays=stays)
        for (editor_name, action, stays), names in kinds_by_treatment.items()
    ]
    others = [
        name for name, kind in kinds.items() if kind.category == category and name not in found
    ]
    return CategoryCoverage(
        category=category,
        about=CATEGORIES[category],
        looked_for=treatments,
        not_looked_for=sorted(others),
    )


def list_looked_for(coverage: Sequence[CategoryCoverage]) -> list[str]:
    """The kinds that a plan looks for, in the order of their categories, names of people first."""
    return [kind for row in coverage for treatment in row.looked_for for kind in treatment.kinds]


def describe_looked_for(plan: Plan) -> list[str]:
    """The kinds that a plan looks for, each in words, in the order of `list_looked_for`.

    >>> from sanitize.plans.plan import load_plan
    >>> describe_looked_for(load_plan("redact"))[4:6]
    ['mail address (EMAIL_ADDRESS)', 'telephone number (PHONE_NUMBER)']
    """
    own_kinds = {custom.name: custom.about for custom in plan.custom_kinds}
    return [_describe_kind(kind, own_kinds) for kind in list_looked_for(compute_coverage(plan))]


def _describe_kind(name: str, own_kinds: Mapping[str, str]) -> str:
    """A kind in words, without article and examples: `hardware address of a network interface
    (MAC_ADDRESS)`."""
    about = own_kinds[name] if name in own_kinds else builtin_kinds()[name].about
    words = re.sub("^(?:an?|the) ", "", re.split(", (?:as|marked|from) ", about)[0])
    return f"{words} ({name})"


def describe_not_looked_for(coverage: Sequence[CategoryCoverage]) -> list[str]:
    """What a plan does not look for, in words, names of people first: whole categories by what they
    contain, others by their kinds.

    Identifiers of countries that the plan does not name are one entry, and what no kind with a
    pattern finds is another.

    >>> from sanitize.plans.plan import load_plan
    >>> describe_not_looked_for(load_plan("rmft").coverage())[0]
    'names of people (PERSON)'
    """
    entries = []
    countries = {
        name: kind.country for name, kind in builtin_kinds().items() if kind.country is not None
    }
    for row in coverage:
        names = [name for name in row.not_looked_for if name not in countries]
        if names and row.looked_for:
            labelled = [name for name in names if builtin_kinds()[name].labelled_forms]
            if len(labelled) < _MIN_LABELLED:
                labelled = []
            entries += [_describe_kind(name, {}) for name in names if name not in labelled]
            if labelled:
                entries.append(f"{_LABELLED} ({', '.join(labelled)})")
        elif names:
            entries.append(f"{row.about} ({', '.join(names)})")
        if missing := sorted({countries[name] for name in row.not_looked_for if name in countries}):
            listed = (
                f"{len(missing)} countries" if len(missing) > _MAX_COUNTRIES else ", ".join(missing)
            )
            entries.append(f"national identifiers of {listed} (name the country in find.countries)")
        by_patterns, by_others = _WITHOUT_PATTERN.get(row.category, ("", ""))
        if others := by_others if _has_kinds_of_others(row) else by_patterns:
            entries.append(others)
    return entries


def _has_kinds_of_others(row: CategoryCoverage) -> bool:
    """True if kinds that the plan defines, kinds of a list or a model, or numbers with labels are
    looked for."""
    builtin = builtin_kinds()
    looked_for = list_looked_for([row])
    return any(
        kind not in builtin
        or not builtin[kind].has_pattern
        or (builtin[kind].labelled_forms and row.category == "identifier")
        for kind in looked_for
    )


def list_models(plan: Plan) -> list[str]:
    """The models that the finders of a plan use: the finder, and what the model's licence asks to
    be named. Empty without a model."""
    return [
        finder.use + (f": {finder.attribution}" if finder.attribution else "")
        for finder in plan.finders
        if finder.uses_model
    ]


def list_staying_kinds(coverage: Sequence[CategoryCoverage]) -> list[str]:
    """The kinds that a plan finds and does not remove completely."""
    return [
        kind
        for row in coverage
        for treatment in row.looked_for
        if treatment.stays
        for kind in treatment.kinds
    ]


def describe_staying(coverage: Sequence[CategoryCoverage]) -> list[str]:
    """What a plan finds and does not remove completely, in words: `EMAIL_ADDRESS, PHONE_NUMBER: the
    first occurrence of every value`.

    Empty for a plan that removes every occurrence of what it looks for.
    """
    kinds_by_reason: dict[str, list[str]] = {}
    for row in coverage:
        for treatment in row.looked_for:
            if treatment.stays:
                kinds_by_reason.setdefault(treatment.stays, []).extend(treatment.kinds)
    return [f"{', '.join(kinds)}: {reason}" for reason, kinds in kinds_by_reason.items()]
