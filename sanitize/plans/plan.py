"""The plan model and its loader: TOML in, `Plan` out, with no inheritance or interpolation.

A plan states which kinds are found and which parts run in which order. It decides about every kind
that it finds: an editor or `leave` names the kind, its category, or all other kinds
(plans/kind_lists.py), else the plan is invalid.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from sanitize.core import part_protocols
from sanitize.core.part_protocols import Finder, PartType
from sanitize.core.table_rendering import SummaryTable, escape_controls
from sanitize.errors import PlanError, UsageError, suggest_names
from sanitize.kinds import ip_address
from sanitize.kinds.custom_kind import CustomKind, resolve_custom_kinds
from sanitize.kinds.kind import Kind, builtin_kinds, custom_kinds, list_kinds
from sanitize.plans.coverage import (
    CategoryCoverage,
    PlanDescription,
    compute_coverage,
    describe_looked_for,
    describe_not_looked_for,
    describe_staying,
    list_models,
)
from sanitize.plans.detection_spec import DetectionSpec
from sanitize.plans.kind_lists import (
    DECISION_GROUPS,
    FOUND_GROUPS,
    resolve_decisions,
    resolve_found_kinds,
    resolve_read_kinds,
)
from sanitize.plans.shipped_plans import plan_names, read_shipped_plan, resolve_plan_name
from sanitize.storage.disk_errors import refuse_unwritable_path
from sanitize.storage.files import parse_toml

DEFAULT_PLAN = "redact"  # keeps nothing that it finds


@dataclass(frozen=True)
class SelectionRules:
    """Values that a plan leaves (`allow`) or always takes (`deny`), and the lowest score that it
    accepts, by kind."""

    allow: Mapping[str, tuple[str, ...]]
    deny: Mapping[str, tuple[str, ...]]
    min_score: Mapping[str, float]

    def __bool__(self) -> bool:
        return bool(self.allow or self.deny or self.min_score)


class FindSettings(BaseModel):
    """The `[find]` table: kinds, by name, by category or `default`; finders, each by its name or as
    a table with its settings (`{use = "ner", model = "PATH"}`); and countries, by two letters, some
    of whose national kinds `kinds` lists.

    `allow`, `deny` and `min_score`, by kind, select among the occurrences of the index, without
    reading the corpus again: values that are left unchanged, values that are always taken, and the
    lowest score. A value may be a pattern: `*` and `?` as in file names, `@example.com` for a host,
    `10.0.0.0/8` for a network.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kinds: tuple[str, ...]  # kinds, categories, `default` or `*`
    finders: tuple[str | dict[str, Any], ...] = ("patterns",)  # names, or tables with settings
    # two letters each; `kinds` lists national kinds of each, or their category
    countries: tuple[str, ...] = ()
    allow: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    deny: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    min_score: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)

    @field_validator("allow", "deny", "min_score", mode="before")
    @classmethod
    def _check_keys(cls, rule: Any, info: ValidationInfo) -> Any:
        """Refuses a key that cannot be a kind, without showing it: where somebody swapped a key
        with its values, it is a value."""
        if isinstance(rule, Mapping) and not all(
            re.fullmatch("[A-Z][A-Z0-9_]*", str(key)) for key in rule
        ):
            raise ValueError(_wrong_rule_key(str(info.field_name)))
        return rule

    @property
    def selection_rules(self) -> SelectionRules:
        """The rules that select among the occurrences of the index."""
        return SelectionRules(self.allow, self.deny, self.min_score)


class BlacklistSettings(BaseModel):
    """The `[blacklist]` table. A word, or an n-gram of up to `n` words, that fewer than `k` users
    wrote is an indirect identifier (k = 1 lists none). `direct` lists the found values as well.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    VERSION: ClassVar[int] = 1  # raise it when the list changes for the same settings and input
    k: int = Field(default=2, ge=1, le=100)  # a word of fewer users is listed
    n: int = Field(default=1, ge=1, le=3)  # words of the longest n-gram
    direct: bool = True  # list the words of found values too


class _PlanFile(BaseModel):
    """The contents of a plan file, before its parts are loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    about: str = ""  # what the plan does, looks for and leaves, for `sanitize list plans`
    publishable: bool = (
        True  # false: summary, card and manifest say that the output is not to be published
    )
    leave: tuple[str, ...] = ()  # kinds and categories that are found and counted, but not changed
    find: FindSettings
    kind: tuple[CustomKind, ...] = ()
    drop: tuple[dict[str, Any], ...] = ()  # droppers, in the order in which they run
    edit: tuple[dict[str, Any], ...] = ()  # editors; the first one that names a kind handles it
    blacklist: BlacklistSettings | None = None


class Plan(BaseModel):
    """A validated plan. `droppers` and `editors` are in order of precedence; kinds in `leave` are
    found and counted, but not changed."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)
    name: str
    about: str
    publishable: bool
    leave: tuple[str, ...]
    find: FindSettings
    finders: tuple[Any, ...] = Field(default=())
    droppers: tuple[Any, ...] = Field(default=())
    editors: tuple[Any, ...] = Field(default=())
    blacklist: BlacklistSettings | None = None
    custom_kinds: tuple[CustomKind, ...] = ()  # kinds that the plan itself defines

    def __repr__(self) -> str:
        return (
            f"Plan({escape_controls(self.name)}:"
            f" {'; '.join(f'{name} {text}' for name, text in self._summary_rows() if text)})"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        parts = [("drop", part) for part in self.droppers] + [
            ("edit", part) for part in self.editors
        ]
        rows = [
            (part_type, part.use, _format_settings(part.model_dump(mode="json")))
            for part_type, part in parts
        ]
        facts = [
            *([("about", self.about)] if self.about else []),
            *((name, text) for name, text in self._summary_rows() if name not in ("drop", "edit")),
        ]
        return SummaryTable(
            title=f"Plan {self.name}", facts=facts, header=("type", "part", "settings"), rows=rows
        ).to_html()

    def _summary_rows(self) -> list[tuple[str, str]]:
        return [
            ("find", ", ".join(self.find.kinds)),
            ("drop", ", ".join(dropper.use for dropper in self.droppers)),
            ("edit", ", ".join(editor.use for editor in self.editors)),
            ("leave", ", ".join(self.leave)),
            ("publish", "publishable" if self.publishable else "not publishable"),
        ]

    def resolved_settings(self) -> dict[str, Any]:
        """Every setting with its value, as JSON data."""
        optional_tables: dict[str, Any] = (
            {} if self.blacklist is None else {"blacklist": self.blacklist.model_dump(mode="json")}
        )
        if self.custom_kinds:
            optional_tables["kind"] = [
                custom_kind.resolved_settings() for custom_kind in self.custom_kinds
            ]
        return {
            "name": self.name,
            "about": self.about,
            "publishable": self.publishable,
            "leave": list(self.leave),
            "find": self.find.model_dump(mode="json"),
            "drop": [dropper.model_dump(mode="json") for dropper in self.droppers],
            "edit": [editor.model_dump(mode="json") for editor in self.editors],
            **optional_tables,
        }

    def public_settings(self) -> dict[str, Any]:
        """`resolved_settings` for publication: values that the plan allows, denies or lists are
        replaced by their counts, by kind."""
        resolved = self.resolved_settings()
        if self.custom_kinds:
            resolved["kind"] = [custom_kind.public_settings() for custom_kind in self.custom_kinds]
        for name in ("allow", "deny"):
            resolved["find"][name] = {
                kind: len(values) for kind, values in resolved["find"][name].items()
            }
        return resolved

    @classmethod
    def load(
        cls, plan: str | Path | Plan, changes: Sequence[str] = (), finders: Sequence[str] = ()
    ) -> Plan:
        """The shipped plan of this name, or the plan of this TOML file; a `Plan` as it is.

        `changes` are those of `--set`, such as `edit.0.keep=2`, and `finders` those of `--finder`,
        such as `ner`; they are applied before the file is validated.

        Raises PlanError for an unknown name and for a plan that is not valid.

        >>> Plan.load("redact").publishable
        True
        """
        return plan if isinstance(plan, Plan) else load_plan(str(plan), changes, finders)

    def with_(self, changes: Mapping[str, Any] | None = None, /, **settings: Any) -> Plan:
        """The plan with some settings changed: `keep=2` changes the one part that has a setting
        `keep`, and `{"edit.0.keep": 2}` the setting at this place of the plan file (entries of
        lists are counted from 0).

        Raises PlanError for a setting that no part or more than one part has, and for a plan that
        is not valid with the changes.

        >>> Plan.load("rmft").with_(keep=2).editors[0].keep
        2
        >>> Plan.load("rmft").with_({"edit.1.label": "numbered"}).editors[1].label
        'numbered'
        """
        resolved = self.resolved_settings()
        for path, value in {
            **(changes or {}),
            **{self._locate_setting(name): value for name, value in settings.items()},
        }.items():
            _set_at_path(resolved, path, value, f"plan {self.name}: {path}")
        return Plan.from_resolved(resolved, f"plan {self.name}")

    def coverage(self) -> tuple[CategoryCoverage, ...]:
        """What the plan looks for and what becomes of it: a row for each category of kinds, names
        of people first.

        >>> person = Plan.load("rmft").coverage()[0]
        >>> person.category, person.looked_for, person.not_looked_for
        ('person', [], ['PERSON'])
        """
        return compute_coverage(self)

    def describe(self) -> PlanDescription:
        """What `sanitize plan show` prints: the plan's purpose, its coverage, and in words what is
        looked for, what is not, and what stays.

        >>> Plan.load("redact").describe().stays
        []
        """
        coverage = self.coverage()
        notes = list(self.ineffective_settings)
        if allowed := sorted(self.find.allow):
            notes.append(f"find.allow: listed values of {', '.join(allowed)} stay")
        if scored := sorted(self.find.min_score):
            notes.append(
                f"find.min_score: occurrences of {', '.join(scored)} with a lower score stay"
            )
        return PlanDescription(
            name=self.name,
            about=self.about,
            publishable=self.publishable,
            finders=[finder.use for finder in self.finders],
            droppers=[dropper.use for dropper in self.droppers],
            categories=coverage,
            looked_for=describe_looked_for(self),
            stays=describe_staying(coverage),
            not_looked_for=describe_not_looked_for(coverage),
            models=list_models(self),
            notes=notes,
        )

    def _locate_setting(self, name: str) -> str:
        """The place of a setting in the plan file, such as `edit.0.keep`. Raises PlanError unless
        exactly one part has it."""
        parts: dict[str, BaseModel] = {
            f"drop.{number}": part for number, part in enumerate(self.droppers)
        }
        parts |= {f"edit.{number}": part for number, part in enumerate(self.editors)}
        parts |= {
            "find": self.find,
            **({"blacklist": self.blacklist} if self.blacklist is not None else {}),
        }
        places = [
            f"{place}.{setting}"
            for place, part in parts.items()
            for setting, model_field in type(part).model_fields.items()
            if setting != "use"
            and len(get_args(model_field.annotation))
            != 1  # a Literal with a single value cannot be changed
        ]
        places += ["about", "publishable", "leave"]
        found = [place for place in places if place.rpartition(".")[2] == name]
        if len(found) == 1:
            return found[0]
        if not found:
            names = {one.rpartition(".")[2] for one in places}
            raise PlanError(
                f"plan {self.name}: no part has a setting {name}; {suggest_names(name, names)}"
            )
        raise PlanError(
            f"plan {self.name}: {len(found)} parts have a setting {name}; choose one with"
            f" with_({{...}}): {', '.join(found)}"
        )

    @classmethod
    def from_resolved(
        cls,
        resolved: Mapping[str, Any],
        location: str,
        changes: Sequence[str] = (),
    ) -> Plan:
        """The plan that `resolved_settings` described, validated like a plan file, with the
        `changes` of `load_plan`; error messages begin with `location`."""
        source = copy.deepcopy(dict(resolved))
        name = str(source.pop("name", ""))
        for change in changes:
            _apply_change(source, change)
        return _parse_plan(name, location, source)

    def hash(self, *extra: object) -> str:
        """Sixteen hexadecimal digits over everything that decides the output; `extra` adds values
        from outside the plan."""
        resolved = without_description(self.resolved_settings())
        if self.custom_kinds:
            resolved["kind"] = [custom_kind.output_settings() for custom_kind in self.custom_kinds]
        return self._hash(resolved, *extra)

    @property
    def public_hash(self) -> str:
        """The hash of what is published of the plan (`public_settings`), which is the same for
        every input: of the values that it lists the counts, so that nobody can try values."""
        return self._hash(without_description(self.public_settings()))

    def _hash(self, settings: Mapping[str, Any], *extra: object) -> str:
        versions = [type(part).VERSION for part in (*self.finders, *self.droppers, *self.editors)]
        versions += [] if self.blacklist is None else [type(self.blacklist).VERSION]
        text = json.dumps([settings, versions, *extra], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def with_known_values(self, known_values: object) -> Plan:
        """The plan with the finder `known` added, if there is a user's list of values for it.

        Raises PlanError if `known` is the only finder for a kind and there is no list: without a
        list it finds only further occurrences of names, places and organisations that another
        finder reported.
        """
        if not known_values:
            others = [finder for finder in self.finders if finder.use != "known"]
            for kind in find_kinds_without_finder(self.find.kinds, others):
                raise PlanError(
                    f"plan {self.name}: {kind}: find.finders has only `known` for this kind, and"
                    " there is no list; give one with --known FILE, or add one of"
                    f" {_list_finders_for(kind)}"
                )
        if not known_values or any(finder.use == "known" for finder in self.finders):
            return self
        resolved = self.resolved_settings()
        resolved["find"]["finders"] = [*resolved["find"]["finders"], "known"]
        return Plan.from_resolved(resolved, f"plan {self.name}")

    @property
    def detection_spec(self) -> DetectionSpec:
        """What the plan searches for: finders, countries, opt-in kinds and custom kinds."""
        opt_in_kinds = {
            name
            for name, kind in builtin_kinds().items()
            if kind.opt_in and name in self.find.kinds
        }
        finders = tuple(finder.resolve_settings() for finder in self.finders)
        return DetectionSpec(
            finders=finders,
            countries=tuple(sorted(self.find.countries)),
            opt_in_kinds=tuple(sorted(opt_in_kinds)),
            custom_kinds=self.custom_kinds,
        )

    @property
    def leak_checked_kinds(self) -> list[str]:
        """The kinds whose values the leak check searches for: those whose editor guarantees
        removal, and whose texts do not often have another meaning.
        """
        removed_kinds = [
            kind
            for kind, editor_no in self.editor_no_by_kind.items()
            if self.editors[editor_no].removal_policy != "ledger"
        ]
        ambiguous_kinds = {name for name, kind in builtin_kinds().items() if kind.ambiguous_text}
        return [kind for kind in removed_kinds if kind not in ambiguous_kinds]

    @property
    def kinds_that_may_stay(self) -> tuple[str, ...]:
        """The kinds that the plan leaves, and those whose editor does not promise that values are
        removed."""
        numbers = self.editor_no_by_kind
        return (
            *self.leave,
            *(
                kind
                for kind, number in numbers.items()
                if self.editors[number].removal_policy == "ledger"
            ),
        )

    @property
    def editor_no_by_kind(self) -> dict[str, int]:
        """The number of the editor of each kind that is edited."""
        return {
            kind: number
            for number, editor in reversed(list(enumerate(self.editors)))
            for kind in editor.kinds
        }

    @property
    def ineffective_settings(self) -> list[str]:
        """Settings without effect, in words: kinds of an editor, or in `leave`, that an earlier
        editor handles."""
        editor_by_kind = self.editor_no_by_kind
        kind_lists = [
            (-1, "leave", self.leave),
            *(
                (editor_no, f"edit[{editor_no}].kinds", editor.kinds)
                for editor_no, editor in enumerate(self.editors)
            ),
        ]
        return [
            f"{key} names {kind} without effect: the first editor that names a kind handles all of"
            f" its occurrences, edit[{editor_by_kind[kind]}].kinds"
            f" ({self.editors[editor_by_kind[kind]].use})"
            for editor_no, key, kinds in kind_lists
            for kind in kinds
            if editor_by_kind.get(kind, editor_no) != editor_no
        ]


def without_description(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plan, resolved or public, that decide its output: all but its name and
    `about`, which another release may word differently."""
    return {key: value for key, value in settings.items() if key not in ("name", "about")}


def _format_settings(part: Mapping[str, Any]) -> str:
    """The settings of a part in one line, such as `keep=1, kinds=A+B`."""
    return ", ".join(
        f"{name}={'+'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in part.items()
        if name != "use"
    )


def load_plan(
    name: str = DEFAULT_PLAN, changes: Sequence[str] = (), finders: Sequence[str] = ()
) -> Plan:
    """The plan with this shipped name, or of this TOML file, with `changes` such as `edit.0.keep=2`
    applied, and `finders` such as `ner` or `ner=FOLDER` added (see `_add_finder`). An earlier name
    of a shipped plan is understood, with a warning.

    Raises PlanError for an unknown plan, key or kind, and for a kind that is found but not named by
    an editor or in `leave`.
    """
    name = resolve_plan_name(name)
    if name in plan_names():
        location, text = f"plan {name}", read_shipped_plan(name)
    else:
        path = Path(name)
        if not path.is_file():
            raise PlanError(
                f"{name}: neither a shipped plan nor a file; {suggest_names(name, plan_names())}"
            )
        location, name = path.name, path.stem
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(
                f"{location}: cannot be read ({type(error).__name__}); expected a TOML file in"
                " UTF-8"
            ) from None
    try:
        source = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{location}: not TOML: {error}") from None
    for change in changes:
        _apply_change(source, change)
    for entry in finders:
        _add_finder(source, entry, location)
    return _parse_plan(name, location, source, None if name in plan_names() else path.parent)


_TEMPLATE_HEADER = """\
# A plan for `sanitize run --plan {file}`. `sanitize plan show {file}` says what it looks for and what becomes of it, and
# `sanitize explain TEXT --plan {file}` shows what it does with a text. All keys: docs/reference/plan.md.
#
# For editors that check TOML, write in the first line: #:schema {schema}

"""  # noqa: E501
_TEMPLATE_COMMENTS = {  # what begins a line -> the comment above it
    "about =": "what the plan does, looks for and leaves, for `sanitize list plans`",
    "publishable =": "false: summary and card say that the output is not to be published",
    "leave =": "kinds and categories that are found and counted, but not changed",
    "[find]": (
        "what is looked for: kinds, categories of kinds, `default` or `*` (sanitize list kinds)"
    ),
    "finders =": (
        "patterns: numbers, addresses; names: people's names; known: the same names elsewhere, and"
        " your --known list"
    ),
    "[[edit]]": (
        "what becomes of it; the most specific entry decides: a kind before its category, a"
        " category before `*`"
    ),
    "[blacklist]": "a list of words that few users wrote, for training",
}
_TEMPLATE_FOOTER = """
# Further tables, to be uncommented (a table that is in the plan already takes the lines below its name):
#
# [find]
# countries = ["DE"]                              # search for the national identifiers of these countries, too
#
# [find.allow]
# EMAIL_ADDRESS = ["@example.org"]                # values that stay
#
# [find.deny]
# EMAIL_ADDRESS = ["ceo@example.org"]             # values that are taken although they are allowed
#
# [[kind]]                                        # a kind of your own; `sanitize plan test {file}` runs its examples
# name = "STAFF_ID"
# pattern = 'EMP-[0-9]{{6}}'
# examples = ["EMP-123456"]
# counter_examples = ["EMP-12"]
"""  # noqa: E501


def locate_plan_schema() -> Path:
    """The path of the JSON schema of plan files, which the documentation generates from this
    module."""
    package = Path(__file__).resolve().parents[1]
    installed, in_checkout = (
        package / "plans" / "plan.schema.json",
        package.parent / "docs" / "reference" / "plan.schema.json",
    )
    return installed if installed.is_file() else in_checkout


def write_plan_template(path: Path, name: str) -> str:
    """Writes the file of a shipped plan with comments, to start a plan from, and returns the name
    of that plan. Raises UsageError if the file exists, PlanError for an unknown name."""
    name = resolve_plan_name(name)
    if name not in plan_names():
        raise PlanError(
            f"--from {name}: there is no such shipped plan; {suggest_names(name, plan_names())}"
        )
    lines, commented = [], set()
    for line in read_shipped_plan(name).splitlines():
        begin = next(
            (
                begin
                for begin in _TEMPLATE_COMMENTS
                if line.startswith(begin) and begin not in commented
            ),
            None,
        )
        if begin is not None:
            commented.add(begin)
            lines.append(f"# {_TEMPLATE_COMMENTS[begin]}")
        lines.append(line)
    header, footer = (
        part.format(file=path.name, schema=locate_plan_schema())
        for part in (_TEMPLATE_HEADER, _TEMPLATE_FOOTER)
    )
    text = header + "\n".join(lines) + "\n" + footer
    if path.exists():
        raise UsageError(f"{path}: exists already; name another file, or remove it")
    with (
        refuse_unwritable_path(path, "name a file in a folder that exists"),
        path.open("x", encoding="utf-8") as file,
    ):
        file.write(text)
    return name


def _parse_plan(
    name: str, location: str, source: dict[str, Any], folder: Path | None = None
) -> Plan:
    """The plan of a file's parsed content; `folder` is the folder of the file, if there is one."""
    plan_file = part_protocols.parse_settings(_PlanFile, source, location + ":")
    plan_file = plan_file.model_copy(
        update={"kind": resolve_custom_kinds(plan_file.kind, location, folder)}
    )
    with custom_kinds(plan_file.kind):
        return _build_plan(name, location, plan_file)


def _build_plan(name: str, location: str, plan_file: _PlanFile) -> Plan:
    """The plan with its parts loaded. Raises PlanError where its settings conflict, or where it
    does not decide about every kind that it finds.
    """
    finders = _load_finders(plan_file.find, location)
    known_kinds = {
        **_available_kinds(plan_file.find.countries, location),
        **{custom_kind.name: custom_kind.build_kind() for custom_kind in plan_file.kind},
    }
    without_finder = find_kinds_without_finder(tuple(known_kinds), finders)
    own_kinds = [custom_kind.name for custom_kind in plan_file.kind]
    # in a category, kinds that only a list of known values can find do not count: the list may be
    # missing
    without_list = [finder for finder in finders if finder.use != "known"]
    found_kinds = resolve_found_kinds(
        plan_file.find.kinds,
        known_kinds,
        without_finder,
        find_kinds_without_finder(tuple(known_kinds), without_list),
        own_kinds,
    )
    for kind in found_kinds:
        if kind in without_finder:
            raise PlanError(
                f"{location}: {kind} has no pattern, and none of find.finders finds it; add one of"
                f" {_list_finders_for(kind)}"
            )
    droppers, editors = (
        _load_parts("drop", plan_file.drop, location),
        _load_parts("edit", plan_file.edit, location),
    )
    listed_kinds = [dropper.occurrence_kinds for dropper in droppers]
    read_kinds = [resolve_read_kinds(kinds, found_kinds, known_kinds) for kinds in listed_kinds]
    droppers = _load_parts("drop", _with_kinds(plan_file.drop, listed_kinds, read_kinds), location)
    listed_kinds = [editor.kinds for editor in editors]
    leave, *edited_kinds = resolve_decisions(
        [plan_file.leave, *listed_kinds], found_kinds, known_kinds
    )
    editors = _load_parts("edit", _with_kinds(plan_file.edit, listed_kinds, edited_kinds), location)
    droppers, editors = (
        tuple(part.resolve_settings() for part in parts) for parts in (droppers, editors)
    )
    plan = Plan(
        name=name,
        about=plan_file.about,
        publishable=plan_file.publishable,
        leave=leave,
        find=plan_file.find.model_copy(
            update={
                "kinds": found_kinds,
                "finders": tuple(name_finder(finder) for finder in finders),
            }
        ),
        finders=finders,
        droppers=droppers,
        editors=editors,
        blacklist=plan_file.blacklist,
        custom_kinds=plan_file.kind,
    )
    _check_custom_kinds(plan, location)
    _check_named_kinds(plan, known_kinds, location)
    _check_countries(plan, known_kinds, location)
    _check_selection_values(plan, location)
    _check_blacklist(plan, location)
    _check_decisions(plan, known_kinds, location)
    return plan


def _check_custom_kinds(plan: Plan, location: str) -> None:
    """Raise PlanError for a kind of the plan's own that nothing searches for."""
    for number, custom_kind in enumerate(plan.custom_kinds):
        if custom_kind.name not in plan.find.kinds:
            raise PlanError(
                f"{location}: kind[{number}] is {custom_kind.name}, which is not in find.kinds; add"
                " it there, or remove the kind"
            )
    if plan.custom_kinds and not any(finder.use == "patterns" for finder in plan.finders):
        raise PlanError(
            f'{location}: find.finders lacks "patterns", which searches for the plan\'s own kinds;'
            " add it there"
        )


def _check_named_kinds(plan: Plan, known_kinds: Mapping[str, Kind], location: str) -> None:
    """Raise PlanError for a kind that some setting names and that the plan does not find."""
    rules: dict[str, Mapping[str, object]] = {
        "allow": plan.find.allow,
        "deny": plan.find.deny,
        "min_score": plan.find.min_score,
    }
    for rule, value_by_kind in rules.items():
        for kind in value_by_kind:
            if kind not in builtin_kinds() and kind not in known_kinds:
                # the key is not shown: swapped with its values, it is one
                raise PlanError(
                    f"{location}: find.{rule}: {_wrong_rule_key(rule)};"
                    f" {suggest_names(kind, known_kinds)}"
                )
    kinds_by_setting: list[tuple[str, Iterable[str], frozenset[str]]] = [
        ("find.kinds", plan.find.kinds, FOUND_GROUPS),
        ("leave", plan.leave, DECISION_GROUPS),
        *(
            (f"drop[{number}].kinds", dropper.occurrence_kinds, DECISION_GROUPS)
            for number, dropper in enumerate(plan.droppers)
        ),
        *(
            (f"edit[{number}].kinds", editor.kinds, DECISION_GROUPS)
            for number, editor in enumerate(plan.editors)
        ),
        *(
            (f"find.{rule}", value_by_kind, frozenset[str]())
            for rule, value_by_kind in rules.items()
        ),
    ]
    for setting, kinds, groups in kinds_by_setting:
        for kind in kinds:
            if kind not in known_kinds and kind in builtin_kinds():
                raise PlanError(
                    f"{location}: {setting}: {kind} is searched for only where find.countries names"
                    f" {builtin_kinds()[kind].country}; add it there"
                )
            if kind not in known_kinds:
                raise PlanError(
                    f"{location}: {setting}: there is no kind {kind!r};"
                    f" {suggest_names(kind, [*known_kinds, *groups])}"
                )
            if kind not in plan.find.kinds:
                raise PlanError(
                    f"{location}: {setting} names {kind}, which is not in find.kinds; add it there,"
                    " or remove it here"
                )


def _check_countries(plan: Plan, known_kinds: Mapping[str, Kind], location: str) -> None:
    """Raise PlanError for a country of which the plan finds no kind."""
    for country in plan.find.countries:
        national_kinds = [
            name for name, kind in known_kinds.items() if kind.country == country.upper()
        ]
        if not set(national_kinds) & set(plan.find.kinds):
            raise PlanError(
                f"{location}: find.countries names {country}, but find.kinds none of its kinds, so"
                f" none would be found; add {', '.join(national_kinds)}, or their category"
                f" ({known_kinds[national_kinds[0]].category}), to find.kinds"
            )


def _check_selection_values(plan: Plan, location: str) -> None:
    """Raise PlanError for an entry of `allow` or `deny` that can select nothing."""
    for rule, values in (("allow", plan.find.allow), ("deny", plan.find.deny)):
        for kind, entries in values.items():
            if not (entries and all(entries)):
                raise PlanError(
                    f"{location}: find.{rule}.{kind} is empty, or lists an empty value; expected"
                    " values such as *@example.com"
                )
            try:
                ip_address.parse_networks(entries if kind == ip_address.KIND.name else ())
            except ValueError:
                expected = "expected a network such as 10.0.0.0/8 or 2001:db8::/32"
                raise PlanError(
                    f"{location}: find.{rule}.{kind}: an entry with `/` is not a network;"
                    f" {expected}"
                ) from None


def _check_blacklist(plan: Plan, location: str) -> None:
    """Raise PlanError for an editor that masks entries which the blacklist does not have."""
    for number, editor in enumerate(plan.editors):
        if "blacklist" in editor.required_aggregates and plan.blacklist is None:
            raise PlanError(
                f"{location}: edit[{number}].use = {editor.use!r} masks the entries of a blacklist;"
                " add a [blacklist] table to the plan"
            )
        if plan.blacklist is None:
            continue
        if "indirect" in editor.blacklist_reasons and plan.blacklist.k == 1:
            raise PlanError(
                f"{location}: edit[{number}].reasons names indirect, but blacklist.k = 1 lists no"
                " indirect identifiers; set it to 2 or more (--set blacklist.k=2), or remove"
                " indirect"
            )
        if "direct" in editor.blacklist_reasons and not plan.blacklist.direct:
            raise PlanError(
                f"{location}: edit[{number}].reasons names direct, but blacklist.direct is false;"
                " set it to true, or remove direct"
            )


def _check_decisions(plan: Plan, known_kinds: Mapping[str, Kind], location: str) -> None:
    """Raise PlanError for a kind that is found and about which the plan decides nothing."""
    decided_kinds = {kind for editor in plan.editors for kind in editor.kinds} | set(plan.leave)
    for kind in plan.find.kinds:
        if kind not in decided_kinds:
            raise PlanError(
                f"{location}: {kind} is found, but no editor names it or its category"
                f" ({known_kinds[kind].category}); name one of the two in an [[edit]], or in"
                " `leave` to keep it on purpose"
            )


def _load_parts(
    part_type: PartType, settings: Sequence[Mapping[str, Any]], location: str
) -> tuple[Any, ...]:
    """The droppers or editors of a plan, in order."""
    return tuple(
        part_protocols.load_part(part_type, one, f"{location}: {part_type}[{number}]")
        for number, one in enumerate(settings)
    )


def _with_kinds(
    settings: Sequence[Mapping[str, Any]],
    listed_kinds: Sequence[Sequence[str]],
    resolved_kinds: Sequence[Sequence[str]],
) -> list[Mapping[str, Any]]:
    """The settings of some parts with their resolved kinds, where these differ from the listed ones
    (of the plan, or a default)."""
    return [
        one if tuple(listed) == tuple(resolved) else {**one, "kinds": resolved}
        for one, listed, resolved in zip(settings, listed_kinds, resolved_kinds, strict=True)
    ]


def name_finder(finder: Finder) -> str | dict[str, Any]:
    """The entry of a finder in find.finders: only its name where it has no settings."""
    settings = finder.model_dump(mode="json")
    return finder.use if len(settings) == 1 else settings


def _load_finders(find: FindSettings, location: str) -> tuple[Finder, ...]:
    """The finders of a plan. Raises PlanError for a repeated finder."""
    if not find.finders:
        raise PlanError(
            f"{location}: find.finders is empty; expected at least one, such as finders ="
            ' ["patterns"]'
        )
    finders: list[Finder] = []
    for number, entry in enumerate(find.finders):
        key = f"{location}: find.finders[{number}]"
        finder = part_protocols.load_part(
            "find", {"use": entry} if isinstance(entry, str) else entry, key
        )
        if not isinstance(finder, Finder):
            raise PlanError(
                f"{key}.use = {finder.use!r}: is not a finder; expected a class that extends"
                " sanitize.core.part_protocols.Finder"
            )
        if finder.use in [earlier.use for earlier in finders]:
            raise PlanError(f"{key}.use = {finder.use!r}: is listed twice; remove one of them")
        finders.append(finder.resolve_settings())
    return tuple(finders)


def find_kinds_without_finder(kinds: Sequence[str], finders: Sequence[Finder]) -> list[str]:
    """The kinds without a pattern that none of the finders can find."""
    other_finders = [finder for finder in finders if finder.use != "patterns"]
    without_pattern = [
        kind for kind in kinds if kind in builtin_kinds() and not builtin_kinds()[kind].has_pattern
    ]
    return [
        kind
        for kind in without_pattern
        if not any(finder.can_find(kind) for finder in other_finders)
    ]


def _list_finders_for(kind: str) -> str:
    """The finders that can find a kind without a pattern, with what each needs, for messages."""
    listed = []
    for name in part_protocols.list_part_names("find"):
        try:
            finder = part_protocols.load_part("find", {"use": name}, "find.finders")
        except PlanError:  # it has a setting without a default
            listed.append(name)
            continue
        if name != "patterns" and (not finder.kinds or kind in finder.kinds):
            listed.append(f"{name} (with {finder.needs})" if finder.needs else name)
    return ", ".join(listed)


def _wrong_rule_key(rule: str) -> str:
    """The end of an error about a key of `find.allow`, `find.deny` or `find.min_score`."""
    example = "0.5" if rule == "min_score" else '["*@example.com"]'
    return (
        f"a key is not the name of a kind; expected KIND = ..., such as EMAIL_ADDRESS = {example}"
    )


def _available_kinds(countries: Sequence[str], location: str) -> Mapping[str, Kind]:
    """The kinds that a plan with these countries may name. Raises PlanError for an unknown
    country."""
    try:
        return list_kinds(countries, builtin_kinds())
    except PlanError as error:
        raise PlanError(f"{location}: {error}") from None


def _apply_change(source: dict[str, Any], change: str) -> None:
    """Applies one change such as `a.0.b=value`. The value is parsed as TOML; it is a plain string
    if it is not TOML."""
    path, equals, value = change.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise PlanError(f"--set {path}: expected KEY=VALUE, such as edit.0.keep=2")
    try:
        parsed = parse_toml(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    _set_at_path(source, path, parsed, f"--set {path}")


def _add_finder(source: dict[str, Any], entry: str, location: str) -> None:
    """Adds a finder to the content of a plan file: `ner`, or `ner=FOLDER` with its setting `model`.
    The plan then also looks for those kinds of the finder that have no pattern, if it decides about
    them: by name, by category or by `*`."""
    use, equals, model = entry.partition("=")
    find = source.setdefault("find", {})
    listed = find.setdefault("finders", ["patterns"])
    if not (isinstance(find, dict) and isinstance(listed, list)):
        return  # validation reports it
    finder_entry = {"use": use, "model": model} if equals else use
    names = [one.get("use") if isinstance(one, dict) else one for one in listed]
    if use in names:
        raise PlanError(
            f"--finder {use}: {location} has this finder already; change its settings with --set"
            " find.finders, or in the plan"
        )
    finder = part_protocols.load_part(
        "find", {"use": use, **({"model": model} if equals else {})}, f"--finder {use}"
    )
    finder.validate_settings()
    listed.append(finder_entry)
    decided = {
        kind
        for part in (*source.get("edit", ()), {"kinds": source.get("leave", ())})
        for kind in part.get("kinds", ())
    }
    kinds = find.get("kinds", [])
    for name in finder.kinds:
        kind = builtin_kinds().get(name)
        if (
            kind is not None
            and not kind.has_pattern
            and name not in kinds
            and decided & {name, kind.category, "*"}
        ):
            kinds.append(name)


def _set_at_path(source: dict[str, Any], path: str, value: Any, where: str) -> None:
    """Sets the value at a path such as `edit.0.keep`. Raises PlanError that begins with `where` if
    there is no such place."""
    keys = path.strip().split(".")
    target: Any = source
    for depth, key in enumerate(keys):
        is_last = depth == len(keys) - 1
        if isinstance(target, list):
            if not key.isdigit() or int(key) >= len(target):
                raise PlanError(
                    f"{where}: there is no entry {key} in {'.'.join(keys[:depth])}; it has"
                    f" {len(target)} entries, counted from 0"
                )
            if is_last:
                target[int(key)] = value
            else:
                target = target[int(key)]
        elif isinstance(target, dict):
            if is_last:
                target[key] = value
            else:
                target = target.setdefault(key, {})
        else:
            raise PlanError(f"{where}: {'.'.join(keys[:depth])} is a single value and has no keys")
