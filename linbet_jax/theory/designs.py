"""Fixed designs: G-optimal elimination, explore-then-commit, and the stages of SupBTC and SupBMM."""

from __future__ import annotations

import fractions
import math
from typing import NamedTuple

from linbet_jax.theory.common import (
    Number,
    at,
    check_constants,
    growth_exponent,
    initial_radius,
    ln,
    log_det_bound,
    namespace,
    smallest_odd,
    sqrt,
)

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
    """A phase of G-optimal elimination.

    Attributes:
        rows: n_l, rows of its design.
        copies: k_l, pulls of each row; 1 where the estimator takes single payoffs.
    """

    rows: int
    copies: int


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

    Of T = 2 and below ln T is taken as 1.
    """
    logs = namespace(horizon, delta).maximum(ln(horizon), 1.0)
    log = ln(2 * horizon * num_arms * logs / delta)
    return 2 / 3 * log + sqrt(2 * log * raw_moment_bound) + raw_moment_bound


class SupSchedule(NamedTuple):
    """Epochs of sup_bmm and bmm_ucb: all counts are host integers.

    Attributes:
        copies: k, pulls per epoch.
        epochs: N = floor(T/k).
        stages: S = floor(ln N), at least 1; 1 without stages.
    """

    copies: int
    epochs: int
    stages: int


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
