"""Reader for mail: one mail a file, or many in an mbox, as the text that a person would read.

A mail is text in nested parts, so this module loops over documents in Python; a mail without MIME
parts, the common case, costs two searches and a decode. The MIME tree is not parsed with the
standard library's parser: that one takes seconds for a large attachment, raises on deep nesting,
and loses fields that follow a broken header line.
"""

from __future__ import annotations

import binascii
import codecs
import html
import os
import re
from collections.abc import Iterator
from email.message import Message
from io import BufferedReader

import pyarrow as pa

from sanitize.readers.byte_streams import (
    UTF8_BOM,
    TruncatedStream,
    detect_compression,
    read_guarded,
    read_whole,
)
from sanitize.readers.staging_writer import RecordBatcher, TextDocument
from sanitize.readers.standard_form import TEXT_TYPE
from sanitize.readers.survey_types import FileSurvey, InputUnit, Roles, StagingLayout
from sanitize.storage.records.lineage import position_in_part

FORMATS = {"mail": (".eml",), "mbox": (".mbox", ".mbx")}
MAIL_SCHEMA = pa.schema([("user_id", TEXT_TYPE), ("text", TEXT_TYPE)])
UNIT_BYTES = 64 << 20  # bytes of an mbox in one unit: about two seconds of work
MAX_MIME_DEPTH = 250  # nested MIME parts; a deeper part is kept as undecoded text

_HEADER_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")
_MAIL_FIELD = re.compile(
    rb"(?im)^(?:from|to|cc|date|subject|message-id|received|return-path|reply-to|sender|delivered-to|mime-version|content-type"
    rb"|x-[a-z-]+)[ \t]*:"
)
_ENVELOPE_LINE = re.compile(rb">?From [^\r\n]*(?:\r?\n|\r|$)")
_ENVELOPE_TIME = re.compile(rb"From [^\r\n]*\d\d:\d\d")

# --- one mail -------------------------------------------------------------------------------------


def parse_mail(raw: bytes) -> tuple[str, str | None]:
    """(the text of a mail, its From address in lower case or the From text where there is no
    address).

    The text is the header block with encoded-words decoded, its blank line, then the text/plain
    parts; text/html with its tags stripped where there is no text/plain. Attachments and other
    parts are left out, as is an mbox envelope line. Never raises.
    """
    data = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in raw else raw
    data = data.removeprefix(UTF8_BOM)
    if _is_envelope(data[:_ENVELOPE_LOOKAHEAD_BYTES].removeprefix(b">")) and (
        line := _ENVELOPE_LINE.match(data)
    ):
        data = data[line.end() :]
    block, body = _split_header(data)
    blank = data[len(block) : len(data) - len(body)] if block else b""
    head = _decode_encoded_words(_decode_header(block))
    plain, other = _collect_mime_texts(block, body, 0, "text/plain")
    text = head + blank.decode() + _join_texts(plain or other)
    if not text.isascii():
        # a decoder such as UTF-7 may leave an unpaired surrogate
        text = text.encode("utf-8", "replace").decode()
    return text, _find_sender(head)


def _split_header(data: bytes) -> tuple[bytes, bytes]:
    """(header block, body) of a mail or a part of one, without the line end and the blank line
    between them; an empty header where the first line is not a header field."""
    if not _HEADER_FIELD.match(data):
        return b"", data[1:] if data.startswith(b"\n") else data
    block, _, body = data.partition(b"\n\n")
    return block, body


def _decode_header(block: bytes) -> str:
    """Header bytes as text: UTF-8, or line by line with a fallback encoding where they are not
    UTF-8."""
    try:
        return block.decode()
    except UnicodeDecodeError:
        return "\n".join(decode_text(line, None) for line in block.split(b"\n"))


def _find_sender(header: str) -> str | None:
    """The first address of the From field, lower-case; the field's text where there is no address;
    None without a From field."""
    field = re.search(r"(?im)^from[ \t]*:(.*(?:\n[ \t].*)*)", header)
    text = " ".join(field[1].split()) if field else ""
    searched = text[:2_000]  # longer fields are cut, since the search below is quadratic
    address = re.search(r"<\s?([^<>\s]+@[^<>\s]+)\s?>", searched) or re.search(
        r"([^\s<>@,;:\"()\[\]]+@[^\s<>@,;:\"()\[\]]+)", searched
    )
    return address[1].lower() if address else text or None


# --- encoded-words (RFC 2047) ---------------------------------------------------------------------

_ENCODED_WORD = re.compile(r"=\?([!->@-~]+)\?([bBqQ])\?([^?\n]*)\?=")
_ENCODED_WORD_RUN = re.compile(
    r"=\?[!->@-~]+\?[bBqQ]\?[^?\n]*\?=(?:\s+=\?[!->@-~]+\?[bBqQ]\?[^?\n]*\?=)*"
)


def _decode_encoded_words(header: str) -> str:
    """The header with encoded-words decoded; adjacent ones are joined, also across a folded
    line."""
    return _ENCODED_WORD_RUN.sub(_decode_run, header) if "=?" in header else header


def _decode_run(match: re.Match[str]) -> str:
    """A run of adjacent encoded-words as text. Those of one charset are joined as bytes: some
    mailers split inside a character."""
    pieces: list[tuple[str, bytes]] = []
    for charset, encoding, payload in _ENCODED_WORD.findall(match[0]):
        charset = charset.partition("*")[0].lower()
        data = payload.encode("utf-8", "replace")
        data = _decode_base64(data) if encoding in "bB" else binascii.a2b_qp(data, header=True)
        if pieces and pieces[-1][0] == charset:
            pieces[-1] = (charset, pieces[-1][1] + data)
        else:
            pieces.append((charset, data))
    # A line end inside an encoded-word would start a new header field.
    return re.sub(r"[\r\n]+", " ", "".join(decode_text(data, charset) for charset, data in pieces))


# --- bytes to text --------------------------------------------------------------------------------

# Declared charsets and the codecs to decode them with:
# https://encoding.spec.whatwg.org/#names-and-labels
_CODEC_OVERRIDES = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
_CHARSET_ALIASES = {
    "x-sjis": "cp932",
    "iso-8859-8-i": "iso8859-8",
    "x-mac-roman": "mac_roman",
    "windows-874": "cp874",
}
_NON_TEXT_CODECS = {"unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined"}


def _resolve_charset(charset: str | None) -> str | None:
    """The Python codec for a declared charset, or None where it is unknown or not a text
    encoding."""
    if not charset or charset.isspace():
        return None
    try:
        name = codecs.lookup(_CHARSET_ALIASES.get(charset.lower(), charset)).name
        b"a".decode(name, "replace")  # fails for codecs such as hex, which are not charsets
    except (LookupError, ValueError):
        return None
    return None if name in _NON_TEXT_CODECS else _CODEC_OVERRIDES.get(name, name)


def decode_text(data: bytes, charset: str | None) -> str:
    """Bytes as text; never fails: the declared charset, else UTF-8, else the declared one with
    replacement characters, else Windows-1252. Charsets that are often declared falsely (ASCII,
    Latin-1, Windows-1252) count as not declared where the bytes are UTF-8.
    """
    if data.isascii() and (
        charset is None or charset.lower() in ("us-ascii", "utf-8", "iso-8859-1", "windows-1252")
    ):
        return data.decode("ascii")
    codec = _resolve_charset(charset)
    if codec and codec.startswith(("utf-16", "utf-32")) and b"\0" not in data:
        codec = None  # a wrong declaration, which would turn any text into rare characters
    for name in (None if codec == "cp1252" else codec, "utf-8"):
        if name:
            try:
                return data.decode(name)
            except (UnicodeError, ValueError):
                pass
    if codec and codec != "cp1252":
        return data.decode(codec, "replace")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _decode_base64(data: bytes) -> bytes:
    """Base64 decoded, ignoring invalid characters."""
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        clean = re.sub(rb"[^A-Za-z0-9+/]", b"", data)
        clean = clean[:-1] if len(clean) % 4 == 1 else clean
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4))


def _decode_uu(data: bytes) -> bytes:
    """Uuencoded lines decoded; unchanged where there is no `begin` line."""
    lines = iter(data.split(b"\n"))
    if not any(line.startswith(b"begin ") for line in lines):
        return data
    out = []
    for line in lines:
        if line.strip() in (b"end", b"`"):
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # some encoders write a wrong length: https://github.com/python/cpython,
            # email/message.py
            out.append(
                binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3]) if line else b""
            )
    return b"".join(out)


# --- MIME -----------------------------------------------------------------------------------------


def _read_field(block: bytes, name: bytes) -> str:
    """The first field of this name, unfolded; empty where there is none."""
    field = re.search(rb"(?im)^" + name + rb"[ \t]*:(.*(?:\n[ \t].*)*)", block)
    return re.sub(r"\n[ \t]+", " ", field[1].decode("latin-1")).strip() if field else ""


def _read_field_parameter(value: str, name: str) -> str | None:
    """A parameter of a field such as Content-Type, however it is written (RFC 2045, RFC 2231)."""
    value = value[:4_000]  # a longer value is hostile, and the library below takes quadratic time
    match = re.search(rf'(?i);\s*{name}\s*=\s*(?:"([^"\\]*)"|([^\s;"\'()]+))', value)
    if match and "*" not in value:
        return match[1] if match[1] is not None else match[2]
    if name not in value.lower():
        return None
    message = Message()
    message["Content-Type"] = value
    try:
        found = message.get_param(name)
    except (ValueError, LookupError, TypeError, IndexError, AttributeError):
        return None
    return found[2] if isinstance(found, tuple) else found


def _collect_mime_texts(
    block: bytes, body: bytes, depth: int, default_type: str
) -> tuple[list[str], list[str]]:
    """(the plain texts of a part and of all parts inside it, its HTML texts with tags stripped), in
    order."""
    value = _read_field(block, b"content-type")
    content_type = value.partition(";")[0].strip().lower()
    if content_type.count("/") != 1:
        content_type = "text/plain" if content_type else default_type  # RFC 2045, 5.2
    encoding = re.split(
        r"[\s;(]", _read_field(block, b"content-transfer-encoding").lower(), maxsplit=1
    )[0]
    if depth > MAX_MIME_DEPTH:
        return [decode_text(body, None)], []
    if content_type.startswith("multipart/"):
        boundary = _read_field_parameter(value, "boundary")
        pieces = (
            _split_multipart(body, boundary.rstrip().encode("latin-1", "replace"))
            if boundary
            else []
        )
        if not pieces:  # the boundary never occurs: keep the body as text, as mail programs show it
            return [decode_text(body, None)], []
        inner_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
        texts_by_part = [
            _collect_mime_texts(*_split_header(piece), depth + 1, inner_type)
            for piece in pieces
            if piece
        ]
        return [text for plain, _ in texts_by_part for text in plain], [
            text for _, other in texts_by_part for text in other
        ]
    if content_type in ("message/rfc822", "message/global", "message/news"):
        head, rest = _split_header(_decode_transfer_encoding(body, encoding).lstrip(b"\n"))
        return _collect_mime_texts(head, rest, depth + 1, "text/plain")
    is_attachment = depth > 0 and _read_field(block, b"content-disposition").lower().startswith(
        "attachment"
    )
    if is_attachment or content_type not in ("text/plain", "text/html"):
        return [], []
    text = decode_text(
        _decode_transfer_encoding(body, encoding), _read_field_parameter(value, "charset")
    )
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return ([text], []) if content_type == "text/plain" else ([], [_strip_html(text)])


def _split_multipart(body: bytes, boundary: bytes) -> list[bytes]:
    """The pieces of a body between its boundary lines; the last piece may lack its closing
    boundary."""
    body, delimiter = b"\n" + body, b"\n--" + boundary
    pieces: list[bytes] = []
    piece_start, position = -1, body.find(delimiter)
    while position >= 0:
        line_end = body.find(b"\n", position + 1)
        line_end = len(body) if line_end < 0 else line_end
        tail = body[position + len(delimiter) : line_end].rstrip(b" \t")
        if tail in (b"", b"--"):
            if piece_start >= 0:
                pieces.append(body[piece_start:position])
            if tail:
                return pieces
            piece_start = min(line_end + 1, len(body))
            position = line_end - len(delimiter)  # two boundaries may be on adjacent lines
        position = body.find(delimiter, position + len(delimiter))
    return [*pieces, body[piece_start:]] if piece_start >= 0 else pieces


def _decode_transfer_encoding(body: bytes, encoding: str) -> bytes:
    """A body with its transfer encoding decoded."""
    if encoding == "base64":
        return _decode_base64(body)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    if encoding in ("x-uuencode", "uuencode", "uue", "x-uue"):
        return _decode_uu(body)
    return body


def _join_texts(texts: list[str]) -> str:
    """The parts joined; each begins on a line of its own."""
    return "".join(
        text if text.endswith("\n") or number == len(texts) - 1 else text + "\n"
        for number, text in enumerate(texts)
    )


# --- HTML -----------------------------------------------------------------------------------------

# Not html.parser: it takes quadratic time on hostile input. This pattern does not backtrack (atomic
# groups, possessive quantifiers).
_HTML_TAG = re.compile(
    r"<!--|<(/?)([a-zA-Z][^\s<>/=\"']*)(?>=\s*(?>\"[^\"]*\"|'[^']*'|)|[^<>=])*+>|<[!?][^<>]*>"
)
_BLOCK_TAG = re.compile(
    "address|article|blockquote|br|center|dd|div|dl|dt|fieldset|footer|form|h[1-6]|header|hr|li|ol|option|p|pre|section|table|title|tr|ul"
)


def _strip_html(text: str) -> str:
    """HTML as text: block tags become line ends, table cells are separated, entities decoded; other
    tags, script, style and comments are removed.
    """
    out: list[str] = []
    position, unclosed, in_pre = 0, set[str](), False

    def append_text(piece: str) -> None:
        out.append(html.unescape(piece if in_pre else re.sub(r"[ \t\n\f]+", " ", piece)))

    while match := _HTML_TAG.search(text, position):
        append_text(text[position : match.start()])
        position, name = match.end(), (match[2] or "").lower()
        closing_tag = (
            "-->"
            if match[0] == "<!--"
            else f"</{name}"
            if name in ("script", "style") and not match[1]
            else ""
        )
        if closing_tag and closing_tag not in unclosed:
            end = re.compile(re.escape(closing_tag), re.IGNORECASE).search(text, position)
            if end:
                position = end.end() if closing_tag == "-->" else end.start()
            else:
                # searched once, so that many unclosed tags cost one search
                unclosed.add(closing_tag)
        elif _BLOCK_TAG.fullmatch(name):
            in_pre = not match[1] if name == "pre" else in_pre
            out.append("\n")
        elif name in ("td", "th") and not match[1]:
            out.append(" ")
    append_text(text[position:])
    lines = [line.strip(" \t") for line in "".join(out).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


# --- files ----------------------------------------------------------------------------------------


def detect_format(head: bytes) -> str | None:
    """`mbox` for an envelope line at the start, `mail` for a header block with a field that mails
    have."""
    if head.startswith(b"From ") and _is_envelope(head[:_ENVELOPE_LOOKAHEAD_BYTES]):
        return "mbox"
    if _HEADER_FIELD.match(head):
        block = re.split(rb"\n\n|\r\n\r\n|\r\r", head, maxsplit=1)[0].replace(b"\r", b"\n")
        return "mail" if _MAIL_FIELD.search(block) else None
    return None


def confirm_format(head: bytes, format: str) -> str:
    """The format, or "" where the first bytes contradict it."""
    is_confirmed = (
        detect_format(head.lstrip(b"\r\n")) == "mbox"
        if format == "mbox"
        else detect_format(head) is not None
    )
    return format if is_confirmed else ""


def survey_file(path: str, format: str, roles: Roles, max_doc_bytes: int) -> FileSurvey:
    """The units of one file; an mbox is cut where it is large and not compressed."""
    size = os.path.getsize(path)
    step = (
        UNIT_BYTES
        if format == "mbox" and detect_compression(path) is None and size > 2 * UNIT_BYTES
        else size
    )
    cuts = list(range(0, size, step or 1)) or [0]
    pieces = [
        InputUnit(no=0, path=path, format=format, files=(path,), start=start, end=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return FileSurvey(
        schema=MAIL_SCHEMA,
        is_inferred=False,
        units=tuple(pieces),
        column_mapping=(("user_id", "user_id"), ("text", "text")),
    )


def add_documents(
    path: str,
    format: str,
    unit: InputUnit,
    layout: StagingLayout,
    records: RecordBatcher[TextDocument],
    limit: int,
) -> None:
    """Adds the mails of one file to `records`, or the reason why it cannot be read."""
    if format == "mbox":
        _add_mbox(path, unit.start, unit.end, records, limit)
        return
    raw, reason = read_whole(path, limit)
    records.add(None if reason else parse_mail(raw), path, "file", reason, len(raw))


def _add_mbox(
    path: str, start: int, end: int | None, records: RecordBatcher[TextDocument], limit: int
) -> None:
    """Adds the mails whose envelope lines begin in start..end."""
    number = 0
    for item, reason in read_guarded(
        path, lambda stream: iter_mails(stream, start_byte=start, end_byte=end, limit=limit)
    ):
        if item is None:
            records.add(None, path, position_in_part(start, f"after mail {number}"), reason)
            continue
        number += 1
        start_byte, raw = item
        location = position_in_part(start, f"mail {number} at byte {start_byte}")
        if raw is None:
            records.add(None, path, location, "too_large")
        else:
            records.add(parse_mail(raw), path, location, size=len(raw))


# A line end and a blank line. `\r(?!\n)`: a bare CR is a line end, the CR of a CRLF is not.
_BLANK_LINE = re.compile(rb"(?:\r?\n|\r(?!\n))(\r?\n|\r(?!\n))\Z")
_LINE_END = re.compile(rb"\r?\n|\r")
_QUOTED_FROM = re.compile(rb"(^|[\r\n])>(>*From )")
_ENVELOPE_LOOKAHEAD_BYTES = 4096  # enough for an envelope line and the start of the next line


def _is_envelope(lookahead: bytes) -> bool:
    """True if a line `From ...` begins a mail: it has a time of day, or a header field follows.
    `From now on` does not."""
    line = lookahead[: end.start()] if (end := _LINE_END.search(lookahead)) else lookahead
    field = end is not None and _HEADER_FIELD.match(lookahead, end.end()) is not None
    return line.startswith(b"From ") and (field or _ENVELOPE_TIME.match(line) is not None)


def iter_mails(
    stream: BufferedReader,
    *,
    start_byte: int = 0,
    end_byte: int | None = None,
    limit: int,
    chunk_bytes: int = 1 << 20,
) -> Iterator[tuple[int, bytes | None]]:
    """(byte of its envelope line, the mail) for every mail of an mbox that begins in
    start_byte..end_byte; None for one over the limit.

    The envelope line and the blank line before the next one are not part of a mail, and `>From `
    loses one `>` (mboxrd). Holds one chunk and one mail at most. Raises TruncatedStream after the
    last whole mail of a broken stream.
    """
    # where the buffer begins; the 4 bytes before `start_byte` may be the line ends before its
    # envelope line
    buffer_offset = max(0, start_byte - 4)
    if buffer_offset:
        stream.seek(buffer_offset)
    # where the current mail begins; None while it begins outside the range
    mail_start: int | None = None if start_byte else 0
    buffer, searched, is_oversized, at_eof = bytearray(), 0, False, False
    broken: TruncatedStream | None = None

    def extract_mail(mail_end: int) -> bytes | None:
        raw = (
            b""
            if is_oversized
            else bytes(buffer[(mail_start or 0) - buffer_offset : mail_end])
            .removeprefix(UTF8_BOM)
            .lstrip(b"\r\n")
        )
        if is_oversized or len(raw) > limit:
            return None
        if _is_envelope(raw[:_ENVELOPE_LOOKAHEAD_BYTES]) and (line := _ENVELOPE_LINE.match(raw)):
            raw = raw[line.end() :]
        return _QUOTED_FROM.sub(rb"\1\2", raw) if b">From " in raw else raw

    while not at_eof:
        try:
            chunk = stream.read1(chunk_bytes)
        except TruncatedStream as error:
            chunk, broken = b"", error
        buffer += chunk
        at_eof = not chunk
        while (envelope := buffer.find(b"From ", searched)) >= 0 and (
            at_eof or len(buffer) - envelope > _ENVELOPE_LOOKAHEAD_BYTES
        ):
            searched = envelope + 1
            blank = _BLANK_LINE.search(buffer[max(0, envelope - 4) : envelope])
            if blank is None or not _is_envelope(
                bytes(buffer[envelope : envelope + _ENVELOPE_LOOKAHEAD_BYTES])
            ):
                continue
            if mail_start is not None:
                yield mail_start, extract_mail(envelope - len(blank[1]))
            mail_start, is_oversized = buffer_offset + envelope, False
            if end_byte is not None and mail_start >= end_byte:
                return
            mail_start = mail_start if mail_start >= start_byte else None
        # the buffer may end with 4 bytes of `From `
        searched = envelope if envelope >= 0 else max(searched, len(buffer) - 4)
        if (
            mail_start is not None
            and buffer_offset + searched - mail_start > limit + _ENVELOPE_LOOKAHEAD_BYTES
        ):
            is_oversized = True
        dropped = max(
            0, searched - 4 if mail_start is None or is_oversized else mail_start - buffer_offset
        )
        del buffer[:dropped]
        buffer_offset, searched = buffer_offset + dropped, searched - dropped
    if broken is not None:
        raise broken
    if mail_start is not None and (is_oversized or buffer):
        blank = _BLANK_LINE.search(buffer[-4:])
        yield mail_start, extract_mail(len(buffer) - len(blank[1]) if blank else len(buffer))
