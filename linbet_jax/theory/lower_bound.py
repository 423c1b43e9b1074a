"""The lower bound (Theorem 1)."""

from __future__ import annotations

import math

from linbet_jax.theory.common import Number


def lower_bound_gap(horizon: Number, *, epsilon: Number) -> Number:
    """Delta = T^{-eps/(1+eps)} / 12, the gap of the lower bound's construction (proof of Theorem 1)."""
    return horizon ** (-epsilon / (1 + epsilon)) / 12


def lower_bound_regret(horizon: Number, *, dim: int, epsilon: Number) -> Number:
    """(d / 192) T^{1/(1+eps)}, below which no policy's expected regret lies (Theorem 1; even d)."""
    return dim / 192 * horizon ** (1 / (1 + epsilon))


def lower_bound_smallest_horizon(*, dim: int, epsilon: float) -> int:
    """The smallest T with Delta <= 1/d: T >= (d/12)^{(1+eps)/eps}.

    Deviations: Theorem 1 prints the exponent eps/(1+eps), the inverse of what Delta <= 1/d needs.
    """
    return max(1, math.ceil((dim / 12) ** ((1 + epsilon) / epsilon) * (1 - 1e-12)))
