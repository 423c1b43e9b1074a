"""Figures of curves with their summaries over seeds, on the Agg canvas, in a style whatever the user's settings say."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import Formatter
from numpy.typing import ArrayLike, NDArray

from linbet_jax.policies import entry, names
from linbet_jax.policies.labels import policy_label
from linbet_jax.statistics.regret import Summary, fitted_exponent
from linbet_jax.storage.results import replacing

if TYPE_CHECKING:
    from linbet_jax.statistics.tuning import TuningCurve

__all__ = [
    "COLORS",
    "STYLE",
    "Chart",
    "Curve",
    "OneUnit",
    "Panel",
    "Series",
    "axis_share",
    "chart_figure",
    "growth_figure",
    "log_floor",
    "panel_figure",
    "policy_colors",
    "policy_label",
    "robust_limits",
    "save_figure",
    "spread_apart",
    "styled",
    "tuning_figure",
]

FloatArray = NDArray[np.float64]

# The package's policies have Okabe and Ito's palette, told apart with every common colour blindness.
COLORS: Mapping[str, str] = {name: color for name in names() if (color := entry(name).color) is not None}
# For policies of users' own: no hue of the above, at least 3:1 against the white and the dark page alike.
OWN_COLORS = ("#7B61C4", "#8F6B2E", "#2F8F8F", "#B8486A", "#6B7F1F", "#A05195")
REFERENCE_COLOR = "#9A9A9A"
STYLE: Mapping[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "pdf.fonttype": 42,
    "svg.hashsalt": "linbet_jax",
    "figure.dpi": 100,
    "savefig.dpi": 220,
}
# What tells the time of writing, by format: left out.
_DATES: Mapping[str, tuple[str, ...]] = {"pdf": ("CreationDate",), "png": (), "svg": ("Date",)}
_BARS = 6  # error bars per curve
_FLOOR = 0.4  # a log axis ends at this fraction of the smallest mean drawn
_SAME = 0.01  # of the axis: curves that stay closer than this everywhere would hide each other
_DASH = 5.0  # points
_LABEL_SIZE = 9.2  # points, of the names at the curves' ends
# Inches: a panel, the space between panels, and what the outermost panels leave for labels.
_PANEL_WIDTH, _PANEL_HEIGHT = 2.1, 1.82
_BETWEEN_COLUMNS, _BETWEEN_ROWS = 1.5, 0.73
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.95, 1.02, 0.35, 0.48
_EDGE = 0.15  # title and note stay this far from the figure's sides


def policy_colors(policies: Iterable[str]) -> dict[str, str]:
    """Every policy's colour: the fixed one, or for a policy of the user's own one that its name decides.

    Two names that would get one colour take the next free one, in alphabetical order; the palette starts over when it
    is used up.
    """
    found: dict[str, str] = {}
    for policy in sorted(set(policies)):
        color = entry(policy).color if policy in names() else None
        if color is not None:
            found[policy] = color
            continue
        start = zlib.crc32(policy.encode()) % len(OWN_COLORS)
        turn = OWN_COLORS[start:] + OWN_COLORS[:start]
        found[policy] = next((color for color in turn if color not in found.values()), turn[0])
    return found


@dataclasses.dataclass(frozen=True)
class Curve:
    """One policy's curve in one panel.

    Attributes:
        policy: registry name; it fixes the colour.
        radius_scale: named in the label unless it is 1.
        rounds: `[R]` pulls.
        summary: over seeds, `[R]` per seed.
        bold: one of the policies the panel is about.
    """

    policy: str
    radius_scale: float
    rounds: NDArray[np.int64]
    summary: Summary
    bold: bool = False

    @property
    def label(self) -> str:
        """What stands at the end of the curve."""
        return policy_label(self.policy, self.radius_scale)

    @property
    def color(self) -> str:
        """The policy's fixed colour."""
        return policy_colors([self.policy])[self.policy]


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
    widths = {len(panels) for _, panels in rows}
    if len(widths) != 1 or 0 in widths:
        raise ValueError(f"rows must hold equally many panels, one at least, got {[len(p) for _, p in rows]}")
    columns = widths.pop()
    with styled():
        figure, axes = _grid(len(rows), columns, title, note)
        for line, (name, panels) in zip(axes, rows, strict=True):
            for ax, panel in zip(line, panels, strict=True):
                _draw_panel(ax, panel, spread=spread, log=log, nonnegative=nonnegative)
                ax.set_title(panel.title, loc="left", pad=5)
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
    widths = {len(charts) for charts in rows}
    if len(widths) != 1 or 0 in widths:
        raise ValueError(f"rows must hold equally many charts, one at least, got {[len(r) for r in rows]}")
    with styled():
        room = _label_room([series.label for charts in rows for chart in charts for series in chart.series])
        figure, axes = _grid(len(rows), widths.pop(), title, note, room)
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
    charts: dict[str, list[Series]] = {}
    drawn: dict[str, list[FloatArray]] = {}
    typical: dict[str, list[FloatArray]] = {}
    horizons: dict[str, int] = {}
    judged: set[str] = set()
    colors = policy_colors(curve.policy.split()[0] for curve in curves)
    for curve in curves:
        name = curve.criterion if isinstance(curve.criterion, str) else f"{curve.criterion:g}-quantile"
        judged.add(name)
        horizons[curve.bandit] = curve.horizon
        color = colors[curve.policy.split()[0]]
        order = np.argsort(curve.grid)
        scales, values = np.asarray(curve.grid)[order], curve.values[order]
        ends = [np.array([getattr(curve.summaries[i], end) for i in order]) for end in ("low", "high")]
        low, high = (np.maximum(ends[0], 0), ends[1]) if name == "mean" else (None, None)
        drawn.setdefault(curve.bandit, []).extend([values] if high is None else [values, high])
        typical.setdefault(curve.bandit, []).extend(summary.median for summary in curve.summaries)
        label = policy_label(curve.policy, curve.chosen) + (" (edge)" if curve.at_edge else "")
        chosen = scales == curve.chosen
        charts.setdefault(curve.bandit, []).extend(
            [
                Series(label, color, scales, values, low, high, band=True, marker="."),
                Series("", color, scales[chosen], values[chosen], line="", marker="D"),
            ]
        )
    row = []
    for bandit, series in charts.items():
        y_label = f"{' and '.join(sorted(judged))} regret"
        bottom, top = robust_limits(drawn[bandit], typical[bandit])
        outside = any(np.any(values > top) for values in drawn[bandit])
        if outside:  # few seeds draw a mean far up
            y_label += "\n(some lie above the axis)"
        limits = (bottom, 1.05 * top) if outside else None
        row.append(Chart(f"{bandit}, T={horizons[bandit]:,}", "radius_scale", y_label, series, (True, False), limits))
    return chart_figure([row], title=title, note=note)


def _draw_chart(ax: Axes, chart: Chart) -> None:
    """Axes, curves, intervals and labels of one chart."""
    for axis, log in zip((ax.set_xscale, ax.set_yscale), chart.log, strict=True):
        axis("log" if log else "linear")
    ends: list[tuple[float, str, str, bool]] = []
    for series in chart.series:
        x, y = np.asarray(series.x, dtype=np.float64), np.asarray(series.y, dtype=np.float64)
        shown = np.isfinite(x) & np.isfinite(y)
        for values, log in zip((x, y), chart.log, strict=True):
            shown &= (values > 0) if log else True
        if not shown.any():
            continue
        x, y = x[shown], y[shown]
        style: Any = {"color": series.color, "linewidth": 1.3}
        ax.plot(x, y, linestyle=series.line or "none", marker=series.marker, markersize=3.2, **style)
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
    ax.set_title(chart.title, loc="left", pad=5)
    ax.set_xlabel(chart.x_label)
    ax.set_ylabel(chart.y_label)
    _label_ends(ax, ends)


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
        figure = _Figure(4.6, 3.1)
        ax = figure.subplots(gridspec_kw={"left": 0.14, "right": 0.66, "top": 0.9, "bottom": 0.15})
        ax.set_xscale("log")
        ax.set_yscale("log")
        ends: list[tuple[float, str, str, bool]] = []
        for policy, (horizons, regrets) in series.items():
            t, r = np.asarray(horizons, dtype=np.float64), np.asarray(regrets, dtype=np.float64)
            slope, color = fitted_exponent(t, r), policy_colors([policy])[policy]
            middle = np.exp(np.log(r).mean() - slope * np.log(t).mean())
            ax.plot(t, r, "o", color=color, markersize=3.5)
            ax.plot(t, middle * t**slope, "-", color=color, linewidth=1.4, gid="fit")
            how = "fitted" if np.unique(t).size > 2 else "through 2 points"
            label = f"{policy_label(policy)}\n{how} {slope:.3f}"
            if theory is not None and policy in theory:
                ax.plot(t, r[-1] * (t / t[-1]) ** theory[policy], "--", color=color, linewidth=0.9, gid="theory")
                label += f", theory {theory[policy]:.3f}"
            ends.append((float(r[np.argmax(t)]), label, color, True))
        ax.set_xlabel("horizon (pulls)")
        ax.set_ylabel("mean pseudo-regret")
        ax.set_title(title, loc="left")
        _label_ends(ax, ends, lines=2)
    return figure


def _label_room(labels: Sequence[str]) -> float:
    """Inches that the widest label at a curve's end takes, with its line to the curve."""
    text = _Figure(1, 1).text(0, 0, "", fontsize=_LABEL_SIZE)
    widest = 0.0
    for label in labels:
        text.set_text(label)
        widest = max(widest, _inches(text)[0])
    return 0.08 * _PANEL_WIDTH + 0.1 + widest


def _grid(rows: int, columns: int, title: str, note: str, room: float = 0.0) -> tuple[Figure, Any]:
    """A figure with rows x columns axes of one size, below a title and above a note, both wrapped to its width.

    To the right of all axes there are `room` inches for labels, more where the usual space is more.
    """
    right, between = max(_RIGHT, room), max(_BETWEEN_COLUMNS, room + _LEFT - 0.3)
    width = _LEFT + right + columns * _PANEL_WIDTH + (columns - 1) * between
    panels_height = rows * _PANEL_HEIGHT + (rows - 1) * _BETWEEN_ROWS
    figure = _Figure(width, panels_height)
    above = figure.text(0, 0, title, ha="left", va="top", fontsize=12.5, fontweight="bold")
    below = figure.text(0, 0, note, ha="left", va="bottom", fontsize=9, color="#555555")
    for text in (above, below):
        _wrap(text, width - 2 * _EDGE)
    top = _TOP + (0.05 + _inches(above)[1] if title else 0)
    bottom = _BOTTOM + (0.08 + _inches(below)[1] if note else 0)
    height = top + panels_height + bottom
    figure.set_size_inches(width, height)
    above.set_position((_EDGE / width, 1 - 0.1 / height))
    below.set_position((_EDGE / width, 0.06 / height))
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        gridspec_kw={
            "left": _LEFT / width,
            "right": 1 - right / width,
            "top": 1 - top / height,
            "bottom": bottom / height,
            "wspace": between / _PANEL_WIDTH,
            "hspace": _BETWEEN_ROWS / _PANEL_HEIGHT,
        },
    )
    return figure, axes


def robust_limits(
    values: Iterable[ArrayLike], typical: Iterable[ArrayLike], *, log: bool = False
) -> tuple[float, float]:
    """The lowest and the highest number that an axis should hold, so that a seed far out does not flatten the others.

    Everything typical is held, and on a linear axis 0. Of the other values those are that leave what is typical a tenth
    of a linear axis, or that lie within a factor of 1,000 of it on a logarithmic one.

    Args:
        values: what is drawn; numbers that are not finite, or on a logarithmic axis not positive, do not count.
        typical: medians and trimmed means of what is drawn.
        log: whether the axis is logarithmic.

    Returns:
        (lowest, highest); (0, 1) when nothing counts.
    """
    drawn, core = (np.concatenate([np.zeros(0), *(np.ravel(v) for v in each)]) for each in (values, typical))
    drawn, core = (each[np.isfinite(each) & ((each > 0) | (not log))] for each in (drawn, core))
    core = core if core.size else drawn
    if not core.size:
        return 0.0, 1.0
    low, high = (core.min(), core.max()) if log else (min(core.min(), 0.0), max(core.max(), 0.0))
    if log:
        drawn = drawn[(drawn >= low / 1000) & (drawn <= high * 1000)]
    elif high > low:
        drawn = drawn[(drawn >= high - 10 * (high - low)) & (drawn <= low + 10 * (high - low))]
    return float(min([low, *drawn])), float(max([high, *drawn]))


def log_floor(values: Iterable[FloatArray]) -> float:
    """Lower end of a log axis: below the smallest positive number that is drawn; 0.1 when there is none."""
    drawn = np.concatenate([np.zeros(0), *values])
    return _FLOOR * float(drawn[drawn > 0].min()) if np.any(drawn > 0) else 0.1


def axis_share(ax: Axes, which: str, value: float) -> float:
    """Where a number lies between the ends of the axis `which`: 0 to 1."""
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    kind = ax.get_xscale() if which == "x" else ax.get_yscale()
    scale: Callable[[float], float] = math.log if kind == "log" else float
    return (scale(min(max(value, low), high)) - scale(low)) / (scale(high) - scale(low))


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure whole or not at all, the same bytes for the same figure.

    Args:
        figure: of this module, or any other of matplotlib's.
        path: its suffix says the format: .pdf, .png or .svg.

    Raises:
        ValueError: not a figure, no path, another suffix, or a folder that is not there.
    """
    if not isinstance(figure, Figure):
        raise ValueError(f"figure={figure!r}: must be a matplotlib Figure")
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(f"path={path!r}: must be a str or a pathlib.Path")
    place = Path(path)
    kind = place.suffix.lower().removeprefix(".")
    if kind not in _DATES:
        raise ValueError(f"path={os.fspath(path)!r}: must end in .pdf, .png or .svg")
    if not place.parent.is_dir():
        raise ValueError(f"path={os.fspath(path)!r}: there is no folder {place.parent}")
    metadata: dict[str, Any] = dict.fromkeys(_DATES[kind])
    with styled(), replacing(place) as temporary:
        figure.savefig(temporary, format=kind, metadata=metadata)


def styled(style: Mapping[str, Any] = STYLE) -> AbstractContextManager[None]:
    """Matplotlib's own defaults with these settings on top, for as long as the block lasts: the user's have no say."""
    return matplotlib.style.context(["default", dict(style)])


class _Figure(Figure):
    """A figure in this module's style whenever it is drawn: ticks are made then, and would follow the user's settings.

    A notebook shows it, with pyplot or without.
    """

    def __init__(self, width: float, height: float) -> None:
        """An empty one of this size in inches, on an Agg canvas of its own."""
        super().__init__(figsize=(width, height))
        FigureCanvasAgg(self)

    def draw(self, renderer: RendererBase) -> None:
        """As matplotlib does it."""
        with styled():
            super().draw(renderer)

    def savefig(self, *arguments: Any, **settings: Any) -> None:
        """As matplotlib does it."""
        with styled():
            super().savefig(*arguments, **settings)

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi="figure")
        return stream.getvalue()


def _inches(text: Text) -> tuple[float, float]:
    """Width and height of a text, on the screen or in a file: hinting makes a letter's width depend on the dpi."""
    sizes = []
    for dpi in (STYLE["figure.dpi"], STYLE["savefig.dpi"]):
        box = text.get_window_extent(RendererAgg(1, 1, dpi), dpi=dpi)  # a text keeps the renderer it had last
        sizes.append((box.width / dpi, box.height / dpi))
    return max(width for width, _ in sizes), max(height for _, height in sizes)


def _wrap(text: Text, inches: float) -> None:
    """Breaks a text's lines at spaces, not at no-break ones, where they would be wider than that."""
    lines: list[str] = []
    for paragraph in text.get_text().split("\n"):
        line = ""
        for word in filter(None, paragraph.split(" ")):
            longer = f"{line} {word}" if line else word
            text.set_text(longer)
            if line and _inches(text)[0] > inches:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    text.set_text("\n".join(lines))


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
    patterns = _dashes(curves, floor, log)
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    ends = []
    beyond = False  # whether something lies outside the axis
    for place, (curve, span) in enumerate(zip(curves, spans, strict=True)):
        arrow = next(filter(None, (_arrow(low, high, held, log) for low, high in ((span[1], span[1]), span[::2]))), "")
        ends.append(_end(curve, floor, arrow, log))
        beyond |= bool(arrow)
        outside = (span[1] > held[1]) | ((span[1] < held[0]) & (not log))
        if outside.any():
            ax.plot(curve.rounds, curve.summary.median, color=curve.color, linewidth=0.6, gid="median")
        shown = np.isfinite(span[1]) & ((span[1] > 0) & (curve.rounds > 0) if log else True)
        if shown.any():
            _draw_mean(ax, curve, shown, patterns[place])
        shown &= ~outside  # the spread of a mean that is outside would cover everything
        if shown.any() and curve.summary.has_band and spread == "interval":
            _draw_band(ax, curve, shown, floor)
        elif shown.any() and curve.summary.has_band:
            _draw_bars(ax, curve, _bar_places(curve.rounds.astype(np.float64), shown, place, len(curves), log), floor)
    _end_axes(ax, curves, floor, log)
    if panel.reference is not None and curves:
        rounds = curves[0].rounds[curves[0].rounds > 0].astype(np.float64)
        rounds = rounds if log else np.concatenate([[0.0], rounds])
        ax.plot(rounds, panel.reference * rounds, "--", color=REFERENCE_COLOR, linewidth=0.8, zorder=2)
        ends.append((panel.reference * float(rounds[-1]), panel.reference_label, "#6E6E6E", False))
    if not log:
        _round_ends(ax)
    if beyond and log:
        ax.set_ylim(top=1.2 * held[1])
    elif beyond:
        margin = 0.05 * (held[1] - held[0])
        ax.set_ylim(held[0] - margin, held[1] + margin)
    _label_ends(ax, ends)


def _span(curve: Curve, spread: str, nonnegative: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lower end, mean and upper end of what is drawn of a curve; lower ends are not drawn below 0 where none can be."""
    mean, half = curve.summary.mean, curve.summary.sd
    low, high = (mean - half, mean + half) if spread == "sd" else (curve.summary.low, curve.summary.high)
    return np.fmin(np.maximum(low, 0.0) if nonnegative else low, mean), mean, np.fmax(high, mean)


def _arrow(low: FloatArray, high: FloatArray, held: tuple[float, float], log: bool) -> str:
    """Where numbers lie that the axis does not hold; empty when it holds them all."""
    away = bool(np.any(low < held[0])) and not log, bool(np.any(high > held[1]))
    return {(True, False): " ↓", (False, True): " ↑", (True, True): " ↕"}.get(away, "")


def _end(curve: Curve, floor: float, arrow: str, log: bool) -> tuple[float, str, str, bool]:
    """Where a curve's name stands, the name with what cannot be seen, its colour, and whether it is bold."""
    last, label = float(curve.summary.mean[-1]), curve.label
    if math.isnan(last):
        last, label = floor if log else 0.0, f"{label} (no healthy seed)"
    elif log and last <= 0:  # nothing to draw on a log axis: say why at its lower end
        label += " (<0)" if last < 0 else " (0)"
    return max(last, floor), label + arrow, curve.color, curve.bold


def _draw_mean(
    ax: Axes, curve: Curve, shown: NDArray[np.bool_], pattern: tuple[float, tuple[float, float]] | None
) -> None:
    width = 2.0 if curve.bold else 0.9
    ax.plot(
        curve.rounds[shown],
        curve.summary.mean[shown],
        color=curve.color,
        linewidth=width,
        zorder=4.0 if curve.bold else 3.0,
        solid_capstyle="round",
        linestyle=_dash_style(pattern, width),
    )


def _draw_band(ax: Axes, curve: Curve, shown: NDArray[np.bool_], floor: float) -> None:
    low, high = np.maximum(curve.summary.low, floor), np.maximum(curve.summary.high, floor)
    ax.fill_between(
        curve.rounds[shown],
        low[shown],
        high[shown],
        color=curve.color,
        alpha=0.22 if curve.bold else 0.13,
        linewidth=0,
        zorder=2.0 if curve.bold else 1.0,
    )


def _draw_bars(ax: Axes, curve: Curve, at: NDArray[np.int64], floor: float) -> None:
    mean, sd = curve.summary.mean[at], curve.summary.sd[at]
    ax.errorbar(
        curve.rounds[at],
        mean,
        yerr=np.stack([np.minimum(sd, np.maximum(mean - floor, 0)), sd]),
        fmt="none",
        ecolor=curve.color,
        elinewidth=1.1 if curve.bold else 0.7,
        capsize=2.2 if curve.bold else 1.6,
        capthick=0.9 if curve.bold else 0.6,
        zorder=3.5 if curve.bold else 2.5,
    )


def _end_axes(ax: Axes, curves: Sequence[Curve], floor: float, log: bool) -> None:
    """The ends that depend on no outlier: those of the pulls, and the lower one of a log axis."""
    if not log:
        ax.set_xlim(0, max((float(c.rounds[-1]) for c in curves), default=1.0))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(OneUnit())
    elif curves:
        ax.set_ylim(bottom=floor)
        first = [float(c.rounds[c.rounds > 0][0]) for c in curves]
        ax.set_xlim(min(first), max(float(c.rounds[-1]) for c in curves))


def _dashes(curves: Sequence[Curve], floor: float, log: bool) -> list[tuple[float, tuple[float, float]] | None]:
    """Dash patterns (offset, (on, off)) in points: None, a solid line, but for curves that lie on an earlier one.

    Of n curves in one place the first is solid and the others take turns, each covering one n-th of it.
    """
    means = [np.where(c.summary.mean > 0, c.summary.mean, np.nan) if log else c.summary.mean for c in curves]
    heights = [np.log(mean) if log else mean for mean in means]
    finite = np.concatenate([np.zeros(0), *(h[np.isfinite(h)] for h in heights)])
    near = _SAME * (float(finite.max()) - (math.log(floor) if log else float(finite.min()))) if finite.size else 0.0
    groups: list[list[int]] = []
    for place, height in enumerate(heights):
        if not np.isfinite(height).any():
            continue
        for group in groups:
            first = heights[group[0]]
            if np.array_equal(curves[place].rounds, curves[group[0]].rounds):
                apart = np.abs(height - first)
                if np.isfinite(apart).any() and np.nanmax(apart) <= near:
                    group.append(place)
                    break
        else:
            groups.append([place])
    patterns: list[tuple[float, tuple[float, float]] | None] = [None] * len(curves)
    for group in groups:
        for turn, place in enumerate(group[1:]):
            # The offset is where in the pattern the line begins: `turn` dashes before this one's own.
            period = _DASH * len(group)
            patterns[place] = ((period - turn * _DASH) % period, (_DASH, period - _DASH))
    return patterns


def _dash_style(pattern: tuple[float, tuple[float, float]] | None, width: float) -> Any:
    """A pattern in points as matplotlib wants it: it multiplies what it is given by the line's width."""
    if pattern is None:
        return "-"
    offset, (on, off) = pattern
    return offset / width, (on / width, off / width)


def _round_ends(ax: Axes) -> None:
    """Nothing negative drawn: the axis begins just below 0, where a curve at 0 still shows."""
    low, high = ax.dataLim.intervaly
    if math.isfinite(low) and math.isfinite(high) and low >= 0:
        top = high if high > 0 else 1.0
        ax.set_ylim(-0.02 * top, 1.05 * top)


def _bar_places(rounds: FloatArray, shown: NDArray[np.bool_], place: int, count: int, log: bool) -> NDArray[np.int64]:
    """Records that carry an error bar: evenly spaced along the axis, each curve a little aside of the others."""
    start = float(rounds[shown][0]) if log else 0.0
    share = (np.arange(_BARS) + 0.35 + 0.6 * place / max(count, 1)) / _BARS
    wanted = start * (rounds[-1] / start) ** share if log else share * rounds[-1]
    candidates = np.flatnonzero(shown)
    nearest = np.abs(rounds[candidates][None, :] - wanted[:, None]).argmin(axis=1)
    return np.unique(candidates[nearest])


def _label_ends(ax: Axes, ends: Sequence[tuple[float, str, str, bool]], *, lines: int = 1) -> None:
    """Writes each curve's name to the right of its end, moved apart where they would overlap."""
    if not ends:
        return
    figure = ax.get_figure(root=True)
    assert figure is not None
    points = ax.get_position().height * figure.get_size_inches()[1] * 72
    places = [axis_share(ax, "y", y) for y, *_ in ends]
    spread = spread_apart(places, 9.8 * lines / points, low=0.0, high=1.0)
    for (_, label, color, bold), true, shown in zip(ends, places, spread, strict=True):
        ax.annotate(
            label,
            xy=(1.0, true),
            xytext=(1.08, shown),
            xycoords="axes fraction",
            textcoords="axes fraction",
            ha="left",
            va="center",
            fontsize=_LABEL_SIZE,
            color=color,
            fontweight="bold" if bold else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 1,
                "relpos": (0.0, 0.5),
            },
        )


def spread_apart(places: Sequence[float], gap: float, *, low: float, high: float) -> list[float]:
    """Moves numbers apart until neighbours are `gap` away, as little as possible in the least-squares sense."""
    if not len(places):
        return []
    from scipy.optimize import isotonic_regression  # slow to import

    order, steps = np.argsort(places, kind="stable"), gap * np.arange(len(places))
    # Without each rank's step "at least gap apart" is "in order".
    level = isotonic_regression(np.asarray(places)[order] - steps).x
    moved = np.empty(len(places))
    moved[order] = np.clip(level, low, max(low, high - steps[-1])) + steps
    return moved.tolist()


class OneUnit(Formatter):
    """Axis numbers in one unit per axis: 0, 5k, 10k or 0, 250, 1,250, but never 750 beside 1.25k."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """One number by itself."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Any) -> list[str]:
        """The numbers of one axis, in the unit that suits them all."""
        ticks = np.asarray(values, dtype=np.float64)
        largest = float(np.abs(ticks).max(initial=0.0))
        for unit, sign in ((1e6, "M"), (1e3, "k")):
            whole = bool(np.all(np.abs(ticks / unit - np.round(ticks / unit)) < 1e-6))
            if largest >= 10 * unit or (largest >= unit and whole):
                return [f"{tick / unit:,g}{sign}" if tick else "0" for tick in ticks]
        return [f"{tick:,g}" for tick in ticks]
