"""Intervals of shares and of fitted exponents; the seed is the only unit of replication."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from linbet_jax.regret import fitted_exponent

__all__ = ["Exponent", "Share", "bootstrap_exponent", "share"]

RESAMPLES = 2000
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
    tail = (1 - level) / 2
    low = float(betaincinv(count, total - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 1 - tail)) if count < total else 1.0
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
    t, everything = np.asarray(horizons, dtype=np.float64), np.asarray(values, dtype=np.float64)
    kept = everything[~np.any(np.asarray(health) != 0, axis=1)]
    seeds, unhealthy = kept.shape[0], everything.shape[0] - kept.shape[0]
    if seeds == 0 or np.any(kept.mean(axis=0) <= 0):
        return Exponent(np.nan, np.nan, np.nan, seeds, unhealthy)
    value = fitted_exponent(t, kept.mean(axis=0))
    drawn = np.random.default_rng(seed).integers(0, seeds, (RESAMPLES, seeds))
    means = kept[drawn].mean(axis=1)
    means = means[np.all(means > 0, axis=1)]
    if seeds < 2 or means.shape[0] < RESAMPLES:  # a resample without regret has no slope: neither have its quantiles
        return Exponent(value, np.nan, np.nan, seeds, unhealthy)
    low, high = np.quantile(_slopes(t, means), [(1 - level) / 2, (1 + level) / 2])
    return Exponent(value, float(low), float(high), seeds, unhealthy)


def _slopes(horizons: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least-squares slopes `[B]` of log means `[B, H]` on log horizons `[H]`."""
    x = np.log(horizons) - np.log(horizons).mean()
    slopes: NDArray[np.float64] = np.log(means) @ x / (x @ x)
    return slopes
