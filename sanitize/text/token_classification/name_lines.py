"""Selects the lines of texts that can hold a name, an address or a number of a document, for a
model that is slow.

A line (a sentence, in lines of more than `_LONG_LINE` bytes) is selected by its words:

- a capitalised word that is no common English word, or that is a given name or place all the same
  (`Chase`); two or more capitalised words of which one is a name; a name in capitals;
- a given name or a surname in small letters; a word after a title (`mr`, `dr`) or after a cue (`my
  name is`, `i'm`, `call me`, `named`);
- a number beside a word for a street or a part of a building (`12 main street`, `apt 4`, `p.o. box
  7`);
- a word for a document or an account (`passport`, `licence`, `routing number`) in a line with a
  digit;
- a letter of a script other than Latin.

Never selected are header fields of mail that hold no names (`Received`, `DKIM-Signature`, ...), and
lines of a long run without blanks, such as base64. Words inside addresses, URLs, paths and
identifiers (`GetFooBar`, `x86`) do not count.

Adjacent selected lines are one piece. Costs one pass over the words: about a hundredth of what a
model costs.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sanitize.array_types import I32, I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, find_matches, make_byte_table, slice_spans
from sanitize.core.intervals import TextSpans
from sanitize.kinds.kind import ASCII_WORD_CHARS
from sanitize.text import name_lexicon as lexicon
from sanitize.text.mail_headers import find_header_blocks, find_sections
from sanitize.text.person_names.word_table import at_next_word, at_previous_word, hash_single_words
from sanitize.text.tokenizer import UnicodeTokens, tokenize_unicode

_LONG_LINE = 240  # bytes of a line that is divided into sentences
_LONG_RUN = 60  # bytes without a blank that are no words
_MAX_PIECE = 1 << 16  # bytes of a piece: bounds the memory of its tokens
_MAX_WORD = 24  # bytes of a word that may be a name
_SENTENCE_END = r"[a-z0-9)]{4}[.!?][\"')\]]*[ \t]+|[。！？]"  # not behind `Dr.` and initials
_BRACKETED_ADDRESS = r"<[^<>]{0,300}(?:@|/CN=|/cn=)[^<>]{0,300}>"
_NO_NAME_FIELDS = (  # header fields by the beginning of their names
    *(
        "received",
        "message-id",
        "references",
        "in-reply-to",
        "date",
        "mime-version",
        "content-",
        "dkim-",
        "domainkey-",
        "arc-",
    ),
    *(
        "authentication-results",
        "return-path",
        "delivered-to",
        "envelope-",
        "list-",
        "precedence",
        "user-agent",
        "errors-to",
        "x-",
    ),
    *(
        "status",
        "lines",
        "importance",
        "priority",
        "thread-",
        "auto-submitted",
        "autocrypt",
        "feedback-id",
        "bytes",
        "path",
        "newsgroups",
    ),
)
_NAME_FIELDS = tuple(
    f"x-{field}"
    for field in ("from", "to", "cc", "bcc", "sender", "original-", "origin", "reply-to")
)
_NO_NAME_WORDS = (
    lexicon.COMMON_WORD
    | lexicon.STOP_WORD
    | lexicon.GREETING
    | lexicon.CLOSING
    | lexicon.TITLE
    | lexicon.ORGANIZATION
    | lexicon.VERB_AFTER_NAME
    | lexicon.FORM_FIELD
)
_NAME_WORDS = lexicon.GIVEN_NAME | lexicon.SURNAME | lexicon.CHINESE_SURNAME
# words that begin sentences, titles and lines of forms, and are no names; in addition to those of
# the lexicon
_CAPITALISED_WORDS = (
    "although though unfortunately fortunately therefore furthermore moreover however nevertheless"
    " nonetheless meanwhile otherwise instead indeed apparently similarly generally normally"
    " actually basically obviously certainly clearly hopefully eventually sometimes somehow"
    " somewhere regarding according given unless unlike despite except besides whereas whether"
    " whenever wherever whatever whoever upon toward towards click press push select choose enter"
    " create build change changing add remove update upgrade install download upload print save"
    " delete open close start stop run try check verify confirm ensure bring keep watch listen read"
    " write writing say saying tell recommend discuss consider imagine suppose wonder wondering"
    " feels looks sounds seems used using looking working trying making taking getting going coming"
    " having being doing thinking talking sending searching listening wanted needed removed"
    " reworked clarified fixed missed expected required attached enclosed sorry thanks welcome"
    " congratulations apologies happy merry good bad nice cool great awesome wow oops hmm hmmm aha"
    " ah oh hey yeah yep nope lol anyway anybody anyone anything somebody someone something nobody"
    " everybody everyone everything nothing internet web online site page pages home email mail"
    " mailer message messages subject attachment unsubscribe subscribe subscription list lists"
    " content contents format formatting html text plain type version transitional encoding charset"
    " quoted printable signed signature key public linux unix windows microsoft google apple"
    " android java perl python php debian ubuntu redhat fedora gnu mozilla outlook firefox chrome"
    " intel kernel patch module memory thread process signal pointer handler buffer socket function"
    " structure error errors warning bug bugs fix rework changelog rationale prototype permission"
    " destination connection reference references existing symbolic mode switch example examples"
    " note notes digital electronic advanced creative competitive confidential confidentiality"
    " privileged proprietary applications marketing broadband internal external monday tuesday"
    " wednesday thursday friday saturday sunday january february march april june july august"
    " september october november december english german french spanish italian dutch russian"
    " chinese japanese americans europeans christmas easter thanksgiving free lowest offer offers"
    " limited guaranteed special order shopping buy sell price prices million millions billion"
    " percent dollars usd eur inc corp llc ltd gmbh nasdaq nyse sec ceo cfo cto vp hr faq asap fyi"
    " rsvp int char void const struct static return null true false if else while for switch case"
    " break continue include define notification tracking estimated allocation reports reviews"
    " ratings inventory dates fields columns rows table slide chart figure chapter section may jan"
    " page pages cash price per link links server media unique more blank read font meta appendix"
    " part step item items number numbers total average minimum maximum"
)
_NO_NAME_ENDINGS = r"(?:ly|ing|ings|ed|tion|tions|sion|sions|ment|ments|ness|able|ible|ous|ive|ical|ity|ities|ware|ize|izes|ized|ism|isms|ship|ful|less)\z"  # noqa: E501
_TITLES = (
    "mr mrs ms miss mister mx dr prof professor sir madam dame herr frau monsieur madame mme mlle"
    " señor señora sr sra signor signora rev"
)
_STREET_WORDS = (
    "street st avenue ave road rd boulevard blvd lane ln drive dr court ct place pl square sq"
    " terrace ter parkway pkwy highway hwy way circle cir trail suite ste apartment apt unit floor"
    " fl box room building bldg strasse straße rue via calle platz weg allee"
)
_DOCUMENT_WORDS = (
    "passport licence license permit visa ssn social taxpayer tax tin ein itin national identity"
    " identification citizen account acct routing aba iban sort bank nhs nino dni nif cpf pesel bsn"
    " medicare medicaid insurance"
)
_NAME_CUES = (
    r"(?i)\b(?:name(?: is|'s|:)|i'?m|i am|this is|call(?:ed)? me|named|called|nickname|known as|ask"
    r" for|speak (?:to|with)|met|signed)\b"
)
# bytes before a word that is inside of something else
_NOT_BEFORE = make_byte_table(b"@/\\=_#$%<&+")
_NOT_AFTER = make_byte_table(b"@\\=_")
_JOINING = make_byte_table(b".-@")
_WORD_BYTES = make_byte_table(ASCII_WORD_CHARS)
_BLANKS = make_byte_table(b" \t\r\n\v\f")
# first bytes of letters of other scripts than Latin
_OTHER_SCRIPTS = make_byte_table(bytes([*range(0xCD, 0xE1), *range(0xE3, 0xEF), 0xF0]))


def cut_text_pieces(buffers: TextBuffers) -> TextSpans:
    """Returns text, first byte and end byte of the pieces of a column: whole texts, divided at a
    blank where they are longer than 64 KB."""
    text_no = np.flatnonzero(buffers.lengths)
    return _divide_long(buffers, text_no, buffers.offsets[text_no], buffers.offsets[text_no + 1])


def cut_name_pieces(buffers: TextBuffers) -> TextSpans:
    """Returns text, first byte and end byte of the pieces of a column that can hold a name, an
    address or a number of a document."""
    text_no, start, end = _cut_lines(buffers)
    if not len(start):
        return TextSpans(text_no, start, end)
    selected = _select_lines(buffers, text_no, start, end)
    rows = np.flatnonzero(selected)
    if not len(rows):
        return TextSpans(text_no[:0], start[:0], end[:0])
    is_first = np.append(
        True, (start[rows][1:] != end[rows][:-1]) | (text_no[rows][1:] != text_no[rows][:-1])
    )
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(rows)) - 1
    return _divide_long(buffers, text_no[rows[first]], start[rows[first]], end[rows[last]])


def _cut_lines(buffers: TextBuffers) -> TextSpans:
    """Text, first byte and end byte (the line end included) of every line, or of every sentence of
    a long line. An address in angle brackets is a line of its own, so that the display names beside
    it are read without it."""
    breaks = np.flatnonzero(buffers.data == 10) + 1
    edges = np.unique(np.concatenate([buffers.offsets, breaks]))
    sizes = np.diff(edges)
    if (sizes > _LONG_LINE).any():
        _, sentence_ends = find_matches(buffers, _SENTENCE_END)
        line = np.searchsorted(edges, sentence_ends, side="right") - 1
        line = np.minimum(line, len(sizes) - 1)
        edges = np.unique(np.concatenate([edges, sentence_ends[sizes[line] > _LONG_LINE]]))
    bracket_starts, bracket_ends = find_matches(buffers, _BRACKETED_ADDRESS)
    if len(bracket_starts):
        edges = np.unique(np.concatenate([edges, bracket_starts, bracket_ends]))
    start, end = edges[:-1], edges[1:]
    return TextSpans(np.searchsorted(buffers.offsets, start, side="right") - 1, start, end)


def _divide_long(buffers: TextBuffers, text_no: I64, start: I64, end: I64) -> TextSpans:
    """The pieces, with those of more than `_MAX_PIECE` bytes divided, at a blank if there is one in
    their last quarter, else anywhere between two characters."""
    if not (end - start > _MAX_PIECE).any():
        return TextSpans(text_no, start, end)
    rows: list[tuple[int, int, int]] = []
    for number, low, high in zip(text_no.tolist(), start.tolist(), end.tolist(), strict=True):
        while high - low > _MAX_PIECE:
            tail = buffers.data[low + _MAX_PIECE * 3 // 4 : low + _MAX_PIECE]
            blanks = np.flatnonzero(_BLANKS[tail])
            cuts = blanks if len(blanks) else np.flatnonzero(tail.view(np.int8) >= -64)
            cut = low + _MAX_PIECE * 3 // 4 + int(cuts[-1])
            rows.append((number, low, cut))
            low = cut
        rows.append((number, low, high))
    table = np.array(rows, np.int64)
    return TextSpans(table[:, 0], table[:, 1], table[:, 2])


def _select_lines(buffers: TextBuffers, text_no: I64, start: I64, end: I64) -> Mask:
    """Whether each line can hold a name, an address or a number of a document."""
    words = tokenize_unicode(buffers)
    selected = np.zeros(len(start), np.bool_)
    if not len(words.start):
        return selected
    line = np.searchsorted(start, words.start, side="right") - 1
    for is_sign in _find_signs(buffers, words, line):
        selected[line[is_sign]] = True
    cues, _ = find_matches(buffers, _NAME_CUES)
    selected[np.searchsorted(start, cues, side="right") - 1] = True
    candidates = np.flatnonzero(selected)
    selected[candidates[_is_one_run(buffers, start[candidates], end[candidates])]] = False
    candidates = np.flatnonzero(selected)
    selected[candidates[_is_technical_field(buffers, text_no[candidates], start[candidates])]] = (
        False
    )
    return selected


def _find_signs(buffers: TextBuffers, words: UnicodeTokens, line: I64) -> list[Mask]:
    """For each sign of a name, address or number, the words that show it; `line` is the line of
    each word."""
    data = np.append(buffers.data, np.zeros(2, np.uint8))
    size = words.end - words.start
    flags = lexicon.load_name_lexicon().lookup_flags(words.hashes)
    first_byte = data[words.start]
    is_upper, is_lower = (data >= 65) & (data <= 90), (data >= 97) & (data <= 122)
    uppers, lowers, digits = (
        _count_in_words(mask, words) for mask in (is_upper, is_lower, (data >= 48) & (data <= 57))
    )
    others = _count_in_words(data >= 128, words)
    before = np.where(words.start > 0, data[words.start - 1], 32)
    is_inside = _NOT_BEFORE[before] | _NOT_AFTER[data[words.end]]
    is_word = (digits == 0) & (size <= _MAX_WORD) & ~is_inside
    is_capital = (
        is_word & (size > 1) & ((first_byte >= 65) & (first_byte <= 90) | (first_byte >= 0xC3))
    )
    is_mixed = is_capital & (lowers + others > 0)
    is_name = (flags & _NAME_WORDS) > 0
    is_common = (flags & _NO_NAME_WORDS) > 0
    has_form = (uppers <= 1) | is_name | (first_byte == ord("M")) & (uppers == 2)
    # the word before it is in its line
    follows = np.append(False, (line[1:] == line[:-1]) & (words.start[1:] - words.end[:-1] <= 2))
    after_capital, before_capital = (
        follows & at_previous_word(is_capital),
        at_next_word(follows & is_capital),
    )
    after_number = follows & at_previous_word((digits > 0) & (size <= 6))
    before_number = at_next_word(follows & (digits > 0) & (size <= 6))

    def is_one_of(listed: str) -> Mask:
        return np.isin(words.hashes, hash_single_words(tuple(listed.split())))

    after_title = follows & at_previous_word(is_one_of(_TITLES))
    has_number = np.zeros(int(line[-1]) + 1, np.bool_)
    has_number[line[(digits >= 4)]] = True
    is_no_name = is_one_of(_CAPITALISED_WORDS)
    is_common |= is_no_name
    unknown = np.flatnonzero(is_mixed & has_form & ~is_common & ~is_name)
    has_ending = pl.Series(
        slice_spans(buffers, words.start[unknown], words.end[unknown]), dtype=pl.String
    ).str.contains(_NO_NAME_ENDINGS)
    is_common[unknown[has_ending.to_numpy()]] = True
    is_whole = (
        (before != ord("."))
        & (before != ord("-"))
        & ~(_JOINING[data[words.end]] & _WORD_BYTES[data[words.end + 1]])
    )
    return [
        is_mixed & has_form & ~is_common,
        is_mixed
        & ((flags & lexicon.GIVEN_NAME) > 0)
        & ((flags & _NO_NAME_WORDS & ~lexicon.COMMON_WORD) == 0)
        & ~is_no_name,
        is_mixed & ((flags & lexicon.PLACE) > 0),
        is_capital
        & is_name
        & (after_capital | before_capital)
        & ((flags & lexicon.STOP_WORD) == 0),
        is_capital & ~is_mixed & is_name & ~is_common & (size > 2),
        is_word
        & ~is_capital
        & is_whole
        & ((flags & lexicon.GIVEN_NAME) > 0)
        & ~is_common
        & (size > 2),
        is_word
        & ~is_capital
        & is_whole
        & ((flags & lexicon.SURNAME) > 0)
        & ~is_common
        & (size > 3),
        is_word & after_title & ((flags & lexicon.STOP_WORD) == 0),
        is_one_of(_STREET_WORDS)
        & (after_number | before_number | at_next_word(follows & after_number)),
        is_one_of(_DOCUMENT_WORDS) & has_number[line],
        _count_in_words(_OTHER_SCRIPTS[data], words) > 0,
    ]


def _count_in_words(is_member: Mask, words: UnicodeTokens) -> I32:
    """The number of bytes of each word that are members."""
    counts = np.append(0, np.cumsum(is_member, dtype=np.int32))
    return np.asarray(counts[words.end] - counts[words.start])


def _is_one_run(buffers: TextBuffers, start: I64, end: I64) -> Mask:
    """Whether each line is one long run of bytes without blanks, apart from its line end."""
    blanks = np.flatnonzero(_BLANKS[buffers.data] | (buffers.data >= 128))
    first_blank = np.append(blanks, len(buffers.data))[np.searchsorted(blanks, start)]
    return np.asarray(np.minimum(first_blank, end) - start > _LONG_RUN) & (first_blank >= end - 2)


def _is_technical_field(buffers: TextBuffers, text_no: I64, start: I64) -> Mask:
    """Whether each line is in a header field of mail that holds no names; `start` ascends."""
    mails, _, header_end = find_header_blocks(buffers)
    if not len(mails):
        return np.zeros(len(start), np.bool_)
    end_by_text = np.zeros(len(buffers.lengths), np.int64)
    end_by_text[mails] = header_end
    in_header = start < end_by_text[text_no]
    sections = find_sections(buffers, text_no, start)
    is_technical = np.array(
        [
            name.startswith(_NO_NAME_FIELDS) and not name.startswith(_NAME_FIELDS)
            for name in sections.section_names
        ]
        + [False],
        np.bool_,
    )
    return np.asarray(in_header & is_technical[sections.section_no])
