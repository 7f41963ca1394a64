r"""Postal addresses: number, street, unit, PO box, city, region and postal code as one value, in
one line or in a block of lines (`12 Larkspur Lane, Apt 4\nSpringfield, IL 62704`).

Forms of the US, GB, CA, AU, DE, FR, ES, IT, NL, PL, PT, BR and JP. A value needs one certain part:
a street with its number, a PO box, a unit behind a number and a name, a city with its region and
postal code, or a label before it (`Address:`, `PLZ`). City, region and postal code around a certain
part belong to the value; alone they are not found. What a street without any of these is (`2001
Supreme Court`, `in 1999 Wall Street fell`) its context decides.

The words of streets, units, regions and labels are data below. One of `_ANCHORS` is in every match,
so only the text around these is searched. Normalised form: letters in lower case and digits, with
a hyphen between two words. The kind is opt-in: an address is long, and the plans
that keep first occurrences leave it.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from sanitize.core.arrow_buffers import (
    TextBuffers,
    find_matches,
    slice_spans,
    splice,
    to_large_string,
)
from sanitize.core.intervals import expand_ranges
from sanitize.core.keys import Draws, draw_index
from sanitize.kinds.kind import (
    BEYOND_ASCII,
    BOUNDARY,
    DIGITS,
    LETTERS,
    Alternative,
    Kind,
    redraw_characters,
)
from sanitize.kinds.person import match_case, name_pools

# ---- words, as data; `|` separates them, and a final `.` is optional ----

# of streets, behind a name, that name little else; and those that need more than the name
_STREETS = (
    "Street|Str.|St|St.|Avenue|Ave|Ave.|Av|Av.|Road|Rd|Rd.|Boulevard|Blvd|Blvd.|Lane|Ln|Ln.|Drive|"
    "Dr|Dr.|Parkway|Pkwy|Pkwy.|Highway|Hwy|Hwy.|Terrace|Crescent|Mews|Broadway|Freeway|Fwy|"
    "Turnpike|Expressway|Alley"
)
_WEAK_STREETS = (
    "Court|Ct|Ct.|Place|Pl|Pl.|Square|Sq|Sq.|Way|Circle|Cir|Cir.|Trail|Park|Plaza|Loop|Ridge|Close|"
    "Gardens|Grove|Row|Hill|Walk|Green|Cove|Point|Center|Centre|Ter|Rise|Vale|Quay"
)
_SMALL_STREETS = "street|avenue|ave|road|rd|boulevard|blvd|lane|drive|parkway|highway"
_DIRECTIONS = "North|South|East|West|Northeast|Northwest|Southeast|Southwest"
_NUMBERED_ROADS = "Highway|Hwy|Route|Rte|Interstate|State Road|County Road|Farm Road|State Route"
# at the end of a word, German and Dutch
_STREET_ENDINGS = (
    "straße|strasse|straat|weg|platz|allee|gasse|damm|ufer|chaussee|laan|plein|gracht|kade|dijk|"
    "str."
)
# the same, which end other words, too: only before a postal code and a city
_WEAK_ENDINGS = (
    "ring|hof|pad|dreef|steeg|baan|singel|wal|wall|park|markt|stieg|steig|pfad|kamp|graben|"
    "promenade|boulevard|höhe|winkel|bogen|zeile|brink|veld|oever|garten|siedlung"
)
_SEPARATE_ENDINGS = "Straße|Strasse|Str.|Weg|Platz|Allee|Gasse|Damm|Ufer|Chaussee"
# before a name, with the number last: Spanish, Italian, Portuguese, Polish, French and Dutch
_TYPES = (
    "Calle|C/|Avenida|Avda.|Avda|Av.|Plaza|Pza.|Paseo|Camino|Carretera|Ctra.|Ronda|Travesía|Glorieta|"
    "Via|Viale|V.le|Strada|Borgo|Piazza|P.zza|P.za|Corso|C.so|Largo|Vicolo|Piazzale|Contrada|"
    "Rua|Travessa|Tv.|Praça|Alameda|Estrada|Rodovia|Ladeira|Rue|Boulevard|"
    "ul.|Ul.|ulica|Ulica|al.|Al.|aleja|Aleja|aleje|Aleje|pl.|plac|Plac|os.|osiedle|Osiedle"
)
# behind the number, French
_TYPES_BEHIND_NUMBER = (
    "rue|Rue|avenue|av.|boulevard|bd|place|allée|chemin|impasse|quai|route|cours|square"
)
_PARTICLES = (
    "de|la|le|les|du|des|del|della|delle|dei|degli|di|da|do|das|dos|d'|l'|d’|l’|de la|de las|"
    "de los|de l'|de l’|el|y|e|of|of the|the|van|van der|van den|van de|der|den|von|von der|"
    "dem|zum|zur|am|im|an|an der|in der|ten|ter|sur|et|aux|à|à la|św.|gen.|ks."
)
# behind a number and a name they make an address; behind a street other words do, too
_CERTAIN_UNITS = "Apt|Apt.|APT|Apartment|Suite|SUITE|Ste|Unit|Flat|Appt|Wohnung"
_UNITS = (
    _CERTAIN_UNITS + "|Floor|Fl|Room|Rm|Bldg|Building|Block|Level|Lot|Box|PMB|Étage|Piso|Planta|"
    "Interno|Whg|lok|Andar|Sala|STE|UNIT|FLOOR|ROOM"
)
_BOXES = (
    "P.O. Box|P. O. Box|PO Box|P.O.Box|P O Box|P.O. BOX|PO BOX|Post Office Box|Postfach|Postbus|"
    "Apartado de Correos|Apartado|Casella Postale|Caixa Postal|Skrytka pocztowa|Boîte postale"
)
_US_REGIONS = (
    "AL|AK|AZ|AR|CA|CO|CT|DE|DC|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|"
    "NY|NC|ND|OH|OK|OR|PA|PR|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY"
)
_CANADIAN_REGIONS = "AB|BC|MB|NB|NL|NS|NT|NU|ON|PE|QC|SK|YT"
_AUSTRALIAN_REGIONS = "NSW|VIC|QLD|WA|SA|TAS|NT|ACT"
_REGION_WORDS = ("DE", "HI", "ID", "IN", "LA", "ME", "OH", "OK", "OR", "PA")  # words as well
_COUNTRIES = (
    "United States of America|United States|USA|U.S.A.|US|United Kingdom|UK|England|Scotland|Wales|"
    "Northern Ireland|Ireland|Canada|Germany|Deutschland|Austria|Österreich|Switzerland|Schweiz|"
    "France|Spain|España|Italy|Italia|The Netherlands|Netherlands|Nederland|Belgium|Belgique|"
    "Poland|Polska|Portugal|Brazil|Brasil|Japan|China|Australia|India|Mexico|México|"
    "Sweden|Norway|Denmark|Finland|Iceland|Czech Republic|Czechia|Slovakia|Hungary|Slovenia|"
    "Croatia|Serbia|Romania|Bulgaria|Greece|Cyprus|Turkey|Russia|Ukraine|Estonia|Latvia|Lithuania|"
    "Luxembourg|Israel|Egypt|Tunisia|Morocco|South Africa|Nigeria|Kenya|Brazil|Argentina|Chile|"
    "Uruguay|Peru|Colombia|New Zealand|Hong Kong|Taiwan|Singapore|South Korea|Vietnam|Thailand|"
    "Philippines|Greenland|Saudi Arabia|Pakistan|Iran|Puerto Rico"
)
_LABELS = (  # with a colon behind them
    "address|Address|ADDRESS|Adresse|adresse|Anschrift|"
    "Wohnhaft|wohnhaft in|Dirección|dirección|Direccion|Domicilio|Indirizzo|indirizzo|Adres|adres|"
    "Endereço|endereço|Morada|住所|Street|STREET|Residence|Site address|Job site|Straße|Rue|"
    "Domicile|Wohnort|Wohnsitz|Residenza|Residencia"
)
_VERBS = (
    "address is|lives at|live at|lived at|living at|resides at|reside at|"
    "residing at|located at|Ship to|ship to|Deliver to|deliver to|Bill to|bill to|ship it to|"
    "moved to|Mail to|mail to|mailed to|send to|habite au|domicilié au|domiciliée au|"
    "demeurant|demeurant au|vive en|domicilio en|vecino de|vecina de|abita in|residente in|"
    "residente a|residente em|residente en|mieszka przy|wonende te|woonachtig te|wohnhaft|"
    "zamieszkały|zamieszkała|zamieszkałą|zam.|R/o|resident of|farm at|house at|home at|flat at|"
    "property at|premises at|office at|cottage at|home of|damage at|ubicado en|sita en|sito in"
)
_CODE_LABELS = (
    "postal code|Postal code|Postal Code|postcode|Postcode|post code|Post code|zip code|Zip code|"
    "Zip Code|ZIP code|ZIP Code|ZIP|Zip|zip|PLZ|Postleitzahl|code postal|Code postal|CEP|"
    "código postal|Código postal|kod pocztowy|Kod pocztowy|codice postale|郵便番号"
)
_PHONE_LABELS = "Tel|Telefon|Telephone|Phone|Fax|Mobile|Cell|Ext|Office|Pager|Voice|TEL|PHONE|FAX"
# words that end like a street, or courts
_NO_STREETS = (
    r"(?i:\A(?:arbeits|park|stell|sitz|steh|start|steck|lager|spiel|camping|liege|fenster|zelt)"
    r"platz |\A[0-9]+ (?:[a-z.]+ )?(?:supreme|district|federal|high|appeals|circuit|crown|county|"
    r"superior|world|bankruptcy|tennis|basketball|food|first|second|third|last|new|all) "
    r"(?:court|place|way)\z)"
)
# parts of invented places in Japanese; none is a mark of a part of an address
_JAPANESE_PLACES = tuple(
    "青葉 若松 緑川 桜台 白鳥 花園 泉水 松風 光陽 月岡 朝霧 梅園 星野 藤沢 葵 旭".split()
)


def _list_kept_words() -> str:
    """An alternation of the words of addresses in lower case that surrogates keep."""
    lists = "|".join(
        (
            *(_STREETS, _WEAK_STREETS, _DIRECTIONS, _NUMBERED_ROADS, _STREET_ENDINGS, _TYPES),
            *(
                _AUSTRALIAN_REGIONS,
                _SEPARATE_ENDINGS,
                _TYPES_BEHIND_NUMBER,
                _PARTICLES,
                _UNITS,
                _BOXES,
                _COUNTRIES,
            ),
        )
    )
    words = re.findall(r"[^\W\d_]{3,}", lists.lower())
    return "|".join(sorted({*words, "floor", "apo", "fpo", "dpo", "psc", "number", "lane", "bis"}))


def _words(listed: str) -> str:
    """An alternation of listed words, the longest first; blanks stay, dots are literal."""
    words = sorted(set(listed.split("|")), key=lambda word: (-len(word), word))
    return "|".join(word.replace(".", "[.]") for word in words)


def _join(before: str, listed: str, endings: str = "") -> str:
    """The listed words, each with `before` in front of it and each of the endings behind it."""
    return "|".join(before + word + end for word in listed.split("|") for end in endings.split("|"))


def _whole_words(listed: str) -> str:
    """The same, with a boundary behind each word that ends with a letter."""
    ended = "|".join(word for word in listed.split("|") if word.endswith("."))
    return rf"{_words(ended)}|(?:{_words(listed)}){BOUNDARY}"


# ---- the pattern ----

_UPPER, _LETTER = "[A-ZÀ-ÖØ-ÞĀ-Ž]", "[0-9A-Za-zÀ-ÖØ-öø-ž'’-]"
_WORD = rf"(?:{_UPPER}{_LETTER}{{0,2}}[.] ?){{0,2}}[(]?{_UPPER}{_LETTER}*[)]?"
_SMALL_WORD = rf"(?:{_words(_PARTICLES)})"
_SMALL = rf"(?:{_SMALL_WORD} ?)?"
_NAME = rf"{_WORD}(?: {_SMALL}{_WORD}){{0,3}}"
_NUMBER = r"[0-9]{1,5}(?:[-/–][0-9]{1,4})?(?: ?[A-WYZa-wyz]\b|-[A-Za-z]\b)?(?: 1/2)?".replace(
    r"\b", BOUNDARY
)
_NUMBERED = "(?:H[.]? ?No|No|Nr|Number|Lane|Building|Unit|Room)[.]? ?"
_LABELLED_NUMBER = rf"(?:{_NUMBERED}|[0-9]{{3,5}} )?{_NUMBER}"
_ORDINAL = "[0-9]{1,3}(?:st|nd|rd|th|ST|ND|RD|TH)"
_DIRECTION = rf"(?:,? (?:[NS][.]?[EW]?|[EW]|{_words(_DIRECTIONS)}){BOUNDARY}[.]?)"
_LINE_BREAK = r"(?: {0,2}[,;]? {0,2}(?:\r?\n[>|?#*, \t]{0,12}){1,2}| ?<[Bb][Rr] ?/?> ?\n?)"
_GAP = rf"(?:{_LINE_BREAK}| ?[,;]{{1,2}} {{0,2}}| {{1,3}})"
_COMMA = "(?:, ?|; ?| - )"
_UNIT = (
    rf"(?:(?:{_words(_UNITS)})[.]? ?(?:[Nn]o[.] ?)?#?(?:[0-9]{{1,5}}[A-Za-z]?|[A-Z]?-?[0-9]{{1,4}}"
    rf"(?:-[0-9A-Z]{{1,4}})?|[A-Z]{{1,2}}){BOUNDARY}|#[0-9]{{1,5}}[A-Z]?|"
    rf"[0-9]{{1,2}}(?:st|nd|rd|th|[.]|[ºª°])? (?:Floor|floor|FLOOR|Etage|étage|piso|OG|andar))"
)
_GB = "[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}"
_CA = "[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9]"
_CODE = (  # in front of a city, or of a name in one line
    r"(?:(?:[A-Z]{1,2}-)?[0-9]{5}|[A-Z]{1,2}-[0-9]{4}|[0-9]{4} ?[A-Z]{2}|[0-9]{2}-[0-9]{3}|"
    r"[0-9]{4}-[0-9]{3}|[0-9]{5}-[0-9]{3})"
)
_LAST_CODE = (  # behind a city
    rf"(?:{_GB}|{_CA}|[0-9]{{5}}(?:-[0-9]{{3,4}})?|[0-9]{{3}}-[0-9]{{4}}|[A-Z]{{2,3}} [0-9]{{4}})"
    + BOUNDARY
)
_COUNTRY = rf"(?:{_words(_COUNTRIES)}){BOUNDARY}"
_PLACE = (
    rf"(?:{_CODE} {_NAME}|{_COUNTRY}|"
    rf"(?:{_NAME}(?:[,;]? ?(?:- )?{_NAME})?[ ,;]{{1,3}})?{_LAST_CODE}|"
    rf"{_NAME}(?: \([A-Z]{{2}}\)))"
)
_TAIL = (  # with a city and its code, or a country; with a unit and a city; or in one line
    rf"(?:(?:{_GAP}{_UNIT}){{0,3}}(?:(?:{_GAP}{_NAME}){{0,3}}{_GAP}{_PLACE}(?:{_GAP}{_COUNTRY})?|"
    rf"{_COMMA}[0-9]{{4}} {_NAME})|(?:{_GAP}{_UNIT}){{1,3}} {_NAME}|"
    rf"(?:{_GAP}{_UNIT}){{0,3}}(?:{_COMMA}(?:{_UNIT}|{_NAME})){{0,5}})"
)
_HOUSE_LAST = rf"(?:, ?| )(?:(?:[Nn][.]?[ºo°][.]?|nr|n[.]|№) ?)?(?:{_NUMBER}|[sS]/[nN]){BOUNDARY}"
_BEFORE_STREET = (  # a unit, or what is named before `No. 12, Quill Road`
    rf"(?:{_UNIT}{_GAP}(?:{_NAME}{_GAP})?|"
    rf"(?:(?:{_WORD}(?: {_SMALL}{_WORD}){{0,6}}|{_UNIT}), ){{1,2}}"
    rf"(?:{_NUMBERED}{_NUMBER}, )?{_NUMBERED})?"
)
_FRENCH = "(?:de la |de l['’]|du |des? |les? |la |[dl]['’])"
_STREET = (
    rf"{_LABELLED_NUMBER},?{_DIRECTION}?(?: (?:{_ORDINAL}|{_WORD})){{1,4}}(?: [0-9]{{1,4}})? "
    rf"(?:{_whole_words(f'{_STREETS}|{_STREETS.upper()}|{_WEAK_STREETS}')}){_DIRECTION}?",
    rf"(?:{_WORD}(?: {_SMALL}{_WORD}){{0,6}}, )?"
    rf"{_ORDINAL},(?: {_WORD}){{1,4}} (?:{_words(_STREETS)}), {_NAME}",
    rf"{_LABELLED_NUMBER}{_DIRECTION}? Broadway{BOUNDARY}",
    rf"{_LABELLED_NUMBER}{_DIRECTION}? (?:{_words(_NUMBERED_ROADS)})[.]? [0-9]{{1,4}}[A-Z]?",
    rf"{_NUMBER}(?: ?(?:bis|ter|quater))?,? (?:{_words(_TYPES_BEHIND_NUMBER)}) "
    rf"(?:{_FRENCH}{_NAME}|{_FRENCH}[a-zà-ž]{{4,20}}|{_NAME})",
    rf"(?:[0-9]{{3,5}} )?(?:{_words(_TYPES)}) ?{_SMALL}{_NAME}{_HOUSE_LAST}",
)
_START = rf"(?:{BOUNDARY}[A-Z]|[À-ÖØ-ÞĀ-Ž]){_LETTER}*"  # of a word in capitals
_GERMAN = (
    rf"{_START}(?:{_words(_STREET_ENDINGS)}) {{1,2}}{_NUMBER}{BOUNDARY}",
    rf"{_START}[ -](?:{_UPPER}{_LETTER}*[ -])?(?:{_words(_SEPARATE_ENDINGS)}) {_NUMBER}{BOUNDARY}",
)
# before a postal code and a city
_BEFORE_CITY = (
    rf"{_START}(?:{_words(_WEAK_ENDINGS)}) {_NUMBER}(?:{_GAP}{_UNIT})?{_GAP}"
    rf"(?:[A-Z]{{1,2}}-)?(?:[0-9]{{5}}|[0-9]{{4}} ?[A-Z]{{2}},?) {_NAME}"
)
_BOX = rf"(?:{_words(_BOXES)})[.:]? ?#?[0-9]{{1,6}}{BOUNDARY}"
_MILITARY = (
    rf"(?:(?:PSC|Unit|UNIT|CMR) [0-9]{{1,5}},? Box [0-9]{{1,5}}|USN[SV]? {_NAME}|USS {_NAME}|"
    rf"USCGC {_NAME}){_GAP}(?:APO|FPO|DPO),? A[AEP],? [0-9]{{5}}{BOUNDARY}"
)
_CERTAIN_UNIT = rf"(?:{_words(_CERTAIN_UNITS)}) #?(?:[0-9]{{1,5}}[A-Z]?|[A-Z]){BOUNDARY}"
_ANY_WORD = rf"{_LETTER}{{1,24}}[.]?"
_UNIT_AND_CITY = rf"{_CERTAIN_UNIT}(?:{_GAP}{_UNIT})?(?: {_NAME})?"
_BESIDE_UNIT = (
    rf"{_NUMBER} {_SMALL}{_NAME}(?:,? {_NUMBER})?[.]?{_GAP}{_UNIT_AND_CITY}",
    rf"{_NAME}[.]? {_NUMBER}{_GAP}{_UNIT_AND_CITY}",
    rf"{_NUMBER}(?: {_ANY_WORD}){{1,5}}[.]?(?:{_LINE_BREAK}|, ){_UNIT_AND_CITY}",
)
_LABEL = rf"(?:(?:{_words(_LABELS)}) ?[:：]|(?:{_words(_VERBS)})[:]?)(?:{_LINE_BREAK}|[ \t]{{0,8}})"
_CODE_LABEL = rf"(?:{_words(_CODE_LABELS)})(?: ?[:：]| is)?[ \t]{{0,2}}"
_BARE_REGIONS = "|".join(one for one in _US_REGIONS.split("|") if one not in _REGION_WORDS)
_SMALL_LETTERS = (
    rf"{_NUMBER} (?:[a-z]{{2,20}} ){{1,3}}(?:{_words(_SMALL_STREETS)})[.]?(?: [ns][ew]{BOUNDARY}"
    rf"(?:,? (?:[a-z]{{2,20}},? ){{1,3}}[0-9]{{5}})?|"
    rf"(?:,? (?:apt|suite|unit)[.]? ?#?[0-9a-z]{{1,4}})?"
    rf",? (?:[a-z]{{2,20}},? ){{1,4}}[0-9]{{5}}){BOUNDARY}"
)
_KANJI, _JAPANESE_DIGIT = "[一-龥々ヶケノぁ-んァ-ヴー]", "[0-9０-９]"
_JAPANESE_NAME = f"[{_KANJI}&&[^都道府県市区町村郡丁目番地号室階]]"
_JAPANESE = (
    rf"(?:〒 ?)?(?:{_JAPANESE_DIGIT}{{3}}[-－‐−]{_JAPANESE_DIGIT}{{4}}[ 　\n]{{0,2}})?"
    rf"(?:[一-龥]{{2,3}}[都道府県] ?)?(?:{_KANJI}{{1,8}}?[市区町村郡] ?){{1,3}}{_KANJI}{{0,12}}? ?"
    rf"(?:{_JAPANESE_DIGIT}{{1,4}}|[一二三四五六七八九十]{{1,3}})"
    rf"(?:丁目|番地の|番地|番|号|[-－‐−ー]{_JAPANESE_DIGIT}{{1,4}})"
    rf"(?:{_JAPANESE_DIGIT}{{1,4}}(?:番地の|番地|番|号)?|[-－‐−ー]{_JAPANESE_DIGIT}{{1,4}}){{0,3}}"
    rf"(?:[ 　]?{_KANJI}{{2,16}}[ 　]?{_JAPANESE_DIGIT}{{1,4}}(?:号室|階)?)?"
)
_ROMAJI = (
    rf"[0-9]{{1,3}}-[0-9]{{1,3}}(?:-[0-9]{{1,3}})?,? {_NAME}(?:, {_NAME})?"
    rf"-(?:ku|shi|cho|machi|gun){BOUNDARY}(?:, ?{_NAME}){{0,2}}(?: [0-9]{{3}}-[0-9]{{4}})?"
)
_WITH_STREET = rf"{_BEFORE_STREET}(?:{'|'.join(_STREET)})"
_CERTAIN = "|".join((_WITH_STREET, _BOX, *_BESIDE_UNIT))
_LABELLED = (
    rf"{_LABEL}{BOUNDARY}(?:{_CERTAIN}|(?:{_UNIT}{_GAP})?(?:"
    rf"(?:[0-9]{{1,5}} )?{_NUMBER},? {_SMALL}{_NAME}(?:,? {_NUMBER}{BOUNDARY})?|"
    rf"{_SMALL}{_NAME},? {_NUMBER}{BOUNDARY}[.]?))"
)
_BESIDE_BOX_OR_UNIT = "|".join((rf"{BOUNDARY}(?:{'|'.join((_BOX, *_BESIDE_UNIT))})", *_GERMAN))
_WITHOUT_TAIL = (
    _MILITARY,
    rf"{BOUNDARY}(?:{_NUMBER} {_NAME}(?:{_GAP}{_UNIT})?{_GAP})?{_NAME}(?:, ?| )"
    rf"(?:{_US_REGIONS})[ ,]{{1,2}}[0-9]{{5}}(?:-[0-9]{{4}})?{BOUNDARY}"
    rf"(?:{_GAP}{_COUNTRY})?",
    rf"{BOUNDARY}(?:{_UNIT},? )?(?:{_NUMBER} {_NAME}(?:{_GAP}{_UNIT})?{_GAP})?{_NAME}(?:, ?| )"
    rf"(?:(?:{_CANADIAN_REGIONS})[ ,]{{1,2}}{_CA}|(?:{_AUSTRALIAN_REGIONS})[ ,]{{1,2}}[0-9]{{4}})"
    rf"{BOUNDARY}(?:{_GAP}{_COUNTRY})?",
    _BEFORE_CITY,
    rf"{BOUNDARY}(?:{_BARE_REGIONS})[ ,]{{1,2}}[0-9]{{5}}(?:-[0-9]{{4}})?{BOUNDARY}",
    rf"{_CODE_LABEL}(?:{_CODE}|{_LAST_CODE}|[0-9]{{4}}|[0-9]{{3}} [0-9]{{2}}){BOUNDARY}"
    rf"(?: {_NAME})?",
    rf"{BOUNDARY}(?:DE?|CH|PL|NL|FR?)-(?:[0-9]{{5}}|[0-9]{{4}}|[0-9]{{2}}-[0-9]{{3}}) {_NAME}",
    _SMALL_LETTERS,
    _ROMAJI,
    _JAPANESE,
)
# one automaton for all of them would be too large for the cache of the regex engine
_ALTERNATIVES = (
    _LABELLED + _TAIL,
    rf"{BOUNDARY}{_WITH_STREET}{_TAIL}",
    rf"(?:{_BESIDE_BOX_OR_UNIT}){_TAIL}",
    "|".join(_WITHOUT_TAIL),
)

# separators and digits, without which a short word would be a landmark in every line
_DIGITS_BEHIND = "|".join(f"{gap}{digit}" for gap in (" ", ", ", ",") for digit in "0123456789")

# what is in every match of one of the patterns above, as (a pattern before,
# listed words, a pattern behind)
_LANDMARKS = (
    ("", _LABELS, " ?[:：]"),
    (
        "",
        _VERBS,
        rf"[^0-9A-Za-z.!]{{0,14}}(?:[0-9]{{1,5}}(?:[ ,A-Za-z–/-]|[.] )|[<#]|{_SMALL}[(]?{_UPPER})",
    ),
    (
        r"(?:(?:\A|[A-ZÀ-Ž0-9])\S*|[0-9] [a-z])",
        _join(" ", f"{_STREETS}|{_STREETS.upper()}|{_WEAK_STREETS}|{_NUMBERED_ROADS}"),
        r"(?:\W|\z)",
    ),
    (
        "[0-9](?:[ -]?[A-Za-z]{1,6}){0,2},?",
        _join(" ", _TYPES_BEHIND_NUMBER),
        rf" (?:d[eu]|les? |la |[dl]['’]|[(]?{_UPPER})",
    ),
    ("", _join(" ", _SMALL_STREETS), "[.]?,? [a-z]"),
    ("", _TYPES, rf" ?{_SMALL}[(]?{_UPPER}"),
    ("", f"{_STREET_ENDINGS}|{_SEPARATE_ENDINGS}", " {1,2}[0-9]"),
    ("", _BOXES, "[.:]? ?#?[0-9]"),
    ("", _CERTAIN_UNITS, " #?[0-9A-Z]"),
    ("", "APO|FPO|DPO", ",? A[AEP],? [0-9]"),
    ("", _join("", _US_REGIONS, " |,"), "[ ,]?[0-9]{5}"),
    ("", _join(" ", _CANADIAN_REGIONS, " |,"), "[ ,]?[A-Z][0-9][A-Z]"),
    ("", _join(" ", _AUSTRALIAN_REGIONS, _DIGITS_BEHIND), r"[0-9]{3}(?:\W|\z)"),
    (
        "",
        _join("", _WEAK_ENDINGS, _DIGITS_BEHIND.partition("|,")[0]),
        r"[0-9]{0,3}[a-z]?(?:[ -]?[/-] ?[0-9]{1,3})?[^0-9A-Za-z]{1,6}"
        "(?:[A-Z]{1,2}-)?[0-9]{4}[0-9 ]?[0-9A-Z]",
    ),
    ("", _CODE_LABELS, r"(?: ?[:：]| is)?[ \t]{0,2}[0-9A-Z]"),
    ("", _join("", "D-|DE-|CH-|PL-|NL-|F-|FR-", "0|1|2|3|4|5|6|7|8|9"), "[0-9]"),
    ("", "-ku|-shi|-cho|-machi|-gun", r"(?:\W|\z)"),
    ("", "市|区|町|村|郡", ""),
)


def _list_anchors() -> tuple[str, ...]:
    """The first letters of all landmarks, none that begins with another one."""
    first = sorted({word[:9] for _, words, _ in _LANDMARKS for word in words.split("|")})
    kept = [first[0]]
    for one in first[1:]:  # what begins with another one follows it in their order
        if not one.startswith(kept[-1]):
            kept.append(one)
    return tuple(kept)


# ---- context ----

_BARE = r"\A[^,;\n〒市区町村郡]*\z|\A[0-9]{1,2}(?:st|nd|rd|th)?,[^,;\n]*\z"  # a street alone
_WEAK_END = rf" (?:{_words(_WEAK_STREETS)})\z"
_YEAR = rf"\A(?:(?:19|20)[0-9]{{2}}{BOUNDARY}|[0-9]{{1,2}}(?:st|nd|rd|th)?,)"
_BEFORE_YEAR = (
    r"(?i:\b(?:in|since|of|by|during|until|till|for|from|early|late|mid|the|and|or|fiscal|"
    r"jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*[.,]? {1,2}(?:[0-9]{1,2},? )?)\z"
).replace(r"\b", BOUNDARY)
_PLACE_BEFORE = (
    r"(?i:(?:\A|[\n\r:;,(>|@\"-]|\b(?:at|on|to|from|near|is|address|visit|of|in))[ \t>]*)\z"
).replace(r"\b", BOUNDARY)
_AMBIGUOUS_END = r" (?:Dr|St|Ct|Pl|Ave|Av|Sq|Cir|Ter)[.]?\z"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for texts of several words, with a digit or `s/n` and a letter; the pattern has decided
    about the rest, and a span of another finder needs no more. Normalised forms are refused, since
    a surrogate of one has no shape."""
    value = candidates["value"]
    is_written = value.str.contains(r"[ \n]|\p{Han}") & value.str.contains(r"\p{L}")
    return is_written & value.str.contains(r"[0-9０-９一二三四五六七八九十]|s/n")


def _accepts_in_field(values: pl.Series) -> pl.Series:
    """True for words and a number, a street without a number, and a postal code; not for machines,
    links and codes."""
    is_written = ~values.str.contains(r"[@<>={}\\\x00-\x09]|://|\A[0-9A-Fa-f:.x]+\z")
    has_both = values.str.contains("[0-9]") & values.str.contains(
        r"\p{L}{2}.*[ ,\n]|\p{Han}|[ ,]\p{L}{2}"
    )
    is_street = values.str.contains(
        rf"\A(?:{_NAME} (?:{_words(_STREETS)})|(?:{_words(_TYPES)}) ?{_SMALL}{_NAME}|"
        rf"{_UPPER}{_LETTER}*(?:{_words(_STREET_ENDINGS)}))\z"
    )
    is_code = values.str.contains(rf"\A(?:{_CODE}|{_LAST_CODE}|[0-9]{{4,6}})\z")
    return (is_written & (has_both | is_street)) | is_code


def _check(values: pl.Series) -> pl.Series:
    """`word` for the words that end like a street, or name a court, else null."""
    return pl.select(pl.when(values.str.contains(_NO_STREETS)).then(pl.lit("word"))).to_series()


def _needs_context(values: pl.Series) -> pl.Series:
    """True for a street with a number and nothing else."""
    return values.str.contains(_BARE)


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """False for a part of a time, a year behind `in`, a day behind a month, a title or saint
    (`12 Ask Dr. Roe`), and for a weak word in running text (`12 Angry Park`)."""
    value, before, after = pl.col("value"), pl.col("before"), pl.col("after")
    is_year = value.str.contains(_YEAR) & before.str.contains(_BEFORE_YEAR)
    is_title = value.str.contains(_AMBIGUOUS_END) & after.str.contains(r"\A {1,2}[A-Z][a-z]")
    is_weak = value.str.contains(_WEAK_END) & ~before.str.contains(_PLACE_BEFORE)
    is_part = after.str.contains(
        r"\A(?: Journal|-[0-9]{1,2} ?[ap]m|:[0-9]| ?[ap][.]?m\b)"
    ) | before.str.contains(r"[0-9][:.,/-]\z|[$€£#]\z")
    return candidates.select(~(is_year | is_title | is_weak | is_part)).to_series()


# ---- values ----


def _normalise(values: pl.Series) -> pl.Series:
    plain = values.str.normalize("NFKC").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", "-")
    return plain.str.strip_chars("-")


def _is_distinctive(values: pl.DataFrame) -> pl.Series:
    """True for values with a word, a number and ten characters or more (six of Chinese ones)."""
    plain = values["normalised"]
    has_both = plain.str.contains(r"\p{L}{3}|\p{Han}") & plain.str.contains("[0-9]")
    return has_both & ((plain.str.len_chars() >= 10) | plain.str.contains(r"\p{Han}.*\p{Han}.{4}"))


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Addresses with other words and digits. Words of streets, units, regions and countries, and
    those of one or two letters, stay; of compounds (`Musterstraße`) the ending stays. No addresses
    are reserved for examples."""
    buffers = TextBuffers.from_array(to_large_string(values))
    start, end = find_matches(buffers, rf"[A-Za-zÀ-ÖØ-öø-ž]{{3,}}|{_JAPANESE_NAME}+")
    words = pl.Series(slice_spans(buffers, start, end), dtype=pl.String)
    is_japanese = words.str.contains(r"\A[^A-Za-zÀ-ž]").to_numpy()
    ending = words.str.extract(rf"\A.+?((?i:{_words(f'{_STREET_ENDINGS}|{_WEAK_ENDINGS}')}))\z")
    end = end - ending.str.len_bytes().fill_null(0).cast(pl.Int64).to_numpy()
    is_kept = words.str.to_lowercase().str.contains(rf"\A(?:{_list_kept_words()})\z").to_numpy()
    rows = np.flatnonzero(~is_kept)
    start, end, words, is_japanese = start[rows], end[rows], words.gather(rows), is_japanese[rows]
    row = np.searchsorted(buffers.offsets, start, side="right") - 1
    position = np.arange(len(row)) - np.searchsorted(row, row)
    bits = draws.take(row).u64(position.astype(np.uint64)) >> np.uint64(32)
    _, surnames = name_pools()
    places = np.array(_JAPANESE_PLACES, object)
    drawn = np.where(
        is_japanese,
        places[draw_index(bits, len(places))],
        surnames[draw_index(bits, len(surnames))],
    )
    new = match_case(pl.Series(drawn, dtype=pl.String), words)
    written = pl.Series(splice(buffers, start, end, to_large_string(new)), dtype=pl.String)
    flat = TextBuffers.from_array(to_large_string(written))
    is_redrawn = (flat.data >= 48) & (flat.data <= 57)
    is_redrawn[expand_ranges(*find_matches(flat, rf"{BOUNDARY}(?:{_GB}|{_CA}){BOUNDARY}"))] = True
    return redraw_characters(written, draws, ~is_redrawn, first_lane=1 << 16).alias(values.name)


KIND = Kind(
    name="STREET_ADDRESS",
    about="a postal address: street and number, unit, PO box, city, region and postal code",
    category="place",
    field_names=tuple(
        (
            "address|street|street address|home address|postal address|mailing address|"
            "billing address|shipping address|address line|anschrift|strasse|rue|adresse|"
            "adresse postale|direccion|calle|endereco|rua|indirizzo|via|straat|adres|ulica|"
            "地址|住址|住所|zip|zip code|postal code|postcode|post code|plz|postleitzahl|"
            "code postal|codigo postal|cep|codice postale|kod pocztowy|郵便番号|邮编"
        ).split("|")
    ),
    accepts_in_field=_accepts_in_field,
    aliases=("POSTAL_ADDRESS",),
    pattern="|".join(_ALTERNATIVES),
    alternatives=tuple(Alternative(one) for one in _ALTERNATIVES),
    anchors=_list_anchors(),
    landmarks="|".join(
        f"{before}(?:{_words(words)}){behind}" for before, words, behind in _LANDMARKS
    ),
    prefix_pattern=rf"{_LABEL}|{_CODE_LABEL}",
    suffix_pattern=rf"({_GAP}(?:{_words(_PHONE_LABELS)})[.:]? {{0,4}}[+0-9][^\n]*)|[^A-Z]([)])",
    accepts=_accepts,
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    is_distinctive=_is_distinctive,
    first_bytes=DIGITS + LETTERS + BEYOND_ASCII + b"(#",
    certain_length=12,
    phase=4,
    rank=85,
    opt_in=True,
    hits=(
        ("lives in 12 Larkspur Lane.", "12 Larkspur Lane"),
        (
            "4500 North Quillfeather St., Suite 210, or P.O. Box 1234",
            "4500 North Quillfeather St., Suite 210",
            "P.O. Box 1234",
        ),
        (
            "Ann Roe\n> 12 Larkspur Lane, Apt 4B\n> Springfield, IL 62704\n> USA",
            "12 Larkspur Lane, Apt 4B\n> Springfield, IL 62704\n> USA",
        ),
        ("Flat 3, 221B Quill Street, London NW1 6XE", "Flat 3, 221B Quill Street, London NW1 6XE"),
        ("Musterstraße 12a, 12345 Neustadt", "Musterstraße 12a, 12345 Neustadt"),
        ("au 5 bis rue de la Paix, 75002 Paris", "5 bis rue de la Paix, 75002 Paris"),
        ("en Calle Mayor 5, 28013 Madrid", "Calle Mayor 5, 28013 Madrid"),
        ("ul. Polna 5/7, 00-950 Warszawa", "ul. Polna 5/7, 00-950 Warszawa"),
        ("青葉県緑川市桜台1-2-3", "青葉県緑川市桜台1-2-3"),
        ("Address: 7 Quillfeather", "7 Quillfeather"),
        (
            "at 5 Quill Arcade, Port Larkspur, VIC, 3344, or 7 Quill Ford, Larkspur, BC T1X 3Y5",
            "5 Quill Arcade, Port Larkspur, VIC, 3344",
            "7 Quill Ford, Larkspur, BC T1X 3Y5",
        ),
        ("Rosenring 14, 88360 Neustadt", "Rosenring 14, 88360 Neustadt"),
        ("wonende te Larksteeg 96, 3306 CU Geersdijk,", "Larksteeg 96, 3306 CU Geersdijk"),
        ("residente in Strada Larice, 39, 09020 Larice", "Strada Larice, 39, 09020 Larice"),
        ("Houston, TX 77002 and PLZ 10115", "Houston, TX 77002", "10115"),
    ),
    near_misses=(
        "12 monkeys drive a car, 5 Way, 3 Days",
        "in 2001 Main events, and in 1999 Wall Street fell",
        "version 2.10 Park, 10:00 PM CT, 12 Ask Dr. Roe",
        "77002, 10115 Berlin, Arbeitsplatz 5",
        "3 Supreme Court",
        "Spring 2019, Engineering 2, Workpad 4, 2019, in Act 2019, WA, 7 of 2019 in SA 2019",
        "x = 12 * Lane(3); 1 2 3 4 5",
    ),
)
