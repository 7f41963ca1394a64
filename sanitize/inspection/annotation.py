"""How well a corpus's own finds are: a sample to label by hand, what the labels say, and an estimate of what every finder missed.

The sample has two parts. Finds, as many of every kind, ask whether each is right: that is precision. Passages, from documents with and
without any find, ask what was missed: that is recall. Both are drawn by a seeded hash or generator, so that a sample can be drawn again,
and lie in WORK for their owner alone, since they hold texts. Intervals are Wilson's score intervals (Wilson, Probable inference, the law
of succession, and statistical inference, 1927) at 95 %.

Without any labels, two or more indexes of one corpus that different finders made tell how much all of them missed
(sanitize/inspection/capture_recapture.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sanitize.core.display import Told
from sanitize.core.text_cells import Leaf
from sanitize.errors import UsageError, nearest
from sanitize.inspection.capture_recapture import MORE, TWO, Z, chapman, histories, met, together
from sanitize.kinds.kind import bringing, every_kind
from sanitize.plans.detection_spec import customs_in
from sanitize.storage.corpus import Documents, cells_of, read_json, write_lines
from sanitize.storage.disk_errors import disk_trouble
from sanitize.storage.remote_storage import local_path
from sanitize.storage.vault import private_folder

_AROUND = 80  # characters of context on either side of a find
_PASSAGE = 1_500  # characters of a passage
_NEAR = 2_000  # documents that are read together
_PLACE = ("doc_no", "cell", "start", "stop", "kind")


def label(
    work: Path | str,
    *,
    n: int = 300,
    out: Path | str | None = None,
    score: Path | str | None = None,
    against: Sequence[Path | str] | Path | str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Draw a sample of `n` rows for labelling by hand, or say what a labelled one tells (`score`), or what indexes of one corpus that
    different finders made all missed (`against`, one other or several).

    A sample gives `file`, `rows`, `strata`, and the strata of which it has no row (`left_out`), where there are more of them than rows.
    It goes to WORK/labels/sample.jsonl, or to `out`, and never over a file that is there.
    `score` gives for every kind `precision` and `recall` with intervals; `against` gives `estimates`. Raises UsageError.
    """
    work = local_path(work)
    private_folder(work)
    if score is not None and against is not None:
        raise UsageError("--score and --against exclude each other: one reads labels, the other needs none")
    if score is not None:
        with bringing(customs_in(work)):
            return Told("label", _scored(Path(score)))
    if against is not None:
        others = [against] if isinstance(against, str | Path) else against
        return Told("label", _estimated(work, [local_path(one) for one in others]))
    target = local_path(out) if out is not None else work / "labels" / "sample.jsonl"
    if target.exists():
        raise UsageError(f"{target}: is there already, and may hold labels; name another file with --out, or move it away")
    if n < 1:
        raise UsageError(f"--n {n}: a sample has a row at least; take 1 or more")
    if out is not None and not target.parent.is_dir():
        raise UsageError(f"{target}: there is no such folder; make it, or leave --out away")
    rows, every = _drawn(work, n, seed)
    with disk_trouble(target.parent):
        if out is None:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        write_lines(target, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows), over=False)
    strata: dict[str, int] = {}
    for row in rows:
        strata[row["stratum"]] = strata.get(row["stratum"], 0) + 1
    told = {"file": str(target), "rows": len(rows), "strata": strata, "left_out": [one for one in every if one not in strata]}
    return Told("label", {**told, "work": str(work)})


# ------------------------------------------------------------------------------------------------------------------------ the sample


def _index(work: Path) -> Mapping[str, Any]:
    index = read_json(work / "index.json")
    if not index or not index.get("complete"):
        raise UsageError(f"{work}: has no complete index; make it with `sanitize find INPUT... --work {work}`")
    return index


def _occurrences(work: Path) -> Iterator[pl.DataFrame]:
    """The occurrences, task by task."""
    for path in sorted((work / "tables" / "occurrences").glob("*.parquet")):
        yield pl.read_parquet(path, columns=[*_PLACE, "start_byte", "stop_byte"], glob=False).with_columns(pl.col("kind").cast(pl.String))


def _drawn(work: Path, n: int, seed: int) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a sample: half finds, as many of each kind, half passages, as many from documents with and without any find; what is too
    few of one goes to the others. And all strata there are."""
    documents = Documents.from_json(_index(work)["documents"], work)
    leaves = [Leaf(column, tuple(steps)) for column, *steps in _index(work)["leaves"]]
    if not all(source.is_there() for source in documents.sources):
        raise UsageError(f"{work}: the input that it indexes has moved or changed; run `sanitize find` again")
    told = np.zeros(documents.count, np.bool_)
    chosen: list[pl.DataFrame] = []
    for part in _occurrences(work):
        told[part["doc_no"].to_numpy()] = True
        # of each kind those with the smallest hashes: a sample without replacement that needs one task at a time
        ranked = part.with_columns(draw=pl.struct("doc_no", "cell", "start", "kind").hash(seed))
        chosen.append(ranked.sort("draw").group_by("kind", maintain_order=True).head(n))
    finds = pl.concat(chosen) if chosen else pl.DataFrame(schema={"kind": pl.String, "draw": pl.UInt64, "doc_no": pl.Int64})
    kinds = {str(kind): frame.sort("draw").head(n) for (kind,), frame in sorted(finds.group_by("kind"), key=lambda pair: str(pair[0][0]))}
    with_finds, without = "documents with finds", "documents without finds"
    sides = {without: np.flatnonzero(~told), with_finds: np.flatnonzero(told)}
    there = sum(frame.height for frame in kinds.values())
    rng = np.random.default_rng(seed)
    of_passages = _shares(n, [there, documents.count])[1]
    share = _shares(of_passages, [len(sides[with_finds]), len(sides[without])])[1]
    texts: dict[tuple[int, int], str] = {}
    drawn: dict[str, tuple[np.typing.NDArray[np.int64], float]] = {}
    for side, numbers in sides.items():
        order, full, tried = rng.permutation(numbers).astype(np.int64), np.empty(0, np.int64), 0
        while len(full) < share and tried < len(order):  # a document without text gives no passage
            some = np.sort(order[tried : tried + share - len(full)])
            read = _texts(documents, leaves, some)
            texts |= read
            full = np.append(full, some[np.isin(some, [doc_no for (doc_no, _), text in read.items() if text])])
            tried += len(some)
        drawn[side] = np.sort(full), len(numbers) / max(tried, 1)
        share = of_passages - len(full)
    passages = {side: drawn[side] for side in (with_finds, without)}
    of_finds = n - sum(len(some) for some, _ in passages.values())
    each = _shares(of_finds, [frame.height for frame in kinds.values()])
    strata = {kind: frame.head(many) for (kind, frame), many in zip(kinds.items(), each, strict=True)}
    wanted = np.unique(np.concatenate([*(frame["doc_no"].to_numpy() for frame in strata.values()), *(some for some, _ in drawn.values())]))
    texts |= _texts(documents, leaves, wanted.astype(np.int64))
    rows: list[dict[str, Any]] = []
    # a loop over the rows of a sample, which a person will read one by one
    for kind, frame in strata.items():
        for doc_no, cell, start, stop in frame.sort("doc_no", "cell", "start").select("doc_no", "cell", "start", "stop").iter_rows():
            text = texts.get((doc_no, cell), "")
            about = {"doc_no": doc_no, "cell": cell, "start": start, "stop": stop, "kind": kind}
            around = {"before": text[max(0, start - _AROUND) : start], "value": text[start:stop], "after": text[stop : stop + _AROUND]}
            rows.append({"row": len(rows), "ask": "find", "stratum": kind, **about, **around, "right": None})
    inside = _within(work, wanted)
    for side, (some, weight) in passages.items():
        for doc_no in some.tolist():
            cells = [(cell, text) for (number, cell), text in texts.items() if number == doc_no and text]
            lengths = np.array([len(text) for _, text in cells], np.float64)
            cell, text = cells[int(rng.choice(len(cells), p=lengths / lengths.sum()))]
            low = int(rng.integers(0, max(1, len(text) - _PASSAGE + 1)))
            high = min(low + _PASSAGE, len(text))
            found = [
                {"start": start - low, "stop": stop - low, "kind": kind, "value": text[start:stop]}
                for start, stop, kind in inside.get((doc_no, cell), ())
                if low <= start and stop <= high
            ]
            rows.append(
                {
                    "row": len(rows),
                    "ask": "passage",
                    "stratum": side,
                    # how much text a passage stands for, in passages
                    "weight": weight * lengths.sum() / (high - low),
                    "doc_no": doc_no,
                    "cell": cell,
                    "start": low,
                    "text": text[low:high],
                    "found": found,
                    "wrong": [],
                    "missed": None,
                }
            )
    return rows, [*kinds, *(side for side, numbers in sides.items() if len(numbers))]


def _shares(n: int, most: Sequence[int]) -> list[int]:
    """`n` in parts as equal as can be, none of them more than its `most`; all of `most` where that is less."""
    out = [0] * len(most)
    # a loop over strata: the smallest first, so that what one cannot take goes to the others
    for turn, place in enumerate(sorted(range(len(most)), key=lambda place: most[place])):
        out[place] = min(most[place], (n - sum(out)) // (len(most) - turn))
    return out


def _within(work: Path, wanted: np.typing.NDArray[Any]) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """The occurrences of some documents, by document and cell."""
    out: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for part in _occurrences(work):
        some = part.filter(pl.col("doc_no").is_in(pl.Series(wanted).implode())).sort("doc_no", "cell", "start")
        for doc_no, cell, start, stop, kind in some.select(_PLACE).iter_rows():
            out.setdefault((doc_no, cell), []).append((start, stop, kind))
    return out


def _texts(documents: Documents, leaves: Sequence[Leaf], wanted: np.typing.NDArray[np.int64]) -> dict[tuple[int, int], str]:
    """The cells of some documents; those that lie near each other are read together."""
    texts: dict[tuple[int, int], str] = {}
    columns = [*dict.fromkeys(leaf.column for leaf in leaves)]
    for group in np.split(wanted, np.flatnonzero(np.diff(wanted) > _NEAR) + 1) if len(wanted) else ():
        for table in documents.read(int(group[0]), int(group[-1]) + 1, columns):
            batch = table.filter(pc.is_in(table.column("doc_no"), value_set=pa.array(group))).combine_chunks()
            numbers = batch.column("doc_no").to_pylist()
            for column in cells_of(batch, list(leaves)) if batch.num_rows else []:
                for row, cell, text in zip(column.flat.rows, column.cells, column.flat.texts, strict=True):
                    texts[numbers[row], int(cell)] = text.as_py() or ""
    return texts


# ------------------------------------------------------------------------------------------------------------------- what labels say


def wilson(share: float, of: float) -> list[float] | None:
    """The 95 % score interval of a share of `of` trials (Wilson 1927); None of no trial."""
    if of <= 0:
        return None
    z2 = Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z * (share * (1 - share) / of + z2 / (4 * of * of)) ** 0.5 / (1 + z2 / of)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def _scored(path: Path) -> dict[str, Any]:
    """Precision from the finds that were judged, recall from the passages.

    In passages every span, found or missed, counts with its passage's weight; the interval is that of as many trials as the weights are
    worth (Kish, Survey Sampling, 1965: the square of their sum over the sum of their squares). Spans of one passage are taken as
    independent, which they are not quite.
    """
    judged: dict[str, list[bool]] = {}
    seen: dict[str, list[tuple[float, bool]]] = {}
    waiting = rows = 0
    for number, row in enumerate(_lines(path), 1):
        rows += 1
        if row["ask"] == "find":
            if row["right"] is None:
                waiting += 1
            else:
                judged.setdefault(_kind(path, number, row["kind"]), []).append(bool(row["right"]))
            continue
        if row["missed"] is None:
            waiting += 1
            continue
        wrong = set(row.get("wrong") or ())
        for place, one in enumerate(row["found"]):
            if place not in wrong:
                seen.setdefault(_kind(path, number, one["kind"]), []).append((row["weight"], True))
        for one in row["missed"]:
            name = one["kind"] if isinstance(one, dict) else one
            seen.setdefault(_kind(path, number, name), []).append((row["weight"], False))
    kinds: dict[str, dict[str, Any]] = {}
    for kind in sorted(judged.keys() | seen.keys()):
        right, spans = judged.get(kind, []), seen.get(kind, [])
        weights = np.array([weight for weight, _ in spans], np.float64)
        hits = np.array([hit for _, hit in spans], np.bool_)
        worth = float(weights.sum() ** 2 / (weights**2).sum()) if len(spans) else 0.0
        precision = sum(right) / len(right) if right else None
        recall = float(weights[hits].sum() / weights.sum()) if len(spans) else None
        kinds[kind] = {
            "judged": len(right),
            "right": sum(right),
            "precision": precision,
            "precision_interval": wilson(precision, len(right)) if precision is not None else None,
            "found": int(hits.sum()),
            "missed": int((~hits).sum()),
            "recall": recall,
            "recall_interval": wilson(recall, worth) if recall is not None else None,
        }
    return {"file": str(path), "rows": rows, "not_labelled": waiting, "kinds": kinds}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    expected = "expected the JSON Lines that `sanitize label WORK` wrote, with `right` and `missed` filled in"
    try:
        raw = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__}); {expected}") from None
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            good = row["ask"] == "find" and {"kind", "right"} <= row.keys()
            good = good or (row["ask"] == "passage" and row["weight"] > 0 and isinstance(row["found"], list) and "missed" in row)
            good = good and isinstance(row.get("missed"), list | None) and isinstance(row.get("right"), bool | None)
        except (ValueError, TypeError, KeyError, AttributeError):
            good = False
        if not good:
            raise UsageError(f"{path}: line {number}: {expected}")
        yield row


def _kind(path: Path, number: int, name: object) -> str:
    if name not in every_kind():
        # what was written there may be a text: only a word like a kind's name is said again
        said = str(name) if str(name).isascii() and str(name).replace("_", "").isupper() and len(str(name)) < 40 else ""
        raise UsageError(f"{path}: line {number}: no such kind; {nearest(said, every_kind())}")
    return str(name)


# ------------------------------------------------------------------------------------------------------ what two indexes say together


def _estimated(work: Path, others: Sequence[Path]) -> dict[str, Any]:
    """What several indexes say of each kind: Chapman's estimate of two, Chao's bound and a log-linear one of more."""
    works, indexes = [work, *others], [_index(work)]
    for other in others:
        private_folder(other)
        indexes.append(_index(other))
        if _of_corpus(indexes[-1]) != _of_corpus(indexes[0]):
            raise UsageError(f"{other}: indexes other documents than {work}; make both from the same input, with other finders")
    spans = [pl.concat([pl.DataFrame(schema=_SPANS), *(part.select(*_SPANS) for part in _occurrences(path))]) for path in works]
    finders = [sorted(_finders(path)) for path in works]
    for place, (path, mine) in enumerate(zip(works, finders, strict=True)):
        if mine in finders[:place]:
            raise UsageError(
                f"{path}: the same finders ({', '.join(mine) or 'none'}) made another of the indexes, and the two say nothing about "
                "what each of them misses; make one with finders of another sort, such as a model"
            )
    estimates = {}
    for kind in sorted(set().union(*(frame["kind"] for frame in spans))):
        lists = [frame.filter(pl.col("kind") == kind) for frame in spans]
        if len(lists) == 2:
            both = min(met(*lists), met(lists[1], lists[0]))
            estimates[kind] = chapman(lists[0].height, lists[1].height, both)
        else:
            estimates[kind] = together(histories(lists), len(lists))
    figure = "estimate" if len(works) == 2 else "least"
    return {
        "finders": {str(path): mine for path, mine in zip(works, finders, strict=True)},
        "assumes": TWO if len(works) == 2 else MORE,
        "estimates": estimates,
        "one_finder_only": [kind for kind, told in estimates.items() if told[figure] is None],
    }


_SPANS = {"doc_no": pl.Int64, "cell": pl.Int32, "start": pl.Int64, "stop": pl.Int64, "kind": pl.String}


def _of_corpus(index: Mapping[str, Any]) -> tuple[Any, ...]:
    sources = [(source["rows"], source["first_doc_no"]) for source in index["documents"]["sources"]]
    return sources, index["leaves"]


def _finders(work: Path) -> set[str]:
    names: set[str] = set()
    for path in sorted((work / "tables" / "occurrences").glob("*.parquet")):
        names |= set(pl.read_parquet(path, columns=["finder"], glob=False)["finder"].cast(pl.String).unique())
    return names
