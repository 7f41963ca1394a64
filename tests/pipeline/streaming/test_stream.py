"""A stream gives the same result as a run: the same bytes for any batch size, no value kept that an earlier variant equals, every record
accounted for."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sanitize.core.engine import TaskResult
from sanitize.editors.synthesis import component_pools
from sanitize.engines.worker_process import WorkerProcess
from sanitize.errors import InputRefused, PlanError, QuarantineExceeded, ResourceError, UsageError
from sanitize.pipeline.run import run
from sanitize.pipeline.streaming.records import DictBatch
from sanitize.pipeline.streaming.sources_and_sinks import JsonLinesFileSink, ParquetFolderSink, Sink
from sanitize.pipeline.streaming.stream import StreamSettings, run_stream, stream, to_stream_plan
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.readers.staging import Columns
from sanitize.readers.survey import Roles
from sanitize.storage.corpus import Corpus

ROOT = Path(__file__).resolve().parents[3]
Row = dict[str, Any]
FIRSTS, LASTS, HOSTS = ["ann", "bob", "cleo"], ["lee", "mann"], ["example.com", "example.org"]
ADDRESSES = [f"{first}.{last}@{host}" for first in FIRSTS for last in LASTS for host in HOSTS] + ["Bob.Mann@Example.com", "ann@example.com"]
OTHERS = [
    "713-555-0123",
    "+1 (713) 555-0123",
    "713.555.0188",
    "93.184.216.34",
    "4111 1111 1111 1111",
    "123-45-6789",
    "http://www.example.com/?u=bob.mann@example.com&x=1",
    "<200102031234.A1234$ab@host>",
    "From: Bob <bob.mann@example.com>\nTo: ann.lee@example.org\n\n",
]
FILLER = [" ", "\n", "é", "🙂", ", ", "\x01", "call me", ""]
TEXTS = st.lists(st.one_of(st.sampled_from(ADDRESSES), st.sampled_from(ADDRESSES), st.sampled_from(OTHERS + FILLER)), max_size=8).map(
    " ".join
)


@st.composite
def corpora(draw: st.DrawFn) -> list[Row]:
    """Documents whose addresses consist of the components that variants are drawn from."""
    rows: list[Row] = []
    for text, subject in draw(st.lists(st.tuples(TEXTS, st.one_of(st.none(), TEXTS)), min_size=1, max_size=12)):
        row: Row = {"text": text, "doc_id": f"doc-{len(rows) // 2}", "user_id": None if len(rows) % 3 else "ann.lee@example.com"}
        row["subject"] = subject
        row["turns"] = [{"who": "a", "said": subject}, {"who": None, "said": text}][: len(rows) % 3]
        rows.append(row)
    return rows


@pytest.fixture(scope="module", autouse=True)
def few_names() -> Iterator[None]:
    """Pools of a handful of names: variants then often equal values, or each other."""
    before = component_pools.curated_entries
    few = {"first": FIRSTS, "local": FIRSTS, "last": LASTS, "domain": ["example"], "host": HOSTS, "tld": ["com", "org"]}
    component_pools.curated_entries = lambda part: few[part]  # type: ignore[assignment]
    component_pools.curated_pool.cache_clear()
    yield
    component_pools.curated_entries = before
    component_pools.curated_pool.cache_clear()


def plan_of(*changes: str) -> Plan:
    return load_plan("rmft", ["edit.0.stores=curated", *changes])


def ran(rows: list[Row], plan: Plan, shard: int, folder: Path) -> list[Row]:
    """The output of a run over the rows."""
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "in.parquet")
    run(folder / "in.parquet", folder / f"out{shard}", plan, settings=Settings(seed=1, workers=1, rows_per_shard=shard))
    return list(Corpus.open(folder / f"out{shard}").table(["text", "doc_id", "user_id", "subject", "turns"]).to_pylist())


SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("doc_id", pa.string()),
        ("user_id", pa.string()),
        ("subject", pa.string()),
        ("turns", pa.list_(pa.struct([("who", pa.string()), ("said", pa.string())]))),
    ]
)
# nothing is made smaller: each example is a whole run
SOME = settings(max_examples=4, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.reuse, Phase.generate))


CHANGES = [(), ("edit.0.keep=2",), ("edit.0.keep=0",), ("edit.1.label=numbered",)]


@SOME
@given(corpora(), st.integers(1, 20), st.integers(1, 20), st.sampled_from(CHANGES))
def test_a_stream_gives_the_bytes_of_a_run(rows: list[Row], batch: int, shard: int, changes: tuple[str, ...]) -> None:
    plan = plan_of(*changes)
    with tempfile.TemporaryDirectory() as name:
        expected = ran(rows, load_plan("rmft", ["edit.0.stores=curated", "edit.0.avoid=seen", *changes]), shard, Path(name))
    assert list(stream(rows, plan, seed=1, rows=batch)) == expected
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=batch)
    assert [row for out in stream(batches, plan, seed=1) for row in out.to_pylist()] == expected


@SOME
@given(corpora(), st.integers(1, 5), st.sampled_from(["corpus", "mixed", "curated"]), st.integers(0, 2))
def test_no_batch_matters(rows: list[Row], batch: int, stores: str, keep: int) -> None:
    plan = load_plan("rmft", [f"edit.0.stores={stores}", f"edit.0.keep={keep}"])
    assert list(stream(rows, plan, seed=1, rows=batch)) == list(stream(rows, plan, seed=1, rows=1_000))


@settings(SOME, max_examples=6)
@given(st.lists(st.lists(st.sampled_from(ADDRESSES[:-2]), max_size=4), min_size=1, max_size=20), st.integers(1, 20))
def test_what_was_said_is_never_kept_and_what_was_seen_never_said(documents: list[list[str]], batch: int) -> None:
    """Slow reference in Python, one address after the other: what a stream guarantees about its variants."""
    rows = [{"text": " ".join(one)} for one in documents]
    out = [row["text"].split() for row in stream(rows, plan_of(), seed=3, rows=batch)]
    said: set[str] = set()
    seen: set[str] = set()
    for before, after in zip(documents, out, strict=True):
        assert len(before) == len(after)
        here = seen | set(before)
        for old, new in zip(before, after, strict=True):
            if new == old:
                assert old not in seen and old not in said  # the first one, and no variant says it
            else:
                assert old in seen or old in said
                assert new not in here and new not in said
                said.add(new)
            seen.add(old)


def test_a_value_that_a_variant_has_said_is_replaced() -> None:
    """With so few names it happens soon: all addresses follow, one by one, after one that is repeated."""
    rows = [{"text": "ann.lee@example.com"}] * 4 + [{"text": one} for one in ADDRESSES[:12]]
    for batch in (1, 100):
        out = [row["text"] for row in stream(rows, plan_of(), seed=1, rows=batch)]
        echoes = [text for text in ADDRESSES[1:12] if text in out[1:4]]
        assert echoes and not set(echoes) & set(out[4:])
        assert len({text.lower() for text in out}) == len(out)


PLANS = {
    "the words of a claim": """
[find]
kinds = ["EMAIL_ADDRESS", "URL"]
[[edit]]
use = "redact"
kinds = ["URL"]
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
stores = "curated"
""",
    "two that keep": """
[find]
kinds = ["EMAIL_ADDRESS", "URL", "PHONE_NUMBER"]
[[edit]]
use = "rmft"
kinds = ["URL", "PHONE_NUMBER"]
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
stores = "curated"
""",
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_later_part_counts_what_earlier_ones_left(plan: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PLANS[plan])
    url = "http://www.example.com/?u=bob.mann@example.com&x=1"
    rows = [{"text": text} for text in (url, f"{url} bob.mann@example.com", "bob.mann@example.com cleo.lee@example.com", url)]
    said = ["edit.1.avoid=seen", *(["edit.0.avoid=seen"] if "two" in plan else [])]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    run(tmp_path / "in.parquet", tmp_path / "out", load_plan(str(tmp_path / "mine.toml"), said), settings=Settings(seed=1, workers=1))
    expected = Corpus.open(tmp_path / "out").table(["text"]).column("text").to_pylist()
    for batch in (1, 2, 10):
        assert [row["text"] for row in stream(rows, load_plan(str(tmp_path / "mine.toml")), seed=1, rows=batch)] == expected


REFUSED = [
    ("header_dedup", (), "header_dedup"),
    ("mask_words", (), "blacklist"),
    ("blacklist", (), "blacklist"),
]


@pytest.mark.parametrize(("plan", "changes", "word"), REFUSED)
def test_what_needs_the_whole_corpus_is_refused_with_a_way_out(plan: str, changes: tuple[str, ...], word: str) -> None:
    with pytest.raises(PlanError, match=rf"{word}.*sanitize run"):
        stream([], load_plan(plan, changes))


def test_droppers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[find]\nkinds = []\n[[drop]]\nuse = "exact_dup"\n')
    with pytest.raises(PlanError, match=r"exact_dup.*sanitize run"):
        to_stream_plan(load_plan(str(tmp_path / "mine.toml")))


@pytest.mark.parametrize("plan", ["redact", "erase", "baseline", "rmft"])
def test_shipped_plans_that_a_stream_can_do(plan: str) -> None:
    rows = [{"text": "ann.lee@example.com 713-555-0123", "doc_id": str(number)} for number in range(3)]
    out = [row["text"] for row in stream(rows, plan, seed=1)]
    kept = {"redact": 0, "erase": 0, "baseline": 3, "rmft": 1}[plan]
    assert sum("ann.lee@example.com" in text for text in out) == kept
    assert sum("713-555-0123" in text for text in out) == kept


def test_what_the_finder_misses_is_swept(tmp_path: Path) -> None:
    rows = [{"text": "bob.mann@example.com and ｂｏｂ.mann@example.com"}, {"text": "bob.mann@example.com"}]
    for batch in (1, 2):
        out = [row["text"] for row in stream(rows, plan_of(), seed=1, rows=batch)]
        assert out[0].startswith("bob.mann@example.com and ") and "ｂｏｂ" not in out[0]
        assert "bob.mann@example.com" not in out[1]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_record_that_would_leak_goes_to_quarantine(tmp_path: Path, batch: int) -> None:
    """Also if all records of a batch leak."""
    rows = [
        {"text": "ann.lee@example.com"},
        {"text": "again ann.lee@example.com", "doc_id": "ann.lee@example.com"},  # a kept column says it
        {"text": "cleo.lee@example.com", "x": {"cleo.lee@example.com": 1}},  # the name of a field says it
        {"text": "bob.lee@example.com"},
    ]
    out = list(stream(rows, "erase", state=tmp_path / "state", seed=1, rows=batch))
    assert len(out) == 2 and "@" in out[0]["text"] and "bob.lee" not in out[1]["text"]
    aside = [json.loads(line) for line in (tmp_path / "state" / "quarantine" / "records.jsonl").read_text().splitlines()]
    assert [(one["record"], one["reason"]) for one in aside] == [(1, "leak"), (2, "leak")]
    assert json.loads(aside[0]["raw"]) == rows[1]
    mode = (tmp_path / "state" / "quarantine" / "records.jsonl").stat().st_mode
    assert mode & 0o077 == 0 and (tmp_path / "state").stat().st_mode & 0o077 == 0


BAD = [
    (b"{broken", "not_json"),
    (b"[1]", "not_an_object"),
    (b'{"text": "\xff"}', "not_utf8"),
    (b'{"text": "\\ud800"}', "not_utf8"),
    (b'{"body": "ann.lee@example.com"}', "no_text"),
    (b'{"text": 7}', "wrong_type"),
    (b'{"text": "' + b"x" * 5_000 + b'"}', "too_large"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason + str(number) for number, (_, reason) in enumerate(BAD)])
def test_a_bad_record_goes_to_quarantine_and_the_stream_goes_on(line: bytes, reason: str, tmp_path: Path) -> None:
    good = b'{"text": "bob.mann@example.com", "n": 1e3}\n'
    done = sanitize_stream(tmp_path, good + line + b"\n\n" + good, "--state", "state", "--max-doc-bytes", "1000")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"text": "bob.mann@example.com", "n": 1000.0} and "bob.mann@example.com" not in second["text"]
    assert f"1 {reason}" in done.stderr.decode()
    (aside,) = [json.loads(text) for text in (tmp_path / "state" / "quarantine" / "records.jsonl").read_text().splitlines()]
    assert (aside["record"], aside["reason"]) == (1, reason)
    assert "@" not in done.stderr.decode()


WRONG = [
    (
        # of what lies deeper, the fields of lists are told: keys of other objects may be people, as may columns with an @
        b'{"body": "ann.lee@example.com", "meta": {"ann.lee": "a"}, "ann.lee@example.com": 1, "parts": [{"said": "a"}]}',
        ("--text-column", "bodi"),
        2,
        ["bodi", "known: body, meta, parts, parts[].said", "mean body"],
    ),
    (b'{"text": {"said": "ann.lee@example.com"}}', (), 2, ["known: text.said."]),
    (b"ann.lee@example.com,1", (), 3, ["it is not valid JSON", "JSON lines"]),
    (b'[{"text": "ann.lee@example.com"}]', (), 3, ["it is JSON, but not an object"]),
]


@pytest.mark.parametrize("out", [None, "there/out.jsonl", "there/out"])
@pytest.mark.parametrize(("line", "more", "code", "words"), WRONG, ids=["column", "no string", "no JSON", "array"])
def test_a_stream_of_which_nothing_can_be_read(
    tmp_path: Path, line: bytes, more: tuple[str, ...], code: int, words: list[str], out: str | None
) -> None:
    """One error that lists columns and no value, and no files are left; whether or not the input ends."""
    (here := tmp_path / "here").mkdir()
    columns = Columns(roles=Roles(text=more[1:] or ("text",)))
    for many in (1, 3, 1_001):
        (tmp_path / "in").write_bytes((line + b"\n") * many)
        with (tmp_path / "in").open("rb") as said, pytest.raises((UsageError, InputRefused)) as refused:
            options = StreamSettings(seed=1, max_batch_records=400, columns=columns)
            run_stream([], here / out if out else None, plan_of(), here / "state", options, stdin=said.fileno(), stdout=io.BytesIO())
        assert refused.value.exit_code == code and all(word in str(refused.value) for word in words), refused.value
        assert "ann.lee" not in str(refused.value) and list(here.iterdir()) == []


def test_the_command_says_that_nothing_can_be_read(tmp_path: Path) -> None:
    done = sanitize_stream(tmp_path, WRONG[0][0], "--state", "state")
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, b"", [])
    assert (
        done.stderr.startswith(b"error: the stream: none of its 1 record has a text in a column text; ") and done.stderr.count(b"\n") == 1
    )


def test_a_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A misspelt column name has no effect: for files it is refused; for records that are still to arrive it can only be reported."""
    rows = [{"text": "bob.mann@example.com", "who": "kim"}, {"text": "a", "phone": "b"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(lines)
    (tmp_path / "in" / "b.mbox").write_text("From x Mon May 14 16:39:00 2001\nFrom: ann@example.com\n\nHello.\n")
    pq.write_table(pa.table({"text": ["a"], "other": ["b"]}), tmp_path / "in" / "c.parquet")
    (tmp_path / "whole").mkdir()
    for name in ("b.mbox", "c.parquet"):
        shutil.copy(tmp_path / "in" / name, tmp_path / "whole")
    state, out = tmp_path / "state", tmp_path / "out.jsonl"
    for option, columns in {
        "--drop whom": Columns(policies={"whom": "drop"}),
        "--user-column whom": Columns(roles=Roles(user="whom")),
        "--id-column no": Columns(roles=Roles(id="no")),
    }.items():
        told = StreamSettings(seed=1, max_batch_records=1, columns=columns)
        with pytest.raises(UsageError, match=option.split()[0]):
            run_stream([tmp_path / "whole"], out, plan_of(), state, told)
        assert not state.exists() and not out.exists()
        # JSON lines may have a column in any record: the first ones say little
        summary = run_stream([tmp_path / "in"], None, plan_of(), None, told, stdout=io.BytesIO())
        assert summary["notes"] == [f"{option}: no record had such a column"]
        with (tmp_path / "in" / "a.jsonl").open("rb") as said:
            summary = run_stream([], None, plan_of(), None, told, stdin=said.fileno(), stdout=io.BytesIO())
        assert summary["notes"] == [f"{option}: no record had such a column"]
        with pytest.warns(UserWarning, match=f"{option}: no record had such a column"):
            list(stream(rows, plan_of(), seed=1, columns=columns))
    every = Columns(policies=dict.fromkeys(("who", "phone", "other", "user_id"), "drop"))
    assert run_stream([tmp_path / "in"], out, plan_of(), state, StreamSettings(seed=1, columns=every))["notes"] == []
    assert all(set(json.loads(line)) == {"text"} for line in out.read_text().splitlines())


def test_what_comes_while_the_first_record_is_waited_for_stays(tmp_path: Path) -> None:
    """The output is checked when the command starts, and created with the first record, hours later on standard input."""
    record = DictBatch([{"text": "b"}])
    sinks: list[Sink] = [JsonLinesFileSink(tmp_path / "out.jsonl", {}), ParquetFolderSink(tmp_path / "out", {})]
    (tmp_path / "out").mkdir()
    theirs = [tmp_path / "out.jsonl", tmp_path / "out" / "part-00000.parquet", tmp_path / "out" / "part-00007.parquet"]
    for path in theirs:
        path.write_text("a")
    for sink in sinks:
        with pytest.raises(UsageError, match="does not belong to this state"):
            sink.put(record)
            sink.commit()
    assert [path.read_text() for path in theirs] == ["a"] * 3


@pytest.mark.parametrize("bad_first", [True, False])
def test_an_input_that_cannot_be_read_stops_no_other(tmp_path: Path, bad_first: bool) -> None:
    (tmp_path / "bad.jsonl").write_text(f'{{"text": "{"x" * 99}"}}\n' * 2)
    told = StreamSettings(seed=1, max_batch_records=1, max_doc_bytes=50)
    (tmp_path / "good.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    inputs = [tmp_path / name for name in (("bad.jsonl", "good.jsonl") if bad_first else ("good.jsonl", "bad.jsonl"))]
    for times in (4, 0):  # and all of it is acknowledged
        summary = run_stream(inputs, tmp_path / "out.jsonl", plan_of(), tmp_path / "state", told)
        assert (summary["documents_in"], summary["quarantined"]) == (times, times // 2)
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 2
    with pytest.raises(InputRefused, match="none of its 2 records can be read .*100% allows all"):
        run_stream([tmp_path / "bad.jsonl"], tmp_path / "other.jsonl", plan_of(), None, told)


def test_where_all_may_be_set_aside_no_record_is_waited_for(tmp_path: Path) -> None:
    rows = [*({"no": 1},) * 1_200, {"text": "bob.mann@example.com"}]
    told = StreamSettings(seed=1, max_batch_records=100, max_quarantine=1.0)
    for name, some in (("all", rows), ("none", rows[:-1])):
        (tmp_path / "in").write_text("".join(json.dumps(row) + "\n" for row in some))
        with (tmp_path / "in").open("rb") as said:
            summary = run_stream([], tmp_path / f"{name}.jsonl", plan_of(), tmp_path / name, told, stdin=said.fileno())
        assert (summary["documents_in"], summary["quarantined"]) == (len(some), 1_200)


@pytest.mark.parametrize("column", ["user_id", "doc_id"])
def test_the_text_may_stand_in_a_column_with_another_role(column: str) -> None:
    (made,) = stream([{column: "mail bob.mann@example.com"}], load_plan("redact"), seed=1, columns=Columns(roles=Roles(text=(column,))))
    assert made == {column: "mail [EMAIL_ADDRESS]"}


@pytest.mark.parametrize("source", ["in.jsonl", Path("in.jsonl"), b"in", {"text": "a"}, None, 7])
def test_what_is_no_stream_of_records_is_told_at_once(source: Any) -> None:
    with pytest.raises(UsageError, match=f"not a {type(source).__name__}"):
        stream(source, plan_of())


def test_what_is_set_aside_before_the_first_good_record(tmp_path: Path) -> None:
    """Quarantined records wait for the first readable one: in Python, and if a stream pauses in between."""
    rows = [{"no": 1}, {"no": 2}, {"text": "bob.mann@example.com"}]
    assert list(stream(iter(rows), plan_of(), state=tmp_path / "state", seed=1, rows=1)) == rows[2:]
    assert json.loads((tmp_path / "state" / "state.json").read_text())["quarantined"] == 2
    with pytest.raises(UsageError, match="has a text in a column text.*known: no"):
        list(stream(rows[:2], plan_of(), state=tmp_path / "other", seed=1, rows=1))
    assert not (tmp_path / "other").exists()
    # behind records that were read it is one that cannot be read, and no more
    assert list(stream(rows[:2], plan_of(), state=tmp_path / "state", seed=1)) == []
    assert json.loads((tmp_path / "state" / "state.json").read_text())["quarantined"] == 4


@pytest.mark.parametrize("out", ["out.jsonl", "out"])
def test_parquet_with_mails_in_bytes_is_refused_before_anything_is_written(tmp_path: Path, out: str) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["ann.lee@example.com"]}), tmp_path / "in" / "a.parquet")
    pq.write_table(pa.table({"text": [b"From: ann.lee@example.com"]}), tmp_path / "in" / "b.parquet")
    before = sorted(tmp_path.iterdir())
    for inputs in (["in/b.parquet"], ["in/a.parquet", "in/b.parquet"], ["in"]):
        with pytest.raises(InputRefused, match=r"b\.parquet: column text holds bytes"):
            run_stream([tmp_path / name for name in inputs], tmp_path / "made" / out, plan_of(), tmp_path / "state", StreamSettings(seed=1))
        assert sorted(tmp_path.iterdir()) == before


def sanitize_stream(folder: Path, said: bytes, *words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sanitize", "stream", "--seed", "1", *words]
    there = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, input=said, capture_output=True, env=there, timeout=120)


def test_too_many_bad_records_stop_the_stream(tmp_path: Path) -> None:
    rows = [{"text": "x"} if number % 2 else {"no": 1} for number in range(2_000)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(QuarantineExceeded, match="no_text"):
        run_stream(
            [tmp_path / "in.jsonl"], tmp_path / "out.jsonl", plan_of(), tmp_path / "state", StreamSettings(seed=1, max_batch_records=500)
        )


def test_a_record_does_not_wait_for_the_next() -> None:
    command = [sys.executable, "-m", "sanitize", "stream", "--seed", "1", "-q"]
    there = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=there) as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(2):
            process.stdin.write(b'{"text": "bob.mann@example.com"}\n')
            process.stdin.flush()
            line = json.loads(process.stdout.readline())  # comes while the input stays open
            assert (line["text"] == "bob.mann@example.com") == (number == 0)
        process.stdin.close()
        assert process.wait(30) == 0


def test_workers_look_ahead_and_keep_the_order() -> None:
    rows = [{"text": f"bob.mann@example.com no {number}"} for number in range(60)]
    assert list(stream(rows, plan_of(), seed=1, rows=7, workers=2)) == list(stream(rows, plan_of(), seed=1))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends a process with its parent")
def test_workers_need_no_guard_and_end_with_the_stream(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sanitize\nprint('once', flush=True)\n"
        "made = sanitize.stream(({'text': f'ann.lee{no}@example.com'} for no in range(60)), 'rmft', seed=1, rows=5, workers=2)\n"
        "print(next(made)['text'], flush=True)\n"
        "subprocess.run(['ps', '-o', 'pid=', '--ppid', str(os.getpid())])\nos.kill(os.getpid(), 9)"
    )
    (tmp_path / "script.py").write_text(script)
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, env=there)
    once, text, *numbers = done.stdout.split()
    assert (once, text, len(numbers)) == ("once", "ann.lee0@example.com", 3), done.stderr  # the workers, and ps
    until = time.monotonic() + 20
    while (left := [one for one in numbers if _runs(one)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def _runs(number: str) -> bool:
    status = Path(f"/proc/{number}/status")
    return status.exists() and "zombie" not in status.read_text()


def test_workers_that_die_before_they_have_their_lot_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the system reclaims their memory: an internal broken pipe is not a closed standard output."""
    monkeypatch.setattr("sanitize.engines.worker_process._BOOTSTRAP_CODE", "pass")
    with pytest.raises(ResourceError, match="a worker died"):
        list(stream(({"text": "a"} for _ in range(40)), plan_of(), seed=1, rows=5, workers=2))


def test_a_consumer_that_stops_ends_the_workers() -> None:
    made = stream(({"text": f"bob.mann{no}@example.com"} for no in itertools.count()), plan_of(), seed=1, rows=5, workers=2)
    assert next(made)["text"] == "bob.mann0@example.com"
    made.close()  # type: ignore[attr-defined]
    assert not [one for one in threading.enumerate() if one.name.startswith("find")]


def test_a_worker_that_dies_stops_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(child: WorkerProcess) -> TaskResult:
        child.terminate()
        return real(child)

    real = WorkerProcess.receive
    monkeypatch.setattr(WorkerProcess, "receive", receive)
    with pytest.raises(ResourceError, match="a worker died"):
        list(stream([{"text": "a " * 1_000_000}], plan_of(), seed=1, workers=2))


def test_columns_have_policies() -> None:
    row = {"body": "ann.lee@example.com", "who": "bob", "no": 3, "note": "ann.lee@example.com", "extra": "x", "doc_id": 4, "user_id": "u"}
    columns = Columns(roles=Roles(text=("body",), user="who", id="no"), policies={"extra": "drop"})
    for source in ([row], [pa.Table.from_pylist([row])]):
        made = list(stream(source, "erase", seed=1, columns=columns))
        (out,) = made if isinstance(made[0], dict) else made[0].to_pylist()
        assert set(out) == {"body", "who", "no", "note", "doc_id", "user_id"}
        assert out["no"] == 3 and out["doc_id"] == 4 and out["user_id"] == "u"
        assert out["who"] != "bob" and "ann.lee" not in out["body"] + out["note"]
    with pytest.raises(UsageError, match="main text"):
        list(stream([row], "erase", columns=Columns(roles=Roles(text=("body",)), policies={"body": "keep"})))
    with pytest.raises(InputRefused, match="text-column"):
        list(stream([pa.Table.from_pylist([row])], "erase"))


def test_nested_texts_and_other_values_stay_what_they_are() -> None:
    row: Row = {"messages": [{"role": "user", "content": "ann.lee@example.com", "n": 1}, None, {"content": None}, {"role": "x"}]}
    row |= {"deep": {"a": [["bob.mann@example.com", 7], [None]], "b": True}, "n": 2**70, "f": 1.5, "none": None, "mixed": [1, "x", {}]}
    columns = Columns(roles=Roles(text=("messages[].content",)))
    (out,) = stream([row], "erase", seed=1, columns=columns)
    assert "@" in out["messages"][0]["content"] != "ann.lee@example.com"
    assert "@" in out["deep"]["a"][0][0] != "bob.mann@example.com"
    out["messages"][0]["content"], out["deep"]["a"][0][0] = "ann.lee@example.com", "bob.mann@example.com"
    assert out == row


def test_new_fields_may_come_later() -> None:
    rows = [{"text": "a"}, {"text": "b", "more": "ann.lee@example.com"}, {"more": 3, "text": "c", "tags": ["bob.mann@example.com"]}]
    one, other = (list(stream(rows, "erase", seed=1, rows=batch)) for batch in (1, 10))
    assert one == other and "ann.lee" not in one[1]["more"] and one[2]["more"] == 3 and "bob.mann" not in one[2]["tags"][0]


def test_files_and_folders(tmp_path: Path) -> None:
    rows = [{"text": f"bob.mann@example.com {number}", "user_id": "u"} for number in range(5)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    mail = "From ann@example.com Thu Jan  1 00:00:00 1970\nFrom: Ann <ann.lee@example.com>\nSubject: x\n\nbob.mann@example.com\n\n"
    (tmp_path / "c.mbox").write_text(mail * 2)
    names = ["a.jsonl", "b.parquet", "c.mbox"]
    said = run_stream([tmp_path / name for name in names], tmp_path / "out", plan_of(), tmp_path / "state", StreamSettings(seed=1))
    assert said["documents_in"] == said["documents_out"] == 12 and said["position"] == 12
    parts = sorted((tmp_path / "out").iterdir())
    assert [part.name for part in parts] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    texts = [text for part in parts for text in pq.read_table(part).column("text").to_pylist()]
    assert sum("bob.mann@example.com" in text for text in texts) == 1
    again = run_stream([tmp_path / name for name in names], tmp_path / "out", plan_of(), tmp_path / "state", StreamSettings(seed=1))
    assert not again["changed"] and again["position"] == 12 and sorted((tmp_path / "out").iterdir()) == parts
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(json.dumps({"text": "bob.mann@example.com new", "user_id": "u"}) + "\n")
    more = run_stream([tmp_path / "a.jsonl"], tmp_path / "out", plan_of(), tmp_path / "state", StreamSettings(seed=1))
    assert more["documents_in"] == 1 and more["position"] == 13


def test_a_state_is_of_one_plan_and_key(tmp_path: Path) -> None:
    rows = [{"text": "bob.mann@example.com"}]
    list(stream(rows, plan_of(), state=tmp_path / "state", seed=1))
    for more in ({"seed": 2}, {"seed": 1, "plan": "redact"}, {"seed": 1, "columns": Columns(roles=Roles(user="x"))}):
        with pytest.raises(UsageError, match="state"):
            list(stream(rows, **{"plan": plan_of(), "state": tmp_path / "state", **more}))
    assert [row["text"] for row in stream(rows, plan_of(), state=tmp_path / "state", seed=1)] != ["bob.mann@example.com"]


def test_a_consumer_that_stops_is_gone_on_with(tmp_path: Path) -> None:
    rows = [{"text": f"bob.mann@example.com {number}"} for number in range(10)]
    expected = list(stream(rows, plan_of(), seed=1))
    taken = []
    with contextlib.closing(stream(rows, plan_of(), state=tmp_path / "state", seed=1, rows=3)) as source:
        for row in source:
            taken.append(row)
            if len(taken) == 5:
                break
    rest = list(stream(rows, plan_of(), state=tmp_path / "state", seed=1, rows=3, again=True))
    assert taken == expected[:5] and rest == expected[3:]  # the batch in hand was not acknowledged: it comes again, as it was


def test_datasets_and_torch_loaders(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    rows = [{"text": f"bob.mann@example.com {number}"} for number in range(10)]
    expected = list(stream(rows, plan_of(), seed=1))
    source = datasets.Dataset.from_list(rows).to_iterable_dataset()
    assert list(stream(source, plan_of(), seed=1)) == expected
    made = datasets.IterableDataset.from_generator(lambda: stream(source, plan_of(), seed=1))
    assert list(made) == expected and list(made) == expected  # each pass is a stream of its own

    class Streamed(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[Row]:
            return stream(rows, plan_of(), seed=1)

    loader = torch.utils.data.DataLoader(Streamed(), batch_size=4, num_workers=0)
    assert [text for batch in loader for text in batch["text"]] == [row["text"] for row in expected]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_fork_of_a_process_that_had_a_stream_is_refused() -> None:
    assert list(stream([{"text": "a"}], plan_of(), seed=1)) == [{"text": "a"}]
    number = os.fork()
    if not number:
        try:
            list(stream([{"text": "a"}], plan_of(), seed=1))
        except UsageError as error:
            os._exit(0 if "forkserver" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0


def test_only_records_are_taken() -> None:
    with pytest.raises(UsageError, match="int"):
        list(stream([1], "erase"))


def test_nothing_stays_behind_without_a_state() -> None:
    before = time.time()
    list(stream([{"text": "ann.lee@example.com"}], plan_of()))
    left = [path for path in Path(tempfile.gettempdir()).glob("sanitize-stream-*") if path.stat().st_mtime >= before]
    assert not left


def test_a_stream_counts_what_a_run_counts(tmp_path: Path) -> None:
    """By kind: found, kept, replaced, and left by the plan, over several batches."""
    rows = [
        {"doc_id": str(at), "text": f"See https://{'abc'[at % 3]}.example.com/ann.lee@example.com, ann.lee@example.com, 192.0.2.{at}. "}
        for at in range(7)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    changed = ["edit.0.stores=curated", "edit.0.avoid=seen"]
    expected = run(tmp_path / "in.jsonl", tmp_path / "out", load_plan("rmft", changed), settings=Settings(seed=1, workers=1))
    told = run_stream([tmp_path / "in.jsonl"], tmp_path / "out.jsonl", plan_of(), None, StreamSettings(seed=1, max_batch_records=3))
    counted = ("occurrences", "kept", "replaced", "left_by_plan")
    found = {kind: [entry[name] for name in counted] for kind, entry in expected["by_kind"].items()}
    assert {kind: [entry[name] for name in counted] for kind, entry in told["by_kind"].items()} == found
    assert found["URL"] == [7, 0, 0, 7]
    assert [told[name] for name in ("occurrences", "kept_originals", "replaced")] == [
        expected[name] for name in ("occurrences", "kept_originals", "replaced")
    ]
