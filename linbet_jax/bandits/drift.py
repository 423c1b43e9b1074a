"""A theta_star that moves: bandits whose parameter follows a path from pull to pull, and two paths.

The arms stay, the means and the best arm move: regret at a pull is against the best arm of that pull. No policy of this
package is proved for that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.bandits import _checks
from linbet_jax.bandits.bandit import LinearBandit

__all__ = ["Path", "drifting", "jumping", "rotating"]

Path = Callable[[jax.Array, jax.Array], jax.Array]  # (key, pull t = 1..T) -> theta_star [d], traceable


def drifting(
    bandit: LinearBandit,
    path: Path,
    *,
    horizon: int | None = None,
    theta_norm: float | None = None,
    mean_bound: float | None = None,
    raw_moment_bound: float | None = None,
    central_moment_bound: float | None = None,
    name: str | None = None,
) -> LinearBandit:
    """The bandit with a theta_star that follows a path; its arms, law and epsilon stay.

    Policies meet a fixed decision set. An epoch of MENU, MoM and the like holds its arm while the means move on.

    Args:
        bandit: one with fixed arms; its own theta_star is used for `theta_norm` alone.
        path: `path(key, t) -> theta_star [d]`, pure and traceable. The key is the replication's, the same at every pull
            t (a traced int32, 1..T): fold what you need into it, or use t alone for one path in all replications.
        horizon: pulls that will be played at most, where the path goes on to what does not fit: none beyond is checked.
        theta_norm: S, at least ||theta_star||_2 all along; by default the bandit's.
        mean_bound: L, by default arm_norm * theta_norm.
        raw_moment_bound: b, by default the largest over all allowed means in [-mean_bound, mean_bound], which a law of
            one's own says by `moment_bounds`.
        central_moment_bound: c, by default likewise.
        name: a label for tables and files; by default the bandit's, with "drifting" before it.

    Raises:
        ValueError: naming the field, its value and the allowed range, or what is wrong with the path's result; also
            when a bound does not hold, or the law does not allow a mean, in a sample of up to 16 pulls, 1 to 32 768.
    """
    last = 2**31 - 1 if horizon is None else _checks.integer("horizon", horizon, 1, None)
    arms = _fixed_arms(bandit)
    law = _checks.law(bandit.noise, raw_moment_bound, central_moment_bound, fixed=False)
    result = _checks.traced("path", path, jax.eval_shape(lambda: jnp.zeros((), jnp.int32)))
    if not _checks.real(result, (bandit.dim,)):
        allowed = f"theta_star of shape [d], real numbers with d = {bandit.dim}"
        raise ValueError(f"path must return {allowed}, got {result!r}")
    norm = bandit.theta_norm if theta_norm is None else _checks.nonnegative("theta_norm", theta_norm)
    largest = bandit.arm_norm * norm if mean_bound is None else _checks.nonnegative("mean_bound", mean_bound)
    raw, central, std = _checks.moments(law, 1.0 + bandit.epsilon, -largest, largest)
    moved = LinearBandit._make(
        arms=arms,
        noise=law,
        epsilon=bandit.epsilon,
        raw_moment_bound=_checks.bound("raw_moment_bound", raw_moment_bound, raw, declared=True),
        central_moment_bound=_checks.bound("central_moment_bound", central_moment_bound, central, declared=True),
        theta_norm=norm,
        arm_norm=bandit.arm_norm,
        mean_bound=largest,
        noise_std=std,
        name=_checks.name(f"drifting {bandit.name}" if name is None else name),
        num_arms=bandit.num_arms,
        dim=bandit.dim,
        path=path,
    )

    def draw(number: int) -> tuple[Any, Any]:
        pull = jnp.int32(min(2**number, last))
        return arms, _checks.evaluated(path, jax.random.fold_in(jax.random.key(0), number % 2), pull)

    moved._check_draws("path", draw)
    return moved


@dataclasses.dataclass(frozen=True)
class _Rotating:
    """See `rotating`; the two vectors are orthogonal and of one length."""

    start: tuple[float, ...]
    towards: tuple[float, ...]
    angle: float

    def __call__(self, key: jax.Array, pull: jax.Array) -> jax.Array:
        phase = (pull - 1) * self.angle
        return jnp.cos(phase) * jnp.asarray(self.start) + jnp.sin(phase) * jnp.asarray(self.towards)


@dataclasses.dataclass(frozen=True)
class _Jumping:
    """See `jumping`."""

    start: tuple[float, ...]
    norm: float
    every: int

    def __call__(self, key: jax.Array, pull: jax.Array) -> jax.Array:
        number = (pull - 1) // self.every
        start = jnp.asarray(self.start)
        direction = jax.random.normal(jax.random.fold_in(key, number), start.shape, jnp.float32).astype(start.dtype)
        return jnp.where(number == 0, start, self.norm * (direction / jnp.sqrt(jnp.sum(direction * direction))))


def rotating(theta_star: npt.ArrayLike, angle: float, towards: npt.ArrayLike | None = None) -> Path:
    """A path that turns theta_star by an angle at every pull, in one plane, from theta_star at the first pull.

    Equal arguments give equal paths, which share a compilation.

    Args:
        theta_star: [d] where it begins, d >= 2, not 0.
        angle: radians a pull, finite; negative turns the other way.
        towards: [d] where to turn to, not along theta_star; by default the first axis on which theta_star is smallest
            in size.

    Raises:
        ValueError: naming the argument, its value and what is allowed.
    """
    start = _start(theta_star)
    turn = _checks.finite("angle", angle)
    aim = np.eye(start.size)[np.argmin(np.abs(start))] if towards is None else _checks.array("towards", towards, 1)
    if aim.shape != start.shape:
        raise ValueError(f"towards must have length {start.size} like theta_star, got length {aim.size}")
    along, toward = _direction(start), _direction(aim)
    across = toward - along * (toward @ along)
    if not np.linalg.norm(across) > 1e-9:
        raise ValueError(f"towards must not lie along theta_star, got {aim.tolist()}")
    across = _direction(across) * _norm(start)
    return _Rotating(tuple(start.tolist()), tuple(across.tolist()), turn)


def jumping(theta_star: npt.ArrayLike, every: int) -> Path:
    """A path that stays for so many pulls and then takes a new direction, uniform on the sphere, of the same norm.

    It begins with theta_star. Each replication has directions of its own, drawn in float32 whatever the dtype: programs
    of two policies may differ in their last bits. Equal arguments give equal paths, which share a compilation.

    Args:
        theta_star: [d] where it begins, d >= 2, not 0.
        every: pulls from jump to jump, at least 1.

    Raises:
        ValueError: naming the argument, its value and what is allowed.
    """
    start = _start(theta_star)
    return _Jumping(tuple(start.tolist()), _norm(start), _checks.integer("every", every, 1, 2**31 - 1))


def _fixed_arms(bandit: Any) -> npt.NDArray[np.float64]:
    arms = bandit.arms if isinstance(bandit, LinearBandit) and bandit.path is None else None
    if arms is None:
        got = bandit.name if isinstance(bandit, LinearBandit) else repr(bandit)
        raise ValueError(f"bandit must be a LinearBandit with fixed arms and a theta_star that stays, got {got}")
    return arms


def _start(theta_star: npt.ArrayLike) -> npt.NDArray[np.float64]:
    start = _checks.array("theta_star", theta_star, 1)
    if start.size < 2 or not np.any(start):
        raise ValueError(f"theta_star must have at least two entries that are not all 0, got {start.tolist()}")
    return start


def _norm(vector: npt.NDArray[np.float64]) -> float:
    """||vector||_2, whose squares may leave the range of floats."""
    return math.hypot(*vector.tolist())


def _direction(vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The vector divided by its norm; zeros as they are."""
    scaled = vector / (np.max(np.abs(vector)) or 1.0)
    return np.asarray(scaled / (np.linalg.norm(scaled) or 1.0))
