"""Values that a label beside them names, such as `Passport No. K1234567`: one pattern for the
labels of all kinds, one for what may stand behind them, and which kind that is.

A label is a word of a kind (`passport`), with a word for number behind it or none; a word that
means more than numbers (`case`) needs one. It belongs to the value behind it on its own line, or on
the next line if the value stands there alone. The forms of the kinds that have a label are tried in
their order; what the first one leaves of a match belongs to no value.

Letter case counts in neither labels nor values, unless a form says so (`(?-i:...)`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from sanitize.kinds.field_names import split_field_name
from sanitize.kinds.kind import BLANKS, BOUNDARY, HYPHENS, Kind, LabelledForm

PHASE = 4  # after all other kinds: a telephone number behind `account` is no account
_WORD_FOR_NUMBER = (
    r"(?:numbers?|num|nos?|nrs?|nummer|numer|numero|número|numéro|#|n[.]?[°ºo]|№|号码|號碼|番号|n[.])"
    "[.]?"
)
_NUMBER = rf"[.,]?[ _({HYPHENS}]{{0,2}}{_WORD_FOR_NUMBER}"
_ID = rf"[ _({HYPHENS}]{{0,2}}(?:id|code)"
# between a label and its value; a line end only where the finder has joined two lines
_GAP = (
    # whose it is: `number of the appellant, 123`, `identifier of plaintiff: 123`
    r"(?: (?:of|for|von|der|des|du|de|del|della|di|da|do)(?: [^\s0-9]{1,20}){1,4}(?:[,:]| is))?"
    r"(?: (?:is|was|of|ist|lautet|est le|est|es|è|é|on|am))?"
    rf"(?:[ \t:：#=.,\"'“”«»()*|]{{0,6}}|[ \t]+[{HYPHENS}] )(?:[ \t]*\r?\n[ \t]*)?"
)
_LETTER = r"[^\x00-@\[-`{-\x7f]"  # ASCII letters, and all beyond ASCII
_VALUE = (
    rf"[+-]?{BOUNDARY}(?:"
    rf"{_LETTER}{{3,12}}[.]? [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}}|"  # May 14, 1985
    rf"[0-9]{{1,2}}(?:st|nd|rd|th|er|º)?[. ] ?(?:de |of )?{_LETTER}{{3,12}}[.,]? (?:de )?"
    r"[0-9]{4}|"
    r"[A-Za-z0-9._-]+@[A-Za-z]+|(?-i:[A-Z]{6}[A-Z0-9]{2,5})(?-u:\b)|"
    rf"(?:[A-Za-z]+(?:[ ./{HYPHENS}][A-Za-z]{{1,4}})?[ ./{HYPHENS}]?)?[0-9][A-Za-z0-9]*"
    rf"(?:[/:._+°'\"{HYPHENS}][A-Za-z0-9]+|,?[{BLANKS}]{{0,3}}[+-]?[0-9][A-Za-z0-9]*"
    rf"|[{BLANKS}](?-i:[A-Z]{{1,3}}){BOUNDARY})*)"
)
# all that may follow a label
_BEHIND_LABEL = rf"\A(?i:(?P<gap>(?P<number_word>{_NUMBER})?(?:{_ID})?{_GAP})(?P<value>{_VALUE}))"
# what may follow the value of one form in what may follow a label
_REST = r"(?:[^A-Za-z0-9][\s\S]*)?"

_FORMS_PER_THREAD = 6  # each has up to five patterns, and a thread keeps 32
_NONE_DECIDED = pl.DataFrame(
    schema={"row": pl.UInt32, "kind": pl.Int64, "start": pl.UInt32, "size": pl.UInt32}
)


class LabelTable:
    """The labels of some kinds, given with their numbers. `run_in_thread` calls a function in a
    named thread, whose patterns stay compiled."""

    def __init__(
        self, kinds: Iterable[tuple[int, Kind]], run_in_thread: Callable[..., Any]
    ) -> None:
        self._run_in_thread = run_in_thread
        self._forms = [(number, form) for number, kind in kinds for form in kind.labelled_forms]
        self._rows, self.pattern = _list_labels(
            tuple((tuple(form.labels), tuple(form.number_labels)) for _, form in self._forms)
        )
        self.is_empty = self._rows.is_empty()

    def decide(self, labels: pl.Series, behind: pl.Series) -> pl.DataFrame:
        """The labels behind which a value of some kind stands: `row`, `kind` (a number), and
        `start` and `size` of the value in the text behind the label, in bytes."""
        parts = self._run_in_thread("labels", behind.str.extract_groups, _BEHIND_LABEL)
        found = (
            parts.struct.unnest()
            .with_columns(label=labels.str.to_lowercase())
            .with_row_index("row")
        )
        found = found.join(self._rows, on="label").filter(
            (pl.col("needs_number") == 0) | pl.col("number_word").is_not_null()
        )
        decided = [
            self._run_in_thread(
                f"labelled forms {int(form_no) // _FORMS_PER_THREAD}",
                self._decide_form,
                int(form_no),
                rows,
            )
            for (form_no,), rows in found.sort("form_no").group_by("form_no", maintain_order=True)
        ]
        all_decided: pl.DataFrame = pl.concat([_NONE_DECIDED, *decided])
        return all_decided.unique("row", keep="first", maintain_order=True).sort("row")

    def _decide_form(self, form_no: int, candidates: pl.DataFrame) -> pl.DataFrame:
        kind, form = self._forms[form_no]
        parts = candidates["value"].str.extract_groups(
            rf"\A(?P<sign>[+-]??)(?P<value>(?i:{form.pattern})){_REST}\z"
        )
        found = candidates.select("row", "gap").hstack(parts.struct.unnest()).drop_nulls()
        if form.check is not None:
            found = found.filter(form.check(found["value"]))
        return found.select(
            "row",
            kind=pl.lit(kind, pl.Int64),
            start=pl.col("gap").str.len_bytes() + pl.col("sign").str.len_bytes(),
            size=pl.col("value").str.len_bytes(),
        )


@functools.lru_cache(maxsize=8)  # a finder is made for each search
def _list_labels(
    labels_by_form: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
) -> tuple[pl.DataFrame, str]:
    """The labels and number labels of some forms: a row for each, in singular and plural, and a
    pattern for any of them."""
    rows = [
        (label + plural, form_no, is_number_label)
        for form_no, both in enumerate(labels_by_form)
        for is_number_label, labels in enumerate(both)
        for label in labels
        for plural in ("", "s")
    ]
    schema = {"label": pl.String, "form_no": pl.Int64, "needs_number": pl.Int64}
    frame = pl.DataFrame(rows, schema, orient="row").unique(["label", "form_no"])
    return frame, f"(?i:{_match_words(frame['label'])})"


def list_field_names(forms: Iterable[LabelledForm]) -> tuple[str, ...]:
    """The labels as names of fields, those that need a word for number with one."""
    names = dict[str, None]()
    for form in (one for one in forms if one.names_fields):
        endings = ("no", "number", "num")
        names |= dict.fromkeys(form.labels)
        names |= dict.fromkeys(f"{one} {word}" for one in form.number_labels for word in endings)
        names |= dict.fromkeys(f"{one} {word}" for one in form.labels for word in (*endings, "id"))
    plain = (" ".join(split_field_name(name)) for name in names)
    return tuple(dict.fromkeys(name for name in plain if len(name) > 2))


def is_labelled_value(forms: Iterable[LabelledForm], values: pl.Series) -> pl.Series:
    """True where a value has one of the forms from end to end and passes its check."""
    good = pl.repeat(False, len(values), dtype=pl.Boolean, eager=True)
    for form in forms:
        rows = values.str.contains(rf"\A(?i:{form.pattern})\z").arg_true()
        own = values.gather(rows)
        good = good.scatter(rows, good.gather(rows) | form.check(own) if form.check else True)
    return good


def _match_words(labels: Iterable[str]) -> str:
    """A pattern for any of the labels as whole words, in the plural, too; words of languages that
    are written without blanks have no boundaries."""
    whole = {
        label
        for label in labels
        if label[0].isascii() and label[-1].isascii() and label[-1].isalnum()
    }
    others = set(labels) - whole
    return rf"(?:{BOUNDARY}{_any_of(whole)}s?{BOUNDARY}|{_any_of(others)})"


def _any_of(labels: Iterable[str]) -> str:
    """A pattern for any of the labels, the longest first; one that matches nothing for none."""
    ordered = sorted(labels, key=lambda label: (-len(label), label))
    return f"(?:{'|'.join(map(re.escape, ordered))})" if ordered else r"[^\s\S]"
