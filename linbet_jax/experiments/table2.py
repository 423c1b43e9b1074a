"""Table 2 of the paper (regret, complexity and storage of four algorithms), measured.

Regret: fixed data sets at the papers' radii and at a smaller radius_scale, T growing; the paper's exponents are of
bounds over the worst instance for each T, so a measured one may well be smaller, and is near 1 for as long as a policy
explores.
Complexity: CPU time of the whole run, compiling apart. Storage: bytes of the state of one replication.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from linbet_jax import theory
from linbet_jax.datasets import DATASETS
from linbet_jax.experiments import measure, shared
from linbet_jax.experiments.driver import Found, Outputs, Plan
from linbet_jax.experiments.shared import Sample, Task
from linbet_jax.intervals import Estimate
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.regret import Summary, fitted_exponent
from linbet_jax.tables import aligned_table, csv_text, latex_table, markdown_table, number, span

__all__ = ["plan"]

SCALES = (1.0, 0.03)
# 1024 times powers of 4 are whole numbers of the simulator's stretches: one program serves all of a policy's horizons.
FIRST = 1024
STORAGE = tuple(FIRST * 4**k for k in range(7))  # only looked at, not run
TIMED_ON = "S3"
ROUNDS = 2
SEED = 0  # of the experiment's key


@dataclasses.dataclass(frozen=True)
class Variant:
    """A column of the paper's table, or another form of TOFU.

    Attributes:
        label: as tables write it.
        color: in pictures.
        complexity: the paper's entry; empty where it has none.
        storage: likewise.
        time_from: smallest T that enters the fit of the time: below it the fixed cost of a launch (some milliseconds)
            or TOFU's first pulls, which have a larger buffer, show.
    """

    label: str
    color: str
    complexity: str
    storage: str
    time_from: int


VARIANTS: Mapping[str, Variant] = {
    "mom": Variant("MoM", COLORS["mom"], "$O(T)$", "$O(1)$", 16_384),
    "menu": Variant("MENU", COLORS["menu"], r"$O(T\log T)$", r"$O(\log T)$", 16_384),
    "crt": Variant("CRT", COLORS["crt"], "$O(T)$", "$O(1)$", 16_384),
    "tofu full": Variant("TOFU, full pass", COLORS["tofu"], "$O(T^2)$", "$O(T)$", 1024),
    "tofu pruned": Variant("TOFU, pruned", "#8C3B00", "", "", 4096),
    "tofu epochs": Variant("TOFU, by epochs", "#F2A777", "", "", 4096),
}


# What is played ------------------------------------------------------------------------------------------------------


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
    return Task.on(
        set_name,
        variant.split()[0],
        horizon=horizon,
        seeds=seeds,
        scales=SCALES,
        key=SEED,
        dtype=dtype,
        options=options(variant, horizon),
    )


def plan(*, seeds: int | None, full: bool, dtype: str) -> Plan:
    """S3 (epsilon 1/2) and S1 (epsilon 1), 16 seeds; with `full` all four, 128 seeds, and T four times as long."""
    replications = seeds or (128 if full else 16)
    tasks = {}
    for set_name in (TIMED_ON, *(name for name in (DATASETS if full else ("S1",)) if name != TIMED_ON)):
        for variant in VARIANTS:
            if variant == "tofu full" and set_name != TIMED_ON:
                continue  # it plays the arms of the pruned form
            count = max(1, replications // 4) if variant == "tofu full" else replications
            for horizon in horizons(variant, full):
                title = f"{set_name}/{variant}/T={horizon}"
                tasks[title] = task_of(set_name, variant, horizon, count, dtype)
    return plan_of(tasks, replications, dtype)


def plan_of(tasks: Mapping[str, Task], seeds: int, dtype: str) -> Plan:
    """These tasks, by `set/variant/T=horizon`; those on one of the sets are timed, in further rounds too."""
    timed = {title: task for title, task in tasks.items() if task.place == TIMED_ON}
    once = {title: task for title, task in tasks.items() if title not in timed}
    config = {"dtype": dtype, "tasks": list(tasks), "seeds": seeds, "radius_scales": list(SCALES), "key": SEED}
    config["instances"] = {task.place: task.instance for task in tasks.values()}

    def show(found: Mapping[str, Found]) -> Outputs:
        seconds = measure.times(found, timed, ROUNDS)
        storage = {
            variant: [measure.state_bytes(task_of(TIMED_ON, variant, horizon, 1, dtype)) for horizon in STORAGE]
            for variant in VARIANTS
        }
        samples = {title: task.samples(found[title]) for title, task in tasks.items()}
        cpu = {
            title: seconds[:, place] / (task.pulls / task.horizon) for place, (title, task) in enumerate(timed.items())
        }
        return _outputs(report_of(samples, cpu, storage, seeds, dtype))

    cells = [*measure.timed_cells(timed, ROUNDS), *measure.timed_cells(once, 0)]
    return Plan("table2", config, dtype, cells, (*shared.CODE, measure), show)


# From numbers to a report --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the regret of a variant grows on one set with one scale."""

    set_name: str
    variant: str
    scale: float
    horizons: tuple[int, ...]
    summaries: tuple[Summary, ...]
    fitted: Estimate

    @property
    def promised(self) -> float:
        """The exponent of the paper's bound."""
        return float(theory.regret_exponent(self.variant.split()[0], DATASETS[self.set_name].epsilon))


@dataclasses.dataclass(frozen=True)
class Timing:
    """How the CPU time of a replication grows.

    Attributes:
        horizons: [H], all that were timed.
        seconds: [rounds, H] of one replication.
        fitted: exponent of the smallest times, over the horizons that enter the fit.
        ends: smallest and largest exponent of a single round.
        last: exponent between the two longest horizons.
    """

    horizons: tuple[int, ...]
    seconds: NDArray[np.float64]
    fitted: float
    ends: tuple[float, float]
    last: float


@dataclasses.dataclass(frozen=True)
class Storage:
    """Bytes [H] of a replication's state at horizons [H], and their fitted exponent."""

    horizons: tuple[int, ...]
    bytes: tuple[int, ...]
    fitted: float


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything the outputs say."""

    growths: Sequence[Growth]
    timings: Mapping[str, Timing]
    storages: Mapping[str, Storage]
    seeds: int
    dtype: str
    unhealthy: int

    @property
    def sets(self) -> list[str]:
        """Data sets, in order."""
        return list(dict.fromkeys(g.set_name for g in self.growths))

    @property
    def scales(self) -> list[float]:
        """Radius scales, in order."""
        return list(dict.fromkeys(g.scale for g in self.growths))

    def growth(self, set_name: str, variant: str, scale: float) -> Growth | None:
        """One by name; None where it was not run."""
        asked = (set_name, variant, scale)
        return next((g for g in self.growths if (g.set_name, g.variant, g.scale) == asked), None)


def report_of(
    samples: Mapping[str, Sequence[Sample]],
    cpu: Mapping[str, NDArray[np.float64]],
    storage: Mapping[str, Sequence[int]],
    seeds: int,
    dtype: str,
) -> Report:
    """Fits every exponent.

    Args:
        samples: one for each scale, by `set/variant/T=horizon`, horizons increasing.
        cpu: seconds of a replication `[rounds]`, by the titles of those that were timed.
        storage: bytes at the horizons of `STORAGE`, by variant.
        seeds: replications.
        dtype: for the headings.
    """
    groups: dict[tuple[str, str], dict[int, str]] = {}  # titles by horizon
    for title in samples:
        set_name, variant, horizon = title.split("/")
        groups.setdefault((set_name, variant), {})[int(horizon.removeprefix("T="))] = title
    growths, timings = [], {}
    for (set_name, variant), titles in groups.items():
        ran = tuple(titles)
        for own in zip(*(samples[title] for title in titles.values()), strict=True):
            summaries = tuple(sample.summary for sample in own)
            growths.append(Growth(set_name, variant, own[0].radius_scale, ran, summaries, shared.exponent(ran, own)))
        if set_name == TIMED_ON:
            seconds = np.stack([cpu[title] for title in titles.values()], axis=1)
            timings[variant] = _timing(ran, seconds, VARIANTS[variant].time_from)
    storages = {
        name: Storage(STORAGE, tuple(sizes), fitted_exponent(STORAGE, sizes)) for name, sizes in storage.items()
    }
    sick = shared.unhealthy_seeds(sample.health for own in samples.values() for sample in own)
    return Report(growths, timings, storages, seeds, dtype, sick)


def _timing(horizons: tuple[int, ...], seconds: NDArray[np.float64], time_from: int) -> Timing:
    t = np.array(horizons)
    used = t >= time_from
    best = seconds.min(axis=0)
    each = [fitted_exponent(t[used], turn[used]) for turn in seconds]
    return Timing(
        horizons,
        seconds,
        fitted_exponent(t[used], best[used]),
        (min(each), max(each)),
        fitted_exponent(t[-2:], best[-2:]),
    )


# From a report to tables and figures ---------------------------------------------------------------------------------


def _outputs(found: Report) -> Outputs:
    tables = {"regret": _regret_table(found), "cost": _cost_table(found)}
    captions = {
        "regret": "Regret: exponents of the bounds and measured ones",
        "cost": "Complexity and storage: the paper's and measured",
    }
    text, latex = [_heading(found)], []
    for name, (header, rows) in tables.items():
        plain = [[cell.replace("$", "").replace(r"T\log", "T log").replace("\\", "") for cell in row] for row in rows]
        text += [aligned_table(header, plain), ""]
        caption = f"{captions[name]}. {_heading(found)}."
        latex.append(latex_table(header, rows, caption=caption, label=f"table:{name}"))
    return Outputs(
        "\n".join([*text, *_explained(found)]),
        {"table2_regret": _regret_figure(found), "table2_cost": _cost_figure(found)},
        {"table2.md": _markdown(found), "table2.tex": "\n".join(latex), "table2.csv": _csv(found)},
        found.unhealthy,
    )


def _markdown(found: Report) -> str:
    lines = ["# Table 2: regret, complexity and storage, the paper's and measured", "", f"{_heading(found)}.", ""]
    lines += [*markdown_table(*_regret_table(found)), *markdown_table(*_cost_table(found))]
    lines += [*(f"- {line}" for line in _explained(found)), "", "## Mean final regret", ""]
    labels = [variant.label for variant in VARIANTS.values()]
    lines += markdown_table(["set", "scale", "T", *labels], _regret_rows(found))
    lines += ["## CPU microseconds of a pull (smallest of all rounds), and bytes of a replication's state", ""]
    lines += markdown_table(["", "T", *labels], _cost_rows(found))
    return "\n".join(lines)


def _heading(found: Report) -> str:
    return f"Exponents of T, {found.seeds} seeds, {found.dtype}"


def _regret_table(found: Report) -> tuple[list[str], list[list[str]]]:
    """One row per variant: per set the bound's exponent and one measured per scale."""
    header = ["regret", *(f"{name}, {what}" for name in found.sets for what in ("bound", *_measured(found)))]
    rows = []
    for name, variant in VARIANTS.items():
        row = [variant.label]
        for set_name in found.sets:
            growths = [found.growth(set_name, name, scale) for scale in found.scales]
            row.append("–" if growths[0] is None else f"{growths[0].promised:.3f}")
            row += ["–" if g is None else span(g.fitted.value, g.fitted.low, g.fitted.high, 2) for g in growths]
        rows.append(row)
    return header, rows


def _measured(found: Report) -> list[str]:
    return [f"measured ×{scale:g}" for scale in found.scales]


def _cost_table(found: Report) -> tuple[list[str], list[list[str]]]:
    """One row per variant: time and storage, the paper's entry before each."""
    header = ["", "time: paper", "measured", "last step", "storage: paper", "measured", "bytes"]
    rows = []
    for name, variant in VARIANTS.items():
        timing, storage = found.timings[name], found.storages[name]
        row = [variant.label, variant.complexity or "–", span(timing.fitted, *timing.ends, 2), f"{timing.last:.2f}"]
        row += [variant.storage or "–", f"{storage.fitted:.2f}", f"{storage.bytes[0]:,} to {storage.bytes[-1]:,}"]
        rows.append(row)
    return header, rows


def _explained(found: Report) -> list[str]:
    """What the columns are, in sentences."""
    first, last = found.storages["mom"].horizons[0], found.storages["mom"].horizons[-1]
    ranges = ", ".join(
        f"{variant.label} {found.timings[name].horizons[0]:,} to {found.timings[name].horizons[-1]:,}"
        for name, variant in VARIANTS.items()
    )
    fits = ", ".join(f"{variant.time_from:,} ({variant.label})" for variant in VARIANTS.values())
    return [
        "Regret: slope of the log mean regret on log T, with a 95% bootstrap interval over seeds. The bound's exponent "
        "is that of the worst instance for each T, logarithms apart; a fixed instance may do better, and a policy that "
        "still explores has exponent 1.",
        f"T: {ranges}.",
        f"Time: CPU time of a whole run on {TIMED_ON}, compiling apart; the smallest of "
        f"{found.timings['mom'].seconds.shape[0]} interleaved measurements, in brackets single rounds' exponents. "
        f"Fitted over T ≥ {fits}. Last step: between the two longest T.",
        f"Storage: bytes of a replication's state at T = {first:,} and {last:,}, exact. MENU has "
        "k = O(log T) columns; the root of TOFU's other forms has O(log T) poles.",
        "The pruned form plays the full pass's arms; the paper has no entry for it, nor for the form by epochs (its "
        "Remark 3), here with ceil(log2 T) re-truncations.",
        f"Replications that met a non-finite number: {found.unhealthy}.",
    ]


def _regret_rows(found: Report) -> list[list[str]]:
    rows = []
    for set_name in found.sets:
        for scale in found.scales:
            growths = {name: found.growth(set_name, name, scale) for name in VARIANTS}
            for horizon in sorted({h for g in growths.values() if g is not None for h in g.horizons}):
                cells = [_mean_at(g, horizon) for g in growths.values()]
                rows.append([set_name, f"×{scale:g}", f"{horizon:,}", *cells])
    return rows


def _mean_at(growth: Growth | None, horizon: int) -> str:
    if growth is None or horizon not in growth.horizons:
        return "–"
    return number(growth.summaries[growth.horizons.index(horizon)].mean)


def _cost_rows(found: Report) -> list[list[str]]:
    rows = []
    for horizon in sorted({h for timing in found.timings.values() for h in timing.horizons}):
        cells = []
        for name in VARIANTS:
            timing = found.timings[name]
            best = dict(zip(timing.horizons, timing.seconds.min(axis=0), strict=True))
            cells.append(f"{1e6 * best[horizon] / horizon:.3g}" if horizon in best else "–")
        rows.append(["µs a pull", f"{horizon:,}", *cells])
    for index, horizon in enumerate(found.storages["mom"].horizons):
        rows.append(["bytes", f"{horizon:,}", *(f"{found.storages[name].bytes[index]:,}" for name in VARIANTS)])
    return rows


def _csv(found: Report) -> str:
    """Long form: one number a line, with its interval where it has one."""
    header = ["quantity", "set", "algorithm", "radius_scale", "horizon", "value", "low", "high", "seeds", "unhealthy"]
    rows: list[list[object]] = []
    for g in found.growths:
        fixed = (g.set_name, g.variant, g.scale)
        for horizon, s in zip(g.horizons, g.summaries, strict=True):
            rows.append(["regret", *fixed, horizon, *map(float, (s.mean, s.low, s.high)), s.n, s.unhealthy])
        e = g.fitted
        rows.append(["regret exponent", *fixed, None, *map(float, (e.value, e.low, e.high)), e.n, e.unhealthy])
        rows.append(["regret exponent of the bound", *fixed, None, g.promised, None, None, None, None])
    for name, timing in found.timings.items():
        for horizon, times in zip(timing.horizons, timing.seconds.T, strict=True):
            ends = (float(times.min()), float(times.min()), float(times.max()))
            rows.append(["cpu seconds of a replication", TIMED_ON, name, None, horizon, *ends, None, None])
        rows.append(["time exponent", TIMED_ON, name, None, None, timing.fitted, *timing.ends, None, None])
    for name, storage in found.storages.items():
        for horizon, size in zip(storage.horizons, storage.bytes, strict=True):
            rows.append(["state bytes", TIMED_ON, name, None, horizon, size, None, None, None, None])
        rows.append(["storage exponent", TIMED_ON, name, None, None, storage.fitted, None, None, None, None])
    return csv_text(header, rows)


def _regret_figure(found: Report) -> Figure:
    rows = []
    for set_name in found.sets:
        charts = []
        for scale in found.scales:
            series = []
            for name, variant in VARIANTS.items():
                growth = found.growth(set_name, name, scale)
                if growth is None:
                    continue
                label = f"{variant.label} {float(growth.fitted.value):.2f} ({growth.promised:.2f})"
                series.append(shared.mean_series(label, variant.color, growth.horizons, growth.summaries))
            spec = DATASETS[set_name]
            title = f"{set_name} (ε = {spec.epsilon:g}), radius_scale ×{scale:g}"
            charts.append(Chart(title, "T (pulls)", "mean final regret", series))
        rows.append(charts)
    return chart_figure(
        rows,
        title=f"Regret against T: fitted exponent (the bound's), {found.seeds} seeds",
        note="Bars: 95% interval of the mean (Student t). The bounds' exponents are of the worst instance for each T.",
    )


def _cost_figure(found: Report) -> Figure:
    time = []
    for name, variant in VARIANTS.items():
        timing = found.timings[name]
        best, most = timing.seconds.min(axis=0), timing.seconds.max(axis=0)
        label = f"{variant.label} {timing.fitted:.2f}"
        time.append(Series(label, variant.color, timing.horizons, best, best, most))
    storage = [
        Series(
            f"{v.label} {found.storages[n].fitted:.2f}", v.color, found.storages[n].horizons, found.storages[n].bytes
        )
        for n, v in VARIANTS.items()
    ]
    charts = [
        Chart(f"{TIMED_ON}: CPU time of a replication", "T (pulls)", "seconds", time),
        Chart(f"{TIMED_ON}: live state of a replication", "T (pulls)", "bytes", storage),
    ]
    return chart_figure(
        [charts],
        title="Complexity and storage: fitted exponents of T",
        note="Time: the smallest of the interleaved measurements, bars up to the largest; compiling apart.",
    )
