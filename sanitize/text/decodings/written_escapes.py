r"""The escapes that texts write out as characters, such as `\n` in a JSON text, as data; and a view
of a column in which they separate.

A value may follow an escape directly: `{"m": "Hi\nquinn@example.com"}`. The `n` is part of the
escape, not of the value, and stays in the text. Finders therefore search a view of the texts in
which escapes are white space of the same size, so that all positions are those of the texts:

    "Hi\nquinn@example.com"     the text
    "Hi↵↵quinn@example.com"     its view, with a line end of two bytes

What is read as an escape:

- `\n \r \t \b \f \v`, `\uXXXX`, `\UXXXXXXXX` and `\xXX` behind any number of backslashes (JSON
  inside JSON has several), and the fonts of manual pages (`\fBname\fP`). Other languages write
  backslashes too, but no value begins with one of these letters there: `\textbf`, `\nu`,
  `\bword\b`, `CORP\nina`, `\\server\new`. Where a value does, one of the two readings is found
  (`C:\temp\tom@example.com`: `om@example.com`), and the leak check knows both. The names of users
  behind `C:\Users\` are left whole, as are the lines of a key block.
- Percent escapes of control characters, blanks and delimiters (`%0A`, `%20`, `%22`), not in a URL,
  of which they are part. In values inside a URL they are separators as well. Percent escapes of
  other characters may be part of a value (`bob%40example.com`).
- `=0A` and `=0D` of quoted-printable, not in a URL and not at the beginning of a key
  (`AccountKey=0Ab...`). Others are as often text (`id=20`, `phone=2125550187`).
- Sequences of terminals, such as a colour: `ESC[32m`, as bytes and written as `\x1b[32m`,
  `\u001b[32m`, `\033[32m`, `\e[32m`.
- Underscores on both sides of a number, which are emphasis in Markdown: `_312-555-0178_`.

Not in the view: `\"`, `\/` and HTML entities (`&#10;`, `&nbsp;`) end in a character that no value
begins with.
"""

from __future__ import annotations

import numpy as np

from sanitize.array_types import U8
from sanitize.core.arrow_buffers import TextBuffers
from sanitize.kernels.written_escapes import write_separators

# JSON, C, Python
BACKSLASH_SEPARATORS = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}
FONTS = "BIRP"  # of troff, behind `\f` and not before a capital: bold, italic, roman, previous
# the letter behind a backslash, and how many digits follow
HEXADECIMAL_ESCAPES = {"u": 4, "U": 8, "x": 2}
# before `[32m`
ESCAPE_CHARACTERS = (
    "\x1b",
    "\\x1b",
    "\\x1B",
    "\\u001b",
    "\\u001B",
    "\\033",
    "\\33",
    "\\e",
    "\\E",
)
PERCENT_SEPARATORS = "\t\n\r \"&'(),/:;<=>?[]{}\xa0"  # what a percent escape may stand for
QUOTED_PRINTABLE_SEPARATORS = (
    "\n\r"  # what an escape of quoted-printable may stand for before any character
)


def separate_escapes(buffers: TextBuffers, *, inside_urls: bool = False) -> TextBuffers:
    """The column with white space of the same size in place of each escape: a line end, or blanks
    and a tab; the column itself if it has no escapes. With `inside_urls` every text is a URL, in
    which percent escapes are separators."""
    view = buffers.data.copy()
    count = write_separators(buffers.data, buffers.offsets, *_SIGNS, inside_urls, view)
    return TextBuffers(view, buffers.offsets) if count else buffers


def _make_sign_table(separators: dict[int, str]) -> U8:
    """The white space that is written for each byte; 0 for none."""
    signs = np.zeros(256, np.uint8)
    for byte, separator in separators.items():
        signs[byte] = ord(separator if separator in "\n\r" else "\t")
    return signs


_SIGNS = (
    _make_sign_table(
        {ord(letter): separator for letter, separator in BACKSLASH_SEPARATORS.items()}
    ),
    _make_sign_table({ord(letter): "\t" for letter in FONTS}),
    _make_sign_table({ord(separator): separator for separator in PERCENT_SEPARATORS}),
    _make_sign_table({ord(separator): separator for separator in QUOTED_PRINTABLE_SEPARATORS}),
)
