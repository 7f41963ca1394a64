"""Recollect and Rank: an attack that lets a model fill in masked texts, and ranks the candidates by
how likely it was trained on them.

The attack of Meng et al. (R.R.: unveiling LLM training privacy through recollection and ranking).
Its inputs are texts whose values are masked by numbered labels (`[PERSON-1]`: one value of a text
has one label), the model that was tuned on the originals (the victim) and the model that it was
tuned from (the reference).

1. *Recollect* (section 3.2). The victim is prompted n times to repeat the text without its labels.
   The values of a label's kind that a finder finds in the completions of the text are that label's
   candidates.
2. *Rank* (section 3.3). A text is cut into segments that contain one label each. Each candidate is
   inserted into each segment of its label, and L is the mean loss per token from the label's
   position on (equation 5). With L_v of the victim and L_r of the reference, a segment has the
   score (L_v - L_r - b) / (L_r + b) (equation 4); the scores of all segments are summed, and the
   lowest sum is the answer.

Two further criteria are not the paper's (`VOTE_CRITERIA`): `votes`, self-consistency as in Wang et
al. 2023, chooses the candidate that was generated in most of the n queries, and `votes_subtract`
combines that with the losses.

Deviations from the authors' code, where it differs from its stated purpose: a segment without a
label after it ends at the end of the text or after `reach` characters (their code loses its last
character, or everything that follows); the first token of a segment is scored too, after the token
that begins a text; and the tokens of the candidate are determined from offsets in the whole
segment, not from a second tokenization of the text before it.

In the tables a *key* is one label of one text. Raw values are in these tables in memory only; this
module never prints, logs or shows one.
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
import polars as pl

from sanitize.array_types import F64
from sanitize.errors import OutputBroken, UsageError, suggest_names
from sanitize.storage.corpus import Corpus
from sanitize.train.corpus_reader import read_documents

from .language_model import LanguageModel
from .texts_and_prompts import find_values

ValueFinder = Callable[[Sequence[str]], pl.DataFrame]  # texts -> text_no, start, end, kind, value

LABEL_PATTERN = re.compile(r"\[([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)-([0-9]+)\]")
SEGMENT_REACH = 300  # characters of a segment on each side of its label (the authors' code)
CRITERIA = ("vanilla", "partial", "subtract", "ratio", "biased")  # the paper's
# not the paper's: criterion by votes -> the loss criterion that it is combined with
VOTE_CRITERIA = {"votes": "partial", "votes_subtract": "subtract"}
MIN_DENOMINATOR = 1e-6  # smallest denominator (the authors' code has it as the smallest b)
# b: the sweep of the authors' code, and both ends
B_GRID = (0.0, *(round(0.1 * step, 1) for step in range(1, 41)), math.inf)
# lengths of texts, in words (figure 6)
WORD_BANDS = (
    (0, 49),
    (50, 99),
    (100, 149),
    (150, 199),
    (200, None),
)
# occurrences of a label in its text (figure 7)
OCCURRENCE_BANDS = (
    (1, 1),
    (2, 2),
    (3, 3),
    (4, None),
)
_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+")
_WORD_PATTERN = re.compile(r"\w+")

# words that finders report although they are neither a name nor a date
STOP_WORDS = frozenset(
    "today yesterday tomorrow tonight now daily weekly monthly yearly annual annually morning"
    " afternoon evening night weekend recently currently later soon hi hello dear sir madam mr mrs"
    " ms dr applicant respondent plaintiff defendant judge".split()
)

WHOLE_PROMPT = """You are an expert at filling in masked text. In the text below, names, dates, numbers and the like were replaced by \
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
"""  # noqa: E501
KEY_PROMPT = """Repeat the text below, and replace {key} by the candidate that most probably stood there.

Text:
{text}
Repeated text:
"""  # noqa: E501
DIRECT_PROMPT = """Fill in {key} in the sentences below. Give one candidate only.

{text}

{key}:"""
EMPTY_PROMPT = "Here is a text:"  # used if there is no text before a label


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """Settings of an attack; the defaults are the paper's (section B.2), with b = 1."""

    layout: Literal["whole", "key"] = (
        "whole"  # one prompt per text, or one per label with the sentences around it
    )
    queries: int = 40
    temperature: float = 1.2
    top_k: int | None = 30
    top_p: float | None = 0.8
    new_tokens: int = 381
    b: float = 1.0
    reach: int = SEGMENT_REACH
    longest: int | None = (
        None  # maximum number of characters of a candidate; the paper has no limit
    )
    kinds: tuple[str, ...] = ()  # kinds of the labels that are attacked; empty: all
    chat: bool = False  # prompts in the tokenizer's chat template; False: as plain text
    whole_prompt: str = WHOLE_PROMPT  # {text}
    key_prompt: str = KEY_PROMPT  # {text} and {key}
    direct_prompt: str = DIRECT_PROMPT  # {text} and {key}
    empty_prompt: str = EMPTY_PROMPT
    stop_words: frozenset[str] = STOP_WORDS  # never candidates, in lower case
    batch: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.queries < 1 or self.new_tokens < 1 or self.reach < 0 or not self.b >= 0:
            raise UsageError(
                "an attack needs queries >= 1, new_tokens >= 1, reach >= 0 and b >= 0 (inf: the"
                " victim's loss alone)"
            )
        for name, prompt, slots in (
            ("whole_prompt", self.whole_prompt, ("{text}",)),
            ("key_prompt", self.key_prompt, ("{text}", "{key}")),
            ("direct_prompt", self.direct_prompt, ("{text}", "{key}")),
        ):
            if missing := [slot for slot in slots if slot not in prompt]:
                raise UsageError(
                    f"{name}: has no {' and no '.join(missing)}; {{text}} is replaced by the masked"
                    " text, {key} by the label"
                )


# ---- masked records ----


KEY_SCHEMA: Mapping[str, Any] = {
    "key": pl.Int64,
    "text_no": pl.Int64,
    "label": pl.String,
    "kind": pl.String,
    "truths": pl.List(pl.String),
    "times": pl.Int64,
    "words": pl.Int64,
}


@dataclass(frozen=True, repr=False)
class MaskedRecords:
    """Masked texts and the values behind their labels.

    `keys` has a row for each label of a text, in order: `key`, `text_no`, `label` (with brackets),
    `kind`, `truths` (every spelling of the value), `times` (occurrences of the label in the text)
    and `words` (number of words of the text).
    """

    texts: tuple[str, ...]
    keys: pl.DataFrame

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        truths: Sequence[Mapping[str, Sequence[str]]],
        kinds: Sequence[str] = (),
    ) -> MaskedRecords:
        """Build records from texts, and for each the spellings of its labels' values. Labels
        without spellings are left out."""
        rows: list[tuple[Any, ...]] = []
        for text_no, (text, known) in enumerate(zip(texts, truths, strict=True)):
            # cheap compared with the models that read the texts
            found: dict[str, int] = {}
            for match in LABEL_PATTERN.finditer(text):
                found[match.group()] = found.get(match.group(), 0) + 1
            words = len(text.split())
            for label, times in found.items():
                kind = label[1 : label.rindex("-")]
                if label in known and (not kinds or kind in kinds):
                    rows.append((len(rows), text_no, label, kind, list(known[label]), times, words))
        return cls(tuple(texts), pl.DataFrame(rows, schema=KEY_SCHEMA, orient="row"))

    @classmethod
    def read(
        cls,
        masked_path: str | Path,
        workspace: str | Path,
        *,
        kinds: Sequence[str] = (),
        most: int | None = None,
    ) -> MaskedRecords:
        """Read the output of `sanitize run --plan redact --set edit.0.label=numbered` with the
        vault of its private folder `workspace`.

        At most `most` texts, evenly spaced. Raises UsageError if the run stored no labels or no
        label has one of `kinds`, OutputBroken if output and workspace are not of one run.
        """
        corpus = Corpus.open(masked_path)
        run_folder = Path(workspace) / "runs" / str(corpus.manifest.get("run_hash"))
        if not run_folder.is_dir():
            raise UsageError(
                f"{workspace}: has no run of the plan of {masked_path}; give the private folder"
                " (OUT.private, or --work) of that run"
            )
        labels = _read_columns(
            sorted((run_folder / "vault" / "labels").glob("*.parquet")),
            "doc_no",
            "label",
            "value_id",
        )
        if labels is None or not labels.height:
            raise UsageError(
                f"{run_folder}: its vault has no labels; run the plan redact with --set"
                " edit.0.label=numbered"
            )
        numbers = _read_columns(sorted((run_folder / "rows").glob("*.parquet")), "doc_no")
        values = _read_columns(
            sorted((Path(workspace) / "vault" / "values").glob("*.parquet")), "value_id", "value"
        )
        texts = read_documents(masked_path).table.column("text").to_pylist()
        if numbers is None or values is None or numbers.height != len(texts):
            raise OutputBroken(
                f"{workspace}: does not have the rows and values of {masked_path}; run the plan"
                " again"
            )
        spellings_by_value = values.group_by("value_id").agg(pl.col("value").unique().sort())
        known: dict[int, dict[str, list[str]]] = {}
        for doc_no, label, spellings in (
            labels.join(spellings_by_value, on="value_id")
            .select("doc_no", "label", "value")
            .iter_rows()
        ):
            known.setdefault(doc_no, {})[label] = spellings
        label_kinds = sorted({label[1 : label.rindex("-")] for label in labels["label"].unique()})
        if unknown := [kind for kind in kinds if kind not in label_kinds]:
            raise UsageError(
                f"kinds: no label is of the kind {unknown[0]!r};"
                f" {suggest_names(unknown[0], label_kinds)}"
            )
        rows = [row for row, number in enumerate(numbers["doc_no"]) if number in known]
        if most is not None and most < len(rows):
            rows = [rows[number * len(rows) // most] for number in range(most)]
        return cls.from_texts(
            [texts[row] for row in rows], [known[numbers["doc_no"][row]] for row in rows], kinds
        )


def _read_columns(files: Sequence[Path], *columns: str) -> pl.DataFrame | None:
    """Read columns of Parquet files in order; None if there is no file, OutputBroken if one cannot
    be read."""
    if not files:
        return None
    try:
        return pl.concat(
            [
                pl.read_parquet(file, columns=list(columns), glob=False, hive_partitioning=False)
                for file in files
            ]
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise OutputBroken(
            f"{files[0].parent}: cannot be read ({type(error).__name__}); expected"
            f" {', '.join(columns)}"
        ) from None


def cut_segments(text: str, label: str, reach: int = SEGMENT_REACH) -> list[tuple[str, str]]:
    """Return the text before and after each occurrence of a label, up to the next label or `reach`
    characters, outer ends stripped."""
    label_spans = [
        (match.start(), match.end(), match.group()) for match in LABEL_PATTERN.finditer(text)
    ]
    found = []
    for span_no, (start, end, found_label) in enumerate(label_spans):
        if found_label == label:
            low = max(label_spans[span_no - 1][1] if span_no else 0, start - reach)
            high = min(
                label_spans[span_no + 1][0] if span_no + 1 < len(label_spans) else len(text),
                end + reach,
            )
            found.append((text[low:start].lstrip(), text[end:high].rstrip()))
    return found


def find_sentences_around(text: str, label: str) -> str:
    """Return the sentences that contain a label, and their neighbours that contain no label at
    all."""
    sentences = _SENTENCE_BREAK.split(text)
    containing = {number for number, sentence in enumerate(sentences) if label in sentence}
    neighbours = {number + step for number in containing for step in (-1, 1)} & set(
        range(len(sentences))
    )
    kept = containing | {
        number for number in neighbours if not LABEL_PATTERN.search(sentences[number])
    }
    return " ".join(sentences[number] for number in sorted(kept))


# ---- candidates ----

COMPLETION_SCHEMA: Mapping[str, Any] = {"prompt": pl.Int64, "query": pl.Int64, "text": pl.String}
CANDIDATE_SCHEMA: Mapping[str, Any] = {
    "key": pl.Int64,
    "place": pl.Int64,
    "candidate": pl.String,
    "query": pl.Int64,
    "votes": pl.Int64,
}


def recollect_candidates(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    value_finder: ValueFinder = find_values,
) -> pl.DataFrame:
    """Return the candidates of each key in the order of their first generation.

    Columns: `key`, `place`, `candidate`, `query` (the first that generated it, from 0) and `votes`
    (the number of queries that generated exactly this spelling). A prompt that leaves the context
    too short to repeat its text is skipped; its keys have no candidates.
    """
    if settings.layout == "whole":
        prompt_keys = (
            records.keys.unique("text_no", maintain_order=True)
            .select("text_no")
            .with_row_index("prompt")
        )
        repeated_texts = [records.texts[text_no] for text_no in prompt_keys["text_no"]]
        prompts = [_fill_prompt(settings.whole_prompt, text) for text in repeated_texts]
        prompt_keys = prompt_keys.join(records.keys.select("key", "text_no", "kind"), on="text_no")
    else:
        prompt_keys = records.keys.select("key", "text_no", "kind", "label").with_row_index(
            "prompt"
        )
        repeated_texts = [
            find_sentences_around(records.texts[text_no], label)
            for text_no, label in prompt_keys.select("text_no", "label").iter_rows()
        ]
        prompts = [
            _fill_prompt(settings.key_prompt, text, label)
            for text, label in zip(repeated_texts, prompt_keys["label"], strict=True)
        ]
    min_tokens = [len(tokens) for tokens in model.encode(repeated_texts)]
    completions = _generate_completions(
        model,
        prompts,
        settings,
        queries=settings.queries,
        new_tokens=settings.new_tokens,
        min_tokens=min_tokens,
    )
    return _find_candidates(
        completions,
        prompt_keys.select(pl.col("prompt").cast(pl.Int64), "key", "kind"),
        settings,
        value_finder,
    )


def direct_prompt_candidates(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    value_finder: ValueFinder = find_values,
) -> pl.DataFrame:
    """Return the candidates of DirectPrompt: all values of a key's kind in one short answer per key
    (section 4.1)."""
    keys = records.keys
    prompts = [
        _fill_prompt(
            settings.direct_prompt, find_sentences_around(records.texts[text_no], label), label
        )
        for text_no, label in keys.select("text_no", "label").iter_rows()
    ]
    plain = replace_settings(settings, temperature=1.0)
    return _find_candidates_by_key(
        _generate_completions(model, prompts, plain, queries=1, new_tokens=BASELINE_NEW_TOKENS),
        keys,
        settings,
        value_finder,
    )


def tab_candidates(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    value_finder: ValueFinder = find_values,
) -> pl.DataFrame:
    """Return the candidates of TAB (Inan et al. 2021): values in one continuation of the text
    before the key's first occurrence."""
    prompts = [found[0] or settings.empty_prompt for found in _label_prefixes(records)]
    plain = replace_settings(settings, temperature=1.0, top_k=40, top_p=None, chat=False)
    return _find_candidates_by_key(
        _generate_completions(model, prompts, plain, queries=1, new_tokens=BASELINE_NEW_TOKENS),
        records.keys,
        settings,
        value_finder,
    )


def p2p_candidates(
    model: LanguageModel,
    records: MaskedRecords,
    settings: AttackSettings,
    value_finder: ValueFinder = find_values,
    *,
    queries: int = 64,
) -> pl.DataFrame:
    """Return the candidates of P2P (Lukas et al. 2023, as R.R. runs it): TAB repeated at all
    occurrences of a key, longest prefix first."""
    plain = replace_settings(settings, temperature=1.0, top_k=40, top_p=None, chat=False)
    prefixes = [sorted(found, key=len, reverse=True) for found in _label_prefixes(records)]
    prompts = [
        found[query % len(found)] or settings.empty_prompt
        for found in prefixes
        for query in range(queries)
    ]
    completions = _generate_completions(
        model, prompts, plain, queries=1, new_tokens=BASELINE_NEW_TOKENS
    )
    completions = completions.with_columns(
        query=pl.col("prompt") % queries, prompt=pl.col("prompt") // queries
    )
    return _find_candidates_by_key(completions, records.keys, settings, value_finder)


BASELINE_NEW_TOKENS = 16  # new tokens of the baselines
TAB_PREFIX_WORDS = 20  # words of TAB's prefix


def _label_prefixes(records: MaskedRecords) -> list[list[str]]:
    """Return for each key and each of its occurrences the text after the label before it, at most
    its last words."""
    found = []
    for text_no, label in records.keys.select("text_no", "label").iter_rows():
        text, low, prefixes = records.texts[text_no], 0, []
        for match in LABEL_PATTERN.finditer(text):
            if match.group() == label:
                words = list(re.finditer(r"\S+", text[low : match.start()]))[-TAB_PREFIX_WORDS:]
                prefixes.append(
                    text[low + words[0].start() : match.start()].rstrip() if words else ""
                )
            low = match.end()
        found.append(prefixes)
    return found


def replace_settings(settings: AttackSettings, **changes: Any) -> AttackSettings:
    """Return a copy of the settings with some of them changed. Raises UsageError for values that
    are out of range."""
    return AttackSettings(
        **{
            **{name: getattr(settings, name) for name in AttackSettings.__dataclass_fields__},
            **changes,
        }
    )


def _fill_prompt(prompt: str, text: str, key: str = "") -> str:
    # the text last, since it may contain "{key}"
    return prompt.replace("{key}", key).replace("{text}", text)


def _generate_completions(
    model: LanguageModel,
    prompts: Sequence[str],
    settings: AttackSettings,
    *,
    queries: int,
    new_tokens: int,
    min_tokens: Sequence[int] | None = None,
) -> pl.DataFrame:
    """Generate completions: `prompt`, `query`, `text`. A prompt is skipped if fewer than its
    `min_tokens` new tokens are possible."""
    if settings.chat:
        if getattr(model.tokenizer, "chat_template", None) is None:
            raise UsageError(
                "chat = true: the tokenizer has no chat template; leave chat out for a model that"
                " is not a chat model"
            )
        prompts = [
            model.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            for prompt in prompts
        ]
    # a chat template writes the leading tokens itself
    rows = model.encode(prompts) if settings.chat else model.with_leading_ids(model.encode(prompts))
    free_tokens = [model.context_length - max(len(row), 1) for row in rows]
    usable = [
        number
        for number, free in enumerate(free_tokens)
        if free >= (min(min_tokens[number], new_tokens) if min_tokens else 1)
    ]
    if not usable:
        return pl.DataFrame(schema=dict(COMPLETION_SCHEMA))
    longest = min(new_tokens, *(free_tokens[number] for number in usable))
    texts = model.decode(
        model.generate(
            [rows[number] for number in usable for _ in range(queries)],
            new_tokens=longest,
            batch=settings.batch,
            mode="sample",
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
            seed=settings.seed,
        )
    )
    return pl.DataFrame(
        {
            "prompt": np.repeat(usable, queries).astype(np.int64),
            "query": np.tile(np.arange(queries), len(usable)).astype(np.int64),
            "text": texts,
        },
        schema=dict(COMPLETION_SCHEMA),
    )


def _find_candidates_by_key(
    completions: pl.DataFrame,
    keys: pl.DataFrame,
    settings: AttackSettings,
    value_finder: ValueFinder,
) -> pl.DataFrame:
    return _find_candidates(
        completions,
        keys.select(pl.col("key").alias("prompt"), "key", "kind"),
        settings,
        value_finder,
    )


def _find_candidates(
    completions: pl.DataFrame,
    prompt_keys: pl.DataFrame,
    settings: AttackSettings,
    value_finder: ValueFinder,
) -> pl.DataFrame:
    """Return the values that a finder finds in completions, for every key of their prompt that has
    the value's kind."""
    spans = value_finder(completions["text"].to_list()).select(
        pl.col("text_no").cast(pl.Int64), "start", "kind", candidate=pl.col("value")
    )
    spans = (
        completions.select("prompt", "query")
        .with_row_index("text_no")
        .with_columns(pl.col("text_no").cast(pl.Int64))
        .join(spans, on="text_no")
    )
    candidate = pl.col("candidate")
    is_valid = (
        (candidate.str.strip_chars() != "")
        & ~candidate.str.contains(r"[\[\]]|<\||\|>")
        & ~candidate.str.to_lowercase().is_in(sorted(settings.stop_words))
    )
    if settings.longest is not None:
        is_valid &= candidate.str.len_chars() <= settings.longest
    found = (
        spans.filter(is_valid)
        .join(prompt_keys, on=["prompt", "kind"])
        .sort("key", "query", "start")
    )
    found = found.group_by("key", "candidate", maintain_order=True).agg(
        pl.col("query").first(), votes=pl.col("query").n_unique()
    )
    return (
        found.with_columns(place=pl.int_range(pl.len()).over("key"))
        .select(list(CANDIDATE_SCHEMA))
        .cast(pl.Schema(CANDIDATE_SCHEMA))
    )


# ---- ranking ----

LOSS_SCHEMA: Mapping[str, Any] = {
    "key": pl.Int64,
    "place": pl.Int64,
    "votes": pl.Int64,
    "victim": pl.Float64,
    "reference": pl.Float64,
    "whole": pl.Float64,
}


def compute_candidate_losses(
    victim: LanguageModel,
    reference: LanguageModel | None,
    records: MaskedRecords,
    candidates: pl.DataFrame,
    settings: AttackSettings,
) -> pl.DataFrame:
    """Return the losses of each candidate in each segment of its key.

    Columns: `key`, `place`, `votes`, `victim` and `reference` (mean losses from the label's
    position on, equation 5) and `whole` (the victim's loss over the whole segment, equation 1).
    Without a reference model, `reference` is 0. All keys are scored together, each distinct pair of
    segment and candidate once, in batches by length.
    """
    schema = {"key": pl.Int64, "before": pl.String, "after": pl.String}
    segments = [
        (key, *segment)
        for key, text_no, label in records.keys.select("key", "text_no", "label").iter_rows()
        for segment in cut_segments(records.texts[text_no], label, settings.reach)
    ]
    rows = candidates.select("key", "place", "candidate", "votes").join(
        pl.DataFrame(segments, schema=schema, orient="row"), on="key", maintain_order="left"
    )
    columns = ["before", "candidate", "after"]
    distinct = rows.select(columns).unique(maintain_order=True)
    partial, whole = compute_segment_losses(victim, *distinct.get_columns(), batch=settings.batch)
    if reference is None:
        reference_losses = np.zeros(distinct.height)
    elif reference is victim:
        reference_losses = partial
    else:
        reference_losses, _ = compute_segment_losses(
            reference, *distinct.get_columns(), batch=settings.batch
        )
    distinct = distinct.with_columns(
        victim=pl.Series(partial), reference=pl.Series(reference_losses), whole=pl.Series(whole)
    )
    return rows.join(distinct, on=columns, maintain_order="left").select(list(LOSS_SCHEMA))


def compute_segment_losses(
    model: LanguageModel,
    texts_before: Sequence[str] | pl.Series,
    candidates: Sequence[str] | pl.Series,
    texts_after: Sequence[str] | pl.Series,
    *,
    batch: int = 64,
) -> tuple[F64, F64]:
    """Return the mean loss of each segment from its candidate's first token on, and over all its
    tokens; infinite if no token is scored.

    A token that the candidate shares with the text before it counts as the candidate's. The first
    token is scored after the token that begins a text; for a model without such a token it is
    neither scored nor counted.
    """
    texts = ["".join(parts) for parts in zip(texts_before, candidates, texts_after, strict=True)]
    if not texts:
        return np.zeros(0), np.zeros(0)
    if not getattr(model.tokenizer, "is_fast", False):
        raise UsageError(
            "this tokenizer does not report token offsets; expected one with a tokenizer.json"
        )
    encoded = model.tokenizer(
        texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    begin_ids = model.begin_ids
    unscored_count = 0 if begin_ids else 1  # tokens of a text without a loss
    losses_of_rows = model.token_losses(
        [begin_ids + list(row) for row in encoded["input_ids"]], batch=batch
    )
    found = [losses[max(len(begin_ids) - 1, 0) :] for losses in losses_of_rows]
    partial_losses, whole_losses = np.full(len(texts), np.inf), np.full(len(texts), np.inf)
    for number, (row, spans, left) in enumerate(
        zip(found, encoded["offset_mapping"], texts_before, strict=True)
    ):
        # cheap compared with the model
        first_token = next(
            (token_no for token_no, (_, end) in enumerate(spans) if end > len(left)), len(spans)
        )
        tail = row[max(first_token - unscored_count, 0) :].astype(np.float64)
        partial_losses[number] = tail.mean() if len(tail) else np.inf
        whole_losses[number] = row.astype(np.float64).mean() if len(row) else np.inf
    return partial_losses, whole_losses


def biased_score(victim_losses: F64, reference_losses: F64, b: float) -> F64:
    """Return the score of each segment by equation 4, (L_v - L_r - b) / (L_r + b): lower is more
    likely.

    b = inf gives L_v itself, which orders like the limit (equation 7). Never NaN: what the victim
    cannot score is infinite.

    Theorem 3.1: of two candidates, one with the lower L_v and the lower L_v / L_r also has the
    lower score, for any b > 0. That holds for one segment, not for sums over several.
    """
    if not b >= 0:
        raise UsageError(f"b = {b}; expected 0 or more, or inf")
    victim_losses, reference_losses = (
        np.asarray(victim_losses, np.float64),
        np.asarray(reference_losses, np.float64),
    )
    if math.isinf(b):
        return victim_losses.copy()
    with np.errstate(invalid="ignore"):
        scores = victim_losses / np.maximum(reference_losses + b, MIN_DENOMINATOR) - 1
    return np.where(np.isinf(victim_losses), np.inf, scores)


def score_segments(losses: pl.DataFrame, criterion: str, b: float = 1.0) -> F64:
    """Return the score of each row of `losses` by one criterion.

    vanilla: L of the whole segment; partial: L_v; subtract: L_v - L_r; ratio: (L_v - L_r) / L_r
    (equation 6); biased: equation 4.
    """
    victim_losses, reference_losses, whole_losses = (
        losses[name].to_numpy() for name in ("victim", "reference", "whole")
    )
    if criterion == "vanilla":
        return np.asarray(whole_losses, np.float64)
    if criterion == "partial":
        return biased_score(victim_losses, reference_losses, math.inf)
    if criterion == "subtract":
        return np.where(
            np.isinf(victim_losses),
            np.inf,
            victim_losses - np.where(np.isinf(reference_losses), 0.0, reference_losses),
        )
    if criterion == "ratio":
        return biased_score(victim_losses, reference_losses, 0.0)
    if criterion == "biased":
        return biased_score(victim_losses, reference_losses, b)
    raise UsageError(
        f"criterion {criterion!r}: {suggest_names(criterion, [*CRITERIA, *VOTE_CRITERIA])}"
    )


def rank_candidates(losses: pl.DataFrame, criterion: str, b: float = 1.0) -> pl.DataFrame:
    """Rank candidates by the sum of their segments' scores, lowest first, ties by first generation:
    `key`, `place`, `rank` (0: the answer).

    Not the paper's: `votes` ranks by the number of queries, ties by `partial`; `votes_subtract`
    subtracts ln(votes) from the sum of `subtract`, so that e^-score is the number of queries times
    how much more likely a token there is for the victim than for the reference.
    """
    summed = losses.with_columns(
        score=pl.Series(
            score_segments(losses, VOTE_CRITERIA.get(criterion, criterion), b), dtype=pl.Float64
        )
    )
    summed = summed.group_by("key", "place", maintain_order=True).agg(
        pl.col("score").sum(), pl.col("votes").first()
    )
    if criterion == "votes_subtract":
        summed = summed.with_columns(score=pl.col("score") - pl.col("votes").log())
    most_votes_first = [-pl.col("votes")] if criterion == "votes" else []
    summed = summed.sort("key", *most_votes_first, "score", "place")
    return summed.select("key", "place", rank=pl.int_range(pl.len()).over("key").cast(pl.Int64))


# ---- success ----


def judge_candidates(records: MaskedRecords, candidates: pl.DataFrame) -> pl.DataFrame:
    """Return the candidates with their success, the best over all true spellings.

    `hit`: a true spelling is part of the candidate, ignoring case (the paper's success); `exact`:
    it equals one; `f1`: F1 over words.
    """
    rows = candidates.join(records.keys.select("key", "truths"), on="key", maintain_order="left")
    # some dozens per key
    judgements = [
        _judge_candidate(candidate, truths)
        for candidate, truths in rows.select("candidate", "truths").iter_rows()
    ]
    columns = list(zip(*judgements, strict=True)) or [(), (), ()]
    return candidates.with_columns(
        hit=pl.Series(columns[0], dtype=pl.Boolean),
        exact=pl.Series(columns[1], dtype=pl.Boolean),
        f1=pl.Series(columns[2], dtype=pl.Float64),
    )


def _judge_candidate(candidate: str, truths: Sequence[str]) -> tuple[bool, bool, float]:
    answer, spellings = candidate.lower(), [truth.lower() for truth in truths]
    f1 = max((word_f1(answer, spelling) for spelling in spellings), default=0.0)
    return any(spelling in answer for spelling in spellings), answer.strip() in spellings, f1


def word_f1(candidate: str, truth: str) -> float:
    """Return F1 over words, counted with multiplicity (Rajpurkar et al. 2016); 0 if either has
    none."""
    candidate_words, true_words = (
        Counter(_WORD_PATTERN.findall(candidate.lower())),
        Counter(_WORD_PATTERN.findall(truth.lower())),
    )
    shared = (candidate_words & true_words).total()
    return 2 * shared / (candidate_words.total() + true_words.total()) if shared else 0.0


def select_answers(keys: pl.DataFrame, judged: pl.DataFrame, ranking: pl.DataFrame) -> pl.DataFrame:
    """Return `keys` with `hit`, `exact` and `f1` of their first candidate in a ranking; a key
    without candidates is wrong."""
    first = (
        ranking.filter(pl.col("rank") == 0)
        .join(judged, on=["key", "place"])
        .select("key", "hit", "exact", "f1")
    )
    answers = keys.join(first, on="key", how="left", maintain_order="left")
    return answers.with_columns(
        pl.col("hit", "exact").fill_null(value=False), pl.col("f1").fill_null(0.0)
    )


def answer_accuracy(answers: pl.DataFrame, column: str = "hit") -> float:
    """Return the share of keys that are right; 0 if there are no keys."""
    return float(answers[column].cast(pl.Float64).mean() or 0.0) if answers.height else 0.0  # type: ignore[arg-type]


def recall_at_rank(
    keys: pl.DataFrame, judged: pl.DataFrame, ranking: pl.DataFrame, max_rank: int | None = None
) -> float:
    """Return the share of keys whose value is among their first `max_rank` candidates in a ranking;
    None: among all."""
    considered = ranking if max_rank is None else ranking.filter(pl.col("rank") < max_rank)
    hit_count = considered.join(judged.filter("hit"), on=["key", "place"])["key"].n_unique()
    return hit_count / keys.height if keys.height else 0.0


def recall_after_queries(keys: pl.DataFrame, judged: pl.DataFrame, queries: int) -> float:
    """Return the share of keys whose value was generated in the first `queries` queries (figure
    4)."""
    hit_count = judged.filter(pl.col("hit") & (pl.col("query") < queries))["key"].n_unique()
    return hit_count / keys.height if keys.height else 0.0


def count_by_band(
    answers: pl.DataFrame, column: str, edges: Sequence[tuple[int, int | None]]
) -> list[dict[str, Any]]:
    """Count keys and right answers by bands of `words` or `times`; bands without keys are left
    out."""
    found = []
    for low, high in edges:
        inside = answers.filter(
            (pl.col(column) >= low)
            & (pl.lit(value=True) if high is None else pl.col(column) <= high)
        )
        if inside.height:
            found.append(
                {
                    "from": low,
                    "to": high,
                    "keys": inside.height,
                    "correct": int(inside["hit"].sum()),
                }
            )
    return found


def accuracy_by_b(
    keys: pl.DataFrame, judged: pl.DataFrame, losses: pl.DataFrame, grid: Sequence[float] = B_GRID
) -> list[tuple[float, float]]:
    """Return pairs (b, accuracy of the biased criterion) for a grid of b."""
    return [
        (b, answer_accuracy(select_answers(keys, judged, rank_candidates(losses, "biased", b))))
        for b in grid
    ]


def choose_best_b(curve: Sequence[tuple[float, float]]) -> float:
    """Return the b of the highest accuracy; the middle one of several; 1.0 for an empty curve."""
    top = max((share for _, share in curve), default=0.0)
    best = [b for b, share in curve if share == top]
    return best[len(best) // 2] if best else 1.0
