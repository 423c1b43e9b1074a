"""The paper's synthetic data sets S1 to S4 (Section 5, Table 1), Theorem 1's instances, the same recipe at any size.

Recipe: the coordinates of arms and theta_star are independent and uniform on (0, 1); theta_star is then multiplied by
one factor so that the best arm's mean is the one asked for. The uniforms are odd multiples of 2^-24 made from 32-bit
words: float32 and float64 hold them exactly, so an instance built on the host has the very arms that jitted code draws.

What Table 1 says and what is found. On S1 and S2 the central moment of order 2 of Student t(3) noise is exactly c = 3.
On S3 and S4 the raw moment of order 1.5 is 4 s^1.5 with s half the best mean. On S3 that is b = 7.7189 at the mean
3.10, the paper's 7.72 to rounding. On S4 it is b = 54.3626 at the mean 11.39, where the paper prints 54.37: an exact
mean between 11.3904 and 11.3917 gives both printed numbers. With d = 20 uniform coordinates a mean of 11.39 is out of
reach without the factor (the best of 100 arms is near 7), so the paper's own S4 was not drawn quite as described; here
coordinates of theta_star exceed 1 on S4.

References:
    Shao, Yu, King, Lyu. Almost optimal algorithms for linear stochastic bandits with heavy-tailed payoffs.
        NeurIPS 2018.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax import theory
from linbet_jax.bandits import _checks
from linbet_jax.bandits.bandit import Generator, LinearBandit
from linbet_jax.bandits.separating import SEPARATING, Dials, lock_share, separating
from linbet_jax.noise import Pareto, PayoffLaw, StudentT, TwoPoint, float_dtype
from linbet_jax.noise.words import threefry_on_host

__all__ = [
    "DATASETS",
    "HORIZONS",
    "SEPARATING",
    "DatasetSpec",
    "Dials",
    "box",
    "cross_polytope",
    "dataset",
    "lock_share",
    "lower_bound",
    "make_instance",
    "separating",
]

_MAX_SEED = 2**32 - 2
_MAX_PAIRS = 10  # 2^10 vertices
_MAX_BOX = 12  # 2^12 vertices


class DatasetSpec(NamedTuple):
    """One row of the paper's Table 1, and how the paper runs it.

    Attributes:
        name: S1 to S4.
        num_arms: K.
        dim: d.
        noise: the payoff law.
        epsilon: the paper's epsilon.
        paper_b: the printed bound of the raw moment, or None (NA).
        paper_c: the printed bound of the central moment, or None (NA).
        best_mean: the printed mean of the optimal arm.
        horizon: T, in pulls.
        policies: the names of the two policies that the paper plays on this set.
        delta: the paper's failure probability.
        ridge: the paper's lambda.
        seed: the set's own fixed key.
    """

    name: str
    num_arms: int
    dim: int
    noise: PayoffLaw
    epsilon: float
    paper_b: float | None
    paper_c: float | None
    best_mean: float
    horizon: int
    policies: tuple[str, str]
    seed: int
    delta: float = 0.1
    ridge: float = 1.0


_SPECS = (
    DatasetSpec("S1", 20, 10, StudentT(3.0), 1.0, None, 3.0, 4.0, 20_000, ("menu", "mom"), 20181),
    DatasetSpec("S2", 100, 20, StudentT(3.0), 1.0, None, 3.0, 7.4, 20_000, ("menu", "mom"), 20182),
    DatasetSpec("S3", 20, 10, Pareto(2.0), 0.5, 7.72, None, 3.1, 10_000, ("tofu", "crt"), 20183),
    DatasetSpec("S4", 100, 20, Pareto(2.0), 0.5, 54.37, None, 11.39, 10_000, ("tofu", "crt"), 20184),
)
DATASETS: Mapping[str, DatasetSpec] = MappingProxyType({spec.name: spec for spec in _SPECS})
HORIZONS: Mapping[str, int] = MappingProxyType({spec.name: spec.horizon for spec in _SPECS})


def dataset(name: str, *, instance_seed: int | None = None, resample: bool = False) -> LinearBandit:
    """Builds one of the paper's data sets, or an instance of `separating` as it stands.

    Args:
        name: S1, S2, S3, S4, lock, long or trap, in either case. The last three are one instance each.
        instance_seed: None for the canonical instance, drawn from the set's own fixed key; an integer in [0, 2^32 - 2]
            for another one.
        resample: a fresh instance in every replication instead.

    Returns:
        The bandit, with the exact moment bounds, norms and means of the instance; all instances of a set share the best
        mean, and with it the raw moment bound.

    Deviations:
        The paper does not publish its arms and theta_star: these are instances of the same law, scaled to Table 1's
        best mean (see the module's text for S4).

    Raises:
        ValueError: for an unknown name, a seed out of range, or a seed together with resample.
    """
    key = str(name).upper()
    if key.lower() in SEPARATING:
        if instance_seed is not None or resample:
            got = f"instance_seed={instance_seed!r} and resample={resample!r}"
            raise ValueError(f"{key.lower()} is one instance: instance_seed must be None and resample False, got {got}")
        return separating(key.lower())
    if key not in DATASETS:
        raise ValueError(f"name must be one of {', '.join([*DATASETS, *SEPARATING])}, got {name!r}")
    spec = DATASETS[key]
    if resample and instance_seed is not None:
        raise ValueError(f"instance_seed must be None with resample=True, got {instance_seed!r}")
    fold = 0 if instance_seed is None else 1 + _checks.integer("instance_seed", instance_seed, 0, _MAX_SEED)
    folds = None if resample else (spec.seed, fold)
    label = spec.name if instance_seed is None else f"{spec.name}-{instance_seed}"
    return _instance(spec.num_arms, spec.dim, spec.noise, spec.best_mean, folds, spec.epsilon, label)


def make_instance(
    num_arms: int,
    dim: int,
    noise: PayoffLaw,
    *,
    best_mean: float,
    seed: int = 0,
    epsilon: float | None = None,
    resample: bool = False,
) -> LinearBandit:
    """Builds an instance of the data sets' recipe for any size, law and best mean.

    Args:
        num_arms: K, at least 1.
        dim: d, at least 1.
        noise: the payoff law.
        best_mean: the best arm's mean, positive.
        seed: an integer in [0, 2^32 - 2].
        epsilon: as for `LinearBandit`.
        resample: a fresh instance in every replication instead (seed must stay 0).

    Raises:
        ValueError: naming the argument, its value and the allowed range.
    """
    num_arms = _checks.integer("num_arms", num_arms, 1, 2**24)
    dim = _checks.integer("dim", dim, 1, 2**16)
    best_mean = _checks.positive("best_mean", best_mean)
    fold = _checks.integer("seed", seed, 0, _MAX_SEED)
    if resample and fold != 0:
        raise ValueError(f"seed must be 0 with resample=True, got {seed!r}")
    folds = None if resample else (2018, fold)
    label = f"K{num_arms}-d{dim}" if resample else f"K{num_arms}-d{dim}-{seed}"
    return _instance(num_arms, dim, noise, best_mean, folds, epsilon, label)


def lower_bound(
    dim: int, epsilon: float, horizon: int, *, instance_seed: int = 0, resample: bool = False
) -> LinearBandit:
    """Builds Theorem 1's instances, where every policy's expected regret is at least (d/192) T^(1/(1+epsilon)).

    The decision set {x >= 0: x1 + x2 = ... = x_{d-1} + x_d = 1} is replaced by its 2^(d/2) vertices: an optimistic
    index is convex in x, so that its maximum is at one of them. Every pair of theta_star is (2D, D) or (D, 2D) with
    equal probability, D = T^(-epsilon/(1+epsilon)) / 12. Payoffs are (1/D)^(1/epsilon) or 0; their moment of order
    1 + epsilon is mean/D, at most d. The theorem's expectation is over theta_star too: average over instances, or
    resample.

    Args:
        dim: d, 2 to 21. An odd one uses its first d - 1 coordinates, and the theorem then holds with d - 1.
        epsilon: in (0, 1].
        horizon: T in pulls, at least (d/12)^((1+epsilon)/epsilon).
        instance_seed: which theta_star, an integer in [0, 2^32 - 2].
        resample: a fresh theta_star in every replication instead (instance_seed must stay 0).

    Deviations:
        The printed condition T >= (d/12)^(epsilon/(1+epsilon)) has its exponent inverted: D <= 1/d, under which the
        construction is made, needs T >= (d/12)^((1+epsilon)/epsilon).

    Raises:
        ValueError: naming the argument, its value and the allowed range.
    """
    dim = _checks.integer("dim", dim, 2, 2 * _MAX_PAIRS + 1)
    number = _checks.positive("epsilon", epsilon)
    if number > 1.0:
        raise ValueError(f"epsilon must satisfy 0 < epsilon <= 1, got {epsilon!r}")
    even = dim - dim % 2
    try:
        smallest = theory.lower_bound_smallest_horizon(dim=even, epsilon=number)
        horizon = _checks.integer("horizon", horizon, smallest, None)
        gap = theory.lower_bound_gap(float(horizon), epsilon=number)  # Delta
        noise = TwoPoint(math.pow(gap, -1.0 / number))
    except OverflowError:
        raise ValueError(f"epsilon must be larger, got {epsilon!r}: payoffs exceed the range of float64") from None
    facts: dict[str, Any] = {
        "epsilon": number,
        "raw_moment_bound": float(even),
        "theta_norm": gap * math.sqrt(2.5 * even),
        "mean_bound": gap * even,
        "arm_norm": math.sqrt(even / 2.0),
    }
    seed = _checks.integer("instance_seed", instance_seed, 0, _MAX_SEED)
    label = f"lower-bound-d{dim}-eps{number:g}-T{horizon}"
    if resample:
        if seed != 0:
            raise ValueError(f"instance_seed must be 0 with resample=True, got {instance_seed!r}")
        return LinearBandit.resampled(_vertices(dim, gap), noise, best_mean=gap * even, name=label, **facts)
    words = _host_words((12, seed), (dim // 2,))
    theta = _pairs(words >> 31 == 1, dim) * gap
    return LinearBandit(_cube(dim), theta, noise, name=f"{label}-{seed}", **facts)


def box(low: npt.ArrayLike, high: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The vertices [2^d, d] of a box, as arms: an optimistic index is convex in x, so that they hold its maximum.

    Args:
        low: [d] the smallest coordinates, d <= 12.
        high: [d] the largest, above `low`; bit i of an arm's index picks coordinate i from it.

    Raises:
        ValueError: naming the argument, its value and the allowed range.
    """
    least, most = _checks.array("low", low, 1), _checks.array("high", high, 1)
    if most.shape != least.shape:
        raise ValueError(f"high must have length {least.size} like low, got length {most.size}")
    if least.size > _MAX_BOX:
        reason = "to maximise a convex quadratic form over a box is NP-hard, and every vertex is listed"
        raise ValueError(f"low must have at most {_MAX_BOX} entries ({reason}), got {least.size}")
    for index in np.flatnonzero(~(least < most)):
        raise ValueError(f"high must be above low = {least[index]:g} at index {index}, got {most[index]:g}")
    picked = (np.arange(2**least.size)[:, None] >> np.arange(least.size)) & 1
    return np.where(picked == 1, most, least)


def cross_polytope(dim: int, radius: float = 1.0) -> npt.NDArray[np.float64]:
    """The vertices [2 d, d] of the ball ||x||_1 <= radius, as arms: radius e_i, i = 1..d, then their negatives.

    Args:
        dim: d, at least 1.
        radius: R, positive.

    Raises:
        ValueError: naming the argument, its value and the allowed range.
    """
    axes = _checks.positive("radius", radius) * np.eye(_checks.integer("dim", dim, 1, 2**10))
    return np.concatenate([axes, 0.0 - axes])  # no negative zeros


# The recipe of the data sets: on the host, and traced ----------------------------------------------------------------


def _uniforms(words: Any, namespace: Any, dtype: Any) -> Any:
    """Odd multiples of 2^-24 in (0, 1) from 32-bit words: exact in float32 as in float64."""
    return ((words >> 9).astype(dtype) + namespace.asarray(0.5, dtype)) * namespace.asarray(2.0**-23, dtype)


@functools.cache
def _recipe(num_arms: int, dim: int, best_mean: float) -> Generator:
    """The traced recipe; cached, so that equal bandits share one function and one compilation."""

    def generator(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        dtype = float_dtype()
        arms = _uniforms(jax.random.bits(jax.random.fold_in(key, 0), (num_arms, dim), jnp.uint32), jnp, dtype)
        theta = _uniforms(jax.random.bits(jax.random.fold_in(key, 1), (dim,), jnp.uint32), jnp, dtype)
        means = jnp.matmul(arms, theta, precision=jax.lax.Precision.HIGHEST)
        return arms, theta * (best_mean / jnp.max(means))

    return generator


def _instance(
    num_arms: int,
    dim: int,
    noise: PayoffLaw,
    best_mean: float,
    folds: tuple[int, int] | None,
    epsilon: float | None,
    name: str,
) -> LinearBandit:
    """The instance of the key `folds`; without one a fresh instance in every replication."""
    if folds is None:
        return LinearBandit.resampled(
            _recipe(num_arms, dim, best_mean),
            noise,
            epsilon=epsilon,
            best_mean=best_mean,
            arm_norm=math.sqrt(dim),
            name=name,
        )
    arms = _uniforms(_host_words((*folds, 0), (num_arms, dim)), np, np.float64)
    theta = _uniforms(_host_words((*folds, 1), (dim,)), np, np.float64)
    theta = theta * (best_mean / np.max(arms @ theta))
    return LinearBandit(arms, theta, noise, epsilon=epsilon, name=name)


def _host_words(folds: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[np.uint32]:
    """`jax.random.bits` of the key `folds[0]`, the other numbers folded in, without JAX: nothing compiles or starts."""
    key = np.array([0, folds[0]], np.uint32)
    for number in folds[1:]:
        key = threefry_on_host(key, np.array([number], np.uint32))[:, 0]
    left, right = threefry_on_host(key, np.arange(math.prod(shape), dtype=np.uint32))
    return (left ^ right).reshape(shape)


# The lower bound's instances ------------------------------------------------------------------------------------------


def _pairs(second: Any, dim: int, namespace: Any = np) -> Any:
    """theta_star in units of Delta: (1, 2) where `second` [d/2] is true, else (2, 1); 0 at the end for an odd dim."""
    first = namespace.where(second, 1.0, 2.0)
    theta = namespace.stack([first, 3.0 - first], axis=-1).reshape(-1)
    return namespace.concatenate([theta, namespace.zeros(dim % 2, theta.dtype)])


def _cube(dim: int) -> npt.NDArray[np.float64]:
    """The vertices [2^(d/2), d] of the decision set; bit i of the arm's index picks the second entry of pair i."""
    pairs = dim // 2
    second = (np.arange(2**pairs)[:, None] >> np.arange(pairs)) & 1
    vertices = np.stack([1 - second, second], axis=-1).reshape(2**pairs, 2 * pairs)
    return np.pad(vertices.astype(np.float64), ((0, 0), (0, dim % 2)))


@functools.cache
def _vertices(dim: int, gap: float) -> Generator:
    """The traced version, with a fresh theta_star; all gaps share one compilation."""
    return jax.tree_util.Partial(_vertices_scaled(dim), gap)


@functools.cache
def _vertices_scaled(dim: int) -> Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]:
    def generator(gap: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        dtype = float_dtype()
        words = jax.random.bits(key, (dim // 2,), jnp.uint32)
        return jnp.asarray(_cube(dim), dtype), (_pairs(words >> 31 == 1, dim, jnp) * gap).astype(dtype)

    return generator
