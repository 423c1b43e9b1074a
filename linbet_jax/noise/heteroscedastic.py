"""Noise whose scale changes from pull to pull and is revealed with the payoff."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike
from scipy import special

from linbet_jax.noise._base import ADDED, Base, check_part, law
from linbet_jax.noise.moments import Array, over_uniform
from linbet_jax.noise.words import float_dtype, stream_words, uniform

_WIDEST = 30.0  # 10^30 times an ordinary number is one in float32 too


@law("heteroscedastic", noise=0.0, spread=0.0)
class Heteroscedastic(Base):
    """payoff = mean + 10^(spread U) * noise, U uniform on (0, 1) and independent of everything: the scale of each pull.

    A policy that is made for it is shown the scale, from 1 to 10^spread, with the payoff; all others see payoffs alone.
    Given the scale s, E|noise|^p is s^p times that of the law it is made from, and over all scales
    (10^(spread p) - 1)/(spread p ln 10) times it. The variates of that law are the ones that it has by itself under the
    same key; one uniform more makes the scale. Raw moments of other orders than 2, and the cdf, are integrals over the
    scale: some seconds for `Empirical` of 20 000 numbers and 20 arms.

    Attributes:
        noise: a law of this package (or a subclass) that adds its noise to the mean; a mixture may be one.
        spread: decades between the smallest and the largest scale, 0 <= spread <= 30; with 0 the law is `noise`.
    """

    noise: Base
    spread: float

    def __init__(self, noise: Any, spread: Any) -> None:
        """Builds the law.

        Args:
            noise: a law of `linbet_jax.noise` that adds its noise to the mean.
            spread: 0 <= spread <= 30.

        Raises:
            ValueError: naming the field, its value and what is allowed.
        """
        if not isinstance(noise, Base):
            raise ValueError(f"Heteroscedastic: noise must be a law of linbet_jax.noise, got {noise!r}")
        check_part("Heteroscedastic", "noise", noise, "its")
        if noise.form != ADDED:
            raise ValueError(f"Heteroscedastic: noise must add the same noise to every mean, got {noise.name}")
        if not isinstance(spread, jax.core.Tracer):
            real = isinstance(spread, numbers.Real) and not isinstance(spread, bool)
            if not (real and 0.0 <= spread <= _WIDEST):
                raise ValueError(f"Heteroscedastic: spread must be a number with 0 <= spread <= 30, got {spread!r}")
            spread = float(spread)
        self._set(noise=noise, spread=spread)

    @property
    def name(self) -> str:
        """For tables: the scale, and the law that it multiplies."""
        return f"10^U(0, {self.spread:g}) {self.noise.name}"

    @property
    def symmetric(self) -> bool | None:
        """Whether the noise is."""
        return self.noise.symmetric

    @property
    def uniforms(self) -> int:  # type: ignore[override]
        """Uniforms for one variate: those of the noise, and one for the scale."""
        return self.noise.uniforms + 1

    @property
    def max_order(self) -> float:
        """That of the noise."""
        return self.noise.max_order

    def scales(self, key: jax.Array, dtype: DTypeLike | None = None) -> Callable[[jax.Array], jax.Array]:
        """The scales of the variates that `stream` draws: indices [n] -> [n], scale i of (key, i) alone."""
        dtype = float_dtype(dtype)
        words = stream_words(key, 1, first=self.noise.uniforms)
        return lambda indices: self._scale(words(indices)[..., 0, :], dtype)

    def unit_moment(self, order: float) -> float:
        """Returns E|noise/scale|^order, host float64: the noise's own."""
        return float(self.noise.central_moment(order))

    def _scale(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return jnp.exp(jnp.asarray(self.spread, dtype) * math.log(10.0) * uniform(words, dtype))

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        own = self.noise.uniforms
        noise = self.noise.payoff(self.noise.transform(words[..., :own, :], dtype), 0.0)
        return self._scale(words[..., own, :], dtype) * noise

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return self._over_scales(lambda noise, scale: self.noise._cdf(noise / scale, np.zeros(())), x - mean)

    def _central(self, order: float, mean: Array) -> Array:
        # E scale^p = (exp(L) - 1)/L with L = p spread ln 10
        grown = float(special.exprel(order * self.spread * math.log(10.0)))
        return grown * np.asarray(self.noise._central(order, mean), np.float64)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self._central(order, mean)
        return self._over_scales(
            lambda mean, scale: scale**order * np.asarray(self.noise._raw(order, mean / scale)), mean
        )

    def _over_scales(self, function: Callable[[Array, Array], Any], values: Array) -> Array:
        """E function(value, scale), elementwise in the values."""
        rate = self.spread * math.log(10.0)
        return over_uniform(lambda value, u: function(value, special.exp10(self.spread * u)), values, math.ceil(rate))
