"""What an index is of, and what that is known by: files, key, settings, finders and columns, batch by batch; how WORK says so in
index.json, and what becomes of an index that is of something else.

One `Indexing` (indexing.py) is a `Described` that does the work.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from sanitize.core.engine import Engine
from sanitize.core.keys import Key
from sanitize.core.text_cells import Leaf
from sanitize.errors import UsageError
from sanitize.finders.known import read_list
from sanitize.pipeline import index_increments as batches
from sanitize.pipeline import publish_history
from sanitize.pipeline.index_increments import Batch
from sanitize.pipeline.manifest import versions
from sanitize.plans.detection_spec import Sought, otherwise
from sanitize.plans.settings import Settings, Stages
from sanitize.readers import staging
from sanitize.readers.remote_input import Inputs
from sanitize.readers.sandbox import surveyed
from sanitize.readers.staging import leaf_named, policies_for
from sanitize.readers.survey import Earlier, Layout, Survey
from sanitize.stages import detection
from sanitize.storage import table_schemas, vault
from sanitize.storage.corpus import Documents, cell_leaves, read_json, sha256, write_json
from sanitize.storage.publication import hashed


class Described:
    """An index in one WORK folder: what it is made of, and by what."""

    key: Key
    engine: Engine
    inputs: Sequence[Path]  # files and folders here
    fetched: Inputs  # what of them came from elsewhere
    survey: Survey  # what is read now
    policies: dict[str, str]
    documents: Documents
    ranges: list[tuple[int, int]]

    def __init__(self, inputs: Sequence[Path | str], work: Path, settings: Settings, sought: Sought) -> None:
        self.named_inputs, self.work, self.settings, self.sought = tuple(inputs), work, settings, sought
        self.stages = Stages(progress=settings.progress)
        self.notes: list[str] = []
        # what an append adds to: its batches, documents and ranges, and whether a batch that was begun is begun anew
        self.closed: tuple[Batch, ...] = ()
        self._before: Documents
        self._ranges: list[tuple[int, int]] = []
        self._open_anew = False
        self._known: dict[str, tuple[tuple[int, int] | None, str]] = {}  # of each input file its state and sha256

    @functools.cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The cells of a document."""
        excluded = frozenset(name for name, policy in self.policies.items() if policy != "sanitize")
        main = leaf_named(self.survey.layout.leaf, self.survey.schema)
        return tuple(cell_leaves(self.survey.schema, main, excluded))

    @property
    def rounds(self) -> bool:
        """True where some finder needs what was found in the whole corpus."""
        return any(finder.second for finder in self.sought.finders)

    @functools.cached_property
    def listed(self) -> str | None:
        """A hash of the user's list, read and checked; None where there is none."""
        return hashed(read_list(self.settings.known).rows()) if self.settings.known else None

    @functools.cached_property
    def looked_for(self) -> dict[str, Any]:
        """What decides what is found, beside the input and the key: finders with their settings, countries, own kinds, the user's list."""
        # the list is known by a keyed hash: index.json says nothing of it
        told = hashed(self.listed, self.key.subkey("known").hex()) if self.listed else None
        return {**self.sought.told(), "known": told}

    @functools.cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """One for each batch: everything that decides what the index holds up to there, as this house declares it."""
        return self._chain(self.batches)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole index."""
        return self.fingerprints[-1]

    @functools.cached_property
    def batches(self) -> tuple[Batch, ...]:
        """What the index is made of: what was there, and what is read now, if anything is."""
        if self.closed and not self.survey.files:
            return self.closed
        here = Batch(
            files=tuple((size, known) for size, known in self._new_files),
            paths=tuple(batches.place_of(self.fetched.place(path), self.key) for path, _ in self.survey.files),
            units=len(self.survey.units),
        )
        return (*self.closed, here)

    def _chain(self, there: Sequence[Batch]) -> tuple[str, ...]:
        first, *rest = (batch.inputs_hash(self.survey.roles) for batch in there)
        found = [self._fingerprint(first)]
        for inputs in rest:
            found.append(hashed("append", found[-1], inputs))
        return tuple(found)

    def _fingerprint(self, inputs: str) -> str:
        """That of an index of one batch: inputs, key, settings and the versions of the rooms."""
        settings = self.settings
        return hashed(
            "find",
            inputs,
            self.key.id,
            (table_schemas.VERSION, staging.VERSION, detection.VERSION),
            detection.kinds_hash(),
            (settings.rows_per_shard, settings.max_doc_bytes),
            [str(leaf) for leaf in self.leaves],
            self.looked_for,
            *self._sample,
        )

    @property
    def _sample(self) -> list[object]:
        """What a sample hangs on, where this is one."""
        return [self.settings.sample, self.key.id] if self.settings.sample < 1 else []

    def record_of(self, room: str, *more: object, batch: int = -1) -> str:
        """The fingerprint of a room's records, up to a batch: what the room depends on, and the libraries at work in it."""
        there = versions()
        if room in ("read", "find", "known"):  # what is read and found follows from these two; the others decide only how it is written
            there = {name: there[name] for name in ("corpus-sanitize", "phonenumbers") if name in there}
        if room == "read":
            return hashed(room, there, self.inputs_hash(), staging.VERSION, self.settings.max_doc_bytes, *more)
        return hashed(room, there, self.fingerprints[batch], *more)

    def batch_of(self, no: int) -> int:
        """The batch that a range is of."""
        return sum(no >= stop for stop in accumulate(batch.ranges for batch in self.closed))

    def _behind(self) -> None:
        """Find out which of the files at hand are new to the index, and go on behind what it holds."""
        described = read_json(self.work / "index.json") or {}
        there = batches.batches_of(described)
        if not described.get("complete") and len(there) == 1:
            raise UsageError(f"{self.work}: its index is not complete; run the command that made it, without --append, to its end first")
        self.closed = batches.closed_of(described)
        last = there[-1] if len(self.closed) < len(there) else None
        before, roles = Documents.from_json(described["documents"], self.work), self.settings.columns.roles
        nothing = Survey(units=[], files=[], bad=[], ignored=[], layout=Layout(schema=before.schema, roles=roles))
        self._survey(nothing)
        self._same_index(described, there)
        units = sum(batch.units for batch in self.closed)
        self._before = replace(before, sources=before.sources[:units])
        self._ranges = [(low, high) for low, high in described["ranges"][: sum(batch.ranges for batch in self.closed)]]
        if self.named_inputs:
            with self.stages.measure("read"), self.fetched.telling():
                files = surveyed(self.engine, self.inputs, roles, self.settings.reading_bytes).files if self.inputs else []
                given = [(path, size, self._hash(path)) for path, size in files]
                lie = [(self.fetched.place(path), size, known) for path, size, known in given]
                stand = [(place, size, known) for place, (size, known) in self.fetched.standing.items()]
                new, moved = batches.new_among([*lie, *stand], self.fetched.folders, self.closed, self.key)
                self._none_grown([*given, *stand], new)
                if new:
                    known = frozenset(path for no, (path, _, _) in enumerate(given) if no not in set(new))
                    earlier = Earlier(schema=before.schema, paths=known)
                    found = surveyed(self.engine, self.inputs, roles, self.settings.reading_bytes, earlier)
                    batches.same_columns(before.schema, found.schema)
                    self._survey(replace(found, units=[replace(unit, no=unit.no + units) for unit in found.units]))
            if moved:
                self.notes.append(f"{moved:,} of the given files are, byte for byte, ones that were read before; they were not added again")
        self._open_anew = batches.opened([(size, known) for size, known in self._new_files], last, replace=self.settings.replace)

    def _none_grown(self, given: Sequence[tuple[str, int, str]], new: Sequence[int]) -> None:
        """UsageError where a new file begins with an earlier one that is not given itself."""
        there = {known for _, _, known in given}
        earlier: dict[int, set[str]] = {}
        for size, known in (file for batch in self.closed for file in batch.files):
            if known not in there:
                earlier.setdefault(size, set()).add(known)
        for no in new if earlier else ():
            path, size, _ = given[no]
            if batches.has_grown(path, size, earlier):
                raise UsageError(
                    f"file {no + 1} of the input: begins with all bytes of a file that an earlier run has read, whose documents would be "
                    "there twice; --append takes files that are new. Put what is new into a file of its own; if the documents are to come "
                    "again, give the earlier file as well; or run over all files with --replace, without --append"
                )

    def _same_index(self, described: Mapping[str, Any], there: Sequence[Batch]) -> None:
        """UsageError where the index was made with another key, other settings, columns, finders or another version."""
        if described.get("fingerprint") == self._chain(there)[-1]:
            return
        why = (
            "another key"
            if described.get("key_id") != self.key.id
            else "another --sample"
            if described.get("sample", 1.0) != self.settings.sample
            else otherwise(described["looked_for"], self.looked_for)
            if described.get("looked_for", self.looked_for) != self.looked_for
            else "other columns or settings (--text-column, --rows-per-shard, --max-doc-bytes and the like), or by another version"
        )
        raise UsageError(
            f"{self.work}: its index was made with {why}; an append goes on with the same. Say what the first run was told; "
            "or run over all files with --replace, without --append, to make everything anew"
        )

    def _renew(self) -> dict[str, Any]:
        """What WORK says of its index, if it is the one we need; one of another key or setting goes, and the user is told.

        One of another input goes only with `--replace`: it may have taken hours, and the input may be a mistake.
        """
        before = read_json(self.work / "index.json") or {}
        if self.closed:
            if self._open_anew:
                self._take_back()
            return before
        if not before or before.get("fingerprint") == self.fingerprint:
            return before
        same_input = before.get("inputs") == self.inputs_hash()
        same_documents = same_input and before.get("sample", 1.0) == self.settings.sample
        parts = len(before.get("batches") or ())
        same_files = Counter(map(tuple, before.get("files") or [])) == Counter(map(tuple, self.input_files))
        if not same_input and same_files and parts > 1 and not self.settings.replace:
            raise UsageError(
                f"{self.work}: holds an index of these files that was made in {parts} parts (--append); nothing was touched. Use --append "
                "to go on with it; or --replace to make the index, and what was made of it, anew and in one; or take another --work to "
                "keep both"
            )
        if not same_input and not self.settings.replace:
            raise UsageError(
                f"{self.work}: holds the index of another input ({self.difference(before.get('files') or [])}); nothing was touched. "
                "Put the input back as it was to go on with that index; or use --replace to make the index, and what was made of it, anew; "
                f"or take another --work to keep both{'; or --append to add what is new to it' if self._adds_to(before) else ''}"
            )
        why = (
            f"another input ({self.difference(before.get('files') or [])})"
            if not same_input
            else "another key"
            if before.get("key_id") != self.key.id
            else otherwise(before["looked_for"], self.looked_for)
            if before.get("looked_for", self.looked_for) != self.looked_for
            else "other settings, or by another version"
        )
        if not self.settings.replace and (outs := publish_history.led_back(self.work)):
            raise UsageError(
                f"{self.work}: its index was made with {why}, and the way back from the labels of {outs[0]}"
                f"{f' and {len(outs) - 1} more' if outs[1:] else ''} would go with it; nothing was touched. Take another --work to keep "
                "both; or use --replace to make the index anew all the same"
            )
        self.notes.append(f"the index in {self.work} was made with {why}; it is made again, and what was made of it goes")
        (self.work / "index.json").unlink()
        for name in (
            "tables",
            "runs",
            "tasks/find",
            "tasks/known",
            "rounds",
            "vault/values",
            "vault/rounds",
            "quarantine",
            *(() if same_documents else ("documents", "tasks")),
        ):
            shutil.rmtree(self.work / name, ignore_errors=True)
        return {}

    def _take_back(self) -> None:
        """Forget the batch that was begun and not published."""
        units, ranges = (sum(getattr(batch, name) for batch in self.closed) for name in ("units", "ranges"))
        self.documents, self.ranges = self._before, self._ranges
        self._describe(complete=True, there=self.closed)
        batches.take_back(self.work, ranges, units, len(self.closed))

    def _describe(self, *, complete: bool, there: Sequence[Batch] = ()) -> None:
        """Write down what the index is of; while it is not complete, its tasks are resumed. `there`: these batches alone."""
        if not there:
            *_, last = self.batches
            documents = self.documents.count - (self._before.count if self.closed else 0)
            last = replace(last, documents=documents, ranges=len(self.ranges) - (len(self._ranges) if self.closed else 0))
            there = self.closed if len(self.batches) == len(self.closed) else (*self.closed, last)
        write_json(
            self.work / "index.json",
            {
                "fingerprint": self._chain(there)[-1],
                "complete": complete,
                "key_id": self.key.id,
                "looked_for": self.looked_for,
                "inputs": hashed([one.inputs_hash(self.survey.roles) for one in there]) if self.closed else self.inputs_hash(),
                "sample": self.settings.sample,
                "files": [[size, known] for one in there for size, known in one.files],
                "batches": [one.to_json() for one in there],
                "documents": self.documents.to_json(self.work),
                "leaves": [[leaf.column, *leaf.steps] for leaf in self.leaves],
                "policies": self.policies,
                "ranges": self.ranges,
            },
        )

    def close(self) -> None:
        """Something of all batches is published: none of them is taken back any more."""
        if self.closed:
            described = read_json(self.work / "index.json") or {}
            told = [{**one, "published": True} for one in described["batches"]]
            with vault.umask(0o077):  # OUT is written under the user's own mask, this is not for others
                write_json(self.work / "index.json", {**described, "batches": told})

    @property
    def input_files(self) -> list[list[Any]]:
        """Size and sha256 of every input file, in corpus order."""
        return [*([size, known] for batch in self.closed for size, known in batch.files), *self._new_files]

    @property
    def _new_files(self) -> list[list[Any]]:
        return [[size, known] for (_, size), known in zip(self.survey.files, self.input_hashes, strict=True)]

    def difference(self, was: list[list[Any]]) -> str:
        """How the input differs from another one (its `input_files`), in numbers; a file's name may be a person's."""
        now = self.input_files
        if not was:
            return "it does not say of which"
        common, gone, new = (Counter(known for _, known in files) for files in (was, was, now))
        common &= new
        if not (gone - common) and not (new - common):
            return "the same files" + (", in another order" if was != now else ", with other roles of columns")
        said = [f"{len(was):,} files, now {len(now):,}"]
        if len(was) == len(now):
            changed = [no for no, (one, other) in enumerate(zip(was, now, strict=True)) if one[1] != other[1]]
            places = [f"file {no + 1}, {was[no][0]:,} bytes, now {now[no][0]:,}" for no in changed[:3]]
            said = [f"{len(changed):,} of {len(was):,} files changed: {'; '.join(places)}{'; ...' if len(changed) > 3 else ''}"]
        else:
            said.append(f"{(gone - common).total():,} of them gone or changed, {(new - common).total():,} new")
        return ", ".join(said)

    def _adds_to(self, before: Mapping[str, Any]) -> bool:
        """True where files were added to those of an index, or would be."""
        was = Counter(known for _, known in before.get("files") or [])
        return len(before.get("batches") or ()) > 1 or bool(was) and not was - Counter(self.input_hashes)

    @functools.cached_property
    def input_hashes(self) -> list[str]:
        """The sha256 of every file that is read, in corpus order."""
        return [self._hash(path) for path, _ in self.survey.files]

    def _hash(self, path: str) -> str:
        """The sha256 of a file, which is read for it once."""
        if path not in self._known:
            state = state_of(path)
            self._known[path] = state, sha256(Path(path))
        return self._known[path][1]

    def inputs_hash(self) -> str:
        """One hash of the bytes that are read, their order and the roles of their columns; where they lie does not matter."""
        return hashed(self.input_hashes, str(self.survey.roles))

    def _survey(self, found: Survey) -> None:
        """Take this for the input that is to be read."""
        self.survey = found
        self.policies = policies_for(found.schema, found.layout.main, self.settings.columns)

    def files(self, *place: str) -> list[Path]:
        """The files of a table of WORK, one a task."""
        return [self.work.joinpath(*place, f"{no:05d}.parquet") for no in range(len(self.ranges))]


def state_of(path: str) -> tuple[int, int] | None:
    """What changes when somebody writes to a file: its size and time; None where it is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
