"""Training on what `sanitize run` publishes of chat data: shapes, templates, loss on the assistant
only, attention within documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sanitize
import sanitize.train as train
from sanitize.errors import UsageError
from tests.support import write_json_lines

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] +"
    " '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%"
    " endif %}"
)
WORDS = "ada bob cleo dan eve finn gus hal".split()


def make_chats(count: int) -> list[dict[str, Any]]:
    return [
        {
            "messages": [
                {
                    "role": "user",
                    "content": (
                        f"Where is {WORDS[number % 8]}? Write to {WORDS[number % 5]}@example.com."
                    ),
                },
                {"role": "assistant", "content": f"At home, says {WORDS[number * 3 % 8]}."},
            ]
        }
        for number in range(count)
    ]


def test_published_chats_are_trained_on_and_evaluated(recipe: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_json_lines(folder / "train.jsonl", make_chats(20))
    write_json_lines(folder / "test.jsonl", make_chats(4))
    sanitize.run(folder, tmp_path / "clean", plan="redact", workers=1)
    template = tmp_path / "chatml.jinja"
    template.write_text(CHATML)
    settings = recipe(
        tmp_path / "clean",
        data={
            "validation": str(tmp_path / "clean"),
            "validation_split": "test",
            "answers_only": True,
            "chat_template": str(template),
        },
        run={"max_steps": 2, "epochs": 1},
    )
    result = train.fit(settings, tmp_path / "run")
    assert result.documents == 20 or result.steps == 2
    recorded = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert recorded["data"]["documents"] == 20 and recorded["validation"]["documents"] == 4
    assert recorded["chat_template"]["source"] == CHATML
    checkpoint = tmp_path / "run" / "checkpoints" / result.final
    from transformers import AutoTokenizer

    # the model can be asked as it was taught
    assert AutoTokenizer.from_pretrained(checkpoint).chat_template == CHATML
    from sanitize.eval.texts_and_prompts import read_texts
    from sanitize.eval.trained_documents import read_trained_documents

    documents = read_trained_documents(tmp_path / "run" / "recipe.json")
    assert len(documents.texts) == 20 and documents.texts[0].startswith(
        "<|im_start|>user\nWhere is ada? Write to [EMAIL_ADDRESS].<|im_end|>"
    )
    plain = read_texts(tmp_path / "clean", split="test")
    assert (
        len(plain) == 4
        and plain.texts[0]
        == "user: Where is ada? Write to [EMAIL_ADDRESS].\nassistant: At home, says ada.\n"
    )


def test_loss_on_the_assistant_only(recipe: Any, tmp_path: Path) -> None:
    source = write_json_lines(tmp_path / "a.jsonl", make_chats(8))
    settings = recipe(
        source, data={"layout": "document", "answers_only": True}, model={"context": 128}
    )
    whole = train.stream_batches(
        recipe(source, data={"layout": "document"}, model={"context": 128})
    ).rows
    rows = train.stream_batches(settings).rows
    assert (rows.token_ids == whole.token_ids).all() and whole.loss_mask.all()
    from sanitize.train.corpus_reader import read_documents
    from sanitize.train.recipe import Recipe
    from sanitize.train.recipe_data import get_tokenizer

    tokenizer = get_tokenizer(Recipe.load(settings), read_documents(source))
    for number in range(len(rows)):
        start, end = rows.row_starts[number], rows.row_starts[number + 1]
        in_loss = rows.loss_mask[start:end]
        text = tokenizer.decode(
            rows.token_ids[start:end][in_loss & (rows.token_ids[start:end] > 2)]
        )
        assert (
            text.strip().startswith("At home, says")
            and text.endswith(".\n")
            and "Where" not in text
        )


@pytest.mark.parametrize(
    "record",
    [
        {"prompt": "Where is ada?", "completion": "At home."},
        {"instruction": "Say where", "input": "ada", "output": "At home."},
        {"prompt": "Where?", "chosen": "At home.", "rejected": "Go away."},
        {
            "conversations": [
                {"from": "human", "value": "Where?"},
                {"from": "gpt", "value": "At home."},
            ]
        },
    ],
)
def test_other_shapes(recipe: Any, tmp_path: Path, record: dict[str, Any]) -> None:
    source = write_json_lines(tmp_path / "a.jsonl", [record] * 4)
    rows = train.stream_batches(
        recipe(source, data={"layout": "document", "answers_only": True})
    ).rows
    assert 0 < rows.loss_mask.sum() < len(rows.token_ids)


def test_answers_only_needs_answers(corpus: Any, recipe: Any) -> None:
    with pytest.raises(UsageError, match="there is no prompt to leave out"):
        train.stream_batches(recipe(corpus(), data={"answers_only": True}))


def test_splits_of_a_folder_are_not_mixed(recipe: Any, tmp_path: Path) -> None:
    write_json_lines(tmp_path / "d" / "train.jsonl", make_chats(6))
    write_json_lines(tmp_path / "d" / "test.jsonl", make_chats(3))
    from sanitize.train.corpus_reader import read_documents

    assert (
        len(read_documents(tmp_path / "d")) == 6
        and len(read_documents(tmp_path / "d", split="test")) == 3
    )
    with pytest.raises(UsageError, match="there is no split dev"):
        read_documents(tmp_path / "d", split="dev")


def test_the_main_text_of_a_published_folder_is_read_under_its_own_name(tmp_path: Path) -> None:
    source = write_json_lines(tmp_path / "a.jsonl", [{"notes": "one"}, {"notes": "two"}])
    sanitize.run(source, tmp_path / "out", plan="redact", workers=1, text_column="notes")
    from sanitize.train.corpus_reader import read_documents

    assert read_documents(tmp_path / "out").texts() == ["one", "two"]


# ------------------------------------------------------------------- attention within documents


@pytest.mark.parametrize("arch", ["gpt2", "gpt_neo"])
def test_documents_of_a_packed_row_do_not_see_each_other(
    recipe: Any, tmp_path: Path, arch: str
) -> None:
    import torch

    from sanitize.train.batches import BatchStream
    from sanitize.train.model import build_model
    from sanitize.train.recipe import Recipe
    from sanitize.train.recipe_data import get_tokenizer, read_recipe_documents

    source = write_json_lines(tmp_path / "a.jsonl", make_chats(6))
    loaded = Recipe.load(
        recipe(
            source,
            data={"attention": "document"},
            model={"arch": arch, "context": 512, "dropout": 0.0},
        )
    )
    stream: BatchStream = train.stream_batches(loaded)
    rows, objective = stream.rows, loaded.build_objective()
    documents = read_recipe_documents(loaded, loaded.data.path)
    model, _ = build_model(
        loaded.model, head="causal", tokenizer=get_tokenizer(loaded, documents), seed=1
    )
    model.eval()
    batch = rows.make_batch(np.arange(len(rows)), 0)
    inputs = {
        name: torch.from_numpy(array)
        for name, array in objective.collate(batch, training=False).items()
    }
    with torch.no_grad():
        packed = objective.compute_logits(model, inputs)
        borders = np.flatnonzero(np.diff(rows.doc_numbers)) + 1
        assert len(borders) >= 5
        for start, end in zip([0, *borders], [*borders, len(rows.doc_numbers)], strict=True):
            row = int(np.searchsorted(rows.row_starts, start, side="right")) - 1
            low, high = (
                start - rows.row_starts[row],
                min(end, rows.row_starts[row + 1]) - rows.row_starts[row],
            )
            alone = model(
                input_ids=inputs["input_ids"][row : row + 1, low:high], use_cache=False
            ).logits.float()
            assert torch.allclose(packed[row, low:high], alone[0], atol=1e-4)
            if high < packed.shape[1]:
                assert inputs["labels"][row, high - 1] == -100  # the next document is not predicted


def test_a_run_with_attention_within_documents(recipe: Any, tmp_path: Path) -> None:
    source = write_json_lines(tmp_path / "a.jsonl", make_chats(12))
    settings = recipe(
        source, data={"attention": "document", "answers_only": True}, run={"epochs": 1}
    )
    result = train.fit(settings, tmp_path / "run")
    assert result.steps >= 1
    with pytest.raises(UsageError, match='data.attention = "document" cannot be combined'):
        train.stream_batches(
            recipe(
                source,
                data={"attention": "document"},
                model={"arch": "bert"},
                objective={"use": "masked"},
            )
        )
