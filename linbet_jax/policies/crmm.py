"""crmm: medians of symmetric noise, of the family of Xue, Wang, Wan, Yi, Zhang (NeurIPS 2023).

An arm is played r times and the median of its payoffs enters one ridge estimate. Where the noise is symmetric about 0
and independent within an epoch the median's error is centred, and within R of 0 but for a probability of delta/2: OFUL
of the scale R is then valid, at its rate, whichever moments are finite.

Deviations: the paper's epochs and radius are its own; r is here the smallest odd number that the exact binomial tail
allows, and r, R and beta were derived here; none of them is the paper's.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax

from linbet_jax import theory
from linbet_jax.kernels.medians import median_of_means
from linbet_jax.policies._checks import check_plan, flag, number
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import About, Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy


class CrmmParams(NamedTuple):
    """Hyperparameters of crmm; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    quantile: Any  # R, with P(|eta| > R) of at most 1/4
    radius_scale: Any
    horizon: Any  # it and delta must be those that r was made for


@functools.lru_cache(maxsize=256)
def crmm(design: Design, *, pulls: int) -> Policy:
    """crmm with r = ``pulls`` of one arm per epoch; parameters: :class:`CrmmParams`.

    Raises:
        ValueError: if ``pulls`` is even or below 1.
    """
    if pulls < 1 or pulls % 2 == 0:
        raise ValueError(f"pulls={pulls}: must be odd, at least 1")

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: CrmmParams) -> jax.Array:
        return params.radius_scale * theory.at(theory.crmm_radius, params, log_det_ratio=log_det_ratio)

    def observe(payoffs: jax.Array, number: jax.Array, params: CrmmParams) -> jax.Array:
        return median_of_means(payoffs, pulls)  # blocks of one payoff

    check = check_plan(
        lambda horizon, delta: theory.crmm_schedule(horizon, delta=delta).pulls,
        pulls,
        lambda needed: f"r={needed} pulls an epoch, but this crmm has r={pulls}",
        "delta",
    )
    return ridge_policy("crmm", design, radius=radius, observe=observe, pulls_per_epoch=pulls, about=About(check=check))


def symmetric_or_refused(policy: str, setup: Setup, assume_symmetric: Any) -> tuple[str, ...]:
    """Notes that a policy for symmetric noise alone must carry on this bandit, where it is known to be or assumed."""
    assume, symmetric = flag("assume_symmetric", assume_symmetric), getattr(setup.bandit, "symmetric_noise", None)
    if symmetric:
        return ()
    told = "is not" if symmetric is False else "may not be"
    if not assume:
        raise ValueError(
            f"assume_symmetric={assume_symmetric}: {policy} needs noise that is symmetric about 0, which this bandit's"
            f" {told}; must be True to play it anyway"
        )
    return (f"{policy} assumes symmetric noise, which this bandit's {told}",)


def quantile_of(policy: str, setup: Setup, quantile: Any) -> tuple[float, tuple[str, ...]]:
    """R, with P(|eta| > R) <= 1/4, and notes: the one given, else Markov's, else that of noise without a mean."""
    if setup.bandit.epsilon > 0.0:
        moment = setup.known("central_moment_bound")
        markov = theory.crmm_quantile(central_moment_bound=moment, epsilon=setup.known("epsilon"))
        return number("quantile", markov if quantile is None else quantile), ()
    for field in ("central_moment_bound", "epsilon"):
        if (value := setup.given.get(field)) is not None:
            raise ValueError(
                f"{field}={value}: must not be given, for this bandit's noise has no mean; give quantile instead"
            )
    if quantile is not None:
        return number("quantile", quantile), ()
    exact = float(getattr(setup.bandit, "noise_quantile", math.inf))
    if exact == math.inf:
        raise ValueError(
            f"quantile=None: the noise has no moment for {policy} to take it from, and its law says no finite one; must"
            " be R with P(|noise| > R) of at most 1/4"
        )
    return exact, (f"{policy}'s quantile is the law's own: the noise has no moment",)


@register(
    "crmm",
    label="CRMM",
    told=("epsilon", "central_moment_bound", "theta_norm"),
    color="#4D4D4D",
    cost=Cost(0.06, 3e-5, 2e-5),
    source="after Xue, Wang, Wan, Yi, Zhang 2023",
    assumption="symmetric noise",
    regret="d T^½",
    valid="adaptive",
    time="(K d + d²)/r",
    memory="d² + K",
    needs_mean=False,
)
def make_crmm(
    setup: Setup, *, assume_symmetric: bool = False, quantile: float | None = None
) -> tuple[Policy, CrmmParams]:
    """crmm with the epochs of the horizon."""
    notes = symmetric_or_refused("crmm", setup, assume_symmetric)
    scale, more = quantile_of("crmm", setup, quantile)
    schedule = theory.crmm_schedule(setup.horizon, delta=setup.delta)
    facts = (("r", schedule.pulls), ("N", schedule.epochs), ("R", scale))
    policy = crmm(setup.design, pulls=schedule.pulls).with_notes(facts=facts, notes=notes + more)
    return policy, setup.params(CrmmParams, quantile=scale)
