"""A tiny masked language model with an invented vocabulary."""

from __future__ import annotations

from pathlib import Path

from sanitize.core.exponential_mechanism import ClipBounds

WORDS = """
    ada bob carol dan erin write call meet today tomorrow the a to of in at river garden lamp stone bridge market letter number red blue
    green small large old new one two three four five is was has said told asked went came near under over with from and or not but so
""".split()  # noqa: E501


def save_model(folder: Path, tokenizer: object, model: object) -> Path:
    tokenizer.save_pretrained(folder)  # type: ignore[attr-defined]
    model.save_pretrained(folder)  # type: ignore[attr-defined]
    ClipBounds(-2.0, 2.0, "invented constants", "public").write(folder)
    return folder


def write_bert(folder: Path) -> Path:
    """Write a BERT of two layers with a wordpiece vocabulary to `folder`, with its bounds."""
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
    return save_model(folder, tokenizer, BertForMaskedLM(config))
