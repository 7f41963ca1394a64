"""Plans: shipped plans cover every kind, errors of an invalid plan are specific, and the hash
covers all settings of the output."""

from __future__ import annotations

import tomllib
from pathlib import Path

import polars as pl
import pytest

from sanitize.core.part_protocols import list_part_names
from sanitize.errors import PlanError
from sanitize.inspection.preview import explain_with_settings
from sanitize.kinds.kind import Kind, builtin_kinds, get_kind, list_kinds
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.plan import Plan, load_plan
from sanitize.plans.settings import Settings
from sanitize.plans.shipped_plans import plan_names

# the other kinds need further finders
KINDS = {name: kind for name, kind in list_kinds().items() if kind.pattern}

# (editor, kept occurrences) in each shipped plan by kind, by category, or for all other kinds;
# None: left
RMFT, REDACTED = ("rmft", 1), ("redact", 0)
SHIPPED_PLANS: dict[str, dict[str, tuple[str, int] | None]] = {
    "rmft": {"contact": RMFT, "IP_ADDRESS": RMFT, "resource": None, "*": REDACTED},
    "surrogates": {"*": ("rmft", 0)},
    "redact": {"*": REDACTED},
    "pseudonymize": {"account": REDACTED, "demographic": REDACTED, "*": ("pseudonymize", 0)},
    "strict": {"time": ("generalize", 0), "demographic": ("generalize", 0), "*": REDACTED},
    "baseline": {"*": None},
    "dp_mlm": {"*": ("dp_mlm", 0)},
    "blacklist": {"*": None},
    "mask_words": {"*": ("mask_words", 0)},
    "names": {"contact": RMFT, "IP_ADDRESS": RMFT, "PERSON": RMFT, "resource": None, "*": REDACTED},
    "header_dedup": {
        "EMAIL_ADDRESS": ("header_dedup", 0),
        **dict.fromkeys(["financial", "identifier", "credential"], REDACTED),
        "*": None,
    },
}
# the kinds beyond the default ones that a shipped plan looks for
PEOPLE_KINDS = {"PERSON", "USER_NAME", "USER_AT_HOST", "BANK_ACCOUNT", "STREET_ADDRESS"}
LABELLED_KINDS = {
    "COORDINATES",
    "DATE_OF_BIRTH",
    "IDENTITY_CARD",
    "INSURANCE_NUMBER",
    "LICENSE_NUMBER",
    "NATIONAL_ID",
    "PASSPORT_NUMBER",
    "RECORD_NUMBER",
    "TAX_NUMBER",
    "VEHICLE_ID",
}
NAME_KINDS = {
    "names": {"PERSON"},
    **dict.fromkeys(("redact", "surrogates", "pseudonymize"), PEOPLE_KINDS | LABELLED_KINDS),
}
NAME_KINDS["strict"] = {
    *PEOPLE_KINDS,
    *LABELLED_KINDS,
    "DEVICE_ID",
    "DATE_TIME",
    "AGE",
    *(custom.name for custom in load_plan("strict").custom_kinds),
}


def test_shipped_plans_are_complete() -> None:
    assert set(SHIPPED_PLANS) == set(plan_names())
    assert plan_names() == sorted(plan_names())


@pytest.mark.parametrize("name", SHIPPED_PLANS)
def test_a_shipped_plan_covers_every_kind(name: str) -> None:
    plan, decisions = load_plan(name), SHIPPED_PLANS[name]
    expected_kinds = set(KINDS) | NAME_KINDS.get(name, set())
    assert set(plan.find.kinds) == expected_kinds
    assert set(plan.editor_no_by_kind) | set(plan.leave) == expected_kinds and not set(
        plan.editor_no_by_kind
    ) & set(plan.leave)
    editor_by_kind = {
        kind: (plan.editors[number].use, plan.editors[number].keep)
        for kind, number in plan.editor_no_by_kind.items()
    }
    for kind in expected_kinds:
        category = (
            next((custom.category for custom in plan.custom_kinds if custom.name == kind), None)
            or get_kind(kind).category
        )
        entry = next(entry for entry in (kind, category, "*") if entry in decisions)
        assert editor_by_kind.get(kind) == decisions[entry], kind


@pytest.mark.parametrize("name", SHIPPED_PLANS)
@pytest.mark.parametrize(
    "kind",
    [kind for kind in builtin_kinds().values() if kind.name not in KINDS],
    ids=lambda kind: kind.name,
)
def test_a_shipped_plan_decides_about_a_kind_that_is_added_to_it(name: str, kind: Kind) -> None:
    changes = [
        f'find.kinds=["default", "PERSON", "{kind.name}"]',
        'find.finders=["patterns", "names", "known"]',
    ]
    own = load_plan(name).custom_kinds
    changes[0] = changes[0].replace('"default"', '"default", "DATE_TIME"') if own else changes[0]
    plan = load_plan(
        name, [*changes, f'find.countries=["{kind.country}"]'] if kind.country else changes
    )
    assert (kind.name in plan.editor_no_by_kind) != (kind.name in plan.leave)


@pytest.mark.parametrize("name", SHIPPED_PLANS)
def test_removal_policies_of_shipped_plans(name: str) -> None:
    plan = load_plan(name)
    assert plan.name == name and plan.about.endswith(".")
    assert plan.publishable == (name not in ("baseline", "blacklist", "dp_mlm", "header_dedup"))
    policies = {editor.use + str(editor.keep): editor.removal_policy for editor in plan.editors}
    expected_policies = {
        use + str(keep): "keep" if keep else "erase"
        for use, keep in set(SHIPPED_PLANS[name].values()) - {None}
    }
    assert policies == {
        use: "ledger" if use in ("header_dedup0", "dp_mlm0") else policy
        for use, policy in expected_policies.items()
    }
    assert not [word for word in ("no pii", "anonym", "complian") if word in plan.about.lower()]


@pytest.mark.parametrize("name", SHIPPED_PLANS)
def test_a_publishable_plan_leaves_only_categories_and_kinds_that_it_names(name: str) -> None:
    """A kind of a later version is then edited unless it is of such a category."""
    source = tomllib.loads(
        Path(load_plan.__code__.co_filename).with_name(f"{name}.toml").read_text("utf-8")
    )
    assert not source.get("publishable", True) or "*" not in source.get("leave", ())


def test_surrogates_keep_no_part_of_a_value() -> None:
    (editor,) = load_plan("surrogates").editors
    assert (editor.anchors, editor.stores) == ((), "curated")


# ---- plans from files ----

VALID_PLAN = """
leave = ["URL"]
[find]
kinds = ["EMAIL_ADDRESS", "URL"]
[[edit]]
use = "rmft"
kinds = ["EMAIL_ADDRESS"]
"""


def write_plan(folder: Path, text: str = VALID_PLAN) -> str:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_a_plan_from_a_file(tmp_path: Path) -> None:
    plan = load_plan(write_plan(tmp_path))
    assert (plan.name, plan.leave, plan.editor_no_by_kind, plan.publishable) == (
        "mine",
        ("URL",),
        {"EMAIL_ADDRESS": 0},
        True,
    )
    assert plan.find.finders == ("patterns",)
    assert plan.editors[0].keep == 1


def test_the_first_editor_of_a_kind_handles_it(tmp_path: Path) -> None:
    plan = load_plan(
        write_plan(
            tmp_path, VALID_PLAN + '[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS", "URL"]\n'
        )
    )
    assert plan.editor_no_by_kind == {"EMAIL_ADDRESS": 0, "URL": 1}
    explanation = (
        "without effect: the first editor that names a kind handles all of its occurrences, "
    )
    assert plan.ineffective_settings == [
        f"leave names URL {explanation}edit[1].kinds (redact)",
        f"edit[1].kinds names EMAIL_ADDRESS {explanation}edit[0].kinds (rmft)",
    ]
    assert not load_plan("rmft").ineffective_settings


def test_ineffective_settings_are_reported(tmp_path: Path) -> None:
    """Reported by the run and by `explain`: a second editor of a kind would silently have no
    effect."""
    pl.DataFrame({"text": ["ann@example.com"]}).write_parquet(tmp_path / "in.parquet")
    plan = load_plan(
        write_plan(
            tmp_path, VALID_PLAN + '[[edit]]\nuse = "redact"\nkinds = ["EMAIL_ADDRESS", "URL"]\n'
        )
    )
    summary = run_with_settings(
        tmp_path / "in.parquet", tmp_path / "out", plan, settings=Settings(seed=1, workers=1)
    )
    explanation = explain_with_settings(
        [tmp_path / "in.parquet"], plan, Settings(seed=1, workers=1)
    )
    assert summary.notes == explanation.notes == plan.ineffective_settings


INVALID_PLANS = [
    (
        "",
        'use = "rmft"',
        'use = "rmtf"',
        [
            "mine.toml: edit[0].use = 'rmtf'",
            f"nown: {', '.join(list_part_names('edit'))}",
            "did you mean rmft?",
        ],
    ),
    ("no use", 'use = "rmft"\n', "", ["mine.toml: edit[0] has no `use`", "redact, rmft"]),
    (
        "unknown setting",
        'use = "rmft"',
        'use = "rmft"\nkep = 1',
        ["mine.toml: edit[0].kep: unknown key", "did you mean keep?"],
    ),
    (
        "wrong value",
        'use = "rmft"',
        'use = "rmft"\nkeep = -1',
        ["mine.toml: edit[0].keep", "expected 0 or more"],
    ),
    (
        "wrong type",
        'use = "rmft"',
        'use = "rmft"\nkeep = "two"',
        ["mine.toml: edit[0].keep: expected a whole number"],
    ),
    (
        "wrong choice",
        'use = "rmft"',
        'use = "rmft"\nstores = "mine"',
        ["mine.toml: edit[0].stores", "curated"],
    ),
    (
        "redact keeps none",
        'use = "rmft"',
        'use = "redact"\nkeep = 1',
        ["mine.toml: edit[0].keep", "0"],
    ),
    (
        "unknown key",
        'leave = ["URL"]',
        'leve = ["URL"]',
        ["mine.toml: leve: unknown key", "did you mean leave?"],
    ),
    # regression: the message listed the keys of the whole plan, not those of [find]
    (
        "unknown key of find",
        "[find]",
        '[find]\nfinder = ["patterns"]',
        ["mine.toml: find.finder: unknown key", "did you mean finders?"],
    ),
    (
        "blacklist.k too small",
        "[find]",
        "[blacklist]\nk = 0\n[find]",
        ["mine.toml: blacklist.k", "expected 1 or more"],
    ),
    (
        "blacklist.n too large",
        "[find]",
        "[blacklist]\nn = 4\n[find]",
        ["mine.toml: blacklist.n", "expected 3 or less"],
    ),
    (
        "unknown key of blacklist",
        "[find]",
        "[blacklist]\ndirekt = true\n[find]",
        ["blacklist.direkt: unknown key", "did you mean direct?"],
    ),
    (
        "masks without a list",
        'use = "rmft"',
        'use = "mask_words"',
        ["edit[0].use = 'mask_words'", "add a [blacklist] table to the plan"],
    ),
    (
        "masks unlisted direct words",
        '[[edit]]\nuse = "rmft"',
        '[blacklist]\ndirect = false\n[[edit]]\nuse = "mask_words"',
        ["edit[0].reasons names direct", "blacklist.direct is false"],
    ),
    (
        "masks unlisted indirect words",
        '[[edit]]\nuse = "rmft"',
        '[blacklist]\nk = 1\n[[edit]]\nuse = "mask_words"\nreasons = ["direct", "indirect"]',
        ["edit[0].reasons names indirect", "blacklist.k = 1 lists no indirect identifiers"],
    ),
    (
        "kinds without the direct reason",
        'use = "rmft"',
        'use = "mask_words"\nreasons = ["indirect"]',
        ["mine.toml: edit[0]", 'needs the reason "direct"'],
    ),
    ("no find", '[find]\nkinds = ["EMAIL_ADDRESS", "URL"]', "", ["mine.toml: find"]),
    (
        "unknown finder",
        "[find]",
        '[find]\nfinders = ["pattern"]',
        ["mine.toml: find.finders", "did you mean patterns?"],
    ),
    (
        "text instead of a list",
        "[find]",
        '[find]\ncountries = "DE"',
        ["mine.toml: find.countries: expected a list in brackets, such as"],
    ),
    (
        "list instead of a table",
        "[find]",
        '[find]\nallow = ["x"]',
        ["mine.toml: find.allow: expected a table, such as { NAME = ... }"],
    ),
    (
        "no finder at all",
        "[find]",
        "[find]\nfinders = [3]",
        ["mine.toml: find.finders[0]: expected text in quotes"],
    ),
    ("missing", "[find]", "[[kind]]\n[find]", ["mine.toml: kind[0].name: is missing"]),
    (
        "unknown kind",
        '"URL"]\n[[',
        '"URL", "EMAIL_ADRESS"]\n[[',
        ["find.kinds", "'EMAIL_ADRESS'", "did you mean EMAIL_ADDRESS?"],
    ),
    (
        "left but not found",
        'leave = ["URL"]',
        'leave = ["URL", "US_SSN"]',
        ["leave names US_SSN", "not in find.kinds"],
    ),
    (
        "edited but not found",
        'kinds = ["EMAIL_ADDRESS"]',
        'kinds = ["EMAIL_ADDRESS", "US_SSN"]',
        ["edit[0].kinds names US_SSN"],
    ),
    (
        "unknown kind left",
        'leave = ["URL"]',
        'leave = ["URI"]',
        ["leave: there is no kind 'URI'; did you mean URL? Known: "],
    ),
    (
        "undecided",
        'leave = ["URL"]',
        "",
        ["mine.toml: URL is found, but no editor names it or its category (resource)", "`leave`"],
    ),
    (
        "unknown category",
        '["EMAIL_ADDRESS"]',
        '["contacts"]',
        ["edit[0].kinds: there is no kind 'contacts'", "did you mean contact?"],
    ),
    (
        "undecided category",
        'kinds = ["EMAIL_ADDRESS"]',
        'kinds = ["network"]',
        ["EMAIL_ADDRESS is found", "its category (contact)"],
    ),
    (
        "default is no decision",
        'leave = ["URL"]',
        'leave = ["default"]',
        ["leave: there is no kind 'default'"],
    ),
    (
        "no category of find rules",
        "[find]",
        '[find]\nallow = {contact = ["x"]}',
        ["mine.toml: find.allow: a key is not the name of a kind"],
    ),
    (
        "category without finder",
        '"URL"]\n[[',
        '"URL", "person"]\n[[',
        ["mine.toml: PERSON has no pattern", "add one of fields, known"],
    ),
    ("no TOML", "[find]", "[find", ["mine.toml: not TOML"]),
    (
        "unknown dropper",
        "[find]",
        '[[drop]]\nuse = "near_dups"\n[find]',
        ["mine.toml: drop[0].use = 'near_dups'", "did you mean near_dup?"],
    ),
]


@pytest.mark.parametrize(
    ("_case", "old", "new", "expected_parts"),
    INVALID_PLANS,
    ids=[case[0] or "unknown editor" for case in INVALID_PLANS],
)
def test_errors_of_an_invalid_plan_are_specific(
    tmp_path: Path, _case: str, old: str, new: str, expected_parts: list[str]
) -> None:
    assert old in VALID_PLAN
    with pytest.raises(PlanError) as caught:
        load_plan(write_plan(tmp_path, VALID_PLAN.replace(old, new)))
    message = str(caught.value)
    assert "\n" not in message and caught.value.exit_code == 2
    assert [part for part in expected_parts if part not in message] == []


@pytest.mark.parametrize("name", ["rmtf", "nowhere.toml", "sanitize/plans/rmft"])
def test_an_unknown_plan_lists_known_plans(name: str) -> None:
    with pytest.raises(
        PlanError,
        match=f"neither a shipped plan nor a file; .*nown: {', '.join(plan_names())}",
    ):
        load_plan(name)


def test_a_similar_plan_is_suggested() -> None:
    with pytest.raises(PlanError, match="did you mean rmft?"):
        load_plan("rmtf")


def test_a_plan_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="mine.toml: cannot be read"):
        load_plan(str(tmp_path / "mine.toml"))


# ---- categories ----

GROUPED_PLAN = """
leave = ["resource"]
[find]
kinds = ["default", "time"]
[[edit]]
use = "redact"
kinds = ["*"]
[[edit]]
use = "rmft"
kinds = ["contact", "IP_ADDRESS"]
"""


def test_the_most_specific_entry_decides_about_a_kind(tmp_path: Path) -> None:
    plan = load_plan(write_plan(tmp_path, GROUPED_PLAN))
    assert plan.leave == ("MESSAGE_ID", "URL")
    assert plan.editors[1].kinds == ("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS")
    assert {"MAC_ADDRESS", "DATE_TIME", "US_SSN"} <= set(
        plan.editors[0].kinds
    ) and not plan.ineffective_settings
    named = load_plan(
        write_plan(tmp_path, GROUPED_PLAN.replace('["resource"]', '["resource", "EMAIL_ADDRESS"]'))
    )
    assert named.leave == ("EMAIL_ADDRESS", "MESSAGE_ID", "URL") and named.editors[1].kinds == (
        "PHONE_NUMBER",
        "IP_ADDRESS",
    )


def test_a_plan_with_groups_is_the_plan_with_the_names(tmp_path: Path) -> None:
    plan = load_plan(write_plan(tmp_path, GROUPED_PLAN))
    names = Plan.from_resolved(plan.resolved_settings(), "the plan")
    assert names.resolved_settings() == plan.resolved_settings() and names.hash() == plan.hash()


def test_groups_of_found_kinds(tmp_path: Path) -> None:
    def found(kinds: str, countries: str = "countries = ['DE']") -> set[str]:
        return set(
            load_plan(
                write_plan(tmp_path, f"leave = ['*']\n[find]\n{countries}\n{kinds}")
            ).find.kinds
        )

    possible = {
        name: kind
        for name, kind in builtin_kinds().items()
        if kind.has_pattern and kind.country in (None, "DE")
    }
    assert found('kinds = ["default", "DE_TAX_ID"]') == {*KINDS, "DE_TAX_ID"} and {
        "DE_TAX_ID",
        "DATE_TIME",
    }.isdisjoint(KINDS)
    assert found('kinds = ["identifier", "time"]') == {
        name for name, kind in possible.items() if kind.category in ("identifier", "time")
    }
    assert found('kinds = ["*"]') == set(possible) > set(KINDS)
    assert found('kinds = ["default"]', "") == set(KINDS)
    finders = 'finders = ["patterns", "names", "known"]'
    assert found(f'kinds = ["person", "organization"]\n{finders}', "") == {"PERSON", "ORGANIZATION"}
    # a kind that only a list finds counts where its category has no other one
    assert found(f'kinds = ["place"]\n{finders}', "") == {"STREET_ADDRESS", "COORDINATES"}


@pytest.mark.parametrize("kinds", ["default", "contact", "US_SSN"])
def test_a_country_without_a_kind_in_find_kinds_is_refused(tmp_path: Path, kinds: str) -> None:
    with pytest.raises(
        PlanError,
        match=(
            r"find\.countries names DE, .* add DE_TAX_ID, or their category \(identifier\), to"
            r" find\.kinds"
        ),
    ):
        load_plan(
            write_plan(
                tmp_path,
                f"leave = ['*']\n[find]\ncountries = ['GB', 'DE']\nkinds = ['UK_NHS', '{kinds}']",
            )
        )


@pytest.mark.parametrize(
    "rule",
    [
        'allow = {"ann.roe@example.com" = ["EMAIL_ADDRESS"]}',
        'deny = {"ann.roe@example.com" = "EMAIL_ADDRESS"}',
        'min_score = {"ann.roe@example.com" = 0.5}',
        'allow = {ANN_ROE = ["PERSON"]}',
    ],
)
def test_an_error_about_a_find_rule_does_not_show_its_key(tmp_path: Path, rule: str) -> None:
    with pytest.raises(
        PlanError,
        match=r"find\.(allow|deny|min_score): a key is not the name of a kind; expected KIND = ",
    ) as caught:
        load_plan(write_plan(tmp_path, f"leave = ['*']\n[find]\nkinds = ['default']\n{rule}"))
    assert "roe" not in str(caught.value).lower()


def test_groups_in_the_default_kinds_of_an_editor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_editors").mkdir()
    (tmp_path / "own_editors/blank.py").write_text(
        "from sanitize.core.part_protocols import Editor\nclass Blank(Editor):\n    kinds:"
        " tuple[str, ...] = ('contact',)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plan = load_plan(
        write_plan(tmp_path, "[find]\nkinds = ['contact']\n[[edit]]\nuse = 'own_editors.blank'")
    )
    assert plan.editors[0].kinds == ("EMAIL_ADDRESS", "PHONE_NUMBER")


def test_a_dropper_reads_the_kinds_of_a_category(tmp_path: Path) -> None:
    plan = load_plan(
        write_plan(
            tmp_path,
            GROUPED_PLAN
            + '[[drop]]\nuse = "exact_dup"\n[[drop]]\nuse = "repeated_pii"\nkinds = ["contact"]\n',
        )
    )
    assert plan.droppers[1].kinds == ("EMAIL_ADDRESS", "PHONE_NUMBER")


def test_a_kind_of_the_plan_has_a_category(tmp_path: Path) -> None:
    own = '[[kind]]\nname = "WARD"\nwords = ["North wing"]\n'
    identifiers = GROUPED_PLAN.replace('["*"]', '["identifier", "place"]').replace(
        '"default", "time"', '"contact", "IP_ADDRESS", "WARD"'
    )
    plan = load_plan(write_plan(tmp_path, identifiers + own))
    assert (
        plan.editors[0].kinds == ("WARD",) and "category" not in plan.resolved_settings()["kind"][0]
    )
    placed = load_plan(
        write_plan(
            tmp_path, identifiers.replace('"identifier", ', "") + own + 'category = "place"\n'
        )
    )
    assert placed.editors[0].kinds == ("WARD",) and placed.hash() == plan.hash()
    assert "WARD" in load_plan(write_plan(tmp_path, GROUPED_PLAN + own)).find.kinds
    with pytest.raises(
        PlanError,
        match=r"kind\[0\].category = 'plaice': there is no such category; .*did you mean place\?",
    ):
        load_plan(write_plan(tmp_path, GROUPED_PLAN + own + 'category = "plaice"\n'))


# ---- --set ----

CHANGES = [
    (["edit.0.keep=2"], lambda plan: plan.editors[0].keep == 2),
    (
        ["edit.0.keep = 0", "edit.0.anchors=[]"],
        lambda plan: (plan.editors[0].keep, plan.editors[0].anchors) == (0, ()),
    ),
    (["edit.0.stores=mixed"], lambda plan: plan.editors[0].stores == "mixed"),
    (['edit.0.stores="mixed"'], lambda plan: plan.editors[0].stores == "mixed"),
    (["publishable=false"], lambda plan: plan.publishable is False),
    (
        [
            'find.kinds=["EMAIL_ADDRESS", "URL"]',
            'edit.0.kinds=["EMAIL_ADDRESS"]',
            "edit.1.kinds=[]",
            'leave=["URL"]',
        ],
        lambda plan: len(plan.editor_no_by_kind) == 1,
    ),
]


@pytest.mark.parametrize(
    ("changes", "is_applied"), CHANGES, ids=[change[0][0] for change in CHANGES]
)
def test_set_options_change_a_plan(changes: list[str], is_applied: object) -> None:
    assert callable(is_applied) and is_applied(load_plan("rmft", changes))


INVALID_CHANGES = [
    ("keep", ["--set keep", "KEY=VALUE"]),
    ("=2", ["--set", "KEY=VALUE"]),
    ("edit..keep=2", ["--set edit..keep"]),
    ("edit.7.keep=2", ["--set edit.7.keep: there is no entry 7", "it has 2"]),
    ("edit.x.keep=2", ["--set edit.x.keep: there is no entry x"]),
    ("edit.0.kep=2", ["edit[0].kep: unknown key", "did you mean keep?"]),
    ("edit.0.keep=-1", ["edit[0].keep"]),
    ("edit.0.keep.more=1", ["edit.0.keep"]),
    ("leave=URL", ["leave"]),
    ("name=x", ["name: unknown key"]),
]


@pytest.mark.parametrize(
    ("change", "expected_parts"), INVALID_CHANGES, ids=[change for change, _ in INVALID_CHANGES]
)
def test_errors_of_an_invalid_change_are_specific(change: str, expected_parts: list[str]) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan("rmft", [change])
    assert [part for part in expected_parts if part not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


# ---- the hash ----


def test_the_hash_is_stable() -> None:
    assert load_plan("rmft").hash("input") == load_plan("rmft").hash("input")
    assert len(load_plan("rmft").hash()) == 16 and int(load_plan("rmft").hash(), 16) >= 0


def test_the_hash_depends_on_every_setting_of_the_output() -> None:
    plans = [load_plan(name) for name in plan_names()]
    changes = [
        "edit.0.keep=2",
        "edit.0.stores=mixed",
        'edit.0.anchors=["first"]',
        "edit.0.reserved=true",
        "edit.1.label=numbered",
        "publishable=false",
    ]
    plans += [load_plan("rmft", [change]) for change in changes]
    hashes = {plan.hash("input") for plan in plans} | {
        load_plan("rmft").hash("another"),
        load_plan("rmft").hash("input", 1),
    }
    assert len(hashes) == len(plans) + 2


def test_the_hash_does_not_depend_on_names_and_descriptions(tmp_path: Path) -> None:
    shipped = Path(load_plan.__code__.co_filename).with_name("rmft.toml")
    text = shipped.read_text("utf-8")
    assert tomllib.loads(text)["about"] in text
    copy = write_plan(tmp_path, text.replace(tomllib.loads(text)["about"], "Mine."))
    assert load_plan(copy).hash() == load_plan("rmft").hash()
    # the default, set explicitly
    assert load_plan("rmft", ["edit.0.keep=1"]).hash() == load_plan("rmft").hash()


def test_resolved_settings_have_every_setting() -> None:
    resolved = load_plan("rmft").resolved_settings()
    assert resolved["edit"][0] == {
        "use": "rmft",
        "kinds": ["EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS"],
        "keep": 1,
        "linked": False,
        "anchors": ["first", "last", "domain"],
        "stores": "corpus",
        "avoid": "corpus",
        "reserved": False,
    }
    assert set(resolved) == {"name", "about", "publishable", "leave", "find", "drop", "edit"}
