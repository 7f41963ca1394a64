"""Strings that look like names but are data: a change of one of them changes every emitted corpus.

A plan's hash may change only with a plan's TOML or with the VERSION of a part. Record the new one
then, and end the subject of the commit with `[bytes]`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sanitize
from sanitize.core.keys import Key
from sanitize.pipeline import canaries
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.plans.shipped_plans import plan_names

PLAN_HASHES = {
    "baseline": "9438e8d27acd1a90",
    "blacklist": "77569b6b2589cc33",
    "dp_mlm": "a8cb10ac6a21c91e",
    "surrogates": "32728d8311cd556b",
    "header_dedup": "d5e864436f2012f1",
    "mask_words": "94549228f655b8fd",
    "names": "7c4fc227db0302f1",
    "pseudonymize": "a5310a44827333b8",
    "redact": "9e088fb1e4f33ebf",
    "rmft": "986c1fe740919baf",
    "strict": "a8bb9c4dcc8dc44e",
}
# purposes that the runs below pass to Key.subkey; {kind} stands for the name of a kind
PURPOSES = {
    "known_values",
    "surrogates/EMAIL_ADDRESS PHONE_NUMBER IP_ADDRESS PERSON",
    "doc_id",
    "draw/drill/{kind}",
    "draw/pseudonym/corpus/anchor",
    "draw/pseudonym/corpus/value",
    "draw/pseudonym/corpus/word",
    "draw/rmft/{kind}",
    "erased/mailbox",
    "erased/user",
    "known",
    "person/word",
    "place",
    "pseudonym/corpus/{kind}",
    "pseudonym/document/{kind}",
    "pseudonym/none/{kind}",
    "pseudonym/user_id",
    "published",
    "sample",
    "user",
    "value_id/{kind}",
}


# the kinds of the recorded hashes and texts; a later kind of every plan does not change what is
# done with these
KINDS = [
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "IP_ADDRESS",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "SECRET",
    "CRYPTO",
    "MAC_ADDRESS",
    "X500_NAME",
]
KINDS += ["MESSAGE_ID", "URL"]


def load_plan_of_recorded_kinds(name: str) -> Plan:
    kinds = (
        [*KINDS[:3], "PERSON", *KINDS[3:]]
        if name in ("names", "redact", "surrogates", "pseudonymize")
        else KINDS
    )
    if name == "strict":
        kinds = [
            *KINDS[:3],
            "PERSON",
            *KINDS[3:],
            "AGE",
            "DATE_TIME",
            *(one.name for one in load_plan(name).custom_kinds),
            "USER_NAME",
        ]
    kinds = [*kinds, "USER_NAME"] if name in ("redact", "surrogates", "pseudonymize") else kinds
    return load_plan(name, [f"find.kinds={json.dumps(kinds)}"])


def test_plan_hashes() -> None:
    assert {name: load_plan_of_recorded_kinds(name).hash() for name in PLAN_HASHES} == PLAN_HASHES
    assert PLAN_HASHES.keys() == set(plan_names())


def test_key_of_a_seed() -> None:
    assert (
        Key.from_seed(7).secret.hex()
        == "aa88c080a0b1cc77a19125ea075b65927e678ce4fc97452090f817ab2494815c"
    )


def test_texts_of_canaries() -> None:
    # as recorded
    plan = load_plan("redact", [f"find.kinds={json.dumps(KINDS)}", 'find.finders=["patterns"]'])
    key = Key(
        hashlib.blake2b(plan.hash().encode(), digest_size=32, person=b"sanitize-drill").digest(),
        is_public=True,
    )
    kinds = sorted(kind for kind in plan.leak_checked_kinds if kind in canaries.canary_examples())
    texts, _ = canaries._build_documents(key, kinds, 1, canaries._DEFAULT_SHAPES)
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    assert digest == "328cf81294599f4c9013750b573962241003d5f272b2e03391edd528e85fe648"


@pytest.mark.slow
def test_purposes_of_subkeys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    purposes: set[str] = set()
    get_subkey, kinds = Key.subkey, sanitize.list_kinds()

    def subkey(self: Key, purpose: str) -> bytes:
        head, _, last = purpose.rpartition("/")
        purposes.add(f"{head}/{{kind}}" if last in kinds else purpose)
        return get_subkey(self, purpose)

    monkeypatch.setattr(Key, "subkey", subkey)
    canaries._RESULTS.clear()
    texts = [
        f"Ann Roe <ann.roe@example.com> wrote on {day} May 2020 from 203.0.113.{day}: call"
        " 212-555-0123."
        for day in range(1, 9)
    ]
    pq.write_table(pa.table({"text": texts, "user_id": ["u", "v"] * 4}), tmp_path / "in.parquet")
    (tmp_path / "known.csv").write_text("kind,value\nPERSON,Ann Roe\n")
    (tmp_path / "who.txt").write_text("user:v\n")
    linked_plan = (
        '[find]\nkinds = ["PERSON", "EMAIL_ADDRESS"]\nfinders = ["patterns", "names",'
        ' "known"]\n[[edit]]\nuse = "pseudonymize"\nkinds = ["PERSON", "EMAIL_ADDRESS"]\nscope ='
        ' "corpus"\nlinked = true\n'
    )
    (tmp_path / "linked.toml").write_text(linked_plan)
    runs = [
        (str(tmp_path / "linked.toml"), [], {}),
        ("names", [], {"known": tmp_path / "known.csv"}),
        ("blacklist", [], {"sample": 0.5}),
        *(
            ("pseudonymize", [f"edit.0.scope={scope}"], {})
            for scope in ("corpus", "document", "none")
        ),
    ]
    for number, (plan, changes, settings) in enumerate(runs):
        run_with_settings(
            tmp_path / "in.parquet",
            tmp_path / f"out{number}",
            load_plan(plan, changes),
            settings=Settings(workers=1, seed=7, **settings),
        )
    sanitize.subject(tmp_path / "out1.private", tmp_path / "who.txt", erase=True, seed=7, workers=1)
    assert purposes == PURPOSES
