"""Randomized masked fine-tuning data (RMFT): keep the first occurrences of a value, turn every later one into a fresh random variant.

A variant of an address keeps one randomly chosen part, its anchor (first name, last name, or domain with its TLD; with `tld` in
`anchors` the TLD is a fourth part), and draws the others from stores; separators and letter case stay. An address of one local part
has the anchors {local, domain}. A variant of a name keeps its given name or its surname, and never what stands between; titles, order
and letter case stay, and a name of one word has no anchor. Kinds without parts become a fake of the same shape. A variant is never a
real value of the corpus and never repeats within a document; where the stores are exhausted, a part that is not the anchor is extended
by digits.

With `linked = true` names and addresses of one person have one invented identity in a document
(sanitize/editors/synthesis/identities.py), and the person one
anchor: `Dear Cleo` still goes with `Cleo Berg` and `cleo.berg@`. All mentions of a value that go are then the same in a document.

With `keep = 0` and `anchors = []` nothing of a value stays: the plan `erase`.

With `avoid = "seen"` a variant is new among the values of its own and all earlier documents and among all variants made before it, in
corpus order, and a value that turns up first where a variant has already said it is replaced as well. That is what a stream can know;
it cannot know a value that comes later. Of two occurrences that would draw the same variant the earlier one has it, so that the
outcome is that of going through the corpus one by one, however it is cut into batches (serial dictatorship, computed as Gale and
Shapley's deferred acceptance, College Admissions and the Stability of Marriage, 1962).

What stays by design: each kept first occurrence, and in each variant one real part. Source: RMFT (arXiv 2512.03310), section 3.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, PrivateAttr

from sanitize.core.arrow_buffers import arrow
from sanitize.core.keys import Draws, Key, pick, siphash, value_ids
from sanitize.core.parts import Batch, Counts, LinkingEditor, Past
from sanitize.editors.synthesis import identities
from sanitize.editors.synthesis.component_pools import DrawnPart, Store, curated_store, entries_of, more
from sanitize.editors.synthesis.identities import Entities, entities
from sanitize.errors import PlanError
from sanitize.kinds.kind import Kind
from sanitize.kinds.kind import kind as kind_named

I64 = npt.NDArray[np.int64]
Anchor = Literal["first", "last", "domain", "tld"]
_EXTEND_AFTER = 8  # attempts with the stores alone
_OWN_PART_AFTER = 24  # from here on a drawn part may happen to be the address's own
_ATTEMPTS = 64
_STAGES = (1, _EXTEND_AFTER, _OWN_PART_AFTER, _ATTEMPTS)  # where the way of drawing changes
_FEW = 256  # draws that cost no more than the call
_SPENT = -2  # entered, and out of attempts
_ANCHOR = 1 << 20  # the lane that chooses the anchor of a name, beyond those of its words
_ANCHORS = {"first": identities.FIRST, "last": identities.LAST, "domain": identities.DOMAIN, "tld": identities.TLD}


class Rmft(LinkingEditor):
    """Settings: `keep` first occurrences, `anchors`, `stores`, `avoid` (the values of the whole `corpus`, or what was `seen` before), and
    `reserved` to draw fakes from ranges that belong to nobody."""

    VERSION: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("firsts", "part_stores", "value_ids")
    keep: int = Field(default=1, ge=0)
    anchors: tuple[Anchor, ...] = ("first", "last", "domain")
    stores: Literal["corpus", "curated", "mixed"] = "corpus"
    avoid: Literal["corpus", "seen"] = "corpus"
    reserved: bool = False
    _key: Key = PrivateAttr()
    _real: dict[str, _Known] = PrivateAttr(default_factory=dict)
    _stores: dict[tuple[str, str], Store] = PrivateAttr(default_factory=dict)
    _past: Past = PrivateAttr()
    _entities: Entities = PrivateAttr()

    def fits(self, schema: pa.Schema | None) -> None:
        super().fits(schema)
        if self.linked and self.avoid == "seen":
            raise PlanError(
                "edit.use = 'rmft': linked = true draws identities against the whole corpus, and avoid = \"seen\" (as a stream has it) "
                'only what came before; use `sanitize run` with avoid = "corpus", or set linked = false'
            )

    @property
    def ordered(self) -> bool:
        """With `avoid = "seen"` each variant depends on those before it."""
        return self.avoid == "seen"

    def streamed(self, where: str) -> Self:
        """With `avoid = "seen"`."""
        if self.linked:
            raise PlanError(
                f"{where}.linked: a stream knows no person's other names and addresses; use `sanitize run`, or set linked = false"
            )
        return self.model_copy(update={"avoid": "seen"})

    def follow(self, past: Past) -> None:
        """Take note of what stands before; in a stream the stores are made of it."""
        self._past = past

    def open(self, key: Key, counts: Counts) -> None:
        """Load the corpus's value ids and part stores; the next task of this process finds them loaded. A stream counts none."""
        self._key = key
        if not counts.tables:
            return
        ids, stores = counts.tables["value_ids"], counts.tables["part_stores"]
        if self.linked:
            self._entities = entities(counts.tables["entities"], counts.tables["entities"].stat().st_mtime_ns)
        self._real, self._stores = _loaded(ids, stores, self.kinds, self.stores, ids.stat().st_mtime_ns, stores.stat().st_mtime_ns)

    def run(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array, pa.Table | None]:
        """A fresh variant for every occurrence that is not kept."""
        frame = batch.occurrences
        kept = frame["kept"].to_numpy()
        rows_of, texts_of = [], []
        if self.linked:
            rows, texts = self._linked(batch)
            rows_of.append(rows)
            texts_of.append(texts)
        for name in self.kinds:
            if self.linked and name in identities.KINDS:
                continue
            one = kind_named(name)
            mine = (frame["kind"] == name).to_numpy()
            rows = np.flatnonzero(mine if self.ordered else mine & ~kept)
            if len(rows):
                rows, texts = (self._in_order if self.ordered else self._replaced)(one, batch, rows)
                rows_of.append(rows)
                texts_of.append(texts)
        if not rows_of:
            return np.empty(0, np.intp), pa.array([], pa.large_string()), None
        order = np.argsort(np.concatenate(rows_of), kind="stable")
        return np.concatenate(rows_of)[order], pa.concat_arrays(texts_of).take(pa.array(order)), None

    def _drawing(
        self, one: Kind, batch: Batch, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], I64, _Make, Draws]:
        """Rows that get a label, rows that get a variant, and what draws those: their documents, the maker and the draws."""
        part = batch.occurrences[rows]
        doc_ids = batch.doc_ids.take(pa.array(rows))
        draws = Draws.of(self._key, f"rmft/{one.name}", doc_ids, part["cell"].to_numpy(), part["start"].to_numpy())
        values, odd = _readable(one, part)
        doc_no = part["doc_no"].to_numpy()
        labelled = rows[odd]
        if len(labelled):
            # swept, and not to be taken apart even in its plain form: it gets the kind's label
            good = np.flatnonzero(~odd)
            rows, doc_no, draws, values = rows[good], doc_no[good], draws.rows(good), values.take(pa.array(good))
        if one.split is not None:
            make = self._variants(one, values, doc_no)
        else:
            make = self._fakes(one, values) if one.keeping is None else self._keeping(one, values)
        return labelled, rows, doc_no, make, draws

    def _replaced(self, one: Kind, batch: Batch, rows: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """Rows of one kind, and what stands there instead."""
        labelled, rows, doc_no, make, draws = self._drawing(one, batch, rows)
        texts = self._fresh(one, make, doc_no, draws)
        return np.concatenate([rows, labelled]), pa.concat_arrays([texts, _labels(one, len(labelled))])

    def _linked(self, batch: Batch) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """The names and addresses that go, and what stands there instead: one identity for each person in a document."""
        frame = batch.occurrences
        mine = np.flatnonzero(frame["kind"].is_in([name for name in self.kinds if name in identities.KINDS]).to_numpy())
        part = frame[mine]
        values, odd = pl.Series(part["value"]), np.zeros(len(part), np.bool_)
        for name in identities.KINDS:
            here = np.flatnonzero((part["kind"] == name).to_numpy())
            plain, odd[here] = _readable(kind_named(name), part[here])
            values = values.scatter(here, pl.Series(plain, dtype=pl.String))
        words = siphash(batch.doc_ids.dictionary.cast(pa.large_binary()), self._key.subkey("doc_id"))
        seed = words[np.asarray(batch.doc_ids.indices)[mine]] if len(words) else np.empty(0, np.uint64)
        mentions = part.select("kind", "value_id", scope="doc_no", goes=~pl.col("kept")).with_columns(
            value=values, seed=pl.Series(seed, dtype=pl.UInt64)
        )
        fine = np.flatnonzero(~odd)
        cast = identities.Cast(mentions[fine], self._entities, self._key, "rmft/linked")
        texts = cast.drawn(lambda name, ids: self._real[name].holds(ids), self._ends(cast), tuple(_ANCHORS[name] for name in self.anchors))
        goes = np.flatnonzero(mentions["goes"].to_numpy()[fine])
        labels = pl.select(pl.lit("[") + part["kind"].gather(np.flatnonzero(odd)) + "]").to_series()
        made = pa.concat_arrays([texts.take(pa.array(cast.of[goes])), arrow(labels)])
        return np.concatenate([mine[fine[goes]], mine[odd]]), made

    def _ends(self, cast: identities.Cast) -> identities.Tail:
        """What stands from the @ on in the variant of an address: its own domain where that is the anchor, else one from the store."""
        whole = "tld" not in self.anchors
        split = kind_named(identities.ADDRESS).split
        assert split is not None
        if identities.ADDRESS not in self.kinds:
            return lambda rows, draws, anchor: pa.array([], pa.large_string())
        at = np.flatnonzero((cast.rows["kind"] == identities.ADDRESS).to_numpy())
        own = split(cast.rows["value"].gather(at))
        place = np.full(cast.rows.height, -1, np.int64)
        place[at] = np.arange(len(at))
        if whole:
            own = own.with_columns(domain=pl.concat_str("domain", "dot", "tld"), dot=pl.lit(""), tld=pl.lit(""))
        domain = DrawnPart.of(own["domain"], self._store(identities.ADDRESS, "host" if whole else "domain"))
        tld = DrawnPart.of(own["tld"], self._store(identities.ADDRESS, "tld"))

        def ends(rows: I64, draws: Draws, anchor: I64) -> pa.LargeStringArray:
            of = place[rows]
            high, low = draws.pair(0)
            pieces = [arrow(own["at"].gather(of)), domain.draw(of, of, high, anchor == identities.DOMAIN)[0]]
            if not whole:
                pieces += [arrow(own["dot"].gather(of)), tld.draw(of, of, low, anchor == identities.TLD)[0]]
            return pc.binary_join_element_wise(*pieces, _text(""))

        return ends

    def _in_order(self, one: Kind, batch: Batch, rows: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """The same in corpus order; an original that was to be kept goes too where a variant before it says it."""
        values = batch.occurrences["value_id"].to_numpy()[rows]
        goes = ~batch.occurrences["kept"].to_numpy()[rows]
        stay = np.flatnonzero(~goes)
        goes[stay] = self._past.made(values[stay])
        race = _Race(one, self._key, self._past, len(rows))
        labels: list[npt.NDArray[np.intp]] = []
        fresh = np.flatnonzero(goes)
        while len(fresh):
            labelled, mine, doc_no, make, draws = self._drawing(one, batch, rows[fresh])
            labels.append(labelled)
            race.enter(np.searchsorted(rows, mine), doc_no, make, draws)
            stay = np.flatnonzero(~goes)
            fresh = race.first_said(stay, values[stay])
            goes[fresh] = True
        self._past.make(race.held[race.held >= 0])
        named = np.concatenate([np.empty(0, np.intp), *labels])
        where, texts = race.texts()
        return np.concatenate([rows[where], named]), pa.concat_arrays([texts, _labels(one, len(named))])

    def _fresh(self, one: Kind, make: _Make, doc_no: I64, draws: Draws) -> pa.Array:
        """One text for each occurrence, drawn again until it is no real value and new in its document; of a kind with few and common
        values, the first that is drawn."""
        if one.common:
            return _changed(one, make, draws)
        pending = np.arange(len(draws))
        texts: list[pa.Array] = []
        rows: list[npt.NDArray[np.intp]] = []
        taken: list[npt.NDArray[np.uint64]] = []  # of each attempt, sorted
        at = np.empty(0, np.intp)  # of each that is pending: the first of its draws that are made
        made = ahead = 0  # how many of each are made, and how many of them were looked at
        for attempt in range(_ATTEMPTS):
            if ahead == made:
                stage = _STAGES[int(np.searchsorted(_STAGES, attempt, side="right"))]
                made, ahead = min(stage - attempt, _at_once(len(pending))), 0
                every = np.repeat(pending, made) if made > 1 else pending
                attempts: int | I64 = attempt + np.tile(np.arange(made), len(pending)) if made > 1 else attempt
                text, usable = make(every, (draws.rows(every) if attempt else draws).again(attempts), attempts)
                ids = value_ids(arrow(one.normalise(pl.Series(text))), one.name, self._key)
                # (document, variant) as one number: of two equal ones in a document the first stays
                pairs = ids.astype(np.uint64) ^ (doc_no[every].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
                usable &= ~self._real[one.name].holds(ids)
                at = np.arange(len(pending)) * made
            pair, good = pairs[at + ahead], usable[at + ahead]
            for earlier in taken:
                good &= earlier[np.searchsorted(earlier[:-1], pair)] != pair
            candidates = np.flatnonzero(good)
            accepted = candidates
            ordered = np.sort(pair[candidates])
            if (ordered[1:] == ordered[:-1]).any():
                ordered, first = np.unique(pair[candidates], return_index=True)
                accepted = candidates[np.sort(first)]
            if len(accepted) == len(pending) and not texts and made == 1:
                return text
            texts.append(text.take(pa.array(at[accepted] + ahead)))
            rows.append(pending[accepted])
            if len(accepted):
                taken.append(ordered)
            pending, at = np.delete(pending, accepted), np.delete(at, accepted)
            ahead += 1
            if not len(pending):
                break
        else:  # nothing that is new in its document has this shape (`http://a` a few dozen times): the rest gets the kind's label
            texts.append(_labels(one, len(pending)))
            rows.append(pending)
        return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))

    def _fakes(self, one: Kind, values: pa.Array) -> _Make:
        """Fakes of the same shape; small reserved ranges are left when they are exhausted."""

        def make(rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
            reserved = self.reserved and bool(np.max(attempt) < _EXTEND_AFTER)
            own = pl.Series(values.take(pa.array(rows)))
            fakes = one.fake(own, draws, reserved)
            usable = (one.normalise(fakes) != one.normalise(own)).to_numpy() if one.common else np.ones(len(rows), np.bool_)
            return arrow(fakes), usable

        return make

    def _keeping(self, one: Kind, values: pa.Array) -> _Make:
        """Fakes that keep one part each, as far as the plan has it among its anchors; none once that is hard to have."""
        assert one.keeping is not None
        kept = one.keeping
        parts = np.array([one.parts.index(name) for name in self.anchors if name in one.parts] or [-1])

        def make(rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
            own = pl.Series(values.take(pa.array(rows)))
            hard = np.max(attempt) >= _EXTEND_AFTER
            which = np.full(len(rows), -1) if hard else parts[pick(draws.again(0).pair(_ANCHOR)[0], len(parts))]
            return arrow(kept(own, draws, which)), np.ones(len(rows), np.bool_)

        return make

    def _store(self, kind: str, part: str) -> Store:
        """What variants of a part are drawn from."""
        if (kind, part) in self._stores:
            return self._stores[kind, part]
        grown = None if self.stores == "curated" else self._past.parts(kind, part)
        if grown is None:
            return curated_store(part)
        return Store.grown(*grown, curated_store(part).entries, mixed=self.stores == "mixed")

    def _variants(self, one: Kind, values: pa.Array, doc_no: I64) -> _Make:
        """Variants of values with parts: the anchor's text is the value's own, the other parts come from the stores."""
        encoded = values.dictionary_encode()
        code = np.asarray(encoded.indices, np.int64)
        assert one.split is not None
        own = one.split(pl.Series(encoded.dictionary))
        if "tld" not in self.anchors:
            own = own.with_columns(domain=pl.concat_str("domain", "dot", "tld"), dot=pl.lit(""), tld=pl.lit(""))
        single = (own["last"] == "").to_numpy()
        parts = {
            "first": DrawnPart.of(own["first"], self._store(one.name, "first")),
            "local": DrawnPart.of(own["first"], self._store(one.name, "local")),
            "last": DrawnPart.of(own["last"], self._store(one.name, "last")),
            "domain": DrawnPart.of(own["domain"], self._store(one.name, "domain" if "tld" in self.anchors else "host")),
        }
        if "tld" in self.anchors:
            parts["tld"] = DrawnPart.of(own["tld"], self._store(one.name, "tld"))
        between = {name: arrow(own[name]) for name in ("lead", "sep", "at", "dot")}
        names = ("first", "last", "domain", "tld")
        many = np.array([names.index(name) for name in self.anchors], np.int64)
        few = np.array([names.index(name) for name in self.anchors if name != "last"], np.int64)

        def make(rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
            of, docs, stage = code[rows], doc_no[rows], np.max(attempt)
            alone = single[of]
            choose, draw_first = draws.again(0).pair(0) if stage == 0 else (draws.again(0).pair(0)[0], draws.pair(0)[1])
            draw_last, draw_domain = draws.pair(1)
            anchor = np.full(len(rows), -1, np.int64)
            for which, choices in ((~alone, many), (alone, few)):
                if len(choices):
                    anchor[which] = choices[pick(choose[which], len(choices))]
            strict = stage < _OWN_PART_AFTER
            usable = np.ones(len(rows), np.bool_)
            first, fits = parts["first"].draw(of, docs, draw_first, (anchor == 0) | alone)
            usable &= fits
            if alone.any():
                local, fits = parts["local"].draw(of, docs, draw_first, (anchor == 0) | ~alone)
                first = pc.if_else(pa.array(alone), local, first)
                usable &= fits
            last, fits = parts["last"].draw(of, docs, draw_last, (anchor == 1) | alone)
            usable &= fits
            domain, fits = parts["domain"].draw(of, docs, draw_domain, anchor == 2)
            usable &= fits
            pieces = [first, between["sep"].take(pa.array(of)), last, between["at"].take(pa.array(of)), domain]
            if "tld" in parts:
                tld, fits = parts["tld"].draw(of, docs, draws.pair(2)[0], anchor == 3)
                usable &= fits
                pieces += [between["dot"].take(pa.array(of)), tld]
            if stage >= _EXTEND_AFTER:
                digits = more(draws.pair(3)[0], attempt - (_EXTEND_AFTER - 1))
                # the local part takes the digits, unless it is the anchor of an address that has no other
                at_last, at_domain = ~alone & (anchor != 1), alone & (anchor == 0)
                pieces[0] = pc.if_else(
                    pa.array(~at_last & ~at_domain), pc.binary_join_element_wise(pieces[0], digits, _text("")), pieces[0]
                )
                pieces[2] = pc.if_else(pa.array(at_last), pc.binary_join_element_wise(pieces[2], digits, _text("")), pieces[2])
                pieces[4] = pc.if_else(
                    pa.array(at_domain),
                    pc.binary_join_element_wise(_text("x"), digits, _text("."), pieces[4], _text("")),
                    pieces[4],
                )
            if pc.any(pc.not_equal(between["lead"], "")).as_py():
                pieces.insert(0, between["lead"].take(pa.array(of)))
            text = pc.binary_join_element_wise(*pieces, _text(""))
            return text, usable if strict else np.ones(len(rows), np.bool_)

        return make


class _Race:
    """One text for each of some occurrences in order: the first draw that is not taken by what came before.

    Each proposes its draws in turn; of those that propose the same the earliest holds it, and one that is put out proposes again. Who
    enters later changes nothing about that: the outcome is that of all having been there from the beginning.
    """

    def __init__(self, one: Kind, key: Key, past: Past, count: int) -> None:
        self._kind, self._key, self._past = one, key, past
        self.held, self._where, self._attempt = (np.full(count, number, np.int64) for number in (-1, -1, 0))
        self._entered = np.full(count, -1, np.int64)  # with which of the groups
        self._place = np.zeros(count, np.int64)  # in it
        self._groups: list[tuple[I64, _Make, Draws]] = []
        self._texts: list[pa.Array] = []
        self._drawn = 0

    def enter(self, rows: npt.NDArray[np.intp], doc_no: I64, make: _Make, draws: Draws) -> None:
        """Some more occurrences, and the race run to its end."""
        self._entered[rows], self._place[rows] = len(self._groups), np.arange(len(rows))
        self._groups.append((doc_no, make, draws))
        while len(rows):
            groups, stages = self._entered[rows], np.searchsorted(_STAGES, self._attempt[rows], side="right")
            for turn in np.unique(groups * len(_STAGES) + stages).tolist():
                group, stage = divmod(turn, len(_STAGES))
                self._propose(rows[(groups == group) & (stages == stage)], group, _STAGES[stage])
            holding = np.flatnonzero(self.held >= 0)
            order = holding[np.argsort(self.held[holding], kind="stable")]
            self.held[order[1:][self.held[order[1:]] == self.held[order[:-1]]]] = -1
            rows = np.flatnonzero((self.held < 0) & (self._entered >= 0))
            self._attempt[rows] += 1
            self._entered[rows[self._attempt[rows] == _ATTEMPTS]] = _SPENT
            rows = rows[self._attempt[rows] < _ATTEMPTS]

    def _propose(self, rows: npt.NDArray[np.intp], group: int, end: int) -> None:
        """Of each the first draw from its attempt on, in a stage that ends before attempt `end`, that what came before the batch has not
        taken."""
        doc_no, make, draws = self._groups[group]
        times = np.minimum(end - self._attempt[rows], _at_once(len(rows)))
        low = np.cumsum(times) - times
        each = np.repeat(np.arange(len(rows)), times)
        attempts = self._attempt[rows][each] + np.arange(len(each)) - low[each]
        inside = self._place[rows][each]
        text, usable = make(inside, draws.rows(inside).again(attempts), attempts)
        ids = value_ids(arrow(self._kind.normalise(pl.Series(text))), self._kind.name, self._key)
        good = usable & ~self._past.taken(ids, doc_no[inside])
        first = np.minimum.reduceat(np.where(good, np.arange(len(each)), len(each)), low)
        none = first == len(each)
        first[none] = (low + times - 1)[none]
        self.held[rows] = np.where(none, -1, ids[first])
        self._attempt[rows] = attempts[first]
        self._where[rows] = self._drawn + np.arange(len(rows))
        self._texts.append(text.take(pa.array(first)))
        self._drawn += len(rows)

    def first_said(self, rows: npt.NDArray[np.intp], values: I64) -> npt.NDArray[np.intp]:
        """Those of some other occurrences, with these values, that one before them has said for certain; none only where none was said."""
        holding = np.flatnonzero(self.held >= 0)
        order = holding[np.argsort(self.held[holding], kind="stable")]
        if not len(order):
            return rows[:0]
        at = np.minimum(np.searchsorted(self.held[order], values), len(order) - 1)
        said = (self.held[order[at]] == values) & (order[at] < rows)
        # what stands before the first of them stays as it is when they enter; what comes after it may move
        certain: npt.NDArray[np.intp] = rows[said & (order[at] < rows[np.argmax(said)])] if said.any() else rows[:0]
        return certain

    def texts(self) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """All that entered, and the text of each: the kind's label where every draw was taken."""
        rows, spent = np.flatnonzero(self.held >= 0), np.flatnonzero(self._entered == _SPENT)
        every = pa.concat_arrays([*self._texts, pa.array([], pa.large_string())])
        texts = pa.concat_arrays([every.take(pa.array(self._where[rows])), _labels(self._kind, len(spent))])
        return np.concatenate([rows, spent]), texts


# rows, their draws, and which attempt these are of each: of one stage all
_Make = Callable[[npt.NDArray[np.intp], Draws, int | I64], tuple[pa.Array, npt.NDArray[np.bool_]]]


def _readable(one: Kind, part: pl.DataFrame) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The values to be varied, and which of them are none. What the leak check found may be written in full-width letters and the
    like: it is read in its compatibility form."""
    values, swept = part["value"], np.flatnonzero(part["swept"].to_numpy())
    odd = np.zeros(len(values), np.bool_)
    if len(swept):
        # a loop over the few swept values: Unicode's compatibility form has no columnar implementation
        plain = pl.Series([unicodedata.normalize("NFKC", value) for value in values.gather(swept)], dtype=pl.String)
        values = values.scatter(swept, plain)
        asked = pl.DataFrame({"value": plain}).with_columns(bracketed=pl.lit(True), id_field=pl.lit(True), address_field=pl.lit(False))
        odd[swept] = ~one.takes(asked).to_numpy()
    return arrow(values), odd


@functools.lru_cache(maxsize=2)
def _loaded(
    value_ids: Path, part_stores: Path, kinds: tuple[str, ...], source: str, *_times: int
) -> tuple[dict[str, _Known], dict[tuple[str, str], Store]]:
    """The real values of each kind, and the sorted entries of each store."""
    ids = pq.read_table(value_ids, columns=["value_id", "kind"], partitioning=None)
    parts = pq.read_table(part_stores, partitioning=None)
    real: dict[str, _Known] = {}
    stores: dict[tuple[str, str], Store] = {}
    for name in kinds:
        real[name] = _Known(np.asarray(ids.filter(pc.equal(ids.column("kind"), name)).column("value_id"), np.int64))
        if kind_named(name).split is not None:
            rows = parts.filter(pc.equal(parts.column("kind"), name))
            for part in ("first", "last", "local", "domain", "host", "tld"):
                found = rows.filter(pc.equal(rows.column("part"), part)).column("text").cast(pa.large_string())
                stores[name, part] = Store(entries_of(part, pc.unique(found.combine_chunks()), source))
    return real, stores


def _changed(one: Kind, make: _Make, draws: Draws) -> pa.Array:
    """One text for each occurrence of a kind with few and common values: the first that is drawn and is not its own."""
    text, usable = make(np.arange(len(draws)), draws.again(0), 0)
    for attempt in range(1, _ATTEMPTS):
        same = np.flatnonzero(~usable)
        if not len(same):
            return text
        again, other = make(same, draws.rows(same).again(attempt), attempt)
        text, usable[same] = pc.replace_with_mask(text, pa.array(~usable), again), other
    return pc.if_else(pa.array(usable), text, _text(f"[{one.name}]"))


def _at_once(rows: int) -> int:
    """How many attempts of so many rows are made at once: several where they are few, since a call costs more than they do."""
    return max(1, _FEW // max(rows, 1))


def _labels(one: Kind, times: int) -> pa.LargeStringArray:
    return pa.array([f"[{one.name}]"] * times, pa.large_string())


class _Known:
    """A set of ids that answers for whole columns: a bitmap says no to most, a sorted list decides the rest."""

    def __init__(self, ids: I64) -> None:
        self.ids = np.unique(ids)
        self.bits = max(10, int(len(self.ids)).bit_length() + 3)
        self.map = np.zeros(1 << self.bits, np.bool_)
        self.map[self.ids & ((1 << self.bits) - 1)] = True

    def holds(self, ids: I64) -> npt.NDArray[np.bool_]:
        """True for every id of the column that is in the set."""
        maybe = np.flatnonzero(self.map[ids & ((1 << self.bits) - 1)])
        out = np.zeros(len(ids), np.bool_)
        if len(maybe):
            at = np.minimum(np.searchsorted(self.ids, ids[maybe]), len(self.ids) - 1)
            out[maybe] = self.ids[at] == ids[maybe]
        return out


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())
