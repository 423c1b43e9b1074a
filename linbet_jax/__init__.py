"""Linear stochastic bandits with heavy-tailed payoffs, vectorised in JAX.

Importing the package loads nothing heavy, changes no JAX setting and starts no device; names load on first use.

References:
    Shao, Yu, King, Lyu. Almost optimal algorithms for linear stochastic bandits with heavy-tailed payoffs.
        NeurIPS 2018.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from linbet_jax._version import __version__

if TYPE_CHECKING:
    from linbet_jax import datasets, kernels, noise, plotting, policies, regret, sweep, theory
    from linbet_jax.bandit import LinearBandit
    from linbet_jax.datasets import dataset
    from linbet_jax.policies import make_policy
    from linbet_jax.policy import Policy, Region
    from linbet_jax.runtime import set_up_cpu
    from linbet_jax.simulator import Coverage, Result, Trace, simulate, simulate_grid
    from linbet_jax.sweep.table import load
    from linbet_jax.tuning import Tuning, TuningCurve, tune

_MODULES = ("datasets", "kernels", "noise", "plotting", "policies", "regret", "sweep", "theory")
_NAMES = {
    "Coverage": "linbet_jax.simulator",
    "LinearBandit": "linbet_jax.bandit",
    "Policy": "linbet_jax.policy",
    "Region": "linbet_jax.policy",
    "Result": "linbet_jax.simulator",
    "Trace": "linbet_jax.simulator",
    "Tuning": "linbet_jax.tuning",
    "TuningCurve": "linbet_jax.tuning",
    "dataset": "linbet_jax.datasets",
    "load": "linbet_jax.sweep.table",
    "make_policy": "linbet_jax.policies",
    "simulate": "linbet_jax.simulator",
    "simulate_grid": "linbet_jax.simulator",
    "tune": "linbet_jax.tuning",
    "set_up_cpu": "linbet_jax.runtime",
}

__all__ = [
    "Coverage",
    "LinearBandit",
    "Policy",
    "Region",
    "Result",
    "Trace",
    "Tuning",
    "TuningCurve",
    "__version__",
    "dataset",
    "datasets",
    "kernels",
    "load",
    "make_policy",
    "noise",
    "plotting",
    "policies",
    "regret",
    "set_up_cpu",
    "simulate",
    "simulate_grid",
    "sweep",
    "theory",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"linbet_jax.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'linbet_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
