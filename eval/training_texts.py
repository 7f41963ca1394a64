"""What a run was taught, document by document: the prompt and the text, as its recipe.json names them.

The face is the folder, as everywhere here. `stop.py` asks a model that is still learning for them, `receipt.py` one that was to forget
some.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken

from .probe_inputs import read_texts


@dataclass(frozen=True, repr=False)
class Taught:
    """Documents in the order of the data; `prompts` are empty where a run has none, else they end in a line end."""

    doc_ids: tuple[str, ...]
    prompts: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def some(self, rows: Collection[int]) -> Taught:
        """The documents of some rows."""
        return Taught(*(tuple(column[row] for row in rows) for column in (self.doc_ids, self.prompts, self.texts)))

    def spread(self, most: int) -> Taught:
        """At most so many of them, spread evenly."""
        return self if most >= len(self) else self.some([number * len(self) // most for number in range(most)])


def taught(recipe: Path, data: Path | None = None) -> Taught:
    """The documents of the run whose recipe.json this is, those with an empty text left out; `data` where they lie elsewhere by now.

    Raises OutputBroken where it does not name them, UsageError where they are not there.
    """
    try:
        told: dict[str, Any] = json.loads(recipe.read_text("utf-8"))["recipe"]["data"]
        path, text, ids = Path(told["path"]), str(told["text_column"]), str(told["id_column"])
        columns = list(told["prompt_columns"]) if told["prompts"] == "include" else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputBroken(f"{recipe}: does not say what the run is trained on ({type(error).__name__}); train again") from None
    found = read_texts(data or path, column=text, ids=ids)
    prompts = dict.fromkeys(found.doc_ids, "")
    for column in columns:
        more = read_texts(data or path, column=column, ids=ids)
        for doc_id, part in zip(more.doc_ids, more.texts, strict=True):  # one prompt a document; a handful of columns
            if doc_id in prompts:
                prompts[doc_id] += f"{part}\n"
    return Taught(found.doc_ids, tuple(prompts[one] for one in found.doc_ids), found.texts)
