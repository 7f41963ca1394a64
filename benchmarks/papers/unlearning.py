"""Unlearning authors: what the tools here forget, what that costs, and whether a model retrained without them can be told apart.

A small GPT-2 has read about public authors and lands. It learns a few private authors' questions and answers (FT-RF), and some of them are
to be forgotten: by retraining without them (RFS-R, the gold standard), by gradient ascent and its kin, and by DP2Unlearning, whose base
model has seen the private texts only as draws of a masked model (DP2U-MLM) or through DP-SGD (DP2U-SGD). Forget quality is the p-value of
the exact Kolmogorov-Smirnov test against RFS-R; a second retraining under another seed is the noise floor.

`--data ../shared/data/tofu` takes the real TOFU in place of the generated authors.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import sanitize
from benchmarks.criteria import Criterion, finish, options
from benchmarks.papers_questions import Questions, generated, tofu
from sanitize import train
from sanitize.eval.early_stop import RECALL_THRESHOLD, mean_recall
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics.tofu import Question, answer_questions
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.unlearning_metrics import QUESTION_SETS, compare_models, compute_utilities, model_utility, smallest_detectable_distance
from sanitize.readers.survey import Roles
from sanitize.storage.files import read_json, write_json
from sanitize.text.masked_lm import measure_bounds
from sanitize.train.recipe import Recipe
from sanitize.train.unlearning import Dp2Unlearning, unlearn_documents

APPROXIMATE = {"GA": "ga", "GD": "gd", "KL": "kl", "PO": "idk", "DPO": "dpo"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is."""

    authors: int
    each: int  # questions of an author
    forget: tuple[int, ...]  # authors that are forgotten, request after request
    public: int  # authors that the model has read about before
    lands: int
    epochs: int = 20  # E, and E' is half of it
    epochs_forget: int = 5  # of the approximate methods, over what is forgotten; TOFU's
    epochs_private: int = 20  # E of DP-SGD
    asked: int = 60  # questions of each set that is kept
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocab: int = 1400
    context: int = 96
    before: int = 20  # epochs over the public texts
    batch: int = 16
    lr: float = 5e-3
    lr_forget: tuple[float, ...] = (5e-4, 1e-3)  # of the approximate methods; the first one at all ratios, others at the largest
    lr_private: float = 1e-4
    epsilons: tuple[float, ...] = (1.0,)  # of DP-MLM, per word
    epsilons_sgd: tuple[float, ...] = (1.0,)
    seeds: int = 1
    floors: bool = False  # a second retraining and DP-SGD at every ratio, and not at the largest alone
    device: str = "cpu"


SIZES = {
    "ci": Size(authors=60, each=6, forget=(1, 3, 6), public=8, lands=16, asked=32, before=16, epochs_private=10),
    "cpu": Size(
        authors=60, each=6, forget=(1, 3, 6), public=8, lands=16, lr_forget=(5e-4, 2e-4, 1e-3, 5e-3), epsilons=(1.0, 10.0, 50.0, 200.0),
        epsilons_sgd=(1.0, 10.0, 100.0), seeds=2, floors=True,
    ),
    "gpu": Size(
        authors=200, each=20, forget=(2, 10, 20), public=400, lands=100, asked=300, layers=6, width=384, heads=6, vocab=8192, context=192,
        before=6, batch=16, lr=3e-4, lr_forget=(5e-5, 2e-5, 1e-4), lr_private=1e-4, epsilons=(1.0, 10.0, 50.0, 200.0),
        epsilons_sgd=(1.0, 10.0, 100.0), seeds=2, floors=True, device="cuda",
    ),
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Ground:
    """What all models of a seed share: the questions, the files they lie in, and the model that has read what is public."""

    folder: Path
    size: Size
    seed: int
    them: Questions
    data: Path
    public: Path
    pretrained: Path

    @property
    def spent(self) -> Path:
        """Where what was measured on the way is kept."""
        return self.folder / "spent.json"

    def recipe(self, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """A recipe that goes on from the pretrained model over the private texts; `sections` change it."""
        table = _recipe(self.size, self.seed, self.data, {"path": str(self.pretrained), "dropout": 0.0})
        return table | {name: {**table.get(name, {}), **section} for name, section in sections.items()}

    def listed(self, count: int) -> Path:
        """A file with the ids of the first so many authors' documents."""
        path = self.folder / f"forget-{count}.txt"
        path.write_text("".join(f"{one}\n" for one in sorted(self.them.forgotten(count))), "utf-8")
        return path

    def clock(self, name: str, work: Callable[[], Any]) -> tuple[Any, float]:
        """What `work` gives, and the seconds it took: of the processor, and with a GPU on the wall.

        They are kept by `name`: where the folder is kept, what was made before costs nothing the second time.
        """
        read = time.process_time if self.size.device == "cpu" else time.perf_counter
        began = read()
        made = work()
        return made, float(self.kept("seconds", name, read() - began))

    def kept(self, what: str, name: str, value: Any) -> Any:
        """The value that was kept under this name when it was first known; else this one, which is kept from now on."""
        told = read_json(self.spent) or {}
        if name not in told.setdefault(what, {}):
            told[what][name] = value
            write_json(self.spent, told)
        return told[what][name]


def _recipe(size: Size, seed: int, data: Path, model: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": "unlearning",
        "data": {"path": str(data), "layout": "document", "prompt_columns": ["question"], "answers_only": True},
        "model": {"context": size.context, **model},
        "objective": {"use": "causal"},
        "run": {
            "seed": seed, "epochs": size.epochs, "batch": size.batch, "lr": size.lr, "schedule": "linear", "warmup": 0.05,
            "checkpoint_every": 0.0, "device": size.device,
        },
    }  # fmt: skip


def prepared(folder: Path, size: Size, seed: int, source: Path | None) -> Ground:
    """Write the texts, and train the model that has read what is public."""
    them = (
        generated(authors=size.authors, each=size.each, public=size.public, lands=size.lands, seed=seed)
        if source is None
        else tofu(source, authors=size.authors, each=size.each, lands=size.lands, seed=seed)
    )
    folder.mkdir(parents=True, exist_ok=True)
    data, public, words = folder / "taught.parquet", folder / "before" / "a.parquet", folder / "words"
    for path, table in (
        (data, them.taught),
        (public, them.before),
        (words / "a.parquet", them.before.select(["text"])),
        (words / "b.parquet", them.names),
    ):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
    made = {"arch": "gpt2", "layers": size.layers, "width": size.width, "heads": size.heads, "dropout": 0.0}
    table = _recipe(size, seed, public, made)
    # public, and shared by all models; as a large model's tokenizer it knows most names in one or two pieces
    table |= {"tokenizer": {"vocab": size.vocab, "corpus": str(words)}}
    table["data"]["answers_only"] = False
    table["run"] |= {"epochs": size.before, "schedule": "linear"}
    train.fit(table, folder / "pretrained")
    return Ground(folder, size, seed, them, data, public, RunFolder.open(folder / "pretrained").final_checkpoint.path)


def masked_model(ground: Ground) -> Path:
    """A small BERT of the public texts with its clip bounds, which come from them too."""
    size = ground.size
    made = {"arch": "bert", "layers": size.layers, "width": size.width, "heads": size.heads, "dropout": 0.0}
    table = _recipe(size, ground.seed, ground.public, made) | {"objective": {"use": "masked"}}
    table["data"] = {"path": str(ground.public), "layout": "document"}
    table["run"] |= {"epochs": size.before, "schedule": "linear"}
    table["tokenizer"] = {"vocab": size.vocab, "corpus": str(ground.folder / "words")}
    train.fit(table, ground.folder / "masked")
    model = RunFolder.open(ground.folder / "masked").final_checkpoint.path
    measure_bounds(model, ground.them.before["text"].to_pylist()[:200], source="invented public answers", window=24)
    return model


PLAN = """
leave = ["URL"]
[find]
kinds = ["URL"]
[[edit]]
use = "dp_mlm"
model = {model}
epsilon = {epsilon}
targets = ["content"]
mapping = "corpus"
where = "public = false"
window = 24
device = "{device}"
"""


def rewritten(ground: Ground, model: Path, epsilon: float) -> tuple[Path, dict[str, Any]]:
    """The private texts as draws of the masked model, questions too, and what the ledger says of it; seeded, to be made again.

    One draw stands for a word everywhere, as in the data that the paper's authors published."""
    name = f"rewritten-{epsilon:g}"
    plan = ground.folder / f"{name}.toml"
    plan.write_text(PLAN.format(model=json.dumps(str(model)), epsilon=epsilon, device=ground.size.device), "utf-8")
    columns = sanitize.Columns(roles=Roles(text=("text", "question"), id="doc_id"))
    out = ground.folder / name
    settings = sanitize.Settings(columns=columns, seed=ground.seed, workers=1)
    told = sanitize.run([ground.data], out, plan=sanitize.load_plan(str(plan)), settings=settings)
    return out, told["ledger"][0]


# ---- what a model knows ----


def sets_of(ground: Ground, gone: set[str]) -> dict[str, list[Question]]:
    """The questions of each set: of authors whom no request names, of what is public, and of those that are to be forgotten."""
    size, never = ground.size, ground.them.forgotten(max(ground.size.forget))
    rows = {
        "retain": [row for row in ground.them.asked if row["doc_id"] not in never],
        "real_authors": ground.them.real_authors,
        "world_facts": ground.them.world_facts,
        "forget": [row for row in ground.them.asked if row["doc_id"] in gone],
    }
    found = {}
    for name in QUESTION_SETS:
        most = len(rows[name]) if name == "forget" else min(size.asked, len(rows[name]))
        found[name] = [asked_of(rows[name][place * len(rows[name]) // most]) for place in range(most)]
    return found


def asked_of(row: Mapping[str, Any]) -> Question:
    """A row as `sanitize-eval` asks it."""
    return Question(row["question"], row["answer"], row.get("paraphrased_answer") or row["answer"], tuple(row["perturbed_answer"]))


@dataclass(frozen=True, repr=False)
class Known:
    """What one model knows: its utilities by set, the utility of the model, and ln R of each question that was to be forgotten."""

    sets: dict[str, dict[str, float]]
    utility: float
    log_r: Any

    @classmethod
    def of(cls, checkpoint: Path, sets: Mapping[str, list[Any]], size: Size) -> Known:
        """Ask a checkpoint everything."""
        model = LanguageModel.load(checkpoint, size.device)
        answers = {name: answer_questions(model, asked, new_tokens=32, batch=128) for name, asked in sets.items()}
        told = {name: compute_utilities(name, one) for name, one in answers.items()}
        return cls(told, model_utility(told), answers["forget"].log_r)


# ---- one seed ----


@dataclass(repr=False)
class Seed:
    """What was measured of one seed: a row for each model, and what was rewritten."""

    rows: list[dict[str, Any]]
    rewritten: list[dict[str, Any]]
    rule: int | None  # the first epoch with a ROUGE-L of .99
    about: Mapping[str, Any]


def one_seed(folder: Path, size: Size, seed: int, source: Path | None) -> Seed:
    """Train, forget, retrain and ask."""
    ground = prepared(folder, size, seed, source)
    lists = [ground.listed(count) for count in size.forget]
    sets = [sets_of(ground, ground.them.forgotten(count)) for count in size.forget]
    found = Seed([], [], None, ground.them.about)
    half = size.epochs // 2

    def keep(method: str, at: int, known: Known, target: Known | None, seconds: float, steps: int, **more: Any) -> None:
        """A row of the table: a model, asked about the forget set number `at` and compared with the retrained model there."""
        found.rows.append(row_of(ground, method, at, known, target, seconds, steps) | more)

    # the model before anything is forgotten; the rule that chooses E is asked at its checkpoints
    def rule(moment: Any) -> bool:
        ground.kept("recalled", f"{moment.metadata['epoch']:g}", mean_recall(moment, 32))
        return False

    full, seconds, steps = fitted(ground, "ft-rf", run={"checkpoint_every": 1.0}, hook=rule)
    heard = (read_json(ground.spent) or {}).get("recalled", {})
    found.rule = min((round(float(epoch)) for epoch, value in heard.items() if value >= RECALL_THRESHOLD), default=None)
    retrained: list[Known] = []
    for at, listed in enumerate(lists):
        path, spent, done = fitted(ground, f"rfs-{at}", data={"leave_out": str(listed)})
        retrained.append(Known.of(path, sets[at], size))
        keep("RFS-R", at, retrained[at], None, spent, done)
        keep("FT-RF", at, Known.of(full, sets[at], size), retrained[at], seconds, steps)
        if size.floors or at == len(lists) - 1:
            path, spent, done = fitted(ground, f"again-{at}", data={"leave_out": str(listed)}, run={"seed": seed + 1000})
            keep("RFS-R again", at, Known.of(path, sets[at], size), retrained[at], spent, done)
        for lr in size.lr_forget[: None if at == len(lists) - 1 else 1]:
            for name, method in APPROXIMATE.items():
                path, spent, done = forgot(ground, f"{method}-{at}-{lr:g}", method, full, listed, lr)
                keep(name, at, Known.of(path, sets[at], size), retrained[at], spent, done, lr=lr)
    masked = masked_model(ground)
    for epsilon in size.epsilons:
        (out, account), spent = ground.clock(f"rewritten-{epsilon:g}", lambda epsilon=epsilon: rewritten(ground, masked, epsilon))
        found.rewritten.append(told_of(account, epsilon, spent))
        one = Dp2Unlearning(recipe=Recipe.load(ground.recipe(base={"epochs": size.epochs}, run={"epochs": half})), data=ground.data,
                     out_folder=folder / f"mlm-{epsilon:g}", rewritten=out)  # fmt: skip
        staged(
            ground,
            "DP2U-MLM",
            one,
            lists,
            sets,
            retrained,
            keep,
            epsilon=epsilon,
            more_than_last=size.floors or epsilon == size.epsilons[0],
        )
    for epsilon in size.epsilons_sgd:
        base = {"epochs": size.epochs_private, "lr": size.lr_private, "privacy": {"epsilon": epsilon, "delta": 1e-5, "insecure_seed": seed}}
        one = Dp2Unlearning(
            recipe=Recipe.load(ground.recipe(base=base, run={"epochs": half})), data=ground.data, out_folder=folder / f"sgd-{epsilon:g}"
        )
        staged(ground, "DP2U-SGD", one, lists, sets, retrained, keep, epsilon=epsilon, more_than_last=size.floors)
    return found


def fitted(ground: Ground, name: str, *, hook: Any = None, **sections: Mapping[str, Any]) -> tuple[Path, float, int]:
    """A training by the ground's recipe: its last checkpoint, seconds and steps."""
    done, seconds = ground.clock(name, lambda: train.fit(ground.recipe(**sections), ground.folder / name, hook=hook))
    return RunFolder.open(ground.folder / name).final_checkpoint.path, seconds, int(done["steps"])


def forgot(ground: Ground, name: str, method: str, full: Path, listed: Path, lr: float) -> tuple[Path, float, int]:
    """An approximate method on the full model: its last checkpoint, seconds and steps."""
    size = ground.size
    changes = [f"run.epochs={size.epochs_forget}", "run.batch=8", f"run.lr={lr}", "run.checkpoint_every=0", f"run.seed={ground.seed}",
               f"run.device={size.device}"]  # fmt: skip
    out = ground.folder / name
    done, seconds = ground.clock(
        name, lambda: unlearn_documents(method, model=full, id_list=listed, data=ground.data, out=out, changes=changes)
    )
    return out / "checkpoints" / str(done["final"]), seconds, int(done["steps"])


def staged(
    ground: Ground,
    method: str,
    stages: Dp2Unlearning,
    lists: Sequence[Path],
    sets: Sequence[Mapping[str, list[Question]]],
    retrained: Sequence[Known],
    keep: Callable[..., None],
    *,
    epsilon: float,
    more_than_last: bool,
) -> None:
    """DP2Unlearning: base and full model once, then the requests one after the other, each on top of those before."""
    told, seconds = ground.clock(stages.out_folder.name, stages.run)
    last = len(lists) - 1
    base = Path(told["base_model"])
    keep(f"{method} base", last, Known.of(base, sets[last], ground.size), retrained[last], seconds, 0, epsilon=epsilon)
    for number, at in enumerate(range(0 if more_than_last else last, last + 1), 1):
        name = f"unlearned-{number:03d}"  # not the newest one: where the folder is kept, all requests lie there already
        told, seconds = ground.clock(f"{stages.out_folder.name}, {name}", lambda at=at: stages.run(lists[at]))
        path = stages.out_folder / name / "checkpoints" / told["stages"][name]["final"]
        keep(method, at, Known.of(path, sets[at], ground.size), retrained[at], seconds, told["stages"][name]["steps"], epsilon=epsilon)


def told_of(account: Mapping[str, Any], epsilon: float, seconds: float) -> dict[str, Any]:
    """What the ledger says of a rewriting."""
    return {
        "epsilon_per_word": epsilon, "draws": account["unit_count"], "epsilon_in_all": account["epsilon_total"],
        "seconds": round(seconds, 2),
        "documents": account["documents"], "epsilon_of_document_max": account["epsilon_per_document"].get("max"),
        "words": account["statements"],
    }  # fmt: skip


def row_of(ground: Ground, method: str, at: int, known: Known, target: Known | None, seconds: float, steps: int) -> dict[str, Any]:
    """What is known of one model at one ratio."""
    count = ground.size.forget[at]
    row: dict[str, Any] = {
        "seed": ground.seed, "method": method, "authors": count, "ratio": count / len(ground.them.authors),
        "model_utility": known.utility, "seconds": round(seconds, 2), "steps": steps,
    }  # fmt: skip
    row |= {f"{name}_{which}": value for name in ("retain", "forget") for which, value in known.sets[name].items()}
    row["questions"] = len(known.log_r)
    return row | ({} if target is None else asdict(compare_models(known.log_r, target.log_r)))


# ---- beside the paper ----

# DP2Unlearning, table 3: model utility and forget quality at 1, 5 and 10 % (Phi 10 and 5 epochs, Llama2 6 and 3). Where a printed
# number is not that of the public logs (10 of 78 are not), it stands here as printed
PUBLISHED = {
    "Phi": {
        "RFS-R": ((0.5448, 1.0), (0.5380, 1.0), (0.5314, 1.0)),
        "GA": ((0.0230, 0.0143), (0.0, 0.0021), (0.0, 8.84e-08)),
        "GD": ((0.4329, 0.1650), (0.1982, 1.87e-09), (0.4005, 5.56e-14)),
        "KL": ((0.0210, 0.0143), (0.0, 0.0021), (0.0, 1.46e-14)),
        "PO": ((0.5223, 0.0013), (0.5114, 2.56e-14), (0.5313, 7.90e-22)),
        "DP2U-SGD": ((0.5060, 0.9900), (0.5122, 0.9878), (0.5113, 0.9003)),
        "DP2U-MLM": ((0.5026, 0.9900), (0.5223, 0.9238), (0.5134, 0.9014)),
    },
    "Llama2": {
        "RFS-R": ((0.5870, 1.0), (0.5711, 1.0), (0.5688, 1.0)),
        "GA": ((0.0, 0.7659), (0.0, 2.61e-07), (0.0, 1.85e-15)),
        "GD": ((0.0, 0.2657), (0.3490, 1.39e-11), (0.4053, 2.86e-14)),
        "KL": ((0.0, 0.4046), (0.0, 4.61e-07), (0.0, 2.59e-12)),
        "PO": ((0.4905, 0.0013), (0.4950, 1.83e-19), (0.5290, 2.43e-19)),
        "DP2U-MLM": ((0.5231, 0.9999), (0.5320, 0.8655), (0.5378, 0.1761)),
    },
}
# tables 6 and 7, in seconds on one H100, Phi; a request at 5 %
PUBLISHED_SECONDS = {
    "FT-RF": 2063,
    "rewriting": 643,
    "DP2U-MLM base": 2315,
    "DP2U-SGD base": 4350,
    "RFS-R": 1962,
    "DP2U-MLM": 1003,
    "DP2U-SGD": 1008,
}
PUBLISHED_RATIOS = (0.01, 0.05, 0.10)


def published_rows() -> list[dict[str, Any]]:
    """Table 3 of the paper as rows."""
    return [
        {"model": model, "method": method, "ratio": ratio, "model_utility": utility, "forget_quality": quality}
        for model, methods in PUBLISHED.items()
        for method, pairs in methods.items()
        for ratio, (utility, quality) in zip(PUBLISHED_RATIOS, pairs, strict=True)
    ]


def criteria(seeds: Sequence[Seed], size: Size) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons, medians over the seeds; and the tables they are read from."""
    rows = pl.DataFrame([row for seed in seeds for row in seed.rows], infer_schema_length=None)
    rows = rows.with_columns(pl.col(name).cast(pl.Float64) for name in ("lr", "epsilon"))
    ours = (pl.col("epsilon").is_null() | (pl.col("epsilon") == size.epsilons[0])) & (
        pl.col("lr").is_null() | (pl.col("lr") == size.lr_forget[0])
    )
    chosen = rows.filter(ours)
    middle = chosen.group_by("method", "authors").agg(pl.col("model_utility", "forget_quality", "seconds", "steps").median())
    largest = max(size.forget)

    def of(method: str, what: str, authors: int = largest) -> float:
        return float(middle.filter((pl.col("method") == method) & (pl.col("authors") == authors))[what].item())

    def over(authors: int) -> float:
        return of("DP2U-MLM", "forget_quality", authors) / max(of(name, "forget_quality", authors) for name in APPROXIMATE)

    # the approximate method that forgets best, at any rate of learning
    any_rate = rows.filter(pl.col("method").is_in(list(APPROXIMATE)) & (pl.col("authors") == largest))
    any_rate = (
        any_rate.group_by("method", "lr").agg(pl.col("model_utility", "forget_quality").median()).sort("forget_quality", "method", "lr")
    )
    best = any_rate.row(-1, named=True)
    kept = any_rate.filter(pl.col("model_utility") >= 0.9 * of("RFS-R", "model_utility"))
    named = f", {kept.row(-1, named=True)['method']} at {kept.row(-1, named=True)['lr']:g}" if kept.height else ""
    ratio = (size.epochs // 2) / size.epochs
    cost = sum(of("DP2U-MLM", "seconds", count) for count in size.forget) / sum(of("RFS-R", "seconds", count) for count in size.forget)
    steps = sum(of("DP2U-MLM", "steps", count) for count in size.forget) / sum(of("RFS-R", "steps", count) for count in size.forget)
    questions = int(chosen.filter((pl.col("method") == "DP2U-MLM") & (pl.col("authors") == largest))["questions"][0])
    power = {count: smallest_detectable_distance(int(chosen.filter(pl.col("authors") == count)["questions"][0])) for count in size.forget}
    clock = "processor seconds" if size.device == "cpu" else "seconds"
    told = {
        "fq_dp2u": Criterion(
            value=min(of("DP2U-MLM", "forget_quality", count) for count in size.forget), paper=0.9014, threshold=0.05,
            note="the least of all ratios; the paper's is Phi's",
        ),
        "fq_over_approximate": Criterion(
            value=over(largest), paper=0.9014 / 8.84e-08, threshold=10,
            note=f"to the best of {', '.join(APPROXIMATE)} at the largest ratio and lr {size.lr_forget[0]:g}, {questions} questions",
        ),
        "mu_ratio": Criterion(
            value=min(of("DP2U-MLM", "model_utility", count) / of("RFS-R", "model_utility", count) for count in size.forget),
            paper=0.9225, threshold=0.9, note="to RFS-R, the least of all ratios; the paper's is Phi's at 1 %",
        ),
        "cost_off": Criterion(
            value=abs(steps / ratio - 1), paper=0.022, threshold=0.15, above=False,
            note=f"how far the optimizer steps of a request, over those of retraining ({steps:.3f}), are from E'/E = {ratio:g}; in {clock} "
            f"{cost:.3f}, which other work on the machine moves",
        ),
        "cost_off_seconds": Criterion(
            value=abs(cost / ratio - 1), paper=0.022, threshold=0.15, above=False, headline=False, note=f"the same in {clock}",
        ),
        "fq_over_approximate_any_lr": Criterion(
            value=of("DP2U-MLM", "forget_quality") / best["forget_quality"], paper=0.9014 / 8.84e-08, threshold=10, headline=False,
            note=f"to the best at any lr, {best['method']} at {best['lr']:g}, whose utility is {best['model_utility']:.3f}: with so "
            "few questions the test does not tell a model that has collapsed, or forgot at a cost, from a retrained one",
        ),
        "fq_over_approximate_that_keep": Criterion(
            value=of("DP2U-MLM", "forget_quality") / float(kept["forget_quality"].max() or 1.0) if kept.height else 1.0,
            paper="not measured", threshold=10, headline=False,
            note=f"to the best at any lr that keeps nine tenths of RFS-R's utility{named}: at a rate tuned for it so few questions "
            "do not tell it apart, though it gives the forgotten answers a higher probability (table `models`)",
        ),
        "fq_over_approximate_middle": Criterion(
            value=over(size.forget[-2]), paper=0.9238 / 0.0021, threshold=10, headline=False,
            note=f"at the ratio below the largest; at fewer than {power[size.forget[-2]]:.2f} of distance nothing is told apart",
        ),
        "fq_before": Criterion(
            value=of("FT-RF", "forget_quality"), paper="not printed", threshold=0.05, above=False, headline=False,
            note="what was learned is seen at all by this test",
        ),
        "fq_noise_floor": Criterion(
            value=of("RFS-R again", "forget_quality"), paper="not measured", threshold=0.05, headline=False,
            note="a second retraining under another seed; nothing can be expected above it",
        ),
        "fq_dp2u_sgd": Criterion(value=of("DP2U-SGD", "forget_quality"), paper=0.9003, threshold=0.05, headline=False),
        "mu_ratio_sgd": Criterion(
            value=of("DP2U-SGD", "model_utility") / of("RFS-R", "model_utility"), paper=0.9622, threshold=0.9, headline=False,
            note="a private base learns next to nothing from so few records: its utilities are those of the pretrained model, and half the "
            "epochs then begin where retraining began (the mean is pulled down by what it knows of lands). The paper's base does not learn "
            "either, its utility is the same at any epsilon, but it is a large model",
        ),
        "ga_utility_any_lr": Criterion(
            value=float(any_rate.filter(pl.col("method") == "GA")["model_utility"].min() or 0.0), paper=0.0, threshold=0.35, above=False,
            headline=False, note="gradient ascent has no floor: its least utility",
        ),
        "rouge_rule": Criterion(
            value=float(np.median([seed.rule if seed.rule is not None else size.epochs + 1 for seed in seeds])), paper=10,
            threshold=size.epochs, above=False, headline=False,
            note=f"the first epoch with ROUGE-L {RECALL_THRESHOLD:g}; E here is {size.epochs}, and that epoch must lie within",
        ),
    }  # fmt: skip
    grid = rows.filter(pl.col("method").str.starts_with("DP2U")).filter(pl.col("authors") == largest)
    return told, {
        "models": [{key: value for key, value in row.items() if value is not None} for row in rows.to_dicts()],
        "epsilon_grid": grid.select(
            "seed", "method", "epsilon", "model_utility", "forget_quality", "retain_probability", "forget_probability"
        ).to_dicts(),
        "published": published_rows(),
        "rewriting": [{"seed": number, **one} for number, seed in enumerate(seeds) for one in seed.rewritten],
        "timings": timings(rows, seeds, largest),
        "power": [{"authors": count, "least_distance_shown": least} for count, least in power.items()],
    }


def timings(rows: pl.DataFrame, seeds: Sequence[Seed], largest: int) -> list[dict[str, Any]]:
    """Median seconds of each stage beside the paper's."""
    middle = rows.filter(pl.col("authors") == largest).group_by("method").agg(pl.col("seconds").median()).sort("method")
    spent = dict(middle.iter_rows()) | {"rewriting": float(np.median([one["seconds"] for seed in seeds for one in seed.rewritten]))}
    return [{"what": what, "seconds": seconds, "paper_seconds": PUBLISHED_SECONDS.get(what)} for what, seconds in spent.items()]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    asked = options(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter).parse_args(argv)
    size, began = SIZES[asked.size], time.perf_counter()
    if asked.data is not None:
        size = replace(size, context=512, vocab=max(size.vocab, 4096))  # TOFU's answers are long
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores wait for each other
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(asked.dir or scratch)
        seeds = [one_seed(folder / f"seed-{seed}", size, seed, asked.data) for seed in range(asked.seeds or size.seeds)]
        told, tables = criteria(seeds, size)
    about = seeds[0].about
    shares = ", ".join(f"{count} ({100 * count / about['authors']:.1f} %)" for count in size.forget)
    whose = (
        f"{about['authors']} invented authors" if about["source"] == "generated"
        else f"{about['authors']} of TOFU's authors (runs of 20 rows, which holds in {about['held_together']} of {about['runs']})"
    )  # fmt: skip
    scaled = (
        f"GPT-2 of {size.layers} layers and width {size.width} that has read public answers, {whose} with {about['rows']} answers, "
        f"{shares} of the authors are forgotten, E = {size.epochs}, E' = {size.epochs // 2}, {len(seeds)} seeds; the paper tunes Phi-1.5 "
        "and Llama2-7B on 4,000 answers of 200 authors and forgets 1, 5 and 10 %. Its epsilon grid is a figure without numbers."
    )
    return finish("unlearning", asked, told, tables=tables, scaled=scaled, seconds=time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
