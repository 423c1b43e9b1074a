"""robust_ucb: truncated means of K arms that tell nothing of one another (Bubeck, Cesa-Bianchi, Lugosi 2013).

A baseline of the linear problem: d = K arms e_1, ..., e_K, where linear structure is worth nothing.

Deviations: the paper's index has ln t^2; L = ln(2 K T/delta) is fixed here, so that a payoff is kept or dropped once
and all widths hold together with probability 1 - delta. The width's factor 4 is the paper's.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from linbet_jax import theory
from linbet_jax.kernels.gram import compensated, dot
from linbet_jax.kernels.selection import argmax_index
from linbet_jax.policies._checks import check_params
from linbet_jax.policies.designs import Arms
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register

ORTHONORMAL = 1e-9  # how far A A^T may be from the identity, entry by entry


class RobustUcbParams(NamedTuple):
    """Hyperparameters of robust_ucb; :mod:`linbet_jax.policies.policy` says what its fields are."""

    delta: Any
    raw_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any  # it enters levels and widths


class RobustUcbState(NamedTuple):
    """State of robust_ucb: memory O(K)."""

    counts: jax.Array  # [K] int32, pulls of each arm
    sums: jax.Array  # [K], the payoffs kept
    lost: jax.Array  # [K], what rounding has kept out of the sums so far


def _means(state: RobustUcbState) -> jax.Array:
    return state.sums / jnp.maximum(state.counts, 1)


def _init(arms: Arms, params: RobustUcbParams) -> RobustUcbState:
    if arms is None:
        raise ValueError("robust_ucb keeps one mean per arm; make it for the bandit that it plays, with one fixed set")
    zeros = jnp.zeros(arms.shape[0], arms.dtype)
    return RobustUcbState(jnp.zeros(arms.shape[0], jnp.int32), zeros, zeros)


def _select(key: jax.Array, state: RobustUcbState, arms: jax.Array, params: RobustUcbParams) -> jax.Array:
    new = state.counts == 0
    pulls = jnp.maximum(state.counts, 1).astype(arms.dtype)
    widths = theory.at(theory.robust_ucb_width, params, pulls, num_arms=arms.shape[0])
    best = argmax_index(_means(state), widths * widths, params.radius_scale)
    return jnp.where(jnp.any(new), jnp.argmax(new).astype(jnp.int32), best)  # arms never pulled come first


def _update(
    state: RobustUcbState, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: RobustUcbParams
) -> RobustUcbState:
    here = jnp.arange(arms.shape[0]) == index
    counts = state.counts + here
    level = theory.at(theory.robust_ucb_level, params, counts[index].astype(arms.dtype), num_arms=arms.shape[0])
    observed = jnp.where(here & (jnp.abs(payoffs[0]) <= level), payoffs[0], 0)
    return RobustUcbState(counts, *compensated(state.sums, state.lost, observed))


def region_of(arms: Arms, means: jax.Array) -> Region:
    """sum_a (mean of a) a: theta*'s part in the span of the arms. The widths make no ellipsoid."""
    return Region(dot(arms.T, means))


@functools.lru_cache(maxsize=1)
def robust_ucb() -> Policy:
    """Robust UCB with truncated means for arms that are orthonormal; parameters: :class:`RobustUcbParams`.

    The j-th payoff y of an arm is kept where |y| <= (b j/L)^{1/p}; the sum of those kept, divided by all n pulls of the
    arm, is within 4 b^{1/p} (L/n)^{eps/p} of its mean, for all arms and pulls at once with probability 1 - delta. Every
    arm is pulled once, the lowest first; then the largest mean + width is. O(K) a pull.

    Then the regret is at most 2 K M + 8 p b^{1/p} L^{eps/p} K^{eps/p} T^{1/p}, where M bounds |<x, theta*>|.
    """
    return Policy(
        name="robust_ucb",
        init=_init,
        select=_select,
        update=_update,
        region=lambda state, arms, params: region_of(arms, _means(state)),
        finite=lambda state: jnp.isfinite(jnp.sum(state.sums)),
        about=About(check=check_params),
    )


def check_orthonormal(setup: Setup, policy: str) -> None:
    """Raises ValueError, naming the policy and what its arms must be, for what is no fixed set of orthonormal arms."""
    arms = getattr(setup.bandit, "arms", None)
    if setup.bandit.changing or arms is None:
        raise ValueError(f"bandit: {policy} keeps one mean per arm, so it needs one decision set known beforehand")
    size, dim = arms.shape
    away = f"products of {size} arms in {dim} dimensions are"
    if size <= dim:
        products = np.asarray(arms, np.float64) @ np.asarray(arms, np.float64).T
        off = float(np.max(np.abs(products - np.eye(size))))
        if off <= ORTHONORMAL:
            return
        away = f"products of this bandit's arms are up to {off:.3g}"
    raise ValueError(
        f"bandit: {policy} uses no linear structure and needs orthonormal arms, np.eye(d) for example; {away} away from"
        " those"
    )


@register(
    "robust_ucb",
    label="Robust UCB",
    told=("epsilon", "raw_moment_bound"),
    color="#88CCEE",
    cost=Cost(0.18, 2.4e-4, 0.0),
    source="Bubeck, Cesa-Bianchi, Lugosi 2013",
    assumption="raw moment",
    regret="K^(ε/(1+ε)) T^(1/(1+ε))",
    valid="adaptive",
    sets="orthonormal",
    time="K",
    memory="K",
)
def make_robust_ucb(setup: Setup) -> tuple[Policy, RobustUcbParams]:
    """robust_ucb for one finite set of orthonormal arms."""
    params = setup.params(RobustUcbParams)
    check_orthonormal(setup, "robust_ucb")
    return robust_ucb(), params
