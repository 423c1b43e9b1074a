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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax.kernels.arguments import floats
from linbet_jax.kernels.gram import compensated, dot, small_product
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

    Arguments are as in :func:`truncated_estimate`, but ``root`` [d, d] is W with W^T W = V^-1.
    """
    products = _products(dot(features, root.T), payoffs[:, None])
    kept = is_kept(products, level, two_sided)
    if mask is not None:
        kept = kept & mask[:, None]
    return _no_number(level, jnp.sum(jnp.where(kept, products, 0), axis=0))


def _products(images: jax.Array, payoffs: jax.Array) -> jax.Array:
    """u y of images u and payoffs y, elementwise; 0 where u is 0 and y infinite."""
    return jnp.where((images == 0) & jnp.isinf(payoffs), 0, images * payoffs)


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
    square = (features.shape[-1],) * 2 if features.ndim == 2 else None
    if payoffs.shape != features.shape[:1] or gram.shape != square or level.shape != ():
        raise ValueError(
            f"features {features.shape}, payoffs {payoffs.shape}, gram {gram.shape}, level {level.shape}: expected"
            " [n, d], [n], [d, d], []"
        )
    if mask is not None and mask.shape != payoffs.shape:
        raise ValueError(f"mask {mask.shape}: expected the shape of payoffs, {payoffs.shape}")
    root = inverse_sqrt(gram)
    return dot(root, kept_sums(features, payoffs, root, level, mask=mask, two_sided=two_sided))


class DoubtfulState(NamedTuple):
    """What the pruned form keeps of a history: the doubtful payoffs lie in n tiles of m slots, C in all.

    Attributes:
        moments: [d], sum of y x over the settled payoffs.
        features: [n, d, m], arms of the doubtful payoffs.
        payoffs: [n, m], the doubtful payoffs.
        live: [n, m] bool, which slots are taken; the last one never is.
        free: [] int32, the first free slot.
        end: [] int32, one more than the last slot taken; 0 when none is.
        overflow: [] bool, whether a doubtful payoff ever found no free slot: the state is then worthless and the run
            must be repeated with a larger capacity.
        lost: [d], what rounding has kept out of the moments so far.
    """

    moments: jax.Array
    features: jax.Array
    payoffs: jax.Array
    live: jax.Array
    free: jax.Array
    end: jax.Array
    overflow: jax.Array
    lost: jax.Array


_TILE = 8  # slots of a tile: a vector register of float64 with AVX-512


def doubtful_init(dim: int, capacity: int, dtype: jnp.dtype | type = float) -> DoubtfulState:
    """An empty state for features [dim] and at least ``capacity`` doubtful payoffs at a time, up to whole tiles of 8.

    Raises:
        ValueError: if dim or capacity is no integer of at least 1, or dtype is neither float32 nor float64.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        raise ValueError(f"dtype must be float32 or float64, got {jnp.dtype(dtype)}")
    sizes: dict[str, Any] = {"dim": dim, "capacity": capacity}
    for name, value in sizes.items():
        if not (isinstance(value, (int, np.integer)) and value >= 1):
            raise ValueError(f"{name}={value!r}: must be an integer of at least 1")
    width = min(_TILE, capacity + 1)
    tiles = -(-(capacity + 1) // width)
    return DoubtfulState(
        moments=jnp.zeros(dim, dtype),
        features=jnp.zeros((tiles, dim, width), dtype),
        payoffs=jnp.zeros((tiles, width), dtype),
        live=jnp.zeros((tiles, width), bool),
        free=jnp.zeros((), jnp.int32),
        end=jnp.zeros((), jnp.int32),
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
    if feature.shape != (dim,) or payoff.shape != () or root.shape != (dim, dim) or level.shape != ():
        raise ValueError(
            f"feature {feature.shape}, payoff {payoff.shape}, root {root.shape}, level {level.shape}: expected"
            f" [d], [], [d, d], [], d={dim}"
        )
    return _updated(state, feature, payoff, root, level, two_sided, in_use_only=False)


def doubtful_update_on_cpu(
    state: DoubtfulState, feature: jax.Array, payoff: jax.Array, root: jax.Array, level: jax.Array, *, two_sided: bool
) -> tuple[DoubtfulState, jax.Array]:
    """:func:`doubtful_update` for a CPU: the same numbers, and only the tiles up to the last payoff are looked at.

    Under ``vmap`` as many tiles as the fullest state needs. It has no derivative in reverse mode.
    """
    return _updated(state, feature, payoff, root, level, two_sided, in_use_only=True)


class _Test(NamedTuple):
    """What the doubtful payoffs are tested with, and what has happened to the slots since the pull before."""

    root: jax.Array
    level: jax.Array
    taken: jax.Array  # [] int32, the slot that has been taken; -1 for none
    left: jax.Array  # [] int32, the slot that has been left; -1 for none


class _Sums(NamedTuple):
    """What comes of some of the slots."""

    settled: jax.Array  # [d], y x of the payoffs that are doubtful no more
    kept: jax.Array  # [d], u y where it is kept
    free: jax.Array  # [] int32, as in the state
    end: jax.Array


_Slots = tuple[jax.Array, jax.Array, jax.Array]  # features [n, d, m], payoffs [n, m] and live [n, m]; of a tile no n


def _updated(
    state: DoubtfulState,
    feature: jax.Array,
    payoff: jax.Array,
    root: jax.Array,
    level: jax.Array,
    two_sided: bool,
    *,
    in_use_only: bool,
) -> tuple[DoubtfulState, jax.Array]:
    tiles, width = state.payoffs.shape
    payoff = jnp.where(jnp.isinf(payoff) & jnp.all(feature == 0), 0, payoff)  # it says nothing of theta
    settled_now = jnp.linalg.norm(dot(root, feature)) * jnp.abs(payoff) <= level
    last, full = state.end - 1, state.free == tiles * width - 1
    taken = jnp.where(settled_now | full, -1, state.free)
    left = jnp.full_like(taken, -1)
    if in_use_only:
        # Where no payoff comes the one in the last slot moves to the first free one, which closes gaps.
        moved = settled_now & (state.free < last)
        taken, left = jnp.where(moved, state.free, taken), jnp.where(moved, last, left)
        source, target = (jnp.divmod(slot, width) for slot in (jnp.maximum(last, 0), state.free))
        features = state.features.at[target[0], :, target[1]].set(
            jnp.where(moved, state.features[source[0], :, source[1]], feature)
        )
        payoffs = state.payoffs.at[target].set(jnp.where(moved, state.payoffs[source], payoff))
        in_use = (jnp.maximum(state.end, taken + 1) + width - 1) // width
        live, sums = _loop(two_sided, 0)(in_use, (features, payoffs, state.live), _Test(root, level, taken, left))
    else:
        here = jnp.arange(tiles * width, dtype=jnp.int32).reshape(tiles, width) == taken
        features = jnp.where(here[:, None], feature[:, None], state.features)
        payoffs = jnp.where(here, payoff, state.payoffs)
        live, sums = _every_tile(two_sided, (features, payoffs, state.live), _Test(root, level, taken, left))
    moments, lost = compensated(state.moments, state.lost, sums.settled + jnp.where(settled_now, payoff, 0) * feature)
    overflow = state.overflow | (~settled_now & full)
    return DoubtfulState(moments, features, payoffs, live, sums.free, sums.end, overflow, lost), _no_number(
        level, sums.kept
    )


def _tile(two_sided: bool, number: jax.Array, tile: _Slots, test: _Test) -> tuple[jax.Array, _Sums]:
    """Which slots of one tile are live after the pull, [m], and what comes of it."""
    features, payoffs, live = tile
    slots = number * payoffs.shape[0] + jnp.arange(payoffs.shape[0], dtype=jnp.int32)
    live = (live | (slots == test.taken)) & (slots != test.left)
    products = _products(small_product(test.root, features), payoffs)  # [d, m]
    settled = live & (jnp.sqrt(jnp.sum(products * products, axis=0)) <= test.level)
    doubtful = live & ~settled
    kept = is_kept(products, test.level, two_sided) & doubtful
    return doubtful, _Sums(
        settled=jnp.sum(jnp.where(settled, features * payoffs, 0), axis=1),
        kept=jnp.sum(jnp.where(kept, products, 0), axis=1),
        free=jnp.min(jnp.where(doubtful, jnp.iinfo(jnp.int32).max, slots)),
        end=jnp.max(jnp.where(doubtful, slots + 1, 0)),
    )


def _every_tile(two_sided: bool, slots: _Slots, test: _Test) -> tuple[jax.Array, _Sums]:
    """All tiles at once."""
    numbers = jnp.arange(slots[1].shape[0], dtype=jnp.int32)
    live, each = jax.vmap(functools.partial(_tile, two_sided), in_axes=(0, 0, None))(numbers, slots, test)
    return live, _Sums(jnp.sum(each.settled, axis=0), jnp.sum(each.kept, axis=0), jnp.min(each.free), jnp.max(each.end))


@functools.cache
def _loop(two_sided: bool, batches: int) -> Callable[[jax.Array, _Slots, _Test], tuple[jax.Array, _Sums]]:
    """The tiles in use, one after the other, of arrays with so many axes of batches in front.

    One loop serves a batch, to the last tile that any of it uses; ``vmap`` would give each its own end, and gather.
    """

    @jax.custom_batching.custom_vmap
    def loop(in_use: jax.Array, slots: _Slots, test: _Test) -> tuple[jax.Array, _Sums]:
        one_tile = functools.partial(_tile, two_sided)
        for _ in range(batches):
            one_tile = jax.vmap(one_tile, in_axes=(None, 0, 0))

        def step(number: jax.Array, so_far: tuple[jax.Array, _Sums]) -> tuple[jax.Array, _Sums]:
            live, sums = so_far
            tile = (jax.lax.dynamic_index_in_dim(each, number, batches, False) for each in (*slots[:2], live))
            left, more = one_tile(number, tuple(tile), test)
            return jax.lax.dynamic_update_index_in_dim(live, left, number, batches), _Sums(
                sums.settled + more.settled,
                sums.kept + more.kept,
                jnp.minimum(sums.free, more.free),
                jnp.maximum(sums.end, more.end),
            )

        most = jnp.max(in_use)
        nothing = jnp.zeros_like(test.root[..., 0])
        behind = jnp.broadcast_to(most * slots[1].shape[-1], in_use.shape)  # where all before it are taken
        return jax.lax.fori_loop(0, most, step, (slots[2], _Sums(nothing, nothing, behind, jnp.zeros_like(behind))))

    @loop.def_vmap
    def batched(size: int, has_axis: Any, *arguments: Any) -> Any:
        whole = jax.tree.map(
            lambda each, has: each if has else jnp.broadcast_to(each, (size, *each.shape)), arguments, tuple(has_axis)
        )
        out = _loop(two_sided, batches + 1)(*whole)
        return out, jax.tree.map(lambda _: True, out)

    return loop


@jax.jit
def doubtful_estimate(state: DoubtfulState, sums: jax.Array, gram_inverse: jax.Array, root: jax.Array) -> jax.Array:
    """The truncated estimate V^-1 m + W^T s [d] from :func:`doubtful_update`'s results, O(d^2).

    Args:
        state: after the update.
        sums: [d], s as returned by the update.
        gram_inverse: [d, d], V^-1.
        root: [d, d], the W given to the update.

    Raises:
        ValueError: at trace time, if the shapes do not match or an argument is no array of float32 or float64.
    """
    sums, gram_inverse, root = floats(sums=sums, gram_inverse=gram_inverse, root=root)
    dim = state.moments.shape[0]
    if sums.shape != (dim,) or gram_inverse.shape != (dim, dim) or root.shape != (dim, dim):
        raise ValueError(
            f"sums {sums.shape}, gram_inverse {gram_inverse.shape}, root {root.shape}: expected [d], [d, d], [d, d],"
            f" d={dim}"
        )
    return dot(gram_inverse, state.moments) + dot(root.T, sums)
