"""Names of fields, keys and columns lead to the kind that they say, in any spelling."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kinds.field_names import find_kind_of_field, names_people, split_field_name
from sanitize.kinds.kind import all_kinds

LABELS = [(label, name) for name, kind in all_kinds().items() for label in kind.field_names]
SPELLINGS = {
    "snake": "_".join,
    "kebab": "-".join,
    "blanks": " ".join,
    "capitals": lambda words: "_".join(words).upper(),
    "camel": lambda words: words[0] + "".join(word.capitalize() for word in words[1:]),
    "pascal": lambda words: "".join(word.capitalize() for word in words),
    "tag": lambda words: f"<{'_'.join(words)}>",
    "namespace": lambda words: f"<x:{'_'.join(words)}>",
    "quoted": lambda words: f'"{"_".join(words)}"',
    "full width": lambda words: "_".join(words).translate(
        {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
    ),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_label_is_found_in_every_spelling(spelling: str) -> None:
    wrong = [
        (label, name)
        for label, name in LABELS
        if find_kind_of_field(SPELLINGS[spelling](label.split(" "))) != name
    ]
    assert not wrong


def test_a_label_belongs_to_one_kind_and_is_in_its_plain_form() -> None:
    kinds_by_label = defaultdict(list)
    for label, name in LABELS:
        kinds_by_label[label.replace(" ", "")].append(name)
        assert " ".join(split_field_name(label)) in (
            label,
            label.replace("v4", "v 4").replace("v6", "v 6"),
        )
    assert not [label for label, names in kinds_by_label.items() if len(set(names)) > 1]
    assert len(LABELS) > 350 and len({name for _, name in LABELS}) > 15


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("customer_phone_number", "PHONE_NUMBER"),
        ("phone2", "PHONE_NUMBER"),
        ("Téléphone", "PHONE_NUMBER"),
        ("TELÉFONO_2", "PHONE_NUMBER"),
        ("携帯番号", "PHONE_NUMBER"),
        ("POSTGRES_PASSWORD", "SECRET"),
        ("IPv4Address", "IP_ADDRESS"),
        ("home_address", "STREET_ADDRESS"),
        ("ip_address", "IP_ADDRESS"),
        ("EMAIL_ADDRESS", "EMAIL_ADDRESS"),
        ("Phone (home)", "PHONE_NUMBER"),
        ("電話番号（自宅）", "PHONE_NUMBER"),
        ("電話番号2", "PHONE_NUMBER"),
        ("May we contact you? (e-mail)", "EMAIL_ADDRESS"),
        ("x_forwarded_for", "IP_ADDRESS"),
        ("requested_by", "PERSON"),
        ("quoted_user", "USER_NAME"),
        ("hashed_ip", None),
        ("()", None),
        ("phone_count", None),
        ("email_verified", None),
        ("is_email", None),
        ("card_number_hash", None),
        ("n_urls", None),
        ("token", None),
        ("tokens", None),
        ("name", None),
        ("text", None),
        ("membership", None),
        ("description", None),
        ("script", None),
        ("", None),
        ("_", None),
        ("7", None),
        ("x" * 200 + "_phone", None),
        ("ann.lee@example.com", None),
    ],
)
def test_names(name: str, kind: str | None) -> None:
    assert find_kind_of_field(name) == kind


@given(st.text(max_size=90))
def test_any_text_is_split(name: str) -> None:
    words = split_field_name(name)
    assert all(word and word == word.casefold() for word in words)
    assert find_kind_of_field(name) is None or words


PERSON_COLUMNS = [
    *(
        "author",
        "Author",
        "sender",
        "from",
        "From",
        "to",
        "cc",
        "username",
        "user",
        "user_name",
        "name",
        "full_name",
        "firstName",
    ),
    *(
        "last-name",
        "surname",
        "post_author",
        "mail.sender",
        "created_by",
        "patient",
        "display name",
        "screenName",
        "speaker",
        "login",
    ),
    *("owner", "repo_owner", "assignee", "custodian", "realname", "screenname", "nick", "writer"),
    *("manager", "annotator", "active_user", "name_2", "Sachbearbeiter", "担当者", "nombre"),
]
OTHER_COLUMNS = [
    *(
        "text",
        "title",
        "subject",
        "file_name",
        "model_name",
        "dataset_name",
        "user_agent",
        "from_date",
        "n_authors_found",
        "source",
        "url",
    ),
    *(
        "role",
        "tokens",
        "language",
        "nameplate",
        "fromage",
        "usernames_count",
        "author_bio",
        "owner_type",
        "is_user",
        "n_users",
        "user_prompt",
        "package_manager",
        "manager_level",
    ),
]


@pytest.mark.parametrize("name", PERSON_COLUMNS)
def test_columns_that_name_people(name: str) -> None:
    assert names_people(name)


@pytest.mark.parametrize("name", OTHER_COLUMNS)
def test_columns_that_do_not(name: str) -> None:
    assert not names_people(name)


@pytest.mark.parametrize("name", ["name", "from", "manager", "active_user", "payee", "changed_by"])
def test_names_that_things_have_too_do_not_surely_name_people(name: str) -> None:
    assert names_people(name) and not names_people(name, surely=True)
