"""Mails: one a file, or many in an mbox, as a person reads them.

A mail is text in nested pieces, so this room is a Python loop over documents; a mail without MIME parts, the common case, costs two
searches and a decode. The MIME tree is walked here and not with the standard library's parser: that one takes seconds for a large
attachment, raises on deep nesting, and loses fields that follow a broken header line.
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

from sanitize.readers.byte_streams import MARK, Break, codec, guarded, whole
from sanitize.readers.staging_writer import Records, Text
from sanitize.readers.standard_form import TEXT
from sanitize.readers.survey_types import Layout, Look, Roles, Unit

FORMATS = {"mail": (".eml",), "mbox": (".mbox", ".mbx")}
COLUMNS = pa.schema([("user_id", TEXT), ("text", TEXT)])
PIECE = 64 << 20  # bytes of an mbox one worker takes: about two seconds
DEPTH = 250  # MIME parts inside each other; what is deeper is shown as it stands

_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")
_KNOWN = re.compile(
    rb"(?im)^(?:from|to|cc|date|subject|message-id|received|return-path|reply-to|sender|delivered-to|mime-version|content-type"
    rb"|x-[a-z-]+)[ \t]*:"
)
_ENVELOPE = re.compile(rb">?From [^\r\n]*(?:\r?\n|\r|$)")
_CLOCK = re.compile(rb"From [^\r\n]*\d\d:\d\d")

# --- one mail ---------------------------------------------------------------------------------------------------------------------


def mail_text(raw: bytes) -> tuple[str, str | None]:
    """(the mail as a person reads it, its From address in lower case or the From text where there is no address).

    The header block with encoded-words decoded, its blank line, then the text/plain parts; text/html with its tags stripped where
    there is no text/plain. Attachments and other parts are left out, as is an mbox envelope line. Never raises.
    """
    data = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in raw else raw
    data = data.removeprefix(MARK)
    if _is_envelope(data[:_AHEAD].removeprefix(b">")) and (line := _ENVELOPE.match(data)):
        data = data[line.end() :]
    block, blank, body = _split(data)
    head = _words(_header(block))
    plain, other = _parts(block, body, 0, "text/plain")
    text = head + blank.decode() + _joined(plain or other)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # a decoder such as UTF-7 may leave half a surrogate pair
    return text, _sender(head)


def _split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """(header block, line end and blank line, body); no header where the first line is none."""
    if not _FIELD.match(data):
        return b"", b"", data[1:] if data.startswith(b"\n") else data
    block, blank, body = data.partition(b"\n\n")
    return block, blank, body


def _header(block: bytes) -> str:
    """Header bytes as text: UTF-8, line by line something older where they are not."""
    try:
        return block.decode()
    except UnicodeDecodeError:
        return "\n".join(decoded(line, None) for line in block.split(b"\n"))


def _sender(head: str) -> str | None:
    """The first address of the From field, lower-case; its text where there is none."""
    field = re.search(r"(?im)^from[ \t]*:(.*(?:\n[ \t].*)*)", head)
    text = " ".join(field[1].split()) if field else ""
    near = text[:2_000]  # an address that comes later is none, and the search below is quadratic
    address = re.search(r"<\s?([^<>\s]+@[^<>\s]+)\s?>", near) or re.search(r"([^\s<>@,;:\"()\[\]]+@[^\s<>@,;:\"()\[\]]+)", near)
    return address[1].lower() if address else text or None


# --- encoded-words (RFC 2047) -----------------------------------------------------------------------------------------------------

_WORD = re.compile(r"=\?([!->@-~]+)\?([bBqQ])\?([^?\n]*)\?=")
_RUN = re.compile(r"=\?[!->@-~]+\?[bBqQ]\?[^?\n]*\?=(?:\s+=\?[!->@-~]+\?[bBqQ]\?[^?\n]*\?=)*")


def _words(head: str) -> str:
    """The header with encoded-words decoded; neighbours are one word, also across a fold."""
    return _RUN.sub(_run, head) if "=?" in head else head


def _run(match: re.Match[str]) -> str:
    """A run of neighbouring encoded-words, those of one charset joined as bytes: some mailers cut in the middle of a character."""
    pieces: list[tuple[str, bytes]] = []
    for charset, encoding, payload in _WORD.findall(match[0]):
        charset = charset.partition("*")[0].lower()
        data = payload.encode("utf-8", "replace")
        data = _base64(data) if encoding in "bB" else binascii.a2b_qp(data, header=True)
        if pieces and pieces[-1][0] == charset:
            pieces[-1] = (charset, pieces[-1][1] + data)
        else:
            pieces.append((charset, data))
    # A line end inside a word would make a header field out of it.
    return re.sub(r"[\r\n]+", " ", "".join(decoded(data, charset) for charset, data in pieces))


# --- bytes to text ----------------------------------------------------------------------------------------------------------------

# What mails declare and what they mean: https://encoding.spec.whatwg.org/#names-and-labels
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
_NAMES = {"x-sjis": "cp932", "iso-8859-8-i": "iso8859-8", "x-mac-roman": "mac_roman", "windows-874": "cp874"}
_NOT_TEXT = {"unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined"}


def _codec(charset: str | None) -> str | None:
    """Python's name of what a declared charset means, or None."""
    if not charset or charset.isspace():
        return None
    try:
        name = codecs.lookup(_NAMES.get(charset.lower(), charset)).name
        b"a".decode(name, "replace")  # codecs such as hex are no charsets
    except (LookupError, ValueError):
        return None
    return None if name in _NOT_TEXT else _MEANT.get(name, name)


def decoded(data: bytes, charset: str | None) -> str:
    """Bytes as text, whatever they are: as declared, else UTF-8, else as declared with marks, else Windows-1252."""
    if data.isascii() and (charset is None or charset.lower() in ("us-ascii", "utf-8", "iso-8859-1", "windows-1252")):
        return data.decode("ascii")
    meant = _codec(charset)
    if meant and meant.startswith(("utf-16", "utf-32")) and b"\0" not in data:
        meant = None  # a wrong claim that would turn any text into rare characters
    for name in (None if meant == "cp1252" else meant, "utf-8"):
        if name:
            try:
                return data.decode(name)
            except (UnicodeError, ValueError):
                pass
    if meant and meant != "cp1252":
        return data.decode(meant, "replace")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _base64(data: bytes) -> bytes:
    """Base64 undone as far as it goes."""
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        clean = re.sub(rb"[^A-Za-z0-9+/]", b"", data)
        clean = clean[:-1] if len(clean) % 4 == 1 else clean
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4))


def _uu(data: bytes) -> bytes:
    """Uuencoded lines undone; as it stands where it is none."""
    lines = iter(data.split(b"\n"))
    if not any(line.startswith(b"begin ") for line in lines):
        return data
    out = []
    for line in lines:
        if line.strip() in (b"end", b"`"):
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:  # some encoders write a wrong length: https://github.com/python/cpython, email/message.py
            out.append(binascii.a2b_uu(line[: (((line[0] - 32) & 63) * 4 + 5) // 3]) if line else b"")
    return b"".join(out)


# --- MIME -------------------------------------------------------------------------------------------------------------------------


def _value(block: bytes, name: bytes) -> str:
    """The first field of this name, unfolded; empty where there is none."""
    field = re.search(rb"(?im)^" + name + rb"[ \t]*:(.*(?:\n[ \t].*)*)", block)
    return re.sub(r"\n[ \t]+", " ", field[1].decode("latin-1")).strip() if field else ""


def _param(value: str, name: str) -> str | None:
    """A parameter of a field such as Content-Type, however it is written (RFC 2045, RFC 2231)."""
    value = value[:4_000]  # what is longer is hostile, and the library below takes quadratic time
    simple = re.search(rf'(?i);\s*{name}\s*=\s*(?:"([^"\\]*)"|([^\s;"\'()]+))', value)
    if simple and "*" not in value:
        return simple[1] if simple[1] is not None else simple[2]
    if name not in value.lower():
        return None
    message = Message()
    message["Content-Type"] = value
    try:
        found = message.get_param(name)
    except (ValueError, LookupError, TypeError, IndexError, AttributeError):
        return None
    return found[2] if isinstance(found, tuple) else found


def _parts(block: bytes, body: bytes, depth: int, default: str) -> tuple[list[str], list[str]]:
    """(the plain texts of a part and all inside it, its HTML texts with tags stripped), in order."""
    value = _value(block, b"content-type")
    kind = value.partition(";")[0].strip().lower()
    if kind.count("/") != 1:
        kind = "text/plain" if kind else default  # RFC 2045, 5.2
    encoding = re.split(r"[\s;(]", _value(block, b"content-transfer-encoding").lower(), maxsplit=1)[0]
    if depth > DEPTH:
        return [decoded(body, None)], []
    if kind.startswith("multipart/"):
        boundary = _param(value, "boundary")
        pieces = _pieces(body, boundary.rstrip().encode("latin-1", "replace")) if boundary else []
        if not pieces:  # a boundary that never comes: a person sees the text
            return [decoded(body, None)], []
        inner = "message/rfc822" if kind == "multipart/digest" else "text/plain"
        found = [_parts(*_piece(piece), depth + 1, inner) for piece in pieces if piece]
        return [text for plain, _ in found for text in plain], [text for _, other in found for text in other]
    if kind in ("message/rfc822", "message/global", "message/news"):
        head, _, rest = _split(_transferred(body, encoding).lstrip(b"\n"))
        return _parts(head, rest, depth + 1, "text/plain")
    attached = depth > 0 and _value(block, b"content-disposition").lower().startswith("attachment")
    if attached or kind not in ("text/plain", "text/html"):
        return [], []
    text = decoded(_transferred(body, encoding), _param(value, "charset"))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return ([text], []) if kind == "text/plain" else ([], [_stripped(text)])


def _pieces(body: bytes, boundary: bytes) -> list[bytes]:
    """What stands between the boundaries; the last piece may lack its end."""
    body, mark = b"\n" + body, b"\n--" + boundary
    pieces: list[bytes] = []
    begin, at = -1, body.find(mark)
    while at >= 0:
        stop = body.find(b"\n", at + 1)
        stop = len(body) if stop < 0 else stop
        tail = body[at + len(mark) : stop].rstrip(b" \t")
        if tail in (b"", b"--"):
            if begin >= 0:
                pieces.append(body[begin:at])
            if tail:
                return pieces
            begin = min(stop + 1, len(body))
            at = stop - len(mark)  # two boundaries may follow each other line by line
        at = body.find(mark, at + len(mark))
    return [*pieces, body[begin:]] if begin >= 0 else pieces


def _piece(piece: bytes) -> tuple[bytes, bytes]:
    """(header block, body) of a part, which may have no header."""
    block, _, body = _split(piece)
    return block, body


def _transferred(body: bytes, encoding: str) -> bytes:
    """A body with its transfer encoding undone."""
    if encoding == "base64":
        return _base64(body)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    if encoding in ("x-uuencode", "uuencode", "uue", "x-uue"):
        return _uu(body)
    return body


def _joined(texts: list[str]) -> str:
    """Parts one after the other, each on lines of its own."""
    return "".join(text if text.endswith("\n") or number == len(texts) - 1 else text + "\n" for number, text in enumerate(texts))


# --- HTML -------------------------------------------------------------------------------------------------------------------------

# Not html.parser: it takes quadratic time on hostile input, and this must not hang. Nothing here is tried twice (atomic groups).
_TAG = re.compile(r"<!--|<(/?)([a-zA-Z][^\s<>/=\"']*)(?>=\s*(?>\"[^\"]*\"|'[^']*'|)|[^<>=])*+>|<[!?][^<>]*>")
_LINE = re.compile(
    "address|article|blockquote|br|center|dd|div|dl|dt|fieldset|footer|form|h[1-6]|header|hr|li|ol|option|p|pre|section|table|title|tr|ul"
)


def _stripped(text: str) -> str:
    """HTML as text: block tags as line ends, cells apart, entities decoded; other tags, script, style and comments gone."""
    out: list[str] = []
    at, endless, pre = 0, set[str](), False

    def shown(piece: str) -> None:
        out.append(html.unescape(piece if pre else re.sub(r"[ \t\n\f]+", " ", piece)))

    while match := _TAG.search(text, at):
        shown(text[at : match.start()])
        at, name = match.end(), (match[2] or "").lower()
        closing = "-->" if match[0] == "<!--" else f"</{name}" if name in ("script", "style") and not match[1] else ""
        if closing and closing not in endless:
            end = re.compile(re.escape(closing), re.IGNORECASE).search(text, at)
            if end:
                at = end.end() if closing == "-->" else end.start()
            else:
                endless.add(closing)  # looked for once, so that many open ones cost one search
        elif _LINE.fullmatch(name):
            pre = not match[1] if name == "pre" else pre
            out.append("\n")
        elif name in ("td", "th") and not match[1]:
            out.append(" ")
    shown(text[at:])
    lines = [line.strip(" \t") for line in "".join(out).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


# --- files ------------------------------------------------------------------------------------------------------------------------


def recognise(head: bytes) -> str | None:
    """`mbox` for an envelope line at the start, `mail` for a header block with a field that mails have."""
    if head.startswith(b"From ") and _is_envelope(head[:_AHEAD]):
        return "mbox"
    if _FIELD.match(head):
        block = re.split(rb"\n\n|\r\n\r\n|\r\r", head, maxsplit=1)[0].replace(b"\r", b"\n")
        return "mail" if _KNOWN.search(block) else None
    return None


def accepts(head: bytes, format: str) -> str:
    """The format, where a file may be what its name says."""
    found = recognise(head.lstrip(b"\r\n")) == "mbox" if format == "mbox" else recognise(head) is not None
    return format if found else ""


def look(path: str, format: str, roles: Roles) -> Look:
    """The units of one file; an mbox is cut where it is large and not compressed."""
    size = os.path.getsize(path)
    step = PIECE if format == "mbox" and codec(path) is None and size > 2 * PIECE else size
    cuts = list(range(0, size, step or 1)) or [0]
    pieces = [
        Unit(no=0, path=path, format=format, files=(path,), start=start, stop=stop)
        for start, stop in zip(cuts, [*cuts[1:], None], strict=True)
    ]
    return Look(schema=COLUMNS, soft=False, pieces=tuple(pieces), columns=(("user_id", "user_id"), ("text", "text")))


def put(path: str, how: str, unit: Unit, layout: Layout, records: Records[Text], limit: int) -> None:
    """The mails of one file, or the reason why there is none."""
    if how == "mbox":
        _put_mbox(path, unit.start, unit.stop, records, limit)
        return
    raw, reason = whole(path, limit)
    records.put(None if reason else mail_text(raw), path, "file", reason, len(raw))


def _put_mbox(path: str, start: int, stop: int | None, records: Records[Text], limit: int) -> None:
    """The mails whose envelope lines begin in start..stop."""
    number = 0
    for found, reason in guarded(path, lambda stream: mails(stream, start=start, stop=stop, limit=limit)):
        if found is None:
            records.put(None, path, f"after mail {number}", reason)
            continue
        number += 1
        at, raw = found
        place = f"mail at byte {at}" if start else f"mail {number} at byte {at}"
        if raw is None:
            records.put(None, path, place, "too_large")
        else:
            records.put(mail_text(raw), path, place, size=len(raw))


# The end of a line, and a blank line. `\r(?!\n)`: a bare CR is a line end, half a CRLF is not.
_BLANK = re.compile(rb"(?:\r?\n|\r(?!\n))(\r?\n|\r(?!\n))\Z")
_LINE_END = re.compile(rb"\r?\n|\r")
_QUOTED = re.compile(rb"(^|[\r\n])>(>*From )")
_AHEAD = 4096  # an envelope line and the start of the line after it


def _is_envelope(ahead: bytes) -> bool:
    """Whether a line `From ...` begins a mail: it has a time of day, or a header field follows. `From now on` does not."""
    line = ahead[: end.start()] if (end := _LINE_END.search(ahead)) else ahead
    field = end is not None and _FIELD.match(ahead, end.end()) is not None
    return line.startswith(b"From ") and (field or _CLOCK.match(line) is not None)


def mails(
    stream: BufferedReader, *, start: int = 0, stop: int | None = None, limit: int, chunk: int = 1 << 20
) -> Iterator[tuple[int, bytes | None]]:
    """(byte of its envelope line, the mail) for every mail of an mbox that begins in start..stop; None for one over the limit.

    The envelope line and the blank line before the next are no part of a mail, and `>From ` loses one `>` (mboxrd). Holds one chunk
    and one mail at most. A break of the stream is raised behind the last whole mail.
    """
    base = max(0, start - 4)  # where the buffer begins; 4 bytes are room for the line ends before an envelope line at `start`
    if base:
        stream.seek(base)
    first: int | None = None if start else 0  # where the current mail begins; None while that is not ours
    buffer, seen, cut, end, broken = bytearray(), 0, False, False, False

    def mail(stop: int) -> bytes | None:
        raw = b"" if cut else bytes(buffer[(first or 0) - base : stop]).removeprefix(MARK).lstrip(b"\r\n")
        if cut or len(raw) > limit:
            return None
        if _is_envelope(raw[:_AHEAD]) and (line := _ENVELOPE.match(raw)):
            raw = raw[line.end() :]
        return _QUOTED.sub(rb"\1\2", raw) if b">From " in raw else raw

    while not end:
        try:
            part = stream.read1(chunk)
        except Break:
            part, broken = b"", True
        buffer += part
        end = not part
        while (at := buffer.find(b"From ", seen)) >= 0 and (end or len(buffer) - at > _AHEAD):
            seen = at + 1
            blank = _BLANK.search(buffer[max(0, at - 4) : at])
            if blank is None or not _is_envelope(bytes(buffer[at : at + _AHEAD])):
                continue
            if first is not None:
                yield first, mail(at - len(blank[1]))
            first, cut = base + at, False
            if stop is not None and first >= stop:
                return
            first = first if first >= start else None
        seen = at if at >= 0 else max(seen, len(buffer) - 4)  # 4 of `From ` may be there already
        if first is not None and base + seen - first > limit + _AHEAD:
            cut = True
        gone = max(0, seen - 4 if first is None or cut else first - base)
        del buffer[:gone]
        base, seen = base + gone, seen - gone
    if broken:
        raise Break
    if first is not None and (cut or buffer):
        blank = _BLANK.search(buffer[-4:])
        yield first, mail(len(buffer) - len(blank[1]) if blank else len(buffer))
