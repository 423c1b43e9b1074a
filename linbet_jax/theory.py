"""Schedules, confidence radii, truncation levels and regret bounds, as functions of named arguments.

Radii and levels accept host numbers (Python or NumPy floats, evaluated in float64) and traced JAX arrays alike, so that
the policies and a pocket calculator share one formula; so do regret bounds that do not say otherwise. Schedules and
smallest horizons, which decide shapes, take host numbers alone. Letters follow the paper: p = 1 + epsilon and
a = (1 - epsilon) / (2 (1 + epsilon)). The arguments mean the same everywhere, and are not checked here:

    horizon: T, pulls.                            delta: failure probability, in (0, 1).
    epoch, pull: n or t, counted from 1.          epsilon: in (0, 1].
    dim: d.                                       ridge: lambda > 0.
    raw_moment_bound: b >= E|y|^p, in payoff^p.   theta_norm: S >= ||theta*||.
    central_moment_bound: c >= E|eta|^p.          arm_norm: D >= ||x||.
    log_det_ratio: ln(det V / det(lambda I)).     mean_bound: L >= |<x, theta*>|, in payoffs.

Radii are in the norm of V and in the unit of a payoff; levels bound |u y|, in the unit of a payoff too; regret bounds
are cumulative, in payoffs over T pulls.

The papers are listed in `linbet_jax/policies/README.md`.
"""

from __future__ import annotations

import bisect
import fractions
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# What all formulas share

Number = Any  # a Python or NumPy float, or a JAX array
CONSTANTS = frozenset(  # what a formula with ``**constants`` may be given
    (
        *("dim", "num_arms", "delta", "epsilon", "ridge", "theta_norm", "arm_norm", "mean_bound"),
        *("raw_moment_bound", "central_moment_bound", "noise_scale", "clip_scale"),
    )
)


def is_host(*values: Number) -> bool:
    """Whether none of them is a JAX value."""
    return all(isinstance(value, (int, float)) or type(value).__module__ == "numpy" for value in values)


def namespace(*values: Number) -> Any:
    """NumPy for host numbers, jax.numpy as soon as one argument is a JAX value."""
    if is_host(*values):
        import numpy

        return numpy
    import jax.numpy

    return jax.numpy


def ln(value: Number) -> Number:
    """The natural logarithm, of a host number or an array."""
    return math.log(value) if isinstance(value, (int, float)) else namespace(value).log(value)


def sqrt(value: Number) -> Number:
    """The square root, likewise."""
    return math.sqrt(value) if isinstance(value, (int, float)) else namespace(value).sqrt(value)


def arguments(formula: Callable[..., Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the constants that a formula of this module takes, by their names; of `CONSTANTS` where it takes any."""
    parameters = inspect.signature(formula).parameters
    any_of = CONSTANTS if "constants" in parameters else ()
    return {name: value for name, value in constants.items() if name in parameters or name in any_of}


def at(formula: Callable[..., Any], constants: Mapping[str, Any] | Any, *first: Any, **more: Any) -> Any:
    """A formula at the constants that it takes by name, of a mapping or a NamedTuple, and at what else is given."""
    known = constants._asdict() if hasattr(constants, "_asdict") else constants
    placed = dict(zip(inspect.signature(formula).parameters, first, strict=False))
    return formula(**{**arguments(formula, known), **more, **placed})


def growth_exponent(epsilon: Number) -> Number:
    """The exponent a = (1 - epsilon) / (2 (1 + epsilon)) of the recurring factor t^a (Lemma 1 of the paper)."""
    return (1 - epsilon) / (2 * (1 + epsilon))


def initial_radius(*, ridge: Number, theta_norm: Number) -> Number:
    """Radius sqrt(lambda) S around 0 in the norm of V_0 = lambda I: exactly the ball B(0, S) = C_0 of the paper."""
    return sqrt(ridge) * theta_norm


def smallest_odd(holds: Callable[[int], bool], most: float = math.inf) -> int | None:
    """The smallest odd number for which a condition holds that then holds for all larger ones; None beyond ``most``."""
    below, end = -1, 1  # odd numbers; none up to the first holds
    while end <= most and not holds(end):
        below, end = end, 2 * end + 1
        if end > most > below + 1:
            end = int(most) - (int(most) % 2 == 0)
    if end > most:
        return None
    return 2 * bisect.bisect_left(range((end + 1) // 2), True, key=lambda half: holds(2 * half + 1)) + 1


def log_det_bound(pulls: Number, *, dim: int, ridge: Number, arm_norm: Number) -> Number:
    """d ln(1 + n D^2 / (lambda d)) >= ln(det V_n / det(lambda I)) after n rank-one updates (determinant-trace)."""
    return dim * ln(1 + pulls * arm_norm**2 / (ridge * dim))


def optimism_regret_bound(
    updates: Number,
    *,
    radius: Number,
    dim: int,
    ridge: Number,
    arm_norm: Number,
    mean_bound: Number,
    pulls: Number = 1,
) -> Number:
    """2 r max(beta, L) sqrt(2 n d ln(1 + n D^2 / (lambda d))): what optimism costs while theta* lies in every region.

    With n updates of r pulls each and radii that never exceed beta, an epoch costs at most 2 r max(beta, L)
    min(1, ||x||) in the norm of V^-1, and sum min(1, ||x||^2) <= 2 ln(det V_n / det(lambda I)). Theorems 2 and 3 end
    with this step; here it gives the bounds with constants that the other policies' papers do not print.

    `updates` is n, `pulls` r, and `radius` beta, the largest radius (the last one, since radii grow).
    """
    numbers = (radius, mean_bound)
    largest = max(numbers) if is_host(*numbers) else namespace(*numbers).maximum(radius, mean_bound)
    widths = 2 * updates * log_det_bound(updates, dim=dim, ridge=ridge, arm_norm=arm_norm)
    return 2 * pulls * largest * sqrt(widths)


def check_constants(constants: Mapping[str, Any]) -> None:
    """Raises TypeError for one that no formula has: a misspelt name must not go unseen."""
    if unknown := sorted(set(constants) - CONSTANTS):
        raise TypeError(f"no formula has the constant {unknown[0]!r}; there are {', '.join(sorted(CONSTANTS))}")


def bound_at_the_end(
    updates: Number, formula: Callable[..., Number], constants: Mapping[str, Number], played: Number = 0, **more: Number
) -> Number:
    """`optimism_regret_bound` with a formula's radius after the last update, where det V is as large as it can be.

    The formula is given ``log_det_ratio``, the constants and `more`; so is the bound. `played` is its n, where that is
    not `updates`. A constant that no formula has is a TypeError.
    """
    check_constants(constants)
    known = {**constants, **more, "log_det_ratio": at(log_det_bound, constants, updates)}
    return at(optimism_regret_bound, known, played or updates, radius=at(formula, known))


OWN_NORM = math.inf
"""S where each replication has an instance of its own: the simulator puts that instance's ||theta*||_2 in its place."""


# The lower bound (Theorem 1)


def lower_bound_gap(horizon: Number, *, epsilon: Number) -> Number:
    """Delta = T^{-eps/(1+eps)} / 12, the gap of the lower bound's construction (proof of Theorem 1)."""
    return horizon ** (-epsilon / (1 + epsilon)) / 12


def lower_bound_regret(horizon: Number, *, dim: int, epsilon: Number) -> Number:
    """(d / 192) T^{1/(1+eps)}, below which no policy's expected regret lies (Theorem 1; even d)."""
    return dim / 192 * horizon ** (1 / (1 + epsilon))


def lower_bound_smallest_horizon(*, dim: int, epsilon: float) -> int:
    """The smallest T with Delta <= 1/d: T >= (d/12)^{(1+eps)/eps}.

    Deviations: Theorem 1 prints the exponent eps/(1+eps), the inverse of what Delta <= 1/d needs.
    """
    return max(1, math.ceil((dim / 12) ** ((1 + epsilon) / epsilon) * (1 - 1e-12)))


# The exponents of T in regret bounds


BOUNDED = (  # with a regret bound
    *("menu", "tofu", "mom", "crt", "oful"),
    *("hvt_ucb", "crtm", "crmm", "heavy_oful", "gopt_elim", "sup_bmm", "sup_btc", "robust_ucb"),
    *("adar_ucb", "lints", "explore_then_commit", "mean_of_medians"),
)
_OTHER: dict[str, Callable[[Number], Number]] = {  # than 1/(1+eps)
    "mom": lambda epsilon: (1 + 2 * epsilon) / (1 + 3 * epsilon),
    "crt": lambda epsilon: 1 / 2 + 1 / (2 * (1 + epsilon)),
    # sub-Gaussian noise, or symmetric noise; mean_of_medians of OFUL
    **dict.fromkeys(("oful", "lints", "crmm", "mean_of_medians"), lambda epsilon: 1 / 2 + 0 * epsilon),
    "explore_then_commit": lambda epsilon: 1 - 2 * epsilon / (3 * (1 + epsilon)),  # which knows neither eps nor c
}


def regret_exponent(policy: str, epsilon: Number) -> Number:
    """The exponent of T in a policy's regret bound, logarithms apart (the paper's comparison of the four algorithms).

    It is 1/(1+eps), as in the lower bound, but for the policies of the table.

    Raises:
        ValueError: a policy that has no bound.
    """
    if policy in _OTHER:
        return _OTHER[policy](epsilon)
    if policy in (*BOUNDED, "lower-bound"):
        return 1 / (1 + epsilon)
    known = ", ".join(map(repr, BOUNDED))
    raise ValueError(f"policy={policy!r}: bounds are known of {known} and 'lower-bound'")


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
    """Epochs and blocks of MoM: all counts are host integers."""

    epochs: int  # m, epochs (each plays one arm)
    pulls: int  # r, pulls per epoch
    blocks: int  # q, blocks of pulls whose means enter the median
    block_pulls: int  # floor(r / q), pulls per block
    shortened: bool  # whether m was reduced below floor(T^{2 eps / (1 + 3 eps)}) so that a block holds a pull


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


# robust_ucb: truncated means of K arms (Bubeck, Cesa-Bianchi, Lugosi 2013)


def robust_ucb_log(horizon: Number, *, num_arms: int, delta: Number) -> Number:
    """L = ln(2 K T/delta): every arm, every number of its pulls and both tails have a share of delta."""
    return ln(2 * num_arms * horizon / delta)


def robust_ucb_level(
    number: Number, *, horizon: Number, num_arms: int, delta: Number, raw_moment_bound: Number, epsilon: Number
) -> Number:
    """(b j/L)^{1/p}: the j-th payoff of an arm, counted from 1, is kept up to it (Lemma 1 of the paper)."""
    log = robust_ucb_log(horizon, num_arms=num_arms, delta=delta)
    return (raw_moment_bound * number / log) ** (1 / (1 + epsilon))


def robust_ucb_width(
    pulls: Number, *, horizon: Number, num_arms: int, delta: Number, raw_moment_bound: Number, epsilon: Number
) -> Number:
    """4 b^{1/p} (L/n)^{eps/p} around the truncated mean of n >= 1 payoffs of one arm (Lemma 1 of the paper).

    Bias, variance and range add up to (p + sqrt(2) + 1/3) b^{1/p} (L/n)^{eps/p} at most.
    """
    p = 1 + epsilon
    log = robust_ucb_log(horizon, num_arms=num_arms, delta=delta)
    return 4 * raw_moment_bound ** (1 / p) * (log / pulls) ** (epsilon / p)


def robust_ucb_regret_bound(
    horizon: Number, *, num_arms: int, delta: Number, raw_moment_bound: Number, epsilon: Number, mean_bound: Number
) -> Number:
    """2 K M + 8 p b^{1/p} L^{eps/p} K^{eps/p} T^{1/p}, with probability at least 1 - delta; M is `mean_bound`."""
    p = 1 + epsilon
    log = robust_ucb_log(horizon, num_arms=num_arms, delta=delta)
    growth = (log * num_arms) ** (epsilon / p) * horizon ** (1 / p)
    return 2 * num_arms * mean_bound + 8 * p * raw_moment_bound ** (1 / p) * growth


# adar_ucb: trimmed means of K arms whose moments nobody tells (Genalti, Marsigli, Gatti, Metelli 2024)


def adar_ucb_log(step: Number) -> Number:
    """ln tau^3 in step tau = 1, 2, ..., of two pulls: an index fails with a probability of the order of tau^-3."""
    return 3 * ln(step)


def adar_ucb_mass(step: Number) -> Number:
    """q = (1 + sqrt(2))^2 ln tau^3: an arm's level M is where sum min(y^2/M^2, 1) over its payoffs y is q."""
    return (1 + math.sqrt(2)) ** 2 * adar_ucb_log(step)


def adar_ucb_width(pulls: Number, *, step: Number, variance: Number, level: Number) -> Number:
    """sqrt(2 V ln tau^3/n) + 10 M ln tau^3/n around the trimmed mean of n payoffs, V their sample variance.

    The empirical Bernstein bound for numbers within M of 0, whose 14/3 M ln tau^3/(n - 1) is less for n >= 2.
    """
    log = adar_ucb_log(step) / pulls
    return sqrt(2 * variance * log) + 10 * level * log


# G-optimal elimination (the family of Tajdini, Scarlett, Jamieson 2025; the constants are derived here)


def median_copies(failure: float) -> int:
    """The smallest odd k with P(Bin(k, 1/4) >= (k + 1)/2) <= failure, in exact arithmetic.

    A median of k independent copies, each of which leaves a band with probability at most 1/4, leaves it no more often.
    """

    def rare(copies: int) -> bool:
        tail = sum(math.comb(copies, j) * 3 ** (copies - j) for j in range((copies + 1) // 2, copies + 1))
        return fractions.Fraction(tail, 4**copies) <= fractions.Fraction(float(failure))

    copies = smallest_odd(rare)
    assert copies is not None
    return copies


class EliminationPhase(NamedTuple):
    """A phase of G-optimal elimination."""

    rows: int  # n_l, rows of its design
    copies: int  # k_l, pulls of each row; 1 where the estimator takes single payoffs


def elimination_failure(phase: Number, *, num_arms: int, delta: Number) -> Number:
    """dl = delta/(K l (l+1)), one arm's share of delta in phase l = 1, 2, ...; all the shares sum to delta."""
    return delta / (num_arms * phase * (phase + 1))


def elimination_phases(
    horizon: int, *, dim: int, num_arms: int, delta: float, medians: bool = False
) -> tuple[EliminationPhase, ...]:
    """Every phase that fits whole into T pulls: n_l = 2d 2^{l-1} rows, each pulled once, or k_l times with ``medians``.

    Raises:
        ValueError: if not even the first phase fits; the message names the smallest T.
    """
    phases: list[EliminationPhase] = []
    used = 0
    while True:
        number = len(phases) + 1
        failure = elimination_failure(number, num_arms=num_arms, delta=delta)
        phase = EliminationPhase(2 * dim * 2 ** (number - 1), median_copies(failure) if medians else 1)
        used += phase.rows * phase.copies
        if used > horizon:
            break
        phases.append(phase)
    if not phases:
        reason = f"2 d rows of {phase.copies} pulls each" if medians else "2 d"
        raise ValueError(f"horizon={horizon}: the first phase of G-optimal elimination needs T >= {used} ({reason})")
    return tuple(phases)


def greedy_leverage_bound(rows: float, *, dim: int, ridge: float, arm_norm: float) -> float:
    """exp(d ln(1 + n D^2/(lambda d))/n) - 1 >= max a^T A^-1 a after n rows of the greedy design, about d/n.

    The largest leverage never grows, so that n ln(1 + it) <= ln(det A/det(lambda I)).
    """
    return math.expm1(log_det_bound(rows, dim=dim, ridge=ridge, arm_norm=arm_norm) / rows)


def gopt_elim_regret_bound(
    horizon: int, *, dim: int, num_arms: int, delta: float, epsilon: float, **constants: float
) -> float:
    """2 L n_1 + 8 sum_l n_l e_l of G-optimal elimination with Catoni's estimate; derived here; host numbers only.

    e_l = (p l_l/eps)^{eps/p} b^{1/p} n_l^a g_l + sqrt(lambda) S g_l is the largest width that phase l can have, with
    l_l = ln(2/dl) and g_l^2 = `greedy_leverage_bound`. What survives phase l is within 4 e_l of the best arm, and
    played less than n_{l+1} = 2 n_l times before the next phase is over. Holds with probability at least 1 - delta.
    `constants` are the other ones of the formula.
    """
    check_constants(constants)
    p = 1 + epsilon
    phases = elimination_phases(horizon, dim=dim, num_arms=num_arms, delta=delta)
    total = 2 * constants["mean_bound"] * phases[0].rows
    for number, phase in enumerate(phases, start=1):
        leverage = math.sqrt(at(greedy_leverage_bound, constants, phase.rows, dim=dim))
        log = ln(2 / elimination_failure(number, num_arms=num_arms, delta=delta))
        noise = (p * log / epsilon) ** (epsilon / p) * constants["raw_moment_bound"] ** (1 / p)
        spread = noise * phase.rows ** growth_exponent(epsilon)
        total += 8 * phase.rows * leverage * (spread + at(initial_radius, constants))
    return total


# Explore, then commit (derived here)


def etc_schedule(horizon: int, *, dim: int, num_arms: int, delta: float) -> EliminationPhase:
    """One design of floor(n0/k) rows, n0 = floor(T^{2/3}), each pulled k = `median_copies`(delta/K) times.

    Raises:
        ValueError: if the design has fewer than d rows; the message names the smallest T.
    """
    copies = median_copies(delta / num_arms)
    pulls = round(horizon ** (2 / 3)) + 1
    while pulls**3 > horizon**2:
        pulls -= 1
    if pulls // copies < dim:
        smallest = math.isqrt((dim * copies) ** 3 - 1) + 1  # the smallest T with T^2 >= (d k)^3
        raise ValueError(
            f"horizon={horizon}: explore_then_commit at delta={delta} needs T >= {smallest}: T^(2/3) pulls for d rows"
            f" of {copies} pulls each"
        )
    return EliminationPhase(pulls // copies, copies)


def explore_then_commit_regret_bound(
    horizon: int, *, dim: int, num_arms: int, delta: float, epsilon: float, **constants: float
) -> float:
    """2 L n + 2 T e: n pulls of the design, and e the largest width of its medians; derived here; host numbers only.

    e = (2^{4-p} c)^{1/p} m^a g + sqrt(lambda) S g for m rows, g^2 = `greedy_leverage_bound`. Holds with probability at
    least 1 - delta; the policy is not told c or epsilon. `constants` are the other ones of the formula.
    """
    check_constants(constants)
    p = 1 + epsilon
    rows, copies = etc_schedule(horizon, dim=dim, num_arms=num_arms, delta=delta)
    leverage = math.sqrt(at(greedy_leverage_bound, constants, rows, dim=dim))
    spread = (2 ** (4 - p) * constants["central_moment_bound"]) ** (1 / p) * rows ** growth_exponent(epsilon)
    width = leverage * (spread + at(initial_radius, constants))
    return 2 * constants["mean_bound"] * rows * copies + 2 * horizon * width


# sup_btc and sup_bmm: stages (the family of Xue, Wang, Wang, Zhang 2020)


def sup_stages(rounds: int) -> int:
    """floor(ln T) stages, and at least one; T counts pulls, or epochs."""
    return max(1, math.floor(math.log(rounds)))


def sup_log(horizon: Number, *, num_arms: int, num_stages: int, delta: Number) -> Number:
    """L = ln(2 K T S/delta): every arm, pull and stage and both tails have a share of delta."""
    return ln(2 * num_arms * horizon * num_stages / delta)


def sup_btc_factor(horizon: Number, *, num_arms: int, delta: Number, raw_moment_bound: Number) -> Number:
    """(2/3) l + sqrt(2 l b) + b with l = ln(2 T K ln T/delta), the paper's alpha of truncation over t^a.

    ln T counts as 1 where it is less, for T = 2 and below.
    """
    logs = namespace(horizon, delta).maximum(ln(horizon), 1.0)
    log = ln(2 * horizon * num_arms * logs / delta)
    return 2 / 3 * log + sqrt(2 * log * raw_moment_bound) + raw_moment_bound


class SupSchedule(NamedTuple):
    """Epochs of sup_bmm and bmm_ucb: all counts are host integers."""

    copies: int  # k, pulls per epoch
    epochs: int  # N = floor(T/k)
    stages: int  # S = floor(ln N), at least 1; 1 without stages


def sup_bmm_schedule(
    horizon: int, *, num_arms: int, delta: float, literal: bool = False, staged: bool = True
) -> SupSchedule:
    """The smallest odd k whose medians fail with at most delta/(N K S), N = floor(T/k); host numbers only.

    With ``literal`` the paper's k = ceil(8 ln(2 K T ln T/delta)), even or odd.

    Raises:
        ValueError: if T is too short for one epoch.
    """

    def made(copies: int) -> SupSchedule:
        epochs = horizon // copies
        return SupSchedule(copies, epochs, sup_stages(max(epochs, 1)) if staged else 1)

    def needed(plan: SupSchedule) -> int:
        return median_copies(delta / (max(plan.epochs, 1) * num_arms * plan.stages))

    if literal:
        copies = math.ceil(8 * math.log(2 * num_arms * horizon * max(math.log(horizon), 1) / delta))
        smallest = f"{copies} pulls, the paper's k"
    else:
        copies = needed(made(1))  # more than enough: longer epochs are fewer
        while copies > 1 and needed(made(copies - 2)) <= copies - 2:
            copies -= 2
        smallest = f"{median_copies(delta / num_arms)} pulls, one epoch's"
    if copies > horizon:
        raise ValueError(f"horizon={horizon}: medians of {num_arms} arms at delta={delta} need at least {smallest}")
    return made(copies)


# Regression on adaptively chosen arms, after 2018. The ideas are those of the papers named, the constants are derived
# here; they are not the papers'.


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
    one has w^2 = cap and costs 2 L. No pull is capped where D^2/lambda <= cap. With t0 = 0 no payoff moves the
    estimate, and 2 L T is left, which always holds.
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


def crtm_level(horizon: Number, *, delta: Number, **constants: Number) -> Number:
    """G = (b/l)^{1/p} T^a sqrt(k): payoffs with |y| ||x|| beyond it, in the norm of V^-1, are dropped; derived here.

    k = d ln(1 + T D^2 / (lambda d)), `log_det_bound`; V includes x. `constants` are those of k, b and epsilon.
    """
    check_constants(constants)
    growth = at(log_det_bound, constants, horizon)
    return at(_crtm_bias, constants, horizon, delta=delta) * sqrt(growth)


def _crtm_bias(horizon: Number, delta: Number, raw_moment_bound: Number, epsilon: Number) -> Number:
    """(b/l)^{1/p} T^a."""
    return (raw_moment_bound / union_log(delta)) ** (1 / (1 + epsilon)) * horizon ** growth_exponent(epsilon)


def crtm_radius(horizon: Number, *, delta: Number, **constants: Number) -> Number:
    """beta = sqrt(lambda) S + (C + 1/sqrt(k)) G l, the same for every t <= T; derived here.

    C = A/2 + sqrt(A^2/4 + (e + 3)/l) with A = 4/3 + sqrt(16/9 + 8); the second term in the bracket is the bias.
    `constants` are S and the other ones of `crtm_level`.
    """
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
    """Epochs of crmm: all counts are host integers."""

    pulls: int  # r, pulls per epoch, odd
    epochs: int  # N = floor(T/r)


def crmm_schedule(horizon: int, *, delta: float) -> CrmmSchedule:
    """The smallest odd r with 2 P(Bin(r, 1/8) >= (r + 1)/2) <= delta/(2 N), N = floor(T/r); derived here.

    Symmetric noise that is beyond R with a probability of at most 1/4 is above it, and below -R, with at most 1/8: all
    N medians are then within R of their means with probability 1 - delta/2.

    Raises:
        ValueError: if T is too short for one epoch.
    """
    return _median_schedule("crmm", horizon, delta, 1)


def mean_of_medians_schedule(horizon: int, *, delta: float, blocks: int = 1) -> CrmmSchedule:
    """The smallest odd g with 2 P(Bin(g, 1/8) >= (g + 1)/2) <= delta/(2 N k'), N = floor(T/(g k')); `blocks` is k'.

    As `crmm_schedule`, which it is for k' = 1, for k' medians an epoch: ``pulls`` is g. Derived here.

    Raises:
        ValueError: if T is too short for one epoch.
    """
    return _median_schedule("mean_of_medians", horizon, delta, blocks)


def _median_schedule(policy: str, horizon: int, delta: float, blocks: int) -> CrmmSchedule:
    def failure(pulls: int) -> float:
        """4 P(Bin(r, 1/8) >= (r + 1)/2) for an odd r, from exact integers."""
        ways = sum(math.comb(pulls, above) * 7 ** (pulls - above) for above in range((pulls + 1) // 2, pulls + 1))
        return 4 * ways / 8**pulls

    def rare(pulls: int) -> bool:
        return failure(pulls) * (horizon // (pulls * blocks)) * blocks <= delta

    pulls = smallest_odd(rare, horizon // blocks)
    if pulls is not None:
        return CrmmSchedule(pulls, horizon // (pulls * blocks))
    smallest = smallest_odd(lambda pulls: failure(pulls) * blocks <= delta)
    assert smallest is not None
    least = smallest * blocks
    raise ValueError(f"horizon={horizon}: {policy} at delta={delta} needs at least {least} pulls, one epoch's")


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
