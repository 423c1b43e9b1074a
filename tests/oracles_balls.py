"""Plain NumPy float64 references for balls as decision sets: by an eigendecomposition, and by enumeration."""

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from oracles import CrtOracle, OfulOracle

Array = NDArray[np.float64]


def index(arms: Array, center: Array, inverse: Array, radius: float) -> Array:
    """`<x, theta> + beta ||x||_{V^-1}` of the rows of `arms`."""
    return arms @ center + radius * np.sqrt(np.maximum(np.einsum("...i,ij,...j->...", arms, inverse, arms), 0.0))


def farthest(center: Array, inverse: Array, radius: float) -> Array:
    """A unit vector of the largest index: the direction of the longest point of the ellipsoid.

    The point is `theta + s` with `s = M (lambda I - M)^-1 theta` and `||s||_V = beta`; the gap `lambda - m` to the
    largest eigenvalue is found by Brent's method on its logarithm, or is 0 and an eigenvector makes up the length.
    """
    values, vectors = np.linalg.eigh(inverse)
    values, parts = np.maximum(values, 0.0), vectors.T @ center
    if radius == 0.0:
        return center / np.linalg.norm(center)

    def excess(log_gap: float) -> float:
        gaps = np.exp(log_gap) + (values[-1] - values)
        return float(np.log(np.sum(values * (parts / gaps) ** 2)) - 2.0 * np.log(radius))

    high = np.log(np.sqrt(np.sum(values * parts**2)) / radius + 1e-300) + 1.0
    low = np.log(values[-1]) - 60.0
    if not parts.any() or excess(low) < 0.0:  # the hard case
        inside = values < values[-1] * (1.0 - 1e-13)
        moved = np.where(inside, parts / np.where(inside, values[-1] - values, 1.0), 0.0)
        short = radius**2 - np.sum(values * moved**2)
        moved[-1] = np.sqrt(max(short, 0.0) / values[-1]) * (-1.0 if parts[-1] < 0.0 else 1.0)
    else:
        gap = np.exp(scipy.optimize.brentq(excess, low, max(high, low + 1.0), xtol=1e-13))
        moved = parts / (gap + (values[-1] - values))
    direction = vectors @ moved
    return direction / np.linalg.norm(direction)


def q_norm(vectors: Array, q: float) -> Array:
    """`||v||_q` of the rows."""
    return np.sum(np.abs(vectors) ** q, axis=-1) ** (1.0 / q)


def vertices(center: Array, inverse: Array, radius: float) -> Array:
    """The `2 d` corners of the region of ConfidenceBall_1 with Cholesky's factor, `[2 d, d]`."""
    steps = radius * np.sqrt(center.size) * np.linalg.cholesky(inverse).T
    return np.concatenate([center + steps, center - steps])


class _OnBall:
    """An oracle's decision sets: at every pull the arm that was played, and the best one by `farthest`."""

    size = 1.0
    played: Array

    def decision_set(self, pull: int) -> Array:
        best = self.size * farthest(self.estimate, np.linalg.inv(self.gram), self.radius)
        return np.stack([self.played[pull], best])


class OfulOnBall(_OnBall, OfulOracle):
    """OFUL on a Euclidean ball."""


class CrtOnBall(_OnBall, CrtOracle):
    """CRT on a Euclidean ball."""
