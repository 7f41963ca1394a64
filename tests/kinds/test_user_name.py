"""User names and handles: found where the text marks them as such, and nowhere else. All people are
invented."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from sanitize.core.keys import Draws, Key
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.user_name import KIND

FINDER = PatternFinder(Key.from_seed(3), opt_in_kinds=("USER_NAME",))


def find_user_names(text: str) -> list[str]:
    return find_user_names_of_texts([text])[0]


def find_user_names_of_texts(texts: list[str]) -> list[list[str]]:
    column = pa.array(texts, pa.large_string())
    detections = FINDER.run(column)
    starts, ends = detections.find_code_points(column)
    kinds = detections.kind
    names: list[list[str]] = [[] for _ in texts]
    for no, start, end, kind in zip(detections.text_no, starts, ends, kinds, strict=True):
        if FINDER.kinds[kind].name == KIND.name:
            names[no].append(texts[no][start:end])
    return names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("thanks @ann_lee, see you", ["ann_lee"]),
        ('@ann_lee hello (@Bob99) "@cy_d" @ann_lee\'s', ["ann_lee", "Bob99", "cy_d", "ann_lee"]),
        ("写 @ann_lee.", ["ann_lee"]),
        ("<p>@ann_lee: hello</p> * @bob7 asks", ["ann_lee", "bob7"]),
        ("user: alee", ["alee"]),
        ("Username = a.lee, login:alee7 handle: @alee", ["a.lee", "alee7", "alee"]),
        ('{"username": "a-lee", "user_id": "al33"}', ["a-lee", "al33"]),
        (
            "cd /home/alee/src and /Users/Ann/Desktop, C:\\Users\\alee\\x C:\\\\Users\\\\bee",
            ["alee", "Ann", "alee", "bee"],
        ),
        ("file:///home/alee/notes", ["alee"]),
        ("nick: alee.", ["alee"]),
        ("AIM: AnnLee\nICQ: 1320600\taim: alee / yahoo", ["AnnLee", "1320600", "alee"]),
        ('cp ~alee/bin "~bee/x"', ["alee", "bee"]),
    ],
)
def test_user_names_are_found(text: str, names: list[str]) -> None:
    assert find_user_names(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "ann_lee wrote, and the user alee answered",
        "bob@example.com and @example.com, foo@bar",
        "@override(x) @media{ @property\n @param x @@ -1,2 +3 @@",
        "user: root, login: admin, username: password, user: x",
        "/home/user/x /Users/Shared/x /home /homes/alee",
        "https://example.com/home/alee/ https://example.com/@alee www.example.com/Users/alee",
        "user:alee@example.com superuser: alee abuser=alee",
        "<bob@example.com>@CORP, run (@ARGV); \n * @uargs: what goes in\n安井@ann_lee",
        "npm i @scope/pkg, x@y, a/@b, 5@home",
        "user: " + "a" * 33,
        "Aim: win\nAIM: to do it; Twitter: The company said",
        "~5 hp, ~38MB/s, & ~MASK, ~root/x, https://example.com/~alee/ and a~alee/x",
        "",
    ],
)
def test_other_texts_have_no_user_name(text: str) -> None:
    assert find_user_names(text) == []


def test_spellings_of_a_user_name_share_a_value_id() -> None:
    detections = FINDER.run(pa.array(["@ALee, user: alee in /home/alee/x"], pa.large_string()))
    assert (
        len(detections.value_no) == 3
        and len(set(detections.values.value_id[detections.value_no].tolist())) == 1
    )


def test_surrogates_keep_the_shape_and_are_found() -> None:
    values = pl.Series("value", ["ann_lee", "Bob99", "a.lee", "x7"] * 25)
    rows = np.arange(len(values), dtype=np.uint64)
    surrogates = KIND.make_surrogates(
        values,
        Draws.from_words(b"sixteen bytes ok", np.full(len(values), 7, np.uint64), rows * 0, rows),
        False,
    )
    assert (
        KIND.check is not None
        and (KIND.normalise(surrogates) != KIND.normalise(values)).mean() > 0.98
    )
    assert (
        surrogates.str.len_bytes().to_list() == values.str.len_bytes().to_list()
        and KIND.is_value(pl.DataFrame({"value": surrogates})).all()
    )
    found = find_user_names_of_texts([f"user: {surrogate}, yes" for surrogate in surrogates])
    assert found == [[surrogate] for surrogate in surrogates]
