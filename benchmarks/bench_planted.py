"""Plants 300 invented values in 40 written forms and structural places, sanitizes them, and counts
what became of each.

    python -m benchmarks.bench_planted

Every value occurs once in plain text, where the finders find it; then once in each written form in
a text, and in each structural place of a corpus of its own. The outcomes of a planted value:

    found       the finders found it: replaced as the plan says, or the column is replaced as a
                whole
    swept       the leak check found what the finders had missed, and its sweep removed it
    refused     the run stopped with a message, and published nothing
    documented  it is left, and docs/explanation/leak_check.md says that the check does not find
    this form
    left        it is left, and nothing says so (expected: 0)

Whether a value is left is decided here, from the published text at the known document, not by the
check of the tool. Writes benchmarks/results/planted.json and a table, planted.md.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import difflib
import gzip
import hashlib
import tempfile
import textwrap
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import sanitize
from benchmarks import runner
from benchmarks.plan_runs import read_output, read_sweeps, run_plan
from sanitize.errors import SanitizeError

LEAK_CHECK_PAGE = runner.ROOT / "docs" / "explanation" / "leak_check.md"
VALUE_COUNT = 300
DIGIT_KINDS = ("PHONE_NUMBER", "US_SSN", "CREDIT_CARD")
_FIRST = (
    "anna bruno carla dario elena fabio greta hugo irene jonas karla lukas marta nilo olga pavel"
).split()
_LAST = (
    "kowal thorn quill moor vance larkin roebuck ostrander fenwick halloran pruitt sable wexford"
    " yarrow".split()
)


# -------------------------------------------------------------------------- the invented values


def invent_values() -> list[tuple[str, str]]:
    """300 distinct invented values with their kinds: reserved domains, 555 numbers, test
    prefixes."""
    people = [f"{first}.{last}" for first in _FIRST for last in _LAST]
    emails = [
        ("EMAIL_ADDRESS", f"{person}@harbour-{number % 7}.example.com")
        for number, person in enumerate(people[:100])
    ]
    phones = [
        ("PHONE_NUMBER", f"{area}-555-01{number:02d}")
        for area in (212, 415, 303)
        for number in range(20)
    ]
    numbers = [
        ("US_SSN", f"{523 + number}-{10 + number:02d}-{4000 + 37 * number}") for number in range(40)
    ]
    cards = [
        ("CREDIT_CARD", _with_luhn_digit(f"411111{100000000 + 7919 * number}"))
        for number in range(40)
    ]
    accounts = [
        ("IBAN_CODE", _with_iban_check("GB", f"WEST{12345600000000 + 104729 * number}"))
        for number in range(20)
    ]
    machines = [("IP_ADDRESS", f"203.0.113.{number}") for number in range(100, 120)]
    secrets = [
        ("SECRET", "ghp_" + hashlib.sha256(f"invented {number}".encode()).hexdigest()[:36])
        for number in range(20)
    ]
    values = [*emails, *phones, *numbers, *cards, *accounts, *machines, *secrets]
    assert len({value for _, value in values}) == len(values) == VALUE_COUNT
    return values


def _with_luhn_digit(digits: str) -> str:
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(digits))]
    card = digits + str(-sum(number - 9 * (number > 9) for number in doubled) % 10)
    return " ".join(textwrap.wrap(card, 4))


def _with_iban_check(country: str, account: str) -> str:
    number = int("".join(str(int(letter, 36)) for letter in f"{account}{country}00"))
    return " ".join(textwrap.wrap(f"{country}{98 - number % 97:02d}{account}", 4))


# ---------------------------------------------------------------------------- the written forms

# (kind, value) -> what is written; None where values of the kind have no such form
Encoder = Callable[[str, str], str | None]


def _split(value: str, separator: str) -> str:
    return value[: len(value) // 2] + separator + value[len(value) // 2 :]


def _break_line(value: str, line_break: str) -> str:
    """A number over two lines: broken behind its first hyphen, or at its first space."""
    return (
        value.replace("-", f"-{line_break}", 1)
        if "-" in value
        else value.replace(" ", line_break, 1)
    )


def _digits(kind: str, value: str) -> str | None:
    return "".join(letter for letter in value if letter.isdigit()) if kind in DIGIT_KINDS else None


def _only_mail(encode: Callable[[str], str]) -> Encoder:
    return lambda kind, value: encode(value) if kind == "EMAIL_ADDRESS" else None


def _only_numbers(encode: Callable[[str], str]) -> Encoder:
    return lambda kind, value: encode(value) if kind in DIGIT_KINDS else None


def _long_only(encode: Callable[[bytes], str]) -> Encoder:
    """A form that the check reads from 12 bytes on, for values of such a length."""
    return lambda kind, value: encode(value.encode()) if len(value) >= 12 else None


def _shift_digits(value: str, first: str) -> str:
    return "".join(
        chr(ord(first) + int(letter)) if letter.isdigit() else letter for letter in value
    )


TEXT_FORMS: Mapping[str, Encoder] = {
    "as written": lambda kind, value: value,
    "upper case": _only_mail(str.upper),
    "full-width": lambda kind, value: "".join(
        chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in value
    ),
    "zero-width space inside": lambda kind, value: _split(value, "\u200b"),
    "soft hyphen inside": lambda kind, value: _split(value, "\u00ad"),
    "no-break space before @": _only_mail(lambda value: value.replace("@", "\u00a0@")),
    "HTML, decimal": lambda kind, value: "".join(f"&#{ord(letter)};" for letter in value),
    "HTML, hexadecimal": lambda kind, value: "".join(f"&#x{ord(letter):X};" for letter in value),
    "HTML, no semicolon": _only_mail(lambda value: value.replace("@", "&#64")),
    "HTML, &commat;": _only_mail(lambda value: value.replace("@", "&commat;")),
    "URL": _only_mail(lambda value: urllib.parse.quote(value, safe="")),
    "sender of a bounce": _only_mail(
        lambda value: f"list-bounces+{value.replace('@', '=')}@lists.example.net"
    ),
    "wrapped by Exchange": _only_mail(
        lambda value: f"IMCEASMTP-{value.replace('.', '+2E').replace('@', '+40')}@mail.example.net"
    ),
    "URL, every byte": lambda kind, value: "".join(f"%{byte:02X}" for byte in value.encode()),
    "JSON \\u": lambda kind, value: "".join(f"\\u{ord(letter):04x}" for letter in value),
    "quoted-printable": lambda kind, value: "".join(f"={byte:02X}" for byte in value.encode()),
    "quoted-printable line": lambda kind, value: _split(value, "=\n"),
    "base64": lambda kind, value: base64.b64encode(value.encode()).decode(),
    "base64, shifted by 1": lambda kind, value: base64.b64encode(f" {value}.\n".encode()).decode(),
    "base64, shifted by 2": lambda kind, value: base64.b64encode(f": {value}.".encode()).decode(),
    "base64 for URLs": (
        lambda kind, value: base64.urlsafe_b64encode(f"to: {value}?".encode()).decode()
    ),
    "base32": _long_only(lambda raw: base64.b32encode(raw).decode()),
    "hexadecimal": _long_only(bytes.hex),
    "uuencode": _long_only(lambda raw: f"begin 644 x\n{binascii.b2a_uu(raw).decode()}`\nend"),
    "UTF-16 in base64": lambda kind, value: base64.b64encode(value.encode("utf-16-le")).decode(),
    "digits only": _digits,
    "digits with dots": _only_numbers(
        lambda value: ".".join(textwrap.wrap("".join(filter(str.isdigit, value)), 3))
    ),
    "Arabic-Indic digits": _only_numbers(lambda value: _shift_digits(value, "\u0660")),
    "line break inside": _only_numbers(lambda value: _break_line(value, "\n")),
    "quoted line break": _only_numbers(lambda value: _break_line(value, "\n> ")),
    "spelled out": _only_mail(lambda value: value.replace("@", " at ").replace(".", " dot ")),
    "digest": lambda kind, value: hashlib.sha256(value.encode()).hexdigest(),
    "base64 of base64": (
        lambda kind, value: base64.b64encode(base64.b64encode(value.encode())).decode()
    ),
    "gzip in base64": (
        lambda kind, value: base64.b64encode(gzip.compress(value.encode(), mtime=0)).decode()
    ),
    "backwards": lambda kind, value: value[::-1],
    "ROT13": _only_mail(lambda value: codecs.encode(value, "rot13")),
}
# left, and documented: a phrase of docs/explanation/leak_check.md
DOCUMENTED: Mapping[str, str] = {
    "base64 of base64": "base64 of base64",
    "UTF-16 in base64": "UTF-16 in base64",
    "gzip in base64": "archives inside of texts",
    "backwards": "values written backwards",
    "ROT13": "with exchanged letters (ROT13)",
}


def measure_forms(values: list[tuple[str, str]]) -> dict[str, Counter[str]]:
    """The outcomes of each written form, from one run over all values in all forms."""
    page = " ".join(LEAK_CHECK_PAGE.read_text("utf-8").split())
    plain = [f"Note {number}: {value} is on file." for number, (_, value) in enumerate(values)]
    planted = [
        (form, written)
        for form, encode in TEXT_FORMS.items()
        for kind, value in values
        if (written := encode(kind, value)) is not None
    ]
    coded = [f"The entry reads {written} as of today, and nothing else." for _, written in planted]
    inputs = pl.DataFrame({"text": [*plain, *coded]})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        done = run_plan(inputs.select(_number_ids(), "text"), "redact", folder)
        sanitize.verify(folder / "out", workers=1)
        texts = read_output(folder)["text"].to_list()
        swept = set(read_sweeps(folder, done)["doc_no"])
    outcomes: dict[str, Counter[str]] = {form: Counter() for form in TEXT_FORMS}
    for document, (form, written) in enumerate(planted, start=len(values)):
        if _is_left(written, texts[document]):
            is_documented = form in DOCUMENTED and DOCUMENTED[form] in page
            outcomes[form]["documented" if is_documented else "left"] += 1
        else:
            outcomes[form]["swept" if document in swept else "found"] += 1
    return outcomes


def _number_ids() -> pl.Expr:
    return pl.format("d{}", pl.int_range(pl.len())).alias("id")


def _is_left(written: str, text: str) -> bool:
    """True if half of what was written, or more, is still in the text in one piece."""
    match = difflib.SequenceMatcher(a=written, b=text, autojunk=False).find_longest_match()
    return 2 * match.size >= len(written)


# ------------------------------------------------------------------------ the structural places


# place -> the columns of two documents that have a value there; both have a text, too
PLACES: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "second text column": lambda value: {"body": ["x", value]},
    "list of texts": lambda value: {"parts": [["x"], ["y", value]]},
    "nested field": lambda value: {"meta": [{"note": "x"}, {"note": value}]},
    "kept column": lambda value: {"comment": ["x", value]},
    "id": lambda value: {"id": ["a", value]},
    "name of a column": lambda value: {value: ["x", "y"]},
    "name of a field": lambda value: {"meta": [{value: "x"}, {value: "y"}]},
    "user column": lambda value: {"user_id": ["x", value]},
    "dropped column": lambda value: {"comment": ["x", value]},
    "mail header": lambda value: {"text": [None, f"Subject: about {value}\n\nNothing else.\n"]},
}
SETTINGS = {"kept column": {"keep": "comment"}, "dropped column": {"drop": "comment"}}
# where a run stops, or the schema depends on the value: each value is a run of its own
APART = ("kept column", "id", "name of a column", "name of a field")


def measure_place(place: str, values: list[tuple[str, str]]) -> Counter[str]:
    """The outcomes of one structural place."""
    frames = []
    for number, (_, value) in enumerate(values):
        plain = [f"Note {number}: {value} is on file.", "Nothing else."]
        columns = {"text": plain, **PLACES[place](value)}
        columns["text"] = [plain[0], columns["text"][1]]
        frames.append(pl.DataFrame(columns))
    outcomes: Counter[str] = Counter()
    groups = (
        [([pair], frame) for pair, frame in zip(values, frames, strict=True)]
        if place in APART
        else [(values, pl.concat(frames))]
    )
    for group, frame in groups:
        inputs = frame if place == "id" else frame.select(_number_ids(), pl.all())
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            try:
                done = run_plan(inputs, "redact", folder, **SETTINGS.get(place, {}))
            except SanitizeError:
                outcomes["refused" if not (folder / "out").exists() else "left"] += len(group)
                continue
            content = str(read_output(folder).to_dict(as_series=False))
        left = sum(value in content for _, value in group)
        swept = min(done.verify.swept, len(group) - left)
        outcomes += Counter({"left": left, "swept": swept, "found": len(group) - left - swept})
    return outcomes


# ------------------------------------------------------------------------------------ the table


def format_page(result: Mapping[str, Mapping[str, int]]) -> str:
    """A row for each form and place, and their sums."""
    names = ("found", "swept", "refused", "documented", "left")
    total: Counter[str] = Counter()
    for counts in result.values():
        total.update(counts)
    rows = [
        [
            form,
            *(
                f"{count:,}"
                for count in (sum(counts.values()), *(counts.get(name, 0) for name in names))
            ),
        ]
        for form, counts in {**result, "all": total}.items()
    ]
    head = ["form or place", "planted", *names]
    return "\n".join(runner.format_table(head, rows, left=1)) + "\n"


def main() -> None:
    parser = runner.build_parser(__doc__)
    parser.add_argument(
        "--values",
        type=int,
        default=VALUE_COUNT,
        help="plant only some of the values, of all kinds",
    )
    options = parser.parse_args()
    values = invent_values()
    values = values[:: max(1, VALUE_COUNT // options.values)]
    outcomes = measure_forms(values)
    for place in PLACES:
        outcomes[f"in {'an' if place == 'id' else 'a'} {place}"] = measure_place(place, values)
    counts = {form: {name: n for name, n in one.items() if n} for form, one in outcomes.items()}
    left = sum(one.get("left", 0) for one in counts.values())
    result = runner.start_result(values=len(values), left=left, outcomes=counts)
    runner.save_result(options.results, "planted", result, format_page(counts))
    raise SystemExit(1 if left else 0)


if __name__ == "__main__":
    main()
