"""What the built-in parts say of themselves, and what the core takes from a part that overrides
nothing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from sanitize.core.part_protocols import Editor, Finder, list_part_names, load_part
from sanitize.errors import PlanError

ROOT = Path(__file__).resolve().parents[2] / "sanitize"


@pytest.mark.parametrize("use", list_part_names("edit"))
def test_a_built_in_editor_says_what_it_does(use: str) -> None:
    module = importlib.import_module(f"sanitize.editors.{use}")
    editor = getattr(module, "".join(word.title() for word in use.split("_")))
    assert editor.action is not Editor.action, (
        f"{use}: override `action`: the report says what is done with a kind"
    )


def test_an_editor_that_overrides_nothing_asks_for_nothing() -> None:
    editor = Editor(use="mine", kinds=("EMAIL_ADDRESS",))
    assert (
        editor.action,
        editor.pooled_kinds,
        editor.consistent_kinds,
        editor.blacklist_reasons,
    ) == ("edited by mine", (), (), ())
    assert (editor.removal_policy, editor.is_sequential, editor.supports_append) == (
        "erase",
        False,
        True,
    )
    assert Finder(use="mine").needs == "" and Finder(use="mine").can_find("EMAIL_ADDRESS")


def test_a_setting_with_the_name_of_a_property_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property of the base class would be read in its place."""
    (tmp_path / "own_parts").mkdir()
    source = (
        "from sanitize.core.part_protocols import Editor\nclass Shorten(Editor):\n    {}: str ="
        " ''\n"
    )
    (tmp_path / "own_parts/shorten.py").write_text(source.format("action"))
    monkeypatch.syspath_prepend(tmp_path)
    with (
        pytest.warns(UserWarning, match="shadows"),
        pytest.raises(PlanError, match="Shorten has a setting with the name of a property, action"),
    ):
        load_part(
            "edit", {"use": "own_parts.shorten", "kinds": (), "action": "cut"}, "mine.toml: edit[0]"
        )
    (tmp_path / "own_parts/shorter.py").write_text(
        source.replace("Shorten", "Shorter").format("reasons")
    )
    assert (
        load_part(
            "edit",
            {"use": "own_parts.shorter", "kinds": (), "reasons": "long"},
            "mine.toml: edit[0]",
        ).blacklist_reasons
        == ()
    )


def test_only_its_own_file_names_an_editor() -> None:
    """An editor is one file: what the core has to know about it is a method of `Editor` with a
    default."""
    # also the name of a column policy
    names = [name for name in list_part_names("edit") if name != "pseudonymize"]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in ("pipeline", "plans", "stages", "reporting", "inspection", "verification")
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if re.search(
            rf"sanitize\.editors\.(?:{'|'.join(names)})\b|[=!]="
            rf" *\"(?:{'|'.join(names)})\"|getattr\((?:editor|dropper|finder)\b",
            line,
        )
    ]
    assert not found, (
        "take it from a method or attribute of the part instead (core/part_protocols.py)"
    )
