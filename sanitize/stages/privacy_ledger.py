"""The privacy ledger: what mechanisms with a privacy claim spent by draw, document, user and in
total, as numbers and as sentences.

The table `ledger` has a row for every document in which something was drawn. Draws add up
(sequential composition): a document with n draws of epsilon each spends n times epsilon, and m
documents that are close to each other at most the sum of theirs (group privacy). A draw that is
shared by all documents (one per word of the corpus) is counted once in the whole corpus. Where the
data decided which positions were drawn, the claim covers single draws only; the sums are then
reported as sums and not as guarantees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from sanitize.array_types import F64, I32, I64
from sanitize.core.exponential_mechanism import format_bound
from sanitize.core.part_protocols import Editor
from sanitize.errors import OutputBroken
from sanitize.storage import table_schemas
from sanitize.storage.files import read_saved_json, write_json
from sanitize.storage.parquet_files import open_table_writer, read_table
from sanitize.storage.runs.run_folders import PLAN_FILE

CLAIM_SEEDED = "none (seeded run: anyone who knows the seed can reproduce the draws)"
CLAIM_OWN_MODEL = (
    "none (the model was trained on the corpus itself, which the mechanism does not account for)"
)
CLAIM_NOT_DP = (
    "none (not DP: the candidate words of a draw depend on the text, and nothing is calibrated to a"
    " sensitivity)"
)
OWN_MODEL_WARNING = (
    "dp_mlm: the model was trained on the corpus itself; what it learned from it is outside the"
    " guarantee, and nothing is claimed"
)
# in WORK: what runs spent whose folders were deleted when the index was rebuilt
PRIOR_RUNS_FILE = "prior_runs.json"
# draws shared by all documents, by number of the editor
SHARED_DRAWS_SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("draw", pa.int64())])
WEAK_ABOVE_EPSILON = (
    10.0  # above it the probability of a result may change by a factor of more than 22,000 (e^10)
)


class LedgerWriter:
    """Collects what a task's editors with a privacy unit spend, and writes its tables `ledger` and
    `draws` if there is such an editor."""

    def __init__(self, editors: Sequence[Editor], folder: Path) -> None:
        self._editors, self._folder = editors, folder
        self._rows: list[pa.Table] = []
        self._draws: list[pa.Table] = []

    def __enter__(self) -> LedgerWriter:
        return self

    def add(self, editor_no: I32, doc_no: I64, column_no: I64, draw_no: I64) -> None:
        """Add the draws that the edits of a batch reveal: number of the editor, document, column,
        and number of the draw. Draw numbers are unique within one document and column, or in the
        whole corpus where draws are shared."""
        shared = np.array(
            [
                bool(editor.privacy_unit) and bool(editor.describe_privacy_cost().shared)
                for editor in self._editors
            ]
            + [False]
        )
        draws = pl.DataFrame(
            {
                "part": editor_no,
                "doc_no": doc_no,
                "column": np.where(shared[editor_no], 0, column_no),
                "draw": draw_no,
            }
        )
        rows = (
            draws.unique()
            .group_by("part", "doc_no")
            .agg(units=pl.len().cast(pl.Int64))
            .sort("part", "doc_no")
        )
        epsilon = pl.Series(
            [
                editor.describe_privacy_cost().epsilon if editor.privacy_unit else 0.0
                for editor in self._editors
            ],
            dtype=pl.Float64,
        )
        editor_numbers = rows["part"].cast(pl.Int64).to_list()
        names = name_parts(self._editors)
        columns = {
            "part": pa.array([names[no] for no in editor_numbers], pa.string()).dictionary_encode(),
            "privacy_unit": pa.array(
                [self._editors[no].privacy_unit for no in editor_numbers], pa.string()
            ),
            "doc_no": rows["doc_no"].to_arrow(),
            "unit_count": rows["units"].to_arrow(),
            "epsilon_per_unit": epsilon.gather(editor_numbers).to_arrow(),
        }
        self._rows.append(
            pa.table(
                [columns[name] for name in table_schemas.LEDGER.schema.names],
                schema=table_schemas.LEDGER.schema,
            )
        )
        shared_editors = pl.Series(np.flatnonzero(shared).astype(np.int32)).implode()
        self._draws.append(
            draws.filter(pl.col("part").is_in(shared_editors))
            .select("part", "draw")
            .unique()
            .sort("part", "draw")
            .to_arrow()
        )

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and any(editor.privacy_unit for editor in self._editors):
            for name, batches, schema in (
                ("ledger", self._rows, table_schemas.LEDGER.schema),
                ("draws", self._draws, SHARED_DRAWS_SCHEMA),
            ):
                with open_table_writer(self._folder / f"{name}.parquet", schema) as out:
                    for table in batches:
                        out.write_table(table.cast(schema))


def build_accounts(
    editors: Sequence[Editor],
    ledger_files: Sequence[Path],
    draw_files: Sequence[Path],
    *,
    is_only_editor: bool,
    public_key: bool,
    prior: Sequence[PriorRun],
    versions: Mapping[str, str],
    users: Iterable[pa.Table] | None,
) -> list[Mapping[str, Any]]:
    """One account for each editor with a privacy unit, from the tables `ledger` and `draws` of all
    tasks.

    `is_only_editor`: nothing else in the plan edits the texts. `prior` has other runs over the same
    corpus; `users` are tables (doc_no, user_id) of all documents, None where the corpus has no
    users.
    """
    spending = [(number, editor) for number, editor in enumerate(editors) if editor.privacy_unit]
    if not spending:
        return []
    frames = [pl.DataFrame(read_table(path)) for path in ledger_files]
    rows = pl.concat([frame.with_columns(pl.col("part").cast(pl.String)) for frame in frames])
    shared = pl.concat([pl.DataFrame(read_table(path)) for path in draw_files]).unique()
    by_user = _sum_epsilon_by_user(rows, users) if users is not None else None
    accounts: list[Mapping[str, Any]] = []
    names = name_parts(editors)
    for number, editor in spending:
        cost = editor.describe_privacy_cost()
        editor_rows = rows.filter(pl.col("part") == names[number])
        epsilon = editor_rows["unit_count"].to_numpy() * editor_rows["epsilon_per_unit"].to_numpy()
        units = (
            int(shared.filter(pl.col("part") == number).height)
            if cost.shared
            else int(editor_rows["unit_count"].sum())
        )
        claim = (
            CLAIM_NOT_DP
            if math.isinf(cost.epsilon)
            else CLAIM_SEEDED
            if public_key
            else CLAIM_OWN_MODEL
            if cost.own_model
            else ""
        )
        documents = cost.by_document if is_only_editor and not claim else ""
        account: dict[str, Any] = {
            "part": names[number],
            "unit": editor.privacy_unit,
            "claim": (
                claim
                or (f"{editor.privacy_unit} and document" if documents else editor.privacy_unit)
            ),
            "adjacency": {
                editor.privacy_unit: "any change of the input",
                **({"document": documents} if documents else {}),
            },
            "mechanism": cost.mechanism,
            "epsilon": cost.epsilon,
            "shared": cost.shared,
            "own_model": cost.own_model,
            "casing": cost.casing,
            **cost.details,
            "delta": 0.0,
            "composition": "sequential: the epsilons of draws add up",
            "rng": (
                "SipHash-2-4 under a subkey of the run's key, counter by document, cell, place and"
                " text; 128 bits a draw"
            ),
            "precision": "float64",
            "library_versions": dict(versions),
            "documents": editor_rows.height,
            "unit_count": units,
            "epsilon_total": round(units * cost.epsilon, 6),
            "units_per_document": _quantiles(
                editor_rows["unit_count"].to_numpy().astype(np.float64)
            ),
            "epsilon_per_document": _quantiles(epsilon),
            "epsilon_per_user": (
                None
                if by_user is None
                else _quantiles(
                    by_user.filter(pl.col("part") == names[number])["epsilon"].to_numpy()
                )
            ),
            "prior_runs": [
                asdict(one) for one in prior if one.part.partition("[")[0] == editor.use
            ],
        }
        if claim == CLAIM_NOT_DP:  # and JSON has no infinity
            account |= {
                "epsilon": None,
                "epsilon_total": None,
                "epsilon_per_document": {},
                "epsilon_per_user": None,
            }
        accounts.append(account | {"statements": describe_account(account)})
    return accounts


def name_parts(editors: Sequence[Editor]) -> list[str]:
    """The name of each editor in the ledger: `dp_mlm`, or `dp_mlm[1]` with its number if the plan
    has several of that name."""
    uses = [editor.use for editor in editors]
    return [use if uses.count(use) == 1 else f"{use}[{number}]" for number, use in enumerate(uses)]


def describe_account(account: Mapping[str, Any]) -> list[str]:
    """An account in plain sentences."""
    unit, epsilon = account["unit"], account["epsilon"]
    sentences = []
    if account["claim"].startswith("none"):
        sentences.append(f"Claim: {account['claim']}.")
    if not account["documents"]:
        return [*sentences, "Nothing was drawn; nothing was spent."]
    if account["claim"] == CLAIM_NOT_DP:
        return sentences  # sums of numbers that bound nothing would be read as bounds
    max_units, median_units = (
        account["units_per_document"]["max"],
        account["units_per_document"]["p50"],
    )
    max_epsilon = account["epsilon_per_document"]["max"]
    sentences.append(
        f"epsilon {epsilon:g} per {unit} x {max_units:,.0f} {unit}s = {format_bound(max_epsilon)}"
        f" per document at most (half of the documents: {median_units:,.0f} {unit}s or fewer,"
        f" {format_bound(median_units * epsilon)})"
        + (
            ": in practice no protection at document level."
            if max_epsilon > WEAK_ABOVE_EPSILON
            else "."
        )
    )
    if account["shared"]:
        sentences.append(
            f"A word is drawn once for the whole corpus: {account['unit_count']:,} draws, "
            f"epsilon {format_bound(account['epsilon_total'])} in all."
        )
    if account["claim"] == unit:
        sentences.append(
            f"The claim is for each {unit} drawn and not for documents: the data decided where it"
            " was drawn, or other parts edit too."
        )
    if account["epsilon_per_user"]:
        sentences.append(
            "All documents of one user add up to"
            f" {format_bound(account['epsilon_per_user']['max'])} at most."
        )
    sentences.append(
        "m documents with the same content add up: up to m times as much (group privacy)."
    )
    sentences.append(
        "Length, punctuation, the number of words, and which words were left unchanged are not"
        " covered."
    )
    if account["casing"] == "first":
        sentences.append("Whether a word began with a capital letter is kept as it was.")
    if account["prior_runs"]:
        sentences.append(
            f"{len(account['prior_runs'])} other runs over this corpus are known; add what they"
            " spent."
        )
    return sentences


@dataclass(frozen=True, kw_only=True)
class PriorRun:
    """What a part of another run spent: the largest epsilon per unit, and the number of units."""

    run: str
    part: str
    epsilon: float
    unit_count: int


def find_prior_runs(runs_folder: Path, own_run: str) -> list[PriorRun]:
    """What other runs in the folder `runs`, and those whose folders were deleted
    (`keep_prior_runs`), wrote to their ledgers, one entry per run and part.

    A run that was interrupted counts as well: what it drew was drawn. Raises OutputBroken if the
    record of the deleted ones is damaged.
    """
    file, remedy = runs_folder.parent / PRIOR_RUNS_FILE, "Restore it: it says what runs spent"
    saved = read_saved_json(file, remedy) or {"runs": []}
    try:
        prior_runs = [PriorRun(**run) for run in saved["runs"] if run["run"] != own_run]
    except (TypeError, KeyError):
        raise OutputBroken(
            f"{file}: is damaged: an entry of it has another form. {remedy}"
        ) from None
    for folder in sorted(runs_folder.iterdir()) if runs_folder.is_dir() else ():
        paths = sorted((folder / "ledger").glob("*.parquet"))
        if folder.name == own_run or not paths or not (folder / PLAN_FILE).is_file():
            continue
        rows = pl.concat(
            [
                pl.DataFrame(read_table(path)).with_columns(pl.col("part").cast(pl.String))
                for path in paths
            ]
        )
        spent = (
            rows.group_by("part")
            .agg(epsilon=pl.col("epsilon_per_unit").max(), unit_count=pl.col("unit_count").sum())
            .sort("part")
        )
        prior_runs = [one for one in prior_runs if one.run != folder.name]
        prior_runs += [PriorRun(run=folder.name, **row) for row in spent.to_dicts()]
    return sorted(prior_runs, key=lambda one: (one.run, one.part))


def keep_prior_runs(runs_folder: Path) -> None:
    """Record in WORK what the runs in its folder `runs` spent, before their folders are deleted: a
    rebuilt index, or another key, gives nothing back."""
    if prior_runs := find_prior_runs(runs_folder, ""):
        write_json(
            runs_folder.parent / PRIOR_RUNS_FILE, {"runs": [asdict(run) for run in prior_runs]}
        )


def _sum_epsilon_by_user(rows: pl.DataFrame, users: Iterable[pa.Table]) -> pl.DataFrame:
    """What each user's documents spent, by part; documents without a user are left out."""
    parts = []
    spent = rows.select("part", "doc_no", epsilon=pl.col("unit_count") * pl.col("epsilon_per_unit"))
    for table in users:
        user_by_doc = (
            pl.DataFrame(table.select(["doc_no", "user_id"]))
            .drop_nulls("user_id")
            .with_columns(pl.col("user_id").cast(pl.String))
        )
        parts.append(
            spent.join(user_by_doc, on="doc_no")
            .group_by("part", "user_id")
            .agg(pl.col("epsilon").sum())
        )
    if not parts:
        return pl.DataFrame(schema={"part": pl.String, "epsilon": pl.Float64})
    return (
        pl.concat(parts)
        .group_by("part", "user_id")
        .agg(pl.col("epsilon").sum())
        .select("part", "epsilon")
        .sort("part", "epsilon")
    )


def _quantiles(numbers: F64) -> dict[str, float]:
    """Median, 90 and 99 percent quantile, and maximum; each is one of the numbers (no
    interpolation)."""
    if not len(numbers):
        return {}
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {
        name: round(float(np.quantile(numbers, share, method="inverted_cdf")), 6)
        for name, share in shares.items()
    }
