"""How time grows with the horizon, the seeds, the arms and the dimension: fitted exponents and log-log pictures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from baseline import Baseline
from problems import Problem
from timing import Measurement, interleave

from linbet_jax.bandits.datasets import make_instance
from linbet_jax.figures.plotting import growth_figure, save_figure
from linbet_jax.noise import Pareto, StudentT
from linbet_jax.statistics.regret import fitted_exponent

__all__ = ["AXES", "draw", "measure"]

# What grows -> name of the axis
AXES = {"T": "horizon T (pulls)", "seeds": "replications", "K": "arms K", "d": "dimension d"}
_POLICIES = ("tofu", "crt", "menu")
_SEEDS = 32


def measure(baseline: Baseline, *, quick: bool, say: Callable[[str], None]) -> Iterator[Measurement]:
    """Wall seconds of whole runs along every axis, and their fitted exponents."""
    for axis in AXES:
        for policy in _POLICIES:
            yield from _along(axis, policy, quick, say)
    # The full pass at every round: quadratic in T.
    horizons = (500, 1_000, 2_000) if quick else (1_000, 3_000, 10_000, 30_000)
    samples = []
    for horizon in horizons:
        problem = Problem.of("tofu", "S3", horizon)
        say(f"scaling in T: NumPy {problem.name}")
        clocks = interleave({"numpy": functools.partial(baseline.sample, problem)}, repeats=2, budget=5)["numpy"]
        samples.append(tuple(clock.wall * horizon for clock in clocks))
    yield from _results("T", "NumPy TOFU", horizons, samples)


def _points(axis: str, policy: str, quick: bool) -> tuple[int, ...]:
    if quick:
        return {"T": (1_000, 4_000), "seeds": (1, 32, 64), "K": (10, 40), "d": (4, 8)}[axis]
    return {
        "T": (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000),
        "seeds": (1, 4, 16, 64, 256, 1_024, 4_096),
        "K": (10, 20, 50, 100, 200, 500, 1_000),
        "d": (2, 4, 8, 16, 32),
    }[axis]


def _along(axis: str, policy: str, quick: bool, say: Callable[[str], None]) -> Iterator[Measurement]:
    samples: list[tuple[float, ...]] = []
    points = _points(axis, policy, quick)
    for point in points:
        num_arms, dim = (point if axis == "K" else 20), (point if axis == "d" else 10)
        law = StudentT(3.0) if policy == "menu" else Pareto(2.0)
        bandit = make_instance(num_arms, dim, law, best_mean=3.1, seed=1, epsilon=1.0 if policy == "menu" else 0.5)
        horizon = point if axis == "T" else 1_000
        seeds = point if axis == "seeds" else _SEEDS
        say(f"scaling in {axis}: {policy}, {axis}={point}")
        problem = Problem.on(policy, bandit, horizon)
        problem.warm()
        repeats = 1 if horizon >= 1_000_000 else 3
        clocks = interleave({"ours": functools.partial(problem.sample, seeds)}, repeats=repeats, budget=3)["ours"]
        samples.append(tuple(clock.wall * horizon * seeds for clock in clocks))
    yield from _results(axis, policy, points, samples)


def _results(
    axis: str, series: str, points: Sequence[int], samples: Sequence[tuple[float, ...]]
) -> Iterator[Measurement]:
    medians = []
    for point, values in zip(points, samples, strict=True):
        measured = Measurement(f"scaling/{axis}/{series}/{point}", "wall s per run", values)
        medians.append(measured.median)
        yield measured
    yield Measurement(
        f"exponent/{axis}/{series}", "slope", (fitted_exponent(points, medians),), "of wall time on log-log axes"
    )


def draw(measurements: Sequence[Measurement], folder: Path) -> list[Path]:
    """One log-log picture for each axis that was measured; the files written."""
    curves: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for measured in measurements:
        kind, *rest = measured.name.split("/")
        if kind == "scaling":
            axis, series, point = rest
            points, seconds = curves.setdefault(axis, {}).setdefault(series, ([], []))
            points.append(float(point))
            seconds.append(measured.median)
    return [_picture(axis, series, folder / f"scaling-{axis}.png") for axis, series in curves.items()]


def _picture(axis: str, series: Mapping[str, tuple[list[float], list[float]]], path: Path) -> Path:
    figure = growth_figure(series, title=f"Wall time of a run against {AXES[axis]}")
    axes = figure.axes[0]
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("seconds")
    save_figure(figure, path)
    return path
