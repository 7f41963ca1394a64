"""Names of people, found by the words and their context. All people in it are invented."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Key, compute_value_ids
from sanitize.core.part_protocols import FoundSpans, TextColumn
from sanitize.finders.names import BESIDE_ADDRESS_SCORE, Names
from sanitize.finders.patterns import PatternFinder
from sanitize.kinds.person import normalise_name

KEY = Key.from_seed(3)
PATTERNS, NAMES = PatternFinder(KEY), Names(use="names")
NAMES.open(KEY, None)


def build_column(texts: Sequence[str]) -> TextColumn:
    array = pa.array(texts, pa.large_string())
    found = PATTERNS.run(array)
    kinds = pl.Series([kind.name for kind in PATTERNS.kinds]).gather(found.distinct.kind[found.value_no])
    columns = {"text_no": found.text_no, "start_byte": found.start_byte, "end_byte": found.end_byte}
    return TextColumn(array, pl.DataFrame(columns).with_columns(kind=kinds, value_id=pl.Series(found.distinct.value_id[found.value_no])))


def list_names(texts: Sequence[str], spans: FoundSpans) -> list[list[tuple[str, float]]]:
    found: list[list[tuple[str, float]]] = [[] for _ in texts]
    for text_no, start, stop, score in sorted(zip(spans.text_no, spans.start_byte, spans.end_byte, spans.score, strict=True)):
        found[text_no].append((texts[text_no].encode()[start:stop].decode(), round(float(score), 2)))
    return found


def find_names(text: str) -> list[str]:
    (found,) = list_names([text], NAMES.find_spans(build_column([text])))
    return [name for name, _ in found]


NAMES_BY_TEXT = {
    "From: Ann Roe <ann.roe@example.com>\nTo: x@example.com\n\nhello": ["Ann Roe"],
    'To: "Roe, Ann" <ann.roe@example.com>\nSubject: x\n\n': ["Roe, Ann"],
    "From: ann.roe@example.com (Ann Zyqwert)\nTo: x@example.com\n\n": ["Ann Zyqwert"],
    "it was\n\n> From: Petra Haas <p.haas@example.org>\n> Sent: Monday\n> To: x@example.com\n>\n> well": ["Petra Haas"],
    "yesterday Petra Haas called me": ["Petra Haas"],
    "ask Anna-Lena Zyqwert about it": ["Anna-Lena Zyqwert"],
    "J. K. Fischer wrote it": ["J. K. Fischer"],
    "Hans van der Berg and Maria de la Cruz met": ["Hans van der Berg", "Maria de la Cruz"],
    "I met Mr. Zyqwert and Dr Haas": ["Zyqwert", "Haas"],
    "Dear Petra,\n\nwe": ["Petra"],
    "see you\n\nRegards,\nPetra\n": ["Petra"],
    "Patient: Zyqwert Blorb\nAge: 40": ["Zyqwert Blorb"],
    "Petra Haas came. Later Haas left": ["Petra Haas", "Haas"],
    "by Zhang Weiming, who": ["Zhang Weiming"],
    "tell petra fischer to come": ["petra fischer"],
    "PETRA FISCHER called": ["PETRA FISCHER"],
    "_Petra Fischer_ wrote": ["Petra Fischer"],
    "Núria Ángeles Gómez": ["Núria Ángeles Gómez"],
    "With: Müller, Jürgen; Schäfer, Ömer": ["Müller, Jürgen", "Schäfer, Ömer"],
    "X-From: Fischer, Petra A.\nX-To: Müller, Jürgen <jm@example.com>, Haas, Petra </O=EXAMPLE/CN=PHAAS>, Zyqwert, Hans </O=X/CN=Y>": [
        "Fischer, Petra A",
        "Müller, Jürgen",
        "Haas, Petra",
        "Zyqwert, Hans",
    ],
    "we saw Petra, Maria and Anna, Hans": ["Petra", "Maria", "Anna", "Hans"],
    "John A. Fischer wrote to Mr. van der Zyqwert": ["John A. Fischer", "van der Zyqwert"],
    "read J. R. R. Zyqwert, or J.R.R. Zyqwert; A.K. Blorb": ["J. R. R. Zyqwert", "J.R.R. Zyqwert", "A.K. Blorb"],
    "Blorb S Zyqwert/HOU/EXAMPLE\nPetra Zyqwert/NA/EXAMPLE on 1/2": ["Blorb S Zyqwert", "Petra Zyqwert"],
    "X-From: fischer, petra\nX-To: haas, hans, zyqwert, maria; fischer, petra\n\nx": [
        "fischer, petra",
        "haas, hans",
        "zyqwert, maria",
        "fischer, petra",
    ],
    "From: fischer, petra <pf@example.com>\n\nthanks,\npetra\n": ["fischer, petra", "petra"],
    "Pat O'Brien and Jan van der Berg, for Jean-Luc": ["Pat O'Brien", "Jan van der Berg", "Jean-Luc"],
}
TEXTS_WITHOUT_NAMES = [
    "Will you be there in May? Mark my words, Grant.",
    "The New York office moved to Houston on Monday",
    "I live in Paris",
    "thanks a lot\n\nBest regards\n",
    "the Petra Fischer Foundation pays",
    "the U.S. Zyqwert, U.N. Blorb, P.S. Zyqwert; A. Zyqwert, J.B. The, B.C. Zyqwert, A. K. ZYQWERT",
    "tell fischer, petra and haas, hans\nTo: subscribe, unsubscribe\nthanks petra too",
    "Strong Zyqwert/Blorb Nt Zyqwert/NA or Zyqwert/HOU/EXAMPLE",
    "she banks with Fischer & Sons",
    "Customer Service will answer, Sales Team too",
    "From: Customer Service <service@example.com>\nTo: Sales Team <sales@example.com>\n\n",
    "From: ann.roe@example.com <ann.roe@example.com>\nTo: x@example.com\n\n",
    "http://example.com/Petra/Fischer and petra.fischer@example.com",
    "Petra2 and 4Anna are no words of letters",
    "",
]


@pytest.mark.parametrize(
    "text", ["Núria Ángeles Gómez", "Dr. Øre Åse spoke to Zoë Brontë.", "From: José Müller <jm@example.com>\n\nHi José, ask René Müller"]
)
def test_names_with_decomposed_letters_are_found(text: str) -> None:
    """Names are also found where combining accents follow their letters."""
    found = find_names(unicodedata.normalize("NFC", text))
    assert found and find_names(unicodedata.normalize("NFD", text)) == [unicodedata.normalize("NFD", name) for name in found]


@pytest.mark.parametrize("text", NAMES_BY_TEXT)
def test_names_are_found(text: str) -> None:
    assert find_names(text) == NAMES_BY_TEXT[text]


@pytest.mark.parametrize("text", TEXTS_WITHOUT_NAMES)
def test_other_words_are_not_names(text: str) -> None:
    assert find_names(text) == []


def test_names_are_linked_to_similar_addresses() -> None:
    texts = ["From: Ann Roe <ann.roe@example.com>\nTo: Petra Haas <office@example.com>\n\n"]
    spans = NAMES.find_spans(build_column(texts))
    assert list_names(texts, spans) == [[("Ann Roe", BESIDE_ADDRESS_SCORE), ("Petra Haas", BESIDE_ADDRESS_SCORE)]]
    assert spans.person_links is not None
    address_ids = compute_value_ids(pa.array(["ann.roe@example.com"], pa.large_string()), "EMAIL_ADDRESS", KEY)
    name_ids = compute_value_ids(pa.array(normalise_name(pl.Series(["Roe, Ann"])).to_list(), pa.large_string()), "PERSON", KEY)
    assert spans.person_links.rows() == [(address_ids[0], name_ids[0])]


def test_without_prose_only_header_lines_are_searched() -> None:
    finder = Names(use="names", prose=False)
    finder.open(KEY, None)
    texts = ["From: Ann Roe <ann.roe@example.com>\nTo: x@example.com\n\nPetra Haas said"]
    assert list_names(texts, finder.find_spans(build_column(texts))) == [[("Ann Roe", BESIDE_ADDRESS_SCORE)]]


@given(st.lists(st.sampled_from([*NAMES_BY_TEXT, *TEXTS_WITHOUT_NAMES, "Zo\u00eb", "x\n"]), max_size=8))
@settings(max_examples=20)
def test_names_do_not_depend_on_other_texts_of_the_batch(texts: list[str]) -> None:
    """The result does not depend on other texts of the batch: batches may be cut anywhere."""
    names_of_batch = list_names(texts, NAMES.find_spans(build_column(texts)))
    assert names_of_batch == [list_names([text], NAMES.find_spans(build_column([text])))[0] for text in texts]


@given(st.text(st.sampled_from("PetraHs .,-'\n\u2019\u00e9\u0130\x01\x02"), max_size=40))
def test_noise_gives_spans_of_whole_characters(text: str) -> None:
    spans = NAMES.find_spans(build_column([text]))
    for start, stop in zip(spans.start_byte, spans.end_byte, strict=True):
        assert 0 <= start < stop <= len(text.encode())
        assert text.encode()[start:stop].decode()
