"""Every number that summary, card, report and `verify --json` print, counted again from the
published shards and the private folder with plain Python and DuckDB, on three corpora of different
shapes. A number that nothing here counts fails the test."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.cli.generated_mails import generate_mails
from sanitize.kinds.kind import known_countries
from sanitize.plans.plan import load_plan
from sanitize.storage.files import file_sha256
from sanitize.storage.publication import read_mac_key, write_checksums
from tests.support import read_rows

MAIL = (
    "Write to ann.roe@example.com or bob.lee@example.org, later to ann.roe@example.com;"
    " card 4111 1111 1111 1111."
)
# measured, and not counted: times and memory
MEASURED = {"seconds", "mb_per_s", "peak_rss_mb"}


def write_mails(folder: Path) -> tuple[Path, int]:
    """Mails, of which some occur twice and are dropped."""
    texts = generate_mails(30, 5)["text"].to_pylist() + [MAIL, MAIL]
    path = folder / "mails.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, *texts[:5]]))
    return path, len(texts) + 5


def write_chats(folder: Path) -> tuple[Path, int]:
    """Chats with a record that cannot be read, and an address that only the sweep finds."""
    chats = [
        {
            "messages": [
                {
                    "role": "user",
                    "content": f"I am Ann Roe, at p{no % 3}@example.com, 205-555-0142",
                },
                {"role": "assistant", "content": f"We write to P{no % 3}%40EXAMPLE.com today."},
            ]
        }
        for no in range(8)
    ]
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in chats) + '{"messages": broken\n')
    return path, len(chats) + 1


def write_table(folder: Path) -> tuple[Path, int]:
    """A table with columns of people and of telephone numbers."""
    rows = [
        f'{no},Eva Moor{"" if no % 2 else " Lee"},205-555-01{no:02d},"card 4111 1111 1111 1111,'
        f' mail u{no % 4}@example.org, by Eva Moor"'
        for no in range(12)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["number,author,phone,note", *rows]) + "\n")
    return path, len(rows)


CORPORA: dict[str, tuple[Any, dict[str, Any]]] = {
    "mails": (write_mails, {"plan": "rmft", "rows_per_shard": 20}),
    "chats": (write_chats, {"plan": "redact", "max_quarantine": 0.5}),
    "table": (write_table, {"plan": "surrogates", "text_column": "note"}),
}


@dataclass(frozen=True)
class Published:
    """An output, its private folder and the folder of its run, and what was printed of it."""

    out: Path
    work: Path
    run: Path
    records: int
    summary: dict[str, Any]
    verified: dict[str, Any]


@pytest.fixture(scope="module", params=CORPORA)
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Published:
    folder = tmp_path_factory.mktemp("recount")
    write, options = CORPORA[request.param]
    path, records = write(folder)
    if request.param == "mails":
        plan = load_plan("rmft", ['drop=[{use="exact_dup", body_only=true}]'])
        options = {**options, "plan": plan}
    result = sanitize.run(path, folder / "out", seed=1, workers=1, **options)
    work = folder / "out.private"
    return Published(
        folder / "out",
        work,
        work / "runs" / result.run_hash,
        records,
        result.to_dict(),
        sanitize.verify(folder / "out", workers=1).to_dict(),
    )


def list_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from list_strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from list_strings(one)


def list_numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yields every number in JSON data with its path."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from list_numbers(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from list_numbers(one, f"{path}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def flatten(counts: Mapping[str, Any]) -> dict[str, float]:
    return dict(list_numbers(dict(counts)))


class Recount:
    """The tables of a run, row by row."""

    def __init__(self, published: Published) -> None:
        self.published, run, work = published, published.run, published.work
        database = duckdb.connect()
        self.shards = sorted((published.out / "data").glob("*.parquet"))
        (self.rows,) = database.execute(
            "SELECT count(*) FROM read_parquet(?)", [[str(path) for path in self.shards]]
        ).fetchone() or (0,)
        self.strings = [
            text for path in self.shards for text in list_strings(pq.read_table(path).to_pylist())
        ]
        self.dropped = {row["doc_no"] for row in read_rows(run / "drops")}
        self.quarantined = read_rows(work / "quarantine", "*/*.parquet")
        self.swept = read_rows(run / "sweep", "[0-9]*.parquet")
        found = read_rows(work / "tables" / "occurrences")
        self.all_found = [*found, *self.swept]
        self.found = [row for row in self.all_found if row["doc_no"] not in self.dropped]
        self.kept = read_rows(run / "kept")
        self.edits: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for edit in read_rows(run / "edits"):
            self.edits.setdefault((edit["doc_no"], edit["cell"]), []).append(edit)
        self.values = [
            *read_rows(work / "vault" / "values"),
            *read_rows(run / "vault" / "column_values"),
        ]
        manifest = json.loads((published.out / "manifest.json").read_text())
        self.edited_kinds = {kind for part in manifest["plan"]["edit"] for kind in part["kinds"]}

    def is_edited(self, row: Mapping[str, Any]) -> bool:
        return any(
            edit["start_byte"] < row["end_byte"] and edit["end_byte"] > row["start_byte"]
            for edit in self.edits.get((row["doc_no"], row["cell"]), ())
        )

    def count_kind(self, kind: str) -> dict[str, Any]:
        rows = [row for row in self.found if row["kind"] == kind]
        kept_ids = Counter(row["value_id"] for row in self.kept)
        ids = {row["value_id"] for row in rows}
        kept = sum(kept_ids[value_id] for value_id in ids)
        replaced = sum(map(self.is_edited, rows))
        skipped = Counter[str]()
        for row in read_rows(self.published.work / "tables" / "skipped"):
            if row["kind"] == kind:
                skipped[row["reason"]] += row["candidates"]
        finder_rows = [row for row in rows if row["finder"] != "sweep"]
        return {
            "occurrences": len(rows),
            "kept": kept,
            "replaced": replaced,
            "left_by_plan": len(rows) - kept - replaced,
            "values": len({row["value_id"] for row in finder_rows}),
            "documents": len({row["doc_no"] for row in finder_rows}),
            "skipped": dict(skipped),
            "swept": sum(row["finder"] == "sweep" for row in rows),
        }

    def count_values(self) -> dict[str, int]:
        """Values that the check searches for, and those of them with an occurrence that is gone
        from the output."""
        column_ids = {
            row["value_id"] for row in read_rows(self.published.run / "vault" / "column_values")
        }
        searched = {
            row["value_id"]
            for row in self.values
            if row["kind"] in self.edited_kinds or row["value_id"] in column_ids
        }
        gone = {
            row["value_id"]
            for row in self.all_found
            if row["doc_no"] in self.dropped or self.is_edited(row)
        }
        return {
            "values_checked": len(searched),
            "values_removed": len(searched & (gone | column_ids)),
        }


@pytest.fixture(scope="module")
def recount(published: Published) -> Recount:
    return Recount(published)


@pytest.fixture(scope="module")
def expected(published: Published, recount: Recount) -> dict[str, Any]:
    kinds = {row["kind"] for row in recount.found}
    by_kind = {kind: recount.count_kind(kind) for kind in sorted(kinds)}
    totals = {
        name: sum(counts[name] for counts in by_kind.values())
        for name in ("occurrences", "kept", "replaced", "left_by_plan", "swept")
    }
    parts = Counter((row["part"], row["reason"]) for row in read_rows(published.run / "drops"))
    return {
        "documents_in": recount.rows + len(recount.dropped) + len(recount.quarantined),
        "documents_out": recount.rows,
        "documents_dropped": len(recount.dropped),
        "dropped": [{"documents": times} for _, times in sorted(parts.items())],
        "quarantined": len(recount.quarantined),
        "quarantine": dict(Counter(row["reason"] for row in recount.quarantined)),
        "occurrences": totals["occurrences"],
        "kept_originals": totals["kept"],
        "replaced": totals["replaced"],
        "by_kind": by_kind,
        "erased": 0,
        "leaks": 0,
        "verify": {
            **recount.count_values(),
            "swept": len(recount.swept),
            "files": len(recount.shards) + 3,
            "ambiguous_values": 0,
        },
        "left_by_plan": totals["left_by_plan"],
    }


def test_numbers_of_the_summary(
    published: Published, recount: Recount, expected: dict[str, Any]
) -> None:
    assert expected["documents_in"] == published.records
    counted = flatten({name: one for name, one in expected.items() if name != "left_by_plan"})
    printed = {
        path: number
        for path, number in list_numbers(published.summary)
        if not {path, path.split(".")[0]} & (MEASURED | {"stages", "canaries", "text_bytes"})
    }
    assert printed == counted
    assert recount.found and (expected["verify"]["values_removed"] > 0)
    # what the index read of the documents that are in the output or were dropped
    assert published.summary["text_bytes"] >= sum(
        row["end_byte"] - row["start_byte"] for row in recount.found
    )
    canaries = published.summary["canaries"]
    of_forms = Counter[str]()
    for counts in canaries["by_form"].values():
        of_forms.update(counts)
    # forms that a finder need not decode are counted for themselves
    assert of_forms["planted"] == canaries["planted"] + canaries["encoded"]["planted"]
    assert of_forms["removed"] == canaries["removed"] + canaries["encoded"]["removed"]


def test_kept_originals_are_in_the_shards_and_removed_values_are_not(
    published: Published, recount: Recount
) -> None:
    """Read in the published texts, without the tables of edits."""
    kept_ids = {row["value_id"] for row in recount.kept}
    column_ids = {row["value_id"] for row in read_rows(published.run / "vault" / "column_values")}
    removed = [
        row["value"]
        for row in recount.values
        if row["value_id"] not in kept_ids
        and (row["kind"] in recount.edited_kinds or row["value_id"] in column_ids)
    ]
    text = "\n".join(recount.strings)
    assert removed and not [value for value in removed if value in text]
    spellings = Counter[str]()
    for row in recount.values:
        if row["value_id"] in kept_ids:
            spellings[row["value"]] = text.count(row["value"])
    # each at least once; a kept value may be a part of another one
    assert sum(spellings.values()) >= len(recount.kept)


def test_numbers_of_verify(
    published: Published, recount: Recount, expected: dict[str, Any]
) -> None:
    others = [
        path for path in published.out.rglob("*") if path.is_file() and path not in recount.shards
    ]
    counted = flatten(
        {
            **recount.count_values(),
            "leaks": 0,
            "shards": len(recount.shards),
            "rows": recount.rows,
            "kept_originals": expected["kept_originals"],
            "ambiguous_values": 0,
            "passes": 1,  # so few terms fit in one
            "bytes_searched": {
                "other files": sum(path.stat().st_size for path in others),
                "rows": sum(len(text.encode()) for text in recount.strings),
            },
        }
    )
    printed = dict(list_numbers(published.verified))
    # bytes of Parquet beside the texts: no more than the shards have, compressed and not
    beside = printed.pop("bytes_searched.pages") + printed.pop("bytes_searched.raw bytes")
    sizes = [
        (path.stat().st_size, pq.read_metadata(path).row_group(0).total_byte_size)
        for path in recount.shards
    ]
    assert 0 < beside < sum(map(sum, sizes))
    assert printed == counted


def find_printed(text: str) -> set[int]:
    """The counts in a page: numbers that stand alone, without dates, versions and shares."""
    text = re.sub(r"[0-9a-f]{12,}|\d{4}-\d\d-\d\d|\d+([.]\d+)+(%| %| MB| KB)?|\d+ %", " ", text)
    return {int(one.replace(",", "")) for one in re.findall(r"(?<![\w-])\d[\d,]*(?![\w-])", text)}


def test_numbers_of_the_pages(
    published: Published, recount: Recount, expected: dict[str, Any]
) -> None:
    """Each count in the card, and in the report above its provenance, is one of the counts."""
    canaries = published.summary["canaries"]
    forms = canaries["by_form"].values()
    counts = {int(number) for number in dict(list_numbers(expected)).values()} | {
        sum(one["planted"] for one in forms),
        sum(one["removed"] for one in forms),
        len(forms),
        len(published.verified["forms"]),
        expected["verify"]["values_checked"] - expected["verify"]["values_removed"],
        expected["kept_originals"] + expected["left_by_plan"],
        len(recount.shards),
        len(known_countries()),  # whose identifiers are not looked for
        *(one["planted"] - one["removed"] for one in forms),
        *(one["planted"] for one in forms),
    }
    card = (published.out / "README.md").read_text().partition("# A sanitized")[2]
    card = card.replace("1K", "").partition("## Load")[0] + card.partition("## What was done")[2]
    card = re.sub(r"base64|base32|UTF-\d+|Base\d+", "", card)
    assert find_printed(card) - counts == set()
    assert expected["occurrences"] in counts and str(expected["documents_in"]) in card

    report = (published.out / "report.html").read_text()
    table = next(
        one
        for one in re.findall(r"<table.*?</table>", report, re.DOTALL)
        if "what the plan does" in one
    )
    plain = unescape(re.sub(r"<[^>]*>", " ", table))
    for kind, of_kind in expected["by_kind"].items():
        assert kind in plain and of_kind["occurrences"] in find_printed(plain)
    in_dropped = Counter(
        row["kind"] for row in recount.all_found if row["doc_no"] in recount.dropped
    )
    assert find_printed(plain) <= counts | {*in_dropped.values()}
    assert datetime.date.fromisoformat(
        json.loads((published.out / "manifest.json").read_text())["description"]["date"]
    )


def test_the_hash_of_a_plan_is_the_same_for_every_input(tmp_path: Path) -> None:
    """`run_hash` is not, and names the folder of the run."""
    hashes = []
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{MAIL} {name}")
        result = sanitize.run(tmp_path / f"{name}.txt", tmp_path / name, plan="rmft", seed=1)
        assert (tmp_path / f"{name}.private" / "runs" / result.run_hash / "plan.json").is_file()
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert (manifest["plan_hash"], manifest["run_hash"]) == (result.plan_hash, result.run_hash)
        hashes.append((result.plan_hash, result.run_hash))
    assert hashes[0][0] == hashes[1][0] and hashes[0][1] != hashes[1][1]
    other = sanitize.run(tmp_path / "a.txt", tmp_path / "c", plan="redact", seed=1)
    assert other.plan_hash != hashes[0][0]


def test_an_output_of_an_earlier_version_can_be_read(tmp_path: Path) -> None:
    """Its `plan_hash` is what is `run_hash` now, and its check does not count removed values."""
    (tmp_path / "a.txt").write_text(MAIL)
    out, work = tmp_path / "out", tmp_path / "out.private"
    result = sanitize.run(tmp_path / "a.txt", out, plan="rmft", seed=1, workers=1)

    manifest = json.loads((out / "manifest.json").read_text())
    for record in (manifest, manifest["summary"]):
        record["plan_hash"] = record.pop("run_hash")
    del manifest["summary"]["verify"]["values_removed"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    (record_path,) = (work / "published").glob("*.json")
    command = json.loads(record_path.read_text())
    command["plan_hash"] = command.pop("run_hash")
    command["manifest_sha256"] = [file_sha256(out / "manifest.json")]
    record_path.write_text(json.dumps(command))
    mac_key = read_mac_key(work / "runs" / result.run_hash)
    assert mac_key is not None
    names = [
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    ]
    write_checksums(out, {name: file_sha256(out / name) for name in names}, mac_key)

    verified = sanitize.verify(out, workers=1)
    assert (verified.leaks, verified.values_removed) == (0, result.verify.values_removed)
    assert not sanitize.run(tmp_path / "a.txt", out, plan="rmft", seed=1, workers=1).changed
    sanitize.report(out, to=tmp_path / "again.html")
    assert "values found in 24 forms outside of" in (tmp_path / "again.html").read_text()
    assert not sanitize.run(tmp_path / "a.txt", out, seed=1, workers=1).changed  # its plan
