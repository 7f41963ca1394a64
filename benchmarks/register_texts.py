"""Generated texts in four registers (prose, mail, technical text, chat), in which every personal
value is labelled.

A template has fields in braces. A labelled field (`{mail}`, `{phone}`, `{ip}`, `{name}` ...) is a
value that should be found, with its kind; any other field is text that is easily taken for one:
kernel time stamps, versions, rows of tables, identifiers. The templates of technical text are
kernel logs and call traces, SMART tables, hex dumps, version strings, stack traces, diffs, listings
of programs, hashes and part numbers. Everything is invented and drawn from a seed: addresses in
reserved domains, 555 numbers, addresses of documentation networks.

`generate_texts_without_people` gives texts in which nothing is to be found: numeric data, code,
changelogs, and dialogues whose speakers are roles.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from random import Random

from benchmarks.labelled_templates import LabelledText, fill_template

REGISTERS = ("prose", "mail", "technical text", "chat")
_GIVEN = (
    "Alice Bruno Clara Diego Elena Frank Greta Hector Irene Jonas Laura Martin Nora Oscar Paula"
    " Robert Sarah Thomas Victor Wendy"
).split()
_FAMILY = (
    "Anderson Becker Campbell Delgado Fischer Garcia Hoffman Ingram Johnson Kowalski Lindgren"
    " Moreno Novak Petersen Quinn".split()
)
_HOSTS = "mail.example.com example.org lists.example.net corp.example.com lab.example.edu".split()
_SYMBOLS = (
    "ext4_mark_inode_dirty do_sys_poll __schedule blk_mq_run_hw_queue tcp_v4_rcv kmem_cache_alloc"
    " sys_read vfs_write".split()
)
_ATTRIBUTES = (
    "Raw_Read_Error_Rate Seek_Error_Rate Spin_Retry_Count Power_On_Hours Temperature_Celsius"
    " Reallocated_Sector_Ct".split()
)


def _digits(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789") for _ in range(count))


def _hex(random: Random, count: int) -> str:
    return "".join(random.choice("0123456789abcdef") for _ in range(count))


def _octets(random: Random, network: str = "") -> str:
    if not network:
        network = random.choice(
            ["203.0.113.", "198.51.100.", "192.0.2.", "10.12.", "192.168.", "172.20."]
        )
    return network + ".".join(str(random.randint(11, 250)) for _ in range(4 - network.count(".")))


def _draw_version(random: Random) -> str:
    """Four dotted numbers, as libraries, drivers and firmware number their releases."""
    shapes = ("{}.{}.{}.{}", "00{}.0{}.00{}.000", "{}.2{}.0.1{}{}")
    return random.choice(shapes).format(*(random.randint(1, 9) for _ in range(4)))


def _draw_phone(random: Random) -> str:
    area = random.choice(["212", "415", "303", "617"])
    return random.choice(["{}-555-01{}", "({}) 555-01{}", "{}.555.01{}", "+1 {} 555 01{}"]).format(
        area, _digits(random, 2)
    )


def _draw_mail(random: Random) -> str:
    return (
        f"{random.choice(_GIVEN).lower()}.{random.choice(_FAMILY).lower()}@{random.choice(_HOSTS)}"
    )


_FIELDS: dict[str, tuple[str | None, Callable[[Random], str]]] = {
    # what should be found
    "mail": ("EMAIL_ADDRESS", _draw_mail),
    "phone": ("PHONE_NUMBER", _draw_phone),
    "local": ("PHONE_NUMBER", lambda random: f"555-01{_digits(random, 2)}"),
    "bare": (
        "PHONE_NUMBER",
        lambda random: f"{random.choice(['212', '415', '617'])}55501{_digits(random, 2)}",
    ),
    "abroad": ("PHONE_NUMBER", lambda random: f"+44 20 7946 0{_digits(random, 3)}"),
    "ip": ("IP_ADDRESS", _octets),
    "ipv6": ("IP_ADDRESS", lambda random: f"2001:db8:{_hex(random, 4)}::{random.randint(1, 9)}"),
    "ssn": (
        "US_SSN",
        lambda random: (
            f"{random.randint(501, 649)}-{random.randint(11, 89)}-{random.randint(1001, 9899)}"
        ),
    ),
    "nine": (
        "US_SSN",
        lambda random: (
            f"{random.randint(501, 649)}{random.randint(11, 89)}{random.randint(1001, 9899)}"
        ),
    ),
    "url": (
        "URL",
        lambda random: f"https://www.example.org/{_hex(random, 4)}/{random.randint(10, 99)}",
    ),
    "repository": ("URL", lambda random: f"ssh://git@example.org/{_hex(random, 4)}.git"),
    "name": ("PERSON", lambda random: f"{random.choice(_GIVEN)} {random.choice(_FAMILY)}"),
    "account": (
        "USER_AT_HOST",
        lambda random: (
            f"{random.choice(_GIVEN).lower()}@{random.choice(['build-3', 'node07', 'gw', 'db1', '203.0.113.9'])}"  # noqa: E501
        ),
    ),
    # what should not
    "int": (None, lambda random: str(random.randint(100, 99999))),
    "pid": (None, lambda random: str(random.randint(300, 32000))),
    "seven": (None, lambda random: _digits(random, 7)),
    "eight": (None, lambda random: str(random.randint(2, 9)) + _digits(random, 7)),
    "ninedigits": (None, lambda random: str(random.randint(1, 9)) + _digits(random, 8)),
    "ten": (None, lambda random: str(random.randint(2, 9)) + _digits(random, 9)),
    "long": (None, lambda random: _digits(random, 14)),
    "epoch": (None, lambda random: f"15{_digits(random, 8)}"),
    "stamp": (
        None,
        lambda random: (
            f"{random.randint(1, 9)}{_digits(random, 6)}.{_digits(random, random.choice([3, 6]))}"
        ),
    ),
    "fraction": (
        None,
        lambda random: (
            f"{random.randint(10, 23)}:{random.randint(10, 59)}:{random.randint(10, 59)}.{_digits(random, 6)}"  # noqa: E501
        ),
    ),
    "day": (
        None,
        lambda random: (
            f"20{random.randint(10, 24)}-{random.randint(10, 12)}-{random.randint(10, 28)}"
        ),
    ),
    "year": (None, lambda random: str(random.randint(1990, 2024))),
    "version": (None, _draw_version),
    "release": (
        None,
        lambda random: f"{random.randint(2, 6)}.{random.randint(0, 19)}.{random.randint(0, 99)}",
    ),
    "hex8": (None, lambda random: _hex(random, 8)),
    "hex16": (None, lambda random: _hex(random, 16)),
    "commit": (None, lambda random: _hex(random, 40)),
    "byte": (None, lambda random: _hex(random, 2)),
    "word": (None, lambda random: _digits(random, 4)),
    "pair": (None, lambda random: _digits(random, 2)),
    "norm": (None, lambda random: f"{random.randint(0, 200):03d}"),
    "guid": (None, lambda random: str(uuid.UUID(int=random.getrandbits(128)))),
    "symbol": (None, lambda random: random.choice(_SYMBOLS)),
    "attribute": (None, lambda random: random.choice(_ATTRIBUTES).ljust(23)),
    "given": (None, lambda random: random.choice(_GIVEN).lower()),
}

_PROSE = (
    (
        "In {year} the office at Suite {ninedigits} was closed, and {name} moved to the annex with"
        " its {int} volumes."
    ),
    "{name} can be reached at {phone} between 9:30 and 17:00, or at {mail}.",
    "The edition of {year} has {int} pages; section 14.3.2.1 describes the {year}-{year} survey.",
    "The form asks for a social security number ({ssn}) and for the invoice {ten}.",
    "The record “ssn”: “{nine}” was copied by {name} on {day}.",
    "Lot {word}-{seven} of the catalogue was sold for {int} dollars; see {url} for the others.",
    (
        "Version {version} of the standard replaces that of {year}. Part no. {word}-{word}-{word}"
        " is obsolete."
    ),
    "The telegram of {day} was numbered {int}/{int}; its copy is kept in box {seven}.",
    "Our London office is at {abroad}, and the museum opened in {year}.",
    "The population grew from {int} {int} to {ninedigits} within {pair} years.",
)
_MAIL = (
    (
        "From: {name} <{mail}>\nTo: {mail}\nSubject: ticket {long}\nDate: Tue, 14 May {year}"
        " 10:22:01 -0700\n\nHello,\n\nthe order {ten} left on {day}. Call me at {phone} or"
        " {local}.\n\n{name}\n"
    ),
    (
        "From: {mail}\nTo: <{mail}>\nX-MS-TNEF-Correlator: <{hex16}>\nX-Mailer: Example Mail"
        " {version}\nX-OriginatorOrg: {guid}\nSubject: Re: guid 046-{seven}-88\n\nSee the"
        " attachment with guid 046-{seven}-{pair}.\n"
    ),
    (
        "Return-Path: <{mail}>\nReceived: from gw.example.net ([{ip}]) by mx.example.org; Tue, 14"
        " May 2019 10:22:01 -0700\nFrom: {name} <{mail}>\nSubject: build {int}\n\nRelease {version}"
        " is out. The log is at {url}.\n"
    ),
    (
        "From: {mail}\nSubject: invoice\n\nInvoice {ten}, customer no. {eight}, amount"
        " {int}.{pair}\nTel. {phone}  Fax {phone}\nSuite {ninedigits}\n"
    ),
    (
        "From: {mail}\nSubject: meeting\n\n> dial-in {phone}, passcode {eight}\n> On {day} {name}"
        " wrote:\n> > tracking {long}\n"
    ),
    (
        "From: {name} <{mail}>\nSubject: parts\n\nP/N {word}-{word}-{pair}\nS/N {ten}\nMaterial"
        " {ninedigits}\nWe have {int} in stock.\n"
    ),
)
_TECHNICAL = (
    (
        "[{stamp}] Call Trace:\n[{stamp}]  [<ffffffff{hex8}>] {symbol}+0x{byte}/0x{hex8}\n"
        "[{stamp}]  [<ffffffff{hex8}>] ? {symbol}+0x{byte}/0xc0\n"
    ),
    (
        "[ {stamp}] BUG: unable to handle kernel NULL pointer dereference at"
        " 00000000000000{byte}\n[ {stamp}] RIP: 0010:{symbol}+0x1{byte}/0x320\n[ {stamp}] RSP:"
        " 0018:ffffc900{hex8} EFLAGS: 00010246\n[ {stamp}] RAX: 0000000000000000 RBX:"
        " ffff8800{hex8} RCX: 00000000{hex8}\n"
    ),
    (
        "[{stamp}] Code: {byte} {byte} {byte} {byte} 48 89 e5 41 54 {byte} 00 00 00 {byte} {pair}"
        " {pair} {pair} {pair} {pair}\n[{stamp}] CR2: 00000000{hex8}\n"
    ),
    (
        "ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED"
        " RAW_VALUE\n  1 {attribute} 0x000f   {norm}   {norm}   {norm}    Pre-fail  Always       - "
        "      {ninedigits}\n  9 {attribute} 0x0032   {norm}   {norm}   {norm}    Old_age   Always "
        "      -       {int}\n"
    ),
    (
        "00000000  {byte} {byte} {byte} {byte} {byte} {byte} {byte} {byte}  {pair} {pair} {pair}"
        " {pair} {pair} {pair} {pair} {pair}  |................|\n000000{byte}  {pair} {pair}"
        " {pair} {pair} {pair} {pair} {pair} {pair}  {pair} {pair} {pair} {pair} {pair} {pair}"
        " {pair} {pair}  |0123456789012345|\n"
    ),
    (
        "000{word}0: {word} {word} {word} {word} {word} {word} {word} {word}  ................\n"
        "000{word}0: {word} {word} {word} {word} 2e2e {word}\n"
    ),
    (
        "linux; GNU C++ version 4.9.2; Boost_105500; UHD_003.010.003.000-0-unknown\n-- Opening a"
        " USRP2/N-Series device, UHD {version}\n"
    ),
    (
        "gnuradio {version} was built against UHD {version} and libuhd {version}\n$ uname -a\nLinux"
        " build 2.6.{pair}.{pair} #1 SMP x86_64\n"
    ),
    "-- \n2.26.0.1{pair}.g{hex8}-goog\n",
    "-- \n2.{pair}.0.rc1.{int}.g{hex8}\n",
    (
        "firefox_{version}-0ubuntu1_amd64.deb\nSelecting linux-image-{release}-{pair}-generic"
        " ({release}-{pair}.{pair})\nlibssl.so.{version} => /lib/libssl.so.{release}\n"
    ),
    "Driver {version}, firmware {version}, BIOS v{version} ({day}), protocol {version}\n",
    (
        'Traceback (most recent call last):\n  File "/usr/lib/python3.7/site.py", line {int}, in'
        " main\n    run(0x{hex16})\nRuntimeError: call {seven} failed after {int}.{seven} s (code"
        " {eight})\n"
    ),
    (
        'Exception in thread "main" java.lang.IllegalStateException: job {ten}\n\tat'
        " org.example.Main.run(Main.java:{int})\n\tat org.example.Call.call(Call.java:{int})"
        " [{hex8}]\n"
    ),
    (
        "#0  0x0000{hex8}{word} in {symbol} (fd={pair}, buf=0x{hex16}) at poll.c:{int}\n#1 "
        " 0x00000000{hex8} in main () at main.c:{int}\n"
    ),
    (
        "diff --git a/net/core.c b/net/core.c\nindex {hex8}..{hex8} 100644\n--- a/net/core.c\n+++"
        " b/net/core.c\n@@ -{int},{pair} +{int},{pair} @@\n-\t.freq = {ten},\n+\t.freq ="
        " {ten},\n+\tcall({eight}, {seven});\n"
    ),
    (
        "commit {commit}\nAuthor: {name} <{mail}>\nDate:   Tue May 14 10:22:01 {year} +0200\n\n   "
        ' Fix overflow in {symbol}\n\n    Fixes: {hex8}{word} ("call {symbol}")\n    Signed-off-by:'
        " {name} <{mail}>\n"
    ),
    (
        "{day} {fraction} sshd[{pid}]: Accepted publickey for {given} from {ip} port {int} ssh2:"
        " RSA SHA256:{hex16}\n"
    ),
    (
        "{day}T{fraction}+02:00 WARN [worker-{pair}] call {seven} returned {int} in {int}.{seven}"
        " ms, id={guid}\n"
    ),
    (
        "{epoch}.{seven} IP {ip}.{int} > {ip}.443: Flags [P.], seq {ten}:{ten}, ack {ten}, win"
        " {int}, length {int}\n"
    ),
    (
        "64 bytes from {ip}: icmp_seq={pair} ttl=57 time={pair}.{pair} ms\nrtt min/avg/max/mdev ="
        " 11.{word}/14.{word}/18.{word}/2.{word} ms\n"
    ),
    "$ ssh {account}\n$ scp -r {account}:/srv/data .\n$ git clone {repository}\n",
    (
        "           CPU0       CPU1\n  0:   {ninedigits}         {pair}   IO-APIC   2-edge     "
        " timer\n 24:    {seven}    {seven}   PCI-MSI {seven}-edge\n"
    ),
    (
        "Filesystem     1K-blocks      Used Available Use% Mounted on\n/dev/sda1      {ninedigits} "
        " {eight}  {eight}  {pair}% /\n"
    ),
    (
        "-rw-r--r-- 1 root root  {seven} May 14 10:22 vmlinuz-{release}\n-rw-r--r-- 1 root root"
        " {ninedigits} May 14 {year} dump.{ten}.core\n"
    ),
    (
        "md0 : active raid5 sdd1[3] sdc1[2] sdb1[1]\n      {ten} blocks super 1.2 level 5, 512k"
        " chunk\n      [=>..]  resync = {pair}.{pair}% ({eight}/{ten}) finish=120.{pair}min\n"
    ),
    (
        "00:1f.2 SATA controller: Example Corp. Device 8086:{word} (rev 0{pair})\nBus 002 Device"
        " 003: ID {word}:{word} Example Hub\nModel Number: EX {word}-{word}  Serial Number:"
        " {ten}\nWWN: 5 000c50 0{hex8}\n"
    ),
    (
        "sha1 {commit}\nmd5 {hex16}{hex16}  uhd_{version}.tar.gz\nbuild id {guid}, ticket #{long},"
        " part {word}-{seven}\n"
    ),
    (
        "mmap(NULL, {seven}, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f{hex8}00\n"
        "select(4, [3], NULL, NULL, {{seven}, {int}}) = 1 (left {{pair}, {seven}})\n"
    ),
    (
        "CREATE TABLE calls (id BIGINT);\nINSERT INTO calls VALUES ({eight}, {seven}, '{day}"
        " {fraction}');\nSELECT {ten} + {ten};\n"
    ),
    (
        "  {seven}  {pair}.{pair}%  call\n  {eight}  {pair}.{pair}%  ring\n  {seven}   {int}  text "
        "     {hex8}\n"
    ),
    (
        "listen {ip}:8080\nallow {ip}/24\nnameserver {ipv6}\nserver_id: {eight}\nnode {word}-{word}"
        " up {int} days\n"
    ),
    (
        "Jan 14 10:22:01 node07 smartd[{pid}]: Device: /dev/sdb, {int} Currently unreadable"
        " sectors, call {seven}\n"
    ),
    (
        "OID 1.3.6.1.4.1.{int}.{pair}, MIB 1.3.6.1.2.1\nlatitude 52.{seven} longitude 13.{seven}\nx"
        " = {pair}.{pair}, {norm} {norm} {norm}\n"
    ),
    (
        "0x{hex8} {hex8} {hex8} {eight} {eight} {eight}\n0x{hex8} {eight} {eight} {eight} {hex8}"
        " {hex8}\n"
    ),
)
_CHAT = (
    "hey, it's {name}, my new number is {phone}",
    "[Call 1] {given} ({bare})\n[Call 2] {given} ({bare})",
    "text me at {local}, I am in room {word}",
    "my order {ten} never came, the tracking says {long}",
    "which version do you run? I have {version} here and it works",
    "log in with ssh {account} and check {ip}",
    "lol see {url}, mail me: {mail}",
    "it costs {int} {int} or so, maybe {seven}",
    "{{“name”: “{name}”, “ssn”: “{nine}”}} is what the form sent",
    "the flight is {pair}{word} on {day}, confirmation {eight}",
    "bought it for {int}.{pair}, suite {ninedigits} on the left",
    "call {name} at {phone} before 10:30",
)
_TEMPLATES = dict(zip(REGISTERS, (_PROSE, _MAIL, _TECHNICAL, _CHAT), strict=True))


def generate_texts(texts_per_template: int, seed: int = 1) -> list[LabelledText]:
    """Texts of every register: each template as often as asked, filled from the seed."""
    random = Random(seed)  # noqa: S311 - test data

    def draw(field: str) -> tuple[str | None, str, str]:
        kind, draw_value = _FIELDS[field]
        return kind, draw_value(random), ""

    return [
        fill_template(template, draw, register)
        for register, templates in _TEMPLATES.items()
        for template in templates
        for _ in range(texts_per_template)
    ]


# ---- texts without personal values ----

_CODE_LINES = (
    "int[] ids = {{{ten}, {ten}, {ten}}};",
    "#define TIMEOUT_{word} {seven}",
    "assert round(x, 6) == {real} and y > {int}",
    "VERSION = '{dotted}'  # was {dotted}",
    "std::vector<int> v{{{int}, {int}, {int}}};",
    "user = User(id={nine}, role='admin')",
    "sleep({word}); call({seven});",
    "static const uint64_t SEED = {sixteen}ULL;",
    "@pytest.mark.parametrize('n', [{int}, {seven}, {nine}])",
    "if (id == {sixteen}) return {real}f;",
    "npm install example-lib@{release} other@{release}",
    "checksum: {thirteen}, size: {nine}, offset: 0x{word}",
)
_CHANGES = (
    "## [{dotted}] - 20{pair}-0{digit}-1{digit}",
    "## [{release}] - 20{pair}-0{digit}-1{digit}",
    "- Fixed a crash in the parser (#{int})",
    "[{dotted}] Fixed a crash",
    "* v{dotted}: faster start, see #{int}",
    "- Updated example-lib from {release} to {release}",
    "### Version {dotted}",
    "- [{dotted}] and [{dotted}] are no longer supported",
)
_SAYINGS = (
    "What is the capital of France?",
    "Please write a poem about rain.",
    "Sure! Here is a short answer.",
    "It has {int} inhabitants, or {seven}.",
    "how do I sort a list",
    "Thanks",
    "You are a helpful assistant.",
    "Because the sum of {int} and {int} is {seven}.",
    "Can you explain it again?",
    "yes please",
    "No, that is not what I meant",
    "I need help with version {release}",
)
_ROLES = (
    ("User: ", "Assistant: "),
    ("Human: ", "AI: "),
    ("USER: ", "ASSISTANT: "),
    ("Q: ", "A: "),
    ("### User: ", "### Response: "),
    ("<|user|>\n", "<|assistant|>\n"),
    ("**User:** ", "**Bot:** "),
    ("### Instruction:\n", "### Response:\n"),
    ("user: ", "system: "),
)


def _fill_numbers(random: Random, template: str) -> str:
    digit = str(random.randint(1, 9))
    return template.format(
        digit=digit,
        pair=_digits(random, 2),
        word=_digits(random, 4),
        int=random.randint(0, 99999),
        seven=digit + _digits(random, 6),
        nine=digit + _digits(random, 8),
        ten=digit + _digits(random, 9),
        thirteen=digit + _digits(random, 12),
        sixteen=digit + _digits(random, 15),
        real=random.random() * 100,
        dotted=".".join(str(random.randint(0, 15)) for _ in range(4)),
        release=".".join(str(random.randint(0, 30)) for _ in range(3)),
    )


def _draw_number_row(random: Random) -> str:
    """A row of numeric data: floats in brackets, small integers, readings, barcodes."""
    shape, limit = random.randrange(6), random.choice([10, 100, 1000, 10_000])
    if shape == 0:
        return "[" + ", ".join(f"{random.random():.16f}" for _ in range(6)) + "]"
    if shape == 1:
        return " ".join(str(random.randrange(limit)) for _ in range(12))
    if shape == 2:
        return ",".join(f"{random.uniform(-180, 180):.13f}" for _ in range(4))
    if shape == 3:
        return "\t".join(str(random.randrange(limit)) for _ in range(12))
    if shape == 4:
        barcode = random.choice("45679") + _digits(random, 12)
        return f"{random.randint(1, 999)},{barcode},{random.random():.2f}"
    return f"{random.random() * 10:.10e}  {random.random() * 1e9:.6f}  {random.randrange(10**9)}"


def _draw_dialogue(random: Random) -> str:
    roles = random.choice(_ROLES)
    lines = [
        roles[no % 2] + _fill_numbers(random, random.choice(_SAYINGS))
        for no in range(2 * random.randint(1, 4))
    ]
    return "\n".join(lines)


def _draw_lines(random: Random, templates: tuple[str, ...]) -> str:
    return "\n".join(_fill_numbers(random, random.choice(templates)) for _ in range(10))


_WITHOUT_PEOPLE: dict[str, Callable[[Random], str]] = {
    "numeric data": lambda random: "\n".join(_draw_number_row(random) for _ in range(10)),
    "code": lambda random: _draw_lines(random, _CODE_LINES),
    "changelogs": lambda random: _draw_lines(random, _CHANGES),
    "dialogues": _draw_dialogue,
}

REGISTERS_WITHOUT_PEOPLE = tuple(_WITHOUT_PEOPLE)


def generate_texts_without_people(texts_per_register: int, seed: int = 1) -> list[LabelledText]:
    """Texts of numeric data, code, changelogs and dialogues, in which nothing is to be found."""
    random = Random(seed)  # noqa: S311 - test data
    return [
        LabelledText(draw(random), (), register)
        for register, draw in _WITHOUT_PEOPLE.items()
        for _ in range(texts_per_register)
    ]
