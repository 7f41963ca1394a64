"""Masked words over texts in which direct identifiers are an X: pseudonymising before training (MLMA, paper 003).

Shards on which the sanitizer has already put the X need no blacklist here. With one, each word of its direct entries becomes `replacement`
in the text before tokens are made of it; an X may then be masked and asked for, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, PrivateAttr

from ..blacklist_matcher import Blacklist
from ..tokenization import placed_words
from .masked import Masked


class Mlma(Masked):
    """`blacklist`: entries with the reason `direct` are replaced; empty where the shards are replaced already."""

    blacklist: str = ""
    replacement: str = Field(default="X", min_length=1)
    _list: Blacklist | None = PrivateAttr(default=None)

    def paths(self) -> Mapping[str, str]:
        """The blacklist counts by what it holds."""
        return {"blacklist": self.blacklist} if self.blacklist else {}

    def rewritten(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts with each protected word replaced."""
        if not self.blacklist:
            return texts
        if self._list is None:
            self._list = Blacklist.read(self.blacklist, ("direct",))
        placed = [placed_words(text) for text in texts]
        found = []
        # text by text: the pieces between the words of one text
        for text, (_, bounds), inside in zip(texts, placed, self._list.protected([words for words, _ in placed]), strict=True):
            pieces, at = [], 0
            for start, stop in bounds[inside].tolist():
                pieces += [text[at:start], self.replacement]
                at = stop
            found.append("".join(pieces) + text[at:])
        return found
