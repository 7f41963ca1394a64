"""Names of companies and institutions, reported from a user's list or by a model; there is no
pattern. Normalised form: as for LOCATION."""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind
from sanitize.kinds.location import normalise_proper_noun
from sanitize.kinds.person import ASCII_ALPHANUMERICS, is_distinctive, name_pools, redraw_words

_FIXED_WORDS = "the|of|and|for|inc|llc|ltd|limited|corp|corporation|co|company|group|bank|gmbh|ag|sa|plc|university|institute|department"  # noqa: E501


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Names with as many words: surnames in the letter case of the value; words such as Inc, Bank
    and University stay."""
    _, lasts = name_pools()
    return redraw_words(values, draws, lasts, lasts, _FIXED_WORDS)


KIND = Kind(
    name="ORGANIZATION",
    about="a company or institution, from a list or a model",
    category="organization",
    field_names=tuple(
        (
            "organization|organizations|organisation|org|company|company name|employer|"
            "institution|firma|unternehmen|arbeitgeber|entreprise|societe|employeur|"
            "empresa|empleador|empregador|azienda|societa|bedrijf|werkgever|pracodawca|"
            "公司|单位|公司名称|会社|会社名|勤務先"
        ).split("|")
    ),
    aliases=(
        "ORG",
        "ORGANISATION",
        "COMPANY",
        "COMPANYNAME",
        "HOSP",
        "HOSPITAL",
    ),
    pattern="",
    normalise=normalise_proper_noun,
    make_surrogates=_make_surrogates,
    is_distinctive=is_distinctive,
    certain_length=12,
    not_preceded_by=ASCII_ALPHANUMERICS,
    not_followed_by=ASCII_ALPHANUMERICS,
    rank=92,
    hits=(("she joined Kestrel Labs in May", "Kestrel Labs"),),
    near_misses=("Kestrel Labsen, Kestrel",),
)
