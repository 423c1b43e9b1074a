"""Remark 3 of the paper: TOFU that re-truncates its history only M times, M from 1 to T, against the pruned form.

The paper says that TOFU's O(T^2) "might be reasonably reduced by dividing T into multiple epochs, each of which
contains only one truncation". M = T is TOFU itself; the pruned form plays the same arms as that in linear time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax.experiments import measure, shared
from linbet_jax.experiments.driver import CellResult, Outputs, Plan
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.statistics.regret import Summary
from linbet_jax.statistics.tables import aligned_table, csv_text, latex_table, markdown_table, number

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

    def show(results: Mapping[str, CellResult]) -> Outputs:
        seconds = measure.times(results, tasks, ROUNDS)
        sets: dict[str, list[Measured]] = {}
        for place, (title, task) in enumerate(tasks.items()):
            rest = (task.samples(results[title]), seconds[:, place] / task.pulls, measure.state_bytes(task))
            sets.setdefault(task.place, []).append(Measured(task, *rest))
        return _outputs(sets)

    return Plan("remark3", config, dtype, measure.timed_cells(tasks, ROUNDS), (*shared.CODE, measure), show)


# From numbers to tables and figures ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Measured:
    """TOFU with one number of re-truncations on one set.

    Attributes:
        task: what was played.
        samples: one for each scale.
        seconds: [rounds] CPU time of a seed-pull.
        bytes: of a replication's state.
    """

    task: Task
    samples: Sequence[Sample]
    seconds: NDArray[np.float64]
    bytes: int

    @property
    def count(self) -> int:
        """M, or `PRUNED`."""
        return int(self.task.options.get("epochs", PRUNED))

    @property
    def name(self) -> str:
        """As tables write it."""
        names = {PRUNED: "pruned", self.task.horizon: "M = T"}
        return names.get(self.count, f"M = {self.count:,}")

    @property
    def best(self) -> float:
        """The smallest CPU time of a seed-pull, in microseconds."""
        return 1e6 * float(self.seconds.min())

    def differences(self, pruned: Measured) -> list[Summary]:
        """For each scale, final regret minus the pruned form's, seed by seed."""
        return [sample.minus(other) for sample, other in zip(self.samples, pruned.samples, strict=True)]


Sets = Mapping[str, Sequence[Measured]]  # of every set the pruned form, then the forms by epochs, M increasing


def _unhealthy(sets: Sets) -> int:
    """Replications that met something non-finite."""
    return sum(sample.unhealthy for forms in sets.values() for one in forms for sample in one.samples)


def _outputs(sets: Sets) -> Outputs:
    task = next(iter(sets.values()))[0].task
    setting = f"T = {task.horizon:,}, {task.seeds} seeds"
    heading = f"TOFU by epochs, {setting}, {task.dtype}"
    (header, rows), said = _table(sets), findings(sets)
    caption = f"TOFU with M re-truncations. {heading}."
    documents = {
        "remark3.md": _markdown(sets, heading),
        "remark3.tex": latex_table(header, rows, caption=caption, label="table:remark3"),
        "remark3.csv": _csv(sets),
    }
    text = "\n".join([heading, aligned_table(header, rows, left=2), "", *said])
    figure = chart_figure(
        _charts(sets),
        title=f"Remark 3: TOFU with M re-truncations, {setting}",
        note="Bars: 95% interval of the mean (Student t). Dashed: the pruned form, which plays the arms of M = T.",
    )
    return Outputs(text, {"remark3": figure}, documents, _unhealthy(sets), sections={"findings": said})


def findings(sets: Sets) -> list[str]:
    """What M buys, in sentences."""
    sentences = []
    for set_name, (pruned, *by_epochs) in sets.items():
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
            f"{set_name}, time: {quickest.name} is the quickest at {quickest.best:.3g} µs a pull and "
            f"{saved} ({pruned.best:.3g} µs); {every.name} takes {every.best:.3g} µs. Its state is "
            f"{quickest.bytes / pruned.bytes:.2g} times as large and grows with T; the pruned form's with log T."
        )
        for index, scale in enumerate(SCALES):
            apart = []
            for one in by_epochs:
                difference = one.differences(pruned)[index]
                if difference.has_band and (float(difference.low) > 0 or float(difference.high) < 0):
                    apart.append(f"{one.name}: {shared.mean_text(difference)}")
            what = "; ".join(apart) if apart else "none"
            sentences.append(
                f"{set_name}, regret at ×{scale:g}: of {len(by_epochs)} M, those whose 95% interval of the difference "
                f"to the pruned form leaves out 0 ({0.05 * len(by_epochs):.1g} expected by chance): {what}."
            )
    sentences.append(f"Replications that met a non-finite number: {_unhealthy(sets)}.")
    return sentences


def _markdown(sets: Sets, heading: str) -> str:
    rounds = next(iter(sets.values()))[0].seconds.size
    lines = ["# Remark 3: TOFU with M re-truncations", "", f"{heading}.", ""]
    lines += [
        "The history is re-truncated at M geometrically spaced pulls; between them a payoff is tested once, when it",
        "arrives. Δ: final regret minus the pruned form's, seed by seed, with its 95% interval (Student t). Time: the",
        f"smallest of {rounds} interleaved measurements of the CPU time of the whole run,",
        "compiling apart.",
        "",
    ]
    lines += [*markdown_table(*_table(sets)), "## What it saves", "", *(f"- {line}" for line in findings(sets)), ""]
    return "\n".join(lines)


def _table(sets: Sets) -> tuple[list[str], list[list[str]]]:
    header = ["set", "form"]
    for scale in SCALES:
        header += [f"regret ×{scale:g}", "Δ to pruned"]
    header += ["CPU µs a pull", "of pruned", "state bytes"]
    rows = []
    for set_name, (pruned, *by_epochs) in sets.items():
        for one in (pruned, *by_epochs):
            row = [set_name, one.name]
            for sample, difference in zip(one.samples, one.differences(pruned), strict=True):
                row += [number(sample.summary.mean), "–" if one is pruned else shared.mean_text(difference)]
            rows.append([*row, f"{one.best:.3g}", f"{one.best / pruned.best:.2f}", f"{one.bytes:,}"])
    return header, rows


def _csv(sets: Sets) -> str:
    columns = ("mean", "low", "high")
    header = ["set", "M", "horizon", "radius_scale", "seeds", "unhealthy"]
    header += [f"{what}_{column}" for what in ("regret", "difference") for column in columns]
    rows: list[list[object]] = []
    for pruned, one in ((forms[0], one) for forms in sets.values() for one in forms):
        for sample, difference in zip(one.samples, one.differences(pruned), strict=True):
            regret, count = sample.summary, "pruned" if one is pruned else one.count
            numbers = [float(getattr(s, column)) for s in (regret, difference) for column in columns]
            fixed = [one.task.place, count, one.task.horizon, sample.radius_scale, regret.n, regret.unhealthy]
            rows.append([*fixed, *numbers, one.best, 1e6 * float(one.seconds.max()), one.bytes])
    return csv_text([*header, "cpu_microseconds_least", "cpu_microseconds_most", "state_bytes"], rows)


def _charts(sets: Sets) -> list[list[Chart]]:
    """Regret and time against M, the pruned form as a level line."""
    rows = []
    for set_name, (pruned, *by_epochs) in sets.items():
        counts = [one.count for one in by_epochs]

        def level(value: float, counts: Sequence[int] = counts) -> Series:
            return Series("pruned", COLORS["menu"], [counts[0], counts[-1]], [value] * 2, line="--", marker="")

        charts = []
        for index, scale in enumerate(SCALES):
            summaries = [one.samples[index].summary for one in by_epochs]
            series = [
                shared.mean_series("by epochs", COLORS["tofu"], counts, summaries),
                level(float(pruned.samples[index].summary.mean)),
            ]
            title = f"{set_name}, radius_scale ×{scale:g}"
            charts.append(Chart(title, "M (re-truncations)", "mean final regret", series, (True, False)))
        time = [Series("by epochs", COLORS["tofu"], counts, [one.best for one in by_epochs]), level(pruned.best)]
        charts.append(Chart(f"{set_name}, time", "M (re-truncations)", "CPU µs a pull", time))
        rows.append(charts)
    return rows
