"""Plain single-run NumPy implementations of MENU, TOFU, MoM, CRT and OFUL: what the library is timed against.

Written as a careful researcher writes a simulation: float64, preallocated histories, matrix products instead of loops
over arms or coordinates, `np.partition` for medians, Sherman-Morrison for inverses. TOFU truncates its whole history
anew at every round, as its pseudocode does. Nothing is vectorised over runs, nothing is compiled, no round is pruned.

Every policy takes the arms [K, d], their means [K], the constants it is told, one standard noise variate per pull [T]
and a function (variates, mean) -> payoffs, and returns the arms played [T] and the cumulative pseudo-regret [T]. Fed
the variates of linbet_jax it plays the same arms as linbet_jax in float64, which the benchmark checks first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Payoff = Callable[[Any, float], Any]


@dataclasses.dataclass(frozen=True)
class Constants:
    """What a policy is told: T in pulls, S, epsilon, b (raw moment), c (central moment), R (noise scale), ..."""

    horizon: int
    theta_norm: float
    epsilon: float = 1.0
    delta: float = 0.1
    ridge: float = 1.0
    radius_scale: float = 1.0
    raw_moment_bound: float = math.nan
    central_moment_bound: float = math.nan
    noise_scale: float = math.nan


class Run(NamedTuple):
    """Arms played [T] and cumulative pseudo-regret [T]."""

    arms: np.ndarray
    regret: np.ndarray


def additive(scale: float = 1.0) -> Payoff:
    """Payoff = mean + scale * variate (Student t noise)."""
    return lambda variates, mean: mean + scale * variates


def pareto(shape: float) -> Payoff:
    """Payoff = scale * variate with the Pareto law's scale, mean (shape - 1) / shape."""
    share = (shape - 1.0) / shape
    return lambda variates, mean: mean * share * variates


# Kernels ------------------------------------------------------------------------------------------------------


def inverse_sqrt(gram: np.ndarray) -> np.ndarray:
    """The symmetric root V^(-1/2) [d, d]."""
    values, vectors = np.linalg.eigh(gram)
    return (vectors / np.sqrt(values)) @ vectors.T


def truncated_estimate(weighted: np.ndarray, root: np.ndarray, level: float) -> np.ndarray:
    """TOFU's estimate [d] from y_tau x_tau [d, t] by the full pass: drop |u y| > level in each coordinate."""
    products = root @ weighted
    products[np.abs(products) > level] = 0.0
    return root @ products.sum(axis=1)


def median_center(estimates: np.ndarray, gram: np.ndarray) -> int:
    """MENU's k*: the estimate [k, d] whose median distance to the others in the gram norm is smallest."""
    count = len(estimates)
    points = (estimates - estimates.mean(axis=0)) @ np.linalg.cholesky(gram)
    norms = np.einsum("ij,ij->i", points, points)
    squared = norms[:, None] + norms[None, :] - 2.0 * (points @ points.T)
    np.fill_diagonal(squared, np.inf)  # the distance to itself is not in the set
    low, high = (count - 2) // 2, (count - 1) // 2
    middle = np.partition(squared, sorted({low, high}), axis=1)
    medians = np.sqrt(np.maximum(middle[:, low], 0.0)) + np.sqrt(np.maximum(middle[:, high], 0.0))
    return int(np.argmin(medians))


def rank_one(inverse: np.ndarray, feature: np.ndarray) -> None:
    """V^-1 <- (V + x x^T)^-1 in place."""
    image = inverse @ feature
    inverse -= np.outer(image, image / (1.0 + feature @ image))


def optimistic(arms: np.ndarray, center: np.ndarray, inverse: np.ndarray, radius: float) -> int:
    """argmax <x, center> + radius ||x||_{V^-1}, ties to the lowest index."""
    return int(np.argmax(arms @ center + radius * np.sqrt(np.einsum("ij,ij->i", arms @ inverse, arms))))


# Policies -----------------------------------------------------------------------------------------------------


class Tofu:
    """TOFU (Algorithm 2): the proof's level, two-sided, every round over the whole history, O(T^2 d^2)."""

    def __init__(self, arms: np.ndarray, constants: Constants) -> None:
        """Before the first pull."""
        c, dim = constants, arms.shape[1]
        p = 1.0 + c.epsilon
        log = math.log(2.0 * dim * c.horizon / c.delta)
        self.arms = arms
        self.growth = (1.0 - c.epsilon) / (2.0 * p)
        self.level = (c.raw_moment_bound / log) ** (1.0 / p)
        self.spread = 4.0 * math.sqrt(dim) * c.raw_moment_bound ** (1.0 / p) * log ** (c.epsilon / p)
        self.offset = math.sqrt(c.ridge) * c.theta_norm
        self.scale = c.radius_scale
        self.weighted = np.empty((dim, c.horizon))  # y_tau x_tau; twice as fast as [T, d] in the sums over tau
        self.gram = c.ridge * np.eye(dim)
        self.root = np.eye(dim) / math.sqrt(c.ridge)
        self.center = np.zeros(dim)
        self.radius = self.scale * self.offset
        self.pulls = 0

    def select(self) -> int:
        """The optimistic arm; ||x||_{V^-1} is the length of V^(-1/2) x."""
        whitened = self.arms @ self.root
        widths = np.sqrt(np.einsum("ij,ij->i", whitened, whitened))
        return int(np.argmax(self.arms @ self.center + self.radius * widths))

    def observe(self, arm: int, payoff: float) -> None:
        """One payoff: V, its root, the truncated estimate and the radius."""
        feature = self.arms[arm]
        self.weighted[:, self.pulls] = payoff * feature
        self.gram += np.outer(feature, feature)
        self.pulls += 1
        growth = self.pulls**self.growth
        self.root = inverse_sqrt(self.gram)
        self.center = truncated_estimate(self.weighted[:, : self.pulls], self.root, self.level * growth)
        self.radius = self.scale * (self.spread * growth + self.offset)

    def load(self, played: np.ndarray, payoffs: np.ndarray) -> None:
        """Puts it where a run with these arms and payoffs stands, as if observed one by one."""
        features = self.arms[played[:-1]]
        self.weighted[:, : len(features)] = (payoffs[:-1, None] * features).T
        self.gram += features.T @ features
        self.pulls = len(features)
        self.observe(int(played[-1]), float(payoffs[-1]))


def tofu(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """TOFU for T rounds."""
    policy = Tofu(arms, constants)
    played = np.empty(constants.horizon, dtype=np.int64)
    for t in range(constants.horizon):
        arm = policy.select()
        played[t] = arm
        policy.observe(arm, payoff(noise[t], means[arm]))
    return Run(played, np.cumsum(means.max() - means[played]))


def menu(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """MENU (Algorithm 1): k pulls of one arm an epoch, k ridge estimates, the one nearest to the others."""
    c, dim = constants, arms.shape[1]
    p = 1.0 + c.epsilon
    pulls = math.ceil(24.0 * math.log(math.e * c.horizon / c.delta))
    growth = (1.0 - c.epsilon) / (2.0 * p)
    spread = (9.0 * dim * c.central_moment_bound) ** (1.0 / p)
    offset = math.sqrt(c.ridge) * c.theta_norm
    gram, inverse = c.ridge * np.eye(dim), np.eye(dim) / c.ridge
    moments, center, radius = np.zeros((dim, pulls)), np.zeros(dim), offset
    played = np.empty(c.horizon, dtype=np.int64)
    for n in range(1, c.horizon // pulls + 1):
        arm = optimistic(arms, center, inverse, c.radius_scale * radius)
        feature, stop = arms[arm], n * pulls
        played[stop - pulls : stop] = arm
        moments += np.outer(feature, payoff(noise[stop - pulls : stop], means[arm]))
        gram += np.outer(feature, feature)
        rank_one(inverse, feature)
        estimates = moments.T @ inverse
        center = estimates[median_center(estimates, gram)]
        radius = 3.0 * (spread * n**growth + offset)
    played[c.horizon // pulls * pulls :] = optimistic(arms, center, inverse, c.radius_scale * radius)
    return Run(played, np.cumsum(means.max() - means[played]))


def mom(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """MoM (Medina and Yang 2016) with the valid radius: r pulls of one arm an epoch, the median of q block means."""
    c, dim = constants, arms.shape[1]
    p = 1.0 + c.epsilon
    epochs = max(1, math.floor(c.horizon ** (2.0 * c.epsilon / (1.0 + 3.0 * c.epsilon)) + 1e-9))
    while c.horizon // epochs < math.ceil(8.0 * math.log(2.0 * epochs / c.delta)):
        epochs -= 1  # fewer, longer epochs until every block has a pull
    pulls, blocks = c.horizon // epochs, math.ceil(8.0 * math.log(2.0 * epochs / c.delta))
    size = pulls // blocks
    spread = (12.0 * c.central_moment_bound) ** (1.0 / p) * size ** (-c.epsilon / p)
    offset = math.sqrt(c.ridge) * c.theta_norm
    inverse, moments, center, radius = np.eye(dim) / c.ridge, np.zeros(dim), np.zeros(dim), offset
    played = np.empty(c.horizon, dtype=np.int64)
    for n in range(1, epochs + 1):
        arm = optimistic(arms, center, inverse, c.radius_scale * radius)
        start = (n - 1) * pulls
        played[start : start + pulls] = arm
        received = payoff(noise[start : start + pulls], means[arm])
        moments += np.median(received[: blocks * size].reshape(blocks, size).mean(axis=1)) * arms[arm]
        rank_one(inverse, arms[arm])
        center = inverse @ moments
        radius = spread * math.sqrt(n) + offset
    played[epochs * pulls :] = optimistic(arms, center, inverse, c.radius_scale * radius)
    return Run(played, np.cumsum(means.max() - means[played]))


def _ridge_rounds(
    arms: np.ndarray,
    means: np.ndarray,
    c: Constants,
    noise: np.ndarray,
    payoff: Payoff,
    level: Callable[[int], float],
    beta: Callable[[int, float], float],
) -> Run:
    """Optimism around one ridge estimate of payoffs cut at level(t); the radius is beta(t, ln det V / det lambda I)."""
    dim = arms.shape[1]
    gram, inverse, moments, center = c.ridge * np.eye(dim), np.eye(dim) / c.ridge, np.zeros(dim), np.zeros(dim)
    start = dim * math.log(c.ridge)
    radius = math.sqrt(c.ridge) * c.theta_norm
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(1, c.horizon + 1):
        arm = optimistic(arms, center, inverse, c.radius_scale * radius)
        played[t - 1] = arm
        received = payoff(noise[t - 1], means[arm])
        if abs(received) <= level(t):
            moments += received * arms[arm]
        gram += np.outer(arms[arm], arms[arm])
        rank_one(inverse, arms[arm])
        center = inverse @ moments
        radius = beta(t, float(np.linalg.slogdet(gram)[1]) - start)
    return Run(played, np.cumsum(means.max() - means[played]))


def crt(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """CRT (Medina and Yang 2016) with the valid radius: payoffs beyond t^(1/(2p)) are dropped once."""
    c = constants
    p = 1.0 + c.epsilon
    offset, drift, power = math.sqrt(c.ridge) * c.theta_norm, c.raw_moment_bound * math.sqrt(p), 1.0 / (2.0 * p)

    def beta(t: int, log_det: float) -> float:
        martingale = math.sqrt(2.0 * (0.5 * log_det + math.log(t * (t + 1.0) / c.delta)))
        return t**power * (martingale + drift) + offset

    return _ridge_rounds(arms, means, c, noise, payoff, lambda t: t**power, beta)


def oful(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """OFUL (Abbasi-Yadkori et al. 2011)."""
    c = constants
    offset, fixed = math.sqrt(c.ridge) * c.theta_norm, math.log(1.0 / c.delta)

    def beta(t: int, log_det: float) -> float:
        return c.noise_scale * math.sqrt(2.0 * (0.5 * log_det + fixed)) + offset

    return _ridge_rounds(arms, means, c, noise, payoff, lambda t: math.inf, beta)


POLICIES: dict[str, Callable[[np.ndarray, np.ndarray, Constants, np.ndarray, Payoff], Run]] = {
    "menu": menu,
    "tofu": tofu,
    "mom": mom,
    "crt": crt,
    "oful": oful,
}
