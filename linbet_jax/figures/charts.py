"""Charts of any two quantities: tuning, tails, growth in T, and maps of who wins where.

What they return is a figure on an Agg canvas of its own. `title` stands above everything and `note`, small print, below
everything; both are wrapped to the figure's width.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from linbet_jax.figures.canvas import FloatArray, StyledFigure, axes_grid, label_ends, robust_limits, styled
from linbet_jax.figures.colors import OWN_COLORS, REFERENCE_COLOR, policy_colors, policy_sign
from linbet_jax.policies.registry import policy_label
from linbet_jax.statistics.regret import fitted_exponent

if TYPE_CHECKING:
    from linbet_jax.statistics.logs import LogFit
    from linbet_jax.statistics.tuning import TuningCurve

_LIGHTEST = 8.0  # the largest tail index drawn
_CELL_WIDTH = 0.47  # inches, of a map
_DARK = 1.0  # of a map's colours: what is written on them is white


@dataclasses.dataclass(frozen=True)
class Series:
    """One measured curve of a chart: points, joined, each with its interval where there is one.

    Attributes:
        label: at the curve's right end; empty for none.
        color: of everything drawn.
        x: `[n]`, increasing.
        y: `[n]`; what is not finite, or not positive on a log axis, is left out.
        low: `[n]` lower ends of intervals, or None.
        high: `[n]` upper ends, or None.
        band: draw the intervals as a band instead of bars.
        line: matplotlib's line style; "" for points alone.
        marker: matplotlib's marker; "" for a line alone.
        size: of the marker, points.
    """

    label: str
    color: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    band: bool = False
    line: str = "-"
    marker: str = "o"
    size: float = 3.2


@dataclasses.dataclass(frozen=True)
class Chart:
    """One set of axes for any two quantities.

    Attributes:
        title: above the axes.
        x_label: horizontal axis, with its unit.
        y_label: vertical axis, with its unit.
        series: drawn in this order.
        log: (horizontal, vertical) axis logarithmic.
        limits: ends of the vertical axis, or None to fit the data.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log: tuple[bool, bool] = (True, True)
    limits: tuple[float, float] | None = None


def chart_figure(rows: Sequence[Sequence[Chart]], *, title: str = "", note: str = "") -> Figure:
    """A grid of charts, equally many in each row, curves labelled at their ends.

    Raises:
        ValueError: no charts, or rows of different lengths.
    """
    with styled():
        labels = [[[series.label for series in c.series if series.label] for c in charts] for charts in rows]
        figure, axes = axes_grid(labels, "charts", title, note)
        for line, charts in zip(axes, rows, strict=True):
            for ax, chart in zip(line, charts, strict=True):
                _draw_chart(ax, chart)
    return figure


def _draw_chart(ax: Axes, chart: Chart) -> None:
    """Axes, curves, intervals and labels of one chart."""
    ax.set(**{f"{which}scale": "log" if log else "linear" for which, log in zip("xy", chart.log, strict=True)})
    ends: list[tuple[float, str, str, bool]] = []
    for series in chart.series:
        x, y = np.asarray(series.x, dtype=np.float64), np.asarray(series.y, dtype=np.float64)
        shown = np.isfinite(x) & np.isfinite(y)
        for values, log in zip((x, y), chart.log, strict=True):
            shown &= (values > 0) if log else True
        if not shown.any():
            continue
        x, y = x[shown], y[shown]
        style: Any = {"linestyle": series.line or "none", "linewidth": 1.3, "markersize": series.size}
        ax.plot(x, y, color=series.color, marker=series.marker, **style)
        if series.low is not None and series.high is not None:
            low, high = (np.asarray(v, dtype=np.float64)[shown] for v in (series.low, series.high))
            if chart.log[1]:
                low = np.where(low > 0, low, 0.02 * y)  # an interval that reaches 0 leaves the axis
            if series.band:
                ax.fill_between(x, low, high, color=series.color, alpha=0.16, linewidth=0)
            else:
                whiskers = np.maximum(np.nan_to_num(np.stack([y - low, high - y])), 0)
                ax.errorbar(x, y, yerr=whiskers, fmt="none", ecolor=series.color, elinewidth=0.9, capsize=1.8)
        if series.label:
            ends.append((float(y[-1]), series.label, series.color, False))
    ax.margins(x=0.04)
    if chart.limits is not None:
        ax.set_ylim(*chart.limits)
    ax.set(xlabel=chart.x_label, ylabel=chart.y_label)
    ax.set_title(chart.title, loc="left", pad=5, parse_math=False)
    label_ends(ax, ends)


def tuning_figure(curves: Iterable[TuningCurve], *, title: str = "", note: str = "") -> Figure:
    """Final regret on tuning replications against `radius_scale`, one chart for each bandit.

    The criterion is drawn; a mean has its 95% interval, clipped at 0. A diamond marks the chosen scale, which is named
    at the curve's end, with "edge" where it is an end of the grid.

    Raises:
        ValueError: no curves.
    """
    curves = list(curves)
    colors = policy_colors(curve.policy.split()[0] for curve in curves)
    bandits = dict.fromkeys(curve.bandit for curve in curves)
    criteria = {c.criterion if isinstance(c.criterion, str) else f"{c.criterion:g}-quantile" for c in curves}
    judged = " and ".join(sorted(criteria))
    row = [_tuning_chart([c for c in curves if c.bandit == bandit], f"{judged} regret", colors) for bandit in bandits]
    return chart_figure([row], title=title, note=note)


def _tuning_chart(curves: Sequence[TuningCurve], y_label: str, colors: Mapping[str, str]) -> Chart:
    """The curves of one bandit."""
    series: list[Series] = []
    drawn: list[FloatArray] = []
    for curve in curves:
        order = np.argsort(curve.grid)
        scales, values = np.asarray(curve.grid)[order], curve.values[order]
        drawn.append(values)
        low = high = None
        if curve.criterion == "mean":
            low, high = (np.array([getattr(s, end) for s in curve.summaries])[order] for end in ("low", "high"))
            low = np.maximum(low, 0)
            drawn.append(high)
        label = policy_label(curve.policy, curve.chosen) + (" (edge)" if curve.at_edge else "")
        color, chosen = colors[curve.policy.split()[0]], scales == curve.chosen
        sign = policy_sign(curve.policy.split()[0])
        series.append(Series(label, color, scales, values, low, high, band=True, marker=sign, size=4.0))
        series.append(Series("", color, scales[chosen], values[chosen], line="", marker="D", size=6.5))
    bottom, top = robust_limits(drawn, [summary.median for curve in curves for summary in curve.summaries])
    limits = None
    if any(np.any(values > top) for values in drawn):  # few seeds draw a mean far up
        limits = (bottom, 1.05 * top)
        y_label += "\n(some lie above the axis)"
    title = f"{curves[-1].bandit}, T={curves[-1].horizon:,}"
    return Chart(title, "radius_scale", y_label, series, (True, False), limits)


def tail_figure(fit: LogFit, *, title: str = "", note: str = "") -> Figure:
    """The tail of a log's residuals: its index against the number of order statistics, and the share beyond a size.

    Left the three estimates with their intervals as bands and the index that 1 + epsilon must stay below; right
    P(|residual| > x) beside the Pareto tail of Hill's index.
    """
    colors = dict(zip(fit.tails, OWN_COLORS, strict=False))
    indices = [
        Series(curve.method, colors[name], curve.counts, np.minimum(curve.alpha, _LIGHTEST),
               np.minimum(curve.low, _LIGHTEST), np.minimum(curve.high, _LIGHTEST), band=True, marker="")
        for name, curve in fit.tails.items()
    ]  # fmt: skip
    ends = [min(curve.counts[0] for curve in fit.tails.values()), max(c.counts[-1] for c in fit.tails.values())]
    order = [1.0 + fit.epsilon] * 2
    indices.append(Series(f"1+ε = {order[0]:.3g}", REFERENCE_COLOR, ends, order, line="--", marker=""))
    sizes = np.sort(np.abs(fit.residuals))[::-1]
    index = fit.tails["hill"].usual
    kept = np.unique(np.geomspace(1, sizes.size, 400).astype(np.int64)) - 1  # as many as one sees
    kept = kept[sizes[kept] > 0][::-1]
    at, share = sizes[kept], (kept + 1) / sizes.size
    tail = sizes[index.k] * np.geomspace(1, sizes[0] / sizes[index.k], 20)
    fitted = index.k / sizes.size * (tail / tail[0]) ** -index.alpha
    beyond = [
        Series("", "#333333", at, share, line="", size=2.4),
        Series(f"index {index.alpha:.2f}", colors["hill"], tail, fitted, marker=""),
    ]
    charts = [
        Chart("tail index", "order statistics k", "tail index α", indices, (True, False), (0.0, _LIGHTEST)),
        Chart("share beyond", "|residual|", "P(|residual| > x)", beyond, (True, True)),
    ]
    return chart_figure([charts], title=title, note=note)


def growth_figure(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]], *, theory: Mapping[str, float] | None = None, title: str = ""
) -> Figure:
    """Regret against the horizon on log axes: the fitted slope beside the theory's, both in the label.

    `series` are (horizons `[H]`, mean regrets `[H]`) and `theory` the exponents that bounds promise, drawn dashed
    through the last point, by the policies' names.

    Raises:
        ValueError: as in `regret.fitted_exponent`.
    """
    with styled():
        figure = StyledFigure(4.9, 3.1)
        ax = figure.subplots(gridspec_kw={"left": 0.19, "right": 0.68, "top": 0.9, "bottom": 0.15})
        ax.set(xscale="log", yscale="log", xlabel="horizon (pulls)", ylabel="mean pseudo-regret")
        ends: list[tuple[float, str, str, bool]] = []
        for policy, (horizons, regrets) in series.items():
            t, r = np.asarray(horizons, dtype=np.float64), np.asarray(regrets, dtype=np.float64)
            slope, color = fitted_exponent(t, r), policy_colors([policy])[policy]
            middle = np.exp(np.log(r).mean() - slope * np.log(t).mean())
            ax.plot(t, r, policy_sign(policy), color=color, markersize=4)
            ax.plot(t, middle * t**slope, "-", color=color, linewidth=1.4, gid="fit")
            how = "fitted" if np.unique(t).size > 2 else "through 2 points"
            label = f"{policy_label(policy)}\n{how} {slope:.3f}"
            if theory is not None and policy in theory:
                ax.plot(t, r[-1] * (t / t[-1]) ** theory[policy], "--", color=color, linewidth=0.9, gid="theory")
                label += f", theory {theory[policy]:.3f}"
            ends.append((float(r[np.argmax(t)]), label, color, True))
        ax.set_title(title, loc="left", parse_math=False)
        label_ends(ax, ends, lines=2)
    return figure


def ratio_map(
    ratio: ArrayLike,
    above: ArrayLike,
    below: ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    halves: tuple[str, str],
    title: str = "",
    note: str = "",
) -> Figure:
    """A map of coloured cells with two numbers each, `above` and `below`, in two halves side by side.

    The `ratio` decides the colour: blue below 0, red above it, full at 1 and -1; NaN is an empty cell. All three are
    `[R, C]`. The names of the left half's columns come first; both halves, whose headings are `halves`, have equally
    many.
    """
    shades, numbers = np.asarray(ratio, np.float64), (np.asarray(above), np.asarray(below))
    half = len(columns) // 2
    with styled():
        lines = [""] * (2 * len(rows))  # of numbers, which an axis must be high enough for
        figure, axes = axes_grid([[lines, lines]], "maps", title, note, panel=_CELL_WIDTH * half)
        for which, (ax, heading) in enumerate(zip(axes[0], halves, strict=True)):
            part = slice(which * half, (which + 1) * half)
            ax.pcolormesh(shades[:, part], cmap="RdBu_r", vmin=-1.6, vmax=1.6, edgecolors="white", linewidth=0.8)
            for row, column in zip(*np.nonzero(np.isfinite(shades[:, part])), strict=True):
                dark = abs(shades[row, part][column]) > _DARK
                for values, place in zip(numbers, (0.3, 0.72), strict=True):
                    text = _share_text(float(values[row, part][column]))
                    style: Any = {"fontsize": 6.5, "color": "white" if dark else "black", "parse_math": False}
                    ax.text(column + 0.5, row + place, text, ha="center", va="center", **style)
            ax.set(xlim=(0, half), ylim=(len(rows), 0))
            places = np.arange(half) + 0.5
            ax.set_xticks(places, [name.replace(" ", "\n") for name in columns[part]], fontsize=7.5, parse_math=False)
            ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7.2, parse_math=False)
            ax.tick_params(length=0)
            ax.grid(visible=False)
            ax.set_title(heading, loc="left", pad=5, parse_math=False)
    return figure


def _share_text(value: float) -> str:
    """A percentage in two digits or three."""
    return "0" if value < 0.05 else f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
