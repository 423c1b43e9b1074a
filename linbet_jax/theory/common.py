"""What all formulas share: letters, namespaces, the potential and the last step of optimism."""

from __future__ import annotations

import bisect
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

Number = Any  # a Python or NumPy float, or a JAX array


def is_host(*values: Number) -> bool:
    """Whether none of them is a JAX value."""
    return all(isinstance(value, (int, float)) or type(value).__module__ == "numpy" for value in values)


def namespace(*values: Number) -> Any:
    """NumPy for host numbers, jax.numpy as soon as one argument is a JAX value."""
    if is_host(*values):
        import numpy

        return numpy
    import jax.numpy

    return jax.numpy


def ln(value: Number) -> Number:
    """The natural logarithm, of a host number or an array."""
    return math.log(value) if isinstance(value, (int, float)) else namespace(value).log(value)


def sqrt(value: Number) -> Number:
    """The square root, likewise."""
    return math.sqrt(value) if isinstance(value, (int, float)) else namespace(value).sqrt(value)


def arguments(formula: Callable[..., Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the constants that a formula of this module takes, by their names."""
    return {name: constants[name] for name in inspect.signature(formula).parameters if name in constants}


def growth_exponent(epsilon: Number) -> Number:
    """The exponent a = (1 - epsilon) / (2 (1 + epsilon)) of the recurring factor t^a (Lemma 1 of the paper)."""
    return (1 - epsilon) / (2 * (1 + epsilon))


def initial_radius(*, ridge: Number, theta_norm: Number) -> Number:
    """Radius sqrt(lambda) S around 0 in the norm of V_0 = lambda I: exactly the ball B(0, S) = C_0 of the paper."""
    return sqrt(ridge) * theta_norm


def smallest_odd(holds: Callable[[int], bool], most: float = math.inf) -> int | None:
    """The smallest odd number for which a condition holds that then holds for all larger ones; None beyond ``most``."""
    below, end = -1, 1  # odd numbers; none up to the first holds
    while end <= most and not holds(end):
        below, end = end, 2 * end + 1
        if end > most > below + 1:
            end = int(most) - (int(most) % 2 == 0)
    if end > most:
        return None
    return 2 * bisect.bisect_left(range((end + 1) // 2), True, key=lambda half: holds(2 * half + 1)) + 1


def log_det_bound(pulls: Number, *, dim: int, ridge: Number, arm_norm: Number) -> Number:
    """d ln(1 + n D^2 / (lambda d)) >= ln(det V_n / det(lambda I)) after n rank-one updates (determinant-trace)."""
    return dim * ln(1 + pulls * arm_norm**2 / (ridge * dim))


def optimism_regret_bound(
    updates: Number,
    *,
    radius: Number,
    dim: int,
    ridge: Number,
    arm_norm: Number,
    mean_bound: Number,
    pulls: Number = 1,
) -> Number:
    """2 r max(beta, L) sqrt(2 n d ln(1 + n D^2 / (lambda d))): what optimism costs while theta* lies in every region.

    With n updates of r pulls each and radii that never exceed beta, an epoch costs at most 2 r max(beta, L)
    min(1, ||x||) in the norm of V^-1, and sum min(1, ||x||^2) <= 2 ln(det V_n / det(lambda I)). Theorems 2 and 3 end
    with this step; here it gives the bounds with constants that the other policies' papers do not print.

    `updates` is n, `pulls` r, and `radius` beta, the largest radius (the last one, since radii grow).
    """
    numbers = (radius, mean_bound)
    largest = max(numbers) if is_host(*numbers) else namespace(*numbers).maximum(radius, mean_bound)
    widths = 2 * updates * log_det_bound(updates, dim=dim, ridge=ridge, arm_norm=arm_norm)
    return 2 * pulls * largest * sqrt(widths)


OWN_NORM = math.inf
"""S where each replication has an instance of its own: the simulator puts that instance's ||theta*||_2 in its place."""
