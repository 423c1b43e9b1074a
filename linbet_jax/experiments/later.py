"""Every policy beside every other, with the constants that its proof needs and tuned alike: which learns how fast.

The worlds are S1-S4 and four more: rare spikes (the noise that is hardest for a clipped or truncated estimate), stable
noise (of infinite variance, symmetric), orthonormal arms (no linear structure to use), and decision sets that change at
every pull. A cell is one policy on one world: it plays the tuning replications with every `radius_scale` of the grid,
then the evaluation with the literal scale 1, watched by its region, and with the scale that was best. A policy that
refuses a world, one whose sets change, say, has no cell there.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from linbet_jax.bandits.bandit import LinearBandit
from linbet_jax.bandits.datasets import DATASETS, dataset
from linbet_jax.experiments import shared
from linbet_jax.experiments.driver import CellResult, Experiment, Outputs, Progress, StudyCell, long_form
from linbet_jax.experiments.shared import Task
from linbet_jax.figures.plotting import Curve, Panel, panel_figure
from linbet_jax.noise import CenteredPareto, StudentT, SymmetricStable, TwoPointNoise
from linbet_jax.policies import entry, names
from linbet_jax.simulation.results import Result
from linbet_jax.statistics.intervals import share_interval
from linbet_jax.statistics.regret import Summary, summarize
from linbet_jax.statistics.tables import aligned_table, grouped, number, span
from linbet_jax.statistics.tuning import GRID, choose_scale
from linbet_jax.storage import provenance
from linbet_jax.storage.results import digest

SEED = 11  # of the experiment's key; tuning draws from the next one
SEEDS, TUNING_SEEDS, HORIZON = 16, 4, 10_000
FULL_SEEDS, FULL_HORIZON = 64, 100_000
LONGEST = 60.0  # seconds of a core that a cell may take but with `full`
STAGED = ("sup_bmm", "sup_btc")  # they are not tuned
RECORDS = 50
WORKERS = 2  # one cell compiles while another runs; those that measure time run alone
TIMED, TIMED_SEEDS = ("S1", "orthonormal"), 32  # where a pull is timed, and with how many replications
DELTA, RIDGE = 0.1, 1.0
DIM, ARMS = 10, 20  # of the changing sets


def policies() -> list[str]:
    """The package's own policies, in the order of the registry."""
    return [name for name in names() if entry(name).make.__module__.startswith("linbet_jax.")]


def changing_arms(key: jax.Array, pull: jax.Array) -> jax.Array:
    """`[K, d]` directions, uniform on the unit sphere, drawn anew at every pull."""
    arms = jax.random.normal(jax.random.fold_in(key, pull), (ARMS, DIM))
    return arms / jax.numpy.sqrt(jax.numpy.sum(arms * arms, axis=1, keepdims=True))


def worlds() -> dict[str, LinearBandit]:
    """What is played, by name."""
    unit = np.random.default_rng(0).uniform(size=DIM)
    return {
        **{name: dataset(name) for name in DATASETS},
        "spikes": shared.under("S1", TwoPointNoise(0.03), 1.0, "spikes"),
        "stable": shared.under("S1", SymmetricStable(1.5), 0.4, "stable"),
        "orthonormal": LinearBandit(np.eye(DIM), unit, CenteredPareto(2.0), epsilon=0.5, name="orthonormal"),
        "changing": LinearBandit.changing_sets(
            changing_arms, unit, StudentT(3.0), arm_norm=1.001, epsilon=1.0, name="changing"
        ),
    }


def plan(*, seeds: int | None, full: bool, dtype: str, horizon: int | None = None) -> Experiment:
    """16 seeds and T = 10,000 everywhere; with `full` 64 seeds and T = 100,000."""
    pulls = horizon or (FULL_HORIZON if full else HORIZON)
    asked: dict[str, Any] = {"seeds": seeds or (FULL_SEEDS if full else SEEDS), "dtype": dtype}
    constants: dict[str, Any] = {"scales": (1.0,), "key": SEED, "delta": DELTA, "ridge": RIDGE, **asked}
    everything = [
        Task(place, bandit, _instance(bandit), name, pulls, **constants)
        for place, bandit in worlds().items()
        for name in policies()
    ]
    tasks, cells, refused = shared.affordable(everything, _cell, math.inf if full else LONGEST)
    for task in tasks:
        if _timed(task, tasks):
            task = dataclasses.replace(task, seeds=TIMED_SEEDS)
            cell = task.cell(_time, title=f"{task.title}/time", replications=2 * TIMED_SEEDS)
            cells.append(cell._replace(alone=True))
    config = shared.config_of(tasks, **asked, full=full, horizon=pulls, tuning_seeds=TUNING_SEEDS, grid=list(GRID))

    def show(results: Mapping[str, CellResult]) -> Outputs:
        times = {title: float(result.facts.get("microseconds", math.nan)) for title, result in results.items()}
        findings = [_finding(task, results[task.title], times.get(f"{task.title}/time", math.nan)) for task in tasks]
        return _outputs(findings, [*shared.notes_in(results), *_frozen(tasks)], refused)

    return Experiment("later", config, dtype, cells, (*shared.CODE, _compute, _time, changing_arms), show, WORKERS)


def _cell(task: Task) -> StudyCell:
    played = len(GRID) * TUNING_SEEDS + 2 * task.seeds if _has_radius(task) else task.seeds
    return task.cell(_compute, replications=played, records=RECORDS, tuning_seeds=TUNING_SEEDS)


def _frozen(tasks: Sequence[Task]) -> list[str]:
    """What must be said of epochs on sets that change."""
    changing = [task for task in tasks if task.bandit.changing]
    of_epochs = ", ".join(task.label for task in changing if task.made()[0].pulls_per_epoch > 1)
    what = (
        "keep the set of an epoch's first pull where sets change: their regrets there do not compare with the others'"
    )
    return [f"{of_epochs} {what}"] if of_epochs else []


def _instance(bandit: LinearBandit) -> str:
    """A hash of the world; that of sets that change leaves out their sampler, whose source is part of the code."""
    if bandit.changing:
        return digest([np.asarray(bandit.theta_star).tolist(), repr(bandit.noise)])
    return provenance.instance_digest(bandit)


def _has_radius(task: Task) -> bool:
    """Whether a scale can be tuned. Of stages it cannot: small ones leave them empty, and the longest arm is played."""
    return task.policy not in STAGED and task.tunable


def _timed(task: Task, tasks: Sequence[Task]) -> bool:
    """Whether the processor time is measured here: on S1, else on orthonormal arms; OFUL's on both."""
    there = {other.place for other in tasks if other.policy == task.policy}.intersection(TIMED)
    return task.place in there and (task.policy == "oful" or task.place == min(there, key=TIMED.index))


def _compute(task: Task, progress: Progress) -> CellResult:
    """Tuning, then evaluation through the same compiled program."""
    more: dict[str, Any] = {"num_records": RECORDS, "coverage": _watched(task)}
    chosen = 1.0
    if _has_radius(task):
        tuning = dataclasses.replace(task, scales=GRID, seeds=TUNING_SEEDS, key=task.key + 1)
        played = shared.finals(tuning.play(progress, **more))
        chosen = choose_scale(played["regret"], played["health"])
        # Two different scales even where tuning chose 1: one alone would be another program.
        task = dataclasses.replace(task, scales=(1.0, chosen if chosen != 1.0 else GRID[1]))
    results = task.play(progress, **more)
    columns = long_form(
        {"scale": range(len(results)), "seed": range(task.seeds), "pull": results[0].rounds},
        {
            "regret": shared.stacked(results, "regret"),
            "health": shared.finals(results)["health"][..., None],
            "worst_ratio": np.stack([_ratios(result) for result in results])[..., None],
        },
    )
    return CellResult(columns, {"chosen_radius_scale": chosen, "notes": shared.notes_of(results[:1])})


def _watched(task: Task) -> bool:
    """Whether the policy has a region with a radius; nothing is run."""
    policy, [params, *_] = task.made()
    region, fixed = policy.region, task.bandit.arms is not None
    if region is None:
        return False

    def radius(arms: Any, params: Any) -> Any:
        return region(policy.init(arms if fixed else None, params), arms, params).radius

    kind = np.dtype(task.dtype)
    shapes = jax.tree.map(lambda _: jax.ShapeDtypeStruct((), kind), params)
    arms = jax.ShapeDtypeStruct((task.bandit.num_arms, task.bandit.dim), kind)
    return jax.eval_shape(radius, arms, shapes) is not None


def _time(task: Task, progress: Progress) -> CellResult:
    """Processor time of a pull of one replication, the second time that a program runs which watches nothing."""
    task.play(progress)
    begun = time.process_time()
    task.play(progress)
    microseconds = 1e6 * (time.process_time() - begun) / task.pulls
    return CellResult({"replications": np.array([task.seeds])}, {"microseconds": microseconds, "notes": []})


def _ratios(result: Result) -> NDArray[np.float64]:
    """`[S]` worst ratios of error to radius; NaN where there is no region."""
    seen = result.coverage
    return np.full(result.health.shape, np.nan) if seen is None else np.asarray(seen.worst_ratio, np.float64)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One policy on one world."""

    task: Task  # what was played
    pulls: NDArray[np.int64]  # `[R]` pulls that were recorded
    literal: NDArray[np.float64]  # `[S, R]` regret with the literal scale
    tuned: NDArray[np.float64]  # `[S, R]` with the chosen one; the literal again where nothing is tuned or 1 was chosen
    chosen: float  # that scale
    health: NDArray[np.int64]  # `[2, S]` health words of both
    # `[S]` worst ratios of error to radius under literal play, NaN where there is no region
    ratios: NDArray[np.float64]
    microseconds: float  # processor time of a pull of one replication; NaN where it was not measured

    @property
    def ends(self) -> tuple[Summary, Summary]:
        """Final regret, literal and tuned."""
        return summarize(self.literal[:, -1], self.health[0]), summarize(self.tuned[:, -1], self.health[1])

    @property
    def unhealthy(self) -> int:
        """Replications that met something non-finite; the literal ones once where they are the tuned ones too."""
        return int(np.count_nonzero(self.health[:1] if self.chosen == 1.0 else self.health))

    @property
    def curve(self) -> Summary:
        """Literal regret, `[R]`."""
        return summarize(self.literal, self.health[0])

    @property
    def title(self) -> str:
        """Of its world."""
        return TITLES.get(self.task.place, self.task.described)

    @property
    def label(self) -> str:
        """The policy's name, with a star where its region is proved for what is played here."""
        return self.task.label + "*" * self.proved

    @property
    def proved(self) -> bool:
        """Whether its guarantee holds here: for adaptive play, and under this noise."""
        about = entry(self.task.policy)
        # No world here has sub-Gaussian noise of the scale that is told, or a best arm of truncated non-positivity.
        return about.valid == "adaptive" and not about.assumption.startswith(("sub-Gaussian", "truncated"))

    @property
    def covered(self) -> tuple[float, float, float]:
        """Share of the healthy seeds whose region held at every update under literal play, with its 95% interval."""
        ratios = self.ratios[self.health[0] == 0]
        if not ratios.size or np.isnan(ratios).any():
            return math.nan, math.nan, math.nan
        held = int(np.count_nonzero(ratios <= 1))
        return held / ratios.size, *share_interval(held, ratios.size, method="clopper-pearson")


def _finding(task: Task, result: CellResult, microseconds: float = math.nan) -> Finding:
    pulls = np.unique(result.columns["pull"])
    columns = result.shaped(-1, task.seeds, pulls.size)
    chosen = float(result.facts["chosen_radius_scale"]) if _has_radius(task) else 1.0
    other = 0 if chosen == 1.0 else -1
    return Finding(
        task,
        pulls,
        literal=columns["regret"][0],
        tuned=columns["regret"][other],
        chosen=chosen,
        health=columns["health"][[0, other], :, 0],
        ratios=columns["worst_ratio"][0, :, 0],
        microseconds=microseconds,
    )


LEGEND = (
    "Mean final pseudo-regret with its 95% interval (Student t); literal: with the constants of the policy's proof; "
    "tuned: every radius or width times the scale that was best on {tuning} other seeds (not of policies with stages). "
    "Rank: 1 has the least mean. "
    "Of uniform: literal regret as a share of uniform play's. Covered: share of seeds whose region (or whose widths, "
    "for elimination) held at every update under literal play, with its 95% Clopper-Pearson interval; δ = {delta:g} "
    "promises {promise:g}. Worst ratio: the largest ratio of error to radius that any seed met. *: proved for "
    "adaptive play under this noise."
)
HEADER = (
    "policy", "literal regret", "rank", "of uniform", "scale", "tuned regret", "rank", "covered", "worst ratio",
)  # fmt: skip
TITLES = {
    "spikes": "spikes: S1's arms, rare far payoffs",
    "stable": "stable: S1's arms, stable noise",
    "orthonormal": "orthonormal: K=d=10, Pareto noise",
    "changing": "changing: 20 new arms a pull, t(3)",
}
TIME = "Processor time of a pull of one replication"
TIME_HEADER = ("policy", "world", "µs", "over OFUL's")
NOTE = (
    "Mean cumulative pseudo-regret with the constants of each policy's proof, with 95% intervals. Bold: proved for "
    "adaptive play under this noise. Coloured dashes: the curve lies on another one."
)


def _outputs(findings: Sequence[Finding], notes: Sequence[str], refused: Sequence[str]) -> Outputs:
    task = findings[0].task
    setting = f"{task.setting.replace(', ', f', T = {task.horizon:,}, ', 1)}"
    legend = LEGEND.format(tuning=TUNING_SEEDS, delta=DELTA, promise=1 - DELTA)
    places = grouped(findings, lambda finding: finding.task.place)
    unhealthy = sum(finding.unhealthy for finding in findings)
    text, markdown = [], [f"# Every policy beside every other ({setting})", "", legend, ""]
    headlines = [_headline(place, of_place) for place, of_place in places.items()]
    markdown += shared.listed("Which learns fastest as proved", headlines)
    for of_place in places.values():
        rows, title = _rows(of_place), of_place[0].title
        text += [title, aligned_table(HEADER, rows, left=1), ""]
        markdown += shared.section(title, HEADER, rows)
    timed = _times(findings)
    text += [TIME, aligned_table(TIME_HEADER, timed, left=2), "", f"({setting}) {legend}", "", *headlines]
    text += shared.unhealthy_line(unhealthy)
    markdown += shared.section(TIME, TIME_HEADER, timed)
    markdown += shared.listed("What is not played", [f"{reason}." for reason in refused])
    markdown += shared.notes_section(notes, unhealthy)
    documents = {"later.md": "\n".join(markdown), "later.csv": shared.csv_of([_record(f) for f in findings])}
    return Outputs("\n".join(text), {"later": _figure(places, setting)}, documents, unhealthy)


def _shares(findings: Sequence[Finding]) -> dict[str, str]:
    """Every policy's literal regret as a share of uniform play's."""
    means = {finding.task.policy: float(finding.ends[0].mean) for finding in findings}
    return {policy: f"{mean / means['uniform']:.3f}" for policy, mean in means.items()}


def _headline(place: str, findings: Sequence[Finding]) -> str:
    """The best policy that is proved here, and the best of all, as proved."""
    shares, in_order = _shares(findings), sorted(findings, key=lambda finding: float(finding.ends[0].mean))
    first, best = in_order[0].task, next(finding.task for finding in in_order if finding.proved)
    said = f"{place}: of those proved here {best.label} learns fastest, {shares[best.policy]} of uniform play's regret"
    return said if first is best else f"{said}; of all {first.label}, {shares[first.policy]}"


def _rows(findings: Sequence[Finding]) -> list[list[str]]:
    shares = _shares(findings)
    ends = [finding.ends for finding in findings]
    means = np.array([[literal.mean, tuned.mean] for literal, tuned in ends])
    ranks = 1 + np.sum(means[:, None] > means[None], axis=1)  # equal means have one rank
    rows = []
    for finding, (literal, tuned), (rank, tuned_rank) in zip(findings, ends, ranks, strict=True):
        worst = np.max(finding.ratios)
        row = [finding.label, shared.mean_text(literal), f"{rank}", shares[finding.task.policy], f"×{finding.chosen:g}"]
        row += [shared.mean_text(tuned), f"{tuned_rank}", span(*finding.covered, digits=2)]
        rows.append([*row, "–" if np.isnan(worst) else number(worst)])
    return rows


def _times(findings: Sequence[Finding]) -> list[list[str]]:
    """Time of a pull of every policy, and as a ratio to OFUL's where both were measured in one world."""
    timed = [finding for finding in findings if not math.isnan(finding.microseconds)]
    oful = {finding.task.place: finding.microseconds for finding in timed if finding.task.policy == "oful"}
    rows = []
    for finding in timed:
        place, each = finding.task.place, finding.microseconds
        rows.append([finding.task.label, place, number(each, 2), number(each / oful.get(place, math.nan), 2)])
    return rows


def _figure(places: Mapping[str, Sequence[Finding]], setting: str) -> Any:
    """Literal regret, a panel for each world, in two rows of equally many."""
    panels = [
        Panel(of_place[0].title, [Curve(f.task.policy, 1.0, f.pulls, f.curve, bold=f.proved) for f in of_place])
        for of_place in places.values()
    ]
    width = len(panels) // (2 if len(panels) % 2 == 0 else 1)
    return panel_figure(
        [("literal radii", panels[first : first + width]) for first in range(0, len(panels), width)],
        quantity="cumulative pseudo-regret",
        spread="interval",
        nonnegative=True,
        title=shared.unbroken(f"Every policy with the constants of its proof ({setting})"),
        note=NOTE,
    )


def _record(finding: Finding) -> dict[str, object]:
    literal, tuned = finding.ends
    played = {"world": finding.task.place, "policy": finding.task.policy, "horizon": finding.task.horizon}
    statistics = ("mean", "sd", "low", "high")
    worst = float(np.max(finding.ratios))
    return {
        **played,
        "proved": "yes" if finding.proved else "no",
        "seeds": literal.n,
        "unhealthy": literal.unhealthy,
        **shared.statistics_of("literal_", literal, *statistics),
        "radius_scale": finding.chosen,
        **shared.statistics_of("tuned_", tuned, *statistics),
        **dict(zip(("covered", "covered_low", "covered_high"), finding.covered, strict=True)),
        "worst_ratio": worst,
        "microseconds": finding.microseconds if not math.isnan(finding.microseconds) else None,
    }
