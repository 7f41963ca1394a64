"""The full check: one leak is planted for each location and form, and all are found; nothing else is; passes bound memory."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import importlib
import json
import quopri
import re
import shutil
import unicodedata
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.engines.local import LocalEngine
from sanitize.errors import LeakFound, OutputBroken, UsageError
from sanitize.kinds.kind import list_kinds
from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.storage import table_schemas
from sanitize.storage.corpus import file_sha256, write_table_rows
from sanitize.text import literal_search
from sanitize.text.decodings import ENCODED_FORMS, find_digests, iter_decodings
from sanitize.text.literal_search import LiteralMatcher
from sanitize.verification import full_check, value_forms
from sanitize.verification.leak_check import verify
from sanitize.verification.parquet_pages import extract_readable_texts, read_pages
from sanitize.verification.value_forms import ALL_FORMS, SearchTerms, write_passes

leak_check = importlib.import_module("sanitize.verification.leak_check")  # the module: `sanitize.verify` is also the name of what it does
MAIL, TEL, IBAN = "EMAIL_ADDRESS", "PHONE_NUMBER", "IBAN_CODE"
BASE64 = [f"base64 {skip}" for skip in range(3)]
DIGESTS = ["digest md5", "digest sha1", "digest sha256"]
WAYS = [way for form in ALL_FORMS for way in {"base64": BASE64, "digest": DIGESTS}.get(form, [form])]


def value_of(way: str) -> str:
    """The value that is planted in this encoding, as spelled in the corpus: a different one for each encoding."""
    number = WAYS.index(way)
    if way == "digits":
        return "212-555-0123"
    if way == "identity":
        return "GB82 WEST 1234 5698 7654 32"
    return f"person{number}.{'abcdefghijklmnopqr'[number]}ow@planted{number}.example.com"


def kind_of(way: str) -> str:
    return {"digits": TEL, "identity": IBAN}.get(way, MAIL)


def written(way: str, value: str) -> bytes:
    """A value in each encoding."""
    raw = value.encode()
    if way.startswith("base64"):
        return base64.b64encode(b" " * int(way[-1]) + raw + b" and so on")
    if way.startswith("digest"):
        return hashlib.new(way.split()[1], raw).hexdigest().encode()
    made: dict[str, Callable[[], bytes]] = {
        "exact": lambda: raw,
        "case-folded": raw.upper,
        "identity": lambda: raw.replace(b" ", b""),
        "NFKC": lambda: "".join(chr(ord(letter) + 0xFEE0) for letter in value).encode(),
        "zero-width": lambda: value.replace("@", "\u200b@\u2060").replace("o", "o\u00ad").encode(),
        "HTML": lambda: value.replace("@", "&#64;").replace("p", "&#x70;", 1).encode(),
        "URL": lambda: urllib.parse.quote(value).encode(),
        "JSON": lambda: value.replace("@", "\\u0040").encode(),
        "quoted-printable": lambda: raw.replace(b"@", b"=40").replace(b"example", b"exam=\nple"),
        "UTF-16": lambda: value.encode("utf-16-le"),
        "digits": lambda: bytes(byte for byte in raw if 48 <= byte < 58),
    }
    return made[way]()


def settings_of(**more: Any) -> Settings:
    return Settings(**{"seed": 1, "workers": 1, "rows_per_shard": 20, **more})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus that holds every value of WAYS, with a label in place of each."""
    folder = tmp_path_factory.mktemp("full")
    texts = [f"Please ask {value_of(way)} about it." for way in WAYS]
    more = [f"nothing here {number}" for number in range(len(WAYS))]
    turns = [[{"content": one}] for one in more]
    table = pa.table({"text": texts, "note": more, "turns": turns, "n": list(range(len(WAYS))), "raw": [one.encode() for one in more]})
    pq.write_table(table, folder / "in.parquet")
    columns = Columns(policies={"note": "keep", "turns": "keep", "raw": "keep"})
    run([folder / "in.parquet"], folder / "out", load_plan("redact"), None, settings_of(columns=columns))
    return folder / "out"


@pytest.fixture()
def clean(published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published, tmp_path / "out")
    shutil.copytree(Path(f"{published}.private"), tmp_path / "out.private")
    return tmp_path / "out"


def shard_of(out: Path) -> Path:
    return out / "data" / "train-00000-of-00001.parquet"


def agreed(out: Path) -> None:
    """Rewrite the manifest so that it matches the changed shard."""
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["shards"][0] |= {"sha256": file_sha256(shard_of(out)), "bytes": shard_of(out).stat().st_size}
    (out / "manifest.json").write_text(json.dumps(manifest))


def rewrite(out: Path, change: Callable[[pa.Table], pa.Table], **more: Any) -> None:
    found = change(pq.read_table(shard_of(out)))
    shard_of(out).unlink()
    pq.write_table(found, shard_of(out), **more)
    agreed(out)


def with_column(out: Path, name: str, column: Sequence[Any], kind: pa.DataType) -> None:
    rewrite(out, lambda table: table.set_column(table.schema.get_field_index(name), name, pa.array(column, kind)))


def leaks() -> list[bytes]:
    return [b"see " + written(way, value_of(way)) + b" now" for way in WAYS]


def in_texts(out: Path) -> None:
    with_column(out, "text", [raw.decode() for raw in leaks()], pa.large_string())


def in_strings(out: Path) -> None:
    with_column(out, "note", [raw.decode() for raw in leaks()], pa.large_string())


def in_nested(out: Path) -> None:
    kind = pa.large_list(pa.struct([("content", pa.large_string())]))
    with_column(out, "turns", [[{"content": raw.decode()}] for raw in leaks()], kind)


def in_bytes(out: Path) -> None:
    with_column(out, "raw", leaks(), pa.large_binary())


def in_pages(out: Path) -> None:
    """Plant values in a dictionary with entries that no row uses, as filtering leaves them."""

    def change(table: pa.Table) -> pa.Table:
        entries = pa.array(["nothing", *(raw.decode() for raw in leaks())])
        coded = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), entries)
        return table.set_column(table.schema.get_field_index("note"), "note", coded)

    rewrite(out, change, compression="zstd", store_schema=False)
    assert "see" not in str(pq.read_table(shard_of(out)).to_pydict())


def in_footer(out: Path) -> None:
    rewrite(out, lambda table: table.replace_schema_metadata({f"key{no}": raw for no, raw in enumerate(leaks())}))


def in_slack(out: Path) -> None:
    """Plant values in bytes before the footer that belong to no page."""
    raw = shard_of(out).read_bytes()
    at = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    shard_of(out).unlink()
    shard_of(out).write_bytes(raw[:at] + b"\0\1\0".join(leaks()) + b"\0" + raw[at:])
    assert pq.read_table(shard_of(out)).num_rows
    agreed(out)


def in_page(out: Path) -> None:
    with (out / "README.md").open("ab") as file:
        file.write(b"\n" + b"\n\n".join(leaks()))


def in_manifest(out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**manifest, "notes": [raw.decode() for raw in leaks()]}, ensure_ascii=False))


def in_foreign(out: Path) -> None:
    (out / "more").mkdir()
    (out / "more" / "notes.bin").write_bytes(b"\x00\xff\x01\xfe".join(leaks()))


def in_packed(out: Path) -> None:
    (out / "notes.txt.gz").write_bytes(gzip.compress(b"\n".join(leaks())))


def in_names(out: Path) -> None:
    for raw in leaks():
        name = raw.decode().replace("\n", "").replace("\0", "")
        (out / name).touch()


def in_column_names(out: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        for raw in leaks():
            table = table.append_column(raw.decode().replace("\0", ""), pa.array([None] * table.num_rows, pa.bool_()))
        return table

    rewrite(out, change, store_schema=False)


SHARD = "data/train-00000-of-00001.parquet"
NO_UTF16 = [way for way in WAYS if way != "UTF-16"]
# JSON writes line ends and zeros as escapes, and names have none
ONE_LINE = [way for way in NO_UTF16 if way != "quoted-printable"]
PLACES: dict[str, tuple[Callable[[Path], None], str, str, list[str]]] = {
    # what plants, the file, how the place begins, and the ways that a leak can be written there
    "a text": (in_texts, SHARD, "column text", WAYS),
    "a kept column": (in_strings, SHARD, "column note", WAYS),
    "a nested column": (in_nested, SHARD, "column turns", WAYS),
    "a column of bytes": (in_bytes, SHARD, "column raw", WAYS),
    "a page that no row uses": (in_pages, SHARD, "a page of column note", WAYS),
    "the footer": (in_footer, SHARD, "raw bytes", WAYS),
    "between the pages": (in_slack, SHARD, "raw bytes", WAYS),
    "the card": (in_page, "README.md", "text", WAYS),
    "the manifest": (in_manifest, "manifest.json", "text", ONE_LINE),
    "a foreign file": (in_foreign, "foreign file 1", "bytes", WAYS),
    "a packed file": (in_packed, "foreign file 1", "text", WAYS),
    "file names": (in_names, "", "file name", ONE_LINE),
    "column names": (in_column_names, SHARD, "column names", NO_UTF16),
}


def form_of(way: str) -> str:
    return way.split()[0] if way.startswith(("base64", "digest")) else way


@pytest.mark.parametrize("place", PLACES)
def test_a_leak_in_each_form_is_found(clean: Path, place: str) -> None:
    plant, file, begins, ways = PLACES[place]
    plant(clean)
    with pytest.raises(LeakFound) as caught:
        verify(clean, workers=1)
    found: dict[tuple[str, str], int] = {}
    for one in caught.value.findings:
        if str(one["file"]).startswith(file) and str(one["location"]).startswith(begins):
            where = (str(one["kind"]), str(one["form"]))
            found[where] = found.get(where, 0) + int(str(one["count"]))
    expected: dict[tuple[str, str], int] = {}
    for way in ways:
        expected[kind_of(way), form_of(way)] = expected.get((kind_of(way), form_of(way)), 0) + 1
    assert {where: found.get(where, 0) >= times for where, times in expected.items()} == dict.fromkeys(expected, True)
    said = str(caught.value) + repr(caught.value.findings)
    assert caught.value.exit_code == 4 and not [
        way for way in WAYS if value_of(way) in said or written(way, value_of(way)).decode() in said
    ]


def test_nothing_planted_is_nothing_found(clean: Path) -> None:
    """The same folder as sanitize writes it, and as other writers would: dictionaries, statistics, Arrow's schema, other codecs."""
    first = verify(clean, workers=1)
    assert (first["leaks"], first["mode"], first["values_checked"], first["ambiguous"]) == (0, "full", len(WAYS), {})
    assert first["forms"] == list(ALL_FORMS) and first["passes"] == 1
    assert set(first["bytes_searched"]) == {"rows", "pages", "raw bytes", "other files"} and all(first["bytes_searched"].values())
    others: list[dict[str, Any]] = [{"compression": codec} for codec in ("none", "snappy", "gzip", "lz4", "brotli")]
    others += [
        {"data_page_version": "2.0", "compression": "zstd"},
        {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
    ]
    for more in others:
        rewrite(clean, lambda table: table, **more)
        again = verify(clean, workers=1)
        assert (again["leaks"], again["rows"], again["ambiguous"]) == (0, first["rows"], {}), more


def test_a_number_column_that_holds_a_number(clean: Path) -> None:
    numbers = [0] * (len(WAYS) - 1)
    for column, kind in (([*numbers, 2125550123], pa.int64()), ([*numbers, 12125550123.0], pa.float64())):
        with_column(clean, "n", column, kind)
        with pytest.raises(LeakFound) as caught:
            verify(clean, workers=1)
        assert [(one["location"], one["kind"], one["form"]) for one in caught.value.findings] == [("column n", TEL, "digits")]


def test_fast_and_full_are_two_looks(clean: Path) -> None:
    in_footer(clean)
    assert verify(clean, mode="fast", workers=1)["leaks"] == 0
    with pytest.raises(LeakFound):
        verify(clean, mode="full", workers=1)
    with pytest.raises(UsageError, match="fast, full"):
        verify(clean, mode="thorough")


def test_a_broken_page_is_a_broken_out(clean: Path) -> None:
    raw = bytearray(shard_of(clean).read_bytes())
    column = pq.read_metadata(shard_of(clean)).row_group(0).column(0)
    raw[column.data_page_offset] = 0xFF
    shard_of(clean).unlink()
    shard_of(clean).write_bytes(raw)
    agreed(clean)
    with pytest.raises((OutputBroken, OSError)):
        list(read_pages(shard_of(clean)))


# ---- what is kept, what is short, what came about by editing ----

BOB, LEE = "bob.lee@example.com", "ann.lee@example.org"


def corpus(folder: Path, lines: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"text": list(lines)}), folder / "in.parquet")
    return folder / "in.parquet"


def go(folder: Path, lines: Sequence[str], plan: str = "rmft", **more: Any) -> Path:
    run([corpus(folder, lines)], folder / "out", load_plan(plan), None, settings_of(**more))
    return folder / "out"


def test_a_kept_first_is_allowed_where_it_was_kept_and_in_no_other_place(tmp_path: Path) -> None:
    out = go(tmp_path, [f"from {BOB.title()} and 212-555-0123", f"again {BOB}", "nothing"])
    assert verify(out, workers=1)["leaks"] == 0
    for one in (base64.b64encode(f"was {BOB}".encode()).decode(), BOB, urllib.parse.quote(BOB), "2125550123"):
        with_column(out, "text", [pq.read_table(shard_of(out)).column("text")[0].as_py(), "again", f"see {one}"], pa.large_string())
        with pytest.raises(LeakFound) as caught:
            verify(out, workers=1)
        assert {str(one["location"]) for one in caught.value.findings if "column" in str(one["location"])} == {"column text"}


def test_what_a_plan_leaves_is_no_leak(tmp_path: Path) -> None:
    lines = ["see http://www.example.com/a?b=c and http%3A%2F%2Fwww.example.com%2Fa%3Fb%3Dc", f"mail {BOB}"]
    assert verify(go(tmp_path, lines), workers=1)["leaks"] == 0


@pytest.mark.parametrize(
    "written", ["Blue&nbsp;Heron", "Blue&#160;Heron", "Blue\\u00a0Heron", "Blue=C2=A0Heron", "Blue%C2%A0Heron", "Bl&#xFF55;e Heron"]
)
def test_an_escape_is_read_in_its_compatibility_form(tmp_path: Path, written: str) -> None:
    """The HTML escape of a no-break space counts as a space, as does the character itself."""
    needles = needles_of(tmp_path, [(MAIL, "Blue Heron")])
    look = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    look.check_texts("text", pa.array([f"project {written} it is, and =3D", "nothing &eacute; %20 \\u00e9"], pa.large_string()))
    assert len(look.leaks) == 1 and set(look.leaks.values()) == {1}


@pytest.mark.parametrize(("kind", "seen_in"), [("PERSON", 3), (MAIL, 4)])
@pytest.mark.parametrize("way", ["NFC", "NFD"])
def test_composed_and_decomposed_letters_are_one_value_to_both_checks(tmp_path: Path, way: str, kind: str, seen_in: int) -> None:
    """A combining accent after its letter, or both as one character: whichever form the value was found in, the other is found too. An
    accent after a name makes it another word; after the value of a pattern it is outside the value."""
    value, others = (
        unicodedata.normalize(way, "Andr\u00e9 \u00c5lund"),
        [unicodedata.normalize(one, "see ANDR\u00c9 \u00c5LUND.") for one in ("NFC", "NFD")],
    )
    column = pa.array([*others, f"as {value}", f"as {value}\u0301"], pa.large_string())
    LiteralMatcher.write([vault(tmp_path / "values.parquet", [(kind, value)])], (kind,), tmp_path / "flagged.parquet")
    flagged = LiteralMatcher.read(tmp_path / "flagged.parquet")
    seen = {int(no) for found in (flagged.find(column), flagged.find_nfkc(column)) for no in found.text_no}
    assert seen == set(range(seen_in))
    needles = needles_of(tmp_path, [(kind, value)])
    look = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    for no in range(4):
        look.leaks.clear()
        look.check_texts("text", column.slice(no, 1))
        assert bool(look.leaks) == (no < seen_in), no


def test_a_number_that_is_seen_as_it_stands_is_not_told_again_by_its_digits(tmp_path: Path) -> None:
    needles = needles_of(tmp_path, [("PHONE_NUMBER", "713-555-0123")])
    look = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    look.check_texts("text", pa.array(["call 713-555-0123 now", "or 713 / 555 / 0123"], pa.large_string()))
    assert {form: times for (_, _, _, form), times in look.leaks.items()} == {"exact": 1, "digits": 1}


# texts, and what stands in the last of them in a writing that only the full check knows as a value of the first
OTHERWISE = [
    (["see 713-555-0123 there", "as 713 555 / 0123 once"], "713 555 / 0123"),
    (["see 4111 1111 1111 1111", "as 4111/1111/1111/1111 once"], "4111/1111/1111/1111"),
    (["mail 20200102.ab12cd at example dot com", "Message-ID: <20200102.ab12cd@example.com>\n\nhello"], "20200102.ab12cd@example.com"),
]


@pytest.mark.parametrize(("lines", "other"), OTHERWISE)
def test_what_the_full_check_alone_finds_in_a_text_is_swept(tmp_path: Path, lines: list[str], other: str) -> None:
    """A number with other separators, an address in its identity form: a run with full verification sweeps them and reports it."""
    out = go(tmp_path, lines, verify="full")
    assert json.loads((out / "manifest.json").read_text())["summary"]["verify"]["swept"] == 1
    assert other not in str(pq.read_table(shard_of(out)).column("text"))
    assert verify(out, workers=1)["leaks"] == 0


@pytest.mark.parametrize("plan", ["redact", "rmft", "pseudonymize", "erase"])
def test_what_is_encoded_in_a_text_is_swept_and_nothing_else_of_it(tmp_path: Path, plan: str) -> None:
    """Every encoding that the full check decodes is swept: of base64 only the characters that contain the value are removed."""
    ways = [way for way in WAYS if form_of(way) not in ("exact", "case-folded", "NFKC")]
    lines = [f"ask {value_of(way)} of it" for way in ways for _ in range(2)]
    lines += [f"then \u20ac {written(way, value_of(way)).decode()} end" for way in ways]
    out = go(tmp_path, lines, plan, verify="full", rows_per_shard=7)
    told = json.loads((out / "manifest.json").read_text())["summary"]["verify"]
    texts = [row for shard in sorted((out / "data").iterdir()) for row in pq.read_table(shard).column("text").to_pylist()]
    assert verify(out, workers=1)["leaks"] == 0 and told["swept"] >= 10
    for way, text in zip(ways, texts[2 * len(ways) :], strict=True):
        assert text.startswith("then \u20ac ") and text.endswith(" end"), way
        assert written(way, value_of(way)).decode() not in text, way
        if way.startswith("base64"):  # what stood behind the value is there still
            assert text.endswith(written(way, value_of(way)).decode()[-8:] + " end"), (way, text)


def test_a_digest_in_what_stays_is_no_leak_and_elsewhere_it_goes(tmp_path: Path) -> None:
    """A digest in a kept address or in a Message-ID that the plan leaves is kept; as a word of its own, also in a URL, it is swept."""
    word, other = (hashlib.md5(one.encode()).hexdigest() for one in (BOB, "nobody"))
    lines = [
        f"of {BOB}",
        f"from <bounce-{word}@lists.example.com>",
        f"Message-ID: <{word}.1@mail.example.com>\n\nhello",
        f"see https://avatars.example.com/{word}.png there",
        f"it is {word.upper()}",
        other,
    ]
    out = go(tmp_path, lines, "rmft", verify="full")
    texts = pq.read_table(shard_of(out)).column("text").to_pylist()
    assert texts[:3] == lines[:3] and texts[5] == other
    assert texts[3:5] == [f"see https://avatars.example.com/[{MAIL}].png there", f"it is [{MAIL}]"]
    assert verify(out, workers=1)["leaks"] == 0
    with (out / "README.md").open("a") as file:
        file.write(f"\n{word}\n")
    with pytest.raises(LeakFound) as caught:
        verify(out, workers=1)
    assert {one["form"] for one in caught.value.findings} == {"digest"}


def test_a_longer_row_of_digits_is_not_swept(tmp_path: Path) -> None:
    out = go(tmp_path, ["call 713-555-0123", "row 99 713 555 / 0123 45, no 9971355501234"], "redact", verify="full")
    assert json.loads((out / "manifest.json").read_text())["summary"]["verify"]["swept"] == 0


def test_short_values_are_counted_apart(tmp_path: Path) -> None:
    out = go(tmp_path, ["the mail <a@b> and 10.1.2.3 here", "nothing"], "redact")
    with (out / "README.md").open("a") as file:
        file.write("\na line with a@b in it, and once more (a@b), but A@B and xa@bx are others\n")
    result = verify(out, workers=1)
    assert (result["leaks"], result["ambiguous"], result["ambiguous_forms"]) == (0, {MAIL: 2}, {"exact": 2})


def test_short_words_count_as_they_are_spelled(tmp_path: Path) -> None:
    """A name such as Will is matched only in its own letter case and as a whole word."""
    needles = needles_of(tmp_path, [(MAIL, "Will"), (MAIL, BOB)])
    texts = pa.array(["Will will WILL, Willing", "goodWill Will."], pa.large_string())
    seen = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    seen.check_texts("text", texts)
    assert (dict(seen.leaks), dict(seen.ambiguous)) == ({}, {(MAIL, "exact"): 2})


def test_digits_of_several_numbers_are_ambiguous(tmp_path: Path) -> None:
    needles = needles_of(tmp_path, [(TEL, "212-555-0123")])
    texts = pa.array(["(212) 555.0123", "2125550123", "12125550123 x", "7 212 555 0123", "92125550123", "a2125550123b"], pa.large_string())
    seen = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    seen.check_texts("text", texts)
    assert dict(seen.leaks) == {("x", "text", TEL, "digits"): 3}
    assert dict(seen.ambiguous) == {(TEL, "digits"): 1}


ACROSS = {
    # text, what of it goes, replacement, and what is found
    "text and replacement": ("call 212- 10.1.2.3", " 10.1.2.3", "555-0123", (TEL, "exact", " (across an edit)")),
    "replacement and text": ("call 10.1.2.3 -0123", "10.1.2.3 ", "212-555", (TEL, "exact", " (across an edit)")),
    "nothing between": ("see bob.lee 10.1.2.3 @example.com", " 10.1.2.3 ", "", (MAIL, "exact", " (across an edit)")),
    "an encoded one": ("see bob.lee%40 10.1.2.3", " 10.1.2.3", "example.com", (MAIL, "URL", " (across an edit)")),
    "all of a replacement": ("see 10.1.2.3 now", "10.1.2.3", BOB, (MAIL, "exact", " (a replacement)")),
    "a replacement in other letters": ("see 10.1.2.3 now", "10.1.2.3", BOB.upper(), (MAIL, "case-folded", " (a replacement)")),
}


@pytest.mark.parametrize("case", ACROSS)
def test_a_value_that_edits_put_together_is_found(tmp_path: Path, case: str) -> None:
    source, goes, replacement, (kind, form, how) = ACROSS[case]
    out = go(tmp_path, [f"{BOB} and 212-555-0123", source, "x"], "redact")
    path = next(Path(f"{out}.private").glob("runs/*/edits/00000.parquet"))
    rows = [tuple(row.values()) for row in pq.read_table(path).to_pylist() if row["doc_no"] != 1]
    start = source.index(goes)
    rows.append((1, 0, start, start + len(goes), replacement, "redact", "IP_ADDRESS"))
    write_table_rows(path, table_schemas.EDITS.schema, rows)
    texts = pq.read_table(shard_of(out)).column("text").to_pylist()
    with_column(out, "text", [texts[0], source.replace(goes, replacement), "x"], pa.large_string())
    with pytest.raises(LeakFound) as caught:
        verify(out, workers=1)
    assert {"file": SHARD, "location": f"column text{how}", "kind": kind, "form": form, "count": 1} in list(caught.value.findings)


@pytest.mark.parametrize(
    ("real", "replacement", "collides"),
    [
        ("see http://www.example.com/real", "http://www.example.com/REAL", True),  # a kind the plan leaves: exact, in other letters
        ("card 4111 1111 1111 1111 left", "4111-1111-1111-1111", True),  # the same number by its kind's identity
        ("see http://www.example.com/real", "http://www.example.com/other", False),
    ],
)
def test_a_replacement_that_is_a_real_value_is_found(tmp_path: Path, real: str, replacement: str, collides: bool) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'leave = ["URL", "CREDIT_CARD"]\n[find]\nkinds = ["URL", "CREDIT_CARD", "EMAIL_ADDRESS"]\n'
        '[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS"]\n'
    )
    out = go(tmp_path, [real, f"x {BOB} y", "z"], str(plan))
    path = next(Path(f"{out}.private").glob("runs/*/edits/00000.parquet"))
    kind = "CREDIT_CARD" if "card" in real else "URL"
    rows = [(1, 0, 2, 2 + len(BOB), replacement, "redact", kind)]
    write_table_rows(path, table_schemas.EDITS.schema, rows)
    with_column(out, "text", [real, f"x {replacement} y", "z"], pa.large_string())
    if collides:
        with pytest.raises(LeakFound) as caught:
            verify(out, workers=1)
        assert {str(one["location"]) for one in caught.value.findings} == {"replacements that are values of the corpus"}
        assert {one["kind"] for one in caught.value.findings} == {kind}
    else:
        assert verify(out, workers=1)["leaks"] == 0


# ---- passes ----


def vault(path: Path, values: Sequence[tuple[str, str]]) -> Path:
    rows = []
    for number, (kind, value) in enumerate(values):
        normal = list_kinds()[kind].normalise(pl.Series([value]))[0]
        rows.append((number * 7 + 1, kind, value, None if normal == value else normal))
    write_table_rows(path, table_schemas.VALUE_SPELLINGS.schema, rows)
    return path


def needles_of(folder: Path, values: Sequence[tuple[str, str]], edited: Sequence[str] = tuple(list_kinds())) -> SearchTerms:
    folder.mkdir(exist_ok=True)
    made, _ = write_passes([vault(folder / "values.parquet", values)], list(edited), folder / "passes")
    assert len(made) == 1
    return SearchTerms.read(made[0])


def small(monkeypatch: pytest.MonkeyPatch, few: int = 0) -> None:
    """Passes are limited by memory, with few values too, and all processes share their matchers."""
    monkeypatch.setattr(value_forms, "MAX_UNSHARED_TERMS", few)
    monkeypatch.setattr(value_forms, "TERMS_PER_RANGE", 3)
    monkeypatch.setattr(literal_search, "MAX_UNSHARED_TERMS", few)
    monkeypatch.setattr(literal_search, "TERMS_PER_RANGE", 3)


def test_passes_part_the_values_and_lose_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [(MAIL, f"p{number}.q@example{number % 7}.com") for number in range(50)] + [
        (TEL, f"212-555-{number:04d}") for number in range(20)
    ]
    files = [vault(tmp_path / "a.parquet", values[:40]), vault(tmp_path / "b.parquet", values)]
    whole, _ = write_passes(files, [MAIL, TEL], tmp_path / "one")
    small(monkeypatch)
    parts, distinct = write_passes(files, [MAIL, TEL], tmp_path / "many", 20 * value_forms.PASS_BYTES_PER_TERM)
    assert len(whole) == 1 and 7 <= len(parts) <= 14 and distinct == 70

    def rows(passes: Sequence[Path]) -> list[list[tuple[Any, ...]]]:
        key = ("form", "kind", "term_type", "spelled")
        tables = [[value_forms._map_terms(path, name).to_pylist() for name in ("plain", "digits", "not_removed")] for path in passes]
        return [[tuple(row[name] for name in key) for table in three for row in table] for three in tables]

    assert sorted(row for part in rows(parts) for row in part) == sorted(rows(whole)[0])
    assert max(map(len, rows(parts))) <= 20
    sizes = [len(SearchTerms.read(path).plain) + len(SearchTerms.read(path).digits) for path in parts]
    assert sum(sizes) == 70 + 2 * 20
    assert [path.name for path in sorted((tmp_path / "many").iterdir())] == [path.name for path in parts]


def test_what_is_made_ready_once_says_what_each_process_makes_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [(MAIL, f"p{number}@example.com") for number in range(9)] + [(TEL, f"212-555-{number:04d}") for number in range(9)]
    values += [("PERSON", "Rose Will"), ("PERSON", "Will"), ("IBAN_CODE", "GB82 WEST 1234 5698 7654 32")]
    mine = needles_of(tmp_path / "a", values)
    small(monkeypatch)
    shared = needles_of(tmp_path / "b", values)
    assert (shared.path / "plain").is_dir() and not (mine.path / "plain").is_dir()
    for name in ("is_identity", "is_short", "is_common", "is_short_number"):
        assert getattr(shared, name).tolist() == getattr(mine, name).tolist() and getattr(mine, name).any() == (name != "is_short_number")
    every = np.arange(len(mine.plain))
    assert shared.read_spellings(every) == mine.read_spellings(every) and shared.max_length == mine.max_length
    md5 = hashlib.md5(b"p3@example.com", usedforsecurity=False).hexdigest()
    known = value_forms.digest_heads(pl.Series([md5, hashlib.sha512(b"+12125550004").hexdigest(), hashlib.sha1(b"x").hexdigest()]))
    assert shared.match_digests(np.unique(known)) == mine.match_digests(np.unique(known)) and len(mine.match_digests(np.unique(known))) == 2
    asked = pl.DataFrame({"kind": [MAIL, MAIL], "doc_no": [1, 2], "form": ["p3@example.com", "no@example.com"]})
    asked = asked.with_columns(normal="form")
    assert shared.find_collisions(asked).equals(mine.find_collisions(asked)) and mine.find_collisions(asked)["doc_no"].to_list() == [1]


@pytest.mark.parametrize("workers", [1, 2])
def test_many_passes_and_workers_find_the_same(clean: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    in_texts(clean)
    found = []
    for memory in ("1GB", "1KB"):
        if memory == "1KB":
            small(monkeypatch)
        with pytest.raises(LeakFound) as caught:
            verify(clean, workers=workers, memory_limit=memory)
        found.append(caught.value.findings)
    assert found[0] == found[1]


def test_many_passes_count_what_they_looked_at_once(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = verify(clean, workers=1)
    small(monkeypatch)
    many = verify(clean, workers=1, memory_limit=f"{5 * value_forms.PASS_BYTES_PER_TERM / 1024:.3f}KB")
    assert many.pop("passes") > 4 and one.pop("passes") == 1 and many == one


def test_a_run_with_full_verification_sweeps_the_same_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search terms are split by the memory limit in every pass, digits and identity forms too."""
    lines = [line for more, _ in OTHERWISE for line in more] + [f"mail w{no}@example.com or 713-555-{no:04d}" for no in range(8)]
    opened: dict[str, int] = {}
    parts = LiteralMatcher.open_partitions
    monkeypatch.setattr(
        LiteralMatcher, "open_partitions", classmethod(lambda cls, path: opened.update({path.stem: len(found := parts(path))}) or found)
    )
    made = [go(tmp_path / "large", lines, verify="full", rows_per_shard=100)]
    assert opened == {"forbidden_values": 1, "identity": 1, "digits": 1, "digests": 1}
    small(monkeypatch)
    for room in (value_forms, literal_search):  # of a limit in which DuckDB can live
        monkeypatch.setattr(room, "PASS_BYTES_PER_TERM" if room is value_forms else "BYTES_PER_TERM", 20 << 20)
    made.append(go(tmp_path / "small", lines, verify="full", rows_per_shard=100, memory_limit="100MB"))
    assert opened["digits"] > 2, opened
    texts = [pq.read_table(shard_of(out)).to_pylist() for out in made]
    told = [json.loads((out / "manifest.json").read_text())["summary"]["verify"] for out in made]
    assert texts[0] == texts[1] and told[0] == told[1] and told[0]["swept"] > 0


def test_base64_below_a_line_that_is_none(tmp_path: Path) -> None:
    needles = needles_of(tmp_path, [(MAIL, BOB)])
    raw = base64.b64encode(BOB.encode()).decode()
    texts = pa.array([f"http/some/long/path\n{raw}", f"x{raw[:12]}\n{raw[12:]}", f"somelongwordhere\n {raw} x"], pa.large_string())
    seen = full_check._FileCheck(
        full_check.FileCheckTask(file=tmp_path, name="x", reported_name="x", terms_path=needles.path, digest_words_path=None), needles
    )
    seen.check_texts("text", texts)
    assert dict(seen.leaks) == {("x", "text", MAIL, "base64"): 3}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
def test_pages_are_unpacked(tmp_path: Path, version: str, codec: str) -> None:
    texts = [None if number % 5 == 0 else f"row {number} of {BOB}" for number in range(2_000)]
    table = pa.table({"text": texts, "list": [[one] * 2 for one in texts]})
    pq.write_table(table, tmp_path / "a.parquet", compression=codec, data_page_version=version, use_dictionary=["list.list.element"])
    found = list(read_pages(tmp_path / "a.parquet"))
    plain = b"".join(page.tobytes() for column, page in found if column == "text")
    assert all(one.encode() in plain for one in texts if one) and {column for column, _ in found} == {"text", "list.list.element"}
    metadata = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    headers = 200 * len(found)
    sizes = sum(metadata.column(number).total_uncompressed_size for number in range(2))
    assert sizes - headers < sum(len(page) for _, page in found) <= sizes


def test_what_the_spill_held_is_gone(clean: Path) -> None:
    before = sorted(path.relative_to(clean.parent) for path in clean.parent.rglob("*"))
    verify(clean, workers=1)
    in_texts(clean)
    with pytest.raises(LeakFound):
        verify(clean, workers=1)
    assert sorted(path.relative_to(clean.parent) for path in clean.parent.rglob("*")) == before


def test_the_file_of_flagged_forms_does_not_depend_on_how_it_is_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = "aZ\u00e9b"
    values = [(MAIL, f"{letters[number % 4]}{number * 37 % 1000}@example.com") for number in range(900)]
    files = [vault(tmp_path / "a.parquet", values[::2]), vault(tmp_path / "b.parquet", [*values[1::2], *values[:50]])]
    counts = [LiteralMatcher.write(files, [MAIL], tmp_path / "one.parquet")]
    monkeypatch.setattr(literal_search, "TERMS_PER_RANGE", 100)
    counts.append(LiteralMatcher.write(files, [MAIL], tmp_path / "many.parquet"))
    assert counts[0] == counts[1]
    one, many = (pq.read_table(tmp_path / name).to_pydict() for name in ("one.parquet", "many.parquet"))
    assert one == many and one["form"] == sorted(one["form"], key=str.encode)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


# ---- views, against other people's decoders ----

NOISE = ["a", "b@", " ", "\n", "=3D", "=\n", "%25", "%C3%A9", "&amp;", "&nbsp;", "\\n", "\\u00e9", "\u200b", "Zm9v", "12 34", "\u6f22", "."]
noise = st.lists(st.sampled_from(NOISE), max_size=8).map("".join)
names = st.text("abcxyz.", min_size=3, max_size=9).map(lambda text: f"n{text}m@h{text}.example.com")
DECODED = [way for way in WAYS if form_of(way) in ENCODED_FORMS and way != "digits"]
ESCAPED = ("zero-width", "HTML", "URL", "JSON", "quoted-printable")


@settings(max_examples=150, deadline=None)
@given(before=noise, after=noise, value=names, way=st.sampled_from(DECODED), texts=st.integers(0, 2))
def test_what_is_written_in_another_form_is_read_and_its_place_told(before: str, after: str, value: str, way: str, texts: int) -> None:
    raw = written(way, value).decode()
    one = f"{before} {raw} {after}"
    column = pa.array([*([after] * texts), one, before], pa.large_string())
    places = set()
    for view in iter_decodings(column, len(value) + 4):
        if view.form != form_of(way):
            continue
        for number, piece in enumerate(view.pieces):
            decoded = piece.as_buffer().to_pybytes() if piece.as_buffer() is not None else b""
            at = decoded.find(value.encode())
            if at >= 0:
                place = view.find_encoded_spans(np.array([number]), np.array([at]), np.array([at + len(value)]))
                places.add((int(place.text_no[0]), int(place.start[0]), int(place.end[0]), bool(place.is_encoded[0])))
    start = len(before.encode()) + 1
    if form_of(way) in ESCAPED:
        low, high = 0, len(raw.encode())
    elif form_of(way) == "base64":  # six bits a character, behind so many blanks
        low, high = 8 * int(way[-1]) // 6, -(-8 * (int(way[-1]) + len(value)) // 6)
    else:
        low = raw.encode().index(value.encode("utf-16-le"))
        high = low + 2 * len(value)
    assert (texts, start + low, start + high, True) in places


def shown(form: str, *texts: str) -> list[bytes]:
    """The decoded pieces of one decoding of a column."""
    found = (view for view in iter_decodings(pa.array(texts, pa.large_string()), 40) if view.form == form)
    return [bytes(piece.as_buffer()) if piece.as_buffer() is not None else b"" for view in found for piece in view.pieces]


SIGNS = "n???>>>~~~m"  # in base64 both of the signs that URLs write otherwise
FOLDED = base64.b64encode(b"ann.lee@example.com").decode()
# form, text, what a piece holds, and whether one does: each limit from both sides
LIMITS = [
    ("base64", base64.b64encode(b"a@b.exam").decode(), b"a@b.exam", True),
    ("base64", base64.b64encode(b"a@b.exa").decode(), b"a@b.exa", False),
    ("base64", base64.urlsafe_b64encode(SIGNS.encode()).decode(), SIGNS.encode(), True),
    ("base64", f"{FOLDED[:14]}\r\n\t{FOLDED[14:]}", b"ann.lee@example.com", True),
    ("base64", f"{FOLDED[:14]}\n\t\t{FOLDED[14:]}", b"ann.lee@example.com", False),
    ("digits", "as 555-0123 once", b"5550123", True),
    ("digits", "as 555-012 once", b"555012", False),
    ("digits", "555 - (0123", b"5550123", True),
    ("digits", "555 - ( 0123", b"5550123", False),
    ("UTF-16", "abcd".encode("utf-16-le").decode(), b"abcd", True),
    ("UTF-16", "abc".encode("utf-16-le").decode(), b"abc", False),
    ("UTF-16", "ab\u0416\u0416\u0416cd".encode("utf-16-le").decode(), "ab\u0416\u0416\u0416cd".encode(), True),
    ("UTF-16", "\u0416\u0416\u0416\u0416\u0416abcd".encode("utf-16-le").decode(), "\u0416\u0416\u0416\u0416\u0416abcd".encode(), True),
]


@pytest.mark.parametrize(("form", "text", "held", "there"), LIMITS)
def test_how_little_a_view_reads(form: str, text: str, held: bytes, there: bool) -> None:
    assert any(held in piece for piece in shown(form, text)) == there


def test_an_escape_that_two_texts_part_is_none() -> None:
    assert shown("URL", "ann%4", "0example.com") == [] and shown("URL", "ann%40example.com", "x") == [b"ann@example.com"]


def slow(form: str, text: str) -> str:
    """The whole text decoded by the standard library."""
    if form == "HTML":
        return html.unescape(html.unescape(text))
    if form == "URL":
        return urllib.parse.unquote(urllib.parse.unquote(text))
    if form == "quoted-printable":
        return quopri.decodestring(text.encode()).decode("utf-8", "replace")
    assert form == "zero-width"
    return text.replace("\u200b", "").replace("\u00ad", "")


PIECES = [
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
piece = st.sampled_from([*PIECES, "b.example ", " ", "\u200b"])


@settings(max_examples=300, deadline=None)
@given(text=st.lists(piece, max_size=12).map("".join), form=st.sampled_from(["HTML", "URL", "quoted-printable", "zero-width"]))
def test_a_view_says_no_more_and_no_less_than_the_standard_library(text: str, form: str) -> None:
    value = "a@b.example"
    here = 0
    for view in iter_decodings(pa.array([text], pa.large_string()), len(value) + 4, (form,)):
        for number, one in enumerate(view.pieces):
            raw = one.as_buffer().to_pybytes() if one.as_buffer() is not None else b""
            at = raw.find(value.encode())
            while at >= 0:
                here += int(view.find_encoded_spans(np.array([number]), np.array([at]), np.array([at + len(value)])).is_encoded[0])
                at = raw.find(value.encode(), at + 1)
    if form == "quoted-printable" and text.rstrip(" ") != text:
        text = text + "."  # the standard library drops blanks at the end of a text
    if form in ("HTML", "URL") and any(twice in text for twice in ("&amp;#64;", "%25")):
        assert here >= slow(form, text).count(value) - text.count(value) - (text.count("&amp;") + text.count("%25"))
    else:
        assert here == slow(form, text).count(value) - text.count(value)


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.sampled_from(["a" * 32, "A" * 40, "0f" * 32, "b" * 128, "b" * 33, "zz", " ", ":", "_", "\n"]), max_size=8))
def test_words_that_may_be_digests(words: list[str]) -> None:
    text = "".join(words)
    found, text_no, start, stop = find_digests(pa.array(["f" * 32, text], pa.large_string()))
    expected = [
        match.group().lower() for match in re.finditer(r"\b[0-9A-Fa-f]+\b", text, re.ASCII) if len(match.group()) in (32, 40, 64, 128)
    ]
    assert found == ["f" * 32, *expected] and text_no.tolist() == [0] + [1] * len(expected)
    assert [text[low:high].lower() for low, high in zip(start[1:], stop[1:], strict=True)] == expected


BYTES = [
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
@given(raw=st.lists(st.sampled_from([*BYTES, b"\xc0\x80"]), max_size=8).map(b"".join))
def test_readable_bytes_are_those_that_decode(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    runs = re.findall(r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]+", text)
    assert extract_readable_texts(np.frombuffer(raw, np.uint8)).to_pylist() == [run for run in runs if len(run.encode()) >= 6]


# ---- a large one ----


@pytest.mark.soak
def test_ten_million_values_in_bounded_memory(tmp_path: Path) -> None:
    from benchmarks.bench_verify import measure_check

    result = measure_check(tmp_path, values=10_000_000, mb=20)
    assert 4 < result["passes"] < 8 and result["peak_rss_mb"] < 1_500 and result["found"] == result["planted"]


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["fast", "further", "full"])
def test_what_two_million_values_take_follows_the_limit(tmp_path: Path, mode: str) -> None:
    """A process with all libraries and one batch takes about 320 MB; prepared search terms are memory-mapped in addition."""
    from benchmarks.bench_verify import measure_check

    for limit, most in (("100MB", 650), ("1GB", 1_300)):
        result = measure_check(tmp_path / limit, values=2_000_000, mb=5, mode=mode, limit=limit)
        assert result["peak_rss_mb"] < most and result["found"] == result["planted"], result


def test_files_alone_are_looked_at_too(tmp_path: Path) -> None:
    needles = needles_of(tmp_path, [(MAIL, BOB)])
    (tmp_path / "page.txt").write_text(f"see {BOB}")
    engine = LocalEngine(workers=1, spill=tmp_path)
    found = full_check.run_full_check(engine, [], [(tmp_path / "page.txt", "page.txt")], [needles.path], tmp_path / "scratch", ["page.txt"])
    assert [str(one) for one in found["findings"]] == [f"page.txt, text: 1 {MAIL} (exact)"]
