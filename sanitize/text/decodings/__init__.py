"""Decodes encoded text in a column (base64, HTML and URL escapes, UTF-16 ...) and maps positions in the decoded text back to the column.

Only the surroundings of encoded text (an escape, a run of base64, a long row of digits) are decoded, so a text without any costs one
scan. This package knows nothing about values: bytes in, bytes out. The forms:

    zero-width         invisible characters, left out, and a no-break space beside an @
    line breaks        the end of a line, with the blanks and quote marks (>) that begin the next one, as one space
    other digits       digits of other scripts, and full-width ones
    HTML               &#64; &#64 &commat; &amp;#64;
    URL                %40, and twice: %2540
    JSON               \\u0040, \\x40, escaped slashes and quotes
    wrapped address    bob=example.com@lists.example.net, IMCEASMTP-bob+40example+2Ecom@example.net
    quoted-printable   =40, soft line breaks
    base64             at any of its alignments, folded or URL-safe
    base32             at any of its alignments, of texts of 12 bytes or more
    hexadecimal        of texts of 12 bytes or more
    uuencode           whole lines, of texts of 12 bytes or more
    UTF-16             either byte order, in any bytes
    digits             digits only, without their separators; also those of the escaped forms above
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from sanitize.array_types import Mask
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.text.decodings.coded_runs import RUN_FORMS, CodedRuns, decode_coded_runs, decode_uuencode, find_coded_runs
from sanitize.text.decodings.decoded_pieces import Decoding
from sanitize.text.decodings.digit_rows import NUMBER_BYTES, join_decoded_digits, join_digits
from sanitize.text.decodings.escapes import ESCAPES, FindEscapes, decode_escapes, find_paragraph_breaks
from sanitize.text.decodings.utf16 import decode_utf16

ENCODED_FORMS = (
    *("zero-width", "line breaks", "other digits", "HTML", "URL", "JSON", "wrapped address", "quoted-printable"),
    *("base64", "base32", "hexadecimal", "uuencode", "UTF-16", "digits"),
)
_NUMBER_PAIRS = NUMBER_BYTES[:, None] & NUMBER_BYTES
_WHOLE_FORMS: dict[str, Callable[[TextBuffers], Decoding | None]] = {
    "uuencode": decode_uuencode,
    "UTF-16": decode_utf16,
    "digits": join_digits,
}


def iter_decodings(
    texts: pa.LargeStringArray,
    max_value_bytes: int,
    forms: tuple[str, ...] = ENCODED_FORMS,
    runs: CodedRuns | None = None,
    blank_pairs: Mask | None = None,
) -> Iterator[Decoding]:
    """Yields the decodings of a column, for each form that occurs; `digits` may come several times.

    `max_value_bytes` is the length of the longest value that is searched for: that many bytes on either side of an escape are part of a
    piece. `runs` are those of the column (`find_coded_runs`), if they are known. `blank_pairs`: [a, b] is True where a value may have a
    blank between the bytes a and b; other line breaks are decoded only between digits."""
    buffers = TextBuffers.from_array(texts)
    pairs = np.ones((256, 256), np.bool_) if blank_pairs is None else blank_pairs | _NUMBER_PAIRS
    find_by_form: dict[str, FindEscapes] = {"line breaks": partial(find_paragraph_breaks, pairs=pairs), **ESCAPES}
    for form, find_in in find_by_form.items():
        if form in forms and (escapes := find_in(buffers)) is not None:
            yield (unescaped := decode_escapes(form, buffers, escapes, max_value_bytes))
            if "digits" in forms and (digits := join_decoded_digits(unescaped)) is not None:
                yield digits
    run_forms = [form for form in RUN_FORMS if form in forms]
    if run_forms:
        runs = runs or find_coded_runs(texts)
        yield from (decoding for form in run_forms if (decoding := decode_coded_runs(form, buffers, runs[form])) is not None)
    for form, decode_form in _WHOLE_FORMS.items():
        if form in forms and (decoding := decode_form(buffers)) is not None:
            yield decoding
