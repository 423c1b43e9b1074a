"""Regression on adaptively chosen arms, after 2018: hvt_ucb, crtm, crmm, mean_of_medians, heavy_oful.

The ideas are those of the papers named, the constants are derived here; they are not the papers'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from linbet_jax.theory.common import (
    Number,
    at,
    bound_at_the_end,
    check_constants,
    growth_exponent,
    initial_radius,
    ln,
    log_det_bound,
    smallest_odd,
    sqrt,
)
from linbet_jax.theory.until_2018 import oful_radius


def bernstein_factor(epsilon: Number, scale: Number = 1.0) -> Number:
    """A = 4/3 + sqrt(16/9 + 8 1.5^{2-p} / s^p) + 2 kappa 2^{p-1} / s^p, with kappa = (p-1)^{p-1} / p^p.

    The first two terms are Freedman's inequality for clipped noise, the third is its bias: E(|u| - h)_+ is at most
    kappa E|u|^p h^{1-p}. `scale` is s, `hvt_factor`'s clip_scale.
    """
    p = 1 + epsilon
    tail = epsilon**epsilon / p**p
    return 4 / 3 + sqrt(16 / 9 + 8 * 1.5 ** (2 - p) / scale**p) + 2 * tail * 2**epsilon / scale**p


def union_log(delta: Number) -> Number:
    """l = ln(2/delta): two events, each for all pulls at once."""
    return math.log(2) - ln(delta)


# hvt_ucb: one-pass Huber regression (the family of Wang, Zhang, Zhao, Zhou 2025)


def hvt_factor(*, delta: Number, epsilon: Number, clip_scale: Number = 1.0) -> Number:
    """C, the radius beyond sqrt(lambda) S in units of t0 l: derived here.

    The fixed point of C = B/2 + sqrt(B^2/4 + (1 + w) e_s/l) with w = 1/(2 C l), the largest squared width that enters,
    B = A sqrt(1 + w), e_s = (e - 1) s^{-p} + 1 and A of `bernstein_factor`. Each step of the iteration gains more than
    a digit; it is written out, so that it costs a compiled loop nothing.
    """
    start, log = bernstein_factor(epsilon, clip_scale), union_log(delta)
    square = (math.e - 1) / clip_scale ** (1 + epsilon) + 1
    factor = start
    for _ in range(16):
        width = 1 / (2 * factor * log)
        half = start * sqrt(1 + width) / 2
        factor = half + sqrt(half * half + (1 + width) * square / log)
    return factor


def hvt_move(
    horizon: Number,
    *,
    dim: int,
    delta: Number,
    central_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    arm_norm: Number,
    clip_scale: Number = 1.0,
) -> Number:
    """t0 = s c^{1/p} sqrt(k) T^a l^{-1/p}: the farthest one payoff moves the estimate in the norm of V; derived here.

    k = d ln(1 + T D^2 / (lambda d)), `log_det_bound`, and s is `clip_scale`.
    """
    power = 1 / (1 + epsilon)
    growth = log_det_bound(horizon, dim=dim, ridge=ridge, arm_norm=arm_norm)
    unit = clip_scale * (central_moment_bound / union_log(delta)) ** power
    return unit * sqrt(growth) * horizon ** growth_exponent(epsilon)


def hvt_radius(
    *, move: Number, delta: Number, epsilon: Number, ridge: Number, theta_norm: Number, clip_scale: Number = 1.0
) -> Number:
    """beta = sqrt(lambda) S + C t0 l, the same for every t <= T; derived here. `move` is t0, `hvt_move`."""
    factor = hvt_factor(delta=delta, epsilon=epsilon, clip_scale=clip_scale)
    return initial_radius(ridge=ridge, theta_norm=theta_norm) + factor * move * union_log(delta)


def hvt_cap(*, move: Number, radius: Number) -> Number:
    """t0 / (2 beta): the largest squared width with which an arm may enter; 0 where both are 0."""
    return move / (2 * radius + (radius == 0))


def hvt_uncapped_ridge(
    horizon: float,
    *,
    delta: float,
    epsilon: float,
    theta_norm: float,
    arm_norm: float,
    clip_scale: float = 1.0,
    **constants: float,
) -> float | None:
    """The smallest lambda at which no arm is wider than the cap, D^2/lambda <= t0/(2 beta); host numbers only.

    It exists where 2 D S l^{1/p} < s (c T)^{1/p}: lambda = 2 D^2 beta/t0 is then met from below by iteration.
    `constants` are d and c.

    Returns:
        lambda; None where there is none, where 1000 steps do not settle it to 1e-12, and for D = 0, which needs none.
    """
    check_constants(constants)
    power, log = 1 / (1 + epsilon), union_log(delta)
    reach = clip_scale * (constants["central_moment_bound"] * horizon) ** power
    if arm_norm**2 == 0 or not 2 * arm_norm * theta_norm * log**power < reach:
        return None
    noise = {"delta": delta, "epsilon": epsilon, "clip_scale": clip_scale}
    factor = hvt_factor(**noise)
    ridge = 2 * arm_norm**2 * factor * log
    for _ in range(1000):
        move = at(hvt_move, constants, horizon, ridge=ridge, arm_norm=arm_norm, **noise)
        if move == 0:
            return None
        before, ridge = ridge, 2 * arm_norm**2 * (math.sqrt(ridge) * theta_norm / move + factor * log)
        if abs(ridge - before) <= 1e-12 * ridge:
            return ridge
    return None


def hvt_ucb_regret_bound(horizon: float, *, ridge: float, no_cap: bool = True, **constants: float) -> float:
    """`_huber_regret_bound` with `hvt_uncapped_ridge` where it is asked for and exists, else the ridge given.

    Holds with probability at least 1 - delta for c > 0; derived here; host numbers only. `constants` are those of
    `hvt_move`, `hvt_radius` and `mean_bound`.
    """
    if no_cap:
        ridge = at(hvt_uncapped_ridge, constants, horizon) or ridge
    return _huber_regret_bound(horizon, hvt_move, hvt_radius, {**constants, "ridge": ridge})


def _huber_regret_bound(
    horizon: float, move_of: Callable[..., float], radius_of: Callable[..., float], constants: Mapping[str, float]
) -> float:
    """2 beta sqrt((1 + cap) T k) + 2 L n, with k = d ln(1 + T D^2/(lambda d)), and n <= k (1 + cap)/cap capped pulls.

    A pull whose weight is 1 has a squared width w^2 <= cap and costs 2 beta w, where sum w^2/(1 + w^2) <= k; a capped
    one has w^2 = cap and costs 2 L. Where D^2/lambda <= cap none is. With t0 = 0 no
    payoff moves the estimate, and what always holds is left.
    """
    check_constants(constants)
    move = at(move_of, constants, horizon)
    radius = at(radius_of, constants, move=move)
    if not math.isfinite(radius):
        return math.inf
    cap = hvt_cap(move=move, radius=radius)
    if cap == 0:
        return 2 * constants["mean_bound"] * horizon
    growth = at(log_det_bound, constants, horizon)
    widest = constants["arm_norm"] ** 2 / constants["ridge"]
    capped = 0.0 if widest <= cap * (1 + 1e-9) else min(growth * (1 + cap) / cap, horizon)
    return 2 * radius * math.sqrt((1 + cap) * horizon * growth) + 2 * constants["mean_bound"] * capped


# crtm: one-pass truncation (the family of Xue, Wang, Wan, Yi, Zhang 2023)


def crtm_level(
    horizon: Number,
    *,
    dim: int,
    delta: Number,
    raw_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    arm_norm: Number,
) -> Number:
    """G = (b/l)^{1/p} T^a sqrt(k): payoffs with |y| ||x|| beyond it, in the norm of V^-1, are dropped; derived here.

    k = d ln(1 + T D^2 / (lambda d)), `log_det_bound`; V includes x.
    """
    growth = log_det_bound(horizon, dim=dim, ridge=ridge, arm_norm=arm_norm)
    return _crtm_bias(horizon, delta, raw_moment_bound, epsilon) * sqrt(growth)


def _crtm_bias(horizon: Number, delta: Number, raw_moment_bound: Number, epsilon: Number) -> Number:
    """(b/l)^{1/p} T^a."""
    return (raw_moment_bound / union_log(delta)) ** (1 / (1 + epsilon)) * horizon ** growth_exponent(epsilon)


def crtm_radius(horizon: Number, *, delta: Number, **constants: Number) -> Number:
    """beta = sqrt(lambda) S + (C + 1/sqrt(k)) G l, the same for every t <= T; derived here.

    C = A/2 + sqrt(A^2/4 + (e + 3)/l) with A = 4/3 + sqrt(16/9 + 8); the second term in the bracket is the bias.
    `constants` are S and the other ones of `crtm_level`.
    """
    check_constants(constants)
    log = union_log(delta)
    half = (4 / 3 + math.sqrt(16 / 9 + 8)) / 2
    factor = half + sqrt(half * half + (math.e + 3) / log)
    level = at(crtm_level, constants, horizon, delta=delta)
    bias = at(_crtm_bias, constants, horizon, delta=delta)
    return at(initial_radius, constants) + (factor * level + bias) * log


def crtm_regret_bound(horizon: Number, **constants: Number) -> Number:
    """`optimism_regret_bound` of crtm with n = T updates and the constants of `crtm_radius`; derived here."""
    return bound_at_the_end(horizon, crtm_radius, constants, horizon=horizon)


# crmm: medians of symmetric noise (the family of Xue, Wang, Wan, Yi, Zhang 2023)


class CrmmSchedule(NamedTuple):
    """Epochs of crmm: all counts are host integers.

    Attributes:
        pulls: r, pulls per epoch, odd.
        epochs: N = floor(T/r).
    """

    pulls: int
    epochs: int


def crmm_schedule(horizon: int, *, delta: float) -> CrmmSchedule:
    """The smallest odd r with 2 P(Bin(r, 1/8) >= (r + 1)/2) <= delta/(2 N), N = floor(T/r); derived here.

    Symmetric noise that is beyond R with a probability of at most 1/4 is above it, and below -R, with at most 1/8: all
    N medians are then within R of their means with probability 1 - delta/2.

    Raises:
        ValueError: if T is too short for one epoch.
    """
    pulls = smallest_odd(lambda pulls: _crmm_failure(pulls) * (horizon // pulls) <= delta, horizon)
    if pulls is not None:
        return CrmmSchedule(pulls, horizon // pulls)
    smallest = smallest_odd(lambda pulls: _crmm_failure(pulls) <= delta)
    raise ValueError(f"horizon={horizon}: crmm at delta={delta} needs at least {smallest} pulls, one epoch's")


def mean_of_medians_schedule(horizon: int, *, delta: float, blocks: int = 1) -> CrmmSchedule:
    """The smallest odd g with 2 P(Bin(g, 1/8) >= (g + 1)/2) <= delta/(2 N k'), N = floor(T/(g k')); `blocks` is k'.

    As `crmm_schedule`, which it is for k' = 1, for k' medians an epoch: ``pulls`` is g. Derived here.

    Raises:
        ValueError: if T is too short for one epoch.
    """

    def rare(pulls: int) -> bool:
        return _crmm_failure(pulls) * (horizon // (pulls * blocks)) * blocks <= delta

    pulls = smallest_odd(rare, horizon // blocks)
    if pulls is not None:
        return CrmmSchedule(pulls, horizon // (pulls * blocks))
    smallest = smallest_odd(lambda pulls: _crmm_failure(pulls) * blocks <= delta)
    assert smallest is not None
    raise ValueError(
        f"horizon={horizon}: mean_of_medians at delta={delta} needs at least {smallest * blocks} pulls, one epoch's"
    )


def _crmm_failure(pulls: int) -> float:
    """4 P(Bin(r, 1/8) >= (r + 1)/2) for an odd r, from exact integers."""
    ways = sum(math.comb(pulls, above) * 7 ** (pulls - above) for above in range((pulls + 1) // 2, pulls + 1))
    return 4 * ways / 8**pulls


def crmm_quantile(*, central_moment_bound: Number, epsilon: Number) -> Number:
    """R = (4 c)^{1/p}, beyond which noise is with a probability of at most 1/4 (Markov)."""
    return (4 * central_moment_bound) ** (1 / (1 + epsilon))


def crmm_radius(*, log_det_ratio: Number, delta: Number, quantile: Number, ridge: Number, theta_norm: Number) -> Number:
    """`oful_radius` of noise of the scale R at delta/2: medians within R of their means are R-sub-Gaussian."""
    return oful_radius(
        log_det_ratio=log_det_ratio, delta=delta / 2, noise_scale=quantile, ridge=ridge, theta_norm=theta_norm
    )


def crmm_regret_bound(
    horizon: int, *, delta: float, central_moment_bound: float, epsilon: float, **constants: float
) -> float:
    """`optimism_regret_bound` of crmm: N epochs of r pulls, and one more if pulls are left over; R from c.

    Holds with probability at least 1 - delta for symmetric noise that is independent within an epoch; derived here;
    host numbers only. `constants` are the other ones of `crmm_radius` and `optimism_regret_bound`.
    """
    schedule = crmm_schedule(horizon, delta=delta)
    played = schedule.epochs + (horizon > schedule.epochs * schedule.pulls)
    quantile = crmm_quantile(central_moment_bound=central_moment_bound, epsilon=epsilon)
    constants |= {"delta": delta}
    return bound_at_the_end(schedule.epochs, crmm_radius, constants, played, quantile=quantile, pulls=schedule.pulls)


# heavy_oful: Huber regression over the history (the family of Huang, Zhong, Wang, Yang 2023)


def heavy_oful_factor(*, delta: Number, epsilon: Number) -> Number:
    """C, the radius beyond sqrt(lambda) S in units of t0 l, l = ln(3/delta): derived here.

    C = A/2 + sqrt(A^2/4 + e/l) + ((e-1) 2^p + 1)/2, A = 4/3 + sqrt(16/9 + 8) + 2 kappa. The first two terms bound the
    score at theta*; the last one is what the at most ((e-1) 2^p + 1) l payoffs whose noise is beyond half their level
    take from the curvature.
    """
    p = 1 + epsilon
    half = (4 / 3 + math.sqrt(16 / 9 + 8)) / 2 + epsilon**epsilon / p**p
    log = _heavy_oful_log(delta)
    return half + sqrt(half * half + math.e / log) + ((math.e - 1) * 2**p + 1) / 2


def _heavy_oful_log(delta: Number) -> Number:
    """l = ln(3/delta): three events, each for all pulls at once."""
    return union_log(2 * delta / 3)


def heavy_oful_move(horizon: Number, *, delta: Number, **constants: Number) -> Number:
    """t0 = c^{1/p} sqrt(k) T^a l^{-1/p}, `hvt_move` and its constants with l = ln(3/delta); derived here."""
    check_constants(constants)
    return at(hvt_move, constants, horizon, delta=2 * delta / 3, clip_scale=1.0)


def heavy_oful_radius(*, move: Number, delta: Number, epsilon: Number, ridge: Number, theta_norm: Number) -> Number:
    """beta = sqrt(lambda) S + C t0 l, the same for every t <= T; derived here. `move` is t0, `heavy_oful_move`."""
    factor = heavy_oful_factor(delta=delta, epsilon=epsilon)
    return initial_radius(ridge=ridge, theta_norm=theta_norm) + factor * move * _heavy_oful_log(delta)


def heavy_oful_regret_bound(horizon: float, **constants: float) -> float:
    """`_huber_regret_bound` with the move and the radius of heavy_oful; derived here; host numbers only."""
    return _huber_regret_bound(horizon, heavy_oful_move, heavy_oful_radius, constants)
