"""Which pictures a report has, and what each shows in words; `figures.pictures` draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from linbet_jax.figures import pictures as drawing
from linbet_jax.figures.pictures import GrowthLine, RowMark, label_room, rows_height
from linbet_jax.figures.sheets import Picture
from linbet_jax.report import gather
from linbet_jax.statistics.regret import Share, Summary
from linbet_jax.statistics.tables import between, grouped, number


def pictures(report: gather.SweepReport, *, panels: int) -> list[Picture]:
    """Every picture of a report, at most `panels` of each kind: the rest of a large sweep is in the tables alone."""
    made: list[Picture] = []
    for setting in [s for s in report.settings if s.shown][:panels]:
        made += [_regret(setting, log=False), _regret(setting, log=True), _final(setting)]
        if setting.comparison is not None:
            made.append(_paired(setting, setting.comparison))
    for of_parameter in grouped(report.parameters, lambda panel: panel.parameter).values():
        made += [_parameter(panel) for panel in of_parameter[:panels]]
    for title, lines in list(grouped(report.growths, lambda line: line.title).items())[:panels]:
        made.append(_growth(title, lines))
    timed = [variant for variant in report.variants if math.isfinite(variant.rate)]
    if timed:
        made.append(_speed(timed))
    return made


def better(wins: Share) -> str:
    """In how many seeds the first of two did better; a tie is no win."""
    if not wins.n:
        return "no healthy seed in common"
    ties = f", equal in {100 * wins.ties / wins.n:.0f}%" if wins.ties else ""
    return f"better in {100 * wins.wins / wins.n:.0f}%{ties}"


def _averages(summary: Summary) -> str:
    """A mean with what stands beside it."""
    mean, median, trimmed = (number(value, 4) for value in (summary.mean, summary.median, summary.trimmed_mean))
    return f"{mean} (median {median}, trimmed mean {trimmed})"


def _regret(setting: gather.Setting, *, log: bool) -> Picture:
    shown, hidden = setting.shown, len(setting.variants) - len(setting.shown)
    which = "first and best" if len(shown) > len({v.cell.policy for v in shown}) else "best"
    seeds = sorted(variant.final.n for variant in shown)
    over = f"{seeds[0]}" if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
    ends = ", ".join(f"{v.label} {_averages(v.final)}" for v in shown)
    return Picture(
        kind="regret-loglog" if log else "regret",
        title=setting.title,
        detail=setting.detail,
        text=f"Mean cumulative regret on {setting.title} ({setting.detail}), healthy seeds: {over}"
        f"{', both axes logarithmic' if log else ''}. At the horizon: {ends}.",
        draw=partial(drawing.draw_regret, lines=shown, horizon=setting.horizon, log=log),
        right=label_room(drawing.end_label(variant, log=log) for variant in shown),
        left=drawing.LEFT,
        note=f"{hidden} more in the table; drawn: the {which} of each policy." if hidden else "",
    )


def _final(setting: gather.Setting) -> Picture:
    words, rows = [], []
    for variant in setting.shown:
        final = variant.final
        quartiles = " and ".join(number(final.quantile(share), 4) for share in (0.25, 0.75))
        words.append(f"{variant.label}: mean {_averages(final)}, half of the seeds between {quartiles}")
        beside = f"n = {final.n}{f', {final.unhealthy} unhealthy' if final.unhealthy else ''}"
        rows.append(RowMark(variant.label, variant.color, beside, final))
    return Picture(
        kind="final-regret",
        title=setting.title,
        detail=setting.detail,
        text=f"Final regret by policy on {setting.title} ({setting.detail}). {'; '.join(words)}.",
        draw=partial(drawing.draw_boxes, rows=rows),
        height=rows_height(len(rows)),
    )


def _paired(setting: gather.Setting, comparison: gather.PairedComparison) -> Picture:
    best, words, rows = comparison.best.label, [], []
    for variant, pair in comparison.pairs:
        difference, wins = pair.difference, pair.wins
        band = f" ({between(difference, 4)})" if difference.has_band else ""
        words.append(f"{variant.label} {_averages(difference)}{band}")
        beside = f"{better(wins)} of {wins.n} seeds" if wins.n else better(wins)
        rows.append(RowMark(variant.label, variant.color, beside, difference))
    return Picture(
        kind="paired",
        title=setting.title,
        detail=setting.detail,
        text=f"Differences of final regret to {best}, seed by seed, on {setting.title} ({setting.detail}), mean and "
        f"interval: {'; '.join(words)}.",
        draw=partial(drawing.draw_differences, rows=rows, best=best),
        height=rows_height(len(rows)),
    )


def _parameter(panel: gather.ParameterPanel) -> Picture:
    name, lines = gather.parameter_name(panel.parameter), (*panel.lines, *panel.level)
    ends = [
        f"{line.label} from {number(line.band.mean[0], 4)} to {number(line.band.mean[-1], 4)}" for line in panel.lines
    ]
    return Picture(
        kind=f"parameter-{panel.parameter}",
        title=panel.title,
        detail=panel.detail,
        text=f"Mean final regret on {panel.title} ({panel.detail}) against {name}: {'; '.join(ends)}.",
        draw=partial(
            drawing.draw_parameter,
            lines=panel.lines,
            level=panel.level,
            name=name,
            ticks=panel.ticks,
        ),
        right=label_room(line.label for line in lines),
        left=drawing.LEFT,
        note=panel.note,
    )


def _growth(title: str, lines: Sequence[GrowthLine]) -> Picture:
    shown, hidden = lines[: gather.SHOWN], max(0, len(lines) - gather.SHOWN)
    exponents = [
        f"{line.label} {'no fit' if line.fit is None else f'{float(line.fit.value):.3f}'}"
        + ("" if line.theory is None else f" (bound {line.theory:.3f})")
        for line in shown
    ]
    return Picture(
        kind="growth",
        title=title,
        detail="",
        text=f"Final regret against the horizon on {title}; fitted exponents: {', '.join(exponents)}.",
        draw=partial(drawing.draw_growth, lines=shown),
        right=label_room(line.label for line in shown),
        left=drawing.LEFT,
        note=f"{hidden} more in the table below." if hidden else "",
    )


def _speed(timed: Sequence[gather.PolicyVariant]) -> Picture:
    marks = []
    for variants in grouped(timed, lambda variant: variant.cell.policy).values():
        cell, rates = variants[0].cell, np.array([variant.rate for variant in variants])
        together = gather.pulls_per_second(variant.cell for variant in variants)
        beside = f"{number(together, 4)}/s, {rates.size} cell{'s' if rates.size > 1 else ''}"
        marks.append((together, RowMark(cell.label, variants[0].color, beside, rates)))
    marks.sort(key=lambda mark: -mark[0])
    rows = [row for _, row in marks]
    words = [f"{row.label} {number(together, 4)}" for together, row in marks]
    return Picture(
        kind="speed",
        title="Pulls per second",
        detail="all cells together; where others compiled beside them, fewer than alone",
        text=f"Pulls per second by policy, all cells together: {', '.join(words)}.",
        draw=partial(drawing.draw_rates, rows=rows, together=[together for together, _ in marks]),
        height=rows_height(len(rows)),
    )
