"""Estimates of one direction <g, theta> from a fixed design, robust to heavy tails, and the design itself.

The design A = lambda I + sum_i x_i x_i^T is chosen before the payoffs y_i of its n rows are seen. Then the weights
u_i = g^T A^-1 x_i are fixed numbers, and sum_i u_i y_i, the ridge estimate of <g, theta>, can be made robust term by
term: no martingale argument over changing features is needed. Every estimate comes with its *width*, what noise adds to
the error of |estimate - <g, theta>| with probability 1 - delta; the ridge adds at most sqrt(lambda) S ||g|| in A^-1.

Letters: p = 1 + epsilon, L = ln(2/delta), and m_i >= E|y_i - r_i|^p around the reference r_i of row i, any number that
was fixed before the payoffs. M = (sum_i |u_i|^p m_i)^{1/p}.

References:
    Catoni. Challenging the empirical mean and empirical variance. Annales de l'IHP 2012.
    Bubeck, Cesa-Bianchi, Lugosi. Bandits with heavy tail. IEEE Transactions on Information Theory 2013.
    Xue, Wang, Wang, Zhang. Nearly optimal regret for stochastic linear bandits with heavy-tailed payoffs. IJCAI 2020.
    von Bahr, Esseen. Inequalities for the r-th absolute moment of a sum of random variables. 1965.
The constants are derived here; they are not those of these papers.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import combined, summed, sweep_inverse
from linbet_jax.kernels.selection import TIE_TOLERANCE

BTC_WIDTH = 2.75  # above 1 + sqrt(2) + 1/3: bias, variance and range of a truncated sum, each in units of M L^{eps/p}
_REFRESH = 256  # rows of a design between recomputations of what rank-one updates drift in


def power(values: jax.Array, p: Any) -> jax.Array:
    """v^p of numbers v >= 0, elementwise; for p = 2 and 1.5, the orders of most bandits, without a logarithm."""

    def half(values: jax.Array) -> jax.Array:
        return values * jnp.sqrt(values)

    def other(values: jax.Array) -> jax.Array:
        return jax.lax.cond(jnp.equal(p, 1.5), half, lambda values: values**p, values)

    return jax.lax.cond(jnp.equal(p, 2), lambda values: values * values, other, values)


def catoni_influence(values: jax.Array, epsilon: Any) -> jax.Array:
    """psi(z) = sgn(z) ln(1 + |z| + |z|^p / p), elementwise; finite for every finite z.

    exp(psi(z)) <= 1 + z + |z|^p / p and exp(-psi(z)) <= 1 - z + |z|^p / p, since
    (1 + z + z^p/p)(1 - z + z^p/p) >= 1.
    """
    p = 1 + epsilon
    size = jnp.abs(values)
    near, far = jnp.minimum(size, 1), jnp.maximum(size, 1)
    small = jnp.log1p(near + power(near, p) / p)
    large = p * jnp.log(far) - jnp.log(p) + jnp.log1p(p * far ** (1 - p) + p * far ** (-p))
    return jnp.sign(values) * jnp.where(size <= 1, small, large)


def catoni_scale(spread: jax.Array, log_term: Any, epsilon: Any) -> jax.Array:
    """s = (p L / (p - 1))^{1/p} / M; 0 where M is 0 and nothing is to be estimated."""
    p = 1 + epsilon
    scale = (p * log_term / epsilon) ** (1 / p) / jnp.where(spread > 0, spread, 1)
    return jnp.where(spread > 0, scale, 0)


def catoni_width(spread: jax.Array, log_term: Any, epsilon: Any) -> jax.Array:
    """(p/(p-1))^{eps/p} M L^{eps/p}, the factor at most 1.4447."""
    p = 1 + epsilon
    return spread * (p * log_term / epsilon) ** (epsilon / p)


def btc_level(spread: jax.Array, log_term: Any, epsilon: Any) -> jax.Array:
    """H = M L^{-1/p}."""
    return spread * log_term ** (-1 / (1 + epsilon))


def btc_width(spread: jax.Array, log_term: Any, epsilon: Any) -> jax.Array:
    """2.75 M L^{eps/p}."""
    return BTC_WIDTH * spread * log_term ** (epsilon / (1 + epsilon))


def bmm_width(spread: jax.Array, epsilon: Any) -> jax.Array:
    """2^{(4-p)/p} M: each copy is that near with probability 3/4 (von Bahr and Esseen, then Markov)."""
    p = 1 + epsilon
    return 2 ** ((4 - p) / p) * spread


def spread_of(weights: jax.Array, moments: Any, epsilon: Any) -> jax.Array:
    """M = (sum_i |u_i|^p m_i)^{1/p} over the last axis."""
    p = 1 + epsilon
    return jnp.sum(jnp.abs(weights) ** p * moments, axis=-1) ** (1 / p)


def _checked(weights: Any, payoffs: Any, moment: Any, references: Any, axes: int) -> list[jax.Array]:
    arrays = floats(weights=weights, payoffs=payoffs, moment=moment, references=references)
    weights, payoffs, *_ = arrays
    if weights.ndim != 1 or payoffs.ndim != axes or payoffs.shape[0] != weights.shape[0]:
        expected = "[n] and [n]" if axes == 1 else "[n] and [n, k]"
        raise ValueError(f"weights {weights.shape} and payoffs {payoffs.shape}: expected {expected}")
    return arrays


def _product(weights: jax.Array, values: jax.Array) -> jax.Array:
    """u v, 0 where u is 0: an infinite payoff counts only where it has weight."""
    return jnp.where(weights == 0, 0, weights * values)


@jax.jit
def catoni_estimate(
    weights: jax.Array, payoffs: jax.Array, *, moment: Any, epsilon: Any, delta: Any, references: Any = 0.0
) -> tuple[jax.Array, jax.Array]:
    """Catoni's estimate of <g, theta>: sum u r + (1/s) sum psi(s u (y - r)), in closed form.

    Args:
        weights: [n], u_i = g^T A^-1 x_i.
        payoffs: [n].
        moment: [] or [n], m_i >= E|y_i - r_i|^p given the past: conditional moments are enough.
        epsilon: [], in (0, 1].
        delta: [], failure probability, in (0, 1).
        references: [] or [n], r_i, fixed before the payoffs.

    Returns:
        The estimate [] and its width [], (p/(p-1))^{eps/p} M L^{eps/p}. Where M is 0: sum u r, and 0.
    """
    weights, payoffs, moment, references = _checked(weights, payoffs, moment, references, 1)
    log_term = jnp.log(2 / delta)
    spread = spread_of(weights, moment, epsilon)
    scale = catoni_scale(spread, log_term, epsilon)
    influences = catoni_influence(scale * _product(weights, payoffs - references), epsilon)
    robust = jnp.sum(influences) / jnp.where(scale > 0, scale, 1)
    return jnp.sum(weights * references) + robust, catoni_width(spread, log_term, epsilon)


@jax.jit
def btc_estimate(
    weights: jax.Array, payoffs: jax.Array, *, moment: Any, epsilon: Any, delta: Any, references: Any = 0.0
) -> tuple[jax.Array, jax.Array]:
    """The truncated estimate of <g, theta>: sum u r + sum u (y - r) over the rows with |u (y - r)| <= H.

    Arguments, results and errors are those of :func:`catoni_estimate`; the width is 2.75 M L^{eps/p}.
    """
    weights, payoffs, moment, references = _checked(weights, payoffs, moment, references, 1)
    log_term = jnp.log(2 / delta)
    spread = spread_of(weights, moment, epsilon)
    products = _product(weights, payoffs - references)
    kept = jnp.abs(products) <= btc_level(spread, log_term, epsilon)
    robust = jnp.sum(jnp.where(kept, products, 0))
    return jnp.sum(weights * references) + robust, btc_width(spread, log_term, epsilon)


@jax.jit
def bmm_estimate(
    weights: jax.Array, payoffs: jax.Array, *, moment: Any, epsilon: Any, references: Any = 0.0
) -> tuple[jax.Array, jax.Array]:
    """The median of k copies of the ridge estimate of <g, theta>.

    The width, 2^{(4-p)/p} M, holds with probability 1 - delta where P(Bin(k, 1/4) >= (k + 1)/2) <= delta
    (:func:`linbet_jax.theory.median_copies`). What is not said here is as in :func:`catoni_estimate`.

    Args:
        weights: [n].
        payoffs: [n, k]: row i is pulled k times, and copy j takes its j-th payoff. The copies must be independent.
        moment: [] or [n], c >= E|eta|^p around the mean.
        epsilon: [].
        references: [] or [n], r_i; they move no estimate but by rounding.
    """
    weights, payoffs, moment, references = _checked(weights, payoffs, moment, references, 2)
    values = jnp.broadcast_to(jnp.asarray(references, payoffs.dtype), weights.shape)
    copies = jnp.sum(_product(weights[:, None], payoffs - values[:, None]), axis=0)
    return jnp.sum(weights * values) + jnp.median(copies), bmm_width(spread_of(weights, moment, epsilon), epsilon)


def greedy_design(
    arms: jax.Array, num_rows: Any, ridge: Any, mask: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """:func:`exact_design` with more of what it knows: counts [K] int32, A^-1 [d, d], x^T A^-1 x [K] of all arms."""
    dim, dtype = arms.shape[1], arms.dtype
    columns = jax.lax.optimization_barrier(arms.T)
    tolerance = TIE_TOLERANCE["float64" if dtype == jnp.float64 else "float32"]
    places = jnp.arange(arms.shape[0])

    def add(row: jax.Array, carry: Any) -> Any:
        counts, inverse, widths = carry
        leverages = jnp.where(mask, widths, -1)
        largest = jnp.max(leverages)
        index = jnp.argmax(leverages >= largest - tolerance * jnp.abs(largest))  # ties go to the lowest index
        feature = arms[index]
        image = combined(inverse, feature)  # A^-1 x
        grown = 1 + jnp.sum(feature * image)
        scaled = image / grown
        gains = combined(columns, scaled)
        return counts + (places == index), inverse - image[:, None] * scaled, widths - gains * gains * grown

    def some(part: jax.Array, carry: Any) -> Any:
        begun = part * _REFRESH
        counts, _, _ = jax.lax.fori_loop(begun, jnp.minimum(begun + _REFRESH, rows), add, carry)
        gram = ridge * jnp.eye(dim, dtype=dtype) + summed(arms.T, arms * counts.astype(dtype)[:, None])
        inverse, _ = sweep_inverse(gram)
        return counts, inverse, jnp.maximum(jnp.sum(columns * summed(inverse, columns), axis=0), 0)

    rows = jnp.asarray(num_rows, jnp.int32)
    ridge = jnp.asarray(ridge, dtype)
    start = jnp.zeros(arms.shape[0], jnp.int32), jnp.eye(dim, dtype=dtype) / ridge, jnp.sum(arms * arms, axis=1) / ridge
    return jax.lax.fori_loop(jnp.zeros((), jnp.int32), (rows + _REFRESH - 1) // _REFRESH, some, start)


@jax.jit
def exact_design(
    arms: jax.Array, num_rows: Any, *, ridge: Any, mask: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """A nearly G-optimal design of n rows with whole counts: each row is the arm of the largest leverage so far.

    From A = lambda I on, n times: the arm with the largest x^T A^-1 x, the lowest index on ties, and A + x x^T. The
    largest leverage never grows, so max_a a^T A^-1 a <= exp(r ln(1 + n D^2/(r lambda))/n) - 1 for arms of rank r and
    norms of at most D; for large n it is about r/n, which no design beats (Kiefer and Wolfowitz, Wynn). Weights that
    are optimal and then rounded are worse while n is not far above the number of arms.

    Args:
        arms: [K, d].
        num_rows: n, [] or a Python integer.
        ridge: [], lambda > 0.
        mask: [K] bool, the arms that may enter; None takes all. At least one must.

    Returns:
        counts [K] int32 whose sum is n, and the certificate [] n max_a a^T A^-1 a over those arms. O(n (K d + d^2)).
    """
    (arms,) = floats(arms=arms)
    if arms.ndim != 2 or (mask is not None and mask.shape != arms.shape[:1]):
        raise ValueError(f"arms {arms.shape}, mask {None if mask is None else mask.shape}: expected [K, d] and [K]")
    allowed = jnp.ones(arms.shape[0], bool) if mask is None else mask
    counts, _, widths = greedy_design(arms, num_rows, ridge, allowed)
    return counts, jnp.asarray(num_rows, arms.dtype) * jnp.max(jnp.where(allowed, widths, 0))
