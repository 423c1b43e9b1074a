"""Plain NumPy float64 references of policies that keep one estimate per arm, written from their pseudocode.

A replay is fed the arms and payoffs of a recorded run and asserts that every arm is one that was to be played, up to
ties. Nothing is shared with the library. Letters: p = 1 + epsilon, K arms, T pulls.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
