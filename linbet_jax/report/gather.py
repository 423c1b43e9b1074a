"""What a report shows, gathered in one pass over the cells' files: memory holds summaries and final values, no rows."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linbet_jax import theory
from linbet_jax.figures.colors import policy_colors
from linbet_jax.figures.pictures import Band, GrowthLine, Line
from linbet_jax.statistics import regret
from linbet_jax.statistics.tables import grouped
from linbet_jax.sweep.store import Rows
from linbet_jax.sweep.table import CellPair, LoadedCell, Results, base_label, compare

FloatArray = NDArray[np.float64]

STATISTICS = ("mean", "low", "high", "median", "trimmed_mean")  # of a summary, in the order of a band's fields
POINTS = 90  # of a curve in a picture
LEVEL = 0.95  # coverage of every interval: what `statistics.regret` takes by default
SHOWN = 10  # curves, boxes or lines in one picture
SYMBOLS = {"delta": "δ", "epsilon": "ε", "ridge": "λ", "theta_norm": "S", "arm_norm": "D", "mean_bound": "L"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyVariant(Line):
    """One cell that holds replications: a curve, a box, a row.

    The label is unique within its setting, with every radius_scale but 1; the band is the mean regret against pulls,
    thinned to what a picture can show.
    """

    cell: LoadedCell
    final: regret.Summary  # of the regret at the horizon
    run: Rows  # seeds, final regret and health of each (one record only)
    troubles: tuple[tuple[int, int], ...]  # (seed, first pull at which something non-finite was met) of unhealthy seeds
    rate: float  # pulls per second over all seeds; NaN when the journal does not tell


@dataclasses.dataclass(frozen=True)
class PairedComparison:
    """Every shown variant of a setting against the one of the smallest mean regret, on the same seeds."""

    best: PolicyVariant  # the variant of the smallest mean, chosen on these same seeds
    pairs: tuple[tuple[PolicyVariant, CellPair], ...]  # (other variant, other minus best)
    ranks: tuple[regret.Rank, ...]  # mean rank over seeds; empty when the variants share no seed
    matrix: Mapping[tuple[str, str], CellPair]  # every ordered couple of labels to their pair

    @property
    def first(self) -> tuple[PolicyVariant, ...]:
        """The best, and those that equal it in every seed: a tie has no winner."""
        return (self.best, *(variant for variant, pair in self.pairs if 0 < pair.wins.n == pair.wins.ties))


@dataclasses.dataclass(frozen=True)
class Setting:
    """Cells that can be compared: one instance, horizon and dtype."""

    title: str  # e.g. "S3"
    detail: str  # e.g. "T = 10,000"
    horizon: int  # T, pulls
    facts: str  # the bandit in words
    variants: tuple[PolicyVariant, ...]  # cells with replications, in the order of the sweep file
    shown: tuple[PolicyVariant, ...]  # in pictures: all, or when they are many each policy's first and best
    cells: tuple[LoadedCell, ...]  # all, in the order of the sweep file
    labels: Mapping[str, str]  # of every cell by its id, those without a variant too
    comparison: PairedComparison | None  # None with fewer than two shown variants

    @property
    def name(self) -> str:
        """Title and detail."""
        return f"{self.title}, {self.detail}"


@dataclasses.dataclass(frozen=True)
class ParameterPanel:
    """Final regret against one swept parameter, on one set at one horizon."""

    parameter: str
    title: str  # e.g. "S3"
    detail: str  # e.g. "T = 10,000"
    ticks: tuple[str, ...] | None  # names of values that are no numbers (their places are 0, 1, ...)
    lines: tuple[Line, ...]  # one per policy and setting of the other parameters
    level: tuple[Line, ...]  # policies without the parameter, each with a band of one number
    note: str  # what the other swept parameters are


@dataclasses.dataclass(frozen=True)
class SweepReport:
    """Everything a report shows."""

    sweep: Results  # with the cells that turned out damaged marked so
    settings: tuple[Setting, ...]  # in the order of the sweep file
    parameters: tuple[ParameterPanel, ...]  # one panel per swept parameter, set and horizon
    growths: tuple[GrowthLine, ...]  # one per policy and setting with two horizons or more
    colors: Mapping[str, str]  # registry name of every policy to its colour

    @property
    def variants(self) -> list[PolicyVariant]:
        """Every cell that holds replications."""
        return [variant for setting in self.settings for variant in setting.variants]

    @property
    def unhealthy(self) -> int:
        """Seeds that met something non-finite, over all cells."""
        return sum(len(variant.troubles) for variant in self.variants)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the sweep is not simply done and healthy, in words; empty when it is."""
        problems = [] if self.sweep.complete else [self.sweep.progress]
        cells = sum(bool(variant.troubles) for variant in self.variants)
        if cells:
            problems.append(
                f"{self.unhealthy} unhealthy seed{'s' if self.unhealthy > 1 else ''} in {cells} "
                f"cell{'s' if cells > 1 else ''}, left out of every average"
            )
        return tuple(problems)


def gather(sweep: Results) -> SweepReport:
    """Reads every cell of an opened sweep folder, whatever its state, once, and works out what the report shows."""
    colors = policy_colors(cell.family for cell in sweep.cells)
    whole = Results(sweep.path, sweep.manifest, sweep.cells)  # one of our own: cells that cannot be read are marked
    groups = list(grouped(sweep.cells, lambda cell: (cell.set, cell.horizon, cell.dtype, _text(cell.bandit))).values())
    titles = _titles([members[0] for members in groups], whole.swept)
    settings = [_setting(whole, members, *titles[members[0].id], colors) for members in groups]
    of_cell = {variant.cell.id: variant for setting in settings for variant in setting.variants}
    ordered = [of_cell[cell.id] for cell in whole.cells if cell.id in of_cell]  # as in the sweep file
    panels = [
        _parameter_panel(name, [other for other in whole.parameters if other != name], members)
        for name in whole.parameters
        for members in grouped(ordered, lambda v: (v.cell.set, v.cell.horizon, v.cell.dtype)).values()
    ]
    return SweepReport(
        sweep=whole,
        settings=tuple(settings),
        parameters=tuple(panel for panel in panels if panel is not None),
        growths=tuple(_growths(ordered, whole.parameters)),
        colors=colors,
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


def pulls_per_second(cells: Iterable[LoadedCell]) -> float:
    """Pulls of cells over the seconds that they were computed in, compiling apart; for figure and table alike."""
    journeys = [cell.journey for cell in cells]
    return sum(journey.seed_pulls for journey in journeys) / sum(journey.run_seconds for journey in journeys)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _differing(
    cells: Sequence[LoadedCell], names: Iterable[str], value: Callable[[LoadedCell, str], Any] = LoadedCell.value
) -> list[str]:
    """Those of the names whose values differ between the cells."""
    return [name for name in names if len({_text(value(cell, name)) for cell in cells}) > 1]


def _named_values(cell: LoadedCell, names: Iterable[str]) -> list[str]:
    """Parameters with their values; radius_scale stands beside the policy's name."""
    return [f"{parameter_name(name)}={plain_value(cell.value(name))}" for name in names if name != "radius_scale"]


def _thin(count: int, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Records worth drawing on a linear and on a log axis alike: evenly spaced on both, the last one always."""
    if rounds.size <= count:
        return np.arange(rounds.size)
    even = np.linspace(0, rounds.size - 1, count // 2)
    spaced = np.geomspace(max(float(rounds[0]), 1.0), float(rounds[-1]), count // 2)
    chosen = np.concatenate([np.rint(even).astype(np.int64), np.searchsorted(rounds, spaced)])
    return np.unique(np.clip(chosen, 0, rounds.size - 1))


def _variant(cell: LoadedCell, run: Rows, color: str, label: str) -> PolicyVariant:
    at = _thin(POINTS, run.rounds)
    curve = regret.summarize(run.regret[:, at], run.health)
    unhealthy, journey = run.health != 0, cell.journey
    timed = journey.run_seconds > 0 and journey.seed_pulls > 0
    return PolicyVariant(
        family=cell.family,
        color=color,
        label=label,
        band=Band(run.rounds[at].astype(np.float64), *(getattr(curve, name) for name in STATISTICS)),
        theory=_bound_exponent(cell),
        cell=cell,
        final=regret.summarize(run.regret[:, -1], run.health),
        run=run.last,
        troubles=tuple(zip(run.seeds[unhealthy].tolist(), run.health[unhealthy].tolist(), strict=True)),
        rate=journey.seed_pulls / journey.run_seconds if timed else math.nan,
    )


def _titles(firsts: Sequence[LoadedCell], swept: Sequence[str]) -> dict[str, tuple[str, str]]:
    """(title, detail) of each setting, by its first cell; the detail says what tells settings of one horizon apart."""
    titles: dict[str, tuple[str, str]] = {}
    for twins in grouped(firsts, lambda cell: (cell.set, cell.horizon)).values():
        names = dict.fromkeys(name for twin in twins for name in twin.bandit if name != "instance_hash")
        telling = _differing(twins, names, lambda cell, name: cell.bandit.get(name))
        telling = [name for name in telling if name in swept] or telling
        instances = len({_text(twin.bandit) for twin in twins}) > 1 and not telling
        dtypes = bool(_differing(twins, ["dtype"]))
        for cell in twins:
            detail = [f"T = {cell.horizon:,}"]
            detail += [f"{parameter_name(name)} = {plain_value(cell.bandit.get(name))}" for name in telling[:4]]
            detail += [cell.dtype] if dtypes else []
            detail += [f"instance {str(cell.bandit.get('instance_hash'))[:6]}"] if instances else []
            titles[cell.id] = (cell.set, ", ".join(detail))
    return titles


def _labels(cells: Sequence[LoadedCell], swept: Sequence[str]) -> dict[str, str]:
    """A label per cell, unique among them."""
    labels: dict[str, str] = {}
    for base, twins in grouped(cells, base_label).items():
        names = dict.fromkeys(name for name in swept if not name.startswith("bandit_"))
        telling = _differing(twins, names)
        if len({tuple(_text(twin.value(name)) for name in ("radius_scale", *telling)) for twin in twins}) < len(twins):
            constants = (name for twin in twins for name in twin.constants if not name.startswith("bandit_"))
            telling = _differing(twins, dict.fromkeys((*names, *constants)))
        for cell in twins:
            labels[cell.id] = ", ".join([base, *_named_values(cell, telling)])
    counts = collections.Counter(labels.values())
    return {key: label if counts[label] == 1 else f"{label} [{key[:6]}]" for key, label in labels.items()}


def _bound_exponent(cell: LoadedCell) -> float | None:
    """Exponent of T in the policy's bound; None when it has none."""
    epsilon = cell.value("epsilon")
    still = "drift" not in cell.bandit  # no bound here is of a theta* that moves
    known = isinstance(epsilon, (int, float)) and epsilon > 0 and cell.family in theory.BOUNDED and still
    return theory.regret_exponent(cell.family, float(epsilon)) if known else None


def _setting(
    sweep: Results, members: Sequence[LoadedCell], title: str, detail: str, colors: Mapping[str, str]
) -> Setting:
    labels, cells, variants = _labels(members, sweep.swept), [], []
    for cell, run in map(sweep.run_of, members):
        cells.append(cell)
        if run is not None:
            variants.append(_variant(cell, run, colors[cell.family], labels[cell.id]))
    shown = _worth_showing(variants)
    facts = members[0].bandit
    told = [name for name in ("K", "d", "epsilon") if name in facts and (name, facts[name]) != ("K", 0)]  # 0: a ball
    words = [f"{parameter_name(name)} = {plain_value(facts[name])}" for name in told]
    return Setting(
        title=title,
        detail=detail,
        horizon=members[0].horizon,
        facts=", ".join([*(str(facts[name]) for name in ("law", "drift") if name in facts), *words]),
        variants=tuple(variants),
        shown=tuple(shown),
        cells=tuple(cells),
        labels=labels,
        comparison=_compared(shown),
    )


def _mean(variant: PolicyVariant) -> float:
    return float(np.nan_to_num(variant.final.mean, nan=math.inf))


def _worth_showing(variants: Sequence[PolicyVariant]) -> list[PolicyVariant]:
    """All, or of many each policy's first (the literal radius, if there is one) and best."""
    if len(variants) <= SHOWN:
        return list(variants)
    chosen: list[PolicyVariant] = []
    for of_policy in grouped(variants, lambda variant: variant.cell.policy).values():
        literal = [variant for variant in of_policy if variant.cell.parameters.get("radius_scale", 1.0) == 1.0]
        chosen += [(literal or of_policy)[0], min(of_policy, key=_mean)]
    unique = {variant.cell.id for variant in chosen}
    if len(unique) > SHOWN:  # many policies: the best variant of the best of them
        unique = {variant.cell.id for variant in sorted(chosen[1::2], key=_mean)[:SHOWN]}
    return [variant for variant in variants if variant.cell.id in unique]


def _compared(shown: Sequence[PolicyVariant]) -> PairedComparison | None:
    usable = [variant for variant in shown if variant.final.n > 0]
    if len(usable) < 2:
        return None
    best = min(usable, key=_mean)
    matrix: dict[tuple[str, str], CellPair] = {}
    for first, second in itertools.permutations(usable, 2):
        if np.intersect1d(first.run.seeds, second.run.seeds).size:
            matrix[first.label, second.label] = compare(first.cell, second.cell, first.run, second.run)
    pairs = [(v, matrix[v.label, best.label]) for v in usable if (v.label, best.label) in matrix]
    values, health = _common_seeds(usable)
    ranks: tuple[regret.Rank, ...] = ()
    if values.size:
        labels = [variant.label for variant in usable]
        ranks = regret.rank_table(dict(zip(labels, values.T, strict=True)), dict(zip(labels, health.T, strict=True)))
    return PairedComparison(best, tuple(pairs), ranks, matrix)


def _common_seeds(variants: Sequence[PolicyVariant]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Final regret and health `[S, V]` of the seeds that all variants hold."""
    runs = [variant.run for variant in variants]
    common = functools.reduce(np.intersect1d, [run.seeds for run in runs])
    places = [np.searchsorted(run.seeds, common) for run in runs]
    regrets = [run.regret[at, -1] for run, at in zip(runs, places, strict=True)]
    return np.stack(regrets, axis=1), np.stack([run.health[at] for run, at in zip(runs, places, strict=True)], axis=1)


def _stacked(variants: Sequence[PolicyVariant], at: Sequence[float]) -> Band:
    numbers = [[float(getattr(v.final, name)) for v in variants] for name in STATISTICS]
    return Band(np.asarray(at, dtype=np.float64), *map(np.array, numbers))


def _line(label: str, variants: Sequence[PolicyVariant], at: Sequence[float]) -> Line:
    """Final regret of variants of one policy along an axis."""
    return Line(family=variants[0].family, color=variants[0].color, label=label, band=_stacked(variants, at))


def _lines(variants: Iterable[PolicyVariant], others: Sequence[str], *more: str) -> list[list[PolicyVariant]]:
    """Variants that agree in policy and all other parameters, and in these fields."""
    names = (*more, "policy", "label", *others)
    return list(grouped(variants, lambda variant: tuple(_text(variant.cell.value(name)) for name in names)).values())


def _reference(variants: Sequence[PolicyVariant], name: str) -> Any:
    """The value that other parameters are held at: the paper's scale 1, or the first in the sweep file."""
    values = [value for variant in variants if (value := variant.cell.value(name)) is not None]
    return 1.0 if name == "radius_scale" and 1.0 in values else values[0] if values else None


def _held_at(cell: LoadedCell, held: Mapping[str, Any]) -> bool:
    """Whether the cell's parameters are these, as far as it has them."""
    return all(cell.value(name) is None or _text(cell.value(name)) == _text(value) for name, value in held.items())


def _few_lines(lines: list[list[PolicyVariant]], others: Sequence[str]) -> tuple[list[list[PolicyVariant]], str]:
    """Lines that a picture can show, and a note on what was left out.

    Of many these are the lines whose other parameters are those of the reference, then those of each policy's best
    radius scale.
    """
    if len(lines) <= SHOWN:
        return lines, ""
    owners = [variant for line in lines for variant in line]
    held = {other: value for other in others if (value := _reference(owners, other)) is not None}
    rest = {name: value for name, value in held.items() if name != "radius_scale"}
    chosen = [line for line in lines if _held_at(line[0].cell, held)]
    also = ""
    if len(rest) < len(held):
        scaled = [line for line in lines if _held_at(line[0].cell, rest)]
        of_policy = grouped(scaled, lambda line: line[0].cell.policy).values()
        least = [min(group, key=lambda line: min(map(_mean, line))) for group in of_policy]
        best = [line for line in least if not any(line is other for other in chosen)]
        chosen += best
        also = "; besides, each policy's best radius scale" if best else ""
    words = [f"{parameter_name(other)} = {plain_value(value)}" for other, value in held.items()]
    note = f"Other parameters held at {', '.join(words)}{also}; all combinations are in the table."
    return chosen[:SHOWN], note


def _parameter_panel(name: str, others: Sequence[str], members: Sequence[PolicyVariant]) -> ParameterPanel | None:
    """Variants of one set and horizon along a parameter; None where it does not vary."""
    owners = [variant for variant in members if variant.cell.value(name) is not None]
    lines, note = _few_lines(_lines(owners, others), others)  # beside the parameter itself a line's cells are alike
    if not lines or not _differing([variant.cell for variant in owners], [name]):
        return None
    values = [variant.cell.value(name) for line in lines for variant in line]
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    names = () if numeric else tuple(dict.fromkeys(plain_value(value) for value in values))

    def place(variant: PolicyVariant) -> float:
        value = variant.cell.value(name)
        return float(value) if numeric else names.index(plain_value(value))

    drawn = []
    for line in lines:
        ordered = sorted(line, key=place)
        cell = ordered[0].cell
        telling = _differing([other[0].cell for other in lines if other[0].cell.policy == cell.policy], others)
        label = ", ".join([base_label(cell, scaled=name != "radius_scale"), *_named_values(cell, telling)])
        drawn.append(_line(label, ordered, [place(variant) for variant in ordered]))
    without = [variant for variant in members if variant.cell.value(name) is None][: max(0, SHOWN - len(drawn))]
    return ParameterPanel(
        parameter=name,
        title=members[0].cell.set,
        detail=f"T = {members[0].cell.horizon:,}",
        ticks=None if numeric else names,
        lines=tuple(drawn),
        level=tuple(_line(v.label, [v], [math.nan]) for v in without if math.isfinite(float(v.final.mean))),
        note=note,
    )


def _growths(variants: Sequence[PolicyVariant], parameters: Sequence[str]) -> Iterable[GrowthLine]:
    groups = _lines([variant for variant in variants if variant.final.n > 0], parameters, "set", "dtype")
    firsts = [members[0].cell for members in groups]
    for members, first in zip(groups, firsts, strict=True):
        ordered = sorted({variant.cell.horizon: variant for variant in members}.values(), key=lambda v: v.cell.horizon)
        if len(ordered) < 2:
            continue
        twins = [cell for cell in firsts if (cell.set, cell.policy) == (first.set, first.policy)]
        horizons = [variant.cell.horizon for variant in ordered]
        yield GrowthLine(
            family=first.family,
            color=ordered[0].color,
            label=_labels(twins, parameters)[first.id],
            band=_stacked(ordered, horizons),
            theory=ordered[0].theory,
            title=first.set,
            fit=_fitted(ordered, horizons),
        )


def _fitted(variants: Sequence[PolicyVariant], horizons: Sequence[int]) -> regret.Estimate | None:
    values, health = _common_seeds(variants)
    try:
        return regret.exponent_interval(horizons, values, health) if values.size else None
    except ValueError:  # no seed healthy at every horizon, or a mean of 0: no power of T to fit
        return None
