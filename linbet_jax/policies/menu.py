"""MENU, median of means under OFU (Shao et al. 2018, Algorithm 1)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.gram import dot
from linbet_jax.kernels.medians import median_center
from linbet_jax.policies._checks import check_params, check_plan
from linbet_jax.policies.designs import Arms, Design
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import scaled_radius


class MenuParams(NamedTuple):
    """Hyperparameters of MENU; :mod:`linbet_jax.policies.policy` says what its fields are.

    There is no delta: it enters through k alone, which decides shapes.
    """

    ridge: Any
    theta_norm: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


class MenuState(NamedTuple):
    """State of MENU: memory O(d k) and independent of T."""

    design: Any  # of the arms played; one rank-one update an epoch
    moments: jax.Array  # [d, k], column j is sum_i y_{i,j} x_i
    center: jax.Array  # [d], theta_{n,k*}
    epochs: jax.Array  # [] int32, n


@functools.lru_cache(maxsize=256)
def menu(design: Design, *, groups: int) -> Policy:
    """MENU with k = ``groups`` pulls of one arm per epoch; parameters: :class:`MenuParams`.

    Raises:
        ValueError: if ``groups`` is below 1.
    """
    if groups < 1:
        raise ValueError(f"groups={groups}: must be at least 1")

    def init(arms: Arms, params: MenuParams) -> MenuState:
        start = design.init(arms, params.ridge)
        zeros = jnp.zeros((design.dim, groups), start.inverse.dtype)
        return MenuState(start, zeros, zeros[:, 0], jnp.zeros((), jnp.int32))

    def beta(state: MenuState, params: MenuParams) -> jax.Array:
        started = theory.at(theory.menu_radius, params, state.epochs.astype(state.center.dtype), dim=design.dim)
        return scaled_radius(state.epochs, started, params)

    def select(key: jax.Array, state: MenuState, arms: jax.Array, params: MenuParams) -> jax.Array:
        return design.optimistic(state.design, arms, state.center, beta(state, params))

    def update(
        state: MenuState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: MenuParams
    ) -> MenuState:
        grown, _ = design.add(state.design, arms, index)
        moments = state.moments + arms[index][:, None] * payoffs
        estimates = dot(grown.inverse, moments).T  # line 7, all k at once
        best, _ = median_center(estimates, design.gram(grown, arms, params.ridge))  # lines 8-9
        return MenuState(grown, moments, estimates[best], state.epochs + 1)

    def region(state: MenuState, arms: Arms, params: MenuParams) -> Region:
        return Region(state.center, beta(state, params), lambda v: design.norm(state.design, arms, params.ridge, v))

    return Policy(
        name="menu",
        init=init,
        select=select,
        update=update,
        pulls_per_epoch=groups,
        region=region,
        refresh=lambda state, arms, params: state._replace(design=design.refresh(state.design, arms, params.ridge)),
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)),
        about=About(check=check_params),
    )


@register(
    "menu",
    label="MENU",
    told=("epsilon", "central_moment_bound", "theta_norm"),
    color="#0072B2",
    cost=Cost(0.9, 1e-4, 0.0),
    source="Shao, Yu, King, Lyu 2018, Algorithm 1",
    assumption="central moment",
    regret="d^((3+ε)/(2+2ε)) T^(1/(1+ε))",
    valid="in advance",
    time="d² + k d",
    memory="d² + k d",
)
def make_menu(setup: Setup) -> tuple[Policy, MenuParams]:
    """MENU with k from the horizon and delta."""
    smallest = theory.menu_smallest_horizon(setup.delta)
    if setup.horizon < smallest:
        raise ValueError(
            f"horizon={setup.horizon}: MENU at delta={setup.delta} needs T >= {smallest}"
            " (256 + 24 ln(e/delta), and one whole epoch)"
        )
    groups = theory.menu_groups(setup.horizon, setup.delta)
    params = setup.params(MenuParams)
    need = f"other epochs than those of k={groups} pulls that this MENU was made for"
    check = check_plan(functools.partial(theory.menu_groups, delta=setup.delta), groups, need)
    facts = (("k", groups), ("N", setup.horizon // groups))
    return menu(setup.design, groups=groups)._replace(about=About(check=check, facts=facts)), params
