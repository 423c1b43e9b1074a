"""MENU, TOFU, MoM, CRT, OFUL and LinTS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from linbet_jax.theory.common import (
    Number,
    at,
    bound_at_the_end,
    check_constants,
    growth_exponent,
    initial_radius,
    ln,
    log_det_bound,
    sqrt,
)

# MENU (Algorithm 1)


def menu_groups(horizon: float, delta: float) -> int:
    """k = ceil(24 ln(e T / delta)), pulls per epoch (Algorithm 1, line 2; e is Euler's number)."""
    return math.ceil(24 * (1 + math.log(horizon) - math.log(delta)))


def menu_epochs(horizon: int, delta: float) -> int:
    """N = floor(T / k), epochs (Algorithm 1, line 2)."""
    return int(horizon) // menu_groups(horizon, delta)


def menu_smallest_horizon(delta: float) -> int:
    """The smallest T with T >= 256 + 24 ln(e / delta) and at least one whole epoch (Theorem 2)."""
    horizon = math.ceil(256 + 24 * (1 - math.log(delta)))
    while menu_epochs(horizon, delta) < 1:
        horizon += 1
    return horizon


def menu_radius(
    epoch: Number,
    *,
    dim: int,
    central_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    theta_norm: Number,
) -> Number:
    """beta_n = 3 [(9 d c)^{1/p} n^a + sqrt(lambda) S] (Algorithm 1, line 10).

    Deviations: the appendix's last display prints 12 d c where the lemma and the theorem have 9 d c; 9 is used.
    """
    spread = _menu_spread(dim, central_moment_bound, epsilon)
    return 3 * (spread * epoch ** growth_exponent(epsilon) + initial_radius(ridge=ridge, theta_norm=theta_norm))


def _menu_spread(dim: int, central_moment_bound: Number, epsilon: Number) -> Number:
    """(9 d c)^{1/p}."""
    return (9 * dim * central_moment_bound) ** (1 / (1 + epsilon))


def menu_regret_bound(horizon: Number, *, delta: Number, epsilon: Number, **constants: Number) -> Number:
    """Theorem 2: holds with probability at least 1 - delta.

    6 [(9dc)^{1/p} + sqrt(lambda) S + L] T^{1/p} (24 ln(eT/delta) + 1)^{eps/p} sqrt(2 d ln(1 + T D^2 / (lambda d))).
    `constants` are the other ones of the formula.
    """
    spread = at(_menu_spread, constants, epsilon=epsilon)
    groups = (24 * (1 + ln(horizon / delta)) + 1) ** (epsilon / (1 + epsilon))
    return 6 * _after(spread, constants) * horizon ** (1 / (1 + epsilon)) * groups * _elliptical(horizon, constants)


def _after(spread: Number, constants: Mapping[str, Number]) -> Number:
    """What optimism costs per width: the spread, sqrt(lambda) S and L."""
    check_constants(constants)
    return spread + at(initial_radius, constants) + constants["mean_bound"]


def _elliptical(horizon: Number, constants: Mapping[str, Number]) -> Number:
    """sqrt(2 d ln(1 + T D^2 / (lambda d))), the elliptical-potential factor (Lemma 11 of Abbasi-Yadkori et al.)."""
    return sqrt(2 * at(log_det_bound, constants, horizon))


# TOFU (Algorithm 2)


def tofu_level(
    pull: Number,
    *,
    horizon: Number,
    delta: Number,
    dim: int,
    raw_moment_bound: Number,
    epsilon: Number,
    level: str = "proof",
) -> Number:
    """The truncation level b_t at pull t = 1, 2, ....

    ``level="proof"``: (b / ln(2dT/delta))^{1/p} t^a, what the proof of Theorem 3 needs.
    ``level="box"``: (b / ln(2T/delta))^{1/epsilon} t^a, as Algorithm 2, line 4 prints it.

    Deviations: the default is the proof's level. The box's exponent 1/epsilon gives the lemma for no epsilon (1/epsilon
    and 1/(1+epsilon) are 1 and 1/2 at epsilon = 1), and makes the level depend on the payoffs' unit.
    """
    if level == "proof":
        base = (raw_moment_bound / ln(2 * dim * horizon / delta)) ** (1 / (1 + epsilon))
    elif level == "box":
        base = (raw_moment_bound / ln(2 * horizon / delta)) ** (1 / epsilon)
    else:
        raise ValueError(f"level={level!r}: allowed are 'proof' and 'box'")
    return base * pull ** growth_exponent(epsilon)


def tofu_radius(
    pull: Number,
    *,
    horizon: Number,
    delta: Number,
    dim: int,
    raw_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    theta_norm: Number,
) -> Number:
    """beta_t = 4 sqrt(d) b^{1/p} (ln(2dT/delta))^{eps/p} t^a + sqrt(lambda) S (Algorithm 2, line 13)."""
    spread = _tofu_spread(horizon, delta, dim, raw_moment_bound, epsilon)
    return spread * pull ** growth_exponent(epsilon) + initial_radius(ridge=ridge, theta_norm=theta_norm)


def _tofu_spread(horizon: Number, delta: Number, dim: int, raw_moment_bound: Number, epsilon: Number) -> Number:
    """4 sqrt(d) b^{1/p} (ln(2dT/delta))^{eps/p}."""
    p = 1 + epsilon
    return 4 * math.sqrt(dim) * raw_moment_bound ** (1 / p) * ln(2 * dim * horizon / delta) ** (epsilon / p)


def tofu_regret_bound(horizon: Number, *, epsilon: Number, **constants: Number) -> Number:
    """Theorem 3: holds with probability at least 1 - delta.

    2 T^{1/p} [4 sqrt(d) b^{1/p} (ln(2dT/delta))^{eps/p} + sqrt(lambda) S + L] sqrt(2 d ln(1 + T D^2 / (lambda d))).
    `constants` are the other ones of the formula.
    """
    spread = at(_tofu_spread, constants, horizon, epsilon=epsilon)
    return 2 * horizon ** (1 / (1 + epsilon)) * _after(spread, constants) * _elliptical(horizon, constants)


def tofu_retruncation_rounds(horizon: int, epochs: int) -> tuple[int, ...]:
    """The pulls at which TOFU by epochs re-truncates its whole history (Remark 3): M of them, geometrically spaced.

    t_j is max(ceil(T^{j/M}), t_{j-1} + 1), held back so that exactly M rounds fit and the last one is T. M = T gives
    every pull, which is TOFU itself.

    Raises:
        ValueError: if epochs is not in 1..horizon.
    """
    if not 1 <= epochs <= horizon:
        raise ValueError(f"epochs={epochs}: must be an integer from 1 to the horizon, {horizon}")
    rounds: list[int] = []
    previous = 0
    for j in range(1, epochs + 1):
        wanted = max(math.ceil(horizon ** (j / epochs) - 1e-9), previous + 1)
        previous = min(wanted, horizon - (epochs - j))
        rounds.append(previous)
    return tuple(rounds)


# MoM (Medina and Yang 2016)


class MomSchedule(NamedTuple):
    """Epochs and blocks of MoM: all counts are host integers.

    Attributes:
        epochs: m, epochs (each plays one arm).
        pulls: r, pulls per epoch.
        blocks: q, blocks of pulls whose means enter the median.
        block_pulls: floor(r / q), pulls per block.
        shortened: whether m was reduced below floor(T^{2 eps / (1 + 3 eps)}) so that a block holds a pull.
    """

    epochs: int
    pulls: int
    blocks: int
    block_pulls: int
    shortened: bool


def mom_schedule(horizon: int, *, delta: float, epsilon: float) -> MomSchedule:
    """m = max(1, floor(T^{2 eps/(1 + 3 eps)})), r = floor(T/m), q = ceil(8 ln(2m/delta)) (Medina and Yang 2016).

    Deviations: where floor(r / q) would be 0 (short horizons), m is reduced to the largest value for which every block
    holds at least one pull; ``shortened`` then says so.

    Raises:
        ValueError: if even one epoch cannot hold its blocks.
    """
    wanted = max(1, math.floor(horizon ** (2 * epsilon / (1 + 3 * epsilon)) + 1e-9))
    for epochs in range(wanted, 0, -1):
        pulls = horizon // epochs
        blocks = _mom_blocks(epochs, delta)
        if pulls // blocks >= 1:
            return MomSchedule(epochs, pulls, blocks, pulls // blocks, epochs < wanted)
    smallest = mom_smallest_horizon(delta)
    raise ValueError(f"horizon={horizon}: MoM at delta={delta} needs at least {smallest} pulls (8 ln(2/delta))")


def mom_smallest_horizon(delta: float) -> int:
    """The smallest T at which one epoch of MoM holds its q = ceil(8 ln(2/delta)) blocks."""
    return _mom_blocks(1, delta)


def _mom_blocks(epochs: int, delta: float) -> int:
    """q = ceil(8 ln(2m/delta))."""
    return math.ceil(8 * (math.log(2 * epochs) - math.log(delta)))


def mom_radius(
    epoch: Number,
    *,
    epochs: Number,
    pulls: Number,
    block_pulls: Number,
    log_det_ratio: Number,
    delta: Number,
    central_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    theta_norm: Number,
    radius: str = "valid",
) -> Number:
    """beta_i of MoM after epoch i.

    ``radius="valid"``: h sqrt(i) + sqrt(lambda) S with h = (12 c)^{1/p} floor(r/q)^{-eps/p}: a union over the m epochs'
    medians and ``||sum_i x_i err_i||_{V^-1} <= ||err||_2``.
    ``radius="paper"``: (12c)^{1/p} (8 ln(2m/delta)/r)^{eps/p} (sqrt(2 ln(m det(V_i)^{1/2} det(lambda I)^{-1/2}/delta))
    + sqrt(i)) + sqrt(lambda) S, as Medina and Yang print it.

    `epoch` is i, the epochs that are finished, of m, `epochs`; `pulls` is r, and `block_pulls` floor(r / q).
    `log_det_ratio` is used by ``"paper"`` alone.
    """
    p = 1 + epsilon
    spread = (12 * central_moment_bound) ** (1 / p)
    offset = initial_radius(ridge=ridge, theta_norm=theta_norm)
    if radius == "valid":
        return spread * block_pulls ** (-epsilon / p) * sqrt(epoch) + offset
    if radius == "paper":
        error = spread * (8 * ln(2 * epochs / delta) / pulls) ** (epsilon / p)
        martingale = sqrt(2 * (ln(epochs / delta) + 0.5 * log_det_ratio))
        return error * (martingale + sqrt(epoch)) + offset
    raise ValueError(f"radius={radius!r}: allowed are 'valid' and 'paper'")


def mom_regret_bound(horizon: int, *, delta: float, epsilon: float, radius: str = "valid", **constants: float) -> float:
    """`optimism_regret_bound` of MoM: n = m epochs of r pulls, and one more if pulls are left over; host numbers only.

    Holds where all m regions do, with probability at least 1 - delta. Medina and Yang give the rate
    T^{(1+2 eps)/(1+3 eps)}. `constants` are the other ones of `mom_radius` and `optimism_regret_bound`.
    """
    schedule = mom_schedule(horizon, delta=delta, epsilon=epsilon)
    played = schedule.epochs + (horizon > schedule.epochs * schedule.pulls)
    form: dict[str, Any] = {**schedule._asdict(), "epoch": float(schedule.epochs), "radius": radius}
    constants |= {"delta": delta, "epsilon": epsilon}
    return bound_at_the_end(schedule.epochs, mom_radius, constants, played, **form)


# CRT (Medina and Yang 2016)


def crt_level(pull: Number, *, raw_moment_bound: Number, epsilon: Number, scaled: bool = False) -> Number:
    """alpha_t = t^{1/(2p)}, times b^{1/p} when ``scaled`` (which makes CRT invariant to the payoffs' unit)."""
    p = 1 + epsilon
    level = pull ** (1 / (2 * p))
    return raw_moment_bound ** (1 / p) * level if scaled else level


def crt_radius(
    pull: Number,
    *,
    horizon: Number,
    log_det_ratio: Number,
    delta: Number,
    raw_moment_bound: Number,
    epsilon: Number,
    ridge: Number,
    theta_norm: Number,
    radius: str = "valid",
    scaled: bool = False,
) -> Number:
    """beta_t of CRT after pull t >= 1.

    ``radius="valid"``: alpha_t sqrt(2 [ln(det V_t / det(lambda I))/2 + ln(t(t+1)/delta)]) + b sqrt(p) t^{1/(2p)}
    + sqrt(lambda) S. ``radius="paper"`` (Medina and Yang, Theorem 1): 2 sqrt(2 t^{1/p} (ln(det(V_t)^{1/2}
    det(lambda I)^{-1/2}/delta) + b^2 ln T)) + sqrt(lambda) S. ``scaled=True``: alpha_t (sqrt(2 [...]) + sqrt(p))
    + sqrt(lambda) S with alpha_t = b^{1/p} t^{1/(2p)}.
    """
    p = 1 + epsilon
    offset = initial_radius(ridge=ridge, theta_norm=theta_norm)
    alpha = crt_level(pull, raw_moment_bound=raw_moment_bound, epsilon=epsilon, scaled=scaled)
    if radius == "valid":
        martingale = sqrt(2 * (0.5 * log_det_ratio + ln(pull * (pull + 1) / delta)))
        if scaled:
            return alpha * (martingale + sqrt(p)) + offset
        dropped = raw_moment_bound * sqrt(p) * crt_level(pull, raw_moment_bound=raw_moment_bound, epsilon=epsilon)
        return alpha * martingale + dropped + offset
    if radius == "paper":
        if scaled:
            raise ValueError("scaled=True goes with radius='valid' alone: Medina and Yang print no scaled radius")
        inner = 0.5 * log_det_ratio - ln(delta) + raw_moment_bound**2 * ln(horizon)
        return 2 * sqrt(2 * pull ** (1 / p) * inner) + offset
    raise ValueError(f"radius={radius!r}: allowed are 'valid' and 'paper'")


def crt_regret_bound(horizon: Number, *, radius: str = "valid", scaled: bool = False, **constants: Number) -> Number:
    """`optimism_regret_bound` of CRT with n = T updates; rate T^{1/2 + 1/(2(1+eps))}, logarithms apart.

    `constants` are those of `crt_radius` and `optimism_regret_bound`.
    """
    form = {"radius": radius, "scaled": scaled}
    return bound_at_the_end(horizon, crt_radius, constants, horizon=horizon, pull=horizon, **form)


# OFUL (Abbasi-Yadkori et al. 2011)


def oful_radius(
    *, log_det_ratio: Number, delta: Number, noise_scale: Number, ridge: Number, theta_norm: Number
) -> Number:
    """beta_t = R sqrt(2 [ln(det V_t / det(lambda I))/2 + ln(1/delta)]) + sqrt(lambda) S (their Theorem 2)."""
    martingale = sqrt(2 * (0.5 * log_det_ratio - ln(delta)))
    return noise_scale * martingale + initial_radius(ridge=ridge, theta_norm=theta_norm)


def oful_regret_bound(horizon: Number, **constants: Number) -> Number:
    """`optimism_regret_bound` of OFUL with n = T updates: for sub-Gaussian noise alone (their Theorem 3).

    `constants` are those of `oful_radius` and `optimism_regret_bound`.
    """
    return bound_at_the_end(horizon, oful_radius, constants)


# LinTS (Agrawal and Goyal 2013)


def lints_scale(horizon: Number, *, dim: int, delta: Number, noise_scale: Number) -> Number:
    """v = R sqrt(9 d ln(T/delta)), in units of V^{-1/2} (Agrawal and Goyal, arXiv:1209.3352, Algorithm 1)."""
    return noise_scale * sqrt(9 * dim * ln(horizon / delta))
