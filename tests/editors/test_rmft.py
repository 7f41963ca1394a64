"""RMFT with nearly exhausted pools."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import polars as pl
import pytest

from sanitize.editors import rmft
from sanitize.pipeline.run import run_with_settings
from sanitize.pipeline.streaming.stream import stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize("avoid", ["corpus", "seen"])
def test_exhausted_variants_become_labels(tmp_path: Path, avoid: str) -> None:
    """Only 26 letters can be the name of such a host, sixty are needed: the rest becomes `[URL]`,
    and the run continues."""
    texts = ["See " + "http://a and " * 60, "See http://b and http://ab.example.com."]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "in.parquet")
    plan = load_plan("surrogates", [f"edit.0.avoid={avoid}"])
    summary = run_with_settings(
        tmp_path / "in.parquet", tmp_path / "out", plan, settings=Settings(seed=1, workers=1)
    )
    first, second = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"]
    variants = re.findall(r"http://(\w)[.]example and", first)
    assert first.count("[URL]") == 60 - len(variants) and 20 <= len(variants) == len({*variants})
    # a stream's variants avoid those of all documents
    short_url = r"http://[a-z]\.example" if avoid == "corpus" else r"\[URL\]"
    assert re.fullmatch(rf"See {short_url} and http://[a-z]{{2}}\.[a-z]{{7}}\.example\.", second)
    assert summary.by_kind["URL"].replaced == 62 and summary.leaks == 0


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (
            "ann@example.com",
            [
                "_ann@example.com_",
                "**ann@example.com**",
                "mail_ann@example.com",
                "<E-Mail_ann@example.com>",
            ],
        ),
        ("312-555-0178", ["call +312-555-0178", "-312-555-0178", "+312-555-0178"]),
    ],
)
def test_what_precedes_a_value_makes_no_other_first_occurrence(
    tmp_path: Path, value: str, others: list[str]
) -> None:
    texts = [
        f"{text} {number}" for number, text in enumerate([others[0], f"to {value}", *others[1:]])
    ]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "in.parquet")
    summary = run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        load_plan("rmft"),
        settings=Settings(seed=1, workers=1),
    )
    published = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"].to_list()
    assert published[0] == texts[0] and not any(value in text for text in published[1:])
    assert sum(counts.kept for counts in summary.by_kind.values()) == 1 and summary.leaks == 0


@pytest.mark.parametrize("plan", ["names", "surrogates"])
def test_a_name_in_base64_becomes_a_label(tmp_path: Path, plan: str) -> None:
    """An encoded name is a word of letters, and so could pass as a name; a variant of it would
    stand inside of other encoded text."""
    encoded = base64.b64encode(b"On Monday Gilbert Thornquist wrote to us").decode()
    texts = ["From: Gilbert Thornquist <gt@example.com>\n\nHello", f"A copy\n\n{encoded}\n"]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "in.parquet")
    run_with_settings(
        tmp_path / "in.parquet",
        tmp_path / "out",
        load_plan(plan),
        settings=Settings(seed=1, workers=1),
    )
    second = pl.read_parquet(tmp_path / "out" / "data" / "*.parquet")["text"][1]
    head, tail = second.removeprefix("A copy\n\n").removesuffix("\n").split("[PERSON]")
    assert encoded.startswith(head) and encoded.endswith(tail) and len(head) + len(tail) > 20


@pytest.mark.parametrize("draws_per_call", [1, 7, 4_000])
def test_stream_does_not_depend_on_draws_per_call(
    monkeypatch: pytest.MonkeyPatch, draws_per_call: int
) -> None:
    """With few names and most draws taken, the assignment does not depend on how many attempts are
    made per call."""
    names = ["ann", "bob", "eve", "lee", "sue", "tom"]
    rows = [
        {"text": " ".join(f"{a}.{b}@{c}.example.com" for c in names[: 1 + number % 3])}
        for number in range(12)
        for a in names[:4]
        for b in names
    ]
    plan = load_plan("rmft", ["edit.0.stores=corpus"])
    expected = list(stream(rows, plan=plan, seed=2, batch=100))
    monkeypatch.setattr(rmft, "_MIN_DRAWS_PER_CALL", draws_per_call)
    assert list(stream(rows, plan=plan, seed=2, batch=100)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("draws_per_call", [1, 7, 4_000])
def test_run_does_not_depend_on_draws_per_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, draws_per_call: int
) -> None:
    """The same for a run, where variants are unique per document: only the first attempts are free
    in this case."""
    text = (
        " ".join(f"{a}.{b}@corp.example.com" for a in ("ann", "bob", "eve") for b in ("lee", "ray"))
        + " http://a 192.0.2.7 "
    )
    pl.DataFrame({"text": [text * count for count in (1, 9, 40, 2)]}).write_parquet(
        tmp_path / "in.parquet"
    )

    def run_plan(name: str) -> bytes:
        plan = load_plan("surrogates", ["edit.0.stores=corpus"])
        run_with_settings(
            tmp_path / "in.parquet", tmp_path / name, plan, settings=Settings(seed=2, workers=1)
        )
        return next((tmp_path / name / "data").iterdir()).read_bytes()

    monkeypatch.setattr(rmft, "_MIN_DRAWS_PER_CALL", 0)  # one at a time
    expected = run_plan("one")
    monkeypatch.setattr(rmft, "_MIN_DRAWS_PER_CALL", draws_per_call)
    assert run_plan("many") == expected
