"""Tuning alike: one grid of radius scales, one criterion and one set of tuning seeds for every policy.

Tuning replications draw from a key of their own (`tuning_key`), so that an evaluation under the original key meets no
random number that a scale was chosen on.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import dataset
from linbet_jax.policies import make_policy
from linbet_jax.policies.policy import Policy
from linbet_jax.simulation.checks import check_on_host, whole_number
from linbet_jax.simulation.display import ProgressChoice, check_progress, showing
from linbet_jax.simulation.simulator import simulate_grid
from linbet_jax.statistics.regret import Summary, summarize

GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
TUNING = 2**32 - 1  # folded into the key for tuning; seeds count up from 0 and stay below it

Maker = Callable[[LinearBandit], tuple[Policy, Any]]  # a bandit -> a policy and its parameters


@dataclasses.dataclass(frozen=True, repr=False)
class TuningCurve:
    """Final regret of one policy on one bandit against the scale of its radii, on tuning replications.

    Attributes:
        policy: its name, as `tune` was given it.
        bandit: the bandit's name, likewise.
        horizon: T, pulls.
        grid: `[G]` the scales.
        criterion: "mean", "median", or the probability of a quantile.
        regret: `[G, N]` pseudo-regret at the horizon, by scale and tuning seed.
        health: `[G, N]` health words.
        chosen: the scale of the least criterion; among equals the largest, the one nearest to the paper's; 1 when no
            scale is healthy throughout.
        notes: sentences that must travel with the numbers.
        reruns: replications that were repeated with a larger buffer.
        compile_seconds: spent compiling.
        run_seconds: spent running.
    """

    policy: str
    bandit: str
    horizon: int
    grid: tuple[float, ...]
    criterion: str | float
    regret: npt.NDArray[np.float64]
    health: npt.NDArray[np.int64]
    chosen: float
    notes: tuple[str, ...] = ()
    reruns: int = 0
    compile_seconds: float = 0.0
    run_seconds: float = 0.0

    def __repr__(self) -> str:
        edge = ", an end of the grid" if self.at_edge else ""
        return f"TuningCurve({self.policy} on {self.bandit}: {self.chosen:g} of {len(self.grid)} scales{edge})"

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """`[G]` the criterion of each scale; NaN for one with an unhealthy replication, which cannot be chosen."""
        return _criterion_values(self.regret, self.health, self.criterion)

    @property
    def summaries(self) -> list[Summary]:
        """`[G]` mean, interval and quantiles of the final regret at each scale, over its healthy seeds."""
        return [summarize(r, h) for r, h in zip(self.regret, self.health, strict=True)]

    def optimism(self, seeds: int) -> Summary:
        """How much too good the best scale looks on so few of the tuning seeds; see the function `optimism`."""
        return optimism(self.regret[:, ~np.any(self.health != 0, axis=0)], seeds, self.criterion)

    @property
    def at_edge(self) -> bool:
        """Whether the choice is the grid's smallest or largest scale: a wider grid might hold a better one."""
        return self.chosen in (min(self.grid), max(self.grid)) and len(self.grid) > 1


@dataclasses.dataclass(frozen=True, repr=False)
class Tuning:
    """What `tune` found: one curve for every policy and bandit, in order; index it by (policy, bandit)."""

    curves: tuple[TuningCurve, ...]

    def __repr__(self) -> str:
        chosen = ", ".join(f"{curve.policy} on {curve.bandit} {curve.chosen:g}" for curve in self.curves)
        return f"Tuning({chosen})"

    def __getitem__(self, names: tuple[str, str]) -> TuningCurve:
        """The curve of a policy on a bandit.

        Raises:
            KeyError: naming those there are.
        """
        for curve in self.curves:
            if (curve.policy, curve.bandit) == tuple(names):
                return curve
        raise KeyError(f"{names!r}: tuned are {', '.join(f'{c.policy} on {c.bandit}' for c in self.curves)}")

    def __iter__(self) -> Iterator[TuningCurve]:
        return iter(self.curves)

    def __len__(self) -> int:
        return len(self.curves)


def tuning_key(key: jax.Array) -> jax.Array:
    """The key that tuning draws from: no seed of `key` below 2^32 - 1 shares a random number with it."""
    return jax.random.fold_in(key, np.uint32(TUNING))


def check_criterion(criterion: Any) -> str | float:
    """The criterion as it is used.

    Raises:
        ValueError: for anything but "mean", "median" and a probability in (0, 1).
    """
    if criterion in ("mean", "median"):
        return str(criterion)
    if isinstance(criterion, (float, np.floating)) and 0 < criterion < 1:
        return float(criterion)
    raise ValueError(
        f"criterion={criterion!r}: allowed are 'mean', 'median' and the probability of a quantile, in (0, 1)"
    )


def _criterion_values(
    regret: npt.NDArray[np.float64], health: npt.NDArray[np.int64], criterion: str | float
) -> npt.NDArray[np.float64]:
    """`[G]` the criterion of each scale; NaN for one with an unhealthy replication."""
    if criterion == "mean":
        values = [np.mean(row) for row in regret]
    else:
        values = [np.quantile(row, 0.5 if criterion == "median" else float(criterion)) for row in regret]
    return np.where(np.any(health != 0, axis=1), np.nan, values)


def choose_scale(
    regret: npt.NDArray[np.float64],
    health: npt.NDArray[np.int64],
    grid: Sequence[float] = GRID,
    criterion: str | float = "mean",
) -> float:
    """The scale, of the grid `[G]`, of the least criterion of the final regret on tuning replications.

    Regret and health words are `[G, N]`, per scale and tuning seed; a scale with an unhealthy replication cannot be
    chosen. Among equals it is the largest, the one nearest to the paper's; 1 when no scale is healthy throughout.
    """
    values = _criterion_values(regret, health, criterion)
    healthy = [(value, -scale) for value, scale in zip(values, grid, strict=True) if not np.isnan(value)]
    return -min(healthy)[1] if healthy else 1.0


def optimism(regret: npt.ArrayLike, seeds: int, criterion: str | float = "mean") -> Summary:
    """How much too good the best scale looks on few seeds: its criterion on all other seeds, less what they promised.

    Seeds are nested: the N tuning seeds are cut into groups of `seeds`, and each group chooses its own scale, which the
    seeds of all other groups then judge. The groups are the sample that the interval rests on.

    Args:
        regret: `[G, N]` final regret per scale and tuning seed, all of them healthy.
        seeds: of a group, from 1 to N / 2; what is left over at the end judges and does not choose.
        criterion: "mean", "median", or the probability of a quantile.

    Returns:
        Summary over the groups; its `n` is their number.

    Raises:
        ValueError: naming the field, its value and what is allowed.
    """
    regret = np.asarray(regret, np.float64)
    if regret.ndim != 2 or regret.size == 0 or not np.isfinite(regret).all():
        raise ValueError(f"regret: must be finite numbers [scales, healthy seeds], got the shape {regret.shape}")
    count = regret.shape[1]
    seeds = whole_number("seeds", seeds, 1)
    if 2 * seeds > count:
        raise ValueError(f"seeds={seeds}: must be from 1 to {count // 2}, half of the {count} healthy tuning seeds")
    judged = check_criterion(criterion)
    excess = []
    for first in range(0, count - seeds + 1, seeds):
        chooses = np.isin(np.arange(count), np.arange(first, first + seeds))
        promised, others = (
            _criterion_values(regret[:, some], np.zeros((len(regret), 1), np.int64), judged)
            for some in (chooses, ~chooses)
        )
        best = int(np.argmin(promised))
        excess.append(others[best] - promised[best])
    return summarize(np.array(excess))


def tune(
    policies: Sequence[str] | Mapping[str, str | Maker],
    bandits: LinearBandit | Sequence[str | LinearBandit] | Mapping[str, str | LinearBandit],
    grid: Sequence[float] = GRID,
    *,
    horizon: int,
    key: jax.Array,
    criterion: str | float = "mean",
    num_seeds: int = 10,
    delta: float = 0.1,
    ridge: float = 1.0,
    num_records: int = 1,
    dtype: npt.DTypeLike | None = None,
    block_size: int | None = None,
    progress: ProgressChoice = "auto",
    devices: Sequence[Any] | None = None,
) -> Tuning:
    """Plays every policy on every bandit with every scale of the radii, and chooses one scale for each pair.

    All policies get the same grid, criterion and tuning seeds, and meet the same noise. The seeds belong to
    `tuning_key(key)`: evaluate under `key` itself, and no replication is used twice.

    Args:
        policies: names that `make_policy` knows, or a mapping from a label to a name or to a function of a bandit that
            returns a policy and its parameters, for options of its own.
        bandits: names of data sets, bandits, or a mapping from a label to either.
        grid: `[G]` positive scales, each once; parameters must have a `radius_scale`.
        horizon: T >= 1, pulls.
        key: a typed key, the one that the evaluation uses.
        criterion: what of the final regret is made small: "mean", "median", or the probability of a quantile, 0.9 say,
            for a choice that fails seldom.
        num_seeds: N >= 1, tuning replications of each scale.
        delta: failure probability, for policies given by name.
        ridge: lambda, likewise.
        num_records: as for `simulate`; an evaluation with as many shares the compiled program.
        dtype: float32 or float64.
        block_size: seeds per block.
        progress: as for `simulate`, over everything.
        devices: devices to use.

    Returns:
        The curves, policies in order for the first bandit, then for the next.

    Raises:
        ValueError: naming the field, its value and what is allowed, before anything compiles.
    """
    check_on_host("tune", grid, horizon, key)
    scales = _check_grid(grid)
    judged = check_criterion(criterion)
    num_seeds = whole_number("num_seeds", num_seeds, 1)
    check_progress(progress)
    worlds = _bandits(bandits)
    jobs = []
    for bandit_name, bandit in worlds.items():
        for label, policy, params in _policies(policies, bandit, horizon, delta, ridge):
            if not hasattr(params, "radius_scale"):
                raise ValueError(f"policies: {label} has no radius_scale to tune")
            jobs.append((label, bandit_name, bandit, policy, params))
    total, each = len(jobs) * len(scales) * num_seeds, len(scales) * num_seeds
    curves = []
    with showing(progress, "tuning", total) as tell:
        for number, (label, bandit_name, bandit, policy, params) in enumerate(jobs):

            def advance(finished: int, _: int, before: int = number * each) -> None:
                if tell is not None:
                    tell(before + finished, total)

            results = simulate_grid(
                policy,
                [params._replace(radius_scale=scale) for scale in scales],
                bandit,
                horizon=horizon,
                num_seeds=num_seeds,
                key=tuning_key(key),
                num_records=num_records,
                dtype=dtype,
                block_size=block_size,
                progress=advance,
                devices=devices,
            )
            regret = np.stack([np.asarray(result.regret[:, -1], np.float64) for result in results])
            health = np.stack([result.health for result in results])
            curves.append(
                TuningCurve(
                    policy=label,
                    bandit=bandit_name,
                    horizon=horizon,
                    grid=scales,
                    criterion=judged,
                    regret=regret,
                    health=health,
                    chosen=choose_scale(regret, health, scales, judged),
                    notes=tuple(sorted({note for result in results for note in result.notes})),
                    reruns=sum(result.reruns for result in results),
                    compile_seconds=results[0].compile_seconds,
                    run_seconds=results[0].run_seconds,
                )
            )
    return Tuning(tuple(curves))


def _check_grid(grid: Any) -> tuple[float, ...]:
    if isinstance(grid, str) or not isinstance(grid, (Sequence, np.ndarray)) or len(grid) == 0:
        raise ValueError(f"grid={grid!r}: must be a list of positive scales, one at least")
    for scale in grid:
        real = isinstance(scale, numbers.Real) and not isinstance(scale, bool)
        if not real or not 0 < float(scale) < math.inf:
            raise ValueError(f"grid: {scale!r} must be a positive and finite scale")
    scales = tuple(float(scale) for scale in grid)
    if len(set(scales)) != len(scales):
        raise ValueError(f"grid={list(scales)}: must hold each scale once")
    return scales


def _bandits(bandits: Any) -> dict[str, LinearBandit]:
    """The bandits by name."""
    if isinstance(bandits, (str, LinearBandit)):
        bandits = [bandits]
    if isinstance(bandits, Mapping):
        named = {str(label): _bandit(value) for label, value in bandits.items()}
    elif isinstance(bandits, Sequence):
        built = [_bandit(value) for value in bandits]
        named = {bandit.name: bandit for bandit in built}
        if len(named) != len(built):
            raise ValueError(f"bandits: {[bandit.name for bandit in built]} must have different names; give a mapping")
    else:
        raise ValueError(f"bandits={bandits!r}: must be bandits or names of data sets, in a list or a mapping")
    if not named:
        raise ValueError(f"bandits={bandits!r}: must name one at least")
    return named


def _bandit(value: Any) -> LinearBandit:
    if isinstance(value, str):
        return dataset(value)
    if isinstance(value, LinearBandit):
        return value
    raise ValueError(f"bandits: {value!r} must be a linbet_jax.LinearBandit or the name of a data set")


def _policies(
    policies: Any, bandit: LinearBandit, horizon: int, delta: float, ridge: float
) -> Iterator[tuple[str, Policy, Any]]:
    """Label, policy and parameters for one bandit."""
    if isinstance(policies, str):
        policies = [policies]
    if not isinstance(policies, Mapping):
        if not isinstance(policies, Sequence) or not all(isinstance(name, str) for name in policies):
            raise ValueError(f"policies={policies!r}: must be names, or a mapping from a label to a name or a function")
        policies = dict.fromkeys(policies)
    if not policies:
        raise ValueError(f"policies={policies!r}: must name one at least")
    for label, maker in policies.items():
        if callable(maker):
            policy, params = maker(bandit)
        else:
            policy, params = make_policy(maker or label, bandit, horizon=horizon, delta=delta, ridge=ridge)
        yield str(label), policy, params
