"""How time grows with the horizon, the seeds, the arms, the dimension and the cores: exponents and log-log pictures.

Along the cores the time is wall time; along the others, which one core plays, it is processor time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from baseline import Baseline
from problems import Problem
from timing import Measurement, interleave
from worker import Worker

from linbet_jax.bandits.datasets import make_instance
from linbet_jax.figures.plotting import growth_figure, save_figure
from linbet_jax.noise import Pareto, StudentT
from linbet_jax.statistics.regret import fitted_exponent

__all__ = ["AXES", "draw", "measure"]

# What grows -> name of the axis
AXES = {"T": "horizon T (pulls)", "seeds": "replications", "K": "arms K", "d": "dimension d", "cores": "cores"}
_POLICIES = ("tofu", "crt", "menu")
_SEEDS = 32
_LONG = 10_000_000  # pulls of all replications, from which on one sample says enough


def measure(
    baseline: Baseline, cores: Sequence[int], *, quick: bool, say: Callable[[str], None]
) -> Iterator[Measurement]:
    """Seconds of whole runs along every axis, and their fitted exponents; `cores` are those that may be used."""
    for axis in AXES:
        for policy in _POLICIES:
            if axis != "cores":
                yield from _along(axis, policy, quick, say)
            elif len(cores) > 1:
                yield from _over_cores(policy, cores, quick, say)
    # The full pass at every round: quadratic in T.
    horizons = (500, 1_000, 2_000) if quick else (1_000, 3_000, 10_000, 30_000)
    samples = []
    for horizon in horizons:
        problem = Problem.of("tofu", "S3", horizon)
        say(f"scaling in T: NumPy {problem.name}")
        clocks = interleave({"numpy": functools.partial(baseline.sample, problem)}, repeats=2, budget=5)["numpy"]
        samples.append(tuple(clock.cpu * horizon for clock in clocks))
    yield from _results("T", "NumPy TOFU", horizons, samples)


def _points(axis: str, policy: str, quick: bool) -> tuple[int, ...]:
    if quick:
        return {"T": (1_000, 4_000), "seeds": (1, 32, 64), "K": (10, 40), "d": (4, 8)}[axis]
    return {
        "T": (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000),
        "seeds": (16, 64, 256, 1_024, 4_096, 16_384, 100_000),  # fewer cost as much as 16, a block
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
        repeats = 1 if horizon * seeds >= _LONG else 3
        clocks = interleave({"ours": functools.partial(problem.sample, seeds)}, repeats=repeats, budget=3)["ours"]
        samples.append(tuple(clock.cpu * horizon * seeds for clock in clocks))
    yield from _results(axis, policy, points, samples)


def _over_cores(policy: str, cores: Sequence[int], quick: bool, say: Callable[[str], None]) -> Iterator[Measurement]:
    """On one core, on two, on four, and on all."""
    horizon, seeds = (1_000, 32) if quick else (10_000, 32 * len(cores))
    points = sorted({min(2**power, len(cores)) for power in range(len(cores).bit_length() + 1)})
    samples: list[tuple[float, ...]] = []
    for point in points:
        say(f"scaling in cores: {policy}, {point} of {len(cores)}")
        with Worker(cores[:point]) as worker:
            worker.run(policy, "S3", horizon, seeds)  # compiles
            samples.append(tuple(worker.run(policy, "S3", horizon, seeds)["wall"] * horizon * seeds for _ in range(3)))
    yield from _results("cores", policy, points, samples)


def _results(
    axis: str, series: str, points: Sequence[int], samples: Sequence[tuple[float, ...]]
) -> Iterator[Measurement]:
    medians = []
    for point, values in zip(points, samples, strict=True):
        measured = Measurement(f"scaling/{axis}/{series}/{point}", f"{_clock(axis)} s per run", values)
        medians.append(measured.median)
        yield measured
    yield Measurement(
        f"exponent/{axis}/{series}",
        "slope",
        (fitted_exponent(points, medians),),
        f"of {_clock(axis)} time on log-log axes",
    )


def _clock(axis: str) -> str:
    return "wall" if axis == "cores" else "CPU"


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
    clock = _clock(axis)
    figure = growth_figure(series, title=f"{clock[0].upper()}{clock[1:]} time of a run against {AXES[axis]}")
    axes = figure.axes[0]
    axes.set_xlabel(AXES[axis])
    axes.set_ylabel("seconds")
    if axis == "cores":  # too few for powers of ten
        axes.set_xticks(sorted({point for points, _ in series.values() for point in points}))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    save_figure(figure, path)
    return path
