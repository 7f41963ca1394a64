r"""Numbers that a label beside them names: of passports, licences, identity cards, taxpayers,
insurances, vehicles, devices and records, coordinates and dates of birth. A row of `_ROWS` is one
form of one kind, with the labels before it.

Found is the whole token, with its letters and `/`, `:` and `-`: `Case No. 2024-CV-7893`,
`application (no. 36110/97)`. A label that means more than numbers needs a word for number behind
it: `case no.`, `claim #`. NPI (Luhn behind 80840) and DEA numbers are checked; vehicle
identification numbers are not, since only those of North America have a check digit. A number that
is of another kind by its form (a date, a social security or telephone number) is not found here.

Normalised form: letters in capitals and digits, without separators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from sanitize.kinds import date_time
from sanitize.kinds.countries.national_id import (
    character_values,
    passes_luhn,
    weighted_sum,
)
from sanitize.kinds.id_number import is_distinctive, make_surrogates, normalise_number
from sanitize.kinds.kind import Kind, LabelledForm, to_byte_matrix
from sanitize.kinds.labelled_forms import PHASE, is_labelled_value, list_field_names

# letters, digits and separators; how many digits, a form says
_TOKEN = r"[A-Za-z]{0,8}(?:[ ./-][A-Za-z]{1,4})?[ ./-]?[0-9][A-Za-z0-9]*(?:[/:._-][A-Za-z0-9]+)*"
_CARD = (
    r"[A-Z]{0,3}[0-9]{2,6}(?:[ .-][0-9]{2,7}){1,3}(?:[-/ ]?[0-9A-Z]{1,2})?"
    r"|[A-Z]{0,3} ?[0-9]{5,12}[A-Z]{0,2}"
)


# words before the number of a file of a court, which name more than that, and such numbers: with
# the letters of a division or register, and the year behind a slash
_COURT_LABELS = (
    "az|aktenzeichen|geschäftszeichen|geschäftszahl|gz|sygn. akt|sygn|sygnatura akt|sygnatura|"
    "zaaknummer|rolnummer|rekestnummer|parketnummer|r.g|rg|processo|proceso|procedimiento|autos|"
    "juicio verbal|juicio ordinario|juicio|expediente|dossier|pourvoi|ruolo|"
    "first appeal|second appeal|criminal appeal|civil appeal|writ petition|suit|sp. zn|målnummer|"
    "mål|saksnummer|sagsnummer|diarienummer"
)
_COURT_FILE = (
    r"[0-9]{2}/[0-9]{5}|[0-9]{1,7}/(?:19|20)?[0-9]{2}(?:[.-][A-Z0-9]{1,8})*"
    r"|(?:[0-9]{1,3}|(?-i:[IVX]{1,5})) (?-i:[A-Z]{1,3}[a-z]{0,4})(?: [a-z]{2,3})? "
    r"[0-9]{1,6}/[0-9]{2,4}[A-Za-z]?"
    r"|[0-9]{6,8} (?-i:[A-Z]{2} [A-Z]{3,4}) [0-9]{2}-[0-9]{1,5}|[A-Z]/[0-9]{2}/[0-9]{5,7}"
    r"|[0-9]{1,5} of (?:19|20)[0-9]{2}"
)
# dates, times and social security numbers, which are of their own kinds whatever label they have
_OTHER_VALUES = (
    r"\A(?:(?:19|20)[0-9]{2}[./-][0-9]{1,2}[./-][0-9]{1,2}|[0-9]{1,2}[./-][0-9]{1,2}[./-]"
    r"(?:19|20)[0-9]{2}|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?|[0-9]{3}-[0-9]{2}-[0-9]{4})\z"
)


def has_digits(count: int) -> Callable[[pl.Series], pl.Series]:
    """A check for values with at least so many digits that have no form of another kind."""
    return lambda values: (
        (values.str.count_matches("[0-9]") >= count) & ~values.str.contains(_OTHER_VALUES)
    )


def _is_npi(values: pl.Series) -> pl.Series:
    """True for national provider identifiers: Luhn, with 80840 in front (45 CFR 162.406)."""
    rows = to_byte_matrix("80840" + values)
    return pl.Series(passes_luhn(rows[:, :15]), dtype=pl.Boolean)


def _is_dea(values: pl.Series) -> pl.Series:
    """True for numbers of the US Drug Enforcement Administration: the sum of digits 1, 3, 5 and
    twice that of digits 2, 4, 6 ends in the seventh."""
    rows = to_byte_matrix(values, 9)[:, 2:9]
    good = weighted_sum(rows, (1, 2, 1, 2, 1, 2)) % 10 == character_values(rows)[:, 6]
    return pl.Series(good, dtype=pl.Boolean)


def is_routing_number(values: pl.Series) -> pl.Series:
    """True for routing numbers of US banks (weights 3, 7, 1)."""
    rows = to_byte_matrix(values.str.replace_all("[^0-9]", ""), 9)
    return pl.Series(weighted_sum(rows, (3, 7, 1) * 3) % 10 == 0, dtype=pl.Boolean)


def split_labels(labels: str) -> tuple[str, ...]:
    """The labels of a text in which `|` is between them."""
    return tuple(labels.split("|")) if labels else ()


def make_form(
    labels: str,
    number_labels: str,
    pattern: str,
    check: Callable[[pl.Series], pl.Series] | None = None,
    *,
    names_fields: bool = True,
) -> LabelledForm:
    """A form whose labels are written with `|` between them."""
    return LabelledForm(
        names_fields=names_fields,
        labels=split_labels(labels),
        number_labels=split_labels(number_labels),
        pattern=pattern,
        check=check,
    )


# kind, category and what it is; its forms; hits; near misses
_Row = tuple[str, str, str, tuple[LabelledForm, ...], tuple[tuple[str, ...], ...], tuple[str, ...]]
_ROWS: tuple[_Row, ...] = (
    (
        "PASSPORT_NUMBER",
        "identifier",
        "a number of a passport",
        (
            make_form(
                "passport|reisepass|passnummer|passeport|pasaporte|passaporto|passaporte|paspoort|"
                "paszport|паспорт|护照|護照|パスポート|旅券番号|여권번호",
                "",
                r"[0-9]{2} ?[0-9]{2} ?[0-9]{6}|[A-Z]{0,3}[ -]?[0-9]{6,9}[A-Z]{0,2}"
                r"|[C-Z][C-Z0-9]{8}",
                has_digits(4),
            ),
        ),
        (
            ("Passport No. K1234567, issued", "K1234567"),
            ("passport: C01X00T47 and Reisepass-Nr. C01X00T48", "C01X00T47", "C01X00T48"),
            ("паспорт 4509 123456", "4509 123456"),
            ("Passport number:\nK1234567\n", "K1234567"),
        ),
        ("order K1234567", "passport control 2024", "passport expires 2024-05-01"),
    ),
    (
        "LICENSE_NUMBER",
        "identifier",
        "a number of a driving or professional licence, or of a certificate",
        (
            make_form("npi|national provider identifier", "", "[12][0-9]{9}", _is_npi),
            make_form("dea", "", "[A-Z][A-Z9][0-9]{7}", _is_dea),
            make_form(  # a letter in front shows that it is no version
                "license|licence|lic",
                "",
                r"(?-i:[A-Z]{1,3}[ -]?[0-9]{5,12}[A-Z]?|[A-Z][0-9]{3}(?:-[0-9]{3,5}){1,3})",
                names_fields=False,
            ),
            make_form(
                "crm|oab",
                "",
                r"(?-i:[A-Z]{2})[ /-]?[0-9]{2,3}[.]?[0-9]{3}"
                r"|[0-9]{1,3}[.]?[0-9]{3}[ /-]?(?-i:[A-Z]{2})",
                names_fields=False,
            ),
            make_form(
                "driver's license|driver’s license|drivers license|driver license|driving license|"
                "driver's licence|driver’s licence|driver licence|driving licence|führerschein|"
                "permis de conduire|patente di guida|permiso de conducir|"
                "carta de condução|rijbewijs|prawo jazdy|"
                "водительское удостоверение|驾驶证|運転免許証|dl|medical license|"
                "nursing license|sbn|csr|rpps|adeli|cpso|gmc|ahpra|big-nummer|lanr|bsnr|pwz|"
                "prawa wykonywania zawodu|colegiado|colegiada|cédula profissional|"
                "cédula profesional|ordine dei medici",
                "license|licence|bar|certificate|registration|permit|visa|commission|provider|"
                "law society|reg|ordre|zulassung|approbation",
                _TOKEN,
                has_digits(4),
            ),
        ),
        (
            ("driver's license D1234567", "D1234567"),
            ("NPI 1234567893, DEA number AB1234563", "1234567893", "AB1234563"),
            ("Bar No. 123456; licence number: D123-4567-8901", "123456", "D123-4567-8901"),
            (
                "your licence (L652-9838-2507), nº colegiado: 283846218",
                "L652-9838-2507",
                "283846218",
            ),
            ("CRM 12345-SP, provider no. 6907158U", "12345-SP", "6907158U"),
        ),
        (
            "order D1234567",
            "NPI 1234567890",
            "DEA AB1234567",
            "the bar 123456",
            "license 2.0",
            "license MIT",
        ),
    ),
    (
        "IDENTITY_CARD",
        "identifier",
        "a number of an identity card",
        (
            make_form("cnic", "", "[0-9]{5}-?[0-9]{7}-?[0-9]"),
            make_form("curp", "", "[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]"),
            make_form("nik|nomor induk kependudukan", "", "[0-9]{16}"),
            make_form("nin|national identification", "", "[0-9]{11}"),
            make_form(
                "identity card|id card|national id card|identity number|"
                "personalausweis|ausweisnummer|carte d'identité|carte d’identité|"
                "carte nationale d'identité|carta d'identità|carta d’identità|carta identità|"
                "cédula|cedula|cédula de ciudadanía|documento de identidad|dni|cni|"
                "bilhete de identidade|identiteitskaart|dowód osobisty|nr dowodu|"
                "удостоверение личности|身份证|身份证号|身分證",
                "national id",
                _CARD + "|[C-Z][C-Z0-9]{8}",
                has_digits(5),
            ),
        ),
        (
            ("identity card no. 123456789", "123456789"),
            ("Personalausweis L01X00T47, CNIC 42101-1234567-1", "L01X00T47", "42101-1234567-1"),
            ("carta d'identità CA00000AA", "CA00000AA"),
        ),
        ("order 123456789", "CNIC 42101", "identity cards of 2024"),
    ),
    (
        "TAX_NUMBER",
        "identifier",
        "a number of a taxpayer or employer, or for value added tax",
        (
            make_form("ein|fein|employer identification", "", "[0-9]{2}-?[0-9]{7}"),
            make_form(
                "itin|tin|tax id|tax identification|taxpayer|taxpayer id|taxpayer identification|"
                "vat|vat id|vat reg|vat registration|ust-idnr|ust-idnr.|ust-id|"
                "umsatzsteuer-identifikationsnummer|steuernummer|steuer-nr.|steuer-nr|n° tva|tva|"
                "numéro de tva|partita iva|p.iva|p. iva|btw|btw-nummer|nip|gstin|utr|rfc|"
                "identificación fiscal|инн",
                "tax",
                r"(?:[A-Z]{2} ?)?[0-9][0-9A-Z]*(?:[ ./-][0-9][0-9A-Z]*)*"
                r"|[A-Z&Ñ]{3,4}[0-9]{6}[A-Z0-9]{3}",
                has_digits(7),
            ),
        ),
        (
            ("EIN 12-3456789", "12-3456789"),
            ("VAT DE123456789, USt-IdNr.: DE 123456788", "DE123456789", "DE 123456788"),
            ("GSTIN 27ABCPR1234F1Z5", "27ABCPR1234F1Z5"),
        ),
        ("order 12-3456789", "VAT 19 %", "tax 1234567"),
    ),
    (
        "INSURANCE_NUMBER",
        "identifier",
        "a number of a health, social or other insurance",
        (
            make_form(  # long, or with letters in front: a claim of a patent has no such number
                "policy|claim|police|polizza|póliza|apólice|polis|polisa",
                "",
                r"(?-i:[A-Z]{2,4})[-/ ]?[0-9]{5,12}(?:[-/][0-9A-Z]{1,6})*"
                r"|[0-9]{7,12}(?:-[0-9]{1,4})?",
                names_fields=False,
            ),
            make_form("cip|ramq|nam", "", "[A-Z]{4} ?[0-9]{4} ?[0-9]{4,8}", names_fields=False),
            make_form(
                "mbi|medicare beneficiary|beneficiary identifier|medicare beneficiary identifier|"
                "medicare|medicaid|health insurance|"
                "health card|ohip|ehic|insurance id|insurance|national insurance|member id|"
                "subscriber id|group number|policy id|krankenversicherung|"
                "krankenversichertennummer|versichertennummer|versicherungsnummer|versicherungsschein|"
                "rentenversicherungsnummer|sozialversicherungsnummer|sv-nummer|"
                "sécurité sociale|n° sécu|mutuelle|seguridad social|tessera sanitaria|phn|"
                "personal health|healthcare identifier|ihi|hicn|abha|cartão sus|cns|kvnr|"
                "krankenkassennummer|assurance maladie|zorgverzekering",
                "policy|claim|subscriber|beneficiary|health plan|police|polizza|póliza|apólice|"
                "polis",
                r"[0-9]{2} ?[0-9]{6} ?[A-Z] ?[0-9]{3}|[0-9]{3,6}(?:[ -][0-9]{2,6}){1,4}|" + _TOKEN,
                has_digits(4),
            ),
        ),
        (
            ("Medicare number 1EG4-TE5-MK73", "1EG4-TE5-MK73"),
            ("policy no. AB/12-345678, claim # 4482913", "AB/12-345678", "4482913"),
            ("Rentenversicherungsnummer 15 070649 C 103", "15 070649 C 103"),
            ("Policy HH/7680924/29, claim 7643296125", "HH/7680924/29", "7643296125"),
            ("beneficiary identifier of the plaintiff: 1EG4-TE5-MK73", "1EG4-TE5-MK73"),
        ),
        ("order 4482913", "our policy 2024-12", "insurance of 20 cars", "policy no. 2024-05-01"),
    ),
    (
        "VEHICLE_ID",
        "identifier",
        "a vehicle identification number or license plate",
        (
            make_form(
                "vin|vehicle identification|vehicle id|chassis|fahrgestellnummer|fin",
                "",
                "[A-HJ-NPR-Z0-9]{13}[0-9]{4}",
            ),
            make_form(
                "license plate|licence plate|number plate|vehicle registration|kennzeichen|"
                "kfz-kennzeichen|immatriculation|plaque d'immatriculation|matrícula|targa|kenteken|"
                "numer rejestracyjny|госномер",
                "plate",
                r"(?-i:[A-ZÄÖÜ]{1,3}[ -]?[A-Z]{0,2}[ -]?[0-9]{1,4}(?:[ -]?[A-Z]{1,3})?"
                r"|[0-9]{1,4}[ -]?[A-Z]{1,3}(?:[ -]?[0-9]{1,4})?)",
                lambda values: values.str.len_bytes() >= 5,
            ),
            make_form(  # words that mean more: only letters and digits in the groups of a plate
                "plate|rego|reg|registration|registered|immatriculé|immatriculée|matriculado",
                "",
                r"(?-i:[A-Z]{2}[0-9]{2} ?[A-Z]{3}|[A-Z]{2}[ -][0-9]{3}[ -][A-Z]{2}"
                r"|[A-Z]{3}[ -][0-9]{3,4}|[0-9][A-Z]{2}[ -][0-9][A-Z]{2}"
                r"|[0-9]{1,3}-[A-Z]{1,3}-[0-9]{1,6}|[0-9][A-Z]{3}[0-9]{3}|[A-Z]{3}[0-9]{3})",
                names_fields=False,
            ),
        ),
        (
            ("VIN: 1HGCM82633A004352", "1HGCM82633A004352"),
            ("license plate ABC-1234, Kennzeichen B-MW 1234", "ABC-1234", "B-MW 1234"),
            ("rego 1YN-9SK, registration number CA66 GJH", "1YN-9SK", "CA66 GJH"),
        ),
        (
            "order 1HGCM82633A004352",
            "VIN 1HGCM82633A00435",
            "license plates of 1234 cars",
            "registered 2024",
        ),
    ),
    (
        "DEVICE_ID",
        "identifier",
        "a serial number or IMEI of a device",
        (
            make_form(
                "imei|serial number|serial no|serial|s/n|sn|device id|device identifier|implant|"
                "udi|imsi|iccid|seriennummer|numéro de série|número de serie|numero di serie",
                "",
                "[A-Z0-9][A-Z0-9-]{2,10}[0-9][A-Z0-9-]{2,10}",
            ),
        ),
        (
            ("serial number C02XK1234", "C02XK1234"),
            ("IMEI 490154203237518", "490154203237518"),
        ),
        ("order C02XK1234", "serial port 2024"),
    ),
    (
        "RECORD_NUMBER",
        "identifier",
        "a number of a case, application, medical record, employee, customer or member",
        (
            make_form(_COURT_LABELS, "", _COURT_FILE, has_digits(4), names_fields=False),
            make_form(  # words that mean more: five digits or more
                "badge|inmate|prisoner|itinerary|rx|prescription|va claim|"
                "merchant id|loyalty|rewards|frequent flyer|frequent flier|known traveler",
                "",
                r"[A-Z]{0,3}[- ]?[0-9]{5,12}(?:-[0-9]{2,6})?|[0-9]{3}(?:[ -][0-9]{3}){2}",
                names_fields=False,
            ),
            make_form(
                "booking reference|booking code|record locator|reservation code|"
                "confirmation code|pnr",
                "",
                "(?-i:[A-Z0-9]{6})|[0-9]{3}-?[0-9]{7}",
                names_fields=False,
            ),
            make_form(
                "mrn|medical record|patient id|chart|case id|employee id|staff id|student id|"
                "customer id|membership id|aktenzeichen|geschäftszeichen|docket|"
                "kundennummer|kunden-nr|mitgliedsnummer|personalnummer|matrikelnummer|"
                "vorgangsnummer|personalnr|kundennr|n° client|numéro client|numéro de client|"
                "codice cliente|número de cliente|código de cliente|código do cliente|klantnummer|"
                "klantnr|relatienummer|numer klienta|nr klienta|kundnummer|vertragsnummer|"
                "fallnummer|fallnr|patientennummer|aufnahmenummer|patiëntnummer|patiëntnr|"
                "hospital record|historia clínica|nhc|prontuário|prontuario|cartella clinica|ipp|"
                "nosologico|księgi głównej|uhid|specimen id|accession|case ref|claim ref|"
                "customer ref|scheme ref|file ref|our ref|your ref|policy ref",
                "application|appeal|affaire|badge|case|charge|client|complaint|customer|dossier|"
                "employee|encounter|enrollment|enrolment|expediente|file|inmate|kunden|matter|"
                "member|membership|mitglieds|patient|payroll|personal|personnel|petition|prisoner|"
                "pupil|record|requête|staff|student|visitor|дело|заявление|hospital|loan|contract|"
                "estate|police report|incident report|crime|loyalty|rewards|frequent flyer|"
                "prescription|rx|reservation|booking|reference|citation|grievance|specimen|"
                "va file|recurso|procédure|rôle",
                _TOKEN,
                has_digits(4),
            ),
        ),
        (
            ("MRN: 00412-8841", "00412-8841"),
            ("application (no. 36110/97), Case No. 2024-CV-7893.", "36110/97", "2024-CV-7893"),
            ("Employee ID\nE-10442\n", "E-10442"),
            ("MRN 00123456\n40.712776 -74.005974", "00123456"),
            ("Az.: 7 O 439/27, R.G. n. 8545/2015", "7 O 439/27", "8545/2015"),
            ("N° RG 21/04417", "21/04417"),
            ("Sygn. akt I C 3668/18; Processo n.º 75/19.9T8SRV", "I C 3668/18", "75/19.9T8SRV"),
            ("the customer number of the seller, 4471920", "4471920"),
            ("badge 69650, prescription 6240297-05289", "69650", "6240297-05289"),
        ),
        (
            "order 00412-8841",
            "in this case 12345",
            "case no. 2024-05-01, employee number 123-45-6789",
            "MRN\n00123456 and more",
            "a badge of 2024, Phoenix, AZ 85001, the minute 12/24, processo 2024, reg 4417",
        ),
    ),
    (
        "COORDINATES",
        "place",
        "a latitude or longitude",
        (
            make_form(
                "lat|latitude|lng|lon|longitude|coordinates|coords|gps|gps coordinates|geo|"
                "breitengrad|längengrad|koordinaten|coordonnées|coordenadas|coordinate",
                "",
                r"[+-]?[0-9]{1,3}[.][0-9]{3,}°?(?: ?[NSEWO])?"
                r"(?:,? ?[+-]?[0-9]{1,3}[.][0-9]{3,}°?(?: ?[NSEWO])?)?",
            ),
        ),
        (
            ("lat: 40.712776, lng: -74.005974", "40.712776", "-74.005974"),
            ("GPS 40.7127,-74.0059", "40.7127,-74.0059"),
        ),
        ("weights 40.712776, -74.005974", "lat 5", "GPS 2.0"),
    ),
    (
        "DATE_OF_BIRTH",
        "demographic",
        "a date of birth beside a word that says so",
        (
            make_form(
                "dob|d.o.b.|d.o.b|date of birth|birth date|birthdate|birthday|bday|born|geboren|"
                "geb.|geburtsdatum|né le|née le|date de naissance|fecha de nacimiento|nacido el|"
                "nacida el|data di nascita|nato il|nata il|data de nascimento|nascido em|"
                "nascida em|geboortedatum|data urodzenia|дата рождения|родился|родилась|"
                "生年月日|出生日期",
                "",
                r"[0-9]{1,2}[./-][0-9]{1,2}[./-](?:[0-9]{4}|[0-9]{2})|[0-9]{4}[./-][0-9]{1,2}[./-]"
                r"[0-9]{1,2}|(?:19|20)[0-9]{6}|[0-9]{1,2}[^0-9]{3,22}[0-9]{4}"
                r"|[^\x00-@]{3,9}[.]? [0-9]{1,2}[a-z]{0,2},? [0-9]{4}",
                lambda values: date_time.KIND.is_field_value(values),
            ),
        ),
        (
            ("DOB: 03/12/1985", "03/12/1985"),
            ("born on May 14, 1985; geboren am 14. Mai 1985", "May 14, 1985", "14. Mai 1985"),
            ("BDAY:19850514", "19850514"),
        ),
        ("on 03/12/1985", "born in 1985", "DOB 13/13/1985"),
    ),
)


# kinds of which a column called an id (`customer_id`, `device.id`) links the rows of tables
_LINKING = ("RECORD_NUMBER", "DEVICE_ID", "VEHICLE_ID")


def _list_columns(name: str, forms: tuple[LabelledForm, ...]) -> tuple[str, ...]:
    """The names of fields of a kind."""
    names = list_field_names(forms)
    return tuple(one for one in names if not (name in _LINKING and one.endswith(" id")))


def make_labelled_kind(
    name: str,
    category: str,
    about: str,
    forms: tuple[LabelledForm, ...],
    hits: tuple[tuple[str, ...], ...],
    near_misses: tuple[str, ...],
    **settings: Any,
) -> Kind:
    """A kind whose values are found behind labels, in texts and as names of fields."""
    is_date = category == "demographic"  # of birth
    return Kind(
        name=name,
        about=about,
        category=category,
        pattern="",
        labelled_forms=forms,
        field_names=settings.pop("field_names", ()) + _list_columns(name, forms),
        accepts_in_field=lambda values: is_labelled_value(forms, values),
        normalise=normalise_number,
        make_surrogates=date_time.KIND.make_surrogates if is_date else make_surrogates,
        is_distinctive=is_distinctive,
        phase=PHASE,
        opt_in=True,
        hits=hits,
        near_misses=near_misses,
        **settings,
    )


KINDS = tuple(make_labelled_kind(*row, rank=61 + number) for number, row in enumerate(_ROWS))
