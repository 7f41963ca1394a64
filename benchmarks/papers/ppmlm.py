"""Masked language modelling that never asks for identifiers: what a model says of the people it read about, by scheme.

`sanitize run --plan blacklist` lists what was found (telephone numbers, mail addresses) and the words that one person alone wrote. A
small BERT that has read notes about further people is specialised on the notes of some: on all words (MLM), on texts with an X for what was
found (MLMA), never on a listed word (PPMLM), with one half of the list (DPPMLM, IPPMLM), and on all words by DP-SGD (DP). The audit hides
every word of every note once. Utility is the share of hidden words guessed right in notes of people whom no model read about; they are the
attack's non-members, too.
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
from benchmarks.criteria import Criterion, finish, options, some, split
from benchmarks.papers_texts import notes
from sanitize import train
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics import identifiers, membership
from sanitize.eval.metrics.identifiers import IdentifierSets
from sanitize.eval.run_folder import RunFolder
from sanitize.readers.survey import Roles


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is."""

    people: int  # members, and as many others
    each: int  # notes a person
    general: int  # people that the base model has read about
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
    private_epochs: int = 12  # of DP-SGD, whose steps cost several plain ones; at a fixed epsilon more of them take more noise
    device: str = "cpu"
    grid: bool = False  # other k and n


SIZES = {
    "ci": Size(people=40, each=3, general=60, epochs=36, seeds=1),
    "cpu": Size(people=40, each=3, general=60, epochs=36, seeds=3, grid=True),
    "gpu": Size(
        people=800, each=5, general=4_000, epochs=32, seeds=3, vocab=8192, layers=6, width=384, heads=6, context=256,
        general_epochs=3, lr=5e-4, batch=32, device="cuda", grid=True,
    ),
}  # fmt: skip


def schemes(blacklist: Path) -> dict[str, dict[str, Any]]:
    """The paper's schemes as objectives."""
    told = {"blacklist": str(blacklist)}
    return {
        "MLM": {"use": "masked"},
        "MLMA": {"use": "mlma", **told},
        "DPPMLM": {"use": "ppmlm", "reasons": "direct", **told},
        "IPPMLM": {"use": "ppmlm", "reasons": "indirect", **told},
        "PPMLM": {"use": "ppmlm", **told},
    }


# the baseline's setting in the paper; a record is one note
PRIVACY = {"epsilon": 8.0, "delta": 1e-5, "clip": 10.0}


@dataclass(frozen=True, repr=False)
class People:
    """The texts of members and of others, the shards that are trained on, and the blacklists of both graphs."""

    members: pa.Table
    others: pa.Table
    shards: Path
    listed: Path  # over the members' texts: what a training reads
    black: IdentifierSets
    union: IdentifierSets  # over everybody's texts: what the attack knows
    graphs: list[dict[str, Any]]  # how much is listed, of whose texts


def people(folder: Path, size: Size, seed: int, asked: argparse.Namespace) -> People:
    """Generate or split the texts by person, and have them listed by the plan `blacklist`."""
    sources = {}
    if asked.data is None:
        tables = {
            "members": notes(size.people, each=size.each, seed=seed),
            "others": notes(size.people, each=size.each, seed=seed, first=size.people),
        }
        roles = Roles(text=("text",), user="user_id")
    else:
        tables = by_person(pq.read_table(asked.data), seed, asked)
        roles = Roles(text=(asked.text_column,), user=asked.user_column, id="doc_id")
    for name, table in tables.items():
        sources[name] = folder / "raw" / f"{name}.parquet"
        sources[name].parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, sources[name])
    columns = sanitize.Columns(roles=roles, policies={"user_id": "keep"})

    def listed(name: str, inputs: list[Path]) -> tuple[Path, Path, dict[str, Any]]:
        out = folder / name
        told = sanitize.run(inputs, out, plan="blacklist", settings=sanitize.Settings(columns=columns, seed=seed))
        return out, blacklist_of(told), told

    shards, black, _ = listed("shards", [sources["members"]])
    everybody, union, _ = listed("everybody", [sources["members"], sources["others"]])
    texts = read_of(everybody)
    inside = pc.is_in(texts["doc_id"], value_set=sanitize.Corpus.open(shards).table(["doc_id"])["doc_id"].combine_chunks())
    members, others = texts.filter(inside), texts.filter(pc.invert(inside))
    mine, all_of_them = IdentifierSets.read(black), IdentifierSets.read(union)
    graphs = [graph_row(members, mine, whose="members", seed=seed), graph_row(texts, all_of_them, whose="everybody", seed=seed)]
    if asked.people and not seed:  # figure 3 is of a whole corpus
        whole = folder / "raw" / "corpus.parquet"
        pq.write_table(slim(pq.read_table(asked.data), asked), whole)
        corpus, black_of_corpus, _ = listed("corpus", [whole])
        graphs.append(graph_row(read_of(corpus), IdentifierSets.read(black_of_corpus), whose="whole corpus", seed=seed))
    return People(members, others, shards, black, mine, all_of_them, graphs)


def read_of(shards: Path) -> pa.Table:
    """The texts of shards, with whose they are."""
    return sanitize.Corpus.open(shards).table(["doc_id", "user_id", "text"])


def blacklist_of(told: dict[str, Any]) -> Path:
    """Where a run left its blacklist."""
    return Path(told["work"]) / "runs" / told["plan_hash"] / "vault" / "blacklist"


def by_person(table: pa.Table, seed: int, asked: argparse.Namespace) -> dict[str, pa.Table]:
    """Your own documents in two halves, all of a person's in the same; the columns that are needed, with an id."""
    table = some(slim(table, asked), asked.documents)
    users = table[asked.user_column]
    halves = split(pa.table({"doc_id": pc.unique(users)}), seed, {"members": 0.5, "others": 0.5})
    found = {}
    for name, half in halves.items():
        chosen = half["doc_id"].combine_chunks().slice(0, asked.people) if asked.people else half["doc_id"].combine_chunks()
        found[name] = table.filter(pc.is_in(users, value_set=chosen))
    return found


def slim(table: pa.Table, asked: argparse.Namespace) -> pa.Table:
    """The columns that are needed, with an id."""
    ids = pa.array([str(number) for number in range(table.num_rows)])
    users = pc.fill_null(table[asked.user_column].cast(pa.string()), "")
    return pa.table({"doc_id": ids, asked.text_column: table[asked.text_column], asked.user_column: users})


def recipe(
    data: Path, model: dict[str, Any], objective: dict[str, Any], size: Size, seed: int, *, epochs: int, every: float, **more: Any
) -> dict[str, Any]:
    """A recipe for `train.fit`; `more` are further sections."""
    return {
        "data": {"path": str(data), "layout": "document"},
        "model": {"context": size.context, **model},
        "objective": objective,
        "run": {
            "seed": seed, "epochs": epochs, "batch": size.batch, "lr": size.lr, "schedule": "linear", "checkpoint_every": every,
            "device": size.device,
        },
        **more,
    }  # fmt: skip


@dataclass(frozen=True, repr=False)
class Told:
    """What one checkpoint says: the audit of the members' texts, and of the others' where it was asked for."""

    epoch: float
    members: pl.DataFrame
    others: pl.DataFrame | None = None


def audited(checkpoint: Any, them: People, size: Size, *, others: bool) -> Told:
    """Hide every word of every text once."""
    model = LanguageModel.load(checkpoint.path, size.device)
    read = [
        identifiers.predict_hidden_words(model, table["text"].to_pylist(), table["doc_id"].to_pylist()) if wanted else None
        for table, wanted in ((them.members, True), (them.others, others))
    ]
    assert read[0] is not None
    return Told(checkpoint.epoch, read[0], read[1])


def attack(told: Told, them: People) -> tuple[list[float], list[float]]:
    """The scores of members and of others: how many of the indirect identifiers of their own texts were said, anywhere."""
    assert told.others is not None
    scores = []
    for table, audit in ((them.members, told.members), (them.others, told.others)):
        own = identifiers.find_own_identifiers(table["text"].to_pylist(), table["user_id"].to_pylist(), them.union.indirect)
        said = identifiers.count_identifiers(audit, them.union.indirect)
        scores.append(list(membership.compute_membership_scores(own, said).values()))
    return scores[0], scores[1]


@dataclass(frozen=True, repr=False)
class Seed:
    """What was measured of one seed: rows by scheme and epoch, the attack's scores by scheme, and further tables."""

    rows: list[dict[str, Any]]
    scores: dict[str, tuple[list[float], list[float]]]
    tables: dict[str, list[dict[str, Any]]]

    def last(self, scheme: str, what: str) -> float:
        """A value of a scheme's last checkpoint."""
        return float([row for row in self.rows if row["scheme"] == scheme][-1][what])


def one_seed(folder: Path, size: Size, seed: int, asked: argparse.Namespace) -> Seed:
    """List, train the base and every scheme, audit, attack."""
    them = people(folder, size, seed, asked)
    base = general_model(folder, size, seed, them, asked)
    known = identifiers.count_identifiers(them_words(them), them.black.combined, column="word")
    ids = frozenset(known)  # of the list, what stands in the cells that are trained on
    start = audited(RunFolder.open(base).final_checkpoint, them, size, others=True)
    guessed = identifiers.count_identifiers(start.members, ids)
    rows = [row_of("base", start, them, ids, guessed)]
    scores = {"base": attack(start, them)}
    tables: dict[str, list[dict[str, Any]]] = {"regurgitation": [], "graph": them.graphs, "grid": []}
    for name, objective in schemes(them.listed).items():
        out = specialised(folder / name, them, base, objective, size, seed)
        checkpoints = out.trained_checkpoints
        for checkpoint in checkpoints:
            told = audited(checkpoint, them, size, others=checkpoint is checkpoints[-1])
            rows.append(row_of(name, told, them, ids, guessed))
        scores[name] = attack(told, them)
        times = identifiers.count_identifiers(told.members, ids)
        tables["regurgitation"] += [{"seed": seed, "scheme": name, **row} for row in identifiers.count_leaks_by_frequency(times, known)]
    out = private(folder / "DP", them, base, size, seed)
    told = audited(out.final_checkpoint, them, size, others=True)
    rows.append(row_of("DP", told, them, ids, guessed))
    scores["DP"] = attack(told, them)
    tables["private"] = [
        {"seed": seed, **{key: out.summary["privacy"][key] for key in ("epsilon", "delta", "sigma", "clip", "sampling_rate", "steps")}}
    ]
    if size.grid and not seed:  # one seed: four more trainings
        tables["grid"] = grid(folder, them, base, size, seed)
    return Seed([{"seed": seed, **row} for row in rows], scores, tables)


def them_words(them: People) -> pl.DataFrame:
    """The members' words."""
    return identifiers.tokenize_words(them.members["text"].to_pylist())


def general_model(folder: Path, size: Size, seed: int, them: People, asked: argparse.Namespace) -> Path:
    """The run of the base model. Generated: notes about further people; your own corpus: the texts of the others."""
    general = folder / "raw" / "general.parquet"
    known = notes(size.general, each=size.each, seed=seed, first=2 * size.people) if asked.data is None else them.others
    pq.write_table(known, general)
    # everybody's words are in the tokenizer, as a large model's tokenizer knows most names in one or two pieces; and with names of other
    # lengths in general notes than in the members', absolute places would carry nothing over from the base model
    tokenizer = {"vocab": size.vocab, "corpus": str(general.parent if asked.data is None else folder / "everybody")}
    made = {"arch": "bert", "layers": size.layers, "width": size.width, "heads": size.heads, "dropout": 0.0}
    told = recipe(general, made, {"use": "masked"}, size, seed, epochs=size.general_epochs, every=0, tokenizer=tokenizer)
    train.fit(told, folder / "base")
    return folder / "base"


def specialised(folder: Path, them: People, base: Path, objective: dict[str, Any], size: Size, seed: int) -> RunFolder:
    """The run of a scheme; four checkpoints stand for the paper's after 4, 8, 16 and 32 epochs."""
    model = {"path": str(RunFolder.open(base).final_checkpoint.path), "dropout": 0.0}
    train.fit(recipe(them.shards, model, objective, size, seed, epochs=size.epochs, every=size.epochs / 4), folder)
    return RunFolder.open(folder)


def private(folder: Path, them: People, base: Path, size: Size, seed: int) -> RunFolder:
    """The run of the DP baseline: the plain objective by DP-SGD. Its draws follow from the seed, so that the table can be made again."""
    model = {"path": str(RunFolder.open(base).final_checkpoint.path), "dropout": 0.0}
    table = recipe(them.shards, model, {"use": "masked"}, size, seed, epochs=size.private_epochs, every=0)
    table["privacy"] = {**PRIVACY, "insecure_seed": seed}
    train.fit(table, folder)
    return RunFolder.open(folder)


def row_of(scheme: str, told: Told, them: People, ids: frozenset[str], guessed: Any) -> dict[str, Any]:
    """Privacy, leaks and utility of one checkpoint."""
    said = identifiers.count_identifiers(told.members, ids)
    result = identifiers.compute_privacy(said, ids, base_leaked=guessed)
    row: dict[str, Any] = {"scheme": scheme, "epoch": told.epoch, "privacy": result.gross, "privacy_net": result.net}
    for reason, half in (("direct", them.black.direct & ids), ("indirect", them.black.indirect & ids)):
        row[f"leaked_{reason}"] = len(half & said.keys()) / len(half) if half else 0.0
    accuracy = identifiers.compute_word_accuracy(told.members, ids)
    row |= {"own_eligible": accuracy["eligible"], "own_all": accuracy["all"]}
    if told.others is not None:
        accuracy = identifiers.compute_word_accuracy(told.others, them.union.combined)
        row |= {"held_eligible": accuracy["eligible"], "held_all": accuracy["all"]}
    return row


def graph_row(table: pa.Table, black: IdentifierSets, *, whose: str, seed: int) -> dict[str, Any]:
    """How much of the words of these texts is listed: of distinct words, and of all that stand there (figure 3)."""
    words = identifiers.tokenize_words(table["text"].to_pylist())
    single = words.filter(pl.col("word").is_in([one for one in black.indirect if " " not in one]))
    return {
        "seed": seed,
        "whose": whose,
        "documents": table.num_rows,
        "people": len(set(table["user_id"].to_pylist())),
        "words": words["word"].n_unique(),
        "occurrences": words.height,
        "words_listed": single["word"].n_unique() / max(words["word"].n_unique(), 1),
        "occurrences_listed": single.height / max(words.height, 1),
        "occurrences_protected": float(identifiers.mark_covered_words(words, black.combined).mean() or 0.0),  # type: ignore[arg-type]
        "direct": len(black.direct),
        "indirect": len(black.indirect),
    }


def grid(folder: Path, them: People, base: Path, size: Size, seed: int) -> list[dict[str, Any]]:
    """PPMLM with other k and n: how much is listed, and what is said of it by PPMLM and by the plain model (appendices B and C)."""
    rows = []
    plain = identifiers.predict_hidden_words(
        LanguageModel.load(RunFolder.open(folder / "MLM").final_checkpoint.path, size.device), *texts_of(them.members)
    )
    for k, n in ((3, 1), (5, 1), (2, 2), (2, 3)):
        plan = sanitize.load_plan("blacklist", [f"blacklist.k={k}", f"blacklist.n={n}"])
        told = sanitize.run(
            [folder / "shards" / "data"], folder / f"k{k}n{n}", plan=plan, settings=sanitize.Settings(columns=KEPT, seed=seed)
        )
        black = IdentifierSets.read(blacklist_of(told))
        out = specialised(folder / f"PPMLM-k{k}n{n}", them, base, {"use": "ppmlm", "blacklist": str(blacklist_of(told))}, size, seed)
        audit = identifiers.predict_hidden_words(LanguageModel.load(out.final_checkpoint.path, size.device), *texts_of(them.members))
        ids = frozenset(identifiers.count_identifiers(them_words(them), black.combined, column="word"))
        row = {"k": k, "n": n, **graph_row(them.members, black, whose="members", seed=seed), "identifiers": len(ids)}
        row["privacy_ppmlm"] = identifiers.compute_privacy(identifiers.count_identifiers(audit, ids), ids).gross
        row["privacy_mlm"] = identifiers.compute_privacy(identifiers.count_identifiers(plain, ids), ids).gross
        rows.append({**row, "own_eligible": identifiers.compute_word_accuracy(audit, ids)["eligible"]})
    return rows


KEPT = sanitize.Columns(roles=Roles(text=("text",), user="user_id", id="doc_id"), policies={"user_id": "keep"})


def texts_of(table: pa.Table) -> tuple[list[str], list[str]]:
    """Texts and ids."""
    return table["text"].to_pylist(), table["doc_id"].to_pylist()


def criteria(seeds: Sequence[Seed]) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons, means over the seeds; and the tables they are read from."""

    def mean(scheme: str, what: str) -> float:
        return float(np.mean([seed.last(scheme, what) for seed in seeds]))

    privacy = {name: mean(name, "privacy") for name in ("MLM", "MLMA", "DPPMLM", "IPPMLM", "PPMLM")}
    utility = mean("MLM", "held_eligible") - mean("DP", "held_eligible")
    whole = max((row for seed in seeds for row in seed.tables["graph"]), key=lambda row: row["documents"])  # of the largest corpus read
    attacks = {}
    for name in seeds[0].scores:
        inside, outside = ([score for seed in seeds for score in seed.scores[name][which]] for which in (0, 1))
        attacks[name] = membership.summarize_membership(inside, outside)
    course = [[row["privacy"] for row in seed.rows if row["scheme"] == "PPMLM"] for seed in seeds]
    first = float(np.mean([next(row["privacy"] for row in seed.rows if row["scheme"] == "MLM") for seed in seeds]))
    told = {
        "privacy_ppmlm": Criterion(value=privacy["PPMLM"], paper=0.99, threshold=0.97),
        "privacy_gap_mlm": Criterion(
            value=privacy["PPMLM"] - privacy["MLM"], paper=0.07, threshold=0.03,
            note=f"MLM guesses {100 * mean('MLM', 'own_all'):.0f} % of the hidden words of its own texts; who learns little leaks little",
        ),
        "mlma_between": Criterion(
            value=min(privacy["MLMA"] - privacy["MLM"], privacy["PPMLM"] - privacy["MLMA"]), paper=0.02, threshold=0.005,
            note="the smaller of MLMA's two distances, from MLM below and from PPMLM above",
        ),
        "utility_gap": Criterion(
            value=mean("MLM", "held_eligible") - mean("PPMLM", "held_eligible"), paper=0.0, threshold=0.03, above=False,
            note="share of hidden words guessed right, words that no identifier covers in texts of people nobody trained on",
        ),
        "utility_gap_all_words": Criterion(
            value=mean("MLM", "held_all") - mean("PPMLM", "held_all"), paper=0.0, threshold=0.03, above=False, headline=False
        ),
        "mlma_loses_utility": Criterion(
            value=mean("MLM", "held_eligible") - mean("MLMA", "held_eligible"), paper=0.04, threshold=0.01, headline=False,
            note="the paper's loss comes from contexts without names; template slots here do not hang on them",
        ),
        "privacy_net_ppmlm": Criterion(value=mean("PPMLM", "privacy_net"), paper="not measured", threshold=0.97, headline=False),
        "privacy_falls_mlm": Criterion(
            value=first - privacy["MLM"], paper=0.05, threshold=0.01, headline=False, note="first to last checkpoint"
        ),
        "privacy_flat_ppmlm": Criterion(
            value=max(max(one) - min(one) for one in course), paper=0.0, threshold=0.02, above=False, headline=False
        ),
        "direct_only_above_mlm": Criterion(value=privacy["DPPMLM"] - privacy["MLM"], paper="a little", threshold=0.0, headline=False),
        "indirect_only_above_direct_only": Criterion(
            value=privacy["IPPMLM"] - privacy["DPPMLM"], paper="much", threshold=0.0, headline=False
        ),
        "words_listed": Criterion(
            value=whole["words_listed"], paper=0.60, threshold=0.50, headline=False,
            note=f"share of the {whole['words']:,} distinct words that one person alone wrote (figure 3), of {whole['people']:,} people",
        ),
        "occurrences_listed": Criterion(
            value=whole["occurrences_listed"], paper=0.03, threshold=0.05, above=False, headline=False,
            note=f"their share of all {whole['occurrences']:,} words that stand there; short texts of few people have more",
        ),
        "utility_loss_dp": Criterion(
            value=utility, paper="0.3 to 0.6", threshold=0.1, headline=False,
            note=f"DP-SGD at epsilon {PRIVACY['epsilon']:g}, clip {PRIVACY['clip']:g}: {mean('DP', 'held_eligible'):.3f}; the base model "
            f"has {mean('base', 'held_eligible'):.3f} before it reads a note: with so few records the noise takes more than is learned",
        ),
        "privacy_dp": Criterion(value=mean("DP", "privacy"), paper=0.98, threshold=0.97, headline=False),
        "mia_auc_mlm": Criterion(value=attacks["MLM"]["auc"], paper="0.31 TPR at 1 % FPR", threshold=0.65, headline=False),
        "mia_auc_mlma": Criterion(value=attacks["MLMA"]["auc"], paper="0.27 TPR at 1 % FPR", threshold=0.65, headline=False),
        "mia_auc_ppmlm": Criterion(value=attacks["PPMLM"]["auc"], paper="0.02 TPR at 1 % FPR", threshold=0.58, above=False, headline=False),
    }  # fmt: skip
    tables = {name: [row for seed in seeds for row in seed.tables[name]] for name in seeds[0].tables}
    return told, {
        "schemes": [row for seed in seeds for row in seed.rows],
        "attack": [{"scheme": name, **row} for name, row in attacks.items()],
        **tables,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = options(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--user-column", default="user_id", help="with --data: whose document it is")
    parser.add_argument("--people", type=int, default=None, help="with --data: at most so many members and so many others")
    parser.add_argument("--epochs", type=int, default=None, help="of each training, the base model's too (default: by size)")
    parser.add_argument("--lr", type=float, default=None, help="learning rate (default: by size, for invented texts)")
    asked = parser.parse_args(argv)
    size, began = SIZES[asked.size], time.perf_counter()
    if asked.epochs is not None:
        size = replace(size, epochs=asked.epochs, general_epochs=asked.epochs)
    if asked.lr is not None:
        size = replace(size, lr=asked.lr)
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores wait for each other
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(asked.dir or scratch)
        seeds = [one_seed(folder / f"seed-{seed}", size, seed, asked) for seed in range(asked.seeds or size.seeds)]
        told, tables = criteria(seeds)
    members = seeds[0].tables["graph"][0]
    scaled = (
        f"BERT of {size.layers} layers and width {size.width} from scratch, {members['people']} people with {members['documents']} texts, "
        f"{size.epochs} epochs, {len(seeds)} seeds; the paper specialises models of 66 to 340 million "
        "parameters on 928 reports for up to 32 epochs."
    )
    return finish("ppmlm", asked, told, tables=tables, scaled=scaled, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
