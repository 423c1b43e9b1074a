"""The summary table as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from linbet_jax.report.figures import number
from linbet_jax.report.gather import Report, Setting, Variant, parameter_name, plain_value
from linbet_jax.sweep.table import Cell
from linbet_jax.tables import escaped_latex

__all__ = ["HEADINGS", "csv_text", "latex", "markdown", "parameters", "rows"]

HEADINGS = ("set", "policy", "seeds", "mean regret", "interval", "median", "trimmed mean", "sd")


def parameters(report: Report) -> tuple[str, ...]:
    """Swept parameters that are columns of the table."""
    return tuple(name for name in report.sweep.swept if name not in ("set", "policy", "label", "horizon", "dtype"))


def rows(report: Report, setting: Setting) -> list[tuple[Cell, Variant | None, list[str]]]:
    """A setting's rows in the order of the sweep file: (cell, its variant, the row's texts); absent cells say why."""
    variants = {variant.cell.id: variant for variant in setting.variants}
    absent = {cell.id: cell for cell in setting.absent}
    place = {cell.id: at for at, cell in enumerate(report.sweep.cells)}
    found = []
    for identity in sorted({*variants, *absent}, key=lambda identity: place[identity]):
        variant = variants.get(identity)
        cell = absent[identity] if variant is None else variant.cell
        fixed = [plain_value(cell.value(name)) for name in parameters(report)]
        if variant is None:
            texts = [setting.labels[identity], *fixed, cell.state, *["–"] * 5]
        else:
            final = variant.final
            count = f"{final.n}" if not final.unhealthy else f"{final.n} of {final.seeds}, {final.unhealthy} unhealthy"
            if cell.state == "partial":
                count += f" (of {cell.seeds} asked)"
            band = f"[{number(final.low)}, {number(final.high)}]" if final.has_band else "–"
            numbers = [number(value) for value in (final.mean, final.median, final.trimmed_mean, final.sd)]
            texts = [variant.label, *fixed, count, numbers[0], band, *numbers[1:]]
        found.append((cell, variant, texts))
    return found


def headings(report: Report) -> list[str]:
    """Of the columns of `rows`, after the set's."""
    return [HEADINGS[1], *(parameter_name(name) for name in parameters(report)), *HEADINGS[2:]]


def _title(setting: Setting) -> str:
    return f"{setting.title}, {setting.detail}"


def markdown(report: Report) -> str:
    """The whole table as GitHub's Markdown."""
    names = [HEADINGS[0], *headings(report)]
    left = 2 + len(parameters(report))
    lines = [_piped(names), _piped([":---"] * left + ["---:"] * (len(names) - left))]
    for setting in report.settings:
        lines += [_piped([_title(setting), *texts]) for _, _, texts in rows(report, setting)]
    return "\n".join(lines) + "\n"


def _piped(texts: Sequence[str]) -> str:
    cleaned = (text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for text in texts)
    return f"| {' | '.join(cleaned)} |"


def latex(report: Report) -> str:
    """The whole table in LaTeX, for the packages booktabs and longtable."""
    names = headings(report)
    left = 1 + len(parameters(report))
    lines = [
        "% needs \\usepackage{booktabs,longtable}",
        f"\\begin{{longtable}}{{{'l' * left}{'r' * (len(names) - left)}}}",
        "\\toprule",
        " & ".join(_tex(name) for name in names) + r" \\",
        "\\midrule\\endhead",
    ]
    for at, setting in enumerate(report.settings):
        if at:
            lines.append("\\midrule")
        lines.append(f"\\multicolumn{{{len(names)}}}{{l}}{{\\emph{{{_tex(_title(setting))}}}}} \\\\*")
        # A bracket at the start of a row would be read as the argument of the row's end before it.
        lines += [" & ".join(_tex(text) for text in texts) + r" \\" for _, _, texts in rows(report, setting)]
    return "\n".join([*lines, "\\bottomrule", "\\end{longtable}"]) + "\n"


def _tex(text: str) -> str:
    cleaned = escaped_latex(text.replace("\n", " "))
    return f"{{{cleaned}}}" if cleaned.startswith("[") else cleaned


def csv_text(report: Report) -> str:
    """The table with all digits, one row per cell, empty where there is no number."""
    names = ("cell", "set", "policy", "label", "horizon", *parameters(report), "state", "seeds", "unhealthy")
    statistics = ("mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *statistics, "run_seconds", "compile_seconds", "error"])
    for setting in report.settings:
        for cell, variant, _ in rows(report, setting):
            fixed: list[Any] = [cell.id, cell.set, cell.policy, cell.label, cell.horizon]
            fixed += [_raw(cell.value(name)) for name in parameters(report)]
            final = None if variant is None else variant.final
            fixed += [cell.state, cell.stored, "" if final is None else final.unhealthy]
            numbers = [math.nan if final is None else float(getattr(final, name)) for name in statistics]
            numbers += [cell.journey.run_seconds, cell.journey.compile_seconds]
            writer.writerow([*fixed, *(repr(n) if math.isfinite(n) else "" for n in numbers), cell.error])
    return out.getvalue()


def _raw(value: Any) -> Any:
    return "" if value is None else repr(value) if isinstance(value, float) else value
