"""Sweeps: a grid of policies, sets, laws and parameters over many seeds, started once, killed and resumed at will.

`read` reads a sweep file, `run` computes what is missing in its folder, `status` says how far that is,
`load` gives what it found.

`linbet sweep FILE` goes through `cli.sweep` -> `grid.read` -> `driver.run` -> `cells.plan` -> an executor
(`executors.InProcess`, or `cluster.Cluster`) -> `work.run_part` -> `simulate_grid` -> `store`.

A cell on its way has six shapes: tables of the file (`schema.Document`), single values (`model.CellChoice`), plain data
with an identity (`cells.PlannedCell`), some seeds of it (`executors.Part`), what became of them
(`executors.PartOutcome`), and rows (`store.Rows`), which Parquet holds and `load` reads back.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linbet_jax.sweep.cluster import Cluster
    from linbet_jax.sweep.driver import SweepProgress, SweepSummary, run
    from linbet_jax.sweep.executors import Executor, InProcess, Part, PartOutcome
    from linbet_jax.sweep.grid import read
    from linbet_jax.sweep.model import Sweep
    from linbet_jax.sweep.overview import Status, status
    from linbet_jax.sweep.table import load
    from linbet_jax.sweep.targets import Slurm

__all__ = [
    "Cluster",
    "Executor",
    "InProcess",
    "Part",
    "PartOutcome",
    "Slurm",
    "Status",
    "Sweep",
    "SweepProgress",
    "SweepSummary",
    "load",
    "read",
    "run",
    "status",
]

_HOMES = {
    "cluster": ("Cluster",),
    "driver": ("SweepProgress", "SweepSummary", "run"),
    "executors": ("Executor", "InProcess", "Part", "PartOutcome"),
    "grid": ("read",),
    "model": ("Sweep",),
    "overview": ("Status", "status"),
    "table": ("load",),
    "targets": ("Slurm",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"linbet_jax.sweep.{home}"), name)
    raise AttributeError(f"module 'linbet_jax.sweep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
