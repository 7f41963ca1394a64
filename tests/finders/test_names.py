"""Names of people, found by the words and their context. All people in it are invented."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sanitize.core.arrow_buffers import find_matches
from sanitize.core.intervals import ScoredSpans
from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import FoundSpans, TextColumn
from sanitize.finders import names
from sanitize.finders.names import BESIDE_ADDRESS_SCORE, Names
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.person import normalise_name
from sanitize.text.person_names import east_asian_names
from sanitize.text.person_names.name_evidence import EVIDENCE, EVIDENCE_FOR_UNLISTED
from sanitize.text.person_names.name_exclusions import EXCLUSIONS

KEY = Key.from_seed(3)
PATTERNS, NAMES = PatternFinder(KEY), Names(use="names")
NAMES.open(KEY, None)


def build_column(texts: Sequence[str]) -> TextColumn:
    array = pa.array(texts, pa.large_string())
    found = PATTERNS.run(array)
    kinds = pl.Series([kind.name for kind in PATTERNS.kinds]).gather(found.kind)
    columns = {"text_no": found.text_no, "start_byte": found.start_byte, "end_byte": found.end_byte}
    return TextColumn(
        array,
        pl.DataFrame(columns).with_columns(
            kind=kinds, value_id=pl.Series(found.values.value_id[found.value_no])
        ),
    )


def list_names(texts: Sequence[str], spans: FoundSpans) -> list[list[tuple[str, float]]]:
    found: list[list[tuple[str, float]]] = [[] for _ in texts]
    for text_no, start, stop, score in sorted(
        zip(spans.text_no, spans.start_byte, spans.end_byte, spans.score, strict=True)
    ):
        found[text_no].append(
            (texts[text_no].encode()[start:stop].decode(), round(float(score), 2))
        )
    return found


def find_names(text: str) -> list[str]:
    (found,) = list_names([text], NAMES.find_spans(build_column([text])))
    return [name for name, _ in found]


@pytest.fixture
def rules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tagger is never sure: of words such as `Zyqwert`, in no list, it takes some for names."""
    monkeypatch.setattr(names, "MIN_MARGIN", 1 << 20)
    monkeypatch.setattr(names, "MIN_WORD_MARGIN", 1 << 20)


NAMES_BY_TEXT = {
    "From: Ann Roe <ann.roe@example.com>\nTo: x@example.com\n\nhello": ["Ann Roe"],
    'To: "Roe, Ann" <ann.roe@example.com>\nSubject: x\n\n': ["Roe, Ann"],
    "From: ann.roe@example.com (Ann Zyqwert)\nTo: x@example.com\n\n": ["Ann Zyqwert"],
    "it was\n\n> From: Petra Haas <p.haas@example.org>\n> Sent: Monday\n> To: x@example.com\n>\n> well": [  # noqa: E501
        "Petra Haas"
    ],
    "yesterday Petra Haas called me": ["Petra Haas"],
    "ask Anna-Lena Zyqwert about it": ["Anna-Lena Zyqwert"],
    "J. K. Fischer wrote it": ["J. K. Fischer"],
    "Hans van der Berg and Maria de la Cruz met": ["Hans van der Berg", "Maria de la Cruz"],
    "I met Mr. Zyqwert and Dr Haas": ["Zyqwert", "Haas"],
    "Dear Petra,\n\nwe": ["Petra"],
    "see you\n\nRegards,\nPetra\n": ["Petra"],
    "Patient: Zyqwert Blorb\nAge: 40": ["Zyqwert Blorb"],
    "Petra Haas came. Later Haas left": ["Petra Haas", "Haas"],
    "by Zhang Weiming, who": ["Zhang Weiming"],
    "tell petra fischer to come": ["petra fischer"],
    "PETRA FISCHER called": ["PETRA FISCHER"],
    "_Petra Fischer_ wrote": ["Petra Fischer"],
    "Núria Ángeles Gómez": ["Núria Ángeles Gómez"],
    "With: Müller, Jürgen; Schäfer, Ömer": ["Müller, Jürgen", "Schäfer, Ömer"],
    "X-From: Fischer, Petra A.\nX-To: Müller, Jürgen <jm@example.com>, Haas, Petra </O=EXAMPLE/CN=PHAAS>, Zyqwert, Hans </O=X/CN=Y>": [  # noqa: E501
        "Fischer, Petra A",
        "Müller, Jürgen",
        "Haas, Petra",
        "Zyqwert, Hans",
    ],
    "we saw Petra, Maria and Anna, Hans": ["Petra", "Maria", "Anna", "Hans"],
    "John A. Fischer wrote to Mr. van der Zyqwert": ["John A. Fischer", "van der Zyqwert"],
    "read J. R. R. Zyqwert, or J.R.R. Zyqwert; A.K. Blorb": [
        "J. R. R. Zyqwert",
        "J.R.R. Zyqwert",
        "A.K. Blorb",
    ],
    "Blorb S Zyqwert/HOU/EXAMPLE\nPetra Zyqwert/NA/EXAMPLE on 1/2": [
        "Blorb S Zyqwert",
        "Petra Zyqwert",
    ],
    "X-From: fischer, petra\nX-To: haas, hans, zyqwert, maria; fischer, petra\n\nx": [
        "fischer, petra",
        "haas, hans",
        "zyqwert, maria",
        "fischer, petra",
    ],
    "From: fischer, petra <pf@example.com>\n\nthanks,\npetra\n": ["fischer, petra", "petra"],
    "Pat O'Brien and Jan van der Berg, for Jean-Luc": [
        "Pat O'Brien",
        "Jan van der Berg",
        "Jean-Luc",
    ],
}
# one line for each rule of sanitize/text/person_names: what is found, and a near miss in which
# nothing else is
NAMES_BY_RULE: dict[str, dict[str, list[str]]] = {
    "is_after_name_is": {
        "my name is Zyqwert. What's your last name? Blorb": ["Zyqwert", "Blorb"],
        "the name is Confirmed, the file is Zyqwert": [],
    },
    "is_after_authorship": {
        "Written by Zyqwert Blorb.\nReviewed-by: Blorb Zyqwert <b@example.com>": [
            "Zyqwert Blorb",
            "Blorb Zyqwert",
        ],
        "bought by Zyqwert; written by EuroParts": [],
    },
    "is_after_relation": {
        "my son Zyqwert and our founder, Blorb Zyq": ["Zyqwert", "Blorb Zyq"],
        "my car Zyqwert, my friend Recently": [],
    },
    "is_before_personal_verb": {
        "Zyqwert Blorb lives here": ["Zyqwert Blorb"],
        "Zyqwert Blorb runs here": [],
    },
    "is_after_quotation": {'it is," says Zyqwert.': ["Zyqwert"], "the notice says Zyqwert": []},
    "has_surname_ending": {
        "ask Zyqwert Blorbowski about it": ["Zyqwert Blorbowski"],
        "ask Zyqwert Blorbware about it": [],
    },
    "is_given_name_before_unknown": {
        "we met Ed Zyqwert there": ["Ed Zyqwert"],
        "Will Zyqwert be there": [],
    },
    "is_spoken_to": {
        "Zyqwert, please come\nThanks, Blorb!": ["Zyqwert", "Blorb"],
        "Unfortunately, you lost. Therefore, please wait. Thanks, Team!": [],
    },
    "is_declarant": {
        "I, Zyqwert Blorb, declare": ["Zyqwert Blorb"],
        "I saw Zyqwert Blorb, there": [],
    },
    "is_before_wrote": {
        "On 1 May 2001, Zyqwert Blorb wrote:\n> x": ["Zyqwert Blorb"],
        "On 1 May Zyqwert Blorb crashed:": [],
    },
    "is_pinyin_given_name": {
        "[SMS] Xiaozhen: Haozhi, I saw Ruizi's book\nWeizhong (+86 10 5550 0100)": [
            "Haozhi",
            "Ruizi",
            "Weizhong",
        ],
        "Logo, Chenzhou's market, in Xiaozhen": [],
    },
    "is_after_role": {
        "ask Engineer Haas and Coach Luo": ["Haas", "Luo"],
        "ask Engineer Zyqwert": [],
    },
    "is_notes_name": {
        "Petra Zyqwert/Blorb Works of Zyq@Blorb Works, Petra Zyqwert@BLORB, Petra Zyqwert/Blorb/Corp": (  # noqa: E501
            ["Petra Zyqwert"] * 3
        ),
        "Blorb Zyqwert/Zyq Works, Sales/Works@BLORB": [],
    },
    "is_common_name": {
        "CN=Zyqwert Blorb/OU=SALES/O=EXAMPLE": ["Zyqwert Blorb"],
        "OU=Zyqwert Blorb/O=EXAMPLE": [],
    },
    "is_before_organization": {
        "Petra Fischer came": ["Petra Fischer"],
        "the Fischer Insurance Group": [],
    },
    "is_list_of_surnames": {
        "Anna, Petra and Maria": ["Anna", "Petra", "Maria"],
        "Morris, Jones and Newton pay": [],
    },
    "is_hyphenated_surname_pair": {"Anna-Lena came": ["Anna-Lena"], "paid by Butler-Patel": []},
    "is_after_place_prefix": {"Andres came to see San Andres and Port Anna": ["Andres"]},
    "begins_with_place_prefix": {
        "Mr. Santa Haas met Clara Haas": ["Santa Haas", "Clara Haas"],
        "Clara Haas is in Santa Clara": ["Clara Haas"],
    },
    "is_street_number": {
        "in 2018 Petra Haas, 5 people": ["Petra Haas"],
        "she lives at 806 Petra Haas, Springfield": [],
    },
    "is_part_of_identifier": {
        "Petra and _Petra_ met": ["Petra", "Petra"],
        "@Petra_84, #Petra, PETRA_HAAS, Petra-2335, q+Petra": [],
    },
    "is_single_after_article": {"a mail to Kelly": ["Kelly"], "the Kelly, a Jonas": []},
    "is_eponym": {
        "Mr. Jones met Ann Jones": ["Jones", "Ann Jones"],
        "the rise of Dow Jones and Morgan Stanley": [],
    },
    "titles": {"Mr. Zyqwert": ["Zyqwert"], "the General Public, Attorney-Client": []},
    "headlines": {"Petra Haas Announced Yesterday": ["Petra Haas"]},
    "parts of names": {
        "Petra Blorb left. Blorb returned.\nPetra Bell and Bell's car": [
            "Petra Blorb",
            "Blorb",
            "Petra Bell",
            "Bell",
        ],
        "Petra Bell rang the Bell. Bell ringing": ["Petra Bell"],
    },
    "signatures": {
        "From: Zyqwert Blorb <zb@example.com>\nTo: x@example.com\n\nhello\n\n-- \nzyqwert\nthanks, zyqwert\n": [  # noqa: E501
            "Zyqwert Blorb",
            "zyqwert",
            "zyqwert",
        ],
        "From: zyqwert.blorb@example.com\n\nsee you\nZyqwert\n": ["Zyqwert"],
        "From: [PERSON] <[EMAIL_ADDRESS]>\n\nhello\n\nRegards,\n[PERSON]\n": [],
        "From: Sales Team <orders@example.com>\n\nour\nteam\norders\nZyqwert\n": [],
    },
    "lists": {
        "To: Zyqwert Blorb <zyq@lists.example.com>\nList-Id: zyq <zyq.lists.example.com>\n\nhello": [],  # noqa: E501
        "To: Zyqwert Users <u@example.com>, Zyqwert Daemon <d@example.com>\nCc: Anna Zyq <a@example.com>\n\nUsers": [  # noqa: E501
            "Anna Zyq"
        ],
    },
    "header fields": {
        "From: x@example.com\nDKIM-Signature: a=x; h=From:Petra:Subject;\n b=q/Petra+x\nX-MS-Exchange-Petra: Petra\nSubject: Petra\n\n": [  # noqa: E501
            "Petra"
        ],
        "Received: from Petra by Anna\nX-Original-From: Petra\nSubject: x\n\n": ["Petra"],
    },
    "mailbox owners": {
        "Date: 1 May\nX-Folder: \\Petra_Zyqwert_Jan2002\\Zyqwert, Petra K.\\Inbox\nX-Origin: Zyqwert-P\nX-FileName: pzyqwert.nsf\n": [  # noqa: E501
            "Petra_Zyqwert",
            "Zyqwert, Petra K",
            "Zyqwert-P",
            "pzyqwert",
        ],
        "From: x@example.com\nX-Folder: \\Notes Folders\\All documents\nX-FileName: backup.nsf\n\n\\Petra_Zyqwert_Jan2002": [],  # noqa: E501
    },
}
# names in scripts that separate no words: what is found, and near misses
EAST_ASIAN_NAMES_BY_TEXT: dict[str, list[str]] = {
    "姓名：王伟\n电话：555": ["王伟"],
    "抄送：王小明、李娜，张强": ["王小明", "李娜", "张强"],
    "收件人：某怀远": ["某怀远"],
    "联系人：暂无\n作者：未知\n主持人：主持": [],
    "尊敬的王先生，请联系张建国经理和欧阳娜娜女士": ["王", "张建国", "欧阳娜娜"],
    "项目经理、高级工程师、任何老师、感谢老师、公安局长、车间主任、施工。": [],
    "From: 王伟 <wang.wei@example.com>\nTo: 张家口公司 <zjk@example.com>, 田中\u3000太郎 <t@example.jp>\n\nx": [  # noqa: E501
        "王伟",
        "田中\u3000太郎",
    ],
    "大家好，高兴见到你们，方法很重要。\n此致\n敬礼\n赵丽颖": ["赵丽颖"],
    "祝好！\n人事部\n2024年1月1日": [],
    "亲爱的李娜：\n王小明，你好": ["李娜", "王小明"],
    "尊敬的客户：您好。亲爱的朋友们：": [],
    "我叫王小明，他叫任我": ["王小明"],
    "[10:20] 王小明：明天见\n时间：明天\n方法：见附件\n@李娜 好的": ["王小明", "李娜"],
    "王小明 <wang@example.com>，或李娜（555-0100-2000）": ["王小明"],
    "同事周杰明天来，记者陈晓东报道": ["周杰", "陈晓东"],
    "王小明来了，后来王小明走了。\n姓名：王小明": ["王小明"] * 3,
    "王伟先生，王伟很好，伟大的国王伟绩": ["王伟", "王伟"],
    "约翰·史密斯先生": ["约翰·史密斯"],
    "王国、黄河、江苏、安全、时间、金融、成都、高兴、应用程序": [],
    "氏名：高橋 健一\nフリガナ：タカハシ ケンイチ\n担当：営業部 鈴木": [
        "高橋 健一",
        "タカハシ ケンイチ",
        "鈴木",
    ],
    "担当：営業部\n氏名：なし": [],
    "山田様、佐藤花子さんと鈴木部長、さくらちゃん、森さん": [
        "山田",
        "佐藤花子",
        "鈴木",
        "さくら",
        "森",
    ],
    "お客様、皆様、関係者様、仕様、花屋さん、青森さん、日本人さん、経済部長": [],
    "株式会社サンプルの田中です。木村と申します": ["田中", "木村"],
    "会社の方針です。大学の先生です": [],
    "田中太郎（たなか たろう）が来ます。田中は田中町と田中駅にいます": ["田中太郎", "田中"],
    "高橋健一は来ない": ["高橋健一"],
    "山本製作所、山口県庁、千葉市、松下電器、本田技研工業": [],
    "よろしくお願いいたします。\n営業部\u3000田中太郎": ["田中太郎"],
    "ジョン・スミス氏、林太郎先生": ["ジョン・スミス", "林太郎"],
    "이름: 김민수\n박지영 씨가 왔고, 고객님, 선생님, 이상하다": ["김민수", "박지영"],
    # labels of contacts are no names
    "연락처: 010-5550-1234\n이메일: a@example.com\n대표전화 1588-0000\n문의 02-555-1234": [],
    "담당자 전화 02-555-1234, 최수진 휴대폰 010-5550-1234": ["최수진"],
}
TEXTS_WITHOUT_NAMES = [
    "Will you be there in May? Mark my words, Grant.",
    "The New York office moved to Houston on Monday",
    "I live in Paris",
    "thanks a lot\n\nBest regards\n",
    "the Petra Fischer Foundation pays",
    "the U.S. Zyqwert, U.N. Blorb, P.S. Zyqwert; A. Zyqwert, J.B. The, B.C. Zyqwert, A. K. ZYQWERT",
    "tell fischer, petra and haas, hans\nTo: subscribe, unsubscribe\nthanks petra too",
    "Strong Zyqwert/Blorb Nt Zyqwert/NA or Zyqwert/HOU/EXAMPLE",
    "she banks with Fischer & Sons",
    "Customer Service will answer, Sales Team too",
    "From: Customer Service <service@example.com>\nTo: Sales Team <sales@example.com>\n\n",
    "From: ann.roe@example.com <ann.roe@example.com>\nTo: x@example.com\n\n",
    "http://example.com/Petra/Fischer and petra.fischer@example.com",
    "Petra2 and 4Anna are no words of letters",
    "",
]


@pytest.mark.parametrize(
    "text",
    [
        "Núria Ángeles Gómez",
        "Dr. Øre Åse spoke to Zoë Brontë.",
        "From: José Müller <jm@example.com>\n\nHi José, ask René Müller",
    ],
)
def test_names_with_decomposed_letters_are_found(text: str) -> None:
    """Names are also found where combining accents follow their letters."""
    found = find_names(unicodedata.normalize("NFC", text))
    assert found and find_names(unicodedata.normalize("NFD", text)) == [
        unicodedata.normalize("NFD", name) for name in found
    ]


@pytest.mark.parametrize("text", NAMES_BY_TEXT)
def test_names_are_found(text: str) -> None:
    assert find_names(text) == NAMES_BY_TEXT[text]


@pytest.mark.usefixtures("rules_alone")
def test_combining_mark_that_matches_a_letter_in_any_case_is_no_owner() -> None:
    """U+0345 has the letter iota as its other case."""
    assert find_names("X-Origin: Haas\u0345-P\n\nx") == []


def test_names_in_scripts_without_blanks_are_found() -> None:
    texts = list(EAST_ASIAN_NAMES_BY_TEXT)
    found = list_names(texts, NAMES.find_spans(build_column(texts)))
    assert {
        text: [name for name, _ in names] for text, names in zip(texts, found, strict=True)
    } == EAST_ASIAN_NAMES_BY_TEXT


@pytest.mark.usefixtures("rules_alone")
@pytest.mark.parametrize("rule", NAMES_BY_RULE)
def test_each_rule_has_its_hits_and_near_misses(rule: str) -> None:
    texts = list(NAMES_BY_RULE[rule])
    found = list_names(texts, NAMES.find_spans(build_column(texts)))
    assert [[name for name, _ in names] for names in found] == list(NAMES_BY_RULE[rule].values())


def test_every_rule_of_evidence_and_exclusion_is_in_the_table() -> None:
    rules = {rule.__name__ for rule, _ in (*EVIDENCE, *EVIDENCE_FOR_UNLISTED, *EXCLUSIONS)}
    assert rules - set(NAMES_BY_RULE) <= {
        # in NAMES_BY_TEXT and TEXTS_WITHOUT_NAMES
        "is_before_verb",
        "is_after_cue",
        "is_after_form_field",
        "is_given_name_after_form_field",
        "is_after_closing",
        "is_after_greeting",
        "is_after_title",
        "is_beside_ampersand",
        "is_place",
        "has_no_person_word",
        "is_short_uppercase",
    }


@pytest.mark.usefixtures("rules_alone")
@pytest.mark.parametrize("text", TEXTS_WITHOUT_NAMES)
def test_other_words_are_not_names(text: str) -> None:
    assert find_names(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please ask Oluwadamilare Adeyokunnu about it.", ["Oluwadamilare Adeyokunnu"]),
        ("Patient: Gung Han-byeol\nDate: 3 May 2019", ["Gung Han-byeol"]),  # the rules: `Han`
        ("Patient: Gung Roe. My number is below.", ["Gung Roe"]),
        ("Patient: Oluwaseun J. Adeyokunnu. My number.", ["Oluwaseun J. Adeyokunnu"]),
        ("irq 12: IO-APIC edge, PCI-MSI reset", []),
    ],
)
def test_the_tagger_finds_names_that_no_list_has(text: str, expected: list[str]) -> None:
    assert find_names(text) == expected


@pytest.mark.parametrize(
    ("spans", "longer", "left"),
    [
        ([(3, 6)], [(0, 9)], []),
        ([(0, 4)], [(0, 24)], [(0, 4)]),  # the longer name overlaps what another kind has taken
        ([(0, 4), (6, 12)], [(0, 9)], [(0, 4), (6, 12)]),  # or a name that goes beyond it
        ([(0, 9)], [(0, 9)], [(0, 9)]),
        ([(0, 9)], [(3, 6)], [(0, 9)]),
        ([(0, 5), (6, 9), (12, 15)], [(5, 9), (10, 11)], [(0, 5), (12, 15)]),
        ([(3, 6)], [], [(3, 6)]),
        ([], [(3, 6)], []),
    ],
)
def test_parts_of_longer_names_are_dropped(
    spans: list[tuple[int, int]], longer: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    def build(rows: list[tuple[int, int]]) -> ScoredSpans:
        start, end = np.array(rows, np.int64).reshape(-1, 2).T
        return ScoredSpans(start, end, np.ones(len(rows)))

    taken = np.array([20]), np.array([30])
    found = names._drop_parts(build(spans), build(longer), *taken)
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == left


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Contact: Anna, Tarevko@example.com", "Anna"),
    ],
)
def test_a_name_beside_an_address_that_the_tagger_joins_stays_found(text: str, name: str) -> None:
    assert find_names(text) == [name]


def test_names_are_linked_to_similar_addresses() -> None:
    texts = ["From: Ann Roe <ann.roe@example.com>\nTo: Petra Haas <office@example.com>\n\n"]
    spans = NAMES.find_spans(build_column(texts))
    assert list_names(texts, spans) == [
        [("Ann Roe", BESIDE_ADDRESS_SCORE), ("Petra Haas", BESIDE_ADDRESS_SCORE)]
    ]
    assert spans.person_links is not None
    address_ids = compute_value_ids(
        pa.array(["ann.roe@example.com"], pa.large_string()), "EMAIL_ADDRESS", KEY
    )
    name_ids = compute_value_ids(
        pa.array(normalise_name(pl.Series(["Roe, Ann"])).to_list(), pa.large_string()),
        "PERSON",
        KEY,
    )
    assert spans.person_links.rows() == [(address_ids[0], name_ids[0])]


def test_without_prose_only_header_lines_are_searched() -> None:
    finder = Names(use="names", prose=False)
    finder.open(KEY, None)
    texts = ["From: Ann Roe <ann.roe@example.com>\nTo: x@example.com\n\nPetra Haas said"]
    assert list_names(texts, finder.find_spans(build_column(texts))) == [
        [("Ann Roe", BESIDE_ADDRESS_SCORE)]
    ]


TEXTS_OF_RULES = [text for texts in NAMES_BY_RULE.values() for text in texts]
TEXTS_THAT_BREAK_OFF = [
    ", x",
    "( +1",
    "(+1)",
    "'s",
    " Zyqwert, please come",
    "Haozhi",
    "Haozhi ",
    "Mr. ",
    'x" says Zyqwert',
    ':"',
    "_",
    "Petra_",
    "尊敬的老师：",
    "姓名：",
    "程序：运行",
    "王小明",
    "（555-0100-2000）李娜",
    "先生",
    "さん",
    "我叫",
]


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(
            [
                *NAMES_BY_TEXT,
                *EAST_ASIAN_NAMES_BY_TEXT,
                *TEXTS_WITHOUT_NAMES,
                *TEXTS_OF_RULES,
                *TEXTS_THAT_BREAK_OFF,
                "Zo\u00eb",
                "x\n",
            ]
        ),
        max_size=8,
    )
)
@example(TEXTS_THAT_BREAK_OFF)
@example(["Haas, Petra", " x"])
@example(
    [
        "x. ",
        " Zyqwert, please come",
        "Haozhi",
        ", x",
        "Haozhi ",
        "(+1)",
        "Petra",
        "_x",
        "Jones",
        "@x",
    ]
)
@settings(max_examples=20)
def test_names_do_not_depend_on_other_texts_of_the_batch(texts: list[str]) -> None:
    """The result does not depend on other texts of the batch: batches may be cut anywhere."""
    names_of_batch = list_names(texts, NAMES.find_spans(build_column(texts)))
    assert names_of_batch == [
        list_names([text], NAMES.find_spans(build_column([text])))[0] for text in texts
    ]


EAST_ASIAN_PARTS = [
    *EAST_ASIAN_NAMES_BY_TEXT,
    *(
        "王小明",
        "田中太郎",
        "김민수",
        "此致\n敬礼",
        "敬具",
        "よろしくお願いします。",
        "先生",
        "様",
        "姓名：",
        "我叫",
        "より",
        "です",
        "@",
        "To: ",
        "Hi ",
        "--",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\t \n",
        "---\n",
        "\u3000",
        "x",
        "Petra said",
        "\n1\n2\n3\n4\n5\n6\n7\n8\n9\n",
        "1999-",
        "10:20 ",
        "\u201c",
        "\u1100",
    ),
]


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.sampled_from(EAST_ASIAN_PARTS), max_size=12).map("".join),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=60)
def test_evidence_is_only_in_excerpts(texts: list[str]) -> None:
    """The same names are found if all lines of the texts are searched, and all positions are
    matched with the patterns of names."""
    column = build_column(texts)
    found = list_names(texts, NAMES.find_spans(column))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(east_asian_names._SearchedTexts, "find_evidence", find_matches)
        patch.setattr(
            east_asian_names._SearchedTexts,
            "are_near_characters",
            lambda _, position, *_1: np.ones(len(position), np.bool_),
        )
        assert list_names(texts, NAMES.find_spans(column)) == found


@pytest.mark.slow
@given(
    st.text(
        st.sampled_from("PetraHs .,-'\n\u2019\u00e9\u0130\x01\x02王小明先生：田中様の김민수씨"),
        max_size=40,
    )
)
def test_noise_gives_spans_of_whole_characters(text: str) -> None:
    spans = NAMES.find_spans(build_column([text]))
    for start, stop in zip(spans.start_byte, spans.end_byte, strict=True):
        assert 0 <= start < stop <= len(text.encode())
        assert text.encode()[start:stop].decode()
