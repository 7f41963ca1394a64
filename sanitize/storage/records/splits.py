"""Splits of a corpus: which files belong to train, validation, test and others, from the layout
that `datasets` and the hub use.

    dataset_dict.json   a folder of `save_to_disk`: one subfolder for each split, of any name
    data/NAME-00000-of-00001.parquet      the hub's layout: any name
    train-*.parquet, test.jsonl, ...      a file name that begins with one of the known names
    train/..., validation/..., test/...   a folder of a known name

The case of letters does not count in known names. Only files with columns have splits (Parquet,
Arrow, JSON, CSV); where some have one, all other files are in train. A corpus is read split after
split: train, validation, test, then others by name. A single file that the user names is one
corpus, whatever its name.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from sanitize.errors import InputRefused, UsageError, printable_path, suggest_names

TRAIN = "train"
_ORDER = (TRAIN, "validation", "test")
_KNOWN_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
SPLIT_NAME = re.compile(r"\w+(?:\.\w+)*")
_KNOWN_FILE = re.compile(
    rf"({'|'.join(sorted(_KNOWN_NAMES, key=len, reverse=True))})(?:[-_. ].*|\d*)", re.DOTALL
)
_HUB_FILE = re.compile(rf"({SPLIT_NAME.pattern})-\d{{5}}-of-\d{{5}}[-.].*", re.DOTALL)
_FORMATS = frozenset(("parquet", "arrow", "jsonl", "json", "csv", "tsv"))


def split_rank(split: str) -> tuple[int, str]:
    """A key that sorts splits: train (also files without one), validation, test, then the others by
    name."""
    return (
        _ORDER.index(split) if split in _ORDER else len(_ORDER) if split else 0,
        "" if split in _ORDER else split,
    )


def find_splits(files: Sequence[tuple[str, str, str]]) -> list[str]:
    """The split of each file (path, input it belongs to, format); "" for all where there is only
    one, called train or not at all.

    Raises InputRefused for a split of a `datasets` folder whose name is no name of a file.
    """
    named = find_named_splits(files)
    return [split or TRAIN for split in named] if any(named) else named


def find_named_splits(files: Sequence[tuple[str, str, str]]) -> list[str]:
    """The split that the path of each file names, "" for none; "" for all where there is only
    train. Raises as `find_splits` does."""
    if len(files) == 1 and files[0][0] == files[0][1]:
        return [""]
    is_dict = functools.cache(
        lambda folder: os.path.isfile(os.path.join(folder, "dataset_dict.json"))
    )
    found = [
        _find_split(path, root, is_dict) if format in _FORMATS else ""
        for path, root, format in files
    ]
    return [""] * len(files) if set(found) <= {"", TRAIN} else found


def select_split(folder: Path, files: Sequence[Path], split: str) -> list[Path]:
    """The files with columns below a folder that belong to a split; all of them where there are no
    splits. Raises UsageError for an unknown split."""
    splits = find_splits([(str(file), str(folder), "parquet") for file in files])
    if not any(splits):
        return list(files)
    if split not in splits:
        raise UsageError(
            f"{folder}: there is no split {split}; {suggest_names(split, sorted(set(splits)))}"
        )
    return [file for file, own in zip(files, splits, strict=True) if own == split]


def _find_split(path: str, root: str, is_dataset_dict: Callable[[str], bool]) -> str:
    """The split of a file with columns, "" if its path names none. `is_dataset_dict`: whether
    `DatasetDict.save_to_disk` wrote a folder."""
    relative = os.path.relpath(path, root) if path != root else os.path.basename(path)
    *folders, name = relative.split(os.sep)
    folder = os.path.dirname(path)
    for depth in range(len(folders)):
        dict_folder, split = os.path.join(root, *folders[:depth]), folders[depth]
        if is_dataset_dict(dict_folder):
            if SPLIT_NAME.fullmatch(split) is None:
                raise InputRefused(
                    f"{printable_path(os.path.join(dict_folder, split))}: the name of this split is"
                    " not one that `datasets` can have in a file name; expected letters, digits, _"
                    " and dots between them. Rename the folder, also in dataset_dict.json"
                )
            return split
    if (match := _HUB_FILE.fullmatch(name)) and (
        match[1].lower() in _KNOWN_NAMES or os.path.basename(folder) == "data"
    ):
        return _KNOWN_NAMES.get(match[1].lower(), match[1])
    if match := _KNOWN_FILE.fullmatch(name.partition(".")[0].lower()):
        return _KNOWN_NAMES[match[1]]
    return next(
        (
            _KNOWN_NAMES[folder.lower()]
            for folder in reversed(folders)
            if folder.lower() in _KNOWN_NAMES
        ),
        "",
    )
