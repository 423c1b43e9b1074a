"""Optimistic policies around one ridge estimate: OFUL, CRT, MoM and greedy differ in two functions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.kernels.selection import argmax_index, squared_widths
from linbet_jax.policies._checks import check_params
from linbet_jax.policies._designs import (
    ArmDesign,
    Design,
    arm_design_add,
    arm_design_init,
    arm_design_norm,
    arm_design_refresh,
    design_add,
    design_init,
    design_norm,
    design_refresh,
)
from linbet_jax.policy import FixedSet, Policy

Radius = Callable[[jax.Array, jax.Array, Any], jax.Array]
Observe = Callable[[jax.Array, jax.Array, Any], jax.Array]


class RidgeState(NamedTuple):
    """For any decision sets: design, centre V^-1 m [d], moments m = sum x y [d], and updates so far [] int32.

    ``lost`` [d] is what rounding has kept out of the moments so far.
    """

    design: Design
    center: jax.Array
    moments: jax.Array
    lost: jax.Array
    updates: jax.Array


class ArmRidgeState(NamedTuple):
    """For a fixed set: design, values A V^-1 m [K], moments m [d] with ``lost``, and updates so far [] int32."""

    design: ArmDesign
    values: jax.Array
    moments: jax.Array
    lost: jax.Array
    updates: jax.Array


def ridge_policy(
    name: str,
    dim: int,
    *,
    radius: Radius,
    observe: Observe,
    pulls_per_epoch: int = 1,
) -> Policy:
    """An optimistic policy whose centre is one ridge estimate.

    Args:
        name: of the policy.
        dim: d.
        radius: ``(updates, log_det_ratio, params) -> beta`` after that many updates (0 before the first).
        observe: ``(payoffs [pulls_per_epoch], update number 1.., params) -> []``, the payoff that enters the estimate.
        pulls_per_epoch: pulls between updates.

    Returns:
        A policy without facts and notes.
    """

    def init(params: Any) -> RidgeState:
        zero = jnp.zeros(dim, params.ridge.dtype)
        return RidgeState(design_init(dim, params.ridge), zero, zero, zero, jnp.zeros((), jnp.int32))

    def select(key: jax.Array, state: RidgeState, arms: jax.Array, params: Any) -> jax.Array:
        del key
        beta = radius(state.updates, state.design.log_det, params)
        return argmax_index(dot(arms, state.center), squared_widths(arms, state.design.inverse), beta)

    def update(state: RidgeState, feature: jax.Array, payoffs: jax.Array, params: Any) -> RidgeState:
        updates = state.updates + 1
        observed = observe(payoffs, updates, params)
        design = design_add(state.design, feature)
        error = observed - dot(feature, state.center)
        center = state.center + dot(design.inverse, feature) * error
        return RidgeState(design, center, *compensated(state.moments, state.lost, feature * observed), updates)

    def refresh(state: RidgeState, params: Any) -> RidgeState:
        design = design_refresh(state.design, params.ridge)
        return state._replace(design=design, center=dot(design.inverse, state.moments))

    def region(state: RidgeState, point: jax.Array, params: Any) -> tuple[jax.Array, jax.Array]:
        beta = radius(state.updates, state.design.log_det, params)
        return design_norm(state.design, state.center - point), beta

    def fixed_init(arms: jax.Array, params: Any) -> ArmRidgeState:
        design = arm_design_init(arms, params.ridge)
        values, zero = jnp.zeros(arms.shape[0], arms.dtype), jnp.zeros(dim, arms.dtype)
        return ArmRidgeState(design, values, zero, zero, jnp.zeros((), jnp.int32))

    def fixed_select(key: jax.Array, state: ArmRidgeState, arms: jax.Array, params: Any) -> jax.Array:
        del key, arms
        beta = radius(state.updates, state.design.log_det, params)
        return argmax_index(state.values, state.design.squared_widths, beta)

    def fixed_update(
        state: ArmRidgeState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: Any
    ) -> ArmRidgeState:
        updates = state.updates + 1
        observed = observe(payoffs, updates, params)
        design, gains = arm_design_add(state.design, arms, index)
        values = state.values + gains * (observed - state.values[index])
        return ArmRidgeState(design, values, *compensated(state.moments, state.lost, arms[index] * observed), updates)

    def fixed_refresh(state: ArmRidgeState, arms: jax.Array, params: Any) -> ArmRidgeState:
        design = arm_design_refresh(state.design, arms, params.ridge)
        return state._replace(design=design, values=dot(arms, dot(design.inverse, state.moments)))

    def fixed_estimate(state: ArmRidgeState, arms: jax.Array, params: Any) -> jax.Array:
        return dot(arm_design_refresh(state.design, arms, params.ridge).inverse, state.moments)

    def fixed_region(
        state: ArmRidgeState, arms: jax.Array, point: jax.Array, params: Any
    ) -> tuple[jax.Array, jax.Array]:
        error = dot(state.design.inverse, state.moments) - point
        beta = radius(state.updates, state.design.log_det, params)
        return arm_design_norm(state.design, arms, params.ridge, error), beta

    return Policy(
        name=name,
        init=init,
        select=select,
        update=update,
        pulls_per_epoch=pulls_per_epoch,
        estimate=lambda state, params: state.center,
        region=region,
        refresh=refresh,
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)),
        check=check_params,
        fixed=FixedSet(
            init=fixed_init,
            select=fixed_select,
            update=fixed_update,
            estimate=fixed_estimate,
            region=fixed_region,
            refresh=fixed_refresh,
            finite=lambda state: jnp.isfinite(jnp.sum(state.values)),
        ),
    )


def at_start(updates: jax.Array, started: jax.Array, params: Any) -> jax.Array:
    """radius_scale times the radius: sqrt(lambda) S before the first update, ``started`` afterwards."""
    beta = jnp.where(updates == 0, jnp.sqrt(params.ridge) * params.theta_norm, started)
    return params.radius_scale * beta
