"""TOFU's truncated estimate: the full pass over the history, and the pruned form that computes the same number.

Full pass (Algorithm 2, lines 7-12): with a root W of V^-1 (W^T W = V^-1; W = V^{-1/2} in the paper) and
u_tau = W x_tau, drop payoff tau in coordinate i when ``|u_{i,tau} y_tau|`` exceeds the level b; s_i sums the kept
u_{i,tau} y_tau, and the estimate is W^T s. O(t d^2) at pull t, so O(T^2) in all.

Pruned form: ``|u_{i,tau} y_tau| <= ||x_tau||_{V^-1} |y_tau|``, V only grows and the level never falls (epsilon <= 1).
So once ``||x_tau||_{V^-1} |y_tau| <= b`` payoff tau is kept in every coordinate at every later pull and can be folded
into one moment vector for good. Only the still doubtful payoffs, a handful, are tested again:

    estimate = V^-1 sum_{tau settled} y_tau x_tau + W^T (sum_{tau doubtful, kept in i} u_{i,tau} y_tau)_i.

Deviations: none in value. Settled and doubtful payoffs are summed apart (rather than subtracting the dropped ones from
the full sum) so that a payoff of 1e12 never enters a sum it must cancel out of.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.kernels.whitening import inverse_sqrt


def is_kept(products: jax.Array, level: jax.Array, two_sided: bool) -> jax.Array:
    """Which products u y stay: two-sided |u y| <= b (the proof), one-sided u y <= b (the algorithm box).

    NaN stays, so that a payoff which is not a number shows in the estimate instead of being dropped as if truncated.
    """
    return ~((jnp.abs(products) if two_sided else products) > level)


def kept_sums(
    features: jax.Array,
    payoffs: jax.Array,
    root: jax.Array,
    level: jax.Array,
    *,
    mask: jax.Array | None = None,
    two_sided: bool = True,
) -> jax.Array:
    """s [d], s_i = sum over tau of u_{i,tau} y_tau over the payoffs kept in coordinate i; NaN where the level is.

    Args:
        features: [n, d].
        payoffs: [n].
        root: [d, d], W with W^T W = V^-1.
        level: [], b >= 0.
        mask: [n] bool, which rows exist; all when None.
        two_sided: whether the test is ``|u y| <= b`` or ``u y <= b``.
    """
    products = _products(dot(features, root.T), payoffs)
    kept = is_kept(products, level, two_sided)
    if mask is not None:
        kept = kept & mask[:, None]
    return _no_number(level, jnp.sum(jnp.where(kept, products, 0), axis=0))


def _products(images: jax.Array, payoffs: jax.Array) -> jax.Array:
    """u y [n, d] of images u [n, d] and payoffs y [n]; 0 where u is 0 and y infinite."""
    nothing = (images == 0) & jnp.isinf(payoffs)[:, None]
    return jnp.where(nothing, 0, images * payoffs[:, None])


def _no_number(level: jax.Array, sums: jax.Array) -> jax.Array:
    """The sums, or NaN where the level is: it would truncate nothing."""
    return jnp.where(jnp.isnan(level), level, sums)


@functools.partial(jax.jit, static_argnames=("two_sided",))
def truncated_estimate(
    features: jax.Array,
    payoffs: jax.Array,
    gram: jax.Array,
    level: jax.Array,
    *,
    mask: jax.Array | None = None,
    two_sided: bool = True,
) -> jax.Array:
    """TOFU's estimate by the full pass over the history (Algorithm 2, lines 8-12), O(n d^2).

    Args:
        features: [n, d], the arms played.
        payoffs: [n], their payoffs.
        gram: [d, d], V = lambda I + sum_tau x_tau x_tau^T.
        level: [], b_t.
        mask: [n] bool, rows that exist (a history buffer is longer than the history); all when None.
        two_sided: ``|u y| <= b`` as the proof needs (default), or ``u y <= b`` as the algorithm box prints.

    Returns:
        [d], V^{-1/2} s. The root is an eigendecomposition, on CPU a LAPACK call: see :func:`inverse_sqrt`.

    Raises:
        ValueError: at trace time, if the shapes do not match or an argument is no array of float32 or float64.
    """
    features, payoffs, gram, level = floats(features=features, payoffs=payoffs, gram=gram, level=level)
    if features.ndim != 2 or payoffs.shape != features.shape[:1] or gram.shape != (features.shape[1],) * 2:
        raise ValueError(
            f"features {features.shape}, payoffs {payoffs.shape}, gram {gram.shape}: expected [n, d], [n], [d, d]"
        )
    if mask is not None and mask.shape != payoffs.shape:
        raise ValueError(f"mask {mask.shape}: expected the shape of payoffs, {payoffs.shape}")
    root = inverse_sqrt(gram)
    return dot(root, kept_sums(features, payoffs, root, level, mask=mask, two_sided=two_sided))


class DoubtfulState(NamedTuple):
    """What the pruned form keeps of a history.

    Attributes:
        moments: [d], sum of y x over the settled payoffs.
        features: [C, d], arms of the doubtful payoffs.
        payoffs: [C], the doubtful payoffs; 0 in a free slot.
        live: [C] bool, which slots are taken.
        overflow: [] bool, whether a doubtful payoff ever found no free slot: the state is then worthless and the run
            must be repeated with a larger capacity.
        lost: [d], what rounding has kept out of the moments so far.
    """

    moments: jax.Array
    features: jax.Array
    payoffs: jax.Array
    live: jax.Array
    overflow: jax.Array
    lost: jax.Array


def doubtful_init(dim: int, capacity: int, dtype: jnp.dtype | type = float) -> DoubtfulState:
    """An empty state for features [dim] and at most ``capacity`` doubtful payoffs at a time.

    Raises:
        ValueError: if dim or capacity is below 1, or dtype is neither float32 nor float64.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        raise ValueError(f"dtype must be float32 or float64, got {jnp.dtype(dtype)}")
    for name, value in (("dim", dim), ("capacity", capacity)):
        if value < 1:
            raise ValueError(f"{name}={value}: must be at least 1")
    return DoubtfulState(
        moments=jnp.zeros(dim, dtype),
        features=jnp.zeros((capacity, dim), dtype),
        payoffs=jnp.zeros(capacity, dtype),
        live=jnp.zeros(capacity, bool),
        overflow=jnp.zeros((), bool),
        lost=jnp.zeros(dim, dtype),
    )


@functools.partial(jax.jit, static_argnames=("two_sided",))
def doubtful_update(
    state: DoubtfulState,
    feature: jax.Array,
    payoff: jax.Array,
    root: jax.Array,
    level: jax.Array,
    *,
    two_sided: bool = True,
) -> tuple[DoubtfulState, jax.Array]:
    """Add one payoff and test the doubtful ones again, O(C d^2).

    Args:
        state: before the pull.
        feature: [d], the arm played.
        payoff: [].
        root: [d, d], W with W^T W = V^-1, V including ``feature``. V must only ever grow.
        level: [], the current level b; it must never fall.
        two_sided: as in :func:`truncated_estimate`.

    Returns:
        The new state, and the doubtful payoffs' kept sums s [d] in whitened coordinates, for
        :func:`doubtful_estimate`.

    Raises:
        ValueError: at trace time, if the shapes do not match or an argument is no array of float32 or float64.
    """
    feature, payoff, root, level = floats(feature=feature, payoff=payoff, root=root, level=level)
    dim = state.moments.shape[0]
    if feature.shape != (dim,) or jnp.shape(payoff) != () or root.shape != (dim, dim):
        raise ValueError(
            f"feature {feature.shape}, payoff {jnp.shape(payoff)}, root {root.shape}: expected [d], [], [d, d], d={dim}"
        )
    payoff = jnp.where(jnp.isinf(payoff) & jnp.all(feature == 0), 0, payoff)  # it says nothing of theta
    settled_now = jnp.linalg.norm(dot(root, feature)) * jnp.abs(payoff) <= level
    slot, none = jax.lax.platform_dependent(state.live, cpu=_first_free, default=_first_free_at_once)
    here = (jnp.arange(state.live.shape[0]) == slot) & ~settled_now
    overflow = state.overflow | (~settled_now & none)
    features = jnp.where(here[:, None], feature, state.features)
    payoffs = jnp.where(here, payoff, state.payoffs)
    live = state.live | here

    products = _products(dot(features, root.T), payoffs)
    settled = live & (jnp.sqrt(jnp.sum(products * products, axis=1)) <= level)
    doubtful = live & ~settled
    added = jnp.sum(jnp.where(settled[:, None], features * payoffs[:, None], 0), axis=0)
    moments, lost = compensated(state.moments, state.lost, added + jnp.where(settled_now, payoff, 0) * feature)
    kept = is_kept(products, level, two_sided) & doubtful[:, None]
    sums = _no_number(level, jnp.sum(jnp.where(kept, products, 0), axis=0))
    return DoubtfulState(moments, features, jnp.where(doubtful, payoffs, 0), doubtful, overflow, lost), sums


def _first_free(live: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first free slot [] of those taken [C], and whether there is none []."""
    return jnp.argmin(live), jnp.all(live)


def _first_free_at_once(live: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same by one reduction, which is one kernel on a GPU; C where there is none."""
    capacity = live.shape[0]
    slot = jnp.min(jnp.where(live, capacity, jnp.arange(capacity)))
    return slot, slot == capacity


@jax.jit
def doubtful_estimate(state: DoubtfulState, sums: jax.Array, gram_inverse: jax.Array, root: jax.Array) -> jax.Array:
    """The truncated estimate V^-1 m + W^T s [d] from :func:`doubtful_update`'s results, O(d^2).

    Args:
        state: after the update.
        sums: [d], s as returned by the update.
        gram_inverse: [d, d], V^-1.
        root: [d, d], the W given to the update.
    """
    sums, gram_inverse, root = floats(sums=sums, gram_inverse=gram_inverse, root=root)
    return dot(gram_inverse, state.moments) + dot(root.T, sums)


def doubtful_resize(state: DoubtfulState, capacity: int) -> DoubtfulState:
    """The same state with another number of slots; ``overflow`` is set if more are taken than fit."""
    # No sort: a compiled program with one cannot be kept in JAX's compile cache on CPU.
    here = state.live & (jnp.cumsum(state.live) == jnp.arange(1, capacity + 1)[:, None])  # [new, old], in order
    live, source = jnp.any(here, axis=1), jnp.argmax(here, axis=1)
    return DoubtfulState(
        moments=state.moments,
        features=jnp.where(live[:, None], state.features[source], 0),
        payoffs=jnp.where(live, state.payoffs[source], 0),
        live=live,
        overflow=state.overflow | (jnp.sum(state.live) > capacity),
        lost=state.lost,
    )
