"""What `reproduce figure2` writes: pictures, curves, tables. Everything is made from the stored cells alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from linbet_jax import regret as statistics
from linbet_jax.plotting import Curve, Panel, panel_figure, policy_label, save_figure, tuning_figure
from linbet_jax.regret import Summary
from linbet_jax.results import write_text
from linbet_jax.tables import csv_text, interval, markdown_table, number
from linbet_jax.tuning import TuningCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report", "Run", "policy_label", "summary_text", "terminal_table", "write"]

RADII = ("literal", "tuned")
_ROUNDING = 1e-6  # relative; float32 sums of gaps agree to about that


@dataclasses.dataclass(frozen=True)
class Run:
    """One policy on one data set with one radius scale: `[S, R]` regret and payoff, `[S]` health."""

    set_name: str
    policy: str
    radii: str
    radius_scale: float
    rounds: NDArray[np.int64]
    regret: NDArray[np.float64]
    payoff: NDArray[np.float64]
    health: NDArray[np.int64]

    def curve(self, quantity: str) -> Summary:
        """Summary `[R]` of "regret" or "payoff"."""
        return statistics.summarize(getattr(self, quantity), self.health)

    def final(self, quantity: str) -> Summary:
        """Summary `[]` at the horizon."""
        return statistics.summarize(getattr(self, quantity)[:, -1], self.health)


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say.

    Attributes:
        runs: two of every cell, literal and tuned.
        tuning: by `set/policy`.
        pairs: by set, the policies the paper ran on it.
        titles: by set, a panel's title.
        best_means: by set, the best arm's mean payoff.
        horizons: by set, pulls.
        notes: sentences that must travel with the numbers.
        quick_look: whether the horizons are not the paper's.
        seeds: evaluation replications.
        tuning_seeds: tuning replications.
        delta: failure probability.
        ridge: lambda.
    """

    runs: Sequence[Run]
    tuning: Mapping[str, TuningCurve]
    pairs: Mapping[str, tuple[str, str]]
    titles: Mapping[str, str]
    best_means: Mapping[str, float]
    horizons: Mapping[str, int]
    notes: Sequence[str]
    quick_look: bool
    seeds: int
    tuning_seeds: int
    delta: float
    ridge: float

    def unhealthy(self) -> int:
        """Replications that met something non-finite, in tuning and evaluation; a shared run counts once."""
        evaluation = {
            (run.set_name, run.policy, run.radius_scale): int(np.count_nonzero(run.health)) for run in self.runs
        }
        return sum(evaluation.values()) + sum(int(np.count_nonzero(t.health)) for t in self.tuning.values())

    def find(self, set_name: str, policy: str, radii: str) -> Run:
        """One run by name."""
        return next(r for r in self.runs if (r.set_name, r.policy, r.radii) == (set_name, policy, radii))

    @property
    def heading(self) -> str:
        """One line that says what this is, and that it is not the paper's horizon where it is not."""
        return f"{self.setting}; {self.mark}" if self.mark else self.setting

    @property
    def setting(self) -> str:
        """Seeds and constants."""
        return f"{self.seeds} seed{'s' if self.seeds != 1 else ''}, λ = {self.ridge:g}, δ = {self.delta:g}"

    @property
    def mark(self) -> str:
        """What must be seen on everything that does not have the paper's horizon; empty otherwise."""
        return f"QUICK LOOK at T={next(iter(self.horizons.values()))}, not the paper's T" if self.quick_look else ""


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Writes every output into the folder and returns their paths."""
    files = []
    figures = {
        "figure2": _figure(report, "payoff", "sd"),
        "figure2_regret": _figure(report, "regret", "interval"),
        "figure2_tuning": _tuning_picture(report),
    }
    for stem, figure in figures.items():
        for suffix in (".png", ".pdf"):
            save_figure(figure, folder / f"{stem}{suffix}")
            files.append(folder / f"{stem}{suffix}")
    write_text(folder / "curves.csv", _curves(report))
    write_text(folder / "table.md", _markdown(report))
    return (*files, folder / "table.md", folder / "curves.csv")


def summary_text(summary: Summary, *, unit: str = " sd") -> str:
    """Mean and standard deviation, e.g. `21,389 ± 120 sd`; the mean alone for one seed.

    A table whose heading says what follows the ± leaves `unit` empty.
    """
    if summary.n == 0:
        return "none healthy"
    mean = number(summary.mean)
    return f"{mean} ± {number(summary.sd)}{unit}" if summary.has_band else mean


def terminal_table(report: Report) -> str:
    """The table for a terminal: final payoff and regret, mean ± sd over seeds, under both kinds of radii."""
    header = ("", "", "literal radii", "", "tuned radii", "", "")
    names = ("set", "policy", "payoff", "regret", "scale", "payoff", "regret")
    rows: list[tuple[str, ...]] = []
    for set_name in report.titles:
        for run in report.runs:
            if run.set_name != set_name or run.radii != "literal":
                continue
            tuned = report.find(set_name, run.policy, "tuned")
            star = "*" if run.policy in report.pairs[set_name] else ""
            values = [summary_text(r.final(q), unit="") for r in (run, tuned) for q in ("payoff", "regret")]
            rows.append(
                (set_name, policy_label(run.policy) + star, *values[:2], f"×{tuned.radius_scale:g}", *values[2:])
            )
    widths = [max(len(row[i]) for row in (names, *rows)) for i in range(len(names))]

    def line(cells: Sequence[str]) -> str:
        left = (f"{c:<{w}}" if i < 2 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return "  ".join(left).rstrip()

    group = " " * (sum(widths[:2]) + 4)
    group += f"{header[2]:-^{widths[2] + widths[3] + 2}}  {header[4]:-^{sum(widths[4:]) + 4}}"
    body = []
    for previous, row in zip([None, *rows], rows, strict=False):
        if previous is not None and previous[0] != row[0]:
            body.append("")
        body.append(line(row))
    claims = [f"  {claim.set_name} {claim.radii}: {claim.sentence}" for claim in _claims(report)]
    unhealthy = report.unhealthy()
    foot = [f"UNHEALTHY replications, left out of every mean: {unhealthy}"] if unhealthy else []
    return "\n".join(
        [
            f"Final cumulative payoff and pseudo-regret, mean ± sd ({report.heading})",
            group,
            line(names),
            *body,
            "",
            "* the paper's pair; its difference in pseudo-regret, seed by seed (same noise), with a 95% interval:",
            *claims,
            *foot,
        ]
    )


@dataclasses.dataclass(frozen=True)
class _Claim:
    """The paper says the first policy of a pair earns more than the second: what these runs say.

    The verdict rests on pseudo-regret, what the arms played cost on average. The payoffs that were realised add the
    noise to that, whose variance is infinite under Pareto(2): an interval around their difference promises little.

    Attributes:
        set_name: the data set.
        radii: "literal" or "tuned".
        policies: the pair.
        names: the pair with its radius scales.
        regret: first minus second, at the horizon; negative where the first is ahead.
        payoff: likewise; positive where the first is ahead.
        rounding: a regret difference too small to mean anything: two policies that play the same arms in another order
            add the same gaps in another order.
    """

    set_name: str
    radii: str
    policies: tuple[str, str]
    names: tuple[str, str]
    regret: Summary
    payoff: Summary
    rounding: float = 0.0

    @property
    def pair(self) -> str:
        """What is subtracted from what."""
        return f"{self.names[0]} - {self.names[1]}"

    @property
    def verdict(self) -> str:
        """Which of the two is ahead, where the interval of the regret difference says so."""
        if not self.regret.has_band:
            return "no interval from one seed" if self.regret.n else "no seed healthy under both"
        if float(self.regret.high) < -self.rounding:
            return f"{self.policies[0]} ahead, as in the paper"
        ahead = float(self.regret.low) > self.rounding
        return f"{self.policies[1]} ahead, against the paper" if ahead else "no difference beyond chance"

    @property
    def sentence(self) -> str:
        """The differences, their intervals and the verdict."""
        regret, payoff = (
            f"{number(s.mean)} {interval(s)}" if s.has_band else number(s.mean) for s in (self.regret, self.payoff)
        )
        return f"regret {self.pair} = {regret}: {self.verdict} (payoff difference {payoff})"


def _claims(report: Report) -> list[_Claim]:
    claims = []
    for set_name, (one, other) in report.pairs.items():
        for radii in RADII:
            first, second = report.find(set_name, one, radii), report.find(set_name, other, radii)
            regret, payoff = (
                statistics.paired_difference(a[:, -1], b[:, -1], first.health, second.health)
                for a, b in ((first.regret, second.regret), (first.payoff, second.payoff))
            )
            size = max(abs(float(run.final("regret").mean)) for run in (first, second))
            claims.append(
                _Claim(
                    set_name,
                    radii,
                    policies=(policy_label(one), policy_label(other)),
                    names=(policy_label(one, first.radius_scale), policy_label(other, second.radius_scale)),
                    regret=regret,
                    payoff=payoff,
                    rounding=_ROUNDING * size,
                )
            )
    return claims


def _figure(report: Report, quantity: str, spread: str) -> Figure:
    """Literal radii above, tuned ones below, one column per data set."""
    rows = []
    for radii in RADII:
        panels = []
        for set_name, title in report.titles.items():
            curves = [
                Curve(r.policy, r.radius_scale, r.rounds, r.curve(quantity), bold=r.policy in report.pairs[set_name])
                for r in report.runs
                if r.set_name == set_name and r.radii == radii
            ]
            best = report.best_means[set_name] if quantity == "payoff" else None
            panels.append(Panel(title, curves, reference=best, reference_label="best arm"))
        rows.append((f"{radii} radii", panels))
    what = {"payoff": "cumulative payoff", "regret": "cumulative pseudo-regret"}[quantity]
    shown = {
        "sd": "Bars: one standard deviation",
        "interval": "Bands: 95% interval of the mean (Student t), clipped at 0: regret cannot be negative",
    }[spread]
    note = (
        f"Bold: the pair the paper ran on the set. {shown}. Coloured dashes: the curve lies on another one. "
        "Literal: every radius as published (×1). Tuned: times the scale with the least mean regret on the same "
        f"instance under other noise ({report.tuning_seeds} other seeds), one grid for all."
    )
    setting = report.setting.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    title = f"{what.capitalize()}, mean over {setting}"
    return panel_figure(
        rows,
        quantity=what,
        spread=spread,
        nonnegative=quantity == "regret",
        title=f"{title}\n{report.mark}" if report.mark else title,
        note=note,
    )


def _tuning_picture(report: Report) -> Figure:
    """What the scales were chosen on."""
    note = (
        f"Mean final regret over {report.tuning_seeds} tuning seeds, which the evaluation never uses, with 95% "
        "intervals (Student t, clipped at 0). Diamonds: the scale of the least mean; edge: it is the first or the "
        "last of the grid, and a wider one might hold a better scale."
    )
    title = "Tuning: regret against radius_scale"
    return tuning_figure(report.tuning.values(), title=f"{title}\n{report.mark}" if report.mark else title, note=note)


def _curves(report: Report) -> str:
    """CSV of the curves: one line per set, policy, radii and record."""
    quantities, columns = ("regret", "payoff"), ("mean", "sd", "low", "high")
    header = ["set", "policy", "radii", "radius_scale", "horizon", "paper_horizon", "pull", "seeds", "unhealthy"]
    rows: list[list[object]] = []
    for run in report.runs:
        summaries = [run.curve(quantity) for quantity in quantities]
        fixed = [run.set_name, run.policy, run.radii, f"{run.radius_scale:g}", int(run.rounds[-1])]
        fixed.append("no" if report.quick_look else "yes")
        for index, pull in enumerate(run.rounds):
            numbers = [float(getattr(s, column)[index]) for s in summaries for column in columns]
            rows.append([*fixed, int(pull), summaries[0].n, summaries[0].unhealthy, *numbers])
    return csv_text([*header, *(f"{quantity}_{column}" for quantity in quantities for column in columns)], rows)


def _markdown(report: Report) -> str:
    """The full table, the paper's claim pair by pair, and what the scales were chosen on."""
    lines = [f"# Figure 2: final payoff and regret ({report.heading})", ""]
    lines += [
        "Cumulative realised payoff and pseudo-regret at the horizon. `radius_scale` multiplies every confidence",
        "radius; 1 is the papers' own. Tuned: the scale with the least mean final regret on replications of another",
        f"key ({report.tuning_seeds} of them: the same instance, other noise), chosen from one grid for all policies.",
        "Bold: the pair that the paper ran on the set. Interval: 95%, Student t over seeds; the figure clips it at 0",
        "where it is regret's.",
        "",
    ]
    for set_name, title in report.titles.items():
        lines += [f"## {title}, T={report.horizons[set_name]}", ""]
        lines += markdown_table(
            ["policy", "radii", "radius_scale"]
            + [f"{q} {c}" for q in ("payoff", "regret") for c in ("mean", "median", "sd", "interval")]
            + ["unhealthy"],
            [_table_row(run, run.policy in report.pairs[set_name]) for run in report.runs if run.set_name == set_name],
        )
    lines += ["## The paper's claim: its own policy earns more", ""]
    lines += [
        "First minus second at the horizon, seed by seed under common random numbers, with 95% intervals. The reading",
        "rests on pseudo-regret (less is better), the expected cost of the arms played. Realised payoffs add noise, of",
        "infinite variance under Pareto(2), so their interval promises little there.",
        "",
    ]
    columns = ("difference", "sd", "interval")
    lines += markdown_table(
        [
            "set",
            "radii",
            "pair",
            *(f"regret {c}" for c in columns),
            "reading",
            *(f"payoff {c}" for c in columns),
            "seeds",
        ],
        [
            [c.set_name, c.radii, c.pair, *_spelled(c.regret), c.verdict, *_spelled(c.payoff), str(c.regret.n)]
            for c in _claims(report)
        ],
    )
    lines += ["## Tuning: mean final regret by radius_scale", ""]
    grid = next(iter(report.tuning.values())).grid
    lines += markdown_table(
        ["set", "policy", *(f"×{scale:g}" for scale in grid), "unhealthy"],
        [_tuning_row(title, tuning) for title, tuning in report.tuning.items()],
    )
    if report.notes:
        lines += ["## Notes", "", *(f"- {note}" for note in report.notes), ""]
    return "\n".join(lines)


def _table_row(run: Run, bold: bool) -> list[str]:
    name, cells = policy_label(run.policy), []
    for summary in (run.final("payoff"), run.final("regret")):
        cells += [number(summary.mean), number(summary.median), number(summary.sd), interval(summary)]
    unhealthy = f"{run.final('regret').unhealthy} of {run.health.shape[0]}"
    return [f"**{name}**" if bold else name, run.radii, f"{run.radius_scale:g}", *cells, unhealthy]


def _tuning_row(title: str, tuning: TuningCurve) -> list[str]:
    set_name, policy = title.split("/")
    means = [statistics.summarize(r, h) for r, h in zip(tuning.regret, tuning.health, strict=True)]
    cells = [
        f"**{number(s.mean)}**" if scale == tuning.chosen else number(s.mean)
        for scale, s in zip(tuning.grid, means, strict=True)
    ]
    return [set_name, policy_label(policy), *cells, str(sum(s.unhealthy for s in means))]


def _spelled(summary: Summary) -> tuple[str, str, str]:
    """Mean, standard deviation and interval, one table cell each."""
    return number(summary.mean), number(summary.sd), interval(summary)
