"""Which strings of a column of people identify somebody by their shape. Everybody is invented."""

from __future__ import annotations

import polars as pl
import pytest

from sanitize.text.person_names.identity_shapes import find_identities

NAME, USER, HOST = "PERSON", "USER_NAME", "USER_AT_HOST"

VALUES = {
    "Nela Brindle": [(NAME, "Nela Brindle")],
    "zyqna brindvik": [],  # no list has one of its words, and no capital shows a name
    "maria kowalski": [(NAME, "maria kowalski")],
    "Lindqvist, Anna": [(NAME, "Anna Lindqvist"), (NAME, "Lindqvist, Anna")],
    "van den Brandt, Mila": [(NAME, "Mila van den Brandt"), (NAME, "van den Brandt, Mila")],
    "O'Brannigan, Mary-Kate": [(NAME, "Mary-Kate O'Brannigan"), (NAME, "O'Brannigan, Mary-Kate")],
    "Dr. Anna Lindqvist (Sales)": [(NAME, "Anna Lindqvist")],
    "Ann Roe; Bo Lind, Cy Okonkwo": [(NAME, "Ann Roe"), (NAME, "Bo Lind"), (NAME, "Cy Okonkwo")],
    "Mark Hill": [(NAME, "Mark Hill")],  # ordinary words, but a given name before a surname
    "J. Qwertz": [(NAME, "J. Qwertz")],
    "田中太郎": [(NAME, "田中太郎")],
    "nbrindle@node07 (Nela Brindle)": [(NAME, "Nela Brindle"), (HOST, "nbrindle@node07")],
    "hschmidt69": [(USER, "hschmidt69")],
    "@nela_b": [(USER, "nela_b")],
    "dark_otter": [(USER, "dark_otter")],
    "allen-q": [(USER, "allen-q")],
    "anna.lindqvist": [(USER, "anna.lindqvist")],
    "hschmidt": [(USER, "hschmidt")],
    "annakowalski": [(USER, "annakowalski")],
    "QuietOtterFan": [(USER, "QuietOtterFan")],
    "user48213": [(USER, "user48213")],
    "5550142": [(USER, "5550142")],
    "+1 312-555-0142": [(USER, "+1 312-555-0142")],
    "A-1029384": [(USER, "A-1029384")],
    "1f0c9d3e-1111-4a2b-8c3d-0123456789ab": [(USER, "1f0c9d3e-1111-4a2b-8c3d-0123456789ab")],
}
NO_VALUES = (
    *("", " ", "x", "42", "555014", "0000000", "1234567", "2019-04-01", "20190401", "1/31/2001"),
    *("2019-04-01T12:00:00Z", "12:30:15", "v1.2.3", "3.14.15", "true", "False", "None", "n/a", "-"),
    *(
        "positive",
        "moderator",
        "anonymous",
        "[deleted]",
        "deleted_user",
        "Unknown",
        "Anna",
        "Lindqvist",
    ),
    *(
        "page-12",
        "user12",
        "Speaker 1",
        "part_2",
        "October2001",
        "follow_up",
        "night-owl",
        "e-mail",
        "t-shirt",
    ),
    *(
        "sci.med",
        "talk.politics.guns",
        "machines",
        "marketing",
        "New York",
        "United States",
        "Human Resources",
    ),
    *(
        "Customer Service",
        "Sales Team",
        "Department of Energy",
        "General Motors",
        "Software Engineer",
    ),
    "data scientist",
    "a long remark of a reader, who thinks that the film was too long",
)


@pytest.mark.parametrize("cell", VALUES)
def test_values_of_a_cell(cell: str) -> None:
    assert sorted(find_identities(pl.Series([cell])).select("kind", "value").rows()) == sorted(
        VALUES[cell]
    )


@pytest.mark.parametrize("cell", NO_VALUES)
def test_labels_dates_and_ordinary_words_are_no_values(cell: str) -> None:
    assert find_identities(pl.Series([cell])).rows() == []


def test_cells_do_not_influence_each_other() -> None:
    cells = pl.Series([*VALUES, *NO_VALUES, *VALUES])
    found = find_identities(cells)
    assert sorted(found.select("kind", "value").rows()) == sorted(
        {row for rows in VALUES.values() for row in rows}
    )
    for kind, value, cell_no in found.rows():
        assert cell_no == next(
            no for no, cell in enumerate(VALUES) if (kind, value) in VALUES[cell]
        )
    assert find_identities(pl.Series([], dtype=pl.String)).rows() == []
