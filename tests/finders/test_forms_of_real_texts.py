"""Forms that real mail, chat and technical text have and that simple patterns miss or take for
something else, in one table: what the plan `redact` finds in each. Rules of single kinds have their
tests in tests/kinds. All people in the texts are invented."""

from __future__ import annotations

import pytest

import sanitize

# class -> text -> what is found, in order
FORMS: dict[str, dict[str, list[tuple[str, str]]]] = {
    "typographic quotes": {
        "{“ssn”: “219-09-9999”}": [("US_SSN", "219-09-9999")],
        "he wrote “ssn”:“219099999” there": [("US_SSN", "219099999")],
    },
    "bounce addresses": {
        "envelope-from=bounce-list=ann.zyqwert=host.example.org@lists.example.net; x": [
            ("EMAIL_ADDRESS", "ann.zyqwert=host.example.org")
        ],
        "Return-Path: <bounce-list+ann.zyqwert=host.example.org@lists.example.net>\n\nx": [
            ("EMAIL_ADDRESS", "ann.zyqwert=host.example.org")
        ],
    },
    "message ids with an address": {
        "Message-ID: <20190401123456.123-1-ann.zyqwert@host.example.org>\n\nx": [
            ("EMAIL_ADDRESS", "ann.zyqwert@host.example.org")
        ],
    },
    "encapsulated addresses": {
        "To: IMCEANOTES-Ann+20Zyqwert_40host+2Eexample+2Eorg@corp.example.com\n\nx": [
            ("EMAIL_ADDRESS", "IMCEANOTES-Ann+20Zyqwert_40host+2Eexample+2Eorg@corp.example.com")
        ],
        "To: <IMCEAEX-_O=CORP_OU=NA_CN=ann+40host+2Eexample+2Ecom@corp.example.com>\n\nx": [
            ("EMAIL_ADDRESS", "ann+40host+2Eexample+2Ecom")
        ],
    },
    "accounts on machines": {
        "git clone ssh://git@host.example.org/path": [("URL", "ssh://git@host.example.org/path")],
        "scp ann@node07:/srv/x . && ssh ann@node07": [("USER_AT_HOST", "ann@node07")] * 2,
    },
    "message ids in links": {
        "see http://lists.example.org/<20190401123456.GA1234@host.example.org> there": [
            ("URL", "http://lists.example.org/"),
            ("MESSAGE_ID", "20190401123456.GA1234@host.example.org"),
        ],
        "https://lore.example.org/r/20190401123456.GA1234@host.example.org": [
            ("URL", "https://lore.example.org/r/20190401123456.GA1234@host.example.org")
        ],
    },
    "escapes": {
        "q=%22ann.zyqwert%40host.example.org": [("EMAIL_ADDRESS", "ann.zyqwert%40host.example.org")]
    },
    "Lotus Notes": {
        "From: Ann Zyqwert/HOU/ACME@ACME\nTo: Petra Blorb@ACME\nCc: Ann Blorb/Some Firm@Some Firm\n\nx": [  # noqa: E501
            ("X500_NAME", "Ann Zyqwert/HOU/ACME@ACME"),
            ("PERSON", "Petra Blorb"),
            ("PERSON", "Ann Blorb"),
        ],
        "X-Origin: ZYQWERT-A\nX-FileName: azyqwert.nsf\nX-Folder: \\Ann_Zyqwert_Dec2000\\Notes Folders\\Inbox\n\nx": [  # noqa: E501
            ("PERSON", "ZYQWERT-A"),
            ("PERSON", "azyqwert"),
            ("PERSON", "Ann_Zyqwert"),
        ],
    },
    "given name of the sender": {
        "From: Xandrelle Zyqwert <xz@example.com>\n\nplease send it.\n\nXandrelle": [
            ("PERSON", "Xandrelle Zyqwert"),
            ("EMAIL_ADDRESS", "xz@example.com"),
            ("PERSON", "Xandrelle"),
        ],
    },
    "one word of a name": {
        "Petra Zyqwert came in. Later Zyqwert said no, and Petra left.": [
            ("PERSON", "Petra Zyqwert"),
            ("PERSON", "Zyqwert"),
            ("PERSON", "Petra"),
        ],
    },
    "opaque header fields": {
        "X-MS-Exchange-CrossTenant-Id: Petra\nDKIM-Signature: h=From:Reply-To:Petra; b=Anna+x/Petra==\nX-Gm-Message-State: AGi0/Anna+Petra==\n\nx": [],  # noqa: E501
    },
    "lists and teams": {
        "From: Linux RAID <raid@example.org>\nTo: USRP users <u@example.org>\n\nLinux raid autodetect. The USRP users know.": [  # noqa: E501
            ("EMAIL_ADDRESS", "raid@example.org"),
            ("EMAIL_ADDRESS", "u@example.org"),
        ],
    },
    "places and things": {"Sao Paulo, Santa Clara, Credit Cards, Treasury Analyst": []},
    "titles": {"Mr. Zyqwert and Teacher Wang": [("PERSON", "Zyqwert"), ("PERSON", "Wang")]},
    "kernel logs": {
        "[7028915.431] Call Trace:\n[7028915.431234] do_it+0x12/0x30\n": [],
        "  1 Raw_Read_Error_Rate 0x000f 084 060 030 Pre-fail\n00000010  41 42 43 44 20 30 31 32  39 39 38 37\n": [],  # noqa: E501
    },
    "versions": {
        "UHD 3.14.1.1, firmware 003.010.003.000, v2.26.0.106.g1a2b3c4, Linux 2.6.24.4\n": []
    },
    "stack traces, diffs and listings": {
        '  File "/srv/app/x.py", line 2025550143, in main': [],
        "--- a/x.c\t2019-04-01 12:30:15.123456789 +0200\n+++ b/x.c\n@@ -713,555 +0123,4 @@\n": [],
        "at 12:30:15.123456 build 20190401-123456 id 8f14e45fceea167a5a36dedd4bea2543 node-2025550143.example.org": [],  # noqa: E501
        "guid 046-1297901-88, part 713-5550-12": [],
    },
    "telephone numbers by context": {
        "[Call 1] ANN ZYQWERT (2025550143)": [
            ("PERSON", "ANN ZYQWERT"),
            ("PHONE_NUMBER", "2025550143"),
        ],
        "Suite 219099999, Springfield": [],
    },
}


@pytest.mark.parametrize("name", FORMS)
def test_finds_in_forms_of_real_texts(name: str) -> None:
    texts = list(FORMS[name])
    found: dict[str, list[tuple[str, str]]] = {text: [] for text in texts}
    for text_no, kind, start, end in (
        sanitize.detect(texts, plan="redact")
        .select("text_index", "kind", "start", "end")
        .iter_rows()
    ):
        found[texts[text_no]].append((kind, texts[text_no][start:end]))
    assert found == FORMS[name]
