"""Privacy accounting: epsilon from noise multiplier, sampling rate and steps, and the noise
multiplier for a target epsilon.

The accountants are those of opacus (extra `dp`): `rdp` (Renyi, an upper bound, fast) and `prv`
(numerical composition, tighter, some seconds). Both hold for Poisson sampling and for neighbouring
data sets that differ by adding or removing one unit.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any, Literal

from sanitize.errors import MissingExtra, UsageError

AccountantName = Literal["rdp", "prv"]


def compute_epsilon(
    accountant: AccountantName,
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
) -> float | None:
    """Return the epsilon of `steps` steps, each unit being in a step with probability
    `sample_rate`; None if there is no bound.

    Raises MissingExtra without opacus, UsageError if the accountant fails.
    """
    if not steps:
        return 0.0
    if not noise_multiplier:
        return None
    accountants = _import_opacus_accountants()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about orders of the Renyi divergence
        try:
            if accountant == "rdp":
                orders = accountants.RDPAccountant.DEFAULT_ALPHAS
                divergences = steps * _compute_divergences_of_one_step(
                    noise_multiplier, sample_rate
                )
                epsilon, _ = accountants.analysis.rdp.get_privacy_spent(
                    orders=orders, rdp=divergences, delta=delta
                )
            else:
                opacus_accountant = accountants.create_accountant(mechanism=accountant)
                opacus_accountant.history = [(noise_multiplier, sample_rate, steps)]
                epsilon = opacus_accountant.get_epsilon(delta=delta)
            found = float(epsilon)
        # many types in opacus: the numerical integration fails for a tiny sigma
        except Exception as error:
            raise UsageError(
                f"the accountant {accountant} fails for sigma = {noise_multiplier:g}, q ="
                f" {sample_rate:g} and {steps} steps "
                f"({type(error).__name__});"
                f" {'use rdp' if accountant != 'rdp' else 'expected a sigma between about 0.1 and 1000'}"  # noqa: E501
            ) from None
    return found if math.isfinite(found) else None


def find_noise_multiplier(
    accountant: AccountantName,
    *,
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float,
) -> float:
    """Return the noise multiplier whose epsilon is `target_epsilon`, at most .01 below it;
    UsageError if none is large enough."""
    from importlib import import_module

    _import_opacus_accountants()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            solve = import_module("opacus.accountants.utils").get_noise_multiplier
            found = solve(
                target_epsilon=target_epsilon,
                target_delta=delta,
                sample_rate=sample_rate,
                steps=steps,
                accountant=accountant,
                epsilon_tolerance=min(0.01, target_epsilon / 100),
            )
        except Exception as error:  # many types in opacus; ValueError if the budget is too low
            raise UsageError(
                f"privacy.epsilon = {target_epsilon:g}: no noise reaches it with q ="
                f" {sample_rate:g} and {steps} steps ({type(error).__name__}); use fewer steps,"
                " smaller batches or a larger epsilon"
            ) from None
    return float(found)


def group_privacy(
    epsilon: float | None, delta: float, group_size: int
) -> tuple[float | None, float | None]:
    """Return epsilon and delta of m = `group_size` units together: m epsilon, m e^((m - 1) epsilon)
    delta (Dwork, Roth 2014, theorem 2.2).

    Each is None if there is no bound; delta also if it is 1 or more, which guarantees nothing.
    """
    if epsilon is None:
        return None, None
    exponent = (group_size - 1) * epsilon + math.log(group_size * delta)
    return group_size * epsilon, math.exp(exponent) if exponent < 0 else None


@functools.lru_cache(maxsize=16)
def _compute_divergences_of_one_step(noise_multiplier: float, sample_rate: float) -> Any:
    """Return the Renyi divergences at the orders of opacus (0.3 s). Those of n steps are n times as
    large: a run, which reports its epsilon at every checkpoint, computes them once."""
    accountants = _import_opacus_accountants()
    return accountants.analysis.rdp.compute_rdp(
        q=sample_rate,
        noise_multiplier=noise_multiplier,
        steps=1,
        orders=accountants.RDPAccountant.DEFAULT_ALPHAS,
    )


def _import_opacus_accountants() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import opacus.accountants as found
    except ImportError:
        raise MissingExtra("opacus", "dp") from None
    return found
