"""A plain NumPy float64 reference of elimination on G-optimal designs, written from the pseudocode, to replay runs.

Nothing here is shared with the library: explicit inverses, the whole K x K matrix of weights, every phase's payoffs at
once. Letters: p = 1 + epsilon, dl one arm's share of delta in a phase, L = ln(2/dl), U = X A^-1 X^T.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]
TIE = 1e-9


@dataclasses.dataclass(frozen=True)
class Told:
    """What the policy is told."""

    horizon: int
    theta_norm: float
    raw: float
    central: float
    epsilon: float = 1.0
    delta: float = 0.1
    ridge: float = 1.0
    radius_scale: float = 1.0


@dataclasses.dataclass
class Phase:
    """What a phase was: counts [K], widths and estimates [K], who was active before and after, the certificate."""

    counts: Array
    copies: int
    widths: Array
    estimates: Array
    before: Array
    after: Array
    certificate: float


def smallest_odd_copies(failure: float) -> int:
    """The smallest odd k whose median of k copies, each bad with probability 1/4, is bad with at most ``failure``."""
    k = 1
    while stats.binom.sf((k + 1) // 2 - 1, k, 0.25) > failure:
        k += 2
    return k


def influence(z: Array, p: float) -> Array:
    """psi(z) = sgn(z) ln(1 + |z| + |z|^p/p)."""
    size = np.abs(z)
    near = np.minimum(size, 1e100)
    value = np.log1p(near + near**p / p)
    return np.sign(z) * np.where(size > 1e100, p * np.log(np.maximum(size, 1.0)) - math.log(p), value)


def greedy_counts(arms: Array, rows: int, ridge: float, active: Array) -> tuple[Array, Array]:
    """Counts [K] and A [d, d] of the exact greedy design; among leverages within rounding the lowest index."""
    gram = ridge * np.eye(arms.shape[1])
    counts = np.zeros(len(arms), int)
    for _ in range(rows):
        leverages = np.einsum("ki,ij,kj->k", arms, np.linalg.inv(gram), arms)
        leverages[~active] = -1.0
        index = int(np.argmax(leverages >= leverages.max() - 1e-11 * abs(leverages.max())))
        counts[index] += 1
        gram = gram + np.outer(arms[index], arms[index])
    return counts, gram


def estimated(
    estimator: str,
    weights: Array,
    here: Array,
    seen: Array,
    moments: Array,
    references: Array,
    told: Told,
    share: float,
) -> tuple[Array, Array]:
    """Estimates [K] and noise widths [K] from a phase's arms and payoffs: weights U [K, K], arms ``here`` of the pulls.

    ``moments`` [K] and ``references`` [K] are m_x and r_x; ``share`` is dl. With "bmm" rows are of consecutive pulls.
    """
    p, log_term = 1.0 + told.epsilon, math.log(2.0 / share)
    copies = smallest_odd_copies(share) if estimator == "bmm" else 1
    each = here[::copies]
    spread = (np.abs(weights[:, each]) ** p @ moments[each]) ** (1.0 / p)
    if estimator == "bmm":
        return np.median(weights[:, each] @ seen.reshape(-1, copies), axis=1), 2.0 ** ((4.0 - p) / p) * spread
    products = weights[:, here] * (seen - references[here])
    if estimator == "catoni":
        factor = (p / (p - 1.0)) ** (told.epsilon / p)
        scale = (p * log_term / (p - 1.0)) ** (1.0 / p) / np.where(spread > 0.0, spread, 1.0)
        robust = np.where(spread > 0.0, influence(scale[:, None] * products, p).sum(axis=1) / scale, 0.0)
    else:
        factor = 2.75
        level = spread * log_term ** (-1.0 / p)
        robust = np.where(np.abs(products) <= level[:, None], products, 0.0).sum(axis=1)
    return robust + weights[:, here] @ references[here], factor * spread * log_term ** (told.epsilon / p)


def replay(
    arms: Array, told: Told, played: Array, payoffs: Array, estimator: str = "catoni", leftover: str = "greedy"
) -> tuple[list[Phase], Array]:
    """Asserts that every arm of a recorded run is the one to play; returns the phases and the final estimate [d]."""
    num_arms, dim = arms.shape
    p = 1.0 + told.epsilon
    active = np.ones(num_arms, bool)
    references = np.zeros(num_arms)
    moments = np.full(num_arms, told.central if estimator == "bmm" else told.raw)
    phases: list[Phase] = []
    done, estimate = 0, np.zeros(dim)
    while True:
        number = len(phases) + 1
        share = told.delta / (num_arms * number * (number + 1))
        copies = smallest_odd_copies(share) if estimator == "bmm" else 1
        rows = 2 * dim * 2 ** (number - 1)
        stop = done + rows * copies
        if stop > told.horizon:
            break
        counts, gram = greedy_counts(arms, rows, told.ridge, active)
        inverse = np.linalg.inv(gram)
        weights = arms @ inverse @ arms.T
        here, seen = played[done:stop], payoffs[done:stop]
        np.testing.assert_array_equal(here, np.repeat(np.arange(num_arms), counts * copies))
        estimates, noise = estimated(estimator, weights, here, seen, moments, references, told, share)
        widths = noise + math.sqrt(told.ridge) * told.theta_norm * np.sqrt(np.diag(weights))
        bar = (estimates - told.radius_scale * widths)[active].max()
        upper = estimates + told.radius_scale * widths
        close = np.abs(upper - bar) < TIE * max(1.0, abs(bar))
        assert not np.any(active & close & (upper < bar - 1e-11 * abs(bar)))
        survivors = active & (upper >= bar - 1e-11 * abs(bar))
        certificate = rows * float(np.diag(weights)[active].max())
        phases.append(Phase(counts, copies, widths, estimates, active, survivors, certificate))
        estimate = inverse @ arms.T @ (counts * estimates)
        if estimator != "bmm":
            closer = told.central + widths**2 if told.epsilon == 1.0 else (told.central ** (1.0 / p) + widths) ** p
            references, moments = np.where(closer < told.raw, estimates, 0.0), np.minimum(closer, told.raw)
        active, done = survivors, stop
    rest = played[done:]
    assert np.all(active[rest])
    if leftover == "greedy" and phases:
        best = phases[-1].estimates[active].max()
        assert np.all(phases[-1].estimates[rest] >= best - TIE * max(1.0, abs(best)))
        assert np.all(rest == rest[:1])
    return phases, estimate
