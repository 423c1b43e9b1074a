"""What a pull costs, roughly: the estimates that a command gives before it starts."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PASS_MICROSECONDS", "pull_microseconds"]

# Microseconds of one core for one pull of one replication, base + per (K d) + per d^2, measured on an AMD EPYC in
# float64 on S1 to S4; MENU and MoM decide once an epoch, so that a pull costs them little more than its noise.
_COSTS: Mapping[str, tuple[float, float, float]] = {
    "tofu": (0.2, 8e-4, 0.024),
    "menu": (0.9, 1e-4, 0.0),
    "mom": (0.2, 3e-5, 0.0),
    "crt": (0.17, 4e-4, 4e-4),
    "oful": (0.17, 4e-4, 4e-4),
    "greedy": (0.2, 2e-4, 2e-4),
    "uniform": (0.4, 0.0, 0.0),
}
PASS_MICROSECONDS = 3e-4  # of one of TOFU's passes over its whole history, per pull in it and per d^2


def pull_microseconds(policy: str, *, num_arms: int, dim: int) -> float:
    """Estimated cost of one pull of one replication, in microseconds of one core; of an unknown policy, OFUL's."""
    base, per_value, per_square = _COSTS.get(policy, _COSTS["oful"])
    return base + per_value * num_arms * dim + per_square * dim * dim
