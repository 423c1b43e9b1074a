"""What `reproduce remark3` writes, made from what was measured alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, save_figure
from linbet_jax.regret import Summary, paired_difference, summarize
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, interval, latex_table, markdown_table, number

__all__ = ["PRUNED", "Measured", "Report", "findings", "text", "write"]

PRUNED = 0  # in place of M: the pruned form


@dataclasses.dataclass(frozen=True)
class Measured:
    """TOFU with one number of re-truncations on one set.

    Attributes:
        set_name: data set.
        count: M, or `PRUNED`.
        regret: [G, S] final regret by scale and seed.
        health: [G, S] health words.
        seconds: [rounds] CPU time of a seed-pull.
        bytes: of a replication's state.
    """

    set_name: str
    count: int
    regret: NDArray[np.float64]
    health: NDArray[np.int64]
    seconds: NDArray[np.float64]
    bytes: int

    @property
    def best(self) -> float:
        """The smallest CPU time of a seed-pull, in microseconds."""
        return 1e6 * float(self.seconds.min())

    def name(self, horizon: int) -> str:
        """As tables write it."""
        return "pruned" if self.count == PRUNED else "M = T" if self.count == horizon else f"M = {self.count:,}"


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say."""

    measured: Sequence[Measured]
    scales: Sequence[float]
    horizon: int
    seeds: int
    dtype: str

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(int(np.count_nonzero(one.health)) for one in self.measured)

    @property
    def sets(self) -> list[str]:
        """Data sets, in order."""
        return list(dict.fromkeys(one.set_name for one in self.measured))

    def of(self, set_name: str) -> tuple[Measured, list[Measured]]:
        """The pruned form and the forms by epochs, M increasing."""
        own = [one for one in self.measured if one.set_name == set_name]
        by_epochs = sorted((one for one in own if one.count != PRUNED), key=lambda one: one.count)
        return next(one for one in own if one.count == PRUNED), by_epochs

    def difference(self, one: Measured, scale: int) -> Summary:
        """Final regret minus the pruned form's, seed by seed."""
        pruned, _ = self.of(one.set_name)
        return paired_difference(one.regret[scale], pruned.regret[scale], one.health[scale], pruned.health[scale])


def findings(report: Report) -> list[str]:
    """What M buys, in sentences."""
    sentences = []
    for set_name in report.sets:
        pruned, by_epochs = report.of(set_name)
        quickest = min(by_epochs, key=lambda one: one.best)
        ratio = pruned.best / quickest.best
        # Single rounds of one program differ by several per cent: less than a tenth is no saving.
        saved = (
            f"saves {100 * (1 - 1 / ratio):.0f}% of the pruned form's CPU time"
            if ratio > 1.1
            else "saves no CPU time over the pruned form"
        )
        every = by_epochs[-1]
        sentences.append(
            f"{set_name}, time: {quickest.name(report.horizon)} is the quickest at {quickest.best:.3g} µs a pull and "
            f"{saved} ({pruned.best:.3g} µs); {every.name(report.horizon)} takes {every.best:.3g} µs. Its state is "
            f"{quickest.bytes / pruned.bytes:.2g} times as large and grows with T; the pruned form's with log T."
        )
        for index, scale in enumerate(report.scales):
            apart = []
            for one in by_epochs:
                difference = report.difference(one, index)
                if difference.has_band and (float(difference.low) > 0 or float(difference.high) < 0):
                    apart.append(f"{one.name(report.horizon)}: {number(difference.mean)} {interval(difference)}")
            what = "; ".join(apart) if apart else "none"
            sentences.append(
                f"{set_name}, regret at ×{scale:g}: of {len(by_epochs)} M, those whose 95% interval of the difference "
                f"to the pruned form leaves out 0 ({0.05 * len(by_epochs):.1g} expected by chance): {what}."
            )
    sentences.append(f"Replications that met a non-finite number: {report.unhealthy}.")
    return sentences


def text(report: Report) -> str:
    """For a terminal."""
    header, rows = _table(report)
    return "\n".join([_heading(report), aligned_table(header, rows, left=2), "", *findings(report)])


def write(report: Report, folder: Path) -> tuple[Path, ...]:
    """Picture, Markdown, LaTeX and CSV."""
    files = []
    figure = _figure(report)
    for suffix in (".png", ".pdf"):
        files.append(folder / f"remark3{suffix}")
        save_figure(figure, files[-1])
    header, rows = _table(report)
    lines = ["# Remark 3: TOFU with M re-truncations", "", f"{_heading(report)}.", ""]
    lines += [
        "The history is re-truncated at M geometrically spaced pulls; between them a payoff is tested once, when it",
        "arrives. Δ: final regret minus the pruned form's, seed by seed, with its 95% interval (Student t). Time: the",
        f"smallest of {report.measured[0].seconds.size} interleaved measurements of the CPU time of the whole run,",
        "compiling apart.",
        "",
    ]
    lines += [*markdown_table(header, rows), "## What it saves", "", *(f"- {line}" for line in findings(report)), ""]
    write_text(folder / "remark3.md", "\n".join(lines))
    caption = f"TOFU with M re-truncations. {_heading(report)}."
    write_text(folder / "remark3.tex", latex_table(header, rows, caption=caption, label="table:remark3"))
    write_text(folder / "remark3.csv", _csv(report))
    return (*files, *(folder / f"remark3.{suffix}" for suffix in ("md", "tex", "csv")))


def _heading(report: Report) -> str:
    return f"TOFU by epochs, T = {report.horizon:,}, {report.seeds} seeds, {report.dtype}"


def _table(report: Report) -> tuple[list[str], list[list[str]]]:
    header = ["set", "form"]
    for scale in report.scales:
        header += [f"regret ×{scale:g}", "Δ to pruned"]
    header += ["CPU µs a pull", "of pruned", "state bytes"]
    rows = []
    for set_name in report.sets:
        pruned, by_epochs = report.of(set_name)
        for one in (pruned, *by_epochs):
            row = [set_name, one.name(report.horizon)]
            for index in range(len(report.scales)):
                row.append(number(summarize(one.regret[index], one.health[index]).mean))
                difference = report.difference(one, index)
                row.append("–" if one is pruned else f"{number(difference.mean)} {interval(difference)}")
            rows.append([*row, f"{one.best:.3g}", f"{one.best / pruned.best:.2f}", f"{one.bytes:,}"])
    return header, rows


def _csv(report: Report) -> str:
    columns = ("mean", "low", "high")
    header = ["set", "M", "horizon", "radius_scale", "seeds", "unhealthy"]
    header += [f"{what}_{column}" for what in ("regret", "difference") for column in columns]
    rows: list[list[object]] = []
    for one in report.measured:
        for index, scale in enumerate(report.scales):
            regret, difference = summarize(one.regret[index], one.health[index]), report.difference(one, index)
            numbers = [float(getattr(s, column)) for s in (regret, difference) for column in columns]
            count: int | str = "pruned" if one.count == PRUNED else one.count
            fixed = [one.set_name, count, report.horizon, scale, regret.n, regret.unhealthy]
            rows.append([*fixed, *numbers, one.best, 1e6 * float(one.seconds.max()), one.bytes])
    return csv_text([*header, "cpu_microseconds_least", "cpu_microseconds_most", "state_bytes"], rows)


def _figure(report: Report) -> Any:
    """Regret and time against M, the pruned form as a level line."""
    rows = []
    for set_name in report.sets:
        pruned, by_epochs = report.of(set_name)
        counts = [one.count for one in by_epochs]
        ends = [counts[0], counts[-1]]
        charts = []
        for index, scale in enumerate(report.scales):
            summaries = [summarize(one.regret[index], one.health[index]) for one in by_epochs]
            mean, low, high = ([float(getattr(s, end)) for s in summaries] for end in ("mean", "low", "high"))
            level = float(summarize(pruned.regret[index], pruned.health[index]).mean)
            series = [
                Series("by epochs", COLORS["tofu"], counts, mean, low, high),
                Series("pruned", COLORS["menu"], ends, [level] * 2, line="--", marker=""),
            ]
            title = f"{set_name}, radius_scale ×{scale:g}"
            charts.append(Chart(title, "M (re-truncations)", "mean final regret", series, (True, False)))
        time = [
            Series("by epochs", COLORS["tofu"], counts, [one.best for one in by_epochs]),
            Series("pruned", COLORS["menu"], ends, [pruned.best] * 2, line="--", marker=""),
        ]
        charts.append(Chart(f"{set_name}, time", "M (re-truncations)", "CPU µs a pull", time))
        rows.append(charts)
    return chart_figure(
        rows,
        title=f"Remark 3: TOFU with M re-truncations, T = {report.horizon:,}, {report.seeds} seeds",
        note="Bars: 95% interval of the mean (Student t). Dashed: the pruned form, which plays the arms of M = T.",
    )
