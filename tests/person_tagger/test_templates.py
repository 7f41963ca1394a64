"""The texts and the lists of names that the tagger of people's names learns from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "person_tagger"
TEMPLATE_FILES = sorted((FOLDER / "templates").glob("*.txt"))
NAME_FILES = sorted((FOLDER / "names").glob("*.txt"))
GENRES = set(
    "biography chat fiction form invoice json legal list log mail medical minutes news none "
    "prose signature table ticket trailer".split()
)
# Files of a context rather than of a written language, and of languages with few texts yet.
SHORTER = set("am ar el_latin hi id ig ja ko ru_latin sw th uk_latin vi yo zh".split())
PLACEHOLDER = re.compile(r"\{\{((?:lower |upper )?)([a-z_]+)(?::([1-9]))?\}\}")
PEOPLE = set("full given surname surname_given initial_surname given_initial_surname one".split())
OTHERS = set("email login place company street number date time word".split())
CHOICE = re.compile(r"\[\[([^\[\]]*)\]\]")
ADDRESS = re.compile(r"[\w.+-]+@([\w-]+(?:\.[\w-]+)+)")
RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:org|com|net)|example|test|invalid)$")


def read_templates(text: str) -> list[tuple[str, str]]:
    """Genre and text of each template of a file."""
    templates = []
    for block in re.split(r"^%%\n", text, flags=re.MULTILINE):
        head, _, body = block.partition("\n")
        templates.append((head.removeprefix("# "), body.removesuffix("\n")))
    return templates


def template_faults(genre: str, text: str) -> list[str]:
    """What is wrong with one template."""
    faults = []
    if genre not in GENRES:
        faults.append("unknown genre")
    if not 1 <= len(text.split("\n")) <= 12 or not text.strip():
        faults.append("not 1 to 12 lines")
    if "[[" in CHOICE.sub("", text) or any("|" not in found for found in CHOICE.findall(text)):
        faults.append("brackets that are no choice")
    names = [match[2] for match in PLACEHOLDER.finditer(text)]
    if set(names) - PEOPLE - OTHERS:
        faults.append("unknown placeholder")
    if "{{" in PLACEHOLDER.sub("", text) and genre != "none":
        faults.append("braces that are no placeholder")
    if (genre == "none") == bool(set(names) & PEOPLE):
        faults.append("people in a text without names, or none in another")
    if any(not RESERVED.search(match[1].lower()) for match in ADDRESS.finditer(text)):
        faults.append("address outside the reserved domains")
    return faults


def test_there_are_templates_and_names() -> None:
    assert len(TEMPLATE_FILES) >= 16 and NAME_FILES


@pytest.mark.parametrize("path", TEMPLATE_FILES, ids=lambda path: path.stem)
def test_templates_of_a_language(path: Path) -> None:
    templates = read_templates(path.read_text(encoding="utf-8"))
    faults = {
        number: found
        for number, (genre, text) in enumerate(templates, 1)
        if (found := template_faults(genre, text))
    }
    assert faults == {}
    without_names = sum(genre == "none" for genre, _ in templates)
    assert without_names >= (15 if path.stem in SHORTER else 30)
    assert len(templates) - without_names >= 30
    assert len({text for _, text in templates}) == len(templates)


@pytest.mark.parametrize(
    ("genre", "text", "fault"),
    [
        ("opera", "{{full}}", "unknown genre"),
        ("news", "", "not 1 to 12 lines"),
        ("news", "{{full}}" + "\n" * 12, "not 1 to 12 lines"),
        ("news", "{{full}} {{nickname}}", "unknown placeholder"),
        ("news", "{{full}} {{Given}}", "braces that are no placeholder"),
        ("prose", "{{full}} [[ran]].", "brackets that are no choice"),
        ("prose", "{{full}} [[ran|sat.", "brackets that are no choice"),
        ("news", "Nobody came.", "people in a text without names, or none in another"),
        ("none", "{{given:1}} came.", "people in a text without names, or none in another"),
        ("mail", "{{full}} <a@firm.de>", "address outside the reserved domains"),
    ],
)
def test_faults_of_a_template_are_found(genre: str, text: str, fault: str) -> None:
    assert fault in template_faults(genre, text)


@pytest.mark.parametrize("path", NAME_FILES, ids=lambda path: path.stem)
def test_names_of_a_country(path: Path) -> None:
    sections: dict[str, list[str]] = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines[0] == "order: surname given":
        del lines[0]
    for line in lines:
        if line.startswith("["):
            sections[line.strip("[]")] = names = []
        else:
            names.append(line)
    assert set(sections) == {"given", "surname"}
    for names in sections.values():
        assert len(names) >= 40 and len(set(names)) == len(names)
        assert all(
            name == name.strip() and name and not re.search(r"[\d@{}]", name) for name in names
        )
