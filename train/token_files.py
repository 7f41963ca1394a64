"""The rows of a run on disk: RUN/tokens/ holds one array a file, which all processes map into
memory; deleted when the run is finished.

    RUN/tokens/tokens.json  tokenizer.json ...  train/token_ids.npy ...  retain/  validation/

Tokenizing is done once, by rank 0; the other processes, and the same command after a kill, map what
is there. Written under a temporary name and renamed: a folder that has its final name is complete.
Tokens can be decoded to the texts, so the folder is as private as the data.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather

from sanitize.errors import OutputBroken
from sanitize.storage.files import fsync, read_json, write_json

from .batches import TokenRows
from .model import load_tokenizer

_ARRAYS = (
    "token_ids",
    "row_starts",
    "doc_numbers",
    "loss_mask",
    "word_ids",
    "is_maskable",
    "doc_labels",
)


@dataclass(frozen=True, repr=False)
class TokenFiles:
    """What `write_token_files` wrote: rows by name (`train`, `retain`, `validation`), the tokenizer
    and the labels of a classifier."""

    rows: Mapping[str, TokenRows]
    tokenizer: Any
    labels: tuple[str, ...]


def write_token_files(
    folder: Path, rows: Mapping[str, TokenRows], tokenizer: Any, labels: Sequence[str]
) -> None:
    """Write rows, tokenizer and labels into `folder`; what is there is replaced."""
    temp_path = folder.with_name(folder.name + ".tmp")
    for path in (temp_path, folder):
        shutil.rmtree(path, ignore_errors=True)
    temp_path.mkdir(parents=True, mode=0o700)  # tokens are the texts
    for name, found in rows.items():
        part = temp_path / name
        part.mkdir()
        for array_name in _ARRAYS:
            array = getattr(found, array_name)
            if array is not None:
                np.save(part / f"{array_name}.npy", array)
        pa.feather.write_feather(
            pa.table({"doc_id": found.doc_ids}), part / "doc_ids.arrow", compression="uncompressed"
        )
    tokenizer.save_pretrained(temp_path)
    write_json(
        temp_path / "tokens.json",
        {
            "labels": list(labels),
            "chat_template": tokenizer.chat_template,
            "rows": {
                name: {"pad_id": found.pad_id, "isolates_documents": found.isolates_documents}
                for name, found in rows.items()
            },
        },
    )
    for path in temp_path.rglob("*"):
        if path.is_file():
            fsync(path)
    temp_path.rename(folder)
    fsync(folder.parent)


def load_token_files(folder: Path) -> TokenFiles:
    """Map the rows of a folder into memory; OutputBroken if a file is damaged."""
    info = read_json(folder / "tokens.json")
    try:
        if info is None:
            raise ValueError("no tokens.json")
        rows = {
            name: _load_rows(folder / name, **settings) for name, settings in info["rows"].items()
        }
        tokenizer = load_tokenizer(folder)
        tokenizer.chat_template = info["chat_template"]
        return TokenFiles(rows, tokenizer, tuple(info["labels"]))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise OutputBroken(
            f"{folder}: cannot be read ({type(error).__name__}); remove it, then run the same"
            " command again"
        ) from None


def _load_rows(part: Path, *, pad_id: int, isolates_documents: bool) -> TokenRows:
    # views as plain arrays: operations on numpy.memmap return that class
    arrays = {
        name: (
            np.load(part / f"{name}.npy", mmap_mode="r").view(np.ndarray)
            if (part / f"{name}.npy").is_file()
            else None
        )
        for name in _ARRAYS
    }
    doc_ids = (
        pa.feather.read_table(part / "doc_ids.arrow", memory_map=True)
        .column("doc_id")
        .combine_chunks()
    )
    if isinstance(doc_ids, pa.ChunkedArray):
        doc_ids = doc_ids.chunk(0)
    required: dict[str, Any] = arrays
    return TokenRows(
        **required, doc_ids=doc_ids, pad_id=pad_id, isolates_documents=isolates_documents
    )
