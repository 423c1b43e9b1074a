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
    from linbet_jax import kernels, noise, policies, sweep, theory
    from linbet_jax.bandits import datasets
    from linbet_jax.bandits.bandit import LinearBandit
    from linbet_jax.bandits.datasets import dataset
    from linbet_jax.bandits.drift import drifting, jumping, rotating
    from linbet_jax.figures import plotting
    from linbet_jax.policies import make_policy
    from linbet_jax.policies.policy import Policy, Region
    from linbet_jax.simulation.results import Coverage, Result, ResultList, Trace
    from linbet_jax.simulation.runtime import set_up_cpu
    from linbet_jax.simulation.simulator import simulate, simulate_grid
    from linbet_jax.statistics import regret, tails
    from linbet_jax.statistics.logs import LogFit, from_log
    from linbet_jax.statistics.tuning import Tuning, TuningCurve, tune
    from linbet_jax.sweep.table import load

_MODULES = {
    "datasets": "linbet_jax.bandits.datasets",
    "kernels": "linbet_jax.kernels",
    "noise": "linbet_jax.noise",
    "plotting": "linbet_jax.figures.plotting",
    "policies": "linbet_jax.policies",
    "regret": "linbet_jax.statistics.regret",
    "sweep": "linbet_jax.sweep",
    "tails": "linbet_jax.statistics.tails",
    "theory": "linbet_jax.theory",
}
_HOMES = {
    "bandits.bandit": ("LinearBandit",),
    "bandits.datasets": ("dataset",),
    "bandits.drift": ("drifting", "jumping", "rotating"),
    "policies": ("make_policy",),
    "policies.policy": ("Policy", "Region"),
    "simulation.results": ("Coverage", "Result", "ResultList", "Trace"),
    "simulation.runtime": ("set_up_cpu",),
    "simulation.simulator": ("simulate", "simulate_grid"),
    "statistics.logs": ("LogFit", "from_log"),
    "statistics.tuning": ("Tuning", "TuningCurve", "tune"),
    "sweep.table": ("load",),
}

__all__ = [
    "Coverage",
    "LinearBandit",
    "LogFit",
    "Policy",
    "Region",
    "Result",
    "ResultList",
    "Trace",
    "Tuning",
    "TuningCurve",
    "__version__",
    "dataset",
    "datasets",
    "drifting",
    "from_log",
    "jumping",
    "kernels",
    "load",
    "make_policy",
    "noise",
    "plotting",
    "policies",
    "regret",
    "rotating",
    "set_up_cpu",
    "simulate",
    "simulate_grid",
    "sweep",
    "tails",
    "theory",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"linbet_jax.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'linbet_jax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
