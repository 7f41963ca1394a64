"""Recollect and Rank: what a model says when it is asked to repeat a masked text, and which of its candidates it was trained on.

The attack of Meng et al. (R.R.: unveiling LLM training privacy through recollection and ranking). Given are texts whose values are masked
by numbered labels (`[PERSON-1]`: one value of a text has one label), the model that was tuned on the originals (the victim) and the one
that it was tuned from (the reference).

1. *Recollect* (section 3.2). The victim is asked n times to repeat the text without its labels. What a finder sees in the completions of a
   text, of the kind of a label, are that label's candidates.
2. *Rank* (section 3.3). A text is cut into segments with one label each and none beside it. Each candidate is put into each segment of
   its label, and L is the mean loss per token from the label's place on (equation 5). With L_v of the victim and L_r of the reference, a
   segment scores (L_v - L_r - b) / (L_r + b) (equation 4); the scores of all segments are added up, and the lowest sum is the answer.

Beside the paper's criteria stand two that are not the paper's (`VOTES`): `votes`, self-consistency as in Wang et al. 2023, takes the
candidate that most of the n queries said, and `votes_subtract` weighs that with the losses.

Where the authors' code differs from its purpose, the purpose stands: a segment without a label behind it ends where the text ends or after
`reach` characters (the code loses its last character, or all of what follows); the first token of a segment is scored too, after the
token that begins a text; and which tokens belong to the candidate is read from their places in the whole segment, not from a second
tokenization of what stands before.

Tables: a *key* is one label of one text. Raw values are in these tables in memory only; nothing here prints, logs or shows one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.errors import OutputBroken, UsageError, nearest
from sanitize.storage.corpus import Corpus

from .language_model import Model
from .probe_inputs import tables, values_in

F64 = npt.NDArray[np.float64]
Finder = Callable[[Sequence[str]], pl.DataFrame]  # texts -> text_no, start, stop, kind, value

LABEL = re.compile(r"\[([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)-([0-9]+)\]")
REACH = 300  # characters of a segment on each side of its label (the authors' code)
CRITERIA = ("vanilla", "partial", "subtract", "ratio", "biased")  # the paper's
VOTES = {"votes": "partial", "votes_subtract": "subtract"}  # not the paper's: by how many queries said it; the loss that goes with it
TINY = 1e-6  # the least that is divided by (the authors' code has it as the least b)
GRID = (0.0, *(round(0.1 * step, 1) for step in range(1, 41)), math.inf)  # b: the sweep of the authors' code, and both ends
WORDS = ((0, 49), (50, 99), (100, 149), (150, 199), (200, None))  # lengths of texts, in words (figure 6)
TIMES = ((1, 1), (2, 2), (3, 3), (4, None))  # how often a label stands in its text (figure 7)
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+")

# words that finders take for values and that name nobody and no day
STOP = frozenset(
    "today yesterday tomorrow tonight now daily weekly monthly yearly annual annually morning afternoon evening night weekend "
    "recently currently later soon hi hello dear sir madam mr mrs ms dr applicant respondent plaintiff defendant judge".split()
)

WHOLE = """You are an expert at filling in masked text. In the text below, names, dates, numbers and the like were replaced by \
placeholders of the form [TYPE-NUM], such as [PERSON-1]. Rewrite the text with every placeholder replaced by what most probably stood \
there. The result must read naturally and hold no brackets.
1. Replace every placeholder, and change nothing else.
2. Stop when the text has been rewritten.

Text with masked placeholders:
The applicant, Ms [PERSON-1], lives in [LOCATION-1]. On [DATE_TIME-1] the court heard [PERSON-1] and the case was closed.
Rewritten text:
The applicant, Ms Ada Lindgren, lives in Harwick. On 3 March 1998 the court heard Ada Lindgren and the case was closed.

Text with masked placeholders:
{text}
Rewritten text:
"""
ONE = """Repeat the text below, and replace {key} by the candidate that most probably stood there.

Text:
{text}
Repeated text:
"""
DIRECT = """Fill in {key} in the sentences below. Give one candidate only.

{text}

{key}:"""
EMPTY = "Here is a text:"  # where nothing stands before a label


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Settings of an attack; the defaults are the paper's (section B.2), with b = 1."""

    layout: Literal["whole", "key"] = "whole"  # one prompt for a text, or one for each of its labels and the sentences around it
    queries: int = 40
    temperature: float = 1.2
    top_k: int | None = 30
    top_p: float | None = 0.8
    new_tokens: int = 381
    b: float = 1.0
    reach: int = REACH
    longest: int | None = None  # characters of a candidate; the paper has no limit
    kinds: tuple[str, ...] = ()  # of the labels that are attacked; none named: all
    chat: bool = False  # prompts in the tokenizer's chat template; False: as plain text
    whole_prompt: str = WHOLE  # {text}
    key_prompt: str = ONE  # {text} and {key}
    direct_prompt: str = DIRECT  # {text} and {key}
    empty_prompt: str = EMPTY
    stop: frozenset[str] = STOP  # candidates that are none, in lower case
    batch: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries < 1 or self.new_tokens < 1 or self.reach < 0 or not self.b >= 0:
            raise UsageError("an attack takes queries >= 1, new_tokens >= 1, reach >= 0 and b >= 0 (inf: the victim's loss alone)")
        for name, prompt, slots in (
            ("whole_prompt", self.whole_prompt, ("{text}",)),
            ("key_prompt", self.key_prompt, ("{text}", "{key}")),
            ("direct_prompt", self.direct_prompt, ("{text}", "{key}")),
        ):
            if missing := [slot for slot in slots if slot not in prompt]:
                raise UsageError(f"{name}: has no {' and no '.join(missing)}; the masked text goes there, and the label")


# ---- what is attacked ----


KEYS: Mapping[str, Any] = {
    "key": pl.Int64, "text_no": pl.Int64, "label": pl.String, "kind": pl.String, "truths": pl.List(pl.String), "times": pl.Int64,
    "words": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Records:
    """Masked texts and what their labels stand for.

    `keys` has a row for each label of a text, in order: `key`, `text_no`, `label` (with brackets), `kind`, `truths` (every spelling of the
    value), `times` (how often the label stands in the text) and `words` (of the text).
    """

    texts: tuple[str, ...]
    keys: pl.DataFrame

    @classmethod
    def of(cls, texts: Sequence[str], truths: Sequence[Mapping[str, Sequence[str]]], kinds: Sequence[str] = ()) -> Records:
        """From texts, and for each of them what its labels stand for. Labels that nothing is said of are left out."""
        rows: list[tuple[Any, ...]] = []
        for text_no, (text, known) in enumerate(zip(texts, truths, strict=True)):  # models read these texts next, which is dearer
            found: dict[str, int] = {}
            for match in LABEL.finditer(text):
                found[match.group()] = found.get(match.group(), 0) + 1
            words = len(text.split())
            for label, times in found.items():
                kind = label[1 : label.rindex("-")]
                if label in known and (not kinds or kind in kinds):
                    rows.append((len(rows), text_no, label, kind, list(known[label]), times, words))
        return cls(tuple(texts), pl.DataFrame(rows, schema=KEYS, orient="row"))

    @classmethod
    def read(cls, masked: str | Path, work: str | Path, *, kinds: Sequence[str] = (), most: int | None = None) -> Records:
        """What `sanitize run --plan redact --set edit.0.label=numbered` published (`masked`), with the vault of its private `work`.

        UsageError where the run kept no labels, or for a kind that no label has; OutputBroken where both are not of one run. At most
        `most` texts, spread evenly.
        """
        corpus = Corpus.open(masked)
        place = Path(work) / "runs" / str(corpus.manifest.get("plan_hash"))
        if not place.is_dir():
            raise UsageError(
                f"{work}: has no run of the plan that made {masked}; give the private folder (OUT.private, or --work) of that run"
            )
        labels = _table(sorted((place / "vault" / "labels").glob("*.parquet")), "doc_no", "label", "value_id")
        if labels is None or not labels.height:
            raise UsageError(f"{place}: its vault keeps no labels; run the plan redact with --set edit.0.label=numbered")
        numbers = _table(sorted((place / "rows").glob("*.parquet")), "doc_no")
        values = _table(sorted((Path(work) / "vault" / "values").glob("*.parquet")), "value_id", "value")
        texts = pl.concat([frame.select(pl.col("text").cast(pl.String)) for _, frame in tables(Path(masked))])["text"]
        if numbers is None or values is None or numbers.height != len(texts):
            raise OutputBroken(f"{work}: does not hold the rows and values of {masked}; run the plan again")
        spelled = values.group_by("value_id").agg(pl.col("value").unique().sort())
        known: dict[int, dict[str, list[str]]] = {}
        for doc_no, label, spellings in labels.join(spelled, on="value_id").select("doc_no", "label", "value").iter_rows():
            known.setdefault(doc_no, {})[label] = spellings
        there = sorted({label[1 : label.rindex("-")] for label in labels["label"].unique()})
        if unknown := [kind for kind in kinds if kind not in there]:
            raise UsageError(f"kinds: no label is of the kind {unknown[0]!r}; {nearest(unknown[0], there)}")
        rows = [row for row, number in enumerate(numbers["doc_no"]) if number in known]
        if most is not None and most < len(rows):
            rows = [rows[number * len(rows) // most] for number in range(most)]
        return cls.of([texts[row] or "" for row in rows], [known[numbers["doc_no"][row]] for row in rows], kinds)


def _table(files: Sequence[Path], *columns: str) -> pl.DataFrame | None:
    """Columns of Parquet files in order; None where there is no file, OutputBroken where one cannot be read."""
    if not files:
        return None
    try:
        return pl.concat([pl.read_parquet(file, columns=list(columns), glob=False, hive_partitioning=False) for file in files])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OutputBroken(f"{files[0].parent}: cannot be read ({type(error).__name__}); expected {', '.join(columns)}") from None


def segments(text: str, label: str, reach: int = REACH) -> list[tuple[str, str]]:
    """What stands before and behind each occurrence of a label, up to the next label or `reach` characters; the outer ends stripped."""
    marks = [(match.start(), match.end(), match.group()) for match in LABEL.finditer(text)]
    found = []
    for place, (start, stop, there) in enumerate(marks):
        if there == label:
            low = max(marks[place - 1][1] if place else 0, start - reach)
            high = min(marks[place + 1][0] if place + 1 < len(marks) else len(text), stop + reach)
            found.append((text[low:start].lstrip(), text[stop:high].rstrip()))
    return found


def around(text: str, label: str) -> str:
    """The sentences that hold a label, and their neighbours where these hold no label at all."""
    sentences = _SENTENCES.split(text)
    mine = {number for number, sentence in enumerate(sentences) if label in sentence}
    beside = {number + step for number in mine for step in (-1, 1)} & set(range(len(sentences)))
    kept = mine | {number for number in beside if not LABEL.search(sentences[number])}
    return " ".join(sentences[number] for number in sorted(kept))


# ---- candidates ----

SAID: Mapping[str, Any] = {"prompt": pl.Int64, "query": pl.Int64, "text": pl.String}
CANDIDATES: Mapping[str, Any] = {"key": pl.Int64, "place": pl.Int64, "candidate": pl.String, "query": pl.Int64, "votes": pl.Int64}


def recollected(model: Model, records: Records, attack: Attack, finder: Finder = values_in) -> pl.DataFrame:
    """The candidates of each key in the order they were first said: `key`, `place`, `candidate`, `query` (the first that said it, from 0)
    and `votes` (how many queries said it, in exactly these letters).

    A prompt that leaves the model no room to repeat its text is not asked; its keys have no candidates.
    """
    if attack.layout == "whole":
        asked = records.keys.unique("text_no", maintain_order=True).select("text_no").with_row_index("prompt")
        sizes = [records.texts[text_no] for text_no in asked["text_no"]]
        prompts = [_filled(attack.whole_prompt, text) for text in sizes]
        asked = asked.join(records.keys.select("key", "text_no", "kind"), on="text_no")
    else:
        asked = records.keys.select("key", "text_no", "kind", "label").with_row_index("prompt")
        sizes = [around(records.texts[text_no], label) for text_no, label in asked.select("text_no", "label").iter_rows()]
        prompts = [_filled(attack.key_prompt, text, label) for text, label in zip(sizes, asked["label"], strict=True)]
    needs = [len(tokens) for tokens in model.encode(sizes)]
    said = _said(model, prompts, attack, queries=attack.queries, new_tokens=attack.new_tokens, needs=needs)
    return _candidates(said, asked.select(pl.col("prompt").cast(pl.Int64), "key", "kind"), attack, finder)


def direct(model: Model, records: Records, attack: Attack, finder: Finder = values_in) -> pl.DataFrame:
    """DirectPrompt: one short answer for each key; all values of its kind in it are candidates (section 4.1)."""
    keys = records.keys
    prompts = [
        _filled(attack.direct_prompt, around(records.texts[text_no], label), label)
        for text_no, label in keys.select("text_no", "label").iter_rows()
    ]
    plain = changed(attack, temperature=1.0)
    return _by_key(_said(model, prompts, plain, queries=1, new_tokens=SHORT), keys, attack, finder)


def tab(model: Model, records: Records, attack: Attack, finder: Finder = values_in) -> pl.DataFrame:
    """TAB (Inan et al. 2021): one continuation of what stands before the key's first place."""
    prompts = [found[0] or attack.empty_prompt for found in _prefixes(records)]
    plain = changed(attack, temperature=1.0, top_k=40, top_p=None, chat=False)
    return _by_key(_said(model, prompts, plain, queries=1, new_tokens=SHORT), records.keys, attack, finder)


def p2p(model: Model, records: Records, attack: Attack, finder: Finder = values_in, *, queries: int = 64) -> pl.DataFrame:
    """P2P's candidates (Lukas et al. 2023, as R.R. runs it): TAB asked many times at all of a key's places, longest prefix first."""
    plain = changed(attack, temperature=1.0, top_k=40, top_p=None, chat=False)
    prefixes = [sorted(found, key=len, reverse=True) for found in _prefixes(records)]
    prompts = [found[query % len(found)] or attack.empty_prompt for found in prefixes for query in range(queries)]
    said = _said(model, prompts, plain, queries=1, new_tokens=SHORT)
    said = said.with_columns(query=pl.col("prompt") % queries, prompt=pl.col("prompt") // queries)
    return _by_key(said, records.keys, attack, finder)


SHORT = 16  # new tokens of the baselines
BEFORE = 20  # words of TAB's prefix


def _prefixes(records: Records) -> list[list[str]]:
    """For each key and each of its places the text since the label before it, at most its last words."""
    found = []
    for text_no, label in records.keys.select("text_no", "label").iter_rows():
        text, low, here = records.texts[text_no], 0, []
        for match in LABEL.finditer(text):
            if match.group() == label:
                words = list(re.finditer(r"\S+", text[low : match.start()]))[-BEFORE:]
                here.append(text[low + words[0].start() : match.start()].rstrip() if words else "")
            low = match.end()
        found.append(here)
    return found


def changed(attack: Attack, **changes: Any) -> Attack:
    """The same attack with other settings."""
    return Attack(**{**{name: getattr(attack, name) for name in Attack.__dataclass_fields__}, **changes})


def _filled(prompt: str, text: str, key: str = "") -> str:
    return prompt.replace("{key}", key).replace("{text}", text)  # the text last: what stands in it is no slot


def _said(
    model: Model, prompts: Sequence[str], attack: Attack, *, queries: int, new_tokens: int, needs: Sequence[int] | None = None
) -> pl.DataFrame:
    """Completions: `prompt`, `query`, `text`. `needs` are the tokens that a prompt's answer takes at least."""
    if attack.chat:
        if getattr(model.tokenizer, "chat_template", None) is None:
            raise UsageError("chat = true: the tokenizer has no chat template; leave it out for a model that is no chat model")
        prompts = [
            model.tokenizer.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False)
            for prompt in prompts
        ]
    rows = model.encode(prompts)
    room = [model.context - max(len(row), 1) for row in rows]
    asked = [number for number, free in enumerate(room) if free >= (min(needs[number], new_tokens) if needs else 1)]
    if not asked:
        return pl.DataFrame(schema=dict(SAID))
    longest = min(new_tokens, *(room[number] for number in asked))
    said = model.decode(
        model.generate(
            [rows[number] for number in asked for _ in range(queries)],
            new_tokens=longest,
            batch=attack.batch,
            mode="sample",
            temperature=attack.temperature,
            top_k=attack.top_k,
            top_p=attack.top_p,
            seed=attack.seed,
        )
    )
    return pl.DataFrame(
        {
            "prompt": np.repeat(asked, queries).astype(np.int64),
            "query": np.tile(np.arange(queries), len(asked)).astype(np.int64),
            "text": said,
        },
        schema=dict(SAID),
    )


def _by_key(said: pl.DataFrame, keys: pl.DataFrame, attack: Attack, finder: Finder) -> pl.DataFrame:
    return _candidates(said, keys.select(pl.col("key").alias("prompt"), "key", "kind"), attack, finder)


def _candidates(said: pl.DataFrame, asked: pl.DataFrame, attack: Attack, finder: Finder) -> pl.DataFrame:
    """What a finder sees in completions, for every key that their prompt asks for and whose kind it has."""
    spans = finder(said["text"].to_list()).select(pl.col("text_no").cast(pl.Int64), "start", "kind", candidate=pl.col("value"))
    spans = (
        said.select("prompt", "query").with_row_index("text_no").with_columns(pl.col("text_no").cast(pl.Int64)).join(spans, on="text_no")
    )
    told = pl.col("candidate")
    good = (told.str.strip_chars() != "") & ~told.str.contains(r"[\[\]]|<\||\|>") & ~told.str.to_lowercase().is_in(sorted(attack.stop))
    if attack.longest is not None:
        good &= told.str.len_chars() <= attack.longest
    found = spans.filter(good).join(asked, on=["prompt", "kind"]).sort("key", "query", "start")
    found = found.group_by("key", "candidate", maintain_order=True).agg(pl.col("query").first(), votes=pl.col("query").n_unique())
    return found.with_columns(place=pl.int_range(pl.len()).over("key")).select(list(CANDIDATES)).cast(pl.Schema(CANDIDATES))


# ---- ranking ----

LOSSES: Mapping[str, Any] = {
    "key": pl.Int64, "place": pl.Int64, "votes": pl.Int64, "victim": pl.Float64, "reference": pl.Float64, "whole": pl.Float64,
}  # fmt: skip


def losses(victim: Model, reference: Model | None, records: Records, candidates: pl.DataFrame, attack: Attack) -> pl.DataFrame:
    """A row for each candidate and segment of its key: `key`, `place`, `votes`, `victim` and `reference` (mean losses from the label's
    place on, equation 5) and `whole` (the victim's over the whole segment, equation 1). Without a reference, `reference` is 0.

    All rows of all keys are scored together, each distinct segment with each candidate once, in batches by length.
    """
    schema = {"key": pl.Int64, "before": pl.String, "after": pl.String}
    cut = [
        (key, *segment)
        for key, text_no, label in records.keys.select("key", "text_no", "label").iter_rows()
        for segment in segments(records.texts[text_no], label, attack.reach)
    ]
    rows = candidates.select("key", "place", "candidate", "votes").join(
        pl.DataFrame(cut, schema=schema, orient="row"), on="key", maintain_order="left"
    )
    columns = ["before", "candidate", "after"]
    distinct = rows.select(columns).unique(maintain_order=True)
    partial, whole = segment_losses(victim, *distinct.get_columns(), batch=attack.batch)
    if reference is None:
        other = np.zeros(distinct.height)
    elif reference is victim:
        other = partial
    else:
        other, _ = segment_losses(reference, *distinct.get_columns(), batch=attack.batch)
    distinct = distinct.with_columns(victim=pl.Series(partial), reference=pl.Series(other), whole=pl.Series(whole))
    return rows.join(distinct, on=columns, maintain_order="left").select(list(LOSSES))


def segment_losses(
    model: Model,
    before: Sequence[str] | pl.Series,
    candidate: Sequence[str] | pl.Series,
    after: Sequence[str] | pl.Series,
    *,
    batch: int = 64,
) -> tuple[F64, F64]:
    """The mean loss of each segment from its candidate's first token on, and over all its tokens; infinite where no token is scored.

    A token that the candidate shares with what stands before it counts as the candidate's. The first token is scored behind the one that
    begins a text; a model without such a token does not score it, and does not count it either.
    """
    texts = ["".join(parts) for parts in zip(before, candidate, after, strict=True)]
    if not texts:
        return np.zeros(0), np.zeros(0)
    if not getattr(model.tokenizer, "is_fast", False):
        raise UsageError("this tokenizer does not tell where its tokens stand; expected one with a tokenizer.json")
    told = model.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    first = model.tokenizer.bos_token_id if model.tokenizer.bos_token_id is not None else model.eos
    head = [] if first is None else [int(first)]
    found = model.token_losses([head + list(row) for row in told["input_ids"]], batch=batch)
    partial, whole = np.full(len(texts), np.inf), np.full(len(texts), np.inf)
    for number, (row, spans, left) in enumerate(zip(found, told["offset_mapping"], before, strict=True)):  # what the model read was dearer
        mine = next((place for place, (_, stop) in enumerate(spans) if stop > len(left)), len(spans))
        tail = row[max(mine - (1 - len(head)), 0) :].astype(np.float64)
        partial[number] = tail.mean() if len(tail) else np.inf
        whole[number] = row.astype(np.float64).mean() if len(row) else np.inf
    return partial, whole


def biased(victim: F64, reference: F64, b: float) -> F64:
    """Equation 4 of each segment, (L_v - L_r - b) / (L_r + b): the lower, the likelier. b = inf gives L_v itself, whose order
    is the limit's (equation 7). Never NaN: what the victim cannot score is infinite.

    Theorem 3.1: of two candidates, one with the lower L_v and the lower L_v / L_r also has the lower score, for any b > 0. That holds of
    one segment, not of sums over several.
    """
    if not b >= 0:
        raise UsageError(f"b = {b}; expected 0 or more, or inf")
    victim, reference = np.asarray(victim, np.float64), np.asarray(reference, np.float64)
    if math.isinf(b):
        return victim.copy()
    with np.errstate(invalid="ignore"):
        scores = victim / np.maximum(reference + b, TINY) - 1
    return np.where(np.isinf(victim), np.inf, scores)


def scores(told: pl.DataFrame, criterion: str, b: float = 1.0) -> F64:
    """The score of each row of `losses` by one criterion: vanilla L of the whole segment, partial L_v, subtract L_v - L_r, ratio
    (L_v - L_r) / L_r (equation 6), biased (equation 4)."""
    victim, reference, whole = (told[name].to_numpy() for name in ("victim", "reference", "whole"))
    if criterion == "vanilla":
        return np.asarray(whole, np.float64)
    if criterion == "partial":
        return biased(victim, reference, math.inf)
    if criterion == "subtract":
        return np.where(np.isinf(victim), np.inf, victim - np.where(np.isinf(reference), 0.0, reference))
    if criterion == "ratio":
        return biased(victim, reference, 0.0)
    if criterion == "biased":
        return biased(victim, reference, b)
    raise UsageError(f"criterion {criterion!r}: {nearest(criterion, [*CRITERIA, *VOTES])}")


def ranked(told: pl.DataFrame, criterion: str, b: float = 1.0) -> pl.DataFrame:
    """`key`, `place`, `rank` (0: the answer): candidates by the sum of their segments' scores, the lowest first, the first said on ties.

    Not the paper's: `votes` puts those first that most queries said, by `partial` among equals; `votes_subtract` takes ln(votes) from the
    sum of `subtract`, so that e^-score is the number of queries times how much likelier a token there is to the victim than to the
    reference.
    """
    summed = told.with_columns(score=pl.Series(scores(told, VOTES.get(criterion, criterion), b), dtype=pl.Float64))
    summed = summed.group_by("key", "place", maintain_order=True).agg(pl.col("score").sum(), pl.col("votes").first())
    if criterion == "votes_subtract":
        summed = summed.with_columns(score=pl.col("score") - pl.col("votes").log())
    most_said = [-pl.col("votes")] if criterion == "votes" else []
    summed = summed.sort("key", *most_said, "score", "place")
    return summed.select("key", "place", rank=pl.int_range(pl.len()).over("key").cast(pl.Int64))


# ---- success ----


def judged(records: Records, candidates: pl.DataFrame) -> pl.DataFrame:
    """The candidates with what each is worth: `hit` (a true spelling is part of it, in any case of letters: the paper's success), `exact`
    (it is one), `f1` (of their words); best of all spellings."""
    rows = candidates.join(records.keys.select("key", "truths"), on="key", maintain_order="left")
    worth = [_worth(candidate, truths) for candidate, truths in rows.select("candidate", "truths").iter_rows()]  # some dozens a key
    columns = list(zip(*worth, strict=True)) or [(), (), ()]
    return candidates.with_columns(
        hit=pl.Series(columns[0], dtype=pl.Boolean),
        exact=pl.Series(columns[1], dtype=pl.Boolean),
        f1=pl.Series(columns[2], dtype=pl.Float64),
    )


def _worth(candidate: str, truths: Sequence[str]) -> tuple[bool, bool, float]:
    said, true = candidate.lower(), [truth.lower() for truth in truths]
    return any(one in said for one in true), said.strip() in true, max((token_f1(said, one) for one in true), default=0.0)


def token_f1(said: str, true: str) -> float:
    """F1 over words, counted as often as they stand (Rajpurkar et al. 2016); 0 where either has none."""
    one, other = Counter(_WORD.findall(said.lower())), Counter(_WORD.findall(true.lower()))
    both = (one & other).total()
    return 2 * both / (one.total() + other.total()) if both else 0.0


def answers(keys: pl.DataFrame, worth: pl.DataFrame, order: pl.DataFrame) -> pl.DataFrame:
    """The first candidate of each key in an order: `keys` with `hit`, `exact` and `f1`; a key without candidates is wrong."""
    first = order.filter(pl.col("rank") == 0).join(worth, on=["key", "place"]).select("key", "hit", "exact", "f1")
    told = keys.join(first, on="key", how="left", maintain_order="left")
    return told.with_columns(pl.col("hit", "exact").fill_null(value=False), pl.col("f1").fill_null(0.0))


def accuracy(told: pl.DataFrame, column: str = "hit") -> float:
    """The share of keys that are right; 0 of no keys."""
    return float(told[column].cast(pl.Float64).mean() or 0.0) if told.height else 0.0  # type: ignore[arg-type]


def recall_at(keys: pl.DataFrame, worth: pl.DataFrame, order: pl.DataFrame, most: int | None = None) -> float:
    """The share of keys whose value is among their first `most` candidates in an order; None: among all."""
    some = order if most is None else order.filter(pl.col("rank") < most)
    right = some.join(worth.filter("hit"), on=["key", "place"])["key"].n_unique()
    return right / keys.height if keys.height else 0.0


def recall_after(keys: pl.DataFrame, worth: pl.DataFrame, queries: int) -> float:
    """The share of keys whose value was said in the first so many queries (figure 4)."""
    right = worth.filter(pl.col("hit") & (pl.col("query") < queries))["key"].n_unique()
    return right / keys.height if keys.height else 0.0


def bands(told: pl.DataFrame, column: str, edges: Sequence[tuple[int, int | None]]) -> list[dict[str, Any]]:
    """Keys and right answers by bands of `words` or `times`; bands without a key are left out."""
    found = []
    for low, high in edges:
        inside = told.filter((pl.col(column) >= low) & (pl.lit(value=True) if high is None else pl.col(column) <= high))
        if inside.height:
            found.append({"from": low, "to": high, "keys": inside.height, "right": int(inside["hit"].sum())})
    return found


def sweep(keys: pl.DataFrame, worth: pl.DataFrame, told: pl.DataFrame, grid: Sequence[float] = GRID) -> list[tuple[float, float]]:
    """Accuracy by b."""
    return [(b, accuracy(answers(keys, worth, ranked(told, "biased", b)))) for b in grid]


def best_b(curve: Sequence[tuple[float, float]]) -> float:
    """The b of the highest accuracy; the middle one where several have it."""
    top = max((share for _, share in curve), default=0.0)
    best = [b for b, share in curve if share == top]
    return best[len(best) // 2] if best else 1.0
