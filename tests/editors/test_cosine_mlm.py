"""The editor `cosine_mlm`: equal to a slow version of the published code, and declared as not DP everywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from sanitize.core.keys import Key
from sanitize.pipeline.run import run
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.stages.privacy_ledger import CLAIM_NOT_DP
from sanitize.storage.corpus import Corpus
from sanitize.text.masked_lm import MaskedModel

KINDS = ["EMAIL_ADDRESS"]


def plan_of(folder: Path, model: Path, settings: str) -> Plan:
    (folder / "plan.toml").write_text(
        f'leave = ["EMAIL_ADDRESS"]\n[find]\nkinds = ["EMAIL_ADDRESS"]\n[[edit]]\nuse = "cosine_mlm"\nkinds = []\n'
        f'model = "{model}"\n{settings}\n', "utf-8",
    )  # fmt: skip
    return load_plan(str(folder / "plan.toml"))


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_candidates_and_cosines_are_those_one_by_one(name: str, request: pytest.FixtureRequest) -> None:
    model = MaskedModel(request.getfixturevalue(name))
    texts = ["Ada went to the market with Bob.", "the old bridge"]
    spans = [(0, 0, 3), (0, 16, 22), (1, 4, 7), (1, 8, 14)]
    found = {}
    for rows, likely, alike in model.rank_candidates(model.build_inputs(texts, spans, 32), 3, 5):
        found |= {int(row): (some, one) for row, some, one in zip(rows, likely, alike, strict=True)}
    assert sorted(found) == [0, 1, 2, 3]
    for number, (text_no, start, stop) in enumerate(spans):
        marked = texts[text_no][:start] + model.tokenizer.mask_token + texts[text_no][stop:]
        ids = model.tokenizer(texts[text_no], return_offsets_mapping=True)
        place = next(at for at, (first, last) in enumerate(ids["offset_mapping"]) if last > max(first, start))
        width = sum(first < stop and last > start for first, last in ids["offset_mapping"] if last > first)
        masked = [*ids["input_ids"][:place], model.mask_token_id, *ids["input_ids"][place + width :]]
        assert model.mask_token_id in model.tokenizer(marked)["input_ids"]

        def state(tokens: list[int], place: int = place) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.inference_mode():
                told = model.model(input_ids=torch.tensor([tokens]), output_hidden_states=True)
            return torch.cat([layer[0, place] for layer in told.hidden_states[-4:]]), told.logits[0, place]

        hidden, logits = state(masked)
        likely = logits[torch.as_tensor(model.candidate_ids)].sort(descending=True, stable=True).indices[:5].tolist()
        assert found[number][0].tolist() == likely
        for cosine, candidate in zip(found[number][1], likely, strict=True):
            there = [*masked[:place], int(model.candidate_ids[candidate]), *masked[place + 1 :]]
            assert cosine == pytest.approx(float(torch.nn.functional.cosine_similarity(hidden, state(there)[0], dim=0)), abs=1e-5)


def test_a_run_claims_nothing_and_says_so(bert: Path, tmp_path: Path) -> None:
    """The model needs no card; summary, card and page say that it is not DP, and have no sum that could be read as a bound."""
    import shutil

    model = tmp_path / "model"
    shutil.copytree(bert, model)
    (model / "dp_mlm.json").unlink()
    (tmp_path / "in.jsonl").write_text('{"text": "Ada met Bob at the red bridge; Bob said: no."}\n' * 3, "utf-8")
    Key(b"k" * 32).write(tmp_path / "key")
    settings = Settings(key_file=tmp_path / "key", workers=1)
    told = run([tmp_path / "in.jsonl"], tmp_path / "out", plan_of(tmp_path, model, "epsilon = 5.0\ntop = 4"), tmp_path / "work", settings)
    (account,) = told["ledger"]
    assert (
        account["claim"] == CLAIM_NOT_DP
        and account["statements"] == [f"Claim: {CLAIM_NOT_DP}."]
        and account["unit_count"] == 30
        and account["epsilon_total"] is None
    )
    for page in ("report.html", "README.md"):
        assert "not DP" in (tmp_path / "out" / page).read_text("utf-8"), page
        assert "Differential privacy is claimed" not in (tmp_path / "out" / page).read_text("utf-8"), page
    texts = Corpus.open(tmp_path / "out").table()["text"].to_pylist()
    assert all(text.count(";") == text.count(":") == text.count(".") == 1 for text in texts)


def test_draws_follow_the_softmax_of_cosines(bert: Path) -> None:
    """4,000 draws for one word, pooled, against the closed formula; without the factor epsilon the test would fail."""
    from sanitize.editors.cosine_mlm import CosineMlm

    model = MaskedModel(bert)
    row = model.build_inputs(["Ada went to the market"], [(0, 16, 22)], 32)
    ((_, likely, alike),) = list(model.rank_candidates(row, 1, 6))
    editor = CosineMlm(use="cosine_mlm", model=str(bert), epsilon=40.0, top=6)
    editor._model = model
    count = 4_000
    drawn = Counter(editor._draw_words(row * count, (np.arange(count) + 0.5) / count).tolist())
    weight = np.exp(40.0 * (alike[0].astype(np.float64) - 1))
    assert set(drawn) <= set(likely[0].tolist())
    for candidate, share in zip(likely[0].tolist(), weight / weight.sum(), strict=True):
        assert abs(drawn[candidate] / count - share) < 0.002
    flat = np.full(6, 1 / 6)
    assert np.abs(weight / weight.sum() - flat).max() > 0.02, "a test that any draw would pass"
