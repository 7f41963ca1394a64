"""Telephone numbers: North American ones as they are written there, numbers that say their country by `+` or `00`, numbers with a trunk
zero that are valid somewhere, and numbers of which some digits are masked (`138****0199`). Between groups stand blanks and hyphens of any
sort, typeset ones too, and also two of them where the length of the number is known.

What a region writes at home counts without any word where the region has given it out: a trunk zero before two groups, and one group in
the mobile numbers of Britain, Germany, India and the Netherlands (`07400 123456`); Spanish `612 34 56 78`, Brazilian `(11) 91234-5678`,
Italian `312 345 6789` and Chinese `138 1234 5678`. A label before it, whatever it says but an identifier's name, changes nothing.

Their digits alone do not tell other numbers from orders, files and identifiers: shorter local ones, bare digits, short hotlines and
whatever fails the numbering plans are telephone numbers only where the text says so, before (`call`, `Fax:`) or behind them (`office`),
and not where the nearest word says otherwise (`NPI`, `order no.`). What is written as in North America is none right behind the name of a
product's or an order's number (`SKU 415-555-0199`: `named`).

Where the numbers of a country have one usual length, the pattern stops there, so that `+33 1 70 18 99 00 12 rue` ends with the number.
Identity: E.164 (`+` and digits, a trunk `(0)` left out) where the country is known, else the digits; with `x` and the extension behind.
"""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    APART,
    BLANKS,
    BOUND,
    HYPHENS,
    I64,
    Kind,
    digits,
    drawn,
    first_in,
    grid,
    joined,
    loosened,
    parted,
    reshaped,
    table_of,
    ungrid,
)

REGIONS = ("US", "CA", "GB", "DE", "FR", "ES", "IT", "NL", "BR", "IN", "CN", "JP", "AU")  # whose national numbers are known as such
_TAIL = table_of(b",ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")  # an extension begins with one of these
_GAP = f"[.()/{BLANKS}{HYPHENS}]{{0,2}}"
_EXTENSION = r"(?:,? {0,2}(?:[Xx]|[Ee][Xx][Tt](?:[.]|ension)?)[ .:]{0,2}[0-9]{1,6})?"
_ONE = rf"(?:(?:[+]|{BOUND})1[ .-]{{0,3}})?"
# groups apart by more than one blank or hyphen begin as the numbering plan has them: another number may stand before such a gap
_AMERICA = "(?:{}|{})".format(
    loosened(rf"{_ONE}(?:[(][0-9]{{3}}[)][ .-]{{0,3}}|{BOUND}[0-9]{{3}}[ ./-])[0-9]{{3}}[ .-][0-9]{{4}}", twice=False),
    loosened(rf"{_ONE}(?:[(][2-9][0-9]{{2}}[)][ .-]{{0,3}}|{BOUND}[2-9][0-9]{{2}}[ ./-])[2-9][0-9]{{2}}[ .-][0-9]{{4}}"),
)
# what stands before a number that is written so and is none: the check refuses both together
_NAMED = (
    rf"{BOUND}(?:(?:SKU|[Ss]ku|UPC|EAN|ASIN|[PpSs]/[Nn]|[Mm]odel|MODEL|[Ss]erial|SERIAL)(?: ?(?:[Nn]o[.]?|[Nn]umber|#))?|"
    r"(?:[Pp]art|PART|[Ii]tem|ITEM|[Ll]ot|LOT|[Bb]atch|[Cc]atalog|[Oo]rder|ORDER|[Ii]nvoice|INVOICE)(?: ?(?:[Nn]o[.]?|NO[.]?|[Nn]umber|#)))"
    rf"[ :#]{{1,3}}[0-9]{{3}}[ .-][0-9]{{3}}[ .-][0-9]{{4}}{BOUND}"
)
_USUAL = {  # digits after the country code (ITU-T E.164 national plans; others fall to the general form)
    8: "45|47|65|852|372|371",
    9: "27|31|32|33|34|41|48|61|351|353|380|966|971|972",
    10: "1|7|20|30|40|44|52|54|57|63|81|90|91|92|98",
    11: "55|86",
}
_ABROAD = "|".join(
    [rf"(?:{codes}){_GAP}(?:[(]0[)]{_GAP})?[0-9](?:{_GAP}[0-9]){{{size - 1}}}{_EXTENSION}{BOUND}" for size, codes in _USUAL.items()]
    + [rf"[0-9]{{2}}(?:{_GAP}[0-9]){{6,13}}{_EXTENSION}{BOUND}"]
)
# a doubled separator only where the groups are those in use: behind an open number it is the gap to the next thing of a line
_TRUNK = loosened(
    rf"(?:[(]0[0-9]{{1,5}}[)][ .-]{{0,2}}|{BOUND}0[0-9]{{1,8}}[ ./-]|{BOUND}0[1-9][0-9]{{1,4}} / ?)"
    rf"[0-9]{{2,8}}(?:[ .-][0-9]{{2,8}}){{0,4}}{_EXTENSION}{BOUND}",
    twice=False,
)
_TRUNK_APART = rf"{BOUND}0[0-9](?:{APART}[0-9]{{2}}){{4}}{BOUND}|{BOUND}0[0-9]{{1,4}}(?:{APART}[0-9]{{3,4}}){{2}}{BOUND}"
# groups of digits as local numbers are written, with one separator throughout; none is the beginning of a longer number in common use
_SHAPES = (
    *("3-4", "4-4", "2-3-3-4", "2-3-2-2", "2-3-3", "3-3-2-2", "3-3-3", "2-2-2-2-2", "2-2-2-2", "3-2-2-2", "3-2-3", "2-6", "3-8", "2-4-4"),
    *("4-4-4", "5-5"),
)
_MOBILE = loosened("1[3-9][0-9] [0-9]{4} [0-9]{4}|1[3-9][0-9]-[0-9]{4}-[0-9]{4}", twice=False)  # China; before 3-4, with which it begins
_LOCAL = "|".join(
    [
        loosened(separator.join(f"[0-9]{{{size}}}" for size in shape.split("-")), twice=shape == "3-4")
        for separator in (" ", "-", "[.]")
        for shape in _SHAPES
        if separator != "[.]" or shape.count("-") > 1  # with one dot it is a decimal
    ]
    + [loosened("[0-9]{4}[ .-][0-9]{3}[ .-][0-9]{4}", twice=False), "[0-9]{5,}"]
)
_BRACKETS = loosened(rf"[(][0-9]{{2,4}}[)][ .-]{{0,2}}[0-9]{{3,8}}(?:[ .-][0-9]{{3,4}})?{BOUND}", twice=False)
_MASKED = loosened(
    rf"(?:[+][0-9]{{1,3}}[ -]?|{BOUND})[0-9]{{3,4}}[ -]?(?:[0-9]{{4}})?(?:[*]{{3,8}}|[Xx]{{3,8}})"
    r"(?:[ -]?(?:[0-9]{3,4}|[Xx]{4}|[*]{4}))?",
    twice=False,
)
_IS_MASKED = loosened("[*]|[0-9 -][Xx]{3}", twice=False)
_YEARS = loosened(r"\A(?:(?:19|20)[0-9]{2}[ -](?:19|20)[0-9]{2}|(?:19|20)[0-9]{2}[01][0-9][0-3][0-9])\z")
_GROUPED = loosened("[(]|[ .-][0-9]+[ .-]")
# numbers as they are written at home, that are taken for one without any word where the region has given them out: mobile ones in two
# groups, and those without a trunk zero whose groups hardly anything else has
_HOME = {
    region: loosened(f"(?:{shapes})", twice=False)
    for region, shapes in {
        "GB": "0[17][0-9]{3} [0-9]{6}",
        "DE": "01[567][0-9]{1,3}[ /-][0-9]{6,8}|0[2-9][0-9]{1,4}(?: /|/)[ ]?[0-9]{3,8}(?:[ -][0-9]{1,5})?|0[2-9][0-9]{1,4} [0-9]{5,8}",
        "NL": "06[ -][0-9]{8}",
        "ES": "[6-9][0-9]{2}(?: [0-9]{2}){3}",
        "IT": "3[0-9]{2} [0-9]{3} [0-9]{4}",
        "BR": "[(][1-9][0-9][)] ?9?[0-9]{4}-[0-9]{4}",
        "IN": "0[0-9]{5} [0-9]{5}",
        "CN": _MOBILE,
    }.items()
}
# short words, and such as mean other things too: right before it
_BRIEF_WORDS = (
    r"(?:\A|[^a-z0-9_])(?:ph|mob|fon|fone|cel|tlf|tfno|tlfno|ramal|portable|fixe|fijo|fisso|vast|kontakt|contato|"
    r"contacto|recapito|bel|bell)"
)
_BRIEF = rf"{_BRIEF_WORDS}(?:[. ]{{1,2}}(?:no|nr|num|number|nummer|numero))?[ .:/=#-]{{0,4}}\z"
# the same in letters beyond ASCII
_FAR_WORDS = "电话|電話|手机|手機|携帯|传真|傳真|热线|熱線|致电|联系方式|連絡先|ファックス|फ़ोन|फोन|मोबाइल|दूरभाष"
_SPELLED = (
    r"(?:\A|[^\p{L}])(?:tél|téléphon[a-z]*|teléf|teléfonos?|móvil(?:es)?)(?:[^\p{L}0-9][^0-9]{0,40})?\z|"
    rf"(?:{_FAR_WORDS})[^0-9]{{0,12}}\z"
)
_MAY_BE_SPELLED = f"tél|teléf|móvil|{_FAR_WORDS}"  # a search for words alone is a hundred times faster, and few contexts hold one
# `tel no.`: a number of the sort that the word says
_NUMBERED = (
    rf"(?:{BOUND}(?:phones?|telephone|tele?|telefon|mobile|cell|handy|fax|contact|pager|ph|mob)[.]? ?|{_BRIEF_WORDS}[. ]{{1,2}})"
    rf"(?:no|nr|num|number)s?{BOUND}[ .:#=(-]*\z"
)
# what says that a number is one for calling: before it with no digit between, or right behind it; all in lower case
_SAYS = (
    rf"{BOUND}(?:phones?|phone ?num[a-z]*|cell ?phones?|telephon[a-z]*|tele?|telef[oa][a-z]*|cell|cellular|mobiles?|mobil|handy|gsm|fax|"
    r"facsimile|pager|call(?:s|ed|ing|back)?|contact(?:s|ed|ing)?|reach(?:ed|able|ing)?|dial(?:l?ed|l?ing)?|ring|text|"
    r"(?:hot|help|land) ?line|(?:support|direct) line|toll[ -]?free|whatsapp|sms|answering|messages? to|"
    r"mobil(?:nummer|nr|funk|telefon)|mobiel|movil|celular|cellulare|rufnummer|durchwahl|festnetz|natel|anrufen|erreichbar|llam(?:ar|e)|"
    r"appele[rz]|joindre|ligue)"
    rf"{BOUND}[\x00-/:-\x7f]{{0,44}}\z|{_BRIEF}|"
    r"(?:\A|[ \n\t,;|(])(?:office|work|home|desk|direct|main|voice|[owhcmftp])[:.] {0,3}\z"
)
_SAYS_AFTER = rf"\A[ ,]{{0,2}}[(-]?(?:(?:office|fax|mobile|cell|home|work|voice|phone|tel|direct|pager){BOUND}|[howcmf][)])"
_SHORT = rf"{BOUND}(?:call|dial|contact|hotline|helpline|text|sms)(?: us| me)?(?: at| on| to)?[]:]? ?\z"
# a piece of something longer stands before it
_PIECE = r"(?:[0-9][.:/=_-]?|[.=_]|[0-9] [:/-]) ?\z|(?:\A|[^a-z])/\z|-\z"
# what says that it is something else: the nearest word
_DENIES = (
    rf"{BOUND}(?:npi|imei|imsi|iccid|isbn|issn|ssn|iban|account|card|passport|serial|licen[sc]e|policy|invoice){BOUND}[\x00-/:-\x7f]{{0,44}}\z|"
    rf"{BOUND}(?:accounts|acct|orders?|case|file|ticket|ref|reference|routing|tax|security|zip|postcode|postal|id|ids|vin|mrn|record|identifier|"
    r"pin|code|box|room|docket|patent|bug|pages?|version|confirmation|conf|tracking|swift|bic|chapter|section|no|contract|member|"
    r"customer|employee|patient|student|amount|total|sin|nino|tfn|abn|acn|nhs|bsn|cpf|cnpj|siren|siret|aadhaar|medicare|nas|sku|parts?|"
    r"part ?(?:no|nr|num|number)|p/n|model|item|batch|lot)"
    rf"(?:[ .:#=(-]|{BOUND}(?:no|nr|num|number|is|was){BOUND})*\z"
)


def _check(values: pl.Series) -> pl.Series:
    """`length` for too few or too many digits, `same` where all are zeros, `year` for two years or a day in bare digits, `named` for the
    number of a product or an order."""
    plain = _normalise(values).str.replace(r"x.*\z", "")
    size = plain.str.count_matches("[0-9*]")
    return pl.select(
        pl.when(values.str.contains(r"\A[A-Za-z]"))
        .then(pl.lit("named"))
        .when((size < 5) | (size > 15) | ((size > 13) & values.str.contains(r"\A[0-9]*\z")))
        .then(pl.lit("length"))
        .when(plain.str.contains(r"\A[+]?0*\z"))
        .then(pl.lit("same"))
        .when(values.str.contains(_YEARS))
        .then(pl.lit("year"))
    ).to_series()


def _doubtful(values: pl.Series) -> pl.Series:
    """All but what a numbering plan knows, and masked numbers of a full length."""
    number = _normalise(values).str.replace(r"x.*\z", "")
    masked = number.str.contains("*", literal=True)
    known = (masked & (number.str.len_bytes() >= 10)).to_numpy()
    america = number.str.contains(r"\A[+]1[2-9][0-9]{2}[2-9][0-9]{6}\z") & values.str.contains(rf"\A(?:{_AMERICA}{_EXTENSION})\z")
    known |= (america | number.str.contains(r"\A[+]1[2-9][0-9]{2}[2-9][0-9]{6}\z") & values.str.starts_with("+")).to_numpy()
    asked = ~masked & ~pl.Series(known)
    # libphonenumber has no columnar form: it is asked about distinct values that look as if they told their country; `0020-0000-0000` is as
    # often a piece of an identifier, and has to stand alone or behind a word
    abroad = (
        asked & number.str.starts_with("+") & values.str.contains(r"\A(?:[+]|00[0-9]*[^0-9-])") & ~number.str.starts_with("+1")
    ).arg_true()
    known[abroad.to_numpy()] = [_code(value)[1] for value in number.gather(abroad)]
    return pl.Series(~known)


def _context(seen: pl.DataFrame) -> pl.Series:
    seen = seen.with_columns(pl.col("before", "after", "spelled").str.to_lowercase())
    denied = pl.col("before").str.contains(_DENIES) & ~pl.col("before").str.contains(_NUMBERED)
    said = pl.col("before").str.contains(_SAYS)
    spelled = seen["spelled"].str.contains(_MAY_BE_SPELLED).arg_true()
    if len(spelled):
        told = np.zeros(seen.height, np.bool_)
        told[spelled.to_numpy()] = seen["spelled"].gather(spelled).str.contains(_SPELLED).to_numpy()
        said |= pl.lit(pl.Series(told))
    said = (said & ~denied) | pl.col("after").str.contains(_SAYS_AFTER)
    # hotlines of five and six digits: right behind the word
    short = pl.col("value").str.contains(r"\A[0-9]{5,6}\z")
    # a plus that is no sign of arithmetic or of an added line
    plus = pl.col("value").str.contains(r"\A[+](?:[^0-9x]*[0-9]){9}") & pl.col("before").str.contains(r"[^ \n\t] ?[ (:>,;]\z")
    taken = seen.select(pl.when(short).then(pl.col("before").str.contains(_SHORT)).otherwise(said | (plus & ~denied))).to_series()
    # a trunk prefix, in brackets or before two groups, or groups as a region has them; no piece of something longer; given out
    value = pl.col("value")
    trunk = value.str.contains(rf"\A(?:{_TRUNK_APART}|{_TRUNK})\z") & value.str.contains(_GROUPED)
    home = value.str.contains(rf"\A(?:{'|'.join(_HOME.values())})\z")
    whole = (trunk | home) & ~pl.col("before").str.contains(_PIECE) & ~denied
    rows = seen.select((whole & ~pl.Series(taken) & ~pl.col("after").str.contains(r"\A[:./-]?[0-9]|\A:")).arg_true()).to_series()
    if len(rows):
        asked = seen.select(pl.col("value").gather(rows), trunk=trunk.gather(rows))
        once = asked.unique(maintain_order=True)
        taken = taken.scatter(
            rows, asked.join(once.with_columns(_given_out(once)), on=["value", "trunk"], maintain_order="left")["given_out"]
        )
    return taken


def _code(number: str) -> tuple[int, bool]:
    """The length of the country code, and whether the number can be one. libphonenumber has no columnar form.

    It knows today's plans only: eight national digits pass for any country, since plans grow (+225 and +229 had eight, now ten).
    """
    import phonenumbers

    try:
        parsed = phonenumbers.parse(number, None)
    except phonenumbers.NumberParseException:
        return 1, False
    why = phonenumbers.is_possible_number_with_reason(parsed)
    short = why in (phonenumbers.ValidationResult.TOO_SHORT, phonenumbers.ValidationResult.INVALID_LENGTH)
    known = phonenumbers.is_possible_number(parsed) or (short and len(phonenumbers.national_significant_number(parsed)) >= 8)
    return len(str(parsed.country_code)), known


def _given_out(asked: pl.DataFrame) -> pl.Series:
    """Whether each number is one that a region has given out: any of them for one with a `trunk` prefix in more than two groups, else one
    in which it is written so. libphonenumber has no columnar form: few are asked."""
    import phonenumbers

    value = pl.col("value")
    digits = value.str.replace("(?s)[A-Za-z].*", "").str.replace_all("[^0-9]", "")
    # one select for all regions: a call for each costs more than what it asks of a few numbers
    so = {region: value.str.contains(rf"\A(?:{shapes})\z") for region, shapes in _HOME.items()}
    table = asked.select("trunk", digits=digits, long=digits.str.len_bytes() >= 9, **so)
    good = np.zeros(asked.height, np.bool_)
    for region in REGIONS:
        own = table["trunk"] | table[region] if region in so else table["trunk"]
        may = (own & table["long"]).to_numpy() & ~good
        for place in np.flatnonzero(may).tolist():
            with contextlib.suppress(phonenumbers.NumberParseException):
                good[place] = phonenumbers.is_valid_number(phonenumbers.parse(table["digits"][place], region))
    return pl.Series("given_out", good)


def _normalise(values: pl.Series) -> pl.Series:
    masked = values.str.contains(_IS_MASKED)
    if masked.any():
        plain = values.filter(masked).str.replace_all("[Xx]", "*").str.replace_all("[^0-9*+]", "")
        return _plainly(values.clone().scatter(masked.arg_true(), "0")).scatter(masked.arg_true(), plain)
    return _plainly(values)


def _plainly(values: pl.Series) -> pl.Series:
    flat, offsets = joined(values)
    starts, stops = offsets[:-1], offsets[1:]
    row = np.repeat(np.arange(len(values)), np.diff(offsets))
    ends = first_in(_TAIL[flat], starts, stops)
    keep = digits(flat) & (np.arange(len(flat)) < ends[row])
    trunk = np.flatnonzero((flat[:-2] == ord("(")) & (flat[1:-1] == ord("0")) & (flat[2:] == ord(")"))) + 1
    trunk = trunk[row[trunk - 1] == row[trunk + 1]]
    keep[trunk[np.append(True, np.diff(row[trunk]) > 0)[: len(trunk)]]] = False
    digit = np.flatnonzero(keep)
    count = np.bincount(row[digit], minlength=len(values))
    plus = (np.append(flat, np.uint8(0))[starts] == ord("+")) & (stops > starts)
    # the first two digits of each value
    first = np.concatenate([[0], np.cumsum(count)])
    padded = np.append(flat[digit], np.zeros(2, np.uint8))
    one, two = padded[first[:-1]], padded[first[:-1] + 1]
    home = ~plus & (count == 10) & (one >= ord("2"))
    away = ~plus & (count >= 11) & (one == ord("0")) & (two == ord("0"))  # the prefix for calls abroad
    said = plus | home | away | ((count == 11) & (one == ord("1")))
    lead = said.astype(np.int64) + home - 2 * away
    edges = np.concatenate([[0], np.cumsum(count + lead)])
    out = np.empty(int(edges[-1]), np.uint8)
    place = np.arange(len(digit)) - first[row[digit]] + lead[row[digit]]
    shown = place >= said[row[digit]]
    out[(edges[row[digit]] + place)[shown]] = flat[digit][shown]
    out[edges[:-1][said]] = ord("+")
    out[edges[:-1][home] + 1] = ord("1")
    number = parted(out, edges, values.name)
    tailed = np.flatnonzero(ends < stops)
    if len(tailed):
        extension = pl.lit("x") + pl.col("value").str.extract(r"[Xx][A-Za-z]*[ .:]*([0-9]+)\z")
        tails = pl.DataFrame({"value": values.gather(tailed)}).select(extension.fill_null("")).to_series()
        number = number.scatter(tailed, number.gather(tailed) + tails)
    return number


def _fake(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Country code, trunk prefix, separators, masks and the place of an extension stay, the digits are drawn anew. `reserved`: 555-0100 to
    0199 of a drawn area; other countries have no such range in common.
    """
    number = _normalise(values)
    america = number.str.contains(r"\A[+]1[0-9]{10}(?:x|\z)") & ~values.str.starts_with("0")
    # a leading 1 is the country code, bare numbers have none
    kept = (values.str.starts_with("1") | values.str.starts_with("+1")).to_numpy().astype(np.int64)
    kept *= (number.str.count_matches("[0-9]") > 10).to_numpy()
    abroad = np.flatnonzero(~america.to_numpy())
    if len(abroad):
        plain = number.gather(abroad).str.replace(r"x.*\z", "")
        # no country: the prefix of zeros says what number it is
        zeros = values.gather(abroad).str.extract(r"\A[(]?(0*)").str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
        codes = {value: _code(value)[0] if value.startswith("+") else 0 for value in plain.unique()}
        kept[abroad] = zeros + [codes[value] for value in plain]
    out = _american(_redrawn(values, draws, kept), draws, kept, america.to_numpy(), reserved)
    # a drawn digit can read as a trunk prefix, and bare ones as a day: such rows keep more and more of their own
    for more in range(1, 9) if len(abroad) else ():
        bad = abroad[_worse(out.gather(abroad), number.gather(abroad))]
        out = out.scatter(bad, _redrawn(values.gather(bad), draws.rows(bad), kept[bad] + more))
    return out.alias(values.name)


def _worse(fakes: pl.Series, numbers: pl.Series) -> npt.NDArray[np.bool_]:
    """Which fakes are refused, or read as a number of another length, or with a country that they cannot have."""
    made = _normalise(fakes)
    bad = (_check(fakes).is_not_null() | (made.str.len_bytes() != numbers.str.len_bytes())).to_numpy().copy()
    plain = made.str.replace(r"x.*\z", "")
    rows = (plain.str.starts_with("+") & ~plain.str.contains("*", literal=True)).arg_true().to_numpy()
    real = numbers.str.replace(r"x.*\z", "")
    # libphonenumber has no columnar form; most rows are numbers of North America, or local ones, and not asked
    pairs = zip(plain.gather(rows), real.gather(rows), strict=True)
    bad[rows] |= np.array([not _code(fake)[1] and _code(value)[1] for fake, value in pairs], np.bool_)
    return bad


def _redrawn(values: pl.Series, draws: Draws, kept: I64) -> pl.Series:
    """All digits drawn anew but the first `kept` and a trunk `(0)`."""
    rows = grid(values)
    keep = ~digits(rows) | (np.cumsum(digits(rows), axis=1) <= kept[:, None])
    keep[:, 1:-1] |= (rows[:, :-2] == ord("(")) & (rows[:, 1:-1] == ord("0")) & (rows[:, 2:] == ord(")"))
    return reshaped(values, draws, keep[rows != 0], first_lane=8)


def _american(values: pl.Series, draws: Draws, kept: I64, america: npt.NDArray[np.bool_], reserved: bool) -> pl.Series:
    """North American rows with an area and an exchange that can be; 555 is left to `reserved`."""
    rows = grid(values)
    place = np.where(digits(rows) & america[:, None], np.cumsum(digits(rows), axis=1) - 1 - kept[:, None], -1)

    def put(at: int, digit: I64 | int, where: npt.NDArray[np.bool_] = america) -> None:
        spot = (place == at) & where[:, None]
        rows[spot] = np.broadcast_to(np.reshape(48 + digit, (-1, 1)), rows.shape)[spot]

    put(0, 2 + drawn(draws, 0, 8))
    put(3, 2 + drawn(draws, 1, 8))
    fives = ((place >= 3) & (place <= 5) & (rows == ord("5"))).sum(axis=1) == 3
    put(4, drawn(draws, 2, 5), fives)
    for at, digit in enumerate((5, 5, 5, 0, 1)) if reserved else ():
        put(3 + at, digit)
    return ungrid(rows)


KIND = Kind(
    name="PHONE_NUMBER",
    about="a telephone number",
    pattern=(
        rf"{_NAMED}|{_AMERICA}{_EXTENSION}{BOUND}|[+](?:{_ABROAD})|{_TRUNK_APART}|{_TRUNK}|{_MASKED}|{_BRACKETS}|"
        rf"{BOUND}(?:{_MOBILE}|{_LOCAL}){_EXTENSION}{BOUND}"
    ),
    turn=3,
    numeric=True,
    check=_check,
    doubtful=_doubtful,
    context=_context,
    normalise=_normalise,
    fake=_fake,
    rank=60,
)
