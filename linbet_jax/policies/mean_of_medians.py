"""mean_of_medians: symmetric noise made light for any policy (the family of Zhong, Huang, Yang, Wang, NeurIPS 2021).

One pull of a base policy is an epoch of n = k' g pulls of one arm, and what it learns from is the mean over k' groups
of the median of g payoffs. Where noise is symmetric about 0 and independent within an epoch, every median is within R
of its mean but for a probability of delta/2, and truncated there it is centred: the feedback is
R/sqrt(k')-sub-Gaussian.

Deviations: the paper's g is a power of n; here it is the smallest odd number that the exact binomial tail allows, and
R and what the base is told were derived here; none of them is the paper's.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from linbet_jax import theory
from linbet_jax.kernels.medians import median_of_means
from linbet_jax.policies import registry
from linbet_jax.policies._checks import choice, count, number
from linbet_jax.policies.crmm import quantile_of, symmetric_or_refused
from linbet_jax.policies.policy import About, Policy
from linbet_jax.policies.registry import Cost, Setup, register

BASES = ("oful", "lints", "menu", "tofu", "mom", "crt", "hvt_ucb", "crtm", "heavy_oful")  # index policies, and LinTS


def mean_of_medians(policy: Policy, *, groups: int, blocks: int = 1) -> Policy:
    """The policy with n = ``blocks`` ``groups`` pulls for each of its own; leftover pulls play its arm, as in MENU.

    Its parameters are those of the policy. Where they have a ``horizon`` and a ``delta``, these are T and the whole
    failure probability: the policy is given floor(T/n) and delta/2, the medians take the other half.

    Args:
        policy: any policy.
        groups: g, payoffs under one median, odd.
        blocks: k', medians under one mean.

    Raises:
        ValueError: if ``groups`` is even or below 1, or ``blocks`` below 1, or the policy is shown the scales of its
            payoffs, which medians have not.
    """
    if groups < 1 or groups % 2 == 0:
        raise ValueError(f"groups={groups}: must be odd, at least 1")
    count("blocks", blocks)
    check = policy.about.check  # of this policy: an equal one may have another
    told = None if check is None else lambda params: check(told_to_base(params, groups * blocks))
    return _wrapped(policy, groups, blocks)._replace(about=About(check=told))


@functools.lru_cache(maxsize=256)
def _wrapped(policy: Policy, groups: int, blocks: int) -> Policy:
    """The functions alone: equal policies share one program."""
    pulls = groups * blocks
    base = policy.inside("a median", lambda params: told_to_base(params, pulls))

    def once(update: Any, state: Any, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: Any) -> Any:
        medians = jax.vmap(lambda part: median_of_means(part, groups))(payoffs.reshape(-1, groups))
        means = jnp.mean(medians.reshape(-1, blocks), axis=1)
        return update(state, arms, index, means, params)

    wrap = functools.partial(mean_of_medians, groups=groups, blocks=blocks)
    return base._replace(
        name="mean_of_medians",
        update=tuple(functools.partial(once, update) for update in base.updates),
        pulls_per_epoch=pulls * policy.pulls_per_epoch,
        buffers=policy.buffers and policy.buffers.around(wrap, lambda most: (most + 1) * pulls - 1),
    )


def told_to_base(params: Any, pulls: int) -> Any:
    """The base's parameters: floor(T/n) and delta/2 for T and delta, where there are such fields."""
    changes: dict[str, Any] = {}
    if hasattr(params, "horizon"):
        host = isinstance(params.horizon, float | int)
        changes["horizon"] = math.floor(params.horizon / pulls) + 0.0 if host else jnp.floor(params.horizon / pulls)
    if hasattr(params, "delta"):
        changes["delta"] = params.delta / 2
    return params._replace(**changes) if changes else params


@register(
    "mean_of_medians",
    label="Mean of medians",
    told=("mean_bound", "epsilon", "central_moment_bound", "theta_norm", "arm_norm"),
    color="#6699CC",
    cost=Cost(0.06, 3e-5, 2e-5),
    source="after Zhong, Huang, Yang, Wang 2021",
    assumption="symmetric noise",
    regret="d T^½",
    valid="adaptive",
    time="(K d + d²)/n",
    memory="d² + K",
    needs_mean=False,
)
def make_mean_of_medians(
    setup: Setup,
    *,
    base: str = "oful",
    blocks: int = 1,
    assume_symmetric: bool = False,
    quantile: float | None = None,
) -> tuple[Policy, Any]:
    """A policy of the registry on medians, told eps = 1, c = R^2/k', b = c + L^2, the scale R/sqrt(k') and delta/2."""
    choice("base", base, *BASES, between=", ")
    blocks = count("blocks", blocks)
    notes = symmetric_or_refused("mean_of_medians", setup, assume_symmetric)
    scale, more = quantile_of("mean_of_medians", setup, quantile)  # R
    schedule = functools.partial(theory.mean_of_medians_schedule, blocks=blocks)
    groups, epochs = schedule(setup.horizon, delta=setup.delta)
    options = registry.options(base)
    given = {field: number(field, value) for field, value in setup.given.items() if value is not None}
    variance = scale * scale / blocks
    known = given | {"epsilon": 1.0, "central_moment_bound": variance, "noise_scale": scale / math.sqrt(blocks)}
    if "raw_moment_bound" in options:
        largest = setup.known("mean_bound")
        known["raw_moment_bound"] = variance + largest * largest
    try:
        policy, params = registry.made(  # medians have a mean whether or not the noise has
            base,
            setup.bandit,
            horizon=epochs,
            delta=setup.delta / 2,
            ridge=setup.ridge,
            radius_scale=setup.radius_scale,
            **{name: value for name, value in known.items() if name in options},
        )
    except ValueError as error:
        raise ValueError(f"base={base!r}, of floor(T/n) = {epochs} pulls and delta/2: {error}") from error
    params = params._replace(horizon=float(setup.horizon))
    if hasattr(params, "delta"):
        params = params._replace(delta=setup.delta)
    check = policy.about.check

    def checked(params: Any) -> None:
        if check is not None:
            check(told_to_base(params, groups * blocks))
        delta = getattr(params, "delta", setup.delta)
        if schedule(int(params.horizon), delta=delta).pulls != groups:
            raise ValueError(
                f"delta={delta}, horizon={params.horizon:.0f}: they need other medians than those of g={groups} payoffs"
                " that this mean_of_medians was made for; make_policy again instead of replacing these parameters"
            )

    facts = (("g", groups), ("N", epochs), ("R", scale), *policy.about.facts)
    wrapped = mean_of_medians(policy, groups=groups, blocks=blocks)
    return wrapped._replace(about=About(check=checked, facts=facts, notes=notes + more + policy.about.notes)), params
