"""Unlearning authors: what the methods forget, at what cost, and whether the result differs from a
model retrained without the authors.

A small GPT-2 is pre-trained on public authors and lands. It learns a few private authors' questions
and answers (FT-RF), and some of them are to be forgotten: by retraining without them (RFS-R, the
gold standard), by gradient ascent and related methods, and by DP2Unlearning, whose base model has
seen the private texts only as draws of a masked model (DP2U-MLM) or through DP-SGD (DP2U-SGD).
Forget quality is the p-value of the exact Kolmogorov-Smirnov test against RFS-R; a second
retraining under another seed is the noise level.

`--data ../shared/data/tofu` uses the real TOFU instead of the generated authors. With `--model
PATH` (sizes `real` and `gpu`) the top layers of a pretrained causal model are tuned, by DP-SGD too;
DP2U-MLM then needs a pretrained masked model (`--masked-model`), and is left out without one. With
`--dir` every training is kept there, so that the same command continues.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from benchmarks.criteria import (
    Criterion,
    compute_seed_intervals,
    make_parser,
    report_criteria,
    run_script,
    with_intervals,
)
from benchmarks.papers_questions import Questions, generate_questions, read_tofu
from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.eval.early_stop import RECALL_THRESHOLD, mean_recall
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metrics.tofu import Question, answer_questions
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.unlearning_metrics import (
    QUESTION_SETS,
    compare_models,
    compute_utilities,
    model_utility,
    smallest_detectable_distance,
)
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.files import read_json, write_json
from sanitize.text.masked_lm import measure_bounds
from sanitize.train.recipe import Recipe
from sanitize.train.unlearning import Dp2Unlearning, unlearn_documents

T = TypeVar("T")
APPROXIMATE = {"GA": "ga", "GD": "gd", "KL": "kl", "PO": "idk", "DPO": "dpo"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of data, models and trainings."""

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
    # of the approximate methods; the first one at all ratios, others at the largest
    lr_forget: tuple[float, ...] = (5e-4, 1e-3)
    lr_private: float = 1e-4
    epsilons: tuple[float, ...] = (1.0,)  # of DP-MLM, per word
    epsilons_sgd: tuple[float, ...] = (1.0,)
    seeds: int = 1
    floors: bool = (
        False  # a second retraining and DP-SGD at every ratio, and not at the largest alone
    )
    device: str = "cpu"
    top_layers: int | None = None  # layers that are trained, from the top; None: all


# with `--model`; DP-SGD keeps a gradient of each row: 4 layers of a model of 135 million parameters
# are 14 million a row
PRETRAINED_SIZES = {
    "real": Size(
        authors=20,
        each=6,
        forget=(1, 2),
        public=4,
        lands=16,
        asked=24,
        epochs=6,
        epochs_forget=3,
        epochs_private=6,
        context=128,
        batch=8,
        lr=2e-4,
        lr_forget=(2e-4, 5e-5),
        lr_private=2e-4,
        epsilons_sgd=(8.0,),
        top_layers=4,
    ),
    "gpu": Size(
        authors=200,
        each=20,
        forget=(2, 10, 20),
        public=400,
        lands=100,
        asked=300,
        context=512,
        lr=2e-5,
        lr_forget=(1e-5, 5e-6),
        lr_private=2e-5,
        epsilons=(1.0, 10.0, 50.0, 200.0),
        epsilons_sgd=(1.0, 10.0, 100.0),
        seeds=2,
        floors=True,
        device="cuda",
        top_layers=10,
    ),
}
SIZES = {
    "ci": Size(
        authors=60,
        each=6,
        forget=(1, 3, 6),
        public=8,
        lands=16,
        asked=32,
        before=16,
        epochs_private=10,
    ),
    "cpu": Size(
        authors=60,
        each=6,
        forget=(1, 3, 6),
        public=8,
        lands=16,
        lr_forget=(5e-4, 2e-4, 1e-3, 5e-3),
        epsilons=(1.0, 10.0, 50.0, 200.0),
        epsilons_sgd=(1.0, 10.0, 100.0),
        seeds=2,
        floors=True,
    ),
    "gpu": Size(
        authors=200,
        each=20,
        forget=(2, 10, 20),
        public=400,
        lands=100,
        asked=300,
        layers=6,
        width=384,
        heads=6,
        vocab=8192,
        context=192,
        before=6,
        batch=16,
        lr=3e-4,
        lr_forget=(5e-5, 2e-5, 1e-4),
        lr_private=1e-4,
        epsilons=(1.0, 10.0, 50.0, 200.0),
        epsilons_sgd=(1.0, 10.0, 100.0),
        seeds=2,
        floors=True,
        device="cuda",
    ),
}


@dataclass(frozen=True, repr=False)
class SeedContext:
    """Shared by all models of a seed: the questions, their files, and the model pre-trained on the
    public texts."""

    folder: Path
    size: Size
    seed: int
    questions: Questions
    data: Path
    public: Path
    pretrained: Path
    # a pretrained masked model for DP-MLM; None: a small one is trained, unless the causal model is
    # pretrained
    masked: Path | None
    has_rewriting: bool  # whether DP2U-MLM is measured

    @property
    def measurements_path(self) -> Path:
        """The file of cached measurements."""
        return self.folder / "spent.json"

    def recipe(self, **sections: Mapping[str, Any]) -> dict[str, Any]:
        """A recipe that goes on from the pretrained model over the private texts; `sections` change
        it."""
        layers = {"top_layers": self.size.top_layers} if self.size.top_layers else {}
        table = _recipe(
            self.size,
            self.seed,
            self.data,
            {"path": str(self.pretrained), "dropout": 0.0, **layers},
        )
        return table | {
            name: {**table.get(name, {}), **section} for name, section in sections.items()
        }

    def write_id_list(self, count: int) -> Path:
        """Write a file with the ids of the documents of the first `count` authors."""
        path = self.folder / f"forget-{count}.txt"
        path.write_text(
            "".join(f"{one}\n" for one in sorted(self.questions.forgotten(count))), "utf-8"
        )
        return path

    def time_cached(self, name: str, work: Callable[[], T]) -> tuple[T, float]:
        """Returns the result of `work` and its seconds: CPU time, with a GPU wall time.

        The seconds are cached by `name`: if the folder is kept, a second call reports those of the
        first.
        """
        clock = time.process_time if self.size.device == "cpu" else time.perf_counter
        began = clock()
        result = work()
        return result, float(self.cached("seconds", name, lambda: clock() - began))

    def cached(self, what: str, name: str, compute: Callable[[], Any]) -> Any:
        """The cached value of this name, or the result of `compute`, which is then cached."""
        saved = read_json(self.measurements_path) or {}
        if name not in saved.setdefault(what, {}):
            saved[what][name] = compute()
            write_json(self.measurements_path, saved)
        return saved[what][name]


def _recipe(size: Size, seed: int, data: Path, model: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": "unlearning",
        "data": {
            "path": str(data),
            "layout": "document",
            "prompt_columns": ["question"],
            "answers_only": True,
        },
        "model": {"context": size.context, **model},
        "objective": {"use": "causal"},
        "run": {
            "seed": seed,
            "epochs": size.epochs,
            "batch": size.batch,
            "lr": size.lr,
            "schedule": "linear",
            "warmup": 0.05,
            "checkpoint_every": 0.0,
            "device": size.device,
        },
    }


def prepare_seed(folder: Path, size: Size, seed: int, arguments: argparse.Namespace) -> SeedContext:
    """Write the texts, and pre-train the model on the public ones, unless there is a pretrained
    one."""
    source, pretrained = arguments.data, arguments.model
    questions = (
        generate_questions(
            authors=size.authors, each=size.each, public=size.public, lands=size.lands, seed=seed
        )
        if source is None
        else read_tofu(source, authors=size.authors, each=size.each, lands=size.lands, seed=seed)
    )
    folder.mkdir(parents=True, exist_ok=True)
    data, public, words = (
        folder / "taught.parquet",
        folder / "before" / "a.parquet",
        folder / "words",
    )
    for path, table in (
        (data, questions.taught),
        (public, questions.before),
        (words / "a.parquet", questions.before.select(["text"])),
        (words / "b.parquet", questions.names),
    ):
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
    if pretrained is not None:
        return SeedContext(
            folder,
            size,
            seed,
            questions,
            data,
            public,
            pretrained,
            arguments.masked_model,
            bool(arguments.masked_model),
        )
    architecture = {
        "arch": "gpt2",
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "dropout": 0.0,
    }
    table = _recipe(size, seed, public, architecture)
    # public, and shared by all models; as a large model's tokenizer it knows most names in one or
    # two pieces
    table |= {"tokenizer": {"vocab": size.vocab, "corpus": str(words)}}
    table["data"]["answers_only"] = False
    table["run"] |= {"epochs": size.before, "schedule": "linear"}
    train.fit(table, folder / "pretrained")
    path = RunFolder.open(folder / "pretrained").final_checkpoint.path
    return SeedContext(
        folder,
        size,
        seed,
        questions,
        data,
        public,
        path,
        arguments.masked_model,
        has_rewriting=True,
    )


def prepare_masked_model(context: SeedContext) -> Path:
    """The masked model of DP-MLM with its clip bounds, which come from public texts: a small BERT
    of these, or a copy of the given one."""
    size, texts = context.size, context.questions.before["text"].to_pylist()[:200]
    if context.masked is not None:
        copied = context.folder / "masked-model"
        if not copied.is_dir():
            shutil.copytree(context.masked, copied.with_suffix(".tmp"), dirs_exist_ok=True)
            measure_bounds(
                copied.with_suffix(".tmp"), texts, source="invented public answers", window=24
            )
            copied.with_suffix(".tmp").rename(copied)
        return copied
    architecture = {
        "arch": "bert",
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "dropout": 0.0,
    }
    table = _recipe(size, context.seed, context.public, architecture) | {
        "objective": {"use": "masked"}
    }
    table["data"] = {"path": str(context.public), "layout": "document"}
    table["run"] |= {"epochs": size.before, "schedule": "linear"}
    table["tokenizer"] = {"vocab": size.vocab, "corpus": str(context.folder / "words")}
    train.fit(table, context.folder / "masked")
    model = RunFolder.open(context.folder / "masked").final_checkpoint.path
    measure_bounds(model, texts, source="invented public answers", window=24)
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


def rewrite_texts(
    context: SeedContext, model: Path, epsilon: float
) -> tuple[Path, Mapping[str, Any]]:
    """The private texts as draws of the masked model, questions too, and the ledger of the run;
    seeded, so that it is reproducible.

    A word has one draw everywhere, as in the data that the paper's authors published."""
    name = f"rewritten-{epsilon:g}"
    plan = context.folder / f"{name}.toml"
    plan.write_text(
        PLAN.format(model=json.dumps(str(model)), epsilon=epsilon, device=context.size.device),
        "utf-8",
    )
    columns = {"text_column": ("text", "question"), "id_column": "doc_id"}
    out = context.folder / name
    settings = Settings(**columns, seed=context.seed, workers=1)
    summary = run_with_settings([context.data], out, plan=load_plan(str(plan)), settings=settings)
    return out, summary.ledger[0]


# ---- what a model knows ----


def select_question_sets(
    context: SeedContext, forgotten_ids: set[str]
) -> dict[str, list[Question]]:
    """The questions of each set: of authors in no request, of public texts, and of the authors to
    forget."""
    size, requested_ids = context.size, context.questions.forgotten(max(context.size.forget))
    rows = {
        "retain": [row for row in context.questions.asked if row["doc_id"] not in requested_ids],
        "real_authors": context.questions.real_authors,
        "world_facts": context.questions.world_facts,
        "forget": [row for row in context.questions.asked if row["doc_id"] in forgotten_ids],
    }
    question_sets = {}
    for name in QUESTION_SETS:
        count = len(rows[name]) if name == "forget" else min(size.asked, len(rows[name]))
        question_sets[name] = [
            make_question(rows[name][place * len(rows[name]) // count]) for place in range(count)
        ]
    return question_sets


def make_question(row: Mapping[str, Any]) -> Question:
    """A row as a question of `sanitize-eval`."""
    return Question(
        row["question"],
        row["answer"],
        row.get("paraphrased_answer") or row["answer"],
        tuple(row["perturbed_answer"]),
    )


@dataclass(frozen=True, repr=False)
class ModelKnowledge:
    """Measured knowledge of one model: its utilities by set, the model utility, and ln R of each
    question to forget."""

    sets: dict[str, dict[str, float]]
    utility: float
    log_r: Any

    @classmethod
    def of(
        cls,
        context: SeedContext,
        checkpoint: Path,
        sets: Sequence[Mapping[str, list[Any]]],
        at: int,
    ) -> ModelKnowledge:
        """Ask a checkpoint all questions of set number `at`. The answers' measures are cached, as
        the trainings are kept."""

        def ask() -> dict[str, Any]:
            model = LanguageModel.load(checkpoint, context.size.device)
            answers = {
                name: answer_questions(model, questions, new_tokens=32, batch=128)
                for name, questions in sets[at].items()
            }
            utilities = {name: compute_utilities(name, one) for name, one in answers.items()}
            return {"sets": utilities, "log_r": answers["forget"].log_r.tolist()}

        found = context.cached(
            "knowledge", f"{checkpoint.relative_to(context.folder)}, set {at}", ask
        )
        return cls(found["sets"], model_utility(found["sets"]), np.array(found["log_r"]))


# ---- one seed ----


@dataclass(repr=False)
class SeedResult:
    """Measurements of one seed: a row for each model, and the rewritings."""

    rows: list[dict[str, Any]]
    rewritten: list[dict[str, Any]]
    rule: int | None  # the first epoch with a ROUGE-L of .99
    about: Mapping[str, Any]


def run_seed(folder: Path, size: Size, seed: int, arguments: argparse.Namespace) -> SeedResult:
    """Train, forget, retrain and ask."""
    context = prepare_seed(folder, size, seed, arguments)
    lists = [context.write_id_list(count) for count in size.forget]
    sets = [
        select_question_sets(context, context.questions.forgotten(count)) for count in size.forget
    ]
    result = SeedResult([], [], None, context.questions.about)
    half = size.epochs // 2

    def add_row(
        method: str,
        at: int,
        known: ModelKnowledge,
        target: ModelKnowledge | None,
        seconds: float,
        steps: int,
        **more: Any,
    ) -> None:
        """A row of the table: a model, asked about the forget set number `at` and compared with the
        retrained model there."""
        result.rows.append(result_row(context, method, at, known, target, seconds, steps) | more)

    # the model before anything is forgotten; the rule that chooses E is asked at its checkpoints
    def rule(moment: Any) -> bool:
        context.cached("recalled", f"{moment.metadata['epoch']:g}", lambda: mean_recall(moment, 32))
        return False

    full, seconds, steps = train_model(context, "ft-rf", run={"checkpoint_every": 1.0}, hook=rule)
    recall_by_epoch = (read_json(context.measurements_path) or {}).get("recalled", {})
    result.rule = min(
        (
            round(float(epoch))
            for epoch, value in recall_by_epoch.items()
            if value >= RECALL_THRESHOLD
        ),
        default=None,
    )
    retrained: list[ModelKnowledge] = []
    for at, listed in enumerate(lists):
        path, spent, done = train_model(context, f"rfs-{at}", data={"leave_out": str(listed)})
        retrained.append(ModelKnowledge.of(context, path, sets, at))
        add_row("RFS-R", at, retrained[at], None, spent, done)
        add_row(
            "FT-RF", at, ModelKnowledge.of(context, full, sets, at), retrained[at], seconds, steps
        )
        if size.floors or at == len(lists) - 1:
            path, spent, done = train_model(
                context, f"again-{at}", data={"leave_out": str(listed)}, run={"seed": seed + 1000}
            )
            add_row(
                "RFS-R again",
                at,
                ModelKnowledge.of(context, path, sets, at),
                retrained[at],
                spent,
                done,
            )
        for lr in size.lr_forget[: None if at == len(lists) - 1 else 1]:
            for name, method in APPROXIMATE.items():
                path, spent, done = unlearn_model(
                    context, f"{method}-{at}-{lr:g}", method, full, listed, lr
                )
                add_row(
                    name,
                    at,
                    ModelKnowledge.of(context, path, sets, at),
                    retrained[at],
                    spent,
                    done,
                    lr=lr,
                )
    masked = prepare_masked_model(context) if context.has_rewriting else None
    for epsilon in size.epsilons if masked is not None else ():
        (out, account), spent = context.time_cached(
            f"rewritten-{epsilon:g}",
            lambda epsilon=epsilon: rewrite_texts(context, masked, epsilon),
        )
        result.rewritten.append(ledger_row(account, epsilon, spent))
        one = Dp2Unlearning(
            recipe=Recipe.load(context.recipe(base={"epochs": size.epochs}, run={"epochs": half})),
            data=context.data,
            out_folder=folder / f"mlm-{epsilon:g}",
            rewritten=out,
        )
        run_stages(
            context,
            "DP2U-MLM",
            one,
            lists,
            sets,
            retrained,
            add_row,
            epsilon=epsilon,
            more_than_last=size.floors or epsilon == size.epsilons[0],
        )
    for epsilon in size.epsilons_sgd:
        base = {
            "epochs": size.epochs_private,
            "lr": size.lr_private,
            "privacy": {"epsilon": epsilon, "delta": 1e-5, "insecure_seed": seed},
        }
        one = Dp2Unlearning(
            recipe=Recipe.load(context.recipe(base=base, run={"epochs": half})),
            data=context.data,
            out_folder=folder / f"sgd-{epsilon:g}",
        )
        run_stages(
            context,
            "DP2U-SGD",
            one,
            lists,
            sets,
            retrained,
            add_row,
            epsilon=epsilon,
            more_than_last=size.floors,
        )
    return result


def train_model(
    context: SeedContext, name: str, *, hook: Any = None, **sections: Mapping[str, Any]
) -> tuple[Path, float, int]:
    """A training by the ground's recipe: its last checkpoint, seconds and steps."""
    done, seconds = context.time_cached(
        name, lambda: train.fit(context.recipe(**sections), context.folder / name, hook=hook)
    )
    return RunFolder.open(context.folder / name).final_checkpoint.path, seconds, done.steps


def unlearn_model(
    context: SeedContext, name: str, method: str, full: Path, listed: Path, lr: float
) -> tuple[Path, float, int]:
    """An approximate method on the full model: its last checkpoint, seconds and steps."""
    size = context.size
    changes = [
        f"run.epochs={size.epochs_forget}",
        "run.batch=8",
        f"run.lr={lr}",
        "run.checkpoint_every=0",
        f"run.seed={context.seed}",
        f"run.device={size.device}",
        *([f"model.top_layers={size.top_layers}"] if size.top_layers else []),
    ]
    out = context.folder / name
    done, seconds = context.time_cached(
        name,
        lambda: unlearn_documents(
            method, model=full, id_list=listed, data=context.data, out=out, changes=changes
        ),
    )
    return out / "checkpoints" / done.final, seconds, done.steps


def run_stages(
    context: SeedContext,
    method: str,
    stages: Dp2Unlearning,
    lists: Sequence[Path],
    sets: Sequence[Mapping[str, list[Question]]],
    retrained: Sequence[ModelKnowledge],
    add_row: Callable[..., None],
    *,
    epsilon: float,
    more_than_last: bool,
) -> None:
    """DP2Unlearning: base and full model once, then the requests one after the other, each on top
    of those before."""
    summary, seconds = context.time_cached(stages.out_folder.name, stages.run)
    last = len(lists) - 1
    base = Path(summary["base_model"])
    add_row(
        f"{method} base",
        last,
        ModelKnowledge.of(context, base, sets, last),
        retrained[last],
        seconds,
        0,
        epsilon=epsilon,
    )
    for number, at in enumerate(range(0 if more_than_last else last, last + 1), 1):
        # not the newest one: where the folder is kept, all requests lie there already
        name = f"unlearned-{number:03d}"
        summary, seconds = context.time_cached(
            f"{stages.out_folder.name}, {name}", lambda at=at: stages.run(lists[at])
        )
        path = stages.out_folder / name / "checkpoints" / summary["stages"][name]["final"]
        add_row(
            method,
            at,
            ModelKnowledge.of(context, path, sets, at),
            retrained[at],
            seconds,
            summary["stages"][name]["steps"],
            epsilon=epsilon,
        )


def ledger_row(account: Mapping[str, Any], epsilon: float, seconds: float) -> dict[str, Any]:
    """The ledger of a rewriting as a table row."""
    return {
        "epsilon_per_word": epsilon,
        "draws": account["unit_count"],
        "epsilon_in_all": account["epsilon_total"],
        "seconds": round(seconds, 2),
        "documents": account["documents"],
        "epsilon_of_document_max": account["epsilon_per_document"].get("max"),
        "words": account["statements"],
    }


def result_row(
    context: SeedContext,
    method: str,
    at: int,
    known: ModelKnowledge,
    target: ModelKnowledge | None,
    seconds: float,
    steps: int,
) -> dict[str, Any]:
    """The measurements of one model at one ratio."""
    count = context.size.forget[at]
    row: dict[str, Any] = {
        "seed": context.seed,
        "method": method,
        "authors": count,
        "ratio": count / len(context.questions.authors),
        "model_utility": known.utility,
        "seconds": round(seconds, 2),
        "steps": steps,
    }
    row |= {
        f"{name}_{which}": value
        for name in ("retain", "forget")
        for which, value in known.sets[name].items()
    }
    row["questions"] = len(known.log_r)
    return row | ({} if target is None else asdict(compare_models(known.log_r, target.log_r)))


# ---- beside the paper ----

# DP2Unlearning, table 3: model utility and forget quality at 1, 5 and 10 % (Phi 10 and 5 epochs,
# Llama2 6 and 3). Where a printed number is not that of the public logs (10 of 78 are not), it
# stands here as printed
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
        {
            "model": model,
            "method": method,
            "ratio": ratio,
            "model_utility": utility,
            "forget_quality": quality,
        }
        for model, methods in PUBLISHED.items()
        for method, pairs in methods.items()
        for ratio, (utility, quality) in zip(PUBLISHED_RATIOS, pairs, strict=True)
    ]


def criteria(
    seeds: Sequence[SeedResult], size: Size
) -> tuple[dict[str, Criterion], dict[str, list[dict[str, Any]]]]:
    """The paper's comparisons, medians over the seeds; and the tables they are read from."""
    rows = pl.DataFrame([row for seed in seeds for row in seed.rows], infer_schema_length=None)
    rows = rows.with_columns(pl.col(name).cast(pl.Float64) for name in ("lr", "epsilon"))
    first_epsilon = (
        pl.when(pl.col("method").str.starts_with("DP2U-SGD"))
        .then(size.epsilons_sgd[0])
        .otherwise(size.epsilons[0])
    )
    is_default_setting = (pl.col("epsilon").is_null() | (pl.col("epsilon") == first_epsilon)) & (
        pl.col("lr").is_null() | (pl.col("lr") == size.lr_forget[0])
    )
    chosen = rows.filter(is_default_setting)
    medians = chosen.group_by("method", "authors").agg(
        pl.col("model_utility", "forget_quality", "seconds", "steps").median()
    )
    largest = max(size.forget)

    def median(method: str, what: str, authors: int = largest) -> float:
        return float(
            medians.filter((pl.col("method") == method) & (pl.col("authors") == authors))[
                what
            ].item()
        )

    if not all(median("RFS-R", "model_utility", count) for count in size.forget):
        raise UsageError(
            "the retrained model answers no question of a set, so there is nothing to compare; it"
            " needs more epochs"
        )
    has_rewriting = not chosen.filter(pl.col("method") == "DP2U-MLM").is_empty()

    def quality_ratio(authors: int) -> float:
        return median("DP2U-MLM", "forget_quality", authors) / max(
            median(name, "forget_quality", authors) for name in APPROXIMATE
        )

    # the approximate method with the best forget quality, at any learning rate
    any_rate = rows.filter(
        pl.col("method").is_in(list(APPROXIMATE)) & (pl.col("authors") == largest)
    )
    any_rate = (
        any_rate.group_by("method", "lr")
        .agg(pl.col("model_utility", "forget_quality").median())
        .sort("forget_quality", "method", "lr")
    )
    best = any_rate.row(-1, named=True)
    useful = any_rate.filter(pl.col("model_utility") >= 0.9 * median("RFS-R", "model_utility"))
    named = (
        f", {useful.row(-1, named=True)['method']} at {useful.row(-1, named=True)['lr']:g}"
        if useful.height
        else ""
    )
    ratio = (size.epochs // 2) / size.epochs
    questions = int(
        chosen.filter((pl.col("method") == "RFS-R") & (pl.col("authors") == largest))["questions"][
            0
        ]
    )
    power = {
        count: smallest_detectable_distance(
            int(chosen.filter(pl.col("authors") == count)["questions"][0])
        )
        for count in size.forget
    }
    found: dict[str, Criterion] = {}
    if has_rewriting:
        cost = sum(median("DP2U-MLM", "seconds", count) for count in size.forget) / sum(
            median("RFS-R", "seconds", count) for count in size.forget
        )
        retraining_steps = sum(median("RFS-R", "steps", count) for count in size.forget)
        steps = sum(median("DP2U-MLM", "steps", count) for count in size.forget) / retraining_steps
        clock = "processor seconds" if size.device == "cpu" else "seconds"
        found |= {
            "fq_dp2u": Criterion(
                value=min(median("DP2U-MLM", "forget_quality", count) for count in size.forget),
                paper=0.9014,
                threshold=0.05,
                note="the least of all ratios; the paper's is Phi's",
            ),
            "fq_over_approximate": Criterion(
                value=quality_ratio(largest),
                paper=0.9014 / 8.84e-08,
                threshold=10,
                note=f"to the best of {', '.join(APPROXIMATE)} at the largest ratio and lr {size.lr_forget[0]:g}, {questions} questions",  # noqa: E501
            ),
            "mu_ratio": Criterion(
                value=min(
                    median("DP2U-MLM", "model_utility", count)
                    / median("RFS-R", "model_utility", count)
                    for count in size.forget
                ),
                paper=0.9225,
                threshold=0.9,
                note="to RFS-R, the least of all ratios; the paper's is Phi's at 1 %",
            ),
            "cost_off": Criterion(
                value=abs(steps / ratio - 1),
                paper=0.022,
                threshold=0.15,
                above=False,
                note=f"how far the optimizer steps of a request, over those of retraining ({steps:.3f}), are from E'/E = {ratio:g}; in "  # noqa: E501
                f"{clock} {cost:.3f}, which other work on the machine moves",
            ),
            "cost_off_seconds": Criterion(
                value=abs(cost / ratio - 1),
                paper=0.022,
                threshold=0.15,
                above=False,
                headline=False,
                note=f"the same in {clock}",
            ),
            "fq_over_approximate_any_lr": Criterion(
                value=median("DP2U-MLM", "forget_quality") / best["forget_quality"],
                paper=0.9014 / 8.84e-08,
                threshold=10,
                headline=False,
                note=f"to the best at any lr, {best['method']} at {best['lr']:g}, whose utility is {best['model_utility']:.3f}: with so "  # noqa: E501
                "few questions the test does not tell a model that has collapsed, or forgot at a cost, from a retrained one",  # noqa: E501
            ),
            "fq_over_approximate_that_keep": Criterion(
                value=median("DP2U-MLM", "forget_quality")
                / float(useful["forget_quality"].max() or 1.0)
                if useful.height
                else 1.0,
                paper="not measured",
                threshold=10,
                headline=False,
                note=f"to the best at any lr that keeps nine tenths of RFS-R's utility{named}: at a rate tuned for it so few questions "  # noqa: E501
                "do not tell it apart, though it gives the forgotten answers a higher probability (table `models`)",  # noqa: E501
            ),
            "fq_over_approximate_middle": Criterion(
                value=quality_ratio(size.forget[-2]),
                paper=0.9238 / 0.0021,
                threshold=10,
                headline=False,
                note=f"at the ratio below the largest; at fewer than {power[size.forget[-2]]:.2f} of distance no difference can be shown",  # noqa: E501
            ),
        }
    found |= {
        "fq_before": Criterion(
            value=median("FT-RF", "forget_quality"),
            paper="not printed",
            threshold=0.05,
            above=False,
            headline=False,
            note="what was learned is seen at all by this test",
        ),
        "fq_noise_floor": Criterion(
            value=median("RFS-R again", "forget_quality"),
            paper="not measured",
            threshold=0.05,
            headline=False,
            note="a second retraining under another seed; nothing can be expected above it",
        ),
        "fq_dp2u_sgd": Criterion(
            value=median("DP2U-SGD", "forget_quality"), paper=0.9003, threshold=0.05, headline=False
        ),
        "mu_ratio_sgd": Criterion(
            value=median("DP2U-SGD", "model_utility") / median("RFS-R", "model_utility"),
            paper=0.9622,
            threshold=0.9,
            headline=False,
            note="a private base learns next to nothing from so few records: its utilities are those of the pretrained model, and half the "  # noqa: E501
            "epochs then begin where retraining began (the mean is pulled down by what it knows of lands). The paper's base does not learn "  # noqa: E501
            "either, its utility is the same at any epsilon, but it is a large model",
        ),
        "ga_utility_any_lr": Criterion(
            value=float(any_rate.filter(pl.col("method") == "GA")["model_utility"].min() or 0.0),
            paper=0.0,
            threshold=0.35,
            above=False,
            headline=False,
            note="gradient ascent has no floor: its least utility",
        ),
        "rouge_rule": Criterion(
            value=float(
                np.median(
                    [seed.rule if seed.rule is not None else size.epochs + 1 for seed in seeds]
                )
            ),
            paper=10,
            threshold=size.epochs,
            above=False,
            headline=False,
            note=f"the first epoch with ROUGE-L {RECALL_THRESHOLD:g}; E here is {size.epochs}, and that epoch must lie within",  # noqa: E501
        ),
    }
    grid = rows.filter(pl.col("method").str.starts_with("DP2U")).filter(
        pl.col("authors") == largest
    )
    return found, {
        "models": [
            {key: value for key, value in row.items() if value is not None}
            for row in rows.to_dicts()
        ],
        "epsilon_grid": (
            grid.select(
                "seed",
                "method",
                "epsilon",
                "model_utility",
                "forget_quality",
                "retain_probability",
                "forget_probability",
            ).to_dicts()
        ),
        "published": published_rows(),
        "rewriting": [
            {"seed": number, **one} for number, seed in enumerate(seeds) for one in seed.rewritten
        ],
        "timings": timings(rows, seeds, largest),
        "power": [
            {"authors": count, "least_distance_shown": least} for count, least in power.items()
        ],
    }


def timings(rows: pl.DataFrame, seeds: Sequence[SeedResult], largest: int) -> list[dict[str, Any]]:
    """Median seconds of each stage, with the paper's."""
    medians = (
        rows.filter(pl.col("authors") == largest)
        .group_by("method")
        .agg(pl.col("seconds").median())
        .sort("method")
    )
    seconds_by_stage = dict(medians.iter_rows())
    if rewriting := [one["seconds"] for seed in seeds for one in seed.rewritten]:
        seconds_by_stage["rewriting"] = float(np.median(rewriting))
    return [
        {"what": what, "seconds": seconds, "paper_seconds": PUBLISHED_SECONDS.get(what)}
        for what, seconds in seconds_by_stage.items()
    ]


def choose_size(arguments: argparse.Namespace) -> Size:
    """The sizes of the options; UsageError or InputRefused for a model without its size, or a size
    without its model."""
    if arguments.model is None:
        if arguments.size == "real" or arguments.masked_model is not None:
            raise UsageError(
                "--size real and --masked-model need a pretrained causal model: --model PATH (`make"
                " model` writes one)"
            )
        return SIZES[arguments.size]
    if arguments.size not in PRETRAINED_SIZES:
        raise UsageError(
            f"--model with --size {arguments.size}: expected --size {' or '.join(PRETRAINED_SIZES)}"
        )
    for name, causal in (("model", True), ("masked_model", False)):
        path = getattr(arguments, name)
        if path is None:
            continue
        if not (path / "config.json").is_file():
            raise InputRefused(
                f"--{name.replace('_', '-')} {path}: no model in Hugging Face layout; expected a"
                " folder with config.json"
            )
        if LanguageModel.load(path).is_causal != causal:
            raise InputRefused(
                f"--{name.replace('_', '-')} {path}: expected a {'causal' if causal else 'masked'}"
                " model"
            )
        setattr(arguments, name, path.resolve())
    return PRETRAINED_SIZES[arguments.size]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all seeds of a size and print the criteria."""
    parser = make_parser(__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--masked-model",
        type=Path,
        help="with --model: a pretrained masked model such as BERT, for DP2U-MLM",
    )
    arguments = parser.parse_args(argv)
    size, began = choose_size(arguments), time.perf_counter()
    if arguments.data is not None:
        size = replace(size, context=512, vocab=max(size.vocab, 4096))  # TOFU's answers are long
    import torch

    if size.device == "cpu":
        torch.set_num_threads(1)  # two threads on two busy cores slow each other down
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.dir or scratch)
        seeds = [
            run_seed(folder / f"seed-{seed}", size, seed, arguments)
            for seed in range(arguments.seeds or size.seeds)
        ]
        found, tables = criteria(seeds, size)
        found = with_intervals(
            found, compute_seed_intervals([criteria([seed], size)[0] for seed in seeds])
        )
    about = seeds[0].about
    shares = ", ".join(f"{count} ({100 * count / about['authors']:.1f} %)" for count in size.forget)
    data_text = (
        f"{about['authors']} invented authors"
        if about["source"] == "generated"
        else f"{about['authors']} of TOFU's authors (runs of 20 rows, which holds in {about['held_together']} of {about['runs']})"  # noqa: E501
    )
    model = f"GPT-2 of {size.layers} layers and width {size.width} that has read public answers"
    if arguments.model is not None:
        layers = "all layers" if size.top_layers is None else f"the top {size.top_layers} layers"
        rewriting = (
            "" if arguments.masked_model else "; DP2U-MLM needs a masked model, and is not measured"
        )
        model = f"{arguments.model.name}, {layers} trained{rewriting}"
    scaled = (
        f"{model}, {data_text} with {about['rows']} answers, {shares} of the authors are forgotten,"
        f" E = {size.epochs}, E' = {size.epochs // 2}, seeds: {len(seeds)}; the paper tunes Phi-1.5"
        " and Llama2-7B on 4,000 answers of 200 authors and forgets 1, 5 and 10 %. Its epsilon"
        " grid is a figure without numbers."
    )
    return report_criteria(
        "unlearning",
        arguments,
        found,
        tables=tables,
        scaled=scaled,
        seconds=time.perf_counter() - began,
    )


if __name__ == "__main__":
    run_script(main)
