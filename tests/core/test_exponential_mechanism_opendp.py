"""The mechanism compared with OpenDP's: the same privacy statement for the same noise, and samples
that a test cannot distinguish.

Noisy max with Gumbel noise is the exponential mechanism. OpenDP takes Gumbel noise for
zero-concentrated privacy only (with the pure measure it permutes and flips, which draws otherwise),
and states rho = epsilon^2 / 8 (Cesar and Rogers 2021, for bounded range).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sanitize.core.exponential_mechanism import ClipBounds, draw_candidates, uniform_from_bits
from sanitize.core.keys import Draws, Key

dp: Any = pytest.importorskip("opendp.prelude", reason="opendp is part of the extra `dev`")

BOUNDS = ClipBounds(-5.0, 20.0)
UTILITIES = np.array([-9.0, -5.0, 0.0, 3.0, 8.0, 12.5, 16.0, 20.0, 31.0])
DRAWS = 12_000


def make_opendp_mechanism(scale: float) -> Any:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)


def sample_opendp(epsilon: float) -> npt.NDArray[np.int64]:
    select = make_opendp_mechanism(BOUNDS.temperature(epsilon))
    clipped = np.clip(UTILITIES, BOUNDS.lower, BOUNDS.upper).tolist()
    return np.bincount([select(clipped) for _ in range(DRAWS)], minlength=len(UTILITIES))


def sample_sanitize(epsilon: float) -> npt.NDArray[np.int64]:
    draws = Draws.from_words(Key.from_seed(5).subkey("opendp"), np.arange(DRAWS, dtype=np.uint64))
    rows = np.broadcast_to(UTILITIES, (DRAWS, len(UTILITIES)))
    return np.bincount(
        draw_candidates(
            rows, uniform_from_bits(draws.u64(0), draws.u64(1)), bounds=BOUNDS, epsilon=epsilon
        ),
        minlength=len(UTILITIES),
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0, 100.0])
def test_privacy_statement_equals_opendp(epsilon: float) -> None:
    assert make_opendp_mechanism(BOUNDS.temperature(epsilon)).map(
        BOUNDS.sensitivity
    ) == pytest.approx(epsilon**2 / 8)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_samples_equal_opendp(epsilon: float) -> None:
    """Two samples of a contingency table; a sampler that forgets the factor 2, or the clipping, is
    detected."""
    opendp_counts = sample_opendp(epsilon)

    def compare_counts(counts: npt.NDArray[np.int64]) -> float:
        table = np.stack([counts, opendp_counts])
        return float(stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue)

    # OpenDP draws from the system's randomness: the test fails by chance once in a million runs
    assert compare_counts(sample_sanitize(epsilon)) > 1e-6
    assert compare_counts(sample_sanitize(2 * epsilon)) < 1e-6
