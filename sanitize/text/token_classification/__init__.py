"""Token classification models: their files, running them, and the spans that follow from the labels
of their tokens.

    texts -> pieces (name_lines) -> tokens with probabilities (tagger, classifiers) -> spans
    (span_decoding)

Imports `core`, `kinds` and `text`; torch, transformers, tokenizers and onnxruntime are imported
where a model is opened. A model is a local folder, or the files of an installed package; nothing is
downloaded, and no code of a model is run.
"""
