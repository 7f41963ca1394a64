"""The same corpus made again from its manifest: inputs by their hashes, the plan rerun, every shard compared.

Who has the plan and the inputs can make the shards anew; a manifest then stands in for a corpus that may not be passed on. It works for
runs with a seed alone: a secret key is in no manifest. A replay costs what the run cost; its WORK is a new one, so that nothing of an
earlier run is taken for its result. What a replay reads is somebody else's file: it is checked like a plan, and brings no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from sanitize.core.display import Told
from sanitize.core.progress import Progress, silent
from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.kinds.custom_kind import LISTS
from sanitize.pipeline.index_build import Indexing, Settings
from sanitize.pipeline.manifest import formats, versions
from sanitize.pipeline.run import Run
from sanitize.plans.plan import Plan
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles
from sanitize.storage import remote_output, vault
from sanitize.storage.corpus import Corpus, read_json, write_json
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.remote_storage import is_url, local_path, shown

_MARK = "replay.json"  # in WORK: what is there was made by a replay, of this manifest
_COUNTS = (
    "documents_in",
    "documents_out",
    "documents_dropped",
    "quarantined",
    "quarantine",
    "occurrences",
    "kept_originals",
    "replaced",
    "by_kind",
    "leaks",
)
_Sha256 = Field(pattern="^[0-9a-f]{64}$")


class _Input(BaseModel):
    bytes: int
    sha256: str = _Sha256


class _Shard(BaseModel):
    rows: int
    sha256: str = _Sha256


class _Key(BaseModel):
    kind: Literal["seed", "secret"]
    seed: int | None = None


class _Column(BaseModel):
    name: str
    policy: str


class _Roles(BaseModel):
    text: tuple[str, ...] = Field(min_length=1)
    user: str | None
    id: str | None
    split: str = "file"


class _Settings(BaseModel):
    rows_per_shard: int = Field(ge=1, le=1 << 19)
    max_doc_bytes: int = Field(ge=1, le=1 << 29)
    verify: str
    sample: float = Field(default=1.0, gt=0, le=1)
    format: str = "parquet"
    roles: _Roles
    erased: dict[str, int] = Field(default_factory=dict)
    known: bool = False


class _Manifest(BaseModel):
    """What a manifest must hold to be replayed."""

    tool: dict[str, Any]
    plan: dict[str, Any]
    plan_hash: str
    key: _Key
    inputs: tuple[_Input, ...]
    shards: tuple[_Shard, ...]
    columns: tuple[_Column, ...]
    settings: _Settings
    summary: dict[str, Any]


class _Different(Exception):
    """Nothing is to be published."""


def replay(
    manifest: Path | str,
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    work: Path | str | None = None,
    *,
    workers: int | None = None,
    memory_limit: str = "1GB",
    anyway: bool = False,
    known: Path | str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Make the corpus of a manifest (its path, or that of its folder) again, and compare; OUT is published where it is the same.

    `known` is the user's list of a run with `--known`, which no manifest holds.

    Returns `same`, `shards`, `different` (numbers of shards, from 0), `counts_different` (fields of the summary), `notes`, `published`,
    `changed` (false where an earlier replay had done it all), and where things lie. `anyway` publishes what is different, too.

    Raises UsageError for a manifest of a secret key or of other formats, InputRefused for inputs that are not the manifest's,
    OutputBroken for a manifest that cannot be read or does not hold together.
    """
    path = Path(manifest) / "manifest.json" if Path(manifest).is_dir() else Path(manifest)
    said, raw = _read(path)
    plan = _plan(path, said)
    if said.settings.known and known is None:
        raise UsageError(
            f"{path}: was made with a list of known values, which no manifest holds; give the same list again with --known FILE"
        )
    if known is not None and not said.settings.known:
        raise UsageError(f"{path}: was made without a list of known values; leave --known out")
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    if is_url(out):
        raise UsageError(f"{shown(str(out))}: a replay is compared on this machine; take a folder (-o), and copy what is the same")
    out, work = local_path(out), remote_output.here(work, out)
    vault.apart(inputs, out, work)
    if out.resolve() == path.resolve().parent:
        raise UsageError(f"{out}: is the folder of the manifest itself, and a replay would compare it with itself; take another -o")
    if (work / "index.json").exists() and not (work / _MARK).exists():
        raise UsageError(f"{work}: holds another run, and a replay begins anew; take another --work, or another -o")
    notes = _notes(said.tool)
    settings = Settings(
        columns=Columns(roles=Roles(**said.settings.roles.model_dump()), policies={column.name: column.policy for column in said.columns}),
        seed=said.key.seed,
        workers=workers,
        memory_limit=memory_limit,
        rows_per_shard=said.settings.rows_per_shard,
        max_doc_bytes=said.settings.max_doc_bytes,
        max_quarantine=1.0,  # how many may be set aside was decided when the manifest was written
        verify=said.settings.verify,
        sample=said.settings.sample,
        format=said.settings.format,
        known=Path(known) if known is not None else None,
        progress=progress,
    )
    made: dict[str, Any] = {}

    def accept(here: Mapping[str, Any]) -> None:
        made.update(_compared(said, raw, here))
        if not (made["same"] or anyway):
            raise _Different

    with Indexing(inputs, work, settings, plan.sought) as index:
        _same_inputs(path, said, [(size, known) for (_, size), known in zip(index.survey.files, index.input_hashes, strict=True)])
        ran = Run(index, plan, out, accept)
        if ran.hash != said.plan_hash:
            if not notes and known is not None:
                raise UsageError(
                    f"--known {known}: not the list that {path} was made with, or its plan or settings were changed; give that list"
                )
            if not notes:
                raise OutputBroken(
                    f"{path}: its plan_hash does not follow from its plan, settings and inputs; it was changed after it was written, "
                    "or made by another build of the same version"
                )
            notes.append("the plan's hash is another one here, as a plan of another version may mean other things")
        there = read_json(out / "manifest.json")
        if out.exists() and (there or {}).get("plan_hash") != ran.hash:
            raise UsageError(f"{out}: is there already, and is not what an earlier replay made; take another -o, or move it away")
        with disk_trouble(work):
            write_json(work / _MARK, {"plan_hash": said.plan_hash})
        changed = published = False
        try:
            changed = published = bool(ran.sanitize()["changed"])
        except _Different:
            changed = True
    if not changed:
        made.update(_compared(said, raw, Corpus.open(out).manifest))
        published = True
    return Told("replay", {**made, "notes": notes, "published": published, "changed": changed, "out": str(out), "work": str(work)})


def _read(path: Path) -> tuple[_Manifest, dict[str, Any]]:
    """The manifest in a file, if it can be replayed."""
    raw = read_json(path)
    if raw is None:
        raise OutputBroken(f"{path}: no readable manifest; expected the manifest.json of a folder that `sanitize run` published")
    key, tool = (found if isinstance(found := raw.get(name), Mapping) else {} for name in ("key", "tool"))
    if key.get("kind") == "secret":
        raise UsageError(
            f"{path}: was made with a secret key, which no manifest holds, so its draws cannot be repeated. "
            "Runs with --seed can be replayed; who has this run's key can run it again with --key FILE and compare the sha256 of the shards"
        )
    if tool.get("formats") != formats():
        made = _told(tool["formats"]) if isinstance(tool.get("formats"), Mapping) else "that it does not name"
        raise UsageError(
            f"{path}: was made with formats {made}; here they are {_told(formats())}, and the same plan gives other bytes. "
            f"Replay it with the version that made it: corpus-sanitize {tool.get('corpus-sanitize', '(unknown)')}"
        )
    try:
        said = _Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise OutputBroken(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}; it is no manifest that can be replayed") from None
    if raw.get("batches"):
        raise UsageError(
            f"{path}: was made in {len(raw['batches'])} parts (sanitize run --append), and a replay makes a corpus in one go; run the "
            "first part's inputs and append the others, with the same seed and plan, and compare the sha256 of the shards"
        )
    if said.settings.erased.get("erasures"):
        raise UsageError(
            f"{path}: people were erased from it (sanitize subject --erase), and which is in no manifest; "
            "run the plan of a manifest from before, then erase them again there"
        )
    if said.key.seed is None:
        raise OutputBroken(f"{path}: key.seed is missing; it is no manifest that can be replayed")
    return said, raw


def _told(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items()))


def _plan(path: Path, said: _Manifest) -> Plan:
    """The plan of a manifest. Parts of the user's own are refused: their code is in no manifest, and a file must not choose what runs."""
    where = f"{path}: plan"
    find = said.plan.get("find")
    rooms = {room: said.plan.get(room) for room in ("drop", "edit")}
    if isinstance(find, Mapping) and (find.get("allow") or find.get("deny")):
        raise UsageError(
            f"{where}: find.allow and find.deny name values, which no manifest holds; "
            "run its plan with `sanitize run --plan` and compare the sha256 of the shards"
        )
    own = said.plan.get("kind")
    if isinstance(own, list) and any(isinstance(one, Mapping) and one.get("words") for one in own):
        raise UsageError(
            f"{where}: a [[kind]] lists words, which no manifest holds; run its plan with `sanitize run --plan` and compare the sha256 "
            "of the shards"
        )
    rooms["find.finders"] = find.get("finders") if isinstance(find, Mapping) else None
    for room, parts in rooms.items():
        for number, settings in enumerate(parts if isinstance(parts, list) else ()):
            if "." in str(settings.get("use") if isinstance(settings, Mapping) else settings):
                raise UsageError(
                    f"{where}: {room}[{number}] uses a part from outside of sanitize, whose code no manifest holds; "
                    "run its plan with `sanitize run --plan` and compare the sha256 of the shards"
                )
    if isinstance(own, list):  # of lists it tells how long they are
        own = [{name: told for name, told in one.items() if name not in LISTS} if isinstance(one, Mapping) else one for one in own]
        return Plan.from_resolved({**said.plan, "kind": own}, where)
    return Plan.from_resolved(said.plan, where)


def _notes(tool: Mapping[str, Any]) -> list[str]:
    """What is installed here in other versions than there."""
    here = versions()
    names = [name for name in here | dict(tool) if name not in ("name", "formats")]
    other = [f"{name} {tool.get(name, 'none')} there, {here.get(name, 'none')} here" for name in names if tool.get(name) != here.get(name)]
    return [f"versions differ, so bytes may differ: {'; '.join(other)}"] if other else []


def _same_inputs(path: Path, said: _Manifest, found: Sequence[tuple[int, str]]) -> None:
    """Refuse inputs that are not the manifest's, in its order; they may lie anywhere, under any name."""
    wanted = [(one.bytes, one.sha256) for one in said.inputs]
    if wanted == list(found):
        return
    if sorted(wanted) == sorted(found):
        order = [list(found).index(one) for one in wanted]
        raise InputRefused(
            f"{path}: these are its inputs, in another order; name them in the order of the manifest: "
            f"now they stand as {_few(order)}, counted from 0"
        )
    if len(wanted) != len(found):
        raise InputRefused(f"{path}: names {len(wanted)} input files, and {len(found)} were given; give the same files in the same order")
    different = [no for no, (there, here) in enumerate(zip(wanted, found, strict=True)) if there != here]
    raise InputRefused(
        f"{path}: {len(different)} of its {len(wanted)} inputs are not the files given here (sha256 or size differ): "
        f"number {_few(different)}, counted from 0; give the very files of that run, in the same order"
    )


def _few(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (f" and {len(numbers) - 20} more" if len(numbers) > 20 else "")


def _compared(said: _Manifest, raw: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Which shards and counts of two manifests differ, and whether the two are the same in all they say."""
    there, made = [one.sha256 for one in said.shards], [str(one["sha256"]) for one in here["shards"]]
    most = max(len(there), len(made))
    different = [no for no in range(most) if there[no : no + 1] != made[no : no + 1]]
    here = json.loads(json.dumps(here, default=str))
    counts = [name for name in _COUNTS if said.summary.get(name) != here["summary"].get(name)]
    return {
        "same": not different and not counts,
        "shards": len(made),
        "different": different,
        "counts_different": counts,
        "manifest_same": here == raw,
    }
