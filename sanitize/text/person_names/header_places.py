"""What the header blocks of mails say about names: fields that hold none, addresses of mailing
lists, and the owner of a mailbox.

Received, DKIM-Signature, X-MS-...   no names: hosts, hashes, lists of fields
List-Id, List-Post, X-BeenThere      the display name beside the address of a list is that of a list
X-Folder, X-Origin, X-FileName       the owner of the mailbox: `\\Petra_Haas_Jan2002\\Inbox`,
                                     `Haas-P`, `phaas.nsf`
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, find_matches, slice_spans
from sanitize.core.intervals import overlaps_any
from sanitize.text.mail_headers import ADDRESS_LIST_FIELDS, find_header_blocks, find_header_lines

# fields, or beginnings of their names, that programs write
_OPAQUE_FIELDS = (
    "received",
    "dkim-",
    "domainkey-",
    "arc-",
    "authentication-",
    "return-path",
    "message-id",
    "references",
    "content-",
    "mime-version",
    "user-agent",
    "list-",
    "thread-index",
    "autocrypt",
    "openpgp",
    "ironport-",
    "feedback-id",
    "cms-type",
    "dlp-",
    "accept-language",
    "face",
    "x-",
)
_PEOPLE_FIELD_ENDINGS = (
    "from",
    "to",
    "cc",
    "bcc",
    "sender",
    "author",
    "owner",
    "approved-by",
    "identifier",
)
_MAIL_FIELDS = ADDRESS_LIST_FIELDS | {
    "date",
    "subject",
    "sent",
    "organization",
    "newsgroups",
    "lines",
    "path",
}
_LIST_FIELDS_PATTERN = (
    r"(?im)^(?:list-id|list-post|x-mailing-list|x-beenthere|x-loop|mailing-list|delivered-to:"
    r" mailing list)\b[^\n]*(?:\n[ \t][^\n]*)*"
)
_LIST_ADDRESS_PATTERN = r"[A-Za-z0-9_.+-]+[@.][A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*"
_OWNER_FIELDS_PATTERN = (
    r"(?im)^x-(?:folder|origin|filename|mailbox|mailbox-owner|account-name):[^\n]*"
)
# `\Petra_Haas_Jan2002\`, `\Haas, Petra K.\`, `Haas-P` and, if they contain a name of the first two,
# `\PHAAS (Privileged)\`, `phaas.nsf`
_OWNER_NAMES_PATTERN = (
    r"\p{Lu}[\p{L}\p{M}]+_\p{Lu}[\p{L}\p{M}]+|\p{Lu}[\p{L}\p{M}'-]+, \p{Lu}[\p{L}\p{M}'-]+(?:"
    r" \p{Lu}\b)?"
)
_OWNER_ORIGIN_PATTERN = r"\A(?i:x-origin):[ \t]*\p{L}{2,}-\p{L}\b"
_LOGIN_PATTERN = r"\p{L}{4,20}"
_LETTERS_PATTERN = r"\p{L}{3,}"


def is_in_opaque_header(buffers: TextBuffers, starts: I64) -> Mask:
    """True for positions (ascending) in the name of a header field, or in a field that programs
    write, of the header block of a mail or of a forwarded or quoted block."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    text_no = np.searchsorted(buffers.offsets, starts, side="right") - 1
    lines = find_header_lines(buffers, text_no, starts)
    is_opaque = np.array([_is_opaque_field(name) for name in lines.field_names])
    # a line `Petra: hello` of a chat has no field
    has_field_name = np.array(
        [
            _is_opaque_field(name) or "-" in name or name in _MAIL_FIELDS
            for name in lines.field_names
        ]
    )
    in_name = has_field_name[lines.field_code] & (starts < lines.colon)
    found: Mask = (lines.start >= 0) & (lines.colon >= 0) & (is_opaque[lines.field_code] | in_name)
    return found


def _is_opaque_field(name: str) -> bool:
    """True for fields that programs write, and not for those of people:
    `x-google-original-from`."""
    return (
        name.startswith(_OPAQUE_FIELDS)
        and name not in ADDRESS_LIST_FIELDS
        and not name.endswith(_PEOPLE_FIELD_ENDINGS)
    )


def is_list_address(buffers: TextBuffers, text_no: I64, addresses: pl.Series) -> Mask:
    """True for addresses that the header block of their text names as that of a mailing list;
    `text_no` is the text of each address. The id of a list, `users.lists.example.com`, is its
    address with a dot."""
    mail, low, high = find_header_blocks(buffers)
    blocks = TextBuffers.from_array(slice_spans(buffers, low, high))
    start, end = find_matches(blocks, _LIST_FIELDS_PATTERN)
    if not len(start) or not len(text_no):
        return np.zeros(len(text_no), np.bool_)
    fields = pl.DataFrame(
        {
            "text_no": mail[np.searchsorted(blocks.offsets, start, side="right") - 1],
            "address": (
                pl.Series(slice_spans(blocks, start, end))
                .str.to_lowercase()
                .str.extract_all(_LIST_ADDRESS_PATTERN)
            ),
        }
    )
    lists = (
        fields.explode("address")
        .with_columns(pl.col("address").str.replace("@", ".", literal=True))
        .unique()
    )
    rows = pl.DataFrame(
        {
            "text_no": text_no,
            "address": addresses.str.to_lowercase().str.replace("@", ".", literal=True),
        }
    )
    found = rows.with_row_index("row").join(lists, on=["text_no", "address"], how="semi")["row"]
    mask = np.zeros(len(text_no), np.bool_)
    mask[found.to_numpy()] = True
    return mask


def find_mailbox_owners(buffers: TextBuffers) -> tuple[I64, I64]:
    """Returns start and end byte of the names and logins of the owners of mailboxes in the fields
    of folders and files of header blocks. A login counts if it contains a word of a name in these
    fields of the same mail."""
    nothing = np.empty(0, np.int64)
    _, low, high = find_header_blocks(buffers)
    blocks = TextBuffers.from_array(slice_spans(buffers, low, high))
    line_start, line_end = find_matches(blocks, _OWNER_FIELDS_PATTERN)
    if not len(line_start):
        return nothing, nothing
    block_no = np.searchsorted(blocks.offsets, line_start, side="right") - 1
    lines = TextBuffers.from_array(slice_spans(blocks, line_start, line_end))
    # what to add to an offset in `lines`
    to_column = (low - blocks.offsets[:-1])[block_no] + line_start - lines.offsets[:-1]
    start, end = find_matches(lines, _OWNER_NAMES_PATTERN)
    origin_start, origin_end = find_matches(lines, _OWNER_ORIGIN_PATTERN)
    origin_values = pl.Series(slice_spans(lines, origin_start, origin_end)).str.extract(
        r"(\p{L}+-\p{L})\z"
    )
    start, end = (
        np.append(start, origin_end - origin_values.str.len_bytes().to_numpy().astype(np.int64)),
        np.append(end, origin_end),
    )
    names = pl.DataFrame(
        {
            "block": block_no[_find_rows(lines, start)],
            "name": pl.Series(slice_spans(lines, start, end)),
        }
    )
    words = (
        names.select(
            "block", word=pl.col("name").str.to_lowercase().str.extract_all(_LETTERS_PATTERN)
        )
        .explode("word")
        .unique()
    )
    login_start, login_end = find_matches(lines, _LOGIN_PATTERN)
    logins = pl.DataFrame(
        {
            "block": block_no[_find_rows(lines, login_start)],
            "login": pl.Series(slice_spans(lines, login_start, login_end)).str.to_lowercase(),
        }
    ).with_row_index("row")
    pairs = logins.join(words.drop_nulls(), on="block").filter(
        pl.col("login").str.contains(pl.col("word"), literal=True)
    )
    is_login = np.zeros(len(login_start), np.bool_)
    is_login[pairs["row"].to_numpy()] = True
    is_login &= ~overlaps_any(login_start, login_end, start, end)
    start, end = np.append(start, login_start[is_login]), np.append(end, login_end[is_login])
    shift = to_column[_find_rows(lines, start)]
    order = np.argsort(start + shift, kind="stable")
    return (start + shift)[order], (end + shift)[order]


def _find_rows(lines: TextBuffers, starts: I64) -> I64:
    """Returns the line that each position is in."""
    return np.searchsorted(lines.offsets, starts, side="right") - 1
