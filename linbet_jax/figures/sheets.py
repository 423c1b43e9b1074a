"""A report's pictures made into what can be kept: inline SVG for the page, PDF and PNG for papers and slides."""

from __future__ import annotations

import dataclasses
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from linbet_jax.figures import pictures as drawing
from linbet_jax.figures.canvas import STYLE, styled, write_figure
from linbet_jax.figures.pictures import HEIGHT, SIDE, WIDTH, missing_letters_pass, shortened

# Widths of text are measured in the page's own letters, which matplotlib brings with it: no font of the machine counts.
PAGE_STYLE: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "xtick.labelsize": 9.6,
    "ytick.labelsize": 9.6,
    "axes.labelsize": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "linbet_jax",
    "axes.linewidth": 0.8,
    "path.simplify_threshold": 0.2,
}
# Sheets have the page's letters.
SHEET_STYLE: Mapping[str, Any] = {
    **STYLE,
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
}
COLUMNS, ROWS = 3, 4  # pictures on one sheet
TITLE, GAP = 20.0, 10.0  # points above a picture, and between two
PARTS = ("curve", "band", "theory", "fit")
VARIABLES = {drawing.INK: "var(--ink)", drawing.MUTED: "var(--muted)", drawing.GRID: "var(--line)"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Picture:
    """One set of axes."""

    # groups pictures: "regret", "regret-loglog", "final-regret", "parameter-NAME", "growth", "paired", "speed"
    kind: str
    title: str  # of the panel
    detail: str  # beside the title
    text: str  # what it shows, in words and numbers, for those who cannot see it
    draw: Callable[[Axes], None]  # puts it on empty axes
    height: float = HEIGHT  # points
    right: float = SIDE  # points to the right of the axes, for labels
    left: float = SIDE  # points to the left
    note: str = ""  # below the picture


def inline_svg(picture: Picture, name: str) -> str:
    """The picture as an SVG element for an HTML page: no size of its own, the page's colours and font.

    The name is put before every id in it, as a page holds many pictures.
    """
    with styled(PAGE_STYLE), missing_letters_pass():
        figure = Figure(figsize=(WIDTH / 72, picture.height / 72))
        picture.draw(figure.add_axes(_place(picture, 0, 0, WIDTH, picture.height)))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _lean(buffer.getvalue(), name, picture)


def save_pictures(pictures: Sequence[Picture], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Sheets of pictures of one kind, as PDF and PNG; several sheets are numbered.

    The folder is made when it does not exist. Returns the files, in the order of the kinds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in dict.fromkeys(picture.kind for picture in pictures):
        of_kind = [picture for picture in pictures if picture.kind == kind]
        size = COLUMNS * ROWS
        for sheet, begun in enumerate(range(0, len(of_kind), size), 1):
            stem = re.sub(r"[^A-Za-z0-9_.-]", "-", kind) + (f"-{sheet}" if len(of_kind) > size else "")
            with styled(SHEET_STYLE), missing_letters_pass():
                figure = _sheet(of_kind[begun : begun + size])
                for suffix in formats:
                    path = folder / f"{stem}.{suffix}"
                    write_figure(figure, path, suffix, SHEET_STYLE)
                    written.append(path)
    return written


def _place(picture: Picture, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    """Axes of a picture whose lower left corner is at (x, y) points on a figure of that size, in its fractions."""
    inner = WIDTH - picture.left - picture.right, picture.height - drawing.TOP - drawing.BOTTOM
    return (x + picture.left) / width, (y + drawing.BOTTOM) / height, inner[0] / width, inner[1] / height


def _sheet(pictures: Sequence[Picture]) -> Figure:
    columns = min(COLUMNS, len(pictures))
    lines = [pictures[begun : begun + columns] for begun in range(0, len(pictures), columns)]
    heights = [max(picture.height for picture in line) + TITLE for line in lines]
    width = columns * WIDTH + (columns - 1) * GAP
    height = sum(heights) + (len(lines) - 1) * GAP
    figure = Figure(figsize=(width / 72, height / 72))
    top = height
    for line, tall in zip(lines, heights, strict=True):
        for column, picture in enumerate(line):
            x = column * (WIDTH + GAP)
            y = top - TITLE - picture.height
            picture.draw(figure.add_axes(_place(picture, x, y, width, height)))
            title = f"{picture.title}, {picture.detail}" if picture.detail else picture.title
            title = shortened(title, WIDTH - 2 * SIDE)
            text = figure.text((x + SIDE) / width, (top - 5) / height, title, va="top", ha="left", fontsize=10.5)
            text.set_parse_math(False)
        top -= tall + GAP
    return figure


def _lean(svg: str, name: str, picture: Picture) -> str:
    """What a page needs of matplotlib's SVG, with short numbers and with ids that no other picture has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(
        r"<metadata>.*?</metadata>|<style type=\"text/css\">.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL
    )
    used = set(re.findall(r"url\(#([^)]+)\)", body)) | set(re.findall(r"xlink:href=\"#([^\"]+)\"", body))

    def named(match: re.Match[str]) -> str:
        """Names of parts that tests and style sheets look for become classes; what nothing refers to goes."""
        part = match[1]
        return f' id="{name}-{part}"' if part in used else f' class="{part}"' if part in PARTS else ""

    body = re.sub(r' id="([^"]+)"', named, body)
    body = body.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    body = re.sub(r" (?:d|x|y|transform|points)=\"[^\"]*\"", lambda m: _short_numbers(m[0]), body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, variable)
    text = html.escape(picture.text)
    opening = f'<svg class="plot" viewBox="0 0 {WIDTH:g} {picture.height:g}" role="img" aria-label="{text}">'
    return opening + re.sub(r"\s*\n\s*", " ", body[body.index(">") + 1 :]).strip()


def _short_numbers(text: str) -> str:
    return re.sub(r"-?\d+\.\d{2,}", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), text)
