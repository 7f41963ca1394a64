"""Results of finished tasks are reused exactly as long as everything they depend on is the same, stage by stage."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sanitize.editors.redact import Redact
from sanitize.editors.rmft import Rmft
from sanitize.errors import InputRefused, UsageError
from sanitize.pipeline import canaries, index_state, run_state, shard_checking
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers import staging
from sanitize.readers.sandbox import SandboxedReader
from sanitize.readers.staging import Columns
from sanitize.readers.survey import InputUnit
from sanitize.stages import detection, rewriting
from sanitize.storage import table_schemas
from sanitize.storage.task_records import load_record

ROOMS = {"find": (detection, "find_task"), "apply": (rewriting, "rewrite_task"), "verify": (shard_checking, "verify_task")}


@pytest.fixture()
def done(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often the tasks of each stage ran."""
    times: Counter[str] = Counter()
    for name, (room, task) in ROOMS.items():
        whole = getattr(room, task)

        def counting(one: Any, name: str = name, whole: Callable[[Any], Any] = whole) -> Any:
            times[name] += 1
            return whole(one)

        monkeypatch.setattr(room, task, counting)
    drilled = canaries.check_canaries

    def drilling(*given: Any) -> dict[str, Any]:
        before = Counter(times)
        told = drilled(*given)
        times.clear()
        times.update(before)  # the drill goes through the rooms with documents of its own
        return told

    monkeypatch.setattr(canaries, "check_canaries", drilling)
    decode = SandboxedReader._stage_units

    def decoding(self: SandboxedReader, units: list[InputUnit]) -> dict[int, dict[str, Any]]:
        # this happens in a process of its own: what has no record that fits is done there
        times.update("read" for job in map(self._staging_job, units) if load_record(job.record_path, job.fingerprint) is None)
        return decode(self, units)

    monkeypatch.setattr(SandboxedReader, "_stage_units", decoding)
    yield times


def again(house: Any, **more: Any) -> dict[str, Any]:
    told = {"columns": Columns(), "seed": 1, "workers": 1, "rows_per_shard": 25, "replace": True, **more}
    return run(house.inputs, house.out, load_plan("rmft"), None, Settings(**told))


def another(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A library with another version."""
    there = {**index_state.get_library_versions(), name: "0.0.1"}
    return lambda patch: patch.setattr(index_state, "get_library_versions", lambda: there)


def version(room: Any, name: str = "VERSION") -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(room, name, getattr(room, name) + 1)


EVERY = {"read": 1, "find": 3, "apply": 3, "verify": 3}  # of 60 documents in shards of 25, half of them staged
PLAN = {"apply": 3, "verify": 3}
FOUND = {"find": 3, **PLAN}
Change = tuple[str, Callable[[pytest.MonkeyPatch], None], dict[str, Any], dict[str, int]]
# one after the other on the same WORK; each is seen against the one before
OF_THE_PLAN: list[Change] = [
    ("nothing", lambda patch: None, {}, {"verify": 3}),  # the last gate looks anew
    ("an editor", version(Rmft), {}, PLAN),
    ("another editor", version(Redact), {}, PLAN),
    ("apply", version(rewriting), {}, PLAN),
    ("verify", version(run_state, "LEAK_CHECK_VERSION"), {}, PLAN),
    ("no verify", lambda patch: None, {"verify": "off"}, {}),
    ("polars", another("polars"), {}, PLAN),
]
OF_THE_INDEX: list[Change] = [
    ("the finders", version(detection), {}, FOUND),
    ("the tables", version(table_schemas), {}, FOUND),
    ("the key", lambda patch: None, {"seed": 2}, FOUND),
    ("the shards", lambda patch: None, {"rows_per_shard": 20}, FOUND),
    ("the limit of a document", lambda patch: None, {"max_doc_bytes": 1 << 20}, EVERY),
    ("the readers", version(staging), {}, EVERY),
    ("phonenumbers", another("phonenumbers"), {}, EVERY),
    ("sanitize", another("corpus-sanitize"), {}, EVERY),
]


@pytest.mark.parametrize("changes", [OF_THE_PLAN, OF_THE_INDEX], ids=["plan", "index"])
def test_a_change_redoes_what_depends_on_it(house: Any, done: Counter[str], monkeypatch: pytest.MonkeyPatch, changes: list[Change]) -> None:
    house.again()
    assert done == EVERY
    for name, change, settings, expected in changes:
        shutil.rmtree(house.out)  # as if it had been stopped just before the end
        done.clear()
        with monkeypatch.context() as patch:
            change(patch)
            again(house, **settings)
        assert done == expected, name
        house.clean()


SPOILED = {
    "tables/occurrences/00001.parquet": "find",
    "vault/values/00000.parquet": "find",
    "tables/value_counts/all.parquet": "",
    "documents/00000.parquet": "read",
    "runs/*/shards/00001.parquet": "apply",
    "runs/*/edits/00002.parquet": "apply",
    "runs/*/counts/0-first_occurrences.parquet": "",
    "runs/*/counts/forbidden_values.parquet": "",
}


def test_what_was_spoiled_is_made_again(house: Any, done: Counter[str]) -> None:
    house.again()
    for place, room in SPOILED.items():
        shutil.rmtree(house.out)
        done.clear()
        (path,) = house.work.glob(place)
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 3] ^= 1
        path.write_bytes(raw)
        house.again()
        assert done == {"verify": 3} | ({room: 1} if room else {}), place


def test_another_input_is_told_in_numbers(house: Any, done: Counter[str]) -> None:
    house.again()
    done.clear()
    shutil.rmtree(house.out)
    inputs, texts = list(house.inputs), house.inputs[0].read_bytes()
    for change, said in (
        (lambda: house.inputs[0].write_bytes(texts.replace(b"wrote", b"wrotE", 1)), "1 of 2 files changed: file 1, "),
        (lambda: house.inputs.pop(), "2 files, now 1, 1 of them missing or changed, 0 new"),
        (lambda: house.inputs.reverse(), "the same files, in another order"),
    ):
        change()
        with pytest.raises(UsageError) as caught:
            again(house, replace=False)
        message = str(caught.value)
        assert said in message and all(way in message for way in ("Restore the input", "--replace", "another --work"))
        assert "in.a" not in message and not done  # a file's name may be a person's
        house.inputs[:] = inputs
        inputs[0].write_bytes(texts)
    house.again()
    assert done == {"verify": 3}
    done.clear()
    inputs[0].write_bytes(texts.replace(b"wrote", b"wrotE", 1))
    with pytest.raises(UsageError, match="was made from another input .1 of 2 files changed: file 1, "):
        again(house, replace=False)
    summary = again(house)
    assert "another input (1 of 2 files changed" in " ".join(summary["notes"]) and done == EVERY


def test_an_input_that_changes_under_our_hands_is_refused(house: Any, done: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of find and again just before OUT is swapped; what was read of the input is deleted."""
    house.put_old()
    texts = house.inputs[0].read_bytes()
    for room, name in ((detection, "find_task"), (shard_checking, "verify_task")):
        whole = getattr(room, name)

        def writing(task: Any, whole: Callable[[Any], Any] = whole) -> Any:
            house.inputs[0].write_bytes(texts + b'{"text": "canary late"}\n')
            return whole(task)

        with monkeypatch.context() as patch:
            patch.setattr(room, name, writing)
            with pytest.raises(InputRefused, match="file 1 of the input changed while it was being read; nothing was published"):
                again(house)
        assert house.state() == "old" and not (house.work / "index.json").exists() and not (house.work / "tasks").exists()
        house.inputs[0].write_bytes(texts)
    done.clear()
    house.again()
    assert done == EVERY
    # touched, but the same: no reason to stop
    shutil.rmtree(house.out)
    with monkeypatch.context() as patch:
        whole = shard_checking.verify_task
        patch.setattr(shard_checking, "verify_task", lambda task: (os.utime(house.inputs[0]), whole(task))[1])
        house.again()


def test_what_a_killed_run_left_is_taken_away(house: Any) -> None:
    house.again()
    shutil.rmtree(house.out)
    for left in ("tasks/find/00009.json.tmp", "index.json.tmp", "spill/find-1/half.parquet", "spill/duckdb_temp_storage.tmp"):
        (house.work / left).parent.mkdir(parents=True, exist_ok=True)
        (house.work / left).write_text("canary")
    house.again()  # which asks that all in WORK has a place there


def test_records_hold_no_text(house: Any) -> None:
    house.again()
    records = sorted(house.work.rglob("tasks/**/*.json"))
    assert len(records) == 1 + 1 + 1 + 3 + 1 + 3 + 2
    for path in records:
        found = json.loads(path.read_text())
        assert set(found) == {"fingerprint", "files", "result"} and (found["files"] or path.name.startswith("view-"))
        assert all((path.parent / file).resolve().is_relative_to(house.work.resolve()) for file in found["files"])
        assert not any(Path(file).is_absolute() for file in found["files"]) and all(len(known) == 64 for known in found["files"].values())
    house.silent()
