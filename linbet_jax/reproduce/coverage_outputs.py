"""What `reproduce coverage` writes, made from the stored cells alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandit import LinearBandit
from linbet_jax.intervals import quantile_interval
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, policy_label, save_figure
from linbet_jax.reproduce.intervals import share
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, markdown_table, number, span

__all__ = ["Point", "Report", "Run", "problem_title", "terminal_text", "write"]

PLAY = {False: "adaptive", True: "in advance"}


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


@dataclasses.dataclass(frozen=True)
class Run:
    """A cell: `[G]` scales, `[G, S]` first misses, worst ratios and health words."""

    problem: str
    policy: str
    in_advance: bool
    horizon: int
    scales: NDArray[np.float64]
    first_miss: NDArray[np.int64]
    worst_ratio: NDArray[np.float64]
    health: NDArray[np.int64]
    notes: tuple[str, ...] = ()

    def points(self) -> list[Point]:
        """One for each scale."""
        found = []
        for scale, miss, ratio, health in zip(self.scales, self.first_miss, self.worst_ratio, self.health, strict=True):
            well = health == 0
            n, covered = int(well.sum()), int((miss[well] == 0).sum())
            held = share(covered, n) if n else None
            ends = (held.low, held.high) if held else (float("nan"), float("nan"))
            missed = miss[well & (miss > 0)]
            found.append(Point(float(scale), n, well.size - n, covered, *ends, np.sort(ratio[well]), missed))
        return found


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
        return sum(int(np.count_nonzero(run.health)) for run in self.runs)

    @property
    def problems(self) -> list[str]:
        """The laws, in order."""
        return list(dict.fromkeys(run.problem for run in self.runs))

    def pairs(self) -> Iterator[tuple[Run, Run]]:
        """Adaptive play and arms drawn in advance, of the same law and policy."""
        advance = {(run.problem, run.policy): run for run in self.runs if run.in_advance}
        for run in self.runs:
            if not run.in_advance:
                yield run, advance[run.problem, run.policy]


def problem_title(bandit: LinearBandit) -> str:
    """Set, law and epsilon, e.g. `S3: Pareto(2), ε=0.5`."""
    return f"{bandit.name.split()[0]}: {bandit.noise.name}, ε={bandit.epsilon:g}"


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Writes every output into the folder and returns their paths."""
    figure = chart_figure(_charts(report), title=_title(report), note=_note(report))
    files = [folder / f"coverage{suffix}" for suffix in (".png", ".pdf")]
    for path in files:
        save_figure(figure, path)
    write_text(folder / "coverage.md", _markdown(report))
    write_text(folder / "coverage.csv", _csv(report))
    return (files[0], folder / "coverage.md", folder / "coverage.csv", files[1])


def terminal_text(report: Report) -> str:
    """For every law and policy: P(covered) at the literal radii, and where it falls below 1 - delta."""
    header = ("law", "policy", "P(covered) at ×1", "in advance", "lost at", "in advance", "radius needed")
    lines = [f"P(theta* in every region), {_setting(report)}", aligned_table(header, _summary(report), left=2)]
    lines += ["", _legend(report)]
    if report.unhealthy:
        lines.append(f"UNHEALTHY replications, left out of every share: {report.unhealthy}")
    return "\n".join(lines)


def _summary(report: Report) -> list[list[str]]:
    rows = []
    for pair in report.pairs():
        points = [run.points() for run in pair]
        shares = [_share(p[0]) for p in points]
        lost = [_lost(p, report.delta) for p in points]
        rows.append(
            [pair[0].problem, policy_label(pair[0].policy), *shares, *lost, _needed(points[0][0], report.delta)]
        )
    return rows


def _share(point: Point) -> str:
    return span(point.share, point.low, point.high)


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


def _setting(report: Report) -> str:
    horizons = sorted({run.horizon for run in report.runs})
    pulls = " or ".join(f"{horizon:,}" for horizon in horizons)
    return f"{report.seeds} seeds, T = {pulls}, λ = {report.ridge:g}, δ = {report.delta:g}"


def _legend(report: Report) -> str:
    promise = f"{1 - report.delta:g}"
    return (
        f"Shares with 95% Clopper-Pearson intervals. Lost at: the largest scale of the grid whose interval lies below "
        f"1 - δ = {promise}, and the median pull of the first miss there: an early one is the ridge's bias, which a "
        f"scaled β no longer holds, rather than the noise. Radius needed: the {promise}-quantile of the worst ratio "
        "||θ_t - θ*||_V / β_t under literal adaptive play, with its 95% interval: below 1 the literal radius is too "
        "wide by its inverse."
    )


def _title(report: Report) -> str:
    return f"How often the confidence regions hold θ* ({_setting(report)})".replace(
        " = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
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
                    points = sorted(run.points(), key=lambda point: point.scale)
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
    scales = [float(scale) for scale in report.runs[0].scales]
    level = 1 - report.delta
    return Series("", "#6E6E6E", [min(scales), max(scales)], [level, level], line="--", marker="")


def _markdown(report: Report) -> str:
    lines = [f"# Coverage of θ* by the confidence regions ({_setting(report)})", "", _legend(report), ""]
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
        scales = [f"×{scale:g}" for scale in runs[0].scales]
        lines += markdown_table(
            ["policy", "play", *scales],
            [[policy_label(run.policy), PLAY[run.in_advance], *map(_share, run.points())] for run in runs],
        )
    notes = sorted({f"{note} ({run.problem})" for run in report.runs for note in run.notes})
    if report.unhealthy:
        notes.append(f"{report.unhealthy} replications met something non-finite and are left out of every share")
    if notes:
        lines += ["## Notes", "", *(f"- {note}." for note in notes), ""]
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["problem", "policy", "play", "horizon", "radius_scale", "seeds", "unhealthy", "covered", "share", "low"]
    header += ["high", "worst_ratio_median", "worst_ratio_quantile", "worst_ratio_max", "first_miss_median"]
    rows = []
    for run in report.runs:
        for p in run.points():
            ratios = [float(np.quantile(p.ratios, q)) for q in (0.5, 1 - report.delta, 1.0)] if p.seeds else [None] * 3
            miss = float(np.median(p.misses)) if p.misses.size else None
            fixed = [run.problem, run.policy, PLAY[run.in_advance], run.horizon, p.scale, p.seeds, p.unhealthy]
            rows.append([*fixed, p.covered, p.share, p.low, p.high, *ratios, miss])
    return csv_text(header, rows)
