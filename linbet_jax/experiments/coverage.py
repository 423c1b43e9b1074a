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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linbet_jax import provenance
from linbet_jax.bandit import LinearBandit
from linbet_jax.datasets import dataset
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import Cell, Found, Outputs, Plan, Progress, long_form
from linbet_jax.experiments.shared import Task
from linbet_jax.intervals import quantile_interval, share_interval
from linbet_jax.noise import CenteredPareto, Gaussian, PayoffLaw, SymmetricPareto
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, policy_label
from linbet_jax.policies import bystander
from linbet_jax.tables import aligned_table, csv_text, markdown_table, number, span

__all__ = ["POLICIES", "plan"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful")
PLAY = {False: "adaptive", True: "in advance"}
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SEED = 5  # of the experiment's key
HORIZON, SEEDS = 3_000, 128
FULL_SEEDS = 1_000


# What is played ------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A set's arms and theta* under a payoff law; None is the set's own law and epsilon."""

    set_name: str
    noise: PayoffLaw | None = None
    epsilon: float | None = None

    def bandit(self) -> LinearBandit:
        """What is played."""
        own = dataset(self.set_name)
        if self.noise is None:
            return own
        assert own.arms is not None
        assert own.theta_star is not None
        name = f"{self.set_name} with {self.noise.name}"
        return LinearBandit(own.arms, own.theta_star, self.noise, epsilon=self.epsilon, name=name)


PROBLEMS = (
    Problem("S1"),
    Problem("S1", Gaussian(math.sqrt(3.0)), 1.0),  # the same variance as t(3)
    Problem("S3"),
    Problem("S1", CenteredPareto(2.0), 0.5),
)
FULL_PROBLEMS = (*PROBLEMS, Problem("S1", SymmetricPareto(2.0), 0.5), Problem("S1", CenteredPareto(1.5), 0.25))


class Watched(NamedTuple):
    """A task, played adaptively or with arms drawn in advance."""

    task: Task
    in_advance: bool

    @property
    def title(self) -> str:
        """Its cell's name."""
        return f"{self.task.title}/{PLAY[self.in_advance]}"

    def cell(self) -> Cell:
        """Its piece of work; a bystander plays two pulls for one."""
        cost, times = self.task.cost, 1 + self.in_advance
        cost = dataclasses.replace(
            cost,
            seed_pulls=times * cost.seed_pulls,
            core_seconds=cost.core_seconds + self.in_advance * self.task.core_seconds,
        )
        own = {**self.task.own, "in_advance": self.in_advance}
        return Cell(self.title, own, cost, functools.partial(_compute, self))


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
    known: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    pulls = horizon or (None if full else HORIZON)
    watched = []
    for problem in FULL_PROBLEMS if full else PROBLEMS:
        bandit = problem.bandit()
        for name in POLICIES:
            task = Task.on(problem.set_name, name, horizon=pulls, scales=GRID, key=SEED, **known)
            instance = provenance.instance_digest(bandit)
            task = dataclasses.replace(task, place=bandit.name, bandit=bandit, instance=instance)
            task.made()
            watched += [Watched(task, in_advance) for in_advance in (False, True)]
    cells = [one.cell() for one in watched]
    config = {**known, "full": full, "cells": [cell.own for cell in cells]}

    def show(found: Mapping[str, Found]) -> Outputs:
        task = watched[0].task
        runs = [_run(one, found[one.title]) for one in watched]
        return _outputs(Report(runs, task.seeds, task.delta, task.ridge))

    return Plan("coverage", config, dtype, cells, code=(*shared.CODE, _compute), show=show)


def _compute(one: Watched, progress: Progress) -> Found:
    """All scales of one cell as one batch."""
    policy, grid = one.task.made()
    if one.in_advance:
        pairs = [bystander(policy, params) for params in grid]
        policy, grid = pairs[0][0], [params for _, params in pairs]
    pulls = one.task.horizon * (1 + one.in_advance)
    results = shared.play(policy, grid, one.task, progress.of(pulls), horizon=pulls, coverage=True)
    watched = [result.coverage for result in results if result.coverage is not None]
    columns = long_form(
        {"radius_scale": GRID, "seed": range(one.task.seeds)},
        {
            # In pulls of the policy's own clock: a pair's update comes after twice as many.
            "first_miss": np.stack([seen.first_miss for seen in watched]) // (1 + one.in_advance),
            "worst_ratio": np.stack([np.asarray(seen.worst_ratio, np.float64) for seen in watched]),
            "health": np.stack([result.health for result in results]),
        },
    )
    return Found(columns, {"notes": shared.notes_of(results)})


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Point:
    """One policy, law, kind of play and scale.

    Attributes:
        scale: the radius_scale.
        seeds: healthy replications.
        unhealthy: others.
        covered: of the healthy ones, those whose region held theta* at every update.
        low: lower end of the 95% interval of P(covered).
        high: its upper end.
        ratios: `[seeds]` worst ratios, sorted.
        misses: `[seeds - covered]` pulls of the first misses.
    """

    scale: float
    seeds: int
    unhealthy: int
    covered: int
    low: float
    high: float
    ratios: NDArray[np.float64]
    misses: NDArray[np.int64]

    @property
    def share(self) -> float:
        """P(covered), estimated."""
        return self.covered / self.seeds if self.seeds else float("nan")

    @property
    def share_text(self) -> str:
        """With its interval."""
        return span(self.share, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a cell found: a point for each scale."""

    problem: str
    policy: str
    in_advance: bool
    horizon: int
    points: Sequence[Point]
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say: the cells, seeds of each scale, delta and lambda."""

    runs: Sequence[Run]
    seeds: int
    delta: float
    ridge: float

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(point.unhealthy for run in self.runs for point in run.points)

    @property
    def problems(self) -> list[str]:
        """The laws, in order."""
        return list(dict.fromkeys(run.problem for run in self.runs))

    @property
    def setting(self) -> str:
        """Seeds and constants."""
        pulls = " or ".join(f"{horizon:,}" for horizon in sorted({run.horizon for run in self.runs}))
        return f"{self.seeds} seeds, T = {pulls}, λ = {self.ridge:g}, δ = {self.delta:g}"

    def pairs(self) -> Iterator[tuple[Run, Run]]:
        """Adaptive play and arms drawn in advance, of the same law and policy."""
        advance = {(run.problem, run.policy): run for run in self.runs if run.in_advance}
        for run in self.runs:
            if not run.in_advance:
                yield run, advance[run.problem, run.policy]


def _run(one: Watched, found: Found) -> Run:
    task = one.task
    columns = {name: column.reshape(len(GRID), task.seeds) for name, column in found.columns.items()}
    points = []
    for scale, miss, ratio, health in zip(
        GRID, columns["first_miss"], columns["worst_ratio"], columns["health"], strict=True
    ):
        well = health == 0
        n, covered = int(well.sum()), int((miss[well] == 0).sum())
        ends = share_interval(covered, n, method="clopper-pearson")
        points.append(Point(scale, n, task.seeds - n, covered, *ends, np.sort(ratio[well]), miss[well & (miss > 0)]))
    title = f"{task.place.split()[0]}: {task.bandit.noise.name}, ε={task.bandit.epsilon:g}"
    return Run(title, task.policy, one.in_advance, task.horizon, points, found.facts["notes"])


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
        shares = [of_run[0].share_text for of_run in points]
        lost = [_lost(of_run, report.delta) for of_run in points]
        needed = _needed(adaptive.points[0], report.delta)
        rows.append([adaptive.problem, policy_label(adaptive.policy), *shares, *lost, needed])
    return rows


def _lost(points: Sequence[Point], delta: float) -> str:
    """The largest scale at which coverage is below 1 - delta beyond sampling error, and the median first miss there."""
    lost = [point.scale for point in points if point.high < 1 - delta]
    if not lost:
        return "never"
    misses = next(point.misses for point in points if point.scale == max(lost))
    return f"×{max(lost):g}, pull {number(np.median(misses))}"


def _needed(point: Point, delta: float) -> str:
    """The factor on the radius, as played, that covers with probability 1 - delta exactly."""
    if not point.seeds:
        return "–"
    found = quantile_interval(point.ratios, 1 - delta)
    return f"×{number(found.value)} [{number(found.low)}, {number(found.high)}]"


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
            series = [_promise(report)]
            for run in report.runs:
                if (run.problem, run.in_advance) == (problem, in_advance):
                    points = sorted(run.points, key=lambda point: point.scale)
                    series.append(
                        Series(
                            policy_label(run.policy),
                            COLORS[run.policy],
                            [p.scale for p in points],
                            [p.share for p in points],
                            [p.low for p in points],
                            [p.high for p in points],
                        )
                    )
            label = f"P(covered), {'arms drawn in advance' if in_advance else 'adaptive play'}"
            row.append(Chart(problem, "radius_scale", label, series, (True, False), (-0.04, 1.04)))
        rows.append(row)
    return rows


def _promise(report: Report) -> Series:
    level = 1 - report.delta
    return Series("", "#6E6E6E", [min(GRID), max(GRID)], [level, level], line="--", marker="")


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
                [policy_label(run.policy), PLAY[run.in_advance], *(point.share_text for point in run.points)]
                for run in runs
            ],
        )
    notes = sorted({f"{note} ({run.problem})" for run in report.runs for note in run.notes})
    lines += shared.notes_section(notes, report.unhealthy, "share")
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["problem", "policy", "play", "horizon", "radius_scale", "seeds", "unhealthy", "covered", "share", "low"]
    header += ["high", "worst_ratio_median", "worst_ratio_quantile", "worst_ratio_max", "first_miss_median"]
    rows = []
    for run in report.runs:
        for p in run.points:
            ratios = [float(np.quantile(p.ratios, q)) for q in (0.5, 1 - report.delta, 1.0)] if p.seeds else [None] * 3
            miss = float(np.median(p.misses)) if p.misses.size else None
            fixed = [run.problem, run.policy, PLAY[run.in_advance], run.horizon, p.scale, p.seeds, p.unhealthy]
            rows.append([*fixed, p.covered, p.share, p.low, p.high, *ratios, miss])
    return csv_text(header, rows)
