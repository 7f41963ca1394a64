"""`verify` compares the whole published folder with what was published, and the private folder with
what the run wrote."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.keys import Key
from sanitize.errors import LeakFound, OutputBroken, SanitizeError, UsageError
from sanitize.inspection.output_diff import diff
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings
from sanitize.reporting.report_data import report
from sanitize.storage import tombstones
from sanitize.storage.corpus import Corpus
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import CHECKSUMS_NAME, find_changed_files, read_mac_key
from sanitize.storage.tombstones import Tombstones
from sanitize.verification.published.output_check import VerifyResult, verify

ANN, ROE = "ann.lee@example.com", "roe@example.org"
SHARD = "data/train-00000-of-00002.parquet"
MAC_DIFFERS = r"SHA256SUMS is not the file that was published \(its MAC differs\)"


def publish(folder: Path, *addresses: str) -> None:
    folder.mkdir()
    texts = [f"Write to {address}, and to {address} again." for address in addresses]
    pq.write_table(
        pa.table({"doc_id": [f"d{no}" for no in range(len(texts))], "text": texts}),
        folder / "in.parquet",
    )
    run_with_settings(
        [folder / "in.parquet"], folder / "out", "rmft", None, Settings(workers=1, rows_per_shard=2)
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("integrity")
    publish(folder / "one", ANN, ROE, ANN)
    publish(folder / "other", "sue@example.net", "tim@example.net", "una@example.net")
    return folder


@pytest.fixture
def corpus(published: Path, tmp_path: Path) -> Path:
    """A folder with `out`, `out.private`, and another corpus in `other`."""
    shutil.copytree(published / "one", tmp_path / "one")
    shutil.copytree(published / "other", tmp_path / "one" / "other")
    return tmp_path / "one"


def append_to(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


def write(name: str, content: str | bytes) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    )


def edit_manifest(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / "out" / "manifest.json").read_text())
        for path, value in changes.items():
            *outer, key = path.split("__")
            section = manifest
            for step in outer:
                section = section[step]
            section[key] = value
        (folder / "out" / "manifest.json").write_text(json.dumps(manifest))

    return change


def rewrite_checksums(folder: Path) -> None:
    """What somebody without the key can do: correct every plain hash."""
    lines = (folder / "out" / CHECKSUMS_NAME).read_text().splitlines()
    names = [line.split("  ")[1] for line in lines if not line.startswith("#")]
    correct_lines = [f"{file_sha256(folder / 'out' / name)}  {name}" for name in names]
    (folder / "out" / CHECKSUMS_NAME).write_text("\n".join([*correct_lines, lines[-1], ""]))


def edit_card_and_checksums(folder: Path) -> None:
    append_to("out/README.md", "Anonymous.\n")(folder)
    rewrite_checksums(folder)


def edit_shard_and_hashes(folder: Path) -> None:
    """Another text in a shard that holds no value, with matching hashes in manifest.json and
    SHA256SUMS."""
    shard = folder / "out" / "data" / "train-00001-of-00002.parquet"
    table = pq.read_table(shard)
    column = table.schema.get_field_index("text")
    pq.write_table(
        table.set_column(
            column, "text", pa.array([text + " More." for text in table["text"].to_pylist()])
        ),
        shard,
    )
    entry = {
        **json.loads((folder / "out" / "manifest.json").read_text())["shards"][1],
        "sha256": file_sha256(shard),
    }
    shards = [json.loads((folder / "out" / "manifest.json").read_text())["shards"][0], entry]
    edit_manifest(shards=shards)(folder)
    rewrite_checksums(folder)


def remove_shards_from_manifest(folder: Path) -> None:
    edit_manifest(shards=[])(folder)
    for shard in (folder / "out" / "data").iterdir():
        shard.unlink()


def link(name: str, target: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(folder / target)

    return change


def replace_by_link(folder: Path) -> None:
    """The card is moved out, and a link to it has the same content."""
    (folder / "out" / "README.md").rename(folder / "elsewhere.md")
    (folder / "out" / "README.md").symlink_to(folder / "elsewhere.md")


def zip_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", content)
    return buffer.getvalue()


def tar_of(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("notes.txt")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def write_foreign_parquet(folder: Path) -> None:
    table = pa.table({"text": [f"Write to {ANN}"] * 99})
    pq.write_table(
        table,
        folder / "out" / "extra.parquet",
        compression="gzip",
        write_statistics=False,
        use_dictionary=False,
    )


def npy_of(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz_of(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, array)
    return buffer.getvalue()


def png_of(kind: bytes, content: bytes) -> bytes:
    """A picture of one pixel with a chunk of text."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (kind, content),
        (b"IDAT", zlib.compress(b"\0\0")),
        (b"IEND", b""),
    ]
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def sqlite_of(content: str) -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table notes (text)")
        connection.execute("insert into notes values (?)", (content,))
    return connection.serialize()


def deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


LETTER = "".join(
    f"Line {no} of a letter to {ANN}, which has {no * no % 97} words.\n" for no in range(40)
)
PLAIN_LETTER = LETTER.replace(ANN, "somebody else")
PACKED_LETTERS: dict[str, bytes] = {
    "notes.br": pa.compress(PLAIN_LETTER.encode(), "brotli", asbytes=True),
    "notes.bin (brotli)": pa.compress(PLAIN_LETTER.encode(), "brotli", asbytes=True),
    "notes.lzma": lzma.compress(PLAIN_LETTER.encode(), lzma.FORMAT_ALONE),
    "notes.bin (LZMA)": lzma.compress(PLAIN_LETTER.encode(), lzma.FORMAT_ALONE),
    "notes.bin (LZMA with other settings)": lzma.compress(
        PLAIN_LETTER.encode(),
        lzma.FORMAT_ALONE,
        filters=[{"id": lzma.FILTER_LZMA1, "lc": 1, "lp": 2, "pb": 0}],
    ),
    "notes.deflate": deflate(PLAIN_LETTER.encode()),
    "notes.bin (deflate)": deflate(PLAIN_LETTER.encode()),
    "notes.bin (deflate, short)": deflate(b"See the other letter."),
    "notes.bin (text and deflate)": PLAIN_LETTER.encode() * 9
    + deflate(PLAIN_LETTER.encode()) * 12
    + PLAIN_LETTER.encode() * 9,
    "notes.bin (LZ4 without a frame)": pa.compress(
        PLAIN_LETTER.encode() * 3, "lz4_raw", asbytes=True
    ),
    "notes.bin (Snappy)": pa.compress(PLAIN_LETTER.encode() * 3, "snappy", asbytes=True),
    "notes.lz4": pa.compress(PLAIN_LETTER.encode(), "lz4", asbytes=True),
    "notes.xz": lzma.compress(PLAIN_LETTER.encode()),
    "notes.zst of zip": pa.compress(zip_of(PLAIN_LETTER.encode()), "zstd", asbytes=True),
    "notes.7z": b"7z\xbc\xaf\x27\x1c\x00\x04" + deflate(PLAIN_LETTER.encode()),
    "notes.rar": b"Rar!\x1a\x07\x01\x00" + deflate(PLAIN_LETTER.encode()),
    "notes.Z": b"\x1f\x9d\x90" + deflate(PLAIN_LETTER.encode()),
    "notes.docx": zip_of(PLAIN_LETTER.encode()),
    "notes.pdf": b"%PDF-1.7\n1 0 obj\n<</Filter/ASCIIHexDecode>>stream\n"
    + PLAIN_LETTER.encode().hex().encode()
    + b"\nendstream\nendobj\n",
    "notes.sqlite": sqlite_of(PLAIN_LETTER),
    "numbers.npy": npy_of(np.arange(100) * 1.1),
    "small numbers.npy": npy_of(np.arange(100)),
    "notes.npz": npz_of(np.array([PLAIN_LETTER])),
    "a.png (zTXt)": png_of(b"zTXt", b"Comment\0\0" + zlib.compress(PLAIN_LETTER.encode())),
    "a.png (iTXt)": png_of(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(PLAIN_LETTER.encode())),
    "a.png (pixels)": png_of(b"tEXt", b"Comment\0Nothing."),
    "a.jpg": b"\xff\xd8\xff\xe0\0\x10JFIF" + deflate(PLAIN_LETTER.encode()),
    "notes.txt (KOI8-R)": ("Привет, мир. " * 9).encode("koi8-r"),
    "notes.txt (UTF-16 of Chinese)": ("\u6f22\u5b57" * 99).encode("utf-16"),
}


def empty_tables(pattern: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        paths = list(folder.glob(pattern))
        assert paths
        for path in paths:
            pq.write_table(pq.read_table(path).slice(0, 0), path)

    return change


def take_from_other(name: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        shutil.rmtree(folder / "out.private" / name)
        shutil.copytree(folder / "other" / "out.private" / name, folder / "out.private" / name)

    return change


def take_vault_and_records_from_other(folder: Path) -> None:
    take_from_other("vault")(folder)
    take_from_other("tasks")(folder)


def take_workspace_from_other(folder: Path) -> None:
    shutil.rmtree(folder / "out.private")
    (folder / "other" / "out.private").rename(folder / "out.private")


def request_erasure(folder: Path) -> None:
    tombstones.write(
        folder / "out.private", Key.generate(), Tombstones((1,), ("ann lee",), (), 1), "2026-01-01"
    )


# what was changed -> exit code (0: passes), part of the sentence
CASES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "nothing": (lambda folder: None, 0, ""),
    "the folder was moved": (lambda folder: (folder / "out").rename(folder / "moved"), 0, ""),
    # published files
    "the card": (
        append_to("out/README.md", "Anonymous.\n"),
        3,
        r"out: README.md is not the file that was published \(sha256 differs\)",
    ),
    "the report": (
        append_to("out/report.html", "<p>"),
        3,
        "report.html is not the file that was published",
    ),
    "no report": (remove("out/report.html"), 3, "report.html is missing"),
    "a byte of a shard": (
        lambda folder: flip_byte(folder / "out" / SHARD),
        3,
        "train-00000-of-00002.parquet",
    ),
    "no shard": (remove(f"out/{SHARD}"), 3, "train-00000-of-00002.parquet is missing"),
    "one more shard": (
        write("out/data/more.parquet", "x"),
        3,
        "holds 1 file that is not in the manifest",
    ),
    "the manifest": (
        edit_manifest(publishable=False),
        3,
        "manifest.json is not the file that was published",
    ),
    "the manifest's plan hash": (
        edit_manifest(run_hash="0" * 16),
        3,
        "manifest.json is not the file that was published",
    ),
    "the manifest says that nothing was checked": (
        edit_manifest(settings__verify="off"),
        3,
        "manifest.json is not the file",
    ),
    "the manifest has no settings": (
        edit_manifest(settings=None),
        3,
        "manifest.json is not the file",
    ),
    "the manifest names no kind": (
        edit_manifest(summary__verify__kinds=[]),
        3,
        "manifest.json is not the file",
    ),
    "the manifest has no shards": (
        remove_shards_from_manifest,
        3,
        "manifest.json is not the file that was published",
    ),
    "the card and its plain hash": (edit_card_and_checksums, 3, MAC_DIFFERS),
    "a shard and all its hashes": (edit_shard_and_hashes, 3, MAC_DIFFERS),
    "no checksums": (remove(f"out/{CHECKSUMS_NAME}"), 3, "SHA256SUMS is missing"),
    "empty checksums": (write(f"out/{CHECKSUMS_NAME}", ""), 3, MAC_DIFFERS),
    "checksums that are not text": (
        write(f"out/{CHECKSUMS_NAME}", b"\xff\xfe"),
        3,
        "SHA256SUMS cannot be read",
    ),
    "the card holds a value": (
        append_to("out/README.md", f"See {ANN}.\n"),
        4,
        "README.md, text: .*README.md is not the file that was",
    ),
    # other files
    "a foreign text": (write("out/.gitattributes", "*.parquet filter=lfs\n"), 0, ".gitattributes"),
    "a foreign text in a folder": (write("out/more/notes.txt", "Nothing."), 0, "more/notes.txt"),
    "a foreign text in gzip": (write("out/notes.gz", gzip.compress(b"Nothing.")), 0, "notes.gz"),
    "a foreign file holds a value": (
        write("out/notes.txt", f"See {ANN}"),
        4,
        r"foreign file 1 \(notes.txt\)",
    ),
    "a foreign name holds a value": (write(f"out/{ANN}.txt", "x"), 4, "foreign file 1, "),
    "a foreign name holds a value with other separators": (
        write("out/ann.lee%40example.com", "x"),
        4,
        "foreign file 1, ",
    ),
    "a foreign name that is a digest": (
        write(f"out/{hashlib.md5(b'x').hexdigest()}", "x"),
        0,
        "foreign file 1",
    ),
    "a link to a file outside": (link("out/notes.txt", "in.parquet"), 3, "notes.txt: a link"),
    "a link to a folder outside": (link("out/more", "other"), 3, "more: a link"),
    "a link to nothing": (link("out/notes.txt", "nothing"), 3, "notes.txt: a link"),
    "a link whose name is a value": (link(f"out/{ANN}", "nothing"), 3, "foreign entry 1: a link"),
    "a page that is a link": (replace_by_link, 3, "README.md is not a regular file"),
    "a pipe": (
        lambda folder: os.mkfifo(folder / "out" / "pipe"),
        3,
        "pipe: a link or no regular file",
    ),
    "a shard that is a pipe": (
        lambda folder: replace_by_pipe(folder / "out" / SHARD),
        3,
        f"{SHARD} is not a regular file",
    ),
    "a zip archive": (
        write("out/notes.zip", zip_of(ANN.encode())),
        3,
        "notes.zip: packed or compressed content, which was not checked",
    ),
    "a zip archive whose name is a value": (
        write("out/more/notes.zip", zip_of(b"")),
        3,
        "more/notes.zip: packed",
    ),
    "a tar archive": (write("out/notes.tar", tar_of(b"Nothing.")), 3, "notes.tar: packed"),
    "a tar archive in gzip": (
        write("out/notes.tgz", gzip.compress(tar_of(b"Nothing."))),
        3,
        "notes.tgz: packed",
    ),
    "gzip in gzip": (
        write("out/notes.gz", gzip.compress(gzip.compress(ANN.encode()))),
        3,
        "notes.gz: packed",
    ),
    "damaged gzip": (write("out/notes.gz", gzip.compress(ANN.encode() * 99)[:40]), 3, "notes.gz"),
    "an object of git": (
        write(f"out/.git/objects/ab/{'c' * 38}", zlib.compress(ANN.encode())),
        3,
        r"\.git \(1 files\): packed",
    ),
    "a foreign table": (write_foreign_parquet, 3, "extra.parquet: packed"),
    # the private folder
    "the vault has no values": (
        empty_tables("out.private/vault/values/*.parquet"),
        3,
        "vault/values/00000.parquet is missing or not",
    ),
    "one file of values is missing": (
        remove("out.private/vault/values/00001.parquet"),
        3,
        "vault/values/00001.parquet is missing",
    ),
    "no vault": (remove("out.private/vault"), 3, "vault/values/00000.parquet is missing"),
    "the vault of another corpus": (
        take_from_other("vault"),
        3,
        "vault/values/00000.parquet is missing or not",
    ),
    "vault and records of another corpus": (
        take_vault_and_records_from_other,
        3,
        "is missing or not the file that the run wrote",
    ),
    "no records": (remove("out.private/tasks"), 3, "vault/values/00000.parquet is missing or not"),
    "no kept originals": (
        empty_tables("out.private/runs/*/kept/*.parquet"),
        3,
        "kept/00000.parquet is missing or not",
    ),
    "no key of the checksums": (
        lambda folder: next(folder.glob("out.private/runs/*/vault/published_key")).unlink(),
        3,
        MAC_DIFFERS,
    ),
    "the private folder of another corpus": (
        take_workspace_from_other,
        2,
        "is not the private folder of the run that wrote",
    ),
    "an erasure after the run": (
        request_erasure,
        4,
        r"was published before an erasure stored in .*subject --erase",
    ),
}


@pytest.mark.parametrize("case", PACKED_LETTERS)
def test_a_foreign_file_that_cannot_be_read_into_is_an_error(corpus: Path, case: str) -> None:
    name = case.partition(" (")[0]
    (corpus / "out" / name).write_bytes(PACKED_LETTERS[case])
    with pytest.raises(
        OutputBroken,
        match=rf"{re.escape(name)}: packed or compressed content, which was not checked",
    ) as raised:
        verify(corpus / "out", work=corpus / "out.private", workers=1)
    assert raised.value.exit_code == 3 and ANN not in str(raised.value)


# name and content of a file -> whether the check finds the value in it
READABLE_FILES: dict[str, tuple[str, bytes, bool]] = {
    **{
        f"a letter in {encoding}": ("notes.txt", LETTER.encode(encoding), True)
        for encoding in ("utf-16", "utf-16-be", "utf-32", "utf-32-be", "utf-32-le", "utf-8-sig")
    },
    "an array of texts": ("notes.npy", npy_of(np.array(["Nothing.", f"See {ANN}."])), True),
    "an array of bytes": ("notes.npy", npy_of(np.array([b"Nothing.", ANN.encode()])), True),
    "an array of texts without a value": (
        "notes.npy",
        npy_of(np.array(["Nothing.", "Nobody."])),
        False,
    ),
    "a letter in Latin-1": (
        "notes.txt",
        f"\xc9crivez \xe0 {ANN}, s'il vous pla\xeet.".encode("latin-1"),
        True,
    ),
    "bytes between texts": (
        "notes.bin",
        b"\0\xff\x01\xfe".join([b"Nothing is in here."] * 9),
        False,
    ),
    "a letter in zstd": ("notes.zst", pa.compress(LETTER.encode(), "zstd", asbytes=True), True),
    "an empty file": ("notes.bin", b"", False),
    "a text that begins like sound": ("notes.txt", b"ID2 and ID4 are here.", False),
}


@pytest.mark.parametrize("case", READABLE_FILES)
def test_a_foreign_file_that_can_be_read_is_searched(corpus: Path, case: str) -> None:
    name, content, has_value = READABLE_FILES[case]
    (corpus / "out" / name).write_bytes(content)
    if has_value:
        with pytest.raises(
            LeakFound, match=rf"foreign file 1 \({re.escape(name)}\), (text|bytes): "
        ) as raised:
            verify(corpus / "out", work=corpus / "out.private", workers=1)
        assert ANN not in str(raised.value)
    else:
        assert list(
            verify(corpus / "out", work=corpus / "out.private", workers=1).foreign_files
        ) == [name]


def flip_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.timeout(60)  # a pipe that is opened blocks
@pytest.mark.parametrize("mode", ["full", "fast"])
@pytest.mark.parametrize("case", CASES)
def test_what_was_changed_decides_the_exit_code(corpus: Path, case: str, mode: str) -> None:
    change, exit_code, sentence = CASES[case]
    if mode == "fast":  # the form URL is not searched
        fast_cases = {
            "a foreign name holds a value with other separators": (0, "foreign file 1"),
        }
        exit_code, sentence = fast_cases.get(case, (exit_code, sentence))
    change(corpus)
    out = next(path for path in (corpus / "moved", corpus / "out") if path.exists())
    message, result = "", None
    try:
        result = verify(out, work=corpus / "out.private", mode=mode, workers=1)
    except SanitizeError as error:
        message = str(error)
        assert error.exit_code == exit_code, message
    if result is not None:
        assert exit_code == 0 and list(result.foreign_files) == ([sentence] if sentence else [])
        message = repr(result)
    else:
        assert exit_code and re.search(sentence, message), message
    assert "\n" not in message or result is not None
    assert not [
        value
        for value in (ANN, ROE, "ann.lee%40example.com", "sue@example.net")
        if value in message
    ]


def test_sha256sum_accepts_the_file(corpus: Path) -> None:
    checked = subprocess.run(
        ["sha256sum", "-c", "--strict", CHECKSUMS_NAME],
        cwd=corpus / "out",
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0 and checked.stdout.count(": OK") == 5
    listed = {
        line.split("  ")[1]
        for line in (corpus / "out" / CHECKSUMS_NAME).read_text().splitlines()[:-1]
    }
    assert listed == {
        path.relative_to(corpus / "out").as_posix()
        for path in (corpus / "out").rglob("*")
        if path.is_file()
    } - {CHECKSUMS_NAME}


def test_the_mac_depends_on_the_key(corpus: Path) -> None:
    (run_folder,) = (corpus / "out.private" / "runs").iterdir()
    (other_run_folder,) = (corpus / "other" / "out.private" / "runs").iterdir()
    key, other_key = read_mac_key(run_folder), read_mac_key(other_run_folder)
    assert key and other_key and key != other_key
    assert find_changed_files(corpus / "out") == find_changed_files(corpus / "out", key) == []
    assert "MAC differs" in find_changed_files(corpus / "out", other_key)[0]
    assert key.hex() not in (corpus / "out" / CHECKSUMS_NAME).read_text()


@pytest.mark.parametrize("name", ["README.md", CHECKSUMS_NAME])
def test_the_advice_ends_the_problem(corpus: Path, name: str) -> None:
    """`run again with --replace` publishes the pages again, although plan, input and shards are the
    same."""
    before = (corpus / "out" / name).read_bytes()
    (corpus / "out" / name).write_text("edited")

    def run(**more: Any) -> object:
        settings = Settings(workers=1, rows_per_shard=2, **more)
        return run_with_settings([corpus / "in.parquet"], corpus / "out", "rmft", None, settings)

    with pytest.raises(SanitizeError, match=rf"{name} is not the file.*--replace") as caught:
        run()
    assert caught.value.exit_code == 3
    run(replace=True)
    assert (corpus / "out" / name).read_bytes() == before
    result: VerifyResult = verify(corpus / "out", workers=1)
    assert result.leaks == 0


def test_a_damaged_vault_is_written_again_by_a_run_without_the_output(corpus: Path) -> None:
    empty_tables("out.private/vault/values/*.parquet")(corpus)
    (corpus / "out").rename(corpus / "away")
    run_with_settings(
        [corpus / "in.parquet"], corpus / "out", "rmft", None, Settings(workers=1, rows_per_shard=2)
    )
    assert verify(corpus / "out", workers=1).values_checked == 2


def replace_in_manifest(folder: Path, path: str, value: object) -> None:
    """Sets a field of manifest.json (`...` removes it), and recomputes its line in SHA256SUMS; the
    MAC stays."""
    manifest = json.loads((folder / "manifest.json").read_text())
    *parents, name = path.split(".")
    section = manifest
    for parent in parents:
        section = section[parent]
    if value is ...:
        del section[name]
    else:
        section[name] = value
    (folder / "manifest.json").write_text(json.dumps(manifest))
    lines = (folder / CHECKSUMS_NAME).read_text().splitlines()
    lines = [
        f"{file_sha256(folder / 'manifest.json')}  manifest.json"
        if "manifest.json" in line
        else line
        for line in lines
    ]
    (folder / CHECKSUMS_NAME).write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_no_shape_of_a_manifest_is_an_internal_error(corpus: Path) -> None:
    """Each field in turn is missing, or has a value of another type: every command that reads it
    says which file is broken."""
    out, work = corpus / "out", corpus / "out.private"
    published_files = {
        name: (out / name).read_bytes() for name in ("manifest.json", CHECKSUMS_NAME)
    }
    manifest = json.loads(published_files["manifest.json"])
    fields = [
        *manifest,
        *(
            f"{section}.{name}"
            for section in ("plan", "settings", "summary")
            for name in manifest[section]
        ),
    ]
    for field in fields:
        for value in (..., None, 5, "x", {}, [5]):
            for name, content in published_files.items():
                (out / name).write_bytes(content)
            replace_in_manifest(out, field, value)
            try:
                corpus_read = Corpus.open(out)
            except (OutputBroken, UsageError):
                with pytest.raises((OutputBroken, UsageError)):
                    verify(out, work=work, workers=1)
                with pytest.raises((OutputBroken, UsageError)):
                    report(out, work=work, to=corpus / "page.html")
                continue
            assert corpus_read.shards
            if field.count("."):
                continue  # the shape of these is not read before the MAC is compared: see below
            with pytest.raises(SanitizeError):
                report(out, work=work, to=corpus / "page.html")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("plan", {}),
        ("plan", None),
        ("plan.edit", "x"),
        ("plan.kind", [{"name": 5}]),
        ("summary", 5),
        ("shards", None),
    ],
)
def test_a_changed_manifest_with_its_line_in_sha256sums_is_broken(
    corpus: Path, field: str, value: object
) -> None:
    replace_in_manifest(corpus / "out", field, value)
    with pytest.raises(OutputBroken, match="manifest.json: .* is |MAC differs"):
        verify(corpus / "out", work=corpus / "out.private", workers=1)
    with pytest.raises((OutputBroken, UsageError)):
        run_with_settings(
            [corpus / "in.parquet"],
            corpus / "out",
            "rmft",
            None,
            Settings(workers=1, rows_per_shard=2),
        )


@pytest.mark.parametrize("name", ["manifest.json", CHECKSUMS_NAME, "README.md"])
def test_a_pipe_in_the_place_of_a_file_blocks_no_command(corpus: Path, name: str) -> None:
    (corpus / "out" / name).unlink()
    os.mkfifo(corpus / "out" / name)
    with pytest.raises(OutputBroken):
        verify(corpus / "out", work=corpus / "out.private", workers=1)
    if name != "README.md":
        with pytest.raises(OutputBroken):
            report(corpus / "out", work=corpus / "out.private", to=corpus / "page.html")
        with pytest.raises(OutputBroken):
            diff(corpus / "out", work=corpus / "out.private")


@pytest.mark.parametrize("mode", ["full", "fast"])
def test_names_of_empty_folders_are_searched(corpus: Path, mode: str) -> None:
    (corpus / "out" / "harmless" / "folder").mkdir(parents=True)
    verify(corpus / "out", work=corpus / "out.private", workers=1, mode=mode)
    (corpus / "out" / "harmless" / f"for {ROE}").mkdir()
    with pytest.raises(LeakFound, match=r"foreign folder 2, file name: 1 EMAIL_ADDRESS") as raised:
        verify(corpus / "out", work=corpus / "out.private", workers=1, mode=mode)
    assert ROE not in str(raised.value)


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="names of files are UTF-8 elsewhere")
@pytest.mark.parametrize("mode", ["full", "fast"])
def test_a_file_whose_name_is_no_utf8_is_searched_and_named(corpus: Path, mode: str) -> None:
    path = os.fsencode(corpus / "out") + b"/no\xff\xfe.txt"
    with open(path, "wb") as file:
        file.write(b"nothing")
    (shown,) = verify(
        corpus / "out", work=corpus / "out.private", workers=1, mode=mode
    ).foreign_files
    assert shown.encode("utf-8") and shown.startswith("no")
    with open(path, "ab") as file:
        file.write(f" {ROE}".encode())
    with pytest.raises(LeakFound, match="foreign file 1") as raised:
        verify(corpus / "out", work=corpus / "out.private", workers=1, mode=mode)
    assert str(raised.value).encode("utf-8")
