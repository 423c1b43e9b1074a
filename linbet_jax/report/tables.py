"""The rows of the summary table, for Markdown, LaTeX, CSV and the page."""

from __future__ import annotations

from typing import Any

from linbet_jax.report.gather import PolicyVariant, Setting, SweepReport, parameter_name, plain_value, swept_parameters
from linbet_jax.statistics import tables
from linbet_jax.statistics.tables import between, escaped_markdown, number
from linbet_jax.sweep.table import LoadedCell

__all__ = ["QUANTILES", "csv_text", "headings", "latex", "markdown", "rows"]

QUANTILES = (0.9, 0.99)  # of the final regret over seeds, shown beside mean and median
_QUANTILE_NAMES = [f"{probability:g} quantile" for probability in QUANTILES]


def rows(report: SweepReport, setting: Setting) -> list[tuple[LoadedCell, PolicyVariant | None, list[str]]]:
    """A setting's rows in the order of the sweep file: (cell, its variant, the row's texts); absent cells say why."""
    variants = {variant.cell.id: variant for variant in setting.variants}
    lines = []
    for cell in report.sweep.cells:
        if cell.id not in setting.labels:
            continue
        variant = variants.get(cell.id)
        texts = [setting.labels[cell.id], *(plain_value(cell.value(name)) for name in swept_parameters(report.sweep))]
        if variant is None:
            texts += [cell.state, *["–"] * (5 + len(QUANTILES))]
        else:
            final = variant.final
            count = f"{final.n}" if not final.unhealthy else f"{final.n} of {final.seeds}, {final.unhealthy} unhealthy"
            if cell.state == "partial":
                count += f" (of {cell.seeds} asked)"
            shown = (final.mean, final.median, *final.quantile(QUANTILES), final.trimmed_mean, final.sd)
            mean, *others = (number(value, 4) for value in shown)
            texts += [count, mean, between(final, 4), *others]
        lines.append((cell, variant, texts))
    return lines


def headings(report: SweepReport) -> list[str]:
    """Of the columns of `rows`."""
    names = map(parameter_name, swept_parameters(report.sweep))
    return ["policy", *names, "seeds", "mean regret", "interval", "median", *_QUANTILE_NAMES, "trimmed mean", "sd"]


def markdown(report: SweepReport) -> str:
    """The whole table as GitHub's Markdown."""
    body = [[setting.name, *texts] for setting in report.settings for _, _, texts in rows(report, setting)]
    head, *cleaned = [list(map(escaped_markdown, row)) for row in (["set", *headings(report)], *body)]
    return "\n".join(tables.markdown_table(head, cleaned, left=2 + len(swept_parameters(report.sweep))))


def latex(report: SweepReport) -> str:
    """The whole table in LaTeX, for the packages booktabs and longtable."""
    groups = [(setting.name, [texts for *_, texts in rows(report, setting)]) for setting in report.settings]
    return tables.latex_longtable(headings(report), groups, left=1 + len(swept_parameters(report.sweep)))


def csv_text(report: SweepReport) -> str:
    """The table with all digits, one row per cell, empty where there is no number."""
    parameters = swept_parameters(report.sweep)
    names = ("cell", "set", "policy", "label", "horizon", *parameters, "state", "seeds", "unhealthy")
    statistics = ("mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean")
    body = []
    for setting in report.settings:
        for cell, variant, _ in rows(report, setting):
            final = None if variant is None else variant.final
            fields: list[Any] = [cell.id, cell.set, cell.policy, cell.label, cell.horizon]
            fields += [cell.value(name) for name in parameters]
            fields += [cell.state, cell.stored, None if final is None else final.unhealthy]
            fields += [None if final is None else float(getattr(final, name)) for name in statistics]
            fields += [None] * len(QUANTILES) if final is None else map(float, final.quantile(QUANTILES))
            fields += [cell.journey.run_seconds, cell.journey.compile_seconds, cell.error]
            body.append(fields)
    head = [*names, *statistics, *_QUANTILE_NAMES, "run_seconds", "compile_seconds", "error"]
    return tables.csv_text(head, body, digits=None)
