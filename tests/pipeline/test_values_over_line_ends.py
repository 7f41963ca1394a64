"""Values that a line end cuts, of every kind whose values contain a blank: with the plain value
elsewhere, each is found or swept."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import sanitize
from sanitize.kinds.kind import builtin_kinds
from sanitize.storage.corpus import Corpus

LINE_ENDS = ("\n", "\r\n", "\n> ", "\n\t", " \n   ")
# kinds of which a value over a line end may stay; the reason is in docs/explanation/leak_check.md
# ("What it cannot say")
NOT_SEARCHED = {
    "DATE_TIME": "its texts often mean something else, and are not searched for",
    "ORGANIZATION": "only models find it",
    "LOCATION": "only models find it",
    "ID_NUMBER": "only models find it",
    "BANK_ACCOUNT": "only models find it",
}


def list_values() -> list[tuple[str, str, str]]:
    """(kind, text, value) of every example with a value that has a blank inside."""
    return [
        (kind.name, text, value)
        for kind in builtin_kinds().values()
        for text, *values in kind.hits
        for value in values
        if " " in value and value in text and kind.name not in NOT_SEARCHED
    ]


def write_plan(path: Path) -> Path:
    kinds = sorted(name for name in builtin_kinds() if name not in NOT_SEARCHED)
    countries = sorted({kind.country for kind in builtin_kinds().values() if kind.country})
    find = (
        f'kinds = {json.dumps(kinds)}\ncountries = {json.dumps(countries)}\nfinders = ["patterns",'
        ' "names", "known"]'
    )
    path.write_text(
        f'about = "every kind"\n[find]\n{find}\n[[edit]]\nuse = "redact"\nkinds = ["*"]\n'
    )
    return path


def test_every_kind_with_blanks_is_tested() -> None:
    assert {"PHONE_NUMBER", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "X500_NAME", "PERSON"} <= {
        kind for kind, _, _ in list_values()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_value_cut_by_a_line_end_does_not_stay(tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    rows, cuts = [], []
    for kind, text, value in list_values():
        rows.append({"doc_id": f"plain {len(rows)}", "text": text})
        for place in [found.start() for found in re.finditer(" ", value)]:
            broken = value[:place] + draws.choice(LINE_ENDS) + value[place + 1 :]
            doc_id = f"cut {len(rows)}"
            rows.append({"doc_id": doc_id, "text": f"As agreed: {broken}, and so on."})
            cuts.append((doc_id, kind, value))
    draws.shuffle(rows)
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sanitize.run(
        [source],
        tmp_path / "out",
        plan=write_plan(tmp_path / "plan.toml"),
        seed=seed,
        workers=1,
        id_column="doc_id",
    )
    texts = {
        row["doc_id"]: row["text"]
        for shard in Corpus.open(tmp_path / "out").shards
        for row in shard.read().to_pylist()
    }
    joined = {doc_id: re.sub(r"\s*[\r\n][\s>]*", " ", text) for doc_id, text in texts.items()}
    assert {(kind, value) for doc_id, kind, value in cuts if value in joined[doc_id]} == set()
