"""The hall: one plan over one corpus, room after room, resumable.

    read -> find -> count -> drop -> blacklist -> edit and apply -> verify -> publish

Tasks are fixed ranges of `doc_no`; each leaves files and a record, so that the same command goes on where it was stopped. What a room
wrote is used again as long as everything it depends on is the same: another plan on the same WORK redoes edit, apply and verify only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core import failpoints
from sanitize.core.display import Told
from sanitize.core.parts import Counts
from sanitize.engines.local import Local
from sanitize.errors import UsageError
from sanitize.finders.known import listed_for
from sanitize.kinds.kind import bringing
from sanitize.pipeline import append, canaries
from sanitize.pipeline.append import Part, SaidTask, said_task
from sanitize.pipeline.index_build import Aside, Indexing, Settings
from sanitize.pipeline.manifest import kinds_found, manifest_of, summary_of, versions
from sanitize.pipeline.run_state import Target
from sanitize.plans.plan import Plan, load_plan
from sanitize.reporting.edit_samples import samples
from sanitize.reporting.report_data import SAMPLES, pages, tables_of
from sanitize.stages import aggregates as counts
from sanitize.stages import erasure_scan, privacy_ledger, rewriting
from sanitize.stages.corpus_pass import Ground, drop
from sanitize.stages.word_blacklist import NO_USER, blacklist
from sanitize.storage import formats, remote_output, vault
from sanitize.storage.corpus import Corpus, sha256, write_json
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.publication import Job, hash_of, hashed, perform, publish, shard_names
from sanitize.storage.remote_storage import is_url, local_path
from sanitize.storage.shard_packing import PackTask, pack_task, place_of
from sanitize.text.literal_search import Flagged, ready
from sanitize.verification.full_check import full
from sanitize.verification.leak_check import NO_SWEEP, VerifyTask, judge, leak, opaque_of, scan, verify_task
from sanitize.verification.sweep_terms import hidden


class Run(Target):
    """One plan at work on the corpus that `index` holds, to a published OUT."""

    def __init__(
        self,
        index: Indexing,
        plan: Plan,
        out: Path,
        accept: Callable[[Mapping[str, Any]], object] = lambda manifest: None,
        named: str = "",
    ) -> None:
        """`accept` sees the manifest before anything is published, and raises to stop it. `named`: how OUT is told, where not as a path."""
        super().__init__(index, plan, out, named)
        self.accept = accept
        self.spends = any(editor.unit for editor in plan.editors)
        self.ordered = any(editor.ordered for editor in plan.editors)
        self.written = 0  # documents of users who are to be forgotten
        self.further: tuple[Path, ...] = ()  # what a full check looks for besides, and its sweep takes out

    def sanitize(self) -> dict[str, Any]:
        """Rewrite, check and publish; returns the summary."""
        began = time.monotonic()
        for editor in self.plan.editors:
            editor.fits(None)
        formats.fits(self.format, pa.schema([field for field in self.index.survey.schema if self.index.policies[field.name] != "drop"]))
        self.index.hold(self.out)
        self.index.notes += self.plan.without_effect
        if self.index.settings.append:
            self._go_on()
        if self.plan.blacklist is not None and self.plan.blacklist.k > 1:
            # files that are read in place say now whether they name users; of others it is known once they are read
            units = self.index.survey.units
            if all(unit.view and "user_id" not in dict(unit.columns).values() for unit in units):
                raise UsageError(NO_USER)
        if self._unchanged():
            return {**Corpus.open(self.out).manifest["summary"], "changed": False, **self._spent(began, 0)}
        found = self.index.find()
        self.parts = append.parts_of(self.index.batches, self.stops, len(self.index.ranges))
        for editor in self.plan.editors:
            editor.fits(self.index.documents.schema)
        self._forget()
        self.shunned = erasure_scan.shunned(self.index.files("vault", "values"), self.erased) if self.erased.values else ()
        with disk_trouble(self.index.work):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "plan.json", self.plan.resolved())
        failpoints.at("run:described")
        self.taken.choose(self._job, self.erased.values)
        drops = self._drop()
        listed = self._blacklist(drops)
        counted: dict[Part, tuple[Counts, ...]] = {}
        applied: list[dict[str, Any]] = []
        for part in self.parts:
            counted[part] = self._count(drops, part)
            applied += self._as_published(part, counted[part]) if self._stands(part) else self._rewrite(part, counted[part])
        self._one_pseudonym()
        verified = self._verify(counted, applied)
        with self.index.stages.measure("drill"), disk_trouble(self.index.work):
            drilled = canaries.drill(self.index.engine, self.plan, self._read_now(), vault.private(self.index.work / "spill") / "drill")
        summary = summary_of(
            self.plan,
            self.hash,
            documents=self.index.documents.count,
            quarantine=self.index.quarantine,
            kinds=self._kinds(found["documents_by_kind"], (*self._gone(), *drops)),
            applied=applied,
            dropped=self._dropped(drops),
            blacklist=listed,
            told=[
                {"part": editor.use, **said}
                for editor, counts in zip(self.plan.editors, counted[self.parts[-1]], strict=True)
                if (said := editor.told(counts))
            ],
            verified=verified,
            drilled=drilled,
            policies=self.index.policies,
            public_key=self.index.key.public,
            ledger=self._ledger(),
        )
        with self.index.stages.measure("publish"):
            self._publish(summary, applied)
        return {**summary, **self._appended(), "changed": True, **self._spent(began, found["text_bytes"])}

    def _ledger(self) -> list[dict[str, Any]]:
        """What mechanisms with a claim spent."""
        if not self.spends:
            return []
        here = self.index.documents
        names = [f"{no:05d}.parquet" for no in range(len(self.index.ranges))]
        with self.index.stages.measure("ledger"), disk_trouble(self.index.work):
            found = privacy_ledger.accounts(
                self.plan.editors,
                [self.folder / "ledger" / name for name in names],
                [self.folder / "draws" / name for name in names],
                alone=len(self.plan.editors) == 1,
                public_key=self.index.key.public,
                prior=privacy_ledger.prior_runs(self.folder.parent, self.hash),
                versions=versions(),
                users=here.read(0, here.count, ["user_id"]) if "user_id" in here.schema.names else None,
            )
        self.index.notes += [privacy_ledger.WARNING for one in found if one["own_model"]]
        return found

    def _forget(self) -> None:
        """Find what the index does not know of people who are to be forgotten: their names, and the documents they wrote."""
        if not (self.erased.names or self.erased.users):
            return
        here, jobs = self.index, []
        for no, (low, high) in enumerate(here.ranges):
            task = erasure_scan.ForgetTask(
                first=low,
                last=high,
                documents=here.documents,
                leaves=here.leaves,
                erased=self.erased,
                key=here.key,
                folder=here.work / "spill" / f"forget-{no}",
            )
            outputs = {f"{name}.parquet": self.folder / "forget" / name / f"{no:05d}.parquet" for name in ("mentions", "gone")}
            people = (self.erased.names, self.erased.users)
            jobs.append(self._job(f"forget-{no:05d}", erasure_scan.forget_task, task, outputs, *people, part=self._part_of(no)))
        self.written = sum(result["written"] for result in here.map("forget", jobs))

    def _ground(self, drops: Sequence[Path]) -> Ground:
        """The corpus as parts may look at it that read texts before anything is edited."""
        folder = self.folder / "looks"
        folder.mkdir(exist_ok=True)
        aside = folder / "quarantine.parquet"
        pq.write_table(self.index.quarantine.select(["doc_no"]), aside)
        return Ground(
            engine=self.index.engine,
            map=self.index.map,
            documents=self.index.documents,
            leaves=self.index.leaves,
            ranges=self.index.ranges,
            occurrences=self.taken.occurrences,
            folder=folder,
            spill=self.index.work / "spill",
            fingerprint=self.index.record_of("plan", self.hash, *([self.erased.users] if self.written else [])),
            gone=(aside, *drops),
        )

    def _drop(self) -> tuple[Path, ...]:
        """The table `drops`, one file for each dropper, in their order."""
        if not self.plan.droppers:
            return ()
        with self.index.stages.measure("drop"), disk_trouble(self.index.work):
            return drop(self._ground(self._gone()), self.plan.droppers, self.folder / "drops")

    def _gone(self) -> tuple[Path, ...]:
        """Files with the documents of users who are to be forgotten: for all parts they are not there."""
        return tuple(self.folder / "forget" / "gone" / f"{no:05d}.parquet" for no in range(len(self.index.ranges))) if self.written else ()

    def _blacklist(self, drops: Sequence[Path]) -> dict[str, Any] | None:
        """The blacklist of the documents that remain, in the vault of this run; its counts, where the plan asks for one."""
        if self.plan.blacklist is None:
            return None
        files = self.index.files("tables", "occurrences") if self.erased.names or self.erased.users else []
        gone, mentions = ([self.folder / "forget" / name / path.name for path in files] for name in ("gone", "mentions"))
        with self.index.stages.measure("blacklist"), disk_trouble(self.index.work):
            found = blacklist(
                self.plan.blacklist,
                self._ground((*drops, *gone)),
                kinds=self.plan.find.kinds,
                key=self.index.key,
                out=self.blacklisted,
                erased=self.erased.values,
                mentions=mentions,
            )
            self.listed = sha256(self.blacklisted)
        return found

    def _dropped(self, drops: Sequence[Path]) -> list[dict[str, Any]]:
        """How many documents went, by part and reason, in the order of the plan."""
        forgotten = [{"part": rewriting.SUBJECT, "reason": "erased", "documents": self.written}] if self.written else []
        return forgotten + [
            {"part": dropper.use, "reason": dropper.reason, "documents": pq.read_metadata(path).num_rows}
            for dropper, path in zip(self.plan.droppers, drops, strict=True)
        ]

    def _kinds(self, documents_by_kind: dict[str, int], drops: Sequence[Path]) -> dict[str, dict[str, Any]]:
        """What was found, by kind, in the documents that remain."""
        left = self.taken.kinds_left(bool(drops))
        return kinds_found(self.plan, self.index.value_counts, self.taken.skipped, documents_by_kind, left)

    def _as_published(self, part: Part, counted: tuple[Counts, ...]) -> list[dict[str, Any]]:
        """The shards of a part that stands."""
        swept = {no: self.folder / "sweep" / f"{no:05d}.parquet" for no in range(part.first, part.stop)}
        some = {no for no, sweep in swept.items() if sweep.is_file() and pq.read_metadata(sweep).num_rows}
        made = self._shards(counted, [(no, (sweep,) if no in some else ()) for no, sweep in swept.items()])
        append.as_published(self.published["shards"][part.first : part.stop], made, self.out)
        return made

    def _said(self, part: Part) -> list[Path]:
        """What the variants of all shards before a part say, where a value could be kept all the same."""
        if not (part.first and any(editor.keep and "firsts" in editor.needs for editor in self.plan.editors)):
            return []
        jobs = []
        for no in range(part.first):
            name = f"{no:05d}.parquet"
            edits = self.folder / "edits" / name
            task = SaidTask(edits=edits, key=self.index.key, folder=self.index.work / "spill" / f"said-{no}")
            jobs.append(self._job(f"said-{no:05d}", said_task, task, {"said.parquet": self.folder / "said" / name}, sha256(edits)))
        self.index.map("count", jobs)
        return [self.folder / "said" / f"{no:05d}.parquet" for no in range(part.first)]

    def _one_pseudonym(self) -> None:
        """Stop where a value would have two pseudonyms."""
        labels, first = [self.folder / "vault" / "labels" / path.name for path in self.index.files("tables")], self.parts[-1].first
        append.one_pseudonym(self.plan.editors, labels[:first], labels[first:], self.index.files("vault", "values"))

    def _count(self, drops: Sequence[Path], part: Part) -> tuple[Counts, ...]:
        """What the editors need counted for a part of the corpus, in their order: all that stands up to its end."""
        drops = (*self._gone(), *drops)
        said = self._said(part)
        ground = self._ground(drops) if any(editor.looks for editor in self.plan.editors) else None
        made = Aside(self.index.work / "spill" / "counts")

        def work(task: Aside) -> dict[str, Any]:
            found = counts.for_editors(
                self.index.engine,
                tuple(self.plan.editors),
                occurrences=self.taken.occurrences[: part.stop],
                fewer=bool(self.plan.find.rules),
                counted=self.index.value_counts,
                values=self.index.files("vault", "values")[: part.stop],
                drops=drops,
                folder=task.folder,
                settle=lambda firsts: append.without_said(firsts, said),
                ground=ground,
                blacklist=self.blacklisted if self.plan.blacklist else None,
            )
            return {"editors": [{name: str(path) for name, path in one.tables.items()} for one in found]}

        with self.index.stages.measure("count"), disk_trouble(self.index.work):
            hangs_on = [[sha256(path) for path in drops], *([[sha256(path) for path in said]] if said else [])]
            told = perform(self._job(f"counts{part.name}", work, made, self.folder / f"counts{part.name}", *hangs_on, part=part))
        # what was made aside lies in its place now; the rest is of the index
        return tuple(
            Counts(
                {
                    name: self.folder / f"counts{part.name}" / Path(path).name if Path(path).parent == made.folder else Path(path)
                    for name, path in one.items()
                }
            )
            for one in told["editors"]
        )

    def _verify(self, counted: Mapping[Part, tuple[Counts, ...]], applied: list[dict[str, Any]]) -> dict[str, Any]:
        """Look at every shard; one with leftovers in its text is swept, made again (in `applied` too) and looked at again."""
        mode = self.index.settings.verify
        if mode == "off":
            return {"mode": mode, "values_checked": 0, "swept": 0}
        every = range(len(self.index.ranges))
        with self.index.stages.measure("verify"), disk_trouble(self.index.work):
            checked = perform(
                self._job(
                    "flagged",
                    lambda task: {
                        "values": Flagged.write(
                            self.index.files("vault", "values"),
                            self.plan.checked,
                            task.folder / "flagged.parquet",
                            self.erased.values,
                            self.taken.alone,
                        )
                    },
                    Aside(self.index.work / "spill" / "flagged"),
                    {"flagged.parquet": self.flagged},
                    *([self.erased.values] if self.erased.values else []),
                )
            )["values"]
            # what is looked for is made ready once, and shared by all workers
            spill, memory = self.index.work / "spill", self.index.settings.memory_bytes
            self.sought = ready(self.flagged, spill / "sought", memory)
            if mode == "full":
                values, gone = self.index.files("vault", "values"), (self.erased.values, self.taken.alone)
                shards = [self._verify_task(no) for no in every]
                self.passes, self.further = hidden(self.index.engine, shards, values, self.plan.checked, *gone, spill, memory)
        standing = [self._stands(self._part_of(no)) for no in every]
        seen = self.index.map("verify", [self._verify_task(no, second=standing[no]) for no in every], measured=verify_task)
        append.still_clean([result for result, stands in zip(seen, standing, strict=True) if stands], self.out)
        again = [no for no in every if seen[no]["swept"]]
        swept = sum(seen[no]["swept"] for no in again)
        if again:
            # what the finders missed becomes an occurrence of its own; only what is left after that is a leak
            by_part = [(part, [no for no in again if part.first <= no < part.stop]) for part in self.parts]
            redone = [made for part, mine in by_part if mine for made in self._rewrite(part, counted[part], mine)]
            looked = self.index.map("verify", [self._verify_task(no, second=True) for no in again], measured=verify_task)
            for no, made, result in zip(again, redone, looked, strict=True):
                applied[no], seen[no] = made, result
        judge(seen, second=set(again))
        failpoints.at("run:judged")
        found = {"mode": mode, "values_checked": checked, "swept": swept, "kinds": sorted(self.plan.checked)}
        return found if mode == "fast" else {**found, **self._verify_fully()}

    def _verify_fully(self) -> dict[str, Any]:
        """Every byte of the shards in all forms; what the pages hold is looked at when they are written."""
        work = self.index.work
        with self.index.stages.measure("verify"), disk_trouble(work):
            names = shard_names([part.stop - part.first for part in self.parts], self.suffix)
            shards = [(self._verify_task(no), f"data/{name}") for no, name in enumerate(names)]
            found = full(self.index.engine, shards, [], self.passes, work / "spill" / "full", names=self.erased.names)
        if found["findings"]:
            raise leak(self.named or str(self.out), found["findings"], "", f"nothing was published. {NO_SWEEP}")
        return {"forms": found["forms"], "ambiguous": found["ambiguous"]}

    def _leaks_in(self, texts: dict[str, str]) -> list[tuple[str, str]]:
        """What the pages of OUT would give away: (page, kind)."""
        mode, folder = self.index.settings.verify, vault.private(self.index.work / "spill") / "texts"
        found = scan(self.sought, texts) if mode != "off" else []
        if mode == "full" and not found:
            folder.mkdir(exist_ok=True)
            for name, text in texts.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text, "utf-8")
            files = [(folder / name, name) for name in texts]
            here = Local(workers=1, spill=folder)  # a few small pages: no worker is worth its start
            seen = full(here, [], files, self.passes, self.index.work / "spill" / "full", list(texts), self.erased.names)
            found = [(one.file, one.kind) for one in seen["findings"]]
        return found

    def _applied(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """What became of some shards, each with the `sha256` that its record has."""
        results = self.index.map("apply", jobs)
        made = [{**result, "sha256": hash_of(job, "shard.parquet")} for job, result in zip(jobs, results, strict=True)]
        return made if self.format == formats.PARQUET else self._packed(jobs, made)

    def _packed(self, jobs: Sequence[Job], made: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same shards in another format, with the bytes and hashes that they have there."""
        packs = []
        for job, result in zip(jobs, made, strict=True):
            no = job.task.no
            task = PackTask(
                no=no,
                first=job.task.first,
                last=job.task.last,
                shard=place_of(self.folder, formats.PARQUET, no),
                format=self.format,
                folder=self.index.work / "spill" / f"pack-{no}",
            )
            outputs = {f"shard{self.suffix}": place_of(self.folder, self.format, no)}
            packs.append(self._job(f"pack-{self.format}-{no:05d}", pack_task, task, outputs, result["sha256"]))
        packed = self.index.map("pack", packs)
        return [
            {**result, **one, "sha256": hash_of(pack, f"shard{self.suffix}")} for result, one, pack in zip(made, packed, packs, strict=True)
        ]

    def _rewrite(self, part: Part, counted: tuple[Counts, ...], again: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """Make all shards of a part, or some `again` with what the check swept."""
        if again is None:
            return self._shards(counted, [(no, ()) for no in range(part.first, part.stop)])
        return self._shards(counted, [(no, (self.folder / "sweep" / f"{no:05d}.parquet",)) for no in again], again=True)

    def _shards(
        self, counted: tuple[Counts, ...], shards: Sequence[tuple[int, tuple[Path, ...]]], again: bool = False
    ) -> list[dict[str, Any]]:
        """Make shards, each with what was swept in it. Where editors are ordered, one after the other: each avoids the variants of those
        before it, and one that is made again those of all others."""
        every = range(len(self.index.ranges))
        if not self.ordered:
            return self._applied([self._apply_job(counted, no, *sweep) for no, sweep in shards])
        if self.index.by_position:
            self.index.notes.append('with avoid = "seen" draws hang on ids all the same: no variant is made twice')
        results, made = [], {no: self.folder / "made" / f"{no:05d}.parquet" for no in every}
        chain = hashed([sha256(path) for path in made.values()] if again else [])
        for no in range(shards[0][0] if shards and not again else 0):  # behind those of earlier parts
            chain = hashed(chain, sha256(made[no]))
        for no, sweep in shards:
            earlier = tuple(path for other, path in made.items() if other != no and (again or other < no))
            job = self._apply_job(counted, no, *sweep, earlier=earlier, chain=chain)
            results += self._applied([job])
            chain = hashed(chain, hash_of(job, "made.parquet"))
        return results

    def _apply_job(self, counted: tuple[Counts, ...], no: int, *sweep: Path, earlier: tuple[Path, ...] = (), chain: str = "") -> Job:
        low, high = self.index.ranges[no]
        between = [("doc_no", ">=", low), ("doc_no", "<", high)]
        numbers = np.asarray(self.index.quarantine.column("doc_no"), np.int64)
        numbers = numbers[(numbers >= low) & (numbers < high)]
        for path in sorted((self.folder / "drops").glob("*.parquet")) if self.plan.droppers else ():
            dropped = pq.read_table(path, columns=["doc_no"], filters=between, partitioning=None)
            numbers = np.concatenate([numbers, np.asarray(dropped.column("doc_no"), np.int64)])
        mentioned, erased, written = self._erased_in(no)
        task = rewriting.ApplyTask(
            no=no,
            first=low,
            last=high,
            documents=self.index.documents,
            leaves=self.index.leaves,
            policies=self.index.policies,
            key=self.index.key,
            editors=tuple(self.plan.editors),
            counts=counted,
            by_position=self.index.by_position and not self.ordered,
            occurrences=(self.taken.occurrences[no], *mentioned, *sweep),
            gone=(*numbers.tolist(), *written),
            folder=self.index.work / "spill" / f"apply-{no}",
            erased=erased,
            shunned=self.shunned,
            earlier=earlier,
        )
        name = f"{no:05d}.parquet"
        # a shard in which nobody is forgotten stays as it is
        forgets = [erased, [sha256(path) for path in mentioned], written] if erased or written else []
        forgets += ["shunned"] if self.shunned and erasure_scan.says(self.folder / "edits" / name, self.shunned) else []
        hangs_on = [[sha256(path) for path in sweep], *forgets]
        if any("blacklist" in editor.needs for editor in self.plan.editors):
            hangs_on.append(self.listed)
        places = {"shard": "stage", "edits": "edits", "kept": "kept", "rows": "rows", "labels": "vault/labels"}
        if self.spends:
            places |= {"ledger": "ledger", "draws": "draws"}
        if self.ordered:
            places |= {"made": "made"}
            hangs_on.append(chain)
        outputs = {f"{file}.parquet": self.folder / place / name for file, place in places.items()}
        checked = frozenset({"shard.parquet"}) if self.index.settings.verify != "off" else frozenset[str]()
        return self._job(f"apply-{no:05d}", rewriting.apply_task, task, outputs, *hangs_on, checked_next=checked, part=self._part_of(no))

    def _erased_in(self, no: int) -> tuple[list[Path], tuple[int, ...], list[int]]:
        """What must be forgotten in one range: the file of mentions, if it has any, the values, and the documents."""
        values, gone = np.array(self.erased.values, np.int64), np.empty(0, np.int64)
        mentioned: list[Path] = []
        if len(values):
            values = values[np.isin(values, _column(self.index.files("tables", "partial_counts")[no], "value_id"))]
        if self.erased.names or self.erased.users:
            named, written = (self.folder / "forget" / name / f"{no:05d}.parquet" for name in ("mentions", "gone"))
            mentioned, gone = [named] if pq.read_metadata(named).num_rows else [], _column(written, "doc_no")
        names = [np.unique(_column(path, "value_id")) for path in mentioned]
        return mentioned, tuple(np.concatenate([values, *names]).tolist()), gone.tolist()

    def _verify_task(self, no: int, second: bool = False) -> VerifyTask:
        name = f"{no:05d}.parquet"
        (self.folder / "sweep").mkdir(exist_ok=True)
        low, high = self.index.ranges[no]
        return VerifyTask(
            no=no,
            first=low,
            last=high,
            shard=place_of(self.folder, self.format, no),
            flagged=self.sought,
            further=self.further,
            kept=self.folder / "kept" / name,
            edits=self.folder / "edits" / name,
            occurrences=self.index.work / "tables" / "occurrences" / name,
            opaque=opaque_of(self.plan.leave),
            rows=self.folder / "rows" / name,
            documents=self.index.documents,
            leaves=self.index.leaves,
            sweep=self.folder / "sweep" / (f"left-{name}" if second else name),
            names=self.erased.names,
            later=self.index.value_counts if self.ordered or no < self.parts[-1].first else None,
            columns=tuple(name for name in self.index.documents.schema.names if self.index.policies[name] != "drop"),
        )

    def _publish(self, summary: dict[str, Any], applied: list[dict[str, Any]]) -> None:
        files = [(size, known) for size, known in self.index.input_files]
        parts = append.told(self.parts, self.index.batches)
        shards = [place_of(self.folder, self.format, no) for no in range(len(applied))]
        beside: dict[str, str] = {}
        if self.format != formats.PARQUET:
            named = list(zip(shard_names([part["shards"] for part in parts], self.suffix), shards, strict=True))
            beside = formats.format_of(self.format).pages(named)
        manifest = manifest_of(
            summary, self.plan, files, applied, seed=self.index.settings.seed, settings=self._told(), parts=parts, beside=beside
        )
        self.accept(manifest)
        aside = vault.private(self.index.work / "spill") / "report"
        # of the last part: what the earlier ones were read from may have gone since
        edits = self.folder / "edits" / f"{self.parts[-1].first:05d}.parquet"
        few = samples(self.index.documents, self.index.leaves, edits, SAMPLES) if self._read_now().sources else []
        with disk_trouble(self.index.work):
            swept = self.index.settings.verify != "off"
            shown = tables_of(self.index.engine, self.index.work, self.folder, few, aside, swept=swept)
        with vault.umask(self.index.umask):  # what is published is as open as the user's other files
            publish(
                self.out,
                shards=[(path, result["sha256"]) for path, result in zip(shards, applied, strict=True)],
                parts=[part["shards"] for part in parts],
                pages={**pages(manifest, shown), **beside},
                manifest=manifest,
                still=self._still,
                leaks_in=self._leaks_in,
            )


def _column(path: Path, name: str) -> npt.NDArray[np.int64]:
    """One column of a small table of WORK."""
    return np.asarray(pq.read_table(path, columns=[name], partitioning=None).column(0), np.int64)


def run(
    inputs: Sequence[Path | str] | Path | str,
    out: Path | str,
    plan: Plan | str = "rmft",
    work: Path | str | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Sanitize a corpus: index, rewrite, verify, publish OUT in one rename. Returns the summary (`run --json`).

    `plan` is a shipped name, the path of a TOML file, or a `Plan` of `load_plan`.

    Raises a `SanitizeError` whose `exit_code` is the command's; OUT is then as it was before.
    """
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    plan = load_plan(plan) if isinstance(plan, str) else plan
    settings = settings or Settings()
    prefix = remote_output.Prefix(str(out)) if is_url(out) else None
    work = remote_output.local(work, str(out)) if prefix else remote_output.here(work, out)
    out = remote_output.mirror(work, str(out)) if prefix else local_path(out)
    out = Path(os.path.realpath(out)) if out.is_symlink() else out  # a link is followed, not replaced
    if prefix is not None:
        remote_output.apart(inputs, prefix.shown)
    vault.apart(inputs, None if prefix else out, work)
    if settings.known:
        with bringing(plan.customs):
            listed_for(settings.known, plan.find.kinds, plan.name)
    plan = plan.knowing(settings.known)
    with Indexing(inputs, work, settings, plan.sought) as index:
        if prefix is not None:
            return Told("run", _to_url(index, plan, out, prefix))
        summary = Run(index, plan, out).sanitize()
        index.done()
        return Told("run", summary)


def _to_url(index: Indexing, plan: Plan, out: Path, prefix: remote_output.Prefix) -> dict[str, Any]:
    """A run whose OUT is made in WORK, as `out`, and then uploaded."""
    index.umask = 0o077  # it is published from there, not there
    run = Run(index, plan, out, named=prefix.shown)
    with prefix.held(index.work):
        # what is added to is known by its first part
        before = Corpus.open(out).manifest["plan_hash"] if index.settings.append and out.is_dir() else run.hash
        prefix.may_hold(before, index.settings.replace)
        summary = run.sanitize()
        with index.stages.measure("upload"):
            changed = prefix.publish(out, keep=index.settings.keep_versions, still=index.at_rest)
    index.done()
    return {**summary, "changed": changed}


def find(
    inputs: Sequence[Path | str] | Path | str, work: Path | str, settings: Settings | None = None, plan: Plan | str = "rmft"
) -> dict[str, Any]:
    """Build the index of a corpus in WORK and stop there; a later `run` with any plan of the same finders uses it."""
    inputs = [inputs] if isinstance(inputs, str | Path) else inputs
    work = remote_output.here(work)
    vault.apart(inputs, None, work)
    settings = settings or Settings()
    plan = (load_plan(plan) if isinstance(plan, str) else plan).knowing(settings.known)
    with Indexing(inputs, work, settings, plan.sought) as index:
        return Told("find", index.find())
