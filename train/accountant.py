"""What a private training spends: epsilon from noise, sampling rate and steps, and the noise for an epsilon that is asked for.

The accountants are those of opacus (extra `dp`): `rdp` (Renyi, an upper bound, fast) and `prv` (numerical composition, tighter, some
seconds). Both hold for Poisson sampling and for neighbours that differ by one unit more or less.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

from sanitize.errors import MissingExtra, UsageError

Name = Literal["rdp", "prv"]


def epsilon(accountant: Name, *, sigma: float, q: float, steps: int, delta: float) -> float | None:
    """The epsilon of so many steps with noise multiplier `sigma`, each unit in a step with probability `q`; None where there is no bound.

    Raises MissingExtra without opacus.
    """
    if not steps:
        return 0.0
    if not sigma:
        return None
    one = _accountants().create_accountant(mechanism=accountant)
    one.history = [(sigma, q, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hints at orders of the Renyi divergence
        try:
            found = float(one.get_epsilon(delta=delta))
        except Exception as error:  # other people's code: integration that fails where sigma is tiny
            raise UsageError(
                f"the accountant {accountant} has no answer for sigma = {sigma:g}, q = {q:g} and {steps} steps "
                f"({type(error).__name__}); use rdp"
            ) from None
    return found if math.isfinite(found) else None


def sigma_for(accountant: Name, *, target: float, q: float, steps: int, delta: float) -> float:
    """The noise multiplier whose epsilon is `target`, at most .01 below it; UsageError where no multiplier is large enough."""
    from importlib import import_module

    _accountants()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            solve = import_module("opacus.accountants.utils").get_noise_multiplier
            found = solve(
                target_epsilon=target,
                target_delta=delta,
                sample_rate=q,
                steps=steps,
                accountant=accountant,
                epsilon_tolerance=min(0.01, target / 100),
            )
        except Exception as error:  # other people's code; a budget that is too low is a ValueError
            raise UsageError(
                f"privacy.epsilon = {target:g}: no noise reaches it with q = {q:g} and {steps} steps ({type(error).__name__}); "
                "fewer steps, smaller batches or a larger epsilon"
            ) from None
    return float(found)


def group(epsilon: float | None, delta: float, members: int) -> tuple[float | None, float | None]:
    """Epsilon and delta for `members` units at once: m epsilon, m e^((m - 1) epsilon) delta (Dwork and Roth 2014, theorem 2.2).

    None where there is no bound, or where delta is 1 or more and says nothing.
    """
    if epsilon is None:
        return None, None
    exponent = (members - 1) * epsilon + math.log(members * delta)
    return members * epsilon, math.exp(exponent) if exponent < 0 else None


def _accountants() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import opacus.accountants as found
    except ImportError:
        raise MissingExtra("opacus", "dp") from None
    return found
