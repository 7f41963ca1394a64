"""A corpus of invented mail, as large as you like, and the story that `sanitize demo` tells with it.

Nobody in it exists (see `invented.py`). What is real is the shape: header blocks with folded address lists, quoted and forwarded
mail, signatures, power-law frequencies. A mail is a row of indices into pools of words, joined by one Arrow `take`; no Python loop
runs over mails or words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.errors import UsageError
from sanitize.text.invented_data import AREAS, FIRST, FOREIGN, LAST, PHONE_FORMS, WORDS, pools

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CHUNK = 5_000  # mails made at once; part of what a seed means
SEED = 1  # of the demo's mails and of its key: the story is the same on every machine
SCHEMA = pa.schema([("doc_id", pa.large_string()), ("user_id", pa.large_string()), ("text", pa.large_string())])


@dataclass(frozen=True)
class Mix:
    """How much of everything stands in a mail: shares of mails that have it, or means per mail."""

    words: float = 172.0  # words of a mail's own prose; replies and forwards add half of that again
    message_id: float = 1.0
    received: float = 0.25
    recipients: tuple[float, ...] = (0.0, 0.50, 0.24, 0.12, 0.08, 0.06)  # chance of 0, 1, 2, ... addresses in To
    copies: tuple[float, ...] = (0.64, 0.20, 0.10, 0.06)
    reply: float = 0.32
    forward: float = 0.13
    signature_phone: float = 0.42
    signature_address: float = 0.30
    phone: float = 0.50
    address: float = 0.40
    url: float = 0.60
    ip: float = 0.12
    card: float = 0.06
    iban: float = 0.05
    ssn: float = 0.05


DENSE = Mix()
SPARSE = Mix(
    words=250.0,
    message_id=0.12,
    received=0.02,
    recipients=(0.52, 0.45, 0.03),
    copies=(0.96, 0.04),
    reply=0.14,
    forward=0.03,
    signature_phone=0.08,
    signature_address=0.03,
    phone=0.05,
    address=0.05,
    url=0.08,
    ip=0.02,
    card=0.008,
    iban=0.007,
    ssn=0.007,
)


def mails(count: int, seed: int = 0, *, dense: bool = True) -> pa.Table:
    """`count` invented mails with `doc_id`, `user_id` and `text`; the same for the same arguments."""
    return pa.Table.from_batches(mail_batches(count, seed, dense=dense), SCHEMA)


def mail_batches(count: int, seed: int = 0, *, dense: bool = True) -> Iterator[pa.RecordBatch]:
    """The mails of `mails`, 5,000 at a time, for corpora larger than memory."""
    people = max(50, 3 * count)  # who could write; about one distinct address a mail is then in use
    for first in range(0, count, CHUNK):
        rng = np.random.default_rng([seed, first // CHUNK])
        yield _Writer(rng, min(CHUNK, count - first), first, people, DENSE if dense else SPARSE).batch()


def write_mbox(table: pa.Table, path: Path) -> None:
    """The mails of a table as one mbox file with mboxrd quoting."""
    with path.open("wb") as file:
        for text in table["text"].to_pylist():
            sender = re.search(r"^From: .*<([^>\n]*)>", text, re.MULTILINE)
            file.write(f"From {sender.group(1) if sender else 'nobody@example.com'} Mon May 14 16:39:00 2001\n".encode())
            file.write(re.sub(r"^(>*From )", r">\1", text, flags=re.MULTILINE).encode())
            file.write(b"\n" if text.endswith("\n") else b"\n\n")


# ---- the story ----


def demo(folder: Path, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Invented mails in `folder`, sanitized beside them, told through `say`; returns the summary of the run, and where things lie.

    The same call again finds everything done and tells the same story. A folder that holds anything else is refused.
    """
    from sanitize.pipeline.index_build import Settings
    from sanitize.pipeline.run import run
    from sanitize.plans.plan import load_plan

    box, out, mark = folder / "mails.mbox", folder / "clean", folder / ".demo"
    if folder.exists() and not mark.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: holds something else already, and a demo would write over it; take another --dir")
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text("made by `sanitize demo`, which may write over this folder\n", "ascii")
    write_mbox(mails(count, SEED), box)
    say(f"{count:,} mails by people who do not exist: {box} ({box.stat().st_size // 1000:,} KB)\n")
    say(f"$ sanitize run {box} -o {out} --seed {SEED}\n")
    plan = load_plan("rmft")
    summary = run([box], out, plan, settings=Settings(seed=SEED, replace=True))
    work = Path(summary["work"])
    what = f"done in {summary['seconds']} s" if summary["changed"] else "done before: the same command again changes nothing"
    say(f"WHAT WAS FOUND ({what})\n\n{_found(summary)}\n")
    say(f"The plan `{plan.name}`: {plan.about}\n")
    say(f"THE FIVE MOST FREQUENT, masked (`sanitize top {work} --reveal` shows them)\n\n{_top(work)}\n")
    run_folder = work / "runs" / summary["plan_hash"]
    for told in (_one_address(work, run_folder), _three_lines(work, run_folder), _end(summary, out, work)):
        say(told)
    return {**summary, "mails": str(box), "shards": str(out / "data"), "report": str(out / "report.html")}


def _found(summary: dict[str, Any]) -> str:
    entries = sorted(summary["by_kind"].items(), key=lambda entry: -entry[1]["occurrences"])
    rows = [(kind, *(f"{one[name]:,}" for name in ("occurrences", "values", "kept", "replaced", "left"))) for kind, one in entries]
    return _table([("kind", "occurrences", "distinct", "kept", "replaced", "left by plan"), *rows])


def _top(work: Path) -> str:
    from sanitize.storage import queries

    database = queries.connect(work)
    try:
        rows = queries.ask(database, queries.query("top"), {"limit": 5}).to_pylist()
    finally:
        database.close()
    head = ("rank", "kind", "value", "occurrences", "mails")
    told = [(f"{row['rank']}", row["kind"], row["value"], f"{row['occurrences']:,}", f"{row['documents']:,}") for row in rows]
    return _table([head, *told], left=3)


_TOLD = 6  # places of one address: enough to show each part kept once
_PARTS = {"its first name": r"\A([a-z]+)\.", "its last name": r"\.([a-z]+)@", "its domain": r"@(.*)\z"}


def _one_address(work: Path, run: Path) -> str:
    """What became of one address: the first place, where it stays, and the next ones with their variants."""
    import polars as pl

    def read(folder: Path, *names: str) -> pl.DataFrame:
        return pl.read_parquet(sorted(folder.glob("*.parquet")), columns=list(names), glob=False)

    places = read(work / "tables" / "occurrences", "doc_no", "cell", "start_byte", "value_id", "section")
    edits = read(run / "edits", "doc_no", "cell", "start_byte", "replacement")
    # addresses that are always written in one way, and that way is first.last: nothing but the variants differs then
    spelled = read(work / "vault" / "values", "value_id", "value").group_by("value_id").agg(pl.col("value").min(), pl.len().alias("ways"))
    plain = spelled.filter(pl.col("value").str.contains(r"\A[a-z]+\.[a-z]+@[^@]+\z"), pl.col("ways") == 1)
    frame = places.join(plain, on="value_id").join(edits, on=["doc_no", "cell", "start_byte"], how="left", maintain_order="left")
    frame = frame.with_columns(turn=pl.int_range(pl.len()).over("value_id")).filter(pl.col("turn") < _TOLD)
    kept = pl.coalesce(
        pl.when(pl.col("value").str.extract(part) == pl.col("replacement").str.extract(part)).then(pl.lit(name))
        for name, part in _PARTS.items()
    )
    frame = frame.with_columns(kept=pl.when(pl.col("replacement").is_null()).then(pl.lit("all: the first")).otherwise(kept))
    chosen = frame.group_by("value_id").agg(
        pl.len(), ways=pl.col("kept").n_unique(), places=pl.col("section").n_unique(), mails=pl.col("doc_no").n_unique()
    )
    chosen = chosen.filter(pl.col("len") == _TOLD).sort("ways", "places", "mails", "value_id", descending=True)
    if not chosen.height:
        return ""
    rows = frame.filter(pl.col("value_id") == chosen["value_id"][0]).sort("turn").rows(named=True)
    told = [(f"{row['doc_no'] + 1:,}", row["section"] or "", row["replacement"] or row["value"], row["kept"] or "") for row in rows]
    return (
        f"WHAT BECAME OF ONE ADDRESS, {rows[0]['value']}\n\n"
        f"{_table([('mail', 'section', 'what stands there now', 'kept of it'), *told], left=4)}\n\n"
        "The first place stays. Each later one becomes a fresh variant: one part is kept, drawn at random,\n"
        "the others come from other addresses of the corpus, and no variant is an address that really occurs.\n"
    )


def _three_lines(work: Path, run: Path) -> str:
    """Three lines as they were and as they are."""
    from sanitize.core.text_cells import Leaf
    from sanitize.reporting.edit_samples import samples
    from sanitize.storage.corpus import Documents, read_json

    index = read_json(work / "index.json")
    assert index is not None
    leaves = [Leaf(column, tuple(steps)) for column, *steps in index["leaves"]]
    found = samples(Documents.from_json(index["documents"], work), leaves, run / "edits" / "00000.parquet", 200)
    # lines of the body that hold one value only: a sample shows one edit, and what else stands in its line as it was
    alone = [one for one in found if one.lead.strip() and one.tail.strip() and not re.search(r"[@\d<>]", one.lead + one.tail)]
    chosen = [one for kind in ("PHONE_NUMBER", "EMAIL_ADDRESS", "CREDIT_CARD") for one in [x for x in alone if x.kind == kind][:1]]
    chosen += [one for one in found if one not in chosen][: 3 - len(chosen)]
    lines = []
    for one in chosen:
        # the sentence around it
        lead, tail = re.split(r"(?<=[.!?]) ", one.lead)[-1], re.split(r"(?<=[.!?]) ", one.tail)[0]
        lines.append(f"  - {lead}{one.before}{tail}\n  + {lead}{one.after}{tail}")
    return "THREE LINES, before and after\n\n" + "\n\n".join(lines) + "\n"


def _end(summary: dict[str, Any], out: Path, work: Path) -> str:
    check, gone, aside = summary["verify"], summary["documents_dropped"], summary["quarantined"]
    where = [
        (f"{out}/data", "the sanitized shards, for any trainer"),
        (f"{out}/report.html", "the report, to open in a browser"),
        (f"{work}", "the index, all edits and the raw values: private, never to be shared"),
    ]
    ask = "SELECT kind, sum(occurrences) FROM value_counts GROUP BY 1"
    after = [
        (f"sanitize top {work} --kind PHONE_NUMBER",),
        (f'sanitize sql {work} "{ask}"',),
        (f"sanitize verify {out}",),
    ]
    return (
        f"VERIFIED: {summary['leaks']} leaks. {check['values_checked']:,} values that had to go were looked for in every column, in"
        f" {len(check['forms'])} forms\n({', '.join(check['forms'])}); {summary['kept_originals']:,} first occurrences stay by plan.\n"
        f"{summary['documents_in']:,} mails in = {summary['documents_out']:,} out + {gone:,} dropped + {aside:,} in quarantine.\n\n"
        f"WHERE IT LIES\n\n{_table(where, left=2, head=False)}\n\nNEXT\n\n{_table(after, head=False)}"
    )


def _table(rows: Sequence[tuple[str, ...]], left: int = 1, head: bool = True) -> str:
    """Lines of a table: the first `left` columns stand to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if head:
        rows = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    sides = "<" * left + ">" * (len(widths) - left)
    lines = ("  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line}".rstrip() for line in lines)


# ---- the pen ----


class _Writer:
    """The pen for one batch: every method gives one column of strings, a row a mail."""

    def __init__(self, rng: np.random.Generator, count: int, first: int, people: int, mix: Mix) -> None:
        self.rng, self.count, self.first, self.people, self.mix, self.pools = rng, count, first, people, mix, pools()

    def batch(self) -> pa.RecordBatch:
        mix, count = self.mix, self.count
        numbers = np.arange(self.first, self.first + count)
        sender = self.ranks(count, self.people // 6 + 1)
        kind = self.rng.random(count)
        reply, forward = kind < mix.reply, (kind >= mix.reply) & (kind < mix.reply + mix.forward)
        foreign = self.rng.random(count) < 0.15
        words = self.words(mix.words)
        head = self.header(sender, numbers, reply, forward)
        body = self.prose(words, foreign, np.zeros(count, np.bool_), self.inserts())
        quoted = self.prose(np.where(reply | forward, words // 2 + 8, 0), foreign, reply, ([], []))
        text = _join(head, self.greeting(), body, self.signature(sender), self.attribution(reply, forward), quoted)
        ids = _join("mail-", pc.utf8_lpad(pa.array(numbers).cast(pa.large_string()), 8, "0"))
        users = _join("u", pc.utf8_lpad(pa.array(sender).cast(pa.large_string()), 7, "0"))
        return pa.RecordBatch.from_arrays([ids, users, text], schema=SCHEMA)

    # chance

    def ranks(self, size: int, top: int) -> I64:
        """Ranks from 1 to `top` with probability close to 1 / (rank + 4) (Zipf and Mandelbrot)."""
        drawn: I64 = np.minimum(5.0 * np.exp(self.rng.random(size) * np.log(top / 5.0 + 1.0)) - 4.0, top).astype(np.int64)
        return drawn

    def words(self, mean: float) -> I64:
        """Lengths of mails in words: log-normal, most are short and a few are long."""
        return np.clip(self.rng.lognormal(np.log(mean) - 0.32, 0.8, self.count), 12, 4_000).astype(np.int64)

    def some(self, share: float, size: int | None = None) -> Mask:
        return self.rng.random(self.count if size is None else size) < share

    def pick(self, pool: pa.Array, size: int | None = None) -> pa.Array:
        return pool.take(pa.array(self.rng.integers(len(pool), size=self.count if size is None else size)))

    def digits(self, width: int, size: int | None = None, top: int | None = None) -> pa.Array:
        numbers = self.rng.integers(top or 10**width, size=self.count if size is None else size)
        return pc.utf8_lpad(pa.array(numbers).cast(pa.large_string()), width, "0")

    # people

    def person(self, ranks: I64) -> tuple[pa.Array, pa.Array]:
        """Name and address of the people of these ranks; now and then the address is written with capitals, or without dots."""
        who = _mix(ranks)
        first, last = who % np.uint64(len(FIRST)), (who >> np.uint64(12)) % np.uint64(len(LAST))
        domain = _mix(who >> np.uint64(40)) % np.uint64(len(self.pools.domains) // 2)
        # the domains are used as unevenly as the people: squaring moves most people to the first few
        domain = (domain * domain) // np.uint64(len(self.pools.domains) // 2)
        form = (who >> np.uint64(26)) % np.uint64(20)
        loud = (self.rng.random(len(ranks)) < 0.04).astype(np.uint64)
        lead = np.where(form < 16, first + loud * np.uint64(2 * len(FIRST)), first + np.uint64(len(FIRST)))
        separator = np.select([form < 13, form == 13, form == 14, form == 15], [0, 1, 2, 3], 3)
        number = np.where(form >= 18, 1 + (who >> np.uint64(33)) % np.uint64(98), 0)
        address = _join(
            _take(self.pools.leads, lead),
            _take(self.pools.separators, separator),
            _take(self.pools.tails, last + loud * np.uint64(len(LAST))),
            _take(self.pools.numbers, number),
            "@",
            _take(self.pools.domains, domain + loud * np.uint64(len(self.pools.domains) // 2)),
        )
        return _join(_take(self.pools.first, first), " ", _take(self.pools.last, last)), address

    def someone(self, size: int | None = None) -> tuple[pa.Array, pa.Array]:
        return self.person(self.ranks(self.count if size is None else size, self.people))

    def address_list(self, chances: tuple[float, ...]) -> tuple[pa.Array, I64]:
        """Comma-separated addresses, folded as mail programs do it, and how many there are in each."""
        sizes = self.rng.choice(len(chances), size=self.count, p=np.array(chances) / sum(chances))
        pieces: list[pa.Array | str] = []
        for place in range(len(chances) - 1):
            name, address = self.someone()
            named = pc.if_else(pa.array(self.some(0.3)), _join(name, " <", address, ">"), address)
            between = "" if place == 0 else (", " if place % 2 else ",\n\t")
            pieces.append(pc.if_else(pa.array(sizes > place), _join(between, named), ""))
        return (_join(*pieces) if len(pieces) > 1 else pieces[0]), sizes

    # the blocks of a mail

    def header(self, sender: I64, numbers: I64, reply: Mask, forward: Mask) -> pa.Array:
        name, address = self.person(sender)
        to, to_count = self.address_list(self.mix.recipients)
        copies, copy_count = self.address_list(self.mix.copies)
        subject = _join(_only(reply, "Re: "), _only(forward, "Fw: "), self.pick(self.pools.topics), " ", self.pick(self.pools.subjects))
        received = _join(
            "Received: from ", self.pick(self.pools.hosts), " ([", self.ips(), "])\n\tby mail.example.com; ", self.date(), "\n"
        )
        return _join(
            _only(self.some(self.mix.received), received),
            _only(self.some(self.mix.message_id), _join("Message-ID: <", self.message_id(numbers), ">\n")),
            "Date: ",
            self.date(),
            "\nFrom: ",
            name,
            " <",
            address,
            ">\nTo: ",
            pc.if_else(pa.array(to_count > 0), to, "undisclosed-recipients:;"),
            _only(copy_count > 0, _join("\nCc: ", copies)),
            "\nSubject: ",
            subject,
            _only(
                reply & self.some(self.mix.message_id * 0.6),
                _join("\nIn-Reply-To: <", self.message_id(numbers - 1 - self.rng.integers(40, size=self.count)), ">"),
            ),
            "\nMime-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nX-From: ",
            name,
            "\nX-Folder: ",
            self.pick(self.pools.folders),
            "\n\n",
        )

    def greeting(self) -> pa.Array:
        name = self.pools.first.take(pa.array(self.rng.integers(len(FIRST), size=self.count)))
        return pc.if_else(pa.array(self.some(0.7)), _join(self.pick(self.pools.greetings), " ", name, ",\n\n"), "")

    def signature(self, sender: I64) -> pa.Array:
        name, address = self.person(sender)
        phone = _join("\n", self.pick(self.pools.phone_labels), self.phones())
        return _join(
            "\n",
            self.pick(self.pools.closings),
            "\n",
            name,
            _only(self.some(0.4), _join("\n", self.pick(self.pools.titles), ", ", self.pick(self.pools.firms))),
            _only(self.some(self.mix.signature_phone), phone),
            _only(self.some(self.mix.signature_address), _join("\n", address)),
            "\n",
        )

    def attribution(self, reply: Mask, forward: Mask) -> pa.Array:
        """The line above a quoted mail, or the header block of a forwarded one."""
        name, address = self.someone()
        to, _ = self.address_list((0.0, 0.8, 0.2))
        wrote = _join("\nOn ", self.date(), ", ", name, " <", address, "> wrote:\n> ")
        block = _join(
            "\n-----Original Message-----\nFrom: ", name, " <", address, ">\nSent: ", self.date(), "\nTo: ", to,
            "\nSubject: ", self.pick(self.pools.topics), "\n\n",
        )  # fmt: skip
        return _join(_only(reply, wrote), _only(forward, block))

    def inserts(self) -> tuple[list[I64], list[pa.Array]]:
        """Sentences of the body that carry a value: the mail of each, and its words."""
        mix, rows, texts = self.mix, [], []

        def add(mean: float, column: str) -> None:
            size = int(self.rng.poisson(mean * self.count))
            values = getattr(self, column)(size=size)
            rows.append(self.rng.integers(self.count, size=size))
            texts.append(_join(self.pick(self.pools.phrases[column], size), " ", values, self.pick(self.pools.stops, size)))

        add(mix.phone, "phones")
        add(mix.address, "addresses")
        add(mix.url, "urls")
        add(mix.ip, "ips")
        add(mix.card, "cards")
        add(mix.iban, "ibans")
        add(mix.ssn, "ssns")
        return rows, texts

    def prose(self, words: I64, foreign: Mask, quoted: Mask, inserts: tuple[list[I64], list[pa.Array]]) -> pa.Array:
        """Sentences and paragraphs of the given numbers of words, wrapped, with the inserted sentences at random places."""
        total = int(words.sum())
        bounds = np.concatenate([[0], np.cumsum(words)])
        row, firsts, lasts = np.repeat(np.arange(self.count), words), bounds[:-1][words > 0], bounds[1:][words > 0] - 1
        word = np.searchsorted(self.pools.weights, self.rng.random(total))
        strange = np.flatnonzero(foreign[row] & self.some(0.05, total))
        word[strange] = len(WORDS) + self.rng.integers(len(FOREIGN), size=len(strange))
        lengths = self.pools.lengths[word]
        ends = np.zeros(total, np.bool_)
        stops = np.cumsum(self.rng.integers(4, 20, size=total // 4 + 1)) - 1
        ends[stops[stops < total]] = True
        rows = np.concatenate([np.empty(0, np.int64), *inserts[0]])
        slots = bounds[rows] + (self.rng.random(len(rows)) * (words[rows] - 1)).astype(np.int64)
        slots, kept = np.unique(slots, return_index=True)  # two sentences that fall on one place: the first stays
        ends[slots] = True
        ends[(slots - 1)[slots > bounds[row[slots]]]] = True
        ends[lasts] = True
        capital = np.concatenate([[True], ends[:-1]])[:total]
        paragraph = ends & self.some(0.15, total)
        paragraph[lasts] = False
        pool = self.pools.tokens
        if inserts[1]:
            sentences = pa.concat_arrays(inserts[1])
            lengths[slots] = np.asarray(pc.binary_length(sentences))[kept]
            pool = pa.concat_arrays([pool, sentences])
        # wrapped at 70 columns, counted from the last mail or paragraph
        fresh = np.concatenate([[True], paragraph[:-1]])[:total]
        fresh[firsts] = True
        written = np.cumsum(lengths)
        line = (written - (written - lengths)[np.maximum.accumulate(np.where(fresh, np.arange(total), 0))]) // 70
        breaks = (np.diff(line, prepend=0) > 0) & ~fresh
        # suffixes: 0 space, 1 comma, 2 full stop; +3 where the line ends; 6 where a paragraph ends; +7 inside a quotation
        suffix = np.where(ends, 2, np.where(self.some(0.06, total), 1, 0)) + 3 * breaks
        suffix = np.where(paragraph, 6, suffix) + 7 * quoted[row]
        suffix[lasts] = 5
        token = (suffix * 2 + capital) * len(self.pools.lengths) + word
        token[slots] = len(self.pools.tokens) + kept
        return _glue(pool.take(pa.array(token)), bounds)

    # values

    def date(self) -> pa.Array:
        return _join(self.pick(self.pools.days), " ", self.digits(2, top=24), ":", self.digits(2, top=60), ":00 -0700")

    def message_id(self, numbers: I64) -> pa.Array:
        """The id of the mail of this number, the same wherever it is mentioned."""
        mixed = _mix(numbers)
        digits = pa.array(mixed >> np.uint64(12)).cast(pa.large_string())
        return _join(
            digits,
            ".JavaMail.",
            _take(self.pools.hosts, mixed % np.uint64(8)),
            "@",
            _take(self.pools.hosts, mixed % np.uint64(len(self.pools.hosts))),
        )

    def addresses(self, size: int) -> pa.Array:
        return self.someone(size)[1]

    def phones(self, size: int | None = None) -> pa.Array:
        size = self.count if size is None else size
        spelling = (self.rng.random(size) ** 2 * len(PHONE_FORMS)).astype(np.int64)
        forms = self.pools.phone_forms
        number = self.ranks(size, 100 * len(AREAS))  # some telephones ring all day
        area, line = pa.array(number % len(AREAS)), pa.array((number // len(AREAS)) % 100).cast(pa.large_string())
        opened, closed = (column.take(pa.array(spelling)) for column in forms)
        return _join(opened, self.pools.areas.take(area), closed, pc.utf8_lpad(line, 2, "0"))

    def ips(self, size: int | None = None) -> pa.Array:
        number = self.ranks(self.count if size is None else size, 3 * 254)
        four = _join(_take(self.pools.networks, number % 3), (pa.array(number // 3 + 1)).cast(pa.large_string()))
        hexadecimal = _join("2001:db8::", self.pools.hexes.take(pa.array(number)))
        return pc.if_else(pa.array(self.some(0.12, len(number))), hexadecimal, four)

    def urls(self, size: int) -> pa.Array:
        tail = _join("?id=", self.digits(5, size))
        return _join(
            self.pick(self.pools.schemes, size), self.pick(self.pools.domains.slice(0, len(self.pools.domains) // 2), size),
            "/", self.pick(self.pools.plain, size), "/", self.pick(self.pools.plain, size), _only(self.some(0.4, size), tail),
        )  # fmt: skip

    def cards(self, size: int) -> pa.Array:
        return self.pick(self.pools.cards, size)

    def ibans(self, size: int) -> pa.Array:
        return _take(self.pools.ibans, self.ranks(size, len(self.pools.ibans)) - 1)

    def ssns(self, size: int) -> pa.Array:
        # areas 773 to 899: never given out before 2011, and well-formed
        number = _mix(self.ranks(size, self.people))
        area, group, serial = (
            773 + number % np.uint64(127),
            1 + (number >> np.uint64(16)) % np.uint64(99),
            1 + (number >> np.uint64(32)) % np.uint64(9999),
        )
        text = [pc.utf8_lpad(pa.array(part).cast(pa.large_string()), width, "0") for part, width in ((area, 3), (group, 2), (serial, 4))]
        return _join(text[0], "-", text[1], "-", text[2])


def _join(*pieces: pa.Array | str) -> pa.Array:
    """Strings side by side, row by row."""
    length = next(len(piece) for piece in pieces if not isinstance(piece, str))
    columns = [pa.repeat(pa.scalar(piece, pa.large_string()), length) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))


def _only(where: Mask, piece: pa.Array | str) -> pa.Array:
    """The piece where it is wanted, nothing elsewhere."""
    if isinstance(piece, str):
        piece = pa.scalar(piece, pa.large_string())
    return pc.if_else(pa.array(where), piece, pa.scalar("", pa.large_string()))


def _take(pool: pa.Array, index: npt.NDArray[np.generic]) -> pa.Array:
    return pool.take(pa.array(index.astype(np.int64)))


def _glue(tokens: pa.Array, bounds: I64) -> pa.Array:
    """Rows of tokens joined into one string each, without copying: only the offsets are thinned out."""
    offsets = np.frombuffer(tokens.buffers()[1], np.int64, len(tokens) + 1)[bounds] if len(tokens) else np.zeros(len(bounds), np.int64)
    return pa.LargeStringArray.from_buffers(len(bounds) - 1, pa.py_buffer(np.ascontiguousarray(offsets)), tokens.buffers()[2])


def _mix(numbers: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """A fixed shuffle of 64-bit numbers (the finaliser of splitmix64), so that neighbours have nothing in common."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
