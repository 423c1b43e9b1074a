"""Remark 3 of the paper: TOFU that re-truncates its history only M times, M from 1 to T, against the pruned form.

The paper says that TOFU's O(T^2) "might be reasonably reduced by dividing T into multiple epochs, each of which
contains only one truncation". M = T is TOFU itself; the pruned form plays the same arms as that in linear time.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from linbet_jax import provenance
from linbet_jax.datasets import dataset
from linbet_jax.reproduce import remark3_outputs
from linbet_jax.reproduce.measure import SEED, Task, run_all, state_bytes, tasks_cost
from linbet_jax.reproduce.remark3_outputs import PRUNED, Measured
from linbet_jax.reproduce.study import Cost, Outcome, Reporter, Study

__all__ = ["Plan", "plan", "reproduce"]

SETS = ("S3", "S4")
SCALES = (1.0, 0.03)
ROUNDS = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that will be run.

    Attributes:
        tasks: by title, `set/M=...`; the pruned form has M=0.
        dtype: "float64" or "float32".
        seeds: replications.
        horizon: T.
    """

    tasks: dict[str, Task]
    dtype: str
    seeds: int
    horizon: int

    @property
    def cost(self) -> Cost:
        """Every task once and in every round."""
        return tasks_cost(list(self.tasks.values()), ROUNDS)


def counts(horizon: int) -> tuple[int, ...]:
    """M: powers of 4, and T."""
    return (*(4**k for k in range(20) if 4**k < horizon), horizon)


def plan(*, seeds: int | None, full: bool, dtype: str) -> Plan:
    """T = 2048 and 16 seeds; with `full` the paper's T = 10^4 and 64 seeds."""
    horizon, replications = 10_000 if full else 2048, seeds or (64 if full else 16)
    tasks = {}
    for set_name in SETS:
        for count in (PRUNED, *counts(horizon)):
            options = () if count == PRUNED else (("epochs", count),)
            tasks[f"{set_name}/M={count}"] = Task(set_name, "tofu", options, horizon, replications, SCALES)
    return Plan(tasks, dtype, replications, horizon)


def reproduce(plan: Plan, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes the table, the picture and the manifest.

    Raises:
        InputError: a folder that holds something else.
    """
    bandits = {name: dataset(name) for name in SETS}
    instances = {name: provenance.instance_digest(bandit) for name, bandit in bandits.items()}
    config = {
        "dtype": plan.dtype,
        "tasks": list(plan.tasks),
        "horizon": plan.horizon,
        "seeds": plan.seeds,
        "radius_scales": list(SCALES),
        "key": SEED,
        "instances": instances,
    }
    with Study("remark3", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        cells, times = run_all(study, plan.tasks, bandits, instances, plan.dtype, ROUNDS)
        measured = [
            Measured(
                task.set_name,
                dict(task.options).get("epochs", PRUNED),
                cells[title]["regret"],
                cells[title]["health"],
                times[:, index] / task.pulls,
                state_bytes(task, bandits[task.set_name], plan.dtype),
            )
            for index, (title, task) in enumerate(plan.tasks.items())
        ]
        report = remark3_outputs.Report(measured, SCALES, plan.horizon, plan.seeds, plan.dtype)
        files = remark3_outputs.write(report, study.path)
        study.finish(files, report.unhealthy, findings=remark3_outputs.findings(report))
        return Outcome(remark3_outputs.text(report), (*files, study.file("manifest.json")), report.unhealthy)
