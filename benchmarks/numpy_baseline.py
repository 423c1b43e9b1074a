"""Plain single-run NumPy implementations of the policies: what the library is timed against.

Written as a careful researcher writes a simulation: float64, preallocated histories, matrix products instead of loops
over arms or coordinates, `np.partition` for medians, Sherman-Morrison for inverses. TOFU truncates its whole history
anew at every round, as its pseudocode does, and SupBTC a stage's; a phase of elimination is one product. Nothing is
vectorised over runs, nothing is compiled, no round is pruned.

Every policy takes the arms [K, d], their means [K], the constants it is told, one standard noise variate per pull [T]
and a function (variates, mean) -> payoffs, and returns the arms played [T] and the cumulative pseudo-regret [T]; those
in `CHOICES` also take the random numbers that they choose by, one row per pull. Fed the numbers of linbet_jax it plays
the same arms as linbet_jax in float64, which the benchmark checks first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Payoff = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Constants:
    """What a policy is told: T in pulls, S, epsilon, b (raw moment), c (central moment), R (noise scale), D, L, ..."""

    horizon: int
    theta_norm: float = math.nan
    epsilon: float = 1.0
    delta: float = 0.1
    ridge: float = 1.0
    radius_scale: float = 1.0
    raw_moment_bound: float = math.nan
    central_moment_bound: float = math.nan
    noise_scale: float = math.nan
    arm_norm: float = math.nan
    mean_bound: float = math.nan
    quantile: float = math.nan
    learning_rate: float = math.nan
    clip: float = math.nan
    exploration: float = math.nan

    @property
    def power(self) -> float:
        """p = 1 + epsilon."""
        return 1.0 + self.epsilon

    @property
    def bias(self) -> float:
        """sqrt(lambda) S."""
        return math.sqrt(self.ridge) * self.theta_norm


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


def _potential(dim: int, c: Constants) -> float:
    """d ln(1 + T D^2/(d lambda))."""
    return dim * math.log(1.0 + c.horizon * c.arm_norm**2 / (dim * c.ridge))


def _huber_constants(dim: int, c: Constants, log: float, factor: float) -> tuple[float, float, float]:
    """t0, beta and the cap of Huber regression, with l = ``log`` and C = ``factor``."""
    growth = c.horizon ** ((2.0 - c.power) / (2.0 * c.power))
    move = (c.central_moment_bound / log) ** (1.0 / c.power) * math.sqrt(_potential(dim, c)) * growth
    beta = c.bias + factor * move * log
    return move, beta, move / (2.0 * beta)


def _weighed(squared: float, move: float, cap: float) -> tuple[float, float]:
    """The weight of a payoff, min(1, cap / ||x||^2), and its level."""
    weight = min(1.0, cap / squared)
    return weight, move * math.sqrt((1.0 + weight * squared) / (weight * squared)) / math.sqrt(weight)


def hvt_ucb(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """One-pass Huber regression: estimate and inverse move by rank one; `ridge` is the one in use."""
    c, dim, p = constants, arms.shape[1], constants.power
    log, kappa = math.log(2.0 / c.delta), c.epsilon**c.epsilon / p**p
    start = 4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0 * 1.5 ** (2.0 - p)) + 2.0 * kappa * 2.0**c.epsilon
    factor = start
    for _ in range(30):
        width = 1.0 / (2.0 * factor * log)
        half = start * math.sqrt(1.0 + width) / 2.0
        factor = half + math.sqrt(half * half + (1.0 + width) * math.e / log)
    move, beta, cap = _huber_constants(dim, c, log, factor)
    inverse, center = np.eye(dim) / c.ridge, np.zeros(dim)
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(c.horizon):
        arm = optimistic(arms, center, inverse, c.radius_scale * beta)
        played[t] = arm
        feature = arms[arm]
        image = inverse @ feature
        squared = float(feature @ image)
        weight, level = _weighed(squared, move, cap)
        residual = min(max(float(payoff(noise[t], means[arm]) - feature @ center), -level), level)
        scaled = image * (weight / (1.0 + weight * squared))
        center += residual * scaled
        inverse -= np.outer(image, scaled)
    return Run(played, np.cumsum(means.max() - means[played]))


def crtm(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """One-pass truncation: a payoff is kept where |y| ||x|| is at most G, once."""
    c, dim, p = constants, arms.shape[1], constants.power
    log, growth = math.log(2.0 / c.delta), _potential(dim, c)
    unit = (c.raw_moment_bound / log) ** (1.0 / p) * c.horizon ** ((2.0 - p) / (2.0 * p))
    half = (4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0)) / 2.0
    factor = half + math.sqrt(half * half + (math.e + 3.0) / log)
    level = unit * math.sqrt(growth)
    radius = c.radius_scale * (c.bias + (factor + 1.0 / math.sqrt(growth)) * level * log)
    inverse, moments, center = np.eye(dim) / c.ridge, np.zeros(dim), np.zeros(dim)
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(c.horizon):
        arm = optimistic(arms, center, inverse, radius)
        played[t] = arm
        feature, received = arms[arm], payoff(noise[t], means[arm])
        rank_one(inverse, feature)
        if abs(received) * math.sqrt(feature @ inverse @ feature) <= level:
            moments += received * feature
        center = inverse @ moments
    return Run(played, np.cumsum(means.max() - means[played]))


def _median_rounds(
    arms: np.ndarray, means: np.ndarray, c: Constants, noise: np.ndarray, payoff: Payoff, scale: float, start: float
) -> Run:
    """OFUL with the scale R at delta/2 on medians of r pulls; ``start`` is the radius before the first."""
    dim, pulls = arms.shape[1], 1
    while _binomial_tail(pulls, 8) * (c.horizon // pulls) > c.delta / 4.0:
        pulls += 2
    gram, inverse, moments, center = c.ridge * np.eye(dim), np.eye(dim) / c.ridge, np.zeros(dim), np.zeros(dim)
    first, radius = dim * math.log(c.ridge), start
    played = np.empty(c.horizon, dtype=np.int64)
    for n in range(c.horizon // pulls):
        arm = optimistic(arms, center, inverse, c.radius_scale * radius)
        here = slice(n * pulls, (n + 1) * pulls)
        played[here] = arm
        moments += np.median(payoff(noise[here], means[arm])) * arms[arm]
        gram += np.outer(arms[arm], arms[arm])
        rank_one(inverse, arms[arm])
        center = inverse @ moments
        log_det = float(np.linalg.slogdet(gram)[1]) - first
        radius = scale * math.sqrt(2.0 * (0.5 * log_det + math.log(2.0 / c.delta))) + c.bias
    played[c.horizon // pulls * pulls :] = optimistic(arms, center, inverse, c.radius_scale * radius)
    return Run(played, np.cumsum(means.max() - means[played]))


def _binomial_tail(trials: int, chance: int) -> float:
    """P(Bin(r, 1/chance) >= (r + 1)/2) of an odd r."""
    ways = (math.comb(trials, j) * (chance - 1) ** (trials - j) for j in range((trials + 1) // 2, trials + 1))
    return sum(ways) / chance**trials


def crmm(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """Medians of r pulls for symmetric noise."""
    c = constants
    start = c.quantile * math.sqrt(2.0 * math.log(2.0 / c.delta)) + c.bias
    return _median_rounds(arms, means, c, noise, payoff, c.quantile, start)


def mean_of_medians(
    arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff
) -> Run:
    """OFUL on medians, one a pull: its first radius is sqrt(lambda) S."""
    return _median_rounds(arms, means, constants, noise, payoff, constants.noise_scale, constants.bias)


def heavy_oful(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """Adaptive Huber regression over the whole history, by Newton's method from the last minimiser."""
    c, dim, p = constants, arms.shape[1], constants.power
    log = math.log(3.0 / c.delta)
    half = (4.0 / 3.0 + math.sqrt(16.0 / 9.0 + 8.0)) / 2.0 + c.epsilon**c.epsilon / p**p
    factor = half + math.sqrt(half * half + math.e / log) + ((math.e - 1.0) * 2.0**p + 1.0) / 2.0
    move, beta, cap = _huber_constants(dim, c, log, factor)
    inverse, center = np.eye(dim) / c.ridge, np.zeros(dim)
    hessian, within = c.ridge * np.eye(dim), np.empty(0, dtype=bool)
    rows, targets, levels = np.empty((c.horizon, dim)), np.empty(c.horizon), np.empty(c.horizon)  # times sqrt(weight)
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(c.horizon):
        arm = optimistic(arms, center, inverse, c.radius_scale * beta)
        played[t] = arm
        feature = arms[arm]
        weight, level = _weighed(float(feature @ inverse @ feature), move, cap)
        root = math.sqrt(weight)
        rows[t], targets[t], levels[t] = root * feature, root * payoff(noise[t], means[arm]), root * level
        rank_one(inverse, rows[t])
        hessian += np.outer(rows[t], rows[t])
        within = np.append(within, True)  # as the Hessian has it
        x, y, h = rows[: t + 1], targets[: t + 1], levels[: t + 1]
        for _ in range(100):
            residuals = y - x @ center
            sides = np.abs(residuals) <= h
            if not np.array_equal(sides, within):
                within = sides
                hessian = c.ridge * np.eye(dim) + x[sides].T @ x[sides]
            gradient = c.ridge * center - np.clip(residuals, -h, h) @ x
            if gradient @ inverse @ gradient <= (1e-11 * move) ** 2:
                break
            center = center - np.linalg.solve(hessian, gradient)
    return Run(played, np.cumsum(means.max() - means[played]))


def lints(
    arms: np.ndarray,
    means: np.ndarray,
    constants: Constants,
    noise: np.ndarray,
    payoff: Payoff,
    choices: np.ndarray,
) -> Run:
    """Thompson sampling with a root of V^-1 that moves by rank one; ``choices`` [T, d] are standard normal."""
    c, dim = constants, arms.shape[1]
    scale = c.radius_scale * c.noise_scale * math.sqrt(9.0 * dim * math.log(c.horizon / c.delta))
    root, center = np.eye(dim) / math.sqrt(c.ridge), np.zeros(dim)
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(c.horizon):
        arm = int(np.argmax(arms @ (center + scale * (choices[t] @ root))))
        played[t] = arm
        feature = arms[arm]
        whitened = root @ feature
        image, grown = whitened @ root, 1.0 + whitened @ whitened
        root -= np.outer(whitened / (grown + math.sqrt(grown)), image)
        center += image * ((payoff(noise[t], means[arm]) - feature @ center) / grown)
    return Run(played, np.cumsum(means.max() - means[played]))


def sgd(
    arms: np.ndarray,
    means: np.ndarray,
    constants: Constants,
    noise: np.ndarray,
    payoff: Payoff,
    choices: np.ndarray,
) -> Run:
    """Gradient steps on the squared loss, clipped and projected; ``choices`` [T, 2]: whether to explore, and where."""
    c, theta = constants, np.zeros(arms.shape[1])
    played = np.empty(c.horizon, dtype=np.int64)
    explores = choices[:, 0] < c.radius_scale * c.exploration
    other = np.minimum((choices[:, 1] * len(arms)).astype(np.int64), len(arms) - 1)
    for t in range(c.horizon):
        arm = int(other[t]) if explores[t] else int(np.argmax(arms @ theta))
        played[t] = arm
        feature = arms[arm]
        gradient = (feature @ theta - payoff(noise[t], means[arm])) * feature
        norm = math.sqrt(gradient @ gradient)
        if norm > c.clip:
            gradient *= c.clip / norm
        theta -= c.learning_rate / math.sqrt(t + 1.0) * gradient
        norm = math.sqrt(theta @ theta)
        if norm > c.theta_norm:
            theta *= c.theta_norm / norm
    return Run(played, np.cumsum(means.max() - means[played]))


def greedy_design(arms: np.ndarray, rows: int, ridge: float, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of each arm [K] and A^-1 [d, d] of the greedy design: the largest leverage first, row by row."""
    inverse = np.eye(arms.shape[1]) / ridge
    leverages = np.where(active, np.einsum("ij,ij->i", arms, arms) / ridge, -1.0)
    counts = np.zeros(len(arms), dtype=np.int64)
    for _ in range(rows):
        index = int(np.argmax(leverages >= leverages.max() * (1.0 - 1e-11)))  # ties to the lowest index
        counts[index] += 1
        image = inverse @ arms[index]
        grown = 1.0 + leverages[index]
        leverages -= (arms @ image) ** 2 / grown
        inverse -= np.outer(image, image / grown)
    return counts, inverse


def gopt_elim(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """Elimination on greedy designs with Catoni's estimate, a whole phase at once, then the best survivor."""
    c, (num_arms, dim), p = constants, arms.shape, constants.power
    active, references, moments = np.ones(num_arms, bool), np.zeros(num_arms), np.full(num_arms, c.raw_moment_bound)
    played = np.empty(c.horizon, dtype=np.int64)
    values, done, number, rows = np.zeros(num_arms), 0, 1, 2 * dim
    while done + rows <= c.horizon:
        counts, inverse = greedy_design(arms, rows, c.ridge, active)
        weights = arms @ inverse @ arms.T
        here = np.repeat(np.arange(num_arms), counts)
        played[done : done + rows] = here
        log = math.log(2.0 * num_arms * number * (number + 1.0) / c.delta)
        spread = (np.abs(weights) ** p @ (counts * moments)) ** (1.0 / p)
        scale = (p * log / c.epsilon) ** (1.0 / p) / spread
        seen = payoff(noise[done : done + rows], means[here]) - references[here]
        scaled = (scale[:, None] * weights)[:, here] * seen
        sizes = np.abs(scaled)
        influence = np.copysign(np.log1p(sizes + sizes**p / p), scaled).sum(axis=1) / scale
        values = influence + weights @ (counts * references)
        widths = (p / c.epsilon) ** (c.epsilon / p) * spread * log ** (c.epsilon / p)
        widths += c.bias * np.sqrt(np.diag(weights))
        bar = (values - c.radius_scale * widths)[active].max()
        active &= values + c.radius_scale * widths >= bar - 1e-11 * abs(bar)
        if p == 2.0:
            around = c.central_moment_bound + widths**2
        else:
            around = (c.central_moment_bound ** (1.0 / p) + widths) ** p
        closer = around < c.raw_moment_bound
        references, moments = np.where(closer, values, 0.0), np.where(closer, around, c.raw_moment_bound)
        done, number, rows = done + rows, number + 1, 2 * rows
    played[done:] = int(np.argmax(np.where(active, values, -np.inf)))
    return Run(played, np.cumsum(means.max() - means[played]))


def median_copies(failure: float) -> int:
    """The smallest odd k with P(Bin(k, 1/4) >= (k + 1)/2) <= failure."""
    copies = 1
    while _binomial_tail(copies, 4) > failure:
        copies += 2
    return copies


def explore_then_commit(
    arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff
) -> Run:
    """Medians over one greedy design of about T^(2/3) pulls, then the best arm."""
    c, num_arms = constants, len(arms)
    copies = median_copies(c.delta / num_arms)
    pulls = math.floor(c.horizon ** (2.0 / 3.0) + 1e-9)
    counts, inverse = greedy_design(arms, pulls // copies, c.ridge, np.ones(num_arms, bool))
    here = np.repeat(np.arange(num_arms), counts * copies)
    played = np.empty(c.horizon, dtype=np.int64)
    played[: len(here)] = here
    seen = payoff(noise[: len(here)], means[here]).reshape(-1, copies)
    values = np.median(arms @ inverse @ (arms[here[::copies]].T @ seen), axis=1)
    played[len(here) :] = int(np.argmax(values))
    return Run(played, np.cumsum(means.max() - means[played]))


class _Stages:
    """The stages of SupBTC and SupBMM: counts, estimates and widths of every arm in each."""

    def __init__(self, arms: np.ndarray, c: Constants, rounds: int) -> None:
        """Without rows; ``rounds`` is T, or the number of epochs."""
        self.arms, self.c, self.size = arms, c, max(1, math.floor(math.log(rounds)))
        self.least = 2.0 * c.mean_bound / math.sqrt(rounds)
        self.inverses = np.tile(np.eye(arms.shape[1]) / c.ridge, (self.size, 1, 1))
        self.counts = np.zeros((self.size, len(arms)), dtype=np.int64)
        self.values = np.zeros((self.size, len(arms)))
        norms = np.sqrt(np.einsum("ij,ij->i", arms, arms) / c.ridge)
        self.widths = np.tile(c.radius_scale * c.bias * norms, (self.size, 1))

    def decide(self) -> tuple[int, int | None]:
        """The arm to play, and the stage that its payoffs enter."""
        active = np.arange(len(self.arms))
        for stage in range(self.size):
            values, widths = self.values[stage, active], self.widths[stage, active]
            bar = self.c.mean_bound * 2.0**-stage
            widest = int(np.argmax(widths))
            if widths[widest] > self.least and widths[widest] > bar:
                return int(active[widest]), stage
            indices = values + widths
            best = int(np.argmax(indices))
            if widths[widest] <= self.least or stage == self.size - 1:
                break
            near = indices >= indices[best] - 2.0 * bar
            if near.sum() == 1:
                break
            active = active[near]
        return int(active[best]), None

    def grow(self, stage: int, arm: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One row more: A^-1 [d, d], weights [K, K] and the p-norms of their rows' weights [K]."""
        p, inverse = self.c.power, self.inverses[stage]
        self.counts[stage, arm] += 1
        rank_one(inverse, self.arms[arm])
        weights = self.arms @ inverse @ self.arms.T
        return inverse, weights, (np.abs(weights) ** p @ self.counts[stage]) ** (1.0 / p)

    def learn(self, stage: int, weights: np.ndarray, values: np.ndarray, noise: np.ndarray) -> None:
        """What the row has changed: estimates, and the noise's part of the widths."""
        self.values[stage] = values
        self.widths[stage] = self.c.radius_scale * (noise + self.c.bias * np.sqrt(np.diag(weights)))


def sup_btc(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """Truncated estimates in stages: all payoffs of a stage are judged anew with each of its rows."""
    c, p = constants, constants.power
    stages = _Stages(arms, c, c.horizon)
    log = math.log(2.0 * len(arms) * c.horizon * stages.size / c.delta)
    held = [(np.empty(c.horizon, dtype=np.int64), np.empty(c.horizon)) for _ in range(stages.size)]
    played = np.empty(c.horizon, dtype=np.int64)
    for t in range(c.horizon):
        arm, stage = stages.decide()
        played[t] = arm
        if stage is None:
            continue
        rows = int(stages.counts[stage].sum())
        held[stage][0][rows], held[stage][1][rows] = arm, payoff(noise[t], means[arm])
        _, weights, norms = stages.grow(stage, arm)
        spread = c.raw_moment_bound ** (1.0 / p) * norms
        products = weights[:, held[stage][0][: rows + 1]] * held[stage][1][: rows + 1]
        products[np.abs(products) > (spread * log ** (-1.0 / p))[:, None]] = 0.0
        stages.learn(stage, weights, products.sum(axis=1), 2.75 * spread * log ** (c.epsilon / p))
    return Run(played, np.cumsum(means.max() - means[played]))


def sup_bmm(arms: np.ndarray, means: np.ndarray, constants: Constants, noise: np.ndarray, payoff: Payoff) -> Run:
    """Medians of k ridge estimates in stages: every decision is k pulls."""
    c, p, copies = constants, constants.power, 1
    while True:
        epochs = max(1, c.horizon // copies)
        stages = max(1, math.floor(math.log(epochs)))
        if _binomial_tail(copies, 4) <= c.delta / (epochs * len(arms) * stages):
            break
        copies += 2
    play = _Stages(arms, c, epochs)
    moments = np.zeros((play.size, arms.shape[1], copies))
    unit = 2.0 ** ((4.0 - p) / p) * c.central_moment_bound ** (1.0 / p)
    played = np.empty(c.horizon, dtype=np.int64)
    for n in range(epochs):
        arm, stage = play.decide()
        here = slice(n * copies, (n + 1) * copies)
        played[here] = arm
        if stage is None:
            continue
        moments[stage] += np.outer(arms[arm], payoff(noise[here], means[arm]))
        inverse, weights, norms = play.grow(stage, arm)
        play.learn(stage, weights, np.median(arms @ (inverse @ moments[stage]), axis=1), unit * norms)
    played[epochs * copies :] = play.decide()[0]
    return Run(played, np.cumsum(means.max() - means[played]))


POLICIES: dict[str, Callable[..., Run]] = {
    "menu": menu,
    "tofu": tofu,
    "mom": mom,
    "crt": crt,
    "oful": oful,
    "hvt_ucb": hvt_ucb,
    "crtm": crtm,
    "crmm": crmm,
    "heavy_oful": heavy_oful,
    "gopt_elim": gopt_elim,
    "sup_bmm": sup_bmm,
    "sup_btc": sup_btc,
    "lints": lints,
    "explore_then_commit": explore_then_commit,
    "mean_of_medians": mean_of_medians,
    "sgd": sgd,
}
CHOICES = {"lints": "normals", "sgd": "uniforms"}  # [T, d] standard normal numbers, [T, 2] uniform ones
