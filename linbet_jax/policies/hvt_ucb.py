"""hvt_ucb: one-pass Huber regression, of the family of Wang, Zhang, Zhao, Zhou (ICML 2025).

Online ridge regression whose innovations y - <x, theta> are clipped, so that one payoff never moves the estimate by
more than t0 in the norm of V. It needs neither the history nor bounded means, and its region holds theta* for arms that
were chosen adaptively, whatever sets they come from.

Deviations: the update is a ridge step without projection, and every constant (t0, C, beta, the cap) was derived here
for this form, with Freedman's inequality for all pulls at once; none of them is the paper's.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.policies._checks import check_params, flag, number
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import About, Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy


class HvtParams(NamedTuple):
    """Hyperparameters of hvt_ucb, all traced.

    Attributes:
        ridge: lambda > 0, the one in use.
        delta: failure probability in (0, 1).
        theta_norm: S >= ||theta*||.
        arm_norm: D >= ||x||.
        central_moment_bound: c >= E|eta|^{1 + epsilon}, positive.
        epsilon: in (0, 1].
        clip_scale: s, multiplies t0; 1 is the plain form.
        radius_scale: multiplies the radius of the index and the region; t0 and the cap never see it.
        horizon: T, the pulls the parameters were made for.
    """

    ridge: Any
    delta: Any
    theta_norm: Any
    arm_norm: Any
    central_moment_bound: Any
    epsilon: Any
    clip_scale: Any
    radius_scale: Any
    horizon: Any


def _move(dim: int, params: HvtParams) -> Any:
    """t0, the farthest one payoff moves the estimate."""
    return theory.hvt_move(dim=dim, **theory.arguments(theory.hvt_move, params._asdict()))


def _radius(move: Any, params: HvtParams) -> Any:
    """beta before radius_scale."""
    return theory.hvt_radius(move=move, **theory.arguments(theory.hvt_radius, params._asdict()))


def _check(params: HvtParams) -> None:
    check_params(params)
    if float(params.central_moment_bound) == 0:
        raise ValueError(
            f"central_moment_bound={params.central_moment_bound!r}: must be positive for hvt_ucb, which otherwise clips"
            " every payoff to the estimate"
        )


@functools.lru_cache(maxsize=128)
def hvt_ucb(design: Design) -> Policy:
    """One-pass Huber regression; parameters: :class:`HvtParams`."""

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: HvtParams) -> jax.Array:
        return params.radius_scale * _radius(_move(design.dim, params), params)

    def adapt(
        payoff: jax.Array, value: jax.Array, squared_width: jax.Array, params: HvtParams
    ) -> tuple[jax.Array, jax.Array]:
        move = _move(design.dim, params)
        cap = theory.hvt_cap(move=move, radius=_radius(move, params))
        wide = squared_width > cap
        weight = jnp.where(wide, cap / jnp.where(wide, squared_width, 1), 1)  # min(1, cap / ||x||^2)
        squared = weight * squared_width  # w^2
        # h = t0 sqrt((1 + w^2) / w^2) / sqrt(weight), large and finite for x = 0
        level = move * jnp.sqrt((1 + squared) / jnp.maximum(weight * squared, jnp.finfo(payoff.dtype).tiny))
        return value + jnp.clip(payoff - value, -level, level), weight

    return ridge_policy("hvt_ucb", design.with_weights(), radius=radius, adapt=adapt, about=About(check=_check))


@register(
    "hvt_ucb",
    label="Hvt-UCB",
    color="#7A3E9D",
    cost=Cost(0.2, 5e-4, 4e-4),
    source="after Wang, Zhang, Zhao, Zhou 2025",
    assumption="central moment",
    moment="central_moment_bound",
    rate=functools.partial(theory.regret_exponent, "hvt_ucb"),
    regret="d T^(1/(1+ε))",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_hvt_ucb(
    setup: Setup,
    *,
    no_cap: bool = True,
    clip_scale: float = 1.0,
    epsilon: float | None = None,
    central_moment_bound: float | None = None,
    theta_norm: float | None = None,
    arm_norm: float | None = None,
) -> tuple[Policy, HvtParams]:
    """hvt_ucb with the smallest ridge at which no arm is wider than the cap, where there is one.

    Raises:
        ValueError: for c = 0, and for a bandit that bounds no ||x|| where `arm_norm` is not given.
    """
    params = HvtParams(
        ridge=setup.ridge,
        delta=setup.delta,
        theta_norm=setup.theta_norm,
        arm_norm=setup.known("arm_norm", arm_norm),
        central_moment_bound=setup.known("central_moment_bound", central_moment_bound),
        epsilon=setup.known("epsilon", epsilon),
        clip_scale=number("clip_scale", clip_scale),
        radius_scale=setup.radius_scale,
        horizon=float(setup.horizon),
    )
    _check(params)
    dim = setup.bandit.dim
    notes: tuple[str, ...] = ()
    if flag("no_cap", no_cap):
        asked = theory.arguments(theory.hvt_uncapped_ridge, params._asdict())
        ridge = theory.hvt_uncapped_ridge(dim=dim, **asked)
        if ridge is not None:
            params = params._replace(ridge=ridge)
            if ridge > setup.horizon * params.arm_norm**2:
                notes = (f"hvt_ucb's ridge, {ridge:.3g}, weighs more than all {setup.horizon} pulls",)
        elif params.arm_norm > 0:
            notes = (f"hvt_ucb caps its weights at ridge={setup.ridge:g}: no ridge makes all of them 1",)
    move = _move(dim, params)
    beta = _radius(move, params)
    facts: tuple[tuple[str, float], ...] = (("lambda", params.ridge), ("t0", move))
    if math.isfinite(beta):  # else each replication has its own
        facts += (("beta", beta), ("cap", theory.hvt_cap(move=move, radius=beta)))
    return hvt_ucb(setup.design).with_notes(facts=facts, notes=notes), params
