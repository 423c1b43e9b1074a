"""What `reproduce lower-bound` writes, made from the stored cells alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from linbet_jax import theory
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, policy_label, save_figure
from linbet_jax.regret import Summary, summarize
from linbet_jax.reproduce.intervals import Exponent, bootstrap_exponent
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, interval, markdown_table, number, span

__all__ = ["Report", "Run", "terminal_text", "write"]

LEVEL = 0.999  # of the one-sided test that a mean lies below the bound, over all comparisons together
BOUND_COLOR = "#333333"
LINES = ("-", "--", ":")  # by scale, the literal one first


@dataclasses.dataclass(frozen=True)
class Run:
    """One policy and scale at one (d, epsilon, T): `[S]` final regret and health, and the bounds at T."""

    dim: int
    epsilon: float
    horizon: int
    policy: str
    radius_scale: float
    regret: NDArray[np.float64]
    health: NDArray[np.int64]
    lower: float
    upper: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """Over the healthy seeds."""
        return summarize(self.regret, self.health)

    @property
    def label(self) -> str:
        """Policy and scale."""
        return policy_label(self.policy, self.radius_scale)

    @property
    def largest(self) -> float:
        """The regret of playing the worst arm throughout: T d Delta / 2, eight times the lower bound."""
        return 8 * self.lower

    def below(self, comparisons: int) -> bool:
        """Whether the mean lies below the bound beyond sampling error, one-sided, with Bonferroni's correction."""
        found = self.summary
        if not found.has_band:
            return False
        reach = float(stdtrit(found.n - 1, 1 - (1 - LEVEL) / comparisons)) * float(found.standard_error)
        return float(found.mean) + reach < self.lower * (1 - 1e-9)


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say: the runs, seeds, delta, lambda, and what no policy could play."""

    runs: Sequence[Run]
    seeds: int
    delta: float
    ridge: float
    left_out: Sequence[str] = ()

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(int(np.count_nonzero(run.health)) for run in self.runs)

    @property
    def problems(self) -> tuple[str, ...]:
        """Every mean below the theorem's bound, as a sentence."""
        return tuple(
            f"BUG: {run.label} lies below Theorem 1's lower bound at d={run.dim}, ε={run.epsilon:g}, T={run.horizon}: "
            f"mean regret {number(run.summary.mean)} {interval(run.summary)} < {number(run.lower)}, beyond a one-sided "
            f"{LEVEL:.1%} interval over {len(self.runs)} comparisons"
            for run in self.runs
            if run.below(len(self.runs))
        )

    def curves(self) -> list[list[Run]]:
        """Runs of one (d, epsilon, policy, scale), in order of T."""
        found: dict[tuple[int, float, str, float], list[Run]] = {}
        for run in self.runs:
            found.setdefault((run.dim, run.epsilon, run.policy, run.radius_scale), []).append(run)
        policies = list(COLORS)
        ordered = sorted(found, key=lambda name: (name[0], name[1], policies.index(name[2]), -name[3]))
        return [sorted(found[name], key=lambda run: run.horizon) for name in ordered]


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Writes every output into the folder and returns their paths."""
    figure = chart_figure(_charts(report), title=f"Theorem 1, played ({_setting(report)})", note=_note(report))
    files = [folder / f"lower-bound{suffix}" for suffix in (".png", ".pdf")]
    for path in files:
        save_figure(figure, path)
    write_text(folder / "lower-bound.md", _markdown(report))
    write_text(folder / "lower-bound.csv", _csv(report))
    return (files[0], folder / "lower-bound.md", folder / "lower-bound.csv", files[1])


def terminal_text(report: Report) -> str:
    """Fitted exponents and the smallest ratio to the bound for the literal radii, and the verdict for all."""
    header = ("d", "ε", "policy", "exponent", "bound", "own", "regret/lower, least", "at the last T", "upper/largest")
    text = [
        f"Mean regret on Theorem 1's instances ({_setting(report)})",
        aligned_table(header, _rows(report, literal=True), left=3),
    ]
    text += ["", "The other radius scales are in lower-bound.md.", _legend(report), "", _verdict(report)]
    if report.unhealthy:
        text.append(f"UNHEALTHY replications, left out of every mean: {report.unhealthy}")
    return "\n".join(text)


def _setting(report: Report) -> str:
    return f"{report.seeds} seeds, λ = {report.ridge:g}, δ = {report.delta:g}"


def _verdict(report: Report) -> str:
    if report.problems:
        return "\n".join(report.problems)
    ends = [_ratio(run)[1] for run in report.runs if run.summary.has_band]
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
    pairs = sorted({(run.dim, run.epsilon) for run in report.runs}, key=lambda pair: (pair[1], pair[0]))
    shown = (f"{dim * 12 ** (-(1 + epsilon) / epsilon):.2g} at d={dim}, ε={epsilon:g}" for dim, epsilon in pairs)
    return ", ".join(shown)


def _ratio(run: Run) -> tuple[float, float, float]:
    """Mean and interval over the lower bound."""
    found = run.summary
    return float(found.mean) / run.lower, float(found.low) / run.lower, float(found.high) / run.lower


def _exponent(curve: Sequence[Run]) -> Exponent:
    return bootstrap_exponent(
        [run.horizon for run in curve],
        np.stack([run.regret for run in curve], axis=1),
        np.stack([run.health for run in curve], axis=1),
    )


def _own_exponent(policy: str, epsilon: float) -> str:
    """The exponent of the policy's upper bound; none of a policy without one under such noise."""
    return f"{theory.regret_exponent(policy, epsilon):.3f}" if policy not in ("uniform", "oful") else "–"


def _rows(report: Report, *, literal: bool = False) -> list[list[str]]:
    rows = []
    for curve in report.curves():
        first, last = curve[0], curve[-1]
        if literal and first.radius_scale != 1.0:
            continue
        fit = _exponent(curve) if len(curve) > 1 else None
        least = min(curve, key=lambda run: _ratio(run)[0])
        rows.append(
            [
                str(first.dim),
                f"{first.epsilon:g}",
                first.label,
                span(fit.value, fit.low, fit.high) if fit else "–",
                f"{theory.regret_exponent('lower-bound', first.epsilon):.3f}",
                _own_exponent(first.policy, first.epsilon),
                span(*_ratio(least), digits=2),
                span(*_ratio(last), digits=2),
                number(last.upper / last.largest),
            ]
        )
    return rows


def _note(report: Report) -> str:
    return (
        "Points: mean pseudo-regret over replications, each with its own θ* from S_d, with 95% intervals (Student t); "
        "solid: radii as published; dashed and dotted: radii ×0.03 and ×0.001. Black: Theorem 1's lower bound "
        "(d/192) T^(1/(1+ε)) and, above, the largest regret possible, eight times as much. Dash-dotted: each "
        "policy's own upper bound. The instance changes with T, so that every curve, playing at random too, has slope "
        "1/(1+ε)."
    )


def _charts(report: Report) -> list[list[Chart]]:
    dims, epsilons = (sorted({getattr(run, field) for run in report.runs}) for field in ("dim", "epsilon"))
    scales = sorted({run.radius_scale for run in report.runs}, reverse=True)
    rows = []
    for epsilon in epsilons:
        row = []
        for dim in dims:
            curves = [c for c in report.curves() if (c[0].dim, c[0].epsilon) == (dim, epsilon)]
            series = []
            for curve in curves:
                color, literal = COLORS[curve[0].policy], curve[0].radius_scale == 1.0
                t, found = [run.horizon for run in curve], [run.summary for run in curve]
                line = LINES[min(scales.index(curve[0].radius_scale), len(LINES) - 1)]
                series.append(
                    Series(
                        policy_label(curve[0].policy) if literal else "",
                        color,
                        t,
                        [float(s.mean) for s in found],
                        [float(s.low) for s in found] if found[0].has_band else None,
                        [float(s.high) for s in found] if found[0].has_band else None,
                        line=line,
                        marker="." if literal else "",
                    )
                )
                if literal:
                    series.append(Series("", color, t, [run.upper for run in curve], line="-.", marker=""))
            longest = max(curves, key=len)
            t = [run.horizon for run in longest]
            bounds = (("lower bound", [r.lower for r in longest]), ("worst arm", [r.largest for r in longest]))
            series += [Series(label, BOUND_COLOR, t, values, marker="") for label, values in bounds]
            row.append(Chart(f"d={dim}, ε={epsilon:g}", "T (pulls)", "mean pseudo-regret", series))
        rows.append(row)
    return rows


def _markdown(report: Report) -> str:
    lines = [f"# Theorem 1, played ({_setting(report)})", "", _verdict(report), "", _legend(report), ""]
    header = ["d", "ε", "policy", "fitted exponent", "1/(1+ε)", "own bound's", "regret/lower, least", "at the last T"]
    lines += markdown_table([*header, "upper/largest"], _rows(report))
    lines += ["## Mean regret over the lower bound, with 95% intervals (Student t)", ""]
    horizons = sorted({run.horizon for run in report.runs})
    rows = []
    for curve in report.curves():
        cells = {run.horizon: span(*_ratio(run), digits=2) for run in curve}
        names = [str(curve[0].dim), f"{curve[0].epsilon:g}", curve[0].label]
        rows.append([*names, *(cells.get(horizon, "–") for horizon in horizons)])
    lines += markdown_table(["d", "ε", "policy", *(f"T={horizon:,}" for horizon in horizons)], rows)
    notes = [*report.left_out, *sorted({note for run in report.runs for note in run.notes})]
    if report.unhealthy:
        notes.append(f"{report.unhealthy} replications met something non-finite and are left out of every mean")
    if notes:
        lines += ["## Notes", "", *(f"- {note}." for note in notes), ""]
    return "\n".join(lines)


def _csv(report: Report) -> str:
    header = ["d", "epsilon", "horizon", "policy", "radius_scale", "seeds", "unhealthy", "mean", "sd", "low", "high"]
    rows = []
    for run in report.runs:
        s = run.summary
        numbers = [float(s.mean), float(s.sd), float(s.low), float(s.high), run.lower, run.upper, run.largest]
        fixed = [run.dim, run.epsilon, run.horizon, run.policy, run.radius_scale, s.n, s.unhealthy]
        rows.append([*fixed, *numbers, "yes" if run.below(len(report.runs)) else "no"])
    return csv_text([*header, "lower_bound", "upper_bound", "largest", "below_the_bound"], rows)
