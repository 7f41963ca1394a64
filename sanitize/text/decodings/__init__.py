"""Decodes encoded text in a column (base64, HTML and URL escapes, UTF-16 ...) and maps positions in
the decoded text back to the column.

Only the surroundings of encoded text (an escape, a run of base64, a long row of digits) are
decoded, so a text without any costs one scan. This package knows nothing about values: bytes in,
bytes out. The forms:

    zero-width         invisible characters, variation selectors, control characters and escapes of
                       terminals, left out, and a no-break space beside an @
    line breaks        the end of a line, with the blanks around it, backslashes before it and quote
                       marks (>) after it, and other runs of blanks but those between numbers, as
                       one space
    other digits       digits of other scripts, and full-width ones
    HTML               &#64; &#64 &commat; &amp;#64;
    URL                %40, and twice: %2540, %u0040
    form encoding      + for a blank, where a value may have one or beside a percent escape
    JSON               \\u0040, \\u{40}, \\U00000040, \\x40, the octal \\100, escaped slashes and
                       quotes; with any number of backslashes
    CSS                \\40 with the blank that ends it, \\000040
    wrapped address    bob=example.com@lists.example.net, IMCEASMTP-bob+40example+2Ecom@example.net
    quoted-printable   =40, soft line breaks; these also alone, as =53 may be a = before digits
    UTF-7              +AEA-, without its - where all characters are below U+0800
    base64             at any of its alignments, URL-safe, in lines that are indented, quoted, or
                       continued by a backslash
    base32, base32hex  at any of their alignments, of texts of 12 bytes or more
    hexadecimal        of texts of 12 bytes or more; also groups of digits with one separator:
                       71 75 69, 71:75:69, 0x71, 0x75
    uuencode           whole lines, of texts of 12 bytes or more
    ASCII85            behind <~
    UTF-16             either byte order, in any bytes; and UTF-32
    digits             digits only, without their separators; also those of the escaped forms above
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from sanitize.array_types import Mask
from sanitize.core.arrow_buffers import TextBuffers, make_byte_table
from sanitize.text.decodings.coded_runs import (
    RUN_FORMS,
    SEPARATED_HEX,
    CodedRuns,
    decode_adobe_ascii85,
    decode_coded_runs,
    decode_separated_hex,
    decode_uuencode,
    find_coded_runs,
)
from sanitize.text.decodings.decoded_pieces import Decoding
from sanitize.text.decodings.digit_rows import NUMBER_BYTES, join_decoded_digits, join_digits
from sanitize.text.decodings.escapes import (
    ESCAPES,
    FindEscapes,
    decode_escapes,
    decode_soft_breaks,
    find_form_escapes,
    find_paragraph_breaks,
)
from sanitize.text.decodings.wide_characters import decode_wide_characters

ENCODED_FORMS = (
    *(
        "zero-width",
        "line breaks",
        "other digits",
        "HTML",
        "URL",
        "form encoding",
        "JSON",
        "CSS",
        "wrapped address",
    ),
    *(
        "quoted-printable",
        "UTF-7",
        "base64",
        "base32",
        "base32hex",
        "hexadecimal",
        "uuencode",
        "ASCII85",
        "UTF-16",
        "digits",
    ),
)
_NO_BLANK_PAIRS = ~(make_byte_table(b"\t\n\r ")[:, None] | make_byte_table(b"\t\n\r "))
_NUMBER_PAIRS = NUMBER_BYTES[:, None] & NUMBER_BYTES
_WHOLE_FORMS: dict[str, Callable[[TextBuffers], Decoding | None]] = {
    "uuencode": decode_uuencode,
    "ASCII85": decode_adobe_ascii85,
    "UTF-16": decode_wide_characters,
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

    `max_value_bytes` is the length of the longest value that is searched for: that many bytes on
    either side of an escape are part of a piece. `runs` are those of the column
    (`find_coded_runs`), if they are known. `blank_pairs`: [a, b] is True where a value may have a
    blank between the bytes a and b; other line breaks are decoded only between digits."""
    buffers = TextBuffers.from_array(texts)
    pairs = np.ones((256, 256), np.bool_) if blank_pairs is None else blank_pairs | _NUMBER_PAIRS
    form_pairs = _NO_BLANK_PAIRS if blank_pairs is None else blank_pairs
    find_by_form: dict[str, FindEscapes] = {
        # numbers in the columns of a table are several
        "line breaks": partial(
            find_paragraph_breaks, pairs=pairs, run_pairs=pairs & ~_NUMBER_PAIRS
        ),
        "form encoding": partial(
            find_form_escapes, pairs=form_pairs, max_value_bytes=max_value_bytes
        ),
        **ESCAPES,
    }
    for form, find_in in find_by_form.items():
        if form in forms and (escapes := find_in(buffers)) is not None:
            readings = [decode_escapes(form, buffers, escapes, max_value_bytes)]
            if (
                form == "quoted-printable"
                and (breaks := decode_soft_breaks(buffers, escapes, max_value_bytes)) is not None
            ):
                readings.append(breaks)
            for unescaped in readings:
                yield unescaped
                if "digits" in forms and (digits := join_decoded_digits(unescaped)) is not None:
                    yield digits
    run_forms = [form for form in RUN_FORMS if form in forms]
    if run_forms:
        runs = runs or find_coded_runs(texts)
        yield from (
            decoding
            for form in run_forms
            if (decoding := decode_coded_runs(form, buffers, runs[form])) is not None
        )
        if (
            "hexadecimal" in forms
            and (decoding := decode_separated_hex(buffers, runs[SEPARATED_HEX])) is not None
        ):
            yield decoding
    for form, decode_form in _WHOLE_FORMS.items():
        if form in forms and (decoding := decode_form(buffers)) is not None:
            yield decoding
