"""One-sided laws as noise: Weibull, Frechet and Burr variates, shifted to mean 0.

Their logarithm is t/shape for a variate t of one smooth density: moments are one integral over t, and where t has an
exponential tail the payoff has that of a Pareto law, whose moments are known. `scale` is a positive factor of the
noise, in units of payoff, and `excess` E X - 1.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike
from scipy import special

from linbet_jax.noise._base import Additive, law
from linbet_jax.noise.moments import Array, log_shifted, pareto_shifted, tabulated
from linbet_jax.noise.words import exponential

_FAR = 40.0  # where exp(-t) is nothing beside 1


def _log_gamma(x: Any) -> Any:
    """log Gamma, of a traced number too."""
    return jax.scipy.special.gammaln(x) if isinstance(x, jax.core.Tracer) else float(special.gammaln(x))


def _log_gamma1p(y: Any) -> Any:
    """log Gamma(1 + y), which keeps its relative precision at 0: -gamma y + zeta(2) y^2/2 - zeta(3) y^3/3 + ..."""
    if isinstance(y, jax.core.Tracer) or abs(y) > 0.5:
        return _log_gamma(1.0 + y)
    k = np.arange(2, 61)
    return float(np.sum(special.zeta(k) * (-y) ** k / k)) - np.euler_gamma * y


def _expm1(x: Any) -> Any:
    return jnp.expm1(x) if isinstance(x, jax.core.Tracer) else math.expm1(x)


class OneSided(Additive):
    """payoff = mean + scale (X - E X), X > 0: a subclass says `excess` = E X - 1, log X and the law of log X."""

    excess: float

    def __post_init__(self) -> None:
        """Checks the fields and works out `excess`."""
        super().__post_init__()
        self._set(excess=self._excess())

    @abc.abstractmethod
    def _excess(self) -> Any:
        """E X - 1, which keeps the precision of a law that is narrow around 1."""

    @abc.abstractmethod
    def _log(self, energy: jax.Array) -> jax.Array:
        """log X from a standard exponential variate."""

    @abc.abstractmethod
    def _below(self, x: Array) -> Array:
        """P(X <= x) for x > 0."""

    @abc.abstractmethod
    def _shifted(self, offset: float, order: float) -> float:
        """E|X - 1 - offset|^order."""

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        log = self._log(exponential(words[..., 0, :], dtype))
        return jnp.expm1(log) - jnp.asarray(self.excess, dtype)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        place = (x - mean) / self.scale + (1.0 + self.excess)
        with np.errstate(over="ignore"):  # exp(-inf) is 0
            return np.where(place > 0.0, self._below(np.where(place > 0.0, place, 1.0)), 0.0)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        moments = tabulated(lambda shift: self._shifted(self.excess - shift, order), mean / self.scale, order)
        return math.pow(self.scale, order) * moments


@law("Weibull", derived=("excess",), shape=0.05, scale=0.0)
class Weibull(OneSided):
    """Weibull noise: payoff = mean + scale (X - E X), P(X > x) = exp(-x^shape): a stretched exponential for shape < 1.

    E X^p = Gamma(1 + p/shape): all moments are finite, and for shape < 1 no exponential moment is.

    Attributes:
        shape: 0.05 < shape < inf; 1 is the exponential law.
    """

    shape: float
    scale: float = 1.0
    excess: float = dataclasses.field(init=False, repr=False)

    def _excess(self) -> Any:
        return _expm1(_log_gamma1p(1.0 / self.shape))

    def _log(self, energy: jax.Array) -> jax.Array:
        return jnp.log(energy) / jnp.asarray(self.shape, energy.dtype)

    def _below(self, x: Array) -> Array:
        return np.asarray(-np.expm1(-np.power(x, self.shape)))

    def _shifted(self, offset: float, order: float) -> float:
        # t = log E, E exponential; the integrand falls from E = order/shape on.
        high = math.log(80.0 + 4.0 * order / self.shape)
        return log_shifted(lambda t: t - np.exp(t), 1.0 / self.shape, offset, order, -45.0, high)


@law("Frechet", derived=("excess",), shape=1.0, scale=0.0)
class Frechet(OneSided):
    """Frechet noise: payoff = mean + scale (X - E X), P(X <= x) = exp(-x^-shape): the limit of maxima of heavy tails.

    E X^p = Gamma(1 - p/shape), finite for p < shape; 1 < shape < inf.
    """

    shape: float
    scale: float = 1.0
    excess: float = dataclasses.field(init=False, repr=False)

    def _excess(self) -> Any:
        return _expm1(_log_gamma1p(-1.0 / self.shape))

    def _log(self, energy: jax.Array) -> jax.Array:
        return -jnp.log(energy) / jnp.asarray(self.shape, energy.dtype)

    def _below(self, x: Array) -> Array:
        return np.asarray(np.exp(-np.power(x, -self.shape)))

    def _shifted(self, offset: float, order: float) -> float:
        # t = -log E, E exponential.
        body = log_shifted(lambda t: -t - np.exp(-t), 1.0 / self.shape, offset, order, -math.log(80.0), _FAR)
        return body + _tail(-_FAR, 1.0 / self.shape, self.shape, offset, order)


@law("Burr", derived=("excess",), c=0.0, d=0.0, scale=0.0)
class Burr(OneSided):
    """Burr noise: payoff = mean + scale (X - E X), P(X > x) = (1 + x^c)^-d, the type XII law of Burr (1942).

    E X^p = d B(d - p/c, 1 + p/c), finite for p < c d.

    Attributes:
        c: how X begins, P(X <= x) about d x^c for small x; positive.
        d: positive; the tail index c d must be above 1.
    """

    c: float
    d: float
    scale: float = 1.0
    excess: float = dataclasses.field(init=False, repr=False)

    @property
    def max_order(self) -> float:
        """The tail index c d."""
        return float(self.c * self.d)

    def _excess(self) -> Any:
        index: Any = self.c * self.d
        if not isinstance(index, jax.core.Tracer) and not index > 1.0:
            allowed = "1 < c * d (otherwise the mean does not exist)"
            raise ValueError(f"Burr: c and d must satisfy {allowed}, got c = {self.c!r} and d = {self.d!r}")
        first, second = self.d - 1.0 / self.c, 1.0 + 1.0 / self.c
        return _expm1(_log_gamma(first) + _log_gamma(second) - _log_gamma(self.d))  # d B(first, second)

    def _log(self, energy: jax.Array) -> jax.Array:
        depth = energy / jnp.asarray(self.d, energy.dtype)
        return (depth + jnp.log(-jnp.expm1(-depth))) / jnp.asarray(self.c, energy.dtype)  # log(exp(depth) - 1)

    def _below(self, x: Array) -> Array:
        return np.asarray(-np.expm1(-self.d * np.logaddexp(0.0, self.c * np.log(x))))

    def _shifted(self, offset: float, order: float) -> float:
        d, rate = self.d, 1.0 / self.c  # t = c log X has the density d exp(t) / (1 + exp(t))^(d + 1)
        low = -45.0 - math.log(max(1.0, d))
        body = log_shifted(lambda t: math.log(d) + t - (d + 1.0) * np.logaddexp(0.0, t), rate, offset, order, low, _FAR)
        return body + _tail(-d * _FAR, rate, self.c * d, offset, order)


def _tail(log_share: float, rate: float, index: float, offset: float, order: float) -> float:
    """E|X - 1 - offset|^order over t > `_FAR`, which has this share: log X = rate t, there X follows a Pareto law."""
    log_start = rate * _FAR
    weight = log_share + order * log_start
    return math.exp(weight) * float(pareto_shifted(index, 1.0, 1.0 - (1.0 + offset) * math.exp(-log_start), order))
