"""How often the confidence regions hold theta*: P(covered) against `radius_scale`, for every policy and several laws.

A cell plays one policy on one law with every scale of the grid, watched by `simulate_grid(..., coverage=True)`:
adaptively, or with arms drawn in advance (see `policies.bystander`), which have the same law as adaptive play's but do
not depend on the payoffs that the region is made of.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandits.datasets import dataset
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, long_form
from linbet_jax.experiments.shared import POLICIES, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.noise import CenteredPareto, Gaussian, PayoffLaw, SymmetricPareto
from linbet_jax.policies import bystander
from linbet_jax.statistics.intervals import quantile_interval, share_interval
from linbet_jax.statistics.tables import aligned_table, grouped, markdown_table, number, span
from linbet_jax.storage import provenance

PLAY = {False: "adaptive", True: "in advance"}
GRID = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
SEED = 5  # of the experiment's key
HORIZON, SEEDS = 3_000, 128
FULL_SEEDS = 1_000

PROBLEMS: tuple[tuple[str, PayoffLaw | None, float | None], ...] = (  # set, law, epsilon; None is the set's own
    ("S1", None, None),
    ("S1", Gaussian(math.sqrt(3.0)), 1.0),  # the same variance as t(3)
    ("S3", None, None),
    ("S1", CenteredPareto(2.0), 0.5),
)
FULL_PROBLEMS = (*PROBLEMS, ("S1", SymmetricPareto(2.0), 0.5), ("S1", CenteredPareto(1.5), 0.25))


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Experiment:
    """128 seeds and T = 3000; with `full` two more laws, 1000 seeds and the paper's horizons."""
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    pulls = horizon or (None if full else HORIZON)
    played: list[tuple[Task, bool]] = []
    for set_name, noise, epsilon in FULL_PROBLEMS if full else PROBLEMS:
        bandit = dataset(set_name)
        if noise is not None:
            bandit = shared.under(set_name, noise, epsilon, f"{set_name} with {noise.name}")
        other: dict[str, Any] = {"place": bandit.name, "bandit": bandit, "instance": provenance.instance_digest(bandit)}
        for name in POLICIES:
            task = dataclasses.replace(Task.on(set_name, name, horizon=pulls, scales=GRID, key=SEED, **asked), **other)
            task.made()
            played += [(task, False), (task, True)]
    cells = []
    for task, in_advance in played:
        title, compute = f"{task.title}/{PLAY[in_advance]}", functools.partial(_compute, in_advance)
        replications = (1 + in_advance) * task.replications  # a bystander plays two pulls for one
        cells.append(task.cell(compute, title=title, replications=replications, in_advance=in_advance))
    config = {**asked, "full": full, "cells": [cell.identity for cell in cells]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        points, notes = [], set()
        for (task, in_advance), result in zip(played, results.values(), strict=True):
            points += _points(task, in_advance, result)
            notes |= {f"{note} ({points[-1].problem})" for note in result.facts["notes"]}
        return _outputs(points, sorted(notes))

    return Experiment("coverage", config, dtype, cells, code=(*shared.CODE, _compute), show=show)


def _compute(in_advance: bool, task: Task, progress: Progress) -> CellResult:
    """All scales of one cell as one batch."""
    policy, grid = task.made()
    if in_advance:
        pairs = [bystander(policy, params) for params in grid]
        policy, grid = pairs[0][0], [params for _, params in pairs]
    results = task.play(progress, (policy, grid), horizon=task.horizon * (1 + in_advance), coverage=True)
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


@dataclasses.dataclass(frozen=True)
class CoveragePoint:
    """A policy on a law with one scale."""

    task: Task  # what was played
    in_advance: bool  # whether the arms were drawn in advance
    scale: float  # the radius_scale
    unhealthy: int  # replications that are left out
    ratios: NDArray[np.float64]  # `[seeds]` worst ratios of the others, sorted
    misses: NDArray[np.int64]  # `[seeds - covered]` pulls of the first misses

    @property
    def problem(self) -> str:
        """Set, law and epsilon, e.g. `S3: Pareto(2), ε=0.5`."""
        bandit = self.task.bandit
        return f"{bandit.name.split()[0]}: {bandit.noise.name}, ε={bandit.epsilon:g}"

    @property
    def seeds(self) -> int:
        """Healthy replications."""
        return self.ratios.size

    @property
    def covered(self) -> int:
        """Those whose region held theta* at every update."""
        return self.seeds - self.misses.size

    @functools.cached_property
    def share(self) -> tuple[float, float, float]:
        """P(covered), estimated, with its 95% interval."""
        ends = share_interval(self.covered, self.seeds, method="clopper-pearson")
        return self.covered / self.seeds if self.seeds else math.nan, *ends


def _points(task: Task, in_advance: bool, result: CellResult) -> list[CoveragePoint]:
    """One for each scale, from a cell's result."""
    columns, points = result.shaped(len(GRID), task.seeds), []
    rows = zip(GRID, columns["first_miss"], columns["worst_ratio"], columns["health"], strict=True)
    for scale, miss, ratio, health in rows:
        well = health == 0
        unhealthy, misses = int(np.count_nonzero(health)), miss[well & (miss > 0)]
        points.append(CoveragePoint(task, in_advance, scale, unhealthy, np.sort(ratio[well]), misses))
    return points


def _outputs(points: Sequence[CoveragePoint], notes: Sequence[str]) -> Outputs:
    pulls = " or ".join(f"{horizon:,}" for horizon in sorted({point.task.horizon for point in points}))
    seeds, constants = points[0].task.setting.split(", ", 1)
    setting, promise = f"{seeds}, T = {pulls}, {constants}", 1 - float(points[0].task.delta)
    unhealthy = sum(point.unhealthy for point in points)
    legend, rows = LEGEND.format(promise=promise), _rows(points, promise)

    header = ("law", "policy", "P(covered) at ×1", "in advance", "lost at", "in advance", "radius needed")
    text = [f"P(theta* in every region), {setting}", aligned_table(header, rows, left=2), "", legend]
    text += shared.unhealthy_line(unhealthy, "share")

    markdown = [f"# Coverage of θ* by the confidence regions ({setting})", "", legend, "", *IN_ADVANCE]
    header = (*header[:3], "in advance at ×1", "lost at", "in advance lost at", "radius needed")
    markdown += markdown_table(header, rows)
    for name, of_problem in grouped(points, lambda point: point.problem).items():
        rows = shared.wide_rows(
            of_problem,
            lambda point: (point.task.label, PLAY[point.in_advance]),
            lambda point: point.scale,
            lambda point: span(*point.share),
            GRID,
        )
        markdown += shared.section(name, ["policy", "play", *(f"×{scale:g}" for scale in GRID)], rows)
    markdown += shared.notes_section(notes, unhealthy, "share")

    title = shared.unbroken(f"How often the confidence regions hold θ* ({setting})")
    figure = chart_figure(_charts(points, promise), title=title, note=NOTE.format(promise=promise))
    documents = {"coverage.md": "\n".join(markdown), "coverage.csv": shared.csv_of([_record(p) for p in points])}
    return Outputs("\n".join(text), {"coverage": figure}, documents, unhealthy)


LEGEND = (
    "Shares with 95% Clopper-Pearson intervals. Lost at: the largest scale of the grid whose interval lies below "
    "1 - δ = {promise:g}, and the median pull of the first miss there: an early one is the ridge's bias, which a "
    "scaled β no longer holds, rather than the noise. Radius needed: the {promise:g}-quantile of the worst ratio "
    "||θ_t - θ*||_V / β_t under literal adaptive play, with its 95% interval: below 1 the literal radius is too "
    "wide by its inverse."
)
IN_ADVANCE = (
    "In advance: the arms are chosen by another copy of the policy, which plays with the same scale and sees other",
    "payoffs, so that they have the law of adaptive play's arms and do not depend on the region's own payoffs.",
    "",
)
NOTE = (
    "P(‖θ_t − θ*‖ in V_t ≤ β_t at every update) against radius_scale, which multiplies every β, with 95% "
    "Clopper–Pearson intervals; dashed: the promised 1 − δ = {promise:g}. Above: the policy plays with "
    "the scale. Below: arms drawn in advance, by another copy of the policy that plays with the scale and sees "
    "other payoffs; the lemmas behind MENU's and TOFU's regions assume that."
)


def _rows(points: Sequence[CoveragePoint], promise: float) -> list[list[str]]:
    """For every law and policy: P(covered) at the literal radii, and where it falls below 1 - delta."""
    rows = []
    for names, both in grouped(points, lambda point: (point.problem, point.task.label)).items():
        curves = [[point for point in both if point.in_advance == kind] for kind in PLAY]
        shares, lost = [span(*curve[0].share) for curve in curves], [_lost(curve, promise) for curve in curves]
        rows.append([*names, *shares, *lost, _needed(curves[0][0], promise)])
    return rows


def _lost(curve: Iterable[CoveragePoint], promise: float) -> str:
    """The largest scale at which coverage is below 1 - delta beyond sampling error, and the median first miss there."""
    lost = [point for point in curve if point.share[2] < promise]
    if not lost:
        return "never"
    point = max(lost, key=lambda point: point.scale)
    return f"×{point.scale:g}, pull {number(np.median(point.misses))}"


def _needed(point: CoveragePoint, promise: float) -> str:
    """The factor on the radius, as played, that covers with probability 1 - delta exactly."""
    if not point.seeds:
        return "–"
    estimate = quantile_interval(point.ratios, promise)
    return f"×{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def _charts(points: Sequence[CoveragePoint], promise: float) -> list[list[Chart]]:
    """Adaptive play above, arms drawn in advance below, a column for each law."""

    def chart(title: str, label: str, of_chart: Sequence[CoveragePoint]) -> Chart:
        series = [Series("", "#6E6E6E", [min(GRID), max(GRID)], [promise] * 2, line="--", marker="")]
        for policy, curve in grouped(of_chart, lambda point: point.task.policy).items():
            x, y, low, high = np.array([(point.scale, *point.share) for point in reversed(curve)]).T
            series.append(Series(curve[0].task.label, COLORS[policy], x, y, low, high))
        return Chart(title, "radius_scale", f"P(covered), {label}", series, (True, False), (-0.04, 1.04))

    rows = []
    for in_advance, label in ((False, "adaptive play"), (True, "arms drawn in advance")):
        row = grouped((p for p in points if p.in_advance == in_advance), lambda point: point.problem)
        rows.append([chart(name, label, of_chart) for name, of_chart in row.items()])
    return rows


def _record(point: CoveragePoint) -> dict[str, object]:
    played = {"problem": point.problem, "policy": point.task.policy, "play": PLAY[point.in_advance]}
    seeds = {"seeds": point.seeds, "unhealthy": point.unhealthy, "covered": point.covered}
    quantiles = {"median": 0.5, "quantile": 1 - point.task.delta, "max": 1.0}
    ratios = {
        f"worst_ratio_{name}": float(np.quantile(point.ratios, probability)) if point.seeds else None
        for name, probability in quantiles.items()
    }
    return {
        **played,
        "horizon": point.task.horizon,
        "radius_scale": point.scale,
        **seeds,
        **dict(zip(("share", "low", "high"), point.share, strict=True)),
        **ratios,
        "first_miss_median": float(np.median(point.misses)) if point.misses.size else None,
    }
