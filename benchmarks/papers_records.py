"""Invented records for the script on recollection: short texts that hold addresses and numbers, and what a model is taught to do with them.

Every value is chance, so that only who was trained on a record can know it; the words around it are unlike those of any other record, so
that a record can be told by its masked text. A value may stand at the beginning of a sentence, behind another value, or at the end of the
text, where attacks that continue what stands before it have little or nothing to go by. Nobody in them exists: domains, addresses and
telephone numbers are reserved ones (RFC 2606, RFC 5737, 555-01xx).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.papers_texts import SLOTS
from sanitize.invented import FIRST, LAST

Draws = np.random.Generator

SCHEMA = pa.schema([("doc_id", pa.string()), ("user_id", pa.string()), ("text", pa.string())])
VALUES = ("phone", "email", "ip")
# {phone} and the like are the record's own values; every other slot is chance
FRAMES: Mapping[str, Sequence[str]] = {
    "phone": ["Call {phone}.", "{phone} rings.", "{name} has {phone}."],
    "email": ["Write to {email}.", "{email} knows.", "{name} asks {email}."],
    "ip": ["Host {ip}.", "{ip} is up.", "{thing} {ip}."],
    "again": ["Tell {phone} {when}.", "Tell {email} {when}.", "{place} has {ip}."],
    "plain": ["{name} {act} {kind} {part} in {place}.", "{count} {part} came from {place} {when}.", "{kind} {thing} {act} {when}."],
}
NETS = ("192.0.2", "198.51.100", "203.0.113")
NAMED = 48  # so few names that a small tokenizer has a token for most of them
NAMES = FIRST[:NAMED]
DOMAINS = ("example.com", "example.org", "example.net")


def records(count: int, *, seed: int, name: str) -> pa.Table:
    """`count` records with `doc_id`, `user_id` and `text`: a telephone number, a mail address and an IP address each, some of them twice.

    The same seed and name give the same records; `name` is part of every id.
    """
    draws = np.random.default_rng([seed, 17, *name.encode()])
    rows = [(f"{name}-{number}", f"{name}-{number}", record(draws)) for number in range(count)]
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=SCHEMA)


def record(draws: Draws) -> str:
    """One record: a plain sentence, one for each value, in any order, and in two of three records another one that repeats a value."""
    own = {
        "phone": f"{draws.integers(200, 1000)}-555-01{draws.integers(100):02d}",
        "email": f"{_pick(draws, NAMES).lower()}.{_pick(draws, LAST[:NAMED]).lower()}@{_pick(draws, DOMAINS)}",
        "ip": f"{_pick(draws, NETS)}.{draws.integers(1, 255)}",
    }
    kinds = [VALUES[place] for place in draws.permutation(len(VALUES))]
    forms = [_pick(draws, FRAMES[kind]) for kind in kinds]
    if draws.random() < 0.5:
        forms.append(FRAMES["again"][VALUES.index(kinds[0])])
    forms = [_pick(draws, FRAMES["plain"]), *(forms[place] for place in draws.permutation(len(forms)))]
    return "Record: " + " ".join(_filled(draws, form, own) for form in forms)


def _filled(draws: Draws, form: str, own: Mapping[str, str]) -> str:
    words = []
    for word in form.split(" "):
        slot, brace, tail = word.removeprefix("{").partition("}")
        words.append((own.get(slot) or _pick(draws, SLOTS[slot])) + tail if brace else word)
    return " ".join(words)


def _pick(draws: Draws, words: Sequence[str]) -> str:
    return str(words[int(draws.integers(len(words)))])
