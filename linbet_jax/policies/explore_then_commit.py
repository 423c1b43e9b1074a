"""Explore, then commit: medians over one G-optimal design, then the best arm for good; told no moment at all.

Derived here, not a paper's: the price of knowing neither epsilon nor c is a larger power of T.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.policies._checks import check_plan
from linbet_jax.policies.gopt_elim import GoptElimParams, gopt_elim
from linbet_jax.policies.policy import About, Policy, Region
from linbet_jax.policies.registry import Cost, Setup, register


class EtcParams(NamedTuple):
    """Hyperparameters of explore-then-commit; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    horizon: Any  # it and delta must be those of the schedule


@functools.lru_cache(maxsize=256)
def explore_then_commit(dim: int, *, rows: int, copies: int) -> Policy:
    """Explore-then-commit; parameters: :class:`EtcParams`.

    ``rows`` rows of the greedy G-optimal design are pulled ``copies`` = k times each; every arm's value is the median
    of k ridge estimates, and the arm of the largest one is played for the rest. That is the first phase of elimination
    with medians, whose widths decide nothing here.

    Guarantee (derived here): where k is the smallest odd number with P(Bin(k, 1/4) >= (k + 1)/2) <= delta/K and
    n0 = floor(T^{2/3}) >= k rows, the regret is with probability 1 - delta at most

        2 L n0 + 2 T [(2^{4-p} c)^{1/p} sqrt(kappa) rows^{-eps/p} + S sqrt(lambda kappa/rows)],

    L a bound of |<x, theta*>| and kappa = rows max a^T A^-1 a, about d: T^{1 - 2 eps/(3p)}, logarithms apart, where
    p = 1 + eps. The k copies must be independent; no other assumption is made of the noise.

    Args:
        dim: d of the decision set, which must be the same at every pull.
        rows: rows of the design.
        copies: k, odd.
    """

    def told(params: EtcParams) -> GoptElimParams:
        """Widths of 0: only the largest value is left when the phase is over."""
        zero = jnp.zeros_like(params.ridge)
        none = dict.fromkeys(GoptElimParams._fields, zero)
        return GoptElimParams(**none | {"epsilon": zero + 1} | params._asdict())

    one_phase = gopt_elim(dim, (theory.EliminationPhase(rows, copies),), estimator="bmm").inside(
        "explore_then_commit", told
    )
    region = one_phase.region
    assert region is not None
    return one_phase._replace(
        name="explore_then_commit",
        region=lambda state, arms, params: Region(region(state, arms, params).center),  # no width is claimed
    )


@register(
    "explore_then_commit",
    label="Explore, then commit",
    color="#AA7744",
    cost=Cost(0.1, 1e-4, 2e-4),
    source="derived here",
    assumption="an unknown moment",
    regret="d^½ T^(1-2ε/(3+3ε))",
    valid="adaptive",
    sets="one finite",
    time="K + d",
    memory="K d + d k",
    needs_mean=False,
)
def make_explore_then_commit(setup: Setup) -> tuple[Policy, EtcParams]:
    """Explore-then-commit with the schedule of the horizon."""
    if setup.bandit.changing:
        raise ValueError(
            "bandit: explore_then_commit plans its design ahead, so it needs one decision set for all pulls; this"
            " bandit's changes from pull to pull"
        )
    schedule = functools.partial(theory.etc_schedule, dim=setup.bandit.dim, num_arms=setup.bandit.num_arms)
    phase = schedule(setup.horizon, delta=setup.delta)
    need = "another design than this explore_then_commit was made for"
    check = check_plan(schedule, phase, need, "delta")
    policy = explore_then_commit(setup.bandit.dim, rows=phase.rows, copies=phase.copies)
    facts = (("k", phase.copies), ("rows", phase.rows))
    return policy._replace(about=About(check=check, facts=facts)), setup.params(EtcParams)
