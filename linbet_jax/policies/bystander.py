"""A bystander: the same policy on the same arms, with payoffs that decided none of them."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax

from linbet_jax.policy import FixedSet, Opening, Policy


class BystanderParams(NamedTuple):
    """Hyperparameters of a bystander.

    Attributes:
        policy: those of the policy that it is made from.
    """

    policy: Any


class Pair(NamedTuple):
    """Two states of one policy: of the one that chooses, and of the one that only looks on."""

    player: Any
    bystander: Any


def bystander(policy: Policy, params: Any) -> tuple[Policy, BystanderParams]:
    """The policy beside itself: one copy chooses, every arm is pulled twice as often, and each copy learns from a half.

    The bystander's arms have the law of adaptive play, but its payoffs are independent of them, as if they had been
    drawn in advance: what the lemmas behind MENU's and TOFU's regions assume, and adaptive play does not give. Estimate
    and region are the bystander's. T pulls of the policy take a horizon of 2 T here.

    Args:
        policy: the policy.
        params: its parameters, made for T.

    Returns:
        The pair as one policy, and its parameters.

    Raises:
        ValueError: for an infinite theta_norm, which only the policy itself may be given.
    """
    if getattr(params, "theta_norm", 0.0) == math.inf:
        raise ValueError(
            "theta_norm=inf: a bystander must be told S, since fresh instances tell theirs to params alone"
        )
    return _pair(policy), BystanderParams(params)


@functools.lru_cache(maxsize=256)
def _pair(policy: Policy) -> Policy:
    """The pair, for any parameters; cached so that equal pairs are one trace."""
    half = policy.pulls_per_epoch
    estimate, region, refresh = policy.estimate, policy.region, policy.refresh
    enlarge, check, fixed = policy.enlarge, policy.check, policy.fixed
    overflowed, finite = _both(policy)

    def update(state: Pair, feature: jax.Array, payoffs: jax.Array, params: BystanderParams) -> Pair:
        parts = zip(state, (payoffs[:half], payoffs[half:]), strict=True)
        return Pair(*(policy.update(one, feature, seen, params.policy) for one, seen in parts))

    return policy._replace(
        init=lambda params: Pair(policy.init(params.policy), policy.init(params.policy)),
        select=lambda key, state, arms, params: policy.select(key, state.player, arms, params.policy),
        update=update,
        pulls_per_epoch=2 * half,
        estimate=None if estimate is None else lambda state, params: estimate(state.bystander, params.policy),
        region=None if region is None else lambda state, point, params: region(state.bystander, point, params.policy),
        refresh=None if refresh is None else lambda state, params: Pair(*(refresh(s, params.policy) for s in state)),
        overflowed=overflowed,
        enlarge=None if enlarge is None else lambda: _pair(enlarge()),
        finite=finite,
        fixed=None if fixed is None else _fixed_pair(fixed, half),
        opening=None if policy.opening is None else _opening(policy.opening),
        check=None if check is None else lambda params: check(params.policy),
        max_pulls=None if policy.max_pulls is None else 2 * policy.max_pulls,
    )


def _fixed_pair(fixed: FixedSet, half: int) -> FixedSet:
    region, refresh = fixed.region, fixed.refresh
    overflowed, finite = _both(fixed)

    def update(state: Pair, arms: jax.Array, index: jax.Array, payoffs: jax.Array, params: BystanderParams) -> Pair:
        parts = zip(state, (payoffs[:half], payoffs[half:]), strict=True)
        return Pair(*(fixed.update(one, arms, index, seen, params.policy) for one, seen in parts))

    return FixedSet(
        init=lambda arms, params: Pair(fixed.init(arms, params.policy), fixed.init(arms, params.policy)),
        select=lambda key, state, arms, params: fixed.select(key, state.player, arms, params.policy),
        update=update,
        estimate=lambda state, arms, params: fixed.estimate(state.bystander, arms, params.policy),
        region=None
        if region is None
        else lambda state, arms, point, params: region(state.bystander, arms, point, params.policy),
        refresh=None
        if refresh is None
        else lambda state, arms, params: Pair(*(refresh(one, arms, params.policy) for one in state)),
        overflowed=overflowed,
        finite=finite,
    )


def _both(form: Policy | FixedSet) -> tuple[Any, Any]:
    """`overflowed` when one of the two has, `finite` when both are."""
    overflowed, finite = form.overflowed, form.finite
    return (
        None if overflowed is None else lambda state: overflowed(state.player) | overflowed(state.bystander),
        None if finite is None else lambda state: finite(state.player) & finite(state.bystander),
    )


def _opening(opening: Opening) -> Opening:
    handover = opening.handover
    return Opening(2 * opening.pulls, _pair(opening.policy), lambda state: Pair(*map(handover, state)))
