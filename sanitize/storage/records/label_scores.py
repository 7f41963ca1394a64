"""The scores of a labelled sample, which `sanitize label` stores in WORK: counts and shares, no
texts. Card, report and `verify` show them for the outputs of the index that was labelled."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sanitize.core.command_results import MeasuredRecall, from_json, to_json
from sanitize.storage.files import read_json, write_json
from sanitize.storage.private_folder import LABEL_SCORES_FILE, make_private_folder, set_umask


def store_scores(work: Path, fingerprint: str, scores: MeasuredRecall) -> None:
    """Store scores of the index with this fingerprint, in place of earlier ones."""
    with set_umask(0o077):
        path = make_private_folder((work / LABEL_SCORES_FILE).parent) / LABEL_SCORES_FILE.name
        write_json(path, {"fingerprint": fingerprint, "scores": to_json(scores)})


def read_scores(work: Path, fingerprint: str) -> MeasuredRecall | None:
    """The scores of the index with this fingerprint; None if it has none: no sample was labelled,
    or other finders or inputs have rebuilt the index since."""
    saved = read_json(work / LABEL_SCORES_FILE)
    if saved is not None and saved.get("fingerprint") == fingerprint:
        with contextlib.suppress(ValueError):  # a damaged file counts as none
            return from_json(MeasuredRecall, saved.get("scores"))
    return None
