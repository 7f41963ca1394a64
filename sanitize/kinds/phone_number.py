"""Telephone numbers: North American ones in their usual form, numbers with a country code after `+`
or `00`, numbers with a trunk zero that are valid in some region, and numbers with masked digits
(`138****0199`). Groups are separated by blanks and hyphens of any form, including typeset ones, and
by two of them where the length of the number is known.

A number in a national format needs no context if the region has assigned it: a trunk zero before
two groups, or before one group in the mobile numbers of Britain, Germany, India and the Netherlands
(`07400 123456`); Spanish `612 34 56 78`, Russian `8 (495) 555-01-23`, Brazilian `(11) 91234-5678`,
Italian `312 345 6789` and Chinese `138 1234 5678`. A label before the number changes nothing,
unless it is the name of another identifier.

Other numbers cannot be distinguished from orders, files and identifiers by their digits: shorter
local ones, bare digits, short hotlines and numbers that fail the numbering plans. They are
telephone numbers only where the text says so, before (`call`, `Fax:`) or after them (`office`), and
not where the nearest word says otherwise (`NPI`, `order no.`). The words of other languages are in
phone_labels.py. A number in North American form directly after the label of a product or order
number is refused (`SKU 415-555-0199`: `named`). One with blanks in a row of numbers, and one of
round numbers (`200 300 4000`), need a context.

In technical text the digits are left alone: a number with a fraction (`[7028915.431] Call Trace`),
one in a row of numbers or hexadecimal bytes, four dotted groups of up to three digits (a version),
and bare digits that follow `call` in a program or a trace (`call(5551234567`, `call stack`). A
number in brackets after a name is one where the line begins with the label of a call (`[Call 1] Ann
(2125550100)`).

Fewer than ten bare digits and fewer than nine in groups with blanks are a number only in the
context that says so: the finder `known` and the leak check do not search for them in other places.

A plus before a number in North American form is no part of it, unless the area code is a country
code with numbers of seven digits: `+312-555-0100` is `312-555-0100`, `+354 555 1234` is a number in
Iceland.

Where the numbers of a country have one usual length, the pattern stops there, so that `+33 1 70 18
99 00 12 rue` ends with the number. Normalised form: E.164 (`+` and digits, without a trunk `(0)`)
where the country is known, else the digits; followed by `x` and the extension.
"""

from __future__ import annotations

import contextlib
import re

import numpy as np
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    BLANKS,
    BOUNDARY,
    DIGITS,
    HYPHENS,
    NUMBER_ROW,
    WIDE_GAP,
    Kind,
    byte_table,
    digit_mask,
    draw_indices,
    first_marked,
    flatten_strings,
    from_byte_matrix,
    mark_value,
    redraw_characters,
    to_byte_matrix,
    unflatten_strings,
    widen_separators,
)
from sanitize.kinds.phone_labels import OTHER_NUMBERS, SPACED_LABELS, UNSPACED_LABELS
from sanitize.kinds.plain_forms import PlainForm, keep_only

# regions whose numbering plans decide about national numbers
REGIONS = ("US", "CA", "GB", "DE", "FR", "ES", "IT", "NL", "BR", "IN", "CN", "JP", "AU", "RU")
# an extension begins with one of these
_EXTENSION_START = byte_table(b",ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_GROUP_GAP = f"[.()/{BLANKS}{HYPHENS}]{{0,2}}"
_EXTENSION = r"(?:,? {0,2}(?:[Xx]|[Ee][Xx][Tt](?:[.]|ension)?)[ .:]{0,2}[0-9]{1,6})?"
_COUNTRY_CODE_1 = rf"(?:(?:[+]|{BOUNDARY})1[ .-]{{0,3}})?"
# with repeated separators, groups must begin with the digits of the numbering plan, since another
# number may precede such a gap
_NORTH_AMERICAN = "(?:{}|{})".format(
    widen_separators(
        rf"{_COUNTRY_CODE_1}(?:[(][0-9]{{3}}[)][ .-]{{0,3}}|{BOUNDARY}[0-9]{{3}}[ ./-])[0-9]{{3}}["
        r" .-][0-9]{4}",
        allow_repeated=False,
    ),
    widen_separators(
        rf"{_COUNTRY_CODE_1}(?:[(][2-9][0-9]{{2}}[)][ .-]{{0,3}}|{BOUNDARY}[2-9][0-9]{{2}}["
        r" ./-])[2-9][0-9]{2}[ .-][0-9]{4}"
    ),
)
# the label of a product or order number, with a number in North American form: the check refuses
# the two together
_PRODUCT_NUMBER = (
    rf"{BOUNDARY}(?:(?:SKU|[Ss]ku|UPC|EAN|ASIN|[PpSs]/[Nn]|[Mm]odel|MODEL|[Ss]erial|SERIAL)(?:"
    r" ?(?:[Nn]o[.]?|[Nn]umber|#))?|"
    r"(?:[Pp]art|PART|[Ii]tem|ITEM|[Ll]ot|LOT|[Bb]atch|[Cc]atalog|[Oo]rder|ORDER|[Ii]nvoice|INVOICE)(?:"
    r" ?(?:[Nn]o[.]?|NO[.]?|[Nn]umber|#)))"
    rf"[ :#]{{1,3}}[0-9]{{3}}[ .-][0-9]{{3}}[ .-][0-9]{{4}}{BOUNDARY}"
)
# number of digits after the country code (ITU-T E.164 national plans; other codes use the general
# form)
_COUNTRY_CODES_BY_LENGTH = {
    8: "45|47|65|852|372|371",
    9: "27|31|32|33|34|41|48|61|351|353|380|966|971|972",
    10: "1|7|20|30|40|44|52|54|57|63|81|90|91|92|98",
    11: "55|86",
}
_CODES_BEFORE_SEVEN_DIGITS = (  # country codes of three digits, with national numbers of seven
    "220|230|231|238|239|241|243|245|246|248|252|254|263|265|267|269|291|297|352|353|354|355|358|"
    "359|372|375|381|385|386|421|423|501|503|507|592|595|597|598|599|670|673|674|675|676|677|678|"
    "679|680|683|685|688|690|691|692|852|853|880|882|886|960|961|965|967|968|971|972|974|975"
)
# a North American number behind a plus that makes no country code of its area code
_AREA_CODES = "|".join(
    f"{head}[{last}]"
    for head in range(20, 100)
    if (
        last := "".join(
            digit
            for digit in "0123456789"
            if f"{head}{digit}" not in _CODES_BEFORE_SEVEN_DIGITS.split("|")
        )
    )
)
_AFTER_STRAY_PLUS = widen_separators(
    rf"(?:{_AREA_CODES})[ ./-][2-9][0-9]{{2}}[ .-][0-9]{{4}}{_EXTENSION}{BOUNDARY}",
    allow_repeated=False,
)
_INTERNATIONAL = "|".join(
    [
        rf"(?:{codes}){_GROUP_GAP}(?:[(]0[)]{_GROUP_GAP})?[0-9](?:{_GROUP_GAP}[0-9]){{{size - 1}}}{_EXTENSION}{BOUNDARY}"  # noqa: E501
        for size, codes in _COUNTRY_CODES_BY_LENGTH.items()
    ]
    + [rf"[0-9]{{2}}(?:{_GROUP_GAP}[0-9]){{6,13}}{_EXTENSION}{BOUNDARY}"]
)
# repeated separators only with groupings that are in use: after a number of unknown length they are
# the gap to the next item on the line
_TRUNK_NUMBER = widen_separators(
    rf"(?:[(]0[0-9]{{1,5}}[)][ .-]{{0,2}}|{BOUNDARY}0[0-9]{{1,8}}["
    rf" ./-]|{BOUNDARY}0[1-9][0-9]{{1,4}} / ?|"
    rf"{BOUNDARY}00[1-9][0-9]{{1,2}}[ .-][1-9][ .-]|{BOUNDARY}0[1-9][0-9]{{0,3}}[(][0-9]{{2,4}}[)])"
    rf"[0-9]{{2,8}}(?:[ .-][0-9]{{2,8}}){{0,4}}{_EXTENSION}{BOUNDARY}",
    allow_repeated=False,
)
_TRUNK_WIDE_GAPS = rf"{BOUNDARY}0[0-9](?:{WIDE_GAP}[0-9]{{2}}){{4}}{BOUNDARY}|{BOUNDARY}0[0-9]{{1,4}}(?:{WIDE_GAP}[0-9]{{3,4}}){{2}}{BOUNDARY}"  # noqa: E501
# digit groupings of local numbers, with one separator throughout; none is the beginning of a longer
# grouping in common use
_LOCAL_GROUPINGS = (
    *(
        "3-4",
        "4-4",
        "2-3-3-4",
        "2-3-2-2",
        "2-3-3",
        "3-3-2-2",
        "3-3-3",
        "2-2-2-2-2",
        "2-2-2-2",
        "3-2-2-2",
        "3-2-3",
        "2-6",
        "3-8",
        "2-4-4",
    ),
    *("4-4-4", "5-5", "3-7"),
)
# China; precedes the grouping 3-4 in the pattern, with which it begins
_CHINESE_MOBILE = widen_separators(
    "1[3-9][0-9] [0-9]{4} [0-9]{4}|1[3-9][0-9]-[0-9]{4}-[0-9]{4}", allow_repeated=False
)
_LOCAL = "|".join(
    [
        widen_separators(
            separator.join(f"[0-9]{{{size}}}" for size in shape.split("-")),
            allow_repeated=shape == "3-4",
        )
        for separator in (" ", "-", "[.]")
        for shape in _LOCAL_GROUPINGS
        if separator != "[.]" or shape.count("-") > 1  # with one dot it is a decimal
    ]
    + [widen_separators("[0-9]{4}[ .-][0-9]{3}[ .-][0-9]{4}", allow_repeated=False), "[0-9]{5,}"]
)
_BRACKETED_AREA = widen_separators(
    r"[(][0-9]{2,4}[)][ .-]{0,2}[0-9]{3,8}(?:[ .-][0-9]{2}[ .-][0-9]{2}|["
    rf" .-][0-9]{{3,4}})?{BOUNDARY}",
    allow_repeated=False,
)
_MASKED = widen_separators(
    rf"(?:[+][0-9]{{1,3}}[ -]?|{BOUNDARY})[0-9]{{3,4}}["
    r" -]?(?:[0-9]{4})?(?:[*]{3,8}|[Xx]{3,8})"
    r"(?:[ -]?(?:[0-9]{3,4}|[Xx]{4}|[*]{4}))?",
    allow_repeated=False,
)
_ABROAD = r"\A00[0-9]*[^0-9-]"  # zeros as the prefix for calls abroad
_IS_MASKED = widen_separators("[*]|[0-9 -][Xx]{3}", allow_repeated=False)
_YEAR_LIKE = widen_separators(
    r"\A(?:(?:19|20)[0-9]{2}[ -](?:19|20)[0-9]{2}|(?:19|20)[0-9]{2}[01][0-9][0-3][0-9])\z"
)
_HAS_GROUPS = widen_separators("[(]|[ .-][0-9]+[ .-]")
# Russia: the trunk prefix 8, an area code, and a number in groups of 3, 2 and 2
_RUSSIAN = widen_separators(
    "8[ -]?(?:[(][3-9][0-9]{2}[)]|[3-9][0-9]{2}[ -])[ -]?[0-9]{3}[ -][0-9]{2}[ -][0-9]{2}|"
    "8[ -]?[(][3-9][0-9]{2}[)][ -]?[0-9]{7}|8 [3-9][0-9]{2} [0-9]{7}",
    allow_repeated=False,
)
# national formats, accepted without context where the region has assigned the number: mobile
# numbers in two groups, and numbers without a trunk zero in groupings that hardly anything else has
_NATIONAL_FORMS = {
    region: widen_separators(f"(?:{shapes})", allow_repeated=False)
    for region, shapes in {
        "GB": "0[17][0-9]{3} [0-9]{6}",
        "DE": (
            "01[567][0-9]{1,3}[ /-][0-9]{6,8}|0[2-9][0-9]{1,4}(?: /|/)[ ]?[0-9]{3,8}(?:["
            " -][0-9]{1,5})?|0[2-9][0-9]{1,4} [0-9]{5,8}"
        ),
        "NL": "06[ -][0-9]{8}",
        "ES": "[6-9][0-9]{2}(?: [0-9]{2}){3}",
        "IT": "3[0-9]{2} [0-9]{3} [0-9]{4}",
        "BR": "[(][1-9][0-9][)] ?9?[0-9]{4}-[0-9]{4}",
        "IN": "0[0-9]{5} [0-9]{5}",
        "CN": _CHINESE_MOBILE,
        "RU": _RUSSIAN,
    }.items()
}
_NATIONAL_PATTERNS = {region: re.compile(shapes) for region, shapes in _NATIONAL_FORMS.items()}
_SPACED_LABELS = {label for labels in SPACED_LABELS.values() for label in labels.split("|")}
_SHORT_LABELS = {label for label in _SPACED_LABELS if len(label) <= 4 and label < "\u0530"}
_ASCII_LABELS = {label for label in _SPACED_LABELS if label.isascii()}
# short or ambiguous words for telephone: must directly precede the number
_SHORT_WORDS = (
    r"(?:\A|[^a-z0-9_])(?:ph|mob|fon|fone|cel|tlf|tfno|tlfno|ramal|portable|fixe|fisso|kontakt|contato|"
    r"contacto|recapito|bel|bell|kom|fixo|vaste?|fijo|"
    rf"{'|'.join(sorted(_ASCII_LABELS))})"
)
_SHORT_WORD_BEFORE = (
    rf"{_SHORT_WORDS}(?:[. ]{{1,2}}(?:no|nr|num|number|nummer|numero))?[ .:/=#-]{{0,4}}\z"
)
# `meine neue Nummer ist`, `il mio nuovo numero è`, `mój numer to`; letters beyond ASCII are blanks
_OWN_NUMBER_BEFORE = (
    rf"{BOUNDARY}(?:my|meine?|mijn|mon|mi|mio|meu|m  j)(?:"
    r" (?:new|neue|nieuwe|nouveau|nuevo|nuovo|novo|nowy))?"
    r" (?:number|nummer|n(?:u|  )m(?:e|  )ro|numer)(?:"
    rf" (?:nuevo|nuovo|novo))?{BOUNDARY}[\x00-/:-\x7f]{{0,14}}\z"
)
# labels in the letters of their language
_UNSPACED_LABELS = "|".join(UNSPACED_LABELS.values())
_LABEL_END = "[ \t\n.,:;()/*#'\"=№：．、（\u00a0\u2013\u2014-]{0,5}"
_LABEL_BEFORE = (
    rf"(?:\A|[^\p{{L}}\p{{M}}0-9])"
    rf"(?:(?:{'|'.join(sorted(_SPACED_LABELS - _ASCII_LABELS - _SHORT_LABELS))})"
    r"(?:[^\p{L}\p{M}0-9][^0-9]*)?|"
    rf"(?:{'|'.join(sorted(_SHORT_LABELS - _ASCII_LABELS))}){_LABEL_END})\z|"
    rf"(?:{_UNSPACED_LABELS})[^0-9]*\z"
)
# the plain text that each label begins with
_LABEL_STEMS = "|".join(
    sorted(
        {
            re.split(r"[\[(?]", label)[0]
            for label in [*(_SPACED_LABELS - _ASCII_LABELS), *_UNSPACED_LABELS.split("|")]
        }
    )
)
_OTHER_LABEL_BEFORE = (
    rf"(?:\A|[^a-z])(?:{OTHER_NUMBERS})(?: ?(?:№|no|nr|number|numer|番号|번호|号|ที่))?"
    rf"{_LABEL_END}\z"
)
# `tel no.`: the word before `no.` makes it a telephone number
_NUMBER_WORD_BEFORE = (
    rf"(?:{BOUNDARY}(?:phones?|telephone|tele?|telefon|mobile|cell|handy|fax|contact|pager|ph|mob)[.]?"
    rf" ?|{_SHORT_WORDS}[. ]{{1,2}})"
    rf"(?:no|nr|num|number)s?{BOUNDARY}[ .:#=(-]*\z"
)
# words that make a number a telephone number: before it with no digit between, or directly after
# it; all in lower case
_PHONE_WORD_BEFORE = (
    rf"{BOUNDARY}(?:phones?|phone ?num[a-z]*|cell"
    r" ?phones?|telephon[a-z]*|tele?|telef[oa][a-z]*|cell|cellular|mobiles?|mobil|handy|gsm|fax|"
    r"facsimile|pager|call(?:s|ed|ing|back)?|contact(?:s|ed|ing)?|reach(?:ed|able|ing)?|dial(?:l?ed|l?ing)?|ring|text|"
    r"(?:hot|help|land) ?line|(?:support|direct) line|toll["
    r" -]?free|whatsapp|sms|answering|messages? to|"
    r"mobil(?:nummer|nr|funk|telefon)|mobiel|movil|celular|cellulare|telemovel|rufnummer|durchwahl|doorkies(?:nummer)?|festnetz|natel|"
    r"anrufen|erreichbar|llama(?:r|rme|me)?|llame(?:me)?|r?appel(?:e[rz]|le[sz]?)|joindre|(?:ri)?chiam(?:a|i|are|armi|ami|ate|atemi)|"
    r"al numero|ligar(?:-me)?|ligue|(?:linha|ligne|linea|l  nea)"
    r" dire(?:c?ta|cte|tta)|(?:terug)?bellen|"
    # the letters beyond ASCII of a word are blanks: ó is two of them
    r"(?:od|za|prze)?dzwo[a-z]*|kom(?:o|  )rk[a-z]*|stacjonarny|faks|pod (?:nr|numer(?:em)?))"
    rf"{BOUNDARY}[\x00-/:-\x7f]{{0,44}}\z|{_SHORT_WORD_BEFORE}|{_OWN_NUMBER_BEFORE}|"
    r"(?:\A|[ \n\t,;|(])(?:office|work|home|desk|direct|main|voice|[owhcmftp])[:.] {0,3}\z"
)
_PHONE_WORD_AFTER = (
    r"\A["
    rf" ,]{{0,2}}[(-]?(?:(?:office|fax|mobile|cell|home|work|voice|phone|tel|direct|pager){BOUNDARY}|[howcmf][)])"  # noqa: E501
)
_HOTLINE_WORD_BEFORE = (
    rf"{BOUNDARY}(?:call|dial|contact|hotline|helpline|text|sms)(?: us| me)?(?: at| on|"
    r" to)?[]:]? ?\z"
)
# the number is the end of something longer
_LONGER_NUMBER_BEFORE = r"(?:[0-9](?:[.:/=_-]|=\n)?|[.=_]|[0-9] [:/-]) ?\z|(?:\A|[^a-z])/\z|-\z"
# technical text and lists, in a number with its context: `before`, \x01, the number, \x02, `after`.
# Few patterns, since the regex engine keeps 32 of a thread
_VERSION = r"\A[0-9]{1,3}(?:[.][0-9]{1,3}){3}\z"
# bare digits with a fraction (7028915.431), and behind `call` in a trace, a program or a query:
# `Call Trace:`, `system call`, `call(`, `calls VALUES (`; not `call (212) 555-0100`
_PROGRAM = (
    r"(?:[0-9][.]|(?:\A|[^a-z])(?:(?:call|dial|ring|text|contact|reach)["
    r" _-]?(?:traces?|stacks?|graphs?|sites?|chains?|paths?|ids?|depth|"
    r"frames?|buffers?|sizes?)|(?:system|function|method|library|tail)[ _-]?calls?|syscalls?|"
    r"[a-z_]*(?:_calls?|calls?_[a-z_]*|(?:call|ring|text)\())[^a-z0-9]*(?:[a-z]+[^a-z0-9]+){0,2}|[^a-z]values"
    r" ?\()\x01[0-9]+\x02|"
    r"\x01[0-9]+\x02(?:[.][0-9]|"
    r" (?:failed|returned|returns|took|exited|completed|timed|bytes|times)(?:[^a-z]|\z))"
)
_ABOVE = r"\n[^a-z\n\x01]*\x01"  # all words are on earlier lines
# rows of numbers or hexadecimal bytes, and of tables
_ROW = (
    r"(?:\A|[^0-9a-z.+])(?:0x[0-9a-f]+|[0-9a-f]{2}|[0-9a-f]{4}|[0-9a-f]{8}|[0-9]+):?[ \t]+\x01|"
    r"\x02[ \t]+(?:0x[0-9a-f]+|[0-9a-f]{2}|[0-9]{3}|[0-9a-f]{4}|[0-9a-f]{8}|[0-9]{5,})(?:["
    r" \t\r\n|]|\z)|\x02(?: {2,}|\t)[^ \t\r\n]"
)
# a number in groups of one size with a neighbour of that size, or behind 0x000f; in groups with
# blanks
_EQUAL_GROUPS = {
    size: rf"\x01[0-9]{{{size}}}(?:[{BLANKS}]+[0-9]{{{size}}})+\x02" for size in (2, 3, 4)
}
_NUMBER_ROW = rf"0x[0-9a-f]+:?[ \t]+\x01[0-9]+[{BLANKS}]|" + "|".join(
    rf"(?:\A|[^0-9a-z.+])[0-9a-f]{{{size}}}:?[ \t]+{groups}|{groups}[ \t]+[0-9a-f]{{{size}}}(?:["
    r" \t\r\n|]|\z)"
    for size, groups in _EQUAL_GROUPS.items()
)
# a number in brackets after a name, on a line that begins with the label of a call; a second number
# after a first one
_LISTED = (
    r"\[(?:missed |incoming |outgoing |phone |video )?(?:call|sms|text|voicemail|message)(?:"
    r" [0-9]{1,4})?\]"
    r"[^\n0-9\[\]]{1,36}\(\x01[0-9]{7,13}\x02\)|"
    r"[0-9]{3}[ .-][0-9]{4}(?: x[0-9]{1,5})? ?(?:or|and|/|,|;|&) ?\x01[2-9][0-9]{2}["
    r" .-][0-9]{4}\x02"
)
# words that make a number something else, if they are the nearest word before it
_OTHER_NUMBER_BEFORE = (
    rf"{BOUNDARY}(?:npi|imei|imsi|iccid|isbn|issn|ssn|iban|account|card|passport|serial|licen[sc]e|policy|invoice){BOUNDARY}[\x00-/:-\x7f]{{0,44}}\z|"
    rf"{BOUNDARY}(?:accounts|acct|orders?|case|file|ticket|ref|reference|routing|tax|security|zip|postcode|postal|id|ids|vin|mrn|record|identifier|"
    r"pin|code|box|room|docket|patent|bug|pages?|version|confirmation|conf|tracking|swift|bic|chapter|section|no|contract|member|"
    r"customer|employee|patient|student|amount|total|guid|uuid|sha1|md5|commit|pid|uid|gid|irq|cpu|inode|offset|errno|s/n|serial|sin|nino|tfn|abn|acn|nhs|bsn|cpf|cnpj|siren|siret|aadhaar|medicare|nas|sku|parts?|"
    r"part ?(?:no|nr|num|number)|p/n|model|item|batch|lot)"
    rf"(?:[ .:#=(-]|{BOUNDARY}(?:no|nr|num|number|is|was){BOUNDARY})*\z"
)
_DIGITS_AND_X = bytes(
    ord("x") if byte in b"xX" else byte if byte in DIGITS else 0 for byte in range(256)
)
_PLAIN_NORTH_AMERICAN = (
    r"(?:[2-9][0-9]{2}[ ./-]|[(][2-9][0-9]{2}[)][ .-]?)[2-9][0-9]{2}["
    rf" .-][0-9]{{4}}{_EXTENSION}"
)
# what follows the first of five pairs of digits
_PLAIN_PAIRS = "(?:(?:-[0-9]{2}){4}|(?: [0-9]{2}){4}|(?:[.][0-9]{2}){4})"
_ROUND = widen_separators("[2-9]00[ .-][2-9]00[ .-][0-9]{2}00", allow_repeated=False)
_BLANK_GROUPS = f"[0-9][0-9]{{2}}[{BLANKS}]+[0-9]{{3}}[{BLANKS}]+[0-9]{{4}}"
# beside another number of this form, such a number is no part of a row of numbers
_SAME_GROUPS = rf"{_BLANK_GROUPS}[ \t]+\x01|\x02[ \t]+{_BLANK_GROUPS}"
_NUMBERS_OR_ROUND = rf"{NUMBER_ROW}|\x01{_ROUND}\x02"
_PLAIN_FORMS = (
    PlainForm(
        pattern=_PLAIN_NORTH_AMERICAN,
        unless="[0-9]{3} [0-9]{3} [0-9]{4}|[2-9]00[ .-][2-9]00[ .-][0-9]{2}00",
        normalised=_DIGITS_AND_X,
        prefix=b"+1",
    ),
    PlainForm(pattern=f"[+]?1[ .-]{_PLAIN_NORTH_AMERICAN}", normalised=_DIGITS_AND_X, prefix=b"+"),
    PlainForm(
        pattern=(
            "[0-9]{5,9}|[01][0-9]{9}|[2-9][0-9]{10,12}|1[0-9]{11,12}|0[1-9][0-9]{9,11}|[0-9]{3}["
            f" -][0-9]{{4}}|[01][0-9]{_PLAIN_PAIRS}"
        ),
        unless="[0 .-]+|(?:19|20)[0-9]{2}[01][0-9][0-3][0-9]",
        normalised=keep_only(DIGITS),
        needs_context=True,
    ),
    PlainForm(
        pattern=f"[2-9][0-9](?:[0-9]{{8}}|{_PLAIN_PAIRS})",
        normalised=keep_only(DIGITS),
        prefix=b"+1",
        needs_context=True,
    ),
    PlainForm(pattern="1[0-9]{10}", normalised=keep_only(DIGITS), prefix=b"+", needs_context=True),
)


def _check(values: pl.Series) -> pl.Series:
    """`length` for too few or too many digits, `same` where all are zeros, `year` for two years or
    a date in bare digits, `named` for the number of a product or an order; else null."""
    value, number = pl.col("value"), pl.col("number").str.replace(r"x.*\z", "")
    size = number.str.count_matches("[0-9*]")
    return (
        _with_numbers(values)
        .select(
            pl.when(value.str.contains(r"\A[A-Za-z]"))
            .then(pl.lit("named"))
            .when((size < 5) | (size > 15) | ((size > 13) & value.str.contains(r"\A[0-9]*\z")))
            .then(pl.lit("length"))
            .when(number.str.contains(r"\A[+]?0*\z"))
            .then(pl.lit("same"))
            .when(value.str.contains(_YEAR_LIKE))
            .then(pl.lit("year"))
        )
        .to_series()
    )


def _with_numbers(values: pl.Series) -> pl.DataFrame:
    return pl.DataFrame([values.alias("value"), _normalise(values).alias("number")])


def _needs_context(values: pl.Series) -> pl.Series:
    """False for numbers that are possible in a numbering plan and for masked numbers of full
    length, else True."""
    value, number = pl.col("value"), pl.col("number").str.replace(r"x.*\z", "")
    is_masked = number.str.contains("*", literal=True)
    is_american = number.str.contains(r"\A[+]1[2-9][0-9]{2}[2-9][0-9]{6}\z") & (
        value.str.starts_with("+") | value.str.contains(rf"\A(?:{_NORTH_AMERICAN}{_EXTENSION})\z")
    )
    # libphonenumber has no columnar form: it is called for distinct values that seem to have a
    # country code. Zeros instead of the plus need context (`00 2011 52 2010`); `0020-0000-0000` is
    # as often part of an identifier
    is_abroad = number.str.contains(r"\A[+](?:[^1]|\z)") & value.str.starts_with("+")
    table = _with_numbers(values).select(
        number=number,
        is_known=pl.when(is_masked).then(number.str.len_bytes() >= 10).otherwise(is_american),
        is_abroad=is_abroad & ~is_masked & ~is_american,
    )
    is_known, abroad = table["is_known"], table["is_abroad"].arg_true()
    is_known = is_known.scatter(
        abroad, [_parse_country_code(number)[1] for number in table["number"].gather(abroad)]
    )
    return ~is_known | values.str.contains(rf"\A(?:{_BLANK_GROUPS}|{_ROUND})\z")


def _is_distinctive(values: pl.DataFrame) -> pl.Series:
    """False for fewer than ten bare digits, and for fewer than nine in groups with blanks."""
    return ~values["value"].str.contains(rf"\A(?:[0-9]{{1,9}}|[0-9](?:[{BLANKS}]*[0-9]){{0,7}})\z")


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True where words around the number make it a telephone number, or a region has assigned it in
    this national format."""
    candidates = candidates.with_columns(pl.col("before", "after", "spelled").str.to_lowercase())
    denied = pl.col("before").str.contains(_OTHER_NUMBER_BEFORE) & ~pl.col("before").str.contains(
        _NUMBER_WORD_BEFORE
    )
    has_word, is_american, is_spelled = candidates.select(
        word=pl.col("before").str.contains(_PHONE_WORD_BEFORE),
        american=pl.col("value").str.contains(rf"\A[2-9]{_BLANK_GROUPS[5:]}\z"),
        spelled=pl.col("spelled") != pl.col("before"),
    ).get_columns()
    rows = (~has_word & is_spelled).arg_true()
    if len(rows):  # a search for plain words is faster, and few contexts contain one
        rows = rows.filter(candidates["spelled"].gather(rows).str.contains(_LABEL_STEMS))
    if len(rows):
        spelled = candidates["spelled"].gather(rows)
        is_label = spelled.str.contains(_LABEL_BEFORE) & ~spelled.str.contains(_OTHER_LABEL_BEFORE)
        has_word = has_word.scatter(rows, is_label)
    has_phone_word = (pl.lit(has_word) & ~denied) | pl.col("after").str.contains(_PHONE_WORD_AFTER)
    # hotlines of five and six digits: directly after the word
    short = pl.col("value").str.contains(r"\A[0-9]{5,6}\z")
    # a plus that is neither arithmetic nor the mark of an added line in a diff
    plus = pl.col("value").str.contains(r"\A[+](?:[^0-9x]*[0-9]){9}") & pl.col(
        "before"
    ).str.contains(r"[^ \n\t] ?[ (:>,;]\z")
    in_context = candidates.select(mark_value()).to_series()
    rows = is_american.arg_true()
    if len(rows):
        texts = in_context.gather(rows)
        is_american = is_american.scatter(
            rows, ~texts.str.contains(_NUMBERS_OR_ROUND) | texts.str.contains(_SAME_GROUPS)
        )
    accepted = candidates.select(
        pl.when(short)
        .then(pl.col("before").str.contains(_HOTLINE_WORD_BEFORE))
        .otherwise(has_phone_word | (plus & ~denied) | pl.lit(is_american))
    ).to_series()
    rows = accepted.arg_true()
    if len(rows):
        # after a telephone word: part of a trace or a program, or in a row or table below the line
        # of the word
        texts = in_context.gather(rows)
        accepted = accepted.scatter(
            rows,
            ~(
                texts.str.contains(_PROGRAM)
                | (texts.str.contains(_ABOVE) & texts.str.contains(_ROW))
            ),
        )
    accepted |= in_context.str.contains(_LISTED)
    # a trunk prefix, in brackets or before two groups, or a national format; not part of something
    # longer; assigned by a region
    value = pl.col("value")
    trunk = value.str.contains(rf"\A(?:{_TRUNK_WIDE_GAPS}|{_TRUNK_NUMBER})\z") & value.str.contains(
        _HAS_GROUPS
    )
    is_national = value.str.contains(rf"\A(?:{'|'.join(_NATIONAL_FORMS.values())})\z")
    is_complete = (
        (trunk | is_national | value.str.starts_with("00"))
        & ~pl.col("before").str.contains(_LONGER_NUMBER_BEFORE)
        & ~denied
    )
    table = candidates.select(
        "value",
        trunk=trunk,
        complete=is_complete
        & ~pl.Series(accepted)
        & ~pl.col("after").str.contains(r"\A[:./-]?[0-9]|\A:"),
    )
    rows = table["complete"].arg_true()
    if len(rows):
        rows = rows.filter(
            ~(
                in_context.gather(rows).str.contains(_NUMBER_ROW)
                | table["value"].gather(rows).str.contains(_VERSION)
            )
        )
    if len(rows):
        numbers = table.select("value", "trunk")[rows]
        distinct = numbers.unique(maintain_order=True)
        accepted = accepted.scatter(
            rows,
            numbers.join(
                distinct.with_columns(_is_assigned(distinct)),
                on=["value", "trunk"],
                maintain_order="left",
            )["given_out"],
        )
    return accepted


def _parse_country_code(number: str) -> tuple[int, bool]:
    """The length of the country code, and whether the number is possible. libphonenumber has no
    columnar form.

    Its data has today's numbering plans only. Eight national digits pass for any country, since
    plans grow (+225 and +229 had eight, now ten).
    """
    import phonenumbers

    try:
        parsed = phonenumbers.parse(number, None)
    except phonenumbers.NumberParseException:
        return 1, False
    why = phonenumbers.is_possible_number_with_reason(parsed)
    short = why in (
        phonenumbers.ValidationResult.TOO_SHORT,
        phonenumbers.ValidationResult.INVALID_LENGTH,
    )
    known = phonenumbers.is_possible_number(parsed) or (
        short and len(phonenumbers.national_significant_number(parsed)) >= 8
    )
    return len(str(parsed.country_code)), known


def _is_assigned(candidates: pl.DataFrame) -> pl.Series:
    """True for numbers that a region has assigned: any region for a number with a `trunk` prefix in
    more than two groups, the one of its country code for a number with the prefix for calls abroad,
    else a region with that national format. libphonenumber has no columnar form: it is called for
    few numbers."""
    import phonenumbers

    value = pl.col("value")
    digits = value.str.replace("(?s)[A-Za-z].*", "").str.replace_all("[^0-9]", "")
    # Python's `re` for a few numbers: the regex engine keeps 32 patterns of a thread, which those
    # of `_has_context` need
    has_format = {
        region: pl.Series(
            [bool(shapes.fullmatch(one)) for one in candidates["value"]], dtype=pl.Boolean
        )
        for region, shapes in _NATIONAL_PATTERNS.items()
    }
    table = candidates.select(
        "trunk", digits=digits, long=digits.str.len_bytes() >= 9, **has_format
    )
    good = np.zeros(candidates.height, np.bool_)
    for region in REGIONS:
        applies = table["trunk"] | table[region] if region in has_format else table["trunk"]
        candidate_rows = (applies & table["long"]).to_numpy() & ~good
        for place in np.flatnonzero(candidate_rows).tolist():
            with contextlib.suppress(phonenumbers.NumberParseException):
                good[place] = phonenumbers.is_valid_number(
                    phonenumbers.parse(table["digits"][place], region)
                )
    # as many digits as after a plus: shorter numbers of small countries look like two groups of a
    # longer number
    is_abroad = candidates["value"].str.contains(_ABROAD) & (table["digits"].str.len_bytes() >= 11)
    for place in is_abroad.arg_true().to_list():
        good[place] = good[place] or _parse_country_code("+" + table["digits"][place][2:])[1]
    return pl.Series("given_out", good)


def _normalise(values: pl.Series) -> pl.Series:
    masked = values.str.contains(_IS_MASKED)
    if masked.any():
        plain = values.filter(masked).str.replace_all("[Xx]", "*").str.replace_all("[^0-9*+]", "")
        return _normalise_unmasked(values.clone().scatter(masked.arg_true(), "0")).scatter(
            masked.arg_true(), plain
        )
    return _normalise_unmasked(values)


def _normalise_unmasked(values: pl.Series) -> pl.Series:
    """E.164 where the country is known, else the digits; with `x` and the extension. Works on the
    concatenated bytes of all values."""
    flat, offsets = flatten_strings(values)
    starts, value_ends = offsets[:-1], offsets[1:]
    row = np.repeat(np.arange(len(values)), np.diff(offsets))
    ends = first_marked(_EXTENSION_START[flat], starts, value_ends)
    keep = digit_mask(flat) & (np.arange(len(flat)) < ends[row])
    # the first trunk `(0)` of a value is left out
    trunk = (
        np.flatnonzero((flat[:-2] == ord("(")) & (flat[1:-1] == ord("0")) & (flat[2:] == ord(")")))
        + 1
    )
    trunk = trunk[row[trunk - 1] == row[trunk + 1]]
    keep[trunk[np.append(True, np.diff(row[trunk]) > 0)[: len(trunk)]]] = False
    digit = np.flatnonzero(keep)
    count = np.bincount(row[digit], minlength=len(values))
    plus = (np.append(flat, np.uint8(0))[starts] == ord("+")) & (value_ends > starts)
    # the first two digits of each value
    first = np.concatenate([[0], np.cumsum(count)])
    padded = np.append(flat[digit], np.zeros(2, np.uint8))
    one, two = padded[first[:-1]], padded[first[:-1] + 1]
    home = ~plus & (count == 10) & (one >= ord("2"))
    # the prefix for calls abroad
    away = ~plus & (count >= 11) & (one == ord("0")) & (two == ord("0"))
    has_country = plus | home | away | ((count == 11) & (one == ord("1")))
    # characters to add before the digits: `+`, `+1` for home numbers; `00` is replaced by `+`
    prefix_length = has_country.astype(np.int64) + home - 2 * away
    edges = np.concatenate([[0], np.cumsum(count + prefix_length)])
    out = np.empty(int(edges[-1]), np.uint8)
    place = np.arange(len(digit)) - first[row[digit]] + prefix_length[row[digit]]
    is_copied = place >= has_country[row[digit]]
    out[(edges[row[digit]] + place)[is_copied]] = flat[digit][is_copied]
    out[edges[:-1][has_country]] = ord("+")
    out[edges[:-1][home] + 1] = ord("1")
    number = unflatten_strings(out, edges, values.name)
    russian = values.str.contains(rf"\A(?:{_RUSSIAN})\z").arg_true()
    if len(russian):
        number = number.scatter(russian, "+7" + number.gather(russian).str.slice(1))
    with_extension = np.flatnonzero(ends < value_ends)
    if len(with_extension):
        extension = pl.lit("x") + pl.col("value").str.extract(r"[Xx][A-Za-z]*[ .:]*([0-9]+)\z")
        extensions = (
            pl.DataFrame({"value": values.gather(with_extension)})
            .select(extension.fill_null(""))
            .to_series()
        )
        number = number.scatter(with_extension, number.gather(with_extension) + extensions)
    return number


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Numbers with redrawn digits; country code, trunk prefix, separators, masks and the position
    of an extension are kept.

    `reserved`: 555-0100 to 0199 of a drawn area code in North America; other countries have no
    common reserved range.
    """
    number = _normalise(values)
    america = number.str.contains(r"\A[+]1[0-9]{10}(?:x|\z)") & ~values.str.starts_with("0")
    # number of leading digits to keep: a leading 1 is the country code, bare numbers have none
    kept = (values.str.starts_with("1") | values.str.starts_with("+1")).to_numpy().astype(np.int64)
    kept *= (number.str.count_matches("[0-9]") > 10).to_numpy()
    abroad = np.flatnonzero(~america.to_numpy())
    if len(abroad):
        plain = number.gather(abroad).str.replace(r"x.*\z", "")
        # without a country code, the prefix of zeros gives the type of number
        zeros = (
            values.gather(abroad)
            .str.extract(r"\A[(]?(0*)")
            .str.len_bytes()
            .fill_null(0)
            .to_numpy()
            .astype(np.int64)
        )
        codes = {
            value: _parse_country_code(value)[0] if value.startswith("+") else 0
            for value in plain.unique()
        }
        kept[abroad] = zeros + [codes[value] for value in plain]
    out = _fit_north_american(
        _redraw_digits(values, draws, kept), draws, kept, america.to_numpy(), reserved
    )
    # a drawn digit can be read as a trunk prefix, and bare digits as a date: such rows keep more
    # and more of their own digits
    for more in range(1, 9) if len(abroad) else ():
        bad = abroad[_is_unusable(out.gather(abroad), number.gather(abroad))]
        out = out.scatter(
            bad, _redraw_digits(values.gather(bad), draws.take(bad), kept[bad] + more)
        )
    return out.alias(values.name)


def _is_unusable(surrogates: pl.Series, numbers: pl.Series) -> Mask:
    """True for surrogates that are refused, normalise to another length, or are impossible for
    their country code."""
    normalised = _normalise(surrogates)
    bad = (
        (_check(surrogates).is_not_null() | (normalised.str.len_bytes() != numbers.str.len_bytes()))
        .to_numpy()
        .copy()
    )
    plain = normalised.str.replace(r"x.*\z", "")
    rows = (
        (plain.str.starts_with("+") & ~plain.str.contains("*", literal=True)).arg_true().to_numpy()
    )
    real = numbers.str.replace(r"x.*\z", "")
    # libphonenumber has no columnar form; most rows are North American or local numbers, for which
    # it is not called
    pairs = zip(plain.gather(rows), real.gather(rows), strict=True)
    bad[rows] |= np.array(
        [
            not _parse_country_code(surrogate)[1] and _parse_country_code(value)[1]
            for surrogate, value in pairs
        ],
        np.bool_,
    )
    return bad


def _redraw_digits(values: pl.Series, draws: Draws, kept_count: I64) -> pl.Series:
    """The values with all digits redrawn, except the first `kept_count` and a trunk `(0)`."""
    rows = to_byte_matrix(values)
    keep = ~digit_mask(rows) | (np.cumsum(digit_mask(rows), axis=1) <= kept_count[:, None])
    keep[:, 1:-1] |= (
        (rows[:, :-2] == ord("(")) & (rows[:, 1:-1] == ord("0")) & (rows[:, 2:] == ord(")"))
    )
    return redraw_characters(values, draws, keep[rows != 0], first_lane=8)


def _fit_north_american(
    values: pl.Series, draws: Draws, kept_count: I64, is_north_american: Mask, reserved: bool
) -> pl.Series:
    """The values with valid area codes and exchanges in North American rows; the exchange 555 is
    only used with `reserved`."""
    rows = to_byte_matrix(values)
    place = np.where(
        digit_mask(rows) & is_north_american[:, None],
        np.cumsum(digit_mask(rows), axis=1) - 1 - kept_count[:, None],
        -1,
    )

    def put(at: int, digit: I64 | int, where: Mask = is_north_american) -> None:
        spot = (place == at) & where[:, None]
        rows[spot] = np.broadcast_to(np.reshape(48 + digit, (-1, 1)), rows.shape)[spot]

    put(0, 2 + draw_indices(draws, 0, 8))
    # a plus before the number, which is no part of it, must not make a country code of its area
    # code
    digits = np.where(place >= 0, rows.astype(np.int64) - ord("0"), 0)
    area_codes = sum(10 ** (2 - at) * (digits * (place == at)).sum(axis=1) for at in range(3))
    is_country = np.isin(area_codes, [int(code) for code in _CODES_BEFORE_SEVEN_DIGITS.split("|")])
    put(0, 7, is_north_american & (kept_count == 0) & is_country)
    put(3, 2 + draw_indices(draws, 1, 8))
    fives = ((place >= 3) & (place <= 5) & (rows == ord("5"))).sum(axis=1) == 3
    put(4, draw_indices(draws, 2, 5), fives)
    for at, digit in enumerate((5, 5, 5, 0, 1)) if reserved else ():
        put(3 + at, digit)
    return from_byte_matrix(rows)


_LABELLED_NUMBER = (
    rf"\A[+(]?[0-9](?:[./(){BLANKS}{HYPHENS}]{{0,3}}[0-9]){{4,17}}\)?"
    rf"(?: ?(?:,|;|#|x|ext[.]?|extension) ?[0-9]{{1,6}})?\z"
)
KIND = Kind(
    name="PHONE_NUMBER",
    about="a telephone number",
    category="contact",
    field_names=tuple(
        (
            "phone|phones|phone number|phone numbers|phone no|phone num|phone nr|"
            "telephone|telephone number|telephone no|telephones|tel|tel no|tel number|"
            "mobile|mobile number|mobile no|mobile phone|mobile phone number|cell|"
            "cell phone|cell number|cellphone|fax|fax number|fax no|pager|msisdn|"
            "contact number|contact no|whatsapp|whatsapp number|landline|hotline|"
            "callback number|telefon|telefonnummer|telefonnr|tel nr|handy|handynummer|"
            "handynr|mobil|mobilnummer|mobiltelefon|rufnummer|festnetz|durchwahl|"
            "faxnummer|telefono|numero de telefono|telefono movil|movil|celular|"
            "numero de celular|telefono fijo|telephone portable|numero de telephone|"
            "portable|telephone fixe|telecopie|telefone|numero de telefone|telemovel|"
            "telefone fixo|numero di telefono|cellulare|telefono cellulare|"
            "numero di cellulare|recapito telefonico|telefoon|telefoonnummer|mobiel|"
            "mobiel nummer|gsm|gsm nummer|numer telefonu|telefon komorkowy|komorka|电话|"
            "電話|电话号码|電話號碼|手机|手机号|手机号码|手機|手機號碼|联系电话|聯絡電話|"
            "传真|傳真|電話番号|携帯|携帯電話|携帯番号|ファックス|ファクス|"
            "phone home|phone work|phone office|phone mobile|phone cell|phone primary|"
            "phone secondary|tel mobile|telephone home|telephone work|telephone mobile"
        ).split("|")
    ),
    # `7028915`, `004930901820`, an extension; what a form has no pattern for, too
    accepts_in_field=lambda values: values.str.contains(_LABELLED_NUMBER),
    aliases=(
        "PHONE",
        "PHONENUMBER",
        "PHONE_NUM",
        "TELEPHONENUM",
        "FAX",
    ),
    pattern=(
        rf"{_PRODUCT_NUMBER}|{_NORTH_AMERICAN}{_EXTENSION}{BOUNDARY}|[+](?:{_AFTER_STRAY_PLUS}|{_INTERNATIONAL})|{_TRUNK_WIDE_GAPS}|{_TRUNK_NUMBER}|{_MASKED}|{_BRACKETED_AREA}|"
        rf"{BOUNDARY}(?:{_RUSSIAN}){BOUNDARY}|"
        rf"{BOUNDARY}(?:{_CHINESE_MOBILE}|{_LOCAL}){_EXTENSION}{BOUNDARY}"
    ),
    prefix_pattern=rf"([+]){_AFTER_STRAY_PLUS}",
    phase=3,
    digit_lines_only=True,
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    is_distinctive=_is_distinctive,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    plain_forms=_PLAIN_FORMS,
    rank=60,
    first_bytes=DIGITS + b"(+ABCEILMOPSUbcilmops",
    hits=(
        ("call 212-555-0187", "212-555-0187"),
        ("call (713) 555-6161 or 713-555-6161", "(713) 555-6161", "713-555-6161"),
        (
            "713.555.6161, 713 555 6161, 713/555-6161",
            "713.555.6161",
            "713 555 6161",
            "713/555-6161",
        ),
        ("1-800-555-0199 ext. 123", "1-800-555-0199 ext. 123"),
        ("713-555-6161 x35161; +1 (713) 555-6161", "713-555-6161 x35161", "+1 (713) 555-6161"),
        ("+17135556161", "+17135556161"),
        (
            "+312-555-0178 44 +713 555 6161 x12 and +354 555 0178",
            "312-555-0178",
            "713 555 6161 x12",
            "+354 555 0178",
        ),
        ("tel:+49 (0)30 1234567", "+49 (0)30 1234567"),
        ("+33 1 70 18 99 00 12 rue", "+33 1 70 18 99 00"),
        ("+44 20 7946 0958 2001-05-04", "+44 20 7946 0958"),
        (
            "[Call 1] Ann (2125550100)\n[Missed call] Bo Lee (4155550100)",
            "2125550100",
            "4155550100",
        ),
        (
            "212 555 0187 212 555 0188, fax 200 300 4000",
            "212 555 0187",
            "212 555 0188",
            "200 300 4000",
        ),
        ("212-555-0187 or 555-0188", "212-555-0187", "555-0188"),
        ("“phone”: “2125550187”", "2125550187"),
    ),
    near_misses=(
        "046-1297901",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "10230713853616100",
        "9713-555-6161 a713-555-6161 713-555-61612",
        "2001-05-04 16:39:00 -0700",
        "[7028915.431] Call Trace:\n[7028915.431234]  [<ffffffff8105f1d0>] ? do_sys_poll+0x5a/0xe0",
        (
            "  1 Raw_Read_Error_Rate     0x000f   084   060   030    Pre-fail  Always       -      "
            " 236098291"
        ),
        (
            "0000006a  34 73 94 58 25 18 31 75  05 87 24 85 42 01 35 46\nde: 41 54 49 00 00 00 92"
            " 96 74 32 74 32"
        ),
        "UHD_003.010.003.000 libuhd 009.06.008.000, guid 046-1297901-88",
        "call(5550123, 2125550100); calls (id BIGINT);\nINSERT INTO calls VALUES (2125550100",
        "12 212 555 0187 14, sizes 200 300 4000 and 300-400-5000, 1 2 212 555 0187",
        "system call 5550123, call 5550123 returned 5",
        "  35240  46.32%  call\n  5550123  95.00%  ring\n",
        "Sat Jan  1 00:00:00 00 2011 52 2010",
    ),
)
