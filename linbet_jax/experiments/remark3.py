"""Remark 3 of the paper: TOFU that re-truncates its history only M times, M from 1 to T, against the pruned form.

The paper says that TOFU's O(T^2) "might be reasonably reduced by dividing T into multiple epochs, each of which
contains only one truncation". M = T is TOFU itself; the pruned form plays the same arms as that in linear time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from linbet_jax.experiments import measure, shared
from linbet_jax.experiments.driver import Found, Outputs, Plan
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.regret import Summary, paired_difference
from linbet_jax.tables import aligned_table, csv_text, interval, latex_table, markdown_table, number

__all__ = ["plan"]

SETS = ("S3", "S4")
SCALES = (1.0, 0.03)
ROUNDS = 2
PRUNED = 0  # in place of M: the pruned form
SEED = 0  # of the experiment's key


# What is played ------------------------------------------------------------------------------------------------------


def counts(horizon: int) -> tuple[int, ...]:
    """M: powers of 4, and T."""
    return (*(4**k for k in range(20) if 4**k < horizon), horizon)


def plan(*, seeds: int | None, full: bool, dtype: str) -> Plan:
    """T = 2048 and 16 seeds; with `full` the paper's T = 10^4 and 64 seeds."""
    horizon = 10_000 if full else 2048
    return plan_of(horizon, seeds or (64 if full else 16), dtype, (PRUNED, *counts(horizon)))


def plan_of(horizon: int, seeds: int, dtype: str, numbers: Sequence[int]) -> Plan:
    """These M on both sets, `PRUNED` among them."""
    known: dict[str, Any] = {"horizon": horizon, "seeds": seeds, "scales": SCALES, "key": SEED, "dtype": dtype}
    tasks = {
        f"{set_name}/M={count}": Task.on(
            set_name, "tofu", options={} if count == PRUNED else {"epochs": count}, **known
        )
        for set_name in SETS
        for count in numbers
    }
    config = {"dtype": dtype, "tasks": list(tasks), "horizon": horizon, "seeds": seeds}
    config |= {"radius_scales": list(SCALES), "key": SEED}
    config["instances"] = {task.place: task.instance for task in tasks.values()}

    def show(found: Mapping[str, Found]) -> Outputs:
        seconds = measure.times(found, tasks, ROUNDS)
        measured = [
            Measured(
                task.place,
                task.options.get("epochs", PRUNED),
                task.samples(found[title]),
                seconds[:, place] / task.pulls,
                measure.state_bytes(task),
            )
            for place, (title, task) in enumerate(tasks.items())
        ]
        return _outputs(Report(measured, horizon, seeds, dtype))

    return Plan("remark3", config, dtype, measure.timed_cells(tasks, ROUNDS), (*shared.CODE, measure), show)


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Measured:
    """TOFU with one number of re-truncations on one set.

    Attributes:
        set_name: data set.
        count: M, or `PRUNED`.
        samples: one for each scale.
        seconds: [rounds] CPU time of a seed-pull.
        bytes: of a replication's state.
    """

    set_name: str
    count: int
    samples: Sequence[Sample]
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
    horizon: int
    seeds: int
    dtype: str

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return shared.unhealthy_seeds(sample.health for one in self.measured for sample in one.samples)

    @property
    def sets(self) -> list[str]:
        """Data sets, in order."""
        return list(dict.fromkeys(one.set_name for one in self.measured))

    @property
    def heading(self) -> str:
        """What was run."""
        return f"TOFU by epochs, T = {self.horizon:,}, {self.seeds} seeds, {self.dtype}"

    def of(self, set_name: str) -> tuple[Measured, list[Measured]]:
        """The pruned form and the forms by epochs, M increasing."""
        own = [one for one in self.measured if one.set_name == set_name]
        by_epochs = sorted((one for one in own if one.count != PRUNED), key=lambda one: one.count)
        return next(one for one in own if one.count == PRUNED), by_epochs

    def difference(self, one: Measured, scale: int) -> Summary:
        """Final regret minus the pruned form's, seed by seed."""
        own, pruned = one.samples[scale], self.of(one.set_name)[0].samples[scale]
        return paired_difference(own.regret, pruned.regret, own.health, pruned.health)


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(report: Report) -> Outputs:
    header, rows = _table(report)
    said = findings(report)
    caption = f"TOFU with M re-truncations. {report.heading}."
    documents = {
        "remark3.md": _markdown(report),
        "remark3.tex": latex_table(header, rows, caption=caption, label="table:remark3"),
        "remark3.csv": _csv(report),
    }
    text = "\n".join([report.heading, aligned_table(header, rows, left=2), "", *said])
    return Outputs(text, {"remark3": _figure(report)}, documents, report.unhealthy, sections={"findings": said})


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
        for index, scale in enumerate(SCALES):
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


def _markdown(report: Report) -> str:
    header, rows = _table(report)
    lines = ["# Remark 3: TOFU with M re-truncations", "", f"{report.heading}.", ""]
    lines += [
        "The history is re-truncated at M geometrically spaced pulls; between them a payoff is tested once, when it",
        "arrives. Δ: final regret minus the pruned form's, seed by seed, with its 95% interval (Student t). Time: the",
        f"smallest of {report.measured[0].seconds.size} interleaved measurements of the CPU time of the whole run,",
        "compiling apart.",
        "",
    ]
    lines += [*markdown_table(header, rows), "## What it saves", "", *(f"- {line}" for line in findings(report)), ""]
    return "\n".join(lines)


def _table(report: Report) -> tuple[list[str], list[list[str]]]:
    header = ["set", "form"]
    for scale in SCALES:
        header += [f"regret ×{scale:g}", "Δ to pruned"]
    header += ["CPU µs a pull", "of pruned", "state bytes"]
    rows = []
    for set_name in report.sets:
        pruned, by_epochs = report.of(set_name)
        for one in (pruned, *by_epochs):
            row = [set_name, one.name(report.horizon)]
            for index in range(len(SCALES)):
                row.append(number(one.samples[index].summary.mean))
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
        for index, scale in enumerate(SCALES):
            regret, difference = one.samples[index].summary, report.difference(one, index)
            numbers = [float(getattr(s, column)) for s in (regret, difference) for column in columns]
            count: int | str = "pruned" if one.count == PRUNED else one.count
            fixed = [one.set_name, count, report.horizon, scale, regret.n, regret.unhealthy]
            rows.append([*fixed, *numbers, one.best, 1e6 * float(one.seconds.max()), one.bytes])
    return csv_text([*header, "cpu_microseconds_least", "cpu_microseconds_most", "state_bytes"], rows)


def _figure(report: Report) -> Figure:
    """Regret and time against M, the pruned form as a level line."""
    rows = []
    for set_name in report.sets:
        pruned, by_epochs = report.of(set_name)
        counts = [one.count for one in by_epochs]
        ends = [counts[0], counts[-1]]
        charts = []
        for index, scale in enumerate(SCALES):
            level = float(pruned.samples[index].summary.mean)
            series = [
                shared.mean_series(
                    "by epochs", COLORS["tofu"], counts, [one.samples[index].summary for one in by_epochs]
                ),
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
