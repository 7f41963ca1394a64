"""The leak test: does a model that is trained on a corpus still leak the values that were in it?

    output and vault, or raw input -> train on a part of it, and on canaries -> ask for the values

For every kind of the vault, the trained model is asked for values at their places in the output
(`leak_probes`), and for decoys there, by one teacher-forced pass:

- *(n, p) extraction* (Hayes et al., Measuring memorization through probabilistic extraction, 2024):
  a value is extracted if at one of its places `SAMPLES` samples give it at least once with a
  probability of `PROBABILITY`, from the exact probability of its tokens;
- *exact memorization*: the share of its tokens that greedy decoding gives;
- *decoy rank*: how far its loss is below that of its decoys.

Two comparisons are net of what a model gives without having seen a value. Extraction of all trained
values is compared with that of a decoy each; extraction and scores of rare trained values with
those of controls. Rare ones are in as many documents as the controls, and which documents are
trained on is drawn: without a leak both have the same distribution. Frequent values have no
controls, and a model may prefer them to decoys since parts of them, such as a domain, are in the
texts.

Canaries are invented documents of one value each; a coin decides for each whether it is in the
training data. Half of them are published by the plan first: their audit is the result. The others
are trained on unchanged: where even they leave no trace, the training is too weak to show a leak,
and there is no verdict.

Results are counts, shares and verdicts, never a value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sanitize
from sanitize import train
from sanitize.array_types import F64, Mask
from sanitize.errors import UsageError
from sanitize.storage.private_folder import make_private_folder
from sanitize.storage.runs.run_folders import read_plan

from .evaluation_progress import EvaluationProgress
from .language_model import LanguageModel, check_dtype, resolve_device
from .leak_probes import (
    Canary,
    ProbedValue,
    PublishedDocuments,
    VaultProbes,
    build_probes,
    draw_trained_rows,
    find_run_folder,
    make_canaries,
    sanitize_canaries,
)
from .leak_statistics import audit_one_run, compare_scores, compare_shares, share_with_interval
from .metric import Figure, FigureSeries
from .metrics.extraction import FREQUENCY_BANDS
from .metrics.membership import compute_roc
from .run_folder import RunFolder
from .suite import MessageCallback, describe_training

SAMPLES, PROBABILITY = 1_000, 0.5  # n and p of extraction
LEVEL = 0.95  # of all comparisons together, and of each interval that decides nothing
MIN_DOCUMENTS = 20
HELD_OUT = 0.25  # smallest share of documents that is not trained on
# of text that is trained on from scratch, and by a pretrained model: minutes of two cores
CHARACTERS = (100_000, 50_000)
SCRATCH_CHANGES = ("run.epochs=60",)  # invented mails leave traces from about 40 on
# a pretrained model: settings with which one of 135 M parameters remembers mails of four epochs
PRETRAINED_CHANGES = ("run.epochs=4", "run.lr=5e-4", "run.schedule=linear")
LIMITS = (
    "One attack on one model, for values that finders found: a value that they missed is not asked"
    " for, and another attack may find more. No number here is an upper bound."
)


@dataclass(frozen=True, kw_only=True)
class LeakSettings:
    """Settings of a leak test."""

    model: Path | None = None  # a pretrained model; None: a small one from scratch
    recipe: str = "rmft"
    changes: Sequence[str] = ()  # of the recipe
    documents: int | None = None  # most that are trained on; None: `CHARACTERS` of text
    values: int = 80  # of each kind: rare trained ones, and as many controls
    canaries: int = 192
    seed: int = 0
    device: str | None = None
    dtype: str = "float32"  # of the model that is attacked
    columns: Mapping[str, Any] = field(default_factory=dict)  # as in `sanitize.run`


def run_leak(
    corpus: str | Path,
    out: str | Path,
    settings: LeakSettings | None = None,
    *,
    work: str | Path | None = None,
    plan: str | None = None,
    progress: MessageCallback = lambda line: None,
) -> dict[str, Any]:
    """Test an output of `sanitize.run` with the private folder `work` (default: CORPUS.private), or
    raw input, which is sanitized by `plan` (default: redact) first; return the report.

    `out` is private: it has the training data and the model. The same call continues a training
    that was stopped.
    """
    settings = settings or LeakSettings()
    check_settings(settings)
    source, chosen = Path(corpus), plan
    is_output = (source / "manifest.json").is_file()
    if is_output and (chosen is not None or settings.columns):
        raise UsageError(
            f"{source} is an output already, whose plan and columns are known; leave --plan and the"
            " options for columns out, or give the raw corpus"
        )
    if not is_output and work is not None:
        raise UsageError(
            f"--work: {source} has no manifest.json, so it is no output of `sanitize run`; give the"
            " folder that it published, or leave --work out to sanitize raw input"
        )
    if is_output:
        output, vault = source, Path(work or f"{source}.private")
        if not vault.is_dir():
            raise UsageError(
                f"{vault}: no such folder; the test needs the values that were removed: give the"
                " private folder of the run with --work"
            )
        # a manifest has no values of lists, and names parts that it must not choose
        run_folder = find_run_folder(sanitize.Corpus.open(output), vault)
        loaded = sanitize.Plan.from_resolved(read_plan(run_folder) or {}, f"the plan of {output}")
    else:
        loaded = sanitize.Plan.load(chosen or "redact")
    folder = make_private_folder(Path(out))
    if not is_output:
        output, vault = folder / "published", folder / "work"
        progress(f"sanitizing by the plan {loaded.name}")
        sanitize.run(
            [corpus],
            output,
            plan=loaded,
            work=vault,
            seed=settings.seed,
            replace=True,
            **settings.columns,
        )
    material = prepare(output, vault, loaded, folder / "data", settings, progress)
    progress(f"training on {material.trained_count} documents")
    train.fit(
        _choose_recipe(settings, material.path, material.all_texts),
        folder / "run",
        progress=progress,
    )
    run = RunFolder.open(folder / "run")
    return build_report(
        {loaded.name: run}, {loaded.name: attack_run(run, material, settings, progress)}, settings
    )


def check_settings(settings: LeakSettings) -> None:
    """Raise UsageError or InputRefused for wrong settings, before a corpus is read."""
    if settings.model is not None and not settings.model.is_dir():
        raise UsageError(
            f"--model {settings.model}: no such folder; expected a model in Hugging Face layout"
        )
    check_training(_choose_recipe(settings, Path("data")), settings.device, settings.dtype)


def _choose_recipe(
    settings: LeakSettings, data: Path, tokenizer_corpus: Path | None = None
) -> train.Recipe:
    changes = ["run.checkpoint_every=0", *SCRATCH_CHANGES]
    if settings.model is not None:
        changes += [f"model.path={settings.model}", *PRETRAINED_CHANGES]
    return make_recipe(
        settings.recipe,
        [*changes, *settings.changes],
        data,
        seed=settings.seed,
        device=settings.device,
        tokenizer_corpus=tokenizer_corpus,
    )


def make_recipe(
    recipe: str,
    changes: Sequence[str],
    data: Path,
    *,
    seed: int,
    device: str | None,
    tokenizer_corpus: Path | None = None,
) -> train.Recipe:
    """Build the recipe of a training on `data`. The tokenizer is that of the pretrained model, or
    one that is trained on `tokenizer_corpus`, else on the data."""
    changes = [
        f"data.path={data}",
        f"run.seed={seed}",
        f"run.device={device or 'auto'}",
        *changes,
    ]
    loaded = train.Recipe.load(recipe, changes)
    if tokenizer_corpus is None or loaded.model.path or loaded.tokenizer.path:
        return loaded
    return train.Recipe.load(recipe, [f"tokenizer.corpus={tokenizer_corpus}", *changes])


def check_training(recipe: train.Recipe, device: str | None, dtype: str) -> None:
    """Raise UsageError for a recipe whose model cannot be asked, and for a device or dtype that
    does not exist."""
    objective = recipe.build_objective()
    if objective.HEAD != "causal":
        raise UsageError(
            f"recipe {recipe.name} trains the objective {objective.use}, whose model generates"
            " no text; expected a recipe of a causal model"
        )
    resolve_device(device)
    check_dtype(dtype)


# ---- what is trained on, and asked for ----


@dataclass(frozen=True, repr=False)
class LeakMaterial:
    """The training data of a leak test, and what its model is asked for."""

    path: Path
    # all documents without canaries, for a tokenizer: one that has seen which canaries are trained
    # on would tell them apart by itself
    all_texts: Path
    trained_count: int
    held_out_count: int
    probes: VaultProbes
    canaries: Sequence[Canary]
    is_included: Mask  # the coins of the canaries
    is_published: Mask  # by the plan; the others are trained on unchanged


def prepare(
    output: Path,
    work: Path,
    plan: sanitize.Plan,
    folder: Path,
    settings: LeakSettings,
    progress: MessageCallback,
) -> LeakMaterial:
    """Choose the documents that are trained on, plant canaries among them, and write them to
    `folder`/trained; return this with what the model is asked for."""
    published = PublishedDocuments.read(output, work)
    if len(published.documents) < MIN_DOCUMENTS:
        raise UsageError(
            f"{output}: {len(published.documents)} documents; a leak test needs {MIN_DOCUMENTS}, of"
            " which some are trained on and the others are controls. Give more"
        )
    is_trained = draw_trained_rows(
        published.documents,
        settings.seed,
        most=settings.documents or len(published.documents),
        characters=CHARACTERS[settings.model is not None] if settings.documents is None else None,
        held_out=HELD_OUT,
    )
    progress("reading the vault")
    probes = build_probes(
        published,
        is_trained,
        output,
        work,
        plan,
        most=settings.values,
        bands=FREQUENCY_BANDS,
        seed=settings.seed,
    )
    kinds = sorted({probe.kind for probe in probes.values})
    # about half are trained on: no more of them than of the corpus
    canary_count = min(settings.canaries, 2 * int(is_trained.sum()))
    canaries = make_canaries(plan, kinds, canary_count, settings.seed)
    random = np.random.default_rng([settings.seed, 14])
    is_published = random.permutation(len(canaries)) % 2 == 0
    is_included = random.random(len(canaries)) < 0.5
    progress(f"planting {int(is_included.sum())} of {len(canaries)} canaries")
    texts = sanitize_canaries(
        [one for one, chosen in zip(canaries, is_included & is_published, strict=True) if chosen],
        folder / "canaries",
        plan,
        settings.seed,
    )
    texts += [
        one.text
        for one, chosen in zip(canaries, is_included & ~is_published, strict=True)
        if chosen
    ]
    path = folder / "trained"
    path.mkdir(parents=True, exist_ok=True)
    documents = pl.DataFrame(published.documents.table.select(["doc_id", "text"]))
    all_texts = folder / "tokenizer" / "documents.parquet"
    all_texts.parent.mkdir(exist_ok=True)
    documents.write_parquet(all_texts)
    frame = documents.filter(pl.Series(is_trained))
    planted = pl.DataFrame(
        {"doc_id": [f"leak-canary-{number}" for number in range(len(texts))], "text": texts},
        schema=frame.schema,
    )
    pl.concat([frame, planted]).write_parquet(path / "documents.parquet")
    return LeakMaterial(
        path=path,
        all_texts=all_texts,
        trained_count=int(is_trained.sum()),
        held_out_count=int((~is_trained).sum()),
        probes=probes,
        canaries=canaries,
        is_included=is_included,
        is_published=is_published,
    )


# ---- the attack ----


@dataclass(frozen=True, repr=False)
class ProbeScores:
    """What a model gives for probed values, one entry each, at the best of a value's places."""

    log_probability: F64  # of all tokens of the value
    decoy_log_probability: F64  # of one decoy
    exact: F64  # share of tokens that greedy decoding gives
    score: F64  # how far the log-probability is above those of the decoys, in standard deviations


def score_probes(
    model: LanguageModel, probes: Sequence[ProbedValue], *, batch: int = 64
) -> ProbeScores:
    """Ask a model for values and their decoys by one teacher-forced pass.

    A token that a value shares with the text before it counts as the value's. A model reads the
    token that begins a text only where a text begins.
    """
    rows = [
        (probe_no, candidate_no, prefix, candidate)
        for probe_no, probe in enumerate(probes)
        for candidate_no, candidate in enumerate((probe.value, *probe.decoys))
        for prefix in probe.prefixes
    ]
    encoded = model.tokenizer(
        [prefix + candidate for _, _, prefix, candidate in rows],
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    losses, hits = model.score_tokens(
        [model.begin_ids + list(ids) for ids in encoded["input_ids"]], batch=batch
    )
    candidate_count = max((len(probe.decoys) for probe in probes), default=0) + 1
    best = np.full((len(probes), candidate_count), -np.inf)
    exact = np.zeros(len(probes))
    for (probe_no, candidate_no, prefix, _), spans, loss, hit in zip(
        rows, encoded["offset_mapping"], losses, hits, strict=True
    ):
        tokens = sum(end > len(prefix) for _, end in spans)
        if not tokens:
            continue
        total = -float(loss[-tokens:].sum(dtype=np.float64))
        best[probe_no, candidate_no] = max(best[probe_no, candidate_no], total)
        if candidate_no == 0:
            exact[probe_no] = max(exact[probe_no], float(hit[-tokens:].mean()))
    decoys = best[:, 1:]
    spread = decoys.std(1) if len(probes) else np.zeros(0)
    return ProbeScores(
        log_probability=best[:, 0],
        decoy_log_probability=decoys[:, 0] if len(probes) else np.zeros(0),
        exact=exact,
        score=(best[:, 0] - decoys.mean(1)) / np.maximum(spread, 1e-9) if len(probes) else spread,
    )


def is_extracted(log_probabilities: F64, samples: float = SAMPLES) -> Mask:
    """Return for each value whether `samples` samples give it at least once with a probability of
    `PROBABILITY`."""
    return log_probabilities >= math.log(-math.expm1(math.log1p(-PROBABILITY) / samples))


def attack_run(
    run: RunFolder, material: LeakMaterial, settings: LeakSettings, progress: MessageCallback
) -> dict[str, Any]:
    """Attack the last model of a run; return the results of each kind and of the canaries, the
    verdict, and the points of the figures."""
    groups: dict[str, list[ProbedValue]] = {
        "canaries": [canary.probe for canary in material.canaries]
    }
    for probe in material.probes.values:
        groups.setdefault(probe.kind, []).append(probe)
    lines = EvaluationProgress(list(groups), progress)
    model = LanguageModel.load(
        run.final_checkpoint.path, settings.device, settings.dtype, control=lines.control
    )
    scores = {}
    with lines.heartbeat():
        for name, probes in groups.items():
            lines.note(f"asking for values: {name} ({lines.describe()})")
            started = time.monotonic()
            lines.begin(run.path.name, name)
            scores[name] = score_probes(model, probes)
            lines.end(name, time.monotonic() - started)
    canaries = analyse_canaries(scores.pop("canaries"), material)
    # half of what may be wrong is left to the canaries, the other half to three tests of each kind
    level = 1 - (1 - LEVEL) / 2 / max(3 * len(scores), 1)
    kinds = {
        kind: analyse_kind(groups[kind], found, level) for kind, found in sorted(scores.items())
    }
    is_able = canaries["unchanged"]["audit"]["epsilon"] > 0
    reach = canaries["unchanged"]["auc"] if is_able else 0.5
    for kind, result in kinds.items():
        result["verdict"] = judge_kind(result, reach)
        if kind in material.probes.kept_kinds:
            result["verdict"]["sentence"] += "; the plan keeps values of this kind"
    pooled = [
        np.concatenate(
            [found.log_probability[mask(groups[kind])] for kind, found in scores.items()]
        )
        if scores
        else np.zeros(0)
        for mask in (_trained, _controls)
    ]
    return {
        "documents": {"trained": material.trained_count, "held_out": material.held_out_count},
        "vault": dict(material.probes.vault_counts),
        "untested": dict(material.probes.untested),
        "level": LEVEL,
        "kinds": kinds,
        "canaries": canaries,
        **judge_corpus(kinds, canaries, material.probes.untested, is_able=is_able),
        "curves": {
            name: [
                (exponent / 2, 100 * float(is_extracted(found, 10 ** (exponent / 2)).mean()))
                for exponent in range(15)
            ]
            for name, found in zip(("trained", "controls"), pooled, strict=True)
            if len(found)
        },
    }


def _trained(probes: Sequence[ProbedValue]) -> Mask:
    return np.array([probe.is_trained for probe in probes], bool)


def _controls(probes: Sequence[ProbedValue]) -> Mask:
    return ~_trained(probes)


def analyse_kind(
    probes: Sequence[ProbedValue], scores: ProbeScores, level: float
) -> dict[str, Any]:
    """Return counts and comparisons of the values of one kind; `level` is that of each comparison.
    Values of one document may depend on each other, so documents are compared: those with a value
    that can be extracted, and the mean scores of their values."""
    trained, controls = _trained(probes), _controls(probes)
    rare = trained & np.array([probe.is_rare for probe in probes], bool)
    occurrences = np.array([probe.occurrences for probe in probes])
    extracted, decoys = (
        is_extracted(scores.log_probability),
        is_extracted(scores.decoy_log_probability),
    )

    def count(group: Mask) -> dict[str, Any]:
        return {
            **_count(extracted[group]),
            "exact": float(scores.exact[group].mean()) if group.any() else None,
        }

    document = np.array([probe.document for probe in probes], np.int64)
    alone = document < 0
    document[alone] = -1 - np.flatnonzero(alone)

    def by_document(group: Mask, values: Any) -> F64:
        _, number = np.unique(document[group], return_inverse=True)
        return np.bincount(number, values[group]) / np.maximum(np.bincount(number), 1)

    def compare(group: Mask, other: Mask, other_hits: Mask) -> dict[str, Any]:
        own, others = by_document(group, extracted) > 0, by_document(other, other_hits) > 0
        return asdict(
            compare_shares(int(own.sum()), len(own), int(others.sum()), len(others), level=level)
        )

    return {
        "trained": count(trained),
        "rare": count(rare),
        "controls": count(controls),
        "decoys": _count(decoys[trained]),
        "against_decoys": compare(trained, trained, decoys),
        "controls_against_decoys": compare(controls, controls, decoys),
        "against_controls": compare(rare, controls, extracted),
        "ranks": asdict(
            compare_scores(
                by_document(rare, scores.score), by_document(controls, scores.score), level=level
            )
        ),
        "bands": [
            {"from": low, "to": high, **count(band)}
            for low, high in FREQUENCY_BANDS
            if (band := trained & (occurrences >= low) & (occurrences <= (high or 1 << 62))).any()
        ],
    }


def _count(hits: Mask) -> dict[str, Any]:
    return {
        "hits": int(hits.sum()),
        "total": len(hits),
        **share_with_interval(int(hits.sum()), len(hits)),
    }


def analyse_canaries(scores: ProbeScores, material: LeakMaterial) -> dict[str, Any]:
    """Return the audit of the canaries that the plan published and of those that are trained on
    unchanged, with how many can be extracted and their ROC."""
    found: dict[str, Any] = {}
    extracted = is_extracted(scores.log_probability)
    for name, arm in (("published", material.is_published), ("unchanged", ~material.is_published)):
        included, arm_scores = material.is_included[arm], scores.score[arm]
        level = 1 - (1 - LEVEL) / 2 if name == "published" else LEVEL
        curve = compute_roc(arm_scores[included], arm_scores[~included])
        found[name] = {
            "audit": asdict(audit_one_run(arm_scores, included, level=level)),
            "auc": curve.auc,
            "trained": _count(extracted[arm][included]),
            "controls": _count(extracted[arm][~included]),
            "roc": [
                (100 * float(false), 100 * float(true))
                for false, true in zip(
                    curve.false_positive_rates, curve.true_positive_rates, strict=True
                )
            ],
        }
    return found


# ---- verdicts ----

NO_POWER = (
    "the model shows no trace even of invented documents that it was trained on unchanged; train"
    " longer (--set run.epochs=...) or another model"
)


def judge_kind(result: Mapping[str, Any], reach: float) -> dict[str, str]:
    """Return the verdict of a kind as a word (leaks, traces, no leak seen, undecided) and a
    sentence. `reach`: in which share of pairs an unchanged canary that was trained on scores above
    one that was not; 0.5 if the training leaves no trace of them. "No leak seen" is said only
    where a preference like that would have been seen."""
    trained, controls = result["trained"], result["controls"]
    decoy, control, ranks, control_decoy = (
        result[name]
        for name in ("against_decoys", "against_controls", "ranks", "controls_against_decoys")
    )
    counts = (
        f"{trained['hits']} of {trained['total']} trained values can be extracted,"
        f" {result['decoys']['hits']} of as many decoys, {controls['hits']} of {controls['total']}"
        " controls"
    )
    # decoys differ from real values: only what they show beyond the excess of the controls counts
    if control["low"] > 0 or decoy["low"] > max(control_decoy["high"], 0):
        best = control if control["low"] > 0 else decoy
        return _verdict(
            "leaks",
            f"{counts}; documents with such a value are {_percent(best)} more than without training"
            " on them",
        )
    if ranks["low"] > ranks["null"]:
        return _verdict(
            "traces",
            f"{counts}; a trained value scores above a control in {_percent(ranks)} of pairs",
        )
    if reach <= ranks["null"]:
        return _verdict("undecided", f"{counts}; {NO_POWER}")
    unchanged = f"unchanged canaries score above held-out ones in {100 * reach:.0f} %"
    if ranks["smallest"] is None or ranks["smallest"] > reach:
        smallest = "no share of" if ranks["smallest"] is None else f"{_share(ranks)} or more of"
        return _verdict(
            "undecided", f"{counts}; so few show a preference only in {smallest} pairs; {unchanged}"
        )
    return _verdict(
        "no leak seen",
        f"{counts}; a preference in {_share(ranks)} of pairs would have been seen; {unchanged}",
    )


def judge_corpus(
    kinds: Mapping[str, Mapping[str, Any]],
    canaries: Mapping[str, Any],
    untested: Mapping[str, str],
    *,
    is_able: bool,
) -> dict[str, Any]:
    """Return the verdict about a corpus, as a word and sentences."""
    audit, unchanged = canaries["published"]["audit"], canaries["unchanged"]["audit"]
    by_word: dict[str, list[str]] = {}
    for kind, result in kinds.items():
        by_word.setdefault(result["verdict"]["word"], []).append(kind)
    bounded = (
        f"canaries: {audit['correct']} of {audit['guesses']} guesses whether an invented value was"
        " trained on are right, so epsilon is at least"
        f" {audit['epsilon']:.2f}"
        if audit["epsilon"] > 0
        else f"canaries: {audit['correct']} of {audit['guesses']} guesses whether an invented value"
        " was trained on are right, which gives no bound of epsilon above 0"
    )
    if audit["smallest"] is not None:
        bounded += (
            "; guesses that are right with the odds of an epsilon of"
            f" {audit['smallest']:.2f} would have been seen"
        )
    bounded += (
        f" ({unchanged['epsilon']:.2f} for canaries that the plan did not read)"
        if is_able
        else f"; no verdict: {NO_POWER}"
    )
    if by_word.get("leaks") or audit["epsilon"] > 0:
        word = "leaks"
    elif by_word.get("traces"):
        word = "traces"
    elif is_able and [*by_word] == ["no leak seen"]:
        word = "no leak seen"
    else:
        word = "undecided"
    sentences = [f"{kind}: {one['verdict']['sentence']}" for kind, one in kinds.items()]
    if word == "undecided" and by_word.get("no leak seen"):
        sentences.insert(0, f"no leak was seen of {', '.join(by_word['no leak seen'])} alone")
    sentences += [f"{kind}: not tested, {why}" for kind, why in sorted(untested.items())]
    return {"verdict": {"word": word, "sentence": bounded}, "sentences": [*sentences, bounded]}


def withhold_verdicts(results: Mapping[str, dict[str, Any]], baseline: str) -> None:
    """Replace "no leak seen" by "undecided" for kinds of which the model of the baseline, whose
    texts have all values, shows no leak either."""
    base = results[baseline]["kinds"]
    for name, result in results.items():
        for kind, one in result["kinds"].items():
            is_shown = kind not in base or base[kind]["verdict"]["word"] in ("leaks", "traces")
            if name != baseline and one["verdict"]["word"] == "no leak seen" and not is_shown:
                one["verdict"] = _verdict("undecided", f"{baseline} shows no leak of it either")
        unchanged = result["canaries"]["unchanged"]["audit"]
        result |= judge_corpus(
            result["kinds"],
            result["canaries"],
            result["untested"],
            is_able=unchanged["epsilon"] > 0,
        )


def _verdict(word: str, sentence: str) -> dict[str, str]:
    return {"word": word, "sentence": f"{word}. {sentence}"}


def _share(ranks: Mapping[str, Any]) -> str:
    return f"{100 * ranks['smallest']:.0f} %"


def _percent(comparison: Mapping[str, Any]) -> str:
    return (
        f"{100 * comparison['effect']:.1f} % [{100 * comparison['low']:.1f},"
        f" {100 * comparison['high']:.1f}]"
    )


# ---- the report ----


def build_report(
    runs: Mapping[str, RunFolder], results: Mapping[str, Mapping[str, Any]], settings: LeakSettings
) -> dict[str, Any]:
    """Return the report of leak tests by plan: the results, with tables and figures for the
    page."""
    return {
        "name": "leak",
        "seed": settings.seed,
        "attack": {"samples": SAMPLES, "probability": PROBABILITY, "level": LEVEL},
        "runs": {
            name: {
                "trained": describe_training(run),
                "rows": [{"step": run.final_checkpoint.step, "epoch": run.final_checkpoint.epoch}],
            }
            for name, run in runs.items()
        },
        "leak": {
            name: {key: value for key, value in result.items() if key != "curves"}
            for name, result in results.items()
        },
        **describe_results(results),
    }


def describe_results(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page shows of leak tests by plan: `verdicts`, `tables` and `figures`."""
    return {
        "verdicts": [
            {"run": name, "word": one["verdict"]["word"], "sentences": [*one["sentences"], LIMITS]}
            for name, one in results.items()
        ],
        "tables": [_tabulate_kinds(results), _tabulate_bands(results), _tabulate_canaries(results)],
        "figures": [{**asdict(one), "metric": "leak"} for one in build_figures(results)],
    }


def _tabulate_kinds(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "title": f"Values that {SAMPLES:,} samples give with probability {PROBABILITY}, by kind",
        "header": [
            "run, kind",
            "in the vault",
            "trained",
            "extracted",
            "decoys extracted",
            "more than decoys, %",
            "rare",
            "extracted",
            "controls",
            "extracted",
            "more than controls, %",
            "above controls in pairs, %",
            "tokens greedily right, %",
            "of controls, %",
            "verdict",
        ],
        "rows": [
            [
                f"{name}, {kind}",
                result["vault"][kind],
                one["trained"]["total"],
                one["trained"]["hits"],
                one["decoys"]["hits"],
                _percent(one["against_decoys"]),
                one["rare"]["total"],
                one["rare"]["hits"],
                one["controls"]["total"],
                one["controls"]["hits"],
                _percent(one["against_controls"]) if one["controls"]["total"] else None,
                _percent(one["ranks"]) if one["controls"]["total"] else None,
                _times_100(one["trained"]["exact"]),
                _times_100(one["controls"]["exact"]),
                one["verdict"]["word"],
            ]
            for name, result in results.items()
            for kind, one in result["kinds"].items()
        ],
    }


def _times_100(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _name_band(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else f"{low} to {high}" if high > low else str(low)


def _tabulate_bands(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "title": "Extracted values by occurrences before sanitizing",
        "header": ["run, kind", "occurrences", "values", "extracted", "%", "from", "to"],
        "rows": [
            [
                f"{name}, {kind}",
                _name_band(band["from"], band["to"]),
                band["total"],
                band["hits"],
                *(100 * band[key] for key in ("share", "low", "high")),
            ]
            for name, result in results.items()
            for kind, one in result["kinds"].items()
            for band in one["bands"]
        ],
    }


def _tabulate_canaries(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "title": f"Canaries: guesses whether a value was trained on, at {100 * LEVEL:g} %",
        "header": ["run", "canaries", "guesses", "right", "epsilon at least", "seen from", "area"],
        "rows": [
            [
                f"{name}, {'published by the plan' if arm == 'published' else 'unchanged'}",
                *(
                    one["audit"][key]
                    for key in ("canaries", "guesses", "correct", "epsilon", "smallest")
                ),
                one["auc"],
            ]
            for name, result in results.items()
            for arm, one in result["canaries"].items()
        ],
    }


def build_figures(results: Mapping[str, Mapping[str, Any]]) -> list[Figure]:
    """Return the figures of leak tests by plan: extraction by number of samples and by frequency,
    and the ROC of the canaries."""
    bands: dict[str, dict[int, list[int]]] = {}
    for name, result in results.items():
        for one in result["kinds"].values():
            for band in one["bands"]:
                counts = bands.setdefault(name, {}).setdefault(band["from"], [0, 0])
                counts[0] += band["hits"]
                counts[1] += band["total"]
    return [
        Figure(
            f"Values that n samples give with probability {PROBABILITY}",
            "log10 n",
            "%",
            [
                FigureSeries(f"{name}, {group}", points)
                for name, result in results.items()
                for group, points in result["curves"].items()
            ],
        ),
        Figure(
            "Extracted values by occurrences before sanitizing",
            "log2 of the fewest occurrences of a band",
            "%",
            [
                FigureSeries(
                    name,
                    [
                        (math.log2(low), 100 * hits / total)
                        for low, (hits, total) in sorted(found.items())
                    ],
                )
                for name, found in bands.items()
            ],
        ),
        Figure(
            "Canaries: was an invented value trained on?",
            "% of held out taken for trained",
            "% of trained found",
            [
                FigureSeries(f"{name}, {arm}", one["roc"])
                for name, result in results.items()
                for arm, one in result["canaries"].items()
            ],
            "steps",
        ),
    ]
