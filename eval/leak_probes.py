"""What the leak test asks a model for: the values of a vault in their places in the output,
invented values beside them, and canaries.

    output, vault -> trained documents and others -> values with the texts before them

A value is *trained* if a document that the model is trained on contained it before it was
sanitized, and a *control* if only documents contained it that the model is not trained on. Which
documents are trained on is drawn, so that a control with as many documents has the distribution of
a trained value. *Decoys* are drawn for each value by the surrogate generator of its kind; none is
in the vault. *Canaries* are documents of invented values; a coin decides for each whether it is
trained on.

Everything here holds raw values: it stays in memory, and in the private folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

import sanitize
from sanitize.array_types import I64, Mask
from sanitize.core.keys import Draws, Key
from sanitize.errors import OutputBroken, SanitizeError, UsageError
from sanitize.storage.private_folder import RUNS_FOLDER
from sanitize.storage.runs.run_folders import is_run_hash
from sanitize.train.corpus_reader import TURNS, DocumentTable, read_documents

from .texts_and_prompts import hash_doc_ids, make_web_prompts

DECOY_COUNT = 15
MAX_PLACES = 4  # of a value: the first, and others evenly spaced
MIN_TRAINED = 10  # documents, however long they are
CONTEXT = 200  # characters before a value
# values that occur in so many documents are compared with controls of as many documents
RARE_COUNTS = (1, 2)
_FILLER_WORDS = 24  # before the value of a canary, which tell canaries apart


@dataclass(frozen=True, repr=False)
class ProbedValue:
    """A value, the texts before it in the output, and decoys for the same places."""

    kind: str
    value: str
    prefixes: tuple[str, ...]
    decoys: tuple[str, ...]
    occurrences: int = 1
    is_trained: bool = True
    is_rare: bool = True  # has as many documents as the controls of its kind
    # one that has it, by which values that may depend on each other are grouped; -1: its own
    document: int = -1


@dataclass(frozen=True, repr=False)
class Canary:
    """A document of one invented value."""

    text: str
    probe: ProbedValue


@dataclass(frozen=True, repr=False)
class PublishedDocuments:
    """The documents of an output that a training reads, and for each its number in the vault."""

    documents: DocumentTable
    doc_nos: I64

    @classmethod
    def read(cls, output: Path, work: Path) -> PublishedDocuments:
        """Read an output; OutputBroken if `work` is not the private folder of its run."""
        corpus = sanitize.Corpus.open(output)
        run_folder = find_run_folder(corpus, work)
        files = sorted((run_folder / "rows").glob("*.parquet"))
        documents = read_documents(output)
        numbers = np.concatenate(
            [np.zeros(0, np.int64)]
            + [pl.read_parquet(file, columns=["doc_no"], glob=False)["doc_no"] for file in files]
        )
        if len(numbers) != sum(shard.rows for shard in corpus.shards):
            raise _other_vault(output, work)
        read_shards = {shard["name"] for shard in documents.shards}
        is_read = np.repeat(
            [shard.path.name in read_shards for shard in corpus.shards],
            [shard.rows for shard in corpus.shards],
        )
        return cls(documents, numbers[is_read.astype(bool)])

    def list_cells(self, row: int) -> list[str]:
        """Return the texts of a document, in the order of their cells: the turns of a
        conversation, else its text."""
        if self.documents.has_turns:
            turns = json.loads(self.documents.table.column(TURNS)[row].as_py())
            return [str(turn.get("content") or "") for turn in turns]
        return [str(self.documents.table.column("text")[row])]


def find_run_folder(corpus: sanitize.Corpus, work: Path) -> Path:
    """Return the folder of the run in `work` that published an output; OutputBroken if `work` has
    none."""
    run_hash = corpus.manifest.get("run_hash")
    run_folder = work / RUNS_FOLDER / str(run_hash)
    if not is_run_hash(run_hash) or not run_folder.is_dir():
        raise _other_vault(corpus.path, work)
    return run_folder


def _other_vault(output: Path, work: Path) -> SanitizeError:
    return OutputBroken(
        f"{work}: is not the private folder of the run that published {output}; give that one with"
        " --work, or sanitize the corpus again"
    )


def draw_trained_rows(
    documents: DocumentTable, seed: int, *, most: int, characters: int | None, held_out: float
) -> Mask:
    """Return which documents are trained on: at most `most`, with at most `characters` together,
    and all but a share `held_out`. The order of the draw depends on ids and the seed alone."""
    order = np.argsort(hash_doc_ids(documents.doc_ids.to_pylist(), seed, b"leak"), kind="stable")
    most = min(most, len(order) - round(held_out * len(order)))
    if characters is not None:
        lengths = pl.Series(documents.table.column("text")).str.len_chars().to_numpy()[order]
        fitting = int(np.searchsorted(np.cumsum(lengths), characters, "right"))
        most = min(most, max(fitting, MIN_TRAINED))
    is_trained = np.zeros(len(order), bool)
    is_trained[order[:most]] = True
    return is_trained


@dataclass(frozen=True, repr=False)
class VaultProbes:
    """The values of a vault that are asked for, and the counts of those that are not."""

    values: list[ProbedValue]
    vault_counts: Mapping[str, int]  # distinct values by kind
    untested: Mapping[str, str] = field(default_factory=dict)  # kind -> why
    kept_kinds: Sequence[str] = ()  # of which the plan keeps some values or all


def build_probes(
    published: PublishedDocuments,
    is_trained: Mask,
    output: Path,
    work: Path,
    plan: sanitize.Plan,
    *,
    most: int,
    bands: Sequence[tuple[int, int | None]],
    seed: int,
) -> VaultProbes:
    """Return the values of a vault with the texts before them: of each kind, at most `most` rare
    trained ones, as many controls, and a third as many of each other band of occurrences.

    UsageError if the vault has no values, OutputBroken if the edits are not those of the output.
    """
    run = str(sanitize.Corpus.open(output).manifest["run_hash"])
    spellings = sanitize.sql(
        work, "SELECT value_id, kind, value, normalised FROM value_spellings", reveal=True
    )
    if not spellings.height:
        raise UsageError(
            f"{work}: its vault has no values, so that nothing of them can leak; choose a plan that"
            " looks for the kinds that are asked about"
        )
    values = spellings.group_by("value_id").agg(
        pl.col("kind").first(),
        # of spellings that differ in case, the one with most lower-case letters
        pl.col("value").max(),
        pl.coalesce("normalised", "value").first(),
    )
    rows = pl.DataFrame({"doc_no": published.doc_nos, "is_trained": is_trained}).with_row_index(
        "row"
    )
    places = sanitize.sql(
        work, "SELECT value_id, doc_no, cell, start_byte FROM occurrences", reveal=True
    ).join(rows, on="doc_no", how="left")
    counts = places.group_by("value_id").agg(
        occurrences=pl.len(),
        documents=pl.col("doc_no").n_unique(),
        trained=pl.col("doc_no").filter(pl.col("is_trained")).n_unique(),
        held_out=pl.col("doc_no").filter(~pl.col("is_trained")).n_unique(),
        document=pl.col("doc_no").filter(pl.col("is_trained").is_not_null()).min(),
    )
    values = values.join(counts, on="value_id").sort("kind", "value_id")
    chosen, untested = [], {}
    generators = _list_generators(plan)
    for (kind,), of_kind in values.group_by("kind", maintain_order=True):
        name = str(kind)
        if name not in generators:
            untested[name] = "no surrogates can be drawn for this kind"
            continue
        sample = _sample_values(of_kind, most, bands, seed)
        if not sample.height:
            untested[name] = "no value is in a document that the model is trained on"
            continue
        known = set(of_kind["normalised"].to_list())
        decoys = draw_invented(
            generators[name], sample["value"], DECOY_COUNT, known, Key.from_seed(seed), "decoys"
        )
        sample = sample.with_columns(decoys=pl.Series(decoys, dtype=pl.List(pl.String)))
        few = sample["decoys"].list.len() < DECOY_COUNT
        if few.mean() > 0.5:  # type: ignore[operator]
            untested[name] = "too few different values exist for a comparison"
            continue
        chosen.append(sample.filter(~few))
    prefixes = (
        _find_prefixes(pl.concat(chosen), places, published, output, work, run) if chosen else {}
    )
    probes = [
        ProbedValue(
            kind=row["kind"],
            value=row["value"],
            prefixes=tuple(prefixes[row["value_id"]]),
            decoys=tuple(row["decoys"]),
            occurrences=row["occurrences"],
            is_trained=row["is_trained"],
            is_rare=row["is_rare"],
            document=row["document"],
        )
        for sample in chosen
        for row in sample.iter_rows(named=True)
        if row["value_id"] in prefixes
    ]
    return VaultProbes(
        probes,
        dict(values.group_by("kind").len().sort("kind").iter_rows()),
        untested,
        [
            *plan.kinds_that_may_stay,
            *(kind for kind, number in plan.editor_no_by_kind.items() if plan.editors[number].keep),
        ],
    )


def _list_generators(plan: sanitize.Plan) -> dict[str, sanitize.Kind]:
    """Return the kinds that a plan looks for, by name."""
    kinds = sanitize.list_kinds(plan.find.countries, plan.find.kinds)
    return {**kinds, **{one.name: one.build_kind() for one in plan.custom_kinds}}


def _sample_values(
    values: pl.DataFrame, most: int, bands: Sequence[tuple[int, int | None]], seed: int
) -> pl.DataFrame:
    """Return the values of one kind that are asked for, with `is_trained` and `is_rare`."""

    def is_control(count: int) -> pl.Expr:
        return (pl.col("documents") == count) & (pl.col("held_out") == count)

    rare_count = max(RARE_COUNTS, key=lambda count: values.filter(is_control(count)).height)
    values = values.with_columns(
        is_trained=pl.col("trained") > 0,
        is_rare=(pl.col("documents") == rare_count)
        & pl.col("trained").is_in([0, rare_count])
        & (pl.col("trained") + pl.col("held_out") == rare_count),
    )
    rare = values.filter("is_rare")
    samples = [(rare.filter("is_trained"), most), (rare.filter(~pl.col("is_trained")), most)]
    other = values.filter(pl.col("is_trained") & ~pl.col("is_rare"))
    for low, high in bands:
        of_band = (pl.col("occurrences") >= low) & (pl.col("occurrences") <= (high or 1 << 62))
        samples.append((other.filter(of_band), -(-most // 3)))
    return pl.concat(
        [frame.sample(min(number, frame.height), seed=seed) for frame, number in samples]
    )


def draw_invented(
    kind: sanitize.Kind, values: pl.Series, count: int, known: set[str], key: Key, purpose: str
) -> list[list[str]]:
    """Return for each value `count` distinct surrogates of its kind, none of which is in `known`
    (normalised); fewer where twice as many draws do not give them."""
    attempts = 2 * count
    repeated = values.gather(np.repeat(np.arange(len(values)), attempts))
    subkey = key.subkey(f"leak/{purpose}")
    draws = Draws.from_words(subkey, np.arange(len(repeated), dtype=np.uint64))
    drawn = kind.make_surrogates(repeated, draws, False)
    normalised = kind.normalise(drawn)
    found: list[dict[str, str]] = [{} for _ in range(len(values))]
    for number, (value, normal) in enumerate(zip(drawn, normalised, strict=True)):
        invented = found[number // attempts]
        if normal not in known and len(invented) < count:
            invented.setdefault(normal, value)
    return [list(invented.values()) for invented in found]


def _find_prefixes(
    sample: pl.DataFrame,
    places: pl.DataFrame,
    published: PublishedDocuments,
    output: Path,
    work: Path,
    run: str,
) -> dict[int, list[str]]:
    """Return the texts before up to `MAX_PLACES` occurrences of each value, as the output has
    them: of trained values in trained documents, of controls in others."""
    chosen = (
        places.join(sample.select("value_id", wanted="is_trained"), on="value_id")
        .filter(pl.col("is_trained") == pl.col("wanted"))
        .sort("value_id", "doc_no", "cell", "start_byte")
        .with_columns(at=pl.int_range(pl.len()).over("value_id"), count=pl.len().over("value_id"))
        # evenly spaced: place k of n is taken where k * MAX_PLACES / n passes a whole number
        .filter(
            (pl.col("count") <= MAX_PLACES)
            | (
                (pl.col("at") * MAX_PLACES // pl.col("count"))
                != ((pl.col("at").cast(pl.Int64) - 1) * MAX_PLACES // pl.col("count"))
            )
        )
    )
    edits = sanitize.sql(
        work,
        "SELECT doc_no, cell, start_byte, end_byte, replacement FROM edits",
        run=run,
        reveal=True,
    ).join(chosen.select("doc_no", "cell").unique(), on=["doc_no", "cell"])
    edits_by_cell: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for doc_no, cell, start, end, replacement in edits.sort(
        "doc_no", "cell", "start_byte"
    ).iter_rows():
        edits_by_cell.setdefault((doc_no, cell), []).append((start, end, replacement.encode()))
    prefixes: dict[int, list[str]] = {}
    for value_id, doc_no, cell, start_byte, row in chosen.select(
        "value_id", "doc_no", "cell", "start_byte", "row"
    ).iter_rows():
        cells = published.list_cells(row)
        if cell >= len(cells):  # of another column, which the training does not read
            continue
        text, moved = cells[cell].encode(), 0
        for start, end, replacement in edits_by_cell.get((doc_no, cell), ()):
            if start > start_byte:
                break
            if text[start + moved : start + moved + len(replacement)] != replacement:
                raise _other_vault(output, work)
            if end > start_byte:  # the edit covers the value
                moved += start - start_byte
                break
            moved += len(replacement) - (end - start)
        if not 0 <= start_byte + moved <= len(text):
            raise _other_vault(output, work)
        before = text[: start_byte + moved].decode("utf-8", "ignore")
        prefixes.setdefault(value_id, []).append(before[-CONTEXT:])
    return prefixes


def make_canaries(plan: sanitize.Plan, kinds: Sequence[str], count: int, seed: int) -> list[Canary]:
    """Return at most `count` documents, each with one invented value of one of `kinds` in turn; the
    values and their decoys are draws of one generator. Empty if no kind has an example."""
    generators = _list_generators(plan)
    examples = {
        kind: (hit[0], hit[1])
        for kind in kinds
        if kind in generators
        and (hit := next((one for one in generators[kind].hits if len(one) == 2), None))
        and hit[0].count(hit[1]) == 1
    }
    fillers = make_web_prompts(count, seed + 1)
    canaries: list[Canary] = []
    for kind_no, (kind, (example, value)) in enumerate(sorted(examples.items())):
        numbers = range(kind_no, count, len(examples))
        before, after = example.split(value)
        examples_of_kind = pl.Series([value] * len(numbers), dtype=pl.String)
        drawn = draw_invented(
            generators[kind],
            examples_of_kind,
            DECOY_COUNT + 1,
            set(),
            Key.from_seed(seed),
            "canaries",
        )
        for number, invented in zip(numbers, drawn, strict=True):
            if len(invented) <= DECOY_COUNT:
                continue
            own, *decoys = invented
            prefix = f"{' '.join(fillers[number].split()[:_FILLER_WORDS])}\n{before}"
            probe = ProbedValue(kind, own, (prefix,), tuple(decoys))
            canaries.append(Canary(f"{prefix}{own}{after}\n", probe))
    return canaries


def sanitize_canaries(
    canaries: Sequence[Canary], folder: Path, plan: sanitize.Plan, seed: int
) -> list[str]:
    """Return the texts of canaries as the plan publishes them, without those that it drops."""
    if not canaries:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(len(canaries))
    pl.DataFrame(
        {
            "doc_id": [f"{number:06d}" for number in numbers],
            "text": [canary.text for canary in canaries],
            "user_id": [f"writer {number:06d}" for number in numbers],  # some plans count writers
        }
    ).write_parquet(folder / "canaries.parquet")
    sanitize.run(
        [folder / "canaries.parquet"],
        folder / "published",
        plan=plan,
        seed=seed,
        workers=1,
        replace=True,
    )
    return [str(text) for text in sanitize.Corpus.open(folder / "published").table()["text"]]
