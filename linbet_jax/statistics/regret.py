"""Summaries of what `simulate` returns: the seed is the only unit of replication.

Pulls of one run are dependent, so no summary here averages over time: ten seeds of a thousand pulls are ten
observations. Everything runs on the host in NumPy float64, outside the jitted core. A seed that met a non-finite number
has no place in an average and is never dropped in silence: `Summary.unhealthy` counts what was left out.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from linbet_jax.simulation.notebook import html_table
from linbet_jax.statistics.intervals import (
    RESAMPLES,
    TRIMMED,
    Estimate,
    Share,
    bootstrap_interval,
    centred_mean,
    check_level,
    healthy_seeds,
    healthy_values,
    quantile_interval,
    share_interval,
    trimmed_count,
    trimmed_mean,
    win_rate,
)

if TYPE_CHECKING:
    from linbet_jax.simulation.results import Result

__all__ = [
    "Estimate",
    "Rank",
    "Share",
    "Summary",
    "bootstrap_interval",
    "exponent_interval",
    "final_payoff",
    "final_regret",
    "fitted_exponent",
    "paired_difference",
    "quantile_interval",
    "rank_table",
    "share_interval",
    "summarize",
    "trimmed_mean",
    "win_rate",
]

FloatArray = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """Statistics over seeds; `[...]` is the shape of one seed's value (`[]` or `[R]` records).

    Attributes:
        values: `[n, ...]` the healthy seeds' values, in the order of the seeds.
        seeds: number of seeds that were run, healthy or not.
        unhealthy: number of seeds left out because something non-finite was met.
        mean: `[...]` mean over the healthy seeds; NaN when there is none.
        sd: `[...]` standard deviation with divisor n - 1; NaN for fewer than two seeds.
        standard_error: `[...]` sd / sqrt(n); NaN for fewer than two seeds.
        low: `[...]` lower end of the Student-t interval of the mean; NaN (no band) for one seed.
        high: `[...]` upper end of the same interval.
        median: `[...]` median over the healthy seeds.
        trimmed_mean: `[...]` mean without a tenth of the healthy seeds at each end (nothing is cut below ten seeds).
            One seed far out rules the mean and its interval, but neither this nor the median.
        level: coverage the interval is built for, e.g. 0.95.
    """

    values: FloatArray
    seeds: int
    unhealthy: int
    mean: FloatArray
    sd: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray
    median: FloatArray
    trimmed_mean: FloatArray
    level: float

    def __repr__(self) -> str:
        """One line; of a curve its last record."""
        last = {
            name: float(np.ravel(getattr(self, name))[-1])
            for name in ("mean", "low", "high", "median")
            if np.size(self.mean)
        }
        shown = "mean {mean:.5g}, {level:g}% interval {low:.5g} to {high:.5g}, median {median:.5g}"
        where = f" at the last of {np.size(self.mean)} records" if np.ndim(self.mean) else ""
        ill = f", {self.unhealthy} unhealthy" if self.unhealthy else ""
        text = shown.format(**last, level=100 * self.level) if last else "of no record"
        return f"Summary({text}{where}; {self.n} seeds{ill})"

    def _repr_html_(self) -> str:
        """A table in a notebook; of a curve its last record."""
        rows = {"seeds": f"{self.n} of {self.seeds}, the others unhealthy" if self.unhealthy else f"{self.n}"}
        if np.ndim(self.mean):
            rows["record"] = f"the last of {np.size(self.mean)}" if np.size(self.mean) else "none"
        if np.size(self.mean):
            numbers = (self.mean, self.low, self.high, self.median, *self.quantile((0.9, 0.99)), self.sd)
            mean, low, high, *others = (f"{float(np.ravel(values)[-1]):.5g}" for values in numbers)
            rows |= {"mean": mean, f"{100 * self.level:g}% interval": f"{low} to {high}"}
            rows |= dict(zip(("median", "0.9 quantile", "0.99 quantile", "sd"), others, strict=True))
        return html_table(rows.items())

    @property
    def n(self) -> int:
        """Number of seeds the statistics rest on."""
        return self.values.shape[0]

    @property
    def has_band(self) -> bool:
        """Whether an interval exists at all: two healthy seeds or more."""
        return self.n > 1

    def exceeding(self, threshold: float) -> Estimate:
        """Share of the healthy seeds whose value is above a threshold: how likely a run is that costs more than that.

        The share is `[...]`, with its Clopper-Pearson interval at this summary's level; NaN where no seed is healthy.

        Raises:
            ValueError: a threshold that is no number.
        """
        value: Any = threshold
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value):
            raise ValueError(f"threshold={threshold!r}: must be a number")
        counts = np.asarray(np.count_nonzero(self.values > threshold, axis=0))
        nothing = np.full(counts.shape, np.nan)
        ends = [share_interval(int(c), self.n, level=self.level, method="clopper-pearson") for c in counts.flat]
        low, high = np.array(ends).reshape(-1, 2).T.reshape(2, *counts.shape)
        share = np.asarray(counts / self.n) if self.n else nothing
        return Estimate(share, low, high, nothing, self.n, self.seeds, self.unhealthy, self.level, "clopper-pearson")

    def quantile(self, probability: float | Sequence[float]) -> FloatArray:
        """Quantiles over the healthy seeds (linear interpolation); NaN when no seed is healthy.

        They are `[...]` for one probability in [0, 1], and `[Q, ...]` for several.

        Raises:
            ValueError: a probability outside [0, 1].
        """
        probabilities = np.asarray(probability, dtype=np.float64)
        if not np.all((probabilities >= 0) & (probabilities <= 1)):
            raise ValueError(f"probability must lie in [0, 1], got {probability}")
        if self.n == 0:
            return np.full(probabilities.shape + self.values.shape[1:], np.nan)
        return np.asarray(np.quantile(self.values, probabilities, axis=0), dtype=np.float64)


def summarize(values: ArrayLike, health: ArrayLike | None = None, *, level: float = 0.95) -> Summary:
    """Summarise one number `[S]`, or one curve `[S, ...]`, per seed.

    The median is subtracted before anything is squared or added, so that a constant series has standard deviation 0
    exactly, values near 1e8 lose nothing, and one seed of 1e20 takes no digit from the others. A seed with a health
    word `[S]` other than 0, or without such words with a non-finite value, is left out and counted as `unhealthy`.

    Raises:
        ValueError: as every function of `intervals`.
    """
    check_level(level)
    healthy, seeds = healthy_values(values, health)
    n, nothing = healthy.shape[0], np.full(healthy.shape[1:], np.nan)
    mean = sd = error = low = high = median = trimmed = nothing
    if n > 0:
        ordered = np.sort(healthy, axis=0)
        median = ordered[(n - 1) // 2] / 2 + ordered[n // 2] / 2
        cut = trimmed_count(TRIMMED, n)
        mean, trimmed = centred_mean(healthy, median), centred_mean(ordered[cut : n - cut], median)
    if n > 1:
        apart = healthy - median
        unit = np.where(np.abs(apart).max(axis=0) > 1e150, 2.0**500, 1.0)  # squares of more would overflow
        sd = (apart / unit).std(axis=0, ddof=1) * unit
        error = sd / np.sqrt(n)
        half = float(stdtrit(n - 1, 0.5 + level / 2)) * error
        low, high = mean - half, mean + half
    mean, sd, error, low, high, median, trimmed = map(np.asarray, (mean, sd, error, low, high, median, trimmed))
    return Summary(healthy, seeds, seeds - n, mean, sd, error, low, high, median, trimmed, level)


def paired_difference(
    first: ArrayLike | Result,
    second: ArrayLike | Result,
    first_health: ArrayLike | None = None,
    second_health: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Summary:
    """Summarise `first - second` seed by seed.

    Under common random numbers (one key, the same seeds) the two runs met the same noise, so that a comparison should
    rest on the spread of the differences, not of the runs. Both are `[S, ...]` values of the same seeds in the same
    order, with health words `[S]`, or a `Result`, which stands for its final regret and health. A seed counts as
    unhealthy when either of the two runs is. Runs of two bandits, told apart by their names, or of two horizons are
    compared by their values.

    Raises:
        ValueError: the shapes differ, or two results are of different seeds, keys, bandits or horizons.
    """
    pair: list[Any] = [first, second]
    words = [first_health, second_health]
    results = [hasattr(run, "regret") for run in pair]
    if all(results):
        _check_pair(*pair)
    for place in np.flatnonzero(results):
        pair[place], words[place] = pair[place].regret[:, -1], pair[place].health
    shapes = [np.shape(values) for values in pair]
    if shapes[0] != shapes[1]:
        raise ValueError(f"paired runs must have one shape, got {shapes[0]} and {shapes[1]}")
    (a, well), (b, also) = map(healthy_seeds, pair, words)
    with np.errstate(invalid="ignore"):  # infinity minus infinity, in a seed that is left out
        difference = a - b
    return summarize(difference, ~(well & also), level=level)


def _check_pair(first: Result, second: Result) -> None:
    """Two results must be of the same seeds under one key, else a seed does not meet the same noise in both."""
    if not np.array_equal(first.seeds, second.seeds):
        raise ValueError("paired results must be of the same seeds in the same order")
    for what, field in (("key", "key"), ("generator", "prng"), ("bandit", "bandit"), ("horizon", "rounds")):
        ours, theirs = (getattr(run, field, None) for run in (first, second))
        if ours is None or theirs is None:  # a cell's rows hold neither key nor bandit
            continue
        if what == "horizon":
            ours, theirs = ours[-1], theirs[-1]
        if not np.array_equal(ours, theirs):
            raise ValueError(
                f"paired results must be of one {what}, got {ours} and {theirs}; compare values, regret[:, -1] for"
                " example, where this is meant"
            )


def final_regret(result: Result, *, level: float = 0.95) -> Summary:
    """Summary of the cumulative pseudo-regret `[S]` at the horizon."""
    return summarize(result.regret[:, -1], result.health, level=level)


def final_payoff(result: Result, *, level: float = 0.95) -> Summary:
    """Summary of the cumulative realised payoff `[S]` at the horizon."""
    return summarize(result.payoff[:, -1], result.health, level=level)


def fitted_exponent(horizons: ArrayLike, regrets: ArrayLike) -> float:
    """Slope of log regret on log horizon by least squares: the measured growth rate `R_T ~ T^slope`.

    Args:
        horizons: `[H]` horizons (pulls), two different ones at least.
        regrets: `[H]` mean regret at each horizon, all positive.

    Returns:
        The fitted exponent; 0 exactly for equal regrets. From two horizons it is the slope of a line through two
        points: say so where it is shown.

    Raises:
        ValueError: the shapes differ, a number is not positive and finite, or all horizons are equal.
    """
    t, r = np.asarray(horizons, dtype=np.float64), np.asarray(regrets, dtype=np.float64)
    if t.ndim != 1 or t.shape != r.shape:
        raise ValueError(f"horizons and regrets must be two lists of one length, got shapes {t.shape} and {r.shape}")
    for name, array in (("horizons", t), ("regrets", r)):
        bad = ~(np.isfinite(array) & (array > 0))
        if bad.any():
            raise ValueError(f"{name} must be positive and finite for a log-log fit, got {array[bad][0]}")
    if t.size < 2 or np.all(t == t[0]):
        raise ValueError(f"horizons must hold at least two different values, got {t.tolist()}")
    x, y = _log_ratio(t), _log_ratio(r)
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def exponent_interval(
    horizons: ArrayLike,
    regrets: ArrayLike,
    health: ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Fitted exponent of regret in T with a percentile bootstrap interval over seeds.

    The value is `fitted_exponent` of the mean regrets. A resample draws whole seeds, each with its regrets at all
    horizons (they share the noise), takes the means anew and fits again: the seeds, not the horizons, are the sample.
    The interval says nothing about a growth that is no power of T.

    Args:
        horizons: `[H]` horizons (pulls), two different ones at least.
        regrets: `[S, H]` final regret of each seed at each horizon.
        health: `[S, H]` or `[S]` health words; a seed counts when it is healthy at every horizon.
        level: of the interval, in (0, 1).
        resamples: number of resampled sets of seeds.
        seed: of the generator that draws them.

    Returns:
        The exponent with its interval; no interval for a single seed, or where a resample has mean regret 0. Two
        horizons give a line through two points, which the caveat says.

    Raises:
        ValueError: wrong shapes, no healthy seed, or as in `fitted_exponent` and `bootstrap_interval`.
    """
    t, values = np.asarray(horizons, dtype=np.float64), np.asarray(regrets, dtype=np.float64)
    if values.ndim != 2 or t.shape != values.shape[1:]:
        raise ValueError(f"regrets must be [seeds, horizons], got shapes {values.shape} for {t.shape} horizons")
    shape = None if health is None else np.shape(health)
    if shape not in (None, values.shape, values.shape[:1]):
        raise ValueError(f"health must be {list(values.shape)} or [{values.shape[0]}], got the shape {shape}")
    words = None if health is None else np.asarray(health).reshape(values.shape[0], -1).any(axis=1)
    healthy, seeds = healthy_values(values, words)
    if healthy.shape[0] == 0:
        raise ValueError(f"none of the {seeds} seeds is healthy at every horizon")
    value = np.asarray(fitted_exponent(t, healthy.mean(axis=0)))
    x = _log_ratio(t)
    weights = (x - x.mean()) / ((x - x.mean()) @ (x - x.mean()))

    def slope(seeds: FloatArray, *, axis: int) -> FloatArray:
        means = healthy[np.moveaxis(seeds, axis, -1).astype(np.int64)].mean(axis=-2)
        with np.errstate(divide="ignore", invalid="ignore"):  # a mean of 0 has no logarithm
            logs = _log_ratio(means)
            return np.asarray(np.where(np.isfinite(logs), logs, np.nan) @ weights)

    drawn = bootstrap_interval(
        np.arange(healthy.shape[0]), statistic=slope, method="percentile", level=level, resamples=resamples, seed=seed
    )
    caveat = "a line through two points: two horizons do not show a power of T" if np.unique(t).size == 2 else ""
    return dataclasses.replace(drawn, value=value, seeds=seeds, unhealthy=seeds - drawn.n, caveat=caveat)


@dataclasses.dataclass(frozen=True)
class Rank:
    """A policy's place among several, seed by seed.

    Attributes:
        name: of the policy.
        summary: of its rank (1: the smallest regret; equal regrets share the mean of their ranks) over the seeds.
        first: share of seeds in which every other has a larger regret; a tie is not a win.
        tied: share of seeds in which it has the smallest regret together with others.
    """

    name: str
    summary: Summary
    first: float
    tied: float


def rank_table(
    regrets: Mapping[str, ArrayLike], health: Mapping[str, ArrayLike] | None = None, *, level: float = 0.95
) -> tuple[Rank, ...]:
    """Policies by their mean rank over seeds.

    Args:
        regrets: name to `[S]` final regrets, all of the same seeds in the same order.
        health: name to `[S]` health words. A seed counts when it is healthy for every policy, as a rank among fewer
            would be another thing.
        level: of the interval of the mean rank.

    Returns:
        One entry per policy, the smallest mean rank first, equal ones in the order given; without a healthy seed all
        ranks are NaN.

    Raises:
        ValueError: no policy, or lists of several lengths.
    """
    if not regrets:
        raise ValueError("regrets must hold at least one policy")
    values = [np.asarray(v, dtype=np.float64) for v in regrets.values()]
    if values[0].ndim != 1 or any(v.shape != values[0].shape for v in values):
        raise ValueError(f"regrets must be lists of one length, got shapes {[v.shape for v in values]}")
    if health is not None and set(health) != set(regrets):
        raise ValueError(f"health must name the same policies, got {sorted(health)} for {sorted(regrets)}")
    words = [None if health is None else health[name] for name in regrets]
    healthy = np.all([healthy_seeds(v, word)[1] for v, word in zip(values, words, strict=True)], axis=0)
    from scipy import stats  # slow to import

    table = np.stack(values, axis=1)
    ranks = np.where(healthy[:, None], stats.rankdata(table, axis=1), np.nan)
    smallest = (table == table.min(axis=1, keepdims=True))[healthy]
    alone = smallest & (smallest.sum(axis=1, keepdims=True) == 1)
    nobody = np.full(len(words), np.nan)
    first, tied = (hits.mean(axis=0) if healthy.any() else nobody for hits in (alone, smallest & ~alone))
    policies = [
        Rank(name, summarize(ranks[:, place], ~healthy, level=level), float(first[place]), float(tied[place]))
        for place, name in enumerate(regrets)
    ]
    return tuple(sorted(policies, key=lambda rank: float(np.nan_to_num(rank.summary.mean, nan=np.inf))))


def _log_ratio(values: FloatArray) -> FloatArray:
    """Log of values over the first one of each row, exact also where the ratio is within rounding of 1."""
    first = values[..., :1]
    near = (values > 0.5 * first) & (values < 2 * first)
    close = np.where(near, (values - first) / first, 0.0)
    return np.where(near, np.log1p(close), np.log(values) - np.log(first))
