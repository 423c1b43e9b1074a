"""`linbet list`."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Prints what can be named: policies with their options, noise laws, data sets."""
    from linbet_jax import noise, policies
    from linbet_jax.bandits.datasets import DATASETS

    print("Policies, with the options of make_policy beside horizon, delta, ridge and radius_scale:")
    for name in policies.names():
        known = ", ".join(f"{option}={default!r}" for option, default in policies.options(name).items())
        print(f"  {name:8s} {known or 'no options'}")
    print("\nNoise laws (linbet_jax.noise):")
    for name in noise.__all__:
        law: Any = getattr(noise, name)
        if not (isinstance(law, type) and hasattr(law, "label")):
            continue
        fields = [
            field if parameter.default is parameter.empty else f"{field}={parameter.default!r}"
            for field, parameter in inspect.signature(law).parameters.items()
        ]
        summary = (inspect.getdoc(law) or "").splitlines()[0]
        print(f"  {name}({', '.join(fields)})\n      {summary}")
    print("\nData sets (linbet_jax.dataset):")
    for name, spec in DATASETS.items():
        pair = " and ".join(spec.policies)
        print(
            f"  {name}  K={spec.num_arms}, d={spec.dim}, {spec.noise.name}, epsilon={spec.epsilon:g}, "
            f"best mean {spec.best_mean:g}, T={spec.horizon} (the paper ran {pair})"
        )
    return 0
