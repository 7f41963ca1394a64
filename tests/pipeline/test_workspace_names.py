"""A workspace may be named by any path, from any folder, and may be moved: its records hold no path
of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings

SETTINGS = Settings(seed=4, workers=1, rows_per_shard=3)
PLANS: dict[str, Callable[[], Plan]] = {
    "rmft": lambda: load_plan("rmft"),
    "linked": lambda: load_plan("pseudonymize"),
    "second round": lambda: load_plan("redact"),
    "seen": lambda: load_plan("rmft", ['edit.0.avoid="seen"']),
}


def write_input(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "doc_id": f"d{no}",
            "text": (
                f"From: Ann Roe <ann.roe@example.com>\nTo: bob{no}@example.net\n\nAsk Ann Roe,"
                " ann.roe@example.com.\n"
            ),
        }
        for no in range(7)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_workspace_named_absolutely_relatively_and_after_a_move(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further command rewrites a lost shard with the tables of the first command, to the same
    bytes."""
    plan, first = PLANS[name](), tmp_path / "first"
    write_input(first)
    (first / "below").mkdir()
    monkeypatch.chdir(first / "below")
    run_with_settings(first / "in.jsonl", first / "out", plan, first / "k.private", SETTINGS)
    expected = (first / "out" / "SHA256SUMS").read_bytes()

    def run_again(workspace: str, output: str) -> None:
        for shard in Path(workspace).glob("runs/*/shards/00001.parquet"):
            shard.unlink()
        run_with_settings(
            "in.jsonl" if Path("in.jsonl").exists() else "moved/in.jsonl",
            output,
            plan,
            workspace,
            SETTINGS,
        )
        assert Path(output, "SHA256SUMS").read_bytes() == expected

    monkeypatch.chdir(first)
    run_again("k.private", "out2")
    monkeypatch.chdir(tmp_path)
    first.rename("moved")
    run_again("moved/k.private", "moved/out3")
    monkeypatch.chdir("moved")
    run_again("../moved/k.private", "out4")


@pytest.mark.parametrize("name", PLANS)
def test_records_of_tasks_hold_no_path_of_the_machine(name: str, tmp_path: Path) -> None:
    write_input(tmp_path / "machine_folder")
    run_with_settings(
        tmp_path / "machine_folder" / "in.jsonl",
        tmp_path / "out",
        PLANS[name](),
        tmp_path / "k.private",
        SETTINGS,
    )
    records = list((tmp_path / "k.private").rglob("tasks/**/*.json"))
    assert len(records) > 5
    with_path = [
        path.relative_to(tmp_path).as_posix()
        for path in records
        if str(tmp_path) in path.read_text("utf-8")
    ]
    assert with_path == []
