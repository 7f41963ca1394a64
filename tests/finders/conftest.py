"""A token classification model with random weights and a classifier that is fitted to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-MISC"]
NAME_LABELS = {"ann": 1, "ben": 1, "zoë": 1, "roe": 2, "poe": 2, "river": 3, "##ton": 4, "lunar": 5}
PLAIN_WORDS = (
    "the a lamp and of in near to went said saw with old new was is has but so for from on under"
    " over . , ! ?".split()
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two random layers; its classifier is a least-squares fit to `NAME_LABELS` in random
    contexts."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    torch.manual_seed(4)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAME_LABELS, *PLAIN_WORDS]
    wordpiece = Tokenizer(
        models.WordPiece(
            {piece: number for number, piece in enumerate(vocabulary)}, unk_token="[UNK]"
        )
    )
    wordpiece.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=wordpiece, model_max_length=64, **special)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.08,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    bert = BertForTokenClassification(config).eval()
    rng = np.random.default_rng(1)
    hidden, expected_labels = [], []
    label_of_token = np.array([NAME_LABELS.get(piece, 0) for piece in vocabulary])
    for length in (3, 4, 5, 6, 8, 12, 20, 40, 60):
        ids = rng.integers(1, len(vocabulary), (40, length))
        ids[:, 0], ids[:, -1] = 2, 3
        with torch.inference_mode():
            hidden.append(
                bert.bert(torch.as_tensor(ids)).last_hidden_state.reshape(-1, 128).numpy()
            )
        expected_labels.append(label_of_token[ids].ravel())
    hidden, expected_labels = np.concatenate(hidden), np.concatenate(expected_labels)
    design_matrix = np.column_stack([hidden, np.ones(len(hidden))])
    weights = np.linalg.lstsq(
        design_matrix,
        np.where(np.arange(len(LABELS)) == expected_labels[:, None], 6.0, -6.0),
        rcond=None,
    )[0]
    bert.classifier.weight.data = torch.as_tensor(weights[:-1].T.astype(np.float32))
    bert.classifier.bias.data = torch.as_tensor(weights[-1].astype(np.float32))
    folder = tmp_path_factory.mktemp("tagger")
    tokenizer.save_pretrained(folder)
    bert.save_pretrained(folder)
    return folder
