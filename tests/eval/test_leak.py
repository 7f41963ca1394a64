"""The leak test on tiny corpora: what is asked for lies where the output has it, verdicts follow
from counts, wrong input is one clear error, and nothing that is reported has a value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sanitize
from sanitize.core.keys import Key
from sanitize.errors import OutputBroken, SanitizeError, UsageError
from sanitize.eval.cli import app
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.leak import (
    LeakSettings,
    _choose_recipe,
    analyse_kind,
    build_report,
    is_extracted,
    judge_corpus,
    judge_kind,
    prepare,
    run_leak,
    score_probes,
    withhold_verdicts,
)
from sanitize.eval.leak_probes import (
    DECOY_COUNT,
    ProbedValue,
    PublishedDocuments,
    build_probes,
    draw_invented,
    draw_trained_rows,
    make_canaries,
    sanitize_canaries,
)
from sanitize.eval.leak_statistics import audit_one_run
from sanitize.eval.report import render_page

TINY = (
    "run.epochs=1",
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "tokenizer.vocab=300",
)
BANDS = ((1, 1), (2, None))


def make_mails(count: int, prefix: str = "p") -> pl.DataFrame:
    texts = [
        f"Dear reader {n}, write to {prefix}{n}.lee@example.com, or to office@example.org, or call"
        f" +1 212 555 {1000 + n % 7}.\nAll is well.\n"
        for n in range(count)
    ]
    return pl.DataFrame({"doc_id": [f"m{n}" for n in range(count)], "text": texts})


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same 40 mails published by three plans; another corpus of as many rows."""
    folder = tmp_path_factory.mktemp("outputs")
    for name, mails in {"raw": make_mails(40), "other": make_mails(40, "quite.other")}.items():
        (folder / name).mkdir()
        mails.write_parquet(folder / name / "mails.parquet")
    found = {"raw": folder / "raw"}
    for name, source, plan in (
        ("redact", "raw", "redact"),
        ("rmft", "raw", "rmft"),
        ("baseline", "raw", "baseline"),
        ("other", "other", "redact"),
    ):
        found[name] = folder / f"{name}-out"
        sanitize.run(
            folder / source,
            found[name],
            plan=plan,
            work=f"{found[name]}.private",
            seed=1,
            workers=1,
        )
    return found


def work_of(output: Path) -> Path:
    return Path(f"{output}.private")


def read_probes(
    output: Path, work: Path | None = None, most: int = 100, **changes: Any
) -> tuple[list[ProbedValue], Mapping[str, str]]:
    work = work or work_of(output)
    published = PublishedDocuments.read(output, work)
    is_trained = draw_trained_rows(
        published.documents, 0, most=1000, characters=None, held_out=0.25
    )
    plan = sanitize.Plan.load("redact")
    arguments: dict[str, Any] = {"most": most, "bands": BANDS, "seed": 0} | changes
    found = build_probes(published, is_trained, output, work, plan, **arguments)
    return found.values, found.untested


# ---- what is asked for ----


@pytest.mark.parametrize("plan", ["redact", "rmft", "baseline"])
def test_values_are_asked_for_where_the_output_has_them(
    outputs: dict[str, Path], plan: str
) -> None:
    texts = sanitize.Corpus.open(outputs[plan]).table()["text"].to_pylist()
    raw = make_mails(40)["text"].to_list()
    probes, _ = read_probes(outputs[plan])
    assert {probe.kind for probe in probes} >= {"EMAIL_ADDRESS", "PHONE_NUMBER"}
    for probe in probes:
        for prefix in probe.prefixes:
            assert any(text.startswith(prefix) for text in texts)
            before = {"p": "write to ", "o": "or to ", "+": "or call "}[probe.value[0]]
            assert prefix.endswith(before)
            if plan == "baseline":
                assert any(text.startswith(prefix + probe.value) for text in raw)


def test_values_of_conversations_are_asked_for_in_their_turns(tmp_path: Path) -> None:
    chats = [
        [
            {
                "role": "user",
                "content": f"I am p{n}.lee@example.com, and not p{n}.ray@example.com.",
            },
            {"role": "assistant", "content": f"Noted for {n}: p{n}.lee@example.com."},
        ]
        for n in range(24)
    ]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "chats.jsonl").write_text(
        "".join(
            json.dumps({"id": f"c{n}", "messages": chat}) + "\n" for n, chat in enumerate(chats)
        )
    )
    sanitize.run(tmp_path / "raw", tmp_path / "out", plan="redact", seed=1, workers=1)
    probes, _ = read_probes(tmp_path / "out")
    assert len(probes) == 48
    for probe in probes:
        number = probe.value[1:].partition(".")[0]
        first = "I am [EMAIL_ADDRESS], and not " if ".ray" in probe.value else "I am "
        second = () if ".ray" in probe.value else (f"Noted for {number}: ",)
        assert probe.prefixes == (first, *second)


def test_trained_values_and_controls(outputs: dict[str, Path]) -> None:
    probes, _ = read_probes(outputs["redact"])
    addresses = [probe for probe in probes if probe.kind == "EMAIL_ADDRESS"]
    rare = [probe for probe in addresses if probe.is_rare]
    assert sum(probe.is_trained for probe in rare) == 30 and len(rare) == 40
    office = next(probe for probe in addresses if not probe.is_rare)
    assert (office.value, office.occurrences, office.is_trained) == ("office@example.org", 40, True)
    assert len(office.prefixes) == 4, "a value is asked for in a few places only"
    published = PublishedDocuments.read(outputs["redact"], work_of(outputs["redact"]))
    is_trained = draw_trained_rows(
        published.documents, 0, most=1000, characters=None, held_out=0.25
    )
    first_lines = {
        text[:16]: trained
        for text, trained in zip(published.documents.texts(), is_trained, strict=True)
    }
    assert len(first_lines) == 40
    for probe in probes:
        assert {first_lines[prefix[:16]] for prefix in probe.prefixes} == {probe.is_trained}
    known = {probe.value for probe in probes}
    for probe in probes:
        assert len(set(probe.decoys)) == DECOY_COUNT and not known & set(probe.decoys)
    assert (
        len([probe for probe in read_probes(outputs["redact"], most=6)[0] if probe.is_rare]) <= 24
    )


def test_decoys_are_not_in_the_vault() -> None:
    kind, key = sanitize.list_kinds()["EMAIL_ADDRESS"], Key.from_seed(0)
    values = pl.Series(["ann.lee@example.com"] * 3)
    drawn = draw_invented(kind, values, 5, set(), key, "decoys")
    assert [len(set(row)) for row in drawn] == [5, 5, 5]
    again = draw_invented(kind, values, 5, {drawn[0][0].lower()}, key, "decoys")
    assert drawn[0][0] not in again[0] and drawn[0][1:] == again[0][:4] and drawn[1:] == again[1:]
    assert draw_invented(kind, values, 5, set(), key, "canaries")[0] != drawn[0]


def test_the_draw_depends_on_ids_and_seed_alone(outputs: dict[str, Path]) -> None:
    documents = PublishedDocuments.read(outputs["redact"], work_of(outputs["redact"])).documents
    drawn = draw_trained_rows(documents, 3, most=25, characters=None, held_out=0.25)
    backwards = replace(documents, table=documents.table.take(list(range(39, -1, -1))))
    again = draw_trained_rows(backwards, 3, most=25, characters=None, held_out=0.25)
    assert drawn.sum() == 25 and (drawn == again[::-1]).all()
    limited = draw_trained_rows(documents, 3, most=25, characters=1800, held_out=0.25)
    assert 10 <= limited.sum() < 25 and drawn[limited].all()


def test_canaries_pass_through_the_plan(tmp_path: Path) -> None:
    plan = sanitize.Plan.load("redact")
    kinds = ["EMAIL_ADDRESS", "PHONE_NUMBER", "IBAN_CODE", "NO_SUCH_KIND"]
    canaries = make_canaries(plan, kinds, 12, seed=5)
    assert {canary.probe.kind for canary in canaries} == set(kinds[:3]) and len(canaries) == 12
    assert len({canary.probe.value for canary in canaries}) == 12
    for canary in canaries:
        assert canary.text.startswith(canary.probe.prefixes[0] + canary.probe.value)
    texts = sanitize_canaries(canaries, tmp_path, plan, 5)
    assert len(texts) == 12
    assert not any(canary.probe.value in text for canary in canaries for text in texts)
    kept = sanitize_canaries(canaries, tmp_path, sanitize.Plan.load("baseline"), 5)
    assert kept == [canary.text for canary in canaries]


def test_half_of_the_canaries_are_trained_on(outputs: dict[str, Path], tmp_path: Path) -> None:
    output = outputs["redact"]
    material = prepare(
        output,
        work_of(output),
        sanitize.Plan.load("redact"),
        tmp_path,
        LeakSettings(canaries=80),
        lambda line: None,
    )
    texts = pl.read_parquet(tmp_path / "trained" / "documents.parquet")["text"].to_list()
    assert len(texts) == 30 + material.is_included.sum() and 15 < material.is_included.sum() < 45
    for canary, is_included, is_published in zip(
        material.canaries, material.is_included, material.is_published, strict=True
    ):
        is_there = any(canary.probe.value in text for text in texts)
        assert is_there == (is_included and not is_published)
        filler = canary.text.partition("\n")[0]
        assert any(filler in text for text in texts) == is_included
    assert material.is_published.sum() == 30 and len(material.canaries) == 60, "twice 30 documents"
    # a tokenizer of what is trained on would have words of the canaries that are
    all_texts = pl.read_parquet(material.all_texts)["text"].to_list()
    assert len(all_texts) == material.trained_count + material.held_out_count
    assert not any(
        one.text.partition("\n")[0] in text for one in material.canaries for text in all_texts
    )
    recipe = _choose_recipe(LeakSettings(), material.path, material.all_texts)
    assert recipe.tokenizer.corpus == str(material.all_texts)


# ---- the attack ----


def probe(value: str, decoys: tuple[str, ...] = ("abc", "xyz"), **changes: Any) -> ProbedValue:
    return ProbedValue("EMAIL_ADDRESS", value, ("write to ",), decoys, **changes)


def test_scores_are_those_of_the_tokens_of_the_value(gpt2: Any, tokenizer: Any) -> None:
    model = LanguageModel.from_loaded(gpt2, tokenizer)
    scores = score_probes(model, [probe("bob"), probe("x", ("y", "z"))])
    for number, text in enumerate(("write to bob", "write to x")):
        ids = model.begin_ids + model.encode([text])[0]
        losses = model.token_losses([ids])[0]
        size = len(text) - len("write to ")
        assert scores.log_probability[number] == pytest.approx(-losses[-size:].sum(), rel=1e-4)
    # greedy decoding gives this value, and so all of its tokens are right
    row = model.begin_ids + model.encode(["write to "])[0]
    greedy = model.decode(model.generate([row], new_tokens=3))[0]
    found = score_probes(model, [probe(greedy, ("aaa", "zzz"))])
    assert len(greedy) == 3 and found.exact[0] == 1.0 and found.score[0] > 0
    # the best of two places
    places = replace(probe("bob"), prefixes=("write to ", "call "))
    assert score_probes(model, [places]).log_probability[0] >= scores.log_probability[0]


def test_extraction_counts_samples() -> None:
    # 1 - (1 - p)^n >= 1/2: with n = 1000 from p = 0.000693 on
    assert is_extracted(np.log([0.0006, 0.0008, 1.0])).tolist() == [False, True, True]
    assert is_extracted(np.log([0.49, 0.5]), 1).tolist() == [False, True]


class Counts:
    """Scores of values that are extracted or not, without a model."""

    def __init__(self, log_probability: Any, decoys: Any, score: Any) -> None:
        self.log_probability, self.decoy_log_probability = log_probability, decoys
        self.exact, self.score = np.zeros(len(score)), score


def analyse(hits: int, control_hits: int, decoy_hits: int, shift: float = 0.0) -> dict[str, Any]:
    probes = [probe(f"v{n}", occurrences=1 + n % 3) for n in range(60)]
    probes += [probe(f"c{n}", is_trained=False) for n in range(40)]
    random = np.random.default_rng(1)
    logs = np.full(100, -50.0)
    logs[:hits], logs[60 : 60 + control_hits] = 0.0, 0.0
    decoys = np.full(100, -50.0)
    decoys[:decoy_hits] = 0.0
    score = random.normal(size=100) + shift * (np.arange(100) < 60)
    return analyse_kind(probes, Counts(logs, decoys, score), 0.99)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "reach", "word"),
    [
        ({"hits": 30, "control_hits": 0, "decoy_hits": 0}, 0.9, "leaks"),
        ({"hits": 30, "control_hits": 0, "decoy_hits": 0}, 0.5, "leaks"),
        ({"hits": 1, "control_hits": 0, "decoy_hits": 0}, 0.9, "no leak seen"),
        # unchanged canaries leave a smaller trace than could be seen, or none
        ({"hits": 1, "control_hits": 0, "decoy_hits": 0}, 0.6, "undecided"),
        ({"hits": 1, "control_hits": 0, "decoy_hits": 0}, 0.5, "undecided"),
        # as many decoys and controls: what everybody can guess
        ({"hits": 30, "control_hits": 20, "decoy_hits": 30}, 0.9, "no leak seen"),
        # real values are likelier than decoys without training, too
        ({"hits": 30, "control_hits": 20, "decoy_hits": 0}, 0.9, "no leak seen"),
        ({"hits": 0, "control_hits": 0, "decoy_hits": 0, "shift": 2.0}, 0.9, "traces"),
    ],
)
def test_verdicts_follow_from_counts(counts: dict[str, Any], reach: float, word: str) -> None:
    result = analyse(**counts)
    verdict = judge_kind(result, reach)
    assert verdict["word"] == word and verdict["sentence"].startswith(f"{word}. ")
    assert [band["total"] for band in result["bands"]] == [20, 40]
    assert "anonym" not in verdict["sentence"] and "no PII" not in verdict["sentence"]


def test_values_of_one_document_are_no_independent_evidence() -> None:
    """Documents differ in how likely their values are; no value was remembered."""
    seen = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        probes = [
            probe(f"v{n}", document=n // 8, is_trained=n < 80, occurrences=1) for n in range(160)
        ]
        score = np.repeat(random.normal(size=20), 8) + random.normal(size=160)
        logs = np.full(160, -50.0)
        result = analyse_kind(probes, Counts(logs, logs, score), 0.95)  # type: ignore[arg-type]
        seen += result["ranks"]["low"] > 0.5
        assert result["trained"]["total"] == 80
    assert seen <= 15  # of 300, one side of 95 %


def test_too_few_values_decide_nothing() -> None:
    scores = Counts(np.full(3, -50.0), np.full(3, -50.0), np.zeros(3))
    result = analyse_kind([probe(f"v{n}") for n in range(3)], scores, 0.99)  # type: ignore[arg-type]
    verdict = judge_kind(result, 0.9)
    assert verdict["word"] == "undecided" and "so few" in verdict["sentence"]


def audit_of(share: float, seed: int = 2) -> dict[str, Any]:
    """The result of canaries of which this share is told apart."""
    random = np.random.default_rng(seed)
    is_trained = random.random(128) < 0.5
    scores = np.where(random.random(128) < share, is_trained * 2.0 - 1, 0) + random.random(128) / 2
    return {"audit": asdict(audit_one_run(scores, is_trained)), "auc": 0.5, "roc": [(0.0, 0.0)]}


@pytest.mark.parametrize(
    ("words", "published", "unchanged", "expected"),
    [
        (["no leak seen"], 0.0, 1.0, "no leak seen"),
        (["no leak seen", "leaks"], 0.0, 1.0, "leaks"),
        (["no leak seen", "traces"], 0.0, 1.0, "traces"),
        (["no leak seen"], 1.0, 1.0, "leaks"),
        ([], 0.0, 1.0, "undecided"),
        (["undecided"], 0.0, 0.0, "undecided"),
        (["no leak seen", "undecided"], 0.0, 1.0, "undecided"),
    ],
)
def test_the_verdict_about_a_corpus(
    words: list[str], published: float, unchanged: float, expected: str
) -> None:
    kinds = {f"K{n}": {"verdict": {"word": word, "sentence": word}} for n, word in enumerate(words)}
    canaries = {"published": audit_of(published), "unchanged": audit_of(unchanged)}
    is_able = canaries["unchanged"]["audit"]["epsilon"] > 0
    assert is_able == (unchanged == 1.0)
    result = judge_corpus(kinds, canaries, {"AGE": "too few"}, is_able=is_able)
    assert "AGE: not tested, too few" in result["sentences"]
    assert result["verdict"]["word"] == expected
    assert ("no verdict" in result["sentences"][-1]) != is_able
    named = "no leak was seen of K0 alone"
    assert (named in result["sentences"]) == (words == ["no leak seen", "undecided"])


def test_no_verdict_where_the_baseline_shows_nothing() -> None:
    def result(**words: str) -> dict[str, Any]:
        canaries = {"published": audit_of(0.0), "unchanged": audit_of(1.0)}
        kinds = {
            kind: {"verdict": {"word": word, "sentence": word}} for kind, word in words.items()
        }
        return {"kinds": kinds, "canaries": canaries, "untested": {}}

    results = {
        "baseline": result(A="traces", B="no leak seen"),
        "redact": result(A="no leak seen", B="no leak seen", C="no leak seen"),
    }
    withhold_verdicts(results, "baseline")
    words = {kind: one["verdict"]["word"] for kind, one in results["redact"]["kinds"].items()}
    assert words == {"A": "no leak seen", "B": "undecided", "C": "no leak seen"}
    assert results["baseline"]["kinds"]["B"]["verdict"]["word"] == "no leak seen"
    assert any("baseline shows no leak" in one for one in results["redact"]["sentences"])


# ---- wrong input ----


@pytest.mark.parametrize(
    ("corpus", "options", "error", "message"),
    [
        ("redact", {"plan": "rmft"}, UsageError, "is an output already"),
        ("raw", {"work": "x"}, UsageError, "no manifest.json"),
        ("redact", {"work": "missing"}, UsageError, "no such folder"),
        ("redact", {"work": "other"}, OutputBroken, "not the private folder of the run"),
        ("raw", {"plan": "redcat"}, SanitizeError, "did you mean redact"),
    ],
)
def test_wrong_input_is_one_clear_error(
    corpus: str,
    options: dict[str, str],
    error: type[Exception],
    message: str,
    outputs: dict[str, Path],
    tmp_path: Path,
) -> None:
    work = options.get("work")
    given: dict[str, Any] = {**options}
    if work is not None:
        given["work"] = work_of(outputs[work]) if work in outputs else tmp_path / work
    with pytest.raises(error, match=message):
        run_leak(outputs[corpus], tmp_path / "out", LeakSettings(canaries=0), **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "mlm"}, "generates no text"),
        ({"changes": ("run.epoch=3",)}, "did you mean epochs"),
        ({"device": "tpu"}, "device tpu"),
        ({"dtype": "float16"}, "dtype float16"),
        ({"model": Path("no/such/model")}, "no such folder"),
    ],
)
def test_wrong_settings_are_refused_before_input_is_read(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        run_leak(tmp_path / "missing", tmp_path / "out", LeakSettings(**changes))
    assert not (tmp_path / "out").exists()


def publish(mails: pl.DataFrame, folder: Path) -> Path:
    (folder / "raw").mkdir(parents=True)
    mails.write_parquet(folder / "raw" / "mails.parquet")
    sanitize.run(folder / "raw", folder / "out", plan="redact", seed=1, workers=1)
    return folder / "out"


@pytest.mark.parametrize("run_hash", ["../../evil", "0123456789abcdef", ""])
def test_a_manifest_does_not_choose_the_folder_of_the_run(
    run_hash: str, outputs: dict[str, Path], tmp_path: Path
) -> None:
    output, work = tmp_path / "out", tmp_path / "out.private"
    shutil.copytree(outputs["redact"], output)
    shutil.copytree(work_of(outputs["redact"]), work)
    (tmp_path / "evil").mkdir()
    manifest = json.loads((output / "manifest.json").read_text())
    (output / "manifest.json").write_text(json.dumps({**manifest, "run_hash": run_hash}))
    with pytest.raises(OutputBroken, match="is not the private folder of the run"):
        run_leak(output, tmp_path / "leak")


def test_a_corpus_without_values_is_refused(tmp_path: Path) -> None:
    ids = [f"m{n}" for n in range(30)]
    output = publish(pl.DataFrame({"doc_id": ids, "text": ["All is well."] * 30}), tmp_path)
    with pytest.raises(UsageError, match="has no values"):
        read_probes(output)


def test_few_documents_are_refused(tmp_path: Path) -> None:
    output = publish(make_mails(5), tmp_path)
    with pytest.raises(UsageError, match="5 documents; a leak test needs 20"):
        run_leak(output, tmp_path / "leak", LeakSettings(canaries=0))


def test_a_model_with_another_tokenizer_is_refused(
    gpt2: Any, outputs: dict[str, Path], tmp_path: Path
) -> None:
    from sanitize.train.model import train_tokenizer

    gpt2.save_pretrained(tmp_path / "model")
    many = train_tokenizer(["other words than these"] * 50, vocab_size=280, context_length=64)
    many.add_tokens([f"<{n}>" for n in range(300)])
    many.save_pretrained(tmp_path / "model")
    settings = LeakSettings(model=tmp_path / "model", canaries=0)
    with pytest.raises(SanitizeError, match="do not belong together|token"):
        run_leak(outputs["redact"], tmp_path / "out", settings)


# ---- the whole command ----


@pytest.mark.slow
def test_one_value_only_gives_no_verdict(tmp_path: Path) -> None:
    texts = [f"Note {n} to ann.lee@example.com, all is well." for n in range(30)]
    mails = pl.DataFrame({"doc_id": [f"m{n}" for n in range(30)], "text": texts})
    output = publish(mails, tmp_path)
    report = run_leak(output, tmp_path / "leak", LeakSettings(changes=TINY, canaries=16))
    result = report["leak"]["redact"]
    assert result["kinds"]["EMAIL_ADDRESS"]["trained"]["total"] == 1
    assert result["verdict"]["word"] == result["kinds"]["EMAIL_ADDRESS"]["verdict"]["word"]
    assert result["verdict"]["word"] == "undecided"


@pytest.mark.slow
def test_a_pretrained_model_of_a_folder(
    gpt2: Any, tokenizer: Any, outputs: dict[str, Path], tmp_path: Path
) -> None:
    gpt2.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    settings = LeakSettings(
        model=tmp_path / "model", canaries=16, changes=("run.epochs=1", "model.context=64")
    )
    report = run_leak(outputs["baseline"], tmp_path / "out", settings)
    assert report["runs"]["baseline"]["trained"]["base_model"] == "model"
    assert report["runs"]["baseline"]["trained"]["settings"]["lr"] == 5e-4
    assert report["leak"]["baseline"]["kinds"]["EMAIL_ADDRESS"]["trained"]["total"] == 31


@pytest.mark.slow
def test_the_command_reports_counts_only(outputs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    changes = [word for change in TINY for word in ("--set", change)]
    arguments = ["leak", str(outputs["raw"]), "--out", str(out), "--canaries", "16", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--plan", "rmft", *changes])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert out.stat().st_mode & 0o777 == 0o700, "it holds the vault and canaries"
    assert report["leak"]["rmft"]["verdict"]["word"] in ("undecided", "no leak seen")
    assert report["leak"]["rmft"]["vault"]["EMAIL_ADDRESS"] == 41
    kept = report["leak"]["rmft"]["kinds"]["EMAIL_ADDRESS"]["verdict"]["sentence"]
    assert kept.endswith("the plan keeps values of this kind")
    page = (out / "report.html").read_text()
    assert "no number here is an upper bound" in page.lower() and page.count("<svg") == 3
    shown = page + result.output + (out / "report.json").read_text()
    values = [f"p{n}.lee" for n in range(40)] + ["office@", "555 100", "@example"]
    assert not [value for value in values if value in shown]
    # the same command trains nothing twice
    again = CliRunner().invoke(app, [*arguments, "--plan", "rmft", *changes])
    assert json.loads(again.stdout) == report and "step 1 of" not in again.output


def test_the_page_shows_several_plans() -> None:
    result = {
        "kinds": {"EMAIL_ADDRESS": {**analyse(30, 0, 0), "verdict": {"word": "leaks"}}},
        "vault": {"EMAIL_ADDRESS": 99},
        "verdict": {"word": "leaks"},
        "sentences": ["one <sentence>"],
        "canaries": {"published": audit_of(0.0), "unchanged": audit_of(1.0)},
        "curves": {"trained": [(0.0, 1.0), (1.0, 2.0)]},
    }
    report = build_report({}, {"one": result, "two": result}, LeakSettings())
    page = render_page([report])
    assert "one, EMAIL_ADDRESS" in page and "two: leaks" in page and "one &lt;sentence&gt;" in page
