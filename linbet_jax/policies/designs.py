"""Designs: what every ridge-based policy keeps of the arms it played, for any decision sets or for a fixed one.

A policy is written once, against a :class:`Design`, which works out the arms' widths for every set, O(K d^2). The fast
form for a decision set that never changes, :class:`FixedSet`, keeps each arm's width and brings a pull into all of them
by rank one, O(K d). Both make the same choices up to rounding.

An estimate theta of a policy is kept as the design's *image* of it: theta [d] itself for any sets, and the arms' values
A theta [K] for a fixed one, since these can be updated by rank one too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.balls import Ball
from linbet_jax.kernels.gram import combined, compensated, dot, rank_one_inverse, sweep_inverse
from linbet_jax.kernels.selection import argmax_index, squared_widths, values_of

Arms = Any  # [K, d]; None where sets change and none is given yet; a `Ball`, which AnySets serves


class AnySetsState(NamedTuple):
    """State of a :class:`Design` for any sets."""

    gram: jax.Array  # [d, d], V
    inverse: jax.Array  # [d, d], V^-1
    log_det: jax.Array  # [], ln(det V / det(lambda I))
    lost: jax.Array  # [d, d], what rounding has kept out of V so far


@dataclasses.dataclass(frozen=True)
class Design:
    """V = lambda I + sum x x^T over the arms x played; a value that policies are made from, two of a kind are equal.

    It serves any decision sets, in particular those that change from pull to pull; :class:`FixedSet` serves one that
    does not. The state of either has at least ``inverse`` [d, d], V^-1, and ``log_det`` [], ln(det V / det(lambda I)).

    Attributes:
        dim: d.
    """

    dim: int

    def init(self, arms: Arms, ridge: jax.Array) -> Any:
        """V_0 = lambda I, in the dtype of ``ridge``."""
        identity = jnp.eye(self.dim, dtype=ridge.dtype)
        return AnySetsState(ridge * identity, identity / ridge, jnp.zeros((), ridge.dtype), jnp.zeros_like(identity))

    def with_weights(self) -> Design:
        """This design, or the one like it, whose `add` takes weights."""
        return self

    def add(
        self, state: Any, arms: jax.Array, index: jax.Array, weight: jax.Array | None = None
    ) -> tuple[Any, jax.Array]:
        """V + w x x^T for x = arms[index] and a weight w [] of at least 0, 1 where none is given; O(d^2).

        Returns:
            The new state, and the image of w V_new^-1 x: what a unit of payoff adds to the estimate.

        Raises:
            ValueError: at trace time, for a weight where the design counts whole pulls; see `with_weights`.
        """
        feature = arms[index]
        if weight is not None:
            feature = jnp.sqrt(weight) * feature
        inverse, squared_width = rank_one_inverse(state.inverse, feature)
        gram, lost = compensated(state.gram, state.lost, feature[:, None] * feature)
        step = dot(inverse, feature)
        after = AnySetsState(gram, inverse, state.log_det + jnp.log1p(squared_width), lost)
        return after, step if weight is None else jnp.sqrt(weight) * step

    def refresh(self, state: Any, arms: Arms, ridge: jax.Array) -> Any:
        """Everything that rank-one updates drift in, computed anew from V, O(d^3)."""
        inverse, log_det = sweep_inverse(state.gram)
        return state._replace(inverse=inverse, log_det=log_det - self.dim * jnp.log(ridge))

    def gram(self, state: Any, arms: Arms, ridge: jax.Array) -> jax.Array:
        """V [d, d]."""
        return state.gram

    def times(self, state: Any, arms: Arms, ridge: jax.Array, vector: jax.Array) -> jax.Array:
        """V v [d] of a vector [d], O(d^2)."""
        return dot(state.gram, vector)

    def solve(self, state: Any, arms: Arms, ridge: jax.Array, vector: jax.Array) -> jax.Array:
        """V^-1 v [d] of a vector [d], by three steps of conjugate gradients that start from the inverse kept.

        The inverse alone is not enough in float32: its rounding, which ||.||_V shows at its largest, would be several
        radii wide. Two steps reach what rounding allows.
        """
        solution, residual = jnp.zeros_like(vector), vector
        step = dot(state.inverse, residual)
        size = dot(residual, step)
        for _ in range(3):
            image = self.times(state, arms, ridge, step)
            length = _quotient(size, dot(step, image))
            solution, residual = solution + length * step, residual - length * image
            next_step = dot(state.inverse, residual)
            before, size = size, dot(residual, next_step)
            step = next_step + _quotient(size, before) * step
        return solution

    def norm(self, state: Any, arms: Arms, ridge: jax.Array, vector: jax.Array) -> jax.Array:
        """||v||_V of a vector [d], O(d^2)."""
        return jnp.sqrt(jnp.maximum(dot(vector, dot(state.gram, vector)), 0))

    def squared_widths(self, state: Any, arms: jax.Array) -> jax.Array:
        """x^T V^-1 x of every arm x, [K], O(K d^2)."""
        return squared_widths(arms, state.inverse)

    def squared_width(self, state: Any, arms: jax.Array, index: jax.Array) -> jax.Array:
        """x^T V^-1 x [] of x = arms[index], never below 0; O(d^2)."""
        feature = arms[index]
        return jnp.maximum(dot(feature, dot(state.inverse, feature)), 0)

    def image(self, arms: Arms, vector: jax.Array) -> jax.Array:
        """The image of a vector [d]: here itself."""
        return vector

    def values(self, arms: jax.Array, image: jax.Array) -> jax.Array:
        """<x, theta> of every arm x, [K], from the image of theta, O(K d)."""
        return dot(arms, image)

    def value(self, image: jax.Array, arms: jax.Array, index: jax.Array) -> jax.Array:
        """<x, theta> [] for x = arms[index], from the image of theta, O(d)."""
        return dot(arms[index], image)

    def optimistic(
        self,
        state: Any,
        arms: Any,
        center: jax.Array,
        radius: jax.Array,
        values: Callable[[jax.Array, jax.Array], jax.Array] = values_of,
    ) -> jax.Array:
        """The arm of the largest <x, theta> + radius * width: its index [] int32, on a ball the arm [d] itself.

        The arms are [K, d] or a `Ball`, and the radius [] is at least 0. ``values(arms, center)`` is <x, theta> of all
        arms, [K]; the center is theta [d], or what `values` takes in its place.
        """
        if isinstance(arms, Ball):
            return arms.optimistic(center, state.inverse, radius)
        return argmax_index(values(arms, center), self.squared_widths(state, arms), radius)


AnySets = Design  # the form for any sets, by its name


class FixedSetState(NamedTuple):
    """State of :class:`FixedSet`."""

    # [K] int32, how often each arm entered V, or with weights a float, their sum; V = lambda I + A^T diag(counts) A
    counts: jax.Array
    inverse: jax.Array  # [d, d], V^-1
    squared_widths: jax.Array  # [K], diag(A V^-1 A^T)
    log_det: jax.Array  # [], ln(det V / det(lambda I))
    lost: jax.Array | None = None  # [K], what rounding has kept out of the sums of weights so far; None without weights


@dataclasses.dataclass(frozen=True)
class FixedSet(Design):
    """The design for one decision set A [K, d] that never changes during a replication.

    Attributes:
        weighted: whether arms enter V with weights; whole pulls are counted otherwise, which costs less.
    """

    weighted: bool = False

    def init(self, arms: Arms, ridge: jax.Array) -> FixedSetState:
        """V_0 = lambda I.

        Raises:
            ValueError: at trace time, where decision sets change or are balls.
        """
        if arms is None or isinstance(arms, Ball):
            raise ValueError("this policy was made for a fixed decision set; make it for the bandit that it plays")
        return FixedSetState(
            counts=jnp.zeros(arms.shape[0], arms.dtype if self.weighted else jnp.int32),
            inverse=jnp.eye(self.dim, dtype=arms.dtype) / ridge,
            squared_widths=jnp.sum(arms * arms, axis=1) / ridge,
            log_det=jnp.zeros((), arms.dtype),
            lost=jnp.zeros(arms.shape[0], arms.dtype) if self.weighted else None,
        )

    def with_weights(self) -> FixedSet:
        """The design whose `add` takes weights."""
        return dataclasses.replace(self, weighted=True)

    def add(
        self, state: FixedSetState, arms: jax.Array, index: jax.Array, weight: jax.Array | None = None
    ) -> tuple[FixedSetState, jax.Array]:
        """V + w x x^T, O(K d + d^2); a batch shares the arms, so its K d part is one product."""
        if weight is not None and not self.weighted:
            raise ValueError("weight: this design counts whole pulls; with_weights() gives the one that takes weights")
        if weight is None and self.weighted:
            weight = jnp.ones((), arms.dtype)

        def weighted(numbers: jax.Array) -> jax.Array:
            return numbers if weight is None else weight * numbers

        columns = jax.lax.optimization_barrier(arms.T)  # laid out anew once, not read with strides at every pull
        feature = arms[index]
        image = combined(state.inverse, feature)  # V^-1 x
        grown = 1 + weighted(jnp.sum(feature * image))
        scaled = image / grown  # V_new^-1 x
        gains = combined(columns, scaled)
        here = jnp.arange(arms.shape[0]) == index  # no kernel takes in a scatter
        if weight is None:
            counts, lost = state.counts + here, None
        else:
            assert state.lost is not None
            counts, lost = compensated(state.counts, state.lost, jnp.where(here, weight, 0))
        return (
            FixedSetState(
                counts=counts,
                inverse=state.inverse - image[:, None] * weighted(scaled),
                squared_widths=state.squared_widths - gains * gains * weighted(grown),
                log_det=state.log_det + jnp.log(grown),
                lost=lost,
            ),
            weighted(gains),
        )

    def refresh(self, state: FixedSetState, arms: Arms, ridge: jax.Array) -> FixedSetState:
        """Inverse, widths and determinant from the counts, O(K d^2 + d^3)."""
        inverse, log_det = sweep_inverse(self.gram(state, arms, ridge))
        widths = squared_widths(arms, inverse)
        return state._replace(inverse=inverse, squared_widths=widths, log_det=log_det - self.dim * jnp.log(ridge))

    def gram(self, state: FixedSetState, arms: Arms, ridge: jax.Array) -> jax.Array:
        """V from the counts, O(K d^2)."""
        weighted = arms * state.counts.astype(arms.dtype)[:, None]
        return ridge * jnp.eye(self.dim, dtype=arms.dtype) + dot(arms.T, weighted)

    def times(self, state: FixedSetState, arms: Arms, ridge: jax.Array, vector: jax.Array) -> jax.Array:
        """lambda v + sum_a n_a x_a <x_a, v>, O(K d)."""
        return ridge * vector + dot(arms.T, state.counts.astype(arms.dtype) * dot(arms, vector))

    def norm(self, state: FixedSetState, arms: Arms, ridge: jax.Array, vector: jax.Array) -> jax.Array:
        """||v||_V without V: lambda ||v||^2 + sum_a n_a <x_a, v>^2 under the root, O(K d)."""
        images = dot(arms, vector)
        return jnp.sqrt(ridge * dot(vector, vector) + dot(state.counts.astype(arms.dtype), images * images))

    def squared_widths(self, state: FixedSetState, arms: jax.Array) -> jax.Array:
        """Kept in the state."""
        return state.squared_widths

    def squared_width(self, state: FixedSetState, arms: jax.Array, index: jax.Array) -> jax.Array:
        """One entry of what is kept in the state."""
        return jnp.maximum(state.squared_widths[index], 0)

    def image(self, arms: Arms, vector: jax.Array) -> jax.Array:
        """A v, O(K d)."""
        return dot(arms, vector)

    def values(self, arms: jax.Array, image: jax.Array) -> jax.Array:
        """The image itself."""
        return image

    def value(self, image: jax.Array, arms: jax.Array, index: jax.Array) -> jax.Array:
        """One entry of the image."""
        return image[index]


def _quotient(numerator: jax.Array, denominator: jax.Array) -> jax.Array:
    """Their quotient; 0 for a denominator of 0, where nothing is left to be found."""
    zero = denominator == 0
    return jnp.where(zero, 0, numerator / jnp.where(zero, 1, denominator))


def design_of(bandit: Any) -> Design:
    """The fastest design for a bandit's decision sets."""
    listed = not bandit.changing and getattr(bandit, "norm_ball", None) is None
    return FixedSet(bandit.dim) if listed else AnySets(bandit.dim)
