"""Message-IDs: `<local@host>` as mail programs generate them, in the three header fields that
contain them or quoted anywhere else.

A candidate `<local@host>` may also be a display address, `Bob <bob@example.com>`. Outside an id
field it counts as a Message-ID only where its local part looks machine-generated. In doubt it is an
EMAIL_ADDRESS: plans leave Message-IDs in the text more often than addresses, and an address
mistaken for an id would stay. The rule depends on character classes only, so a surrogate passes
where its original did.

An id of `git send-email` (`20190401123456.123-1-bob@example.com`) contains the sender's address,
which is an EMAIL_ADDRESS; it is no Message-ID. An id in a link
(`https://lists.example.org/r/20010203123456.A1234@example.com/`) is part of the link.

A colon is allowed only after a digit, as several programs write it, so that in
`<mailto:bob@example.com>` only the address is matched.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import Kind, redraw_characters, reserve_hosts
from sanitize.kinds.plain_forms import IN_ID_FIELDS, PlainForm

_ATOM = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]"  # RFC 5322 atext and the dot

# what `git send-email` and its predecessors write before the sender's address: time, process and
# number of the mail
PATCH_ID_PREFIX = "(?:[0-9]{8,14}[.][0-9]{1,7}-[0-9]{1,4}-|[0-9]{9,10}-[0-9]{1,7}-(?:[0-9]{1,4}-)?git-send-email-)"  # noqa: E501
_PATCH_ID = f"{PATCH_ID_PREFIX}[A-Za-z][^@]*@[^@]+[.][A-Za-z]+"

_PERSON = "[A-Za-z]+(?:[._-][A-Za-z]+)*[0-9]{0,2}"


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for Message-IDs: in an id field, any candidate with a single @ that does not read like a
    person's address; in an address field, none; elsewhere, those in brackets whose local part looks
    generated."""
    value, local = pl.col("value"), pl.col("value").str.replace(r"@[^@]*\z", "")
    is_possible = (pl.col("id_field") | pl.col("bracketed")) & ~pl.col("address_field")
    is_possible &= ~is_patch_id(value)
    is_possible &= (value.str.count_matches("@", literal=True) == 1) & ~value.str.contains(
        r"://|\A[Ww]{3}[.]"
    )
    # `In-Reply-To: Message from Bob Lee <bob.lee@example.com>`: an address of a person in an id
    # field is no Message-ID
    person = (
        local.str.contains(rf"\A{_PERSON}\z")
        & (local.str.len_bytes() < 24)
        & value.str.contains(r"@.*[.]")
    )
    is_id = pl.when(pl.col("id_field")).then(~person).otherwise(is_generated(local))
    return candidates.select(is_possible & is_id).to_series()


def is_patch_id(ids: pl.Expr) -> pl.Expr:
    """True for ids that contain the sender's address."""
    return ids.str.contains(rf"\A(?:{_PATCH_ID})\z")


def is_generated(local: pl.Expr) -> pl.Expr:
    """True where the part before the @ looks machine-generated: it has a `$`, or sixteen characters
    with digits as no person writes them.

    The bounds let `first.last19850412`, telephone numbers of up to eleven digits and two of them
    joined pass as addresses; so do the addresses that Exchange wraps in a local part,
    `IMCEANOTES-Bob+20Mann+40corp`.
    """
    runs = local.str.count_matches("[0-9]+")
    mixed = runs >= 4  # uuids, hexadecimal blobs, the base64 of web mailers
    # a time down to the second
    stamped = local.str.contains("[0-9]{14}") | (local.str.contains("[0-9]{12}") & (runs >= 2))
    # Pine.LNX.4.21.0010..., 5.1.0.14.2.2001...
    numbered = local.str.count_matches(r"(?:\A|[.])[0-9]+(?-u:\b)") >= 3
    # base64 with few digits
    opaque = (local.str.len_bytes() >= 40) & (local.str.count_matches("[a-z0-9][A-Z]") >= 6)
    long = (local.str.len_bytes() >= 16) & (local.str.count_matches("[0-9]") >= 6)
    generated = (
        local.str.contains("$", literal=True) | opaque | (long & (mixed | stamped | numbered))
    )
    return generated & ~local.str.contains(r"\AIMCEA")


def _normalise(values: pl.Series) -> pl.Series:
    """The id unchanged: RFC 5322 compares ids with their letter case."""
    return values


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Ids with redrawn letters and digits, punctuation kept; the last label of the host is
    `example` (RFC 2606), whatever `reserved` says."""
    parts = redraw_characters(values, draws).str.extract_groups(
        r"\A(?<local>[\s\S]*@)?(?<host>[\s\S]*)\z"
    )
    return (
        parts.struct.unnest()
        .select(pl.concat_str(pl.col("local").fill_null(""), reserve_hosts("host")))
        .to_series()
        .alias(values.name)
    )


KIND = Kind(
    name="MESSAGE_ID",
    about="the identifier of a mail, as in Message-ID, In-Reply-To and References",
    category="resource",
    field_names=tuple(("message id|messageid|msg id|in reply to").split("|")),
    pattern=rf"<(?:{_ATOM}*[0-9]:)*{_ATOM}+@[A-Za-z0-9._:\[\]-]+>",
    anchors=("@",),
    accepts=_accepts,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    plain_forms=(
        PlainForm(
            pattern=f"{_ATOM}+@[A-Za-z0-9._-]+",
            unless=f"{_PERSON}@.*|[Ww]{{3}}[.].*|{_PATCH_ID}",
            marks=IN_ID_FIELDS,
        ),
    ),
    atomic=True,
    rank=10,
    first_bytes=b"<",
    hits=(
        (
            "<20010514.163900.4711.kowal@mail.example.com>",
            "20010514.163900.4711.kowal@mail.example.com",
        ),
        (
            "<13505866.1075863688222.JavaMail.evans@host>",
            "13505866.1075863688222.JavaMail.evans@host",
        ),
        ("<20010203123456.A1234@example.com>", "20010203123456.A1234@example.com"),
        (
            "<Pine.LNX.4.21.0010151234560.1234-100000@example.com>",
            "Pine.LNX.4.21.0010151234560.1234-100000@example.com",
        ),
        ("<000a01c0f1f7$a8c5e1b0$0200a8c0@example>", "000a01c0f1f7$a8c5e1b0$0200a8c0@example"),
        (
            "<c1cc0df8-bd06-51e7-d5a0-888c1955683b@example.com>",
            "c1cc0df8-bd06-51e7-d5a0-888c1955683b@example.com",
        ),
        (
            "<4.3.2.7.2.20010412101010.00b5b960@mail.example.com>",
            "4.3.2.7.2.20010412101010.00b5b960@mail.example.com",
        ),
        (
            "<CAKgNqVuLpTtZsBbHmXxAaRrYyWwGgFfKkJjIiEeDd7S3PpQ@mail.example.com>",
            "CAKgNqVuLpTtZsBbHmXxAaRrYyWwGgFfKkJjIiEeDd7S3PpQ@mail.example.com",
        ),
    ),
    near_misses=(
        "<bob.mann2001@example.com> <john.smith19850412@example.com>",
        "<a @b> 20010203123456.A1234@example.com",
        (
            "<20190401123456.123-1-bob@example.com> In-Reply-To:"
            " <1554100000-4711-2-git-send-email-bob@example.com>"
        ),
    ),
)
