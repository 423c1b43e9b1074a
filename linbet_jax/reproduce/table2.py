"""Table 2 of the paper (regret, complexity and storage of four algorithms), measured.

Regret: fixed data sets at the papers' radii and at a smaller radius_scale, T growing; the paper's exponents are of
bounds over the worst instance for each T, so a measured one may well be smaller, and is near 1 for as long as a policy
explores.
Complexity: CPU time of the whole run, compiling apart. Storage: bytes of the state of one replication.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from linbet_jax import provenance
from linbet_jax.datasets import DATASETS, dataset
from linbet_jax.reproduce import table2_outputs
from linbet_jax.reproduce.measure import SEED, Task, run_all, state_bytes, tasks_cost
from linbet_jax.reproduce.study import Cost, Outcome, Reporter, Study
from linbet_jax.reproduce.table2_outputs import VARIANTS, Measured

__all__ = ["Plan", "plan", "reproduce"]

SCALES = (1.0, 0.03)
# 1024 times powers of 4 are whole numbers of the simulator's stretches: one program serves all of a policy's horizons.
FIRST = 1024
STORAGE = tuple(FIRST * 4**k for k in range(7))  # only looked at, not run
TIMED_ON = "S3"
ROUNDS = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that will be run.

    Attributes:
        tasks: by title.
        dtype: "float64" or "float32".
        seeds: replications; the full pass has a quarter as many.
    """

    tasks: dict[str, Task]
    dtype: str
    seeds: int

    @property
    def cost(self) -> Cost:
        """All tasks once, those that are timed in further rounds too."""
        once = [task for task in self.tasks.values() if task.set_name != TIMED_ON]
        timed = [task for task in self.tasks.values() if task.set_name == TIMED_ON]
        return tasks_cost(once, 0) + tasks_cost(timed, ROUNDS)


def horizons(variant: str, full: bool) -> tuple[int, ...]:
    """The T of a variant: shorter for the full pass, whose time grows with T^2."""
    if variant == "tofu full":
        return tuple(FIRST * 2**k for k in range(5 if full else 4))
    longest = {"tofu pruned": 4, "tofu epochs": 4}.get(variant, 5) + full
    return tuple(FIRST * 4**k for k in range(longest))


def options(variant: str, horizon: int) -> tuple[tuple[str, Any], ...]:
    """Of `make_policy`; by epochs means ceil(log2 T) re-truncations."""
    if variant == "tofu full":
        return (("method", "full"),)
    return (("epochs", math.ceil(math.log2(horizon))),) if variant == "tofu epochs" else ()


def plan(*, seeds: int | None, full: bool, dtype: str) -> Plan:
    """S3 (epsilon 1/2) and S1 (epsilon 1), 16 seeds; with `full` all four, 128 seeds, and T four times as long."""
    replications = seeds or (128 if full else 16)
    tasks = {}
    for set_name in (TIMED_ON, *(name for name in (DATASETS if full else ("S1",)) if name != TIMED_ON)):
        for variant in VARIANTS:
            if variant == "tofu full" and set_name != TIMED_ON:
                continue  # it plays the arms of the pruned form
            count = max(1, replications // 4) if variant == "tofu full" else replications
            for horizon in horizons(variant, full):
                policy = variant.split()[0]
                task = Task(set_name, policy, options(variant, horizon), horizon, count, SCALES)
                tasks[f"{set_name}/{variant}/T={horizon}"] = task
    return Plan(tasks, dtype, replications)


def reproduce(plan: Plan, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes the tables, pictures and the manifest.

    Raises:
        InputError: a folder that holds something else.
    """
    bandits = {name: dataset(name) for name in dict.fromkeys(task.set_name for task in plan.tasks.values())}
    instances = {name: provenance.instance_digest(bandit) for name, bandit in bandits.items()}
    config = {
        "dtype": plan.dtype,
        "tasks": list(plan.tasks),
        "seeds": plan.seeds,
        "radius_scales": list(SCALES),
        "key": SEED,
        "instances": instances,
    }
    with Study("table2", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        measured = {}
        for timed in (True, False):
            tasks = {title: task for title, task in plan.tasks.items() if (task.set_name == TIMED_ON) == timed}
            rounds = ROUNDS if timed else 0
            cells, times = run_all(study, tasks, bandits, instances, plan.dtype, rounds)
            for index, (title, cell) in enumerate(cells.items()):
                measured[title] = Measured(tasks[title], cell["regret"], cell["health"], times[:, index])
        storage = {
            variant: [
                state_bytes(
                    Task(TIMED_ON, variant.split()[0], options(variant, horizon), horizon, 1, (1.0,)),
                    bandits[TIMED_ON],
                    plan.dtype,
                )
                for horizon in STORAGE
            ]
            for variant in VARIANTS
        }
        report = table2_outputs.report(measured, STORAGE, storage, TIMED_ON, plan.seeds, plan.dtype)
        files = table2_outputs.write(report, study.path)
        study.finish(files, report.unhealthy)
        return Outcome(table2_outputs.text(report), (*files, study.file("manifest.json")), report.unhealthy)
