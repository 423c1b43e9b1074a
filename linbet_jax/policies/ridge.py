"""Optimism around one ridge estimate: the builder that most policies are made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.balls import Ball
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Arms, Design
from linbet_jax.policies.policy import About, Policy, Region, SeesScale, one_number

Radius = Callable[[jax.Array, jax.Array, Any], jax.Array]
Observe = Callable[[jax.Array, jax.Array, Any], jax.Array]
Adapt = Callable[[jax.Array, jax.Array, jax.Array, Any], tuple[jax.Array, jax.Array | None]]


class RidgeState(NamedTuple):
    """State of a policy around one ridge estimate."""

    design: Any  # of the arms played
    image: jax.Array  # the design's image of the estimate V^-1 m
    moments: jax.Array  # [d], m = sum w x y over the payoffs y observed, with their weights w
    lost: jax.Array  # [d], what rounding has kept out of the moments so far
    updates: jax.Array  # [] int32


def first_payoff(payoffs: jax.Array, number: jax.Array, params: Any) -> jax.Array:
    """The payoff of an epoch of one pull, as it is."""
    return payoffs[0]


def ridge_policy(
    name: str,
    design: Design,
    *,
    radius: Radius | None,
    observe: Observe = first_payoff,
    adapt: Adapt | SeesScale | None = None,
    pulls_per_epoch: int = 1,
    about: About | None = None,
) -> Policy:
    """A policy that plays the arm of the largest <x, theta> + beta ||x|| in V^-1 around one ridge estimate theta.

    The parameters must have a field ``ridge``, lambda. Policies compile once where the functions given here are the
    same objects: define them at the top level of a module, or cache the factory that defines them.

    Args:
        name: of the policy.
        design: from :func:`linbet_jax.policies.design_of`, for the bandit that will be played.
        radius: ``(updates [] int32, log_det_ratio [], params) -> beta []`` after that many updates (0 before the
            first), where log_det_ratio is ln(det V / det(lambda I)). None plays greedily and claims nothing about
            theta*.
        observe: ``(payoffs [pulls_per_epoch], update number [] int32 from 1, params) -> []``, the payoff that enters
            the estimate; the first of the epoch by default.
        adapt: ``(observed [], value [], squared_width [], params) -> (observed [], weight [] or None)``, what is made
            of that payoff in view of the estimate before it: ``value`` is <x, theta> and ``squared_width`` x^T V^-1 x
            of the arm x played. With a weight w, V grows by w x x^T and m by w x y, and the design must be one
            `with_weights`; with None w is 1. By default the payoff enters as it is. A :class:`SeesScale` around such a
            function shows it the scales [pulls_per_epoch] of the payoffs too, before ``params``.
        pulls_per_epoch: pulls between updates.
        about: what the host knows of it; by default its parameters are checked field by field.
    """

    def beta(state: RidgeState, params: Any) -> jax.Array:
        if radius is None:
            return jnp.zeros_like(state.design.log_det)
        return one_number("radius", radius(state.updates, state.design.log_det, params))

    def init(arms: Arms, params: Any) -> RidgeState:
        start = design.init(arms, params.ridge)
        zero = jnp.zeros(design.dim, start.inverse.dtype)
        return RidgeState(start, design.image(arms, zero), zero, zero, jnp.zeros((), jnp.int32))

    def select(key: jax.Array, state: RidgeState, arms: jax.Array, params: Any) -> jax.Array:
        if radius is None and isinstance(arms, Ball):
            return arms.best(state.image)  # O(d)
        return design.optimistic(state.design, arms, state.image, beta(state, params), design.values)

    function: Any = adapt.function if isinstance(adapt, SeesScale) else adapt

    def update(state: RidgeState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, *rest: Any) -> RidgeState:
        updates = state.updates + 1  # rest: the parameters, before them the scales where they are seen
        observed, weight = one_number("observe", observe(payoffs, updates, rest[-1])), None
        value = design.value(state.image, arms, index)
        if adapt is not None:
            observed, weight = function(observed, value, design.squared_width(state.design, arms, index), *rest)
            observed = one_number("adapt", observed)
        grown, step = design.add(state.design, arms, index, weight)
        image = state.image + step * (observed - value)
        term = arms[index] * (observed if weight is None else weight * observed)
        return RidgeState(grown, image, *compensated(state.moments, state.lost, term), updates)

    def refresh(state: RidgeState, arms: Arms, params: Any) -> RidgeState:
        fresh = design.refresh(state.design, arms, params.ridge)
        return state._replace(design=fresh, image=design.image(arms, dot(fresh.inverse, state.moments)))

    def region(state: RidgeState, arms: Arms, params: Any) -> Region:
        center = design.solve(state.design, arms, params.ridge, state.moments)
        if radius is None:
            return Region(center)
        return Region(center, beta(state, params), lambda v: design.norm(state.design, arms, params.ridge, v))

    return Policy(
        name=name,
        init=init,
        select=select,
        update=SeesScale(update) if isinstance(adapt, SeesScale) else update,
        pulls_per_epoch=pulls_per_epoch,
        region=region,
        refresh=refresh,
        finite=lambda state: jnp.isfinite(jnp.sum(state.image)),
        about=About(check=check_params) if about is None else about,
    )


def scaled_radius(updates: jax.Array, started: jax.Array, params: Any) -> jax.Array:
    """radius_scale times the radius: sqrt(lambda) S before the first update, ``started`` afterwards."""
    start = theory.initial_radius(ridge=params.ridge, theta_norm=params.theta_norm)
    beta = jnp.where(updates == 0, start, started)
    return params.radius_scale * beta
