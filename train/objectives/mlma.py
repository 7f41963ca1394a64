"""Masked language modelling over texts whose direct identifiers are replaced by X: pseudonymisation before training (MLMA, paper 003).

Shards in which the sanitizer already replaced them need no blacklist here. With a blacklist, each word of its direct entries becomes
`replacement` before tokenization; an X may then be masked and predicted, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, PrivateAttr

from ..blacklist_matcher import BlacklistMatcher
from ..tokenization import split_words_with_spans
from .masked import Masked


class Mlma(Masked):
    """`blacklist`: its entries with the reason `direct` are replaced; empty if the shards already have the replacements."""

    blacklist: str = ""
    replacement: str = Field(default="X", min_length=1)
    _matcher: BlacklistMatcher | None = PrivateAttr(default=None)

    def input_paths(self) -> Mapping[str, str]:
        """Return the path of the blacklist; its contents are hashed."""
        return {"blacklist": self.blacklist} if self.blacklist else {}

    def rewrite_texts(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts with each protected word replaced."""
        if not self.blacklist:
            return texts
        if self._matcher is None:
            self._matcher = BlacklistMatcher.read(self.blacklist, ("direct",))
        words_of_texts = split_words_with_spans(texts)
        found = []
        # per text: join the pieces between the protected words
        for text, (_, bounds), is_protected in zip(
            texts, words_of_texts, self._matcher.find_protected_words([words for words, _ in words_of_texts]), strict=True
        ):
            pieces, at = [], 0
            for start, end in bounds[is_protected].tolist():
                pieces += [text[at:start], self.replacement]
                at = end
            found.append("".join(pieces) + text[at:])
        return found
