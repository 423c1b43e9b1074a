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

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import dot, small_product, sweep_inverse


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
        ValueError: at trace time, if ``gram`` is not square, or no array of float32 or float64.
    """
    (gram,) = floats(gram=gram)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram {gram.shape}: expected [d, d]")
    values, vectors = jnp.linalg.eigh(gram)
    half = vectors * values**-0.25  # R = half half^T is symmetric by construction
    return dot(half, half.T)


class ShiftedInverses(NamedTuple):
    """(V + sigma_q I)^-1 for n shifts, last axis innermost so that every operation runs over contiguous shifts.

    An update may be deferred: its vectors are kept, and the next one brings both into the inverses in one pass over
    them, which is what an update costs.

    Attributes:
        inverses: [d, d, n]; with an update deferred, those before it.
        root: [d, d], V^{-1/2} = sum_q w_q (V + sigma_q I)^-1, always up to date.
        image: [d, n], (V + sigma_q I)^-1 x of the deferred update, else 0.
        scaled: [d, n], the same over 1 + x^T (V + sigma_q I)^-1 x.
    """

    inverses: jax.Array
    root: jax.Array
    image: jax.Array
    scaled: jax.Array


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
        ValueError: if ``gram`` is not square, or no array of float32 or float64, or ``condition`` is out of range.
    """
    gram, lower = floats(gram=gram, lower=lower)
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram {gram.shape}: expected [d, d]")
    if not 1 < condition <= 1e15:
        raise ValueError(f"condition={condition!r}: must be above 1 and at most 1e15")
    num = num_shifts(condition, gram.dtype)
    shifts, weights = root_quadrature(condition, num)
    sigma = lower * jnp.asarray(shifts, gram.dtype)
    shifted = gram[:, :, None] + jnp.eye(gram.shape[0], dtype=gram.dtype)[:, :, None] * sigma
    inverses, _ = sweep_inverse(shifted)
    nothing = jnp.zeros((gram.shape[0], num), gram.dtype)
    return ShiftedInverses(inverses, _weighted(inverses, lower, weights), nothing, nothing)


def _weighted(inverses: jax.Array, lower: jax.Array, weights: np.ndarray) -> jax.Array:
    return dot(inverses, jnp.sqrt(lower) * jnp.asarray(weights, inverses.dtype))


def shifted_inverses_update(
    state: ShiftedInverses, feature: jax.Array, lower: jax.Array, condition: float
) -> ShiftedInverses:
    """The shifted inverses of V + x x^T, O(n d^2): one Sherman-Morrison step for every shift.

    Args:
        state: of V, with nothing deferred.
        feature: [d], x.
        lower: as in :func:`shifted_inverses`.
        condition: as in :func:`shifted_inverses`.
    """
    (feature,) = floats(feature=feature)
    _, weights = root_quadrature(condition, state.inverses.shape[-1])
    image, scaled = _step(_image(state, feature), feature)
    inverses = state.inverses - image[:, None, :] * scaled[None, :, :]
    return state._replace(inverses=inverses, root=_weighted(inverses, lower, weights))


def shifted_inverses_defer(
    state: ShiftedInverses, feature: jax.Array, lower: jax.Array, condition: float
) -> ShiftedInverses:
    """The same update with the inverses left for :func:`shifted_inverses_settle`, which must be the next one.

    The root alone is brought up to date. Over such a pair the inverses are read three times and written once, where
    two updates read them six times and write them twice.
    """
    (feature,) = floats(feature=feature)
    _, weights = root_quadrature(condition, state.inverses.shape[-1])
    image, scaled = _step(_image(state, feature), feature)
    weighted = scaled * (jnp.sqrt(lower) * jnp.asarray(weights, scaled.dtype))
    return state._replace(root=state.root - small_product(weighted, image.T), image=image, scaled=scaled)


def shifted_inverses_settle(
    state: ShiftedInverses, feature: jax.Array, lower: jax.Array, condition: float
) -> ShiftedInverses:
    """The update after a deferred one, with both brought into the inverses."""
    (feature,) = floats(feature=feature)
    _, weights = root_quadrature(condition, state.inverses.shape[-1])
    earlier = state.image * small_product(feature, state.scaled)
    image, scaled = _step(_image(state, feature) - earlier, feature)
    inverses = state.inverses - state.image[:, None, :] * state.scaled[None, :, :] - image[:, None, :] * scaled[None]
    nothing = jnp.zeros_like(image)
    return ShiftedInverses(inverses, _weighted(inverses, lower, weights), nothing, nothing)


def _image(state: ShiftedInverses, feature: jax.Array) -> jax.Array:
    """The stored inverses times x, [d, n]: one matrix-vector product for all shifts."""
    dim, _, num = state.inverses.shape
    return small_product(feature, state.inverses.reshape(dim, dim * num)).reshape(dim, num)


def _step(image: jax.Array, feature: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two factors [d, n] of Sherman-Morrison's correction: the image, and it over 1 + x^T image."""
    return image, image / (1 + small_product(feature, image))
