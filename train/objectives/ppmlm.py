"""Masked words, but never a blacklisted one: these stay visible as context and are never asked for (PPMLM).

Paper 003, section 4: direct identifiers and words of fewer than k users are excluded from masking; 15 % of the other words are chosen in
each epoch. `reasons = "direct"` and `"indirect"` are its variants DPPMLM and IPPMLM. An entry of several words protects all of them where
they stand together. An empty blacklist is plain masking, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError

from ..blacklist_matcher import Blacklist, reasons_of
from .masked import Masked


class Ppmlm(Masked):
    """`blacklist`: the folder or file that `sanitize run --plan blacklist` wrote; `reasons`: which of its entries protect.

    `direct`: "type" protects what was found wherever its words stand; "occurrence" only where it was found, so that a name that is also a
    common word is not banned everywhere. The places come from `data.leave_out_pii` (with `data.spans_from`, or a column `pii_spans`).
    """

    blacklist: str = Field(default="")
    reasons: Literal["both", "direct", "indirect"] = "both"
    direct: Literal["type", "occurrence"] = "type"
    _list: Blacklist | None = PrivateAttr(default=None)

    def paths(self) -> Mapping[str, str]:
        """The blacklist counts by what it holds."""
        return {"blacklist": self.blacklist}

    def words(self, texts: Sequence[Sequence[str]]) -> list[npt.NDArray[np.bool_]]:
        """True for the words that no entry protects."""
        if self._list is None:
            if not self.blacklist:
                raise UsageError(
                    f"objective.blacklist is not set; {self.use} expects the blacklist of a run, such as WORK/runs/HASH/vault/blacklist"
                )
            wanted = [reason for reason in reasons_of(self.reasons) if reason != "direct" or self.direct == "type"]
            self._list = Blacklist.read(self.blacklist, wanted)
        return [~inside for inside in self._list.protected(texts)]
