"""A disk that is full, fails once or stays broken at any call: one clear error, OUT unchanged, and the same command succeeds afterwards."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

FULL, BROKEN, TOO_LARGE, TOO_MANY = 28, 5, 27, 24  # ENOSPC, EIO, EFBIG, EMFILE


Calls = Callable[..., list[list[str]]]


def failing(house: Any, calls: Calls, number: int, code: int, stays: bool) -> bool:
    """One run whose n-th call fails, and the checks after it; False if it has no such call."""
    if house.work.exists():
        shutil.rmtree(house.work)
    shutil.rmtree(house.out, ignore_errors=True)
    house.put_old()
    said: list[Any] = []
    with house.watched():
        done = calls(house, said, SHIM_FAIL=str(number), SHIM_ERRNO=str(code), **({"SHIM_STAYS": "1"} if stays else {}))
    failed = [one for one in done if one[4]]
    if not failed:
        assert said[0].code == 0 and house.state() == "new"
        return False
    where = f"call {number}: {failed[0][1]} {failed[0][2]}, error {code}: {said[0]}"
    if said[0].code:
        assert said[0].code == 7, where
        assert said[0].err.count("error: ") == 1 and said[0].out == "", where
        assert " MB are free there" in said[0].err and "Free some disk space" in said[0].err, where
        assert "a run over this input needs about" in said[0].err or "out.private" in failed[0][2], where
        # after the exchange OUT is the new one, whatever fails
        assert house.state() == ("new" if failed[0][1] == "fsync" and failed[0][2] == str(house.here) else "old"), where
    else:
        assert house.state() == "new", where  # nothing hung on it, such as the word that a lock is free
    if not stays:  # where nothing can be written or renamed, leftovers may stay
        house.clean()
    house.again()
    return True


def test_files_are_on_the_disk_before_they_have_a_name(house: Any, calls: Calls) -> None:
    """Each file is synced after its last write and before its rename, its folder after that and before the record that names it."""
    house.put_old()
    said: list[Any] = []
    done = calls(house, said)
    assert said[0].code == 0
    written: dict[str, int] = {}
    synced: dict[str, int] = {}
    named: dict[str, int] = {}
    for place, (_, what, path, more, _) in enumerate(done):
        if what in ("write", "truncate"):
            written[path] = place
        elif what == "fsync":
            synced[path] = place
        elif what == "rename" and not path.endswith((".private", "/out")) and not re.search("/spill/(read-|report/)", path):
            assert more in synced, f"{more} had its name {path} before it was on the disk"
            assert synced[more] > written.get(more, -1), f"{more} was written after it was on the disk"
            named[path] = place
            if "/tasks/" in path:
                # a record follows the files it names: all folders of files that were renamed are on the disk
                late = [one for one, at in named.items() if one != path and synced.get(os.path.dirname(one), -1) < at]
                assert late == [], f"{path} was recorded before the folders of {late} were on the disk"
        elif what == "exchange":
            new = {one: at for one, at in written.items() if one.startswith(more)}
            assert all(synced.get(one, -1) > at for one, at in new.items()) and synced[more] > max(new.values())
            assert synced[f"{more}/data"] > max(at for at, one in enumerate(done) if one[1] == "link")
    assert len(named) > 40
    after = [one for one in done if one[1] == "exchange"]
    assert len(after) == 1 and [one[1:3] for one in done[done.index(after[0]) :]].count(["fsync", str(house.here)]) == 1
    house.clean()


# some of the thousand calls of a run, each with another error, some of them failing from there on
SOME = [(1, FULL, True), (110, FULL, False), (290, BROKEN, False), (560, TOO_LARGE, False), (840, FULL, True)]


@pytest.mark.parametrize(("number", "code", "stays"), SOME)
def test_a_call_that_fails(house: Any, calls: Calls, number: int, code: int, stays: bool) -> None:
    assert failing(house, calls, number, code, stays)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("code", "stays"), [(FULL, False), (FULL, True), (BROKEN, False), (TOO_MANY, False)])
def test_every_call_that_fails(house: Any, calls: Calls, code: int, stays: bool) -> None:
    """The first call, the second, ... until a run has no further call that could fail. SOAK_STRIDE=n takes every n-th."""
    number = 1
    while failing(house, calls, number, code, stays):
        number += int(os.environ.get("SOAK_STRIDE", "1"))
    assert number > 100


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -f counts in other units elsewhere")
@pytest.mark.parametrize("kilobytes", [4, pytest.param(0, marks=pytest.mark.soak), pytest.param(8, marks=pytest.mark.soak)])
def test_files_that_may_not_grow(house: Any, kilobytes: int) -> None:
    """A limit on the size of files (RLIMIT_FSIZE); Python ignores the signal that accompanies it."""
    house.put_old()
    words = house.words()
    house.words = lambda *more, workers=1: ["bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "bash", *words]
    said = house.command()
    assert said.code == 7 and "EFBIG" in said.err and said.err.count("error: ") == 1, said
    assert house.state() == "old"
    house.clean()
    house.again()


def test_a_full_stdout_is_one_clear_error(house: Any) -> None:
    words = house.words("--json")
    house.words = lambda *more, workers=1: ["bash", "-c", 'exec "$@" > /dev/full', "bash", *words]
    said = house.command()
    assert said.code == 7 and "ENOSPC" in said.err and said.err.count("error: ") == 1
    assert house.state() == "new"  # it was only not told


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small tmpfs wants root on Linux")
@pytest.mark.parametrize("kilobytes", [16, 64, 128, 192, 256, 320, 512])
def test_a_small_disk(house: Any, kilobytes: int) -> None:
    house.work.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", house.work], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        house.put_old()
        said = house.command()
        if said.code:
            assert said.code == 7 and "ENOSPC" in said.err and said.err.count("error: ") == 1, said
            assert house.state() == "old"
            subprocess.run(["mount", "-o", "remount,size=64m", house.work], check=True)
        house.again()
    finally:
        subprocess.run(["umount", house.work], check=True)
