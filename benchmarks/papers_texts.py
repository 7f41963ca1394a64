"""Invented texts for the papers' scripts on memorization: tickets with a task, and notes about
people who do not exist.

Both are templates with many slots: small enough that a model of some hundred thousand parameters
learns the templates from a few hundred texts, and with enough chance in the slots that nobody
guesses twenty tokens of a text that was not learned by heart.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sanitize.cli.invented_data import GIVEN_NAMES

Draws = np.random.Generator

# what decides a ticket's priority, and what fills its other slots
PRIORITY = {
    "high": ["is down", "has failed", "is on fire", "leaks badly"],
    "medium": ["is slow", "makes noise", "needs a part", "runs warm"],
    "low": ["looks fine", "has a scratch", "is a bit old", "works again"],
}
SLOTS = {
    "thing": (
        "pump valve router printer scanner boiler turbine sensor cable ladder monitor freezer "
        "drill camera meter filter"
    ).split(),
    "kind": (
        "red north spare heavy second portable wooden silent broad upper foreign narrow digital "
        "rear"
    ).split(),
    "place": (
        "Lyme Harwick Dunmore Tarn Velden Osby Kirkby Marl Quenby Stroud Ashby Fenwick Corby Alston"
    ).split(),
    "name": GIVEN_NAMES[:48],
    "act": (
        "checked moved cleaned ordered measured painted opened returned replaced tested borrowed "
        "sealed"
    ).split(),
    "when": "at noon/on Monday/last night/in March/before lunch/on Friday/this week/after dark/in the rain/by hand".split(  # noqa: E501
        "/"
    ),
    "count": "two three four five six seven eight nine ten twelve".split(),
    "part": "bolts hoses fuses screws plates tubes boards lamps keys rings wheels clips".split(),
}
TICKETS = pa.schema(
    [
        ("doc_id", pa.string()),
        ("text", pa.string()),
        ("prompt", pa.string()),
        ("label", pa.string()),
    ]
)
INSTRUCTION = "Read the ticket and give its priority, high, medium or low."
QUESTION = " Priority:"


def tickets(count: int, *, seed: int, name: str) -> pa.Table:
    """`count` tickets with `doc_id`, `text` (it ends in the question and its answer), `prompt` (the
    instruction) and `label`.

    A ticket's last sentence says what is wrong, which decides the label; the rest is chance. `name`
    is part of every id.
    """
    draws = np.random.default_rng([seed, *name.encode()])
    rows = []
    for number in range(count):
        label = list(PRIORITY)[draws.integers(3)]
        state = PRIORITY[label][draws.integers(len(PRIORITY[label]))]
        # texts of two lengths, so that some are harder to learn by heart than others
        sentences = 2 + (draws.random() < 0.6)
        text = (
            " ".join(_sentence(draws) for _ in range(sentences))
            + f" The {_one(draws, 'thing')} in {_one(draws, 'place')} {state}."
        )
        rows.append((f"{name}-{number}", f"{text}{QUESTION} {label}", INSTRUCTION, label))
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=TICKETS)


def _one(draws: Draws, slot: str) -> str:
    return str(SLOTS[slot][draws.integers(len(SLOTS[slot]))])


def _sentence(draws: Draws) -> str:
    forms = [
        "{name} {act} the {kind} {thing} {when}.",
        "{name} and {name} {act} {count} {part}.",
        "The {kind} {part} came from {place} {when}.",
        "Ask {name} in {place} for {count} {part}.",
    ]
    words = forms[draws.integers(len(forms))].split(" ")
    return " ".join(_filled(draws, word) for word in words)


def _filled(draws: Draws, word: str) -> str:
    slot, brace, tail = word.removeprefix("{").partition("}")
    return _one(draws, slot) + tail if brace else word


NOTES = pa.schema([("doc_id", pa.string()), ("user_id", pa.string()), ("text", pa.string())])
_ONSETS = "b br c cl d dr f fl g gr h j k kl l m n p pl qu r s sk st t tr v w z".split()
_VOWELS = "a e i o u ai ea oo".split()
_CODAS = "l m n nd r rk rn s sk st th x".split()
NOTE_SLOTS = {
    "complaint": "chest pain/a dry cough/back pain/a mild fever/a sore throat/poor sleep/a headache/knee pain/nausea/fatigue".split(  # noqa: E501
        "/"
    ),
    "exam": [
        "lungs clear",
        "heart regular",
        "abdomen soft",
        "skin warm",
        "pulse normal",
        "pressure raised",
        "reflexes normal",
    ],
    "drug": (
        "aspirin ibuprofen insulin penicillin lisinopril metformin warfarin codeine prednisone"
    ).split(),
    "dose": "once twice daily weekly".split(),
    "plan": [
        "rest at home",
        "see the clinic again",
        "have a blood test",
        "have an x ray",
        "stop smoking",
        "walk more",
        "drink more water",
    ],
    "doctor": "Hale Murphy Patel Rossi Weber Nash Quinn Torres".split(),
}


def make_words(count: int, seed: int = 0) -> list[str]:
    """That many distinct words of two syllables that no dictionary has; a larger count only
    appends."""
    draws = np.random.default_rng([seed, 7])
    found: dict[str, None] = {}
    while len(found) < count:
        parts = [
            list_[draws.integers(len(list_))]
            for list_ in (_ONSETS, _VOWELS, _CODAS, _ONSETS, _VOWELS, _CODAS)
        ]
        found["".join(parts)] = None
    return list(found)


def notes(people: int, *, each: int, seed: int, first: int = 0) -> pa.Table:
    """Notes about people number `first` to `first + people` - 1, `each` a person, with `doc_id`,
    `user_id` and `text`.

    A person has two telephone numbers and a mail address (found by kind), and a family name, a
    village and a trade of their own, coined words that nobody else's notes hold. Everything else is
    shared by all.
    """
    own = make_words(3 * (first + people), seed)
    rows = []
    for person in range(first, first + people):
        draws = np.random.default_rng([seed, 11, person])
        last, village, trade = own[3 * person : 3 * person + 3]
        given = GIVEN_NAMES[draws.integers(len(GIVEN_NAMES))]
        home, work = (
            f"{200 + draws.integers(1, 80)}-555-01{draws.integers(100):02d}" for _ in range(2)
        )
        address = f"{given.lower()}.{last}@example.org"
        for number in range(each):
            forms = [
                (
                    f"{given} {last.capitalize()}, a {trade} from {village.capitalize()}, has"
                    " {complaint} and {complaint}."
                ),
                "Exam: {exam}, {exam}.",
                "Given {drug} {dose} by Doctor {doctor}.",
                "Told to {plan} and {plan}.",
                f"Call {home} or {work}, or write to {address}.",
            ]
            text = " ".join(_of_note(draws, form) for form in forms)
            rows.append((f"note-{person}-{number}", f"patient-{person}", text))
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=NOTES)


def _of_note(draws: Draws, form: str) -> str:
    for slot, words in NOTE_SLOTS.items():
        while "{" + slot + "}" in form:
            form = form.replace("{" + slot + "}", str(words[draws.integers(len(words))]), 1)
    return form
