"""A recount of each number in the text of the summary, the card and the report, by its place: from
the shards, the private folder and the options of the run, without the code that prints them."""

from __future__ import annotations

import datetime
import importlib.metadata
import inspect
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

import sanitize
from sanitize.kinds.kind import known_countries, list_kinds
from sanitize.storage.files import file_sha256
from tests.reporting import label_recount
from tests.reporting.corpus_recount import Recount


def show_size(size: float) -> str:
    """A number of bytes with one decimal, in steps of 1000."""
    if size < 1000:
        return f"{size} B"
    power = int(math.log10(size) // 3)
    return f"{size / 1000**power:.1f} {'KMGT'[power - 1]}B"


def show_share(part: int, whole: int) -> str:
    """A share in percent; a share is 0 % or 100 % only if it is exactly that."""
    if 0 < 100 * part < whole:
        return "<1%"
    if 100 * part > 99 * whole and part < whole:
        return ">99%"
    return f"{100 * part / whole:.0f}%"


def find_setting(c: Recount, name: str) -> int:
    """A setting of the run: what it was given, or the default of `sanitize.run`."""
    return int(
        c.published.options.get(name, inspect.signature(sanitize.run).parameters[name].default)
    )


def find_file(c: Recount, name: str) -> Path:
    """An input (such as `input 1`) or a shard of the output."""
    if name.startswith("input "):
        return c.published.sources[int(name.removeprefix("input ")) - 1]
    return c.published.out / name


def find_date(c: Recount) -> str:
    """The date on which the manifest was written, in UTC."""
    written = (c.published.out / "manifest.json").stat().st_mtime
    return datetime.datetime.fromtimestamp(written, datetime.UTC).date().isoformat()


def count_unchanged(c: Recount) -> int:
    return c.sum_kinds("kept") + c.sum_kinds("left_by_plan")


def count_drops(c: Recount, part: str, reason: str | None = None) -> int:
    return sum(row["part"] == part and reason in (None, row["reason"]) for row in c.drops)


def count_leaks(c: Recount) -> int:
    """Values without a kept original that are in the published texts."""
    gone = c.searched_ids & c.removed_ids - {row["value_id"] for row in c.kept}
    text = "\n".join(c.strings)
    return sum(row["value"] in text for row in c.values if row["value_id"] in gone)


def show_bar(chart: str, counts: Mapping[str, int], part: str) -> str:
    width = {"broad": 538, "narrow": 340}[chart]
    return f"{width * counts[part] / sum(counts.values()):.1f}"


def list_outcomes(c: Recount, kind: str) -> dict[str, int]:
    return {outcome: times for (of, outcome), times in c.outcomes.items() if of == kind}


def list_texts(c: Recount, kind: str) -> dict[str, int]:
    return {part: c.count_texts(kind, part) for part in TEXTS.values()}


def show_location(c: Recount, location: str, kind: str) -> list[object]:
    occurrences, edited = c.count_shares(location, kind)
    return [occurrences, show_share(edited, occurrences)]


def count_rank(c: Recount, kind: str, rank: str, column: str) -> object:
    """How often the value of a rank occurs: ranks 1, 10, 100 ... and the last one are shown."""
    curves, number = c.rank_values(kind), int(rank.replace(",", ""))
    last = max(map(len, curves))
    assert number in {last, *(10**power for power in range(len(str(last))))}
    return number if column == "rank" else curves[column == "after"][number - 1]


def find_axis_labels(c: Recount, kind: str) -> list[object]:
    """The powers of ten, to the first that is not below the last rank and the highest count."""
    before, after = c.rank_values(kind)
    most = max(len(before), len(after), before[0], *after[:1])
    powers = range(max(1, math.ceil(math.log10(most))) + 1)
    return [{f"{10**power // 1000}K" if power > 2 else str(10**power) for power in powers}]


def show_scores(c: Recount, kind: str, name: str) -> list[object]:
    """The precision or the recall of a kind by labels, and its interval."""
    assert c.measured is not None
    scores = c.measured["kinds"][kind]
    return label_recount.show_share(scores[name], scores[f"{name}_interval"])


def count_scored(c: Recount, kind: str, *names: str) -> int:
    """The finds or spans of a kind that have labels."""
    assert c.measured is not None
    return sum(c.measured["kinds"][kind][name] for name in names)


# what the segments of a bar are called, by the class of the segment
OUTCOMES = {
    "kept": ("kept", "kept by plan"),
    "left": ("left", "left by plan"),
    "surrogate": ("surrogate", "replaced by a surrogate"),
    "label": ("label", "replaced by a label"),
    "other_text": ("other text", "replaced by another text"),
    "removed": ("deleted", "deleted"),
    "other_edit": ("by another", "changed by an edit of another kind"),
    "dropped": ("dropped", "in dropped documents"),
}
OUTCOME_NAMES = {name: outcome for outcome, name in OUTCOMES.values()}
TEXTS = {"header": "mail headers", "body": "mail bodies", "text": "texts that are not mails"}
COLUMNS = {
    "distinct values": "values",
    "occurrences found": "occurrences",
    "left by plan": "left_by_plan",
}

KIND, ANY = "([A-Z][A-Z0-9_]+)", "(.+)"
PAGES = "(?:summary|card / [^/]+|report)"
CHECK, CANARIES = f"{PAGES} / check", f"{PAGES} / canaries"
DONE, KINDS, RANKS = (
    "card / What was done",
    "report / Outcomes by kind",
    "report / Rank and frequency",
)
WHERE, SHARDS = "report / Where the values occur", "shards, with rows, size and sha256"
LABELS = "report / Precision and recall by labels"
FACTS, DROPS = "report / Provenance", "report / Deduplication / Dropped documents"

PLANS = "rmft|redact|surrogates|mask_words|header_dedup"

# a place with `#` for each number, and the numbers that the shards and the private folder give; the
# function gets the recount and the groups of the place
RECOUNTS: dict[str, Callable[..., list[object]]] = {
    # ---- documents
    "summary / documents / # in = # out [+] # dropped [+] # in quarantine": lambda c: [
        c.documents_in,
        c.rows,
        len(c.dropped),
        len(c.quarantined),
    ],
    f"{DONE} / Of # input documents": lambda c: [c.documents_in],
    f"{DONE} / # are in this corpus": lambda c: [c.rows],
    f"(?:{DONE}|report) / # (?:were )?dropped by plan": lambda c: [len(c.dropped)],
    f"{DONE} / and # were quarantined because they could not be read or were too large": lambda c: [
        len(c.quarantined)
    ],
    f"{DONE} / # dropped by (\\w+): ([a-z ]+) as in an earlier document": lambda c, part, reason: [
        count_drops(c, part, reason)
    ],
    "report / # documents out of #": lambda c: [c.rows, c.documents_in],
    "report / # records in quarantine": lambda c: [len(c.quarantined)],
    f"{DROPS} / (\\w+) / documents / #": lambda c, part: [count_drops(c, part)],
    f"{DROPS} / (\\w+) / of all / #": lambda c, part: [
        show_share(count_drops(c, part), c.documents_in)
    ],
    "report / Quarantine / (\\w+) / records / #": lambda c, reason: [
        sum(row["reason"] == reason for row in c.quarantined)
    ],
    # ---- occurrences
    "report / # of # occurrences found were replaced": lambda c: [
        c.sum_kinds("replaced"),
        len(c.found),
    ],
    "report / # of # occurrences found stay as they are": lambda c: [
        count_unchanged(c),
        len(c.found),
    ],
    f"{PAGES} / stays / in all # found occurrences stay as they are": lambda c: [
        count_unchanged(c)
    ],
    f"{PAGES} / stays / # occurrences of {KIND} in the kept column (\\w+) [(]its name says so[)]": (
        lambda c, _, column: [c.kept_cells[column]]
    ),
    "(?:card|report) / Limits / # found occurrences are in the texts unchanged": lambda c: [
        count_unchanged(c)
    ],
    f"(?:summary / kinds|{DONE}|{KINDS}) / {KIND} / (occurrences|values|replaced|left by plan|swept"
    "|occurrences found|distinct values|documents) / #": lambda c, kind, column: [
        c.by_kind[kind][COLUMNS.get(column, column)]
    ],
    f"summary / kinds / {KIND} / kept / #": lambda c, kind: [c.by_kind[kind]["kept"]],
    f"{DONE} / {KIND} / unchanged / #": lambda c, kind: [
        c.by_kind[kind]["kept"] + c.by_kind[kind]["left_by_plan"]
    ],
    f"{KINDS} / {KIND} / note / skipped: (\\w+) #": lambda c, kind, reason: [
        c.by_kind[kind]["skipped"][reason]
    ],
    f"{KINDS} / {KIND} / (kept|left|surrogate|label|other text|deleted|by another|dropped) / #": (
        lambda c, kind, outcome: [c.outcomes[kind, outcome]]
    ),
    # ---- charts: descriptions, totals, and widths of the bars in pixels
    f"{KINDS} / chart / {KIND} / # ([a-z ]+)": lambda c, kind, name: [
        c.outcomes[kind, OUTCOME_NAMES[name]]
    ],
    f"{KINDS} / (?:broad|narrow) total / {KIND} / #": lambda c, kind: [
        sum(list_outcomes(c, kind).values())
    ],
    f"{KINDS} / (broad|narrow) bar / {KIND} / ([a-z_]+) / #": lambda c, chart, kind, part: [
        show_bar(chart, list_outcomes(c, kind), OUTCOMES[part][0])
    ],
    f"{WHERE} / chart / {KIND} / # ([a-z ]+)": lambda c, kind, name: [c.count_texts(kind, name)],
    f"{WHERE} / (?:broad|narrow) total / {KIND} / #": lambda c, kind: [
        sum(list_texts(c, kind).values())
    ],
    f"{WHERE} / (broad|narrow) bar / {KIND} / (header|body|text) / #": (
        lambda c, chart, kind, part: [show_bar(chart, list_texts(c, kind), TEXTS[part])]
    ),
    f"{WHERE} / ([a-z -]+) / ({KIND}|all) / # #": lambda c, location, kind, _: show_location(
        c, location, kind
    ),
    f"{RANKS} / {KIND} / axes / #": lambda c, kind: find_axis_labels(c, kind),
    f"{RANKS} / {KIND} / ([\\d,]+) / (rank|before|after) / #": lambda c, kind, rank, column: [
        count_rank(c, kind, rank, column)
    ],
    # ---- checks
    f"{CHECK} / full: # of # removed values found in # forms": lambda c: [
        count_leaks(c),
        c.searched_values["values_removed"],
        len(c.published.summary["verify"]["forms"]),
    ],
    f"{CHECK} / full: # of # removed values found in # forms outside # kept originals": lambda c: [
        count_leaks(c),
        c.searched_values["values_removed"],
        len(c.published.summary["verify"]["forms"]),
        c.checked_originals,
    ],
    f"{CHECK} / # are only kept": lambda c: [
        c.searched_values["values_checked"] - c.searched_values["values_removed"]
    ],
    f"{CHECK} / # occurrences that the finders had missed were swept": lambda c: [len(c.swept)],
    "(?:card|report) / Limits / The leak check searched for # values in the(?:se)? forms.*": (
        lambda c: [c.searched_values["values_checked"]]
    ),
    f"{CANARIES} / # of # values of invented people were removed": lambda c: [
        sum(one["removed"] for one in c.canaries["by_form"].values()),
        sum(one["planted"] for one in c.canaries["by_form"].values()),
    ],
    f"{CANARIES} / in # written forms": lambda c: [len(c.canaries["by_form"])],
    f"{CANARIES} / (?:stayed: )?([\\w -]+) # of #": lambda c, form: [
        c.canaries["by_form"][form]["planted"] - c.canaries["by_form"][form]["removed"],
        c.canaries["by_form"][form]["planted"],
    ],
    f"{PAGES} / not looked for / national identifiers of # countries .*": lambda c: [
        len({*known_countries()} - {*c.manifest["plan"]["find"]["countries"]})
    ],
    # ---- samples
    f"report / Before and after: invented people / {KIND} / before": lambda c, kind: [
        list_kinds()[kind].hits[0][0]
    ],
    f"report / Before and after: invented people / {KIND} / after": lambda c, kind: [
        c.canary_samples[list_kinds()[kind].hits[0][0]]
    ],
    "report / Before and after: the corpus, by shape / digits as #": lambda c: [9],
    # ---- parts of plans
    f"{DONE} / # more words were masked because they are on the blacklist of the corpus": (
        lambda c: [c.masked_words]
    ),
    "report / Blacklist / # words outside of occurrences were masked because of it": lambda c: [
        c.masked_words
    ],
    "report / Blacklist / and runs of up to # words": lambda c: [
        max(n for n, reason in c.listed_ngrams if reason == "indirect")
    ],
    "report / Blacklist / that fewer than # users wrote": lambda c: [c.plan["blacklist"]["k"]],
    "report / Blacklist / (\\d+) (direct|indirect) / words in a row / #": lambda c, n, _: [int(n)],
    "report / Blacklist / (\\d+) (direct|indirect) / n-grams / #": lambda c, n, reason: [
        c.listed_ngrams[int(n), reason]
    ],
    "report / Deduplication / header_dedup, by header field / ([a-z-]+) / (.+) / #": (
        lambda c, field, column: [c.removals_by_field[field][column.removeprefix("whole ")]]
    ),
    # ---- labels
    f"{PAGES} / recall / {KIND} # [(]# to #[)]": lambda c, kind: show_scores(c, kind, "recall"),
    f"{PAGES} / recall / # %": lambda c: ["95"],
    f"(?:{PAGES} / recall|{LABELS}) / # labelled rows(?: of this corpus)?": lambda c: [
        c.measured["labelled_rows"]
    ],
    f"(?:{PAGES} / recall|{LABELS}) / scored on #": lambda c: [label_recount.find_scoring_date()],
    f"{LABELS} / # % intervals in brackets": lambda c: ["95"],
    f"{LABELS} / {KIND} / (precision|recall) / # [(]# to #[)]": show_scores,
    f"{LABELS} / {KIND} / judged finds / #": lambda c, kind: [count_scored(c, kind, "judged")],
    f"{LABELS} / {KIND} / in passages / #": lambda c, kind: [
        count_scored(c, kind, "found", "missed")
    ],
    f"{LABELS} / {KIND} / of these found / #": lambda c, kind: [count_scored(c, kind, "found")],
    # ---- files and settings
    "card / head / dataset_info / (\\w+) / num_bytes: #": lambda c, split: [
        str(c.splits[split]["bytes"])
    ],
    "card / head / dataset_info / (\\w+) / num_examples: #": lambda c, split: [
        str(c.splits[split]["rows"])
    ],
    "card / head / size_categories / #": lambda c: ["n<1K" if c.rows < 1000 else "more"],
    f"{FACTS} / leak check / value / # files": lambda c: [c.checked_files],
    f"{FACTS} / shards / value / #": lambda c: [len(c.shards)],
    f"{FACTS} / .*{SHARDS} / {ANY} / rows / #": lambda c, name: [
        pq.read_metadata(c.published.out / name).num_rows
    ],
    f"{FACTS} / (?:Inputs|{SHARDS}) / {ANY} / size / #": lambda c, name: [
        show_size(find_file(c, name).stat().st_size)
    ],
    f"{FACTS} / (?:Inputs|{SHARDS}) / {ANY} / sha256 / #": lambda c, name: [
        file_sha256(find_file(c, name))
    ],
    f"{FACTS} / Inputs / input (\\d+) / file / input #": lambda c, no: [
        range(1, len(c.published.sources) + 1)[int(no) - 1]
    ],
    f"{FACTS} / documents per shard / value / #": lambda c: [find_setting(c, "rows_per_shard")],
    f"{FACTS} / largest document / value / #": lambda c: [
        show_size(find_setting(c, "max_doc_bytes"))
    ],
    f"{FACTS} / matches in a document / value / #": lambda c: [find_setting(c, "max_doc_matches")],
    f"{FACTS} / erasure requests / value / #": lambda c: [
        len([*c.published.work.glob("vault/tombstones/*")])
    ],
    f"{FACTS} / the plan with every setting / (\\w+) (\\d+) / name / \\w+ #": lambda c, part, no: [
        range(1, len(c.plan[part]) + 1)[int(no) - 1]
    ],
    f"{FACTS} / the plan with every setting / (\\w+) (\\d+) / value / (\\w+): #": (
        lambda c, part, no, name: [c.plan[part][int(no) - 1][name]]
    ),
    f"{FACTS} / the plan with every setting / blacklist: ([kn]) / value / #": lambda c, name: [
        c.plan["blacklist"][name]
    ],
    f"{FACTS} / ([a-z-]+) / value / #": lambda c, name: [importlib.metadata.version(name)],
    f"{FACTS} / run [(]plan, input and options[)] / value / #": lambda c: [c.published.run.name],
    f"(?:card|report)(?: / [^/]+)* / [^/]*(?:{PLANS}) [(]?#[)]?": lambda c: [c.published.plan_hash],
    "(?:card|report) / [^/]+ / date(?: / value| / ) / #": lambda c: [find_date(c)],
}


def find_recount(c: Recount, place: str) -> list[object] | None:
    """The numbers of a place; None if there is no recount of it."""
    for pattern, count in RECOUNTS.items():
        if found := re.fullmatch(pattern, place):
            return count(c, *found.groups())
    return None


def is_shown(printed: str, counted: object) -> bool:
    """Whether a number is printed as it is counted; axes show one of several labels."""
    if isinstance(counted, set):
        return printed in counted
    return printed == (f"{counted:,}" if isinstance(counted, int) else counted)
