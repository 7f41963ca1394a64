"""Twenty tables with the columns that public data has: customers, tickets, chats, logs, records.

`SCHEMAS` holds a function per table; `build_schema` calls it. All people are invented: mail in
reserved domains, telephone numbers with 555, addresses of machines from the documentation ranges.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support import write_json_lines

ROWS = 48
Row = dict[str, Any]

# given name, surname, user name: of many origins, about half of them in no list of names
PEOPLE = [
    ("Maria", "Kowalski", "mkowalski"),
    ("Adaeze", "Nwokwuma", "adaeze_n"),
    ("Björk", "Sigmarsdal", "bjork.s"),
    ("Rajiv", "Patelkar", "rajivp82"),
    ("Nguyen", "Thilanhoa", "nthilan"),
    ("Zyq", "Blorbax", "zyqb"),
    ("Siobhan", "O'Meanery", "siobhan_om"),
    ("Fatima", "Al-Rashedi", "f.rashedi"),
    ("Yuki", "Tanabori", "yukitan"),
    ("Thandiwe", "Mbelukazi", "thandi77"),
    ("Jean-Luc", "Marchaison", "jlmarch"),
    ("Giulia", "Rossettani", "giuliar"),
    ("Łukasz", "Wróblewicz", "lwroblew"),
    ("Kwame", "Asantewo", "kwame_a"),
    ("Ingrid", "Sørdahlen", "ingridso"),
    ("Mehmet", "Yıldızeren", "myildiz"),
    ("Hina", "Qureshani", "hinaq"),
    ("João", "Figueiraldo", "jfigueir"),
    ("Tevita", "Fonokalafa", "tevitaf"),
    ("Peter", "Quistgaard", "pquist"),
    ("Aroha", "Tekanawaru", "aroha_t"),
    ("Dmitri", "Volkonarov", "dvolk"),
    ("Xiomara", "Villaquiran", "xiomarav"),
    ("Oluwaseun", "Adebowara", "seun.ade"),
]


@dataclass(frozen=True)
class Table:
    """The rows of a table, and what identifies people in them.

    format         Of the input file: `csv`, `jsonl` or `parquet`.
    text_column    For --text-column; None where the data needs no option.
    texts          Columns and fields of texts, which must not become codes.
    identifiers    Values in strings, none of which may be left.
    number_fields  Columns and fields of numbers that identify people; may be left for now.
    """

    format: str
    rows: list[Row]
    text_column: str | None
    texts: tuple[str, ...]
    identifiers: frozenset[str]
    number_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Person:
    """An invented person. What is read from it is an identifier of the table."""

    number: int
    planted: set[str] = field(repr=False)

    def _plant(self, value: str) -> str:
        self.planted.add(value)
        return value

    @property
    def first(self) -> str:
        return self._plant(PEOPLE[self.number % len(PEOPLE)][0])

    @property
    def last(self) -> str:
        return self._plant(PEOPLE[self.number % len(PEOPLE)][1])

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"

    @property
    def user(self) -> str:
        return self._plant(PEOPLE[self.number % len(PEOPLE)][2])

    @property
    def email(self) -> str:
        return self._plant(f"{self.user}@example.{('com', 'org', 'net')[self.number % 3]}")

    @property
    def digits(self) -> int:
        return 3125550100 + self.number % 100

    @property
    def phone(self) -> str:
        local = f"{self.number % 100 + 100:04}"
        forms = (f"+1 312 555 {local}", f"(312) 555-{local}", f"312-555-{local}", str(self.digits))
        return self._plant(forms[self.number % 4])

    @property
    def ssn(self) -> str:
        digits = f"{536221234 + 7 * self.number}"
        parts = (digits[:3], digits[3:5], digits[5:])
        return self._plant(("-".join(parts), digits)[self.number % 2])

    @property
    def ip(self) -> str:
        return self._plant(f"203.0.113.{self.number % 200 + 10}")

    @property
    def iban(self) -> str:
        account = f"WEST123456{98765432 + self.number}"
        digits = "".join(str(int(letter, 36)) for letter in f"{account}GB00")
        return self._plant(f"GB{98 - int(digits) % 97:02}{account}")

    @property
    def card(self) -> str:
        digits = f"4012888{88800000 + 31 * self.number}"
        doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(digits)]
        check = -sum(number // 10 + number % 10 for number in doubled) % 10
        return self._plant(f"{digits}{check}")


class People:
    """The people of a table, and the identifiers read from them."""

    def __init__(self) -> None:
        self.planted: set[str] = set()

    def __getitem__(self, number: int) -> Person:
        return Person(number, self.planted)

    def plant(self, value: str) -> str:
        self.planted.add(value)
        return value


def _take(values: str, number: int) -> str:
    """One of the values that bars separate, by its number."""
    parts = values.split("|")
    return parts[number % len(parts)]


def _date(number: int) -> str:
    return f"2024-{number % 12 + 1:02}-{number % 28 + 1:02}"


def _time(number: int) -> str:
    return f"{_date(number)}T{number % 24:02}:{number * 7 % 60:02}:00Z"


ASKED = (
    "How do I sort a list of records by two keys in Python?|Write a short poem about the first snow"
    " of the year.|Explain why the sky is blue to a child of eight years.|Give me three ideas for a"
    " vegetarian dinner that takes less than half an hour.|What is the difference between a process"
    " and a thread on Linux?"
)
ANSWERED = (
    "Sort with a key that returns a tuple of both fields, the more important one first.|White"
    " flakes come down without a sound, and cover roof and tree and ground.|Light from the sun has"
    " all colours, and the air scatters the blue part most.|Lentil soup, pasta with spinach, or a"
    " tray of roasted vegetables with rice.|A process has memory of its own; threads share that of"
    " their process."
)


def customers(who: People) -> Table:
    rows = [
        {
            "customer_id": f"C-{1000 + no}",
            "first_name": (one := who[no]).first,
            "last_name": one.last,
            "email": one.email,
            "phone": one.phone,
            "mobile_no": who[no + 3].phone,
            "ssn": one.ssn,
            "date_of_birth": f"19{60 + no % 40}-0{no % 9 + 1}-1{no % 9}",
            "street_address": f"{10 + no} Example Street",
            "city": _take("Springfield|Rivertown|Lakeside", no),
            "state": _take("IL|OH|TX|CA", no),
            "zip": f"{60600 + no}",
            "country": "US",
            "company": _take("Acme Tools|Globex|Initech", no),
            "job_title": _take("Engineer|Nurse|Accountant|Teacher", no),
            "segment": _take("retail|business", no),
            "signup_date": _date(no),
            "lifetime_value": f"{no * 13.5:.2f}",
            "is_active": _take("true|false", no),
            "last_login_ip": one.ip,
            "notes": f"Called on {_date(no)}; prefers mail to {one.email} and asks for a refund.",
        }
        for no in range(ROWS)
    ]
    return Table("csv", rows, "notes", ("notes", "job_title"), frozenset(who.planted))


def orders(who: People) -> Table:
    rows = [
        {
            "order_id": f"SO{70000 + no}",
            "order_date": _time(no),
            "customer_name": (one := who[no]).name,
            "customer_email": one.email,
            "billing_phone": one.phone,
            "shipping_address": f"{no + 1} Sample Road, Rivertown, OH 440{no % 90 + 10}",
            "product": _take("USB-C Cable 2m|Wireless Mouse|Desk Lamp|Notebook A5", no),
            "sku": f"SKU-{no % 7 + 100}",
            "quantity": str(no % 4 + 1),
            "unit_price": "12.90",
            "currency": _take("USD|EUR", no),
            "card_number": one.card,
            "payment_method": _take("card|paypal|invoice", no),
            "status": _take("shipped|pending|returned", no),
            "tracking_number": f"1Z999AA1{no:010}",
            "gift_message": f"Happy birthday, {one.first}! Enjoy the new things and see you soon.",
        }
        for no in range(ROWS)
    ]
    return Table("csv", rows, "gift_message", ("gift_message", "product"), frozenset(who.planted))


def support_tickets(who: People) -> Table:
    rows = [
        {
            "ticket_id": 5000 + no,
            "created_at": _time(no),
            "requester": (one := who[no]).name,
            "requester_email": one.email,
            "assignee": (agent := who[no % 5 + 12]).name,
            "subject": _take("Login fails|Invoice is wrong|Parcel is late", no),
            "description": f"I cannot log in since {_date(no)}. Please call me at {one.phone}, I am"
            " at home after six.",
            "status": _take("open|closed|pending", no),
            "priority": _take("low|high|urgent", no),
            "channel": _take("web|email|chat", no),
            "tags": ["billing", _take("vip|refund", no)],
            "satisfaction": no % 5 + 1,
            "comments": [
                {
                    "author": agent.name,
                    "body": "Thanks for the report, I look into it today and write again.",
                    "created_at": _time(no + 1),
                    "public": True,
                }
            ],
        }
        for no in range(ROWS)
    ]
    texts = ("subject", "description", "comments[].body", "tags[]")
    return Table("jsonl", rows, "description", texts, frozenset(who.planted))


def chat_messages(who: People) -> Table:
    rows = [
        {
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {
                    "role": "user",
                    "content": f"{_take(ASKED, no)} Send it to {who[no].email}, please.",
                },
                {"role": "assistant", "content": _take(ANSWERED, no)},
            ],
            "prompt_id": f"{no * 2654435761 % 2**32:08x}",
            "source": _take("forum|manual", no),
            "language": "en",
        }
        for no in range(ROWS)
    ]
    return Table("jsonl", rows, None, ("messages[].content",), frozenset(who.planted))


def chat_turns(who: People) -> Table:
    rows = [
        {
            "id": f"identity_{no}",
            "conversations": [
                {"from": "human", "value": f"{_take(ASKED, no)} My number is {who[no].phone}."},
                {"from": "gpt", "value": _take(ANSWERED, no)},
            ],
            "system": "",
            "category": _take("coding|writing|science", no),
        }
        for no in range(ROWS)
    ]
    return Table("jsonl", rows, None, ("conversations[].value",), frozenset(who.planted))


def chat_instructions(who: People) -> Table:
    rows = [
        {
            "instruction": _take(ASKED, no),
            "input": "" if no % 2 else f"Write it as a reply to {who[no].email}.",
            "output": _take(ANSWERED, no),
        }
        for no in range(ROWS)
    ]
    texts = ("instruction", "input", "output")
    return Table("jsonl", rows, None, texts, frozenset(who.planted))


def chat_pairs(who: People) -> Table:
    rows = [
        {
            "conversation_hash": f"{no * 40503 % 65536:04x}{no:028x}",
            "user": _take(ASKED, no),
            "assistant": _take(ANSWERED, no),
            "model": _take("model-small-1|model-large-2", no),
            "user_name": (one := who[no]).user,
            "hashed_ip": f"{no * 2654435761 % 2**32:032x}",
            "country": _take("France|Brazil|India", no),
            "timestamp": _time(no),
            "toxic": no % 9 == 0,
            "feedback": f"Good answer, thank you. You can reach me under {one.email} for more.",
        }
        for no in range(ROWS)
    ]
    texts = ("user", "assistant", "feedback")
    # `user` is not named by an option: its cells decide
    return Table("parquet", rows, "feedback", texts, frozenset(who.planted))


def chat_tools(who: People) -> Table:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Please write to {(one := who[no]).email}."},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {
                            "id": f"call_{no:04}",
                            "type": "function",
                            "function": {
                                "name": "send_mail",
                                "arguments": json.dumps(
                                    {"to": one.email, "phone": one.phone, "name": one.name}
                                ),
                            },
                        }
                    ],
                },
                {"role": "tool", "name": "send_mail", "content": "The message has been sent."},
            ],
            "tools": [{"name": "send_mail", "description": "Sends a mail to one recipient."}],
        }
        for no in range(ROWS)
    ]
    texts = ("messages[].content", "tools[].description")
    return Table("jsonl", rows, None, texts, frozenset(who.planted))


def preference_pairs(who: People) -> Table:
    def answer(no: int, start: str) -> list[Row]:
        return [
            {"role": "user", "content": _take(ASKED, no)},
            {"role": "assistant", "content": start + _take(ANSWERED, no)},
        ]

    rows = [
        {
            "prompt": _take(ASKED, no),
            "prompt_id": f"{no:032x}",
            "chosen": answer(no, "Of course. "),
            "rejected": answer(no + 1, f"Ask {who[no].email}. "),
            "score_chosen": 8.5,
            "score_rejected": 3.0,
            "annotator": who[no % 6].name,
            "rationale": "The first answer is to the point; the second one is about other things.",
        }
        for no in range(ROWS)
    ]
    texts = ("prompt", "chosen[].content", "rejected[].content", "rationale")
    return Table("parquet", rows, "prompt", texts, frozenset(who.planted))


def application_log(who: People) -> Table:
    rows = [
        {
            "timestamp": _time(no),
            "level": _take("INFO|WARN|ERROR", no),
            "logger": _take("app.auth|app.orders|app.mail", no),
            "message": f"user {(one := who[no]).email} logged in from {one.ip} in {no + 3} ms",
            "host": f"web-{no % 3}",
            "client_ip": one.ip,
            "x_forwarded_for": who[no + 50].ip,
            "user": one.user,
            "session_id": f"{no * 2654435761 % 2**32:08x}{no:024x}",
            "request_id": f"req-{no:06}",
            "method": _take("GET|POST", no),
            "path": f"/api/v1/orders/{no}",
            "status": 200 + no % 3 * 100,
            "duration_ms": no * 3.5,
            "user_agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0",
        }
        for no in range(ROWS)
    ]
    return Table("jsonl", rows, "message", ("message", "user_agent"), frozenset(who.planted))


def medical_records(who: People) -> Table:
    rows = [
        {
            "mrn": f"{4410000 + no}",
            "patient_name": (one := who[no]).name,
            "dob": f"19{50 + no % 45}-1{no % 3}-0{no % 9 + 1}",
            "sex": _take("F|M", no),
            "phone_number": one.phone,
            "attending_physician": (doctor := who[no % 4 + 8]).name,
            "referring_doctor": who[no % 3 + 14].name,
            "admission_date": _date(no),
            "department": _take("Cardiology|Oncology|Surgery", no),
            "icd10_code": _take("I10|E11.9|J45.0", no),
            "diagnosis": _take("Hypertension|Type 2 diabetes|Asthma", no),
            "medications": _take("lisinopril 10 mg|metformin 500 mg|salbutamol", no),
            "insurance_number": f"ZX{10000000 + no}",
            "emergency_contact": who[no + 5].name,
            "social_security_number": one.ssn,
            "clinical_note": f"Seen by Dr. {doctor.last}. The patient reports cough for three days"
            f" and no fever. Call {one.phone} with the results.",
        }
        for no in range(ROWS)
    ]
    texts = ("clinical_note", "diagnosis", "medications")
    return Table("csv", rows, "clinical_note", texts, frozenset(who.planted))


def code_reviews(who: People) -> Table:
    rows = [
        {
            "repo": _take("acme/server|acme/client", no),
            "pr_number": 300 + no,
            "title": _take("Fix the parser|Add retries|Remove dead code", no),
            "author": (one := who[no]).user,
            "author_email": one.email,
            "reviewer": (reviewer := who[no + 1]).user,
            "commit_sha": f"{no * 2654435761 % 2**32:08x}{no:032x}",
            "file_path": _take("src/parser.py|src/client.py", no),
            "line": no * 3,
            "language": "python",
            "diff_hunk": "@@ -1,2 +1,2 @@\n-    return value\n+    return value + 1",
            "comment": f"@{reviewer.user} could you add a test for the empty list before the merge?"
            f" CC {one.email}",
            "state": _take("approved|changes_requested", no),
            "created_at": _time(no),
        }
        for no in range(ROWS)
    ]
    texts = ("title", "diff_hunk", "comment")
    return Table("jsonl", rows, "comment", texts, frozenset(who.planted))


def products(who: People) -> Table:
    rows = [
        {
            "sku": f"AB-{no:05}",
            "name": f"{_take('Oak|Steel|Linen|Glass', no)} {_take('Chair|Lamp|Box', no)} {no} cm",
            "brand": _take("Acme|Globex|Initech|Umbrella", no),
            "manufacturer": _take("Acme Tools Ltd|Globex GmbH", no),
            "category": _take("Furniture > Chairs|Lighting > Lamps", no),
            "description": "A solid piece for home and office that is easy to clean and to move.",
            "price": f"{no + 0.99:.2f}",
            "color": _take("red|black|white", no),
            "ean": f"40{no * 7919 % 10**11:011}",
            "stock": str(no),
            "rating": "4.5",
            "supplier_contact": who[no % 8].email,
            "seller": _take("acme-store|globex-shop", no),
            "image_url": f"https://images.example.com/p/{no}.jpg",
        }
        for no in range(ROWS)
    ]
    texts = ("name", "description", "category", "brand", "manufacturer")
    return Table("csv", rows, "description", texts, frozenset(who.planted))


def survey_answers(who: People) -> Table:
    rows = [
        {
            "respondent_id": f"R{no:04}",
            "submitted_at": _time(no),
            "age_group": _take("18-24|25-34|35-44", no),
            "gender": _take("female|male|other", no),
            "country": _take("Kenya|Norway|Peru", no),
            "q1_satisfaction": str(no % 5 + 1),
            "q2_recommend": _take("Yes|No|Maybe", no),
            "What do you like best?": _take("The price|The fast service|Nothing", no),
            "Any other comments?": f"More colours, please. My phone is {(one := who[no]).phone} if"
            " you want to know more.",
            "Your name (optional)": one.name if no % 4 == 0 else "",
            "May we contact you? (e-mail)": one.email if no % 3 == 0 else "",
        }
        for no in range(ROWS)
    ]
    planted = {
        value for row in rows for value in list(row.values())[-2:] if value and "@" in value
    } | {one for one in who.planted if "555" in one}
    named = {part for row in rows for part in row["Your name (optional)"].split()}
    texts = ("What do you like best?", "Any other comments?")
    return Table("csv", rows, "Any other comments?", texts, frozenset(planted | named))


def bug_reports(who: People) -> Table:
    rows = [
        {
            "bug_id": 90000 + no,
            "title": _take("Crash on start|Wrong total in the report|Slow search", no),
            "body": f"The program stops after the start. Log of {(one := who[no]).email} is"
            " attached; the crash happens with every file.",
            "reporter": one.name,
            "assigned_to": who[no % 5].email,
            "cc": [who[no + 1].email, who[no + 2].email],
            "component": _take("core|ui|network", no),
            "severity": _take("minor|major|blocker", no),
            "status": _take("NEW|RESOLVED", no),
            "version": _take("1.2.3|2.0.0", no),
            "steps_to_reproduce": "1. Start the program 2. Open a file 3. Wait for ten seconds",
            "environment": {
                "os": _take("Linux|Windows", no),
                "browser": "Firefox 115",
                "ip_address": one.ip,
            },
            "created": _time(no),
        }
        for no in range(ROWS)
    ]
    texts = ("title", "body", "steps_to_reproduce", "component")
    return Table("jsonl", rows, "body", texts, frozenset(who.planted))


def forum_posts(who: People) -> Table:
    def author(one: Person) -> Row:
        return {
            "username": one.user,
            "display_name": one.name,
            "profile_url": f"https://forum.example.org/u/{one.user}",
            "joined": _date(one.number),
            "reputation": one.number * 10,
        }

    rows = [
        {
            "post_id": no,
            "thread_title": _take("Which tent for winter?|Trains in the north", no),
            "author": author(who[no]),
            "text": f"I tried both and can say more to {who[no].email}. The small one is lighter.",
            "likes": no % 7,
            "posted_at": _time(no),
            "replies": [
                {
                    "author": author(who[no + 1]),
                    "text": "Thank you, that helps me a lot with the choice between them.",
                    "quoted_user": who[no].user,
                }
            ],
        }
        for no in range(ROWS)
    ]
    texts = ("thread_title", "text", "replies[].text")
    return Table("jsonl", rows, None, texts, frozenset(who.planted))


def hr_records(who: People) -> Table:
    rows = [
        {
            "employee_id": 7000 + no,
            "employee_name": (one := who[no]).name,
            "preferred_name": one.first,
            "manager": who[no % 4].name,
            "department": _take("Sales|Legal|Research", no),
            "position": _take("Senior Analyst|Team Lead|Intern", no),
            "salary": 40000.0 + no * 250,
            "hire_date": _date(no),
            "work_email": one.email,
            "personal_phone": one.digits + 100,
            "ssn": 536221234 + 7 * no,
            "bank_account_iban": one.iban,
            "emergency_contact_name": who[no + 5].name,
            "emergency_contact_phone": who[no + 5].phone,
            "nationality": _take("Polish|Kenyan|Peruvian", no),
            "performance_review": f"Works well with {who[no % 4].last} and learns fast; the goals"
            " for the next year are set and agreed.",
        }
        for no in range(ROWS)
    ]
    texts = ("performance_review", "position", "department")
    numbers = ("personal_phone", "ssn")
    planted = frozenset(who.planted)
    return Table("parquet", rows, "performance_review", texts, planted, numbers)


def bank_transfers(who: People) -> Table:
    rows = [
        {
            "transaction_id": f"TX{no:08}",
            "booking_date": _date(no),
            "sender_name": (one := who[no]).name,
            "sender_iban": one.iban,
            "beneficiary": (other := who[no + 6]).name,
            "beneficiary_iban": other.iban,
            "bic": "WESTGB2LXXX",
            "account_number": who.plant(f"{20481632 + 97 * no}"),
            "amount": f"{no * 17.25:.2f}",
            "currency": "EUR",
            "type": _take("SEPA|card|cash", no),
            "purpose": f"Rent for {_date(no)[:7]}, flat of {other.name}, thank you very much",
        }
        for no in range(ROWS)
    ]
    return Table("csv", rows, "purpose", ("purpose",), frozenset(who.planted))


def events_log(who: People) -> Table:
    rows = [
        {
            "event_id": f"{no:08x}-0000-4000-8000-{no:012x}",
            "event_name": _take("page_view|sign_up|purchase", no),
            "ts": 1700000000 + no,
            "text": _take("opened the start page|signed up|bought a lamp", no),
            "anonymous_id": f"anon-{no:05}",
            "properties": json.dumps(
                {
                    "email": (one := who[no]).email,
                    "first_name": one.first,
                    "last_name": one.last,
                    "plan": _take("free|pro", no),
                    "phone": one.phone,
                }
            ),
            "context": {
                "ip": one.ip,
                "user_name": one.user,
                "device": {
                    "id": f"{no:016x}",
                    "model": _take("Phone 12|Tablet 3", no),
                    "mac": who.plant(f"00:00:5e:00:53:{no:02x}"),
                    "phone": one.digits + 100,
                },
                "geo": {"city": _take("Springfield|Lakeside", no), "lat": 41.5, "lon": -87.6},
                "page": {"url": "https://www.example.com/start", "title": "Start page"},
            },
        }
        for no in range(ROWS)
    ]
    planted = frozenset(who.planted)
    numbers = ("context.device.phone",)
    return Table("jsonl", rows, None, ("text", "context.page.title"), planted, numbers)


def contacts_german(who: People) -> Table:
    rows = [
        {
            "Kundennummer": f"K{no:05}",
            "Anrede": _take("Frau|Herr", no),
            "Vorname": (one := who[no]).first,
            "Nachname": one.last,
            "Geburtsdatum": f"0{no % 9 + 1}.11.19{60 + no % 40}",
            "Straße": f"Beispielweg {no + 1}",
            "PLZ": f"{10115 + no}",
            "Ort": _take("Musterstadt|Neudorf", no),
            "Telefonnummer": one.phone,
            "E-Mail": one.email,
            "Ansprechpartner": who[no % 3].name,
            "Benutzername": one.user,
            "Bemerkung": f"Bitte nur per Mail an {one.email} schreiben, telefonisch nicht"
            " erreichbar.",
        }
        for no in range(ROWS)
    ]
    return Table("csv", rows, "Bemerkung", ("Bemerkung", "Anrede"), frozenset(who.planted))


SCHEMAS: dict[str, Callable[[People], Table]] = {
    build.__name__: build
    for build in (
        customers,
        orders,
        support_tickets,
        chat_messages,
        chat_turns,
        chat_instructions,
        chat_pairs,
        chat_tools,
        preference_pairs,
        application_log,
        medical_records,
        code_reviews,
        products,
        survey_answers,
        bug_reports,
        forum_posts,
        hr_records,
        bank_transfers,
        events_log,
        contacts_german,
    )
}


def build_schema(name: str) -> Table:
    """The table of this name; the same rows in every call."""
    return SCHEMAS[name](People())


def write_table(table: Table, folder: Path) -> Path:
    """The table as a file in its format."""
    path = folder / f"in.{table.format}"
    if table.format == "jsonl":
        return write_json_lines(path, table.rows)
    if table.format == "parquet":
        pq.write_table(pa.Table.from_pylist(table.rows), path)
        return path
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [*table.rows[0]])
        writer.writeheader()
        writer.writerows(table.rows)
    return path
