"""Curves over pulls with their spread, a panel for each set, all labelled at their ends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import ArrayLike, NDArray

from linbet_jax.figures.canvas import FloatArray, OneUnit, axes_grid, label_ends, log_floor, robust_limits, styled
from linbet_jax.figures.colors import REFERENCE_COLOR, policy_colors, policy_sign
from linbet_jax.policies.registry import policy_label
from linbet_jax.statistics.regret import Summary

ILL = " (no healthy seed)"  # behind the name of a curve that there is none of
_SIGN_SIZE = 3.4  # points
_BARS = 6  # error bars per curve
_SAME = 0.01  # of the axis: curves that stay closer than this everywhere would hide each other
_DASH = 5.0  # points
_HUGE = 1e280  # beyond it matplotlib's margins and ticks of a log axis may overflow

_LINE = {False: 0.9, True: 2.0}  # width of a curve, and of a bold one
_BAND = {False: 0.13, True: 0.22}  # opacity
_BAR = {
    False: {"elinewidth": 0.7, "capsize": 1.6, "capthick": 0.6},
    True: {"elinewidth": 1.1, "capsize": 2.2, "capthick": 0.9},
}


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
        labels = [
            [[c.label + ILL * bool(c.name and c.summary.n == 0) for c in panel.curves] for panel in panels]
            for _, panels in rows
        ]
        figure, axes = axes_grid(labels, "panels", title, note)
        for line, (name, panels) in zip(axes, rows, strict=True):
            for ax, panel in zip(line, panels, strict=True):
                _draw_panel(ax, panel, spread=spread, log=log, nonnegative=nonnegative)
                ax.set_title(panel.title, loc="left", pad=5, parse_math=False)
            line[0].set_ylabel(f"{name}\n{quantity}" if name else quantity)
        for ax in axes[-1]:
            ax.set_xlabel("pulls")
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
        color, rounds, bold = curve.color, curve.rounds, curve.bold
        outside = (mean > held[1]) | ((mean < held[0]) & (not log))
        if outside.any():
            ax.plot(rounds, curve.summary.median, color=color, linewidth=0.6, gid="median")
        shown = np.isfinite(mean) & ((mean > 0) & (rounds > 0) if log else True)
        if shown.any():
            style: Any = {"linewidth": _LINE[bold], "linestyle": styles[place], "solid_capstyle": "round"}
            if len(curves) > 1:
                sign = curve.sign or policy_sign(curve.policy)
                style |= {"marker": sign, "markersize": _SIGN_SIZE, "markeredgewidth": 0}
                style["markevery"] = (0.1 + 0.2 * place / len(curves), 0.24)  # of the axes' diagonal, along the curve
            ax.plot(rounds[shown], mean[shown], color=color, zorder=3 + bold, **style)
        shown &= ~outside  # the spread of a mean that is outside would cover everything
        if not shown.any() or not curve.summary.has_band:
            continue
        if spread == "interval":
            below, above = np.maximum(low[shown], floor), np.maximum(high[shown], floor)
            style = {"alpha": _BAND[bold], "linewidth": 0, "zorder": 1 + bold}
            ax.fill_between(rounds[shown], below, above, color=color, **style)
        else:
            at = _bar_places(rounds.astype(np.float64), shown, place, len(curves), log)
            sd = curve.summary.sd[at]
            whiskers = np.stack([np.minimum(sd, np.maximum(mean[at] - floor, 0)), sd])
            style = {**_BAR[bold], "zorder": 2.5 + bold}
            ax.errorbar(rounds[at], mean[at], whiskers, fmt="none", ecolor=color, **style)
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
        last, label = floor if log else 0.0, label + ILL
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
            dash = _DASH / _LINE[curves[place].bold]  # matplotlib multiplies by the line's width
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
