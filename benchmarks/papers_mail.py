"""Invented mail for the papers' scripts: short, with Zipf addresses like first.last@domain, simple
enough for a tiny model.

The mails of `cli/generated_mails.py` have the length and variety of real ones, which a model of
some hundred thousand parameters cannot memorise in a minute. These have their address statistics
(Zipf with exponent 0.9, about five addresses a mail, most of them in the header) and bodies of
random words. Nobody in them exists; domains are reserved ones (RFC 2606).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sanitize.cli.invented_data import (
    COMPANY_NAMES,
    ENGLISH_WORDS,
    GIVEN_NAMES,
    SUBJECT_ENDINGS,
    SUBJECT_TOPICS,
    SURNAMES,
)

SCHEMA = pa.schema([("doc_id", pa.string()), ("user_id", pa.string()), ("text", pa.string())])
# of Zipf's law; the most frequent of 24,480 addresses stands in 9 % of the paper's mails (section
# 3.1), and here too
EXPONENT = 0.9
DOMAINS = [
    *(f"{name}.example" for name in COMPANY_NAMES[:6]),
    "example.com",
    "mail.example.org",
    "example.net",
]
POINTERS = [
    "Please copy {address} on it.",
    "Ask {address} if anything is missing.",
    "I sent the rest to {address}.",
    "The new contact is {address}.",
]
VOCABULARY = (
    150  # words of the bodies: enough that each mail is its own, few enough for a tiny tokenizer
)
CLOSINGS = ["Thanks", "Regards", "Best", "Talk soon"]


def people(count: int, seed: int = 0) -> list[str]:
    """That many distinct addresses, the same for the same seed; a larger count only appends."""
    rng = np.random.default_rng([seed, 1])
    found: dict[str, None] = {}
    while len(found) < count:
        first, last, domain = (
            GIVEN_NAMES[rng.integers(len(GIVEN_NAMES))],
            SURNAMES[rng.integers(len(SURNAMES))],
            DOMAINS[rng.integers(len(DOMAINS))],
        )
        found[f"{first.lower()}.{last.lower()}@{domain}"] = None
    return list(found)


def mails(count: int, seed: int = 0, *, population: int | None = None) -> pa.Table:
    """`count` mails with `doc_id`, `user_id` (the sender) and `text`, written among `population`
    people (default: one for each mail)."""
    addresses = people(population or count, seed)
    rng = np.random.default_rng([seed, 2])
    weight = np.arange(1, len(addresses) + 1) ** -EXPONENT
    weight /= weight.sum()

    def pick(words: list[str]) -> str:
        return words[rng.integers(len(words))]

    def some(size: int) -> list[str]:
        return [addresses[number] for number in rng.choice(len(addresses), size=size, p=weight)]

    frequency = 1.0 / (np.arange(VOCABULARY) + 8.0)
    frequency /= frequency.sum()

    def sentence() -> str:
        words = [
            ENGLISH_WORDS[place]
            for place in rng.choice(VOCABULARY, size=int(rng.integers(4, 9)), p=frequency)
        ]
        return f"{' '.join(words).capitalize()}."

    rows = []
    for number in range(count):  # some thousand mails, once a script
        sender, *to = some(1 + int(rng.choice([1, 2, 3, 4], p=[0.45, 0.3, 0.15, 0.1])))
        copies = some(int(rng.choice([0, 1, 2, 3], p=[0.45, 0.25, 0.2, 0.1])))
        head = [f"Date: {1 + rng.integers(28)} May 2001", f"From: {sender}", f"To: {', '.join(to)}"]
        head += [f"Cc: {', '.join(copies)}"] * bool(copies) + [
            f"Subject: {pick(SUBJECT_TOPICS)} {pick(SUBJECT_ENDINGS)}"
        ]
        lines = [sentence() for _ in range(2 + rng.integers(3))]
        if rng.random() < 0.4:
            lines.insert(
                int(rng.integers(len(lines) + 1)), pick(POINTERS).format(address=some(1)[0])
            )
        name = sender.partition(".")[0].capitalize()
        sign = f"\n{sender}" * (rng.random() < 0.4)
        tail = f"\n\n> From: {some(1)[0]}\n> {sentence()}" * (rng.random() < 0.25)
        rows.append(
            (
                f"mail-{seed}-{number:06d}",
                sender,
                "\n".join(head)
                + "\n\n"
                + " ".join(lines)
                + f"\n\n{pick(CLOSINGS)},\n{name}{sign}{tail}\n",
            )
        )
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
