"""Keys and draws: SipHash-2-4 matches the paper, draws do not depend on batches, keys stay
secret."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sanitize.core.keys import Draws, Key, compute_value_ids, draw_index, siphash
from sanitize.errors import UsageError

SUBKEY = bytes(range(16))
M = (1 << 64) - 1

# Aumasson and Bernstein, SipHash, appendix A (15 bytes) and the vectors of their reference
# implementation
VECTORS = {
    0: 0x726FDB47DD0E0E31,
    8: 0x93F5F5799A932462,
    15: 0xA129CA6149BE45E5,
    63: 0x958A324CEB064572,
}


def reference_siphash(data: bytes, key: bytes) -> int:
    """SipHash-2-4 as the paper writes it, one byte string at a time."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rotate_left(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & M

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & M
            v[2] = (v[2] + v[3]) & M
            v[1], v[3] = rotate_left(v[1], 13) ^ v[0], rotate_left(v[3], 16) ^ v[2]
            v[0] = rotate_left(v[0], 32)
            v[2] = (v[2] + v[1]) & M
            v[0] = (v[0] + v[3]) & M
            v[1], v[3] = rotate_left(v[1], 17) ^ v[2], rotate_left(v[3], 21) ^ v[0]
            v[2] = rotate_left(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for offset in range(0, len(padded), 8):
        word = int.from_bytes(padded[offset : offset + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def binary_array(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.large_binary())


@pytest.mark.parametrize(("size", "expected"), VECTORS.items())
def test_published_vectors(size: int, expected: int) -> None:
    assert int(siphash(binary_array([bytes(range(size))]), SUBKEY)[0]) == expected
    assert reference_siphash(bytes(range(size)), SUBKEY) == expected


@given(
    st.lists(st.binary(max_size=80), max_size=30),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 5),
)
def test_siphash_equals_the_reference(values: list[bytes], key: bytes, skip: int) -> None:
    column = binary_array(values)
    assert siphash(column, key).tolist() == [reference_siphash(value, key) for value in values]
    sliced = column.slice(min(skip, len(values)))
    assert siphash(sliced, key).tolist() == [
        reference_siphash(value, key) for value in values[min(skip, len(values)) :]
    ]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_siphash_of_any_string_type(kind: pa.DataType) -> None:
    words = ["", "a", "größer", "東京", "x" * 300]
    assert siphash(pa.array(words).cast(kind), SUBKEY).tolist() == [
        reference_siphash(word.encode(), SUBKEY) for word in words
    ]


def test_siphash_over_more_than_one_block() -> None:
    words = [str(number).encode() for number in range(40_000)]
    hashed = siphash(binary_array(words), SUBKEY)
    assert [int(hashed[index]) for index in (0, 16_383, 16_384, 39_999)] == [
        reference_siphash(words[index], SUBKEY) for index in (0, 16_383, 16_384, 39_999)
    ]


def test_siphash_refuses_nulls() -> None:
    with pytest.raises(AssertionError):
        siphash(pa.array(["a", None], pa.large_string()), SUBKEY)


def test_value_ids() -> None:
    key, column = (
        Key.from_seed(0),
        pa.array(["ada@acorn.example", "ada@atlas.example"], pa.large_string()),
    )
    ids = compute_value_ids(column, "EMAIL_ADDRESS", key)
    assert ids.dtype == np.int64
    assert (ids >= 0).all()
    assert (
        len(
            {
                *ids,
                *compute_value_ids(column, "URL", key),
                *compute_value_ids(column, "EMAIL_ADDRESS", Key.from_seed(1)),
            }
        )
        == 6
    )


def make_draws(
    doc_ids: list[str],
    cells: list[int],
    starts: list[int],
    key: Key | None = None,
    purpose: str = "rmft",
) -> Draws:
    return Draws.for_occurrences(
        key or Key.from_seed(7),
        purpose,
        pa.array(doc_ids, pa.large_string()),
        np.array(cells, np.int32),
        np.array(starts, np.int64),
    )


POSITIONS = st.lists(
    st.tuples(
        st.text(max_size=12).filter(lambda text: text.isprintable()),
        st.integers(0, 9),
        st.integers(0, 10**9),
    ),
    max_size=25,
)


@given(POSITIONS, st.integers(0, 25), st.integers(0, 7), st.integers(0, 3))
@settings(deadline=None)
def test_draws_do_not_depend_on_batches(
    positions: list[tuple[str, int, int]], split: int, lane: int, attempt: int
) -> None:
    def draw_bits(batch: list[tuple[str, int, int]]) -> list[int]:
        batch_draws = make_draws(
            [position[0] for position in batch],
            [position[1] for position in batch],
            [position[2] for position in batch],
        )
        return [int(bits) for bits in batch_draws.with_attempt(attempt).u64(lane)]

    assert draw_bits(positions) == draw_bits(positions[:split]) + draw_bits(positions[split:])
    assert draw_bits(positions[::-1]) == draw_bits(positions)[::-1]


def test_draws_from_a_dictionary_are_the_same() -> None:
    names = pa.array(["b", "a", "b", "c"], pa.large_string())
    zeros, starts = np.zeros(4, np.int32), np.arange(4)
    plain_bits, dictionary_bits = (
        Draws.for_occurrences(Key.from_seed(1), "x", column, zeros, starts).u64(0)
        for column in (names, names.dictionary_encode())
    )
    assert plain_bits.tolist() == dictionary_bits.tolist()
    sliced = Draws.for_occurrences(
        Key.from_seed(1), "x", names.dictionary_encode().slice(2), zeros[2:], starts[2:]
    ).u64(0)
    assert sliced.tolist() == plain_bits[2:].tolist()


def test_draws_depend_on_every_input() -> None:
    base_draws = make_draws(["d"], [0], [0])
    variants = [
        make_draws(["e"], [0], [0]).u64(0),
        make_draws(["d"], [1], [0]).u64(0),
        make_draws(["d"], [0], [1]).u64(0),
        make_draws(["d"], [0], [0], key=Key.from_seed(8)).u64(0),
        make_draws(["d"], [0], [0], purpose="pseudonymize").u64(0),
        base_draws.u64(1),
        base_draws.with_attempt(1).u64(0),
        base_draws.with_attempt(1).u64(1),
        base_draws.u64(0),
    ]
    assert len({int(bits[0]) for bits in variants}) == len(variants)


def test_take_selects_rows() -> None:
    all_draws = make_draws(list("abcd"), [0, 1, 2, 3], [5, 6, 7, 8])
    assert all_draws.take(np.array([2, 0])).u64(3).tolist() == all_draws.u64(3)[[2, 0]].tolist()
    assert len(all_draws.take(np.array([1]))) == 1


def test_each_row_can_have_its_own_attempt() -> None:
    all_draws, attempts = (
        make_draws(list("abcd"), [0, 1, 2, 3], [5, 6, 7, 8]),
        np.array([0, 3, 1, 3]),
    )
    attempt_draws = all_draws.with_attempt(attempts)
    assert attempt_draws.u64(2).tolist() == [
        int(all_draws.with_attempt(int(attempt)).u64(2)[row])
        for row, attempt in enumerate(attempts)
    ]
    assert (
        attempt_draws.take(np.array([3, 0])).u64(2).tolist()
        == attempt_draws.u64(2)[[3, 0]].tolist()
    )
    lanes = np.array([4, 5, 6, 7], np.uint64)
    assert attempt_draws.u64(lanes)[1] == all_draws.with_attempt(3).u64(5)[1]


def test_nested_attempts_are_distinct() -> None:
    all_draws = make_draws(["d"], [0], [0])
    distinct_bits = {
        int(all_draws.with_attempt(outer).nested_attempt(inner, 5).u64(0)[0])
        for outer in range(4)
        for inner in range(5)
    }
    assert len(distinct_bits) == 20 and int(all_draws.nested_attempt(0, 5).u64(0)[0]) == int(
        all_draws.u64(0)[0]
    )


def test_draw_index_is_in_range() -> None:
    edge_bits = np.array([0, 1, 2**31, 2**32 - 1], np.uint64)
    for size in (1, 2, 3, 10, 1_000_003, 2**31):
        chosen = draw_index(edge_bits, size)
        assert chosen.min() == 0
        assert chosen.max() <= size - 1
        assert chosen[-1] == size - 1
    assert draw_index(edge_bits, np.array([1, 2, 3, 4], np.uint64)).tolist() == [0, 0, 1, 3]


def test_draw_index_is_uniform() -> None:
    count, size = 200_000, 13
    chosen = draw_index(
        make_draws(["d"] * count, [0] * count, list(range(count))).u32_pair(0)[1], size
    )
    observed, expected = np.bincount(chosen, minlength=size), count / size
    # chi-squared with 12 degrees of freedom: one in a thousand
    assert float(((observed - expected) ** 2 / expected).sum()) < 33


def test_a_key_file_is_private(tmp_path: Path) -> None:
    key, path = Key.generate(), tmp_path / "key"
    mask = os.umask(0)
    try:
        key.write(path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Key.read(path) == key
    with pytest.raises(FileExistsError):
        Key.generate().write(path)
    assert Key.read(path) == key


@pytest.mark.parametrize("text", ["", "zz" * 32, "00" * 31, "00" * 33, "ключ"])
def test_a_bad_key_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    with pytest.raises(UsageError) as caught:
        Key.read(path)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    Key.generate().write(path)
    path.chmod(mode)
    with pytest.raises(UsageError, match="chmod 600"):
        Key.read(path)


def test_a_missing_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Key.read(tmp_path / "nothing")


def test_repr_of_a_key_hides_the_secret() -> None:
    key = Key.from_seed(3)
    assert key.is_public
    assert not Key.generate().is_public
    assert key == Key.from_seed(3) != Key.from_seed(4)
    assert key.secret.hex() not in repr(key)
    assert repr(key.secret) not in repr(key)
    assert len(key.id) == 8
    assert key.id not in key.secret.hex()
    assert pickle.loads(pickle.dumps(key)) == key


def test_subkeys_differ_by_purpose() -> None:
    key = Key.from_seed(0)
    purposes = ["doc_id", "draw/rmft", "value_id/URL", "value_id/EMAIL_ADDRESS"]
    assert len({key.subkey(purpose) for purpose in purposes}) == len(purposes)
    assert all(len(key.subkey(purpose)) == 16 for purpose in purposes)


def test_seeds_give_fixed_keys_and_draws() -> None:
    """Replays of published corpora depend on these numbers; a change here changes emitted bytes."""
    assert Key.from_seed(0).id == "a5ec6e8f"
    assert (
        int(make_draws(["mail-1"], [0], [12], key=Key.from_seed(0)).u64(0)[0]) == 0xDB5967B6C3A421D3
    )
