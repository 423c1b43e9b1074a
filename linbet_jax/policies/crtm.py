"""crtm: one-pass truncation, of the family of Xue, Wang, Wan, Yi, Zhang (NeurIPS 2023).

A payoff is kept or dropped once, at its own pull, by its size times the width of its arm; one ridge estimate sums those
that are kept. Its region holds theta* for arms that were chosen adaptively, whatever sets they come from.

Deviations: the paper's algorithm is an online Newton step for generalised linear models with a threshold and a radius
of its own. For a linear model a ridge estimate will do, and both constants (G and beta) were derived here for it; none
of them is the paper's.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy


class CrtmParams(NamedTuple):
    """Hyperparameters of crtm; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    arm_norm: Any
    raw_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


@functools.lru_cache(maxsize=128)
def crtm(design: Design) -> Policy:
    """One-pass truncation; parameters: :class:`CrtmParams`."""

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: CrtmParams) -> jax.Array:
        return params.radius_scale * theory.at(theory.crtm_radius, params, dim=design.dim)

    def adapt(
        payoff: jax.Array, value: jax.Array, squared_width: jax.Array, params: CrtmParams
    ) -> tuple[jax.Array, None]:
        level = theory.at(theory.crtm_level, params, dim=design.dim)
        width = jnp.sqrt(squared_width / (1 + squared_width))  # ||x|| in the norm of V^-1, x in V
        return jnp.where(jnp.abs(payoff) * width <= level, payoff, 0), None

    return ridge_policy("crtm", design, radius=radius, adapt=adapt)


@register(
    "crtm",
    label="CRTM",
    told=("epsilon", "raw_moment_bound", "theta_norm", "arm_norm"),
    color="#B3A100",
    cost=Cost(0.2, 4e-4, 4e-4),
    source="after Xue, Wang, Wan, Yi, Zhang 2023",
    assumption="raw moment",
    regret="d T^(1/(1+ε))",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_crtm(setup: Setup) -> tuple[Policy, CrtmParams]:
    """crtm."""
    params = setup.params(CrtmParams)
    facts = [("G", theory.at(theory.crtm_level, params, dim=setup.bandit.dim))]
    beta = theory.at(theory.crtm_radius, params, dim=setup.bandit.dim)
    if math.isfinite(beta):  # else each replication has its own
        facts.append(("beta", beta))
    return crtm(setup.design).with_notes(facts=tuple(facts)), params
