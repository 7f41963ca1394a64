"""Replaces every value by a pseudonym: a surrogate of the same kind and shape, consistent over the
corpus, over a document, or not at all.

A pseudonym is drawn by the PRF under a subkey of its kind, from the normalised value (and from the
document, with that scope). It is the same in every run with the same key, unless one of two
constraints prevents it: a pseudonym never equals a value of the corpus, of whatever kind
(sanitize/editors/synthesis/known_values.py), and no two values share one in the corpus or document.
Of two values that draw the same one, the smaller `value_id` gets it and the other draws again; that
depends on the set of values, not on the order of work. With scope `corpus`, the values of each
increment of an output are drawn after those of earlier ones and with what was known then:
pseudonyms that are published do not change when documents are appended. Spellings of one value
(letter case, separators) are kept in the pseudonym, as long as the result still normalises to the
same pseudonym.

With `linked = true` names and addresses of one person get one invented identity
(sanitize/editors/synthesis/identities.py): `Dear Cleo` still matches `Cleo Berg` and `cleo.berg@`.
With scope `corpus` a person is an entity of the index. A single word (`Anna`) gets, in a document
where it can only mean one person, that person's new name: over the corpus it may have several
pseudonyms, and people may share one. It keeps its own pseudonym where the new name would be a real
value or the pseudonym of another value.

Without the key, no one can compute the pseudonym of a guessed value; without the vault, no one can
reverse one. Its table `labels` has the value of each pseudonym by document (`sanitize sql WORK
--name pseudonyms --reveal`). Who knows a value and one of its places in the text knows its
pseudonym everywhere: consistent pseudonyms are linkable by design.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import PrivateAttr

from sanitize.array_types import I64, U64, Mask
from sanitize.core.arrow_buffers import make_byte_table, to_large_string
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import Draws, Key, siphash
from sanitize.core.part_protocols import Aggregates, EditBatch, LinkingEditor, OccurrenceEdits
from sanitize.editors.synthesis import identities
from sanitize.editors.synthesis.component_pools import draw_extension
from sanitize.editors.synthesis.known_values import (
    NORMALISED,
    FirstForms,
    hash_surrogate_forms,
    list_conflicting_forms,
)
from sanitize.errors import PlanError, ResourceError
from sanitize.kinds.kind import Kind, digit_mask, from_byte_matrix, get_kind, to_byte_matrix
from sanitize.storage import table_schemas
from sanitize.storage.parquet_files import read_table

_EXAMPLE_DOMAIN = r"([A-Za-z0-9])[.]example\b"
_RESERVED_ATTEMPTS = 8  # attempts in reserved ranges, which are small
_EXTEND_AFTER = (
    16  # attempts with surrogates of the original length; later ones are extended by digits
)
_MAX_ATTEMPTS = 64
_IS_ALNUM = make_byte_table(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


class Pseudonymize(LinkingEditor):
    """Settings: `scope`, where a value has the same pseudonym: `corpus`, `document`, or `none`
    (each occurrence has its own); `reserved` draws numbers from ranges that are assigned to no one,
    until these are exhausted; `linked` draws one identity for each person."""

    VERSION: ClassVar[int] = 4
    required_aggregates: ClassVar[tuple[str, ...]] = (
        "value_ids",
        "known_forms",
        "increments",
        "distinct_values_of_kinds",
    )
    keep: Literal[0] = 0
    scope: Literal["corpus", "document", "none"] = "corpus"
    reserved: bool = False
    _key: Key = PrivateAttr()
    _known_values: _KnownValues = PrivateAttr()
    _values_by_kind: dict[str, _KindValues] = PrivateAttr(default_factory=dict)
    _identities: _Identities | None = PrivateAttr(default=None)

    @property
    def action(self) -> str:
        """A pseudonym for every occurrence, the same wherever `scope` says so."""
        scopes = {
            "document": "the same for a value within its document",
            "none": "a new one for every occurrence",
        }
        return (
            "every occurrence replaced by a pseudonym of the same shape,"
            f" {scopes.get(self.scope, 'the same wherever its value occurs')}"
        )

    @property
    def consistent_kinds(self) -> tuple[str, ...]:
        """All its kinds, with the scope `corpus`."""
        return self.kinds if self.scope == "corpus" else ()

    def validate_settings(self, schema: pa.Schema | None) -> None:
        super().validate_settings(schema)
        if self.linked and self.scope == "none":
            raise PlanError(
                "edit.use = 'pseudonymize': linked = true gives a person one identity, but scope"
                ' = "none" gives each occurrence its own; set scope = "document" or "corpus", or'
                " remove linked"
            )
        few = [name for name in self.kinds if get_kind(name).ambiguous_text]
        if few:
            raise PlanError(
                "edit.use = 'pseudonymize': too few possible values for unique pseudonyms:"
                f" {', '.join(few)}; use redact or rmft for them"
            )

    def open(self, key: Key, aggregates: Aggregates) -> None:
        """Load the values, and with scope `corpus` draw their pseudonyms; cached for later tasks of
        this process."""
        self._key = key
        paths = tuple(aggregates.tables[name] for name in self.required_aggregates)
        times = tuple(path.stat().st_mtime_ns for path in paths)
        self._known_values = _KnownValues.read(
            aggregates.tables["known_forms"], aggregates.tables["increments"]
        )
        self._values_by_kind = _load_values(
            paths, self.kinds, key, self.scope == "corpus", self.reserved, self.linked, *times
        )
        if self.linked:
            found = aggregates.tables["entity_values"]
            times = (*times, found.stat().st_mtime_ns)
            self._identities = _load_identities(
                paths, found, self.kinds, key, self.scope == "corpus", self.reserved, *times
            )

    def edit_occurrences(self, batch: EditBatch) -> OccurrenceEdits:
        """A pseudonym for every occurrence, and the table `labels`, which maps pseudonyms to
        value_ids."""
        frame = batch.occurrences
        words = siphash(
            batch.doc_ids.dictionary.cast(pa.large_binary()), self._key.subkey("doc_id")
        )
        document = (
            words[np.asarray(batch.doc_ids.indices)] if len(words) else np.empty(0, np.uint64)
        )
        texts = pa.nulls(frame.height, pa.large_string())
        linked_kinds = [
            name for name in self.kinds if self.linked and name in identities.LINKED_KINDS
        ]
        for names in (linked_kinds, *([name] for name in self.kinds if name not in linked_kinds)):
            rows = np.flatnonzero(frame["kind"].is_in(names).to_numpy())
            if len(rows):
                if names is linked_kinds:
                    pseudonyms = self._draw_linked(frame[rows], document[rows])
                else:
                    pseudonyms = self._draw_kind(get_kind(names[0]), frame[rows], document[rows])
                mask = np.zeros(frame.height, np.bool_)
                mask[rows] = True
                texts = pc.replace_with_mask(texts, pa.array(mask), pseudonyms)
        labels = pl.DataFrame(
            {"doc_no": frame["doc_no"], "label": pl.Series(texts), "value_id": frame["value_id"]}
        )
        labels = labels.unique(maintain_order=True)
        return OccurrenceEdits(
            np.arange(frame.height),
            texts,
            labels.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(table_schemas.LABELS.schema),
        )

    def _draw_linked(self, occurrences: pl.DataFrame, document_hash: U64) -> pa.LargeStringArray:
        """The pseudonym of every name and address, with one identity for each person."""
        assert self._identities is not None
        occurrences = occurrences.with_columns(
            seed=pl.Series(document_hash, dtype=pl.UInt64),
            scope="doc_no",
            is_replaced=pl.lit(True),
            row=np.arange(occurrences.height),
        )
        known = pl.concat(
            [
                self._values_by_kind[name].to_frame(name)
                for name in identities.LINKED_KINDS
                if name in self.kinds
            ]
        )
        occurrences = occurrences.join(
            known, on=["kind", "value_id"], how="left", maintain_order="left"
        )
        assert not occurrences["whole"].null_count()  # the vault has every value that was found
        on = ["scope", "seed", "kind", "value_id", "is_replaced"]
        spelled = occurrences.select(*on, "value")
        if self.scope == "corpus":
            return self._identities.spell_mentions(
                occurrences, self._find_short_names(occurrences), self.reserved
            )
        # also each value as the vault has it: an occurrence that the leak check found may be
        # written in a form that is no value of its kind
        both = pl.concat([spelled, occurrences.select(*on, value="whole")])
        groups = identities.PersonGroups(
            both, self._identities.entities, self._key, "pseudonym/document"
        )
        texts = groups.draw_texts(
            self._known_values.is_known, build_tail_drawer(groups, self.reserved)
        )
        spelled_texts, plain = (
            texts.take(pa.array(side)) for side in np.split(groups.mention_rows, 2)
        )
        return self._known_values.keep_equal_spellings(
            occurrences["kind"], spelled_texts, plain, self._key
        )

    def _find_short_names(self, occurrences: pl.DataFrame) -> pl.DataFrame:
        """The names of a single word that mean another person of their document: columns row,
        person."""
        assert self._identities is not None
        groups = identities.PersonGroups(
            occurrences.select("scope", "seed", "kind", "value_id", "value", "is_replaced"),
            self._identities.entities,
            self._key,
            "",
        )
        short = groups.find_short_names()
        return (
            pl.DataFrame({"row": np.arange(occurrences.height), "at": groups.mention_rows})
            .join(short, left_on="at", right_on="row")
            .select("row", "person")
        )

    def _draw_kind(self, kind: Kind, occurrences: pl.DataFrame, document_hash: U64) -> pa.Array:
        """The pseudonym of every occurrence of one kind."""
        known = self._values_by_kind[kind.name]
        ids = occurrences["value_id"].to_numpy().astype(np.int64)
        value_index = np.minimum(np.searchsorted(known.ids, ids), max(len(known.ids) - 1, 0))
        # the vault has every value that was found
        assert len(known.ids) and (known.ids[value_index] == ids).all()
        if self.scope == "none":
            cell, start = (
                occurrences[name].to_numpy().astype(np.uint64) for name in ("cell", "start")
            )
            draws = Draws.from_words(
                self._key.subkey(f"pseudonym/none/{kind.name}"), document_hash, cell, start
            )
            vault_values = pl.Series("value", known.values.take(pa.array(value_index)))
            # an occurrence that the leak check found may be written in a form that is no value of
            # its kind
            values = pl.select(
                pl.when(occurrences["swept"]).then(vault_values).otherwise(occurrences["value"])
            ).to_series()
            return self._known_values.draw_distinct(
                kind, values, document_hash, draws, self._key, self.reserved
            )[0]
        spelled = pl.DataFrame(
            {
                "value": occurrences["value"],
                "at": value_index,
                "document": document_hash,
                "swept": occurrences["swept"],
            }
        )
        on = ["at"] if self.scope == "corpus" else ["at", "document"]
        # distinct spellings and distinct values, both sorted, so that the order of occurrences does
        # not matter
        spellings = spelled.select(*on, "value", "swept").unique().sort(*on, "value", "swept")
        each = spellings.select(on).unique().sort("at", *on[1:])
        if self.scope == "corpus":
            place = each["at"].to_numpy()
            plain, attempt = known.pseudonyms.take(pa.array(place)), known.attempts[place]
            draws = _corpus_draws(self._key, kind, known.ids[place])
        else:
            place, group = each["at"].to_numpy(), each["document"].to_numpy()
            draws = Draws.from_words(
                self._key.subkey(f"pseudonym/document/{kind.name}"),
                group,
                known.ids[place].astype(np.uint64),
            )
            plain, attempt = self._known_values.draw_distinct(
                kind,
                pl.Series(known.values.take(pa.array(place))),
                group,
                draws,
                self._key,
                self.reserved,
            )
        value_row = (
            spellings.join(each.with_row_index("no"), on=on, maintain_order="left")["no"]
            .to_numpy()
            .astype(np.intp)
        )
        plain = plain.take(pa.array(value_row))
        texts = _spell_pseudonyms(
            kind, spellings, plain, attempt[value_row], draws.take(value_row), self.reserved
        )
        # a spelling may equal a value in its letters, while the plain pseudonym does not
        increment = known.increments[spellings["at"].to_numpy()] if self.scope == "corpus" else -1
        is_known = self._known_values.is_known(
            kind, hash_surrogate_forms(kind, texts, self._key), increment
        )
        texts = pc.if_else(pa.array(is_known), plain, texts)
        rows = spelled.join(
            spellings.with_row_index("no"), on=[*on, "value", "swept"], maintain_order="left"
        )["no"]
        return texts.take(rows.to_arrow())


@dataclass(frozen=True, repr=False)
class _KindValues:
    """The values of one kind, by ascending id: the text that surrogates are drawn from and, with
    scope `corpus`, the pseudonym of each value, the attempt that gave it, and the number of the
    increment in which the value first occurs."""

    ids: I64
    values: pa.LargeStringArray
    pseudonyms: pa.LargeStringArray
    attempts: I64
    increments: I64

    def to_frame(self, kind: str) -> pl.DataFrame:
        """The values as a table: kind, value_id, and `whole`, the text of each."""
        return pl.DataFrame({"value_id": self.ids, "whole": pl.Series(self.values)}).with_columns(
            kind=pl.lit(kind)
        )


@dataclass(frozen=True, repr=False)
class _KnownValues:
    """The forms of all values of the corpus, and the first document of each increment of the
    output."""

    forms: FirstForms
    increment_starts: I64

    @classmethod
    def read(cls, known_forms: Path, increments: Path) -> _KnownValues:
        """The aggregates of these names."""
        starts = np.asarray(read_table(increments).column("first_doc_no"), np.int64)
        return cls(FirstForms.read(known_forms), starts)

    def is_known(self, kind: Kind, forms: I64, increment: int | I64 = -1) -> Mask:
        """True for surrogates of a kind, given by their forms, that equal a value of an increment,
        for all or for each, or an earlier one; -1: the last."""
        ends = np.append(self.increment_starts[1:], np.iinfo(np.int64).max)
        last_doc_no = np.broadcast_to(ends[increment] - 1, len(forms))
        return self.forms.is_known(list_conflicting_forms(kind, forms), last_doc_no)

    def find_increments(self, first_doc_no: I64) -> I64:
        """The number of the increment of each document."""
        return np.searchsorted(self.increment_starts, first_doc_no, "right") - 1

    def draw_distinct(
        self,
        kind: Kind,
        values: pl.Series,
        group_hash: U64,
        draws: Draws,
        key: Key,
        reserved: bool,
        increments: I64 | None = None,
    ) -> tuple[pa.LargeStringArray, I64]:
        """A surrogate for each row, and the attempt that gave it. None equals a known value, and
        none occurs twice in a group: of two rows that draw the same one, the first keeps it. Raises
        ResourceError after `_MAX_ATTEMPTS`.

        With `increments`, those in which the values first occur, the rows are drawn increment by
        increment: those of a later one change nothing in the surrogates of an earlier one."""
        last = len(self.increment_starts) - 1
        increment_of = np.full(len(values), last) if increments is None else increments
        texts, rows, used = (
            [pa.array([], pa.large_string())],
            [np.empty(0, np.int64)],
            np.empty(0, np.uint64),
        )
        attempts = np.zeros(len(values), np.int64)
        for increment in np.unique(increment_of).tolist():
            pending = np.flatnonzero(increment_of == increment)
            for attempt in range(_MAX_ATTEMPTS):
                drawn = _draw_surrogates(
                    kind, values.gather(pending), draws.take(pending), attempt, reserved
                )
                forms = hash_surrogate_forms(kind, drawn, key)
                pairs = forms[:, NORMALISED].astype(np.uint64) ^ (
                    group_hash[pending] * np.uint64(0x9E3779B97F4A7C15)
                )
                good = np.flatnonzero(
                    ~self.is_known(kind, forms, increment) & ~np.isin(pairs, used)
                )
                new_pairs, first = np.unique(pairs[good], return_index=True)
                accepted = good[np.sort(first)]
                texts.append(drawn.take(pa.array(accepted)))
                rows.append(pending[accepted])
                attempts[pending[accepted]] = attempt
                used = np.union1d(used, new_pairs)
                pending = np.delete(pending, accepted)
                if not len(pending):
                    break
            else:
                raise ResourceError(
                    f"{kind.name}: no unused pseudonym was found for {len(pending)} values; set"
                    " reserved = false, or use redact"
                )
        return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(rows)))), attempts

    def keep_equal_spellings(
        self,
        kinds: pl.Series,
        spelled: pa.LargeStringArray,
        pseudonyms: pa.LargeStringArray,
        key: Key,
    ) -> pa.LargeStringArray:
        """The spelled pseudonyms of names and addresses, or the plain ones where the spelling would
        make another value."""
        out, spelled_texts = (
            pl.Series(pseudonyms, dtype=pl.String),
            pl.Series(spelled, dtype=pl.String),
        )
        for name in identities.LINKED_KINDS:
            kind, rows = get_kind(name), (kinds == name).arg_true()
            own = spelled_texts.gather(rows)
            is_known = pl.Series(
                self.is_known(kind, hash_surrogate_forms(kind, to_large_string(own), key))
            )
            same = rows.filter(
                (kind.normalise(own) == kind.normalise(out.gather(rows))) & ~is_known
            )
            out = out.scatter(same, spelled_texts.gather(same))
        return to_large_string(out)


@dataclass(frozen=True, repr=False)
class _Identities:
    """The persons behind the values, and with scope `corpus` their identities.

    `entities` maps values to the persons of the index; `all_entities` does so for every value, also
    those without an entity. `attempts` has the attempt that gave each person of `person_ids`
    (ascending) its identity, `pseudonyms` the pseudonym of each value (kind, value_id, plain), and
    `pseudonym_keys` the hashes of the normalised forms of names among these.
    """

    key: Key
    known_values: _KnownValues
    entities: identities.Entities
    all_entities: identities.Entities
    person_ids: I64
    attempts: I64
    pseudonyms: pl.DataFrame
    pseudonym_keys: I64

    def spell_mentions(
        self, occurrences: pl.DataFrame, short_names: pl.DataFrame, reserved: bool
    ) -> pa.LargeStringArray:
        """The pseudonym of each mention with scope `corpus`, in its own spelling; `short_names` are
        mentions of another person by a single word."""
        person = self.all_entities.find_persons(occurrences["value_id"].to_numpy())[0].copy()
        person[short_names["row"].to_numpy()] = short_names["person"].to_numpy()
        corpus_scope = pl.DataFrame({"scope": 0, "seed": pl.Series([0], dtype=pl.UInt64)})
        mentions = occurrences.select("kind", "value_id", "value", "is_replaced").join(
            corpus_scope, how="cross", maintain_order="left"
        )
        groups = identities.PersonGroups(
            mentions.with_columns(person=pl.Series(person)),
            self.all_entities,
            self.key,
            "pseudonym/corpus",
        )
        attempts = self.attempts[
            np.searchsorted(self.person_ids, groups.groups["person"].to_numpy())
        ]
        texts = groups.redraw_texts(attempts, build_tail_drawer(groups, reserved)).take(
            pa.array(groups.mention_rows)
        )
        own_pseudonyms = occurrences.join(
            self.pseudonyms, on=["kind", "value_id"], how="left", maintain_order="left"
        )["plain"]
        is_short_name = np.zeros(occurrences.height, np.bool_)
        is_short_name[short_names["row"].to_numpy()] = True
        # a single word of another person's new name is used if it is no known value and no
        # pseudonym, and only one value of its document gets it
        kind = get_kind(identities.PERSON)
        forms = hash_surrogate_forms(kind, texts, self.key)
        ids = forms[:, NORMALISED]
        free = (
            is_short_name
            & ~self.known_values.is_known(kind, forms)
            & ~np.isin(ids, self.pseudonym_keys)
        )
        drawn_ids = pl.DataFrame(
            {
                "scope": occurrences["scope"],
                "id": ids,
                "value_id": occurrences["value_id"],
                "free": free,
            }
        )
        once = (
            drawn_ids.select(
                (pl.col("value_id").filter("free").n_unique().over("scope", "id")) <= 1
            )
            .to_series()
            .to_numpy()
        )
        good = free & once
        # all others keep their own pseudonym: repeat without them
        if (is_short_name & ~good).any():
            short_names = short_names.filter(pl.Series(good[short_names["row"].to_numpy()]))
            return self.spell_mentions(occurrences, short_names, reserved)
        return self.known_values.keep_equal_spellings(
            occurrences["kind"],
            texts,
            to_large_string(
                pl.select(
                    pl.when(pl.Series(good)).then(pl.Series(texts)).otherwise(own_pseudonyms)
                ).to_series()
            ),
            self.key,
        )


def build_tail_drawer(groups: identities.PersonGroups, reserved: bool) -> identities.TailDrawer:
    """A function that draws the text from the @ on for the surrogates of addresses."""
    kind = get_kind(identities.EMAIL_ADDRESS)
    values, split = groups.rows["value"], kind.split_components
    assert split is not None

    def draw_tail(rows: I64, draws: Draws, anchor: I64) -> pa.LargeStringArray:
        return to_large_string(
            split(kind.make_surrogates(values.gather(rows), draws, reserved))
            .select(pl.concat_str("at", "domain", "dot", "tld"))
            .to_series()
        )

    return draw_tail


def _corpus_draws(key: Key, kind: Kind, ids: I64) -> Draws:
    """The draws for values with scope `corpus`."""
    return Draws.from_words(key.subkey(f"pseudonym/corpus/{kind.name}"), ids.astype(np.uint64))


@cached_for_run(2)
def _load_values(
    paths: tuple[Path, ...],
    kinds: tuple[str, ...],
    key: Key,
    corpus_scope: bool,
    reserved: bool,
    linked: bool,
    *_mtimes: int,
) -> dict[str, _KindValues]:
    """The values of each kind, and with `corpus_scope` their pseudonyms, except for the linked
    kinds if `linked`. `paths` are those of its required aggregates, in their order."""
    value_ids_path, known_forms_path, increments_path, distinct_values_path = paths
    known_values = _KnownValues.read(known_forms_path, increments_path)
    first_docs = pl.DataFrame(read_table(value_ids_path, columns=["value_id", "first_doc_no"]))
    table = read_table(distinct_values_path)
    values_by_kind = {}
    for name in kinds:
        kind = get_kind(name)
        kind_rows = table.filter(
            pc.equal(table.column("kind").cast(pa.string()), name)
        ).combine_chunks()
        kind_value_ids = np.asarray(kind_rows.column("value_id"), np.int64)
        # drawn from the normalised form if that is a valid value too: the pseudonym then does not
        # depend on the spelling in the corpus
        frame = pl.DataFrame(
            {
                "value": pl.Series(kind_rows.column("normalised")),
                "spelled": pl.Series(kind_rows.column("value")),
            }
        )
        values = to_large_string(
            frame.select(
                pl.when(_is_valid_value(kind, frame["value"])).then("value").otherwise("spelled")
            ).to_series()
        )
        no_numbers = np.empty(0, np.int64)
        undrawn = _KindValues(
            kind_value_ids, values, pa.array([], pa.large_string()), no_numbers, no_numbers
        )
        if (
            not corpus_scope
            or not len(kind_value_ids)
            or (linked and name in identities.LINKED_KINDS)
        ):
            values_by_kind[name] = undrawn
            continue
        draws, no_group = (
            _corpus_draws(key, kind, kind_value_ids),
            np.zeros(len(kind_value_ids), np.uint64),
        )
        first_doc_no = pl.DataFrame({"value_id": kind_value_ids}).join(
            first_docs, on="value_id", how="left", maintain_order="left"
        )
        increments = known_values.find_increments(first_doc_no["first_doc_no"].to_numpy())
        drawn = known_values.draw_distinct(
            kind, pl.Series(values), no_group, draws, key, reserved, increments
        )
        values_by_kind[name] = _KindValues(kind_value_ids, values, *drawn, increments)
    return values_by_kind


@cached_for_run(2)
def _load_identities(
    paths: tuple[Path, ...],
    entities_path: Path,
    kinds: tuple[str, ...],
    key: Key,
    corpus_scope: bool,
    reserved: bool,
    *mtimes: int,
) -> _Identities:
    """The persons behind the values, and with `corpus_scope` their identities."""
    known = _load_values(paths, kinds, key, corpus_scope, reserved, True, *mtimes[:-1])
    known_values = _KnownValues.read(*paths[1:3])
    entities, linked_kinds = (
        identities.load_entities(entities_path, mtimes[-1]),
        [name for name in identities.LINKED_KINDS if name in kinds],
    )
    no_ids = np.empty(0, np.int64)
    values = pl.concat([known[name].to_frame(name) for name in linked_kinds])
    if not corpus_scope:
        return _Identities(key, known_values, entities, entities, no_ids, no_ids, values, no_ids)
    person = entities.find_persons(values["value_id"].to_numpy())[0]
    all_entities = identities.Entities.from_table(
        values.select("value_id", "kind", value="whole", entity_id=pl.Series(person))
    )
    mentions = values.select(
        "kind",
        "value_id",
        value="whole",
        is_replaced=pl.lit(True),
        scope=pl.lit(0),
        seed=pl.lit(0, pl.UInt64),
    )
    groups = identities.PersonGroups(mentions, all_entities, key, "pseudonym/corpus")
    undrawn = _Identities(
        key,
        known_values,
        entities,
        all_entities,
        groups.groups["person"].to_numpy(),
        no_ids,
        values,
        no_ids,
    )
    plain = pl.Series(
        groups.draw_texts(
            known_values.is_known, build_tail_drawer(groups, reserved), avoid_real_words=True
        ).take(pa.array(groups.mention_rows)),
        dtype=pl.String,
    )
    pseudonyms = values.select("kind", "value_id", plain=plain)
    names = to_large_string(pseudonyms.filter(pl.col("kind") == identities.PERSON)["plain"])
    pseudonym_keys = hash_surrogate_forms(get_kind(identities.PERSON), names, key)[:, NORMALISED]
    return replace(
        undrawn, attempts=groups.attempts, pseudonyms=pseudonyms, pseudonym_keys=pseudonym_keys
    )


def _is_valid_value(kind: Kind, values: pl.Series) -> pl.Series:
    """True where a text is a value of the kind from end to end, in any context; kinds without a
    pattern accept any text with a letter or digit."""
    if kind.pattern:
        good = values.str.contains(rf"\A(?:{kind.pattern})\z") | ("<" + values + ">").str.contains(
            rf"\A(?:{kind.pattern})\z"
        )
    else:
        good = values.str.contains(r"[\p{L}\p{N}]")
    if kind.check is None or not good.any():
        return good
    rows = good.arg_true()
    return good.clone().scatter(rows, kind.check(values.gather(rows)).is_null())


def _draw_surrogates(
    kind: Kind, values: pl.Series, draws: Draws, attempt: int, reserved: bool
) -> pa.LargeStringArray:
    """The surrogate that an attempt draws for each value; late attempts extend it by digits where
    the result is a valid value."""
    draws = draws.with_attempt(attempt)
    surrogates = kind.make_surrogates(values, draws, reserved and attempt < _RESERVED_ATTEMPTS)
    if attempt < _EXTEND_AFTER:
        return to_large_string(surrogates)
    longer_by = pl.Series(
        "more", draw_extension(draws.u32_pair(1 << 20)[0], attempt - (_EXTEND_AFTER - 1))
    ).cast(pl.String)
    frame = pl.DataFrame({"fake": surrogates, "more": longer_by})
    halves = surrogates.str.extract_groups(
        r"\A(?<before>[^A-Za-z0-9]*[A-Za-z0-9]+)(?<after>[\s\S]*)\z"
    ).struct.unnest()
    inner = (
        halves.with_columns(longer_by)
        .select(pl.concat_str("before", "more", "after"))
        .to_series()
        .fill_null("")
    )
    outer = frame.select(
        # a host stays in its reserved domain
        pl.when(pl.col("fake").str.contains(_EXAMPLE_DOMAIN))
        .then(pl.col("fake").str.replace(_EXAMPLE_DOMAIN, "${1}" + pl.col("more") + ".example"))
        .otherwise(pl.concat_str("fake", "more"))
    ).to_series()
    for longer in (inner, outer):
        surrogates = pl.select(
            pl.when(_is_valid_value(kind, longer)).then(longer).otherwise(surrogates)
        ).to_series()
    return to_large_string(surrogates)


def _spell_pseudonyms(
    kind: Kind,
    spellings: pl.DataFrame,
    pseudonyms: pa.LargeStringArray,
    attempts: I64,
    draws: Draws,
    reserved: bool,
) -> pa.LargeStringArray:
    """The pseudonyms in the spelling of each value.

    This is the result of the same draws for that spelling, or the digits and letters of the
    pseudonym between the spelling's own separators, whichever normalises to the pseudonym. Where
    neither does, it is the plain pseudonym, such as for an occurrence that the leak check found in
    an unusual form.
    """
    texts = pl.Series("text", pseudonyms)
    wanted = kind.normalise(texts)
    is_open = np.ones(len(texts), np.bool_)
    for attempt in np.unique(attempts[is_open]).tolist():
        rows = np.flatnonzero(is_open & (attempts == attempt))
        candidates = pl.Series(
            _draw_surrogates(
                kind, spellings["value"].gather(rows), draws.take(rows), attempt, reserved
            )
        )
        same = (kind.normalise(candidates) == wanted.gather(rows)).to_numpy()
        texts = texts.scatter(rows[same], candidates.filter(pl.Series(same)))
        is_open[rows[same]] = False
    for only_digits in (True, False):
        rows = np.flatnonzero(is_open)
        if not len(rows):
            break
        candidates = _fit_characters(
            pl.Series(pseudonyms.take(pa.array(rows))), spellings["value"].gather(rows), only_digits
        )
        same = (
            (kind.normalise(candidates) == wanted.gather(rows)) & _is_valid_value(kind, candidates)
        ).to_numpy()
        texts = texts.scatter(rows[same], candidates.filter(pl.Series(same)))
        is_open[rows[same]] = False
    return to_large_string(texts)


def _fit_characters(pseudonyms: pl.Series, spellings: pl.Series, only_digits: bool) -> pl.Series:
    """`spellings` with their digits (or letters and digits) replaced by those of `pseudonyms`,
    aligned at the last; all else is kept."""
    source, out = to_byte_matrix(pseudonyms), to_byte_matrix(spellings)
    is_source, is_target = (
        digit_mask(rows) if only_digits else _IS_ALNUM[rows] for rows in (source, out)
    )
    shift = is_source.sum(axis=1) - is_target.sum(axis=1)
    row, column = np.nonzero(is_target)
    nth = np.cumsum(is_target, axis=1)[row, column] - 1 + shift[row]
    fits = (nth >= 0) & (shift[row] >= 0)
    # in each row, the positions of the characters to copy, in order
    order = np.argsort(~is_source, axis=1, kind="stable")
    out[row[fits], column[fits]] = source[row[fits], order[row[fits], nth[fits]]]
    return from_byte_matrix(out)
