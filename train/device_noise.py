"""Normal numbers for the noise of private training, computed on the device of the gradients: ChaCha20 over a secret key and a counter.

ChaCha20 (Bernstein 2008; the block function of RFC 8439) is a cryptographic generator whose blocks are functions of (key, counter), so that
all blocks are computed at once by additions, rotations and xor on whole tensors. The bits are the same on every device. The normal numbers
made of them are sums of four Box-Muller draws in float64, as in `keyed_random`; log, sine and cosine may differ in the last place between
devices. Costs about 400 operations on tensors of four bytes a normal number for each million of them.
"""

from __future__ import annotations

import math
from typing import Any

DEVICE_NOISE_VERSION = "chacha20-1"  # a private run is resumed only with the numbers that it began with
BLOCK_SIZE = 1 << 20  # normal numbers that are computed at once
KEY_BYTES = 32
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
_SUMMED_DRAWS = 4  # independent draws in each normal number
_NORMALS_PER_BLOCK = 2  # of 16 words of 32 bits: four pairs of uniform numbers, each of which gives two normal ones


def draw_normal(key: bytes, count: int, device: Any) -> Any:
    """Return `count` standard normal numbers, float32 on the device; the same key gives the same numbers."""
    import torch

    found = torch.empty(count, dtype=torch.float32, device=device)
    for first in range(0, count, BLOCK_SIZE):
        length = min(BLOCK_SIZE, count - first)
        block_count = -(-length // _NORMALS_PER_BLOCK)
        words = chacha20_blocks(key, first // _NORMALS_PER_BLOCK, block_count, device)
        total = torch.zeros((_NORMALS_PER_BLOCK, block_count), dtype=torch.float64, device=device)
        for summand in range(_SUMMED_DRAWS):
            uniform = _make_uniform(words[4 * summand], words[4 * summand + 1])
            radius = (-2 * uniform.log_()).sqrt_()
            angle = 2 * math.pi * _make_uniform(words[4 * summand + 2], words[4 * summand + 3])
            total[0] += radius * angle.cos()
            total[1] += radius * angle.sin()
        found[first : first + length] = (total / math.sqrt(_SUMMED_DRAWS)).T.reshape(-1)[:length]
    return found


def chacha20_blocks(key: bytes, first_block: int, count: int, device: Any, nonce: tuple[int, int] = (0, 0)) -> Any:
    """Return the 16 words of each block, int32 [16, count]. Blocks are numbered by 64 bits, as in Bernstein's ChaCha; RFC 8439 takes the
    upper 32 of them as the first word of its nonce."""
    import torch

    assert len(key) == KEY_BYTES
    words = [*_CONSTANTS, *(int.from_bytes(key[at : at + 4], "little") for at in range(0, KEY_BYTES, 4)), 0, 0, *nonce]
    initial = torch.tensor([_to_signed(word) for word in words], dtype=torch.int32, device=device)[:, None].repeat(1, count)
    counter = torch.arange(first_block, first_block + count, dtype=torch.int64, device=device)
    initial[12], initial[13] = counter.to(torch.int32), (counter >> 32).to(torch.int32)  # the lower 32 bits: conversions wrap around
    a, b, c, d = initial.clone().view(4, 4, count)
    for _ in range(10):
        _quarter_rounds(a, b, c, d)  # of the four columns at once
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        _quarter_rounds(a, b, c, d)  # of the four diagonals
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return torch.cat([a, b, c, d]).add_(initial)


def _quarter_rounds(a: Any, b: Any, c: Any, d: Any) -> None:
    for first, second, third, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        first += second  # int32 wraps around
        third ^= first
        low = (third >> (32 - bits)).bitwise_and_((1 << bits) - 1)  # shifts of int32 copy the sign
        third <<= bits
        third |= low


def _make_uniform(high: Any, low: Any) -> Any:
    """Return numbers in the open interval (0, 1), in steps of 2**-53, from two words of 32 bits each."""
    import torch

    mask = 0xFFFFFFFF
    bits = ((high.to(torch.int64) & mask) << 21) | ((low.to(torch.int64) & mask) >> 11)
    return bits.to(torch.float64).add_(0.5).mul_(2.0**-53)


def _to_signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
