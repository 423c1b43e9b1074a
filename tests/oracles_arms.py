"""Plain NumPy float64 references of policies that keep one estimate per arm, written from their pseudocode.

A replay is fed the arms and payoffs of a recorded run and asserts that every arm is one that was to be played, up to
ties. Nothing is shared with the library. Letters: p = 1 + epsilon, K arms, T pulls.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Array = NDArray[Any]
TIE = 1e-9


@dataclasses.dataclass(frozen=True)
class Told:
    """What a policy is told."""

    horizon: int
    raw: float
    epsilon: float
    radius_scale: float = 1.0
    delta: float = 0.1

    @property
    def p(self) -> float:
        """1 + epsilon."""
        return 1.0 + self.epsilon


def assert_largest(indices: Array, played: int) -> None:
    """The arm played has the largest index, up to a tie."""
    best = float(np.max(indices))
    assert indices[played] >= best - TIE * max(1.0, abs(best)), (played, int(np.argmax(indices)))


def replay_robust_ucb(num_arms: int, told: Told, played: Array, payoffs: Array) -> Array:
    """Robust UCB with truncated means; returns the means [K] at the end."""
    log = math.log(2.0 * num_arms * told.horizon / told.delta)
    root = told.raw ** (1.0 / told.p)
    seen: list[list[float]] = [[] for _ in range(num_arms)]

    def mean(values: list[float]) -> float:
        kept = [y for j, y in enumerate(values, start=1) if abs(y) <= (told.raw * j / log) ** (1.0 / told.p)]
        return sum(kept) / len(values) if values else 0.0

    means = np.zeros(num_arms)
    for arm, payoff in zip(played, payoffs, strict=True):
        empty = [a for a in range(num_arms) if not seen[a]]
        if empty:
            assert arm == empty[0]
        else:
            counts = np.array([len(values) for values in seen])
            assert_largest(means + told.radius_scale * 4.0 * root * (log / counts) ** (told.epsilon / told.p), arm)
        seen[arm].append(float(payoff))
        means[arm] = mean(seen[arm])
    return means


# Trimmed means whose level the payoffs decide (AdaR-UCB)


def adar_level(payoffs: Array, mass: float) -> float:
    """M with `sum min(y^2/M^2, 1) = mass`, by bisection; infinite where there is no such M."""
    sizes = np.abs(payoffs)
    if np.count_nonzero(sizes) <= mass:
        return math.inf

    def excess(level: float) -> float:
        return float(np.sum(np.minimum((sizes / level) ** 2, 1.0))) - mass

    low, high = float(np.min(sizes[sizes > 0.0])), float(np.max(sizes)) * math.sqrt(len(sizes))
    while mass and excess(high) > 0.0:
        high *= 2.0
    return float(optimize.brentq(excess, low, high, xtol=1e-14 * low, rtol=1e-14)) if excess(low) > 0.0 else low


def replay_adar_ucb(num_arms: int, radius_scale: float, played: Array, payoffs: Array) -> tuple[Array, Array]:
    """AdaR-UCB; returns the means [K] and widths [K], infinite where there is no level, after the last whole step."""
    first: list[list[float]] = [[] for _ in range(num_arms)]
    second: list[list[float]] = [[] for _ in range(num_arms)]

    def index(arm: int, step: int) -> tuple[float, float]:
        log, n = 3.0 * math.log(step), len(first[arm])
        level = adar_level(np.array(second[arm]), (1.0 + math.sqrt(2.0)) ** 2 * log)
        y = np.array([value if abs(value) <= level else 0.0 for value in first[arm]])
        mean = float(y.mean()) if n else 0.0
        if math.isinf(level):
            return mean, math.inf
        return mean, math.sqrt(2.0 * float(y.var(ddof=1)) * log / n) + 10.0 * level * log / n

    steps = len(played) // 2
    means, widths = np.zeros(num_arms), np.full(num_arms, math.inf)
    for step in range(1, steps + 1):
        arm = int(played[2 * step - 2])
        assert played[2 * step - 1] == arm
        without = np.flatnonzero(np.isinf(widths))
        if without.size:
            assert arm == without[0]
        else:
            assert_largest(means + radius_scale * widths, arm)
        first[arm].append(float(payoffs[2 * step - 2]))
        second[arm].append(float(payoffs[2 * step - 1]))
        means, widths = np.array([index(a, step + 1) for a in range(num_arms)]).T
    return means, widths


# Stages (SupBMM and SupBTC)


@dataclasses.dataclass(frozen=True)
class SupTold:
    """What sup_bmm, sup_btc, bmm_ucb and btc_ucb are told; ``moment`` is b of truncation and c of medians."""

    horizon: int
    moment: float
    epsilon: float
    theta_norm: float
    mean_bound: float
    medians: bool
    literal: bool = False
    staged: bool = True
    radius_scale: float = 1.0
    delta: float = 0.1
    ridge: float = 1.0

    @property
    def p(self) -> float:
        """1 + epsilon."""
        return 1.0 + self.epsilon


def sup_epochs(told: SupTold, num_arms: int) -> tuple[int, int, int]:
    """k, N and S."""

    def shape(k: int) -> tuple[int, int, int]:
        rounds = told.horizon // k
        return k, rounds, max(1, math.floor(math.log(rounds))) if told.staged else 1

    if not told.medians:
        return shape(1)
    if told.literal:
        log = math.log(2.0 * num_arms * told.horizon * math.log(told.horizon) / told.delta)
        return shape(math.ceil(8.0 * log))
    for k in range(1, told.horizon + 1, 2):
        _, rounds, stages = shape(k)
        if stats.binom.sf((k + 1) // 2 - 1, k, 0.25) <= told.delta / (rounds * num_arms * stages):
            return shape(k)
    raise AssertionError("the horizon holds no epoch")


def stage_estimates(
    arms: Array, told: SupTold, rows: list[tuple[int, Array]], number: int, stages: int
) -> tuple[Array, Array]:
    """r [K] and literal w [K] of one stage in round ``number``, from the arms and payoffs of its rows alone."""
    num_arms, dim = arms.shape
    p, a = told.p, (2.0 - told.p) / (2.0 * told.p)
    features = np.array([arms[x] for x, _ in rows]).reshape(-1, dim)
    seen = np.array([y for _, y in rows])  # [n, k]
    inverse = np.linalg.inv(told.ridge * np.eye(dim) + features.T @ features)
    u = arms @ inverse @ features.T  # [K, n]
    size = np.sum(np.abs(u) ** p, axis=1) ** (1.0 / p)
    leverage = np.sqrt(np.einsum("ki,ij,kj->k", arms, inverse, arms))
    bias = math.sqrt(told.ridge) * told.theta_norm * leverage
    root = told.moment ** (1.0 / p)
    if told.medians:
        values = np.median(u @ seen, axis=1) if rows else np.zeros(num_arms)
        unit = 2.0 ** ((4.0 - p) / p) * root
        alpha = (12.0 * told.moment) ** (1.0 / p)
    else:
        log = math.log(2.0 * num_arms * told.horizon * stages / told.delta)
        unit = 2.75 * root * log ** (told.epsilon / p)
        level = size if told.literal else (told.moment / log) ** (1.0 / p) * size
        products = u * seen[:, 0] if rows else np.zeros((num_arms, 0))
        values = np.where(np.abs(products) <= level[:, None], products, 0.0).sum(axis=1)
        log = math.log(2.0 * told.horizon * num_arms * math.log(told.horizon) / told.delta)
        alpha = 2.0 / 3.0 * log + math.sqrt(2.0 * log * told.moment) + told.moment
    if told.literal:
        return values, (alpha * number**a + 1.0) * leverage
    if not told.staged:
        return values, unit * max(len(rows), 1) ** a * leverage + bias
    return values, unit * size + bias


def replay_sup(arms: Array, told: SupTold, played: Array, payoffs: Array) -> tuple[Array, list[list[int]], set[int]]:
    """Returns the estimate [d] of the fullest stage, the rounds recorded in every stage, and who was eliminated."""
    num_arms, dim = arms.shape
    k, rounds, stages = sup_epochs(told, num_arms)
    precision = 1.0 if told.literal else 2.0 * told.mean_bound
    rows: list[list[tuple[int, Array]]] = [[] for _ in range(stages)]
    recorded: list[list[int]] = [[] for _ in range(stages)]
    cache: dict[int, tuple[int, Array, Array]] = {}
    eliminated: set[int] = set()

    def known(s: int, number: int) -> tuple[Array, Array]:
        if told.literal or s not in cache or cache[s][0] != len(rows[s]):
            cache[s] = (len(rows[s]), *stage_estimates(arms, told, rows[s], number, stages))
        return cache[s][1], told.radius_scale * cache[s][2]

    def largest(values: Array, chosen: Array, arm: int) -> None:
        assert chosen[arm]
        assert_largest(np.where(chosen, values, -np.inf), arm)

    for number in range(1, rounds + 2):
        here = slice((number - 1) * k, min(number * k, told.horizon))
        if here.start >= told.horizon:
            break
        arm = int(played[here.start])
        assert np.all(played[here] == arm)
        entered = None
        if not told.staged:
            r, w = known(0, number)
            largest(r + w, np.ones(num_arms, bool), arm)
            entered = 0
        active = np.ones(num_arms, bool)
        for s in range(stages if told.staged else 0):
            r, w = known(s, number)
            bar = precision * 2.0 ** -(s + 1)
            if np.all(w[active] <= precision / math.sqrt(rounds)):
                largest(r + w, active, arm)
                break
            if np.any(w[active] > bar):
                largest(w, active, arm)
                entered = s
                break
            survivors = active & (r + w >= np.max((r + w)[active]) - 2.0 * bar)
            eliminated |= set(np.flatnonzero(active & ~survivors))
            if s == stages - 1 or survivors.sum() == 1:
                largest(r + w, active, arm)
                break
            active = survivors
        if entered is not None and number <= rounds:
            rows[entered].append((arm, np.asarray(payoffs[here])))
            recorded[entered].append(number)
    fullest = int(np.argmax([len(stage) for stage in rows]))
    r, _ = stage_estimates(arms, told, rows[fullest], rounds, stages)
    counts = np.bincount([x for x, _ in rows[fullest]], minlength=num_arms)
    gram = told.ridge * np.eye(dim) + arms.T @ (counts[:, None] * arms)
    return np.linalg.solve(gram, arms.T @ (counts * r)), recorded, eliminated
