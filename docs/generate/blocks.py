"""Blocks of generated lines within hand-written pages: the shipped plans, the parts, and every
measured table.

A page has the block between `<!-- generated: NAME -->` and `<!-- /generated -->`. README.md has its
own blocks (`README_BLOCKS`). `committed_parts` writes both.
"""

from __future__ import annotations

import functools
import importlib
import json
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import detection, scale
from docs.generate import papers
from docs.generate.markdown import format_table
from sanitize.cli import settings_sources
from sanitize.core import part_protocols
from sanitize.kinds.kind import Kind, builtin_kinds
from sanitize.plans.coverage import CategoryCoverage
from sanitize.plans.plan import load_plan
from sanitize.plans.shipped_plans import list_plans

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NOT_MEASURED = ["Not measured yet."]


def read_result(name: str) -> dict[str, Any] | None:
    """The result of a benchmark, `benchmarks/results/NAME.json`; None where it was not measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


# ---- plans and parts ----


def settings_block() -> list[str]:
    """The settings that variables and `sanitize.toml` may give."""
    rows = [
        [
            f"`{name}`",
            f"`{settings_sources.variable_of(name)}`",
            "yes" if name in settings_sources.FILE_SETTINGS else "no",
        ]
        for name in settings_sources.VARIABLE_SETTINGS
    ]
    return format_table(["setting", "variable", "in `sanitize.toml`"], rows)


def list_international_kinds() -> dict[str, Kind]:
    """The kinds without a country, including those on request."""
    return {name: kind for name, kind in builtin_kinds().items() if kind.country is None}


def list_all_plans() -> list[str]:
    """The shipped plans: those for use, then those of the papers."""
    return list_plans(of_papers=False) + list_plans(of_papers=True)


def describe_treatment(plan: str, kind: str) -> str:
    """What a plan does with a kind, in a few words."""
    chosen = load_plan(plan)
    if kind in chosen.leave:
        return "left"
    number = chosen.editor_no_by_kind.get(kind)
    if number is None:
        return "not searched for"
    settings = chosen.editors[number].model_dump()
    if settings["use"] == "redact":
        return "its label"
    if settings["use"] == "rmft":
        kept = {0: "", 1: "first kept, later ones: "}.get(
            settings["keep"], f"first {settings['keep']} kept, later ones: "
        )
        return kept + (
            "variant" if builtin_kinds()[kind].components and settings["anchors"] else "surrogate"
        )
    labels = {
        "header_dedup": "repeats removed from headers",
        "mask_words": "each word masked",
        "pseudonymize": "one surrogate per value",
        "dp_mlm": "words replaced by draws",
        "generalize": {"DATE_TIME": "its year", "AGE": "a ten-year range"}.get(kind, "its label"),
    }
    return labels.get(settings["use"], str(settings["use"]))


def plan_block() -> list[str]:
    """What each shipped plan says of itself, and what it does with every kind; kinds with the same
    treatment share a row."""
    names = list_all_plans()
    kinds_by_treatment: dict[tuple[str, ...], list[str]] = {}
    for kind in list_international_kinds():
        kinds_by_treatment.setdefault(
            tuple(describe_treatment(name, kind) for name in names), []
        ).append(kind)
    rows = [[", ".join(kinds), *treatments] for treatments, kinds in kinds_by_treatment.items()]
    sentences = [f"- `{name}`: {load_plan(name).about}" for name in names]
    return [*sentences, "", *format_table(["", *(f"`{name}`" for name in names)], rows)]


COVERAGE_WORDS = {
    "left as it is": "left",
    "redact": "labels",
    "pseudonymize": "one surrogate per value",
    "mask_words": "masked",
    "dp_mlm": "words drawn again",
    "header_dedup": "repeats in headers removed",
    "generalize": "years, ten-year ranges",
}


def describe_category(row: CategoryCoverage) -> str:
    """What a plan does about a category, in a few words: `labels`, `first kept; PHONE_NUMBER left`,
    or `not looked for`."""
    if not row.looked_for:
        return "not looked for"
    words = []
    for treatment in row.looked_for:
        if treatment.editor == "rmft":
            text = "first kept, later ones variants" if treatment.stays else "surrogates"
        else:
            text = COVERAGE_WORDS[treatment.editor or treatment.action]
        words.append(text if len(row.looked_for) == 1 else f"{', '.join(treatment.kinds)}: {text}")
    countries = {name for name, kind in builtin_kinds().items() if kind.country is not None}
    missing = [name for name in row.not_looked_for if name not in countries]
    return "; ".join([*words, *([f"{', '.join(missing)}: not looked for"] if missing else [])])


def coverage_block(*, of_papers: bool) -> list[str]:
    """What each shipped plan does about each category of kinds; from `Plan.coverage`, as in
    `sanitize plan show`."""
    names = list_plans(of_papers=of_papers)
    rows_by_plan = {name: load_plan(name).coverage() for name in names}
    rows = [
        [f"`{row.category}`", *(describe_category(rows_by_plan[name][number]) for name in names)]
        for number, row in enumerate(rows_by_plan[names[0]])
    ]
    return format_table(["category", *(f"`{name}`" for name in names)], rows)


def part_block(stage: part_protocols.PartType) -> list[str]:
    """The parts of a type, each with the first line of its docstring."""
    package = f"sanitize.{part_protocols.PACKAGES[stage]}"
    modules = {
        name: importlib.import_module(f"{package}.{name}")
        for name in part_protocols.list_part_names(stage)
    }
    return [
        f"- `{name}`: {(module.__doc__ or '').partition(chr(10))[0]}"
        for name, module in modules.items()
    ]


# ---- measurements ----


def bench_block(result: Mapping[str, Any] | None) -> list[str]:
    """The main job against a plain copy of the same shards."""
    if result is None:
        return NOT_MEASURED
    about, corpora, small = result["machine"], result["corpora"], result["ten_thousand"]
    rows = [
        [
            "text",
            *(
                f"{one['corpus']['text_mb']:.0f} MB, {one['occurrences_per_kb']:.1f} occurrences"
                " per KB"
                for one in corpora.values()
            ),
        ],
        [
            "detect + rmft + write",
            *(
                f"{one['mb_per_cpu_s']['run_without_verify']:.0f} MB per CPU-second"
                for one in corpora.values()
            ),
        ],
        [
            "... / rate of a plain copy",
            *(
                f"{one['run_without_verify_of_floor']:.3f} (aim {one['aim']})"
                for one in corpora.values()
            ),
        ],
        [
            "verify, of the cost of detect",
            *(f"{one['verify_of_find']:.2f}" for one in corpora.values()),
        ],
        ["largest process", *(f"{one['peak_rss_mb']:.0f} MB" for one in corpora.values())],
    ]
    return [
        *format_table(["", *corpora], rows),
        "",
        (
            f"10,000 mails ({small['text_mb']:.0f} MB) through the whole run: {small['wall_s']:.1f}"
            f" s. {result['date']}, {about['cpu']}, {about['cores']} cores, Python"
            f" {about['python']}; the table with one worker and one thread, medians of"
            f" {result['repeat']}."
        ),
    ]


def reduce_block(result: Mapping[str, Any] | None) -> list[str]:
    """Deduplication and blacklists against a plain copy and other libraries."""
    if result is None:
        return NOT_MEASURED
    labels = {
        "header_dedup_of_plain_copy": "header_dedup without reading and writing, rate / plain copy",
        "header_dedup_by_line_of_plain_copy": '... with `scope = "line"`',
        "minhash_of_datasketch": (
            "near_dup to candidate pairs, rate / datasketch document by document"
        ),
        "words_of_polars": "blacklist of words, from shards to its table, rate / Polars",
        "ngrams_of_polars": "... of n-grams of up to three words",
    }
    rows = [
        [
            label,
            *(
                f"{figures[name]:.1f} (aim {result['aims'][name]:g})"
                for figures in result["corpora"].values()
            ),
        ]
        for name, label in labels.items()
        if name in result["aims"]
    ]
    return [
        *format_table(["", *result["corpora"]], rows),
        "",
        f"{result['date']}, {result['machine']['cpu']}, one thread, medians of {result['repeat']}.",
    ]


def gpu_block() -> list[str]:
    """Training on a GPU: rates, share of the peak and memory in each setting."""
    result = read_result("gpu")
    if result is None:
        return NOT_MEASURED
    machine, options = result["machine"], result["settings"]
    settings = {
        **result["loop"],
        **{
            f"private, {name.replace('_', ' ')}": one
            for name, one in result.get("private", {}).items()
        },
    }
    rows = [
        [
            name.replace("_", " "),
            f"{one['tokens_per_s']:,.0f}",
            f"{one['mfu']:.1%}",
            f"{one['memory_gb']:.1f}",
        ]
        for name, one in settings.items()
    ]
    rows.append(
        ["Trainer of transformers, bf16", f"{result['trainer']['tokens_per_s']:,.0f}", "", ""]
    )
    difference = result["precision"]["largest_relative_loss_difference_of_bf16"]
    model = f"GPT-2 of {options['layers']} layers and width {options['width']}"
    return [
        *format_table(["setting", "tokens/s", "MFU", "GB"], rows),
        "",
        (
            f"Loss in bf16 and in float32 differ by {difference:.2%} at most, over"
            f" {options['steps']} steps. {result['date']}, {machine['gpu']}, torch"
            f" {machine['torch']}, transformers {machine['transformers']}; {model},"
            f" {options['batch']} rows of {options['context']:,} tokens a step; private: rows whose"
            " gradients are held at once."
        ),
    ]


LEARNING = {
    ("eval", "batched_of_unbatched"): "continuations in batches of 512 / one by one",
    ("eval", "ranked_together_of_one_by_one"): "ranking of R.R. in batches / one by one",
    (
        "train",
        "penalty_step_of_plain_step",
    ): "cost of a step with the n-gram penalty / of a plain one (at most)",
    ("train", "stream_of_model"): "rate of the data stream / consumption of a small model",
}


def learning_block() -> list[str]:
    """Training, attacks and DP-MLM in batches against one by one."""
    rows = []
    for (name, key), label in LEARNING.items():
        if (result := read_result(name)) is not None:
            value = result.get(name, result)[key]
            rows.append(
                [
                    label,
                    f"{value:,.0f}" if value >= 100 else f"{value:.3g}",
                    f"{result['aims'][key]:g}",
                    result["date"],
                ]
            )
    if (result := read_result("dp_mlm")) is not None:
        rows += [
            [
                f"DP-MLM batched / one forward pass per word; {int(size):,} words",
                f"{figures['times']:.3g}",
                f"{result['aims'][size]:g}",
                result["date"],
            ]
            for size, figures in result["found"].items()
        ]
    return (
        format_table(["by CPU-seconds of one thread", "ratio", "aim", "date"], rows)
        if rows
        else NOT_MEASURED
    )


PRETRAINED = {
    # ratio -> (what, rates of both sides)
    "train_of_plain": (
        "training: `Trainer` / a plain loop",
        "train_tokens_per_cpu_s",
        "trainer",
        "plain",
    ),
    "score_rows_of_plain": (
        "scoring rows of one length / a forward pass for each batch",
        "score_tokens_per_cpu_s.rows",
        "ours",
        "plain",
    ),
    "score_mails_of_plain": (
        "scoring mails / a forward pass for each batch",
        "score_tokens_per_cpu_s.mails",
        "ours",
        "plain",
    ),
    "generate_of_transformers": (
        "continuations of a batch / `generate` on the same batch",
        "generated_tokens_per_cpu_s",
        "batch",
        "batch_of_transformers",
    ),
    "generate_of_one_by_one": (
        "continuations of a batch / `generate` on each prompt",
        "generated_tokens_per_cpu_s",
        "batch",
        "one_by_one_of_transformers",
    ),
    "queries_of_transformers": (
        "40 continuations of each text / `generate` with 40 sequences",
        "generated_tokens_per_cpu_s",
        "queries",
        "queries_of_transformers",
    ),
}


def pretrained_block() -> list[str]:
    """Training, scoring and generation on a pretrained model beside plain code."""
    if (result := read_result("pretrained")) is None:
        return NOT_MEASURED
    rows = []
    for key, (label, rates, own, plain) in PRETRAINED.items():
        found = functools.reduce(operator.getitem, rates.split("."), result)
        rows.append(
            [
                label,
                f"{found[own]:,.0f}",
                f"{found[plain]:,.0f}",
                f"{result[key]:.2f}",
                f"{result['aims'][key]:g}",
            ]
        )
    versions = result["machine"]["versions"]
    return [
        *format_table(
            ["ours / plain code", "ours, tokens per CPU-s", "plain", "ratio", "aim"], rows
        ),
        "",
        (
            f"{result['date']}, {result['machine']['cpu']}, torch {versions['torch']}, transformers"
            f" {versions['transformers']}, float32, medians of {result['repeat']};"
            f" {result['parameters'] / 1e6:.0f} M parameters."
        ),
    ]


def peers_block(result: Mapping[str, Any] | None) -> list[str]:
    """How many times the rate of other tools."""
    if result is None:
        return NOT_MEASURED
    jobs = {"addresses": "addresses alone", "all kinds": "all kinds of each tool"}
    own = ("plain copy", "sanitize", "sanitize, plan redact")
    tables = result["rewriting"].values()
    tools = [
        name
        for name in result["rewriting"]["addresses"]
        if name not in own and not any("missing" in table[name] for table in tables)
    ]
    rows = [
        [label, *(f"{result['rewriting'][job][name]['sanitize_is_times']:.1f}" for name in tools)]
        for job, label in jobs.items()
    ]
    return [
        *format_table(
            ["find and replace, Parquet to Parquet: rate of sanitize / rate of", *tools], rows
        ),
        "",
        f"{result['date']}, {result['machine']['cpu']}, one thread, medians of {result['repeat']}.",
    ]


def result_page_block(name: str) -> list[str]:
    """A page that a benchmark wrote, `benchmarks/results/NAME.md`, with its headings one level
    lower and without its title."""
    path = RESULTS / f"{name}.md"
    text = path.read_text("utf-8") if path.exists() else "\n".join(NOT_MEASURED)
    return re.sub(r"(?m)^#", "##", re.sub(r"\A# .*\n", "", text)).strip().splitlines()


def detection_block() -> list[str]:
    """Quality and cost of the finders and of other tools on labelled text."""
    result = read_result("detection")
    return NOT_MEASURED if result is None else detection.render_tables(result).splitlines()


def scale_block() -> list[str]:
    """Costs by size, and what they come to at terabytes."""
    result = read_result("scale")
    return NOT_MEASURED if result is None else scale.render_tables(result).splitlines()


def soak_block() -> list[str]:
    """The record of `make soak`, a row for each test file: cases that passed of those that it has,
    counts, hours."""
    result = read_result("soak")
    if result is None:
        return NOT_MEASURED
    files: dict[str, list[dict[str, Any]]] = {}
    for test, entry in result["tests"].items():
        files.setdefault(test.partition("::")[0], []).append(entry)
    rows = []
    for file, entries in files.items():
        counts: dict[str, int] = {}
        for entry in entries:
            for name, count in entry.get("counts", {}).items():
                counts[name] = counts.get(name, 0) + count
        passed, cases, skipped = (
            sum(count) for count in zip(*map(_count_cases, entries), strict=True)
        )
        outcome = f"{passed} of {cases}" + (f", {skipped} skipped" if skipped else "")
        hours = sum(entry.get("seconds", 0) for entry in entries) / 3600
        rows.append(
            [
                f"`{file}`",
                outcome,
                "; ".join(f"{count:,} {name}" for name, count in sorted(counts.items())),
                f"{hours:.1f}",
            ]
        )
    dates = sorted(entry["date"] for entry in result["tests"].values() if "date" in entry)
    machine = result["machine"]
    caption = (
        f"{dates[0]} to {dates[-1]}, {machine['cpu']}, {machine['cores']} cores, Python"
        f" {machine['python']}."
    )
    return [*format_table(["tests", "cases passed", "counts", "hours"], rows), "", caption]


def _count_cases(entry: Mapping[str, Any]) -> tuple[int, int, int]:
    """(passed, all, skipped) of an entry of the soak record."""
    return len(entry["passed"]), entry["cases"], len(entry.get("skipped", []))


BLOCKS: dict[str, Callable[[], list[str]]] = {
    "plans": plan_block,
    "coverage": lambda: coverage_block(of_papers=False),
    "coverage-papers": lambda: coverage_block(of_papers=True),
    "finders": lambda: part_block("find"),
    "droppers": lambda: part_block("drop"),
    "editors": lambda: part_block("edit"),
    "bench": lambda: bench_block(read_result("main_job")),
    "reduce": lambda: reduce_block(read_result("reduce")),
    "learning": learning_block,
    "pretrained": pretrained_block,
    "peers": lambda: peers_block(read_result("peers")),
    "peers-page": lambda: result_page_block("peers"),
    "main-job-page": lambda: result_page_block("main_job"),
    "planted-page": lambda: result_page_block("planted"),
    "sweeps-page": lambda: result_page_block("sweeps"),
    "languages-page": lambda: result_page_block("languages"),
    "registers-page": lambda: result_page_block("registers"),
    "documents-page": lambda: result_page_block("documents"),
    "verdicts-page": lambda: result_page_block("verdicts"),
    "people-page": lambda: result_page_block("people"),
    "origins-page": lambda: result_page_block("origins"),
    "first-names-page": lambda: result_page_block("first_names"),
    "intervals-page": lambda: result_page_block("intervals"),
    "fuzzy-copies-page": lambda: result_page_block("fuzzy_copies"),
    "stream-page": lambda: result_page_block("stream"),
    "settings": settings_block,
    "detection": detection_block,
    "scale": scale_block,
    "gpu": gpu_block,
    "papers": papers.papers_block,
    "soak": soak_block,
}


def fill_blocks(page: str) -> str:
    """The page with its blocks generated again. KeyError for an unknown name."""
    return re.sub(
        r"(?ms)^(<!-- generated: ([\w-]+) -->\n).*?(^<!-- /generated -->$)",
        lambda match: "\n".join([match[1], *BLOCKS[match[2]](), "", match[3]]),
        page,
    )


# ---- README.md ----

PEERS = ("presidio", "scrubadub", "datatrove")
WITH_NAMES = "names"  # the finder of this name, in benchmarks/results/detection.json


def quality_block() -> list[str]:
    """F2 by kind beside three other tools, and the recall with its interval; names of people by the
    finder `names`."""
    result = read_result("detection")
    if result is None:
        return NOT_MEASURED
    scores = {
        name: {kind: one["pooled"] for kind, one in finder.get("scores", {}).items()}
        for name, finder in result["finders"].items()
    }
    rows = []
    for kind, patterns in scores["sanitize"].items():
        with_names = scores[WITH_NAMES][kind]
        own = patterns if patterns["finds"] else with_names
        low, high = own["recall_interval"]
        others = [
            f"{one['f2']:.2f}" if (one := scores[name][kind])["finds"] else "–" for name in PEERS
        ]
        rows.append(
            [
                kind,
                f"{own['labels']:,}",
                f"{own['recall']:.2f} ({low:.2f} to {high:.2f})",
                f"{own['f2']:.2f}",
                *others,
            ]
        )
    records = sum(records_of_set["records"] for records_of_set in result["sets"].values())
    return [
        *format_table(
            ["kind", "labels", "recall (95 %)", "F2", *(f"F2 of {name}" for name in PEERS)], rows
        ),
        "",
        (
            f"Exact spans in {records:,} labelled records of {len(result['sets'])} sets:"
            f" {', '.join(result['sets'])}."
        ),
        (
            "Some of them were read while the rules were written. PERSON is found by `redact`,"
            " `surrogates`, `pseudonymize`, `names` and `strict`,"
        ),
        (
            "DATE_TIME and AGE by `strict` or if a plan names them, all others by every plan. – :"
            " the tool does not search for the kind."
        ),
    ]


def comparison_block() -> list[str]:
    """Kinds, versions and rates of the other tools."""
    result = read_result("peers")
    if result is None:
        return NOT_MEASURED
    jobs = result["rewriting"]
    names = ("sanitize", *PEERS)
    versions = [
        "",
        *(
            f"{name} {'/'.join(sorted(set(jobs['all kinds'][name]['packages'].values())))}".strip()
            for name in names
        ),
    ]
    rows = [
        [
            "kinds that it replaced here",
            *(str(len(jobs["all kinds"][name]["kinds"])) for name in names),
        ],
        [
            "all of these, MB per CPU-second",
            *(f"{jobs['all kinds'][name]['mb_per_cpu_s']:.3g}" for name in names),
        ],
        [
            "addresses alone, MB per CPU-second",
            *(f"{jobs['addresses'][name]['mb_per_cpu_s']:.3g}" for name in names),
        ],
    ]
    return format_table(versions, rows)


README_BLOCKS: dict[str, Callable[[], list[str]]] = {
    "quality": quality_block,
    "bench": BLOCKS["bench"],
    "comparison": comparison_block,
    "papers": papers.papers_summary_block,
}
