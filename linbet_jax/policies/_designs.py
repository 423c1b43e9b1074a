"""What every ridge-based policy keeps of the arms it played: V and its inverse, and the widths of a fixed set."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.gram import combined, compensated, dot, rank_one_inverse, sweep_inverse
from linbet_jax.kernels.selection import squared_widths


class Design(NamedTuple):
    """For any decision sets.

    Attributes:
        gram: [d, d], V = lambda I + sum x x^T.
        inverse: [d, d], V^-1.
        log_det: [], ln(det V / det(lambda I)).
        lost: [d, d], what rounding has kept out of V so far.
    """

    gram: jax.Array
    inverse: jax.Array
    log_det: jax.Array
    lost: jax.Array


def design_init(dim: int, ridge: jax.Array) -> Design:
    """V_0 = lambda I."""
    identity = jnp.eye(dim, dtype=ridge.dtype)
    return Design(ridge * identity, identity / ridge, jnp.zeros((), ridge.dtype), jnp.zeros_like(identity))


def design_add(design: Design, feature: jax.Array) -> Design:
    """V + x x^T, O(d^2)."""
    inverse, squared_width = rank_one_inverse(design.inverse, feature)
    gram, lost = compensated(design.gram, design.lost, feature[:, None] * feature)
    return Design(gram, inverse, design.log_det + jnp.log1p(squared_width), lost)


def design_refresh(design: Design, ridge: jax.Array) -> Design:
    """The inverse and the determinant computed anew from V, O(d^3)."""
    inverse, log_det = sweep_inverse(design.gram)
    return design._replace(inverse=inverse, log_det=log_det - design.gram.shape[0] * jnp.log(ridge))


def design_norm(design: Design, vector: jax.Array) -> jax.Array:
    """||v||_V of a vector [d], O(d^2)."""
    return jnp.sqrt(jnp.maximum(dot(vector, dot(design.gram, vector)), 0))


class ArmDesign(NamedTuple):
    """For a decision set A [K, d] that never changes.

    Attributes:
        counts: [K] int32, how often each arm entered V; V = lambda I + A^T diag(counts) A.
        inverse: [d, d], V^-1.
        squared_widths: [K], diag(A V^-1 A^T).
        log_det: [], ln(det V / det(lambda I)).
    """

    counts: jax.Array
    inverse: jax.Array
    squared_widths: jax.Array
    log_det: jax.Array


def arm_design_init(arms: jax.Array, ridge: jax.Array) -> ArmDesign:
    """V_0 = lambda I."""
    return ArmDesign(
        counts=jnp.zeros(arms.shape[0], jnp.int32),
        inverse=jnp.eye(arms.shape[1], dtype=arms.dtype) / ridge,
        squared_widths=jnp.sum(arms * arms, axis=1) / ridge,
        log_det=jnp.zeros((), arms.dtype),
    )


def arm_design_add(design: ArmDesign, arms: jax.Array, index: jax.Array) -> tuple[ArmDesign, jax.Array]:
    """V + x x^T for x = arms[index], O(K d + d^2); the arms are shared by a batch, so its K d part is one product.

    Returns:
        The new design, and A V_new^-1 x [K] of the new V: what a unit of payoff adds to every arm's value.
    """
    columns = jax.lax.optimization_barrier(arms.T)  # laid out anew once, not read with strides at every pull
    feature = arms[index]
    image = combined(design.inverse, feature)  # V^-1 x
    grown = 1 + jnp.sum(feature * image)
    scaled = image / grown
    gains = combined(columns, scaled)
    return (
        ArmDesign(
            counts=design.counts + (jnp.arange(arms.shape[0]) == index),  # a scatter is never part of a larger kernel
            inverse=design.inverse - image[:, None] * scaled,
            squared_widths=design.squared_widths - gains * gains * grown,
            log_det=design.log_det + jnp.log(grown),
        ),
        gains,
    )


def arm_design_gram(design: ArmDesign, arms: jax.Array, ridge: jax.Array) -> jax.Array:
    """V [d, d], from the counts."""
    weighted = arms * design.counts.astype(arms.dtype)[:, None]
    return ridge * jnp.eye(arms.shape[1], dtype=arms.dtype) + dot(arms.T, weighted)


def arm_design_norm(design: ArmDesign, arms: jax.Array, ridge: jax.Array, vector: jax.Array) -> jax.Array:
    """||v||_V of a vector [d] without V: lambda ||v||^2 + sum_a n_a <x_a, v>^2 under the root, O(K d)."""
    images = dot(arms, vector)
    return jnp.sqrt(ridge * dot(vector, vector) + dot(design.counts.astype(arms.dtype), images * images))


def arm_design_refresh(design: ArmDesign, arms: jax.Array, ridge: jax.Array) -> ArmDesign:
    """Everything computed anew from the counts, O(K d^2 + d^3)."""
    inverse, log_det = sweep_inverse(arm_design_gram(design, arms, ridge))
    return ArmDesign(
        counts=design.counts,
        inverse=inverse,
        squared_widths=squared_widths(arms, inverse),
        log_det=log_det - arms.shape[1] * jnp.log(ridge),
    )
