"""Mails are decoded to the text that a person would read, byte for byte. All people are
invented."""

from __future__ import annotations

import base64
import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.readers.mail import iter_mails, parse_mail

PLAIN_MAIL = (
    b"From: Ann Lee <Ann.Lee@Example.com>\nTo: bo@example.com\nSubject: Lunch\n\nCall 555-0100.\n"
)


def build_mail(body: bytes, *fields: bytes) -> bytes:
    return b"\n".join((b"From: ann@example.com", *fields, b"", body))


def decoded_body(raw: bytes) -> str:
    return parse_mail(raw)[0].partition("\n\n")[2]


def decoded_header(field: bytes) -> str:
    return parse_mail(field + b"\n\nx")[0].partition("\n\n")[0]


PARTS = b"""--b
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Gr=C3=BC=C3=9Fe,
Ann
--b
Content-Type: image/png
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--b
Content-Type: text/plain
Content-Disposition: attachment; filename=notes.txt

an attachment
--b
Content-Type: text/html

<p>the same in HTML</p>
--b
Content-Type: text/plain; charset=iso-8859-1

caf\xe9
--b--
after the end
"""
FORWARDED = b"""--b

See below.
--b
Content-Type: message/rfc822

From: bo@example.com
Content-Type: multipart/alternative; boundary=c

--c
Content-Type: text/plain

inner
--c
Content-Type: text/html

<b>inner</b>
--c--
--b--
"""


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (PLAIN_MAIL, PLAIN_MAIL.decode()),
        (PLAIN_MAIL.replace(b"\n", b"\r\n"), PLAIN_MAIL.decode()),
        (PLAIN_MAIL.replace(b"\n", b"\r"), PLAIN_MAIL.decode()),
        (b"\xef\xbb\xbf" + PLAIN_MAIL, PLAIN_MAIL.decode()),
        (b"From ann@example.com Mon Jan  5 10:00:00 2026\n" + PLAIN_MAIL, PLAIN_MAIL.decode()),
        (b"From now on this is text.\nMore.\n", "From now on this is text.\nMore.\n"),
        (
            b"To: bo@example.com,\n\tcy@example.com,\n di@example.com\n\nx",
            "To: bo@example.com,\n\tcy@example.com,\n di@example.com\n\nx",
        ),
        (b"Subject: no body\nTo: bo@example.com", "Subject: no body\nTo: bo@example.com"),
        (b"Subject: no body\n\n", "Subject: no body\n\n"),
        (b"\nonly a body\n", "only a body\n"),
        (b"no header at all\n\nsecond paragraph\n", "no header at all\n\nsecond paragraph\n"),
        (
            b"Subject: a\nthis line is broken\nTo: bo@example.com\n\nx",
            "Subject: a\nthis line is broken\nTo: bo@example.com\n\nx",
        ),
        (b"", ""),
        (b"Subject: a\n\nnul \0 stays", "Subject: a\n\nnul \0 stays"),
    ],
)
def test_plain_texts_are_decoded(raw: bytes, text: str) -> None:
    assert parse_mail(raw)[0] == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"=?utf-8?Q?J=C3=BCrgen?=", "Jürgen"),
        (b"=?ISO-8859-1?q?Andr=E9_Roe?= <a@example.com>", "André Roe <a@example.com>"),
        (b"=?utf-8?B?" + base64.b64encode("Zoë".encode()) + b"?=", "Zoë"),
        (b"=?utf-8?q?Ann?= =?utf-8?q?_Lee?=", "Ann Lee"),
        (b"=?utf-8?q?Ann?=\n =?utf-8?q?ika?= Lee", "Annika Lee"),
        (b"=?utf-8?q?J=C3?= =?utf-8?q?=BCrgen?=", "Jürgen"),
        (b"=?utf-8*de?q?J=C3=BCrgen?=", "Jürgen"),
        (b"=?utf-8?q?Ann?= and =?utf-8?q?Bo?=", "Ann and Bo"),
        (b"=?utf-8?q?a?=\n not encoded", "a\n not encoded"),
        (b"=?no-such?q?J=FCrgen?=", "Jürgen"),
        (b"=?utf-8?q?line=0D=0ABcc:_x?=", "line Bcc: x"),
        (b"=?utf-8?b?broken!?=", "nè\x9e"),
        (b"=?utf-8?x?what?=", "=?utf-8?x?what?="),
        ("Jürgen".encode(), "Jürgen"),
        (b"J\xfcrgen", "Jürgen"),
    ],
)
def test_encoded_words(raw: bytes, text: str) -> None:
    header = decoded_header(b"Subject: " + raw)
    assert header.startswith("Subject: ")
    if raw != b"=?utf-8?b?broken!?=":
        # the result of a truncated base64 word is not specified, but it is decoded
        assert header == "Subject: " + text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (build_mail(PARTS, b"Content-Type: multipart/mixed; boundary=b"), "Grüße,\nAnn\ncafé"),
        (build_mail(PARTS, b'Content-Type: multipart/mixed;\n\tboundary="b"'), "Grüße,\nAnn\ncafé"),
        (
            build_mail(PARTS, b"Content-Type: multipart/mixed; boundary*0=; boundary*1=b"),
            "Grüße,\nAnn\ncafé",
        ),
        (build_mail(FORWARDED, b"Content-Type: multipart/mixed; boundary=b"), "See below.\ninner"),
        (
            build_mail(b"no boundary comes\n", b"Content-Type: multipart/mixed; boundary=b"),
            "no boundary comes\n",
        ),
        (
            build_mail(b"--b\n\nnever closed\n", b"Content-Type: multipart/mixed; boundary=b"),
            "never closed\n",
        ),
        (build_mail(b"--b\n--b\n\nx\n--b--", b"Content-Type: multipart/mixed; boundary=b"), "x"),
        (
            build_mail(b"--bb\n\nx\n--b--", b"Content-Type: multipart/mixed; boundary=b"),
            "--bb\n\nx\n--b--",
        ),
        (build_mail(base64.b64encode(b"a\r\nb\n"), b"Content-Transfer-Encoding: BASE64"), "a\nb\n"),
        (build_mail(b"SGFsbG8gV2VsdA", b"Content-Transfer-Encoding: base64"), "Hallo Welt"),
        (
            build_mail(b"SGFsbG8gV2VsdAabc", b"Content-Transfer-Encoding: base64"),
            "Hallo Welt\x06\x9b",
        ),
        (
            build_mail(b"a=\nb=3D=ZZ", b"Content-Transfer-Encoding: quoted-printable (why)"),
            "ab==ZZ",
        ),
        (
            build_mail(
                b"begin 644 a\n%2&%L;&\\\n`\nend\n", b"Content-Transfer-Encoding: x-uuencode"
            ),
            "Hallo",
        ),
        (build_mail(b"x", b"Content-Type: application/pdf"), ""),
        (build_mail(b"x", b"Content-Type: text"), "x"),
        (build_mail(b"x", b"Content-Disposition: attachment"), "x"),
        (build_mail("Zoë".encode()), "Zoë"),
        (build_mail(b"Zo\xeb \x93"), "Zoë “"),
        (build_mail(b"Zo\xeb", b"Content-Type: text/plain; charset=us-ascii"), "Zoë"),
        (build_mail(b"Zo\xeb", b"Content-Type: text/plain; charset=no-such"), "Zoë"),
        (build_mail(b"Zo\xeb", b"Content-Type: text/plain; charset=hex"), "Zoë"),
        (build_mail("Zoë".encode(), b"Content-Type: text/plain; charset=us-ascii"), "Zoë"),
        (build_mail("Zoë".encode() + b"\xff", b"Content-Type: text/plain; charset=utf-8"), "Zoë�"),
        (
            build_mail(
                "山田".encode("iso-2022-jp"), b"Content-Type: text/plain; charset=ISO-2022-JP"
            ),
            "山田",
        ),
        (build_mail("張".encode("gb18030"), b'Content-Type: text/plain; charset="GB2312"'), "張"),
        (build_mail(b"abcd", b"Content-Type: text/plain; charset=utf-16"), "abcd"),
        (build_mail(b"+2AA-", b"Content-Type: text/plain; charset=utf-7"), "?"),
    ],
)
def test_bodies(raw: bytes, text: str) -> None:
    decoded = decoded_body(raw)
    assert decoded == text or text.endswith("\x9b") and decoded.startswith("Hallo Welt")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (b"<p>Ann &amp; Bo</p><p>ann&#64;exam<b>ple</b>.com</p>", "Ann & Bo\n\nann@example.com\n"),
        (b"a<br>b<script>no()</script><style>p{}</style><!-- no > no -->c", "a\nbc\n"),
        (b"<table><tr><td>Ann</td><td>555-0100</td></tr></table>", "Ann 555-0100\n"),
        (b"Ann\nLee<pre>a\n  b</pre>", "Ann Lee\na\nb\n"),
        (b"1 < 2 and <a title='>' href=\"x\">b</a>", "1 < 2 and b\n"),
        (b"<!-- never closed <p>x", "never closed\nx\n"),
        (b"<script>never closed", "never closed\n"),
        (b"<p title=it's>Bo's", "Bo's\n"),
        (b"<![weird[ x", "<![weird[ x\n"),
        (b'see <a href="mailto:bo@example.com">ann@example.com</a>', "see ann@example.com\n"),
        (
            b"<table><tr><th>Name<th>Phone<tr><td>Ann<td>555-0100</table><ul><li>x<li>y</ul>",
            "Name Phone\nAnn 555-0100\n\nx\ny\n",
        ),
        (
            b"&#64;&commat;&#x40;&eacute;&nbsp;&lt;b&gt; &notanentity; &#99999999999; &amp;#64;",
            "@@@é\xa0<b> ¬anentity; \ufffd &#64;\n",
        ),
        (
            (
                b"<STYLE>p{}</STYLE><SCRIPT src=x>no()</script"
                b" >ann<wbr>@<span\n>example</span>.com<br/>"
            ),
            "ann@example.com\n",
        ),
        (b"<p>one<p>two</div></td></p></b>three", "one\ntwo\n\nthree\n"),
        (b"", "\n"),
        (b"<", "<\n"),
    ],
)
def test_html_is_used_without_a_plain_part(html: bytes, text: str) -> None:
    assert decoded_body(build_mail(html, b"Content-Type: text/html")) == text


@pytest.mark.parametrize(
    ("field", "user"),
    [
        (b"From: Ann Lee <Ann.Lee@Example.com>", "ann.lee@example.com"),
        (b"from:ANN@example.com (Ann Lee)", "ann@example.com"),
        (b'From: "bo@example.com" <ann@example.com>', "ann@example.com"),
        (b"From: =?utf-8?q?J=C3=BCrgen?=\n <j@example.com>", "j@example.com"),
        (b"From: ann@example.com, bo@example.com", "ann@example.com"),
        (b"From: Ann\n\tLee", "Ann Lee"),
        (b"From:", None),
        (b"Subject: none", None),
    ],
)
def test_user(field: bytes, user: str | None) -> None:
    assert parse_mail(field + b"\n\nx")[1] == user


def test_deeply_nested_mails_are_read() -> None:
    for depth in (10, 200, 2_000):
        raw = b"".join(
            b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level)
            for level in range(depth)
        )
        assert "the core" in parse_mail(raw + b"\nthe core\n")[0]


@pytest.mark.parametrize(
    "piece",
    [
        b"<!--",
        b'<a ="',
        b"<script>",
        b"<",
        b"<a ",
        b"<script><style>",
        b"<td>",
        b"&",
        b"&#",
        b"&lt",
        b"<!",
        b"--b\n",
        b"=?utf-8?q?a?= ",
        b"; charset",
        b"From: a\n",
        b"a@",
        b"a",
        b"\n",
    ],
)
def test_hostile_mails_take_linear_time(piece: bytes) -> None:
    repeated = piece * (500_000 // len(piece))
    start_time = time.process_time()
    parse_mail(b"From: " + repeated + b"\n\nx")
    parse_mail(b"Content-Type: text/html" + repeated[:100_000] + b"\n\n" + repeated)
    parse_mail(b"Content-Type: multipart/mixed; boundary=b\n\n" + repeated)
    assert time.process_time() - start_time < 10


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                b"From: a@example.com",
                b"Content-Type: multipart/mixed; boundary=b",
                b"Content-Type: text/html; charset=utf-7",
                b"--b",
            ]
        )
        | st.sampled_from(
            [
                b"--b--",
                b"",
                b"\r",
                b"\0",
                b"=?utf-8?b?4pi=?=",
                b"Content-Transfer-Encoding: base64",
                b"<p>&#xd800;",
            ]
        )
        | st.binary(max_size=20)
    )
)
def test_any_bytes_give_text(lines: list[bytes]) -> None:
    text, _ = parse_mail(b"\n".join(lines))
    text.encode()
    assert "\r" not in text


# --- mbox -----------------------------------------------------------------------------------------

MBOX = b"""From ann@example.com Mon Jan  5 10:00:00 2026
From: ann@example.com

first
>From here it is quoted
>>From here twice

From now on, this is still the first mail.

From bo@example.com Mon Jan  5 10:00:01 2026
From: bo@example.com

second
no blank line before the next:
From cy@example.com Mon Jan  5 10:00:02 2026

From di
Subject: a field follows

third
"""
MAILS = [
    (
        0,
        (
            b"From: ann@example.com\n\nfirst\nFrom here it is quoted\n>From here twice\n\nFrom now"
            b" on, this is still the first mail.\n"
        ),
    ),
    (
        MBOX.index(b"From bo@"),
        (
            b"From: bo@example.com\n\nsecond\nno blank line before the next:\nFrom cy@example.com"
            b" Mon Jan  5 10:00:02 2026\n"
        ),
    ),
    (MBOX.index(b"From di"), b"Subject: a field follows\n\nthird\n"),
]


def split_mbox(raw: bytes, **options: int) -> list[tuple[int, bytes | None]]:
    options = {"limit": 1 << 20} | options
    return list(iter_mails(io.BufferedReader(io.BytesIO(raw)), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_mbox_is_split_at_envelope_lines(chunk: int) -> None:
    assert split_mbox(MBOX, chunk_bytes=chunk) == MAILS
    assert split_mbox(MBOX + b"\n", chunk_bytes=chunk) == MAILS
    crlf = split_mbox(MBOX.replace(b"\n", b"\r\n"), chunk_bytes=chunk)
    assert [raw and raw.replace(b"\r\n", b"\n") for _, raw in crlf] == [raw for _, raw in MAILS]
    assert len(split_mbox(MBOX.replace(b"\n", b"\r"), chunk_bytes=chunk)) == len(MAILS)


def test_mbox_ranges_cover_every_mail_once() -> None:
    for cut in range(1, len(MBOX)):
        assert split_mbox(MBOX, end_byte=cut) + split_mbox(MBOX, start_byte=cut) == MAILS


def test_mail_over_the_limit_is_skipped_and_the_next_is_read() -> None:
    raw = b"From a Mon 10:00\n\n" + b"x" * 100_000 + b"\n\nFrom b Mon 10:00\nSubject: b\n\nshort\n"
    assert split_mbox(raw, limit=50, chunk_bytes=1_000) == [
        (0, None),
        (raw.index(b"From b"), b"Subject: b\n\nshort\n"),
    ]
