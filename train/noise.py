"""Normal numbers for the noise of private training: ChaCha20 over a secret key and a counter, and
sums of Box-Muller draws.

ChaCha20 (Bernstein 2008; the block function of RFC 8439) is a cryptographic generator whose blocks
are functions of (key, counter). On a CPU they are computed by OpenSSL (`cryptography`), on a GPU by
additions, rotations and xor on whole tensors; the bits are the same. The normal numbers made of
them may differ in the last place between devices, as log, sine and cosine do.

Costs about 7 seconds for 100 million normal numbers on one CPU core.
"""

from __future__ import annotations

import math
from typing import Any

from sanitize.errors import MissingExtra

NOISE_VERSION = "chacha20-2"  # a private run is resumed only with the numbers that it began with
KEY_BYTES = 32
SLOW_NOISE_WEIGHTS = 70_000_000  # weights whose noise takes about 5 seconds a step on one CPU core
SUMMED_DRAWS = 4  # independent draws in each normal number
# of eight numbers of 64 bits: four pairs of uniform numbers, each of which gives two normal ones
NORMALS_PER_BLOCK = 2
# normal numbers that are computed at once: what fits a cache, and what keeps a GPU busy
_CPU_BLOCK_SIZE, _GPU_BLOCK_SIZE = 1 << 16, 1 << 20
_MASK_32 = (1 << 32) - 1
_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"


def draw_normal(key: bytes, count: int, device: Any) -> Any:
    """Return `count` standard normal numbers, float32 on the device; the same key gives the same
    numbers.

    Each is the sum of four independent ones (Box-Muller in float64), divided by two. Which
    floating-point numbers one Box-Muller draw can give depends on its sign and size, so that the
    sum of a gradient and such noise can tell the gradient (Mironov 2012). An attacker of a sum has
    to search the combinations of its draws (Holohan and Braghin 2021). That raises the cost of the
    attack; the numbers remain an approximation of the normal distribution. None is beyond 17.4.
    Devices without float64 get numbers that were drawn on the CPU.
    """
    import torch

    drawn_on = choose_noise_device(device)
    block_size = _CPU_BLOCK_SIZE if drawn_on.type == "cpu" else _GPU_BLOCK_SIZE
    found = torch.empty(count, dtype=torch.float32, device=drawn_on)
    for first in range(0, count, block_size):
        length = min(block_size, count - first)
        bits = draw_bits(key, first // NORMALS_PER_BLOCK, -(-length // NORMALS_PER_BLOCK), drawn_on)
        # numbers in the open interval (0, 1), in steps of 2**-52: the shifted integers have a sign
        uniform = (
            (bits >> 12)
            .to(torch.float64)
            .add_(2.0**51 + 0.5)
            .mul_(2.0**-52)
            .view(SUMMED_DRAWS, 2, -1)
        )
        radius, angle = (
            uniform[:, 0].log().mul_(-2 / SUMMED_DRAWS).sqrt_(),
            uniform[:, 1].mul_(2 * math.pi),
        )
        pairs = torch.stack(
            [angle.cos().mul_(radius).sum(0), angle.sin().mul_(radius).sum(0)], dim=1
        )
        found[first : first + length] = pairs.view(-1)[:length]
    return found.to(device)


def choose_noise_device(device: Any) -> Any:
    """Return where the numbers for a device are drawn: on itself if it has float64, else on the
    CPU."""
    import torch

    return (
        torch.device(device)
        if torch.device(device).type in ("cuda", "xpu")
        else torch.device("cpu")
    )


def draw_bits(key: bytes, first_block: int, count: int, device: Any) -> Any:
    """Return the eight numbers of 64 random bits of each block, int64 [8, count]. The blocks do not
    pass a multiple of 2**32, at which OpenSSL begins again: those of `draw_normal` begin at
    multiples of their count, a power of two."""
    import torch

    assert len(key) == KEY_BYTES and first_block >> 32 == (first_block + count - 1) >> 32
    if device.type == "cpu":
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        except ImportError:
            raise MissingExtra("cryptography", "dp") from None
        # the number of the block, and no nonce: every key is used for one draw
        start = first_block.to_bytes(8, "little") + bytes(8)
        keystream = (
            Cipher(algorithms.ChaCha20(key, start), mode=None).encryptor().update(bytes(64 * count))
        )
        return (
            torch.frombuffer(bytearray(keystream), dtype=torch.int64).view(count, 8).T.contiguous()
        )
    words = (
        compute_chacha20_blocks(key, first_block, count, device).view(8, 2, count).to(torch.int64)
    )
    return (words[:, 0] & _MASK_32) | (words[:, 1] << 32)


def compute_chacha20_blocks(
    key: bytes, first_block: int, count: int, device: Any, nonce: tuple[int, int] = (0, 0)
) -> Any:
    """Return the 16 words of each block, int32 [16, count], by operations on tensors.

    Blocks are numbered by 64 bits, as in Bernstein's ChaCha; RFC 8439 takes the upper 32 of them as
    the first word of its nonce.
    """
    import torch

    words = [
        *_CONSTANTS,
        *(int.from_bytes(key[at : at + 4], "little") for at in range(0, KEY_BYTES, 4)),
        0,
        0,
        *nonce,
    ]
    initial = torch.tensor([_to_signed(word) for word in words], dtype=torch.int32, device=device)[
        :, None
    ].repeat(1, count)
    counter = torch.arange(first_block, first_block + count, dtype=torch.int64, device=device)
    # the lower 32 bits: conversions wrap around
    initial[12], initial[13] = (counter.to(torch.int32), (counter >> 32).to(torch.int32))
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


def _to_signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
