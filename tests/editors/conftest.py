"""Fixtures: tiny masked language models with invented vocabularies, built once per test session."""

from __future__ import annotations

from pathlib import Path

import pytest

from sanitize.core.exponential_mechanism import ClipBounds

WORDS = """
    ada bob carol dan erin write call meet today tomorrow the a to of in at river garden lamp stone bridge market letter number red blue
    green small large old new one two three four five is was has said told asked went came near under over with from and or not but so
""".split()  # noqa: E501
TEXTS = [
    "Ada went to the market with Bob.",
    "Carol told Dan: meet at the old bridge, tomorrow!",
    "The river was near; the garden was green and the lamp red.",
    "Erin asked for 12 letters, 2026-11-21, at the bridge.",
]


def _save(folder: Path, tokenizer: object, model: object) -> Path:
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]
    model.save_pretrained(folder)  # type: ignore[attr-defined]
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with a wordpiece vocabulary."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()] + list("éß")
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
        *dict.fromkeys(WORDS),
    ]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    wordpiece_tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    wordpiece_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    wordpiece_tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece_tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=wordpiece_tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=160,
    )
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=160,
        initializer_range=0.4,
    )
    return _save(tmp_path_factory.mktemp("bert"), tokenizer, BertForMaskedLM(config))


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
    return _save(tmp_path_factory.mktemp("roberta"), tokenizer, RobertaForMaskedLM(config))
