"""Lines before and after of the documents of a diff, and the HTML page that shows them side by
side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from sanitize.core.command_results import (
    IF_SET,
    ColumnPolicy,
    CommandResult,
)
from sanitize.core.table_rendering import SummaryTable
from sanitize.reporting.page_templates import render_template

Segment = tuple[str, str]  # a mark, and a text without line breaks


DIFF_TEXTS = {
    "shapes": "masked by shape, but for labels and new surrogates; ‹...› marks an original in OUT",
    "output": "as in the output; what was removed is masked by shape",
    "all": "in clear, with what was removed: do not share this",
}


def mark_masked(shape: str) -> str:
    """The shape of an original that OUT holds, marked as masked: it is not what OUT shows."""
    return "\n".join(f"‹{line}›" if line else line for line in shape.split("\n"))


@dataclass(frozen=True, kw_only=True)
class DiffPiece:
    """A piece of a text before and after the run; `mark` says what became of it.

    `text` is unchanged and no occurrence; `kept` (a kept original) and `left` (a kind that the plan
    leaves) are occurrences and unchanged; `replaced` and `swept` (found by the leak check) have
    `after` in place of `before`; `dropped` is the text of a dropped document. `omitted` is
    unchanged or other text of `characters` that is not shown. `part` is the part of the plan that
    decided, `kind` may be empty for edits that are no occurrence.
    """

    mark: Literal["text", "kept", "left", "replaced", "swept", "dropped", "omitted"]
    before: str = ""
    after: str = ""
    kind: str = ""
    part: str = ""
    characters: Annotated[int | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True)
class CellDiff:
    """A text of a document that has marks: its number, the leaf it comes from, and its pieces in
    order."""

    cell: int
    leaf: str
    pieces: Sequence[DiffPiece]


@dataclass(frozen=True, kw_only=True)
class DocumentDiff:
    """A document before and after the run. `outcome` is `changed`, `unchanged`, `dropped` (by
    `part` of the plan, for `reason`, because of document `kept_doc_no` where there is one),
    `quarantined` (for `reason`) or `absent` (erased, or not in the sample of the run). `marks`
    has the number of pieces of each mark in the whole document, also of pieces that `cells` leaves
    out. `source` and `location` are the input file and the position in it; empty where texts are
    masked."""

    doc_no: int
    doc_id: str
    outcome: Literal["changed", "unchanged", "dropped", "quarantined", "absent"]
    marks: Mapping[str, int]
    cells: Sequence[CellDiff]
    split: str = ""
    source: str = ""
    location: str = ""
    part: str = ""
    reason: str = ""
    kept_doc_no: Annotated[int | None, IF_SET] = None


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffResult(CommandResult):
    """The result of `diff`: the documents that are shown, of `matching` ones, before and after the
    run.

    `shown` says which texts are in clear: `shapes` (none: all are masked by shape), `output` (what
    OUT holds) or `all`. `columns` are those that a policy changes as a whole. `page` is the HTML
    page that was written, if one was.
    """

    out: str
    work: str
    plan: str
    shown: Literal["shapes", "output", "all"]
    matching: int
    documents: Sequence[DocumentDiff]
    columns: Sequence[ColumnPolicy]
    page: str | None = None

    def summary_table(self) -> SummaryTable:
        facts = [
            ("plan", self.plan),
            ("documents", f"{len(self.documents):,} of {self.matching:,} that match"),
            ("texts", DIFF_TEXTS[self.shown]),
            *([("page", self.page)] if self.page else []),
        ]
        rows = [
            (
                one.doc_no,
                one.outcome,
                *(one.marks.get(mark, 0) for mark in ("replaced", "swept", "kept", "left")),
            )
            for one in self.documents
        ]
        header = ("document", "outcome", "replaced", "swept", "kept", "left")
        return SummaryTable(
            title=f"sanitize diff: {self.out}", facts=facts, header=header, rows=rows
        )


@dataclass(frozen=True, repr=False)
class DiffLine:
    """A line of a text before the run, what became of it, and a note for each mark in it. An edit
    over several lines is one line here."""

    before: list[Segment] = field(default_factory=list)
    after: list[Segment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_changed: bool = False
    omitted: int = 0  # characters that are not shown here, instead of a text


def list_lines(cell: CellDiff) -> Iterator[DiffLine]:
    """The lines of a text of a document."""
    before: list[Segment] = []
    after: list[Segment] = []
    marks: list[DiffPiece] = []

    def take_line() -> DiffLine:
        nonlocal before, after, marks
        changed = any(piece.mark in ("replaced", "swept", "dropped") for piece in marks)
        notes = Counter(note for piece in marks if (note := describe_mark(piece)))
        line = DiffLine(
            before,
            after,
            [note + (f" ({times} times)" if times > 1 else "") for note, times in notes.items()],
            changed,
        )
        before, after, marks = [], [], []
        return line

    for piece in cell.pieces:
        if piece.mark == "omitted":
            if before or after:
                yield take_line()
            yield DiffLine(omitted=piece.characters or 0)
            continue
        if piece.mark in ("text", "kept", "left", "dropped"):
            lines = piece.before.split("\n")
            published = lines if piece.mark == "dropped" else piece.after.split("\n")
            for number, (text, text_after) in enumerate(zip(lines, published, strict=True)):
                if number:
                    yield take_line()
                if text or piece.mark != "text":
                    before.append((piece.mark, text))
                    after += [] if piece.mark == "dropped" else [(piece.mark, text_after)]
                    marks += [] if piece.mark == "text" else [piece]
            continue
        before.append((piece.mark, piece.before))
        after.append((piece.mark, piece.after))
        marks.append(piece)
    if before or after:
        yield take_line()


def describe_mark(piece: DiffPiece) -> str:
    """What became of an occurrence, with its kind and the part of the plan that decided."""
    kind = piece.kind or "text"
    match piece.mark:
        case "replaced":
            return (
                f"{kind} replaced by {piece.part}"
                if piece.after
                else f"{kind} removed by {piece.part}"
            )
        case "swept":
            return f"{kind} swept: only the leak check found it"
        case "kept":
            return f"{kind} kept by {piece.part}"
        case "left":
            return f"{kind} left by the plan" + (
                ": allowed, or a low score" if piece.part == "find" else ""
            )
    return ""


def describe_outcome(document: DocumentDiff) -> str:
    """What became of a document, in words."""
    match document.outcome:
        case "dropped":
            other = (
                "" if document.kept_doc_no is None else f", as in document {document.kept_doc_no}"
            )
            return f"dropped by {document.part}: {document.reason}{other}"
        case "quarantined":
            return f"quarantined: {document.reason}"
        case "absent":
            return "not in the output: erased, or not in the sample of the run"
    counts = [
        f"{document.marks[mark]:,} {mark}"
        for mark in ("replaced", "swept", "kept", "left")
        if document.marks.get(mark)
    ]
    return ", ".join(counts) if counts else "nothing was found"


def render_diff_page(result: DiffResult) -> str:
    """The page of a diff as HTML, without scripts and external resources."""
    documents = [
        {
            "doc_no": document.doc_no,
            "doc_id": "" if document.doc_id == str(document.doc_no) else document.doc_id,
            "split": document.split,
            "place": f"{document.source}, {document.location}" if document.source else "",
            "outcome": document.outcome,
            "description": describe_outcome(document),
            "cells": [
                {"leaf": cell.leaf, "lines": list(list_lines(cell))} for cell in document.cells
            ],
        }
        for document in result.documents
    ]
    return render_template(
        "diff.html.j2",
        plan=result.plan,
        texts=DIFF_TEXTS[result.shown],
        is_masked=result.shown == "shapes",
        matching=result.matching,
        documents=documents,
        columns=[{"name": column.name, "policy": column.policy} for column in result.columns],
        marks=_list_marks(result.documents),
    )


def _list_marks(documents: Sequence[DocumentDiff]) -> list[tuple[str, str]]:
    """The marks that the page has, each with what it means."""
    meanings = {
        "replaced": "replaced by the plan",
        "swept": "found by the leak check alone, and replaced",
        "kept": "an original that the plan keeps",
        "left": "found, and left by the plan",
        "dropped": "of a dropped document",
    }
    used = {
        piece.mark for document in documents for cell in document.cells for piece in cell.pieces
    }
    return [(mark, text) for mark, text in meanings.items() if mark in used]
