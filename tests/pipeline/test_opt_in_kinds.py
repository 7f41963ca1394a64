"""Opt-in kinds and the values that a plan lists (allow, deny): runs and streams give the same
result."""

import json
from pathlib import Path

import polars as pl
import pytest

from sanitize.errors import InputRefused, PlanError, UsageError
from sanitize.inspection.annotation import sample_for_labels
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import index_with_settings, run_with_settings
from sanitize.pipeline.streaming.stream import run_stream, stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from tests.support import read_texts

SETTINGS = Settings(seed=1, workers=1)
OPT_IN_KINDS = ["DATE_TIME", "AGE"]
DEFAULT_KINDS = ["EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IP_ADDRESS"]
TEXTS = [
    "call (212) 555-0100 or 212-555-0101 on 12 March 1984, aged 64; write to ann.lee@example.com",
    "Steuer-ID 86095742719, seen on 2001-05-04 at 93.184.216.34",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def write_plan(
    path: Path,
    *,
    leave: list[str] = [],  # noqa: B006
    edit: dict[str, list[str]],
    find_lists: str = "",
    countries: list[str] = [],  # noqa: B006
) -> str:
    kinds = [*leave, *(kind for kinds in edit.values() for kind in kinds)]
    parts = "".join(
        f'[[edit]]\nuse = "{use.partition(" ")[0]}"\nkinds = {json.dumps(kinds)}\n'
        for use, kinds in edit.items()
    )
    path.write_text(
        f"leave = {json.dumps(leave)}\n[find]\nkinds = {json.dumps(kinds)}\ncountries ="
        f" {json.dumps(countries)}\n{find_lists}\n{parts}"
    )
    return str(path)


def write_corpus(folder: Path, texts: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    pl.DataFrame({"text": texts, "doc_id": [f"d{no}" for no in range(len(texts))]}).write_parquet(
        folder / "in.parquet"
    )
    return folder / "in.parquet"


def test_opt_in_kinds_are_not_found_unless_a_plan_names_them(tmp_path: Path) -> None:
    found = index_with_settings([write_corpus(tmp_path, TEXTS)], tmp_path / "work", SETTINGS)
    # of these, the default plan names NATIONAL_ID
    assert set(found.by_kind) == {"EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS", "NATIONAL_ID"}


@pytest.mark.parametrize("opt_in_use", ["leave", "redact"])
def test_a_stream_gives_the_texts_of_a_run(opt_in_use: str, tmp_path: Path) -> None:
    """The finder numbers the kinds: a stream that numbered them differently would edit ages as
    telephone numbers."""
    opt_in_kinds = [*OPT_IN_KINDS, "DE_TAX_ID"]
    plan_path = write_plan(
        tmp_path / "own.toml",
        leave=opt_in_kinds if opt_in_use == "leave" else [],
        edit={"redact": DEFAULT_KINDS}
        | ({"redact too": opt_in_kinds} if opt_in_use == "redact" else {}),
        countries=["DE"],
    )
    summary = run_with_settings(
        [write_corpus(tmp_path, TEXTS)], tmp_path / "out", load_plan(plan_path), settings=SETTINGS
    )
    assert summary.by_kind["DE_TAX_ID"].occurrences == 1 and summary.by_kind["AGE"].occurrences == 1
    streamed_texts = [
        row["text"] for row in stream([{"text": text} for text in TEXTS], plan=plan_path, seed=1)
    ]
    assert streamed_texts == read_texts(tmp_path / "out")
    assert (
        "[PHONE_NUMBER] or [PHONE_NUMBER]" in streamed_texts[0]
        and "[EMAIL_ADDRESS]" in streamed_texts[0]
        and "[IP_ADDRESS]" in streamed_texts[1]
    )
    assert ("64" in streamed_texts[0]) is (opt_in_use == "leave") and (
        "86095742719" in streamed_texts[1]
    ) is (opt_in_use == "leave")


def test_a_plan_with_more_kinds_updates_the_index(tmp_path: Path) -> None:
    file = write_corpus(tmp_path, TEXTS)
    plan_with_opt_in_kinds = load_plan(
        write_plan(tmp_path / "own.toml", leave=OPT_IN_KINDS, edit={"redact": DEFAULT_KINDS})
    )
    plan_without_them = load_plan(
        write_plan(tmp_path / "less.toml", edit={"redact": DEFAULT_KINDS})
    )
    run_with_settings([file], tmp_path / "one", plan_without_them, tmp_path / "work", SETTINGS)
    summary = run_with_settings(
        [file], tmp_path / "two", plan_with_opt_in_kinds, tmp_path / "work", SETTINGS
    )
    assert any("other opt-in kinds" in note for note in summary.notes)
    assert summary.by_kind["DATE_TIME"].occurrences == 2


def test_no_weekday_is_replaced_by_itself(tmp_path: Path) -> None:
    texts = [f"see you on {day}, at 5 pm" for day in DAYS * 8]
    plan = load_plan(
        write_plan(tmp_path / "own.toml", edit={"rmft": ["DATE_TIME"]}), ["edit.0.keep=0"]
    )
    summary = run_with_settings(
        [write_corpus(tmp_path, texts)], tmp_path / "out", plan, settings=SETTINGS
    )
    assert (
        summary.by_kind["DATE_TIME"].replaced
        == summary.by_kind["DATE_TIME"].occurrences
        >= len(texts)
    )
    output_texts = read_texts(tmp_path / "out")
    assert not [1 for text, day in zip(output_texts, DAYS * 8, strict=True) if day in text]
    assert not [text for text in output_texts if "5 pm" in text]


def test_too_few_values_for_pseudonyms_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    plan = load_plan(
        write_plan(tmp_path / "own.toml", edit={"pseudonymize": ["DATE_TIME"], "redact": ["AGE"]})
    )
    with pytest.raises(PlanError, match="too few possible values for unique pseudonyms: DATE_TIME"):
        run_with_settings(
            [write_corpus(tmp_path, TEXTS)], tmp_path / "out", plan, settings=SETTINGS
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "find_lists",
    [
        '[find.deny]\nEMAIL_ADDRESS = ["ann.lee@example.com"]',
        '[find.allow]\nEMAIL_ADDRESS = ["bob*"]\n[find.deny]\nEMAIL_ADDRESS = ["ann.lee*"]',
    ],
)
def test_values_listed_in_a_plan_are_not_published(find_lists: str, tmp_path: Path) -> None:
    plan = load_plan(
        write_plan(tmp_path / "own.toml", edit={"redact": ["EMAIL_ADDRESS"]}, find_lists=find_lists)
    )
    run_with_settings(
        [write_corpus(tmp_path, [*TEXTS, "bob@example.org"])],
        tmp_path / "out",
        plan,
        settings=SETTINGS,
    )
    published_find = json.loads((tmp_path / "out" / "manifest.json").read_text())["plan"]["find"]
    assert published_find["deny"] == {"EMAIL_ADDRESS": 1}
    pages = "".join(
        (tmp_path / "out" / name).read_text()
        for name in ("manifest.json", "README.md", "report.html")
    )
    assert "ann.lee" not in pages and "bob*" not in pages
    assert (
        run_with_settings(
            [tmp_path / "in.parquet"], tmp_path / "out", plan, settings=SETTINGS
        ).changed
        is False
    )
    with pytest.raises(UsageError, match="find.allow and find.deny name values"):
        replay(tmp_path / "out" / "manifest.json", [tmp_path / "in.parquet"], tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "text\nhello\n"), ("a.json", '[{"text": "hello"}]'), ("a.txt", "hello\n")],
)
def test_a_stream_refuses_file_formats_that_it_cannot_read(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputRefused, match="use `sanitize run`"):
        run_stream(
            [tmp_path / name], tmp_path / "out.jsonl", load_plan("rmft"), None, Settings(seed=1)
        )


def test_label_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    index_with_settings([write_corpus(tmp_path, TEXTS)], tmp_path / "work", SETTINGS)
    with pytest.raises(UsageError, match="its folder does not exist"):
        sample_for_labels(tmp_path / "work", out=tmp_path / "nowhere" / "sample.jsonl")
