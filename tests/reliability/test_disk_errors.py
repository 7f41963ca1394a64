"""A disk that is full, fails once or stays broken at any call: one clear error, OUT unchanged, and
the same command succeeds afterwards."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

ENOSPC, EIO, EFBIG, EMFILE = 28, 5, 27, 24
PARTS = 10  # parameters among which a soak test divides the calls of a run


TraceCalls = Callable[..., list[list[str]]]


def run_with_failing_call(
    harness: Any, trace_calls: TraceCalls, number: int, code: int, permanent: bool
) -> bool:
    """One run whose n-th call fails, and the checks after it; False if it has no such call."""
    if harness.work.exists():
        shutil.rmtree(harness.work)
    shutil.rmtree(harness.out, ignore_errors=True)
    harness.place_old_output()
    results: list[Any] = []
    with harness.watch_output():
        system_calls = trace_calls(
            harness,
            results,
            SHIM_FAIL=str(number),
            SHIM_ERRNO=str(code),
            **({"SHIM_STAYS": "1"} if permanent else {}),
        )
    failed_calls = [call for call in system_calls if call[4]]
    if not failed_calls:
        assert results[0].code == 0 and harness.output_state() == "new"
        return False
    context = (
        f"call {number}: {failed_calls[0][1]} {failed_calls[0][2]}, error {code}: {results[0]}"
    )
    if results[0].code:
        assert results[0].code == 7, context
        assert results[0].err.count("error: ") == 1 and results[0].out == "", context
        assert (
            " MB are free there" in results[0].err and "Free some disk space" in results[0].err
        ), context
        assert (
            "a run over this input needs about" in results[0].err
            or "out.private" in failed_calls[0][2]
        ), context
        # after the exchange OUT is the new one, whichever call fails
        assert harness.output_state() == (
            "new"
            if failed_calls[0][1] == "fsync" and failed_calls[0][2] == str(harness.folder)
            else "old"
        ), context
    else:
        # the call did not matter, such as one that clears a lock file
        assert harness.output_state() == "new", context
    if not permanent:  # where nothing can be written or renamed, leftovers may stay
        harness.check_files()
    harness.rerun()
    return True


@pytest.mark.slow
def test_files_are_synced_before_they_are_renamed(harness: Any, trace_calls: TraceCalls) -> None:
    """Each file is synced after its last write and before its rename, its folder after that and
    before the record that names it."""
    harness.place_old_output()
    results: list[Any] = []
    system_calls = trace_calls(harness, results)
    assert results[0].code == 0
    last_write: dict[str, int] = {}
    last_sync: dict[str, int] = {}
    renamed: dict[str, int] = {}
    for position, (_, operation, path, source, _) in enumerate(system_calls):
        if operation in ("write", "truncate"):
            last_write[path] = position
        elif operation == "fsync":
            last_sync[path] = position
        elif (
            operation == "rename"
            and not path.endswith((".private", "/out"))
            and not re.search("/spill/(read-|report/)", path)
        ):
            assert source in last_sync, f"{source} was renamed to {path} before it was synced"
            assert last_sync[source] > last_write.get(source, -1), (
                f"{source} was written after it was synced"
            )
            renamed[path] = position
            if "/tasks/" in path:
                # a record is written after the files it names: all folders of renamed files are
                # synced
                unsynced = [
                    file
                    for file, index in renamed.items()
                    if file != path and last_sync.get(os.path.dirname(file), -1) < index
                ]
                assert unsynced == [], (
                    f"{path} was recorded before the folders of {unsynced} were synced"
                )
        elif operation == "exchange":
            new_files = {
                file: index for file, index in last_write.items() if file.startswith(source)
            }
            assert all(
                last_sync.get(file, -1) > index for file, index in new_files.items()
            ) and last_sync[source] > max(new_files.values())
            assert last_sync[f"{source}/data"] > max(
                index for index, file in enumerate(system_calls) if file[1] == "link"
            )
    assert len(renamed) > 40
    exchanges = [file for file in system_calls if file[1] == "exchange"]
    assert (
        len(exchanges) == 1
        and [file[1:3] for file in system_calls[system_calls.index(exchanges[0]) :]].count(
            ["fsync", str(harness.folder)]
        )
        == 1
    )
    harness.check_files()


# some of the thousand calls of a run: number, error code, and whether all later calls fail too
FAILING_CALLS = [
    (1, ENOSPC, True),
    (7, ENOSPC, False),
    (110, ENOSPC, False),
    (290, EIO, False),
    (560, EFBIG, False),
    (840, ENOSPC, True),
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "permanent"), FAILING_CALLS)
def test_a_failing_call_is_one_error_and_the_run_resumes(
    harness: Any, trace_calls: TraceCalls, number: int, code: int, permanent: bool
) -> None:
    assert run_with_failing_call(harness, trace_calls, number, code, permanent)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("code", "permanent"), [(ENOSPC, False), (ENOSPC, True), (EIO, False), (EMFILE, False)]
)
def test_every_failing_call_is_one_error_and_the_run_resumes(
    harness: Any,
    trace_calls: TraceCalls,
    record_property: Any,
    code: int,
    permanent: bool,
    part: int,
) -> None:
    """Every call of a run fails once, until a run has no further call that could fail; each part
    takes every tenth call. SOAK_STRIDE=n takes every n-th of these."""
    numbers = range(1 + part, 1_000_000, PARTS * int(os.environ.get("SOAK_STRIDE", "1")))
    failed_count = sum(
        1
        for _ in itertools.takewhile(
            lambda n: run_with_failing_call(harness, trace_calls, n, code, permanent), numbers
        )
    )
    record_property("failing calls", failed_count)
    assert numbers[failed_count] > 100


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -f counts in other units elsewhere")
@pytest.mark.parametrize(
    "kilobytes",
    [4, pytest.param(0, marks=pytest.mark.soak), pytest.param(8, marks=pytest.mark.soak)],
)
def test_file_size_limit_is_one_error_and_the_run_resumes(harness: Any, kilobytes: int) -> None:
    """A limit on the size of files (RLIMIT_FSIZE); Python ignores the signal that accompanies
    it."""
    harness.place_old_output()
    arguments = harness.command_line()
    harness.command_line = lambda *more, workers=1: [
        "bash",
        "-c",
        f'ulimit -f {kilobytes}; exec "$@"',
        "bash",
        *arguments,
    ]
    result = harness.run_command()
    assert result.code == 7 and "EFBIG" in result.err and result.err.count("error: ") == 1, result
    assert harness.output_state() == "old"
    harness.check_files()
    harness.rerun()


@pytest.mark.slow
def test_full_stdout_is_one_error(harness: Any) -> None:
    arguments = harness.command_line("--json")
    harness.command_line = lambda *more, workers=1: [
        "bash",
        "-c",
        'exec "$@" > /dev/full',
        "bash",
        *arguments,
    ]
    result = harness.run_command()
    assert result.code == 7 and "ENOSPC" in result.err and result.err.count("error: ") == 1
    assert harness.output_state() == "new"  # the run succeeded; only its report was lost


@pytest.mark.soak
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="mounting a small tmpfs wants root on Linux",
)
@pytest.mark.parametrize("kilobytes", [16, 64, 128, 192, 256, 320, 512])
def test_small_disk_is_one_error_and_the_run_resumes(harness: Any, kilobytes: int) -> None:
    harness.work.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", harness.work],
        capture_output=True,
    ).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        harness.place_old_output()
        result = harness.run_command()
        if result.code:
            assert (
                result.code == 7 and "ENOSPC" in result.err and result.err.count("error: ") == 1
            ), result
            assert harness.output_state() == "old"
            subprocess.run(["mount", "-o", "remount,size=64m", harness.work], check=True)
        harness.rerun()
    finally:
        subprocess.run(["umount", harness.work], check=True)
