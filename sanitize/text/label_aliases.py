"""What models and other tools call our kinds, and their spans as ours: for the finders that ask somebody else.

One written map, `KNOWN`, for the labels of CoNLL, OntoNotes and models of personal data; a plan's own map comes first. A label that neither
knows stops the run before a text is read: what a finder would find and nobody decides about is not passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sanitize.core.arrow_buffers import I64, Buffers, cut_nested
from sanitize.core.parts import Spans
from sanitize.errors import PlanError, nearest
from sanitize.kinds.kind import every_kind

NOTHING = ""  # of a label that is no personal data

KNOWN = {
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
    **dict.fromkeys("MISC NORP EVENT PRODUCT LAW LANGUAGE WORK_OF_ART MONEY PERCENT QUANTITY ORDINAL CARDINAL".split(), NOTHING),
}


def kinds_of(names: Iterable[str], own: Mapping[str, str], where: str, *, data: bool = False) -> dict[str, str]:
    """The kind of each label, NOTHING for one that is no personal data: by the plan's `own` map, then by `KNOWN` whatever its letter case,
    then where a kind has that very name. PlanError, opened by `where`, lists the labels that nothing decides about, and a kind that there
    is not; of labels that stand in `data` it says again only those written as labels are, in capitals."""
    found: dict[str, str] = {}
    undecided: list[str] = []
    for kind in own.values():
        if kind and kind not in every_kind():
            raise PlanError(f'{where}: there is no kind {kind!r}; {nearest(kind, every_kind())} Or "" for what is no personal data')
    for name in names:
        if not name:
            continue
        if name in own:
            found[name] = own[name]
        elif name.upper() in KNOWN:
            found[name] = KNOWN[name.upper()]
        elif name in every_kind():
            found[name] = name
        else:
            undecided.append(name)
    if undecided:
        said = sorted(name for name in undecided if not data or (name.isascii() and name.isupper() and len(name) < 40))
        more = f"{len(undecided) - len(said)} labels in small letters" if len(said) < len(undecided) else ""
        write = ", ".join(f'{name} = "KIND"' for name in said[:3] or ["LABEL"])
        raise PlanError(
            f"{where}: nothing says which kinds {', '.join([*said, *([more] if more else [])])} are; write {{ {write} }} with one of our "
            f'kinds, or "" for what is no personal data. Kinds are {", ".join(sorted(every_kind()))}'
        )
    return found


def trimmed(
    buffers: Buffers,
    text_no: I64,
    start: I64,
    stop: I64,
    kind: npt.NDArray[np.int32],
    kinds: tuple[str, ...],
    score: npt.NDArray[np.float32],
    **more: Any,
) -> Spans:
    """Spans (bytes of their texts) without white space at their edges, sorted; those without any letter or digit are refused, and counted
    as `no_letter`."""
    if not len(text_no):
        return Spans.none(**more)
    order = np.lexsort((kind, -stop, start, text_no))
    text_no, start, stop, kind, score = text_no[order], start[order], stop[order], kind[order], score[order]
    base = buffers.offsets[text_no]
    said = pl.Series(cut_nested(buffers, base + start, base + stop))
    good = said.str.contains(r"[\p{L}\p{N}]").to_numpy()
    size = said.str.len_bytes().to_numpy().astype(np.int64)
    start = start + size - said.str.strip_chars_start().str.len_bytes().to_numpy().astype(np.int64)
    stop = stop - size + said.str.strip_chars_end().str.len_bytes().to_numpy().astype(np.int64)
    times = np.bincount(kind[~good], minlength=len(kinds))
    refused = {(kinds[number], "no_letter"): int(times[number]) for number in np.flatnonzero(times).tolist()}
    return Spans(text_no[good], start[good], stop[good], kind[good], kinds, score[good], refused=refused, **more)
