"""Drawings of a report, each on one set of axes: curves, boxes, differences, growth and rates.

Colours say the policy everywhere, labels stand at the curves in the colour of the text, and what text cannot fit is cut
short here and written out in the tables. Ink, grid and muted tones have names of their own (`INK` ...): the page
replaces them by its own, light or dark. All lengths are in points; the page shows a picture at about one pixel a point
on a phone.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from linbet_jax.figures.canvas import OneUnit, axes_points, axis_share, log_floor, robust_limits, spread_apart, styled
from linbet_jax.figures.colors import policy_sign
from linbet_jax.statistics.regret import Estimate, Summary
from linbet_jax.statistics.tables import number

Content = TypeVar("Content")
FloatArray = NDArray[np.float64]

# Stand-ins that no policy's colour equals.
INK, MUTED, GRID = "#1c1f24", "#5b6470", "#e3e5e8"
DASHES: Sequence[Any] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 1.8, 1.2, 1.8)))

WIDTH, HEIGHT = 326.0, 236.0
LEFT, TOP, BOTTOM, SIDE = 44.0, 16.0, 33.0, 14.0
ROW = 36.0  # of a box or an interval with its name above it
LEADER, WIDEST = 24.0, 152.0  # from the axes to a name, and the most that names may take with it
DOTS = 120  # seeds drawn as points per box
WRITTEN = 1e5  # numbers below it are written out on axes, as in titles and tables
WIDE = 20.0  # values that span more than this factor get a log axis
with styled():
    _FONT = FontProperties(family="DejaVu Sans", size=10)


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean with its interval, the median and the trimmed mean along an axis; a single seed's interval is NaN."""

    at: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    median: FloatArray
    trimmed_mean: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A curve of one policy."""

    family: str  # registry name of the policy; of its curves the first is solid
    color: str  # of the policy
    label: str  # at the end of the curve
    band: Band  # regret against pulls, a parameter or the horizon
    theory: float | None = None  # exponent of the policy's bound; None when it has none


@dataclasses.dataclass(frozen=True, kw_only=True)
class GrowthLine(Line):
    """Regret against the horizon of one policy with one setting."""

    title: str  # name of the set
    fit: Estimate | None  # fitted exponent, over the seeds that all horizons share; None when it cannot be fitted


@dataclasses.dataclass(frozen=True)
class RowMark(Generic[Content]):
    """One row of a picture without a vertical axis."""

    label: str  # above the row
    color: str  # of its marks
    beside: str  # something short at the right
    content: Content  # what is drawn: a summary over seeds, or rates `[cells]`


def shortened(text: str, points: float) -> str:
    """The text, cut in its middle when it is wider than that: both ends tell names apart."""
    if _width(text) <= points:
        return text

    def cut(letters: int) -> str:
        head = (letters + 1) // 2
        return f"{text[:head]}…{text[len(text) - (letters - head) :]}"

    fitting = bisect.bisect_right(range(1, len(text)), points, key=lambda letters: _width(cut(letters)))
    return cut(max(fitting, 1))


@contextlib.contextmanager
def missing_letters_pass() -> Iterator[None]:
    """A name may hold letters that matplotlib's font lacks: the page has them, a file shows boxes; nobody is warned."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        yield


@functools.lru_cache(maxsize=4096)
def _width(text: str) -> float:
    """Points, in the page's font."""
    with missing_letters_pass():
        width, _, _ = text_to_path.get_text_width_height_descent(text, _FONT, False)
    return float(width)


def label_room(labels: Iterable[str]) -> float:
    """Points to the right of the axes for names at the ends of curves."""
    return min(max([_width(label) for label in labels] + [30.0]) + LEADER, WIDEST)


def rows_height(rows: int) -> float:
    """Points that a picture of so many rows is high."""
    return ROW * rows + TOP + BOTTOM


def end_label(line: Line, *, log: bool) -> str:
    """The name at the end of a curve of regret; where there is nothing to draw it says why."""
    last = float(line.band.mean[-1])
    if math.isnan(last):
        return f"{line.label} (no healthy seed)"
    return f"{line.label} (0)" if log and last <= 0 else line.label


def draw_regret(ax: Axes, lines: Sequence[Line], *, horizon: float, log: bool) -> None:
    """Mean regret against pulls with its interval; on log axes a dotted line rises as the policy's bound does."""
    _frame(ax)
    bands = [line.band for line in lines]
    floor = _floor(bands) if log else 0.0
    top = _top(bands, log=log) or 1.0
    ends, first_pulls = [], []
    for line, dashes in zip(lines, _dashes(lines), strict=True):
        band, color = line.band, line.color
        drawn = np.isfinite(band.mean) & ((band.mean > 0) & (band.at > 0) if log else True)
        last = float(np.nan_to_num(band.mean[-1]))
        ends.append((horizon, max(last, floor), end_label(line, log=log), color))
        if not drawn.any():
            continue
        at, mean = band.at[drawn], band.mean[drawn]
        first_pulls.append(float(at[0]))
        _spread(ax, band, color, floor, top, log=log)
        if not log:
            at, mean = np.concatenate([[0.0], at]), np.concatenate([[0.0], mean])
        ax.plot(at, mean, color=color, linewidth=1.7, linestyle=dashes, gid="curve", **_signs(line, lines))
        if log and line.theory is not None and dashes == "-":
            _theory(ax, np.array([horizon / 12, horizon]), mean[-1], line.theory, color)
    if log:
        low = min(first_pulls, default=1.0)
        _scale(ax, "x", low, max(horizon, 1.01 * low), log=(low, max(horizon, 2 * low)))
        _scale(ax, "y", floor, max(1.25 * top, 2 * floor), log=(floor, max(top, 2 * floor)))
    else:
        _scale(ax, "x", 0, horizon)
        _scale(ax, "y", 0, 1.06 * top)
    _finish(ax, "pulls", "regret", ends, lines)


def draw_parameter(
    ax: Axes, lines: Sequence[Line], level: Sequence[Line], *, name: str, ticks: Sequence[str] | None
) -> None:
    """Final regret against a parameter; policies without it are lines across, `level`, each a band of one number.

    `ticks` names the parameter's values, at 0, 1, ..., where they are not numbers.
    """
    _frame(ax)
    values = np.concatenate([line.band.at for line in lines])
    bands = [line.band for line in (*lines, *level)]
    means = np.concatenate([band.mean for band in bands])
    means = means[np.isfinite(means)]
    low, high = robust_limits([means], [band.median for band in bands], log=True)
    log = bool(means.size and np.all(means > 0) and high / low > WIDE)
    floor, top = _floor(bands) if log else 0.0, _top(bands, log=log)
    ends = []
    for line, dashes in zip(lines, _dashes(lines), strict=True):
        band, color = line.band, line.color
        _spread(ax, band, color, floor, top, log=log)
        marker = policy_sign(line.family)
        ax.plot(band.at, band.mean, color=color, linewidth=1.5, linestyle=dashes, marker=marker, markersize=3.6)
        finite = np.isfinite(band.mean)
        if finite.any():
            ends.append((float(band.at[finite][-1]), float(band.mean[finite][-1]), line.label, color))
    for line in level:
        height = float(line.band.mean[0])
        ax.axhline(height, color=line.color, linewidth=1.2, linestyle=(0, (2, 2)))
        ends.append((float(values.max()), height, line.label, line.color))
    low, high = float(values.min()), float(values.max())
    if ticks is not None:
        ax.xaxis.set_major_locator(FixedLocator(range(len(ticks))))
        ax.set_xticklabels([shortened(tick, 56) for tick in ticks])
        ax.set_xlim(-0.3, len(ticks) - 0.7)
    elif low > 0 and high / low > WIDE / 2:
        _scale(ax, "x", low / 1.1, high * 1.1, log=(low, high))
    else:
        margin = 0.03 * (high - low)
        _scale(ax, "x", low - margin, high + margin)
    if log:
        _scale(ax, "y", floor, 1.3 * top, log=(floor, top))
    else:
        _scale(ax, "y", min(0.0, float(means.min(initial=0.0))), 1.06 * top if top > 1e-300 else 1.0)
    _finish(ax, name, "regret at the horizon", ends, (*lines, *level))


def draw_growth(ax: Axes, lines: Sequence[GrowthLine]) -> None:
    """Final regret against the horizon on log axes, with the fitted power of T and that of the bound."""
    _frame(ax)
    floor = _floor([line.band for line in lines])
    top = max(_top([line.band for line in lines], log=True), 2 * floor)
    ends, horizons = [], []
    for line, dashes in zip(lines, _dashes(lines), strict=True):
        band, color = line.band, line.color
        horizons += [float(band.at[0]), float(band.at[-1])]
        positive = band.mean > 0
        ends.append((float(band.at[-1]), float(max(band.mean[-1], floor)), line.label, color))
        if not positive.any():
            continue
        at, mean = band.at[positive], band.mean[positive]
        known = positive & np.isfinite(band.low) & (band.mean <= top)
        below, above = (np.maximum(edge[known], floor) for edge in (band.low, band.high))
        ax.vlines(band.at[known], below, above, color=color, linewidth=1.2)
        ax.plot(at, mean, policy_sign(line.family), color=color, markersize=4, markeredgewidth=0)
        ax.plot(band.at, band.median, "_", color=color, markersize=7, markeredgewidth=0.9, gid="median")
        if line.fit is not None:
            slope, ends_at = float(line.fit.value), np.array([at[0], at[-1]])
            middle = math.exp(float(np.log(mean).mean()) - slope * float(np.log(at).mean()))
            ax.plot(ends_at, middle * ends_at**slope, color=color, linewidth=1.4, linestyle=dashes, gid="fit")
        if line.theory is not None:
            _theory(ax, at, mean[-1], line.theory, color)
    low, high = min(horizons), max(horizons)
    _scale(ax, "x", low / 1.1, high * 1.1, log=(low, high))
    _scale(ax, "y", floor, 1.3 * top, log=(floor, top))
    _finish(ax, "horizon (pulls)", "regret at the horizon", ends, lines)


def draw_boxes(ax: Axes, rows: Sequence[RowMark[Summary]]) -> None:
    """Final regret over seeds, a box for five seeds or more: quartiles, whiskers from 5% to 95%, both means."""
    _frame(ax)
    finals = [row.content for row in rows]
    drawn = [values for final in finals for values in (final.values, final.mean)]
    typical = [values for final in finals for values in (final.quantile([0.25, 0.5, 0.75]), final.trimmed_mean)]
    low, high = robust_limits(drawn, typical, log=True)
    everything = np.concatenate([np.zeros(0), *(final.values for final in finals)])
    log = everything.size > 0 and bool(everything.min() > 0) and high / low > WIDE
    if log:
        _scale(ax, "x", low / 1.25, high * 1.25, log=(low, high))
    else:
        low, high = robust_limits(drawn, typical)
        margin = 0.04 * ((high - low) or 1.0)
        _scale(ax, "x", low - (margin if low < 0 else 0), high + margin, ticks=4)
    begin, end = ax.get_xlim()
    named = []
    for place, (row, final) in enumerate(zip(rows, finals, strict=True)):
        y, sample, color = place + 0.66, final.values, row.color
        outside = int(np.sum((sample < begin) | (sample > end)))
        beside = row.beside + (f", {outside} outside" if outside else "")
        named.append((row.label, beside + (", mean →" if final.mean > end else "")))
        if not sample.size:
            continue
        dots, size = slice(0, DOTS), 2.2 if sample.size >= 5 else 4.0
        lift = _scatter(sample.size, 0.34)
        ax.plot(sample[dots], y + lift[dots], "o", markersize=size, alpha=0.45, markeredgewidth=0, color=color)
        if sample.size >= 5:
            start, q1, middle, q3, stop = final.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
            ax.plot([start, stop], [y, y], linewidth=1.1, color=color)
            ax.fill_between([q1, q3], y - 0.2, y + 0.2, alpha=0.28, linewidth=0, color=color)
            ax.plot([q1, q3, q3, q1, q1], [y - 0.2, y - 0.2, y + 0.2, y + 0.2, y - 0.2], linewidth=1.0, color=color)
            ax.plot([middle, middle], [y - 0.2, y + 0.2], linewidth=2.4, color=color)
            for value, face in ((final.trimmed_mean, "white"), (final.mean, color)):
                ax.plot([float(value)], [y], "D", markersize=4.2, markerfacecolor=face, color=color)
    _finish_rows(ax, named, "regret at the horizon" + (" (log axis)" if log else ""))


def draw_differences(ax: Axes, rows: Sequence[RowMark[Summary]], best: str) -> None:
    """Differences of final regret to the policy named `best`, mean with interval; a tick is the median."""
    _frame(ax)
    differences = [row.content for row in rows]
    drawn = [values for d in differences for values in (d.mean, d.low, d.high)]
    low, high = robust_limits(drawn, [values for d in differences for values in (d.median, d.trimmed_mean)])
    margin = 0.05 * ((high - low) or 1.0)
    _scale(ax, "x", low - margin, high + margin, ticks=4)
    named = []
    for place, (row, difference) in enumerate(zip(rows, differences, strict=True)):
        y, mean, color = place + 0.66, float(difference.mean), row.color
        outside = mean < low - margin or mean > high + margin
        beside = f"mean {number(mean, 4)} {'→' if mean > 0 else '←'}" if outside else row.beside
        named.append((row.label, beside))
        if difference.has_band:
            ends = [float(difference.low), float(difference.high)]
            ax.plot(ends, [y, y], linewidth=2.2, solid_capstyle="round", color=color)
        ax.plot([mean], [y], "o", markersize=5.5, markeredgewidth=0, color=color)
        ax.plot([float(difference.median)] * 2, [y - 0.16, y + 0.16], linewidth=1.2, gid="median", color=color)
    for place in range(len(rows)):  # beside the marks alone: through a name it would be in the way
        ax.plot([0, 0], [place + 0.44, place + 0.92], color=MUTED, linewidth=1.0)
    _finish_rows(ax, named, f"regret minus that of {shortened(best, 190)}")


def draw_rates(ax: Axes, rows: Sequence[RowMark[FloatArray]], together: Sequence[float]) -> None:
    """Pulls per second on a log axis: a bar to that of all cells together, a point for each of the first 400."""
    _frame(ax)
    everything = np.concatenate([row.content for row in rows])
    low, high = float(everything.min()) / 2, float(everything.max()) * 2
    _scale(ax, "x", low, high, log=(low, high))
    for place, (row, rate) in enumerate(zip(rows, together, strict=True)):
        rates, y = row.content, place + 0.66
        ax.plot([low, rate], [y, y], color=row.color, linewidth=5, alpha=0.35, solid_capstyle="butt")
        lift = _scatter(rates.size, 0.3) * (rates.size > 1)
        ax.plot(rates[:400], y + lift[:400], "o", color=row.color, markersize=3.2, alpha=0.7, markeredgewidth=0)
    _finish_rows(ax, [(row.label, row.beside) for row in rows], "pulls per second, all seeds together (log axis)")


def _frame(ax: Axes) -> None:
    ax.autoscale(False)  # every picture sets its axes' ends
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=MUTED, length=3, pad=2.5)
    ax.grid(True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def _scale(
    ax: Axes, which: str, low: float, high: float, *, log: tuple[float, float] | None = None, ticks: int = 5
) -> None:
    """Ends and ticks of the axis `which`; a log axis where `log` says from where to where its numbers go."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    if log is None:
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(_Written())
    else:  # ticks are decades, or 1-2-5 where they are few
        ax.set(**{f"{which}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if log[1] / log[0] < 400 else (1.0,), numticks=9))
        axis.set_minor_locator(NullLocator())  # hundreds of small ticks would take half of the time to draw
        axis.set_major_formatter(FuncFormatter(_compact))
    ax.set(**{f"{which}lim": (low, high)})


class _Written(OneUnit):
    """Numbers of a linear axis in the form that log axes give them: written out, from 100,000 on in one unit."""

    def format_ticks(self, values: Any) -> list[str]:
        """The numbers of one axis."""
        ticks = np.asarray(values, dtype=np.float64)
        if np.abs(ticks).max(initial=0.0) < WRITTEN:
            return [f"{tick:,.12g}" if tick else "0" for tick in ticks]
        return super().format_ticks(values)


def _compact(value: float, _: Any = None) -> str:
    if value < WRITTEN:
        return f"{value:,g}"
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


def _say(ax: Axes, x: float, y: float, text: str, **more: Any) -> None:
    """Text in axes fractions, as it is written: no mathematics in names that come from files."""
    settings: dict[str, Any] = {"color": INK, "va": "center", "ha": "left", "clip_on": False}
    ax.text(x, y, text, transform=ax.transAxes, **(settings | more)).set_parse_math(False)


def _name_x(ax: Axes, name: str) -> None:
    ax.set_xlabel(name, color=MUTED, labelpad=3).set_parse_math(False)


def _finish(ax: Axes, x: str, y: str, ends: Sequence[tuple[float, float, str, str]], lines: Sequence[Line]) -> None:
    """Names of the axes and of the curves, once the axes have their ends."""
    _name_x(ax, x)
    _say(ax, 0.0, 1.015, y, color=MUTED, va="bottom")  # above the axis, read without turning the head
    _name_ends(ax, ends)
    _say_outside(ax, lines)


def _name_ends(ax: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Each curve's name (x and y of its end, name, colour) at the right, moved apart, tied to its end by a line."""
    places = [axis_share(ax, "y", y) for _, y, *_ in ends]
    spread = spread_apart(places, 13.0 / (HEIGHT - TOP - BOTTOM), low=0.02, high=0.98)
    # In points, whatever the axes' width: it depends on the names.
    wide = WIDTH - LEFT - label_room(label for *_, label, _ in ends)
    for (x, _, label, color), true, shown in zip(ends, places, spread, strict=True):
        line: dict[str, Any] = {"transform": ax.transAxes, "color": color, "linewidth": 0.9, "clip_on": False}
        ax.plot([1.0, 1.0 + 9 / wide, 1.0 + 16 / wide], [true, shown, shown], solid_joinstyle="round", **line)
        if axis_share(ax, "x", x) < 0.97:  # faint: the curve itself ends here
            ax.plot([axis_share(ax, "x", x), 1.0], [true, true], alpha=0.35, dashes=(1, 3), **line)
        _say(ax, 1.0 + 20 / wide, shown, shortened(label, WIDEST - LEADER))


def _say_outside(ax: Axes, lines: Sequence[Line]) -> None:
    """Names what lies above the axis, in its upper left corner."""
    top, outside = ax.get_ylim()[1], []
    for line in lines:
        for name, values in (("mean", line.band.mean), ("interval", line.band.high)):
            highest = float(np.max(values, initial=-math.inf, where=np.isfinite(values)))
            if highest > top:
                outside.append(f"{line.label}, {name} to {number(highest, 4)}")
                break
    shown = [*outside[:3], f"and {len(outside) - 3} more"] if len(outside) > 4 else outside
    wide, _ = axes_points(ax)
    for line_number, text in enumerate(["outside the axis:", *shown] if outside else []):
        _say(ax, 4 / wide, 0.96 - 0.06 * line_number, shortened(text, wide - 8), color=MUTED, fontsize=8.5)


def _finish_rows(ax: Axes, rows: Sequence[tuple[str, str]], x: str) -> None:
    """Names above their rows, something short at the right; row 0 is at the top. The horizontal axis is named `x`."""
    count = len(rows)
    for place, (name, beside) in enumerate(rows):
        y = 1 - (place + 0.24) / count
        _say(ax, 0.0, y, shortened(name, WIDTH - 2 * SIDE - 10 - _width(beside)))
        if beside:
            _say(ax, 1.0, y, beside, color=MUTED, ha="right")
    ax.set_ylim(count, 0)
    ax.yaxis.set_major_locator(NullLocator())
    ax.spines["left"].set_visible(False)
    ax.grid(False, axis="y")
    _name_x(ax, x)


def _scatter(count: int, height: float) -> FloatArray:
    """How far points stand above their row: golden-ratio steps scatter them evenly, the same way every time."""
    return np.asarray((np.arange(count) * 0.6180339887 % 1 - 0.5) * height, np.float64)


def _dashes(lines: Sequence[Line]) -> list[Any]:
    """A dash pattern per curve: of one policy's curves the first is solid."""
    families = [line.family for line in lines]
    return [DASHES[families[:place].count(family) % len(DASHES)] for place, family in enumerate(families)]


def _signs(line: Line, lines: Sequence[Line]) -> dict[str, Any]:
    """Signs on a curve that say its policy without colour, where there are curves of several."""
    families = list(dict.fromkeys(other.family for other in lines))
    if len(families) < 2:
        return {}
    start = 0.1 + 0.2 * families.index(line.family) / len(families)
    along = (start, 0.24)  # of the axes' diagonal
    return {"marker": policy_sign(line.family), "markersize": 4.2, "markeredgewidth": 0, "markevery": along}


def _theory(ax: Axes, at: FloatArray, last: float, exponent: float, color: str) -> None:
    """A dotted line that rises as a bound does and ends where the curve does."""
    ax.plot(at, last * (at / at[-1]) ** exponent, ":", color=color, linewidth=1.1, gid="theory")


def _floor(bands: Sequence[Band]) -> float:
    """Lower end of a log axis: below the smallest positive mean or median that is drawn."""
    return log_floor(values for band in bands for values in (band.mean, band.median))


def _top(bands: Sequence[Band], *, log: bool) -> float:
    """The highest number that an axis of regret holds: what few seeds draw far up may lie outside."""
    typical = [values for band in bands for values in (band.median, band.trimmed_mean)]
    return robust_limits([edge for band in bands for edge in (band.mean, band.high)], typical, log=log)[1]


def _spread(ax: Axes, band: Band, color: str, floor: float, top: float, *, log: bool) -> None:
    """The interval, but not where its mean lies outside and it would cover everything; the median where one sees it."""
    known = (np.isfinite(band.low) & (band.mean <= top)) & ((band.mean > 0) if log else True)
    if known.any():
        below, above = (np.maximum(np.nan_to_num(edge), floor) for edge in (band.low, band.high))
        ax.fill_between(band.at, below, above, where=known, color=color, alpha=0.18, linewidth=0, gid="band")
    scale: Callable[[Any], Any] = (lambda y: np.log(np.maximum(y, floor) / floor)) if log else (lambda y: y)
    shown = np.isfinite(band.median) & ((band.median > 0) if log else True)
    apart = np.abs(scale(band.median[shown]) - scale(band.mean[shown]))
    if apart.size and apart.max() > 0.02 * scale(top):
        ax.plot(band.at[shown], band.median[shown], color=color, linewidth=0.8, gid="median")
