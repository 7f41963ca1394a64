"""What mechanisms with a privacy claim spent: by draw, by document, by user and in all, in numbers and in plain words.

The table `ledger` has a row for every document in which something was drawn. Draws add up (sequential composition): a document with n
draws of epsilon each spends n times epsilon, and m documents that are close to each other at most the sum of theirs (group privacy). Where
one draw stands for a word in all documents, it is counted once in the whole corpus. Where the places were chosen by looking at the data,
the claim is about single draws only, and the sums are told as what they are: sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.parts import Editor
from sanitize.storage import table_schemas
from sanitize.storage.corpus import read_json, table_writer

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

SEEDED = "none (seeded run: the draws can be made again by anyone who knows the seed)"
OUTSIDE = "none (the model was trained on the corpus itself, which the mechanism knows nothing of)"
NOT_DP = "none (not DP: which words are drawn among hangs on the text, and nothing is calibrated to a sensitivity)"
WARNING = "dp_mlm: the model was trained on the corpus itself; what it learned from it is outside of the guarantee, and nothing is claimed"
DRAWS = pa.schema([pa.field("part", pa.int32()), pa.field("draw", pa.int64())])  # draws that stand for all documents, by editor
STRONG = 10.0  # above it the chance of a result may change by more than 22,000 times


class Spent:
    """What mechanisms with a claim spent, on its way into the task's tables `ledger` and `draws`; without such an editor there are none."""

    def __init__(self, editors: Sequence[Editor], folder: Path) -> None:
        self._editors, self._folder = editors, folder
        self._rows: list[pa.Table] = []
        self._draws: list[pa.Table] = []

    def __enter__(self) -> Spent:
        return self

    def add(self, part: I32, doc_no: I64, column: I64, draw: I64) -> None:
        """Takes the draws that the edits of a batch show: number of the editor, document, column, and number of the draw. An editor numbers
        its draws in one column at a time, unless they stand for all documents."""
        shared = np.array([bool(editor.unit) and bool(editor.spends()["shared"]) for editor in self._editors] + [False])
        draws = pl.DataFrame({"part": part, "doc_no": doc_no, "column": np.where(shared[part], 0, column), "draw": draw})
        rows = draws.unique().group_by("part", "doc_no").agg(units=pl.len().cast(pl.Int64)).sort("part", "doc_no")
        epsilon = pl.Series([editor.spends()["epsilon"] if editor.unit else 0.0 for editor in self._editors], dtype=pl.Float64)
        which = rows["part"].cast(pl.Int64).to_list()
        names = [editor.use for editor in self._editors]
        columns = {
            "part": pa.array([names[no] for no in which], pa.string()).dictionary_encode(),
            "unit": pa.array([self._editors[no].unit for no in which], pa.string()),
            "doc_no": rows["doc_no"].to_arrow(),
            "units": rows["units"].to_arrow(),
            "epsilon_per_unit": epsilon.gather(which).to_arrow(),
        }
        self._rows.append(pa.table([columns[name] for name in table_schemas.LEDGER.schema.names], schema=table_schemas.LEDGER.schema))
        mine = pl.Series(np.flatnonzero(shared).astype(np.int32)).implode()
        self._draws.append(draws.filter(pl.col("part").is_in(mine)).select("part", "draw").unique().sort("part", "draw").to_arrow())

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and any(editor.unit for editor in self._editors):
            for name, made, schema in (("ledger", self._rows, table_schemas.LEDGER.schema), ("draws", self._draws, DRAWS)):
                with table_writer(self._folder / f"{name}.parquet", schema) as out:
                    for table in made:
                        out.write_table(table.cast(schema))


def accounts(
    editors: Sequence[Editor],
    spent: Sequence[Path],
    draws: Sequence[Path],
    *,
    alone: bool,
    public_key: bool,
    prior: Sequence[Mapping[str, Any]],
    versions: Mapping[str, str],
    users: Iterable[pa.Table] | None,
) -> list[dict[str, Any]]:
    """One account for each editor that spends, from the tables `ledger` and `draws` of all tasks.

    `alone`: nothing else in the plan touches the texts. `prior` has other runs over the same corpus; `users` are tables
    (doc_no, user_id) of all documents, None where nobody is named.
    """
    spending = [(no, editor) for no, editor in enumerate(editors) if editor.unit]
    if not spending:
        return []
    read = [pl.DataFrame(pq.read_table(path, partitioning=None)) for path in spent]
    rows = pl.concat([frame.with_columns(pl.col("part").cast(pl.String)) for frame in read])
    shared = pl.concat([pl.DataFrame(pq.read_table(path, partitioning=None)) for path in draws]).unique()
    by_user = _by_user(rows, users) if users is not None else None
    found = []
    for no, editor in spending:
        told = editor.spends()
        mine = rows.filter(pl.col("part") == editor.use)
        epsilon = mine["units"].to_numpy() * mine["epsilon_per_unit"].to_numpy()
        units = int(shared.filter(pl.col("part") == no).height) if told["shared"] else int(mine["units"].sum())
        claim = NOT_DP if told.pop("not_dp", False) else SEEDED if public_key else OUTSIDE if told["own_model"] else ""
        documents = told.pop("by_document") if alone and not claim else ""
        told.pop("by_document", None)
        account = {
            "part": editor.use,
            "unit": editor.unit,
            "claim": claim or (f"{editor.unit} and document" if documents else editor.unit),
            "adjacency": {editor.unit: "any change of the input", **({"document": documents} if documents else {})},
            **told,
            "delta": 0.0,
            "composition": "sequential: the epsilons of draws add up",
            "rng": "SipHash-2-4 under a subkey of the run's key, counter by document, cell, place and text; 128 bits a draw",
            "precision": "float64",
            "code": dict(versions),
            "documents": mine.height,
            "units": units,
            "epsilon_in_all": round(units * told["epsilon"], 6),
            "units_of_document": _spread(mine["units"].to_numpy().astype(np.float64)),
            "epsilon_of_document": _spread(epsilon),
            "epsilon_of_user": None if by_user is None else _spread(by_user.filter(pl.col("part") == editor.use)["epsilon"].to_numpy()),
            "prior_runs": [dict(one) for one in prior if one["part"] == editor.use],
        }
        if claim == NOT_DP:  # and JSON has no infinity
            account |= {"epsilon": None, "epsilon_in_all": None, "epsilon_of_document": {}, "epsilon_of_user": None}
        found.append(account | {"words": words(account)})
    return found


def words(account: Mapping[str, Any]) -> list[str]:
    """An account in plain sentences."""
    unit, epsilon = account["unit"], account["epsilon"]
    said = []
    if account["claim"].startswith("none"):
        said.append(f"Claim: {account['claim']}.")
    if not account["documents"]:
        return [*said, "Nothing was drawn; nothing was spent."]
    if account["claim"] == NOT_DP:
        return said  # sums of numbers that bound nothing would be read as if they did
    most, middle = account["units_of_document"]["max"], account["units_of_document"]["p50"]
    worst = account["epsilon_of_document"]["max"]
    said.append(
        f"epsilon {epsilon:g} per {unit} x {most:,.0f} {unit}s = {worst:,.0f} per document at most "
        f"(half of the documents: {middle:,.0f} {unit}s or fewer, {middle * epsilon:,.0f})"
        + (": in practice no protection at document level." if worst > STRONG else ".")
    )
    if account["shared"]:
        said.append(
            f"A word is drawn once for the whole corpus: {account['units']:,} draws, epsilon {account['epsilon_in_all']:,.0f} in all."
        )
    if account["claim"] == unit:
        said.append(
            f"The claim is for each {unit} drawn and not for documents: the data decided where it was drawn, or other parts edit too."
        )
    if account["epsilon_of_user"]:
        said.append(f"All documents of one user add up to {account['epsilon_of_user']['max']:,.0f} at most.")
    said.append("m documents that tell the same add up: up to m times as much (group privacy).")
    said.append("Length, punctuation, the number of words, and which words were left alone are not covered.")
    if account["casing"] == "first":
        said.append("Whether a word began with a capital letter is shown as it was.")
    if account["prior_runs"]:
        said.append(f"{len(account['prior_runs'])} other runs over this corpus are known; what they spent is to be added.")
    return said


def prior_runs(runs: Path, own: str) -> list[dict[str, Any]]:
    """Other runs in the folder `runs` whose editors spent: run, part, epsilon of a unit and units."""
    found = []
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        paths = sorted((folder / "ledger").glob("*.parquet"))
        if folder.name == own or not paths or read_json(folder / "plan.json") is None:
            continue
        rows = pl.concat(
            [pl.DataFrame(pq.read_table(path, partitioning=None)).with_columns(pl.col("part").cast(pl.String)) for path in paths]
        )
        spent = rows.group_by("part").agg(epsilon=pl.col("epsilon_per_unit").max(), units=pl.col("units").sum()).sort("part")
        found += [{"run": folder.name, **row} for row in spent.to_dicts()]
    return found


def _by_user(rows: pl.DataFrame, users: Iterable[pa.Table]) -> pl.DataFrame:
    """What each user's documents spent, by part; documents of nobody are left out."""
    parts = []
    spent = rows.select("part", "doc_no", epsilon=pl.col("units") * pl.col("epsilon_per_unit"))
    for table in users:
        mine = pl.DataFrame(table.select(["doc_no", "user_id"])).drop_nulls("user_id").with_columns(pl.col("user_id").cast(pl.String))
        parts.append(spent.join(mine, on="doc_no").group_by("part", "user_id").agg(pl.col("epsilon").sum()))
    if not parts:
        return pl.DataFrame(schema={"part": pl.String, "epsilon": pl.Float64})
    return pl.concat(parts).group_by("part", "user_id").agg(pl.col("epsilon").sum()).select("part", "epsilon").sort("part", "epsilon")


def _spread(numbers: npt.NDArray[np.float64]) -> dict[str, float]:
    """Median, 90 and 99 percent, and the largest; a value that was there, none between two."""
    if not len(numbers):
        return {}
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(float(np.quantile(numbers, share, method="inverted_cdf")), 6) for name, share in shares.items()}
