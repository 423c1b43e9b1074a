"""Moments by quadrature, on the host in NumPy float64, with relative errors below 1e-10."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]


def integrate(function: Callable[[Array], Array], low: float, high: float, kink: float, width: float = 1.0) -> float:
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


def over_uniform(function: Callable[[Array, Array], npt.ArrayLike], values: npt.ArrayLike, panels: int) -> Array:
    """E function(value, U) for U uniform on (0, 1), elementwise in the values.

    Gauss-Legendre on so many panels (at least one); a panel whose halves sum to another number is halved, 40 times at
    most. The function, of values [n, 1] and U [n, 24], may be rough in a few places, which may differ from value to
    value.
    """
    shape, flat = np.shape(values), np.ravel(np.asarray(values, np.float64))
    nodes, weights = special.roots_legendre(24)
    nodes, weights = 0.5 * (1.0 + nodes), 0.5 * weights

    def rule(row: npt.NDArray[Any], start: Array, width: float) -> Array:
        inside = np.asarray(function(flat[row, None], start[:, None] + width * nodes))
        return np.asarray(width * np.sum(inside * weights, axis=1))

    count = max(1, panels)
    width = 1.0 / count
    row, start = np.repeat(np.arange(flat.size), count), np.tile(width * np.arange(count), flat.size)
    whole, total = rule(row, start, width), np.zeros(flat.size)
    size = np.bincount(row, np.abs(whole), flat.size)
    for _ in range(40):
        width *= 0.5
        halves, starts = np.repeat(row, 2), (start[:, None] + [0.0, width]).ravel()
        parts = rule(halves, starts, width)
        both = parts.reshape(-1, 2).sum(axis=1)
        rough = np.abs(both - whole) > 1e-11 * size[row]
        total += np.bincount(row[~rough], both[~rough], flat.size)
        again = np.repeat(rough, 2)
        row, start, whole = halves[again], starts[again], parts[again]
        if not row.size:
            break
    return np.asarray(total + np.bincount(row, whole, flat.size)).reshape(shape)


def tabulated(moment: Callable[[float], float], points: npt.ArrayLike, order: float) -> Array:
    """A moment at many points, one by one where they are few, else off a polynomial of degree 19 for each octave.

    A moment that is smooth away from 0 loses a few units in the last place, times 2^order within an octave.
    """
    distinct, inverse = np.unique(np.asarray(points, np.float64), return_inverse=True)
    octaves = np.stack([np.sign(distinct), np.frexp(distinct)[1]])
    values = np.empty(distinct.shape)

    def exact(some: Array) -> Array:
        return np.array([moment(float(point)) for point in some])

    for octave in np.unique(octaves, axis=1).T:
        here = (octaves == octave[:, None]).all(axis=0)
        some = distinct[here]
        few = some.size <= 20 or order > 8.0
        table = exact if few else np.polynomial.Chebyshev.interpolate(exact, 19, (some[0], some[-1]))
        values[here] = table(some)
    return values[inverse].reshape(np.shape(points))


def pareto_shifted(shape: float, scale: float, offset: npt.ArrayLike, order: float) -> Array:
    """E|scale (X - 1) + offset|^order for X of the Pareto law on [1, inf), order < shape, elementwise in the offset.

    X = exp(E/shape) with E exponential; from `start` on the integrand is expanded in powers of 1/X and integrated
    exactly, because its tail exp(-(1 - order/shape) E) may be as slow as one likes.
    """

    def once(offset: float) -> float:
        pole = 1.0 - offset / scale  # the integrand is (scale |X - pole|)^order
        start = shape * math.log(8.0 * max(1.0, abs(pole)))
        light = (60.0 + order * math.log(shape)) / (1.0 - order / shape)  # nothing is left of a light tail beyond

        def integrand(e: Array) -> Array:
            return np.asarray(np.exp(order * np.log(np.abs(scale * np.expm1(e / shape) + offset)) - e))

        kink = shape * math.log1p(-offset / scale) if offset < 0.0 else 0.0
        body = integrate(integrand, 0.0, min(start, light), kink)
        if light < start:
            return body
        j = np.arange(40)
        terms = special.binom(order, j) * (-pole * math.exp(-start / shape)) ** j * shape / (shape - order + j)
        return body + float(np.sum(terms)) * math.exp(order * math.log(scale) - start * (1.0 - order / shape))

    return tabulated(once, offset, order)


def pareto_moment(shape: float, scale: float, shift: npt.ArrayLike, order: float) -> Array:
    """E|shift + scale (X - E X)|^order for X of the Pareto law on [1, inf), order < shape, elementwise in the shift."""
    shift = np.asarray(shift)
    if order == 2.0:
        return shift * shift + scale * scale * shape / ((shape - 1.0) * (shape - 1.0) * (shape - 2.0))
    return pareto_shifted(shape, scale, shift - scale / (shape - 1.0), order)


def log_shifted(
    log_density: Callable[[Array], Array], rate: float, offset: float, order: float, low: float, high: float
) -> float:
    """E|exp(rate t) - 1 - offset|^order over t from low to high, where t has this density, smooth on the scale 1/2."""

    def integrand(t: Array) -> Array:
        return np.asarray(np.exp(order * np.log(np.abs(np.expm1(rate * t) - offset)) + log_density(t)))

    kink = math.log1p(offset) / rate if offset > -1.0 else low
    return integrate(integrand, low, high, kink, min(0.5, 8.0 / (rate * order)))


def normal_power(log_size: Callable[[Array], Array], order: float, tilt: float, kink: float) -> float:
    """E exp(order * log_size(Z)) for Z normal, where log_size grows no faster than tilt * Z + log |Z|."""

    def integrand(z: Array) -> Array:
        return np.asarray(np.exp(order * log_size(z) - 0.5 * z * z) / math.sqrt(2.0 * math.pi))

    return integrate(integrand, -40.0, 40.0 + order * tilt, kink, 1.0 / max(1.0, tilt * max(order, 1.0)))


def student_excess(df: float, shift: float, order: float) -> float:
    """E|t + shift|^order - E|t|^order for Student's t with df degrees of freedom, shift >= 0, order < df.

    It has a fast tail, |t|^(order - 2), and is integrated over log|t|, both signs of t folded.
    """
    if shift == 0.0:
        return 0.0
    constant = math.log(2.0) - float(special.betaln(0.5, 0.5 * df)) - 0.5 * math.log(df)

    def integrand(log_t: Array) -> Array:
        log_top = np.maximum(log_t, math.log(shift))
        t, top = np.exp(log_t), np.exp(log_top)
        shifted = 0.5 * (np.abs(t - shift) / top) ** order + 0.5 * ((t + shift) / top) ** order
        log_density = constant - 0.5 * (df + 1.0) * np.log1p(t * (t / df)) + log_t
        return np.asarray(np.exp(log_density + order * log_top) * (shifted - (t / top) ** order))

    # Panels of half a unit: the density's complex poles are pi/2 away, and a normal one falls doubly exponentially.
    return integrate(integrand, -45.0, max(0.0, math.log(shift)) + 25.0, math.log(shift), 0.5)


def stable_moment(alpha: float, shift: float, order: float) -> float:
    """E|X + shift|^order for X symmetric stable, E exp(itX) = exp(-|t|^alpha), shift >= 0, order < alpha < 2.

    |y|^p is c times the integral of (1 - cos(t y)) t^(-1-p) over t > 0, with c = 2/pi Gamma(1+p) sin(pi p/2), so that
    E|X + m|^p - E|X|^p = c int (1 - cos(t m)) exp(-t^alpha) t^(-1-p) dt. For large m, where that oscillates, exp is
    expanded: E|X + m|^p = m^p - c m^p sum_n (-m^-alpha)^n / n! Gamma(alpha n - p) cos(pi (alpha n - p)/2), whose terms
    fall until they are far below rounding.
    """
    factor = 2.0 / math.pi * math.gamma(1.0 + order) * math.sin(0.5 * math.pi * order)
    if shift >= 20.0:
        n = np.arange(1, 41)
        size = special.gammaln(alpha * n - order) - special.gammaln(n + 1.0) - alpha * n * math.log(shift)
        terms = (-1.0) ** n * np.exp(size) * np.cos(0.5 * math.pi * (alpha * n - order))
        return math.pow(shift, order) * (1.0 - factor * float(np.sum(terms)))
    log_ratio = special.gammaln(0.5 * (1.0 + order)) + special.gammaln(1.0 - order / alpha)
    log_ratio -= special.gammaln(1.0 - 0.5 * order)
    central = math.pow(2.0, order) / math.sqrt(math.pi) * math.exp(float(log_ratio))
    if shift == 0.0:
        return central

    def integrand(t: Array) -> Array:
        return np.asarray(2.0 * np.sin(0.5 * shift * t) ** 2 * np.exp(-(t**alpha)) * t ** (-1.0 - order))

    first, middle, last = math.exp(-42.0), min(1.0, 1.0 / shift), 42.0 ** (1.0 / alpha)
    start = 0.5 * shift * shift * first ** (2.0 - order) / (2.0 - order)  # before `first` the integrand is a power
    lower = integrate(lambda x: integrand(np.exp(x)) * np.exp(x), math.log(first), math.log(middle), -42.0, 0.5)
    upper = integrate(integrand, middle, last, middle, min(1.0, 4.0 / shift))
    return central + factor * (start + lower + upper)


def stable_above(alpha: float, size: float) -> float:
    """P(X > size) for X symmetric stable, E exp(itX) = exp(-|t|^alpha), size >= 0, 1/2 < alpha < 2 (Zolotarev 1986).

    It is 1/pi times the integral over z from 0 to pi/2 of exp(-R), R = size^(alpha/(alpha-1)) V(z), here over log z,
    with V(z) = (sin z / sin(alpha (pi/2 - z)))^(alpha/(alpha-1)) cos((alpha-1) (pi/2 - z)) / sin z; for alpha < 1 that
    of 1 - exp(-R). At alpha = 1 it is Cauchy's law.
    """
    if size == 0.0 or size == math.inf or alpha == 1.0:
        return math.atan2(1.0, size) / math.pi
    power = alpha / (alpha - 1.0)
    spare, end = 0.5 * math.pi * (2.0 - alpha), math.log(0.5 * math.pi)

    def log_rate(log_z: Array) -> Array:
        z = np.exp(log_z)
        top = log_z + np.log(np.sinc(z / math.pi))  # log sin z, also where z is 0
        bottom = np.log(np.sin(np.minimum(alpha * (0.5 * math.pi - z), spare + alpha * z)))
        rest = np.log(np.sin(spare + (alpha - 1.0) * z)) - top
        return np.asarray(power * (math.log(size) + top - bottom) + rest)

    low, high = -120.0 - alpha * abs(math.log(size)), end
    for _ in range(60):  # the rate grows with z, or for alpha < 1 falls: where it passes 1 the integrand does so too
        half = 0.5 * (low + high)
        low, high = (half, high) if (log_rate(np.array(half)) < 0.0) == (alpha > 1.0) else (low, half)
    start = low - 40.0

    def integrand(log_z: Array) -> Array:
        rate = np.exp(np.minimum(log_rate(log_z), 700.0))
        return np.asarray(np.exp(log_z - rate) if alpha > 1.0 else -np.expm1(-rate) * np.exp(log_z))

    return (math.exp(start) + integrate(integrand, start, end, low, 0.25)) / math.pi
