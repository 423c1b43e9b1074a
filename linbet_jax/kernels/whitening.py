"""The symmetric root V^{-1/2}: exactly by eigendecomposition, and cheaply as a sum of shifted inverses.

A round of TOFU needs R_t = V_t^{-1/2} after a rank-one update of V. The identity

    V^{-1/2} = (2 / pi) int_0^inf (s^2 I + V)^{-1} ds

with the trapezoidal rule in the elliptic variable s = sqrt(m) sc(u | 1 - m/M) is a rational approximation whose error
falls like exp(-2 pi^2 n / (ln(M/m) + 3)) for every spectrum inside [m, M] (Hale, Higham, Trefethen, SIAM J. Numer.
Anal. 2008, method 3): 24 shifts give 1e-12 at condition 1e6. Each shifted inverse is updated by Sherman-Morrison, so a
round costs O(n d^2), without iteration, eigenvectors or LAPACK.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax.kernels.gram import dot, sweep_inverse


@jax.jit
def inverse_sqrt(gram: jax.Array) -> jax.Array:
    """The symmetric positive definite root R of V^-1, so that R R = V^-1 (Algorithm 2, line 8).

    Uses a symmetric eigendecomposition: the most accurate form, and the reference for the cheaper ones. On CPU it is a
    LAPACK call; under ``vmap`` keep batches at 64 or below where several CPU devices are in use.

    Args:
        gram: [d, d], V, symmetric positive definite.

    Returns:
        [d, d], V^{-1/2}, symmetric whatever signs or order the eigenvectors come in.

    Raises:
        ValueError: at trace time, if ``gram`` is not square.
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram {gram.shape}: expected [d, d]")
    values, vectors = jnp.linalg.eigh(gram)
    half = vectors * values**-0.25  # R = half half^T is symmetric by construction
    return dot(half, half.T)


class ShiftedInverses(NamedTuple):
    """(V + sigma_q I)^-1 for n shifts, last axis innermost so that every operation runs over contiguous shifts.

    Attributes:
        inverses: [d, d, n].
        root: [d, d], V^{-1/2} = sum_q w_q (V + sigma_q I)^-1.
    """

    inverses: jax.Array
    root: jax.Array


def num_shifts(condition: float, dtype: np.dtype | type) -> int:
    """How many shifts give V^{-1/2} to 1e-12 (float64) or 1e-7 (float32) for spectra of this condition number."""
    accuracy = 1e-7 if np.dtype(dtype) == np.float32 else 1e-12
    wanted = -math.log(accuracy) * (math.log(condition) + 3) / (2 * math.pi**2)
    return 4 * math.ceil(wanted / 4)  # whole SIMD registers


@functools.lru_cache(maxsize=64)
def root_quadrature(condition: float, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Shifts and weights [n] such that A^{-1/2} ~ sum_q w_q (A + sigma_q I)^-1 for spectra in [1, condition].

    For spectra in [m, m condition] multiply the shifts by m and the weights by sqrt(m).
    """
    from scipy.special import ellipj, ellipkm1

    parameter = 1 - 1 / condition
    complementary = 1 - parameter  # k'^2 as rounded, so that period and modulus belong together
    complete = ellipkm1(complementary)
    # sc grows from 0 to infinity over (0, K); beyond K/2 it is 1 / (k' sc(K - u)), free of the cancellation in cn.
    half = (np.arange(num // 2) + 0.5) * complete / num
    sn, cn, dn, _ = ellipj(half, parameter)
    nodes = np.concatenate([(sn / cn), cn[::-1] / (np.sqrt(complementary) * sn[::-1])])
    slopes = np.concatenate([dn / cn**2, (dn / sn**2)[::-1] / np.sqrt(complementary)])
    return nodes**2, (2 / math.pi) * (complete / num) * slopes


def shifted_inverses(gram: jax.Array, lower: jax.Array, condition: float) -> ShiftedInverses:
    """Build the shifted inverses of V afresh, O(n d^3).

    Args:
        gram: [d, d], V, with spectrum in [lower, lower * condition].
        lower: [], a lower bound of the spectrum: the ridge.
        condition: a host number, the largest condition number to cover, in (1, 1e15].

    Raises:
        ValueError: if ``gram`` is not square or ``condition`` is out of range.
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram {gram.shape}: expected [d, d]")
    if not 1 < condition <= 1e15:
        raise ValueError(f"condition={condition!r}: must be above 1 and at most 1e15")
    num = num_shifts(condition, gram.dtype)
    shifts, weights = root_quadrature(condition, num)
    sigma = lower * jnp.asarray(shifts, gram.dtype)
    shifted = gram[:, :, None] + jnp.eye(gram.shape[0], dtype=gram.dtype)[:, :, None] * sigma
    inverses, _ = sweep_inverse(shifted)
    return ShiftedInverses(inverses, _weighted(inverses, lower, weights))


def _weighted(inverses: jax.Array, lower: jax.Array, weights: np.ndarray) -> jax.Array:
    return dot(inverses, jnp.sqrt(lower) * jnp.asarray(weights, inverses.dtype))


def shifted_inverses_update(
    state: ShiftedInverses, feature: jax.Array, lower: jax.Array, condition: float
) -> ShiftedInverses:
    """The shifted inverses of V + x x^T, O(n d^2): one Sherman-Morrison step for every shift.

    Args:
        state: of V.
        feature: [d], x.
        lower: as in :func:`shifted_inverses`.
        condition: as in :func:`shifted_inverses`.
    """
    inverses = state.inverses
    _, weights = root_quadrature(condition, inverses.shape[-1])
    dim, _, num = inverses.shape
    image = dot(feature, inverses.reshape(dim, dim * num)).reshape(dim, num)  # one matrix-vector product for all shifts
    grown = 1 + jnp.sum(image * feature[:, None], axis=0)  # [n]
    inverses = inverses - image[:, None, :] * (image / grown)[None, :, :]
    return ShiftedInverses(inverses, _weighted(inverses, lower, weights))
