"""Invented names, companies, words and numbers: the pools from which the invented corpus is
generated. None of these people exist.

Domains are those reserved by RFC 2606, telephone numbers are 555-0100 to 555-0199, IP addresses are
from the documentation ranges, cards are the processors' published test numbers, accounts belong to
banks that do not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sanitize.array_types import F64, I64
from sanitize.text.common_words import COMMON_WORDS


def _to_string_array(values: list[str]) -> pa.Array:
    return pa.array(values, pa.large_string())


@dataclass(frozen=True)
class InventedData:
    """The pools from which an invented mail is generated, one Arrow array each."""

    word_tokens: pa.Array
    word_lengths: I64
    cumulative_weights: F64
    plain_words: pa.Array
    given_names: pa.Array
    surnames: pa.Array
    local_part_starts: pa.Array
    local_part_ends: pa.Array
    local_part_separators: pa.Array
    local_part_numbers: pa.Array
    domains: pa.Array
    hosts: pa.Array
    dates: pa.Array
    area_codes: pa.Array
    phone_formats: tuple[pa.Array, pa.Array]
    ip_prefixes: pa.Array
    hex_numbers: pa.Array
    url_prefixes: pa.Array
    card_numbers: pa.Array
    ibans: pa.Array
    subject_topics: pa.Array
    subject_endings: pa.Array
    folders: pa.Array
    greetings: pa.Array
    closings: pa.Array
    job_titles: pa.Array
    company_names: pa.Array
    phone_prefixes: pa.Array
    sentence_ends: pa.Array
    phrases: dict[str, pa.Array]


@lru_cache(maxsize=1)
def load_invented_data() -> InventedData:
    """Returns the pools; built once per process."""
    vocabulary = [*ENGLISH_WORDS, *FOREIGN_WORDS]
    tails = [
        " ",
        ", ",
        ". ",
        "\n",
        ",\n",
        ".\n",
        ".\n\n",
        " ",
        ", ",
        ". ",
        "\n> ",
        ",\n> ",
        ".\n> ",
        ".\n> \n> ",
    ]
    tokens = [
        (word[:1].upper() + word[1:] if capital else word) + tail
        for tail in tails
        for capital in (False, True)
        for word in vocabulary
    ]
    weight = 1.0 / (np.arange(len(ENGLISH_WORDS)) + 8.0)
    domains = [
        f"{host}example.{top}"
        for top in ("com", "org", "net")
        for host in ("", "mail.", "lists.", "sales.", "eu.", "lab.")
    ]
    domains = [
        *domains,
        *(f"{name}.example" for name in COMPANY_NAMES),
        *(f"{name}-{tail}.example" for name in COMPANY_NAMES for tail in ("energy", "law", "labs")),
    ]
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    # 1 January 2001 was a Monday
    weekdays = "Mon Tue Wed Thu Fri Sat Sun".split()
    starts = np.concatenate([[0], np.cumsum([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])])
    days = [
        f"{weekdays[int(starts[m] + d - 1) % 7]}, {d} {months[m]} 2001"
        for m in range(12)
        for d in range(1, 29)
    ]
    return InventedData(
        word_tokens=_to_string_array(tokens),
        word_lengths=np.array([len(word) + 1 for word in vocabulary], np.int64),
        cumulative_weights=np.cumsum(weight) / weight.sum(),
        plain_words=_to_string_array(
            [word for word in ENGLISH_WORDS if " " not in word and "'" not in word]
        ),
        given_names=_to_string_array(GIVEN_NAMES),
        surnames=_to_string_array(SURNAMES),
        local_part_starts=_to_string_array(
            [
                *(name.lower() for name in GIVEN_NAMES),
                *(name[0].lower() for name in GIVEN_NAMES),
                *GIVEN_NAMES,
            ]
        ),
        local_part_ends=_to_string_array([*(name.lower() for name in SURNAMES), *SURNAMES]),
        local_part_separators=_to_string_array([".", "_", "-", ""]),
        local_part_numbers=_to_string_array(["", *(str(number) for number in range(1, 99))]),
        domains=_to_string_array(
            [
                *domains,
                *(
                    domain.upper() if at % 3 == 0 else domain.title()
                    for at, domain in enumerate(domains)
                ),
            ]
        ),
        hosts=_to_string_array(
            [
                f"{name}.example"
                for name in (
                    "thyme",
                    "evans",
                    "mx1",
                    "mx2",
                    "relay",
                    "smtp",
                    "gate",
                    "post",
                    *COMPANY_NAMES[:40],
                )
            ]
        ),
        dates=_to_string_array(days),
        area_codes=_to_string_array(AREA_CODES),
        phone_formats=(
            _to_string_array([form[0] for form in PHONE_FORMATS]),
            _to_string_array([form[1] for form in PHONE_FORMATS]),
        ),
        ip_prefixes=_to_string_array(["192.0.2.", "198.51.100.", "203.0.113."]),
        hex_numbers=_to_string_array([f"{number:x}" for number in range(1024)]),
        url_prefixes=_to_string_array(["http://", "https://", "http://www.", "https://www."]),
        card_numbers=_to_string_array(
            [
                spelling
                for card in _CARD_NUMBERS
                for spelling in (card, _group_digits(card, " "), _group_digits(card, "-"))
            ]
        ),
        ibans=_to_string_array(_build_ibans()),
        subject_topics=_to_string_array(SUBJECT_TOPICS),
        subject_endings=_to_string_array(SUBJECT_ENDINGS),
        folders=_to_string_array(
            [
                "Inbox",
                "Sent Items",
                "All documents",
                "Discussion threads",
                "Notes inbox",
                "Archive",
                "Contracts",
            ]
        ),
        greetings=_to_string_array(
            ["Hi", "Hello", "Dear", "Good morning", "Good afternoon", "Hey"]
        ),
        closings=_to_string_array(
            [
                "Thanks,",
                "Best regards,",
                "Regards,",
                "Many thanks,",
                "Cheers,",
                "Talk soon,",
                "Sincerely,",
            ]
        ),
        job_titles=_to_string_array(
            [
                "Director",
                "Analyst",
                "Counsel",
                "Associate",
                "Trader",
                "Manager",
                "Engineer",
                "Assistant",
                "Vice President",
            ]
        ),
        company_names=_to_string_array([name.capitalize() for name in COMPANY_NAMES]),
        phone_prefixes=_to_string_array(
            ["Tel: ", "Phone: ", "Office: ", "Mobile: ", "Fax: ", "", "Direct "]
        ),
        sentence_ends=_to_string_array([". ", ". ", ".\n", ". ", ".\n\n"]),
        phrases={name: _to_string_array(phrases) for name, phrases in LEAD_IN_PHRASES.items()},
    )


def _group_digits(digits: str, separator: str) -> str:
    sizes = (4, 6, 5) if len(digits) == 15 else (4, 4, 4, 4)
    ends = np.cumsum(sizes)
    return separator.join(digits[end - size : end] for size, end in zip(sizes, ends, strict=True))


def _build_ibans() -> list[str]:
    """Returns 4,000 IBANs with valid check digits at banks that do not exist: TEST in two
    countries, bank code zero in the third."""
    rng, ibans = np.random.default_rng(0), []
    for account_no in range(4_000):
        digits = "".join(map(str, rng.integers(10, size=14)))
        country, account = [
            ("GB", "TEST" + digits),
            ("DE", "00000000" + digits[:10]),
            ("NL", "TEST" + digits[:10]),
        ][account_no % 3]
        number = "".join(str(int(letter, 36)) for letter in account + country + "00")
        iban = f"{country}{98 - int(number) % 97:02d}{account}"
        ibans.append(
            " ".join(iban[group_start : group_start + 4] for group_start in range(0, len(iban), 4))
            if account_no % 2
            else iban
        )
    return ibans


# the text before the area code, and between it and the last two digits; 555-0100 to 555-0199 are
# reserved for fiction
PHONE_FORMATS = [
    ("", "-555-01"),
    ("(", ") 555-01"),
    ("", ".555.01"),
    ("+1 ", " 555 01"),
    ("1-", "-555-01"),
    ("+1-", "-555-01"),
]
AREA_CODES = (
    "201 202 203 205 206 207 208 209 210 212 213 214 215 216 217 218 219 225 228 229 231 234 239"
    " 240 248 251 252 253 254 256 260 262 267 269 270 276 281 301 302 303 304 305 307 308 309 310"
    " 312 313 314 315 316 317 318 319 320 321 323 330 334 336 337 339 347 351 352 360 361 386 401"
    " 402 404 405 406 407 408 409 410 412 413 414 415 417 419 423 425 432 434 435 440 443 469 470"
    " 475 478 479 480 484 501 502 503 504 505 507 508 509 510 512 513 515 516 517 518 520 530 540"
    " 541 551 559 561 562 563 567 570 571 573 574 580 585 586 601 602 603"
).split()
_CARD_NUMBERS = (
    "4111111111111111 4012888888881881 4242424242424242 4000056655665556 5555555555554444"
    " 5105105105105100 5200828282828210 2223003122003222 378282246310005 371449635398431"
    " 6011111111111117 6011000990139424 3566002020360505 3530111333300000"
).split()

GIVEN_NAMES = (
    "Ada Adam Alice Amara Amir Andrea Anna Anton Aaron Beatrice Ben Bianca Boris Brenda Bruno"
    " Camille Carl Carmen Carol Cedric Chen Clara Colin Dana Daniel Daria David Diego Dora Edgar"
    " Elena Elias Ella Emil Emma Eric Esther Eva Fatima Felix Fiona Frank Gabriel Gemma George"
    " Grace Greta Hannah Harold Heidi Helen Hugo Ida Igor Ines Irene Isaac Ivan Jack Jana Jasmin"
    " Joan Jonas Judith Julia Karen Karl Kate Keiko Kenji Lars Laura Leila Leo Lena Linda Louis"
    " Lucy Lydia Magnus Marco Maria Martin Max Maya Mia Miguel Mona Nadia Nathan Nina Noah Nora"
    " Olga Oliver Omar Oscar Paula Pedro Petra Philip Priya Rachel Ravi Renata Rosa Ruth Sam Sara"
    " Selma Simon Sofia Stella Sven Tara Theo Thomas Tina Tom Uma Ursula Vera Victor Viola Walter"
    " Wanda Wei Wendy Xavier Yara Yusuf Zoe"
).split()
SURNAMES = (
    "Abbott Adler Almeida Anders Archer Ashby Bakker Baldwin Barlow Becker Bennett Berg Bishop"
    " Blake Bloom Bolton Brandt Bridges Burke Byrne Calder Carver Castell Chandra Clarke Coleman"
    " Conway Cortez Crane Dalton Dawson Delgado Dietrich Donovan Drake Dumont Eaton Ellery Emerson"
    " Engel Fairley Farrow Fischer Fleming Forster Foster Fraser Fuentes Garner Gibbs Goddard"
    " Graham Greer Grimm Haas Hale Hansen Harding Hartley Hayes Heller Hobbs Holm Horvath Hughes"
    " Ibarra Ingram Iversen Jansen Jarvis Jensen Joyner Kaplan Keating Keller Kendall Kessler"
    " Kimura Kline Knox Kovacs Kramer Lambert Lang Larkin Larsen Lehmann Lindgren Lockwood Lombard"
    " Lopez Lorenz Madsen Mallory Marsh Mayer Mendez Mercer Merritt Moreau Morgan Moser Murphy Nash"
    " Navarro Nielsen Nolan Novak Oakley Odell Okafor Olsen Ortega Osborne Paget Palmer Parrish"
    " Pascal Patel Pearce Perrin Petrov Pickett Porter Prescott Quinn Radcliffe Ramsey Rasmus"
    " Reiter Rhodes Richter Rivera Rossi Rowe Ruiz Sadler Salter Santos Sawyer Schiller Serrano"
    " Sharpe Sheldon Silva Slater Somers Stark Steiner Stokes Sutter Tanaka Tate Thorne Tobin"
    " Torres Tucker Underhill Vance Varga Vega Vogel Voss Wallace Warner Watts Weber Weller Wexler"
    " Whitman Wilder Winters Wolfe Woods Yates Yoder Zapata Ziegler"
).split()
COMPANY_NAMES = (
    "acorn aldgate amberley anvil arcadia ashfield atlas beacon birchwood bluefin bramble"
    " brightwater calico canyon cascade cedar cobalt compass copperfield corvid crescent delphi"
    " dovetail driftwood eastgate ember evergreen falcon fernhill flint foxglove gablehall garnet"
    " glacier granite greenway hallmark harbor hawthorn hazel heron hilltop horizon ironbridge"
    " ivory juniper kestrel keystone lakeside lantern larkspur lighthouse lindenhall longview"
    " magnolia maple marigold meadow meridian millstone nightjar northwind oakhurst orchard osprey"
    " pebble pinecrest pioneer quarry redwood ridgeway riverbend rosewood sandpiper seabright"
    " silverline skylark southport sparrow springfield stonegate summit sycamore tamarind thistle"
    " timberline tradewind trillium upland valewood verdant wayside westbrook willow windmill"
    " yarrow"
).split()
SUBJECT_TOPICS = [
    "Budget",
    "Contract",
    "Gas nominations",
    "Pipeline capacity",
    "Quarterly review",
    "Board meeting",
    "Travel plans",
    "Staff lunch",
    "Invoice",
    "Draft agreement",
    "Conference call",
    "New hire",
    "Server outage",
    "Press release",
    "Credit terms",
    "Power prices",
    "Weather report",
    "Data request",
    "Test results",
    "Office move",
    "Password policy",
    "Holiday schedule",
    "Customer visit",
    "Trading limits",
    "Tax form",
]
SUBJECT_ENDINGS = [
    "for next week",
    "update",
    "questions",
    "- final version",
    "- please review",
    "attached",
    "and next steps",
    "for your approval",
    "(second try)",
    "notes",
    "from yesterday",
    "summary",
    "2001",
    "Q3",
    "in Houston",
    "for the file",
    "- reminder",
    "tomorrow",
    "as discussed",
    "comments",
]
LEAD_IN_PHRASES = {
    "phones": [
        "You can reach me at",
        "Call me on",
        "The conference number is",
        "My new number is",
        "Fax it to",
        "Ring the desk at",
    ],
    "addresses": [
        "Please copy",
        "Send the draft to",
        "Ask",
        "I forwarded it to",
        "Her address is now",
        "The list owner is",
    ],
    "urls": [
        "The notes are at",
        "See",
        "I put the file on",
        "Details are on",
        "Register at",
        "The map is here:",
    ],
    "ips": [
        "The server moved to",
        "Logins came from",
        "Point the client at",
        "The printer is on",
        "Please unblock",
    ],
    "cards": [
        "Book it on the card",
        "The card on file is",
        "Charge",
        "Use the corporate card",
        "The card number is",
    ],
    "ibans": [
        "Please transfer to",
        "The account is",
        "Refund it to",
        "Our bank details are",
        "Wire the fee to",
    ],
    "ssns": [
        "The form asks for my SSN",
        "His social security number is",
        "SSN",
        "For payroll the number is",
        "Tax id",
    ],
}
FOREIGN_WORDS = (
    "café naïve déjà façade résumé Zürich München größer schön für über Straße señor mañana año"
    " también niño coração São ação não garçon Ångström smørrebrød fjörð żółw łódź čeština příloha"
    " Привет спасибо встреча договор Αθήνα καλημέρα שלום مرحبا 東京 会議 資料 北京 合同 서울 회의"
    " नमस्ते “quoted” ‘single’ – — … € £ ½ 10° ✓ 😀 👍 🎉 Œuvre naïveté Ünal İstanbul ﬁnal №"
).split()
ENGLISH_WORDS = COMMON_WORDS + [
    "as soon as possible",
    "in the next few days",
    "let me know",
    "on behalf of",
    "with regard to",
    "at your earliest convenience",
    "the third quarter",
    "invoice 20391",
    "room 3412",
    "version 2.1",
    "by 5 p.m.",
    "$1.25 million",
    "12 percent",
    "the master agreement",
    "the day-ahead market",
    "FYI",
    "ASAP",
    "per our conversation",
    "see the attached spreadsheet",
    "to be determined",
]
