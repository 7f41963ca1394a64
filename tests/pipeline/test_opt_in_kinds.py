"""Opt-in kinds and values that a plan names (allow, deny): runs and streams treat them alike."""

import json
from pathlib import Path

import polars as pl
import pytest

from sanitize.errors import InputRefused, PlanError, UsageError
from sanitize.inspection.annotation import label
from sanitize.inspection.reproduction import replay
from sanitize.pipeline.run import find, run
from sanitize.pipeline.streaming.stream import StreamSettings, run_stream, stream
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings

SETTINGS = Settings(seed=1, workers=1)
ASKED = ["DATE_TIME", "AGE"]
BASE = ["EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD", "IP_ADDRESS"]
TEXTS = [
    "call (212) 555-0100 or 212-555-0101 on 12 March 1984, aged 64; write to ann.lee@example.com",
    "Steuer-ID 86095742719, seen on 2001-05-04 at 93.184.216.34",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def plan(path: Path, *, leave: list[str] = [], edit: dict[str, list[str]], more: str = "", countries: list[str] = []) -> str:  # noqa: B006
    kinds = [*leave, *(kind for kinds in edit.values() for kind in kinds)]
    parts = "".join(f'[[edit]]\nuse = "{use.partition(" ")[0]}"\nkinds = {json.dumps(kinds)}\n' for use, kinds in edit.items())
    path.write_text(
        f"leave = {json.dumps(leave)}\n[find]\nkinds = {json.dumps(kinds)}\ncountries = {json.dumps(countries)}\n{more}\n{parts}"
    )
    return str(path)


def corpus(folder: Path, texts: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    pl.DataFrame({"text": texts, "doc_id": [f"d{no}" for no in range(len(texts))]}).write_parquet(folder / "in.parquet")
    return folder / "in.parquet"


def texts_of(out: Path) -> list[str]:
    return pl.concat([pl.read_parquet(path) for path in sorted((out / "data").glob("*.parquet"))])["text"].to_list()


def test_nothing_is_asked_for_unless_a_plan_names_it(tmp_path: Path) -> None:
    found = find([corpus(tmp_path, TEXTS)], tmp_path / "work", SETTINGS)
    assert set(found["by_kind"]) == {"EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS"}


@pytest.mark.parametrize("where", ["leave", "redact"])
def test_a_stream_does_what_a_run_does(where: str, tmp_path: Path) -> None:
    """The finder numbers the kinds; a stream with other numbers would edit ages as telephone numbers."""
    asked = [*ASKED, "DE_TAX_ID"]
    named = plan(
        tmp_path / "own.toml",
        leave=asked if where == "leave" else [],
        edit={"redact": BASE} | ({"redact too": asked} if where == "redact" else {}),
        countries=["DE"],
    )
    summary = run([corpus(tmp_path, TEXTS)], tmp_path / "out", load_plan(named), settings=SETTINGS)
    assert summary["by_kind"]["DE_TAX_ID"]["occurrences"] == 1 and summary["by_kind"]["AGE"]["occurrences"] == 1
    made = [row["text"] for row in stream([{"text": text} for text in TEXTS], named, seed=1)]
    assert made == texts_of(tmp_path / "out")
    assert "[PHONE_NUMBER] or [PHONE_NUMBER]" in made[0] and "[EMAIL_ADDRESS]" in made[0] and "[IP_ADDRESS]" in made[1]
    assert ("64" in made[0]) is (where == "leave") and ("86095742719" in made[1]) is (where == "leave")


def test_the_index_follows_what_is_asked_for(tmp_path: Path) -> None:
    file = corpus(tmp_path, TEXTS)
    own = load_plan(plan(tmp_path / "own.toml", leave=ASKED, edit={"redact": BASE}))
    without = load_plan(plan(tmp_path / "less.toml", edit={"redact": BASE}))
    run([file], tmp_path / "one", without, tmp_path / "work", SETTINGS)
    summary = run([file], tmp_path / "two", own, tmp_path / "work", SETTINGS)
    assert any("other opt-in kinds" in note for note in summary["notes"])
    assert summary["by_kind"]["DATE_TIME"]["occurrences"] == 2


def test_no_day_is_its_own_stand_in(tmp_path: Path) -> None:
    texts = [f"see you on {day}, at 5 pm" for day in DAYS * 8]
    named = load_plan(plan(tmp_path / "own.toml", edit={"rmft": ["DATE_TIME"]}), ["edit.0.keep=0"])
    summary = run([corpus(tmp_path, texts)], tmp_path / "out", named, settings=SETTINGS)
    assert summary["by_kind"]["DATE_TIME"]["replaced"] == summary["by_kind"]["DATE_TIME"]["occurrences"] >= len(texts)
    made = texts_of(tmp_path / "out")
    assert not [1 for text, day in zip(made, DAYS * 8, strict=True) if day in text]
    assert not [text for text in made if "5 pm" in text]


def test_too_few_values_for_pseudonyms_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    named = load_plan(plan(tmp_path / "own.toml", edit={"pseudonymize": ["DATE_TIME"], "redact": ["AGE"]}))
    with pytest.raises(PlanError, match="too few possible values for unique pseudonyms: DATE_TIME"):
        run([corpus(tmp_path, TEXTS)], tmp_path / "out", named, settings=SETTINGS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "more",
    [
        '[find.deny]\nEMAIL_ADDRESS = ["ann.lee@example.com"]',
        '[find.allow]\nEMAIL_ADDRESS = ["bob*"]\n[find.deny]\nEMAIL_ADDRESS = ["ann.lee*"]',
    ],
)
def test_values_that_a_plan_names_are_not_published(more: str, tmp_path: Path) -> None:
    named = load_plan(plan(tmp_path / "own.toml", edit={"redact": ["EMAIL_ADDRESS"]}, more=more))
    run([corpus(tmp_path, [*TEXTS, "bob@example.org"])], tmp_path / "out", named, settings=SETTINGS)
    said = json.loads((tmp_path / "out" / "manifest.json").read_text())["plan"]["find"]
    assert said["deny"] == {"EMAIL_ADDRESS": 1}
    pages = "".join((tmp_path / "out" / name).read_text() for name in ("manifest.json", "README.md", "report.html"))
    assert "ann.lee" not in pages and "bob*" not in pages
    assert run([tmp_path / "in.parquet"], tmp_path / "out", named, settings=SETTINGS)["changed"] is False
    with pytest.raises(UsageError, match="find.allow and find.deny name values"):
        replay(tmp_path / "out" / "manifest.json", [tmp_path / "in.parquet"], tmp_path / "again")


@pytest.mark.parametrize(("name", "content"), [("a.csv", "text\nhello\n"), ("a.json", '[{"text": "hello"}]'), ("a.txt", "hello\n")])
def test_a_stream_refuses_what_it_would_not_read(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputRefused, match="use `sanitize run`"):
        run_stream([tmp_path / name], tmp_path / "out.jsonl", load_plan("rmft"), None, StreamSettings(seed=1))


def test_a_sample_wants_a_folder_that_is_there(tmp_path: Path) -> None:
    find([corpus(tmp_path, TEXTS)], tmp_path / "work", SETTINGS)
    with pytest.raises(UsageError, match="its folder does not exist"):
        label(tmp_path / "work", out=tmp_path / "nowhere" / "sample.jsonl")
