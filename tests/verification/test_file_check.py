"""The check of files: a leak in each location and form is found, nothing else is found, and passes
limit the memory."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import hashlib
import html
import itertools
import json
import quopri
import re
import shutil
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sanitize
from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.kinds.kind import list_kinds
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import table_schemas
from sanitize.storage.files import file_sha256
from sanitize.storage.parquet_files import write_table_rows
from sanitize.storage.publication import read_mac_key, write_checksums
from sanitize.text.decodings import ENCODED_FORMS, iter_decodings
from sanitize.text.decodings.coded_runs import find_digests
from sanitize.verification import parquet_pages
from sanitize.verification import search_terms as search_terms_module
from sanitize.verification.findings import Findings
from sanitize.verification.parquet_pages import (
    RowOnlyColumns,
    count_plain_bytes,
    extract_readable_texts,
    find_row_only_columns,
    read_bytes_outside_pages,
    read_pages,
)
from sanitize.verification.published.file_check import FileCheckTask, check_file, check_files
from sanitize.verification.published.output_check import verify
from sanitize.verification.search_terms import ALL_FORMS, SearchTerms, write_terms
from sanitize.verification.value_matches import find_value_matches

MAIL, TEL, IBAN = "EMAIL_ADDRESS", "PHONE_NUMBER", "IBAN_CODE"
BASE64 = [f"base64 {skip}" for skip in range(3)]
DIGESTS = ["digest md5", "digest sha1", "digest sha256"]
NUMBERS = {
    "digits": "212-555-0123",
    "line breaks": "212 555 0144",
    "other digits": "212-555-0188",
    "form encoding": "212 555 0177",
}
ENCODINGS = [
    encoding
    for form in ALL_FORMS
    for encoding in {"base64": BASE64, "digest": DIGESTS}.get(form, [form])
]


def planted_value(encoding: str) -> str:
    """The value that is planted in this encoding, as spelled in the corpus: a different one for
    each encoding."""
    number = ENCODINGS.index(encoding)
    if encoding in NUMBERS:
        return NUMBERS[encoding]
    if encoding == "identity":
        return "GB82 WEST 1234 5698 7654 32"
    return f"person{number}.{chr(ord('a') + number % 26)}ow@planted{number}.example.com"


def planted_kind(encoding: str) -> str:
    return TEL if encoding in NUMBERS else {"identity": IBAN}.get(encoding, MAIL)


def encode_value(encoding: str, value: str) -> bytes:
    """A value in each encoding."""
    raw = value.encode()
    if encoding.startswith("base64"):
        return base64.b64encode(b" " * int(encoding[-1]) + raw + b" and so on")
    if encoding.startswith("digest"):
        return hashlib.new(encoding.split()[1], raw).hexdigest().encode()
    encoders: dict[str, Callable[[], bytes]] = {
        "exact": lambda: raw,
        "case-folded": raw.upper,
        "identity": lambda: raw.replace(b" ", b""),
        "NFKC": lambda: "".join(chr(ord(letter) + 0xFEE0) for letter in value).encode(),
        "zero-width": lambda: value.replace("@", "\u200b@\u2060").replace("o", "o\u00ad").encode(),
        "HTML": lambda: value.replace("@", "&#64;").replace("p", "&#x70;", 1).encode(),
        "URL": lambda: urllib.parse.quote(value).encode(),
        "form encoding": lambda: raw.replace(b" ", b"+"),
        "CSS": lambda: raw.replace(b"@", b"\\40 "),
        "UTF-7": lambda: raw.replace(b"@", b"+AEA-"),
        "base32hex": lambda: base64.b32hexencode(b" " + raw + b" and so on"),
        "ASCII85": lambda: base64.a85encode(raw, adobe=True),
        "JSON": lambda: value.replace("@", "\\u0040").encode(),
        "wrapped address": lambda: raw.replace(b"@", b"=") + b"@lists.example.net",
        "quoted-printable": lambda: raw.replace(b"@", b"=40").replace(b"example", b"exam=\nple"),
        "UTF-16": lambda: value.encode("utf-16-le"),
        "line breaks": lambda: raw.replace(b" ", b"\r\n> ", 1),
        "other digits": (
            lambda: "".join(
                chr(ord(char) + 0x630) if char.isdigit() else char for char in value
            ).encode()
        ),
        "base32": lambda: base64.b32encode(b" " + raw + b" and so on"),
        "hexadecimal": raw.hex().encode,
        "uuencode": lambda: (
            b"\n"
            + b"".join(binascii.b2a_uu(raw[first : first + 30]) for first in range(0, len(raw), 30))
        ),
        "digits": lambda: bytes(byte for byte in raw if 48 <= byte < 58),
    }
    return encoders[encoding]()


def build_settings(**options: Any) -> Settings:
    return Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 20, **options})


@pytest.fixture(scope="module")
def published_output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a corpus with one value per encoding, each replaced by a label."""
    folder = tmp_path_factory.mktemp("full")
    texts = [f"Please ask {planted_value(encoding)} about it." for encoding in ENCODINGS]
    notes = [f"nothing here {number}" for number in range(len(ENCODINGS))]
    turns = [[{"content": note}] for note in notes]
    table = pa.table(
        {
            "text": texts,
            "note": notes,
            "turns": turns,
            "n": list(range(len(ENCODINGS))),
            "raw": [note.encode() for note in notes],
        }
    )
    pq.write_table(table, folder / "in.parquet")
    columns = {"keep": ["note", "turns", "raw"]}
    run_with_settings(
        [folder / "in.parquet"],
        folder / "out",
        load_plan("redact"),
        None,
        build_settings(rows_per_shard=50, **columns),
    )
    return folder / "out"


@pytest.fixture()
def output(published_output: Path, tmp_path: Path) -> Path:
    shutil.copytree(published_output, tmp_path / "out")
    shutil.copytree(Path(f"{published_output}.private"), tmp_path / "out.private")
    return tmp_path / "out"


def shard_path(out: Path) -> Path:
    return out / "data" / "train-00000-of-00001.parquet"


def update_manifest(out: Path) -> None:
    """Rewrite the manifest so that it matches the changed shard."""
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["shards"][0] |= {
        "sha256": file_sha256(shard_path(out)),
        "bytes": shard_path(out).stat().st_size,
    }
    (out / "manifest.json").write_text(json.dumps(manifest))
    accept_changes(out)


def accept_changes(out: Path) -> None:
    """Write the hashes of changed files as the run would have written them: in the records of its
    tables, and in SHA256SUMS."""
    (run_folder,) = Path(f"{out}.private").glob("runs/*")
    for record_path in run_folder.glob("tasks/rewrite-*.json"):
        record = json.loads(record_path.read_text())
        record["files"] = {name: file_sha256(record_path.parent / name) for name in record["files"]}
        record_path.write_text(json.dumps(record))
    mac_key = read_mac_key(run_folder)
    assert mac_key
    names = [
        shard_path(out).relative_to(out).as_posix(),
        "README.md",
        "report.html",
        "manifest.json",
    ]
    write_checksums(out, {name: file_sha256(out / name) for name in names}, mac_key)


def rewrite_shard(out: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    table = change(pq.read_table(shard_path(out)))
    shard_path(out).unlink()
    pq.write_table(table, shard_path(out), **options)
    update_manifest(out)


def replace_column(out: Path, name: str, column: Sequence[Any], kind: pa.DataType) -> None:
    rewrite_shard(
        out,
        lambda table: table.set_column(
            table.schema.get_field_index(name), name, pa.array(column, kind)
        ),
    )


def encoded_leaks() -> list[bytes]:
    return [
        b"see " + encode_value(encoding, planted_value(encoding)) + b" now"
        for encoding in ENCODINGS
    ]


def plant_in_texts(out: Path) -> None:
    replace_column(out, "text", [raw.decode() for raw in encoded_leaks()], pa.large_string())


def plant_in_strings(out: Path) -> None:
    replace_column(out, "note", [raw.decode() for raw in encoded_leaks()], pa.large_string())


def plant_in_nested(out: Path) -> None:
    kind = pa.large_list(pa.struct([("content", pa.large_string())]))
    replace_column(out, "turns", [[{"content": raw.decode()}] for raw in encoded_leaks()], kind)


def plant_in_bytes(out: Path) -> None:
    replace_column(out, "raw", encoded_leaks(), pa.large_binary())


def plant_in_pages(out: Path) -> None:
    """Plant values in a dictionary with entries that no row uses, as filtering leaves them."""

    def change(table: pa.Table) -> pa.Table:
        entries = pa.array(["nothing", *(raw.decode() for raw in encoded_leaks())])
        dictionary_column = pa.DictionaryArray.from_arrays(
            pa.array([0] * table.num_rows, pa.int32()), entries
        )
        return table.set_column(table.schema.get_field_index("note"), "note", dictionary_column)

    rewrite_shard(out, change, compression="zstd", store_schema=False)
    assert "see" not in str(pq.read_table(shard_path(out)).to_pydict())


def plant_in_footer(out: Path) -> None:
    rewrite_shard(
        out,
        lambda table: table.replace_schema_metadata(
            {f"key{no}": raw for no, raw in enumerate(encoded_leaks())}
        ),
    )


def plant_in_slack(out: Path) -> None:
    """Plant values in bytes before the footer that belong to no page."""
    raw = shard_path(out).read_bytes()
    footer_start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    shard_path(out).unlink()
    shard_path(out).write_bytes(
        raw[:footer_start] + b"\0\1\0".join(encoded_leaks()) + b"\0" + raw[footer_start:]
    )
    assert pq.read_table(shard_path(out)).num_rows
    update_manifest(out)


def plant_in_card(out: Path) -> None:
    with (out / "README.md").open("ab") as file:
        file.write(b"\n" + b"\n\n".join(encoded_leaks()))


def plant_in_manifest(out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(
        json.dumps(
            {**manifest, "notes": [raw.decode() for raw in encoded_leaks()]}, ensure_ascii=False
        )
    )


def plant_in_foreign_file(out: Path) -> None:
    (out / "more").mkdir()
    (out / "more" / "notes.bin").write_bytes(b"\x00\xff\x01\xfe".join(encoded_leaks()))


def plant_in_gzip_file(out: Path) -> None:
    (out / "notes.txt.gz").write_bytes(gzip.compress(b"\n".join(encoded_leaks())))


def plant_in_file_names(out: Path) -> None:
    for raw in encoded_leaks():
        name = raw.decode().replace("\n", "").replace("\0", "").replace("/", "")
        (out / name).touch()


def plant_in_column_names(out: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        for raw in encoded_leaks():
            table = table.append_column(
                raw.decode().replace("\0", ""), pa.array([None] * table.num_rows, pa.bool_())
            )
        return table

    rewrite_shard(out, change, store_schema=False)


SHARD = "data/train-00000-of-00001.parquet"
ENCODINGS_BUT_UTF16 = [encoding for encoding in ENCODINGS if encoding != "UTF-16"]
# JSON escapes line ends and zeros; file names have none
ONE_LINE_ENCODINGS = [
    encoding
    for encoding in ENCODINGS_BUT_UTF16
    if encoding not in ("quoted-printable", "line breaks", "uuencode")
]
LOCATIONS: dict[str, tuple[Callable[[Path], None], str, str, list[str]]] = {
    # function that plants, file, prefix of the location, and the encodings that can occur there
    "a text": (plant_in_texts, SHARD, "column text", ENCODINGS),
    "a kept column": (plant_in_strings, SHARD, "column note", ENCODINGS),
    "a nested column": (plant_in_nested, SHARD, "column turns", ENCODINGS),
    "a column of bytes": (plant_in_bytes, SHARD, "column raw", ENCODINGS),
    "a page that no row uses": (plant_in_pages, SHARD, "a page of column note", ENCODINGS),
    "the footer": (plant_in_footer, SHARD, "raw bytes", ENCODINGS),
    "between the pages": (plant_in_slack, SHARD, "raw bytes", ENCODINGS),
    "the card": (plant_in_card, "README.md", "text", ENCODINGS),
    "the manifest": (plant_in_manifest, "manifest.json", "text", ONE_LINE_ENCODINGS),
    "a foreign file": (plant_in_foreign_file, "foreign file 1", "bytes", ENCODINGS),
    "a packed file": (plant_in_gzip_file, "foreign file 1", "text", ENCODINGS),
    # a file name has no slash
    "file names": (
        plant_in_file_names,
        "",
        "file name",
        [encoding for encoding in ONE_LINE_ENCODINGS if encoding != "ASCII85"],
    ),
    "column names": (plant_in_column_names, SHARD, "column names", ENCODINGS_BUT_UTF16),
}


def form_name(encoding: str) -> str:
    return encoding.split()[0] if encoding.startswith(("base64", "digest")) else encoding


@pytest.mark.parametrize("location", LOCATIONS)
def test_a_leak_in_each_form_is_found(output: Path, location: str) -> None:
    plant, file, location_prefix, encodings = LOCATIONS[location]
    plant(output)
    with pytest.raises(LeakFound) as caught:
        verify(output, workers=1)
    found: dict[tuple[str, str], int] = {}
    for finding in caught.value.findings:
        if str(finding["file"]).startswith(file) and str(finding["location"]).startswith(
            location_prefix
        ):
            key = (str(finding["kind"]), str(finding["form"]))
            found[key] = found.get(key, 0) + int(str(finding["count"]))
    expected: dict[tuple[str, str], int] = {}
    for encoding in encodings:
        expected[planted_kind(encoding), form_name(encoding)] = (
            expected.get((planted_kind(encoding), form_name(encoding)), 0) + 1
        )
    assert {key: found.get(key, 0) >= count for key, count in expected.items()} == dict.fromkeys(
        expected, True
    )
    message = str(caught.value) + repr(caught.value.findings)
    assert caught.value.exit_code == 4 and not [
        encoding
        for encoding in ENCODINGS
        if planted_value(encoding) in message
        or encode_value(encoding, planted_value(encoding)).decode() in message
    ]


def test_clean_output_has_no_findings(output: Path) -> None:
    """The same output as sanitize writes it, and with other writer settings: dictionaries,
    statistics, Arrow's schema, other codecs."""
    first = verify(output, workers=1)
    assert (first.leaks, first.mode, first.values_checked, first.inconclusive) == (
        0,
        "full",
        len(ENCODINGS),
        {},
    )
    assert first.forms == list(ALL_FORMS) and first.passes == 1
    assert set(first.bytes_searched) == {"rows", "pages", "raw bytes", "other files"} and all(
        first.bytes_searched.values()
    )
    write_options: list[dict[str, Any]] = [
        {"compression": codec} for codec in ("none", "snappy", "gzip", "lz4", "brotli")
    ]
    write_options += [
        {"data_page_version": "2.0", "compression": "zstd"},
        {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
    ]
    for options in write_options:
        rewrite_shard(output, lambda table: table, **options)
        result = verify(output, workers=1)
        assert (result.leaks, result.rows, result.inconclusive) == (0, first.rows, {}), options


def test_telephone_number_in_a_number_column_is_found(output: Path) -> None:
    numbers = [0] * (len(ENCODINGS) - 1)
    for column, kind in (
        ([*numbers, 2125550123], pa.int64()),
        ([*numbers, 12125550123.0], pa.float64()),
    ):
        replace_column(output, "n", column, kind)
        with pytest.raises(LeakFound) as caught:
            verify(output, workers=1)
        assert [
            (finding["location"], finding["kind"], finding["form"])
            for finding in caught.value.findings
        ] == [("column n", TEL, "digits")]


def test_only_the_full_check_searches_raw_bytes(output: Path) -> None:
    plant_in_footer(output)
    assert verify(output, mode="fast", workers=1).leaks == 0
    with pytest.raises(LeakFound):
        verify(output, mode="full", workers=1)
    with pytest.raises(UsageError, match="fast, full"):
        verify(output, mode="thorough")


def test_damaged_page_is_refused(output: Path) -> None:
    raw = bytearray(shard_path(output).read_bytes())
    column = pq.read_metadata(shard_path(output)).row_group(0).column(0)
    raw[column.data_page_offset] = 0xFF
    shard_path(output).unlink()
    shard_path(output).write_bytes(raw)
    update_manifest(output)
    with pytest.raises((OutputBroken, OSError)):
        list(read_pages(shard_path(output), RowOnlyColumns()))


# ---- kept values, short values, values formed by edits ----

BOB, LEE = "bob.lee@example.com", "ann.lee@example.org"


def write_corpus(folder: Path, lines: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"text": list(lines)}), folder / "in.parquet")
    return folder / "in.parquet"


def run_plan(folder: Path, lines: Sequence[str], plan: str = "rmft", **options: Any) -> Path:
    run_with_settings(
        [write_corpus(folder, lines)],
        folder / "out",
        load_plan(plan),
        None,
        build_settings(**options),
    )
    return folder / "out"


def test_kept_original_is_a_leak_in_other_locations(tmp_path: Path) -> None:
    out = run_plan(tmp_path, [f"from {BOB.title()} and 212-555-0123", f"again {BOB}", "nothing"])
    assert verify(out, workers=1).leaks == 0
    for leak in (
        base64.b64encode(f"was {BOB}".encode()).decode(),
        BOB,
        urllib.parse.quote(BOB),
        "2125550123",
    ):
        replace_column(
            out,
            "text",
            [pq.read_table(shard_path(out)).column("text")[0].as_py(), "again", f"see {leak}"],
            pa.large_string(),
        )
        with pytest.raises(LeakFound) as caught:
            verify(out, workers=1)
        assert {
            str(finding["location"])
            for finding in caught.value.findings
            if "column" in str(finding["location"])
        } == {"column text"}


def test_values_that_the_plan_leaves_are_not_leaks(tmp_path: Path) -> None:
    lines = [
        "see http://www.example.com/a?b=c and http%3A%2F%2Fwww.example.com%2Fa%3Fb%3Dc",
        f"mail {BOB}",
    ]
    assert verify(run_plan(tmp_path, lines), workers=1).leaks == 0


@pytest.mark.parametrize(
    "escaped",
    [
        "Blue&nbsp;Heron",
        "Blue&#160;Heron",
        "Blue\\u00a0Heron",
        "Blue=C2=A0Heron",
        "Blue%C2%A0Heron",
        "Bl&#xFF55;e Heron",
    ],
)
def test_escapes_are_matched_in_compatibility_form(tmp_path: Path, escaped: str) -> None:
    """The HTML escape of a no-break space counts as a space, as does the character itself."""
    search_terms = build_search_terms(tmp_path, [(MAIL, "Blue Heron")])
    found = check_texts(
        search_terms,
        pa.array(
            [f"project {escaped} it is, and =3D", "nothing &eacute; %20 \\u00e9"], pa.large_string()
        ),
    )
    assert len(found.leaks) == 1 and set(found.leaks.values()) == {1}


@pytest.mark.parametrize(("kind", "match_count"), [("PERSON", 3), (MAIL, 3), (TEL, 4)])
@pytest.mark.parametrize("normal_form", ["NFC", "NFD"])
def test_composed_and_decomposed_letters_match(
    tmp_path: Path, normal_form: str, kind: str, match_count: int
) -> None:
    """A value in composed or decomposed form also matches the other form. A combining accent
    continues a word; after a digit it is outside the value."""
    last = "7" if kind == TEL else "d"
    value = unicodedata.normalize(normal_form, f"Andr\u00e9 \u00c5lun{last}")
    spellings = [
        unicodedata.normalize(form, f"see ANDR\u00c9 \u00c5LUN{last.upper()}.")
        for form in ("NFC", "NFD")
    ]
    column = pa.array([*spellings, f"as {value}", f"as {value}\u0301"], pa.large_string())
    search_terms = build_search_terms(tmp_path, [(kind, value)])
    for no in range(4):
        assert bool(check_texts(search_terms, column.slice(no, 1)).leaks) == (no < match_count), no


def test_number_found_exactly_is_not_counted_by_its_digits(tmp_path: Path) -> None:
    search_terms = build_search_terms(tmp_path, [("PHONE_NUMBER", "713-555-0123")])
    found = check_texts(
        search_terms, pa.array(["call 713-555-0123 now", "or 713 / 555 / 0123"], pa.large_string())
    )
    assert {form: count for (_, _, form), count in found.leaks.items()} == {"exact": 1, "digits": 1}


# two texts; the second has another spelling of the first one's value, which only the full check
# recognises
OTHER_SPELLINGS = [
    (["see 713-555-0123 there", "as 713 555 / 0123 once"], "713 555 / 0123"),
    (["see 4111 1111 1111 1111", "as 4111/1111/1111/1111 once"], "4111/1111/1111/1111"),
    (
        [
            "mail 20200102.ab12cd at example dot com",
            "Message-ID: <20200102.ab12cd@example.com>\n\nhello",
        ],
        "20200102.ab12cd@example.com",
    ),
]


@pytest.mark.parametrize(("lines", "other_spelling"), OTHER_SPELLINGS)
def test_values_that_only_the_full_check_finds_are_swept(
    tmp_path: Path, lines: list[str], other_spelling: str
) -> None:
    """A number with other separators, an address in its identity form: a run with full verification
    sweeps them and reports it."""
    out = run_plan(tmp_path, lines, verify="full")
    assert json.loads((out / "manifest.json").read_text())["summary"]["verify"]["swept"] == 1
    assert other_spelling not in str(pq.read_table(shard_path(out)).column("text"))
    assert verify(out, workers=1).leaks == 0


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["redact", "rmft"])
def test_encoded_values_are_swept_without_their_surroundings(tmp_path: Path, plan: str) -> None:
    """Every encoding that the full check decodes is swept: of base64 only the characters that
    contain the value are removed."""
    encodings = [
        encoding
        for encoding in ENCODINGS
        if form_name(encoding) not in ("exact", "case-folded", "NFKC")
    ]
    lines = [f"ask {planted_value(encoding)} of it" for encoding in encodings for _ in range(2)]
    lines += [
        f"then \u20ac {encode_value(encoding, planted_value(encoding)).decode()} end"
        for encoding in encodings
    ]
    out = run_plan(tmp_path, lines, plan, verify="full", rows_per_shard=20)
    verification = json.loads((out / "manifest.json").read_text())["summary"]["verify"]
    texts = [
        row
        for shard in sorted((out / "data").iterdir())
        for row in pq.read_table(shard).column("text").to_pylist()
    ]
    assert verify(out, workers=1).leaks == 0 and verification["swept"] >= 10
    for encoding, text in zip(encodings, texts[2 * len(encodings) :], strict=True):
        assert text.startswith("then \u20ac ") and text.endswith(" end"), encoding
        assert encode_value(encoding, planted_value(encoding)).decode() not in text, encoding
        if encoding.startswith("base64"):  # the characters after the value are unchanged
            assert text.endswith(
                encode_value(encoding, planted_value(encoding)).decode()[-8:] + " end"
            ), (encoding, text)


def test_digests_are_swept_outside_of_kept_values(tmp_path: Path) -> None:
    """A digest in a kept address or in a Message-ID that the plan leaves is kept; as a separate
    word, also in a URL, it is swept."""
    digest, unknown_digest = (hashlib.md5(value.encode()).hexdigest() for value in (BOB, "nobody"))
    lines = [
        f"of {BOB}",
        f"from <bounce-{digest}@lists.example.com>",
        f"Message-ID: <{digest}.1@mail.example.com>\n\nhello",
        f"see https://avatars.example.com/{digest}.png there",
        f"it is {digest.upper()}",
        unknown_digest,
    ]
    out = run_plan(tmp_path, lines, "rmft", verify="full")
    texts = pq.read_table(shard_path(out)).column("text").to_pylist()
    assert texts[:3] == lines[:3] and texts[5] == unknown_digest
    assert texts[3:5] == [f"see https://avatars.example.com/[{MAIL}].png there", f"it is [{MAIL}]"]
    assert verify(out, workers=1).leaks == 0
    with (out / "README.md").open("a") as file:
        file.write(f"\n{digest}\n")
    with pytest.raises(LeakFound) as caught:
        verify(out, workers=1)
    assert {finding["form"] for finding in caught.value.findings} == {"digest"}


def test_longer_digit_sequence_is_not_swept(tmp_path: Path) -> None:
    out = run_plan(
        tmp_path,
        ["call 713-555-0123", "row 99 713 555 / 0123 45, no 9971355501234"],
        "redact",
        verify="full",
    )
    assert json.loads((out / "manifest.json").read_text())["summary"]["verify"]["swept"] == 0


def test_short_values_are_counted_as_ambiguous(tmp_path: Path) -> None:
    out = run_plan(tmp_path, ["the mail <a@b> and 10.1.2.3 here", "nothing"], "redact")
    with (out / "README.md").open("a") as file:
        file.write(
            "\na line with a@b in it, and once more (a@b), so is A@B, but xa@bx is another\n"
        )
    accept_changes(out)
    result = verify(out, workers=1)
    assert (result.leaks, result.inconclusive, result.inconclusive_forms) == (
        0,
        {MAIL: 3},
        {"case-folded": 1, "exact": 2},
    )


def test_short_names_are_inconclusive(tmp_path: Path) -> None:
    """A name such as Will is matched as a whole word; a match in any letter case may be another
    word."""
    search_terms = build_search_terms(tmp_path, [(MAIL, "Will"), (MAIL, BOB)])
    texts = pa.array(["Will will WILL, Willing", "goodWill Will."], pa.large_string())
    found = check_texts(search_terms, texts)
    assert (dict(found.leaks), dict(found.inconclusive)) == (
        {},
        {(MAIL, "exact"): 2, (MAIL, "case-folded"): 2},
    )


# how a value is written in a file -> the reported form; each has other line ends and alignments
# than the pieces
FORMS_ACROSS_CUTS: dict[str, Callable[[str], bytes]] = {
    "exact": lambda value: value.encode(),
    "base64": lambda value: re.sub(
        rb"(.{19})", rb"\1\n", base64.b64encode(b"," + value.encode() + b",and so on")
    ),
    "URL": lambda value: value.replace("@", "%2540").encode(),
    "UTF-16": lambda value: value.encode("utf-16-le"),
    "quoted-printable": lambda value: "=\n".join(value).encode(),
    "digits": lambda _: b"1-646-\n555-\n0123",
    "digest": lambda value: hashlib.sha256(value.encode()).hexdigest().encode(),
    "mention": lambda _: b"Ann Rowbotham",
}


@pytest.mark.parametrize(
    ("form", "filler"),
    [
        *((form, b"\xc3\xa4 words ") for form in FORMS_ACROSS_CUTS),
        ("exact", b"\1\xff\0"),
        ("base64", b"lines\n"),
    ],
)
def test_a_form_at_any_offset_of_a_cut_is_found_once(
    form: str, filler: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Occurrences at a distance that shares no factor with the size of a piece: each offset around
    a cut occurs."""
    piece_bytes = occurrence_count = 59
    monkeypatch.setattr(parquet_pages, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(parquet_pages, "MIN_CONTEXT_BYTES", 90)
    monkeypatch.setattr(parquet_pages, "_CONTEXT_BYTES_PER_VALUE_BYTE", 0)
    build_search_terms(tmp_path, [(MAIL, "zelda.quux@example.org"), (TEL, "+1 646 555 0123")])
    # beside the value no Latin letter of UTF-16
    filler = b"\5\xff\0" if form == "UTF-16" else filler
    written = b"\n" + FORMS_ACROSS_CUTS[form]("zelda.quux@example.org") + b"\n" + filler * 5
    assert len(written) % piece_bytes
    (tmp_path / "n.bin").write_bytes(filler + written * occurrence_count)
    task = FileCheckTask(
        file=tmp_path / "n.bin",
        name="x",
        reported_name="x",
        terms=(tmp_path / "terms",),
        forms=ALL_FORMS,
        erased_names=("ann rowbotham",) if form == "mention" else (),
    )
    findings, bytes_searched = check_file(task)
    leaks = {leak_form: times for (_, _, leak_form), times in findings.leaks.items()}
    assert leaks == {form: occurrence_count}
    assert bytes_searched == {"other files": (tmp_path / "n.bin").stat().st_size}


@given(
    data=st.binary(max_size=200), piece_bytes=st.integers(1, 40), context_bytes=st.integers(0, 30)
)
@settings(max_examples=50, deadline=None)
def test_pieces_of_a_file_are_the_file(
    data: bytes, piece_bytes: int, context_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.bin"
    path.write_bytes(b"." + data)
    with mock.patch.object(parquet_pages, "PIECE_BYTES", piece_bytes):
        pieces = [*parquet_pages.read_pieces(path, context_bytes)]
    assert (
        b"".join(piece.data[piece.start : piece.end].tobytes() for piece in pieces) == b"." + data
    )
    for before, piece in itertools.pairwise(pieces):
        assert (
            before.data[len(before.data) - piece.seen :].tobytes()
            == piece.data[: piece.seen].tobytes()
        )
        assert min(piece.start, len(before.data) - before.end) >= min(context_bytes, before.end)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        *(
            (f"212{sign}555{sign}0123", True)
            for sign in (
                ".",
                "/",
                "_",
                " ",
                "-",
                "\t",
                " - ",
                "\u2009",
                "\u2011",
                "\u2013",
                ") (",
                "\n",
            )
        ),
        *((f"212{sign}555{sign}0123", False) for sign in (",", ":", "x", "\u3001", "     ")),
        *((f"call 2{sign}125550123 now", True) for sign in "._/"),
        ("212_555_0123, 646_555_0188", True),
        ("(212.555.0123,646.555.0188)", True),
        ("7_212_555_0123", False),
        ("id_212_555_0123", False),
    ],
)
def test_separators_of_a_number(text: str, is_found: bool, tmp_path: Path) -> None:
    """Those that docs/explanation/leak_check.md lists; commas stay between the numbers of a
    list."""
    search_terms = build_search_terms(tmp_path, [(TEL, "212.555-0123")])
    found = check_texts(search_terms, pa.array([text], pa.large_string()))
    assert sum(found.leaks.values()) == is_found, found.inconclusive


def test_digits_of_several_numbers_are_ambiguous(tmp_path: Path) -> None:
    search_terms = build_search_terms(tmp_path, [(TEL, "212-555-0123")])
    texts = pa.array(
        [
            "(212) 555.0123",
            "2125550123",
            "12125550123 x",
            "7 212 555 0123",
            "92125550123",
            "a2125550123b",
        ],
        pa.large_string(),
    )
    found = check_texts(search_terms, texts)
    assert dict(found.leaks) == {("text", TEL, "digits"): 4}
    assert dict(found.inconclusive) == {(TEL, "digits"): 2}


ACROSS_EDITS = {
    # text, its replaced part, replacement, and the finding
    "text and replacement": (
        "call 212- 10.1.2.3",
        " 10.1.2.3",
        "555-0123",
        (TEL, "exact", " (across an edit)"),
    ),
    "replacement and text": (
        "call 10.1.2.3 -0123",
        "10.1.2.3 ",
        "212-555",
        (TEL, "exact", " (across an edit)"),
    ),
    "nothing between": (
        "see bob.lee 10.1.2.3 @example.com",
        " 10.1.2.3 ",
        "",
        (MAIL, "exact", " (across an edit)"),
    ),
    "an encoded one": (
        "see bob.lee%40 10.1.2.3",
        " 10.1.2.3",
        "example.com",
        (MAIL, "URL", " (across an edit)"),
    ),
    "all of a replacement": (
        "see 10.1.2.3 now",
        "10.1.2.3",
        BOB,
        (MAIL, "exact", " (a replacement)"),
    ),
    "a replacement in other letters": (
        "see 10.1.2.3 now",
        "10.1.2.3",
        BOB.upper(),
        (MAIL, "case-folded", " (a replacement)"),
    ),
}


@pytest.mark.parametrize("case", ACROSS_EDITS)
def test_value_formed_by_edits_is_found(tmp_path: Path, case: str) -> None:
    source, replaced, replacement, (kind, form, location_suffix) = ACROSS_EDITS[case]
    out = run_plan(tmp_path, [f"{BOB} and 212-555-0123", source, "x"], "redact")
    path = next(Path(f"{out}.private").glob("runs/*/edits/00000.parquet"))
    rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist() if row["doc_no"] != 1]
    start = source.index(replaced)
    rows.append((1, 0, start, start + len(replaced), replacement, "redact", "IP_ADDRESS"))
    write_table_rows(path, table_schemas.EDITS.schema, rows)
    texts = pq.read_table(shard_path(out)).column("text").to_pylist()
    replace_column(
        out, "text", [texts[0], source.replace(replaced, replacement), "x"], pa.large_string()
    )
    with pytest.raises(LeakFound) as caught:
        verify(out, workers=1)
    assert {
        "file": SHARD,
        "location": f"column text{location_suffix}",
        "kind": kind,
        "form": form,
        "count": 1,
    } in list(caught.value.findings)


@pytest.mark.parametrize(
    ("real", "replacement", "collides"),
    [
        # a kind that the plan leaves, in another letter case
        ("see http://www.example.com/real", "http://www.example.com/REAL", True),
        # the same number by its kind's identity
        ("card 4111 1111 1111 1111 left", "4111-1111-1111-1111", True),
        ("see http://www.example.com/real", "http://www.example.com/other", False),
    ],
)
def test_a_replacement_that_is_a_real_value_is_found(
    tmp_path: Path, real: str, replacement: str, collides: bool
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'leave = ["URL", "CREDIT_CARD"]\n[find]\nkinds = ["URL", "CREDIT_CARD", "EMAIL_ADDRESS"]\n'
        '[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
    )
    out = run_plan(tmp_path, [real, f"x {BOB} y", "z"], str(plan))
    path = next(Path(f"{out}.private").glob("runs/*/edits/00000.parquet"))
    kind = "CREDIT_CARD" if "card" in real else "URL"
    rows = [(1, 0, 2, 2 + len(BOB), replacement, "redact", kind)]
    write_table_rows(path, table_schemas.EDITS.schema, rows)
    replace_column(out, "text", [real, f"x {replacement} y", "z"], pa.large_string())
    if collides:
        with pytest.raises(LeakFound) as caught:
            verify(out, workers=1)
        assert {str(finding["location"]) for finding in caught.value.findings} == {
            "replacements that are values of the corpus"
        }
        assert {finding["kind"] for finding in caught.value.findings} == {kind}
    else:
        assert verify(out, workers=1).leaks == 0


# ---- passes ----


def write_vault(path: Path, values: Sequence[tuple[str, str]]) -> Path:
    rows = []
    for number, (kind, value) in enumerate(values):
        normal = list_kinds()[kind].normalise(pl.Series([value]))[0]
        rows.append((number * 7 + 1, kind, value, None if normal == value else normal))
    write_table_rows(path, table_schemas.VALUE_SPELLINGS.schema, rows)
    return path


def build_search_terms(
    folder: Path, values: Sequence[tuple[str, str]], edited: Sequence[str] = tuple(list_kinds())
) -> SearchTerms:
    folder.mkdir(exist_ok=True)
    write_terms([write_vault(folder / "values.parquet", values)], list(edited), folder / "terms")
    (terms,) = SearchTerms.open([folder / "terms"])
    return terms


def check_texts(terms: SearchTerms, texts: pa.LargeStringArray) -> Findings:
    """What is found in some texts in all forms."""
    findings = Findings()
    for matches in find_value_matches(terms, texts):
        findings.add("text", terms, matches, texts)
    return findings


def limit_memory(monkeypatch: pytest.MonkeyPatch, max_unshared: int = 0) -> None:
    """Passes are limited by memory, with few values too, and all processes share their matchers."""
    monkeypatch.setattr(search_terms_module, "MAX_UNSHARED_TERMS", max_unshared)
    monkeypatch.setattr(search_terms_module, "TERMS_PER_PARTITION", 3)


@pytest.mark.parametrize(("file_bytes", "leaks"), [(14, 1), (15, 1), (16, 0)])
def test_digest_of_a_file_is_compared_where_the_file_may_be_a_value(
    tmp_path: Path, file_bytes: int, leaks: int
) -> None:
    # 14 bytes; a number may have a plus before it
    build_search_terms(tmp_path, [(MAIL, "p3@example.com")])
    sha256, other = (hashlib.sha256(text).hexdigest() for text in (b"p3@example.com", b"another"))
    (tmp_path / "manifest.json").write_text(json.dumps([sha256, other]))
    found = check_files(
        LocalEngine(workers=1, spill=tmp_path),
        [],
        [(tmp_path / "manifest.json", "manifest.json")],
        (tmp_path / "terms",),
        own_files=["manifest.json"],
        file_sizes={sha256: file_bytes, other: 1},
    )
    assert [str(finding) for finding in found.findings] == [
        f"manifest.json, text: 1 {MAIL} (digest)"
    ] * leaks


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The passes of the terms in each folder that is opened from now on."""
    counts, open_terms = list[int](), SearchTerms.open

    def open_and_count(cls: type[SearchTerms], folders: Sequence[Path]) -> tuple[SearchTerms, ...]:
        passes = open_terms(folders)
        counts.append(len(passes))
        return passes

    monkeypatch.setattr(SearchTerms, "open", classmethod(open_and_count))
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_findings_do_not_depend_on_passes_and_workers(
    output: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    plant_in_texts(output)
    findings = []
    for memory in ("1GB", "1KB"):
        if memory == "1KB":
            limit_memory(monkeypatch)
        with pytest.raises(LeakFound) as caught:
            verify(output, workers=workers, memory_limit=memory)
        findings.append(caught.value.findings)
    assert findings[0] == findings[1]


def test_counts_do_not_depend_on_the_number_of_passes(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_counts = count_passes(monkeypatch)
    one_pass = verify(output, workers=1)
    assert set(pass_counts) == {1}
    pass_counts.clear()
    limit_memory(monkeypatch)
    memory = f"{5 * search_terms_module.BYTES_PER_TERM / 1024:.3f}KB"
    many_passes = verify(output, workers=1, memory_limit=memory)
    assert (many_passes.passes or 0) > 4 and {*pass_counts} == {many_passes.passes}
    assert one_pass.passes == 1 and dataclasses.replace(many_passes, passes=1) == one_pass


@pytest.mark.slow
def test_a_run_sweeps_the_same_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search terms of all forms are split by the memory limit."""
    lines = [line for spellings, _ in OTHER_SPELLINGS for line in spellings] + [
        f"mail w{no}@example.com or 713-555-{no:04d}" for no in range(8)
    ]
    pass_counts = count_passes(monkeypatch)
    outputs = [run_plan(tmp_path / "large", lines, verify="full", rows_per_shard=100)]
    assert set(pass_counts) == {1}
    limit_memory(monkeypatch)
    # a limit that is large enough for DuckDB
    monkeypatch.setattr(search_terms_module, "BYTES_PER_TERM", 20 << 20)
    outputs.append(
        run_plan(tmp_path / "small", lines, verify="full", rows_per_shard=100, memory_limit="100MB")
    )
    assert max(pass_counts) > 4, pass_counts
    texts = [pq.read_table(shard_path(out)).to_pylist() for out in outputs]
    verifications = [
        json.loads((out / "manifest.json").read_text())["summary"]["verify"] for out in outputs
    ]
    assert (
        texts[0] == texts[1]
        and verifications[0] == verifications[1]
        and verifications[0]["swept"] > 0
    )


def test_base64_after_a_line_of_other_text(tmp_path: Path) -> None:
    search_terms = build_search_terms(tmp_path, [(MAIL, BOB)])
    raw = base64.b64encode(BOB.encode()).decode()
    texts = pa.array(
        [f"http/some/long/path\n{raw}", f"x{raw[:12]}\n{raw[12:]}", f"somelongwordhere\n {raw} x"],
        pa.large_string(),
    )
    assert dict(check_texts(search_terms, texts).leaks) == {("text", MAIL, "base64"): 3}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_pages_are_decompressed(tmp_path: Path, version: str, codec: str) -> None:
    texts = [None if number % 5 == 0 else f"row {number} of {BOB}" for number in range(2_000)]
    table = pa.table({"text": texts, "list": [[text] * 2 for text in texts]})
    pq.write_table(
        table,
        tmp_path / "a.parquet",
        compression=codec,
        data_page_version=version,
        use_dictionary=["list.list.element"],
    )
    pages = list(read_pages(tmp_path / "a.parquet", RowOnlyColumns()))
    text_bytes = b"".join(page.tobytes() for column, page in pages if column == "text")
    assert all(text.encode() in text_bytes for text in texts if text) and {
        column for column, _ in pages
    } == {"text", "list.list.element"}
    metadata = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    headers = 200 * len(pages)
    sizes = sum(metadata.column(number).total_uncompressed_size for number in range(2))
    assert sizes - headers < sum(len(page) for _, page in pages) <= sizes


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
def test_columns_whose_pages_hold_rows_only(tmp_path: Path, version: str, codec: str) -> None:
    texts = [None if number % 5 == 0 else f"row {number}" for number in range(7_000)]
    messages = [
        [{"role": "user", "content": text}] * (number % 3) for number, text in enumerate(texts)
    ]
    table = pa.table(
        {
            "text": texts,
            "n": range(7_000),
            "chat": messages,
            "mixed": messages,
            "coded": texts,
            "a.b": texts,
        }
    )
    path = tmp_path / "a.parquet"
    dictionary = ["mixed.list.element.role", "coded"]
    pq.write_table(
        table,
        path,
        compression=codec,
        data_page_version=version,
        use_dictionary=dictionary,
        row_group_size=3_000,
    )
    row_only = find_row_only_columns(path, {})
    assert row_only.names == {"text", "n", "chat", "a.b"}
    known_bytes = {"text": count_plain_bytes(pa.array(texts)), "n": 8 * 7_000}
    assert find_row_only_columns(path, known_bytes).names == row_only.names
    assert find_row_only_columns(path, known_bytes | {"text": known_bytes["text"] - 1}).names == {
        "n",
        "chat",
        "a.b",
    }
    pages: dict[str, bytes] = {}
    for name, page in read_pages(path, row_only):
        pages[name] = pages.get(name, b"") + page.tobytes()
    assert len(pages["text"]) < 2_000 and len(pages["n"]) < 2_000, (
        "of the pages of rows only, the levels are left"
    )
    assert b"row 1" in pages["coded"] and b"row 1" in pages["mixed.list.element.content"]
    assert not [
        name
        for name, page in pages.items()
        if name.startswith(("text", "chat")) and b"row 1" in page
    ]
    outside = b"".join(part.tobytes() for part in read_bytes_outside_pages(path))
    assert b"PAR1" in outside and len(outside) < path.stat().st_size / 2


def test_a_page_with_more_than_its_rows_is_searched(tmp_path: Path) -> None:
    """A page of a file without compression gets one more value than its header counts."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": ["aaaa", "bbbb"]}),
        path,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )
    assert find_row_only_columns(path, {}).names == {"text"}
    with mock.patch.object(
        parquet_pages,
        "_decompress_pages",
        side_effect=lambda *arguments: add_slack(DECOMPRESS(*arguments)),
    ):
        assert find_row_only_columns(path, {}) == RowOnlyColumns()


DECOMPRESS = parquet_pages._decompress_pages


def add_slack(pages: Iterator[parquet_pages.Page]) -> Iterator[parquet_pages.Page]:
    return (
        dataclasses.replace(
            page, data=np.append(page.data, np.frombuffer(b"\4\0\0\0cccc", np.uint8))
        )
        for page in pages
    )


def test_spill_files_are_removed(output: Path) -> None:
    before = sorted(path.relative_to(output.parent) for path in output.parent.rglob("*"))
    verify(output, workers=1)
    plant_in_texts(output)
    with pytest.raises(LeakFound):
        verify(output, workers=1)
    assert sorted(path.relative_to(output.parent) for path in output.parent.rglob("*")) == before


# ---- decodings, compared with other decoders ----

NOISE = [
    "a",
    "b@",
    " ",
    "\n",
    "=3D",
    "=\n",
    "%25",
    "%C3%A9",
    "&amp;",
    "&nbsp;",
    "\\n",
    "\\u00e9",
    "\u200b",
    "Zm9v",
    "12 34",
    "616263646566676869",
    "MFRGGZDFMZTWQ2LK",
    "\n#86)C\n",
    "\r\n> ",
    "\u0663",
    "\u6f22",
    ".",
]
noise = st.lists(st.sampled_from(NOISE), max_size=8).map("".join)
names = st.text("abcxyz.", min_size=3, max_size=9).map(lambda text: f"n{text}m@h{text}.example.com")
DECODED_ENCODINGS = [
    encoding
    for encoding in ENCODINGS
    if form_name(encoding) in ENCODED_FORMS and encoding not in NUMBERS
]
ESCAPED_FORMS = (
    "zero-width",
    "HTML",
    "URL",
    "JSON",
    "CSS",
    "wrapped address",
    "quoted-printable",
    "UTF-7",
    "hexadecimal",
)


@settings(max_examples=150, deadline=None)
@given(
    before=noise,
    after=noise,
    value=names,
    encoding=st.sampled_from(DECODED_ENCODINGS),
    texts=st.integers(0, 2),
)
def test_encoded_values_are_decoded_and_located(
    before: str, after: str, value: str, encoding: str, texts: int
) -> None:
    raw = encode_value(encoding, value).decode()
    text = f"{before} {raw} {after}"
    column = pa.array([*([after] * texts), text, before], pa.large_string())
    locations = set()
    for decoding in iter_decodings(column, len(value) + 4):
        if decoding.form != form_name(encoding):
            continue
        for number, piece in enumerate(decoding.pieces):
            decoded = piece.as_buffer().to_pybytes() if piece.as_buffer() is not None else b""
            offset = decoded.find(value.encode())
            if offset >= 0:
                span = decoding.find_encoded_spans(
                    np.array([number]), np.array([offset]), np.array([offset + len(value)])
                )
                locations.add(
                    (
                        int(span.text_no[0]),
                        int(span.start[0]),
                        int(span.end[0]),
                        bool(span.is_encoded[0]),
                    )
                )
    start = len(before.encode()) + 1
    if form_name(encoding) in ESCAPED_FORMS:
        low, high = 0, len(raw.encode() if encoding != "wrapped address" else value.encode())
    elif form_name(encoding) == "base64":  # six bits per character, after the skipped blanks
        low, high = 8 * int(encoding[-1]) // 6, -(-8 * (int(encoding[-1]) + len(value)) // 6)
    elif encoding in ("base32", "base32hex"):  # five bits per character, after one skipped blank
        low, high = 8 // 5, -(-8 * (1 + len(value)) // 5)
    elif encoding == "ASCII85":  # between the marks
        low, high = 2, len(raw) - 2
    elif encoding == "uuencode":
        # after the line end and the character that says how many bytes the line has
        low, high = 2, len(raw) - 1 - (2 - (len(value) - 1) % 3)  # the last group of four is padded
    else:
        low = raw.encode().index(value.encode("utf-16-le"))
        high = low + 2 * len(value)
    assert (texts, start + low, start + high, True) in locations


def decoded_pieces(form: str, *texts: str) -> list[bytes]:
    """The decoded pieces of one decoding of a column."""
    decodings = (
        decoding
        for decoding in iter_decodings(pa.array(texts, pa.large_string()), 40)
        if decoding.form == form
    )
    return [
        bytes(piece.as_buffer()) if piece.as_buffer() is not None else b""
        for decoding in decodings
        for piece in decoding.pieces
    ]


def reference_base64_texts(text: str, value: bytes) -> set[tuple[int, int]]:
    """The spans of a text of ASCII whose base64 decodes to a value, by the standard library: each
    line alone, and lines in a row."""
    found = set()
    lines = [match.span() for match in re.finditer(r"[A-Za-z0-9+/_-]+", text)]
    blocks = [[line] for line in lines if line[1] - line[0] >= 11]
    for number in range(len(lines)):
        block = [lines[number]]
        for line in lines[number + 1 :]:
            last = block[-1]
            if last[1] - last[0] < 11 or not re.fullmatch(
                r"[ \t\r]*\n[ \t>|#*]*", text[last[1] : line[0]]
            ):
                break
            block.append(line)
        blocks.append(block if len(block) > 1 else [])
    for block in blocks:
        places = [place for line in block for place in range(*line)]
        chars = "".join(text[place] for place in places).replace("-", "+").replace("_", "/")
        for alignment in range(4):
            part = chars[alignment : len(chars) - ((len(chars) - alignment) % 4 == 1)]
            decoded = base64.b64decode(part + "=" * (-len(part) % 4)) if len(part) > 1 else b""
            for match in re.finditer(re.escape(value), decoded):
                first, last = (
                    alignment + match.start() * 8 // 6,
                    alignment + (match.end() * 8 - 1) // 6,
                )
                found.add((places[first], places[last] + 1))
    return found


BASE64_VALUES = [
    "ann.lee@example.com",
    "j\u00f6rg@m\u00fcller.example",
    "\u0410\u043d\u043d\u0430 \u041b\u0438",
    "12 High St",
]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_base64_is_found_at_every_alignment_and_over_line_ends(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(BASE64_VALUES))
    filler = st.text("aZ: \n\u00e9\u00ff", max_size=5)
    raw = base64.b64encode(f"{data.draw(filler)}{value}{data.draw(filler)}".encode()).decode()
    if data.draw(st.booleans()):
        raw = raw.replace("+", "-").replace("/", "_").rstrip("=")
    width = data.draw(st.sampled_from([9, 11, 13, 20, 76]))
    line_end = data.draw(st.sampled_from(["\n", "\r\n", "\n ", "\n      ", "\n>> ", "\n\n"]))
    raw = line_end.join(raw[start : start + width] for start in range(0, len(raw), width))
    text = (
        data.draw(st.sampled_from(["", "word ", "x", "abc", "internationalization\n", "Q\n"]))
        + raw
        + data.draw(st.sampled_from(["", " end", "=", "\nwords"]))
    )
    column = pa.array(["internationalization", text, raw[:7]], pa.large_string())
    found = set()
    for decoding in iter_decodings(column, 40, ("base64",)):
        for number, piece in enumerate(decoding.pieces):
            for match in re.finditer(re.escape(value.encode()), piece.as_buffer().to_pybytes()):
                span = decoding.find_encoded_spans(
                    np.array([number]), np.array([match.start()]), np.array([match.end()])
                )
                found.add((int(span.text_no[0]), int(span.start[0]), int(span.end[0])))
    expected = {(1, start, end) for start, end in reference_base64_texts(text, value.encode())}
    assert found >= expected, (found, expected)
    assert all(number == 1 for number, _, _ in found)


BASE64_SIGNS = "n???>>>~~~m"  # its base64 has both signs that differ in URL-safe base64
BASE64_ADDRESS = base64.b64encode(b"ann.lee@example.com").decode()
# form, text, decoded content, and whether it is decoded: each limit from both sides
LIMITS = [
    ("base64", base64.b64encode(b"a@b.exam").decode(), b"a@b.exam", True),
    ("base64", base64.b64encode(b"a@b.exa").decode(), b"a@b.exa", False),
    (
        "base64",
        base64.urlsafe_b64encode(BASE64_SIGNS.encode()).decode(),
        BASE64_SIGNS.encode(),
        True,
    ),
    ("base64", f"{BASE64_ADDRESS[:14]}\r\n\t{BASE64_ADDRESS[14:]}", b"ann.lee@example.com", True),
    (
        "base64",
        f"{BASE64_ADDRESS[:14]}\n{' ' * 39}{BASE64_ADDRESS[14:]}",
        b"ann.lee@example.com",
        True,
    ),
    (
        "base64",
        f"{BASE64_ADDRESS[:14]}\n{' ' * 41}{BASE64_ADDRESS[14:]}",
        b"ann.lee@example.com",
        False,
    ),
    ("base64", f"{BASE64_ADDRESS[:14]}\n- {BASE64_ADDRESS[14:]}", b"ann.lee@example.com", False),
    ("base32hex", base64.b32hexencode(b"ann@example.").decode(), b"ann@example.", True),
    ("base32hex", base64.b32hexencode(b"ann@example").decode(), b"ann@example", False),
    ("hexadecimal", b"ann@example.".hex(" "), b"ann@example.", True),
    ("hexadecimal", b"ann@example".hex(" "), b"ann@example", False),
    ("ASCII85", base64.a85encode(b"a@b.exam", adobe=True).decode(), b"a@b.exam", True),
    ("ASCII85", base64.a85encode(b"a@b.exa", adobe=True).decode(), b"a@b.exa", False),
    ("UTF-16", "abcd".encode("utf-32-be").decode(), b"abcd", True),
    ("UTF-16", "abc".encode("utf-32-be").decode(), b"abc", False),
    ("digits", "as 555-0123 once", b"5550123", True),
    ("digits", "as 555-012 once", b"555012", False),
    ("digits", "555 - (0123", b"5550123", True),
    ("digits", "555 - ( 0123", b"5550123", False),
    ("UTF-16", "abcd".encode("utf-16-le").decode(), b"abcd", True),
    ("UTF-16", "abc".encode("utf-16-le").decode(), b"abc", False),
    (
        "UTF-16",
        "ab\u0416\u0416\u0416cd".encode("utf-16-le").decode(),
        "ab\u0416\u0416\u0416cd".encode(),
        True,
    ),
    (
        "UTF-16",
        "\u0416\u0416\u0416\u0416\u0416abcd".encode("utf-16-le").decode(),
        "\u0416\u0416\u0416\u0416\u0416abcd".encode(),
        True,
    ),
]


@pytest.mark.parametrize(("form", "text", "content", "is_decoded"), LIMITS)
def test_minimum_lengths_of_decodings(
    form: str, text: str, content: bytes, is_decoded: bool
) -> None:
    assert any(content in piece for piece in decoded_pieces(form, text)) == is_decoded


def test_escape_across_two_texts_is_not_decoded() -> None:
    assert decoded_pieces("URL", "ann%4", "0example.com") == [] and decoded_pieces(
        "URL", "ann%40example.com", "x"
    ) == [b"ann@example.com"]


def reference_decode(form: str, text: str) -> str:
    """The whole text decoded by the standard library."""
    if form == "HTML":
        return html.unescape(html.unescape(text))
    if form == "URL":
        return urllib.parse.unquote(urllib.parse.unquote(text))
    if form == "quoted-printable":
        return quopri.decodestring(text.encode()).decode("utf-8", "replace")
    assert form == "zero-width"
    return text.replace("\u200b", "").replace("\u00ad", "")


TEXT_PIECES = [
    "a@b.example",
    "a%40b.",
    "example",
    "&#64;",
    "b",
    "=40",
    "=\n",
    "%2540",
    "\u00ad",
    "a",
    "&amp;#64;",
    ".",
    "b.example ",
    "&commat;",
]
piece = st.sampled_from([*TEXT_PIECES, "b.example ", " ", "\u200b"])


@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(piece, max_size=12).map("".join),
    form=st.sampled_from(["HTML", "URL", "quoted-printable", "zero-width"]),
)
def test_decodings_equal_the_standard_library(text: str, form: str) -> None:
    value = "a@b.example"
    count = 0
    for decoding in iter_decodings(pa.array([text], pa.large_string()), len(value) + 4, (form,)):
        for number, piece in enumerate(decoding.pieces):
            raw = piece.as_buffer().to_pybytes() if piece.as_buffer() is not None else b""
            offset = raw.find(value.encode())
            while offset >= 0:
                count += int(
                    decoding.find_encoded_spans(
                        np.array([number]), np.array([offset]), np.array([offset + len(value)])
                    ).is_encoded[0]
                )
                offset = raw.find(value.encode(), offset + 1)
    if form == "quoted-printable" and text.rstrip(" ") != text:
        text = text + "."  # the standard library drops blanks at the end of a text
    if form in ("HTML", "URL") and any(
        double_escape in text for double_escape in ("&amp;#64;", "%25")
    ):
        assert count >= reference_decode(form, text).count(value) - text.count(value) - (
            text.count("&amp;") + text.count("%25")
        )
    else:
        assert count == reference_decode(form, text).count(value) - text.count(value)


@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(
            ["a" * 32, "A" * 40, "0f" * 32, "b" * 128, "b" * 33, "zz", " ", ":", "_", "\n"]
        ),
        max_size=8,
    )
)
def test_digest_candidates_are_found(words: list[str]) -> None:
    text = "".join(words)
    digests, spans = find_digests(pa.array(["f" * 32, text], pa.large_string()))
    expected = [
        match.group().lower()
        for match in re.finditer(r"[0-9A-Fa-f]+", text)
        if len(match.group()) in (32, 40, 64, 128)
    ]
    assert digests == ["f" * 32, *expected] and spans.text_no.tolist() == [0] + [1] * len(expected)
    assert [
        text[low:high].lower() for low, high in zip(spans.start[1:], spans.end[1:], strict=True)
    ] == expected


BYTE_PIECES = [
    b"hello there",
    b"\0",
    b"\xff",
    b"caf\xc3\xa9 au lait",
    b"\xe6\xbc\xa2",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"\t\n",
    b"\xc0\x80",
]


@settings(max_examples=150, deadline=None)
@given(raw=st.lists(st.sampled_from([*BYTE_PIECES, b"\xc0\x80"]), max_size=8).map(b"".join))
def test_readable_bytes_are_those_that_decode(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    runs = re.findall(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]+", text)
    assert extract_readable_texts(np.frombuffer(raw, np.uint8)).to_pylist() == [
        run for run in runs if len(run.encode()) >= 6
    ]


# ---- large corpora ----


@pytest.mark.soak
def test_ten_million_values_in_bounded_memory(tmp_path: Path) -> None:
    from benchmarks.bench_verify import measure_check

    result = measure_check(tmp_path, values=10_000_000, mb=20)
    assert (
        4 < result["passes"] < 8
        and result["peak_rss_mb"] < 1_500
        and result["found"] == result["planted"]
    )


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["fast", "rows", "full"])
def test_memory_for_two_million_values_follows_the_limit(tmp_path: Path, mode: str) -> None:
    """A process with all libraries and one batch takes about 320 MB; prepared search terms are
    memory-mapped in addition."""
    from benchmarks.bench_verify import measure_check

    for limit, max_rss_mb in (("100MB", 650), ("1GB", 1_300)):
        result = measure_check(tmp_path / limit, values=2_000_000, mb=5, mode=mode, limit=limit)
        assert result["peak_rss_mb"] < max_rss_mb and result["found"] == result["planted"], result


def test_files_without_shards_are_checked(tmp_path: Path) -> None:
    build_search_terms(tmp_path, [(MAIL, BOB)])
    (tmp_path / "page.txt").write_text(f"see {BOB}")
    engine = LocalEngine(workers=1, spill=tmp_path)
    page = [(tmp_path / "page.txt", "page.txt")]
    result = check_files(engine, [], page, (tmp_path / "terms",), own_files=["page.txt"])
    assert [str(finding) for finding in result.findings] == [f"page.txt, text: 1 {MAIL} (exact)"]


# a return path of a mailing list, with the address of the receiver
BOUNCE = "sentto-22425-54-yyyy=localhost.example@returns.example.org"


@pytest.mark.parametrize("seed", range(4))
def test_an_encoded_value_that_a_variant_would_keep_is_removed(tmp_path: Path, seed: int) -> None:
    """RMFT keeps one part of an address; `=` stands for `@` in its first one. What a run or a
    stream publishes passes the same check."""
    mails = [
        f"Return-Path: <{BOUNCE}>\n\nto yyyy@localhost.example, again {BOUNCE}" for _ in range(8)
    ]
    pl.DataFrame({"text": ["to yyyy@localhost.example and ann@example.com", *mails]}).write_parquet(
        tmp_path / "in.parquet"
    )
    sanitize.run(tmp_path / "in.parquet", tmp_path / "out", seed=seed, workers=1, plan="rmft")
    assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
    streamed = [
        row["text"]
        for row in sanitize.stream(
            pl.read_parquet(tmp_path / "in.parquet").to_dicts(), seed=seed, plan="rmft"
        )
    ]
    for texts in (pl.read_parquet(tmp_path / "out/data/*.parquet")["text"].to_list(), streamed):
        # the first one, which RMFT keeps; `=` stands for `@` in another spelling of it
        assert sum(text.count("yyyy@localhost.example") for text in texts) == 1
        assert not any("yyyy=localhost.example" in text for text in texts)


ODD_ADDRESSES = {
    "the sign is a =": [
        f"Mail {number}: to mary.jones=40acme.org or ann.lee@example.com; sender"
        " list-ann.lee=example.com@lists.example.org"
        for number in range(4)
    ],
    # `ann.lee` is a last name of the corpus: a variant of the encoded address may hold its own
    # address
    "a name of another address": [
        (
            "Write to mr.ann.lee@acme.org, smith@example.com, john.smith@acme.org,"
            " mary.jones@acme.org, ann.lee@example.com."
        ),
        *(
            f"Mail {number}: https://news.example.net/u?e=ann.lee%40example.com&n={number}"
            for number in range(60)
        ),
    ],
    "dots and tags": [
        "ann.lee+news@gmail.com, annlee@gmail.com, x.annlee@gmail.com",
        *["Ann.Lee@gmail.com and a.nnlee@gmail.com"] * 6,
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["rmft", "names", "pseudonymize", "redact"])
@pytest.mark.parametrize("case", ODD_ADDRESSES)
def test_verify_agrees_with_the_run_on_odd_addresses(tmp_path: Path, case: str, plan: str) -> None:
    pl.DataFrame({"text": ODD_ADDRESSES[case]}).write_parquet(tmp_path / "in.parquet")
    for seed in (1, 2) if plan == "rmft" else (1,):
        sanitize.run(
            tmp_path / "in.parquet", tmp_path / "out", plan=plan, seed=seed, workers=1, replace=True
        )
        assert sanitize.verify(tmp_path / "out", workers=1).leaks == 0
    if case == "the sign is a =" and plan == "rmft":
        run_folder = next((tmp_path / "out.private" / "runs").iterdir())
        replacements = pl.read_parquet(run_folder / "edits" / "00000.parquet")["replacement"]
        assert (
            not replacements.str.contains("[", literal=True).any()
            and replacements.str.contains("=").any()
        ), "variants, no labels"
