"""Plants 300 invented values in 40 written forms and structural places, sanitizes them, and counts
what became of each.

    python -m benchmarks.bench_planted

Every value stands once in plain text, where the finders find it; then once in each written form in
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

import argparse
import base64
import binascii
import codecs
import datetime
import difflib
import gzip
import hashlib
import json
import tempfile
import textwrap
import urllib.parse
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import sanitize
from benchmarks.bench import describe_machine
from sanitize.errors import SanitizeError

RESULTS = Path(__file__).with_name("results")
LEAK_CHECK_PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "leak_check.md"
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


def _write_form_corpus(folder: Path, values: list[tuple[str, str]]) -> list[tuple[int, str, str]]:
    """Write the corpus of all forms; returns (document, form, what is written there) for each
    planted value."""
    texts = [f"Note {number}: {value} is on file." for number, (_, value) in enumerate(values)]
    planted = []
    for form, encode in TEXT_FORMS.items():
        for kind, value in values:
            written = encode(kind, value)
            if written is not None:
                planted.append((len(texts), form, written))
                texts.append(f"The entry reads {written} as of today, and nothing else.")
    pl.DataFrame(
        {"id": [f"d{number}" for number in range(len(texts))], "text": texts}
    ).write_parquet(folder / "in.parquet")
    return planted


def measure_forms(values: list[tuple[str, str]]) -> dict[str, Counter[str]]:
    """The outcomes of each written form, from one run."""
    outcomes: dict[str, Counter[str]] = {form: Counter() for form in TEXT_FORMS}
    page = " ".join(LEAK_CHECK_PAGE.read_text("utf-8").split())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        planted = _write_form_corpus(folder, values)
        done = sanitize.run(
            folder / "in.parquet", folder / "out", plan="redact", id_column="id", seed=7, workers=1
        )
        sanitize.verify(folder / "out", workers=1)
        texts = pl.read_parquet(folder / "out" / "data" / "*.parquet")["text"].to_list()
        sweeps = list(
            (folder / "out.private" / "runs" / done.plan_hash / "sweep").glob("[0-9]*.parquet")
        )
        swept = (
            set(
                pl.concat([pl.read_parquet(path, columns=["doc_no"]) for path in sweeps])[
                    "doc_no"
                ].to_list()
            )
            if sweeps
            else set()
        )
        for document, form, written in planted:
            if _is_left(written, texts[document]):
                is_documented = form in DOCUMENTED and DOCUMENTED[form] in page
                outcomes[form]["documented" if is_documented else "left"] += 1
            else:
                outcomes[form]["swept" if document in swept else "found"] += 1
    return outcomes


def _is_left(written: str, text: str) -> bool:
    """True if half of what was written, or more, still stands in the text in one piece."""
    match = difflib.SequenceMatcher(a=written, b=text, autojunk=False).find_longest_match()
    return 2 * match.size >= len(written)


# ------------------------------------------------------------------------ the structural places


def _place_value(place: str, value: str, number: int) -> pl.DataFrame:
    """A corpus in which a value stands once in a text and once in a structural place."""
    columns: dict[str, Any] = {
        "id": ["a", "b"],
        "text": [f"Note {number}: {value} is on file.", "Nothing else."],
    }
    other: Any = ["x", value]
    if place == "second text column":
        columns["body"] = other
    elif place == "list of texts":
        columns["parts"] = [["x"], ["y", value]]
    elif place == "nested field":
        columns["meta"] = [{"note": "x"}, {"note": value}]
    elif place == "kept column":
        columns["comment"] = other
    elif place == "id":
        columns["id"] = ["a", value]
    elif place == "name of a column":
        columns[value] = ["x", "y"]
    elif place == "name of a field":
        columns["meta"] = [{value: "x"}, {value: "y"}]
    elif place == "user column":
        columns["user_id"] = other
    elif place == "dropped column":
        columns["comment"] = other
    elif place == "mail header":
        columns["text"] = [columns["text"][0], f"Subject: about {value}\n\nNothing else.\n"]
    return pl.DataFrame(columns)


PLACES: Mapping[str, Mapping[str, Any]] = {  # place -> settings of the run
    "second text column": {},
    "list of texts": {},
    "nested field": {},
    "kept column": {"keep": "comment"},
    "id": {},
    "name of a column": {},
    "name of a field": {},
    "user column": {},
    "dropped column": {"drop": "comment"},
    "mail header": {},
}


def measure_place(place: str, values: list[tuple[str, str]]) -> Counter[str]:
    """The outcomes of one structural place; each value is a run of its own where the run stops,
    else all are in one corpus."""
    outcomes: Counter[str] = Counter()
    one_run = place not in ("kept column", "id", "name of a column", "name of a field")
    frames = [_place_value(place, value, number) for number, (_, value) in enumerate(values)]
    groups = (
        [(values, pl.concat(frames))]
        if one_run
        else [([value], frame) for value, frame in zip(values, frames, strict=True)]
    )
    for group, frame in groups:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            frame.with_columns(
                pl.col("id")
                if place == "id"
                else pl.format("d{}", pl.int_range(pl.len())).alias("id")
            ).write_parquet(folder / "in.parquet")
            try:
                done = sanitize.run(
                    folder / "in.parquet",
                    folder / "out",
                    plan="redact",
                    id_column="id",
                    seed=7,
                    workers=1,
                    **PLACES[place],
                )
            except SanitizeError:
                outcomes["refused" if not (folder / "out").exists() else "left"] += len(group)
                continue
            published = (folder / "out" / "data").glob("*.parquet")
            content = "\n".join(
                str(pl.read_parquet(path).to_dict(as_series=False)) for path in published
            )
            left = sum(value in content for _, value in group)
            swept = min(done.verify.swept, len(group) - left)
            outcomes += Counter({"left": left, "swept": swept, "found": len(group) - left - swept})
    return outcomes


# ------------------------------------------------------------------------------------ the table


def format_table(result: Mapping[str, Mapping[str, int]]) -> str:
    """A row for each form and place, and their sums."""
    names = ("found", "swept", "refused", "documented", "left")
    lines = [
        f"| form or place | planted | {' | '.join(names)} |",
        "|---|" + "--:|" * (len(names) + 1),
    ]
    total: Counter[str] = Counter()
    for form, counts in result.items():
        total.update(counts)
        lines.append(
            f"| {form} | {sum(counts.values()):,} | "
            + " | ".join(f"{counts.get(name, 0):,}" for name in names)
            + " |"
        )
    lines.append(
        f"| all | {sum(total.values()):,} | "
        + " | ".join(f"{total[name]:,}" for name in names)
        + " |"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
        outcomes[f"in a {place}" if place != "id" else "in an id"] = measure_place(place, values)
    result = {
        form: {name: count for name, count in counts.items() if count}
        for form, counts in outcomes.items()
    }
    left = sum(counts.get("left", 0) for counts in result.values())
    entry = {
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
        "values": len(values),
        "left": left,
        "outcomes": result,
    }
    (RESULTS / "planted.json").write_text(json.dumps(entry, indent=1) + "\n")
    (RESULTS / "planted.md").write_text(format_table(result) + "\n")
    print(format_table(result))
    raise SystemExit(1 if left else 0)


if __name__ == "__main__":
    main()
