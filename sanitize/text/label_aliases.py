"""Maps the labels of models and other tools to kinds of sanitize, and trims their spans: for finders that use an external detector.

`KIND_BY_LABEL` covers the labels of CoNLL, OntoNotes and models of personal data; the plan's own map takes precedence. A label that is in
neither map stops the run before any text is read, so that no finding is dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import I64, TextBuffers, slice_nested_spans
from sanitize.core.part_protocols import FoundSpans
from sanitize.errors import PlanError, suggest_names
from sanitize.kinds.kind import all_kinds

NO_KIND = ""  # the kind of a label that is not personal data

KIND_BY_LABEL = {
    **dict.fromkeys(
        "PER PERSON PERS NAME FIRSTNAME LASTNAME MIDDLENAME GIVENNAME SURNAME NAME_STUDENT PATIENT STAFF DOCTOR".split(), "PERSON"
    ),
    **dict.fromkeys("LOC LOCATION GPE FAC FACILITY ADDRESS CITY STATE COUNTRY COUNTY STREET ZIPCODE STREET_ADDRESS".split(), "LOCATION"),
    **dict.fromkeys("ORG ORGANIZATION ORGANISATION COMPANY COMPANYNAME HOSP HOSPITAL".split(), "ORGANIZATION"),
    **dict.fromkeys("EMAIL EMAILADDRESS EMAIL_ADDRESS".split(), "EMAIL_ADDRESS"),
    **dict.fromkeys("PHONE PHONENUMBER PHONE_NUM PHONE_NUMBER TELEPHONENUM FAX".split(), "PHONE_NUMBER"),
    **dict.fromkeys("DATE TIME DATE_TIME DOB DATEOFBIRTH DATE_OF_BIRTH".split(), "DATE_TIME"),
    **dict.fromkeys("IP IPV4 IPV6 IPADDRESS IP_ADDRESS".split(), "IP_ADDRESS"),
    **dict.fromkeys("URL URL_PERSONAL".split(), "URL"),
    **dict.fromkeys("CREDITCARDNUMBER CREDITCARD CREDIT_CARD".split(), "CREDIT_CARD"),
    **dict.fromkeys("IBAN IBAN_CODE".split(), "IBAN_CODE"),
    **dict.fromkeys("SSN SOCIALNUM US_SSN".split(), "US_SSN"),
    **dict.fromkeys("MAC MAC_ADDRESS".split(), "MAC_ADDRESS"),
    "AGE": "AGE",
    **dict.fromkeys("MISC NORP EVENT PRODUCT LAW LANGUAGE WORK_OF_ART MONEY PERCENT QUANTITY ORDINAL CARDINAL".split(), NO_KIND),
}


def map_labels_to_kinds(
    labels: Iterable[str], plan_labels: Mapping[str, str], where: str, *, labels_are_data: bool = False
) -> dict[str, str]:
    """Returns the kind of each label, `NO_KIND` for one that is not personal data.

    A label is looked up in `plan_labels`, then in `KIND_BY_LABEL` in any letter case, then among the names of all kinds. Raises a PlanError
    whose message begins with `where` and lists the unmapped labels, or a kind that does not exist. With `labels_are_data` the labels come
    from a data file, and the message quotes only those written like labels, in capitals."""
    kind_by_label: dict[str, str] = {}
    undecided: list[str] = []
    for kind in plan_labels.values():
        if kind and kind not in all_kinds():
            raise PlanError(
                f'{where}: there is no kind {kind!r}; {suggest_names(kind, all_kinds())} Use "" for a label that is not personal data'
            )
    for label in labels:
        if not label:
            continue
        if label in plan_labels:
            kind_by_label[label] = plan_labels[label]
        elif label.upper() in KIND_BY_LABEL:
            kind_by_label[label] = KIND_BY_LABEL[label.upper()]
        elif label in all_kinds():
            kind_by_label[label] = label
        else:
            undecided.append(label)
    if undecided:
        quoted = sorted(label for label in undecided if not labels_are_data or (label.isascii() and label.isupper() and len(label) < 40))
        unquoted_note = f"{len(undecided) - len(quoted)} labels in small letters" if len(quoted) < len(undecided) else ""
        example = ", ".join(f'{label} = "KIND"' for label in quoted[:3] or ["LABEL"])
        raise PlanError(
            f"{where}: no kind is given for {', '.join([*quoted, *([unquoted_note] if unquoted_note else [])])}; write {{ {example} }} "
            f'with one of our kinds, or "" for a label that is not personal data. Kinds are {", ".join(sorted(all_kinds()))}'
        )
    return kind_by_label


def trim_spans(
    buffers: TextBuffers,
    text_no: I64,
    start: I64,
    end: I64,
    kind: npt.NDArray[np.int32],
    kinds: tuple[str, ...],
    score: npt.NDArray[np.float32],
    **span_fields: Any,
) -> FoundSpans:
    """Returns spans (byte offsets in their texts) sorted and without white space at their edges. A span without any letter or digit is
    dropped, and counted in `skipped_counts` as `no_letter`."""
    if not len(text_no):
        return FoundSpans.empty(**span_fields)
    order = np.lexsort((kind, -end, start, text_no))
    text_no, start, end, kind, score = text_no[order], start[order], end[order], kind[order], score[order]
    base = buffers.offsets[text_no]
    span_texts = pl.Series(slice_nested_spans(buffers, base + start, base + end))
    has_letter = span_texts.str.contains(r"[\p{L}\p{N}]").to_numpy()
    byte_length = span_texts.str.len_bytes().to_numpy().astype(np.int64)
    start = start + byte_length - span_texts.str.strip_chars_start().str.len_bytes().to_numpy().astype(np.int64)
    end = end - byte_length + span_texts.str.strip_chars_end().str.len_bytes().to_numpy().astype(np.int64)
    dropped_counts = np.bincount(kind[~has_letter], minlength=len(kinds))
    skipped = {(kinds[number], "no_letter"): int(dropped_counts[number]) for number in np.flatnonzero(dropped_counts).tolist()}
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
