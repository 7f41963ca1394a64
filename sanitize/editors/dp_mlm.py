"""Replaces words by draws from a masked language model, with differential privacy for each drawn
word (DP-MLM).

Every target word is masked, next to its unmasked text; the model's logits at the mask are clipped
to fixed bounds, and one word of the vocabulary is drawn by the exponential mechanism
(`sanitize/core/exponential_mechanism.py`). Each draw is epsilon-differentially private for any
change of the model's input; a document with n draws spends n times epsilon, which the ledger
records. Not covered: length, punctuation, which words were left unchanged, and with a mapping which
words are the same. Source: DP-MLM (arXiv 2407.00637).

A draw is a pure function of (key, settings, model, document, cell, position, text): the same for
any sharding, number of workers and batch size, and a different one for other settings or another
text, so that the epsilon of several runs adds up. Draws of a `--seed` run can be reproduced by
anyone, and carry no privacy claim.

The text cells of all columns are rewritten. Cost: for each word, a forward pass of the model over
up to twice `window` tokens, its head once, and one draw.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, PrivateAttr, field_validator, model_validator

from sanitize.array_types import F64, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, slice_spans
from sanitize.core.exponential_mechanism import (
    MAX_EPSILON,
    ClipBounds,
    draw_candidates,
    uniform_from_bits,
)
from sanitize.core.keys import Draws, Key, siphash
from sanitize.core.part_protocols import (
    Aggregates,
    PrivacyCost,
    RemovalPolicy,
    TextBatch,
    TextEditor,
    TextEdits,
)
from sanitize.editors.mask_words import MaskWords
from sanitize.errors import MissingExtra, PlanError, suggest_names
from sanitize.text.masked_lm import MaskedInput, MaskedModel, hash_model_folder, load_masked_model
from sanitize.text.tokenizer import UnicodeTokens, find_overlapping_words, tokenize_unicode

Target = Literal["all", "content", "nouns", "found", "blacklist"]

# English function words, a fixed and public list: the target `content` leaves them unchanged
FUNCTION_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further
    had has have having he her here hers herself him himself his how i if in into is it its itself
    just me more most my myself no nor not now of off on once only or other our ours ourselves out
    over own same she should so some such than that the their theirs them themselves then there
    these they this those through to too under until up very was we were what when where which
    while who whom why will with would you your yours yourself yourselves s t d m o re ve y ll don""".split()  # noqa: E501
)


# what a condition is made of; every word but these is a column, so that no function, subquery or
# clause of SQL can be written
_CONDITION_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+")|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))"""
    r"|(?P<sign><=|>=|!=|<>|=|<|>|\(|\)|,)|(?P<word>[A-Za-z_]\w*)|(?P<space>\s+)"
)
_CONDITION_WORDS = frozenset("and or not in is null true false like ilike between".split())
_EXPECTED_CONDITION = "expected comparisons such as public = false, joined by and / or / not"
_NOT_A_CONDITION = f"where: not a condition on columns of these types; {_EXPECTED_CONDITION}"
_MAX_COMPARISONS = (
    100  # Polars takes the cube of their number to plan: 0.04 s for 100, 22 s for 800
)


@dataclass(frozen=True)
class RowCondition:
    """A condition on the columns of a document, an SQL expression that Polars evaluates: the same
    rows for any batches.

    Comparisons (= != <> < <= > >=) of columns with numbers, text in single quotes, true or false;
    `in (...)`, `between ... and ...`, `like`, `is null`; `and`, `or`, `not` and parentheses. A
    column name that is no plain word is put in double quotes. A null satisfies no comparison except
    `is null`; NaN is the greatest number.
    """

    expression: pl.Expr
    columns: tuple[str, ...]  # each that the condition names, once

    @classmethod
    def parse(cls, text: str) -> Self:
        """The condition of a text. Raises PlanError for anything else."""
        sql, at, words, comparisons = "", 0, 0, 0
        while at < len(text):
            match = _CONDITION_TOKEN.match(text, at)
            token = match[0] if match else ""
            is_column = (
                match is not None
                and match.lastgroup == "word"
                and token.lower() not in _CONDITION_WORDS
            )
            is_call = token == "(" and sql.rstrip().endswith('"')
            is_null_value = (
                token.lower() == "null"
                and re.search(r"\bis(\s+not)?\s+$", sql, re.IGNORECASE) is None
            )
            if match is None or is_call or is_null_value:
                raise PlanError(f"where: syntax error at character {at}; {_EXPECTED_CONDITION}")
            sql, at = sql + (f'"{token}"' if is_column else token), match.end()
            words += token.lower() in ("and", "or", "not")
            comparisons += token.lower() == "is" or match.lastgroup == "sign" and token not in "(),"
        if words > _MAX_COMPARISONS:
            raise PlanError(
                f"where: {words} times and / or / not; expected at most {_MAX_COMPARISONS}. Use `in"
                " (...)` for many values"
            )
        if comparisons > _MAX_COMPARISONS + 1:  # `a = b = c ...` nests as deeply as it is long
            raise PlanError(
                f"where: {comparisons} comparisons; expected at most {_MAX_COMPARISONS + 1}. Use"
                " `in (...)` for many values"
            )
        try:
            expression = pl.sql_expr(sql)
        except pl.exceptions.PolarsError:
            raise PlanError(f"where: syntax error; {_EXPECTED_CONDITION}") from None
        columns = tuple(dict.fromkeys(expression.meta.root_names()))
        if not columns or not expression.meta.eq(expression.meta.undo_aliases()):
            raise PlanError(f"where: syntax error; {_EXPECTED_CONDITION}")
        return cls(expression, columns)

    def mask(self, table: pa.Table) -> Mask:
        """True for every row that satisfies the condition."""
        return self._frame(table).select(self.expression).to_series().fill_null(False).to_numpy()

    def validate(self, schema: pa.Schema) -> None:
        """Raises PlanError for a column that is not in the schema, or that is compared with a value
        of another type."""
        for column in self.columns:
            if column not in schema.names:
                raise PlanError(
                    f"where: there is no column {column}; {suggest_names(column, schema.names)}"
                )
        frame = self._frame(schema.empty_table())
        self._check_types(self.expression, frame)
        try:
            is_condition = frame.select(self.expression).to_series().dtype == pl.Boolean
        except pl.exceptions.PolarsError:
            is_condition = False
        if not is_condition:
            raise PlanError(_NOT_A_CONDITION)

    def _frame(self, table: pa.Table) -> pl.DataFrame:
        """The columns that the condition names; the types that only store numbers or text in
        another way are unified."""
        frame = pl.DataFrame(table.select(list(self.columns)))
        return frame.cast(
            {pl.Float16: pl.Float64, pl.Float32: pl.Float64, pl.Categorical: pl.String}
        )

    def _check_types(self, expression: pl.Expr, frame: pl.DataFrame) -> None:
        """Raises PlanError if the operands of a comparison are not all numbers, all text or all
        true and false."""
        operands = expression.meta.pop()
        for operand in operands:
            self._check_types(operand, frame)
        schemas = [frame.lazy().select(operand).collect_schema() for operand in operands]
        types = [
            _comparable_type(schema.dtypes()[0], is_value=not operand.meta.root_names())
            for operand, schema in zip(operands, schemas, strict=True)
        ]
        if len(operands) > 1 and (len(set(types)) > 1 or "" in types):
            column = next(name for operand in operands for name in operand.meta.root_names())
            data_type = frame[column].dtype
            expected = {
                "boolean": "true or false",
                "number": "a number",
                "text": "text in single quotes",
            }.get(_comparable_type(data_type, is_value=False))
            if expected is None:
                raise PlanError(
                    f"where: column {column} holds {data_type}, which cannot be compared; test it"
                    " by `is null` or `is not null`, or store it as a number or text in the input"
                    " (a date as 2026-05-14)"
                )
            raise PlanError(f"where: column {column} holds {data_type}; compare it with {expected}")
        # `not` casts what it negates
        is_null_test = any(
            expression.meta.eq(test)
            for operand in operands
            for test in (operand.is_null(), operand.is_not_null())
        )
        if len(types) == 1 and types != ["boolean"] and not is_null_test:
            raise PlanError(_NOT_A_CONDITION)


def _comparable_type(data_type: pl.DataType, *, is_value: bool) -> str:
    """What a column or value of this type can be compared with: boolean, number or text; empty for
    nothing. The value of `in` is a list."""
    if is_value and isinstance(data_type, pl.List):
        return _comparable_type(pl.Series(dtype=data_type.inner).dtype, is_value=False)
    return (
        "number"
        if data_type.is_numeric()
        else "boolean"
        if data_type == pl.Boolean
        else "text"
        if data_type == pl.String
        else ""
    )


class DpMlm(TextEditor):
    """Settings of the editor.

    model, device, batch   The folder of the model, the device that runs it, and the rows that it
                           processes together.
    epsilon    Of one draw.
    targets    Which words are replaced: `all`, `content` (no function words), `nouns` (by the spaCy
               pipeline `tagger`), `found` (occurrences of `kinds`), `blacklist` (words listed for
               one of `reasons`).
    mapping    Which equal words share a draw: `none`, those of a `document`, or those of the
               `corpus`.
    where      A condition on columns, in SQL, that selects the documents to rewrite; empty: all.
    casing     Letter case of a drawn word: as the `model` has it, or the `first` letter as in the
               replaced word.
    window     Tokens of a text that the model reads.
    own_model  True: allow a model that was trained on the corpus itself, and make no privacy claim.
    kinds      With the target `found`, each occurrence of these kinds is replaced by one word.
               Otherwise kinds have no effect and no removal is promised.
    model_sha256, lower, upper, bounds_source   Set from the model by `resolve_settings`.
    """

    kinds: tuple[str, ...] = ()
    keep: Literal[0] = 0
    model: str = ""
    model_sha256: str = ""
    lower: float | None = None
    upper: float | None = None
    bounds_source: str = ""
    own_model: bool = False
    epsilon: float = Field(gt=0, le=MAX_EPSILON)
    targets: tuple[Target, ...] = Field(default=("all",), min_length=1)
    mapping: Literal["none", "document", "corpus"] = "none"
    where: str = ""
    casing: Literal["model", "first"] = "model"
    window: int = Field(default=64, ge=4, le=4096)
    # fits the cache of a CPU core; use some hundred on a GPU
    batch: int = Field(default=16, ge=1, le=4096)
    device: Literal["cpu", "cuda"] = "cpu"
    tagger: str = ""
    reasons: tuple[Literal["direct", "indirect"], ...] = ()
    privacy_unit: ClassVar[str] = "token"
    _model: MaskedModel = PrivateAttr()
    _key: Key = PrivateAttr()
    _blacklist: MaskWords | None = PrivateAttr(default=None)
    _noun_tagger: Any = PrivateAttr(default=None)

    @field_validator("where")
    @classmethod
    def _check_where(cls, where: str) -> str:
        if where:
            try:
                RowCondition.parse(where)
            except PlanError as error:
                # the name of the setting is put before it again
                raise ValueError(str(error).removeprefix("where: ")) from None
        return where

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if "found" in self.targets and not self.kinds:
            raise ValueError(
                'the target "found" needs kinds whose occurrences are replaced; set kinds, or'
                ' remove "found"'
            )
        if ("nouns" in self.targets) != bool(self.tagger):
            raise ValueError(
                'the target "nouns" and `tagger`, the name or folder of a spaCy pipeline, need each'
                " other; set both or neither"
            )
        if ("blacklist" in self.targets) != bool(self.reasons):
            raise ValueError(
                'the target "blacklist" and `reasons` ("direct", "indirect") need each other; set'
                " both or neither"
            )
        return self

    @property
    def required_aggregates(self) -> tuple[str, ...]:  # type: ignore[override]  # a class attribute in the base class; depends on the targets here
        """The blacklist, if its words are targets."""
        return ("blacklist",) if "blacklist" in self.targets else ()

    @property
    def removal_policy(self) -> RemovalPolicy:
        """`ledger`: the claim is about draws, not about removal, since a draw may give the original
        word."""
        return "ledger"

    @property
    def action(self) -> str:
        """Draws of a language model for words."""
        return "words replaced by draws of a masked language model, at the epsilon of the ledger"

    def describe_staying(self, kind: str) -> str:
        """The same for all its kinds."""
        return "words that are drawn again"

    @property
    def blacklist_reasons(self) -> tuple[str, ...]:
        """The setting `reasons`."""
        return self.reasons

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that the condition `where` reads."""
        return RowCondition.parse(self.where).columns if self.where else ()

    def resolve_settings(self) -> Self:
        """These settings with the hash and the clip bounds of the model, so that another model
        makes another plan.

        Raises PlanError if the plan sets other bounds than the model's card, or the model was
        trained on the corpus without `own_model`.
        """
        if not self.model:
            return self
        folder, model_hash = Path(self.model), self._model_hash()
        bounds = ClipBounds.read(folder)
        given = {"lower": bounds.lower, "upper": bounds.upper, "bounds_source": bounds.source}
        for name, value in given.items():
            if getattr(self, name) not in (None, "", value):
                raise PlanError(
                    f"{name} is set by the model's card, {folder / 'dp_mlm.json'}; remove it from"
                    " the plan"
                )
        if bounds.trained_on == "corpus" and not self.own_model:
            raise PlanError(
                f"model = {self.model!r} was trained on the corpus itself, which the privacy"
                " guarantee does not cover; use a model trained on public text, or set own_model ="
                " true to continue without a privacy claim"
            )
        return self.model_copy(update={"model_sha256": model_hash, **given})

    def _model_hash(self) -> str:
        """The hash of the model; PlanError if the plan was resolved with another one."""
        known = hash_model_folder(Path(self.model))
        if self.model_sha256 not in ("", known):
            raise PlanError(
                f"model = {self.model!r}: its hash differs from model_sha256 in the plan; use the"
                " model that the plan was made with"
            )
        return known

    def validate_settings(self, schema: pa.Schema | None) -> None:
        """Raises PlanError if no model is set, or a column of the condition is missing."""
        if not self.model:
            raise PlanError(
                f"{self.use} has no model; set it to the folder of a local masked language model:"
                " --set edit.0.model=PATH"
            )
        if schema is not None and self.where:
            RowCondition.parse(self.where).validate(schema)

    def bounds(self) -> ClipBounds:
        """The clip bounds of the model's card."""
        assert self.lower is not None and self.upper is not None
        return ClipBounds(self.lower, self.upper, self.bounds_source)

    def describe_privacy_cost(self) -> PrivacyCost:
        """One draw in the ledger: mechanism, epsilon, sensitivity and what equal documents must
        share."""
        bounds = self.bounds()
        chosen = {"found", "blacklist", "nouns"} & set(self.targets)
        same = {"none": "", "document": ", and in which the same words are the same", "corpus": ""}[
            self.mapping
        ]
        left = " function words and" if self.targets == ("content",) else ""
        return self._make_privacy_cost(
            mechanism="exponential mechanism over the clipped logits of a masked language model",
            epsilon=self.epsilon,
            by_document=(
                ""
                if chosen or self.mapping == "corpus" or self.own_model
                else f"documents with the same{left} punctuation, spacing and number of words{same}"
            ),
            bounds={"lower": bounds.lower, "upper": bounds.upper, "source": bounds.source},
            sensitivity=bounds.sensitivity,
            temperature=bounds.temperature(self.epsilon),
        )

    def _make_privacy_cost(
        self, mechanism: str, epsilon: float, by_document: str = "", **details: Any
    ) -> PrivacyCost:
        """The cost of a draw, with the settings that the ledger records."""
        return PrivacyCost(
            mechanism=mechanism,
            epsilon=epsilon,
            shared=self.mapping == "corpus",
            own_model=self.own_model,
            casing=self.casing,
            by_document=by_document,
            details={
                **details,
                "targets": list(self.targets),
                "mapping": self.mapping,
                "where": bool(self.where),
                "model_sha256": self.model_sha256,
                "part_version": self.VERSION,
            },
        )

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Load the model, and the blacklist and the tagger if the targets need them."""
        self.validate_settings(None)
        self._key = key
        self._model = load_masked_model(self.model, self.model_sha256, self.device)
        self._model.check_window(self.window)
        if self.reasons:
            self._blacklist = MaskWords(use="mask_words", reasons=self.reasons)
            self._blacklist.open(key, aggregates)
        if self.tagger:
            self._noun_tagger = _load_tagger(self.tagger)

    def edit_texts(self, text_batch: TextBatch) -> TextEdits:
        """One edit with a drawn word for every target."""
        buffers = TextBuffers.from_array(text_batch.texts)
        words = tokenize_unicode(buffers)
        wanted = (
            RowCondition.parse(self.where).mask(text_batch.document_columns)
            if self.where and text_batch.document_columns is not None
            else np.ones(len(text_batch.doc_no), np.bool_)
        )
        targets = self._is_target(buffers, words) & wanted[words.text_no]
        found = text_batch.occurrences.with_row_index("row").sort(
            "text_no", "start_byte", "end_byte", descending=[False, False, True]
        )
        found = (
            found.filter(pl.Series(wanted[found["text_no"].to_numpy()]))
            if "found" in self.targets
            else found.clear()
        )
        text_no = found["text_no"].to_numpy().astype(np.int64)
        start, end = (
            buffers.offsets[text_no] + found[name].to_numpy() for name in ("start_byte", "end_byte")
        )
        # an occurrence is extended to the words that it overlaps; one inside another is merged into
        # it
        first, after = find_overlapping_words(words, start, end)
        with_words = np.flatnonzero(after > first)
        start[with_words] = np.minimum(start[with_words], words.start[first[with_words]])
        end[with_words] = np.maximum(end[with_words], words.end[after[with_words] - 1])
        # difference array: its running sum is > 0 for words inside an occurrence
        inside = np.zeros(len(targets) + 1, np.int64)
        np.add.at(inside, first[with_words], 1)
        np.add.at(inside, after[with_words], -1)
        other_words = np.flatnonzero(targets & (np.cumsum(inside)[:-1] == 0))
        # the largest end of all earlier occurrences: one that ends by then lies inside another
        before = np.concatenate([[0], np.maximum.accumulate(end)[:-1]]) if len(end) else end
        outermost = np.flatnonzero(end > before)
        start, end, text_no = start[outermost], end[outermost], text_no[outermost]
        start = np.maximum(start, before[outermost])
        row = found["row"].to_numpy().astype(np.int64)[outermost]
        order = np.argsort(np.concatenate([start, words.start[other_words]]), kind="stable")
        start, end, text_no, row = (
            np.concatenate([one, other])[order].astype(np.int64)
            for one, other in (
                (start, words.start[other_words]),
                (end, words.end[other_words]),
                (text_no, words.text_no[other_words]),
                (row, np.full(len(other_words), -1)),
            )
        )
        originals = slice_spans(buffers, start, end)
        drawn, draw_no = self._draw_spans(text_batch, buffers, originals, text_no, start, end)
        base = buffers.offsets[text_no]
        return TextEdits(
            text_no, start - base, end - base, self._apply_casing(drawn, originals), row, draw_no
        )

    def _is_target(self, buffers: TextBuffers, words: UnicodeTokens) -> Mask:
        """True for every word that is a target by itself, not as part of an occurrence."""
        chosen = np.full(len(words.hashes), "all" in self.targets)
        if "content" in self.targets:
            spelled = pl.Series(words.lowercase_texts(buffers, np.arange(len(words.hashes))))
            chosen |= ~spelled.is_in(pl.Series(sorted(FUNCTION_WORDS)).implode()).to_numpy()
        if self._blacklist is not None:
            chosen |= self._blacklist.is_listed(words)
        if self._noun_tagger is not None:
            chosen |= _is_noun(self._noun_tagger, buffers, words)
        return chosen

    def _draw_spans(
        self,
        text_batch: TextBatch,
        buffers: TextBuffers,
        originals: pa.Array,
        text_no: I64,
        start: I64,
        end: I64,
    ) -> tuple[list[str], I64]:
        """The word drawn for every span, and the number of its draw. Spans that share a draw are
        drawn once, at the first of them."""
        if not len(start):
            return [], np.empty(0, np.int64)
        lowered = pl.Series(originals).str.to_lowercase().to_arrow()
        word = siphash(lowered, self._key.subkey("dp_mlm/word"))
        if self.mapping == "none":
            first_of_draw = np.arange(len(start))
        else:
            group = pl.DataFrame(
                {
                    "word": word,
                    "doc_no": (
                        text_batch.doc_no[text_no]
                        if self.mapping == "document"
                        else np.zeros(len(word), np.int64)
                    ),
                }
            )
            first_of_draw = (
                group.with_row_index("row")
                .select(pl.col("row").min().over("word", "doc_no"))["row"]
                .to_numpy()
                .astype(np.int64)
            )
        firsts, draw_row = np.unique(first_of_draw, return_inverse=True)
        settings = {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in ("use", "model", "batch", "device", "kinds")
        }
        subkey = self._key.subkey(f"draw/{self.use}/{json.dumps(settings, sort_keys=True)}")
        if self.mapping == "corpus":
            # a word's replacement for the whole corpus is drawn from the word alone, so it depends
            # on no document
            spelled = lowered.take(pa.array(firsts)).to_pylist()
            texts, spans = spelled, [(no, 0, len(text)) for no, text in enumerate(spelled)]
            draws = Draws.from_words(
                subkey,
                word[firsts],
                np.zeros(len(firsts), np.uint64),
                np.zeros(len(firsts), np.uint64),
            )
        else:
            text_rows, places = np.unique(text_no[firsts], return_inverse=True)
            texts = text_batch.texts.take(pa.array(text_rows)).to_pylist()
            # byte offsets -> code points: continuation bytes of UTF-8 are not counted
            continuation = buffers.continuation_bytes
            points = [
                edge - np.searchsorted(continuation, edge)
                for edge in (start[firsts], end[firsts], buffers.offsets[text_no[firsts]])
            ]
            spans = list(
                zip(
                    places.tolist(),
                    (points[0] - points[2]).tolist(),
                    (points[1] - points[2]).tolist(),
                    strict=True,
                )
            )
            text_hash = siphash(
                text_batch.texts.take(pa.array(text_rows)), self._key.subkey("dp_mlm/text")
            )[places]
            assert text_batch.doc_ids is not None
            doc_hash = siphash(text_batch.doc_ids.dictionary, self._key.subkey("doc_id"))[
                np.asarray(text_batch.doc_ids.indices)
            ]
            cell = text_batch.cell[text_no[firsts]].astype(np.uint64) << np.uint64(40)
            draws = Draws.from_words(
                subkey,
                doc_hash[text_no[firsts]],
                cell | np.asarray(points[0] - points[2], np.uint64),
                text_hash,
            )
        try:
            found = self._draw_words(
                self._model.build_inputs(texts, spans, self.window),
                uniform_from_bits(draws.u64(0), draws.u64(1)),
            )
        except ValueError as error:
            raise PlanError(
                f"model = {self.model!r}: {error}. Nothing was published; use another model"
            ) from None
        shown = (
            (word[firsts] >> np.uint64(1)).astype(np.int64) if self.mapping == "corpus" else firsts
        )
        return [self._model.candidate_words[number] for number in found[draw_row].tolist()], shown[
            draw_row
        ]

    def _draw_words(self, rows: list[MaskedInput], uniforms: F64) -> I64:
        """The vocabulary number of the word drawn for each row, at its uniform number. ValueError
        where the model fails."""
        found, bounds = np.empty(len(rows), np.int64), self.bounds()
        for some, logits in self._model.compute_logits(rows, self.batch):
            # a loop over batches of rows: a model runs
            found[some] = draw_candidates(
                logits, uniforms[some], bounds=bounds, epsilon=self.epsilon
            )
        return found

    def _apply_casing(self, drawn_words: list[str], originals: pa.Array) -> pa.LargeStringArray:
        """The words in the model's letter case, or in lower case with a first letter in the case of
        the original's."""
        words = pl.Series(drawn_words, dtype=pl.String)
        if self.casing == "first" and len(words):
            capitalised = pl.Series(originals).str.contains(r"^\p{Lu}")
            lowercase = words.str.to_lowercase()
            words = pl.select(
                pl.when(capitalised)
                .then(lowercase.str.slice(0, 1).str.to_uppercase() + lowercase.str.slice(1))
                .otherwise(lowercase)
            ).to_series()
        return pa.array(words.to_list(), pa.large_string())


def _load_tagger(name: str) -> Any:
    try:
        spacy: Any = importlib.import_module("spacy")
    except ImportError:
        raise MissingExtra("spacy", "presidio") from None
    try:
        return spacy.load(name)
    except OSError:
        raise PlanError(
            f"tagger = {name!r}: no spaCy pipeline of that name is installed, and no such folder"
            " contains one"
        ) from None


def _is_noun(tagger: Any, buffers: TextBuffers, words: UnicodeTokens) -> Mask:
    """True for every word that overlaps a token tagged as a noun or proper noun; the tagger reads
    one text at a time."""
    chosen = np.zeros(len(words.hashes), np.bool_)
    edges = np.searchsorted(words.text_no, np.arange(len(buffers.offsets)))
    for no, tokens in enumerate(tagger.pipe(buffers.to_array().to_pylist())):
        spans = [
            (token.idx, token.idx + len(token.text))
            for token in tokens
            if token.pos_ in ("NOUN", "PROPN")
        ]
        low, high = int(edges[no]), int(edges[no + 1])
        start, end = (
            one[low:high] - np.searchsorted(buffers.continuation_bytes, one[low:high])
            for one in (words.start, words.end)
        )
        shift = int(buffers.offsets[no]) - int(
            np.searchsorted(buffers.continuation_bytes, buffers.offsets[no])
        )
        for first, last in spans:
            chosen[low:high] |= (start - shift < last) & (end - shift > first)
    return chosen
