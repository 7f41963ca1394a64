"""A pseudonym instead of every value: a fake of its kind and shape, the same for the same value over the corpus, over a document, or never.

A pseudonym is drawn by the PRF under a subkey of its kind from the identity of the value (and of the document, with that scope), so it
is the same in every run with the same key as long as nothing stands in its way. What stands in its way: it is never a real value of the
corpus, and no two values have the same one, in the corpus or in the document. Of two values that draw the same one the smaller
`value_id` has it, and the other draws again; that hangs on which values there are, and on no order of work. Spellings of one value
(letter case, separators) keep theirs, as far as the kind's identity rule sees one value in what comes out.

With `linked = true` names and addresses of one person show one invented identity (sanitize/editors/synthesis/identities.py): `Dear Cleo`
goes with `Cleo Berg`
and `cleo.berg@`. With scope `corpus` a person is an entity of the index, and a single word (`Anna`) shows, in a document where it can mean
one person only, that person's new name: over the corpus it may have several pseudonyms, and people may share one. It keeps its own where
that would be a real value or some other value's pseudonym.

Without the key nobody can draw a pseudonym from a guess, and without the vault nobody can undo one: table `labels` says what each
stands for, in which document (`sanitize sql WORK --name pseudonyms --reveal`). Who knows a value and where it stands knows its
pseudonym everywhere: consistent pseudonyms can be linked, that is what they are for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import PrivateAttr

from sanitize.core.arrow_buffers import arrow, table_of
from sanitize.core.keys import U64, Draws, Key, siphash, value_ids
from sanitize.core.parts import Batch, Counts, LinkingEditor
from sanitize.editors.synthesis import identities
from sanitize.editors.synthesis.component_pools import more
from sanitize.errors import PlanError, ResourceError
from sanitize.kinds.kind import Kind, digits, grid, ungrid
from sanitize.kinds.kind import kind as kind_named
from sanitize.storage import table_schemas

I64 = npt.NDArray[np.int64]
_RESERVED = 8  # attempts in ranges that belong to nobody, which are small
_EXTEND_AFTER = 16  # attempts of the same length
_ATTEMPTS = 64
_LETTERS = table_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


class Pseudonymize(LinkingEditor):
    """Settings: `scope`, how far a value has the same pseudonym: `corpus`, `document`, or `none` (each occurrence has its own);
    `reserved` draws from ranges that belong to nobody, as far as they go."""

    needs: ClassVar[tuple[str, ...]] = ("value_ids", "known_values")
    keep: Literal[0] = 0
    scope: Literal["corpus", "document", "none"] = "corpus"
    reserved: bool = False
    _key: Key = PrivateAttr()
    _known: dict[str, _Known] = PrivateAttr(default_factory=dict)
    _people: _People | None = PrivateAttr(default=None)

    def fits(self, schema: pa.Schema | None) -> None:
        super().fits(schema)
        if self.linked and self.scope == "none":
            raise PlanError(
                "edit.use = 'pseudonymize': linked = true gives a person one identity, with scope = \"none\" each occurrence has its own; "
                'take scope = "document" or "corpus", or leave linked out'
            )
        few = [name for name in self.kinds if kind_named(name).common]
        if few:
            raise PlanError(
                f"edit.use = 'pseudonymize': the values of {', '.join(few)} are too few for a pseudonym each; use redact or rmft for them"
            )

    def open(self, key: Key, counts: Counts) -> None:
        """Load the values, and with scope `corpus` draw their pseudonyms; the next task of this process finds them there."""
        self._key = key
        paths = (counts.tables["value_ids"], counts.tables["known_values"])
        times = tuple(path.stat().st_mtime_ns for path in paths)
        self._known = _loaded(*paths, self.kinds, key, self.scope == "corpus", self.reserved, self.linked, *times)
        if self.linked:
            found = counts.tables["entities"]
            settings = (self.kinds, key, self.scope == "corpus", self.reserved)
            self._people = _peopled(*paths, found, *settings, *times, found.stat().st_mtime_ns)

    def run(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array, pa.Table | None]:
        """A pseudonym for every occurrence, and what each stands for."""
        frame = batch.occurrences
        words = siphash(batch.doc_ids.dictionary.cast(pa.large_binary()), self._key.subkey("doc_id"))
        document = words[np.asarray(batch.doc_ids.indices)] if len(words) else np.empty(0, np.uint64)
        texts = pa.nulls(frame.height, pa.large_string())
        linked = [name for name in self.kinds if self.linked and name in identities.KINDS]
        for names in (linked, *([name] for name in self.kinds if name not in linked)):
            rows = np.flatnonzero(frame["kind"].is_in(names).to_numpy())
            if len(rows):
                if names is linked:
                    made = self._linked(frame[rows], document[rows])
                else:
                    made = self._made(kind_named(names[0]), frame[rows], document[rows])
                mask = np.zeros(frame.height, np.bool_)
                mask[rows] = True
                texts = pc.replace_with_mask(texts, pa.array(mask), made)
        labels = pl.DataFrame({"doc_no": frame["doc_no"], "label": pl.Series(texts), "value_id": frame["value_id"]})
        labels = labels.unique(maintain_order=True)
        return np.arange(frame.height), texts, labels.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table_schemas.LABELS.schema)

    def _linked(self, part: pl.DataFrame, document: U64) -> pa.LargeStringArray:
        """The pseudonym of every name and address: with one identity for each person."""
        assert self._people is not None
        part = part.with_columns(seed=pl.Series(document, dtype=pl.UInt64), scope="doc_no", goes=pl.lit(True), row=np.arange(part.height))
        known = pl.concat([self._known[name].frame(name) for name in identities.KINDS if name in self.kinds])
        part = part.join(known, on=["kind", "value_id"], how="left", maintain_order="left")
        assert not part["whole"].null_count()  # the vault has every value that was found
        on = ["scope", "seed", "kind", "value_id", "goes"]
        spelled = part.select(*on, "value")
        if self.scope == "corpus":
            return self._people.spelled(part, self._short(part), self.reserved)
        # each value as the vault has it, too: what the leak check found may be no value as it is written
        both = pl.concat([spelled, part.select(*on, value="whole")])
        cast = identities.Cast(both, self._people.entities, self._key, "pseudonym/document")
        texts = cast.drawn(self._people.real, ends(cast, self.reserved))
        mine, plain = (texts.take(pa.array(side)) for side in np.split(cast.of, 2))
        return _alike(part["kind"], mine, plain)

    def _short(self, part: pl.DataFrame) -> pl.DataFrame:
        """The single words that mean one other person of their document: columns row, person."""
        assert self._people is not None
        cast = identities.Cast(part.select("scope", "seed", "kind", "value_id", "value", "goes"), self._people.entities, self._key, "")
        short = cast.short()
        return (
            pl.DataFrame({"row": np.arange(part.height), "at": cast.of}).join(short, left_on="at", right_on="row").select("row", "person")
        )

    def _made(self, one: Kind, part: pl.DataFrame, document: U64) -> pa.Array:
        """The pseudonym of every occurrence of one kind."""
        known = self._known[one.name]
        ids = part["value_id"].to_numpy().astype(np.int64)
        at = np.minimum(np.searchsorted(known.ids, ids), max(len(known.ids) - 1, 0))
        assert len(known.ids) and (known.ids[at] == ids).all()  # the vault has every value that was found
        if self.scope == "none":
            cell, start = (part[name].to_numpy().astype(np.uint64) for name in ("cell", "start"))
            draws = Draws.at(self._key.subkey(f"pseudonym/none/{one.name}"), document, cell, start)
            whole = pl.Series("value", known.values.take(pa.array(at)))
            # what the leak check found may be no value as it is written
            values = pl.select(pl.when(part["swept"]).then(whole).otherwise(part["value"])).to_series()
            return known.distinct(one, values, document, draws, self._key, self.reserved)[0]
        spelled = pl.DataFrame({"value": part["value"], "at": at, "document": document, "swept": part["swept"]})
        on = ["at"] if self.scope == "corpus" else ["at", "document"]
        # each spelling once, and each value once; both in an order of their own
        spellings = spelled.select(*on, "value", "swept").unique().sort(*on, "value", "swept")
        each = spellings.select(on).unique().sort("at", *on[1:])
        if self.scope == "corpus":
            place = each["at"].to_numpy()
            plain, attempt = known.pseudonyms.take(pa.array(place)), known.attempt[place]
            draws = _of_values(self._key, one, known.ids[place])
        else:
            place, group = each["at"].to_numpy(), each["document"].to_numpy()
            draws = Draws.at(self._key.subkey(f"pseudonym/document/{one.name}"), group, known.ids[place].astype(np.uint64))
            plain, attempt = known.distinct(one, pl.Series(known.values.take(pa.array(place))), group, draws, self._key, self.reserved)
        of = spellings.join(each.with_row_index("no"), on=on, maintain_order="left")["no"].to_numpy().astype(np.intp)
        texts = _spelled(one, spellings, plain.take(pa.array(of)), attempt[of], draws.rows(of), self.reserved)
        rows = spelled.join(spellings.with_row_index("no"), on=[*on, "value", "swept"], maintain_order="left")["no"]
        return texts.take(rows.to_arrow())


@dataclass(frozen=True, repr=False)
class _Known:
    """The values of one kind, by ascending id: what a fake is made from, and with scope `corpus` the pseudonym of each, with the attempt
    that gave it. `real` are the ids of all values of the corpus, of this kind."""

    real: I64
    ids: I64
    values: pa.LargeStringArray
    pseudonyms: pa.LargeStringArray
    attempt: I64

    def frame(self, kind: str) -> pl.DataFrame:
        """The values as a table: kind, value_id, and `whole`, the text of each."""
        return pl.DataFrame({"value_id": self.ids, "whole": pl.Series(self.values)}).with_columns(kind=pl.lit(kind))

    def distinct(self, one: Kind, values: pl.Series, group: U64, draws: Draws, key: Key, reserved: bool) -> tuple[pa.LargeStringArray, I64]:
        """A fake for each row, no real value and none twice within a group, and which attempt gave it. The first of two rows has it."""
        pending = np.arange(len(values))
        texts, rows, taken = [], [], np.empty(0, np.uint64)
        attempts = np.zeros(len(values), np.int64)
        for attempt in range(_ATTEMPTS):
            made = _faked(one, values.gather(pending), draws.rows(pending), attempt, reserved)
            ids = value_ids(arrow(one.normalise(pl.Series(made))), one.name, key)
            pair = ids.astype(np.uint64) ^ (group[pending] * np.uint64(0x9E3779B97F4A7C15))
            good = np.flatnonzero(~np.isin(ids, self.real) & ~np.isin(pair, taken))
            fresh, first = np.unique(pair[good], return_index=True)
            accepted = good[np.sort(first)]
            texts.append(made.take(pa.array(accepted)))
            rows.append(pending[accepted])
            attempts[pending[accepted]] = attempt
            taken = np.union1d(taken, fresh)
            pending = np.delete(pending, accepted)
            if not len(pending):
                return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(rows)))), attempts
        raise ResourceError(
            f"{one.name}: {len(pending)} pseudonyms, each for one value, could not be drawn; set reserved = false, or use redact"
        )


@dataclass(frozen=True, repr=False)
class _People:
    """Whose each value is (`entities`, of the index), and over the corpus: the same of every value (`every`), which attempt gave each
    person its identity (ascending `person`), the pseudonym of each value (kind, value_id, plain), and the ids of all of them."""

    key: Key
    real_ids: dict[str, I64]
    entities: identities.Entities
    every: identities.Entities
    person: I64
    attempt: I64
    plain: pl.DataFrame
    taken: dict[str, I64]

    def real(self, kind: str, ids: I64) -> npt.NDArray[np.bool_]:
        """True for ids of values of the corpus."""
        return np.isin(ids, self.real_ids[kind])

    def spelled(self, part: pl.DataFrame, short: pl.DataFrame, reserved: bool) -> pa.LargeStringArray:
        """The pseudonym of each mention over the corpus, in its own spelling; `short` are mentions of another person."""
        person = self.every.of_values(part["value_id"].to_numpy())[0].copy()
        person[short["row"].to_numpy()] = short["person"].to_numpy()
        whole = pl.DataFrame({"scope": 0, "seed": pl.Series([0], dtype=pl.UInt64)})
        mentions = part.select("kind", "value_id", "value", "goes").join(whole, how="cross", maintain_order="left")
        cast = identities.Cast(mentions.with_columns(person=pl.Series(person)), self.every, self.key, "pseudonym/corpus")
        attempts = self.attempt[np.searchsorted(self.person, cast.groups["person"].to_numpy())]
        texts = cast.again(attempts, ends(cast, reserved)).take(pa.array(cast.of))
        own = part.join(self.plain, on=["kind", "value_id"], how="left", maintain_order="left")["plain"]
        joined = np.zeros(part.height, np.bool_)
        joined[short["row"].to_numpy()] = True
        # a single word of another's name: no real value, nobody's pseudonym, and in its document of one value only
        ids = value_ids(arrow(kind_named(identities.PERSON).normalise(pl.Series(texts))), identities.PERSON, self.key)
        free = joined & ~self.real(identities.PERSON, ids) & ~np.isin(ids, self.taken[identities.PERSON])
        told = pl.DataFrame({"scope": part["scope"], "id": ids, "value_id": part["value_id"], "free": free})
        once = told.select((pl.col("value_id").filter("free").n_unique().over("scope", "id")) <= 1).to_series().to_numpy()
        good = free & once
        # the others as their own
        if (joined & ~good).any():
            short = short.filter(pl.Series(good[short["row"].to_numpy()]))
            return self.spelled(part, short, reserved)
        return _alike(part["kind"], texts, arrow(pl.select(pl.when(pl.Series(good)).then(pl.Series(texts)).otherwise(own)).to_series()))


def ends(cast: identities.Cast, reserved: bool) -> identities.Tail:
    """What stands from the @ on in the fake of an address."""
    one = kind_named(identities.ADDRESS)
    values, split = cast.rows["value"], one.split
    assert split is not None

    def made(rows: I64, draws: Draws, anchor: I64) -> pa.LargeStringArray:
        return arrow(split(one.fake(values.gather(rows), draws, reserved)).select(pl.concat_str("at", "domain", "dot", "tld")).to_series())

    return made


def _alike(kinds: pl.Series, spelled: pa.LargeStringArray, plain: pa.LargeStringArray) -> pa.LargeStringArray:
    """The pseudonyms as they are spelled, or plain where that would be another value."""
    out, mine = pl.Series(plain, dtype=pl.String), pl.Series(spelled, dtype=pl.String)
    for name in identities.KINDS:
        rows = (kinds == name).arg_true()
        normalise = kind_named(name).normalise
        same = rows.filter(normalise(mine.gather(rows)) == normalise(out.gather(rows)))
        out = out.scatter(same, mine.gather(same))
    return arrow(out)


def _of_values(key: Key, one: Kind, ids: I64) -> Draws:
    """The draws of values over the corpus."""
    return Draws.at(key.subkey(f"pseudonym/corpus/{one.name}"), ids.astype(np.uint64))


@functools.lru_cache(maxsize=2)
def _loaded(
    value_ids_: Path, known_values: Path, kinds: tuple[str, ...], key: Key, drawn: bool, reserved: bool, linked: bool, *_times: int
) -> dict[str, _Known]:
    """The values of each kind, and their pseudonyms where these are `drawn` over the corpus; not those of people that are `linked`."""
    ids = pq.read_table(value_ids_, columns=["value_id", "kind"], partitioning=None)
    table = pq.read_table(known_values, partitioning=None)
    found = {}
    for name in kinds:
        one = kind_named(name)
        real = np.unique(np.asarray(ids.filter(pc.equal(ids.column("kind").cast(pa.string()), name)).column("value_id"), np.int64))
        mine = table.filter(pc.equal(table.column("kind").cast(pa.string()), name)).combine_chunks()
        mine_ids = np.asarray(mine.column("value_id"), np.int64)
        # from the identity form where that is a value too: a pseudonym then does not hang on how the corpus writes it
        frame = pl.DataFrame({"value": pl.Series(mine.column("normalised")), "spelled": pl.Series(mine.column("value"))})
        values = arrow(frame.select(pl.when(_valid(one, frame["value"])).then("value").otherwise("spelled")).to_series())
        nothing = _Known(real, mine_ids, values, pa.array([], pa.large_string()), np.empty(0, np.int64))
        if not drawn or not len(mine_ids) or (linked and name in identities.KINDS):
            found[name] = nothing
            continue
        draws, whole = _of_values(key, one, mine_ids), np.zeros(len(mine_ids), np.uint64)
        found[name] = _Known(real, mine_ids, values, *nothing.distinct(one, pl.Series(values), whole, draws, key, reserved))
    return found


@functools.lru_cache(maxsize=2)
def _peopled(
    value_ids_: Path, known_values: Path, found: Path, kinds: tuple[str, ...], key: Key, drawn: bool, reserved: bool, *times: int
) -> _People:
    """The people behind the values, and their identities where these are `drawn` over the corpus."""
    known = _loaded(value_ids_, known_values, kinds, key, drawn, reserved, True, *times[:2])
    told, mine = identities.entities(found, times[2]), [name for name in identities.KINDS if name in kinds]
    real = {name: known[name].real for name in mine}
    nothing = np.empty(0, np.int64)
    values = pl.concat([known[name].frame(name) for name in mine])
    if not drawn:
        return _People(key, real, told, told, nothing, nothing, values, {})
    person = told.of_values(values["value_id"].to_numpy())[0]
    every = identities.Entities.of(values.select("value_id", "kind", value="whole", entity_id=pl.Series(person)))
    mentions = values.select("kind", "value_id", value="whole", goes=pl.lit(True), scope=pl.lit(0), seed=pl.lit(0, pl.UInt64))
    cast = identities.Cast(mentions, every, key, "pseudonym/corpus")
    people = _People(key, real, told, every, cast.groups["person"].to_numpy(), nothing, values, {})
    plain = pl.Series(cast.drawn(people.real, ends(cast, reserved), apart=True).take(pa.array(cast.of)), dtype=pl.String)
    drawn_ = values.select("kind", "value_id", plain=plain)
    taken = {
        name: value_ids(arrow(kind_named(name).normalise(drawn_.filter(pl.col("kind") == name)["plain"])), name, key)
        for name in identities.KINDS
    }
    return replace(people, attempt=cast.attempts, plain=drawn_, taken=taken)


def _valid(one: Kind, values: pl.Series) -> pl.Series:
    """True where a text is a value of the kind from end to end, wherever it may stand; kinds without a pattern take any text."""
    if one.pattern:
        good = values.str.contains(rf"\A(?:{one.pattern})\z") | ("<" + values + ">").str.contains(rf"\A(?:{one.pattern})\z")
    else:
        good = values.str.contains(r"[\p{L}\p{N}]")
    if one.check is None or not good.any():
        return good
    some = good.arg_true()
    return good.clone().scatter(some, one.check(values.gather(some)).is_null())


def _faked(one: Kind, values: pl.Series, draws: Draws, attempt: int, reserved: bool) -> pa.LargeStringArray:
    """The fake that an attempt draws for each value; late attempts make it longer where the kind lets them."""
    draws = draws.again(attempt)
    fakes = one.fake(values, draws, reserved and attempt < _RESERVED)
    if attempt < _EXTEND_AFTER:
        return arrow(fakes)
    longer_by = pl.Series("more", more(draws.pair(1 << 20)[0], attempt - (_EXTEND_AFTER - 1)))
    frame = pl.DataFrame({"fake": fakes, "more": longer_by})
    halves = fakes.str.extract_groups(r"\A(?<before>[^A-Za-z0-9]*[A-Za-z0-9]+)(?<after>[\s\S]*)\z").struct.unnest()
    inner = halves.with_columns(longer_by).select(pl.concat_str("before", "more", "after")).to_series().fill_null("")
    outer = frame.select(pl.concat_str("fake", "more")).to_series()
    for longer in (inner, outer):
        fakes = pl.select(pl.when(_valid(one, longer)).then(longer).otherwise(fakes)).to_series()
    return arrow(fakes)


def _spelled(
    one: Kind, spellings: pl.DataFrame, plain: pa.LargeStringArray, attempt: I64, draws: Draws, reserved: bool
) -> pa.LargeStringArray:
    """The pseudonyms in the spelling of each value: what the same draws make of that spelling, or its own separators around the same
    digits and letters, whichever is the same value; the plain pseudonym where neither is, such as for what the leak check found in
    another writing."""
    texts = pl.Series("text", plain)
    want = one.normalise(texts)
    open_ = np.ones(len(texts), np.bool_)
    for again in np.unique(attempt[open_]).tolist():
        rows = np.flatnonzero(open_ & (attempt == again))
        made = pl.Series(_faked(one, spellings["value"].gather(rows), draws.rows(rows), again, reserved))
        same = (one.normalise(made) == want.gather(rows)).to_numpy()
        texts = texts.scatter(rows[same], made.filter(pl.Series(same)))
        open_[rows[same]] = False
    for only_digits in (True, False):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        made = _fitted(pl.Series(plain.take(pa.array(rows))), spellings["value"].gather(rows), only_digits)
        same = ((one.normalise(made) == want.gather(rows)) & _valid(one, made)).to_numpy()
        texts = texts.scatter(rows[same], made.filter(pl.Series(same)))
        open_[rows[same]] = False
    return arrow(texts)


def _fitted(plain: pl.Series, spelled: pl.Series, only_digits: bool) -> pl.Series:
    """The digits (or letters and digits) of `plain` where those of `spelled` stand, the last at the last; all else as spelled."""
    source, out = grid(plain), grid(spelled)
    mine, places = (digits(rows) if only_digits else _LETTERS[rows] for rows in (source, out))
    shift = mine.sum(axis=1) - places.sum(axis=1)
    row, column = np.nonzero(places)
    nth = np.cumsum(places, axis=1)[row, column] - 1 + shift[row]
    fits = (nth >= 0) & (shift[row] >= 0)
    order = np.argsort(~mine, axis=1, kind="stable")  # in each row the places of what is taken, in their order
    out[row[fits], column[fits]] = source[row[fits], order[row[fits], nth[fits]]]
    return ungrid(out)
