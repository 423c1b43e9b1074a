"""The law of a user's own numbers: residuals that are drawn again with equal probability."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from linbet_jax.noise._base import Base, real_numbers
from linbet_jax.noise.moments import Array
from linbet_jax.noise.words import high_product

_CHUNK = 2**22  # numbers that a moment holds in memory at a time


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
    limits: ClassVar[dict[str, float]] = {}
    label: ClassVar[str] = "empirical"

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
        centered.setflags(write=False)
        object.__setattr__(self, "residuals", centered)

    @property
    def symmetric(self) -> bool:
        """Whether the residuals are the same numbers with their signs turned."""
        return bool(np.array_equal(self.residuals, -self.residuals[::-1]))

    def __setattr__(self, name: str, value: Any) -> None:
        """A law does not change."""
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        """Equality of class and residuals."""
        if type(self) is not type(other):
            return NotImplemented
        return bool(np.array_equal(self.residuals, other.residuals))

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash((type(self), self._digest))

    def __repr__(self) -> str:
        """How many residuals there are, and which."""
        return f"{type(self).__name__}(<{self.residuals.size} residuals, sha256 {self._digest[:16]}>)"

    def __reduce__(self) -> Any:
        """Pickles as its residuals."""
        return _restored, (type(self), self.residuals)

    @property
    def _digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.residuals).tobytes()).hexdigest()

    @property
    def name(self) -> str:
        """For tables: how many residuals there are."""
        label = vars(type(self)).get("label", type(self).__name__)  # a subclass is another law
        return f"{label}({self.residuals.size})"

    def tree_flatten_with_keys(self) -> tuple[tuple[Any, ...], None]:
        """The residuals are the leaf: one program serves all laws of as many."""
        return ((jax.tree_util.GetAttrKey("residuals"), self.residuals),), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Empirical:
        """The law with whatever JAX puts in the residuals' place."""
        return _restored(cls, *leaves)

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


def _restored(cls: Any, residuals: Any) -> Any:
    law = object.__new__(cls)
    if isinstance(residuals, np.ndarray):
        residuals.setflags(write=False)
    object.__setattr__(law, "residuals", residuals)
    return law
