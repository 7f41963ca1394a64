"""Reads the documents that a run was trained on: prompts and texts, as its recipe.json names them.

The interface is the run folder. Used by `early_stop.py` during training and by `unlearning_receipt.py` after unlearning.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken
from sanitize.storage.files import parse_json
from sanitize.storage.records.conversations import ChatTemplate
from sanitize.storage.records.splits import TRAIN

from .texts_and_prompts import read_texts


@dataclass(frozen=True, repr=False)
class TrainedDocuments:
    """Documents in the order of the data; a prompt is empty or ends in a line end."""

    doc_ids: tuple[str, ...]
    prompts: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def select_rows(self, rows: Collection[int]) -> TrainedDocuments:
        """Return the documents of these rows."""
        return TrainedDocuments(*(tuple(column[row] for row in rows) for column in (self.doc_ids, self.prompts, self.texts)))

    def subsample(self, most: int) -> TrainedDocuments:
        """Return at most `most` documents, evenly spaced."""
        return self if most >= len(self) else self.select_rows([number * len(self) // most for number in range(most)])


def read_trained_documents(recipe_path: Path, data: Path | None = None) -> TrainedDocuments:
    """Read the training documents of the run with this recipe.json, without empty texts; `data` is their path if they were moved.

    Raises OutputBroken if recipe.json does not name them, UsageError if they do not exist.
    """
    try:
        run: dict[str, Any] = parse_json(recipe_path.read_text("utf-8"))
        settings: dict[str, Any] = run["recipe"]["data"]
        path, text, ids = Path(settings["path"]), str(settings["text_column"]), str(settings["id_column"])
        columns = list(settings["prompt_columns"]) if settings["prompts"] == "include" else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputBroken(f"{recipe_path}: does not say what the run is trained on ({type(error).__name__}); train again") from None
    split, template = str(settings.get("split", TRAIN)), None
    if "chat_template" in run:
        template = ChatTemplate(str(run["chat_template"]["source"]), tuple(map(tuple, run["chat_template"]["tokens"])))
    found = read_texts(data or path, text_column=text, id_column=ids, split=split, template=template)
    prompts = dict.fromkeys(found.doc_ids, "")
    for column in columns:
        prompt_part = read_texts(data or path, text_column=column, id_column=ids, split=split)
        for doc_id, part in zip(prompt_part.doc_ids, prompt_part.texts, strict=True):  # one prompt a document; a handful of columns
            if doc_id in prompts:
                prompts[doc_id] += f"{part}\n"
    return TrainedDocuments(found.doc_ids, tuple(prompts[one] for one in found.doc_ids), found.texts)
