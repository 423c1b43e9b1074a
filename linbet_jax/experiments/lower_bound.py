"""Theorem 1, played: mean regret of every policy on the lower bound's instances against (d/192) T^{1/(1+eps)}.

theta* is drawn anew for every replication, since the theorem's expectation is over it too. A policy whose mean regret
lies below the bound beyond sampling error contradicts a theorem: then something here is wrong, and the command fails.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.special import stdtrit

from linbet_jax import theory
from linbet_jax.bandits.datasets import lower_bound
from linbet_jax.errors import InputError
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Outputs, Plan
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure, policy_label
from linbet_jax.statistics.tables import aligned_table, csv_text, interval, markdown_table, number, span
from linbet_jax.storage import provenance

__all__ = ["POLICIES", "plan"]

POLICIES = ("menu", "mom", "tofu", "crt", "oful", "uniform")
SCALES = (1.0, 0.03, 0.001)  # literal, near what tuning chooses, and hardly exploring
DIMS, EPSILONS, HORIZONS, SEEDS = (2, 4, 8), (0.5, 1.0), (100, 500, 2_000, 10_000), 200
FULL_DIMS, FULL_EPSILONS = (2, 4, 8, 12, 16, 20), (0.25, 0.5, 0.75, 1.0)
FULL_HORIZONS, FULL_SEEDS = (100, 1_000, 10_000, 100_000, 1_000_000), 400
DELTA, RIDGE, SEED = 0.1, 1.0, 1
LEVEL = 0.999  # of the one-sided test that a mean lies below the bound, over all comparisons together
BOUND_COLOR = "#333333"
LINES = ("-", "--", ":")  # by scale, the literal one first


# What is played ------------------------------------------------------------------------------------------------------


def plan(
    *,
    seeds: int | None,
    full: bool,
    dtype: str,
    dims: Sequence[int] | None = None,
    epsilons: Sequence[float] | None = None,
    horizons: Sequence[int] | None = None,
) -> Plan:
    """Every policy for every d, epsilon and T; what is None is as usual, or with `full` as in the large version.

    Raises:
        InputError: a number out of its range, or a T that the theorem or all policies forbid.
    """
    dims = _ordered("dims", dims or (FULL_DIMS if full else DIMS))
    epsilons = _ordered("epsilons", epsilons or (FULL_EPSILONS if full else EPSILONS))
    horizons = _ordered("horizons", horizons or (FULL_HORIZONS if full else HORIZONS))
    if len(horizons) < 2:
        raise InputError(f"horizons={list(horizons)}: an exponent needs two different ones at least")
    known: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tasks: list[Task] = []
    left_out: dict[str, str] = {}  # what a policy's smallest horizon forbids
    programs = set()
    for dim, epsilon, horizon in itertools.product(dims, epsilons, horizons):
        if dim % 2:
            raise InputError(f"dims: {dim} must be even; an odd d plays the instances of d - 1")
        try:
            bandit = lower_bound(dim, epsilon, horizon, resample=True)
        except ValueError as error:
            raise InputError(f"d={dim}, epsilon={epsilon:g}, T={horizon}: {error}") from error
        place = f"d={dim}/eps={epsilon}/T={horizon}"
        common = {"horizon": horizon, "key": SEED, "delta": DELTA, "ridge": RIDGE, **known}
        for name in POLICIES:
            scales = SCALES if name != "uniform" else (1.0,)  # uniform play has no radius
            instance = provenance.instance_digest(bandit, recipe=place)
            task = Task(place, bandit, instance, name, scales=scales, **common)
            try:
                policy, _ = task.made()
            except InputError as error:
                left_out[f"{name} at T={horizon}"] = f"{name} does not play T={horizon}: {error.__cause__}"
            else:
                tasks.append(task)
                # Cells that differ in epsilon or T alone may share a program.
                programs.add((policy, dim))
    config = {**known, "full": full, "cells": [task.identity for task in tasks]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        runs = [_run(sample) for task in tasks for sample in task.samples(results[task.title])]
        notes = sorted({note for cell in results.values() for note in cell.facts["notes"]})
        return _outputs(Report(runs, [*left_out.values(), *notes]))

    cells = [task.cell() for task in tasks]
    spared = len(tasks) - len(programs)
    return Plan("lower-bound", config, dtype, cells, shared.CODE, show, shared_programs=spared)


def _ordered(field: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Increasing, each once."""
    if any(not math.isfinite(value) for value in values):
        raise InputError(f"{field}={list(values)}: must be finite numbers")
    return tuple(sorted(set(values)))


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run(Sample):
    """One policy and scale at one (d, epsilon, T), with Theorem 1's bound there."""

    lower: float

    @property
    def place(self) -> tuple[int, float]:
        """(d, epsilon)."""
        return self.task.bandit.dim, self.task.bandit.epsilon

    @property
    def upper(self) -> float:
        """The policy's own bound; NaN where no theorem covers it: scaled radii, and OFUL under such noise."""
        return _upper(self.task) if self.radius_scale == 1.0 else math.nan

    @property
    def largest(self) -> float:
        """The regret of playing the worst arm throughout: T d Delta / 2, eight times the lower bound."""
        return 8 * self.lower

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Mean and interval over the lower bound."""
        summary = self.summary
        return float(summary.mean) / self.lower, float(summary.low) / self.lower, float(summary.high) / self.lower

    def below(self, comparisons: int) -> bool:
        """Whether the mean lies below the bound beyond sampling error, one-sided, with Bonferroni's correction."""
        summary = self.summary
        if not summary.has_band:
            return False
        reach = float(stdtrit(summary.n - 1, 1 - (1 - LEVEL) / comparisons)) * float(summary.standard_error)
        return float(summary.mean) + reach < self.lower * (1 - 1e-9)


def _run(sample: Sample) -> Run:
    """A sample beside the bound."""
    task = sample.task
    lower = theory.lower_bound_regret(float(task.horizon), dim=task.bandit.dim, epsilon=task.bandit.epsilon)
    return Run(task, sample.radius_scale, sample.regret, sample.health, lower)


def _upper(task: Task) -> float:
    """The policy's own bound at the literal radii; NaN where no theorem covers it (OFUL needs sub-Gaussian noise)."""
    moment = shared.MOMENTS.get(task.policy)
    if moment is None:
        return math.nan
    known = {"dim": task.bandit.dim, "delta": DELTA, "ridge": RIDGE}
    for name in ("epsilon", "theta_norm", "arm_norm", "mean_bound", moment):
        known[name] = getattr(task.bandit, name)
    bound = getattr(theory, f"{task.policy}_regret_bound")
    return float(bound(task.horizon, **known))


class Report(shared.Report):
    """The runs and the verdict on them."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Every mean below the theorem's bound, as a sentence."""
        return tuple(
            f"BUG: {run.label} lies below Theorem 1's lower bound at d={run.place[0]}, ε={run.place[1]:g}, "
            f"T={run.task.horizon}: mean regret {number(run.summary.mean)} {interval(run.summary)} < "
            f"{number(run.lower)}, beyond a one-sided {LEVEL:.1%} interval over {len(self.runs)} comparisons"
            for run in self.runs
            if run.below(len(self.runs))
        )

    def curves(self) -> list[list[Run]]:
        """Runs of one (d, epsilon, policy, scale), in order of T."""
        curves: dict[tuple[Any, ...], list[Run]] = {}
        policies = list(COLORS)
        for run in sorted(self.runs, key=lambda run: run.task.horizon):
            name = (*run.place, policies.index(run.task.policy), -run.radius_scale)
            curves.setdefault(name, []).append(run)
        return [curves[name] for name in sorted(curves)]


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report) -> Outputs:
    figure = chart_figure(_charts(report), title=f"Theorem 1, played ({report.setting})", note=NOTE)
    return Outputs(
        _terminal_text(report),
        {"lower-bound": figure},
        {"lower-bound.md": _markdown(report), "lower-bound.csv": _csv(report)},
        report.unhealthy,
        report.problems,
        {"below_the_bound": list(report.problems)},
    )


def _terminal_text(report: Report) -> str:
    """Fitted exponents and the smallest ratio to the bound for the literal radii, and the verdict for all."""
    header = ("d", "ε", "policy", "exponent", "bound", "own", "regret/lower, least", "at the last T", "upper/largest")
    text = [
        f"Mean regret on Theorem 1's instances ({report.setting})",
        aligned_table(header, _rows(report, literal=True), left=3),
    ]
    text += ["", "The other radius scales are in lower-bound.md.", _legend(report), "", _verdict(report)]
    return "\n".join([*text, *shared.unhealthy_line(report.unhealthy)])


def _verdict(report: Report) -> str:
    if report.problems:
        return "\n".join(report.problems)
    ends = [run.ratio[1] for run in report.runs if run.summary.has_band]
    if not ends:
        return "No mean has an interval: fewer than two healthy seeds contradict nothing."
    return (
        f"No policy lies below (d/192) T^(1/(1+ε)) beyond sampling error ({len(report.runs)} comparisons, one-sided "
        f"{LEVEL:.1%} in all). The least lower end of a 95% interval is {min(ends):.2f} times the bound."
    )


def _legend(report: Report) -> str:
    return (
        "exponent: slope of the log mean regret on log T, with a 95% bootstrap interval over seeds. bound: Theorem 1's "
        "1/(1+ε). own: of the policy's upper bound. The gap shrinks with T here, so that playing at random has the "
        "exponent 1/(1+ε) too, and regret exactly 4 times the bound; playing the worst arm has 8 times. A payoff other "
        "than 0 is rare: d 12^(-(1+ε)/ε) of them are expected in a whole run at most, whatever T "
        f"({_seen(report)}), so that there is hardly anything to learn from. upper/largest: the policy's upper bound "
        "at the last T over the regret of the worst arm; above 1 it promises nothing."
    )


def _seen(report: Report) -> str:
    """The most payoffs other than 0 that a run can expect: the best arm's, T d Delta Delta^(1/epsilon)."""
    pairs = sorted({run.place for run in report.runs}, key=lambda pair: (pair[1], pair[0]))
    shown = (f"{dim * 12 ** (-(1 + epsilon) / epsilon):.2g} at d={dim}, ε={epsilon:g}" for dim, epsilon in pairs)
    return ", ".join(shown)


def _own_exponent(policy: str, epsilon: float) -> str:
    """The exponent of the policy's upper bound; none of a policy without one under such noise."""
    return f"{theory.regret_exponent(policy, epsilon):.3f}" if policy not in ("uniform", "oful") else "–"


def _rows(report: Report, *, literal: bool = False) -> list[list[str]]:
    rows = []
    for curve in report.curves():
        first, last = curve[0], curve[-1]
        if literal and first.radius_scale != 1.0:
            continue
        fit = shared.exponent(curve) if len(curve) > 1 else None
        least = min(curve, key=lambda run: run.ratio[0])
        dim, epsilon = first.place
        rows.append(
            [
                str(dim),
                f"{epsilon:g}",
                first.label,
                span(fit.value, fit.low, fit.high) if fit else "–",
                f"{theory.regret_exponent('lower-bound', epsilon):.3f}",
                _own_exponent(first.task.policy, epsilon),
                span(*least.ratio, digits=2),
                span(*last.ratio, digits=2),
                number(last.upper / last.largest),
            ]
        )
    return rows


NOTE = (
    "Points: mean pseudo-regret over replications, each with its own θ* from S_d, with 95% intervals (Student t); "
    "solid: radii as published; dashed and dotted: radii ×0.03 and ×0.001. Black: Theorem 1's lower bound (d/192) "
    "T^(1/(1+ε)) and, above, the largest regret possible, eight times as much. Dash-dotted: each policy's own "
    "upper bound. The instance changes with T, so that every curve, playing at random too, has slope 1/(1+ε)."
)


def _charts(report: Report) -> list[list[Chart]]:
    dims, epsilons = (sorted(set(values)) for values in zip(*(run.place for run in report.runs), strict=True))
    scales = sorted({run.radius_scale for run in report.runs}, reverse=True)
    rows = []
    for epsilon in epsilons:
        row = []
        for dim in dims:
            curves = [c for c in report.curves() if c[0].place == (dim, epsilon)]
            series = []
            for curve in curves:
                policy, literal = curve[0].task.policy, curve[0].radius_scale == 1.0
                color, label, marker = COLORS[policy], policy_label(policy) * literal, "." * literal
                t, summaries = [run.task.horizon for run in curve], [run.summary for run in curve]
                line = LINES[min(scales.index(curve[0].radius_scale), len(LINES) - 1)]
                series.append(shared.mean_series(label, color, t, summaries, line=line, marker=marker))
                if literal:
                    series.append(Series("", color, t, [run.upper for run in curve], line="-.", marker=""))
            longest = max(curves, key=len)
            t = [run.task.horizon for run in longest]
            bounds = (("lower bound", [r.lower for r in longest]), ("worst arm", [r.largest for r in longest]))
            series += [Series(label, BOUND_COLOR, t, values, marker="") for label, values in bounds]
            row.append(Chart(f"d={dim}, ε={epsilon:g}", "T (pulls)", "mean pseudo-regret", series))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# Theorem 1, played ({report.setting})", "", _verdict(report), "", _legend(report), ""]
    header = ["d", "ε", "policy", "fitted exponent", "1/(1+ε)", "own bound's", "regret/lower, least", "at the last T"]
    lines += markdown_table([*header, "upper/largest"], _rows(report))
    lines += ["## Mean regret over the lower bound, with 95% intervals (Student t)", ""]
    horizons = sorted({run.task.horizon for run in report.runs})
    rows = []
    for curve in report.curves():
        cells = {run.task.horizon: span(*run.ratio, digits=2) for run in curve}
        names = [f"{value:g}" for value in curve[0].place] + [curve[0].label]
        rows.append([*names, *(cells.get(horizon, "–") for horizon in horizons)])
    lines += markdown_table(["d", "ε", "policy", *(f"T={horizon:,}" for horizon in horizons)], rows)
    lines += shared.notes_section(report.notes, report.unhealthy)
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["d", "epsilon", "horizon", "policy", "radius_scale", "seeds", "unhealthy", "mean", "sd", "low", "high"]
    rows = []
    for run in report.runs:
        s = run.summary
        numbers = [float(s.mean), float(s.sd), float(s.low), float(s.high), run.lower, run.upper, run.largest]
        fixed = [*run.place, run.task.horizon, run.task.policy, run.radius_scale, s.n, s.unhealthy]
        rows.append([*fixed, *numbers, "yes" if run.below(len(report.runs)) else "no"])
    return csv_text([*header, "lower_bound", "upper_bound", "largest", "below_the_bound"], rows)
