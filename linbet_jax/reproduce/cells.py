"""The cells of Figure 2: one policy on one data set, tuned and then evaluated.

A cell first plays the tuning replications with every `radius_scale` of the grid, then the evaluation replications with
the literal scale 1 and with the scale of the smallest mean final regret. Tuning draws from another key, so the
evaluation never sees what the choice was made on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
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
from linbet_jax.reproduce.table1 import data_set_names
from linbet_jax.results import digest
from linbet_jax.simulator import Result, simulate_grid
from linbet_jax.tuning import GRID, TUNING, tune

__all__ = ["GRID", "POLICIES", "Cell", "Settings", "cell_key", "compute", "configuration", "plan"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
RECORDS = 200
SEED = 0  # of the experiment's key


@dataclasses.dataclass(frozen=True)
class Settings:
    """What was asked for.

    Attributes:
        sets: names among the data sets, in the order of the panels.
        seeds: evaluation replications.
        tuning_seeds: replications that choose the scale.
        horizon: pulls on every set instead of the paper's; None is the paper's.
        dtype: "float64" or "float32".
    """

    sets: tuple[str, ...] = tuple(DATASETS)
    seeds: int = 10
    tuning_seeds: int = 10
    horizon: int | None = None
    dtype: str = "float64"


class Cell(NamedTuple):
    """One policy on one data set, ready to run."""

    set_name: str
    policy_name: str
    horizon: int
    bandit: LinearBandit
    policy: Policy
    params: Any
    delta: float
    ridge: float

    @property
    def title(self) -> str:
        """Its name in the manifest."""
        return f"{self.set_name}/{self.policy_name}"

    @property
    def best_mean(self) -> float:
        """The best arm's mean payoff."""
        return DATASETS[self.set_name].best_mean if self.bandit.best_mean is None else float(self.bandit.best_mean)

    @property
    def cost(self) -> float:
        """Rough relative cost: pulls, times what a pull costs (TOFU most; MENU and MoM decide once an epoch)."""
        each = 4.0 if self.policy_name == "tofu" else 1.0
        return each * self.horizon * self.bandit.num_arms * self.bandit.dim / self.policy.pulls_per_epoch


def plan(settings: Settings) -> list[Cell]:
    """Every cell of the experiment, built and checked before anything runs.

    Raises:
        InputError: an unknown data set, or a horizon that a policy cannot have.
    """
    cells = []
    for name in data_set_names(settings.sets):
        spec, bandit = DATASETS[name], dataset(name)
        horizon = settings.horizon or spec.horizon
        for policy_name in POLICIES:
            try:
                policy, params = make_policy(policy_name, bandit, horizon=horizon, delta=spec.delta, ridge=spec.ridge)
            except ValueError as error:
                raise InputError(f"{policy_name} on {name}: {error}") from error
            cells.append(Cell(name, policy_name, horizon, bandit, policy, params, spec.delta, spec.ridge))
    return cells


def configuration(settings: Settings, cells: Sequence[Cell], kind: str) -> dict[str, Any]:
    """Everything that decides the numbers of the whole run; a run folder belongs to one of these."""
    return {
        "experiment": "figure2",
        "sets": list(dict.fromkeys(cell.set_name for cell in cells)),
        "policies": list(POLICIES),
        "seeds": settings.seeds,
        "tuning_seeds": settings.tuning_seeds,
        "horizon": "paper" if settings.horizon is None else settings.horizon,
        "delta": cells[0].delta,
        "ridge": cells[0].ridge,
        "radius_scale_grid": list(GRID),
        "records": RECORDS,
        "key": {"seed": SEED, "tuning_fold": TUNING},
        "instances": {cell.set_name: provenance.instance_digest(cell.bandit) for cell in cells},
        "numerics": provenance.numerics(settings.dtype, kind),
    }


def compute(
    cell: Cell, settings: Settings, progress: Callable[[int], None]
) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
    """Runs one cell: tuning, then evaluation through the same compiled program.

    Args:
        cell: what to run.
        settings: replications and dtype.
        progress: told how many more pulls are done, over all replications.

    Returns:
        Arrays of the cell (the same bytes for the same configuration) and its timings in seconds.
    """
    key = jax.random.key(SEED)

    def advance() -> Callable[[int, int], None]:
        seen = 0

        def told(done: int, _: int) -> None:
            nonlocal seen
            progress((done - seen) * cell.horizon)
            seen = done

        return told

    shared: dict[str, Any] = {"horizon": cell.horizon, "key": key, "num_records": RECORDS}
    shared["dtype"] = np.dtype(settings.dtype)
    maker = {cell.policy_name: lambda _: (cell.policy, cell.params)}
    [tuning] = tune(
        maker, {cell.set_name: cell.bandit}, GRID, num_seeds=settings.tuning_seeds, progress=advance(), **shared
    )
    chosen = tuning.chosen
    # Two different scales even where tuning chose 1: one alone would be another program, and compile again.
    scales = [1.0, chosen] if chosen != 1.0 else [1.0, GRID[1]]
    grid = [cell.params._replace(radius_scale=scale) for scale in scales]
    evaluation: list[Result] = simulate_grid(
        cell.policy, grid, cell.bandit, num_seeds=settings.seeds, progress=advance(), **shared
    )
    if chosen == 1.0:
        scales, evaluation = scales[:1], evaluation[:1]
    facts = {
        "facts": dict(evaluation[0].facts),
        "notes": sorted({*tuning.notes, *(note for result in evaluation for note in result.notes)}),
        "block_size": evaluation[0].block_size,
        "device": evaluation[0].device,
        "prng": evaluation[0].prng,
        "reruns": {"tuning": tuning.reruns, "evaluation": sum(r.reruns for r in evaluation)},
    }
    arrays: dict[str, NDArray[Any]] = {
        "tuning_regret": tuning.regret,
        "tuning_health": tuning.health,
        "scales": np.array(scales),
        "rounds": np.asarray(evaluation[0].rounds),
        "regret": np.stack([result.regret for result in evaluation]),
        "payoff": np.stack([result.payoff for result in evaluation]),
        "health": np.stack([result.health for result in evaluation]),
        "facts": np.array(json.dumps(facts, sort_keys=True)),
    }
    timings = {
        "compile": round(tuning.compile_seconds + evaluation[0].compile_seconds, 3),
        "tuning": round(tuning.run_seconds, 3),
        "evaluation": round(evaluation[0].run_seconds, 3),
    }
    return arrays, timings


def cell_key(cell: Cell, config: Mapping[str, Any]) -> str:
    """Hash of everything that decides the cell's numbers; which other cells run beside it does not."""
    shared = {name: value for name, value in config.items() if name not in ("sets", "policies", "instances", "horizon")}
    own = {
        "set": cell.set_name,
        "policy": cell.policy_name,
        "horizon": cell.horizon,
        "instance": config["instances"][cell.set_name],
    }
    return digest({**shared, **own})
