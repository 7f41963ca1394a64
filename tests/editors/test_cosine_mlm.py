"""The editor `cosine_mlm`: equal to a plain reference of the published code, and declared as not DP
everywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from sanitize.core.keys import Key
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.stages.privacy_ledger import CLAIM_NOT_DP
from sanitize.storage.corpus import Corpus
from sanitize.text.masked_lm import MaskedModel

KINDS = ["EMAIL_ADDRESS"]


def write_plan(folder: Path, model: Path, settings: str) -> Plan:
    (folder / "plan.toml").write_text(
        f'leave = ["EMAIL_ADDRESS"]\n[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "cosine_mlm"\nkinds = []\n'  # noqa: E501
        f'model = "{model}"\n{settings}\n',
        "utf-8",
    )
    return load_plan(str(folder / "plan.toml"))


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_candidates_and_cosines_equal_those_of_single_rows(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = MaskedModel(request.getfixturevalue(name))
    texts = ["Ada went to the market with Bob.", "the old bridge"]
    spans = [(0, 0, 3), (0, 16, 22), (1, 4, 7), (1, 8, 14)]
    ranked = {}
    for rows, top_candidates, similarities in model.rank_candidates(
        model.build_inputs(texts, spans, 32), 3, 5
    ):
        ranked |= {
            int(row): (row_candidates, row_similarities)
            for row, row_candidates, row_similarities in zip(
                rows, top_candidates, similarities, strict=True
            )
        }
    assert sorted(ranked) == [0, 1, 2, 3]
    for span_no, (text_no, start, stop) in enumerate(spans):
        marked = texts[text_no][:start] + model.tokenizer.mask_token + texts[text_no][stop:]
        ids = model.tokenizer(texts[text_no], return_offsets_mapping=True)
        position = next(
            index
            for index, (first, last) in enumerate(ids["offset_mapping"])
            if last > max(first, start)
        )
        width = sum(
            first < stop and last > start for first, last in ids["offset_mapping"] if last > first
        )
        masked = [
            *ids["input_ids"][:position],
            model.mask_token_id,
            *ids["input_ids"][position + width :],
        ]
        assert model.mask_token_id in model.tokenizer(marked)["input_ids"]

        def state(tokens: list[int], position: int = position) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.inference_mode():
                output = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
            return (
                torch.cat([layer[0, position] for layer in output.hidden_states[-4:]]),
                output.logits[0, position],
            )

        hidden, logits = state(masked)
        top_candidates = (
            logits[torch.as_tensor(model.candidate_ids)]
            .sort(descending=True, stable=True)
            .indices[:5]
            .tolist()
        )
        assert ranked[span_no][0].tolist() == top_candidates
        for cosine, candidate in zip(ranked[span_no][1], top_candidates, strict=True):
            replaced = [
                *masked[:position],
                int(model.candidate_ids[candidate]),
                *masked[position + 1 :],
            ]
            assert cosine == pytest.approx(
                float(torch.nn.functional.cosine_similarity(hidden, state(replaced)[0], dim=0)),
                abs=1e-5,
            )


def test_a_run_is_declared_as_not_private(bert: Path, tmp_path: Path) -> None:
    """The model needs no card; summary, card and page say that it is not DP, and have no sum that
    could be read as a bound."""
    import shutil

    model = tmp_path / "model"
    shutil.copytree(bert, model)
    (model / "dp_mlm.json").unlink()
    (tmp_path / "in.jsonl").write_text(
        '{"text": "Ada met Bob at the red bridge; Bob said: no."}\n' * 3, "utf-8"
    )
    Key(b"k" * 32).write(tmp_path / "key")
    settings = Settings(key=tmp_path / "key", workers=1)
    summary = run_with_settings(
        [tmp_path / "in.jsonl"],
        tmp_path / "out",
        write_plan(tmp_path, model, "epsilon = 5.0\ntop = 4"),
        tmp_path / "work",
        settings,
    )
    (account,) = summary.ledger
    assert (
        account["claim"] == CLAIM_NOT_DP
        and account["statements"] == [f"Claim: {CLAIM_NOT_DP}."]
        and account["unit_count"] == 30
        and account["epsilon_total"] is None
    )
    for page in ("report.html", "README.md"):
        assert "not DP" in (tmp_path / "out" / page).read_text("utf-8"), page
        assert "Differential privacy is claimed" not in (tmp_path / "out" / page).read_text(
            "utf-8"
        ), page
    texts = Corpus.open(tmp_path / "out").table()["text"].to_pylist()
    assert all(text.count(";") == text.count(":") == text.count(".") == 1 for text in texts)


def test_draws_follow_the_softmax_of_cosines(bert: Path) -> None:
    """1,000 draws for one word, at equal distances, against the closed formula; without the factor
    epsilon the test would fail."""
    from sanitize.editors.cosine_mlm import CosineMlm

    model = MaskedModel(bert)
    row = model.build_inputs(["Ada went to the market"], [(0, 16, 22)], 32)
    ((_, top_candidates, similarities),) = list(model.rank_candidates(row, 1, 6))
    editor = CosineMlm(use="cosine_mlm", model=str(bert), epsilon=40.0, top=6)
    editor._model = model
    count = 1_000
    draw_counts = Counter(
        editor._draw_words(row * count, (np.arange(count) + 0.5) / count).tolist()
    )
    weight = np.exp(40.0 * (similarities[0].astype(np.float64) - 1))
    assert set(draw_counts) <= set(top_candidates[0].tolist())
    for candidate, share in zip(top_candidates[0].tolist(), weight / weight.sum(), strict=True):
        assert abs(draw_counts[candidate] / count - share) < 0.002
    flat = np.full(6, 1 / 6)
    assert np.abs(weight / weight.sum() - flat).max() > 0.02, "a test that any draw would pass"
