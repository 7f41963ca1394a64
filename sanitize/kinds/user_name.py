"""User names and handles that are marked as such: `@ann_lee`, `user: alee`, `login=alee`, the name
in `/home/alee/`, `C:\\Users\\alee` or `C:\\Users\\Ann Lee\\`, in the logs of sshd, of web servers
and of IRC, and in the address of a profile (`linkedin.com/in/alee`); `AIM: alee` and similar at the
end of a line or entry, and `~alee/` in a path.

The kind is opt-in: `@word` is as often code as a person. A handle follows a blank, a bracket or a
quote. It is not reported where code or an address continues (`@override(`, `@example.com`), after
an address (`<bob@example.com>@CORP`), in upper case only (`@ARGV`) and in comments of code (` *
@arg: ...`). `User:` before a message is the role of a speaker and no label: a line that begins with
it has a user name where the line ends behind the name, or where the name has a digit, `_`, `.` or
`-`. Names that many programs and languages share (`root`, `param`) are refused (`word`); a path
inside a web address is not reported either. Not found: a name alone in prose, and in
`example.com/alee`; a list of names can be given as known values. Normalised form: lower case,
without the `@`. User names are often words elsewhere: each occurrence that is found is edited, and
the leak check searches only for those of columns that are pseudonymized or dropped
(docs/reference/columns.md).
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds.kind import (
    ASCII_WORD_CHARS,
    BOUNDARY,
    CAPITALS,
    DIGITS,
    QUOTATION_MARKS,
    Kind,
    always_needs_context,
    redraw_characters,
)

_NAME = "[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_HANDLE = "[A-Za-z_][A-Za-z0-9_]+"
_LABEL = (
    rf"{BOUNDARY}(?:[Uu]ser ?[Nn]ame|USERNAME|[Uu]ser[ _-]?(?:[Ii][Dd]|ID)|[Uu]ser|USER|[Ll]ogin(?:"
    r" ?[Nn]ame)?|LOGIN|[Hh]andle|"
    r"[Nn]ick(?:[Nn]ame)?|[Ss]creen ?[Nn]ame)"
    rf"[\"'{QUOTATION_MARKS}]? ?[:=] {{0,2}}[\"'{QUOTATION_MARKS}]?@?"
)
# `User name is alee_7`, `user "alee_7"`: a name with a digit, `_` or `.`
_STATED_LABEL = (
    rf"{BOUNDARY}(?:(?:[Uu]ser ?[Nn]ame|[Ll]ogin|[Hh]andle|[Uu]ser ?(?:[Ii][Dd]|ID)) is"
    rf" [\"'{QUOTATION_MARKS}]?@?|[Uu]ser [\"'{QUOTATION_MARKS}])"
)
_SERVICE_LABEL = (
    rf"{BOUNDARY}(?:AIM|aim|ICQ|icq|YIM|yim|[Ss]kype|[Tt]elegram|[Tt]witter|[Ii]nstagram): ?@?"
)
# sshd and PAM: `Failed password for invalid user alee from`
_LOG_LABEL = (
    rf"{BOUNDARY}(?:(?:Accepted|Failed|Postponed) [a-z/-]+ for (?:invalid user |illegal user )?|"
    "(?:[Ii]nvalid|[Ii]llegal) user |session (?:opened|closed) for user |"
    "(?:authenticating|Disconnected from) user |for user [\"'])"
)
# of profiles, which are of people
_PROFILE = rf"{BOUNDARY}linkedin[.]com/(?:in|pub)/"
# `203.0.113.9 - alee [05/Mar/2020:19:27:43 +0100]` of web servers, `[09:41] <alee> hi` of IRC
_REQUEST_LOG = (r" - \z", r"\A \[[0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:")
_CHAT_LOG = (r"(?:\A|\n)(?:\[[0-9:.]{4,12}\]|[0-9:]{5,8}) <[@+%~&]?\z", r"\A> ")
# what ends an entry in a list: `aim: alee / icq: 123456`
_ENTRY_END = r"\A(?:\s*\z|[ \t]*[\r\n|/,;)]|\t|  )"
_WINDOWS_FOLDER = r"[A-Z]:(?:\\{1,2}|/)(?:Users|Documents and Settings)(?:\\{1,2}|/)"
_HOME_FOLDER = rf"(?:~|/home/|/Users/|{_WINDOWS_FOLDER})"
_WORDS = rf"{_NAME}(?: {_NAME}){{1,2}}"  # a name with blanks, before the next folder
# system accounts, folder names, and words that programs have after `user:` and `@`
SHARED_NAMES = (
    "root admin administrator user users username guest nobody anonymous system daemon www public"
    " shared default test null none nil true false name password required invalid unknown string"
    " yes no the is you your not error app home linuxbrew ubuntu runner all here channel everyone"
    " override param params return returns throws throw exception deprecated see since author"
    " version link code inherit inheritdoc property setter getter staticmethod classmethod"
    " abstractmethod pytest fixture dataclass media import charset include font keyframes supports"
    " page layer namespace interface implementation end class protocol selector synthesize optional"
    " autowired component oldroot newroot entity table column id test before after suppresswarnings"
    " nullable nonnull notnull type typedef file brief details todo example since"
    # what is said in a dialogue, in one word
    " ok okay thanks thank hi hello hey sure please why what how who when where which can could"
    " would should do does did are was were will it this that they we he she and but so if"
    " my write give tell explain show"
).split()
_BEFORE_HANDLE = r"(?:\A|[\s(\[{\"'`,;:>*=])@\z"  # what may precede a handle, and the @ itself
# not a handle: after a letter of any script, or after an address (`<x@example.com>@CORP`); and
# documentation comments (`* @arg: ...`)
_NOT_BEFORE_HANDLE = r"[^\x00-\x7f]@\z|@[^\s<>@]*>@\z"
_DOC_COMMENT = r"[*][ \t]*@\z"
# `User: What is`, `**user:** What`, `{"user": "What is`: at the beginning of a line or a value, the
# role of a speaker in a dialogue
_ROLE_LABEL = (
    rf"(?:(?:\A|\n)[\s#*>|<\[]*(?:[0-9:.,/ -]+[\])]? ?)?|[\"'{QUOTATION_MARKS}])[Uu](?i:ser)"
    rf"[\"'{QUOTATION_MARKS}]? ?: {{0,2}}[\"'{QUOTATION_MARKS}]?\z"
)
# `login: IRD 49-091-850`: a word in capitals before a number is the label of the number
_NUMBER_LABEL = (r"\A[A-Z]+\z", r"\A:? [0-9]")
_MESSAGE_WORD = r"\A(?:[A-Z]?[a-z]+|[A-Z]+)\z"
_MESSAGE_AFTER = r"\A(?:['’ ]?[a-z]|[.,;!?…]* +['\"(]*[A-Za-z0-9]|[!?…])"
_URL = r"(?i:(?:https?|ftp)://|www[.])\S*\z"


_PREFIX = rf"{_LABEL}|{_STATED_LABEL}|{_SERVICE_LABEL}|{_LOG_LABEL}|{_PROFILE}|{_HOME_FOLDER}"
_LOG_ENTRY = rf" - {_NAME} \[|[\]0-9] <[@+%~&]?{_NAME}> "


def _accepts(candidates: pl.DataFrame) -> pl.Series:
    """True for a name with or without its label or `@`: without them, another finder has reported
    it as a user name."""
    return candidates["value"].str.contains(
        rf"\A(?:@{_HANDLE}|(?:{_PREFIX})?{_NAME}|{_WINDOWS_FOLDER}{_WORDS}[\\/]|{_WORDS}|"
        rf"{_LOG_ENTRY})\z"
    )


def _check(values: pl.Series) -> pl.Series:
    """`length` for one byte or more than 32, `word` for a name that many programs share, else
    null."""
    plain = _normalise(values)
    size = plain.str.len_bytes()
    return pl.select(
        pl.when((size < 2) | (size > 32))
        .then(pl.lit("length"))
        .when(plain.is_in([*SHARED_NAMES, "all users", "default user"]))
        .then(pl.lit("word"))
    ).to_series()


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True for a handle in prose, a name after a label or service, a name in the path of a home
    folder, and `~name/`."""
    before, after = pl.col("before"), pl.col("after")
    handle = (
        before.str.contains(_BEFORE_HANDLE)
        & ~pl.col("spelled").str.contains(_NOT_BEFORE_HANDLE)
        & ~pl.col("value").str.contains(r"\A[A-Z]+\z")
    )
    handle &= ~(before.str.contains(_DOC_COMMENT) & after.str.contains(r"\A *:"))
    handle &= ~after.str.contains(r"\A(?:[@({/\\-]|[.:][A-Za-z0-9])")
    label = pl.col("spelled").str.contains(rf"(?:{_LABEL})\z") & ~after.str.contains(
        r"\A(?:[@(/\\]| ?[:=])"
    )
    label &= ~(
        pl.col("spelled").str.contains(_ROLE_LABEL)
        & (
            pl.col("value").str.contains(r"\A[A-Z][a-z]+\z")
            | (pl.col("value").str.contains(_MESSAGE_WORD) & after.str.contains(_MESSAGE_AFTER))
        )
    )
    label &= ~(
        pl.col("value").str.contains(_NUMBER_LABEL[0]) & after.str.contains(_NUMBER_LABEL[1])
    )
    stated = before.str.contains(rf"(?:{_STATED_LABEL})\z") & pl.col("value").str.contains(
        "[0-9_.]"
    )
    service = before.str.contains(rf"(?:{_SERVICE_LABEL})\z") & after.str.contains(_ENTRY_END)
    path = before.str.contains(rf"(?:{_HOME_FOLDER})\z") & ~before.str.contains(_URL)
    home = (
        before.str.contains(r"(?:\A|[\s\"'`=:(])~\z")
        & pl.col("value").str.contains(r"\A[A-Za-z]")
        & after.str.starts_with("/")
    )
    path &= ~before.str.ends_with("~") | home
    return candidates.select(
        (handle & (pl.col("value").str.contains(rf"\A{_HANDLE}\z")))
        | label
        | stated
        | service
        | path
        | before.str.contains(rf"(?:{_LOG_LABEL}|{_PROFILE})\z")
        | (before.str.contains(_REQUEST_LOG[0]) & after.str.contains(_REQUEST_LOG[1]))
        | (before.str.contains(_CHAT_LOG[0]) & after.str.contains(_CHAT_LOG[1]))
    ).to_series()


def _normalise(values: pl.Series) -> pl.Series:
    return values.str.strip_chars_start("@").str.to_lowercase()


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Names with letters and digits redrawn within their class; other characters are kept.
    `reserved` has no effect: no range is reserved."""
    return redraw_characters(values, draws)


def _accepts_in_field(values: pl.Series) -> pl.Series:
    return values.str.contains(rf"\A@?{_NAME}\z") & _check(values).is_null()


KIND = Kind(
    name="USER_NAME",
    about="a user name on a machine or a web site, marked as such in the text",
    category="account",
    field_names=tuple(
        (
            "username|user name|login|login name|screen name|screenname|handle|nick|"
            "nickname|nick name|account name|twitter handle|benutzername|"
            "nom d utilisateur|identifiant|nombre de usuario|usuario|nome de usuario|"
            "nome utente|gebruikersnaam|nazwa uzytkownika|用户名|使用者名稱|帐号|"
            "ユーザー名|ユーザ名|"
            "skype|skype id|skype name|telegram|instagram|gamertag|gamer tag|discord tag|"
            "sam account name|quoted user|from user|to user|reply to user|by user|"
            "mentioned user|target user|source user|original user"
        ).split("|")
    ),
    accepts_in_field=_accepts_in_field,
    pattern=(rf"@{_HANDLE}|{_WINDOWS_FOLDER}{_WORDS}[\\/]|(?:{_PREFIX}){_NAME}|{_LOG_ENTRY}"),
    prefix_pattern=rf"@|{_PREFIX}| - |[\]0-9] <[@+%~&]?",
    suffix_pattern=r"[\\/]| \[|> ",
    accepts=_accepts,
    check=_check,
    needs_context=always_needs_context,
    context_rule=_has_context,
    normalise=_normalise,
    make_surrogates=_make_surrogates,
    not_followed_by=ASCII_WORD_CHARS,
    ambiguous_text=True,
    phase=3,
    opt_in=True,
    rank=66,
    first_bytes=CAPITALS + DIGITS + b" ]/@adfhilnstuy~",
    hits=(
        ("thanks @ann_lee, see you", "ann_lee"),
        ("user: alee", "alee"),
        ('{"username": "a-lee"}', "a-lee"),
        ("{“username”: “alee”}", "alee"),
        ("cd /home/alee/src", "alee"),
        ("C:\\Users\\alee\\x", "alee"),
        ("C:\\Users\\Ann Lee\\x C:/Users/alee/x", "Ann Lee", "alee"),
        ("sshd[7]: Failed password for invalid user alee from 203.0.113.9", "alee"),
        ("Accepted publickey for alee from 203.0.113.9 port 22 ssh2", "alee"),
        ('203.0.113.9 - alee [05/Mar/2020:19:27:43 +0100] "GET / HTTP/1.1" 200', "alee"),
        ("[09:41] <alee> bob: hi, see linkedin.com/in/ann-lee-7", "alee", "ann-lee-7"),
        ("cp ~alee/bin", "alee"),
        ("ICQ: 1320600", "1320600"),
        ("My user name is alee_7; user 'bob.roe' failed", "alee_7", "bob.roe"),
        ('authentication failed for user "alee"', "alee"),
    ),
    near_misses=(
        "ann_lee wrote, and the user alee answered",
        "bob@example.com and @example.com, foo@bar",
        "@override(x) @media{ @property\n @param x",
        "user: root, login: admin",
        "login: IRD 49-091-850, User ID: SSN 123",
        "the login is required, a user 'experience', her user name is unknown",
        "/home/user/x, C:\\Users\\All Users\\x, C:\\Users\\Default User\\x",
        "Failed password for root from 203.0.113.9, a - list [05], b - c [d/e], 9 <b> x </b>",
        "203.0.113.9 - - [05/Mar/2020:19:27:43 +0100]",
        "https://example.com/@alee",
    ),
)
