"""Maps the labels of models and other tools to kinds of sanitize, and trims their spans: for
finders that use an external detector.

A kind states its labels in CoNLL, OntoNotes and models of personal data (`Kind.aliases`); the
plan's own map takes precedence. A label that is neither there nor in the map stops the run before
any text is read, so that no finding is dropped silently.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sanitize.array_types import F32, I32, I64
from sanitize.core.arrow_buffers import TextBuffers, slice_spans
from sanitize.core.part_protocols import FoundSpans
from sanitize.errors import PlanError, suggest_names
from sanitize.kinds.kind import all_kinds, builtin_kinds

NO_KIND = ""  # the kind of a label that is not personal data

# labels of things that are no personal data
_OTHER_LABELS = (
    "MISC NORP EVENT PRODUCT LAW LANGUAGE WORK_OF_ART MONEY PERCENT QUANTITY ORDINAL CARDINAL"
    " PREFIX SUFFIX TITLE SEX GENDER EYECOLOR HEIGHT JOBAREA JOBTITLE JOBTYPE AMOUNT CURRENCY"
    " CURRENCYCODE CURRENCYNAME CURRENCYSYMBOL CREDITCARDISSUER ORDINALDIRECTION USERAGENT"
    " ACCOUNTNAME OTHERPHI CREATIVE-WORK"
).split()
# further labels of models of personal data, by kind: of ai4privacy, i2b2, WNUT,
# openai/privacy-filter (`private_person`, `account_number`)
_MODEL_LABELS: Mapping[str, str] = {
    "PERSON": "HCW",
    "USER_NAME": "USERNAME HANDLE",
    "CRYPTO": "BITCOINADDRESS ETHEREUMADDRESS LITECOINADDRESS",
    "SECRET": "PASSWORD PIN CREDITCARDCVV",
    "LOCATION": "NEARBYGPSCOORDINATE",
    "ORGANIZATION": "VENDOR PATORG CORPORATION GROUP",
    "ID_NUMBER": "ID PHONEIMEI IMEI LICENSE_NUMBER",
    "US_SSN": "SOCIAL_SECURITY_NUMBER SOCIALNUMBER",
    "BANK_ACCOUNT": "ACCOUNT_NUMBER",
}
_PRIVATE_PREFIX = "PRIVATE_"
# labels that are parts of one value, by the kind and the name of the part
_PARTS: Mapping[str, Mapping[str, str]] = {
    "PERSON": {
        "given": "GIVEN_NAME GIVENNAME FIRSTNAME FIRST_NAME",
        "middle": "MIDDLENAME MIDDLE_NAME",
        "surname": "SURNAME LASTNAME LAST_NAME FAMILY_NAME",
    },
    "LOCATION": {
        "building": "BUILDING_NUMBER BUILDINGNUMBER BUILDINGNUM",
        "street": "STREET STREET_NAME STREETNAME",
        "secondary": "SECONDARY_ADDRESS SECONDARYADDRESS",
        "city": "CITY",
        "county": "COUNTY",
        "state": "STATE",
        "zip": "ZIP_CODE ZIPCODE POSTCODE POSTAL_CODE",
        "country": "COUNTRY",
    },
}


@functools.cache
def get_kinds_by_label() -> Mapping[str, str]:
    """The kind of each known label, in capitals: names and aliases of the built-in kinds, and
    `NO_KIND` for what is no personal data."""
    aliases = {
        label: kind.name
        for kind in builtin_kinds().values()
        for label in (kind.name, *kind.aliases)
    }
    parts = {label: kind for label, (kind, _) in get_part_by_label().items()}
    others = {label: kind for kind, labels in _MODEL_LABELS.items() for label in labels.split()}
    known = others | parts | aliases | dict.fromkeys(_OTHER_LABELS, NO_KIND)
    return known | {_PRIVATE_PREFIX + label: kind for label, kind in known.items()}


@functools.cache
def get_part_by_label() -> Mapping[str, tuple[str, str]]:
    """The kind and the part of each label, in capitals, that is only a part of a value: a given
    name, the city of an address."""
    return {
        label: (kind, part)
        for kind, parts in _PARTS.items()
        for part, labels in parts.items()
        for label in labels.split()
    }


def map_labels_to_kinds(
    labels: Iterable[str],
    plan_labels: Mapping[str, str],
    where: str,
    *,
    labels_are_data: bool = False,
) -> dict[str, str]:
    """Returns the kind of each label, `NO_KIND` for one that is not personal data.

    A label is looked up in `plan_labels`, then in `get_kinds_by_label` in any letter case, then
    among the names of all kinds. Raises a PlanError whose message begins with `where` and lists the
    unmapped labels, or a kind that does not exist. With `labels_are_data` the labels come from a
    data file, and the message quotes only those written like labels, in capitals."""
    kind_by_label: dict[str, str] = {}
    undecided: list[str] = []
    for kind in plan_labels.values():
        if kind and kind not in all_kinds():
            raise PlanError(
                f'{where}: there is no kind {kind!r}; {suggest_names(kind, all_kinds())} Use "" for'
                " a label that is not personal data"
            )
    for label in labels:
        if not label:
            continue
        if label in plan_labels:
            kind_by_label[label] = plan_labels[label]
        elif label.upper() in get_kinds_by_label():
            kind_by_label[label] = get_kinds_by_label()[label.upper()]
        elif label in all_kinds():
            kind_by_label[label] = label
        else:
            undecided.append(label)
    if undecided:
        quoted = sorted(
            label
            for label in undecided
            if not labels_are_data or (label.isascii() and label.isupper() and len(label) < 40)
        )
        unquoted_note = (
            f"{len(undecided) - len(quoted)} labels in small letters"
            if len(quoted) < len(undecided)
            else ""
        )
        example = ", ".join(f'{label} = "KIND"' for label in quoted[:3] or ["LABEL"])
        raise PlanError(
            f"{where}: no kind is given for"
            f" {', '.join([*quoted, *([unquoted_note] if unquoted_note else [])])}; write {{"
            f" {example} }} "
            'with one of our kinds, or "" for a label that is not personal data. Kinds are'
            f" {', '.join(sorted(all_kinds()))}"
        )
    return kind_by_label


def trim_spans(
    buffers: TextBuffers,
    text_no: I64,
    start: I64,
    end: I64,
    kind: I32,
    kinds: tuple[str, ...],
    score: F32,
    **span_fields: Any,
) -> FoundSpans:
    """Returns spans (byte offsets in their texts) sorted and without white space at their edges. A
    span without any letter or digit is dropped, and counted in `skipped_counts` as `no_letter`."""
    if not len(text_no):
        return FoundSpans.empty(**span_fields)
    order = np.lexsort((kind, -end, start, text_no))
    text_no, start, end, kind, score = (
        text_no[order],
        start[order],
        end[order],
        kind[order],
        score[order],
    )
    base = buffers.offsets[text_no]
    span_texts = pl.Series(slice_spans(buffers, base + start, base + end))
    has_letter = span_texts.str.contains(r"[\p{L}\p{N}]").to_numpy()
    byte_length = span_texts.str.len_bytes().to_numpy().astype(np.int64)
    start = (
        start
        + byte_length
        - span_texts.str.strip_chars_start().str.len_bytes().to_numpy().astype(np.int64)
    )
    end = (
        end
        - byte_length
        + span_texts.str.strip_chars_end().str.len_bytes().to_numpy().astype(np.int64)
    )
    dropped_counts = np.bincount(kind[~has_letter], minlength=len(kinds))
    skipped = {
        (kinds[number], "no_letter"): int(dropped_counts[number])
        for number in np.flatnonzero(dropped_counts).tolist()
    }
    return FoundSpans(
        text_no[has_letter],
        start[has_letter],
        end[has_letter],
        kind[has_letter],
        kinds,
        score[has_letter],
        skipped_counts=skipped,
        **span_fields,
    )


def drop_invalid_values(buffers: TextBuffers, found: FoundSpans) -> FoundSpans:
    """Returns the spans without those whose text is no value of their kind by its own pattern and
    check, counted as `form`: a model labels parts of addresses as addresses, and a word that counts
    as an address would be removed everywhere. Kinds without a pattern, credentials and kinds whose
    texts are not searched elsewhere (`ambiguous_text`) are left as they are."""
    is_kept = np.ones(len(found.text_no), np.bool_)
    skipped = dict(found.skipped_counts)
    values = pl.Series(
        "value",
        slice_spans(
            buffers,
            *(buffers.offsets[found.text_no] + at for at in (found.start_byte, found.end_byte)),
        ),
    )
    for number, name in enumerate(found.kind_names):
        kind = all_kinds()[name]
        rows = np.flatnonzero(found.kind_no == number)
        if (
            not len(rows)
            or not kind.pattern
            or kind.ambiguous_text
            or kind.category == "credential"
        ):
            continue
        candidates = pl.DataFrame({"value": values.gather(rows)}).with_columns(
            bracketed=pl.lit(False), id_field=pl.lit(False), address_field=pl.lit(False)
        )
        is_valid = kind.is_value(candidates)
        if kind.check is not None:
            is_valid &= kind.check(candidates["value"]).is_null()
        is_kept[rows] = is_valid.to_numpy()
        if dropped_count := int((~is_valid).sum()):
            skipped[name, "form"] = skipped.get((name, "form"), 0) + dropped_count
    columns = {
        name: getattr(found, name)[is_kept]
        for name in ("text_no", "start_byte", "end_byte", "kind_no", "score")
    }
    return replace(found, **columns, skipped_counts=skipped)
