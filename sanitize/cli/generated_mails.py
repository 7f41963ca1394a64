"""Generates mails of invented people from a seed: for the demo, the self-test of `doctor`, tests
and benchmarks.

All people, addresses and numbers are invented (see `cli/invented_data.py`). The shape is that of
real mail: header blocks with folded address lists, quoted and forwarded mails, signatures,
power-law frequencies. A mail is a row of indices into pools of words, joined by one Arrow `take`;
no Python loop runs over mails or words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.array_types import I64, U64, Mask
from sanitize.cli.invented_data import (
    AREA_CODES,
    ENGLISH_WORDS,
    FOREIGN_WORDS,
    GIVEN_NAMES,
    PHONE_FORMATS,
    SURNAMES,
    load_invented_data,
)

# mails generated at once; each chunk has its own generator, so another number gives other mails for
# a seed
MAILS_PER_CHUNK = 5_000
MAIL_SCHEMA = pa.schema(
    [("doc_id", pa.large_string()), ("user_id", pa.large_string()), ("text", pa.large_string())]
)


@dataclass(frozen=True)
class MailProfile:
    """How often a mail has each element: shares of the mails that have it, or means per mail."""

    mean_words: float = (
        172.0  # words of a mail's own prose; replies and forwards add half of that again
    )
    message_id: float = 1.0
    received: float = 0.25
    # chance of 0, 1, 2, ... addresses in To
    recipient_count_weights: tuple[float, ...] = (
        0.0,
        0.50,
        0.24,
        0.12,
        0.08,
        0.06,
    )
    cc_count_weights: tuple[float, ...] = (0.64, 0.20, 0.10, 0.06)
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


DENSE_PROFILE = MailProfile()
SPARSE_PROFILE = MailProfile(
    mean_words=250.0,
    message_id=0.12,
    received=0.02,
    recipient_count_weights=(0.52, 0.45, 0.03),
    cc_count_weights=(0.96, 0.04),
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


def generate_mails(count: int, seed: int = 0, *, dense: bool = True) -> pa.Table:
    """`count` invented mails with `doc_id`, `user_id` and `text`; the same arguments give the same
    mails."""
    return pa.Table.from_batches(generate_mail_batches(count, seed, dense=dense), MAIL_SCHEMA)


def generate_mail_batches(
    count: int, seed: int = 0, *, dense: bool = True
) -> Iterator[pa.RecordBatch]:
    """The mails of `generate_mails`, 5,000 at a time, for corpora larger than memory."""
    # possible authors; with them about one distinct address per mail is used
    people = max(50, 3 * count)
    for first in range(0, count, MAILS_PER_CHUNK):
        rng = np.random.default_rng([seed, first // MAILS_PER_CHUNK])
        yield _MailGenerator(
            rng,
            min(MAILS_PER_CHUNK, count - first),
            first,
            people,
            DENSE_PROFILE if dense else SPARSE_PROFILE,
        ).generate_batch()


def write_mbox(table: pa.Table, path: Path) -> None:
    """The mails of a table as one mbox file with mboxrd quoting."""
    with path.open("wb") as file:
        for text in table["text"].to_pylist():
            sender = re.search(r"^From: .*<([^>\n]*)>", text, re.MULTILINE)
            file.write(
                f"From {sender.group(1) if sender else 'nobody@example.com'} Mon May 14 16:39:00"
                " 2001\n".encode()
            )
            file.write(re.sub(r"^(>*From )", r">\1", text, flags=re.MULTILINE).encode())
            file.write(b"\n" if text.endswith("\n") else b"\n\n")


class _MailGenerator:
    """Generates one batch of mails. Most methods return one Arrow column of strings, one row per
    mail.

    The order of the draws from `rng` is part of what a seed means: another order gives other mails.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        mail_count: int,
        first_number: int,
        people_count: int,
        profile: MailProfile,
    ) -> None:
        (
            self.rng,
            self.mail_count,
            self.first_number,
            self.people_count,
            self.profile,
            self.pools,
        ) = (
            rng,
            mail_count,
            first_number,
            people_count,
            profile,
            load_invented_data(),
        )

    def generate_batch(self) -> pa.RecordBatch:
        profile, count = self.profile, self.mail_count
        numbers = np.arange(self.first_number, self.first_number + count)
        sender = self.sample_ranks(count, self.people_count // 6 + 1)
        kind = self.rng.random(count)
        reply, forward = (
            kind < profile.reply,
            (kind >= profile.reply) & (kind < profile.reply + profile.forward),
        )
        foreign = self.rng.random(count) < 0.15
        words = self.sample_word_counts(profile.mean_words)
        head = self.header_block(sender, numbers, reply, forward)
        body = self.prose(words, foreign, np.zeros(count, np.bool_), self.value_sentences())
        quoted = self.prose(np.where(reply | forward, words // 2 + 8, 0), foreign, reply, ([], []))
        text = _concat_strings(
            head,
            self.greeting(),
            body,
            self.signature(sender),
            self.quote_header(reply, forward),
            quoted,
        )
        ids = _concat_strings(
            "mail-", pc.utf8_lpad(pa.array(numbers).cast(pa.large_string()), 8, "0")
        )
        users = _concat_strings("u", pc.utf8_lpad(pa.array(sender).cast(pa.large_string()), 7, "0"))
        return pa.RecordBatch.from_arrays([ids, users, text], schema=MAIL_SCHEMA)

    # random numbers

    def sample_ranks(self, size: int, max_rank: int) -> I64:
        """Ranks from 1 to `max_rank` with probability close to 1 / (rank + 4) (Zipf and
        Mandelbrot)."""
        drawn: I64 = np.minimum(
            5.0 * np.exp(self.rng.random(size) * np.log(max_rank / 5.0 + 1.0)) - 4.0, max_rank
        ).astype(np.int64)
        return drawn

    def sample_word_counts(self, mean: float) -> I64:
        """Lengths of mails in words: log-normal, most are short and a few are long."""
        return np.clip(
            self.rng.lognormal(np.log(mean) - 0.32, 0.8, self.mail_count), 12, 4_000
        ).astype(np.int64)

    def sample_mask(self, share: float, size: int | None = None) -> Mask:
        return self.rng.random(self.mail_count if size is None else size) < share

    def sample_from(self, pool: pa.Array, size: int | None = None) -> pa.Array:
        return pool.take(
            pa.array(self.rng.integers(len(pool), size=self.mail_count if size is None else size))
        )

    def sample_digits(
        self, width: int, size: int | None = None, upper_bound: int | None = None
    ) -> pa.Array:
        numbers = self.rng.integers(
            upper_bound or 10**width, size=self.mail_count if size is None else size
        )
        return pc.utf8_lpad(pa.array(numbers).cast(pa.large_string()), width, "0")

    # people

    def names_and_addresses(self, ranks: I64) -> tuple[pa.Array, pa.Array]:
        """Name and address of the people of these ranks. A person's address always has the same
        form, but 4 % are written with capitals."""
        person = _splitmix64(ranks)  # its bits decide names, domain and form of the address
        first, last = (
            person % np.uint64(len(GIVEN_NAMES)),
            (person >> np.uint64(12)) % np.uint64(len(SURNAMES)),
        )
        domain = _splitmix64(person >> np.uint64(40)) % np.uint64(len(self.pools.domains) // 2)
        # the domains are used as unevenly as the people: squaring moves most people to the first
        # few
        domain = (domain * domain) // np.uint64(len(self.pools.domains) // 2)
        form = (person >> np.uint64(26)) % np.uint64(20)
        capitals = (self.rng.random(len(ranks)) < 0.04).astype(np.uint64)
        start = np.where(
            form < 16,
            first + capitals * np.uint64(2 * len(GIVEN_NAMES)),
            first + np.uint64(len(GIVEN_NAMES)),
        )
        separator = np.select([form < 13, form == 13, form == 14, form == 15], [0, 1, 2, 3], 3)
        number = np.where(form >= 18, 1 + (person >> np.uint64(33)) % np.uint64(98), 0)
        address = _concat_strings(
            _take(self.pools.local_part_starts, start),
            _take(self.pools.local_part_separators, separator),
            _take(self.pools.local_part_ends, last + capitals * np.uint64(len(SURNAMES))),
            _take(self.pools.local_part_numbers, number),
            "@",
            _take(self.pools.domains, domain + capitals * np.uint64(len(self.pools.domains) // 2)),
        )
        return (
            _concat_strings(
                _take(self.pools.given_names, first), " ", _take(self.pools.surnames, last)
            ),
            address,
        )

    def sample_people(self, size: int | None = None) -> tuple[pa.Array, pa.Array]:
        return self.names_and_addresses(
            self.sample_ranks(self.mail_count if size is None else size, self.people_count)
        )

    def address_list(self, count_weights: tuple[float, ...]) -> tuple[pa.Array, I64]:
        """Comma-separated addresses, folded like in mail headers, and the number of addresses in
        each row."""
        sizes = self.rng.choice(
            len(count_weights), size=self.mail_count, p=np.array(count_weights) / sum(count_weights)
        )
        pieces: list[pa.Array | str] = []
        for number in range(len(count_weights) - 1):
            name, address = self.sample_people()
            entry = pc.if_else(
                pa.array(self.sample_mask(0.3)), _concat_strings(name, " <", address, ">"), address
            )
            separator = "" if number == 0 else (", " if number % 2 else ",\n\t")
            pieces.append(
                pc.if_else(pa.array(sizes > number), _concat_strings(separator, entry), "")
            )
        return (_concat_strings(*pieces) if len(pieces) > 1 else pieces[0]), sizes

    # the blocks of a mail

    def header_block(self, sender: I64, numbers: I64, reply: Mask, forward: Mask) -> pa.Array:
        name, address = self.names_and_addresses(sender)
        to, to_count = self.address_list(self.profile.recipient_count_weights)
        copies, copy_count = self.address_list(self.profile.cc_count_weights)
        subject = _concat_strings(
            _where(reply, "Re: "),
            _where(forward, "Fw: "),
            self.sample_from(self.pools.subject_topics),
            " ",
            self.sample_from(self.pools.subject_endings),
        )
        received = _concat_strings(
            "Received: from ",
            self.sample_from(self.pools.hosts),
            " ([",
            self.ips(),
            "])\n\tby mail.example.com; ",
            self.date(),
            "\n",
        )
        return _concat_strings(
            _where(self.sample_mask(self.profile.received), received),
            _where(
                self.sample_mask(self.profile.message_id),
                _concat_strings("Message-ID: <", self.message_id(numbers), ">\n"),
            ),
            "Date: ",
            self.date(),
            "\nFrom: ",
            name,
            " <",
            address,
            ">\nTo: ",
            pc.if_else(pa.array(to_count > 0), to, "undisclosed-recipients:;"),
            _where(copy_count > 0, _concat_strings("\nCc: ", copies)),
            "\nSubject: ",
            subject,
            _where(
                reply & self.sample_mask(self.profile.message_id * 0.6),
                _concat_strings(
                    "\nIn-Reply-To: <",
                    self.message_id(numbers - 1 - self.rng.integers(40, size=self.mail_count)),
                    ">",
                ),
            ),
            "\nMime-Version: 1.0\nContent-Type: text/plain;"
            " charset=utf-8\nContent-Transfer-Encoding: 8bit\nX-From: ",
            name,
            "\nX-Folder: ",
            self.sample_from(self.pools.folders),
            "\n\n",
        )

    def greeting(self) -> pa.Array:
        name = self.pools.given_names.take(
            pa.array(self.rng.integers(len(GIVEN_NAMES), size=self.mail_count))
        )
        return pc.if_else(
            pa.array(self.sample_mask(0.7)),
            _concat_strings(self.sample_from(self.pools.greetings), " ", name, ",\n\n"),
            "",
        )

    def signature(self, sender: I64) -> pa.Array:
        name, address = self.names_and_addresses(sender)
        phone = _concat_strings("\n", self.sample_from(self.pools.phone_prefixes), self.phones())
        return _concat_strings(
            "\n",
            self.sample_from(self.pools.closings),
            "\n",
            name,
            _where(
                self.sample_mask(0.4),
                _concat_strings(
                    "\n",
                    self.sample_from(self.pools.job_titles),
                    ", ",
                    self.sample_from(self.pools.company_names),
                ),
            ),
            _where(self.sample_mask(self.profile.signature_phone), phone),
            _where(
                self.sample_mask(self.profile.signature_address), _concat_strings("\n", address)
            ),
            "\n",
        )

    def quote_header(self, reply: Mask, forward: Mask) -> pa.Array:
        """The line above a quoted mail, or the header block of a forwarded one."""
        name, address = self.sample_people()
        to, _ = self.address_list((0.0, 0.8, 0.2))
        wrote = _concat_strings("\nOn ", self.date(), ", ", name, " <", address, "> wrote:\n> ")
        block = _concat_strings(
            "\n-----Original Message-----\nFrom: ",
            name,
            " <",
            address,
            ">\nSent: ",
            self.date(),
            "\nTo: ",
            to,
            "\nSubject: ",
            self.sample_from(self.pools.subject_topics),
            "\n\n",
        )
        return _concat_strings(_where(reply, wrote), _where(forward, block))

    def value_sentences(self) -> tuple[list[I64], list[pa.Array]]:
        """Sentences with a value, for the bodies: for each column of values the mail of every
        sentence, and its text."""
        profile, rows, texts = self.profile, [], []

        def add(mean: float, column: str) -> None:
            size = int(self.rng.poisson(mean * self.mail_count))
            values = getattr(self, column)(size=size)
            rows.append(self.rng.integers(self.mail_count, size=size))
            texts.append(
                _concat_strings(
                    self.sample_from(self.pools.phrases[column], size),
                    " ",
                    values,
                    self.sample_from(self.pools.sentence_ends, size),
                )
            )

        add(profile.phone, "phones")
        add(profile.address, "addresses")
        add(profile.url, "urls")
        add(profile.ip, "ips")
        add(profile.card, "cards")
        add(profile.iban, "ibans")
        add(profile.ssn, "ssns")
        return rows, texts

    def prose(
        self,
        word_counts: I64,
        foreign: Mask,
        quoted: Mask,
        inserts: tuple[list[I64], list[pa.Array]],
    ) -> pa.Array:
        """Bodies with the given numbers of words, in sentences and wrapped paragraphs, with
        `inserts` at random places.

        Words of all mails form one array; `bounds` has the first word of each mail. A token is a
        word with its suffix (space, punctuation, line break) and capitalisation.
        """
        total = int(word_counts.sum())
        bounds = np.concatenate([[0], np.cumsum(word_counts)])
        row, firsts, lasts = (
            np.repeat(np.arange(self.mail_count), word_counts),
            bounds[:-1][word_counts > 0],
            bounds[1:][word_counts > 0] - 1,
        )
        word = np.searchsorted(self.pools.cumulative_weights, self.rng.random(total))
        foreign_words = np.flatnonzero(foreign[row] & self.sample_mask(0.05, total))
        word[foreign_words] = len(ENGLISH_WORDS) + self.rng.integers(
            len(FOREIGN_WORDS), size=len(foreign_words)
        )
        lengths = self.pools.word_lengths[word]
        ends = np.zeros(total, np.bool_)
        sentence_ends = np.cumsum(self.rng.integers(4, 20, size=total // 4 + 1)) - 1
        ends[sentence_ends[sentence_ends < total]] = True
        rows = np.concatenate([np.empty(0, np.int64), *inserts[0]])
        slots = bounds[rows] + (self.rng.random(len(rows)) * (word_counts[rows] - 1)).astype(
            np.int64
        )
        # of two sentences with the same slot the first is kept
        slots, kept = np.unique(slots, return_index=True)
        ends[slots] = True
        ends[(slots - 1)[slots > bounds[row[slots]]]] = True
        ends[lasts] = True
        capital = np.concatenate([[True], ends[:-1]])[:total]
        paragraph = ends & self.sample_mask(0.15, total)
        paragraph[lasts] = False
        pool = self.pools.word_tokens
        if inserts[1]:
            sentences = pa.concat_arrays(inserts[1])
            lengths[slots] = np.asarray(pc.binary_length(sentences))[kept]
            pool = pa.concat_arrays([pool, sentences])
        # wrapped at 70 columns, counted from the start of the mail or paragraph
        starts = np.concatenate([[True], paragraph[:-1]])[:total]
        starts[firsts] = True
        written = np.cumsum(lengths)
        line = (
            written
            - (written - lengths)[np.maximum.accumulate(np.where(starts, np.arange(total), 0))]
        ) // 70
        breaks = (np.diff(line, prepend=0) > 0) & ~starts
        # suffixes: 0 space, 1 comma, 2 full stop; +3 where the line ends; 6 where a paragraph ends;
        # +7 inside a quotation
        suffix = np.where(ends, 2, np.where(self.sample_mask(0.06, total), 1, 0)) + 3 * breaks
        suffix = np.where(paragraph, 6, suffix) + 7 * quoted[row]
        suffix[lasts] = 5
        token = (suffix * 2 + capital) * len(self.pools.word_lengths) + word
        token[slots] = len(self.pools.word_tokens) + kept
        return _join_tokens(pool.take(pa.array(token)), bounds)

    # values

    def date(self) -> pa.Array:
        return _concat_strings(
            self.sample_from(self.pools.dates),
            " ",
            self.sample_digits(2, upper_bound=24),
            ":",
            self.sample_digits(2, upper_bound=60),
            ":00 -0700",
        )

    def message_id(self, numbers: I64) -> pa.Array:
        """The Message-ID of the mails of these numbers; a number always gives the same id."""
        mixed = _splitmix64(numbers)
        digits = pa.array(mixed >> np.uint64(12)).cast(pa.large_string())
        return _concat_strings(
            digits,
            ".JavaMail.",
            _take(self.pools.hosts, mixed % np.uint64(8)),
            "@",
            _take(self.pools.hosts, mixed % np.uint64(len(self.pools.hosts))),
        )

    def addresses(self, size: int) -> pa.Array:
        return self.sample_people(size)[1]

    def phones(self, size: int | None = None) -> pa.Array:
        size = self.mail_count if size is None else size
        spelling = (self.rng.random(size) ** 2 * len(PHONE_FORMATS)).astype(np.int64)
        forms = self.pools.phone_formats
        number = self.sample_ranks(size, 100 * len(AREA_CODES))  # few numbers are very frequent
        area, line = (
            pa.array(number % len(AREA_CODES)),
            pa.array((number // len(AREA_CODES)) % 100).cast(pa.large_string()),
        )
        opened, closed = (column.take(pa.array(spelling)) for column in forms)
        return _concat_strings(
            opened, self.pools.area_codes.take(area), closed, pc.utf8_lpad(line, 2, "0")
        )

    def ips(self, size: int | None = None) -> pa.Array:
        number = self.sample_ranks(self.mail_count if size is None else size, 3 * 254)
        four = _concat_strings(
            _take(self.pools.ip_prefixes, number % 3),
            (pa.array(number // 3 + 1)).cast(pa.large_string()),
        )
        hexadecimal = _concat_strings("2001:db8::", self.pools.hex_numbers.take(pa.array(number)))
        return pc.if_else(pa.array(self.sample_mask(0.12, len(number))), hexadecimal, four)

    def urls(self, size: int) -> pa.Array:
        tail = _concat_strings("?id=", self.sample_digits(5, size))
        return _concat_strings(
            self.sample_from(self.pools.url_prefixes, size),
            self.sample_from(self.pools.domains.slice(0, len(self.pools.domains) // 2), size),
            "/",
            self.sample_from(self.pools.plain_words, size),
            "/",
            self.sample_from(self.pools.plain_words, size),
            _where(self.sample_mask(0.4, size), tail),
        )

    def cards(self, size: int) -> pa.Array:
        return self.sample_from(self.pools.card_numbers, size)

    def ibans(self, size: int) -> pa.Array:
        return _take(self.pools.ibans, self.sample_ranks(size, len(self.pools.ibans)) - 1)

    def ssns(self, size: int) -> pa.Array:
        # areas 773 to 899: well-formed, and not assigned before 2011
        number = _splitmix64(self.sample_ranks(size, self.people_count))
        area, group, serial = (
            773 + number % np.uint64(127),
            1 + (number >> np.uint64(16)) % np.uint64(99),
            1 + (number >> np.uint64(32)) % np.uint64(9999),
        )
        text = [
            pc.utf8_lpad(pa.array(part).cast(pa.large_string()), width, "0")
            for part, width in ((area, 3), (group, 2), (serial, 4))
        ]
        return _concat_strings(text[0], "-", text[1], "-", text[2])


def _concat_strings(*pieces: pa.Array | str) -> pa.Array:
    """Concatenate columns of strings row by row; a plain string is repeated in every row."""
    length = next(len(piece) for piece in pieces if not isinstance(piece, str))
    columns = [
        pa.repeat(pa.scalar(piece, pa.large_string()), length) if isinstance(piece, str) else piece
        for piece in pieces
    ]
    return pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))


def _where(mask: Mask, piece: pa.Array | str) -> pa.Array:
    """The piece in the rows of the mask, an empty string elsewhere."""
    if isinstance(piece, str):
        piece = pa.scalar(piece, pa.large_string())
    return pc.if_else(pa.array(mask), piece, pa.scalar("", pa.large_string()))


def _take(pool: pa.Array, index: npt.NDArray[np.generic]) -> pa.Array:
    return pool.take(pa.array(index.astype(np.int64)))


def _join_tokens(tokens: pa.Array, bounds: I64) -> pa.Array:
    """Join the tokens of each row into one string without copying: the data buffer stays, only the
    row offsets are kept."""
    offsets = (
        np.frombuffer(tokens.buffers()[1], np.int64, len(tokens) + 1)[bounds]
        if len(tokens)
        else np.zeros(len(bounds), np.int64)
    )
    return pa.LargeStringArray.from_buffers(
        len(bounds) - 1, pa.py_buffer(np.ascontiguousarray(offsets)), tokens.buffers()[2]
    )


def _splitmix64(numbers: npt.NDArray[np.generic]) -> U64:
    """Hash 64-bit numbers with the finaliser of splitmix64, so that consecutive numbers give
    unrelated results."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
