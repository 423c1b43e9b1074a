"""What a pull costs, roughly: the estimates that a command gives before it starts."""

from __future__ import annotations

from linbet_jax.policies import registry

PASS_MICROSECONDS = 3e-4  # of one of TOFU's passes over its whole history, per pull in it and per d^2


def pull_microseconds(policy: str, *, num_arms: int, dim: int) -> float:
    """Estimated cost of one pull of one replication, in microseconds of one core; of an unknown policy, OFUL's."""
    cost = registry.entry(policy if policy in registry.names() else "oful").cost
    return cost.base + cost.per_value * num_arms * dim + cost.per_square * dim * dim
