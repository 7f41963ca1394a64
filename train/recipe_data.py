"""What a recipe trains on: its documents, tokenizer, rows and batches, and the identity of all of
it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.errors import InputRefused, UsageError
from sanitize.storage.files import file_sha256, read_regular_file
from sanitize.storage.records.conversations import PLAIN_TEMPLATE, ChatTemplate

from .adapters import find_base_folder, is_adapter
from .batches import LANE_LIMIT, BatchPlan, BatchStream, TokenRows, draw_permutation, pack_rows
from .corpus_reader import DocumentTable, read_documents, select_listed_documents
from .model import (
    DEFAULT_CONTEXT,
    get_special_tokens,
    load_tokenizer,
    require_torch,
    train_tokenizer,
)
from .noise import NOISE_VERSION
from .objectives import Objective
from .recipe import Recipe
from .tokenization import tokenize_documents


def read_recipe_documents(
    recipe: Recipe, path: str, *, is_validation: bool = False
) -> DocumentTable:
    """Read the documents of a path with the columns that a recipe needs.

    `leave_out`, `limit` and `spans_from` apply to the training data only, not to validation data.
    """
    settings, objective = recipe.data, recipe.build_objective()
    documents = read_documents(
        path,
        text_column=settings.text_column,
        id_column=settings.id_column,
        label_column=settings.label_column if objective.HEAD == "classify" else None,
        user_column=(
            recipe.privacy.user_column
            if recipe.privacy is not None and recipe.privacy.unit == "user" and not is_validation
            else None
        ),
        prompt_columns=settings.prompt_columns if settings.prompts == "include" else (),
        with_pii_spans=settings.leave_out_pii and not settings.spans_from,
        split=settings.validation_split if is_validation else settings.split,
    )
    if is_validation:
        return documents
    if path == settings.path and settings.spans_from:
        documents = documents.with_pii_spans(settings.spans_from)
    if path == settings.path and settings.leave_out:
        kept = ~select_listed_documents(documents.doc_ids, settings.leave_out)
        if not kept.any():
            raise UsageError(
                f"{settings.leave_out}: names every document, so that none is left to train on"
            )
        documents = documents.filter_rows(kept)
    if path == settings.path and settings.limit is not None and settings.limit < len(documents):
        drawn_numbers = np.sort(
            draw_permutation(len(documents), seed=recipe.run.seed, epoch=0, lane=LANE_LIMIT)[
                : settings.limit
            ]
        )
        documents = replace(documents, table=documents.table.take(pa.array(drawn_numbers)))
    return documents


def get_tokenizer(recipe: Recipe, documents: DocumentTable) -> Any:
    """Load the tokenizer that a recipe names, or train one on the recipe's tokenizer corpus
    (default: these documents)."""
    settings = recipe.tokenizer
    source = settings.path or ("" if settings.corpus else recipe.model.path)
    if source:
        return load_tokenizer(source)
    corpus = (
        read_documents(settings.corpus, text_column=recipe.data.text_column)
        if settings.corpus
        else documents
    )
    return train_tokenizer(
        corpus.texts(),
        vocab_size=settings.vocab,
        context_length=recipe.model.context or DEFAULT_CONTEXT,
    )


def find_chat_template(recipe: Recipe, tokenizer: Any) -> ChatTemplate:
    """Return the template that writes conversations: the recipe's, else the tokenizer's own, else
    one line for each turn. It becomes the tokenizer's, and so is saved with each checkpoint.
    """
    path = recipe.data.chat_template
    name, source = path, tokenizer.chat_template
    if path:
        try:
            source = read_regular_file(Path(path)).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"data.chat_template = {path!r}: cannot be read ({type(error).__name__}); expected"
                " a Jinja file"
            ) from None
    elif not isinstance(source, str):  # none, or several by name
        source = (source or {}).get("default", PLAIN_TEMPLATE)
    tokenizer.chat_template = source
    tokens = {
        key: str(token)
        for key, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str)
    }
    return ChatTemplate(source, tuple(tokens.items()), name or "the tokenizer's chat template")


def make_rows(
    documents: DocumentTable,
    recipe: Recipe,
    objective: Objective,
    tokenizer: Any,
    context_length: int,
    labels: tuple[str, ...] = (),
) -> TokenRows:
    """Tokenize the documents and pack them into rows by the recipe's layout."""
    settings = recipe.data
    if documents.has_turns:
        documents = documents.with_template(
            find_chat_template(recipe, tokenizer), with_spans=settings.answers_only
        )
    elif settings.answers_only and not settings.prompt_columns:
        raise UsageError(
            "data.answers_only needs data.prompt_columns or conversations; there is no prompt to"
            " leave out"
        )
    rewrites = type(objective).rewrite_texts is not Objective.rewrite_texts
    if rewrites and settings.leave_out_pii:
        raise UsageError(
            f"data.leave_out_pii: objective {objective.use} changes the texts, so that their spans"
            " would be wrong; use one of the two"
        )
    tokens = tokenize_documents(
        documents,
        tokenizer,
        answers_only=settings.answers_only,
        leave_out_pii=settings.leave_out_pii,
        select_maskable_words=objective.select_maskable_words if objective.NEEDS_WORDS else None,
        rewrite_texts=objective.rewrite_texts if rewrites else None,
    )
    if labels:
        numbers = pc.index_in(documents.table.column("label"), pa.array(labels, pa.large_string()))
        if numbers.null_count:
            raise InputRefused(
                f"{documents.path}: {numbers.null_count} documents have a label that the training"
                " data does not have"
            )
        tokens = tokens.with_labels(numbers.to_numpy().astype(np.int64))
    prefix, suffix = get_special_tokens(tokenizer, objective.HEAD)
    return pack_rows(
        tokens,
        layout=settings.layout,
        context_length=context_length,
        seed=recipe.run.seed,
        pad_id=tokenizer.pad_token_id,
        prefix=prefix,
        suffix=suffix,
        specials_per_piece=objective.HEAD != "causal",
        overlong=settings.overlong,
        isolates_documents=settings.attention == "document",
    )


def find_labels(data: DocumentTable) -> tuple[str, ...]:
    """Return the distinct labels of the documents, in ascending order; InputRefused if there are
    fewer than two, or a document has none."""
    column = data.table.column("label")
    if column.null_count:
        raise InputRefused(
            f"{data.path}: {column.null_count} documents have no label; give each one, or leave"
            " these documents out"
        )
    found = tuple(sorted(pc.unique(column).to_pylist()))
    if len(found) < 2:
        raise InputRefused(
            f"{data.path}: the label column has {len(found)} distinct value; expected two or more"
        )
    return found


def make_batch_plan(recipe: Recipe, rows: TokenRows) -> BatchPlan:
    """Return the batch plan of a recipe without privacy over these rows."""
    return BatchPlan(
        row_count=len(rows),
        batch_size=recipe.run.batch,
        seed=recipe.run.seed,
        epochs=recipe.run.epochs,
        max_steps=recipe.run.max_steps,
    )


def stream_batches(
    recipe: Recipe | Mapping[str, Any] | str | Path, *, rank: int = 0, world_size: int = 1
) -> BatchStream:
    """Return the batches of a recipe as a resumable stream, for a training loop of your own; no
    model is built.

    `stream.to_torch_dataset()` gives it to torch's loaders;
    `batches.compute_first_steps(stream.rows, stream.batch_plan)` says which documents each step has
    seen. Raises the errors of `fit`.
    """
    recipe = Recipe.load(recipe)
    require_torch()
    objective = recipe.build_objective()
    if recipe.privacy is not None or objective.IS_UNLEARNING:
        raise UsageError(
            "recipes with privacy or an unlearning objective cannot be streamed, they need their"
            " own loop; use sanitize-train"
        )
    data = read_recipe_documents(recipe, recipe.data.path)
    labels = find_labels(data) if objective.HEAD == "classify" else ()
    rows = make_rows(
        data,
        recipe,
        objective,
        get_tokenizer(recipe, data),
        recipe.model.context or DEFAULT_CONTEXT,
        labels,
    )
    return BatchStream(rows, make_batch_plan(recipe, rows), rank=rank, world_size=world_size)


def compute_run_identity(
    recipe: Recipe, data: DocumentTable, validation: DocumentTable | None
) -> dict[str, Any]:
    """Return what must be equal for a run folder to be resumed: the recipe's hash, the hashes of
    the contents of all its paths, and the generator of the noise."""
    paths = {
        "tokenizer": recipe.tokenizer.path,
        "base model": recipe.model.path,
        **recipe.build_objective().input_paths(),
    }
    if recipe.data.chat_template:
        paths["chat template"] = recipe.data.chat_template
    if recipe.data.leave_out:
        paths["list of documents left out"] = recipe.data.leave_out
    return {
        "recipe": recipe.hash(),
        "data": data.shards_sha256,
        "validation data": None if validation is None else validation.shards_sha256,
        "tokenizer corpus": (
            read_documents(
                recipe.tokenizer.corpus, text_column=recipe.data.text_column
            ).shards_sha256
            if recipe.tokenizer.corpus
            else None
        ),
        "noise generator": None if recipe.privacy is None else NOISE_VERSION,
        **{name: folder_sha256(path) if path else None for name, path in paths.items()},
    }


def folder_sha256(path: str | Path) -> str:
    """Return one hash of the files directly inside a folder, or of one file; InputRefused if the
    path does not exist.

    That of an adapter has the files of its base model in it, too.
    """
    source = Path(path)
    if not (source.is_dir() or source.is_file()):
        raise InputRefused(
            f"{source}: there is no such folder or file; paths in a recipe are local, nothing is"
            " downloaded"
        )
    files = (
        [source]
        if source.is_file()
        else sorted(file for file in source.iterdir() if file.is_file())
    )
    lines = [f"{file.name} {file_sha256(file)}\n" for file in files]
    if is_adapter(source):
        lines.append(f"base {folder_sha256(find_base_folder(source))}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
