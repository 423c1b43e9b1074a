"""Mixtures: each payoff is drawn from one of several laws, chosen with fixed probabilities."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy.typing as npt
from jax.typing import DTypeLike

from linbet_jax.noise._base import ADDED, NEITHER, Base, check_part, law, limited
from linbet_jax.noise.moments import Array
from linbet_jax.noise.words import uniform


@law("mixture", laws=0.0, weights=0.0)
class Mixture(Base):
    """Each payoff is one of law i with probability weight i, independently: contaminated noise, for example.

    Moments and the cdf are the weighted sums of the parts'. The parts are laws of this package (or subclasses) of one
    form: all noise added to the mean, or all payoffs in proportion to it (`Pareto`, `LogNormal`). All parts share the
    words of a pull, and one uniform more chooses among them. One program serves all mixtures of the same kinds.

    Attributes:
        laws: the parts, a tuple of at least one law; a mixture may be a part.
        weights: a tuple of their probabilities, positive; the constructor divides what it is given by its sum.
    """

    laws: tuple[Base, ...]
    weights: tuple[float, ...]

    def __init__(self, laws: Sequence[Base], weights: Sequence[float]) -> None:
        """Builds the mixture of these laws.

        Args:
            laws: at least one law of `linbet_jax.noise`, all of one form.
            weights: one positive number for each law.

        Raises:
            ValueError: naming the field, its value and what is allowed.
        """
        parts: tuple[Any, ...] = ()
        with contextlib.suppress(TypeError):
            parts = tuple(laws)
        if not parts or not all(isinstance(part, Base) for part in parts):
            raise ValueError(f"Mixture: laws must be a list of at least one law of linbet_jax.noise, got {laws!r}")
        for part in parts:
            check_part("Mixture", "laws", part, "their")
        if NEITHER in (forms := {part.form for part in parts}) or len(forms) > 1:
            allowed = "all add their noise to the mean, or all be in proportion to it as Pareto and LogNormal are"
            raise ValueError(f"Mixture: laws must {allowed}, got {', '.join(part.name for part in parts)}")
        numbers: tuple[float, ...] = ()
        with contextlib.suppress(TypeError):
            numbers = tuple(limited(f"Mixture: weights[{n}]", "weight", w, 0.0) for n, w in enumerate(weights))
        if len(numbers) != len(parts):
            raise ValueError(f"Mixture: weights must be {len(parts)} numbers, one for each law, got {weights!r}")
        self._set(laws=parts, weights=tuple(number / math.fsum(numbers) for number in numbers))

    @property
    def name(self) -> str:
        """For tables: the parts with their weights."""
        parts = zip(self.laws, self.weights, strict=True)
        return " + ".join(f"{weight:g} {part.name}" for part, weight in parts)

    @property
    def symmetric(self) -> bool | None:
        """Whether every part is; None where one is not, since others may make up for it."""
        return True if all(part.symmetric for part in self.laws) else None

    @property
    def form(self) -> str:  # type: ignore[override]
        """That of the parts."""
        return self.laws[0].form

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """Uniforms for one variate: those of the part that needs most, and one to choose it."""
        return 1 + max(part.uniforms for part in self.laws)

    @property
    def max_order(self) -> float:
        """The smallest of the parts'."""
        return min(part.max_order for part in self.laws)

    @property
    def mean_range(self) -> tuple[float, float]:
        """The means that every part allows."""
        lows, highs = zip(*(part.mean_range for part in self.laws), strict=True)
        return max(lows), min(highs)

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        """Returns bounds of the raw and central moments over all means in [low, high]: the weighted sums of the parts'.

        They are the largest moments where those of all parts are at one mean.
        """
        bounds = [part.moment_bounds(order, low, high) for part in self.laws]
        raw, central = (float(sum(map(operator.mul, self.weights, side))) for side in zip(*bounds, strict=True))
        return raw, central

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        at = 0.0 if self.form == ADDED else 1.0
        parts = [part.payoff(part.transform(words[..., 1 : 1 + part.uniforms, :], dtype), at) for part in self.laws]
        ends = jnp.cumsum(jnp.stack([jnp.asarray(weight, dtype) for weight in self.weights]))
        chosen = uniform(words[..., 0, :], dtype)
        drawn = parts[-1]
        for end, part in zip(ends[-2::-1], parts[-2::-1], strict=True):
            drawn = jnp.where(chosen <= end, part, drawn)
        return drawn

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        return mean + standard if self.form == ADDED else mean * standard

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return self._weighted(lambda part: part._cdf(x, mean))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        return self._weighted(lambda part: part._raw(order, mean))

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        return self._weighted(lambda part: part._central(order, mean))

    def _weighted(self, value: Callable[[Base], Any]) -> Any:
        return sum(weight * value(part) for weight, part in zip(self.weights, self.laws, strict=True))
