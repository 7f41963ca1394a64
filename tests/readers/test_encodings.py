"""The encoding of text files that are not UTF-8. All texts are invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sanitize
from sanitize.readers import encodings
from sanitize.readers.encodings import decode_with_guess
from sanitize.readers.survey import Roles, survey_inputs

TEXTS = {
    "ja": (
        "本日の会議は午後三時から第二会議室で行います。資料は昨日お送りしたものをご覧くだ"
        "さい。ご不明な点がございましたら、総務部の佐藤までご連絡をお願いいたします。なお"
        "、来週の水曜日は休館日となりますので、荷物の受け取りは火曜日までにお済ませくださ"
        "い。駐車場は建物の裏側にあり、入口で受付の者にお名前をお伝え"
    ),
    "ko": (
        "오늘 회의는 오후 세 시에 이 층 회의실에서 열립니다. 어제 보내 드린 "
        "자료를 미리 읽어 주시기 바랍니다. 궁금한 점이 있으면 총무부로 연락해 "
        "주세요. 다음 주 수요일은 쉬는 날이므로 짐은 화요일까지 찾아가셔야 합니"
        "다. 주차장은 건물 뒤에 있으며 입구에서 이름을 말씀해"
    ),
    "zh": (
        "今天下午三点在二楼会议室开会，请大家提前阅读昨天发送的材料。如果有不清楚的地方，"
        "请与办公室联系。下星期三休息，所以请在星期二以前领取包裹。停车场在大楼后面，进门"
        "时请告诉门卫您的姓名。最近天气很冷，风也很大，请大家注意身体。我们还需要三个人帮"
        "忙整理图书馆的旧书，愿意来的人请在名单上写下自己的名字和电话"
    ),
    "tw": (
        "今天下午三點在二樓會議室開會，請大家提前閱讀昨天寄出的資料。如果有不清楚的地方，"
        "請與辦公室聯絡。下星期三休息，所以請在星期二以前領取包裹。停車場在大樓後面，進門"
        "時請告訴警衛您的姓名。最近天氣很冷，風也很大，請大家注意身體。我們還需要三個人幫"
        "忙整理圖書館的舊書，願意來的人請在名單上寫下自己的名字和電話"
    ),
    "ru": (
        "Сегодня в три часа дня в комнате на втором этаже состоится собрание. Пожалуйста, про"
        "читайте заранее материалы, которые мы отправили вчера. Если что-то непонятно, обрати"
        "тесь в отдел кадров. В следующую среду выходной, поэ"
    ),
    "uk": (
        "Сьогодні о третій годині дня в кімнаті на другому поверсі відбудуться збори. Будь ла"
        "ска, прочитайте заздалегідь матеріали, які ми надіслали вчора. Якщо щось незрозуміло"
        ", зверніться до відділу кадрів. Наступної середи вих"
    ),
    "pl": (
        "Dzisiaj o trzeciej po południu odbędzie się zebranie w sali na drugim piętrze. Prosz"
        "ę wcześniej przeczytać materiały, które wysłaliśmy wczoraj. Jeśli coś jest niejasne,"
        " proszę zgłosić się do działu kadr. W następną środę"
    ),
    "cs": (
        "Dnes ve tři hodiny odpoledne se koná schůze v místnosti ve druhém patře. Přečtěte si"
        " prosím předem podklady, které jsme poslali včera. Pokud vám něco není jasné, obraťt"
        "e se na osobní oddělení. Příští středu máme volno, t"
    ),
    "hu": (
        "Ma délután három órakor gyűlés lesz a második emeleti teremben. Kérjük, olvassák el "
        "előre a tegnap elküldött anyagokat. Ha valami nem világos, forduljanak a személyzeti"
        " osztályhoz. Jövő szerdán szünnap lesz, ezért a csom"
    ),
    "de": (
        "Heute um drei Uhr nachmittags findet im Raum über der Küche eine Besprechung statt. "
        "Bitte lesen Sie vorher die Unterlagen, die wir gestern verschickt haben. Für Rückfra"
        "gen wenden Sie sich an das Büro. Nächsten Mittwoch i"
    ),
    "fr": (
        "La réunion aura lieu aujourd’hui à quinze heures dans la salle du deuxième étage. Me"
        "rci de lire à l’avance les documents envoyés hier. Si quelque chose n’est pas clair,"
        " adressez-vous au service du personnel. Mercredi pro"
    ),
    "es": (
        "La reunión será hoy a las tres de la tarde en el salón del segundo piso. Por favor, "
        "lean antes los documentos que enviamos ayer. Si algo no está claro, diríjanse a la o"
        "ficina de personal. El próximo miércoles será festiv"
    ),
    "el": (
        "Σήμερα στις τρεις το απόγευμα θα γίνει συνάντηση στην αίθουσα του δεύτερου ορόφου. Π"
        "αρακαλούμε διαβάστε από πριν το υλικό που στείλαμε χθες. Αν κάτι δεν είναι σαφές, απ"
        "ευθυνθείτε στο γραφείο προσωπικού. Την επόμενη Τετάρ"
    ),
    "tr": (
        "Bugün öğleden sonra saat üçte ikinci kattaki odada toplantı yapılacak. Lütfen dün gö"
        "nderdiğimiz belgeleri önceden okuyun. Anlaşılmayan bir şey olursa personel bölümüne "
        "başvurun. Gelecek çarşamba tatil olduğu için paketle"
    ),
    "he": (
        "היום בשעה שלוש אחר הצהריים תתקיים ישיבה בחדר שבקומה השנייה. אנא קראו מראש את החומר ש"
        "שלחנו אתמול. אם משהו אינו ברור, פנו אל מחלקת כוח אדם. ביום רביעי הבא יש חופש, ולכן י"
        "ש לאסוף את החבילות עד יום שלישי. החניה נמצאת מאחורי "
    ),
    "ar": (
        "يعقد الاجتماع اليوم في الساعة الثالثة بعد الظهر في قاعة الطابق الثاني. نرجو قراءة ال"
        "وثائق التي أرسلناها أمس قبل الحضور. إذا كان هناك شيء غير واضح فاتصلوا بقسم الموظفين."
        " يوم الأربعاء القادم عطلة لذلك يجب استلام الطرود قبل"
    ),
    "lt": (
        "Šiandien trečią valandą po pietų antrame aukšte vyks susirinkimas. Prašome iš anksto"
        " perskaityti vakar išsiųstą medžiagą. Jei kas nors neaišku, kreipkitės į personalo s"
        "kyrių. Kitą trečiadienį bus laisva diena, todėl siun"
    ),
    "th": (
        "วันนี้จะมีการประชุมเวลาบ่ายสามโมงที่ห้องชั้นสอง กรุณาอ่านเอกสารที่ส่งไปเมื่อวานนี้ล่"
        "วงหน้า หากมีข้อสงสัยกรุณาติดต่อฝ่ายบุคคล วันพุธหน้าเป็นวันหยุด จึงขอให้มารับพัสดุภาย"
        "ในวันอังคาร ที่จอดรถอยู่ด้านหลังอาคาร เมื่อถึงทางเข้"
    ),
}
ENCODINGS = (
    ("ja", "shift_jis"),
    ("ja", "euc_jp"),
    ("ja", "iso2022_jp"),
    ("ko", "euc_kr"),
    ("zh", "gb18030"),
    ("tw", "big5"),
    ("ru", "koi8_r"),
    ("ru", "cp1251"),
    ("ru", "cp866"),
    ("uk", "koi8_u"),
    ("uk", "cp1251"),
    ("pl", "cp1250"),
    ("pl", "iso8859_2"),
    ("cs", "cp1250"),
    ("hu", "cp1250"),
    ("de", "cp1252"),
    ("fr", "cp1252"),
    ("es", "cp1252"),
    ("el", "cp1253"),
    ("tr", "cp1254"),
    ("he", "cp1255"),
    ("ar", "cp1256"),
    ("lt", "cp1257"),
    ("th", "cp874"),
)


def cut_texts(length: int) -> Iterator[tuple[str, bytes]]:
    """Pieces of the texts and their bytes, in each encoding, that are not ASCII."""
    for language, encoding in ENCODINGS:
        text = TEXTS[language]
        for start in range(0, max(len(text) - length, 1), max((len(text) - length) // 9, 1)):
            piece = text[start : start + length]
            if not (raw := piece.encode(encoding)).isascii() or b"\x1b" in raw:
                yield piece, raw


@pytest.mark.parametrize(
    ("length", "right", "wrong"), [(15, 0.92, 0.07), (60, 0.96, 0.04), (150, 0.99, 0.01)]
)
def test_texts_in_legacy_encodings_are_read_or_refused(
    length: int, right: float, wrong: float
) -> None:
    """`right` is the least share that is read as it was written, `wrong` the largest share that is
    read as something else; the rest is not decoded."""
    pieces = list(cut_texts(length))
    read = Counter(
        "none" if text is None else "right" if text == piece else "wrong"
        for piece, raw in pieces
        for text in (decode_with_guess(raw),)
    )
    assert read["right"] >= right * len(pieces) and read["wrong"] <= wrong * len(pieces), read


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("café".encode(), "café"),
        ("a café by the sea".encode("cp1252"), "a café by the sea"),
        ("he said “no” – it’s 5 € now".encode("cp1252"), "he said “no” – it’s 5 € now"),
        (b"\x1b(B\x1b[0m done", "\x1b(B\x1b[0m done"),  # a terminal's
        (b"\x81\x8d\x8f\x90\x9d\xff", None),
        (b"\xa3\xf3d\x9f", None),
    ],
)  # fmt: skip
def test_a_text_is_not_decoded_by_chance(raw: bytes, text: str | None) -> None:
    assert decode_with_guess(raw) == text


def test_a_line_longer_than_the_sample_is_decoded() -> None:
    for shift in range(2):
        text = " " * shift + TEXTS["ja"] * 400
        assert decode_with_guess(text.encode("cp932")) == text


def test_utf8_costs_no_guess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "guess_encoding", lambda sample: pytest.fail("a guess"))
    (tmp_path / "a.txt").write_text("Größe, 東京, ann.lee@example.com\n" * 100)
    assert (
        sanitize.index(tmp_path / "a.txt", tmp_path / "work", documents="lines").documents_in == 100
    )


def test_the_summary_names_files_whose_encoding_was_guessed(tmp_path: Path) -> None:
    """One guess for all lines of a file: a line alone would be too short for one."""
    (tmp_path / "in").mkdir()
    lines = ["Пётр", "ann.lee@example.com", TEXTS["ru"], "да"]
    (tmp_path / "in" / "a.txt").write_bytes("\n".join(lines).encode("koi8-r"))
    (tmp_path / "in" / "b.txt").write_text("Größe")
    (tmp_path / "in" / "c.txt").write_bytes(b"\x81\x8d\x8f\x90\x9d\xff")
    # a line of another file, in a file of UTF-8
    mixed = ["東京の天気", "naïve café in the old town", "大阪の天気"]
    parts = [mixed[0].encode(), mixed[1].encode("cp1252"), mixed[2].encode()]
    (tmp_path / "in" / "d.txt").write_bytes(b"\n".join(parts))
    for split, count in (("lines", 9), ("file", 4)):
        result = sanitize.run(
            tmp_path / "in", tmp_path / split, documents=split, seed=1, max_quarantine="100%"
        )
        texts = sanitize.Corpus.open(tmp_path / split).table()["text"].to_pylist()
        assert dict(result.quarantine) == {"unknown_encoding": 1} and len(texts) == count - 1
        wanted = ["[EMAIL_ADDRESS]" if "@" in line else line for line in lines]
        assert "\n".join(texts) == "\n".join([*wanted, "Größe", *mixed])
        (note,) = [note for note in result.notes if "encoding" in note]
        assert note.endswith(
            f": 2 files ({tmp_path}/in/a.txt: koi8-r, {tmp_path}/in/d.txt: cp1252)"
        )


def test_a_file_that_was_named_and_cannot_be_decoded_is_quarantined(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xa3\xf3d\x9f")
    assert survey_inputs([tmp_path / "a.txt"], Roles()).units
    with pytest.raises(sanitize.SanitizeError, match="unknown_encoding"):
        sanitize.run(tmp_path / "a.txt", tmp_path / "out")
