"""Intervals that need no normal law: bootstrap, order statistics, trimmed means, and intervals of a share.

As everywhere in the summaries a seed is one observation, pulls are never resampled, and a seed that met something
non-finite is counted and left out. Everything runs on the host in NumPy float64, whole curves `[S, R]` at once. Sums
are taken relative to the median: a constant series has no spread at all, values near 1e8 lose nothing, and one seed of
1e20 takes no digit from the others.

Arguments of one name mean one thing in all functions here and in `regret`: `values` are `[S]` or `[S, ...]`, seeds
first; `health` are `[S]` health words (0 is healthy), and without it a seed is healthy when all its values are finite;
`level` is the coverage of the interval, in (0, 1). Each raises ValueError for another level, for values without a seed
axis or a seed, for health of another length, and for a seed called healthy that holds a non-finite value.

References:
    Efron. Better bootstrap confidence intervals. Journal of the American Statistical Association, 1987.
    Yuen. The two-sample trimmed t for unequal population variances. Biometrika, 1974.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, stdtrit

FloatArray = NDArray[np.float64]

RESAMPLES = 2000
TRIMMED = 0.1  # cut off at each end by default
_CHUNK = 2**20  # resampled numbers in memory at once


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate:
    """One statistic over seeds with its interval; `[...]` is the shape of the statistic.

    Attributes:
        value: `[...]` the statistic over the healthy seeds; NaN when there is none.
        low: `[...]` lower end of the interval; NaN where the seeds are too few for one, -inf where nothing bounds it.
        high: `[...]` upper end.
        standard_error: `[...]` of the statistic; NaN where there is none.
        n: healthy seeds.
        seeds: seeds that were run.
        unhealthy: seeds left out because something non-finite was met.
        level: coverage the interval is built for.
        method: how it was built.
        caveat: a sentence that belongs wherever the estimate is shown; mostly empty.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    standard_error: FloatArray
    n: int
    seeds: int
    unhealthy: int
    level: float
    method: str
    caveat: str = ""

    def __repr__(self) -> str:
        """One line; of a curve its last record."""
        last = [f"{float(np.ravel(each)[-1]):.5g}" for each in (self.value, self.low, self.high) if np.size(each)]
        text = "{}, {:g}% interval {} to {}".format(last[0], 100 * self.level, *last[1:]) if last else "of no record"
        where = f" at the last of {np.size(self.value)} records" if np.ndim(self.value) else ""
        ill = f", {self.unhealthy} unhealthy" if self.unhealthy else ""
        caveat = f"; {self.caveat}" if self.caveat else ""
        return f"Estimate({text}{where}, {self.method}; {self.n} seeds{ill}{caveat})"


@dataclasses.dataclass(frozen=True, repr=False)
class Share:
    """How often one policy's regret lies below another's, seed by seed.

    Attributes:
        rate: wins / n; NaN when no seed is healthy.
        low: lower end of the interval; NaN when no seed is healthy.
        high: upper end.
        wins: seeds in which the first is strictly smaller.
        ties: seeds in which the two are equal.
        losses: seeds in which the first is strictly larger.
        n: seeds healthy in both.
        seeds: seeds that were run.
        unhealthy: seeds left out because one of the two met something non-finite.
        level: coverage the interval is built for.
        method: "wilson" or "clopper-pearson".
    """

    rate: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    n: int
    seeds: int
    unhealthy: int
    level: float
    method: str

    def __repr__(self) -> str:
        ill = f", {self.unhealthy} unhealthy" if self.unhealthy else ""
        return (
            f"Share({self.rate:.3g}, {100 * self.level:g}% interval {self.low:.3g} to {self.high:.3g}; smaller in "
            f"{self.wins}, equal in {self.ties} and larger in {self.losses} of {self.n} seeds{ill})"
        )


def check_level(level: float) -> None:
    """Raises ValueError unless the level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")


def healthy_seeds(values: ArrayLike, health: ArrayLike | None = None) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The values as float64 `[S, ...]`, and which seeds are healthy `[S]`."""
    everything = np.asarray(values, dtype=np.float64)
    if everything.ndim == 0 or everything.shape[0] == 0:
        raise ValueError(f"values must hold at least one seed along its first axis, got shape {everything.shape}")
    finite = np.isfinite(everything).reshape(everything.shape[0], -1).all(axis=1)
    healthy = finite if health is None else np.asarray(health) == 0
    if healthy.shape != finite.shape:
        raise ValueError(f"health must hold one word per seed, shape {finite.shape}, got {healthy.shape}")
    if np.any(healthy & ~finite):
        raise ValueError(
            f"seed index {int(np.argmax(healthy & ~finite))} is marked healthy but holds a non-finite value"
        )
    return everything, np.asarray(healthy, dtype=np.bool_)


def healthy_values(values: ArrayLike, health: ArrayLike | None = None) -> tuple[FloatArray, int]:
    """The healthy seeds' values `[n, ...]` and the number of seeds that were run."""
    everything, healthy = healthy_seeds(values, health)
    return everything[healthy], everything.shape[0]


def trimmed_count(proportion: float, n: int) -> int:
    """floor(proportion n), of the number that was written: in floating point 0.29 times 100 is below 29."""
    return min(math.floor(proportion * n * (1 + 1e-12)), (n - 1) // 2)


def centred_mean(values: FloatArray, centre: FloatArray) -> FloatArray:
    """Mean over the first axis, worked out relative to something in the middle of the values."""
    return np.asarray(centre + (values - centre).mean(axis=0))


def bootstrap_interval(
    values: ArrayLike,
    health: ArrayLike | None = None,
    *,
    statistic: str | Callable[..., Any] = "mean",
    method: str = "bca",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Bootstrap interval of a statistic over seeds: whole seeds are drawn again, with replacement.

    All columns of a curve are resampled with the same draws, as the rows belong together. The statistic is "mean",
    "median", or a function of (values, axis=axis of the seeds) that works on stacks of samples and on every column by
    itself; the method is "percentile", or "bca" (bias-corrected and accelerated). A generator of that seed draws the
    resamples, 2 at least: equal arguments give equal intervals. The standard error is the standard deviation over
    resamples; fewer than two healthy seeds have no interval.

    Raises:
        ValueError: an unknown statistic or method, or too few resamples.
    """
    check_level(level)
    healthy, seeds = healthy_values(values, health)
    if method not in ("percentile", "bca"):
        raise ValueError(f"method must be 'percentile' or 'bca', got {method!r}")
    if isinstance(resamples, bool) or resamples != int(resamples) or resamples < 2:
        raise ValueError(f"resamples must be a whole number, at least 2, got {resamples!r}")
    named: dict[Any, Callable[..., Any]] = {"mean": np.mean, "median": np.median}
    if isinstance(statistic, str) and statistic not in named:
        raise ValueError(f"statistic must be 'mean', 'median' or a function, got {statistic!r}")
    function = named[statistic] if isinstance(statistic, str) else statistic
    n = healthy.shape[0]
    # Nothing says that a function moves along with the data.
    offset = np.median(healthy, axis=0) if isinstance(statistic, str) and n else np.zeros(())
    sample = healthy - offset
    value = offset + np.asarray(function(sample if n else np.ones((1, *sample.shape[1:])), axis=0), dtype=np.float64)
    nothing = np.full(value.shape, np.nan)
    if n < 2:
        value = value if n else nothing
        return Estimate(value, nothing, nothing, nothing, n, seeds, seeds - n, level, method)
    from scipy import stats  # slow to import

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        drawn = stats.bootstrap(
            (sample,),
            function,
            n_resamples=int(resamples),
            batch=max(1, _CHUNK // sample.size),
            vectorized=True,
            confidence_level=level,
            method={"bca": "BCa"}.get(method, method),
            rng=np.random.default_rng(seed),
        )
    # A constant series has no BCa interval: the percentiles are exact there.
    plain = np.quantile(drawn.bootstrap_distribution, [(1 - level) / 2, (1 + level) / 2], axis=-1)
    low, high = offset + np.where(np.isnan(drawn.confidence_interval), plain, drawn.confidence_interval)
    return Estimate(value, low, high, drawn.standard_error, n, seeds, seeds - n, level, method)


def quantile_interval(
    values: ArrayLike, probability: float = 0.5, health: ArrayLike | None = None, *, level: float = 0.95
) -> Estimate:
    """A quantile over seeds between two order statistics, whatever the law of the values.

    The ends are the ranks l and u of the narrowest tails that the binomial law allows:
    P(Bin(n, p) < l) and P(Bin(n, p) >= u) are at most (1 - level) / 2 each.

    The probability p lies in (0, 1); the interval covers at least as often as its level says. The quantile itself is
    interpolated linearly and kept inside its interval. An end that no order statistic can be is infinite: the seeds are
    too few to bound the quantile there, which the caveat says. The standard error is NaN, as none is used.
    """
    check_level(level)
    if not 0 < probability < 1:
        raise ValueError(f"probability must lie strictly between 0 and 1, got {probability}")
    healthy, seeds = healthy_values(values, health)
    n, nothing = healthy.shape[0], np.full(healthy.shape[1:], np.nan)
    if n == 0:
        return Estimate(nothing, nothing, nothing, nothing, 0, seeds, seeds, level, "order statistics")
    ordered = np.sort(healthy, axis=0)
    tail = (1 - level) / 2 * (1 + 1e-12)  # a tail that is exact on paper counts
    ranks = np.arange(n)
    lower = int(np.sum(bdtr(ranks, n, probability) <= tail))  # the largest l with P(Bin <= l - 1) <= tail
    upper = n + 1 - int(np.sum(bdtrc(ranks, n, probability) <= tail))  # the smallest u with P(Bin >= u) <= tail
    low = ordered[lower - 1] if lower >= 1 else np.full_like(nothing, -np.inf)
    high = ordered[upper - 1] if upper <= n else np.full_like(nothing, np.inf)
    value = np.asarray(np.clip(np.quantile(healthy, probability, axis=0), low, high))
    unbounded = ["below"] * (lower < 1) + ["above"] * (upper > n)
    caveat = f"{n} seed{'s' * (n > 1)} cannot bound the {probability:g}-quantile from {' and '.join(unbounded)}"
    caveat = caveat if unbounded else ""
    return Estimate(value, low, high, nothing, n, seeds, seeds - n, level, "order statistics", caveat)


def trimmed_mean(
    values: ArrayLike, health: ArrayLike | None = None, *, proportion: float = TRIMMED, level: float = 0.95
) -> Estimate:
    """Mean without the g = floor(proportion n) smallest and largest seeds, with Yuen's standard error.

    The proportion lies in [0, 0.5). The standard error is sqrt(SSD_w / (h (h - 1))), h = n - 2g, with SSD_w the squared
    deviations of the Winsorised values; NaN for h < 2. The Student-t interval has h - 1 degrees of freedom.
    """
    check_level(level)
    if not 0 <= proportion < 0.5:
        raise ValueError(f"proportion must lie in [0, 0.5), got {proportion}")
    healthy, seeds = healthy_values(values, health)
    n, nothing = healthy.shape[0], np.full(healthy.shape[1:], np.nan)
    value = low = high = error = nothing
    cut = trimmed_count(proportion, n)
    if n > 0:
        rest = n - 2 * cut
        ordered = np.sort(healthy, axis=0)
        centre = ordered[n // 2]
        value = centred_mean(ordered[cut : n - cut], centre)
        if rest > 1:
            winsorised = np.clip(ordered, ordered[cut], ordered[n - cut - 1]) - centre
            error = np.sqrt(winsorised.var(axis=0) * n / (rest * (rest - 1)))
            half = float(stdtrit(rest - 1, 0.5 + level / 2)) * error
            low, high = value - half, value + half
    return Estimate(value, low, high, error, n, seeds, seeds - n, level, f"trimmed {proportion:g}")


def share_interval(count: int, n: int, *, level: float = 0.95, method: str = "wilson") -> tuple[float, float]:
    """Interval (low, high) of a binomial share from `count` successes in n trials; no trial has no interval.

    The method is "wilson" (coverage near the level), or "clopper-pearson" (never below it).

    Raises:
        ValueError: an unknown method, or a count that is not a whole number in [0, n].
    """
    check_level(level)
    scipy_names = {"wilson": "wilson", "clopper-pearson": "exact"}
    if method not in scipy_names:
        raise ValueError(f"method must be 'wilson' or 'clopper-pearson', got {method!r}")
    if not 0 <= count <= n or count != int(count):
        raise ValueError(f"count must be a whole number in [0, {n}], got {count}")
    if n == 0:
        return math.nan, math.nan
    from scipy import stats  # slow to import

    low, high = stats.binomtest(int(count), n).proportion_ci(level, method=scipy_names[method])
    return float(low), float(high)


def win_rate(
    first: ArrayLike,
    second: ArrayLike,
    first_health: ArrayLike | None = None,
    second_health: ArrayLike | None = None,
    *,
    level: float = 0.95,
    method: str = "wilson",
) -> Share:
    """Share of seeds in which the first value (a final regret) is the smaller one; a tie is no win.

    Both are `[S]`, of the same seeds in the same order. The share is over seeds that are healthy in both; its interval
    is that of `share_interval`.

    Raises:
        ValueError: the shapes differ or are not `[S]`.
    """
    (a, well), (b, also) = healthy_seeds(first, first_health), healthy_seeds(second, second_health)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"first and second must be [S], a number for each seed, got shapes {a.shape} and {b.shape}")
    healthy = well & also
    n = int(healthy.sum())
    wins, ties = int(np.sum(a[healthy] < b[healthy])), int(np.sum(a[healthy] == b[healthy]))
    low, high = share_interval(wins, n, level=level, method=method)
    rate = wins / n if n else math.nan
    return Share(rate, low, high, wins, ties, n - wins - ties, n, a.size, a.size - n, level, method)
