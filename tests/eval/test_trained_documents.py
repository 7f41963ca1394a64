"""Documents of a run are read as the training read them: columns, ids, order, and those that its
batches have."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.errors import InputRefused
from sanitize.eval.run_folder import RunFolder
from sanitize.eval.trained_documents import read_seen_texts
from sanitize.train import corpus_reader
from sanitize.train.corpus_reader import read_documents

ROWS = [
    {
        "key": f"k{number}",
        "text": f"wrong {number}",
        "body": f"Dear Ann, note {number}",
        "ask": f"Who is {number}?",
    }
    for number in range(4)
]


def write_data(folder: Path, name: str) -> Path:
    """Write two files, of which the first by bytes is the last by parts of the path."""
    for path, rows in ((f"a-1/{name}", ROWS[:2]), (f"a/{name}", ROWS[2:])):
        (folder / path).parent.mkdir(parents=True)
        if name.endswith(".gz"):
            (folder / path).write_bytes(
                gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
            )
        else:
            pq.write_table(pa.Table.from_pylist(rows), folder / path)
    return folder


@pytest.mark.parametrize("name", ["rows.parquet", "rows.jsonl.gz"])
@pytest.mark.parametrize(
    ("settings", "seen", "expected"),
    [
        (
            {"text_column": "body", "id_column": "key"},
            ["k0", "k3"],
            {"k0": ROWS[0]["body"], "k3": ROWS[3]["body"]},
        ),
        # ids are row numbers
        ({"text_column": "body"}, ["1", "2"], {"1": ROWS[1]["body"], "2": ROWS[2]["body"]}),
        (
            {
                "text_column": "body",
                "id_column": "key",
                "prompt_columns": ["ask"],
                "prompts": "include",
            },
            ["k2"],
            {"k2": f"{ROWS[2]['ask']}\n{ROWS[2]['body']}"},
        ),
    ],
)
def test_texts_are_those_that_the_batches_have(
    write_run: Any,
    tmp_path: Path,
    name: str,
    settings: dict[str, Any],
    seen: list[str],
    expected: dict[str, str],
) -> None:
    folder, data = write_run("run", {"d1": "x"}), write_data(tmp_path / "data", name)
    described = read_documents(data, text_column="body").describe()
    (folder / "recipe.json").write_text(
        json.dumps({"data": described, "recipe": {"data": {"path": "elsewhere", **settings}}})
    )
    pq.write_table(
        pa.table({"doc_id": seen, "first_step": list(range(len(seen)))}), folder / "seen.parquet"
    )
    texts = read_seen_texts(RunFolder.open(folder))
    assert dict(zip(texts.doc_ids, texts.texts, strict=True)) == expected
    next(data.rglob(name)).write_bytes(next(data.glob(f"a/{name}")).read_bytes())
    with pytest.raises(InputRefused, match="files have changed since"):
        read_seen_texts(RunFolder.open(folder))


@pytest.mark.parametrize("published", [False, True])
def test_documents_that_change_while_they_are_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    """Their hashes, by which a run is resumed and measured, would be those of other documents."""
    data = write_data(tmp_path / "data", "rows.parquet")
    if published:
        sanitize.run(
            [data], tmp_path / "out", plan="baseline", seed=1, workers=1, text_column="body"
        )
        data = tmp_path / "out"
    read_table = corpus_reader.read_table

    def replace_and_read(file: Path) -> pa.Table:
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
        return read_table(file)

    assert len(read_documents(data, text_column="body")) == 4
    monkeypatch.setattr(corpus_reader, "read_table", replace_and_read)
    with pytest.raises(InputRefused, match="changed while it was being read"):
        read_documents(data, text_column="body")
