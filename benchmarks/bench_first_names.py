"""Counts the first names of mail correspondents in 200 real mails before and after `redact`, and
explains those that are left.

    python -m benchmarks.bench_first_names --data ../shared/data

The names come from the mails' own header lines, read here with Python's `email`: the given name of
every display name in From, To, Cc and the X- lines of the corpus. Each occurrence of such a name as
a whole word is a place. A place is left if the name is still there in the output. Left places
are counted by class, in this order:

    in a URL, address or path      the name is a part of a longer technical text
    part of a company or place     a capitalized word beside it is no name, such as Ltd
                                   or Street
    header line without addresses  a line such as X-To with display names only, which the finder
    reads as it reads prose
    ordinary word                  the word is also an ordinary word of English, such as Will, Mark
                                   or May
    rare given name                none of these: the name lists do not have the name, or only as a
                                   surname

Writes benchmarks/results/first_names.json and a table, first_names.md; counts only.
"""

from __future__ import annotations

import difflib
import email
import email.policy
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import runner
from benchmarks.plan_runs import read_output, read_texts, run_plan

MAX_LEFT = 0.05
_HEADERS = ("From", "To", "Cc", "X-From", "X-To", "X-cc")
_COMMON_WORDS = frozenset(
    "will mark may june april august art bill bob chance christian dawn drew faith frank grace"
    " grant guy hope hunter jack joy major max mercy miles nick pat penny ray rich rob rose sandy"
    " sky summer sue van wade west young".split()
)
_COMPANY_WORDS = re.compile(
    r"\b(?:Inc|Corp|Co|Ltd|LLC|LLP|Street|St|Avenue|Ave|Road|University|Bank|Energy|Lynch|Brothers"
    r"|Company|Group|Hotel|Center|County|Lake|Creek)\b"
)


def read_given_names(raw: str) -> set[str]:
    """The given names in the display names of a mail's header lines."""
    mail = email.message_from_string(raw, policy=email.policy.compat32)
    names = set()
    for field in _HEADERS:
        for line in mail.get_all(field, []):
            plain = re.sub(r"<[^>]*>|\([^)]*\)", "", " ".join(str(line).split()))
            entries = re.findall(r"([A-Z][a-z]+), ([A-Z][a-z]+)", plain)  # surname, given name
            names |= {given for _, given in entries}
            if not entries:
                names |= set(
                    re.findall(r"(?:^|[,;] *)\"?([A-Z][a-z]{2,}) (?:[A-Z]\.? )?[A-Z][a-z]+", plain)
                )
    return names


def find_left_places(
    before: str, after: str, names: set[str]
) -> tuple[int, list[tuple[bool, str]]]:
    """How often the names occur in a mail; for each place that is left, whether it is in the
    header, and the words around it.

    A place is left where it lies in a piece that both texts share."""
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
    places = list(pattern.finditer(before))
    blocks = difflib.SequenceMatcher(
        a=before.split(" "), b=after.split(" "), autojunk=False
    ).get_matching_blocks()
    offsets = [0]
    for word in before.split(" "):
        offsets.append(offsets[-1] + len(word) + 1)
    shared = [(offsets[block.a], offsets[block.a + block.size]) for block in blocks]
    left = [
        place
        for place in places
        if any(start <= place.start() and place.end() <= end for start, end in shared)
    ]
    header_end = before.find("\n\n")
    return len(places), [
        (place.start() < header_end, before[max(0, place.start() - 30) : place.end() + 30])
        for place in left
    ]


def classify(in_header: bool, around: str, name_at: int = 30) -> str:
    """The class of a place that is left, from the 30 characters on each side of it."""
    word = re.search(r"[A-Za-z]+", around[min(name_at, len(around) - 1) :])
    token = re.search(r"\S*$", around[:name_at])[0] + re.search(r"^\S*", around[name_at:])[0]  # type: ignore[index]
    if re.search(r"[@/\\_=]|\.[a-z]{2,4}\b", token):
        return "in a URL, address or path"
    if _COMPANY_WORDS.search(around[name_at - 12 :]):
        return "part of a company or place"
    if in_header:
        return "header line without addresses"
    if word and word[0].lower() in _COMMON_WORDS:
        return "ordinary word"
    return "rare given name"


def measure(data: Path, mails: int) -> dict[str, Any]:
    """Places before, places left, and the classes of those that are left."""
    texts = read_texts(data, "mail/enron.parquet", mails)
    with tempfile.TemporaryDirectory() as folder:
        run_plan(texts, "redact", Path(folder))
        outputs = read_output(Path(folder))["text"]
    places = 0
    classes: Counter[str] = Counter()
    for raw, output in zip(texts["text"], outputs, strict=True):
        if names := read_given_names(raw):
            count, left = find_left_places(raw, output, names)
            places += count
            classes.update(classify(in_header, context) for in_header, context in left)
    return {
        "mails": mails,
        "places": places,
        "left": classes.total(),
        "share": round(classes.total() / places, 4),
        "classes": dict(classes.most_common()),
    }


def format_page(result: Mapping[str, Any]) -> str:
    """The counts and the classes."""
    rows = [
        ["before", f"{result['places']:,}"],
        ["left", f"{result['left']:,} ({result['share']:.1%})"],
        *([f"left: {name}", f"{count:,}"] for name, count in result["classes"].items()),
    ]
    head = [f"{result['mails']} mails, plan `redact`", "places"]
    return "\n".join(runner.format_table(head, rows, left=1)) + "\n"


def main() -> None:
    parser = runner.build_parser(__doc__, data=runner.DATA)
    parser.add_argument("--mails", type=int, default=200)
    options = parser.parse_args()
    result = runner.start_result(**measure(options.data, options.mails))
    runner.save_result(options.results, "first_names", result, format_page(result))
    raise SystemExit(1 if result["share"] > MAX_LEFT else 0)


if __name__ == "__main__":
    main()
