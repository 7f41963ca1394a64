"""Canada: social insurance numbers (Luhn; the first digit is the region, 0 and 8 are not assigned
to persons)."""

from __future__ import annotations

from sanitize.kinds.countries.national_id import make_national_id, passes_luhn
from sanitize.kinds.kind import DIGITS

KINDS = (
    make_national_id(
        name="CA_SIN",
        about="a Canadian social insurance number",
        country="CA",
        bare_pattern="[1-79][0-9]{2} [0-9]{3} [0-9]{3}|[1-79][0-9]{2}-[0-9]{3}-[0-9]{3}",
        labelled_pattern="[1-79][0-9]{8}",
        labels=("SIN", "NAS", "Social Insurance"),
        is_valid=passes_luhn,
        alphabets=[b"12345679", *[DIGITS] * 8],
        check_length=1,
        first_bytes=b"12345679NSns",
        hits=(
            ("130 692 544", "130 692 544"),
            ("130-692-544", "130-692-544"),
            ("SIN: 130692544", "130692544"),
        ),
        near_misses=(
            "130 692 545",
            "046 454 286",
            "130692544",
        ),
    ),
)
