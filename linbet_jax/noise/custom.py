"""Noise of one's own from its quantile function: draws, the cdf and moments all follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from linbet_jax.noise._base import Additive, immutable, limited
from linbet_jax.noise.moments import Array, integrate, tabulated
from linbet_jax.noise.words import uniform

Quantile = Callable[[jax.Array, jax.Array], jax.Array]

_REACH = 690.0  # -log of the smallest probability at an end
_AGREED = 1e-9  # relative difference of a moment by two rules


@jax.tree_util.register_pytree_with_keys_class
class Custom(Additive):
    """Noise with a quantile function of one's own: payoff = mean + scale * (Q(U) - E Q(U)), U uniform on (0, 1).

    Moments are quadratures of the quantile function. Two rules must agree to 1e-9, else the moment is refused: it is
    not smooth enough, or its tail is heavier than `max_order` says.

    Attributes:
        quantile: `quantile(below, above) -> noise`, elementwise and traceable, of jax.numpy. It gets the probabilities
            below and above the value, which add up to 1 and are never 0, each with its full relative precision: write
            the lower tail with `below`, the upper one with `above`, as ``above ** (-1 / 3)`` for a Pareto tail. It must
            rise with `below` and be smooth but for the middle. A function of a module can be pickled.
        order: `max_order` as given.
        scale: positive factor of the noise, in units of payoff.
        label: the name in tables.
        center: E Q(U).
    """

    quantile: Quantile
    order: float
    center: float
    limits: ClassVar[dict[str, float]] = {}
    __setattr__ = immutable

    def __init__(self, quantile: Quantile, *, max_order: float, scale: float = 1.0, name: str = "custom") -> None:
        """Builds the law, which computes: call `linbet_jax.set_up_cpu` before, where you do.

        Args:
            quantile: see the class.
            max_order: moments of orders below it are finite, 1 < max_order <= inf.
            scale: positive factor of the noise.
            name: for tables and messages.

        Raises:
            ValueError: naming the field, its value and what is allowed.
        """
        if not name:  # which tables could not show
            raise ValueError(f"Custom: name must not be empty, got {name!r}")
        order = max_order if max_order == math.inf else limited("Custom: max_order", "max_order", max_order, 1.0)
        scale = limited("Custom: scale", "scale", scale, 0.0)
        self._set(quantile=quantile, order=float(order), label=name, scale=scale, center=0.0)
        self._check_quantile()
        self._set(center=self._integral(lambda q: q, 0.0))

    def __repr__(self) -> str:
        function = getattr(self.quantile, "__qualname__", repr(self.quantile))
        return f"Custom({function}, max_order={self.order!r}, scale={self.scale!r}, name={self.name!r})"

    @property
    def name(self) -> str:
        """For tables: as given."""
        return self.label

    @property
    def max_order(self) -> float:
        """As given."""
        return self.order

    def tree_flatten_with_keys(self) -> tuple[tuple[Any, ...], Any]:
        """Numbers are leaves: one program serves all scales of one function."""
        leaves = tuple((jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in ("scale", "center"))
        return leaves, (self.quantile, self.order, self.label)

    @classmethod
    def tree_unflatten(cls, fixed: Any, leaves: Any) -> Custom:
        """The law with whatever JAX puts in the numbers' place."""
        law: Custom = object.__new__(cls)
        law._set(**dict(zip(("quantile", "order", "label", "scale", "center"), (*fixed, *leaves), strict=True)))
        return law

    def _transform(self, words: jax.Array, dtype: DTypeLike) -> jax.Array:
        below, above = (uniform(part, dtype) for part in (words[..., 0, :], ~words[..., 0, :]))
        return self.quantile(below, above) - jnp.asarray(self.center, dtype)

    def _cdf(self, x: Array, mean: Array) -> npt.ArrayLike:
        return 1.0 / (1.0 + np.exp(-self._log_odds((x - mean) / self.scale + self.center)))

    def _central(self, order: float, mean: Array) -> float:
        return math.pow(self.scale, order) * self._shifted(0.0, order)

    def _raw(self, order: float, mean: Array) -> npt.ArrayLike:
        if order == 2.0:
            return mean * mean + self._central(order, mean)
        moments = tabulated(lambda shift: self._shifted(shift, order), mean / self.scale, order)
        return math.pow(self.scale, order) * moments

    def _shifted(self, shift: float, order: float) -> float:
        """E|Q(U) - E Q(U) + shift|^order."""
        middle = self.center - shift

        def power(noise: Array) -> Array:
            with np.errstate(divide="ignore"):
                return np.asarray(np.exp(order * np.log(np.abs(noise - middle))))

        return self._integral(power, middle)

    def _integral(self, function: Callable[[Array], Array], kink: float) -> float:
        """E function(Q(U)) by two rules, with a kink where Q(U) is `kink`."""
        odds = float(self._log_odds(np.asarray(kink)))
        rules = [[self._half(function, side, odds, width) for side in (-1.0, 1.0)] for width in (0.5, 0.3)]
        first, second = map(sum, rules)
        if not abs(first - second) <= _AGREED * sum(map(abs, rules[0])):
            raise ValueError(
                f"Custom: quantile must be smooth but for the middle, with finite moments below max_order = "
                f"{self.order:g}, got {self.quantile!r}: one of its moments by two rules is {first!r} and {second!r}"
            )
        return float(second)

    def _half(self, function: Callable[[Array], Array], side: float, odds: float, width: float) -> float:
        """The integral over the lower (side -1) or the upper (side 1) half, over depth = -log of the end's probability.

        Beyond `_REACH` the integrand is continued as the exponential that it is there for a tail of a power.
        """

        def integrand(depth: Array) -> Array:
            end, rest = np.exp(-depth), -np.expm1(-depth)
            return function(self._noise(end, rest) if side < 0.0 else self._noise(rest, end)) * end

        body = integrate(integrand, math.log(2.0), _REACH, float(np.logaddexp(0.0, side * odds)), width)
        before, last = np.abs(integrand(np.array([_REACH - 1.0, _REACH])))
        if last <= 1e-16 * abs(body):
            return body
        return body + math.copysign(last / math.log(before / last), body) if before > last else math.nan

    def _noise(self, below: Array, above: Array) -> Array:
        """The quantile function on the host in float64; arrays of few sizes, for each is compiled anew."""
        size = 1 << (below.size - 1).bit_length()
        ends = (np.pad(np.ravel(end), (0, size - end.size), constant_values=0.5) for end in (below, above))
        with jax.enable_x64(True):
            values = np.asarray(jax.jit(self.quantile)(*ends), np.float64)
        return values[: below.size].reshape(below.shape)

    def _log_odds(self, noise: Array) -> Array:
        """log(below/above) of the largest quantile that is at most `noise`, by bisection."""
        low, high = np.full(noise.shape, -_REACH), np.full(noise.shape, _REACH)
        for _ in range(64):
            half = 0.5 * (low + high)
            here = self._noise(1.0 / (1.0 + np.exp(-half)), 1.0 / (1.0 + np.exp(half))) <= noise
            low, high = np.where(here, half, low), np.where(here, high, half)
        return 0.5 * (low + high)

    def _check_quantile(self) -> None:
        """Raises ValueError unless the function rises and is finite on a grid of probabilities."""
        odds = np.linspace(-_REACH, _REACH, 4001)
        try:
            values = self._noise(1.0 / (1.0 + np.exp(-odds)), 1.0 / (1.0 + np.exp(odds)))
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            allowed = "a function of two arrays, below and above, of jax.numpy (jnp.asarray for np.asarray)"
            raise ValueError(f"Custom: quantile must be {allowed}, got {self.quantile!r}: {reason}") from error
        wrong = ~np.isfinite(values) | (np.diff(values, prepend=-math.inf) < 0.0)
        if wrong.any():
            place = int(np.argmax(wrong))
            below = 1.0 / (1.0 + math.exp(-odds[place]))
            got = f"{float(values[place])!r} at below = {below:.3g}"
            raise ValueError(f"Custom: quantile must be finite and rise with `below`, got {got}")
