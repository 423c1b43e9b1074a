"""float32 against float64: when do the arms of a run part, and does its regret move?

Every policy plays every data set twice on the same seeds, once in float32 and once in float64. The noise of a seed is
the same up to rounding, so that two runs play the same arms until an index of one arm passes another's by less than
rounding. From there on they are two runs of the same policy that saw the same noise.

When float32 is safe (`linbet reproduce precision` measures it):

- for statistics over seeds while a policy explores, as it does at the papers' radii: the differences are those of two
  equally good runs, and average out;
- not, over long horizons, for statistics of a policy that has settled on an arm (a small radius_scale): its sums of
  payoffs times features grow with t. The sums themselves lose nothing (they are compensated), but float32 rounds V^-1
  and its product with them, most of all in the directions that are hardly played any more, so that the policy plays
  other arms now and then: TOFU with radius_scale 0.03 on S1 pays for that at T = 10^5. Use float64 there;
- not for arms or curves of one seed under a policy that decides at every pull (TOFU, CRT, OFUL): within a few hundred
  pulls nearly every seed plays other arms than in float64. MENU and MoM, which decide once an epoch, mostly agree at
  T = 10^4 and less at 10^5. Use float64 to replay, to compare with another program, or to pair runs seed by seed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from linbet_jax import provenance
from linbet_jax.bandit import LinearBandit
from linbet_jax.datasets import DATASETS, dataset
from linbet_jax.policies import make_policy
from linbet_jax.reproduce import precision_outputs
from linbet_jax.reproduce.study import Cost, Outcome, Reporter, Study, seed_pulls_cost
from linbet_jax.simulator import Result, simulate_grid

__all__ = ["POLICIES", "Plan", "plan", "reproduce"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
SCALES = (1.0, 0.03)  # the papers' radii, and radii under which a policy settles on an arm
DTYPES = ("float64", "float32")
SEED = 0  # of the experiment's key
GROUP = 32  # seeds whose arms are held at once: memory does not grow with the number of seeds


@dataclasses.dataclass(frozen=True)
class Run:
    """One policy on one data set at one horizon, in both types."""

    set_name: str
    policy: str
    horizon: int

    @property
    def title(self) -> str:
        """Its name in the manifest."""
        return f"{self.set_name}/{self.policy}/T={self.horizon}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything that will be run.

    Attributes:
        runs: the cells.
        seeds: replications of each.
        scales: radius_scale.
    """

    runs: tuple[Run, ...]
    seeds: int
    scales: tuple[float, ...] = SCALES

    @property
    def cost(self) -> Cost:
        """Both types, all scales."""
        total = Cost(0, 0, 0.0)
        for run in self.runs:
            spec = DATASETS[run.set_name]
            one = seed_pulls_cost(
                run.policy,
                num_arms=spec.num_arms,
                dim=spec.dim,
                horizon=run.horizon,
                replications=self.seeds * len(self.scales),
            )
            total += Cost(1, 2 * one.seed_pulls, 2 * one.core_seconds)
        return total


def plan(*, seeds: int | None, full: bool) -> Plan:
    """T = 10^4 on S1-S4 and T = 10^5 on S1 and S3; with `full` 10^5 on all four, and 256 seeds instead of 32."""
    long = tuple(DATASETS) if full else ("S1", "S3")
    cells = [(name, 10_000) for name in DATASETS] + [(name, 100_000) for name in long]
    runs = tuple(Run(name, policy, horizon) for name, horizon in cells for policy in POLICIES)
    return Plan(runs, seeds or (256 if full else 32))


def reproduce(plan: Plan, out: Path, *, kind: str, devices: str, reporter: Reporter) -> Outcome:
    """Runs what is not done yet, then writes the table, the curves of agreement, pictures and the manifest.

    Raises:
        InputError: a folder that holds something else.
    """
    bandits = {name: dataset(name) for name in dict.fromkeys(run.set_name for run in plan.runs)}
    instances = {name: provenance.instance_digest(bandit) for name, bandit in bandits.items()}
    common = {"seeds": plan.seeds, "radius_scales": list(plan.scales), "key": SEED}
    config = {"dtype": "both", "runs": [run.title for run in plan.runs], **common, "instances": instances}
    with Study("precision", config, out, kind=kind, devices=devices, reporter=reporter, cost=plan.cost) as study:
        found = []
        for run in plan.runs:
            arrays = study.cell(
                run.title,
                {**dataclasses.asdict(run), **common, "instance": instances[run.set_name]},
                functools.partial(_compare, run, bandits[run.set_name], plan, study.progress(run.horizon)),
                pulls=2 * plan.seeds * len(plan.scales) * run.horizon,
            )
            found += precision_outputs.comparisons(run.set_name, run.policy, run.horizon, plan.scales, arrays)
        files = precision_outputs.write(found, study.path)
        unhealthy = sum(comparison.unhealthy for comparison in found)
        study.finish(files, unhealthy, advice=precision_outputs.advice(found))
        return Outcome(precision_outputs.text(found), (*files, study.file("manifest.json")), unhealthy)


def _compare(
    run: Run, bandit: LinearBandit, plan: Plan, progress: Callable[[int, int], None]
) -> dict[str, NDArray[Any]]:
    """Where the arms part, and the regret in both types.

    Returns:
        `first` [G, S], the first pull at which the arms differ, 0 if none; `equal` [G, S], the share of pulls with the
        same arm; `regret` and `health` [2, G, S], in the order of `DTYPES`.
    """
    spec = DATASETS[run.set_name]
    policy, params = make_policy(run.policy, bandit, horizon=run.horizon, delta=spec.delta, ridge=spec.ridge)
    grid = [params._replace(radius_scale=scale) for scale in plan.scales]

    def play(dtype: str, seeds: NDArray[np.int64]) -> list[Result]:
        return simulate_grid(
            policy,
            grid,
            bandit,
            horizon=run.horizon,
            seeds=seeds,
            key=jax.random.key(SEED),
            record_at=[run.horizon],
            trace=True,
            dtype=np.dtype(dtype),
        )

    groups = []
    for start in range(0, plan.seeds, GROUP):
        seeds = np.arange(start, min(start + GROUP, plan.seeds))
        with ThreadPoolExecutor(len(DTYPES)) as pool:  # one type compiles while the other does
            wide, narrow = pool.map(play, DTYPES, [seeds] * len(DTYPES))
        differ = np.stack([_arms(a) != _arms(b) for a, b in zip(wide, narrow, strict=True)])
        groups.append(
            {
                "first": np.where(differ.any(axis=2), differ.argmax(axis=2) + 1, 0),
                "equal": 1 - differ.mean(axis=2),
                "regret": np.stack([[r.regret[:, -1].astype(np.float64) for r in both] for both in (wide, narrow)]),
                "health": np.stack([[r.health for r in both] for both in (wide, narrow)]),
            }
        )
        progress(2 * (start + seeds.size) * len(grid), 0)
    return {name: np.concatenate([group[name] for group in groups], axis=-1) for name in groups[0]}


def _arms(result: Result) -> NDArray[np.int32]:
    assert result.trace is not None
    return result.trace.arms
