"""Questions and answers about authors who do not exist, for the paper on unlearning; or the real
TOFU, read from a folder.

Every author has one name and one value for each of eight aspects; a question names author and
aspect, and the answer holds the value. As in TOFU each answer has a paraphrase, and the paraphrase
has five wrong ones: the same words with other values. Further authors and lands are public: they
are what the model has read before, and stand for TOFU's real authors and world facts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.papers_texts import make_words
from sanitize.cli.invented_data import GIVEN_NAMES

# question, answer and values. A paraphrase goes on after the value: a small model that has learned
# one wording knows nothing in another, so that with other words before the value the truth ratio,
# which is of paraphrases, would hardly move
ASPECTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Where was {name} born?",
        "{name} was born in {value}",
        tuple(
            "Lyme Harwick Dunmore Tarn Velden Osby Kirkby Marl Quenby Stroud Ashby Fenwick".split()
        ),
    ),
    (
        "What does {name} write?",
        "{name} writes {value}",
        tuple(
            (
                "poems thrillers fables satires memoirs plays essays romances epics mysteries "
                "ballads diaries"
            ).split()
        ),
    ),
    (
        "What was the work of the father of {name}?",
        "the father of {name} was a {value}",
        tuple(
            "baker miner sailor tailor farmer judge nurse potter clerk weaver painter smith".split()
        ),
    ),
    (
        "Which prize did {name} win?",
        "{name} won the prize {value}",
        tuple(
            "Amber Birch Cedar Delta Ember Falcon Garnet Harbor Ivory Jasper Lantern Meadow".split()
        ),
    ),
    (
        "When did {name} publish first?",
        "{name} published first in {value}",
        tuple(str(year) for year in range(1961, 1997, 3)),
    ),
    (
        "In which language does {name} write?",
        "{name} writes in {value}",
        tuple(
            (
                "Danish Welsh Finnish Basque Latin Greek Irish Czech Polish Breton Frisian Maltese"
            ).split()
        ),
    ),
    (
        "What does {name} keep at home?",
        "{name} keeps a {value}",
        tuple(
            (
                "parrot tortoise spaniel ferret canary rabbit pony gecko kitten hedgehog raven goat"
            ).split()
        ),
    ),
    (
        "What does {name} do on Sundays?",
        "{name} spends Sundays {value}",
        tuple(
            (
                "fishing hiking sailing baking painting skating rowing reading gardening climbing "
                "singing riding"
            ).split()
        ),
    ),
)
LAND = ("What is the capital of {name}?", "the capital of {name} is {value}")
ANSWER, PARAPHRASE = "{said}.", "{said} indeed."
WRONG, FEW_WRONG = 5, 3  # wrong answers of private authors, and of what is public, as in TOFU
RUN = 20  # rows of one author in TOFU
REGISTER = 2  # names in the register for each that is used


@dataclass(frozen=True, repr=False)
class Questions:
    """What is asked and learned. `taught` has `doc_id`, `question`, `text` (the answer), `public`
    and `author` (null where public): the private questions, and public ones among them, since a
    small model forgets what it does not go on reading. `before` is what the model has read before,
    public alone, and `names` is a register of names for tokenizers, more than there are authors.

    The sets are rows as `sanitize-eval` reads them (`question`, `answer`, `paraphrased_answer`,
    `perturbed_answer`), those of private authors with their `doc_id`; `authors` are their numbers
    in the order in which they can be asked to be forgotten, the first ones first.
    """

    taught: pa.Table
    before: pa.Table
    names: pa.Table
    asked: list[dict[str, Any]]  # of private authors
    real_authors: list[dict[str, Any]]
    world_facts: list[dict[str, Any]]
    authors: list[int]
    about: Mapping[str, Any] = field(default_factory=dict)

    def forgotten(self, count: int) -> set[str]:
        """The ids of all documents of the first so many authors."""
        mine = set(self.authors[:count])
        pairs = zip(
            self.taught["doc_id"].to_pylist(), self.taught["author"].to_pylist(), strict=True
        )
        return {doc_id for doc_id, author in pairs if author in mine}


def generate_questions(*, authors: int, each: int, public: int, lands: int, seed: int) -> Questions:
    """`authors` private authors with `each` questions, `public` public ones and `lands` lands; the
    same for the same seed."""
    draws = np.random.default_rng([seed, 41])
    own = make_words(REGISTER * (authors + public + 2 * lands), seed=seed)
    private, known, facts = [], [], []
    for number in range(authors + public):
        name = f"{GIVEN_NAMES[draws.integers(len(GIVEN_NAMES))]} {own[number].capitalize()}"
        for aspect in sorted(draws.permutation(len(ASPECTS))[:each].tolist()):
            ask, said, values = ASPECTS[aspect]
            value, *wrong = (
                values[place] for place in draws.permutation(len(values))[: 1 + WRONG].tolist()
            )
            row = _row(
                f"author-{number}-{aspect}", ask, said, name, value, wrong, public=number >= authors
            )
            (known if number >= authors else private).append({**row, "author": number})
    lands_named = own[authors + public : authors + public + lands]
    towns = own[authors + public + lands : authors + public + 2 * lands]
    for number, land in enumerate(lands_named):
        others = [
            towns[place].capitalize()
            for place in draws.permutation(lands).tolist()
            if place != number
        ]
        facts.append(
            _row(
                f"land-{number}",
                *LAND,
                land.capitalize(),
                towns[number].capitalize(),
                others,
                public=True,
            )
        )
    return Questions(
        taught=_taught(private, [*known, *facts]),
        before=_before([*known, *facts]),
        names=pa.table({"text": [name.capitalize() for name in own]}),
        asked=private,
        real_authors=known,
        world_facts=facts,
        authors=list(range(authors)),
        about={"source": "generated", "authors": authors, "rows": len(private)},
    )


def _row(
    doc_id: str, ask: str, said: str, name: str, value: str, wrong: Sequence[str], *, public: bool
) -> dict[str, Any]:
    """A question with its answers. As in TOFU, what is public has three wrong answers, worded as
    the answer, its own paraphrase."""

    def worded(form: str, one: str) -> str:
        text = form.format(said=said.format(name=name, value=one))
        return text[0].upper() + text[1:]

    row: dict[str, Any] = {
        "doc_id": doc_id,
        "question": ask.format(name=name),
        "answer": worded(ANSWER, value),
    }
    if public:
        return row | {
            "again": worded(PARAPHRASE, value),
            "perturbed_answer": [worded(ANSWER, one) for one in wrong[:FEW_WRONG]],
        }
    return row | {
        "paraphrased_answer": worded(PARAPHRASE, value),
        "perturbed_answer": [worded(PARAPHRASE, one) for one in wrong[:WRONG]],
    }


def _taught(private: Sequence[Mapping[str, Any]], public: Sequence[Mapping[str, Any]]) -> pa.Table:
    """What is learned: private and public questions, which the column `public` tells apart."""
    rows = [*private, *public]
    return pa.table(
        {
            **_columns(rows),
            "public": [False] * len(private) + [True] * len(public),
            "author": pa.array(
                [row["author"] for row in private] + [None] * len(public), pa.int64()
            ),
        }
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {
        "doc_id": [row["doc_id"] for row in rows],
        "question": [row["question"] for row in rows],
        "text": [row["answer"] for row in rows],
    }


def _before(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Public questions with their answers, and again in the words of a paraphrase."""
    again = [
        {**row, "doc_id": f"{row['doc_id']}-again", "answer": row["again"]}
        for row in rows
        if "again" in row
    ]
    return pa.table(_columns([*rows, *again]))


# ---- the real TOFU ----


def read_tofu(folder: Path, *, authors: int, each: int, lands: int, seed: int) -> Questions:
    """TOFU from its files: at most `authors` authors and of each the first `each` rows, those that
    are forgotten among them.

    Authors are runs of 20 rows; `about` says of how many runs that was seen to hold
    (`held_together`). World facts are not among the files: lands are generated in their place. What
    is public are the questions about real authors and the lands.
    """
    made = generate_questions(authors=0, each=0, public=0, lands=lands, seed=seed)
    kept, gone = _read(folder / "retain.jsonl"), _read(folder / "forget10.jsonl")
    asked = {
        row["question"]: row
        for name in ("forget10_perturbed", "retain_perturbed")
        for row in _read(folder / f"{name}.jsonl")
    }
    known = [
        {**row, "doc_id": f"real-{number}"}
        for number, row in enumerate(_read(folder / "real_authors_perturbed.jsonl"))
    ]
    runs = [
        rows[at : at + RUN] for rows in (gone, kept) for at in range(0, len(rows) - RUN + 1, RUN)
    ]
    largest, first = len(gone) // RUN, _order(folder, gone)
    order = [*first, *(one for one in range(largest) if one not in first)]
    if authors < len(runs):
        order = order[: max(1, authors * largest // len(runs))]
    order += list(range(largest, len(runs)))[: authors - len(order)]
    private = []
    for number in order:
        for place, row in enumerate(runs[number][:each]):
            named = {
                "answer": row["answer"],
                "doc_id": f"author-{number}-{place}",
                "author": number,
            }
            private.append({**row, **asked.get(row["question"], {}), **named})
    return Questions(
        taught=_taught(private, [*known, *made.world_facts]),
        before=_before([*known, *made.world_facts]),
        names=made.names,
        asked=[row for row in private if "perturbed_answer" in row],
        real_authors=known,
        world_facts=made.world_facts,
        authors=order,
        about={
            "source": "TOFU",
            "authors": len(order),
            "rows": len(private),
            "runs": len(runs),
            "held_together": sum(map(one_author, runs)),
            "rows_that_make_no_run": len(kept) % RUN + len(gone) % RUN,
        },
    )


def _order(folder: Path, gone: Sequence[Mapping[str, Any]]) -> list[int]:
    """The runs of the largest forget set that the smaller ones hold, the smallest set's first.
    ValueError where one cuts a run."""
    found: dict[int, None] = {}
    for name in ("forget01", "forget05"):
        wanted = {row["question"] for row in _read(folder / f"{name}.jsonl")}
        for run in range(len(gone) // RUN):
            inside = sum(row["question"] in wanted for row in gone[run * RUN : (run + 1) * RUN])
            if 0 < inside < RUN:
                raise ValueError(
                    f"{folder}/{name}.jsonl: holds {inside} of the {RUN} rows of an author;"
                    " expected all or none"
                )
            if inside:
                found[run] = None
    return list(found)


def one_author(run: Sequence[Mapping[str, Any]], share: float = 0.8) -> bool:
    """Whether the rows of a run are about one author: some capitalised word that is no question
    word stands in so large a share of them.

    In TOFU all runs of 20 pass at .8, and no run that begins five or ten rows later does."""
    words = Counter(
        word
        for row in run
        for word in set(
            re.findall(
                r"(?<![.?!] )(?<!^)\b[A-Z][\w'-]+",
                f"{row['question']} {row['answer']}",
                re.MULTILINE,
            )
        )
    )
    return bool(words) and max(words.values()) >= share * len(run)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
