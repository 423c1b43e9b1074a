"""How often the confidence regions hold theta*: P(covered) against `radius_scale`, for every policy and several laws.

A cell plays one policy on one law with every scale of the grid, watched by `simulate_grid(..., coverage=True)`:
adaptively, or with arms drawn in advance (see `policies.bystander`), which have the same law as adaptive play's but do
not depend on the payoffs that the region is made of.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
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
from linbet_jax.noise import CenteredPareto, Gaussian, PayoffLaw, SymmetricPareto
from linbet_jax.policies import bystander, make_policy
from linbet_jax.reproduce import coverage_outputs as outputs
from linbet_jax.reproduce.study import Cost, Outcome, Reporter, Study, seed_pulls_cost
from linbet_jax.simulator import simulate_grid

__all__ = ["POLICIES", "Plan", "plan", "reproduce"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SEED = 5  # of the experiment's key
HORIZON, SEEDS = 3_000, 128
FULL_SEEDS = 1_000


class Problem(NamedTuple):
    """A set's arms and theta* under a payoff law; None is the set's own law and epsilon."""

    set_name: str
    noise: PayoffLaw | None = None
    epsilon: float | None = None


PROBLEMS = (
    Problem("S1"),
    Problem("S1", Gaussian(math.sqrt(3.0)), 1.0),  # the same variance as t(3)
    Problem("S3"),
    Problem("S1", CenteredPareto(2.0), 0.5),
)
FULL_PROBLEMS = (*PROBLEMS, Problem("S1", SymmetricPareto(2.0), 0.5), Problem("S1", CenteredPareto(1.5), 0.25))


class Cell(NamedTuple):
    """One policy under one law, adaptively or with arms drawn in advance."""

    problem: Problem
    bandit: LinearBandit
    policy_name: str
    horizon: int
    in_advance: bool
    delta: float
    ridge: float

    @property
    def title(self) -> str:
        """Its name in the manifest."""
        return f"{self.bandit.name}/{self.policy_name}/{'in advance' if self.in_advance else 'adaptive'}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was asked for.

    Attributes:
        cells: every cell, built and checked.
        seeds: replications of each scale.
        full: the large version.
        dtype: "float64" or "float32".
    """

    cells: tuple[Cell, ...]
    seeds: int
    full: bool
    dtype: str

    @property
    def cost(self) -> Cost:
        """What the run will take; a bystander plays two pulls for one."""
        total = Cost(0, 0, 0.0)
        for cell in self.cells:
            total += seed_pulls_cost(
                cell.policy_name,
                num_arms=cell.bandit.num_arms,
                dim=cell.bandit.dim,
                horizon=cell.horizon * (1 + cell.in_advance),
                replications=len(GRID) * self.seeds,
            )
        return total


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Plan:
    """Every cell of the experiment, checked before anything runs.

    Args:
        seeds: replications of each scale; None is 128, or 1000 in the large version.
        full: two more laws, more seeds and the paper's horizons.
        dtype: "float64" or "float32".
        horizon: pulls; None is 3000, or the paper's in the large version.

    Raises:
        InputError: a horizon that a policy cannot have.
    """
    cells = []
    for problem in FULL_PROBLEMS if full else PROBLEMS:
        spec, bandit = DATASETS[problem.set_name], _bandit(problem)
        pulls = horizon or (spec.horizon if full else HORIZON)
        for name in POLICIES:
            for in_advance in (False, True):
                cell = Cell(problem, bandit, name, pulls, in_advance, spec.delta, spec.ridge)
                try:
                    make_policy(name, bandit, horizon=pulls, delta=spec.delta, ridge=spec.ridge)
                except ValueError as error:
                    raise InputError(f"{cell.title}: {error}") from error
                cells.append(cell)
    return Plan(tuple(cells), seeds or (FULL_SEEDS if full else SEEDS), full, dtype)


def _bandit(problem: Problem) -> LinearBandit:
    own = dataset(problem.set_name)
    if problem.noise is None:
        return own
    assert own.arms is not None
    assert own.theta_star is not None
    name = f"{problem.set_name} with {problem.noise.name}"
    return LinearBandit(own.arms, own.theta_star, problem.noise, epsilon=problem.epsilon, name=name)


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
    config = {"seeds": plan.seeds, "full": plan.full, "dtype": plan.dtype, "cells": [_own(c, plan) for c in plan.cells]}
    with Study("coverage", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        runs = []
        for cell in plan.cells:
            pulls = cell.horizon * (1 + cell.in_advance)
            arrays = study.cell(
                cell.title,
                _own(cell, plan),
                functools.partial(_compute, cell, plan, study.progress(pulls)),
                pulls=pulls * len(GRID) * plan.seeds,
            )
            runs.append(
                outputs.Run(
                    problem=outputs.problem_title(cell.bandit),
                    policy=cell.policy_name,
                    in_advance=cell.in_advance,
                    horizon=cell.horizon,
                    scales=arrays["scales"],
                    first_miss=arrays["first_miss"],
                    worst_ratio=arrays["worst_ratio"],
                    health=arrays["health"],
                    notes=tuple(json.loads(str(arrays["notes"]))),
                )
            )
        report = outputs.Report(tuple(runs), plan.seeds, plan.cells[0].delta, plan.cells[0].ridge)
        files = outputs.write(report, study.path)
        study.finish(files, report.unhealthy)
        return Outcome(outputs.terminal_text(report), (*files, study.file("manifest.json")), report.unhealthy)


def _own(cell: Cell, plan: Plan) -> dict[str, Any]:
    """Everything that decides a cell's numbers beside versions, code, device and dtype."""
    return {
        "instance": provenance.instance_digest(cell.bandit),
        "policy": cell.policy_name,
        "in_advance": cell.in_advance,
        "horizon": cell.horizon,
        "delta": cell.delta,
        "ridge": cell.ridge,
        "scales": list(GRID),
        "seeds": plan.seeds,
        "key": SEED,
        "dtype": plan.dtype,
    }


def _compute(cell: Cell, plan: Plan, progress: Callable[[int, int], None]) -> dict[str, NDArray[Any]]:
    """All scales of one cell as one batch."""
    grid = []
    for scale in GRID:
        known: dict[str, Any] = {"delta": cell.delta, "ridge": cell.ridge, "radius_scale": scale}
        policy, params = make_policy(cell.policy_name, cell.bandit, horizon=cell.horizon, **known)
        if cell.in_advance:
            policy, params = bystander(policy, params)
        grid.append(params)
    results = simulate_grid(
        policy,
        grid,
        cell.bandit,
        horizon=cell.horizon * (1 + cell.in_advance),
        num_seeds=plan.seeds,
        key=jax.random.key(SEED),
        num_records=1,
        coverage=True,
        dtype=np.dtype(plan.dtype),
        progress=progress,
    )
    watched = [result.coverage for result in results if result.coverage is not None]
    return {
        "scales": np.array(GRID),
        # In pulls of the policy's own clock: a pair's update comes after twice as many.
        "first_miss": np.stack([seen.first_miss for seen in watched]) // (1 + cell.in_advance),
        "worst_ratio": np.stack([np.asarray(seen.worst_ratio, np.float64) for seen in watched]),
        "health": np.stack([result.health for result in results]),
        "notes": np.array(json.dumps(sorted({note for result in results for note in result.notes}))),
    }
