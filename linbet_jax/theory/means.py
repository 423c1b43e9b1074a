"""Means of K arms that tell nothing of one another: robust_ucb and adar_ucb."""

from __future__ import annotations

import math

from linbet_jax.theory.common import Number, ln, sqrt

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
    horizon: Number,
    *,
    num_arms: int,
    delta: Number,
    raw_moment_bound: Number,
    epsilon: Number,
    mean_bound: Number,
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
