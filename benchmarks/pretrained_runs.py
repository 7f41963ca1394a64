"""Trainings of a pretrained model on real mail and their measurements, which `papers/rmft.py` and
`papers/early_detection.py` share.

A cell is one training: a seed, a learning rate and a technique (a plan of `sanitize`, or an
objective on the raw mails). It keeps what it measured, and is never computed twice:

    DIR/settings.json                                the model, the data and the size that all cells
                                                     of the folder have
    DIR/seed-1/split/{train,test}/                   the mails of the seed
    DIR/seed-1/base.json                             the untrained model
    DIR/seed-1/lr-2e-04/baseline/step-000098.json    a measured checkpoint
    DIR/seed-1/lr-2e-04/baseline/result.json         a finished cell; its checkpoints are removed
                                                     then

So a size of hours runs in parts: the same command continues where it was stopped, also within a
training. Files hold numbers only, but the folder also has the mails and models that know them: it
is private.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sanitize
from benchmarks.criteria import draw_uniform
from benchmarks.runner import describe_processor
from sanitize import train
from sanitize.errors import InputRefused, UsageError
from sanitize.eval.language_model import LanguageModel
from sanitize.eval.metric import EvalContext
from sanitize.eval.metrics import ngram, verbatim
from sanitize.eval.metrics.extraction import Extraction
from sanitize.eval.run_folder import Checkpoint, RunFolder
from sanitize.eval.texts_and_prompts import count_addresses, read_texts
from sanitize.storage.files import read_json, write_json
from sanitize.train.recipe_data import folder_sha256

# the fields that a mail program shows; the others (X-Folder, Mime-Version, ...) take two thirds of
# a short mail
SHOWN_FIELDS = r"(?m)^(?:Date|From|To|Cc|Subject):[^\n]*(?:\n[ \t][^\n]*)*"
CAUSAL = {"use": "causal"}
PLANS = ("baseline", "rmft", "header_dedup")
MITIGATIONS = ("goldfish", "ngram_penalty", "top_layers")
STATE_EVERY = 100  # steps between saved states: what a killed training loses at most


@dataclass(frozen=True, kw_only=True)
class PretrainedSize:
    """Sizes of data, trainings and measurements. `lrs`: the primary rate, by which criteria are
    decided, and then the others."""

    mails: int
    max_chars: int | None  # longer mails are left out
    test_share: float
    seeds: int
    lrs: tuple[float, ...]
    epochs: int
    every: float  # epochs between measured checkpoints
    batch: int
    context: int
    top_layers: int | None  # layers that are trained, from the top; None: all
    fewer_top_layers: int  # of the technique `top_layers`
    web: int
    cues: int
    length: int  # tokens of a generic prompt and its continuation
    probes: int  # mails that are probed for verbatim memorization
    generated_rows: int = (
        64  # continuations of a batch; results do not depend on it, up to rounding
    )
    device: str = "cpu"


SIZES = {
    # named before the first run: 2e-4 decides, 5e-4 is reported beside it
    "real": PretrainedSize(
        mails=300,
        max_chars=400,
        test_share=0.2,
        seeds=3,
        lrs=(2e-4, 5e-4),
        epochs=4,
        every=1.0,
        batch=2,
        context=128,
        top_layers=10,
        fewer_top_layers=4,
        web=128,
        cues=128,
        length=128,
        probes=96,
    ),
    # full fine-tuning on one GPU
    "gpu": PretrainedSize(
        mails=8_586,
        max_chars=None,
        test_share=0.1,
        seeds=3,
        lrs=(2e-5,),
        epochs=3,
        every=1.0,
        batch=16,
        context=512,
        top_layers=None,
        fewer_top_layers=10,
        web=2_000,
        cues=1_000,
        length=256,
        probes=1_000,
        generated_rows=1_024,
        device="cuda",
    ),
}


@dataclass(frozen=True, repr=False)
class SeedData:
    """The mails of a seed, and the addresses of the raw training part, sorted: cells name an
    address by its place in this order."""

    seed: int
    folder: Path
    train: Path
    test: Path
    addresses: Mapping[str, int]


@dataclass(frozen=True)
class Cell:
    """One training."""

    seed: int
    lr: float
    technique: str

    def folder(self, root: Path) -> Path:
        """Where its measurements are."""
        return root / f"seed-{self.seed}" / f"lr-{self.lr:.0e}" / self.technique


class PretrainedRuns:
    """All cells of a model, a data set and a size, in a folder."""

    def __init__(
        self, root: Path, model: Path, data: Path, text_column: str, size: PretrainedSize
    ) -> None:
        self.root, self.model, self.data, self.text_column, self.size = (
            root,
            model,
            data,
            text_column,
            size,
        )
        self._by_seed: dict[int, SeedData] = {}
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        # how many seeds and rates there are belongs to no cell, and how it is computed changes no
        # result
        settings = {
            key: value
            for key, value in asdict(size).items()
            if key not in ("seeds", "lrs", "generated_rows", "device")
        }
        identity = {
            "model": folder_sha256(model),
            "data": data.name,
            "text_column": text_column,
            "size": settings,
        }
        existing = read_json(root / "settings.json")
        if existing is None:
            write_json(root / "settings.json", identity)
        elif existing != identity:
            wrong = ", ".join(sorted(key for key in identity if existing.get(key) != identity[key]))
            raise UsageError(
                f"{root}: holds results of another {wrong}; give another --dir, or remove this one"
            )

    # ---- data ----

    def prepare(self, seed: int) -> SeedData:
        """Read the mails once, and draw and split those of a seed; copies of a mail are left
        out."""
        if seed not in self._by_seed:
            folder = self.root / f"seed-{seed}"
            parts = {name: folder / "split" / name for name in ("train", "test")}
            if not all((part / "mails.parquet").is_file() for part in parts.values()):
                frame = self._read_mails()
                draws = draw_uniform(frame["doc_id"].to_list(), seed, purpose=b"limit")
                frame = frame[np.sort(np.argsort(draws, kind="stable")[: self.size.mails])]
                is_held_out = (
                    draw_uniform(frame["doc_id"].to_list(), seed, purpose=b"split")
                    < self.size.test_share
                )
                for name, rows in (("train", ~is_held_out), ("test", is_held_out)):
                    parts[name].mkdir(parents=True, exist_ok=True)
                    frame.filter(pl.Series(rows)).write_parquet(parts[name] / "mails.parquet.tmp")
                    (parts[name] / "mails.parquet.tmp").rename(parts[name] / "mails.parquet")
            found = count_addresses(read_texts(parts["train"]).texts)
            if not found:
                raise UsageError(
                    f"{self.data}: no mail addresses in the mails of seed {seed}; expected a corpus"
                    " of mails"
                )
            self._by_seed[seed] = SeedData(
                seed, folder, parts["train"], parts["test"], dict(sorted(found.items()))
            )
        return self._by_seed[seed]

    def _read_mails(self) -> pl.DataFrame:
        """`doc_id` and `text` of all mails that are short enough, with the fields that a mail
        program shows."""
        file = self.root / "mails.parquet"
        if not file.is_file():
            read = self.root / "read"
            source = project_columns(self.data, self.text_column, self.root / "columns")
            sanitize.run(
                [source],
                read,
                plan="baseline",
                text_column=self.text_column,
                seed=0,
                workers=1,
                verify="off",
                replace=True,
            )
            frame = pl.DataFrame(sanitize.Corpus.open(read).table()).select("doc_id", "text")
            header = (
                pl.col("text")
                .str.extract(r"(?s)\A(.*?)\n\n")
                .str.extract_all(SHOWN_FIELDS)
                .list.join("\n")
            )
            body = pl.col("text").str.replace(r"(?s)\A.*?\n\n", "").str.strip_chars()
            frame = frame.select("doc_id", text=header + "\n\n" + body + "\n").filter(
                pl.col("text").is_not_null()
            )
            if self.size.max_chars is not None:
                frame = frame.filter(pl.col("text").str.len_chars() <= self.size.max_chars)
            frame = frame.unique("text", keep="first", maintain_order=True)
            frame.write_parquet(file.with_suffix(".tmp"))
            file.with_suffix(".tmp").rename(file)
            for folder in (read, read.with_name("read.private"), self.root / "columns"):
                shutil.rmtree(folder, ignore_errors=True)
        frame = pl.read_parquet(file)
        if frame.height < self.size.mails:
            print(
                f"{self.data.name}: {frame.height} different mails are short enough;"
                f" {self.size.mails} were wanted",
                file=sys.stderr,
            )
        if frame.height < 20:
            raise UsageError(
                f"{self.data}: {frame.height} different mails are short enough; expected 20 at"
                " least"
            )
        return frame

    def _shards(self, data: SeedData, plan: str) -> Path:
        folder = data.folder / "data" / plan
        if not (folder / "manifest.json").is_file():
            sanitize.run(
                [data.train],
                folder,
                plan=plan,
                work=data.folder / "work",
                seed=data.seed,
                workers=1,
                replace=True,
            )
        return folder

    # ---- cells ----

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What a finished cell measured: `rows` by checkpoint, the untrained model first; None if
        it is not finished."""
        found = read_json(cell.folder(self.root) / "result.json")
        base = read_json(self.root / f"seed-{cell.seed}" / "base.json")
        return None if found is None or base is None else {**found, "rows": [base, *found["rows"]]}

    def measured_rows(self, cell: Cell) -> list[dict[str, Any]]:
        """What was measured of a cell so far, the untrained model first: all checkpoints of a
        finished one, some of an unfinished one."""
        found = self.result(cell)
        if found is not None:
            return list(found["rows"])
        files = [
            self.root / f"seed-{cell.seed}" / "base.json",
            *sorted(cell.folder(self.root).glob("step-*.json")),
        ]
        return [row for file in files if (row := read_json(file)) is not None]

    def compute(self, cell: Cell) -> None:
        """Train and measure a cell, from where it was stopped."""
        folder = cell.folder(self.root)
        if self.result(cell) is not None:
            return
        data, began = self.prepare(cell.seed), time.process_time()
        shards = self._shards(data, cell.technique if cell.technique in PLANS else "baseline")
        report_progress(f"seed {cell.seed}, lr {cell.lr:g}, {cell.technique}: training")
        train.fit(self._recipe(cell, shards), folder / "run", progress=report_progress)
        run = RunFolder.open(folder / "run")
        trained_s = time.process_time() - began
        self._measure_base(data, run)
        rows = []
        for checkpoint in run.trained_checkpoints:
            file = folder / f"{checkpoint.name}.json"
            row = read_json(file)
            if row is None:
                report_progress(
                    f"seed {cell.seed}, lr {cell.lr:g}, {cell.technique}: measuring epoch"
                    f" {checkpoint.epoch:g}"
                )
                row = self._measure(
                    data,
                    run,
                    checkpoint,
                    checkpoint.path,
                    probe=cell.technique in ("baseline", *MITIGATIONS),
                )
                write_json(file, row)
            rows.append(row)
        settings = {
            "steps": run.summary["steps"],
            "train_cpu_s": round(trained_s, 1),
            "device": describe_device(self.size.device),
        }
        write_json(folder / "result.json", {**asdict(cell), **settings, "rows": rows})
        shutil.rmtree(folder / "run")
        for row_file in folder.glob("step-*.json"):
            row_file.unlink()

    def _recipe(self, cell: Cell, shards: Path) -> dict[str, Any]:
        size = self.size
        objective: dict[str, Any] = {
            "goldfish": {"use": "goldfish", "k": 4, "h": 4},
            "ngram_penalty": {"use": "ngram_penalty", "lam": 10.0, "tau": 0.02},
        }.get(cell.technique, CAUSAL)
        top_layers = size.fewer_top_layers if cell.technique == "top_layers" else size.top_layers
        return {
            "data": {"path": str(shards), "layout": "packed"},
            "model": {
                "path": str(self.model),
                "context": size.context,
                **({"top_layers": top_layers} if top_layers else {}),
            },
            "objective": objective,
            "run": {
                "seed": cell.seed,
                "epochs": size.epochs,
                "batch": size.batch,
                "lr": cell.lr,
                "schedule": "constant",
                "clip": 1.0,
                "checkpoint_every": size.every,
                "state_every": STATE_EVERY,
                "device": size.device,
            },
        }

    # ---- measurements ----

    def _measure_base(self, data: SeedData, run: RunFolder) -> None:
        file = data.folder / "base.json"
        if not file.is_file():
            report_progress(f"seed {data.seed}: measuring the untrained model")
            write_json(
                file,
                self._measure(data, run, Checkpoint(0, 0.0, self.model), self.model, probe=True),
            )

    def _measure(
        self, data: SeedData, run: RunFolder, checkpoint: Checkpoint, path: Path, *, probe: bool
    ) -> dict[str, Any]:
        """Leaks by generic prompts and cues, loss of every held-out mail, and with `probe` verbatim
        memorization and n-gram scores."""
        size, began = self.size, time.process_time()
        model = LanguageModel.load(path, size.device)
        extraction = Extraction(
            use="extraction",
            web=size.web,
            cues=size.cues,
            length=size.length,
            batch=size.generated_rows,
        )
        extraction.setup(EvalContext(seed=data.seed, original_addresses=data.addresses))
        found = extraction.on_checkpoint(run, checkpoint, model)
        number = {address: place for place, address in enumerate(data.addresses)}
        leaked: dict[str, list[int]] = {family: [] for family in found}
        for one in extraction.list_leaked_values():
            leaked[one.how].append(number[one.value])
        start = model.begin_ids
        held = [start + row for row in model.encode(read_texts(data.test).texts)]
        losses = [
            one[len(start) - 1 :].astype(np.float64) for one in model.token_losses(held, batch=32)
        ]
        measured: dict[str, Any] = {
            "step": checkpoint.step,
            "epoch": checkpoint.epoch,
            "train_loss": checkpoint.train_loss,
            "extraction": found,
            "leaked": leaked,
            "held_loss": [round(float(one.sum()), 4) for one in losses],
            "held_tokens": [len(one) for one in losses],
        }
        if probe:
            texts = read_texts(data.train).subsample(size.probes)
            points = verbatim.choose_probe_points(
                model.encode(texts.texts), texts.doc_ids, seed=data.seed
            )
            generated = [
                verbatim.generate_continuations(model, points, k, batch=size.generated_rows)
                for k in verbatim.PREFIX_LENGTHS
            ]
            measured["memorized"] = [
                verbatim.is_memorized(one, points.suffix_tokens).astype(int).tolist()
                for one in generated
            ]
            scores = [ngram.ngram_scores(one, points.suffix_tokens) for one in generated]
            measured["scores"] = [
                [None if np.isnan(value) else round(float(value), 3) for value in one]
                for one in scores
            ]
            measured["categories"] = ngram.categorize_texts(
                [texts.texts[row] for row in points.text_numbers]
            )
            measured["probed"] = points.text_numbers.tolist()
        return {**measured, "cpu_s": round(time.process_time() - began, 1)}


def project_columns(data: Path, text_column: str, folder: Path) -> Path:
    """The column of texts alone, if `data` is Parquet: other columns of a corpus may name people,
    and are not trained on."""
    files = (
        sorted(data.glob("*.parquet"))
        if data.is_dir()
        else [data]
        if data.suffix == ".parquet"
        else []
    )
    if not files:
        return data
    frames = [pl.scan_parquet(file, glob=False) for file in files]
    if any(text_column not in frame.collect_schema().names() for frame in frames):
        raise UsageError(
            f"{data}: no column {text_column}; give the one of the texts with --text-column"
        )
    folder.mkdir(parents=True, exist_ok=True)
    pl.concat([frame.select(text_column) for frame in frames]).collect().write_parquet(
        folder / "texts.parquet"
    )
    return folder / "texts.parquet"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sizes with a pretrained model."""
    parser.add_argument(
        "--only-seeds",
        type=int,
        nargs="+",
        metavar="SEED",
        help="with --model: compute these seeds only, such as 1 2",
    )
    parser.add_argument(
        "--lr",
        type=float,
        nargs="+",
        help="with --model: learning rates; the first decides (default: by size)",
    )
    parser.add_argument(
        "--device",
        help="with --model: where to train and to measure, such as cuda (default: by size)",
    )
    parser.add_argument(
        "--only-report",
        action="store_true",
        help="with --model: compute nothing, and report the finished trainings",
    )


def open_runs(arguments: argparse.Namespace) -> PretrainedRuns:
    """The cells that the options of a script name; UsageError if one is missing."""
    if arguments.size not in SIZES:
        raise UsageError(
            f"--model with --size {arguments.size}: expected --size {' or '.join(SIZES)}"
        )
    if arguments.data is None:
        raise UsageError(
            f"--size {arguments.size} is on real mail; give a corpus of mails with --data, and its"
            " column with --text-column"
        )
    if arguments.model is None or not (arguments.model / "config.json").is_file():
        raise InputRefused(
            f"--model {arguments.model}: no model in Hugging Face layout; `make model` writes one"
            " to models/smollm2-135m"
        )
    root = (
        arguments.dir
        or Path.cwd()
        / "papers.private"
        / f"{arguments.size}-{arguments.model.name}-{arguments.data.stem}"
    )
    size = replace(SIZES[arguments.size], device=arguments.device or SIZES[arguments.size].device)
    return PretrainedRuns(
        root, arguments.model.resolve(), arguments.data, arguments.text_column, size
    )


def describe_device(device: str) -> str:
    """The name of the GPU or of the processor on which cells are computed."""
    import torch

    return (
        torch.cuda.get_device_name(device)
        if device.startswith("cuda")
        else str(describe_processor()["cpu"])
    )


def describe_devices(runs: PretrainedRuns, cells: Sequence[Cell]) -> str:
    """Where the finished of these cells were computed, as the end of a sentence; empty if none says
    so."""
    results = [result for cell in cells if (result := runs.result(cell)) is not None]
    names = sorted({str(result["device"]) for result in results if "device" in result})
    return f"; computed on {' and '.join(names)}" if names else ""


def compute_cells(
    runs: PretrainedRuns,
    arguments: argparse.Namespace,
    techniques: Sequence[str],
    lrs: Sequence[float],
    *,
    others: Sequence[str] | None = None,
) -> list[int]:
    """Compute the cells that the options name; return the seeds to report: those for which all
    techniques are finished at the first rate, or where there are none those with the first
    technique; none if that is not finished either. `others`: the techniques at the other rates,
    where these are fewer."""
    seeds = list(range(1, (arguments.seeds or runs.size.seeds) + 1))
    if runs.size.device == "cpu":
        import torch

        torch.set_num_threads(1)  # two processes of one thread each are faster than one of two
    for lr in () if arguments.only_report else lrs:
        for seed in arguments.only_seeds or seeds:
            for technique in techniques if lr == lrs[0] or others is None else others:
                runs.compute(Cell(seed, lr, technique))
    finished = {
        seed: [one for one in techniques if runs.result(Cell(seed, lrs[0], one)) is not None]
        for seed in seeds
    }
    complete = [seed for seed, found in finished.items() if len(found) == len(techniques)]
    return complete or [seed for seed, found in finished.items() if techniques[0] in found]


def describe_missing(runs: PretrainedRuns, cells: Sequence[Cell]) -> str:
    """Which of the planned cells are not finished, as the end of a sentence; empty if none."""
    missing = [cell for cell in cells if runs.result(cell) is None]
    if not missing:
        return ""
    by_kind: dict[tuple[float, str], list[str]] = {}
    for cell in missing:
        by_kind.setdefault((cell.lr, cell.technique), []).append(str(cell.seed))
    parts = [
        f"{technique} at {lr:g} of seed {' '.join(seeds)}"
        for (lr, technique), seeds in by_kind.items()
    ]
    return f"; not measured yet: {', '.join(parts)}"


def report_progress(line: str) -> None:
    """One line on standard error, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
