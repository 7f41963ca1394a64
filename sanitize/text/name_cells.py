"""Counts the cells of a column that are a name of a person and nothing else: `Ann Roe`, `Roe, Ann`, `Ann Roe <ann@host.example>`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.arrow_buffers import TextBuffers, fill_null_texts
from sanitize.text.name_lexicon import COMMON_WORD, GIVEN_NAME, ORGANIZATION, PLACE, STOP_WORD, load_name_lexicon
from sanitize.text.tokenizer import tokenize_unicode

_MAX_BYTES = 60  # of a cell that is a name
_ADDRESS_PATTERN = r"\s*<[^<>]*>\s*$"
# two to four words, each with a capital, an initial or a particle
_NAME_PATTERN = r"^\s*\p{Lu}[\p{L}\p{M}'’.-]*,?(?:\s+(?:\p{Lu}[\p{L}\p{M}'’.-]*|de|da|van|von|der|del|la|bin|al),?){1,3}\s*$"


def count_name_cells(texts: pa.LargeStringArray) -> tuple[int, int]:
    """(cells that are a name, cells that are not empty). A name has a given name of the lexicon, and no word of organizations or places.

    >>> count_name_cells(pa.array(["Maria Kowalski", "Roe, Ann", "Annual report", "zyq77", "", None], pa.large_string()))
    (2, 4)
    """
    texts = fill_null_texts(texts)
    filled = int(pc.sum(pc.match_substring_regex(texts, r"\S")).as_py() or 0)
    is_short = pc.less_equal(pc.binary_length(texts), _MAX_BYTES)
    cells = pc.replace_substring_regex(texts.filter(is_short), _ADDRESS_PATTERN, "")
    cells = cells.filter(pc.match_substring_regex(cells, _NAME_PATTERN))
    if not len(cells):
        return 0, filled
    tokens = tokenize_unicode(TextBuffers.from_array(cells))
    flags = load_name_lexicon().lookup_flags(tokens.hashes)

    def has_word(selected: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.bincount(tokens.text_no[selected], minlength=len(cells)) > 0

    is_given_name = (flags & GIVEN_NAME > 0) & (flags & (COMMON_WORD | PLACE) == 0)
    is_name = has_word(is_given_name) & ~has_word(flags & (ORGANIZATION | STOP_WORD | PLACE) > 0)
    return int(is_name.sum()), filled
