"""Folders may have any name: a name that looks like a pattern, a URL or a partition is taken literally in INPUT, OUT, WORK and a
stream's state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ANN, BOB, EVE = "ann.roe@example.com", "bob.lee@example.com", "eve.fox@example.com"
NAMES = ["a [b] *c?", "mails:10/k=v", "{a,b}"]
Command = Callable[..., str]


@pytest.fixture(params=NAMES)
def here(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with such a name, given relative to its parent, with one mailbox, Parquet and JSON lines in it."""
    monkeypatch.chdir(tmp_path)
    folder = Path(request.param)
    folder.mkdir(parents=True)
    texts = [f"Ask {ANN} or {BOB}.", f"{BOB} said no, {ANN} yes.", f"From {ANN}: call 212-555-0123."]
    pq.write_table(
        pa.table({"doc_id": ["1", "2", "3"], "text": pa.array(texts, pa.large_string())}), str((folder / "one.parquet").resolve())
    )
    (folder / "two.jsonl").write_text(json.dumps({"doc_id": "4", "text": f"And {ANN} and {EVE}."}) + "\n")
    (folder / "mails.mbox").write_text(f"From x Mon May 14 16:39:00 2001\nFrom: {ANN}\nTo: {BOB}\n\nHello {EVE}.\n\n")
    (folder / "who.txt").write_text(f"{ANN}\n")
    return folder


@pytest.fixture()
def sanitize(console: Callable[..., tuple[int, str, str]]) -> Command:
    def command(*words: object) -> str:
        code, out, err = console(*words)
        assert not code, err
        return out

    return command


def texts(folder: Path) -> str:
    return "\n".join(
        str(pq.read_table(path.resolve(), partitioning=None).column("text").to_pylist()) for path in sorted((folder / "data").iterdir())
    )


def test_the_main_job(here: Path, sanitize: Command) -> None:
    out, work, seed = here / "out", here / "out.private", ("--seed", "1", "-q")
    run = ("run", here / "one.parquet", "-o", out, "--plan", "pseudonymize", *seed)
    sanitize("explain", here / "one.parquet")
    sanitize("run", here / "one.parquet", "-o", out, "--plan", "pseudonymize", "--dry-run")
    sanitize(*run)
    assert json.loads(sanitize(*run, "--json"))["changed"] is False
    sanitize("run", here / "two.jsonl", "-o", out, "--plan", "pseudonymize", "--append", *seed)
    sanitize("run", here / "mails.mbox", "-o", out, "--plan", "pseudonymize", "--append", *seed)
    assert "EMAIL_ADDRESS" in sanitize("top", work) and "EMAIL_ADDRESS" in sanitize("sql", work, "--name", "single_occurrence_values")
    sanitize("sql", work, "--init")
    sanitize("sql", work, "SELECT count(*) FROM documents JOIN edits USING (doc_no) JOIN occurrences USING (doc_no)")
    sanitize("status", work)
    sanitize("label", work, "--n", "4")
    sanitize("report", out)
    sanitize("verify", out)
    found = json.loads(sanitize("subject", work, "--match", here / "who.txt", "--seed", "1", "--json"))
    assert found["documents"] == 5
    gone = json.loads(sanitize("subject", work, "--match", here / "who.txt", "--erase", "--seed", "1", "--json"))
    assert gone["erased"]["outputs"][0]["leaks"] == 0 and gone["erased"]["outputs"][0]["occurrences_erased"] >= 5
    assert not any(one in texts(out) for one in (ANN, BOB, EVE))
    sanitize("verify", out)


def test_names_dedup_blacklist_and_replay(here: Path, sanitize: Command) -> None:
    inputs = [here / name for name in ("one.parquet", "two.jsonl", "mails.mbox")]
    sanitize("find", *inputs, "--work", here / "work", "--plan", "names", "--seed", "1", "-q")
    sanitize("run", *inputs, "-o", here / "names", "--work", here / "work", "--plan", "names", "--seed", "1", "-q")
    sanitize("run", *inputs, "-o", here / "fewer", "--work", here / "work", "--seed", "1", "--set", 'drop=[{use="exact_dup"}]', "-q")
    sanitize("run", *inputs, "-o", here / "listed", "--work", here / "work", "--seed", "1", "--plan", "blacklist", "-q")
    again = json.loads(sanitize("replay", here / "names" / "manifest.json", *inputs, "-o", here / "again", "--json"))
    assert again["same"] is True


@pytest.mark.parametrize("out", ["made.jsonl", "made"])
def test_a_stream(here: Path, sanitize: Command, out: str) -> None:
    inputs = [here / name for name in ("one.parquet", "two.jsonl", "mails.mbox")]
    for known in (0, 1, 1):
        words = ("stream", *inputs[: 3 - (known == 0)], "-o", here / out, "--state", here / "state", "--seed", "1", "--json")
        said = json.loads(sanitize(*words))
    assert said["position"] == 5 and not said["changed"]


def test_the_demo(here: Path, sanitize: Command) -> None:
    assert "WHAT BECAME OF ONE ADDRESS" in sanitize("demo", "--dir", here / "demo", "--mails", "200")
