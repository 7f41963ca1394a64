"""Reads the documents that a run was trained on: prompts and texts, as its recipe.json names them.

The interface is the run folder; documents are read by the reader of the training, so that texts and
ids are the same. Used by metrics on training data, by `early_stop.py` during training and by
`unlearning_receipt.py` after unlearning.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sanitize.errors import InputRefused, OutputBroken
from sanitize.storage.files import parse_json
from sanitize.storage.records.conversations import ChatTemplate
from sanitize.storage.records.splits import TRAIN
from sanitize.train.corpus_reader import read_documents

from .run_folder import RunFolder, read_first_steps
from .texts_and_prompts import TextSet


@dataclass(frozen=True, repr=False)
class TrainedDocuments:
    """Documents in the order of the data, each with what precedes its text in training: a prompt
    that ends in a line end, or nothing (an empty prompt)."""

    doc_ids: tuple[str, ...]
    prompts: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def select_rows(self, rows: Collection[int]) -> TrainedDocuments:
        """Return the documents of these rows."""
        return TrainedDocuments(
            *(
                tuple(column[row] for row in rows)
                for column in (self.doc_ids, self.prompts, self.texts)
            )
        )

    def join_prompts(self) -> tuple[str, ...]:
        """Return the documents as they were trained on: each text after its prompt."""
        return tuple(prompt + text for prompt, text in zip(self.prompts, self.texts, strict=True))

    def subsample(self, most: int) -> TrainedDocuments:
        """Return at most `most` documents, evenly spaced."""
        return (
            self
            if most >= len(self)
            else self.select_rows([number * len(self) // most for number in range(most)])
        )


def read_trained_documents(
    recipe_path: Path, data: Path | None = None, *, seen_only: bool = False
) -> TrainedDocuments:
    """Read the training documents of the run with this recipe.json, without empty texts; `data`:
    their path, if they were moved.

    Columns, ids, split and chat template are those of the training. With `seen_only`, only
    documents that its batches have. Raises OutputBroken if recipe.json does not name them,
    InputRefused if they do not exist, or are not those the run was trained on.
    """
    try:
        run: dict[str, Any] = parse_json(recipe_path.read_text("utf-8"))
        settings: dict[str, Any] = run["recipe"].get("data", {})
        described: dict[str, Any] = run.get("data") or settings
        # absolute, where the recipe's own may be relative to the folder in which the training began
        path = Path(described["path"])
        columns = (
            tuple(settings.get("prompt_columns", ()))
            if settings.get("prompts", "include") == "include"
            else ()
        )
        template = run.get("chat_template")
        chat_template = (
            ChatTemplate()
            if template is None
            else ChatTemplate(template["source"], tuple(map(tuple, template["tokens"])))
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputBroken(
            f"{recipe_path}: does not say what the run is trained on ({type(error).__name__});"
            " train again"
        ) from None
    documents = read_documents(
        data or path,
        text_column=str(settings.get("text_column", "text")),
        id_column=str(settings.get("id_column", "doc_id")),
        prompt_columns=columns,
        split=str(settings.get("split", TRAIN)),
    )
    if data is None and described.get("sha256") not in (None, documents.shards_sha256):
        raise InputRefused(
            f"{path}: is not what {recipe_path.parent} was trained on: its files have changed"
            " since, so that what the model has seen is unknown. Restore them from a copy; a"
            " receipt takes the path of one with --data"
        )
    if documents.has_turns:
        documents = documents.with_template(chat_template, with_spans=False)
    table = pl.DataFrame(pl.from_arrow(documents.table)).filter(pl.col("text").str.len_bytes() > 0)
    if seen_only:
        seen = pl.DataFrame(read_first_steps(recipe_path.parent)).select("doc_id").unique()
        table = table.join(seen, on="doc_id", how="semi", maintain_order="left")
    prompts = table["prompt"].to_list() if "prompt" in table.columns else [""] * table.height
    return TrainedDocuments(
        tuple(table["doc_id"].to_list()), tuple(prompts), tuple(table["text"].to_list())
    )


def read_seen_texts(run: RunFolder) -> TextSet:
    """Return the documents that the batches of a run have, each after its prompt, with their ids.
    Raises as `read_trained_documents`."""
    documents = read_trained_documents(run.path / "recipe.json", seen_only=True)
    return TextSet(documents.doc_ids, documents.join_prompts())
