"""What wrong knowledge costs: regret against the ratio of the assumed to the true b, c and epsilon.

Nobody knows a law's moments in practice. Each policy is told one wrong number at a time, through the arguments of
`make_policy`, and plays with its radii as published and with one scale that was tuned while it knew the truth. A wrong
epsilon comes with the moment bound that is right for the true one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from linbet_jax.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import COMPILE_SECONDS, Cell, Cost, Found, Outputs, Plan, Progress, long_form
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.plotting import COLORS, Chart, chart_figure
from linbet_jax.policy import Policy
from linbet_jax.regret import Summary, paired_difference
from linbet_jax.tables import aligned_table, csv_text, interval, markdown_table, number
from linbet_jax.tuning import GRID, TUNING, tune

__all__ = ["plan"]

MOMENTS = {"menu": "central_moment_bound", "mom": "central_moment_bound"} | dict.fromkeys(
    ("tofu", "crt"), "raw_moment_bound"
)
MOMENT_RATIOS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
EPSILON_RATIOS = (0.1, 0.2, 0.5, 1.5, 2.0, 5.0, 10.0)  # those with epsilon <= 1 are played
SETS, SEEDS, TUNING_SEEDS = ("S1", "S3"), 48, 10
FULL_SETS, FULL_SEEDS, FULL_TUNING_SEEDS = tuple(DATASETS), 256, 50
SEED = 7  # of the experiment's key
RADII = ("literal", "tuned")
SYMBOLS = {"raw_moment_bound": "b", "central_moment_bound": "c", "epsilon": "ε"}
KNOWLEDGE = {"moment": ("raw_moment_bound", "central_moment_bound"), "epsilon": ("epsilon",)}
NAMES = {"moment": "b (TOFU, CRT) or c (MENU, MoM)", "epsilon": "ε"}


# What is played ------------------------------------------------------------------------------------------------------


class Assumption(NamedTuple):
    """What a policy is told: `field` is the true number times `ratio`."""

    field: str
    ratio: float

    def told_to(self, task: Task) -> Task:
        """The task of a policy that believes it."""
        return dataclasses.replace(task, options={self.field: getattr(task.bandit, self.field) * self.ratio})


def assumptions(task: Task) -> list[Assumption]:
    """The truth first, then one wrong number at a time; epsilon never beyond 1."""
    wrong = [Assumption(MOMENTS[task.policy], ratio) for ratio in MOMENT_RATIOS]
    epsilons = [ratio for ratio in EPSILON_RATIOS if ratio * task.bandit.epsilon <= 1]
    return [Assumption("epsilon", 1.0), *wrong, *(Assumption("epsilon", ratio) for ratio in epsilons)]


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
    known: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    tasks = [
        Task.on(name, policy, horizon=horizon, scales=GRID, key=SEED, **known)
        for name in (FULL_SETS if full else SETS)
        for policy in MOMENTS
    ]
    for task in tasks:
        for assumption in assumptions(task):
            assumption.told_to(task).made()
    cells = [_cell(task, tuning_seeds) for task in tasks]
    config = {**known, "tuning_seeds": tuning_seeds, "full": full, "cells": [cell.own for cell in cells]}

    def show(found: Mapping[str, Found]) -> Outputs:
        runs = [run for task in tasks for run in _runs(task, found[task.title])]
        tuning = [cell.columns["health"][cell.columns["tuning"] == 1] for cell in found.values()]
        notes = sorted({note for cell in found.values() for note in cell.facts["notes"]})
        setting = f"{tasks[0].seeds} seeds, λ = {tasks[0].ridge:g}, δ = {tasks[0].delta:g}"
        return _outputs(Report(runs, setting, tuning_seeds, notes), shared.unhealthy_seeds(tuning))

    return Plan("robustness", config, dtype, cells, (*shared.CODE, _compute), show)


def _cell(task: Task, tuning_seeds: int) -> Cell:
    told = assumptions(task)
    tuning, one = dataclasses.replace(task, seeds=tuning_seeds), dataclasses.replace(task, scales=(1.0,))
    settings = len(RADII) * len(told)
    seconds = 2 * COMPILE_SECONDS + tuning.core_seconds + settings * one.core_seconds
    cost = Cost(1, tuning.pulls + settings * one.pulls, seconds)
    own = {**task.own, "tuning_seeds": tuning_seeds, "tuning_fold": TUNING, "assumptions": [list(one) for one in told]}
    return Cell(task.title, own, cost, functools.partial(_compute, task, tuning_seeds))


def _compute(task: Task, tuning_seeds: int, progress: Progress) -> Found:
    """The scale that is best for the truth, then every assumption with scale 1 and with that one.

    In one batch plays what shares a program: all but MoM's epsilons.
    """
    told = assumptions(task)
    policy, [truth, *_] = told[0].told_to(task).made()
    [tuning] = tune(
        {task.policy: lambda _: (policy, truth)},
        {task.place: task.bandit},
        GRID,
        horizon=task.horizon,
        key=jax.random.key(task.key),
        num_seeds=tuning_seeds,
        dtype=np.dtype(task.dtype),
        progress=progress.of(task.horizon),
    )
    task = dataclasses.replace(task, scales=(1.0, tuning.chosen))
    batches: dict[Policy, list[tuple[int, int, Any]]] = {}
    for place, assumption in enumerate(told):
        policy, grid = assumption.told_to(task).made()
        batches.setdefault(policy, []).extend((which, place, params) for which, params in enumerate(grid))
    shape = (len(RADII), len(told), task.seeds)
    regret, health, notes = np.zeros(shape), np.zeros(shape, np.int64), set[str]()
    for policy, batch in batches.items():
        results = shared.play(policy, [params for *_, params in batch], task, progress.of(task.horizon))
        for (which, place, _), result in zip(batch, results, strict=True):
            regret[which, place], health[which, place] = result.regret[:, -1], result.health
            notes.update(result.notes)
    tuned = long_form(
        {"tuning": [1], "radius_scale": GRID, "assumption": [0], "seed": range(tuning_seeds)},
        {"regret": tuning.regret[None, :, None], "health": tuning.health[None, :, None]},
    )
    # The literal scale and the chosen one may be equal: the rows of both are there, one after the other.
    evaluated = long_form(
        {"tuning": [0], "radius_scale": task.scales, "assumption": range(len(told)), "seed": range(task.seeds)},
        {"regret": regret[None], "health": health[None]},
    )
    columns = {name: np.concatenate([tuned[name], evaluated[name]]) for name in tuned}
    return Found(columns, {"chosen_radius_scale": tuning.chosen, "notes": sorted(notes)})


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run(Sample):
    """One policy on one set told `field` = `ratio` times the truth."""

    set_name: str
    title: str
    radii: str
    field: str
    ratio: float
    truth: float

    @property
    def at_edge(self) -> bool:
        """Whether the tuned scale is an end of the grid."""
        return self.radii == "tuned" and self.radius_scale in (min(GRID), max(GRID))


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say: the runs, seeds and constants, and sentences that must travel with the numbers."""

    runs: Sequence[Run]
    setting: str
    tuning_seeds: int
    notes: Sequence[str]

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite, tuning apart."""
        return shared.unhealthy_seeds(run.health for run in self.runs)

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """(set, policy, radii), in order."""
        return list(dict.fromkeys((run.set_name, run.policy, run.radii) for run in self.runs))

    def curve(self, group: tuple[str, str, str], knowledge: str) -> list[Run]:
        """The runs of a group in order of the ratio, the truth among them."""
        own = [run for run in self.runs if (run.set_name, run.policy, run.radii) == group]
        kept = [run for run in own if run.ratio == 1.0 or run.field in KNOWLEDGE[knowledge]]
        return sorted(kept, key=lambda run: run.ratio)

    def ratios(self, knowledge: str) -> list[float]:
        """All that were played, increasing."""
        return sorted({run.ratio for group in self.groups for run in self.curve(group, knowledge)})


def _runs(task: Task, found: Found) -> list[Run]:
    """Every assumption with the literal radii, then with the tuned ones."""
    evaluation, told = found.columns["tuning"] == 0, assumptions(task)
    regret, health = (
        found.columns[name][evaluation].reshape(len(RADII), len(told), task.seeds) for name in ("regret", "health")
    )
    title = f"{task.place}: {task.bandit.noise.name}, T={task.horizon:,}"
    runs = []
    for which, (radii, scale) in enumerate(zip(RADII, (1.0, found.facts["chosen_radius_scale"]), strict=True)):
        for place, (field, ratio) in enumerate(told):
            values, truth = (regret[which, place], health[which, place]), float(getattr(task.bandit, field))
            runs.append(Run(task.policy, scale, *values, task.place, title, radii, field, ratio, truth))
    return runs


def _cost(run: Run, truth: Run) -> Summary:
    """What the wrong number costs, seed by seed on the same noise; negative where it helps."""
    return paired_difference(run.regret, truth.regret, run.health, truth.health)


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report, unhealthy_tuning: int) -> Outputs:
    title = f"What wrong knowledge costs ({report.setting})"
    return Outputs(
        _terminal_text(report),
        {"robustness": chart_figure(_charts(report), title=title, note=_note(report))},
        {"robustness.md": _markdown(report), "robustness.csv": _csv(report)},
        unhealthy_tuning + report.unhealthy,
    )


def _terminal_text(report: Report) -> str:
    """Regret with the truth, and what the smallest and the largest ratio cost."""
    header = ["set", "policy", "known", "regret, truth", "least ratio", "costs", "largest ratio", "costs"]
    rows = []
    for group in report.groups:
        for knowledge in KNOWLEDGE:
            curve = report.curve(group, knowledge)
            [truth] = [run for run in curve if run.ratio == 1.0]
            symbol = next((SYMBOLS[run.field] for run in curve if run.ratio != 1.0), "ε")
            shown = [number(truth.summary.mean)]
            for run in (curve[0], curve[-1]):
                shown += [f"×{run.ratio:g}", _cost_text(run, truth)]
            rows.append([group[0], truth.label, symbol, *shown])
    lines = [f"Mean regret under wrong knowledge ({report.setting})", aligned_table(header, rows, left=3), ""]
    return "\n".join([*lines, _legend(report), *shared.unhealthy_line(report.unhealthy)])


def _cost_text(run: Run, truth: Run) -> str:
    if run is truth:
        return "–"
    found = _cost(run, truth)
    return f"{number(found.mean)} {interval(found)}"


def _legend(report: Report) -> str:
    return (
        "Costs: regret minus that with the true number, seed by seed on the same noise, with a 95% interval (Student "
        "t). A policy labelled ×s plays with every radius times s, chosen once, with the true numbers, on "
        f"{report.tuning_seeds} other seeds. A wrong ε comes with the moment bound of the true ε; ε is 1 at most."
    )


def _note(report: Report) -> str:
    return (
        "Mean final pseudo-regret, with 95% intervals (Student t), against the ratio of the number that the policy is "
        "told to the true one. Solid: radii as published. Dashed: radii times the scale named at the curve, tuned with "
        f"the true numbers on {report.tuning_seeds} other seeds."
    )


def _charts(report: Report) -> list[list[Chart]]:
    titles = {run.set_name: run.title for run in report.runs}
    rows = []
    for knowledge, what in NAMES.items():
        row = []
        for set_name, title in titles.items():
            series = []
            for group in report.groups:
                if group[0] == set_name:
                    curve = report.curve(group, knowledge)
                    line, marker = ("-", "o") if group[2] == "literal" else ("--", ".")
                    series.append(
                        shared.mean_series(
                            curve[0].label,
                            COLORS[group[1]],
                            [run.ratio for run in curve],
                            [run.summary for run in curve],
                            floor=0.0,
                            line=line,
                            marker=marker,
                        )
                    )
            row.append(Chart(title, f"assumed / true {what}", "mean regret", series, (True, False)))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# What wrong knowledge costs ({report.setting})", "", _legend(report), ""]
    for knowledge, what in NAMES.items():
        ratios = report.ratios(knowledge)
        lines += [f"## {what} times a ratio: mean regret", ""]
        header = ["set", "policy", "true value", *(f"×{ratio:g}" for ratio in ratios)]
        means, costs = [], []
        for group in report.groups:
            curve = {run.ratio: run for run in report.curve(group, knowledge)}
            truth = curve[1.0]
            wrong = [run for run in curve.values() if run.ratio != 1.0]
            value = f"{SYMBOLS[wrong[0].field]} = {wrong[0].truth:.4g}" if wrong else f"ε = {truth.truth:g}"
            start = [group[0], truth.label, value]
            shown = [curve[ratio].summary if ratio in curve else None for ratio in ratios]
            means.append([*start, *(f"{number(s.mean)} {interval(s)}" if s else "–" for s in shown)])
            costs.append([*start, *(_cost_text(curve[r], truth) if r in curve else "–" for r in ratios)])
        lines += markdown_table(header, means)
        lines += [f"## {what} times a ratio: what it costs", ""]
        lines += markdown_table(header, costs)
    notes = list(report.notes)
    edges = sorted({f"{run.label} on {run.set_name}" for run in report.runs if run.at_edge})
    if edges:
        notes.append(f"The tuned scale is an end of the grid, and a wider one might hold a better: {', '.join(edges)}")
    lines += shared.notes_section(notes, report.unhealthy)
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["set", "policy", "radii", "radius_scale", "field", "ratio", "assumed", "seeds", "unhealthy"]
    header += ["regret_mean", "regret_sd", "regret_low", "regret_high", "cost_mean", "cost_low", "cost_high"]
    truths = {(run.set_name, run.policy, run.radii): run for run in report.runs if run.ratio == 1.0}
    rows = []
    for run in report.runs:
        s, c = run.summary, _cost(run, truths[run.set_name, run.policy, run.radii])
        fixed = [run.set_name, run.policy, run.radii, run.radius_scale, run.field, run.ratio, run.truth * run.ratio]
        spread = [float(value) for value in (s.mean, s.sd, s.low, s.high, c.mean, c.low, c.high)]
        rows.append([*fixed, s.n, s.unhealthy, *spread])
    return csv_text(header, rows)
