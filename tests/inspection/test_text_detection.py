"""`detect` finds what an index finds, without its files; a first call loads what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sanitize
from sanitize.cli.generated_mails import generate_mails

KNOWN = "kind,value\nPERSON,Ninotschka Quellwasser\n"


def _detect_by_index(texts: list[str], plan: str, known: Path | None, folder: Path) -> pl.DataFrame:
    frame = pl.DataFrame({"doc_id": [str(number) for number in range(len(texts))], "text": texts})
    frame.write_parquet(folder / "texts.parquet")
    out = folder / "out"
    sanitize.run(folder / "texts.parquet", out, plan=plan, work=folder / "work", known=known)
    query = 'SELECT doc_no AS text_index, kind, start, "end", score FROM occurrences ORDER BY ALL'
    return sanitize.sql(folder / "work", query)


@pytest.mark.parametrize(
    ("plan", "with_list"), [("rmft", False), ("redact", False), ("redact", True)]
)
def test_texts_in_memory_have_the_occurrences_of_an_index(
    plan: str, with_list: bool, tmp_path: Path
) -> None:
    texts = generate_mails(60).column("text").to_pylist()
    texts += [
        "ninotschka quellwasser",
        "NINOTSCHKA  QUELLWASSER, Quellwasser, Ninotschka",
        "",
        "no one",
    ]
    known = None
    if with_list:
        known = tmp_path / "known.csv"
        known.write_text(KNOWN)
    expected = _detect_by_index(texts, plan, known, tmp_path)
    found = sanitize.detect(texts, plan=plan, known=known)
    assert found.sort(pl.all()).rows() == expected.sort(pl.all()).rows()
    assert found.height > 200


@pytest.mark.parametrize(
    "call",
    [
        "sanitize.redact(TEXTS)",
        "sanitize.redact(TEXTS[0], plan='rmft')",
        "sanitize.detect(TEXTS)",
        "sanitize.detect(TEXTS, plan='redact', values=True)",
    ],
)
def test_a_first_call_loads_neither_pandas_nor_a_run(call: str) -> None:
    """Where pandas is installed, `pyarrow.array` imports it: a third of a second."""
    pytest.importorskip("pandas")
    texts = ["Dear Zoë,\nwrite to ann.lee@example.org; caf\u00e9.\n-- \nAnn Lee", "+1 212 555 0123"]
    code = (
        f"import json, sys, sanitize; TEXTS = {texts!r}; {call}; print(json.dumps(sorted(name for"
        " name in ('pandas', 'sanitize.reporting', 'sanitize.pipeline.indexing.index_build') if"
        " name in sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []
