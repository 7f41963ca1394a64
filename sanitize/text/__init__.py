"""Text tools that finders and stages share: mail headers, address lists, tokenizer, decodings, name
lexicon, literal search, masked language models.

Imports `core`, `storage`, `kinds` and kernels; decides nothing about what is personal data.
"""
