"""Texts are read complete or as bodies, addresses are found in canonical form, prompts follow from
their seed."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sanitize.errors import InputRefused, OutputBroken, UsageError
from sanitize.eval.metrics.membership import read_user_texts
from sanitize.eval.texts_and_prompts import (
    count_addresses,
    find_addresses,
    hash_prompts,
    make_cue_prompts,
    make_unseen_addresses,
    make_web_prompts,
    read_prompts,
    read_texts,
    read_vault_addresses,
)
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage import formats
from sanitize.storage.files import file_sha256

MAIL = (
    "From: ann.lee@example.com\nTo: bo.ray@example.org,\n\tcy.fox@example.net\n\nDear Bo,\nwrite to"
    " Ann.Lee@example.com\n"
)


def test_bodies_and_ids(tmp_path: Path) -> None:
    pl.DataFrame(
        {"text": [MAIL, "no header: here\nbut a text", None, "x"], "n": [1, 2, 3, 4]}
    ).write_parquet(tmp_path / "a.parquet")
    complete, body = read_texts(tmp_path), read_texts(tmp_path / "a.parquet", section="body")
    assert complete.doc_ids == ("0", "1", "3") and complete.texts == (
        MAIL,
        "no header: here\nbut a text",
        "x",
    )
    assert body.texts == (
        "Dear Bo,\nwrite to Ann.Lee@example.com\n",
        "no header: here\nbut a text",
        "x",
    )
    assert read_texts(tmp_path, most=2).doc_ids == ("0", "1")
    pl.DataFrame({"doc_id": ["q"], "say": ["hello"]}).write_ndjson(tmp_path / "b.jsonl")
    assert read_texts(tmp_path / "b.jsonl", text_column="say").doc_ids == ("q",)
    with pytest.raises(UsageError, match="there is no column 'text'"):
        read_texts(tmp_path / "b.jsonl")
    with pytest.raises(InputRefused, match="no such folder or file"):
        read_texts(tmp_path / "none")


@pytest.mark.parametrize("format", formats.list_formats())
def test_shards_of_every_format_are_read(format: str, tmp_path: Path) -> None:
    data = tmp_path / "out" / "data"
    data.mkdir(parents=True)
    rows = {
        "doc_id": ["d1", "d2", "d3"],
        "text": [MAIL, "", 'a "quoted" line\nand ünicode'],
        "user_id": ["u1", "u2", None],
    }
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    shard = data / f"train-00000-of-00001{formats.format_suffix(format)}"
    if format == formats.PARQUET:
        shard.write_bytes((tmp_path / "a.parquet").read_bytes())
    else:
        formats.get_format(format).pack(tmp_path / "a.parquet", shard)
    as_files = read_texts(data)
    assert as_files.doc_ids == ("d1", "d3") and as_files.texts == (MAIL, rows["text"][2])
    manifest = {"shards": [{"path": f"data/{shard.name}", "rows": 3, "sha256": file_sha256(shard)}]}
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    assert read_texts(tmp_path / "out") == as_files == read_texts(shard)
    assert read_user_texts(tmp_path / "out").rows() == [("d1", "u1", MAIL), ("d2", "u2", "")]
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(OutputBroken, match="train-00000") as caught:
        read_texts(tmp_path / "out")
    assert "ann.lee" not in str(caught.value)


def test_addresses_are_counted_in_canonical_form() -> None:
    assert count_addresses([MAIL, "bo.ray@example.org"]) == {
        "ann.lee@example.com": 2,
        "bo.ray@example.org": 2,
        "cy.fox@example.net": 1,
    }
    addresses_found = find_addresses([MAIL]).rows()
    assert [MAIL[start:stop].lower() for _, start, stop, _ in addresses_found] == [
        address for *_, address in addresses_found
    ]
    assert find_addresses([]).height == 0


def test_the_vault_has_the_same_addresses(tmp_path: Path) -> None:

    (tmp_path / "in").mkdir()
    pl.DataFrame({"text": [MAIL, "ask bo.ray@example.org, call 212-555-0101"]}).write_parquet(
        tmp_path / "in" / "a.parquet"
    )
    settings = Settings(seed=1, workers=1)
    run_with_settings(
        [tmp_path / "in"], tmp_path / "out", load_plan("rmft"), tmp_path / "work", settings
    )
    assert read_vault_addresses(tmp_path / "work") == {
        "ann.lee@example.com": 2,
        "bo.ray@example.org": 2,
        "cy.fox@example.net": 1,
    }
    with pytest.raises(UsageError, match="no vault"):
        read_vault_addresses(tmp_path / "out")


def test_unseen_addresses_combine_known_parts() -> None:
    known_addresses = {
        f"{first}.{last}@example.{top}"
        for first in ("ann", "bo", "cy")
        for last in ("lee", "ray", "fox")
        for top in ("com", "org")
    } - {"ann.fox@example.com"}
    # the only other combination
    assert make_unseen_addresses(known_addresses, 9) == ["ann.fox@example.com"]
    addresses = make_unseen_addresses(
        {"ann.lee@example.com", "bo.ray@example.org", "x@example.net"}, 4, seed=2
    )
    assert len(addresses) == 4 == len(set(addresses)) and addresses == make_unseen_addresses(
        {"x@example.net", "bo.ray@example.org", "ann.lee@example.com"}, 4, seed=2
    )
    assert not set(addresses) & {"ann.lee@example.com", "bo.ray@example.org"} and all(
        address.count("@") == 1 for address in addresses
    )
    assert make_unseen_addresses([], 5) == []


def test_prompts_follow_from_their_seed() -> None:
    prompts = make_web_prompts(60)
    assert len(set(prompts)) == 60 and prompts == make_web_prompts(60) != make_web_prompts(60, 1)
    assert make_web_prompts(10) == prompts[:10]
    assert all(len(prompt.split()) >= 40 and "@" not in prompt for prompt in prompts)
    addresses = [
        "ann.lee@example.com",
        "ann.ray@example.com",
        "bo.ray@example.org",
        "list@example.net",
    ]
    assert (
        sorted(make_cue_prompts(addresses, 4)[:2]) == ["From: ann.", "From: bo."]
        and len(make_cue_prompts(addresses, 99)) == 6
    )
    assert hash_prompts(["a", "b"]) != hash_prompts(["ab"]) and hash_prompts(
        prompts
    ) == hash_prompts(list(prompts))


def test_prompts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("One day\n\nThe other day\n")
    assert read_prompts(tmp_path / "p.txt") == ["One day", "The other day"]
    pl.DataFrame({"prompt": ["One day"], "id": [3]}).write_parquet(tmp_path / "p.parquet")
    assert read_prompts(tmp_path / "p.parquet") == ["One day"]
    with pytest.raises(UsageError, match="no such file"):
        read_prompts(tmp_path / "q.txt")


def test_folder_names_may_contain_glob_characters(tmp_path: Path) -> None:
    from sanitize.eval.frontier import FrontierSettings, split_corpus
    from sanitize.eval.metrics.task import DownstreamTask
    from sanitize.eval.recollect_and_rank import MaskedRecords

    folder = tmp_path / "a [b] *c?"
    folder.mkdir()
    frame = pl.DataFrame({"doc_id": [f"m{n}" for n in range(12)], "text": [MAIL] * 12})
    frame.write_parquet(folder / "mails.parquet")
    numbered = load_plan("redact", ("edit.0.label=numbered",))
    run_with_settings(
        folder / "mails.parquet", folder / "out", numbered, settings=Settings(seed=1, workers=1)
    )
    assert (
        len(read_texts(folder / "out").texts)
        == len(read_texts(folder / "mails.parquet").texts)
        == 12
    )
    assert sum(read_vault_addresses(folder / "out.private").values()) == 48
    assert MaskedRecords.read(folder / "out", folder / "out.private").keys.height
    (folder / "p.jsonl").write_text('{"prompt": "One day"}\n')
    frame.select(prompt="text").write_parquet(folder / "p.parquet")
    assert (
        read_prompts(folder / "p.jsonl") == ["One day"]
        and len(read_prompts(folder / "p.parquet")) == 12
    )
    parts = split_corpus(
        folder / "mails.parquet",
        folder / "chain",
        FrontierSettings(test_share=0.4),
        lambda line: None,
    )
    assert sum(len(read_texts(part).texts) for part in parts.values()) == 12
    (folder / "examples.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    frame.select(question="text", answer="doc_id").write_parquet(folder / "examples.parquet")
    for name in ("examples.jsonl", "examples.parquet"):
        with pytest.raises(UsageError, match="no column other"):
            DownstreamTask(
                use="task", examples=folder / name, template="squad_v2", answer_column="other"
            ).setup(None)  # type: ignore[arg-type]
