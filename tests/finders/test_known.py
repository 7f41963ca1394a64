"""The second round: every further occurrence of known values. All people in it are invented."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import TextColumn
from sanitize.errors import UsageError
from sanitize.finders import known
from sanitize.finders.known import Known, read_known_list
from sanitize.kinds.kind import list_kinds
from sanitize.stages.second_round_input import build_entities
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import write_table_rows

KEY = Key.from_seed(3)
NO_SPANS = pl.DataFrame(
    schema={
        "text_no": pl.Int64,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "kind": pl.String,
        "value_id": pl.Int64,
    }
)


def compute_value_id(kind: str, value: str) -> int:
    form = list_kinds()[kind].normalise(pl.Series([value]))
    return int(compute_value_ids(pa.array(form.to_list(), pa.large_string()), kind, KEY)[0])


def open_finder(
    folder: Path,
    values: Sequence[tuple[str, str, float]] = (),
    listed: Sequence[tuple[str, str]] = (),
) -> Known:
    """The opened finder of a second round after a first one that found `values` (kind, value,
    score), and with a user's list."""
    rows = [(compute_value_id(kind, value), kind, value, None) for kind, value, _ in values]
    write_table_rows(folder / "values.parquet", table_schemas.VALUE_SPELLINGS.schema, rows)
    occurrences = [
        (
            0,
            0,
            0,
            1,
            0,
            1,
            kind,
            compute_value_id(kind, value),
            "names" if kind == "PERSON" else "patterns",
            score,
            None,
            None,
        )
        for kind, value, score in values
    ]
    write_table_rows(folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema, occurrences)
    frame = pl.DataFrame(listed, schema=["kind", "value"], orient="row") if listed else None
    known.write_known_terms(
        [folder / "values.parquet"],
        [folder / "occurrences.parquet"],
        frame,
        KEY,
        folder / "forms.parquet",
    )
    finder = Known(use="known")
    finder.open(KEY, folder / "forms.parquet")
    return finder


def find_values(
    finder: Known, text: str, found: pl.DataFrame = NO_SPANS
) -> list[tuple[str, str, int]]:
    spans = finder.find_spans(TextColumn(pa.array([text], pa.large_string()), found))
    assert spans.value_id is not None
    rows = zip(spans.start_byte, spans.end_byte, spans.kind_no, spans.value_id, strict=True)
    return sorted(
        (text.encode()[start:stop].decode(), spans.kind_names[kind], int(value))
        for start, stop, kind, value in rows
    )


KNOWN_NAMES = [("PERSON", "Ann Roe", 1.0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so ann roe said", ["ann roe"]),
        ("ANN ROE!", ["ANN ROE"]),
        ("Roe, Ann and Ann  Roe", ["Ann  Roe", "Roe, Ann"]),
        ("Ann\n\tRoe", ["Ann\n\tRoe"]),
        ("\n\n  Ann Roe  \n", ["Ann Roe"]),
        ("Joann Roe; Ann Roehm; Ann-Roe; Ann", []),
        ("\uff21nn \uff32oe", ["\uff21nn \uff32oe"]),
        ("\u00e9t\u00e9 Ann Roe \u00e9", ["Ann Roe"]),
    ],
)
def test_finds_other_occurrences_of_a_known_name(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    assert find_values(open_finder(tmp_path, KNOWN_NAMES), text) == [
        (value, "PERSON", compute_value_id("PERSON", "ann roe")) for value in expected
    ]


def test_full_names_in_scripts_without_blanks_are_searched_with_and_without_a_blank(
    tmp_path: Path,
) -> None:
    finder = open_finder(
        tmp_path, [("PERSON", "田中太郎", 1.0), ("PERSON", "王小明", 0.9), ("PERSON", "王伟", 0.9)]
    )
    found = find_values(
        finder, "昨日、田中\u3000太郎と田中 太郎、田中太郎さん。请问王小明和王伟，田中"
    )
    assert sorted(value for value, _, _ in found) == [
        "王小明",
        "田中 太郎",
        "田中\u3000太郎",
        "田中太郎",
    ]
    assert {value_id for value, _, value_id in found if value != "王小明"} == {
        compute_value_id("PERSON", "田中太郎")
    }


NFC, NFD = "Jos\u00e9 \u00c5lund", "Jose\u0301 A\u030alund"
CYRILLIC = unicodedata.normalize(
    "NFC", "\u0421\u0435\u0440\u0433\u0435\u0438\u0306 \u0419\u043e\u0432\u0438\u0447"
)


@pytest.mark.parametrize("name", [NFC, NFD, CYRILLIC])
@pytest.mark.parametrize("listed", [True, False])
def test_composed_and_decomposed_accents_match(tmp_path: Path, name: str, listed: bool) -> None:
    """Composed and decomposed text (macOS writes the latter), in any letter case; spans are those
    of the original text."""
    finder = (
        open_finder(tmp_path, [], [("PERSON", name)])
        if listed
        else open_finder(tmp_path, [("PERSON", name, 1.0)])
    )
    for normal_form in ("NFC", "NFD"):
        for written in (name, name.upper(), name.lower(), ", ".join(reversed(name.split()))):
            written = unicodedata.normalize(normal_form, written)
            assert find_values(finder, f"\u00e9 so {written}. A\u0301") == [
                (written, "PERSON", compute_value_id("PERSON", name))
            ], ascii(written)


def test_a_letter_followed_by_a_combining_accent_does_not_match(tmp_path: Path) -> None:
    finder = open_finder(
        tmp_path, [], [("PERSON", "Rene"), ("PERSON", "Andr\u00e9"), ("LOCATION", "Ann Roe")]
    )
    assert find_values(finder, "Rene\u0301 and Ann Roe\u0301") == []
    assert [
        text
        for text, _, _ in find_values(finder, "Rene and Andre\u0301, ANDRE\u0301 not andre\u0301")
    ] == [
        "ANDRE\u0301",
        "Andre\u0301",
        "Rene",
    ]


def test_names_below_full_score_or_too_common_are_not_searched(tmp_path: Path) -> None:
    assert (
        find_values(
            open_finder(tmp_path, [("PERSON", "Ann Roe", 0.8), ("PERSON", "Mark", 1.0)]),
            "ann roe, Mark, mark",
        )
        == []
    )


def test_values_of_numbers_and_addresses_in_other_spellings(tmp_path: Path) -> None:
    finder = open_finder(
        tmp_path, [("EMAIL_ADDRESS", "ann@example.com", 1.0), ("URL", "http://example.com", 1.0)]
    )
    wide = "\uff41nn\uff20example.com"
    assert find_values(finder, f"{wide} http://example.com") == [
        (wide, "EMAIL_ADDRESS", compute_value_id("EMAIL_ADDRESS", "ann@example.com"))
    ]


def test_spans_of_earlier_finders_are_not_reported_again(tmp_path: Path) -> None:
    text = "xx Ann Roe Smith"
    earlier_spans = pl.DataFrame([(0, 3, 16, "PERSON", 5)], schema=NO_SPANS.schema, orient="row")
    assert find_values(open_finder(tmp_path, KNOWN_NAMES), text, earlier_spans) == []
    other_kind = earlier_spans.with_columns(kind=pl.lit("ORGANIZATION"))
    assert [
        found[0] for found in find_values(open_finder(tmp_path, KNOWN_NAMES), text, other_kind)
    ] == ["Ann Roe"]


LISTED_VALUES = [
    ("LOCATION", "Reading"),
    ("ORGANIZATION", "Acorn  Gas"),
    ("PERSON", "Will"),
    ("PERSON", "Zo\u00eb \u00c5berg"),
    ("LOCATION", "S\u00e3o Jos\u00e9"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reading, READING and reading", ["READING", "Reading"]),
        ("will Will come", ["Will"]),
        ("acorn gas and ACORN GAS", ["ACORN GAS", "acorn gas"]),
        (
            "ZO\u00cb \u00c5BERG; zo\u00eb \u00e5berg",
            ["ZO\u00cb \u00c5BERG", "zo\u00eb \u00e5berg"],
        ),
        ("\u00c5berg, Zo\u00eb", ["\u00c5berg, Zo\u00eb"]),
        ("S\u00c3O JOS\u00c9", ["S\u00c3O JOS\u00c9"]),
    ],
)
def test_values_of_a_user_list_are_found(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert [
        found[0] for found in find_values(open_finder(tmp_path, listed=LISTED_VALUES), text)
    ] == sorted(expected)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.csv", 'kind,value\nPERSON,Ann Roe\nLOCATION,"Roe, End"\nPERSON,Ann Roe\n'),
        ("l.tsv", "value\tkind\nAnn Roe\tPERSON\nRoe, End\tLOCATION\n"),
        (
            "l.jsonl",
            (
                '{"kind": "PERSON", "value": "Ann Roe"}\n{"kind": "LOCATION", "value": " Roe, End",'
                ' "x": 1}\n'
            ),
        ),
    ],
)
def test_a_list_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_known_list(tmp_path / name).rows() == [
        ("PERSON", "Ann Roe"),
        ("LOCATION", "Roe, End"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("kind,value\n", "has no records"),
        (
            "kind;value\nPERSON;Zyq\n",
            "lacks the column kind; its columns are separated by something else than a comma",
        ),
        ("kind,value\nPERSON,Zyq,Zyq\n", "has a line with more fields than the first one"),
        ("kind,value\nPERSON,Zyq\nPERSO,Zyq\n", "record 2: there is no kind of this name"),
        ("kind,name\nPERSON,Zyq\n", "lacks the column value"),
        ("kind,value\nPERSON,\nPERSON,Zyq\n", "record 1 has no kind or no value"),
    ],
)
def test_invalid_list_is_refused_without_quoting_values(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_known_list(tmp_path / "l.csv")
    assert "Zyq" not in str(caught.value) and "PERSO," not in str(caught.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_known_list(tmp_path / "gone.csv")
    with pytest.raises(UsageError, match="is a folder"):
        read_known_list(tmp_path)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("l.csv", b"kind,value\nPERSON,Zyq\xe9\n", "is not UTF-8"),
        ("l.jsonl", b'{"kind": "PERSON", "value": ["Zyq"]}\n', "column value has lists or objects"),
        (
            "l.jsonl",
            b'{"kind": "PERSON", "value": {"Zyq": 1}}\n',
            "column value has lists or objects",
        ),
        ("l.json", b'[{"kind": "PERSON", "value": "Zyq"}]', "has a line that is not a JSON object"),
    ],
)
def test_unreadable_list_is_refused_with_its_reason(
    tmp_path: Path, name: str, raw: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(UsageError, match=message) as caught:
        read_known_list(tmp_path / name)
    assert "Zyq" not in str(caught.value)


def test_values_of_one_person_share_an_entity() -> None:
    links = [(1, 10), (2, 10), (2, 11), (5, 12), *((100 + n, 50) for n in range(21))]
    entities = build_entities(
        pl.DataFrame(links, schema={"value_id": pl.Int64, "other": pl.Int64}, orient="row")
    )
    # a name with 21 addresses belongs to no entity
    assert dict(entities.rows()) == {
        1: 1,
        2: 1,
        10: 1,
        11: 1,
        5: 5,
        12: 5,
    }
    assert (
        build_entities(pl.DataFrame(schema={"value_id": pl.Int64, "other": pl.Int64})).rows() == []
    )


def test_known_terms_file_does_not_depend_on_row_order(tmp_path: Path) -> None:
    values = [
        ("PERSON", "Ann Roe", 1.0),
        ("PERSON", "ANN ROE", 1.0),
        ("PERSON", "Petra Haas", 0.9),
        ("IP_ADDRESS", "192.0.2.7", 1.0),
    ]
    first_folder, second_folder = tmp_path / "one", tmp_path / "other"
    for folder in (first_folder, second_folder):
        folder.mkdir()
    open_finder(first_folder, values)
    open_finder(second_folder, values[::-1])
    assert pq.read_table(first_folder / "forms.parquet").equals(
        pq.read_table(second_folder / "forms.parquet")
    )


def test_written_escapes_separate_words_and_user_names_behind_a_domain_are_found(
    tmp_path: Path,
) -> None:
    listed = [("PERSON", "Ann Roe"), ("USER_NAME", "tom"), ("USER_NAME", "nina")]
    finder = open_finder(tmp_path, listed=listed)
    for text, expected in (
        (r'"Hi\nAnn\tRoe\nbye"', [r"Ann\tRoe"]),
        (r"CORP\tom and CORP\\nina", ["nina", "tom"]),
        (r'"Hi\nina"', []),  # here the n is that of the escape
    ):
        assert [value for value, _, _ in find_values(finder, text)] == expected
