"""Fixtures: tiny masked language models with invented vocabularies, built once per test session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.masked_models import WORDS, save_model, write_bert

TEXTS = [
    "Ada went to the market with Bob.",
    "Carol told Dan: meet at the old bridge, tomorrow!",
    "The river was near; the garden was green and the lamp red.",
    "Erin asked for 12 letters, 2026-11-21, at the bridge.",
]


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of two layers with byte pairs."""
    import torch
    from tokenizers import ByteLevelBPETokenizer, processors
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(2)
    bpe_tokenizer = ByteLevelBPETokenizer()
    bpe_tokenizer.train_from_iterator(
        [" ".join(WORDS), *TEXTS] * 3,
        vocab_size=400,
        min_frequency=2,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    bpe_tokenizer._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe_tokenizer._tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=160,
    )
    config = RobertaConfig(
        vocab_size=bpe_tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=162,
        pad_token_id=1,
        type_vocab_size=1,
        initializer_range=0.4,
    )
    return save_model(tmp_path_factory.mktemp("roberta"), tokenizer, RobertaForMaskedLM(config))
