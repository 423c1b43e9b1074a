"""What `reproduce robustness` writes, made from the stored cells alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, policy_label, save_figure
from linbet_jax.regret import Summary, paired_difference, summarize
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, interval, markdown_table, number

__all__ = ["RADII", "Report", "Run", "terminal_text", "write"]

RADII = ("literal", "tuned")
SYMBOLS = {"raw_moment_bound": "b", "central_moment_bound": "c", "epsilon": "ε"}
KNOWLEDGE = {"moment": ("raw_moment_bound", "central_moment_bound"), "epsilon": ("epsilon",)}
NAMES = {"moment": "b (TOFU, CRT) or c (MENU, MoM)", "epsilon": "ε"}


@dataclasses.dataclass(frozen=True)
class Run:
    """One policy on one set told `field` = `ratio` times the truth: `[S]` final regret and health."""

    set_name: str
    title: str
    policy: str
    radii: str
    radius_scale: float
    field: str
    ratio: float
    truth: float
    regret: NDArray[np.float64]
    health: NDArray[np.int64]
    at_edge: bool = False
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """Over the healthy seeds."""
        return summarize(self.regret, self.health)

    @property
    def label(self) -> str:
        """Policy and scale."""
        return policy_label(self.policy, self.radius_scale)


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say: the runs, seeds, delta and lambda."""

    runs: Sequence[Run]
    seeds: int
    tuning_seeds: int
    delta: float
    ridge: float

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(int(np.count_nonzero(run.health)) for run in self.runs)

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
        found = {run.ratio for group in self.groups for run in self.curve(group, knowledge)}
        return sorted(found)


def cost(run: Run, truth: Run) -> Summary:
    """What the wrong number costs, seed by seed on the same noise; negative where it helps."""
    return paired_difference(run.regret, truth.regret, run.health, truth.health)


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Writes every output into the folder and returns their paths."""
    title = f"What wrong knowledge costs ({_setting(report)})"
    figure = chart_figure(_charts(report), title=title, note=_note(report))
    files = [folder / f"robustness{suffix}" for suffix in (".png", ".pdf")]
    for path in files:
        save_figure(figure, path)
    write_text(folder / "robustness.md", _markdown(report))
    write_text(folder / "robustness.csv", _csv(report))
    return (files[0], folder / "robustness.md", folder / "robustness.csv", files[1])


def terminal_text(report: Report) -> str:
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
    lines = [f"Mean regret under wrong knowledge ({_setting(report)})", aligned_table(header, rows, left=3), ""]
    lines.append(_legend(report))
    if report.unhealthy:
        lines.append(f"UNHEALTHY replications, left out of every mean: {report.unhealthy}")
    return "\n".join(lines)


def _cost_text(run: Run, truth: Run) -> str:
    if run is truth:
        return "–"
    found = cost(run, truth)
    return f"{number(found.mean)} {interval(found)}"


def _setting(report: Report) -> str:
    return f"{report.seeds} seeds, λ = {report.ridge:g}, δ = {report.delta:g}"


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
                    found = [run.summary for run in curve]
                    literal = group[2] == "literal"
                    series.append(
                        Series(
                            curve[0].label,
                            COLORS[group[1]],
                            [run.ratio for run in curve],
                            [float(s.mean) for s in found],
                            [max(float(s.low), 0.0) for s in found] if found[0].has_band else None,
                            [float(s.high) for s in found] if found[0].has_band else None,
                            line="-" if literal else "--",
                            marker="o" if literal else ".",
                        )
                    )
            row.append(Chart(title, f"assumed / true {what}", "mean regret", series, (True, False)))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# What wrong knowledge costs ({_setting(report)})", "", _legend(report), ""]
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
    notes = sorted({note for run in report.runs for note in run.notes})
    edges = sorted({f"{run.label} on {run.set_name}" for run in report.runs if run.at_edge})
    if edges:
        notes.append(f"The tuned scale is an end of the grid, and a wider one might hold a better: {', '.join(edges)}")
    if report.unhealthy:
        notes.append(f"{report.unhealthy} replications met something non-finite and are left out of every mean")
    if notes:
        lines += ["## Notes", "", *(f"- {note}." for note in notes), ""]
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["set", "policy", "radii", "radius_scale", "field", "ratio", "assumed", "seeds", "unhealthy"]
    header += ["regret_mean", "regret_sd", "regret_low", "regret_high", "cost_mean", "cost_low", "cost_high"]
    truths = {(run.set_name, run.policy, run.radii): run for run in report.runs if run.ratio == 1.0}
    rows = []
    for run in report.runs:
        s, c = run.summary, cost(run, truths[run.set_name, run.policy, run.radii])
        fixed = [run.set_name, run.policy, run.radii, run.radius_scale, run.field, run.ratio, run.truth * run.ratio]
        spread = [float(value) for value in (s.mean, s.sd, s.low, s.high, c.mean, c.low, c.high)]
        rows.append([*fixed, s.n, s.unhealthy, *spread])
    return csv_text(header, rows)
