"""hvt_ucb: one-pass Huber regression, of the family of Wang, Zhang, Zhao, Zhou (ICML 2025).

Online ridge regression whose innovations y - <x, theta> are clipped, so that one payoff never moves the estimate by
more than t0 in the norm of V. It needs neither the history nor bounded means, and its region holds theta* for arms that
were chosen adaptively, whatever sets they come from.

Heteroscedastic mode. Where the noise of pull t is s_t times noise of one bound, E|eta_t|^p <= c s_t^p given all that
came before, x_t and s_t, and s_t >= 1 is revealed with the payoff, the same update is given the pair divided by its
scale, (x_t/s_t, y_t/s_t), whose noise has the bound c at every pull: V = lambda I + sum w x x^T with
w = min(1/s^2, cap/||x||^2), ||.|| in V^-1, and h = t0 sqrt((1 + w ||x||^2) / (w ||x||^2)) / sqrt(w), with t0, C, beta
and the cap as they are. The proof is the one of the plain form, derived here:

* it asks that theta_t, V_t and the pair's width and level are known before the noise, in the filtration that holds
  x_t and s_t before y_t; so a scale that is revealed after the choice may depend on the arm and on the past, but the
  noise must have a mean of 0 and its bound given the scale;
* the pairs' noise is xi = eta/s, E|xi|^p <= c: clipping it at tau = t0/sqrt(v) costs the same bias, variance and
  range, with u^2 = w ||x||^2, v = u^2/(1 + u^2);
* sum v <= k = d ln(1 + T D^2/(lambda d)), since x/s is no longer than x: t0 and beta stay those of noise of scale 1.

The index <x, theta> + beta ||x|| is that of the arms themselves, which are chosen before their scale is known. A pull
whose weight is not capped costs at most 2 beta ||x|| = 2 beta s u, all of them 2 beta sqrt((1 + cap) k sum s_t^2); of
the others there are at most k (1 + cap)/cap. (For scales that are drawn independently V grows by E s^-2 a pull, more
than the 1/E s^2 that this bound counts.) With all scales 1 this is the plain form. In the papers' form V and lambda
are these over c^{2/p}, sigma = c^{1/p} / sqrt(w) and sigma_min = c^{1/p}: lambda changes with the unit of the payoffs
there, and does not here.

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
from linbet_jax.policies.policy import About, Policy, SeesScale
from linbet_jax.policies.registry import Cost, Setup, register
from linbet_jax.policies.ridge import ridge_policy


class HvtParams(NamedTuple):
    """Hyperparameters of hvt_ucb; :mod:`linbet_jax.policies.policy` says what its fields are."""

    ridge: Any  # the one in use
    delta: Any
    theta_norm: Any
    arm_norm: Any
    central_moment_bound: Any  # positive; heteroscedastic: of the noise over its scale
    epsilon: Any
    clip_scale: Any  # multiplies t0; 1 is the plain form
    radius_scale: Any  # multiplies the radius of the index and the region; t0 and the cap never see it
    horizon: Any


def constants_of(policy: str, dim: int, params: Any) -> tuple[Any, Any]:
    """t0, the farthest one payoff moves the estimate, and beta before radius_scale, by these formulas."""
    move = theory.at(getattr(theory, f"{policy}_move"), params, dim=dim)
    return move, theory.at(getattr(theory, f"{policy}_radius"), params, move=move)


def facts_of(move: float, beta: float) -> tuple[tuple[str, float], ...]:
    """t0, beta and the cap; where each replication has its own S, t0 alone."""
    if not math.isfinite(beta):
        return (("t0", move),)
    return ("t0", move), ("beta", beta), ("cap", theory.hvt_cap(move=move, radius=beta))


def weight_of(squared_width: jax.Array, cap: Any) -> jax.Array:
    """min(1, cap / ||x||^2)."""
    wide = squared_width > cap
    return jnp.where(wide, cap / jnp.where(wide, squared_width, 1), 1)


def check_positive(policy: str, clipped: str, params: Any) -> None:
    """Checks every field, and that c is not 0, where payoffs are `clipped`."""
    check_params(params)
    if float(params.central_moment_bound) == 0:
        raise ValueError(
            f"central_moment_bound={params.central_moment_bound!r}: must be positive for {policy}, which otherwise"
            f" clips every payoff to {clipped}"
        )


_check = functools.partial(check_positive, "hvt_ucb", "the estimate")


@functools.lru_cache(maxsize=128)
def hvt_ucb(design: Design, *, heteroscedastic: bool = False) -> Policy:
    """One-pass Huber regression; parameters: :class:`HvtParams`.

    Args:
        design: of the decision sets.
        heteroscedastic: whether the scale of each payoff is revealed.
    """

    def radius(updates: jax.Array, log_det_ratio: jax.Array, params: HvtParams) -> jax.Array:
        return params.radius_scale * constants_of("hvt", design.dim, params)[1]

    def adapt(
        payoff: jax.Array, value: jax.Array, squared_width: jax.Array, params: HvtParams
    ) -> tuple[jax.Array, jax.Array]:
        move, radius = constants_of("hvt", design.dim, params)
        weight = weight_of(squared_width, theory.hvt_cap(move=move, radius=radius))
        squared = weight * squared_width  # u^2
        # h = t0 sqrt((1 + u^2) / u^2) / sqrt(weight), large and finite for x = 0
        level = move * jnp.sqrt((1 + squared) / jnp.maximum(weight * squared, jnp.finfo(payoff.dtype).tiny))
        return value + jnp.clip(payoff - value, -level, level), weight

    def adapt_scaled(
        payoff: jax.Array, value: jax.Array, squared_width: jax.Array, scales: jax.Array, params: HvtParams
    ) -> tuple[jax.Array, jax.Array]:
        scale = scales[0]
        square = scale * scale
        observed, weight = adapt(payoff / scale, value / scale, squared_width / square, params)
        return observed * scale, weight / square

    return ridge_policy(
        "hvt_ucb",
        design.with_weights(),
        radius=radius,
        adapt=SeesScale(adapt_scaled) if heteroscedastic else adapt,
        about=About(check=_check),
    )


@register(
    "hvt_ucb",
    label="Hvt-UCB",
    told=("epsilon", "central_moment_bound", "theta_norm", "arm_norm"),
    color="#7A3E9D",
    cost=Cost(0.2, 5e-4, 4e-4),
    source="after Wang, Zhang, Zhao, Zhou 2025",
    assumption="central moment",
    regret="d T^(1/(1+ε))",
    valid="adaptive",
    time="K d + d²",
    memory="d² + K",
)
def make_hvt_ucb(
    setup: Setup, *, no_cap: bool = True, clip_scale: float = 1.0, heteroscedastic: bool = False
) -> tuple[Policy, HvtParams]:
    """hvt_ucb with the smallest ridge at which no arm is wider than the cap, where there is one."""
    revealed = flag("heteroscedastic", heteroscedastic)
    params = setup.params(
        HvtParams,
        central_moment_bound=setup.central_moment("hvt_ucb", revealed),
        clip_scale=number("clip_scale", clip_scale),
    )
    _check(params)
    dim = setup.bandit.dim
    notes: tuple[str, ...] = ()
    if flag("no_cap", no_cap):
        ridge = theory.at(theory.hvt_uncapped_ridge, params, dim=dim)
        if ridge is not None:
            params = params._replace(ridge=ridge)
            if ridge > setup.horizon * params.arm_norm**2:
                notes = (f"hvt_ucb's ridge, {ridge:.3g}, weighs more than all {setup.horizon} pulls",)
        elif params.arm_norm > 0:
            notes = (f"hvt_ucb caps its weights at ridge={setup.ridge:g}: no ridge makes all of them 1",)
    facts = (("lambda", params.ridge), *facts_of(*constants_of("hvt", dim, params)))
    return hvt_ucb(setup.design, heteroscedastic=revealed).with_notes(facts=facts, notes=notes), params
