"""What a simulation costs: CPU time with compiling apart, and the bytes of its live state.

CPU time is that of the whole process: on a machine that is busy with other things it is still the simulation's own.
Every task is measured once when it is first run and again in later rounds, in each of which all tasks take turns, so
that a slow spell of the machine falls on all of them; the smallest time counts.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Progress, StudyCell, long_form
from linbet_jax.experiments.shared import Task
from linbet_jax.simulation.casting import seed_bytes
from linbet_jax.simulation.results import Result

WARM = 1024  # pulls of the run that compiles a program; one program serves every horizon from a stretch of pulls on


def timed_cells(tasks: Mapping[str, Task], rounds: int) -> list[StudyCell]:
    """Every task by its title, each a cell, then rounds of all of them, each a cell too."""
    cells, every = [task.cell(first_run, title=title) for title, task in tasks.items()], list(tasks.values())
    pulls, seconds = sum(task.pulls for task in every), sum(task.core_seconds for task in every)
    for turn in range(1, rounds + 1):
        identity = {"round": turn, "tasks": [task.identity for task in every]}
        cells.append(StudyCell(f"times, round {turn}", identity, pulls, seconds, functools.partial(next_round, every)))
    return cells


def times(results: Mapping[str, CellResult], tasks: Mapping[str, Task], rounds: int) -> dict[str, NDArray[np.float64]]:
    """CPU seconds `[1 + rounds]` of every task by its title, those of the first run first."""
    first = [results[title].facts["cpu_seconds"] for title in tasks]
    later = [results[f"times, round {turn}"].columns["cpu_seconds"] for turn in range(1, rounds + 1)]
    return dict(zip(tasks, np.stack([first, *later], axis=1), strict=True))


def first_run(task: Task, progress: Progress) -> CellResult:
    """The final regret and health of a task, and its CPU time in seconds."""
    results, cpu = _timed(task, progress)
    columns = long_form({"radius_scale": task.scales, "seed": range(task.seeds)}, shared.finals(results))
    return CellResult(columns, {"cpu_seconds": cpu})


def next_round(tasks: Sequence[Task], progress: Progress) -> CellResult:
    """CPU seconds of all tasks, one after another."""
    seconds = [_timed(task, progress)[1] for task in tasks]
    return CellResult({"task": np.arange(len(tasks)), "cpu_seconds": np.array(seconds)})


def _timed(task: Task, progress: Progress) -> tuple[list[Result], float]:
    """Runs a task and measures the run alone; one that still had to compile is run again."""
    made = task.made()

    def play(horizon: int, progress: Progress | None = None) -> tuple[list[Result], float]:
        begun = time.process_time()
        results = task.play(progress, made, horizon=horizon)
        return results, time.process_time() - begun

    if made[0].pulls_per_epoch == 1 and task.horizon > WARM:
        play(WARM)
    results, cpu = play(task.horizon, progress)
    return (results, cpu) if results[0].compile_seconds == 0 else play(task.horizon)


def state_bytes(task: Task) -> int:
    """Bytes of the state that one replication keeps between pulls; nothing is run.

    What the simulator keeps beside it (two sums, the records, the noise of a stretch) is the same for all policies and
    does not grow with T.
    """
    policy, [params, *_] = task.made()
    return seed_bytes(policy, params, task.bandit, 0, task.dtype)
