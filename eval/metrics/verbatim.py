"""Verbatim memorization (k-extractable): whether a model generates the twenty tokens that follow a
prefix of a training text.

A suffix s of a training text is k-extractable if the model, given the k tokens before it, generates
exactly s (Carlini et al. 2023; Slack and Al Moubayed, early detection of memorization, section 3.1;
k = 12, 16, 20 and twenty tokens of suffix in section 3.5). Where a text is probed depends on its
`doc_id` and the seed alone: the same position for every checkpoint, technique and order of the
texts, and the same suffix for every k, whose prefix is the last k tokens before it. Texts shorter
than the longest prefix and the suffix together are left out; `of="all"` counts them as not
memorized, which is how the paper's formula reads.

Works on token ids. Cost: generating twenty tokens for each text and k.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from sanitize.array_types import I64, Mask
from sanitize.errors import UsageError, suggest_names

from ..language_model import LanguageModel
from ..metric import EvalContext, Figure, Metric, MetricRows, make_epoch_figure
from ..run_folder import Checkpoint, RunFolder
from ..texts_and_prompts import TextSet
from ..trained_documents import read_seen_texts

PREFIX_LENGTHS = (12, 16, 20)
SUFFIX_LENGTH = 20
ENDED_TOKEN = -1


class Verbatim(Metric):
    """Settings of the probes; the defaults are the paper's."""

    # a set of the suite, such as the raw texts for all runs alike; empty: what each run was trained
    # on
    texts: str = ""
    ks: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=PREFIX_LENGTHS, min_length=1)
    suffix: int = Field(default=SUFFIX_LENGTH, ge=1)
    modes: tuple[Literal["greedy", "beam", "sample"], ...] = Field(
        default=("greedy",), min_length=1
    )
    match: Literal["exact", "contains"] = "exact"
    of: Literal["probed", "all"] = "probed"
    batch: int = Field(default=64, ge=1)

    _context: EvalContext = PrivateAttr(default_factory=EvalContext)

    def setup(self, context: EvalContext) -> None:
        """Store the context; UsageError for a text set that the suite does not have."""
        get_text_set(context, self.texts, self.use)
        self._context = context

    def on_checkpoint(
        self, run: RunFolder, checkpoint: Checkpoint, model: LanguageModel
    ) -> dict[str, Any]:
        """Return Mem % by decoding mode and k, and the mean over the ks."""
        texts = get_text_set(self._context, self.texts, self.use) or read_seen_texts(run)
        probe_points = choose_probe_points(
            encode_trained_part(run, model, texts.texts),
            texts.doc_ids,
            ks=self.ks,
            suffix_length=self.suffix,
            seed=self._context.seed,
        )
        require_probed_texts(probe_points, self.use)
        rows = tabulate_memorization(
            model,
            probe_points,
            ks=self.ks,
            modes=self.modes,
            denominator=self.of,
            match=self.match,
            seed=self._context.seed,
            batch=self.batch,
        )
        results: dict[str, Any] = {
            "probed_texts": len(probe_points.text_numbers),
            "too_short_texts": probe_points.too_short_count,
        }
        for row in rows:
            results.setdefault(row["mode"], {})[
                "mem" if row["k"] is None else f"mem_{row['k']}"
            ] = row["mem"]
        return results

    def build_figures(self, rows: MetricRows, aggregated: Mapping[str, Any]) -> list[Figure]:
        """Return a figure of memorization over epochs (figure 1)."""
        mode = self.modes[0]
        return [
            make_epoch_figure(
                rows,
                lambda row: row.get(self.use, {}).get(mode, {}).get("mem"),
                "Texts generated verbatim",
                "%",
            )
        ]


def get_text_set(context: EvalContext, name: str, metric_name: str) -> TextSet | None:
    """Return a text set of the suite by name, None for an empty name; UsageError if the suite does
    not have it."""
    if not name:
        return None
    if name not in context.text_sets:
        raise UsageError(
            f"{metric_name}.texts: no set {name!r} in [texts];"
            f" {suggest_names(name, context.text_sets)}"
        )
    return context.text_sets[name]


def encode_trained_part(
    run: RunFolder, model: LanguageModel, texts: Sequence[str]
) -> list[list[int]]:
    """Return, for each text, the tokens that the run was trained on: all of them, or the first ones
    that fit into a row where the recipe has `layout = "document"` and `overlong = "cut"`."""
    rows = model.encode(texts)
    recipe = run.recipe.get("recipe") or {}
    if (
        recipe.get("data", {}).get("layout") != "document"
        or recipe["data"].get("overlong") != "cut"
    ):
        return rows
    without_specials, with_specials = (
        len(model.tokenizer("a", add_special_tokens=special)["input_ids"])
        for special in (False, True)
    )
    # special tokens around a text and its end-of-text token use positions of the row
    max_tokens = (
        (recipe.get("model", {}).get("context") or model.context_length)
        - (with_specials - without_specials)
        - 1
    )
    return [row[:max_tokens] for row in rows]


@dataclass(frozen=True, kw_only=True)
class ProbePoints:
    """Where texts are probed: for each text that is long enough its number, the tokens before the
    suffix, and the suffix."""

    text_numbers: I64  # [probed] number of the text in the corpus
    prefix_tokens: I64  # [probed, longest k]
    suffix_tokens: I64  # [probed, suffix length]
    text_count: int  # number of all texts, too short ones included

    def last_prefix_tokens(self, k: int) -> I64:
        """Return the last k tokens before each suffix, [probed, k]."""
        if not 1 <= k <= self.prefix_tokens.shape[1]:
            raise ValueError(
                f"k = {k}; these probe points have prefixes of 1 to {self.prefix_tokens.shape[1]}"
                " tokens. Choose them with a larger `ks`"
            )
        return self.prefix_tokens[:, self.prefix_tokens.shape[1] - k :]

    @property
    def too_short_count(self) -> int:
        """Number of texts that were too short."""
        return self.text_count - len(self.text_numbers)


def require_probed_texts(probe_points: ProbePoints, metric_name: str) -> None:
    """Raise UsageError where no text is long enough: a share of none would be 0, as if nothing had
    been memorized."""
    if not len(probe_points.text_numbers):
        needed = probe_points.prefix_tokens.shape[1] + probe_points.suffix_tokens.shape[1]
        raise UsageError(
            f"{metric_name}: none of {probe_points.text_count:,} texts has the {needed} tokens of a"
            " prefix and a suffix, so that nothing can be measured; use shorter ones, or other"
            " texts"
        )


def choose_probe_points(
    sequences: Sequence[Sequence[int]],
    doc_ids: Sequence[str],
    *,
    ks: Sequence[int] = PREFIX_LENGTHS,
    suffix_length: int = SUFFIX_LENGTH,
    seed: int = 0,
) -> ProbePoints:
    """Choose a position in each text of at least `max(ks) + suffix_length` tokens, drawn from its
    `doc_id` and the seed."""
    assert len(sequences) == len(doc_ids), "one doc_id for each text"
    longest = max(ks)
    rows, before, after = [], [], []
    for row, (tokens, doc_id) in enumerate(zip(sequences, doc_ids, strict=True)):
        # cheap compared with the forward pass of a text
        free = len(tokens) - longest - suffix_length
        if free >= 0:
            drawn = hashlib.blake2b(
                str(doc_id).encode(),
                digest_size=8,
                key=seed.to_bytes(8, "little", signed=True),
                person=b"verbatim",
            ).digest()
            start = int.from_bytes(drawn, "little") % (free + 1) + longest
            rows.append(row)
            before.append(np.asarray(tokens[start - longest : start], np.int64))
            after.append(np.asarray(tokens[start : start + suffix_length], np.int64))
    return ProbePoints(
        text_numbers=np.array(rows, np.int64),
        prefix_tokens=np.array(before, np.int64).reshape(-1, longest),
        suffix_tokens=np.array(after, np.int64).reshape(-1, suffix_length),
        text_count=len(sequences),
    )


def is_memorized(
    generated: I64, suffix: I64, *, match: Literal["exact", "contains"] = "exact"
) -> Mask:
    """Return whether each row of generated tokens begins with its suffix; with `contains`, whether
    the suffix occurs anywhere in it."""
    assert len(generated) == len(suffix), "one row of generated tokens for each suffix"
    length = suffix.shape[1]
    if generated.shape[1] < length:
        return np.zeros(len(suffix), np.bool_)
    if match == "exact":
        return np.asarray((generated[:, :length] == suffix).all(1))
    windows = np.lib.stride_tricks.sliding_window_view(generated, length, axis=1)
    return np.asarray((windows == suffix[:, None, :]).all(2).any(1))


def memorized_percent(
    is_memorized: Mask,
    probe_points: ProbePoints,
    *,
    denominator: Literal["probed", "all"] = "probed",
) -> float:
    """Return Mem %, the share of texts whose suffix was generated; 0.0 if there are no texts."""
    texts = len(probe_points.text_numbers) if denominator == "probed" else probe_points.text_count
    return 100.0 * float(is_memorized.sum()) / texts if texts else 0.0


def generate_continuations(
    model: LanguageModel,
    probe_points: ProbePoints,
    k: int,
    *,
    mode: str = "greedy",
    extra_tokens: int = 0,
    **generation_options: Any,
) -> I64:
    """Continue the last k tokens before each suffix, [probed, suffix length + extra_tokens]; -1
    after the end of a continuation.

    `mode` is greedy, beam or sample; `generation_options` are its options (`beams`, `temperature`,
    `top_k`, `top_p`, `seed`, `batch`). `extra_tokens` beyond the suffix are for `is_memorized(...,
    match="contains")`.
    """
    length = probe_points.suffix_tokens.shape[1] + extra_tokens
    prompts = model.with_leading_ids(probe_points.last_prefix_tokens(k).tolist())
    continuations = model.generate(prompts, new_tokens=length, mode=mode, **generation_options)
    return np.array(
        [row + [ENDED_TOKEN] * (length - len(row)) for row in continuations], np.int64
    ).reshape(-1, length)


def tabulate_memorization(
    model: LanguageModel,
    probe_points: ProbePoints,
    *,
    ks: Sequence[int] = PREFIX_LENGTHS,
    modes: Sequence[str] = ("greedy",),
    denominator: Literal["probed", "all"] = "probed",
    match: Literal["exact", "contains"] = "exact",
    **generation_options: Any,
) -> list[dict[str, Any]]:
    """Return Mem % by decoding mode and k, and the mean over the ks (k None), which the paper's
    tables report."""
    extra_tokens = probe_points.suffix_tokens.shape[1] if match == "contains" else 0
    rows: list[dict[str, Any]] = []
    for mode in modes:
        each = [
            {
                "mode": mode,
                "k": k,
                "mem": memorized_percent(
                    is_memorized(
                        generate_continuations(
                            model,
                            probe_points,
                            k,
                            mode=mode,
                            extra_tokens=extra_tokens,
                            **generation_options,
                        ),
                        probe_points.suffix_tokens,
                        match=match,
                    ),
                    probe_points,
                    denominator=denominator,
                ),
            }
            for k in ks
        ]
        rows += [
            *each,
            {"mode": mode, "k": None, "mem": float(np.mean([row["mem"] for row in each]))},
        ]
    return [
        {
            **row,
            "probed_texts": len(probe_points.text_numbers),
            "too_short_texts": probe_points.too_short_count,
        }
        for row in rows
    ]
