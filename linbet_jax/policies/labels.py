"""Names of policies as people write them."""

from __future__ import annotations

from linbet_jax.policies import registry


def policy_label(policy: str, radius_scale: float = 1.0) -> str:
    """Name of a policy as legends and tables write it; every radius_scale but the paper's 1 is in it."""
    name = registry.entry(policy).label if policy in registry.names() else policy
    return name if radius_scale == 1.0 else f"{name} ×{radius_scale:g}"
