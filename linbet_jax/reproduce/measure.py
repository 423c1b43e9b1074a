"""What a simulation costs: CPU time with compiling apart, and the bytes of its live state.

CPU time is that of the whole process: on a machine that is busy with other things it is still the simulation's own.
Every task is measured once when it is first run and again in later rounds, in each of which all tasks take turns, so
that a slow spell of the machine falls on all of them; the smallest time counts.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandit import LinearBandit
from linbet_jax.costs import PASS_MICROSECONDS
from linbet_jax.datasets import DATASETS
from linbet_jax.policies import make_policy
from linbet_jax.policy import Policy
from linbet_jax.reproduce.study import COMPILE_SECONDS, Cost, Study, seed_pulls_cost
from linbet_jax.simulator import Result, simulate_grid

__all__ = ["Task", "first_run", "next_round", "run_all", "state_bytes", "tasks_cost"]

SEED = 0  # of every experiment's key
WARM = 1024  # pulls of the run that compiles a program; the programs of round-by-round policies serve any horizon

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Task:
    """One policy with its options on one data set at one horizon, with several radius scales.

    Attributes:
        set_name: data set.
        policy: registry name.
        options: of `make_policy`, as pairs.
        horizon: T, pulls.
        seeds: replications of each scale.
        scales: radius_scale.
    """

    set_name: str
    policy: str
    options: tuple[tuple[str, Any], ...]
    horizon: int
    seeds: int
    scales: tuple[float, ...]

    @property
    def own(self) -> dict[str, Any]:
        """What decides its numbers, JSON-like, beside the instance."""
        return {**dataclasses.asdict(self), "options": dict(self.options), "scales": list(self.scales), "key": SEED}

    @property
    def pulls(self) -> int:
        """Over all replications."""
        return self.seeds * len(self.scales) * self.horizon

    def build(self, bandit: LinearBandit) -> tuple[Policy, Any]:
        """The policy and its parameters at radius_scale 1."""
        spec = DATASETS[self.set_name]
        return make_policy(
            self.policy, bandit, horizon=self.horizon, delta=spec.delta, ridge=spec.ridge, **dict(self.options)
        )

    @property
    def core_seconds(self) -> float:
        """Estimate of the CPU time of one run, without compiling."""
        spec = DATASETS[self.set_name]
        usual = seed_pulls_cost(self.policy, num_arms=spec.num_arms, dim=spec.dim, horizon=self.horizon, replications=1)
        chosen = dict(self.options)
        passes = self.horizon if chosen.get("method") == "full" else chosen.get("epochs", 0)
        history = 1e-6 * PASS_MICROSECONDS * spec.dim**2 * self.horizon * passes
        return self.seeds * len(self.scales) * (usual.core_seconds - COMPILE_SECONDS + history)


def tasks_cost(tasks: Sequence[Task], rounds: int) -> Cost:
    """Cost of every task once, and in so many rounds more."""
    return Cost(
        cells=len(tasks) + rounds,
        seed_pulls=(1 + rounds) * sum(task.pulls for task in tasks),
        core_seconds=sum(COMPILE_SECONDS + (1 + rounds) * task.core_seconds for task in tasks),
    )


def run_all(
    study: Study,
    tasks: Mapping[str, Task],
    bandits: Mapping[str, LinearBandit],
    instances: Any,
    dtype: str,
    rounds: int,
) -> tuple[dict[str, dict[str, NDArray[Any]]], NDArray[np.float64]]:
    """Every task by its title, and the times of all rounds.

    Args:
        study: where the cells are kept.
        tasks: by title.
        bandits: by data set.
        instances: their hashes, by data set.
        dtype: "float64" or "float32".
        rounds: of repeated measurements.

    Returns:
        The cells of the tasks (see `first_run`), and CPU seconds `[1 + rounds, tasks]`, the first run's first.
    """
    found = {}
    for title, task in tasks.items():

        def first(task: Task = task) -> dict[str, NDArray[Any]]:
            return first_run(task, bandits[task.set_name], dtype, study.progress(task.horizon))

        found[title] = study.cell(title, {**task.own, "instance": instances[task.set_name]}, first, pulls=task.pulls)
    times = [np.array([float(cell["cpu"]) for cell in found.values()])]
    for turn in range(1, rounds + 1):

        def again() -> dict[str, NDArray[Any]]:
            return next_round(list(tasks.values()), bandits, dtype)

        own = {"round": turn, "tasks": [task.own for task in tasks.values()], "instances": instances}
        cell = study.cell(f"times, round {turn}", own, again, pulls=sum(task.pulls for task in tasks.values()))
        times.append(cell["cpu"])
    return found, np.stack(times)


def first_run(
    task: Task, bandit: LinearBandit, dtype: str, progress: Progress | None = None
) -> dict[str, NDArray[Any]]:
    """The final regret and health `[G, S]` of a task, and `cpu`, its CPU time in seconds."""
    results, cpu = _timed(task, bandit, dtype, progress)
    return {
        "regret": np.stack([result.regret[:, -1].astype(np.float64) for result in results]),
        "health": np.stack([result.health for result in results]),
        "cpu": np.array(cpu),
    }


def next_round(tasks: Sequence[Task], bandits: Mapping[str, LinearBandit], dtype: str) -> dict[str, NDArray[Any]]:
    """CPU seconds `[N]` of all tasks, one after another."""
    return {"cpu": np.array([_timed(task, bandits[task.set_name], dtype, None)[1] for task in tasks])}


def _timed(task: Task, bandit: LinearBandit, dtype: str, progress: Progress | None) -> tuple[list[Result], float]:
    """Runs a task and measures the run alone; one that still had to compile is run again."""
    policy, params = task.build(bandit)
    grid = [params._replace(radius_scale=scale) for scale in task.scales]

    def play(horizon: int, progress: Progress | None = None) -> tuple[list[Result], float]:
        begun = time.process_time()
        results = simulate_grid(
            policy,
            grid,
            bandit,
            horizon=horizon,
            num_seeds=task.seeds,
            key=jax.random.key(SEED),
            record_at=[horizon],
            dtype=np.dtype(dtype),
            progress=progress,
        )
        return results, time.process_time() - begun

    if policy.pulls_per_epoch == 1 and task.horizon > WARM:
        play(WARM)
    results, cpu = play(task.horizon, progress)
    return (results, cpu) if results[0].compile_seconds == 0 else play(task.horizon)


def state_bytes(task: Task, bandit: LinearBandit, dtype: str) -> int:
    """Bytes of the state that one replication keeps between pulls, the larger of a policy's phases; nothing is run.

    What the simulator keeps beside it (two sums, the records, the noise of a stretch) is the same for all policies and
    does not grow with T.
    """
    policy, params = task.build(bandit)
    kind = np.dtype(dtype)
    assert bandit.arms is not None
    arms = jax.ShapeDtypeStruct(bandit.arms.shape, kind)
    shapes = jax.tree.map(lambda _: jax.ShapeDtypeStruct((), kind), params)

    def size(player: Policy) -> int:
        state = jax.eval_shape(player.init, arms, shapes)
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))

    opening = None if policy.buffers is None else policy.buffers.opening
    return max(size(policy), 0 if opening is None else size(opening.policy))
