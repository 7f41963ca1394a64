"""`sanitize replay`: the same bytes from the same inputs in any folder, and a clear error if a manifest cannot be replayed."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.cli import main
from sanitize.cli.demo import generate_mails, write_mbox
from sanitize.core.progress import ProgressUpdate
from sanitize.errors import InputRefused, OutputBroken, PlanError, SanitizeError, UsageError
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import run
from sanitize.plans.plan import Plan, load_plan, plan_names
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles

Change = Callable[[dict[str, Any]], object]


def published(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def there(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# ---- plans ----


@pytest.mark.parametrize("name", plan_names())
def test_a_resolved_plan_is_a_plan(name: str) -> None:
    plan = load_plan(name)
    again = Plan.from_resolved(json.loads(json.dumps(plan.resolved_settings())), "manifest.json: plan")
    assert again == plan and again.hash() == plan.hash()


def test_a_resolved_plan_is_checked() -> None:
    resolved = load_plan("rmft", ["edit.0.keep=2", "edit.0.stores=mixed"]).resolved_settings()
    assert Plan.from_resolved(resolved, "m").editors[0].keep == 2
    for wrong, word in (({"edit": []}, "no editor"), ({"surprise": 1}, "unknown key"), ({"edit": [{"use": "nothing"}]}, "no such part")):
        with pytest.raises(PlanError, match=f"^m: .*{word}"):
            Plan.from_resolved({**resolved, **wrong}, "m")


# ---- the same ----


def in_parquet(folder: Path) -> list[Path]:
    folder.mkdir()
    for no, seed in enumerate((3, 4)):
        pq.write_table(generate_mails(30, seed), folder / f"{no}.parquet", row_group_size=7)
    return [folder / "0.parquet", folder / "1.parquet"]


def in_columns(folder: Path) -> list[Path]:
    """User-defined column roles and policies, and quarantined records."""
    folder.mkdir()
    rows = [
        {"no": f"d{at}", "who": f"user{at % 3}", "body": text, "note": f"see {text[-40:]}", "raw": b"bob@example.com", "n": at}
        for at, text in enumerate(generate_mails(40, 6)["text"].to_pylist())
    ]
    rows[5]["body"] *= 9
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return [folder / "a.parquet"]


def in_jsonl(folder: Path) -> list[Path]:
    folder.mkdir()
    lines = [json.dumps({"text": text}) for text in generate_mails(40, 8)["text"].to_pylist()]
    lines[7] = '{"text": '
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    return [folder / "a.jsonl"]


def in_mbox(folder: Path) -> list[Path]:
    folder.mkdir()
    write_mbox(generate_mails(40, 9), folder / "a.mbox")
    return [folder / "a.mbox"]


OWN = Columns(roles=Roles(text=("body", "note"), user="who", id="no"), policies={"note": "keep", "raw": "drop", "user_id": "sanitize"})
CASES: dict[str, tuple[Callable[[Path], list[Path]], str, list[str], dict[str, Any]]] = {
    "rmft of Parquet": (in_parquet, "rmft", ["edit.0.keep=2"], {"rows_per_shard": 17}),
    "redact of columns": (
        in_columns,
        "redact",
        ["edit.0.label=numbered"],
        {"columns": dataclasses.replace(OWN, policies={"raw": "drop", "user_id": "sanitize"}), "max_doc_bytes": 9_000},
    ),
    "erase of JSON lines": (in_jsonl, "erase", [], {}),
    "baseline of mails": (in_mbox, "baseline", [], {"verify": "off"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_replay_gives_every_file_again(tmp_path: Path, case: str) -> None:
    make, plan, changes, more = CASES[case]
    inputs = make(tmp_path / "in")
    summary = run(inputs, tmp_path / "out", load_plan(plan, changes), settings=Settings(seed=11, workers=1, **more))
    assert bool(summary["quarantined"]) == (case in ("redact of columns", "erase of JSON lines"))
    (tmp_path / "else").mkdir()
    for no, path in enumerate(inputs):
        shutil.move(path, tmp_path / "else" / f"other-{no}{path.suffix}")
    result = replay(tmp_path / "out" / "manifest.json", tmp_path / "else", tmp_path / "again", workers=1)
    assert result["same"] and result["same_manifest"] and result["published"] and result["changed"]
    assert result["different_shards"] == result["different_counts"] == result["notes"] == []
    assert result["shards"] == len(list((tmp_path / "out" / "data").iterdir()))
    assert published(tmp_path / "again") == published(tmp_path / "out")


def test_a_run_with_a_list_is_replayed_with_that_list(tmp_path: Path) -> None:
    """No manifest holds the list: it must be given again, and a different list is detected."""
    for name, value in (("ours", "Wexler Farrow"), ("other", "Wexler Farlow")):
        (tmp_path / f"{name}.csv").write_text(f"kind,value\nPERSON,{value}\n")
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "Wexler Farrow wrote to wf@example.com"}) + "\n")
    told = Settings(seed=3, workers=1, known=tmp_path / "ours.csv")
    plan = load_plan("names", ["edit.0.keep=0"])
    run(tmp_path / "in.jsonl", tmp_path / "out", plan, settings=told)
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert "Farrow" not in manifest and json.loads(manifest)["settings"]["known"] is True
    result = replay(tmp_path / "out", tmp_path / "in.jsonl", tmp_path / "again", workers=1, known=tmp_path / "ours.csv")
    assert result["same"] and result["same_manifest"]
    assert published(tmp_path / "again") == published(tmp_path / "out")
    with pytest.raises(UsageError, match="the same list again with --known"):
        replay(tmp_path / "out", tmp_path / "in.jsonl", tmp_path / "none", workers=1)
    with pytest.raises(UsageError, match="not the list") as error:
        replay(tmp_path / "out", tmp_path / "in.jsonl", tmp_path / "wrong", workers=1, known=tmp_path / "other.csv")
    assert "Far" not in str(error.value) and not (tmp_path / "wrong").exists()


# ---- a made corpus to change things about ----


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    run(in_parquet(folder / "in"), folder / "out", "rmft", settings=Settings(seed=5, workers=1, rows_per_shard=20))
    return folder


@pytest.fixture()
def made(original: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with `in`, `out` and `out.private` of a run with a seed, and three shards."""
    shutil.copytree(original, tmp_path / "made", copy_function=os.link)
    yield tmp_path / "made"


def changed(made: Path, change: Change) -> Path:
    """The path of a changed copy of the manifest."""
    said = json.loads((made / "out" / "manifest.json").read_text())
    change(said)
    (made / "m.json").write_text(json.dumps(said))
    return made / "m.json"


def test_again_there_is_nothing_to_do(made: Path) -> None:
    first = replay(made / "out", made / "in", made / "again", workers=1)
    second = replay(made / "out", made / "in", made / "again", workers=1)
    assert first.pop("changed") and not second.pop("changed")
    assert first == second


def test_a_stopped_replay_goes_on(made: Path) -> None:
    def stop(step: ProgressUpdate) -> None:
        if (step.stage, step.tasks_done) == ("rewrite", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(made / "out", made / "in", made / "again", workers=1, progress=stop)
    assert not (made / "again").exists()
    seen: list[str] = []
    result = replay(made / "out", made / "in", made / "again", workers=1, progress=lambda step: seen.append(step.stage))
    assert result["same"] and "rewrite" in seen
    assert published(made / "again") == published(made / "out")


# ---- different ----


def a_shard(said: dict[str, Any]) -> None:
    said["shards"][1]["sha256"] = "0" * 64


def more_shards(said: dict[str, Any]) -> None:
    said["shards"].append(said["shards"][0])


def a_count(said: dict[str, Any]) -> None:
    said["summary"]["by_kind"]["EMAIL_ADDRESS"]["kept"] += 1


def another_seed(said: dict[str, Any]) -> None:
    said["key"]["seed"] = 6
    said["tool"]["polars"] = "1.0.0"  # else the plan's hash would already tell


DIFFERENT: dict[str, tuple[Change, list[int], list[str]]] = {
    "one shard": (a_shard, [1], []),
    "one more shard": (more_shards, [3], []),
    "a count": (a_count, [], ["by_kind"]),
    "the seed": (another_seed, [0, 1, 2], []),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_is_different_is_named_and_not_published(made: Path, case: str) -> None:
    change, different, counts = DIFFERENT[case]
    manifest = changed(made, change)
    result = replay(manifest, made / "in", made / "again", workers=1)
    assert not result["same"] and not result["same_manifest"] and not result["published"]
    assert (result["different_shards"], result["different_counts"], result["shards"]) == (different, counts, 3)
    assert not (made / "again").exists() and (made / "again.private").is_dir()
    if case == "one shard":
        result = replay(manifest, made / "in", made / "again", workers=1, anyway=True)
        assert result["published"] and not result["same"] and result["different_shards"] == different
        assert {name: raw for name, raw in published(made / "again").items() if name != "manifest.json"}.items() <= published(
            made / "out"
        ).items()
        later = replay(manifest, made / "in", made / "again", workers=1)
        assert not later["changed"] and not later["same"]


def test_another_version_is_noted(made: Path) -> None:
    manifest = changed(made, lambda said: said["tool"].update({"polars": "1.0.0", "faker": "1.0"}) or said["tool"].pop("numpy"))
    result = replay(manifest, made / "in", made / "again", workers=1)
    (note,) = result["notes"]
    assert "polars 1.0.0 there" in note and "faker 1.0 there" in note and "numpy none there" in note and "duckdb" not in note
    assert result["same"] and result["published"] and not result["same_manifest"]


# ---- refused, and nothing left behind ----


def secret(said: dict[str, Any]) -> None:
    said["key"] = {"kind": "secret"}


def own_part(said: dict[str, Any]) -> None:
    said["plan"]["edit"][1]["use"] = "os.path"


REFUSED: dict[str, tuple[Change, type[Exception], str]] = {
    "a secret key": (secret, UsageError, "secret key, which no manifest holds.*--key FILE"),
    "other formats": (
        lambda said: said["tool"]["formats"].update(rewriting=0),
        UsageError,
        "formats detection [0-9], rewriting 0.*here they are detection [0-9], rewriting [1-9].*corpus-sanitize",
    ),
    "no formats": (lambda said: said["tool"].pop("formats"), UsageError, "formats that it does not name"),
    "no seed": (lambda said: said["key"].pop("seed"), OutputBroken, "key.seed is missing"),
    "a seed that is none": (lambda said: said["key"].update(seed="x"), OutputBroken, "key.seed"),
    "no settings": (lambda said: said.pop("settings"), OutputBroken, "settings: Field required"),
    "a shard size that is none": (lambda said: said["settings"].update(rows_per_shard=0), OutputBroken, "settings.rows_per_shard"),
    "a hash that is none": (lambda said: said["shards"][0].update(sha256="../x"), OutputBroken, r"shards.0.sha256"),
    "code of its own": (own_part, UsageError, r"edit\[1\] uses a part from outside"),
    "a plan that is none": (lambda said: said["plan"].update(edit=[]), PlanError, "no editor names it"),
    "a plan that was changed": (lambda said: said["plan"]["edit"][0].update(keep=3), OutputBroken, "plan_hash does not follow"),
    "a seed that was changed": (lambda said: said["key"].update(seed=6), OutputBroken, "plan_hash does not follow"),
    "an input that was changed": (
        lambda said: said["inputs"][1].update(sha256="0" * 64),
        InputRefused,
        "1 of its 2 inputs .*number 1, counted",
    ),
    "an input of another size": (lambda said: said["inputs"][0].update(bytes=1), InputRefused, "number 0, counted"),
    "another order": (lambda said: said["inputs"].reverse(), InputRefused, "in another order.* 1, 0, counted from 0"),
    "another number": (lambda said: said["inputs"].pop(), InputRefused, "names 1 input files, and 2 were given"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_replayed_is_refused(made: Path, case: str) -> None:
    change, error, says = REFUSED[case]
    manifest = changed(made, change)
    before = there(made)
    with pytest.raises(error, match=says):
        replay(manifest, made / "in", made / "again", workers=1)
    assert there(made) == before


def test_a_part_of_the_users_own_is_not_even_imported(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (made / "trap.py").write_text("raise SystemExit('a manifest chose what runs')\n")
    monkeypatch.syspath_prepend(made)
    for room, part in (("edit", {"use": "trap.", "kinds": []}), ("drop", {"use": "trap.x"}), ("edit", {"use": ".trap"})):
        with pytest.raises(UsageError, match="outside of sanitize"):
            replay(changed(made, lambda said, room=room, part=part: said["plan"].update({room: [part]})), made / "in", made / "again")


PLACES: dict[str, tuple[dict[str, str], str]] = {
    "OUT is the manifest's folder": ({"out": "out", "work": "w"}, "would compare it with itself"),
    "WORK is the run's": ({"out": "again", "work": "out.private"}, "holds another run"),
    "OUT holds something": ({"out": "full", "work": "w"}, "exists already"),
    "OUT in the input": ({"out": "in/again", "work": "w"}, "inside each other"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_replay_begins_anew_in_a_place_of_its_own(made: Path, case: str) -> None:
    places, says = PLACES[case]
    (made / "full").mkdir()
    (made / "full" / "letter.txt").write_text("mine")
    before = there(made)
    with pytest.raises(UsageError, match=says):
        replay(made / "out", made / "in", made / places["out"], made / places["work"], workers=1)
    assert there(made) == before


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"key": 1}'])
def test_no_manifest_at_all(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "m.json").write_text(text)
    with pytest.raises((OutputBroken, UsageError), match=r"m\.json: "):
        replay(tmp_path / "m.json", tmp_path, tmp_path.parent / "again")


def test_whatever_a_manifest_says_it_is_refused_in_one_sentence(made: Path) -> None:
    """Every field of a manifest is replaced by values of other types: none causes an internal error."""
    said = json.loads((made / "out" / "manifest.json").read_text())
    places = [(name,) for name in said] + [(name, inner) for name in said if isinstance(said[name], dict) for inner in said[name]]
    places += [("plan", "find", name) for name in said["plan"]["find"]] + [
        ("settings", "roles", name) for name in said["settings"]["roles"]
    ]
    places += [("plan", "edit", 0), ("plan", "edit", 0, "use"), ("inputs", 0), ("shards", 0), ("columns", 0), ("columns", 0, "policy")]
    for place in places:
        for value in (None, 7, "x", [], {}, [[]], {"use": 1}):

            def change(said: dict[str, Any], place: tuple[Any, ...] = place, value: object = value) -> None:
                inner: Any = said
                for step in place[:-1]:
                    inner = inner[step]
                inner[place[-1]] = value

            with pytest.raises(SanitizeError):  # at the latest for an input that is not there
                replay(changed(made, change), made / "no such input", made / "again")


# ---- the command ----


def test_the_command(made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(made)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["sanitize", "replay", *words])
        with pytest.raises(SystemExit) as end:
            main.main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    code, out, _ = command("out/manifest.json", "in", "-o", "again", "--workers", "1")
    assert code == 0 and out.startswith("same: all 3 shards are byte for byte those of the manifest, and so is the manifest\n")
    code, out, _ = command("out", "in", "-o", "again", "--json")
    assert code == 0 and out.count("\n") == 1 and json.loads(out)["same"] and not json.loads(out)["changed"]
    changed(made, a_shard)
    code, out, _ = command("m.json", "in", "-o", "third", "--workers", "1")
    assert code == 3 and out.startswith("different: 1 of 3 shards (number 1, counted from 0)\nnothing was published")
    assert not (made / "third").exists()
    code, out, _ = command("m.json", "in", "-o", "third", "--workers", "1", "--anyway", "--json")
    assert code == 3 and json.loads(out)["published"] and (made / "third" / "manifest.json").is_file()
    changed(made, secret)
    code, out, err = command("m.json", "in", "-o", "fourth")
    assert code == 2 and out == "" and err.startswith("error: m.json: was made with a secret key")
