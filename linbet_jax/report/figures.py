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
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from linbet_jax.plotting import OneUnit, spread_apart, styled
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
from linbet_jax.theory import BOUNDED, regret_exponent

__all__ = ["GRID", "INK", "MUTED", "Picture", "missing_letters_pass", "number", "pictures", "shortened"]

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


def number(value: float) -> str:
    """Four digits, or all before the point, thousands separated: 3.142 or 12,346."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size >= 15 or size < -4:
        return f"{value:.3g}"
    digits = max(0, 3 - size)
    if abs(round(value, digits)) >= 10 ** (size + 1):  # 999.96 is 1,000
        digits = max(0, digits - 1)
    return f"{value:,.{digits}f}"


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
    ends = ", ".join(f"{v.label} {number(float(v.final.mean))}" for v in setting.shown)
    text = (
        f"Mean cumulative regret on {setting.title} ({setting.detail}), healthy seeds: {over}"
        f"{', both axes logarithmic' if log else ''}. At the horizon: {ends}."
    )

    def draw(ax: Axes) -> None:
        _frame(ax)
        shown = setting.shown
        horizon = float(setting.horizon)
        floor = _floor([v.band for v in shown]) if log else 0.0
        ends, firsts, tops = [], [], []
        for variant, dashes in zip(shown, _styles(shown), strict=True):
            band, color = variant.band, colors[variant.cell.family]
            drawn = np.isfinite(band.mean) & ((band.mean > 0) & (band.at > 0) if log else True)
            last = float(np.nan_to_num(band.mean[-1]))
            ends.append((horizon, max(last, floor), _end_label(variant, log=log), color))
            if not drawn.any():
                continue
            at, mean = band.at[drawn], band.mean[drawn]
            firsts.append(float(at[0]))
            tops.append(float(mean.max()))
            if np.isfinite(band.low[drawn]).any():
                below, above = (np.maximum(edge[drawn], floor) for edge in (band.low, band.high))
                ax.fill_between(at, below, above, color=color, alpha=0.18, linewidth=0, gid="band")
                tops.append(float(above.max()))
            if not log:
                at, mean = np.concatenate([[0.0], at]), np.concatenate([[0.0], mean])
            ax.plot(at, mean, color=color, linewidth=1.7, linestyle=dashes, gid="curve")
            if log and variant.cell.family in BOUNDED and dashes == "-":
                slope = regret_exponent(variant.cell.family, _epsilon(variant))
                guide = np.array([horizon / 12, horizon])
                ax.plot(guide, mean[-1] * (guide / horizon) ** slope, ":", color=color, linewidth=1.1, gid="theory")
        top = max(tops, default=1.0) or 1.0
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
    """Lower end of a log axis: below the smallest positive mean that is drawn; 0.1 when there is none."""
    positive = [float(band.mean[band.mean > 0].min()) for band in bands if np.any(band.mean > 0)]
    return _FLOOR * min(positive) if positive else 0.1


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
        f"{v.label}: median {number(float(v.final.median))}, half of the seeds between "
        f"{number(float(v.final.quantile(0.25)))} and {number(float(v.final.quantile(0.75)))}"
        for v in setting.shown
    ]

    def draw(ax: Axes) -> None:
        _frame(ax)
        shown = setting.shown
        values = [v.final.values for v in shown]
        everything = np.concatenate([np.zeros(0), *values])
        low, high = (float(everything.min()), float(everything.max())) if everything.size else (0.0, 1.0)
        log = everything.size > 0 and low > 0 and high / low > WIDE
        if log:
            _log_axis(ax, "x", low, high)
            ax.set_xlim(low / 1.25, high * 1.25)
        else:
            _linear_axis(ax, "x", 4)
            margin = 0.04 * ((high - min(low, 0)) or 1.0)
            ax.set_xlim(min(low, 0.0) - (margin if low < 0 else 0), high + margin)
        names = []
        for place, variant in enumerate(shown):
            color, final = colors[variant.cell.family], variant.final
            y, sample = place + 0.66, final.values
            bad = f", {final.unhealthy} unhealthy" if final.unhealthy else ""
            names.append((variant.label, f"n = {final.n}{bad}"))
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


def _paired(setting: Setting, comparison: Comparison, colors: Mapping[str, str]) -> Picture:
    best = comparison.best
    told = [
        f"{v.label} {number(float(p.difference.mean))}"
        + (f" [{number(float(p.difference.low))}, {number(float(p.difference.high))}]" if p.difference.has_band else "")
        for v, p in comparison.pairs
    ]

    def draw(ax: Axes) -> None:
        _frame(ax)
        names, edges = [], [0.0]
        for place, (variant, pair) in enumerate(comparison.pairs):
            y, color = place + 0.66, colors[variant.cell.family]
            mean, low, high = (float(getattr(pair.difference, name)) for name in ("mean", "low", "high"))
            share = f"{100 * pair.wins.rate:.0f}% of {pair.wins.n} seeds" if pair.wins.n else "no seed"
            names.append((variant.label, f"better in {share}"))
            edges += [edge for edge in (mean, low, high) if math.isfinite(edge)]
            if pair.difference.has_band:
                ax.plot([low, high], [y, y], color=color, linewidth=2.2, solid_capstyle="round")
            ax.plot([mean], [y], "o", color=color, markersize=5.5, markeredgewidth=0)
        low, high = min(edges), max(edges)
        margin = 0.05 * ((high - low) or 1.0)
        _linear_axis(ax, "x", 4)
        ax.set_xlim(low - margin, high + margin)
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
    ends = [
        f"{line.label} from {number(float(line.band.mean[0]))} to {number(float(line.band.mean[-1]))}"
        for line in panel.lines
    ]
    name = parameter_name(panel.parameter)

    def draw(ax: Axes) -> None:
        _frame(ax)
        everything = np.concatenate([line.band.at for line in panel.lines])
        means = [line.band.mean for line in panel.lines] + [np.array([level]) for *_, level in panel.level]
        drawn = np.concatenate(means)
        drawn = drawn[np.isfinite(drawn)]
        log = bool(drawn.size and np.all(drawn > 0) and drawn.max() / drawn.min() > WIDE)
        floor = 0.6 * float(drawn.min()) if log else 0.0
        tops, labels = [1e-300], []
        seen: dict[str, int] = {}
        for line in panel.lines:
            band, color = line.band, colors[line.family]
            turn = seen.get(line.family, 0)
            seen[line.family] = turn + 1
            if np.isfinite(band.low).any():
                below, above = np.maximum(band.low, floor), np.maximum(band.high, floor)
                ax.fill_between(band.at, below, above, color=color, alpha=0.18, linewidth=0, gid="band")
                tops.append(float(np.nanmax(above)))
            dashes = DASHES[turn % len(DASHES)]
            ax.plot(band.at, band.mean, color=color, linewidth=1.5, linestyle=dashes, marker="o", markersize=3.2)
            if np.isfinite(band.mean).any():
                tops.append(float(np.nanmax(band.mean)))
                good = np.isfinite(band.mean)
                labels.append((float(band.at[good][-1]), float(band.mean[good][-1]), line.label, color))
        for family, label, level in panel.level:
            ax.axhline(level, color=colors[family], linewidth=1.2, linestyle=(0, (2, 2)))
            tops.append(level)
            labels.append((float(everything.max()), level, label, colors[family]))
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
            _log_axis(ax, "y", floor, max(tops))
            ax.set_ylim(floor, 1.3 * max(tops))
        else:
            _linear_axis(ax, "y")
            ax.set_ylim(min(0.0, float(drawn.min(initial=0.0))), 1.06 * max(tops) if max(tops) > 1e-300 else 1.0)
        _axis_names(ax, name, "regret at the horizon")
        _ends(ax, labels, HEIGHT - TOP - BOTTOM)

    return Picture(
        f"parameter-{panel.parameter}",
        panel.title,
        panel.detail,
        f"Mean final regret on {panel.title} ({panel.detail}) against {name}: {'; '.join(ends)}.",
        draw,
        right=_right([line.label for line in panel.lines] + [label for _, label, _ in panel.level]),
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
        tops, ends, horizons = [2 * floor], [], []
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
            tops.append(float(mean.max()))
            if np.isfinite(band.low[good]).any():
                below, above = (np.maximum(edge[good], floor) for edge in (band.low, band.high))
                ax.vlines(at, below, above, color=color, linewidth=1.2)
                tops.append(float(above.max()))
            ax.plot(at, mean, "o", color=color, markersize=3.6, markeredgewidth=0)
            if growth.fit is not None:
                slope, ends_at = float(growth.fit.value), np.array([at[0], at[-1]])
                middle = math.exp(float(np.log(mean).mean()) - slope * float(np.log(at).mean()))
                dashes = DASHES[(turn - 1) % len(DASHES)]
                ax.plot(ends_at, middle * ends_at**slope, color=color, linewidth=1.4, linestyle=dashes, gid="fit")
            if growth.theory is not None:
                ax.plot(at, mean[-1] * (at / at[-1]) ** growth.theory, ":", color=color, linewidth=1.1, gid="theory")
        low, high = min(horizons), max(horizons)
        _log_axis(ax, "x", low, high)
        _log_axis(ax, "y", floor, max(tops))
        ax.set_xlim(low / 1.1, high * 1.1)
        ax.set_ylim(floor, 1.3 * max(tops))
        _axis_names(ax, "horizon (pulls)", "regret at the horizon")
        _ends(ax, ends, HEIGHT - TOP - BOTTOM)

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
    told = [f"{labels[policy]} {number(float(np.median(rates[policy])))}" for policy in policies]

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
