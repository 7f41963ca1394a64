"""Masked language modelling that never masks a blacklisted word: such words are context only and
are never predicted (PPMLM).

Boutet et al., Towards the Anonymization of Masked Language Modeling, section 4: direct identifiers
and words of fewer than k users are excluded from masking; 15 % of the other words are drawn in each
epoch. `reasons = "direct"` and `"indirect"` are its variants DPPMLM and IPPMLM. An entry of several
words protects them where they occur consecutively. With an empty blacklist the result equals plain
masking bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import PrivateAttr

from ..blacklist_matcher import BlacklistMatcher, expand_reasons, require_blacklist
from .masked import Masked


class Ppmlm(Masked):
    """`blacklist`: the private folder of `sanitize run --plan blacklist`, or its blacklist itself,
    a folder or file. `reasons`: which of its entries protect words.

    `direct`: "type" protects a found value wherever its words occur; "occurrence" only where it was
    found, so that a name that is also a common word is not excluded everywhere. The spans come from
    `data.leave_out_pii` (with `data.spans_from`, or a column `pii_spans`).
    """

    PATH_SETTINGS: ClassVar[tuple[str, ...]] = ("blacklist",)

    blacklist: str = ""
    reasons: Literal["both", "direct", "indirect"] = "both"
    direct: Literal["type", "occurrence"] = "type"
    _matcher: BlacklistMatcher | None = PrivateAttr(default=None)

    def input_paths(self) -> Mapping[str, str]:
        """Return the path of the blacklist itself; UsageError if none is set."""
        return {"blacklist": require_blacklist(self.blacklist, self.use)}

    def select_maskable_words(self, texts: Sequence[Sequence[str]]) -> list[npt.NDArray[np.bool_]]:
        """Return which words of each text no entry protects; UsageError if no blacklist is set."""
        if self._matcher is None:
            reasons = [
                reason
                for reason in expand_reasons(self.reasons)
                if reason != "direct" or self.direct == "type"
            ]
            self._matcher = BlacklistMatcher.read(
                require_blacklist(self.blacklist, self.use), reasons
            )
        return [~is_protected for is_protected in self._matcher.find_protected_words(texts)]
