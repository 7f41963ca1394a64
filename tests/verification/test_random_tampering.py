"""Random changes of a published folder and of its workspace: `verify` notices each with the right
exit code, or it is of a class that `docs/guarantees.md` lists."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.keys import Key
from sanitize.errors import SanitizeError
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.storage import tombstones
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import CHECKSUMS_NAME
from sanitize.storage.tombstones import Tombstones
from sanitize.verification.published.output_check import verify

ADDRESSES = (
    "ann.lee@example.com",
    "roe@example.org",
    "ann.lee@example.com",
    "sue@example.net",
    "tim@example.net",
)
SEED = 9

# files of the workspace that the check relies on. The others are tables that the next run compares
# with the hashes in their records and computes again, staged files, or for people;
# docs/guarantees.md says so
RELIED_ON = re.compile(
    r"""vault/(values|tombstones)/.* | tables/occurrences/.*
    | runs/[0-9a-f]{16}/((kept|edits|rows)/.* | vault/published_key)""",
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`out` and `out.private` after a stored erasure, and another corpus."""
    folder: Path = tmp_path_factory.mktemp("tampering")
    for name, addresses in (("one", ADDRESSES), ("other", ("una@example.net", "vic@example.net"))):
        (folder / name).mkdir()
        texts = [f"Write to {address}, and to {address} again." for address in addresses]
        pq.write_table(
            pa.table({"doc_id": [f"d{no}" for no in range(len(texts))], "text": texts}),
            folder / name / "in.parquet",
        )
        arguments = ([folder / name / "in.parquet"], folder / name / "out", "rmft", None)
        run_with_settings(*arguments, Settings(seed=SEED, workers=1, rows_per_shard=2))
    key = Key.from_seed(SEED)
    values = pq.read_table(folder / "one/out.private/vault/values/00000.parquet", partitioning=None)
    erased = tuple(sorted({int(number) for number in np.asarray(values.column("value_id"))[:1]}))
    tombstones.write(
        folder / "one/out.private", key, Tombstones(erased, ("zoe quill",), (), 1), "2026-01-02"
    )
    run_with_settings(
        [folder / "one/in.parquet"],
        folder / "one/out",
        "rmft",
        None,
        Settings(seed=SEED, workers=1, rows_per_shard=2, replace=True),
    )
    assert verify(folder / "one/out", workers=1).leaks == 0
    return folder


def list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def flip_bit(path: Path, draws: random.Random) -> None:
    data = bytearray(path.read_bytes())
    place = draws.randrange(max(1, len(data)))
    if data:
        data[place] ^= 1 << draws.randrange(8)
    path.write_bytes(bytes(data) or b"x")


def cut(path: Path, draws: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: draws.randrange(max(1, len(data)))] if data else b"x")


def extend(path: Path, draws: random.Random) -> None:
    path.write_bytes(path.read_bytes() + draws.randbytes(draws.randint(1, 40)))


def delete(path: Path, _draws: random.Random) -> None:
    path.unlink()


def replace_by_link(path: Path, _draws: random.Random) -> None:
    content = path.read_bytes()
    path.unlink()
    target = next(parent for parent in path.parents if (parent / "out.private").is_dir()) / "moved"
    target.write_bytes(content + b" ")
    path.symlink_to(target)


def exchange(path: Path, draws: random.Random) -> None:
    """Exchange the contents of two files of one folder, or of one file and itself with another
    order of bytes."""
    others = [
        other
        for other in list_files(path.parent)
        if other != path and other.read_bytes() != path.read_bytes()
    ]
    if not others:
        path.write_bytes(path.read_bytes()[::-1] + b"x")
        return
    other = draws.choice(others)
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def change_number(path: Path, draws: random.Random) -> None:
    """Another count in a JSON file; other files get another bit. A file of OUT gets its plain hash
    corrected."""
    if path.suffix != ".json":
        flip_bit(path, draws)
    else:
        text = path.read_text("utf-8")
        numbers = list(re.finditer(r"(?<![\w.\"-])\d+(?![\w.\"])", text))
        if numbers:
            number = draws.choice(numbers)
            text = text[: number.start()] + str(int(number.group()) + 1) + text[number.end() :]
        path.write_text(text if numbers else text + " ", "utf-8")
    checksums = path.parent / CHECKSUMS_NAME
    if checksums.is_file() and path != checksums:
        lines = [
            f"{file_sha256(path)}  {path.name}" if line.endswith(f"  {path.name}") else line
            for line in checksums.read_text().splitlines()
        ]
        checksums.write_text("\n".join([*lines, ""]))


CHANGES: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_bit,
    cut,
    extend,
    delete,
    replace_by_link,
    exchange,
    change_number,
)


def is_relied_on(name: str) -> bool:
    """True for a published file, and for a file of the workspace on which the check relies."""
    folder, _, rest = name.partition("/")
    return folder == "out" or bool(RELIED_ON.fullmatch(rest))


def tamper(published: Path, folder: Path, seed: int) -> tuple[str, str, int | None]:
    """Make one random change of a copy; returns the file, the change, and the exit code of `verify`
    (None: not noticed)."""
    draws = random.Random(seed)
    shutil.copytree(published / "one", folder, symlinks=True)
    files = [
        path.relative_to(folder).as_posix() for path in list_files(folder) if path.parent != folder
    ]
    relied_on = [name for name in files if is_relied_on(name)]
    others = [name for name in files if not is_relied_on(name)]
    name, change = (
        draws.choice(relied_on if draws.random() < 0.85 else others),
        draws.choice(CHANGES),
    )
    path = folder / name
    change(path, draws)
    try:
        verify(folder / "out", workers=1)
    except SanitizeError as error:
        assert not any(address in str(error) for address in ADDRESSES)
        return name, change.__name__, error.exit_code
    return name, change.__name__, None


def check_tamperings(published: Path, folder: Path, seeds: range) -> None:
    unnoticed, wrong_codes = [], []
    for seed in seeds:
        name, change, code = tamper(published, folder / str(seed), seed)
        shutil.rmtree(folder / str(seed))
        if code is None and is_relied_on(name):
            unnoticed.append((seed, name, change))
        elif code not in (None, 2, 3, 4):
            wrong_codes.append((seed, name, change, code))
    assert unnoticed == [] and wrong_codes == []


@pytest.mark.slow
def test_random_tamperings_are_noticed(published: Path, tmp_path: Path) -> None:
    check_tamperings(published, tmp_path, range(24))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_two_hundred_random_tamperings_are_noticed(
    published: Path, tmp_path: Path, part: int
) -> None:
    check_tamperings(published, tmp_path, range(50 * part, 50 * part + 50))
