"""The report's pictures, each drawn on one set of axes: the page shows them one by one, files hold grids of them.

Colours say the policy everywhere, labels stand at the curves in the colour of the text, and what text cannot fit is cut
short here and written out in the tables. Ink, grid and muted tones have names of their own (`INK` ...): the page
replaces them by its own, light or dark.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsFloat

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from linbet_jax.figures.plotting import OneUnit, robust_limits, spread_apart, styled
from linbet_jax.report.gather import (
    SHOWN,
    Band,
    Comparison,
    Growth,
    ParameterPanel,
    Report,
    Setting,
    Variant,
    parameter_name,
    plain_value,
)
from linbet_jax.statistics.regret import Share, Summary
from linbet_jax.theory import BOUNDED, regret_exponent

__all__ = ["GRID", "INK", "MUTED", "Picture", "better", "missing_letters_pass", "number", "pictures", "shortened"]

FloatArray = NDArray[np.float64]

# Stand-ins that no policy's colour equals.
INK, MUTED, GRID = "#1c1f24", "#5b6470", "#e3e5e8"
DASHES: Sequence[Any] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 1.8, 1.2, 1.8)))

# Points, as everything below; the page shows a picture at about one pixel a point on a phone.
WIDTH, HEIGHT = 326.0, 236.0
LEFT, TOP, BOTTOM, SIDE = 44.0, 16.0, 33.0, 14.0
ROW = 36.0  # of a box or an interval with its name above it
LEADER, WIDEST = 24.0, 152.0  # from the axes to a name, and the most that names may take with it
DOTS = 120  # seeds drawn as points per box
WIDE = 20.0  # values that span more than this factor get a log axis
with styled():
    _FONT = FontProperties(family="DejaVu Sans", size=10)
_FLOOR = 0.4  # a log axis ends at this fraction of the smallest mean drawn


@dataclasses.dataclass(frozen=True)
class Picture:
    """One set of axes.

    Attributes:
        kind: groups pictures: "regret", "regret-loglog", "final-regret", "parameter-NAME", "growth", "paired", "speed".
        title: of the panel.
        detail: beside the title.
        text: what it shows, in words and numbers, for those who cannot see it.
        draw: puts it on empty axes.
        height: points.
        right: points to the right of the axes, for labels.
        left: points to the left.
        note: below the picture.
    """

    kind: str
    title: str
    detail: str
    text: str
    draw: Callable[[Axes], None]
    height: float = HEIGHT
    right: float = SIDE
    left: float = SIDE
    note: str = ""


def pictures(report: Report, colors: Mapping[str, str], *, panels: int) -> list[Picture]:
    """Every picture of a report, at most `panels` of each kind.

    Args:
        report: what to draw.
        colors: policy to colour.
        panels: pictures of one kind; the rest of a large sweep is in the tables alone.
    """
    made: list[Picture] = []
    for setting in [s for s in report.settings if s.shown][:panels]:
        made += [_regret(setting, colors, log=False), _regret(setting, colors, log=True), _final(setting, colors)]
        if setting.comparison is not None:
            made.append(_paired(setting, setting.comparison, colors))
    drawn: dict[str, int] = {}
    for panel in report.parameters:
        drawn[panel.parameter] = drawn.get(panel.parameter, 0) + 1
        if drawn[panel.parameter] <= panels:
            made.append(_parameter(panel, colors))
    titles = list(dict.fromkeys(growth.title for growth in report.growths))[:panels]
    made += [_growth(title, [g for g in report.growths if g.title == title], colors) for title in titles]
    timed = [variant for variant in report.variants if math.isfinite(variant.rate)]
    if timed:
        made.append(_speed(timed, colors))
    return made


def number(value: SupportsFloat) -> str:
    """Four digits, or all before the point, thousands separated: 3.142 or 12,346."""
    shown = float(value)
    if not math.isfinite(shown):
        return "–"
    if shown == 0:
        return "0"
    size = math.floor(math.log10(abs(shown)))
    if size >= 15 or size < -4:
        return f"{shown:.3g}"
    digits = max(0, 3 - size)
    if abs(round(shown, digits)) >= 10 ** (size + 1):  # 999.96 is 1,000
        digits = max(0, digits - 1)
    return f"{shown:,.{digits}f}"


def shortened(text: str, points: float) -> str:
    """The text, cut in its middle when it is wider than that: both ends tell names apart."""
    if _width(text) <= points:
        return text
    low, high = 1, len(text) - 1  # letters kept
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _width(_cut(text, middle)) <= points else (low, middle - 1)
    return _cut(text, low)


def _cut(text: str, letters: int) -> str:
    head = (letters + 1) // 2
    return f"{text[:head]}…{text[len(text) - (letters - head) :]}"


@contextlib.contextmanager
def missing_letters_pass() -> Iterator[None]:
    """A name may hold letters that matplotlib's font lacks: the page has them, a file shows boxes; nobody is warned."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        yield


@functools.lru_cache(maxsize=4096)
def _width(text: str) -> float:
    """Points, in the page's widest likely font."""
    with missing_letters_pass():
        width, _, _ = text_to_path.get_text_width_height_descent(text, _FONT, False)
    return float(width)


def _right(labels: Iterable[str]) -> float:
    """Room to the right of the axes for names at the ends of curves."""
    return min(max([_width(label) for label in labels] + [30.0]) + LEADER, WIDEST)


def _compact(value: float, _: Any = None) -> str:
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


def _log_axis(ax: Axes, which: str, low: float, high: float) -> None:
    """A log axis whose ticks are decades, or 1-2-5 where they are few."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 400 else (1.0,), numticks=9))
    axis.set_minor_locator(NullLocator())  # hundreds of small ticks would take half of the time to draw
    axis.set_major_formatter(FuncFormatter(_compact))


def _linear_axis(ax: Axes, which: str, ticks: int = 5) -> None:
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(OneUnit())


def _say(ax: Axes, x: float, y: float, text: str, **more: Any) -> None:
    """Text in axes fractions, as it is written: no mathematics in names that come from files."""
    settings: dict[str, Any] = {"color": INK, "va": "center", "ha": "left", "clip_on": False}
    ax.text(x, y, text, transform=ax.transAxes, **(settings | more)).set_parse_math(False)


def _axis_names(ax: Axes, x: str, y: str) -> None:
    if x:
        ax.set_xlabel(x, color=MUTED, labelpad=3).set_parse_math(False)
    if y:
        # Above the axis, read without turning the head.
        _say(ax, 0.0, 1.0, y, color=MUTED, va="bottom", ha="left")
        ax.texts[-1].set_position((0.0, 1.015))


def _frame(ax: Axes) -> None:
    ax.autoscale(False)  # every picture sets its axes' ends
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
    ax.tick_params(colors=MUTED, labelcolor=MUTED, length=3, pad=2.5)
    ax.grid(True, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def _ends(ax: Axes, ends: Sequence[tuple[float, float, str, str]], height: float) -> None:
    """Each curve's name (x and y of its end, name, colour) at the right, moved apart, tied to its end by a line."""
    places = [_share(ax, "y", y) for _, y, *_ in ends]
    spread = spread_apart(places, 13.0 / height, low=0.02, high=0.98)
    # In points, whatever the axes' width: it depends on the names.
    wide = WIDTH - LEFT - _right(label for *_, label, _ in ends)
    for (x, _, label, color), true, shown in zip(ends, places, spread, strict=True):
        line: dict[str, Any] = {"transform": ax.transAxes, "color": color, "linewidth": 0.9, "clip_on": False}
        ax.plot([1.0, 1.0 + 9 / wide, 1.0 + 16 / wide], [true, shown, shown], solid_joinstyle="round", **line)
        if _share(ax, "x", x) < 0.97:  # faint: the curve itself ends here
            ax.plot([_share(ax, "x", x), 1.0], [true, true], alpha=0.35, dashes=(1, 3), **line)
        _say(ax, 1.0 + 20 / wide, shown, shortened(label, WIDEST - LEADER))


def _share(ax: Axes, which: str, value: float) -> float:
    """Where a number lies between the ends of an axis: 0 to 1."""
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    kind = ax.get_xscale() if which == "x" else ax.get_yscale()
    scale: Callable[[float], float] = math.log if kind == "log" else float
    return (scale(min(max(value, low), high)) - scale(low)) / (scale(high) - scale(low))


def _styles(variants: Sequence[Variant]) -> list[Any]:
    """A dash pattern per curve: of one policy's curves the first is solid."""
    seen: dict[str, int] = {}
    found = []
    for variant in variants:
        turn = seen.get(variant.cell.family, 0)
        seen[variant.cell.family] = turn + 1
        found.append(DASHES[turn % len(DASHES)])
    return found


def _regret(setting: Setting, colors: Mapping[str, str], *, log: bool) -> Picture:
    hidden = len(setting.variants) - len(setting.shown)
    kept = "first and best" if len(setting.shown) > len({v.cell.policy for v in setting.shown}) else "best"
    note = f"{hidden} more in the table; drawn: the {kept} of each policy." if hidden else ""
    seeds = [variant.final.n for variant in setting.shown]
    over = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    ends = ", ".join(f"{v.label} {_averages(v.final)}" for v in setting.shown)
    text = (
        f"Mean cumulative regret on {setting.title} ({setting.detail}), healthy seeds: {over}"
        f"{', both axes logarithmic' if log else ''}. At the horizon: {ends}."
    )

    def draw(ax: Axes) -> None:
        _frame(ax)
        shown = setting.shown
        horizon = float(setting.horizon)
        floor = _floor([v.band for v in shown]) if log else 0.0
        top = _top([v.band for v in shown], log=log) or 1.0
        ends, firsts = [], []
        for variant, dashes in zip(shown, _styles(shown), strict=True):
            band, color = variant.band, colors[variant.cell.family]
            drawn = np.isfinite(band.mean) & ((band.mean > 0) & (band.at > 0) if log else True)
            last = float(np.nan_to_num(band.mean[-1]))
            ends.append((horizon, max(last, floor), _end_label(variant, log=log), color))
            if not drawn.any():
                continue
            at, mean = band.at[drawn], band.mean[drawn]
            firsts.append(float(at[0]))
            _spread(ax, band, color, floor, top, log=log)
            if not log:
                at, mean = np.concatenate([[0.0], at]), np.concatenate([[0.0], mean])
            ax.plot(at, mean, color=color, linewidth=1.7, linestyle=dashes, gid="curve")
            if log and variant.cell.family in BOUNDED and dashes == "-":
                slope = regret_exponent(variant.cell.family, _epsilon(variant))
                guide = np.array([horizon / 12, horizon])
                ax.plot(guide, mean[-1] * (guide / horizon) ** slope, ":", color=color, linewidth=1.1, gid="theory")
        if log:
            low = min(firsts, default=1.0)
            _log_axis(ax, "x", low, max(horizon, 2 * low))
            _log_axis(ax, "y", floor, max(top, 2 * floor))
            ax.set_xlim(low, max(horizon, 1.01 * low))
            ax.set_ylim(floor, max(1.25 * top, 2 * floor))
        else:
            _linear_axis(ax, "x")
            _linear_axis(ax, "y")
            ax.set_xlim(0, horizon)
            ax.set_ylim(0, 1.06 * top)
        _axis_names(ax, "pulls", "regret")
        _ends(ax, ends, HEIGHT - TOP - BOTTOM)
        _say_outside(ax, [(v.label, v.band) for v in shown])

    kind = "regret-loglog" if log else "regret"
    return Picture(
        kind,
        setting.title,
        setting.detail,
        text,
        draw,
        right=_right(_end_label(v, log=log) for v in setting.shown),
        left=LEFT,
        note=note,
    )


def _end_label(variant: Variant, *, log: bool) -> str:
    """The name at the end of a curve; where there is nothing to draw it says why."""
    last = float(variant.band.mean[-1])
    if math.isnan(last):
        return f"{variant.label} (no healthy seed)"
    return f"{variant.label} (0)" if log and last <= 0 else variant.label


def _epsilon(variant: Variant) -> float:
    value = variant.cell.value("epsilon")
    return float(value) if isinstance(value, (int, float)) and value > 0 else 1.0


def _floor(bands: Sequence[Band]) -> float:
    """Lower end of a log axis: below the smallest positive mean or median that is drawn; 0.1 when there is none."""
    drawn = np.concatenate([np.zeros(0), *(values for band in bands for values in (band.mean, band.median))])
    return _FLOOR * float(drawn[drawn > 0].min()) if np.any(drawn > 0) else 0.1


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
    scale = (lambda values: np.log(np.maximum(values, floor) / floor)) if log else (lambda values: values)
    shown = np.isfinite(band.median) & ((band.median > 0) if log else True)
    apart = np.abs(scale(band.median[shown]) - scale(band.mean[shown]))
    if apart.size and apart.max() > 0.02 * scale(top):
        ax.plot(band.at[shown], band.median[shown], color=color, linewidth=0.8, gid="median")


def _say_outside(ax: Axes, bands: Sequence[tuple[str, Band]]) -> None:
    """Names what lies above the axis, in its upper left corner."""
    top, told = ax.get_ylim()[1], []
    for label, band in bands:
        for name, values in (("mean", band.mean), ("interval", band.high)):
            highest = float(np.max(values, initial=-math.inf, where=np.isfinite(values)))
            if highest > top:
                told.append(f"{label}, {name} to {number(highest)}")
                break
    shown = [*told[:3], f"and {len(told) - 3} more"] if len(told) > 4 else told
    figure = ax.get_figure(root=True)
    assert figure is not None
    wide = ax.get_position().width * figure.get_size_inches()[0] * 72
    for line, text in enumerate(["outside the axis:", *shown] if told else []):
        _say(ax, 4 / wide, 0.96 - 0.06 * line, shortened(text, wide - 8), color=MUTED, fontsize=8.5)


def _averages(summary: Summary) -> str:
    """A mean with what stands beside it."""
    mean, median, trimmed = (number(getattr(summary, n)) for n in ("mean", "median", "trimmed_mean"))
    return f"{mean} (median {median}, trimmed mean {trimmed})"


def _rows_height(rows: int) -> float:
    return ROW * rows + TOP + BOTTOM


def _row_names(ax: Axes, rows: Sequence[tuple[str, str]]) -> None:
    """Names above their rows, something short at the right; row 0 is at the top."""
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


def _final(setting: Setting, colors: Mapping[str, str]) -> Picture:
    told = [
        f"{v.label}: mean {_averages(v.final)}, half of the seeds between "
        f"{number(v.final.quantile(0.25))} and {number(v.final.quantile(0.75))}"
        for v in setting.shown
    ]

    def draw(ax: Axes) -> None:
        _frame(ax)
        shown = setting.shown
        drawn = [values for v in shown for values in (v.final.values, v.final.mean)]
        typical = [values for v in shown for values in (v.final.quantile([0.25, 0.5, 0.75]), v.final.trimmed_mean)]
        low, high = robust_limits(drawn, typical, log=True)
        everything = np.concatenate([np.zeros(0), *(v.final.values for v in shown)])
        log = everything.size > 0 and bool(everything.min() > 0) and high / low > WIDE
        if log:
            _log_axis(ax, "x", low, high)
            ax.set_xlim(low / 1.25, high * 1.25)
        else:
            low, high = robust_limits(drawn, typical)
            _linear_axis(ax, "x", 4)
            margin = 0.04 * ((high - low) or 1.0)
            ax.set_xlim(low - (margin if low < 0 else 0), high + margin)
        names = []
        for place, variant in enumerate(shown):
            color, final = colors[variant.cell.family], variant.final
            y, sample = place + 0.66, final.values
            begin, end = ax.get_xlim()
            outside = int(np.sum((sample < begin) | (sample > end)))
            beside = f"n = {final.n}{f', {final.unhealthy} unhealthy' if final.unhealthy else ''}"
            beside += f", {outside} outside" if outside else ""
            names.append((variant.label, beside + (", mean →" if final.mean > end else "")))
            if not sample.size:
                continue
            # Golden-ratio steps scatter the points evenly, the same way every time.
            lift = (np.arange(sample.size) * 0.6180339887 % 1 - 0.5) * 0.34
            dots, size = slice(0, DOTS), 2.2 if sample.size >= 5 else 4.0
            ax.plot(sample[dots], y + lift[dots], "o", color=color, markersize=size, alpha=0.45, markeredgewidth=0)
            if sample.size >= 5:
                start, q1, middle, q3, end = final.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
                ax.plot([start, end], [y, y], color=color, linewidth=1.1)
                ax.fill_between([q1, q3], y - 0.2, y + 0.2, color=color, alpha=0.28, linewidth=0)
                ax.plot([q1, q3, q3, q1, q1], [y - 0.2, y - 0.2, y + 0.2, y + 0.2, y - 0.2], color=color, linewidth=1.0)
                ax.plot([middle, middle], [y - 0.2, y + 0.2], color=color, linewidth=2.4)
                for value, face in ((final.trimmed_mean, "white"), (final.mean, color)):
                    ax.plot([float(value)], [y], "D", color=color, markersize=4.2, markerfacecolor=face)
        _row_names(ax, names)
        _axis_names(ax, "regret at the horizon" + (" (log axis)" if log else ""), "")

    return Picture(
        "final-regret",
        setting.title,
        setting.detail,
        f"Final regret by policy on {setting.title} ({setting.detail}). {'; '.join(told)}.",
        draw,
        height=_rows_height(len(setting.shown)),
    )


def better(wins: Share) -> str:
    """In how many seeds the first of two did better; a tie is no win."""
    if not wins.n:
        return "no healthy seed in common"
    ties = f", equal in {100 * wins.ties / wins.n:.0f}%" if wins.ties else ""
    return f"better in {100 * wins.wins / wins.n:.0f}%{ties}"


def _paired(setting: Setting, comparison: Comparison, colors: Mapping[str, str]) -> Picture:
    best = comparison.best
    told = [
        f"{v.label} {_averages(p.difference)}"
        + (f" [{number(p.difference.low)}, {number(p.difference.high)}]" if p.difference.has_band else "")
        for v, p in comparison.pairs
    ]

    def draw(ax: Axes) -> None:
        _frame(ax)
        differences = [pair.difference for _, pair in comparison.pairs]
        drawn = [getattr(each, name) for each in differences for name in ("mean", "low", "high")]
        typical = [getattr(each, name) for each in differences for name in ("median", "trimmed_mean")]
        low, high = robust_limits(drawn, typical)
        margin = 0.05 * ((high - low) or 1.0)
        _linear_axis(ax, "x", 4)
        ax.set_xlim(low - margin, high + margin)
        names = []
        for place, (variant, pair) in enumerate(comparison.pairs):
            y, color = place + 0.66, colors[variant.cell.family]
            mean, *ends = (float(getattr(pair.difference, name)) for name in ("mean", "low", "high"))
            beside = f"{better(pair.wins)} of {pair.wins.n} seeds" if pair.wins.n else better(pair.wins)
            if mean < low - margin or mean > high + margin:
                beside = f"mean {number(mean)} {'→' if mean > 0 else '←'}"
            names.append((variant.label, beside))
            if pair.difference.has_band:
                ax.plot(ends, [y, y], color=color, linewidth=2.2, solid_capstyle="round")
            ax.plot([mean], [y], "o", color=color, markersize=5.5, markeredgewidth=0)
            ax.plot([float(pair.difference.median)] * 2, [y - 0.16, y + 0.16], color=color, linewidth=1.2, gid="median")
        for place in range(len(names)):  # beside the marks alone: through a name it would be in the way
            ax.plot([0, 0], [place + 0.44, place + 0.92], color=MUTED, linewidth=1.0)
        _row_names(ax, names)
        _axis_names(ax, f"regret minus that of {shortened(best.label, 190)}", "")

    return Picture(
        "paired",
        setting.title,
        setting.detail,
        f"Differences of final regret to {best.label}, seed by seed, on {setting.title} ({setting.detail}), mean and "
        f"interval: {'; '.join(told)}.",
        draw,
        height=_rows_height(len(comparison.pairs)),
    )


def _parameter(panel: ParameterPanel, colors: Mapping[str, str]) -> Picture:
    ends = [f"{line.label} from {number(line.band.mean[0])} to {number(line.band.mean[-1])}" for line in panel.lines]
    name = parameter_name(panel.parameter)

    def draw(ax: Axes) -> None:
        _frame(ax)
        everything = np.concatenate([line.band.at for line in panel.lines])
        bands = [line.band for line in (*panel.lines, *panel.level)]
        means = np.concatenate([band.mean for band in bands])
        means = means[np.isfinite(means)]
        low, high = robust_limits([means], [band.median for band in bands], log=True)
        log = bool(means.size and np.all(means > 0) and high / low > WIDE)
        floor, top = _floor(bands) if log else 0.0, _top(bands, log=log)
        labels = []
        seen: dict[str, int] = {}
        for line in panel.lines:
            band, color = line.band, colors[line.family]
            turn = seen.get(line.family, 0)
            seen[line.family] = turn + 1
            _spread(ax, band, color, floor, top, log=log)
            dashes = DASHES[turn % len(DASHES)]
            ax.plot(band.at, band.mean, color=color, linewidth=1.5, linestyle=dashes, marker="o", markersize=3.2)
            if np.isfinite(band.mean).any():
                good = np.isfinite(band.mean)
                labels.append((float(band.at[good][-1]), float(band.mean[good][-1]), line.label, color))
        for line in panel.level:
            level, color = float(line.band.mean[0]), colors[line.family]
            ax.axhline(level, color=color, linewidth=1.2, linestyle=(0, (2, 2)))
            labels.append((float(everything.max()), level, line.label, color))
        low, high = float(everything.min()), float(everything.max())
        if panel.ticks is not None:
            ax.xaxis.set_major_locator(FixedLocator(range(len(panel.ticks))))
            ax.set_xticklabels([shortened(tick, 56) for tick in panel.ticks])
            ax.set_xlim(-0.3, len(panel.ticks) - 0.7)
        elif low > 0 and high / low > WIDE / 2:
            _log_axis(ax, "x", low, high)
            ax.set_xlim(low / 1.1, high * 1.1)
        else:
            _linear_axis(ax, "x")
            margin = 0.03 * (high - low)
            ax.set_xlim(low - margin, high + margin)
        if log:
            _log_axis(ax, "y", floor, top)
            ax.set_ylim(floor, 1.3 * top)
        else:
            _linear_axis(ax, "y")
            ax.set_ylim(min(0.0, float(means.min(initial=0.0))), 1.06 * top if top > 1e-300 else 1.0)
        _axis_names(ax, name, "regret at the horizon")
        _ends(ax, labels, HEIGHT - TOP - BOTTOM)
        _say_outside(ax, [(line.label, line.band) for line in (*panel.lines, *panel.level)])

    return Picture(
        f"parameter-{panel.parameter}",
        panel.title,
        panel.detail,
        f"Mean final regret on {panel.title} ({panel.detail}) against {name}: {'; '.join(ends)}.",
        draw,
        right=_right(line.label for line in (*panel.lines, *panel.level)),
        left=LEFT,
        note=panel.note,
    )


def _growth(title: str, growths: Sequence[Growth], colors: Mapping[str, str]) -> Picture:
    hidden = max(0, len(growths) - SHOWN)
    growths = growths[:SHOWN]
    told = [
        f"{g.label} {'no fit' if g.fit is None else f'{float(g.fit.value):.3f}'}"
        + ("" if g.theory is None else f" (bound {g.theory:.3f})")
        for g in growths
    ]

    def draw(ax: Axes) -> None:
        _frame(ax)
        floor = _floor([g.band for g in growths])
        top = max(_top([g.band for g in growths], log=True), 2 * floor)
        ends, horizons = [], []
        seen: dict[str, int] = {}
        for growth in growths:
            band, color = growth.band, colors[growth.family]
            seen[growth.family] = turn = seen.get(growth.family, 0) + 1
            horizons += [float(band.at[0]), float(band.at[-1])]
            good = band.mean > 0
            ends.append((float(band.at[-1]), float(max(band.mean[-1], floor)), growth.label, color))
            if not good.any():
                continue
            at, mean = band.at[good], band.mean[good]
            known = good & np.isfinite(band.low) & (band.mean <= top)
            below, above = (np.maximum(edge[known], floor) for edge in (band.low, band.high))
            ax.vlines(band.at[known], below, above, color=color, linewidth=1.2)
            ax.plot(at, mean, "o", color=color, markersize=3.6, markeredgewidth=0)
            ax.plot(band.at, band.median, "_", color=color, markersize=7, markeredgewidth=0.9, gid="median")
            if growth.fit is not None:
                slope, ends_at = float(growth.fit.value), np.array([at[0], at[-1]])
                middle = math.exp(float(np.log(mean).mean()) - slope * float(np.log(at).mean()))
                dashes = DASHES[(turn - 1) % len(DASHES)]
                ax.plot(ends_at, middle * ends_at**slope, color=color, linewidth=1.4, linestyle=dashes, gid="fit")
            if growth.theory is not None:
                ax.plot(at, mean[-1] * (at / at[-1]) ** growth.theory, ":", color=color, linewidth=1.1, gid="theory")
        low, high = min(horizons), max(horizons)
        _log_axis(ax, "x", low, high)
        _log_axis(ax, "y", floor, top)
        ax.set_xlim(low / 1.1, high * 1.1)
        ax.set_ylim(floor, 1.3 * top)
        _axis_names(ax, "horizon (pulls)", "regret at the horizon")
        _ends(ax, ends, HEIGHT - TOP - BOTTOM)
        _say_outside(ax, [(g.label, g.band) for g in growths])

    note = f"{hidden} more in the table below." if hidden else ""
    return Picture(
        "growth",
        title,
        "",
        f"Final regret against the horizon on {title}; fitted exponents: {', '.join(told)}.",
        draw,
        right=_right(growth.label for growth in growths),
        left=LEFT,
        note=note,
    )


def _speed(timed: Sequence[Variant], colors: Mapping[str, str]) -> Picture:
    policies = list(dict.fromkeys(variant.cell.policy for variant in timed))
    rates = {policy: np.array([v.rate for v in timed if v.cell.policy == policy]) for policy in policies}
    policies.sort(key=lambda policy: -float(np.median(rates[policy])))
    labels = {policy: next(v.cell.label for v in timed if v.cell.policy == policy) for policy in policies}
    families = {variant.cell.policy: variant.cell.family for variant in timed}
    told = [f"{labels[policy]} {number(np.median(rates[policy]))}" for policy in policies]

    def draw(ax: Axes) -> None:
        _frame(ax)
        everything = np.concatenate(list(rates.values()))
        low, high = float(everything.min()), float(everything.max())
        _log_axis(ax, "x", low / 2, high * 2)
        ax.set_xlim(low / 2, high * 2)
        names = []
        for place, policy in enumerate(policies):
            found, y, color = rates[policy], place + 0.66, colors[families[policy]]
            middle = float(np.median(found))
            cells = f"{found.size} cell{'s' if found.size > 1 else ''}"
            names.append((labels[policy], f"{plain_value(int(middle))}/s, {cells}"))
            ax.plot([low / 2, middle], [y, y], color=color, linewidth=5, alpha=0.35, solid_capstyle="butt")
            lift = (np.arange(found.size) * 0.6180339887 % 1 - 0.5) * 0.3 * (found.size > 1)
            ax.plot(found[:400], y + lift[:400], "o", color=color, markersize=3.2, alpha=0.7, markeredgewidth=0)
        _row_names(ax, names)
        _axis_names(ax, "pulls per second, all seeds together (log axis)", "")

    return Picture(
        "speed",
        "Pulls per second",
        "median over cells",
        f"Pulls per second by policy, median over cells: {', '.join(told)}.",
        draw,
        height=_rows_height(len(policies)),
    )
