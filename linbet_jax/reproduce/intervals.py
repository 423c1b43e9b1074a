"""Intervals of shares and of fitted exponents; the seed is the only unit of replication."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from linbet_jax.intervals import share_interval
from linbet_jax.regret import exponent_interval

__all__ = ["Exponent", "Share", "bootstrap_exponent", "share"]

LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Share:
    """A share of seeds with its Clopper-Pearson interval, which covers at least at the level for any sample size."""

    count: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """count / total."""
        return self.count / self.total


def share(count: int, total: int, *, level: float = LEVEL) -> Share:
    """The exact binomial interval (Clopper and Pearson 1934).

    Args:
        count: seeds for which it is so.
        total: seeds, at least 1.
        level: coverage, in (0, 1).
    """
    if not 0 <= count <= total or total < 1:
        raise ValueError(f"count={count}, total={total}: must satisfy 0 <= count <= total and total >= 1")
    low, high = share_interval(count, total, level=level, method="clopper-pearson")
    return Share(count, total, low, high)


@dataclasses.dataclass(frozen=True)
class Exponent:
    """A fitted exponent with an interval; NaN where it does not exist (a mean of 0 has no logarithm).

    Attributes:
        value: slope of the log mean on the log horizon.
        low: lower end.
        high: upper end.
        seeds: replications it rests on.
        unhealthy: replications left out.
    """

    value: float
    low: float
    high: float
    seeds: int
    unhealthy: int


def bootstrap_exponent(
    horizons: ArrayLike, values: ArrayLike, health: ArrayLike, *, level: float = LEVEL, seed: int = 0
) -> Exponent:
    """Slope of the log mean over seeds on the log horizon, with a percentile bootstrap interval over seeds.

    A seed is drawn with its values at all horizons, since runs of one seed share their noise.

    Args:
        horizons: `[H]`, two different ones at least.
        values: `[S, H]`, one number per seed and horizon.
        health: `[S, H]`, health words; a seed that is unhealthy at any horizon is left out.
        level: coverage aimed at.
        seed: of the resampling, so that equal data give equal intervals.
    """
    everything, words = np.asarray(values, dtype=np.float64), np.any(np.asarray(health) != 0, axis=1)
    kept = everything[~words]
    seeds, unhealthy = kept.shape[0], everything.shape[0] - kept.shape[0]
    if seeds == 0 or np.any(kept.mean(axis=0) <= 0):
        return Exponent(np.nan, np.nan, np.nan, seeds, unhealthy)
    found = exponent_interval(horizons, everything, words, level=level, seed=seed)
    return Exponent(float(found.value), float(found.low), float(found.high), seeds, unhealthy)
