r"""Secrets that only the words around them show: `POSTGRES_PASSWORD=...`, `"api_key": "..."`,
`Authorization: Bearer ...`, `curl -u user:password`, `IDENTIFIED BY '...'`.

A label is a row with the class of value that is expected behind it:

    password   any text that is no placeholder, no code and, without quotes, no plain word
    token      letters mixed with digits, as generators draw them
    said       as a password, with a digit, since words follow such a label in prose, too
    pair       `user:password`
    code       four to eight digits

What stands where a secret belongs, and is none: `changeme`, `${VAR}`, `<password>`, `xxxx`, `null`,
`get_password()`, `self.token`, `string`, a path, a mail address.
"""

from __future__ import annotations

import re

import polars as pl

from sanitize.kinds.kind import BOUNDARY, Alternative

# in any letter case, their words apart or joined by `_`, `-` or `.`
_PASSWORDS = (
    "password|passwd|passwort|passphrase|pass phrase|passcode|pwd|kennwort|contrasena|senha|"
    "mot de passe|wachtwoord|haslo|salasana|adgangskode|heslo|parola|kata sandi|requirepass"
).split("|")
_PASSWORDS_BEYOND_ASCII = (
    "ontraseña|asło|ösenord|elszó|şifre|ароль|密码|密碼|口令|パスワード|비밀번호|mật khẩu|"
    "סיסמה|كلمة المرور|كلمة السر|รหัสผ่าน|κωδικός|पासवर्ड"
).split("|")
_TOKENS = "token|secret|secret key base|credentials?|session id|authorization".split("|")
_KEY_OWNERS = (  # words before `key`
    "api access secret private encryption signing auth master account admin write server service"
    " client license shared app application deploy storage webhook consumer security integration"
    " ingest subscription session jwt hmac ssh project management primary secondary"
).split()
_SHORT = "pass|pw|pat|sid|auth|psk|sessid|session"  # with a separator directly behind them
_QUOTE = "[\"'`“”„‘’«»]"
_WRITTEN_QUOTE = r"(?:&quot;|&#3[49];|\\{1,4}u0022|%22)"  # in HTML, JSON and queries
_QUOTES = rf"(?:\\{{0,4}}{_QUOTE}|{_WRITTEN_QUOTE})"
_BLANKS = "[ \\t]{1,4}"
_COMMAND = "[ \\t-:<-{}~]"  # the rest of a command, up to `;` or `|`


def _join(words: list[str]) -> str:
    return "|".join(words).replace(" ", "[ _.-]?")


# between a label and its value: `: `, ` = `, `" : "`, `: str = `, `"] = `; of elements,
# `<password>x</password>`, `<key>password</key> <string>x`; and `"name": "password", "value": "x"`
_AFTER_NAME = (
    rf"(?:{_QUOTES})?(?:\]?[ \t\u00a0]{{0,8}}(?::[ ]?[A-Za-z_.]{{1,24}}[ ]?=|:=|=>|[=:：＝])"
    r"[ \t\u00a0]{0,8}(?:\*{1,2}|</?[a-z]{1,6}>)?[ ]?"
    r"|(?: [a-z:-]{1,20}=\"[ !#-;=?-~]{0,60}\"){0,3}>|</key>[ \t\r\n]{0,20}<string>"
    r"|[,;]?[ \t\r\n]{1,40}[\"']?value[\"']?[ ]?[=:][ ]?)"
    # the scheme of a header
    rf"(?:f?(?:{_QUOTES})?(?i-u:basic|bearer|token|api-?key|bot|ssws|geniekey|splunk) {{1,2}})?"
)
# `password is x`, `set("password", "x")`, `password("x")`
_SAYING = (
    r" (?:is|was|ist|lautet|est|es|é|è)(?: now)?:? |は ?|是 ?|为"
    rf"|(?:{_QUOTES})?(?:, ?|\()u?{_QUOTES}"
)
_LABEL = (
    rf"(?<pair>curl {_COMMAND}{{0,100}}?(?:-u|--user|--proxy-user)[ =]?)"
    rf"|(?<command>(?:docker|podman|registry) login {_COMMAND}{{0,100}}?-p[ =]?"
    rf"|mysql[a-z]* {_COMMAND}{{0,100}}?-p|sshpass {{1,2}}-p ?|redis-cli {_COMMAND}{{0,100}}?-a "
    rf"|sqlcmd {_COMMAND}{{0,100}}?-P ?|-pass(?:in|out)? pass:"
    rf"|login[ \t]{{1,4}}[!-9;<>-~]{{1,64}}[ \t\r\n]{{1,4}}password{_BLANKS}"
    rf"|--(?:[a-z-]{{0,24}}(?:password|passwd|passphrase|pwd|token|secret|api-key)"
    rf"|(?:[a-z-]{{0,24}}-)?pass){_BLANKS}"
    rf"|(?:requirepass|masterauth){_BLANKS})"
    r"|(?<statement>(?:IDENTIFIED|identified) (?:BY|by) |(?:PASSWORD|password) '"
    r"|jdbc:oracle:thin:[A-Za-z0-9_]{1,64}/|WIFI:(?:[TSH]:[ -:<-~]{0,64};){0,3}P:)"
    r"|(?<query>[?&;](?:[Ss]ig|[Ss]ignature|X-Amz-Signature|key|code|jwt|st)="
    rf"|[Cc]ookie[\"']?: ?[\"']?[A-Za-z0-9_.-]{{1,64}}=|(?:[Bb]earer|BEARER) {{1,2}}"
    rf"|(?:{BOUNDARY}|_)(?i-u:{_SHORT})[\"']?[:=][ ]?)"
    rf"|(?<code>(?:{BOUNDARY}(?:PIN|OTP)|(?:tion|rity|time) code)(?:[ -]?[Cc]ode)?(?: is|:|=)[ ]?)"
    rf"|(?:(?<password>(?:(?i-u:{_join(_PASSWORDS)})|{'|'.join(_PASSWORDS_BEYOND_ASCII)})[0-9]?"
    r"|[_.-](?:pass|PASS|pw|PW))"
    rf"|(?<token>(?i-u:{_join(_TOKENS)}|(?:{'|'.join(_KEY_OWNERS)})[ _.-]?key)))"
    rf"(?:{_AFTER_NAME}|(?<said>{_SAYING}))"
)
_FIRST, _PLAIN, _LAST = (
    f"(?:[A-Za-z0-9!#$*+/?^_{others}-]|[\u00c0-\u052f]|%[4-9A-Za-z!-/]|%0[B-CE-Fb-ce-f1-9]"
    r"|%1[0-9A-Fa-f]|%2[1345A-Fa-f89]|%3[0-9AaDd])"
    for others in (".", r".~=@:()\[\]", "~=@")
)
_VALUE = (
    r"(?:[bruf]{0,2}\\{0,4}(?:\"[^\"\x00-\x1f\x7f]+\"|'[^'\x00-\x1f\x7f]+'|`[^`\x00-\x1f\x7f]+`)"
    rf"|(?:{_WRITTEN_QUOTE}|[“”„‘’«»])?{_FIRST}(?:{_PLAIN}*{_LAST})?)"
)
_OPENING = rf"(?:[bruf]{{0,2}}{_QUOTES})?"
_SPLIT = rf"(?s)\A(?:{_LABEL})(?<opening>{_OPENING})(?<value>.+?)(?:{_QUOTES})?\z"
PREFIX, SUFFIX = (f"(?:{re.sub('[?]<[a-z]+>', '?:', _LABEL)}){_OPENING}", _QUOTES)
LABELLED = Alternative(
    f"(?:{re.sub('[?]<[a-z]+>', '?:', _LABEL)}){_VALUE}",
    literals=(
        *(
            spelled
            for words in (*_PASSWORDS, *_TOKENS, "key")
            for word in [max(words.rstrip("s?").split(), key=len)]
            for spelled in (word, word.capitalize(), word.upper())
        ),
        *(words.split()[0] for words in _PASSWORDS_BEYOND_ASCII),
        *(
            spelled + after
            for word in _SHORT.split("|")
            for spelled in (word, word.capitalize(), word.upper())
            for after in "=:\"'"
        ),
        *"_pass -pass .pass _PASS -PASS .PASS _pw -pw .pw _PW -PW .PW ookie earer EARER".split(),
        *"PIN OTP sig= Sig= ignature= code= jwt= st= curl mysql sqlcmd redis-cli login".split(),
        *"masterauth IDENTIFIED identified thin: WIFI: sshpass passin passout".split(),
        "-pass pass:",
        "tion code",
        "rity code",
        "time code",
    ),
)
_SECRET_WORD = "(?:pass|passwords?|passwd|passphrase|pwd|secrets?|tokens?|key|credentials?|auth)"
_NO_SECRET = rf"""(?ix)\A(?:
    [x*.•_\#?-]+ | [<\[{{(%].* | [$](?:[a-z_{{(].*)?                  # xxxx <password> $VAR
    | .*(?:[$]\{{|\{{\{{|%\(|\#\{{|\.\.\.|<[a-z_\x20-]+>).*        # ${{VAR}} {{{{ x }}}}
    | (?:~|\.{{1,2}})?/[a-z_.-]{{2,}}/.* | /[\w.-]{{0,20}}            # paths
    | [a-z][a-z0-9+.-]*://.* | (?:env|file|vault|op|ref|arn|sops|var|refresh|kms):.*
    | (?:change|replace|enter|insert|put|set)[_-]?(?:me|this|it|your|here|with|the|a\b).*
    | your[\x20_-].* | your_?(?:api|{_SECRET_WORD}).* | .*[_-]here
    | (?:example|dummy|sample|fake|mock|placeholder|redacted|insert|enter|change|replace).*
    | test(?:ing)?[0-9]{{0,3}} | (?:my|the|a|test|some|new|old|default|admin|user|root)?[_-]?
      (?:[a-z]+[_.-])*{_SECRET_WORD}[0-9]?                        # db_password self.token
    | (?-i:[a-z_][\w.]*(?:Pass|Passw(?:or)?d|Pwd|Secret)) | [\w.]*(?:key|token|type|credential)s?
    | .*(?-i:abcdefghijklm|ABCDEFGHIJKLM).*
    | [a-z_]\w*(?:(?:\.|->|::|\?\.)[a-z_]\w*)*[()\[].*               # get_password() os.environ[
    | [a-z_]+(?:\.[a-z_]+)+ | (?:self|this|cls|process|os)\..*
    | [^@\s]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{{2,}} | user(?:name)?:.*
    | null | none | nil | true | false | yes | no | on | off | n/a | undefined | unknown | hidden
    | removed | required | optional | str | string | text | bytes | int | integer | bool | boolean
    | object | basic | bearer | digest | auto | empty | varchar.* | char\(.* | prompt | stdin
    | input | v?[0-9]+(?:\.[0-9]+)+[a-z0-9.-]*
    | [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}.* | [0-9]{{1,2}}:[0-9]{{2}}.*
    | [0-9]+(?:px|r?em|%|m?s|[kmg]i?b|-?(?:char|digit|bit|letter|day|hour|min|month|symbol|byte).*)
    | 0x[0-9a-f]{{1,16}} | [0-9]{{1,3}}-[0-9]{{1,3}}
    | (?:sha|md|base|utf|aes|rsa|des|pbkdf|ascii|iso|rfc|oauth|http|tls|ssl|version)[-_.]?[0-9].*
    )\z"""
# words, short numbers and dates, joined or alone: `service-account-2`
_WORDS = r"\A(?:[A-Za-z]*[0-9]{0,3}|[0-9]{1,8})(?:[-_./:](?:[A-Za-z]*[0-9]{0,3}|[0-9]{1,8}))*\z"
# words joined by capitals, one of them of five letters: `Version2InferenceSession`
_JOINED_WORDS = (
    r"\A[a-z]*(?:(?:[A-Z][a-z]{2,}|[A-Z]{2,}|[0-9]{1,3})[-_.]?)*[A-Z][a-z]{4,}"
    r"(?:[-_.]?(?:[A-Z][a-z]{2,}|[A-Z]{2,}|[0-9]{1,3}))*\z"
    r"|\A[a-z]{3,}[0-9]{1,2}[a-z]{3,}\z"
)
_MAX_BYTES = 4096


def accept_labelled(candidates: pl.Series) -> pl.Series:
    """True for matches of `LABELLED` whose value is a secret, by the class of its label."""
    parts = candidates.str.extract_groups(_SPLIT).struct.unnest()
    value, is_said = parts["value"].fill_null(""), parts["said"].is_not_null()
    is_quoted = parts["opening"].fill_null("") != ""
    # `PASSWORD=sunflower` of an environment, `Password=sunflower` of a connection string
    is_setting = candidates.str.contains(r"\A[A-Z][A-Za-z0-9_]*=[A-Za-z]{6,}\z")
    has_mark = value.str.contains(r"[0-9!@#$%^*?~+=]")
    has_both = value.str.contains("[0-9]") & value.str.contains(r"[^\W\d_]")
    of_pair = value.str.replace(r"\A[^:]*:", "")
    return pl.select(
        pl.when(is_said & parts["token"].is_not_null())
        .then(is_token(value))
        .when(is_said | parts["command"].is_not_null())
        .then(is_password(value) & has_both & (value.str.len_bytes() >= 6))
        .when(parts["password"].is_not_null() | parts["statement"].is_not_null())
        .then(is_password(value) & (is_quoted | is_setting | has_mark))
        .when(parts["pair"].is_not_null())
        .then(is_password(of_pair) & value.str.contains(r"\A[^:]+:.*[^0-9].*\z"))
        .when(parts["code"].is_not_null())
        .then(candidates.str.contains(r"\A(?:PIN.*[^0-9][0-9]{4,5}|[^P].*[^0-9][0-9]{4,8})\z"))
        .when(parts["value"].is_not_null())
        .then(is_token(value))
        .otherwise(pl.lit(False))
    ).to_series()


def is_password(values: pl.Series) -> pl.Series:
    """True for texts of 4 to 4096 bytes without blanks that are no placeholder and no code."""
    return (
        values.str.len_bytes().is_between(4, _MAX_BYTES)
        & values.str.contains(r"\A\S+\z")
        & ~values.str.contains(_NO_SECRET)
    )


def is_token(values: pl.Series) -> pl.Series:
    """True for texts of 8 bytes or more in which letters and digits, or capitals and small letters,
    are mixed as in no word."""
    mixed = values.str.contains("[0-9]") & values.str.contains("[A-Za-z]")
    cased = values.str.contains("(?:[a-z][A-Z].*){3}") & ~values.str.contains("[a-z]{5}|[A-Z]{5}")
    return (
        is_password(values)
        & (values.str.len_bytes() >= 8)
        & (mixed & ~values.str.contains(f"{_WORDS}|{_JOINED_WORDS}") | cased)
    )
