"""Names as people write them, without anything heavy to import."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NAMES", "policy_label"]

NAMES: Mapping[str, str] = {
    "menu": "MENU",
    "tofu": "TOFU",
    "mom": "MoM",
    "crt": "CRT",
    "oful": "OFUL",
    "greedy": "greedy",
    "uniform": "uniform",
}


def policy_label(policy: str, radius_scale: float = 1.0) -> str:
    """Name of a policy as legends and tables write it; every radius_scale but the paper's 1 is in it."""
    name = NAMES.get(policy, policy)
    return name if radius_scale == 1.0 else f"{name} ×{radius_scale:g}"
