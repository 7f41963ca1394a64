"""The drill: in every run, people who do not exist go through find, edit, apply and verify beside the user's documents.

Their documents have the shapes of the user's first ones (header block or not, how many lines, how long) and none of their text. Each
person's values stand there in several written forms. A form that the checks promise to see must be gone, or the run stops; for forms
that hide a value (in base64, in HTML) the drill says how many came out gone. What it makes lies in the spill folder and goes with it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import shutil
import urllib.parse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.engine import Engine
from sanitize.core.keys import Draws, Key
from sanitize.core.text_cells import Leaf, flatten, plain
from sanitize.errors import OutputBroken
from sanitize.kinds.kind import every_kind
from sanitize.plans.plan import Plan
from sanitize.stages import aggregates, detection, rewriting
from sanitize.stages.corpus_pass import Ground
from sanitize.storage.corpus import Documents, Source
from sanitize.storage.publication import perform
from sanitize.text.literal_search import Flagged
from sanitize.verification.leak_check import VerifyTask, opaque_of, verify_task

PEOPLE = 8
_LINES, _WIDTH = 24, 120  # of the largest document that is made
_TEXT = Leaf("text")
_SCHEMA = pa.schema([("doc_id", pa.large_string()), ("text", pa.large_string())])
# one invented value of each kind: what the others are shaped after. A kind without one is not drilled, and the report says so.
_EXAMPLES = {
    "CREDIT_CARD": "4111 1111 1111 1111",
    "CRYPTO": "0x52908400098527886e0f7030069857d2e4169ee7",
    "EMAIL_ADDRESS": "anna.kowal@mail.example.com",
    "IBAN_CODE": "GB82 WEST 1234 5698 7654 32",
    "IP_ADDRESS": "203.0.113.77",
    "MAC_ADDRESS": "00:1b:44:11:3a:b7",
    "MESSAGE_ID": "20010514.163900.4711.kowal@mail.example.com",
    "PHONE_NUMBER": "212-555-0187",
    "URL": "http://www.example.com/people/anna?id=42",
    "SECRET": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "US_SSN": "123-45-6789",
    "X500_NAME": "/O=EXAMPLE/OU=NA/CN=RECIPIENTS/CN=AKOWAL4711",
}
_NUMBERS = ("CREDIT_CARD", "PHONE_NUMBER", "US_SSN")
_WORDS = "the a of to and in report table meeting paper window river garden market letter winter station bridge harbour music".split()


@dataclass(frozen=True)
class Way:
    """How a value is written: `promised` where find or the fast check must see it. `None` where a kind is not written so."""

    name: str
    promised: bool
    write: Callable[[str, str], str | None]


def _wide(kind: str, value: str) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in value)


def _digits(kind: str, value: str) -> str | None:
    return "".join(letter for letter in value if letter.isdigit()) if kind in _NUMBERS else None


_Shape = tuple[bool, int, int]
_USUAL: tuple[_Shape, ...] = ((False, 4, 64),)  # where there is nothing to be like
_DONE: dict[tuple[str, tuple[_Shape, ...]], str] = {}
WAYS = (
    Way("as written", True, lambda kind, value: value),
    Way("in brackets", True, lambda kind, value: f"<{value}>"),
    Way("upper case", True, lambda kind, value: value.upper() if kind == "EMAIL_ADDRESS" else None),
    Way("full-width", True, _wide),
    Way("zero-width", False, lambda kind, value: value[: len(value) // 2] + "\u200b" + value[len(value) // 2 :]),
    Way("HTML", False, lambda kind, value: "".join(f"&#{ord(letter)};" for letter in value)),
    Way("URL", False, lambda kind, value: urllib.parse.quote(value, safe="") if urllib.parse.quote(value, safe="") != value else None),
    Way("base64", False, lambda kind, value: base64.b64encode(value.encode()).decode()),
    Way("digits", False, _digits),
    Way("spelled out", False, lambda kind, value: value.replace("@", " at ").replace(".", " dot ") if "@" in value else None),
)


@dataclass(frozen=True)
class _Plant:
    doc_no: int
    start: int
    stop: int
    kind: str
    way: Way
    nth: int  # how many plain ones of this value stand before it


def drill(engine: Engine, plan: Plan, documents: Documents, folder: Path) -> dict[str, Any]:
    """Drill a plan. Returns `documents`; `planted` and `gone` of the forms that must go, of those that hide a value (`hidden`), and of each
    form (`by_form`); and `not_drilled` (kinds).

    The same plan and shapes give the same numbers, so one process drills them once. Raises OutputBroken where a form that must go stays.
    """
    shapes = _shapes(documents)
    known = (plan.hash(), shapes)
    if known not in _DONE:
        _DONE[known] = json.dumps(_drilled(engine, plan, shapes, folder))
    return dict(json.loads(_DONE[known]))


def _drilled(engine: Engine, plan: Plan, shapes: tuple[_Shape, ...], folder: Path) -> dict[str, Any]:
    key = Key(hashlib.blake2b(plan.hash().encode(), digest_size=32, person=b"sanitize-drill").digest(), public=True)
    # a part that makes a claim of its own (`ledger`) promises nothing about what is left
    edited = [kind for kind in sorted(plan.checked) if kind in _EXAMPLES]
    result: dict[str, Any] = {"documents": 0, "planted": 0, "gone": 0, "hidden": {"planted": 0, "gone": 0}, "by_form": {}}
    result["not_drilled"] = sorted(kind for kind in plan.edited if kind not in edited)
    if edited:
        keeps = {kind: plan.editors[number].keep for kind, number in plan.edited.items()}
        texts, plants = _documents(key, edited, max(1, *keeps.values()), shapes)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        edits = _through(engine, plan, key, texts, folder)
        shutil.rmtree(folder)
        planted, gone, stayed = Counter[str](), Counter[str](), Counter[str]()
        for plant in plants:
            if plant.nth >= keeps[plant.kind]:
                away = _is_gone(plant, edits.get(plant.doc_no, ()))
                planted[plant.way.name] += 1
                gone[plant.way.name] += away
                if plant.way.promised and not away:
                    stayed[f"{plant.kind} ({plant.way.name})"] += 1
        if stayed:
            told = ", ".join(f"{times} {what}" for what, times in sorted(stayed.items()))
            raise OutputBroken(
                f"the drill: {told} of invented people stayed in their documents; this is a bug of ours. Nothing was published"
            )
        result["documents"] = len(texts)
        for way in WAYS:
            part = result if way.promised else result["hidden"]
            part["planted"] += planted[way.name]
            part["gone"] += gone[way.name]
        result["by_form"] = {way.name: {"planted": planted[way.name], "gone": gone[way.name]} for way in WAYS if planted[way.name]}
    return result


def _shapes(documents: Documents) -> tuple[_Shape, ...]:
    """What the first documents look like: header block or not, lines, and bytes of a line, both as powers of two; no text."""
    there = documents.sources[0].columns.get(documents.main.column) if documents.count else None
    if there is None:
        return _USUAL
    with pq.ParquetFile(documents.sources[0].path, pre_buffer=False) as file:
        batch = next(file.iter_batches(32, columns=[there], use_threads=False), None)
    if batch is None:
        return _USUAL
    texts = pl.Series(flatten(plain(batch.column(0)), documents.main).texts.cast(pa.large_string()).fill_null(""))
    lines = texts.str.count_matches("\n", literal=True) + 1
    width = texts.str.len_bytes() // lines
    headed = texts.str.contains(r"\A(?:From |[A-Za-z-]+:)")
    found = zip(headed, lines, width, strict=True)
    return tuple((bool(head), _power(int(count), _LINES), _power(int(size), _WIDTH)) for head, count, size in found) or _USUAL


def _power(number: int, most: int) -> int:
    return min(most, 1 << max(number, 1).bit_length() - 1)


def _documents(key: Key, edited: Sequence[str], anchors: int, shapes: Sequence[_Shape]) -> tuple[list[str], list[_Plant]]:
    """The drill's documents, and where each value stands in them: first each person's values as they are, as often as a plan may keep
    them, then a document for each way of writing them."""
    people = [dict(zip(edited, values, strict=True)) for values in zip(*(_values(key, kind) for kind in edited), strict=True)]
    texts: list[str] = []
    plants: list[_Plant] = []
    for number, (person, way) in enumerate(
        [(person, WAYS[0]) for _ in range(anchors) for person in people] + [(person, way) for way in WAYS for person in people]
    ):
        headed, lines, width = shapes[number % len(shapes)]
        out = [f"Subject: {_words(number, 24)}", "X-Note: invented", ""] if headed else []
        filler = [_words(number * 31 + line, width) for line in range(lines)]
        nth = min(number // len(people), anchors)
        marks = []
        for place, (kind, value) in enumerate(person.items()):
            written = way.write(kind, value)
            if written is not None:
                if kind == "MESSAGE_ID" and not written.startswith("<"):
                    written = f"<{written}>"  # an id is known by its brackets
                filler.insert((place * 7 + number) % (len(filler) + 1), f"Reach {kind.lower()} by {written} today.")
                marks.append((kind, written, value))
        text = "\n".join(out + filler) + "\n"
        for kind, written, _ in marks:
            start = len(text[: text.index(f"Reach {kind.lower()} by {written} today.")].encode()) + len(f"Reach {kind.lower()} by ")
            inner = 1 if written.startswith("<") else 0
            plants.append(_Plant(number, start + inner, start + len(written.encode()) - inner, kind, way, nth))
        texts.append(text)
    return texts, plants


def _values(key: Key, kind: str) -> list[str]:
    """The values of one kind, one for each person, all different."""
    one, count = every_kind()[kind], 4 * PEOPLE
    examples = pl.Series([_EXAMPLES[kind]] * count)
    ids = pa.array([f"person {number}" for number in range(count)]).dictionary_encode()
    drawn = one.fake(examples, Draws.of(key, f"drill/{kind}", ids, np.zeros(count, np.int32), np.zeros(count, np.int64)), False)
    frame = pl.DataFrame({"value": drawn, "normal": one.normalise(drawn)}).unique("normal", maintain_order=True)
    good = frame["value"] if one.check is None else frame.filter(one.check(frame["value"]).is_null())["value"]
    assert len(good) >= PEOPLE, kind
    return list(good.head(PEOPLE).to_list())


@functools.cache
def _words(number: int, width: int) -> str:
    """A line of invented words of about this many bytes."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < width:
        number += 1
        words.append(_WORDS[number * 7919 % len(_WORDS)])
    return " ".join(words)


def _ground(engine: Engine, documents: Documents, folder: Path) -> Ground:
    """The drill's documents for editors that look at texts first."""
    return Ground(
        engine=engine,
        map=lambda _, jobs: [perform(job) for job in jobs],
        documents=documents,
        leaves=(_TEXT,),
        ranges=[(0, documents.count)],
        occurrences=[folder / "occurrences.parquet"],
        folder=folder / "looks",
        spill=folder,
        fingerprint="drill",
        gone=(),
    )


def _through(engine: Engine, plan: Plan, key: Key, texts: Sequence[str], folder: Path) -> dict[int, list[tuple[int, int, str]]]:
    """The way of a corpus of one task: find, count, apply, verify, and once more where the check swept; the edits by document. A mechanism
    with a ledger promises nothing that could be drilled, and stays out."""
    editors = tuple(editor for editor in plan.editors if not editor.unit)
    table = pa.table([[f"drill-{number:04d}" for number in range(len(texts))], list(texts)], schema=_SCHEMA)
    pq.write_table(table, folder / "in.parquet")
    source = Source(path=str(folder / "in.parquet"), rows=len(texts), first_doc_no=0, columns={"doc_id": "doc_id", "text": "text"})
    documents = Documents(sources=(source,), schema=_SCHEMA, main=_TEXT)
    about: dict[str, Any] = {"no": 0, "first": 0, "last": len(texts), "documents": documents, "leaves": (_TEXT,)}
    found = detection.FindTask(**about, key=key, max_doc_bytes=1 << 20, checked=("doc_id", "text"), set_aside=(), folder=folder)
    detection.find_task(found)
    counted, flagged = folder / "value_counts.parquet", folder / "flagged.parquet"
    aggregates.value_counts(engine, [folder / "partial_counts.parquet"], counted)
    (folder / "counts").mkdir()
    (folder / "looks").mkdir()
    ground = Ground(
        engine=engine,
        map=lambda _, jobs: [perform(job) for job in jobs],
        documents=documents,
        leaves=(_TEXT,),
        ranges=[(0, len(texts))],
        occurrences=[folder / "occurrences.parquet"],
        folder=folder / "looks",
        spill=folder,
        fingerprint="drill",
        gone=(),
    )
    needs = aggregates.for_editors(
        engine,
        editors,
        occurrences=[folder / "occurrences.parquet"],
        counted=counted,
        values=[folder / "values.parquet"],
        drops=[],
        folder=folder / "counts",
        ground=ground,
    )
    Flagged.write([folder / "values.parquet"], plan.checked, flagged)
    swept: tuple[Path, ...] = ()
    for attempt in range(2):
        made = folder / f"made-{attempt}"
        made.mkdir()
        task = rewriting.ApplyTask(
            **about,
            policies={"doc_id": "keep", "text": "sanitize"},
            key=key,
            editors=editors,
            counts=needs,
            by_position=False,
            occurrences=(folder / "occurrences.parquet", *swept),
            gone=(),
            folder=made,
        )
        rewriting.apply_task(task)
        look = VerifyTask(
            **about,
            shard=made / "shard.parquet",
            flagged=flagged,
            kept=made / "kept.parquet",
            edits=made / "edits.parquet",
            occurrences=folder / "occurrences.parquet",
            opaque=opaque_of(plan.leave),
            rows=made / "rows.parquet",
            sweep=made / "sweep.parquet",
        )
        result = verify_task(look)
        if not result["swept"]:
            break
        swept = (made / "sweep.parquet",)
    edits: dict[int, list[tuple[int, int, str]]] = {}
    columns = pq.read_table(made / "edits.parquet", columns=["doc_no", "start_byte", "stop_byte", "replacement"], partitioning=None)
    for doc_no, start, stop, text in zip(*(column.to_pylist() for column in columns.columns), strict=True):
        edits.setdefault(doc_no, []).append((start, stop, text))
    return edits


def _is_gone(plant: _Plant, edits: Sequence[tuple[int, int, str]]) -> bool:
    """True where a promised form is replaced from end to end, or a hiding one is cut into."""
    mine = sorted((start, stop) for start, stop, _ in edits if start < plant.stop and stop > plant.start)
    if not plant.way.promised:
        return bool(mine)
    at = plant.start
    for start, stop in mine:
        if start > at:
            return False
        at = max(at, stop)
    return at >= plant.stop
