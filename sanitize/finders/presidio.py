"""Finder `presidio`: runs Presidio's recognisers, custom ones and those of its models over columns
of texts, offline; no text is skipped.

`nlp` is the NLP pipeline of the recognisers: `blank`, which only splits words (patterns, checksums
and context words; no names), or a model by its path: `spacy`, `transformers` (token classification)
or `gliner` (labels of your choice).

Three differences from Presidio itself:

- **A time-out does not count as "nothing found".** Presidio skips a pattern that takes too long and
  continues. Here the document is quarantined (reason `not_analysed`), as it is if a recogniser
  fails.
- **Nothing is downloaded.** The list of public suffixes is the one shipped with tldextract; models
  are existing local folders.
- **Windows.** With the blank pipeline, recognisers whose every match has a digit or an `@`
  (`_DIGIT_OR_AT_RECOGNIZERS`) get only windows around those: `_WINDOW_BEFORE` and `_WINDOW_AFTER`
  bytes, extended to the next white space. They match there what they match in the whole text;
  context words are those of the window. All other patterns get whole texts. Models get chunks of
  `chunk` bytes that overlap by `overlap`; a span is taken from the chunk in which it begins, and
  the seam is in the middle of the overlap.

Costs: Python code for every text, 0.02 to 0.4 MB/s per core with patterns only. Scores are
Presidio's, context words included, rounded to a thousandth.
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
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.array_types import I64
from sanitize.core.arrow_buffers import (
    TextBuffers,
    code_points_to_bytes,
    find_matches,
    is_in_byte_table,
    make_byte_table,
)
from sanitize.core.intervals import merge_spans
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.errors import MissingExtra, PlanError, SanitizeError, suggest_names
from sanitize.kinds.kind import all_kinds
from sanitize.storage.files import tree_sha256
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.label_aliases import get_kinds_by_label, map_labels_to_kinds, trim_spans
from sanitize.text.token_classification.model_files import (
    describe_attribution,
    describe_versions,
    read_label_names,
)

_LIBRARIES = (
    "presidio-analyzer",
    "spacy",
    "phonenumbers",
    "tldextract",
    "regex",
    "transformers",
    "gliner",
)
# recognisers whose every match has a digit or an @, and no white space next to a word character at
# its edges (a test checks it)
_DIGIT_OR_AT_RECOGNIZERS = frozenset(
    "CreditCardRecognizer CryptoRecognizer DateRecognizer EmailRecognizer IbanRecognizer"
    " PhoneRecognizer UsSsnRecognizer".split()
)
_DIGIT_OR_AT_PATTERN = r"[\p{Nd}@]"
_WINDOW_BEFORE, _WINDOW_AFTER = 512, 128
_GLINER_LABELS = {"person": "PERSON", "organization": "ORGANIZATION", "location": "LOCATION"}
_LEMMA_COMPONENT = "words_as_written"
_WHITESPACE_BYTES = make_byte_table(b" \t\n\v\f\r")


class Presidio(Finder):
    """Settings: `language`; `recognizers` (class names of Presidio's, or dotted paths of your own;
    empty: those that Presidio loads for the language); `rules` (a YAML file of pattern
    recognisers); `entities` (empty: all that map to kinds that are not opt-in); `labels` (entity,
    or the model's label = our kind); `nlp` and `model` (a path); `context` (context words that
    count as present around every match); `threshold`; `timeout` (seconds for one pattern on one
    text); `chunk` and `overlap` (of a model's input); `device`."""

    VERSION: ClassVar[int] = 2
    needs: ClassVar[str] = "a model"
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
    _analyzers: PresidioAnalyzers | None = PrivateAttr(default=None)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of `entities`; empty (any kind) if no entities are named."""
        if not self.entities:
            return ()
        try:
            return tuple(
                dict.fromkeys(
                    kind
                    for kind in map_labels_to_kinds(self.entities, self.labels, "entities").values()
                    if kind
                )
            )
        except PlanError:
            return ()  # `validate_settings` reports it

    @property
    def uses_model(self) -> bool:
        return self.nlp != "blank"

    @property
    def attribution(self) -> str:
        return describe_attribution(self.model)

    def can_find(self, kind: str) -> bool:
        """True if a recogniser finds the kind. Known before a run only without a model; with a
        model, any kind is possible."""
        if (
            self.entities
            or self.nlp != "blank"
            or importlib.util.find_spec("presidio_analyzer") is None
        ):
            return super().can_find(kind)
        return kind in _load_analyzers(self).kind_by_entity.values()

    def resolve_settings(self) -> Self:
        """Returns these settings with the hashes of model and rules, and the versions of the
        libraries."""
        known = {"versions": describe_versions(_LIBRARIES)}
        if self.rules and Path(self.rules).is_file():
            known["rules_sha256"] = tree_sha256(Path(self.rules))
        if self.model and (folder := _find_model_folder(self.nlp, self.model)):
            known["model_sha256"] = tree_sha256(folder)
        for name in ("rules_sha256", "model_sha256"):
            if getattr(self, name) not in ("", known.get(name)):
                raise PlanError(
                    f"presidio: {name.partition('_')[0]} is not the one that the plan was made with"
                    f" ({name})"
                )
        return self.model_copy(update=known)

    def validate_settings(self) -> None:
        """Checks that Presidio is installed, that files and models exist, and that every entity
        maps to a kind and has a recogniser."""
        if importlib.util.find_spec("presidio_analyzer") is None:
            raise MissingExtra("presidio-analyzer", "presidio")
        if (self.nlp == "blank") == bool(self.model):
            raise PlanError(
                'presidio: `model`, a path, is required with nlp = "spacy", "transformers" or'
                ' "gliner", and only with these'
            )
        if self.nlp in ("transformers", "gliner") and importlib.util.find_spec(self.nlp) is None:
            raise MissingExtra(self.nlp, "learn" if self.nlp == "transformers" else "gliner")
        if self.model and _find_model_folder(self.nlp, self.model) is None:
            remedy = (
                f"; install it with: python -m spacy download {self.model}"
                if self.nlp == "spacy" and "/" not in self.model
                else ""
            )
            raise PlanError(
                f"presidio: model = {self.model!r}: there is no such folder on this machine, and"
                f" nothing is downloaded{remedy}"
            )
        if self.rules and not Path(self.rules).is_file():
            raise PlanError(f"presidio: rules = {self.rules!r}: there is no such file")
        if self.chunk <= 2 * self.overlap:
            raise PlanError(
                f"presidio: overlap = {self.overlap} does not fit into a chunk of {self.chunk}"
                " bytes; expected less than half of it"
            )
        if self.entities:
            map_labels_to_kinds(self.entities, self.labels, "presidio: entities")
        if self.nlp == "blank":  # a model is not loaded for this
            PresidioAnalyzers(self)

    def open(self, key: Key, first_round: object) -> None:
        """Builds the analyzers, once per process."""
        self._analyzers = _load_analyzers(self)

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the spans that the recognisers find in a column of texts; texts that a recogniser
        failed at are `unreadable_texts`."""
        assert self._analyzers is not None
        analyzers = self._analyzers
        kinds = tuple(dict.fromkeys(analyzers.kind_by_entity.values()))
        buffers = separate_escapes(TextBuffers.from_array(column.texts))
        kind_no = {entity: kinds.index(kind) for entity, kind in analyzers.kind_by_entity.items()}
        failed_texts: set[int] = set()
        with analyzers.open_memory_zone():
            found = pl.concat(
                _run_analyzer(analyze, buffers, windows, failed_texts)
                for analyze, windows in analyzers.iter_windows(buffers)
            )
        return trim_spans(
            buffers,
            found["text_no"].to_numpy(),
            found["start"].to_numpy(),
            found["end"].to_numpy(),
            found["entity"].replace_strict(kind_no, return_dtype=pl.Int32).to_numpy(),
            kinds,
            np.round(np.clip(found["score"].to_numpy(), 0, 1), 3).astype(np.float32),
            unreadable_texts=np.array(sorted(failed_texts), np.int64),
        )


class PatternTimeout(Exception):
    """A pattern ran out of time. Not a TimeoutError, which Presidio would ignore."""


class TimedPattern:
    """A compiled pattern that raises `PatternTimeout` when it runs out of time."""

    def __init__(self, compiled: Any, timeout_seconds: float) -> None:
        self.compiled, self.timeout_seconds = compiled, timeout_seconds

    def finditer(self, text: str, **_: Any) -> Iterator[Any]:
        try:
            yield from self.compiled.finditer(text, timeout=self.timeout_seconds)
        except TimeoutError:
            raise PatternTimeout from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


# text, start and end byte, and the range of bytes in which a span must begin
TextWindows = tuple[I64, I64, I64, I64, I64]


class PresidioAnalyzers:
    """The recognisers in three groups, each with an analyzer of its own: patterns with a digit or @
    (anchored), other patterns, models."""

    def __init__(self, settings: Presidio) -> None:
        logger = logging.getLogger("presidio-analyzer")
        # its warnings are about languages that are not used, and may quote a text
        logger.setLevel(logging.ERROR)
        try:
            import presidio_analyzer
            import spacy
            import tldextract
        except ImportError as error:
            raise MissingExtra(str(error.name), "presidio") from None
        # even if tldextract was imported before: no list is downloaded, nothing is written into the
        # home folder
        tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(
            suffix_list_urls=(), cache_dir=None
        )
        self.settings, self.presidio_module, self.spacy_module = settings, presidio_analyzer, spacy
        self.nlp_engine = self._build_nlp_engine()
        recognizers = self._load_recognizers()
        self.kind_by_entity = self._map_entities_to_kinds(recognizers)
        recognizers = [
            recognizer
            for recognizer in recognizers
            if set(recognizer.supported_entities) & set(self.kind_by_entity)
        ]
        pattern_class = presidio_analyzer.PatternRecognizer
        shipped_prefix = "presidio_analyzer.predefined_recognizers."
        # with a spaCy model, patterns use its lemmas, and belong to the group "models"
        without_spacy = settings.nlp != "spacy"
        groups: dict[str, list[Any]] = {"anchored": [], "patterns": [], "models": []}
        for recognizer in recognizers:
            is_shipped = type(recognizer).__module__.startswith(shipped_prefix)
            is_pattern = isinstance(recognizer, pattern_class) or (
                is_shipped and type(recognizer).__name__ == "PhoneRecognizer"
            )
            is_anchored = is_shipped and type(recognizer).__name__ in _DIGIT_OR_AT_RECOGNIZERS
            groups[
                (
                    "models"
                    if not is_pattern or not without_spacy
                    else "anchored"
                    if is_anchored
                    else "patterns"
                )
            ].append(recognizer)
            if isinstance(recognizer, pattern_class):
                self._add_timeouts(recognizer)
        self.analyze_by_group = {
            name: self._build_analyzer(group) for name, group in groups.items() if group
        }

    def _build_nlp_engine(self) -> Any:
        """Builds the NLP engine: it only splits words, unless a spaCy model is named."""
        settings, spacy = self.settings, self.spacy_module
        from presidio_analyzer.nlp_engine import SpacyNlpEngine

        path = _find_model_folder(settings.nlp, settings.model) if settings.nlp == "spacy" else None
        try:
            pipeline = spacy.load(path) if path else spacy.blank(settings.language)
        except (OSError, ValueError, ImportError) as error:
            setting = f"model = {settings.model!r}" if path else f"language = {settings.language!r}"
            raise PlanError(
                f"presidio: {setting}: spaCy cannot open it ({type(error).__name__})"
            ) from None
        engine: Any = SpacyNlpEngine(
            models=[{"lang_code": settings.language, "model_name": "here"}]
        )
        # load() would search for a package, and download it
        engine.nlp = {settings.language: pipeline}
        if path is None:
            pipeline.max_length = 1 << 31
            spacy.language.Language.component(_LEMMA_COMPONENT, func=_copy_words_to_lemmas)
            pipeline.add_pipe(_LEMMA_COMPONENT)
        return engine

    def _load_recognizers(self) -> list[Any]:
        """Returns the recognisers that the settings name."""
        settings, library = self.settings, self.presidio_module
        registry = library.RecognizerRegistry(supported_languages=[settings.language])
        if settings.recognizers:
            for name in settings.recognizers:
                registry.add_recognizer(self._build_recognizer(name))
        else:
            registry.load_predefined_recognizers(
                languages=[settings.language], nlp_engine=self.nlp_engine
            )
        if settings.rules:
            try:
                with contextlib.redirect_stdout(io.StringIO()):  # it prints its messages
                    registry.add_recognizers_from_yaml(settings.rules)
            except Exception as error:  # whatever a YAML file may hold
                raise PlanError(
                    f"presidio: rules = {settings.rules!r}: expected a YAML file of pattern"
                    f" recognisers ({type(error).__name__})"
                ) from None
        recognizers = [
            recognizer
            for recognizer in registry.recognizers
            if recognizer.supported_language == settings.language
        ]
        spacy_class = library.predefined_recognizers.SpacyRecognizer
        recognizers = [
            recognizer for recognizer in recognizers if not isinstance(recognizer, spacy_class)
        ]
        if settings.nlp == "spacy":
            recognizers.append(spacy_class(supported_language=settings.language))
        if settings.nlp == "transformers":
            labels = map_labels_to_kinds(
                read_label_names(Path(settings.model) / "config.json"),
                settings.labels,
                f"presidio: model = {settings.model!r}: labels",
            )
            recognizers.append(
                library.predefined_recognizers.HuggingFaceNerRecognizer(
                    model_name=settings.model,
                    label_mapping={name: kind for name, kind in labels.items() if kind},
                    supported_language=settings.language,
                    aggregation_strategy="first",
                    threshold=0.0,
                    device=settings.device,
                )
            )
        if settings.nlp == "gliner":
            recognizers.append(
                library.predefined_recognizers.GLiNERRecognizer(
                    model_name=settings.model,
                    entity_mapping={
                        name: kind
                        for name, kind in (settings.labels or _GLINER_LABELS).items()
                        if kind
                    },
                    supported_language=settings.language,
                    map_location=settings.device,
                    local_files_only=True,
                )
            )
        return recognizers

    def _build_recognizer(self, name: str) -> Any:
        """Returns a recogniser, given Presidio's class name or a dotted path."""
        shipped = self.presidio_module.predefined_recognizers
        module, _, class_name = name.rpartition(".")
        try:
            recognizer_class = getattr(
                importlib.import_module(module) if module else shipped, class_name
            )
            recognizer = recognizer_class(supported_language=self.settings.language)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            known = (
                [] if module else [other for other in dir(shipped) if other.endswith("Recognizer")]
            )
            raise PlanError(
                f"presidio: recognizers: {name} cannot be created ({type(error).__name__}); "
                + (
                    suggest_names(name, known)
                    if known
                    else "expected a class that takes supported_language"
                )
            ) from None
        if not isinstance(recognizer, self.presidio_module.EntityRecognizer):
            raise PlanError(
                f"presidio: recognizers: {name} is not a presidio_analyzer.EntityRecognizer"
            )
        return recognizer

    def _map_entities_to_kinds(self, recognizers: Sequence[Any]) -> dict[str, str]:
        """Returns the kind of every entity that the settings ask for."""
        settings = self.settings
        available = sorted({entity for item in recognizers for entity in item.supported_entities})
        if settings.entities:
            missing = [entity for entity in settings.entities if entity not in available]
            if missing:
                model = (
                    "; names, places and organizations need a model (nlp, model)"
                    if settings.nlp == "blank"
                    else ""
                )
                raise PlanError(
                    f"presidio: entities: no recogniser finds {', '.join(missing)};"
                    f" {suggest_names(missing[0], available)}{model}"
                )
        default_kinds = {
            name for name, item in all_kinds().items() if item.country is None and not item.opt_in
        }
        wanted = settings.entities or [
            item
            for item in available
            if item in settings.labels or get_kinds_by_label().get(item, item) in default_kinds
        ]
        kinds = {
            entity: kind
            for entity, kind in map_labels_to_kinds(
                wanted, settings.labels, "presidio: labels"
            ).items()
            if kind
        }
        if not kinds:
            raise PlanError(
                "presidio: no entity of its recognisers is a kind of sanitize"
                f" ({', '.join(available)}); map them to kinds in labels"
            )
        return kinds

    def _add_timeouts(self, recognizer: Any) -> None:
        """Compiles the patterns of a recogniser so that a time-out raises an error."""
        import regex

        for pattern in recognizer.patterns:
            compiled = regex.compile(pattern.regex, flags=recognizer.global_regex_flags)
            pattern.compiled_regex, pattern.compiled_with_flags = (
                TimedPattern(compiled, self.settings.timeout),
                recognizer.global_regex_flags,
            )

    def _build_analyzer(self, recognizers: Sequence[Any]) -> Any:
        settings, library = self.settings, self.presidio_module
        registry = library.RecognizerRegistry(
            recognizers=list(recognizers), supported_languages=[settings.language]
        )
        engine = library.AnalyzerEngine(
            registry=registry, nlp_engine=self.nlp_engine, supported_languages=[settings.language]
        )
        entities = sorted(
            {entity for recognizer in recognizers for entity in recognizer.supported_entities}
            & set(self.kind_by_entity)
        )
        return functools.partial(
            engine.analyze,
            language=settings.language,
            entities=entities,
            context=list(settings.context) or None,
            score_threshold=settings.threshold,
        )

    @contextlib.contextmanager
    def open_memory_zone(self) -> Iterator[None]:
        """Opens spaCy's memory zone for one column: its cache of words is freed afterwards;
        otherwise memory would grow with the corpus."""
        with self.nlp_engine.nlp[self.settings.language].memory_zone():
            yield

    def iter_windows(self, buffers: TextBuffers) -> Iterator[tuple[Any, TextWindows]]:
        """Yields the analyzers, each with the windows of the texts that it analyzes."""
        for group, analyze in self.analyze_by_group.items():
            if group == "anchored":
                yield analyze, _cut_digit_windows(buffers)
            elif group == "patterns":
                text_no = np.flatnonzero(buffers.lengths)
                low, high = buffers.offsets[text_no], buffers.offsets[text_no + 1]
                yield analyze, (text_no, low, high, low, high)
            else:
                yield analyze, _cut_chunks(buffers, self.settings.chunk, self.settings.overlap)


def _copy_words_to_lemmas(words: Any) -> Any:
    """Pipeline component that sets each word as its own lemma: without lemmas Presidio cannot
    search for context words."""
    for word in words:
        word.lemma_ = word.lower_
    return words


def _cut_digit_windows(buffers: TextBuffers) -> TextWindows:
    """Returns windows around digits and `@`, extended to the next white space; touching windows are
    merged."""
    anchors, _ = find_matches(buffers, _DIGIT_OR_AT_PATTERN)
    text_no = np.searchsorted(buffers.offsets, anchors, side="right") - 1
    first, last = buffers.offsets[text_no], buffers.offsets[text_no + 1]
    whitespace = np.flatnonzero(is_in_byte_table(buffers.data, _WHITESPACE_BYTES))
    low, high = (
        np.maximum(anchors - _WINDOW_BEFORE, first),
        np.minimum(anchors + _WINDOW_AFTER, last),
    )
    before = (
        np.append(whitespace, -1)[np.searchsorted(whitespace, low) - 1] + 1
        if len(whitespace)
        else np.zeros_like(low)
    )
    after = np.append(whitespace, len(buffers.data))[np.searchsorted(whitespace, high)]
    low, high = np.where(low > first, np.maximum(before, first), first), np.minimum(after, last)
    text_no, low, high = merge_spans(text_no, low, high)
    return text_no, low, high, low, high


def _cut_chunks(buffers: TextBuffers, chunk_bytes: int, overlap_bytes: int) -> TextWindows:
    """Returns chunks of at most `chunk_bytes` that overlap by `overlap_bytes`, cut between
    characters; a span is taken from the chunk in which it begins."""
    rows: list[tuple[int, int, int, int, int]] = []
    is_char_start = buffers.data.view(np.int8) >= -64

    def to_char_start(place: int) -> int:
        while not is_char_start[place]:
            place -= 1
        return place

    # a loop over texts: a model runs over them
    for text_no in np.flatnonzero(buffers.lengths).tolist():
        first, last = int(buffers.offsets[text_no]), int(buffers.offsets[text_no + 1])
        lows = [first]
        while lows[-1] + chunk_bytes < last:
            lows.append(to_char_start(lows[-1] + chunk_bytes - overlap_bytes))
        highs = [
            last if low + chunk_bytes >= last else to_char_start(low + chunk_bytes) for low in lows
        ]
        seams = [
            first,
            *(
                to_char_start((low + high) // 2)
                for low, high in zip(lows[1:], highs[:-1], strict=True)
            ),
            last,
        ]
        rows += zip([text_no] * len(lows), lows, highs, seams[:-1], seams[1:], strict=True)
    windows = np.array(rows, np.int64).reshape(-1, 5)
    return windows[:, 0], windows[:, 1], windows[:, 2], windows[:, 3], windows[:, 4]


def _run_analyzer(
    analyze: Any, buffers: TextBuffers, windows: TextWindows, failed_texts: set[int]
) -> pl.DataFrame:
    """Returns the spans that an analyzer finds in windows: text_no, start and end byte in the text,
    entity and score. Texts at which it fails are added to `failed_texts`. A loop over windows, as
    Presidio analyzes one text at a time."""
    text_no, low, high, begin, end = windows
    texts = [
        str(buffers.data[item:item_end].tobytes(), "utf-8")
        for item, item_end in zip(low.tolist(), high.tolist(), strict=True)
    ]
    found: list[tuple[int, int, int, str, float]] = []
    for number, text in enumerate(texts):
        if int(text_no[number]) in failed_texts:
            continue
        try:
            found += [
                (number, item.start, item.end, item.entity_type, float(item.score))
                for item in analyze(text=text)
            ]
        except (SanitizeError, MemoryError):
            raise
        except Exception:
            # a recogniser may raise anything: the document is quarantined, and its text is not
            # quoted
            failed_texts.add(int(text_no[number]))
    window_no, start, stop = (
        np.array([item[place] for item in found], np.int64) for place in range(3)
    )
    start, stop = code_points_to_bytes(
        TextBuffers.from_array(pa.array(texts, pa.large_string())), window_no, start, stop
    )
    start, stop = start + low[window_no], stop + low[window_no]
    rows = np.flatnonzero((start >= begin[window_no]) & (start < end[window_no]))
    base = buffers.offsets[text_no[window_no[rows]]]
    return pl.DataFrame(
        {
            "text_no": text_no[window_no[rows]],
            "start": start[rows] - base,
            "end": stop[rows] - base,
            "entity": pl.Series([found[row][3] for row in rows.tolist()], dtype=pl.String),
            "score": np.array([found[row][4] for row in rows.tolist()], np.float64),
        }
    )


def _find_model_folder(nlp: str, model: str) -> Path | None:
    """Returns the folder of a model, or of an installed spaCy package; None if there is none."""
    if Path(model).is_dir():
        return Path(model)
    if (
        nlp == "spacy"
        and importlib.util.find_spec("spacy")
        and model.isidentifier()
        and importlib.util.find_spec(model)
    ):
        import spacy

        return Path(spacy.util.get_package_path(model))
    return None


@functools.lru_cache(maxsize=2)
def _load_analyzers_cached(settings_json: str) -> PresidioAnalyzers:
    settings = Presidio.model_validate_json(settings_json)
    if (
        settings.model
        and (folder := _find_model_folder(settings.nlp, settings.model))
        and tree_sha256(folder) != settings.model_sha256
    ):
        raise PlanError(
            f"presidio: {settings.model}: the model is not the one that the plan was made with"
            " (sha256); use a folder that no other program writes to"
        )
    return PresidioAnalyzers(settings)


def _load_analyzers(settings: Presidio) -> PresidioAnalyzers:
    return _load_analyzers_cached(settings.model_dump_json())


__all__ = ["PresidioAnalyzers", "Presidio", "PatternTimeout", "TimedPattern"]
