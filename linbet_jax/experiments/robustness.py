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

import numpy as np

from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import Cell, CellResult, Outputs, Plan, Progress, long_form
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, chart_figure
from linbet_jax.policies.policy import Policy
from linbet_jax.statistics.tables import aligned_table, csv_text, markdown_table, number
from linbet_jax.statistics.tuning import GRID, TUNING

__all__ = ["plan"]

MOMENT_RATIOS = (0.1, 0.2, 0.5, 2.0, 5.0, 10.0)
EPSILON_RATIOS = (0.1, 0.2, 0.5, 1.5, 2.0, 5.0, 10.0)  # those with epsilon <= 1 are played
SETS, SEEDS, TUNING_SEEDS = ("S1", "S3"), 48, 10
FULL_SETS, FULL_SEEDS, FULL_TUNING_SEEDS = tuple(DATASETS), 256, 50
SEED = 7  # of the experiment's key
RADII = ("literal", "tuned")
STYLES = {"literal": {"line": "-", "marker": "o"}, "tuned": {"line": "--", "marker": "."}}
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
    wrong = [Assumption(shared.MOMENTS[task.policy], ratio) for ratio in MOMENT_RATIOS]
    epsilons = [ratio for ratio in EPSILON_RATIOS if ratio * task.bandit.epsilon <= 1]
    return [Assumption("epsilon", 1.0), *wrong, *(Assumption("epsilon", ratio) for ratio in epsilons)]


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Plan:
    """S1 and S3 with 48 seeds; with `full` all four with 256, and more for tuning. The usual horizon is the paper's.

    Raises:
        InputError: a horizon that a policy cannot have.
    """
    known: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tuning_seeds = FULL_TUNING_SEEDS if full else TUNING_SEEDS
    tasks = [
        Task.on(name, policy, horizon=horizon, scales=GRID, key=SEED, **known)
        for name in (FULL_SETS if full else SETS)
        for policy in shared.MOMENTS
    ]
    for task in tasks:
        for assumption in assumptions(task):
            assumption.told_to(task).made()
    cells = [_cell(task, tuning_seeds) for task in tasks]
    config = {**known, "tuning_seeds": tuning_seeds, "full": full, "cells": [cell.identity for cell in cells]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        runs = [run for task in tasks for run in _runs(task, results[task.title])]
        tuning = [cell.where("tuning", 1)["health"] for cell in results.values()]
        notes = sorted({note for cell in results.values() for note in cell.facts["notes"]})
        return _outputs(Report(runs, notes, tuning_seeds), int(np.count_nonzero(np.concatenate(tuning))))

    return Plan("robustness", config, dtype, cells, (*shared.CODE, _compute), show)


def _cell(task: Task, tuning_seeds: int) -> Cell:
    assumed = assumptions(task)
    both = dataclasses.replace(
        task, scales=(1.0,), seeds=len(GRID) * tuning_seeds + len(RADII) * len(assumed) * task.seeds
    )
    identity = {
        **task.identity,
        "tuning_seeds": tuning_seeds,
        "tuning_fold": TUNING,
        "assumptions": [list(one) for one in assumed],
    }
    return both.cell()._replace(identity=identity, compute=functools.partial(_compute, task, tuning_seeds))


def _compute(task: Task, tuning_seeds: int, progress: Progress) -> CellResult:
    """The scale that is best for the truth, then every assumption with scale 1 and with that one.

    In one batch plays what shares a program: all but MoM's epsilons.
    """
    assumed = assumptions(task)
    tuning = assumed[0].told_to(task).tuned(tuning_seeds, progress)
    task = dataclasses.replace(task, scales=(1.0, tuning.chosen))
    batches: dict[Policy, list[tuple[int, int, Any]]] = {}
    for place, assumption in enumerate(assumed):
        policy, grid = assumption.told_to(task).made()
        batches.setdefault(policy, []).extend((which, place, params) for which, params in enumerate(grid))
    shape = (len(RADII), len(assumed), task.seeds)
    regret, health, notes = np.zeros(shape), np.zeros(shape, np.int64), set[str]()
    for policy, batch in batches.items():
        results = shared.play(policy, [params for *_, params in batch], task, progress.of(task.horizon))
        for (which, place, _), result in zip(batch, results, strict=True):
            regret[which, place], health[which, place] = result.regret[:, -1], result.health
            notes.update(result.notes)
    columns = shared.two_stages(
        long_form(
            {"radius_scale": GRID, "assumption": [0], "seed": range(tuning_seeds)},
            {"regret": tuning.regret[:, None], "health": tuning.health[:, None]},
        ),
        # The literal scale and the chosen one may be equal: the rows of both are there, one after the other.
        long_form(
            {"radius_scale": task.scales, "assumption": range(len(assumed)), "seed": range(task.seeds)},
            {"regret": regret, "health": health},
        ),
    )
    return CellResult(columns, {"chosen_radius_scale": tuning.chosen, "notes": sorted(notes)})


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run(Sample):
    """One policy on one set under an assumption, with literal or tuned radii."""

    radii: str
    assumption: Assumption

    @property
    def ratio(self) -> float:
        """Of what is assumed to the truth."""
        return self.assumption.ratio

    @property
    def truth(self) -> float:
        """The true number."""
        return float(getattr(self.task.bandit, self.assumption.field))

    @property
    def group(self) -> tuple[str, str, str]:
        """(set, policy, radii)."""
        return self.task.place, self.task.policy, self.radii


@dataclasses.dataclass(frozen=True)
class Report(shared.Report):
    """The runs, without those of tuning, and how many seeds that had."""

    tuning_seeds: int

    @property
    def title(self) -> str:
        """What wrong knowledge costs."""
        return f"What wrong knowledge costs ({self.setting})"

    def curves(self, knowledge: str) -> list[list[Run]]:
        """The runs of every set, policy and radii in order of the ratio, the truth among them."""
        curves: dict[tuple[str, str, str], list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: run.ratio):
            if run.ratio == 1.0 or run.assumption.field in KNOWLEDGE[knowledge]:
                curves.setdefault(run.group, []).append(run)
        return [curves[group] for group in dict.fromkeys(run.group for run in self.runs)]


def _runs(task: Task, result: CellResult) -> list[Run]:
    """Every assumption with the literal radii, then with the tuned ones."""
    evaluation, assumed = result.where("tuning", 0), assumptions(task)
    regret, health = (evaluation[name].reshape(len(RADII), len(assumed), -1) for name in ("regret", "health"))
    scales = (1.0, result.facts["chosen_radius_scale"])
    return [
        Run(task, scales[which], regret[which, place], health[which, place], radii, assumption)
        for which, radii in enumerate(RADII)
        for place, assumption in enumerate(assumed)
    ]


def _truth(curve: Sequence[Run]) -> Run:
    """The run of a curve that knows the truth."""
    return next(run for run in curve if run.ratio == 1.0)


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report, unhealthy_tuning: int) -> Outputs:
    return Outputs(
        _terminal_text(report),
        {"robustness": chart_figure(_charts(report), title=report.title, note=_note(report))},
        {"robustness.md": _markdown(report), "robustness.csv": _csv(report)},
        unhealthy_tuning + report.unhealthy,
    )


def _terminal_text(report: Report) -> str:
    """Regret with the truth, and what the smallest and the largest ratio cost."""
    header = ["set", "policy", "known", "regret, truth", "least ratio", "costs", "largest ratio", "costs"]
    rows = []
    for curves in zip(*(report.curves(knowledge) for knowledge in KNOWLEDGE), strict=True):
        for curve in curves:
            truth = _truth(curve)
            row = [truth.task.place, truth.label, _symbol(curve), number(truth.summary.mean)]
            for run in (curve[0], curve[-1]):
                row += [f"×{run.ratio:g}", _cost_text(run, truth)]
            rows.append(row)
    heading = f"Mean regret under wrong knowledge ({report.setting})"
    table = aligned_table(header, rows, left=3)
    return "\n".join([heading, table, "", _legend(report), *shared.unhealthy_line(report.unhealthy)])


def _symbol(curve: Sequence[Run]) -> str:
    """Of the number that is told wrong."""
    return next((SYMBOLS[run.assumption.field] for run in curve if run.ratio != 1.0), "ε")


def _cost_text(run: Run, truth: Run) -> str:
    """What the wrong number costs; negative where it helps."""
    return "–" if run is truth else shared.mean_text(run.minus(truth))


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
    titles = {
        run.task.place: f"{run.task.place}: {run.task.bandit.noise.name}, T={run.task.horizon:,}" for run in report.runs
    }
    rows = []
    for knowledge, what in NAMES.items():
        row = []
        for set_name, title in titles.items():
            series = [
                shared.mean_series(
                    curve[0].label,
                    COLORS[curve[0].task.policy],
                    [run.ratio for run in curve],
                    [run.summary for run in curve],
                    floor=0.0,
                    **STYLES[curve[0].radii],
                )
                for curve in report.curves(knowledge)
                if curve[0].task.place == set_name
            ]
            row.append(Chart(title, f"assumed / true {what}", "mean regret", series, (True, False)))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# {report.title}", "", _legend(report), ""]
    for knowledge, what in NAMES.items():
        curves = report.curves(knowledge)
        ratios = sorted({run.ratio for curve in curves for run in curve})
        header = ["set", "policy", "true value", *(f"×{ratio:g}" for ratio in ratios)]
        means, costs = [], []
        for curve in curves:
            truth, runs = _truth(curve), {run.ratio: run for run in curve}
            value = next((f"{run.truth:.4g}" for run in curve if run is not truth), f"{truth.truth:g}")
            start = [truth.task.place, truth.label, f"{_symbol(curve)} = {value}"]
            means.append([*start, *(shared.mean_text(runs[r].summary) if r in runs else "–" for r in ratios)])
            costs.append([*start, *(_cost_text(runs[r], truth) if r in runs else "–" for r in ratios)])
        lines += [f"## {what} times a ratio: mean regret", "", *markdown_table(header, means)]
        lines += [f"## {what} times a ratio: what it costs", "", *markdown_table(header, costs)]
    notes, ends = list(report.notes), (min(GRID), max(GRID))
    edges = {
        f"{run.label} on {run.task.place}" for run in report.runs if run.radii == "tuned" and run.radius_scale in ends
    }
    if edges:
        said = ", ".join(sorted(edges))
        notes.append(f"The tuned scale is an end of the grid, and a wider one might hold a better: {said}")
    return "\n".join([*lines, *shared.notes_section(notes, report.unhealthy)])


def _csv(report: Report) -> str:
    header = ["set", "policy", "radii", "radius_scale", "field", "ratio", "assumed", "seeds", "unhealthy"]
    header += ["regret_mean", "regret_sd", "regret_low", "regret_high", "cost_mean", "cost_low", "cost_high"]
    truths = {run.group: run for run in report.runs if run.ratio == 1.0}
    rows = []
    for run in report.runs:
        s, c = run.summary, run.minus(truths[run.group])
        fixed = [*run.group, run.radius_scale, *run.assumption, run.truth * run.ratio]
        spread = [float(value) for value in (s.mean, s.sd, s.low, s.high, c.mean, c.low, c.high)]
        rows.append([*fixed, s.n, s.unhealthy, *spread])
    return csv_text(header, rows)
