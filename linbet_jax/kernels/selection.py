"""Choosing an arm: the optimistic index over a finite decision set."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import combined, dot

TIE_TOLERANCE = {"float32": 1e-5, "float64": 1e-11}
"""Indices that differ by less than this share of the largest tie: some hundred roundings of a sum of d products."""


def squared_widths(arms: jax.Array, gram_inverse: jax.Array) -> jax.Array:
    """x^T V^-1 x for every arm: arms [K, d], gram_inverse [d, d] -> [K], never below 0."""
    return jnp.maximum(jnp.sum(dot(arms, gram_inverse) * arms, axis=1), 0)


def values_of(arms: jax.Array, center: jax.Array) -> jax.Array:
    """<x, center> of every arm: arms [K, d], center [d] -> [K]; on a GPU no kernel of its own."""
    return jax.lax.platform_dependent(arms, center, cpu=dot, default=lambda arms, center: combined(arms.T, center))


def argmax_index(values: jax.Array, squared: jax.Array, radius: jax.Array) -> jax.Array:
    """The arm of the largest value + radius * width: values [K], squared widths [K] -> [] int32; -1 if none is finite.

    Indices within rounding of the largest (`TIE_TOLERANCE`) tie, and the lowest arm wins. On symmetric decision sets
    many indices are equal in exact arithmetic; without this rule the last bit would choose, and devices, batch shapes
    and equivalent formulas would play different arms.
    """
    indices = values + radius * jnp.sqrt(jnp.maximum(squared, 0))
    largest = jnp.max(indices)
    tolerance = TIE_TOLERANCE["float64" if indices.dtype == jnp.float64 else "float32"]
    near = indices >= largest - tolerance * jnp.abs(largest)
    first = jnp.min(jnp.where(near, jnp.arange(indices.size, dtype=jnp.int32), indices.size))
    return jnp.where(jnp.isfinite(largest), first, -1).astype(jnp.int32)


@jax.jit
def optimistic_arm(arms: jax.Array, center: jax.Array, gram_inverse: jax.Array, radius: jax.Array) -> jax.Array:
    """The arm of the largest optimistic index <x, center> + radius ||x||_{V^-1} (Algorithms 1 and 2, select line).

    The maximum of <x, theta> over theta with ||theta - center||_V <= radius is that index, so choosing over the pair
    (x, theta) is choosing over arms alone. Ties, up to rounding, go to the lowest index.

    Args:
        arms: [K, d].
        center: [d].
        gram_inverse: [d, d], V^-1.
        radius: [], beta >= 0.

    Returns:
        [] int32, an arm index in 0..K-1; -1 when the largest index is not finite (NaN or an overflowing radius).
    """
    arms, center, gram_inverse, radius = floats(arms=arms, center=center, gram_inverse=gram_inverse, radius=radius)
    dim = arms.shape[-1]
    if arms.ndim != 2 or center.shape != (dim,) or gram_inverse.shape != (dim, dim) or radius.shape != ():
        raise ValueError(
            f"arms {arms.shape}, center {center.shape}, gram_inverse {gram_inverse.shape}, radius {radius.shape}:"
            " expected [K, d], [d], [d, d], []"
        )
    return argmax_index(dot(arms, center), squared_widths(arms, gram_inverse), radius)
