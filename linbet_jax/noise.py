"""Payoff laws: heavy-tailed (and a few light-tailed) distributions of one payoff given its arm's mean.

A law is a small immutable object: it hashes and compares by value, pickles, and is a JAX pytree whose leaves are its
parameters, so one compiled program serves every value of them. It answers two kinds of questions:

* inside jitted code, `standard(key, dtype)` draws one variate and `payoff(standard, mean)` turns it into a payoff;
* on the host, in NumPy float64, `cdf`, `raw_moment`, `central_moment`, `std` are exact: closed forms where they exist,
  else quadrature with a relative error below 1e-10. No moment is ever estimated by sampling.

All randomness is 32-bit words, two for each uniform, whatever the dtype: float32 and float64 see the same draw up to
rounding. U = (64-bit word + 1/2) / 2^64 is never 0, 1 - U is taken from the complemented word, and -log U comes from
the smaller of the two: both ends keep their full relative precision in float32 too (a 23-bit uniform would cut a
Pareto tail at 2^(23/shape)). No sampler has a loop.

A law of one's own needs what `PayoffLaw` lists (subclassing is optional). A subclass of a law here plays what it
overrides; it says its own moments where it changes them, and is a constant of the compiled program unless it is
registered as a pytree too.

References:
    Shao, Yu, King, Lyu. Almost optimal algorithms for linear stochastic bandits with heavy-tailed payoffs.
        NeurIPS 2018.
    Salmon, Moraes, Dror, Shaw. Parallel random numbers: as easy as 1, 2, 3. SC 2011.
    Bailey. Polar generation of random variates with the t-distribution. Mathematics of Computation, 1994.
    Medina, Yang. No-regret algorithms for heavy-tailed linear bandits. ICML 2016.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike, DTypeLike
from scipy import special

__all__ = [
    "CenteredPareto",
    "Gaussian",
    "LogNormal",
    "Pareto",
    "PayoffLaw",
    "StudentT",
    "SymmetricPareto",
    "TwoPoint",
    "TwoPointNoise",
    "admissible_epsilon",
    "check_means",
    "exponential",
    "float_dtype",
    "half_turn",
    "stream_words",
    "traceable",
    "uniform",
    "variates",
]

Host = Any  # a Python or NumPy number, or an array of them
_Law = TypeVar("_Law", bound=type)
_Array = npt.NDArray[np.float64]


class PayoffLaw(Protocol):
    """What a payoff law offers; the mean of the payoff is always the `mean` it is given.

    Every law has the first five. A bandit asks for a moment only where it is not told the bound: `raw_moment` and
    `central_moment` with fixed arms, `moment_bounds` with arms that are drawn. A law may also have `std(mean)`, the
    standard deviation, `check_means(means)`, which raises ValueError for means it does not allow beside those outside
    `mean_range`, and `stream(key, dtype)`, which draws as in `variates` and faster than `standard`.

    The parameters of a law follow the dtype of the variate in jitted code, and are float64 on the host.
    """

    @property
    def name(self) -> str:
        """A short name for tables and messages, e.g. ``Student t(3)``."""
        ...

    @property
    def max_order(self) -> float:
        """The supremum of the orders of finite moments: a moment of order p is finite if and only if p < max_order."""
        ...

    @property
    def mean_range(self) -> tuple[float, float]:
        """The smallest and the largest mean allowed (infinite where there is no limit)."""
        ...

    def standard(self, key: jax.Array, dtype: DTypeLike | None = None) -> jax.Array:
        """Draws the standard variate of one pull, a scalar that does not depend on the arm's mean."""
        ...

    def payoff(self, standard: ArrayLike, mean: ArrayLike) -> jax.Array:
        """Turns standard variates into payoffs with the given means, elementwise."""
        ...

    def raw_moment(self, order: float, mean: Host = 0.0) -> Host:
        """Returns E|y|^order of a payoff with this mean (a float, or one for each mean), host float64."""
        ...

    def central_moment(self, order: float, mean: Host = 0.0) -> Host:
        """Returns E|y - mean|^order (a float, or one for each mean), host float64."""
        ...

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        """Returns the largest raw and central moments over all means in [low, high]."""
        ...


def admissible_epsilon(law: PayoffLaw) -> str:
    """Describes the paper's epsilon that this law admits: moments of order 1 + epsilon must be finite.

    Returns:
        ``0 < epsilon <= 1``, or ``0 < epsilon < e`` with the supremum e, which is not attained.
    """
    return "0 < epsilon <= 1" if law.max_order > 2.0 else f"0 < epsilon < {law.max_order - 1.0:.12g}"


def check_means(law: PayoffLaw, means: Host) -> None:
    """Raises ValueError when one of the means is not finite or not in the law's `mean_range`."""
    try:
        array = np.asarray(means, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{law.name}: means must be numbers, got {means!r}") from None
    low, high = law.mean_range
    bad = array[~(np.isfinite(array) & (array >= low) & (array <= high))]
    if bad.size:
        raise ValueError(f"{law.name}: means must be finite with {low:g} <= mean <= {high:g}, got {float(bad[0])!r}")


def traceable(law: object) -> bool:
    """Whether a law is a pytree of numbers: jitted code then takes it as an argument, else as a constant."""
    return all(isinstance(leaf, (int, float, np.number, np.ndarray, jax.Array)) for leaf in jax.tree.leaves(law))


def variates(law: Any, key: jax.Array, dtype: DTypeLike | None = None) -> Callable[[jax.Array], jax.Array]:
    """The standard variates of a law as a function of an index: indices [n] -> [n], variate i of (key, i) alone.

    They come from the law's `stream`; without one, or where a subclass has overridden `standard` since, variate i is
    `standard` of the key folded with i.
    """
    if hasattr(law, "stream") and _depth(law, "stream") <= _depth(law, "standard"):
        draw = law.stream(key, dtype)
    else:
        draw = jax.vmap(lambda index: law.standard(jax.random.fold_in(key, index), dtype))
    return lambda indices: _floating(draw(indices), dtype)


def _floating(numbers: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Numbers as they are, integers in this dtype."""
    array = jnp.asarray(numbers)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float_dtype(dtype))


def _depth(law: object, member: str) -> int:
    """How many classes above a law a member is written; more than there are for one of its `__getattr__`."""
    places = [law, *type(law).__mro__]
    return next((n for n, place in enumerate(places) if member in getattr(place, "__dict__", ())), len(places))


# Uniforms -------------------------------------------------------------------------------------------------------------


def float_dtype(dtype: DTypeLike | None = None) -> np.dtype[Any]:
    """Returns the float dtype to compute in: JAX's own default for None.

    Raises:
        ValueError: for anything but float32 and float64, and for float64 while JAX's 64-bit types are off (JAX would
            silently compute in float32).
    """
    if dtype is None:
        return np.dtype(jax.dtypes.canonicalize_dtype(float))
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        wanted = np.dtype(object)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        raise ValueError("dtype must be float32 while JAX's 64-bit types are off (jax_enable_x64), got float64")
    return wanted


def uniform(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2], high and low, into uniforms [...]: (64-bit word + 1/2) / 2^64 rounded to dtype.

    They are never 0; the largest ones round to 1.
    """
    high, low = words[..., 0].astype(dtype), words[..., 1].astype(dtype)
    return high * 2.0**-32 + (low + 0.5) * 2.0**-64


def exponential(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2] into standard exponentials -log U [...], between 2^-65 and 65 log 2.

    Full relative precision at both ends: log(2^n U) is the series of 2 artanh(f / (2 + f)) in f = 2^n U - 1, with n so
    that 2^n U lies between sqrt(1/2) and sqrt(2); for n = 0 -f is 1 - U, taken from ~words. One series serves all.
    """
    near = words[..., 0] >= np.uint32(math.isqrt(2**63))  # U >= sqrt(1/2), to 32 bits
    value = uniform(jnp.where(near[..., None], ~words, words), dtype)
    width, mantissa = (jnp.uint64, 52) if np.dtype(dtype) == np.float64 else (jnp.uint32, 23)
    bits = jax.lax.bitcast_convert_type(value, width)
    doublings = (jax.lax.bitcast_convert_type(jnp.asarray(math.sqrt(2.0), dtype), width) - bits) >> mantissa
    scaled = jax.lax.bitcast_convert_type(bits + (doublings << mantissa), jnp.dtype(dtype))
    offset = jnp.where(near, -value, scaled - 1.0)
    ratio = offset / (2.0 + offset)
    square = ratio * ratio
    last = 9 if mantissa == 52 else 4
    series = jnp.full_like(square, 1.0 / (2 * last + 1))
    for k in range(last - 1, -1, -1):
        series = series * square + 1.0 / (2 * k + 1)
    whole = jnp.where(near, 0.0, doublings.astype(jnp.int32).astype(dtype)) * math.log(2.0)
    return whole - 2.0 * ratio * series


def _expm1(z: jax.Array) -> jax.Array:
    """exp(z) - 1 for z from 0 to 88, elementwise, with full relative precision: 2^k (exp(r) - 1) + (2^k - 1).

    r = z - k log 2 is within half of log 2, where the series of exp(r) - 1 is short.
    """
    double = z.dtype == jnp.float64
    high = 0.693147180369123816490 if double else 0.693359375  # of log 2, with zeros at its end: k * high is exact
    count = jnp.round(z * (1.0 / math.log(2.0)))
    rest = (z - count * high) - count * (math.log(2.0) - high if not double else 1.90821492927058770002e-10)
    last = 13 if double else 7
    series = jnp.full_like(rest, 1.0 / math.factorial(last))
    for k in range(last - 1, 0, -1):
        series = series * rest + 1.0 / math.factorial(k)
    exponent = count.astype(jnp.int32)
    if double:
        power = jax.lax.bitcast_convert_type((exponent + 1023).astype(jnp.uint64) << 52, jnp.float64)
    else:
        power = jax.lax.bitcast_convert_type((exponent + 127) << 23, jnp.float32)
    return power * (series * rest) + (power - 1.0)


def half_turn(words: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Turns 32-bit words [..., 2] into sines [...] of an angle that is uniform on (-pi/2, pi/2).

    The law is that of the cosine of a uniform angle on the circle, and a cosine near 0 keeps its relative precision.
    The sine is its Taylor polynomial of degree 21, exact to rounding there: no argument has to be reduced.
    """
    signed = jax.lax.bitcast_convert_type(words[..., 0] ^ np.uint32(2**31), jnp.int32).astype(dtype)
    low = words[..., 1].astype(dtype)
    angle = jnp.pi * (signed * 2.0**-32 + (low + 0.5) * 2.0**-64)
    square = angle * angle
    series = jnp.full_like(square, 1.0 / math.factorial(21))
    for k in range(9, -1, -1):
        series = series * square + (-1.0) ** k / math.factorial(2 * k + 1)
    return angle * series


def _polar(words: jax.Array, df: ArrayLike | None, dtype: DTypeLike) -> jax.Array:
    """Student t variates [...] from words [..., 2, 2] of two uniforms (Bailey 1994); normal ones for df=None.

    Bailey's sqrt(df (U^(-2/df) - 1)) cos(2 pi V) is sqrt(df h (h + 2)) cos(2 pi V) with h = exp(-log(U) / df) - 1,
    which does not cancel. From 10^17 degrees of freedom on the law is the normal one to rounding.
    """
    first, second = jnp.unstack(words, axis=-2)
    energy, cosine = exponential(first, dtype), half_turn(second, dtype)
    if df is None:
        return jnp.sqrt(2.0 * energy) * cosine
    degrees = jnp.minimum(jnp.asarray(df, dtype), 1e17)
    excess = _expm1(energy * (1.0 / degrees))
    if np.dtype(dtype) == np.float64:
        return jnp.sqrt(degrees * excess * (excess + 2.0)) * cosine
    return jnp.sqrt(degrees * excess) * jnp.sqrt(excess + 2.0) * cosine  # the product could overflow


# Words ----------------------------------------------------------------------------------------------------------------


def stream_words(key: jax.Array, uniforms: int) -> Callable[[jax.Array], jax.Array]:
    """Random words as a function of an index: the words of index i depend on (key, i) alone.

    Args:
        key: a key of any generator.
        uniforms: how many uniforms an index gets, two words each.

    Returns:
        indices [n] -> words [n, uniforms, 2] uint32: for uniform u the first two words of
        ``key_data(fold_in(fold_in(key, u), i))``. For JAX's default generator that is one Threefry block each, which is
        computed here without a loop: on CPU ``fold_in`` is a rolled one, several times slower.
    """
    own = [jax.random.key_data(jax.random.fold_in(key, u)) for u in range(uniforms)]
    if jax.random.key_impl(key) == "threefry2x32":

        def threefry(indices: jax.Array) -> jax.Array:
            counts = indices.astype(jnp.uint32)
            return jnp.stack([jnp.stack(_threefry(data[0], data[1], counts), -1) for data in own], -2)

        return threefry
    keys = [jax.random.wrap_key_data(data, impl=jax.random.key_impl(key)) for data in own]

    def folded(indices: jax.Array) -> jax.Array:
        fold = jax.vmap(jax.random.fold_in, in_axes=(None, 0))
        return jnp.stack([jax.random.key_data(fold(one, indices))[:, :2] for one in keys], -2)

    return folded


def _threefry(first: jax.Array, second: jax.Array, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011) of the blocks (0, count); uint32, elementwise.

    Sixteen of the rounds are two turns of a loop: its results are stored, where XLA would compute the words anew inside
    each of their uses.
    """
    schedule = jnp.stack([first, second, first ^ second ^ np.uint32(0x1BD11BDA)])

    def group(left: jax.Array, right: jax.Array, number: Any, turns: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
        for turn in turns:
            left = left + right
            right = ((right << np.uint32(turn)) | (right >> np.uint32(32 - turn))) ^ left
        count = jnp.asarray(number, jnp.uint32) + np.uint32(1)
        return left + schedule[(number + 1) % 3], right + schedule[(number + 2) % 3] + count

    def pair(number: jax.Array, words: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, right = group(*words, 2 * number, (13, 15, 26, 6))
        return group(left, right, 2 * number + 1, (17, 29, 16, 24))

    start = jnp.broadcast_to(first, counts.shape), counts + second
    left, right = jax.lax.fori_loop(np.int32(0), np.int32(2), pair, start)
    return group(left, right, 4, (13, 15, 26, 6))


# Quadrature -----------------------------------------------------------------------------------------------------------


def _integrate(function: Callable[[_Array], _Array], low: float, high: float, kink: float, width: float = 1.0) -> float:
    """Integrates a function that is smooth on the scale `width` except at the kink, where it is |distance|^order.

    Gauss-Legendre on panels of at most `width`, halved again and again towards the kink (clipped into the interval).
    """
    kink = min(max(kink, low), high)
    graded = width * 2.0 ** -np.arange(50)
    even = np.linspace(low, high, 1 + max(1, math.ceil((high - low) / width)))
    edges = np.unique(np.clip(np.concatenate([even, [kink], kink - graded, kink + graded]), low, high))
    half = 0.5 * np.diff(edges)[:, None]
    nodes, weights = special.roots_legendre(24)
    with np.errstate(divide="ignore", over="ignore"):  # the logarithm of 0, and moments that overflow
        return float(np.sum(half * weights * function(edges[:-1, None] + half * (1.0 + nodes))))


_NODES = 20


def _tabulated(moment: Callable[[float], float], points: npt.ArrayLike, order: float) -> _Array:
    """A moment at many points, one by one where they are few, else off a polynomial of degree 19 for each octave.

    A moment that is smooth away from 0 loses a few units in the last place, times 2^order within an octave.
    """
    distinct, inverse = np.unique(np.asarray(points, np.float64), return_inverse=True)
    octaves = np.stack([np.sign(distinct), np.frexp(distinct)[1]])
    values = np.empty(distinct.shape)

    def exact(some: _Array) -> _Array:
        return np.array([moment(float(point)) for point in some])

    for octave in np.unique(octaves, axis=1).T:
        here = (octaves == octave[:, None]).all(axis=0)
        some = distinct[here]
        few = some.size <= _NODES or order > 8.0
        table = exact if few else np.polynomial.Chebyshev.interpolate(exact, _NODES - 1, (some[0], some[-1]))
        values[here] = table(some)
    return values[inverse].reshape(np.shape(points))


def _pareto_shifted(shape: float, scale: float, offset: npt.ArrayLike, order: float) -> _Array:
    """E|scale (X - 1) + offset|^order for X of the Pareto law on [1, inf), order < shape, elementwise in the offset."""
    return _tabulated(lambda one: _pareto_shifted_once(shape, scale, one, order), offset, order)


def _pareto_shifted_once(shape: float, scale: float, offset: float, order: float) -> float:
    """The same for one offset.

    X = exp(E/shape) with E exponential; from `start` on the integrand is expanded in powers of 1/X and integrated
    exactly, because its tail exp(-(1 - order/shape) E) may be as slow as one likes.
    """
    pole = 1.0 - offset / scale  # the integrand is (scale |X - pole|)^order
    start = shape * math.log(8.0 * max(1.0, abs(pole)))
    light = (60.0 + order * math.log(shape)) / (1.0 - order / shape)  # nothing is left of a light tail beyond

    def integrand(e: _Array) -> _Array:
        return np.asarray(np.exp(order * np.log(np.abs(scale * np.expm1(e / shape) + offset)) - e))

    kink = shape * math.log1p(-offset / scale) if offset < 0.0 else 0.0
    body = _integrate(integrand, 0.0, min(start, light), kink)
    if light < start:
        return body
    j = np.arange(40)
    terms = special.binom(order, j) * (-pole * math.exp(-start / shape)) ** j * shape / (shape - order + j)
    return body + float(np.sum(terms)) * math.exp(order * math.log(scale) - start * (1.0 - order / shape))


def _pareto_moment(shape: float, scale: float, shift: npt.ArrayLike, order: float) -> _Array:
    """E|shift + scale (X - E X)|^order for X of the Pareto law on [1, inf), order < shape, elementwise in the shift."""
    shift = np.asarray(shift)
    if order == 2.0:
        return shift * shift + scale * scale * shape / ((shape - 1.0) * (shape - 1.0) * (shape - 2.0))
    return _pareto_shifted(shape, scale, shift - scale / (shape - 1.0), order)


def _normal_power(log_size: Callable[[_Array], _Array], order: float, tilt: float, kink: float) -> float:
    """E exp(order * log_size(Z)) for Z normal, where log_size grows no faster than tilt * Z + log |Z|."""

    def integrand(z: _Array) -> _Array:
        return np.asarray(np.exp(order * log_size(z) - 0.5 * z * z) / math.sqrt(2.0 * math.pi))

    return _integrate(integrand, -40.0, 40.0 + order * tilt, kink, 1.0 / max(1.0, tilt * max(order, 1.0)))


# What the laws share --------------------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True, eq_default=False)
def _law(cls: _Law) -> _Law:
    """Makes a class a frozen dataclass of numbers and a JAX pytree, which JAX may rebuild with anything in the fields.

    Equality is by all that an object holds (`_Base.__eq__`), which in a subclass may be more than the fields.
    """
    dataclasses.dataclass(frozen=True, eq=False)(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))

    def flatten(law: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(law, name) for name in names), None

    def flatten_with_keys(law: Any) -> tuple[tuple[Any, ...], None]:
        return tuple((jax.tree_util.GetAttrKey(name), getattr(law, name)) for name in names), None

    def unflatten(_: None, leaves: Any) -> Any:
        law: Any = object.__new__(cls)
        for name, leaf in zip(names, leaves, strict=True):
            object.__setattr__(law, name, leaf)
        return law

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def _number(value: Any, what: str, requirement: str) -> float:
    """Returns one real number as a float, or raises ValueError."""
    if not isinstance(value, (bool, str, bytes)) and np.ndim(value) == 0:
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"{what} must be one number with {requirement}, got {value!r}")


def _limited(law: object, field: str, value: Any, limit: float) -> Any:
    """Returns a parameter as a float, or raises ValueError unless limit < value < inf; traced values pass through."""
    if isinstance(value, jax.core.Tracer):
        return value
    what, requirement = f"{type(law).__name__}: {field}", f"{limit:g} < {field} < inf"
    number = _number(value, what, requirement)
    if not limit < number < math.inf:
        reason = " (otherwise the mean does not exist)" if limit == 1.0 and number <= limit else ""
        raise ValueError(f"{what} must satisfy {requirement}{reason}, got {value!r}")
    return number


def _scalar(value: Any) -> Host:
    """A float for a scalar, else the float64 array."""
    array = np.asarray(value, np.float64)
    return float(array) if array.ndim == 0 else array


class _Base(PayoffLaw):
    """What the laws of this module share; a subclass adds its transformation, its payoff, its cdf and its moments."""

    label: ClassVar[str]
    limits: ClassVar[dict[str, float]]  # parameter -> its exclusive lower limit
    tail: ClassVar[str | None] = None  # the parameter that is the supremum of the finite orders, if there is one
    uniforms: ClassVar[int] = 1  # uniforms for one variate

    def __post_init__(self) -> None:
        for field, limit in self.limits.items():
            object.__setattr__(self, field, _limited(self, field, getattr(self, field), limit))

    def __eq__(self, other: object) -> bool:
        """Equality of class and numbers."""
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """A hash that agrees with equality."""
        return hash((type(self), *sorted(vars(self).items())))

    @property
    def name(self) -> str:
        label = vars(type(self)).get("label", type(self).__name__)  # a subclass is another law
        first, *rest = ((field, getattr(self, field)) for field in self.limits)
        return f"{label}({first[1]:g}" + "".join(f", {k} {v:g}" for k, v in rest if v != 1.0) + ")"

    @property
    def max_order(self) -> float:
        return math.inf if self.tail is None else float(getattr(self, self.tail))

    @property
    def mean_range(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        """Turns 32-bit words [..., uniforms, 2] into standard variates [...] (all that is random about a law)."""
        return self._transform(words, dtype)

    def standard(self, key: jax.Array, dtype: DTypeLike | None = None) -> jax.Array:
        dtype = float_dtype(dtype)
        keys = [key] if self.uniforms == 1 else list(jax.random.split(key, self.uniforms))
        return self.transform(jnp.stack([jax.random.bits(one, (2,), jnp.uint32) for one in keys]), dtype)

    def stream(self, key: jax.Array, dtype: DTypeLike | None = None) -> Callable[[jax.Array], jax.Array]:
        """What `variates` returns: the same law as `standard`, several times faster than key by key."""
        dtype = float_dtype(dtype)
        words = stream_words(key, self.uniforms)
        return lambda indices: self.transform(words(indices), dtype)

    def payoff(self, standard: ArrayLike, mean: ArrayLike) -> jax.Array:
        drawn = _floating(standard)
        return self._payoff(drawn, jnp.asarray(mean, drawn.dtype))

    def sample(
        self, key: jax.Array, mean: ArrayLike, shape: tuple[int, ...] = (), dtype: DTypeLike | None = None
    ) -> jax.Array:
        """Draws payoffs of this shape with these means (broadcast to it); draw i depends only on (key, i)."""
        sizes: Any = shape if type(shape) is tuple else (shape,)
        if not all(isinstance(n, (int, np.integer)) and n >= 0 for n in sizes):
            raise ValueError(f"shape must be a tuple of integers, all at least 0, got {shape!r}")
        if jnp.ndim(mean) > len(sizes) or np.broadcast_shapes(jnp.shape(mean), sizes) != sizes:
            raise ValueError(f"mean must broadcast to shape {sizes}, got shape {jnp.shape(mean)}")
        traced, constant = (self, None) if traceable(self) else (None, self)
        payoffs: jax.Array = _sample(traced, constant, key, mean, sizes, float_dtype(dtype))
        return payoffs

    def check_means(self, means: Host) -> None:
        """Raises ValueError when one of the means is not finite or not allowed."""
        check_means(self, means)

    def cdf(self, x: Host, mean: Host = 0.0) -> Host:
        """Returns P(payoff <= x), host float64, broadcasting x with mean."""
        self.check_means(mean)
        return _scalar(self._cdf(*np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(mean, np.float64))))

    def std(self, mean: Host = 0.0) -> Host:
        """Returns the standard deviation of a payoff with this mean, infinite where there is no variance."""
        if self.max_order > 2.0:
            return _scalar(np.sqrt(self.central_moment(2.0, mean)))
        self.check_means(mean)
        return _scalar(np.full(np.shape(mean), math.inf))

    def raw_moment(self, order: float, mean: Host = 0.0) -> Host:
        return self._moment(self._raw, order, mean)

    def central_moment(self, order: float, mean: Host = 0.0) -> Host:
        return self._moment(self._central, order, mean)

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        # For order >= 1 both moments are convex in the mean: the largest are at the ends.
        ends = np.array([low, high])
        return float(np.max(self.raw_moment(order, ends))), float(np.max(self.central_moment(order, ends)))

    def _moment(self, formula: Callable[[float, _Array], npt.ArrayLike], order: float, mean: Host) -> Host:
        what = f"{self.name}: the order of a moment"
        order = _number(order, what, "0 < order < inf")
        if not 0.0 < order < math.inf:
            raise ValueError(f"{what} must satisfy 0 < order < inf, got {order!r}")
        if order >= self.max_order:
            raise ValueError(
                f"{what} must be below {self.max_order:g}, got {order!r}: that moment is infinite "
                f"(with order = 1 + epsilon, {admissible_epsilon(self)})"
            )
        self.check_means(mean)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.asarray(formula(order, np.asarray(mean, np.float64)))
        except OverflowError:
            values = np.asarray(math.inf)
        if not np.isfinite(values).all():
            raise ValueError(f"{what} must be smaller, got {order!r}: the moment exceeds the range of float64")
        return _scalar(np.broadcast_to(values, np.shape(mean)).copy())

    @abc.abstractmethod
    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array: ...

    @abc.abstractmethod
    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array: ...

    @abc.abstractmethod
    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike: ...

    @abc.abstractmethod
    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike: ...

    @abc.abstractmethod
    def _central(self, order: float, mean: _Array) -> npt.ArrayLike: ...


class _Additive(_Base):
    """Laws of the form mean + scale * variate: the same noise at every mean."""

    scale: float

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        return mean + jnp.asarray(self.scale, standard.dtype) * standard


@functools.partial(jax.jit, static_argnames=("constant", "shape", "dtype"))
def _sample(
    traced: Any, constant: Any, key: jax.Array, mean: ArrayLike, shape: tuple[int, ...], dtype: DTypeLike
) -> jax.Array:
    law: _Base = traced if constant is None else constant
    drawn = variates(law, key, dtype)(jnp.arange(math.prod(shape), dtype=jnp.uint32))
    return law.payoff(drawn.reshape(shape), mean)


def _pareto(words: jax.Array, shape: ArrayLike, dtype: DTypeLike) -> jax.Array:
    """Pareto variates U^(-1/shape) >= 1 from words [..., 2]."""
    return jnp.exp(exponential(words, dtype) / jnp.asarray(shape, dtype))


def _pareto_above(x: _Array, scale: npt.ArrayLike, shape: float) -> _Array:
    """P(scale X > x) = (scale/x)^shape from the scale on; a scale of 0 is the law of the constant 0."""
    x, scale = np.broadcast_arrays(x, scale)
    tail = np.divide(scale, x, out=np.ones(x.shape), where=x > scale) ** shape
    return np.where((x > scale) | (x < 0.0), tail, np.where(scale == 0.0, 0.0, 1.0))


# The laws -------------------------------------------------------------------------------------------------------------


@_law
class StudentT(_Additive):
    """Student's t noise: payoff = mean + scale * t, t with df degrees of freedom (paper, Table 1: df=3 on S1 and S2).

    E|t|^p = df^(p/2) Gamma((p+1)/2) Gamma((df-p)/2) / (sqrt(pi) Gamma(df/2)), finite for p < df.

    Attributes:
        df: degrees of freedom, 1 < df < inf; from about 1e16 on the law is the normal one to rounding.
        scale: positive factor of the noise, in units of payoff.
    """

    df: float
    scale: float = 1.0
    label: ClassVar[str] = "Student t"
    limits: ClassVar[dict[str, float]] = {"df": 1.0, "scale": 0.0}
    tail: ClassVar[str | None] = "df"
    uniforms: ClassVar[int] = 2

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return _polar(words, self.df, dtype)

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return np.asarray(special.stdtr(self.df, (x - mean) / self.scale))

    def _central(self, order: float, mean: _Array) -> float:
        if order == 2.0:
            return self.scale * self.scale * (self.df / (self.df - 2.0))
        log = special.betaln(0.5 * (order + 1.0), 0.5 * (self.df - order)) - special.betaln(0.5, 0.5 * self.df)
        return math.exp(order * (0.5 * math.log(self.df) + math.log(self.scale)) + float(log))

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        central = self._central(order, mean)
        if order == 2.0:
            return mean * mean + central
        return _tabulated(lambda shift: self._shifted(order, shift, central), np.abs(mean) / self.scale, order)

    def _shifted(self, order: float, shift: float, central: float) -> float:
        """E|scale (t + shift)|^order, from the one at shift 0."""
        if shift == 0.0:
            return central
        # E|m + s t|^p - E|s t|^p has a fast tail, |t|^(p-2): integrate it over log|t|. Both signs of t are folded.
        df = self.df
        constant = math.log(2.0) - float(special.betaln(0.5, 0.5 * df)) - 0.5 * math.log(df)

        def integrand(log_t: _Array) -> _Array:
            log_top = np.maximum(log_t, math.log(shift))
            t, top = np.exp(log_t), np.exp(log_top)
            shifted = 0.5 * (np.abs(t - shift) / top) ** order + 0.5 * ((t + shift) / top) ** order
            log_density = constant - 0.5 * (df + 1.0) * np.log1p(t * (t / df)) + log_t
            return np.asarray(np.exp(log_density + order * log_top) * (shifted - (t / top) ** order))

        # Panels of half a unit: the density's complex poles are pi/2 away, and a normal one falls doubly exponentially.
        end = max(0.0, math.log(shift)) + 25.0
        return central + math.pow(self.scale, order) * _integrate(integrand, -45.0, end, math.log(shift), 0.5)


@_law
class Gaussian(_Additive):
    """Normal noise: payoff = mean + std * Z, a light-tailed reference.

    Attributes:
        scale: the standard deviation, positive, in units of payoff. The constructor's argument is called `std`; as an
            attribute that is the method that all laws have.
    """

    scale: float
    label: ClassVar[str] = "Gaussian"
    limits: ClassVar[dict[str, float]] = {"scale": 0.0}
    uniforms: ClassVar[int] = 2

    def __init__(self, std: float = 1.0) -> None:
        """Builds the law with this standard deviation, 0 < std < inf; anything else is a ValueError."""
        object.__setattr__(self, "scale", _limited(self, "std", std, 0.0))

    def __repr__(self) -> str:
        """The call that builds an equal law."""
        return f"Gaussian(std={self.scale!r})"

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return _polar(words, None, dtype)

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return np.asarray(special.ndtr((x - mean) / self.scale))

    def _central(self, order: float, mean: _Array) -> float:
        if order == 2.0:
            return self.scale * self.scale
        log = 0.5 * order * math.log(2.0) + math.lgamma(0.5 * (order + 1.0)) - 0.5 * math.log(math.pi)
        return math.exp(log + order * math.log(self.scale))

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self.scale * self.scale

        def shifted(shift: float) -> float:
            if shift == 0.0:
                return self._central(order, mean)
            return _normal_power(lambda z: np.log(np.abs(shift + self.scale * z)), order, 0.0, -shift / self.scale)

        return _tabulated(shifted, np.abs(mean), order)


@_law
class Pareto(_Base):
    """Pareto payoffs: P(payoff > x) = (s/x)^shape for x >= s, with the scale s = mean (shape-1)/shape set by the mean.

    This is the law on [s, inf) (not the shifted one of `numpy.random.pareto`); a mean of 0 gives the payoff 0.
    E y^p = shape s^p / (shape - p) for p < shape (paper, Section 5: shape 2 and s = mean/2 on S3 and S4).

    Attributes:
        shape: tail index, 1 < shape < inf.
    """

    shape: float
    label: ClassVar[str] = "Pareto"
    limits: ClassVar[dict[str, float]] = {"shape": 1.0}
    tail: ClassVar[str | None] = "shape"

    @property
    def mean_range(self) -> tuple[float, float]:
        """Means are not negative."""
        return 0.0, math.inf

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return _pareto(words[..., 0, :], self.shape, dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        shape = jnp.asarray(self.shape, standard.dtype)
        return mean * ((shape - 1.0) / shape) * standard

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return 1.0 - _pareto_above(x, mean * ((self.shape - 1.0) / self.shape), self.shape)

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        scale = mean * ((self.shape - 1.0) / self.shape)
        return self.shape * np.power(scale, order) / (self.shape - order)

    def _central(self, order: float, mean: _Array) -> npt.ArrayLike:
        return np.power(mean, order) * _pareto_moment(self.shape, (self.shape - 1.0) / self.shape, 0.0, order)


@_law
class CenteredPareto(_Additive):
    """One-sided noise: payoff = mean + scale (X - E X), X Pareto on [1, inf), E X = shape/(shape-1).

    Attributes:
        shape: tail index, 1 < shape < inf.
        scale: positive factor of the noise, in units of payoff.
    """

    shape: float
    scale: float = 1.0
    label: ClassVar[str] = "centered Pareto"
    limits: ClassVar[dict[str, float]] = {"shape": 1.0, "scale": 0.0}
    tail: ClassVar[str | None] = "shape"

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        shape = jnp.asarray(self.shape, dtype)
        return jnp.expm1(exponential(words[..., 0, :], dtype) / shape) - 1.0 / (shape - 1.0)

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return 1.0 - _pareto_above((x - mean) / self.scale + self.shape / (self.shape - 1.0), 1.0, self.shape)

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        return _pareto_moment(self.shape, self.scale, mean, order)

    def _central(self, order: float, mean: _Array) -> npt.ArrayLike:
        return _pareto_moment(self.shape, self.scale, 0.0, order)


@_law
class SymmetricPareto(_Additive):
    """Two-sided noise: payoff = mean + scale X or mean - scale X with equal probability, X Pareto on [1, inf).

    E|noise|^p = scale^p shape/(shape - p) for p < shape. The word's top bit is the sign, its other 63 bits make X.

    Attributes:
        shape: tail index, 1 < shape < inf.
        scale: positive factor of the noise, in units of payoff.
    """

    shape: float
    scale: float = 1.0
    label: ClassVar[str] = "symmetric Pareto"
    limits: ClassVar[dict[str, float]] = {"shape": 1.0, "scale": 0.0}
    tail: ClassVar[str | None] = "shape"

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        high, low = words[..., 0, 0], words[..., 0, 1]
        size = _pareto(jnp.stack([(high << 1) | (low >> 31), low << 1], -1), self.shape, dtype)
        return jnp.where(high >> 31 == 1, size, -size)

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        noise = (x - mean) / self.scale
        above = 0.5 * _pareto_above(np.abs(noise), 1.0, self.shape)
        return np.where(noise < 0.0, above, 1.0 - above)

    def _central(self, order: float, mean: _Array) -> float:
        return math.pow(self.scale, order) * self.shape / (self.shape - order)

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self._central(order, mean)
        sides = (_pareto_shifted(self.shape, self.scale, self.scale + m, order) for m in (mean, -mean))
        return np.where(mean == 0.0, self._central(order, mean), 0.5 * sum(sides))


@_law
class LogNormal(_Base):
    """Lognormal payoffs: payoff = mean exp(sigma Z - sigma^2/2), all moments finite; a mean of 0 gives the payoff 0.

    E y^p = mean^p exp(p (p-1) sigma^2 / 2).

    Attributes:
        sigma: standard deviation of the logarithm, positive.
    """

    sigma: float
    label: ClassVar[str] = "lognormal"
    limits: ClassVar[dict[str, float]] = {"sigma": 0.0}
    uniforms: ClassVar[int] = 2

    @property
    def mean_range(self) -> tuple[float, float]:
        """Means are not negative."""
        return 0.0, math.inf

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        return _polar(words, None, dtype)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        sigma = jnp.asarray(self.sigma, standard.dtype)
        return mean * jnp.exp(sigma * (standard - 0.5 * sigma))

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        regular = (x > 0.0) & (mean > 0.0)
        ratio = np.divide(x, mean, out=np.ones(x.shape), where=regular)
        inside = special.ndtr(np.log(ratio) / self.sigma + 0.5 * self.sigma)
        return np.asarray(np.where(regular, inside, (mean == 0.0) & (x >= 0.0)))

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        return np.power(mean, order) * math.exp(0.5 * order * (order - 1.0) * self.sigma * self.sigma)

    def _central(self, order: float, mean: _Array) -> npt.ArrayLike:
        sigma = self.sigma
        if order == 2.0:
            return mean * mean * math.expm1(sigma * sigma)

        def log_size(z: _Array) -> _Array:
            exponent = sigma * (z - 0.5 * sigma)
            return np.asarray(np.log(-np.expm1(-np.abs(exponent))) + np.maximum(exponent, 0.0))

        return np.power(mean, order) * _normal_power(log_size, order, sigma, 0.5 * sigma)


@_law
class TwoPoint(_Base):
    """The lower bound's payoffs: `value` with probability mean/value, else 0 (paper, Eq. lb.payoff; Theorem 1).

    E y^p = mean value^(p-1). The standard variate is a uniform, to be compared with mean/value.

    Attributes:
        value: the positive payoff, (1/Delta)^(1/epsilon) in the paper; means are between 0 and `value`.
    """

    value: float
    label: ClassVar[str] = "two-point"
    limits: ClassVar[dict[str, float]] = {"value": 0.0}

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

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return np.where(x < 0.0, 0.0, np.where(x < self.value, 1.0 - mean / self.value, 1.0))

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        return mean * math.pow(self.value, order - 1.0)

    def _central(self, order: float, mean: _Array) -> npt.ArrayLike:
        q = mean / self.value
        return math.pow(self.value, order) * (q * np.power(1.0 - q, order) + (1.0 - q) * np.power(q, order))


@_law
class TwoPointNoise(_Base):
    """Two-point noise of mean 0 and variance 1: -gamma, or 1/gamma with probability gamma^2/(1+gamma^2).

    After Medina and Yang (2016). E|noise|^p = (gamma^p + gamma^(2-p)) / (1 + gamma^2).

    Attributes:
        gamma: positive size of the downward jump, in units of payoff.
    """

    gamma: float
    label: ClassVar[str] = "two-point noise"
    limits: ClassVar[dict[str, float]] = {"gamma": 0.0}

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        gamma = jnp.asarray(self.gamma, dtype)
        return jnp.where(uniform(words[..., 0, :], dtype) <= 1.0 / (1.0 + gamma * gamma), -gamma, 1.0 / gamma)

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        return mean + standard

    def _down(self) -> float:
        return 1.0 / (1.0 + self.gamma * self.gamma)

    def _cdf(self, x: _Array, mean: _Array) -> npt.ArrayLike:
        return np.where(x < mean - self.gamma, 0.0, np.where(x < mean + 1.0 / self.gamma, self._down(), 1.0))

    def _raw(self, order: float, mean: _Array) -> npt.ArrayLike:
        down = self._down()
        up = self.gamma * self.gamma * down
        return down * np.power(abs(mean - self.gamma), order) + up * np.power(abs(mean + 1.0 / self.gamma), order)

    def _central(self, order: float, mean: _Array) -> npt.ArrayLike:
        return self._raw(order, np.zeros(()))
