"""Instances that tell policies apart: two arms in two dimensions, with what makes a problem hard as dials.

The arms are a decoy of mean 1 - gap, first in the set, and the best one of mean 1. Dials: the gap, the angle between
the arms, the norm of the best over that of the decoy, and the probability of a spike down; whatever the probability,
the noise has E|noise|^(1 + epsilon) = 1. Why each is hard, with its closed form, stands in the README beside this file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.noise import PayoffLaw, Spikes
from linbet_jax.noise._base import limited, without_mean

__all__ = ["SEPARATING", "Dials", "lock_share", "separating", "spike_size"]


class Dials(NamedTuple):
    """What makes an instance hard.

    Attributes:
        gap: the best mean, 1, less the decoy's; in (0, 1).
        angle: between the arms, in degrees; in (0, 180).
        length: norm of the best arm over the decoy's; positive. The longer arm has norm 1.
        probability: of a spike at a pull, in (0, 1); 1/2 is a fair coin between mean - 1 and mean + 1.
        epsilon: in (0, 1].
    """

    gap: float
    angle: float = 90.0
    length: float = 1.0
    probability: float = 0.5
    epsilon: float = 1.0


SEPARATING: Mapping[str, Dials] = MappingProxyType(
    {
        "lock": Dials(0.2, probability=1e-3, epsilon=0.5),
        "long": Dials(0.2, length=0.2),
        "trap": Dials(0.2),
    }
)


def separating(kind: str = "lock", *, noise: PayoffLaw | None = None, **dials: float) -> LinearBandit:
    """Builds one of the instances that tell policies apart.

    Args:
        kind: "lock" (a rare spike locks a policy on the decoy), "long" (the best arm is a fifth of the decoy's length)
            or "trap" (who never explores stays on the decoy): where the dials start from.
        noise: a payoff law instead of the spikes; `probability` is theirs and goes without one.
        **dials: `gap`, `angle`, `length`, `probability`, `epsilon`; see `Dials`.

    Raises:
        ValueError: naming the argument, its value and the allowed range.
    """
    if kind not in SEPARATING:
        raise ValueError(f"kind must be one of {', '.join(SEPARATING)}, got {kind!r}")
    for field in dials:
        if field not in Dials._fields:
            raise ValueError(f"{field}={dials[field]!r}: no such dial; there are {', '.join(Dials._fields)}")
    if noise is not None and "probability" in dials:
        raise ValueError(f"probability={dials['probability']!r}: goes without noise, got noise={noise!r}")
    epsilon: Any = dials.get("epsilon", 1.0)
    if not (isinstance(epsilon, (int, float, np.number)) and 0.0 < epsilon <= 1.0):
        raise ValueError(f"epsilon must satisfy 0 < epsilon <= 1, got {epsilon!r}")
    uppers = {"gap": 1.0, "angle": 180.0, "probability": 1.0}
    chosen = Dials(
        **{
            field: limited(field, field, value, 0.0, uppers.get(field, math.inf))
            for field, value in (SEPARATING[kind]._asdict() | dials).items()
        }
    )
    law = noise or Spikes(-spike_size(chosen.probability, chosen.epsilon), chosen.probability)
    angle, longest = math.radians(chosen.angle), max(1.0, chosen.length)
    direction = np.array([math.cos(angle), math.sin(angle)]) if chosen.angle != 90.0 else np.array([0.0, 1.0])
    arms = np.array([[1.0, 0.0], chosen.length * direction]) / longest
    with np.errstate(over="ignore"):
        theta = np.linalg.solve(arms, [1.0 - chosen.gap, 1.0])
        if not np.isfinite(theta @ theta):
            raise ValueError(
                f"angle={chosen.angle:g}, length={chosen.length:g}: the arms must not be so far from a basis"
            )
    declared = None if without_mean(law) and "epsilon" not in dials else chosen.epsilon
    return LinearBandit(arms, theta, law, epsilon=declared, name=kind)


def spike_size(probability: float, epsilon: float) -> float:
    """H with E|noise|^(1+epsilon) = H^(1+epsilon) p (1 + (p/(1-p))^epsilon) = 1, p the spike's probability."""
    odds = probability / (1.0 - probability)
    return float((probability * (1.0 + odds**epsilon)) ** (-1.0 / (1.0 + epsilon)))


def lock_share(bandit: LinearBandit, horizon: int, *, delta: float = 0.1, noise_scale: float | None = None) -> float:
    """A lower bound of the share of OFUL's runs (ridge 1) that a spike locks on the decoy until the horizon.

    Arms are orthogonal and of norm 1. Where the best arm's j-th payoff is its first spike, its estimate is
    (j + (j - 1) u - H) / (j + 1), u = H p/(1-p), and its index lies beta / sqrt(j + 1) above, at most

        beta = R sqrt(ln((1 + j)(1 + T)) + 2 ln(1/delta)) + S.

    While the decoy's index is at least its mean, as it is while OFUL's region holds for the decoy, the best arm is not
    played again before its index reaches 1 - gap. If that needs more than T pulls for every j up to n, a spike among
    the first n pulls locks, which has probability 1 - (1-p)^n.

    Args:
        bandit: of `separating`, with orthogonal arms of norm 1 and spikes.
        horizon: T, pulls; positive.
        delta: OFUL's, in (0, 1).
        noise_scale: R that OFUL is told; the noise's standard deviation by default, as OFUL takes it.

    Raises:
        ValueError: for another bandit, or a number out of range.
    """
    limited("horizon", "horizon", horizon, 0.0)
    limited("delta", "delta", delta, 0.0, 1.0)
    if noise_scale is not None:
        limited("noise_scale", "noise_scale", noise_scale, 0.0)
    law: Any = bandit.noise
    if not isinstance(law, Spikes) or bandit.arms is None or not np.array_equal(bandit.arms, np.eye(2)):
        raise ValueError(f"bandit must have orthogonal arms of norm 1 and spikes, got {bandit.name}")
    scale, size, mean = (
        bandit.noise_std if noise_scale is None else noise_scale,
        -law.size,
        float(np.asarray(bandit.means)[0]),
    )
    uplift, pulls = law.rest, 0
    while pulls < horizon:
        j = pulls + 1
        radius = scale * math.sqrt(math.log((1.0 + j) * (1.0 + horizon)) - 2.0 * math.log(delta)) + bandit.theta_norm
        if (j - (size - (j - 1) * uplift)) / (j + 1) + radius / math.sqrt(j + 1) >= mean:
            break
        pulls = j
    return float(-math.expm1(pulls * math.log1p(-law.probability)))
