"""heavy_oful: adaptive Huber regression over the whole history (Huang, Zhong, Wang, Yang, NeurIPS 2023).

The estimate after every pull is the minimiser of

    (lambda/2) ||theta||^2 + sum_s w_s huber_{h_s}(y_s - <x_s, theta>),

with weights w_s and levels h_s that are fixed at their own pulls. It is kept exact by Newton's method: between two
pulls a payoff hardly ever changes sides of its level, so nearly every update is one of rank one, and a bound on how far
theta may move before any payoff does says when the history has to be read again.

In the heteroscedastic mode every payoff and its arm are divided by the scale s that the noise reveals, as `hvt_ucb`
says; the proof is again the plain one, of pairs whose noise has one bound: weights are min(1/s^2, cap/||x||^2).

Deviations: every constant (t0, C, beta, the cap) was derived here, with Freedman's inequality for all pulls at once;
none of them is the paper's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.gram import dot, rank_one_inverse, sweep_inverse
from linbet_jax.policies._checks import flag
from linbet_jax.policies.designs import Arms, Design
from linbet_jax.policies.hvt_ucb import check_positive, constants_of, facts_of, weight_of
from linbet_jax.policies.policy import About, Buffers, Policy, Region, SeesScale
from linbet_jax.policies.registry import Cost, Setup, register

_CHUNK = 256  # rows of the history that are read at a time
_READINGS = 100  # of the history for one payoff; a replication that needs more is reported as not sound
_TOLERANCE = {"float32": 1e-4, "float64": 1e-11}  # of the gradient in the norm of V^-1, in units of t0
_SOUND = {"float32": 1e-2, "float64": 1e-8}  # where rounding or the number of readings ends the search
_MARGIN = 1 - 1e-6  # of the distance that theta may move before the history is read again


class HeavyOfulParams(NamedTuple):
    """Hyperparameters of heavy_oful; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    arm_norm: Any
    central_moment_bound: Any  # positive; heteroscedastic: of the noise over its scale
    epsilon: Any
    radius_scale: Any  # multiplies the radius of the index and the region; t0 and the cap never see it
    horizon: Any


class HeavyOfulState(NamedTuple):
    """State of heavy_oful: memory O(T d)."""

    design: Any  # of the arms played, with their weights w: V
    history: jax.Array  # [T, d + 2], rows sqrt(w) x, sqrt(w) y and sqrt(w) h; rows of zeros are free
    center: jax.Array  # [d], theta, the minimiser
    inverse: jax.Array  # [d, d], of lambda I + sum w x x^T over the payoffs within their levels
    anchor: jax.Array  # [d], the theta at which the history was read last
    slack: jax.Array  # [], how far from the anchor no payoff changes sides of its level
    sound: jax.Array  # [] bool, whether every minimiser was found
    pulls: jax.Array  # [] int32, t. The same in every replication


class _Reading(NamedTuple):
    """What the history says about one theta."""

    gradient: jax.Array  # [d], of the loss
    inverse: jax.Array  # [d, d], of its Hessian
    slack: jax.Array  # [], see HeavyOfulState


class _Search(NamedTuple):
    """The best theta so far, and what is tried next."""

    center: jax.Array
    reading: _Reading
    size: jax.Array  # [], of the gradient in the norm of V^-1
    cautious: jax.Array  # [] bool: Newton's step from here was no good
    stalled: jax.Array  # [] bool: nor was the other one, which rounding alone can do
    readings: jax.Array  # [] int32


_constants = functools.partial(constants_of, "heavy_oful")
_check = functools.partial(check_positive, "heavy_oful", "nothing")


def _read(history: jax.Array, pulls: jax.Array, center: jax.Array, *, ridge: Any) -> _Reading:
    """One pass over the history, O(t d^2)."""
    dim, dtype = center.shape[0], center.dtype

    def add(part: jax.Array, sums: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        gram, moments, slack = sums
        some = jax.lax.dynamic_slice_in_dim(history, part * _CHUNK, _CHUNK)
        features, payoffs, levels = some[:, :dim], some[:, dim], some[:, dim + 1]
        residuals = payoffs - dot(features, center)
        within = jnp.abs(residuals) <= levels
        gram = gram + dot((features * within[:, None]).T, features)
        moments = moments + dot(jnp.clip(residuals, -levels, levels), features)
        norms = jnp.sqrt(jnp.sum(features * features, axis=1))
        room = jnp.abs(jnp.abs(residuals) - levels) / jnp.where(norms > 0, norms, 1)
        return gram, moments, jnp.minimum(slack, jnp.min(jnp.where(norms > 0, room, jnp.inf)))

    start = ridge * jnp.eye(dim, dtype=dtype), jnp.zeros(dim, dtype), jnp.full((), jnp.inf, dtype)
    parts = (pulls + _CHUNK - 1) // _CHUNK
    gram, moments, slack = jax.lax.fori_loop(jnp.zeros_like(parts), parts, add, start)
    return _Reading(ridge * center - moments, sweep_inverse(gram)[0], slack)


def _searched(
    start: _Search, read: Callable[[jax.Array], _Reading], gram_inverse: jax.Array, tolerance: jax.Array
) -> _Search:
    """The search for the minimiser, until the gradient is within the tolerance in the norm of V^-1."""

    def unsettled(search: _Search) -> jax.Array:
        return (search.size > tolerance) & ~search.stalled & (search.readings < _READINGS)

    def improve(search: _Search) -> _Search:
        first = search.readings == 0  # nothing is known of the gradient yet
        gradient = search.reading.gradient
        step = jnp.where(search.cautious, dot(gram_inverse, gradient), dot(search.reading.inverse, gradient))
        trial = search.center - jnp.where(first, 0, step)
        reading = read(trial)
        # In the norm of V^-1 the gradient is about how far theta is from the minimiser in the norm of V.
        size = jnp.sqrt(jnp.maximum(dot(reading.gradient, dot(gram_inverse, reading.gradient)), 0))
        taken = first | (size <= jnp.where(search.cautious, search.size, 0.5 * search.size))

        def keep(new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(taken, new, old)

        return _Search(
            center=keep(trial, search.center),
            reading=jax.tree.map(keep, reading, search.reading),
            size=keep(size, search.size),
            cautious=~taken,
            stalled=search.cautious & ~taken,
            readings=search.readings + 1,
        )

    return jax.lax.while_loop(unsettled, improve, start)


@functools.lru_cache(maxsize=128)
def heavy_oful(design: Design, *, history: int, heteroscedastic: bool = False) -> Policy:
    """Adaptive Huber regression over the whole history; parameters: :class:`HeavyOfulParams`.

    Guarantee (literal radius, derived here): with probability 1 - delta, ||theta_t - theta*|| in V_t is at most beta
    for all t <= T, for arms chosen adaptively from any sets and for asymmetric noise.

    A pull costs O(K d + d^2), and O(t d^2) for each reading of the history, which most pulls do without. The search
    takes Newton's step where that halves the gradient in the norm of V^-1 and theta - V^-1 gradient else, which shrinks
    it for sure, since V is never less than the Hessian.

    Args:
        design: of the decision sets.
        history: pulls that the history buffer holds, the horizon.
        heteroscedastic: whether the scale of each payoff is revealed.
    """
    design = design.with_weights()
    dim, rows = design.dim, _CHUNK * math.ceil(history / _CHUNK)

    def init(arms: Arms, params: HeavyOfulParams) -> HeavyOfulState:
        start = design.init(arms, params.ridge)
        dtype = start.inverse.dtype
        zero = jnp.zeros(dim, dtype)
        return HeavyOfulState(
            design=start,
            history=jnp.zeros((rows, dim + 2), dtype),
            center=zero,
            inverse=jnp.eye(dim, dtype=dtype) / params.ridge,
            anchor=zero,
            slack=jnp.full((), jnp.inf, dtype),
            sound=jnp.ones((), bool),
            pulls=jnp.zeros((), jnp.int32),
        )

    def select(key: jax.Array, state: HeavyOfulState, arms: jax.Array, params: HeavyOfulParams) -> jax.Array:
        radius = params.radius_scale * _constants(dim, params)[1]
        return design.optimistic(state.design, arms, state.center, radius, dot)

    def update(
        state: HeavyOfulState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, *rest: Any
    ) -> HeavyOfulState:
        params = rest[-1]  # before them the scales where they are seen
        move, radius = _constants(dim, params)
        cap = theory.hvt_cap(move=move, radius=radius)
        square = rest[0][0] ** 2 if heteroscedastic else 1
        squared_width = design.squared_width(state.design, arms, index) / square
        weight = weight_of(squared_width, cap)
        squared = jnp.maximum(weight * squared_width, jnp.finfo(payoffs.dtype).tiny)  # u^2
        level = move * jnp.sqrt((1 + squared) / squared)  # sqrt(weight) h
        weight = weight / square
        feature, payoff = jnp.sqrt(weight) * arms[index], jnp.sqrt(weight) * payoffs[0]
        row = jnp.concatenate([feature, jnp.stack([payoff, level])])
        grown, _ = design.add(state.design, arms, index, weight)
        history = jax.lax.dynamic_update_index_in_dim(state.history, row, state.pulls, 0)

        # Newton's step from the last minimiser, if every payoff stays on its side.
        residual = payoff - dot(feature, state.center)
        within = jnp.abs(residual) <= level
        with_it, width = rank_one_inverse(state.inverse, feature)
        inverse = jnp.where(within, with_it, state.inverse)
        step = jnp.where(within, residual / (1 + width), jnp.clip(residual, -level, level))
        center = state.center + dot(state.inverse, feature) * jnp.where(jnp.isnan(residual), residual, step)
        there = jnp.abs(payoff - dot(feature, state.anchor))
        norm = jnp.sqrt(dot(feature, feature))
        room = jnp.where((there <= level) == within, jnp.abs(there - level) / jnp.where(norm > 0, norm, 1), -1)
        slack = jnp.minimum(state.slack, jnp.where(norm > 0, room, jnp.inf))
        moved = center - state.anchor
        settled = ~(dot(moved, moved) > (_MARGIN * jnp.maximum(slack, 0)) ** 2) & (slack >= 0)

        # A search that is settled ends before it begins; another begins with a reading.
        name, reading = str(payoffs.dtype), _Reading(jnp.zeros_like(center), inverse, slack)
        size = jnp.where(settled, jnp.zeros((), center.dtype), jnp.inf)
        no, none = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
        result = _searched(
            _Search(center, reading, size, no, no, none),
            functools.partial(_read, history, state.pulls + 1, ridge=params.ridge),
            grown.inverse,
            _TOLERANCE[name] * move,
        )
        return HeavyOfulState(
            design=grown,
            history=history,
            center=result.center,
            inverse=result.reading.inverse,
            anchor=jnp.where(settled, state.anchor, result.center),
            slack=result.reading.slack,
            sound=state.sound & (result.size <= _SOUND[name] * move),
            pulls=state.pulls + 1,
        )

    def refresh(state: HeavyOfulState, arms: Arms, params: HeavyOfulParams) -> HeavyOfulState:
        """Every inverse anew, and one step of Newton's that takes away what updates of rank one have drifted."""
        reading = _read(state.history, state.pulls, state.center, ridge=params.ridge)
        return state._replace(
            design=design.refresh(state.design, arms, params.ridge),
            inverse=reading.inverse,
            center=state.center - dot(reading.inverse, reading.gradient),
        )

    def region(state: HeavyOfulState, arms: Arms, params: HeavyOfulParams) -> Region:
        radius = params.radius_scale * _constants(dim, params)[1]
        return Region(state.center, radius, functools.partial(design.norm, state.design, arms, params.ridge))

    return Policy(
        name="heavy_oful",
        init=init,
        select=select,
        update=SeesScale(update) if heteroscedastic else update,
        region=region,
        refresh=refresh,
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)) & state.sound,
        buffers=Buffers(max_pulls=history),
        about=About(check=_check),
    )


@register(
    "heavy_oful",
    label="Heavy-OFUL",
    told=("epsilon", "central_moment_bound", "theta_norm", "arm_norm"),
    color="#332288",
    cost=Cost(0.8, 7e-4, 1e-2),
    source="after Huang, Zhong, Wang, Yang 2023",
    assumption="central moment",
    regret="d T^(1/(1+ε))",
    valid="adaptive",
    time="K d + d² + t d² rarely",
    memory="T d",
)
def make_heavy_oful(setup: Setup, *, heteroscedastic: bool = False) -> tuple[Policy, HeavyOfulParams]:
    """heavy_oful with a history of the horizon's length."""
    revealed = flag("heteroscedastic", heteroscedastic)
    params = setup.params(HeavyOfulParams, central_moment_bound=setup.central_moment("heavy_oful", revealed))
    _check(params)
    facts = facts_of(*_constants(setup.bandit.dim, params))
    policy = heavy_oful(setup.design, history=setup.horizon, heteroscedastic=revealed)
    return policy.with_notes(facts=facts), params
