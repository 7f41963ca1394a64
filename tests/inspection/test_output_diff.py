"""What `sanitize diff` shows of a run over invented texts: originals, edits, kept originals, swept
and dropped texts, and their masks."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sanitize
from sanitize.cli.diff_screen import draw_diff
from sanitize.errors import InputRefused, LeakFound, OutputBroken, SanitizeError, UsageError
from sanitize.inspection.output_diff import MARKS, _mask, _overlaps, _trim_context
from sanitize.reporting.diff_page import (
    CellDiff,
    DiffPiece,
    DiffResult,
    DocumentDiff,
    list_lines,
)
from sanitize.storage.corpus import Corpus

HIDDEN = base64.b64encode(b"mail me at ann.lee@example.com now").decode()
TEXTS = [
    "Dear all,\nwrite to ann.lee@example.com or call 713-555-0142.\nRegards é\n"
    + "a line of words\n" * 40
    + "again ann.lee@example.com\n",
    "<script>alert(1)</script> \x1b[31m ann.lee@example.com \u202e, http://a.example/?q=1",
    "the same text of bob@example.org",
    "the same text of bob@example.org",
    "nothing here",
    f"hidden {HIDDEN}",
]
CHAT = json.dumps([{"role": "user", "content": "I am ann.lee@example.com"}])
PLAN = """
leave = ["resource"]
[find]
kinds = ["default"]
[find.allow]
EMAIL_ADDRESS = ["*@support.example"]
[[drop]]
use = "exact_dup"
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
keep = 1
[[edit]]
use = "redact"
kinds = ["*"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with in.parquet, the output out, its workspace, and the output out2 of a CSV, which
    is decoded into its workspace."""
    folder = tmp_path_factory.mktemp("diff")
    notes = ["help@support.example", "bob@example.org", "", "", "ann.lee@example.com", ""]
    frame = pl.DataFrame(
        {"id": [f"doc{no}" for no in range(6)], "text": TEXTS, "note": notes, "user_id": ["u"] * 6}
    )
    frame.write_parquet(folder / "in.parquet")
    (folder / "plan.toml").write_text(PLAN)
    options: dict[str, Any] = {
        "plan": folder / "plan.toml",
        "id_column": "id",
        "seed": 1,
        "workers": 1,
        "rows_per_shard": 3,
    }
    sanitize.run(folder / "in.parquet", folder / "out", **options)
    frame.select("id", "text").head(2).write_csv(folder / "in.csv")
    sanitize.run(folder / "in.csv", folder / "out2", **options)
    return folder


def joined(result: DiffResult, side: str) -> dict[tuple[int, str], str]:
    return {
        (one.doc_no, cell.leaf): "".join(getattr(p, side) for p in cell.pieces)
        for one in result.documents
        for cell in one.cells
    }


def test_pieces_are_the_input_and_the_output(folder: Path) -> None:
    """Before: the input, byte for byte; after: what OUT holds. Cells without a mark are not
    listed."""
    result = sanitize.diff(folder / "out", context=10**6, reveal=True)
    source, rows = pl.read_parquet(folder / "in.parquet"), {}
    for shard in Corpus.open(folder / "out").shards:
        rows |= {row["doc_id"]: row for row in shard.read().to_pylist()}
    assert joined(result, "before") == {
        (no, leaf): source[leaf][no] for no, leaf in joined(result, "before")
    }
    surviving = {place: text for place, text in joined(result, "after").items() if place[0] != 3}
    assert surviving == {(no, leaf): rows[f"doc{no}"][leaf] for no, leaf in surviving}
    changed = {
        (no, leaf)
        for no in (0, 1, 2, 4, 5)
        for leaf in ("text", "note")
        if rows[f"doc{no}"][leaf] != source[leaf][no]
    }
    assert changed <= surviving.keys() and len(changed) == 5


def test_every_mark_has_its_kind_and_part(folder: Path) -> None:
    found = [
        (one.doc_no, cell.leaf, piece.mark, piece.kind, piece.part)
        for one in sanitize.diff(folder / "out", document=list(range(6)), reveal=True).documents
        for cell in one.cells
        for piece in cell.pieces
        if piece.mark not in ("text", "omitted")
    ]
    assert found == [
        (0, "text", "kept", "EMAIL_ADDRESS", "rmft"),
        (0, "text", "replaced", "PHONE_NUMBER", "redact"),
        (0, "text", "replaced", "EMAIL_ADDRESS", "rmft"),
        (0, "note", "left", "EMAIL_ADDRESS", "find"),  # the plan allows it
        (1, "text", "replaced", "EMAIL_ADDRESS", "rmft"),
        (1, "text", "left", "URL", "leave"),
        (1, "note", "kept", "EMAIL_ADDRESS", "rmft"),
        (2, "text", "replaced", "EMAIL_ADDRESS", "rmft"),
        (3, "text", "dropped", "", ""),
        (4, "note", "replaced", "EMAIL_ADDRESS", "rmft"),
        (5, "text", "swept", "EMAIL_ADDRESS", "rmft"),
    ]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"kind": "URL"}, [1]),
        ({"kind": ["PHONE_NUMBER", "URL"]}, [0, 1]),
        ({"only": "swept"}, [5]),
        ({"only": ["kept"]}, [0, 1]),
        ({"only": "left"}, [0, 1]),
        ({"only": "left", "kind": "EMAIL_ADDRESS"}, [0]),
        ({"only": ["dropped", "swept"]}, [3, 5]),
        ({"id": ["doc4", "doc1"]}, [1, 4]),
        ({"document": 3}, [3]),
        ({"document": [0, 3], "id": "doc1", "only": "left"}, [0, 1]),
        ({"limit": 2}, [0, 1]),
        ({"kind": "IBAN_CODE"}, []),
    ],
)
def test_selection(folder: Path, selection: dict[str, Any], expected: list[int]) -> None:
    assert [one.doc_no for one in sanitize.diff(folder / "out", **selection).documents] == expected


def test_a_sample_is_drawn_by_its_seed(folder: Path) -> None:
    drawn = {
        seed: [one.doc_no for one in sanitize.diff(folder / "out", sample=3, seed=seed).documents]
        for seed in range(8)
    }
    assert drawn[1] == [
        one.doc_no for one in sanitize.diff(folder / "out", sample=3, seed=1).documents
    ]
    assert len({tuple(numbers) for numbers in drawn.values()}) > 3 and all(
        numbers == sorted(set(numbers)) for numbers in drawn.values()
    )


def test_the_text_around_a_mark_is_limited(folder: Path) -> None:
    (document,) = sanitize.diff(
        folder / "out", only="kept", kind="EMAIL_ADDRESS", document=0, context=20, reveal=True
    ).documents
    assert [
        (piece.mark, piece.before or piece.characters) for piece in document.cells[0].pieces
    ] == [
        ("text", "Dear all,\nwrite to "),  # hardly longer than the note of what is omitted
        ("kept", "ann.lee@example.com"),
        ("text", " or call "),
        ("omitted", len(TEXTS[0]) - TEXTS[0].index("713")),
    ]
    # those that are not shown are counted
    assert document.marks == {"kept": 1, "left": 1, "replaced": 2}


def test_masks(folder: Path, console: Callable[..., tuple[int, str, str]]) -> None:
    """Nothing shows a value or a text unless it is asked for; `reveal_output` shows what OUT holds,
    and nothing else."""
    forms: dict[str, list[str]] = {}
    for name, options in {"shapes": [], "output": ["--reveal-output"], "all": ["--reveal"]}.items():
        out, page = str(folder / "out"), folder / f"{name}.html"
        runs = [
            console("diff", out, *options, *more)
            for more in (["--json"], ["--view", "side"], ["--view", "unified"], ["--html", page])
        ]
        assert [code for code, _, _ in runs] == [0, 0, 0, 0]
        forms[name] = [
            *(text.replace(str(folder), "") for _, text, _ in runs[:3]),
            page.read_text(),
        ]
        assert page.stat().st_mode & 0o077 == (0o044 if name == "shapes" else 0)
    output_texts = "\n".join(
        str(shard.read().to_pylist()) for shard in Corpus.open(folder / "out").shards
    )
    for name, texts in forms.items():
        for text in texts:
            assert ("713-555-0142" in text) == (HIDDEN[18:34] in text) == (name == "all"), name
            assert ("Dear all" in text) == ("ann.lee@example.com" in text) == (name != "shapes"), (
                name
            )
            if name == "output":
                addresses = set(re.findall(r"[\w.]+@[\w.]+\w", re.sub("<[^>]*>", " ", text)))
                # the others are masked
                shown = {address for address in addresses if set(address) - set("a@.")}
                assert shown and all(address in output_texts for address in shown)


def test_the_page_and_the_terminal_escape_texts(folder: Path) -> None:
    result = sanitize.diff(folder / "out", document=1, reveal=True, html=folder / "escaped.html")
    page = (folder / "escaped.html").read_text()
    assert (
        "<script" not in page and "&lt;script&gt;alert(1)" in page and "default-src 'none'" in page
    )
    for text in (
        page,
        *(
            draw_diff(result, width=140, side_by_side=beside, is_coloured=False)
            for beside in (True, False)
        ),
    ):
        assert not set(text) & {"\x1b", "\u202e"} and "U+001B[31m" in text and "U+202E" in text
    coloured = draw_diff(result, width=140, side_by_side=False, is_coloured=True)
    assert set(re.findall("\x1b(?!\\[[0-9;]*m)", coloured)) == set() and "\x1b[31m" in coloured


def test_unified_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # tables are also found by a relative path
    result = sanitize.diff("out", document=[1, 3, 5], reveal_output=True)
    text = draw_diff(result, width=100, side_by_side=False, is_coloured=False)
    variant = re.search(r"\+ .*31m ([\w.]+@[\w.]+) U", text)
    assert variant is not None
    assert (
        text.replace(variant[1], "VARIANT") == "document 1 doc1: 1 replaced, 1 kept, 1 left\n"
        "  text\n"
        "  - <script>alert(1)</script> U+001B[31m a***@e***.com U+202E, http://a.example/?q=1\n"
        "  + <script>alert(1)</script> U+001B[31m VARIANT U+202E, http://a.example/?q=1\n"
        "  ~ EMAIL_ADDRESS replaced by rmft\n"
        "  ~ URL left by the plan\n"
        "  note\n"
        "    bob@example.org\n"
        "  ~ EMAIL_ADDRESS kept by rmft\n"
        "\n"
        "document 3 doc3: dropped by exact_dup: same text, as in document 2\n"
        "  text\n"
        "  - aaa aaaa aaaa aa aaa@aaaa.aaa\n"
        "\n"
        "document 5 doc5: 1 swept\n"
        "  text\n"
        "  - hidden bWFpbCBtZSBhdCAaaa9aaAAaAAA9AA9aaAAaA99aIG5vdw==\n"
        "  + hidden bWFpbCBtZSBhdC[EMAIL_ADDRESS]IG5vdw==\n"
        "  ~ EMAIL_ADDRESS swept: only the leak check found it"
    )


WRONG = {
    "kind": ({"kind": "EMAL_ADDRESS"}, "no kind EMAL_ADDRESS"),
    "only": ({"only": "swep"}, "did you mean swept"),
    "id": ({"id": ["doc1", "ann.lee@example.com"]}, "1 of 2 ids belong to no document"),
    "document": ({"document": 6}, "the numbers 0 to 5"),
    "limit": ({"limit": 0}, "limit=0"),
    "page in OUT": ({"html": "out/x.html"}, "lies inside"),
    "page is a folder": ({"html": "."}, "expected a file"),
    "page without folder": ({"html": "none/x.html"}, "in a folder that exists"),
    "page is an input": ({"html": "in.csv"}, "is no HTML page"),
    "work": ({"work": "out2.private"}, "is not the private folder"),
}


def test_no_document_was_changed(
    tmp_path: Path, console: Callable[..., tuple[int, str, str]]
) -> None:
    """RMFT keeps the first occurrence: nothing was changed, which does not say that nothing was
    kept."""
    pl.DataFrame({"text": ["to ann.lee@example.com"]}).write_parquet(tmp_path / "in.parquet")
    sanitize.run(tmp_path / "in.parquet", tmp_path / "out", seed=1, workers=1, plan="rmft")
    assert console("diff", tmp_path / "out")[1].startswith(
        "no document was changed or dropped; --only kept"
    )
    assert "1 kept" in console("diff", tmp_path / "out", "--only", "kept")[1]
    assert (
        console("diff", tmp_path / "out", "--kind", "US_SSN")[1]
        == "no document has what was selected\n"
    )


@pytest.mark.parametrize("case", WRONG)
def test_wrong_selections_are_refused_without_a_value(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    options, message = WRONG[case]
    with pytest.raises(SanitizeError, match=message) as caught:
        sanitize.diff("out", **options)  # type: ignore[arg-type]
    assert "ann.lee" not in str(caught.value)


def test_originals_are_compared_with_the_hash_of_the_input(folder: Path) -> None:
    path, kept = folder / "in.parquet", folder / "kept.parquet"
    shutil.copy2(path, kept)
    try:
        frame = pl.read_parquet(path)
        frame.with_columns(
            text=pl.Series([text.replace("all", "you") for text in TEXTS])
        ).write_parquet(path)
        with pytest.raises(
            InputRefused,
            match=r"in.parquet: is not the file that .* was made from \(its sha256 differs\)",
        ):
            sanitize.diff(folder / "out")
        path.unlink()
        with pytest.raises(InputRefused, match="in.parquet: is missing"):
            sanitize.diff(folder / "out", id="doc1")
        # what a reader decoded is in the workspace
        assert (
            joined(
                sanitize.diff(folder / "out2", document=0, reveal=True, context=10**6), "before"
            )[0, "text"]
            == TEXTS[0]
        )
    finally:
        shutil.move(kept, path)
    sanitize.diff(folder / "out")


def test_a_workspace_of_other_files_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "out.private", tmp_path / "work")
    index = json.loads((tmp_path / "work" / "index.json").read_text())
    index["input_files"][0][1] = "0" * 64
    (tmp_path / "work" / "index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="was indexed from other files"):
        sanitize.diff(folder / "out", work=tmp_path / "work")


def test_pages_of_a_plan_with_kinds_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both pages are searched for the values of these kinds, too."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(
        'leave = ["*"]\n[[kind]]\nname = "CASE_NO"\npattern = "CASE-[0-9]{4}"\ncategory ='
        ' "identifier"\n[find]\nkinds = ["default", "CASE_NO"]\n[[edit]]\nuse = "redact"\nkinds ='
        ' ["CASE_NO"]\n'
    )
    pl.DataFrame({"text": ["of CASE-1234 and CASE-9999"]}).write_parquet("in.parquet")
    sanitize.run("in.parquet", "out", plan="plan.toml", seed=1, workers=1)
    assert "[CASE_NO]" in Path(sanitize.report("out").page or "").read_text("utf-8")
    assert sanitize.diff("out", html="diff.html").matching == 1
    monkeypatch.setattr(
        "sanitize.inspection.output_diff.render_diff_page", lambda _result: "CASE-9999"
    )
    with pytest.raises(LeakFound, match="would hold a CASE_NO"):
        sanitize.diff("out", html="leak.html")
    assert not Path("leak.html").exists()


@pytest.mark.parametrize("table", ["tables/occurrences", "runs/*/edits", "runs/*/rows"])
def test_a_damaged_table_is_named_without_its_bytes(
    table: str, folder: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    shutil.copytree(folder / "out.private", work)
    for path in work.glob(f"{table}/*.parquet"):
        path.write_bytes(b"ann.lee")
    calls: list[Callable[[], object]] = [lambda: sanitize.diff(folder / "out", work=work)]
    if table != "runs/*/rows":
        calls.append(lambda: sanitize.report(folder / "out", work=work, to=tmp_path / "page.html"))
    if table == "tables/occurrences":
        calls += [
            lambda: sanitize.sample_for_labels(work, n=2),
            lambda: sanitize.estimate_missed(work, folder / "out.private"),
        ]
    for call in calls:
        with pytest.raises(
            OutputBroken,
            match="of the private folder cannot be read|is missing or not the file that the run",
        ) as caught:
            call()
        assert "ann.lee" not in str(caught.value)
    assert not (tmp_path / "page.html").exists() and not (work / "labels" / "sample.jsonl").exists()


# ------------------------------------------------------------------------------- pure functions


@pytest.mark.parametrize(
    ("published", "is_hidden", "shown"),
    [
        ("[ANN]", False, "[ANN]"),
        ("[ANN]", True, "[ANN]"),  # a label
        ("Eva Moor", False, "Eva Moor"),  # a surrogate is shown as OUT holds it
        ("Eva Moor", True, "Aaa Aaaa"),
    ],
)
def test_originals_that_stay_are_masked_and_marked(
    published: str, is_hidden: bool, shown: str
) -> None:
    """A text like a label is masked where it stays, and an original that OUT holds is marked, so
    that its shape does not look like what OUT shows."""
    pieces = [
        DiffPiece(
            mark=mark,
            before="[ANN]",
            after={"dropped": "", "replaced": published}.get(mark, "[ANN]"),
            kind="PERSON",
        )
        for mark in ("text", "kept", "left", "replaced", "dropped")
    ]
    cells = [CellDiff(cell=0, leaf="text", pieces=pieces)]
    (masked,) = _mask(
        [DocumentDiff(doc_no=0, doc_id="0", outcome="changed", marks={}, cells=cells)],
        "shapes",
        has_readable_ids=True,
        hides_surrogates=is_hidden,
    )
    after = ["[AAA]", "‹[AAA]›", "‹[AAA]›", shown, ""]
    assert [piece.before for piece in masked.cells[0].pieces] == ["[AAA]"] * 5
    assert [piece.after for piece in masked.cells[0].pieces] == after
    (line,) = list_lines(masked.cells[0])
    assert "".join(text for _, text in line.after) == "".join(after)


@pytest.mark.parametrize(
    ("doc_id", "shown"), [("7", "7"), ("8", "9"), ("ann.lee@example.com", "aaa.aaa@aaaa.aaa")]
)
def test_ids_are_masked_unless_they_are_the_number_of_the_document(doc_id: str, shown: str) -> None:
    document = DocumentDiff(doc_no=7, doc_id=doc_id, outcome="absent", marks={}, cells=[])
    assert _mask([document], "shapes", has_readable_ids=True)[0].doc_id == shown
    assert _mask([document], "output", has_readable_ids=True)[0].doc_id == doc_id


PIECES = st.lists(
    st.tuples(st.sampled_from(["text", *MARKS]), st.text("ab \n", min_size=1, max_size=60)).map(
        lambda pair: DiffPiece(mark=pair[0], before=pair[1], after=pair[1])
    ),
    max_size=8,
)


@given(pieces=PIECES, context=st.integers(0, 30), focus=st.sampled_from(MARKS))
def test_no_piece_in_focus_and_no_character_is_lost(
    pieces: list[DiffPiece], context: int, focus: str
) -> None:
    trimmed = _trim_context(pieces, lambda piece: piece.mark == focus, context)
    whole, at = "".join(piece.before for piece in pieces), 0
    for piece in trimmed:
        if piece.mark == "omitted":
            assert piece.characters and piece.characters > 0
            at += piece.characters
        else:
            assert whole.startswith(piece.before, at)
            at += len(piece.before)
    assert at == len(whole)
    assert [piece for piece in trimmed if piece.mark == focus] == [
        piece for piece in pieces if piece.mark == focus
    ]
    outside = sum(len(piece.before) for piece in trimmed if piece.mark != focus)
    assert (
        outside <= sum(piece.mark == focus for piece in pieces) * (2 * context + 20) + context + 20
    )


SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(1, 6)), max_size=12)


@given(spans=SPANS, others=SPANS)
def test_overlaps_equal_a_comparison_of_all_pairs(
    spans: list[tuple[int, int, int]], others: list[tuple[int, int, int]]
) -> None:
    def frame(listed: list[tuple[int, int, int]]) -> pl.DataFrame:
        rows = sorted((doc_no, start, start + length) for doc_no, start, length in listed)
        doc_no, start, end = (
            np.array([row[place] for row in rows], np.int64) for place in range(3)
        )
        return pl.DataFrame(
            {
                "doc_no": doc_no,
                "cell": np.zeros(len(rows), np.int32),
                "start_byte": start,
                "end_byte": end,
            }
        )

    one, other = frame(spans), frame(others)
    expected = [
        any(d == e and a < y and x < b for e, _, x, y in other.iter_rows())
        for d, _, a, b in one.iter_rows()
    ]
    assert _overlaps(one, other).to_list() == expected
