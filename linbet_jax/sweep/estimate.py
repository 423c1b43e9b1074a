"""What a sweep will take, before it is run: a rough estimate from measured costs of a pull."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linbet_jax.policies.costs import PASS_MICROSECONDS, pull_microseconds

__all__ = ["BYTES_PER_ROW", "COMPILE_SECONDS", "cell_microseconds"]

COMPILE_SECONDS = 3.0  # a program, when it is not in the compile cache
BYTES_PER_ROW = 16.0  # of a cell's file: regret and payoff hardly compress, the other columns hardly need anything


def cell_microseconds(entry: Mapping[str, Any]) -> float:
    """Estimated cost of a seed-pull of a manifest's cell, in microseconds of one core.

    TOFU with its whole history passes over it at every pull; a policy of one's own is taken for OFUL.
    """
    arms, dim = entry["bandit"]["K"], entry["bandit"]["d"]
    source = entry["source"]["policy"]
    cost = pull_microseconds(source, num_arms=arms, dim=dim)
    if source == "tofu" and entry["options"].get("method") == "full":
        cost += PASS_MICROSECONDS * entry["horizon"] * dim * dim
    return cost
