"""The rows of the summary table, for Markdown, LaTeX, CSV and the page."""

from __future__ import annotations

from typing import Any

from linbet_jax.report.gather import PolicyVariant, Setting, SweepReport, parameter_name, plain_value
from linbet_jax.statistics import tables
from linbet_jax.statistics.tables import between, escaped_markdown, number
from linbet_jax.sweep.table import LoadedCell

QUANTILES = (0.9, 0.99)  # of the final regret over seeds, shown beside mean and median
ABOVE = "above uniform"  # share of seeds whose final regret is above uniform play's mean, where that is in the sweep
_QUANTILE_NAMES = [f"{probability:g} quantile" for probability in QUANTILES]


def rows(report: SweepReport, setting: Setting) -> list[tuple[LoadedCell, PolicyVariant | None, list[str]]]:
    """A setting's rows in the order of the sweep file: (cell, its variant, the row's texts); absent cells say why."""
    variants = {variant.cell.id: variant for variant in setting.variants}
    columns = statistics(report)
    lines = []
    for cell in setting.cells:
        variant = variants.get(cell.id)
        texts = [setting.labels[cell.id], *(plain_value(cell.value(name)) for name in report.sweep.parameters)]
        if variant is None:
            texts += [cell.state, *["–"] * len(columns)]
        else:
            final = variant.final
            count = f"{final.n}" if not final.unhealthy else f"{final.n} of {final.seeds}, {final.unhealthy} unhealthy"
            if cell.state == "partial":
                count += f" (of {cell.seeds} asked)"
            shown = (final.mean, final.median, *final.quantile(QUANTILES), final.trimmed_mean, final.sd)
            mean, *others = (number(value, 4) for value in shown)
            texts += [count, mean, between(final, 4), *others]
            if ABOVE in columns:
                share = _above_uniform(variant, setting)
                texts.append("–" if share is None else f"{share:.1%}")
        lines.append((cell, variant, texts))
    return lines


def headings(report: SweepReport) -> list[str]:
    """Of the columns of `rows`."""
    return ["policy", *map(parameter_name, report.sweep.parameters), "seeds", *statistics(report)]


def statistics(report: SweepReport) -> list[str]:
    """Of those of its columns that hold statistics, the last ones."""
    above = [ABOVE] if any(_uniform(setting) for setting in report.settings) else []
    return ["mean regret", "interval", "median", *_QUANTILE_NAMES, "trimmed mean", "sd", *above]


def _uniform(setting: Setting) -> PolicyVariant | None:
    """Uniform play in this setting, if it has a healthy seed."""
    return next((variant for variant in setting.variants if variant.family == "uniform" and variant.final.n), None)


def _above_uniform(variant: PolicyVariant | None, setting: Setting) -> float | None:
    """The share of a policy's healthy seeds above uniform play's mean; None for uniform play and without it."""
    uniform = _uniform(setting)
    if variant is None or uniform is None or variant.family == "uniform" or not variant.final.n:
        return None
    return float(variant.final.exceeding(float(uniform.final.mean)).value)


def markdown(report: SweepReport) -> str:
    """The whole table as GitHub's Markdown."""
    body = [[setting.name, *texts] for setting in report.settings for _, _, texts in rows(report, setting)]
    head, *cleaned = [list(map(escaped_markdown, row)) for row in (["set", *headings(report)], *body)]
    return "\n".join(tables.markdown_table(head, cleaned, left=2 + len(report.sweep.parameters)))


def latex(report: SweepReport) -> str:
    """The whole table in LaTeX, for the packages booktabs and longtable."""
    groups = [(setting.name, [texts for *_, texts in rows(report, setting)]) for setting in report.settings]
    return tables.latex_longtable(headings(report), groups, left=1 + len(report.sweep.parameters))


def csv_text(report: SweepReport) -> str:
    """The table with all digits, one row per cell, empty where there is no number."""
    names = ("cell", "set", "policy", "label", "horizon", *report.sweep.parameters, "state", "seeds", "unhealthy")
    fields_of_final = ("mean", "sd", "standard_error", "low", "high", "median", "trimmed_mean")
    above = [ABOVE] if ABOVE in statistics(report) else []
    body = []
    for setting in report.settings:
        for cell, variant, _ in rows(report, setting):
            final = None if variant is None else variant.final
            fields: list[Any] = [cell.id, cell.set, cell.policy, cell.label, cell.horizon]
            fields += [cell.value(name) for name in report.sweep.parameters]
            fields += [cell.state, cell.stored, None if final is None else final.unhealthy]
            fields += [None if final is None else float(getattr(final, name)) for name in fields_of_final]
            fields += [None] * len(QUANTILES) if final is None else map(float, final.quantile(QUANTILES))
            fields += [_above_uniform(variant, setting)] * len(above)
            fields += [cell.journey.run_seconds, cell.journey.compile_seconds, cell.error]
            body.append(fields)
    head = [*names, *fields_of_final, *_QUANTILE_NAMES, *above, "run_seconds", "compile_seconds", "error"]
    return tables.csv_text(head, body, digits=None)
