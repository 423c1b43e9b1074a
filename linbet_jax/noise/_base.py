"""What the laws share."""

from __future__ import annotations

import abc
import contextlib
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

from linbet_jax.noise.moments import Array
from linbet_jax.noise.words import float_dtype, stream_words

ADDED, TIMES, NEITHER = "added", "times", "neither"  # forms of a payoff: mean + variate, mean * variate, another one
Host = Any  # a Python or NumPy number, or an array of them
_Law = TypeVar("_Law", bound=type)


class PayoffLaw(Protocol):
    """What a payoff law offers; the mean of the payoff is always the `mean` it is given.

    A law of heavier tails, `max_order` at most 1, has no mean: payoffs lie around a centre, their median, which is the
    `mean` it is given, and its central moments are about it.

    Every law has the first five. A bandit asks for a moment only where it is not told the bound: `raw_moment` and
    `central_moment` with fixed arms, `moment_bounds` with arms that are drawn. A law may also have `std(mean)`, the
    standard deviation, `symmetric`, whether payoffs lie symmetrically about their mean, `check_means(means)`, which
    raises ValueError for means that it does not allow, `exceeded(probability)`, the size that |payoff - mean| exceeds
    with no more than this probability at every mean, and `stream(key, dtype)`, which draws as `variates` does and
    faster than `standard`.

    A law may reveal the scale of each payoff to policies that are made for it: `scales(key, dtype)`, a function of
    indices [n] -> [n] like that of `variates`. Given the scale, the noise over it has a mean of 0, and
    `unit_moment(order)` bounds E|noise/scale|^order. A scale below 1 counts as 1.

    The parameters of a law follow the dtype of the variate in jitted code, and are float64 on the host.
    """

    @property
    def name(self) -> str:
        """A short name for tables and messages, e.g. ``Student t(3)``."""

    @property
    def max_order(self) -> float:
        """The supremum of the orders of finite moments: a moment of order p is finite if and only if p < max_order."""

    @property
    def mean_range(self) -> tuple[float, float]:
        """The smallest and the largest mean allowed (infinite where there is no limit)."""

    def standard(self, key: jax.Array, dtype: DTypeLike | None = None) -> jax.Array:
        """Draws the standard variate of one pull, a scalar that does not depend on the arm's mean."""

    def payoff(self, standard: ArrayLike, mean: ArrayLike) -> jax.Array:
        """Turns standard variates into payoffs with the given means, elementwise."""

    def raw_moment(self, order: float, mean: Host = 0.0) -> Host:
        """Returns E|y|^order of a payoff with this mean (a float, or one for each mean), host float64; may be inf."""

    def central_moment(self, order: float, mean: Host = 0.0) -> Host:
        """Returns E|y - mean|^order (a float, or one for each mean), host float64; may be inf."""

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        """Returns the largest raw and central moments over all means in [low, high]."""


def admissible_epsilon(law: PayoffLaw) -> str:
    """Describes the paper's epsilon that this law admits: moments of order 1 + epsilon must be finite.

    Returns:
        ``0 < epsilon <= 1``, or ``0 < epsilon < e`` with the supremum e, which is not attained; or ``no epsilon`` where
        the law has no mean.
    """
    if without_mean(law):
        return "no epsilon"
    return "0 < epsilon <= 1" if law.max_order > 2.0 else f"0 < epsilon < {law.max_order - 1.0:.12g}"


def without_mean(law: Any) -> bool:
    """Whether this is a law without a mean."""
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        return bool(0.0 < law.max_order <= 1.0)
    return False


def check_part(of: str, field: str, part: Any, whose: str) -> None:
    """Raises ValueError for a law that a law cannot be made from, since it draws in another way than by `transform`."""
    if type(part).standard is not Base.standard or type(part).stream is not Base.stream:
        allowed = f"draw by `transform`, not by `standard` or `stream` of {whose} own"
        raise ValueError(f"{of}: {field} must {allowed}, got {part!r}")


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


def reveals_scales(law: Any) -> bool:
    """Whether a law reveals the scale of each payoff; a subclass that only draws in another way does not."""
    drawn = min(_depth(law, member) for member in ("standard", "stream", "transform"))
    return hasattr(law, "scales") and _depth(law, "scales") <= drawn


def scales(law: Any, key: jax.Array, dtype: DTypeLike | None = None) -> Callable[[jax.Array], jax.Array]:
    """The scales of `variates` of a law that reveals them, at least 1: a function of the same indices, [n] -> [n].

    Raises:
        ValueError: for a law that reveals none.
    """
    if not reveals_scales(law):
        raise ValueError(f"law {law.name}: reveals no scales; noise.Heteroscedastic is one that does")
    reveal = law.scales(key, dtype)
    return lambda indices: jnp.maximum(_floating(reveal(indices), dtype), 1)


def _floating(numbers: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Numbers as they are, integers in this dtype."""
    array = jnp.asarray(numbers)
    return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float_dtype(dtype))


def _depth(law: object, member: str) -> int:
    """How many classes above a law a member is written; more than there are for one of its `__getattr__`."""
    places = [law, *type(law).__mro__]
    return next((n for n, place in enumerate(places) if member in getattr(place, "__dict__", ())), len(places))


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
def law(
    label: str, *, symmetric: bool = False, orders: str = "", derived: tuple[str, ...] = (), **limits: float
) -> Callable[[_Law], _Law]:
    """Makes a class a frozen dataclass of numbers and a JAX pytree, which JAX may rebuild with anything in the fields.

    Args:
        label: its name in tables.
        symmetric: whether payoffs lie symmetrically about their mean.
        orders: the field that is the supremum of the finite orders; by default the one that is limited by 1.
        derived: fields that the class works out from the others.
        limits: the fields that the constructor takes, and their exclusive lower limits.
    """
    fields = (*limits, *derived)

    def make(cls: Any) -> Any:
        # Equality is by all that an object holds (`Base.__eq__`): in a subclass that may be more than the fields.
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        cls.label, cls.limits, cls.lies_symmetrically = label, limits, symmetric
        cls.orders = orders or next((field for field, limit in limits.items() if limit == 1.0), "")
        jax.tree_util.register_pytree_with_keys(cls, flatten, functools.partial(unflatten, cls))
        return cls

    def flatten(whole: Any) -> tuple[tuple[Any, ...], None]:
        return tuple((jax.tree_util.GetAttrKey(name), getattr(whole, name)) for name in fields), None

    def unflatten(cls: Any, _: None, leaves: Any) -> Any:
        whole: Any = object.__new__(cls)
        for name, leaf in zip(fields, leaves, strict=True):
            object.__setattr__(whole, name, leaf)
        return whole

    return make


def limited(what: str, field: str, value: Any, limit: float, upper: float = math.inf) -> Any:
    """Returns one number as a float, or raises ValueError unless limit < value < upper; traced values pass through."""
    if isinstance(value, jax.core.Tracer):
        return value
    number, allowed = None, f"{limit:g} < {field} < {upper:g}"
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, np.bool_, str, bytes)) and np.ndim(value) == 0:
            number = float(value)
    if number is None:
        raise ValueError(f"{what} must be one number with {allowed}, got {value!r}")
    if not limit < number < upper:
        reason = " (otherwise the mean does not exist)" if limit == 1.0 and number <= limit else ""
        raise ValueError(f"{what} must satisfy {allowed}{reason}, got {value!r}")
    return number


def real_numbers(value: npt.ArrayLike) -> Array:
    """A float64 copy.

    Raises:
        TypeError: for what NumPy would turn into numbers without a word: text, dates, imaginary parts, masked entries.
        ValueError, OverflowError: NumPy's own.
    """
    plain = np.asarray(value)
    inside = plain.ravel().tolist() if plain.dtype.kind == "O" else ()
    if plain.dtype.kind in "cSUmM" or np.ma.is_masked(value) or any(isinstance(one, (str, bytes)) for one in inside):
        raise TypeError("no real numbers")
    return np.array(plain, np.float64)


def _scalar(value: Any) -> Host:
    """A float for a scalar, else the float64 array."""
    array = np.asarray(value, np.float64)
    return float(array) if array.ndim == 0 else array


class Base(PayoffLaw):
    """What the laws of this package share; a subclass adds its transformation, its payoff, its cdf and its moments."""

    label: ClassVar[str]
    limits: ClassVar[dict[str, float]]
    uppers: ClassVar[dict[str, float]] = {}  # exclusive upper limits of fields that have one
    orders: ClassVar[str] = ""  # the field that is the supremum of the finite orders
    uniforms: ClassVar[int] = 1  # uniforms for one variate
    form: ClassVar[str] = ADDED  # how the mean enters the payoff

    def __post_init__(self) -> None:
        for field, limit in self.limits.items():
            upper = self.uppers.get(field, math.inf)
            self._set(**{field: limited(f"{type(self).__name__}: {field}", field, getattr(self, field), limit, upper)})

    def _set(self, **fields: Any) -> None:
        """For constructors."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

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
    def symmetric(self) -> bool | None:
        """Whether payoffs lie symmetrically about their mean; None where the law does not say."""
        return vars(type(self)).get("lies_symmetrically")  # a subclass is another law

    @property
    def max_order(self) -> float:
        return float(getattr(self, self.orders)) if self.orders else math.inf

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
        whole = (self, None) if traceable(self) else (None, self)
        return _sample(*whole, key, mean, sizes, float_dtype(dtype))

    def check_means(self, means: Host) -> None:
        """Raises ValueError when one of the means is not finite or not allowed."""
        check_means(self, means)

    def cdf(self, x: Host, mean: Host = 0.0) -> Host:
        """Returns P(payoff <= x), host float64, broadcasting x with mean."""
        self.check_means(mean)
        with np.errstate(over="ignore"):  # (x - mean) / scale may be inf
            return _scalar(self._cdf(*np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(mean, np.float64))))

    def std(self, mean: Host = 0.0) -> Host:
        """Returns the standard deviation of a payoff with this mean, infinite where there is no variance."""
        if self.max_order > 2.0:
            return _scalar(np.sqrt(self.central_moment(2.0, mean)))
        self.check_means(mean)
        return _scalar(np.full(np.shape(mean), math.inf))

    def exceeded(self, probability: float) -> float:
        """Returns the smallest R with P(|payoff - mean| > R) <= probability.

        It is inf where it grows with the mean, and where it is above 1e304.
        """
        probability = limited(f"{self.name}: probability", "probability", probability, 0.0, 1.0)
        if self.form != ADDED:
            return math.inf

        def too_often(log_size: float) -> bool:
            below, most = np.asarray(self.cdf(np.array([-1.0, 1.0]) * math.exp(log_size))).tolist()
            return bool(below + (1.0 - most) > probability)

        low, high = -700.0, 700.0  # log R
        if too_often(high):
            return math.inf
        for _ in range(64):
            half = 0.5 * (low + high)
            low, high = (half, high) if too_often(half) else (low, half)
        return math.exp(high)

    def raw_moment(self, order: float, mean: Host = 0.0) -> Host:
        return self._moment(self._raw, order, mean)

    def central_moment(self, order: float, mean: Host = 0.0) -> Host:
        return self._moment(self._central, order, mean)

    def moment_bounds(self, order: float, low: float, high: float) -> tuple[float, float]:
        # For order >= 1 both moments are convex in the mean: the largest are at the ends.
        ends = np.array([low, high])
        return float(np.max(self.raw_moment(order, ends))), float(np.max(self.central_moment(order, ends)))

    def _moment(self, formula: Callable[[float, Array], npt.ArrayLike], order: float, mean: Host) -> Host:
        what = f"{self.name}: the order of a moment"
        order = limited(what, "order", order, 0.0)
        self.check_means(mean)
        if order >= self.max_order:
            return _scalar(np.full(np.shape(mean), math.inf))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.asarray(formula(order, np.asarray(mean, np.float64)))
        except OverflowError:
            values = np.asarray(math.inf)
        if not np.isfinite(values).all():
            raise ValueError(f"{what} must be smaller, got {order!r}: the moment exceeds the range of float64")
        return _scalar(np.broadcast_to(values, np.shape(mean)).copy())

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        return mean + standard

    @abc.abstractmethod
    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array: ...

    @abc.abstractmethod
    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike: ...

    @abc.abstractmethod
    def _raw(self, order: float, mean: Array) -> npt.ArrayLike: ...

    def _central(self, order: float, mean: Array) -> npt.ArrayLike:
        return self._raw(order, np.zeros(()))  # of noise that does not depend on the mean


def immutable(law: Any, name: str, value: Any) -> None:
    """The ``__setattr__`` of laws that are no dataclasses."""
    raise AttributeError(f"{type(law).__name__} is immutable: {name} cannot be set")


class Additive(Base):
    """Laws of the form mean + scale * variate: the same noise at every mean."""

    scale: float

    def _payoff(self, standard: jax.Array, mean: jax.Array) -> jax.Array:
        return mean + jnp.asarray(self.scale, standard.dtype) * standard


@functools.partial(jax.jit, static_argnames=("constant", "shape", "dtype"))
def _sample(traced: Any, constant: Any, key: Any, mean: ArrayLike, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    law = traced if constant is None else constant
    drawn = variates(law, key, dtype)(jnp.arange(math.prod(shape), dtype=jnp.uint32))
    return law.payoff(drawn.reshape(shape), mean)
