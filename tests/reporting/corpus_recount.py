"""Corpora of different shapes, for different plans or with labels, with their outputs, and the
counts of an output: recounted from its shards and its private folder, row by row in plain
Python."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.cli.generated_mails import generate_mails
from sanitize.pipeline import canaries
from sanitize.plans.plan import load_plan
from tests.reporting.label_recount import count_labels, label_sample
from tests.support import read_rows, reference_words

MAIL = (
    "Write to ann.roe@example.com or bob.lee@example.org, later to ann.roe@example.com;"
    " card 4111 1111 1111 1111."
)
# of the canary documents: people, and the written forms; the first four must be removed
CANARY_PEOPLE = 8
CANARY_FORMS = (
    "as written",
    "in brackets",
    "upper case",
    "full-width",
    "zero-width",
    "HTML",
    "URL",
    "base64",
    "digits",
    "spelled out",
)
REQUIRED_FORMS = CANARY_FORMS[:4]
SPLITS = ("train", "validation", "test")  # in the order of the output
INVENTING_EDITORS = ("rmft", "pseudonymize")
UNCHECKED_EDITORS = ("header_dedup",)  # it leaves values in bodies, so the check searches for none

Row = Mapping[str, Any]
Edit = tuple[int, int, str]  # start_byte, end_byte, replacement


# ---- corpora ----


def write_mails(folder: Path) -> tuple[Path, int]:
    """Mails, of which some occur twice and are dropped."""
    texts = generate_mails(30, 5)["text"].to_pylist() + [MAIL, MAIL]
    path = folder / "mails.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, *texts[:5]]))
    return path, len(texts) + 5


def write_chats(folder: Path) -> tuple[Path, int]:
    """Chats with a record that cannot be read, and addresses that only the sweep finds."""
    chats = [
        {
            "messages": [
                {
                    "role": "user",
                    "content": f"I am Ann Roe, at p{no % 3}@example.com, 205-555-0142",
                },
                {"role": "assistant", "content": f"We write to P{no % 3}%40EXAMPLE.com today."},
            ]
        }
        for no in range(8)
    ]
    chats[0]["messages"].append({"role": "user", "content": "It is cDFAZXhhbXBsZS5jb20= there."})
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in chats) + '{"messages": broken\n')
    return path, len(chats) + 1


def write_table(folder: Path) -> tuple[Path, int]:
    """A table with columns of people and of telephone numbers, and one that stays."""
    rows = [
        f'{no},Eva Moor{"" if no % 2 else " Lee"},205-555-01{no:02d},"card 4111 1111 1111 1111,'
        f' mail u{no % 4}@example.org, by Eva Moor",203.0.113.{no % 5}'
        for no in range(12)
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["number,author,phone,note,server_ip", *rows]) + "\n")
    return path, len(rows)


def write_mails_of_users(folder: Path) -> tuple[Path, int]:
    """Mails of four users."""
    texts = generate_mails(12, 5)["text"].to_pylist()
    path = folder / "mails.jsonl"
    path.write_text(
        "".join(
            json.dumps({"text": text, "user_id": f"user{no % 4}"}) + "\n"
            for no, text in enumerate(texts)
        )
    )
    return path, len(texts)


def write_mails_to_label(folder: Path) -> tuple[Path, int]:
    """Texts with several addresses, with one, and without any."""
    texts = [
        "Nobody is named in this text.",
        "Write to {0}@example.com, or to {0}@example.org.",
        "Call 205-555-01{0}, or write to x{0}@example.net.",
    ]
    rows = [{"text": texts[no % 3].format(f"{no:02d}")} for no in range(36)]
    path = folder / "mails.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, len(rows)


def write_more_mails(folder: Path) -> tuple[Path, int]:
    """Mails to append to those of `write_mails`, of which some occur there, and a record that
    cannot be read."""
    texts = generate_mails(40, 5)["text"].to_pylist()[25:]
    path = folder / "more.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*texts, MAIL]))
    with path.open("a") as file:
        file.write('{"text": broken\n')
    return path, len(texts) + 2


def write_splits(folder: Path) -> tuple[Path, int]:
    """Texts in a train, a validation and a test split, of different sizes; the train split has two
    shards."""
    texts = [f"Write to {no:02d}@example.com, or call 205-555-01{no:02d}." for no in range(24)]
    (folder / "splits").mkdir()
    for name, split in zip(SPLITS, (texts[:15], texts[15:17], texts[17:]), strict=True):
        rows = "".join(json.dumps({"text": text}) + "\n" for text in split)
        (folder / "splits" / f"{name}.jsonl").write_text(rows)
    return folder / "splits", len(texts)


@dataclass(frozen=True)
class Corpus:
    """How to write a corpus and how to sanitize it."""

    write: Callable[[Path], tuple[Path, int]]  # returns the input and its number of records
    plan: str
    changes: Sequence[str] = ()  # of the plan
    options: Mapping[str, Any] = field(default_factory=dict)  # of the run
    write_more: Callable[[Path], tuple[Path, int]] | None = None  # appended to the output
    is_labelled: bool = False  # a sample is labelled and scored, and the output made again


CORPORA = {
    "mails": Corpus(
        write_mails,
        "rmft",
        ['drop=[{use="exact_dup", body_only=true}]'],
        {"rows_per_shard": 20},
    ),
    "chats": Corpus(write_chats, "redact", options={"max_quarantine": 0.5}),
    "table": Corpus(
        write_table, "surrogates", options={"text_column": "note", "keep": ["server_ip"]}
    ),
    "words": Corpus(
        write_mails_of_users,
        "mask_words",
        ["blacklist.k=2", "blacklist.n=2", 'edit.0.reasons=["direct", "indirect"]'],
    ),
    "headers": Corpus(write_mails_of_users, "header_dedup"),
    "increments": Corpus(
        write_mails,
        "rmft",
        options={"rows_per_shard": 20, "max_quarantine": 0.5},
        write_more=write_more_mails,
    ),
    "splits": Corpus(write_splits, "redact", options={"rows_per_shard": 10}),
    "labels": Corpus(write_mails_to_label, "redact", is_labelled=True),
}


@dataclass(frozen=True)
class Published:
    """An output, its private folder and the folder of its run, what was printed of it, the options
    of its run, its labelled sample, and its canary documents with their edits, which a run keeps
    nowhere."""

    sources: Sequence[Path]
    out: Path
    work: Path
    run: Path
    records: int
    appended_records: int
    options: Mapping[str, Any]
    labels: Path | None
    plan_hash: str
    result: sanitize.RunResult
    summary: dict[str, Any]
    verified: dict[str, Any]
    canary_texts: Sequence[str]
    canary_edits: Mapping[int, Sequence[Edit]]


def publish_corpus(name: str, folder: Path) -> Published:
    """The output of one of `CORPORA`, below `folder`."""
    corpus = CORPORA[name]
    path, records = corpus.write(folder)
    appended_records = 0
    sources = [path / f"{name}.jsonl" for name in SPLITS] if path.is_dir() else [path]
    plan, out, labels = load_plan(corpus.plan, corpus.changes), folder / "out", folder / "labels"
    planted: list[tuple[Sequence[str], Mapping[int, Sequence[Edit]]]] = []
    run_documents = canaries._run_pipeline

    def observe(engine: Any, plan: Any, key: Any, texts: Sequence[str], *more: Any) -> Any:
        edits = run_documents(engine, plan, key, texts, *more)
        planted.append((texts, edits))
        return edits

    def sanitize_input(source: Path, **more: Any) -> sanitize.RunResult:
        options = {"seed": 1, "workers": 1, **corpus.options, **more}
        return sanitize.run(source, out, plan=plan, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canaries, "_run_pipeline", observe)
        patch.setattr(canaries, "_RESULTS", {})
        result = sanitize_input(path)
        if corpus.write_more is not None:
            more_path, more_records = corpus.write_more(folder)
            result = sanitize_input(more_path, append=True)
            appended_records = more_records
            sources, records = [*sources, more_path], records + more_records
        if corpus.is_labelled:
            label_sample(folder / "out.private", labels)
            result = sanitize_input(path)
    work = folder / "out.private"
    ((canary_texts, canary_edits),) = planted
    return Published(
        sources=sources,
        out=out,
        work=work,
        run=work / "runs" / result.run_hash,
        records=records,
        appended_records=appended_records,
        options=corpus.options,
        labels=labels if corpus.is_labelled else None,
        plan_hash=plan.public_hash,
        result=result,
        summary=result.to_dict(),
        verified=sanitize.verify(out, workers=1).to_dict(),
        canary_texts=canary_texts,
        canary_edits=canary_edits,
    )


# ---- counts ----


def list_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from list_strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from list_strings(one)


def list_leaves(value: Any, steps: Sequence[str]) -> Iterator[str]:
    """The texts at a path such as `[]`, `content` in a value."""
    if value is None:
        return
    if not steps:
        yield value
    elif steps[0] == "[]":
        for one in value:
            yield from list_leaves(one, steps[1:])
    else:
        yield from list_leaves(value[steps[0]], steps[1:])


class Recount:
    """The tables of a run, row by row."""

    def __init__(self, published: Published) -> None:
        self.published, run, work = published, published.run, published.work
        self.shards = sorted((published.out / "data").glob("*.parquet"))
        (self.rows,) = (
            duckdb.connect()
            .execute("SELECT count(*) FROM read_parquet(?)", [[str(path) for path in self.shards]])
            .fetchone()
        ) or (0,)
        self.strings = [
            text for path in self.shards for text in list_strings(pq.read_table(path).to_pylist())
        ]
        self.drops = read_rows(run / "drops")
        self.dropped = {row["doc_no"] for row in self.drops}
        self.quarantined = read_rows(work / "quarantine", "*/*.parquet")
        self.swept = read_rows(run / "sweep", "[0-9]*.parquet")
        self.indexed = read_rows(work / "tables" / "occurrences")
        self.all_found = [*self.indexed, *self.swept]
        self.found = [row for row in self.all_found if row["doc_no"] not in self.dropped]
        self.kept = read_rows(run / "kept")
        self.edits: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for edit in read_rows(run / "edits"):
            self.edits.setdefault((edit["doc_no"], edit["cell"]), []).append(edit)
        self.column_values = read_rows(run / "vault" / "column_values")
        self.values = [*read_rows(work / "vault" / "values"), *self.column_values]
        self.plan = json.loads((run / "plan.json").read_text())
        self.manifest = json.loads((published.out / "manifest.json").read_text())
        self.keep = {
            kind: part["keep"] for part in self.manifest["plan"]["edit"] for kind in part["kinds"]
        }
        # the check reads all files but the sums, which are written after it
        self.checked_files = sum(path.is_file() for path in published.out.rglob("*")) - 1
        unchecked = [
            part for part in self.manifest["plan"]["edit"] if part["use"] in UNCHECKED_EDITORS
        ]
        self.checked_kinds = {*self.keep} - {kind for part in unchecked for kind in part["kinds"]}
        self.other_files = [
            path for path in published.out.rglob("*") if path.is_file() and path not in self.shards
        ]

    @property
    def documents_in(self) -> int:
        return self.rows + len(self.dropped) + len(self.quarantined)

    @cached_property
    def texts(self) -> list[str]:
        """The texts that were searched: those of the columns in index.json."""
        return self._list_texts(0)

    @property
    def new_texts(self) -> list[str]:
        """The texts that the last run searched: of an append, those of the appended documents."""
        appended = self.published.appended_records
        return self._list_texts(self.published.records - appended if appended else 0)

    def _list_texts(self, first_document: int) -> list[str]:
        leaves = json.loads((self.published.work / "index.json").read_text())["leaf_paths"]
        gone = {row["doc_no"] for row in self.quarantined}
        return [
            text
            for number, row in enumerate(read_rows(self.published.work / "documents"))
            if number >= first_document and number not in gone
            for column, *steps in leaves
            for text in list_leaves(row[column], steps)
        ]

    @cached_property
    def measured(self) -> dict[str, Any] | None:
        """What the summary says about the labels."""
        return None if self.published.labels is None else count_labels(self.published.labels)

    # ---- splits and increments

    @cached_property
    def splits(self) -> dict[str, Counter[str]]:
        """Rows and bytes of the shards by split, which their names begin with."""
        counts: dict[str, Counter[str]] = {}
        for path in self.shards:
            split = counts.setdefault(path.name.partition("-")[0], Counter())
            split["rows"] += pq.read_metadata(path).num_rows
            split["bytes"] += path.stat().st_size
        return counts

    @cached_property
    def appended(self) -> dict[str, int] | None:
        """What the last run added, if it appended to an output."""
        if not self.published.appended_records:
            return None
        new_shards = [path for path in self.shards if "-b0002-" in path.name]
        return {
            "files": len(self.published.sources) - 1,
            "documents": sum(pq.read_metadata(path).num_rows for path in new_shards),
            "shards": len(new_shards),
        }

    # ---- columns and parts of plans

    @cached_property
    def kept_cells(self) -> dict[str, int]:
        """The cells of each column that was kept because its values are wanted."""
        rows = read_rows(self.published.out / "data")
        columns = self.published.options.get("keep", ())
        return {column: sum(row[column] != "" for row in rows) for column in columns}

    @cached_property
    def listed_ngrams(self) -> Counter[tuple[int, str]]:
        """The entries of the blacklist by number of words and reason."""
        listed = read_rows(self.published.run / "vault" / "blacklist")
        return Counter((row["n"], row["reason"]) for row in listed)

    @cached_property
    def masked_words(self) -> int:
        """Words outside of occurrences that were masked."""
        return sum(edit["kind"] == "WORD" for edits in self.edits.values() for edit in edits)

    @cached_property
    def blacklist(self) -> dict[str, Any] | None:
        """What the summary says about the blacklist."""
        if (settings := self.manifest["plan"].get("blacklist")) is None:
            return None
        return {
            "k": settings["k"],
            "n": settings["n"],
            "documents": self.rows,
            "documents_without_user": 0,
            "words": sum(len(reference_words(text)) for text in self.texts),
            "listed": [
                {"n": n, "ngrams": ngrams} for (n, _), ngrams in sorted(self.listed_ngrams.items())
            ],
            "masked_words": self.masked_words,
        }

    @cached_property
    def removals_by_field(self) -> dict[str, dict[str, int]]:
        """Addresses that header deduplication removed, spans and whole lines, by header field."""
        counts: dict[str, Counter[str]] = {}
        spans = set[tuple[int, int]]()
        documents = read_rows(self.published.work / "documents")
        for row in self.found:
            for edit in self.find_edits(row):
                if edit["part"] == "header_dedup":
                    text = documents[edit["doc_no"]]["text"].encode()
                    before, removed = (
                        text[: edit["start_byte"]],
                        text[edit["start_byte"] : edit["end_byte"]],
                    )
                    field = re.findall(rb"^[> ]*([\w-]+):", text[: row["start_byte"]], re.M)[-1]
                    count = counts.setdefault(field.decode().lower(), Counter(spans=0, lines=0))
                    count["occurrences"] += 1
                    if (span := (edit["doc_no"], edit["start_byte"])) not in spans:
                        spans.add(span)
                        count["spans"] += 1
                        count["lines"] += before[-1:] in (b"", b"\n") and removed.endswith(b"\n")
        return {field: dict(count) for field, count in counts.items()}

    # ---- occurrences

    def find_edits(self, row: Row) -> list[dict[str, Any]]:
        return [
            edit
            for edit in self.edits.get((row["doc_no"], row["cell"]), ())
            if edit["start_byte"] < row["end_byte"] and edit["end_byte"] > row["start_byte"]
        ]

    # ---- by kind ----

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds that were found, most occurrences first."""
        counts = Counter(row["kind"] for row in self.found)
        return sorted(counts, key=lambda kind: (-counts[kind], kind))

    @cached_property
    def by_kind(self) -> dict[str, dict[str, Any]]:
        return {kind: self._count_kind(kind) for kind in sorted(self.kinds)}

    def sum_kinds(self, name: str) -> int:
        return sum(counts[name] for counts in self.by_kind.values())

    @property
    def checked_originals(self) -> int:
        """The kept originals of the kinds that the check searches for."""
        return sum(
            counts["kept"] for kind, counts in self.by_kind.items() if kind in self.checked_kinds
        )

    def _count_kind(self, kind: str) -> dict[str, Any]:
        rows = [row for row in self.found if row["kind"] == kind]
        replaced = sum(bool(self.find_edits(row)) for row in rows)
        kept = len(rows) - replaced if kind in self.keep else 0
        skipped = Counter[str]()
        for row in read_rows(self.published.work / "tables" / "skipped"):
            if row["kind"] == kind:
                skipped[row["reason"]] += row["candidates"]
        finder_rows = [row for row in rows if row["finder"] != "sweep"]
        return {
            "occurrences": len(rows),
            "kept": kept,
            "replaced": replaced,
            "left_by_plan": len(rows) - kept - replaced,
            "values": len({row["value_id"] for row in finder_rows}),
            "documents": len({row["doc_no"] for row in finder_rows}),
            "skipped": dict(skipped),
            "swept": len(rows) - len(finder_rows),
        }

    def find_outcome(self, row: Row) -> tuple[str, object]:
        """What became of an occurrence, and the value or surrogate that stands in its place."""
        overlapping = self.find_edits(row)
        own = [edit for edit in overlapping if edit["kind"] == row["kind"]]
        if row["doc_no"] in self.dropped:
            return "dropped", None
        if not overlapping:
            return ("kept" if row["kind"] in self.keep else "left"), row["value_id"]
        if not own:
            return "by another", None
        text, part = own[0]["replacement"], own[0]["part"]
        if text == "":
            return "deleted", None
        if text.startswith(f"[{row['kind']}"):
            return "label", None
        return ("surrogate", text) if part in INVENTING_EDITORS else ("other text", None)

    @cached_property
    def outcomes(self) -> Counter[tuple[str, str]]:
        """Occurrences by kind and outcome."""
        return Counter((row["kind"], self.find_outcome(row)[0]) for row in self.all_found)

    def count_shares(self, location: str, kind: str) -> tuple[int, int]:
        """The occurrences at a location (header field, body, no mail) and how many were edited;
        `kind` may be all."""
        rows = [
            row
            for row in self.found
            if kind in ("all", row["kind"]) and location == (row["section"] or "no mail")
        ]
        return len(rows), sum(bool(self.find_edits(row)) for row in rows)

    def count_texts(self, kind: str, part: str) -> int:
        """The occurrences in mail headers, mail bodies or texts that are no mails."""
        return sum(
            part
            == {"": "texts that are not mails", "body": "mail bodies"}.get(
                row["section"] or "", "mail headers"
            )
            for row in self.found
            if row["kind"] == kind
        )

    def rank_values(self, kind: str) -> tuple[list[int], list[int]]:
        """How often each value occurs in the input, and each value or surrogate in the output; most
        frequent first."""
        before = Counter(row["value_id"] for row in self.indexed if row["kind"] == kind)
        after = Counter(
            value
            for row in self.all_found
            if row["kind"] == kind
            for _, value in [self.find_outcome(row)]
            if value is not None
        )
        return sorted(before.values(), reverse=True), sorted(after.values(), reverse=True)

    # ---- checks ----

    @cached_property
    def searched_ids(self) -> set[int]:
        """The values that the check searches for: those of the edited kinds, and of columns."""
        return {row["value_id"] for row in self.column_values} | {
            row["value_id"] for row in self.values if row["kind"] in self.checked_kinds
        }

    @property
    def searched_values(self) -> dict[str, int]:
        return {
            "values_checked": len(self.searched_ids),
            "values_removed": len(self.searched_ids & self.removed_ids),
        }

    @cached_property
    def removed_ids(self) -> set[int]:
        """The values of which an occurrence is gone from the output."""
        return {row["value_id"] for row in self.column_values} | {
            row["value_id"]
            for row in self.all_found
            if row["doc_no"] in self.dropped or self.find_edits(row)
        }

    @cached_property
    def canaries(self) -> dict[str, Any]:
        """The planted values of invented people and those of them that were removed, by form."""
        copies = max(1, *self.keep.values())
        forms = ["as written"] * copies + list(CANARY_FORMS)
        texts = self.published.canary_texts[: len(forms) * CANARY_PEOPLE]
        planted, removed = Counter[str](), Counter[str]()
        for number, text in enumerate(texts):
            copy, form = min(number // CANARY_PEOPLE, copies), forms[number // CANARY_PEOPLE]
            edits = self.published.canary_edits.get(number, ())
            for line in re.finditer(rb"^Reach (\w+) by <?(.*?)>? today[.]$", text.encode(), re.M):
                if copy >= self.keep[line[1].decode().upper()]:
                    start, end = line.span(2)
                    gone = [
                        any(low <= position < high for low, high, _ in edits)
                        for position in range(start, end)
                    ]
                    planted[form] += 1
                    removed[form] += all(gone) if form in REQUIRED_FORMS else any(gone)

        def count(names: Sequence[str]) -> dict[str, int]:
            return {
                "planted": sum(planted[name] for name in names),
                "removed": sum(removed[name] for name in names),
            }

        return {
            **count(REQUIRED_FORMS),
            "documents": len(texts),
            "encoded": count(CANARY_FORMS[4:]),
            "by_form": {form: count([form]) for form in CANARY_FORMS if planted[form]},
        }

    @cached_property
    def canary_samples(self) -> dict[str, str]:
        """The lines of the last canary text, before and after its edits."""
        number = len(self.published.canary_texts) - 1
        before = after = self.published.canary_texts[number].encode()
        for start, end, text in sorted(self.published.canary_edits[number], reverse=True):
            after = after[:start] + text.encode() + after[end:]
        lines = zip(before.decode().splitlines(), after.decode().splitlines(), strict=True)
        return dict(lines)

    @cached_property
    def shapes(self) -> tuple[str, str]:
        """The texts of the input and those of the output, masked."""
        texts = list_strings(read_rows(self.published.work / "documents"))
        return "\n".join(map(mask_text, texts)), "\n".join(map(mask_text, self.strings))


def mask_text(text: str) -> str:
    """A text by its shape: letters as a and A, digits as 9, each run cut at four."""
    for pattern, letter in (("[a-z]", "a"), ("[A-Z]", "A"), ("[0-9]", "9")):
        text = re.sub(f"{pattern}+", lambda run, to=letter: to * min(len(run[0]), 4), text)
    return re.sub(r"\s", " ", text)
