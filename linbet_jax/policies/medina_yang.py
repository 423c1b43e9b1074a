"""MoM and CRT (Medina and Yang, No-regret algorithms for heavy-tailed linear bandits, ICML 2016)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.medians import median_of_means
from linbet_jax.policies._checks import check_plan, choice, flag
from linbet_jax.policies.designs import Design
from linbet_jax.policies.policy import About, Policy
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy, scaled_radius


class MomParams(NamedTuple):
    """Hyperparameters of MoM; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    central_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any  # it, delta and epsilon must be those that r and q were made for
    epochs: Any  # m, the epochs of the schedule


@functools.lru_cache(maxsize=256)
def mom(design: Design, *, pulls: int, blocks: int, radius: str = "valid") -> Policy:
    """MoM: every epoch plays one arm r times and feeds the median of q block means to one ridge estimate.

    Its parameters are :class:`MomParams`.

    Args:
        design: of the decision sets.
        pulls: r, pulls per epoch.
        blocks: q, blocks; floor(r / q) pulls each, those beyond are left out.
        radius: ``"valid"`` (default) or ``"paper"``; see :func:`linbet_jax.theory.mom_radius`.

    Raises:
        ValueError: if a block would hold no pull, or the radius is unknown.
    """
    choice("radius", radius, "valid", "paper")
    if not 1 <= blocks <= pulls:
        raise ValueError(f"blocks={blocks}: must be from 1 to the pulls per epoch, {pulls}")

    def beta(updates: jax.Array, log_det_ratio: jax.Array, params: MomParams) -> jax.Array:
        started = theory.at(
            theory.mom_radius,
            params,
            updates.astype(log_det_ratio.dtype),
            pulls=pulls,
            block_pulls=pulls // blocks,
            log_det_ratio=log_det_ratio,
            radius=radius,
        )
        return scaled_radius(updates, started, params)

    def observe(payoffs: jax.Array, number: jax.Array, params: MomParams) -> jax.Array:
        return median_of_means(payoffs, blocks)

    check = check_plan(
        lambda horizon, delta, epsilon: theory.mom_schedule(horizon, delta=delta, epsilon=epsilon)[1:3],
        (pulls, blocks),
        lambda now: f"r={now[0]} pulls and q={now[1]} blocks an epoch, but this MoM has r={pulls} and q={blocks}",
        "delta",
        "epsilon",
    )
    about = About(check=check)
    return ridge_policy("mom", design, radius=beta, observe=observe, pulls_per_epoch=pulls, about=about)


class CrtParams(NamedTuple):
    """Hyperparameters of CRT; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any
    delta: Any
    theta_norm: Any
    raw_moment_bound: Any
    epsilon: Any
    radius_scale: Any
    horizon: Any


@functools.lru_cache(maxsize=128)
def crt(design: Design, *, radius: str = "valid", scaled: bool = False) -> Policy:
    """CRT: payoffs beyond alpha_t are dropped once, at their own pull, before one ridge estimate.

    Its parameters are :class:`CrtParams`.

    Args:
        design: of the decision sets.
        radius: ``"valid"`` (default) or ``"paper"``; see :func:`linbet_jax.theory.crt_radius`.
        scaled: multiply alpha_t by b^{1/p}, which makes the choices invariant to the payoffs' unit.

    Raises:
        ValueError: if the radius is unknown, or ``scaled`` is asked of the paper's radius.
    """
    choice("radius", radius, "valid", "paper")
    if scaled and radius == "paper":
        raise ValueError("scaled=True: goes with radius='valid' alone, since Medina and Yang print no scaled radius")

    def beta(updates: jax.Array, log_det_ratio: jax.Array, params: CrtParams) -> jax.Array:
        pull = jnp.maximum(updates, 1).astype(log_det_ratio.dtype)
        form = {"radius": radius, "scaled": scaled}
        started = theory.at(theory.crt_radius, params, pull, log_det_ratio=log_det_ratio, **form)
        return scaled_radius(updates, started, params)

    def observe(payoffs: jax.Array, number: jax.Array, params: CrtParams) -> jax.Array:
        level = theory.at(theory.crt_level, params, number.astype(payoffs.dtype), scaled=scaled)
        return jnp.where(jnp.abs(payoffs[0]) <= level, payoffs[0], 0)

    return ridge_policy("crt", design, radius=beta, observe=observe)


@register(
    "mom",
    label="MoM",
    told=("epsilon", "central_moment_bound", "theta_norm"),
    color="#E69F00",
    cost=Cost(0.2, 3e-5, 0.0),
    source="Medina, Yang 2016",
    assumption="central moment",
    regret="d^½ T^((1+2ε)/(1+3ε))",
    valid="adaptive",
    time="(K d + d²)/r",
    memory="d² + K",
)
def make_mom(setup: Setup, *, radius: str = "valid") -> tuple[Policy, MomParams]:
    """MoM with the schedule of the horizon."""
    schedule = theory.mom_schedule(setup.horizon, delta=setup.delta, epsilon=setup.known("epsilon"))
    policy = mom(setup.design, pulls=schedule.pulls, blocks=schedule.blocks, radius=radius)
    facts = tuple(zip(("m", "r", "q", "block"), schedule[:4], strict=True))
    notes: tuple[str, ...] = ()
    if schedule.shortened:
        notes = (
            f"MoM plays {schedule.epochs} epochs, fewer and longer than floor(T^(2 eps/(1 + 3 eps))), so that each of"
            f" the {schedule.blocks} blocks holds a pull",
        )
    return policy.with_notes(facts=facts, notes=notes), setup.params(MomParams, epochs=float(schedule.epochs))


@register(
    "crt",
    label="CRT",
    told=("epsilon", "raw_moment_bound", "theta_norm"),
    color="#009E73",
    source="Medina, Yang 2016",
    assumption="raw moment",
    regret="d T^(½+1/(2+2ε))",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_crt(setup: Setup, *, radius: str = "valid", scaled: bool = False) -> tuple[Policy, CrtParams]:
    """CRT."""
    params = setup.params(CrtParams)
    return crt(setup.design, radius=radius, scaled=flag("scaled", scaled)), params
