"""What every figure stands on: one style, axes of one size, labels at the ends of curves, limits, and saving."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import Formatter
from numpy.typing import ArrayLike, NDArray

from linbet_jax.storage.results import replacing

FloatArray = NDArray[np.float64]
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
_FLOOR = 0.4  # a log axis ends at this fraction of the smallest mean drawn
LABEL_SIZE, LABEL_STEP = 9.2, 9.8  # points, of the names at the curves' ends, and from one to the next
# Inches: a panel, the space between panels, and what the outermost panels leave for labels.
_PANEL_WIDTH, _PANEL_HEIGHT = 2.1, 1.82
_BETWEEN_COLUMNS, _BETWEEN_ROWS = 1.5, 0.73
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.95, 1.02, 0.35, 0.48
_EDGE = 0.15  # title and note stay this far from the figure's sides


def axes_grid(
    labels: Sequence[Sequence[Sequence[str]]], what: str, title: str, note: str, *, panel: float = _PANEL_WIDTH
) -> tuple[Figure, Any]:
    """A figure with rows of axes of one size, below a title and above a note, both wrapped to its width.

    To the right of all axes there is room for their labels, and axes are as high as theirs are, one above the other;
    the usual space where that is more. An axis is `panel` inches wide.
    """
    widths, of_axes = [len(row) for row in labels], [names for row in labels for names in row]
    if len(set(widths)) != 1 or 0 in widths:
        raise ValueError(f"rows must hold equally many {what}, one at least, got {widths}")
    rows, columns, names = len(widths), widths[0], max(map(len, of_axes))
    canvas = StyledFigure(1, 1)
    texts = [canvas.text(0, 0, name, fontsize=LABEL_SIZE, parse_math=False) for each in of_axes for name in each]
    # With a line to the curve.
    room = 0.08 * _PANEL_WIDTH + 0.1 + max((_inches(text)[0] for text in texts), default=0.0)
    right, between = max(_RIGHT, room), max(_BETWEEN_COLUMNS, room + _LEFT - 0.3)
    width = _LEFT + right + columns * panel + (columns - 1) * between
    panel_height = max(_PANEL_HEIGHT, names * LABEL_STEP / 72)
    panels_height = rows * panel_height + (rows - 1) * _BETWEEN_ROWS
    figure = StyledFigure(width, panels_height)
    above = figure.text(0, 0, title, ha="left", va="top", fontsize=12.5, fontweight="bold", parse_math=False)
    below = figure.text(0, 0, note, ha="left", va="bottom", fontsize=9, color="#555555", parse_math=False)
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
            "wspace": between / panel,
            "hspace": _BETWEEN_ROWS / panel_height,
        },
    )
    return figure, axes


def robust_limits(
    values: Iterable[ArrayLike], typical: Iterable[ArrayLike], *, log: bool = False
) -> tuple[float, float]:
    """The lowest and the highest number that an axis should hold, so that a seed far out does not flatten the others.

    Everything typical (medians and trimmed means) is held, and on a linear axis 0. Of the other values that are drawn
    those are that leave what is typical a tenth of a linear axis, or that lie within a factor of 1,000 of it on a
    logarithmic one. Numbers that are not finite, or on a logarithmic axis not positive, do not count; where none does
    the axis goes from 0 to 1.
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


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box, inches = ax.get_position(), figure.get_size_inches()
    return box.width * inches[0] * 72, box.height * inches[1] * 72


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes any figure of matplotlib's whole or not at all, the same bytes for the same figure.

    The suffix of the path says the format: .pdf, .png or .svg.

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
    write_figure(figure, place, kind, STYLE)


def write_figure(figure: Figure, place: Path, kind: str, style: Mapping[str, Any]) -> None:
    """Writes a figure in that style, whose ticks are made only now."""
    metadata: dict[str, Any] = dict.fromkeys(_DATES[kind])
    with styled(style), replacing(place) as temporary:
        figure.savefig(temporary, format=kind, metadata=metadata)


def styled(style: Mapping[str, Any] = STYLE) -> AbstractContextManager[None]:
    """Matplotlib's own defaults with these settings on top, for as long as the block lasts: the user's have no say."""
    return matplotlib.style.context(["default", dict(style)])


class StyledFigure(Figure):
    """A figure in this module's style whenever it is drawn: ticks are made then, and would follow the user's settings.

    A notebook shows it, with pyplot or without.
    """

    def __init__(self, width: float, height: float) -> None:
        """An empty one of this size in inches, on an Agg canvas of its own."""
        super().__init__(figsize=(width, height))
        FigureCanvasAgg(self)

    def draw(self, renderer: RendererBase) -> None:
        """As matplotlib does it."""
        with styled(), np.errstate(over="ignore"):  # ticks beyond the largest float are none
            super().draw(renderer)

    def savefig(self, *arguments: Any, **settings: Any) -> None:
        """As matplotlib does it."""
        with styled(), np.errstate(over="ignore"):
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


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str, bool]], *, lines: int = 1) -> None:
    """Writes each curve's name to the right of its end, moved apart where they would overlap."""
    places = [axis_share(ax, "y", y) for y, *_ in ends]
    spread = spread_apart(places, LABEL_STEP * (1.5 * lines - 0.5) / axes_points(ax)[1], low=0.0, high=1.0)
    for (_, label, color, bold), true, shown in zip(ends, places, spread, strict=True):
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1, "relpos": (0.0, 0.5)}
        weight = "bold" if bold else "normal"
        style: Any = {"color": color, "fontsize": LABEL_SIZE, "fontweight": weight, "ha": "left", "va": "center"}
        at = (1.0, true), (1.08, shown), "axes fraction", "axes fraction"  # the curve's end, the name
        ax.annotate(label, *at, arrow, annotation_clip=False, **style).set_parse_math(False)  # a $ is a dollar


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
