"""Small symmetric positive definite algebra without LAPACK: inverses, Cholesky factors and their rank-one updates.

Every function is written for ONE problem and batches under ``jax.vmap``. No custom call is made, since batched LAPACK
calls on several CPU devices can deadlock in JAX 0.10 and a d x d problem of a bandit is too small to repay one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from linbet_jax.kernels.arguments import floats

HIGHEST = jax.lax.Precision.HIGHEST
UNROLLED = 32  # largest dimension whose inner products are written out


def dot(left: jax.Array, right: jax.Array) -> jax.Array:
    """Matrix product in full precision (TF32 on GPUs keeps 10 bits, too few for a confidence width)."""
    return jnp.dot(left, right, precision=HIGHEST)


def combined(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """``weights @ rows``: the sum of a few rows [m, n] with weights [m], written out, over contiguous numbers.

    A batched product would be a call of a library. That ends the fusion of what stands around it and keeps XLA's CPU
    compiler from making the loop around it one kernel.
    """
    if rows.shape[0] > UNROLLED:
        return dot(weights, rows)
    return jax.lax.platform_dependent(rows, weights, cpu=_combined_in_two, default=_combined)


def _combined(rows: jax.Array, weights: jax.Array) -> jax.Array:
    total = rows[0] * weights[0]
    for i in range(1, rows.shape[0]):
        total = total + rows[i] * weights[i]
    return total


def _combined_in_two(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """In two turns of a loop: XLA would work out a sum without one anew at every place where it is used."""
    half = rows.shape[0] // 2
    total = rows[-1] * weights[-1] if rows.shape[0] % 2 else jnp.zeros_like(rows[0])
    if half == 0:
        return total

    def add(turn: jax.Array, total: jax.Array) -> jax.Array:
        some = jax.lax.dynamic_slice_in_dim(rows, turn * half, half)
        return total + _combined(some, jax.lax.dynamic_slice_in_dim(weights, turn * half, half))

    return jax.lax.fori_loop(0, 2, add, total)


def small_product(left: jax.Array, right: jax.Array) -> jax.Array:
    """``left @ right``, [m, n] or [n] by [n, k]: on a CPU in one loop with what stands around it, as above."""

    def one_loop(left: jax.Array, right: jax.Array) -> jax.Array:
        return jnp.sum(left[..., None] * right, axis=-2)

    return jax.lax.platform_dependent(left, right, cpu=one_loop, default=dot)


def summed(left: jax.Array, right: jax.Array) -> jax.Array:
    """``left @ right``, [m, n] by [n, k], as a loop over n: slower than a call of a library, for what is seldom done.

    A loop that holds such a call anywhere, in a branch that it hardly ever takes too, does not become one kernel.
    """

    def add(i: jax.Array, total: jax.Array) -> jax.Array:
        column = jax.lax.dynamic_index_in_dim(left, i, axis=1, keepdims=False)
        return total + column[:, None] * jax.lax.dynamic_index_in_dim(right, i, keepdims=False)

    return jax.lax.fori_loop(0, right.shape[0], add, jnp.zeros((left.shape[0], right.shape[1]), right.dtype))


def compensated(total: jax.Array, lost: jax.Array, term: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One more term of a sum kept in two words, elementwise: what rounding lost joins the next term.

    Sums of 10^7 terms stay exact to their own precision: in float32 a plain sum of payoffs is off by whole payoffs
    after 10^5 pulls. What was lost is found whichever of the two numbers is larger (Kahan's and Neumaier's sums).
    """
    term = term + lost
    added = total + term
    error = jnp.where(jnp.abs(total) >= jnp.abs(term), (total - added) + term, (term - added) + total)
    return added, error


def sweep_inverse(gram: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inverse and log-determinant [] of a symmetric positive definite matrix [d, d] by d symmetric sweeps, O(d^3).

    Or of n matrices side by side in the last axis, [d, d, n]: their inverses, of the same shape, and [n].
    """
    dim = gram.shape[0]
    positions = jnp.arange(dim)

    def sweep(j: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        matrix, log_det = carry
        column = jax.lax.dynamic_index_in_dim(matrix, j, axis=1, keepdims=False)  # [d] or [d, n]
        pivot = jax.lax.dynamic_index_in_dim(column, j, axis=0, keepdims=False)  # [] or [n]
        scaled = column / pivot
        swept = matrix - column[:, None] * scaled[None, :]
        here = (positions == j).reshape((dim,) + (1,) * (matrix.ndim - 2))
        swept = jnp.where(here[:, None], scaled[None, :], swept)
        swept = jnp.where(here[None, :], scaled[:, None], swept)
        swept = jnp.where(here[:, None] & here[None, :], -1 / pivot, swept)
        return swept, log_det + jnp.log(pivot)

    start = (gram, jnp.zeros(gram.shape[2:], gram.dtype))
    swept, log_det = jax.lax.fori_loop(0, dim, sweep, start)
    return -swept, log_det


def rank_one_inverse(inverse: jax.Array, feature: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sherman-Morrison: the inverse [d, d] of V + x x^T from that of V [d, d] and x [d], O(d^2).

    And x^T V^-1 x [] of the old V (so that det grows by one plus it).
    """
    image = dot(inverse, feature)
    squared_width = dot(feature, image)
    return inverse - image[:, None] * (image / (1 + squared_width)), squared_width


def cholesky(gram: jax.Array) -> jax.Array:
    """Lower-triangular G [d, d] with G G^T = gram [d, d], O(d^3) flops."""
    dim = gram.shape[0]
    positions = jnp.arange(dim)

    def eliminate(j: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rest, factor = carry
        column = jax.lax.dynamic_index_in_dim(rest, j, axis=1, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(column, j, axis=0, keepdims=False)
        column = jnp.where(positions >= j, column / jnp.sqrt(pivot), 0)
        factor = jnp.where(positions == j, column[:, None], factor)
        return rest - column[:, None] * column, factor

    return jax.lax.fori_loop(0, dim, eliminate, (gram, jnp.zeros_like(gram)))[1]


def lower_inverse(factor: jax.Array) -> jax.Array:
    """Inverse [d, d] of a lower-triangular matrix [d, d] by forward substitution, O(d^3) flops."""
    dim = factor.shape[0]
    positions = jnp.arange(dim)

    def substitute(j: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rest, solution = carry
        column = jax.lax.dynamic_index_in_dim(factor, j, axis=1, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(column, j, axis=0, keepdims=False)
        row = jax.lax.dynamic_index_in_dim(rest, j, axis=0, keepdims=False) / pivot
        solution = jnp.where((positions == j)[:, None], row, solution)
        return rest - column[:, None] * row, solution

    identity = jnp.eye(dim, dtype=factor.dtype)
    return jax.lax.fori_loop(0, dim, substitute, (identity, jnp.zeros_like(identity)))[1]


def rank_one_lower_inverse(lower: jax.Array, feature: jax.Array) -> jax.Array:
    """J' = G'^-1 from J = G^-1, where G' G'^T = G G^T + x x^T: closed form, no loop, O(d^2).

    With z = J x and s_i = 1 + z_1^2 + ... + z_i^2 the Cholesky factor of I + z z^T has the inverse with rows
    sqrt(s_{i-1} / s_i) (e_i - (z_i / s_{i-1}) sum_{j<i} z_j e_j). J [d, d] is lower triangular, and x [d].
    """
    z = dot(lower, feature)
    after = 1 + jnp.cumsum(z * z)
    before = jnp.concatenate([jnp.ones_like(after[:1]), after[:-1]])  # not after - z^2, which cancels
    weighted = z[:, None] * lower
    earlier = jnp.cumsum(weighted, axis=0) - weighted
    return jnp.sqrt(before / after)[:, None] * (lower - (z / before)[:, None] * earlier)


@jax.jit
def ridge_estimates(gram: jax.Array, moments: jax.Array) -> jax.Array:
    """k ridge estimates that share one design (MENU, Algorithm 1, line 7).

    Args:
        gram: [d, d], V = lambda I + sum_i x_i x_i^T.
        moments: [d, k], column j is sum_i y_{i,j} x_i.

    Returns:
        [k, d], row j is V^-1 times column j. O(d^3 + d^2 k) flops.
    """
    gram, moments = floats(gram=gram, moments=moments)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or moments.ndim != 2 or moments.shape[0] != gram.shape[0]:
        raise ValueError(f"gram {gram.shape} and moments {moments.shape}: expected [d, d] and [d, k]")
    inverse, _ = sweep_inverse(gram)
    estimates = dot(inverse, moments)
    # One step of iterative refinement: the error of the sweeps no longer grows with the condition number squared.
    return (estimates + dot(inverse, moments - dot(gram, estimates))).T
