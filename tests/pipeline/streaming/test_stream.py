"""A stream gives the result of a run: the same bytes for any batch size, no kept value that equals
an earlier variant, and every record accounted for."""

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
from collections.abc import Callable, Iterator
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
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.record_batches import DictBatch
from sanitize.pipeline.streaming.sources_and_sinks import JsonLinesFileSink, ParquetFolderSink, Sink
from sanitize.pipeline.streaming.stream import run_stream, stream, to_stream_plan
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.python_api import to_python_names
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus

ROOT = Path(__file__).resolve().parents[3]
Row = dict[str, Any]
FIRSTS, LASTS, HOSTS = ["ann", "bob", "cleo"], ["lee", "mann"], ["example.com", "example.org"]
ADDRESSES = [f"{first}.{last}@{host}" for first in FIRSTS for last in LASTS for host in HOSTS] + [
    "Bob.Mann@Example.com",
    "ann@example.com",
]
OTHER_VALUES = [
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
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(ADDRESSES),
        st.sampled_from(ADDRESSES),
        st.sampled_from(OTHER_VALUES + FILLER),
    ),
    max_size=8,
).map(" ".join)


@st.composite
def corpora(draw: st.DrawFn) -> list[Row]:
    """Documents whose addresses consist of the components from which variants are drawn."""
    rows: list[Row] = []
    for text, subject in draw(
        st.lists(st.tuples(TEXTS, st.one_of(st.none(), TEXTS)), min_size=1, max_size=12)
    ):
        row: Row = {
            "text": text,
            "doc_id": f"doc-{len(rows) // 2}",
            "user_id": None if len(rows) % 3 else "ann.lee@example.com",
        }
        row["subject"] = subject
        row["turns"] = [{"who": "a", "said": subject}, {"who": None, "said": text}][: len(rows) % 3]
        rows.append(row)
    return rows


@pytest.fixture(scope="module", autouse=True)
def small_component_pools() -> Iterator[None]:
    """Component pools with few names, so that variants often equal values or each other."""
    real_entries = component_pools.curated_entries
    small_pools = {
        "first": FIRSTS,
        "local": FIRSTS,
        "last": LASTS,
        "domain": ["example"],
        "host": HOSTS,
        "tld": ["com", "org"],
    }
    component_pools.curated_entries = lambda component: small_pools[component]  # type: ignore[assignment]
    component_pools.curated_pool.cache_clear()
    yield
    component_pools.curated_entries = real_entries
    component_pools.curated_pool.cache_clear()


def load_rmft_plan(*changes: str) -> Plan:
    return load_plan("rmft", ["edit.0.stores=curated", *changes])


def run_rows(rows: list[Row], plan: Plan, rows_per_shard: int, folder: Path) -> list[Row]:
    """Runs over the rows; returns the output rows."""
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / "in.parquet")
    run_with_settings(
        folder / "in.parquet",
        folder / f"out{rows_per_shard}",
        plan,
        settings=Settings(seed=1, workers=1, rows_per_shard=rows_per_shard),
    )
    return list(
        Corpus.open(folder / f"out{rows_per_shard}")
        .table(["text", "doc_id", "user_id", "subject", "turns"])
        .to_pylist()
    )


SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("doc_id", pa.string()),
        ("user_id", pa.string()),
        ("subject", pa.string()),
        ("turns", pa.list_(pa.struct([("who", pa.string()), ("said", pa.string())]))),
    ]
)
# without the shrink phase, because each example is a whole run
PROPERTY_SETTINGS = settings(
    max_examples=4,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


PLAN_CHANGES = [(), ("edit.0.keep=2",), ("edit.0.keep=0",), ("edit.1.label=numbered",)]


@pytest.mark.slow
@PROPERTY_SETTINGS
@given(corpora(), st.integers(1, 20), st.integers(5, 20), st.sampled_from(PLAN_CHANGES))
def test_a_stream_gives_the_bytes_of_a_run(
    rows: list[Row], batch: int, rows_per_shard: int, changes: tuple[str, ...]
) -> None:
    plan = load_rmft_plan(*changes)
    with tempfile.TemporaryDirectory() as name:
        expected = run_rows(
            rows,
            load_plan("rmft", ["edit.0.stores=curated", "edit.0.avoid=seen", *changes]),
            rows_per_shard,
            Path(name),
        )
    assert list(stream(rows, plan=plan, seed=1, batch=batch)) == expected
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=batch)
    assert [
        row for output in stream(batches, plan=plan, seed=1) for row in output.to_pylist()
    ] == expected


@PROPERTY_SETTINGS
@given(
    corpora(), st.integers(1, 5), st.sampled_from(["corpus", "mixed", "curated"]), st.integers(0, 2)
)
def test_output_is_independent_of_the_batch_size(
    rows: list[Row], batch: int, stores: str, keep: int
) -> None:
    plan = load_plan("rmft", [f"edit.0.stores={stores}", f"edit.0.keep={keep}"])
    assert list(stream(rows, plan=plan, seed=1, batch=batch)) == list(
        stream(rows, plan=plan, seed=1, batch=1_000)
    )


@settings(PROPERTY_SETTINGS, max_examples=6)
@given(
    st.lists(st.lists(st.sampled_from(ADDRESSES[:-2]), max_size=4), min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_replacements_are_never_kept_and_earlier_values_are_never_replacements(
    documents: list[list[str]], batch: int
) -> None:
    """Compares with a brute-force reference, address by address: no replacement is kept later, and
    no earlier value is a replacement."""
    rows = [{"text": " ".join(addresses)} for addresses in documents]
    output_addresses = [
        row["text"].split() for row in stream(rows, plan=load_rmft_plan(), seed=3, batch=batch)
    ]
    replacements: set[str] = set()
    input_values: set[str] = set()
    for input_row, output_row in zip(documents, output_addresses, strict=True):
        assert len(input_row) == len(output_row)
        values_so_far = input_values | set(input_row)
        for original, output_value in zip(input_row, output_row, strict=True):
            if output_value == original:
                # the first occurrence, which equals no variant
                assert original not in input_values and original not in replacements
            else:
                assert original in input_values or original in replacements
                assert output_value not in values_so_far and output_value not in replacements
                replacements.add(output_value)
            input_values.add(original)


def test_a_value_that_equals_an_earlier_variant_is_replaced() -> None:
    """After a repeated address all other addresses follow; with small pools some of them equal its
    variants."""
    rows = [{"text": "ann.lee@example.com"}] * 4 + [{"text": address} for address in ADDRESSES[:12]]
    for batch in (1, 100):
        out = [row["text"] for row in stream(rows, plan=load_rmft_plan(), seed=1, batch=batch)]
        equal_to_replacements = [text for text in ADDRESSES[1:12] if text in out[1:4]]
        assert equal_to_replacements and not set(equal_to_replacements) & set(out[4:])
        assert len({text.lower() for text in out}) == len(out)


PLANS = {
    "URLs are redacted before addresses": (
        """
[find]
kinds = ["EMAIL_ADDRESS", "URL"]
[[edit]]
use = "redact"
kinds = ["URL"]
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
stores = "curated"
"""
    ),
    "two editors that keep": (
        """
[find]
kinds = ["EMAIL_ADDRESS", "URL", "PHONE_NUMBER"]
[[edit]]
use = "rmft"
kinds = ["URL", "PHONE_NUMBER"]
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
stores = "curated"
"""
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_a_later_editor_counts_the_occurrences_that_earlier_ones_left(
    plan: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(PLANS[plan])
    url = "http://www.example.com/?u=bob.mann@example.com&x=1"
    rows = [
        {"text": text}
        for text in (
            url,
            f"{url} bob.mann@example.com",
            "bob.mann@example.com cleo.lee@example.com",
            url,
        )
    ]
    changes = ["edit.1.avoid=seen", *(["edit.0.avoid=seen"] if "two" in plan else [])]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        load_plan(str(tmp_path / "mine.toml"), changes),
        settings=Settings(seed=1, workers=1),
    )
    expected = Corpus.open(tmp_path / "out").table(["text"]).column("text").to_pylist()
    for batch in (1, 2, 10):
        assert [
            row["text"]
            for row in stream(
                rows, plan=load_plan(str(tmp_path / "mine.toml")), seed=1, batch=batch
            )
        ] == expected


CORPUS_PLANS = [
    ("header_dedup", (), "header_dedup"),
    ("mask_words", (), "blacklist"),
    ("blacklist", (), "blacklist"),
]


@pytest.mark.parametrize(("plan", "changes", "word"), CORPUS_PLANS)
def test_plans_with_a_corpus_pass_are_refused_with_advice(
    plan: str, changes: tuple[str, ...], word: str
) -> None:
    with pytest.raises(PlanError, match=rf"{word}.*sanitize run"):
        stream([], plan=load_plan(plan, changes))


def test_droppers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[find]\nkinds = []\n[[drop]]\nuse = "exact_dup"\n')
    with pytest.raises(PlanError, match=r"exact_dup.*sanitize run"):
        to_stream_plan(load_plan(str(tmp_path / "mine.toml")))


@pytest.mark.parametrize("plan", ["redact", "surrogates", "baseline", "rmft"])
def test_shipped_plans_without_a_corpus_pass(plan: str) -> None:
    rows = [
        {"text": "ann.lee@example.com 713-555-0123", "doc_id": str(number)} for number in range(3)
    ]
    out = [row["text"] for row in stream(rows, plan=plan, seed=1)]
    kept = {"redact": 0, "surrogates": 0, "baseline": 3, "rmft": 1}[plan]
    assert sum("ann.lee@example.com" in text for text in out) == kept
    assert sum("713-555-0123" in text for text in out) == kept


def test_values_that_the_finder_misses_are_swept(tmp_path: Path) -> None:
    rows = [
        {"text": "bob.mann@example.com and ｂｏｂ.mann@example.com"},
        {"text": "bob.mann@example.com"},
    ]
    for batch in (1, 2):
        out = [row["text"] for row in stream(rows, plan=load_rmft_plan(), seed=1, batch=batch)]
        assert out[0].startswith("bob.mann@example.com and ") and "ｂｏｂ" not in out[0]
        assert "bob.mann@example.com" not in out[1]


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_record_that_would_leak_goes_to_quarantine(tmp_path: Path, batch: int) -> None:
    """Also if all records of a batch leak."""
    rows = [
        {"text": "ann.lee@example.com"},
        {"text": "again ann.lee@example.com", "doc_id": "ann.lee@example.com"},  # in a kept column
        # in the name of a field
        {"text": "cleo.lee@example.com", "x": {"cleo.lee@example.com": 1}},
        {"text": "bob.lee@example.com"},
    ]
    out = list(stream(rows, plan="surrogates", state=tmp_path / "state", seed=1, batch=batch))
    assert len(out) == 2 and "@" in out[0]["text"] and "bob.lee" not in out[1]["text"]
    quarantined = [
        json.loads(line)
        for line in (tmp_path / "state" / "quarantine" / "records.jsonl").read_text().splitlines()
    ]
    assert [(entry["record"], entry["reason"]) for entry in quarantined] == [
        (1, "leak"),
        (2, "leak"),
    ]
    assert json.loads(quarantined[0]["raw"]) == rows[1]
    mode = (tmp_path / "state" / "quarantine" / "records.jsonl").stat().st_mode
    assert mode & 0o077 == 0 and (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_a_number_that_is_a_removed_value_goes_to_quarantine(tmp_path: Path) -> None:
    numbers = [1, 7135550123, 17135550123.0, None, 713555012]
    rows = [
        {"text": "call 713-555-0123", "n": number, "deep": [{"a": number}]} for number in numbers
    ]
    for name, source in (("records", rows), ("table", [pa.Table.from_pylist(rows)])):
        list(stream(source, plan="redact", state=tmp_path / name, batch=10, sanitize=["n", "deep"]))
        quarantined = [
            json.loads(line)
            for line in (tmp_path / name / "quarantine" / "records.jsonl").read_text().splitlines()
        ]
        assert [(entry["record"], entry["reason"]) for entry in quarantined] == [
            (1, "leak"),
            (2, "leak"),
        ]
        left = list(stream(source, plan="redact", batch=10, drop=["n", "deep"]))
        assert sum(one.num_rows if isinstance(one, pa.RecordBatch) else 1 for one in left) == 5
    assert (
        len(list(stream(rows, plan="redact", batch=10, drop=["deep"], pseudonymize=["n"], seed=1)))
        == 5
    )


BAD_LINES = [
    (b"{broken", "not_json"),
    (b"[1]", "not_an_object"),
    (b'{"text": "\xff"}', "not_utf8"),
    (b'{"text": "\\ud800"}', "not_utf8"),
    (b'{"text": "ann.lee@example.com", "text": "x"}', "repeated_key"),
    (b'{"body": "ann.lee@example.com"}', "no_text"),
    (b'{"text": 7}', "wrong_type"),
    (b'{"text": "' + b"x" * 5_000 + b'"}', "too_large"),
]


StreamCommand = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture()
def sanitize_stream(start_forked_command: Callable[..., Any] | None) -> StreamCommand:
    """Runs the command in a process of its own."""

    def run_command(
        folder: Path, stdin_bytes: bytes, *arguments: str
    ) -> subprocess.CompletedProcess[bytes]:
        plan = () if "--plan" in arguments else ("--plan", "rmft")
        command = ["stream", "--seed", "1", *plan, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        if start_forked_command is None:
            command = [sys.executable, "-m", "sanitize", *command]
            return subprocess.run(
                command,
                cwd=folder,
                input=stdin_bytes,
                capture_output=True,
                env=environment,
                timeout=120,
            )
        process = start_forked_command(command, folder, environment, stdin_bytes)
        stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(
            command, process.returncode, stdout.encode(), stderr.encode()
        )

    return run_command


def test_bad_records_go_to_quarantine_and_the_stream_continues(
    tmp_path: Path, sanitize_stream: StreamCommand
) -> None:
    good = b'{"text": "bob.mann@example.com", "n": 1e3}\n'
    stdin_bytes = good + b"".join(line + b"\n\n" + good for line, _ in BAD_LINES)
    result = sanitize_stream(tmp_path, stdin_bytes, "--state", "state", "--max-doc-bytes", "1000")
    assert result.returncode == 0, result.stderr
    first, *others = map(json.loads, result.stdout.splitlines())
    assert first == {"text": "bob.mann@example.com", "n": 1000.0}
    assert len(others) == len(BAD_LINES) and not any(
        "bob.mann@example.com" in record["text"] for record in others
    )
    reasons = [reason for _, reason in BAD_LINES]
    assert all(f"{reasons.count(reason)} {reason}" in result.stderr.decode() for reason in reasons)
    quarantined = [
        json.loads(text)
        for text in (tmp_path / "state" / "quarantine" / "records.jsonl").read_text().splitlines()
    ]
    assert [(entry["record"], entry["reason"]) for entry in quarantined] == [
        (2 * no + 1, reason) for no, reason in enumerate(reasons)
    ]
    assert "@" not in result.stderr.decode()


LINES_OF_TEXT: list[tuple[bytes, list[str]]] = [
    (b"", []),
    (b"\n", [""]),
    (b"a\n\nb", ["a", "", "b"]),
    (b"\xef\xbb\xbfann.lee@example.com\r\n", ["[EMAIL_ADDRESS]\r"]),
    (b'{"text": "ann.lee@example.com"}\n', ['{"text": "[EMAIL_ADDRESS]"}']),
    ("café ann.lee@example.com\n".encode("cp1252"), ["café [EMAIL_ADDRESS]"]),
]


@pytest.mark.parametrize(("data", "expected"), LINES_OF_TEXT)
def test_each_line_of_text_is_a_record(data: bytes, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(data)
    out = io.BytesIO()
    with (tmp_path / "in").open("rb") as file:
        settings = Settings(seed=1, text_column=("said",))
        summary = run_stream(
            [],
            None,
            load_plan("redact"),
            None,
            settings,
            stdin=file.fileno(),
            stdout=out,
            lines=True,
        )
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"said": text} for text in expected
    ]
    assert (summary.documents_in, summary.quarantined) == (len(expected), 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-", "a.jsonl"), "- is standard input, which is read alone"),
        (("a.jsonl", "--lines"), "--lines reads texts from standard input"),
        (
            ("-", "--lines", "--text-column", "a[].b"),
            "--text-column a[].b: with --lines each record is one text",
        ),
    ],
)
def test_what_standard_input_excludes(
    arguments: tuple[str, ...], words: str, console: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = console("stream", *arguments)
    assert (code, out) == (2, "") and words in err


UNREADABLE_INPUTS = [
    (
        # of nested columns only the fields of lists are named: keys of other objects may be names
        # of people, and so may columns with an @
        (
            b'{"body": "ann.lee@example.com", "meta": {"ann.lee": "a"}, "ann.lee@example.com": 1,'
            b' "parts": [{"said": "a"}]}'
        ),
        ("--text-column", "bodi"),
        2,
        ["bodi", "did you mean body? Known: body, meta, parts, parts[].said"],
    ),
    (b'{"text": {"said": "ann.lee@example.com"}}', (), 2, ["Known: text.said."]),
    (b"ann.lee@example.com,1", (), 3, ["it is not valid JSON", "JSON lines"]),
    (b'[{"text": "ann.lee@example.com"}]', (), 3, ["it is JSON, but not an object"]),
]


@pytest.mark.parametrize("out", [None, "there/out.jsonl", "there/out"])
@pytest.mark.parametrize(
    ("line", "options", "code", "words"),
    UNREADABLE_INPUTS,
    ids=["column", "no string", "no JSON", "array"],
)
def test_a_stream_without_a_readable_record_is_refused(
    tmp_path: Path,
    line: bytes,
    options: tuple[str, ...],
    code: int,
    words: list[str],
    out: str | None,
) -> None:
    """One error lists the columns and no value, and no files are left, for short and long
    inputs."""
    (work_folder := tmp_path / "here").mkdir()
    columns = {"text_column": options[1:] or ("text",)}
    for line_count in (1, 3, 1_001):
        (tmp_path / "in").write_bytes((line + b"\n") * line_count)
        with (
            (tmp_path / "in").open("rb") as input_file,
            pytest.raises((UsageError, InputRefused)) as caught,
        ):
            stream_settings = Settings(seed=1, batch=400, **columns)
            run_stream(
                [],
                work_folder / out if out else None,
                load_rmft_plan(),
                work_folder / "state",
                stream_settings,
                stdin=input_file.fileno(),
                stdout=io.BytesIO(),
            )
        assert caught.value.exit_code == code and all(
            word in str(caught.value) for word in words
        ), caught.value
        assert "ann.lee" not in str(caught.value) and list(work_folder.iterdir()) == []


def test_the_command_reports_a_stream_without_a_readable_record(
    tmp_path: Path, sanitize_stream: StreamCommand
) -> None:
    line, options = UNREADABLE_INPUTS[0][:2]
    result = sanitize_stream(tmp_path, line, "--state", "state", *options)
    assert (result.returncode, result.stdout, list(tmp_path.iterdir())) == (2, b"", [])
    assert (
        result.stderr.startswith(
            b"error: the stream: none of its 1 record has a text in a column bodi; "
        )
        and result.stderr.count(b"\n") == 1
    )


def test_lost_splits_are_reported(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / "in" / split).mkdir(parents=True)
        (tmp_path / "in" / split / "a.jsonl").write_text('{"text": "a"}\n')
    result = run_stream(
        [tmp_path / "in"], tmp_path / "out.jsonl", Plan.load("redact"), None, Settings(seed=1)
    )
    assert [note.partition(";")[0] for note in result.notes if "splits" in note] == [
        "the input has the splits train, test"
    ]


def test_a_missing_column_is_reported(tmp_path: Path) -> None:
    """A misspelt column name has no effect: for files it is refused; for records that are still to
    arrive it can only be reported."""
    rows = [{"text": "bob.mann@example.com", "who": "kim"}, {"text": "a", "phone": "b"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(lines)
    (tmp_path / "in" / "b.mbox").write_text(
        "From x Mon May 14 16:39:00 2001\nFrom: ann@example.com\n\nHello.\n"
    )
    pq.write_table(pa.table({"text": ["a"], "other": ["b"]}), tmp_path / "in" / "c.parquet")
    (tmp_path / "whole").mkdir()
    for name in ("b.mbox", "c.parquet"):
        shutil.copy(tmp_path / "in" / name, tmp_path / "whole")
    state, out = tmp_path / "state", tmp_path / "out.jsonl"
    for option, columns in {
        "--drop whom": {"drop": ["whom"]},
        "--user-column whom": {"user_column": "whom"},
        "--id-column no": {"id_column": "no"},
    }.items():
        stream_settings = Settings(seed=1, batch=1, **columns)
        with pytest.raises(UsageError, match=option.split()[0]):
            run_stream([tmp_path / "whole"], out, load_rmft_plan(), state, stream_settings)
        assert not state.exists() and not out.exists()
        # in JSON Lines a column may occur first in any record
        summary = run_stream(
            [tmp_path / "in"], None, load_rmft_plan(), None, stream_settings, stdout=io.BytesIO()
        )
        assert summary.notes == [f"{option}: no record had such a column"]
        with (tmp_path / "in" / "a.jsonl").open("rb") as input_file:
            summary = run_stream(
                [],
                None,
                load_rmft_plan(),
                None,
                stream_settings,
                stdin=input_file.fileno(),
                stdout=io.BytesIO(),
            )
        assert summary.notes == [f"{option}: no record had such a column"]
        with pytest.warns(
            UserWarning, match=f"{to_python_names(option + ':')} no record had such a column"
        ):
            list(stream(rows, plan=load_rmft_plan(), seed=1, **columns))
    all_columns = {"drop": ["who", "phone", "other", "user_id"]}
    assert (
        run_stream(
            [tmp_path / "in"], out, load_rmft_plan(), state, Settings(seed=1, **all_columns)
        ).notes
        == []
    )
    assert all(set(json.loads(line)) == {"text"} for line in out.read_text().splitlines())


def test_files_that_appear_before_the_first_record_are_not_overwritten(tmp_path: Path) -> None:
    """The output is checked when the command starts and created with the first record, which may be
    hours later: files that appear in between are not overwritten."""
    record = DictBatch([{"text": "b"}])
    sinks: list[Sink] = [
        JsonLinesFileSink(tmp_path / "out.jsonl", None),
        ParquetFolderSink(tmp_path / "out", None),
    ]
    (tmp_path / "out").mkdir()
    foreign_files = [
        tmp_path / "out.jsonl",
        tmp_path / "out" / "part-00000.parquet",
        tmp_path / "out" / "part-00007.parquet",
    ]
    for path in foreign_files:
        path.write_text("a")
    for sink in sinks:
        with pytest.raises(UsageError, match="does not belong to this state"):
            sink.put(record)
            sink.commit()
    assert [path.read_text() for path in foreign_files] == ["a"] * 3


@pytest.mark.parametrize("bad_first", [True, False])
def test_an_unreadable_input_does_not_stop_the_next_one(tmp_path: Path, bad_first: bool) -> None:
    (tmp_path / "bad.jsonl").write_text(f'{{"text": "{"x" * 99}"}}\n' * 2)
    stream_settings = Settings(seed=1, batch=1, max_doc_bytes=50)
    (tmp_path / "good.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    inputs = [
        tmp_path / name
        for name in (("bad.jsonl", "good.jsonl") if bad_first else ("good.jsonl", "bad.jsonl"))
    ]
    for document_count in (4, 0):  # the second time all records are acknowledged
        summary = run_stream(
            inputs, tmp_path / "out.jsonl", load_rmft_plan(), tmp_path / "state", stream_settings
        )
        assert (summary.documents_in, summary.quarantined) == (document_count, document_count // 2)
    assert (tmp_path / "out.jsonl").read_text().count("\n") == 2
    with pytest.raises(InputRefused, match="none of its 2 records can be read .*100% allows all"):
        run_stream(
            [tmp_path / "bad.jsonl"],
            tmp_path / "other.jsonl",
            load_rmft_plan(),
            None,
            stream_settings,
        )


def test_with_max_quarantine_1_all_records_may_be_quarantined(tmp_path: Path) -> None:
    rows = [*({"no": 1},) * 1_200, {"text": "bob.mann@example.com"}]
    stream_settings = Settings(seed=1, batch=100, max_quarantine=1.0)
    for name, input_rows in (("all", rows), ("none", rows[:-1])):
        (tmp_path / "in").write_text("".join(json.dumps(row) + "\n" for row in input_rows))
        with (tmp_path / "in").open("rb") as input_file:
            summary = run_stream(
                [],
                tmp_path / f"{name}.jsonl",
                load_rmft_plan(),
                tmp_path / name,
                stream_settings,
                stdin=input_file.fileno(),
            )
        assert (summary.documents_in, summary.quarantined) == (len(input_rows), 1_200)


@pytest.mark.parametrize("column", ["user_id", "doc_id"])
def test_the_main_text_may_be_a_column_with_another_default_role(column: str) -> None:
    (output_row,) = stream(
        [{column: "mail bob.mann@example.com"}],
        plan=load_plan("redact"),
        seed=1,
        text_column=(column,),
    )
    assert output_row == {column: "mail [EMAIL_ADDRESS]"}


@pytest.mark.parametrize("source", ["in.jsonl", Path("in.jsonl"), b"in", {"text": "a"}, None, 7])
def test_a_source_that_is_no_iterable_of_records_is_refused_at_once(source: Any) -> None:
    with pytest.raises(
        UsageError, match="stream: records is .*; expected an iterable of dictionaries"
    ):
        stream(source, plan=load_rmft_plan())


def test_records_quarantined_before_the_first_readable_record(tmp_path: Path) -> None:
    """Quarantined records are held back until the first readable record arrives."""
    rows = [{"no": 1}, {"no": 2}, {"text": "bob.mann@example.com"}]
    assert (
        list(stream(iter(rows), plan=load_rmft_plan(), state=tmp_path / "state", seed=1, batch=1))
        == rows[2:]
    )
    assert json.loads((tmp_path / "state" / "state.json").read_text())["quarantined"] == 2
    with pytest.raises(UsageError, match="has a text in a column text.*known: no"):
        list(stream(rows[:2], plan=load_rmft_plan(), state=tmp_path / "other", seed=1, batch=1))
    assert not (tmp_path / "other").exists()
    # after readable records, unreadable ones are only quarantined
    assert list(stream(rows[:2], plan=load_rmft_plan(), state=tmp_path / "state", seed=1)) == []
    assert json.loads((tmp_path / "state" / "state.json").read_text())["quarantined"] == 4


@pytest.mark.parametrize("out", ["out.jsonl", "out"])
def test_parquet_with_binary_text_is_refused_before_anything_is_written(
    tmp_path: Path, out: str
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"text": ["ann.lee@example.com"]}), tmp_path / "in" / "a.parquet")
    pq.write_table(
        pa.table({"text": [b"From: ann.lee@example.com"]}), tmp_path / "in" / "b.parquet"
    )
    before = sorted(tmp_path.iterdir())
    for inputs in (["in/b.parquet"], ["in/a.parquet", "in/b.parquet"], ["in"]):
        with pytest.raises(InputRefused, match=r"b\.parquet: column text holds bytes"):
            run_stream(
                [tmp_path / name for name in inputs],
                tmp_path / "made" / out,
                load_rmft_plan(),
                tmp_path / "state",
                Settings(seed=1),
            )
        assert sorted(tmp_path.iterdir()) == before


def test_too_many_bad_records_stop_the_stream(tmp_path: Path) -> None:
    rows = [{"text": "x"} if number % 2 else {"no": 1} for number in range(2_000)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(QuarantineExceeded, match="no_text"):
        run_stream(
            [tmp_path / "in.jsonl"],
            tmp_path / "out.jsonl",
            load_rmft_plan(),
            tmp_path / "state",
            Settings(seed=1, batch=500),
        )


@pytest.mark.slow
def test_a_record_does_not_wait_for_the_next() -> None:
    command = [sys.executable, "-m", "sanitize", "stream", "--plan", "rmft", "--seed", "1", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for number in range(2):
            process.stdin.write(b'{"text": "bob.mann@example.com"}\n')
            process.stdin.flush()
            line = json.loads(process.stdout.readline())  # arrives while the input is still open
            assert (line["text"] == "bob.mann@example.com") == (number == 0)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.slow
def test_workers_keep_the_order() -> None:
    rows = [{"text": f"bob.mann@example.com no {number}"} for number in range(60)]
    assert list(stream(rows, plan=load_rmft_plan(), seed=1, batch=7, workers=2)) == list(
        stream(rows, plan=load_rmft_plan(), seed=1)
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_workers_need_no_main_guard_and_end_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sanitize\nprint('once', flush=True)\noutput ="
        " sanitize.stream(({'text': f'ann.lee{no}@example.com'} for no in range(60)), plan='rmft',"
        " seed=1, batch=5, workers=2)\nprint(next(output)['text'],"
        " flush=True)\nsubprocess.run(['ps', '-o', 'pid=', '--ppid',"
        " str(os.getpid())])\nos.kill(os.getpid(), 9)"
    )
    (tmp_path / "script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    start_message, text, *process_ids = result.stdout.split()
    # the workers, and ps
    assert (start_message, text, len(process_ids)) == (
        "once",
        "ann.lee0@example.com",
        3,
    ), result.stderr
    deadline = time.monotonic() + 20
    while (
        running_ids := [process_id for process_id in process_ids if is_running(process_id)]
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running_ids


def is_running(process_id: str) -> bool:
    status = Path(f"/proc/{process_id}/status")
    return status.exists() and "zombie" not in status.read_text()


def test_workers_that_die_at_their_start_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an out-of-memory kill: the internal broken pipe is not reported as a closed standard
    output."""
    monkeypatch.setattr("sanitize.engines.worker_process._BOOTSTRAP_CODE", "pass")
    with pytest.raises(ResourceError, match="a worker died"):
        list(
            stream(
                ({"text": "a"} for _ in range(40)),
                plan=load_rmft_plan(),
                seed=1,
                batch=5,
                workers=2,
            )
        )


@pytest.mark.slow
def test_a_consumer_that_stops_ends_the_workers() -> None:
    output = stream(
        ({"text": f"bob.mann{no}@example.com"} for no in itertools.count()),
        plan=load_rmft_plan(),
        seed=1,
        batch=5,
        workers=2,
    )
    assert next(output)["text"] == "bob.mann0@example.com"
    output.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("find")]


def test_a_worker_that_dies_stops_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def terminate_and_receive(worker: WorkerProcess) -> TaskResult:
        worker.terminate()
        return real_receive(worker)

    real_receive = WorkerProcess.receive
    monkeypatch.setattr(WorkerProcess, "receive", terminate_and_receive)
    with pytest.raises(ResourceError, match="a worker died"):
        list(stream([{"text": "a " * 1_000_000}], plan=load_rmft_plan(), seed=1, workers=2))


def test_columns_have_policies() -> None:
    row = {
        "body": "ann.lee@example.com",
        "who": "bob",
        "no": 3,
        "note": "ann.lee@example.com",
        "extra": "x",
        "doc_id": 4,
        "user_id": "u",
    }
    columns = {"text_column": ("body",), "user_column": "who", "id_column": "no", "drop": ["extra"]}
    for source in ([row], [pa.Table.from_pylist([row])]):
        outputs = list(stream(source, plan="surrogates", seed=1, **columns))
        (out,) = outputs if isinstance(outputs[0], dict) else outputs[0].to_pylist()
        assert set(out) == {"body", "who", "no", "note", "doc_id", "user_id"}
        assert out["no"] == 3 and out["doc_id"] == 4 and out["user_id"] == "u"
        assert out["who"] != "bob" and "ann.lee" not in out["body"] + out["note"]
    with pytest.raises(UsageError, match="main text"):
        list(stream([row], plan="surrogates", text_column=("body",), keep=["body"]))
    with pytest.raises(InputRefused, match="text_column"):
        list(stream([pa.Table.from_pylist([row])], plan="surrogates", text_column="boddy"))


def test_without_a_column_text_the_first_records_choose_the_main_text(tmp_path: Path) -> None:
    mail = "ann.lee@example.com"
    rows = [{"who_no": 1, "body": mail}, {"who_no": 2}, {"body": mail, "note": mail}]
    for batch in (1, 10):
        with pytest.warns(UserWarning, match="the main text is body, since no column is called"):
            assert list(stream(rows, plan="redact", batch=batch)) == [
                {"who_no": 1, "body": "[EMAIL_ADDRESS]"},
                {"who_no": 2},
                {"body": "[EMAIL_ADDRESS]", "note": "[EMAIL_ADDRESS]"},
            ]
    state = tmp_path / "state"
    with pytest.warns(UserWarning, match="the main text is body"):
        list(stream(rows[:1], plan="redact", state=state, seed=1))
    with pytest.warns(UserWarning, match="the main text is body"):
        assert list(stream([{"note": mail, "text": mail}], plan="redact", state=state, seed=1)) == [
            {"note": "[EMAIL_ADDRESS]", "text": "[EMAIL_ADDRESS]"}
        ]
    table = pa.table({"a_id": [1], "body": [mail]})
    with pytest.warns(UserWarning, match="the main text is body"):
        (out,) = stream(table, plan="redact")
    assert out.to_pylist() == [{"a_id": 1, "body": "[EMAIL_ADDRESS]"}]


def test_nested_texts_are_edited_and_other_values_unchanged() -> None:
    row: Row = {
        "messages": [
            {"role": "user", "content": "ann.lee@example.com", "n": 1},
            None,
            {"content": None},
            {"role": "x"},
        ]
    }
    row |= {
        "deep": {"a": [["bob.mann@example.com", 7], [None]], "b": True},
        "n": 2**70,
        "f": 1.5,
        "none": None,
        "mixed": [1, "x", {}],
    }
    columns = {"text_column": ("messages[].content",)}
    (out,) = stream([row], plan="surrogates", seed=1, **columns)
    assert "@" in out["messages"][0]["content"] != "ann.lee@example.com"
    assert "@" in out["deep"]["a"][0][0] != "bob.mann@example.com"
    out["messages"][0]["content"], out["deep"]["a"][0][0] = (
        "ann.lee@example.com",
        "bob.mann@example.com",
    )
    assert out == row


def test_later_records_may_have_new_fields() -> None:
    rows = [
        {"text": "a"},
        {"text": "b", "more": "ann.lee@example.com"},
        {"more": 3, "text": "c", "tags": ["bob.mann@example.com"]},
    ]
    rows_by_1, rows_by_10 = (
        list(stream(rows, plan="surrogates", seed=1, batch=batch)) for batch in (1, 10)
    )
    assert (
        rows_by_1 == rows_by_10
        and "ann.lee" not in rows_by_1[1]["more"]
        and rows_by_1[2]["more"] == 3
        and "bob.mann" not in rows_by_1[2]["tags"][0]
    )


def test_input_files_of_several_formats_and_output_folder(tmp_path: Path) -> None:
    rows = [{"text": f"bob.mann@example.com {number}", "user_id": "u"} for number in range(5)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    mail = (
        "From ann@example.com Thu Jan  1 00:00:00 1970\nFrom: Ann <ann.lee@example.com>\nSubject:"
        " x\n\nbob.mann@example.com\n\n"
    )
    (tmp_path / "c.mbox").write_text(mail * 2)
    names = ["a.jsonl", "b.parquet", "c.mbox"]
    summary = run_stream(
        [tmp_path / name for name in names],
        tmp_path / "out",
        load_rmft_plan(),
        tmp_path / "state",
        Settings(seed=1),
    )
    assert summary.documents_in == summary.documents_out == 12 and summary.position == 12
    parts = sorted((tmp_path / "out").iterdir())
    assert [part.name for part in parts] == [
        "part-00000.parquet",
        "part-00001.parquet",
        "part-00002.parquet",
    ]
    texts = [text for part in parts for text in pq.read_table(part).column("text").to_pylist()]
    assert sum("bob.mann@example.com" in text for text in texts) == 1
    second_summary = run_stream(
        [tmp_path / name for name in names],
        tmp_path / "out",
        load_rmft_plan(),
        tmp_path / "state",
        Settings(seed=1),
    )
    assert (
        not second_summary.changed
        and second_summary.position == 12
        and sorted((tmp_path / "out").iterdir()) == parts
    )
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write(json.dumps({"text": "bob.mann@example.com new", "user_id": "u"}) + "\n")
    third_summary = run_stream(
        [tmp_path / "a.jsonl"],
        tmp_path / "out",
        load_rmft_plan(),
        tmp_path / "state",
        Settings(seed=1),
    )
    assert third_summary.documents_in == 1 and third_summary.position == 13


def test_a_state_with_another_plan_key_or_columns_is_refused(tmp_path: Path) -> None:
    rows = [{"text": "bob.mann@example.com"}]
    list(stream(rows, plan=load_rmft_plan(), state=tmp_path / "state", seed=1))
    for options in ({"seed": 2}, {"seed": 1, "plan": "redact"}, {"seed": 1, "user_column": "x"}):
        with pytest.raises(UsageError, match="state"):
            list(stream(rows, **{"plan": load_rmft_plan(), "state": tmp_path / "state", **options}))
    assert [
        row["text"] for row in stream(rows, plan=load_rmft_plan(), state=tmp_path / "state", seed=1)
    ] != ["bob.mann@example.com"]


def test_a_stream_resumes_after_its_consumer_stopped(tmp_path: Path) -> None:
    rows = [{"text": f"bob.mann@example.com {number}"} for number in range(10)]
    expected = list(stream(rows, plan=load_rmft_plan(), seed=1))
    received_rows = []
    with contextlib.closing(
        stream(rows, plan=load_rmft_plan(), state=tmp_path / "state", seed=1, batch=3)
    ) as source:
        for row in source:
            received_rows.append(row)
            if len(received_rows) == 5:
                break
    resumed_rows = list(
        stream(rows, plan=load_rmft_plan(), state=tmp_path / "state", seed=1, batch=3, again=True)
    )
    # the last batch was not acknowledged: it is sent again, unchanged
    assert received_rows == expected[:5] and resumed_rows == expected[3:]


def test_datasets_and_torch_loaders(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    rows = [{"text": f"bob.mann@example.com {number}"} for number in range(10)]
    expected = list(stream(rows, plan=load_rmft_plan(), seed=1))
    source = datasets.Dataset.from_list(rows).to_iterable_dataset()
    assert list(stream(source, plan=load_rmft_plan(), seed=1)) == expected
    dataset = datasets.IterableDataset.from_generator(
        lambda: stream(source, plan=load_rmft_plan(), seed=1)
    )
    assert list(dataset) == expected and list(dataset) == expected  # each pass starts a new stream

    class StreamedRows(torch.utils.data.IterableDataset):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[Row]:
            return stream(rows, plan=load_rmft_plan(), seed=1)

    loader = torch.utils.data.DataLoader(StreamedRows(), batch_size=4, num_workers=0)
    assert [text for batch in loader for text in batch["text"]] == [row["text"] for row in expected]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_of_a_process_that_had_a_stream_is_refused() -> None:
    assert list(stream([{"text": "a"}], plan=load_rmft_plan(), seed=1)) == [{"text": "a"}]
    process_id = os.fork()
    if not process_id:
        try:
            list(stream([{"text": "a"}], plan=load_rmft_plan(), seed=1))
        except UsageError as error:
            os._exit(0 if "forkserver" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 0


def test_elements_that_are_no_records_are_refused() -> None:
    with pytest.raises(UsageError, match="int"):
        list(stream([1], plan="surrogates"))


def test_no_temporary_folder_remains_without_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = [
        sorted(path.name for path in tmp_path.iterdir())
        for _ in stream([{"text": "ann.lee@example.com"}], plan=load_rmft_plan())
    ]
    assert [name.startswith("sanitize-stream-") for (name,) in seen] == [True] and not list(
        tmp_path.iterdir()
    )


def test_a_stream_counts_what_a_run_counts(tmp_path: Path) -> None:
    """Occurrences that are found, kept, replaced and left by the plan, by kind, over several
    batches."""
    rows = [
        {
            "doc_id": str(number),
            "text": (
                f"See https://{'abc'[number % 3]}.example.com/ann.lee@example.com,"
                f" ann.lee@example.com, 192.0.2.{number}. "
            ),
        }
        for number in range(7)
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    changed = ["edit.0.stores=curated", "edit.0.avoid=seen"]
    run_summary = run_with_settings(
        tmp_path / "in.jsonl",
        tmp_path / "out",
        load_plan("rmft", changed),
        settings=Settings(seed=1, workers=1),
    )
    stream_summary = run_stream(
        [tmp_path / "in.jsonl"],
        tmp_path / "out.jsonl",
        load_rmft_plan(),
        None,
        Settings(seed=1, batch=3),
    )
    count_names = ("occurrences", "kept", "replaced", "left_by_plan")
    counts_by_kind = {
        kind: [getattr(entry, name) for name in count_names]
        for kind, entry in run_summary.by_kind.items()
    }
    assert {
        kind: [getattr(entry, name) for name in count_names]
        for kind, entry in stream_summary.by_kind.items()
    } == counts_by_kind
    assert counts_by_kind["URL"] == [7, 0, 0, 7]
    assert [
        getattr(stream_summary, name) for name in ("occurrences", "kept_originals", "replaced")
    ] == [getattr(run_summary, name) for name in ("occurrences", "kept_originals", "replaced")]


def test_a_kind_that_an_editor_and_leave_name_is_counted_once(tmp_path: Path) -> None:
    """Of equally specific entries the editor's decides."""
    both = (
        'leave = ["contact"]\n[find]\nkinds = ["contact"]\n[[edit]]\nuse = "redact"\nkinds ='
        ' ["contact"]\n'
    )
    (tmp_path / "both.toml").write_text(both, "utf-8")
    (tmp_path / "in.jsonl").write_text(
        '{"text": "ann.lee@example.com or bob@example.org"}\n', "utf-8"
    )
    summary = run_stream(
        [tmp_path / "in.jsonl"],
        tmp_path / "out.jsonl",
        load_plan(str(tmp_path / "both.toml")),
        None,
        Settings(seed=1),
    )
    assert (
        summary.occurrences,
        summary.replaced,
        summary.by_kind["EMAIL_ADDRESS"].left_by_plan,
    ) == (2, 2, 0)


def test_a_stream_finds_names_in_each_record() -> None:
    """`names` searches each text by itself; `known`, which needs the corpus, is left out."""
    records = [
        {"text": "From: Fnord Zyqwert <fzyq@example.com>\n\nhello"},
        {"text": "Dear Ann Quist, ask fnord zyqwert about it"},
        {"text": ""},
    ]
    for batch in (1, 3):
        first, second, _ = (
            record["text"] for record in stream(records, plan="redact", seed=1, batch=batch)
        )
        assert first == "From: [PERSON] <[EMAIL_ADDRESS]>\n\nhello"
        assert "[PERSON]" in second and "Quist" not in second
        # the leak check of a batch searches for its names
        assert ("zyqwert" in second) == (batch == 1)


@pytest.mark.slow
def test_workers_find_the_same_names() -> None:
    records = [
        {"text": f"Dear Ann Quist, call Bob Roe on {day} May, @aquist{day}"} for day in range(1, 9)
    ]
    one, two = (
        list(stream(records, plan="surrogates", seed=1, batch=3, workers=workers))
        for workers in (1, 2)
    )
    assert one == two and "Quist" not in str(one) and "aquist" not in str(one)


def test_names_in_several_columns_and_lists() -> None:
    row = {"text": "Dear Ann Quist,", "notes": ["met Bob Roe", None, "nothing"], "n": 1}
    assert list(stream([row], plan="redact", seed=1)) == [
        {"text": "Dear [PERSON],", "notes": ["met [PERSON]", None, "nothing"], "n": 1}
    ]


def test_a_kind_that_only_the_second_round_finds_is_refused() -> None:
    plan = load_plan(
        "redact", ['find.kinds=["EMAIL_ADDRESS", "LOCATION"]', 'find.finders=["patterns", "known"]']
    )
    with pytest.raises(PlanError, match="LOCATION is found only by values of the whole corpus"):
        list(stream([], plan=plan))


@pytest.mark.slow
def test_a_dash_is_standard_input(
    tmp_path: Path, start_forked_command: Callable[..., Any] | None
) -> None:
    if start_forked_command is None:
        pytest.skip("commands are forked on Linux only")
    for options, line in (
        (("--lines",), b"ann.lee@example.com"),
        ((), b'{"text": "ann.lee@example.com"}'),
    ):
        command = start_forked_command(
            ["stream", "-", "-q", "--plan", "redact", *options], tmp_path, os.environ, line
        )
        assert command.communicate(60) == ('{"text": "[EMAIL_ADDRESS]"}\n', "")


def test_values_of_columns_are_known_from_their_own_document(tmp_path: Path) -> None:
    """A replacement may equal a value of a column only before the document that has it, for any
    batch size and in a run."""
    rows = [
        {
            "text": " ".join(ADDRESSES[:6]),
            "doc_id": f"doc-{no}",
            "user_id": ADDRESSES[no % len(ADDRESSES)],
            "subject": None,
            "turns": [],
        }
        for no in range(12)
    ]
    plan = load_rmft_plan("edit.0.keep=0")
    expected = list(stream(rows, plan=plan, seed=1, batch=1))
    assert list(stream(rows, plan=plan, seed=1, batch=5)) == expected
    assert (
        run_rows(
            rows,
            load_plan("rmft", ["edit.0.stores=curated", "edit.0.avoid=seen", "edit.0.keep=0"]),
            5,
            tmp_path,
        )
        == expected
    )
    known: set[str] = set()
    for row, output in zip(rows, expected, strict=True):
        known |= {str(row["user_id"]).lower(), *str(row["text"]).lower().split()}
        assert not known & {word.lower() for word in output["text"].split()}
    later = {str(row["user_id"]).lower() for row in rows}
    assert any(later & {word.lower() for word in output["text"].split()} for output in expected), (
        "no draw equals a later value"
    )
