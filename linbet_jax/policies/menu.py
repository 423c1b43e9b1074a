"""MENU, median of means under OFU (Shao et al. 2018, Algorithm 1)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.gram import dot
from linbet_jax.kernels.medians import median_center
from linbet_jax.kernels.selection import argmax_index, squared_widths
from linbet_jax.policies._checks import check_params
from linbet_jax.policies._designs import Design, design_add, design_init, design_norm, design_refresh
from linbet_jax.policies._ridge import at_start
from linbet_jax.policy import Policy


class MenuParams(NamedTuple):
    """Hyperparameters of MENU, all traced. There is no delta: it enters through k alone, which decides shapes.

    Attributes:
        ridge: lambda > 0.
        theta_norm: S >= ||theta*||.
        central_moment_bound: c >= E|eta|^{1 + epsilon}.
        epsilon: in (0, 1].
        radius_scale: multiplies every radius; 1 is the paper.
        horizon: T, the pulls the parameters were made for.
    """

    ridge: Any
    theta_norm: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


class MenuState(NamedTuple):
    """State of MENU: memory O(d k) and independent of T.

    Attributes:
        design: V and its inverse; one rank-one update an epoch.
        moments: [d, k], column j is sum_i y_{i,j} x_i.
        center: [d], theta_{n,k*}.
        epochs: [] int32, n.
    """

    design: Design
    moments: jax.Array
    center: jax.Array
    epochs: jax.Array


@functools.lru_cache(maxsize=256)
def menu(dim: int, *, groups: int) -> Policy:
    """MENU for features [dim] with k = ``groups`` pulls of one arm per epoch; parameters: :class:`MenuParams`.

    Raises:
        ValueError: if ``groups`` is below 1.
    """
    if groups < 1:
        raise ValueError(f"groups={groups}: must be at least 1")

    def init(params: MenuParams) -> MenuState:
        dtype = params.ridge.dtype
        return MenuState(
            design=design_init(dim, params.ridge),
            moments=jnp.zeros((dim, groups), dtype),
            center=jnp.zeros(dim, dtype),
            epochs=jnp.zeros((), jnp.int32),
        )

    def radius(state: MenuState, params: MenuParams) -> jax.Array:
        started = theory.menu_radius(
            state.epochs.astype(params.ridge.dtype),
            dim=dim,
            central_moment_bound=params.central_moment_bound,
            epsilon=params.epsilon,
            ridge=params.ridge,
            theta_norm=params.theta_norm,
        )
        return at_start(state.epochs, started, params)

    def select(key: jax.Array, state: MenuState, arms: jax.Array, params: MenuParams) -> jax.Array:
        del key
        beta = radius(state, params)
        return argmax_index(dot(arms, state.center), squared_widths(arms, state.design.inverse), beta)

    def update(state: MenuState, feature: jax.Array, payoffs: jax.Array, params: MenuParams) -> MenuState:
        design = design_add(state.design, feature)
        moments = state.moments + feature[:, None] * payoffs
        estimates = dot(design.inverse, moments).T  # line 7, all k at once
        index, _ = median_center(estimates, design.gram)  # lines 8-9
        return MenuState(design, moments, estimates[index], state.epochs + 1)

    return Policy(
        name="menu",
        init=init,
        select=select,
        update=update,
        pulls_per_epoch=groups,
        estimate=lambda state, params: state.center,
        region=lambda state, point, params: (
            design_norm(state.design, state.center - point),
            radius(state, params),
        ),
        refresh=lambda state, params: state._replace(design=design_refresh(state.design, params.ridge)),
        finite=lambda state: jnp.isfinite(jnp.sum(state.center)),
        check=check_params,
    )
