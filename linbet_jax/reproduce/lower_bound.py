"""Theorem 1, played: mean regret of every policy on the lower bound's instances against (d/192) T^{1/(1+eps)}.

theta* is drawn anew for every replication, since the theorem's expectation is over it too. A policy whose mean regret
lies below the bound beyond sampling error contradicts a theorem: then something here is wrong, and the command fails.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from linbet_jax import provenance, theory
from linbet_jax.bandit import LinearBandit
from linbet_jax.datasets import lower_bound
from linbet_jax.errors import InputError
from linbet_jax.policies import make_policy
from linbet_jax.policy import Policy
from linbet_jax.reproduce import lower_bound_outputs as outputs
from linbet_jax.reproduce.study import COMPILE_SECONDS, Cost, Outcome, Reporter, Study, seed_pulls_cost
from linbet_jax.simulator import simulate_grid

__all__ = ["POLICIES", "Plan", "plan", "reproduce"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful", "uniform")
SCALES = (1.0, 0.03, 0.001)  # literal, near what tuning chooses, and hardly exploring
DIMS, EPSILONS, HORIZONS, SEEDS = (2, 4, 8), (0.5, 1.0), (100, 500, 2_000, 10_000), 200
FULL_DIMS, FULL_EPSILONS = (2, 4, 8, 12, 16, 20), (0.25, 0.5, 0.75, 1.0)
FULL_HORIZONS, FULL_SEEDS = (100, 1_000, 10_000, 100_000, 1_000_000), 400
DELTA, RIDGE, SEED = 0.1, 1.0, 1


class Cell(NamedTuple):
    """One policy on the instances of one (d, epsilon, T)."""

    dim: int
    epsilon: float
    horizon: int
    policy_name: str
    bandit: LinearBandit

    @property
    def title(self) -> str:
        """Its name in the manifest."""
        return f"d={self.dim}/eps={self.epsilon:g}/T={self.horizon}/{self.policy_name}"

    @property
    def scales(self) -> tuple[float, ...]:
        """Uniform play has no radius."""
        return SCALES if self.policy_name != "uniform" else (1.0,)

    def made(self) -> tuple[Policy, list[Any]]:
        """The policy, and its parameters for each scale."""
        known: dict[str, Any] = {"horizon": self.horizon, "delta": DELTA, "ridge": RIDGE}
        made = [make_policy(self.policy_name, self.bandit, radius_scale=scale, **known) for scale in self.scales]
        return made[0][0], [params for _, params in made]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was asked for.

    Attributes:
        cells: every cell, built and checked.
        left_out: cells that a policy's smallest horizon forbids, as sentences.
        seeds: replications, each with its own theta*.
        full: the large version.
        dtype: "float64" or "float32".
    """

    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]
    seeds: int
    full: bool
    dtype: str

    @property
    def cost(self) -> Cost:
        """What the run will take; cells that differ in epsilon or T alone may share a program."""
        programs = {(cell.made()[0], cell.dim) for cell in self.cells}
        total = Cost(0, 0, -COMPILE_SECONDS * (len(self.cells) - len(programs)))
        for cell in self.cells:
            total += seed_pulls_cost(
                cell.policy_name,
                num_arms=cell.bandit.num_arms,
                dim=cell.dim,
                horizon=cell.horizon,
                replications=len(cell.scales) * self.seeds,
            )
        return total


def plan(
    *,
    seeds: int | None,
    full: bool,
    dtype: str,
    dims: Sequence[int] | None = None,
    epsilons: Sequence[float] | None = None,
    horizons: Sequence[int] | None = None,
) -> Plan:
    """Every cell of the experiment, checked before anything runs.

    Args:
        seeds: replications; None is 200, or 400 in the large version.
        full: d to 20, four epsilons, T to 10^6.
        dtype: "float64" or "float32".
        dims: d, even numbers from 2 to 20; None is the version's own list, as below.
        epsilons: in (0, 1].
        horizons: T, pulls, two different ones at least.

    Raises:
        InputError: a number out of its range, or a T that the theorem or all policies forbid.
    """
    dims = _ordered("dims", dims or (FULL_DIMS if full else DIMS))
    epsilons = _ordered("epsilons", epsilons or (FULL_EPSILONS if full else EPSILONS))
    horizons = _ordered("horizons", horizons or (FULL_HORIZONS if full else HORIZONS))
    if len(horizons) < 2:
        raise InputError(f"horizons={list(horizons)}: an exponent needs two different ones at least")
    cells, left_out = [], {}
    for dim in dims:
        if dim % 2:
            raise InputError(f"dims: {dim} must be even; an odd d plays the instances of d - 1")
        for epsilon in epsilons:
            for horizon in horizons:
                try:
                    bandit = lower_bound(dim, epsilon, horizon, resample=True)
                except ValueError as error:
                    raise InputError(f"d={dim}, epsilon={epsilon:g}, T={horizon}: {error}") from error
                for name in POLICIES:
                    cell = Cell(dim, epsilon, horizon, name, bandit)
                    try:
                        cell.made()
                    except ValueError as error:
                        left_out[f"{name} at T={horizon}"] = f"{name} does not play T={horizon}: {error}"
                    else:
                        cells.append(cell)
    return Plan(tuple(cells), tuple(left_out.values()), seeds or (FULL_SEEDS if full else SEEDS), full, dtype)


def _ordered(field: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Increasing, each once."""
    if any(not math.isfinite(value) for value in values):
        raise InputError(f"{field}={list(values)}: must be finite numbers")
    return tuple(sorted(set(values)))


def reproduce(plan: Plan, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes table, curves, picture and the manifest.

    Args:
        plan: what to run.
        out: the run folder.
        kind: the device's own name.
        devices: the devices in words, for the manifest.
        reporter: where progress goes.

    Returns:
        What it shows; a policy below the bound is among its problems.

    Raises:
        RunFolderError: the folder holds something else; nothing has been changed then.
    """
    config = {"seeds": plan.seeds, "full": plan.full, "dtype": plan.dtype, "cells": [_own(c, plan) for c in plan.cells]}
    with Study("lower-bound", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        runs: list[outputs.Run] = []
        for cell in plan.cells:
            arrays = study.cell(
                cell.title,
                _own(cell, plan),
                functools.partial(_compute, cell, plan, study.progress(cell.horizon)),
                pulls=cell.horizon * len(cell.scales) * plan.seeds,
            )
            for scale, regret, health in zip(cell.scales, arrays["regret"], arrays["health"], strict=True):
                run = outputs.Run(
                    dim=cell.dim,
                    epsilon=cell.epsilon,
                    horizon=cell.horizon,
                    policy=cell.policy_name,
                    radius_scale=scale,
                    regret=regret,
                    health=health,
                    lower=theory.lower_bound_regret(float(cell.horizon), dim=cell.dim, epsilon=cell.epsilon),
                    upper=_upper(cell) if scale == 1.0 else math.nan,
                    notes=tuple(json.loads(str(arrays["notes"]))),
                )
                runs.append(run)
        report = outputs.Report(tuple(runs), plan.seeds, DELTA, RIDGE, plan.left_out)
        files = outputs.write(report, study.path)
        problems = report.problems
        study.finish(files, report.unhealthy, below_the_bound=list(problems))
        manifest = study.file("manifest.json")
        return Outcome(outputs.terminal_text(report), (*files, manifest), report.unhealthy, problems)


def _own(cell: Cell, plan: Plan) -> dict[str, Any]:
    """Everything that decides a cell's numbers beside versions, code, device and dtype."""
    return {
        "d": cell.dim,
        "epsilon": cell.epsilon,
        "horizon": cell.horizon,
        "policy": cell.policy_name,
        "constants": provenance.constants(cell.bandit),
        "delta": DELTA,
        "ridge": RIDGE,
        "scales": list(cell.scales),
        "seeds": plan.seeds,
        "key": SEED,
        "dtype": plan.dtype,
    }


def _compute(cell: Cell, plan: Plan, progress: Callable[[int, int], None]) -> dict[str, NDArray[Any]]:
    """All scales of one cell as one batch."""
    policy, grid = cell.made()
    results = simulate_grid(
        policy,
        grid,
        cell.bandit,
        horizon=cell.horizon,
        num_seeds=plan.seeds,
        key=jax.random.key(SEED),
        num_records=1,
        dtype=np.dtype(plan.dtype),
        progress=progress,
    )
    return {
        "regret": np.stack([np.asarray(result.regret[:, -1], np.float64) for result in results]),
        "health": np.stack([result.health for result in results]),
        "notes": np.array(json.dumps(sorted({note for result in results for note in result.notes}))),
    }


def _upper(cell: Cell) -> float:
    """The policy's own bound at the literal radii; NaN where no theorem covers it (OFUL needs sub-Gaussian noise)."""
    bandit = cell.bandit
    known: dict[str, Any] = {"dim": cell.dim, "delta": DELTA, "epsilon": cell.epsilon, "ridge": RIDGE}
    known |= {"theta_norm": bandit.theta_norm, "arm_norm": bandit.arm_norm, "mean_bound": bandit.mean_bound}
    raw, central = bandit.raw_moment_bound, bandit.central_moment_bound
    if cell.policy_name == "menu":
        return float(theory.menu_regret_bound(float(cell.horizon), central_moment_bound=central, **known))
    if cell.policy_name == "mom":
        return theory.mom_regret_bound(cell.horizon, central_moment_bound=central, **known)
    if cell.policy_name == "tofu":
        return float(theory.tofu_regret_bound(float(cell.horizon), raw_moment_bound=raw, **known))
    if cell.policy_name == "crt":
        return float(theory.crt_regret_bound(float(cell.horizon), raw_moment_bound=raw, **known))
    return math.nan
