"""What `reproduce table2` writes, made from what was measured alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax import theory
from linbet_jax.datasets import DATASETS
from linbet_jax.plotting import COLORS, Chart, Series, chart_figure, save_figure
from linbet_jax.regret import Summary, fitted_exponent, summarize
from linbet_jax.reproduce.intervals import Exponent, bootstrap_exponent
from linbet_jax.reproduce.measure import Task
from linbet_jax.results import write_text
from linbet_jax.tables import aligned_table, csv_text, latex_table, markdown_table, number, span

__all__ = ["VARIANTS", "Measured", "Report", "Variant", "report", "text", "write"]


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


@dataclasses.dataclass(frozen=True)
class Measured:
    """One task: final regret and health `[G, S]`, CPU seconds `[rounds]` of all its replications."""

    task: Task
    regret: NDArray[np.float64]
    health: NDArray[np.int64]
    cpu: NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Growth:
    """How the regret of a variant grows on one set with one scale."""

    set_name: str
    variant: str
    scale: float
    horizons: tuple[int, ...]
    summaries: tuple[Summary, ...]
    fitted: Exponent

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
    timed_on: str
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


def report(
    measured: Mapping[str, Measured],
    horizons: Sequence[int],
    storage: Mapping[str, Sequence[int]],
    timed_on: str,
    seeds: int,
    dtype: str,
) -> Report:
    """Fits every exponent.

    Args:
        measured: by `set/variant/T=horizon`, horizons increasing.
        horizons: [H] of the storage.
        storage: bytes [H] by variant.
        timed_on: the set whose times count.
        seeds: replications.
        dtype: for the headings.
    """
    groups: dict[tuple[str, str], list[Measured]] = {}
    for title, one in measured.items():
        set_name, variant, _ = title.split("/")
        groups.setdefault((set_name, variant), []).append(one)
    growths, timings = [], {}
    for (set_name, variant), ones in groups.items():
        ran = tuple(one.task.horizon for one in ones)
        for index, scale in enumerate(ones[0].task.scales):
            values = np.stack([one.regret[index] for one in ones], axis=1)
            health = np.stack([one.health[index] for one in ones], axis=1)
            summaries = tuple(summarize(one.regret[index], one.health[index]) for one in ones)
            fitted = bootstrap_exponent(ran, values, health)
            growths.append(Growth(set_name, variant, scale, ran, summaries, fitted))
        if set_name == timed_on:
            seconds = np.stack([one.cpu / (one.task.seeds * len(one.task.scales)) for one in ones], axis=1)
            timings[variant] = _timing(ran, seconds, VARIANTS[variant].time_from)
    storages = {
        variant: Storage(tuple(horizons), tuple(sizes), fitted_exponent(horizons, sizes))
        for variant, sizes in storage.items()
    }
    sick = sum(int(np.count_nonzero(one.health)) for one in measured.values())
    return Report(growths, timings, storages, timed_on, seeds, dtype, sick)


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


def text(found: Report) -> str:
    """For a terminal."""
    parts = [_heading(found)]
    for header, rows in (_regret_table(found), _cost_table(found)):
        plain = [[cell.replace("$", "").replace(r"T\log", "T log").replace("\\", "") for cell in row] for row in rows]
        parts += [aligned_table(header, plain), ""]
    return "\n".join([*parts, *_explained(found)])


def write(found: Report, folder: Path) -> tuple[Path, ...]:
    """Pictures, Markdown, LaTeX and CSV."""
    files = []
    for stem, figure in (("table2_regret", _regret_figure(found)), ("table2_cost", _cost_figure(found))):
        for suffix in (".png", ".pdf"):
            files.append(folder / f"{stem}{suffix}")
            save_figure(figure, files[-1])
    regret, cost = _regret_table(found), _cost_table(found)
    lines = ["# Table 2: regret, complexity and storage, the paper's and measured", "", f"{_heading(found)}.", ""]
    lines += [*markdown_table(*regret), *markdown_table(*cost), *(f"- {line}" for line in _explained(found)), ""]
    lines += ["## Mean final regret", ""]
    columns = ["set", "scale", "T", *(variant.label for variant in VARIANTS.values())]
    lines += markdown_table(columns, _regret_rows(found))
    lines += ["## CPU microseconds of a pull (smallest of all rounds), and bytes of a replication's state", ""]
    lines += markdown_table(["", "T", *(variant.label for variant in VARIANTS.values())], _cost_rows(found))
    write_text(folder / "table2.md", "\n".join(lines))
    captions = ("Regret: exponents of the bounds and measured ones", "Complexity and storage: the paper's and measured")
    latex = [
        latex_table(*table, caption=f"{caption}. {_heading(found)}.", label=f"table:{label}")
        for table, caption, label in zip((regret, cost), captions, ("regret", "cost"), strict=True)
    ]
    write_text(folder / "table2.tex", "\n".join(latex))
    write_text(folder / "table2.csv", _csv(found))
    return (*files, *(folder / f"table2.{suffix}" for suffix in ("md", "tex", "csv")))


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
        f"Time: CPU time of a whole run on {found.timed_on}, compiling apart; the smallest of "
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
        rows.append(["regret exponent", *fixed, None, e.value, e.low, e.high, e.seeds, e.unhealthy])
        rows.append(["regret exponent of the bound", *fixed, None, g.promised, None, None, None, None])
    for name, timing in found.timings.items():
        for horizon, times in zip(timing.horizons, timing.seconds.T, strict=True):
            ends = (float(times.min()), float(times.min()), float(times.max()))
            rows.append(["cpu seconds of a replication", found.timed_on, name, None, horizon, *ends, None, None])
        rows.append(["time exponent", found.timed_on, name, None, None, timing.fitted, *timing.ends, None, None])
    for name, storage in found.storages.items():
        for horizon, size in zip(storage.horizons, storage.bytes, strict=True):
            rows.append(["state bytes", found.timed_on, name, None, horizon, size, None, None, None, None])
        rows.append(["storage exponent", found.timed_on, name, None, None, storage.fitted, None, None, None, None])
    return csv_text(header, rows)


def _regret_figure(found: Report) -> Any:
    rows = []
    for set_name in found.sets:
        charts = []
        for scale in found.scales:
            series = []
            for name, variant in VARIANTS.items():
                growth = found.growth(set_name, name, scale)
                if growth is None:
                    continue
                mean, low, high = (
                    [float(getattr(s, field)) for s in growth.summaries] for field in ("mean", "low", "high")
                )
                label = f"{variant.label} {growth.fitted.value:.2f} ({growth.promised:.2f})"
                series.append(Series(label, variant.color, growth.horizons, mean, low, high))
            spec = DATASETS[set_name]
            title = f"{set_name} (ε = {spec.epsilon:g}), radius_scale ×{scale:g}"
            charts.append(Chart(title, "T (pulls)", "mean final regret", series))
        rows.append(charts)
    return chart_figure(
        rows,
        title=f"Regret against T: fitted exponent (the bound's), {found.seeds} seeds",
        note="Bars: 95% interval of the mean (Student t). The bounds' exponents are of the worst instance for each T.",
    )


def _cost_figure(found: Report) -> Any:
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
        Chart(f"{found.timed_on}: CPU time of a replication", "T (pulls)", "seconds", time),
        Chart(f"{found.timed_on}: live state of a replication", "T (pulls)", "bytes", storage),
    ]
    return chart_figure(
        [charts],
        title="Complexity and storage: fitted exponents of T",
        note="Time: the smallest of the interleaved measurements, bars up to the largest; compiling apart.",
    )
