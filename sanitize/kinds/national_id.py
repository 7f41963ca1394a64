"""National identifiers of all countries, behind their labels (`BSN 111222333`), with their checks;
without a label only those of which fewer than one random number in 10,000 of the same form passes.
A plan that names a country finds those of that country as kinds of their own, in every form.

Normalised form: letters in capitals and digits, without separators.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.id_number import is_distinctive, normalise_number
from sanitize.kinds.id_number import make_surrogates as redraw_number
from sanitize.kinds.kind import Kind, national_kinds
from sanitize.kinds.labelled_forms import is_labelled_value

# found without a label
STRONG_KINDS = ("AE_EMIRATES_ID", "CN_RESIDENT_ID")
_STRONG = tuple(kind for kind in national_kinds() if kind.name in STRONG_KINDS)
_PATTERN = "|".join(kind.pattern for kind in _STRONG)
_STRONG_FORMS = tuple(form for kind in _STRONG for form in kind.labelled_forms)
_FORMS = tuple(form for kind in national_kinds() for form in kind.labelled_forms)


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for identifiers with a strong check. It is no `check`, so that a number that fails is
    offered to other kinds."""
    values = candidates["value"]
    return values.str.contains(rf"\A(?:{_PATTERN})\z") & is_labelled_value(_STRONG_FORMS, values)


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Identifiers of the first country whose form and check the value has; for others, letters and
    digits are redrawn."""
    surrogates = redraw_number(values, draws, reserved)
    pending = pl.repeat(True, len(values), eager=True)
    for kind in national_kinds():
        rows = (pending & is_labelled_value(kind.labelled_forms, values)).arg_true()
        own = kind.make_surrogates(values.gather(rows), draws.take(rows.to_numpy()), reserved)
        surrogates = surrogates.scatter(rows, own)
        pending = pending.scatter(rows, False)
    return surrogates


KIND = Kind(
    name="NATIONAL_ID",
    about="a national identifier behind its label or with a strong check",
    category="identifier",
    labelled_forms=_FORMS,
    pattern=_PATTERN,
    accepts=_accepts,
    normalise=normalise_number,
    make_surrogates=_make_surrogates,
    is_distinctive=is_distinctive,
    accepts_in_field=lambda values: is_labelled_value(_FORMS, values),
    phase=2,
    digit_lines_only=True,
    opt_in=True,
    rank=44,  # before CREDIT_CARD
    first_bytes=bytes(sorted({byte for kind in _STRONG for byte in kind.first_bytes})),
    hits=(
        ("BSN 111222333, NHS number: 9434765919", "111222333", "9434765919"),
        ("11010519491231002X", "11010519491231002X"),
        ("cf: rssmra85t10a562s", "rssmra85t10a562s"),
    ),
    near_misses=("111222333 and BSN 111222334", "110105194912310021"),
)
