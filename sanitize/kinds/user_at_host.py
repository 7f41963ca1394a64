"""Accounts on machines, as ssh, scp, rsync and git write them: `ann@node07` after one of these
commands or after `ssh://`, before a path (`ann@node07:/srv`), in a prompt (`ann@node07:~$`,
`[ann@node07 src]$`), and as the comment of a public key; `ann@203.0.113.9` anywhere.

The host is a name without a top-level domain, or an IPv4 address: `ann@node07.example.com` is an
EMAIL_ADDRESS in any of these places. The accounts of programs (`git@node07`) and those on
`localhost` are refused (`shared`). Elsewhere `a@b` is as often code as an account. Normalised form:
lower case. An account that is found is searched for everywhere, unlike a user name. The kind is
opt-in, as the candidates are frequent in texts without accounts.
"""

from __future__ import annotations

import polars as pl

from sanitize.core.keys import Draws
from sanitize.kinds import ip_address
from sanitize.kinds.kind import ASCII_WORD_CHARS, BOUNDARY, LETTERS, Kind, redraw_characters

_USER = "[A-Za-z_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_IPV4 = "[0-9]{1,3}(?:[.][0-9]{1,3}){3}"
_HOST = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_COMMAND_BEFORE = (
    r"(?:\A|[^A-Za-z0-9_./-])(?:(?:auto)?ssh|scp|sftp|rsync|mosh|sshfs|ssh-copy-id|slogin|rlogin|rsh|"
    r"git[ \t]+(?:clone|push|pull|fetch|remote))(?:[ \t]+[^ \t\r\n@]{1,40}){0,6}[ \t]+[\"']?\z"
)
_SCHEME_BEFORE = r"(?:ssh|sftp|git|rsync|scp|telnet|vnc|rdp|smb|nfs)://\z"
_KEY_BEFORE, _LINE_END = r"[A-Za-z0-9+/]{20}={0,2}[ \t]\z", r"\A[ \t]*(?:[\r\n\"']|\z)"
_PATH_AFTER = r"\A:(?:[~/]|[.]{1,2}/|[A-Za-z0-9_-]+[/.][A-Za-z0-9_])"
_PROMPT_BEFORE, _PROMPT_AFTER = (
    r"(?:\A|[\n\r>|])[ \t]*(?:\([^()\n]{1,20}\)[ \t]*)?\[?\z",
    r"\A(?:[: ][~/A-Za-z0-9_.-]{0,14}\]?[ ]?[$#%]|\]?[$#])",
)


def _check(values: pl.Series) -> pl.Series:
    """`shared` for the accounts of programs and on the machine itself, else null."""
    shared = values.str.contains(r"\A(?i:git|hg|svn|anonymous)@|@(?i:localhost|127[.][0-9.]+)\z")
    return pl.select(pl.when(shared).then(pl.lit("shared"))).to_series()


def _needs_context(values: pl.Series) -> pl.Series:
    return ~values.str.contains(rf"@{_IPV4}\z")


def _has_context(candidates: pl.DataFrame) -> pl.Series:
    """True after a command or a scheme, before a path, in a prompt, and at the end of a public
    key."""
    before, after = pl.col("before"), pl.col("after")
    key = before.str.contains(_KEY_BEFORE) & after.str.contains(_LINE_END)
    prompt = before.str.contains(_PROMPT_BEFORE) & after.str.contains(_PROMPT_AFTER)
    path = before.str.contains(r"(?:\A|[\s\"'`(=])\z") & after.str.contains(_PATH_AFTER)
    return candidates.select(
        before.str.contains(_COMMAND_BEFORE)
        | before.str.contains(_SCHEME_BEFORE)
        | key
        | prompt
        | path
    ).to_series()


def _make_surrogates(values: pl.Series, draws: Draws, reserved: bool) -> pl.Series:
    """Accounts with redrawn letters and digits; a host that is an address becomes another address.
    `reserved` has an effect on addresses only: no names of hosts without a domain are reserved."""
    surrogates = redraw_characters(values, draws)
    numeric = values.str.contains(rf"@{_IPV4}\z").arg_true()
    if len(numeric):
        hosts = values.gather(numeric).str.extract(r"@(.*)\z")
        hosts = ip_address.KIND.make_surrogates(hosts, draws.take(numeric.to_numpy()), reserved)
        surrogates = surrogates.scatter(
            numeric, surrogates.gather(numeric).str.replace(r"@.*\z", "@") + hosts
        )
    return surrogates.alias(values.name)


KIND = Kind(
    name="USER_AT_HOST",
    about="an account on a machine, as in ssh and scp",
    category="account",
    pattern=rf"{BOUNDARY}{_USER}@(?:{_IPV4}|{_HOST})",
    anchors=("@",),
    check=_check,
    needs_context=_needs_context,
    context_rule=_has_context,
    normalise=lambda values: values.str.to_lowercase(),
    make_surrogates=_make_surrogates,
    not_followed_by=ASCII_WORD_CHARS + b"@-",
    opt_in=True,
    rank=35,
    first_bytes=LETTERS + b"_",
    hits=(
        ("ssh ann@node07", "ann@node07"),
        (
            "$ scp -r -P 2222 notes.txt Ann.Lee@build-3:/srv/x bo@203.0.113.9:",
            "Ann.Lee@build-3",
            "bo@203.0.113.9",
        ),
        ("git clone ssh://ann@node07/x.git and ann@node07:src/x.git", "ann@node07", "ann@node07"),
        (
            "ann@node07:~$ ls\n[bo_lee@db1 src]# ls\n(venv) cy@gw:/var/log$ ",
            "ann@node07",
            "bo_lee@db1",
            "cy@gw",
        ),
        ("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDf ann@laptop\n", "ann@laptop"),
    ),
    near_misses=(
        "a@b, foo@bar: x, array@index and ann@node07 in prose",
        "ssh git@node07, ssh ann@localhost",
        "scp ann@node07.example.com:/srv .",
        "@foo(bar@baz) x=y@z; me@",
    ),
)
