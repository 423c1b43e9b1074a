"""Figures of curves and their summaries over seeds, on the Agg canvas, in one style that no user setting changes."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from linbet_jax.figures.canvas import (
    LABEL_SIZE,
    STYLE,
    FloatArray,
    OneUnit,
    StyledFigure,
    axes_grid,
    axes_points,
    axis_share,
    label_ends,
    label_room,
    log_floor,
    robust_limits,
    save_figure,
    spread_apart,
    styled,
)
from linbet_jax.policies import entry, names
from linbet_jax.policies.labels import policy_label
from linbet_jax.simulation.results import result_labels
from linbet_jax.statistics.regret import Summary, fitted_exponent, summarize

if TYPE_CHECKING:
    from linbet_jax.statistics.logs import LogFit
    from linbet_jax.statistics.tuning import TuningCurve

__all__ = [
    "COLORS",
    "STYLE",
    "Chart",
    "Curve",
    "OneUnit",
    "Panel",
    "Series",
    "axes_points",
    "axis_share",
    "chart_figure",
    "curves",
    "final",
    "growth_figure",
    "log_floor",
    "panel_figure",
    "policy_colors",
    "policy_label",
    "policy_sign",
    "ratio_map",
    "robust_limits",
    "save_figure",
    "spread_apart",
    "styled",
    "tail_figure",
    "tuning_figure",
]


# The package's policies have Okabe and Ito's palette, told apart with every common colour blindness.
COLORS: Mapping[str, str] = {name: color for name in names() if (color := entry(name).color) is not None}
# For policies of users' own: no hue of the above, at least 3:1 against the white and the dark page alike.
OWN_COLORS = ("#7B61C4", "#8F6B2E", "#2F8F8F", "#B8486A", "#6B7F1F", "#A05195")
# Told apart without colour too: a sign per policy, in the order of the registry. Of users' own its name decides. A
# diamond is none: it marks means and chosen scales.
_SIGNS = ("o", "s", "^", "v", "P", "<", ">", "X", "p", "h", "*", "x", "8", "d", "+", "1", "2", "3", "4", "H", "|", "_")
_SIGN_SIZE = 3.4  # points
REFERENCE_COLOR = "#9A9A9A"
_BARS = 6  # error bars per curve
_SAME = 0.01  # of the axis: curves that stay closer than this everywhere would hide each other
_DASH = 5.0  # points
_LIGHTEST = 8.0  # the largest tail index drawn
_CELL_WIDTH = 0.47  # inches, of a map
_DARK = 1.0  # of a map's colours: what is written on them is white
_HUGE = 1e280  # beyond it matplotlib's margins and ticks of a log axis may overflow
_ILL = " (no healthy seed)"  # behind the name of a curve that there is none of


class _Weight(NamedTuple):
    """How strongly a curve is drawn: its place above others, widths in points, and the opacity of its band."""

    order: int
    line: float
    band: float
    bar: float
    cap: float
    cap_line: float


_WEIGHTS = {False: _Weight(0, 0.9, 0.13, 0.7, 1.6, 0.6), True: _Weight(1, 2.0, 0.22, 1.1, 2.2, 0.9)}


def policy_colors(policies: Iterable[str]) -> dict[str, str]:
    """Every policy's colour: the fixed one, or for a policy of the user's own one that its name decides.

    Two names that would get one colour take the next free one, in alphabetical order; the palette starts over when it
    is used up.
    """
    colors: dict[str, str] = {}
    for policy in sorted(set(policies)):
        color = entry(policy).color if policy in names() else None
        if color is None:
            start = zlib.crc32(policy.encode()) % len(OWN_COLORS)
            turn = OWN_COLORS[start:] + OWN_COLORS[:start]
            color = next((color for color in turn if color not in colors.values()), turn[0])
        colors[policy] = color
    return colors


def policy_sign(policy: str) -> str:
    """Every policy's sign on its curves (a marker of matplotlib's): they differ where colours cannot be seen."""
    known = names()
    place = known.index(policy) if policy in known else zlib.crc32(policy.encode())
    return _SIGNS[place % len(_SIGNS)]


@dataclasses.dataclass(frozen=True)
class Curve:
    """One policy's curve in one panel.

    Attributes:
        policy: registry name; it fixes the colour.
        radius_scale: named in the label unless it is 1.
        rounds: `[R]` pulls.
        summary: over seeds, `[R]` per seed.
        bold: one of the policies the panel is about.
        name: what stands at the end of the curve; by default the policy's label with the scale.
        tint: a colour of its own; by default the policy's.
        sign: a marker of its own; by default the policy's.
    """

    policy: str
    radius_scale: float
    rounds: NDArray[np.int64]
    summary: Summary
    bold: bool = False
    name: str = ""
    tint: str = ""
    sign: str = ""

    @property
    def label(self) -> str:
        """What stands at the end of the curve."""
        return self.name or policy_label(self.policy, self.radius_scale)

    @property
    def color(self) -> str:
        """The curve's own colour, or the policy's fixed one."""
        return self.tint or policy_colors([self.policy])[self.policy]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One set of axes: a title, curves, and an optional straight reference line through the origin.

    Attributes:
        title: above the axes.
        curves: drawn in this order, bold ones last.
        reference: slope per pull of a dashed line from (0, 0), e.g. the best arm's mean payoff.
        reference_label: its name.
    """

    title: str
    curves: Sequence[Curve]
    reference: float | None = None
    reference_label: str = ""


def panel_figure(
    rows: Sequence[tuple[str, Sequence[Panel]]],
    *,
    quantity: str,
    spread: str,
    log: bool = False,
    nonnegative: bool = False,
    title: str = "",
    note: str = "",
) -> Figure:
    """A grid of panels, one row per setting (e.g. literal and tuned radii), curves labelled at their ends.

    A curve that lies on another one, closer than 1% of the axis everywhere, is dashed so that both show. A mean or an
    interval that few seeds draw far away does not flatten the others: it leaves the axis, an arrow behind its name says
    so, and where a mean does a thin line is its median.

    Args:
        rows: (name of the row, its panels); all rows have equally many panels.
        quantity: the vertical axis, e.g. "cumulative payoff".
        spread: "sd" draws error bars of one standard deviation, "interval" a band of the mean's confidence
            interval; neither is drawn for a single seed, which has none.
        log: logarithmic axes; means that are not positive are left out and bands are clipped at the axis' end.
        nonnegative: the quantity cannot be negative, so bands and error bars end at 0.
        title: above everything; lines wider than the figure are wrapped, and the figure grows with them.
        note: small print below everything, wrapped likewise.

    Returns:
        The figure, on an Agg canvas of its own.

    Raises:
        ValueError: an unknown `spread`, no panels, or rows of different lengths.
    """
    if spread not in ("sd", "interval"):
        raise ValueError(f"spread must be 'sd' or 'interval', got {spread!r}")
    with styled():
        drawn = [curve for _, panels in rows for panel in panels for curve in panel.curves]
        room = label_room([curve.label + _ILL * bool(curve.name and curve.summary.n == 0) for curve in drawn])
        most = max((len(panel.curves) for _, panels in rows for panel in panels), default=0)
        figure, axes = axes_grid([len(panels) for _, panels in rows], "panels", title, note, room, most)
        for line, (name, panels) in zip(axes, rows, strict=True):
            for ax, panel in zip(line, panels, strict=True):
                _draw_panel(ax, panel, spread=spread, log=log, nonnegative=nonnegative)
                ax.set_title(panel.title, loc="left", pad=5, parse_math=False)
            line[0].set_ylabel(f"{name}\n{quantity}" if name else quantity)
        for ax in axes[-1]:
            ax.set_xlabel("pulls")
    return figure


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
    """A grid of charts, curves labelled at their ends.

    Args:
        rows: equally many charts each.
        title: above everything, wrapped like the note.
        note: small print below everything.

    Returns:
        The figure, on an Agg canvas of its own.

    Raises:
        ValueError: no charts, or rows of different lengths.
    """
    with styled():
        room = label_room([series.label for charts in rows for chart in charts for series in chart.series])
        most = max(
            (sum(bool(series.label) for series in chart.series) for charts in rows for chart in charts), default=0
        )
        figure, axes = axes_grid([len(charts) for charts in rows], "charts", title, note, room, most)
        for line, charts in zip(axes, rows, strict=True):
            for ax, chart in zip(line, charts, strict=True):
                _draw_chart(ax, chart)
    return figure


def tuning_figure(curves: Iterable[TuningCurve], *, title: str = "", note: str = "") -> Figure:
    """Final regret on tuning replications against `radius_scale`, one chart for each bandit.

    The criterion is drawn; a mean has its 95% interval, clipped at 0. A diamond marks the chosen scale, which is named
    at the curve's end, with "edge" where it is an end of the grid.

    Args:
        curves: of `tune`.
        title: above everything.
        note: small print below everything.

    Returns:
        The figure, on an Agg canvas of its own.

    Raises:
        ValueError: no curves.
    """
    curves = list(curves)
    colors = policy_colors(curve.policy.split()[0] for curve in curves)
    bandits = dict.fromkeys(curve.bandit for curve in curves)
    judged = " and ".join(sorted({_criterion(curve) for curve in curves}))
    row = [_tuning_chart([c for c in curves if c.bandit == bandit], f"{judged} regret", colors) for bandit in bandits]
    return chart_figure([row], title=title, note=note)


def _criterion(curve: TuningCurve) -> str:
    return curve.criterion if isinstance(curve.criterion, str) else f"{curve.criterion:g}-quantile"


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

    Args:
        fit: of `from_log`.
        title: above everything.
        note: small print below everything.

    Returns:
        The figure, on an Agg canvas of its own: left the three estimates with their intervals as bands and the index
        that 1 + epsilon must stay below; right P(|residual| > x) beside the Pareto tail of Hill's index.
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
    """A map of coloured cells with two numbers each, in two halves side by side.

    Args:
        ratio: `[R, C]` decides the colour: blue below 0, red above it, full at 1 and -1; NaN is an empty cell.
        above: `[R, C]` upper number.
        below: `[R, C]` lower number.
        rows: `[R]` names.
        columns: `[C]` names, those of the left half first; both halves have equally many.
        halves: their headings.
        title: above everything.
        note: small print below everything.

    Returns:
        The figure, on an Agg canvas of its own.
    """
    shades, numbers = np.asarray(ratio, np.float64), (np.asarray(above), np.asarray(below))
    half = len(columns) // 2
    with styled():
        figure, axes = axes_grid([2], "maps", title, note, names=2 * len(rows), panel=_CELL_WIDTH * half)
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


def curves(
    results: Any, *, quantity: str = "regret", spread: str = "interval", log: bool = False, title: str = ""
) -> Figure:
    """Mean curves of one or several simulations, with the 95% interval of each mean: one call, one figure.

    Args:
        results: what `simulate` returned; or a list of those, what `simulate_grid` returned for example; or a sweep,
            what `linbet_jax.load` returned, with a panel for each of its sets and horizons. Or a mapping: of labels to
            results, for labels of your own, or of titles to lists of results, for a panel each. Without a label of
            yours a curve has its policy's, with the parameters in which those of one policy differ.
        quantity: "regret" or "payoff", cumulative.
        spread: as in :func:`panel_figure`.
        log: logarithmic axes.
        title: above everything.

    Returns:
        The figure. A notebook shows it; :func:`save_figure` writes it.

    Raises:
        ValueError: anything else, or nothing to draw.
    """
    if quantity not in ("regret", "payoff"):
        raise ValueError(f"quantity={quantity!r}: must be 'regret' or 'payoff'")

    def curve(label: str, color: str, sign: str, result: Any) -> Curve:
        summary = summarize(getattr(result, quantity), result.health)
        name = _with_the_healthy(label, summary)
        return Curve(label, 1.0, result.rounds, summary, name=name, tint=color, sign=sign)

    panels = [Panel(name, [curve(*one) for one in shown]) for name, shown in _shown(results)]
    label, positive = f"cumulative {quantity}", quantity == "regret"
    return panel_figure([("", panels)], quantity=label, spread=spread, log=log, nonnegative=positive, title=title)


def final(results: Any, *, quantity: str = "regret", title: str = "") -> Figure:
    """The last record of one or several simulations: the mean with its 95% interval, and the median as a cross.

    Args:
        results: as in :func:`curves`.
        quantity: "regret" or "payoff", cumulative.
        title: above everything.

    Returns:
        The figure.

    Raises:
        ValueError: as in :func:`curves`.
    """
    if quantity not in ("regret", "payoff"):
        raise ValueError(f"quantity={quantity!r}: must be 'regret' or 'payoff'")
    panels = _shown(results)
    with styled():
        room = label_room([one.label + _ILL * bool(np.any(one.result.health)) for _, shown in panels for one in shown])
        most = max(len(shown) for _, shown in panels)
        figure, axes = axes_grid([len(panels)], "panels", title, "", room, most)
        for ax, (name, shown) in zip(axes[0], panels, strict=True):
            for place, (label, color, _, result) in enumerate(shown):
                summary = summarize(np.asarray(getattr(result, quantity))[:, -1], result.health)
                ends = np.array([[summary.mean - summary.low], [summary.high - summary.mean]])
                bars = ends if np.isfinite(ends).all() else None
                ax.errorbar(summary.mean, place, xerr=bars, fmt="o", color=color, capsize=2.5, markersize=4)
                ax.plot(summary.median, place, "x", color=color, markersize=5)
                beside = ax.get_yaxis_transform()
                told = _with_the_healthy(label, summary) + _ILL * (summary.n == 0)
                ax.text(
                    1.03, place, told, color=color, fontsize=LABEL_SIZE, va="center", transform=beside
                ).set_parse_math(False)
            ax.set_yticks(range(len(shown)), [])
            ax.set_ylim(len(shown) - 0.5, -0.5)
            ax.set_title(name, loc="left", pad=5, parse_math=False)
            pulls = {int(one.result.rounds[-1]) for one in shown}
            ax.set_xlabel(f"{quantity} after {pulls.pop()} pulls" if len(pulls) == 1 else f"final {quantity}")
    return figure


def _with_the_healthy(label: str, summary: Summary) -> str:
    """The label, with the number of the healthy seeds where others were left out."""
    return f"{label} ({summary.n} of {summary.seeds} seeds)" if summary.unhealthy and summary.n else label


class _Shown(NamedTuple):
    """One simulation of a figure."""

    label: str
    color: str
    sign: str
    result: Any


def _shown(results: Any) -> list[tuple[str, list[_Shown]]]:
    """The panels of a figure: a title each, and what is drawn in it."""
    if callable(getattr(results, "panels", None)):  # a sweep
        panels = results.panels()
    elif not isinstance(results, Mapping):
        panels = {"": _by_policy(results)}
    elif all(map(_is_result, results.values())):
        panels = {"": [(str(label), str(label), result) for label, result in results.items()]}
    else:
        panels = {str(title): _by_policy(listed) for title, listed in results.items()}
    if not any(panels.values()):
        raise ValueError("results: there is nothing to draw")
    return [(title, _told_apart(drawn)) for title, drawn in panels.items()]


def _told_apart(drawn: Sequence[tuple[str, str, Any]]) -> list[_Shown]:
    """(label, policy, result) with a label and a colour for each alone; the first of a policy has the policy's."""
    labels: list[str] = []
    owners: list[str] = []  # of the colours
    for label, policy, _ in drawn:
        alike = sum(other == label or other.startswith(f"{label} (") for other in labels)
        labels.append(f"{label} ({alike + 1})" if alike else label)
        owners.append(policy if policy not in owners else labels[-1])
    colors = policy_colors(owners)
    return [
        _Shown(label, colors[owner], policy_sign(owner), result)
        for label, owner, (_, _, result) in zip(labels, owners, drawn, strict=True)
    ]


def _is_result(value: Any) -> bool:
    return all(hasattr(value, field) for field in ("name", "params", "rounds", "regret", "payoff", "health"))


def _by_policy(results: Any) -> list[tuple[str, str, Any]]:
    """Results with their policies' names and scales, and with the parameters in which those of one name differ."""
    listed = list(results) if isinstance(results, (list, tuple)) else [results]
    for result in listed:
        if not _is_result(result):
            raise ValueError(
                f"results: {type(result).__name__} is no result: give what simulate, simulate_grid or load returned, a"
                " list of results, or a mapping of labels or titles to them"
            )
    return [(label, result.name, result) for label, result in zip(result_labels(listed), listed, strict=True)]


def growth_figure(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]], *, theory: Mapping[str, float] | None = None, title: str = ""
) -> Figure:
    """Regret against the horizon on log axes: the fitted slope beside the theory's.

    Args:
        series: policy name to (horizons `[H]`, mean regrets `[H]`).
        theory: policy name to the exponent its bound promises, drawn dashed through the last point.
        title: above the axes.

    Returns:
        The figure; each label carries both exponents.

    Raises:
        ValueError: as in `regret.fitted_exponent`.
    """
    with styled():
        figure = StyledFigure(4.6, 3.1)
        ax = figure.subplots(gridspec_kw={"left": 0.14, "right": 0.66, "top": 0.9, "bottom": 0.15})
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


def _draw_panel(ax: Axes, panel: Panel, *, spread: str, log: bool, nonnegative: bool) -> None:
    """Curves, spread, axes' ends and labels of one panel."""
    curves = sorted(panel.curves, key=lambda c: c.bold)
    spans = [_span(curve, spread, nonnegative or log) for curve in curves]
    typical: list[ArrayLike] = [v for c in curves for v in (c.summary.median, c.summary.trimmed_mean)]
    typical += [] if panel.reference is None else [panel.reference * c.rounds for c in curves]
    held = robust_limits([values for span in spans for values in span], typical, log=log)
    # Below the smallest positive mean, or median of a mean that is outside.
    heights = [c.summary.median if np.any(c.summary.mean > held[1]) else c.summary.mean for c in curves]
    floor = log_floor(heights) if log else 0.0 if nonnegative else -math.inf
    styles = _line_styles(curves, floor, log)
    if log:
        _log_axes(ax, held[1])
    ends = []
    beyond = False  # whether something lies outside the axis
    for place, (curve, (low, mean, high)) in enumerate(zip(curves, spans, strict=True)):
        arrow = _arrow(mean, mean, held, log) or _arrow(low, high, held, log)
        ends.append(_end(curve, floor, arrow, log))
        beyond |= bool(arrow)
        color, rounds, weight = curve.color, curve.rounds, _WEIGHTS[curve.bold]
        outside = (mean > held[1]) | ((mean < held[0]) & (not log))
        if outside.any():
            ax.plot(rounds, curve.summary.median, color=color, linewidth=0.6, gid="median")
        shown = np.isfinite(mean) & ((mean > 0) & (rounds > 0) if log else True)
        if shown.any():
            style: Any = {"linewidth": weight.line, "linestyle": styles[place], "solid_capstyle": "round"}
            if len(curves) > 1:
                style |= {
                    "marker": curve.sign or policy_sign(curve.policy),
                    "markersize": _SIGN_SIZE,
                    "markeredgewidth": 0,
                }
                style["markevery"] = (0.1 + 0.2 * place / len(curves), 0.24)  # of the axes' diagonal, along the curve
            ax.plot(rounds[shown], mean[shown], color=color, zorder=3 + weight.order, **style)
        shown &= ~outside  # the spread of a mean that is outside would cover everything
        if not shown.any() or not curve.summary.has_band:
            continue
        if spread == "interval":
            below, above = np.maximum(low[shown], floor), np.maximum(high[shown], floor)
            style = {"alpha": weight.band, "linewidth": 0, "zorder": 1 + weight.order}
            ax.fill_between(rounds[shown], below, above, color=color, **style)
        else:
            at = _bar_places(rounds.astype(np.float64), shown, place, len(curves), log)
            sd = curve.summary.sd[at]
            whiskers = np.stack([np.minimum(sd, np.maximum(mean[at] - floor, 0)), sd])
            style = {"elinewidth": weight.bar, "capsize": weight.cap, "capthick": weight.cap_line}
            ax.errorbar(rounds[at], mean[at], whiskers, fmt="none", ecolor=color, zorder=2.5 + weight.order, **style)
    if panel.reference is not None and curves:
        pulls = curves[0].rounds.astype(np.float64)
        pulls = pulls[pulls > 0] if log else np.concatenate([[0.0], pulls])
        ax.plot(pulls, panel.reference * pulls, "--", color=REFERENCE_COLOR, linewidth=0.8, zorder=2)
        ends.append((panel.reference * pulls[-1], panel.reference_label, "#6E6E6E", False))
    _end_axes(ax, curves, floor, held if beyond else None, log)
    label_ends(ax, ends)


def _log_axes(ax: Axes, highest: float) -> None:
    """Logarithmic axes, for numbers near the end of floats too."""
    ax.set(xscale="log", yscale="log")
    if highest > _HUGE:
        ax.margins(y=0)
        ax.yaxis.set_major_locator(FixedLocator((10.0 ** np.arange(-300, 301, 50)).tolist()))
        ax.yaxis.set_minor_locator(NullLocator())


def _span(curve: Curve, spread: str, nonnegative: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lower end, mean and upper end of what is drawn of a curve; lower ends are not drawn below 0 where none can be."""
    mean, half = curve.summary.mean, curve.summary.sd
    low, high = (mean - half, mean + half) if spread == "sd" else (curve.summary.low, curve.summary.high)
    return np.fmin(np.maximum(low, 0.0) if nonnegative else low, mean), mean, np.fmax(high, mean)


def _arrow(low: FloatArray, high: FloatArray, held: tuple[float, float], log: bool) -> str:
    """Where numbers lie that the axis does not hold; empty when it holds them all."""
    away = bool(np.any(low < held[0])) and not log, bool(np.any(high > held[1]))
    return {(True, False): " ↓", (False, True): " ↑", (True, True): " ↕", (False, False): ""}[away]


def _end(curve: Curve, floor: float, arrow: str, log: bool) -> tuple[float, str, str, bool]:
    """Where a curve's name stands, the name with what cannot be seen, its colour, and whether it is bold."""
    last, label = float(curve.summary.mean[-1]), curve.label
    if math.isnan(last):
        last, label = floor if log else 0.0, label + _ILL
    elif log and last <= 0:  # nothing to draw on a log axis: say why at its lower end
        label += " (<0)" if last < 0 else " (0)"
    return max(last, floor), label + arrow, curve.color, curve.bold


def _end_axes(ax: Axes, curves: Sequence[Curve], floor: float, held: tuple[float, float] | None, log: bool) -> None:
    """Ends of both axes; `held` is what the vertical one must hold when something lies outside it."""
    if log and curves:
        ax.set_xlim(min(float(c.rounds[c.rounds > 0][0]) for c in curves), max(float(c.rounds[-1]) for c in curves))
        ax.set_ylim(floor, None if held is None else 1.2 * held[1])
    if log:
        return
    ax.set_xlim(0, max((float(c.rounds[-1]) for c in curves), default=1.0))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(OneUnit())
    if held is not None:
        margin = 0.05 * (held[1] - held[0])
        ax.set_ylim(held[0] - margin, held[1] + margin)
    elif 0 <= ax.dataLim.y0 <= ax.dataLim.y1 < math.inf:
        # Nothing negative is drawn: the axis begins just below 0, where a curve at 0 still shows.
        top = ax.dataLim.y1 or 1.0
        ax.set_ylim(-0.02 * top, 1.05 * top)


def _line_styles(curves: Sequence[Curve], floor: float, log: bool) -> list[Any]:
    """Solid lines, but dashes for curves that lie on an earlier one.

    Of n curves in one place the first is solid and the others take turns, each covering one n-th of it.
    """
    means = [np.where(c.summary.mean > 0, c.summary.mean, np.nan) if log else c.summary.mean for c in curves]
    heights = [np.log(mean) if log else mean for mean in means]
    finite = np.concatenate([np.zeros(0), *(h[np.isfinite(h)] for h in heights)])
    near = _SAME * (float(finite.max()) - (math.log(floor) if log else float(finite.min()))) if finite.size else 0.0
    groups: list[list[int]] = []

    def together(first: int, second: int) -> bool:
        if not np.array_equal(curves[first].rounds, curves[second].rounds):
            return False
        apart = np.abs(heights[first] - heights[second])
        return bool(np.isfinite(apart).any() and np.nanmax(apart) <= near)

    for place, height in enumerate(heights):
        if np.isfinite(height).any():
            group = next((group for group in groups if together(group[0], place)), None)
            if group is None:
                groups.append([place])
            else:
                group.append(place)
    styles: list[Any] = ["-"] * len(curves)
    for group in groups:
        for turn, place in enumerate(group[1:]):
            # The offset is where in the pattern the line begins: `turn` dashes before this one's own.
            dash = _DASH / _WEIGHTS[curves[place].bold].line  # matplotlib multiplies by the line's width
            styles[place] = -turn * dash % (len(group) * dash), (dash, (len(group) - 1) * dash)
    return styles


def _bar_places(rounds: FloatArray, shown: NDArray[np.bool_], place: int, count: int, log: bool) -> NDArray[np.int64]:
    """Records that carry an error bar: evenly spaced along the axis, each curve a little aside of the others."""
    start = float(rounds[shown][0]) if log else 0.0
    share = (np.arange(_BARS) + 0.35 + 0.6 * place / max(count, 1)) / _BARS
    wanted = start * (rounds[-1] / start) ** share if log else share * rounds[-1]
    candidates = np.flatnonzero(shown)
    nearest = np.abs(rounds[candidates][None, :] - wanted[:, None]).argmin(axis=1)
    return np.unique(candidates[nearest])
