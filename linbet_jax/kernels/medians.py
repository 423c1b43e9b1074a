"""Medians: of means of payoffs (MoM), and among k estimates of one parameter (MENU)."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax.kernels.gram import dot

_SAMPLE = 16  # estimates among which the first candidate is found


@functools.partial(jax.jit, static_argnames=("num_blocks",))
def median_of_means(payoffs: jax.Array, num_blocks: int) -> jax.Array:
    """The median of the means of consecutive blocks of equal length (Medina and Yang 2016).

    Args:
        payoffs: [r].
        num_blocks: q, 1 <= q <= r. Blocks hold floor(r / q) payoffs; those beyond q floor(r / q) are left out.

    Returns:
        [], the median; for an even q the mean of the two middle values.

    Raises:
        ValueError: if ``num_blocks`` is not in 1..r.
    """
    if payoffs.ndim != 1:
        raise ValueError(f"payoffs {payoffs.shape}: expected [r]")
    pulls = payoffs.shape[0]
    if not 1 <= num_blocks <= pulls:
        raise ValueError(f"num_blocks={num_blocks}: must be from 1 to the number of payoffs, {pulls}")
    length = pulls // num_blocks
    means = jnp.sort(jnp.mean(payoffs[: num_blocks * length].reshape(num_blocks, length), axis=1))
    low, high = means[(num_blocks - 1) // 2], means[num_blocks // 2]
    return low + (high - low) / 2 if num_blocks % 2 == 0 else low


def _row_median(distances: jax.Array, own: jax.Array) -> jax.Array:
    """Median of a row [k] of distances without the entry ``own`` (the zero distance to itself)."""
    others = distances.shape[0] - 1
    ordered = jnp.sort(jnp.where(jnp.arange(others + 1) == own, jnp.inf, distances))
    return 0.5 * (ordered[(others - 1) // 2] + ordered[others // 2])


def _reference(estimates: jax.Array, gram: jax.Array) -> jax.Array:
    """An estimate near the bulk: the centre among the first few, by distances taken without cancellation."""
    few = estimates[: min(_SAMPLE, estimates.shape[0])]
    differences = few[:, None, :] - few[None, :, :]
    squared = jnp.sum(dot(differences, gram) * differences, axis=-1)
    medians = jnp.sort(squared, axis=1)[:, few.shape[0] // 2]
    return jnp.argmin(jnp.where(jnp.isnan(medians), jnp.inf, medians))  # argmin alone would prefer NaN


@jax.jit
def median_center(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """MENU's median of means among k estimates (Algorithm 1, lines 8-9).

    r_j is the median over s != j of ``||theta_j - theta_s||_V`` (an even count takes the mean of the two middle
    values); the estimate of the smallest r_j wins, the lowest index on ties.

    Only the smallest r_j matters, so few of the k medians are computed. The exact median of one candidate bounds the
    answer, and one counting pass over the k x k distances rejects every row with too few entries below it. The
    surviving row with the most is the next candidate, until none survives.

    Args:
        estimates: [k, d].
        gram: [d, d], V.

    Returns:
        (index [] int32, radius []): k* and r_{k*}. For k = 1 the radius is 0.

    Raises:
        ValueError: at trace time, if the shapes do not match.
    """
    if estimates.ndim != 2 or gram.shape != (estimates.shape[1],) * 2:
        raise ValueError(f"estimates {estimates.shape}, gram {gram.shape}: expected [k, d], [d, d]")
    if estimates.shape[0] == 1:
        return jnp.zeros((), jnp.int32), jnp.zeros((), estimates.dtype)
    # On CPU a batch is worked off problem by problem: one k x k matrix stays in cache, a batch of them does not.
    return jax.lax.platform_dependent(estimates, gram, cpu=_center_in_turn, default=_center)


def _center(estimates: jax.Array, gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    num = estimates.shape[0]
    first = _reference(estimates, gram)
    # Taken relative to a point of the bulk, ||a - b||^2 = ||a||^2 + ||b||^2 - 2<a, b> loses nothing that matters.
    centered = estimates - estimates[first]
    images = dot(centered, gram)
    norms = jnp.sum(images * centered, axis=1)
    squared = jnp.maximum(norms[:, None] + norms[None, :] - 2 * dot(images, centered.T), 0)
    return _search(jnp.where(jnp.eye(num, dtype=bool), 0, squared), first)


_center_in_turn = jax.custom_batching.sequential_vmap(_center)


def _search(squared: jax.Array, first: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The row of the smallest median off-diagonal entry: squared distances [k, k], first candidate [] -> index, r."""
    num = squared.shape[0]
    low_rank, high_rank = num // 2, (num - 1) // 2 + 1  # ranks of the middle values among k - 1, counted from 1
    rows = jnp.arange(num)
    slack = 8 * float(np.finfo(squared.dtype).eps)

    def median_of(row: jax.Array) -> jax.Array:
        return _row_median(jnp.sqrt(squared[row]), row)

    def count(bound: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Entries of each row clearly below, and at most about at, the bound, the diagonal left out; one pass."""
        cut = bound * bound
        below = (squared < cut * (1 - slack)).astype(jnp.int32)
        at_most = (squared <= cut * (1 + slack)).astype(jnp.int32)
        if num >= 2**15:
            return jnp.sum(below, axis=1) - (cut > 0), jnp.sum(at_most, axis=1) - 1
        both = jnp.sum(below + (at_most << 16), axis=1)  # two counts in one word: one reduction instead of two
        return (both & 0xFFFF) - (cut > 0), (both >> 16) - 1

    def step(
        carry: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        best, bound, tried, _ = carry
        below, at_most = count(bound)
        surviving = (below >= low_rank) & ~tried
        found = jnp.any(surviving)
        row = jnp.argmax(jnp.where(surviving, below, -1))
        median = median_of(row)
        better = median < bound * (1 - slack)
        tie = ~better & (median <= bound * (1 + slack)) & (row < best)
        # When nothing survives, rows whose two middle entries lie at the bound tie with the best: lowest index wins.
        level = (at_most >= high_rank) & (below < low_rank)
        lowest = jnp.minimum(jnp.min(jnp.where(level, rows, num)), best)
        best = jnp.where(found, jnp.where(better | tie, row, best), lowest)
        return best, jnp.where(found & better, median, bound), tried | (rows == row), found

    start = (first, median_of(first), rows == first, jnp.ones((), bool))
    best, bound, *_ = jax.lax.while_loop(lambda carry: carry[3], step, start)
    return best.astype(jnp.int32), bound
