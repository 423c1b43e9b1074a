"""A bystander: the same policy on the same arms, with payoffs that decided none of them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax

from linbet_jax.policies.policy import Policy
from linbet_jax.theory import OWN_NORM


class BystanderParams(NamedTuple):
    """Hyperparameters of a bystander."""

    policy: Any  # those of the policy that it is made from


class Pair(NamedTuple):
    """Two states of one policy: of the one that chooses, and of the one that only looks on."""

    player: Any
    bystander: Any


def bystander(policy: Policy, params: Any) -> tuple[Policy, BystanderParams]:
    """The policy beside itself: one copy chooses, every arm is pulled twice as often, and each copy learns from a half.

    The bystander's arms have the law of adaptive play, but its payoffs are independent of them, as if they had been
    drawn in advance: what the lemmas behind MENU's and TOFU's regions assume, and adaptive play does not give. Estimate
    and region are the bystander's. T pulls, which the parameters were made for, take a horizon of 2 T here.

    Raises:
        ValueError: for an infinite theta_norm, which only the policy itself may be given, and for a policy that is
            shown the scales of its payoffs.
    """
    if getattr(params, "theta_norm", 0.0) == OWN_NORM:
        raise ValueError(
            "theta_norm=inf: a bystander must be told S, since fresh instances tell theirs to params alone"
        )
    check = policy.about.check
    about = dataclasses.replace(policy.about, check=None if check is None else lambda pair: check(pair.policy))
    return _pair(policy)._replace(about=about), BystanderParams(params)


@functools.lru_cache(maxsize=256)
def _pair(policy: Policy) -> Policy:
    """The pair, for any parameters; cached so that equal pairs are one trace."""
    half = policy.pulls_per_epoch
    policy = policy.inside("a bystander", lambda params: params.policy)
    region, refresh, finite, buffers = policy.region, policy.refresh, policy.finite, policy.buffers
    full = buffers and buffers.overflowed
    overflowed = full and (lambda state: full(state.player) | full(state.bystander))

    def both(
        update: Any, state: Pair, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: BystanderParams
    ) -> Pair:
        parts = zip(state, (payoffs[:half], payoffs[half:]), strict=True)
        return Pair(*(update(one, arms, index, seen, params) for one, seen in parts))

    return policy._replace(
        init=lambda arms, params: Pair(policy.init(arms, params), policy.init(arms, params)),
        select=lambda key, state, arms, params: policy.select(key, state.player, arms, params),
        update=tuple(functools.partial(both, update) for update in policy.updates),
        pulls_per_epoch=2 * half,
        region=region and (lambda state, arms, params: region(state.bystander, arms, params)),
        refresh=refresh and (lambda state, arms, params: Pair(*(refresh(one, arms, params) for one in state))),
        finite=finite and (lambda state: finite(state.player) & finite(state.bystander)),
        buffers=buffers and buffers._replace(overflowed=overflowed).around(_pair, lambda most: 2 * most),
    )
