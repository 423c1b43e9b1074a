"""The laws of a user's own numbers: residuals that are drawn again with equal probability."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from linbet_jax.noise._base import NEITHER, Base, immutable, real_numbers
from linbet_jax.noise.moments import Array
from linbet_jax.noise.words import high_product, uniform

_MOST = 2**24  # residuals of all arms together
_CHUNK = 2**22  # numbers that a moment holds in memory at a time
_APART = 1e-6  # times the larger of two means, some eight roundings of float32: nearer ones it may take for each other


@jax.tree_util.register_pytree_with_keys_class
class Empirical(Base):
    """Noise from measured residuals: payoff = mean + r, r each of them with probability 1/n, independently.

    The residuals are shifted to mean 0 first, so that an arm's mean stays its mean. Every moment is the exact one of
    this law, a finite sum; it says nothing of the tail beyond the largest residual. In float32 and float64 the same
    residual is drawn; no residual's probability differs from 1/n by more than 2^-32.

    Attributes:
        residuals: [n] float64, in units of payoff, ascending, of mean 0; read-only.
    """

    residuals: npt.NDArray[np.float64]
    arrays: ClassVar[tuple[str, ...]] = ("residuals",)  # all that a law of the class holds
    limits: ClassVar[dict[str, float]] = {}
    label: ClassVar[str] = "empirical"
    __setattr__ = immutable

    def __init__(self, residuals: npt.ArrayLike) -> None:
        """Builds the law of these numbers.

        Args:
            residuals: [n] payoffs minus their means, finite, n >= 1, in any order.

        Raises:
            ValueError: anything else.
        """
        try:
            numbers = real_numbers(residuals)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"Empirical: residuals must be real numbers, got {type(residuals).__name__}") from None
        if numbers.ndim != 1 or not 1 <= numbers.size < 2**31:
            raise ValueError(f"Empirical: residuals must be a list of at least one number, got shape {numbers.shape}")
        if not np.isfinite(numbers).all():
            place = int(np.argmin(np.isfinite(numbers)))
            raise ValueError(f"Empirical: residuals must be finite, got {float(numbers[place])!r} at index {place}")
        with np.errstate(over="ignore"):
            centered = np.sort(numbers - np.mean(numbers)) + 0.0  # no negative zeros: they are equal, not in bytes
        if not np.isfinite(centered).all():
            raise ValueError("Empirical: residuals must be smaller, their mean exceeds the range of float64")
        self._hold(centered)

    @property
    def symmetric(self) -> bool:
        """Whether the residuals are the same numbers with their signs turned."""
        return bool(np.array_equal(self.residuals, -self.residuals[::-1]))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(map(np.array_equal, self._held, other._held))

    def __hash__(self) -> int:
        return hash((type(self), self._digest))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{self.residuals.size} residuals, sha256 {self._digest[:16]}>)"

    def __reduce__(self) -> Any:
        return type(self).tree_unflatten, (None, self._held)

    def _hold(self, *arrays: Any) -> None:
        for name, array in zip(self.arrays, arrays, strict=True):
            if isinstance(array, np.ndarray):  # and nothing that JAX puts in its place
                array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def _held(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.arrays)

    @property
    def _digest(self) -> str:
        return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in self._held)).hexdigest()

    @property
    def name(self) -> str:
        """For tables: how many residuals there are."""
        label = vars(type(self)).get("label", type(self).__name__)  # a subclass is another law
        return f"{label}({self.residuals.size})"

    def residuals_at(self, mean: float) -> npt.NDArray[np.float64]:
        """[n] the residuals of an arm with this mean: here all of them."""
        return self.residuals

    def tree_flatten_with_keys(self) -> tuple[tuple[Any, ...], None]:
        """The arrays are the leaves: one program serves all laws of as many residuals."""
        return tuple(zip(map(jax.tree_util.GetAttrKey, self.arrays), self._held, strict=True)), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Empirical:
        """The law with whatever JAX puts in the arrays' place."""
        law: Empirical = object.__new__(cls)
        law._hold(*leaves)
        return law

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        drawn = high_product(words[..., 0, 0], self.residuals.shape[0])
        return jnp.asarray(self.residuals, dtype)[drawn.astype(jnp.int32)]

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return np.searchsorted(self.residuals, x - mean, side="right") / self.residuals.size

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        means = np.ravel(mean)
        at_once = max(1, _CHUNK // self.residuals.size)
        moments = [
            np.mean(np.abs(means[first : first + at_once, None] + self.residuals) ** order, axis=1)
            for first in range(0, means.size, at_once)
        ]
        return np.concatenate(moments).reshape(np.shape(mean))


@jax.tree_util.register_pytree_with_keys_class
class EmpiricalPerArm(Empirical):
    """Noise from measured residuals of each arm: payoff = mean + r, r one of the numbers of the arm with this mean.

    A law is told an arm's mean alone, so the means must differ, in float32 too; one that belongs to no arm gets the
    nearest arm's numbers. Each arm's residuals are shifted to mean 0. Moments are exact, finite sums.

    Attributes:
        residuals: [n] float64, arm after arm, each arm's ascending and of mean 0; read-only.
        means: [K] the arms' means, ascending; read-only.
        starts: [K + 1] where each arm's residuals begin, and n; read-only.
    """

    means: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int32]
    arrays: ClassVar[tuple[str, ...]] = ("residuals", "means", "starts")
    label: ClassVar[str] = "empirical per arm"
    form: ClassVar[str] = NEITHER

    def __init__(self, means: npt.ArrayLike, residuals: Sequence[npt.ArrayLike]) -> None:
        """Builds the law.

        Args:
            means: [K] the arms' means, in any order, no two nearer than 1e-6 of the larger.
            residuals: for each arm its payoffs minus their mean, [n_i] finite, n_i >= 1, 2^24 in all at most.

        Raises:
            ValueError: anything else.
        """
        allowed = "one finite number for each list of residuals"
        try:
            at = real_numbers(means)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"EmpiricalPerArm: means must be {allowed}, got {means!r}") from None
        if at.ndim != 1 or not np.isfinite(at).all():
            raise ValueError(f"EmpiricalPerArm: means must be {allowed}, got {at}")
        if at.size != len(residuals):
            raise ValueError(f"EmpiricalPerArm: means must be {allowed}, got {at.size} for {len(residuals)} lists")
        order = np.argsort(at)
        at = at[order]
        near = np.diff(at) <= _APART * np.maximum(np.abs(at[1:]), np.abs(at[:-1]))
        if near.any():
            pair = " and ".join(repr(float(mean)) for mean in at[np.argmax(near) :][:2])
            raise ValueError(f"EmpiricalPerArm: means must differ by more than float32 rounds, got {pair}")
        parts = [Empirical(residuals[arm]).residuals for arm in order]
        starts = np.cumsum([0, *(part.size for part in parts)]).astype(np.int32)
        if starts[-1] > _MOST:
            raise ValueError(f"EmpiricalPerArm: residuals must be at most {_MOST} numbers in all, got {starts[-1]}")
        self._hold(np.concatenate(parts), at, starts)

    @property
    def symmetric(self) -> bool:
        """Whether every arm's residuals are the same numbers with their signs turned."""
        return all(np.array_equal(part, -part[::-1]) for part in map(self.residuals_at, self.means))

    def residuals_at(self, mean: float) -> npt.NDArray[np.float64]:
        """[n_i] the residuals of the arm with this mean, or with the nearest."""
        arm = int(np.argmin(np.abs(self.means - mean)))
        return self.residuals[self.starts[arm] : self.starts[arm + 1]]

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        """Returns the largest raw and central moments over the arms whose means are in [low, high], and its ends."""
        means = np.array([low, *self.means[(self.means >= low) & (self.means <= high)], high])
        return float(np.max(self.raw_moment(order, means))), float(np.max(self.central_moment(order, means)))

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return uniform(words[..., 0, :], dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        dtype = standard.dtype
        arm = jnp.argmin(jnp.abs(jnp.asarray(self.means, dtype) - mean[..., None]), axis=-1)
        # A simulation holds all leaves as floating-point numbers, which are exact up to `_MOST`.
        first, last = (jnp.asarray(self.starts).astype(jnp.int32)[arm + more] for more in (0, 1))
        # A uniform is never 0 and may round to 1.
        drawn = first + jnp.ceil(standard * (last - first).astype(dtype)).astype(jnp.int32) - 1
        return mean + jnp.asarray(self.residuals, dtype)[drawn]

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        pairs = zip(np.ravel(x), np.ravel(mean), strict=True)
        shares = [np.mean(self.residuals_at(m) <= value - m) for value, m in pairs]
        return np.reshape(shares, np.shape(x))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        moments = [np.mean(np.abs(m + self.residuals_at(m)) ** order) for m in np.ravel(mean)]
        return np.reshape(moments, np.shape(mean))

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        moments = [np.mean(np.abs(self.residuals_at(m)) ** order) for m in np.ravel(mean)]
        return np.reshape(moments, np.shape(mean))
