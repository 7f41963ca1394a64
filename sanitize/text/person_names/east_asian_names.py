"""Finds names of people in Chinese, Japanese and Korean text, whose words are not separated by
blanks, by rules.

A Chinese name is a family name of the list and one or two characters; a Japanese name is a family
name and a given name, of the lists or of characters of given names, with or without a blank; a
Korean name is a family name and one or two syllables. Such characters occur in ordinary words as
well, so that a name needs evidence beside it: a label (`姓名：`, `氏名：`), a title or honorific (`先生`,
`様`, `씨`), an introduction (`我叫`, `と申します`), a greeting, the start of a line of a chat, a signature,
an address or telephone number. Where the evidence gives both ends of a name, every family name and
given name counts; where it gives one end or none, only the frequent ones. Ordinary words with such
characters (`高兴`, `方法`) are excluded.

Only texts with such characters are searched, and for evidence only the lines with such characters
and those after them.
"""  # noqa: E501

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import TextBuffers, find_matches, slice_spans
from sanitize.core.intervals import ScoredSpans, find_overlapping_pairs, select_greedily
from sanitize.kinds.east_asian_names import (
    CHINESE,
    CHINESE_GIVEN_NAME_CHARACTERS,
    EAST_ASIAN_CLASS,
    FREQUENT_CHINESE_FAMILY_NAMES,
    JAPANESE,
    JAPANESE_GIVEN_NAME_CHARACTERS,
    KOREAN,
    SINGLE_CHINESE_GIVEN_NAMES,
    TAIWANESE,
    join_names,
    load_names,
)
from sanitize.text.person_names import east_asian_words as words
from sanitize.text.person_names.name_evidence import (
    AFTER_GREETING_SCORE,
    AFTER_TITLE_SCORE,
    GIVEN_NAME_SCORE,
    ONE_LISTED_SCORE,
    TWO_LISTED_SCORE,
)

_FIRST_BYTE, _LAST_BYTE = 0xE3, 0xED  # first bytes of kana, Chinese characters and Hangul in UTF-8
_BYTES_BEFORE, _BYTES_AFTER = 48, 96  # of the text beside a title or an address that is read
_FURTHER_SCORE = 0.55  # less than any other evidence, so that spans that it supports are kept
_MAX_LISTED_NAMES = 40  # behind one label
_LINE_FEED = 10
# first bytes of all characters of these scripts: E1 (Hangul letters), E2 with a second byte from BA
# (radicals), E3 and more
_FIRST_BYTE_OF_SCRIPTS, _BYTE_OF_SIGNS, _SECOND_BYTE_AFTER_SIGNS = 0xE1, 0xE2, 0xBA
# a line with characters that evidence may cover; a closing line, blank lines and dashes cover seven
_MAX_LINES_AFTER = 8
_BLANK_LINE = r"\A[ \t\r\n-]*\z"
_KOREAN_PARTICLE = "[가이는은를을의도께와과에]"
# `辛集市长寿路` is a place
_OFFICES_OF_PLACES = [
    "市长",
    "县长",
    "镇长",
    "乡长",
    "村长",
    "省长",
    "市長",
    "縣長",
    "鎮長",
    "村長",
    "里長",
]
_CHARACTER_BYTES = 3  # of nearly all Chinese characters in UTF-8
_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80


def find_east_asian_names(
    buffers: TextBuffers, contact_start: I64, contact_end: I64
) -> ScoredSpans:
    """Returns start byte, end byte and score of every name, ascending and disjoint. `contact_start`
    and `contact_end` are the addresses and telephone numbers of the column, ascending: a name
    beside one needs no other evidence."""
    nothing = ScoredSpans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    position = buffers.non_ascii_bytes
    position = position[
        (buffers.data[position] >= _FIRST_BYTE) & (buffers.data[position] <= _LAST_BYTE)
    ]
    if not len(position):
        return nothing
    has_characters = np.zeros(len(buffers.offsets) - 1, np.bool_)
    has_characters[np.searchsorted(buffers.offsets, position, side="right") - 1] = True
    rows = np.flatnonzero(has_characters)
    texts = _SearchedTexts.from_array(
        slice_spans(buffers, buffers.offsets[rows], buffers.offsets[rows + 1])
    )
    shift = buffers.offsets[rows] - texts.offsets[:-1]
    text_no = np.searchsorted(buffers.offsets, contact_start, side="right") - 1
    is_searched = has_characters[text_no]
    row = np.searchsorted(rows, text_no[is_searched])
    found = _find_in_texts(
        texts, contact_start[is_searched] - shift[row], contact_end[is_searched] - shift[row]
    )
    to_column = shift[np.searchsorted(texts.offsets, found[0], side="right") - 1]
    return ScoredSpans(found[0] + to_column, found[1] + to_column, found[2])


def is_east_asian_full_name(names: pl.Series) -> Mask:
    """True for display names that are a full name: `王小明`, `田中 太郎`, `김민수`."""
    p = _load_patterns()
    full = rf"\A(?:{p.chinese_name}|{p.japanese_name}|{p.japanese_unlisted}|{p.korean_name}|{p.transliterated})\z"  # noqa: E501
    is_office = names.str.contains(rf"[{words.ORGANIZATION_CHARACTERS}]\z") & ~names.str.contains(
        r"[ \u3000]"
    )
    found: Mask = (
        (names.str.contains(full) & ~is_office & ~names.is_in(_ordinary_words()))
        .fill_null(False)
        .to_numpy()
    )
    return found


# ------------------------------------------------------------------------------------- patterns


def _join(text: str) -> str:
    return join_names(set(text.split()))


@dataclass(frozen=True)
class _Patterns:
    """Parts of regular expressions. `chinese_name` and so on are names of which both ends are
    known; `..._frequent` need less."""

    chinese_name: str
    chinese_frequent: str
    chinese_rare: str
    chinese_listed: str
    chinese_family: str
    transliterated: str
    japanese_name: str
    japanese_frequent: str
    japanese_family: str
    japanese_long_family: str
    japanese_given: str
    japanese_unlisted: str
    japanese_guess: str
    korean_name: str
    korean_long_name: str


@functools.cache
def _load_patterns() -> _Patterns:
    """The parts of patterns, from the lists of names."""
    chinese, japanese, korean = load_names(CHINESE), load_names(JAPANESE), load_names(KOREAN)
    family = chinese.family | load_names(TAIWANESE).family
    given = chinese.given | load_names(TAIWANESE).given
    single = "".join(
        sorted(name for name in family if len(name) == 1 and name not in "都但那要国有")
    )
    double = join_names(name for name in family if len(name) > 1)
    frequent = "".join(sorted(set(FREQUENT_CHINESE_FAMILY_NAMES)))
    characters = "".join(sorted(set(CHINESE_GIVEN_NAME_CHARACTERS)))
    free = rf"[\p{{Han}}--[{words.CHINESE_FUNCTION_CHARACTERS}]]"
    long_given = join_names(
        name for name in given if len(name) == 2 and name not in _ordinary_words()
    )
    listed_given = rf"(?:{long_given}|[{SINGLE_CHINESE_GIVEN_NAMES}])"
    long_family = join_names(name for name in japanese.family if len(name) > 1)
    short_family = "".join(sorted(name for name in japanese.family if len(name) == 1))
    kana_given = {name for name in japanese.given if not any("一" <= sign <= "龠" for sign in name)}
    japanese_characters = "".join(sorted(set(JAPANESE_GIVEN_NAME_CHARACTERS)))
    listed_japanese = join_names(japanese.given)
    after_blank = r"(?:\p{Han}{1,4}|\p{Hiragana}{2,5}|[\p{Katakana}ー]{2,6})"
    japanese_given = (
        rf"(?:{listed_japanese}|[{japanese_characters}]{{2,3}}|[\p{{Katakana}}ー]{{2,5}})"
    )
    korean_single = "".join(sorted(name for name in korean.family if len(name) == 1))
    korean_double = join_names(name for name in korean.family if len(name) > 1)
    return _Patterns(
        chinese_name=(
            rf"(?:(?:{double}){free}{{1,2}}|[{single}]{free}{{2}}|[{single}][ \u3000]{{0,2}}{free})"
        ),
        chinese_frequent=rf"(?:(?:{double}){free}{{1,2}}|[{frequent}][{characters}]{{1,2}})",
        chinese_rare=rf"(?:[{single}][{characters}]{{1,2}})",
        chinese_listed=rf"(?:(?:{double}){free}{{1,2}}|[{frequent}]{listed_given})",
        chinese_family=rf"(?:{double}|[{frequent}])",
        transliterated=rf"(?:[{words.TRANSLITERATION_CHARACTERS}]{{1,6}}(?:[·•・‧][{words.TRANSLITERATION_CHARACTERS}]{{1,6}}){{1,3}}|[\p{{Katakana}}ー]{{2,12}}(?:[・＝=][\p{{Katakana}}ー]{{1,12}}){{1,3}})",
        japanese_name=(
            rf"(?:(?:{long_family}|[{short_family}])(?:[ \u3000]{after_blank}|{japanese_given}))"
        ),
        japanese_frequent=(
            rf"(?:(?:{long_family})[ \u3000]?(?:{listed_japanese}|[{japanese_characters}]{{2,3}})"
            rf"|[{short_family}][ \u3000]?(?:{listed_japanese}))"
        ),
        japanese_family=rf"(?:{long_family}|[{short_family}])",
        japanese_long_family=rf"(?:{long_family})",
        japanese_given=(
            rf"(?:{join_names([name for name in japanese.given if len(name) > 1] + sorted(kana_given))})"  # noqa: E501
        ),
        japanese_guess=(
            rf"(?:\p{{Han}}{{2,4}}(?:{join_names(name for name in japanese.given if len(name) > 1)}"
            rf"|[{japanese_characters}]{{1,2}}[{words.JAPANESE_GIVEN_NAME_ENDINGS}]))"
        ),
        japanese_unlisted=(
            r"(?:\p{Han}{1,4}[ \u3000](?:\p{Han}{1,4}|\p{Hiragana}{2,5})|[\p{Katakana}ー]{2,6}["
            r" \u3000][\p{Katakana}ー]{2,6}"
            r"|\p{Hiragana}{2,6}[ \u3000]\p{Hiragana}{2,6}|[\uff66-\uff9f]{2,9}"
            r" [\uff66-\uff9f]{2,9})"
        ),
        korean_name=(
            rf"(?:(?:{korean_double}) ?\p{{Hangul}}{{1,2}}|[{korean_single}] ?\p{{Hangul}}{{1,2}})"
        ),
        korean_long_name=(
            rf"(?:(?:{korean_double})\p{{Hangul}}{{2}}|[{korean_single}]\p{{Hangul}}{{2}})"
        ),
    )


@functools.cache
def _ordinary_words() -> list[str]:
    """Words that look like names and are none, of all three languages."""
    listed = (
        f"{words.CHINESE_ORDINARY_WORDS} {words.CHINESE_NO_NAMES} {words.JAPANESE_NO_NAMES}"
        f" {words.KOREAN_NO_NAMES}"
    )
    listed += f" {words.CHINESE_LABELS} {words.JAPANESE_LABELS} {words.CHINESE_CLOSINGS}"
    listed += f" {words.KOREAN_LABELS} {words.CONTACT_LABELS} {words.KOREAN_CONTACT_WORDS}"
    return sorted({word for word in listed.split() if len(word) > 1})


@dataclass(frozen=True)
class _Rule:
    """Evidence beside a name: `cue` is a pattern of what is searched in the texts. `patterns` are
    matched with the text after a cue, and have two groups, what precedes the name and the name; or,
    with `is_before`, with the text before it, and have the name as their group. The first that
    matches counts. The cue may be part of the name (`is_part`), then `left` is what precedes the
    name.

    `is_sure` names may also be ordinary words, and are only excluded if they are those of forms
    (`暂无`). With `separator`, further names may follow the first one."""

    cue: str
    patterns: tuple[str, ...]
    score: float
    is_before: bool = False
    is_sure: bool = False
    is_open: bool = False  # nothing shows where the name ends
    is_part: bool = False
    left: str = ""
    separator: str = ""


_NAME_AT_START = r"\A()("
_LINE_START = r"\A[ \t\u3000>*|#\-]{0,4}"
_LINE_END = r"[ \t\u3000]*\r?\n"
_COLON = r"[ \t\u3000]*(?:[：:]|\*\*[：:]|[：:]\*\*)[ \t\u3000]*"
_NO_HAN = r"[^\p{Han}]"
# one character is read beside a name, since regular expressions with the word boundary of Unicode
# are ten times slower
_START = r"[^\p{L}\p{M}\p{N}_]"
_END = r"(?:[^\p{L}\p{M}·•・‧]|[A-Za-z])"
_CLOCK = (
    r"(?:\[[^\]\n]{1,24}\][ \t]*|[（(]?\d{1,2}:\d{2}(?::\d{2})?[)）]?[ \t]+"
    r"|\d{4}[-/.年]\d{1,2}[-/.月]\d{1,2}日?[ \t]+(?:\d{1,2}:\d{2}(?::\d{2})?[ \t]+)?)"
)


@functools.cache
def _load_rules() -> tuple[_Rule, ...]:
    """The rules whose evidence is beside a name, apart from titles, addresses and the starts of
    lines."""
    p = _load_patterns()
    titles, honorifics = _join(words.CHINESE_TITLES), _join(words.JAPANESE_HONORIFICS)
    leads, organizations = _join(words.CHINESE_LEADS), _join(words.JAPANESE_ORGANIZATION_ENDINGS)
    chinese = rf"(?:{p.transliterated}|{p.chinese_name})"
    japanese = (
        rf"(?:{p.transliterated}|{p.japanese_name}|{p.japanese_unlisted}|{p.japanese_family})"
    )
    closings = _join(words.CHINESE_CLOSINGS)
    departments = rf"(?:[^\n、。：:]{{0,24}}(?:{organizations})[ \t\u3000]+)?"
    blank_lines = r"(?:[ \t\u3000\r]*\n){0,3}[ \t\u3000]*"
    naming = r"(?:です|でございます|と申し|と言い|といい|と名乗)"
    kana = (
        r"(?:\p{Hiragana}{2,8}[ \u3000]?\p{Hiragana}{0,8}|[\p{Katakana}ー]{2,8}["
        r" \u3000]?[\p{Katakana}ー]{0,8})"
    )
    remark = r"(?:[（(][^）)\n]{1,8}[)）])?"
    to_end = rf"(?:[ \t\u3000]*(?:{titles}))?{_END}"
    honorific_to_end = rf"(?:[ \u3000]?(?:{honorifics}))?{_END}"
    roles = rf"(?:{_join(words.CHINESE_ROLES)})[ \u3000：:“]?(?:是|叫)?"
    return (
        # labels of forms: `姓名：王小明`, `抄送：王小明、李娜`
        _Rule(
            rf"(?:{_join(words.CHINESE_LABELS)}){remark}{_COLON}",
            (rf"\A()({p.japanese_frequent}|{chinese}){to_end}",),
            ONE_LISTED_SCORE,
            is_sure=True,
            separator=r"[、，,;；/和及 ]{1,2}",
        ),
        _Rule(
            rf"(?:{_join(words.CHINESE_NAME_LABELS)}){remark}{_COLON}",
            (rf"\A()(\p{{Han}}{{2,4}}){to_end}",),
            ONE_LISTED_SCORE,
            is_sure=True,
        ),
        _Rule(
            rf"(?:{_join(words.JAPANESE_LABELS)}){remark}{_COLON}",
            (rf"\A({departments})({japanese}){honorific_to_end}",),
            ONE_LISTED_SCORE,
            is_sure=True,
            separator=r"[、，,・/][ \u3000]?",
        ),
        _Rule(
            rf"(?:{_join(words.JAPANESE_NAME_LABELS)}|署名){remark}{_COLON}",
            (
                rf"\A()({p.japanese_guess}){honorific_to_end}",
                r"\A()((?:[\p{Han}々]{2,5}\p{Hiragana}{0,3}|\p{Hiragana}{3,8}|[\p{Katakana}ー]{3,10}|[\uff66-\uff9f]{4,14}))"
                + honorific_to_end,
            ),
            ONE_LISTED_SCORE,
            is_sure=True,
        ),
        _Rule(
            rf"(?:{_join(words.KOREAN_LABELS)})(?: 사람)?{_COLON}",
            (rf"\A()({p.korean_name})(?: ?(?:씨|님))?{_END}",),
            ONE_LISTED_SCORE,
            is_sure=True,
        ),
        _Rule(
            rf"(?:姓氏?|せい){_COLON}",
            (rf"\A()({p.japanese_long_family}|{p.chinese_family}|{p.japanese_family}){_END}",),
            ONE_LISTED_SCORE,
            is_sure=True,
        ),
        # greetings: `尊敬的王小明：`, `你好，王小明`, `王小明，你好`
        _Rule(
            rf"(?:{_join(words.CHINESE_GREETINGS)})[ ，,！!]{{0,2}}",
            (rf"\A()({chinese})[ \t\u3000]*[，,：:！!。～~\n]",),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            r"[，, ]?(?:你好|您好|早上好|下午好|晚上好)",
            (rf"{_NO_HAN}({chinese})\z",),
            AFTER_GREETING_SCORE,
            is_before=True,
        ),
        # introductions: `我叫王小明`, `田中と申します`, `営業部の田中です`
        _Rule(
            rf"(?:{_join(words.CHINESE_NAMINGS)})[：: “\"「]?",
            (rf"\A()({chinese}){_END}",),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            rf"(?:{_join(words.CHINESE_NAMINGS)})[：: “\"「]?",
            (rf"\A()({p.chinese_frequent})",),
            ONE_LISTED_SCORE,
            is_open=True,
        ),
        _Rule(
            r"と(?:申し|いいます|言います|名乗)",
            (
                rf"(?:{_START}|[のはが])({p.japanese_name}|{p.japanese_unlisted}|{p.japanese_family}|{p.transliterated})\z",
                rf"(?:{_START}|[のはが])([\p{{Katakana}}ー]{{2,8}}|\p{{Han}}{{2,5}})\z",
            ),
            AFTER_GREETING_SCORE,
            is_before=True,
        ),
        _Rule(
            rf"(?:{organizations}|[A-Za-z0-9]|[）)])の",
            (
                rf"\A()({p.japanese_name}|{p.japanese_long_family}|{p.japanese_unlisted})(?:です|でございます|と申し)",
            ),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            r"(?:です|でございます)[。、！!\s]",
            (
                r"(?:株式会社|有限会社|合同会社)[^\n、。]{1,12}の"
                rf"({p.japanese_name}|{p.japanese_long_family}|{p.japanese_unlisted})\z",
            ),
            AFTER_GREETING_SCORE,
            is_before=True,
        ),
        _Rule(
            r"(?:私|わたし|僕|俺|名前|氏名|担当)[はが、]",
            (rf"\A()({p.japanese_name}|{p.japanese_long_family}){naming}",),
            ONE_LISTED_SCORE,
        ),
        _Rule(
            r"(?:이름은|저는|성함은) ",
            (rf"\A()({p.korean_long_name})(?:입니다|이라고|라고|이에요|예요)",),
            ONE_LISTED_SCORE,
        ),
        _Rule(
            rf"(?:{_join(words.JAPANESE_RELATIONS)})の",
            (
                rf"\A()({p.japanese_name}|{p.japanese_unlisted}|{p.japanese_guess})(?:{_END}|[はがをにともへや])",
            ),
            ONE_LISTED_SCORE,
        ),
        _Rule(
            r"(?:って(?:誰|だれ|いう)|という(?:者|人|方|名前)|より(?:[\s）)]|\z))",
            (
                rf"(?:{_START}|[のはが])({p.japanese_name}|{p.japanese_unlisted}|{p.japanese_guess})\z",
            ),
            ONE_LISTED_SCORE,
            is_before=True,
        ),
        _Rule(
            rf"(?:{_join(words.CHINESE_ADDRESSING_VERBS)})",
            (
                rf"\A()({p.chinese_listed}|{p.chinese_family}[{CHINESE_GIVEN_NAME_CHARACTERS}]{{2}}){_END}",
            ),
            GIVEN_NAME_SCORE,
        ),
        # relations and roles: `同事王小明`, `记者 李娜`
        _Rule(roles, (rf"\A()({p.transliterated})",), ONE_LISTED_SCORE),
        _Rule(
            roles,
            (rf"\A()({p.chinese_frequent})(?:{_END}|[说表的在和与是及将已把被向对给从于也都])",),
            ONE_LISTED_SCORE,
            is_open=True,
        ),
        _Rule(
            roles,
            (rf"\A()({p.chinese_family}[{CHINESE_GIVEN_NAME_CHARACTERS}]{{2}})[^·•・‧]",),
            GIVEN_NAME_SCORE,
            is_open=True,
        ),
        _Rule(
            rf"(?:{_join(words.CHINESE_VERBS)})",
            (rf"(?:{_NO_HAN}|{leads})({p.chinese_frequent})\z",),
            GIVEN_NAME_SCORE,
            is_before=True,
        ),
        _Rule(
            r"@",
            (rf"\A()({p.transliterated}|{p.chinese_frequent}|{p.japanese_name}){_END}",),
            ONE_LISTED_SCORE,
        ),
        # signatures: `此致\n敬礼\n王小明`, `祝好，王小明`, `—— 王小明`, `营业部　田中太郎`
        _Rule(
            rf"(?:(?:{closings})[^\n]{{0,12}}\n{blank_lines}){{1,3}}",
            (
                (
                    rf"\A((?:[^\n]{{0,20}}[公司部科组室处學学校院][ \t\u3000]+)?)({chinese})["
                    rf" \t\u3000]*(?:敬上|谨上|謹上|拜上)?{_LINE_END}"
                ),
            ),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            rf"(?:{closings})[，,！!。~～ ]{{1,2}}",
            (rf"\A()({chinese})[。！!]?{_LINE_END}",),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            rf"(?:{_join(words.JAPANESE_CLOSINGS)})[。！!]?["
            rf" \t\r]*\n{blank_lines}-{{0,40}}{blank_lines}",
            (
                rf"\A({departments})({p.japanese_name}|{p.japanese_unlisted}|{p.japanese_guess}|{p.japanese_family}){_LINE_END}",
            ),
            AFTER_GREETING_SCORE,
        ),
        _Rule(
            r"(?:—{1,2}|–|--|[文图圖]/|[（(](?:作者|记者|記者|编辑|文))[ \t\u3000：:]?",
            (rf"\A()({p.chinese_frequent})(?:{_LINE_END}|[)）])",),
            ONE_LISTED_SCORE,
        ),
        _Rule(
            rf"(?:{organizations})[ \t\u3000]+",
            (rf"\A()({p.japanese_name}){_LINE_END}",),
            ONE_LISTED_SCORE,
        ),
        # rows of tables: `王小明,男,35`
        _Rule(
            r"[ \t\u3000]*[,，、|/\t （(;；][ \t\u3000]*(?:男|女|先生|女士)",
            (rf"{_START}({chinese}|{p.japanese_name})\z",),
            ONE_LISTED_SCORE,
            is_before=True,
        ),
        # a reading behind a name: `田中太郎（たなか たろう）`
        _Rule(
            rf"[ \u3000]?[（(]{kana}[)）]",
            (
                rf"{_START}({p.japanese_name}|{p.japanese_unlisted})\z",
                rf"[はがをにの]({p.japanese_name})\z",
            ),
            TWO_LISTED_SCORE,
            is_before=True,
        ),
        # a family name and a given name of the lists, by themselves
        _Rule(
            p.japanese_long_family,
            (
                (
                    rf"\A()({p.japanese_long_family}["
                    rf" \u3000](?:{p.japanese_given}|\p{{Han}}{{1,3}}))(?:{_END}|\p{{Hiragana}})"
                ),
                rf"\A()({p.japanese_long_family}{p.japanese_given})(?:{_END}|\p{{Hiragana}})",
                rf"\A()({p.japanese_frequent})(?:{_END}|[はがをにとのもへや])",
            ),
            TWO_LISTED_SCORE,
            is_part=True,
            left=r"(?:[^\p{L}\p{M}\p{N}_]|\p{Hiragana})\z",
        ),
        _Rule(
            p.chinese_listed,
            (rf"\A()({p.chinese_listed}){_END}",),
            GIVEN_NAME_SCORE,
            is_part=True,
            left=rf"(?:{_NO_HAN}|{leads})\z",
        ),
    )


# the beginning of a line that a pattern of `_load_line_patterns` may match
_CANDIDATE_LINE = (
    r"\A[^\n]{0,48}[\p{Han}\p{Katakana}](?:[^\n]{0,16}[：:「】>]|[^\n]{0,4}["
    r" \t][^\n]{0,4}\d|(?:です|でございます)|[ \t\u3000]*\r?\n)"
    r"|\A\r?\n[^\n]{0,12}\p{Han}[ \t\r\n]*\z"
)
_ANY_NAME = rf"[{EAST_ASIAN_CLASS}·•・‧＝= \u3000]+"


@functools.cache
def _load_line_patterns() -> tuple[tuple[str, str, str], ...]:
    """The patterns of what precedes a name in its line, of the name, and of what follows it: lines
    of chats and signatures."""
    p = _load_patterns()
    chinese = rf"{p.transliterated}|{p.chinese_name}"
    return (
        # `王小明：`, `[10:20] 王小明：`, `【王小明】：`, `田中「`
        (
            rf"{_LINE_START}{_CLOCK}?[【<\[]?",
            rf"{p.japanese_frequent}|{p.chinese_frequent}|{p.japanese_long_family}",
            r"[】>\]]?(?:[（(][^）)\n]{1,12}[)）])?[ \t]*(?:[：:]|「)",
        ),
        (
            rf"{_LINE_START}{_CLOCK}[【<\[]?",
            rf"{p.japanese_name}|{chinese}|{p.japanese_family}",
            r"[】>\]]?[ \t]*[：:]",
        ),
        # `王小明 10:20`
        (
            rf"{_LINE_START}[【<\[]?",
            rf"{p.japanese_name}|{chinese}",
            rf"[】>\]]?[ \t]+(?:{_CLOCK}|\d{{1,2}}:\d{{2}})",
        ),
        (rf"{_LINE_START}[【<]", p.chinese_frequent, "[】>]"),
        (
            _LINE_START,
            rf"{p.japanese_frequent}|{p.japanese_long_family}",
            r"(?:です|でございます)[。、！!\n]",
        ),
        # a signature before a date, and at the end of a text after an empty line
        (
            r"\A\r?\n[ \t\u3000]*",
            rf"{p.chinese_frequent}|{p.chinese_rare}|{p.japanese_frequent}",
            r"[ \t\r\n]*\z",
        ),
        (
            _LINE_START,
            chinese,
            r"[ \t\u3000]*\r?\n[ \t\u3000\r\n]{0,4}(?:19|20|二)\d{0,3}[〇○零一二]{0,3}[年./\-]",
        ),
    )


# ---------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, repr=False)
class _SearchedTexts(TextBuffers):
    """Texts, none of which is empty, and the excerpts of them in which evidence beside a name may
    be.

    All evidence is in a line with characters of these scripts, or begins in one and ends behind
    blank lines and dashes.
    """

    @cached_property
    def characters(self) -> I64:
        """The first bytes of the characters of these scripts, and of some others, ascending."""
        position = self.non_ascii_bytes
        first, second = self.data[position], self.data[np.minimum(position + 1, len(self.data) - 1)]
        is_character = (first >= _FIRST_BYTE_OF_SCRIPTS) & (
            (first != _BYTE_OF_SIGNS) | (second >= _SECOND_BYTE_AFTER_SIGNS)
        )
        found: I64 = position[is_character]
        return found

    @cached_property
    def line_starts(self) -> I64:
        """The first byte of every line that is not empty at the end of a text."""
        starts = np.union1d(np.flatnonzero(self.data == _LINE_FEED) + 1, self.offsets[:-1])
        return starts[starts < len(self.data)]

    @cached_property
    def has_characters(self) -> Mask:
        """True for lines with characters of these scripts."""
        found = np.zeros(len(self.line_starts), np.bool_)
        found[np.searchsorted(self.line_starts, self.characters, side="right") - 1] = True
        return found

    @cached_property
    def _excerpts(self) -> tuple[TextBuffers, I64]:
        """The lines in which evidence may be, consecutive ones as one text; and what to add to an
        offset in each of these."""
        starts = self.line_starts
        ends = np.append(starts[1:], len(self.data))
        begins_text = np.zeros(len(starts), np.bool_)
        begins_text[np.searchsorted(starts, self.offsets[:-1])] = True
        is_included = self.has_characters.copy()
        after = np.flatnonzero(is_included)
        for _ in range(_MAX_LINES_AFTER):
            after = after[after + 1 < len(starts)] + 1
            after = after[~begins_text[after] & ~is_included[after]]
            is_included[after] = True
            after = after[
                pl.Series(slice_spans(self, starts[after], ends[after]), dtype=pl.String)
                .str.contains(_BLANK_LINE)
                .to_numpy()
            ]
        # an included line of the same text
        is_before = is_included & np.append(is_included[1:] & ~begins_text[1:], False)
        first, last = is_included & ~np.append(False, is_before[:-1]), is_included & ~is_before
        excerpts = TextBuffers.from_array(slice_spans(self, starts[first], ends[last]))
        return excerpts, starts[first] - excerpts.offsets[:-1]

    def find_evidence(self, pattern: str) -> tuple[I64, I64]:
        """Start and end of every match of a regular expression in the excerpts."""
        excerpts, shift = self._excerpts
        start, end = find_matches(excerpts, pattern)
        row = np.searchsorted(excerpts.offsets, start, side="right") - 1
        return start + shift[row], end + shift[row]

    def are_near_characters(self, position: I64, max_bytes: int = _BYTES_AFTER) -> Mask:
        """True for positions at which one of the next `max_bytes` bytes begins a character of these
        scripts."""
        following = np.append(self.characters, np.iinfo(np.int64).max)[
            np.searchsorted(self.characters, position)
        ]
        found: Mask = following - position < max_bytes
        return found


def _find_in_texts(texts: _SearchedTexts, contact_start: I64, contact_end: I64) -> ScoredSpans:
    """The names of texts with Chinese characters, kana or Hangul."""
    found = [
        _find_titled_names(texts),
        *(_apply_rule(texts, rule) for rule in _load_rules()),
        *_find_names_at_line_starts(texts),
        _find_names_beside_contacts(texts, contact_start, contact_end),
    ]
    chosen = _choose_disjoint(found)
    further = _find_further_occurrences(texts, chosen.start, chosen.end)
    return _choose_disjoint([chosen, further])


def _choose_disjoint(found: Iterable[ScoredSpans]) -> ScoredSpans:
    """Of overlapping names the one with the highest score, then the longest, then the first."""
    start, end, score = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((-score, end, start))
    start, end, score = start[order], end[order], score[order]
    rank = np.empty(len(start), np.int64)
    rank[np.lexsort((start, start - end, -score))] = np.arange(len(start))
    is_kept = select_greedily(rank, *find_overlapping_pairs(start, end))
    return ScoredSpans(start[is_kept], end[is_kept], score[is_kept])


def _apply_rule(texts: _SearchedTexts, rule: _Rule) -> ScoredSpans:
    """The names that one rule finds."""
    cue_start, cue_end = texts.find_evidence(rule.cue)
    if not len(cue_start):  # compiling the patterns of names costs some milliseconds
        return ScoredSpans(cue_start, cue_end, np.empty(0))
    if rule.is_before:
        end = cue_start
        size = _measure(_extract_first(_slice_before(texts, end), rule.patterns))
        start, end = (end - size)[size > 0], end[size > 0]
    else:
        position = cue_start if rule.is_part else cue_end
        if rule.left:
            is_left = _slice_before(texts, position).str.contains(rule.left).to_numpy()
            position, cue_start = position[is_left], cue_start[is_left]
        start, end = _match_after(texts, position, cue_start, rule.patterns)
        if rule.separator:
            start, end = _add_listed_names(texts, start, end, rule)
    if rule.is_open:
        end = _trim_ordinary_endings(texts, start, end)
    is_name = _is_no_ordinary_word(texts, start, end, is_sure=rule.is_sure)
    return ScoredSpans(start[is_name], end[is_name], np.full(int(is_name.sum()), rule.score))


def _match_after(
    texts: _SearchedTexts, position: I64, inside: I64, patterns: Sequence[str]
) -> tuple[I64, I64]:
    """Start and end of the names in the text after each position, by the first pattern that
    matches; `inside` as in `_slice_after`."""
    # compiling a pattern costs some milliseconds, most of which are avoided where a name would have
    # to begin at the position itself
    is_near = texts.are_near_characters(
        position,
        1 if all(pattern.startswith(_NAME_AT_START) for pattern in patterns) else _BYTES_AFTER,
    )
    position = position[is_near]
    after = _slice_after(texts, position, inside[is_near])
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for pattern in patterns:
        if not len(after):
            break
        matches = after.str.contains(pattern)
        groups = after.filter(matches).str.extract_groups(pattern).struct.unnest()
        start = position[matches.to_numpy()] + _measure(groups.to_series(0))
        starts.append(start)
        ends.append(start + _measure(groups.to_series(1)))
        after, position = after.filter(~matches), position[~matches.to_numpy()]
    return np.concatenate(starts), np.concatenate(ends)


def _measure(texts: pl.Series) -> I64:
    """The bytes of each text, 0 for null."""
    found: I64 = texts.str.len_bytes().fill_null(0).to_numpy().astype(np.int64)
    return found


def _add_listed_names(texts: _SearchedTexts, start: I64, end: I64, rule: _Rule) -> tuple[I64, I64]:
    """Adds the names that follow the found ones, each after a separator: `王小明、李娜`."""
    starts, ends = [start], [end]
    for _ in range(_MAX_LISTED_NAMES):
        if not len(end):
            break
        size = _measure(_slice_after(texts, end, start).str.extract(rf"\A((?:{rule.separator}))"))
        start, end = _match_after(texts, (end + size)[size > 0], start[size > 0], rule.patterns)
        starts.append(start)
        ends.append(end)
    return np.concatenate(starts), np.concatenate(ends)


def _find_names_at_line_starts(texts: _SearchedTexts) -> list[ScoredSpans]:
    """Names at the starts of lines, by pattern."""
    # the patterns read one line more
    position = texts.line_starts[texts.has_characters | np.append(texts.has_characters[1:], False)]
    position = position[texts.are_near_characters(position)]
    position = position[
        _slice_after(texts, position, position).str.contains(_CANDIDATE_LINE).to_numpy()
    ]
    lines = _slice_after(texts, position, position)
    found = []
    for before, name, after in _load_line_patterns():
        # compiling the patterns of names costs some milliseconds
        is_possible = lines.str.contains(rf"{before}{_ANY_NAME}{after}").to_numpy()
        start, end = _match_after(
            texts, position[is_possible], position[is_possible], (rf"({before})({name}){after}",)
        )
        is_name = _is_no_ordinary_word(texts, start, end, is_sure=False)
        found.append(
            ScoredSpans(start[is_name], end[is_name], np.full(int(is_name.sum()), ONE_LISTED_SCORE))
        )
    return found


def _trim_ordinary_endings(texts: TextBuffers, start: I64, end: I64) -> I64:
    """Returns the ends of names, without a last character that is an ordinary word with the one
    after it: `周杰` in `周杰明天来`."""
    is_long = np.flatnonzero(end - start == 3 * _CHARACTER_BYTES)
    text_end = texts.offsets[np.searchsorted(texts.offsets, start[is_long], side="right")]
    low, high = (
        end[is_long] - _CHARACTER_BYTES,
        np.minimum(end[is_long] + _CHARACTER_BYTES, text_end),
    )
    is_whole = (high == len(texts.data)) | (
        (texts.data[np.minimum(high, len(texts.data) - 1)] & _CONTINUATION_MASK) != _CONTINUATION
    )
    is_long, low, high = is_long[is_whole], low[is_whole], high[is_whole]
    is_ordinary = (
        pl.Series(slice_spans(texts, low, high), dtype=pl.String)
        .is_in(_ordinary_words())
        .to_numpy()
    )
    trimmed = end.copy()
    trimmed[is_long[is_ordinary]] -= _CHARACTER_BYTES
    return trimmed


def _is_no_ordinary_word(texts: TextBuffers, start: I64, end: I64, *, is_sure: bool) -> Mask:
    """False for ordinary words and words of forms, and for words that end like those of offices and
    places; for names with sure evidence only for the words of forms."""
    if not len(start):
        return np.empty(0, np.bool_)
    name = pl.Series(slice_spans(texts, start, end), dtype=pl.String)
    if is_sure:
        no_names = f"{words.CHINESE_NO_NAMES} {words.JAPANESE_NO_NAMES} {words.KOREAN_NO_NAMES}"
        unlisted_end = rf"[{words.JAPANESE_NO_NAME_ENDINGS}{words.ORGANIZATION_CHARACTERS}]\z"
        p = _load_patterns()
        is_listed = name.str.contains(
            rf"\A(?:{p.chinese_name}|{p.japanese_name}|{p.japanese_long_family})\z"
        )
        is_ordinary = name.is_in(no_names.split()) | (name.str.contains(unlisted_end) & ~is_listed)
        is_ordinary |= name.str.contains(rf"(?:{_join(words.CHINESE_NO_NAMES)})\z") & (
            name.str.len_chars() > 3
        )
    else:
        first_two = name.str.slice(0, 2)
        ordinary = _ordinary_words()
        is_ordinary = name.is_in(ordinary) | (
            first_two.is_in(ordinary) & ~name.str.contains(r"[ \u3000·・]")
        )
        is_japanese = name.str.contains(rf"\A{_load_patterns().japanese_family}")
        is_ordinary |= name.str.contains(
            r"(?:大学|大學|学院|學院|中学|中學|医院|醫院|集团|集團|银行|銀行|公司|"
            rf"{_join(words.KOREAN_CONTACT_ENDINGS)})\z"
        )
        is_ordinary |= (
            name.str.contains(rf"[{words.ORGANIZATION_CHARACTERS}]\z")
            & (name.str.len_chars() > 2)
            & ~is_japanese
        )
    found: Mask = ~is_ordinary.fill_null(True).to_numpy()
    return found


def _slice_before(texts: TextBuffers, position: I64) -> pl.Series:
    """The text before each position, up to `_BYTES_BEFORE` bytes of whole characters; a line feed
    stands for the start of a text."""
    low = texts.offsets[np.searchsorted(texts.offsets, position, side="right") - 1]
    start = np.maximum(position - _BYTES_BEFORE, low)
    for _ in range(3):
        start += (start < position) & (
            (texts.data[np.minimum(start, len(texts.data) - 1)] & _CONTINUATION_MASK)
            == _CONTINUATION
        )
    before = pl.Series(slice_spans(texts, start, position), dtype=pl.String)
    return pl.select(
        pl.when(pl.Series(start == low)).then("\n" + before).otherwise(before)
    ).to_series()


def _slice_after(texts: TextBuffers, position: I64, inside: I64) -> pl.Series:
    """The text after each position, up to `_BYTES_AFTER` bytes of whole characters; a line feed
    stands for the end of a text. `inside` is a byte of the text of each position, which may be at
    its end."""
    high = texts.offsets[np.searchsorted(texts.offsets, inside, side="right")]
    end = np.minimum(position + _BYTES_AFTER, high)
    for _ in range(3):
        is_inside = (end < high) & (end > position)
        end -= is_inside & (
            (texts.data[np.minimum(end, len(texts.data) - 1)] & _CONTINUATION_MASK) == _CONTINUATION
        )
    after = pl.Series(slice_spans(texts, position, np.maximum(end, position)), dtype=pl.String)
    return pl.select(
        pl.when(pl.Series(end == high)).then(after + "\n").otherwise(after)
    ).to_series()


def _extract_first(before: pl.Series, patterns: Iterable[str]) -> pl.Series:
    """For each text what the first pattern that matches has in its group."""
    found = pl.Series([None] * len(before), dtype=pl.String)
    for pattern in patterns:
        is_open = found.is_null()
        if not is_open.any():
            break
        found = pl.select(
            pl.when(is_open).then(before.str.extract(pattern)).otherwise(found)
        ).to_series()
    return found


@functools.cache
def _titled_name_patterns() -> dict[str, tuple[str, ...]]:
    """Patterns of the name before a title, by the language of the title, the surest first."""
    p = _load_patterns()
    lead = _join(words.CHINESE_LEADS)
    very_frequent = "王李张刘陈杨赵吴徐孙朱郭郑梁宋唐邓冯曹彭蔡潘袁董苏吕魏蒋杜沈崔谭陆廖贾薛张劉陳楊趙吳孫鄭鄧馮蘇呂蔣譚陸賈"  # noqa: E501
    chinese = (
        rf"({p.transliterated})\z",
        rf"(?:[^\p{{Han}}]|{lead})((?:{p.chinese_family})[\p{{Han}}--[{words.CHINESE_FUNCTION_CHARACTERS}]]{{1,2}})\z",
        rf"[^\p{{Han}}]({p.chinese_rare})\z",
        rf"(?:[^\p{{Han}}]|{lead})({p.chinese_family})\z",
        rf"((?:{p.chinese_family})[{CHINESE_GIVEN_NAME_CHARACTERS}]{{1,2}})\z",
        rf"([{very_frequent}])\z",
    )
    hiragana_given = r"[\p{Hiragana}--[とがはのをにでもやへ]]\p{Hiragana}{1,3}"
    japanese = (
        rf"({p.japanese_name}|(?:{p.japanese_long_family}){hiragana_given})[ \u3000]?\z",
        rf"({p.japanese_long_family})[ \u3000]?\z",
        rf"[^\p{{Han}}\p{{Katakana}}ー々]({p.japanese_family})[ \u3000]?\z",
        r"([\p{Katakana}ー]{2,12}(?:[・＝][\p{Katakana}ー]{1,12}){1,3})[ \u3000]?\z",
    )
    plain = (
        *japanese,
        (
            r"(?:[^\p{Han}\p{Hiragana}\p{Katakana}ー]|[のとはがをにも、"
            rf"])({p.japanese_given})[ \u3000]?\z"
        ),
        rf"[\n\t、。,:：>（(「 \u3000]({p.japanese_unlisted}|{p.japanese_guess})[ \u3000]?\z",
    )
    unlisted = (*plain, r"[\n\t、。,:：>（(「 \u3000]([\p{Han}々]{2,4})[ \u3000]?\z")
    katakana = (*plain, r"[^\p{Katakana}ー]([\p{Katakana}ー]{2,12})[ \u3000]?\z")
    korean = (rf"{_START}({p.korean_long_name}) ?\z",)
    office = (chinese[0], rf"(?:[^\p{{Han}}]|{lead})({p.chinese_frequent})\z", *chinese[2:])
    return {
        "chinese": chinese,
        "office": office,
        "place office": office[:4],
        "both": (*japanese, *chinese),
        "japanese": japanese,
        "plain": plain,
        "様": unlisted,
        "氏": katakana,
        "korean": korean,
    }


def _find_titled_names(texts: _SearchedTexts) -> ScoredSpans:
    """Names before a title or honorific: `王小明先生`, `王老师`, `田中様`, `김민수 씨`."""
    chinese, japanese = set(words.CHINESE_TITLES.split()), set(words.JAPANESE_HONORIFICS.split())
    plain, korean = (
        set(words.JAPANESE_PLAIN_HONORIFICS.split()),
        set(words.KOREAN_HONORIFICS.split()),
    )
    short = _join(words.CHINESE_SHORT_TITLES)
    title_pattern = rf"{join_names(chinese | japanese)}|(?:{short})(?:{_END}|[您你说和与的])|(?:{join_names(korean)})(?:{_END}|{_KOREAN_PARTICLE})"  # noqa: E501
    start, end = texts.find_evidence(title_pattern)
    if not len(start):
        return ScoredSpans(start, end, np.empty(0))
    # `史书记载`, `协会长期`
    is_other_word = (
        _slice_after(texts, start, start)
        .str.contains(r"\A(?:书记载|書記載|\p{Han}{1,2}[长長][期久达達远遠])")
        .to_numpy()
    )
    start, end = start[~is_other_word], end[~is_other_word]
    title = pl.Series(slice_spans(texts, start, end), dtype=pl.String)
    before = _slice_before(texts, start)
    is_short = ~title.is_in(sorted(chinese | japanese)) & ~title.str.contains(r"\A\p{Hangul}")
    group = (
        pl.DataFrame({"title": title, "is_short": is_short})
        .select(
            pl.when("is_short")
            .then(pl.lit("short"))
            .when(pl.col("title").is_in(_OFFICES_OF_PLACES))
            .then(pl.lit("place office"))
            .when(pl.col("title").is_in(["様", "殿"]))
            .then(pl.lit("様"))
            .when(pl.col("title") == "氏")
            .then(pl.lit("氏"))
            .when(pl.col("title").is_in(sorted(plain)))
            .then(pl.lit("plain"))
            .when(pl.col("title").is_in(sorted(chinese & japanese)))
            .then(pl.lit("both"))
            .when(pl.col("title").is_in(words.CHINESE_PERSONAL_TITLES.split()))
            .then(pl.lit("chinese"))
            .when(pl.col("title").is_in(sorted(chinese)))
            .then(pl.lit("office"))
            .when(pl.col("title").is_in(sorted(japanese)))
            .then(pl.lit("japanese"))
            .otherwise(pl.lit("korean"))
        )
        .to_series()
    )
    patterns = _titled_name_patterns()
    starts, ends = list[I64](), list[I64]()
    for name in group.unique().sort():
        rows = np.flatnonzero((group == name).to_numpy())
        chosen = (patterns["chinese"][3],) if name == "short" else patterns[name]
        texts_before = before.gather(rows)
        found = _extract_first(texts_before, chosen)
        trailing = _measure(texts_before) - _measure(texts_before.str.strip_chars_end(" \u3000"))
        size = _measure(found)
        is_name = size > 0
        last = start[rows] - trailing
        name_start, name_end = (last - size)[is_name], last[is_name]
        is_kept = _is_no_ordinary_word(texts, name_start, name_end, is_sure=False) | (
            name in ("japanese", "plain", "様", "氏")
        )
        if name == "short":  # `施工`
            is_kept &= _is_no_ordinary_word(
                texts, name_start, name_end + _CHARACTER_BYTES, is_sure=False
            )
        name_text = pl.Series(slice_spans(texts, name_start, name_end), dtype=pl.String)
        p = _load_patterns()
        if name in ("plain", "様", "氏"):
            is_listed = name_text.str.contains(
                rf"\A(?:{p.japanese_name}|{p.japanese_family}|{p.japanese_given}|[\p{{Katakana}}ー・＝]+)\z"
            )
            is_kept &= ~(
                ~is_listed
                & name_text.str.contains(rf"[{words.JAPANESE_NO_NAME_ENDINGS}\p{{Hiragana}}]\z")
            ).to_numpy()
        starts.append(name_start[is_kept])
        ends.append(name_end[is_kept])
    name_start, name_end = np.concatenate(starts), np.concatenate(ends)
    return ScoredSpans(name_start, name_end, np.full(len(name_start), AFTER_TITLE_SCORE))


def _find_names_beside_contacts(
    texts: TextBuffers, contact_start: I64, contact_end: I64
) -> ScoredSpans:
    """Names before or after an address or a telephone number: `王小明 13800138000`, `田中太郎
    <tanaka@example.com>`."""
    if not len(contact_start):
        return ScoredSpans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    p = _load_patterns()
    titles = _join(words.CHINESE_TITLES)
    name = rf"({p.transliterated}|{p.japanese_name}|{p.chinese_name}|{p.japanese_unlisted}|{p.korean_name})"  # noqa: E501
    label = rf"(?:的?(?:{_join(words.CONTACT_LABELS)})(?:号码|號碼|番号|是|为)?[：:]?[ \u3000]*)?"
    gap = r"[ \t\u3000]*[（(，,：:<\"'｜|、/“【\[]?[ \t\u3000\"'<]*"
    beside = rf"[{EAST_ASIAN_CLASS}][^\n]{{0,40}}\z"
    has_name_beside = _slice_before(texts, contact_start).str.contains(beside).to_numpy()
    has_name_beside |= (
        _slice_after(texts, contact_end, contact_start)
        .str.contains(rf"\A[^\n]{{1,6}}[{EAST_ASIAN_CLASS}]")
        .to_numpy()
    )
    contact_start, contact_end = contact_start[has_name_beside], contact_end[has_name_beside]
    if not len(contact_start):
        return ScoredSpans(contact_start, contact_end, np.empty(0))
    before_name = rf"(?:[^\p{{Han}}\p{{Hiragana}}\p{{Katakana}}ー]|{_join(words.CHINESE_LEADS)})"
    groups = (
        _slice_before(texts, contact_start)
        .str.extract_groups(rf"{before_name}{name}((?:{titles})?)({gap}{label})\z")
        .struct.unnest()
    )
    size, title, tail = (_measure(groups.to_series(number)) for number in range(3))
    is_found = (size > 0) & (tail > 0)
    ends = [(contact_start - tail - title)[is_found]]
    starts = [ends[0] - size[is_found]]
    honorific = rf"(?:[ \u3000]*(?:收|启|亲启|{titles}|様|さん))?{_END}"
    opening = r"\A(>?[ \t\u3000]*[（(，,、]?[ \t\u3000]*)"
    groups = (
        _slice_after(texts, contact_end, contact_start)
        .str.extract_groups(rf"{opening}{name}{honorific}")
        .struct.unnest()
    )
    opening_size, size = (_measure(groups.to_series(number)) for number in range(2))
    is_found = (size > 0) & (opening_size > 0)
    starts.append((contact_end + opening_size)[is_found])
    ends.append(starts[1] + size[is_found])
    start, end = np.concatenate(starts), np.concatenate(ends)
    is_name = _is_no_ordinary_word(texts, start, end, is_sure=False)
    return ScoredSpans(start[is_name], end[is_name], np.full(int(is_name.sum()), TWO_LISTED_SCORE))


def _find_further_occurrences(texts: TextBuffers, start: I64, end: I64) -> ScoredSpans:
    """Further occurrences of the full names of a text in the same text, and of the Japanese family
    names of its names."""
    if not len(start):
        return ScoredSpans(start, end, np.empty(0))
    name = pl.Series(slice_spans(texts, start, end), dtype=pl.String)
    family = _load_patterns().japanese_long_family
    found = pl.DataFrame(
        {"text_no": np.searchsorted(texts.offsets, start, side="right") - 1, "name": name}
    )
    families = found.select("text_no", pl.col("name").str.extract(rf"\A({family})")).drop_nulls()
    full_names = found.filter(pl.col("name").str.len_chars() > 1).join(
        families, on=["text_no", "name"], how="anti"
    )
    values = (
        pl.concat([full_names, families])
        .unique()
        .sort("text_no", pl.col("name").str.len_bytes(), "name", descending=[False, True, False])
    )
    if not values.height:
        return ScoredSpans(start[:0], end[:0], np.empty(0))
    by_text = values.group_by("text_no", maintain_order=True).agg("name")
    rows = by_text["text_no"].to_numpy()
    by_text = by_text.with_columns(
        text=pl.Series(
            slice_spans(texts, texts.offsets[rows], texts.offsets[rows + 1]), dtype=pl.String
        )
    )
    matches = by_text.select(
        "text_no",
        offset=pl.col("text").str.find_many(pl.col("name"), leftmost=True),
        name=pl.col("text").str.extract_many(pl.col("name"), leftmost=True),
    ).explode("offset", "name")
    start = texts.offsets[matches["text_no"].to_numpy()] + matches["offset"].to_numpy().astype(
        np.int64
    )
    end = start + _measure(matches["name"])
    # a family name alone: not inside a longer word, and not a place (`田中町`)
    is_family = matches.select("text_no", "name").join(
        families.with_columns(is_family=True).unique(), on=["text_no", "name"], how="left"
    )
    rows = np.flatnonzero(is_family["is_family"].fill_null(False).to_numpy())
    is_alone = _slice_before(texts, start[rows]).str.contains(r"[^\p{Han}々]\z").to_numpy()
    is_alone &= (
        _slice_after(texts, end[rows], start[rows])
        .str.contains(rf"\A[^\p{{Han}}々{words.JAPANESE_PLACE_SIGNS}]")
        .to_numpy()
    )
    is_kept = np.ones(len(start), np.bool_)
    is_kept[rows[~is_alone]] = False
    # two Chinese characters may belong to two words (`国王伟绩`): what precedes them has to end a word  # noqa: E501
    rows = np.flatnonzero((end - start == 2 * _CHARACTER_BYTES) & is_kept)
    is_after_word = (
        _slice_before(texts, start[rows])
        .str.contains(rf"(?:{_NO_HAN}|{_join(words.CHINESE_LEADS)})\z")
        .to_numpy()
    )
    is_kept[rows[~is_after_word]] = False
    return ScoredSpans(start[is_kept], end[is_kept], np.full(int(is_kept.sum()), _FURTHER_SCORE))
