"""Whether a model says the twenty tokens that follow a prefix of its training text: k-extractable memorization.

A suffix s of a training text is k-extractable if the model, given the k tokens before it, generates exactly s (Carlini et al. 2023;
Slack and Al Moubayed, early detection of memorization, section 3.1; k = 12, 16, 20 and twenty tokens of suffix in section 3.5). Where a
text is probed hangs on its `doc_id` and the seed alone: the same place for every checkpoint, technique and order of the texts, and the
same suffix for every k, whose prefix is the last k tokens before it. Texts shorter than the longest prefix and the suffix together are
left out; `of="all"` counts them as not memorized, which is how the paper's formula reads.

Token numbers in, numbers out; the costs are those of generating twenty tokens for each text and k.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr

from sanitize.errors import UsageError, nearest

from ..language_model import Model
from ..metric import Figure, Ground, Metric, Rows, by_epoch
from ..probe_inputs import Texts, read_texts
from ..run_folder import Checkpoint, Run

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

KS = (12, 16, 20)
SUFFIX = 20
ENDED = -1


class Verbatim(Metric):
    """Settings of the probes; the defaults are the paper's."""

    texts: str = ""  # a set of the suite, such as the raw texts for all runs alike; empty: what each run was trained on
    ks: tuple[int, ...] = Field(default=KS, min_length=1)
    suffix: int = Field(default=SUFFIX, ge=1)
    modes: tuple[Literal["greedy", "beam", "sample"], ...] = ("greedy",)
    match: Literal["exact", "contains"] = "exact"
    of: Literal["probed", "all"] = "probed"
    batch: int = Field(default=64, ge=1)

    _ground: Ground = PrivateAttr(default_factory=Ground)

    def open(self, ground: Ground) -> None:
        """Take the seed and the sets of texts; UsageError for a set that the suite does not have."""
        named_set(ground, self.texts, self.use)
        self._ground = ground

    def at(self, run: Run, checkpoint: Checkpoint, model: Model) -> dict[str, Any]:
        """Mem % by decoding and k, and over the ks."""
        texts = named_set(self._ground, self.texts, self.use) or read_texts(run.data)
        where = places(trained_part(run, model, texts.texts), texts.doc_ids, ks=self.ks, suffix=self.suffix, seed=self._ground.seed)
        rows = verbatim_table(
            model, where, ks=self.ks, modes=self.modes, of=self.of, match=self.match, seed=self._ground.seed, batch=self.batch
        )
        told: dict[str, Any] = {"probed": len(where.rows), "left_out": where.left_out}
        for row in rows:
            told.setdefault(row["mode"], {})["mem" if row["k"] is None else f"mem_{row['k']}"] = row["mem"]
        return told

    def figures(self, rows: Rows, over: Mapping[str, Any]) -> list[Figure]:
        """Memorization over epochs (figure 1)."""
        mode = self.modes[0]
        return [by_epoch(rows, lambda row: row.get(self.use, {}).get(mode, {}).get("mem"), "Texts that come out verbatim", "%")]


def named_set(ground: Ground, name: str, use: str) -> Texts | None:
    """A set of the suite's texts by name, None for no name; UsageError where the suite does not have it."""
    if not name:
        return None
    if name not in ground.texts:
        raise UsageError(f"{use}.texts: no set {name!r} in [texts]; {nearest(name, ground.texts)}")
    return ground.texts[name]


def trained_part(run: Run, model: Model, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts that the run was shown of them: all, or with `overlong = "cut"` what its rows had room for."""
    rows = model.encode(texts)
    recipe = run.recipe.get("recipe") or {}
    if recipe.get("data", {}).get("layout") != "document" or recipe["data"].get("overlong") != "cut":
        return rows
    plain, whole = (len(model.tokenizer("a", add_special_tokens=special)["input_ids"]) for special in (False, True))
    # special tokens around a text take their places in the row, and so does its end
    room = (recipe.get("model", {}).get("context") or model.context) - (whole - plain) - 1
    return [row[:room] for row in rows]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a corpus is probed: for each text that is long enough its number, the tokens before the suffix, and the suffix."""

    rows: I64  # [probed] number of the text in the corpus
    before: I64  # [probed, longest k]
    suffix: I64  # [probed, suffix length]
    texts: int  # how many texts the corpus has, too short ones included

    def prefix(self, k: int) -> I64:
        """The last k tokens before each suffix, [probed, k]."""
        if not 1 <= k <= self.before.shape[1]:
            raise ValueError(
                f"k = {k}; these places have prefixes of 1 to {self.before.shape[1]} tokens. Draw them with a larger k in `ks`"
            )
        return self.before[:, self.before.shape[1] - k :]

    @property
    def left_out(self) -> int:
        """How many texts were too short."""
        return self.texts - len(self.rows)


def places(
    sequences: Sequence[Sequence[int]], doc_ids: Sequence[str], *, ks: Sequence[int] = KS, suffix: int = SUFFIX, seed: int = 0
) -> Places:
    """A place in each text that holds `max(ks) + suffix` tokens or more, drawn from its `doc_id` and the seed."""
    assert len(sequences) == len(doc_ids), "one doc_id for each text"
    longest = max(ks)
    rows, before, after = [], [], []
    for row, (tokens, doc_id) in enumerate(zip(sequences, doc_ids, strict=True)):  # one draw a text, beside which a forward pass is dear
        free = len(tokens) - longest - suffix
        if free >= 0:
            drawn = hashlib.blake2b(
                str(doc_id).encode(), digest_size=8, key=seed.to_bytes(8, "little", signed=True), person=b"verbatim"
            ).digest()
            start = int.from_bytes(drawn, "little") % (free + 1) + longest
            rows.append(row)
            before.append(np.asarray(tokens[start - longest : start], np.int64))
            after.append(np.asarray(tokens[start : start + suffix], np.int64))
    return Places(
        rows=np.array(rows, np.int64),
        before=np.array(before, np.int64).reshape(-1, longest),
        suffix=np.array(after, np.int64).reshape(-1, suffix),
        texts=len(sequences),
    )


def memorized(generated: I64, suffix: I64, *, match: Literal["exact", "contains"] = "exact") -> Bools:
    """Whether each row of generated tokens begins with its suffix; with `contains` whether the suffix stands anywhere in it."""
    assert len(generated) == len(suffix), "one row of generated tokens for each suffix"
    length = suffix.shape[1]
    if generated.shape[1] < length:
        return np.zeros(len(suffix), np.bool_)
    if match == "exact":
        return np.asarray((generated[:, :length] == suffix).all(1))
    windows = np.lib.stride_tricks.sliding_window_view(generated, length, axis=1)
    return np.asarray((windows == suffix[:, None, :]).all(2).any(1))


def percent(hits: Bools, where: Places, *, of: Literal["probed", "all"] = "probed") -> float:
    """Mem %, the share of texts whose suffix came out; 0.0 where there is none to share among."""
    texts = len(where.rows) if of == "probed" else where.texts
    return 100.0 * float(hits.sum()) / texts if texts else 0.0


def continued(model: Model, where: Places, k: int, *, mode: str = "greedy", more: int = 0, **how: Any) -> I64:
    """What the model says after the last k tokens before each suffix, [probed, suffix length + more], -1 where it ended.

    `mode` is greedy, beam or sample, `how` what belongs to it (`beams`, `temperature`, `top_k`, `top_p`, `seed`, `batch`). `more` tokens
    beyond the suffix are for `memorized(..., match="contains")`.
    """
    length = where.suffix.shape[1] + more
    said = model.generate(where.prefix(k).tolist(), new_tokens=length, mode=mode, **how)
    return np.array([row + [ENDED] * (length - len(row)) for row in said], np.int64).reshape(-1, length)


def verbatim_table(
    model: Model,
    where: Places,
    *,
    ks: Sequence[int] = KS,
    modes: Sequence[str] = ("greedy",),
    of: Literal["probed", "all"] = "probed",
    match: Literal["exact", "contains"] = "exact",
    **how: Any,
) -> list[dict[str, Any]]:
    """Mem % by decoding and k, and the mean over the ks (k None), which the paper's tables print."""
    more = where.suffix.shape[1] if match == "contains" else 0
    rows: list[dict[str, Any]] = []
    for mode in modes:
        each = [
            {
                "mode": mode,
                "k": k,
                "mem": percent(memorized(continued(model, where, k, mode=mode, more=more, **how), where.suffix, match=match), where, of=of),
            }
            for k in ks
        ]
        rows += [*each, {"mode": mode, "k": None, "mem": float(np.mean([row["mem"] for row in each]))}]
    return [{**row, "probed": len(where.rows), "left_out": where.left_out} for row in rows]
