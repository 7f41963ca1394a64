"""Masked language modelling over texts whose direct identifiers are replaced by X: pseudonymisation
before training (MLMA, the baseline of the PPMLM paper).

Each word of the direct entries of the blacklist becomes `replacement` before tokenization; an X may
then be masked and predicted, as in the paper. Shards in which the sanitizer already replaced them
are trained on by the objective `masked`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field, PrivateAttr

from ..blacklist_matcher import BlacklistMatcher, require_blacklist
from ..tokenization import split_words_with_spans
from .masked import Masked


class Mlma(Masked):
    """`blacklist`: as of `ppmlm`; its entries with the reason `direct` are replaced."""

    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ("blacklist",)

    blacklist: str = ""
    replacement: str = Field(default="X", min_length=1)
    _matcher: BlacklistMatcher | None = PrivateAttr(default=None)

    def input_paths(self) -> Mapping[str, str]:
        """Return the path of the blacklist itself; UsageError if none is set."""
        return {"blacklist": require_blacklist(self.blacklist, self.use)}

    def rewrite_texts(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts with each protected word replaced."""
        if self._matcher is None:
            self._matcher = BlacklistMatcher.read(
                require_blacklist(self.blacklist, self.use), ("direct",)
            )
        words_of_texts = split_words_with_spans(texts)
        found = []
        # per text: join the pieces between the protected words
        for text, (_, bounds), is_protected in zip(
            texts,
            words_of_texts,
            self._matcher.find_protected_words([words for words, _ in words_of_texts]),
            strict=True,
        ):
            pieces, at = [], 0
            for start, end in bounds[is_protected].tolist():
                pieces += [text[at:start], self.replacement]
                at = end
            found.append("".join(pieces) + text[at:])
        return found
