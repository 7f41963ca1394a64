"""Names of people by origin: the share of full names of which no part is left in a text.

    python -m benchmarks.bench_origins

300 names of each of twelve origins, which neither the lists of the package nor those that the
tagger learns from hold (benchmarks/person_tagger/held_out), each in five sentences; of the finder
`names`, and of its rules without the tagger. *Seen in training*: as many names of the lists that
the tagger learns from, for the origins that have such lists. Writes benchmarks/results/origins.json
and a table, origins.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

from benchmarks import detection, runner
from benchmarks.person_tagger.texts import FOLDER, read_pools
from sanitize.finders import names as finder

SENTENCES = (
    "Hi, I'm {}.",
    "Please ask {} about the invoice.",
    "{} wrote the report last week.",
    "Patient: {}\nDate: 3 May 2019",
    "Yesterday {} met the board.",
)
# lists of the names that the tagger learns from, by origin
POOLS = {
    "arabic": "eg lb ma",
    "chinese": "cn tw",
    "ghana_kenya": "gh ke",
    "indian_north": "in_north",
    "indian_south": "in_south lk",
    "japanese": "jp",
    "nigerian": "ng_hausa ng_igbo ng_yoruba",
    "slavic": "ru_latin ua_latin rs",
    "turkish_iranian": "tr ir",
    "vietnamese": "vn",
}


def read_held_out() -> dict[str, list[str]]:
    """By origin: full names that nothing was trained on."""
    found = {}
    for path in sorted((FOLDER / "held_out").glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        surname_first = lines[0].startswith("order:")
        rows = [line.split("\t") for line in lines if "\t" in line]
        found[path.stem] = [" ".join(reversed(row) if surname_first else row) for row in rows]
    return found


def draw_seen(count: int = 300) -> dict[str, list[str]]:
    """By origin: that many full names of the lists that the tagger learns from."""
    found = {}
    for origin, lists in POOLS.items():
        pools = [read_pools()[name] for name in lists.split()]
        names = []
        for number in range(count):
            pool = pools[number % len(pools)]
            given = pool.given[number * 7 % len(pool.given)]
            surname = pool.surnames[number * 11 % len(pool.surnames)]
            names.append(f"{surname} {given}" if pool.surname_first else f"{given} {surname}")
        found[origin] = names
    return found


def count_removed(names: Sequence[str]) -> int:
    """How many names, each in one of the sentences in turn, leave no letter behind."""
    texts = [SENTENCES[row % len(SENTENCES)].format(name) for row, name in enumerate(names)]
    removed = 0
    for name, text, spans in zip(names, texts, detection.FINDERS["names"]()(texts), strict=True):
        begin = text.index(name)
        rest = set(range(begin, begin + len(name)))
        rest -= {at for start, stop, _ in spans for at in range(start, stop)}
        removed += not any(text[at].isalnum() for at in rest)
    return removed


def measure_origins() -> dict[str, Any]:
    """By origin: names, and those removed by the rules, by the finder, and of names seen."""
    seen = draw_seen()
    out: dict[str, Any] = {}
    for origin, names in read_held_out().items():
        with mock.patch.multiple(finder, MIN_MARGIN=1 << 20, MIN_WORD_MARGIN=1 << 20):
            rules = count_removed(names)
        out[origin] = {"names": len(names), "rules": rules, "removed": count_removed(names)}
        if origin in seen:
            out[origin] |= {"seen": len(seen[origin]), "seen_removed": count_removed(seen[origin])}
        print(origin, out[origin], flush=True)
    return out


def format_page(result: Mapping[str, Any]) -> str:
    """The table of docs/results/detection.md."""
    rows = []
    for origin, one in result["origins"].items():
        rows.append(
            [
                origin.replace("_", ", "),
                f"{one['rules'] / one['names']:.2f}",
                _format_share(one["removed"], one["names"]),
                _format_share(one["seen_removed"], one["seen"]) if "seen" in one else "",
            ]
        )
    both = [one for one in result["origins"].values() if "seen" in one]
    pooled = [
        sum(one[part] for one in both) / sum(one[of] for one in both)
        for part, of in (("removed", "names"), ("seen_removed", "seen"))
    ]
    lines = [
        *runner.format_table(
            ["origin", "rules alone", "`names` (95 %)", "seen in training (95 %)"], rows, left=1
        ),
        "",
        f"300 names of each origin. Over the origins of the last column: {pooled[0]:.3f} of names"
        f" that nothing was trained on, {pooled[1]:.3f} of names seen in training."
        f" {result['date']}.",
    ]
    return "\n".join(lines) + "\n"


def _format_share(hits: int, of: int) -> str:
    return detection.format_scores(hits / of, detection.wilson(hits, of))


def main() -> None:
    options = runner.build_parser(__doc__).parse_args()
    result = runner.start_result(origins=measure_origins())
    runner.save_result(options.results, "origins", result, format_page(result))


if __name__ == "__main__":
    main()
