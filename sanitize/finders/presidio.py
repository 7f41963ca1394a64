"""What Presidio finds: its recognisers, your own ones and those of its models, over columns, offline, and never with a text left out.

`nlp` says what stands behind the recognisers: `blank`, a pipeline that only splits words (patterns, checksums and context words; no names),
or a model by its path: `spacy`, `transformers` (token classification) or `gliner` (labels of your choice).

Three things are other than in Presidio itself:

- **A time-out is no "nothing found".** Presidio skips a pattern that takes too long and goes on. Here the document is set aside
  (`not_analysed` in the quarantine), as it is where a recogniser fails.
- **Nothing is fetched.** The list of public suffixes is the one that comes with tldextract, models are folders that are there already.
- **Windows.** With the blank pipeline, recognisers whose every match holds a digit or an `@` (`_ANCHORED`) see only what stands around
  those: `_BEFORE` and `_AFTER` characters, out to the next white space. They match there what they match in the whole text; context words
  are those of the window. All other patterns see whole texts. Models see pieces of `chunk` characters that share `overlap`; a span is that
  of the piece in which it begins, and pieces change in the middle of what they share.

Costs: a row of Python for every text, 0.02 to 0.4 MB/s a core with the patterns alone. Scores are Presidio's, context words included,
rounded to a thousandth.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.core.arrow_buffers import I64, Buffers, among, bytes_at, matches, table_of
from sanitize.core.keys import Key
from sanitize.core.parts import Column, Finder, Spans
from sanitize.errors import MissingExtra, PlanError, SanitizeError, nearest
from sanitize.finders.ner import label_names, versions
from sanitize.kinds.kind import every_kind
from sanitize.storage.corpus import tree_sha256
from sanitize.text.label_aliases import KNOWN, kinds_of, trimmed

_LIBRARIES = ("presidio-analyzer", "spacy", "phonenumbers", "tldextract", "regex", "transformers", "gliner")
# recognisers whose every match holds a digit or an @, and has no white space next to a character of a word at its edges (held by a test)
_ANCHORED = frozenset(
    "CreditCardRecognizer CryptoRecognizer DateRecognizer EmailRecognizer IbanRecognizer PhoneRecognizer UsSsnRecognizer".split()
)
_ANCHOR = r"[\p{Nd}@]"
_BEFORE, _AFTER = 512, 128
_GLINER = {"person": "PERSON", "organization": "ORGANIZATION", "location": "LOCATION"}
_AS_WRITTEN = "words_as_written"
_WHITE = table_of(b" \t\n\v\f\r")


class Presidio(Finder):
    """Settings: `language`; `recognizers` (class names of Presidio's, or dotted paths of your own; none: those that Presidio loads for the
    language); `rules` (a YAML file of pattern recognisers); `entities` (none: all that are kinds here without being asked for); `labels`
    (entity, or the model's label = our kind); `nlp` and `model` (a path); `context` (words that count as standing around everything);
    `threshold`; `timeout` (seconds for one pattern on one text); `chunk` and `overlap` (of a piece that a model sees); `device`."""

    language: str = "en"
    recognizers: tuple[str, ...] = ()
    rules: str = ""
    rules_sha256: str = ""
    entities: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    nlp: Literal["blank", "spacy", "transformers", "gliner"] = "blank"
    model: str = ""
    model_sha256: str = ""
    versions: str = ""
    context: tuple[str, ...] = ()
    threshold: float = Field(default=0.0, ge=0, le=1)
    timeout: float = Field(default=10.0, gt=0, le=3600)
    chunk: int = Field(default=20_000, ge=1_000, le=900_000)
    overlap: int = Field(default=400, ge=2, le=400_000)
    device: Literal["cpu", "cuda"] = "cpu"
    _analyzers: Analyzers | None = PrivateAttr(default=None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `entities`; any where none are named."""
        if not self.entities:
            return ()
        try:
            return tuple(dict.fromkeys(kind for kind in kinds_of(self.entities, self.labels, "entities").values() if kind))
        except PlanError:
            return ()  # `fits` says it

    def seeks(self, kind: str) -> bool:
        """Whether a recogniser finds the kind. Only a pipeline without a model can be asked before a run; any other may."""
        if self.entities or self.nlp != "blank" or importlib.util.find_spec("presidio_analyzer") is None:
            return super().seeks(kind)
        return kind in Analyzers(self).kind_of.values()

    def settled(self) -> Self:
        """The same with the hashes of the model and of the rules, and the versions of the libraries."""
        known = {"versions": versions(_LIBRARIES)}
        if self.rules and Path(self.rules).is_file():
            known["rules_sha256"] = tree_sha256(Path(self.rules))
        if self.model and (folder := _folder(self.nlp, self.model)):
            known["model_sha256"] = tree_sha256(folder)
        for name in ("rules_sha256", "model_sha256"):
            if getattr(self, name) not in ("", known.get(name)):
                raise PlanError(f"presidio: {name.partition('_')[0]} is not what the plan was made with ({name})")
        return self.model_copy(update=known)

    def fits(self) -> None:
        """Presidio is installed, files and models are there, every entity is a kind and something finds it."""
        if importlib.util.find_spec("presidio_analyzer") is None:
            raise MissingExtra("presidio-analyzer", "presidio")
        if (self.nlp == "blank") == bool(self.model):
            raise PlanError('presidio: `model`, a path, goes with nlp = "spacy", "transformers" or "gliner", and with these alone')
        if self.nlp in ("transformers", "gliner") and importlib.util.find_spec(self.nlp) is None:
            raise MissingExtra(self.nlp, "learn" if self.nlp == "transformers" else "gliner")
        if self.model and _folder(self.nlp, self.model) is None:
            way = f"; bring it with: python -m spacy download {self.model}" if self.nlp == "spacy" and "/" not in self.model else ""
            raise PlanError(f"presidio: model = {self.model!r}: there is no such folder here, and nothing is downloaded{way}")
        if self.rules and not Path(self.rules).is_file():
            raise PlanError(f"presidio: rules = {self.rules!r}: there is no such file")
        if self.chunk <= 2 * self.overlap:
            raise PlanError(
                f"presidio: overlap = {self.overlap} does not fit into a chunk of {self.chunk} characters; expected less than half"
            )
        if self.entities:
            kinds_of(self.entities, self.labels, "presidio: entities")
        if self.nlp == "blank":  # a model is not loaded for this
            Analyzers(self)

    def open(self, key: Key, gathered: Path | None) -> None:
        """Build the analyzers, once a process."""
        self._analyzers = _opened(self)

    def run(self, column: Column) -> Spans:
        """What the recognisers find in a column of texts; texts that they could not look at are `unread`."""
        assert self._analyzers is not None
        analyzers = self._analyzers
        kinds = tuple(dict.fromkeys(analyzers.kind_of.values()))
        buffers = Buffers.of(column.texts)
        found: list[tuple[I64, I64, I64, I64, npt.NDArray[np.float64]]] = []
        unread: set[int] = set()
        with analyzers.at_work():
            for analyze, pieces in analyzers.shares(buffers):
                text_no, start, stop, entities, scores = _asked(analyze, buffers, pieces, unread)
                kind = np.array([kinds.index(analyzers.kind_of[entity]) for entity in entities], np.int64)
                found.append((text_no, start, stop, kind, scores))
        text_no, start, stop, kind = (np.concatenate([one[place] for one in found]) for place in range(4))
        score = np.round(np.clip(np.concatenate([one[4] for one in found]), 0, 1), 3).astype(np.float32)
        missed = np.array(sorted(unread), np.int64)
        return trimmed(buffers, text_no, start, stop, kind.astype(np.int32), kinds, score, unread=missed)


class TooSlow(Exception):
    """A pattern ran out of time. Not a TimeoutError, which Presidio would pass over."""


class Watched:
    """A compiled pattern that says so when it runs out of time."""

    def __init__(self, compiled: Any, seconds: float) -> None:
        self.compiled, self.seconds = compiled, seconds

    def finditer(self, text: str, **_: Any) -> Iterator[Any]:
        try:
            yield from self.compiled.finditer(text, timeout=self.seconds)
        except TimeoutError:
            raise TooSlow from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


Piece = tuple[I64, I64, I64, I64, I64]  # text, first byte and byte after, and the bytes between which a span must begin


class Analyzers:
    """The recognisers in three groups, each behind an analyzer of its own: anchored patterns, other patterns, and models."""

    def __init__(self, told: Presidio) -> None:
        logger = logging.getLogger("presidio-analyzer")
        logger.setLevel(logging.ERROR)  # its warnings tell of languages that nobody asked for, and may quote a text
        try:
            import presidio_analyzer
            import spacy
            import tldextract
        except ImportError as error:
            raise MissingExtra(str(error.name), "presidio") from None
        # whatever was imported before: no list is fetched, nothing is written into the home folder
        tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
        self.told, self.library, self.spacy = told, presidio_analyzer, spacy
        self.nlp = self._nlp()
        every = self._recognizers()
        self.kind_of = self._kinds(every)
        every = [one for one in every if set(one.supported_entities) & set(self.kind_of)]
        pattern = presidio_analyzer.PatternRecognizer
        shipped = "presidio_analyzer.predefined_recognizers."
        blank = told.nlp != "spacy"  # with a spaCy model, patterns use its lemmas, and go with it
        groups: dict[str, list[Any]] = {"anchored": [], "patterns": [], "models": []}
        for one in every:
            mine = type(one).__module__.startswith(shipped)
            plain = isinstance(one, pattern) or (mine and type(one).__name__ == "PhoneRecognizer")
            anchored = mine and type(one).__name__ in _ANCHORED
            groups["models" if not plain or not blank else "anchored" if anchored else "patterns"].append(one)
            if isinstance(one, pattern):
                self._watch(one)
        self.analyze = {name: self._analyzer(some) for name, some in groups.items() if some}

    def _nlp(self) -> Any:
        """The NLP engine: words split and no more, unless a spaCy model is named."""
        told, spacy = self.told, self.spacy
        from presidio_analyzer.nlp_engine import SpacyNlpEngine

        path = _folder(told.nlp, told.model) if told.nlp == "spacy" else None
        try:
            pipeline = spacy.load(path) if path else spacy.blank(told.language)
        except (OSError, ValueError, ImportError) as error:
            what = f"model = {told.model!r}" if path else f"language = {told.language!r}"
            raise PlanError(f"presidio: {what}: spaCy cannot open it ({type(error).__name__})") from None
        engine: Any = SpacyNlpEngine(models=[{"lang_code": told.language, "model_name": "here"}])
        engine.nlp = {told.language: pipeline}  # load() would look for a package, and fetch it
        if path is None:
            pipeline.max_length = 1 << 31
            spacy.language.Language.component(_AS_WRITTEN, func=_as_written)
            pipeline.add_pipe(_AS_WRITTEN)
        return engine

    def _recognizers(self) -> list[Any]:
        """The recognisers that the settings name."""
        told, library = self.told, self.library
        registry = library.RecognizerRegistry(supported_languages=[told.language])
        if told.recognizers:
            for name in told.recognizers:
                registry.add_recognizer(self._made(name))
        else:
            registry.load_predefined_recognizers(languages=[told.language], nlp_engine=self.nlp)
        if told.rules:
            try:
                with contextlib.redirect_stdout(io.StringIO()):  # it prints what it says
                    registry.add_recognizers_from_yaml(told.rules)
            except Exception as error:  # whatever a YAML file may hold
                raise PlanError(f"presidio: rules = {told.rules!r}: no recognisers can be read ({type(error).__name__})") from None
        every = [one for one in registry.recognizers if one.supported_language == told.language]
        named = library.predefined_recognizers.SpacyRecognizer
        every = [one for one in every if not isinstance(one, named)]
        if told.nlp == "spacy":
            every.append(named(supported_language=told.language))
        if told.nlp == "transformers":
            labels = kinds_of(label_names(Path(told.model) / "config.json"), told.labels, f"presidio: model = {told.model!r}: labels")
            every.append(
                library.predefined_recognizers.HuggingFaceNerRecognizer(
                    model_name=told.model,
                    label_mapping={name: kind for name, kind in labels.items() if kind},
                    supported_language=told.language,
                    aggregation_strategy="first",
                    threshold=0.0,
                    device=told.device,
                )
            )
        if told.nlp == "gliner":
            every.append(
                library.predefined_recognizers.GLiNERRecognizer(
                    model_name=told.model,
                    entity_mapping={name: kind for name, kind in (told.labels or _GLINER).items() if kind},
                    supported_language=told.language,
                    map_location=told.device,
                    local_files_only=True,
                )
            )
        return every

    def _made(self, name: str) -> Any:
        """A recogniser by Presidio's class name, or by a dotted path."""
        shipped = self.library.predefined_recognizers
        module, _, title = name.rpartition(".")
        try:
            made = getattr(importlib.import_module(module) if module else shipped, title)
            one = made(supported_language=self.told.language)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            known = [] if module else [other for other in dir(shipped) if other.endswith("Recognizer")]
            raise PlanError(
                f"presidio: recognizers: {name} cannot be made ({type(error).__name__}); "
                + (nearest(name, known) if known else "expected a class that takes supported_language")
            ) from None
        if not isinstance(one, self.library.EntityRecognizer):
            raise PlanError(f"presidio: recognizers: {name} is no presidio_analyzer.EntityRecognizer")
        return one

    def _kinds(self, every: Sequence[Any]) -> dict[str, str]:
        """The kind of every entity that is asked for."""
        told = self.told
        there = sorted({entity for one in every for entity in one.supported_entities})
        if told.entities:
            missing = [entity for entity in told.entities if entity not in there]
            if missing:
                model = "; names, places and firms need a model (nlp, model)" if told.nlp == "blank" else ""
                raise PlanError(f"presidio: entities: no recogniser finds {', '.join(missing)}; {nearest(missing[0], there)}{model}")
        usual = {name for name, one in every_kind().items() if one.country is None and not one.asked}
        wanted = told.entities or [one for one in there if one in told.labels or KNOWN.get(one, one) in usual]
        kinds = {entity: kind for entity, kind in kinds_of(wanted, told.labels, "presidio: labels").items() if kind}
        if not kinds:
            raise PlanError(f"presidio: no entity of its recognisers is a kind here ({', '.join(there)}); say which they are in labels")
        return kinds

    def _watch(self, one: Any) -> None:
        """Compile the patterns of a recogniser so that a time-out is an error."""
        import regex

        for pattern in one.patterns:
            compiled = regex.compile(pattern.regex, flags=one.global_regex_flags)
            pattern.compiled_regex, pattern.compiled_with_flags = Watched(compiled, self.told.timeout), one.global_regex_flags

    def _analyzer(self, some: Sequence[Any]) -> Any:
        told, library = self.told, self.library
        registry = library.RecognizerRegistry(recognizers=list(some), supported_languages=[told.language])
        engine = library.AnalyzerEngine(registry=registry, nlp_engine=self.nlp, supported_languages=[told.language])
        entities = sorted({entity for one in some for entity in one.supported_entities} & set(self.kind_of))
        return functools.partial(
            engine.analyze,
            language=told.language,
            entities=entities,
            context=list(told.context) or None,
            score_threshold=told.threshold,
        )

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """While a column is looked at: what spaCy remembers of its words is forgotten after, or memory would grow with the corpus."""
        with self.nlp.nlp[self.told.language].memory_zone():
            yield

    def shares(self, buffers: Buffers) -> Iterator[tuple[Any, Piece]]:
        """The analyzers, each with the pieces of the texts that it is to see."""
        for name, analyze in self.analyze.items():
            if name == "anchored":
                yield analyze, _windows(buffers)
            elif name == "patterns":
                some = np.flatnonzero(buffers.lengths)
                low, high = buffers.offsets[some], buffers.offsets[some + 1]
                yield analyze, (some, low, high, low, high)
            else:
                yield analyze, _chunks(buffers, self.told.chunk, self.told.overlap)


def _as_written(words: Any) -> Any:
    """A pipe for a pipeline without lemmas: each word is its own, so that Presidio can look for context words at all."""
    for word in words:
        word.lemma_ = word.lower_
    return words


def _windows(buffers: Buffers) -> Piece:
    """What stands around digits and `@`, out to the next white space; windows that touch are one."""
    at, _ = matches(buffers, _ANCHOR)
    text_no = np.searchsorted(buffers.offsets, at, side="right") - 1
    first, last = buffers.offsets[text_no], buffers.offsets[text_no + 1]
    white = np.flatnonzero(among(buffers.data, _WHITE))
    low, high = np.maximum(at - _BEFORE, first), np.minimum(at + _AFTER, last)
    before = np.append(white, -1)[np.searchsorted(white, low) - 1] + 1 if len(white) else np.zeros_like(low)
    after = np.append(white, len(buffers.data))[np.searchsorted(white, high)]
    low, high = np.where(low > first, np.maximum(before, first), first), np.minimum(after, last)
    apart = np.append(True, (low[1:] > np.maximum.accumulate(high)[:-1]) | (np.diff(text_no) != 0)) if len(at) else np.empty(0, np.bool_)
    head = np.flatnonzero(apart)
    low, text_no = low[head], text_no[head]
    high = np.maximum.reduceat(high, head) if len(head) else high
    return text_no, low, high, low, high


def _chunks(buffers: Buffers, chunk: int, overlap: int) -> Piece:
    """Pieces of at most `chunk` bytes that share `overlap`, cut between characters; a span is that of the piece in which it begins."""
    rows: list[tuple[int, int, int, int, int]] = []
    lead = buffers.data.view(np.int8) >= -64

    def border(place: int) -> int:
        while not lead[place]:
            place -= 1
        return place

    # a loop over texts: a model runs over them
    for text_no in np.flatnonzero(buffers.lengths).tolist():
        first, last = int(buffers.offsets[text_no]), int(buffers.offsets[text_no + 1])
        lows = [first]
        while lows[-1] + chunk < last:
            lows.append(border(lows[-1] + chunk - overlap))
        highs = [last if low + chunk >= last else border(low + chunk) for low in lows]
        seams = [first, *(border((low + high) // 2) for low, high in zip(lows[1:], highs[:-1], strict=True)), last]
        rows += zip([text_no] * len(lows), lows, highs, seams[:-1], seams[1:], strict=True)
    made = np.array(rows, np.int64).reshape(-1, 5)
    return made[:, 0], made[:, 1], made[:, 2], made[:, 3], made[:, 4]


def _asked(analyze: Any, buffers: Buffers, pieces: Piece, unread: set[int]) -> tuple[I64, I64, I64, list[str], npt.NDArray[np.float64]]:
    """What an analyzer finds in pieces: text, first byte, byte after, entity and score; `unread` gathers the texts that it fails at. A loop
    over pieces: Presidio takes one at a time."""
    text_no, low, high, begin, end = pieces
    texts = [str(buffers.data[one:other].tobytes(), "utf-8") for one, other in zip(low.tolist(), high.tolist(), strict=True)]
    found: list[tuple[int, int, int, str, float]] = []
    for number, text in enumerate(texts):
        if int(text_no[number]) in unread:
            continue
        try:
            found += [(number, one.start, one.end, one.entity_type, float(one.score)) for one in analyze(text=text)]
        except (SanitizeError, MemoryError):
            raise
        except Exception:  # whatever a recogniser may do: the document is set aside, and its text quoted nowhere
            unread.add(int(text_no[number]))
    piece, start, stop = (np.array([one[place] for one in found], np.int64) for place in range(3))
    start, stop = bytes_at(Buffers.of(pa.array(texts, pa.large_string())), piece, start, stop)
    start, stop = start + low[piece], stop + low[piece]
    mine = np.flatnonzero((start >= begin[piece]) & (start < end[piece]))
    base = buffers.offsets[text_no[piece[mine]]]
    scores = np.array([found[row][4] for row in mine.tolist()], np.float64)
    return text_no[piece[mine]], start[mine] - base, stop[mine] - base, [found[row][3] for row in mine.tolist()], scores


def _folder(nlp: str, model: str) -> Path | None:
    """Where a model lies: its folder, or that of an installed spaCy package."""
    if Path(model).is_dir():
        return Path(model)
    if nlp == "spacy" and importlib.util.find_spec("spacy") and model.isidentifier() and importlib.util.find_spec(model):
        import spacy

        return Path(spacy.util.get_package_path(model))
    return None


@functools.lru_cache(maxsize=2)
def _made(settings: str) -> Analyzers:
    told = Presidio.model_validate_json(settings)
    if told.model and (folder := _folder(told.nlp, told.model)) and tree_sha256(folder) != told.model_sha256:
        raise PlanError(f"presidio: {told.model}: the model is not the one that the plan was made with; use a folder that nobody writes to")
    return Analyzers(told)


def _opened(told: Presidio) -> Analyzers:
    return _made(told.model_dump_json())


__all__ = ["Analyzers", "Presidio", "TooSlow", "Watched"]
