"""The editor `dp_mlm` in a run: what is rewritten, what is kept, that the result depends on the input only, and that the ledger can be
recomputed."""

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

from sanitize.core.exponential_mechanism import BOUNDS_FILE, ClipBounds
from sanitize.core.keys import Key
from sanitize.errors import MissingExtra, PlanError
from sanitize.pipeline.run import find, run
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus
from sanitize.text.masked_lm import MaskedModel, measure_bounds

KINDS = ["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "MESSAGE_ID", "URL"]
WORD = re.compile(r"[^\W_]+")  # of these texts; marks do not stand in them
ROWS = [
    {"doc_id": "a", "user_id": "u", "public": False, "text": "Ada met Bob at the red bridge; Bob said: no.", "more": "A note to Bob"},
    {"doc_id": "b", "user_id": "u", "public": True, "text": "Write to bob@example.com or call 713-555-0123.", "more": None},
    {"doc_id": "c", "user_id": "v", "public": False, "text": "Für Ada: é, naïve 12 ß — ☂ bridge\n\tcall bob@example.com", "more": ""},
    {"doc_id": "d", "user_id": None, "public": None, "text": "...", "more": "the bridge"},
    {"doc_id": "e", "user_id": "w", "public": False, "text": "river " * 90 + "garden " * 60 + "stone", "more": "Bob, Bob"},
]
SCHEMA = pa.schema(
    [("doc_id", pa.string()), ("user_id", pa.string()), ("public", pa.bool_()), ("text", pa.string()), ("more", pa.string())]
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


def plan_of(folder: Path, model: Path, settings: str, kinds: Sequence[str] = KINDS, rest: str = "") -> Plan:
    leave = [kind for kind in KINDS if kind not in kinds]
    told = {"leave": json.dumps(leave), "found": json.dumps(KINDS), "model": json.dumps(str(model)), "rest": rest}
    (folder / "plan.toml").write_text(TOML.format(settings=f"kinds = {json.dumps(list(kinds))}\n{settings}", **told), "utf-8")
    return load_plan(str(folder / "plan.toml"))


def write(folder: Path, rows: Sequence[dict[str, Any]] = ROWS) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), folder / "in.parquet")
    return folder / "in.parquet"


def secret(folder: Path) -> Path:
    path = folder / "key"
    if not path.exists():
        Key(b"k" * 32).write(path)
    return path


def made(folder: Path, plan: Plan, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]], Path]:
    """Summary, rows and run folder of a run; writes the input if it does not exist."""
    source = folder / "in.parquet" if (folder / "in.parquet").exists() else write(folder)
    summary = run([source], folder / "out", plan, folder / "work", Settings(**{"key_file": secret(folder), "workers": 1} | more))
    return summary, Corpus.open(folder / "out").table().to_pylist(), folder / "work" / "runs" / summary["plan_hash"]


def ledger(ran: Path) -> list[dict[str, Any]]:
    return [row for path in sorted((ran / "ledger").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def skeleton(text: str) -> str:
    return WORD.sub("w", text)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_every_word_and_nothing_else(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(name)
    summary, out, ran = made(tmp_path, load_plan("dp_mlm", [f'edit.0.model="{model}"', "edit.0.epsilon=20.0"]), verify="full")
    known = set(MaskedModel(model).candidate_words)
    changed = 0
    for before, after in zip(ROWS, out, strict=True):
        for column in ("text", "more"):
            if before[column] is None:
                assert after[column] is None
                continue
            assert skeleton(after[column]) == skeleton(before[column])  # every byte between words is the input's
            assert set(WORD.findall(after[column])) <= known
            changed += sum(x != y for x, y in zip(WORD.findall(before[column]), WORD.findall(after[column]), strict=True))
        assert [after[column] for column in ("doc_id", "public")] == [before[column] for column in ("doc_id", "public")]
    many = {no: sum(len(WORD.findall(row[column] or "")) for column in ("text", "more")) for no, row in enumerate(ROWS)}
    assert changed > sum(many.values()) // 2
    assert {row["doc_no"]: row["unit_count"] for row in ledger(ran)} == {no: units for no, units in many.items() if units}
    assert summary["leaks"] == 0 and not summary["publishable"] and summary["verify"]["mode"] == "full"
    (account,) = summary["ledger"]
    assert account["unit_count"] == sum(many.values()) and account["epsilon_total"] == 20.0 * sum(many.values())
    assert account["epsilon_per_document"]["max"] == 20.0 * max(many.values())
    assert account["epsilon_per_user"]["max"] == 20.0 * max(many[0] + many[1], many[4])
    assert account["claim"] == "token and document" and "punctuation" in account["adjacency"]["document"]
    assert any("in practice no protection at document level" in said for said in account["statements"])
    assert Corpus.open(tmp_path / "out").manifest["summary"]["ledger"] == summary["ledger"]


def test_the_ledger_is_on_the_page_the_card_and_in_sql(bert: Path, tmp_path: Path) -> None:
    from sanitize.inspection.sql_api import sql

    summary, _, _ = made(tmp_path, plan_of(tmp_path, bert, "epsilon = 10.0"))
    (account,) = summary["ledger"]
    for page in ("report.html", "README.md"):
        text = (tmp_path / "out" / page).read_text("utf-8")
        assert all(said.replace("'", "&#39;") in text or said in text for said in account["statements"]), page
        assert "Differential privacy is claimed" in text
    rows = sql(tmp_path / "work", name="ledger_summary").to_dicts()
    assert [(row["part"], row["privacy_unit"], row["unit_count"], row["max_epsilon_per_document"]) for row in rows] == [
        ("dp_mlm", "token", account["unit_count"], account["epsilon_per_document"]["max"])
    ]


def test_a_seeded_run_claims_nothing(bert: Path, tmp_path: Path) -> None:
    summary, _, _ = made(tmp_path, plan_of(tmp_path, bert, "epsilon = 10.0"), key_file=None, seed=1)
    assert summary["ledger"][0]["claim"].startswith("none (seeded run") and "document" not in summary["ledger"][0]["adjacency"]


def _bytes(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((folder / "out" / "data").glob("*.parquet"))]


# each process loads torch: one mapping, whose draws hang on nothing of a task, is enough to tell processes apart, in the long form
@pytest.mark.parametrize(
    ("mapping", "workers"), [("none", 1), ("document", 1), ("corpus", 1), pytest.param("corpus", 2, marks=pytest.mark.soak)]
)
def test_nothing_but_the_input_decides(mapping: str, workers: int, roberta: Path, tmp_path: Path) -> None:
    """One task, tasks of two documents, two processes, batches of three rows and of one: all give the same texts."""
    found = []
    for number, (batch, more) in enumerate([(64, {}), (1, {"rows_per_shard": 2, "workers": workers}), (3, {"rows_per_shard": 3})]):
        folder = tmp_path / str(number)
        folder.mkdir()
        summary, out, ran = made(folder, plan_of(folder, roberta, f'epsilon = 30.0\nmapping = "{mapping}"\nbatch = {batch}'), **more)
        account = {name: value for name, value in summary["ledger"][0].items() if name != "prior_runs"}
        found.append((out, ledger(ran), account))
    assert all(one == found[0] for one in found[1:])


def test_another_text_another_setting_or_another_key_draws_anew(bert: Path, tmp_path: Path) -> None:
    """Draws of several runs are independent of each other, so that their epsilon adds up."""
    words = " ".join(["river"] * 60)

    def texts(name: str, text: str, settings: str = "epsilon = 1.0", key: bytes = b"k" * 32) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        Key(key).write(folder / "key")
        write(folder, [ROWS[0] | {"text": text}])
        return WORD.findall(made(folder, plan_of(folder, bert, settings))[1][0]["text"])

    first = texts("first", words)
    assert texts("again", words) == first
    for name, other in {
        "text": texts("text", words + "!"),
        "settings": texts("settings", words, "epsilon = 1.0001"),
        "key": texts("key", words, key=b"l" * 32),
    }.items():
        assert sum(x == y for x, y in zip(first, other, strict=True)) < 20, name


def test_mappings_and_what_they_spend(bert: Path, tmp_path: Path) -> None:
    for mapping in ("none", "document", "corpus"):
        folder = tmp_path / mapping
        folder.mkdir()
        summary, out, ran = made(folder, plan_of(folder, bert, f'epsilon = 2.0\nmapping = "{mapping}"'), rows_per_shard=2)
        types_of = [{column: [word.lower() for word in WORD.findall(row[column] or "")] for column in ("text", "more")} for row in ROWS]
        said: dict[tuple[object, ...], set[str]] = {}
        for no, (types_, after) in enumerate(zip(types_of, out, strict=True)):
            for column, words in types_.items():
                for word, drawn in zip(words, WORD.findall(after[column] or ""), strict=True):
                    said.setdefault((no, column, word) if mapping == "document" else (word,), set()).add(drawn)
        spread = Counter(len(drawn) for drawn in said.values())
        # one word for each type where one draw stands for it, and more than one where each occurrence has its own
        assert (set(spread) == {1}) == (mapping != "none")
        (account,) = summary["ledger"]
        columns = [(no, column, words) for no, one in enumerate(types_of) for column, words in one.items()]
        wanted = {
            "none": sum(len(words) for _, _, words in columns),
            "document": sum(len(set(words)) for _, _, words in columns),
            "corpus": len({word for _, _, words in columns for word in words}),
        }[mapping]
        assert account["unit_count"] == wanted and account["shared"] == (mapping == "corpus")
        by_document = {
            "none": [len(one["text"]) + len(one["more"]) for one in types_of],
            "document": [len(set(one["text"])) + len(set(one["more"])) for one in types_of],
            "corpus": [len({*one["text"], *one["more"]}) for one in types_of],
        }[mapping]
        assert {row["doc_no"]: row["unit_count"] for row in ledger(ran)} == {no: units for no, units in enumerate(by_document) if units}
        assert account["claim"] == ("token" if mapping == "corpus" else "token and document")
        if mapping == "document":
            assert "same words are the same" in account["adjacency"]["document"]


def test_only_what_was_found(bert: Path, tmp_path: Path) -> None:
    """An address or a number becomes one word; all else is unchanged, byte for byte; the privacy claim is for single draws."""
    plan = plan_of(tmp_path, bert, 'epsilon = 5.0\ntargets = ["found"]', ("EMAIL_ADDRESS", "PHONE_NUMBER"))
    summary, out, ran = made(tmp_path, plan)
    for no, (before, after) in enumerate(zip(ROWS, out, strict=True)):
        pattern = re.escape(before["text"])
        for value in ("bob@example.com", "713-555-0123"):
            pattern = pattern.replace(re.escape(value), r"[^\W_]+")
        assert re.fullmatch(pattern, after["text"]), no
        assert after["more"] == before["more"]
    assert {row["doc_no"]: row["unit_count"] for row in ledger(ran)} == {1: 2, 2: 1}
    assert summary["by_kind"]["EMAIL_ADDRESS"]["replaced"] == 2 and summary["by_kind"]["PHONE_NUMBER"]["replaced"] == 1
    assert summary["ledger"][0]["claim"] == "token" and summary["ledger"][0]["adjacency"] == {"token": "any change of the input"}


def test_public_documents_stay(bert: Path, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, bert, 'epsilon = 1.0\ntargets = ["all"]\nwhere = "public = false"')
    summary, out, ran = made(tmp_path, plan)
    for before, after in zip(ROWS, out, strict=True):
        assert (after["text"] == before["text"] and after["more"] == before["more"]) == (before["public"] is not False)
    assert {row["doc_no"] for row in ledger(ran)} == {0, 2, 4}
    # of the two addresses one stands in a public document: it was left, and is told as kept
    assert summary["by_kind"]["EMAIL_ADDRESS"]["kept"] == 1 and summary["by_kind"]["EMAIL_ADDRESS"]["replaced"] == 1


def test_the_column_of_a_condition_may_go_itself(bert: Path, tmp_path: Path) -> None:
    from sanitize.readers.staging import Columns

    plan = plan_of(tmp_path, bert, 'epsilon = 1.0\nwhere = "public = false"')
    summary, out, _ = made(tmp_path, plan, columns=Columns(policies={"public": "drop"}))
    assert "public" not in out[0] and out[1]["text"] == ROWS[1]["text"] and out[0]["text"] != ROWS[0]["text"]
    assert summary["documents_out"] == len(ROWS)


def test_function_words_stay(bert: Path, tmp_path: Path) -> None:
    _, out, ran = made(tmp_path, plan_of(tmp_path, bert, 'epsilon = 1.0\ntargets = ["content"]'))
    words = [WORD.findall(row["text"]) for row in (ROWS[0], out[0])]
    kept = [place for place, word in enumerate(words[0]) if word in ("at", "the", "no")]
    assert [words[1][place] for place in kept] == ["at", "the", "no"]
    assert ledger(ran)[0]["unit_count"] == len(words[0]) - len(kept) + 2  # and of "A note to Bob" two


def test_listed_words(bert: Path, tmp_path: Path) -> None:
    """Words that only one user wrote are replaced; those of two users are kept."""
    rest = "[blacklist]\nk = 2\nn = 1\ndirect = false"
    plan = plan_of(tmp_path, bert, 'epsilon = 1.0\ntargets = ["blacklist"]\nreasons = ["indirect"]', (), rest)
    summary, out, ran = made(tmp_path, plan)
    listed = set(pq.read_table(ran / "vault" / "blacklist" / "00000.parquet").column("ngram").to_pylist())
    assert "river" in listed and "bob" not in listed
    units = 0
    for before, after in zip(ROWS, out, strict=True):
        for was, now in zip(WORD.findall(before["text"]), WORD.findall(after["text"]), strict=True):
            assert was.lower() in listed or was == now
        units += sum(word.lower() in listed for column in ("text", "more") for word in WORD.findall(before[column] or ""))
    assert summary["ledger"][0]["unit_count"] == units and summary["ledger"][0]["claim"] == "token"


def test_with_redact_the_claim_is_for_draws_alone(bert: Path, tmp_path: Path) -> None:
    """Spans that another part replaces are not drawn, and are not in the ledger."""
    rest = f'[[edit]]\nuse = "redact"\nkinds = {json.dumps(KINDS)}'
    (tmp_path / "x").mkdir()
    text = TOML.format(leave="[]", found=json.dumps(KINDS), model=json.dumps(str(bert)), settings="epsilon = 3.0", rest=rest)
    (tmp_path / "plan.toml").write_text(text, "utf-8")
    summary, out, ran = made(tmp_path, load_plan(str(tmp_path / "plan.toml")), verify="full")
    assert re.fullmatch(r"\w+ \w+ \[EMAIL_ADDRESS\] \w+ \w+ \[PHONE_NUMBER\]\.", out[1]["text"])
    assert (
        ledger(ran)[1]["unit_count"] == 4 and summary["leaks"] == 0 and summary["canaries"]["planted"] == summary["canaries"]["removed"] > 0
    )
    assert summary["ledger"][0]["claim"] == "token" and summary["publishable"]


def test_casing(bert: Path, tmp_path: Path) -> None:
    summary, out, _ = made(tmp_path, plan_of(tmp_path, bert, 'epsilon = 1.0\ncasing = "first"'))
    for before, after in zip(ROWS, out, strict=True):
        for was, now in zip(WORD.findall(before["text"]), WORD.findall(after["text"]), strict=True):
            assert now[0].isupper() == was[0].isupper() or not now[0].isalpha()
    assert any("capital" in said for said in summary["ledger"][0]["statements"])


def test_prior_runs_are_told(bert: Path, tmp_path: Path) -> None:
    made(tmp_path, plan_of(tmp_path, bert, "epsilon = 1.0"))
    first = ledger(tmp_path / "work" / "runs" / Corpus.open(tmp_path / "out").manifest["plan_hash"])
    summary, _, _ = made(tmp_path, plan_of(tmp_path, bert, "epsilon = 2.0"), replace=True)
    (prior,) = summary["ledger"][0]["prior_runs"]
    assert (prior["epsilon"], prior["unit_count"]) == (1.0, sum(row["unit_count"] for row in first))
    assert any("1 other run" in said for said in summary["ledger"][0]["statements"])


@pytest.mark.parametrize(
    "crashes",
    [
        ("task:file_renamed:4",),
        pytest.param(("task:file_renamed:4", "task:record_written:2", "task:file_synced:3"), marks=pytest.mark.soak),
    ],
    ids=len,
)
def test_killed_and_resumed(bert: Path, tmp_path: Path, crashes: tuple[str, ...]) -> None:
    """Killed when a task has written some of its files, then resumed: the same bytes as an undisturbed run."""
    source, key = write(tmp_path), secret(tmp_path)
    command = [
        sys.executable, "-m", "sanitize", "run", str(source), "--plan", "dp_mlm", "--set", f"edit.0.model={bert}", "--key", str(key),
        "--rows-per-shard", "2", "--workers", "1", "--json",
    ]  # fmt: skip

    def at(name: str, crash: str = "") -> int:
        told = [*command, "-o", str(tmp_path / name / "out"), "--work", str(tmp_path / name / "work")]
        (tmp_path / name).mkdir(exist_ok=True)
        return subprocess.run(told, env={**os.environ, "SANITIZE_CRASH_AT": crash}, capture_output=True).returncode

    (tmp_path / "whole").mkdir()
    told = Settings(key_file=key, rows_per_shard=2, workers=1)
    plan = load_plan("dp_mlm", [f'edit.0.model="{bert}"'])
    run([source], tmp_path / "whole" / "out", plan, tmp_path / "whole" / "work", told)
    points = sorted((tmp_path / "whole" / "work" / "runs").glob("*/ledger/*.parquet"))
    assert len(points) == 3
    find([source], tmp_path / "torn" / "work", told)
    for point in crashes:
        assert at("torn", point) == 137
        assert list((tmp_path / "torn" / "work" / "runs").glob("*/tasks/*.json")), "documents are being rewritten"
    run([source], tmp_path / "torn" / "out", plan, tmp_path / "torn" / "work", told)
    assert _bytes(tmp_path / "torn") == _bytes(tmp_path / "whole")
    for place in ("ledger", "draws", "edits"):
        a, b = (sorted((tmp_path / name / "work" / "runs").glob(f"*/{place}/*.parquet")) for name in ("whole", "torn"))
        assert [path.read_bytes() for path in a] == [path.read_bytes() for path in b]


# ----------------------------------------------------------------------------------------------------------------------- the model


def test_a_row_hangs_on_nothing_but_its_text(roberta: Path) -> None:
    """On a CPU, logits are bitwise equal at any position of a batch and next to any rows."""
    model = MaskedModel(roberta)
    texts = [row["text"] for row in ROWS]
    spans = [(no, found.start(), found.end()) for no, text in enumerate(texts) for found in WORD.finditer(text)]
    rows = model.build_inputs(texts, spans, 32)

    def all_of(order: Sequence[int], batch: int) -> np.ndarray[Any, Any]:
        found = np.full((len(rows), len(model.candidate_ids)), np.nan, np.float32)
        for some, logits in model.compute_logits([rows[place] for place in order], batch):
            found[np.asarray(order)[some]] = logits
        return found

    straight = all_of(range(len(rows)), 8)
    assert not np.isnan(straight).any()
    assert (all_of(np.random.default_rng(3).permutation(len(rows)).tolist(), 8) == straight).all()
    assert np.allclose(all_of(range(len(rows)), 32), straight, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_logits_are_those_of_the_whole_model(name: str, request: pytest.FixtureRequest) -> None:
    """The head at the mask alone gives the same as the whole model for the pair that its own tokenizer encodes."""
    import torch

    model = MaskedModel(request.getfixturevalue(name))
    text = "the red bridge was near"
    (row,) = model.build_inputs([text], [(0, 8, 14)], 64)
    ((_, mine),) = model.compute_logits([row], 2)
    tokens = model.tokenizer
    given = tokens(
        text, "the red" + (" " if name == "bert" else "") + tokens.mask_token + " was near", return_tensors="pt", return_token_type_ids=True
    )
    place = int((given["input_ids"][0] == model.mask_token_id).nonzero()[0])
    if not model.has_token_types:
        given.pop("token_type_ids", None)
    with torch.inference_mode():
        whole = model.model(**given).logits[0, place].numpy()[model.candidate_ids]
    assert np.allclose(mine[0], whole, atol=1e-4)


def test_windows(bert: Path) -> None:
    """A window has the word and as many tokens around it as fit; more on one side where the other has too few."""
    model = MaskedModel(bert)
    text = "one two three four five two three four five one"
    spans = [(0, found.start(), found.end()) for found in WORD.finditer(text)]
    sizes = [(len(row.before), len(row.word), len(row.after)) for row in model.build_inputs([text], spans, 4)]
    assert sizes == [(0, 1, 3), *[(1, 1, 2)] * 7, (2, 1, 1), (3, 1, 0)]
    with pytest.raises(PlanError, match="window = 200"):
        model.check_window(200)


def test_no_special_token_is_a_candidate(bert: Path, roberta: Path) -> None:
    for folder in (bert, roberta):
        model = MaskedModel(folder)
        assert not set(model.candidate_ids.tolist()) & set(model.tokenizer.all_special_ids)
        assert all(WORD.fullmatch(word) for word in model.candidate_words) and not any("\ufffd" in word for word in model.candidate_words)


def test_bounds_from_public_texts(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    bounds = measure_bounds(folder, ["the red bridge", "one two"], source="five invented words")
    assert ClipBounds.read(folder) == bounds and bounds.lower < 0 < bounds.upper and bounds.source == "five invented words"
    with pytest.raises(PlanError, match="public"):
        measure_bounds(folder, ["..."], source="x")


# ----------------------------------------------------------------------------------------------------------------------- bad input


def _changed(model: Path, to: Path, **settings: object) -> Path:
    folder = shutil.copytree(model, to)
    for name in ("tokenizer_config.json",):
        told = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(told | settings), "utf-8")
    return folder


def test_a_plan_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"--set edit\.0\.model=PATH"):
        made(tmp_path, load_plan("dp_mlm"))
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
        ("epsilon = 1\nwindo = 3", "Did you mean window?"),
    ],
)
def test_settings_that_are_wrong(settings: str, message: str, bert: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_of(tmp_path, bert, settings)


def test_a_condition_on_a_column_that_is_not_there(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no column publik; known: .*Did you mean public\?"):
        made(tmp_path, plan_of(tmp_path, bert, 'epsilon = 1\nwhere = "publik = false"'))


def test_models_that_are_none(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such folder on this machine"):
        plan_of(tmp_path, tmp_path / "nowhere", "epsilon = 1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError, match=BOUNDS_FILE):
        plan_of(tmp_path, tmp_path / "empty", "epsilon = 1")
    bad = shutil.copytree(bert, tmp_path / "reversed")
    (bad / BOUNDS_FILE).write_text(json.dumps({"lower": 3, "upper": -3, "source": "x", "trained_on": "public"}), "utf-8")
    with pytest.raises(PlanError, match="lower < upper"):
        plan_of(tmp_path, bad, "epsilon = 1")
    unmasked = _changed(bert, tmp_path / "unmasked", mask_token=None)
    told = json.loads((unmasked / "tokenizer.json").read_text("utf-8"))
    told["added_tokens"] = [one for one in told["added_tokens"] if one["content"] != "[MASK]"]
    (unmasked / "tokenizer.json").write_text(json.dumps(told), "utf-8")
    with pytest.raises(PlanError, match="no mask token"):
        made(tmp_path, plan_of(tmp_path, unmasked, "epsilon = 1"))
    assert not (tmp_path / "out").exists()


def test_logits_that_are_no_numbers(bert: Path, tmp_path: Path) -> None:
    """A model whose head gives NaN: no word is drawn, and nothing is published."""
    import torch
    from transformers import BertForMaskedLM

    folder = shutil.copytree(bert, tmp_path / "nan")
    model = BertForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.cls.predictions.bias[60] = float("nan")
    model.save_pretrained(folder)
    with pytest.raises(PlanError, match="NaN"):
        made(tmp_path, plan_of(tmp_path, folder, "epsilon = 1"))
    assert not (tmp_path / "out").exists()


def test_a_model_of_the_corpus_itself(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "own")
    ClipBounds(-2.0, 2.0, "invented", "corpus").write(folder)
    with pytest.raises(PlanError, match="own_model = true"):
        plan_of(tmp_path, folder, "epsilon = 1")
    summary, _, _ = made(tmp_path, plan_of(tmp_path, folder, "epsilon = 1\nown_model = true"))
    (account,) = summary["ledger"]
    assert account["claim"].startswith("none (the model was trained on the corpus itself")
    assert any("trained on the corpus itself" in note for note in summary["notes"])
    for page in ("report.html", "README.md"):
        text = (tmp_path / "out" / page).read_text("utf-8")
        assert "trained on the corpus itself" in text and "No claim of differential privacy" in text


def test_a_model_that_changes_is_another_plan(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    first = plan_of(tmp_path, folder, "epsilon = 1")
    ClipBounds(-3.0, 3.0, "invented", "public").write(folder)
    assert plan_of(tmp_path, folder, "epsilon = 1").hash() != first.hash()
    with pytest.raises(PlanError, match="not the one that the plan was made with"):
        made(tmp_path, first)


def test_nouns_take_a_tagger(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spaCy a clear error; with it (here a stub of spaCy, not of our code) its nouns and proper nouns are replaced."""
    plan = plan_of(tmp_path, bert, 'epsilon = 1\ntargets = ["nouns"]\ntagger = "some_pipeline"')
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtra):
        made(tmp_path, plan)

    class Tagger:
        def pipe(self, texts: list[str]) -> list[list[types.SimpleNamespace]]:
            return [
                [
                    types.SimpleNamespace(idx=found.start(), text=found[0], pos_="NOUN" if found[0] in ("bridge", "Für") else "VERB")
                    for found in re.finditer(r"\S+", text)
                ]
                for text in texts
            ]

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=lambda name: Tagger()))
    _, out, ran = made(tmp_path, plan)
    assert re.fullmatch(r"\w+ Ada: é, naïve 12 ß — ☂ \w+\n\tcall bob@example.com", out[2]["text"])
    assert {row["doc_no"]: row["unit_count"] for row in ledger(ran)} == {2: 2, 3: 1}
    assert pl.DataFrame(pq.read_table(ran / "edits" / "00000.parquet"))["kind"].cast(pl.String).to_list() == ["WORD"] * 3
