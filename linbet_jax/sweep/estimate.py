"""What a sweep will take, before it is run: a rough estimate from measured costs of a pull."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BYTES_PER_ROW", "COMPILE_SECONDS", "pull_microseconds"]

COMPILE_SECONDS = 3.0  # a program, when it is not in the compile cache
BYTES_PER_ROW = 16.0  # of a cell's file: regret and payoff hardly compress, the other columns hardly need anything

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


def pull_microseconds(entry: Mapping[str, Any]) -> float:
    """Estimated cost of a seed-pull of a manifest's cell, in microseconds of one core.

    TOFU with its whole history costs d^2 for each of the pulls before; a policy of one's own is taken for OFUL.
    """
    arms, dim = entry["bandit"]["K"], entry["bandit"]["d"]
    source = entry["source"]["policy"]
    base, per_value, per_square = _COSTS.get(source, _COSTS["oful"])
    cost = base + per_value * arms * dim + per_square * dim * dim
    if source == "tofu" and entry["options"].get("method") == "full":
        cost += 2e-4 * entry["horizon"] * dim * dim
    return cost
