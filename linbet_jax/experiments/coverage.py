"""How often the confidence regions hold theta*: P(covered) against `radius_scale`, for every policy and several laws.

A cell plays one policy on one law with every scale of the grid, watched by `simulate_grid(..., coverage=True)`:
adaptively, or with arms drawn in advance (see `policies.bystander`), which have the same law as adaptive play's but do
not depend on the payoffs that the region is made of.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import dataset
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import COMPILE_SECONDS, Cell, CellResult, Outputs, Plan, Progress, long_form
from linbet_jax.experiments.shared import Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure, policy_label
from linbet_jax.noise import CenteredPareto, Gaussian, PayoffLaw, SymmetricPareto
from linbet_jax.policies import bystander
from linbet_jax.statistics.intervals import quantile_interval, share_interval
from linbet_jax.statistics.tables import aligned_table, csv_text, markdown_table, number, span
from linbet_jax.storage import provenance

__all__ = ["POLICIES", "plan"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
PLAY = {False: "adaptive", True: "in advance"}
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SEED = 5  # of the experiment's key
HORIZON, SEEDS = 3_000, 128
FULL_SEEDS = 1_000


# What is played ------------------------------------------------------------------------------------------------------


PROBLEMS: tuple[tuple[str, PayoffLaw | None, float | None], ...] = (  # set, law, epsilon; None is the set's own
    ("S1", None, None),
    ("S1", Gaussian(math.sqrt(3.0)), 1.0),  # the same variance as t(3)
    ("S3", None, None),
    ("S1", CenteredPareto(2.0), 0.5),
)
FULL_PROBLEMS = (*PROBLEMS, ("S1", SymmetricPareto(2.0), 0.5), ("S1", CenteredPareto(1.5), 0.25))


def problem(set_name: str, noise: PayoffLaw | None, epsilon: float | None) -> LinearBandit:
    """A set's arms and theta* under a payoff law."""
    original = dataset(set_name)
    if noise is None:
        return original
    assert original.arms is not None
    assert original.theta_star is not None
    return LinearBandit(
        original.arms, original.theta_star, noise, epsilon=epsilon, name=f"{set_name} with {noise.name}"
    )


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Plan:
    """128 seeds and T = 3000; with `full` two more laws, 1000 seeds and the paper's horizons.

    Raises:
        InputError: a horizon that a policy cannot have.
    """
    known: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    pulls = horizon or (None if full else HORIZON)
    runs = []
    for set_name, noise, epsilon in FULL_PROBLEMS if full else PROBLEMS:
        bandit = problem(set_name, noise, epsilon)
        other: dict[str, Any] = {"place": bandit.name, "bandit": bandit, "instance": provenance.instance_digest(bandit)}
        for name in POLICIES:
            task = dataclasses.replace(Task.on(set_name, name, horizon=pulls, scales=GRID, key=SEED, **known), **other)
            task.made()
            runs += [Run(task, in_advance) for in_advance in (False, True)]
    cells = [run.cell() for run in runs]
    config = {**known, "full": full, "cells": [cell.identity for cell in cells]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        pairs = list(zip(runs, results.values(), strict=True))
        notes = sorted({f"{note} ({run.problem})" for run, cell in pairs for note in cell.facts["notes"]})
        return _outputs(Report([run.with_points(cell) for run, cell in pairs], notes))

    return Plan("coverage", config, dtype, cells, code=(*shared.CODE, _compute), show=show)


def _compute(task: Task, in_advance: bool, progress: Progress) -> CellResult:
    """All scales of one cell as one batch."""
    policy, grid = task.made()
    if in_advance:
        pairs = [bystander(policy, params) for params in grid]
        policy, grid = pairs[0][0], [params for _, params in pairs]
    pulls = task.horizon * (1 + in_advance)
    results = shared.play(policy, grid, task, progress.of(pulls), horizon=pulls, coverage=True)
    watched = [result.coverage for result in results if result.coverage is not None]
    columns = long_form(
        {"radius_scale": GRID, "seed": range(task.seeds)},
        {
            # In pulls of the policy's own clock: a pair's update comes after twice as many.
            "first_miss": np.stack([seen.first_miss for seen in watched]) // (1 + in_advance),
            "worst_ratio": np.stack([np.asarray(seen.worst_ratio, np.float64) for seen in watched]),
            "health": np.stack([result.health for result in results]),
        },
    )
    return CellResult(columns, {"notes": shared.notes_of(results)})


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Point:
    """One policy, law, kind of play and scale.

    Attributes:
        scale: the radius_scale.
        unhealthy: replications that are left out.
        ratios: `[seeds]` worst ratios of the others, sorted.
        misses: `[seeds - covered]` pulls of the first misses.
    """

    scale: float
    unhealthy: int
    ratios: NDArray[np.float64]
    misses: NDArray[np.int64]

    @property
    def seeds(self) -> int:
        """Healthy replications."""
        return self.ratios.size

    @property
    def covered(self) -> int:
        """Those whose region held theta* at every update."""
        return self.seeds - self.misses.size

    @property
    def share(self) -> tuple[float, float, float]:
        """P(covered), estimated, with its 95% interval."""
        ends = share_interval(self.covered, self.seeds, method="clopper-pearson")
        return self.covered / self.seeds if self.seeds else math.nan, *ends


@dataclasses.dataclass(frozen=True)
class Run:
    """A task, played adaptively or with arms drawn in advance; when it is done, with a point for each scale."""

    task: Task
    in_advance: bool
    points: Sequence[Point] = ()

    @property
    def problem(self) -> str:
        """Set, law and epsilon, e.g. `S3: Pareto(2), ε=0.5`."""
        bandit = self.task.bandit
        return f"{bandit.name.split()[0]}: {bandit.noise.name}, ε={bandit.epsilon:g}"

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(point.unhealthy for point in self.points)

    def cell(self) -> Cell:
        """Its piece of work; a bystander plays two pulls for one."""
        task, times = self.task, 1 + self.in_advance
        title, identity = f"{task.title}/{PLAY[self.in_advance]}", {**task.identity, "in_advance": self.in_advance}
        compute = functools.partial(_compute, task, self.in_advance)
        return Cell(title, identity, times * task.pulls, COMPILE_SECONDS + times * task.core_seconds, compute)

    def with_points(self, result: CellResult) -> Run:
        """The run after its cell's result."""
        shape = (len(GRID), self.task.seeds)
        misses, ratios, words = (result.columns[n].reshape(shape) for n in ("first_miss", "worst_ratio", "health"))
        points = []
        for scale, miss, ratio, health in zip(GRID, misses, ratios, words, strict=True):
            well = health == 0
            points.append(Point(scale, int(np.count_nonzero(health)), np.sort(ratio[well]), miss[well & (miss > 0)]))
        return dataclasses.replace(self, points=points)


class Report(shared.Report):
    """The runs, by law and policy."""

    @property
    def delta(self) -> float:
        """Of every region."""
        return float(self.runs[0].task.delta)

    @property
    def problems(self) -> list[str]:
        """The laws, in order."""
        return list(dict.fromkeys(run.problem for run in self.runs))

    @property
    def setting(self) -> str:
        """Seeds and constants."""
        pulls = " or ".join(f"{horizon:,}" for horizon in sorted({run.task.horizon for run in self.runs}))
        seeds, constants = super().setting.split(", ", 1)
        return f"{seeds}, T = {pulls}, {constants}"

    def pairs(self) -> Iterator[tuple[Run, Run]]:
        """Adaptive play and arms drawn in advance, of the same law and policy."""
        advance = {run.task.title: run for run in self.runs if run.in_advance}
        for run in self.runs:
            if not run.in_advance:
                yield run, advance[run.task.title]


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report) -> Outputs:
    title = f"How often the confidence regions hold θ* ({report.setting})".replace(
        " = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
    )
    return Outputs(
        _terminal_text(report),
        {"coverage": chart_figure(_charts(report), title=title, note=_note(report))},
        {"coverage.md": _markdown(report), "coverage.csv": _csv(report)},
        report.unhealthy,
    )


def _terminal_text(report: Report) -> str:
    """For every law and policy: P(covered) at the literal radii, and where it falls below 1 - delta."""
    header = ("law", "policy", "P(covered) at ×1", "in advance", "lost at", "in advance", "radius needed")
    lines = [f"P(theta* in every region), {report.setting}", aligned_table(header, _summary(report), left=2)]
    return "\n".join([*lines, "", _legend(report), *shared.unhealthy_line(report.unhealthy, "share")])


def _summary(report: Report) -> list[list[str]]:
    rows = []
    for adaptive, in_advance in report.pairs():
        points = (adaptive.points, in_advance.points)
        shares = [span(*of_run[0].share) for of_run in points]
        lost = [_lost(of_run, report.delta) for of_run in points]
        needed = _needed(adaptive.points[0], report.delta)
        rows.append([adaptive.problem, policy_label(adaptive.task.policy), *shares, *lost, needed])
    return rows


def _lost(points: Sequence[Point], delta: float) -> str:
    """The largest scale at which coverage is below 1 - delta beyond sampling error, and the median first miss there."""
    lost = [point.scale for point in points if point.share[2] < 1 - delta]
    if not lost:
        return "never"
    misses = next(point.misses for point in points if point.scale == max(lost))
    return f"×{max(lost):g}, pull {number(np.median(misses))}"


def _needed(point: Point, delta: float) -> str:
    """The factor on the radius, as played, that covers with probability 1 - delta exactly."""
    if not point.seeds:
        return "–"
    estimate = quantile_interval(point.ratios, 1 - delta)
    return f"×{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def _legend(report: Report) -> str:
    promise = f"{1 - report.delta:g}"
    return (
        f"Shares with 95% Clopper-Pearson intervals. Lost at: the largest scale of the grid whose interval lies below "
        f"1 - δ = {promise}, and the median pull of the first miss there: an early one is the ridge's bias, which a "
        f"scaled β no longer holds, rather than the noise. Radius needed: the {promise}-quantile of the worst ratio "
        "||θ_t - θ*||_V / β_t under literal adaptive play, with its 95% interval: below 1 the literal radius is too "
        "wide by its inverse."
    )


def _note(report: Report) -> str:
    return (
        f"P(‖θ_t − θ*‖ in V_t ≤ β_t at every update) against radius_scale, which multiplies every β, with 95% "
        f"Clopper–Pearson intervals; dashed: the promised 1 − δ = {1 - report.delta:g}. Above: the policy plays with "
        "the scale. Below: arms drawn in advance, by another copy of the policy that plays with the scale and sees "
        "other payoffs; the lemmas behind MENU's and TOFU's regions assume that."
    )


def _charts(report: Report) -> list[list[Chart]]:
    rows = []
    for in_advance in (False, True):
        row = []
        for problem in report.problems:
            level = [1 - report.delta] * 2
            series = [Series("", "#6E6E6E", [min(GRID), max(GRID)], level, line="--", marker="")]
            for run in report.runs:
                if (run.problem, run.in_advance) == (problem, in_advance):
                    points = sorted(run.points, key=lambda point: point.scale)
                    x, y, low, high = np.array([(p.scale, *p.share) for p in points]).T
                    series.append(Series(policy_label(run.task.policy), COLORS[run.task.policy], x, y, low, high))
            label = f"P(covered), {'arms drawn in advance' if in_advance else 'adaptive play'}"
            row.append(Chart(problem, "radius_scale", label, series, (True, False), (-0.04, 1.04)))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# Coverage of θ* by the confidence regions ({report.setting})", "", _legend(report), ""]
    lines += [
        "In advance: the arms are chosen by another copy of the policy, which plays with the same scale and sees other",
        "payoffs, so that they have the law of adaptive play's arms and do not depend on the region's own payoffs.",
        "",
    ]
    header = [
        "law",
        "policy",
        "P(covered) at ×1",
        "in advance at ×1",
        "lost at",
        "in advance lost at",
        "radius needed",
    ]
    lines += markdown_table(header, _summary(report))
    for problem in report.problems:
        lines += [f"## {problem}", ""]
        runs = [run for run in report.runs if run.problem == problem]
        lines += markdown_table(
            ["policy", "play", *(f"×{scale:g}" for scale in GRID)],
            [
                [policy_label(run.task.policy), PLAY[run.in_advance], *(span(*point.share) for point in run.points)]
                for run in runs
            ],
        )
    lines += shared.notes_section(report.notes, report.unhealthy, "share")
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["problem", "policy", "play", "horizon", "radius_scale", "seeds", "unhealthy", "covered", "share", "low"]
    header += ["high", "worst_ratio_median", "worst_ratio_quantile", "worst_ratio_max", "first_miss_median"]
    rows = []
    for run in report.runs:
        for p in run.points:
            ratios = [float(np.quantile(p.ratios, q)) for q in (0.5, 1 - report.delta, 1.0)] if p.seeds else [None] * 3
            miss = float(np.median(p.misses)) if p.misses.size else None
            fixed = [
                run.problem,
                run.task.policy,
                PLAY[run.in_advance],
                run.task.horizon,
                p.scale,
                p.seeds,
                p.unhealthy,
            ]
            rows.append([*fixed, p.covered, *p.share, *ratios, miss])
    return csv_text(header, rows)
