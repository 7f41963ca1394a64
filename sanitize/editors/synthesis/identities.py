"""Groups the names and addresses of documents by person, and draws one invented identity for each:
implements `linked = true` of editors.

    mentions (names and addresses, each with its scope) -> persons -> words of each -> new words ->
    the text of each mention

A scope is a document, or the whole corpus. A person is an entity of the index (`entity_id`); a
value without one is a person of its own. Within one document, such a value is merged with the only
other person there that has its words (`Anna`, `A. Smith` and `asmith@` with `Anna Smith`); if
several persons have them, with none. Words are compared without accents
(sanitize/text/name_words.py).

An identity is a map of words that keeps equal words equal: each word of a person's names and
addresses has one new word in a scope, a given name for a given name (of the same gender where the
lists tell it) and a surname for a surname, of the same script, drawn by the PRF under (key, scope,
person, word). A mention is spelled with the new words in its own form: order, letter case, titles,
initials, `asmith` for `anna.smith`. All mentions of a person are redrawn together while one of them
equals a known value of any kind, or a mention of another person in the scope; of two such persons,
the one with the smaller number keeps its identity. The result does not depend on the order of work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sanitize.array_types import I64, U64, Mask
from sanitize.core.arrow_buffers import TextBuffers, splice, to_large_string
from sanitize.core.duplicate_groups import connected_components
from sanitize.core.engine import cached_for_run
from sanitize.core.keys import Draws, Key, draw_index, siphash
from sanitize.editors.synthesis.known_values import NORMALISED, hash_surrogate_forms
from sanitize.errors import ResourceError
from sanitize.kinds.kind import Kind, flatten_strings, get_kind, redraw_characters
from sanitize.kinds.person import draw_names, fold_accents, list_given_names, match_case, name_pools
from sanitize.storage.parquet_files import read_table
from sanitize.text.name_words import EMAIL_ADDRESS as EMAIL_ADDRESS
from sanitize.text.name_words import GIVEN_ROLE as GIVEN_ROLE
from sanitize.text.name_words import (
    MIDDLE_ROLE,
    NAME_COLUMNS,
    SINGLE_WORD_ROLE,
    list_address_spellings,
    rank_word_roles,
    split_into_words,
)
from sanitize.text.name_words import PERSON as PERSON
from sanitize.text.name_words import SURNAME_ROLE as SURNAME_ROLE

LINKED_KINDS = (PERSON, EMAIL_ADDRESS)
DOMAIN, TLD = 2, 3  # anchors of addresses
NO_ANCHOR = -1
_DOUBLE_WORDS_AFTER = (
    16  # attempts with single words of the lists; later, a new word is two of them joined
)
_ATTEMPTS_PER_ANCHOR = 8  # attempts with the same anchor
_NO_ANCHOR_AFTER = 32  # from this attempt on no anchor is kept
_MAX_ATTEMPTS = 64

IsKnown = Callable[[Kind, I64], Mask]
TailDrawer = Callable[[I64, Draws, I64], pa.LargeStringArray]


@dataclass(frozen=True, repr=False)
class Entities:
    """The persons of a corpus: the `entity_id` of each `value_id` (ascending), and the `words` and
    `names` (given name, words between, surname) of each person."""

    value_id: I64
    entity_id: I64
    words: pl.DataFrame
    names: pl.DataFrame

    @classmethod
    def from_table(cls, table: pl.DataFrame) -> Entities:
        """The entities in a table with the columns value_id, entity_id, kind and value."""
        table = table.sort("value_id")
        texts = table.select("kind", "value").with_row_index("text")
        words, names = split_into_words(texts)
        person = table.select(person="entity_id").with_row_index("text")
        return cls(
            table["value_id"].to_numpy(),
            table["entity_id"].to_numpy(),
            rank_word_roles(words.join(person, on="text"), "person"),
            names.join(person, on="text").select("person", *NAME_COLUMNS).unique(),
        )

    def find_persons(self, ids: I64) -> tuple[I64, Mask]:
        """The person of each value (its own id if it has no entity), and whether it has an
        entity."""
        if not len(self.value_id):
            return ids, np.zeros(len(ids), np.bool_)
        at = np.minimum(np.searchsorted(self.value_id, ids), len(self.value_id) - 1)
        known = self.value_id[at] == ids
        return np.where(known, self.entity_id[at], ids), known


@cached_for_run(2)
def load_entities(path: Path, _mtime: int) -> Entities:
    """The entities in the aggregate of an editor, a Parquet file; cached for later tasks of this
    process."""
    return Entities.from_table(
        pl.DataFrame(read_table(path)).with_columns(pl.col("kind").cast(pl.String))
    )


# -------------------------------------------------------------------------------------- persons


@dataclass(frozen=True, repr=False)
class _SpellingPlan:
    """How replaced mentions are spelled.

    tokens     The words of the mentions: token, row, group, start, end, old, letter, role, name,
               token_type (letter, form, local or word), new_role (the role that its new word is
               drawn for).
    pieces     The new words that each token is joined from, in order: token, entry, `short` (only
               its first letter), name.
    entries    The words to draw, each once: entry, group, word, role.
    """

    tokens: pl.DataFrame
    pieces: pl.DataFrame
    entries: pl.DataFrame


class PersonGroups:
    """The persons behind some mentions, and their surrogates.

    `mentions` has the columns scope (a number), seed (a hash that the draws of the scope depend
    on), kind, value_id, value, and `is_replaced`: True for a mention to replace, False for one that
    is kept. With a column `person`, persons are given and not resolved. With `merge`, values are
    merged with other persons of their scope.

    `rows` are the distinct mentions, `mention_rows` the row of each mention, `groups` the persons
    by scope.
    """

    def __init__(
        self,
        mentions: pl.DataFrame,
        entities: Entities,
        key: Key,
        purpose: str,
        *,
        merge: bool = True,
    ) -> None:
        self._key, self._purpose, self._entities = key, purpose, entities
        on = [
            "scope",
            "seed",
            "kind",
            "value_id",
            "value",
            *(["person"] if "person" in mentions.columns else []),
        ]
        rows = (
            mentions.group_by(on)
            .agg(pl.col("is_replaced").any(), is_kept=(~pl.col("is_replaced")).any())
            .sort(on)
        )
        texts = rows.select("kind", "value").unique(maintain_order=True).with_row_index("text")
        self.texts = texts
        self.tokens, names = split_into_words(texts)
        person, linked = entities.find_persons(rows["value_id"].to_numpy())
        if "person" in rows.columns:
            person, linked, merge = rows["person"].to_numpy(), np.ones(rows.height, np.bool_), False
        rows = rows.join(texts, on=["kind", "value"], maintain_order="left")
        rows = rows.with_columns(person=pl.Series(person, dtype=pl.Int64), linked=pl.Series(linked))
        rows = rows.with_columns(own=pl.col("person"))
        if merge:
            rows = _merge_same_name(rows, names)
            rows = _merge_by_words(
                rows, self._words_of(rows), self._address_forms_of(rows, names), self.tokens
            )
            rows = _merge_by_form(rows, self._address_forms_of(rows, names), self.tokens)
        groups = (
            rows.select("scope", "person", "seed")
            .unique()
            .sort("scope", "person")
            .with_row_index("group")
        )
        self.groups = groups
        self.rows = rows.join(
            groups.select("scope", "person", "group"), on=["scope", "person"], maintain_order="left"
        ).with_row_index("row")
        self.mention_rows = (
            mentions.select(on)
            .join(self.rows.select(*on, "row"), on=on, maintain_order="left")["row"]
            .to_numpy()
            .astype(np.int64)
        )
        self.words, self._address_forms = (
            self._words_of(self.rows),
            self._address_forms_of(self.rows, names),
        )

    def _words_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The words of each person: columns scope, person, word, code."""
        scope_words = rows.select("scope", "person", "text").join(self.tokens, on="text")
        entity_words = (
            rows.filter("linked")
            .select("scope", "person")
            .unique()
            .join(self._entities.words, on="person")
        )
        both = pl.concat(
            [
                rank_word_roles(scope_words, "scope", "person"),
                entity_words.select("scope", "person", "word", "code"),
            ]
        )
        return both.group_by("scope", "person", "word").agg(pl.col("code").min())

    def _address_forms_of(self, rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
        """The spellings of each person's names in addresses: columns scope, person, and those of
        `list_address_spellings`."""
        scope_names = (
            rows.select("scope", "person", "text")
            .join(names, on="text")
            .select("scope", "person", *NAME_COLUMNS)
        )
        entity_names = (
            rows.filter("linked")
            .select("scope", "person")
            .unique()
            .join(self._entities.names, on="person")
        )
        return list_address_spellings(
            pl.concat([scope_names, entity_names.select("scope", "person", *NAME_COLUMNS)]).unique()
        )

    # ---- drawing identities ----

    def _plan_spelling(self) -> _SpellingPlan:
        """How each replaced mention is spelled: the pieces that replace each of its tokens."""
        mention_words = (
            self.rows.filter("is_replaced")
            .select("row", "group", "scope", "person", "text", "kind")
            .join(self.tokens, on="text")
        )
        mention_words = mention_words.join(
            self.words, on=["scope", "person", "word"], how="left"
        ).with_columns(
            rank=(pl.col("code") // 4).fill_null(2),
            known_role=(pl.col("code") % 4).fill_null(SINGLE_WORD_ROLE),
        )
        mention_words = mention_words.join(
            self._address_forms.select("scope", "person", "piece_codes", "part", word="form"),
            on=["scope", "person", "word"],
            how="left",
        ).with_row_index("token")
        surname = self.words.filter(pl.col("code") % 4 == SURNAME_ROLE).sort(
            "scope", "person", "word"
        )
        surname = surname.unique(["scope", "person"], keep="first").select(
            "scope", "person", own_surname="word"
        )
        mention_words = mention_words.join(surname, on=["scope", "person"], how="left")
        given = pl.col("word").is_in(list_given_names().implode())
        address = ~pl.col("name") & ~pl.col("letter")
        alone = pl.col("role") == SINGLE_WORD_ROLE
        # a login (`asmith`) is a name of one word that is spelled like an address
        is_form = (
            (address | (pl.col("name") & alone))
            & pl.col("piece_codes").is_not_null()
            & (pl.col("rank") > 0)
            & ~(pl.col("part") & alone)
        )
        # the role follows from the word alone
        role_of_word = pl.when(given).then(GIVEN_ROLE).otherwise(SURNAME_ROLE)
        role = (
            pl.when(pl.col("known_role") == SINGLE_WORD_ROLE)
            .then(role_of_word)
            .otherwise("known_role")
        )
        letter_role = pl.when(alone).then(GIVEN_ROLE).otherwise("role")
        token_type = pl.coalesce(
            pl.when("letter").then(pl.lit("letter")),
            pl.when(is_form).then(pl.lit("form")),
            pl.when(address & (pl.col("rank") == 2)).then(pl.lit("local")),
            pl.lit("word"),
        )
        local = pl.format(
            "{}s{} {}w{}",
            pl.lit(GIVEN_ROLE),
            "word",
            pl.lit(SURNAME_ROLE),
            pl.coalesce("own_surname", "word"),
        )
        piece_codes = pl.coalesce(
            pl.when(pl.col("token_type") == "letter").then(pl.format("{}s{}", letter_role, "word")),
            pl.when(pl.col("token_type") == "form").then("piece_codes"),
            pl.when(pl.col("token_type") == "local").then(local),
            pl.format("{}w{}", role, "word"),
        )
        out = mention_words.with_columns(token_type=token_type).with_columns(
            piece_codes=piece_codes, new_role=role
        )
        tokens = out.select(
            "token",
            "row",
            "group",
            "start",
            "end",
            "old",
            "letter",
            "role",
            "name",
            "token_type",
            "new_role",
        ).sort("row", "start")
        pieces = out.select(
            "token",
            "group",
            "scope",
            "person",
            "name",
            piece_codes=pl.col("piece_codes").str.split(" "),
        ).explode("piece_codes")
        pieces = pieces.with_columns(
            role=pl.col("piece_codes").str.slice(0, 1).cast(pl.Int64),
            short=pl.col("piece_codes").str.slice(1, 1) == "s",
            word=pl.col("piece_codes").str.slice(2),
        )
        # an initial means the person's word with that letter and role
        initials = self.words.with_columns(
            letter_of=pl.col("word").str.slice(0, 1), role=pl.col("code") % 4, whole="word"
        )
        initials = initials.sort("scope", "person", "whole").unique(
            ["scope", "person", "letter_of", "role"], keep="first"
        )
        initials = initials.select("scope", "person", "role", "whole", word="letter_of")
        pieces = pieces.join(
            initials, on=["scope", "person", "role", "word"], how="left", maintain_order="left"
        )
        pieces = pieces.with_columns(
            word=pl.when("short").then(pl.coalesce("whole", "word")).otherwise("word")
        )
        # the role in the person's names takes precedence over the role that an address suggests
        known_roles = self.words.select(
            "scope", "person", "word", known_role=pl.col("code") % 4
        ).filter(pl.col("known_role") != SINGLE_WORD_ROLE)
        pieces = pieces.join(
            known_roles, on=["scope", "person", "word"], how="left", maintain_order="left"
        )
        pieces = pieces.with_columns(role=pl.coalesce("known_role", "role"))
        entries = (
            pieces.select("group", "word", "role")
            .unique()
            .sort("group", "word", "role")
            .with_row_index("entry")
        )
        pieces = pieces.join(entries, on=["group", "word", "role"], maintain_order="left")
        return _SpellingPlan(tokens, pieces.select("token", "entry", "short", "name"), entries)

    def draw_texts(
        self,
        is_known: IsKnown,
        draw_tail: TailDrawer,
        anchors: tuple[int, ...] = (),
        *,
        avoid_real_words: bool = False,
    ) -> pa.LargeStringArray:
        """The surrogate of each row of `rows` to replace (null for the others). Raises
        ResourceError after `_MAX_ATTEMPTS`.

        is_known   (kind, forms) -> True for surrogates of a kind that equal a known value (see
                   known_values.py).
        draw_tail  (rows, draws, anchors) -> the text from the @ on.
        anchors    One of these is kept for each person.
        avoid_real_words   No new word of a name is a real name by itself, in the first
                           `_NO_ANCHOR_AFTER` attempts.
        """
        plan = self._plan_spelling()
        replaced_rows = np.flatnonzero(self.rows["is_replaced"].to_numpy())
        choices = self._allowed_anchors(plan.tokens, anchors)
        names = plan.entries.join(
            plan.pieces.filter("name").select("entry").unique(),
            on="entry",
            how="semi",
            maintain_order="left",
        )
        texts = np.full(self.rows.height, None, object)
        attempts = np.zeros(self.groups.height, np.int64)
        pending = np.unique(self.rows["group"].to_numpy()[replaced_rows])
        taken = np.empty(0, np.uint64)
        ids = {name: self.rows["kind"].to_numpy() == name for name in LINKED_KINDS}
        scope, group_of = self.rows["scope"].to_numpy(), self.rows["group"].to_numpy()
        owner = self._canonical_value_ids()
        for attempt in range(_MAX_ATTEMPTS):
            if not len(pending):
                break
            is_pending = np.zeros(self.groups.height, np.bool_)
            is_pending[pending] = True
            rows = replaced_rows[is_pending[group_of[replaced_rows]]]
            drawn = self.spell(
                plan, rows, attempt, self._choose_anchors(choices, attempt), draw_tail
            )
            form, good = np.empty(len(rows), np.int64), np.ones(len(rows), np.bool_)
            for name in LINKED_KINDS:
                kind_rows = np.flatnonzero(ids[name][rows])
                if not len(kind_rows):
                    continue
                forms = hash_surrogate_forms(
                    get_kind(name), drawn.take(pa.array(kind_rows)), self._key
                )
                form[kind_rows] = forms[:, NORMALISED]
                good[kind_rows] = ~is_known(get_kind(name), forms)
            pair = form.astype(np.uint64) ^ (
                scope[rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            )
            good &= ~np.isin(pair, taken)
            group_good = _all_in_group(good, group_of[rows], self.groups.height)
            if avoid_real_words and attempt < _NO_ANCHOR_AFTER:
                some_words = names.filter(pl.Series(is_pending[names["group"].to_numpy()]))
                new = pa.array(
                    self._draw_words(some_words, attempt, self._choose_anchors(choices, attempt)),
                    pa.large_string(),
                )
                is_real_name = is_known(
                    get_kind(PERSON), hash_surrogate_forms(get_kind(PERSON), new, self._key)
                )
                group_good &= _all_in_group(
                    ~is_real_name, some_words["group"].to_numpy(), self.groups.height
                )
            good_rows = np.flatnonzero(group_good[group_of[rows]])
            # of two persons with the same text in a scope, the first keeps it; two values of one
            # person must have two texts, unless they differ in accents only
            _, first, inverse = np.unique(pair[good_rows], return_index=True, return_inverse=True)
            is_own = owner[rows[good_rows]] == owner[rows[good_rows[first[inverse]]]]
            is_unique = np.ones(len(rows), np.bool_)
            is_unique[good_rows] = is_own
            is_done = group_good & _all_in_group(is_unique, group_of[rows], self.groups.height)
            accepted = np.flatnonzero(is_done[group_of[rows]])
            texts[rows[accepted]] = drawn.take(pa.array(accepted)).to_numpy(zero_copy_only=False)
            taken = np.union1d(taken, pair[accepted])
            pending = pending[~is_done[pending]]
            attempts[pending] = attempt + 1
        else:
            if len(pending):
                raise ResourceError(
                    f"linked: no unused identity was found for {len(pending)} persons; set linked ="
                    " false, or use redact"
                )
        self.attempts = attempts
        return pa.array(texts, pa.large_string())

    def _canonical_value_ids(self) -> I64:
        """The value_id of each row; for values of one person that differ in accents only, the
        smallest of them."""
        normal = [
            get_kind(name).normalise(self.texts.filter(pl.col("kind") == name)["value"])
            for name in LINKED_KINDS
        ]
        texts = pl.concat(
            [
                self.texts.filter(pl.col("kind") == name).select("text", "kind")
                for name in LINKED_KINDS
            ]
        )
        plain_texts = self.rows.join(
            texts.with_columns(plain=fold_accents(pl.concat(normal))),
            on=["text", "kind"],
            how="left",
            maintain_order="left",
        )
        return (
            plain_texts.select(pl.col("value_id").min().over("group", "kind", "plain"))
            .to_series()
            .to_numpy()
        )

    def find_short_names(self) -> pl.DataFrame:
        """The names of one word, with or without initials, that mean another person of their scope:
        columns row, person. `Jean-Paul` is one word."""
        other = self.rows.filter(pl.col("kind") == PERSON, pl.col("person") != pl.col("own"))
        words = other.join(self.tokens.filter(~pl.col("letter")), on="text").group_by(
            "row", "person"
        )
        found = words.agg(one=(pl.len() == 1) | (pl.col("role") == SINGLE_WORD_ROLE).all())
        return found.filter("one").select("row", "person")

    def redraw_texts(self, attempts: I64, draw_tail: TailDrawer) -> pa.LargeStringArray:
        """The text of every row, drawn with the given attempt of its group; without checks and
        anchors."""
        plan = self._plan_spelling()
        group, none = self.rows["group"].to_numpy(), np.full(self.groups.height, NO_ANCHOR)
        texts = np.full(self.rows.height, None, object)
        for attempt in np.unique(attempts).tolist():
            rows = np.flatnonzero(attempts[group] == attempt)
            texts[rows] = self.spell(plan, rows, attempt, none, draw_tail).to_numpy(
                zero_copy_only=False
            )
        return pa.array(texts, pa.large_string())

    def spell(
        self, plan: _SpellingPlan, rows: I64, attempt: int, anchors: I64, draw_tail: TailDrawer
    ) -> pa.LargeStringArray:
        """The texts of some rows, spelled with the words that one attempt draws for their
        groups."""
        group = self.rows["group"].to_numpy()
        is_needed = np.zeros(self.groups.height, np.bool_)
        is_needed[group[rows]] = True
        entries = plan.entries.filter(pl.Series(is_needed[plan.entries["group"].to_numpy()]))
        new = entries.select(
            "entry", new=pl.Series(self._draw_words(entries, attempt, anchors), dtype=pl.String)
        )
        place = np.full(self.rows.height, -1, np.int64)
        place[rows] = np.arange(len(rows))
        tokens = plan.tokens.filter(pl.Series(place[plan.tokens["row"].to_numpy()] >= 0))
        tokens = tokens.with_columns(place=pl.Series(place[tokens["row"].to_numpy()])).sort(
            "place", "start"
        )
        piece = pl.when("short").then(pl.col("new").str.slice(0, 1)).otherwise("new")
        shown = (
            plan.pieces.join(new, on="entry", maintain_order="left")
            .group_by("token", maintain_order=True)
            .agg(text=piece.str.join(""))
        )
        shown_text = tokens.join(shown, on="token", how="left", maintain_order="left")["text"]
        token_anchor = anchors[tokens["group"].to_numpy()]
        kept = np.isin(token_anchor, (GIVEN_ROLE, SURNAME_ROLE))
        # an address whose local part is one word keeps all of it, or nothing
        whole = kept & (tokens["token_type"] == "local").to_numpy()
        is_unchanged = whole | (
            (tokens["token_type"] == "word").to_numpy()
            & kept
            & (tokens["new_role"].to_numpy() == token_anchor)
        )
        values = self.rows["value"].gather(rows)
        is_address = (self.rows["kind"].gather(rows) == EMAIL_ADDRESS).to_numpy()
        heads = _names_or_local_parts(values, is_address)
        buffers = TextBuffers.from_array(to_large_string(heads))
        base = buffers.offsets[tokens["place"].to_numpy()]
        start, end = base + tokens["start"].to_numpy(), base + tokens["end"].to_numpy()
        spelled = pl.select(
            pl.when(pl.Series(is_unchanged))
            .then(tokens["old"])
            .otherwise(match_case(shown_text, tokens["old"]))
        ).to_series()
        spelled_heads = pl.Series(
            splice(buffers, start, end, to_large_string(spelled)), dtype=pl.String
        )
        where = np.flatnonzero(is_address)
        if not len(where):
            return to_large_string(spelled_heads)
        draws = self._draws_for(
            "value",
            group[rows[where]],
            self.rows["value_id"].to_numpy()[rows[where]].astype(np.uint64),
        )
        draws = draws.with_attempt(attempt)
        numbers = np.zeros(len(rows), np.bool_)
        numbers[tokens["place"].to_numpy()[whole]] = True
        local = _redraw_digits(spelled_heads.gather(where), draws, numbers[where])
        ends = pl.Series(
            draw_tail(rows[where], draws, anchors[group[rows[where]]]), dtype=pl.String
        )
        return to_large_string(
            spelled_heads.scatter(where, pl.select(pl.lit(local) + pl.lit(ends)).to_series())
        )

    def _draw_words(
        self, entries: pl.DataFrame, attempt: int, anchors: I64
    ) -> npt.NDArray[np.object_]:
        """The new word of each entry, in lower case; its own word where that is the anchor."""
        firsts, lasts = name_pools()
        group, role = entries["group"].to_numpy(), entries["role"].to_numpy()
        word = siphash(
            to_large_string(entries["word"]).cast(pa.large_binary()),
            self._key.subkey("person/word"),
        ) + role.astype(np.uint64)
        draws = self._draws_for("word", group, word).with_attempt(attempt)
        high, low = draws.u32_pair(0)
        second_high, second_low = draws.u32_pair(1)
        found = draw_names(
            entries["word"], role == SURNAME_ROLE, np.where(role == SURNAME_ROLE, high, low)
        )
        if attempt >= _DOUBLE_WORDS_AFTER:
            found = found + np.where(
                role == SURNAME_ROLE,
                firsts[draw_index(second_high, len(firsts))],
                lasts[draw_index(second_low, len(lasts))],
            )
        kept = (role == anchors[group]) & (role <= SURNAME_ROLE)
        return np.where(kept, entries["word"].to_numpy().astype(object), found)

    def _draws_for(self, item: str, group: I64, word: U64) -> Draws:
        seed = self.groups["seed"].to_numpy()[group]
        person = self.groups["person"].to_numpy()[group].astype(np.uint64)
        return Draws.from_words(
            self._key.subkey(f"draw/{self._purpose}/{item}"), seed, person, word
        )

    # ---- anchors ----

    def _allowed_anchors(self, tokens: pl.DataFrame, anchors: tuple[int, ...]) -> Mask:
        """The anchors that each group may have, shape [groups, 4]: those of `anchors` that leave no
        name unchanged; if kept mentions show some of these, only these."""
        count = self.groups.height
        allowed, shown = (np.zeros((count, 4), np.bool_) for _ in range(2))
        if not anchors:
            return allowed
        several = tokens.filter(~pl.col("letter"), pl.col("role").is_in([GIVEN_ROLE, SURNAME_ROLE]))
        allowed[several["group"].to_numpy(), several["role"].to_numpy()] = True
        formed = tokens.filter(pl.col("token_type").is_in(["form", "local"]))["group"].to_numpy()
        allowed[formed, GIVEN_ROLE] = allowed[formed, SURNAME_ROLE] = True
        # a name of one word would be left unchanged
        alone = tokens.filter("name", pl.col("role") == SINGLE_WORD_ROLE)
        allowed[
            alone["group"].to_numpy(), np.minimum(alone["new_role"].to_numpy(), MIDDLE_ROLE)
        ] = False
        addresses = self.rows.filter("is_replaced", pl.col("kind") == EMAIL_ADDRESS)[
            "group"
        ].to_numpy()
        for each in (DOMAIN, TLD):
            allowed[addresses, each] = True
        allowed[:, [each for each in range(4) if each not in anchors]] = False
        kept = (
            self.rows.filter("is_kept")
            .select("scope", "person", "group", "kind", "text")
            .join(self.tokens, on="text")
        )
        kept = kept.join(self.words, on=["scope", "person", "word"], how="left").with_columns(
            known_role=(pl.col("code") % 4).fill_null(SINGLE_WORD_ROLE)
        )
        known = kept.filter(pl.col("known_role").is_in([GIVEN_ROLE, SURNAME_ROLE]))
        shown[known["group"].to_numpy(), known["known_role"].to_numpy()] = True
        for each in (DOMAIN, TLD):
            shown[kept.filter(pl.col("kind") == EMAIL_ADDRESS)["group"].to_numpy(), each] = True
        both = allowed & shown
        return np.where(np.asarray(both.any(axis=1))[:, None], both, allowed)

    def _choose_anchors(self, allowed: Mask, attempt: int) -> I64:
        """The anchor of each group in an attempt; `NO_ANCHOR` where it has none."""
        count = allowed.sum(axis=1)
        all_groups = np.arange(len(allowed))
        bits = (
            self._draws_for("anchor", all_groups, np.zeros(len(all_groups), np.uint64))
            .with_attempt(attempt // _ATTEMPTS_PER_ANCHOR)
            .u32_pair(0)[0]
        )
        nth = draw_index(bits, np.maximum(count, 1).astype(np.uint64))
        chosen = np.argmax(allowed & (np.cumsum(allowed, axis=1) == (nth + 1)[:, None]), axis=1)
        return np.where((count > 0) & (attempt < _NO_ANCHOR_AFTER), chosen, NO_ANCHOR).astype(
            np.int64
        )


def _names_or_local_parts(values: pl.Series, is_address: Mask) -> pl.Series:
    """Names unchanged, and the local parts of addresses."""
    where = np.flatnonzero(is_address)
    split = get_kind(EMAIL_ADDRESS).split_components
    assert split is not None
    local = (
        split(values.gather(where))
        .select(pl.concat_str("lead", "first", "sep", "last"))
        .to_series()
    )
    return values.clone().scatter(where, local)


def _redraw_digits(local: pl.Series, draws: Draws, keep: Mask) -> pl.Series:
    """Local parts with redrawn digits, except rows where `keep` is true."""
    flat, offsets = flatten_strings(local)
    digit = (flat >= 48) & (flat <= 57)
    row = np.repeat(np.arange(len(local)), np.diff(offsets))
    return redraw_characters(local, draws, keep=~digit | keep[row], first_lane=8)


def _all_in_group(good: Mask, group: I64, count: int) -> Mask:
    """True for groups whose rows are all good."""
    bad = np.bincount(group[~good], minlength=count)
    return np.asarray(bad == 0)


# ------------------------------------------------------------------- merging persons of a scope


def _merge_same_name(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The rows with persons of a scope merged if they have the same given name and surname, even if
    they are two entities of the index with different addresses. Words between the two names may be
    missing, but must not begin with different letters."""
    full_names = (
        rows.filter(pl.col("kind") == PERSON)
        .select("scope", "person", "linked", "text")
        .join(names, on="text")
    )
    alike = pl.struct("scope", "given", "surname")
    letters = (
        pl.col("between").str.slice(0, 1).filter(pl.col("between") != "").n_unique().over(alike)
    )
    full_names = full_names.filter(
        pl.col("given").str.len_chars() > 1,
        letters < 2,
        pl.col("person").n_unique().over(alike) > 1,
    )
    if not full_names.height:
        return rows
    # persons of the index first, so that their number is kept
    people = (
        full_names.group_by("scope", "person")
        .agg(pl.col("linked").any())
        .sort("scope", pl.col("linked").not_(), "person")
        .with_row_index("no")
    )
    full_names = full_names.join(
        people.select("scope", "person", "no"), on=["scope", "person"]
    ).with_columns(first=pl.col("no").min().over(alike))
    merged, remaining = connected_components(
        *(full_names[name].to_numpy().astype(np.int64) for name in ("first", "no"))
    )
    to = people.select("scope", "person")[merged].with_columns(
        other=people["person"].gather(remaining), known=people["linked"].gather(remaining)
    )
    found = rows.join(to, on=["scope", "person"], how="left", maintain_order="left")
    return found.with_columns(
        person=pl.coalesce("other", "person"), linked=pl.coalesce("known", "linked")
    ).drop("other", "known")


def _merge_by_words(
    rows: pl.DataFrame, words: pl.DataFrame, forms: pl.DataFrame, tokens: pl.DataFrame
) -> pl.DataFrame:
    """The rows with each value without an entity merged into the only person of its scope that has
    all its words, initials included.

    Words between given name and surname do not count. Words of addresses may be a part of a name
    (`jp.martin@`).
    """
    linked = (
        rows.filter("linked").select("scope", "person").unique().with_columns(linked=pl.lit(True))
    )
    person_words = words.filter(pl.col("code") % 4 != MIDDLE_ROLE)
    person_words = person_words.join(linked, on=["scope", "person"], how="left").with_columns(
        pl.col("linked").fill_null(False)
    )
    person_words = person_words.with_columns(size=pl.len().over("scope", "person"))
    unlinked_words = person_words.filter(~pl.col("linked"))
    sizes = person_words.select("scope", "person", "linked", "size").unique()
    parts = (
        forms.filter("part")
        .select("scope", "person", word="form")
        .join(sizes, on=["scope", "person"])
    )
    parts = unlinked_words.filter(pl.col("code") // 4 == 1).join(
        parts, on=["scope", "word"], suffix="_other"
    )
    pairs = unlinked_words.join(person_words, on=["scope", "word"], suffix="_other")
    columns = ["scope", "person", "person_other", "word", "size", "size_other", "linked_other"]
    pairs = pl.concat(
        [
            some.select(columns).with_columns(part=pl.lit(part))
            for some, part in ((pairs, False), (parts, True))
        ]
    )
    pairs = pairs.filter(pl.col("person") != pl.col("person_other"))
    pairs = pairs.group_by("scope", "person", "person_other").agg(
        pl.col("word").n_unique().alias("len"),
        pl.col("size", "size_other", "linked_other").first(),
        pl.col("part").any(),
    )
    pairs = pairs.filter(
        pl.col("len") == pl.col("size"),
        (pl.col("size_other") > pl.col("size"))
        | pl.col("linked_other")
        | pl.col("part")
        | (pl.col("person_other") < pl.col("person")),
    )
    if not pairs.height:
        return rows
    # `B. Smith` is not `Anna Smith`
    letters = (
        rows.filter(~pl.col("linked"))
        .select("scope", "person", "text")
        .join(
            tokens.filter("letter", pl.col("role").is_in([GIVEN_ROLE, SURNAME_ROLE])).select(
                "text", initial="word"
            ),
            on="text",
        )
    )
    person_letters = pl.concat(
        [
            person_words.select(
                "scope", person_other="person", initial=pl.col("word").str.slice(0, 1)
            ),
            # `K. Allen` may be `Phillip K. Allen`
            rows.join(tokens, on="text").select(
                "scope", person_other="person", initial=pl.col("word").str.slice(0, 1)
            ),
        ]
    )
    person_letters = person_letters.unique().with_columns(is_present=pl.lit(True))
    other = pairs.join(letters, on=["scope", "person"]).join(
        person_letters, on=["scope", "person_other", "initial"], how="left"
    )
    pairs = pairs.join(
        other.filter(pl.col("is_present").is_null()),
        on=["scope", "person", "person_other"],
        how="anti",
    )
    # merge only into persons that are not themselves merged into another
    inner = pairs.select("scope", person_other="person").unique()
    return _assign_persons(rows, pairs.join(inner, on=["scope", "person_other"], how="anti"))


def _merge_by_form(rows: pl.DataFrame, forms: pl.DataFrame, tokens: pl.DataFrame) -> pl.DataFrame:
    """The rows with each address or login of one word merged into the only person whose name can be
    written like that, such as `asmith`."""
    single = tokens.filter(pl.col("role") == SINGLE_WORD_ROLE, ~pl.col("letter")).select(
        "text", form="word"
    )
    unmerged = rows.filter(~pl.col("linked"), pl.col("person") == pl.col("own")).select(
        "scope", "person", "text"
    )
    person_forms = forms.filter(~pl.col("part")).select("scope", "form", person_other="person")
    pairs = unmerged.join(single, on="text").join(person_forms, on=["scope", "form"])
    return _assign_persons(rows, pairs.filter(pl.col("person") != pl.col("person_other")))


def _assign_persons(rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The rows with another person where the pairs have exactly one for them."""
    sure = pairs.group_by("scope", "person").agg(
        pl.col("person_other").n_unique().alias("times"), pl.col("person_other").min()
    )
    sure = sure.filter(pl.col("times") == 1).select("scope", "person", "person_other")
    found = rows.join(sure, on=["scope", "person"], how="left", maintain_order="left")
    return found.with_columns(
        person=pl.coalesce("person_other", "person"),
        linked=pl.col("linked") | pl.col("person_other").is_not_null(),
    ).drop("person_other")
