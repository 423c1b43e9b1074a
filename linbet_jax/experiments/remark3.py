"""Remark 3 of the paper: TOFU that re-truncates its history only M times, M from 1 to T, against the pruned form.

The paper says that TOFU's O(T^2) "might be reasonably reduced by dividing T into multiple epochs, each of which
contains only one truncation". M = T is TOFU itself; the pruned form plays the same arms as that in linear time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax.experiments import measure, shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.statistics.regret import Summary
from linbet_jax.statistics.tables import aligned_table, grouped, latex_table, markdown_table, number

SETS = ("S3", "S4")
SCALES = (1.0, 0.03)
ROUNDS = 2
PRUNED = 0  # in place of M: the pruned form
SEED = 0  # of the experiment's key


def counts(horizon: int) -> tuple[int, ...]:
    """M: powers of 4, and T."""
    return (*(4**k for k in range(20) if 4**k < horizon), horizon)


def plan(*, seeds: int | None, full: bool, dtype: str) -> Experiment:
    """T = 2048 and 16 seeds; with `full` the paper's T = 10^4 and 64 seeds."""
    horizon, seeds = 10_000 if full else 2048, seeds or (64 if full else 16)
    settings: dict[str, Any] = {"horizon": horizon, "seeds": seeds, "scales": SCALES, "key": SEED, "dtype": dtype}
    tasks = {}
    for set_name in SETS:
        for count in (PRUNED, *counts(horizon)):
            options = {} if count == PRUNED else {"epochs": count}
            tasks[f"{set_name}/M={count}"] = Task.on(set_name, "tofu", options=options, **settings)
    asked = {"dtype": dtype, "tasks": list(tasks), "horizon": horizon, "seeds": seeds, "key": SEED}
    config = shared.config_of(tasks.values(), radius_scales=list(SCALES), **asked)

    def show(results: Mapping[str, CellResult]) -> Outputs:
        seconds = measure.times(results, tasks, ROUNDS)
        forms = [
            Measured(task, task.samples(results[title]), seconds[title] / task.pulls, measure.state_bytes(task))
            for title, task in tasks.items()
        ]
        return _outputs(grouped(forms, lambda form: form.task.place))

    return Experiment("remark3", config, dtype, measure.timed_cells(tasks, ROUNDS), (*shared.CODE, measure), show)


@dataclasses.dataclass(frozen=True)
class Measured:
    """TOFU with one number of re-truncations on one set."""

    task: Task  # what was played
    samples: Sequence[Sample]  # one for each scale
    seconds: NDArray[np.float64]  # [rounds] CPU time of a seed-pull
    bytes: int  # of a replication's state

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


def _beside_pruned(sets: Sets) -> Iterator[tuple[Measured, Measured]]:
    """Every form, and the pruned form of its set."""
    for forms in sets.values():
        for form in forms:
            yield form, forms[0]


def _unhealthy(sets: Sets) -> int:
    """Replications that met something non-finite."""
    return sum(sample.unhealthy for form, _ in _beside_pruned(sets) for sample in form.samples)


def findings(sets: Sets) -> list[str]:
    """What M buys, in sentences."""
    sentences = []
    for set_name, (pruned, *by_epochs) in sets.items():
        quickest = min(by_epochs, key=lambda form: form.best)
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
            for form in by_epochs:
                difference = form.differences(pruned)[index]
                if difference.has_band and (float(difference.low) > 0 or float(difference.high) < 0):
                    apart.append(f"{form.name}: {shared.mean_text(difference)}")
            what = "; ".join(apart) if apart else "none"
            sentences.append(
                f"{set_name}, regret at ×{scale:g}: of {len(by_epochs)} M, those whose 95% interval of the difference "
                f"to the pruned form leaves out 0 ({0.05 * len(by_epochs):.1g} expected by chance): {what}."
            )
    sentences.append(f"Replications that met a non-finite number: {_unhealthy(sets)}.")
    return sentences


def _outputs(sets: Sets) -> Outputs:
    form, _ = next(_beside_pruned(sets))
    setting = f"T = {form.task.horizon:,}, {form.task.seeds} seeds"
    heading = f"TOFU by epochs, {setting}, {form.task.dtype}"
    (header, rows), sentences = _table(sets), findings(sets)
    markdown = ["# Remark 3: TOFU with M re-truncations", "", f"{heading}.", ""]
    markdown += [LEGEND.format(rounds=form.seconds.size), "", *markdown_table(header, rows)]
    markdown += shared.listed("What it saves", sentences)
    caption = f"TOFU with M re-truncations. {heading}."
    documents = {
        "remark3.md": "\n".join(markdown),
        "remark3.tex": latex_table(header, rows, caption=caption, label="table:remark3"),
        "remark3.csv": shared.csv_of([record for pair in _beside_pruned(sets) for record in _records(*pair)]),
    }
    text = "\n".join([heading, aligned_table(header, rows, left=2), "", *sentences])
    figure = chart_figure(
        _charts(sets),
        title=f"Remark 3: TOFU with M re-truncations, {setting}",
        note="Bars: 95% interval of the mean (Student t). Dashed: the pruned form, which plays the arms of M = T.",
    )
    return Outputs(text, {"remark3": figure}, documents, _unhealthy(sets), sections={"findings": sentences})


LEGEND = (
    "The history is re-truncated at M geometrically spaced pulls; between them a payoff is tested once, when it\n"
    "arrives. Δ: final regret minus the pruned form's, seed by seed, with its 95% interval (Student t). Time: the\n"
    "smallest of {rounds} interleaved measurements of the CPU time of the whole run,\n"
    "compiling apart."
)


def _table(sets: Sets) -> tuple[list[str], list[list[str]]]:
    header = ["set", "form"]
    for scale in SCALES:
        header += [f"regret ×{scale:g}", "Δ to pruned"]
    header += ["CPU µs a pull", "of pruned", "state bytes"]
    rows = []
    for form, pruned in _beside_pruned(sets):
        row = [form.task.place, form.name]
        for sample, difference in zip(form.samples, form.differences(pruned), strict=True):
            row += [number(sample.summary.mean), "–" if form is pruned else shared.mean_text(difference)]
        rows.append([*row, f"{form.best:.3g}", f"{form.best / pruned.best:.2f}", f"{form.bytes:,}"])
    return header, rows


def _records(form: Measured, pruned: Measured) -> Iterator[dict[str, object]]:
    """One for each scale."""
    played = {"set": form.task.place, "M": "pruned" if form is pruned else form.count, "horizon": form.task.horizon}
    slowest = 1e6 * float(form.seconds.max())
    cost = {"cpu_microseconds_least": form.best, "cpu_microseconds_most": slowest, "state_bytes": form.bytes}
    ends = ("mean", "low", "high")
    for sample, difference in zip(form.samples, form.differences(pruned), strict=True):
        regret = sample.summary
        seeds = {"radius_scale": sample.radius_scale, "seeds": regret.n, "unhealthy": regret.unhealthy}
        regrets = shared.statistics_of("regret_", regret, *ends)
        differences = shared.statistics_of("difference_", difference, *ends)
        yield {**played, **seeds, **regrets, **differences, **cost}


def _charts(sets: Sets) -> list[list[Chart]]:
    """Regret and time against M, the pruned form as a level line."""
    rows = []
    for set_name, (pruned, *by_epochs) in sets.items():
        counts = [form.count for form in by_epochs]

        def level(value: float, counts: Sequence[int] = counts) -> Series:
            return Series("pruned", COLORS["menu"], [counts[0], counts[-1]], [value] * 2, line="--", marker="")

        charts = []
        for index, scale in enumerate(SCALES):
            summaries = [form.samples[index].summary for form in by_epochs]
            series = [
                shared.mean_series("by epochs", COLORS["tofu"], counts, summaries),
                level(float(pruned.samples[index].summary.mean)),
            ]
            title = f"{set_name}, radius_scale ×{scale:g}"
            charts.append(Chart(title, "M (re-truncations)", "mean final regret", series, (True, False)))
        time = [Series("by epochs", COLORS["tofu"], counts, [form.best for form in by_epochs]), level(pruned.best)]
        charts.append(Chart(f"{set_name}, time", "M (re-truncations)", "CPU µs a pull", time))
        rows.append(charts)
    return rows
