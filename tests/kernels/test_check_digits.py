"""Check digits of the kernel against the definitions in Python integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sanitize.kernels import check_digits


def remainders_of(kernel: Callable[..., None], numbers: list[str]) -> list[int]:
    offsets = np.concatenate([[0], np.cumsum([len(number) for number in numbers], dtype=np.int64)])
    remainders = np.empty(len(numbers), np.int64)
    kernel(np.frombuffer("".join(numbers).encode(), np.uint8), offsets, remainders)
    return remainders.tolist()


def reference_luhn(number: str) -> int:
    digits = [int(digit) for digit in number[::-1]]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10


def reference_mod97(number: str) -> int:
    moved = number[4:] + number[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 if moved else 0


@given(st.lists(st.text("0123456789", max_size=25), max_size=6))
def test_luhn_remainders_are_those_of_the_definition(numbers: list[str]) -> None:
    assert remainders_of(check_digits.luhn_remainders, numbers) == [
        reference_luhn(number) for number in numbers
    ]


@given(st.lists(st.text("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", max_size=40), max_size=6))
def test_mod97_remainders_are_those_of_the_definition(numbers: list[str]) -> None:
    assert remainders_of(check_digits.mod97_remainders, numbers) == [
        reference_mod97(number) for number in numbers
    ]


@pytest.mark.parametrize(
    ("kernel", "number", "remainder"),
    [("luhn", "4111111111111111", 0), ("mod97", "GB82WEST12345698765432", 1)],
)
def test_published_examples_pass(kernel: str, number: str, remainder: int) -> None:
    assert remainders_of(getattr(check_digits, f"{kernel}_remainders"), [number]) == [remainder]


@given(st.lists(st.binary(max_size=12), max_size=5))
def test_other_bytes_do_no_harm(numbers: list[bytes]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(number) for number in numbers], dtype=np.int64)])
    for kernel in (check_digits.luhn_remainders, check_digits.mod97_remainders):
        remainders = np.empty(len(numbers), np.int64)
        kernel(np.frombuffer(b"".join(numbers), np.uint8), offsets, remainders)
        assert (np.abs(remainders) < 97).all()
