"""The policy protocol: a policy is a NamedTuple of pure functions over an array-only state.

Hyperparameters (``params``: any pytree of numbers) are traced and passed last, so a sweep over delta, lambda, moment
bounds or radius scale compiles once. Numbers that decide a shape are host integers inside the functions. A policy never
sees theta*, the means or the noise law.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

State = Any
Params = Any


class FixedSet(NamedTuple):
    """Optional faster twin of a policy for a decision set that never changes.

    It may keep per-arm quantities (values and squared widths) and update them by rank one, O(K d) a pull, where the
    general form needs O(K d^2). It must make the same choices up to rounding.

    Attributes:
        init: ``(arms [K, d], params) -> state``.
        select: ``(key, state, arms, params) -> [] int32``.
        update: ``(state, arms, index, payoffs [pulls_per_epoch], params) -> state``.
        in_turn: empty, or two functions like ``update`` that the simulator uses in turn instead, the first one first
            after ``init``, ``refresh`` and a handover: together they may do in one pass what ``update`` does in two.
            After each of them the state must serve every function here.
        estimate: ``(state, arms, params) -> [d]``.
        region: ``(state, arms, point [d], params) -> (distance [], radius [])``, as in :class:`Policy`.
        refresh: ``(state, arms, params) -> state`` recomputes what rank-one updates drift in; None when nothing does.
        overflowed: ``(state) -> [] bool``, as in :class:`Policy`.
        finite: ``(state) -> [] bool``, as in :class:`Policy`.
    """

    init: Callable[[jax.Array, Params], State]
    select: Callable[[jax.Array, State, jax.Array, Params], jax.Array]
    update: Callable[[State, jax.Array, jax.Array, jax.Array, Params], State]
    estimate: Callable[[State, jax.Array, Params], jax.Array]
    region: Callable[[State, jax.Array, jax.Array, Params], tuple[jax.Array, jax.Array]] | None = None
    refresh: Callable[[State, jax.Array, Params], State] | None = None
    overflowed: Callable[[State], jax.Array] | None = None
    finite: Callable[[State], jax.Array] | None = None
    in_turn: tuple[Callable[[State, jax.Array, jax.Array, jax.Array, Params], State], ...] = ()


class Opening(NamedTuple):
    """Optional first phase of a policy whose state is larger while little is known.

    Attributes:
        pulls: the length of the phase; the simulator rounds it up to whole stretches.
        policy: plays it: the same policy with a larger state.
        handover: ``(state) -> state``, from its state to that of the policy which goes on; it serves the general form
            and the fixed-set form alike.
    """

    pulls: int
    policy: Policy
    handover: Callable[[State], State]


class Policy(NamedTuple):
    """A policy for ONE replication; the simulator batches it.

    Only ``name``, ``init``, ``select`` and ``update`` are needed: a user's own triple of functions runs unchanged.

    Attributes:
        name: shown in tables and figures.
        init: ``(params) -> state``, a pytree of arrays in the dtype of the parameters.
        select: ``(key, state, arms [K, d], params) -> [] int32``, the arm to play; ``key`` is for randomised policies
            and is the same for every policy at the same pull.
        update: ``(state, feature [d], payoffs [pulls_per_epoch], params) -> state``. Shapes and dtypes stay fixed.
        pulls_per_epoch: how often the chosen arm is pulled before ``update`` (1; k for MENU; r for MoM). Pulls left
            over after the last whole epoch play the arm that ``select`` chooses then, and update nothing.
        estimate: ``(state, params) -> [d]``, the centre of the confidence region; None when there is none.
        region: ``(state, point [d], params) -> (distance [], radius [])``: how far a point lies from the centre of the
            confidence region, in the region's own norm, and the region's radius. ``simulate(..., coverage=True)`` asks
            it about theta*; nothing that the policy does depends on the answer. None when there is no region.
        refresh: ``(state, params) -> state``, called every few hundred pulls to recompute what rank-one updates drift
            in; None when nothing does. Whoever steps a policy by hand should call it as often.
        overflowed: ``(state) -> [] bool``: a fixed capacity was exceeded and the replication must be repeated with
            ``enlarge``; None when nothing can overflow.
        enlarge: ``() -> Policy``, the same policy with more capacity.
        finite: ``(state) -> [] bool``, a cheap test that the state is sound; None tests every array of the state.
        fixed: a faster twin for decision sets that never change; None uses the functions above.
        opening: a first phase with a larger state; None starts with the functions above at once.
        check: ``(params) -> None``, called on the host with the parameters as given; raises ValueError when the
            functions cannot run with them (a number out of range, or one that a fixed shape was made for).
        max_pulls: the longest horizon that the state can hold; None when any.
        facts: pairs of a name and a number worth printing (k, N, m, r ...).
        notes: sentences that a result must carry (departures taken because of the horizon, say).
    """

    name: str
    init: Callable[[Params], State]
    select: Callable[[jax.Array, State, jax.Array, Params], jax.Array]
    update: Callable[[State, jax.Array, jax.Array, Params], State]
    pulls_per_epoch: int = 1
    estimate: Callable[[State, Params], jax.Array] | None = None
    region: Callable[[State, jax.Array, Params], tuple[jax.Array, jax.Array]] | None = None
    refresh: Callable[[State, Params], State] | None = None
    overflowed: Callable[[State], jax.Array] | None = None
    enlarge: Callable[[], Policy] | None = None
    finite: Callable[[State], jax.Array] | None = None
    fixed: FixedSet | None = None
    opening: Opening | None = None
    check: Callable[[Params], None] | None = None
    max_pulls: int | None = None
    facts: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()
