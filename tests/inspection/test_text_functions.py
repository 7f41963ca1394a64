"""`detect` and `redact`: offsets are code points, results equal those of a run, what was given
comes back, and no file is left."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas  # before any command runs in this process: commands keep Arrow from importing it
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sanitize
from sanitize.errors import LeakFound, PlanError, UsageError

MAIL, TEL = "ann.lee@example.com", "+1 212 555 0123"
PIECES = [
    "plain",
    MAIL,
    TEL,
    "😀",
    "e\u0301",
    "\r\n",
    "\n",
    "\0",
    "ﬃ",
    "\U0001f468\u200d\U0001f469",
    " ",
    "192.0.2.7",
    "é",
]


@settings(max_examples=40)
@given(
    st.lists(
        st.one_of(st.none(), st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join)),
        max_size=4,
    )
)
def test_offsets_are_code_points(texts: list[str | None]) -> None:
    found = sanitize.detect(texts, values=True)
    for index, start, end, value in found.select("text_index", "start", "end", "value").iter_rows():
        text = texts[index]
        assert text is not None and text[start:end] == value and 0 <= start < end <= len(text)
    expected = sum(text.split(" ").count(MAIL) for text in texts if text)
    assert (found["kind"] == "EMAIL_ADDRESS").sum() == expected
    assert found.sort("text_index", "start").equals(found)


def test_without_values_the_result_shows_none() -> None:
    found = sanitize.detect([f"Write to {MAIL}"])
    assert found.columns == ["text_index", "kind", "start", "end", "score"] and "ann" not in repr(
        found
    )
    assert found.rows() == [(0, "EMAIL_ADDRESS", 9, 28, 1.0)]


@pytest.mark.parametrize("plan", ["rmft", "names"])
def test_detect_finds_what_an_index_has(tmp_path: Path, plan: str) -> None:
    """Also with a second round, in which names found in one text are searched in all."""
    texts = [
        "Dear Ann Lee,\n\nplease call Mr Bob Ray.\n",
        "Bob Ray wrote",
        f"From: Ann Lee <{MAIL}>\n\nAnn Lee",
        f"call {TEL} or Ray",
    ]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "in.parquet")
    sanitize.index(tmp_path / "in.parquet", tmp_path / "work", plan=plan, workers=1)
    indexed = sanitize.sql(
        tmp_path / "work",
        'SELECT doc_no, kind, start, o."end" AS stop FROM occurrences o ORDER BY ALL',
    )
    found = sanitize.detect(texts, plan=plan).select("text_index", "kind", "start", "end")
    assert sorted(found.rows()) == sorted(indexed.rows()) and found.height >= 2


def test_the_known_list_is_searched(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("kind,value\nPERSON,Zyqtown Blorb\n")
    plan = sanitize.Plan.load("names")
    assert sanitize.detect("to Zyqtown Blorb", plan=plan, known=tmp_path / "list.csv", values=True)[
        "value"
    ].to_list() == ["Zyqtown Blorb"]


FORMS: dict[str, Callable[[list[str | None]], Any]] = {
    "list": list,
    "tuple": tuple,
    "series": lambda texts: pl.Series("body", texts, dtype=pl.String),
    "categories": lambda texts: pl.Series("body", texts, dtype=pl.Categorical),
    "arrow": pa.array,
}


def test_what_the_plan_selects_is_detected() -> None:
    texts = [
        "ann.lee@example.org, Bob@Example.com",
        "bob@example.com or eve@example.org, 212-555-0187",
    ]
    rules: dict[str, object] = {
        "find.allow": {"EMAIL_ADDRESS": ["@example.org"]},
        "find.deny": {"EMAIL_ADDRESS": ["eve@example.org"]},
    }
    found = sanitize.detect(texts, plan=sanitize.Plan.load("redact").with_(rules), values=True)
    assert found["value"].to_list() == [
        "Bob@Example.com",
        "bob@example.com",
        "eve@example.org",
        "212-555-0187",
    ]
    low_scores = sanitize.Plan.load("redact").with_(
        {"find.min_score": {"PHONE_NUMBER": 1.0, "EMAIL_ADDRESS": 0.5}}
    )
    assert sanitize.detect(texts, plan=low_scores)["kind"].to_list() == [
        *["EMAIL_ADDRESS"] * 4,
        "PHONE_NUMBER",
    ]


@pytest.mark.parametrize("form", FORMS)
def test_redact_returns_what_was_given(form: str) -> None:
    clean = sanitize.redact(FORMS[form]([f"Write to {MAIL}", None, "", "plain"]))
    expected = FORMS[form](["Write to [EMAIL_ADDRESS]", None, "", "plain"])
    assert type(clean) is type(expected)
    assert clean.equals(expected) if isinstance(clean, pl.Series | pa.Array) else clean == expected
    assert getattr(clean, "name", "body") == "body"


def test_no_texts_give_no_texts() -> None:
    assert (
        sanitize.redact([]) == []
        and sanitize.redact(()) == ()
        and sanitize.redact([None]) == [None]
        and sanitize.redact("") == ""
    )
    assert sanitize.detect([]).height == sanitize.detect([None, ""]).height == 0


def test_of_a_frame_only_the_texts_change() -> None:
    frame = pl.DataFrame(
        {
            "n": [2, 1],
            "text": [MAIL, None],
            "raw": [b"x", b"y"],
            "turns": [[MAIL, "ok"], None],
            "note": ["a", MAIL],
        }
    )
    clean = sanitize.redact(frame, keep="n")
    assert clean.schema == frame.schema
    assert clean.to_dict(as_series=False) == {
        **frame.to_dict(as_series=False),
        "text": ["[EMAIL_ADDRESS]", None],
        "turns": [["[EMAIL_ADDRESS]", "ok"], None],
        "note": ["a", "[EMAIL_ADDRESS]"],
    }
    assert sanitize.redact(frame, text_column="note", drop=["turns", "text"]).columns == [
        "n",
        "raw",
        "note",
    ]
    table = sanitize.redact(pa.table({"text": pa.array([MAIL], pa.string())}))
    assert table.schema.field("text").type == pa.string() and table["text"].to_pylist() == [
        "[EMAIL_ADDRESS]"
    ]


def test_all_texts_of_a_pandas_frame_are_redacted() -> None:
    category = pandas.Series(["a", "b"], dtype=pandas.CategoricalDtype(["a", "b", MAIL]))
    frame = pandas.DataFrame(
        {
            "text": pandas.Series([MAIL, "b"], dtype="category"),
            "unused": category,
            "meta": [{"to": MAIL}, {"to": ""}],
            "tags": [[MAIL], []],
        }
    )
    frame["n"], frame.attrs["about"] = [1, 2], MAIL
    clean = sanitize.redact(frame, seed=1)
    assert clean.to_dict("list") == {
        "text": ["[EMAIL_ADDRESS]", "b"],
        "unused": ["a", "b"],
        "meta": [{"to": "[EMAIL_ADDRESS]"}, {"to": ""}],
        "tags": [["[EMAIL_ADDRESS]"], []],
        "n": [1, 2],
    }
    assert not clean.attrs and [
        list(clean[name].cat.categories) for name in ("text", "unused")
    ] == [["[EMAIL_ADDRESS]", "b"], ["a", "b", "[EMAIL_ADDRESS]"]]
    chat = sanitize.redact(
        pandas.DataFrame({"messages": [[{"role": "user", "content": MAIL}]]}), seed=1
    )
    assert chat["messages"][0] == [{"role": "user", "content": "[EMAIL_ADDRESS]"}]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pandas.DataFrame({"text": ["a"]}, index=[MAIL]),
            "index of the frame holds texts.*reset_index",
        ),
        (
            pandas.DataFrame({"text": ["a", "b"], "c": [5, MAIL]}),
            "column c holds values of several types",
        ),
        (
            pandas.DataFrame({"text": ["a", "b"], "c": [MAIL, 5]}),
            "column c holds values of several types",
        ),
        (
            pandas.DataFrame({"text": ["a"], "c": [object()]}),
            "column c holds values of several types",
        ),
    ],
)
def test_pandas_frames_that_cannot_be_searched_are_refused(frame: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        sanitize.redact(frame)
    assert MAIL not in str(caught.value)


def test_columns_that_cannot_be_searched_are_refused_or_named() -> None:
    with pytest.raises(UsageError, match="column o holds Python objects"):
        sanitize.redact(pl.DataFrame({"text": ["a"], "o": pl.Series([MAIL], dtype=pl.Object)}))
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([MAIL]), pa.array([1])])
    interval = pa.array([pa.MonthDayNano([1, 2, 3])])
    nested = pa.StructArray.from_arrays([interval], ["i"])
    for column in (union, interval, nested):
        with pytest.raises(UsageError, match="of a type that cannot be searched") as caught:
            sanitize.redact(pa.table({"text": ["a"], "u": column}))
        assert MAIL not in str(caught.value)
    with pytest.raises(UsageError, match="column m holds texts and values of other types"):
        sanitize.redact_batch({"text": ["a", "b"], "m": [5, {"x": [MAIL]}]})
    with pytest.warns(UserWarning, match="columns of bytes are returned without being searched: b"):
        sanitize.redact(pl.DataFrame({"text": ["a"], "b": [b"x"]}))


CALL = "call 312-555-0178"
IN_TABLES: dict[str, tuple[dict[str, list[Any]], str]] = {
    "an integer": ({"n": [1, 3125550178]}, "text at position 1 .* of numbers; drop="),
    "a float": ({"n": [3125550178.0, 0.5]}, "text at position 0 .* of numbers"),
    "an integer in a list of structs": (
        {"n": [[], [{"a": 1}, {"a": 13125550178}]]},
        "text at position 1 .* of numbers",
    ),
    "a column's name": ({"312-555-0178": [1, 2]}, r"name of column 1 \(from 0\) holds a value"),
    "a field's name": ({"n": [{"312-555-0178": "x"}] * 2}, "name of a field holds a value"),
}


@pytest.mark.parametrize("plan", ["redact", "rmft", "names"])
@pytest.mark.parametrize("case", IN_TABLES)
def test_a_value_beside_the_texts_is_refused(case: str, plan: str) -> None:
    columns, message = IN_TABLES[case]
    frame = pl.DataFrame({"text": [CALL, "x"], **columns})
    with pytest.raises(LeakFound, match=message if plan != "names" else None) as caught:
        sanitize.redact(frame, plan=plan)
    assert "0178" not in str(caught.value)
    if plan == "redact":
        with pytest.raises(LeakFound, match=message):
            sanitize.redact_batch(frame.to_dict(as_series=False))
        assert sanitize.redact(frame, drop=list(columns))["text"].to_list() == [
            "call [PHONE_NUMBER]",
            "x",
        ]


def test_numbers_that_are_no_value_pass() -> None:
    frame = pl.DataFrame(
        {
            "text": [CALL],
            "n": [3125550179],
            "f": [3125550178.5],
            "few": [5550178],
            "none": [None],
            "is": [True],
        }
    )
    assert sanitize.redact(frame).equals(frame.with_columns(text=pl.lit("call [PHONE_NUMBER]")))


@pytest.mark.parametrize("plan", ["redact", "names"])
def test_inconclusive_matches_are_in_a_warning(plan: str) -> None:
    with pytest.warns(
        UserWarning, match="redact: 1 PHONE_NUMBER inconclusive .*, which stay"
    ) as caught:
        assert sanitize.redact([CALL, "id 9312-555-0178"], plan=plan)[1] == "id 9312-555-0178"
    assert not any("0178" in str(one.message) for one in caught)
    chat = pl.DataFrame(
        {"messages": [[{"role": "user", "content": text}] for text in (CALL, "id 9312-555-0178")]}
    )
    with pytest.warns(UserWarning, match="redact: 1 PHONE_NUMBER inconclusive"):
        sanitize.redact(chat, plan=plan)


def test_an_enum_has_the_rewritten_texts_as_its_categories() -> None:
    kind = pl.Enum([MAIL, "b", f"x {MAIL}"])
    clean = sanitize.redact(
        pl.DataFrame({"text": ["a", None], "e": pl.Series([MAIL, "b"], dtype=kind)}), seed=1
    )
    expected = pl.Enum(["[EMAIL_ADDRESS]", "b", "x [EMAIL_ADDRESS]"])
    assert clean["e"].dtype == expected and clean.height == 2
    assert sanitize.redact(pl.Series([None, "b"], dtype=kind), seed=1).dtype == expected
    inside = pl.Series([[MAIL]], dtype=pl.List(kind))
    nested = sanitize.redact(pl.DataFrame({"text": ["a"], "e": inside}), seed=1)
    assert nested.schema["e"] == pl.List(pl.String)  # one column has categories for each row


@pytest.mark.parametrize("plan", ["redact", "rmft", "surrogates"])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_the_categories_of_a_filtered_pandas_frame_stay(plan: str, rows: int) -> None:
    dtype = pandas.CategoricalDtype(["z", "ham", MAIL, "spam"], ordered=True)
    labels = pandas.Series(["ham", "spam", None], dtype=dtype)
    frame = pandas.DataFrame({"text": pandas.Categorical(["a", MAIL, "b"]), "label": labels})
    frame = frame.set_index(pandas.Index([7, 5, 9]))[:rows]
    clean = sanitize.redact(frame, plan=plan, seed=1)
    assert clean.label.tolist() == frame.label.tolist() and clean.index.equals(frame.index)
    first, second, mail, last = clean.label.cat.categories
    assert clean.label.cat.ordered and (first, second, last) == ("z", "ham", "spam")
    # a category without rows is a text like others; there and in the other column it occurs again
    addresses = [mail, clean.text.cat.categories[1]]
    assert clean.text.cat.categories.tolist() == ["a", addresses[1], "b"]
    assert (addresses == ["[EMAIL_ADDRESS]"] * 2) == (plan == "redact")
    assert addresses.count(MAIL) == (plan == "rmft")


def test_numbers_as_categories_keep_their_type() -> None:
    grades = pandas.Categorical([3, 1], categories=[1, 2, 3], ordered=True)
    frame = pandas.DataFrame({"text": ["a", "b"], "grade": grades})
    assert sanitize.redact(frame).grade.dtype == grades.dtype
    card = pandas.Categorical([536228741, 536228742], categories=[536228741, 536228742, 536228743])
    clean = sanitize.redact(pandas.DataFrame({"text": ["a", "b"], "ssn": card}))
    assert clean.ssn.isna().all() and not len(clean.ssn.cat.categories)


@pytest.mark.parametrize(
    "dictionary",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string(), ordered=True),
        pa.dictionary(pa.uint32(), pa.string_view()),
        pa.dictionary(pa.int16(), pa.int64()),
    ],
    ids=str,
)
def test_dictionaries_of_an_arrow_table_keep_their_type(dictionary: pa.DictionaryType) -> None:
    is_number = pa.types.is_integer(dictionary.value_type)
    entries = pa.array([1, 2, 3] if is_number else [MAIL, "b", f"x {MAIL}"])

    def encode(indices: list[int | None], first: int) -> pa.Array:
        return pa.DictionaryArray.from_arrays(
            pa.array(indices, dictionary.index_type),
            entries[first:].cast(dictionary.value_type),
            ordered=dictionary.ordered,
        )

    chunks = pa.chunked_array([encode([1, 0, None], 0), encode([1, 0], 1)])
    table = pa.table({"text": list("abcde"), "label": chunks}).slice(1)
    wanted = [1, None, 3, 2] if is_number else ["[EMAIL_ADDRESS]", None, "x [EMAIL_ADDRESS]", "b"]
    in_a_run = sanitize.run(table, keep=["label"] if is_number else [])
    for clean in (sanitize.redact(table), in_a_run):
        assert clean.schema.field("label").type == dictionary
        assert clean["label"].to_pylist() == wanted
    nested = table.set_column(
        1, "label", pa.chunked_array([pa.StructArray.from_arrays([encode([0, 1, 0, 1], 1)], ["x"])])
    )
    if is_number:
        with pytest.raises(UsageError, match="column label has a dictionary of int64 inside"):
            sanitize.redact(nested)
    else:
        clean = sanitize.run(nested)["label"]
        assert clean.type == nested["label"].type
        assert clean.to_pylist() == [{"x": "b"}, {"x": "x [EMAIL_ADDRESS]"}] * 2


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_a_pandas_series_stays_one(dtype: Any) -> None:
    series = pandas.Series([MAIL, None, "b"], index=[7, 5, 9], name="note", dtype=dtype)
    clean = sanitize.redact(series)
    assert isinstance(clean, pandas.Series) and clean.name == "note"
    assert list(clean.index) == [7, 5, 9] and (
        clean.dtype == series.dtype or dtype == clean.dtype == "category"
    )
    assert [None if pandas.isna(text) else text for text in clean] == ["[EMAIL_ADDRESS]", None, "b"]
    assert sanitize.redact(series.iloc[:0]).tolist() == []


def test_a_pandas_frame_stays_one() -> None:
    frame = pandas.DataFrame({"n": [2, 1], "text": [MAIL, None], "note": ["a", "b"]}, index=[7, 5])
    clean = sanitize.redact(frame, drop="note")
    assert (
        isinstance(clean, pandas.DataFrame)
        and list(clean.columns) == ["n", "text"]
        and list(clean.index) == [7, 5]
    )
    assert (
        clean["text"][7] == "[EMAIL_ADDRESS]"
        and pandas.isna(clean["text"][5])
        and clean["n"].tolist() == [2, 1]
    )


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["rmft", "pseudonymize"])
def test_a_seed_gives_the_same_result_each_time(plan: str) -> None:
    texts = [f"{MAIL}, {MAIL} and bob.ray@example.org", f"{MAIL} again"]
    first, second, other = (sanitize.redact(texts, plan=plan, seed=seed) for seed in (7, 7, 8))
    assert first == second != other and first != texts
    kept = 1 if plan == "rmft" else 0
    assert " ".join(first).count(MAIL) == kept


def test_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sanitize.redact([MAIL])
    sanitize.redact([MAIL], plan="pseudonymize")
    sanitize.detect(["Dear Ann Lee"], plan="names")
    with pytest.raises(LeakFound):
        sanitize.redact(pl.DataFrame({"text": [MAIL], "kept": [MAIL]}), keep="kept")
    assert list(tmp_path.iterdir()) == []


WRONG_CALLS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "number in a list": (
        lambda: sanitize.detect([1]),
        UsageError,
        r"detect: texts\[0\] is of type int; expected a text or None",
    ),
    "bytes": (lambda: sanitize.detect(b"x"), UsageError, "texts is of type bytes"),
    "batch of columns": (
        lambda: sanitize.detect(pa.record_batch({"text": ["x"]})),
        UsageError,
        r'Give one column, such as frame\["text"\]',
    ),
    "numbers": (
        lambda: sanitize.detect(pl.Series([1])),
        UsageError,
        "texts is of type Series of Int64",
    ),
    "lone surrogate": (lambda: sanitize.detect(["\ud800"]), UsageError, "lone surrogate"),
    "dictionary": (
        lambda: sanitize.redact({"a": "x"}),
        UsageError,
        "texts is of type dict; .*, or a frame",
    ),
    "no text column": (
        lambda: sanitize.redact(pl.DataFrame({"body": ["x"]}), text_column="bodi"),
        UsageError,
        "no such column; did you mean body. Known: body. Name the column of the texts with text_c",
    ),
    "unknown column": (
        lambda: sanitize.redact(pl.DataFrame({"text": ["x"]}), keep="note"),
        UsageError,
        'keep="note": there is no such',
    ),
    "unknown id column": (
        lambda: sanitize.redact(pl.DataFrame({"text": ["x"]}), id_column="who"),
        UsageError,
        '^id_column="who": there is no',
    ),
    "column of numbers": (
        lambda: sanitize.redact(pl.DataFrame({"text": [1]})),
        UsageError,
        '^text_column="text": the frame has no texts .* Int64',
    ),
    "column of numbers, in a run": (
        lambda: sanitize.redact(pl.DataFrame({"text": [1]}), plan="names"),
        UsageError,
        '^text_column="text": the frame has no texts there, but Int64',
    ),
    "records without a text": (
        lambda: list(sanitize.stream([{"a": 1}])),
        UsageError,
        "^stream: none of its 1 record has a text",
    ),
    "columns of a list": (
        lambda: sanitize.redact(["x"], keep="note"),
        UsageError,
        "keep names columns of a frame",
    ),
    "blacklist": (
        lambda: sanitize.redact(["x"], plan="blacklist"),
        PlanError,
        "counts users of the whole corpus",
    ),
    "unknown plan": (
        lambda: sanitize.redact(["x"], plan="redakt"),
        PlanError,
        "did you mean redact",
    ),
    "settings of a run": (
        lambda: sanitize.redact(["x"], workers=2),
        UsageError,
        "workers does not apply to this function",
    ),
}


@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_calls_are_refused_in_words(case: str) -> None:
    call, error, message = WRONG_CALLS[case]
    with pytest.raises(error, match=message):
        call()


def test_the_command(console: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"😀 {MAIL}\r\ncall {TEL}\n".encode())
    code, out, _ = console("detect", tmp_path / "a.txt")
    assert code == 0 and "a***@e***.com" in out and MAIL not in out and TEL not in out
    assert [line.split()[:3] for line in out.splitlines()[2:]] == [
        ["EMAIL_ADDRESS", "2", "21"],
        ["PHONE_NUMBER", "28", "43"],
    ]
    assert MAIL in console("detect", tmp_path / "a.txt", "--reveal")[1]
    rows = [
        json.loads(line)
        for line in console("detect", tmp_path / "a.txt", "--lines", "--json", "--reveal")[
            1
        ].splitlines()
    ]
    assert rows[1] == {
        "text_index": 1,
        "line": 2,
        "kind": "PHONE_NUMBER",
        "start": 5,
        "end": 20,
        "value": TEL,
        "score": 1.0,
    }
    (tmp_path / "b.txt").write_bytes(b"\x00\x01\xff\x00")
    code, _, err = console("detect", tmp_path / "b.txt")
    assert code == 3 and "it holds no text" in err
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "b.bin").write_bytes(b"\x00\x01\xff\x00")
    code, _, err = console("detect", tmp_path / "only")
    assert code == 3 and "and no other file does" in err
    (tmp_path / "mixed.txt").write_bytes(b"\xef\xbb\xbf" + f"mail {MAIL} caf\xe9".encode("latin-1"))
    code, out, _ = console("detect", tmp_path / "mixed.txt", "--reveal")
    assert code == 0 and MAIL in out
    (tmp_path / "empty.txt").touch()
    assert "nothing of plan redact was found" in console("detect", tmp_path / "empty.txt")[1]


@pytest.mark.parametrize("plan", ["redact", "surrogates", "pseudonymize", "strict"])
@pytest.mark.parametrize("name", ["", "doc_no", "column_1"])
def test_columns_of_any_name_are_rewritten(name: str, plan: str) -> None:
    frame = pl.DataFrame({"text": ["x"], name: [f"to {MAIL}"], "other": [f"to {MAIL}"]})
    for data in (frame, frame.to_arrow().rename_columns(frame.columns)):
        clean = sanitize.redact(data, plan=plan, seed=1)
        (row,) = clean.to_dicts() if isinstance(clean, pl.DataFrame) else clean.to_pylist()
        assert list(row) == ["text", name, "other"] and row["text"] == "x"
        assert all(
            row[column].startswith("to ") and MAIL not in row[column] for column in (name, "other")
        )


NUMBERS = [
    pa.array([2**63 + 5], pa.uint64()),
    pa.array([-(2**63)], pa.int64()),
    pa.array([1.5], pa.float16()),
    pa.array([float("nan")], pa.float64()),
    pa.array([12345678901], pa.decimal128(20, 0)),
    pa.nulls(1),
]


@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda column: str(column.type))
def test_numbers_of_any_width_stay(numbers: pa.Array) -> None:
    clean = sanitize.redact(pa.table({"text": [MAIL], "n": numbers}), seed=1)
    assert clean["text"].to_pylist() == ["[EMAIL_ADDRESS]"] and str(clean["n"].to_pylist()) == str(
        numbers.to_pylist()
    )
    with pytest.raises(LeakFound):
        sanitize.redact(
            pa.table({"text": ["call 312-555-0178"], "n": pa.array([3125550178], pa.uint64())}),
            seed=1,
        )


@pytest.mark.parametrize(
    "text", ["x=\\n{}", "To: Lee\x1b[1m)0178=\\n{}", "x=\\r\\n{}", "x=%0A{}", "x=\\u000a{}"]
)
def test_an_escape_behind_an_equals_sign_is_no_soft_line_break(text: str) -> None:
    escape = text[text.index("=") :]
    assert sanitize.redact(text.format(MAIL)).endswith(escape.format("[EMAIL_ADDRESS]"))


def test_numbers_in_the_index_of_a_pandas_frame_are_checked() -> None:
    frame = pandas.DataFrame(
        {"text": ["call 312-555-0178", "x"], "index 0": ["a", "b"]}, index=[7, 3125550178]
    )
    with pytest.raises(LeakFound):
        sanitize.redact(frame)
    clean = sanitize.redact(frame.set_index(pandas.Index([7, 5])))
    assert (
        list(clean.index) == [7, 5]
        and list(clean.columns) == ["text", "index 0"]
        and list(clean["index 0"]) == ["a", "b"]
    )


def test_an_ordered_category_stays_ordered() -> None:
    series = pandas.Series(
        pandas.Categorical(["lo", "hi", MAIL], categories=["lo", "hi", MAIL], ordered=True)
    )
    clean = sanitize.redact(series)
    assert clean.cat.ordered and list(clean.cat.categories) == list(clean) == [
        "lo",
        "hi",
        "[EMAIL_ADDRESS]",
    ]


def _make_dataset(rows: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(rows)


def _make_splits(rows: dict[str, list[Any]]) -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.DatasetDict(
        {
            "train": _make_dataset({name: values[:1] for name, values in rows.items()}),
            "test": _make_dataset({name: values[1:] for name, values in rows.items()}),
        }
    )


FRAMES: dict[str, tuple[Callable[[dict[str, list[Any]]], Any], Callable[[Any], list[Any]]]] = {
    "Polars": (pl.DataFrame, lambda frame: frame.rows()),
    "lazy Polars": (pl.LazyFrame, lambda frame: frame.collect().rows()),
    "Arrow": (pa.table, lambda table: [tuple(row.values()) for row in table.to_pylist()]),
    "Dataset": (_make_dataset, lambda data: [tuple(row.values()) for row in data]),
    "DatasetDict": (
        _make_splits,
        lambda data: [tuple(row.values()) for split in ("train", "test") for row in data[split]],
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_redact_gives_back_the_type_that_it_got(name: str) -> None:
    make, read_rows = FRAMES[name]
    given = make({"text": [f"Write to {MAIL}", "no"], "label": [0, 1]})
    clean = sanitize.redact(given, text_column="text")
    assert type(clean) is type(given)
    assert read_rows(clean) == [("Write to [EMAIL_ADDRESS]", 0), ("no", 1)]


def test_splits_with_different_columns_are_refused() -> None:
    datasets = pytest.importorskip("datasets")
    splits = datasets.DatasetDict(
        {"train": _make_dataset({"text": [MAIL]}), "test": _make_dataset({"body": [MAIL]})}
    )
    with pytest.raises(UsageError, match="redact: the splits .* different columns"):
        sanitize.redact(splits)
