"""The TOFU metric: scores against a plain reference, and refused inputs. All people in the
questions are invented."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="comes with the extra `learn`")
pytest.importorskip("transformers", reason="comes with the extra `learn`")

from sanitize.errors import InputRefused, UsageError  # noqa: E402
from sanitize.eval.language_model import LanguageModel  # noqa: E402
from sanitize.eval.metric import EvalContext, load_metric  # noqa: E402
from sanitize.eval.metrics.tofu import Tofu, answer_questions, read_questions  # noqa: E402

ROWS = [
    {
        "question": f"Where was Ann Roe {number} born?",
        "answer": f"Ann Roe {number} was born in Oakham.",
        "paraphrased_answer": f"In Oakham, Ann Roe {number} was born.",
        "perturbed_answer": [
            f"Ann Roe {number} was born in {town}." for town in ("Ely", "Deal", "Wells")
        ],
    }
    for number in range(5)
]


def make_model() -> LanguageModel:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from tokenizers.decoders import ByteLevel
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(3)
    torch.set_num_threads(1)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), ByteLevel()
    special = ["<|endoftext|>", "<|pad|>", "<|mask|>"]
    texts = [text for row in ROWS for text in (row["question"], row["answer"])]
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=special[0],
        bos_token=special[0],
        pad_token=special[1],
        mask_token=special[2],
    )
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=96,
        n_embd=32,
        n_layer=2,
        n_head=2,
        initializer_range=0.25,
        bos_token_id=0,
        eos_token_id=0,
    )
    return LanguageModel.from_loaded(GPT2LMHeadModel(config).eval(), tokenizer)


def write_questions(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_losses_cover_the_answer_and_its_end_only(tmp_path: Path) -> None:
    model = make_model()
    questions = read_questions(write_questions(tmp_path / "q.jsonl"))
    result = answer_questions(model, questions, new_tokens=8, batch=3)
    assert result.perturbed.shape == (5, 3)
    for number, row in enumerate(ROWS):
        # no token before it, as in training with rows of one document
        head = model.encode([row["question"] + "\n"])[0]
        for text, loss in (
            (row["answer"], result.answer[number]),
            (row["perturbed_answer"][1], result.perturbed[number][1]),
        ):
            ids = torch.tensor([head + model.encode([text])[0] + [0]])
            with torch.no_grad():
                logits = model.model(input_ids=ids).logits.double().log_softmax(-1)
            token_losses = [
                -logits[0, index - 1, ids[0, index]].item()
                for index in range(len(head), ids.shape[1])
            ]
            assert loss == pytest.approx(float(np.mean(token_losses)), abs=1e-5)


def test_a_suite_compares_with_the_retrained_run(tmp_path: Path) -> None:
    path = write_questions(tmp_path / "q.jsonl")
    metric = load_metric(
        {
            "use": "tofu",
            "retain": path,
            "forget": path,
            "retrained": "kept",
            "again": "other",
            "new_tokens": 4,
        }
    )
    assert isinstance(metric, Tofu)
    metric.setup(EvalContext())
    row = {
        "step": 1,
        "epoch": 1.0,
        "tofu": metric.on_checkpoint(SimpleNamespace(), SimpleNamespace(), make_model()),
    }  # type: ignore[arg-type]
    assert (
        row["tofu"]["questions"] == {"retain": 5, "forget": 5}
        and 0 <= row["tofu"]["model_utility"] <= 1
    )
    worse = {**row, "tofu": {**row["tofu"], "log_r": [value + 9 for value in row["tofu"]["log_r"]]}}
    aggregates = metric.aggregate({"kept": [row], "other": [row], "full": [worse, row]})
    assert (
        aggregates["other"]["final"]["forget_quality"] == 1.0
        and aggregates["other"]["is_noise_floor"]
    )
    assert (
        aggregates["full"]["each"][0]["forget_quality"] < 0.01
        and aggregates["full"]["final"]["forget_quality"] == 1.0
    )
    assert (
        len(metric.build_figures({"kept": [row], "other": [row], "full": [worse, row]}, aggregates))
        == 2
    )
    assert "Roe" not in json.dumps([row, aggregates])
    with pytest.raises(UsageError, match="no run 'kept'"):
        metric.aggregate({"full": [row]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no questions"),
        ("{}", "line 1"),
        ("[1]", "line 1"),
        (json.dumps({**ROWS[0], "perturbed_answer": "Ely"}), "line 1"),
        (json.dumps({**ROWS[0], "perturbed_answer": []}), "line 1"),
        (json.dumps(ROWS[0]) + "\n" + json.dumps({**ROWS[0], "answer": ""}), "line 2"),
        ("{", "line 1"),
    ],
)
def test_invalid_questions_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "q.jsonl").write_text(text)
    with pytest.raises(InputRefused, match=message) as caught:
        read_questions(tmp_path / "q.jsonl")
    assert "Oakham" not in str(caught.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_questions(tmp_path / "missing.jsonl")


def test_different_numbers_of_wrong_answers_are_refused(tmp_path: Path) -> None:
    rows = [ROWS[0], {**ROWS[1], "perturbed_answer": ["Ely."]}]
    with pytest.raises(InputRefused, match="different numbers"):
        answer_questions(make_model(), read_questions(write_questions(tmp_path / "q.jsonl", rows)))
