"""Every kind states its category, examples and first bytes, and they are true: what a new file in
sanitize/kinds/ is tested with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key
from sanitize.core.part_protocols import TextColumn
from sanitize.finders import known
from sanitize.finders.known import Known
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.custom_kind import CustomKind
from sanitize.kinds.kind import ANY_BYTES, BOUNDARY, CATEGORIES, RANK_RANGES, Kind, builtin_kinds
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import write_table_rows
from tests.support import make_draws

KEY = Key.from_seed(3)
KINDS = list(builtin_kinds().values())
KINDS_WITH_PATTERN = [kind for kind in KINDS if kind.pattern]
NO_SPANS = pl.DataFrame(
    schema={
        "text_no": pl.Int64,
        "start_byte": pl.Int64,
        "end_byte": pl.Int64,
        "kind": pl.String,
        "value_id": pl.Int64,
    }
)


def to_python_pattern(kind: Kind) -> str:
    return kind.pattern.replace(BOUNDARY, r"\b").replace(r"\z", r"\Z")


def find_by_pattern(kind: Kind, texts: list[str]) -> list[list[str]]:
    """The values of this kind in each text, in a search for all kinds of a plan that names it."""
    finder = PatternFinder(
        KEY, [kind.country] if kind.country else (), [kind.name] if kind.opt_in else ()
    )
    found = finder.run(pa.array(texts, pa.large_string()))
    values: list[list[str]] = [[] for _ in texts]
    for text_no, value_no in zip(found.text_no.tolist(), found.value_no.tolist(), strict=True):
        if finder.kinds[found.values.kind[value_no]].name == kind.name:
            values[text_no].append(found.values.value[value_no].as_py())
    return values


def find_known_values(kind: Kind, texts: list[str], folder: Path) -> list[list[str]]:
    """The occurrences of the values of all hits in each text: what a user's list with these values
    finds."""
    write_table_rows(folder / "values.parquet", table_schemas.VALUE_SPELLINGS.schema, [])
    write_table_rows(folder / "occurrences.parquet", table_schemas.OCCURRENCES.schema, [])
    listed = pl.DataFrame(
        [(kind.name, value) for _, *values in kind.hits for value in values],
        schema=["kind", "value"],
        orient="row",
    )
    known.write_known_terms(
        [folder / "values.parquet"],
        [folder / "occurrences.parquet"],
        listed,
        KEY,
        folder / "terms.parquet",
    )
    finder = Known(use="known")
    finder.open(KEY, folder / "terms.parquet")
    spans = finder.find_spans(TextColumn(pa.array(texts, pa.large_string()), NO_SPANS))
    values: list[list[str]] = [[] for _ in texts]
    for text_no, start, end in sorted(
        zip(spans.text_no.tolist(), spans.start_byte.tolist(), spans.end_byte.tolist(), strict=True)
    ):
        values[text_no].append(texts[text_no].encode()[start:end].decode())
    return values


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_states_what_plans_docs_and_tests_take_from_it(kind: Kind) -> None:
    assert kind.category in CATEGORIES, (
        f"{kind.name}: give it a category, one of {', '.join(CATEGORIES)}: plans decide by it"
    )
    assert kind.hits and all(len(hit) > 1 for hit in kind.hits), (
        f"{kind.name}: give it hits, each a text and the values in it, such as hits=(('see X-1.',"
        " 'X-1'),)"
    )
    assert kind.near_misses, (
        f"{kind.name}: give it near_misses: texts that look like it, and in which nothing of this"
        " kind is found"
    )
    assert bool(kind.first_bytes) == bool(kind.pattern), (
        f"{kind.name}: give it first_bytes, every byte that can begin a match of its pattern (b''"
        " without a pattern)"
    )
    assert all(alias == alias.upper() and alias != kind.name for alias in kind.aliases), (
        f"{kind.name}: write its aliases in capitals"
    )
    ranges = [
        (phases, low, high)
        for phases, low, high, _ in RANK_RANGES
        if kind.phase in phases and low <= kind.rank <= high
    ]
    assert len(ranges) == 1, (
        f"{kind.name}: give it a rank of its phase, next to the kind most like it; RANK_RANGES"
        " lists them"
    )


def test_an_alias_belongs_to_one_kind() -> None:
    labels = [label for kind in KINDS for label in (kind.name, *kind.aliases)]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_hits_are_found_and_near_misses_are_not(kind: Kind, tmp_path: Path) -> None:
    texts, expected = (
        [hit[0] for hit in kind.hits] + list(kind.near_misses),
        [list(hit[1:]) for hit in kind.hits],
    )
    found = (
        find_by_pattern(kind, texts) if kind.pattern else find_known_values(kind, texts, tmp_path)
    )
    assert dict(zip(texts, found, strict=True)) == dict(
        zip(texts, expected + [[]] * len(kind.near_misses), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS_WITH_PATTERN, ids=lambda kind: kind.name)
def test_a_match_begins_with_one_of_the_first_bytes(kind: Kind) -> None:
    pattern = re.compile(to_python_pattern(kind), re.ASCII)
    texts = [*(hit[0] for hit in kind.hits), *kind.near_misses]

    # a pattern with landmarks is long, and Python's engine slow on it
    @settings(max_examples=3 if kind.landmarks else 15, deadline=None, database=None)
    @given(
        st.lists(
            st.one_of(st.from_regex(pattern), st.sampled_from(texts), st.text(max_size=20)),
            min_size=1,
            max_size=4,
        )
    )
    def check(pieces: list[str]) -> None:
        text = " ".join(pieces).encode("utf-8", "ignore").decode()
        begins = {
            found.encode()[0]
            for found in pl.Series([text]).str.extract_all(kind.pattern)[0]
            if found
        }
        missing = bytes(sorted(begins - set(kind.first_bytes)))
        assert not missing, (
            f"{kind.name}: add {missing!r} to its first_bytes: a match of its pattern can begin"
            " with it"
        )

    check()


@pytest.mark.parametrize("kind", KINDS_WITH_PATTERN, ids=lambda kind: kind.name)
def test_a_pattern_means_the_same_in_both_regex_engines(kind: Kind) -> None:
    for text in [*(hit[0] for hit in kind.hits), *kind.near_misses]:
        matches = [match.group() for match in re.finditer(to_python_pattern(kind), text, re.ASCII)]
        assert pl.Series([text]).str.extract_all(kind.pattern)[0].to_list() == matches


@pytest.mark.parametrize("kind", KINDS_WITH_PATTERN, ids=lambda kind: kind.name)
def test_a_pattern_follows_the_rules(kind: Kind) -> None:
    assert re.compile(to_python_pattern(kind)).groups == 0
    assert not re.search(
        r"\(\?[^:]|[\^$](?![^\[]*\])", kind.pattern.replace(BOUNDARY, "").replace(r"\z", "")
    ), "no look-around, no flags"
    assert not (kind.digit_lines_only and r"\z" in kind.pattern), (
        "numbers are searched in parts of a text, whose ends are not the text's"
    )
    assert "|".join(alternative.pattern for alternative in kind.list_alternatives()) == kind.pattern
    assert (
        pl.Series([chr(code) for code in range(32)]).str.replace_all(kind.pattern, "").ne("").all()
    )


def list_hit_values(kind: Kind) -> pl.Series:
    return pl.Series("value", [value for _, *values in kind.hits for value in values])


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_surrogates_are_values_of_the_kind_and_do_not_depend_on_the_batch(
    kind: Kind, reserved: bool
) -> None:
    values = pl.Series("value", list_hit_values(kind).to_list() * 20)
    draws = make_draws(len(values))
    surrogates = kind.make_surrogates(values, draws, reserved)
    assert surrogates.name == "value"
    assert kind.make_surrogates(values, draws, reserved).to_list() == surrogates.to_list()
    rows = np.arange(1, len(values), 3)
    assert (
        kind.make_surrogates(values.gather(rows), draws.take(rows), reserved).to_list()
        == surrogates.gather(rows).to_list()
    )
    frame = pl.DataFrame({"value": values}).with_columns(
        bracketed=pl.lit(True), id_field=pl.lit(False), address_field=pl.lit(False)
    )
    accepted = kind.is_value(frame)
    assert (
        accepted.any() and (kind.is_value(frame.with_columns(value=surrogates)) | ~accepted).all()
    )
    assert kind.check is None or kind.check(values).is_null().all()
    if not (reserved and kind.name == "US_SSN"):
        # numbers that are never assigned, which the check refuses
        assert kind.check is None or kind.check(surrogates).is_null().all()
    assert (kind.normalise(surrogates) != kind.normalise(values)).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS_WITH_PATTERN, ids=lambda kind: kind.name)
def test_a_surrogate_is_found_in_the_place_of_its_value(kind: Kind) -> None:
    for text, *values in kind.hits:
        surrogates = kind.make_surrogates(
            pl.Series(values * 5), make_draws(5 * len(values)), False
        ).to_list()
        written = []
        for first in range(0, len(surrogates), len(values)):
            replaced, start = "", 0
            for value, surrogate in zip(
                values, surrogates[first : first + len(values)], strict=True
            ):
                at = text.index(value, start)
                replaced, start = replaced + text[start:at] + surrogate, at + len(value)
            written.append(replaced + text[start:])
        found = [list(values_found) for values_found in find_by_pattern(kind, written)]
        for number, one in enumerate(written):
            expected = surrogates[number * len(values) : (number + 1) * len(values)]
            assert found[number] == expected, (
                f"{kind.name}: in {one!r} its finder has to report the surrogates {expected}, and"
                f" reports {found[number]}; make_surrogates may draw only what pattern, accepts and"
                " check take for a whole value, and what no kind of a lower rank claims"
            )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_surrogates_of_other_texts_do_not_fail(kind: Kind) -> None:
    """The leak check adds spans that a finder would not report as they are: encoded, cut off, in
    another letter case."""
    values = list_hit_values(kind).to_list()
    forms = [
        form
        for value in values
        for form in (
            value[1:],
            value[:-1],
            value + "0",
            value.upper(),
            value.lower(),
            value[::-1],
            value * 2,
        )
    ]
    column = pl.Series("value", [*forms, "a", "7", "é", "-", "\uff11\uff12", "a b\nc"])
    for reserved in (False, True):
        assert (
            len(kind.make_surrogates(column, make_draws(len(column)), reserved))
            == len(kind.normalise(column))
            == len(column)
        ), f"{kind.name}: make_surrogates has to give a text for any text"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_normalised_values_are_normal(kind: Kind) -> None:
    once = kind.normalise(list_hit_values(kind))
    assert kind.normalise(once).to_list() == once.to_list()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_empty_column(kind: Kind) -> None:
    empty = pl.Series("value", [], dtype=pl.String)
    frame = pl.DataFrame({"value": empty}).with_columns(
        bracketed=pl.lit(True), id_field=pl.lit(True), address_field=pl.lit(False)
    )
    assert (
        len(kind.is_value(frame))
        == len(kind.normalise(empty))
        == len(kind.make_surrogates(empty, make_draws(0), False))
        == 0
    )
    assert len(kind.make_surrogates(empty, make_draws(0), True)) == 0
    assert kind.check is None or kind.check(empty).dtype == pl.String
    assert kind.split_components is None or kind.split_components(empty).height == 0


def test_a_custom_kind_has_a_category_and_may_begin_with_any_byte() -> None:
    kind = CustomKind(name="STAFF_ID", pattern="E-[0-9]{6}").build_kind()
    assert (kind.category, kind.first_bytes) == ("identifier", ANY_BYTES)
    assert (
        CustomKind(name="WARD", words=("North",), category="place").build_kind().category == "place"
    )
