"""`sanitize replay`: the same bytes from the same inputs in any folder, and a clear error if a
manifest cannot be replayed."""

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
from sanitize.cli.generated_mails import generate_mails, write_mbox
from sanitize.core.progress import ProgressUpdate
from sanitize.errors import InputRefused, OutputBroken, PlanError, SanitizeError, UsageError
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.plans.shipped_plans import plan_names
from tests.support import read_files

Change = Callable[[dict[str, Any]], object]


def list_paths(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# ---- plans ----


@pytest.mark.parametrize("name", plan_names())
def test_resolved_plan_round_trips(name: str) -> None:
    plan = load_plan(name)
    restored = Plan.from_resolved(
        json.loads(json.dumps(plan.resolved_settings())), "manifest.json: plan"
    )
    assert restored == plan and restored.hash() == plan.hash()


def test_a_resolved_plan_is_checked() -> None:
    resolved = load_plan("rmft", ["edit.0.keep=2", "edit.0.stores=mixed"]).resolved_settings()
    assert Plan.from_resolved(resolved, "m").editors[0].keep == 2
    for wrong, word in (
        ({"edit": []}, "no editor"),
        ({"surprise": 1}, "unknown key"),
        ({"edit": [{"use": "nothing"}]}, "no such part"),
    ):
        with pytest.raises(PlanError, match=f"^m: .*{word}"):
            Plan.from_resolved({**resolved, **wrong}, "m")


# ---- identical output ----


def write_parquet(folder: Path) -> list[Path]:
    folder.mkdir()
    for no, seed in enumerate((3, 4)):
        pq.write_table(generate_mails(30, seed), folder / f"{no}.parquet", row_group_size=7)
    return [folder / "0.parquet", folder / "1.parquet"]


def write_columns(folder: Path) -> list[Path]:
    """User-defined column roles and policies, and quarantined records."""
    folder.mkdir()
    rows = [
        {
            "no": f"d{no}",
            "who": f"user{no % 3}",
            "body": text,
            "note": f"see {text[-40:]}",
            "raw": b"bob@example.com",
            "n": no,
        }
        for no, text in enumerate(generate_mails(40, 6)["text"].to_pylist())
    ]
    rows[5]["body"] *= 9
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return [folder / "a.parquet"]


def write_jsonl(folder: Path) -> list[Path]:
    folder.mkdir()
    lines = [json.dumps({"text": text}) for text in generate_mails(40, 8)["text"].to_pylist()]
    lines[7] = '{"text": '
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    return [folder / "a.jsonl"]


def write_mails(folder: Path) -> list[Path]:
    folder.mkdir()
    write_mbox(generate_mails(40, 9), folder / "a.mbox")
    return [folder / "a.mbox"]


COLUMN_SETTINGS = {
    "text_column": ("body", "note"),
    "user_column": "who",
    "id_column": "no",
    "keep": ["note"],
    "drop": ["raw"],
    "sanitize": ["user_id"],
}
CASES: dict[str, tuple[Callable[[Path], list[Path]], str, list[str], dict[str, Any]]] = {
    "rmft of Parquet": (write_parquet, "rmft", ["edit.0.keep=2"], {"rows_per_shard": 31}),
    "redact of columns": (
        write_columns,
        "redact",
        ["edit.0.label=numbered"],
        {**COLUMN_SETTINGS, "keep": [], "max_doc_bytes": 9_000},
    ),
    "surrogates of JSON lines": (write_jsonl, "surrogates", [], {}),
    "baseline of mails": (write_mails, "baseline", [], {"verify": "off"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_replay_reproduces_every_file(tmp_path: Path, case: str) -> None:
    write_inputs, plan, changes, options = CASES[case]
    inputs = write_inputs(tmp_path / "in")
    summary = run_with_settings(
        inputs,
        tmp_path / "out",
        load_plan(plan, changes),
        settings=Settings(seed=11, workers=1, **options),
    )
    assert bool(summary.quarantined) == (case in ("redact of columns", "surrogates of JSON lines"))
    (tmp_path / "else").mkdir()
    for no, path in enumerate(inputs):
        shutil.move(path, tmp_path / "else" / f"other-{no}{path.suffix}")
    result = replay(
        tmp_path / "out" / "manifest.json", tmp_path / "else", tmp_path / "again", workers=1
    )
    assert result.same and result.same_manifest and result.published and result.changed
    assert result.different_shards == result.different_counts == result.notes == []
    assert result.shards == len(list((tmp_path / "out" / "data").iterdir()))
    assert read_files(tmp_path / "again") == read_files(tmp_path / "out")


@pytest.mark.slow
def test_run_with_a_known_list_is_replayed_with_the_same_list(tmp_path: Path) -> None:
    """No manifest holds the list: it must be given again, and a different list is detected."""
    for name, value in (("ours", "Wexler Farrow"), ("other", "Wexler Farlow")):
        (tmp_path / f"{name}.csv").write_text(f"kind,value\nPERSON,{value}\n")
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"text": "Wexler Farrow wrote to wf@example.com"}) + "\n"
    )
    settings = Settings(seed=3, workers=1, known=tmp_path / "ours.csv")
    plan = load_plan("names", ["edit.0.keep=0"])
    run_with_settings(tmp_path / "in.jsonl", tmp_path / "out", plan, settings=settings)
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert "Farrow" not in manifest and json.loads(manifest)["settings"]["known"] is True
    result = replay(
        tmp_path / "out",
        tmp_path / "in.jsonl",
        tmp_path / "again",
        workers=1,
        known=tmp_path / "ours.csv",
    )
    assert result.same and result.same_manifest
    assert read_files(tmp_path / "again") == read_files(tmp_path / "out")
    with pytest.raises(UsageError, match="the same list again with known"):
        replay(tmp_path / "out", tmp_path / "in.jsonl", tmp_path / "none", workers=1)
    with pytest.raises(UsageError, match="not the list") as error:
        replay(
            tmp_path / "out",
            tmp_path / "in.jsonl",
            tmp_path / "wrong",
            workers=1,
            known=tmp_path / "other.csv",
        )
    assert "Far" not in str(error.value) and not (tmp_path / "wrong").exists()


# ---- a published run whose manifest is changed ----


@pytest.fixture(scope="module")
def original_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    run_with_settings(
        write_parquet(folder / "in"),
        folder / "out",
        "rmft",
        settings=Settings(seed=5, workers=1, rows_per_shard=20),
    )
    return folder


@pytest.fixture()
def run_folder(original_run: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with `in`, `out` and `out.private` of a run with a seed, and three shards."""
    shutil.copytree(original_run, tmp_path / "made", copy_function=os.link)
    yield tmp_path / "made"


def write_changed_manifest(run_folder: Path, change: Change) -> Path:
    """The path of a changed copy of the manifest."""
    manifest = json.loads((run_folder / "out" / "manifest.json").read_text())
    change(manifest)
    (run_folder / "m.json").write_text(json.dumps(manifest))
    return run_folder / "m.json"


def test_second_replay_changes_nothing(run_folder: Path) -> None:
    first = replay(run_folder / "out", run_folder / "in", run_folder / "again", workers=1)
    second = replay(run_folder / "out", run_folder / "in", run_folder / "again", workers=1)
    assert first.changed and not second.changed
    assert dataclasses.replace(first, changed=False) == second


def test_interrupted_replay_resumes(run_folder: Path) -> None:
    def stop(step: ProgressUpdate) -> None:
        if (step.stage, step.tasks_done) == ("rewrite", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(
            run_folder / "out", run_folder / "in", run_folder / "again", workers=1, progress=stop
        )
    assert not (run_folder / "again").exists()
    stages: list[str] = []
    result = replay(
        run_folder / "out",
        run_folder / "in",
        run_folder / "again",
        workers=1,
        progress=lambda step: stages.append(step.stage),
    )
    assert result.same and "rewrite" in stages
    assert read_files(run_folder / "again") == read_files(run_folder / "out")


# ---- different output ----


def change_shard_hash(manifest: dict[str, Any]) -> None:
    manifest["shards"][1]["sha256"] = "0" * 64


def append_shard(manifest: dict[str, Any]) -> None:
    manifest["shards"].append(manifest["shards"][0])


def change_count(manifest: dict[str, Any]) -> None:
    manifest["summary"]["by_kind"]["EMAIL_ADDRESS"]["kept"] += 1


def change_seed(manifest: dict[str, Any]) -> None:
    manifest["key"]["seed"] = 6
    manifest["tool"]["polars"] = "1.0.0"  # otherwise the plan's hash would already differ


DIFFERENT: dict[str, tuple[Change, list[int], list[str]]] = {
    "one shard": (change_shard_hash, [1], []),
    "one more shard": (append_shard, [3], []),
    "a count": (change_count, [], ["by_kind"]),
    "the seed": (change_seed, [0, 1, 2], []),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_differences_are_reported_and_not_published(run_folder: Path, case: str) -> None:
    change, different, counts = DIFFERENT[case]
    manifest = write_changed_manifest(run_folder, change)
    result = replay(manifest, run_folder / "in", run_folder / "again", workers=1)
    assert not result.same and not result.same_manifest and not result.published
    assert (result.different_shards, result.different_counts, result.shards) == (
        different,
        counts,
        3,
    )
    assert not (run_folder / "again").exists() and (run_folder / "again.private").is_dir()
    if case == "one shard":
        result = replay(manifest, run_folder / "in", run_folder / "again", workers=1, anyway=True)
        assert result.published and not result.same and result.different_shards == different
        assert {
            name: raw
            for name, raw in read_files(run_folder / "again").items()
            if name != "manifest.json"
        }.items() <= read_files(run_folder / "out").items()
        later = replay(manifest, run_folder / "in", run_folder / "again", workers=1)
        assert not later.changed and not later.same


def test_another_version_is_noted(run_folder: Path) -> None:
    manifest = write_changed_manifest(
        run_folder,
        lambda manifest: (
            manifest["tool"].update({"polars": "1.0.0", "faker": "1.0"})
            or manifest["tool"].pop("numpy")
        ),
    )
    result = replay(manifest, run_folder / "in", run_folder / "again", workers=1)
    (note,) = result.notes
    assert (
        "polars 1.0.0 there" in note
        and "faker 1.0 there" in note
        and "numpy none there" in note
        and "duckdb" not in note
    )
    assert result.same and result.published and not result.same_manifest


# ---- refused, without leaving files ----


def set_secret_key(manifest: dict[str, Any]) -> None:
    manifest["key"] = {"kind": "secret"}


def set_external_part(manifest: dict[str, Any]) -> None:
    manifest["plan"]["edit"][1]["use"] = "os.path"


REFUSED: dict[str, tuple[Change, type[Exception], str]] = {
    "a secret key": (set_secret_key, UsageError, "secret key, which no manifest holds.*key=FILE"),
    "other formats": (
        lambda manifest: manifest["tool"]["formats"].update(rewriting=0),
        UsageError,
        (
            "formats detection [0-9], rewriting 0.*here they are detection [0-9], rewriting"
            " [1-9].*corpus-sanitize"
        ),
    ),
    "no formats": (
        lambda manifest: manifest["tool"].pop("formats"),
        UsageError,
        "formats that it does not name",
    ),
    "no seed": (lambda manifest: manifest["key"].pop("seed"), OutputBroken, "key.seed is missing"),
    "an invalid seed": (
        lambda manifest: manifest["key"].update(seed="x"),
        OutputBroken,
        "key.seed",
    ),
    "no settings": (
        lambda manifest: manifest.pop("settings"),
        OutputBroken,
        "settings: is missing, a value was expected; this manifest",
    ),
    "an invalid shard size": (
        lambda manifest: manifest["settings"].update(rows_per_shard=0),
        OutputBroken,
        "settings.rows_per_shard",
    ),
    "an invalid hash": (
        lambda manifest: manifest["shards"][0].update(sha256="../x"),
        OutputBroken,
        r"shards\[0\].sha256",
    ),
    "an external part": (set_external_part, UsageError, r"edit\[1\] uses a part from outside"),
    "an invalid plan": (
        lambda manifest: manifest["plan"].update(edit=[]),
        PlanError,
        "no editor names it",
    ),
    "a plan that was changed": (
        lambda manifest: manifest["plan"]["edit"][0].update(keep=3),
        OutputBroken,
        "run_hash does not follow",
    ),
    "a seed that was changed": (
        lambda manifest: manifest["key"].update(seed=6),
        OutputBroken,
        "run_hash does not follow",
    ),
    "an input that was changed": (
        lambda manifest: manifest["inputs"][1].update(sha256="0" * 64),
        InputRefused,
        "1 of its 2 inputs .*number 1, counted",
    ),
    "an input of another size": (
        lambda manifest: manifest["inputs"][0].update(bytes=1),
        InputRefused,
        "number 0, counted",
    ),
    "another order": (
        lambda manifest: manifest["inputs"].reverse(),
        InputRefused,
        "in another order.* 1, 0, counted from 0",
    ),
    "another number": (
        lambda manifest: manifest["inputs"].pop(),
        InputRefused,
        "names 1 input files, and 2 were given",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_manifests_are_refused(run_folder: Path, case: str) -> None:
    change, error, message = REFUSED[case]
    manifest = write_changed_manifest(run_folder, change)
    before = list_paths(run_folder)
    with pytest.raises(error, match=message):
        replay(manifest, run_folder / "in", run_folder / "again", workers=1)
    assert list_paths(run_folder) == before


def test_external_parts_are_not_imported(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run_folder / "trap.py").write_text("raise SystemExit('a manifest chose what runs')\n")
    monkeypatch.syspath_prepend(run_folder)
    for section, part in (
        ("edit", {"use": "trap.", "kinds": []}),
        ("drop", {"use": "trap.x"}),
        ("edit", {"use": ".trap"}),
    ):
        with pytest.raises(UsageError, match="outside of sanitize"):
            replay(
                write_changed_manifest(
                    run_folder,
                    lambda manifest, section=section, part=part: manifest["plan"].update(
                        {section: [part]}
                    ),
                ),
                run_folder / "in",
                run_folder / "again",
            )


FOLDERS: dict[str, tuple[dict[str, str], str]] = {
    "OUT is the manifest's folder": ({"out": "out", "work": "w"}, "would compare it with itself"),
    "WORK is the run's": ({"out": "again", "work": "out.private"}, "holds another run"),
    "OUT is not empty": ({"out": "full", "work": "w"}, "exists already"),
    "OUT in the input": ({"out": "in/again", "work": "w"}, "inside each other"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_replay_requires_new_output_and_workspace(run_folder: Path, case: str) -> None:
    folders, message = FOLDERS[case]
    (run_folder / "full").mkdir()
    (run_folder / "full" / "letter.txt").write_text("mine")
    before = list_paths(run_folder)
    with pytest.raises(UsageError, match=message):
        replay(
            run_folder / "out",
            run_folder / "in",
            run_folder / folders["out"],
            work=run_folder / folders["work"],
            workers=1,
        )
    assert list_paths(run_folder) == before


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"key": 1}'])
def test_missing_or_malformed_manifest_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "m.json").write_text(text)
    with pytest.raises((OutputBroken, UsageError), match=r"m\.json: "):
        replay(tmp_path / "m.json", tmp_path, tmp_path.parent / "again")


@pytest.mark.slow
def test_any_wrong_manifest_field_is_refused_without_an_internal_error(run_folder: Path) -> None:
    """Every field of a manifest is replaced by values of other types: none causes an internal
    error."""
    manifest = json.loads((run_folder / "out" / "manifest.json").read_text())
    paths = [(name,) for name in manifest] + [
        (name, inner)
        for name in manifest
        if isinstance(manifest[name], dict)
        for inner in manifest[name]
    ]
    paths += [("plan", "find", name) for name in manifest["plan"]["find"]] + [
        ("settings", "roles", name) for name in manifest["settings"]["roles"]
    ]
    paths += [
        ("plan", "edit", 0),
        ("plan", "edit", 0, "use"),
        ("inputs", 0),
        ("shards", 0),
        ("columns", 0),
        ("columns", 0, "policy"),
    ]
    for path in paths:
        for value in (None, 7, "x", [], {}, [[]], {"use": 1}):

            def change(
                manifest: dict[str, Any], path: tuple[Any, ...] = path, value: object = value
            ) -> None:
                inner: Any = manifest
                for step in path[:-1]:
                    inner = inner[step]
                inner[path[-1]] = value

            with pytest.raises(SanitizeError):  # at the latest for a missing input
                replay(
                    write_changed_manifest(run_folder, change),
                    run_folder / "no such input",
                    run_folder / "again",
                )


# ---- the command ----


@pytest.mark.slow
def test_the_command(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run_folder)

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["sanitize", "replay", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    code, out, _ = command("out/manifest.json", "in", "-o", "again", "--workers", "1")
    assert code == 0 and out.startswith(
        "same: all 3 shards are byte for byte those of the manifest, and so is the manifest\n"
    )
    code, out, _ = command("out", "in", "-o", "again", "--json")
    assert (
        code == 0
        and out.count("\n") == 1
        and json.loads(out)["same"]
        and not json.loads(out)["changed"]
    )
    write_changed_manifest(run_folder, change_shard_hash)
    code, out, _ = command("m.json", "in", "-o", "third", "--workers", "1")
    assert code == 3 and out.startswith(
        "different: 1 of 3 shards (number 1, counted from 0)\nnothing was published"
    )
    assert not (run_folder / "third").exists()
    code, out, _ = command("m.json", "in", "-o", "third", "--workers", "1", "--anyway", "--json")
    assert (
        code == 3
        and json.loads(out)["published"]
        and (run_folder / "third" / "manifest.json").is_file()
    )
    write_changed_manifest(run_folder, set_secret_key)
    code, out, err = command("m.json", "in", "-o", "fourth")
    assert code == 2 and out == "" and err.startswith("error: m.json: was made with a secret key")
