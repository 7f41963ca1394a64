"""Randomized masked fine-tuning (RMFT): keeps the first occurrences of a value, replaces every
later one by a new random variant.

A variant of an address keeps one randomly chosen component, its anchor (first name, last name, or
domain with its TLD; with `tld` in `anchors` the TLD is a fourth component), and draws the others
from component pools; separators and letter case are kept. An address whose local part has one
component has the anchors {local, domain}. A variant of a name keeps the given name or the surname,
and never the words between them; titles, order and letter case are kept, and a name of one word has
no anchor. Kinds without components get a surrogate of the same shape. A variant never equals a
value of the corpus, of whatever kind (sanitize/editors/synthesis/known_values.py), and never
repeats within a document; where the pools are exhausted, a component that is not the anchor is
extended by digits, and where every attempt fails, the occurrence gets the label of its kind.

With `linked = true` names and addresses of one person have one invented identity in a document
(sanitize/editors/synthesis/identities.py), and the person has one anchor: `Dear Cleo` still matches
`Cleo Berg` and `cleo.berg@`. All replaced mentions of a value are then the same in a document.

With `keep = 0` and `anchors = []` nothing of a value is kept: the plan `surrogates`.

With `avoid = "seen"` a variant differs from the values of its own and all earlier documents and
from all variants drawn before it, in corpus order; a value of any kind whose first occurrence
follows an equal variant is replaced too. A stream can know this much, but not values that come
later. Of two occurrences that would draw the same variant, the earlier one gets it, so that the
result is the same as processing the corpus one occurrence at a time, for any batch boundaries
(serial dictatorship, computed as Gale and Shapley's deferred acceptance, College Admissions and the
Stability of Marriage, 1962). Where a plan has several such editors, each knows its own variants.

Kept by design: each first occurrence, and in each variant one real component. Source: RMFT (arXiv
2512.03310), section 3.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr

from sanitize.array_types import I64, Mask
from sanitize.core.arrow_buffers import (
    TextBuffers,
    numbers_to_arrow,
    texts_to_arrow,
    to_large_string,
)
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import (
    Draws,
    IdSet,
    Key,
    compute_value_ids,
    draw_index,
    make_id_table,
    siphash,
)
from sanitize.core.part_protocols import (
    Aggregates,
    EditBatch,
    LinkingEditor,
    OccurrenceEdits,
    PriorValues,
)
from sanitize.editors.synthesis import identities
from sanitize.editors.synthesis.component_pools import (
    COMPONENTS,
    ComponentPool,
    PoolTable,
    VariantDrawer,
    build_pool_entries,
    curated_pool,
    draw_extension,
)
from sanitize.editors.synthesis.identities import Entities, load_entities
from sanitize.editors.synthesis.known_values import (
    FORM_COUNT,
    NORMALISED,
    FirstForms,
    contains_any,
    hash_surrogate_forms,
    hash_value_forms,
    list_conflicting_forms,
    load_known_forms,
)
from sanitize.errors import PlanError
from sanitize.kernels import value_sets
from sanitize.kinds.kind import Kind, get_kind
from sanitize.storage.parquet_files import read_table

Anchor = Literal["first", "last", "domain", "tld"]
_EXTEND_AFTER = 8  # attempts with the pools alone; later ones are extended by digits
_OWN_COMPONENT_AFTER = 24  # from this attempt on, a drawn component may equal the address's own
_MAX_ATTEMPTS = 64
# attempts at which the way of drawing changes
_STRATEGY_ENDS = (
    1,
    _EXTEND_AFTER,
    _OWN_COMPONENT_AFTER,
    _MAX_ATTEMPTS,
)
_DRAWN_AT_ONCE = 1 << 15  # rows; 2 KB of intermediate columns each
_MIN_DRAWS_PER_CALL = 256  # fewer draws than this cost no more than the call itself
_COMPONENT_BIT = {name: 1 << number for number, name in enumerate(COMPONENTS)}
# odd: documents differ in the numbers that it gives (2 ** 64 divided by the golden ratio)
_DOC_FACTOR = 0x9E3779B97F4A7C15
_EXHAUSTED = -2  # group number of occurrences that are out of attempts
_ANCHOR_LANE = 1 << 20  # the lane that chooses the anchor of a name; above those of its words
_ANCHOR_NUMBERS = {
    "first": identities.GIVEN_ROLE,
    "last": identities.SURNAME_ROLE,
    "domain": identities.DOMAIN,
    "tld": identities.TLD,
}


class _PreparedDraws(NamedTuple):
    """Rows that get a label, rows that get a variant; and for the latter their documents, the
    function that draws texts, and the draws."""

    labelled: npt.NDArray[np.intp]
    rows: npt.NDArray[np.intp]
    doc_no: I64
    draw_texts: _TextDrawer
    draws: Draws


class Rmft(LinkingEditor):
    """Settings: `keep`, the number of first occurrences to keep; `anchors`; `stores`, the pools
    that components are drawn from; `avoid`, the values that a variant must differ from (those of
    the whole `corpus`, or those `seen` before); `reserved`, to draw numbers from ranges that are
    assigned to no one; `linked`, one identity for each person."""

    VERSION: ClassVar[int] = 5
    required_aggregates: ClassVar[tuple[str, ...]] = (
        "first_occurrences",
        "component_pools",
        "known_forms",
    )
    keep: int = Field(default=1, ge=0)
    anchors: tuple[Anchor, ...] = ("first", "last", "domain")
    stores: Literal["corpus", "curated", "mixed"] = "corpus"
    avoid: Literal["corpus", "seen"] = "corpus"
    reserved: bool = False
    _key: Key = PrivateAttr()
    _known_forms: IdSet = PrivateAttr()
    _namespace: np.int64 = PrivateAttr()
    _pools: dict[str, PoolTable] = PrivateAttr(default_factory=dict)
    _prior_values: PriorValues = PrivateAttr()
    _entities: Entities = PrivateAttr()

    def validate_settings(self, schema: pa.Schema | None) -> None:
        super().validate_settings(schema)
        if self.linked and self.avoid == "seen":
            raise PlanError(
                "edit.use = 'rmft': linked = true needs the values of the whole corpus, but avoid"
                ' = "seen" (used for streams) only has earlier ones; use `sanitize run` with avoid'
                ' = "corpus", or set linked = false'
            )

    @property
    def action(self) -> str:
        """First occurrences kept, later ones replaced by variants; with `keep = 0`, surrogates for
        all."""
        if not self.keep:
            return "every occurrence replaced by a new surrogate of the same shape"
        first = "first occurrence" if self.keep == 1 else f"first {self.keep} occurrences"
        return f"{first} of every value kept, each later one replaced by a new variant"

    def describe_staying(self, kind: str) -> str:
        """The kept occurrences, and the anchor in each variant."""
        kept = super().describe_staying(kind)
        return f"{kept}, and one part of a value in each variant" if kept and self.anchors else kept

    @property
    def pooled_kinds(self) -> tuple[str, ...]:
        """All its kinds, unless components are drawn from the curated pools alone."""
        return () if self.stores == "curated" else self.kinds

    @property
    def is_sequential(self) -> bool:
        """True with `avoid = "seen"`: each variant depends on those before it."""
        return self.avoid == "seen"

    def for_streaming(self, location: str) -> Self:
        """These settings for a stream, with `avoid = "seen"`; PlanError (at `location`) if `linked`
        is set."""
        if self.linked:
            raise PlanError(
                f"{location}.linked: a stream cannot know all names and addresses of a person; use"
                " `sanitize run`, or set linked = false"
            )
        return self.model_copy(update={"avoid": "seen"})

    def set_prior_values(self, prior_values: PriorValues) -> None:
        """Set the values that occur before the batch; in a stream the component pools are built
        from them."""
        self._prior_values = prior_values

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Load the known values and component pools of the corpus; cached for later tasks of this
        process. A stream has no aggregates."""
        self._key = key
        # forms of variants are recorded by editor: of a batch, one editor cannot know the variants
        # of the next, whatever the batch size
        self._namespace = np.int64(
            int.from_bytes(key.subkey(f"surrogates/{' '.join(self.kinds)}")[:8], "little") >> 1
        )
        if not aggregates.tables:
            return
        forms, pools = aggregates.tables["known_forms"], aggregates.tables["component_pools"]
        if self.linked:
            self._entities = load_entities(
                aggregates.tables["entity_values"],
                aggregates.tables["entity_values"].stat().st_mtime_ns,
            )
        self._known_forms = load_known_forms(forms, forms.stat().st_mtime_ns)
        self._pools = _load_pools(
            pools, self.kinds, self.stores, self.anchors, pools.stat().st_mtime_ns
        )

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """A new variant for every occurrence that is not kept."""
        frame = batch.occurrences
        if self.is_sequential:
            return OccurrenceEdits(*self._replace_in_order(batch))
        kept = frame["kept"].to_numpy()
        rows_of, texts_of = [], []
        if self.linked:
            rows, texts = self._replace_linked(batch)
            rows_of.append(rows)
            texts_of.append(texts)
        for name in self.kinds:
            if self.linked and name in identities.LINKED_KINDS:
                continue
            kind = get_kind(name)
            rows = np.flatnonzero((frame["kind"] == name).to_numpy() & ~kept)
            if len(rows):
                rows, texts = self._replace(kind, batch, rows)
                rows_of.append(rows)
                texts_of.append(texts)
        if not rows_of:
            return OccurrenceEdits(np.empty(0, np.intp), pa.nulls(0, pa.large_string()))
        order = np.argsort(np.concatenate(rows_of), kind="stable")
        return OccurrenceEdits(
            np.concatenate(rows_of)[order], pa.concat_arrays(texts_of).take(numbers_to_arrow(order))
        )

    def _prepare_draws(
        self, kind: Kind, batch: EditBatch, rows: npt.NDArray[np.intp]
    ) -> _PreparedDraws:
        """What is needed to draw the replacements of rows of one kind."""
        part = batch.occurrences[rows]
        doc_ids = batch.doc_ids.take(numbers_to_arrow(rows))
        draws = Draws.for_occurrences(
            self._key,
            f"rmft/{kind.name}",
            doc_ids,
            part["cell"].to_numpy(),
            part["start"].to_numpy(),
        )
        values, is_invalid = _read_values(kind, part, self._key)
        doc_no = part["doc_no"].to_numpy()
        labelled = rows[is_invalid]
        if len(labelled):
            # found by the leak check, and not written as the value even in compatibility form: it
            # gets the kind's label
            valid_rows = np.flatnonzero(~is_invalid)
            rows, doc_no, draws, values = (
                rows[valid_rows],
                doc_no[valid_rows],
                draws.take(valid_rows),
                values.take(numbers_to_arrow(valid_rows)),
            )
        if kind.locate_components is not None:
            draw_texts = self._build_variant_drawer(kind, values, doc_no)
        else:
            draw_texts = (
                self._build_surrogate_drawer(kind, values)
                if kind.make_variants is None
                else self._build_anchored_drawer(kind, values)
            )
        return _PreparedDraws(labelled, rows, doc_no, draw_texts, draws)

    def _replace(
        self, kind: Kind, batch: EditBatch, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """Rows of one kind and their replacements."""
        labelled, rows, doc_no, draw_texts, draws = self._prepare_draws(kind, batch, rows)
        texts = self._draw_until_new(kind, draw_texts, doc_no, draws)
        return np.concatenate([rows, labelled]), pa.concat_arrays(
            [texts, _repeat_label(kind, len(labelled))]
        )

    def _replace_linked(self, batch: EditBatch) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """The rows of replaced names and addresses and their replacements, with one identity for
        each person in a document."""
        frame = batch.occurrences
        linked_rows = np.flatnonzero(
            frame["kind"]
            .is_in([name for name in self.kinds if name in identities.LINKED_KINDS])
            .to_numpy()
        )
        part = frame[linked_rows]
        values, is_invalid = pl.Series(part["value"]), np.zeros(len(part), np.bool_)
        for name in identities.LINKED_KINDS:
            kind_rows = np.flatnonzero((part["kind"] == name).to_numpy())
            plain, is_invalid[kind_rows] = _read_values(get_kind(name), part[kind_rows], self._key)
            values = values.scatter(kind_rows, pl.Series(plain, dtype=pl.String))
        words = siphash(
            batch.doc_ids.dictionary.cast(pa.large_binary()), self._key.subkey("doc_id")
        )
        seed = (
            words[np.asarray(batch.doc_ids.indices)[linked_rows]]
            if len(words)
            else np.empty(0, np.uint64)
        )
        mentions = part.select(
            "kind", "value_id", scope="doc_no", is_replaced=~pl.col("kept")
        ).with_columns(value=values, seed=pl.Series(seed, dtype=pl.UInt64))
        valid = np.flatnonzero(~is_invalid)
        groups = identities.PersonGroups(mentions[valid], self._entities, self._key, "rmft/linked")
        texts = groups.draw_texts(
            self._is_known,
            self._build_tail_drawer(groups),
            tuple(_ANCHOR_NUMBERS[name] for name in self.anchors),
        )
        replaced = np.flatnonzero(mentions["is_replaced"].to_numpy()[valid])
        labels = pl.select(
            pl.lit("[") + part["kind"].gather(np.flatnonzero(is_invalid)) + "]"
        ).to_series()
        replacements = pa.concat_arrays(
            [texts.take(numbers_to_arrow(groups.mention_rows[replaced])), to_large_string(labels)]
        )
        return np.concatenate([linked_rows[valid[replaced]], linked_rows[is_invalid]]), replacements

    def _build_tail_drawer(self, groups: identities.PersonGroups) -> identities.TailDrawer:
        """A function that draws the text from the @ on for variants of addresses: its own domain
        where that is the anchor, else one from the pool."""
        if identities.EMAIL_ADDRESS not in self.kinds:
            return lambda rows, draws, anchor: pa.nulls(0, pa.large_string())
        kind = get_kind(identities.EMAIL_ADDRESS)
        address_rows = np.flatnonzero((groups.rows["kind"] == kind.name).to_numpy())
        addresses = to_large_string(groups.rows["value"].gather(address_rows))
        edges = self._locate_components(kind, addresses)
        edges[:, :4] = edges[:, 4:5]  # the text begins with `at`
        drawer = VariantDrawer(TextBuffers.from_array(addresses), edges, self._get_pools(kind.name))
        address_no_of_row = np.full(groups.rows.height, -1, np.int64)
        address_no_of_row[address_rows] = np.arange(len(address_rows))
        always_kept = sum(
            _COMPONENT_BIT[name]
            for name in COMPONENTS
            if name in ("first", "last") or (name == "tld" and name not in self.anchors)
        )

        def draw_tail(rows: I64, draws: Draws, anchor: I64) -> pa.LargeStringArray:
            kept = np.full(len(rows), always_kept, np.uint8)
            for number, name in ((identities.DOMAIN, "domain"), (identities.TLD, "tld")):
                kept[anchor == number] |= _COMPONENT_BIT[name]
            high, low = draws.u32_pair(0)
            bits = np.zeros((len(rows), len(COMPONENTS)), np.uint32)
            bits[:, COMPONENTS.index("domain")], bits[:, COMPONENTS.index("tld")] = high, low
            return drawer.draw(address_no_of_row[rows], np.zeros(len(rows), np.int64), kept, bits)[
                0
            ]

        return draw_tail

    def _locate_components(self, kind: Kind, values: pa.LargeStringArray) -> I64:
        """Where the components of values begin; without `tld` among the anchors, the domain
        includes it."""
        assert kind.locate_components is not None
        edges = kind.locate_components(pl.Series(values))
        if "tld" not in self.anchors:
            edges[:, 6:8] = edges[:, 8:]
        return edges

    def _replace_in_order(self, batch: EditBatch) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """Rows and their replacements, drawn in corpus order. A kept original is replaced too if an
        earlier variant, of whatever kind, equals it."""
        frame = batch.occurrences
        kinds = frame["kind"].to_numpy()
        is_replaced = ~frame["kept"].to_numpy()
        conflicts = self._list_conflicts_of_originals(frame, np.flatnonzero(~is_replaced))
        is_replaced |= self._prior_values.was_generated(_invert(conflicts, self._namespace))
        allocator = _UniqueDrawAllocator(self._key, self._prior_values, self._namespace, len(frame))
        labels = np.full(len(frame), None, object)
        new_rows = np.flatnonzero(is_replaced)
        while len(new_rows):
            for name in self.kinds:
                rows = new_rows[kinds[new_rows] == name]
                if len(rows):
                    kind = get_kind(name)
                    labelled, variant_rows, doc_no, draw_texts, draws = self._prepare_draws(
                        kind, batch, rows
                    )
                    labels[labelled] = f"[{name}]"
                    allocator.add(variant_rows, kind, doc_no, draw_texts, draws)
            new_rows = allocator.find_already_drawn(np.flatnonzero(~is_replaced), conflicts)
            is_replaced[new_rows] = True
        self._prior_values.record_generated(
            _invert(allocator.held_forms[allocator.held_keys != 0], self._namespace)
        )
        labels[allocator.is_exhausted] = np.array(
            [f"[{name}]" for name in kinds[allocator.is_exhausted]], object
        )
        labelled_rows = np.flatnonzero(labels != None)  # noqa: E711 - elementwise
        drawn_rows, texts = allocator.collect()
        rows = np.concatenate([drawn_rows, labelled_rows])
        order = np.argsort(rows, kind="stable")
        replacements = pa.concat_arrays([texts, texts_to_arrow(labels[labelled_rows])])
        return rows[order], replacements.take(numbers_to_arrow(order))

    def _list_conflicts_of_originals(
        self, occurrences: pl.DataFrame, rows: npt.NDArray[np.intp]
    ) -> I64:
        """The forms that no earlier variant may have for the originals at `rows` to stay, one row
        for each occurrence; 0 elsewhere."""
        conflicts = np.zeros((len(occurrences), 2 * FORM_COUNT), np.int64)
        kinds = occurrences["kind"].to_numpy()[rows]
        for name in self.kinds:
            kind, kind_rows = get_kind(name), rows[kinds == name]
            if len(kind_rows):
                values = occurrences["value"].gather(kind_rows)
                forms = hash_value_forms(
                    kind,
                    to_large_string(values),
                    to_large_string(kind.normalise(values)),
                    self._key,
                )
                found = list_conflicting_forms(kind, forms)
                conflicts[kind_rows, : found.shape[1]] = found
        return conflicts

    def _is_known(self, kind: Kind, forms: I64) -> Mask:
        """True for surrogates of a kind, given by their forms, that equal a value of the corpus."""
        return contains_any(self._known_forms, list_conflicting_forms(kind, forms))

    def _draw_until_new(
        self, kind: Kind, draw_texts: _TextDrawer, doc_no: I64, draws: Draws
    ) -> pa.Array:
        """One text for each occurrence, drawn again until it equals no known value and is new in
        its document; for kinds with `ambiguous_text`, until it differs from the original."""
        if kind.ambiguous_text:
            return self._draw_until_changed(kind, draw_texts, draws)
        used = make_id_table(len(draws))
        pending = np.arange(len(draws))
        texts, rows = list[pa.Array](), list[npt.NDArray[np.intp]]()
        attempt = 0
        while len(pending) and attempt < _MAX_ATTEMPTS:
            # several attempts only if all rows are drawn at once, else the accepted draws would
            # depend on the slices
            count = min(_find_strategy_end(attempt) - attempt, _attempts_per_call(len(pending)))
            is_rejected = np.ones(len(pending), np.bool_)
            for low in range(0, len(pending), _DRAWN_AT_ONCE):
                drawn = pending[low : low + _DRAWN_AT_ONCE]
                each = np.repeat(drawn, count)
                attempts = attempt + np.tile(np.arange(count), len(drawn))
                text, usable = draw_texts(
                    each, draws.take(each).with_attempt(attempts), attempts if attempt else 0
                )
                forms = hash_surrogate_forms(kind, text, self._key)
                usable = usable & ~self._is_known(kind, forms)
                accepted, keys = (
                    np.empty(len(drawn), np.int64),
                    np.ascontiguousarray(forms[:, NORMALISED]),
                )
                value_sets.accept_new(
                    keys, usable.view(np.uint8), doc_no[drawn], _DOC_FACTOR, used, accepted
                )
                is_accepted = accepted >= 0
                texts.append(text.take(numbers_to_arrow(accepted[is_accepted])))
                rows.append(drawn[is_accepted])
                is_rejected[low : low + len(drawn)] = ~is_accepted
            pending = pending[is_rejected]
            attempt += count
        # no variant of this shape is left that is new in its document (`http://a` a few dozen
        # times): the rest gets the kind's label
        texts.append(_repeat_label(kind, len(pending)))
        rows.append(pending)
        return pa.concat_arrays(texts).take(
            numbers_to_arrow(np.argsort(np.concatenate(rows), kind="stable"))
        )

    def _draw_until_changed(self, kind: Kind, draw_texts: _TextDrawer, draws: Draws) -> pa.Array:
        """One text for each occurrence of a kind with `ambiguous_text`: the first draw that differs
        from the original and from all known values of other kinds."""
        slices = []
        for low in range(0, len(draws), _DRAWN_AT_ONCE):
            pending = np.arange(low, min(low + _DRAWN_AT_ONCE, len(draws)))
            texts = _repeat_label(kind, len(pending))
            for attempt in range(_MAX_ATTEMPTS):
                drawn, usable = draw_texts(
                    pending, draws.take(pending).with_attempt(attempt), attempt
                )
                usable = usable & ~self._is_known(
                    kind, hash_surrogate_forms(kind, drawn, self._key)
                )
                is_done = np.zeros(len(texts), np.bool_)
                is_done[pending[usable] - low] = True
                texts = pc.replace_with_mask(
                    texts, numbers_to_arrow(is_done), drawn.filter(numbers_to_arrow(usable))
                )
                pending = pending[~usable]
                if not len(pending):
                    break
            slices.append(texts)
        return pa.concat_arrays([*slices, pa.nulls(0, pa.large_string())])

    def _build_surrogate_drawer(self, kind: Kind, values: pa.Array) -> _TextDrawer:
        """A function that draws surrogates of the same shape; after `_EXTEND_AFTER` attempts not
        from the small reserved ranges."""

        def draw(
            rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64
        ) -> tuple[pa.Array, Mask]:
            reserved = self.reserved and bool(np.max(attempt) < _EXTEND_AFTER)
            originals = pl.Series(values.take(numbers_to_arrow(rows)))
            surrogates = kind.make_surrogates(originals, draws, reserved)
            usable = (
                (kind.normalise(surrogates) != kind.normalise(originals)).to_numpy()
                if kind.ambiguous_text
                else np.ones(len(rows), np.bool_)
            )
            return to_large_string(surrogates), usable

        return draw

    def _build_anchored_drawer(self, kind: Kind, values: pa.Array) -> _TextDrawer:
        """A function that draws surrogates with one kept component each, chosen among the plan's
        anchors; after `_EXTEND_AFTER` attempts no component is kept."""
        assert kind.make_variants is not None
        make_variants = kind.make_variants
        anchor_indices = np.array(
            [kind.components.index(name) for name in self.anchors if name in kind.components]
            or [-1]
        )

        def draw(
            rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64
        ) -> tuple[pa.Array, Mask]:
            originals = pl.Series(values.take(numbers_to_arrow(rows)))
            no_anchor = np.max(attempt) >= _EXTEND_AFTER
            anchor = (
                np.full(len(rows), -1)
                if no_anchor
                else anchor_indices[
                    draw_index(draws.with_attempt(0).u32_pair(_ANCHOR_LANE)[0], len(anchor_indices))
                ]
            )
            return to_large_string(make_variants(originals, draws, anchor)), np.ones(
                len(rows), np.bool_
            )

        return draw

    def _get_pools(self, kind: str) -> PoolTable:
        """The pools that the components of variants are drawn from."""
        if kind in self._pools:
            return self._pools[kind]
        pools = {}
        for component, pool_name in _pool_names(self.anchors).items():
            curated = curated_pool(pool_name)
            grown = (
                None if self.stores == "curated" else self._prior_values.components(kind, pool_name)
            )
            is_mixed = self.stores == "mixed"
            pools[component] = (
                curated
                if grown is None
                else ComponentPool.from_seen(*grown, curated.entries, mixed=is_mixed)
            )
        return PoolTable(pools)

    def _build_variant_drawer(self, kind: Kind, values: pa.Array, doc_no: I64) -> _TextDrawer:
        """A function that draws variants of values with components: the anchor is the value's own,
        the others come from the pools.

        No first or last name of a variant has a `=`, which is the `@` of another address
        (`list-ann=example.com@lists.example.org`): one that is kept, or that comes from a pool,
        would let it remain. Of such a value the domain is kept."""
        edges = self._locate_components(kind, values)
        drawer = VariantDrawer(TextBuffers.from_array(values), edges, self._get_pools(kind.name))
        has_last = edges[:, 3] < edges[:, 4]
        many = np.array([_COMPONENT_BIT[name] for name in self.anchors], np.uint8)
        few = np.array([_COMPONENT_BIT[name] for name in self.anchors if name != "last"], np.uint8)
        always_kept = np.where(has_last, 0, _COMPONENT_BIT["last"]) | (
            0 if "tld" in self.anchors else _COMPONENT_BIT["tld"]
        )
        signs_in_names, signs_elsewhere = _count_equals_signs(TextBuffers.from_array(values), edges)
        wraps_address = signs_in_names > 0
        kept_of_wrapping = _COMPONENT_BIT["domain"] if "domain" in self.anchors else 0

        def draw(
            rows: npt.NDArray[np.intp], draws: Draws, attempt: int | I64
        ) -> tuple[pa.Array, Mask]:
            stage, kept, is_long = (
                np.max(attempt),
                always_kept[rows].astype(np.uint8),
                has_last[rows],
            )
            choose = draws.with_attempt(0).u32_pair(0)[0]  # the anchor is the same in all attempts
            for which, choices in ((is_long, many), (~is_long, few)):
                if len(choices):
                    kept[which] |= choices[draw_index(choose[which], len(choices))]
            kept = np.where(wraps_address[rows], always_kept[rows] | kept_of_wrapping, kept).astype(
                np.uint8
            )
            bits = np.empty((len(rows), len(COMPONENTS)), np.uint32)
            bits[:, 0] = draws.u32_pair(0)[1]
            bits[:, 1], bits[:, 2] = draws.u32_pair(1)
            bits[:, 3] = draws.u32_pair(2)[0] if "tld" in self.anchors else 0
            extensions = (
                draw_extension(draws.u32_pair(3)[0], attempt - (_EXTEND_AFTER - 1))
                if stage >= _EXTEND_AFTER
                else None
            )
            text, is_new = drawer.draw(rows, doc_no[rows], kept, bits, extensions)
            is_usable = np.asarray(pc.count_substring(text, "=")) <= signs_elsewhere[rows]
            return text, is_usable & is_new if stage < _OWN_COMPONENT_AFTER else is_usable

        return draw


def _count_equals_signs(values: TextBuffers, edges: I64) -> tuple[I64, I64]:
    """How many `=` each value has in its first and last name, and elsewhere: `=` may be the sign of
    the address itself. `edges` as of `Kind.locate_components`."""
    before = np.searchsorted(np.flatnonzero(values.data == ord("=")), edges)
    in_names = before[:, 2] - before[:, 1] + before[:, 4] - before[:, 3]
    return in_names, before[:, -1] - before[:, 0] - in_names


class _UniqueDrawAllocator:
    """Assigns a unique text to each of some occurrences in corpus order: its first draw that no
    earlier occurrence holds.

    Deferred acceptance: each occurrence tries its draws in order; the earliest occurrence keeps a
    contested text, and one that loses its text tries its next draw. Texts are the same if their
    normalised forms are (`held_keys`; 0: none): an equivalence, without which the result would
    depend on the order of work. Occurrences may be added in several calls of `add`: the result is
    the same as if all had been added at once."""

    def __init__(
        self, key: Key, prior_values: PriorValues, namespace: np.int64, count: int
    ) -> None:
        self._key, self._prior_values, self._namespace = key, prior_values, namespace
        self.held_forms = np.zeros((count, FORM_COUNT), np.int64)
        self.held_keys, self._attempts = np.zeros((2, count), np.int64)
        self._text_index = np.full(count, -1, np.int64)
        self._group_numbers = np.full(count, -1, np.int64)  # index in `_groups`; -1: not added
        self._row_in_group = np.zeros(count, np.int64)
        self._groups: list[tuple[Kind, I64, _TextDrawer, Draws]] = []
        self._texts: list[pa.Array] = []
        self._text_count = 0

    @property
    def is_exhausted(self) -> Mask:
        """True for occurrences that are out of attempts."""
        return np.asarray(self._group_numbers == _EXHAUSTED)

    def add(
        self,
        rows: npt.NDArray[np.intp],
        kind: Kind,
        doc_no: I64,
        draw_texts: _TextDrawer,
        draws: Draws,
    ) -> None:
        """Add occurrences of one kind, and repeat until each holds a text or is out of attempts."""
        self._group_numbers[rows], self._row_in_group[rows] = (
            len(self._groups),
            np.arange(len(rows)),
        )
        self._groups.append((kind, doc_no, draw_texts, draws))
        while len(rows):
            groups, stages = (
                self._group_numbers[rows],
                np.searchsorted(_STRATEGY_ENDS, self._attempts[rows], side="right"),
            )
            for group_stage in np.unique(groups * len(_STRATEGY_ENDS) + stages).tolist():
                group, stage = divmod(group_stage, len(_STRATEGY_ENDS))
                self._propose(
                    rows[(groups == group) & (stages == stage)], group, _STRATEGY_ENDS[stage]
                )
            holding = np.flatnonzero(self.held_keys)
            order = holding[np.argsort(self.held_keys[holding], kind="stable")]
            self.held_keys[order[1:][self.held_keys[order[1:]] == self.held_keys[order[:-1]]]] = 0
            rows = np.flatnonzero((self.held_keys == 0) & (self._group_numbers >= 0))
            self._attempts[rows] += 1
            self._group_numbers[rows[self._attempts[rows] == _MAX_ATTEMPTS]] = _EXHAUSTED
            rows = rows[self._attempts[rows] < _MAX_ATTEMPTS]

    def _propose(self, rows: npt.NDArray[np.intp], group: int, attempt_end: int) -> None:
        """Let each row hold its first draw, from its current attempt on and before attempt
        `attempt_end`, that was not taken before the batch."""
        kind, doc_no, draw_texts, draws = self._groups[group]
        times = np.minimum(attempt_end - self._attempts[rows], _attempts_per_call(len(rows)))
        low = np.cumsum(times) - times
        each = np.repeat(np.arange(len(rows)), times)
        attempts = self._attempts[rows][each] + np.arange(len(each)) - low[each]
        inside = self._row_in_group[rows][each]
        text, usable = draw_texts(inside, draws.take(inside).with_attempt(attempts), attempts)
        forms = hash_surrogate_forms(kind, text, self._key)
        is_known = self._prior_values.is_known(list_conflicting_forms(kind, forms), doc_no[inside])
        good = (
            usable
            & ~is_known
            & ~self._prior_values.was_drawn(forms[:, NORMALISED] ^ self._namespace)
        )
        first = np.minimum.reduceat(np.where(good, np.arange(len(each)), len(each)), low)
        no_draw = first == len(each)
        first[no_draw] = (low + times - 1)[no_draw]
        self.held_forms[rows] = forms[first]
        self.held_keys[rows] = np.where(no_draw, 0, forms[first, NORMALISED])
        self._attempts[rows] = attempts[first]
        self._text_index[rows] = self._text_count + np.arange(len(rows))
        self._texts.append(text.take(numbers_to_arrow(first)))
        self._text_count += len(rows)

    def find_already_drawn(
        self, rows: npt.NDArray[np.intp], conflicts: I64
    ) -> npt.NDArray[np.intp]:
        """Those of `rows` (ascending) of which an earlier occurrence certainly holds a form as a
        form of its variant; `conflicts` has the forms of every row. Empty only if no earlier
        occurrence holds one."""
        holding = np.flatnonzero(self.held_keys)
        held = FirstForms.collect(self.held_forms[holding], holding)
        already_held = held.is_known(conflicts[rows], rows)
        if not already_held.any():
            return rows[:0]
        # variants before the first such row cannot change any more; those after it may change when
        # that row is added
        first = np.minimum(rows, rows[np.argmax(already_held)])
        certain: npt.NDArray[np.intp] = rows[held.is_known(conflicts[rows], first)]
        return certain

    def collect(self) -> tuple[npt.NDArray[np.intp], pa.Array]:
        """The rows that hold a text, ascending, and their texts."""
        rows = np.flatnonzero(self.held_keys)
        all_texts = pa.concat_arrays([*self._texts, pa.nulls(0, pa.large_string())])
        return rows, all_texts.take(numbers_to_arrow(self._text_index[rows]))


def _invert(forms: I64, bits: np.int64) -> I64:
    """The forms with these bits inverted; 0 stays 0."""
    return np.where(forms != 0, forms ^ bits, 0)


# (rows, their draws, attempt of each draw) -> texts, and whether each is usable; all attempts of a
# call are between two of `_STRATEGY_ENDS`
_TextDrawer = Callable[[npt.NDArray[np.intp], Draws, int | I64], tuple[pa.Array, Mask]]


def _read_values(kind: Kind, occurrences: pl.DataFrame, key: Key) -> tuple[pa.Array, Mask]:
    """The values to replace, and a mask of those that are not written as a value of the kind.
    Occurrences that the leak check found may have full-width letters and the like, and are read in
    their Unicode compatibility form; others are encoded, such as in base64."""
    values, swept = occurrences["value"], np.flatnonzero(occurrences["swept"].to_numpy())
    is_invalid = np.zeros(len(values), np.bool_)
    if len(swept):
        # a loop over the distinct swept values: Unicode's compatibility form has no columnar
        # implementation
        spelled = to_large_string(values.gather(swept)).dictionary_encode()
        code = np.asarray(spelled.indices, np.int64)
        plain = pl.Series(
            [unicodedata.normalize("NFKC", value) for value in spelled.dictionary.to_pylist()],
            dtype=pl.String,
        )
        values = values.scatter(swept, plain.gather(code))
        candidates = pl.DataFrame({"value": plain}).with_columns(
            bracketed=pl.lit(True), id_field=pl.lit(True), address_field=pl.lit(False)
        )
        plain_ids = compute_value_ids(to_large_string(kind.normalise(plain)), kind.name, key)
        is_other_value = plain_ids[code] != occurrences["value_id"].to_numpy()[swept]
        # where a finder found a value in the same place, its variant held a value: the next one
        # would, too
        spans = (occurrences[name].to_numpy() for name in ("doc_no", "cell", "start", "end"))
        # occurrences are in order
        equals_next = np.logical_and.reduce([column[1:] == column[:-1] for column in spans])
        is_found_too = (np.append(equals_next, False) | np.append(False, equals_next))[swept]
        is_invalid[swept] = (
            ~kind.is_value(candidates).to_numpy()[code] | is_other_value | is_found_too
        )
    return to_large_string(values), is_invalid


@cached_for_run(2)
def _load_pools(
    path: Path, kinds: tuple[str, ...], source: str, anchors: tuple[Anchor, ...], _mtime_ns: int
) -> dict[str, PoolTable]:
    """The component pools of each kind in the corpus."""
    components = read_table(path)
    pools: dict[str, PoolTable] = {}
    for name in kinds:
        if get_kind(name).locate_components is not None:
            rows = components.filter(pc.equal(components.column("kind"), name))
            pools_of_kind = {}
            for component, pool_name in _pool_names(anchors).items():
                found = (
                    rows.filter(pc.equal(rows.column("component"), pool_name))
                    .column("text")
                    .cast(pa.large_string())
                )
                pools_of_kind[component] = ComponentPool(
                    build_pool_entries(pool_name, pc.unique(found.combine_chunks()), source)
                )
            pools[name] = PoolTable(pools_of_kind)
    return pools


def _pool_names(anchors: tuple[Anchor, ...]) -> dict[str, str]:
    """The pool that each component is drawn from: whole hosts for the domain, unless the top-level
    domain is a component of its own."""
    names = {"first": "first", "local": "local", "last": "last"}
    return (
        {**names, "domain": "domain", "tld": "tld"}
        if "tld" in anchors
        else {**names, "domain": "host"}
    )


def _attempts_per_call(row_count: int) -> int:
    """The number of attempts to draw at once for `row_count` rows: several for few rows, since the
    call costs more than the draws."""
    return max(1, _MIN_DRAWS_PER_CALL // max(row_count, 1))


def _repeat_label(kind: Kind, count: int) -> pa.LargeStringArray:
    return pa.repeat(pa.scalar(f"[{kind.name}]", pa.large_string()), count)


def _find_strategy_end(attempt: int) -> int:
    """The first later attempt at which the way of drawing changes."""
    return next(end for end in _STRATEGY_ENDS if end > attempt)
