"""Theorem 1, played: mean regret of every policy on the lower bound's instances against (d/192) T^{1/(1+eps)}.

theta* is drawn anew for every replication, since the theorem's expectation is over it too. A policy whose mean regret
lies below the bound beyond sampling error contradicts a theorem: then something here is wrong, and the command fails.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scipy.special import stdtrit

from linbet_jax import theory
from linbet_jax.bandits.datasets import lower_bound
from linbet_jax.errors import InputError
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, StudyCell
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure, policy_label
from linbet_jax.policies.policy import Policy
from linbet_jax.statistics.tables import aligned_table, grouped, interval, markdown_table, number, span
from linbet_jax.storage import provenance

POLICIES = (*shared.POLICIES, "uniform")
SCALES = (1.0, 0.03, 0.001)  # literal, near what tuning chooses, and hardly exploring
DIMS, EPSILONS, HORIZONS, SEEDS = (2, 4, 8), (0.5, 1.0), (100, 500, 2_000, 10_000), 200
FULL_DIMS, FULL_EPSILONS = (2, 4, 8, 12, 16, 20), (0.25, 0.5, 0.75, 1.0)
FULL_HORIZONS, FULL_SEEDS = (100, 1_000, 10_000, 100_000, 1_000_000), 400
DELTA, RIDGE, SEED = 0.1, 1.0, 1
LEVEL = 0.999  # of the one-sided test that a mean lies below the bound, over all comparisons together
BOUND_COLOR = "#333333"
LINES = ("-", "--", ":")  # by scale, the literal one first


def plan(
    *,
    seeds: int | None,
    full: bool,
    dtype: str,
    dims: Sequence[int] | None = None,
    epsilons: Sequence[float] | None = None,
    horizons: Sequence[int] | None = None,
) -> Experiment:
    """Every policy for every d, epsilon and T; what is None is as usual, or with `full` as in the large version."""
    dims = sorted(set(dims or (FULL_DIMS if full else DIMS)))
    epsilons = sorted(set(epsilons or (FULL_EPSILONS if full else EPSILONS)))
    horizons = sorted(set(horizons or (FULL_HORIZONS if full else HORIZONS)))
    if len(horizons) < 2:
        raise InputError(f"horizons={horizons}: an exponent needs two different ones at least")
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    tasks: list[Task] = []
    cells: list[StudyCell] = []
    left_out: dict[str, str] = {}  # what a policy's smallest horizon forbids
    programs: set[tuple[Policy, int]] = set()
    for dim, epsilon, horizon in itertools.product(dims, epsilons, horizons):
        if dim % 2:
            raise InputError(f"dims: {dim} must be even; an odd d plays the instances of d - 1")
        try:
            bandit = lower_bound(dim, epsilon, horizon, resample=True)
        except ValueError as error:
            raise InputError(f"d={dim}, epsilon={epsilon:g}, T={horizon}: {error}") from error
        place = f"d={dim}/eps={epsilon}/T={horizon}"
        common = {"horizon": horizon, "key": SEED, "delta": DELTA, "ridge": RIDGE, **asked}
        for name in POLICIES:
            scales = SCALES if name != "uniform" else (1.0,)  # uniform play has no radius
            instance = provenance.instance_digest(bandit, recipe=place)
            task = Task(place, bandit, instance, name, scales=scales, **common)
            try:
                policy, _ = task.made()
            except InputError as error:
                left_out[f"{name} at T={horizon}"] = f"{name} does not play T={horizon}: {error.__cause__}"
            else:
                # Cells that differ in epsilon or T alone may share a program.
                tasks.append(task)
                cells.append(task.cell(programs=int((policy, dim) not in programs)))
                programs.add((policy, dim))
    config = {**asked, "full": full, "cells": [cell.identity for cell in cells]}

    def show(results: Mapping[str, CellResult]) -> Outputs:
        samples = []
        for task in tasks:
            dim, epsilon = task.bandit.dim, task.bandit.epsilon
            lower = theory.lower_bound_regret(float(task.horizon), dim=dim, epsilon=epsilon)
            samples += [BoundedSample(**vars(sample), lower=lower) for sample in task.samples(results[task.title])]
        return _outputs(samples, [*left_out.values(), *shared.notes_in(results)])

    return Experiment("lower-bound", config, dtype, cells, shared.CODE, show)


@dataclasses.dataclass(frozen=True)
class BoundedSample(Sample):
    """One policy and scale at one (d, epsilon, T), with Theorem 1's bound there."""

    lower: float

    @property
    def place(self) -> tuple[int, float]:
        """(d, epsilon)."""
        return self.task.bandit.dim, self.task.bandit.epsilon

    @functools.cached_property
    def upper(self) -> float:
        """The policy's own bound; NaN where no theorem covers it: scaled radii, and OFUL under such noise."""
        task = self.task
        if self.radius_scale != 1.0 or task.policy not in shared.HEAVY_TAILED:
            return math.nan
        constants = {**provenance.constants(task.bandit), "dim": task.bandit.dim, "delta": DELTA, "ridge": RIDGE}
        bound = getattr(theory, f"{task.policy}_regret_bound")
        return float(bound(task.horizon, **theory.arguments(bound, constants)))

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


Curve = Sequence[BoundedSample]  # one (d, epsilon, policy, scale), in order of T


def problems(samples: Sequence[BoundedSample]) -> tuple[str, ...]:
    """Every mean below the theorem's bound, as a sentence."""
    return tuple(
        f"BUG: {sample.label} lies below Theorem 1's lower bound at d={sample.place[0]}, ε={sample.place[1]:g}, "
        f"T={sample.task.horizon}: mean regret {number(sample.summary.mean)} {interval(sample.summary)} < "
        f"{number(sample.lower)}, beyond a one-sided {LEVEL:.1%} interval over {len(samples)} comparisons"
        for sample in samples
        if sample.below(len(samples))
    )


def _curves(samples: Sequence[BoundedSample]) -> list[Curve]:
    """The samples' curves, by d, epsilon, policy and scale."""
    policies = list(COLORS)
    by_horizon = sorted(samples, key=lambda sample: sample.task.horizon)
    curves = grouped(
        by_horizon, lambda sample: (*sample.place, policies.index(sample.task.policy), -sample.radius_scale)
    )
    return [curves[name] for name in sorted(curves)]


def _outputs(samples: Sequence[BoundedSample], notes: Sequence[str]) -> Outputs:
    setting, unhealthy = samples[0].task.setting, sum(sample.unhealthy for sample in samples)
    curves, wrong = _curves(samples), problems(samples)
    legend, verdict = _legend(samples), "\n".join(wrong) or _verdict(samples)

    header = ("d", "ε", "policy", "exponent", "bound", "own", "regret/lower, least", "at the last T", "upper/largest")
    literal = [_row(curve) for curve in curves if curve[0].radius_scale == 1.0]
    text = [f"Mean regret on Theorem 1's instances ({setting})", aligned_table(header, literal, left=3), ""]
    text += ["The other radius scales are in lower-bound.md.", legend, "", verdict, *shared.unhealthy_line(unhealthy)]

    markdown = [f"# Theorem 1, played ({setting})", "", verdict, "", legend, ""]
    header = (*header[:3], "fitted exponent", "1/(1+ε)", "own bound's", *header[6:])
    markdown += markdown_table(header, [_row(curve) for curve in curves])
    horizons = sorted({sample.task.horizon for sample in samples})
    rows = shared.wide_rows(
        itertools.chain(*curves),
        lambda sample: (*(f"{value:g}" for value in sample.place), sample.label),
        lambda sample: sample.task.horizon,
        lambda sample: span(*sample.ratio, digits=2),
        horizons,
    )
    columns = ["d", "ε", "policy", *(f"T={horizon:,}" for horizon in horizons)]
    markdown += shared.section("Mean regret over the lower bound, with 95% intervals (Student t)", columns, rows)
    markdown += shared.notes_section(notes, unhealthy)

    figure = chart_figure(list(_charts(curves)), title=f"Theorem 1, played ({setting})", note=NOTE)
    records = shared.csv_of([_record(sample, len(samples)) for sample in samples])
    documents = {"lower-bound.md": "\n".join(markdown), "lower-bound.csv": records}
    sections = {"below_the_bound": list(wrong)}
    return Outputs("\n".join(text), {"lower-bound": figure}, documents, unhealthy, wrong, sections)


def _verdict(samples: Sequence[BoundedSample]) -> str:
    """What is said when no mean lies below the bound."""
    ends = [sample.ratio[1] for sample in samples if sample.summary.has_band]
    if not ends:
        return "No mean has an interval: fewer than two healthy seeds contradict nothing."
    return (
        f"No policy lies below (d/192) T^(1/(1+ε)) beyond sampling error ({len(samples)} comparisons, one-sided "
        f"{LEVEL:.1%} in all). The least lower end of a 95% interval is {min(ends):.2f} times the bound."
    )


def _legend(samples: Sequence[BoundedSample]) -> str:
    # The most payoffs other than 0 that a run can expect: the best arm's, T d Delta Delta^(1/epsilon).
    places = sorted({sample.place for sample in samples}, key=lambda place: (place[1], place[0]))
    most = (
        f"{dim * theory.lower_bound_gap(1, epsilon=epsilon) ** ((1 + epsilon) / epsilon):.2g} at d={dim}, ε={epsilon:g}"
        for dim, epsilon in places
    )
    return (
        "exponent: slope of the log mean regret on log T, with a 95% bootstrap interval over seeds. bound: Theorem 1's "
        "1/(1+ε). own: of the policy's upper bound. The gap shrinks with T here, so that playing at random has the "
        "exponent 1/(1+ε) too, and regret exactly 4 times the bound; playing the worst arm has 8 times. A payoff other "
        "than 0 is rare: d 12^(-(1+ε)/ε) of them are expected in a whole run at most, whatever T "
        f"({', '.join(most)}), so that there is hardly anything to learn from. upper/largest: the policy's upper bound "
        "at the last T over the regret of the worst arm; above 1 it promises nothing."
    )


NOTE = (
    "Points: mean pseudo-regret over replications, each with its own θ* from S_d, with 95% intervals (Student t); "
    "solid: radii as published; dashed and dotted: radii ×0.03 and ×0.001. Black: Theorem 1's lower bound (d/192) "
    "T^(1/(1+ε)) and, above, the largest regret possible, eight times as much. Dash-dotted: each policy's own "
    "upper bound. The instance changes with T, so that every curve, playing at random too, has slope 1/(1+ε)."
)


def _row(curve: Curve) -> list[str]:
    """Exponents, and the mean over the bound where that is least and at the last T."""
    first, last, (dim, epsilon) = curve[0], curve[-1], curve[0].place
    fit = shared.exponent(curve) if len(curve) > 1 else None
    least = min(curve, key=lambda sample: sample.ratio[0])
    bounded = first.task.policy in shared.HEAVY_TAILED  # no theorem covers the others under such noise
    return [
        str(dim),
        f"{epsilon:g}",
        first.label,
        span(fit.value, fit.low, fit.high) if fit else "–",
        f"{theory.regret_exponent('lower-bound', epsilon):.3f}",
        f"{theory.regret_exponent(first.task.policy, epsilon):.3f}" if bounded else "–",
        span(*least.ratio, digits=2),
        span(*last.ratio, digits=2),
        number(last.upper / last.largest),
    ]


def _charts(curves: Sequence[Curve]) -> Iterator[list[Chart]]:
    """A row for each epsilon, a column for each d."""
    dims, epsilons = (sorted(set(values)) for values in zip(*(curve[0].place for curve in curves), strict=True))
    scales = sorted({curve[0].radius_scale for curve in curves}, reverse=True)

    def chart(dim: int, epsilon: float) -> Chart:
        shown = [curve for curve in curves if curve[0].place == (dim, epsilon)]
        series = []
        for curve in shown:
            policy, literal = curve[0].task.policy, curve[0].radius_scale == 1.0
            color, label, marker = COLORS[policy], policy_label(policy) * literal, "." * literal
            t, summaries = [sample.task.horizon for sample in curve], [sample.summary for sample in curve]
            line = LINES[min(scales.index(curve[0].radius_scale), len(LINES) - 1)]
            series.append(shared.mean_series(label, color, t, summaries, line=line, marker=marker))
            if literal:
                series.append(Series("", color, t, [sample.upper for sample in curve], line="-.", marker=""))
        longest = max(shown, key=len)
        t = [sample.task.horizon for sample in longest]
        bounds = (("lower bound", [s.lower for s in longest]), ("worst arm", [s.largest for s in longest]))
        series += [Series(label, BOUND_COLOR, t, values, marker="") for label, values in bounds]
        return Chart(f"d={dim}, ε={epsilon:g}", "T (pulls)", "mean pseudo-regret", series)

    for epsilon in epsilons:
        yield [chart(dim, epsilon) for dim in dims]


def _record(sample: BoundedSample, comparisons: int) -> dict[str, object]:
    (dim, epsilon), task, summary = sample.place, sample.task, sample.summary
    played = {"d": dim, "epsilon": epsilon, "horizon": task.horizon, "policy": task.policy}
    seeds = {"radius_scale": sample.radius_scale, "seeds": summary.n, "unhealthy": summary.unhealthy}
    bounds = {"lower_bound": sample.lower, "upper_bound": sample.upper, "largest": sample.largest}
    below = {"below_the_bound": "yes" if sample.below(comparisons) else "no"}
    return {**played, **seeds, **shared.statistics_of("", summary, "mean", "sd", "low", "high"), **bounds, **below}
