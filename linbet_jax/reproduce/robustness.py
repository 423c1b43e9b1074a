"""What wrong knowledge costs: regret against the ratio of the assumed to the true b, c and epsilon.

Nobody knows a law's moments in practice. Each policy is told one wrong number at a time, through the arguments of
`make_policy`, and plays with its radii as published and with one scale that was tuned while it knew the truth. A wrong
epsilon comes with the moment bound that is right for the true one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from linbet_jax import provenance
from linbet_jax.bandit import LinearBandit
from linbet_jax.datasets import DATASETS, dataset
from linbet_jax.errors import InputError
from linbet_jax.policies import make_policy
from linbet_jax.policy import Policy
from linbet_jax.reproduce import robustness_outputs as outputs
from linbet_jax.reproduce.study import Cost, Outcome, Reporter, Study, seed_pulls_cost
from linbet_jax.simulator import simulate_grid
from linbet_jax.tuning import GRID, TUNING, tune

__all__ = ["Plan", "plan", "reproduce"]

MOMENTS = {"menu": "central_moment_bound", "mom": "central_moment_bound"} | dict.fromkeys(
    ("tofu", "crt"), "raw_moment_bound"
)
MOMENT_RATIOS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
EPSILON_RATIOS = (0.1, 0.2, 0.5, 1.5, 2.0, 5.0, 10.0)  # those with epsilon <= 1 are played
SETS, SEEDS, TUNING_SEEDS = ("S1", "S3"), 48, 10
FULL_SETS, FULL_SEEDS, FULL_TUNING_SEEDS = tuple(DATASETS), 256, 50
SEED = 7  # of the experiment's key


class Assumption(NamedTuple):
    """What a policy is told: `field` is the true number times `ratio`."""

    field: str
    ratio: float


class Cell(NamedTuple):
    """One policy on one set."""

    set_name: str
    policy_name: str
    horizon: int
    bandit: LinearBandit
    delta: float
    ridge: float

    @property
    def title(self) -> str:
        """Its name in the manifest."""
        return f"{self.set_name}/{self.policy_name}"

    def assumptions(self) -> list[Assumption]:
        """The truth first, then one wrong number at a time; epsilon never beyond 1."""
        wrong = [Assumption(MOMENTS[self.policy_name], ratio) for ratio in MOMENT_RATIOS]
        epsilons = [ratio for ratio in EPSILON_RATIOS if ratio * self.bandit.epsilon <= 1]
        return [Assumption("epsilon", 1.0), *wrong, *(Assumption("epsilon", ratio) for ratio in epsilons)]

    def made(self, assumption: Assumption, scale: float) -> tuple[Policy, Any]:
        """The policy that believes it."""
        told: dict[str, Any] = {assumption.field: getattr(self.bandit, assumption.field) * assumption.ratio}
        known: dict[str, Any] = {"horizon": self.horizon, "delta": self.delta, "ridge": self.ridge}
        return make_policy(self.policy_name, self.bandit, radius_scale=scale, **known, **told)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was asked for.

    Attributes:
        cells: every cell, built and checked.
        seeds: replications of each setting.
        tuning_seeds: replications that choose the scale.
        full: the large version.
        dtype: "float64" or "float32".
    """

    cells: tuple[Cell, ...]
    seeds: int
    tuning_seeds: int
    full: bool
    dtype: str

    @property
    def cost(self) -> Cost:
        """What the run will take; tuning is a cell of its own."""
        total = Cost(0, 0, 0.0)
        for cell in self.cells:
            for replications in (len(GRID) * self.tuning_seeds, 2 * len(cell.assumptions()) * self.seeds):
                total += seed_pulls_cost(
                    cell.policy_name,
                    num_arms=cell.bandit.num_arms,
                    dim=cell.bandit.dim,
                    horizon=cell.horizon,
                    replications=replications,
                )
        return total


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Plan:
    """Every cell of the experiment, checked before anything runs.

    Args:
        seeds: replications of each setting; None is 48, or 256 in the large version.
        full: all four sets.
        dtype: "float64" or "float32".
        horizon: pulls on every set; None is the paper's.

    Raises:
        InputError: a horizon that a policy cannot have.
    """
    cells = []
    for name in FULL_SETS if full else SETS:
        spec, bandit = DATASETS[name], dataset(name)
        for policy_name in MOMENTS:
            cell = Cell(name, policy_name, horizon or spec.horizon, bandit, spec.delta, spec.ridge)
            for assumption in cell.assumptions():
                try:
                    cell.made(assumption, 1.0)
                except ValueError as error:
                    raise InputError(f"{cell.title}: {error}") from error
            cells.append(cell)
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    return Plan(tuple(cells), seeds or (FULL_SEEDS if full else SEEDS), tuning_seeds, full, dtype)


def reproduce(plan: Plan, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes table, curves, picture and the manifest.

    Args:
        plan: what to run.
        out: the run folder.
        kind: the device's own name.
        devices: the devices in words, for the manifest.
        reporter: where progress goes.

    Raises:
        RunFolderError: the folder holds something else; nothing has been changed then.
    """
    config = {
        "seeds": plan.seeds,
        "tuning_seeds": plan.tuning_seeds,
        "full": plan.full,
        "dtype": plan.dtype,
        "cells": [_own(cell, plan) for cell in plan.cells],
    }
    with Study("robustness", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        runs, unhealthy = [], 0
        for cell in plan.cells:
            tuned = study.cell(
                f"{cell.title}/tuning",
                {**_own(cell, plan), "grid": list(GRID), "tuning_seeds": plan.tuning_seeds, "tuning_fold": TUNING},
                functools.partial(_tune, cell, plan, study.progress(cell.horizon)),
                pulls=cell.horizon * len(GRID) * plan.tuning_seeds,
            )
            chosen = float(tuned["chosen"])
            unhealthy += int(np.count_nonzero(tuned["health"]))
            told = cell.assumptions()
            arrays = study.cell(
                cell.title,
                {**_own(cell, plan), "scale": chosen, "assumptions": [list(assumption) for assumption in told]},
                functools.partial(_compute, cell, plan, chosen, study),
                pulls=cell.horizon * 2 * len(told) * plan.seeds,
            )
            for radii, scale, regret, health in zip(
                outputs.RADII, (1.0, chosen), arrays["regret"], arrays["health"], strict=True
            ):
                for assumption, values, words in zip(told, regret, health, strict=True):
                    runs.append(
                        outputs.Run(
                            set_name=cell.set_name,
                            title=f"{cell.set_name}: {cell.bandit.noise.name}, T={cell.horizon:,}",
                            policy=cell.policy_name,
                            radii=radii,
                            radius_scale=scale,
                            field=assumption.field,
                            ratio=assumption.ratio,
                            truth=float(getattr(cell.bandit, assumption.field)),
                            regret=values,
                            health=words,
                            at_edge=radii == "tuned" and chosen in (min(GRID), max(GRID)),
                            notes=tuple(json.loads(str(arrays["notes"]))),
                        )
                    )
        report = outputs.Report(tuple(runs), plan.seeds, plan.tuning_seeds, plan.cells[0].delta, plan.cells[0].ridge)
        unhealthy += report.unhealthy
        files = outputs.write(report, study.path)
        study.finish(files, unhealthy)
        return Outcome(outputs.terminal_text(report), (*files, study.file("manifest.json")), unhealthy)


def _own(cell: Cell, plan: Plan) -> dict[str, Any]:
    """What decides a cell's numbers beside versions, code, device, dtype and what the cell adds."""
    return {
        "instance": provenance.instance_digest(cell.bandit),
        "policy": cell.policy_name,
        "horizon": cell.horizon,
        "delta": cell.delta,
        "ridge": cell.ridge,
        "seeds": plan.seeds,
        "key": SEED,
        "dtype": plan.dtype,
    }


def _tune(cell: Cell, plan: Plan, progress: Callable[[int, int], None]) -> dict[str, NDArray[Any]]:
    """The scale that is best for the truth."""
    truth = cell.assumptions()[0]
    [curve] = tune(
        {cell.policy_name: lambda _: cell.made(truth, 1.0)},
        {cell.set_name: cell.bandit},
        GRID,
        horizon=cell.horizon,
        key=jax.random.key(SEED),
        num_seeds=plan.tuning_seeds,
        dtype=np.dtype(plan.dtype),
        progress=progress,
    )
    return {"chosen": np.array(curve.chosen), "regret": curve.regret, "health": curve.health}


def _compute(cell: Cell, plan: Plan, chosen: float, study: Study) -> dict[str, NDArray[Any]]:
    """Both scales of every assumption, `[2, A, S]`; in one batch what shares a program, all but MoM's epsilons."""
    told = cell.assumptions()
    batches: dict[Policy, list[tuple[int, int, Any]]] = {}
    for which, scale in enumerate((1.0, chosen)):
        for place, assumption in enumerate(told):
            policy, params = cell.made(assumption, scale)
            batches.setdefault(policy, []).append((which, place, params))
    regret = np.zeros((2, len(told), plan.seeds))
    health = np.zeros((2, len(told), plan.seeds), np.int64)
    notes: set[str] = set()
    for policy, batch in batches.items():
        results = simulate_grid(
            policy,
            [params for _, _, params in batch],
            cell.bandit,
            horizon=cell.horizon,
            num_seeds=plan.seeds,
            key=jax.random.key(SEED),
            num_records=1,
            dtype=np.dtype(plan.dtype),
            progress=study.progress(cell.horizon),
        )
        for (which, place, _), result in zip(batch, results, strict=True):
            regret[which, place], health[which, place] = result.regret[:, -1], result.health
            notes.update(result.notes)
    return {"regret": regret, "health": health, "notes": np.array(json.dumps(sorted(notes)))}
