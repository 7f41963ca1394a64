"""A plan: which kinds are looked for, which parts run in which order. TOML in, `Plan` out, with no inheritance or interpolation.

A plan decides about every kind that it finds: each is named by an editor or in `leave`, else the plan is invalid (law 6).
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from sanitize.core import parts
from sanitize.core.display import Sheet
from sanitize.core.parts import Finder
from sanitize.core.rendering import visible
from sanitize.errors import PlanError, nearest
from sanitize.kinds import ip_address
from sanitize.kinds.custom_kind import Custom
from sanitize.kinds.custom_kind import settled as settled_kinds
from sanitize.kinds.kind import Kind, bringing, house_kinds
from sanitize.kinds.kind import kinds as kinds_of
from sanitize.plans.detection_spec import Sought


@dataclass(frozen=True)
class Rules:
    """What a plan allows, denies and asks of a score, by kind."""

    allow: Mapping[str, tuple[str, ...]]
    deny: Mapping[str, tuple[str, ...]]
    min_score: Mapping[str, float]

    def __bool__(self) -> bool:
        return bool(self.allow or self.deny or self.min_score)


class Find(BaseModel):
    """The `[find]` table: kinds; finders, each by its name or as a table with its settings (`{use = "ner", model = "PATH"}`); and countries
    whose own kinds are looked for, by their two letters.

    `allow`, `deny` and `min_score`, by kind, choose among what the index holds, without reading anything again: values (`*` and `?` as
    in file names, `@example.com` for a host, `10.0.0.0/8` for a network) that are left as they are, values that are
    taken all the same, and the least score.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kinds: tuple[str, ...]
    finders: tuple[str | dict[str, Any], ...] = ("patterns",)
    countries: tuple[str, ...] = ()
    allow: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    deny: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    min_score: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)

    @property
    def rules(self) -> Rules:
        """What of the index the plan takes."""
        return Rules(self.allow, self.deny, self.min_score)


class Blacklist(BaseModel):
    """The `[blacklist]` table: below `k` users a word, or an n-gram of up to `n` words, is an indirect identifier (k = 1 lists none);
    `direct` lists the values found as well."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    VERSION: ClassVar[int] = 1  # raise it when the list changes for the same settings and input
    k: int = Field(default=2, ge=1, le=100)
    n: int = Field(default=1, ge=1, le=3)
    direct: bool = True


class _Source(BaseModel):
    """The shape of a plan file, before its parts are loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    about: str = ""
    publishable: bool = True
    leave: tuple[str, ...] = ()
    find: Find
    kind: tuple[Custom, ...] = ()
    drop: tuple[dict[str, Any], ...] = ()
    edit: tuple[dict[str, Any], ...] = ()
    blacklist: Blacklist | None = None


class Plan(BaseModel):
    """A checked plan. `droppers` and `editors` in order of precedence; `leave` are kinds found, counted and not touched."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)
    name: str
    about: str
    publishable: bool
    leave: tuple[str, ...]
    find: Find
    finders: tuple[Any, ...] = Field(default=())
    droppers: tuple[Any, ...] = Field(default=())
    editors: tuple[Any, ...] = Field(default=())
    blacklist: Blacklist | None = None
    customs: tuple[Custom, ...] = ()  # kinds of its own

    def __repr__(self) -> str:
        return f"Plan({visible(self.name)}: {'; '.join(f'{name} {said}' for name, said in self._told() if said)})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        parts = [("drop", part) for part in self.droppers] + [("edit", part) for part in self.editors]
        rows = [(room, part.use, _settings(part.model_dump(mode="json"))) for room, part in parts]
        facts = [
            *([("about", self.about)] if self.about else []),
            *((name, said) for name, said in self._told() if name not in ("drop", "edit")),
        ]
        return Sheet(title=f"Plan {self.name}", facts=facts, head=("room", "part", "settings"), rows=rows).html()

    def _told(self) -> list[tuple[str, str]]:
        return [
            ("find", ", ".join(self.find.kinds)),
            ("drop", ", ".join(dropper.use for dropper in self.droppers)),
            ("edit", ", ".join(editor.use for editor in self.editors)),
            ("leave", ", ".join(self.leave)),
            ("publish", "publishable" if self.publishable else "not publishable"),
        ]

    def resolved(self) -> dict[str, Any]:
        """Every setting with its value."""
        more: dict[str, Any] = {} if self.blacklist is None else {"blacklist": self.blacklist.model_dump(mode="json")}
        if self.customs:
            more["kind"] = [one.model_dump(mode="json", exclude={"words_file"}) for one in self.customs]
        return {
            "name": self.name,
            "about": self.about,
            "publishable": self.publishable,
            "leave": list(self.leave),
            "find": self.find.model_dump(mode="json"),
            "drop": [dropper.model_dump(mode="json") for dropper in self.droppers],
            "edit": [editor.model_dump(mode="json") for editor in self.editors],
            **more,
        }

    def shown(self) -> dict[str, Any]:
        """`resolved` for what is published: of the values that it allows, denies or lists only how many, by kind."""
        resolved = self.resolved()
        if self.customs:
            resolved["kind"] = [one.shown() for one in self.customs]
        for name in ("allow", "deny"):
            resolved["find"][name] = {kind: len(values) for kind, values in resolved["find"][name].items()}
        return resolved

    @classmethod
    def from_resolved(cls, resolved: Mapping[str, Any], where: str) -> Plan:
        """The plan that `resolved` described, checked as a plan file is; `where` opens the error of one that is wrong."""
        source = dict(resolved)
        return _checked(str(source.pop("name", "")), where, source)

    def hash(self, *more: object) -> str:
        """Sixteen hexadecimal digits of everything that decides what comes out; `more` adds what lies outside the plan."""
        resolved = {key: value for key, value in self.resolved().items() if key not in ("name", "about")}
        if self.customs:
            resolved["kind"] = [one.decides() for one in self.customs]
        versions = [type(part).VERSION for part in (*self.finders, *self.droppers, *self.editors)]
        versions += [] if self.blacklist is None else [type(self.blacklist).VERSION]
        text = json.dumps([resolved, versions, *more], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def knowing(self, listed: object) -> Plan:
        """The same plan with the finder `known`, where there is a user's list for it. Raises PlanError where `known` is to find a kind
        and there is no list: of names, places and firms it finds only more of what a list or another finder gave it."""
        if not listed:
            others = [finder for finder in self.finders if finder.use != "known"]
            for kind in _unsought(self.find.kinds, others):
                raise PlanError(
                    f"plan {self.name}: {kind}: find.finders has only `known` for it, and there is no list; give one with --known FILE, "
                    f"or add one of {_finding(kind)}"
                )
        if not listed or any(finder.use == "known" for finder in self.finders):
            return self
        resolved = self.resolved()
        resolved["find"]["finders"] = [*resolved["find"]["finders"], "known"]
        return Plan.from_resolved(resolved, f"plan {self.name}")

    @property
    def sought(self) -> Sought:
        """What it looks for."""
        named = {name for name, kind in house_kinds().items() if kind.asked and name in self.find.kinds}
        finders = tuple(finder.settled() for finder in self.finders)
        return Sought(finders=finders, countries=tuple(sorted(self.find.countries)), named=tuple(sorted(named)), customs=self.customs)

    @property
    def checked(self) -> list[str]:
        """The kinds whose values the leak check looks for: those that are edited by a part that promises what is left, and whose texts do
        not stand for other things elsewhere."""
        promised = [kind for kind, number in self.edited.items() if self.editors[number].policy != "ledger"]
        common = {name for name, kind in house_kinds().items() if kind.common}
        return [kind for kind in promised if kind not in common]

    @property
    def edited(self) -> dict[str, int]:
        """The kinds that are edited, with the number of their editor."""
        return {kind: number for number, editor in reversed(list(enumerate(self.editors))) for kind in editor.kinds}

    @property
    def without_effect(self) -> list[str]:
        """What the plan says in vain, in words: kinds of an editor, or in `leave`, that an earlier editor decides about."""
        edited = self.edited
        said = [(-1, "leave", self.leave), *((number, f"edit[{number}].kinds", editor.kinds) for number, editor in enumerate(self.editors))]
        return [
            f"{place} names {kind} in vain: the first editor that names a kind decides about all of it, "
            f"edit[{edited[kind]}].kinds ({self.editors[edited[kind]].use})"
            for number, place, kinds in said
            for kind in kinds
            if edited.get(kind, number) != number
        ]


def _settings(part: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={'+'.join(map(str, value)) if isinstance(value, list) else value}" for name, value in part.items() if name != "use"
    )


def plan_names() -> list[str]:
    """The names of the shipped plans."""
    return sorted(entry.name[:-5] for entry in (resources.files("sanitize") / "plans").iterdir() if entry.name.endswith(".toml"))


def load_plan(name: str = "rmft", changes: Sequence[str] = ()) -> Plan:
    """The plan of a shipped name or of a TOML file, with `changes` such as `edit.0.keep=2` applied.

    Raises PlanError for an unknown plan, key or kind, and for a kind that is found but that nothing decides about.
    """
    if name in plan_names():
        where, text = f"plan {name}", (resources.files("sanitize") / "plans" / f"{name}.toml").read_text("utf-8")
    else:
        path = Path(name)
        if not path.is_file():
            raise PlanError(f"{name}: neither a shipped plan nor a file; {nearest(name, plan_names())}")
        where, name = path.name, path.stem
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"{where}: cannot be read ({type(error).__name__}); expected a TOML file in UTF-8") from None
    try:
        source = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: not TOML: {error}") from None
    for change in changes:
        _set(source, change)
    return _checked(name, where, source, None if name in plan_names() else path.parent)


def _checked(name: str, where: str, source: dict[str, Any], folder: Path | None = None) -> Plan:
    """The plan of a file's content; `folder` is where the file lies, if it is one."""
    shape = parts.checked(_Source, source, where + ":")
    shape = shape.model_copy(update={"kind": settled_kinds(shape.kind, where, folder)})
    with bringing(shape.kind):
        return _decided(name, where, shape)


def _decided(name: str, where: str, shape: _Source) -> Plan:
    """The plan of a shape, its parts loaded, if it decides about every kind that it finds."""
    droppers = tuple(parts.load("drop", settings, f"{where}: drop[{number}]").settled() for number, settings in enumerate(shape.drop))
    editors = tuple(parts.load("edit", settings, f"{where}: edit[{number}]").settled() for number, settings in enumerate(shape.edit))
    finders = _finders(shape.find, where)
    known = {**_known(shape.find.countries, where), **{one.name: one.kind() for one in shape.kind}}
    for number, one in enumerate(shape.kind):
        if one.name not in shape.find.kinds:
            raise PlanError(f"{where}: kind[{number}] is {one.name}, which is not in find.kinds; add it there, or take the kind out")
    if shape.kind and not any(finder.use == "patterns" for finder in finders):
        raise PlanError(f'{where}: find.finders lacks "patterns", which looks for the plan\'s own kinds; add it there')
    named: list[tuple[str, Sequence[str]]] = [("find.kinds", shape.find.kinds), ("leave", shape.leave)]
    named += [(f"drop[{number}].kinds", dropper.counted) for number, dropper in enumerate(droppers)]
    named += [(f"edit[{number}].kinds", editor.kinds) for number, editor in enumerate(editors)]
    chosen: dict[str, Mapping[str, object]] = {"allow": shape.find.allow, "deny": shape.find.deny, "min_score": shape.find.min_score}
    named += [(f"find.{what}", tuple(listed)) for what, listed in chosen.items()]
    for place, kinds in named:
        for kind in kinds:
            if kind not in known and kind in house_kinds():
                country = house_kinds()[kind].country
                raise PlanError(f"{where}: {place}: {kind} is looked for only where find.countries names {country}; add it there")
            if kind not in known:
                raise PlanError(f"{where}: {place}: there is no kind {kind!r}; {nearest(kind, known)}")
            if kind not in shape.find.kinds:
                raise PlanError(f"{where}: {place} names {kind}, which is not in find.kinds; add it there, or take it out here")
    for what, values in (("allow", shape.find.allow), ("deny", shape.find.deny)):
        for kind, entries in values.items():
            if not (entries and all(entries)):
                raise PlanError(f"{where}: find.{what}.{kind} lists nothing, or an empty value; expected values such as *@example.com")
            try:
                ip_address.networks(entries if kind == ip_address.KIND.name else ())
            except ValueError:
                expected = "expected such as 10.0.0.0/8 or 2001:db8::/32"
                raise PlanError(f"{where}: find.{what}.{kind}: a `/` without a network; {expected}") from None
    for number, editor in enumerate(editors):
        if "blacklist" in editor.needs and shape.blacklist is None:
            raise PlanError(f"{where}: edit[{number}].use = {editor.use!r} masks what a blacklist lists; give the plan a [blacklist] table")
        if "indirect" in getattr(editor, "reasons", ()) and shape.blacklist is not None and shape.blacklist.k == 1:
            raise PlanError(
                f"{where}: edit[{number}].reasons names indirect, and blacklist.k = 1 lists no word because few people use it; take "
                "2 or more (--set blacklist.k=2), or take indirect out"
            )
        if "direct" in getattr(editor, "reasons", ()) and shape.blacklist is not None and not shape.blacklist.direct:
            raise PlanError(
                f"{where}: edit[{number}].reasons names direct, and blacklist.direct is false; set it to true, or take direct out"
            )
    decided = {kind for editor in editors for kind in editor.kinds} | set(shape.leave)
    for kind in shape.find.kinds:
        if kind not in decided:
            raise PlanError(
                f"{where}: {kind} is found, but no editor takes it; name it in an [[edit]], or in `leave` to keep it on purpose"
            )
    return Plan(
        name=name,
        about=shape.about,
        publishable=shape.publishable,
        leave=shape.leave,
        find=shape.find.model_copy(update={"finders": tuple(_said(finder) for finder in finders)}),
        finders=finders,
        droppers=droppers,
        editors=editors,
        blacklist=shape.blacklist,
        customs=shape.kind,
    )


def _said(finder: Finder) -> str | dict[str, Any]:
    """A finder as a plan names it: its name alone where it has no settings."""
    settings = finder.model_dump(mode="json")
    return finder.use if len(settings) == 1 else settings


def _finders(find: Find, where: str) -> tuple[Finder, ...]:
    """The finders of a plan, each once; a kind that none of them can find is refused."""
    if not find.finders:
        raise PlanError(f'{where}: find.finders is empty; name one at least, such as finders = ["patterns"]')
    finders: list[Finder] = []
    for number, said in enumerate(find.finders):
        place = f"{where}: find.finders[{number}]"
        finder = parts.load("find", {"use": said} if isinstance(said, str) else said, place)
        if not isinstance(finder, Finder):
            raise PlanError(f"{place}.use = {finder.use!r}: is no finder; expected a class that extends sanitize.core.parts.Finder")
        if finder.use in [one.use for one in finders]:
            raise PlanError(f"{place}.use = {finder.use!r}: stands there twice; take one of them out")
        finders.append(finder.settled())
    for kind in _unsought(find.kinds, finders):
        raise PlanError(f"{where}: {kind} has no pattern, and none of find.finders finds it; add one of {_finding(kind)}")
    return tuple(finders)


def _unsought(kinds: Sequence[str], finders: Sequence[Finder]) -> list[str]:
    """The kinds without a pattern that none of the finders seeks."""
    others = [finder for finder in finders if finder.use != "patterns"]
    bare = [kind for kind in kinds if kind in house_kinds() and not house_kinds()[kind].pattern]
    return [kind for kind in bare if not any(finder.seeks(kind) for finder in others)]


def _finding(kind: str) -> str:
    """The finders that can find a kind without a pattern, with what they need."""
    needs = {"known": "known (with --known FILE)", "presidio": "presidio (with a model)", "ner": "ner (with a model)"}
    names = [name for name in parts.names("find") if name != "patterns" and (kind == "PERSON" or name != "names")]
    return ", ".join(needs.get(name, name) for name in names)


def _known(countries: Sequence[str], where: str) -> Mapping[str, Kind]:
    """The kinds that a plan with these countries may name."""
    try:
        return kinds_of(countries, house_kinds())
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from None


def _set(source: dict[str, Any], change: str) -> None:
    """Apply one `a.0.b=value`; the value is read as TOML, and as a plain string where it is none."""
    path, equals, value = change.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps):
        raise PlanError(f"--set {path}: expected KEY=VALUE, such as edit.0.keep=2")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    target: Any = source
    for position, step in enumerate(steps):
        last = position == len(steps) - 1
        if isinstance(target, list):
            if not step.isdigit() or int(step) >= len(target):
                raise PlanError(
                    f"--set {path}: there is no entry {step} at {'.'.join(steps[:position])}; it has {len(target)} (0 is the first)"
                )
            if last:
                target[int(step)] = parsed
            else:
                target = target[int(step)]
        elif isinstance(target, dict):
            if last:
                target[step] = parsed
            else:
                target = target.setdefault(step, {})
        else:
            raise PlanError(f"--set {path}: {'.'.join(steps[:position])} is a single value, with nothing inside it")
