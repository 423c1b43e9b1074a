"""What all formulas share: letters, namespaces, the potential and the last step of optimism."""

from __future__ import annotations

import bisect
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

Number = Any  # a Python or NumPy float, or a JAX array
CONSTANTS = frozenset(  # what a formula with ``**constants`` may be given
    (
        *("dim", "num_arms", "delta", "epsilon", "ridge", "theta_norm", "arm_norm", "mean_bound"),
        *("raw_moment_bound", "central_moment_bound", "noise_scale", "clip_scale"),
    )
)


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
    taken = inspect.signature(formula).parameters
    any_of = CONSTANTS if "constants" in taken else ()
    return {name: value for name, value in constants.items() if name in taken or name in any_of}


def at(formula: Callable[..., Any], constants: Mapping[str, Any] | Any, *first: Any, **more: Any) -> Any:
    """A formula at the constants that it takes by name, of a mapping or a NamedTuple, and at what else is given."""
    known = constants._asdict() if hasattr(constants, "_asdict") else constants
    placed = dict(zip(inspect.signature(formula).parameters, first, strict=False))
    return formula(**{**arguments(formula, known), **more, **placed})


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


def check_constants(constants: Mapping[str, Any]) -> None:
    """Raises TypeError for one that no formula has: a misspelt name must not go unseen."""
    if unknown := sorted(set(constants) - CONSTANTS):
        raise TypeError(f"no formula has the constant {unknown[0]!r}; there are {', '.join(sorted(CONSTANTS))}")


def bound_at_the_end(
    updates: Number, formula: Callable[..., Number], constants: Mapping[str, Number], played: Number = 0, **more: Number
) -> Number:
    """`optimism_regret_bound` with a formula's radius after the last update, where det V is as large as it can be.

    Args:
        updates: after which the radius is the largest.
        formula: of the radius; it is given ``log_det_ratio`` too.
        constants: of the formula and of the bound.
        played: n, where it is not `updates`.
        more: arguments of the formula and of the bound, likewise.

    Raises:
        TypeError: for a constant that no formula has.
    """
    check_constants(constants)
    told = {**constants, **more, "log_det_ratio": at(log_det_bound, constants, updates)}
    return at(optimism_regret_bound, told, played or updates, radius=at(formula, told))


OWN_NORM = math.inf
"""S where each replication has an instance of its own: the simulator puts that instance's ||theta*||_2 in its place."""
