"""Table 2 of the paper (regret, complexity and storage of four algorithms), measured.

Regret: fixed data sets at the papers' radii and at a smaller radius_scale, T growing; the paper's exponents are of
bounds over the worst instance for each T, so a measured one may well be smaller, and is near 1 for as long as a policy
explores.
Complexity: CPU time of the whole run, compiling apart. Storage: bytes of the state of one replication.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linbet_jax import theory
from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import measure, shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.statistics.intervals import Estimate
from linbet_jax.statistics.regret import fitted_exponent
from linbet_jax.statistics.tables import aligned_table, csv_text, grouped, latex_table, markdown_table, number, span

SCALES = (1.0, 0.03)
# 1024 times powers of 4 are whole numbers of the simulator's stretches: one program serves all of a policy's horizons.
FIRST = 1024
STORAGE = tuple(FIRST * 4**k for k in range(7))  # only looked at, not run
TIMED_ON = "S3"
ROUNDS = 2
SEED = 0  # of the experiment's key


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """A column of the paper's table, or another form of TOFU."""

    label: str  # as tables write it
    color: str  # in pictures
    complexity: str  # the paper's entry; empty where it has none
    storage: str  # likewise
    # smallest T that enters the fit of the time: below it the fixed cost of a launch (some milliseconds) or TOFU's
    # first pulls, which leave more payoffs in doubt, show
    time_from: int


VARIANTS: Mapping[str, Algorithm] = {
    "mom": Algorithm("MoM", COLORS["mom"], "$O(T)$", "$O(1)$", 16_384),
    "menu": Algorithm("MENU", COLORS["menu"], r"$O(T\log T)$", r"$O(\log T)$", 16_384),
    "crt": Algorithm("CRT", COLORS["crt"], "$O(T)$", "$O(1)$", 16_384),
    "tofu full": Algorithm("TOFU, full pass", COLORS["tofu"], "$O(T^2)$", "$O(T)$", 1024),
    "tofu pruned": Algorithm("TOFU, pruned", "#8C3B00", "", "", 4096),
    "tofu epochs": Algorithm("TOFU, by epochs", "#F2A777", "", "", 4096),
}


def horizons(variant: str, full: bool) -> tuple[int, ...]:
    """The T of a variant: shorter for the full pass, whose time grows with T^2."""
    if variant == "tofu full":
        return tuple(FIRST * 2**k for k in range(5 if full else 4))
    longest = {"tofu pruned": 4, "tofu epochs": 4}.get(variant, 5) + full
    return tuple(FIRST * 4**k for k in range(longest))


def options(variant: str, horizon: int) -> dict[str, Any]:
    """Of `make_policy`; by epochs means ceil(log2 T) re-truncations."""
    if variant == "tofu full":
        return {"method": "full"}
    return {"epochs": math.ceil(math.log2(horizon))} if variant == "tofu epochs" else {}


def task_of(set_name: str, variant: str, horizon: int, seeds: int, dtype: str) -> Task:
    """A variant on a set."""
    settings: dict[str, Any] = {"horizon": horizon, "seeds": seeds, "scales": SCALES, "key": SEED, "dtype": dtype}
    return Task.on(set_name, variant.split()[0], options=options(variant, horizon), **settings)


def plan(*, seeds: int | None, full: bool, dtype: str) -> Experiment:
    """S3 (epsilon 1/2) and S1 (epsilon 1), 16 seeds; with `full` all four, 128 seeds, and T four times as long."""
    seeds = seeds or (128 if full else 16)
    tasks = {}
    for set_name in (TIMED_ON, *(name for name in (DATASETS if full else ("S1",)) if name != TIMED_ON)):
        for variant in VARIANTS:
            if variant == "tofu full" and set_name != TIMED_ON:
                continue  # it plays the arms of the pruned form
            count = max(1, seeds // 4) if variant == "tofu full" else seeds
            for horizon in horizons(variant, full):
                title = f"{set_name}/{variant}/T={horizon}"
                tasks[title] = task_of(set_name, variant, horizon, count, dtype)
    # Those on one of the sets are timed, in further rounds too.
    timed = {title: task for title, task in tasks.items() if task.place == TIMED_ON}
    once = {title: task for title, task in tasks.items() if title not in timed}
    asked = {"dtype": dtype, "tasks": list(tasks), "seeds": seeds, "key": SEED}
    config = shared.config_of(tasks.values(), radius_scales=list(SCALES), **asked)

    def show(results: Mapping[str, CellResult]) -> Outputs:
        seconds = measure.times(results, timed, ROUNDS)
        storage = {
            variant: [measure.state_bytes(task_of(TIMED_ON, variant, horizon, 1, dtype)) for horizon in STORAGE]
            for variant in VARIANTS
        }
        samples = {title: task.samples(results[title]) for title, task in tasks.items()}
        cpu = {title: seconds[title] / task.replications for title, task in timed.items()}
        return _outputs(report_of(samples, cpu, storage, seeds, dtype))

    cells = [*measure.timed_cells(timed, ROUNDS), *measure.timed_cells(once, 0)]
    return Experiment("table2", config, dtype, cells, (*shared.CODE, measure), show)


class RegretGrowth(NamedTuple):
    """How the regret of a variant grows on one set with one scale: samples by increasing T, and the exponent."""

    samples: Sequence[Sample]
    fitted: Estimate

    @property
    def horizons(self) -> list[int]:
        """T of the samples."""
        return [sample.task.horizon for sample in self.samples]

    @property
    def promised(self) -> float:
        """The exponent of the paper's bound."""
        task = self.samples[0].task
        return float(theory.regret_exponent(task.policy, task.bandit.epsilon))


@dataclasses.dataclass(frozen=True)
class Timing:
    """How the CPU time of a replication grows."""

    horizons: Sequence[int]  # [H], all that were timed
    seconds: NDArray[np.float64]  # [rounds, H] of one replication; the smallest of the rounds counts
    time_from: int  # the smallest T that enters the fits

    @property
    def best(self) -> NDArray[np.float64]:
        """[H] the smallest times."""
        return self.seconds.min(axis=0)

    @property
    def fitted(self) -> tuple[float, float, float]:
        """Exponent of the smallest times, and the smallest and the largest one of a single round."""
        t = np.array(self.horizons)
        used = t >= self.time_from
        best, *single = (fitted_exponent(t[used], times[used]) for times in (self.best, *self.seconds))
        return best, min(single), max(single)

    @property
    def last(self) -> float:
        """Exponent between the two longest horizons."""
        return fitted_exponent(self.horizons[-2:], self.best[-2:])


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Everything the outputs say."""

    growths: Mapping[tuple[str, str, float], RegretGrowth]  # by set, variant and scale, those that were run
    timings: Mapping[str, Timing]  # by variant
    bytes: Mapping[str, Sequence[int]]  # of a replication's state at the horizons of `STORAGE`, by variant
    seeds: int  # replications
    dtype: str  # for the headings

    @property
    def sets(self) -> list[str]:
        """Data sets, in order."""
        return list(dict.fromkeys(set_name for set_name, *_ in self.growths))

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite."""
        return sum(sample.unhealthy for growth in self.growths.values() for sample in growth.samples)

    @property
    def heading(self) -> str:
        """What was run."""
        return f"Exponents of T, {self.seeds} seeds, {self.dtype}"

    def storage_exponent(self, variant: str) -> float:
        """How the state grows."""
        return fitted_exponent(STORAGE, self.bytes[variant])


def report_of(
    samples: Mapping[str, Sequence[Sample]],
    cpu: Mapping[str, NDArray[np.float64]],
    storage: Mapping[str, Sequence[int]],
    seeds: int,
    dtype: str,
) -> Measurements:
    """Fits every exponent of the regret.

    By `set/variant/T=horizon`, horizons increasing, there are samples, one for each scale, and of those that were timed
    the CPU seconds of a replication `[rounds]`.
    """
    growths, timings = {}, {}
    for (set_name, variant), titles in grouped(samples, lambda title: tuple(title.split("/")[:2])).items():
        for of_scale in zip(*(samples[title] for title in titles), strict=True):
            growth = RegretGrowth(of_scale, shared.exponent(of_scale))
            growths[set_name, variant, of_scale[0].radius_scale] = growth
        if set_name == TIMED_ON:
            seconds = np.stack([cpu[title] for title in titles], axis=1)
            timings[variant] = Timing(growth.horizons, seconds, VARIANTS[variant].time_from)
    return Measurements(growths, timings, storage, seeds, dtype)


def _outputs(report: Measurements) -> Outputs:
    tables = {
        "regret": ("Regret: exponents of the bounds and measured ones", *_regret_table(report)),
        "cost": ("Complexity and storage: the paper's and measured", *_cost_table(report)),
    }
    explained = _explained(report)
    text, latex = [report.heading], []
    markdown = ["# Table 2: regret, complexity and storage, the paper's and measured", "", f"{report.heading}.", ""]
    for name, (title, header, rows) in tables.items():
        plain = [[cell.replace("$", "").replace(r"T\log", "T log").replace("\\", "") for cell in row] for row in rows]
        text += [aligned_table(header, plain), ""]
        markdown += markdown_table(header, rows)
        latex.append(latex_table(header, rows, caption=f"{title}. {report.heading}.", label=f"table:{name}"))
    labels = [variant.label for variant in VARIANTS.values()]
    markdown += [*(f"- {sentence}" for sentence in explained), ""]
    markdown += shared.section("Mean final regret", ["set", "scale", "T", *labels], _regret_rows(report))
    costs = "CPU microseconds of a pull (smallest of all rounds), and bytes of a replication's state"
    markdown += shared.section(costs, ["", "T", *labels], _cost_rows(report))
    figures = {
        "table2_regret": chart_figure(
            _regret_charts(report),
            title=f"Regret against T: fitted exponent (the bound's), {report.seeds} seeds",
            note="Bars: 95% interval of the mean (Student t). The bounds' exponents are of the worst instance for "
            "each T.",
        ),
        "table2_cost": chart_figure(
            [_cost_charts(report)],
            title="Complexity and storage: fitted exponents of T",
            note="Time: the smallest of the interleaved measurements, bars up to the largest; compiling apart.",
        ),
    }
    documents = {"table2.md": "\n".join(markdown), "table2.tex": "\n".join(latex), "table2.csv": _csv(report)}
    return Outputs("\n".join([*text, *explained]), figures, documents, report.unhealthy)


def _regret_table(report: Measurements) -> tuple[list[str], list[list[str]]]:
    """One row per variant: per set the bound's exponent and one measured per scale."""
    columns = ["bound", *(f"measured ×{scale:g}" for scale in SCALES)]
    header = ["regret", *(f"{name}, {what}" for name in report.sets for what in columns)]
    rows = []
    for name, variant in VARIANTS.items():
        row = [variant.label]
        for set_name in report.sets:
            growths = [report.growths.get((set_name, name, scale)) for scale in SCALES]
            row.append("–" if growths[0] is None else f"{growths[0].promised:.3f}")
            row += ["–" if g is None else span(g.fitted.value, g.fitted.low, g.fitted.high, 2) for g in growths]
        rows.append(row)
    return header, rows


def _cost_table(report: Measurements) -> tuple[list[str], list[list[str]]]:
    """One row per variant: time and storage, the paper's entry before each."""
    header = ["", "time: paper", "measured", "last step", "storage: paper", "measured", "bytes"]
    rows = []
    for name, variant in VARIANTS.items():
        timing, sizes = report.timings[name], report.bytes[name]
        row = [variant.label, variant.complexity or "–", span(*timing.fitted, 2), f"{timing.last:.2f}"]
        row += [variant.storage or "–", f"{report.storage_exponent(name):.2f}", f"{sizes[0]:,} to {sizes[-1]:,}"]
        rows.append(row)
    return header, rows


def _explained(report: Measurements) -> list[str]:
    """What the columns are, in sentences."""
    ranges = ", ".join(
        f"{variant.label} {report.timings[name].horizons[0]:,} to {report.timings[name].horizons[-1]:,}"
        for name, variant in VARIANTS.items()
    )
    fits = ", ".join(f"{variant.time_from:,} ({variant.label})" for variant in VARIANTS.values())
    return [
        "Regret: slope of the log mean regret on log T, with a 95% bootstrap interval over seeds. The bound's exponent "
        "is that of the worst instance for each T, logarithms apart; a fixed instance may do better, and a policy that "
        "still explores has exponent 1.",
        f"T: {ranges}.",
        f"Time: CPU time of a whole run on {TIMED_ON}, compiling apart; the smallest of "
        f"{report.timings['mom'].seconds.shape[0]} interleaved measurements, in brackets single rounds' exponents. "
        f"Fitted over T ≥ {fits}. Last step: between the two longest T.",
        f"Storage: bytes of a replication's state at T = {STORAGE[0]:,} and {STORAGE[-1]:,}, exact. MENU has "
        "k = O(log T) columns; the root of TOFU's other forms has O(log T) poles.",
        "The pruned form plays the full pass's arms; the paper has no entry for it, nor for the form by epochs (its "
        "Remark 3), here with ceil(log2 T) re-truncations.",
        f"Replications that met a non-finite number: {report.unhealthy}.",
    ]


def _regret_rows(report: Measurements) -> list[list[str]]:
    """Mean regret by set, scale and T, a column per variant."""
    rows: dict[tuple[str, float, int], dict[str, str]] = {}
    for (set_name, variant, scale), growth in report.growths.items():
        for sample in growth.samples:
            rows.setdefault((set_name, scale, sample.task.horizon), {})[variant] = number(sample.summary.mean)
    places = itertools.product(report.sets, SCALES, sorted({horizon for *_, horizon in rows}))
    return [
        [place[0], f"×{place[1]:g}", f"{place[2]:,}", *(rows[place].get(name, "–") for name in VARIANTS)]
        for place in places
        if place in rows
    ]


def _cost_rows(report: Measurements) -> list[list[str]]:
    """Time and state by T, a column per variant."""
    best = {name: dict(zip(timing.horizons, timing.best, strict=True)) for name, timing in report.timings.items()}
    rows = []
    for horizon in sorted({horizon for times in best.values() for horizon in times}):
        times = [best[name].get(horizon) for name in VARIANTS]
        rows.append(["µs a pull", f"{horizon:,}", *("–" if t is None else f"{1e6 * t / horizon:.3g}" for t in times)])
    for index, horizon in enumerate(STORAGE):
        rows.append(["bytes", f"{horizon:,}", *(f"{report.bytes[name][index]:,}" for name in VARIANTS)])
    return rows


def _csv(report: Measurements) -> str:
    """Long form: one number a line, with its interval where it has one."""
    header = ["quantity", "set", "algorithm", "radius_scale", "horizon", "value", "low", "high", "seeds", "unhealthy"]
    rows: list[list[object]] = []
    for (set_name, variant, scale), growth in report.growths.items():
        fixed, e = (set_name, variant, scale), growth.fitted
        for sample in growth.samples:
            s = sample.summary
            numbers = (*map(float, (s.mean, s.low, s.high)), s.n, s.unhealthy)
            rows.append(["regret", *fixed, sample.task.horizon, *numbers])
        rows.append(["regret exponent", *fixed, None, *map(float, (e.value, e.low, e.high)), e.n, e.unhealthy])
        rows.append(["regret exponent of the bound", *fixed, None, growth.promised, None, None, None, None])
    for name, timing in report.timings.items():
        for horizon, times in zip(timing.horizons, timing.seconds.T, strict=True):
            ends = (float(times.min()), float(times.min()), float(times.max()))
            rows.append(["cpu seconds of a replication", TIMED_ON, name, None, horizon, *ends, None, None])
        rows.append(["time exponent", TIMED_ON, name, None, None, *timing.fitted, None, None])
    for name, sizes in report.bytes.items():
        for horizon, size in zip(STORAGE, sizes, strict=True):
            rows.append(["state bytes", TIMED_ON, name, None, horizon, size, None, None, None, None])
        exponent = report.storage_exponent(name)
        rows.append(["storage exponent", TIMED_ON, name, None, None, exponent, None, None, None, None])
    return csv_text(header, rows)


def _regret_charts(report: Measurements) -> list[list[Chart]]:
    def chart(set_name: str, scale: float) -> Chart:
        series = []
        for name, variant in VARIANTS.items():
            growth = report.growths.get((set_name, name, scale))
            if growth is not None:
                label = f"{variant.label} {float(growth.fitted.value):.2f} ({growth.promised:.2f})"
                summaries = [sample.summary for sample in growth.samples]
                series.append(shared.mean_series(label, variant.color, growth.horizons, summaries))
        title = f"{set_name} (ε = {DATASETS[set_name].epsilon:g}), radius_scale ×{scale:g}"
        return Chart(title, "T (pulls)", "mean final regret", series)

    return [[chart(set_name, scale) for scale in SCALES] for set_name in report.sets]


def _cost_charts(report: Measurements) -> list[Chart]:
    time, storage = [], []
    for name, variant in VARIANTS.items():
        timing, best = report.timings[name], report.timings[name].best
        label = f"{variant.label} {timing.fitted[0]:.2f}"
        time.append(Series(label, variant.color, timing.horizons, best, best, timing.seconds.max(axis=0)))
        label = f"{variant.label} {report.storage_exponent(name):.2f}"
        storage.append(Series(label, variant.color, STORAGE, report.bytes[name]))
    return [
        Chart(f"{TIMED_ON}: CPU time of a replication", "T (pulls)", "seconds", time),
        Chart(f"{TIMED_ON}: live state of a replication", "T (pulls)", "bytes", storage),
    ]
