"""The words of many languages that make a number behind them a telephone number, as regular
expressions over text in lower case: telephone, mobile, fax, call, hotline, names of messengers.

English, German, Dutch, French, Spanish, Portuguese, Italian and Polish words in ASCII, which may
also follow the number, are in phone_number.py.
"""

from __future__ import annotations

# language -> words that begin behind a sign or a blank and end before one; those of up to four
# letters of an alphabet from Latin to Cyrillic stand directly before the number. A word has no |
# inside
SPACED_LABELS = {
    "ar": "هاتف|الهاتف|هاتفي|تليفون|التليفون|تلفون|التلفون|موبايل|الموبايل|جوال|الجوال|جوالي|محمول|المحمول|نقال|النقال|خلوي|فاكس|الفاكس|واتساب|واتس|اتصل|اتصلوا|للاتصال|الاتصال|للتواصل|رقمي",  # noqa: E501
    "bg": "телефон[а-я]{0,3}|тел|моб|мобилен|факс|обадете|гсм|джиесем",
    "bn": "ফোন|টেলিফোন|মোবাইল|মুঠোফোন|ফ্যাক্স|যোগাযোগ|হোয়াটসঅ্যাপ",
    "ca": "telèfon[a-z]?|mòbil",
    "cs": "telefon[a-z]{0,3}|tel|mob|mobil[a-z]{0,3}|volejte|zavolejte|pevná linka|klapka|spojovatelka",  # noqa: E501
    "da": "telefon(?:nummer)?|tlf|mobilnr|mobil|ring|opkald",
    "el": "τηλέφων[α-ωά-ώ]{1,2}|τηλ|κινητό|κιν|φαξ|καλέστε|σταθερό|τηλεφωνήστε",
    "es": "teléf|teléfonos?|móvil(?:es)?|llám[ae][a-z]*|llamad al",
    "et": "telefon|tel|mobiil|helista(?:ge)?|faks",
    "fa": "تلفن|تلفنی|موبایل|همراه|فکس|نمابر|دورنگار|واتساپ|واتس‌اپ|تماس",
    "fi": "puh|puhelin(?:numero)?|matkapuhelin|gsm|kännykkä|soita|faksi|vaihde",
    "fr": "tél|téléphon[a-z]*|télécop[a-z]*|appelez",
    "he": "טלפון|הטלפון|טל|טל'|נייד|הנייד|סלולרי|פלאפון|פקס|וואטסאפ|ווצאפ|התקשר|התקשרו|להתקשר|חייג|חייגו",  # noqa: E501
    "hi": "फ़ोन|फोन|मोबाइल|मो|दूरभाष|टेलीफोन|टेलीफ़ोन|फैक्स|संपर्क|व्हाट्सएप|व्हाट्सऐप|कॉल",
    "hr": "telefon[a-z]{0,3}|tel|mob|mobitel[a-z]{0,2}|faks|nazovite|zovite",
    "hu": "telefon(?:szám[a-z]{0,3})?|tel|mobil(?:szám)?|fax|hívjon|hívj|hívja|mellék",
    "id": "telp|telepon|tlp|telefon|hp|no hp|handphone|ponsel|wa|hubungi|faks|faksimile",
    "is": "sími|símanúmer|farsími|gsm",
    "lt": "telefonas|tel|mob|mobilus|faksas|skambinkite|skambinti",
    "lv": "tālrunis|tālr|tel|mob|mobilais|fakss|zvaniet",
    "ms": "telefon|tel|telefon bimbit|hp|faks|hubungi",
    "nb": "telefon(?:nummer)?|tlf|mobil|mob|ring|faks",
    "pl": "tel|kom|telefon[a-zóę]{0,4}|komórk[a-zęą]{1,2}|zadzwoń|dzwoń|dzwońcie|infolinia",
    "pt": "telemóve[a-z]*|liga à|telemóvel|telefónic[oa]|ligação",
    "ro": "telefon[a-z]{0,3}|tel|mobil|mob|sunați|sunaţi|fax|apelați",
    "ru": "телефон[а-яё]{0,3}|тел|телеф|моб|мобильн[а-яё]{2,3}|сотов[а-яё]{2,3}|сот|раб|дом|факс[а-яё]?|звони|звоните|звонить|позвони|позвоните|позвонить|перезвоните|перезвонить|наберите|ватсап|вотсап|вайбер|телеграм|горячая линия",  # noqa: E501
    "sk": "telefón[a-z]{0,3}|tel|mob|mobil[a-z]{0,3}|volajte|zavolajte|pevná linka",
    "sl": "telefon[a-z]{0,3}|tel|gsm|mobitel|faks|pokličite",
    "sr": "телефон[а-я]{0,3}|тел|моб|мобилни|факс|позовите|telefon|tel|mob|pozovite",
    "sv": "telefon(?:nummer)?|tel|mobil(?:nummer)?|mob|ring|växel|fax",
    "sw": "simu|nambari ya simu|piga simu",
    "ta": "தொலைபேசி|கைபேசி|மொபைல்|போன்|அலைபேசி|அழைக்க",
    "tl": "telepono|tumawag|selpon",
    "tr": "telefon|telefonu|telefonum|telefonunuz|telefon numarası|tel|cep|cep tel|cep telefonu|gsm|faks|belgegeçer|arayın|arayınız|dahili",  # noqa: E501
    "uk": "телефон[а-яіїє]{0,3}|тел|моб|мобільн[а-яії]{2,3}|факс|дзвоніть|дзвоніти|дзвонити|зателефонуйте|телефонуйте|гаряча лінія|вайбер",  # noqa: E501
    "ur": "فون|ٹیلیفون|ٹیلی فون|موبائل|فیکس|رابطہ|واٹس ایپ",
    "vi": "điện thoại|đt|đtdđ|sđt|số điện thoại|di động|hotline|gọi|liên hệ|zalo|máy bàn|tổng đài",
}
# words of languages without blanks, and of Korean, whose particles follow a word directly
UNSPACED_LABELS = {
    "ja": "電話|携帯|ファックス|ファクス|連絡先|直通|折り返し|固定電|フリーダイヤル|内線|スマホ|ケータイ",  # noqa: E501
    "km": "ទូរស័ព្ទ|លេខទូរស័ព្ទ|ទូរសារ",
    "ko": "전화|휴대폰|휴대전화|핸드폰|연락처|팩스|모바일|직통|내선|대표번호|카카오톡|카톡|폰번호",
    "lo": "ໂທລະສັບ|ໂທ|ແຟັກ",
    "my": "ဖုန်း|တယ်လီဖုန်း|ဖက်စ်",
    "th": "โทรศัพท์|โทรสาร|โทร|มือถือ|เบอร์|แฟกซ์|แฟ็กซ์|ติดต่อ|ไลน์ไอดี|สายด่วน",
    "zh": "电话|電話|手机|手機|传真|傳真|热线|熱線|致电|致電|联系方式|聯絡方式|聯繫方式|座机|座機|回电|回拨|拨打|撥打|直拨|直线|我的号码|新号码|新的号码|固定：|固话|固話|固定电话|市話|行動電話|分机|总机",  # noqa: E501
}
# words that make the number directly behind them another one
OTHER_NUMBERS = (
    "инн|кпп|огрн|снилс|бик|окпо|паспорт|полис|счет|счёт|р/с|заказ[а-я]{0,2}|договор[а-я]{0,2}|"
    "код|індекс|индекс|єдрпоу|іпн|паспорту|рахунок|"
    "הזמנה|ת[.]?ז|מספר זהות|ח[.]?פ|طلب|الطلب|حساب|الحساب|هوية|کد ملی|کد پستی|سفارش|حساب|شبا|"
    "αφμ|α[.]φ[.]μ|παραγγελία|sipariş|vergi|tckn|fatura|đơn hàng|mã|mst|cmnd|cccd|"
    "订单|訂單|身份证|身分證|邮编|账号|帳號|工号|学号|注文|口座|郵便番号|주문|계좌|주민|사업자|คำสั่งซื้อ|บัญชี|"
    "pesanan|rekening|nik|npwp|objednávk[a-z]{1,2}|ičo?|dič|rč|rendelés|adószám|comanda|cui|cnp|"
    "hetu|y-tunnus|tilaus|zamówieni[a-z]{1,2}|pesel|nip|regon|konto"
)
