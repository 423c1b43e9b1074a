"""The rows of the summary table, for Markdown, LaTeX, CSV and the page."""

from __future__ import annotations

import math
from typing import Any

from linbet_jax.report.figures import number
from linbet_jax.report.gather import Report, Setting, Variant, parameter_name, plain_value
from linbet_jax.statistics import tables
from linbet_jax.statistics.tables import escaped_markdown, latex_longtable, markdown_table
from linbet_jax.sweep.table import LoadedCell

__all__ = ["HEADINGS", "csv_text", "latex", "markdown", "parameters", "rows"]

HEADINGS = ("set", "policy", "seeds", "mean regret", "interval", "median", "trimmed mean", "sd")


def parameters(report: Report) -> tuple[str, ...]:
    """Swept parameters that are columns of the table."""
    return tuple(name for name in report.sweep.swept if name not in ("set", "policy", "label", "horizon", "dtype"))


def rows(report: Report, setting: Setting) -> list[tuple[LoadedCell, Variant | None, list[str]]]:
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
    body = [[_title(setting), *texts] for setting in report.settings for _, _, texts in rows(report, setting)]
    names, *cleaned = [list(map(escaped_markdown, row)) for row in ([HEADINGS[0], *headings(report)], *body)]
    return "\n".join(markdown_table(names, cleaned, left=2 + len(parameters(report))))


def latex(report: Report) -> str:
    """The whole table in LaTeX, for the packages booktabs and longtable."""
    groups = [(_title(setting), [texts for *_, texts in rows(report, setting)]) for setting in report.settings]
    return latex_longtable(headings(report), groups, left=1 + len(parameters(report)))


def csv_text(report: Report) -> str:
    """The table with all digits, one row per cell, empty where there is no number."""
    names = ("cell", "set", "policy", "label", "horizon", *parameters(report), "state", "seeds", "unhealthy")
    statistics = ("mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean")
    body = []
    for setting in report.settings:
        for cell, variant, _ in rows(report, setting):
            fixed: list[Any] = [cell.id, cell.set, cell.policy, cell.label, cell.horizon]
            fixed += [_all_digits(cell.value(name)) for name in parameters(report)]
            final = None if variant is None else variant.final
            fixed += [cell.state, cell.stored, None if final is None else final.unhealthy]
            numbers = [math.nan if final is None else float(getattr(final, name)) for name in statistics]
            numbers += [cell.journey.run_seconds, cell.journey.compile_seconds]
            body.append([*fixed, *map(_all_digits, numbers), cell.error])
    return tables.csv_text([*names, *statistics, "run_seconds", "compile_seconds", "error"], body)


def _all_digits(value: Any) -> Any:
    return value if not isinstance(value, float) else repr(value) if math.isfinite(value) else None
