"""Checks of what a bandit is made of: a ValueError names the field, its value and what is allowed."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from linbet_jax.noise import PayoffLaw, admissible_epsilon, float_dtype, reveals_scales, scales, traceable, variates
from linbet_jax.noise import check_means as within_range
from linbet_jax.noise._base import real_numbers, without_mean

ROUNDING = 1e-9  # relative slack when a declared bound is compared with the value it bounds


def array(field: str, value: npt.ArrayLike, ndim: int) -> npt.NDArray[np.float64]:
    """A read-only float64 copy of a finite array with `ndim` axes, none of them empty."""
    try:
        array = real_numbers(value)
    except (TypeError, ValueError, OverflowError):
        text = repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        sizes = ", every set with as many arms" if ndim == 3 else ""
        raise ValueError(f"{field} must be a {ndim}-D array of real numbers{sizes}, got {shown}") from None
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{field} must be a {ndim}-D array with at least one entry, got shape {array.shape}")
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{field} must be finite, got {float(array[index])!r} at index {index}")
    array.setflags(write=False)
    return array


def theta(value: npt.ArrayLike, dim: int | None) -> npt.NDArray[np.float64]:
    theta = array("theta_star", value, 1)
    if dim is not None and theta.size != dim:
        raise ValueError(f"theta_star must have length {dim} like the arms' rows, got length {theta.size}")
    return theta


def name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string, got {name!r}")
    return name


def finite(field: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_, str, bytes, complex)) or np.ndim(value) != 0:
        raise ValueError(f"{field} must be one finite number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{field} must be one finite number, got {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"{field} must be finite, got {value!r}")
    return number


def nonnegative(field: str, value: Any) -> float:
    number = finite(field, value)
    if number < 0.0:
        raise ValueError(f"{field} must satisfy 0 <= {field} < inf, got {value!r}")
    return number


def bound(field: str, given: Any, value: Any, *, declared: bool = False) -> float:
    """The bound given by the user, at least the value it bounds (unless that is itself only a bound), or the value."""
    least = float(value)
    if given is None:
        return least
    bound = nonnegative(field, given)
    if not declared and bound < least * (1.0 - ROUNDING):
        raise ValueError(f"{field} must be at least {least!r}, the value in this instance, got {given!r}")
    return bound


# The law --------------------------------------------------------------------------------------------------------------


def has(law: object, member: str) -> bool:
    """Whether a law has a member; what it inherits of the protocol itself has no body."""
    return hasattr(law, member) and getattr(type(law), member, law) is not getattr(PayoffLaw, member, None)


def law(noise: Any, raw_moment_bound: Any, central_moment_bound: Any, *, fixed: bool) -> PayoffLaw:
    """The law, if it has what this bandit asks of it: moments only where their bound is not given."""
    bounds = {"raw_moment": raw_moment_bound, "central_moment": central_moment_bound}
    moments = [moment for moment, bound in bounds.items() if bound is None]
    if not isinstance(noise, type) and without_mean(noise):
        for moment, bound in bounds.items():
            if bound is not None:
                raise ValueError(f"{moment}_bound must not be given for {noise.name}, which has no mean, got {bound!r}")
        moments = []
    needed = moments if fixed or not moments else ["moment_bounds"]
    draws = "stream" if has(noise, "stream") else "standard"
    missing = [member for member in (draws, "payoff", *_FACTS, *needed) if not has(noise, member)]
    if isinstance(noise, type) or missing:
        reason = f"{type(noise).__name__} has no {', no '.join(missing)}" if missing else "an instance"
        if set(missing) & set(needed):
            reason += f" (needed without {' and '.join(f'{moment}_bound' for moment in moments)})"
        raise ValueError(f"noise must be a payoff law like noise.StudentT(3.0): {reason}, got {noise!r}")
    what = f"noise: {type(noise).__name__}"
    for member, (allowed, fits) in _FACTS.items():
        value = getattr(noise, member)
        with contextlib.suppress(TypeError, ValueError):
            if fits(value):
                continue
        raise ValueError(f"{what}.{member} must be {allowed}, got {value!r}")
    if not (traceable(noise) or _hashable(noise)):
        raise ValueError(f"noise must be hashable, as a frozen dataclass is, or a pytree of numbers, got {noise!r}")
    law: PayoffLaw = noise
    if not type(law).__module__.startswith("linbet_jax."):
        _check_shapes(what, law)
    return law


_FACTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("a non-empty string", lambda name: isinstance(name, str) and name != ""),
    "max_order": ("a number above 0", lambda order: bool(order > 0.0)),
    "mean_range": ("two numbers, the smallest and the largest", lambda ends: len(ends) == 2 and ends[0] <= ends[1]),
}


def _check_shapes(what: str, law: PayoffLaw) -> None:
    """Raises ValueError unless jitted code can draw real numbers, and payoffs of their shape, from this law."""
    dtype = float_dtype()
    # As in a simulation: numbers are traced.
    shapes = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), law) if traceable(law) else None

    def whole(numbers: Any) -> PayoffLaw:
        return law if numbers is None else numbers

    traced(f"{what}.mean_range", lambda key, numbers: jnp.asarray(whole(numbers).mean_range), shapes)
    standard = traced(
        f"{what}.standard", lambda key, numbers: variates(whole(numbers), key, dtype)(jnp.arange(3)), shapes
    )
    if not real(standard, (3,)):
        raise ValueError(f"{what}.standard must draw one real number, got for three keys {standard!r}")
    if reveals_scales(law):
        revealed = traced(
            f"{what}.scales", lambda key, numbers: scales(whole(numbers), key, dtype)(jnp.arange(3)), shapes
        )
        if not real(revealed, (3,)):
            raise ValueError(f"{what}.scales must give one real number for each index, got for three {revealed!r}")
    payoffs = traced(
        f"{what}.payoff",
        lambda key, numbers, drawn: whole(numbers).payoff(drawn, jnp.zeros((), dtype)),
        *(shapes, standard),
    )
    if not real(payoffs, (3,)):
        raise ValueError(f"{what}.payoff must return a real payoff for each variate, got for three {payoffs!r}")


def check_means(law: PayoffLaw, means: Any) -> None:
    """Raises ValueError for means that the law does not allow, by a rule of its own if it has one."""
    getattr(law, "check_means", functools.partial(within_range, law))(means)


def _told(law: PayoffLaw, member: str, *arguments: Any) -> npt.NDArray[np.float64]:
    """What a law says of its moments, checked; only a standard deviation may be infinite."""
    what = f"noise: {type(law).__name__}.{member}"
    with named(what):
        values = np.asarray(getattr(law, member)(*arguments), np.float64)
    if not np.all((values >= 0.0) & ((values < math.inf) | (member == "std"))):
        raise ValueError(f"{what} must return finite numbers that are at least 0, got {values!r}")
    return values


def largest(law: PayoffLaw, member: str, *arguments: Any) -> float:
    """The largest of a law's moments at some means; 0 where it has no such member, inf where it has no mean."""
    if without_mean(law):
        return math.inf
    return float(np.max(_told(law, member, *arguments))) if has(law, member) else 0.0


def epsilon(epsilon: Any, law: PayoffLaw) -> float:
    """The paper's epsilon, checked: in (0, 1], with a finite moment of order 1 + epsilon; 0 where there is no mean."""
    if without_mean(law):
        if epsilon is not None:
            raise ValueError(f"epsilon must not be given for {law.name}, which has no mean, got {epsilon!r}")
        return 0.0
    allowed = admissible_epsilon(law)
    if epsilon is None:
        if law.max_order > 2.0:
            return 1.0
        raise ValueError(f"epsilon must be given for {law.name}, whose variance is infinite: {allowed}, got None")
    number = finite("epsilon", epsilon)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"epsilon must satisfy 0 < epsilon <= 1, got {epsilon!r}")
    if 1.0 + number >= law.max_order:
        raise ValueError(
            f"epsilon must satisfy {allowed} for {law.name}, whose moments of order {law.max_order:g} and more are "
            f"infinite, got {epsilon!r}"
        )
    return number


def moments(law: PayoffLaw, order: float, low: float, high: float) -> tuple[float, float, float]:
    """The largest raw moment, central moment and standard deviation over the law's means within [low, high]."""
    if without_mean(law):
        return math.inf, math.inf, math.inf
    least, most = law.mean_range
    low, high = max(low, least), min(high, most)
    if low > high:
        raise ValueError(f"mean_bound leaves no mean that {law.name} allows: {least:g} <= mean <= {most:g}")
    if not has(law, "moment_bounds"):
        return 0.0, 0.0, math.inf
    bounds = _told(law, "moment_bounds", order, low, high)
    if bounds.shape != (2,):
        raise ValueError(f"noise: {type(law).__name__}.moment_bounds must return two numbers, got {bounds!r}")
    std = math.sqrt(_told(law, "moment_bounds", 2.0, low, high)[1]) if law.max_order > 2.0 else math.inf
    return float(bounds[0]), float(bounds[1]), std


def moment_bounds(
    law: PayoffLaw, order: float, ends: npt.NDArray[np.float64], raw: Any, central: Any
) -> tuple[float, float, float]:
    """The two moment bounds over the means from end to end, as given or from the law, and the standard deviation.

    Means at the ends are met: ValueError for a bound that is given and does not hold there.
    """
    *known, std = moments(law, order, *ends.tolist())
    bounds = []
    for moment, given, value in zip(("raw_moment", "central_moment"), (raw, central), known, strict=True):
        bounds.append(bound(f"{moment}_bound", given, value, declared=True))
        if given is not None and has(law, moment):
            bound(f"{moment}_bound", given, largest(law, moment, order, ends))
    return bounds[0], bounds[1], std


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def norm_order(q: Any) -> float:
    """q of a norm whose unit ball is no list of arms."""
    if _is_real(q) and 1.0 < q < math.inf:
        return float(q)
    lists = "datasets.cross_polytope gives the arms of q = 1, datasets.box those of q = inf"
    raise ValueError(f"q must satisfy 1 < q < inf ({lists}), got {q!r}")


def integer(field: str, value: Any, low: int, high: int | None) -> int:
    bound = f"{low} <= {field}" + ("" if high is None else f" <= {high}")
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{field} must be an integer with {bound}, got {value!r}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{field} must satisfy {bound}, got {value!r}")
    return int(value)


def positive(field: str, value: Any) -> float:
    if not _is_real(value) or not 0.0 < float(value) < math.inf:
        raise ValueError(f"{field} must satisfy 0 < {field} < inf, got {value!r}")
    return float(value)


# Functions that draw --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Turns whatever a user's function raises into a ValueError of one sentence that names the function."""
    try:
        yield
    except Exception as error:
        first = str(error).partition("\n")[0]
        if isinstance(error, _UNTRACEABLE):
            raise ValueError(
                f"{what} must use jax.numpy (jnp), not NumPy or Python, on what it is given (jnp.asarray for "
                f"np.asarray): {first}"
            ) from error
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{what} fails: {kind}{first}") from error


_UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def _hashable(value: Any) -> bool:
    with contextlib.suppress(TypeError):
        hash(value)
        return True
    return False


def traced(what: str, function: Any, *inputs: Any) -> Any:
    """The shapes and dtypes that a traceable function of a key (and more) returns, without running it."""
    if not callable(function) or not _hashable(function):
        raise ValueError(f"{what} must be a traceable function of a key, got {function!r}")
    with named(what):
        return jax.eval_shape(function, jax.eval_shape(lambda: jax.random.key(0)), *inputs)


def real(result: Any, shape: tuple[int, ...]) -> bool:
    """Whether a traced result is real numbers of this shape."""
    dtype = getattr(result, "dtype", None)
    kinds = (np.bool_, np.integer, np.floating)
    return dtype is not None and result.shape == shape and any(jnp.issubdtype(dtype, kind) for kind in kinds)


@functools.partial(jax.jit, static_argnums=0)
def evaluated(function: Callable[..., Any], *inputs: Any) -> Any:
    return function(*inputs)
