"""Where one person is: in the index, the documents, the shards that runs published and the checkpoints that were trained on them.

The person is given by values, names and user ids; what co-occurs with them under one display name is theirs, too
(`sanitize/pipeline/erasure/subject_match.py`). With `erase` a tombstone says that nobody may keep them: every OUT that was made in this
WORK is made again (only
the shards that hold the person are rewritten), and every later run honours it. What is said and written is counts; no value and no name.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import I64
from sanitize.core.display import Told
from sanitize.core.keys import Key
from sanitize.core.text_cells import Leaf
from sanitize.engines.local import Local
from sanitize.errors import LeakFound, UsageError
from sanitize.kinds.kind import bringing
from sanitize.pipeline import publish_history
from sanitize.pipeline.erasure.subject_match import LinkTask, Subject, belonging, link_task, locals_in
from sanitize.pipeline.index_build import Settings
from sanitize.pipeline.run import run
from sanitize.plans.detection_spec import customs_in
from sanitize.plans.plan import Plan
from sanitize.stages.erasure_scan import ForgetTask, forget_task
from sanitize.storage import queries, remote_output, tombstones, vault
from sanitize.storage.corpus import Corpus, Documents, read_json, sha256, write_json, write_lines
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.locks import locked
from sanitize.storage.publication import hashed
from sanitize.storage.remote_storage import is_url, local_path
from sanitize.text import name_search
from sanitize.verification.leak_check import check


@dataclass(frozen=True, kw_only=True, repr=False)
class _Work:
    """A WORK folder as it is looked at here."""

    folder: Path
    documents: Documents
    leaves: tuple[Leaf, ...]
    ranges: list[tuple[int, int]]
    key: Key
    engine: Local
    spill: Path
    runs: list[tuple[Path, dict[str, Any], Corpus]] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # what was published, and is not where it was

    def files(self, *place: str) -> list[Path]:
        return [self.folder.joinpath(*place, f"{no:05d}.parquet") for no in range(len(self.ranges))]

    def map(self, work: Any, tasks: Sequence[Any]) -> None:
        for _ in self.engine.map_shards(work, tasks):
            pass

    def ask(self, name: str, **tables: Sequence[Path]) -> pl.DataFrame:
        """The rows of a named query over some tables."""
        out = self.spill / f"{name}.parquet"
        self.engine.sql(queries.query(name).text, tables, out)
        return pl.DataFrame(pq.read_table(out, partitioning=None))


def subject(
    work: Path | str,
    match: Path | str | Sequence[str],
    *,
    erase: bool = False,
    linked: bool = True,
    checkpoints: Sequence[Path | str] = (),
    documents: Path | str | None = None,
    receipt: Path | str | None = None,
    key_file: Path | None = None,
    seed: int | None = None,
    workers: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Where one person is, in counts: `given`, `linked`, `values_found`, `documents`, `places` (occurrences by kind and section), `runs`
    (what each published OUT has of them, in which shards) and `checkpoints` (run folders of `sanitize-train` that had seen them).

    `match` is a file, or its lines: values, names, `user:ID`. `documents` names a file to which the ids of their documents are written,
    one a line (what unlearning asks for). Without `linked` only what was given is theirs. `erase` takes the person out of every OUT of this
    WORK and writes a `receipt` without values.

    Raises UsageError for a match that is too common or of nobody, and for a WORK whose input has moved.
    """
    work = local_path(work)
    vault.private_folder(work)
    for path in (documents, receipt):
        if path is not None and not Path(path).resolve().parent.is_dir():
            raise UsageError(f"{path}: its folder is not there; make it first, or take another place")
    settings = _settings(work, key_file, seed)
    with vault.umask(0o077), disk_trouble(work), locked(work), contextlib.ExitStack() as stack:
        vault.tidy(work)
        customs = customs_in(work)
        stack.enter_context(bringing(customs))
        spill = vault.private(work / "spill") / "subject"
        spill.mkdir()
        try:
            here = _opened(work, settings, workers, spill)
            try:
                given = Subject.read(match, here.key, customs)
                found, person = _found(here, given, checkpoints, Path(documents) if documents else None, linked)
            finally:
                here.engine.close()
            # one who is written down already, because a first try was stopped or the same is asked twice, is not written down again
            if erase and not tombstones.read(work, here.key).covers(person):
                tombstones.write(work, here.key, person, _now())
        finally:
            shutil.rmtree(spill, ignore_errors=True)
    if erase:
        found["erased"] = _erase(here, found, Path(receipt) if receipt else None, workers=workers, **more)
    return Told("subject", found)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")


def _settings(work: Path, key_file: Path | None, seed: int | None) -> Settings:
    """The settings of the latest run in WORK, with the key that is named now."""
    commands = publish_history.commands(work)
    before = Settings.from_json(commands[-1]["settings"]) if commands else Settings()
    if key_file is not None or seed is not None:
        return Settings(columns=before.columns, key_file=key_file, seed=seed)
    return before


def _opened(work: Path, settings: Settings, workers: int | None, spill: Path) -> _Work:
    """WORK as its index describes it."""
    described = read_json(work / "index.json")
    if not described or not described.get("complete"):
        raise UsageError(f"{work}: holds no complete index; run `sanitize run` or `sanitize find` to its end first")
    key = vault.key_of(work, key_file=settings.key_file, seed=settings.seed)
    if key.id != described["key_id"]:
        raise UsageError(f"{work}: was indexed with another key; name it with --key FILE or --seed N")
    documents = Documents.from_json(described["documents"], work)
    if not all(source.is_there() for source in documents.sources):
        raise UsageError(f"{work}: its input has moved or changed since it was indexed; put it back, or index it again")
    runs, elsewhere = [], []
    for command in publish_history.commands(work):
        place = _place(work, command["out"])
        out = Corpus.open(place) if (place / "manifest.json").is_file() else None
        if out is not None and out.manifest.get("plan_hash") == command["plan_hash"]:
            runs.append((work / "runs" / command["plan_hash"], command, out))
        elif out is None and command["out"] not in elsewhere:
            elsewhere.append(command["out"])
    ranges = [(low, high) for low, high in described["ranges"]]
    small = documents.count < 20_000
    return _Work(
        folder=work,
        documents=documents,
        leaves=tuple(Leaf(column, tuple(steps)) for column, *steps in described["leaves"]),
        ranges=ranges,
        key=key,
        engine=Local(workers=workers or (1 if small else os.cpu_count() or 1), spill=spill),
        spill=spill,
        runs=runs,
        elsewhere=elsewhere,
    )


def _place(work: Path, out: str) -> Path:
    """Where a published corpus lies; of one that went to a URL, where it stands in WORK."""
    return remote_output.mirror(work, out) if is_url(out) else Path(out)


def _found(
    here: _Work, given: Subject, checkpoints: Sequence[Path | str], documents: Path | None, follow: bool
) -> tuple[dict[str, Any], tombstones.Erased]:
    """Counts of everything, and what is the person's, as a tombstone would name it."""
    tasks = [
        LinkTask(
            first=low,
            last=high,
            documents=here.documents,
            leaves=here.leaves,
            occurrences=occurrences,
            folder=here.spill / f"links-{no:05d}",
        )
        for no, ((low, high), occurrences) in enumerate(zip(here.ranges, here.files("tables", "occurrences"), strict=True))
    ]
    here.map(link_task, tasks)
    links = pl.concat([pl.read_parquet(task.folder / "links.parquet", glob=False) for task in tasks]).unique()
    values, names, shared = list(given.values), list(given.names), 0
    if follow:
        values, names, shared = belonging(links, given, locals_in(here.files("vault", "values")))
    users = tombstones.users_of(pa.array(given.users, pa.large_string()), here.key).tolist() if given.users else []
    person = tombstones.Erased(tuple(values), tuple(names), tuple(sorted(users)))
    tables, wrote = _looked(here, person)
    places, per_document = here.ask("subject_places", **tables), here.ask("subject_documents", **tables)
    docs = pl.concat([per_document["doc_no"], wrote]).unique().sort()
    if not len(docs):
        raise UsageError(
            "the match: nothing of it stands in this corpus (no occurrence, no name, no user); look at its spelling, or at the WORK"
        )
    seen = set(here.ask("subject_values", **tables)["value_id"])
    known = dict(zip(given.names, name_search.ids_of(given.names, here.key).tolist(), strict=True)) if given.names else {}
    nowhere = sorted({line for what, line in given.lines.items() if (known[what] if isinstance(what, str) else what) not in seen})
    ids = _doc_ids(here, docs.to_numpy())
    if documents is not None:
        # a document that every plan dropped is in no shard, and in no training
        told = _published(here)
        ids_told = ids if told is None else [one for one, number in zip(ids, docs.to_list(), strict=True) if number in told]
        write_lines(documents, (f"{one}\n" for one in ids_told), over=True)
    found = {
        "given": {"values": len(given.values), "names": len(given.names), "users": len(given.users)},
        "linked": {
            "values": len(set(values) - set(given.values)),
            "names": len(set(names) - set(given.names)),
            "names_not_followed": shared,
        },
        "values_found": len(seen.intersection(values)),
        "lines_without_a_match": nowhere,
        "documents": len(docs),
        "documents_written": wrote.n_unique(),
        "occurrences": int(places["occurrences"].sum()),
        "places": places.to_dicts(),
        "runs": [_in_run(here, *one, tables, docs.to_numpy()) for one in here.runs],
        "checkpoints": [_in_checkpoints(Path(path), ids) for path in checkpoints],
        "elsewhere": list(here.elsewhere),
        "work": str(here.folder),
    }
    return found, person


def _looked(here: _Work, person: tombstones.Erased) -> tuple[dict[str, Sequence[Path]], pl.Series]:
    """The occurrences of the corpus, mentions of the person's names among them, and which values are the person's; and the documents that
    the person's users wrote."""
    listed = here.spill / "subject.parquet"
    occurrences = here.files("tables", "occurrences")
    ids = [*person.values, *(name_search.ids_of(person.names, here.key).tolist() if person.names else ())]
    pq.write_table(pa.table({"value_id": pa.array(ids, pa.int64())}), listed)
    wrote = pl.Series("doc_no", [], pl.Int64)
    if person.names or person.users:
        tasks = []
        for no, (low, high) in enumerate(here.ranges):
            folder = here.spill / f"forget-{no:05d}"
            folder.mkdir()
            about = ForgetTask(
                first=low, last=high, documents=here.documents, leaves=here.leaves, erased=person, key=here.key, folder=folder
            )
            tasks.append(about)
        here.map(forget_task, tasks)
        occurrences = [*occurrences, *(task.folder / "mentions.parquet" for task in tasks)]
        wrote = pl.concat([pl.read_parquet(task.folder / "gone.parquet", glob=False) for task in tasks])["doc_no"]
    return {"occurrences": occurrences, "subject": [listed]}, wrote


def _published(here: _Work) -> set[int] | None:
    """The documents that stand in some published OUT; None where none was published, or it is not known any more."""
    files = [folder / "rows" / path.name for folder, _, out in here.runs for path in here.files("tables")[: len(out.shards)]]
    if not files or not all(path.is_file() for path in files):
        return None
    return {int(number) for path in files for number in np.asarray(pq.read_table(path, partitioning=None).column("doc_no"))}


def _doc_ids(here: _Work, docs: I64) -> list[str]:
    """The ids of some documents, ascending by their numbers."""
    found: list[str] = []
    for low, high in here.ranges:
        mine = docs[(docs >= low) & (docs < high)]
        if len(mine):
            for table in here.documents.read(int(mine[0]), int(mine[-1]) + 1, ["doc_id"]):
                known = pc.is_in(table.column("doc_no"), value_set=pa.array(mine))
                found += table.filter(known).column("doc_id").to_pylist()
    return found


def _in_run(
    here: _Work, folder: Path, command: Mapping[str, Any], out: Corpus, tables: Mapping[str, Sequence[Path]], docs: I64
) -> dict[str, Any]:
    """What one published OUT holds of the person: `left` is what its plan left or kept of it."""
    names = [path.name for path in here.files("tables")][: len(out.shards)]
    about = {"plan": out.manifest["plan"]["name"], "plan_hash": folder.name, "out": command["out"]}
    if not all((folder / place / name).is_file() for place in ("rows", "edits") for name in names):
        return {**about, "documents": None, "shards": [], "left": None, "replaced": None}  # made under an earlier index
    rows = [np.asarray(pq.read_table(folder / "rows" / name, partitioning=None).column("doc_no")) for name in names]
    there = [np.isin(docs, one) for one in rows]
    found = here.ask(
        "subject_edits", **tables, edits=[folder / "edits" / name for name in names], published=[folder / "rows" / name for name in names]
    )
    told = out.manifest["settings"].get("erased") or {}
    return {
        **about,
        "documents": int(sum(one.sum() for one in there)),
        "shards": [shard.path.name for shard, one in zip(out.shards, there, strict=True) if one.any()],
        "left": sum(found["occurrences"]) - sum(found["replaced"]),
        "replaced": sum(found["replaced"]),
        "erasures_honoured": int(told.get("erasures", 0)),
    }


def _in_checkpoints(folder: Path, ids: Sequence[str]) -> dict[str, Any]:
    """What one training had seen of the person's documents: from `seen.parquet` and `train.json` of its run folder."""
    try:
        seen = pl.read_parquet(folder / "seen.parquet", columns=["doc_id", "first_step"], glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"{folder}: no readable seen.parquet ({type(error).__name__}); expected the folder of a `sanitize-train` run"
        ) from None
    mine = seen.filter(pl.col("doc_id").cast(pl.String).is_in(pl.Series(list(ids), dtype=pl.String).implode()))
    steps = [int(name.rpartition("-")[2]) for name in (read_json(folder / "train.json") or {}).get("checkpoints", [])]
    first = int(mine["first_step"].min()) if mine.height else None  # type: ignore[arg-type]
    return {
        "run": str(folder),
        "documents_seen": mine.height,
        "first_step": first,
        "checkpoints": len(steps),
        "checkpoints_after": sum(step >= first for step in steps) if first is not None else 0,
    }


def _encoded(work: Path, out: str, workers: int | None) -> dict[str, int] | None:
    """In how many places of an OUT the full check still sees a value that had to go, whoever's it is, by form; None where there is
    nothing to hold OUT against. Taking them out would mean to rewrite what encodes them."""
    try:
        check(out, work, mode="full", workers=workers)
    except LeakFound as error:
        found: Counter[str] = Counter()
        for one in error.findings:
            found[str(one["form"])] += int(str(one["times"]))
        return dict(found)
    except UsageError:
        return None
    return {}


def _erase(here: _Work, found: Mapping[str, Any], receipt: Path | None, **more: Any) -> dict[str, Any]:
    """Make every OUT of this WORK again without the person, and write down that it was done. LeakFound where one could not be."""
    outs: list[dict[str, Any]] = []
    failed: list[LeakFound] = []
    # an index of several batches is not that of any command's input; what is made of it is made again as it stands there
    batches = len((read_json(here.folder / "index.json") or {}).get("batches", ())) > 1
    for _, command, before in here.runs:
        plan = Plan.from_resolved(command["plan"], f"{here.folder}/published")
        was = {shard.path.name: shard.sha256 for shard in before.shards}
        # nor may a version of before stay where OUT is a URL
        told = {"replace": True, "keep_versions": False, **more}
        settings = Settings.from_json({**command["settings"], "append": batches}, **told)
        try:
            summary = run([] if batches else command["inputs"], command["out"], plan, here.folder, settings)
        except LeakFound as error:
            failed.append(error)
            outs.append({"out": command["out"], "plan_hash": command["plan_hash"], "erased": False})
            continue
        now = Corpus.open(_place(here.folder, command["out"]))
        hidden = _encoded(here.folder, command["out"], settings.workers)
        outs.append(
            {
                "out": command["out"],
                "plan_hash": summary["plan_hash"],
                "erased": True,
                "shards": len(now.shards),
                "shards_rewritten": sum(was.get(shard.path.name) != shard.sha256 for shard in now.shards),
                "changed": summary["changed"],
                "places_erased": summary["erased"],
                "leaks": summary["leaks"],
                "encoded": hidden,
                "manifest_sha256": sha256(now.path / "manifest.json"),
            }
        )
    left = [
        "the input files, and the private folder made of them, hold the originals still",
        "copies of earlier versions of the published folders, wherever they went",
        "names with a further name or initial in between, or misspelt",
        "what identifies the person without any of the values and names that were given or linked",
    ]
    if encoded := sum(sum(one["encoded"].values()) for one in outs if one.get("encoded")):
        left.append(
            f"{encoded} places in writings that only the full check reads hold values that had to go, this person's or others': "
            "`sanitize verify OUT` says in which files"
        )
    if any(one["erased"] and one["encoded"] is None for one in outs):
        left.append("writings that only a full check reads, in folders made with --verify off")
    if here.elsewhere:
        left.append(f"{len(here.elsewhere)} folders that were published from here and are not where they were")
    if failed:
        left.append(f"{len(failed)} published folders in which a column that is kept as it is holds the person")
    if any(one["documents_seen"] for one in found["checkpoints"]):
        left.append("checkpoints that had seen the documents: unlearn or retrain them")
    folder = vault.private(here.folder / "receipts")
    number = len(list(folder.glob("*.json")))
    told = {
        "what": "a person's values and names were taken out of published corpora",
        "date": _now(),
        "subject": hashed(here.key.id, number),
        **{name: found[name] for name in ("given", "linked", "lines_without_a_match", "documents", "occurrences")},
        "outs": [{name: value for name, value in one.items() if name != "out"} for one in outs],
        "not_erased": left,
    }
    path = receipt or folder / f"{number:05d}.json"
    with disk_trouble(path.parent):
        write_json(path, told)
    if failed:
        raise LeakFound(
            f"{len(failed)} of {len(outs)} published folders could not be made without the person, and are as they were "
            f"(the receipt {path} says which). Make each again with `sanitize run ... --replace`; later runs leave the person out. "
            f"The first said: {failed[0]}"
        )
    return {"outs": outs, "receipt": str(path)}
