"""Words that make a number a telephone number, and words that make it something else, one by
one."""

from __future__ import annotations

import pyarrow as pa

from sanitize.core.keys import Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.phone_labels import SPACED_LABELS, UNSPACED_LABELS

FINDER = PatternFinder(Key.from_seed(3))
LOCAL = "555-0199"  # a telephone number only with a context word
PHONE_WORDS = """
phone phones phone-number phone-numbers cellphone cell-phone telephone telephones tel tele telefon telefono telefax cell cellular mobile
mobiles mobil handy gsm fax facsimile pager call calls called calling callback contact contacts contacted contacting reach reached reachable
reaching dial dialed dialled dialing dialling ring text hotline hot-line helpline landline support-line direct-line toll-free tollfree
whatsapp sms answering messages-to mobilnummer mobilnr mobilfunk mobiltelefon mobiel movil celular cellulare rufnummer durchwahl festnetz
natel anrufen erreichbar llama llamar llame llameme appeler appelez appelle rappeler rappelle joindre ligue chiama chiamami richiamarmi
al-numero telemovel ligar linha-direta ligne-directe bellen terugbellen doorkiesnummer dzwoni oddzwoni zadzwoni komorka stacjonarny faks
pod-numer pod-numerem
""".split()  # noqa: E501
PHONE_ABBREVIATIONS = """
ph mob fon fone cel tlf tfno tlfno ramal portable fixe fijo fisso vast vaste fixo kom kontakt contato contacto recapito bel bell
""".split()  # noqa: E501
NON_ASCII_WORDS = """
tél téléphone téléphones teléf teléfono teléfonos móvil móviles 电话 電話 手机 手機 携帯 传真 傳真 热线 熱線 致电 联系方式 連絡先 ファックス
फ़ोन फोन मोबाइल दूरभाष télécopie telemóvel llámame llámeme
dzwoń oddzwonić komórka 座机 回电 回拨 拨打 直线 我的号码 新号码 直通 折り返し 固定電話
""".split()  # noqa: E501
OWN_NUMBERS = (
    """
my number is; my new number is; meine Nummer ist; meine neue Nummer ist; mijn nummer is; mon nouveau numéro est le; mi número nuevo es el;
mio nuovo numero è; o meu número novo é; mój nowy numer to
""".replace("\n", " ")  # noqa: E501
    .strip()
    .split("; ")
)
TAGS_BEFORE = "office work home desk direct main voice o w h c f t p m".split()
TAGS_AFTER = "office fax mobile cell home work voice phone tel direct pager".split()
EXCLUDING_WORDS = (
    "npi imei imsi iccid isbn issn ssn iban account card passport serial license licence policy"
    " invoice".split()
)
ADJACENT_EXCLUDING_WORDS = """
accounts acct order orders case file ticket ref reference routing tax security zip postcode postal id ids vin mrn record
identifier pin code box room docket patent bug page pages version confirmation conf tracking swift bic chapter section
no contract member customer employee patient student amount total sin nino tfn abn acn nhs bsn cpf cnpj siren siret
aadhaar medicare nas sku part parts p/n model item batch lot
""".split()  # noqa: E501

TEXTS_WITH_NUMBER = [
    *(
        f"{case(word.replace('-', ' '))}{behind}{LOCAL} x"
        for word in PHONE_WORDS
        for case in (str, str.upper)
        for behind in (" ", ": me on ")
    ),
    *(
        f"so {word}{sign}{LOCAL} x"
        for word in PHONE_ABBREVIATIONS
        for sign in (" ", ": ", ".: ", " no ", ". nr. ", " number: ")
    ),
    *(f"x {word}{sign}{LOCAL} x" for word in NON_ASCII_WORDS for sign in (" ", ": ")),
    *(f"so {words} {LOCAL} x" for words in OWN_NUMBERS),
    f"liga à Eva: {LOCAL}",
    *(
        f"{opens}{tag}{sign}{LOCAL} x"
        for tag in TAGS_BEFORE
        for opens in ("", "a, ", "x;", "(", "|", "x\n", "\t")
        for sign in (": ", ".", ":   ")
    ),
    *(f"x {LOCAL}{opens}{tag} x" for tag in TAGS_AFTER for opens in (" ", ", ", "(", " (", "-")),
    *(f"x {LOCAL} ({tag}) x" for tag in "howcmf"),
    *(
        f"{word}{no}{sign}{LOCAL}"
        for word in ("phone", "tel", "ph.", "fax", "mob", "pager")
        for no in (" no", " nr", " number")
        for sign in (" ", ". ")
    ),
    *(
        f"{word}{who}{at}{short} x"
        for word in ("call", "text", "hotline", "SMS")
        for who in (" ", " us ", " me ")
        for at in ("", "at ", "on ", "to ")
        for short in ("55501", "555019")
    ),
    f"call{' ' * 44}{LOCAL}",
    *(f"x{before}+999 555 0199 55" for before in (": ", " (", ", ", ">", "; ")),
]
# ends like a day; not a part of a longer string
TEXTS_WITH_NUMBER += [
    *(
        "call 13820010514 x",
        "call 138 2001 0514",
        "so - 07400 123456",
        "a-b 07400 123456",
        "1 /x 07400 123456",
    ),
    *(
        f"{before}07400 123456{behind}"
        for before in ("so ", "x: ", "x/", "(", "3, ", "3; ", "x:")
        for behind in ("", ".", ", 3", " x", "; 3")
    ),
]
# every word of the tables of languages, as far as it is no regular expression; with a word between
# where it is long
LABELS = [
    label
    for table in (SPACED_LABELS, UNSPACED_LABELS)
    for one in table.values()
    for label in one.split("|")
    if label.isalpha() or " " in label and "[" not in label
]
TEXTS_WITH_NUMBER += [f"x {label}{sign}{LOCAL} x" for label in LABELS for sign in (": ", " ", "：")]
TEXTS_WITH_NUMBER += [
    *(
        "телефоны офиса: 5550199 x",
        "Zavolejte: 777 555 019 x",
        "τηλέφωνο γραφείου: 5550199 x",
    ),
    *(
        "звоните 8 (495) 555-01-23 x",
        "о 8 495 555-01-23 x",
        "о 8-495-555-01-23 x",
        "о 8(495)5550123 x",
    ),
]
TEXTS_WITHOUT_NUMBER = [
    *(
        "телефон, ИНН 5550199",
        "тел. заказ № 5550199",
        "전화 주문번호 5550199",
        "τηλέφωνο, ΑΦΜ: 5550199",
        "电话，订单号：5550199",
    ),
    *("дом был построен в 5550199", "о 8 (095) 555-01-23-45", "о 8 495 555-01-234"),
    f"x {LOCAL} x",
    *(f"{tag}: the {LOCAL}" for tag in ("home", "work", "o")),
    # a part of a longer string
    *(
        f"{before}07400 123456"
        for before in (
            "3.",
            "3:",
            "3/",
            "3=",
            "3_",
            "3-",
            "3 ",
            "3. ",
            "3: ",
            ".",
            "=",
            "_ ",
            "3 : ",
            "3 - ",
            "3 /",
            " /",
            "-",
        )
    ),
    *(f"so 07400 123456{behind}" for behind in (":3", ".3", "/3", "-3", ":")),
    *(f"call {LOCAL}{behind}" for behind in ("x1y", "_")),
    *(f"x {LOCAL} {words} x" for words in ("the office", "at home", "x, fax")),
    *(f"{word} me {LOCAL[:3]}01" for word in ("answer", "recall", "callx")),
    f"call{' ' * 45}{LOCAL}",
    *(
        f"so {words} {LOCAL}"
        for words in (
            "my case number is",
            "customer number is",
            "my number one of the last",
            "numer",
            "liga 2: ",
        )
    ),
    *(
        f"{word} {LOCAL}"
        for word in (
            "rappelt",
            "ulama",
            "zachiama",
            "vastus",
            "komisja",
            "faksy",
            "号码",
            "固定",
            "un numero",
        )
    ),
    *(f"call the {word} {LOCAL}" for word in EXCLUDING_WORDS),
    *(
        f"call {word}{sign}{LOCAL}"
        for word in ADJACENT_EXCLUDING_WORDS
        for sign in (" ", ": ", " no. ", " number is ", " #")
    ),
    *(f"{word} 5 {LOCAL}" for word in ("call", "phone")),
    *(f"recall{word} {LOCAL}" for word in ("x", "ing", "able")),
    *(f"x{tag}: {LOCAL}" for tag in ("home", "desk", "o", "c")),
    *(
        f"{word} {LOCAL}"
        for word in ("graph", "nobel", "label", "excel", "mainphonex", "xtél", "atél")
    ),
    *(f"x {LOCAL} {tag} x" for tag in ("officer", "faxes", "celled", "(x)", "h")),
    *(f"call him at his {short}" for short in ("55501", "555019")),
    *"x\n+999 555 0199 55",
]


def test_every_context_word_of_a_number() -> None:
    texts = TEXTS_WITH_NUMBER + TEXTS_WITHOUT_NUMBER
    detections = FINDER.run(pa.array(texts, pa.large_string()))
    phones = [FINDER.kinds[kind].name == "PHONE_NUMBER" for kind in detections.kind.tolist()]
    phone_counts = [0] * len(texts)
    for text_no, phone in zip(detections.text_no.tolist(), phones, strict=True):
        phone_counts[text_no] += phone
    wrong = [
        text
        for number, text in enumerate(texts)
        if phone_counts[number] != (number < len(TEXTS_WITH_NUMBER))
    ]
    assert wrong == []
