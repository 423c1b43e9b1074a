"""float32 against float64: when do the arms of a run part, and does its regret move?

Every policy plays every data set twice on the same seeds, once in float32 and once in float64. The noise of a seed is
the same up to rounding, so that two runs play the same arms until an index of one arm passes another's by less than
rounding. From there on they are two runs of the same policy that saw the same noise.

When float32 is safe (`linbet reproduce precision` measures it):

- for statistics over seeds while a policy explores, as it does at the papers' radii: the differences are those of two
  equally good runs, and average out;
- not, over long horizons, for statistics of a policy that has settled on an arm (a small radius_scale): its sums of
  payoffs times features grow with t. The sums themselves lose nothing (they are compensated), but float32 rounds V^-1
  and its product with them, most of all in the directions that are hardly played any more, so that the policy plays
  other arms now and then: TOFU with radius_scale 0.03 on S1 pays for that at T = 10^5. Use float64 there;
- not for arms or curves of one seed under a policy that decides at every pull (TOFU, CRT, OFUL): within a few hundred
  pulls nearly every seed plays other arms than in float64. MENU and MoM, which decide once an epoch, mostly agree at
  T = 10^4 and less at 10^5. Use float64 to replay, to compare with another program, or to pair runs seed by seed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from linbet_jax.bandits.datasets import DATASETS
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, long_form
from linbet_jax.experiments.shared import POLICIES, Sample, Task
from linbet_jax.figures.plotting import COLORS, Chart, Series, chart_figure
from linbet_jax.simulation.results import Result
from linbet_jax.statistics.intervals import share_interval
from linbet_jax.statistics.regret import Summary
from linbet_jax.statistics.tables import aligned_table, grouped, latex_table, markdown_table, number

SCALES = (1.0, 0.03)  # the papers' radii, and radii under which a policy settles on an arm
DTYPES = ("float64", "float32")
SEED = 0  # of the experiment's key
GROUP = 32  # seeds whose arms are held at once: memory does not grow with the number of seeds
_LEVEL = 0.05
_ROUNDING = 1e-6  # relative, of a float32 sum
_HEADER = ("set", "T", "policy", "scale", "agree", "first divergence: min", "median", "equal pulls",
           "regret", "Δ regret")  # fmt: skip


def plan(*, seeds: int | None, full: bool) -> Experiment:
    """T = 10^4 on S1-S4 and T = 10^5 on S1 and S3; with `full` 10^5 on all four, and 256 seeds instead of 32."""
    long = tuple(DATASETS) if full else ("S1", "S3")
    places = [(name, 10_000) for name in DATASETS] + [(name, 100_000) for name in long]
    seeds = seeds or (256 if full else 32)
    settings = {"seeds": seeds, "scales": SCALES, "key": SEED, "dtype": DTYPES[0]}
    tasks = [Task.on(name, policy, horizon=pulls, **settings) for name, pulls in places for policy in POLICIES]
    cells = []
    for task in tasks:
        title, both = f"{task.title}/T={task.horizon}", 2 * task.replications
        cells.append(task.cell(_compute, title=title, replications=both, programs=2, dtype="both"))
    runs = [cell.title for cell in cells]
    config = shared.config_of(tasks, seeds=seeds, radius_scales=list(SCALES), key=SEED, runs=runs)

    def show(results: Mapping[str, CellResult]) -> Outputs:
        pairs = zip(tasks, results.values(), strict=True)
        return _outputs([comparison for task, result in pairs for comparison in compare(task, result)])

    return Experiment("precision", config, "both", cells, (*shared.CODE, _compute), show)


def _compute(task: Task, progress: Progress) -> CellResult:
    """Where the arms part, and the regret in both types, by scale and seed.

    `first` is the first pull at which the arms differ, 0 if none, and `equal` the share of pulls with the same arm;
    beside them are regret and health in both types.
    """
    policy, grid = task.made()

    def play(dtype: str, seeds: NDArray[np.int64]) -> list[Result]:
        same = dataclasses.replace(task, dtype=dtype)
        return same.play(None, (policy, grid), num_seeds=None, seeds=seeds, trace=True)

    groups = []
    for start in range(0, task.seeds, GROUP):
        seeds = np.arange(start, min(start + GROUP, task.seeds))
        with ThreadPoolExecutor(len(DTYPES)) as pool:  # one type compiles while the other does
            results = dict(zip(DTYPES, pool.map(play, DTYPES, [seeds] * len(DTYPES)), strict=True))
        differ = np.stack([_arms(a) != _arms(b) for a, b in zip(*results.values(), strict=True)])
        group = {
            "first": np.where(differ.any(axis=2), differ.argmax(axis=2) + 1, 0),
            "equal": 1 - differ.mean(axis=2),
        }
        for dtype in DTYPES:
            group |= {f"{name}_{dtype}": values for name, values in shared.finals(results[dtype]).items()}
        groups.append(group)
        progress.advance(2 * seeds.size * len(grid) * task.horizon)
    whole = {name: np.concatenate([group[name] for group in groups], axis=1) for name in groups[0]}
    return CellResult(long_form({"radius_scale": task.scales, "seed": range(task.seeds)}, whole))


def _arms(result: Result) -> NDArray[np.int32]:
    assert result.trace is not None
    return result.trace.arms


@dataclasses.dataclass(frozen=True)
class DtypeComparison:
    """One policy with one radius scale in both types."""

    wide: Sample  # in float64
    narrow: Sample  # in float32
    first: NDArray[np.int64]  # [S] first pull at which the arms differ, 0 for none
    equal: NDArray[np.float64]  # [S] share of pulls with equal arms

    @property
    def task(self) -> Task:
        """What was played."""
        return self.wide.task

    @property
    def name(self) -> str:
        """As a sentence names it."""
        return f"{self.task.place} {self.task.label} ×{self.wide.radius_scale:g} T={self.task.horizon}"

    @functools.cached_property
    def difference(self) -> Summary:
        """Final regret in float32 minus that in float64, seed by seed."""
        return self.narrow.minus(self.wide)

    @property
    def unhealthy(self) -> int:
        """Replications of either type that met something non-finite."""
        return self.wide.unhealthy + self.narrow.unhealthy

    @property
    def agreeing(self) -> int:
        """Seeds whose arms agree over the whole run."""
        return int(np.count_nonzero(self.first == 0))

    def quantile(self, probability: float) -> float:
        """Quantile of the first divergence over the seeds that diverge; NaN when none does."""
        parted = self.first[self.first > 0]
        return float(np.quantile(parted, probability)) if parted.size else float("nan")

    @property
    def chance(self) -> float:
        """Two-sided probability, by Student's t, of a mean difference as large as this if there were none.

        A mean difference within float32's rounding of a sum is none: 1. NaN for fewer than two seeds.
        """
        if not self.difference.has_band:
            return float("nan")
        mean, error = abs(float(self.difference.mean)), float(self.difference.standard_error)
        if mean <= _ROUNDING * abs(float(self.wide.summary.mean)):
            return 1.0
        return float(2 * stdtr(self.difference.n - 1, -mean / error)) if error > 0 else 0.0


def compare(task: Task, result: CellResult) -> list[DtypeComparison]:
    """One for each scale, from a cell's result."""
    columns = result.shaped(len(task.scales), task.seeds)
    wide, narrow = (
        [Sample(task, *row) for row in zip(task.scales, columns[f"regret_{t}"], columns[f"health_{t}"], strict=True)]
        for t in DTYPES
    )
    return [DtypeComparison(*row) for row in zip(wide, narrow, columns["first"], columns["equal"], strict=True)]


def advice(comparisons: Sequence[DtypeComparison]) -> list[str]:
    """What the numbers say about when float32 is safe, in sentences."""
    compared = [c for c in comparisons if c.difference.has_band]
    by_chance = [c for c in compared if c.chance < _LEVEL]
    # Bonferroni: over all comparisons together, a policy without any difference is named with probability 5% at most.
    moved = [c for c in by_chance if c.chance < _LEVEL / len(compared)]
    named = "; ".join(f"{c.name}: {shared.mean_text(c.difference)} of {number(c.wide.summary.mean)}" for c in moved)
    verdict = (
        f"{len(moved)} also after correction for the number of comparisons ({named}): use float64 there"
        if moved
        else "none after correction for the number of comparisons: float32 is safe for these statistics over seeds"
    )
    sentences = [
        f"Mean final regret: of {len(compared)} paired differences float32 - float64, {len(by_chance)} have a 95% "
        f"interval without 0 ({_LEVEL * len(compared):.1g} expected by chance), {verdict}.",
    ]
    for policy, of_policy in grouped(comparisons, lambda c: c.task.label).items():
        shares = []
        for horizon, same in grouped(of_policy, lambda c: c.task.horizon).items():
            count, total = sum(c.agreeing for c in same), sum(c.first.size for c in same)
            shares.append(f"{count} of {total} at T = {horizon:,}")
        parted = np.concatenate([c.first[c.first > 0] for c in of_policy])
        when = f"; where they part, half do by pull {np.median(parted):,.0f}" if parted.size else ""
        sentences.append(f"{policy}, replications that play the same arms throughout: {', '.join(shares)}{when}.")
    unhealthy = sum(c.unhealthy for c in comparisons)
    sentences.append(f"Replications that met a non-finite number in either type: {unhealthy}.")
    return sentences


def _outputs(comparisons: Sequence[DtypeComparison]) -> Outputs:
    rows, sentences, seeds = [_row(c) for c in comparisons], advice(comparisons), comparisons[0].first.size
    heading = f"float32 against float64, {seeds} seeds, the same noise; Δ is float32 - float64"
    caption = f"float32 against float64 over {seeds} seeds; brackets: 95% intervals."
    markdown = ["# float32 against float64", "", f"The same {seeds} seeds in both types. {LEGEND}", ""]
    markdown += [*markdown_table(_HEADER, rows), *shared.listed("When float32 is safe", sentences)]
    figures = {
        f"agreement_{horizon}": chart_figure(
            _charts(of_horizon, horizon),
            title=f"float32 against float64 at T = {horizon:,}: seeds whose arms have all been the same so far",
            note=f"{seeds} seeds; both runs of a seed meet the same noise, up to rounding.",
        )
        for horizon, of_horizon in grouped(comparisons, lambda c: c.task.horizon).items()
    }
    documents = {
        "precision.md": "\n".join(markdown),
        "precision.tex": latex_table(_HEADER, rows, caption=caption, label="table:precision"),
        "precision.csv": shared.csv_of([record for c in comparisons for record in _records(c)]),
    }
    text = "\n".join([heading, aligned_table(_HEADER, rows, left=3), "", *sentences])
    return Outputs(text, figures, documents, sum(c.unhealthy for c in comparisons), sections={"advice": sentences})


LEGEND = (
    "Agree: seeds whose arms agree over the whole run, with the\n"
    "exact binomial 95% interval. First divergence: over the seeds that diverge. Equal pulls: pulls with the same\n"
    "arm, mean over seeds. Δ regret: float32 minus float64 at the horizon, seed by seed, with its 95% interval\n"
    "(Student t)."
)


def _row(c: DtypeComparison) -> list[str]:
    low, high = share_interval(c.agreeing, c.first.size, method="clopper-pearson")
    return [
        c.task.place,
        f"{c.task.horizon:,}",
        c.task.label,
        f"×{c.wide.radius_scale:g}",
        f"{c.agreeing}/{c.first.size} [{low:.2f}, {high:.2f}]",
        *("–" if np.isnan(pull) else f"{pull:,.0f}" for pull in (c.quantile(0), c.quantile(0.5))),
        f"{100 * float(np.mean(c.equal)):.1f}%",
        number(c.wide.summary.mean),
        shared.mean_text(c.difference),
    ]


def _records(c: DtypeComparison) -> list[dict[str, object]]:
    """One per replication, so that any other statistic can be made of it."""
    task = c.task
    played = {"set": task.place, "horizon": task.horizon, "policy": task.policy, "radius_scale": c.wide.radius_scale}
    columns = {
        "seed": np.arange(c.first.size),
        "first_divergence": c.first,
        "equal_pulls": c.equal,
        "regret_float64": c.wide.regret,
        "regret_float32": c.narrow.regret,
        "health_float64": c.wide.health,
        "health_float32": c.narrow.health,
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [{**played, **dict(zip(columns, row, strict=True))} for row in rows]


def _charts(comparisons: Sequence[DtypeComparison], horizon: int) -> list[list[Chart]]:
    """The share of seeds that still agree, against the pull; a row for each scale, a column for each set."""

    def chart(scale: float, set_name: str, of_set: Sequence[DtypeComparison]) -> Chart:
        series = [
            Series(c.task.label, COLORS[c.task.policy], *_survival(c.first, horizon), marker="")
            for c in of_set
            if c.wide.radius_scale == scale
        ]
        title = f"{set_name}, radius_scale ×{scale:g}"
        return Chart(title, "pulls", "seeds still in agreement", series, (True, False), (-0.03, 1.05))

    sets = grouped(comparisons, lambda c: c.task.place)
    return [[chart(scale, name, of_set) for name, of_set in sets.items()] for scale in SCALES]


def _survival(first: NDArray[np.int64], horizon: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A step function from 1: pulls and shares."""
    times = np.sort(np.where(first > 0, first, np.iinfo(np.int64).max))
    at = np.unique(np.concatenate([[1], times[times <= horizon], [horizon]])).astype(np.float64)
    after = np.array([(times > t).mean() for t in at])
    before = np.array([(times >= t).mean() for t in at])
    return np.repeat(at, 2), np.stack([before, after], axis=1).reshape(-1)
