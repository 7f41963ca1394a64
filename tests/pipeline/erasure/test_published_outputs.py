"""Where an erasure looks for what was published: folders that were moved, copied, renamed, replaced
or deleted. All people are invented."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

import sanitize.pipeline.run as pipeline_run
from sanitize.errors import (
    LeakFound,
    Locked,
    OutputBroken,
    ResourceError,
    SanitizeError,
    UsageError,
)
from sanitize.pipeline.erasure import subject_request
from sanitize.pipeline.erasure.subject_request import SubjectResult, subject
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.reporting.report_data import report
from sanitize.storage import locks, publication
from sanitize.storage.files import read_json, tree_sha256
from sanitize.verification.published.output_check import verify

ANN = "ann.roe@example.com"
SETTINGS = Settings(workers=1, rows_per_shard=3)


def write_input(folder: Path, suffix: str = "") -> Path:
    """A folder with a Parquet file, which is read in place, and JSON lines, which are decoded into
    WORK."""
    folder.mkdir(parents=True)
    rows = [
        {
            "doc_id": f"d{no}",
            "text": f"From: Ann Roe <{ANN}>\nTo: bob{no}@example.net\n\nWrite to {ANN}{suffix}.\n",
        }
        for no in range(6)
    ]
    pl.DataFrame(rows[:3]).write_parquet(folder / "in.parquet")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[3:]))
    return folder


def publish(
    folder: Path,
    out: str | Path = "clean",
    plan: str | Plan = "baseline",
    settings: Settings = SETTINGS,
) -> None:
    run_with_settings(
        [folder / "in.parquet", folder / "in.jsonl"],
        folder / out,
        plan,
        folder / "clean.private",
        settings,
    )


@pytest.fixture()
def first(tmp_path: Path) -> Path:
    folder = write_input(tmp_path / "first")
    publish(folder)
    return folder


def holds_ann(output: Path) -> bool:
    return any(
        ANN in text
        for path in sorted((output / "data").glob("*.parquet"))
        for text in pl.read_parquet(path)["text"]
    )


@dataclass(frozen=True)
class Variant:
    """What happens to the folder `first` after it was published, with paths relative to its
    parent."""

    change: Callable[[Path], object]
    workspace: str  # the workspace in which the erasure runs
    erased: tuple[str, ...] = ()  # outputs without the person afterwards
    untouched: tuple[str, ...] = ()  # outputs as they were
    unreached: tuple[str, ...] = ()  # reasons that the receipt lists
    is_refused: bool = False


def rename(old: str, new: str) -> Callable[[Path], object]:
    return lambda root: (root / old).rename(root / new)


def copy(old: str, new: str) -> Callable[[Path], object]:
    return lambda root: shutil.copytree(root / old, root / new)


def chain(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: [change(root) for change in changes]


def make_folder(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).mkdir(parents=True)


def edit_manifest(name: str) -> Callable[[Path], object]:
    def edit(root: Path) -> None:
        manifest = read_json(root / name / "manifest.json") or {}
        (root / name / "manifest.json").write_text(json.dumps({**manifest, "note": "edited"}))

    return edit


VARIANTS = {
    "nothing moved": Variant(lambda root: None, "first/clean.private", ("first/clean",)),
    "folder renamed": Variant(rename("first", "second"), "second/clean.private", ("second/clean",)),
    "folder moved deeper": Variant(
        chain(make_folder("a/b"), rename("first", "a/b/first")),
        "a/b/first/clean.private",
        ("a/b/first/clean",),
    ),
    "folder copied, erased in the copy": Variant(
        copy("first", "second"),
        "second/clean.private",
        ("second/clean",),
        ("first/clean",),
        ("copy",),
    ),
    "folder copied, erased in the original": Variant(
        copy("first", "second"), "first/clean.private", ("first/clean",), ("second/clean",)
    ),
    "output renamed": Variant(
        rename("first/clean", "first/release"), "first/clean.private", ("first/release",)
    ),
    "output renamed and folder moved": Variant(
        chain(rename("first/clean", "first/release"), rename("first", "second")),
        "second/clean.private",
        ("second/release",),
    ),
    "workspace renamed": Variant(
        rename("first/clean.private", "first/w"), "first/w", ("first/clean",)
    ),
    "workspace moved alone": Variant(
        chain(make_folder("x/y"), rename("first/clean.private", "x/y/w")), "x/y/w", ("first/clean",)
    ),
    "output moved away": Variant(
        chain(make_folder("far/off"), rename("first/clean", "far/off/clean")),
        "first/clean.private",
        (),
        ("far/off/clean",),
        ("missing",),
        is_refused=True,
    ),
    "output deleted": Variant(
        lambda root: shutil.rmtree(root / "first/clean"),
        "first/clean.private",
        unreached=("missing",),
        is_refused=True,
    ),
    "workspace copied alone": Variant(
        chain(make_folder("second"), copy("first/clean.private", "second/clean.private")),
        "second/clean.private",
        (),
        ("first/clean",),
        ("other workspace",),
        is_refused=True,
    ),
    "a backup beside the output": Variant(
        copy("first/clean", "first/backup"),
        "first/clean.private",
        ("first/clean",),
        ("first/backup",),
        ("copy",),
    ),
    "another output in its place": Variant(
        chain(
            rename("first/clean", "old"),
            lambda root: publish(write_input(root / "other")),
            rename("other/clean", "first/clean"),
        ),
        "first/clean.private",
        (),
        ("old", "first/clean"),
        ("other content",),
        is_refused=True,
    ),
    "manifest edited": Variant(
        edit_manifest("first/clean"),
        "first/clean.private",
        (),
        ("first/clean",),
        ("other content",),
        is_refused=True,
    ),
    "a file that is no output in its place": Variant(
        chain(
            lambda root: shutil.rmtree(root / "first/clean"),
            lambda root: (root / "first/clean").write_text("x"),
        ),
        "first/clean.private",
        unreached=("other content",),
        is_refused=True,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_an_erasure_reaches(name: str, first: Path, tmp_path: Path) -> None:
    variant = VARIANTS[name]
    variant.change(tmp_path)
    untouched = {output: tree_sha256(tmp_path / output) for output in variant.untouched}
    reasons: list[str] = []
    try:
        found = subject(tmp_path / variant.workspace, [ANN], erase=True, workers=1)
        assert not variant.is_refused
        reasons = [output.reason for output in found.unreached_outputs]
    except OutputBroken as error:
        assert variant.is_refused and error.exit_code == 3 and ANN not in str(error)
        assert "were not found and may still hold the person" in str(error)
    assert {output: tree_sha256(tmp_path / output) for output in variant.untouched} == untouched
    assert not any(holds_ann(tmp_path / output) for output in variant.erased)
    for output in variant.erased:
        assert verify(tmp_path / output, work=tmp_path / variant.workspace).leaks == 0
    (receipt,) = [
        read_json(path) or {} for path in (tmp_path / variant.workspace / "receipts").iterdir()
    ]
    assert len(receipt["not_reached"]) == len(variant.unreached)
    reached = {
        (tmp_path / variant.workspace / output["out"]).resolve()
        for output in receipt["outputs"]
        if output["erased"]
    }
    assert reached == {tmp_path / output for output in variant.erased}
    if not variant.is_refused:
        assert reasons == list(variant.unreached)
    assert str(tmp_path) not in json.dumps(receipt)


@pytest.mark.parametrize("name", ["output moved away", "manifest edited"])
def test_an_output_that_was_not_reached_is_not_clean(
    name: str, first: Path, tmp_path: Path
) -> None:
    variant = VARIANTS[name]
    variant.change(tmp_path)
    with pytest.raises(OutputBroken):
        subject(tmp_path / variant.workspace, [ANN], erase=True, workers=1)
    with pytest.raises(SanitizeError) as raised:
        verify(tmp_path / variant.untouched[0], work=tmp_path / variant.workspace)
    assert isinstance(raised.value, LeakFound | OutputBroken)


def test_an_output_is_erased_once_it_is_back(first: Path, tmp_path: Path) -> None:
    (first / "clean").rename(tmp_path / "far")
    with pytest.raises(OutputBroken, match="1 folders that were published"):
        subject(first / "clean.private", [ANN], erase=True, workers=1)
    (tmp_path / "far").rename(first / "clean")
    assert subject(first / "clean.private", [ANN], erase=True, workers=1).erased.outputs[0].erased
    assert not holds_ann(first / "clean")


@pytest.mark.slow
def test_a_deleted_output_can_be_declared(first: Path) -> None:
    publish(first, "second", "redact")
    shutil.rmtree(first / "clean")
    with pytest.raises(OutputBroken, match="repeat the request with deleted="):
        subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert not holds_ann(first / "second")  # what was found was rewritten nevertheless
    with pytest.raises(UsageError, match="was given as deleted, and is not an output"):
        subject(first / "clean.private", [ANN], erase=True, deleted=first / "second", workers=1)
    found = subject(
        first / "clean.private", [ANN], erase=True, deleted=[first / "clean"], workers=1
    )
    assert found.unreached_outputs == [] and len(found.erased.outputs) == 1
    assert subject(first / "clean.private", [ANN], erase=True, workers=1).unreached_outputs == []


@pytest.mark.slow
def test_replaced_outputs_are_not_missing(first: Path) -> None:
    """Another plan was published over the first output, then the folder was renamed: only the
    second one exists."""
    publish(first, "clean", "redact", Settings(workers=1, rows_per_shard=3, replace=True))
    (first / "clean").rename(first / "release")
    for _ in range(2):
        found: SubjectResult = subject(first / "clean.private", [ANN], erase=True, workers=1)
        assert found.unreached_outputs == [] and [
            Path(output.out).name for output in found.erased.outputs
        ] == ["release"]


@pytest.mark.slow
@pytest.mark.parametrize("linked", ["first/clean", "first"])
def test_an_output_behind_a_link_has_one_record(linked: str, first: Path, tmp_path: Path) -> None:
    """Erasing twice, and publishing through the link and without it, is the same output; a record
    that names the link is mended."""
    publish(first)
    (tmp_path / "disk2").mkdir()
    (tmp_path / linked).rename(tmp_path / "disk2" / "moved")
    (tmp_path / linked).symlink_to(tmp_path / "disk2" / "moved")
    for number in range(2):
        erased = subject(first / "clean.private", [ANN], erase=True, workers=1)
        assert erased.unreached_outputs == [] and len(erased.erased.outputs) == 1
        for out in ("clean", (first / "clean").resolve()):
            publish(
                first,
                out,
                settings=Settings(
                    workers=1, rows_per_shard=3, replace=True, license=f"L{number}{out}"[:9]
                ),
            )
        assert len(list((first / "clean.private" / "published").iterdir())) == 1
    assert not holds_ann(first / "clean") and (tmp_path / linked).is_symlink()


def test_two_records_of_one_output_are_mended(first: Path) -> None:
    """An earlier version recorded an output under the path of a link, then again under that of the
    folder."""
    (first / "clean").rename(first / "real")
    (first / "clean").symlink_to(first / "real")
    (earlier,) = (first / "clean.private" / "published").iterdir()
    record = read_json(earlier) or {}
    subject(first / "clean.private", [ANN], erase=True, workers=1)
    (later,) = (first / "clean.private" / "published").iterdir()
    later_record = read_json(later) or {}
    later_record |= {
        "manifest_sha256": later_record["manifest_sha256"][:1],
        "replaced_sha256": record["manifest_sha256"],
    }
    later.write_text(json.dumps(later_record))
    earlier.write_text(json.dumps(record))
    os.utime(earlier, (0, 0))
    assert later != earlier
    found = subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert found.unreached_outputs == [] and len(found.erased.outputs) == 1


@pytest.mark.slow
def test_an_error_of_one_output_does_not_stop_the_others(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the same finders
    publish(
        first,
        "second",
        load_plan("redact", ['find.kinds=["default"]', 'find.finders=["patterns"]']),
    )
    publish_corpus = publication.publish_corpus

    def fail_first(output: Path, **arguments: object) -> None:
        if output.name == "clean":
            raise OSError(errno.ENOSPC, "full")
        publish_corpus(output, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline_run, "publish_corpus", fail_first)
    with pytest.raises(
        ResourceError, match="1 of 2 published folders could not be rewritten"
    ) as raised:
        subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert (
        raised.value.exit_code == 7
        and holds_ann(first / "clean")
        and not holds_ann(first / "second")
    )
    (receipt,) = [
        read_json(path) or {} for path in (first / "clean.private" / "receipts").iterdir()
    ]
    assert [(Path(output["out"]).name, output["erased"]) for output in receipt["outputs"]] == [
        ("clean", False),
        ("second", True),
    ]
    with pytest.raises(LeakFound, match="Repeat the request: sanitize subject .* --erase"):
        verify(first / "clean", work=first / "clean.private")
    monkeypatch.undo()
    assert all(
        output.erased
        for output in subject(first / "clean.private", [ANN], erase=True, workers=1).erased.outputs
    )
    assert verify(first / "clean", work=first / "clean.private").leaks == 0


@pytest.mark.parametrize("locked", ["clean", "clean.private"])
def test_an_erasure_that_a_lock_refuses_leaves_no_tombstone(locked: str, first: Path) -> None:
    with (
        locks.lock_output(first / locked)
        if locked == "clean"
        else locks.lock_workspace(first / locked),
        pytest.raises(Locked),
    ):
        subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert not (first / "clean.private" / "vault" / "tombstones").exists() and holds_ann(
        first / "clean"
    )
    assert verify(first / "clean", work=first / "clean.private").leaks == 0


def test_no_run_comes_between_tombstone_and_outputs(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    erase_subject = subject_request._erase_subject

    def append_meanwhile(*arguments: object, **more: object) -> object:
        with pytest.raises(Locked) as raised:
            publish(first, settings=Settings(workers=1, rows_per_shard=3, append=True))
        refused.append(raised.value.exit_code)
        return erase_subject(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(subject_request, "_erase_subject", append_meanwhile)
    subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert refused == [6] and not holds_ann(first / "clean")
    assert (first / "clean" / "manifest.json").stat().st_mode & 0o777 == (
        first / "in.jsonl"
    ).stat().st_mode & 0o777


def test_an_output_of_an_earlier_index_is_named_so(first: Path) -> None:
    """Plans with other finders rebuild the index: `verify` and `report` give the reason, and a way
    out that works."""
    publish(first, "second", "redact")
    for check in (verify, report):
        with pytest.raises(UsageError, match=r"used an earlier index.*replace"):
            check(first / "clean", work=first / "clean.private")
    publish(first, settings=replace(SETTINGS, replace=True))
    assert verify(first / "clean", work=first / "clean.private").leaks == 0


def test_an_output_with_the_same_bytes_of_another_workspace_is_left(tmp_path: Path) -> None:
    """Two workspaces with one seed publish the same bytes side by side; the output of the first is
    deleted."""
    folder, settings = (
        write_input(tmp_path / "first"),
        Settings(seed=3, workers=1, rows_per_shard=3),
    )
    for out in ("one", "two"):
        run_with_settings(
            folder / "in.parquet", folder / out, "baseline", folder / f"{out}.private", settings
        )
    assert tree_sha256(folder / "one") == tree_sha256(folder / "two")
    shutil.rmtree(folder / "one")
    before = tree_sha256(folder / "two")
    with pytest.raises(OutputBroken):
        subject(folder / "one.private", [ANN], erase=True, workers=1)
    assert tree_sha256(folder / "two") == before


def test_an_interrupted_swap_leaves_a_known_output(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record names the next output already, and the folder still is the present one: the next
    erasure finds it."""

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publication, "swap_folders", stop)
        with pytest.raises(KeyboardInterrupt):
            subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert holds_ann(first / "clean")
    assert subject(first / "clean.private", [ANN], erase=True, workers=1).erased.outputs[0].erased
    assert not holds_ann(first / "clean")


def test_an_erasure_does_not_publish_a_changed_input(first: Path) -> None:
    before = tree_sha256(first / "clean")
    (first / "in.jsonl").write_text((first / "in.jsonl").read_text().replace("Write", "CHANGED"))
    with pytest.raises(UsageError, match="its input changed since it was indexed"):
        subject(first / "clean.private", [ANN], erase=True, workers=1)
    assert tree_sha256(first / "clean") == before


def test_an_erasure_with_a_key_that_was_moved(first: Path, tmp_path: Path) -> None:
    shutil.rmtree(first / "clean.private")
    shutil.rmtree(first / "clean")
    (tmp_path / "key").write_text("5" * 64 + "\n")
    (tmp_path / "key").chmod(0o600)
    publish(first, settings=Settings(workers=1, rows_per_shard=3, key=tmp_path / "key"))
    (tmp_path / "key").rename(tmp_path / "key2")
    subject(first / "clean.private", [ANN], erase=True, key=tmp_path / "key2", workers=1)
    assert not holds_ann(first / "clean")


def test_exit_code_and_names_on_the_command_line(
    first: Path, tmp_path: Path, console: Callable[..., tuple[int, str, str]]
) -> None:
    (tmp_path / "who.txt").write_text(f"{ANN}\n")
    (first / "clean").rename(tmp_path / "far")
    request = (
        "subject",
        first / "clean.private",
        "--match",
        tmp_path / "who.txt",
        "--workers",
        "1",
    )
    code, out, _ = console(*request)
    assert code == 0 and f"unreached  {first / 'clean'}" in out
    code, _, err = console(*request, "--erase")
    assert code == 3 and str(first / "clean") in err and "--deleted FOLDER" in err
    code, _, err = console(*request, "--deleted", first / "clean")
    assert code == 2 and "--deleted" in err
    code, out, _ = console(*request, "--erase", "--deleted", first / "clean")
    assert code == 0


def test_a_damaged_record_is_written_again_by_a_run(first: Path) -> None:
    (record,) = (first / "clean.private" / "published").iterdir()
    content = record.read_bytes()
    record.write_bytes(b"{")
    shutil.rmtree(first / "clean")
    publish(first)
    assert (first / "clean" / "manifest.json").is_file() and record.read_bytes() == content
