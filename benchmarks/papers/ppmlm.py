"""Masked language modelling without identifiers as targets: how many identifiers of its training
texts a model predicts, by scheme.

`sanitize run --plan blacklist` lists the found values (telephone numbers, mail addresses) and the
words that only one person wrote. A small BERT, pre-trained on notes about other people, is
specialised on the notes of the members: on all words (MLM), on texts with found values replaced by
X (MLMA), never on a listed word (PPMLM), with one half of the list (DPPMLM, IPPMLM), and on all
words by DP-SGD (DP). The audit masks every word of every note once. Utility is the share of masked
words predicted correctly in notes of people that no model was trained on; they are the attack's
non-members, too.

With `--model PATH` (sizes `real` and `gpu`) a pretrained masked model takes the place of the small
BERT; a causal one is refused.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import sanitize
from benchmarks.criteria import (
    Criterion,
    compute_seed_intervals,
    make_parser,
    report_criteria,
    run_script,
    sample_documents,
    split_documents,
    with_intervals,
)
from benchmarks.papers_texts import notes
from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics import identifiers, membership
from sanitize.eval.metrics.identifiers import IdentifierSets
from sanitize.eval.run_folder import RunFolder
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.run_results import RunResult
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of data, models and trainings."""

    people: int  # members, and as many others
    each: int  # notes a person
    general: int  # people of the base model's training notes
    epochs: int
    seeds: int
    vocab: int = 2000
    layers: int = 2
    width: int = 64
    heads: int = 4
    context: int = 128
    general_epochs: int = 24
    lr: float = 5e-3
    batch: int = 8
    # of DP-SGD, whose steps cost several plain ones; at a fixed epsilon more of them take more
    # noise
    private_epochs: int = 12
    device: str = "cpu"
    grid: bool = False  # other k and n


# with `--model`, a masked model such as BERT: nothing is trained before the schemes
PRETRAINED_SIZES = {
    "real": Size(people=60, each=3, general=0, epochs=16, seeds=3, lr=1e-4, context=128),
    "gpu": Size(
        people=800,
        each=5,
        general=0,
        epochs=32,
        seeds=3,
        lr=5e-5,
        context=256,
        batch=32,
        device="cuda",
        grid=True,
    ),
}
SIZES = {
    "ci": Size(people=40, each=3, general=60, epochs=36, seeds=1),
    "cpu": Size(people=40, each=3, general=60, epochs=36, seeds=3, grid=True),
    "gpu": Size(
        people=800,
        each=5,
        general=4_000,
        epochs=32,
        seeds=3,
        vocab=8192,
        layers=6,
        width=384,
        heads=6,
        context=256,
        general_epochs=3,
        lr=5e-4,
        batch=32,
        device="cuda",
        grid=True,
    ),
}


def scheme_objectives(blacklist: Path) -> dict[str, dict[str, Any]]:
    """The paper's schemes as objectives."""
    settings = {"blacklist": str(blacklist)}
    return {
        "MLM": {"use": "masked"},
        "MLMA": {"use": "mlma", **settings},
        "DPPMLM": {"use": "ppmlm", "reasons": "direct", **settings},
        "IPPMLM": {"use": "ppmlm", "reasons": "indirect", **settings},
        "PPMLM": {"use": "ppmlm", **settings},
    }


# the baseline's setting in the paper; a record is one note
PRIVACY = {"epsilon": 8.0, "delta": 1e-5, "clip": 10.0}


@dataclass(frozen=True, repr=False)
class PersonCorpora:
    """The texts of members and of others, the training shards, and the blacklists of both
    graphs."""

    members: pa.Table
    others: pa.Table
    shards: Path
    blacklist_folder: Path  # over the members' texts; read by the trainings
    member_identifiers: IdentifierSets
    all_identifiers: IdentifierSets  # over all texts; known to the attack
    graphs: list[dict[str, Any]]  # share of listed words, by corpus


def build_corpora(
    folder: Path, size: Size, seed: int, arguments: argparse.Namespace
) -> PersonCorpora:
    """Generate or split the texts by person, and run the plan `blacklist` on them."""
    sources = {}
    if arguments.data is None:
        tables = {
            "members": notes(size.people, each=size.each, seed=seed),
            "others": notes(size.people, each=size.each, seed=seed, first=size.people),
        }
        columns = {"text_column": "text", "user_column": "user_id", "keep": "user_id"}
    else:
        tables = split_by_person(pq.read_table(arguments.data), seed, arguments)
        columns = {
            "text_column": "text",
            "user_column": arguments.user_column,
            "id_column": "doc_id",
            "keep": "user_id",
        }
    for name, table in tables.items():
        sources[name] = folder / "raw" / f"{name}.parquet"
        sources[name].parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, sources[name])

    def run_blacklist_plan(name: str, inputs: list[Path]) -> tuple[Path, Path, RunResult]:
        out = folder / name
        summary = run_with_settings(
            inputs, out, plan="blacklist", settings=Settings(**columns, seed=seed)
        )
        return out, blacklist_path(summary), summary

    shards, member_blacklist, _ = run_blacklist_plan("shards", [sources["members"]])
    all_shards, all_blacklist, _ = run_blacklist_plan(
        "everybody", [sources["members"], sources["others"]]
    )
    texts = read_texts(all_shards)
    is_member = pc.is_in(
        texts["doc_id"],
        value_set=sanitize.Corpus.open(shards).table(["doc_id"])["doc_id"].combine_chunks(),
    )
    members, others = texts.filter(is_member), texts.filter(pc.invert(is_member))
    member_identifiers, all_identifiers = (
        IdentifierSets.read(member_blacklist),
        IdentifierSets.read(all_blacklist),
    )
    graphs = [
        graph_row(members, member_identifiers, whose="members", seed=seed),
        graph_row(texts, all_identifiers, whose="everybody", seed=seed),
    ]
    if arguments.people and not seed:  # figure 3 is of a whole corpus
        corpus_file = folder / "raw" / "corpus.parquet"
        pq.write_table(select_columns(pq.read_table(arguments.data), arguments), corpus_file)
        corpus_shards, corpus_blacklist, _ = run_blacklist_plan("corpus", [corpus_file])
        graphs.append(
            graph_row(
                read_texts(corpus_shards),
                IdentifierSets.read(corpus_blacklist),
                whose="whole corpus",
                seed=seed,
            )
        )
    return PersonCorpora(
        members, others, shards, member_blacklist, member_identifiers, all_identifiers, graphs
    )


def read_texts(shards: Path) -> pa.Table:
    """The texts of shards, with their users."""
    return sanitize.Corpus.open(shards).table(["doc_id", "user_id", "text"])


def blacklist_path(summary: RunResult) -> Path:
    """The blacklist folder of a run."""
    return Path(summary.work) / "runs" / summary.run_hash / "vault" / "blacklist"


def split_by_person(
    table: pa.Table, seed: int, arguments: argparse.Namespace
) -> dict[str, pa.Table]:
    """Your own documents in two halves, all of a person's in the same; the columns that are needed,
    with an id."""
    table = sample_documents(select_columns(table, arguments), arguments.documents)
    users = table[arguments.user_column]
    halves = split_documents(
        pa.table({"doc_id": pc.unique(users)}), seed, {"members": 0.5, "others": 0.5}
    )
    found = {}
    for name, half in halves.items():
        chosen = (
            half["doc_id"].combine_chunks().slice(0, arguments.people)
            if arguments.people
            else half["doc_id"].combine_chunks()
        )
        found[name] = table.filter(pc.is_in(users, value_set=chosen))
    return found


def select_columns(table: pa.Table, arguments: argparse.Namespace) -> pa.Table:
    """The columns that are needed, with an id; the texts are called `text`."""
    ids = pa.array([str(number) for number in range(table.num_rows)])
    users = pc.fill_null(table[arguments.user_column].cast(pa.string()), "")
    return pa.table(
        {"doc_id": ids, "text": table[arguments.text_column], arguments.user_column: users}
    )


def make_recipe(
    data: Path,
    model: dict[str, Any],
    objective: dict[str, Any],
    size: Size,
    seed: int,
    *,
    epochs: int,
    every: float,
    **more: Any,
) -> dict[str, Any]:
    """A recipe for `train.fit`; `more` are further sections."""
    return {
        "data": {"path": str(data), "layout": "document"},
        "model": {"context": size.context, **model},
        "objective": objective,
        "run": {
            "seed": seed,
            "epochs": epochs,
            "batch": size.batch,
            "lr": size.lr,
            "schedule": "linear",
            "checkpoint_every": every,
            "device": size.device,
        },
        **more,
    }


@dataclass(frozen=True, repr=False)
class Audit:
    """Predictions of one checkpoint for the masked words of the members' texts, and of the others'
    if requested."""

    epoch: float
    members: pl.DataFrame
    others: pl.DataFrame | None = None


def audit_checkpoint(
    path: Path, epoch: float, corpora: PersonCorpora, size: Size, *, others: bool
) -> Audit:
    """Mask every word of every text once, and predict it."""
    model = LanguageModel.load(path, size.device)
    audits = [
        (
            identifiers.predict_hidden_words(
                model, table["text"].to_pylist(), table["doc_id"].to_pylist()
            )
            if wanted
            else None
        )
        for table, wanted in ((corpora.members, True), (corpora.others, others))
    ]
    assert audits[0] is not None
    return Audit(epoch, audits[0], audits[1])


def attack_scores(
    checkpoint_audit: Audit, corpora: PersonCorpora
) -> tuple[list[float], list[float]]:
    """The scores of members and of others: how many indirect identifiers of their own texts were
    predicted, anywhere."""
    assert checkpoint_audit.others is not None
    scores = []
    for table, audit in (
        (corpora.members, checkpoint_audit.members),
        (corpora.others, checkpoint_audit.others),
    ):
        own_identifiers = identifiers.find_own_identifiers(
            table["text"].to_pylist(),
            table["user_id"].to_pylist(),
            corpora.all_identifiers.indirect,
        )
        predicted = identifiers.count_identifiers(audit, corpora.all_identifiers.indirect)
        scores.append(
            list(membership.compute_membership_scores(own_identifiers, predicted).values())
        )
    return scores[0], scores[1]


@dataclass(frozen=True, repr=False)
class SeedResult:
    """Measurements of one seed: rows by scheme and epoch, the attack's scores by scheme, and
    further tables."""

    rows: list[dict[str, Any]]
    scores: dict[str, tuple[list[float], list[float]]]
    tables: dict[str, list[dict[str, Any]]]

    def last(self, scheme: str, what: str) -> float:
        """A value of a scheme's last checkpoint."""
        return float([row for row in self.rows if row["scheme"] == scheme][-1][what])


def run_seed(folder: Path, size: Size, seed: int, arguments: argparse.Namespace) -> SeedResult:
    """List, train the base and every scheme, audit, attack."""
    corpora = build_corpora(folder, size, seed, arguments)
    base = arguments.model or train_base_model(folder, size, seed, corpora, arguments)
    known = identifiers.count_identifiers(
        member_words(corpora), corpora.member_identifiers.combined, column="word"
    )
    ids = frozenset(known)  # listed identifiers that occur in the training cells
    base_audit = audit_checkpoint(base, 0.0, corpora, size, others=True)
    base_leaks = identifiers.count_identifiers(base_audit.members, ids)
    rows = [result_row("base", base_audit, corpora, ids, base_leaks)]
    scores = {"base": attack_scores(base_audit, corpora)}
    tables: dict[str, list[dict[str, Any]]] = {
        "regurgitation": [],
        "graph": corpora.graphs,
        "grid": [],
    }
    for name, objective in scheme_objectives(corpora.blacklist_folder).items():
        out = train_scheme(folder / name, corpora, base, objective, size, seed)
        checkpoints = out.trained_checkpoints
        for checkpoint in checkpoints:
            audit = audit_checkpoint(
                checkpoint.path,
                checkpoint.epoch,
                corpora,
                size,
                others=checkpoint is checkpoints[-1],
            )
            rows.append(result_row(name, audit, corpora, ids, base_leaks))
        scores[name] = attack_scores(audit, corpora)
        times = identifiers.count_identifiers(audit.members, ids)
        tables["regurgitation"] += [
            {"seed": seed, "scheme": name, **row}
            for row in identifiers.count_leaks_by_frequency(times, known)
        ]
    out = train_with_dp(folder / "DP", corpora, base, size, seed)
    audit = audit_checkpoint(
        out.final_checkpoint.path, out.final_checkpoint.epoch, corpora, size, others=True
    )
    rows.append(result_row("DP", audit, corpora, ids, base_leaks))
    scores["DP"] = attack_scores(audit, corpora)
    tables["private"] = [
        {
            "seed": seed,
            **{
                key: out.summary["privacy"][key]
                for key in ("epsilon", "delta", "sigma", "clip", "sampling_rate", "steps")
            },
        }
    ]
    if size.grid and not seed:  # one seed: four more trainings
        tables["grid"] = grid_rows(folder, corpora, base, size, seed)
    return SeedResult([{"seed": seed, **row} for row in rows], scores, tables)


def member_words(corpora: PersonCorpora) -> pl.DataFrame:
    """The members' words."""
    return identifiers.tokenize_words(corpora.members["text"].to_pylist())


def train_base_model(
    folder: Path, size: Size, seed: int, corpora: PersonCorpora, arguments: argparse.Namespace
) -> Path:
    """The base model. Generated: notes about further people; your own corpus: the texts of the
    others."""
    general = folder / "raw" / "general.parquet"
    texts = (
        notes(size.general, each=size.each, seed=seed, first=2 * size.people)
        if arguments.data is None
        else corpora.others
    )
    pq.write_table(texts, general)
    # everybody's words are in the tokenizer, as a large model's tokenizer knows most names in one
    # or two pieces; and with names of other lengths in general notes than in the members', absolute
    # places would carry nothing over from the base model
    tokenizer = {
        "vocab": size.vocab,
        "corpus": str(general.parent if arguments.data is None else folder / "everybody"),
    }
    architecture = {
        "arch": "bert",
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "dropout": 0.0,
    }
    run_recipe = make_recipe(
        general,
        architecture,
        {"use": "masked"},
        size,
        seed,
        epochs=size.general_epochs,
        every=0,
        tokenizer=tokenizer,
    )
    train.fit(run_recipe, folder / "base")
    return RunFolder.open(folder / "base").final_checkpoint.path


def train_scheme(
    folder: Path,
    corpora: PersonCorpora,
    base: Path,
    objective: dict[str, Any],
    size: Size,
    seed: int,
) -> RunFolder:
    """The run of a scheme; four checkpoints correspond to the paper's after 4, 8, 16 and 32
    epochs."""
    model = {"path": str(base), "dropout": 0.0}
    train.fit(
        make_recipe(
            corpora.shards, model, objective, size, seed, epochs=size.epochs, every=size.epochs / 4
        ),
        folder,
    )
    return RunFolder.open(folder)


def train_with_dp(
    folder: Path, corpora: PersonCorpora, base: Path, size: Size, seed: int
) -> RunFolder:
    """The run of the DP baseline: the plain objective by DP-SGD. Its draws follow from the seed, so
    that the table is reproducible."""
    model = {"path": str(base), "dropout": 0.0}
    table = make_recipe(
        corpora.shards, model, {"use": "masked"}, size, seed, epochs=size.private_epochs, every=0
    )
    table["privacy"] = {**PRIVACY, "insecure_seed": seed}
    train.fit(table, folder)
    return RunFolder.open(folder)


def result_row(
    scheme: str, audit: Audit, corpora: PersonCorpora, ids: frozenset[str], base_leaks: Any
) -> dict[str, Any]:
    """Privacy, leaks and utility of one checkpoint."""
    predicted = identifiers.count_identifiers(audit.members, ids)
    result = identifiers.compute_privacy(predicted, ids, base_leaked=base_leaks)
    row: dict[str, Any] = {
        "scheme": scheme,
        "epoch": audit.epoch,
        "privacy": result.gross,
        "privacy_net": result.net,
    }
    for reason, half in (
        ("direct", corpora.member_identifiers.direct & ids),
        ("indirect", corpora.member_identifiers.indirect & ids),
    ):
        row[f"leaked_{reason}"] = len(half & predicted.keys()) / len(half) if half else 0.0
    accuracy = identifiers.compute_word_accuracy(audit.members, ids)
    row |= {"own_eligible": accuracy["eligible"], "own_all": accuracy["all"]}
    if audit.others is not None:
        accuracy = identifiers.compute_word_accuracy(audit.others, corpora.all_identifiers.combined)
        row |= {"held_eligible": accuracy["eligible"], "held_all": accuracy["all"]}
    return row


def graph_row(
    table: pa.Table, identifier_sets: IdentifierSets, *, whose: str, seed: int
) -> dict[str, Any]:
    """Share of listed words in these texts: of the distinct words, and of all words (figure 3)."""
    words = identifiers.tokenize_words(table["text"].to_pylist())
    single = words.filter(
        pl.col("word").is_in([one for one in identifier_sets.indirect if " " not in one])
    )
    return {
        "seed": seed,
        "whose": whose,
        "documents": table.num_rows,
        "people": len(set(table["user_id"].to_pylist())),
        "words": words["word"].n_unique(),
        "occurrences": words.height,
        "words_listed": single["word"].n_unique() / max(words["word"].n_unique(), 1),
        "occurrences_listed": single.height / max(words.height, 1),
        "occurrences_protected": float(
            identifiers.mark_covered_words(words, identifier_sets.combined).mean() or 0.0
        ),  # type: ignore[arg-type]
        "direct": len(identifier_sets.direct),
        "indirect": len(identifier_sets.indirect),
    }


def grid_rows(
    folder: Path, corpora: PersonCorpora, base: Path, size: Size, seed: int
) -> list[dict[str, Any]]:
    """PPMLM with other k and n: share of listed words, and how many identifiers PPMLM and the plain
    model predict (appendices B and C)."""
    rows = []
    mlm_audit = identifiers.predict_hidden_words(
        LanguageModel.load(RunFolder.open(folder / "MLM").final_checkpoint.path, size.device),
        *texts_and_ids(corpora.members),
    )
    for k, n in ((3, 1), (5, 1), (2, 2), (2, 3)):
        plan = load_plan("blacklist", [f"blacklist.k={k}", f"blacklist.n={n}"])
        summary = run_with_settings(
            [folder / "shards" / "data"],
            folder / f"k{k}n{n}",
            plan=plan,
            settings=Settings(**KEPT, seed=seed),
        )
        identifier_sets = IdentifierSets.read(blacklist_path(summary))
        out = train_scheme(
            folder / f"PPMLM-k{k}n{n}",
            corpora,
            base,
            {"use": "ppmlm", "blacklist": str(blacklist_path(summary))},
            size,
            seed,
        )
        audit = identifiers.predict_hidden_words(
            LanguageModel.load(out.final_checkpoint.path, size.device),
            *texts_and_ids(corpora.members),
        )
        ids = frozenset(
            identifiers.count_identifiers(
                member_words(corpora), identifier_sets.combined, column="word"
            )
        )
        row = {
            "k": k,
            "n": n,
            **graph_row(corpora.members, identifier_sets, whose="members", seed=seed),
            "identifiers": len(ids),
        }
        row["privacy_ppmlm"] = identifiers.compute_privacy(
            identifiers.count_identifiers(audit, ids), ids
        ).gross
        row["privacy_mlm"] = identifiers.compute_privacy(
            identifiers.count_identifiers(mlm_audit, ids), ids
        ).gross
        rows.append(
            {**row, "own_eligible": identifiers.compute_word_accuracy(audit, ids)["eligible"]}
        )
    return rows


KEPT = {
    "text_column": ("text",),
    "user_column": "user_id",
    "id_column": "doc_id",
    "keep": ["user_id"],
}


def texts_and_ids(table: pa.Table) -> tuple[list[str], list[str]]:
    """Texts and ids."""
    return table["text"].to_pylist(), table["doc_id"].to_pylist()


def criteria(
    seeds: Sequence[SeedResult],
) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons, means over the seeds; and the tables they are read from."""

    def mean(scheme: str, what: str) -> float:
        return float(np.mean([seed.last(scheme, what) for seed in seeds]))

    privacy = {name: mean(name, "privacy") for name in ("MLM", "MLMA", "DPPMLM", "IPPMLM", "PPMLM")}
    utility = mean("MLM", "held_eligible") - mean("DP", "held_eligible")
    # of the largest corpus read
    graph = max(
        (row for seed in seeds for row in seed.tables["graph"]), key=lambda row: row["documents"]
    )
    attacks = {}
    for name in seeds[0].scores:
        inside, outside = (
            [score for seed in seeds for score in seed.scores[name][which]] for which in (0, 1)
        )
        attacks[name] = membership.summarize_membership(inside, outside)
    privacy_series = [
        [row["privacy"] for row in seed.rows if row["scheme"] == "PPMLM"] for seed in seeds
    ]
    first_privacy = float(
        np.mean(
            [next(row["privacy"] for row in seed.rows if row["scheme"] == "MLM") for seed in seeds]
        )
    )
    found = {
        "privacy_ppmlm": Criterion(value=privacy["PPMLM"], paper=0.99, threshold=0.97),
        "privacy_gap_mlm": Criterion(
            value=privacy["PPMLM"] - privacy["MLM"],
            paper=0.07,
            threshold=0.03,
            note=f"MLM guesses {100 * mean('MLM', 'own_all'):.0f} % of the hidden words of its own texts; who learns little leaks little",  # noqa: E501
        ),
        "mlma_between": Criterion(
            value=min(privacy["MLMA"] - privacy["MLM"], privacy["PPMLM"] - privacy["MLMA"]),
            paper=0.02,
            threshold=0.005,
            note="the smaller of MLMA's two distances, from MLM below and from PPMLM above",
        ),
        "utility_gap": Criterion(
            value=mean("MLM", "held_eligible") - mean("PPMLM", "held_eligible"),
            paper=0.0,
            threshold=0.03,
            above=False,
            note="share of hidden words guessed right, words that no identifier covers in texts of people nobody trained on",  # noqa: E501
        ),
        "utility_gap_all_words": Criterion(
            value=mean("MLM", "held_all") - mean("PPMLM", "held_all"),
            paper=0.0,
            threshold=0.03,
            above=False,
            headline=False,
        ),
        "mlma_loses_utility": Criterion(
            value=mean("MLM", "held_eligible") - mean("MLMA", "held_eligible"),
            paper=0.04,
            threshold=0.01,
            headline=False,
            note="the paper's loss comes from contexts without names; template slots here do not hang on them",  # noqa: E501
        ),
        "privacy_net_ppmlm": Criterion(
            value=mean("PPMLM", "privacy_net"), paper="not measured", threshold=0.97, headline=False
        ),
        "privacy_falls_mlm": Criterion(
            value=first_privacy - privacy["MLM"],
            paper=0.05,
            threshold=0.01,
            headline=False,
            note="first to last checkpoint",
        ),
        "privacy_flat_ppmlm": Criterion(
            value=max(max(one) - min(one) for one in privacy_series),
            paper=0.0,
            threshold=0.02,
            above=False,
            headline=False,
        ),
        "direct_only_above_mlm": Criterion(
            value=privacy["DPPMLM"] - privacy["MLM"],
            paper="a little",
            threshold=0.0,
            headline=False,
        ),
        "indirect_only_above_direct_only": Criterion(
            value=privacy["IPPMLM"] - privacy["DPPMLM"], paper="much", threshold=0.0, headline=False
        ),
        "words_listed": Criterion(
            value=graph["words_listed"],
            paper=0.60,
            threshold=0.50,
            headline=False,
            note=f"share of the {graph['words']:,} distinct words that one person alone wrote (figure 3), of {graph['people']:,} people",  # noqa: E501
        ),
        "occurrences_listed": Criterion(
            value=graph["occurrences_listed"],
            paper=0.03,
            threshold=0.05,
            above=False,
            headline=False,
            note=f"their share of all {graph['occurrences']:,} words that stand there; short texts of few people have more",  # noqa: E501
        ),
        "utility_loss_dp": Criterion(
            value=utility,
            paper="0.3 to 0.6",
            threshold=0.1,
            headline=False,
            note=f"DP-SGD at epsilon {PRIVACY['epsilon']:g}, clip {PRIVACY['clip']:g}: {mean('DP', 'held_eligible'):.3f}; the base model "  # noqa: E501
            f"has {mean('base', 'held_eligible'):.3f} before it reads a note: with so few records the noise takes more than is learned",  # noqa: E501
        ),
        "privacy_dp": Criterion(
            value=mean("DP", "privacy"), paper=0.98, threshold=0.97, headline=False
        ),
        "mia_auc_mlm": Criterion(
            value=attacks["MLM"]["auc"], paper="0.31 TPR at 1 % FPR", threshold=0.65, headline=False
        ),
        "mia_auc_mlma": Criterion(
            value=attacks["MLMA"]["auc"],
            paper="0.27 TPR at 1 % FPR",
            threshold=0.65,
            headline=False,
        ),
        "mia_auc_ppmlm": Criterion(
            value=attacks["PPMLM"]["auc"],
            paper="0.02 TPR at 1 % FPR",
            threshold=0.58,
            above=False,
            headline=False,
        ),
    }
    tables = {
        name: [row for seed in seeds for row in seed.tables[name]] for name in seeds[0].tables
    }
    return found, {
        "schemes": [row for seed in seeds for row in seed.rows],
        "attack": [{"scheme": name, **row} for name, row in attacks.items()],
        **tables,
    }


def choose_size(arguments: argparse.Namespace) -> Size:
    """The sizes of the options; UsageError or InputRefused for a model without its size, a size
    without its model, or a causal model."""
    if arguments.model is None:
        if arguments.size == "real":
            raise UsageError(
                "--size real needs a pretrained masked model such as BERT: --model PATH (none ships"
                " inside a package)"
            )
        return SIZES[arguments.size]
    if arguments.size not in PRETRAINED_SIZES:
        raise UsageError(
            f"--model with --size {arguments.size}: expected --size {' or '.join(PRETRAINED_SIZES)}"
        )
    if not (arguments.model / "config.json").is_file():
        raise InputRefused(
            f"--model {arguments.model}: no model in Hugging Face layout; expected a local folder"
            " with config.json"
        )
    if LanguageModel.load(arguments.model).is_causal:
        raise InputRefused(
            f"--model {arguments.model}: is a causal model, which cannot fill masks; expected a"
            " masked one such as BERT"
        )
    arguments.model = arguments.model.resolve()
    return PRETRAINED_SIZES[arguments.size]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = make_parser(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--user-column", default="user_id", help="with --data: whose document it is"
    )
    parser.add_argument(
        "--people",
        type=int,
        default=None,
        help="with --data: at most so many members and so many others",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=None,
        help="of each training, the base model's too (default: by size)",
    )
    parser.add_argument(
        "--lr",
        type=float,
        default=None,
        help="learning rate (default: by size, for invented texts)",
    )
    arguments = parser.parse_args(argv)
    size, began = choose_size(arguments), time.perf_counter()
    if arguments.epochs is not None:
        size = replace(size, epochs=arguments.epochs, general_epochs=arguments.epochs)
    if arguments.lr is not None:
        size = replace(size, lr=arguments.lr)
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores slow each other down
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.dir or scratch)
        seeds = [
            run_seed(folder / f"seed-{seed}", size, seed, arguments)
            for seed in range(arguments.seeds or size.seeds)
        ]
        found, tables = criteria(seeds)
        found = with_intervals(
            found, compute_seed_intervals([criteria([seed])[0] for seed in seeds])
        )
    members = seeds[0].tables["graph"][0]
    model = (
        f"BERT of {size.layers} layers and width {size.width} from scratch"
        if arguments.model is None
        else arguments.model.name
    )
    scaled = (
        f"{model}, {members['people']} people with {members['documents']} texts, {size.epochs}"
        f" epochs, {len(seeds)} seeds; the paper specialises models of 66 to 340 million parameters"
        " on 928 reports for up to 32 epochs."
    )
    return report_criteria(
        "ppmlm", arguments, found, tables=tables, scaled=scaled, seconds=time.perf_counter() - began
    )


if __name__ == "__main__":
    run_script(main)
