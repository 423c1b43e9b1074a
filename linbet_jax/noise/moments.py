"""Moments by quadrature, on the host in NumPy float64, with relative errors below 1e-10."""

from __future__ import annotations

import math
from collections.abc import Callable

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
