"""Finds the folders that were published from a workspace, wherever they are now.

A record names the path of an output and the hash of its manifest (publish_history.py). A folder
counts as that output only if it has this hash, so that an erasure never rewrites the output of
another workspace: after `cp -r A B`, the records in B name the folders of A too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sanitize.errors import OutputBroken, UsageError
from sanitize.storage import remote_output
from sanitize.storage.corpus import Corpus
from sanitize.storage.private_folder import PUBLISHED_FOLDER
from sanitize.storage.remote_storage import is_url
from sanitize.storage.runs import publish_history

_Command = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class UnreachedOutput:
    """A folder that was published and that an erasure does not reach. `reason`: `missing` (it is
    nowhere beside WORK or its path), `other content` (the folder at its path is not the one that
    was published), `other workspace` (the private folder beside it is another one), or `copy` (a
    further folder with the same content, besides the output itself)."""

    out: str
    run_hash: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PublishedOutput:
    """A published folder that was found: the command that published it, and the corpus in it."""

    command: _Command
    corpus: Corpus

    @property
    def display_name(self) -> str:
        """The output as messages name it: its URL, or the folder where it is now."""
        return str(self.command["out"]) if is_url(self.command["out"]) else str(self.corpus.path)

    def is_unchanged(self) -> bool:
        """True if the folder still is the one that was published."""
        return _has_manifest_of(self.corpus.path, self.command)


@dataclass(frozen=True, kw_only=True)
class OutputSearch:
    """The outputs of a workspace: those that were found, those that were not, other folders with
    the same content, and the commands whose output a later command of the workspace replaced."""

    found: tuple[PublishedOutput, ...]
    missing: tuple[tuple[_Command, UnreachedOutput], ...]
    copies: tuple[UnreachedOutput, ...]
    replaced: tuple[_Command, ...] = ()

    @property
    def unreached(self) -> list[UnreachedOutput]:
        """What an erasure in this workspace does not reach."""
        return [*(output for _, output in self.missing), *self.copies]


def find_outputs(workspace: Path) -> OutputSearch:
    """Find every output that was published from WORK: at its path from WORK (both may have been
    moved), at its recorded path, else under another name beside one of these. Outputs that a later
    command of this WORK replaced do not count."""
    commands = publish_history.list_commands(workspace)
    folders: dict[int, Path] = {}  # number of a command -> the folder that has its output
    taken: set[Path] = set()
    for is_search_beside in (False, True):
        for number, command in enumerate(commands):
            if number in folders:
                continue
            candidates = (
                _list_folders_beside(workspace, command)
                if is_search_beside
                else _list_own_paths(workspace, command)
            )
            for folder in candidates:
                if (
                    folder not in taken
                    and _has_manifest_of(folder, command)
                    and not _belongs_to_other_workspace(folder, workspace, command)
                ):
                    folders[number] = folder
                    taken.add(folder)
                    break
    missing, replaced = [], []
    for number, command in enumerate(commands):
        if number not in folders and _is_replaced(workspace, command, commands, taken):
            replaced.append(command)
        elif number not in folders:
            reason = _explain(workspace, command)
            missing.append(
                (
                    command,
                    UnreachedOutput(
                        out=command["out"], run_hash=command["run_hash"], reason=reason
                    ),
                )
            )
    copies: dict[Path, UnreachedOutput] = {}
    for number in folders:
        command = commands[number]
        for folder in (
            *_list_own_paths(workspace, command),
            *_list_folders_beside(workspace, command),
        ):
            if (
                folder not in taken
                and not is_url(command["out"])
                and _has_manifest_of(folder, command)
            ):
                copies[folder] = UnreachedOutput(
                    out=str(folder), run_hash=command["run_hash"], reason="copy"
                )
    found = [
        PublishedOutput(command=commands[number], corpus=Corpus.open(folder))
        for number, folder in sorted(folders.items())
    ]
    return OutputSearch(
        found=tuple(found),
        missing=tuple(missing),
        copies=tuple(copies.values()),
        replaced=tuple(replaced),
    )


def relocate_found(workspace: Path, search: OutputSearch) -> OutputSearch:
    """Record where the outputs were found, and delete the records of replaced ones. The caller
    holds WORK's lock."""
    for command in search.replaced:
        publish_history.forget_command(workspace, command)
    found = []
    for output in search.found:
        command = output.command
        if not is_url(command["out"]) and command["out"] != str(output.corpus.path):
            command = publish_history.relocate_command(workspace, command, output.corpus.path)
        found.append(PublishedOutput(command=command, corpus=output.corpus))
    return OutputSearch(found=tuple(found), missing=search.missing, copies=search.copies)


def forget_deleted(
    workspace: Path, search: OutputSearch, deleted: Sequence[Path | str]
) -> OutputSearch:
    """Delete the records of missing outputs that the user declares deleted. Raises UsageError for
    an output that is not missing."""
    names = [_resolve_links(name) for name in map(str, deleted)]
    for name in names:
        if name not in [_resolve_links(command["out"]) for command, _ in search.missing]:
            listed = ", ".join(str(command["out"]) for command, _ in search.missing) or "none"
            raise UsageError(
                f"{name}: was given as deleted, and is not an output of {workspace} that is"
                f" missing; missing are: {listed}"
            )
    for command, _ in search.missing:
        if _resolve_links(command["out"]) in names:
            publish_history.forget_command(workspace, command)
    missing = tuple(
        entry for entry in search.missing if _resolve_links(entry[0]["out"]) not in names
    )
    return OutputSearch(found=search.found, missing=missing, copies=search.copies)


def locate_inputs(workspace: Path, command: _Command) -> list[str]:
    """The inputs of a command: at their recorded paths, else at the same paths from WORK."""
    paths = []
    for path, from_work in zip(
        command["inputs"],
        command.get("inputs_from_work") or [None] * len(command["inputs"]),
        strict=True,
    ):
        moved = (
            None
            if from_work is None
            else os.path.normpath(os.path.join(os.path.realpath(workspace), from_work))
        )
        paths.append(
            moved if moved and not os.path.exists(path) and os.path.exists(moved) else path
        )
    return paths


def _list_own_paths(workspace: Path, command: _Command) -> list[Path]:
    """Where an output should be: at its path from WORK, then at its recorded path; for a URL, its
    copy in WORK."""
    if is_url(command["out"]):
        return [remote_output.mirror_path(workspace, command["out"])]
    # a record of an earlier version has no path from WORK; by default OUT and WORK are neighbours
    from_work = command.get("out_from_work") or os.path.join("..", os.path.basename(command["out"]))
    paths = [os.path.join(os.path.realpath(workspace), from_work), command["out"]]
    return list(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))


def _list_folders_beside(workspace: Path, command: _Command) -> Iterator[Path]:
    """Published folders beside WORK and beside the paths of an output; links are not followed."""
    if is_url(command["out"]):
        return
    own_paths = _list_own_paths(workspace, command)
    for parent in dict.fromkeys(
        [Path(os.path.realpath(workspace)).parent, *(path.parent for path in own_paths)]
    ):
        try:
            entries = sorted(parent.iterdir())
        except OSError:
            continue
        for folder in entries:
            if (
                folder not in own_paths
                and not folder.is_symlink()
                and (folder / "manifest.json").is_file()
            ):
                yield folder


def _has_manifest_of(folder: Path, command: _Command) -> bool:
    """True if a folder holds the output of a command. A record of an earlier version names no
    manifest; its plan must then be the same."""
    hashes = command.get("manifest_sha256")
    if hashes and not is_url(command["out"]):
        return publish_history.hash_manifest(folder) in hashes
    try:
        return bool(Corpus.open(folder).manifest.get("run_hash") == command["run_hash"])
    except (OutputBroken, UsageError):
        return False


def _belongs_to_other_workspace(folder: Path, workspace: Path, command: _Command) -> bool:
    """True if the private folder beside a published folder is another one, which recorded the same
    output. The folder at its path from WORK belongs to WORK: a copy of both has the same
    records."""
    if is_url(command["out"]) or folder == _list_own_paths(workspace, command)[0]:
        return False
    neighbour = folder.with_name(f"{folder.name}.private")
    if not (neighbour / PUBLISHED_FOLDER).is_dir() or os.path.samefile(neighbour, workspace):
        return False
    return any(
        _has_manifest_of(folder, other) for other in publish_history.list_commands(neighbour)
    )


def _is_replaced(
    workspace: Path, command: _Command, commands: Sequence[_Command], taken: set[Path]
) -> bool:
    """True if a later command of this WORK wrote another output over that of `command`."""
    hashes = command.get("manifest_sha256")
    if not hashes:
        return any(path in taken for path in _list_own_paths(workspace, command))
    own_path = _resolve_links(command["out"])  # a record of an earlier version may name a link
    return any(
        set(hashes) & set(other.get("replaced_sha256", ()))
        for other in commands
        if _resolve_links(other["out"]) == own_path
    )


def _resolve_links(out: str) -> str:
    """The path of the folder that an OUT names, by which two names of one folder are equal; a URL
    as it is."""
    return out if is_url(out) else os.path.realpath(out)


def _explain(workspace: Path, command: _Command) -> str:
    """Why an output was not found: a reason of `UnreachedOutput`."""
    folders = [folder for folder in _list_own_paths(workspace, command) if folder.exists()]
    if not folders:
        return "missing"
    return (
        "other workspace"
        if any(_has_manifest_of(folder, command) for folder in folders)
        else "other content"
    )
