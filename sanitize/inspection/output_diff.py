"""What a run changed, document by document (`sanitize diff`): originals with their edits, kept
originals, swept and dropped texts.

Nothing holds the originals twice: they are read from the input files, or from WORK where a reader
decoded them. An input file is compared with its hash first, because the edits are byte offsets into
it. What OUT holds follows from the original and the edits.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl

from sanitize.array_types import I64
from sanitize.core.command_results import ColumnPolicy
from sanitize.errors import InputRefused, LeakFound, UsageError, suggest_names
from sanitize.kinds.kind import custom_kinds, get_kind
from sanitize.pipeline.data_objects import write_object
from sanitize.pipeline.input_objects import read_object
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.detection_spec import list_custom_kinds
from sanitize.plans.plan import Plan
from sanitize.plans.python_api import (
    ExplainOptions,
    check_argument,
    name_data_object,
    public_function,
)
from sanitize.plans.settings import settings_of
from sanitize.reporting.diff_page import (
    CellDiff,
    DiffPiece,
    DiffResult,
    DocumentDiff,
    mark_masked,
    render_diff_page,
)
from sanitize.reporting.html_report import has_parts_of_values
from sanitize.reporting.report_data import (
    PublishedRun,
    open_published_run,
    refuse_page_with_values,
    require_outside,
    require_page_or_new,
)
from sanitize.storage import private_folder
from sanitize.storage.corpus import DocumentFile, flatten_cells
from sanitize.storage.disk_errors import translate_disk_errors
from sanitize.storage.files import file_sha256
from sanitize.storage.private_folder import (
    OCCURRENCES_FOLDER,
    QUARANTINE_FOLDER,
    read_rows,
    report_broken_tables,
)
from sanitize.storage.remote_storage import require_local_path
from sanitize.storage.table_schemas import EDITS, OCCURRENCES
from sanitize.storage.views.masks import mask_replacements, mask_texts

Mark = Literal["replaced", "swept", "kept", "left"]
MARKS: tuple[Mark, ...] = ("replaced", "swept", "kept", "left")
SELECTABLE = (*MARKS, "dropped")
_MAX_MARKS = 500  # of a document that are shown; further ones are counted
_DROPPED_CHARACTERS = 600  # of a dropped document that are shown
_PLACE = ["doc_no", "cell"]
_MARK_SCHEMA = {
    "doc_no": pl.Int64,
    "cell": pl.Int32,
    "start_byte": pl.Int64,
    "end_byte": pl.Int64,
    "mark": pl.String,
    "kind": pl.String,
    "part": pl.String,
    "replacement": pl.String,
}


@public_function("explain")
def diff(
    out: Any,
    /,
    *,
    plan: Plan | Path | str | None = None,
    work: Path | str | None = None,
    kind: Sequence[str] | str = (),
    only: Sequence[str] | str = (),
    id: Sequence[str] | str = (),
    document: Sequence[int] | int = (),
    sample: int | None = None,
    seed: int = 0,
    limit: int = 20,
    context: int = 160,
    reveal: bool = False,
    reveal_output: bool = False,
    html: Path | str | None = None,
    **options: Unpack[ExplainOptions],
) -> DiffResult:
    """What the run that published OUT changed, document by document, in corpus order; or, of data
    in memory (see `run`), what a run with `plan` would change, with `options` as in `explain`.

    Shown are documents that it changed or dropped; with `kind` or `only` (`replaced`, `swept`,
    `kept`, `left`, `dropped`) those that have such a mark; with `id` or `document` (numbers, from
    0) these documents. `sample` draws so many of them by `seed`; `limit` is the most that are
    shown. `context` characters are shown around a mark. Labels and surrogates are shown as OUT
    holds them, and all other texts masked by shape; with `reveal_output` all that OUT holds is in
    clear, with `reveal` all. `html` is the file of a
    page to write, outside of OUT and WORK.

    Raises UsageError for a wrong selection and for a folder that is no output; InputRefused if an
    input file, which holds the originals, is missing or not the one that was read; LeakFound if a
    page would hold a removed value.

    >>> import sanitize
    >>> first = sanitize.diff("clean", only="replaced", limit=1).documents[0]
    >>> [(piece.before, piece.after) for piece in first.cells[0].pieces if piece.kind == "PERSON"]
    [('Aaa Aaa', '[PERSON]')]
    """
    if name_data_object(out):
        settings = replace(settings_of("explain", options), workers=1, max_quarantine=1.0)
        with write_object("diff", read_object("diff", out).data) as (folder, _):
            published = folder.parent / "out"
            run_with_settings(folder, published, Plan.load(plan or "redact"), None, settings)
            result = diff(
                published,
                kind=kind,
                only=only,
                id=id,
                document=document,
                sample=sample,
                seed=seed,
                limit=limit,
                context=context,
                reveal=reveal,
                reveal_output=reveal_output,
                html=html,
            )
        documents = [
            replace(one, source="data in memory" if one.source else "") for one in result.documents
        ]
        return replace(result, out="data in memory", work="", documents=documents)
    check_argument("diff", "out", out, Path | str)
    if plan is not None or options:
        raise UsageError(
            f"diff: {'plan' if plan is not None else next(iter(options))} is for data in memory;"
            " OUT was published with a plan and columns, which its manifest has. Leave it out"
        )
    for name, number, least in (
        ("--sample", sample, 1),
        ("--limit", limit, 1),
        ("--context", context, 0),
    ):
        if number is not None and number < least:
            raise UsageError(f"{name} {number}: expected at least {least}")
    run = open_published_run(require_local_path(out), work)
    kinds, marks = _as_names(kind), _as_names(only)
    with custom_kinds(list_custom_kinds(run.index)):
        for name in kinds:
            get_kind(name)
    for name in marks:
        if name not in SELECTABLE:
            raise UsageError(f"--only {name[:40]}: {suggest_names(name, SELECTABLE)}")
    page = require_local_path(html) if html is not None else None
    if page is not None:
        require_outside(page, run.out, run.work)
        if page.is_dir() or not page.absolute().parent.is_dir():
            raise UsageError(
                f"{page}: expected a file to write the page to, in a folder that exists"
            )
        require_page_or_new(page)
    source = _RunTables(run)
    numbers = [document] if isinstance(document, int) else list(document)
    if id or numbers:
        matching = source.find_documents(_as_names(id), numbers)
        if kinds or marks:
            matching = np.intersect1d(matching, source.select_documents(kinds, marks))
    else:
        matching = source.select_documents(kinds, marks)
    chosen = matching
    if sample is not None and sample < len(matching):
        chosen = np.sort(np.random.default_rng(seed).choice(matching, sample, replace=False))
    documents = source.read_documents(
        chosen[:limit], kinds, [one for one in marks if one in MARKS], context
    )
    shown: Literal["shapes", "output", "all"] = (
        "all" if reveal else "output" if reveal_output else "shapes"
    )
    result = DiffResult(
        out=str(run.out),
        work=str(run.work),
        plan=str(run.manifest["plan"].get("name", "")),
        shown=shown,
        matching=len(matching),
        documents=_mask(
            documents,
            shown,
            source.has_readable_ids,
            hides_surrogates=has_parts_of_values(run.manifest["plan"]),
        ),
        columns=[
            ColumnPolicy(**column)
            for column in run.manifest["columns"]
            if column["policy"] in ("pseudonymize", "drop")
        ],
        page=None if page is None else str(page),
    )
    if page is not None:
        try:
            _write_page(page, render_diff_page(result), run, is_private=shown != "shapes")
        except LeakFound:  # a surrogate may hold what looks like a value of another kind
            masked = _mask(documents, shown, source.has_readable_ids, hides_surrogates=True)
            result = replace(result, documents=masked)
            _write_page(page, render_diff_page(result), run, is_private=False)
    return result


def _as_names(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _write_page(page: Path, html: str, run: PublishedRun, *, is_private: bool) -> None:
    """Write the page; one with texts in clear is readable by its owner only, one without must hold
    no removed value."""
    if not is_private:
        with private_folder.read_workspace(run.work, "page") as spill:
            refuse_page_with_values(html, run, spill)
    with translate_disk_errors(page.parent):
        # mode 0600
        handle, name = tempfile.mkstemp(dir=page.absolute().parent, prefix=".diff-", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(html)
            if not is_private:
                umask = os.umask(0o077)
                os.umask(umask)
                os.chmod(name, 0o666 & ~umask)
            os.replace(name, page)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


class _RunTables:
    """The tables of a published run, and the documents that it read."""

    def __init__(self, run: PublishedRun) -> None:
        self.run = run
        self.documents = run.index.documents
        self.leaves = run.index.leaves
        hashes = [sha256 for _, sha256 in run.index.input_files]
        if hashes[: len(run.manifest["inputs"])] != [
            file["sha256"] for file in run.manifest["inputs"]
        ]:
            raise UsageError(
                f"{run.work}: was indexed from other files since {run.out} was published; run the"
                f" command of {run.out} again"
            )
        self.task_nos = range(len(run.manifest["shards"]))
        plan = run.manifest["plan"]
        self._editor_by_kind: dict[str, str] = {}
        for part in plan.get("edit", ()):
            for name in part.get("kinds", ()):
                self._editor_by_kind.setdefault(name, str(part.get("use", "")))
        policies = {column["name"]: column["policy"] for column in run.manifest["columns"]}
        self.has_readable_ids = policies.get("doc_id") == "keep"  # OUT has them as they are
        self._drops = read_rows(
            run.work, run.folder / "drops", ("doc_no", "part", "reason", "kept_doc_no")
        )
        self._quarantine = read_rows(run.work, run.work / QUARANTINE_FOLDER, ("doc_no", "reason"))

    # -------------------------------------------------------------------------------- selection

    def select_documents(self, kinds: Sequence[str], marks: Sequence[str]) -> I64:
        """The numbers of the documents that have a mark of one of `kinds` and `marks`, or were
        dropped; without both, that were changed or dropped."""
        wanted = marks or (MARKS if kinds else ("replaced", "swept", "dropped"))
        found: list[I64] = []
        for no in self.task_nos if set(wanted) & set(MARKS) else ():
            table = self._read_marks(
                no, needs_occurrences=bool(set(wanted) & {"kept", "left"}), needs_sweep=bool(marks)
            )
            selected = table.filter(
                pl.col("mark").is_in(wanted) & (pl.col("kind").is_in(kinds) if kinds else True)
            )
            found.append(selected["doc_no"].unique().to_numpy())
        if "dropped" in wanted and not kinds and self._drops.height:
            found.append(self._drops["doc_no"].unique().to_numpy())
        return np.unique(np.concatenate([np.empty(0, np.int64), *found])).astype(np.int64)

    def find_documents(self, ids: Sequence[str], numbers: Sequence[int]) -> I64:
        """The numbers of the documents with one of these ids or numbers; UsageError where one has
        none."""
        end = self.run.index.task_ranges[self.task_nos[-1]][1] if self.task_nos else 0
        for number in numbers:
            if not 0 <= number < end:
                raise UsageError(
                    f"--document {number}: the documents of {self.run.out} have the numbers 0 to"
                    f" {end - 1}"
                )
        found, seen = list(numbers), set()
        self._require_originals(self.documents.files)
        for table in self.documents.read(0, end, ["doc_id"]) if ids else ():
            frame = pl.DataFrame(table).filter(pl.col("doc_id").cast(pl.String).is_in(list(ids)))
            found += frame["doc_no"].to_list()
            seen |= set(frame["doc_id"].to_list())
        if missing := len(set(ids) - seen):
            raise UsageError(
                f"--id: {missing} of {len(set(ids))} ids belong to no document of {self.run.out};"
                " without a column of ids, the number of a document is its id"
            )
        return np.unique(np.array(found, np.int64))

    # ------------------------------------------------------------------------------------ marks

    def _read_task_table(self, path: Path, schema: Any, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of a table of one task; no row if the task wrote none."""
        if path.is_file():
            with report_broken_tables(self.run.work):
                frame = pl.read_parquet(path, columns=list(columns), glob=False)
        else:
            frame = pl.DataFrame(schema.empty_table()).select(columns)
        return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).sort(
            "doc_no", "cell", "start_byte"
        )

    def _read_marks(
        self, task_no: int, *, needs_occurrences: bool = True, needs_sweep: bool = True
    ) -> pl.DataFrame:
        """What became of the texts of one task: a row for each edit and for each occurrence that no
        edit changed."""
        name, folder = f"{task_no:05d}.parquet", self.run.folder
        span = [*_PLACE, "start_byte", "end_byte"]
        edits = self._read_task_table(
            folder / "edits" / name, EDITS.schema, [*span, "replacement", "part", "kind"]
        )
        swept = pl.Series([False] * edits.height, dtype=pl.Boolean)
        if needs_sweep:
            swept = _overlaps(
                edits, self._read_task_table(folder / "sweep" / name, OCCURRENCES.schema, span)
            )
        edited = edits.with_columns(
            mark=pl.when(swept).then(pl.lit("swept")).otherwise(pl.lit("replaced"))
        )
        frames = [edited]
        if needs_occurrences:
            path = self.run.work / OCCURRENCES_FOLDER / name
            occurrences = self._read_task_table(path, OCCURRENCES.schema, [*span, "kind"])
            occurrences = occurrences.filter(
                ~_overlaps(occurrences, edits)
                & ~pl.col("doc_no").is_in(self._drops["doc_no"].to_list())
            )
            # there if the plan has rules of selection
            selected = folder / "selected" / "occurrences" / name
            is_selected = pl.lit(value=True)
            if selected.is_file():
                places = self._read_task_table(selected, OCCURRENCES.schema, span).with_columns(
                    is_selected=True
                )
                occurrences = occurrences.join(places, on=span, how="left", maintain_order="left")
                is_selected = pl.col("is_selected").is_not_null()
            editor = pl.col("kind").replace_strict(
                self._editor_by_kind, default=None, return_dtype=pl.String
            )
            # what the plan edits, and no edit changed, is an original that its editor keeps
            is_kept = is_selected & editor.is_not_null()
            frames.append(
                occurrences.with_columns(
                    mark=pl.when(is_kept).then(pl.lit("kept")).otherwise(pl.lit("left")),
                    part=pl.when(is_kept)
                    .then(editor)
                    .when(is_selected)
                    .then(pl.lit("leave"))
                    .otherwise(pl.lit("find")),
                    replacement=pl.lit(None, pl.String),
                )
            )
        columns = [pl.col(column).cast(kind) for column, kind in _MARK_SCHEMA.items()]
        return (
            pl.concat([frame.select(columns) for frame in frames])
            .with_columns(pl.col("kind", "part").fill_null(""))
            .sort(*span)
        )

    # -------------------------------------------------------------------------------- documents

    def read_documents(
        self, doc_nos: I64, kinds: Sequence[str], marks: Sequence[str], context: int
    ) -> list[DocumentDiff]:
        """The diffs of documents, in clear. Around marks of `kinds` and `marks` (of all where these
        are empty) the text is shown."""
        files = self.documents.files
        needed = [
            file
            for file in files
            if ((doc_nos >= file.first_doc_no) & (doc_nos < file.first_doc_no + file.rows)).any()
        ]
        self._require_originals(needed)
        reasons = dict(self._quarantine.select("doc_no", "reason").iter_rows())
        drops = {row["doc_no"]: row for row in self._drops.iter_rows(named=True)}
        readable = np.array(
            [doc_no for doc_no in doc_nos.tolist() if doc_no not in reasons], np.int64
        )
        texts = self.documents.read_texts(self.leaves, readable)
        ids, leaf_of_cell = self._read_ids_and_leaves(readable)
        places = self.documents.find_places(doc_nos.tolist())
        ranges = self.run.index.task_ranges
        found: list[DocumentDiff] = []
        task_marks: tuple[int, dict[Any, pl.DataFrame], set[int]] = (-1, {}, set())
        for doc_no in doc_nos.tolist():
            task_no = next(no for no in self.task_nos if ranges[no][0] <= doc_no < ranges[no][1])
            if task_no != task_marks[0]:
                in_task = self._read_marks(task_no).filter(pl.col("doc_no").is_in(doc_nos.tolist()))
                with report_broken_tables(self.run.work):
                    rows = pl.read_parquet(
                        self.run.folder / "rows" / f"{task_no:05d}.parquet", glob=False
                    )["doc_no"]
                task_marks = (
                    task_no,
                    in_task.partition_by("doc_no", as_dict=True),
                    set(rows.to_list()),
                )
            split = next(
                file.split
                for file in files
                if file.first_doc_no <= doc_no < file.first_doc_no + file.rows
            )
            empty = DocumentDiff(
                doc_no=doc_no,
                doc_id=ids.get(doc_no, ""),
                outcome="absent",
                marks={},
                cells=[],
                split=split,
                source=places[doc_no].source,
                location=places[doc_no].location,
            )
            if doc_no in reasons:
                found.append(replace(empty, outcome="quarantined", reason=reasons[doc_no]))
            elif (drop := drops.get(doc_no)) is not None:
                cells = [
                    _show_dropped(text, leaf_of_cell[doc_no, 0])
                    for place, text in texts.items()
                    if place == (doc_no, 0)
                ]
                facts = {
                    "part": drop["part"] or "",
                    "reason": drop["reason"] or "",
                    "kept_doc_no": drop["kept_doc_no"],
                }
                found.append(replace(empty, outcome="dropped", cells=cells, **facts))
            elif doc_no in task_marks[2]:
                marks_of_document = task_marks[1].get((doc_no,), pl.DataFrame(schema=_MARK_SCHEMA))
                found.append(
                    _build_document(
                        empty, marks_of_document, texts, leaf_of_cell, kinds, marks, context
                    )
                )
            else:
                found.append(empty)
        return found

    def _read_ids_and_leaves(
        self, doc_nos: I64
    ) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
        """The ids of documents, and the leaf that each of their cells comes from."""
        ids: dict[int, str] = {}
        leaves: dict[tuple[int, int], str] = {}
        for table in self.documents.read_selected(
            doc_nos, [*dict.fromkeys(["doc_id", *(leaf.column for leaf in self.leaves)])]
        ):
            numbers = table.column("doc_no").to_pylist()
            ids |= dict(zip(numbers, map(str, table.column("doc_id").to_pylist()), strict=True))
            for column in flatten_cells(table, self.leaves):
                leaves |= {
                    (numbers[row], cell): str(column.leaf)
                    for row, cell in zip(column.flat.rows, column.cell.tolist(), strict=True)
                }
        return ids, leaves

    def _require_originals(self, files: Iterable[DocumentFile]) -> None:
        """InputRefused unless the files that hold the originals are those that the run read."""
        known = {sha256 for _, sha256 in self.run.index.input_files}
        work = self.run.work.resolve()
        for file in files:
            path = Path(file.path)
            remedy = "Put it back unchanged, or run again from the files as they are now"
            if not path.is_file():
                raise InputRefused(
                    f"{path}: is missing, and {self.run.out} was made from it: a diff reads the"
                    f" originals there. {remedy}"
                )
            if not path.resolve().is_relative_to(work) and file_sha256(path) not in known:
                raise InputRefused(
                    f"{path}: is not the file that {self.run.out} was made from (its sha256"
                    f" differs); a diff reads the originals there. {remedy}"
                )


def _overlaps(spans: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """For each span, whether it overlaps one of the others of its text. Both are sorted by
    document, cell and start."""
    if not (spans.height and others.height):
        return pl.Series([False] * spans.height, dtype=pl.Boolean)
    # of all that start before the end of a span, the one that ends last
    reach = others.select(
        *_PLACE, start=pl.col("start_byte"), reach=pl.col("end_byte").cum_max().over(_PLACE)
    )
    numbered = (
        spans.select(*_PLACE, "start_byte", last_byte=pl.col("end_byte") - 1)
        .with_row_index("row")
        .sort(*_PLACE, "last_byte")
    )
    joined = numbered.join_asof(
        reach,
        left_on="last_byte",
        right_on="start",
        by=_PLACE,
        strategy="backward",
        check_sortedness=False,
    ).sort("row")
    return (joined["reach"] > joined["start_byte"]).fill_null(value=False)


# --------------------------------------------------------------------------------------- pieces


def _build_document(
    document: DocumentDiff,
    marks: pl.DataFrame,
    texts: Mapping[tuple[int, int], str],
    leaf_of_cell: Mapping[tuple[int, int], str],
    kinds: Sequence[str],
    wanted: Sequence[str],
    context: int,
) -> DocumentDiff:
    """A surviving document: its cells that have marks, each as the pieces that are shown."""
    counts = Counter(marks["mark"].to_list())
    cells, shown = [], 0

    def is_in_focus(piece: DiffPiece) -> bool:
        return piece.mark in (wanted or MARKS) and (not kinds or piece.kind in kinds)

    for (cell,), in_cell in sorted(marks.partition_by("cell", as_dict=True).items()):
        place = (document.doc_no, int(str(cell)))
        pieces = _split_text(
            texts[place].encode(),
            in_cell.head(_MAX_MARKS - shown),
            is_complete=in_cell.height <= _MAX_MARKS - shown,
        )
        shown += in_cell.height
        if any(map(is_in_focus, pieces)):
            trimmed = _trim_context(pieces, is_in_focus, context)
            cells.append(CellDiff(cell=place[1], leaf=leaf_of_cell[place], pieces=trimmed))
        if shown >= _MAX_MARKS:
            break
    is_changed = counts["replaced"] + counts["swept"] > 0
    return replace(
        document,
        outcome="changed" if is_changed else "unchanged",
        marks=dict(sorted(counts.items())),
        cells=cells,
    )


def _split_text(raw: bytes, marks: pl.DataFrame, *, is_complete: bool) -> list[DiffPiece]:
    """A text as pieces with and without marks. Edits do not overlap; an occurrence inside an
    earlier piece is left out."""
    pieces: list[DiffPiece] = []
    position = 0

    def add_text(end: int) -> None:
        if end > position:
            text = raw[position:end].decode()
            pieces.append(DiffPiece(mark="text", before=text, after=text))

    for start, end, mark, kind, part, replacement in marks.select(
        list(_MARK_SCHEMA)[2:]
    ).iter_rows():
        if start < position or (start == position == end and mark in ("kept", "left")):
            continue
        add_text(start)
        before = raw[start:end].decode()
        pieces.append(
            DiffPiece(
                mark=mark,
                before=before,
                after=before if replacement is None else replacement,
                kind=kind,
                part=part,
            )
        )
        position = end
    if is_complete:
        add_text(len(raw))
    elif position < len(raw):
        pieces.append(DiffPiece(mark="omitted", characters=len(raw[position:].decode())))
    return pieces


def _trim_context(
    pieces: Sequence[DiffPiece], is_in_focus: Callable[[DiffPiece], bool], context: int
) -> list[DiffPiece]:
    """The pieces in focus with `context` characters on either side; what is between is one piece
    that says how much it is."""
    trimmed: list[DiffPiece] = []
    gap: list[DiffPiece] = []
    for piece in pieces:
        if not is_in_focus(piece):
            gap.append(piece)
            continue
        trimmed += [*_trim_gap(gap, context, has_before=bool(trimmed), has_after=True), piece]
        gap = []
    return trimmed + _trim_gap(gap, context, has_before=True, has_after=False)


def _trim_gap(
    gap: Sequence[DiffPiece], context: int, *, has_before: bool, has_after: bool
) -> list[DiffPiece]:
    """What is shown of the pieces between two in focus: the beginning after the first, the end
    before the second."""
    lengths = [piece.characters or len(piece.before) for piece in gap]
    total, shown_count = sum(lengths), context * (has_before + has_after)
    if total <= shown_count + 20:  # what would be omitted is hardly longer than the note
        return list(gap)
    head, tail = (
        _take(gap, context, from_end=False) if has_before else [],
        _take(gap, context, from_end=True) if has_after else [],
    )
    left = total - sum(len(piece.before) for piece in (*head, *tail))
    return [*head, DiffPiece(mark="omitted", characters=left), *tail]


def _take(gap: Sequence[DiffPiece], count: int, *, from_end: bool) -> list[DiffPiece]:
    """The first or last pieces of a gap with at most `count` characters, cut at a line or a word
    where there is one."""
    taken: list[DiffPiece] = []
    for piece in reversed(gap) if from_end else gap:
        length = piece.characters or len(piece.before)
        if piece.mark == "omitted" or (length > count and piece.mark != "text"):
            break
        if length > count:
            text = _cut_text(piece.before, count, from_end=from_end)
            taken += [DiffPiece(mark="text", before=text, after=text)] if text else []
            break
        taken.append(piece)
        count -= length
    return taken[::-1] if from_end else taken


def _cut_text(text: str, count: int, *, from_end: bool) -> str:
    """At most `count` characters of the beginning or the end of a text: whole lines, or else whole
    words, of at least half of them."""
    if not count:
        return ""
    cut = text[-count:] if from_end else text[:count]
    for separator in ("\n", " "):
        at = cut.find(separator) if from_end else cut.rfind(separator)
        length = len(cut) - at - 1 if from_end else at + 1
        if at >= 0 and length >= count // 2:
            return cut[at + 1 :] if from_end else cut[: at + 1]
    return cut


def _show_dropped(text: str, leaf: str) -> CellDiff:
    """The beginning of a dropped document."""
    pieces = [DiffPiece(mark="dropped", before=text[:_DROPPED_CHARACTERS])] if text else []
    if len(text) > _DROPPED_CHARACTERS:
        pieces.append(DiffPiece(mark="omitted", characters=len(text) - _DROPPED_CHARACTERS))
    return CellDiff(cell=0, leaf=leaf, pieces=pieces)


# ---------------------------------------------------------------------------------------- masks


def _mask(
    documents: Sequence[DocumentDiff],
    shown: str,
    has_readable_ids: bool,
    *,
    hides_surrogates: bool = False,
) -> list[DocumentDiff]:
    """The documents with masks over what is not shown: with `output` what OUT does not hold, with
    `shapes` every id, and every text that replaced no other. Files are not named: a name may hold
    a value."""
    if shown == "all":
        return list(documents)
    pieces = [piece for document in documents for cell in document.cells for piece in cell.pieces]
    is_in_output = [
        shown == "output" and piece.mark not in ("replaced", "swept", "dropped") for piece in pieces
    ]
    kinds = [piece.kind for piece in pieces]
    before = _mask_lines([piece.before for piece in pieces], kinds, mask_texts)
    # labels and surrogates are shown as OUT holds them; an original that it holds is masked
    shown_after = [
        mark_masked(old) if piece.mark in ("kept", "left") else old if piece.mark == "text" else new
        for piece, old, new in zip(
            pieces,
            before,
            _mask_lines([piece.after for piece in pieces], kinds, mask_replacements)
            if hides_surrogates
            else [piece.after for piece in pieces],
            strict=True,
        )
    ]
    masked = iter(
        piece
        if clear
        else replace(piece, before=old, after=piece.after if shown == "output" else new)
        for piece, clear, old, new in zip(pieces, is_in_output, before, shown_after, strict=True)
    )
    ids = [document.doc_id for document in documents]
    shown_ids = (
        ids
        if shown == "output" and has_readable_ids
        else _mask_lines(ids, [""] * len(ids), mask_texts)
    )
    # an id that is the number of its document says nothing
    shown_ids = [
        old if old == str(one.doc_no) else new
        for one, old, new in zip(documents, ids, shown_ids, strict=True)
    ]
    return [
        replace(
            document,
            doc_id=doc_id,
            source="",
            location="",
            cells=[
                replace(cell, pieces=[next(masked) for _ in cell.pieces]) for cell in document.cells
            ],
        )
        for document, doc_id in zip(documents, shown_ids, strict=True)
    ]


def _mask_lines(
    texts: Sequence[str], kinds: Sequence[str], mask: Callable[[pl.Series, pl.Series], pl.Series]
) -> list[str]:
    """The texts masked line by line, so that they keep their lines."""
    lines = [text.split("\n") for text in texts]
    flat = pl.Series([line for parts in lines for line in parts], dtype=pl.String)
    flat_kinds = pl.Series(
        [kind for kind, parts in zip(kinds, lines, strict=True) for _ in parts], dtype=pl.String
    )
    masked = iter(mask(flat, flat_kinds).to_list())
    return ["\n".join(next(masked) for _ in parts) for parts in lines]
