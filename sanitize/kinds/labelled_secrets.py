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

import polars as pl

from sanitize.kinds.kind import BOUNDARY, Alternative

_PASSWORDS = (
    "password|passwd|passwort|passphrase|pass phrase|passcode|pwd|kennwort|contraseña|contrasena|"
    "senha|mot de passe|wachtwoord|hasło|haslo|lösenord|salasana|adgangskode|heslo|jelszó|parola|"
    "şifre|пароль|密码|密碼|口令|パスワード|비밀번호|mật khẩu|kata sandi|סיסמה|كلمة المرور|"
    "كلمة السر|รหัสผ่าน|κωδικός|पासवर्ड"
).split("|")
# words before `key`, with or without `_`, `-` or a blank between them
_KEY_OWNERS = (
    "api access secret private encryption signing auth master account admin write server service"
    " client license shared app application deploy storage webhook consumer security integration"
    " ingest subscription session jwt hmac ssh project management primary secondary"
).split()
_TOKENS = (
    "token|secret|secret key base|credential|credentials|authorization|session id|session|"
    "authkey|apikey|pre shared key|presharedkey"
).split("|")
_QUOTE = "[\"'`“”„‘’«»]"
_WRITTEN_QUOTE = r"(?:&quot;|&#3[49];|\\{1,4}u0022|%22)"  # in HTML, JSON and queries
_QUOTES = rf"(?:\\{{0,4}}{_QUOTE}|{_WRITTEN_QUOTE})"
_GAP = "[ \\t\u00a0]{0,8}"
# between a label and its value: `: `, ` = `, `" : "`, `: str = `, `"] = `
_ASSIGNMENT = (
    rf"(?:{_QUOTES})?\]?{_GAP}(?::[ ]?[A-Za-z_.]{{1,24}}[ ]?=|:=|=>|[=:：＝])"
    rf"{_GAP}(?:\*{{1,2}}|</?[a-z]{{1,6}}>)?[ ]?"
)
# `<password>x</password>`, `<key>password</key> <string>x`
_ELEMENT = r"(?: [a-z:-]{1,20}=\"[^\"<>\r\n]{0,60}\"){0,3}>(?:</key>[ \t\r\n]{0,20}<string>)?"
_NAMED_VALUE = (  # `"name": "PASSWORD", "value": "x"`
    rf"(?:{_QUOTES})?[,;]?[ \t\r\n]{{1,40}}(?:{_QUOTES})?value(?:{_QUOTES})?[ ]?[=:][ ]?"
)
_AFTER_NAME = f"(?:{_ASSIGNMENT}|{_ELEMENT}|{_NAMED_VALUE})"
# `password is x`, `set("password", "x")`, `password("x")`
_SAYING = (
    rf"(?: (?:is|was|ist|lautet|est|es|é|è)(?: now)?:? |は ?|是 ?|为"
    rf"|(?:{_QUOTES})?(?:, ?|\()u?{_QUOTES})"
)
_COMMAND = "[ \\t-:<-{}~]"  # the rest of a command, up to `;` or `|`
_BLANKS = "[ \\t]{1,4}"


def _spell(words: str) -> str:
    """The words in small letters, with a capital each, or in capitals, joined or apart."""
    return "[ _.-]?".join(
        f"(?:[{word[0]}{word[0].upper()}]{word[1:]}|{word.upper()})"
        if word[0] != word[0].upper()
        else word
        for word in words.split()
    )


_PASSWORD_NAME = f"(?:{'|'.join(map(_spell, _PASSWORDS))})[0-9]?"
_TOKEN_NAME = (
    f"(?:(?:{'|'.join(map(_spell, _KEY_OWNERS))})[ _.-]?(?:[Kk]ey|KEY)"
    f"|{'|'.join(map(_spell, _TOKENS))})"
)
_OPTION = "--[a-z-]{0,24}(?:password|passwd|passphrase|pass|pwd|token|secret|api-key)"
_SCHEMES = (
    "(?:[Bb]asic|[Bb]earer|[Tt]oken|[Aa]pi-?[Kk]ey|Bot|SSWS|GenieKey|Splunk|BEARER|BASIC) {1,2}"
)
# the class of the value, and the label
_LABELS: tuple[tuple[str, str], ...] = (
    ("token", rf"(?:[Aa]uthorization|AUTHORIZATION){_ASSIGNMENT}(?:f?{_QUOTES})?{_SCHEMES}"),
    ("token", rf"(?:[Cc]ookie|COOKIE)(?:{_QUOTES})?: ?(?:{_QUOTES})?[A-Za-z0-9_.-]{{1,64}}="),
    ("pair", rf"curl {_COMMAND}{{0,200}}?(?:-u|--user|--proxy-user)[ =]?"),
    (
        "said",
        rf"(?:docker|podman|registry) login {_COMMAND}{{0,100}}?-p[ =]?"
        rf"|mysql[a-z]* {_COMMAND}{{0,100}}?-p|sshpass {{1,2}}-p ?"
        rf"|redis-cli {_COMMAND}{{0,100}}?-a |sqlcmd {_COMMAND}{{0,100}}?-P ?"
        rf"|-pass(?:in|out)? pass:|(?:requirepass|masterauth){_BLANKS}|{_OPTION}{_BLANKS}",
    ),
    (
        "password",
        rf"{_OPTION}=|(?:IDENTIFIED|identified) (?:BY|by) |(?:PASSWORD|password) '"
        rf"|login[ \t]{{1,4}}[!-9;<>-~]{{1,64}}[ \t\r\n]{{1,4}}password{_BLANKS}"
        r"|jdbc:oracle:thin:[A-Za-z0-9_]{1,64}/|WIFI:(?:[TSH]:[ -:<-~]{0,64};){0,3}P:",
    ),
    ("token", r"[?&;](?:[Ss]ig|[Ss]ignature|X-Amz-Signature|key|code|auth|jwt|sid|st)="),
    ("password", f"{_PASSWORD_NAME}{_AFTER_NAME}|[_.-](?:pass|PASS|pw|PW){_AFTER_NAME}"),
    (
        "token",
        rf"{_TOKEN_NAME}{_AFTER_NAME}|[_-](?:pat|PAT|sid|SID|auth|AUTH|psk|PSK){_ASSIGNMENT}"
        rf"|{BOUNDARY}(?:[Pp]ass|PASS|pw|psk|PSK|sid|auth|AUTH|[A-Z]{{1,20}}SESSID){_ASSIGNMENT}",
    ),
    ("said", f"(?:{_PASSWORD_NAME}|{_TOKEN_NAME}){_SAYING}"),
    ("token", "(?:[Bb]earer|BEARER) {1,2}"),
    (
        "code",
        rf"(?:{BOUNDARY}(?:PIN|OTP)|(?:[Vv]erification|[Ss]ecurity|[Oo]ne-time) code)"
        r"(?:[ -]?[Cc]ode)?(?: is|:|=)[ ]?",
    ),
)
_BYTES = "[^%\\x00-\\x20\\x7f\"'`“”„‘’«»<>,;&|{}\\\\\u00a0\u3000，。；]"
# a percent sign and what follows, unless they stand for a line end, a blank or a delimiter
_PERCENT = "%(?:[4-9A-Za-z!-/]|0[^AaDd]|1[0-9A-Fa-f]|2[^0267]|3[^BbCcEe])"
_PLAIN = f"(?:{_BYTES}|{_PERCENT})"
_FIRST, _LAST = (
    f"(?:{_BYTES.replace('[^', others)}|{_PERCENT})" for others in (r"[^=:：()\[\]~", r"[^.:()\[\]")
)
_QUOTED = "|".join(
    rf"{opening}[^{closing}\x00-\x1f\x7f]+{closing}"
    for opening, closing in ('""', "''", "``", "“”", "„“", "‘’", "«»")
)
_VALUE = rf"(?:[bruf]{{0,2}}\\{{0,4}}(?:{_QUOTED})|{_WRITTEN_QUOTE}?{_FIRST}(?:{_PLAIN}*{_LAST})?)"
_CLASSES = {name: "|".join(one for other, one in _LABELS if other == name) for name, _ in _LABELS}
_LABEL = "|".join(_CLASSES.values())
_KEY_LINES = r"Private-Lines: [0-9]{1,3}\r?\n"  # of PuTTY, before the lines of a private key
LABELLED = Alternative(
    rf"(?:{_LABEL}){_VALUE}"
    rf"|{_KEY_LINES}(?:[A-Za-z0-9+/]{{8,80}}={{0,2}}\r?\n)*[A-Za-z0-9+/]{{8,80}}={{0,2}}",
    literals=(
        *(
            literal
            for words in (*_PASSWORDS, *_TOKENS)
            for word in [max(words.split(), key=len)]
            for literal in (word[1:], word[1:].upper())
        ),
        *"key Key KEY ookie OOKIE earer EARER PIN OTP code SESSID auth AUTH".split(),
        *"pass= pass: pass' pass\" Pass= Pass: Pass' Pass\" PASS= PASS: PASS' PASS\"".split(),
        *"_pass -pass .pass _PASS -PASS .PASS _pw -pw .pw _PW -PW .PW pw= pw: pw\" pw'".split(),
        *"_pat -pat _PAT -PAT sid SID psk PSK sig= Sig= ignature= jwt= st=".split(),
        *"curl login mysql sqlcmd redis-cli requirepass masterauth IDENTIFIED identified".split(),
        *"thin: WIFI: Private-Lines".split(),
    ),
)
PREFIX = rf"(?:{_LABEL})(?:[bruf]{{0,2}}{_QUOTES})?|{_KEY_LINES}"
SUFFIX = _QUOTES
_SPLIT = (
    rf"(?s)\A(?:{'|'.join(f'(?<{name}>{label})' for name, label in _CLASSES.items())})"
    rf"(?<opening>(?:[bruf]{{0,2}}{_QUOTES})?)(?<value>.+?)(?:{_QUOTES})?\z"
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
    | [a-z_]\w*(?:(?:\.|->|::|\?\.)[a-z_]\w*)*[(\[].*               # get_password() os.environ[
    | [a-z_]+(?:\.[a-z_]+)+ | (?:self|this|cls|process|os)\..*
    | [^@\s]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{{2,}} | user(?:name)?:.*
    | null | none | nil | true | false | yes | no | on | off | n/a | undefined | unknown | hidden
    | removed | required | optional | str | string | text | bytes | int | integer | bool | boolean
    | object | basic | bearer | digest | auto | empty | varchar.* | char\(.* | prompt | stdin
    | input | v?[0-9]+(?:\.[0-9]+)+[a-z0-9.-]*
    | [0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}.* | [0-9]{{1,2}}:[0-9]{{2}}.*
    | [0-9]+(?:px|r?em|%|m?s|[kmg]i?b|-?(?:char|digit|bit|letter|day|hour|min|month|symbol|byte).*)
    | 0x[0-9a-f]{{1,16}}
    | (?:sha|md|base|utf|aes|rsa|des|pbkdf|ascii|iso|rfc|oauth|http|tls|ssl|version)[-_.]?[0-9].*
    )\z"""
# words, short numbers and dates, joined or alone: `service-account-2`
_WORDS = r"\A(?:[A-Za-z]*[0-9]{0,3}|[0-9]{1,8})(?:[-_./:](?:[A-Za-z]*[0-9]{0,3}|[0-9]{1,8}))*\z"
_MAX_BYTES = 4096


def accept_labelled(candidates: pl.Series) -> pl.Series:
    """True for matches of `LABELLED` whose value is a secret, by the class of its label."""
    parts = candidates.str.extract_groups(_SPLIT).struct.unnest()
    value = parts["value"].fill_null("")
    is_quoted = parts["opening"].fill_null("") != ""
    # `PASSWORD=sunflower` of an environment, `Password=sunflower` of a connection string
    is_setting = candidates.str.contains(r"\A[A-Z][A-Za-z0-9_]*=[A-Za-z]{6,}\z")
    has_mark = value.str.contains(r"[0-9!@#$%^*?~+=]")
    has_both = value.str.contains("[0-9]") & value.str.contains(r"[^\W\d_]")
    of_pair = value.str.replace(r"\A[^:]*:", "")
    return pl.select(
        pl.when(parts["password"].is_not_null())
        .then(is_password(value) & (is_quoted | is_setting | has_mark))
        .when(parts["said"].is_not_null())
        .then(is_password(value) & has_both & (value.str.len_bytes() >= 6))
        .when(parts["pair"].is_not_null())
        .then(is_password(of_pair) & value.str.contains(r"\A[^:]+:.*[^0-9].*\z"))
        .when(parts["code"].is_not_null())
        .then(candidates.str.contains(r"\A(?:PIN.*[^0-9][0-9]{4,5}|[^P].*[^0-9][0-9]{4,8})\z"))
        .when(parts["token"].is_not_null())
        .then(is_token(value))
        .otherwise(candidates.str.starts_with("Private-Lines"))
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
        & (mixed & ~values.str.contains(_WORDS) | cased)
    )
