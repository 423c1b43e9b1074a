"""The laws."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike
from scipy import special

from linbet_jax.noise._base import NEITHER, TIMES, Additive, Base, law, limited
from linbet_jax.noise.moments import (
    Array,
    log_shifted,
    normal_power,
    pareto_moment,
    pareto_shifted,
    stable_above,
    stable_moment,
    student_excess,
    tabulated,
)
from linbet_jax.noise.words import exponential, pareto, polar, signed, stable, uniform


def _pareto_above(x: Array, scale: npt.ArrayLike, shape: float) -> Array:
    """P(scale X > x) = (scale/x)^shape from the scale on; a scale of 0 is the law of the constant 0."""
    x, scale = np.broadcast_arrays(x, scale)
    tail = np.divide(scale, x, out=np.ones(x.shape), where=x > scale) ** shape
    return np.where((x > scale) | (x < 0.0), tail, np.where(scale == 0.0, 0.0, 1.0))


@law("Student t", symmetric=True, orders="df", df=0.001, scale=0.0)
class StudentT(Additive):
    """Student's t noise: payoff = mean + scale * t, t with df degrees of freedom (paper, Table 1: df=3 on S1 and S2).

    ``StudentT(1.0)`` is the Cauchy law. With df <= 1 there is no mean, and `mean` is the centre of the payoffs.

    E|t|^p = df^(p/2) Gamma((p+1)/2) Gamma((df-p)/2) / (sqrt(pi) Gamma(df/2)), finite for p < df.

    Attributes:
        df: degrees of freedom, 0.001 < df < inf; from about 1e16 on the law is the normal one to rounding. Draws end
            near 1e38 in float32 and 1e153 in float64, which is felt below df = 1/4 alone.
        scale: positive factor of the noise, in units of payoff.
    """

    df: float
    scale: float = 1.0
    uniforms: ClassVar[int] = 2

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return polar(words, self.df, dtype)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        place = (x - mean) / self.scale
        near = special.stdtr(self.df, place)
        # Far out, where SciPy's ends: P(T > x) = (df/x^2)^(df/2) / (df B(df/2, 1/2)) to a share of df/x^2.
        size = np.maximum(np.abs(place), 1e8 * math.sqrt(self.df))
        log = self.df * (0.5 * math.log(self.df) - np.log(size)) - special.betaln(0.5 * self.df, 0.5)
        tail = np.exp(log - math.log(self.df))
        return np.where(np.abs(place) < size, near, np.where(place < 0.0, tail, 1.0 - tail))

    def _central(self, order: float, mean: Array) -> float:
        if order == 2.0:
            return self.scale * self.scale * (self.df / (self.df - 2.0))
        log = special.betaln(0.5 * (order + 1.0), 0.5 * (self.df - order)) - special.betaln(0.5, 0.5 * self.df)
        return math.exp(order * (0.5 * math.log(self.df) + math.log(self.scale)) + float(log))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        central, factor = self._central(order, mean), math.pow(self.scale, order)
        if order == 2.0:
            return mean * mean + central
        shifts = np.abs(mean) / self.scale
        return tabulated(lambda shift: central + factor * student_excess(self.df, shift, order), shifts, order)


@law("Gaussian", symmetric=True, scale=0.0)
class Gaussian(Additive):
    """Normal noise: payoff = mean + std * Z, a light-tailed reference.

    Attributes:
        scale: the standard deviation, positive, in units of payoff. The constructor's argument is called `std`; as an
            attribute that is the method that all laws have.
    """

    scale: float
    uniforms: ClassVar[int] = 2

    def __init__(self, std: float = 1.0) -> None:
        """Builds the law.

        Args:
            std: the standard deviation, 0 < std < inf; anything else is a ValueError.
        """
        self._set(scale=limited("Gaussian: std", "std", std, 0.0))

    def __repr__(self) -> str:
        return f"Gaussian(std={self.scale!r})"

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return polar(words, None, dtype)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return np.asarray(special.ndtr((x - mean) / self.scale))

    def _central(self, order: float, mean: Array) -> float:
        if order == 2.0:
            return self.scale * self.scale
        log = 0.5 * order * math.log(2.0) + math.lgamma(0.5 * (order + 1.0)) - 0.5 * math.log(math.pi)
        return math.exp(log + order * math.log(self.scale))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self.scale * self.scale

        def shifted(shift: float) -> float:
            if shift == 0.0:
                return self._central(order, mean)
            return normal_power(lambda z: np.log(np.abs(shift + self.scale * z)), order, 0.0, -shift / self.scale)

        return tabulated(shifted, np.abs(mean), order)


@law("Pareto", shape=1.0)
class Pareto(Base):
    """Pareto payoffs: P(payoff > x) = (s/x)^shape for x >= s, with the scale s = mean (shape-1)/shape set by the mean.

    This is the law on [s, inf) (not the shifted one of `numpy.random.pareto`); a mean of 0 gives the payoff 0.
    E y^p = shape s^p / (shape - p) for p < shape (paper, Section 5: shape 2 and s = mean/2 on S3 and S4).

    Attributes:
        shape: tail index, 1 < shape < inf.
    """

    shape: float
    form: ClassVar[str] = TIMES
    mean_range = 0.0, math.inf

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return pareto(words[..., 0, :], self.shape, dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        shape = jnp.asarray(self.shape, standard.dtype)
        return mean * ((shape - 1.0) / shape) * standard

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return 1.0 - _pareto_above(x, mean * ((self.shape - 1.0) / self.shape), self.shape)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        scale = mean * ((self.shape - 1.0) / self.shape)
        return self.shape * np.power(scale, order) / (self.shape - order)

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        return np.power(mean, order) * pareto_moment(self.shape, (self.shape - 1.0) / self.shape, 0.0, order)


@law("centered Pareto", shape=1.0, scale=0.0)
class CenteredPareto(Additive):
    """One-sided noise: payoff = mean + scale (X - E X), X Pareto on [1, inf), E X = shape/(shape-1).

    Attributes:
        shape: tail index, 1 < shape < inf.
        scale: positive factor of the noise, in units of payoff.
    """

    shape: float
    scale: float = 1.0

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        shape = jnp.asarray(self.shape, dtype)
        return jnp.expm1(exponential(words[..., 0, :], dtype) / shape) - 1.0 / (shape - 1.0)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return 1.0 - _pareto_above((x - mean) / self.scale + self.shape / (self.shape - 1.0), 1.0, self.shape)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        return pareto_moment(self.shape, self.scale, mean, order)


@law("symmetric Pareto", symmetric=True, shape=1.0, scale=0.0)
class SymmetricPareto(Additive):
    """Two-sided noise: payoff = mean + scale X or mean - scale X with equal probability, X Pareto on [1, inf).

    E|noise|^p = scale^p shape/(shape - p) for p < shape. The word's top bit is the sign, its other 63 bits make X.

    Attributes:
        shape: tail index, 1 < shape < inf.
        scale: positive factor of the noise, in units of payoff.
    """

    shape: float
    scale: float = 1.0

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        positive, rest = signed(words[..., 0, :])
        size = pareto(rest, self.shape, dtype)
        return jnp.where(positive, size, -size)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        noise = (x - mean) / self.scale
        above = 0.5 * _pareto_above(np.abs(noise), 1.0, self.shape)
        return np.where(noise < 0.0, above, 1.0 - above)

    def _central(self, order: float, mean: Array) -> float:
        return math.pow(self.scale, order) * self.shape / (self.shape - order)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self._central(order, mean)
        sides = (pareto_shifted(self.shape, self.scale, self.scale + m, order) for m in (mean, -mean))
        return np.where(mean == 0.0, self._central(order, mean), 0.5 * sum(sides))


@law("symmetric stable", symmetric=True, orders="alpha", alpha=0.5, scale=0.0)
class SymmetricStable(Additive):
    """Symmetric alpha-stable noise: payoff = mean + scale * X with E exp(itX) = exp(-|t|^alpha).

    E|X|^p = 2^p Gamma((1+p)/2) Gamma(1 - p/alpha) / (sqrt(pi) Gamma(1 - p/2)), finite for p < alpha (Shanbhag and
    Sreehari 1977). At alpha = 2 the law would be ``Gaussian(2**0.5 * scale)``; alpha = 1 is the Cauchy law. With
    alpha <= 1 there is no mean, and `mean` is the centre of the payoffs.

    Attributes:
        alpha: the index of stability, 1/2 < alpha < 2.
        scale: positive factor of the noise, in units of payoff.
    """

    alpha: float
    scale: float = 1.0
    uniforms: ClassVar[int] = 2
    uppers: ClassVar[dict[str, float]] = {"alpha": 2.0}

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return stable(words, self.alpha, dtype)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        noise = (x - mean) / self.scale
        above = tabulated(lambda size: stable_above(self.alpha, size), np.abs(noise), 1.0)
        return np.where(noise < 0.0, above, 1.0 - above)

    def _central(self, order: float, mean: Array) -> float:
        return math.pow(self.scale, order) * stable_moment(self.alpha, 0.0, order)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        moments = tabulated(lambda shift: stable_moment(self.alpha, shift, order), np.abs(mean) / self.scale, order)
        return math.pow(self.scale, order) * moments


@law("lognormal", sigma=0.0)
class LogNormal(Base):
    """Lognormal payoffs: payoff = mean exp(sigma Z - sigma^2/2), all moments finite; a mean of 0 gives the payoff 0.

    E y^p = mean^p exp(p (p-1) sigma^2 / 2).

    Attributes:
        sigma: standard deviation of the logarithm, positive.
    """

    sigma: float
    uniforms: ClassVar[int] = 2
    form: ClassVar[str] = TIMES
    mean_range = 0.0, math.inf

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return polar(words, None, dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        sigma = jnp.asarray(self.sigma, standard.dtype)
        return mean * jnp.exp(sigma * (standard - 0.5 * sigma))

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        regular = (x > 0.0) & (mean > 0.0)
        ratio = np.divide(x, mean, out=np.ones(x.shape), where=regular)
        inside = special.ndtr(np.log(ratio) / self.sigma + 0.5 * self.sigma)
        return np.asarray(np.where(regular, inside, (mean == 0.0) & (x >= 0.0)))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        return np.power(mean, order) * math.exp(0.5 * order * (order - 1.0) * self.sigma * self.sigma)

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        sigma = self.sigma
        if order == 2.0:
            return mean * mean * math.expm1(sigma * sigma)

        def log_size(z: Array) -> Array:
            exponent = sigma * (z - 0.5 * sigma)
            return np.asarray(np.log(-np.expm1(-np.abs(exponent))) + np.maximum(exponent, 0.0))

        return np.power(mean, order) * normal_power(log_size, order, sigma, 0.5 * sigma)


@law("two-point", value=0.0)
class TwoPoint(Base):
    """The lower bound's payoffs: `value` with probability mean/value, else 0 (paper, Eq. lb.payoff; Theorem 1).

    E y^p = mean value^(p-1). The standard variate is a uniform, to be compared with mean/value.

    Attributes:
        value: the positive payoff, (1/Delta)^(1/epsilon) in the paper; means are between 0 and `value`.
    """

    value: float
    form: ClassVar[str] = NEITHER

    @property
    def mean_range(self) -> tuple[float, float]:
        """Means are between 0 and `value`."""
        return 0.0, self.value

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return uniform(words[..., 0, :], dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        value = jnp.asarray(self.value, standard.dtype)
        # A uniform is never 0 and may round to 1: with <=, a mean of 0 never pays and a mean of `value` always does.
        return jnp.where(standard <= mean / value, value, jnp.zeros_like(value))

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        """Returns the largest raw and central moments over all means in [low, high], for 1 < order <= 3."""
        # value^p q (1-q) ((1-q)^(p-1) + q^(p-1)) with q = mean/value is not convex: it rises up to q = 1/2, then falls.
        if not 1.0 < order <= 3.0:
            raise ValueError(f"{self.name}: the order of a largest moment must satisfy 1 < order <= 3, got {order!r}")
        worst = min(max(0.5 * self.value, low), high)
        return float(self.raw_moment(order, high)), float(self.central_moment(order, worst))

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return np.where(x < 0.0, 0.0, np.where(x < self.value, 1.0 - mean / self.value, 1.0))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        return mean * math.pow(self.value, order - 1.0)

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        q = mean / self.value
        return math.pow(self.value, order) * (q * np.power(1.0 - q, order) + (1.0 - q) * np.power(q, order))


@law("spikes", size=-math.inf, probability=0.0)
class Spikes(Base):
    """Rare spikes of mean 0 in all: `size` with the given probability p, else -size p/(1-p), so that the mean is 0.

    A negative size is a spike down. E|noise|^q = |size|^q p (1 + (p/(1-p))^(q-1)).

    Attributes:
        size: of the spike, in units of payoff, -inf < size < inf.
        probability: of the spike at each pull, 0 < probability < 1.
    """

    size: float
    probability: float
    uppers: ClassVar[dict[str, float]] = {"probability": 1.0}

    @property
    def symmetric(self) -> bool:
        """Both values are as far and as likely for probability 1/2 alone."""
        return self.probability == 0.5 or self.size == 0.0

    @property
    def rest(self) -> float:
        """What is paid, beside the mean, where there is no spike."""
        return -self.size * self.probability / (1.0 - self.probability)

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        size, probability = jnp.asarray(self.size, dtype), jnp.asarray(self.probability, dtype)
        spike = uniform(words[..., 0, :], dtype) <= probability
        return jnp.where(spike, size, -size * probability / (1.0 - probability))

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        spike = self.probability * (x >= mean + self.size)
        return spike + (1.0 - self.probability) * (x >= mean + self.rest)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        spike = self.probability * np.power(abs(mean + self.size), order)
        return spike + (1.0 - self.probability) * np.power(abs(mean + self.rest), order)


@law("two-point noise", gamma=0.0)
class TwoPointNoise(Base):
    """Two-point noise of mean 0 and variance 1: -gamma, or 1/gamma with probability gamma^2/(1+gamma^2).

    After Medina and Yang (2016). E|noise|^p = (gamma^p + gamma^(2-p)) / (1 + gamma^2).

    Attributes:
        gamma: positive size of the downward jump, in units of payoff.
    """

    gamma: float

    @property
    def symmetric(self) -> bool:
        """Both values are as far and as likely for gamma = 1 alone."""
        return self.gamma == 1.0

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        gamma = jnp.asarray(self.gamma, dtype)
        return jnp.where(uniform(words[..., 0, :], dtype) <= 1.0 / (1.0 + gamma * gamma), -gamma, 1.0 / gamma)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        down = 1.0 / (1.0 + self.gamma * self.gamma)
        return np.where(x < mean - self.gamma, 0.0, np.where(x < mean + 1.0 / self.gamma, down, 1.0))

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        down = 1.0 / (1.0 + self.gamma * self.gamma)
        up = self.gamma * self.gamma * down
        return down * np.power(abs(mean - self.gamma), order) + up * np.power(abs(mean + 1.0 / self.gamma), order)


# One-sided laws as noise: Weibull, Frechet and Burr variates, shifted to mean 0

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
    """payoff = mean + scale (X - E X), X > 0: a subclass says `excess` = E X - 1, log X and the law of log X.

    log X is t/shape for a variate t of one smooth density: moments are one integral over t, and where t has an
    exponential tail the payoff has that of a Pareto law, whose moments are known.
    """

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
        scale: positive factor of the noise, in units of payoff.
        excess: E X - 1.
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

    E X^p = Gamma(1 - p/shape), finite for p < shape.

    Attributes:
        shape: tail index, 1 < shape < inf.
        scale: positive factor of the noise, in units of payoff.
        excess: E X - 1.
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
        scale: positive factor of the noise, in units of payoff.
        excess: E X - 1.
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
