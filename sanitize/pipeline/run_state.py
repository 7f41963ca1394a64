"""What a run is to make: the OUT of a plan over an index, in one go or in parts; what that is known by, whether OUT is it already, and
how it is told and written down. The hall (run.py) is a `Target` that makes it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken, UsageError
from sanitize.pipeline import append, publish_history
from sanitize.pipeline.append import Part
from sanitize.pipeline.index_build import Indexing
from sanitize.pipeline.occurrence_selection import Taken
from sanitize.plans.plan import Plan
from sanitize.stages import rewriting
from sanitize.storage import formats, tombstones
from sanitize.storage.corpus import Corpus, Documents
from sanitize.storage.publication import Job
from sanitize.verification.leak_check import VERSION as VERIFY


class Target:
    """One plan over the corpus that `index` holds, and the OUT it goes to."""

    parts: tuple[Part, ...]  # known once the index is there

    def __init__(self, index: Indexing, plan: Plan, out: Path, named: str = "") -> None:
        """`named`: how OUT is told, where not as a path."""
        self.index, self.plan, self.out, self.named = index, plan, out, named
        self.erased = tombstones.read(index.work, index.key)
        self.format = index.settings.format
        self.suffix = formats.suffix(self.format)
        self.published: Mapping[str, Any] = {}  # the manifest that is added to, and how many parts it has
        self.standing = 0
        self._begin([len(index.batches)])

    def _begin(self, stops: Sequence[int]) -> None:
        """Make what is published in parts that end behind so many batches each; the first one says what all of it is known by."""
        self.stops = stops
        self.hash = self._hash(stops[0])
        self.folder = self.index.work / "runs" / self.hash
        self.flagged = self.folder / "counts" / "flagged.parquet"
        self.blacklisted = self.folder / "vault" / "blacklist" / "00000.parquet"
        self.taken = Taken(self.index, self.folder, self.plan.find.rules)

    def _hash(self, stop: int) -> str:
        """What a run of this plan over so many batches is known by."""
        return self.plan.hash(self.index.fingerprints[stop - 1], self.index.policies, (rewriting.VERSION, VERIFY))

    def _go_on(self) -> None:
        """Go on behind what OUT holds. UsageError where it is not there, or not of this plan and index."""
        append.refuse(self.plan)
        batches, anew = self.index.batches, self.index.settings.replace
        there = (self.out / "manifest.json").is_file()
        if not there and not anew:
            # an index of several parts is made into an OUT in this way alone
            first = "" if len(self.index.closed) > 1 else "run the same command without --append first, or "
            raise UsageError(f"{self.out}: is not there to be added to; {first}use --replace to make it of all that the index holds")
        manifest = Corpus.open(self.out).manifest if there else {}
        known = {self._hash(stop): stop for stop in range(1, len(batches) + 1)}
        if manifest.get("plan_hash") in known:
            stops = append.stops_of(manifest, batches, self.out)
            if known[str(manifest["plan_hash"])] == stops[0]:
                self.published, self.standing = manifest, len(stops)
                self._begin([*stops, *([len(batches)] if stops[-1] < len(batches) else [])])

    def _appended(self) -> dict[str, Any]:
        """What is new in OUT, where it was added to: `appended`, with files, documents and shards."""
        *before, last = self.parts
        if not before or last.no <= self.standing:
            return {}
        files = append.told(self.parts, self.index.batches)[-1]["inputs"]
        documents = self.index.documents.count - self.index.ranges[last.first][0]
        return {"appended": {"files": files, "documents": documents, "shards": last.stop - last.first}}

    def _read_now(self) -> Documents:
        """The documents of the last part, as far as they lie where they lay: an append does not need the earlier ones any more."""
        here, first = self.index.documents, self.index.ranges[self.parts[-1].first][0]
        if len(self.parts) == 1:
            return here
        return replace(here, sources=tuple(source for source in here.sources if source.first_doc_no >= first and source.is_there()))

    def _spent(self, began: float, text_bytes: int) -> dict[str, Any]:
        """What this command took, and where its results lie."""
        seconds = time.monotonic() - began
        return {
            "notes": self.index.notes,
            "text_bytes": text_bytes,
            "stages": self.index.stages.found,
            "seconds": round(seconds, 2),
            "mb_per_s": round(text_bytes / 1e6 / max(seconds, 1e-9), 1),
            "peak_rss_mb": round(max((stage["peak_rss_mb"] for stage in self.index.stages.found.values()), default=0.0), 1),
            "out": self.named or str(self.out),
            "work": str(self.index.work),
        }

    def _stands(self, part: Part) -> bool:
        """True where a part was published, unless somebody is to be forgotten since: its shards then stay as they are."""
        return part.no <= self.standing and self.published["settings"].get("erased") == self.erased.told

    def _part_of(self, no: int) -> Part:
        """The part that a range is of."""
        return next(part for part in self.parts if no < part.stop)

    def _job(
        self,
        name: str,
        work: Callable[[Any], dict[str, Any]],
        task: Any,
        outputs: Mapping[str, Path] | Path,
        *more: object,
        checked_next: frozenset[str] = frozenset(),
        part: Part | None = None,
    ) -> Job:
        """A task of this plan, with its record in the plan's folder; of a part of the corpus, where it hangs on nothing behind that."""
        return Job(
            work=work,
            task=task,
            record=self.folder / "tasks" / f"{name}.json",
            fingerprint=self.index.record_of("plan", self.hash, *more, batch=part.batch if part else -1),
            outputs=outputs,
            checked_next=checked_next,
            standing=part is not None and self._stands(part),
        )

    def _told(self) -> dict[str, Any]:
        """The settings that decide what comes out."""
        settings = self.index.settings
        return {
            "rows_per_shard": settings.rows_per_shard,
            "max_doc_bytes": settings.max_doc_bytes,
            "verify": settings.verify,
            "sample": settings.sample,
            "roles": asdict(settings.columns.roles),
            "erased": self.erased.told,
            **({} if self.format == formats.PARQUET else {"format": self.format}),
            **({"known": True} if settings.known else {}),  # that there was a user's list, and nothing of it
        }

    def _unchanged(self) -> bool:
        """True where OUT is already what this run would make; refuses an OUT of another plan or origin."""
        if not self.out.exists():
            return False
        if not self.out.is_dir() or (any(self.out.iterdir()) and not (self.out / "manifest.json").is_file()):
            raise UsageError(f"{self.out}: is there already and was not made by sanitize; take another -o, or move it away")
        if not (self.out / "manifest.json").is_file():
            self.out.rmdir()
            return False
        corpus = Corpus.open(self.out)
        more = bool(self.published) and len(corpus.manifest["inputs"]) < len(self.index.input_files)
        same = (
            corpus.manifest.get("plan_hash") == self.hash
            and (more or corpus.manifest.get("settings", {}).get("verify") == self.index.settings.verify)
            and corpus.manifest["settings"].get("erased") == self.erased.told
            and corpus.manifest["settings"].get("format", formats.PARQUET) == self.format
        )
        if same and more:
            return False
        if same:
            try:
                corpus.check()
                return True
            except OutputBroken:
                if not self.index.settings.replace:
                    raise
        if not self.index.settings.replace:
            was = Counter(one.get("sha256") for one in corpus.manifest.get("inputs", []))
            now = Counter(sha256 for _, sha256 in self.index.input_files)
            grown = corpus.manifest.get("batches") or (was and was < now)
            grown = grown and not self.index.settings.append and corpus.manifest.get("plan") == self.plan.shown()
            goes_on = "use --append to go on with it, or " if grown else ""
            raise UsageError(
                f"{self.named or self.out}: was made {self._otherwise(corpus.manifest)}; {goes_on}"
                "use --replace to swap it for the new one when that is whole, or take another -o"
            )
        return False

    def _otherwise(self, manifest: Mapping[str, Any]) -> str:
        """How OUT came about, where that was not as this run would do it."""
        was = [[one.get("bytes"), one.get("sha256")] for one in manifest.get("inputs", [])]
        if was != self.index.input_files[: len(was) if self.index.settings.append else None]:
            return f"of another input ({self.index.difference(was)})"
        if manifest.get("batches") and not self.index.settings.append:
            return f"in {len(manifest['batches'])} parts (--append)"
        if manifest.get("plan") != self.plan.shown():
            return "by another plan"
        if manifest.get("settings", {}).get("erased") != self.erased.told:
            return "before somebody was to be forgotten (sanitize subject --erase)"
        if manifest.get("settings", {}).get("format", formats.PARQUET) != self.format:
            return "in another format (--format)"
        return "with another key, other settings or another version"

    def _still(self) -> None:
        """Just before OUT is swapped: the input is what it was, and OUT may be replaced. How to make it again is written down."""
        self.index.at_rest()
        self._unchanged()
        command = {
            "out": self.named or os.path.abspath(self.out),
            "inputs": self.index.fetched.names,
            "settings": self.index.settings.to_json(),
            "plan": self.plan.resolved(),
            "plan_hash": self.hash,
        }
        self.index.close()
        publish_history.note(self.index.work, command)
