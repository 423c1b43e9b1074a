"""What a report shows, gathered in one pass over the cells' files: memory holds summaries and final values, no rows."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax import theory
from linbet_jax.policies.labels import policy_label
from linbet_jax.statistics import regret
from linbet_jax.sweep.store import CellFileError, Rows
from linbet_jax.sweep.table import CellPair, LoadedCell, Results, compare, spoiled

__all__ = [
    "Band",
    "Comparison",
    "Growth",
    "Line",
    "ParameterPanel",
    "Report",
    "Setting",
    "Variant",
    "gather",
    "parameter_name",
    "plain_value",
]

FloatArray = NDArray[np.float64]

STATISTICS = ("mean", "low", "high", "median", "trimmed_mean")  # of a summary, in the order of a band's fields
POINTS = 90  # of a curve in a picture
SHOWN = 10  # curves, boxes or lines in one picture
SYMBOLS = {"delta": "δ", "epsilon": "ε", "ridge": "λ", "theta_norm": "S", "arm_norm": "D", "mean_bound": "L"}


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean with its interval, the median and the trimmed mean along an axis; a single seed's interval is NaN."""

    at: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    median: FloatArray
    trimmed_mean: FloatArray


@dataclasses.dataclass(frozen=True)
class Variant:
    """One cell that holds replications: a curve, a box, a row.

    Attributes:
        cell: which.
        label: unique within its setting; every radius_scale but 1 is in it.
        band: mean regret against pulls, thinned to what a picture can show.
        final: summary of the regret at the horizon.
        run: seeds, final regret and health of each (one record only).
        troubles: (seed, first pull at which something non-finite was met) of unhealthy seeds.
        rate: pulls per second over all seeds; NaN when the journal does not tell.
    """

    cell: LoadedCell
    label: str
    band: Band
    final: regret.Summary
    run: Rows
    troubles: tuple[tuple[int, int], ...]
    rate: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Every shown variant of a setting against the one of the smallest mean regret, on the same seeds.

    Attributes:
        best: the variant of the smallest mean, chosen on these same seeds.
        pairs: (other variant, other minus best).
        ranks: mean rank over seeds; empty when the variants share no seed.
        matrix: every ordered couple of labels to their pair.
    """

    best: Variant
    pairs: tuple[tuple[Variant, CellPair], ...]
    ranks: tuple[regret.Rank, ...]
    matrix: Mapping[tuple[str, str], CellPair]


@dataclasses.dataclass(frozen=True)
class Setting:
    """Cells that can be compared: one instance, horizon and dtype.

    Attributes:
        title: e.g. "S3".
        detail: e.g. "T = 10,000".
        horizon: T, pulls.
        facts: the bandit in words.
        variants: cells with replications, in the order of the sweep file.
        shown: those that pictures show: all, or when they are many each policy's first and best.
        absent: cells that are not done, "partial" ones among them.
        labels: of every cell by its id, those without a variant too.
        comparison: None with fewer than two shown variants.
    """

    title: str
    detail: str
    horizon: int
    facts: str
    variants: tuple[Variant, ...]
    shown: tuple[Variant, ...]
    absent: tuple[LoadedCell, ...]
    labels: Mapping[str, str]
    comparison: Comparison | None


@dataclasses.dataclass(frozen=True)
class Line:
    """Final regret of one policy against a parameter."""

    family: str
    label: str
    band: Band


@dataclasses.dataclass(frozen=True)
class ParameterPanel:
    """Final regret against one swept parameter, on one set at one horizon.

    Attributes:
        parameter: its name.
        title: e.g. "S3".
        detail: e.g. "T = 10,000".
        ticks: names of the values when they are not numbers (their places are 0, 1, ...); else None.
        lines: one per policy and setting of the other parameters.
        level: policies without the parameter, each with a band of one number.
        note: what the other swept parameters are.
    """

    parameter: str
    title: str
    detail: str
    ticks: tuple[str, ...] | None
    lines: tuple[Line, ...]
    level: tuple[Line, ...]
    note: str


@dataclasses.dataclass(frozen=True)
class Growth:
    """Regret against the horizon of one policy with one setting.

    Attributes:
        title: name of the set.
        family: registry name.
        label: of the policy and its setting.
        band: final regret against T, over the seeds of each cell.
        fit: fitted exponent with its interval over the seeds that all horizons share; None when it cannot be fitted.
        theory: exponent of the policy's bound; None when it has none.
    """

    title: str
    family: str
    label: str
    band: Band
    fit: regret.Estimate | None
    theory: float | None


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything a report shows.

    Attributes:
        sweep: the sweep, with the cells that turned out damaged marked so.
        settings: in the order of the sweep file.
        parameters: one panel per swept parameter, set and horizon.
        growths: one per policy and setting with two horizons or more.
        level: coverage of every interval.
    """

    sweep: Results
    settings: tuple[Setting, ...]
    parameters: tuple[ParameterPanel, ...]
    growths: tuple[Growth, ...]
    level: float

    @property
    def variants(self) -> list[Variant]:
        """Every cell that holds replications."""
        return [variant for setting in self.settings for variant in setting.variants]

    @property
    def unhealthy(self) -> int:
        """Seeds that met something non-finite, over all cells."""
        return sum(len(variant.troubles) for variant in self.variants)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the sweep is not simply done and healthy, in words; empty when it is."""
        found = [] if self.sweep.complete else [self.sweep.progress]
        cells = sum(bool(variant.troubles) for variant in self.variants)
        if cells:
            found.append(
                f"{self.unhealthy} unhealthy seed{'s' if self.unhealthy > 1 else ''} in {cells} "
                f"cell{'s' if cells > 1 else ''}, left out of every average"
            )
        return tuple(found)


def gather(sweep: Results, *, level: float = 0.95, progress: Callable[[int], None] | None = None) -> Report:
    """Reads every cell once and works out what the report shows.

    Args:
        sweep: an opened sweep folder, whatever its state.
        level: coverage of the intervals, in (0, 1).
        progress: told how many cells have been read.
    """
    cells: list[LoadedCell] = []
    held: dict[str, tuple[Band, regret.Summary, Rows]] = {}
    for count, cell in enumerate(sweep.cells, 1):
        kept = cell
        if cell.readable:
            try:
                held[cell.id] = _digested(cell.run(), level)
            except CellFileError as error:
                kept = spoiled(cell, error)
        cells.append(kept)
        if progress is not None:
            progress(count)
    whole = Results(sweep.path, sweep.manifest, cells)
    groups = _grouped(cells, lambda cell: (cell.set, cell.horizon, cell.dtype, _text(cell.bandit)))
    titles = _titles(list(groups.values()), whole.swept)
    settings = [
        _setting(members, title, held, whole.swept, level)
        for members, title in zip(groups.values(), titles, strict=True)
    ]
    of_cell = {variant.cell.id: variant for setting in settings for variant in setting.variants}
    return Report(
        sweep=whole,
        settings=tuple(settings),
        parameters=tuple(_parameter_panels(whole, of_cell)),
        growths=tuple(_growths(whole, of_cell, level)),
        level=level,
    )


def plain_value(value: Any) -> str:
    """A parameter's value for people."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return value if isinstance(value, str) else _text(value)


def parameter_name(name: str) -> str:
    """A parameter's name for people: the paper's letter where it has one."""
    bare = name.removeprefix("bandit_").removeprefix("policy.")
    shown = SYMBOLS.get(bare, bare.replace("_", " "))
    return f"policy's {shown}" if name.startswith("policy.") else shown


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _grouped(cells: Iterable[LoadedCell], key: Callable[[LoadedCell], Hashable]) -> dict[Hashable, list[LoadedCell]]:
    groups: dict[Hashable, list[LoadedCell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def _thin(count: int, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Records worth drawing on a linear and on a log axis alike: evenly spaced on both, the last one always."""
    if rounds.size <= count:
        return np.arange(rounds.size)
    even = np.linspace(0, rounds.size - 1, count // 2)
    spaced = np.geomspace(max(float(rounds[0]), 1.0), float(rounds[-1]), count // 2)
    chosen = np.concatenate([np.rint(even).astype(np.int64), np.searchsorted(rounds, spaced)])
    return np.unique(np.clip(chosen, 0, rounds.size - 1))


def _digested(run: Rows, level: float) -> tuple[Band, regret.Summary, Rows]:
    at = _thin(POINTS, run.rounds)
    curve = regret.summarize(run.regret[:, at], run.health, level=level)
    band = Band(run.rounds[at].astype(np.float64), *(getattr(curve, name) for name in STATISTICS))
    final = regret.summarize(run.regret[:, -1], run.health, level=level)
    return band, final, run.last


def _titles(groups: Sequence[Sequence[LoadedCell]], swept: Sequence[str]) -> list[tuple[str, str]]:
    """(title, detail) per group; what tells groups of one set and horizon apart is in the detail."""
    firsts = [members[0] for members in groups]
    found: dict[str, tuple[str, str]] = {}
    for twins in _grouped(firsts, lambda cell: (cell.set, cell.horizon)).values():
        names = dict.fromkeys(name for twin in twins for name in twin.bandit if name != "instance_hash")
        telling = [name for name in names if len({_text(twin.bandit.get(name)) for twin in twins}) > 1]
        telling = [name for name in telling if name in swept] or telling
        instances = len({_text(twin.bandit) for twin in twins}) > 1 and not telling
        dtypes = len({twin.dtype for twin in twins}) > 1
        for cell in twins:
            detail = [f"T = {cell.horizon:,}"]
            detail += [f"{parameter_name(name)} = {plain_value(cell.bandit.get(name))}" for name in telling[:4]]
            detail += [cell.dtype] if dtypes else []
            detail += [f"instance {str(cell.bandit.get('instance_hash'))[:6]}"] if instances else []
            found[cell.id] = (cell.set, ", ".join(detail))
    return [found[cell.id] for cell in firsts]


def _labels(cells: Sequence[LoadedCell], swept: Sequence[str]) -> dict[str, str]:
    """A label per cell, unique among them."""
    labels: dict[str, str] = {}
    for base, twins in _grouped(cells, _base_label).items():
        telling = _telling(twins, dict.fromkeys(swept))
        if len({tuple(_text(twin.value(name)) for name in ("radius_scale", *telling)) for twin in twins}) < len(twins):
            telling = _telling(twins, dict.fromkeys(name for twin in twins for name in (*swept, *twin.constants)))
        for cell in twins:
            parts = [f"{parameter_name(name)}={plain_value(cell.value(name))}" for name in telling]
            labels[cell.id] = ", ".join([str(base), *parts])
    counts = collections.Counter(labels.values())
    return {key: label if counts[label] == 1 else f"{label} [{key[:6]}]" for key, label in labels.items()}


def _telling(cells: Sequence[LoadedCell], names: Iterable[str]) -> list[str]:
    """Those of the names whose values differ between the cells; the base label holds radius_scale."""
    asked = [name for name in names if name != "radius_scale" and not name.startswith("bandit_")]
    return [name for name in asked if len({_text(cell.value(name)) for cell in cells}) > 1]


def _base_label(cell: LoadedCell, *, scaled: bool = True) -> str:
    """The policy's name, with every radius_scale but the paper's 1."""
    named = cell.label if cell.label != cell.policy else policy_label(cell.policy)
    scale = cell.parameters.get("radius_scale")
    literal = not isinstance(scale, (int, float)) or scale == 1.0
    return named if literal or not scaled or "×" in named else f"{named} ×{scale:g}"


def _setting(
    members: Sequence[LoadedCell],
    title: tuple[str, str],
    held: Mapping[str, tuple[Band, regret.Summary, Rows]],
    swept: Sequence[str],
    level: float,
) -> Setting:
    labels = _labels(members, swept)
    variants = []
    for cell in members:
        if cell.id in held:
            band, final, run = held[cell.id]
            bad = run.health != 0
            told = cell.journey
            rate = told.seed_pulls / told.run_seconds if told.run_seconds > 0 and told.seed_pulls > 0 else math.nan
            troubles = tuple(zip(run.seeds[bad].tolist(), run.health[bad].tolist(), strict=True))
            variants.append(Variant(cell, labels[cell.id], band, final, run, troubles, rate))
    shown = _worth_showing(variants)
    facts = members[0].bandit
    words = [f"{parameter_name(name)} = {plain_value(facts[name])}" for name in ("K", "d", "epsilon") if name in facts]
    return Setting(
        title=title[0],
        detail=title[1],
        horizon=members[0].horizon,
        facts=", ".join(([str(facts["law"])] if "law" in facts else []) + words),
        variants=tuple(variants),
        shown=tuple(shown),
        absent=tuple(cell for cell in members if not cell.whole),
        labels=labels,
        comparison=_compared(shown, level),
    )


def _mean(variant: Variant) -> float:
    return float(np.nan_to_num(variant.final.mean, nan=math.inf))


def _worth_showing(variants: Sequence[Variant]) -> list[Variant]:
    """All, or of many each policy's first (the literal radius, if there is one) and best."""
    if len(variants) <= SHOWN:
        return list(variants)
    chosen: list[Variant] = []
    for policy in dict.fromkeys(variant.cell.policy for variant in variants):
        own = [variant for variant in variants if variant.cell.policy == policy]
        literal = [variant for variant in own if variant.cell.parameters.get("radius_scale", 1.0) == 1.0]
        chosen += [(literal or own)[0], min(own, key=_mean)]
    unique = {variant.cell.id for variant in chosen}
    if len(unique) > SHOWN:  # many policies: the best variant of the best of them
        unique = {variant.cell.id for variant in sorted(chosen[1::2], key=_mean)[:SHOWN]}
    return [variant for variant in variants if variant.cell.id in unique]


def _compared(shown: Sequence[Variant], level: float) -> Comparison | None:
    usable = [variant for variant in shown if variant.final.n > 0]
    if len(usable) < 2:
        return None
    best = min(usable, key=_mean)
    matrix: dict[tuple[str, str], CellPair] = {}
    for first in usable:
        for second in usable:
            if first is not second and np.intersect1d(first.run.seeds, second.run.seeds).size:
                matrix[first.label, second.label] = compare(first.cell, second.cell, first.run, second.run, level=level)
    pairs = [(v, matrix[v.label, best.label]) for v in usable if (v.label, best.label) in matrix]
    common, at = _common_seeds([variant.run for variant in usable])
    ranks: tuple[regret.Rank, ...] = ()
    if common.size:
        values = {v.label: v.run.regret[rows, -1] for v, rows in zip(usable, at, strict=True)}
        health = {v.label: v.run.health[rows] for v, rows in zip(usable, at, strict=True)}
        ranks = regret.rank_table(values, health, level=level)
    return Comparison(best, tuple(pairs), ranks, matrix)


def _common_seeds(runs: Sequence[Rows]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The seeds that all runs hold, and their places in each."""
    common = runs[0].seeds
    for run in runs[1:]:
        common = np.intersect1d(common, run.seeds, assume_unique=True)
    return common, [np.searchsorted(run.seeds, common) for run in runs]


def _stacked(variants: Sequence[Variant], at: Sequence[float]) -> Band:
    numbers = [[float(getattr(v.final, name)) for v in variants] for name in STATISTICS]
    return Band(np.asarray(at, dtype=np.float64), *map(np.array, numbers))


def _reference(cells: Sequence[LoadedCell], name: str) -> Any:
    """The value that other parameters are held at: the paper's scale 1, or the first in the sweep file."""
    values = [value for cell in cells if (value := cell.value(name)) is not None]
    return 1.0 if name == "radius_scale" and 1.0 in values else values[0] if values else None


def _parameter_panels(sweep: Results, of_cell: Mapping[str, Variant]) -> Iterable[ParameterPanel]:
    dimensions = [name for name in sweep.swept if name not in ("set", "policy", "label", "horizon", "dtype")]
    readable = [cell for cell in sweep.cells if cell.id in of_cell]
    for name in dimensions:
        others = [other for other in dimensions if other != name]
        for members in _grouped(readable, lambda cell: (cell.set, cell.horizon, cell.dtype)).values():
            owners = [cell for cell in members if cell.value(name) is not None]
            if len({_text(cell.value(name)) for cell in owners}) < 2:
                continue
            # Beside the parameter itself a line's cells differ in nothing.
            lines = _lines(owners, others)
            note = ""
            if len(lines) > SHOWN:
                held = {other: _reference(owners, other) for other in others}
                lines = [line for line in lines if _held_at(line[0], held)]
                told = [f"{parameter_name(o)} = {plain_value(held[o])}" for o in others if held[o] is not None]
                note = f"Other parameters held at {', '.join(told)}; all combinations are in the table."
            if not lines:
                continue
            yield _parameter_panel(name, members, lines[:SHOWN], of_cell, others, note)


def _lines(cells: Sequence[LoadedCell], others: Sequence[str]) -> list[list[LoadedCell]]:
    """Cells of one policy that agree in all other parameters."""
    groups = _grouped(cells, lambda cell: (cell.policy, cell.label, *(_text(cell.value(other)) for other in others)))
    return list(groups.values())


def _held_at(cell: LoadedCell, held: Mapping[str, Any]) -> bool:
    """Whether the cell's parameters are these, as far as it has them."""
    return all(cell.value(name) is None or _text(cell.value(name)) == _text(value) for name, value in held.items())


def _parameter_panel(
    name: str,
    members: Sequence[LoadedCell],
    lines: Sequence[Sequence[LoadedCell]],
    of_cell: Mapping[str, Variant],
    others: Sequence[str],
    note: str,
) -> ParameterPanel:
    values = [cell.value(name) for line in lines for cell in line]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    names = () if numeric else tuple(dict.fromkeys(plain_value(value) for value in values))
    made = []
    for line in lines:
        place: Callable[[LoadedCell], float] = (
            (lambda cell: float(cell.value(name)))
            if numeric
            else (lambda cell: names.index(plain_value(cell.value(name))))
        )
        ordered = sorted(line, key=place)
        first = ordered[0]
        twins = [other[0] for other in lines if other[0].policy == first.policy]
        telling = [o for o in others if len({_text(twin.value(o)) for twin in twins}) > 1]
        base = _base_label(first, scaled=name != "radius_scale")
        parts = [f"{parameter_name(o)}={plain_value(first.value(o))}" for o in telling if o != "radius_scale"]
        band = _stacked([of_cell[cell.id] for cell in ordered], [place(cell) for cell in ordered])
        made.append(Line(first.family, ", ".join([base, *parts]), band))
    without = [of_cell[cell.id] for cell in members if cell.value(name) is None]
    flat = [v for v in without[: max(0, SHOWN - len(made))] if math.isfinite(float(v.final.mean))]
    return ParameterPanel(
        parameter=name,
        title=members[0].set,
        detail=f"T = {members[0].horizon:,}",
        ticks=None if numeric else names,
        lines=tuple(made),
        level=tuple(Line(v.cell.family, v.label, _stacked([v], [math.nan])) for v in flat),
        note=note,
    )


def _growths(sweep: Results, of_cell: Mapping[str, Variant], level: float) -> Iterable[Growth]:
    others = [name for name in sweep.swept if name not in ("set", "policy", "label", "horizon", "dtype")]
    readable = [cell for cell in sweep.cells if cell.id in of_cell and of_cell[cell.id].final.n > 0]
    groups = _grouped(
        readable, lambda c: (c.set, c.dtype, c.policy, c.label, *(_text(c.value(other)) for other in others))
    )
    for members in groups.values():
        ordered = sorted({cell.horizon: cell for cell in members}.values(), key=lambda cell: cell.horizon)
        if len(ordered) < 2:
            continue
        variants = [of_cell[cell.id] for cell in ordered]
        first = ordered[0]
        twins = [group[0] for group in groups.values() if (group[0].set, group[0].policy) == (first.set, first.policy)]
        label = _labels(twins, others)[members[0].id]
        horizons = [cell.horizon for cell in ordered]
        epsilon = first.value("epsilon")
        numeric = isinstance(epsilon, (int, float)) and epsilon > 0 and first.family in theory.BOUNDED
        yield Growth(
            title=first.set,
            family=first.family,
            label=label,
            band=_stacked(variants, horizons),
            fit=_fitted(variants, horizons, level),
            theory=theory.regret_exponent(first.family, float(epsilon)) if numeric else None,
        )


def _fitted(variants: Sequence[Variant], horizons: Sequence[int], level: float) -> regret.Estimate | None:
    common, at = _common_seeds([variant.run for variant in variants])
    if not common.size:
        return None
    values = np.stack([v.run.regret[rows, -1] for v, rows in zip(variants, at, strict=True)], axis=1)
    health = np.stack([v.run.health[rows] for v, rows in zip(variants, at, strict=True)], axis=1)
    try:
        return regret.exponent_interval(horizons, values, health, level=level)
    except ValueError:  # no seed healthy at every horizon, or a mean of 0: no power of T to fit
        return None
