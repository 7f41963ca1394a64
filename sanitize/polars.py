"""Registers the namespace `sanitize` of Polars series: after `import sanitize.polars`,
`series.sanitize.detect()` and `.redact()` exist.

It is registered only by this import: `import sanitize` alone loads no Polars.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sanitize.inspection.text_detection import detect
from sanitize.inspection.text_functions import redact
from sanitize.plans.plan import DEFAULT_PLAN, Plan

__all__ = ["SeriesNamespace"]


@pl.api.register_series_namespace("sanitize")
class SeriesNamespace:
    """Functions on a series of texts.

    >>> import polars, sanitize.polars
    >>> texts = polars.Series("note", ["Write to ann.lee@example.com", None])
    >>> texts.sanitize.redact().to_list()
    ['Write to [EMAIL_ADDRESS]', None]
    >>> texts.sanitize.detect().select("text_index", "kind", "start", "end").rows()
    [(0, 'EMAIL_ADDRESS', 9, 28)]
    """

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def detect(
        self,
        *,
        plan: Plan | Path | str = DEFAULT_PLAN,
        values: bool = False,
        known: Path | str | None = None,
    ) -> pl.DataFrame:
        """The occurrences in the texts, as `sanitize.detect` returns them."""
        return detect(self._series, plan=plan, values=values, known=known)

    def redact(
        self,
        *,
        plan: Plan | Path | str = "redact",
        seed: int | None = None,
        key: Path | str | None = None,
    ) -> pl.Series:
        """The texts rewritten by a plan, as `sanitize.redact` returns them."""
        clean: pl.Series = redact(self._series, plan=plan, seed=seed, key=key)
        return clean
