"""Further countries, a row for each identifier. Most have a check character from a weighted sum of
the characters before it. Indonesian and Danish numbers have only a date of birth (Danish ones have
had no check digit since 2007). Numbers of Pakistan (CNIC) and Nigeria (NIN) have neither, and are
found behind their labels as IDENTITY_CARD.

Sources: AT Hauptverband der Sozialversicherungsträger; BE Rijksregister; CH Zentrale
Ausgleichsstelle; CL Servicio de Impuestos Internos; AR AFIP; CZ Act 133/2000; GR, IL, AE Luhn; HU
Act XX of 1996; IE Department of Social Protection; MX RENAPO; NO Skatteetaten; NZ Inland Revenue;
RO Law 105/1996; RU Pension Fund and Federal Tax Service; SG ICA; UA State Tax Service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sanitize.array_types import I64, U8, Mask
from sanitize.kinds.countries.national_id import (
    STRONG_CHECK_RANK,
    character_values,
    is_date,
    make_national_id,
    passes_luhn,
    two_digits,
    weighted_sum,
)
from sanitize.kinds.kind import CAPITALS, DIGITS


def _has_check(
    weights: Sequence[int], modulus: int, characters: bytes, place: int = -1, first: int = 0
) -> Callable[[U8], Mask]:
    """A check: the weighted sum of the characters from `first` on, modulo `modulus`, is the index
    of the character at `place` in `characters`."""

    def is_valid(rows: U8) -> Mask:
        rest = weighted_sum(rows[:, first:], weights) % modulus
        good: Mask = np.frombuffer(characters, np.uint8)[rest] == rows[:, place]
        return good

    return is_valid


def _has_date(year: int, month: int, day: int) -> Callable[[U8], Mask]:
    """A check of the date at these places; added to the month are 0, 20, 50 or 70, to the day 0 or
    40. Of a year of two digits 00 is taken for 2000."""

    def is_valid(rows: U8) -> Mask:
        months, days = two_digits(rows, month), two_digits(rows, day)
        months = np.where(months > 50, months - 50, months)
        return is_date(
            2000 + two_digits(rows, year),
            np.where(months > 20, months - 20, months),
            np.where(days > 40, days - 40, days),
        )

    return is_valid


def _all_of(*checks: Callable[[U8], Mask]) -> Callable[[U8], Mask]:
    """A check that all of these pass."""

    def is_valid(rows: U8) -> Mask:
        good: Mask = np.logical_and.reduce([check(rows) for check in checks])
        return good

    return is_valid


def _number(rows: U8, size: int) -> I64:
    """The number that the first characters of each row are."""
    return weighted_sum(rows, [10**power for power in range(size - 1, -1, -1)])


def _is_belgian(rows: U8) -> Mask:
    # the number is that of a person born from 2000 on where it has a 2 in front
    number, check = _number(rows, 9), two_digits(rows, 9)
    good: Mask = (97 - number % 97 == check) | (97 - (number + 2 * 10**9) % 97 == check)
    return good


def _is_curp(rows: U8) -> Mask:
    value = character_values(rows)
    value += value >= 24  # Ñ is between N and O
    good: Mask = -(value[:, :17] @ np.arange(18, 1, -1)) % 10 == value[:, 17]
    return good


def _is_nric(rows: U8) -> Mask:
    offset = np.where(np.isin(rows[:, 0], list(b"TG")), 4, 0)
    rest = (weighted_sum(rows[:, 1:], (2, 7, 6, 5, 4, 3, 2)) + offset) % 11
    letters = np.frombuffer(b"JZIHGFEDCBAXWUTRQPNMLK", np.uint8)
    good: Mask = letters[rest + 11 * np.isin(rows[:, 0], list(b"FG"))] == rows[:, 8]
    return good


def _is_pps(rows: U8) -> Mask:
    # the second letter, if there is one, counts from A = 1; W as 0
    second = rows[:, 8:].astype(np.int64) - 64
    rest = (weighted_sum(rows, range(8, 1, -1)) + 9 * np.where(second == 23, 0, second).sum(1)) % 23
    good: Mask = np.frombuffer(b"WABCDEFGHIJKLMNOPQRSTUV", np.uint8)[rest] == rows[:, 7]
    return good


def _is_snils(rows: U8) -> Mask:
    good: Mask = weighted_sum(rows, range(9, 0, -1)) % 101 % 100 == two_digits(rows, 9)
    return good


def _is_birth_number(rows: U8) -> Mask:
    good: Mask = _number(rows, 10) % 11 == 0
    return good


def _is_ird(rows: U8) -> Mask:
    first = -weighted_sum(rows, (3, 2, 7, 6, 5, 4, 3, 2)) % 11
    second = -weighted_sum(rows, (7, 4, 3, 2, 5, 2, 7, 6)) % 11
    good: Mask = np.where(first == 10, second, first) == character_values(rows)[:, 8]
    return good


KINDS = (
    make_national_id(
        name="AE_EMIRATES_ID",
        about="an identity number of the United Arab Emirates",
        country="AE",
        bare_pattern=r"784-(?:19|20)[0-9]{2}-[0-9]{7}-[0-9]|784(?:19|20)[0-9]{10}",
        labels=("Emirates ID", "EID"),
        is_valid=passes_luhn,
        alphabets=[b"7", b"8", b"4", b"1", b"9", b"456789", *[DIGITS] * 9],
        check_length=1,
        first_bytes=b"7",
        rank=STRONG_CHECK_RANK,
        hits=(("784-1985-1234567-3", "784-1985-1234567-3"),),
        near_misses=("784-1985-1234567-4",),
    ),
    make_national_id(
        name="AR_CUIT",
        about="an Argentine tax number (CUIT, CUIL)",
        country="AR",
        bare_pattern=r"(?:2[034567]|3[034])-[0-9]{8}-[0-9]",
        labelled_pattern=r"(?:2[034567]|3[034])[0-9]{9}",
        labels=("CUIT", "CUIL"),
        is_valid=_has_check((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), 11, b"09987654321"),
        alphabets=[b"2", b"0347", *[DIGITS] * 9],
        check_length=1,
        first_bytes=b"23",
        hits=(("20-12345678-6", "20-12345678-6"), ("CUIL 20123456786", "20123456786")),
        near_misses=("20-12345678-5", "20123456786"),
    ),
    make_national_id(
        name="AT_SVNR",
        about="an Austrian social insurance number",
        country="AT",
        bare_pattern=r"[1-9][0-9]{3} [0-3][0-9][01][0-9]{3}",
        labelled_pattern=r"[1-9][0-9]{3}[0-3][0-9][01][0-9]{3}",
        labels=("SVNR", "SV-Nummer", "Sozialversicherungsnummer", "Versicherungsnummer"),
        is_valid=_has_check((3, 7, 9, 0, 5, 8, 4, 2, 1, 6), 11, b"0123456789?", 3),
        alphabets=[b"123456789", *[DIGITS] * 3, b"012", DIGITS, b"0", b"123456789", DIGITS, DIGITS],
        check_length=0,
        first_bytes=b"123456789",
        hits=(("SVNR 1237 010180", "1237 010180"), ("SV-Nummer: 1237010180", "1237010180")),
        near_misses=("SVNR 1238 010180", "1237010180"),
    ),
    make_national_id(
        name="BE_NATIONAL_NUMBER",
        about="a Belgian national register number",
        country="BE",
        bare_pattern=r"[0-9]{2}[.][0-9]{2}[.][0-9]{2}-[0-9]{3}[.-][0-9]{2}",
        labelled_pattern=r"[0-9]{11}",
        labels=(
            "Rijksregisternummer",
            "Rijksregister",
            "NISS",
            "INSZ",
            "Numéro national",
            "Registre national",
        ),
        is_valid=_is_belgian,
        alphabets=[DIGITS, DIGITS, b"0", b"123456789", b"012", *[DIGITS] * 6],
        check_length=2,
        first_bytes=DIGITS,
        hits=(("85.07.30-033.28", "85.07.30-033.28"), ("NISS 85073003328", "85073003328")),
        near_misses=("85.07.30-033.29", "85073003328"),
    ),
    make_national_id(
        name="CH_AHV",
        about="a Swiss social insurance number",
        country="CH",
        bare_pattern=r"756[.][0-9]{4}[.][0-9]{4}[.][0-9]{2}",
        labelled_pattern=r"756[0-9]{10}",
        labels=("AHV", "AVS", "NAVS", "AHVN13"),
        is_valid=_has_check((1, 3) * 6, 10, b"0987654321"),
        alphabets=[b"7", b"5", b"6", *[DIGITS] * 10],
        check_length=1,
        first_bytes=b"7",
        hits=(("756.1234.5678.97", "756.1234.5678.97"), ("AHV-Nr. 7561234567897", "7561234567897")),
        near_misses=("756.1234.5678.98", "7561234567897"),
    ),
    make_national_id(
        name="CL_RUT",
        about="a Chilean tax and identity number",
        country="CL",
        bare_pattern=r"[0-9]{1,2}[.][0-9]{3}[.][0-9]{3}-[0-9Kk]",
        labelled_pattern=r"[0-9]{7,8}-?[0-9Kk]",
        labels=("RUT", "RUN"),
        is_valid=_has_check((3, 2, 7, 6, 5, 4, 3, 2), 11, b"0K987654321"),
        alphabets=[b"0", *[DIGITS] * 7, b"0123456789K"],
        check_length=1,
        first_bytes=DIGITS,
        shorten=lambda plain: plain.str.zfill(9),
        hits=(("12.345.678-5", "12.345.678-5"), ("RUT: 12345678-5", "12345678-5")),
        near_misses=("12.345.678-6", "12345678-5"),
    ),
    make_national_id(
        name="CZ_BIRTH_NUMBER",
        about="a Czech or Slovak birth number",
        country="CZ",
        bare_pattern=r"[0-9]{2}[0-35-8][0-9][0-3][0-9]/[0-9]{4}",
        labelled_pattern=r"[0-9]{10}",
        labels=("Rodné číslo", "Rodne cislo", "RČ", "R.č."),
        is_valid=_all_of(_is_birth_number, _has_date(0, 2, 4)),
        alphabets=[b"567", DIGITS, b"0", b"123456789", b"012", *[DIGITS] * 5],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("710319/2745", "710319/2745"), ("rodné číslo 7103192745", "7103192745")),
        near_misses=("710319/2746", "7103192745"),
    ),
    make_national_id(
        name="DK_CPR",
        about="a Danish personal identity number",
        country="DK",
        bare_pattern=r"[0-3][0-9][01][0-9]{3}-[0-9]{4}",
        labelled_pattern=r"[0-3][0-9][01][0-9]{7}",
        labels=("CPR", "Personnummer"),
        is_valid=_has_date(4, 2, 0),
        alphabets=[b"0", b"123456789", b"0", b"123456789", *[DIGITS] * 6],
        check_length=0,
        first_bytes=b"0123",
        hits=(("CPR-nummer 010190-1234", "010190-1234"), ("CPR: 0101901234", "0101901234")),
        near_misses=("CPR 320190-1234", "0101901234"),
    ),
    make_national_id(
        name="GR_AMKA",
        about="a Greek social security number",
        country="GR",
        bare_pattern=r"[0-3][0-9][01][0-9]{3} [0-9]{5}",
        labelled_pattern=r"[0-3][0-9][01][0-9]{8}",
        labels=("AMKA", "ΑΜΚΑ"),
        is_valid=_all_of(passes_luhn, _has_date(4, 2, 0)),
        alphabets=[b"012", b"123456789", b"0", b"123456789", *[DIGITS] * 7],
        check_length=1,
        first_bytes=b"0123",
        hits=(("010130 99997", "010130 99997"), ("ΑΜΚΑ 01013099997", "01013099997")),
        near_misses=("AMKA 01013099998", "01013099997"),
    ),
    make_national_id(
        name="HU_TAJ",
        about="a Hungarian social security number",
        country="HU",
        bare_pattern=r"[0-9]{3}-[0-9]{3}-[0-9]{3}",
        labelled_pattern=r"[0-9]{3}[ -]?[0-9]{3}[ -]?[0-9]{3}",
        labels=("TAJ", "TAJ szám", "TAJ-szám"),
        is_valid=_has_check((3, 7) * 4, 10, DIGITS),
        alphabets=[b"123456789", *[DIGITS] * 8],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("123-456-788", "123-456-788"), ("TAJ szám: 123 456 788", "123 456 788")),
        near_misses=("TAJ 123456789", "123456788"),
    ),
    make_national_id(
        name="HU_TAX_ID",
        about="a Hungarian tax identification number",
        country="HU",
        bare_pattern=r"8[0-9]{3} [0-9]{3} [0-9]{3}",
        labelled_pattern=r"8[0-9]{9}",
        labels=("Adóazonosító jel", "Adóazonosító"),
        is_valid=_has_check(range(1, 10), 11, b"0123456789?"),
        alphabets=[b"8", *[DIGITS] * 9],
        check_length=1,
        first_bytes=b"8",
        hits=(("8071 592 153", "8071 592 153"), ("adóazonosító jel 8071592153", "8071592153")),
        near_misses=("adóazonosító jel 8071592154", "8071592153"),
    ),
    make_national_id(
        name="ID_NIK",
        about="an Indonesian identity number",
        country="ID",
        bare_pattern=r"[1-9][0-9]{5}[.][0-7][0-9][01][0-9]{3}[.][0-9]{4}",
        labelled_pattern=r"[1-9][0-9]{5}[0-7][0-9][01][0-9]{7}",
        labels=("NIK", "KTP"),
        is_valid=_has_date(10, 8, 6),
        alphabets=[
            b"123456789",
            *[DIGITS] * 5,
            b"0",
            b"123456789",
            b"0",
            b"123456789",
            *[DIGITS] * 6,
        ],
        check_length=0,
        first_bytes=b"123456789",
        hits=(
            ("317401.450690.0001", "317401.450690.0001"),
            ("NIK 3174014506900001", "3174014506900001"),
        ),
        near_misses=("NIK 3174018506900001", "3174014506900001"),
    ),
    make_national_id(
        name="IE_PPS",
        about="an Irish personal public service number",
        country="IE",
        bare_pattern=r"[0-9]{7}[A-W]",
        labels=("PPS", "PPSN"),
        is_valid=_is_pps,
        alphabets=[*[DIGITS] * 7, CAPITALS],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("PPS 6433435F", "6433435F"),),
        near_misses=("6433435E",),
    ),
    make_national_id(
        name="IE_PPS_TWO_LETTERS",
        about="an Irish personal public service number with two letters",
        country="IE",
        bare_pattern=r"[0-9]{7}[A-W][A-IW]",
        labels=("PPS", "PPSN"),
        is_valid=_is_pps,
        alphabets=[*[DIGITS] * 7, CAPITALS, b"ABW"],
        check_length=2,
        first_bytes=DIGITS,
        hits=(("PPSN: 6433435OA", "6433435OA"),),
        near_misses=("6433435OB",),
    ),
    make_national_id(
        name="IL_ID",
        about="an Israeli identity number",
        country="IL",
        bare_pattern=r"[0-9]-[0-9]{7}-[0-9]",
        labelled_pattern=r"[0-9]{9}",
        labels=("Teudat Zehut", "תעודת זהות", "ת.ז."),
        is_valid=passes_luhn,
        alphabets=[*[DIGITS] * 9],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("1-2345678-2", "1-2345678-2"), ("Teudat Zehut 123456782", "123456782")),
        near_misses=("Teudat Zehut 123456783", "123456782"),
    ),
    make_national_id(
        name="MX_CURP",
        about="a Mexican population registry code",
        country="MX",
        bare_pattern=r"[A-Z]{4}[0-9]{2}[01][0-9][0-3][0-9][HMX][A-Z]{2}[B-DF-HJ-NP-TV-Z]{3}[0-9A-Z][0-9]",
        labels=("CURP",),
        is_valid=_is_curp,
        alphabets=[
            *[CAPITALS] * 4,
            DIGITS,
            DIGITS,
            b"0",
            b"123456789",
            b"012",
            b"123456789",
            b"HM",
            *[CAPITALS] * 2,
            *[b"BCDFGHJKLMNPQRSTVWXYZ"] * 3,
            DIGITS,
            DIGITS,
        ],
        check_length=1,
        first_bytes=CAPITALS,
        hits=(("BOXW310820HNERXN09", "BOXW310820HNERXN09"),),
        near_misses=("BOXW310820HNERXN08",),
    ),
    make_national_id(
        name="NO_FNR",
        about="a Norwegian national identity number",
        country="NO",
        bare_pattern=r"[0-7][0-9][0-5][0-9]{3} [0-9]{5}",
        labelled_pattern=r"[0-7][0-9][0-5][0-9]{8}",
        labels=("Fødselsnummer", "Fødselsnr", "Personnummer", "Fnr"),
        is_valid=_all_of(
            _has_check((3, 7, 6, 1, 8, 9, 4, 5, 2), 11, b"0?987654321", 9),
            _has_check((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), 11, b"0?987654321"),
            _has_date(4, 2, 0),
        ),
        alphabets=[b"012", b"123456789", b"0", b"123456789", *[DIGITS] * 7],
        check_length=2,
        first_bytes=b"01234567",
        hits=(("151086 95088", "151086 95088"), ("fnr 15108695088", "15108695088")),
        near_misses=("151086 95089", "15108695088"),
    ),
    make_national_id(
        name="NZ_IRD",
        about="a New Zealand tax number",
        country="NZ",
        bare_pattern=r"[0-9]{2,3}-[0-9]{3}-[0-9]{3}",
        labelled_pattern=r"[0-9]{8,9}",
        labels=("IRD",),
        is_valid=_is_ird,
        alphabets=[b"0", *[DIGITS] * 8],
        check_length=1,
        first_bytes=DIGITS,
        shorten=lambda plain: plain.str.zfill(9),
        phase=3,
        hits=(("IRD 49-091-850", "49-091-850"), ("IRD number 49091850", "49091850")),
        near_misses=("IRD 49-091-851", "49091850"),
    ),
    make_national_id(
        name="RO_CNP",
        about="a Romanian personal numeric code",
        country="RO",
        bare_pattern=r"[1-9][0-9]{2}[01][0-9][0-3][0-9] [0-9]{6}",
        labelled_pattern=r"[1-9][0-9]{2}[01][0-9][0-3][0-9]{7}",
        labels=("CNP",),
        is_valid=_all_of(
            _has_check((2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9), 11, b"01234567891"),
            _has_date(1, 3, 5),
        ),
        alphabets=[b"12", *[DIGITS] * 2, b"0", b"123456789", b"012", b"123456789", *[DIGITS] * 6],
        check_length=1,
        first_bytes=b"123456789",
        hits=(("1800101 221144", "1800101 221144"), ("CNP: 1800101221144", "1800101221144")),
        near_misses=("CNP 1800101221145", "1800101221144"),
    ),
    make_national_id(
        name="RU_SNILS",
        about="a Russian pension insurance number",
        country="RU",
        bare_pattern=r"[0-9]{3}-[0-9]{3}-[0-9]{3} [0-9]{2}",
        labelled_pattern=r"[0-9]{11}",
        labels=("СНИЛС", "SNILS"),
        is_valid=_is_snils,
        alphabets=[b"123456789", *[DIGITS] * 10],
        check_length=2,
        first_bytes=DIGITS,
        hits=(("СНИЛС 112-233-445 95", "112-233-445 95"), ("snils 11223344595", "11223344595")),
        near_misses=("112-233-445 96", "11223344595"),
    ),
    make_national_id(
        name="RU_INN",
        about="a Russian tax number of a person",
        country="RU",
        bare_pattern=r"[0-9]{4} [0-9]{8}",
        labelled_pattern=r"[0-9]{12}",
        labels=("ИНН", "INN"),
        is_valid=_all_of(
            _has_check((7, 2, 4, 10, 3, 5, 9, 4, 6, 8), 11, b"01234567890", 10),
            _has_check((3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8), 11, b"01234567890"),
        ),
        alphabets=[b"123456789", *[DIGITS] * 11],
        check_length=2,
        first_bytes=DIGITS,
        hits=(("5001 00732259", "5001 00732259"), ("ИНН 500100732259", "500100732259")),
        near_misses=("ИНН 500100732258", "500100732259"),
    ),
    make_national_id(
        name="SG_NRIC",
        about="a Singaporean identity number",
        country="SG",
        bare_pattern=r"[STFG][0-9]{7}[A-Z]",
        labels=("NRIC", "FIN"),
        is_valid=_is_nric,
        alphabets=[b"STFG", *[DIGITS] * 7, CAPITALS],
        check_length=1,
        first_bytes=b"STFG",
        hits=(("S1234567D", "S1234567D"),),
        near_misses=("S1234567E",),
    ),
    make_national_id(
        name="UA_RNTRC",
        about="a Ukrainian taxpayer number",
        country="UA",
        bare_pattern=r"[0-9]{5} [0-9]{5}",
        labelled_pattern=r"[0-9]{10}",
        labels=("РНОКПП", "ІПН", "RNTRC", "RNOKPP"),
        is_valid=_has_check((-1, 5, 7, 9, 4, 6, 10, 5, 7), 11, b"01234567890"),
        alphabets=[b"123456789", *[DIGITS] * 9],
        check_length=1,
        first_bytes=DIGITS,
        hits=(("27345 12343", "27345 12343"), ("РНОКПП 2734512343", "2734512343")),
        near_misses=("РНОКПП 2734512344", "2734512343"),
    ),
)
