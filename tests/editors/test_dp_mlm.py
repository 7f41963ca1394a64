"""The editor `dp_mlm` in a run: what is rewritten, what is kept, that the result depends on the
input only, and that the ledger can be recomputed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core import failpoints
from sanitize.core.exponential_mechanism import BOUNDS_FILE, ClipBounds
from sanitize.core.keys import Key
from sanitize.errors import MissingExtra, OutputBroken, PlanError
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from sanitize.text.masked_lm import MaskedModel, measure_bounds
from tests.support import SimulatedKill

KINDS = [
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "MESSAGE_ID",
    "URL",
]
WORD = re.compile(r"[^\W_]+")  # the texts of this file contain no combining marks
ROWS = [
    {
        "doc_id": "a",
        "user_id": "u",
        "public": False,
        "text": "Ada met Bob at the red bridge; Bob said: no.",
        "more": "A note to Bob",
    },
    {
        "doc_id": "b",
        "user_id": "u",
        "public": True,
        "text": "Write to bob@example.com or call 713-555-0123.",
        "more": None,
    },
    {
        "doc_id": "c",
        "user_id": "v",
        "public": False,
        "text": "Für Ada: é, naïve 12 ß — ☂ bridge\n\tcall bob@example.com",
        "more": "",
    },
    {"doc_id": "d", "user_id": None, "public": None, "text": "...", "more": "the bridge"},
    {
        "doc_id": "e",
        "user_id": "w",
        "public": False,
        "text": "river " * 90 + "garden " * 60 + "stone",
        "more": "Bob, Bob",
    },
]
SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("user_id", pa.string()),
        ("public", pa.bool_()),
        ("text", pa.string()),
        ("more", pa.string()),
    ]
)
TOML = """
leave = {leave}
[find]
kinds = {found}
[[edit]]
use = "dp_mlm"
model = {model}
{settings}
{rest}
"""


def write_plan(
    folder: Path, model: Path, settings: str, kinds: Sequence[str] = KINDS, rest: str = ""
) -> Plan:
    leave = [kind for kind in KINDS if kind not in kinds]
    fields = {
        "leave": json.dumps(leave),
        "found": json.dumps(KINDS),
        "model": json.dumps(str(model)),
        "rest": rest,
    }
    (folder / "plan.toml").write_text(
        TOML.format(settings=f"kinds = {json.dumps(list(kinds))}\n{settings}", **fields), "utf-8"
    )
    return load_plan(str(folder / "plan.toml"))


def write_input(folder: Path, rows: Sequence[dict[str, Any]] = ROWS) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), folder / "in.parquet")
    return folder / "in.parquet"


def write_key(folder: Path) -> Path:
    path = folder / "key"
    if not path.exists():
        Key(b"k" * 32).write(path)
    return path


def run_plan(
    folder: Path, plan: Plan, **options: Any
) -> tuple[RunResult, list[dict[str, Any]], Path]:
    """Summary, rows and run folder of a run; writes the input if it does not exist."""
    source = folder / "in.parquet" if (folder / "in.parquet").exists() else write_input(folder)
    summary = run_with_settings(
        [source],
        folder / "out",
        plan,
        folder / "work",
        Settings(**{"key": write_key(folder), "workers": 1} | options),
    )
    return (
        summary,
        Corpus.open(folder / "out").table().to_pylist(),
        folder / "work" / "runs" / summary.run_hash,
    )


def read_ledger(run_folder: Path) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted((run_folder / "ledger").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


def replace_words(text: str) -> str:
    return WORD.sub("w", text)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_all_words_are_rewritten_and_the_text_between_is_unchanged(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    summary, out, run_folder = run_plan(
        tmp_path,
        load_plan("dp_mlm", [f'edit.0.model="{model}"', "edit.0.epsilon=20.0"]),
        verify="full",
    )
    candidate_words = set(MaskedModel(model).candidate_words)
    changed = 0
    for before, after in zip(ROWS, out, strict=True):
        for column in ("text", "more"):
            if before[column] is None:
                assert after[column] is None
                continue
            # every byte between words is the input's
            assert replace_words(after[column]) == replace_words(before[column])
            assert set(WORD.findall(after[column])) <= candidate_words
            changed += sum(
                x != y
                for x, y in zip(
                    WORD.findall(before[column]), WORD.findall(after[column]), strict=True
                )
            )
        assert [after[column] for column in ("doc_id", "public")] == [
            before[column] for column in ("doc_id", "public")
        ]
    unit_counts = {
        no: sum(len(WORD.findall(row[column] or "")) for column in ("text", "more"))
        for no, row in enumerate(ROWS)
    }
    assert changed > sum(unit_counts.values()) // 2
    assert {row["doc_no"]: row["unit_count"] for row in read_ledger(run_folder)} == {
        no: units for no, units in unit_counts.items() if units
    }
    assert summary.leaks == 0 and not summary.publishable and summary.verify.mode == "full"
    (account,) = summary.ledger
    assert account["unit_count"] == sum(unit_counts.values()) and account[
        "epsilon_total"
    ] == 20.0 * sum(unit_counts.values())
    assert account["epsilon_per_document"]["max"] == 20.0 * max(unit_counts.values())
    assert account["epsilon_per_user"]["max"] == 20.0 * max(
        unit_counts[0] + unit_counts[1], unit_counts[4]
    )
    assert (
        account["claim"] == "token and document"
        and "punctuation" in account["adjacency"]["document"]
    )
    assert any(
        "in practice no protection at document level" in statement
        for statement in account["statements"]
    )
    assert Corpus.open(tmp_path / "out").manifest["summary"]["ledger"] == summary.ledger


def test_the_ledger_is_on_the_page_the_card_and_in_sql(bert: Path, tmp_path: Path) -> None:
    from sanitize.inspection.sql_api import sql

    summary, _, _ = run_plan(tmp_path, write_plan(tmp_path, bert, "epsilon = 10.0"))
    (account,) = summary.ledger
    for page in ("report.html", "README.md"):
        text = (tmp_path / "out" / page).read_text("utf-8")
        assert all(
            statement.replace("'", "&#39;") in text or statement in text
            for statement in account["statements"]
        ), page
        assert "Differential privacy is claimed" in text
    rows = sql(tmp_path / "work", name="ledger_summary").to_dicts()
    assert [
        (row["part"], row["privacy_unit"], row["unit_count"], row["max_epsilon_per_document"])
        for row in rows
    ] == [("dp_mlm", "token", account["unit_count"], account["epsilon_per_document"]["max"])]


def test_a_seeded_run_has_no_privacy_claim(bert: Path, tmp_path: Path) -> None:
    summary, _, _ = run_plan(
        tmp_path, write_plan(tmp_path, bert, "epsilon = 10.0"), key=None, seed=1
    )
    assert (
        summary.ledger[0]["claim"].startswith("none (seeded run")
        and "document" not in summary.ledger[0]["adjacency"]
    )


def _read_shards(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / "out" / "data").glob("*.parquet"))]


# each process loads torch; two processes run with one mapping only, in the soak tests
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mapping", "workers"),
    [
        ("none", 1),
        ("document", 1),
        ("corpus", 1),
        pytest.param("corpus", 2, marks=pytest.mark.soak),
    ],
)
def test_result_depends_on_the_input_only(
    mapping: str, workers: int, roberta: Path, tmp_path: Path
) -> None:
    """One task, tasks of two documents, two processes, batches of three rows and of one: all give
    the same texts."""
    results = []
    for number, (batch, options) in enumerate(
        [(64, {}), (1, {"rows_per_shard": 2, "workers": workers}), (3, {"rows_per_shard": 3})]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        summary, out, run_folder = run_plan(
            folder,
            write_plan(folder, roberta, f'epsilon = 30.0\nmapping = "{mapping}"\nbatch = {batch}'),
            **options,
        )
        account = {name: value for name, value in summary.ledger[0].items() if name != "prior_runs"}
        results.append((out, read_ledger(run_folder), account))
    assert all(result == results[0] for result in results[1:])


@pytest.mark.slow
def test_other_text_setting_or_key_gives_independent_draws(bert: Path, tmp_path: Path) -> None:
    """Draws of several runs are independent of each other, so that their epsilon adds up."""
    words = " ".join(["river"] * 60)

    def rewrite(
        name: str, text: str, settings: str = "epsilon = 1.0", key: bytes = b"k" * 32
    ) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        Key(key).write(folder / "key")
        write_input(folder, [ROWS[0] | {"text": text}])
        return WORD.findall(run_plan(folder, write_plan(folder, bert, settings))[1][0]["text"])

    first = rewrite("first", words)
    assert rewrite("again", words) == first
    for name, words_drawn in {
        "text": rewrite("text", words + "!"),
        "settings": rewrite("settings", words, "epsilon = 1.0001"),
        "key": rewrite("key", words, key=b"l" * 32),
    }.items():
        assert sum(x == y for x, y in zip(first, words_drawn, strict=True)) < 20, name


@pytest.mark.slow
def test_unit_counts_of_mappings(bert: Path, tmp_path: Path) -> None:
    for mapping in ("none", "document", "corpus"):
        folder = tmp_path / mapping
        folder.mkdir()
        summary, out, run_folder = run_plan(
            folder,
            write_plan(folder, bert, f'epsilon = 2.0\nmapping = "{mapping}"'),
            rows_per_shard=2,
        )
        cells_by_row = [
            {
                column: [word.lower() for word in WORD.findall(row[column] or "")]
                for column in ("text", "more")
            }
            for row in ROWS
        ]
        drawn_words: dict[tuple[object, ...], set[str]] = {}
        for no, (cells, after) in enumerate(zip(cells_by_row, out, strict=True)):
            for column, words in cells.items():
                for word, drawn in zip(words, WORD.findall(after[column] or ""), strict=True):
                    drawn_words.setdefault(
                        (no, column, word) if mapping == "document" else (word,), set()
                    ).add(drawn)
        draw_counts = Counter(len(drawn) for drawn in drawn_words.values())
        # one word for each type if its occurrences share a draw, several words if each occurrence
        # has its own draw
        assert (set(draw_counts) == {1}) == (mapping != "none")
        (account,) = summary.ledger
        columns = [
            (no, column, words)
            for no, cells in enumerate(cells_by_row)
            for column, words in cells.items()
        ]
        expected_count = {
            "none": sum(len(words) for _, _, words in columns),
            "document": sum(len(set(words)) for _, _, words in columns),
            "corpus": len({word for _, _, words in columns for word in words}),
        }[mapping]
        assert account["unit_count"] == expected_count and account["shared"] == (
            mapping == "corpus"
        )
        by_document = {
            "none": [len(cells["text"]) + len(cells["more"]) for cells in cells_by_row],
            "document": [
                len(set(cells["text"])) + len(set(cells["more"])) for cells in cells_by_row
            ],
            "corpus": [len({*cells["text"], *cells["more"]}) for cells in cells_by_row],
        }[mapping]
        assert {row["doc_no"]: row["unit_count"] for row in read_ledger(run_folder)} == {
            no: units for no, units in enumerate(by_document) if units
        }
        assert account["claim"] == ("token" if mapping == "corpus" else "token and document")
        if mapping == "document":
            assert "same words are the same" in account["adjacency"]["document"]


def test_target_found_rewrites_found_values_only(bert: Path, tmp_path: Path) -> None:
    """An address or a number becomes one word; all else is unchanged, byte for byte; the privacy
    claim is for single draws."""
    plan = write_plan(
        tmp_path, bert, 'epsilon = 5.0\ntargets = ["found"]', ("EMAIL_ADDRESS", "PHONE_NUMBER")
    )
    summary, out, run_folder = run_plan(tmp_path, plan)
    for no, (before, after) in enumerate(zip(ROWS, out, strict=True)):
        pattern = re.escape(before["text"])
        for value in ("bob@example.com", "713-555-0123"):
            pattern = pattern.replace(re.escape(value), r"[^\W_]+")
        assert re.fullmatch(pattern, after["text"]), no
        assert after["more"] == before["more"]
    assert {row["doc_no"]: row["unit_count"] for row in read_ledger(run_folder)} == {1: 2, 2: 1}
    assert (
        summary.by_kind["EMAIL_ADDRESS"].replaced == 2
        and summary.by_kind["PHONE_NUMBER"].replaced == 1
    )
    assert summary.ledger[0]["claim"] == "token" and summary.ledger[0]["adjacency"] == {
        "token": "any change of the input"
    }


def test_public_documents_are_unchanged(bert: Path, tmp_path: Path) -> None:
    plan = write_plan(tmp_path, bert, 'epsilon = 1.0\ntargets = ["all"]\nwhere = "public = false"')
    summary, out, run_folder = run_plan(tmp_path, plan)
    for before, after in zip(ROWS, out, strict=True):
        assert (after["text"] == before["text"] and after["more"] == before["more"]) == (
            before["public"] is not False
        )
    assert {row["doc_no"] for row in read_ledger(run_folder)} == {0, 2, 4}
    # one of the two addresses occurs in a public document; it is reported as kept
    assert (
        summary.by_kind["EMAIL_ADDRESS"].kept == 1
        and summary.by_kind["EMAIL_ADDRESS"].replaced == 1
    )


def test_the_column_of_a_condition_may_be_dropped(bert: Path, tmp_path: Path) -> None:

    plan = write_plan(tmp_path, bert, 'epsilon = 1.0\nwhere = "public = false"')
    summary, out, _ = run_plan(tmp_path, plan, drop=["public"])
    assert (
        "public" not in out[0]
        and out[1]["text"] == ROWS[1]["text"]
        and out[0]["text"] != ROWS[0]["text"]
    )
    assert summary.documents_out == len(ROWS)


def test_function_words_are_kept(bert: Path, tmp_path: Path) -> None:
    _, out, run_folder = run_plan(
        tmp_path, write_plan(tmp_path, bert, 'epsilon = 1.0\ntargets = ["content"]')
    )
    words = [WORD.findall(row["text"]) for row in (ROWS[0], out[0])]
    kept = [position for position, word in enumerate(words[0]) if word in ("at", "the", "no")]
    assert [words[1][position] for position in kept] == ["at", "the", "no"]
    # plus two words of "A note to Bob"
    assert read_ledger(run_folder)[0]["unit_count"] == len(words[0]) - len(kept) + 2


def test_words_of_one_user_are_rewritten(bert: Path, tmp_path: Path) -> None:
    """Words that only one user wrote are replaced; those of two users are kept."""
    rest = "[blacklist]\nk = 2\nn = 1\ndirect = false"
    plan = write_plan(
        tmp_path, bert, 'epsilon = 1.0\ntargets = ["blacklist"]\nreasons = ["indirect"]', (), rest
    )
    summary, out, run_folder = run_plan(tmp_path, plan)
    listed = set(
        pq.read_table(run_folder / "vault" / "blacklist" / "00000.parquet")
        .column("ngram")
        .to_pylist()
    )
    assert "river" in listed and "bob" not in listed
    units = 0
    for before, after in zip(ROWS, out, strict=True):
        for old_word, new_word in zip(
            WORD.findall(before["text"]), WORD.findall(after["text"]), strict=True
        ):
            assert old_word.lower() in listed or old_word == new_word
        units += sum(
            word.lower() in listed
            for column in ("text", "more")
            for word in WORD.findall(before[column] or "")
        )
    assert summary.ledger[0]["unit_count"] == units and summary.ledger[0]["claim"] == "token"


def test_claim_with_redact_covers_draws_only(bert: Path, tmp_path: Path) -> None:
    """Spans that another part replaces are not drawn, and are not in the ledger."""
    rest = f'[[edit]]\nuse = "redact"\nkinds = {json.dumps(KINDS)}'
    (tmp_path / "x").mkdir()
    text = TOML.format(
        leave="[]",
        found=json.dumps(KINDS),
        model=json.dumps(str(bert)),
        settings="epsilon = 3.0",
        rest=rest,
    )
    (tmp_path / "plan.toml").write_text(text, "utf-8")
    summary, out, run_folder = run_plan(
        tmp_path, load_plan(str(tmp_path / "plan.toml")), verify="full"
    )
    assert re.fullmatch(r"\w+ \w+ \[EMAIL_ADDRESS\] \w+ \w+ \[PHONE_NUMBER\]\.", out[1]["text"])
    assert (
        read_ledger(run_folder)[1]["unit_count"] == 4
        and summary.leaks == 0
        and summary.canaries.planted == summary.canaries.removed > 0
    )
    assert summary.ledger[0]["claim"] == "token" and summary.publishable


def test_casing_of_the_first_letter_is_kept(bert: Path, tmp_path: Path) -> None:
    summary, out, _ = run_plan(
        tmp_path, write_plan(tmp_path, bert, 'epsilon = 1.0\ncasing = "first"')
    )
    for before, after in zip(ROWS, out, strict=True):
        for old_word, new_word in zip(
            WORD.findall(before["text"]), WORD.findall(after["text"]), strict=True
        ):
            assert new_word[0].isupper() == old_word[0].isupper() or not new_word[0].isalpha()
    assert any("capital" in statement for statement in summary.ledger[0]["statements"])


def test_prior_runs_are_reported(bert: Path, tmp_path: Path) -> None:
    run_plan(tmp_path, write_plan(tmp_path, bert, "epsilon = 1.0"))
    first = read_ledger(
        tmp_path / "work" / "runs" / Corpus.open(tmp_path / "out").manifest["run_hash"]
    )
    summary, _, _ = run_plan(tmp_path, write_plan(tmp_path, bert, "epsilon = 2.0"), replace=True)
    (prior,) = summary.ledger[0]["prior_runs"]
    assert (prior["epsilon"], prior["unit_count"]) == (1.0, sum(row["unit_count"] for row in first))
    assert any("1 other run" in statement for statement in summary.ledger[0]["statements"])


def test_what_runs_spent_is_not_forgotten(bert: Path, tmp_path: Path) -> None:
    """Not by another key, for which the index is rebuilt and the folders of runs are deleted, nor
    by deleting OUT or moving the private folder."""
    plan, spent = write_plan(tmp_path, bert, "epsilon = 1.0"), [0]
    write_input(tmp_path, ROWS[:2])
    for letter in "kl":
        Key(letter.encode() * 32).write(tmp_path / f"key-{letter}")
    for letter in "kl":
        summary, _, _ = run_plan(tmp_path, plan, key=tmp_path / f"key-{letter}", replace=True)
        (account,) = summary.ledger
        prior_units = [run["unit_count"] for run in account["prior_runs"]]
        assert prior_units == spent[-1:] * (len(spent) > 1)
        spent.append(account["unit_count"])
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "work").rename(tmp_path / "moved")
        (tmp_path / "moved").rename(tmp_path / "work")
    (tmp_path / "work" / "prior_runs.json").write_text('{"runs": [3]}')
    with pytest.raises(OutputBroken, match=r"prior_runs\.json: is damaged"):
        run_plan(tmp_path, plan, key=tmp_path / "key-l", replace=True)


# a killed process imports torch again: processes are killed in the soak tests, the run in this
# process is ended at the same place
@pytest.mark.slow
@pytest.mark.parametrize(
    ("crashes", "in_process"),
    [
        (("task:file_renamed:4",), True),
        pytest.param(
            ("task:file_renamed:4", "task:record_written:2", "task:file_synced:3"),
            False,
            marks=pytest.mark.soak,
        ),
    ],
    ids=["one", "three"],
)
def test_resume_after_kill_gives_identical_bytes(
    bert: Path, tmp_path: Path, crashes: tuple[str, ...], in_process: bool
) -> None:
    """Killed when a task has written some of its files, then resumed: the same bytes as an
    undisturbed run."""
    source, key = write_input(tmp_path), write_key(tmp_path)
    command = [
        sys.executable,
        "-m",
        "sanitize",
        "run",
        str(source),
        "--plan",
        "dp_mlm",
        "--set",
        f"edit.0.model={bert}",
        "--key",
        str(key),
        "--rows-per-shard",
        "2",
        "--workers",
        "1",
        "--json",
    ]

    def run_command(name: str, crash: str = "") -> int:
        arguments = [
            *command,
            "-o",
            str(tmp_path / name / "out"),
            "--work",
            str(tmp_path / name / "work"),
        ]
        (tmp_path / name).mkdir(exist_ok=True)
        return subprocess.run(
            arguments, env={**os.environ, "SANITIZE_CRASH_AT": crash}, capture_output=True
        ).returncode

    def end_process(exit_code: int) -> None:
        raise SimulatedKill(exit_code)

    def run_here(name: str, crash: str) -> object:
        point, count = failpoints._parse_setting(crash)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SimulatedKill) as caught:
            patch.setattr(failpoints, "_wanted_point", point)
            patch.setattr(failpoints, "_hits_left", [count])
            patch.setattr(failpoints.os, "_exit", end_process)
            run_with_settings(
                [source], tmp_path / name / "out", plan, tmp_path / name / "work", settings
            )
        return caught.value.args[0]

    (tmp_path / "complete").mkdir()
    settings = Settings(key=key, rows_per_shard=2, workers=1)
    plan = load_plan("dp_mlm", [f'edit.0.model="{bert}"'])
    run_with_settings(
        [source], tmp_path / "complete" / "out", plan, tmp_path / "complete" / "work", settings
    )
    points = sorted((tmp_path / "complete" / "work" / "runs").glob("*/ledger/*.parquet"))
    assert len(points) == 3
    index_with_settings([source], tmp_path / "killed" / "work", settings, plan)
    for point in crashes:
        assert (run_here if in_process else run_command)("killed", point) == 137
        assert list((tmp_path / "killed" / "work" / "runs").glob("*/tasks/*.json")), (
            "documents are being rewritten"
        )
    run_with_settings(
        [source], tmp_path / "killed" / "out", plan, tmp_path / "killed" / "work", settings
    )
    assert _read_shards(tmp_path / "killed") == _read_shards(tmp_path / "complete")
    for table in ("ledger", "draws", "edits"):
        a, b = (
            sorted((tmp_path / name / "work" / "runs").glob(f"*/{table}/*.parquet"))
            for name in ("complete", "killed")
        )
        assert [path.read_bytes() for path in a] == [path.read_bytes() for path in b]


# ------------------------------------------------------------------------------------ the model


def test_logits_of_a_row_do_not_depend_on_the_batch(roberta: Path) -> None:
    """On a CPU, logits are bitwise equal at any position of a batch and next to any rows."""
    model = MaskedModel(roberta)
    texts = [row["text"] for row in ROWS]
    spans = [
        (no, match.start(), match.end())
        for no, text in enumerate(texts)
        for match in WORD.finditer(text)
    ]
    rows = model.build_inputs(texts, spans, 32)

    def compute_all(order: Sequence[int], batch: int) -> np.ndarray[Any, Any]:
        all_logits = np.full((len(rows), len(model.candidate_ids)), np.nan, np.float32)
        for row_numbers, logits in model.compute_logits([rows[row_no] for row_no in order], batch):
            all_logits[np.asarray(order)[row_numbers]] = logits
        return all_logits

    expected = compute_all(range(len(rows)), 8)
    assert not np.isnan(expected).any()
    assert (
        compute_all(np.random.default_rng(3).permutation(len(rows)).tolist(), 8) == expected
    ).all()
    assert np.allclose(compute_all(range(len(rows)), 32), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_logits_equal_those_of_the_complete_model(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The head at the mask alone gives the same as the whole model for the pair that its own
    tokenizer encodes."""
    import torch

    model = MaskedModel(request.getfixturevalue(name))
    text = "the red bridge was near"
    (row,) = model.build_inputs([text], [(0, 8, 14)], 64)
    ((_, head_logits),) = model.compute_logits([row], 2)
    tokenizer = model.tokenizer
    inputs = tokenizer(
        text,
        "the red" + (" " if name == "bert" else "") + tokenizer.mask_token + " was near",
        return_tensors="pt",
        return_token_type_ids=True,
    )
    mask_position = int((inputs["input_ids"][0] == model.mask_token_id).nonzero()[0])
    if not model.has_token_types:
        inputs.pop("token_type_ids", None)
    with torch.inference_mode():
        model_logits = model.model(**inputs).logits[0, mask_position].numpy()[model.candidate_ids]
    assert np.allclose(head_logits[0], model_logits, atol=1e-4)


def test_windows_around_a_word(bert: Path) -> None:
    """A window has the word and as many tokens around it as fit; more on one side where the other
    has too few."""
    model = MaskedModel(bert)
    text = "one two three four five two three four five one"
    spans = [(0, match.start(), match.end()) for match in WORD.finditer(text)]
    sizes = [
        (len(row.before), len(row.word), len(row.after))
        for row in model.build_inputs([text], spans, 4)
    ]
    assert sizes == [(0, 1, 3), *[(1, 1, 2)] * 7, (2, 1, 1), (3, 1, 0)]
    with pytest.raises(PlanError, match="window = 200"):
        model.check_window(200)


def test_no_special_token_is_a_candidate(bert: Path, roberta: Path) -> None:
    for folder in (bert, roberta):
        model = MaskedModel(folder)
        assert not set(model.candidate_ids.tolist()) & set(model.tokenizer.all_special_ids)
        assert all(WORD.fullmatch(word) for word in model.candidate_words) and not any(
            "\ufffd" in word for word in model.candidate_words
        )


def test_bounds_from_public_texts(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    bounds = measure_bounds(folder, ["the red bridge", "one two"], source="five invented words")
    assert (
        ClipBounds.read(folder) == bounds
        and bounds.lower < 0 < bounds.upper
        and bounds.source == "five invented words"
    )
    with pytest.raises(PlanError, match="public"):
        measure_bounds(folder, ["..."], source="x")


# ------------------------------------------------------------------------------------ bad input


def _copy_model(model: Path, target: Path, **settings: object) -> Path:
    folder = shutil.copytree(model, target)
    for name in ("tokenizer_config.json",):
        config = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(config | settings), "utf-8")
    return folder


def test_a_plan_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"--set edit\.0\.model=PATH"):
        run_plan(tmp_path, load_plan("dp_mlm"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("epsilon = 0", "more than 0"),
        ("epsilon = -1.0", "more than 0"),
        ("epsilon = nan", "epsilon"),
        ("epsilon = 5000", "1000.0 or less"),
        ('epsilon = 1\nwhere = "public ="', "where: syntax error"),
        ('epsilon = 1\ntargets = ["nouns"]', "tagger"),
        ('epsilon = 1\ntargets = ["blacklist"]', "reasons"),
        ("epsilon = 1\nlower = -9.0", "lower is set by the model's card"),
        ('epsilon = 1\nmodel_sha256 = "00"', "use the model that the plan was made with"),
        ("epsilon = 1\nwindo = 3", "did you mean window?"),
    ],
)
def test_invalid_settings_are_refused(
    settings: str, message: str, bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        write_plan(tmp_path, bert, settings)


def test_condition_on_an_unknown_column_is_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no column publik; did you mean public\? Known: "):
        run_plan(tmp_path, write_plan(tmp_path, bert, 'epsilon = 1\nwhere = "publik = false"'))


def test_folders_without_a_valid_model_are_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such folder on this machine"):
        write_plan(tmp_path, tmp_path / "nowhere", "epsilon = 1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError, match=BOUNDS_FILE):
        write_plan(tmp_path, tmp_path / "empty", "epsilon = 1")
    bad = shutil.copytree(bert, tmp_path / "reversed")
    (bad / BOUNDS_FILE).write_text(
        json.dumps({"lower": 3, "upper": -3, "source": "x", "trained_on": "public"}), "utf-8"
    )
    with pytest.raises(PlanError, match="lower < upper"):
        write_plan(tmp_path, bad, "epsilon = 1")
    unmasked = _copy_model(bert, tmp_path / "unmasked", mask_token=None)
    config = json.loads((unmasked / "tokenizer.json").read_text("utf-8"))
    config["added_tokens"] = [
        token for token in config["added_tokens"] if token["content"] != "[MASK]"
    ]
    (unmasked / "tokenizer.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(PlanError, match="no mask token"):
        run_plan(tmp_path, write_plan(tmp_path, unmasked, "epsilon = 1"))
    assert not (tmp_path / "out").exists()


def test_nan_logits_are_refused(bert: Path, tmp_path: Path) -> None:
    """A model whose head gives NaN: no word is drawn, and nothing is published."""
    import torch
    from transformers import BertForMaskedLM

    folder = shutil.copytree(bert, tmp_path / "nan")
    model = BertForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.cls.predictions.bias[60] = float("nan")
    model.save_pretrained(folder)
    with pytest.raises(PlanError, match="NaN"):
        run_plan(tmp_path, write_plan(tmp_path, folder, "epsilon = 1"))
    assert not (tmp_path / "out").exists()


def test_model_trained_on_the_corpus_needs_own_model(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "own")
    ClipBounds(-2.0, 2.0, "invented", "corpus").write(folder)
    with pytest.raises(PlanError, match="own_model = true"):
        write_plan(tmp_path, folder, "epsilon = 1")
    summary, _, _ = run_plan(
        tmp_path, write_plan(tmp_path, folder, "epsilon = 1\nown_model = true")
    )
    (account,) = summary.ledger
    assert account["claim"].startswith("none (the model was trained on the corpus itself")
    assert any("trained on the corpus itself" in note for note in summary.notes)
    for page in ("report.html", "README.md"):
        text = (tmp_path / "out" / page).read_text("utf-8")
        assert "trained on the corpus itself" in text and "No claim of differential privacy" in text


def test_a_changed_model_gives_another_plan(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    first = write_plan(tmp_path, folder, "epsilon = 1")
    ClipBounds(-3.0, 3.0, "invented", "public").write(folder)
    assert write_plan(tmp_path, folder, "epsilon = 1").hash() != first.hash()
    with pytest.raises(PlanError, match="not the one that the plan was made with"):
        run_plan(tmp_path, first)


def test_target_nouns_needs_a_tagger(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spaCy a clear error; with it (in this test a stub of spaCy, not of our code) its
    nouns and proper nouns are replaced."""
    plan = write_plan(tmp_path, bert, 'epsilon = 1\ntargets = ["nouns"]\ntagger = "some_pipeline"')
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra):
        run_plan(tmp_path, plan)

    class Tagger:
        def pipe(self, texts: list[str]) -> list[list[types.SimpleNamespace]]:
            return [
                [
                    types.SimpleNamespace(
                        idx=match.start(),
                        text=match[0],
                        pos_="NOUN" if match[0] in ("bridge", "Für") else "VERB",
                    )
                    for match in re.finditer(r"\S+", text)
                ]
                for text in texts
            ]

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=lambda name: Tagger()))
    _, out, run_folder = run_plan(tmp_path, plan)
    assert re.fullmatch(r"\w+ Ada: é, naïve 12 ß — ☂ \w+\n\tcall bob@example.com", out[2]["text"])
    assert {row["doc_no"]: row["unit_count"] for row in read_ledger(run_folder)} == {2: 2, 3: 1}
    assert (
        pl.DataFrame(pq.read_table(run_folder / "edits" / "00000.parquet"))["kind"]
        .cast(pl.String)
        .to_list()
        == ["WORD"] * 3
    )
