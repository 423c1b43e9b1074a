"""How numbers, times and tables are written: Markdown, LaTeX, CSV and a terminal's columns."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, SupportsFloat, TypeVar

if TYPE_CHECKING:
    from linbet_jax.statistics.regret import Estimate, Summary

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "…": r"\ldots{}",
        "—": "---",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "×": r"$\times$",
        "±": r"$\pm$",
        "–": "--",
        "−": "$-$",
        "≥": r"$\ge$",
        "≤": r"$\le$",
        "ε": r"$\varepsilon$",
        "β": r"$\beta$",
        "θ": r"$\theta$",
        "δ": r"$\delta$",
        "λ": r"$\lambda$",
        "∞": r"$\infty$",
    }
)


def number(value: SupportsFloat, digits: int | None = None) -> str:
    """A number for people: all digits before the point, thousands separated, and a dash for what does not exist.

    It has so many significant digits, zeros at the end too: 3.142 or 12,346 for four. By default it has three, without
    zeros, and is 0 below 1e-6, which sums of thousands leave when they are rounded.
    """
    shown = float(value)
    if math.isnan(shown) or (digits and math.isinf(shown)):
        return "–"
    if digits and shown:
        size = int(f"{shown:.{digits - 1}e}".split("e")[1])  # of the rounded number: 999.96 is 1,000
        return f"{shown:,.{max(0, digits - 1 - size)}f}" if -4 <= size < 15 else f"{shown:.3g}"
    if math.isinf(shown):
        return "∞" if shown > 0 else "−∞"
    if abs(shown) < 1e-6:
        return "0"
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:.3g}"


def duration(seconds: float) -> str:
    """A time as people say it, e.g. `40 s`, `3 min`, `2.5 h`, to two digits."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"


def interval(estimate: Summary | Estimate) -> str:
    """An interval, e.g. `[120, 140]`; a dash for none."""
    return "–" if math.isnan(estimate.low) else f"[{number(estimate.low)}, {number(estimate.high)}]"


def between(estimate: Summary | Estimate, digits: int | None = None, *, places: int | None = None) -> str:
    """An interval in a sentence, e.g. `2,201 to 2,202`, with ends as `number` writes them or to decimal places."""
    ends = float(estimate.low), float(estimate.high)
    written = (number(end, digits) if places is None else f"{end:.{places}f}" for end in ends)
    return "–" if math.isnan(ends[0]) else " to ".join(written)


def span(value: SupportsFloat, low: SupportsFloat, high: SupportsFloat, digits: int = 3) -> str:
    """A number to so many decimal places and its interval, e.g. `0.667 [0.651, 0.683]`; a dash for none."""
    shown, *ends = (f"{float(each):.{digits}f}" for each in (value, low, high))
    if shown == "nan":
        return "–"
    return shown if "nan" in ends else f"{shown} [{', '.join(ends)}]"


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their key, keys and items in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int | None = None) -> list[str]:
    """Lines of a Markdown table, an empty one last; a bar in a cell is escaped.

    The first `left` columns are aligned to the left, the others to the right; None says nothing of alignment.
    """
    names, *body = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (header, *rows))
    marks = "---|" * len(header) if left is None else ":---|" * left + "---:|" * (len(header) - left)
    return [names, f"|{marks}", *body, ""]


def escaped_markdown(text: str) -> str:
    """Plain text for a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("<", "&lt;").replace("\n", " ")


def latex_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, label: str) -> str:
    r"""A floating LaTeX table that needs the package booktabs.

    Cells are plain text, whose signs are escaped, except between dollars: a part between two dollar signs is passed on.
    """
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_latex(caption)}}}\label{{{label}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule",
        _latex_row(map(_latex, header)),
        r"\midrule",
        *(_latex_row(map(_latex, row)) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def latex_longtable(header: Sequence[str], groups: Iterable[tuple[str, Iterable[Sequence[str]]]], *, left: int) -> str:
    r"""A LaTeX table of any length, a title above each group of rows; needs the packages booktabs and longtable.

    Everything is plain text; the first `left` columns are aligned to the left, the others to the right.
    """
    parts = [
        [
            rf"\multicolumn{{{len(header)}}}{{l}}{{\emph{{{escaped_latex(title)}}}}} \\*",
            *(_latex_row(map(escaped_latex, row)) for row in rows),
        ]
        for title, rows in groups
    ]
    lines = [
        r"% needs \usepackage{booktabs,longtable}",
        rf"\begin{{longtable}}{{{'l' * left}{'r' * (len(header) - left)}}}",
        r"\toprule",
        _latex_row(map(escaped_latex, header)),
        r"\midrule\endhead",
        "\n\\midrule\n".join("\n".join(part) for part in parts),
        r"\bottomrule",
        r"\end{longtable}",
        "",
    ]
    return "\n".join(lines)


def _latex_row(cells: Iterable[str]) -> str:
    """One row; a bracket or a star at its start would belong to the end of the row before it."""
    return " & ".join(f"{{{cell}}}" if cell.startswith(("[", "*")) else cell for cell in cells) + r" \\"


def _latex(text: str) -> str:
    """Escapes what is not between dollars."""
    parts = text.split("$")
    return "".join(escaped_latex(part) if i % 2 == 0 else f"${part}$" for i, part in enumerate(parts))


def escaped_latex(text: str) -> str:
    """Plain text for LaTeX."""
    return text.replace("\n", " ").translate(_LATEX)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]], *, digits: int | None = 10) -> str:
    """CSV: floats to so many digits, None for all of them, and an empty field for NaN and None."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(value, digits) for value in row] for row in rows)
    return stream.getvalue()


def _field(value: object, digits: int | None) -> object:
    if value is None:
        return ""
    if isinstance(value, float):  # NumPy's float64 too
        return "" if math.isnan(value) else repr(float(value)) if digits is None else f"{value:.{digits}g}"
    return value


def aligned_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table for a terminal: the first `left` columns aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        places = enumerate(zip(cells, widths, strict=True))
        return "  ".join(f"{cell:<{width}}" if i < left else f"{cell:>{width}}" for i, (cell, width) in places).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
