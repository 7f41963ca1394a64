"""Words become what a masked language model draws for them: rewriting with differential privacy for each word drawn (DP-MLM).

Every target word is hidden behind a mask, beside its text as it is; the model's logits at the mask are clipped to fixed bounds, and one
word of the vocabulary is drawn by the exponential mechanism (`sanitize/core/exponential_mechanism.py`). Each draw is
epsilon-differentially private for
any change of what the model sees; a document with n draws spends n times epsilon, and the ledger says so. What is not covered: length,
punctuation, which words were left alone, and with a mapping which words are the same. Source: DP-MLM (arXiv 2407.00637).

A draw is a pure function of (key, settings, model, document, cell, place, text): the same for any sharding, number of workers and batch,
and another one for other settings or another text, so that what several runs spend adds up. Draws of a `--seed` run can be made again by
anyone, and claim nothing.

`cells` of all columns are rewritten. Cost: a forward pass of the model over up to twice `window` tokens for each word; the head, and the
draw, once each.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pydantic import Field, PrivateAttr, field_validator, model_validator

from sanitize.core.arrow_buffers import Buffers, cut
from sanitize.core.exponential_mechanism import LARGEST, Bounds, draw, uniform
from sanitize.core.keys import Draws, Key, siphash
from sanitize.core.parts import Counts, Editor, Policy, Rewrites, Sight
from sanitize.core.row_condition import parse
from sanitize.editors.mask_words import MaskWords
from sanitize.errors import MissingExtra, PlanError
from sanitize.text.masked_lm import MaskedModel, Row, opened, sha256_of
from sanitize.text.tokenizer import Spoken, spoken, touched

I64 = npt.NDArray[np.int64]
B = npt.NDArray[np.bool_]
Target = Literal["all", "content", "nouns", "found", "blacklist"]

# English function words, fixed and public: `content` leaves them as they are
FUNCTION_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being below between both but by can could did do
    does doing down during each few for from further had has have having he her here hers herself him himself his how i if in into is it its
    itself just me more most my myself no nor not now of off on once only or other our ours ourselves out over own same she should so some
    such than that the their theirs them themselves then there these they this those through to too under until up very was we were what
    when where which while who whom why will with would you your yours yourself yourselves s t d m o re ve y ll don""".split()
)


class DpMlm(Editor):
    """Settings: `model` (a folder), `epsilon` of one draw, `targets`, `mapping`, `where` (a condition on columns that names the documents
    that are rewritten), `casing`, `window` (tokens that the model sees of a text), `batch`, `device`, `own_model`, and `kinds`: with the
    target `found` each of their occurrences becomes one word; else nothing but words is looked at, and nothing is promised about them."""

    kinds: tuple[str, ...] = ()
    keep: Literal[0] = 0
    model: str = ""
    model_sha256: str = ""
    lower: float | None = None
    upper: float | None = None
    bounds_source: str = ""
    own_model: bool = False
    epsilon: float = Field(gt=0, le=LARGEST)
    targets: tuple[Target, ...] = Field(default=("all",), min_length=1)
    mapping: Literal["none", "document", "corpus"] = "none"
    where: str = ""
    casing: Literal["model", "first"] = "model"
    window: int = Field(default=64, ge=4, le=4096)
    batch: int = Field(default=16, ge=1, le=4096)  # what fits a core's cache; a GPU wants some hundred
    device: Literal["cpu", "cuda"] = "cpu"
    tagger: str = ""
    reasons: tuple[Literal["direct", "indirect"], ...] = ()
    reads: ClassVar[Literal["occurrences", "texts"]] = "texts"
    unit: ClassVar[str] = "token"
    _model: MaskedModel = PrivateAttr()
    _key: Key = PrivateAttr()
    _list: MaskWords | None = PrivateAttr(default=None)
    _tag: Any = PrivateAttr(default=None)

    @field_validator("where")
    @classmethod
    def _where(cls, where: str) -> str:
        if where:
            try:
                parse(where)
            except PlanError as error:
                raise ValueError(str(error)) from None
        return where

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if "found" in self.targets and not self.kinds:
            raise ValueError('the target "found" needs kinds whose occurrences are drawn for; name them, or take found out')
        if ("nouns" in self.targets) != bool(self.tagger):
            raise ValueError('the target "nouns" and `tagger`, the name or folder of a spaCy pipeline, go together')
        if ("blacklist" in self.targets) != bool(self.reasons):
            raise ValueError('the target "blacklist" and `reasons` ("direct", "indirect") go together')
        return self

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]  # a class says what it needs; this one, what its targets need
        """The blacklist, where its words are targets."""
        return ("blacklist",) if "blacklist" in self.targets else ()

    @property
    def policy(self) -> Policy:
        """A claim about draws, and none about what is left: a draw may say the word that stood there."""
        return "ledger"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the condition."""
        return parse(self.where).columns if self.where else ()

    def settled(self) -> Self:
        """The same with the model's hash and bounds, so that another model is another plan."""
        if not self.model:
            return self
        folder, known = Path(self.model), self._hash()
        bounds = Bounds.read(folder)
        given = {"lower": bounds.lower, "upper": bounds.upper, "bounds_source": bounds.source}
        for name, value in given.items():
            if getattr(self, name) not in (None, "", value):
                raise PlanError(f"{name} is set by the model's card, {folder / 'dp_mlm.json'}; take it out of the plan")
        if bounds.trained_on == "corpus" and not self.own_model:
            raise PlanError(
                f"model = {self.model!r} was trained on the corpus itself, which is outside of the guarantee; "
                "take a model of public text, or set own_model = true to go on without the claim"
            )
        return self.model_copy(update={"model_sha256": known, **given})

    def _hash(self) -> str:
        """The model's hash; PlanError where the plan was made with another one."""
        known = sha256_of(Path(self.model))
        if self.model_sha256 not in ("", known):
            raise PlanError(f"model = {self.model!r}: is not the model that the plan was made with (model_sha256)")
        return known

    def fits(self, schema: pa.Schema | None) -> None:
        """A model is named, and the columns of the condition are there."""
        if not self.model:
            raise PlanError(f"{self.use} has no model; name the folder of a masked language model on this machine: --set edit.0.model=PATH")
        if schema is not None and self.where:
            parse(self.where).check(schema)

    def bounds(self) -> Bounds:
        """The bounds of the model's card."""
        assert self.lower is not None and self.upper is not None
        return Bounds(self.lower, self.upper, self.bounds_source)

    def spends(self) -> dict[str, Any]:
        """One draw in the ledger."""
        bounds = self.bounds()
        chosen = {"found", "blacklist", "nouns"} & set(self.targets)
        same = {"none": "", "document": ", and in which the same words are the same", "corpus": ""}[self.mapping]
        left = " function words and" if self.targets == ("content",) else ""
        return {
            "mechanism": "exponential mechanism over the clipped logits of a masked language model",
            "epsilon": self.epsilon,
            "shared": self.mapping == "corpus",
            "by_document": ""
            if chosen or self.mapping == "corpus" or self.own_model
            else f"documents with the same{left} punctuation, spacing and number of words{same}",
            "bounds": {"lower": bounds.lower, "upper": bounds.upper, "source": bounds.source},
            "sensitivity": bounds.sensitivity,
            "temperature": bounds.temperature(self.epsilon),
            **self._settings(),
        }

    def _settings(self) -> dict[str, Any]:
        """What a draw in the ledger was made with."""
        return {
            "targets": list(self.targets),
            "mapping": self.mapping,
            "casing": self.casing,
            "where": bool(self.where),
            "model_sha256": self.model_sha256,
            "own_model": self.own_model,
            "part_version": self.VERSION,
        }

    def open(self, key: Key, counts: Counts) -> None:
        """Open the model, and take in the blacklist where it is asked for."""
        self.fits(None)
        self._key = key
        self._model = opened(self.model, self.model_sha256, self.device)
        self._model.window(self.window)
        if self.reasons:
            self._list = MaskWords(use="mask_words", reasons=self.reasons)
            self._list.open(key, counts)
        if self.tagger:
            self._tag = _tagger(self.tagger)

    def rewrite(self, sight: Sight) -> Rewrites:
        """A drawn word for every target."""
        buffers = Buffers.of(sight.texts)
        words = spoken(buffers)
        wanted = parse(self.where).of(sight.facts) if self.where and sight.facts is not None else np.ones(len(sight.doc_no), np.bool_)
        targets = self._targets(buffers, words) & wanted[words.text_no]
        found = sight.occurrences.with_row_index("row").sort("text_no", "start_byte", "stop_byte", descending=[False, False, True])
        found = found.filter(pl.Series(wanted[found["text_no"].to_numpy()])) if "found" in self.targets else found.clear()
        text_no = found["text_no"].to_numpy().astype(np.int64)
        start, stop = (buffers.offsets[text_no] + found[name].to_numpy() for name in ("start_byte", "stop_byte"))
        # an occurrence goes with the words that it touches, and one inside another with that one
        first, after = touched(words, start, stop)
        some = np.flatnonzero(after > first)
        start[some] = np.minimum(start[some], words.start[first[some]])
        stop[some] = np.maximum(stop[some], words.stop[after[some] - 1])
        inside = np.zeros(len(targets) + 1, np.int64)
        np.add.at(inside, first[some], 1)
        np.add.at(inside, after[some], -1)
        alone = np.flatnonzero(targets & (np.cumsum(inside)[:-1] == 0))
        before = np.concatenate([[0], np.maximum.accumulate(stop)[:-1]]) if len(stop) else stop
        outer = np.flatnonzero(stop > before)
        start, stop, text_no = start[outer], stop[outer], text_no[outer]
        start = np.maximum(start, before[outer])
        row = found["row"].to_numpy().astype(np.int64)[outer]
        order = np.argsort(np.concatenate([start, words.start[alone]]), kind="stable")
        start, stop, text_no, row = (
            np.concatenate([one, other])[order].astype(np.int64)
            for one, other in (
                (start, words.start[alone]),
                (stop, words.stop[alone]),
                (text_no, words.text_no[alone]),
                (row, np.full(len(alone), -1)),
            )
        )
        said = cut(buffers, start, stop)
        drawn, draw_no = self._drawn(sight, buffers, said, text_no, start, stop)
        base = buffers.offsets[text_no]
        return Rewrites(text_no, start - base, stop - base, self._cased(drawn, said), row, draw_no)

    def _targets(self, buffers: Buffers, words: Spoken) -> B:
        """True for every word that is a target by itself."""
        chosen = np.full(len(words.hashes), "all" in self.targets)
        if "content" in self.targets:
            spelled = pl.Series(words.spelled(buffers, np.arange(len(words.hashes))))
            chosen |= ~spelled.is_in(pl.Series(sorted(FUNCTION_WORDS)).implode()).to_numpy()
        if self._list is not None:
            chosen |= self._list.listed(words)
        if self._tag is not None:
            chosen |= _nouns(self._tag, buffers, words)
        return chosen

    def _drawn(self, sight: Sight, buffers: Buffers, said: pa.Array, text_no: I64, start: I64, stop: I64) -> tuple[list[str], I64]:
        """The word drawn for every span, and the number of the draw; spans that share a draw are drawn for once, at their first."""
        if not len(start):
            return [], np.empty(0, np.int64)
        lowered = pl.Series(said).str.to_lowercase().to_arrow()
        word = siphash(lowered, self._key.subkey("dp_mlm/word"))
        if self.mapping == "none":
            same = np.arange(len(start))
        else:
            group = pl.DataFrame(
                {"word": word, "doc_no": sight.doc_no[text_no] if self.mapping == "document" else np.zeros(len(word), np.int64)}
            )
            same = group.with_row_index("row").select(pl.col("row").min().over("word", "doc_no"))["row"].to_numpy().astype(np.int64)
        firsts, back = np.unique(same, return_inverse=True)
        settings = {
            name: value for name, value in self.model_dump(mode="json").items() if name not in ("use", "model", "batch", "device", "kinds")
        }
        subkey = self._key.subkey(f"draw/{self.use}/{json.dumps(settings, sort_keys=True)}")
        if self.mapping == "corpus":
            # what stands for a word everywhere is drawn from the word alone, so that it hangs on no document
            spelled = lowered.take(pa.array(firsts)).to_pylist()
            texts, spans = spelled, [(no, 0, len(text)) for no, text in enumerate(spelled)]
            draws = Draws.at(subkey, word[firsts], np.zeros(len(firsts), np.uint64), np.zeros(len(firsts), np.uint64))
        else:
            here, places = np.unique(text_no[firsts], return_inverse=True)
            texts = sight.texts.take(pa.array(here)).to_pylist()
            # code points before a byte: bytes that continue a character are not counted
            more = buffers.continuing
            points = [edge - np.searchsorted(more, edge) for edge in (start[firsts], stop[firsts], buffers.offsets[text_no[firsts]])]
            spans = list(zip(places.tolist(), (points[0] - points[2]).tolist(), (points[1] - points[2]).tolist(), strict=True))
            text_hash = siphash(sight.texts.take(pa.array(here)), self._key.subkey("dp_mlm/text"))[places]
            assert sight.doc_ids is not None
            doc_hash = siphash(sight.doc_ids.dictionary, self._key.subkey("doc_id"))[np.asarray(sight.doc_ids.indices)]
            cell = sight.cell[text_no[firsts]].astype(np.uint64) << np.uint64(40)
            draws = Draws.at(subkey, doc_hash[text_no[firsts]], cell | np.asarray(points[0] - points[2], np.uint64), text_hash)
        try:
            found = self._chosen(self._model.rows(texts, spans, self.window), uniform(draws.u64(0), draws.u64(1)))
        except ValueError as error:
            raise PlanError(f"model = {self.model!r}: {error}. Nothing was published; take a model that works") from None
        shown = (word[firsts] >> np.uint64(1)).astype(np.int64) if self.mapping == "corpus" else firsts
        return [self._model.words[number] for number in found[back].tolist()], shown[back]

    def _chosen(self, rows: list[Row], at: npt.NDArray[np.float64]) -> I64:
        """The number of the word drawn for each row, at its uniform number. ValueError where the model fails."""
        found, bounds = np.empty(len(rows), np.int64), self.bounds()
        for some, logits in self._model.logits(rows, self.batch):  # a loop over batches of rows: a model runs
            found[some] = draw(logits, at[some], bounds=bounds, epsilon=self.epsilon)
        return found

    def _cased(self, drawn: list[str], said: pa.Array) -> pa.LargeStringArray:
        """The words as the model has them, or with a first letter as large as the one that stood there."""
        words = pl.Series(drawn, dtype=pl.String)
        if self.casing == "first" and len(words):
            large = pl.Series(said).str.contains(r"^\p{Lu}")
            rest = words.str.to_lowercase()
            words = pl.select(pl.when(large).then(rest.str.slice(0, 1).str.to_uppercase() + rest.str.slice(1)).otherwise(rest)).to_series()
        return pa.array(words.to_list(), pa.large_string())


def _tagger(name: str) -> Any:
    try:
        spacy: Any = importlib.import_module("spacy")
    except ImportError:
        raise MissingExtra("spacy", "presidio") from None
    try:
        return spacy.load(name)
    except OSError:
        raise PlanError(f"tagger = {name!r}: no spaCy pipeline of that name is installed, and no folder holds one") from None


def _nouns(tagger: Any, buffers: Buffers, words: Spoken) -> B:
    """True for every word in a token that the tagger calls a noun or a name; the tagger reads one text at a time."""
    chosen = np.zeros(len(words.hashes), np.bool_)
    edges = np.searchsorted(words.text_no, np.arange(len(buffers.offsets)))
    for no, said in enumerate(tagger.pipe(buffers.column().to_pylist())):
        spans = [(token.idx, token.idx + len(token.text)) for token in said if token.pos_ in ("NOUN", "PROPN")]
        low, high = int(edges[no]), int(edges[no + 1])
        start, stop = (one[low:high] - np.searchsorted(buffers.continuing, one[low:high]) for one in (words.start, words.stop))
        shift = int(buffers.offsets[no]) - int(np.searchsorted(buffers.continuing, buffers.offsets[no]))
        for first, last in spans:
            chosen[low:high] |= (start - shift < last) & (stop - shift > first)
    return chosen
