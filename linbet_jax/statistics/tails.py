"""Tail indices of measured numbers: which moments a sample supports, by three estimators that assume no law.

If P(X > x) falls like x^-alpha, moments of order p are finite for p < alpha. All three estimate 1/alpha, the extreme
value index, from the k largest numbers. None knows which k is right: a small one leaves noise, a large one leaves the
tail. So each is computed for many k, to be looked at as a curve, and `usual_count` is one k for a number in a table.

References:
    Hill. A simple general approach to inference about the tail of a distribution. Annals of Statistics, 1975.
    Pickands. Statistical inference using extreme order statistics. Annals of Statistics, 1975.
    Dekkers, Einmahl, de Haan. A moment estimator for the index of an extreme-value distribution. Annals of Statistics,
        1989.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincinv, ndtri

from linbet_jax.statistics.intervals import check_level

__all__ = ["ESTIMATORS", "TailCurve", "TailIndex", "hill", "moment", "pickands", "usual_count"]

FloatArray = NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray, FloatArray]  # an index, and its interval's lower and upper end
SMALLEST = 20  # numbers that an estimate needs
POINTS = 100  # of a curve


class TailIndex(NamedTuple):
    """A tail index at one k.

    Attributes:
        alpha: the index; infinite where the tail looks lighter than every power.
        low: lower end of its interval.
        high: upper end; infinite where a light tail cannot be ruled out.
        k: the number of order statistics.
    """

    alpha: float
    low: float
    high: float
    k: int


class TailCurve(NamedTuple):
    """A tail index against the number of order statistics.

    Attributes:
        method: "Hill", "moment" or "Pickands".
        counts: `[m]` increasing k.
        alpha: `[m]` the index at each; infinite where the estimate of 1/alpha is not positive.
        low: `[m]` lower ends of the intervals.
        high: `[m]` upper ends.
        usual: the index at `usual_count`.
    """

    method: str
    counts: NDArray[np.int64]
    alpha: FloatArray
    low: FloatArray
    high: FloatArray
    usual: TailIndex


def usual_count(size: int) -> int:
    """k for a sample of this size: its root, at least 50, a tenth of it at most. The rule looks at no number."""
    return max(4, min(max(50, math.ceil(math.sqrt(size))), size // 10))


def hill(values: ArrayLike, counts: Sequence[int] | None = None, *, level: float = 0.95) -> TailCurve:
    """Hill's estimator of the upper tail: 1/alpha is the mean log excess over the (k+1)-th largest number.

    The interval is exact for Pareto numbers, where k alpha / (Hill's alpha) has a Gamma(k) law; elsewhere it is right
    as far as the k largest numbers look like a Pareto law's.

    Args:
        values: `[n]` finite numbers, at least 20; the largest must be positive.
        counts: whole k with a positive (k+1)-th largest number, and no fewer than there are numbers equal to the
            largest; by default some 100 of them.
        level: coverage of the intervals, in (0, 1).

    Raises:
        ValueError: anything else.
    """

    def at(top: FloatArray, counts: NDArray[np.int64]) -> Ends:
        gamma = _log_excess(top, counts, 1)
        low, high = (gammaincinv(counts, share) / counts / gamma for share in ((1 - level) / 2, (1 + level) / 2))
        return 1.0 / gamma, low, high

    return _curve("Hill", at, values, counts, 1, level)


def moment(values: ArrayLike, counts: Sequence[int] | None = None, *, level: float = 0.95) -> TailCurve:
    """The moment estimator of Dekkers, Einmahl and de Haan, which tells light tails from heavy ones.

    1/alpha is M1 + 1 - 1 / (2 (1 - M1^2 / M2)), M1 and M2 the mean log excess and the mean of its square. Arguments as
    in `hill`, but that k is at least 2 and more than there are numbers equal to the largest: equal excesses say
    nothing. The interval is the asymptotic normal one, of variance (1 + 1/alpha^2) / k.
    """

    def at(top: FloatArray, counts: NDArray[np.int64]) -> Ends:
        first, second = (_log_excess(top, counts, power) for power in (1, 2))
        equal = first * first >= second * (1.0 - 1e-12)
        gamma = first + 1.0 - 0.5 / (1.0 - np.where(equal, 0.0, first * first / second))
        g = np.minimum(gamma, 0.0)
        light = (1 - g) ** 2 * (1 - 2 * g)
        light *= 4 - 8 * (1 - 2 * g) / (1 - 3 * g) + (5 - 11 * g) * (1 - 2 * g) / ((1 - 3 * g) * (1 - 4 * g))
        return _inverted(gamma, np.sqrt(np.where(gamma > 0, 1 + gamma * gamma, light) / counts), level, equal)

    return _curve("moment", at, values, counts, 1, level, least=2)


def pickands(values: ArrayLike, counts: Sequence[int] | None = None, *, level: float = 0.95) -> TailCurve:
    """Pickands' estimator, which does not move when the numbers are shifted: its price is a wide interval.

    1/alpha is log2 of (X_k - X_2k) / (X_2k - X_4k), X_i the i-th largest number; where equal numbers leave a difference
    of 0 nothing is known, and the interval is 0 to infinity. Arguments as in `hill`, but that 4k is at most n; a
    curve's counts are 4k, the numbers that were used. The interval is the asymptotic normal one.
    """

    def at(top: FloatArray, counts: NDArray[np.int64]) -> Ends:
        k = counts // 4
        above, below = top[k - 1] - top[2 * k - 1], top[2 * k - 1] - top[4 * k - 1]
        equal = (above == 0) | (below == 0)
        gamma = np.log2(np.where(equal, 1.0, above) / np.where(equal, 1.0, below))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.where(np.abs(gamma) < 1e-6, 1 / math.log(2.0), gamma / np.expm1(gamma * math.log(2.0)))
        error = slope * np.sqrt((2.0 ** (2 * gamma + 1) + 1) / k) / (2 * math.log(2.0))
        return _inverted(gamma, error, level, equal)

    return _curve("Pickands", at, values, counts, 4, level)


ESTIMATORS: dict[str, Callable[..., TailCurve]] = {"hill": hill, "moment": moment, "pickands": pickands}


def _curve(
    method: str,
    at: Callable[[FloatArray, NDArray[np.int64]], Ends],
    values: ArrayLike,
    counts: Sequence[int] | None,
    step: int,
    level: float,
    least: int = 1,
) -> TailCurve:
    """The estimates at all counts, multiples of `step`, and at the usual one; `least` is the least k without ties."""
    check_level(level)
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or numbers.size < SMALLEST:
        raise ValueError(f"values must be a list of at least {SMALLEST} finite numbers, got shape {numbers.shape}")
    if not np.isfinite(numbers).all():
        place = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"values must be finite, got {float(numbers[place])!r} at index {place}")
    top = np.sort(numbers)[::-1]
    most = top.size if step > 1 else int(np.count_nonzero(top > 0)) - 1
    if most < 4 or top[0] == top[min(most, top.size - 1)]:
        raise ValueError(f"values must hold more than 4 positive numbers that differ, the largest is {top[0]:g}")
    # Equal numbers at the top have no excess: nothing can be estimated before the first that is smaller.
    ties = int(np.count_nonzero(top == top[0]))
    least, most_k = max(least, math.ceil((ties + least - 1) / step)), most // step
    first = step * min(max(2, least), most_k)
    usual = min(max(step * (usual_count(top.size) // step), first), step * most_k)
    if counts is None:
        chosen = np.unique(np.geomspace(first, most, POINTS).astype(np.int64) // step * step)
        chosen = chosen[chosen >= first]
    else:
        given = np.asarray(counts)
        if given.ndim != 1 or given.dtype.kind not in "iuf":
            raise ValueError(f"counts must be a list of whole numbers, got {counts!r}")
        bad = given[(given < least) | (given > most_k) | (given != np.floor(given))]
        if bad.size:
            reason = f", as the {ties} largest numbers are equal" if ties > 1 else ""
            raise ValueError(f"counts must be whole numbers from {least} to {most_k}{reason}, got {bad.tolist()}")
        chosen = step * given.astype(np.int64)
    alpha, low, high = at(top, np.append(chosen, usual))
    last = TailIndex(float(alpha[-1]), float(low[-1]), float(high[-1]), usual)
    return TailCurve(method, chosen, alpha[:-1], low[:-1], high[:-1], last)


def _log_excess(top: FloatArray, counts: NDArray[np.int64], power: int) -> FloatArray:
    """Mean of (log X_i - log X_(k+1))^power over the k largest numbers, for every k."""
    logs = np.log(top[: int(counts.max()) + 1])
    logs -= logs[-1]
    base, first = logs[counts], np.cumsum(logs)[counts - 1] / counts
    if power == 1:
        return np.asarray(first - base)
    second = np.cumsum(logs * logs)[counts - 1] / counts
    return np.asarray(second - 2 * base * first + base * base)


def _inverted(gamma: FloatArray, error: FloatArray, level: float, equal: NDArray[np.bool_]) -> Ends:
    """Alpha = 1/gamma and its interval, infinite where gamma is not positive; no estimate where numbers are equal."""
    half = float(ndtri((1 + level) / 2)) * error
    with np.errstate(divide="ignore"):
        alpha, low, high = (1.0 / np.maximum(value, 0.0) for value in (gamma, gamma + half, gamma - half))
    return np.where(equal, np.inf, alpha), np.where(equal, 0.0, low), np.where(equal, np.inf, high)
