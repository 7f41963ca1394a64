"""An append that is killed leaves OUT as it was, and the same command then ends with the bytes of an undisturbed append."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sanitize.pipeline.run import run
from sanitize.plans.plan import load_plan
from sanitize.plans.settings import Settings
from sanitize.storage.corpus import Corpus

TOLD = {"seed": 1, "workers": 1, "rows_per_shard": 25}


def make(house: Any, out: Path, inputs: list[Path], **more: Any) -> dict[str, Any]:
    return run(inputs, out, load_plan("rmft"), None, Settings(**{**TOLD, **more}))


@pytest.mark.soak
def test_killed_while_appending(house: Any, tmp_path_factory: Any, hash_of_tree: Any) -> None:
    first, second = house.inputs
    undisturbed = tmp_path_factory.mktemp("undisturbed") / "out"
    make(house, undisturbed, [first])
    old = hash_of_tree(undisturbed)
    make(house, undisturbed, [first, second], append=True)
    make(house, house.out, [first])
    assert hash_of_tree(house.out) == old
    house.told = ["--seed", 1, "--rows-per-shard", 25, "--append"]
    # what is killed comes by less often each time, as tasks get done
    for told in ("task:file_renamed:3", "detect:index_complete:1", "publish:folder_complete:1"):
        with house.watched():
            said = house.command(SANITIZE_CRASH_AT=told)
        assert (said.code, said.out) == (137, ""), told
        assert hash_of_tree(house.out) == old, told
        Corpus.open(house.out).check()
        house.silent()
    summary = make(house, house.out, [second], append=True)
    assert summary["changed"] and summary["appended"] == {"files": 1, "documents": 30, "shards": 2}
    assert hash_of_tree(house.out) == hash_of_tree(undisturbed)
    house.clean()
