"""Real corpora as frames of texts, and runs of a shipped plan over such a frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import sanitize

# file -> column of its texts, and what kind of texts these are
CORPORA = {
    "mail/enron.parquet": ("raw", "mail"),
    "mail/linux-man.parquet": ("raw", "mail"),
    "mail/spamassassin.parquet": ("raw", "mail"),
    "users/newsgroups20.parquet": ("raw", "mail"),
    "text/wikitext2_valid.txt": ("text", "web"),
    "text/tinyshakespeare.txt": ("text", "web"),
    "pii/lifebench_users1-6.jsonl": ("text", "chat"),
    "pii/pupa_new.jsonl": ("text", "chat"),
    "pii/presidio_synth_v2.jsonl": ("text", "chat"),
    "pii/wnut17_train.jsonl": ("text", "web"),
    "pii/ambientmeta_standard.jsonl": ("text", "chat"),
    "users/llmprivacy_synthetic.jsonl": ("response", "chat"),
    "users/mtsamples.jsonl": ("text", "web"),
}


def read_texts(data: Path, name: str, documents: int) -> pl.DataFrame:
    """The first documents of a corpus: an id, a user (one of 40, in turn) and a text each.
    Paragraphs, of a file of text."""
    path, (column, _) = data / name, CORPORA[name]
    if path.suffix == ".txt":
        paragraphs = path.read_text("utf-8").split("\n\n")
        texts = [part for part in paragraphs if part.strip()][: 5 * documents]
    elif path.suffix == ".parquet":
        raw = pl.read_parquet(path, columns=[column]).head(documents)[column]
        texts = [one.decode("utf-8", "replace") for one in raw]
    else:
        rows = pl.read_ndjson(path, infer_schema_length=None)
        texts = rows[column].head(documents).to_list()
    number = pl.int_range(pl.len())
    return pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)}).select(
        pl.format("d{}", number).alias("id"), pl.format("u{}", number % 40).alias("user_id"), "text"
    )


def run_plan(texts: pl.DataFrame, plan: str, folder: Path, **settings: Any) -> sanitize.RunResult:
    """One run of a plan over texts with ids, into FOLDER/out; the same key for all."""
    texts.write_parquet(folder / "in.parquet")
    fixed: dict[str, Any] = {"id_column": "id", "seed": 7, "workers": 1}
    run: Callable[..., sanitize.RunResult] = sanitize.run
    return run(folder / "in.parquet", folder / "out", plan=plan, **fixed, **settings)


def read_output(folder: Path) -> pl.DataFrame:
    """What `run_plan` published."""
    return pl.read_parquet(folder / "out" / "data" / "*.parquet")


def read_sweeps(folder: Path, done: sanitize.RunResult) -> pl.DataFrame:
    """What the leak check of a run removed: document, place, kind and value of each sweep."""
    files = (folder / "out.private" / "runs" / done.run_hash / "sweep").glob("[0-9]*.parquet")
    numbers = ("doc_no", "start_byte", "end_byte", "value_id")
    schema: dict[str, Any] = {**dict.fromkeys(numbers, pl.Int64), "kind": pl.String}
    frames = [pl.read_parquet(file, columns=list(schema)).cast(schema) for file in sorted(files)]
    return pl.concat([pl.DataFrame(schema=schema), *frames])
