"""Values in each encoded form are decoded at every place, exactly where they are, and in linear
time."""

from __future__ import annotations

import base64
import re
import resource
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.text.decodings import ENCODED_FORMS, iter_decodings

VALUE = "quinn.brindle@example.com"


def fold(code: str, line_end: str) -> str:
    """Base64 in lines of 16 characters."""
    return line_end.join(code[start : start + 16] for start in range(0, len(code), 16))


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def escape_all(template: str) -> Callable[[str], str]:
    return lambda text: "".join(template.format(ord(char)) for char in text)


def invisible_between(char: str) -> Callable[[str], str]:
    return lambda text: char.join(text)


def utf7(text: str) -> str:
    """UTF-7 in which every character is shifted, as encoders for mail headers do."""
    return "+" + base64.b64encode(text.encode("utf-16-be")).decode().rstrip("=") + "-"


# form and how a text is written in it; each of these writes every character of the text in another
# way
FORMS: dict[str, tuple[str, Callable[[str], str]]] = {
    "JavaScript": ("JSON", escape_all("\\u{{{:x}}}")),
    "Python and C": ("JSON", escape_all("\\U{:08X}")),
    "octal": ("JSON", escape_all("\\{:03o}")),
    "octal in JSON": ("JSON", escape_all("\\\\{:03o}")),
    "octal without zeros": ("JSON", escape_all("\\{:o}")),
    "hexadecimal in C": ("JSON", escape_all("\\x{:02x}")),
    "old JavaScript": ("URL", escape_all("%u{:04x}")),
    "old JavaScript in a URL": ("URL", escape_all("%25u{:04X}")),
    "CSS with blanks": ("CSS", escape_all("\\{:x} ")),
    "CSS of six digits": ("CSS", escape_all("\\{:06X}")),
    "CSS in JSON": ("CSS", escape_all("\\\\{:x}\n")),
    "UTF-7": ("UTF-7", utf7),
    "UTF-7 by character": ("UTF-7", lambda text: "".join(map(utf7, text))),
    "a variation selector": ("zero-width", invisible_between("\ufe0f")),
    "a variation selector of the supplement": ("zero-width", invisible_between("\U000e0100")),
    "a combining joiner": ("zero-width", invisible_between("\u034f")),
    "a soft hyphen": ("zero-width", invisible_between("\u00ad")),
    "a control character": ("zero-width", invisible_between("\x08")),
    "a control character of ISO 8859": ("zero-width", invisible_between("\x9f")),
    "delete": ("zero-width", invisible_between("\x7f")),
    "an escape of a terminal": ("zero-width", invisible_between("\x1b[1;32m")),
    "base64 in YAML": ("base64", lambda text: fold(encode_base64(text), "\n      ")),
    "base64 quoted once": ("base64", lambda text: fold(encode_base64(text), "\n> ")),
    "base64 quoted twice": ("base64", lambda text: fold(encode_base64(text), " \r\n>> ")),
    "base64 in a string of C": ("base64", lambda text: fold(encode_base64(text), "\\\n")),
    "base64 in a shell": ("base64", lambda text: fold(encode_base64(text), " \\\r\n  ")),
    "base64 in a table": ("base64", lambda text: fold(encode_base64(text), "\n| ")),
    "base64 in a comment": ("base64", lambda text: fold(encode_base64(text), "\n# ")),
    "base64 in a block comment": ("base64", lambda text: fold(encode_base64(text), "\n * ")),
    "hexadecimal with blanks": ("hexadecimal", lambda text: text.encode().hex(" ")),
    "hexadecimal with colons": ("hexadecimal", lambda text: text.encode().hex(":")),
    "hexadecimal with hyphens": ("hexadecimal", lambda text: text.encode().hex("-").upper()),
    "hexadecimal in pairs of bytes": ("hexadecimal", lambda text: text.encode().hex(" ", -2)),
    "hexadecimal in an array": (
        "hexadecimal",
        lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
    ),
    "hexadecimal in an array of lines": (
        "hexadecimal",
        lambda text: ",\n\t".join(f"0X{byte:02X}" for byte in text.encode()),
    ),
    "hexadecimal in long lines": (
        "hexadecimal",
        lambda text: "\n".join(re.findall(".{1,24}", text.encode().hex())),
    ),
    "base32hex": ("base32hex", lambda text: base64.b32hexencode(text.encode()).decode()),
    "base32hex in lower case": (
        "base32hex",
        lambda text: base64.b32hexencode(text.encode()).decode().lower(),
    ),
    "ASCII85": ("ASCII85", lambda text: base64.a85encode(text.encode(), adobe=True).decode()),
    "ASCII85 in lines": (
        "ASCII85",
        lambda text: base64.a85encode(text.encode(), adobe=True, wrapcol=12).decode(),
    ),
    "UTF-16, little end first": ("UTF-16", lambda text: text.encode("utf-16-le").decode("latin-1")),
    "UTF-16, big end first": ("UTF-16", lambda text: text.encode("utf-16-be").decode("latin-1")),
    "UTF-32, little end first": ("UTF-16", lambda text: text.encode("utf-32-le").decode("latin-1")),
    "UTF-32, big end first": ("UTF-16", lambda text: text.encode("utf-32-be").decode("latin-1")),
}


def find_in_form(texts: list[str], form: str, value: str = VALUE) -> list[tuple[int, int, int]]:
    """Number of the text, start and end of each place where a value is written in an encoded form,
    in order."""
    column, found = pa.array(texts, pa.large_string()), list[tuple[int, int, int]]()
    for decoding in iter_decodings(column, len(value.encode()) + 4, (form,)):
        for number, piece in enumerate(decoding.pieces):
            content = piece.as_buffer().to_pybytes() if piece.as_buffer() is not None else b""
            places = np.array(
                [match.start() for match in re.finditer(re.escape(value.encode()), content)],
                np.int64,
            )
            spans = decoding.find_encoded_spans(
                np.full(len(places), number), places, places + len(value.encode())
            )
            rows = zip(
                spans.text_no.tolist(),
                spans.start.tolist(),
                spans.end.tolist(),
                spans.is_encoded.tolist(),
                strict=True,
            )
            found += [(no, start, end) for no, start, end, is_encoded in rows if is_encoded]
    return sorted(found)


@pytest.mark.parametrize("case", FORMS)
@given(
    before=st.text("a .:é", max_size=9),
    after=st.text("a .:é", max_size=9),
    texts=st.lists(st.just("b c"), max_size=2),
    is_alone=st.booleans(),
)
def test_a_value_is_decoded_at_its_place(
    case: str, before: str, after: str, texts: list[str], is_alone: bool
) -> None:
    form, encode = FORMS[case]
    assert form in ENCODED_FORMS
    before, after = ("", "") if is_alone else (f"{before}; ", f";{after}")
    code = encode(VALUE)
    start = len(before.encode())
    found = find_in_form([*texts, before + code + after, *texts], form)
    # of a code that ends in what stands for no byte of the value, that part is left out: padding,
    # marks, the last bits of a group
    expected_end = start + len(code.encode())
    assert found, "the value is found"
    assert all(
        number == len(texts)
        and start <= low <= start + 4
        and expected_end - 4 <= high <= expected_end
        for number, low, high in found
    )
    if form in ("JSON", "URL", "CSS", "UTF-7", "zero-width"):
        assert found == [(len(texts), start, expected_end)], (
            "an escape is one place, with all of its bytes"
        )


@pytest.mark.parametrize("case", FORMS)
@given(skipped=st.integers(0, 9), kept=st.integers(0, 9))
def test_a_value_inside_of_encoded_text_is_decoded_where_it_is(
    case: str, skipped: int, kept: int
) -> None:
    form, encode = FORMS[case]
    text = "x" * skipped + " " + VALUE + " " + "y" * kept
    found = find_in_form([encode(text)], form)
    assert found
    if case == "UTF-7":
        assert found == [(0, 0, len(encode(text)))], "a shifted sequence is one escape"
        return
    size = len(encode(text).encode()) / len(text)
    for _, start, end in found:
        assert (
            abs(start - size * (skipped + 1)) <= 12
            and abs(end - size * (skipped + 1 + len(VALUE))) <= 12
        )


@pytest.mark.parametrize("case", FORMS)
def test_a_form_does_not_cross_two_texts(case: str) -> None:
    form, encode = FORMS[case]
    code = encode(VALUE)
    for cut in range(8, len(code) - 8):
        assert not find_in_form([code[:cut], code[cut:]], form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("JSON", "\\u{}quinn.brindle@example.com"),
        ("JSON", "\\u{00000071}uinn.brindle@example.com"),  # seven digits are none
        ("JSON", "\\U0000071uinn.brindle@example.com"),
        ("JSON", "\\1quinn.brindle@example.com"),
        ("JSON", "\\861uinn.brindle@example.com"),
        ("JSON", "\\461uinn.brindle@example.com"),  # \46 is &, and no byte is 461
        ("URL", "%u007uinn.brindle@example.com"),
        ("CSS", "\\7uinn.brindle@example.com"),
        ("CSS", "\\quinn.brindle@example.com"),
        ("CSS", "\\00000071uinn.brindle@example.com"),  # six digits at most
        ("UTF-7", "+AHFuinn.brindle@example.com"),
        ("UTF-7", "+-quinn.brindle@example.com"),
        ("zero-width", "quinn\t.brindle@example.com"),
        ("zero-width", "quinn\x85.brindle@example.com"),  # ends a line
        ("zero-width", "quinn\x00\x00.brindle@example.com"),
        ("hexadecimal", VALUE.encode().hex(",")[:-1]),
        ("hexadecimal", VALUE.encode().hex(" ").replace(" ", ", ", 3).replace("@", "")[3:]),
        ("hexadecimal", VALUE.encode().hex(".")),
        # without its marks, it may be anything
        ("ASCII85", base64.a85encode(VALUE.encode()).decode()),
        ("ASCII85", "< ~" + base64.a85encode(VALUE.encode()).decode()),
    ],
)
def test_near_misses_are_not_decoded(form: str, text: str) -> None:
    assert find_in_form([text], form) == []


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("name=Quinn+Brindle&x=1", [(5, 18)]),
        ("name=Quinn%20Brindle&x=1", []),  # of the form URL
        ("q=see%20Quinn+Brindle", [(8, 21)]),
        ("q=%51uinn+Brindle", [(2, 17)]),
        ("%51%75%69%6E%6E+%42%72%69%6E%64%6C%65", [(0, 37)]),
        ("Quinn +Brindle", []),
        ("Quinn+Brindle", [(0, 13)]),
    ],
)
def test_plus_signs_of_form_encoding(text: str, spans: list[tuple[int, int]]) -> None:
    found = find_in_form([text, "1 + 1", "+"], "form encoding", "Quinn Brindle")
    assert found == [(0, *span) for span in spans]


def test_a_plus_sign_is_no_blank_where_no_value_has_one() -> None:
    pairs = np.zeros((256, 256), np.bool_)
    pairs[ord("n"), ord("B")] = True
    texts = pa.array(["Quinn+Brindle and a+b", "x" * 99, "J%C3%A9+a"], pa.large_string())
    pieces = [
        piece.as_py()
        for decoding in iter_decodings(texts, 20, ("form encoding",), blank_pairs=pairs)
        for piece in decoding.pieces
    ]
    assert pieces == ["Quinn Brindle and a+b", "Jé a"]


# hexdump, in a longer line
@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("00000030: 7175 696e 6e2e 6272 696e 646c 6540 6578 616d 706c 652e 636f 6d", True),  # xxd
        (
            "00000030  71 75 69 6e 6e 2e 62 72  69 6e 64 6c 65 40 65 78 61 6d 70 6c 65 2e 63 6f 6d",
            True,
        ),
        ("see 71:75:69:6e:6e:2e:62:72:69:6e:64:6c:65:40:65:78:61:6d:70:6c:65:2e:63:6f:6d", True),
        ("71 75 69 6e 6e 2e 62 72 69 6e 64 6c 65 40 65 78 61 6d 70 6c 65 2e 63 6f 6d 7", True),
    ],
)
def test_dumps_of_bytes(text: str, is_found: bool) -> None:
    (span,) = find_in_form([text], "hexadecimal")
    decoded = bytes.fromhex(re.sub("[^0-9a-f]", "", text[span[1] : span[2]]))
    assert (decoded == VALUE.encode()) == is_found


# what a text begins with, what it repeats, and its end
HOSTILE: dict[str, tuple[str, str, str]] = {
    "backslashes": ("", "\\", ""),
    "half surrogate pairs": ("", "\\ud83d\\", ""),
    "octal": ("", "\\161", ""),
    "CSS": ("", "\\71 ", ""),
    "percent signs": ("", "%", ""),
    "percent signs, escaped": ("%", "25", ""),
    "half pairs of percent signs": ("", "%ud83d", ""),
    "plus signs": ("", "+", ""),
    "one shifted sequence": ("+", "AHEAcQBx", "-"),
    "shifted sequences that end wrongly": ("", "+AHEAQ", ""),
    "shifted sequences with a control character": ("", "+AHEAHEAHEAHEAAE", ""),
    "form encoding": ("", "a+", ""),
    "ampersands": ("", "&amp;", ""),
    "control characters": ("", "\x01", ""),
    "escapes of a terminal": ("", "\x1b[", ""),
    "variation selectors": ("", "\ufe0f", ""),
    "base64 in quoted lines": ("", "QUJD" * 4 + "\n> ", ""),
    "quote marks": ("abcdefghijklmn\n", ">", ""),
    "hexadecimal with blanks": ("", "71 ", ""),
    "hexadecimal with changing signs": ("", "71:75 ", ""),
    "blanks": ("", " ", ""),
    "marks of ASCII85": ("", "<~", ""),
    "one ASCII85": ("<~", "F(", ""),
    "UTF-16": ("", "q\x00", ""),
    "UTF-32": ("", "q\x00\x00\x00", ""),
    "zeros": ("", "\x00", ""),
}


def decode_all(text: str) -> tuple[float, int]:
    """CPU-seconds that all decodings of a text took, and the bytes of their pieces."""
    column = pa.array([text], pa.large_string())
    started, size = time.process_time(), 0
    for decoding in iter_decodings(column, 60):
        size += int(np.frombuffer(decoding.pieces.buffers()[1], np.int64)[len(decoding.pieces)])
    return time.process_time() - started, size


@pytest.mark.slow
@pytest.mark.parametrize(
    "size", [2_000_000, pytest.param(10_000_000, marks=pytest.mark.soak)], ids=str
)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_takes_linear_time_and_memory(case: str, size: int) -> None:
    """Of millions of bytes, each of which belongs to an escape: at most two microseconds
    and 130 bytes of memory each."""
    head, unit, tail = HOSTILE[case]
    text = head + unit * (size // len(unit.encode())) + tail
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, piece_bytes = decode_all(text)
    assert seconds < 2e-6 * size and piece_bytes < 12 * size
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 0.13 * size
