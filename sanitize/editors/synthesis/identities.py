"""Who is who in some documents, and one invented identity for each person: what `linked = true` of an editor is made of.

    mentions (names and addresses, each with its scope) -> persons -> words of each -> new words -> the text of each mention

A person is an entity of the index (`entity_id`); a value without one is a person of its own. Inside one document such a value joins the
one other person there whose words it says (`Anna`, `A. Smith` and `asmith@` join `Anna Smith`); where several could be meant it joins none.
Words are compared without accents (sanitize/text/name_words.py).

An identity is a map of words, and what was the same stays the same: each word of a person's names and addresses has one new word in
a scope, a given name for a given name and a surname for a surname, drawn by the PRF under (key, scope, person, word). A mention is
spelled with the new words in its own form: order, letter case, titles, initials, `asmith` for `anna.smith`. All mentions of a person are
drawn anew together as long as one of them would say a real value, or what another person's says in the scope; of two persons the smaller
has it. Nothing hangs on the order of work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from sanitize.core.arrow_buffers import I64, Buffers, arrow, splice
from sanitize.core.duplicate_groups import components
from sanitize.core.keys import U64, Draws, Key, pick, siphash, value_ids
from sanitize.errors import ResourceError
from sanitize.kinds.kind import joined, reshaped
from sanitize.kinds.kind import kind as kind_named
from sanitize.kinds.person import cased, plain, stores
from sanitize.text.name_words import ADDRESS as ADDRESS
from sanitize.text.name_words import ALONE, MIDDLE, NAME, forms_of, given_names, ranked, words_of
from sanitize.text.name_words import FIRST as FIRST
from sanitize.text.name_words import LAST as LAST
from sanitize.text.name_words import PERSON as PERSON

KINDS = (PERSON, ADDRESS)
DOMAIN, TLD = 2, 3  # anchors of addresses
NONE = -1
_DOUBLED = 16  # attempts with single words of the lists; then two of them make one
_ANCHORED = 8  # attempts with one anchor
_FREE = 32  # from here on no anchor is kept
_ATTEMPTS = 64

Real = Callable[[str, I64], npt.NDArray[np.bool_]]
Tail = Callable[[I64, Draws, I64], pa.LargeStringArray]


@dataclass(frozen=True, repr=False)
class Entities:
    """Whose each value is over the corpus (`value_id` ascending), and the `words` and `names` (given name, what stands between, surname) of
    each person."""

    value_id: I64
    entity_id: I64
    words: pl.DataFrame
    names: pl.DataFrame

    @classmethod
    def of(cls, table: pl.DataFrame) -> Entities:
        """From rows of value_id, entity_id, kind and value."""
        table = table.sort("value_id")
        texts = table.select("kind", "value").with_row_index("text")
        words, names = words_of(texts)
        person = table.select(person="entity_id").with_row_index("text")
        return cls(
            table["value_id"].to_numpy(),
            table["entity_id"].to_numpy(),
            ranked(words.join(person, on="text"), "person"),
            names.join(person, on="text").select("person", *NAME).unique(),
        )

    def of_values(self, ids: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
        """The person of each value, its own id where it has none; and whether it has one."""
        if not len(self.value_id):
            return ids, np.zeros(len(ids), np.bool_)
        at = np.minimum(np.searchsorted(self.value_id, ids), len(self.value_id) - 1)
        known = self.value_id[at] == ids
        return np.where(known, self.entity_id[at], ids), known


@functools.lru_cache(maxsize=2)
def entities(path: Path, _time: int) -> Entities:
    """The entities of a table that was counted for an editor; the next task of this process finds them loaded."""
    return Entities.of(pl.DataFrame(pq.read_table(path, partitioning=None)).with_columns(pl.col("kind").cast(pl.String)))


# ----------------------------------------------------------------------------------------------------------------------------- persons


@dataclass(frozen=True, repr=False)
class _Script:
    """How mentions are spelled: `tokens` (token, row, group, start, stop, old, letter, role, name, way, `said`: the role that a word is
    drawn for), the `pieces` of each in order (token, entry, short: its letter alone, name), and `entries` (entry, group, word, role), each
    drawn once."""

    tokens: pl.DataFrame
    pieces: pl.DataFrame
    entries: pl.DataFrame


class Cast:
    """The persons behind some mentions. `mentions` has scope (a number), seed (what the scope's draws hang on), kind, value_id, value,
    and `goes`, false for a mention that stays as it is; with a `person` for each, nobody is looked for. With `merge`, values join other
    persons of their scope."""

    def __init__(self, mentions: pl.DataFrame, known: Entities, key: Key, purpose: str, *, merge: bool = True) -> None:
        self._key, self._purpose, self._known = key, purpose, known
        on = ["scope", "seed", "kind", "value_id", "value", *(["person"] if "person" in mentions.columns else [])]
        rows = mentions.group_by(on).agg(pl.col("goes").any(), stays=(~pl.col("goes")).any()).sort(on)
        texts = rows.select("kind", "value").unique(maintain_order=True).with_row_index("text")
        self.texts = texts
        self.tokens, names = words_of(texts)
        person, linked = known.of_values(rows["value_id"].to_numpy())
        if "person" in rows.columns:
            person, linked, merge = rows["person"].to_numpy(), np.ones(rows.height, np.bool_), False
        rows = rows.join(texts, on=["kind", "value"], maintain_order="left")
        rows = rows.with_columns(person=pl.Series(person, dtype=pl.Int64), linked=pl.Series(linked))
        rows = rows.with_columns(own=pl.col("person"))
        if merge:
            rows = _of_one_name(rows, names)
            rows = _merged(rows, self._words_of(rows), self._forms_of(rows, names), self.tokens)
            rows = _merged_by_form(rows, self._forms_of(rows, names), self.tokens)
        groups = rows.select("scope", "person", "seed").unique().sort("scope", "person").with_row_index("group")
        self.groups = groups
        self.rows = rows.join(groups.select("scope", "person", "group"), on=["scope", "person"], maintain_order="left").with_row_index(
            "row"
        )
        self.of = mentions.select(on).join(self.rows.select(*on, "row"), on=on, maintain_order="left")["row"].to_numpy().astype(np.int64)
        self.words, self._forms = self._words_of(self.rows), self._forms_of(self.rows, names)

    def _words_of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The words of each person: scope, person, word, code."""
        here = rows.select("scope", "person", "text").join(self.tokens, on="text")
        mine = rows.filter("linked").select("scope", "person").unique().join(self._known.words, on="person")
        both = pl.concat([ranked(here, "scope", "person"), mine.select("scope", "person", "word", "code")])
        return both.group_by("scope", "person", "word").agg(pl.col("code").min())

    def _forms_of(self, rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
        """What may stand for each person's names in an address: scope, person, and what `forms_of` gives."""
        here = rows.select("scope", "person", "text").join(names, on="text").select("scope", "person", *NAME)
        mine = rows.filter("linked").select("scope", "person").unique().join(self._known.names, on="person")
        return forms_of(pl.concat([here, mine.select("scope", "person", *NAME)]).unique())

    # ---- what is drawn ----

    def _script(self) -> _Script:
        """How each mention that goes is spelled: the pieces that each of its tokens becomes."""
        here = self.rows.filter("goes").select("row", "group", "scope", "person", "text", "kind").join(self.tokens, on="text")
        here = here.join(self.words, on=["scope", "person", "word"], how="left").with_columns(
            rank=(pl.col("code") // 4).fill_null(2), told=(pl.col("code") % 4).fill_null(ALONE)
        )
        here = here.join(
            self._forms.select("scope", "person", "how", "part", word="form"), on=["scope", "person", "word"], how="left"
        ).with_row_index("token")
        surname = self.words.filter(pl.col("code") % 4 == LAST).sort("scope", "person", "word")
        surname = surname.unique(["scope", "person"], keep="first").select("scope", "person", theirs="word")
        here = here.join(surname, on=["scope", "person"], how="left")
        given = pl.col("word").is_in(given_names().implode())
        address = ~pl.col("name") & ~pl.col("letter")
        alone = pl.col("role") == ALONE
        formed = address & pl.col("how").is_not_null() & (pl.col("rank") > 0) & ~(pl.col("part") & alone)
        lone = pl.when(given).then(FIRST).otherwise(LAST)  # nothing but the word says what it is
        role = pl.when(pl.col("told") == ALONE).then(lone).otherwise("told")
        letter_role = pl.when(alone).then(FIRST).otherwise("role")
        way = pl.coalesce(
            pl.when("letter").then(pl.lit("letter")),
            pl.when(formed).then(pl.lit("form")),
            pl.when(address & (pl.col("rank") == 2)).then(pl.lit("local")),
            pl.lit("word"),
        )
        local = pl.format("{}s{} {}w{}", pl.lit(FIRST), "word", pl.lit(LAST), pl.coalesce("theirs", "word"))
        how = pl.coalesce(
            pl.when(pl.col("way") == "letter").then(pl.format("{}s{}", letter_role, "word")),
            pl.when(pl.col("way") == "form").then("how"),
            pl.when(pl.col("way") == "local").then(local),
            pl.format("{}w{}", role, "word"),
        )
        out = here.with_columns(way=way).with_columns(how=how, said=role)
        tokens = out.select("token", "row", "group", "start", "stop", "old", "letter", "role", "name", "way", "said").sort("row", "start")
        pieces = out.select("token", "group", "scope", "person", "name", how=pl.col("how").str.split(" ")).explode("how")
        pieces = pieces.with_columns(
            role=pl.col("how").str.slice(0, 1).cast(pl.Int64),
            short=pl.col("how").str.slice(1, 1) == "s",
            word=pl.col("how").str.slice(2),
        )
        # a letter is that of the person's word in its place
        initials = self.words.with_columns(letter_of=pl.col("word").str.slice(0, 1), role=pl.col("code") % 4, whole="word")
        initials = initials.sort("scope", "person", "whole").unique(["scope", "person", "letter_of", "role"], keep="first")
        initials = initials.select("scope", "person", "role", "whole", word="letter_of")
        pieces = pieces.join(initials, on=["scope", "person", "role", "word"], how="left", maintain_order="left")
        pieces = pieces.with_columns(word=pl.when("short").then(pl.coalesce("whole", "word")).otherwise("word"))
        # an address may have taken for a surname what a name says is a given one
        told = self.words.select("scope", "person", "word", told=pl.col("code") % 4).filter(pl.col("told") != ALONE)
        pieces = pieces.join(told, on=["scope", "person", "word"], how="left", maintain_order="left")
        pieces = pieces.with_columns(role=pl.coalesce("told", "role"))
        entries = pieces.select("group", "word", "role").unique().sort("group", "word", "role").with_row_index("entry")
        pieces = pieces.join(entries, on=["group", "word", "role"], maintain_order="left")
        return _Script(tokens, pieces.select("token", "entry", "short", "name"), entries)

    def drawn(self, real: Real, tail: Tail, anchors: tuple[int, ...] = (), *, apart: bool = False) -> pa.LargeStringArray:
        """The text of each row of `rows` that goes (null for the others). `real` says which ids of a kind are values of the corpus; `tail`
        gives what stands from the @ on, from rows of `rows`, draws and anchors; of `anchors` one is kept for each person. With `apart`
        no word of a name is a real name by itself, as long as such words are to be had."""
        script = self._script()
        going = np.flatnonzero(self.rows["goes"].to_numpy())
        choices = self._choices(script.tokens, anchors)
        names = script.entries.join(script.pieces.filter("name").select("entry").unique(), on="entry", how="semi", maintain_order="left")
        texts = np.full(self.rows.height, None, object)
        attempts = np.zeros(self.groups.height, np.int64)
        pending = np.unique(self.rows["group"].to_numpy()[going])
        taken = np.empty(0, np.uint64)
        ids = {name: self.rows["kind"].to_numpy() == name for name in KINDS}
        scope, group_of = self.rows["scope"].to_numpy(), self.rows["group"].to_numpy()
        owner = self._owners()
        for attempt in range(_ATTEMPTS):
            if not len(pending):
                break
            open_ = np.zeros(self.groups.height, np.bool_)
            open_[pending] = True
            rows = going[open_[group_of[going]]]
            made = self.said(script, rows, attempt, self._anchor(choices, attempt), tail)
            form, good = np.empty(len(rows), np.int64), np.ones(len(rows), np.bool_)
            for name in KINDS:
                mine = np.flatnonzero(ids[name][rows])
                if not len(mine):
                    continue
                normal = arrow(kind_named(name).normalise(pl.Series(made.take(pa.array(mine)), dtype=pl.String)))
                form[mine] = value_ids(normal, name, self._key)
                good[mine] = ~real(name, form[mine])
            pair = form.astype(np.uint64) ^ (scope[rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
            good &= ~np.isin(pair, taken)
            whole = _all_of(good, group_of[rows], self.groups.height)
            if apart and attempt < _FREE:
                some_words = names.filter(pl.Series(open_[names["group"].to_numpy()]))
                new = pl.Series(self._new(some_words, attempt, self._anchor(choices, attempt)), dtype=pl.String)
                said = real(PERSON, value_ids(arrow(kind_named(PERSON).normalise(new)), PERSON, self._key))
                whole &= _all_of(~said, some_words["group"].to_numpy(), self.groups.height)
            some = np.flatnonzero(whole[group_of[rows]])
            # of two persons that would say the same in a scope the first has it; two values of one person say two things, unless only
            # accents tell them apart
            _, first, which = np.unique(pair[some], return_index=True, return_inverse=True)
            alone = owner[rows[some]] == owner[rows[some[first[which]]]]
            fine = np.ones(len(rows), np.bool_)
            fine[some] = alone
            done = whole & _all_of(fine, group_of[rows], self.groups.height)
            accepted = np.flatnonzero(done[group_of[rows]])
            texts[rows[accepted]] = made.take(pa.array(accepted)).to_numpy(zero_copy_only=False)
            taken = np.union1d(taken, pair[accepted])
            pending = pending[~done[pending]]
            attempts[pending] = attempt + 1
        else:
            if len(pending):
                raise ResourceError(
                    f"linked: {len(pending)} identities, new in their document, could not be drawn; set linked = false, or use redact"
                )
        self.attempts = attempts
        return pa.array(texts, pa.large_string())

    def _owners(self) -> I64:
        """The value of each row; of values of one person that only accents tell apart the smallest."""
        normal = [kind_named(name).normalise(self.texts.filter(pl.col("kind") == name)["value"]) for name in KINDS]
        texts = pl.concat([self.texts.filter(pl.col("kind") == name).select("text", "kind") for name in KINDS])
        told = self.rows.join(texts.with_columns(plain=plain(pl.concat(normal))), on=["text", "kind"], how="left", maintain_order="left")
        return told.select(pl.col("value_id").min().over("group", "kind", "plain")).to_series().to_numpy()

    def short(self) -> pl.DataFrame:
        """The names of one word, with or without letters, that mean another person of their scope: columns row, person. `Jean-Paul` is
        one word."""
        other = self.rows.filter(pl.col("kind") == PERSON, pl.col("person") != pl.col("own"))
        words = other.join(self.tokens.filter(~pl.col("letter")), on="text").group_by("row", "person")
        found = words.agg(one=(pl.len() == 1) | (pl.col("role") == ALONE).all())
        return found.filter("one").select("row", "person")

    def again(self, attempts: I64, tail: Tail) -> pa.LargeStringArray:
        """The text of every row, by the attempt that is known of its group; nothing is asked."""
        script = self._script()
        group, none = self.rows["group"].to_numpy(), np.full(self.groups.height, NONE)
        texts = np.full(self.rows.height, None, object)
        for attempt in np.unique(attempts).tolist():
            rows = np.flatnonzero(attempts[group] == attempt)
            texts[rows] = self.said(script, rows, attempt, none, tail).to_numpy(zero_copy_only=False)
        return pa.array(texts, pa.large_string())

    def said(self, script: _Script, rows: I64, attempt: int, anchor: I64, tail: Tail) -> pa.LargeStringArray:
        """Some rows in the words that an attempt of their group draws."""
        group = self.rows["group"].to_numpy()
        mine = np.zeros(self.groups.height, np.bool_)
        mine[group[rows]] = True
        some = script.entries.filter(pl.Series(mine[script.entries["group"].to_numpy()]))
        new = some.select("entry", new=pl.Series(self._new(some, attempt, anchor), dtype=pl.String))
        place = np.full(self.rows.height, -1, np.int64)
        place[rows] = np.arange(len(rows))
        tokens = script.tokens.filter(pl.Series(place[script.tokens["row"].to_numpy()] >= 0))
        tokens = tokens.with_columns(place=pl.Series(place[tokens["row"].to_numpy()])).sort("place", "start")
        piece = pl.when("short").then(pl.col("new").str.slice(0, 1)).otherwise("new")
        shown = (
            script.pieces.join(new, on="entry", maintain_order="left").group_by("token", maintain_order=True).agg(text=piece.str.join(""))
        )
        shown_text = tokens.join(shown, on="token", how="left", maintain_order="left")["text"]
        its = anchor[tokens["group"].to_numpy()]
        kept = np.isin(its, (FIRST, LAST))
        # an address of one part keeps all of it, or nothing
        whole = kept & (tokens["way"] == "local").to_numpy()
        stays = whole | ((tokens["way"] == "word").to_numpy() & kept & (tokens["said"].to_numpy() == its))
        values = self.rows["value"].gather(rows)
        is_address = (self.rows["kind"].gather(rows) == ADDRESS).to_numpy()
        heads = _heads(values, is_address)
        buffers = Buffers.of(arrow(heads))
        base = buffers.offsets[tokens["place"].to_numpy()]
        start, stop = base + tokens["start"].to_numpy(), base + tokens["stop"].to_numpy()
        spelled = pl.select(pl.when(pl.Series(stays)).then(tokens["old"]).otherwise(cased(shown_text, tokens["old"]))).to_series()
        made = pl.Series(splice(buffers, start, stop, arrow(spelled)), dtype=pl.String)
        where = np.flatnonzero(is_address)
        if not len(where):
            return arrow(made)
        draws = self._draws("value", group[rows[where]], self.rows["value_id"].to_numpy()[rows[where]].astype(np.uint64))
        draws = draws.again(attempt)
        numbers = np.zeros(len(rows), np.bool_)
        numbers[tokens["place"].to_numpy()[whole]] = True
        local = _numbered(made.gather(where), draws, numbers[where])
        ends = pl.Series(tail(rows[where], draws, anchor[group[rows[where]]]), dtype=pl.String)
        return arrow(made.scatter(where, pl.select(pl.lit(local) + pl.lit(ends)).to_series()))

    def _new(self, entries: pl.DataFrame, attempt: int, anchor: I64) -> npt.NDArray[np.object_]:
        """The new word of some entries, in small letters; its own where that is the anchor."""
        firsts, lasts = stores()
        group, role = entries["group"].to_numpy(), entries["role"].to_numpy()
        word = siphash(arrow(entries["word"]).cast(pa.large_binary()), self._key.subkey("person/word")) + role.astype(np.uint64)
        draws = self._draws("word", group, word).again(attempt)
        high, low = draws.pair(0)
        second_high, second_low = draws.pair(1)
        found = np.where(role == LAST, lasts[pick(high, len(lasts))], firsts[pick(low, len(firsts))])
        if attempt >= _DOUBLED:
            found = found + np.where(role == LAST, firsts[pick(second_high, len(firsts))], lasts[pick(second_low, len(lasts))])
        kept = (role == anchor[group]) & (role <= LAST)
        return np.where(kept, entries["word"].to_numpy().astype(object), found)

    def _draws(self, what: str, group: I64, word: U64) -> Draws:
        seed = self.groups["seed"].to_numpy()[group]
        person = self.groups["person"].to_numpy()[group].astype(np.uint64)
        return Draws.at(self._key.subkey(f"draw/{self._purpose}/{what}"), seed, person, word)

    # ---- anchors ----

    def _choices(self, tokens: pl.DataFrame, anchors: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Which anchors each group may have: those of `anchors` that leave no name as it is, and of these the ones that a kept mention
        shows, where there is one."""
        count = self.groups.height
        may, shown = (np.zeros((count, 4), np.bool_) for _ in range(2))
        if not anchors:
            return may
        several = tokens.filter(~pl.col("letter"), pl.col("role").is_in([FIRST, LAST]))
        may[several["group"].to_numpy(), several["role"].to_numpy()] = True
        formed = tokens.filter(pl.col("way").is_in(["form", "local"]))["group"].to_numpy()
        may[formed, FIRST] = may[formed, LAST] = True
        # a name of one word would stand there as it is
        alone = tokens.filter("name", pl.col("role") == ALONE)
        may[alone["group"].to_numpy(), np.minimum(alone["said"].to_numpy(), MIDDLE)] = False
        addresses = self.rows.filter("goes", pl.col("kind") == ADDRESS)["group"].to_numpy()
        for each in (DOMAIN, TLD):
            may[addresses, each] = True
        may[:, [each for each in range(4) if each not in anchors]] = False
        kept = self.rows.filter("stays").select("scope", "person", "group", "kind", "text").join(self.tokens, on="text")
        kept = kept.join(self.words, on=["scope", "person", "word"], how="left").with_columns(told=(pl.col("code") % 4).fill_null(ALONE))
        told = kept.filter(pl.col("told").is_in([FIRST, LAST]))
        shown[told["group"].to_numpy(), told["told"].to_numpy()] = True
        for each in (DOMAIN, TLD):
            shown[kept.filter(pl.col("kind") == ADDRESS)["group"].to_numpy(), each] = True
        both = may & shown
        return np.where(np.asarray(both.any(axis=1))[:, None], both, may)

    def _anchor(self, choices: npt.NDArray[np.bool_], attempt: int) -> I64:
        """The anchor of each group in an attempt; NONE where it has none."""
        count = choices.sum(axis=1)
        every = np.arange(len(choices))
        bits = self._draws("anchor", every, np.zeros(len(every), np.uint64)).again(attempt // _ANCHORED).pair(0)[0]
        nth = pick(bits, np.maximum(count, 1).astype(np.uint64))
        chosen = np.argmax(choices & (np.cumsum(choices, axis=1) == (nth + 1)[:, None]), axis=1)
        return np.where((count > 0) & (attempt < _FREE), chosen, NONE).astype(np.int64)


def _heads(values: pl.Series, is_address: npt.NDArray[np.bool_]) -> pl.Series:
    """Names, and of addresses what stands before the @."""
    where = np.flatnonzero(is_address)
    split = kind_named(ADDRESS).split
    assert split is not None
    local = split(values.gather(where)).select(pl.concat_str("lead", "first", "sep", "last")).to_series()
    return values.clone().scatter(where, local)


def _numbered(local: pl.Series, draws: Draws, kept: npt.NDArray[np.bool_]) -> pl.Series:
    """Local parts with other digits, but for those that are kept."""
    flat, offsets = joined(local)
    digit = (flat >= 48) & (flat <= 57)
    row = np.repeat(np.arange(len(local)), np.diff(offsets))
    return reshaped(local, draws, keep=~digit | kept[row], first_lane=8)


def _all_of(good: npt.NDArray[np.bool_], group: I64, count: int) -> npt.NDArray[np.bool_]:
    """True for groups of which all rows are good."""
    bad = np.bincount(group[~good], minlength=count)
    return np.asarray(bad == 0)


# ----------------------------------------------------------------------------------------------------------------- who is meant by what


def _of_one_name(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The rows with one person for all of a scope who have the same given name and surname, also where the index knows them apart by their
    addresses; what stands between may be left out, and is no other letter."""
    said = rows.filter(pl.col("kind") == PERSON).select("scope", "person", "linked", "text").join(names, on="text")
    alike = pl.struct("scope", "given", "surname")
    letters = pl.col("between").str.slice(0, 1).filter(pl.col("between") != "").n_unique().over(alike)
    said = said.filter(pl.col("given").str.len_chars() > 1, letters < 2, pl.col("person").n_unique().over(alike) > 1)
    if not said.height:
        return rows
    # one that the index knows comes first
    people = (
        said.group_by("scope", "person").agg(pl.col("linked").any()).sort("scope", pl.col("linked").not_(), "person").with_row_index("no")
    )
    said = said.join(people.select("scope", "person", "no"), on=["scope", "person"]).with_columns(first=pl.col("no").min().over(alike))
    gone, stays = components(*(said[name].to_numpy().astype(np.int64) for name in ("first", "no")))
    to = people.select("scope", "person")[gone].with_columns(other=people["person"].gather(stays), known=people["linked"].gather(stays))
    found = rows.join(to, on=["scope", "person"], how="left", maintain_order="left")
    return found.with_columns(person=pl.coalesce("other", "person"), linked=pl.coalesce("known", "linked")).drop("other", "known")


def _merged(rows: pl.DataFrame, words: pl.DataFrame, forms: pl.DataFrame, tokens: pl.DataFrame) -> pl.DataFrame:
    """The rows with the person that each value without an entity means: the only one of its scope that has all its words, initials
    too. What stands between given name and surname does not count. Words of addresses may be a part of a name (`jp.martin@`)."""
    linked = rows.filter("linked").select("scope", "person").unique().with_columns(linked=pl.lit(True))
    said = words.filter(pl.col("code") % 4 != MIDDLE)
    said = said.join(linked, on=["scope", "person"], how="left").with_columns(pl.col("linked").fill_null(False))
    said = said.with_columns(size=pl.len().over("scope", "person"))
    mine = said.filter(~pl.col("linked"))
    sizes = said.select("scope", "person", "linked", "size").unique()
    parts = forms.filter("part").select("scope", "person", word="form").join(sizes, on=["scope", "person"])
    parts = mine.filter(pl.col("code") // 4 == 1).join(parts, on=["scope", "word"], suffix="_other")
    pairs = mine.join(said, on=["scope", "word"], suffix="_other")
    columns = ["scope", "person", "person_other", "word", "size", "size_other", "linked_other"]
    pairs = pl.concat([some.select(columns).with_columns(part=pl.lit(part)) for some, part in ((pairs, False), (parts, True))])
    pairs = pairs.filter(pl.col("person") != pl.col("person_other"))
    pairs = pairs.group_by("scope", "person", "person_other").agg(
        pl.col("word").n_unique().alias("len"), pl.col("size", "size_other", "linked_other").first(), pl.col("part").any()
    )
    pairs = pairs.filter(
        pl.col("len") == pl.col("size"),
        (pl.col("size_other") > pl.col("size")) | pl.col("linked_other") | pl.col("part") | (pl.col("person_other") < pl.col("person")),
    )
    if not pairs.height:
        return rows
    # `B. Smith` is not `Anna Smith`
    letters = (
        rows.filter(~pl.col("linked"))
        .select("scope", "person", "text")
        .join(tokens.filter("letter", pl.col("role").is_in([FIRST, LAST])).select("text", letter_said="word"), on="text")
    )
    of_them = pl.concat(
        [
            said.select("scope", person_other="person", letter_said=pl.col("word").str.slice(0, 1)),
            # `K. Allen` may be `Phillip K. Allen`
            rows.join(tokens, on="text").select("scope", person_other="person", letter_said=pl.col("word").str.slice(0, 1)),
        ]
    )
    of_them = of_them.unique().with_columns(there=pl.lit(True))
    other = pairs.join(letters, on=["scope", "person"]).join(of_them, on=["scope", "person_other", "letter_said"], how="left")
    pairs = pairs.join(other.filter(pl.col("there").is_null()), on=["scope", "person", "person_other"], how="anti")
    # only those that mean nobody else are meant
    inner = pairs.select("scope", person_other="person").unique()
    return _joined(rows, pairs.join(inner, on=["scope", "person_other"], how="anti"))


def _merged_by_form(rows: pl.DataFrame, forms: pl.DataFrame, tokens: pl.DataFrame) -> pl.DataFrame:
    """The rows with the person of each address of one word that is a form of the name of one person alone, such as `asmith`."""
    single = tokens.filter(~pl.col("name"), pl.col("role") == ALONE, ~pl.col("letter")).select("text", form="word")
    open_ = rows.filter(~pl.col("linked"), pl.col("person") == pl.col("own"), pl.col("kind") == ADDRESS).select("scope", "person", "text")
    theirs = forms.filter(~pl.col("part")).select("scope", "form", person_other="person")
    pairs = open_.join(single, on="text").join(theirs, on=["scope", "form"])
    return _joined(rows, pairs.filter(pl.col("person") != pl.col("person_other")))


def _joined(rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The rows with another person where the pairs have one, and no more than that."""
    sure = pairs.group_by("scope", "person").agg(pl.col("person_other").n_unique().alias("times"), pl.col("person_other").min())
    sure = sure.filter(pl.col("times") == 1).select("scope", "person", "person_other")
    found = rows.join(sure, on=["scope", "person"], how="left", maintain_order="left")
    return found.with_columns(
        person=pl.coalesce("person_other", "person"), linked=pl.col("linked") | pl.col("person_other").is_not_null()
    ).drop("person_other")
