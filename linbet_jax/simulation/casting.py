"""The numbers of a run in its dtype: parameters, laws, decision sets, and the bytes that a replication keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.kernels.balls import Ball
from linbet_jax.noise import traceable
from linbet_jax.policies.policy import Policy, state_bytes
from linbet_jax.simulation.launches import Leaf
from linbet_jax.simulation.replication import World


def stack(grid: Sequence[Any], dtype_name: str, separate: bool) -> tuple[list[Leaf], Any]:
    """Leaves of the grid's parameters in the dtype of the run, shared where equal in all, unless `separate`."""
    flat = [jax.tree.flatten(params) for params in grid]
    treedef: Any = flat[0][1]
    for leaves, structure in flat[1:]:
        if structure != treedef or len(leaves) != len(flat[0][0]):
            raise ValueError(f"grid: settings must share one structure, got {treedef} and {structure}")
    stacked = []
    for column in zip(*(leaves for leaves, _ in flat), strict=True):
        arrays = [cast(leaf, dtype_name) for leaf in column]
        if any(array.shape != arrays[0].shape or array.dtype != arrays[0].dtype for array in arrays):
            raise ValueError("grid: a parameter must have one shape and type in all settings")
        varies = separate or any(not np.array_equal(array, arrays[0], equal_nan=True) for array in arrays[1:])
        stacked.append(Leaf(varies, np.stack(arrays) if varies else arrays[0]))
    return stacked, treedef


def cast(leaf: Any, dtype_name: str) -> npt.NDArray[Any]:
    """A parameter: Python numbers and floating arrays in the dtype of the run, integer arrays as int32."""
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"params: {leaf!r} is not a number")
    if np.issubdtype(array.dtype, np.floating) or type(leaf) is int:
        return fit("params", array, dtype_name)
    if not np.issubdtype(array.dtype, np.integer):
        return array
    if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
        raise ValueError(f"params: the integer {leaf!r} does not fit into 32 bits")
    return array.astype(np.int32)


def fit(field: str, array: npt.NDArray[Any], dtype_name: str) -> npt.NDArray[Any]:
    """The array in the dtype of the run; a finite number that overflows there, or vanishes, is an error."""
    with np.errstate(over="ignore", under="ignore"):
        fitted = array.astype(dtype_name)
    lost = (np.isfinite(array) & ~np.isfinite(fitted)) | ((array != 0) & (fitted == 0))
    if np.any(lost):
        raise ValueError(
            f"{field}: {array[lost].flat[0]!r} is out of the range of {dtype_name}; use float64 or other units"
        )
    return fitted


def law_of(noise: Any, dtype_name: str) -> tuple[Any, Any]:
    """A law as traced numbers (one compile serves all of them), or, when it is no pytree of numbers, as a constant."""
    if not traceable(noise):
        return None, noise
    huge = float(np.finfo(dtype_name).max)
    # What limits the orders of moments (df, shape): 10^39 degrees of freedom are as good as 10^38.
    orders = getattr(type(noise), "orders", "")

    def fitted(path: Any, leaf: Any) -> npt.NDArray[Any]:
        field = str(getattr(path[-1], "name", "")) if path else ""
        number = np.asarray(leaf, np.float64)
        return fit(f"noise.{field}", np.minimum(number, huge) if field and field == orders else number, dtype_name)

    return jax.tree_util.tree_map_with_path(fitted, noise), None


def generator_of(generator: Any, dtype_name: str) -> tuple[Any, tuple[Any, ...]]:
    """A generator of fresh instances as a function and traced numbers: one compile serves all the numbers."""
    if not isinstance(generator, jax.tree_util.Partial) or generator.keywords:
        return generator, ()
    return generator.func, tuple(cast(number, dtype_name) for number in generator.args)


def world_of(bandit: LinearBandit, law: Any, dtype_name: str) -> World:
    """The world of a bandit under this law, without the numbers of its generator."""

    def of_bandit(value: Any) -> Any:
        return None if value is None else fit("bandit", np.asarray(value), dtype_name)

    gaps = None if bandit.means is None else np.max(bandit.means) - bandit.means
    arms = of_bandit(bandit.arms)
    if bandit.norm_ball is not None:
        radius, q = bandit.norm_ball
        arms = Ball(of_bandit(radius), q, bandit.dim)
    return World(law, arms, of_bandit(bandit.theta_star), of_bandit(bandit.means), of_bandit(gaps))


def shape_of_set(bandit: LinearBandit, dtype_name: str) -> Any:
    """A decision set without its numbers: arms [K, d], or a ball."""
    if bandit.norm_ball is None:
        return jax.ShapeDtypeStruct((bandit.num_arms, bandit.dim), dtype_name)
    return Ball(jax.ShapeDtypeStruct((), dtype_name), bandit.norm_ball[1], bandit.dim)  # type: ignore[arg-type]


def seed_bytes(policy: Policy, params: Any, bandit: LinearBandit, traced_pulls: int, dtype_name: str) -> int:
    """Bytes that one replication keeps: its state, a decision set of its own, a trace."""
    numbers = jax.tree.map(lambda leaf: cast(leaf, dtype_name), params)
    size = np.dtype(dtype_name).itemsize
    has_own_set = bandit.changing or bandit.resampling
    held = state_bytes(policy, None if bandit.changing else shape_of_set(bandit, dtype_name), numbers)
    traced = size + (4 if bandit.norm_ball is None else size * bandit.dim)
    return held + (size * bandit.num_arms * bandit.dim if has_own_set else 0) + traced_pulls * traced
